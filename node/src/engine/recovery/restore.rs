//! `recover`: a kit and one place with the blobs become a node (DESIGN §9).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use sovm_catalog::{ByteEvent, Catalog, Read as _, Scope, SealedUnder, Txn};
use sovm_mesh::{
    net::store::{DiskReserve, ObjectStore},
    proto::sync::{Element, Item, MemorySet, Scope as SyncScope},
};
use sovm_object::{
    entry::{EntryKind, VerifiedEntry, sealed},
    id::{DomainId, StorageId},
    record::{MembershipOp, MeshGenesis, NodeBinding, OpKind, Role},
    secret::{DatabaseKey, SiteKey},
    sign::Signed,
};
use sovm_recovery::{
    DirBlobs, KeyStore, Kit, RecoverError, RecoverOptions as PlanOptions, Recovered,
    checkpoint::RecoveredEntry,
    keystore::{Contents, DomainKeys, MlsKey as StoredMlsKey, Unlock},
    kit::ParsedKit,
    plan::{self, Progress},
};

use super::{
    super::{
        convert::{chain, mesh_info},
        core::{Core, fresh_lock_of},
        founding::{META_NODE_NAME, machine_name},
        service::check_display_name,
    },
    digest_row,
    source::{Source, now_ms},
};
use crate::{
    api::{Event, ObjectCounts, ProgressSink, RecoverReport, Unit},
    cli::RecoverOptions,
    config::{Config, Home, Limits},
    error::{ApiError, ErrorKind},
};

/// A recovery that gets no more bytes for this long reports what is still missing; `sovm run` goes on.
const PATIENCE: Duration = Duration::from_secs(30);

/// Objects up to this length are read from a directory at once.
const IN_MEMORY_BYTES: u64 = 64 << 20;

/// Makes a node out of a recovery kit.
pub(in super::super) async fn recover(
    home: &Home,
    options: RecoverOptions,
    progress: Arc<dyn ProgressSink>,
) -> Result<RecoverReport, ApiError> {
    let kit = Kit::parse_page(&options.kit).map_err(|error| {
        ApiError::new(ErrorKind::BadInput, error.to_string())
            .safe("nothing was changed")
            .next("correct the line and run sovm recover again")
    })?;
    let name = options.name.clone().unwrap_or_else(machine_name);
    check_display_name(&name)?;
    let places = match options.from.as_slice() {
        [] => kit
            .facts
            .replicas
            .iter()
            .map(|replica| replica.address.clone())
            .collect(),
        named => named.to_vec(),
    };
    if places.is_empty() {
        return Err(ApiError::new(ErrorKind::BadInput, "the kit names no replica")
            .safe("nothing was changed")
            .next("sovm recover --kit FILE --from DIRECTORY_OR_ADDRESS"));
    }
    home.create()?;
    let config = Config::load(home)?;
    let reserve = DiskReserve {
        bytes: config.limits.disk_reserve.unwrap_or(Limits::DISK_RESERVE_BYTES),
        percent: 0,
    };
    let store = ObjectStore::open(home.path().join("blobs"), reserve).await?;
    let unlock = fresh_lock_of(options.unlock)?;
    let plan = PlanOptions {
        allow_older: options.accept_older,
        trust_ring: options.trust_ring,
        ..PlanOptions::default()
    };
    let outcome = from_first_that_works(&places, &kit, &plan, &store, &*progress).await;
    let (source, recovered) = match outcome {
        Ok(found) => found,
        Err(error) => {
            store.shutdown().await?;
            return Err(error);
        }
    };
    let result = make_home(home, &unlock, &name, &kit, &recovered, &source, &store).await;
    let push = match (&result, &source) {
        (Ok(public), Source::Replica(replica)) => replica.push(public).await,
        _ => Ok(()),
    };
    if let Source::Directory(dir) = &source {
        import_all(dir, &store, &recovered).await?;
    }
    source.close().await;
    store.shutdown().await?;
    // The node opens it again.
    drop(store);
    result?;
    if let Err(error) = push {
        progress.event(Event::Notice {
            text: error.to_string(),
        });
    }
    finish(home, &unlock, &recovered, progress).await
}

async fn from_first_that_works(
    places: &[String],
    kit: &ParsedKit,
    options: &PlanOptions,
    store: &ObjectStore,
    progress: &dyn ProgressSink,
) -> Result<(Source, Recovered), ApiError> {
    let mut failures = Vec::new();
    for place in places {
        progress.event(Event::Notice {
            text: format!("asking {place}"),
        });
        let source = match Source::open(place, kit.kit.site_key(), kit.facts.mesh_id, store).await {
            Ok(source) => source,
            Err(error) => {
                failures.push(error);
                continue;
            }
        };
        let mut tell = |step: Progress| {
            if let Progress::Checkpoint { entries, .. } = step {
                progress.event(Event::Progress {
                    stage: "verifying entries".to_owned(),
                    unit: Unit::Entries,
                    done: entries as u64,
                    total: Some(entries as u64),
                });
            }
        };
        match plan::recover(kit, &source, options, &mut tell).await {
            Ok(recovered) => {
                for (root, why) in &recovered.report.failed {
                    let text = format!(
                        "root {} did not lead to its checkpoint ({why}); an older one is used",
                        root.fmt_short()
                    );
                    progress.event(Event::Notice { text });
                }
                return Ok((source, recovered));
            }
            Err(error) => {
                failures.push(failed(&error));
                source.close().await;
            }
        }
    }
    // The last place's failure says most: the others were asked before it.
    Err(failures.pop().unwrap_or_else(|| ApiError::bug("no place was asked")))
}

fn failed(error: &RecoverError) -> ApiError {
    let kind = match error {
        RecoverError::Blobs(_) => ErrorKind::Network,
        _ => ErrorKind::Failed,
    };
    ApiError::new(kind, chain(error)).safe("nothing was changed, and no partial state was given out")
}

/// Keys, entries and the op that adds this machine. Gives what the replica must learn.
async fn make_home(
    home: &Home,
    unlock: &Unlock,
    name: &str,
    kit: &ParsedKit,
    recovered: &Recovered,
    source: &Source,
    store: &ObjectStore,
) -> Result<MemorySet, ApiError> {
    let described: BTreeSet<StorageId> = recovered
        .entries
        .iter()
        .filter_map(|recovered| match &recovered.entry {
            VerifiedEntry::Manifest(manifest) => Some(manifest.body().storage_id),
            _ => None,
        })
        .collect();
    let held = store.list().await?;
    let mls_key = sovm_mesh::proto::mls::MlsKey::generate();
    let (site_key, database_key) = (SiteKey::generate(), DatabaseKey::generate());
    let catalog = Catalog::open(home.path(), &database_key)?;
    let now_ms = now_ms();
    let mut txn = catalog.begin()?;
    txn.put_meta(META_NODE_NAME, name.as_bytes())?;
    for RecoveredEntry { entry, sealed } in &recovered.entries {
        let under = sealed.as_ref().map(|(kek_id, _)| SealedUnder {
            domain: recovered.domain_id,
            generation: recovered.keys.ring.generation(kek_id).unwrap_or(0),
            kek_id: *kek_id,
        });
        txn.admit(entry.clone(), under, now_ms)?;
    }
    // The checkpoint, its root and its ring are named by no entry inside it, and must not look left over.
    for object in held.iter().filter(|object| !described.contains(&object.id())) {
        txn.byte_event(&object.id(), ByteEvent::Arrived, Some(object.size()), now_ms)
            .map_err(ApiError::bug)?;
    }
    txn.settle()?;
    add_this_machine(&mut txn, name, kit, recovered, &site_key, &mls_key.public(), now_ms)?;
    if let Some(head) = recovered.report.heads.first() {
        txn.put_meta(&digest_row(&head.root_id), &recovered.report.digest)?;
    }
    if let Source::Replica(replica) = source {
        super::super::network::remember(&mut txn, &replica.address)?;
    }
    let public = public_set(&txn)?;
    let _ = txn.commit()?;
    drop(catalog);

    let mut contents = Contents::new(site_key, database_key);
    contents.mesh = Some(recovered.mesh_id);
    contents.mls_keys.push(StoredMlsKey {
        public: mls_key.public(),
        private: mls_key.expose_for_sealing().to_vec().into(),
    });
    let keys = contents.domain_mut(recovered.domain_id);
    copy_keys(&recovered.keys, keys);
    // Last: it is what makes the directory a node. A crash before leaves an empty home with some ciphertext in it.
    KeyStore::create(home.path(), unlock, contents)?;
    Ok(public)
}

fn copy_keys(from: &DomainKeys, to: &mut DomainKeys) {
    for (generation, kek_id, kek) in from.ring.iter() {
        to.ring.insert(
            generation,
            kek_id,
            sovm_object::secret::Kek::from_bytes(*kek.expose_for_sealing()),
        );
    }
    to.admins.clone_from(&from.admins);
    to.op_heads.clone_from(&from.op_heads);
    if let Some(root) = from.root() {
        to.accept_older_root(*root);
    }
}

/// The one thing the kit's key may sign: the ops that add this machine.
fn add_this_machine(
    txn: &mut Txn,
    name: &str,
    kit: &ParsedKit,
    recovered: &Recovered,
    site_key: &SiteKey,
    mls_key: &[u8; 32],
    now_ms: u64,
) -> Result<(), ApiError> {
    let mesh = recovered.mesh_id;
    let mut clock = sovm_object::hlc::HlcClock::starting_at(recovered.report.issued);
    let binding = NodeBinding {
        mesh_id: mesh,
        site: site_key.site_id(),
        mls_key: *mls_key,
        display_name: name.to_owned(),
        hlc: clock.tick(now_ms),
        cose_key: None,
    };
    let binding = Signed::sign(binding, site_key, &mesh);
    let binding_id = binding.id();
    txn.admit(binding, None, now_ms)?;
    let recovery_site = kit.kit.recovery_site();
    for domain in [None, Some(recovered.domain_id)] {
        let scope = Scope::from(domain);
        let roster = txn
            .roster(scope)?
            .ok_or_else(|| ApiError::bug("a recovered set without roster"))?;
        let op = MembershipOp {
            mesh_id: mesh,
            domain,
            kind: OpKind::Add,
            site: site_key.site_id(),
            role: Role::Admin,
            binding: Some(binding_id),
            history_from: 1,
            cut_seq: 0,
            issuer: recovery_site,
            seq: txn.highest_seq(scope, &recovery_site)? + 1,
            hlc: clock.tick(now_ms),
            ops_seen: roster.heads(),
        };
        let op = Signed::sign(op, kit.kit.site_key(), &mesh);
        txn.admit(op, None, now_ms)?;
        txn.settle()?;
    }
    Ok(())
}

/// What a blind replica may know: founding record and mesh-level ops.
fn public_set(rows: &Txn) -> Result<MemorySet, ApiError> {
    let mut public = MemorySet::default();
    let mut put = |id, hlc, bytes: &[u8]| {
        let element = Element {
            hlc,
            id: sealed::element_id(&id, None),
        };
        public.insert(
            SyncScope::Public,
            0,
            element,
            Item {
                kind: 0,
                bytes: bytes.to_vec(),
            },
        );
    };
    for genesis in rows.accepted::<MeshGenesis>(Scope::Mesh, EntryKind::MeshGenesis)? {
        put(genesis.id(), genesis.body().created, genesis.bytes());
    }
    for op in rows.accepted::<MembershipOp>(Scope::Mesh, EntryKind::MembershipOp)? {
        put(op.id(), op.body().hlc, op.bytes());
    }
    Ok(public)
}

/// From a directory, objects are taken over at once; each is hashed on the way.
async fn import_all(dir: &DirBlobs, store: &ObjectStore, recovered: &Recovered) -> Result<(), ApiError> {
    use sovm_recovery::OpaqueBlobs as _;
    for recovered in &recovered.entries {
        let VerifiedEntry::Manifest(manifest) = &recovered.entry else {
            continue;
        };
        let id = manifest.body().storage_id;
        let imported = match dir.file(&id) {
            None => continue,
            // Not into memory: plain files may have gigabytes.
            Some((path, len)) if len > IN_MEMORY_BYTES => {
                let file = tokio::fs::File::open(path)
                    .await
                    .map_err(|error| ApiError::io(path.display(), &error))?;
                store.import_reader(file, Some(len), id).await
            }
            Some(_) => match dir.get(id).await {
                Ok(Some(bytes)) => store.publish(bytes.into(), id).await,
                Ok(None) => continue,
                Err(error) => return Err(ApiError::new(ErrorKind::Failed, chain(&error))),
            },
        };
        match imported {
            Ok(_) | Err(sovm_mesh::net::store::PublishError::WrongId { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Opens the new node, fetches the objects, and tells what came back.
async fn finish(
    home: &Home,
    unlock: &Unlock,
    recovered: &Recovered,
    progress: Arc<dyn ProgressSink>,
) -> Result<RecoverReport, ApiError> {
    let core = Arc::new(Core::open(home, unlock, None).await?);
    core.go_online().await?;
    let objects = core.await_objects(PATIENCE, &*progress).await?;
    let report = core.recover_report(recovered, objects);
    core.close().await;
    report
}

impl Core {
    fn recover_report(&self, recovered: &Recovered, objects: ObjectCounts) -> Result<RecoverReport, ApiError> {
        let snapshot = self.read()?;
        let domain: DomainId = recovered.domain_id;
        let head = recovered
            .report
            .heads
            .first()
            .ok_or_else(|| ApiError::bug("a recovery without a root"))?;
        let tables = snapshot
            .tables()?
            .iter()
            .filter(|table| table.genesis.domain_id == domain)
            .count();
        Ok(RecoverReport {
            home: self.home.path().to_owned(),
            site: self.me.to_string(),
            mesh: mesh_info(&snapshot, self.mesh())?,
            domain: self.domain_info(&snapshot, &domain)?.name,
            root_id: head.root_id.to_string(),
            checkpoint_ms: recovered.report.issued.millis(),
            entries: recovered.entries.len() as u64,
            digest: hex::encode(recovered.report.digest),
            tables: tables as u64,
            objects,
        })
    }

    /// Waits until every object is here, or none has come for a while.
    pub(in super::super) async fn await_objects(
        self: &Arc<Self>,
        patience: Duration,
        progress: &dyn ProgressSink,
    ) -> Result<ObjectCounts, ApiError> {
        let mut last = (u64::MAX, std::time::Instant::now());
        loop {
            let counts = self.counts(&self.all_objects(&self.read()?)?);
            if counts.pending_bytes == 0 {
                return Ok(counts);
            }
            if counts.have_bytes != last.0 {
                last = (counts.have_bytes, std::time::Instant::now());
            }
            if last.1.elapsed() > patience {
                return Ok(counts);
            }
            progress.event(Event::Progress {
                stage: "fetching".to_owned(),
                unit: Unit::Bytes,
                done: counts.have_bytes,
                total: Some(counts.want_bytes),
            });
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}
