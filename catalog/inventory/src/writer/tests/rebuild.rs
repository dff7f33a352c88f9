//! Rebuilding from manifests, and mostly refusing to.

use std::sync::Arc;

use crate::{
    doc::{EditionState, EventKind, SegmentPath, layout},
    store::{InventoryStore, MemoryStore},
    transition::{Operation, RebuildRefused, SealedEdition},
    writer::{
        Assurance, RebuildRefusal, WriteError, Writer,
        testing::{World, bytes_at, catalogue, newest, overwrite, path, product, seq},
    },
};

async fn put(store: &Arc<dyn InventoryStore>, editions: &[SealedEdition]) {
    for sealed in editions {
        let name = layout::manifest(&sealed.manifest.product_id, &sealed.manifest.edition_id);
        overwrite(store, &name, sealed.manifest.bytes().clone()).await;
    }
}

/// A catalogue with two editions of `a` and one of `b`.
async fn setup() -> (Arc<dyn InventoryStore>, Writer, World, Vec<SealedEdition>) {
    let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    let mut editions = world.chain("a", 2);
    editions.push(world.edition("b", 1, None));
    for sealed in &editions {
        world.seal(&writer, sealed).await;
    }
    put(&store, &editions).await;
    (store, writer, world, editions)
}

async fn lose(store: &Arc<dyn InventoryStore>, folder: &str) {
    for name in store.list(Some(&path(folder))).await.expect("listed") {
        store.delete(&name).await.expect("deleted");
    }
}

async fn refused(store: &Arc<dyn InventoryStore>, writer: &Writer) -> WriteError {
    let before = store.list(None).await.expect("listed");
    let error = writer
        .rebuild(Assurance::NothingEverWithheld)
        .await
        .expect_err("refused");
    assert_eq!(store.list(None).await.expect("listed"), before, "nothing was written");
    error
}

/// INV-273: with nothing left of the Inventory and the operator's word, the newest edition of each product is live and the
/// others superseded, with the same manifests as before.
#[tokio::test]
async fn an_inventory_is_rebuilt_from_manifests() {
    let (store, writer, _, editions) = setup().await;
    let before = newest(&store).await;
    lose(&store, layout::INVENTORY).await;
    store.delete(&path(layout::CURRENT)).await.expect("deleted");
    let error = writer.rebuild(Assurance::None).await.expect_err("nobody vouches");
    assert!(
        matches!(error, WriteError::Rebuild(RebuildRefusal::Unassured)),
        "{error:?}"
    );
    writer.rebuild(Assurance::NothingEverWithheld).await.expect("rebuilt");
    let after = newest(&store).await;
    assert_eq!(
        (after.head().root().seq, &after.head().root().event.kind),
        (seq(1), &EventKind::Restore)
    );
    for sealed in &editions {
        let (product, edition) = (&sealed.manifest.product_id, &sealed.manifest.edition_id);
        let (old, new) = (before.entry(product, edition), after.entry(product, edition));
        let facts = |entry: Option<&crate::doc::Entry>| {
            entry.map(|entry| {
                (
                    entry.state,
                    entry.previous,
                    entry.manifest_sha256,
                    entry.routing.clone(),
                )
            })
        };
        assert_eq!(facts(old), facts(new));
        assert!(new.is_some());
    }
    assert_eq!(after.to_version().expect("a version").findings(), []);
}

/// INV-273: an Inventory that reads is left alone, and one whose leaf is gone is named.
#[tokio::test]
async fn an_inventory_that_is_there_is_not_rebuilt() {
    let (store, writer, ..) = setup().await;
    let error = refused(&store, &writer).await;
    assert!(
        matches!(error, WriteError::Rebuild(RebuildRefusal::Readable(head)) if head == seq(4)),
        "{error:?}"
    );
    let leaf = newest(&store).await.head().root().products[&product("a")].path();
    store.delete(&path(&leaf)).await.expect("deleted");
    let error = refused(&store, &writer).await;
    assert!(matches!(&error, WriteError::Rebuild(RebuildRefusal::Unreadable { seq: head, .. }) if *head == seq(4)));
    assert!(error.to_string().contains("leaf"), "{error}");
}

/// INV-273: a catalogue that was rolled back, withdrawn from, retired from or under embargo is refused.
#[tokio::test]
async fn a_catalogue_that_was_rolled_back_is_not_rebuilt() {
    let (store, writer, world, editions) = setup().await;
    let rollback = Operation::Rollback(crate::transition::Rollback {
        product_id: product("a"),
        if_live: editions[1].manifest.edition_id,
        to: editions[0].manifest.edition_id,
    });
    world.run(&writer, &[rollback]).await.expect("rolled back");
    let error = refused(&store, &writer).await;
    assert!(
        matches!(&error, WriteError::RebuildFromManifests(RebuildRefused::TakenBack { seq: taken, .. }) if *taken == seq(5)),
        "{error:?}"
    );
    // With the roots gone, the leaves still tell.
    for number in 1..=5 {
        store.delete(&path(&layout::root(seq(number)))).await.expect("deleted");
    }
    store.delete(&path(layout::CURRENT)).await.expect("deleted");
    let error = refused(&store, &writer).await;
    assert!(
        matches!(&error, WriteError::Rebuild(RebuildRefusal::Withheld { state, .. }) if *state == EditionState::Withdrawn),
        "{error:?}"
    );
}

/// INV-273: under embargo, no manifest says what is held back.
#[tokio::test]
async fn a_catalogue_under_embargo_is_not_rebuilt() {
    let (store, writer, world, _) = setup().await;
    world
        .run(&writer, &[Operation::SetEmbargo { on: true }])
        .await
        .expect("turned on");
    let error = refused(&store, &writer).await;
    let embargoed = RebuildRefused::Embargoed { seq: seq(5) };
    assert!(
        matches!(&error, WriteError::RebuildFromManifests(refused) if *refused == embargoed),
        "{error:?}"
    );
}

/// INV-273: missing history is named: roots, `CURRENT` that names more, segments.
#[tokio::test]
async fn missing_history_is_named() {
    let (store, writer, ..) = setup().await;
    store.delete(&path(&layout::root(seq(2)))).await.expect("deleted");
    let error = refused(&store, &writer).await;
    let missing = RebuildRefused::HistoryMissing { missing: vec![seq(2)] };
    assert!(
        matches!(&error, WriteError::RebuildFromManifests(refused) if *refused == missing),
        "{error:?}"
    );
    overwrite(&store, &layout::root(seq(2)), "garbage").await;
    let error = refused(&store, &writer).await;
    assert!(
        matches!(&error, WriteError::RebuildFromManifests(refused) if *refused == missing),
        "{error:?}"
    );

    lose(&store, layout::INVENTORY).await;
    let error = refused(&store, &writer).await;
    let missing = RebuildRefused::HistoryMissing {
        missing: (1..=4).map(seq).collect(),
    };
    assert!(
        matches!(&error, WriteError::RebuildFromManifests(refused) if *refused == missing),
        "{error:?}"
    );

    store.delete(&path(layout::CURRENT)).await.expect("deleted");
    let segment = SegmentPath::generate(crate::doc::Epoch::FIRST, seq(1), seq(3)).to_string();
    overwrite(&store, &segment, "{}").await;
    let error = refused(&store, &writer).await;
    assert!(matches!(&error, WriteError::Rebuild(RebuildRefusal::HistorySegments(named)) if *named == segment));
}

/// INV-235, INV-273: manifests that are no chain, or lie under another name, are refused.
#[tokio::test]
async fn manifests_that_are_no_chain_are_refused() {
    let (store, writer, mut world, editions) = setup().await;
    lose(&store, layout::INVENTORY).await;
    store.delete(&path(layout::CURRENT)).await.expect("deleted");
    let fork = world.edition("a", 9, Some(editions[0].manifest.edition_id));
    put(&store, std::slice::from_ref(&fork)).await;
    let error = refused(&store, &writer).await;
    assert!(
        matches!(&error, WriteError::RebuildFromManifests(RebuildRefused::Fork { .. })),
        "{error:?}"
    );
    let fork_name = layout::manifest(&product("a"), &fork.manifest.edition_id);
    overwrite(&store, &fork_name, editions[0].manifest.bytes().clone()).await;
    assert!(matches!(refused(&store, &writer).await, WriteError::Document(_)));
    store.delete(&path(&fork_name)).await.expect("deleted");
    let first = layout::manifest(&product("a"), &editions[0].manifest.edition_id);
    store.delete(&path(&first)).await.expect("deleted");
    let error = refused(&store, &writer).await;
    assert!(
        matches!(
            &error,
            WriteError::RebuildFromManifests(RebuildRefused::BaseMissing { .. })
        ),
        "{error:?}"
    );
    assert!(bytes_at(&store, layout::CATALOG).await.is_some());
    assert_eq!(store.list(Some(&path(layout::INVENTORY))).await.expect("listed"), []);
}
