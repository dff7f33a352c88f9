//! Copying editions' files.

use std::{
    fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use async_trait::async_trait;

use super::ExportError;
use crate::{
    fingerprint::FileHasher,
    store::{Creation, InventoryStore, StoreError, StorePath},
    transition::EditionKey,
    verify::{EditionFile, Measured, blocking, io_error, open_file},
};

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transferred {
    /// It was copied.
    Copied,
    /// It was there already, as the manifest says.
    Present,
    /// It is not there to be copied.
    Missing,
}

/// Copies one file of an edition and compares it with its manifest on the way: what does not agree is never visible in the copy.
#[async_trait]
pub trait FileTransfer: Send + Sync {
    /// Copies a file to the same name.
    async fn transfer(&self, file: &EditionFile<'_>) -> Result<Transferred, ExportError>;
}

/// INV-417: refuses bytes that are not what the manifest says, by size and by SHA-256.
fn compare(file: &EditionFile<'_>, measured: &Measured) -> Result<(), ExportError> {
    let refuse = |recorded, found| {
        Err(ExportError::File {
            edition: EditionKey::new(file.product_id.clone(), *file.edition_id),
            path: file.path(),
            recorded,
            found,
        })
    };
    if measured.size != file.entry.size {
        return refuse(format!("{} bytes", file.entry.size), format!("{} bytes", measured.size));
    }
    let recorded = file.entry.digests.sha256().to_string();
    match measured.digests.get("sha256") {
        Some(found) if *found == recorded => Ok(()),
        found => refuse(
            format!("SHA-256 {recorded}"),
            format!("SHA-256 {}", found.map_or("unknown", String::as_str)),
        ),
    }
}

/// From directory to directory.
#[derive(Debug, Clone)]
pub struct DirectoryTransfer {
    from: PathBuf,
    to: PathBuf,
}

impl DirectoryTransfer {
    /// Copies between the catalogues in two directories.
    pub fn new(from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
        }
    }
}

#[async_trait]
impl FileTransfer for DirectoryTransfer {
    async fn transfer(&self, file: &EditionFile<'_>) -> Result<Transferred, ExportError> {
        let (from, to) = (self.from.join(file.path()), self.to.join(file.path()));
        let present = {
            let to = to.clone();
            blocking(move || Measured::of_file(&to)).await?
        };
        if let Some(present) = present {
            return compare(file, &present).map(|()| Transferred::Present);
        }
        let staged = blocking(move || stage(&from, &to)).await?;
        let Some((measured, staged)) = staged else {
            return Ok(Transferred::Missing);
        };
        compare(file, &measured)?;
        blocking(move || staged.publish()).await?;
        Ok(Transferred::Copied)
    }
}

/// A complete copy under a hidden name; deleted unless it is published.
struct Staged {
    hidden: PathBuf,
    target: PathBuf,
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Gone after publishing; else what is left of a refused copy, which nothing refers to.
        let _ = fs::remove_file(&self.hidden);
    }
}

impl Staged {
    fn publish(self) -> Result<(), StoreError> {
        fs::rename(&self.hidden, &self.target).map_err(|error| io_error("publishing", &self.target, error))?;
        sync_folder_of(&self.target)
    }
}

fn sync_folder_of(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().unwrap_or(path);
    fs::File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| io_error("syncing", folder, error))
}

/// Copies a file beside its target and makes it durable.
fn stage(from: &Path, target: &Path) -> Result<Option<(Measured, Staged)>, StoreError> {
    let Some(mut source) = open_file(from)? else {
        return Ok(None);
    };
    let folder = target.parent().unwrap_or(target);
    fs::create_dir_all(folder).map_err(|error| io_error("making the folder", folder, error))?;
    let staged = Staged {
        hidden: folder.join(format!(".copy-{}", crate::doc::fresh_uuid())),
        target: target.to_owned(),
    };
    let mut copy = fs::File::create_new(&staged.hidden).map_err(|error| io_error("creating", &staged.hidden, error))?;
    let mut digester = FileHasher::new().and_blake3();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = source
            .read(&mut buffer)
            .map_err(|error| io_error("reading", from, error))?;
        if read == 0 {
            break;
        }
        digester.update(&buffer[..read]);
        copy.write_all(&buffer[..read])
            .map_err(|error| io_error("writing", &staged.hidden, error))?;
    }
    copy.sync_all()
        .map_err(|error| io_error("syncing", &staged.hidden, error))?;
    Ok(Some((digester.finish().into(), staged)))
}

/// Between stores that hold the files beside the Inventory. Each file is read whole.
#[derive(Debug, Clone, Copy)]
pub struct StoreTransfer<'a> {
    from: &'a dyn InventoryStore,
    to: &'a dyn InventoryStore,
}

impl<'a> StoreTransfer<'a> {
    /// Copies between two stores.
    pub fn new(from: &'a dyn InventoryStore, to: &'a dyn InventoryStore) -> Self {
        Self { from, to }
    }
}

#[async_trait]
impl FileTransfer for StoreTransfer<'_> {
    async fn transfer(&self, file: &EditionFile<'_>) -> Result<Transferred, ExportError> {
        let path = StorePath::parse(&file.path())?;
        let Some(found) = self.from.get(&path).await? else {
            return Ok(Transferred::Missing);
        };
        compare(file, &Measured::of(&found.bytes))?;
        match self.to.create(&path, found.bytes).await? {
            Creation::Created => Ok(Transferred::Copied),
            Creation::Exists => {
                let held = self.to.get(&path).await?.map(|held| held.bytes).unwrap_or_default();
                compare(file, &Measured::of(&held)).map(|()| Transferred::Present)
            }
        }
    }
}
