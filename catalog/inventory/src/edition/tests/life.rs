//! A little product with two editions, in memory and in a directory.

use std::{collections::BTreeSet, sync::Arc};

use super::super::{
    Begin, EditionState as Listed, LazyFiles, MessageFormat, ProductEditions, StoreData,
    check::{CheckOptions, check},
    copy, files_of,
    seal::SealRequest,
    testing::*,
};
use crate::{
    doc::{EditionState, EntryStatus, FileRoot, Tier, layout},
    fingerprint::CheckProfile,
    store::{InventoryStore, MemoryStore},
};

/// INV-20, INV-24, INV-34, INV-57, INV-100, INV-398, INV-401: two editions from begin to live; the second is built from the first,
/// writes only its new file, carries the other's size and digests forward, marked so, and supersedes it.
#[tokio::test]
async fn two_editions_from_begin_to_live() {
    for world in [World::in_memory(false).await, World::in_directory().await] {
        let builder = world.first().await;
        assert_eq!(builder.previous(), None, "INV-29: a first edition starts from nothing");
        assert!(!world.place().is_sealed(&edition_id(1)).await.unwrap());
        let first = world.publish(builder).await;
        assert_eq!(
            world.status(&edition_id(1)).await,
            Some(EntryStatus::State(EditionState::Live))
        );
        assert_eq!(first.bindings[0].observations, 20);
        assert_eq!(first.artefacts.len(), 6);
        assert_eq!(first.previous, None);

        let mut builder = world.begin(2).await;
        assert_eq!(builder.previous(), Some(edition_id(1)));
        let path = builder
            .write_data(&flow(), Box::new(std::io::Cursor::new(numbers(20..25))))
            .await
            .unwrap();
        builder
            .append(&flow(), std::slice::from_ref(&path), Tier::Remote)
            .await
            .unwrap();
        let second = world.publish(builder).await;
        assert_eq!(second.previous, Some(edition_id(1)));
        assert_eq!(second.bindings[0].observations, 25);
        assert_ne!(second.content_fingerprint, first.content_fingerprint);
        // Only the new file is measured, the other keeps its digests and says whose they are.
        let data: Vec<_> = second.files.iter().filter(|file| file.root == FileRoot::Data).collect();
        assert_eq!(data.len(), 2);
        for file in data {
            let old = first
                .files
                .iter()
                .find(|old| old.root == FileRoot::Data && old.path == file.path);
            assert_eq!(file.carried_from, old.map(|_| edition_id(1)), "{}", file.path);
            assert!(old.is_none_or(|old| old.digests == file.digests));
            assert_eq!(old.is_none(), file.path == path);
            assert!(file.digests.blake3().is_some());
        }
        assert_eq!(
            world.status(&edition_id(1)).await,
            Some(EntryStatus::State(EditionState::Superseded))
        );
        assert_eq!(
            world.status(&edition_id(2)).await,
            Some(EntryStatus::State(EditionState::Live))
        );
        assert!(
            !world.names().await.iter().any(|name| name.contains("/journal/")),
            "INV-34"
        );
        for (edition, profile) in [
            (1, CheckProfile::Publish),
            (2, CheckProfile::Receive),
            (2, CheckProfile::Open),
        ] {
            let (place, options) = (world.place(), CheckOptions::default());
            let report = check(&place, &edition_id(edition), profile, &options).await.unwrap();
            assert_eq!(report.findings, []);
        }
    }
}

/// INV-61: the list gives each edition's id, whether it is sealed, its previous and its time.
#[tokio::test]
async fn the_list_is_read_from_manifests() {
    let world = World::in_memory(false).await;
    let first = world.publish(world.first().await).await;
    world.begin(2).await;
    let list = world.place().list().await.unwrap();
    let (previous, created_at) = (None, first.created_at);
    assert_eq!(list[0].state, Listed::Sealed { previous, created_at });
    assert_eq!(
        list[1].state,
        Listed::Unsealed {
            begun_at: edition_id(2).time()
        }
    );
    assert_eq!(list.len(), 2);
    world.plant(&edition_id(1), layout::MANIFEST, b"{}").await;
    assert!(matches!(
        world.place().list().await.unwrap()[0].state,
        Listed::Unreadable(_)
    ));
}

/// INV-32, INV-398: lazy files are taken over, all or those named, and an orphaned search table is dropped before the seal.
#[tokio::test]
async fn lazy_files_are_taken_over() {
    for (lazy, kept) in [
        (LazyFiles::All, 3),
        (LazyFiles::Named(["search/index.json".parse().unwrap()].into()), 1),
    ] {
        let world = World::in_memory(false).await;
        let mut builder = world.first().await;
        for name in ["search/index.json", "search/embeddings.json", "notes.txt"] {
            builder
                .put_file(&name.parse().unwrap(), name.into(), Tier::Lazy)
                .await
                .unwrap();
        }
        world.publish(builder).await;
        let begin = Begin {
            edition_id: Some(edition_id(2)),
            lazy,
        };
        let builder = world.publisher().begin(begin).await.unwrap();
        // A search table that was made for the first edition, and one for this one that nobody declared.
        let orphan = format!("search/en-{}.lance", edition_id(1));
        world.plant(&edition_id(2), &orphan, b"old").await;
        let manifest = world.publish(builder).await;
        let lazy = manifest.files.iter().filter(|file| file.tier == Tier::Lazy);
        assert_eq!(lazy.count(), kept);
        assert!(!world.names().await.iter().any(|name| name.ends_with(&orphan)));
    }
}

/// INV-95, INV-99, INV-399: a revised table is in new files; the old ones stay, and the first edition still checks.
#[tokio::test]
async fn revised_rows_are_in_new_files() {
    let world = World::in_memory(false).await;
    let first = world.publish(world.first().await).await;
    let mut builder = world.begin(2).await;
    let path = builder
        .write_data(&flow(), Box::new(std::io::Cursor::new(numbers(1..21))))
        .await
        .unwrap();
    builder.replace_table(&flow(), &[path], Tier::Remote).await.unwrap();
    let second = world.publish(builder).await;
    assert_ne!(first.bindings[0].fingerprint, second.bindings[0].fingerprint);
    assert_eq!(
        first.bindings[0].structure_fingerprint,
        second.bindings[0].structure_fingerprint
    );
    let options = CheckOptions::default();
    assert_eq!(
        world
            .publisher()
            .check(&edition_id(1), &options)
            .await
            .unwrap()
            .findings,
        []
    );
}

/// INV-196: while the embargo is on, recording embargoes.
#[tokio::test]
async fn an_embargo_keeps_the_edition_back() {
    let world = World::in_memory(true).await;
    world.publish(world.first().await).await;
    assert_eq!(
        world.status(&edition_id(1)).await,
        Some(EntryStatus::State(EditionState::Embargoed))
    );
}

/// INV-440: an edition can be left before the seal, writable, and resumed with all it was given.
#[tokio::test]
async fn an_unsealed_edition_is_resumed() {
    let world = World::in_directory().await;
    let list = world.first().await.list().clone();
    let mut builder = world.publisher().resume().await.unwrap();
    assert_eq!(*builder.list(), list);
    builder
        .put_file(&"notes.txt".parse().unwrap(), "x".into(), Tier::Lazy)
        .await
        .unwrap();
    builder.remove_file(&"notes.txt".parse().unwrap()).await.unwrap();
    let sealed = world
        .publisher()
        .resume()
        .await
        .unwrap()
        .seal(SealRequest::default())
        .await
        .unwrap();
    assert_eq!(
        sealed
            .manifest
            .files
            .iter()
            .filter(|file| file.root == FileRoot::Edition)
            .count(),
        2
    );
}

/// INV-240: an edition without tables is a structure edition and seals by the rule for those.
#[tokio::test]
async fn a_structure_edition_has_no_bindings() {
    let world = World::in_memory(false).await;
    let mut builder = world.begin(1).await;
    builder
        .add_structures(message(), MessageFormat::Json, &[])
        .await
        .unwrap();
    let sealed = builder.seal(SealRequest::default()).await.unwrap();
    assert!(sealed.manifest.is_structure());
    let report = world
        .publisher()
        .check(&edition_id(1), &CheckOptions::default())
        .await
        .unwrap();
    assert_eq!(report.findings, []);
}

/// INV-5, INV-417: a copy has the files of the tiers asked for, and its manifest last; the receiver checks it.
#[tokio::test]
async fn an_edition_is_copied_and_checks_there() {
    let world = World::in_directory().await;
    let manifest = world.publish(world.first().await).await;
    let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let data = Arc::new(StoreData::new(store.clone(), &product()));
    let there = ProductEditions::unchecked(store, data, product());
    let few = BTreeSet::from([Tier::Required, Tier::Lazy]);
    assert_eq!(files_of(&manifest, &few).count(), 2, "tables.json and the structures");
    let all = BTreeSet::from([Tier::Required, Tier::Lazy, Tier::Remote]);
    let report = copy(&world.place(), &there, &edition_id(1), manifest.sha256(), &all)
        .await
        .unwrap();
    assert_eq!((report.copied, report.present), (3, 0));
    let again = copy(&world.place(), &there, &edition_id(1), manifest.sha256(), &all)
        .await
        .unwrap();
    assert_eq!((again.copied, again.present), (0, 3));
    let options = CheckOptions {
        manifest_sha256: Some(manifest.sha256()),
        ..CheckOptions::default()
    };
    for profile in [CheckProfile::Publish, CheckProfile::Receive, CheckProfile::Open] {
        let report = check(&there, &edition_id(1), profile, &options).await.unwrap();
        assert_eq!(report.findings, [], "{profile:?}");
    }
}
