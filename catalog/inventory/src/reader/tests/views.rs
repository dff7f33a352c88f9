//! The live view, the full view, and many readers beside one writer.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::Versions;
use crate::{
    doc::{EditionState, layout},
    reader::{FullInventory, LiveInventory, find_head},
    store::{InventoryStore, testing::FaultStore},
    transition::{EditionKey, Operation, ReleaseWhen},
    writer::testing::{Place, World, catalogue, newest, product},
};

async fn live(store: &Arc<dyn InventoryStore>) -> LiveInventory {
    let found = find_head(&**store, None).await.expect("a head");
    LiveInventory::load(&**store, &found.head, None)
        .await
        .expect("its leaves")
}

/// INV-194, INV-213, INV-214: the live view has live editions only, drops products without one, and shows nothing of an embargoed
/// edition; the full view has everything.
#[tokio::test]
async fn the_live_view_shows_live_editions_only() {
    let store = Place::Memory.open().store();
    let (writer, _) = catalogue(&store, true).await;
    let mut world = World::new();
    let (first, second) = (world.edition("a", 1, None), world.edition("secret", 1, None));
    for sealed in [&first, &second] {
        let register = Operation::Register {
            sealed: sealed.clone(),
            release_at: None,
        };
        world.run(&writer, &[register]).await.expect("registered");
    }
    let view = live(&store).await;
    assert_eq!(view.products().count(), 0);
    let shown = format!("{view:?}");
    assert!(!shown.contains(&second.manifest.edition_id.to_string()), "{shown}");

    let release = Operation::Release {
        edition: first.edition(),
        when: ReleaseWhen::Explicit,
    };
    world.run(&writer, &[release]).await.expect("released");
    let view = live(&store).await;
    assert_eq!(
        view.products().map(|(id, _)| id.clone()).collect::<Vec<_>>(),
        [product("a")]
    );
    let schema = &first.manifest.schema_version;
    let head = view.head_of(&product("a"), schema).expect("live");
    assert_eq!(head.manifest_sha256, first.manifest.sha256());
    assert_eq!(
        view.head_of(&product("a"), &"2.53".parse().expect("a version")),
        None,
        "INV-204"
    );
    assert_eq!(view.product(&product("secret")), None);
    assert!(
        newest(&store)
            .await
            .entry(&product("secret"), &second.manifest.edition_id)
            .is_some()
    );

    let withdraw = Operation::Withdraw { live: first.edition() };
    world.run(&writer, &[withdraw]).await.expect("withdrawn");
    assert_eq!(live(&store).await.products().count(), 0);
}

/// INV-349: the next version's views fetch only the leaves whose hash changed.
#[tokio::test]
async fn a_reload_fetches_changed_leaves_only() {
    let store = Place::Memory.open().store();
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        let sealed = world.edition(name, 1, None);
        world.seal(&writer, &sealed).await;
    }
    let full = newest(&store).await;
    let view = live(&store).await;
    let next = world.edition("b", 2, Some(full.leaves()[&product("b")].editions[0].edition_id));
    world.seal(&writer, &next).await;
    let counting = FaultStore::counting(store.clone());
    let found = find_head(&counting, Some(full.head().reference()))
        .await
        .expect("found");
    let before = counting.operations();
    let view = LiveInventory::load(&counting, &found.head, Some(&view))
        .await
        .expect("loads");
    assert_eq!(counting.operations() - before, 1);
    let full = FullInventory::load(&counting, found.head, Some(&full))
        .await
        .expect("loads");
    assert_eq!(counting.operations() - before, 2);
    assert!(
        counting
            .log()
            .iter()
            .filter(|line| line.contains(layout::LEAVES))
            .count()
            == 2
    );
    assert_eq!(view, live(&store).await, "the same as loaded from nothing");
    assert_eq!(full.leaves(), newest(&store).await.leaves());
}

/// INV-4, INV-408, INV-426: 20 readers that look all the time while 100 releases of 50 products are written see each release as
/// one: in every version they find, all products are at the same edition, and they never go back.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_readers_see_no_torn_release() {
    const PRODUCTS: usize = 50;
    const RELEASES: u8 = 100;
    let store = Place::Memory.open().store();
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    let chains: Vec<_> = (0..PRODUCTS)
        .map(|number| world.chain(&format!("p{number:02}"), RELEASES))
        .collect();
    let over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..20)
        .map(|_| {
            let (store, over) = (store.clone(), over.clone());
            let position: Vec<_> = chains
                .iter()
                .map(|chain| {
                    chain
                        .iter()
                        .map(|sealed| sealed.manifest.edition_id)
                        .collect::<Vec<_>>()
                })
                .collect();
            tokio::spawn(async move {
                let (mut held, mut view, mut seen) = (None, None::<LiveInventory>, BTreeSet::new());
                loop {
                    let last = over.load(Ordering::SeqCst);
                    let found = find_head(&*store, held).await.expect("a head at any time");
                    assert_eq!(found.findings, []);
                    let reference = found.head.reference();
                    assert!(held.is_none_or(|held| held.seq <= reference.seq), "went back");
                    held = Some(reference);
                    let now = LiveInventory::load(&*store, &found.head, view.as_ref())
                        .await
                        .expect("all leaves");
                    let at: BTreeSet<_> = now
                        .products()
                        .zip(&position)
                        .map(|((_, product), editions)| {
                            assert_eq!(product.editions.len(), 1);
                            editions
                                .iter()
                                .position(|edition| *edition == product.editions[0].edition_id)
                        })
                        .collect();
                    assert!(
                        at.len() <= 1 && matches!(now.products().count(), 0 | PRODUCTS),
                        "torn: {at:?}"
                    );
                    assert_eq!(
                        at.iter().flatten().next().map_or(1, |at| at + 2) as u64,
                        reference.seq.get()
                    );
                    seen.insert(reference.seq);
                    view = Some(now);
                    if last {
                        return seen;
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for release in 0..usize::from(RELEASES) {
        let operations: Vec<_> = chains
            .iter()
            .map(|chain| Operation::Seal(chain[release].clone()))
            .collect();
        world.run(&writer, &operations).await.expect("released");
    }
    over.store(true, Ordering::SeqCst);
    for reader in readers {
        let seen = reader.await.expect("no torn state");
        assert_eq!(
            seen.last().map(|seq| seq.get()),
            Some(u64::from(RELEASES) + 1),
            "the last is seen in the end"
        );
    }
}

/// INV-204: the full view tells the state of each edition after a chain of seals.
#[tokio::test]
async fn the_full_view_keeps_what_was_superseded() {
    let versions = Versions::through(4).await;
    let full = newest(&versions.store).await;
    let states: Vec<_> = full.leaves()[&product("a")]
        .editions
        .iter()
        .map(|entry| entry.state)
        .collect();
    assert_eq!(
        states,
        [EditionState::Superseded, EditionState::Superseded, EditionState::Live]
    );
    let version = full.to_version().expect("a version");
    let absent = EditionKey::new(product("a"), versions.chain[0].manifest.edition_id);
    assert_eq!(version.status(&absent), None);
}
