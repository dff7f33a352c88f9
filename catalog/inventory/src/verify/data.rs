//! Where editions' files are read from.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use async_trait::async_trait;

use crate::{
    doc::{EditionId, FileEntry, FileRoot, ProductId, layout},
    fingerprint::{FileDigests, FileHasher},
    store::{InventoryStore, StoreError, StorePath},
};

/// A file as an edition's manifest lists it.
#[derive(Debug, Clone, Copy)]
pub struct EditionFile<'a> {
    /// The product.
    pub product_id: &'a ProductId,
    /// The edition.
    pub edition_id: &'a EditionId,
    /// The manifest's record.
    pub entry: &'a FileEntry,
}

impl EditionFile<'_> {
    /// INV-47, INV-68: where it lies, relative to the catalogue's root.
    pub fn path(&self) -> String {
        let folder = match self.entry.root {
            FileRoot::Data => layout::data(self.product_id),
            FileRoot::Edition => layout::edition(self.product_id, self.edition_id),
        };
        format!("{folder}/{}", self.entry.path)
    }
}

/// A file as it lies there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// Its size in bytes.
    pub size: u64,
    /// Its digests in lower-case hex, by algorithm: those that whoever measured it can compute.
    pub digests: BTreeMap<String, String>,
}

impl From<FileDigests> for Measured {
    fn from(digests: FileDigests) -> Self {
        Self {
            size: digests.size_bytes,
            digests: digests.to_entry(),
        }
    }
}

impl Measured {
    /// Measures bytes at hand.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut hasher = FileHasher::new().and_blake3();
        hasher.update(bytes);
        hasher.finish().into()
    }

    /// Measures a file, if it is there.
    pub(crate) fn of_file(path: &Path) -> Result<Option<Self>, StoreError> {
        let Some(mut file) = open_file(path)? else {
            return Ok(None);
        };
        let mut hasher = FileHasher::new().and_blake3();
        io::copy(&mut file, &mut hasher).map_err(|error| io_error("reading", path, error))?;
        Ok(Some(hasher.finish().into()))
    }
}

/// Measures editions' files: the plain directory's here, others where their bytes are.
#[async_trait]
pub trait DataFiles: Send + Sync {
    /// Reads a file from end to end; none when it is not there.
    async fn measure(&self, file: &EditionFile<'_>) -> Result<Option<Measured>, StoreError>;
}

/// Files below a directory, under the names of the layout.
#[derive(Debug, Clone)]
pub struct DirectoryFiles {
    root: PathBuf,
}

impl DirectoryFiles {
    /// The files of the catalogue in this directory.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The catalogue's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

pub(crate) fn io_error(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io {
        action,
        path: path.display().to_string(),
        source,
    }
}

/// Runs file calls off the runtime.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.map_err(|error| io_error("reading", Path::new("a file"), io::Error::other(error)))?
}

/// Opens a regular file; none when there is none.
pub(crate) fn open_file(path: &Path) -> Result<Option<std::fs::File>, StoreError> {
    // Without NONBLOCK, opening a named pipe would wait for a writer that never comes.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(io_error("reading", path, error)),
    };
    let metadata = file.metadata().map_err(|error| io_error("reading", path, error))?;
    if !metadata.is_file() {
        let path = path.display().to_string();
        return Err(StoreError::NotAFile { path });
    }
    Ok(Some(file))
}

#[async_trait]
impl DataFiles for DirectoryFiles {
    async fn measure(&self, file: &EditionFile<'_>) -> Result<Option<Measured>, StoreError> {
        let path = self.root.join(file.path());
        blocking(move || Measured::of_file(&path)).await
    }
}

/// Files that lie in a store beside the Inventory, for stores that are no directory. Each is read whole, so the store's limit
/// for documents is the limit here.
#[derive(Debug, Clone, Copy)]
pub struct StoreFiles<'a> {
    store: &'a dyn InventoryStore,
}

impl<'a> StoreFiles<'a> {
    /// The files of the catalogue in this store.
    pub fn new(store: &'a dyn InventoryStore) -> Self {
        Self { store }
    }
}

#[async_trait]
impl DataFiles for StoreFiles<'_> {
    async fn measure(&self, file: &EditionFile<'_>) -> Result<Option<Measured>, StoreError> {
        let found = self.store.get(&StorePath::parse(&file.path())?).await?;
        Ok(found.map(|found| Measured::of(&found.bytes)))
    }
}
