//! Which entries a change can reach.

use sovm_object::{
    entry::EntryKind,
    id::{RecordId, TableId},
    record::ObjectManifest,
};

use super::facets::Facets;
use crate::{
    body,
    read::Read as _,
    state::EntryState,
    store::{
        StoreError,
        rows::{Key, Scope, record_at_end},
        tables::{BY_MANIFEST, BY_OBJECT, BY_SCOPE, BY_TABLE, Rows as _, Table},
        txn::Txn,
    },
};

impl Txn {
    pub(super) fn enqueue(&mut self, id: &RecordId) -> Result<(), StoreError> {
        if let Some(row) = body::row(self, id)? {
            self.work.queue.insert((rank(row.kind), *id));
        }
        Ok(())
    }

    pub(super) fn enqueue_keys(&mut self, table: &Table, prefix: &[u8], kind: EntryKind) -> Result<(), StoreError> {
        for key in self.keys(table, prefix, usize::MAX)? {
            self.work.queue.insert((rank(kind), record_at_end(table, &key)?));
        }
        Ok(())
    }

    pub(super) fn enqueue_table(&mut self, table_id: &TableId) -> Result<(), StoreError> {
        let ops = Key::new().id(table_id.as_bytes()).kind(EntryKind::TableOp);
        self.enqueue_keys(&BY_TABLE, &ops, EntryKind::TableOp)?;
        let prefix = Key::new().id(table_id.as_bytes()).kind(EntryKind::Manifest);
        for key in self.keys(&BY_TABLE, &prefix, usize::MAX)? {
            let manifest = record_at_end(&BY_TABLE, &key)?;
            self.work.queue.insert((rank(EntryKind::Manifest), manifest));
            self.enqueue_keys(&BY_MANIFEST, manifest.as_bytes(), EntryKind::Access)?;
        }
        Ok(())
    }

    /// Entries of a table that an op they need may have come for. What is no longer waiting does not depend on ops.
    pub(super) fn enqueue_waiting(&mut self, table_id: &TableId) -> Result<(), StoreError> {
        for kind in [EntryKind::TableOp, EntryKind::Manifest] {
            let prefix = Key::new().id(table_id.as_bytes()).kind(kind);
            for key in self.keys(&BY_TABLE, &prefix, usize::MAX)? {
                let id = record_at_end(&BY_TABLE, &key)?;
                if body::state(self, &id)? == Some(EntryState::WaitingTable) {
                    self.work.queue.insert((rank(kind), id));
                }
            }
        }
        Ok(())
    }

    /// Adoptions of a manifest stand beside it under the same object.
    pub(super) fn enqueue_adopters(&mut self, id: &RecordId, facets: &Facets) -> Result<(), StoreError> {
        let Some(object) = &facets.object else {
            return Ok(());
        };
        let prefix = Key::new().id(object.as_bytes()).kind(EntryKind::Manifest);
        for key in self.keys(&BY_OBJECT, &prefix, usize::MAX)? {
            let sibling = record_at_end(&BY_OBJECT, &key)?;
            if sibling == *id {
                continue;
            }
            let manifest: ObjectManifest = body::of(self, &sibling)?;
            if manifest.adopts.is_some_and(|adopted| RecordId::from(adopted) == *id) {
                self.work.queue.insert((rank(EntryKind::Manifest), sibling));
            }
        }
        Ok(())
    }

    pub(super) fn enqueue_scope(&mut self, scope: Scope) -> Result<(), StoreError> {
        for key in self.keys(&BY_SCOPE, &Key::new().scope(scope), usize::MAX)? {
            let id = record_at_end(&BY_SCOPE, &key)?;
            let Some(row) = body::row(self, &id)? else {
                continue;
            };
            match row.kind {
                EntryKind::MembershipOp => continue,
                EntryKind::TableGenesis => {
                    if let Some(table_id) = Facets::of(&row)?.table {
                        self.enqueue_table(&table_id)?;
                    }
                }
                EntryKind::Access => self.follow(&id, &row)?,
                _ => {}
            }
            self.work.queue.insert((rank(row.kind), id));
        }
        if scope == Scope::Mesh {
            for scope in self.scopes()? {
                let prefix = Key::new().scope(scope).kind(EntryKind::DomainGenesis);
                self.enqueue_keys(&BY_SCOPE, &prefix, EntryKind::DomainGenesis)?;
            }
        }
        Ok(())
    }
}

/// Order of judging: what others look at comes first.
pub(super) const fn rank(kind: EntryKind) -> u8 {
    match kind {
        EntryKind::MeshGenesis => 0,
        EntryKind::MembershipOp => 1,
        EntryKind::DomainGenesis => 2,
        EntryKind::KekRecord => 3,
        EntryKind::TableGenesis => 4,
        EntryKind::TableOp => 5,
        EntryKind::Access => 6,
        EntryKind::Manifest => 7,
        _ => 8,
    }
}
