//! Kits, checkpoints, recovery and drills (DESIGN §9): the steps are `sovm_recovery`'s, the bytes and signatures this node's.

mod drill;
mod restore;
mod source;

use sovm_catalog::{ByteEvent, Read, Scope, SealedUnder};
use sovm_object::{
    entry::{EntryIn, VerifiedEntry, sealed},
    id::{DomainId, RecordId, StorageId},
    record::{OpKind, Role, RootAnnouncement},
};
use sovm_recovery::{
    AgeRecipient, Kit, RingBlob, Root,
    chain::Lineage,
    checkpoint::{CheckpointBody, CheckpointObject, CheckpointRecord, Publisher, domain_digest},
    kit::{PageFacts, Replica, active_kits},
    ring::RingBody,
    root::RootDraft,
};

pub(super) use self::{drill::last_drill, restore::recover};
use super::{core::Core, network::OpDraft};
use crate::{
    api::{CheckpointInfo, CheckpointReport, KitReport},
    error::{ApiError, ErrorKind},
};

/// A checkpoint that was written, and what to compare it with.
struct Written {
    info: CheckpointInfo,
    root: Root,
}

impl Core {
    /// `recovery kit`.
    pub(super) async fn make_kit(&self, domain: Option<&str>) -> Result<KitReport, ApiError> {
        let domain = self.domain(domain)?;
        self.require_admin(None)?;
        self.require_admin(Some(domain))?;
        let kit = Kit::generate();
        {
            let _step = self.step.lock().await;
            let kek = self.current_kek(&domain)?;
            let mut ops: Vec<VerifiedEntry> = Vec::new();
            for scope in [None, Some(domain)] {
                // The kit's key may add the machine that is recovered, and nothing else (DESIGN §9).
                ops.push(
                    self.sign_op(OpDraft {
                        domain: scope,
                        kind: OpKind::Add,
                        site: kit.recovery_site(),
                        role: Role::Recovery,
                        binding: None,
                        history_from: 1,
                        cut_seq: 0,
                    })?
                    .into(),
                );
            }
            let heads = self.heads(Some(domain))?;
            let stamp = self.stamp()?;
            let record = self.sign(kit.record((self.mesh(), domain), self.me, stamp.seq, heads, stamp.hlc));
            let mut txn = self.catalog.begin()?;
            self.admit_all(&mut txn, ops)?;
            txn.admit(record, Some(kek), self.now_ms())?;
            let committed = self.commit(txn)?;
            self.after_admission(&committed)?;
        }
        // A kit opens ring blobs that were written for it, so one is written now.
        let written = self.write_checkpoint(&domain).await?;
        let snapshot = self.read()?;
        let view = snapshot
            .domains()?
            .into_iter()
            .find(|view| view.genesis.domain_id == domain);
        let view = view.ok_or_else(|| ApiError::bug("a domain without its founding record"))?;
        let reference = written.root.reference();
        let facts = PageFacts {
            mesh_name: snapshot.mesh_name()?.unwrap_or_else(|| "unnamed".to_owned()),
            mesh_id: self.mesh(),
            domain_name: view.genesis.name.clone(),
            domain_id: domain,
            genesis: view.record,
            made_ms: self.now_ms(),
            root_id: written.root.id(),
            recovery_generation: reference.recovery_generation,
            kek_generation: reference.kek_generation,
            replicas: self.replica_places(&snapshot)?,
            command: "sovm recover --kit FILE_WITH_THIS_PAGE".to_owned(),
        };
        Ok(KitReport {
            kit_id: kit.id().to_string(),
            domain: view.genesis.name,
            fingerprint: kit.fingerprint().to_string(),
            root_id: written.root.id().to_string(),
            page: kit.show_page(&facts).to_string(),
        })
    }

    /// Where objects lie besides here: blind replicas first, then members, each with its last address.
    fn replica_places(&self, snapshot: &impl Read) -> Result<Vec<Replica>, ApiError> {
        let mut places = Vec::new();
        let Some(roster) = snapshot.roster(Scope::Mesh)? else {
            return Ok(places);
        };
        for wanted in [true, false] {
            for (site, role, _) in roster.members() {
                if site == self.me || role == Role::Recovery || (role == Role::Blind) != wanted {
                    continue;
                }
                if let Some(address) = self.address_of_site(&site)? {
                    places.push(Replica {
                        site,
                        address: source::to_text(&address),
                    });
                }
            }
        }
        Ok(places)
    }

    /// `recovery checkpoint`.
    pub(super) async fn checkpoint(&self, domain: Option<&str>) -> Result<CheckpointReport, ApiError> {
        let domains: Vec<DomainId> = match domain {
            Some(name) => vec![self.domain(Some(name))?],
            None => self
                .read()?
                .domains()?
                .into_iter()
                .map(|domain| domain.genesis.domain_id)
                .collect(),
        };
        let mut checkpoints = Vec::new();
        for domain in domains {
            if self.kits(&domain)?.is_empty() && checkpoints.is_empty() {
                let name = self.domain_info(&self.read()?, &domain)?.name;
                return Err(ApiError::new(
                    ErrorKind::Refused,
                    format!("domain {name} has no recovery kit, so nobody could open a checkpoint"),
                )
                .safe("nothing was written")
                .next("sovm recovery kit > page.txt"));
            }
            if !self.kits(&domain)?.is_empty() {
                checkpoints.push(self.write_checkpoint(&domain).await?.info);
            }
        }
        Ok(CheckpointReport { checkpoints })
    }

    /// Recipients and ids of the kits that count.
    fn kits(&self, domain: &DomainId) -> Result<Vec<(sovm_object::id::KitId, AgeRecipient)>, ApiError> {
        let records = self.read()?.kit_records(domain)?;
        let kits = active_kits(records.iter().map(|record| (record.id(), record.body())));
        Ok(kits
            .into_iter()
            .map(|kit| (kit.kit_id, AgeRecipient::from_bytes(kit.age_recipient)))
            .collect())
    }

    /// Writes checkpoint, root and ring blob, in the order that leaves a usable older root at any crash (SOP-209).
    async fn write_checkpoint(&self, domain: &DomainId) -> Result<Written, ApiError> {
        let _step = self.step.lock().await;
        self.require_admin(Some(*domain))?;
        let kek = self.current_kek(domain)?;
        let kits = self.kits(domain)?;
        let snapshot = self.read()?;
        let stored = snapshot.checkpoint_records(domain)?;
        let ids: Vec<RecordId> = stored.iter().map(|record| record.id).collect();
        let records = self.checkpoint_records(domain, stored)?;
        let digest = domain_digest(ids.iter().copied());

        // 1. The checkpoint, in as many objects as it takes.
        let mut bodies = CheckpointBody::divide(self.mesh(), *domain, records);
        let rest = bodies.split_off(1);
        let mut objects = Vec::new();
        for body in &rest {
            objects.push(self.seal_checkpoint(body, &kek)?);
        }
        let head = bodies
            .pop()
            .ok_or_else(|| ApiError::bug("a checkpoint without a head"))?;
        let head = head.with_parts(objects.iter().map(|object| object.as_part(0)).collect());
        objects.push(self.seal_checkpoint(&head, &kek)?);
        let mut durable = Vec::new();
        for object in &objects {
            durable.push(
                self.make_unnamed(object.bytes.clone().into(), object.storage_id)
                    .await?,
            );
        }
        let head = objects
            .last()
            .ok_or_else(|| ApiError::bug("a checkpoint without a head"))?;

        // 2. The root.
        let previous = self
            .newest_root(&snapshot, domain)?
            .map(|root| (root.root_id, root.recovery_generation));
        let ops_seen = self.heads(Some(*domain))?;
        let stamp = self.stamp()?;
        let draft = RootDraft {
            mesh_id: self.mesh(),
            domain_id: *domain,
            checkpoint: head.storage_id,
            checkpoint_manifest: head.manifest.manifest_hash(),
            access: head.access.clone(),
            previous,
            issued_hlc: stamp.hlc,
            seq: stamp.seq,
            ops_seen: ops_seen.clone(),
        };
        let (root, ring) = self.seal_root_and_ring(draft, &kek, &kits)?;
        durable.push(self.make_unnamed(root.bytes().to_vec().into(), root.id()).await?);
        durable.push(self.make_unnamed(ring.bytes().to_vec().into(), ring.id()).await?);

        // 3. The key store, then 4. everybody else.
        self.keys().try_update(|contents| -> Result<(), ApiError> {
            let lineage = Lineage::of_own(&root);
            contents.domain_mut(*domain).advance_root(&lineage).map_err(|error| {
                ApiError::new(ErrorKind::Refused, error.to_string()).safe("the older root still works")
            })
        })?;
        let reference = root.reference();
        let stamp = self.stamp()?;
        let announcement = self.sign(RootAnnouncement {
            mesh_id: self.mesh(),
            domain_id: *domain,
            root_id: root.id(),
            recovery_generation: reference.recovery_generation,
            ring_blob: ring.id(),
            checkpoint: head.storage_id,
            issuer: self.me,
            seq: stamp.seq,
            ops_seen,
            hlc: stamp.hlc,
        });
        let now_ms = self.now_ms();
        let mut txn = self.catalog.begin()?;
        for object in &objects {
            txn.admit(object.manifest.clone(), Some(kek), now_ms)?;
            txn.admit(object.access.clone(), Some(kek), now_ms)?;
        }
        txn.admit(announcement, Some(kek), now_ms)?;
        for object in durable {
            txn.byte_event(&object.id(), ByteEvent::Arrived, Some(object.size()), now_ms)
                .map_err(ApiError::bug)?;
            txn.forget_unpublished(&object.id())?;
        }
        txn.put_meta(&digest_row(&root.id()), &digest)?;
        let committed = self.commit(txn)?;
        self.after_admission(&committed)?;
        let info = CheckpointInfo {
            domain: self.domain_info(&self.read()?, domain)?.name,
            root_id: root.id().to_string(),
            recovery_generation: reference.recovery_generation,
            entries: ids.len() as u64,
            digest: hex::encode(digest),
            copies: self.copies_of(&root.id())?,
        };
        Ok(Written { info, root })
    }

    /// Entries as they rest in a checkpoint: sealed under their own KEK, so that opening it widens nobody's access (C20).
    fn checkpoint_records(
        &self,
        domain: &DomainId,
        stored: Vec<sovm_catalog::CheckpointRecord>,
    ) -> Result<Vec<CheckpointRecord>, ApiError> {
        let keys = self.keys();
        let ring = keys.domain(domain).map(|keys| &keys.ring);
        let mut records = Vec::with_capacity(stored.len());
        for record in stored {
            records.push(match record.sealed {
                Some((generation, kek_id)) => {
                    let kek = ring.and_then(|ring| ring.get(&kek_id)).ok_or_else(|| {
                        ApiError::new(
                            ErrorKind::Incomplete,
                            format!("the key of generation {generation} is not here"),
                        )
                        .safe("nothing was written")
                        .next("sovm sync, then repeat the command")
                    })?;
                    let bytes = sealed::seal(&record.bytes, kek, &kek_id, &self.mesh(), domain);
                    CheckpointRecord::sealed(record.id, kek_id, bytes)
                }
                None => {
                    let entry = EntryIn::decode(&record.bytes).map_err(ApiError::bug)?;
                    CheckpointRecord::public(&entry.verify(&self.mesh()).map_err(ApiError::bug)?)
                }
            });
        }
        Ok(records)
    }

    fn seal_checkpoint(&self, body: &CheckpointBody, kek: &SealedUnder) -> Result<CheckpointObject, ApiError> {
        let ops_seen = self.heads(Some(kek.domain))?;
        let mls_epoch = self.epoch(&kek.domain)?;
        let (first, second) = (self.stamp()?, self.stamp()?);
        let keys = self.keys();
        let key = keys.domain(&kek.domain).and_then(|keys| keys.ring.get(&kek.kek_id));
        let publisher = Publisher {
            key: keys.site_key(),
            mls_epoch,
            seq: [first.seq, second.seq],
            ops_seen,
            hlc: second.hlc,
            kek: (
                kek.generation,
                kek.kek_id,
                key.ok_or_else(|| ApiError::bug("a KEK that is gone"))?,
            ),
        };
        CheckpointObject::seal(body, publisher).map_err(ApiError::bug)
    }

    fn seal_root_and_ring(
        &self,
        draft: RootDraft,
        kek: &SealedUnder,
        kits: &[(sovm_object::id::KitId, AgeRecipient)],
    ) -> Result<(Root, RingBlob), ApiError> {
        let roster = self
            .read()?
            .roster(Scope::Domain(kek.domain))?
            .ok_or_else(|| ApiError::bug("a domain without roster"))?;
        let keys = self.keys();
        let ring = &keys
            .domain(&kek.domain)
            .ok_or_else(|| ApiError::bug("a domain without keys"))?
            .ring;
        let key = ring
            .get(&kek.kek_id)
            .ok_or_else(|| ApiError::bug("a KEK that is gone"))?;
        let op_heads = draft.ops_seen.iter().copied().collect();
        let root = Root::seal(draft, keys.site_key(), (kek.generation, kek.kek_id, key));
        let mut copy = sovm_object::kek::KekRing::default();
        for (generation, kek_id, kek) in ring.iter() {
            copy.insert(
                generation,
                kek_id,
                sovm_object::secret::Kek::from_bytes(*kek.expose_for_sealing()),
            );
        }
        let body = RingBody {
            mesh_id: self.mesh(),
            domain_id: kek.domain,
            ring: copy,
            admins: roster
                .members()
                .filter(|(_, role, _)| *role == Role::Admin)
                .map(|(site, ..)| site)
                .collect(),
            op_heads,
            newest_root: root.id(),
            kits: kits.iter().map(|(id, _)| *id).collect(),
            issuer: self.me,
        };
        let recipients: Vec<AgeRecipient> = kits.iter().map(|(_, recipient)| *recipient).collect();
        let ring = RingBlob::seal(body, &recipients, keys.site_key()).map_err(|error| {
            ApiError::new(ErrorKind::Refused, format!("the ring blob cannot be written: {error}"))
                .safe("older roots still work")
                .next("sovm recovery kit > page.txt")
        })?;
        Ok((root, ring))
    }
}

/// Metadata row with the digest of the set a root's checkpoint holds.
fn digest_row(root: &StorageId) -> String {
    format!("root-digest/{root}")
}
