//! One consistent view of the catalogue.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use super::{
    Inner, StoreError, fault,
    tables::{self, Table},
};

/// A table of redb, open for reading.
type OpenTable = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

/// What was committed when the snapshot was taken. Later commits don't change it; [`crate::Read`] has the questions.
pub struct Snapshot {
    txn: redb::ReadTransaction,
    /// Tables that were asked for, in the order of all: looking one up costs as much as reading a row.
    open: [OnceLock<OpenTable>; tables::ALL.len()],
    inner: Arc<Inner>,
}

impl Snapshot {
    pub(super) const fn over(txn: redb::ReadTransaction, inner: Arc<Inner>) -> Self {
        Self {
            txn,
            open: [const { OnceLock::new() }; tables::ALL.len()],
            inner,
        }
    }

    /// A table of the snapshot.
    pub(super) fn table(&self, table: &Table) -> Result<&OpenTable, StoreError> {
        let slot = tables::index(table).and_then(|index| self.open.get(index));
        let slot = slot.ok_or_else(|| StoreError::RowForm(tables::name(table)))?;
        if let Some(open) = slot.get() {
            return Ok(open);
        }
        let open = self.txn.open_table(*table).map_err(fault)?;
        Ok(slot.get_or_init(|| open))
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshot(..)")
    }
}
