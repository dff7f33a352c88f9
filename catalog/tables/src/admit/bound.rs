//! Entries that may come before what they belong to, but not without end (SOP-153).

use sovm_object::{
    entry::{EntryKind, sealed::element_id},
    id::RecordId,
};

use super::{ahead_key, facets::Facets, seal_value};
use crate::{
    body,
    state::EntryState,
    store::{
        StoreError,
        rows::{Key, Shard, form, kek_of, record_at_end, u64_of},
        tables::{AHEAD, BY_SCOPE, BY_STATE, ELEMENTS, ENTRIES, Rows as _, SEALS, STATE_COUNTS, STATES, SYNC},
        txn::Txn,
    },
};

/// Access records whose manifest is unknown that are kept; older ones go and come back by reconciliation.
pub const MAX_NO_MANIFEST: u64 = 100_000;

impl Txn {
    /// SOP-153: access records may come before their manifests, but not without end.
    pub(super) fn bound_no_manifest(&mut self) -> Result<(), StoreError> {
        let code = EntryState::NoManifest.codes().0;
        let count = match self.get(&STATE_COUNTS, &[code])? {
            Some(value) => u64_of("state-counts-1", &value)?,
            None => 0,
        };
        let surplus = count.saturating_sub(self.no_manifest_bound());
        for key in self.keys(&BY_STATE, &[code], surplus as usize)? {
            let id = record_at_end(&BY_STATE, &key)?;
            // An adoption waits for its manifest too, but has grants of its own and is rare.
            if body::row(self, &id)?.is_some_and(|row| row.kind == EntryKind::Access) {
                self.forget(&id)?;
            }
        }
        Ok(())
    }

    const fn no_manifest_bound(&self) -> u64 {
        if cfg!(test) { 50 } else { MAX_NO_MANIFEST }
    }

    /// Drops an entry with all its rows, as if it had never come.
    pub(super) fn forget(&mut self, id: &RecordId) -> Result<(), StoreError> {
        let Some(row) = body::row(self, id)? else {
            return Ok(());
        };
        let facets = Facets::of(&row)?;
        for (table, key) in facets.index_keys(id, &row) {
            self.remove(&table, &key)?;
        }
        self.remove(&AHEAD, &ahead_key(row.hlc, id))?;
        for (key, value) in self.rows(&SEALS, id.as_bytes())? {
            let kek_id = kek_of(&key[RecordId::LEN..]).ok_or_else(|| form(&SEALS))?;
            let element = element_id(id, kek_id.as_ref());
            let (scope, generation) = seal_value(&value)?;
            let shard = Shard {
                generation,
                day: row.hlc.day(),
            };
            self.remove(&SYNC, &shard.key(scope).number(row.hlc.as_u64()).id(&element))?;
            self.remove(&ELEMENTS, &element)?;
            self.remove(&BY_SCOPE, &Key::new().scope(scope).kind(row.kind).id(id.as_bytes()))?;
            self.remove(&SEALS, &key)?;
            self.change_shard(scope, shard, |digest| digest.subtract(&element))?;
        }
        if let Some(state) = body::state_row(self, id)? {
            self.remove(&BY_STATE, &state.index(id))?;
            self.count_state(state.state, -1)?;
        }
        self.remove(&STATES, id.as_bytes())?;
        self.remove(&ENTRIES, id.as_bytes())?;
        self.work.changes.remove(id);
        Ok(())
    }
}
