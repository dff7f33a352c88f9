//! Blind replicas: members place objects with them, they fetch and keep them, and a kit's key reads them back (DESIGN §8, §9).

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
    time::Duration,
};

use sovm_catalog::{HolderRow, Read as _, Receipt, Scope};
use sovm_mesh::{
    net::{
        BoxFuture,
        protocol::{StreamEnd, StreamHandler},
        wire::{FrameLimits, Framed},
    },
    proto::blind::{
        Answer, Ask, ListFrom, Listed, MAX_IDS, PlaceObject, Placed, ReplicaReceipt, ReplicaRequest, RequestRefusal,
        challenge_answer, decode_receipt, decode_request, judge_request,
    },
};
use sovm_object::{
    id::{SiteId, StorageId},
    record::Role,
    sign::Signed,
    verified::VerifiedRead,
};

use super::super::{core::Core, founding::random};
use crate::error::{ApiError, ErrorKind};

/// How long a receipt counts (SOP part 2.13, gc-2).
const RECEIPT_DAYS: u64 = 7;
const DAY_MS: u64 = 24 * 3_600_000;

/// Newest recovery roots whose parts one site alone cannot have released.
const PROTECTED_ROOTS: usize = 3;

/// Pause between two looks at what should be placed.
const LOOK: Duration = Duration::from_secs(3);

/// Answers a kit's key.
pub(super) struct RecoverHandler(pub(super) Weak<Core>);

impl StreamHandler for RecoverHandler {
    fn handle<'a>(&'a self, stream: &'a mut Framed) -> BoxFuture<'a, Result<(), StreamEnd>> {
        Box::pin(async move {
            let core = self.0.upgrade().ok_or(StreamEnd::Busy)?;
            // The gate let the key of a kit through and nobody else.
            stream.set_limits(FrameLimits::MEMBER);
            while let Some(request) = stream.recv().await? {
                let peer = stream.peer();
                let receipt = core
                    .answer_replica(&peer, &request)
                    .await
                    .map_err(|_| StreamEnd::Internal)?;
                stream.send(&receipt).await?;
            }
            Ok(())
        })
    }
}

/// Talks to blind replicas whenever something here is not placed yet.
pub(super) async fn keep_placed(core: Weak<Core>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(core) = core.upgrade() else {
            return;
        };
        let unplaced = core
            .read()
            .and_then(|snapshot| core.blind_replicas(&snapshot))
            .unwrap_or_default();
        for replica in unplaced {
            if core.to_place(&replica).await.is_ok_and(|objects| !objects.is_empty()) {
                // Who cannot be reached now is tried with the next look.
                let _ = core.talk_to(replica).await;
            }
        }
    }
}

impl Core {
    /// Objects this node holds whole and the replica has given no receipt for, sorted by id so that their order tells nothing.
    pub(in super::super) async fn to_place(&self, replica: &SiteId) -> Result<Vec<PlaceObject>, ApiError> {
        let snapshot = self.read()?;
        let now_ms = self.now_ms();
        let mut protected = BTreeSet::new();
        for domain in snapshot.domains()? {
            for root in snapshot
                .root_announcements(&domain.genesis.domain_id)?
                .iter()
                .rev()
                .take(PROTECTED_ROOTS)
            {
                let root = root.body();
                protected.extend([root.root_id, root.ring_blob, root.checkpoint]);
            }
        }
        let mut objects = Vec::new();
        for held in self.blobs.list().await? {
            let id = held.id();
            let receipts = snapshot.receipts(&id)?;
            let valid = receipts
                .iter()
                .any(|(site, receipt)| site == replica && receipt.valid_until_ms > now_ms);
            if !valid && !self.domains_of_object(&snapshot, &id)?.is_empty() {
                objects.push(PlaceObject {
                    storage_id: id,
                    size: held.size(),
                    protected: protected.contains(&id),
                });
            }
        }
        objects.sort_by_key(|object| object.storage_id);
        Ok(objects)
    }

    /// Whether an object was offered to this replica: it may fetch what it was asked to keep.
    pub(super) fn was_placed_with(&self, replica: &SiteId, id: &StorageId) -> Result<bool, ApiError> {
        let snapshot = self.read()?;
        let is_blind = self.blind_replicas(&snapshot)?.contains(replica);
        Ok(is_blind && !self.domains_of_object(&snapshot, id)?.is_empty())
    }

    /// In a conversation with a blind replica: places what it lacks, and collects receipts for what it has.
    pub(super) async fn place_with(&self, peer: &SiteId, stream: &mut Framed) -> Result<(), ApiError> {
        if self.network()?.allow.role(peer) != Some(Role::Blind) || self.is_blind()? {
            return Ok(());
        }
        let objects = self.to_place(peer).await?;
        for batch in objects.chunks(MAX_IDS) {
            let receipt = self
                .ask_replica(peer, stream, Ask::Place(batch.to_vec().into()))
                .await?;
            if let Answer::Placed(placed) = &receipt.answer {
                self.note_receipt(peer, &receipt, &placed.held)?;
            }
        }
        Ok(())
    }

    fn note_receipt(&self, peer: &SiteId, receipt: &ReplicaReceipt, held: &[StorageId]) -> Result<(), ApiError> {
        if held.is_empty() {
            return Ok(());
        }
        let issued_ms = receipt.hlc.millis();
        let mut txn = self.catalog.begin()?;
        for id in held {
            let row = Receipt {
                issued_ms,
                valid_until_ms: issued_ms + RECEIPT_DAYS * DAY_MS,
                bytes: sovm_object::cbor::to_vec(receipt),
            };
            txn.put_receipt(id, peer, &row)?;
        }
        self.save(txn)?;
        Ok(())
    }

    /// Signs a request to a replica.
    pub(super) fn sign_replica_request(&self, replica: &SiteId, ask: Ask) -> Result<Signed<ReplicaRequest>, ApiError> {
        let stamp = self.stamp()?;
        Ok(self.sign(ReplicaRequest {
            mesh_id: self.mesh(),
            requester: self.me,
            replica: *replica,
            nonce: random(),
            hlc: stamp.hlc,
            ask,
        }))
    }

    /// Verifies a replica's receipt for our request.
    pub(super) fn check_receipt(
        &self,
        replica: &SiteId,
        request: &Signed<ReplicaRequest>,
        bytes: &[u8],
    ) -> Result<ReplicaReceipt, ApiError> {
        let broken = || {
            ApiError::new(
                ErrorKind::Integrity,
                format!("replica {} sent a receipt that is none", replica.fmt_short()),
            )
        };
        let receipt = decode_receipt(bytes)
            .map_err(|_| broken())?
            .verify(&self.mesh())
            .map_err(|_| broken())?;
        let body = receipt.body();
        if body.replica != *replica || body.request != request.id() || body.mesh_id != self.mesh() {
            return Err(broken());
        }
        Ok(body.clone())
    }

    /// Answers a request about kept objects with a signed receipt.
    pub(super) async fn answer_replica(self: &Arc<Self>, peer: &SiteId, bytes: &[u8]) -> Result<Vec<u8>, ApiError> {
        let malformed = || ApiError::new(ErrorKind::BadInput, "a request that is not of the protocol");
        let request = decode_request(bytes)
            .map_err(|_| malformed())?
            .verify(&self.mesh())
            .map_err(|_| malformed())?;
        let roster = self.read()?.roster(Scope::Mesh)?.ok_or_else(malformed)?;
        let answer = match judge_request(&request, self.me, *peer, &roster, self.now_ms()) {
            Ok(()) => self.carry_out_request(peer, request.body()).await?,
            Err(refusal) => Answer::Refused(refusal),
        };
        let stamp = self.stamp()?;
        let receipt = self.sign(ReplicaReceipt {
            mesh_id: self.mesh(),
            replica: self.me,
            request: request.id(),
            hlc: stamp.hlc,
            answer,
        });
        Ok(receipt.bytes().to_vec())
    }

    async fn carry_out_request(&self, peer: &SiteId, request: &ReplicaRequest) -> Result<Answer, ApiError> {
        Ok(match &request.ask {
            Ask::Place(objects) => self.take_in(peer, objects).await?,
            Ask::Have(ids) => {
                let mut held = Vec::new();
                for id in ids.iter() {
                    if self.blobs.has(*id).await? {
                        held.push(*id);
                    }
                }
                Answer::Have(held.into())
            }
            Ask::Get(ids) => {
                let mut ready = Vec::new();
                for id in ids.iter() {
                    if self.blobs.has(*id).await? {
                        ready.push(*id);
                    }
                }
                Answer::Ready(ready.into())
            }
            Ask::List(from) => Answer::Listed(self.list_page(from).await?),
            Ask::Challenge(ranges) => {
                let mut parts = Vec::new();
                for range in ranges.iter() {
                    let end = range.start.saturating_add(range.len);
                    let read = VerifiedRead::read(&self.blobs, range.storage_id, &[range.start..end]).await;
                    match read {
                        Ok(mut bytes) if !bytes.is_empty() => parts.push(bytes.remove(0)),
                        _ => return Ok(Answer::Have(Vec::new().into())),
                    }
                }
                Answer::Proof(challenge_answer(&request.nonce, parts.iter().map(|part| &part[..])))
            }
            // Nothing is ever deleted yet, so a release changes nothing.
            Ask::Release(_) => Answer::Refused(RequestRefusal::NotAllowed),
        })
    }

    /// A member asks us to keep objects: what is not here yet is fetched from it.
    async fn take_in(&self, placer: &SiteId, objects: &[PlaceObject]) -> Result<Answer, ApiError> {
        if !self.is_blind()? {
            return Ok(Answer::Refused(RequestRefusal::NotAllowed));
        }
        let now_ms = self.now_ms();
        let mut placed = Placed::default();
        let mut wanted = Vec::new();
        for object in objects {
            if self.blobs.has(object.storage_id).await? {
                placed.held.0.push(object.storage_id);
            } else if self.blobs.check_room(object.size).is_err() {
                placed.refused.0.push(object.storage_id);
            } else {
                placed.accepted.0.push(object.storage_id);
                wanted.push(object.storage_id);
            }
        }
        if !wanted.is_empty() {
            let holder = HolderRow {
                asked_ms: 0,
                failures: 0,
                reason: None,
                next_try_ms: now_ms,
                claims: true,
            };
            let mut txn = self.catalog.begin()?;
            for id in &wanted {
                txn.byte_event(id, sovm_catalog::ByteEvent::Missing, None, now_ms)
                    .map_err(ApiError::bug)?;
                txn.put_holder(id, placer, &holder)?;
            }
            self.save(txn)?;
            self.told();
        }
        Ok(Answer::Placed(placed))
    }

    async fn list_page(&self, from: &ListFrom) -> Result<Listed, ApiError> {
        let limit = usize::try_from(from.limit).unwrap_or(MAX_IDS).clamp(1, MAX_IDS);
        let mut held = self.blobs.list().await?;
        held.retain(|held| from.after.0.is_none_or(|after| held.id() > after));
        held.sort_by_key(|held| held.id());
        let more = held.len() > limit;
        held.truncate(limit);
        Ok(Listed {
            ids: held.iter().map(|held| held.id()).collect::<Vec<_>>().into(),
            sizes: held.iter().map(|held| held.size()).collect::<Vec<_>>().into(),
            more,
        })
    }

    /// Objects a blind replica was asked to keep and has not got yet.
    pub(in super::super) fn placed_but_missing(&self) -> Result<u64, ApiError> {
        Ok(self.read()?.pending_bytes()?.len() as u64)
    }

    /// Sites that gave a valid receipt for an object.
    pub(in super::super) fn copies_of(&self, id: &StorageId) -> Result<u64, ApiError> {
        let now_ms = self.now_ms();
        let receipts = self.read()?.receipts(id)?;
        Ok(receipts
            .iter()
            .filter(|(_, receipt)| receipt.valid_until_ms > now_ms)
            .count() as u64)
    }
}
