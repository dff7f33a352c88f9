//! Every table, and the one trait through which rows are read.
//!
//! Keys are byte strings that sort as the queries need ([`super::rows`] builds them), values are stored records. A name ends in
//! its version: a changed layout is a new table.

use std::{ops::ControlFlow, sync::Mutex};

use redb::{ReadableTable, ReadableTableMetadata as _, TableDefinition, TableHandle as _};

use super::{StoreError, fault, snapshot::Snapshot, txn::Txn};
use crate::{authority::OpsCache, backend::salt::RowKey, body::ManifestCache, columns::ColumnsCache};

pub(crate) type Table = TableDefinition<'static, &'static [u8], &'static [u8]>;

macro_rules! tables {
    ($($(#[$meta:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$meta])* pub(crate) const $name: Table = Table::new($text);)*
        /// All of them, for making and for emptying.
        pub(crate) const ALL: &[Table] = &[$($name),*];
        const NAMES: &[&str] = &[$($text),*];
    };
}

tables! {
    /// "layout" -> number of the layout of all tables.
    LAYOUT = "layout-1";

    // Signed entries and what follows from them.
    /// record id -> kind, scope, hlc, exact signed bytes.
    ENTRIES = "entries-1";
    /// record id -> state, when received.
    STATES = "entry-states-1";
    /// state, when received, record id.
    BY_STATE = "entries-by-state-1";
    /// mesh or domain, kind, record id.
    BY_SCOPE = "entries-by-scope-1";
    /// table id, kind, record id.
    BY_TABLE = "entries-by-table-1";
    /// storage id, kind, record id.
    BY_OBJECT = "entries-by-object-1";
    /// manifest hash, record id of an access record that names it.
    BY_MANIFEST = "access-by-manifest-1";
    /// kek id, kind, record id.
    BY_KEK = "entries-by-kek-1";
    /// author, mesh or domain, seq, record id.
    BY_SEQ = "entries-by-seq-1";
    /// domain, catalogue, restore epoch, version, record id of an Inventory version.
    BY_VERSION = "inventory-versions-1";
    /// hlc, record id of an entry that is ahead of our clock.
    AHEAD = "entries-ahead-1";
    /// state, or 128 + byte state -> number of entries or objects in it.
    STATE_COUNTS = "state-counts-1";
    /// Things an operator should hear of: number -> alarm.
    ALARMS = "alarms-1";

    // What peers reconcile (DESIGN §8).
    /// mesh or domain, generation, day, hlc, element id -> record id, kek id.
    SYNC = "sync-elements-1";
    /// mesh or domain, generation, day -> number of elements, their sum.
    SHARDS = "shards-1";
    /// element id -> record id, kek id.
    ELEMENTS = "elements-1";
    /// record id, kek id -> mesh or domain, generation.
    SEALS = "seals-1";
    /// hash of sealed bytes that do not open yet -> element id, reason, bytes.
    HELD = "held-1";
    /// element id -> hash of the held bytes.
    HELD_BY_ELEMENT = "held-by-element-1";
    /// kek id, hash of the held bytes.
    HELD_BY_KEK = "held-by-kek-1";
    /// hash of exact bytes that were refused -> when, why.
    REFUSALS = "refusals-1";
    /// when, hash.
    REFUSALS_BY_TIME = "refusals-by-time-1";

    // Bytes of objects.
    /// storage id -> byte state.
    BYTES = "byte-states-1";
    /// byte state, storage id.
    BYTES_BY_STATE = "bytes-by-state-1";
    /// storage id, site -> who was asked, when, why it failed, when next.
    HOLDERS = "holders-1";

    /// store, hash of a path, number -> a part of a document; its row in `documents-1` has the hash.
    DOCUMENT_PARTS = "document-parts-1";

    /// openmls rows, opaque both ways: the mesh seals them under its own row key.
    MLS = "mls-1";

    // Rows no signature covers: each value is sealed with its table and key (DESIGN §5).
    /// storage id -> an object that no entry names: being made, or left over.
    UNPUBLISHED = "unpublished-1";
    /// number -> a collection.
    AUDIT = "audit-1";
    /// storage id, site -> receipt.
    RECEIPTS = "receipts-1";
    /// name -> value.
    META = "meta-1";
    /// invite id -> invite.
    INVITES = "invites-1";
    /// number -> message to send.
    OUTBOX = "outbox-1";
    /// store, path -> length and hash of a document of the Inventory.
    DOCUMENTS = "documents-1";
    /// name -> reserved number.
    CEILINGS = "ceilings-1";
    /// "commits" -> number of commits.
    COUNTER = "counter-1";
}

pub(crate) const LAYOUT_NAME: &str = "layout-1";
pub(crate) const ENTRIES_NAME: &str = "entries-1";

/// A stored row: key and value.
pub type Row = (Vec<u8>, Vec<u8>);

/// Sees one row after the other, until it breaks. It must not touch the store.
#[allow(unreachable_pub, reason = "sealed: named by methods of the sealed `Rows`")]
pub type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// Reads rows, in a step or in a snapshot.
#[allow(
    unreachable_pub,
    reason = "sealed: named by the public `Read`, implemented only here"
)]
pub trait Rows {
    /// The value of a key.
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Visits rows from `from` (included) on.
    fn scan_from(&self, table: &Table, from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError>;

    /// The last row whose key is below `below`.
    fn last_below(&self, table: &Table, below: &[u8]) -> Result<Option<Row>, StoreError>;

    /// Number of rows.
    fn count(&self, table: &Table) -> Result<u64, StoreError>;

    /// Key of the tags on rows that no signature covers.
    fn row_key(&self) -> &RowKey;

    /// Membership ops already verified, shared by all steps and snapshots.
    fn ops_cache(&self) -> &Mutex<OpsCache>;

    /// Decoded manifests, shared likewise.
    fn manifest_cache(&self) -> &Mutex<ManifestCache>;

    /// Columns of tables by version, shared likewise.
    fn columns_cache(&self) -> &Mutex<ColumnsCache>;

    /// Visits all rows whose key starts with `prefix`.
    fn scan(&self, table: &Table, prefix: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.scan_from(table, prefix, &mut |key, value| {
            if key.starts_with(prefix) {
                visit(key, value)
            } else {
                ControlFlow::Break(())
            }
        })
    }

    /// Keys that start with `prefix`, at most `limit`.
    fn keys(&self, table: &Table, prefix: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut keys = Vec::new();
        self.scan(table, prefix, &mut |key, _| {
            if keys.len() == limit {
                return ControlFlow::Break(());
            }
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        Ok(keys)
    }

    /// Rows whose key starts with `prefix`.
    fn rows(&self, table: &Table, prefix: &[u8]) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        self.scan(table, prefix, &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }
}

fn scan_table(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    from: &[u8],
    visit: &mut Visit<'_>,
) -> Result<(), StoreError> {
    for row in table.range(from..).map_err(fault)? {
        let (key, value) = row.map_err(fault)?;
        if visit(key.value(), value.value()).is_break() {
            break;
        }
    }
    Ok(())
}

fn last_of(table: &impl ReadableTable<&'static [u8], &'static [u8]>, below: &[u8]) -> Result<Option<Row>, StoreError> {
    let last = table
        .range(..below)
        .map_err(fault)?
        .next_back()
        .transpose()
        .map_err(fault)?;
    Ok(last.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())))
}

macro_rules! impl_rows {
    ($type:ty, $($borrow:tt)?) => {
        impl Rows for $type {
            fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
                let table = self.table(table)?;
                let value = table.get(key).map_err(fault)?;
                Ok(value.map(|value| value.value().to_vec()))
            }

            fn scan_from(&self, table: &Table, from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
                scan_table($($borrow)? self.table(table)?, from, visit)
            }

            fn last_below(&self, table: &Table, below: &[u8]) -> Result<Option<Row>, StoreError> {
                last_of($($borrow)? self.table(table)?, below)
            }

            fn count(&self, table: &Table) -> Result<u64, StoreError> {
                self.table(table)?.len().map_err(fault)
            }

            fn row_key(&self) -> &RowKey {
                &self.inner().keys.rows
            }

            fn ops_cache(&self) -> &Mutex<OpsCache> {
                &self.inner().ops
            }

            fn manifest_cache(&self) -> &Mutex<ManifestCache> {
                &self.inner().manifests
            }

            fn columns_cache(&self) -> &Mutex<ColumnsCache> {
                &self.inner().columns
            }
        }
    };
}

impl_rows!(Snapshot,);
impl_rows!(Txn, &);

/// Where among [`ALL`] a table stands.
pub(super) fn index(table: &Table) -> Option<usize> {
    NAMES.iter().position(|name| *name == table.name())
}

/// A table's name as it stands in the file. (A definition lends its name for a borrow only.)
pub(crate) fn name(table: &Table) -> &'static str {
    NAMES
        .iter()
        .find(|name| **name == table.name())
        .copied()
        .unwrap_or("catalogue")
}
