//! What judging asks about other entries, answered from the step's own view.

use std::{collections::BTreeSet, sync::Arc};

use sovm_object::{
    entry::EntryKind,
    id::{DomainId, KekId, ManifestHash, RecordId, TableId},
    record::{KekRecord, ObjectManifest, TableGenesis},
    roster::Roster,
};

use crate::{
    authority, body,
    columns::{self, Versioned},
    judge::{Facts, Known},
    state::EntryState,
    store::{
        StoreError,
        rows::{Key, Scope, record_at_end},
        tables::{BY_KEK, BY_TABLE, Rows as _},
        txn::Txn,
    },
};

impl Txn {
    /// Accepted founding records of a table.
    fn founding_records(&self, table_id: &TableId) -> Result<Vec<(RecordId, TableGenesis)>, StoreError> {
        let mut tables = Vec::new();
        let prefix = Key::new().id(table_id.as_bytes()).kind(EntryKind::TableGenesis);
        for key in self.keys(&BY_TABLE, &prefix, usize::MAX)? {
            let id = record_at_end(&BY_TABLE, &key)?;
            if body::state(self, &id)?.is_some_and(EntryState::is_accepted) {
                tables.push((id, body::table_genesis(self, &id)?));
            }
        }
        Ok(tables)
    }
}

impl Facts for Txn {
    fn roster(&self, scope: Scope) -> Result<Option<Arc<Roster>>, StoreError> {
        if let Some(known) = self.work.rosters.borrow().get(&scope) {
            return Ok(known.clone());
        }
        let roster = authority::roster(self, scope)?;
        self.work.rosters.borrow_mut().insert(scope, roster.clone());
        Ok(roster)
    }

    fn manifest(&self, hash: &ManifestHash) -> Result<Known<ObjectManifest>, StoreError> {
        body::manifest(self, hash)
    }

    fn state(&self, id: &RecordId) -> Result<Option<EntryState>, StoreError> {
        body::state(self, id)
    }

    fn tables(&self, table_id: &TableId) -> Result<Vec<TableGenesis>, StoreError> {
        let records = self.founding_records(table_id)?;
        Ok(records.into_iter().map(|(_, genesis)| genesis).collect())
    }

    fn versioned(&self, table_id: &TableId) -> Result<Vec<Versioned>, StoreError> {
        let graph = columns::graph(self, table_id)?;
        let mut tables = Vec::new();
        for (id, genesis) in self.founding_records(table_id)? {
            let versions = columns::versions(self, &id, &genesis, &graph);
            tables.push(Versioned { genesis, versions });
        }
        Ok(tables)
    }

    fn knows_op(&self, table_id: &TableId, op: &RecordId) -> Result<bool, StoreError> {
        Ok(columns::graph(self, table_id)?.knows(op))
    }

    fn keks(&self, kek_id: &KekId) -> Result<Vec<(KekRecord, EntryState)>, StoreError> {
        let mut keks = Vec::new();
        for key in self.keys(
            &BY_KEK,
            &Key::new().id(kek_id.as_bytes()).kind(EntryKind::KekRecord),
            usize::MAX,
        )? {
            let id = record_at_end(&BY_KEK, &key)?;
            if let Some(state) = body::state(self, &id)? {
                keks.push((body::kek_record(self, &id)?, state));
            }
        }
        Ok(keks)
    }

    fn granting_domains(&self, hash: &ManifestHash) -> Result<BTreeSet<DomainId>, StoreError> {
        crate::view::granting_domains(self, hash)
    }

    fn accepted_genesis(&self, domain: &DomainId) -> Result<Option<RecordId>, StoreError> {
        authority::accepted_genesis(self, Scope::Domain(*domain))
    }
}
