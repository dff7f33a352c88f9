//! What a repack's encrypted footer says of the objects its rows come from (SOP §12.3).
//!
//! Whoever holds a table's key could sign a second manifest for the bytes of a repack, with its leaves in another order or its
//! tombstones left out, and rows would count twice or come back. So the one who wrote the rows says it inside the object too.

use crate::{
    cbor::{Encoder, Field as _},
    id::StorageId,
    pme::Footer,
    record::{ObjectManifest, manifest::SourceLeaf},
};

/// Key of the footer's entry.
const KEY: &str = "sovm:sop-repack-v1";

/// The entry for [`EncodeOptions::key_values`](super::EncodeOptions::key_values) of a repack: BLAKE3 over the deterministic CBOR of
/// `[sources, tombstone_refs]`, in hex.
pub fn repack_key_value(sources: &[SourceLeaf], tombstone_refs: &[StorageId]) -> (String, String) {
    let mut e = Encoder::new();
    e.array(2).array(sources.len());
    sources.iter().for_each(|source| source.encode(&mut e));
    e.array(tombstone_refs.len());
    tombstone_refs.iter().for_each(|id| id.encode(&mut e));
    (KEY.to_owned(), blake3::hash(&e.into_vec()).to_hex().to_string())
}

/// A manifest says other sources than the object does.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("its manifest and the object itself disagree about the objects its rows come from")]
pub struct OtherSources;

impl Footer {
    /// Holds the sources a manifest names against those the object commits to; an object that is no repack commits to none.
    pub fn check_sources(&self, manifest: &ObjectManifest) -> Result<(), OtherSources> {
        let entries = self.metadata().file_metadata().key_value_metadata();
        let committed = entries.into_iter().flatten().filter(|entry| entry.key == KEY);
        let committed: Vec<_> = committed.map(|entry| entry.value.clone()).collect();
        let stated = match (&manifest.sources, &manifest.tombstone_refs) {
            (Some(sources), Some(refs)) => vec![Some(repack_key_value(sources, refs).1)],
            _ => Vec::new(),
        };
        if committed == stated { Ok(()) } else { Err(OtherSources) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};

    use super::*;
    use crate::{
        id::KeyRef,
        pme::{EncodeOptions, Encoded, RandomNonces},
        record::{ObjectKind, manifest::tests::manifest_of},
        secret::Dek,
        types::{Column, ColumnType, schema_of_columns},
        verified::MemoryObject,
    };

    fn footer(key_values: Vec<(String, String)>) -> Footer {
        let schema = Arc::new(schema_of_columns(&[Column::new(1, "n", ColumnType::Int64, true)]).unwrap());
        let rows: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_new(schema.clone(), vec![rows]).unwrap();
        let options = EncodeOptions {
            key_values,
            ..EncodeOptions::default()
        };
        let dek = Dek::from_bytes([7; 32]);
        let sealed = Encoded::new(schema, [&batch], options)
            .unwrap()
            .encrypt(&dek, &mut RandomNonces::default())
            .unwrap()
            .with_key_ref(KeyRef::from_bytes([1; 16]))
            .pad()
            .unwrap()
            .seal()
            .unwrap();
        let object = MemoryObject::verify(sealed.storage_id, sealed.bytes).unwrap();
        Footer::open_whole(&object, &dek).unwrap()
    }

    /// SOP-164: a second manifest with the sources in another order, with one or a tombstone object left out, or of an object that
    /// says nothing of sources, is refused; the one that agrees is not.
    #[test]
    fn sources_are_those_the_object_commits_to() {
        let leaf = |id: u8| SourceLeaf {
            storage_id: StorageId::from_bytes([id; 32]),
            kept: 2,
            dropped: 1,
            kept_digest: [id; 32],
        };
        let (sources, refs) = (vec![leaf(1), leaf(2)], vec![StorageId::from_bytes([9; 32])]);
        let repack = |sources: &[SourceLeaf], refs: &[StorageId]| ObjectManifest {
            sources: Some(sources.to_vec()),
            tombstone_refs: Some(refs.to_vec()),
            ..manifest_of(ObjectKind::Repack)
        };
        let footer_of_repack = footer(vec![repack_key_value(&sources, &refs)]);
        assert_eq!(footer_of_repack.check_sources(&repack(&sources, &refs)), Ok(()));

        let reordered = [leaf(2), leaf(1)];
        let recounted = [SourceLeaf { kept: 3, ..leaf(1) }, leaf(2)];
        for wrong in [&reordered[..], &sources[..1], &[], &recounted] {
            assert_eq!(footer_of_repack.check_sources(&repack(wrong, &refs)), Err(OtherSources));
        }
        assert_eq!(
            footer_of_repack.check_sources(&repack(&sources, &[])),
            Err(OtherSources)
        );
        let data = manifest_of(ObjectKind::Data);
        assert_eq!(footer_of_repack.check_sources(&data), Err(OtherSources));

        let silent = footer(Vec::new());
        assert_eq!(silent.check_sources(&repack(&sources, &refs)), Err(OtherSources));
        assert_eq!(silent.check_sources(&data), Ok(()));
        let twice = footer(vec![repack_key_value(&sources, &refs), repack_key_value(&sources, &[])]);
        assert_eq!(twice.check_sources(&repack(&sources, &refs)), Err(OtherSources));
    }
}
