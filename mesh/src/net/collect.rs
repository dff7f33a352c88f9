//! Letting bytes go: the collector of the object store (SOP-268..270).
//!
//! iroh-blobs offers no deletion, only a background loop that sweeps whatever nothing protects, with gaps between "tag" and
//! "temporary tag" through which a live object can fall (`reference/iroh.md` 2.6). So the loop is kept waiting inside its
//! own callback, and is let go for one round only when the node asks, with these rules:
//!
//! * A round is told what to remove; everything else that is in the store is protected, whatever the catalogue thinks.
//! * Whoever brings bytes holds a temporary tag from before the first byte until the lasting tag is on disk.
//! * Both tags are set under a lock that a round takes alone. So a round sees each object with its temporary tag, or with
//!   its lasting one, and never between the two; and no bytes are begun of which it does not know.
//! * What is tagged is never removed. The caller lets go of the tag first, and looks again whether anything names the
//!   object before it asks for the round.

use std::{
    collections::{BTreeSet, HashSet},
    fs, io,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use iroh_blobs::{
    Hash, HashAndFormat,
    api::{Store, TempTag, blobs::BlobStatus},
    store::{GcConfig, ProtectCb, ProtectOutcome, fs::options::PathOptions},
};
use n0_future::StreamExt as _;
use sovm_object::id::StorageId;
use tokio::sync::{Notify, RwLock, RwLockReadGuard, oneshot};

use super::{
    blob_hash, storage_id,
    store::{ObjectStore, StoreError, TAG_PREFIX, blocking, failed, request_failed, tag_name},
};

/// Pause of iroh's loop between the end of a round and its next callback, which is where we wait.
const PAUSE: Duration = Duration::from_millis(1);

/// An object as books and files of the store have it, whether or not anybody may name it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stored {
    /// The object.
    pub id: StorageId,
    /// Bytes it takes on disk, its inner hashes left out.
    pub bytes: u64,
    /// Whether the books say that all of it is here.
    pub whole: bool,
    /// Whether it was reported durable and not let go since.
    pub kept: bool,
}

/// What a collection came to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Collected {
    /// Objects that are gone.
    pub removed: BTreeSet<StorageId>,
    /// Objects that stay because they are tagged, or because bytes of them are being brought.
    pub spared: BTreeSet<StorageId>,
}

/// The waiting loop, and the lock that rounds take alone.
pub(super) struct Collector {
    shared: Arc<Shared>,
    settling: RwLock<()>,
}

struct Shared {
    next: Mutex<Next>,
    wake: Notify,
    /// Set once the store is open; the loop ends by closing it.
    store: OnceLock<Store>,
}

/// What the loop does next.
enum Next {
    /// Waits.
    Nothing,
    /// One round. `done` hears of its end.
    Round {
        live: HashSet<Hash>,
        done: oneshot::Sender<()>,
    },
    /// Ends, and the store with it.
    Stop,
    /// It has ended.
    Ended,
}

/// The loop's side. Owned by it alone, so that waiters learn of its end.
struct Turn {
    shared: Arc<Shared>,
    running: Mutex<Option<oneshot::Sender<()>>>,
}

type Protecting<'a> = Pin<Box<dyn Future<Output = ProtectOutcome> + Send + Sync + 'a>>;

impl Collector {
    /// The collector and what makes iroh's loop wait for it.
    pub(super) fn new() -> (Self, GcConfig) {
        let shared = Arc::new(Shared {
            next: Mutex::new(Next::Nothing),
            wake: Notify::new(),
            store: OnceLock::new(),
        });
        let turn = Arc::new(Turn {
            shared: shared.clone(),
            running: Mutex::default(),
        });
        let config = GcConfig {
            interval: PAUSE,
            add_protected: Some(callback(move |live| {
                let turn = turn.clone();
                Box::pin(async move { turn.take(live).await })
            })),
        };
        let collector = Self {
            shared,
            settling: RwLock::default(),
        };
        (collector, config)
    }

    pub(super) fn serve(&self, store: Store) {
        // Set once, right after opening.
        let _ = self.shared.store.set(store);
    }

    /// Held while a tag is set.
    pub(super) async fn settling(&self) -> RwLockReadGuard<'_, ()> {
        self.settling.read().await
    }

    /// Ends the loop, which closes the store if it is still open: the loop holds a handle to it.
    pub(super) fn stop(&self) {
        self.shared.put(Next::Stop);
    }

    async fn round(&self, live: HashSet<Hash>) -> Result<(), StoreError> {
        let (done, ended) = oneshot::channel();
        self.shared.put(Next::Round { live, done });
        ended
            .await
            .map_err(|_| StoreError::Failed("the store's collector has stopped".into()))
    }
}

/// Gives the closure the type iroh asks for.
fn callback(protect: impl for<'a> Fn(&'a mut HashSet<Hash>) -> Protecting<'a> + Send + Sync + 'static) -> ProtectCb {
    Arc::new(protect)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A loop that has ended stays ended; what is put then is dropped, and its waiter learns it.
    fn put(&self, next: Next) {
        let mut slot = self.lock();
        if !matches!(*slot, Next::Ended) {
            *slot = next;
        }
        drop(slot);
        self.wake.notify_one();
    }
}

impl Turn {
    /// Called when a round may begin, which also says that the one before has ended.
    async fn take(&self, live: &mut HashSet<Hash>) -> ProtectOutcome {
        if let Some(done) = self.running().take() {
            // Nobody may be waiting any more.
            let _ = done.send(());
        }
        loop {
            let next = std::mem::replace(&mut *self.shared.lock(), Next::Nothing);
            match next {
                Next::Nothing => self.shared.wake.notified().await,
                Next::Round { live: protected, done } => {
                    *self.running() = Some(done);
                    live.extend(protected);
                    return ProtectOutcome::Continue;
                }
                Next::Stop | Next::Ended => {
                    if let Some(store) = self.shared.store.get().cloned() {
                        // Already closed is as good.
                        let _ = tokio::spawn(async move { store.shutdown().await.is_ok() }).await;
                    }
                    // The round fails at once on the closed store, and a failed round ends the loop.
                    return ProtectOutcome::Continue;
                }
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<oneshot::Sender<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.shared.lock() = Next::Ended;
    }
}

impl ObjectStore {
    /// Everything in the store, sorted by id: whole or not, kept or not, with or without an entry in its books.
    ///
    /// A process that is killed between the rename of a file and the commit of the books leaves a file the books do not
    /// know; it is found here by its name.
    pub async fn inventory(&self) -> Result<Vec<Stored>, StoreError> {
        let kept = self.tagged().await?;
        let mut found = Vec::new();
        let mut known = BTreeSet::new();
        for hash in self.booked().await? {
            let id = storage_id(hash);
            let (bytes, whole) = match self.store().status(hash).await.map_err(failed)? {
                BlobStatus::Complete { size } => (size, true),
                BlobStatus::Partial { .. } | BlobStatus::NotFound => {
                    let path = self.data_path(id);
                    (blocking(move || length(&path)).await, false)
                }
            };
            known.insert(id);
            found.push(Stored {
                id,
                bytes,
                whole,
                kept: kept.contains(&id),
            });
        }
        let directory = self.paths().data_path.clone();
        let on_disk = blocking(move || ids_in(&directory))
            .await
            .map_err(|source| StoreError::Io {
                action: "list",
                path: self.paths().data_path.clone(),
                source,
            })?;
        for id in on_disk.difference(&known).copied() {
            let path = self.data_path(id);
            found.push(Stored {
                id,
                bytes: blocking(move || length(&path)).await,
                whole: false,
                kept: false,
            });
        }
        found.sort_unstable_by_key(|stored| stored.id);
        Ok(found)
    }

    /// Removes the bytes of these objects, of which the caller has let go ([`release`](Self::release)) and which nothing
    /// names. What is tagged, or being brought, is spared. When this returns the files are gone.
    pub async fn collect(&self, condemned: &BTreeSet<StorageId>) -> Result<Collected, StoreError> {
        let _alone = self.collector().settling.write().await;
        let mut spared = self.tagged().await?;
        let mut pins = self.store().tags().list_temp_tags().await.map_err(failed)?;
        while let Some(pin) = pins.next().await {
            spared.insert(storage_id(pin.hash));
        }
        spared.retain(|id| condemned.contains(id));
        let doomed: HashSet<Hash> = condemned.difference(&spared).map(|id| blob_hash(*id)).collect();
        if doomed.is_empty() {
            return Ok(Collected {
                removed: BTreeSet::new(),
                spared,
            });
        }
        let mut live: HashSet<Hash> = self.booked().await?.into_iter().collect();
        live.retain(|hash| !doomed.contains(hash));
        self.collector().round(live).await?;
        let mut removed = BTreeSet::new();
        for hash in doomed {
            let id = storage_id(hash);
            self.handles().forget(id);
            if matches!(self.store().status(hash).await.map_err(failed)?, BlobStatus::NotFound) {
                let paths = self.paths().clone();
                blocking(move || remove_files(&paths, &hash)).await?;
                removed.insert(id);
            } else {
                spared.insert(id);
            }
        }
        Ok(Collected { removed, spared })
    }

    /// Lets go of several objects with one commit of the books.
    pub async fn release_all(&self, ids: impl IntoIterator<Item = StorageId>) -> Result<(), StoreError> {
        for id in ids {
            self.store().tags().delete(tag_name(id)).await.map_err(request_failed)?;
            self.handles().forget(id);
        }
        self.store().sync_db().await.map_err(request_failed)
    }

    /// Keeps collections away from an object whose bytes are about to come. Waits for one that runs, which cannot know of
    /// the tag any more.
    pub(super) async fn pin(&self, id: StorageId) -> Result<TempTag, StoreError> {
        let _settling = self.collector().settling().await;
        self.pin_settling(id).await
    }

    /// The same, for callers that hold [`settling`](Collector::settling) already.
    pub(super) async fn pin_settling(&self, id: StorageId) -> Result<TempTag, StoreError> {
        let tag = HashAndFormat::raw(blob_hash(id));
        self.store().tags().temp_tag(tag).await.map_err(failed)
    }

    /// Objects that were reported durable.
    async fn tagged(&self) -> Result<BTreeSet<StorageId>, StoreError> {
        let mut tags = self.store().tags().list_prefix(TAG_PREFIX).await.map_err(failed)?;
        let mut tagged = BTreeSet::new();
        while let Some(tag) = tags.next().await {
            let tag = tag.map_err(|iroh_blobs::api::Error::Io(error)| StoreError::Request(error))?;
            tagged.insert(storage_id(tag.hash));
        }
        Ok(tagged)
    }

    /// Everything the store's books know.
    async fn booked(&self) -> Result<Vec<Hash>, StoreError> {
        self.store().blobs().list().hashes().await.map_err(request_failed)
    }
}

/// Length of a file; nothing when it is not there.
fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

/// Ids that files in the data directory are named by.
fn ids_in(directory: &Path) -> io::Result<BTreeSet<StorageId>> {
    let mut ids = BTreeSet::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        ids.extend(name.and_then(|name| name.parse::<StorageId>().ok()));
    }
    Ok(ids)
}

/// Removes files that the books do not know, or know no more.
fn remove_files(paths: &PathOptions, hash: &Hash) -> Result<(), StoreError> {
    for path in [
        paths.data_path(hash),
        paths.outboard_path(hash),
        paths.sizes_path(hash),
        paths.bitfield_path(hash),
    ] {
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::Io {
                    action: "remove",
                    path,
                    source,
                });
            }
            _ => {}
        }
    }
    Ok(())
}
