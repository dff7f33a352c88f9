//! INV-417: copying a sealed edition from one place to another, its manifest last.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    EditionError, ProductEditions,
    carry::{digest_bytes, recorded},
    data::{DataFile, DataReader, blocking, digest_data},
};
use crate::{
    doc::{EditionId, FileEntry, FilePath, FileRoot, Manifest, Sha256, Stored, Tier},
    fingerprint::FileDigests,
    store::Creation,
};

/// What a copy did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Files written.
    pub copied: usize,
    /// Files that were there already, with the listed bytes.
    pub present: usize,
    /// Bytes written.
    pub bytes: u64,
}

/// The files an edition needs for some tiers: what a parallel copier is handed, the manifest in a second step.
pub fn files_of<'a>(manifest: &'a Manifest, tiers: &'a BTreeSet<Tier>) -> impl Iterator<Item = &'a FileEntry> {
    manifest.files.iter().filter(|file| tiers.contains(&file.tier))
}

/// Copies the listed files of some tiers, verifies each, and writes the manifest last: until then the target has no sealed
/// edition. A copy that was interrupted is repeated; what is there already is verified like the rest.
///
/// The manifest is verified by its hash, which comes from an Inventory or from whoever hands the edition over (INV-6).
pub async fn copy(
    from: &ProductEditions,
    to: &ProductEditions,
    edition: &EditionId,
    manifest_sha256: Sha256,
    tiers: &BTreeSet<Tier>,
) -> Result<CopyReport, EditionError> {
    let found = from.read_manifest(edition).await?;
    let manifest = Stored::<Manifest>::verify(found.bytes().clone(), manifest_sha256)?;
    to.matches(&manifest)?;
    let mut report = CopyReport::default();
    for entry in files_of(&manifest, tiers) {
        let created = match entry.root {
            FileRoot::Data => copy_data(from, to, entry).await?,
            FileRoot::Edition => copy_file(from, to, edition, entry).await?,
        };
        match created {
            Creation::Created => {
                report.copied += 1;
                report.bytes += entry.size;
            }
            Creation::Exists => report.present += 1,
        }
    }
    let _ = write_once(to, &to.manifest_path(edition)?, manifest.bytes().clone()).await?;
    Ok(report)
}

impl ProductEditions {
    fn matches(&self, manifest: &Manifest) -> Result<(), EditionError> {
        Ok(manifest.check_path(&self.product_id, &manifest.edition_id)?)
    }
}

async fn copy_file(
    from: &ProductEditions,
    to: &ProductEditions,
    edition: &EditionId,
    entry: &FileEntry,
) -> Result<Creation, EditionError> {
    let Some(found) = from.store.get(&from.file(edition, &entry.path)?).await? else {
        return Err(differs(entry, "missing".to_owned()));
    };
    compare(entry, &digest_bytes(&found.bytes))?;
    write_once(to, &to.file(edition, &entry.path)?, found.bytes).await
}

async fn copy_data(from: &ProductEditions, to: &ProductEditions, entry: &FileEntry) -> Result<Creation, EditionError> {
    if let Some(there) = to.data.open(&entry.path).await? {
        verify_data(entry, there).await?;
        return Ok(Creation::Exists);
    }
    let Some(file) = from.data.open(&entry.path).await? else {
        return Err(differs(entry, "missing".to_owned()));
    };
    // Verified before it has a name in the target, where a wrong file could never be replaced.
    verify_data(entry, file.clone()).await?;
    let creation = to.data.create(&entry.path, Box::new(DataReader::new(file))).await?;
    match to.data.open(&entry.path).await? {
        Some(there) => verify_data(entry, there).await?,
        None => return Err(differs(entry, "missing after it was written".to_owned())),
    }
    Ok(creation)
}

async fn verify_data(entry: &FileEntry, file: Arc<dyn DataFile>) -> Result<(), EditionError> {
    let measured = blocking("digesting", entry.path.to_string(), move || digest_data(&*file)).await?;
    compare(entry, &measured)
}

fn compare(entry: &FileEntry, measured: &FileDigests) -> Result<(), EditionError> {
    if measured.size_bytes != entry.size {
        return Err(differs(entry, format!("{} bytes", measured.size_bytes)));
    }
    match measured.check_entry(&recorded(&entry.digests)) {
        Ok(_) => Ok(()),
        // An entry of the edition's directory records no blake3, which is computed for data only.
        Err(mismatch) => Err(differs(entry, mismatch.to_string())),
    }
}

fn differs(entry: &FileEntry, found: String) -> EditionError {
    EditionError::CopyDiffers {
        path: format!("{}/{}", entry.root, entry.path),
        found,
        expected: format!("{} bytes, sha256 {}", entry.size, entry.digests.sha256()),
    }
}

/// Creates a file, or finds it with the same bytes; other bytes are refused.
pub(super) async fn write_once(
    place: &ProductEditions,
    path: &crate::store::StorePath,
    bytes: bytes::Bytes,
) -> Result<Creation, EditionError> {
    let expected = Sha256::of(&bytes);
    let creation = place.store.create(path, bytes).await?;
    if creation == Creation::Exists {
        let found = place.store.get(path).await?;
        let found = found.map_or_else(|| Sha256::of(b""), |found| Sha256::of(&found.bytes));
        if found != expected {
            let path = path.to_string();
            return Err(EditionError::OtherBytes { path, found, expected });
        }
    }
    Ok(creation)
}

/// A path of the edition's directory.
pub(super) fn file_path(text: &str) -> Result<FilePath, EditionError> {
    Ok(text.parse()?)
}
