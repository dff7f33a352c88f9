//! Entries that an earlier build kept without being able to read them (SOP-4).

use sovm_object::{
    entry::{EntryIn, EntryKind},
    id::RecordId,
};

use super::{ahead_key, facets::Facets, seal_value};
use crate::{
    body,
    read::Read as _,
    store::{
        StoreError,
        rows::{EntryRow, Key, Scope, form, record_at_end},
        tables::{AHEAD, BY_SCOPE, BY_STATE, ENTRIES, Rows as _, SEALS},
        txn::Txn,
    },
};

impl Txn {
    /// Decodes the manifests that an earlier build could not read once more, and gives the number that this build reads. What they count
    /// for, and what waits for them, is judged as if they had come now. To be called once after a start.
    pub fn decode_again(&mut self, now_ms: u64) -> Result<usize, StoreError> {
        let mut read = 0;
        for scope in self.scopes()? {
            let prefix = Key::new().scope(scope).kind(EntryKind::NewerManifest);
            for key in self.keys(&BY_SCOPE, &prefix, usize::MAX)? {
                read += usize::from(self.decode_one_again(&record_at_end(&BY_SCOPE, &key)?, now_ms)?);
            }
        }
        self.settle_queue()?;
        Ok(read)
    }

    fn decode_one_again(&mut self, id: &RecordId, now_ms: u64) -> Result<bool, StoreError> {
        let row = body::row(self, id)?.ok_or_else(|| form(&ENTRIES))?;
        // One that travelled in two domains stands in both lists and is done at the first.
        if row.kind != EntryKind::NewerManifest {
            return Ok(false);
        }
        // What is stored was verified. A build that finds another fault in it than the one before leaves it where it is.
        let Ok(entry) = EntryIn::decode(&row.bytes) else {
            return Ok(false);
        };
        if entry.kind() == EntryKind::NewerManifest {
            return Ok(false);
        }
        let scopes = self.scopes_of(id, &row)?;
        for (table, key) in Facets::of(&row)?.index_keys(id, &row) {
            self.remove(&table, &key)?;
        }
        if let Some(state) = body::state_row(self, id)? {
            self.remove(&BY_STATE, &state.index(id))?;
            self.count_state(state.state, -1)?;
        }
        self.remove(&AHEAD, &ahead_key(row.hlc, id))?;
        let read = EntryRow {
            kind: entry.kind(),
            ..row
        };
        self.store(id, &read, now_ms)?;
        for scope in scopes {
            let of_kind = |kind| Key::new().scope(scope).kind(kind).id(id.as_bytes());
            self.remove(&BY_SCOPE, &of_kind(EntryKind::NewerManifest))?;
            self.put(&BY_SCOPE, &of_kind(read.kind), &[])?;
        }
        Ok(true)
    }

    /// Where an entry stands: where it was first admitted, and every domain it travelled in.
    fn scopes_of(&self, id: &RecordId, row: &EntryRow) -> Result<Vec<Scope>, StoreError> {
        let mut scopes = vec![row.scope];
        for (_, value) in self.rows(&SEALS, id.as_bytes())? {
            scopes.push(seal_value(&value)?.0);
        }
        Ok(scopes)
    }
}
