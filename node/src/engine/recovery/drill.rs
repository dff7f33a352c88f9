//! `drill`: restores into a temporary place and compares (DESIGN §9, §16.8).
//!
//! The root, the checkpoint and the objects come from replicas when there are any, so that the drill proves what a fire would need.
//! Only the kit's words are not part of it: they are with a person. That ring blobs lie beside the roots is checked.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use sovm_catalog::{Catalog, ObjectView, Read, Scope, SealedUnder, Snapshot};
use sovm_mesh::net::{
    fetch::{FetchRequest, Fetcher},
    store::{DiskReserve, ObjectStore},
};
use sovm_object::{
    id::{DomainId, SiteId, StorageId, TableId},
    kek::KekRing,
    pme::{Footer, OpenOptions},
    secret::DatabaseKey,
    verified::VerifiedRead,
};
use sovm_recovery::{
    checkpoint::{self, CheckpointBody, RecoveredSet, part_access},
    drill::{DrillReport as Proof, Sample, TableRows},
    root::RootIn,
};

use super::{
    super::core::Core,
    digest_row,
    drill_files::{Side, copy, same_bytes},
};
use crate::{
    api::{DrillDomain, DrillReport, DrillTable, Event, ProgressSink, Unit},
    error::{ApiError, ErrorKind},
};

/// Metadata row with the last proof.
const META_LAST_DRILL: &str = sovm_catalog::meta::LAST_DRILL;

/// Objects read range by range when the drill is not full.
pub(super) const SAMPLED_OBJECTS: usize = 16;

/// Bytes of one sampled range.
const SAMPLE_BYTES: u64 = 64 * 1024;

sovm_object::payload! {
    /// When a drill last proved recovery, and what it found.
    pub struct LastDrill {
        /// When it ended, milliseconds since 1970.
        2 proven_ms: u64,
        /// Objects restored.
        3 objects: u64,
        /// Objects missing.
        4 missing: u64,
    }
}

/// The last proof this node has, if any.
pub(in super::super) fn last_drill(rows: &impl Read) -> Result<Option<LastDrill>, ApiError> {
    let stored = rows.meta(META_LAST_DRILL)?;
    stored
        .map(|bytes| sovm_object::cbor::from_slice(&bytes).map_err(ApiError::bug))
        .transpose()
}

/// The root a drill starts from.
pub(super) struct Start {
    pub(super) root_id: StorageId,
    pub(super) recovery_generation: u64,
    /// Known when the root was announced here; a recovered node learnt its root from the kit.
    ring_blob: Option<StorageId>,
    issuer: Option<SiteId>,
}

fn no_root() -> ApiError {
    ApiError::new(
        ErrorKind::Refused,
        "there is no recovery root yet, so there is nothing to drill",
    )
    .safe("nothing was changed")
    .next("sovm recovery kit > page.txt")
}

/// A place that is not this node's disk, or this node's disk when there is no other.
pub(super) enum Place {
    Replica(SiteId),
    Here,
}

impl Core {
    /// `drill`.
    pub(in super::super) async fn drill(
        self: &Arc<Self>,
        domain: Option<&str>,
        full: bool,
        progress: &dyn ProgressSink,
    ) -> Result<DrillReport, ApiError> {
        let domains: Vec<DomainId> = match domain {
            Some(name) => vec![self.domain(Some(name))?],
            None => self
                .read()?
                .domains()?
                .into_iter()
                .map(|domain| domain.genesis.domain_id)
                .collect(),
        };
        if self.is_online() {
            // Who can be reached decides where the drill reads from.
            self.talk_to_all().await;
        }
        let mut report = DrillReport {
            proven: true,
            missing: 0,
            domains: Vec::new(),
        };
        let mut objects = 0;
        for domain in domains {
            let snapshot = self.read()?;
            let Some(root) = self.newest_root(&snapshot, &domain)? else {
                // A domain without a kit cannot be recovered; one that holds nothing needs no proof.
                if !self.all_objects(&snapshot)?.is_empty() && report.domains.is_empty() {
                    return Err(no_root());
                }
                continue;
            };
            let found = self.drill_domain(&domain, &root, full, progress).await?;
            report.proven &= found.proven;
            report.missing += found.missing.len() as u64;
            objects += found.objects;
            report.domains.push(found);
        }
        if report.domains.is_empty() {
            return Err(no_root());
        }
        if report.proven {
            let proof = LastDrill {
                proven_ms: self.now_ms(),
                objects,
                missing: report.missing,
            };
            let mut txn = self.catalog.begin()?;
            txn.put_meta(META_LAST_DRILL, &sovm_object::cbor::to_vec(&proof))?;
            self.save(txn)?;
        }
        Ok(report)
    }

    /// The newest root this node knows: announced, or the one it was recovered from.
    pub(super) fn newest_root(&self, snapshot: &Snapshot, domain: &DomainId) -> Result<Option<Start>, ApiError> {
        let announced = snapshot.root_announcements(domain)?.pop().map(|root| {
            let root = root.body();
            Start {
                root_id: root.root_id,
                recovery_generation: root.recovery_generation,
                ring_blob: Some(root.ring_blob),
                issuer: Some(root.issuer),
            }
        });
        let kept = self
            .keys()
            .domain(domain)
            .and_then(|keys| keys.root().copied())
            .map(|root| Start {
                root_id: root.root_id,
                recovery_generation: root.recovery_generation,
                ring_blob: None,
                issuer: None,
            });
        Ok(match (announced, kept) {
            (Some(announced), Some(kept)) if kept.recovery_generation > announced.recovery_generation => Some(kept),
            (Some(announced), _) => Some(announced),
            (None, kept) => kept,
        })
    }

    async fn drill_domain(
        &self,
        domain: &DomainId,
        root: &Start,
        full: bool,
        progress: &dyn ProgressSink,
    ) -> Result<DrillDomain, ApiError> {
        let aside = tempfile::tempdir().map_err(|error| ApiError::io("making a temporary directory", &error))?;
        let store = ObjectStore::open(aside.path().join("blobs"), DiskReserve { bytes: 0, percent: 0 }).await?;
        let places = self.drill_places()?;
        let result = self
            .restore_aside(domain, root, full, progress, aside.path(), &store, &places)
            .await;
        store.shutdown().await?;
        result
    }

    fn drill_places(&self) -> Result<Vec<Place>, ApiError> {
        let mut places = Vec::new();
        if self.is_online() {
            places.extend(self.drill_replicas()?.into_iter().map(Place::Replica));
        }
        if places.is_empty() {
            places.push(Place::Here);
        }
        Ok(places)
    }

    /// Brings one object into the temporary store; false when no place has it.
    pub(super) async fn bring(&self, store: &ObjectStore, places: &[Place], id: StorageId) -> Result<bool, ApiError> {
        for place in places {
            let here = match place {
                Place::Replica(site) => {
                    let fetcher = Fetcher::new(self.network()?.net.endpoint().clone(), store.clone());
                    fetcher
                        .fetch(&FetchRequest::whole(id), *site, |_| {})
                        .await
                        .is_ok_and(|outcome| outcome.durable.is_some())
                }
                Place::Here => copy(&self.blobs, store, id).await,
            };
            if here {
                return Ok(true);
            }
        }
        Ok(false)
    }

    #[allow(clippy::too_many_arguments, reason = "one call site; the parts of one drill")]
    async fn restore_aside(
        &self,
        domain: &DomainId,
        root: &Start,
        full: bool,
        progress: &dyn ProgressSink,
        aside: &Path,
        store: &ObjectStore,
        places: &[Place],
    ) -> Result<DrillDomain, ApiError> {
        let gone = |what: &str, id: &StorageId| {
            ApiError::new(
                ErrorKind::Failed,
                format!("{what} {} is on no replica that was reached", id.fmt_short()),
            )
            .safe("the drill ran aside; this node was not changed")
            .next("sovm recovery checkpoint, then sovm sync --wait 60s, then sovm drill again")
        };
        for (what, id) in [("recovery root", Some(root.root_id)), ("ring blob", root.ring_blob)] {
            if let Some(id) = id
                && !self.bring(store, places, id).await?
            {
                return Err(gone(what, &id));
            }
        }
        let (set, issued_ms) = self.open_aside(domain, root, store, places).await?;
        let restored_digest = set.digest();
        let catalog = Catalog::open(aside, &DatabaseKey::generate())?;
        self.admit_aside(&catalog, domain, set)?;
        let restored = catalog.read()?;
        let mut proof = Proof {
            at_ms: self.now_ms(),
            root: root.root_id,
            recovery_generation: root.recovery_generation,
            live_digest: self.live_digest(root)?,
            restored_digest,
            tables: BTreeMap::new(),
            samples: Vec::new(),
            objects: 0,
            missing: Vec::new(),
        };
        let mut tables = Vec::new();
        for view in restored.tables()? {
            let name = view.display_name.clone();
            let rows = self
                .drill_table(
                    domain,
                    &view.genesis.table_id,
                    &restored,
                    store,
                    places,
                    full,
                    progress,
                    &mut proof,
                )
                .await?;
            proof.tables.insert(view.genesis.table_id, rows);
            tables.push(DrillTable {
                table: name,
                rows_restored: rows.restored,
                rows_here: rows.live,
            });
        }
        let files = self
            .drill_files(domain, &restored, (store, places), full, &mut proof)
            .await?;
        let edition_files = self
            .drill_edition_files(domain, &restored, (store, places), full, &mut proof)
            .await?;
        let name = self.domain_info(&self.read()?, domain)?.name;
        for finding in proof.findings() {
            progress.event(Event::Notice {
                text: format!("domain {name}: {finding}"),
            });
        }
        Ok(DrillDomain {
            domain: name,
            proven: proof.is_proven(),
            root_id: root.root_id.to_string(),
            checkpoint_age_ms: self.now_ms().saturating_sub(issued_ms),
            digest_restored: hex::encode(proof.restored_digest),
            digest_here: hex::encode(proof.live_digest),
            objects: proof.objects - proof.missing.len() as u64,
            missing: proof.missing.iter().map(ToString::to_string).collect(),
            tables,
            files,
            edition_files,
            sampled_bytes: proof.sampled_bytes(),
        })
    }

    /// Root to checkpoint to entries, as a recovery would, from the temporary store alone.
    async fn open_aside(
        &self,
        domain: &DomainId,
        start: &Start,
        store: &ObjectStore,
        places: &[Place],
    ) -> Result<(RecoveredSet, u64), ApiError> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            ApiError::new(ErrorKind::Failed, format!("the drill stopped at the {what}: {error}"))
                .safe("the drill ran aside; this node was not changed")
                .next("sovm recovery checkpoint, then sovm drill again")
        };
        let root = whole(store, start.root_id)
            .await
            .ok_or_else(|| failed("root", &"it does not read"))?;
        let root = RootIn::decode(start.root_id, &root).map_err(|error| failed("root", &error))?;
        let mesh = self.mesh();
        let root = {
            let keys = self.keys();
            let keys = keys
                .domain(domain)
                .ok_or_else(|| ApiError::bug("a domain without keys"))?;
            let believed = start.issuer.into_iter().chain(keys.admins.iter().copied()).collect();
            let opened = root.open(&keys.ring, None).map_err(|error| failed("root", &error))?;
            opened
                .verify(&mesh, domain, &believed)
                .map_err(|error| failed("root", &error))?
        };
        let checkpoint = root.body().checkpoint_storage_id;
        if !self.bring(store, places, checkpoint).await? {
            return Err(failed(
                "checkpoint",
                &format!("object {} is on no replica that was reached", checkpoint.fmt_short()),
            ));
        }
        let head = whole(store, checkpoint)
            .await
            .ok_or_else(|| failed("checkpoint", &"it does not read"))?;
        let head = self
            .open_body(domain, &head, root.access())
            .map_err(|error| failed("checkpoint", &error))?;
        let mut bodies = Vec::new();
        for part in head.parts() {
            if !self.bring(store, places, part.storage_id).await? {
                return Err(failed(
                    "checkpoint",
                    &format!("its part {} is missing", part.storage_id.fmt_short()),
                ));
            }
            let access = part_access(part, &mesh, domain).map_err(|error| failed("checkpoint", &error))?;
            let bytes = whole(store, part.storage_id)
                .await
                .ok_or_else(|| failed("checkpoint", &"a part does not read"))?;
            bodies.push(
                self.open_body(domain, &bytes, &access)
                    .map_err(|error| failed("checkpoint", &error))?,
            );
        }
        bodies.push(head);
        let keys = self.keys();
        let keys = keys
            .domain(domain)
            .ok_or_else(|| ApiError::bug("a domain without keys"))?;
        let set = RecoveredSet::open(&bodies, &keys.ring, &mesh, domain).map_err(|error| failed("entries", &error))?;
        set.authorize(&root, &keys.ring, &mesh, None)
            .map_err(|error| failed("entries", &error))?;
        Ok((set, root.body().issued_hlc.millis()))
    }

    fn open_body(
        &self,
        domain: &DomainId,
        bytes: &[u8],
        access: &sovm_object::sign::Signed<sovm_object::record::AccessRecord>,
    ) -> Result<CheckpointBody, String> {
        let keys = self.keys();
        let ring = &keys.domain(domain).ok_or("no keys of the domain")?.ring;
        checkpoint::open(bytes, access, ring).map_err(|error| error.to_string())
    }

    fn admit_aside(&self, catalog: &Catalog, domain: &DomainId, set: RecoveredSet) -> Result<(), ApiError> {
        let now_ms = self.now_ms();
        let keys = self.keys();
        let ring = keys.domain(domain).map(|keys| &keys.ring);
        let mut txn = catalog.begin()?;
        for recovered in set.into_entries() {
            let under = recovered.sealed.as_ref().map(|(kek_id, _)| SealedUnder {
                domain: *domain,
                generation: ring.and_then(|ring| ring.generation(kek_id)).unwrap_or(0),
                kek_id: *kek_id,
            });
            txn.admit(recovered.entry, under, now_ms)?;
        }
        let _ = txn.commit()?;
        Ok(())
    }

    /// Digest of what this node put into that checkpoint.
    fn live_digest(&self, root: &Start) -> Result<[u8; 32], ApiError> {
        let stored = self.read()?.meta(&digest_row(&root.root_id))?;
        stored.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
            ApiError::new(
                ErrorKind::Refused,
                "the newest checkpoint was written by another device, so there is nothing here to compare it with",
            )
            .safe("nothing was changed")
            .next("sovm recovery checkpoint, then sovm drill; or run the drill on the device that wrote it")
        })
    }

    /// Rows of one table on both sides, and a sample of verified ranges.
    #[allow(clippy::too_many_arguments, reason = "one call site; the parts of one drill")]
    async fn drill_table(
        &self,
        domain: &DomainId,
        table: &TableId,
        restored: &Snapshot,
        store: &ObjectStore,
        places: &[Place],
        full: bool,
        progress: &dyn ProgressSink,
        proof: &mut Proof,
    ) -> Result<TableRows, ApiError> {
        let objects: Vec<ObjectView> = {
            let keys = self.keys();
            let none = KekRing::default();
            restored.objects(table, keys.domain(domain).map_or(&none, |keys| &keys.ring))?
        };
        let mut rows = TableRows { live: 0, restored: 0 };
        for (number, object) in objects.iter().enumerate() {
            progress.event(Event::Progress {
                stage: "restoring".to_owned(),
                unit: Unit::Objects,
                done: number as u64,
                total: Some(objects.len() as u64),
            });
            let id = object.storage_id;
            proof.objects += 1;
            if !self.bring(store, places, id).await? {
                proof.missing.push(id);
                continue;
            }
            rows.restored += self.count_rows(store, id).await.unwrap_or(0);
            rows.live += self.count_rows(&self.blobs, id).await.unwrap_or(0);
            if full || proof.samples.len() < SAMPLED_OBJECTS {
                proof.samples.push(sample(&self.blobs, store, id, full).await);
            }
        }
        Ok(rows)
    }

    /// Rows an object holds, counted in its decoded data.
    pub(super) async fn count_rows(&self, store: &ObjectStore, id: StorageId) -> Result<u64, ApiError> {
        let dek = self.find_dek(&id)?;
        let bad =
            |error: &dyn std::error::Error| ApiError::new(ErrorKind::Integrity, super::super::convert::chain(error));
        let footer = Footer::open(store, id, &dek, OpenOptions::default())
            .await
            .map_err(|error| bad(&error))?;
        let narrow = footer.narrowest();
        let mut rows = 0;
        for group in 0..footer.row_groups() {
            let plan = footer.plan(&[group], &narrow).map_err(|error| bad(&error))?;
            let chunks = VerifiedRead::read(store, id, plan.ranges())
                .await
                .map_err(|error| bad(&error))?;
            for batch in footer
                .decode(&plan, chunks, Default::default())
                .map_err(|error| bad(&error))?
            {
                rows += batch.map_err(|error| bad(&error))?.num_rows() as u64;
            }
        }
        Ok(rows)
    }

    /// Replicas a drill may ask: blind ones that were reached.
    fn drill_replicas(&self) -> Result<Vec<SiteId>, ApiError> {
        let snapshot = self.read()?;
        let roster = snapshot.roster(Scope::Mesh)?;
        let blind = roster.into_iter().flat_map(|roster| {
            roster
                .members()
                .filter(|(_, role, _)| *role == sovm_object::record::Role::Blind)
                .map(|(site, ..)| site)
                .collect::<Vec<_>>()
        });
        Ok(blind.filter(|site| self.seen(site).0).collect())
    }
}

/// A whole object, verified.
async fn whole(store: &ObjectStore, id: StorageId) -> Option<Vec<u8>> {
    let size = VerifiedRead::size(store, id).await.ok()?;
    let parts = VerifiedRead::read(store, id, &[0..size]).await.ok()?;
    parts.first().map(|bytes| bytes.to_vec())
}

/// A random verified range, or everything, from both sides.
pub(super) async fn sample(live: &ObjectStore, restored: &ObjectStore, object: StorageId, full: bool) -> Sample {
    let unreadable = |reason: String| Sample::Unreadable { object, reason };
    let size = match VerifiedRead::size(restored, object).await {
        Ok(size) => size,
        Err(error) => return unreadable(error.to_string()),
    };
    let start = if full { 0 } else { rand::random::<u64>() % size.max(1) };
    let end = if full { size } else { size.min(start + SAMPLE_BYTES) };
    match same_bytes(live, restored, object, start..end).await {
        Ok(true) => Sample::Equal {
            object,
            bytes: end - start,
        },
        Ok(false) => unreadable("the bytes differ".to_owned()),
        Err(Side::Theirs(error)) => unreadable(error.to_string()),
        Err(Side::Ours(error)) => unreadable(format!("here: {error}")),
    }
}
