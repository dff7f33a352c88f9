//! Editions' files, measured by reading them from where they lie.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use sovm_inventory::{
    doc::{EditionId, FileEntry, FilePath, FileRoot, Manifest, ProductId, Sha256, layout},
    edition::DataFile,
    fingerprint::{FileDigests, FileHasher},
    store::{StoreError, StorePath},
    transition::MeasuredFile,
    verify::{DataFiles, EditionFile, Measured},
};

use super::{Catalogue, errors};
use crate::{
    api::{Event, ProgressSink, Unit},
    error::ApiError,
};

const CHUNK_BYTES: usize = 256 << 10;

/// A file of an edition that is there.
pub(super) enum Opened {
    /// A data file, as it is stored.
    Data(Arc<dyn DataFile>),
    /// A document of the edition's directory.
    Edition(Bytes),
}

impl Opened {
    /// Reads it from front to back.
    pub(super) fn reader(self) -> Reading {
        Reading {
            opened: self,
            offset: 0,
        }
    }
}

/// A file read from front to back.
pub(super) struct Reading {
    opened: Opened,
    offset: u64,
}

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = match &self.opened {
            Opened::Data(file) => file.read_at(self.offset, buffer)?,
            Opened::Edition(bytes) => {
                let start = usize::try_from(self.offset).map_or(bytes.len(), |start| start.min(bytes.len()));
                (&bytes[start..]).read(buffer)?
            }
        };
        self.offset += length as u64;
        Ok(length)
    }
}

impl Catalogue {
    /// Opens a file a manifest lists; nothing when it isn't there.
    pub(super) async fn open_file(
        &self,
        product_id: &ProductId,
        edition_id: &EditionId,
        entry: &FileEntry,
    ) -> Result<Option<Opened>, StoreError> {
        // A `FilePath` never leaves its root.
        match entry.root {
            FileRoot::Data => {
                let data = self.data.of(product_id).map_err(|error| StoreError::Other {
                    action: "opening",
                    path: layout::data(product_id),
                    source: Box::new(error),
                })?;
                Ok(data.open(&entry.path).await?.map(Opened::Data))
            }
            FileRoot::Edition => {
                let folder = layout::edition(product_id, edition_id);
                let path = StorePath::parse(&format!("{folder}/{}", entry.path))?;
                let found = self.store.get(&path).await?;
                Ok(found.map(|found| Opened::Edition(found.bytes)))
            }
        }
    }

    /// Measures every file a manifest lists. A file that isn't there is left out; the comparison names it.
    pub(super) async fn measure(
        &self,
        manifest: &Manifest,
    ) -> Result<BTreeMap<(FileRoot, FilePath), MeasuredFile>, ApiError> {
        let files = MeasuredFiles::new(self, Some(manifest.files.iter().map(|file| file.size).sum()));
        let mut measured = BTreeMap::new();
        for file in &manifest.files {
            let found = files.digests(&manifest.product_id, &manifest.edition_id, file).await;
            let Some(digests) = found.map_err(|error| errors::storage(&error))? else {
                continue;
            };
            let found = MeasuredFile {
                size: digests.size_bytes,
                sha256: Sha256::from_bytes(digests.sha256),
            };
            measured.insert((file.root, file.path.clone()), found);
        }
        Ok(measured)
    }
}

/// Measures files of a catalogue and tells how far it is.
pub(super) struct MeasuredFiles<'a> {
    catalogue: &'a Catalogue,
    read: Arc<AtomicU64>,
    total: Option<u64>,
}

impl<'a> MeasuredFiles<'a> {
    /// Measures files that have so many bytes together, where that is known.
    pub(super) fn new(catalogue: &'a Catalogue, total: Option<u64>) -> Self {
        Self {
            catalogue,
            read: Arc::default(),
            total,
        }
    }

    async fn digests(
        &self,
        product_id: &ProductId,
        edition_id: &EditionId,
        entry: &FileEntry,
    ) -> Result<Option<FileDigests>, StoreError> {
        let Some(opened) = self.catalogue.open_file(product_id, edition_id, entry).await? else {
            return Ok(None);
        };
        let (read, total, progress) = (self.read.clone(), self.total, self.catalogue.progress.clone());
        let digested = tokio::task::spawn_blocking(move || digest(opened.reader(), &read, total, &*progress)).await;
        // A task that doesn't end normally was ended by the runtime's shutdown or by a panic inside a reader.
        let digests = digested.unwrap_or_else(|error| Err(io::Error::other(error)));
        digests.map(Some).map_err(|source| StoreError::Io {
            action: "reading",
            path: entry.path.to_string(),
            source,
        })
    }
}

#[async_trait]
impl DataFiles for MeasuredFiles<'_> {
    async fn measure(&self, file: &EditionFile<'_>) -> Result<Option<Measured>, StoreError> {
        let digests = self.digests(file.product_id, file.edition_id, file.entry).await?;
        Ok(digests.map(|digests| Measured {
            size: digests.size_bytes,
            digests: digests.to_entry(),
        }))
    }
}

/// Every digest a manifest records, in one reading.
fn digest(
    mut file: Reading,
    read: &AtomicU64,
    total: Option<u64>,
    progress: &dyn ProgressSink,
) -> io::Result<FileDigests> {
    let (mut hasher, mut blake3) = (FileHasher::new(), blake3::Hasher::new());
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish().with_blake3(*blake3.finalize().as_bytes())),
            Ok(length) => {
                hasher.update(&buffer[..length]);
                blake3.update(&buffer[..length]);
                progress.event(Event::Progress {
                    stage: "reading files".to_owned(),
                    unit: Unit::Bytes,
                    done: read.fetch_add(length as u64, Ordering::Relaxed) + length as u64,
                    total,
                });
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
