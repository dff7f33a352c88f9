//! The full copy, which is also the backup.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::{ExportError, FileTransfer, Transferred};
use crate::{
    doc::{Catalog, Document as _, FileRoot, Manifest, Seq, Sha256, Stored, Unverified, layout},
    reader::{FullInventory, ReadError, find_head},
    store::{Creation, InventoryStore, Replacement, StorePath},
    transition::EditionKey,
    verify::EditionFile,
};

/// What a full copy wrote and found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FullCopy {
    /// Files of editions copied.
    pub files: u64,
    /// Files of editions that were there already.
    pub files_present: u64,
    /// Files of retired editions that are gone, as GC may have deleted them.
    pub files_gone: Vec<String>,
    /// Manifests.
    pub editions: u64,
    /// Leaves.
    pub leaves: u64,
    /// Roots.
    pub roots: u64,
    /// History segments.
    pub segments: u64,
    /// INV-447: roots that expired while the copy was made; the copied segments hold their lines.
    pub expired_meanwhile: Vec<Seq>,
}

/// INV-132, INV-391, INV-394: copies a catalogue unchanged: data files, edition directories, leaves, roots, `HISTORY`,
/// segments, `catalog.json`, `CURRENT`; not `pending/`.
///
/// Writers may go on meanwhile: `CURRENT` and the list of roots are taken first, everything they name is listed later, so the
/// copy is of the moment it began. Repeating a copy adds what is new; what is there with other bytes is refused.
pub async fn export_full(
    from: &dyn InventoryStore,
    to: &dyn InventoryStore,
    files: &dyn FileTransfer,
) -> Result<FullCopy, ExportError> {
    let catalog = catalog(from).await?.ok_or(ReadError::NoCatalog)?;
    if let Some(there) = self::catalog(to).await?
        && there.catalog_id != catalog.catalog_id
    {
        let (found, expected) = (there.catalog_id, catalog.catalog_id);
        return Err(ExportError::OfAnotherCatalog { found, expected });
    }
    let current = read(from, layout::CURRENT).await?;
    let roots: Vec<Seq> = list(from, layout::INVENTORY)
        .await?
        .iter()
        .filter_map(|path| layout::root_seq(path.as_str()))
        .collect();
    let head = find_head(from, None).await?.head;
    let recorded = recorded(from, head).await?;
    let mut copy = FullCopy::default();
    editions(from, to, files, &recorded, &mut copy).await?;
    for path in list(from, layout::LEAVES).await? {
        let Some(expected) = layout::leaf_sha256(path.as_str()) else {
            continue;
        };
        let Some(bytes) = read(from, path.as_str()).await? else {
            continue;
        };
        // A backup that copies a damaged leaf over nothing looks complete and is not.
        let source = Stored::<crate::doc::Leaf>::verify(bytes.clone(), expected).err();
        if let Some(source) = source {
            let path = path.to_string();
            return Err(ExportError::Document { path, source });
        }
        immutable(to, &path, bytes).await?;
        copy.leaves += 1;
    }
    for seq in roots {
        let path = StorePath::parse(&layout::root(seq))?;
        match read(from, path.as_str()).await? {
            Some(bytes) => {
                immutable(to, &path, bytes).await?;
                copy.roots += 1;
            }
            None if catalog.is_opted_in() => copy.expired_meanwhile.push(seq),
            None => return Err(ExportError::RootGone { seq }),
        }
    }
    if let Some(bytes) = read(from, layout::HISTORY).await? {
        rewritten(to, layout::HISTORY, bytes).await?;
    }
    for path in list(from, layout::SEGMENTS).await? {
        if let Some(bytes) = read(from, path.as_str()).await? {
            immutable(to, &path, bytes).await?;
            copy.segments += 1;
        }
    }
    // Where catalog.json is missing nobody takes what lies there for a catalogue, so it comes when all else is there.
    if let Some(bytes) = read(from, layout::CATALOG).await? {
        rewritten(to, layout::CATALOG, bytes).await?;
    }
    if let Some(bytes) = current {
        rewritten(to, layout::CURRENT, bytes).await?;
    }
    Ok(copy)
}

async fn recorded(
    from: &dyn InventoryStore,
    head: crate::reader::Head,
) -> Result<BTreeSet<(EditionKey, Sha256)>, ExportError> {
    let inventory = FullInventory::load(from, head, None).await?;
    let entries = inventory.leaves().iter().flat_map(|(product_id, leaf)| {
        let key = |edition_id| EditionKey::new(product_id.clone(), edition_id);
        leaf.editions
            .iter()
            .map(move |entry| (key(entry.edition_id), entry.manifest_sha256))
    });
    Ok(entries.collect())
}

/// INV-417: for each edition its data files, its own files, and its manifest last. Data files of all editions come first.
async fn editions(
    from: &dyn InventoryStore,
    to: &dyn InventoryStore,
    files: &dyn FileTransfer,
    recorded: &BTreeSet<(EditionKey, Sha256)>,
    copy: &mut FullCopy,
) -> Result<(), ExportError> {
    let found: Vec<EditionKey> = list(from, layout::PRODUCTS)
        .await?
        .iter()
        .filter_map(|path| manifest_edition(path.as_str()))
        .collect();
    let there: BTreeSet<&EditionKey> = found.iter().collect();
    let records = expunge_records(from).await?;
    let lost = |edition: &EditionKey| !there.contains(edition) && !records.contains_key(edition);
    if let Some((edition, _)) = recorded.iter().find(|(edition, _)| lost(edition)) {
        return Err(ExportError::ManifestMissing {
            edition: edition.clone(),
        });
    }
    // A copy says why the files are not in it, too. What an earlier copy holds of the edition is for its owner to delete.
    for path in records.values() {
        if let Some(bytes) = read(from, path.as_str()).await? {
            rewritten(to, path.as_str(), bytes).await?;
        }
    }
    let mut done: BTreeSet<String> = BTreeSet::new();
    for root in [FileRoot::Data, FileRoot::Edition] {
        for edition in &found {
            let path = StorePath::parse(&layout::manifest(&edition.product_id, &edition.edition_id))?;
            let Some(bytes) = read(from, path.as_str()).await? else {
                continue;
            };
            let named = recorded
                .iter()
                .find(|(key, _)| key == edition)
                .map(|(_, sha256)| *sha256);
            let manifest = match named {
                Some(expected) => Stored::<Manifest>::verify(bytes, expected),
                // An edition that is retired or not recorded yet: nothing names its hash.
                None => Stored::<Manifest, Unverified>::decode(bytes).map(Stored::trusted),
            };
            let manifest = manifest.map_err(|source| ExportError::Document {
                path: path.to_string(),
                source,
            })?;
            for entry in manifest.files.iter().filter(|file| file.root == root) {
                let file = EditionFile {
                    product_id: &edition.product_id,
                    edition_id: &edition.edition_id,
                    entry,
                };
                if !done.insert(file.path()) {
                    continue;
                }
                match files.transfer(&file).await? {
                    Transferred::Copied => copy.files += 1,
                    Transferred::Present => copy.files_present += 1,
                    Transferred::Missing if named.is_none() => copy.files_gone.push(file.path()),
                    Transferred::Missing => {
                        let (edition, path) = (edition.clone(), file.path());
                        return Err(ExportError::FileMissing { edition, path });
                    }
                }
            }
            if root == FileRoot::Edition {
                let signature = layout::edition(&edition.product_id, &edition.edition_id);
                let signature = StorePath::parse(&format!("{signature}/{}", layout::MANIFEST_SIGNATURE))?;
                if let Some(bytes) = read(from, signature.as_str()).await? {
                    immutable(to, &signature, bytes).await?;
                }
                immutable(to, &path, manifest.bytes().clone()).await?;
                copy.editions += 1;
            }
        }
    }
    Ok(())
}

/// INV-412: where the records of expunged editions lie.
async fn expunge_records(from: &dyn InventoryStore) -> Result<BTreeMap<EditionKey, StorePath>, ExportError> {
    let paths = list(from, layout::PRODUCTS).await?.into_iter();
    let record = |path: StorePath| {
        let (product_id, edition_id) = layout::expunged_ids(path.as_str())?;
        Some((EditionKey::new(product_id, edition_id), path))
    };
    Ok(paths.filter_map(record).collect())
}

/// The edition of the manifest a path names; `None` for every other path.
pub(crate) fn manifest_edition(path: &str) -> Option<EditionKey> {
    let mut parts = path.strip_prefix(layout::PRODUCTS)?.strip_prefix('/')?.splitn(3, '/');
    let edition = EditionKey::new(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    (parts.next() == Some(layout::MANIFEST)).then_some(edition)
}

pub(super) async fn read(store: &dyn InventoryStore, path: &str) -> Result<Option<Bytes>, ExportError> {
    Ok(store.get(&StorePath::parse(path)?).await?.map(|found| found.bytes))
}

async fn list(store: &dyn InventoryStore, folder: &str) -> Result<Vec<StorePath>, ExportError> {
    Ok(store.list(Some(&StorePath::parse(folder)?)).await?)
}

pub(super) async fn catalog(store: &dyn InventoryStore) -> Result<Option<Catalog>, ExportError> {
    let Some(bytes) = read(store, layout::CATALOG).await? else {
        return Ok(None);
    };
    let decoded = Catalog::decode(&bytes).map_err(|source| ExportError::Document {
        path: layout::CATALOG.to_owned(),
        source,
    });
    decoded.map(Some)
}

/// Writes what is never rewritten: it is there with the same bytes, or it is refused.
pub(super) async fn immutable(to: &dyn InventoryStore, path: &StorePath, bytes: Bytes) -> Result<(), ExportError> {
    if to.create(path, bytes.clone()).await? == Creation::Created {
        return Ok(());
    }
    match to.get(path).await? {
        Some(held) if held.bytes == bytes => Ok(()),
        _ => Err(ExportError::Differs { path: path.to_string() }),
    }
}

/// Writes one of the documents that are rewritten.
async fn rewritten(to: &dyn InventoryStore, name: &str, bytes: Bytes) -> Result<(), ExportError> {
    let path = StorePath::parse(name)?;
    if to.create(&path, bytes.clone()).await? == Creation::Created {
        return Ok(());
    }
    let differs = || ExportError::Differs { path: name.to_owned() };
    let held = to.get(&path).await?.ok_or_else(differs)?;
    if held.bytes == bytes || to.replace(&path, &held.revision, bytes).await? == Replacement::Replaced {
        return Ok(());
    }
    Err(differs())
}
