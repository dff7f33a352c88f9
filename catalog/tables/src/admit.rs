//! The one door into the catalogue for signed entries.
//!
//! [`Txn::admit`] stores an entry, indexes it, puts it into the set that peers reconcile, and judges it ([`crate::judge`]) together
//! with everything that depends on it. It is idempotent and order-free: after a commit each entry's state is what the whole
//! set of entries says, however they came (SOP-154, SOP-158).

mod again;
mod alarm;
mod bound;
mod facets;
mod facts;
mod reach;
mod settle;
#[cfg(test)]
pub(crate) mod tests;

use sovm_object::{
    entry::{EntryKind, VerifiedEntry, sealed::element_id},
    hlc::Hlc,
    id::{DomainId, KekGeneration, KekId, RecordId},
};

pub(crate) use self::alarm::list as alarms;
pub use self::{alarm::Alarm, bound::MAX_NO_MANIFEST};
use self::{facets::Facets, reach::rank};
use crate::{
    authority, body,
    state::{ByteState, EntryState},
    store::{
        StoreError,
        rows::{EntryRow, Key, Scope, Shard, StateRow, form, record_at_end},
        tables::{AHEAD, BY_MANIFEST, BY_SCOPE, BY_STATE, ELEMENTS, ENTRIES, Rows as _, SEALS, SHARDS, STATES, SYNC},
        txn::{StateChange, Txn},
    },
    sync::ShardDigest,
};

/// The KEK an entry travelled under. It decides where the entry stands in the set that peers reconcile (DESIGN §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedUnder {
    /// The domain whose members can open it.
    pub domain: DomainId,
    /// Generation of the KEK.
    pub generation: KekGeneration,
    /// The KEK.
    pub kek_id: KekId,
}

/// What admitting an entry did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The entry.
    pub id: RecordId,
    /// Its state so far. Membership ops and what hangs on them settle at the end of the step ([`Txn::settle`]).
    pub state: EntryState,
    /// Whether it was unknown before.
    pub is_new: bool,
    /// What an operator should hear of.
    pub alarms: Vec<Alarm>,
}
impl Txn {
    /// Admits a verified entry. `sealed` says under which KEK it travelled or will travel; entries of kinds that are never
    /// sealed have none.
    pub fn admit(
        &mut self,
        entry: impl Into<VerifiedEntry>,
        sealed: Option<SealedUnder>,
        now_ms: u64,
    ) -> Result<Admission, StoreError> {
        let entry = entry.into();
        let id = entry.id();
        let scope = Scope::from(entry.domain().or_else(|| sealed.map(|sealed| sealed.domain)));
        let is_new = self.get(&ENTRIES, id.as_bytes())?.is_none();
        let mut alarms = Vec::new();
        if is_new {
            let row = EntryRow {
                kind: entry.kind(),
                scope,
                hlc: entry.hlc(),
                bytes: entry.bytes().to_vec(),
            };
            alarms = self.store(&id, &row, now_ms)?;
        }
        self.place(&id, &entry, scope, sealed)?;
        if is_new {
            if let VerifiedEntry::MembershipOp(op) = &entry {
                authority::remember_op(self, op);
                self.work.scopes.insert(scope);
                self.work.rosters.get_mut().clear();
            }
            self.settle_queue()?;
        }
        let state = body::state(self, &id)?.unwrap_or(EntryState::WaitingAuthority);
        Ok(Admission {
            id,
            state,
            is_new,
            alarms,
        })
    }

    fn store(&mut self, id: &RecordId, row: &EntryRow, now_ms: u64) -> Result<Vec<Alarm>, StoreError> {
        let facets = Facets::of(row)?;
        let alarms = self.find_alarms(id, row, &facets)?;
        self.put(&ENTRIES, id.as_bytes(), &row.encode())?;
        for (table, key) in facets.index_keys(id, row) {
            self.put(&table, &key, &[])?;
        }
        if facets.clock_matters(row.kind) && row.hlc.is_from_the_future(now_ms) {
            self.put(&AHEAD, &ahead_key(row.hlc, id), &[])?;
        }
        // A first state that any judgement may replace; the change list shows none of it.
        let first = StateRow {
            state: EntryState::WaitingAuthority,
            received_ms: now_ms,
        };
        self.put(&STATES, id.as_bytes(), &first.encode())?;
        self.put(&BY_STATE, &first.index(id), &[])?;
        self.count_state(first.state, 1)?;
        self.work.changes.insert(
            *id,
            StateChange {
                kind: row.kind,
                before: None,
                after: first.state,
            },
        );
        if matches!(row.kind, EntryKind::Manifest | EntryKind::NewerManifest) {
            for key in self.keys(&BY_MANIFEST, id.as_bytes(), usize::MAX)? {
                self.work
                    .queue
                    .insert((rank(EntryKind::Access), record_at_end(&BY_MANIFEST, &key)?));
            }
            self.enqueue_adopters(id, &facets)?;
        }
        for object in facets.named_objects(row.kind) {
            if self.byte_state(object)?.is_none() {
                self.set_byte_state(object, ByteState::PendingBytes, 0, now_ms)?;
            }
        }
        self.work.fresh.insert(*id);
        self.work.queue.insert((rank(row.kind), *id));
        for alarm in &alarms {
            self.raise(alarm, now_ms)?;
        }
        Ok(alarms)
    }

    /// Puts the entry into the set peers reconcile, once for each KEK it is sealed under.
    fn place(
        &mut self,
        id: &RecordId,
        entry: &VerifiedEntry,
        scope: Scope,
        sealed: Option<SealedUnder>,
    ) -> Result<(), StoreError> {
        self.put(
            &BY_SCOPE,
            &Key::new().scope(scope).kind(entry.kind()).id(id.as_bytes()),
            &[],
        )?;
        let sealed = sealed.filter(|_| entry.kind().is_sealed());
        if sealed.is_none() && entry.kind().is_sealed() {
            // Nobody can be sent it yet.
            return Ok(());
        }
        let kek_id = sealed.map(|sealed| sealed.kek_id);
        let seal = Key::new().id(id.as_bytes()).kek(kek_id.as_ref());
        if self.get(&SEALS, &seal)?.is_some() {
            return Ok(());
        }
        let scope = sealed.map_or(scope, |sealed| Scope::Domain(sealed.domain));
        let generation = sealed.map_or(0, |sealed| sealed.generation);
        let shard = Shard {
            generation,
            day: entry.hlc().day(),
        };
        let element = element_id(id, kek_id.as_ref());
        self.put(&SEALS, &seal, &Key::new().scope(scope).number(generation))?;
        self.put(
            &SYNC,
            &shard.key(scope).number(entry.hlc().as_u64()).id(&element),
            &seal,
        )?;
        self.put(&ELEMENTS, &element, &seal)?;
        self.put(
            &BY_SCOPE,
            &Key::new().scope(scope).kind(entry.kind()).id(id.as_bytes()),
            &[],
        )?;
        self.change_shard(scope, shard, |digest| digest.add(&element))?;
        // It has come in the open, so sealed bytes kept for this element are not needed any more.
        self.drop_held(&element)
    }

    fn change_shard(
        &mut self,
        scope: Scope,
        shard: Shard,
        change: impl FnOnce(&mut ShardDigest),
    ) -> Result<(), StoreError> {
        let key = shard.key(scope);
        let mut digest = match self.get(&SHARDS, &key)? {
            Some(value) => ShardDigest::decode(&value)?,
            None => ShardDigest::default(),
        };
        change(&mut digest);
        if digest.count == 0 {
            self.remove(&SHARDS, &key)?;
            return Ok(());
        }
        self.put(&SHARDS, &key, &digest.encode())
    }
}

/// Scope and generation of a [`SEALS`] row.
pub(crate) fn seal_value(value: &[u8]) -> Result<(Scope, u64), StoreError> {
    let parse = || {
        let (scope, generation) = value.split_last_chunk::<8>()?;
        Some((Scope::of(scope)?, u64::from_be_bytes(*generation)))
    };
    parse().ok_or_else(|| form(&SEALS))
}

fn ahead_key(hlc: Hlc, id: &RecordId) -> Key {
    Key::new().number(hlc.as_u64()).id(id.as_bytes())
}
