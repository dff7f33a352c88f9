//! Objects on disk: iroh-blobs' file store, plus the steps it leaves out.
//!
//! The store says "done" before anything is on the disk: data and outboard files are never fsynced, and its own database
//! commits up to half a second later (`reference/iroh.md` 2.4). So nothing here is reported as held until
//!
//! ```text
//! add -> compare hash -> fsync data, outboard, directory -> tag `sovm/obj/<hex>` -> sync_db        = Durable
//! ```
//!
//! has been walked to the end. [`Durable`] is the receipt; only this module can write one, so an entry that wants to name
//! an object can ask for it. The tag is the record that the walk was finished: after a crash, an object without its tag
//! is not listed, is reported as [`Holding::Partial`] at most, and is published or fetched again.
//!
//! Reads go through [`read`](super::read) only.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use iroh_blobs::{
    Hash, HashAndFormat,
    api::{RequestError, Store, TempTag, blobs::BlobStatus},
    store::fs::{
        FsStore,
        options::{Options, PathOptions},
    },
};
use n0_future::{StreamExt as _, stream};
use sovm_object::{id::StorageId, verified::ReadError};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::{blob_hash, collect::Collector, read::Handles, steps::reached, storage_id};

/// Name of the tag that says an object is held and durable.
pub(super) const TAG_PREFIX: &str = "sovm/obj/";
/// Blobs up to this size, and outboards up to this size, live inside the store's database.
pub(super) const INLINE_BYTES_MAX: u64 = 16 * 1024;
/// Piece size in which a reader is copied into the store.
const IMPORT_PIECE_BYTES: usize = 1024 * 1024;

/// Disk space that stays free whatever arrives: the larger of the two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskReserve {
    /// In bytes.
    pub bytes: u64,
    /// As a share of the whole disk, in percent.
    pub percent: u8,
}

impl Default for DiskReserve {
    fn default() -> Self {
        Self {
            bytes: 1024 * 1024 * 1024,
            percent: 5,
        }
    }
}

/// There is too little space on the disk to take more bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "too little space at {}: {needed} bytes are needed, {free} are free and {reserve} stay reserved. Nothing was \
     written; free some space and try again",
    .path.display()
)]
pub struct NoRoom {
    /// Where the objects lie.
    pub path: PathBuf,
    /// What was to be written.
    pub needed: u64,
    /// What is free.
    pub free: u64,
    /// What stays free in any case.
    pub reserve: u64,
}

/// The object store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("the object store at {} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// The directory cannot be read or written.
    #[error("cannot open the object store at {}", .path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The store's own database does not open.
    #[error("the database of the object store at {} does not open", .path.display())]
    Database {
        /// The database file.
        path: PathBuf,
        /// What it said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The object store failed at work.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file operation failed.
    #[error("cannot {action} {}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The store could not do what was asked, and goes on working.
    #[error("the object store could not complete the request")]
    Request(#[source] io::Error),
    /// The store's database or one of its tasks failed; the store must be opened again before it works.
    #[error("the object store has failed and must be reopened")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// An object was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The bytes are not the object they were said to be. Nothing is listed.
    #[error("the bytes have id {} instead of {}: nothing was published", .found.fmt_short(), .expected.fmt_short())]
    WrongId {
        /// The id that was promised.
        expected: StorageId,
        /// The id of the bytes.
        found: StorageId,
    },
    /// An object has at least one byte.
    #[error("an object cannot be empty")]
    Empty,
    /// The source of the bytes failed.
    #[error("the bytes could not be read to their end: nothing was published")]
    Source(#[source] io::Error),
    /// Too little space.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Receipt: the object survives a power cut from here on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Durable {
    id: StorageId,
    size: u64,
}

impl Durable {
    /// The object.
    pub const fn id(&self) -> StorageId {
        self.id
    }

    /// Its length in bytes.
    pub const fn size(&self) -> u64 {
        self.size
    }
}

/// How much of an object is here, by the store's own books. Only a read proves it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Holding {
    /// Nothing.
    Absent,
    /// Some of it, or all of it without the final fsync.
    Partial {
        /// Bytes here.
        bytes: u64,
    },
    /// The books say all of it, but a file is gone or too short. Heal it from a holder, or publish it again.
    Damaged,
    /// All of it.
    Durable(Durable),
}

/// The objects of one node. Clones are the same store.
#[derive(Clone)]
pub struct ObjectStore(Arc<Inner>);

struct Inner {
    root: PathBuf,
    paths: PathOptions,
    reserve: DiskReserve,
    store: FsStore,
    handles: Handles,
    collector: Collector,
    /// What was flushed, for the test that cuts the power.
    #[cfg(test)]
    flushed: std::sync::Mutex<Vec<PathBuf>>,
    // Last, so that the lock outlives the store.
    _lock: File,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Its loop holds the store open.
        self.collector.stop();
    }
}

impl ObjectStore {
    /// Opens the store in `root`, creating it if needed, and removes what an interrupted import left behind.
    pub async fn open(root: impl AsRef<Path>, reserve: DiskReserve) -> Result<Self, OpenError> {
        let root = root.as_ref().to_owned();
        let (root, lock) = blocking(move || prepare(root)).await?;
        let (mut options, database) = (Options::new(&root), root.join("blobs.db"));
        let paths = options.path.clone();
        // The loop collects nothing by itself: it waits until `collect` lets it go for one round.
        let (collector, collection) = Collector::new();
        options.gc = Some(collection);
        let store = FsStore::load_with_opts(database.clone(), options)
            .await
            .map_err(|error| OpenError::Database {
                path: database,
                source: Box::new(io::Error::other(error)),
            })?;
        collector.serve(Store::clone(&store));
        Ok(Self(Arc::new(Inner {
            root,
            paths,
            reserve,
            store,
            handles: Handles::default(),
            collector,
            #[cfg(test)]
            flushed: std::sync::Mutex::default(),
            _lock: lock,
        })))
    }

    /// Puts a sealed object into the store and returns when it is durable.
    ///
    /// Publishing what is already here is allowed, and heals a damaged copy.
    pub async fn publish(&self, bytes: Bytes, expected: StorageId) -> Result<Durable, PublishError> {
        if bytes.is_empty() {
            return Err(PublishError::Empty);
        }
        self.check_room(bytes.len() as u64)?;
        // Before anything is written: hashing is cheap, an orphan in the store is not.
        let hashing = bytes.clone();
        let found = blocking(move || StorageId::from_bytes(*blake3::hash(&hashing).as_bytes())).await;
        if found != expected {
            return Err(PublishError::WrongId { expected, found });
        }
        let size = bytes.len() as u64;
        let _pin = self.pin(expected).await?;
        let added = self.store().add_bytes(bytes).temp_tag().await;
        let tag = added.map_err(|error| self.import_failed(error, size))?;
        self.settle(tag, expected).await
    }

    /// Like [`publish`](Self::publish), for an object that does not fit into memory.
    pub async fn import_reader(
        &self,
        mut reader: impl AsyncRead + Send + Unpin + 'static,
        size_hint: Option<u64>,
        expected: StorageId,
    ) -> Result<Durable, PublishError> {
        self.check_room(size_hint.unwrap_or(0))?;
        // The store wants a stream that may be shared between threads, which a reader may not be: a task of ours reads.
        let (pieces, mut received) = tokio::sync::mpsc::channel::<io::Result<Bytes>>(2);
        let mut reading = tokio::spawn(async move {
            loop {
                let mut piece = Vec::with_capacity(IMPORT_PIECE_BYTES);
                match (&mut reader)
                    .take(IMPORT_PIECE_BYTES as u64)
                    .read_to_end(&mut piece)
                    .await
                {
                    Ok(0) => return Ok(()),
                    Ok(_) if pieces.send(Ok(Bytes::from(piece))).await.is_err() => return Ok(()),
                    Ok(_) => {}
                    // The channel stays open beside the error, so that the store never takes what came so far for the whole.
                    Err(error) => return Err((error, pieces)),
                }
            }
        });
        let _pin = self.pin(expected).await?;
        let stream = stream::poll_fn(move |context| received.poll_recv(context));
        let added = tokio::select! {
            biased;
            // An error inside the stream would race the store's own messages; leaving the import drops it as well.
            Ok(Err((error, _open))) = &mut reading => return Err(PublishError::Source(error)),
            added = async { self.store().add_stream(stream).await.temp_tag().await } => added,
        };
        let tag = added.map_err(|error| self.import_failed(error, size_hint.unwrap_or(0)))?;
        self.settle(tag, expected).await
    }

    /// Proves an object that is complete by the books, and makes it durable: after an unclean end the books may be ahead
    /// of the disk. Returns `None` when it is not complete.
    pub async fn confirm(&self, id: StorageId) -> Result<Option<Durable>, ReadError> {
        match self.scrub(id).await {
            Ok(_) => self.make_durable(id).await.map_err(|error| ReadError::Store {
                id,
                source: error.into(),
            }),
            Err(ReadError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Walks the durable steps for an object whose every byte was verified just now. `None` when it is not complete.
    pub(super) async fn make_durable(&self, id: StorageId) -> Result<Option<Durable>, StoreError> {
        let hash = blob_hash(id);
        // A collection runs before these steps or after them, so it sees the object without a tag or with it.
        let _settling = self.collector().settling().await;
        let _pin = self.pin_settling(id).await?;
        let BlobStatus::Complete { size } = self.store().status(hash).await.map_err(failed)? else {
            return Ok(None);
        };
        let paths = self.0.paths.clone();
        let _flushed = blocking(move || sync_files(&paths, &hash, size)).await?;
        #[cfg(test)]
        self.note_flushed(_flushed.into_iter().map(|Flushed(path)| path));
        reached("store.flushed");
        self.store()
            .tags()
            .set(tag_name(id), HashAndFormat::raw(hash))
            .await
            .map_err(request_failed)?;
        reached("store.tagged");
        // The only acknowledgement of the store's database that means "on disk".
        self.store().sync_db().await.map_err(request_failed)?;
        #[cfg(test)]
        self.note_flushed([self.0.root.join("blobs.db")]);
        Ok(Some(Durable { id, size }))
    }

    /// How much of an object is here, by the books and the lengths of its files.
    pub async fn holding(&self, id: StorageId) -> Result<Holding, StoreError> {
        let hash = blob_hash(id);
        match self.store().status(hash).await.map_err(failed)? {
            BlobStatus::NotFound => Ok(Holding::Absent),
            BlobStatus::Partial { .. } => Ok(Holding::Partial {
                bytes: self.local_bytes(hash).await?,
            }),
            BlobStatus::Complete { size } if !self.files_are_there(hash, size).await => Ok(Holding::Damaged),
            BlobStatus::Complete { size } => {
                let tagged = self
                    .store()
                    .tags()
                    .get(tag_name(id))
                    .await
                    .map_err(request_failed)?
                    .is_some();
                Ok(if tagged {
                    Holding::Durable(Durable { id, size })
                } else {
                    Holding::Partial { bytes: size }
                })
            }
        }
    }

    /// Whether the books call an object complete, tagged or not.
    pub(super) async fn is_booked_whole(&self, id: StorageId) -> Result<bool, StoreError> {
        let status = self.store().status(blob_hash(id)).await.map_err(failed)?;
        Ok(matches!(status, BlobStatus::Complete { .. }))
    }

    /// Whether all of an object is here and durable.
    pub async fn has(&self, id: StorageId) -> Result<bool, StoreError> {
        Ok(matches!(self.holding(id).await?, Holding::Durable(_)))
    }

    /// Every object that is held and durable, sorted by id. An object whose file is gone or short is not listed.
    pub async fn list(&self) -> Result<Vec<Durable>, StoreError> {
        let mut tags = self.store().tags().list_prefix(TAG_PREFIX).await.map_err(failed)?;
        let mut held = Vec::new();
        while let Some(tag) = tags.next().await {
            let hash = tag
                .map_err(|iroh_blobs::api::Error::Io(error)| StoreError::Request(error))?
                .hash;
            if let BlobStatus::Complete { size } = self.store().status(hash).await.map_err(failed)?
                && self.files_are_there(hash, size).await
            {
                let id = storage_id(hash);
                held.push(Durable { id, size });
            }
        }
        held.sort_unstable_by_key(Durable::id);
        Ok(held)
    }

    /// Lets go of an object: it is no longer listed or counted as held. Its bytes stay until they are
    /// [collected](Self::collect).
    pub async fn release(&self, id: StorageId) -> Result<(), StoreError> {
        self.release_all([id]).await
    }

    /// Whether `needed` more bytes fit without touching the reserve.
    pub fn check_room(&self, needed: u64) -> Result<(), NoRoom> {
        let room = |path: &Path| Some((fs4::available_space(path).ok()?, fs4::total_space(path).ok()?));
        // A system that cannot tell its free space still stores; the write itself then reports a full disk.
        let Some((free, total)) = room(&self.0.root) else {
            return Ok(());
        };
        let reserve = self
            .0
            .reserve
            .bytes
            .max(total / 100 * u64::from(self.0.reserve.percent));
        if free < needed.saturating_add(reserve) {
            return Err(NoRoom {
                path: self.0.root.clone(),
                needed,
                free,
                reserve,
            });
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn flushed(&self) -> Vec<PathBuf> {
        self.0.flushed.lock().unwrap().clone()
    }

    #[cfg(test)]
    fn note_flushed(&self, paths: impl IntoIterator<Item = PathBuf>) {
        self.0.flushed.lock().unwrap().extend(paths);
    }

    /// Where the objects lie.
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// Commits and closes. After this every call fails.
    pub async fn shutdown(&self) -> Result<(), StoreError> {
        self.0.handles.forget_all();
        self.store().sync_db().await.map_err(request_failed)?;
        let closed = self.store().shutdown().await.map_err(failed);
        self.collector().stop();
        closed
    }

    pub(super) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(super) fn handles(&self) -> &Handles {
        &self.0.handles
    }

    pub(super) fn collector(&self) -> &Collector {
        &self.0.collector
    }

    pub(super) fn paths(&self) -> &PathOptions {
        &self.0.paths
    }

    pub(super) fn data_path(&self, id: StorageId) -> PathBuf {
        self.0.paths.data_path(&blob_hash(id))
    }

    pub(super) fn outboard_path(&self, id: StorageId) -> PathBuf {
        self.0.paths.outboard_path(&blob_hash(id))
    }

    fn room(&self, needed: u64) -> Option<NoRoom> {
        let path = &self.0.root;
        let (free, total) = (fs4::available_space(path).ok()?, fs4::total_space(path).ok()?);
        let reserve = self
            .0
            .reserve
            .bytes
            .max(total / 100 * u64::from(self.0.reserve.percent));
        Some(NoRoom {
            path: path.clone(),
            needed,
            free,
            reserve,
        })
    }

    fn import_failed(&self, error: RequestError, needed: u64) -> PublishError {
        match request_failed(error) {
            StoreError::Request(error) if error.kind() == io::ErrorKind::StorageFull => match self.room(needed) {
                Some(room) => room.into(),
                None => StoreError::Request(error).into(),
            },
            error => error.into(),
        }
    }

    async fn files_are_there(&self, hash: Hash, size: u64) -> bool {
        if size <= INLINE_BYTES_MAX {
            return true;
        }
        let path = self.0.paths.data_path(&hash);
        blocking(move || fs::metadata(path).is_ok_and(|found| found.len() >= size)).await
    }

    async fn local_bytes(&self, hash: Hash) -> Result<u64, StoreError> {
        Ok(self.store().remote().local(hash).await.map_err(failed)?.local_bytes())
    }

    async fn settle(&self, pin: TempTag, expected: StorageId) -> Result<Durable, PublishError> {
        let found = storage_id(pin.hash());
        if found != expected {
            return Err(PublishError::WrongId { expected, found });
        }
        // An import replaces the file under its name; a handle to the old one would go on reading the old bytes.
        self.0.handles.forget(expected);
        reached("store.imported");
        let durable = self.make_durable(expected).await?;
        durable.ok_or_else(|| StoreError::Failed("an imported object is not complete".into()).into())
    }
}

/// Takes the lock and clears `temp/`, which the store itself never does. Safe because the lock is ours and nothing refers
/// to a temporary file of an earlier run.
fn prepare(root: PathBuf) -> Result<(PathBuf, File), OpenError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::Io { path, source }
    };
    fs::create_dir_all(&root).map_err(at(&root))?;
    let root = root.canonicalize().map_err(at(&root))?;
    let lock_path = root.join("lock");
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock_path)
        .map_err(at(&lock_path))?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => OpenError::InUse(root.clone()),
        TryLockError::Error(source) => OpenError::Io {
            path: lock_path,
            source,
        },
    })?;
    let temp = root.join("temp");
    match fs::read_dir(&temp) {
        Ok(entries) => {
            for entry in entries {
                let path = entry.map_err(at(&temp))?.path();
                fs::remove_file(&path).map_err(at(&path))?;
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(at(&temp)(error)),
    }
    Ok((root, lock))
}

/// A file or directory whose content is on the disk. Nothing but a flush makes one.
struct Flushed(#[cfg_attr(not(test), expect(dead_code, reason = "only the test that cuts the power asks"))] PathBuf);

impl Flushed {
    fn sync(open: &File, path: &Path) -> io::Result<Self> {
        open.sync_all()?;
        Ok(Self(path.to_owned()))
    }
}

/// Flushes an object's files and the directory that names them.
fn sync_files(paths: &PathOptions, hash: &Hash, size: u64) -> Result<Vec<Flushed>, StoreError> {
    let mut flushed = Vec::new();
    if size > INLINE_BYTES_MAX {
        flushed.push(sync_file(&paths.data_path(hash), size)?);
    }
    let outboard_bytes = outboard_bytes(size);
    if outboard_bytes > INLINE_BYTES_MAX {
        flushed.push(sync_file(&paths.outboard_path(hash), outboard_bytes)?);
    }
    let directory = &paths.data_path;
    let synced = File::open(directory).and_then(|open| Flushed::sync(&open, directory));
    flushed.push(synced.map_err(|source| StoreError::Io {
        action: "flush the directory",
        path: directory.clone(),
        source,
    })?);
    Ok(flushed)
}

fn sync_file(path: &Path, size: u64) -> Result<Flushed, StoreError> {
    let at = |action| {
        move |source| StoreError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    };
    let file = File::open(path).map_err(at("open"))?;
    let found = file.metadata().map_err(at("look at"))?.len();
    if found < size {
        // The store logs a failed rename and goes on; this is where we notice.
        return Err(at("flush")(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the file is shorter than the object",
        )));
    }
    Flushed::sync(&file, path).map_err(at("flush"))
}

/// Length of an object's inner hashes on disk: one pair of hashes for every group of 16 KiB but one.
pub(super) const fn outboard_bytes(size: u64) -> u64 {
    size.div_ceil(16 * 1024).saturating_sub(1) * 64
}

pub(super) fn tag_name(id: StorageId) -> String {
    format!("{TAG_PREFIX}{id}")
}

/// An error of the store's answer, told apart from a store that does not answer any more.
pub(super) fn request_failed(error: RequestError) -> StoreError {
    match error {
        RequestError::Inner {
            source: iroh_blobs::api::Error::Io(error),
            ..
        } => StoreError::Request(error),
        other => failed(other),
    }
}

/// The store does not answer any more.
pub(super) fn failed(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Failed(Box::new(error))
}

/// Runs file work off the async threads. A panic in it goes on in the caller.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going down and drops us at the next await anyway.
            Err(_) => std::future::pending().await,
        },
    }
}
