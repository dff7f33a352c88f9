//! A store in a plain directory of a local file system.
//!
//! Synced folders and network shares are unsupported (INV-266): this store rests on an atomic no-replace rename, on
//! `fsync`, and on `flock`, and such places keep none of the three.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use bytes::Bytes;

use self::temporary::{TemporaryFile, sweep};
use super::{
    Creation, DOCUMENT_BYTES_MAX, Found, InventoryStore, LockReach, Replacement, Revision, StoreError, StoreLock,
    StorePath, check_size,
};

mod temporary;
#[cfg(test)]
mod tests;

/// The file writers lock. It is created once and never deleted (INV-33): a lock on a file that another process deletes
/// and creates anew keeps nobody out.
const LOCK_FILE: &str = "LOCK";

/// An Inventory in a local directory, which several processes may use at once.
#[derive(Debug, Clone)]
pub struct LocalStore {
    root: PathBuf,
}

impl LocalStore {
    /// Opens a directory that exists. Nothing is created until something is written.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = root.into();
        let metadata = fs::metadata(&root).map_err(|source| io_error("opening", &root, source))?;
        if !metadata.is_dir() {
            return Err(io_error(
                "opening",
                &root,
                io::Error::from(io::ErrorKind::NotADirectory),
            ));
        }
        Ok(Self { root })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Runs blocking work where it doesn't hold up the runtime.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = self.clone();
        let root = self.root.clone();
        // A task that doesn't end normally was ended by the runtime's shutdown or by a panic inside the file calls.
        tokio::task::spawn_blocking(move || work(&store))
            .await
            .map_err(|error| io_error("working in", &root, io::Error::other(error)))?
    }

    fn file(&self, path: &StorePath) -> PathBuf {
        self.root.join(path.as_str())
    }

    fn read(&self, path: &StorePath) -> Result<Option<Found>, StoreError> {
        let file_path = self.file(path);
        // Without NONBLOCK, opening a named pipe would wait for a writer that never comes.
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open(&file_path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("reading", &file_path, error)),
        };
        let metadata = file
            .metadata()
            .map_err(|error| io_error("reading", &file_path, error))?;
        if !metadata.is_file() {
            return Err(StoreError::NotAFile {
                path: file_path.display().to_string(),
            });
        }
        check_size(path, metadata.len())?;
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        // The size is of an earlier instant, and only what this store writes is known not to grow.
        file.take(DOCUMENT_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| io_error("reading", &file_path, error))?;
        check_size(path, bytes.len() as u64)?;
        Ok(Some(Found {
            revision: Revision::of_bytes(&bytes),
            bytes: bytes.into(),
        }))
    }

    /// INV-244: a temporary file, `fsync`, a rename that replaces nothing, `fsync` of the directory.
    fn create_file(&self, path: &StorePath, bytes: &[u8]) -> Result<Creation, StoreError> {
        check_size(path, bytes.len() as u64)?;
        let target = self.file(path);
        let folder = self.make_folder(&target)?;
        if target.symlink_metadata().is_ok() {
            // Whoever created it may have died before its name was durable, and what builds on it must not outlive it.
            sync_folder(&folder)?;
            return Ok(Creation::Exists);
        }
        let creation = loop {
            let temporary = TemporaryFile::write(&self.root, bytes)?;
            crash_point("written");
            match temporary.rename_new(&target) {
                Ok(()) => break Creation::Created,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => break Creation::Exists,
                Err(error) if temporary.is_swept(&error) => {}
                Err(error) => return Err(io_error("creating", &target, error)),
            }
        };
        crash_point("renamed");
        sync_folder(&folder)?;
        Ok(creation)
    }

    /// Reads, compares and renames under a lock on the document's folder, which other replacements wait for.
    fn replace_file(&self, path: &StorePath, expected: &Revision, bytes: &[u8]) -> Result<Replacement, StoreError> {
        check_size(path, bytes.len() as u64)?;
        let target = self.file(path);
        let folder = target.parent().unwrap_or(&self.root).to_owned();
        let guard = match File::open(&folder) {
            Ok(guard) => guard,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Replacement::Changed),
            Err(error) => return Err(io_error("locking", &folder, error)),
        };
        guard.lock().map_err(|error| io_error("locking", &folder, error))?;
        if self.read(path)?.is_none_or(|held| held.revision != *expected) {
            return Ok(Replacement::Changed);
        }
        loop {
            let temporary = TemporaryFile::write(&self.root, bytes)?;
            crash_point("written");
            match temporary.rename_over(&target) {
                Ok(()) => break,
                Err(error) if temporary.is_swept(&error) => {}
                Err(error) => return Err(io_error("replacing", &target, error)),
            }
        }
        crash_point("renamed");
        sync_folder(&folder)?;
        Ok(Replacement::Replaced)
    }

    fn delete_file(&self, path: &StorePath) -> Result<(), StoreError> {
        let target = self.file(path);
        match fs::remove_file(&target) {
            Ok(()) => sync_folder(target.parent().unwrap_or(&self.root)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io_error("deleting", &target, error)),
        }
    }

    fn names_under(&self, folder: Option<&StorePath>) -> Result<Vec<StorePath>, StoreError> {
        let mut names = Vec::new();
        let mut folders = vec![folder.map_or_else(String::new, |folder| format!("{folder}/"))];
        while let Some(prefix) = folders.pop() {
            let directory = self.root.join(&prefix);
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    continue;
                }
                Err(error) => return Err(io_error("listing", &directory, error)),
            };
            for entry in entries {
                let entry = entry.map_err(|error| io_error("listing", &directory, error))?;
                let kind = entry
                    .file_type()
                    .map_err(|error| io_error("listing", &directory, error))?;
                // Temporary files and whatever else no document is named like.
                let Some(path) = entry
                    .file_name()
                    .to_str()
                    .and_then(|name| StorePath::parse(&format!("{prefix}{name}")).ok())
                else {
                    continue;
                };
                if kind.is_dir() {
                    folders.push(format!("{path}/"));
                } else if kind.is_file() && path.as_str() != LOCK_FILE {
                    names.push(path);
                }
            }
        }
        names.sort();
        Ok(names)
    }

    /// INV-292: the system releases it when the file closes, at the latest when the process ends, however it ends.
    fn take_lock(&self) -> Result<StoreLock, StoreError> {
        let path = self.root.join(LOCK_FILE);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| io_error("opening", &path, error))?;
        file.lock().map_err(|error| io_error("locking", &path, error))?;
        sweep(&self.root);
        Ok(StoreLock::new(file))
    }

    /// Makes a file's folder, durable up to the catalogue's root.
    fn make_folder(&self, target: &Path) -> Result<PathBuf, StoreError> {
        let folder = target.parent().unwrap_or(&self.root).to_owned();
        let mut missing = Vec::new();
        let mut above = folder.as_path();
        while above != self.root && !above.is_dir() {
            missing.push(above);
            match above.parent() {
                Some(parent) => above = parent,
                None => break,
            }
        }
        for directory in missing.into_iter().rev() {
            match fs::create_dir(directory) {
                Ok(()) => {}
                // Another writer was first.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error("making the folder", directory, error)),
            }
            sync_folder(directory.parent().unwrap_or(&self.root))?;
        }
        Ok(folder)
    }
}

#[async_trait]
impl InventoryStore for LocalStore {
    async fn get(&self, path: &StorePath) -> Result<Option<Found>, StoreError> {
        let path = path.clone();
        self.blocking(move |store| store.read(&path)).await
    }

    async fn create(&self, path: &StorePath, bytes: Bytes) -> Result<Creation, StoreError> {
        let path = path.clone();
        self.blocking(move |store| store.create_file(&path, &bytes)).await
    }

    async fn replace(&self, path: &StorePath, expected: &Revision, bytes: Bytes) -> Result<Replacement, StoreError> {
        let (path, expected) = (path.clone(), expected.clone());
        self.blocking(move |store| store.replace_file(&path, &expected, &bytes))
            .await
    }

    async fn delete(&self, path: &StorePath) -> Result<(), StoreError> {
        let path = path.clone();
        self.blocking(move |store| store.delete_file(&path)).await
    }

    async fn list(&self, folder: Option<&StorePath>) -> Result<Vec<StorePath>, StoreError> {
        let folder = folder.cloned();
        self.blocking(move |store| store.names_under(folder.as_ref())).await
    }

    async fn lock(&self) -> Result<StoreLock, StoreError> {
        self.blocking(Self::take_lock).await
    }

    fn lock_reach(&self) -> LockReach {
        LockReach::EveryWriter
    }
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io {
        action,
        path: path.display().to_string(),
        source,
    }
}

/// Makes a folder's names durable.
fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder)
        .and_then(|file| file.sync_all())
        .map_err(|error| io_error("syncing", folder, error))
}

/// Where the tests end the process, as a kill or a power cut would.
fn crash_point(_name: &str) {
    #[cfg(test)]
    tests::abort_if_asked(_name);
}
