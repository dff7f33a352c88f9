//! An edition's files in a plain directory, measured by reading them.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::PathBuf,
};

use sovm_inventory::{
    doc::{FileEntry, FilePath, FileRoot, Manifest, Sha256, layout},
    fingerprint::FileDigests,
    transition::MeasuredFile,
};

use super::Catalogue;
use crate::{
    api::{Event, ProgressSink, Unit},
    error::ApiError,
};

impl Catalogue {
    /// Measures every file a manifest lists. A file that isn't there is left out; the comparison names it.
    pub(super) async fn measure(
        &self,
        manifest: &Manifest,
    ) -> Result<BTreeMap<(FileRoot, FilePath), MeasuredFile>, ApiError> {
        let total = manifest.files.iter().map(|file| file.size).sum();
        let wanted: Vec<(FileRoot, FilePath, PathBuf)> = manifest
            .files
            .iter()
            .map(|file| (file.root, file.path.clone(), self.place(manifest, file)))
            .collect();
        let progress = self.progress.clone();
        tokio::task::spawn_blocking(move || {
            let mut read = 0;
            let mut measured = BTreeMap::new();
            for (root, path, place) in wanted {
                let file = match File::open(&place) {
                    Ok(file) if file.metadata().is_ok_and(|found| found.is_file()) => file,
                    Ok(_) => continue,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(ApiError::io(format!("reading {}", place.display()), &error)),
                };
                let counted = Counted {
                    file,
                    read: &mut read,
                    total,
                    progress: &*progress,
                };
                let digests = FileDigests::of_reader(counted)
                    .map_err(|error| ApiError::io(format!("reading {}", place.display()), &error))?;
                let found = MeasuredFile {
                    size: digests.size_bytes,
                    sha256: Sha256::from_bytes(digests.sha256),
                };
                measured.insert((root, path), found);
            }
            Ok(measured)
        })
        .await
        .map_err(ApiError::bug)?
    }

    fn place(&self, manifest: &Manifest, file: &FileEntry) -> PathBuf {
        let folder = match file.root {
            FileRoot::Data => layout::data(&manifest.product_id),
            FileRoot::Edition => layout::edition(&manifest.product_id, &manifest.edition_id),
        };
        // A `FilePath` never leaves its root.
        self.store.root().join(folder).join(file.path.as_str())
    }
}

struct Counted<'a> {
    file: File,
    read: &'a mut u64,
    total: u64,
    progress: &'a dyn ProgressSink,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        *self.read += length as u64;
        self.progress.event(Event::Progress {
            stage: "reading files".to_owned(),
            unit: Unit::Bytes,
            done: *self.read,
            total: Some(self.total),
        });
        Ok(length)
    }
}
