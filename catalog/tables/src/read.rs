//! Questions to the catalogue. They are the same inside a step and in a snapshot.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::Arc,
};

use sovm_object::{
    domain_digest::domain_digest,
    entry::EntryKind,
    hlc::Hlc,
    id::{DomainId, InviteId, KekGeneration, KekId, ManifestHash, MeshId, RecordId, SiteId, StorageId, TableId},
    kek::KekRing,
    record::{
        AccessRecord, CommitRecord, HeadClaim, InventoryVersion, KekRecord, KitRecord, MembershipOp, MeshName,
        NodeBinding, ObjectKind, ObjectManifest, Registration, RejoinOffer, RootAnnouncement,
    },
    roster::Roster,
    secret::Dek,
    sign::{Body, Signed},
};

use crate::{
    admit::{Alarm, SealedUnder, alarms, seal_value},
    authority, body,
    digest::DomainDigest,
    inventory,
    local::{
        self, BYTE_COUNTS, ByteStatus, Collection, DocumentStore, Held, HolderRow, Invite, OutboxItem, Receipt,
        Refusal, Unpublished, by_site,
    },
    state::{BadBytes, ByteState, EntryState, QuarantineReason, RefusalReason},
    store::{
        StoreError,
        rows::{Key, Scope, Shard, decode, element_of_key, form, kek_of, record_at_end, sealed_entry_of, u64_of},
        tables::{
            BY_OBJECT, BY_SCOPE, BY_SEQ, BY_STATE, BYTES, BYTES_BY_STATE, COUNTER, ELEMENTS, HELD, HELD_BY_ELEMENT,
            HELD_BY_KEK, HOLDERS, INVITES, META, MLS, OUTBOX, RECEIPTS, Row, Rows, SEALS, SHARDS, STATE_COUNTS, SYNC,
        },
        tagged,
    },
    sync::{Element, ShardDigest},
    view::{self, DekError, DomainView, ObjectView, PendingObject, TableLookupError, TableView},
};

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// Its format.
    pub kind: EntryKind,
    /// Where it counts.
    pub scope: Scope,
    /// Its stamp.
    pub hlc: Hlc,
    /// What it counts for.
    pub state: EntryState,
    /// When it came here first.
    pub received_ms: u64,
    /// The exact signed bytes.
    pub bytes: Vec<u8>,
}

/// One record of a domain for its checkpoint (SOP §2.16): sealed under its lowest KEK, or public.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// The record.
    pub id: RecordId,
    /// Its format.
    pub kind: EntryKind,
    /// The lowest (generation, KEK) it is sealed under; none for kinds that are never sealed.
    pub sealed: Option<(KekGeneration, KekId)>,
    /// The exact signed bytes.
    pub bytes: Vec<u8>,
}

/// How much there is of what, for `status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries that count.
    pub accepted: u64,
    /// Entries whose table is unknown.
    pub waiting_table: u64,
    /// Entries that wait for membership or KEK records.
    pub waiting_authority: u64,
    /// Access records without their manifest.
    pub no_manifest: u64,
    /// Manifests without an access record.
    pub no_access: u64,
    /// Entries whose stamp is ahead of our clock.
    pub quarantined: u64,
    /// Entries that do not count.
    pub refused: u64,
    /// Entries of newer builds, and those that stand on them.
    pub unsupported: u64,
    /// Sealed entries that do not open yet, and those of formats this build does not know.
    pub held: u64,
    /// Objects whose bytes are here.
    pub objects_available: u64,
    /// Objects whose bytes are not here.
    pub objects_pending: u64,
    /// Objects whose bytes are wrong.
    pub objects_quarantined: u64,
    /// Messages to be sent.
    pub outbox: u64,
    /// Alarms kept.
    pub alarms: u64,
    /// Bad bytes remembered.
    pub refusals_remembered: u64,
}

/// Every question to the catalogue; implemented by [`crate::Snapshot`] and [`crate::Txn`] only.
pub trait Read: Rows {
    // Entries.

    /// An entry by id.
    fn entry(&self, id: &RecordId) -> Result<Option<StoredEntry>, StoreError> {
        let (Some(row), Some(state)) = (body::row(self, id)?, body::state_row(self, id)?) else {
            return Ok(None);
        };
        let (state, received_ms) = (state.state, state.received_ms);
        Ok(Some(StoredEntry {
            kind: row.kind,
            scope: row.scope,
            hlc: row.hlc,
            state,
            received_ms,
            bytes: row.bytes,
        }))
    }

    /// What an entry counts for.
    fn entry_state(&self, id: &RecordId) -> Result<Option<EntryState>, StoreError> {
        body::state(self, id)
    }

    /// Entries that are quarantined, refused or waiting, oldest first, at most `limit` of each.
    fn unaccepted(&self, limit: usize) -> Result<Vec<(RecordId, StoredEntry)>, StoreError> {
        let mut found = Vec::new();
        let states = [
            EntryState::Quarantined(QuarantineReason::ClockAhead),
            EntryState::Refused(RefusalReason::Authority),
            EntryState::WaitingAuthority,
            EntryState::WaitingTable,
            EntryState::NoManifest,
            EntryState::NoAccess,
            EntryState::Unsupported,
        ];
        for state in states {
            for key in self.keys(&BY_STATE, &[state.codes().0], limit)? {
                let id = record_at_end(&BY_STATE, &key)?;
                if let Some(entry) = self.entry(&id)? {
                    found.push((id, entry));
                }
            }
        }
        Ok(found)
    }

    /// The mesh and all domains entries are known of.
    fn scopes(&self) -> Result<Vec<Scope>, StoreError> {
        scopes(self)
    }

    /// Accepted entries of one kind in a scope, as signed values. `B` must be the body of `kind`.
    fn accepted<B: Body>(&self, scope: Scope, kind: EntryKind) -> Result<Vec<Signed<B>>, StoreError> {
        let mut found = Vec::new();
        for key in self.keys(&BY_SCOPE, &Key::new().scope(scope).kind(kind), usize::MAX)? {
            let id = record_at_end(&BY_SCOPE, &key)?;
            if body::state(self, &id)?.is_some_and(EntryState::is_accepted) {
                found.push(body::signed(self, &id)?);
            }
        }
        Ok(found)
    }

    /// Accepted entries of one kind that name an object. The index by object finds them, so those that name others are not
    /// read. `B` must be the body of `kind`.
    fn accepted_naming<B: Body>(&self, object: &StorageId, kind: EntryKind) -> Result<Vec<B>, StoreError> {
        let mut found = Vec::new();
        for key in self.keys(&BY_OBJECT, &Key::new().id(object.as_bytes()).kind(kind), usize::MAX)? {
            let id = record_at_end(&BY_OBJECT, &key)?;
            if body::state(self, &id)?.is_some_and(EntryState::is_accepted) {
                found.push(body::of(self, &id)?);
            }
        }
        Ok(found)
    }

    // Membership.

    /// This node's mesh, once its founding record is here.
    fn mesh_id(&self) -> Result<Option<MeshId>, StoreError> {
        authority::mesh_id(self)
    }

    /// The mesh's name: the newest (stamp, id) an admin signed.
    fn mesh_name(&self) -> Result<Option<String>, StoreError> {
        let names = self.accepted::<MeshName>(Scope::Mesh, EntryKind::MeshName)?;
        let newest = names.into_iter().max_by_key(|name| (name.body().hlc, name.id()));
        Ok(newest.map(|name| name.body().name.clone()))
    }

    /// Who belongs, as the ops known here say; `None` while the founding record is not accepted.
    fn roster(&self, scope: Scope) -> Result<Option<Arc<Roster>>, StoreError> {
        authority::roster(self, scope)
    }

    /// Membership ops of a scope that count.
    fn membership_ops(&self, scope: Scope) -> Result<Vec<Signed<MembershipOp>>, StoreError> {
        self.accepted(scope, EntryKind::MembershipOp)
    }

    /// The newest binding of each site.
    fn bindings(&self) -> Result<BTreeMap<SiteId, Signed<NodeBinding>>, StoreError> {
        let mut newest: BTreeMap<SiteId, Signed<NodeBinding>> = BTreeMap::new();
        for binding in self.accepted::<NodeBinding>(Scope::Mesh, EntryKind::NodeBinding)? {
            let order = |binding: &Signed<NodeBinding>| (binding.body().hlc, binding.id());
            match newest.get(&binding.body().site) {
                Some(known) if order(known) >= order(&binding) => {}
                _ => {
                    newest.insert(binding.body().site, binding);
                }
            }
        }
        Ok(newest)
    }

    /// Domains that count, by name.
    fn domains(&self) -> Result<Vec<DomainView>, StoreError> {
        let mut domains = Vec::new();
        for scope in self.scopes()? {
            if let Some(record) = authority::accepted_genesis(self, scope)? {
                domains.push(DomainView {
                    record,
                    genesis: body::domain_genesis(self, &record)?,
                });
            }
        }
        domains.sort_by(|a, b| (&a.genesis.name, a.genesis.domain_id).cmp(&(&b.genesis.name, b.genesis.domain_id)));
        Ok(domains)
    }

    /// KEK records of a domain that count.
    fn kek_records(&self, domain: &DomainId) -> Result<Vec<Signed<KekRecord>>, StoreError> {
        self.accepted(Scope::Domain(*domain), EntryKind::KekRecord)
    }

    /// MLS commits of a domain.
    fn commit_records(&self, domain: &DomainId) -> Result<Vec<Signed<CommitRecord>>, StoreError> {
        self.accepted(Scope::Domain(*domain), EntryKind::CommitRecord)
    }

    /// Head claims of a domain.
    fn head_claims(&self, domain: &DomainId) -> Result<Vec<Signed<HeadClaim>>, StoreError> {
        self.accepted(Scope::Domain(*domain), EntryKind::HeadClaim)
    }

    /// Rejoin offers of a domain.
    fn rejoin_offers(&self, domain: &DomainId) -> Result<Vec<Signed<RejoinOffer>>, StoreError> {
        self.accepted(Scope::Domain(*domain), EntryKind::RejoinOffer)
    }

    /// Recovery kits of a domain, retirements included.
    fn kit_records(&self, domain: &DomainId) -> Result<Vec<Signed<KitRecord>>, StoreError> {
        self.accepted(Scope::Domain(*domain), EntryKind::KitRecord)
    }

    /// Announced recovery roots of a domain, oldest first in the chain.
    fn root_announcements(&self, domain: &DomainId) -> Result<Vec<Signed<RootAnnouncement>>, StoreError> {
        let mut roots = self.accepted::<RootAnnouncement>(Scope::Domain(*domain), EntryKind::RootAnnouncement)?;
        roots.sort_by_key(|root| (root.body().recovery_generation, root.body().root_id));
        Ok(roots)
    }

    /// The highest `seq` of a site in a scope among entries that count: what a removal writes as its cut.
    fn highest_seq(&self, scope: Scope, site: &SiteId) -> Result<u64, StoreError> {
        let prefix = Key::new().id(site.as_bytes()).scope(scope);
        let mut below = prefix.clone().id(&[0xff; 41]);
        while let Some((key, _)) = self.last_below(&BY_SEQ, &below)? {
            if !key.starts_with(&prefix) {
                break;
            }
            if body::state(self, &record_at_end(&BY_SEQ, &key)?)?.is_some_and(EntryState::is_accepted) {
                let seq = key.get(prefix.len()..prefix.len() + 8).unwrap_or_default();
                return u64_of("entries-by-seq-1", seq);
            }
            below = Key::new().id(&key);
        }
        Ok(0)
    }

    // Tables and objects.

    /// Tables that count, by domain and display name.
    fn tables(&self) -> Result<Vec<TableView>, StoreError> {
        view::tables(self)
    }

    /// The table a name means, in one domain or in all.
    fn find_table(&self, domain: Option<&DomainId>, name: &str) -> Result<TableView, TableLookupError> {
        view::find_table(self, domain, name)
    }

    /// Objects of a table. `ring` is the ring of the table's domain.
    fn objects(&self, table: &TableId, ring: &KekRing) -> Result<Vec<ObjectView>, StoreError> {
        view::objects(self, table, ring)
    }

    /// Plain files granted in a domain. `ring` is the domain's ring.
    fn files(&self, domain: &DomainId, ring: &KekRing) -> Result<Vec<ObjectView>, StoreError> {
        view::files(self, ObjectKind::File, domain, ring)
    }

    /// Files of editions that travelled in a domain; one may stand in several. `ring` is the domain's ring.
    fn edition_files(&self, domain: &DomainId, ring: &KekRing) -> Result<Vec<ObjectView>, StoreError> {
        view::files(self, ObjectKind::EditionFile, domain, ring)
    }

    /// Everything known of one object, one view for each table and kind it is claimed for.
    fn object(&self, storage_id: &StorageId, ring: &KekRing) -> Result<Vec<ObjectView>, StoreError> {
        view::object(self, storage_id, ring)
    }

    /// Grants of an object that count, the one to try first in front.
    fn access_records(&self, storage_id: &StorageId) -> Result<Vec<AccessRecord>, StoreError> {
        view::access_records(self, storage_id)
    }

    /// All access records for one manifest, whatever they count for.
    fn grants_of_manifest(&self, hash: &ManifestHash) -> Result<Vec<RecordId>, StoreError> {
        view::grants_of_manifest(self, hash)
    }

    /// Domains of the access records for one manifest that count.
    fn granting_domains(&self, hash: &ManifestHash) -> Result<BTreeSet<DomainId>, StoreError> {
        view::granting_domains(self, hash)
    }

    /// Manifests of an object that this build reads, whatever they count for.
    fn manifests(
        &self,
        storage_id: &StorageId,
    ) -> Result<Vec<(ManifestHash, Arc<ObjectManifest>, EntryState)>, StoreError> {
        view::manifests(self, storage_id)
    }

    /// An object's DEK, proven to be the one its manifest commits to.
    fn dek(&self, storage_id: &StorageId, ring: &KekRing) -> Result<Dek, DekError> {
        view::dek(self, storage_id, ring)
    }

    /// An object's DEK as one table's manifests and grants give it. Claims of other tables on the object do not count.
    fn dek_in_table(&self, table: &TableId, storage_id: &StorageId, ring: &KekRing) -> Result<Dek, DekError> {
        view::dek_in_table(self, table, storage_id, ring)
    }

    // The Inventory.

    /// Versions of a catalogue in a domain from (restore epoch, version) on, in that order, whatever they count for:
    /// readers tell two roots of one version by both being here.
    fn inventory_versions(
        &self,
        domain: &DomainId,
        catalog: &[u8; 16],
        from: (u64, u64),
    ) -> Result<Vec<(RecordId, InventoryVersion, EntryState)>, StoreError> {
        inventory::versions(self, domain, catalog, from)
    }

    /// Catalogues that any version is known of, by domain.
    fn inventory_catalogs(&self) -> Result<Vec<(DomainId, [u8; 16])>, StoreError> {
        inventory::catalogs(self)
    }

    /// Registrations of editions in a domain, whatever they count for: one that doesn't is reported and never dropped.
    fn registrations(&self, domain: &DomainId) -> Result<Vec<(RecordId, Registration, EntryState)>, StoreError> {
        inventory::registrations(self, domain)
    }

    /// A document of the Inventory, exactly as it was written.
    fn document(&self, store: &DocumentStore, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
        local::document(self, store, path)
    }

    /// Paths of a store's documents that start with `prefix`, sorted.
    fn documents(&self, store: &DocumentStore, prefix: &str) -> Result<Vec<String>, StoreError> {
        local::documents(self, store, prefix)
    }

    /// Stores that hold a document.
    fn document_stores(&self) -> Result<Vec<DocumentStore>, StoreError> {
        local::document_stores(self)
    }

    // Reconciliation.

    /// Digests of a scope's shards. Sums of them give months, generations and the whole scope.
    fn shards(&self, scope: Scope) -> Result<BTreeMap<Shard, ShardDigest>, StoreError> {
        let rows = self.rows(&SHARDS, &Key::new().scope(scope))?;
        rows.iter()
            .map(|(key, value)| Ok((Shard::of_key(key)?, ShardDigest::decode(value)?)))
            .collect()
    }

    /// Elements of one shard, by stamp.
    fn elements(&self, scope: Scope, shard: Shard) -> Result<Vec<(Hlc, [u8; 32])>, StoreError> {
        self.keys(&SYNC, &shard.key(scope), usize::MAX)?
            .iter()
            .map(|key| element_of_key(key))
            .collect()
    }

    /// The entry behind an element.
    fn element(&self, element: &[u8; 32]) -> Result<Option<Element>, StoreError> {
        let Some(value) = self.get(&ELEMENTS, element)? else {
            return Ok(None);
        };
        let (record, kek_id) = sealed_entry_of(&ELEMENTS, &value)?;
        Ok(body::row(self, &record)?.map(|row| Element {
            record,
            kek_id,
            bytes: row.bytes,
        }))
    }

    /// The KEKs that an entry stands under in the set peers reconcile, by id.
    fn placed_under(&self, record: &RecordId) -> Result<Vec<SealedUnder>, StoreError> {
        let mut placed = Vec::new();
        for (key, value) in self.rows(&SEALS, record.as_bytes())? {
            let kek_id = key.get(RecordId::LEN..).and_then(kek_of).ok_or_else(|| form(&SEALS))?;
            if let (Some(kek_id), (Scope::Domain(domain), generation)) = (kek_id, seal_value(&value)?) {
                placed.push(SealedUnder {
                    domain,
                    generation,
                    kek_id,
                });
            }
        }
        Ok(placed)
    }

    /// Whether an element is here, admitted or held.
    fn has_element(&self, element: &[u8; 32]) -> Result<bool, StoreError> {
        Ok(self.get(&ELEMENTS, element)?.is_some() || !self.keys(&HELD_BY_ELEMENT, element, 1)?.is_empty())
    }

    /// Held entries that name a KEK; to be tried again when it comes.
    fn held_for_kek(&self, kek_id: &KekId) -> Result<Vec<Held>, StoreError> {
        local::held_of_index(self, &HELD_BY_KEK, kek_id.as_bytes())
    }

    /// KEKs that held entries name.
    fn held_keks(&self) -> Result<BTreeSet<KekId>, StoreError> {
        let mut keks = BTreeSet::new();
        let mut from = vec![0];
        loop {
            let mut next = None;
            self.scan_from(&HELD_BY_KEK, &from, &mut |key, _| {
                next = key.get(..KekId::LEN).map(<[u8]>::to_vec);
                ControlFlow::Break(())
            })?;
            let Some(found) = next else {
                return Ok(keks);
            };
            keks.extend(kek_of(&found).flatten());
            from = found;
            from.extend([0xff; 33]);
        }
    }

    /// Whether exactly these bytes were refused before, and why.
    fn refusal(&self, bytes: &[u8]) -> Result<Option<Refusal>, StoreError> {
        local::refusal_of(self, bytes)
    }

    // Checkpoints.

    /// All records of a domain and of the mesh that a checkpoint holds, by id. Refused ones are left out (SOP-200), but for changes
    /// of columns whose author lost the right: rows of others may name a version that stands on them.
    fn checkpoint_records(&self, domain: &DomainId) -> Result<Vec<CheckpointRecord>, StoreError> {
        let mut records = Vec::new();
        let kept = |state| !matches!(state, EntryState::Refused(reason) if reason != RefusalReason::Authority);
        for id in domain_ids(self, domain, kept)? {
            let Some(row) = body::row(self, &id)? else {
                continue;
            };
            if row.kind != EntryKind::TableOp && matches!(body::state(self, &id)?, Some(EntryState::Refused(_))) {
                continue;
            }
            let mut seals = Vec::new();
            for (key, value) in self.rows(&SEALS, id.as_bytes())? {
                if let (Some(Some(kek_id)), (scope, generation)) =
                    (key.get(RecordId::LEN..).and_then(kek_of), seal_value(&value)?)
                    && scope == Scope::Domain(*domain)
                {
                    seals.push((generation, kek_id));
                }
            }
            records.push(CheckpointRecord {
                id,
                kind: row.kind,
                sealed: seals.into_iter().min(),
                bytes: row.bytes,
            });
        }
        Ok(records)
    }

    /// The digest of what this node accepts in a domain, with the mesh's own records.
    fn domain_digest(&self, domain: &DomainId) -> Result<DomainDigest, StoreError> {
        let ids = domain_ids(self, domain, EntryState::is_accepted)?;
        Ok(DomainDigest {
            records: ids.len() as u64,
            digest: domain_digest(ids),
        })
    }

    // Bytes.

    /// Where an object's bytes stand.
    fn byte_status(&self, object: &StorageId) -> Result<Option<ByteStatus>, StoreError> {
        local::byte_status(self, object)
    }

    /// Objects whose bytes are here and whole.
    fn available_bytes(&self) -> Result<Vec<StorageId>, StoreError> {
        objects_in(self, ByteState::Available)
    }

    /// Objects whose bytes are not here or not whole.
    fn pending_bytes(&self) -> Result<Vec<PendingObject>, StoreError> {
        wanted_in(self, ByteState::PendingBytes)
    }

    /// Objects whose bytes are here and do not match their id: other bytes would heal them (SOP-262).
    fn damaged_bytes(&self) -> Result<Vec<PendingObject>, StoreError> {
        wanted_in(self, ByteState::Quarantined(BadBytes::HashMismatch))
    }

    /// Objects whose bytes were deleted for good.
    fn expunged_bytes(&self) -> Result<Vec<StorageId>, StoreError> {
        objects_in(self, ByteState::Expunged)
    }

    /// Objects that something names: an entry, whatever it counts for, or a byte state, which is all that a blind replica
    /// keeps of what was placed with it. Bytes of any other object are nobody's (SOP-270), and so are those of one that was expunged.
    fn objects_in_use(&self) -> Result<BTreeSet<StorageId>, StoreError> {
        let mut ids = BTreeSet::new();
        for table in [&BY_OBJECT, &BYTES] {
            let mut wrong = false;
            self.scan(
                table,
                &[],
                &mut |key, _| match key.get(..StorageId::LEN).and_then(StorageId::from_slice) {
                    Some(id) => {
                        ids.insert(id);
                        ControlFlow::Continue(())
                    }
                    None => {
                        wrong = true;
                        ControlFlow::Break(())
                    }
                },
            )?;
            // A key that names nothing readable might name anything.
            if wrong {
                return Err(form(table));
            }
        }
        for id in self.expunged_bytes()? {
            ids.remove(&id);
        }
        Ok(ids)
    }

    /// Objects that no entry names, as far as they were noted.
    fn unpublished(&self) -> Result<Vec<(StorageId, Unpublished)>, StoreError> {
        local::unpublished(self)
    }

    /// Collections remembered, oldest first.
    fn collections(&self) -> Result<Vec<Collection>, StoreError> {
        local::collections(self)
    }

    /// How long this node had run when it was last noted.
    fn running_ms(&self) -> Result<u64, StoreError> {
        self.meta(local::meta::RUNNING_MS)?
            .map_or(Ok(0), |value| u64_of("meta-1", &value))
    }

    /// The newest stamp of any entry that is not ahead of our clock.
    fn newest_stamp(&self) -> Result<Option<Hlc>, StoreError> {
        let mut newest = None;
        for scope in self.scopes()? {
            let mut last_days: BTreeMap<KekGeneration, Shard> = BTreeMap::new();
            for shard in self.shards(scope)?.into_keys() {
                last_days.insert(shard.generation, shard);
            }
            for shard in last_days.into_values() {
                newest = newest.max(self.elements(scope, shard)?.last().map(|(hlc, _)| *hlc));
            }
        }
        Ok(newest)
    }

    /// What asking sites for an object came to.
    fn holders(&self, object: &StorageId) -> Result<Vec<(SiteId, HolderRow)>, StoreError> {
        by_site(self.rows(&HOLDERS, object.as_bytes())?, &HOLDERS)
    }

    /// Receipts of those who promised to keep an object.
    fn receipts(&self, object: &StorageId) -> Result<Vec<(SiteId, Receipt)>, StoreError> {
        by_site(tagged::list(self, &RECEIPTS, object.as_bytes())?, &RECEIPTS)
    }

    // This node's own rows.

    /// An MLS row.
    fn mls(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(&MLS, key)
    }

    /// MLS rows under a prefix.
    fn mls_rows(&self, prefix: &[u8]) -> Result<Vec<Row>, StoreError> {
        self.rows(&MLS, prefix)
    }

    /// A setting of this node.
    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        tagged::get(self, &META, name.as_bytes())
    }

    /// What this node calls its files, by object.
    fn labels(&self) -> Result<Vec<(StorageId, String)>, StoreError> {
        local::labels(self)
    }

    /// A reserved number.
    fn ceiling(&self, name: &str) -> Result<Option<u64>, StoreError> {
        local::ceiling(self, name)
    }

    /// An invite.
    fn invite(&self, id: &InviteId) -> Result<Option<Invite>, StoreError> {
        local::invite(self, id)
    }

    /// All invites.
    fn invites(&self) -> Result<Vec<(InviteId, Invite)>, StoreError> {
        let rows = tagged::list(self, &INVITES, &[])?;
        rows.iter()
            .map(|(key, value)| {
                let id = InviteId::from_slice(key).ok_or(StoreError::RowForm("invites-1"))?;
                Ok((id, decode(&INVITES, value)?))
            })
            .collect()
    }

    /// Messages to be sent, oldest first.
    fn outbox(&self) -> Result<Vec<(u64, OutboxItem)>, StoreError> {
        let rows = tagged::list(self, &OUTBOX, &[])?;
        rows.iter()
            .map(|(key, value)| Ok((u64_of("outbox-1", key)?, decode(&OUTBOX, value)?)))
            .collect()
    }

    /// Number of commits so far.
    fn commit_counter(&self) -> Result<u64, StoreError> {
        tagged::get(self, &COUNTER, b"commits")?.map_or(Ok(0), |value| u64_of("counter-1", &value))
    }

    /// Alarms kept, oldest first, with when each was noticed.
    fn alarms(&self) -> Result<Vec<(Alarm, u64)>, StoreError> {
        alarms(self)
    }

    /// How much there is of what.
    fn counts(&self) -> Result<Counts, StoreError> {
        let of = |code: u8| match self.get(&STATE_COUNTS, &[code])? {
            Some(value) => u64_of("state-counts-1", &value),
            None => Ok(0),
        };
        let entries = |state: EntryState| of(state.codes().0);
        let bytes = |state: ByteState| of(BYTE_COUNTS + state.code());
        Ok(Counts {
            accepted: entries(EntryState::Accepted)?,
            waiting_table: entries(EntryState::WaitingTable)?,
            waiting_authority: entries(EntryState::WaitingAuthority)?,
            no_manifest: entries(EntryState::NoManifest)?,
            no_access: entries(EntryState::NoAccess)?,
            quarantined: entries(EntryState::Quarantined(QuarantineReason::ClockAhead))?,
            refused: entries(EntryState::Refused(RefusalReason::Authority))?,
            unsupported: entries(EntryState::Unsupported)?,
            held: self.count(&HELD)?,
            objects_available: bytes(ByteState::Available)?,
            objects_pending: bytes(ByteState::PendingBytes)?,
            objects_quarantined: bytes(ByteState::Quarantined(BadBytes::HashMismatch))?
                + bytes(ByteState::Quarantined(BadBytes::NotAsDescribed))?,
            outbox: self.count(&OUTBOX)?,
            alarms: self.count(&crate::store::tables::ALARMS)?,
            refusals_remembered: self.count(&crate::store::tables::REFUSALS)?,
        })
    }
}

impl<T: Rows> Read for T {}

/// The mesh and all domains, found by hopping from one scope's first row to the next scope's.
pub(crate) fn scopes(rows: &(impl Rows + ?Sized)) -> Result<Vec<Scope>, StoreError> {
    let mut scopes = Vec::new();
    let mut from = Vec::new();
    loop {
        let mut next = None;
        rows.scan_from(&BY_SCOPE, &from, &mut |key, _| {
            next = key.get(..33).map(<[u8]>::to_vec);
            ControlFlow::Break(())
        })?;
        let Some(found) = next else {
            return Ok(scopes);
        };
        scopes.push(Scope::of(&found).ok_or(StoreError::RowForm("entries-by-scope-1"))?);
        from = found;
        from.extend([0xff; 34]);
    }
}

fn domain_ids(
    rows: &(impl Rows + ?Sized),
    domain: &DomainId,
    keep: impl Fn(EntryState) -> bool,
) -> Result<BTreeSet<RecordId>, StoreError> {
    let mut ids = BTreeSet::new();
    for scope in [Scope::Mesh, Scope::Domain(*domain)] {
        for key in rows.keys(&BY_SCOPE, &Key::new().scope(scope), usize::MAX)? {
            let id = record_at_end(&BY_SCOPE, &key)?;
            if body::state(rows, &id)?.is_some_and(&keep) {
                ids.insert(id);
            }
        }
    }
    Ok(ids)
}

fn wanted_in(rows: &(impl Rows + ?Sized), state: ByteState) -> Result<Vec<PendingObject>, StoreError> {
    let mut wanted = Vec::new();
    for storage_id in objects_in(rows, state)? {
        let (accepted, exact_byte_size) = view::is_wanted(rows, &storage_id)?;
        wanted.push(PendingObject {
            storage_id,
            since_ms: local::byte_status(rows, &storage_id)?.map_or(0, |status| status.since_ms),
            exact_byte_size,
            accepted,
            asked: by_site(rows.rows(&HOLDERS, storage_id.as_bytes())?, &HOLDERS)?,
        });
    }
    Ok(wanted)
}

fn objects_in(rows: &(impl Rows + ?Sized), state: ByteState) -> Result<Vec<StorageId>, StoreError> {
    let keys = rows.keys(&BYTES_BY_STATE, &[state.code()], usize::MAX)?;
    keys.iter()
        .map(|key| StorageId::from_slice(&key[1..]).ok_or(StoreError::RowForm("bytes-by-state-1")))
        .collect()
}
