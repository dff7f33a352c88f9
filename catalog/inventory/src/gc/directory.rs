//! The files of a plain directory.

use std::{fs, io, path::Path};

use async_trait::async_trait;

use super::{ProductFiles, StoredFile};
use crate::{
    doc::Instant,
    store::StoreError,
    verify::{DirectoryFiles, blocking, io_error},
};

#[async_trait]
impl ProductFiles for DirectoryFiles {
    async fn list_files(&self, folder: &str) -> Result<Vec<StoredFile>, StoreError> {
        let (root, folder) = (self.root().to_owned(), folder.to_owned());
        blocking(move || files_under(&root, folder)).await
    }

    async fn delete_file(&self, path: &str) -> Result<(), StoreError> {
        let target = self.root().join(path);
        blocking(move || match fs::remove_file(&target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("deleting", &target, error)),
            _ => {
                // The folder of the last file goes with it; one that is not empty stays, and so does `products/` itself.
                if let Some(folder) = target.parent() {
                    let _ = fs::remove_dir(folder);
                }
                Ok(())
            }
        })
        .await
    }
}

/// Links are not followed: what they lead to is not the catalogue's to delete.
fn files_under(root: &Path, folder: String) -> Result<Vec<StoredFile>, StoreError> {
    let mut files = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        let directory = root.join(&folder);
        let listing = |error| io_error("listing", &directory, error);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(listing(error)),
        };
        for entry in entries {
            let entry = entry.map_err(listing)?;
            // A name that is no text is in no manifest, and in no deletion either.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = format!("{folder}/{name}");
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(listing(error)),
            };
            if metadata.is_dir() {
                folders.push(path);
            } else if metadata.is_file() {
                let modified = metadata.modified().map_err(listing)?;
                files.push(StoredFile {
                    path,
                    size: metadata.len(),
                    modified: Instant::from_datetime(modified.into()),
                });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}
