//! Judging what a step touched, until nothing changes any more.
//!
//! Work is queued by rank, so that an entry is judged after what it looks at. Membership is settled once at the end of a step:
//! many ops may come together, and each can reach every entry of its scope.

use sovm_object::{
    entry::EntryKind,
    hlc::Hlc,
    id::{ManifestHash, RecordId},
    record::{KekRecord, MembershipOp, OpKind, TableGenesis},
    roster::Right,
};

use super::{ahead_key, facets::Facets, reach::rank};
use crate::{
    body, judge,
    state::{EntryState, QuarantineReason, RefusalReason},
    store::{
        StoreError,
        rows::{EntryRow, Key, Scope, StateRow, form, record_at_end, u64_of},
        tables::{AHEAD, BY_KEK, BY_SCOPE, BY_STATE, Rows as _, STATE_COUNTS, STATES},
        txn::{StateChange, Txn},
    },
};

impl Txn {
    /// Judges what this step left open. [`commit`](Self::commit) does it by itself.
    pub fn settle(&mut self) -> Result<(), StoreError> {
        loop {
            self.settle_queue()?;
            let Some(scope) = self.work.scopes.pop_first() else {
                break;
            };
            self.settle_scope(scope)?;
        }
        self.bound_no_manifest()
    }

    /// Lets go of entries whose stamp is no longer ahead of `now_ms` (SOP-133). Once let go, an entry is never set aside again,
    /// even when our clock goes back.
    pub fn release_due(&mut self, now_ms: u64) -> Result<(), StoreError> {
        for key in self.keys(&AHEAD, &[], usize::MAX)? {
            let (hlc, id) = key.split_first_chunk::<8>().ok_or_else(|| form(&AHEAD))?;
            if Hlc::from_u64(u64::from_be_bytes(*hlc)).is_from_the_future(now_ms) {
                break;
            }
            let id = record_at_end(&AHEAD, id)?;
            self.remove(&AHEAD, &key)?;
            self.enqueue(&id)?;
        }
        self.settle_queue()
    }

    pub(super) fn settle_queue(&mut self) -> Result<(), StoreError> {
        while let Some((_, id)) = self.work.queue.pop_first() {
            let Some(row) = body::row(self, &id)? else {
                continue;
            };
            if row.kind == EntryKind::MembershipOp {
                self.work.scopes.insert(row.scope);
                continue;
            }
            let state = self.judge(&id, &row)?;
            // The mere presence of a new entry can decide about others, whatever it counts for itself.
            let is_new = self.work.fresh.remove(&id);
            if self.set_state(&id, row.kind, state)? || is_new {
                self.follow(&id, &row)?;
            }
        }
        Ok(())
    }

    pub(super) fn judge(&self, id: &RecordId, row: &EntryRow) -> Result<EntryState, StoreError> {
        if self.get(&AHEAD, &ahead_key(row.hlc, id))?.is_some() {
            return Ok(EntryState::Quarantined(QuarantineReason::ClockAhead));
        }
        let bytes = &row.bytes;
        macro_rules! by_right {
            ($body:ty, $scope:expr, $author:ident, $right:ident) => {{
                let b: $body = body::decode(bytes)?;
                let scope: fn(&$body) -> Scope = $scope;
                judge::by_right(self, scope(&b), &b.$author, Right::$right, b.seq, &b.ops_seen)
            }};
        }
        macro_rules! by_membership {
            ($body:ty, $scope:expr, $site:ident) => {{
                let b: $body = body::decode(bytes)?;
                let scope: fn(&$body) -> Scope = $scope;
                judge::by_membership(self, scope(&b), &b.$site)
            }};
        }
        use sovm_object::record as r;
        match row.kind {
            EntryKind::MeshGenesis => Ok(EntryState::Accepted),
            EntryKind::MeshName => by_right!(r::MeshName, |_| Scope::Mesh, issuer, Admin),
            EntryKind::NodeBinding => by_membership!(r::NodeBinding, |_| Scope::Mesh, site),
            EntryKind::MembershipOp => judge::op(self, id, &body::decode(bytes)?),
            EntryKind::DomainGenesis => judge::domain(self, id, &body::decode(bytes)?),
            EntryKind::CommitRecord => by_membership!(r::CommitRecord, |b| Scope::Domain(b.domain_id), committer),
            EntryKind::HeadClaim => by_membership!(r::HeadClaim, |b| Scope::Domain(b.domain_id), site),
            EntryKind::RejoinOffer => by_membership!(r::RejoinOffer, |b| Scope::Domain(b.domain_id), site),
            EntryKind::KekRecord => by_right!(KekRecord, |b| Scope::Domain(b.domain_id), minter, Belong),
            EntryKind::KitRecord => by_right!(r::KitRecord, |b| Scope::Domain(b.domain_id), issuer, Admin),
            EntryKind::RootAnnouncement => {
                by_right!(r::RootAnnouncement, |b| Scope::Domain(b.domain_id), issuer, Recover)
            }
            EntryKind::TableGenesis => by_right!(TableGenesis, |b| Scope::Domain(b.domain_id), creator, Append),
            EntryKind::TableOp => judge::table_op(self, id, &body::decode(bytes)?),
            EntryKind::Manifest => {
                judge::manifest(self, &ManifestHash::from_bytes(*id.as_bytes()), &body::decode(bytes)?)
            }
            EntryKind::Access => judge::access(self, &body::decode(bytes)?),
            EntryKind::NewerManifest => judge::newer_manifest(self, row.scope, &body::decode(bytes)?),
            EntryKind::InventoryVersion => {
                by_right!(r::InventoryVersion, |b| Scope::Domain(b.domain_id), authority, Append)
            }
            EntryKind::PrefetchList => by_right!(r::PrefetchList, |b| Scope::Domain(b.domain_id), issuer, Append),
            EntryKind::Registration => by_right!(r::Registration, |b| Scope::Domain(b.domain_id), publisher, Append),
        }
    }

    /// Queues what depends on an entry whose state changed.
    pub(super) fn follow(&mut self, id: &RecordId, row: &EntryRow) -> Result<(), StoreError> {
        let facets = Facets::of(row)?;
        match row.kind {
            EntryKind::MeshGenesis | EntryKind::DomainGenesis => {
                self.work.rosters.get_mut().clear();
                self.work.scopes.insert(row.scope);
            }
            EntryKind::KekRecord => {
                if let Some(kek_id) = &facets.kek {
                    let prefix = Key::new().id(kek_id.as_bytes()).kind(EntryKind::Access);
                    self.enqueue_keys(&BY_KEK, &prefix, EntryKind::Access)?;
                }
            }
            EntryKind::TableGenesis => {
                if let Some(table_id) = &facets.table {
                    self.enqueue_table(table_id)?;
                }
            }
            EntryKind::TableOp => {
                if let Some(table_id) = &facets.table {
                    self.enqueue_waiting(table_id)?;
                }
            }
            EntryKind::Access => {
                if let Some(hash) = &facets.manifest {
                    self.work
                        .queue
                        .insert((rank(EntryKind::Manifest), RecordId::from(*hash)));
                }
            }
            EntryKind::Manifest | EntryKind::NewerManifest => self.enqueue_adopters(id, &facets)?,
            _ => {}
        }
        Ok(())
    }

    /// Membership of a scope changed: judges its ops anew, and queues every entry the change can reach.
    pub(super) fn settle_scope(&mut self, scope: Scope) -> Result<(), StoreError> {
        self.work.rosters.get_mut().clear();
        // New ops that only add can turn nothing but waiting and refused entries; a removal, or an op that stopped to count,
        // can turn any entry of the scope (SOP-264).
        let mut reaches_all = false;
        for key in self.keys(
            &BY_SCOPE,
            &Key::new().scope(scope).kind(EntryKind::MembershipOp),
            usize::MAX,
        )? {
            let id = record_at_end(&BY_SCOPE, &key)?;
            let op: MembershipOp = body::of(self, &id)?;
            let before = body::state(self, &id)?;
            let state = judge::op(self, &id, &op)?;
            if self.set_state(&id, EntryKind::MembershipOp, state)? {
                reaches_all |= op.kind != OpKind::Add || before == Some(EntryState::Accepted);
            }
        }
        if reaches_all {
            self.enqueue_scope(scope)?;
        }
        for state in [
            EntryState::WaitingAuthority,
            EntryState::Refused(RefusalReason::Authority),
        ] {
            for key in self.keys(&BY_STATE, &[state.codes().0], usize::MAX)? {
                let id = record_at_end(&BY_STATE, &key)?;
                if let Some(row) = body::row(self, &id)?
                    && row.kind != EntryKind::MembershipOp
                {
                    self.work.queue.insert((rank(row.kind), id));
                }
            }
        }
        Ok(())
    }

    /// Stores a state; says whether it is another one.
    pub(super) fn set_state(&mut self, id: &RecordId, kind: EntryKind, state: EntryState) -> Result<bool, StoreError> {
        let Some(old) = body::state_row(self, id)? else {
            return Ok(false);
        };
        if old.state == state {
            return Ok(false);
        }
        let new = StateRow { state, ..old };
        self.remove(&BY_STATE, &old.index(id))?;
        self.put(&BY_STATE, &new.index(id), &[])?;
        self.put(&STATES, id.as_bytes(), &new.encode())?;
        self.count_state(old.state, -1)?;
        self.count_state(new.state, 1)?;
        let change = self.work.changes.entry(*id);
        change
            .or_insert(StateChange {
                kind,
                before: Some(old.state),
                after: state,
            })
            .after = state;
        Ok(true)
    }

    pub(crate) fn count_state(&mut self, state: EntryState, by: i64) -> Result<(), StoreError> {
        self.count_in(state.codes().0, by)
    }

    pub(crate) fn count_in(&mut self, code: u8, by: i64) -> Result<(), StoreError> {
        let old = match self.get(&STATE_COUNTS, &[code])? {
            Some(value) => u64_of("state-counts-1", &value)?,
            None => 0,
        };
        self.put(&STATE_COUNTS, &[code], &old.saturating_add_signed(by).to_be_bytes())
    }
}
