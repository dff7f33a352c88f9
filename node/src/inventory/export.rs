//! Copies of a catalogue in a plain directory: all of it, or what the public may see.

use std::{
    collections::BTreeSet,
    io::{self, Read},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use sovm_inventory::{
    doc::{CatalogId, FileEntry, FileRoot, Sha256},
    export::{ExportError, FileTransfer, LiveExport, Transferred, export_full, export_live},
    fingerprint::{FileDigests, FileHasher},
    store::{Creation, StoreError},
    transition::EditionKey,
    verify::EditionFile,
};

use super::{Address, Author, Catalogue, catalogue::identity, change::DESCRIPTION, errors, files::Reading};
use crate::{
    api::InventoryExportReport,
    error::{ApiError, ErrorKind},
};

impl Catalogue {
    /// INV-132, INV-391: copies the catalogue unchanged. A copy that was interrupted is repeated.
    pub(crate) async fn export(&self, to: &Path) -> Result<InventoryExportReport, ApiError> {
        let target = self.target(to).await?;
        let files = CatalogueTransfer {
            from: self,
            to: &target,
        };
        let copied = export_full(&*self.store, &*target.store, &files).await;
        let copied = copied.map_err(|error| errors::unexported(&error, &self.shown, to))?;
        Ok(InventoryExportReport {
            store: self.shown.to_string(),
            to: target.shown.to_string(),
            live_only: false,
            versions: copied.roots,
            editions: copied.editions,
            files: copied.files,
            files_present: copied.files_present,
            files_gone: copied.files_gone,
        })
    }

    /// INV-213, INV-214: writes what the public may see, as a catalogue of its own.
    pub(crate) async fn export_live(&self, author: Author, to: &Path) -> Result<InventoryExportReport, ApiError> {
        let target = self.target(to).await?;
        let files = CatalogueTransfer {
            from: self,
            to: &target,
        };
        let export = LiveExport {
            catalog_id: CatalogId::generate(),
            identity: identity(author)?,
            // What `describe` writes is the catalogue's title page. Our own section names products nobody has released.
            sections: BTreeSet::from([DESCRIPTION.to_owned()]),
            authority: None,
            handed_to: None,
        };
        let copied = export_live(&*self.store, target.store.clone(), &files, &export).await;
        let copied = copied.map_err(|error| errors::unexported(&error, &self.shown, to))?;
        Ok(InventoryExportReport {
            store: self.shown.to_string(),
            to: target.shown.to_string(),
            live_only: true,
            versions: copied.versions,
            editions: copied.editions,
            files: copied.files,
            files_present: copied.files_present,
            files_gone: Vec::new(),
        })
    }

    async fn target(&self, to: &Path) -> Result<Self, ApiError> {
        let Some(named) = to.to_str() else {
            return Err(ApiError::new(
                ErrorKind::BadInput,
                format!("the name of {} is not UTF-8", to.display()),
            )
            .safe("nothing was copied")
            .next("name a directory whose name is UTF-8 with --to DIR"));
        };
        self.check_apart(to)?;
        Self::open_or_make(Address::Directory(named.to_owned()), self.progress.clone()).await
    }

    /// Refuses to copy into the catalogue's own directory: what lies there belongs to it, and would be collected or copied again.
    pub(super) fn check_apart(&self, to: &Path) -> Result<(), ApiError> {
        let Some(root) = self.data.directory() else {
            return Ok(());
        };
        let failed = |error: std::io::Error| {
            ApiError::io(format!("opening {}", to.display()), &error).safe("nothing was copied")
        };
        let root = root.canonicalize().map_err(failed)?;
        let whole = std::path::absolute(to).map_err(failed)?;
        // What is not there yet will lie in the nearest folder that is.
        let there = whole.ancestors().find_map(|folder| folder.canonicalize().ok());
        if there.is_some_and(|there| there.starts_with(&root)) {
            return Err(ApiError::new(
                ErrorKind::Refused,
                format!("a copy in {} would lie inside the catalogue", to.display()),
            )
            .safe("nothing was copied")
            .next("name a directory outside of it with --to DIR"));
        }
        Ok(())
    }
}

/// Copies files between two catalogues, each of which knows where its files lie.
struct CatalogueTransfer<'a> {
    from: &'a Catalogue,
    to: &'a Catalogue,
}

#[async_trait]
impl FileTransfer for CatalogueTransfer<'_> {
    async fn transfer(&self, file: &EditionFile<'_>) -> Result<Transferred, ExportError> {
        let EditionFile {
            product_id,
            edition_id,
            entry,
        } = *file;
        if let Some(there) = self.to.open_file(product_id, edition_id, entry).await? {
            let digests = blocking(file, move || FileDigests::of_reader(there.reader())).await?;
            return match differs(entry, &digests) {
                None => Ok(Transferred::Present),
                Some((recorded, found)) => Err(refused(file, recorded, found)),
            };
        }
        let Some(opened) = self.from.open_file(product_id, edition_id, entry).await? else {
            return Ok(Transferred::Missing);
        };
        let found = Arc::default();
        let content = Compared {
            file: opened.reader(),
            hasher: Some(FileHasher::new()),
            entry: entry.clone(),
            found: Arc::clone(&found),
        };
        match self.create(file, content).await {
            Ok(Creation::Created) => Ok(Transferred::Copied),
            // Another export is quicker with the same file; the next run compares it.
            Ok(Creation::Exists) => Ok(Transferred::Present),
            Err(error) => {
                let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
                Err(match found {
                    Some((recorded, found)) => refused(file, recorded, found),
                    None => error.into(),
                })
            }
        }
    }
}

impl CatalogueTransfer<'_> {
    async fn create(&self, file: &EditionFile<'_>, mut content: Compared) -> Result<Creation, StoreError> {
        match file.entry.root {
            FileRoot::Data => {
                let data = self.to.data.of(file.product_id).map_err(|error| StoreError::Other {
                    action: "creating",
                    path: file.path(),
                    source: Box::new(error),
                })?;
                data.create(&file.entry.path, Box::new(content)).await
            }
            FileRoot::Edition => {
                let mut bytes = Vec::new();
                content.read_to_end(&mut bytes).map_err(|source| StoreError::Io {
                    action: "reading",
                    path: file.path(),
                    source,
                })?;
                let path = sovm_inventory::store::StorePath::parse(&file.path())?;
                self.to.store.create(&path, bytes.into()).await
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    file: &EditionFile<'_>,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|source| StoreError::Io {
            action: "reading",
            path: file.path(),
            source,
        })
}

/// INV-417: what a file's size or SHA-256 should be and is.
fn differs(entry: &FileEntry, digests: &FileDigests) -> Option<(String, String)> {
    if digests.size_bytes != entry.size {
        return Some((format!("{} bytes", entry.size), format!("{} bytes", digests.size_bytes)));
    }
    let (recorded, found) = (entry.digests.sha256(), Sha256::from_bytes(digests.sha256));
    (recorded != found).then(|| (format!("SHA-256 {recorded}"), format!("SHA-256 {found}")))
}

fn refused(file: &EditionFile<'_>, recorded: String, found: String) -> ExportError {
    ExportError::File {
        edition: EditionKey::new(file.product_id.clone(), *file.edition_id),
        path: file.path(),
        recorded,
        found,
    }
}

/// A file that fails at its end when it is not what the manifest says, so that no store ever shows it.
struct Compared {
    file: Reading,
    /// Nothing once the end was judged.
    hasher: Option<FileHasher>,
    entry: FileEntry,
    found: Arc<Mutex<Option<(String, String)>>>,
}

impl Read for Compared {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        if length > 0 || buffer.is_empty() {
            if let Some(hasher) = &mut self.hasher {
                hasher.update(&buffer[..length]);
            }
            return Ok(length);
        }
        let digests = self.hasher.take().map(FileHasher::finish);
        match digests.and_then(|digests| differs(&self.entry, &digests)) {
            None => Ok(0),
            Some(found) => {
                *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                Err(io::Error::other("it is not the file its manifest lists"))
            }
        }
    }
}
