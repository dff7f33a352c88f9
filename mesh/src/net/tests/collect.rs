//! Collection: only what nothing names goes, and nothing that is being brought is ever lost.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use sovm_object::id::StorageId;

use super::support::{Home, object};
use crate::net::{Holding, ObjectStore};

/// SOP-268, SOP-270: what was let go is removed, files and books; what is kept, or not named, stays.
#[tokio::test]
async fn only_what_was_named_and_let_go_is_removed() {
    let home = Home::new();
    let store = home.store().await;
    let mut ids = Vec::new();
    for (seed, size) in [(1, 500), (2, 40_000), (3, 5 << 20), (4, 500), (5, 40_000), (6, 5 << 20)] {
        let (id, bytes) = object(size, seed);
        store.publish(bytes, id).await.unwrap();
        ids.push(id);
    }
    let (doomed, rest) = ids.split_at(3);
    for id in doomed.iter().chain(&rest[..1]) {
        store.release(*id).await.unwrap();
    }
    // `rest[0]` was let go and not named, `rest[1]` is named and still kept.
    let named: BTreeSet<StorageId> = doomed.iter().copied().chain([rest[1]]).collect();
    let collected = store.collect(&named).await.unwrap();
    assert_eq!(collected.removed, doomed.iter().copied().collect());
    assert_eq!(collected.spared, [rest[1]].into());
    for id in doomed {
        assert_eq!(store.holding(*id).await.unwrap(), Holding::Absent);
        assert!(!store.data_path(*id).exists() && !store.outboard_path(*id).exists());
    }
    let left: Vec<_> = store
        .inventory()
        .await
        .unwrap()
        .iter()
        .map(|stored| (stored.id, stored.whole, stored.kept))
        .collect();
    let mut expected = vec![(rest[0], true, false), (rest[1], true, true), (rest[2], true, true)];
    expected.sort_unstable();
    assert_eq!(left, expected);
    // What is gone can come back.
    let (id, bytes) = object(5 << 20, 3);
    store.publish(bytes, id).await.unwrap();
    assert_eq!(store.scrub(id).await.unwrap(), 5 << 20);
    // Repeating is harmless.
    assert_eq!(
        store.collect(&[doomed[0]].into()).await.unwrap().removed,
        [doomed[0]].into()
    );
}

/// SOP-248: a kill between a file's rename and the commit of the books leaves a file that only its name identifies.
#[tokio::test]
async fn a_file_the_books_do_not_know_is_found_and_removed() {
    let home = Home::new();
    let store = home.store().await;
    let (id, bytes) = object(50_000, 9);
    fs::write(store.data_path(id), &bytes).unwrap();
    let found = store.inventory().await.unwrap();
    assert_eq!(
        found
            .iter()
            .map(|stored| (stored.id, stored.bytes, stored.whole))
            .collect::<Vec<_>>(),
        [(id, 50_000, false)]
    );
    assert_eq!(store.collect(&[id].into()).await.unwrap().removed, [id].into());
    assert!(!store.data_path(id).exists());
    assert_eq!(store.inventory().await.unwrap(), []);
}

/// An object that is being brought is spared although it is named.
#[tokio::test]
async fn a_pinned_object_is_spared() {
    let home = Home::new();
    let store = home.store().await;
    let (id, bytes) = object(70_000, 1);
    store.publish(bytes, id).await.unwrap();
    store.release(id).await.unwrap();
    let pin = store.pin(id).await.unwrap();
    assert_eq!(store.collect(&[id].into()).await.unwrap().spared, [id].into());
    drop(pin);
    assert_eq!(store.collect(&[id].into()).await.unwrap().removed, [id].into());
}

/// A store that is closed says so instead of waiting for a round that never comes.
#[tokio::test]
async fn a_closed_store_collects_nothing() {
    let home = Home::new();
    let store = home.store().await;
    let (id, bytes) = object(70_000, 1);
    store.publish(bytes, id).await.unwrap();
    store.shutdown().await.unwrap();
    let condemned = [id].into();
    let collecting = tokio::time::timeout(Duration::from_secs(10), store.collect(&condemned));
    assert!(collecting.await.unwrap().is_err());
}

/// What the importers of the hammer test share.
#[derive(Default)]
struct Hammer {
    kept: Mutex<BTreeSet<StorageId>>,
    dropped: Mutex<BTreeSet<StorageId>>,
    started: AtomicU64,
    finished: AtomicBool,
}

/// iroh-blobs#247, #235; delta-rs#3645: imports with a collection every 50 ms lose nothing, whatever is collected meanwhile.
/// `SOVM_IMPORTS` sets their number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn imports_under_collection_lose_nothing() {
    let imports: u64 = std::env::var("SOVM_IMPORTS").map_or(1_000, |text| text.parse().unwrap());
    let home = Home::new();
    let store = home.store().await;
    let hammer = Arc::<Hammer>::default();
    let collecting = tokio::spawn(collect_until_finished(store.clone(), hammer.clone()));
    let importers: Vec<_> = (0..8)
        .map(|_| tokio::spawn(import_some(store.clone(), hammer.clone(), imports)))
        .collect();
    for importer in importers {
        importer.await.unwrap();
    }
    hammer.finished.store(true, Ordering::SeqCst);
    let (rounds, removed) = collecting.await.unwrap();

    let kept = hammer.kept.lock().unwrap().clone();
    for id in &kept {
        assert!(store.has(*id).await.unwrap(), "{id} is not held any more");
        store
            .scrub(*id)
            .await
            .unwrap_or_else(|error| panic!("{id} was lost: {error}"));
    }
    let left = store.inventory().await.unwrap();
    assert_eq!(left.len(), kept.len(), "only what is kept is left");
    println!(
        "{imports} imports, {} kept and whole, {rounds} collections removed {removed} objects, none lost",
        kept.len()
    );
}

/// Publishes; lets every third object go; publishes every seventh of those again while it may be collected.
async fn import_some(store: ObjectStore, hammer: Arc<Hammer>, imports: u64) {
    loop {
        let number = hammer.started.fetch_add(1, Ordering::SeqCst);
        if number >= imports {
            return;
        }
        let size = [700, 18_000, 90_000, 300_000][(number % 4) as usize] + number as usize;
        let (id, bytes) = object(size, number as u8);
        store.publish(bytes.clone(), id).await.unwrap();
        if number % 3 != 0 {
            hammer.kept.lock().unwrap().insert(id);
            continue;
        }
        store.release(id).await.unwrap();
        hammer.dropped.lock().unwrap().insert(id);
        if number % 7 == 0 {
            // Somebody names it again: the catalogue takes it off the list first, as the engine does.
            tokio::time::sleep(Duration::from_millis(number % 60)).await;
            hammer.dropped.lock().unwrap().remove(&id);
            store.publish(bytes, id).await.unwrap();
            hammer.kept.lock().unwrap().insert(id);
        }
    }
}

async fn collect_until_finished(store: ObjectStore, hammer: Arc<Hammer>) -> (u64, usize) {
    let (mut rounds, mut removed) = (0, HashSet::new());
    loop {
        let last = hammer.finished.load(Ordering::SeqCst);
        let condemned = hammer.dropped.lock().unwrap().clone();
        let collected = store.collect(&condemned).await.unwrap();
        hammer
            .dropped
            .lock()
            .unwrap()
            .retain(|id| !collected.removed.contains(id));
        removed.extend(collected.removed);
        rounds += 1;
        if last {
            return (rounds, removed.len());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
