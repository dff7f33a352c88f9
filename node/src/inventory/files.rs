//! An edition's files, measured by reading them from where they lie.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    sync::Arc,
};

use bytes::Bytes;
use sovm_inventory::{
    doc::{FilePath, FileRoot, Manifest, Sha256, layout},
    edition::DataFile,
    fingerprint::FileDigests,
    transition::MeasuredFile,
};

use super::{Catalogue, errors};
use crate::{
    api::{Event, ProgressSink, Unit},
    error::ApiError,
};

/// A file that is there.
enum Opened {
    /// A data file, as it is stored.
    Data(Arc<dyn DataFile>),
    /// A document of the edition's directory.
    Edition(Bytes),
}

impl Catalogue {
    /// Measures every file a manifest lists. A file that isn't there is left out; the comparison names it.
    pub(super) async fn measure(
        &self,
        manifest: &Manifest,
    ) -> Result<BTreeMap<(FileRoot, FilePath), MeasuredFile>, ApiError> {
        let total = manifest.files.iter().map(|file| file.size).sum();
        let data = self.data.of(&manifest.product_id)?;
        let folder = layout::edition(&manifest.product_id, &manifest.edition_id);
        let (mut measured, mut read) = (BTreeMap::new(), 0);
        for file in &manifest.files {
            // A `FilePath` never leaves its root.
            let opened = match file.root {
                FileRoot::Data => {
                    let found = data.open(&file.path).await.map_err(|error| errors::storage(&error))?;
                    found.map(Opened::Data)
                }
                FileRoot::Edition => self
                    .fetch(&format!("{folder}/{}", file.path))
                    .await?
                    .map(Opened::Edition),
            };
            let Some(opened) = opened else { continue };
            let counted = Counted {
                opened,
                offset: 0,
                before: read,
                total,
                progress: self.progress.clone(),
            };
            let digests = tokio::task::spawn_blocking(move || FileDigests::of_reader(counted))
                .await
                .map_err(ApiError::bug)?
                .map_err(|error| ApiError::io(format!("reading {}", file.path), &error))?;
            read += digests.size_bytes;
            let found = MeasuredFile {
                size: digests.size_bytes,
                sha256: Sha256::from_bytes(digests.sha256),
            };
            measured.insert((file.root, file.path.clone()), found);
        }
        Ok(measured)
    }
}

/// Reads a file from front to back and says how far it is.
struct Counted {
    opened: Opened,
    offset: u64,
    /// What was read of other files.
    before: u64,
    total: u64,
    progress: Arc<dyn ProgressSink>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = match &self.opened {
            Opened::Data(file) => file.read_at(self.offset, buffer)?,
            Opened::Edition(bytes) => {
                let start = usize::try_from(self.offset).map_or(bytes.len(), |start| start.min(bytes.len()));
                (&bytes[start..]).read(buffer)?
            }
        };
        self.offset += length as u64;
        self.progress.event(Event::Progress {
            stage: "reading files".to_owned(),
            unit: Unit::Bytes,
            done: self.before + self.offset,
            total: Some(self.total),
        });
        Ok(length)
    }
}
