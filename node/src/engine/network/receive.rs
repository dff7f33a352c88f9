//! What a peer gave: opened, decoded, verified, and admitted in one transaction. Nothing a peer says counts before that.

use sovm_catalog::{Committed, EntryState, Held, HeldReason, Read as _, SealedUnder, Txn};
use sovm_mesh::proto::sync::{Item, Scope};
use sovm_object::{
    cbor::DecodeError,
    entry::{EntryIn, EntryKind, VerifiedEntry, sealed},
    id::{DomainId, KekId, SiteId},
    kek::KekRing,
};

use super::{
    super::core::Core,
    set::{PLAIN, SEALED},
};
use crate::error::ApiError;

impl Core {
    /// Takes items of one scope. Bad ones are remembered and dropped; the others count whatever stands beside them.
    pub(super) fn receive(&self, from: &SiteId, scope: Scope, items: &[Item]) -> Result<(), ApiError> {
        let now_ms = self.now_ms();
        let mut txn = self.catalog.begin()?;
        for item in items {
            if txn.refusal(&item.bytes)?.is_some() {
                continue;
            }
            match (item.kind, scope) {
                (PLAIN, _) => self.receive_plain(&mut txn, from, scope, &item.bytes, now_ms)?,
                (SEALED, Scope::Domain(domain)) => self.receive_sealed(&mut txn, from, &domain, &item.bytes, now_ms)?,
                _ => txn.remember_refusal(&item.bytes, "an item of an unknown kind", now_ms)?,
            }
        }
        let committed = self.commit(txn)?;
        self.after_admission(&committed)
    }

    fn receive_plain(
        &self,
        txn: &mut Txn,
        from: &SiteId,
        scope: Scope,
        bytes: &[u8],
        now_ms: u64,
    ) -> Result<(), ApiError> {
        let entry = match EntryIn::decode(bytes) {
            Ok(entry) => entry,
            Err(DecodeError::NewerVersion(_) | DecodeError::UnknownContentType) => {
                if let Scope::Domain(domain) = scope {
                    self.hold(txn, from, &domain, None, HeldReason::NewerFormat, bytes, now_ms)?;
                }
                return Ok(());
            }
            Err(error) => return Ok(txn.remember_refusal(bytes, &error.to_string(), now_ms)?),
        };
        let entry = match entry.verify(&self.mesh()) {
            Ok(entry) => entry,
            Err(error) => return Ok(txn.remember_refusal(bytes, &error.to_string(), now_ms)?),
        };
        // What must be sealed never counts when it comes open, and nothing comes in through another domain's set.
        let fits = !entry.kind().is_sealed()
            && match scope {
                Scope::Public => entry.kind().is_for_blind_replicas() && entry.domain().is_none(),
                Scope::Mesh => entry.domain().is_none(),
                Scope::Domain(domain) => entry.domain() == Some(domain),
            };
        if !fits {
            return Ok(txn.remember_refusal(bytes, "an entry in the set of another scope", now_ms)?);
        }
        self.observe(&entry, now_ms);
        txn.admit(entry, None, now_ms)?;
        Ok(())
    }

    fn receive_sealed(
        &self,
        txn: &mut Txn,
        from: &SiteId,
        domain: &DomainId,
        bytes: &[u8],
        now_ms: u64,
    ) -> Result<(), ApiError> {
        let opened = {
            let keys = self.keys();
            let none = KekRing::default();
            let ring = keys.domain(domain).map_or(&none, |keys| &keys.ring);
            sealed::open(bytes, ring, &self.mesh(), domain)
                .map(|opened| opened.map(|(kek_id, entry)| (ring.generation(&kek_id).unwrap_or(0), kek_id, entry)))
        };
        match opened {
            Ok(Some((generation, kek_id, entry))) => self.admit_opened(
                txn,
                domain,
                SealedUnder {
                    domain: *domain,
                    generation,
                    kek_id,
                },
                &entry,
                now_ms,
            ),
            // The key is not here yet: kept, and opened as soon as it comes (`lessons.md`, devices).
            Ok(None) => self.hold(
                txn,
                from,
                domain,
                sealed::kek_id_of(bytes),
                HeldReason::NoKek,
                bytes,
                now_ms,
            ),
            Err(error) => Ok(txn.remember_refusal(bytes, &error.to_string(), now_ms)?),
        }
    }

    fn admit_opened(
        &self,
        txn: &mut Txn,
        domain: &DomainId,
        under: SealedUnder,
        bytes: &[u8],
        now_ms: u64,
    ) -> Result<(), ApiError> {
        let verified = EntryIn::decode(bytes)
            .map_err(|error| error.to_string())
            .and_then(|entry| entry.verify(&self.mesh()).map_err(|error| error.to_string()));
        match verified {
            Ok(entry) if entry.kind().is_sealed() && entry.domain().is_none_or(|named| named == *domain) => {
                self.observe(&entry, now_ms);
                txn.admit(entry, Some(under), now_ms)?;
                Ok(())
            }
            Ok(_) => Ok(txn.remember_refusal(bytes, "a sealed entry of another domain", now_ms)?),
            Err(error) => Ok(txn.remember_refusal(bytes, &error, now_ms)?),
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "one call site a reason; a struct would only rename them"
    )]
    fn hold(
        &self,
        txn: &mut Txn,
        from: &SiteId,
        domain: &DomainId,
        kek_id: Option<KekId>,
        reason: HeldReason,
        bytes: &[u8],
        now_ms: u64,
    ) -> Result<(), ApiError> {
        let element = *blake3::hash(bytes).as_bytes();
        let held = Held {
            element,
            domain: *domain,
            kek_id,
            reason,
            from: *from,
            received_ms: now_ms,
            bytes: bytes.to_vec(),
        };
        txn.hold(&held)?;
        Ok(())
    }

    /// Our clock follows what it sees, unless that is too far ahead (SOP-133).
    fn observe(&self, entry: &VerifiedEntry, now_ms: u64) {
        self.clock().observe(entry.hlc(), now_ms);
    }

    /// Opens what waited for KEKs that are here now.
    pub(in super::super) fn open_held(&self, domain: &DomainId) -> Result<(), ApiError> {
        let snapshot = self.read()?;
        let mut waiting = Vec::new();
        for kek_id in snapshot.held_keks()? {
            let holds = self
                .keys()
                .domain(domain)
                .is_some_and(|keys| keys.ring.get(&kek_id).is_some());
            if holds {
                waiting.extend(
                    snapshot
                        .held_for_kek(&kek_id)?
                        .into_iter()
                        .filter(|held| held.domain == *domain),
                );
            }
        }
        if waiting.is_empty() {
            return Ok(());
        }
        let now_ms = self.now_ms();
        let mut txn = self.catalog.begin()?;
        for held in waiting {
            txn.unhold(&held)?;
            self.receive_sealed(&mut txn, &held.from, domain, &held.bytes, now_ms)?;
        }
        let committed = self.commit(txn)?;
        self.after_admission(&committed)
    }

    /// What follows from entries that count now.
    pub(in super::super) fn after_admission(&self, committed: &Committed) -> Result<(), ApiError> {
        let changed = |kind: EntryKind| {
            committed
                .changes
                .values()
                .any(|change| change.kind == kind && change.after != EntryState::WaitingAuthority)
        };
        if changed(EntryKind::MembershipOp) || changed(EntryKind::MeshGenesis) {
            self.refresh_allow()?;
        }
        if !committed.changes.is_empty() {
            self.told();
        }
        Ok(())
    }
}
