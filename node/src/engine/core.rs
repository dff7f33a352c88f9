//! An open node: its keys, what it knows, its objects.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock},
    time::{SystemTime, UNIX_EPOCH},
};

use sovm_catalog::{Catalog, Read as _, Snapshot, meta};
use sovm_mesh::net::store::{DiskReserve, ObjectStore};
use sovm_object::{
    hlc::HlcClock,
    id::{DomainId, MeshId, SiteId},
};
use sovm_recovery::{
    SecretString,
    keystore::{CatalogueAge, Fallback, Incarnation, KeyFile, KeyStore, Unlock},
};

use super::{
    footers::FooterCache,
    inventory::{LiveCache, StoreLocks},
    mls_rows::RowKeys,
    network::Network,
    orphans::Keep,
    source::ScanCache,
};
use crate::{
    cli::OpenOptions,
    config::{self, Config, Home, Limits},
    error::{ApiError, ErrorKind},
};

/// A node that is open in this process. Clones share it.
#[derive(Clone)]
pub struct Node(pub(super) Arc<Core>);

/// Everything a node has open.
pub(super) struct Core {
    pub(super) home: Home,
    pub(super) config: Config,
    pub(super) me: SiteId,
    pub(super) catalog: Catalog,
    pub(super) blobs: ObjectStore,
    pub(super) incarnation: Incarnation,
    /// Things wrong at start that `status` repeats.
    pub(super) warnings: Vec<String>,
    mesh: RwLock<MeshId>,
    keys: Mutex<KeyStore>,
    clock: Mutex<HlcClock>,
    row_keys: Mutex<RowKeys>,
    pub(super) scans: ScanCache,
    pub(super) footers: FooterCache,
    /// One lock for each catalogue's documents.
    pub(super) stores: StoreLocks,
    pub(super) live: LiveCache,
    /// Counts steps that changed what peers reconcile or what is to be fetched; the network tasks wait on it.
    changes: tokio::sync::watch::Sender<u64>,
    pub(super) net: OnceLock<Network>,
    pub(super) keep: Keep,
    /// Set when the node is about to close.
    pub(super) closing: tokio::sync::watch::Sender<bool>,
    /// Held by every step that reads membership or group state and then changes it.
    pub(super) step: tokio::sync::Mutex<()>,
}

impl Node {
    /// Opens the node in `home`, whose lock the caller holds.
    pub async fn open(home: &Home, unlock: config::Unlock, options: OpenOptions) -> Result<Self, ApiError> {
        home.require()?;
        let fallback = if options.fall_back {
            Fallback::UsePrevious
        } else {
            Fallback::Refuse
        };
        let core = Arc::new(Core::open_with(home, &lock_of(unlock)?, None, fallback).await?);
        if options.network {
            core.go_online().await?;
        }
        Ok(Self(core))
    }
}

/// What opens the key store, in its own terms. A key file that is not there yet is made.
pub(super) fn lock_of(unlock: config::Unlock) -> Result<Unlock, ApiError> {
    Ok(match unlock {
        config::Unlock::KeyFile(path) => Unlock::KeyFile(KeyFile::load(&path)?),
        config::Unlock::Passphrase(passphrase) => Unlock::Passphrase(SecretString::from(passphrase.to_string())),
    })
}

/// Like [`lock_of`], for a node that is made now.
pub(super) fn fresh_lock_of(unlock: config::Unlock) -> Result<Unlock, ApiError> {
    match unlock {
        config::Unlock::KeyFile(path) if !path.exists() => Ok(Unlock::KeyFile(KeyFile::create(&path)?)),
        other => lock_of(other),
    }
}

impl Core {
    /// Opens everything. `name` is what a node that is made now is called.
    pub(super) async fn open(home: &Home, unlock: &Unlock, name: Option<&str>) -> Result<Self, ApiError> {
        Self::open_with(home, unlock, name, Fallback::Refuse).await
    }

    /// Like [`open`](Self::open); says whether a damaged key store may be replaced by its previous copy.
    async fn open_with(home: &Home, unlock: &Unlock, name: Option<&str>, fallback: Fallback) -> Result<Self, ApiError> {
        let config = Config::load(home)?;
        let (mut keys, report) = KeyStore::open(home.path())?.unlock(unlock, fallback)?;
        let mut warnings = Vec::new();
        if report.fell_back.is_some() {
            warnings.push("the key store was damaged and its previous copy is in use".to_owned());
        }
        let incarnation = keys.begin_incarnation()?;
        let catalog = Catalog::open(home.path(), keys.database_key())?;
        let commits = catalog.read()?.commit_counter()?;
        // Commits made since would hide the gap, so what was found once is kept.
        let found = matches!(keys.catalogue_age(commits), CatalogueAge::Restored { .. });
        let restored = found || catalog.read()?.meta(meta::RESTORED)?.is_some();
        if found {
            let mut txn = catalog.begin()?;
            txn.put_meta(meta::RESTORED, &[])?;
            let _ = txn.commit()?;
        }
        if restored {
            warnings.push(
                "the catalogue is older than the key store: this home was restored from a copy. Entries written since \
                 come back from other devices"
                    .to_owned(),
            );
        }
        let row_keys = RowKeys::load(home.path(), keys.database_key())?;
        let reserve = DiskReserve {
            bytes: config.limits.disk_reserve.unwrap_or(Limits::DISK_RESERVE_BYTES),
            percent: 0,
        };
        let blobs = ObjectStore::open(home.path().join("blobs"), reserve).await?;
        let me = keys.site_key().site_id();
        let clock = HlcClock::starting_at(keys.hlc_floor());
        let keep = Keep::new(catalog.read()?.running_ms()?, restored, report.fell_back.is_some());
        let core = Self {
            home: home.clone(),
            config,
            me,
            blobs,
            incarnation,
            warnings,
            mesh: RwLock::new(MeshId::from_bytes([0; 32])),
            keys: Mutex::new(keys),
            clock: Mutex::new(clock),
            row_keys: Mutex::new(row_keys),
            scans: ScanCache::default(),
            footers: FooterCache::default(),
            stores: StoreLocks::default(),
            live: LiveCache::default(),
            changes: tokio::sync::watch::Sender::new(0),
            net: OnceLock::new(),
            keep,
            closing: tokio::sync::watch::Sender::new(false),
            step: tokio::sync::Mutex::new(()),
            catalog,
        };
        core.ensure_founded(name)?;
        core.finish_row_key_rotation()?;
        core.end_earlier_runs()?;
        core.read_newer_manifests()?;
        Ok(core)
    }

    /// What an earlier build of this program kept without reading it may be readable now (SOP-4).
    fn read_newer_manifests(&self) -> Result<(), ApiError> {
        let mut txn = self.catalog.begin()?;
        if txn.decode_again(self.now_ms())? > 0 {
            let _ = txn.commit()?;
        }
        Ok(())
    }

    /// Milliseconds since 1970 by this device's clock.
    pub(super) fn now_ms(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64)
    }

    /// The mesh this node is in.
    pub(super) fn mesh(&self) -> MeshId {
        *self.mesh.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_mesh(&self, mesh: MeshId) {
        *self.mesh.write().unwrap_or_else(PoisonError::into_inner) = mesh;
    }

    /// The key store. Held for a moment only: it writes to disk.
    pub(super) fn keys(&self) -> MutexGuard<'_, KeyStore> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clock(&self) -> MutexGuard<'_, HlcClock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn row_keys(&self) -> MutexGuard<'_, RowKeys> {
        self.row_keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the tasks that spread and fetch what a step changed.
    pub(super) fn told(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Wakes its reader at every [`told`](Self::told).
    pub(super) fn watch(&self) -> tokio::sync::watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Closes what must be closed in order.
    pub(super) async fn close(&self) {
        self.note_running();
        let online = self.is_online();
        self.go_offline().await;
        if online {
            return self.note_commits();
        }
        if let Err(error) = self.blobs.shutdown().await {
            tracing::warn!("the object store did not close in order");
            drop(error);
        }
        self.note_commits();
    }

    /// The key store remembers how far the catalogue is, so that an older copy of it is noticed.
    fn note_commits(&self) {
        let commits = self.catalog.read().and_then(|snapshot| snapshot.commit_counter());
        if let Ok(commits) = commits
            && self.keys().note_catalogue_commits(commits).is_err()
        {
            tracing::warn!("the key store could not note how far the catalogue is");
        }
    }

    /// What is committed now.
    pub(super) fn read(&self) -> Result<Snapshot, ApiError> {
        Ok(self.catalog.read()?)
    }

    /// The domain of this name or id. `None` is the domain every node founds.
    pub(super) fn domain(&self, name: Option<&str>) -> Result<DomainId, ApiError> {
        let wanted = name.unwrap_or("main");
        let domains = self.read()?.domains()?;
        let by_name: Vec<_> = domains.iter().filter(|domain| domain.genesis.name == wanted).collect();
        match by_name.as_slice() {
            [one] => return Ok(one.genesis.domain_id),
            [] => {}
            _ => {
                return Err(
                    ApiError::new(ErrorKind::BadInput, format!("two domains are called {wanted}"))
                        .next("name one by its id: sovm domain list"),
                );
            }
        }
        let by_id: Vec<_> = domains
            .iter()
            .filter(|domain| domain.genesis.domain_id.to_string().starts_with(wanted))
            .collect();
        match by_id.as_slice() {
            [one] if wanted.len() >= 4 => Ok(one.genesis.domain_id),
            _ => Err(
                ApiError::new(ErrorKind::NotFound, format!("no domain is called {wanted}")).next("sovm domain list"),
            ),
        }
    }
}
