//! Documents with changed bytes: no panic, nothing older than what is held, and nothing that doesn't verify.

use bytes::Bytes;
use proptest::prelude::*;

use super::Versions;
use crate::{
    doc::layout,
    reader::{FullInventory, find_head},
    writer::testing::{bytes_at, overwrite, seq},
};

/// Changes one document of a catalogue, looks, and puts it back.
async fn look_at_changed(name: &str, change: impl Fn(&[u8]) -> Vec<u8>) {
    let versions = Versions::through(4).await;
    versions.writer.opt_in().await.expect("opted in");
    versions.point_current_at(versions.reference(3).await).await;
    let held = versions.reference(2).await;
    let original = bytes_at(&versions.store, name).await.expect("there");
    let genuine = [2, 3, 4];
    let mut known = Vec::new();
    for number in genuine {
        known.push(versions.reference(number).await);
    }
    overwrite(&versions.store, name, Bytes::from(change(&original))).await;
    for hold in [None, Some(held)] {
        let Ok(found) = find_head(&*versions.store, hold).await else {
            continue;
        };
        let reference = found.head.reference();
        assert!(
            hold.is_none_or(|held| held.seq <= reference.seq),
            "went back to {reference:?}"
        );
        let changed_root = (1..=4).any(|number| name == layout::root(seq(number)));
        assert!(
            changed_root || known.contains(&reference),
            "{reference:?} was never written"
        );
        if let Ok(full) = FullInventory::load(&*versions.store, found.head, None).await {
            assert!(full.leaves().len() <= 1);
        }
    }
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(layout::CURRENT.to_owned()),
        Just(layout::CATALOG.to_owned()),
        Just(layout::HISTORY.to_owned()),
        (1..=4_u64).prop_map(|number| layout::root(seq(number))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// INV-260: a reader survives any change of any byte of any document it reads.
    #[test]
    fn a_changed_byte_is_survived(name in names(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(look_at_changed(&name, |original| {
            let mut bytes = original.to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes
        }));
    }

    /// INV-243, INV-260: as one that was written halfway.
    #[test]
    fn a_cut_document_is_survived(name in names(), at in any::<prop::sample::Index>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(look_at_changed(&name, |original| original[..at.index(original.len())].to_vec()));
    }

    /// INV-260: as bytes of any kind in a document's place.
    #[test]
    fn any_bytes_are_survived(name in names(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(look_at_changed(&name, |_| bytes.clone()));
    }
}
