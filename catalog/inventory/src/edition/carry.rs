//! File entries: measured by reading, or carried forward from the previous manifest.

use std::collections::BTreeMap;

use super::{
    EditionError, ProductEditions,
    data::{blocking, digest_data},
    table_list::ListedData,
};
use crate::{
    doc::{Digests, FileEntry, FilePath, FileRoot, JsonObject, Manifest, Sha256, Tier, Urn},
    fingerprint::{FileDigests, FileHasher},
};

/// Digests a manifest of this project can record, by name.
const KNOWN: [&str; 4] = ["sha256", "md5", "crc32c", "blake3"];

/// The digests an entry records, as far as they can be computed here.
pub(super) fn recorded(digests: &Digests) -> BTreeMap<String, String> {
    let mut map: BTreeMap<String, String> = KNOWN
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), digests.get(name)?.to_owned())))
        .collect();
    map.insert("sha256".to_owned(), digests.sha256().to_string());
    map
}

fn to_digests(measured: &FileDigests) -> Result<Digests, EditionError> {
    let digests = Digests::new(Sha256::from_bytes(measured.sha256))
        .with("md5", &measured.md5)?
        .with("crc32c", &measured.crc32c.to_be_bytes())?;
    match &measured.blake3 {
        Some(blake3) => Ok(digests.with("blake3", blake3)?),
        None => Ok(digests),
    }
}

/// The digests of bytes that are at hand.
pub(super) fn digest_bytes(bytes: &[u8]) -> FileDigests {
    let mut hasher = FileHasher::new();
    hasher.update(bytes);
    hasher.finish()
}

/// The entry of a file in the edition's directory.
pub(super) fn edition_entry(path: FilePath, tier: Tier, bytes: &[u8]) -> Result<FileEntry, EditionError> {
    Ok(FileEntry {
        path,
        size: bytes.len() as u64,
        root: FileRoot::Edition,
        tier,
        digests: to_digests(&digest_bytes(bytes))?,
        carried_from: None,
        extra: JsonObject::new(),
    })
}

/// The entry of a data file. INV-100: what the previous manifest lists is carried forward, once INV-101's comparison holds: the
/// size, and a digest the store keeps; a store that keeps none has the file read.
pub(super) async fn data_entry(
    place: &ProductEditions,
    dataflow: &Urn,
    listed: &ListedData,
    previous: Option<&Manifest>,
) -> Result<FileEntry, EditionError> {
    let path = listed.path.clone();
    let Some(file) = place.data.open(&path).await? else {
        let dataflow = dataflow.clone();
        return Err(EditionError::NoData { path, dataflow });
    };
    let size = |expected: u64, listed: &str| {
        if file.size() == expected {
            return Ok(());
        }
        Err(EditionError::DataSize {
            path: path.clone(),
            found: file.size(),
            expected,
            listed: listed.to_owned(),
        })
    };
    size(listed.size, "tables.json")?;
    let carried = previous.and_then(|manifest| {
        let mut files = manifest.files.iter();
        let entry = files.find(|entry| entry.root == FileRoot::Data && entry.path == path)?;
        Some((manifest.edition_id, entry))
    });
    let kept: BTreeMap<String, String> = file
        .kept_digests()
        .into_iter()
        .map(|(name, hex)| (name.to_string(), hex))
        .collect();
    if let Some((carried_from, entry)) = carried {
        size(entry.size, &format!("the manifest of edition {carried_from}"))?;
        let recorded = recorded(&entry.digests);
        let mut found = kept.clone();
        let mut digests = entry.digests.clone();
        // INV-102: another writer's manifest may record no BLAKE3, and then there is nothing to carry it from.
        let lacks_blake3 = digests.blake3().is_none();
        if lacks_blake3 || !recorded.keys().any(|name| kept.contains_key(name)) {
            let file = file.clone();
            let measured = blocking("digesting", path.to_string(), move || digest_data(&*file)).await?;
            found = measured.to_entry();
            if let Some(blake3) = measured.blake3.filter(|_| lacks_blake3) {
                digests = digests.with("blake3", &blake3)?;
            }
        }
        for (algorithm, recorded) in recorded {
            if let Some(found) = found.get(&algorithm).filter(|found| **found != recorded) {
                return Err(EditionError::CarriedDigest {
                    path,
                    algorithm,
                    found: found.clone(),
                    recorded,
                    carried_from,
                });
            }
        }
        return Ok(FileEntry {
            tier: listed.tier,
            carried_from: Some(carried_from),
            digests,
            ..entry.clone()
        });
    }
    let reader = file.clone();
    let measured = blocking("digesting", path.to_string(), move || digest_data(&*reader)).await?;
    size(measured.size_bytes, "what was read")?;
    Ok(FileEntry {
        path,
        size: measured.size_bytes,
        root: FileRoot::Data,
        tier: listed.tier,
        digests: to_digests(&measured)?,
        carried_from: None,
        extra: JsonObject::new(),
    })
}
