//! The catalogue's database: the only code that names redb.
//!
//! ```text
//! Catalog ──begin()──▶ Txn       one step: entries, MLS rows, meta, outbox, byte states, invites; commit() or nothing
//!         ──read()───▶ Snapshot  one consistent view; [`Read`] gives the same questions on both
//! ```
//!
//! A commit returns when its bytes are on disk (immediate durability, two phases, quick repair). What is not committed is not
//! visible and leaves no trace. Rows that no signature covers carry an AEAD tag ([`tagged`]). Each commit raises a counter, so
//! that a restored older copy is noticed ([`Catalog::compare_counter`]).

pub(crate) mod rows;
pub(crate) mod snapshot;
pub(crate) mod tables;
pub(crate) mod tagged;
pub(crate) mod txn;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use redb::{Database, ReadableDatabase as _, backends::FileBackend};
use sovm_object::secret::DatabaseKey;

use self::{snapshot::Snapshot, tables::Rows as _, txn::Txn};
use crate::{
    authority::OpsCache,
    backend::{
        XtsBackend,
        salt::{CatalogKeys, SaltError, sync_directory},
    },
    body::ManifestCache,
};

/// Pages redb keeps in memory. Bounds what an idle node holds (DESIGN §13).
const CACHE_BYTES: usize = 16 << 20;
/// Layout of all tables together. A later release that changes one writes a migration and raises this.
const LAYOUT: u64 = 1;

/// Why a catalogue did not open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is a catalogue but not its side file.
    #[error("catalog.redb is here but catalog.salt is not; restore both from the same copy of this home")]
    SaltMissing,
    /// The side file gives no keys.
    #[error(transparent)]
    Salt(#[from] SaltError),
    /// Written by a later release.
    #[error("the catalogue has layout {0}, which is newer than this sovm; use the newer release")]
    NewerLayout(u64),
    /// The database does not open.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a read or a commit failed. Whatever it was, nothing of the step was saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No space left.
    #[error(
        "the disk of the catalogue is full; nothing of this step was saved. Free some space, then repeat the command"
    )]
    DiskFull,
    /// The file cannot be written.
    #[error("the catalogue cannot be written: its disk or file is read-only")]
    ReadOnly,
    /// Another failure of the disk.
    #[error("the catalogue's disk failed; nothing of this step was saved")]
    Io(#[source] io::Error),
    /// redb found its own structure broken.
    #[error("the catalogue is damaged; recover this node from its kit, or restore a copy of this home")]
    Damaged(#[source] Box<redb::Error>),
    /// A row does not carry the tag it was written with.
    #[error("a row of {0} was changed outside sovm; recover this node from its kit, or restore a copy of this home")]
    RowChanged(&'static str),
    /// A row has a form this build never wrote.
    #[error("a row of {0} has an unknown form; recover this node from its kit, or restore a copy of this home")]
    RowForm(&'static str),
    /// A reservation would go back.
    #[error("ceiling {0} may only rise")]
    CeilingFalls(&'static str),
}

/// Turns any of redb's errors into ours.
pub(crate) fn fault(error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        redb::Error::Io(error) => match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::DiskFull,
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => StoreError::ReadOnly,
            io::ErrorKind::InvalidData => StoreError::Damaged(Box::new(redb::Error::Io(error))),
            _ => StoreError::Io(error),
        },
        redb::Error::PreviousIo => StoreError::Io(io::Error::other("an earlier write failed")),
        other => StoreError::Damaged(Box::new(other)),
    }
}

/// Where the bytes are, so that the database can be opened again after a disk error.
enum Place {
    File(PathBuf),
    #[cfg(test)]
    Crash(crate::backend::crash::CrashDisk),
}

pub(crate) struct Inner {
    /// `None` only while it is opened again.
    database: RwLock<Option<Database>>,
    place: Place,
    pub(crate) keys: CatalogKeys,
    pub(crate) ops: Mutex<OpsCache>,
    pub(crate) manifests: Mutex<ManifestCache>,
}

/// A node's catalogue. Clones share one database.
#[derive(Clone)]
pub struct Catalog(Arc<Inner>);

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Catalog(..)")
    }
}

/// What comparing the commit counter with the key store's copy says (DESIGN §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterCheck {
    /// The catalogue has seen at least what the key store knows of.
    Current,
    /// The catalogue was restored from an older copy, or the key store belongs to a later one.
    Behind {
        /// Commits this catalogue has seen.
        catalog: u64,
        /// Commits the key store knows of.
        key_store: u64,
    },
}

impl Catalog {
    /// Opens the catalogue in `dir`, or makes it. `dir` must exist, and the caller must hold the home's lock.
    pub fn open(dir: &Path, key: &DatabaseKey) -> Result<Self, OpenError> {
        let (path, salt) = (dir.join("catalog.redb"), dir.join("catalog.salt"));
        let length = match fs::metadata(&path) {
            Ok(meta) => Some(meta.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(fault(error).into()),
        };
        let keys = match length {
            // redb would take an empty file for a new one.
            Some(0) => return Err(fault(redb::Error::Corrupted("catalog.redb is empty".into())).into()),
            Some(_) if !salt.exists() => return Err(OpenError::SaltMissing),
            Some(_) => CatalogKeys::load(&salt, key, false)?,
            None => {
                Self::make(dir, &path, CatalogKeys::load(&salt, key, true)?)?;
                CatalogKeys::load(&salt, key, false)?
            }
        };
        Self::at(Place::File(path), keys)
    }

    /// redb refuses a file whose making was cut short, so a new one gets its name when it is whole.
    fn make(dir: &Path, path: &Path, keys: CatalogKeys) -> Result<(), OpenError> {
        let unfinished = dir.join("catalog.new");
        if let Err(error) = fs::remove_file(&unfinished)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(fault(error).into());
        }
        drop(Self::at(Place::File(unfinished.clone()), keys)?);
        fs::File::open(&unfinished)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&unfinished, path))
            .and_then(|()| sync_directory(path))
            .map_err(fault)?;
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn on_disk(disk: &crate::backend::crash::CrashDisk) -> Result<Self, OpenError> {
        let keys = CatalogKeys::derive(&DatabaseKey::from_bytes([7; 32]), &[9; 32]);
        Self::at(Place::Crash(disk.clone()), keys)
    }

    fn at(place: Place, keys: CatalogKeys) -> Result<Self, OpenError> {
        let database = place.open(&keys)?;
        let inner = Inner {
            database: RwLock::new(Some(database)),
            place,
            keys,
            ops: Mutex::default(),
            manifests: Mutex::default(),
        };
        let catalog = Self(Arc::new(inner));
        catalog.prepare()?;
        Ok(catalog)
    }

    /// Makes all tables once, so that readers never meet a missing one.
    fn prepare(&self) -> Result<(), OpenError> {
        let (layout, complete) = {
            let txn = self.raw_read()?;
            let found: BTreeSet<String> = txn
                .list_tables()
                .map_err(fault)?
                .map(|table| redb::TableHandle::name(&table).to_owned())
                .collect();
            let complete = tables::ALL.iter().all(|table| found.contains(tables::name(table)));
            if found.is_empty() {
                (None, false)
            } else {
                let layout = Snapshot::over(txn, self.0.clone()).get(&tables::LAYOUT, b"layout")?;
                (layout, complete)
            }
        };
        match layout {
            None => Ok(Txn::over(self.raw_write()?, self.0.clone()).create_tables(LAYOUT)?),
            Some(found) => match rows::u64_of(tables::LAYOUT_NAME, &found)? {
                LAYOUT if complete => Ok(()),
                // Made by an earlier build. A table it did not know changes no other, so the layout is the same.
                LAYOUT => Ok(Txn::over(self.raw_write()?, self.0.clone()).create_tables(LAYOUT)?),
                newer => Err(OpenError::NewerLayout(newer)),
            },
        }
    }

    /// Starts a step. Waits while another step is open.
    pub fn begin(&self) -> Result<Txn, StoreError> {
        Ok(Txn::over(self.raw_write()?, self.0.clone()))
    }

    /// One consistent view of what is committed now.
    pub fn read(&self) -> Result<Snapshot, StoreError> {
        Ok(Snapshot::over(self.raw_read()?, self.0.clone()))
    }

    /// Compares the commit counter with the copy in the key store.
    pub fn compare_counter(&self, key_store: u64) -> Result<CounterCheck, StoreError> {
        let catalog = crate::read::Read::commit_counter(&self.read()?)?;
        Ok(if catalog < key_store {
            CounterCheck::Behind { catalog, key_store }
        } else {
            CounterCheck::Current
        })
    }

    fn raw_write(&self) -> Result<redb::WriteTransaction, StoreError> {
        self.with_database(|database| database.begin_write().map_err(redb::Error::from))
    }

    fn raw_read(&self) -> Result<redb::ReadTransaction, StoreError> {
        self.with_database(|database| database.begin_read().map_err(redb::Error::from))
    }

    /// After a failed write redb wants to be opened again. Doing it here lets work go on by itself once there is space.
    fn with_database<T>(&self, run: impl Fn(&Database) -> Result<T, redb::Error>) -> Result<T, StoreError> {
        let first = match &*self.0.database.read().unwrap_or_else(PoisonError::into_inner) {
            Some(database) => run(database),
            None => Err(redb::Error::PreviousIo),
        };
        match first {
            Err(redb::Error::PreviousIo) => {
                let mut slot = self.0.database.write().unwrap_or_else(PoisonError::into_inner);
                // Another thread may have opened it again already.
                if let Some(database) = &*slot {
                    match run(database) {
                        Err(redb::Error::PreviousIo) => {}
                        other => return other.map_err(fault),
                    }
                }
                // The old handle must be gone before the file is opened a second time. What still hangs on it can neither read
                // nor write: redb refuses everything after a failed write.
                drop(slot.take());
                let database = slot.insert(self.0.place.open(&self.0.keys)?);
                run(database).map_err(fault)
            }
            other => other.map_err(fault),
        }
    }
}

impl Place {
    fn open(&self, keys: &CatalogKeys) -> Result<Database, StoreError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        match self {
            Self::File(path) => {
                let mut options = fs::OpenOptions::new();
                options.read(true).write(true).create(true).truncate(false);
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                let file = options.open(path).map_err(redb::Error::Io).map_err(fault)?;
                let backend = XtsBackend::new(FileBackend::new(file).map_err(fault)?, &keys.xts);
                builder.create_with_backend(backend).map_err(fault)
            }
            #[cfg(test)]
            Self::Crash(disk) => builder
                .create_with_backend(XtsBackend::new(disk.clone(), &keys.xts))
                .map_err(fault),
        }
    }
}
