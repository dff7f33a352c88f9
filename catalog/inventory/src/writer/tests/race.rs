//! Several writers at once.

use std::sync::Arc;

use futures::future::join_all;

use crate::{
    doc::EventKind,
    store::{InventoryStore, MemoryStore},
    transition::{EditionKey, Operation, Refusal, ReleaseWhen, Standings},
    writer::{
        CommitError,
        testing::{Interposed, Place, World, catalogue, newest, product, root_at, seq, writer_over},
    },
};

/// INV-427, INV-441: two and eight writers, each sealing its own product ten times: every version lands once, none is lost, and
/// the change lists replay to the last version.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_writers_lose_no_version() {
    for place in Place::ALL {
        for writers in [2_u8, 8] {
            let opened = place.open();
            let (_, clock) = catalogue(&opened.store(), false).await;
            let mut world = World::new();
            let chains: Vec<_> = (0..writers)
                .map(|number| world.chain(&format!("p{number}"), 5))
                .collect();
            let racers = chains.into_iter().map(|chain| {
                let (writer, world) = (writer_over(opened.store(), &clock), world.clone());
                tokio::spawn(async move {
                    let mut versions = Vec::new();
                    for sealed in chain {
                        versions.push(world.seal(&writer, &sealed).await.head.root().seq);
                    }
                    versions
                })
            });
            let mut versions: Vec<_> = join_all(racers)
                .await
                .into_iter()
                .flat_map(|versions| versions.expect("ran"))
                .collect();
            versions.sort();
            let expected: Vec<_> = (2..2 + u64::from(writers) * 5).map(seq).collect();
            assert_eq!(
                versions, expected,
                "{place:?}: no number was won twice and none was left out"
            );
            sound_chain(&opened.store(), writers, 5).await;
        }
    }
}

async fn sound_chain(store: &Arc<dyn InventoryStore>, products: u8, editions: usize) {
    let newest = newest(store).await;
    assert_eq!(newest.leaves().len(), usize::from(products));
    assert!(newest.leaves().values().all(|leaf| leaf.editions.len() == editions));
    let mut standings = Standings::default();
    let mut link = None;
    for number in 1..=newest.head().root().seq.get() {
        let root = root_at(store, number).await;
        let history = root.history.as_ref().expect("history fields");
        assert_eq!(history.previous_root_sha256, link, "version {number}");
        standings
            .apply(&history.changes)
            .expect("each change list starts from the version before");
        link = Some(root.sha256());
    }
    assert_eq!(standings, Standings::of(&newest.to_version().expect("a version")));
}

/// INV-441: writers that want the same thing: one does it, the others are told by the rules that it is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_that_race_for_the_same_release_release_once() {
    for place in Place::ALL {
        for writers in [2, 8] {
            let opened = place.open();
            let (writer, clock) = catalogue(&opened.store(), true).await;
            let mut world = World::new();
            let sealed = world.edition("a", 1, None);
            world
                .run(
                    &writer,
                    &[Operation::Register {
                        sealed: sealed.clone(),
                        release_at: None,
                    }],
                )
                .await
                .expect("ok");
            let edition = sealed.edition();
            let racers = (0..writers).map(|_| {
                let (writer, world) = (writer_over(opened.store(), &clock), world.clone());
                let release = Operation::Release {
                    edition: edition.clone(),
                    when: ReleaseWhen::Explicit,
                };
                tokio::spawn(async move { world.run(&writer, &[release]).await })
            });
            let outcomes: Vec<_> = join_all(racers)
                .await
                .into_iter()
                .map(|outcome| outcome.expect("ran"))
                .collect();
            assert_eq!(
                outcomes.iter().filter(|outcome| outcome.is_ok()).count(),
                1,
                "{place:?}: {outcomes:?}"
            );
            assert!(
                outcomes
                    .iter()
                    .all(|outcome| !matches!(outcome, Err(CommitError::Write(_)))),
                "{outcomes:?}"
            );
            assert_eq!(newest(&opened.store()).await.head().root().seq, seq(3));
        }
    }
}

/// INV-249, INV-250: an automatic release that was decided before the embargo went on doesn't write live after it.
#[tokio::test]
async fn a_stale_automatic_release_meets_the_embargo() {
    let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let (writer, clock) = catalogue(&store, false).await;
    let mut world = World::new();
    let sealed = world.edition("a", 1, None);
    let turn_on = {
        let (world, writer) = (world.clone(), writer.clone());
        async move {
            world
                .run(&writer, &[Operation::SetEmbargo { on: true }])
                .await
                .expect("turned on");
        }
    };
    let slow = writer_over(
        Interposed::new(store.clone(), "inventory/000000000002.json", turn_on),
        &clock,
    );
    let error = world
        .run(&slow, &[Operation::Seal(sealed.clone())])
        .await
        .expect_err("refused");
    let CommitError::Refused(refusal) = &error else {
        panic!("{error:?}")
    };
    assert!(refusal.to_string().contains("embargo"), "{refusal}");
    let newest = newest(&store).await;
    assert_eq!(newest.head().root().event.kind, EventKind::EmbargoChange);
    assert!(newest.leaves().is_empty(), "nothing of the edition is in any version");
}

/// INV-205, INV-249: a release that loses to another edition of the product is judged against the new live edition.
#[tokio::test]
async fn a_lost_race_judges_the_fast_forward_again() {
    let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let (writer, clock) = catalogue(&store, false).await;
    let mut world = World::new();
    let (first, fork) = (world.edition("a", 1, None), world.edition("a", 2, None));
    let win = {
        let (world, writer, first) = (world.clone(), writer.clone(), first.clone());
        async move { drop(world.seal(&writer, &first).await) }
    };
    let slow = writer_over(
        Interposed::new(store.clone(), "inventory/000000000002.json", win),
        &clock,
    );
    let error = world
        .run(&slow, &[Operation::Seal(fork.clone())])
        .await
        .expect_err("refused");
    assert!(matches!(error, CommitError::Refused(_)), "{error:?}");
    let newest = newest(&store).await;
    assert!(newest.entry(&product("a"), &first.manifest.edition_id).is_some());
    assert_eq!(newest.to_version().expect("a version").status(&fork.edition()), None);
}

/// INV-206, INV-249: a rollback that was decided on one live edition is refused when another went live meanwhile.
#[tokio::test]
async fn a_lost_race_judges_the_expected_live_edition_again() {
    let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let (writer, clock) = catalogue(&store, false).await;
    let mut world = World::new();
    let chain = world.chain("a", 3);
    world.seal(&writer, &chain[0]).await;
    world.seal(&writer, &chain[1]).await;
    let win = {
        let (world, writer, third) = (world.clone(), writer.clone(), chain[2].clone());
        async move { drop(world.seal(&writer, &third).await) }
    };
    let slow = writer_over(
        Interposed::new(store.clone(), "inventory/000000000004.json", win),
        &clock,
    );
    let rollback = Operation::Rollback(crate::transition::Rollback {
        product_id: product("a"),
        if_live: chain[1].manifest.edition_id,
        to: chain[0].manifest.edition_id,
    });
    let error = world.run(&slow, &[rollback]).await.expect_err("refused");
    assert!(
        matches!(error, CommitError::Refused(Refusal::LiveChanged { .. })),
        "{error:?}"
    );
}

/// INV-251, INV-326, INV-427: a loser whose change still stands writes it on the new head, with link and change list of that head.
#[tokio::test]
async fn a_loser_lists_its_changes_against_the_new_head() {
    let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let (writer, clock) = catalogue(&store, false).await;
    let mut world = World::new();
    let (mine, theirs) = (world.edition("a", 1, None), world.edition("b", 1, None));
    let win = {
        let (world, writer, theirs) = (world.clone(), writer.clone(), theirs.clone());
        async move { drop(world.seal(&writer, &theirs).await) }
    };
    let slow = writer_over(
        Interposed::new(store.clone(), "inventory/000000000002.json", win),
        &clock,
    );
    let committed = world.seal(&slow, &mine).await;
    assert_eq!(committed.attempts, 2);
    let (root, base) = (committed.head.root(), root_at(&store, 2).await);
    assert_eq!((root.seq, root.previous_inventory), (seq(3), Some(seq(2))));
    let history = root.history.as_ref().expect("history fields");
    assert_eq!(history.previous_root_sha256, Some(base.sha256()));
    let changed: Vec<_> = history.changes.iter().map(|item| item.product_id.clone()).collect();
    assert_eq!(
        changed,
        [product("a")],
        "only its own change: the other's is in version 2"
    );
    assert!(root.created_at > base.created_at);
    let keys = [mine.edition(), theirs.edition()];
    let version = newest(&store).await.to_version().expect("a version");
    assert!(
        keys.iter().all(|key: &EditionKey| version.status(key).is_some()),
        "both landed"
    );
}
