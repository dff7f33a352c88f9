//! Expunging: the bytes of one edition are deleted at once, whatever the windows say (INV-412).
//!
//! ```text
//! taken back? ─▶ what only it lists ─▶ record, durable ─▶ data files ─▶ its directory, manifest last ─▶ record, completed
//! ```
//!
//! The record is the audit entry. It lies in the catalogue, at [`layout::expunged`](crate::doc::layout::expunged), so that whoever
//! checks the catalogue later finds why the files are not there. A run that was interrupted anywhere is repeated: the record says
//! what was to go, and deleting what is gone already is no error.
//!
//! A data file that another edition lists stays. What another edition lists is read from its manifest; where that can't be read,
//! or an edition is being built, it is unknown, and nothing is deleted.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use async_trait::async_trait;
use thiserror::Error;

use crate::{
    doc::{
        CleanText, DocError, Document as _, EditionId, EntryStatus, Expunged, ExpungedFile, FilePath, FileRoot,
        Instant, JsonObject, Manifest, ProductId, Sha256, SharedFile, Stored, Unverified, layout,
    },
    gc::ProductFiles,
    reader::{FullInventory, ReadError, find_head},
    store::{BucketStore, Creation, InventoryStore, PathError, Replacement, Revision, StoreError, StorePath},
    transition::{EditionKey, Refusal, Version, VersionError, check_expunge},
    verify::{DirectoryFiles, blocking, io_error},
};

#[cfg(test)]
mod tests;

/// The bytes of editions, wherever they lie.
#[async_trait]
pub trait EditionBytes: Send + Sync {
    /// Every file in an edition's directory with its size, whatever its name.
    async fn files(&self, edition: &EditionKey) -> Result<Vec<(String, u64)>, StoreError>;

    /// Deletes a file of an edition's directory; that it is gone already is no error.
    async fn remove(&self, edition: &EditionKey, path: &str) -> Result<(), StoreError>;

    /// Deletes data files of a product; that one is gone already is no error.
    async fn remove_data(&self, product_id: &ProductId, files: &[FilePath]) -> Result<(), StoreError>;

    /// Makes what was deleted stay deleted over a power cut.
    async fn settle(&self, product_id: &ProductId) -> Result<(), StoreError>;
}

#[async_trait]
impl EditionBytes for DirectoryFiles {
    async fn files(&self, edition: &EditionKey) -> Result<Vec<(String, u64)>, StoreError> {
        files_of(self, edition).await
    }

    async fn remove(&self, _edition: &EditionKey, path: &str) -> Result<(), StoreError> {
        self.delete_file(path).await
    }

    async fn remove_data(&self, product_id: &ProductId, files: &[FilePath]) -> Result<(), StoreError> {
        remove_data_of(self, product_id, files).await
    }

    async fn settle(&self, product_id: &ProductId) -> Result<(), StoreError> {
        let product = self.root().join(layout::product(product_id));
        let data = self.root().join(layout::data(product_id));
        blocking(move || {
            sync_folder(&product)?;
            sync_below(&data)
        })
        .await
    }
}

/// A bucket that keeps versions keeps what is deleted here; its owner deletes those.
#[async_trait]
impl EditionBytes for BucketStore {
    async fn files(&self, edition: &EditionKey) -> Result<Vec<(String, u64)>, StoreError> {
        files_of(self, edition).await
    }

    async fn remove(&self, _edition: &EditionKey, path: &str) -> Result<(), StoreError> {
        self.delete_file(path).await
    }

    async fn remove_data(&self, product_id: &ProductId, files: &[FilePath]) -> Result<(), StoreError> {
        remove_data_of(self, product_id, files).await
    }

    /// What a bucket deleted stays deleted.
    async fn settle(&self, _product_id: &ProductId) -> Result<(), StoreError> {
        Ok(())
    }
}

async fn files_of(files: &dyn ProductFiles, edition: &EditionKey) -> Result<Vec<(String, u64)>, StoreError> {
    let folder = layout::edition(&edition.product_id, &edition.edition_id);
    let found = files.list_files(&folder).await?;
    Ok(found.into_iter().map(|file| (file.path, file.size)).collect())
}

async fn remove_data_of(
    files: &dyn ProductFiles,
    product_id: &ProductId,
    paths: &[FilePath],
) -> Result<(), StoreError> {
    for path in paths {
        files.delete_file(&data_path(product_id, path)).await?;
    }
    Ok(())
}

/// Makes a folder's names durable; one that is not there any more went with its last file.
fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    match fs::File::open(folder).and_then(|open| open.sync_all()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("syncing", folder, error)),
        _ => Ok(()),
    }
}

/// The same for a folder and those in it, at any depth.
fn sync_below(folder: &Path) -> Result<(), StoreError> {
    sync_folder(folder)?;
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| io_error("listing", folder, error))?,
    };
    for entry in entries {
        let entry = entry.map_err(|error| io_error("listing", folder, error))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            sync_below(&entry.path())?;
        }
    }
    Ok(())
}

/// What is decided, by whom, and why.
#[derive(Debug, Clone)]
pub struct Order {
    /// The edition.
    pub edition: EditionKey,
    /// Who.
    pub actor: CleanText,
    /// Why; not empty.
    pub reason: String,
    /// When.
    pub now: Instant,
}

/// What an expunge deletes, and what it leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// What the newest version says of the edition.
    pub status: Option<EntryStatus>,
    /// The manifest it was sealed with.
    pub manifest_sha256: Sha256,
    /// What goes.
    pub removed: Vec<ExpungedFile>,
    /// What stays, because other editions list it.
    pub stays: Vec<SharedFile>,
    /// The record of a run before this one.
    pub earlier: Option<Expunged>,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Done {
    /// What the newest version says of the edition.
    pub status: Option<EntryStatus>,
    /// The record, completed.
    pub record: Expunged,
    /// Whether a run before this one began it.
    pub resumed: bool,
}

/// Why nothing is deleted, or nothing more.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExpungeRefused {
    /// A rule of the lifecycle.
    #[error(transparent)]
    Rule(#[from] Refusal),
    /// An edition of the product is being built.
    #[error("INV-412: {edition} is being built, so which data files it will list is unknown")]
    Building {
        /// The edition.
        edition: EditionKey,
    },
    /// A manifest is not there.
    #[error("INV-412: there is no manifest of {edition}, so which data files it lists is unknown")]
    ManifestMissing {
        /// The edition.
        edition: EditionKey,
    },
    /// A manifest does not verify.
    #[error("INV-412: the manifest of {edition} does not verify, so which data files it lists is unknown: {source}")]
    ManifestInvalid {
        /// The edition.
        edition: EditionKey,
        /// Why.
        source: DocError,
    },
    /// Nothing is here of it.
    #[error("no file of {edition} is here, and no record says that it was expunged")]
    Gone {
        /// The edition.
        edition: EditionKey,
    },
    /// The record of a run before can't be read, or a new one can't be written.
    #[error("{path}: {source}")]
    Record {
        /// The record.
        path: String,
        /// Why.
        source: DocError,
    },
    /// Somebody else wrote the record.
    #[error("{path} was changed meanwhile")]
    RecordChanged {
        /// The record.
        path: String,
    },
    /// The newest version can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A name no store can have.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A root and its leaves contradict each other.
    #[error(transparent)]
    Version(#[from] VersionError),
}

/// INV-412: the record that an edition was expunged, or that it was begun; none for every other edition.
pub async fn record_of(store: &dyn InventoryStore, edition: &EditionKey) -> Result<Option<Expunged>, ExpungeRefused> {
    Ok(stored_record(store, edition).await?.map(|(record, _)| record))
}

async fn stored_record(
    store: &dyn InventoryStore,
    edition: &EditionKey,
) -> Result<Option<(Expunged, Revision)>, ExpungeRefused> {
    let path = layout::expunged(&edition.product_id, &edition.edition_id);
    let Some(found) = store.get(&StorePath::parse(&path)?).await? else {
        return Ok(None);
    };
    let read = Expunged::decode(&found.bytes).and_then(|record| {
        record.check_path(&edition.product_id, &edition.edition_id)?;
        Ok(record)
    });
    let record = read.map_err(|source| ExpungeRefused::Record { path, source })?;
    Ok(Some((record, found.revision)))
}

/// The dry run: what [`expunge`] would delete. Deletes nothing.
pub async fn plan(
    store: &dyn InventoryStore,
    bytes: &dyn EditionBytes,
    edition: &EditionKey,
) -> Result<Forecast, ExpungeRefused> {
    Ok(look(store, bytes, edition).await?.0)
}

/// Deletes the bytes of an edition that was taken back, under the catalogue's lock. `step` is told of each step that was durably
/// taken, so that a test can end the process between any two.
pub async fn expunge(
    store: &dyn InventoryStore,
    bytes: &dyn EditionBytes,
    order: &Order,
    step: &(dyn Fn(&'static str) + Send + Sync),
) -> Result<Done, ExpungeRefused> {
    let _lock = store.lock().await?;
    let edition = &order.edition;
    let (forecast, revision) = look(store, bytes, edition).await?;
    let resumed = forecast.earlier.is_some();
    let before = forecast.earlier.clone();
    let mut record = begun(forecast.earlier, order, forecast.manifest_sha256);
    let known: BTreeSet<String> = record.removed.iter().map(|file| file.path.clone()).collect();
    let new = forecast.removed.iter().filter(|file| !known.contains(&file.path));
    let new: Vec<ExpungedFile> = new.cloned().collect();
    if !new.is_empty() {
        // Files that came back since, out of a backup: the record is open again until they are gone.
        record.completed_at = None;
        record.removed.extend(new);
    }
    if !resumed {
        record.stays = forecast.stays;
    }
    let there = bytes.files(edition).await?;
    if !there.is_empty() {
        record.completed_at = None;
    }
    if before.as_ref() != Some(&record) {
        write(store, &record, revision.as_ref()).await?;
    }
    step("expunge.recorded");
    let folder = format!("{}/", layout::data(&edition.product_id));
    let data: Vec<FilePath> = forecast
        .removed
        .iter()
        .filter_map(|file| file.path.strip_prefix(&folder)?.parse().ok())
        .collect();
    bytes.remove_data(&edition.product_id, &data).await?;
    step("expunge.data");
    // Without its manifest the directory would be that of an edition being built, so the manifest goes last.
    let manifest = layout::manifest(&edition.product_id, &edition.edition_id);
    let (last, first): (Vec<_>, Vec<_>) = there.into_iter().partition(|(path, _)| *path == manifest);
    for (path, _) in first {
        bytes.remove(edition, &path).await?;
    }
    step("expunge.files");
    for (path, _) in last {
        bytes.remove(edition, &path).await?;
    }
    bytes.settle(&edition.product_id).await?;
    step("expunge.removed");
    if record.completed_at.is_none() {
        record.completed_at = Some(order.now);
        let revision = stored_record(store, edition).await?.map(|(_, revision)| revision);
        write(store, &record, revision.as_ref()).await?;
    }
    step("expunge.completed");
    Ok(Done {
        status: forecast.status,
        record,
        resumed,
    })
}

fn begun(earlier: Option<Expunged>, order: &Order, manifest_sha256: Sha256) -> Expunged {
    // Who decided first, and why, is what an audit asks for; a run that goes on with it decides nothing.
    earlier.unwrap_or_else(|| Expunged {
        product_id: order.edition.product_id.clone(),
        edition_id: order.edition.edition_id,
        manifest_sha256,
        begun_at: order.now,
        completed_at: None,
        actor: order.actor.clone(),
        reason: order.reason.clone(),
        removed: Vec::new(),
        stays: Vec::new(),
        extra: JsonObject::new(),
    })
}

async fn write(
    store: &dyn InventoryStore,
    record: &Expunged,
    revision: Option<&Revision>,
) -> Result<(), ExpungeRefused> {
    let path = layout::expunged(&record.product_id, &record.edition_id);
    let name = StorePath::parse(&path)?;
    let encoded = record.encode().map_err(|source| ExpungeRefused::Record {
        path: path.clone(),
        source,
    })?;
    let written = match revision {
        None => store.create(&name, encoded.into()).await? == Creation::Created,
        Some(revision) => store.replace(&name, revision, encoded.into()).await? == Replacement::Replaced,
    };
    if written {
        Ok(())
    } else {
        Err(ExpungeRefused::RecordChanged { path })
    }
}

/// What is there, and what of it goes; with the revision of the record of an earlier run.
async fn look(
    store: &dyn InventoryStore,
    bytes: &dyn EditionBytes,
    edition: &EditionKey,
) -> Result<(Forecast, Option<Revision>), ExpungeRefused> {
    let head = find_head(store, None).await?.certain()?;
    let version = FullInventory::load(store, head, None).await?.to_version()?;
    check_expunge(&version, edition)?;
    let others = listed_by_others(store, &version, edition).await?;
    let (earlier, revision) = stored_record(store, edition).await?.unzip();
    let manifest = manifest_of(store, &version, edition).await?;
    let there = bytes.files(edition).await?;
    let mut removed = Vec::new();
    let mut stays = Vec::new();
    let manifest_sha256 = match (&manifest, &earlier) {
        (Some(manifest), _) => {
            for file in manifest.files.iter().filter(|file| file.root == FileRoot::Data) {
                let (path, size) = (data_path(&edition.product_id, &file.path), file.size);
                match others.get(&file.path) {
                    Some(listed_by) => stays.push(SharedFile {
                        path,
                        size,
                        listed_by: listed_by.iter().copied().collect(),
                    }),
                    None => removed.push(ExpungedFile {
                        path,
                        size,
                        sha256: Some(file.digests.sha256()),
                        blake3: file.digests.get("blake3").map(str::to_owned),
                    }),
                }
            }
            manifest.sha256()
        }
        // The manifest went last, so what the record names is all there was.
        (None, Some(earlier)) => {
            let folder = format!("{}/", layout::data(&edition.product_id));
            let listed = |file: &&ExpungedFile| {
                let name = file.path.strip_prefix(&folder).and_then(|name| name.parse().ok());
                name.is_some_and(|name: FilePath| others.contains_key(&name))
            };
            removed.extend(earlier.removed.iter().filter(|file| !listed(file)).cloned());
            stays.extend(earlier.stays.iter().cloned());
            earlier.manifest_sha256
        }
        (None, None) if there.is_empty() => {
            let edition = edition.clone();
            return Err(ExpungeRefused::Gone { edition });
        }
        (None, None) => {
            let edition = edition.clone();
            return Err(ExpungeRefused::ManifestMissing { edition });
        }
    };
    for (path, size) in there {
        if removed.iter().all(|file| file.path != path) {
            let sha256 = manifest
                .as_ref()
                .and_then(|manifest| digest_of(edition, manifest, &path));
            removed.push(ExpungedFile {
                path,
                size,
                sha256,
                blake3: None,
            });
        }
    }
    let forecast = Forecast {
        status: version.status(edition),
        manifest_sha256,
        removed,
        stays,
        earlier,
    };
    Ok((forecast, revision))
}

fn data_path(product_id: &ProductId, file: &FilePath) -> String {
    format!("{}/{file}", layout::data(product_id))
}

/// The digest a file of the edition's directory was sealed with.
fn digest_of(edition: &EditionKey, manifest: &Stored<Manifest>, path: &str) -> Option<Sha256> {
    let (product, id) = (&edition.product_id, &edition.edition_id);
    if path == layout::manifest(product, id) {
        return Some(manifest.sha256());
    }
    let name = path.strip_prefix(&layout::edition(product, id))?.strip_prefix('/')?;
    let mut files = manifest.files.iter().filter(|file| file.root == FileRoot::Edition);
    files
        .find(|file| file.path.as_str() == name)
        .map(|file| file.digests.sha256())
}

/// A manifest, compared with the hash the newest version has for it; one that no version records is taken as it is found.
async fn manifest_of(
    store: &dyn InventoryStore,
    version: &Version,
    edition: &EditionKey,
) -> Result<Option<Stored<Manifest>>, ExpungeRefused> {
    let (product, id) = (&edition.product_id, &edition.edition_id);
    let Some(found) = store.get(&StorePath::parse(&layout::manifest(product, id))?).await? else {
        return Ok(None);
    };
    let read = match version.entry(edition) {
        Some(entry) => Stored::<Manifest>::verify(found.bytes, entry.manifest_sha256),
        None => Stored::<Manifest, Unverified>::decode(found.bytes).map(Stored::trusted),
    };
    let read = read.and_then(|manifest| {
        manifest.check_path(product, id)?;
        Ok(manifest)
    });
    read.map(Some).map_err(|source| ExpungeRefused::ManifestInvalid {
        edition: edition.clone(),
        source,
    })
}

/// Which data files the other editions of a product list: those in the newest version, those retired whose directory is still
/// there, since they can be reinstated, and those sealed and not recorded yet.
async fn listed_by_others(
    store: &dyn InventoryStore,
    version: &Version,
    edition: &EditionKey,
) -> Result<BTreeMap<FilePath, BTreeSet<EditionId>>, ExpungeRefused> {
    let product_id = &edition.product_id;
    let own = format!("{}/", layout::product(product_id));
    let mut others: BTreeMap<EditionId, bool> = BTreeMap::new();
    for path in store
        .list(Some(&StorePath::parse(&layout::product(product_id))?))
        .await?
    {
        let parts = path.as_str().strip_prefix(&own).and_then(|rest| rest.split_once('/'));
        // `data/`, `journal/` and `expunged/` are no ids.
        if let Some((folder, file)) = parts
            && let Ok(edition_id) = folder.parse()
        {
            *others.entry(edition_id).or_insert(false) |= file == layout::MANIFEST;
        }
    }
    let recorded = version
        .leaf(product_id)
        .map(|leaf| leaf.editions.as_slice())
        .unwrap_or_default();
    for entry in recorded {
        others.entry(entry.edition_id).or_insert(false);
    }
    others.remove(&edition.edition_id);
    let mut listed: BTreeMap<FilePath, BTreeSet<EditionId>> = BTreeMap::new();
    for (edition_id, sealed) in others {
        let other = EditionKey::new(product_id.clone(), edition_id);
        if sealed && let Some(manifest) = manifest_of(store, version, &other).await? {
            for file in manifest.files.iter().filter(|file| file.root == FileRoot::Data) {
                listed.entry(file.path.clone()).or_default().insert(edition_id);
            }
            continue;
        }
        match version.status(&other) {
            None => return Err(ExpungeRefused::Building { edition: other }),
            // GC is at it, and a tombstone without a manifest does not come back.
            Some(EntryStatus::Tombstone) => {}
            Some(EntryStatus::State(_)) => {
                if stored_record(store, &other).await?.is_none() {
                    return Err(ExpungeRefused::ManifestMissing { edition: other });
                }
            }
        }
    }
    Ok(listed)
}
