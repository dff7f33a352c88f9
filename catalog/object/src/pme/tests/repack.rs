//! What a repack says of its sources (SOP §12.3).

use super::{
    forge::{entry, key_values, with_footer},
    *,
};
use crate::{
    pme::{OtherSources, SourcesCommitment, repack::SOURCES_KEY},
    record::{
        ObjectKind, ObjectManifest,
        manifest::{SourceLeaf, tests::manifest_of},
    },
    thrift::Struct,
};

fn options(sources: Option<SourcesCommitment>) -> EncodeOptions {
    EncodeOptions {
        sources,
        ..EncodeOptions::default()
    }
}

/// SOP-164: a second manifest with the sources in another order, with one or a tombstone object left out, or of an object that
/// says nothing of sources, is refused; the one that agrees is not. A reader has nothing to copy into the next object.
#[test]
fn sources_are_those_the_object_commits_to() {
    let leaf = |id: u8| SourceLeaf {
        storage_id: StorageId::from_bytes([id; 32]),
        kept: 2,
        dropped: 1,
        kept_digest: [id; 32],
    };
    let footer = |sources| open(&write(&sample(3), options(sources)).bytes).unwrap();
    let (sources, refs) = (vec![leaf(1), leaf(2)], vec![StorageId::from_bytes([9; 32])]);
    let manifest = |sources: &[SourceLeaf], refs: &[StorageId]| ObjectManifest {
        sources: Some(sources.to_vec()),
        tombstone_refs: Some(refs.to_vec()),
        ..manifest_of(ObjectKind::Repack)
    };
    let repack = footer(Some(SourcesCommitment::new(&sources, &refs)));
    assert_eq!(repack.check_sources(&manifest(&sources, &refs)), Ok(()));

    let reordered = [leaf(2), leaf(1)];
    let recounted = [SourceLeaf { kept: 3, ..leaf(1) }, leaf(2)];
    for wrong in [&reordered[..], &sources[..1], &[], &recounted] {
        assert_eq!(repack.check_sources(&manifest(wrong, &refs)), Err(OtherSources));
    }
    assert_eq!(repack.check_sources(&manifest(&sources, &[])), Err(OtherSources));
    let data = manifest_of(ObjectKind::Data);
    assert_eq!(repack.check_sources(&data), Err(OtherSources));
    let shown = repack.metadata().file_metadata().key_value_metadata();
    assert!(shown.into_iter().flatten().all(|entry| entry.key != SOURCES_KEY));

    let silent = footer(None);
    assert_eq!(silent.check_sources(&manifest(&sources, &refs)), Err(OtherSources));
    assert_eq!(silent.check_sources(&data), Ok(()));
}

/// SOP-164: an object that commits to its sources twice, or in other words than a hash, agrees with no manifest.
#[test]
fn sources_are_said_once() {
    let repack = manifest_of(ObjectKind::Repack);
    let agrees = |sources: Option<SourcesCommitment>, change: fn(&mut Struct<'static>)| {
        let bytes = with_footer(&sample(30), options(sources), change);
        open(&bytes).unwrap().check_sources(&repack).is_ok()
    };
    let sources = Some(SourcesCommitment::new(&[], &[]));
    assert!(agrees(sources, |_| ()));
    assert!(!agrees(sources, |footer| key_values(footer).push(entry(SOURCES_KEY, &[]))));
    assert!(!agrees(None, |footer| key_values(footer).push(entry(SOURCES_KEY, b"words"))));
    assert!(!agrees(None, |_| ()));
}
