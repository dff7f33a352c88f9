//! What every store must do, as a suite to run on it, and a store that fails on purpose.

use std::{future::Future, sync::Arc};

use bytes::Bytes;
use futures::future::join_all;

use super::{Creation, InventoryStore, LockReach, Replacement, Revision, StorePath};

mod fault;

pub use fault::{Fault, FaultStore};

fn path(text: &str) -> StorePath {
    StorePath::parse(text).expect("a path")
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Runs every check, each on a fresh empty store, with two and with eight racing writers.
///
/// # Panics
/// When the store does not conform.
pub async fn conformance<F: Future<Output = Arc<dyn InventoryStore>>>(fresh: impl Fn() -> F) {
    conformance_of(fresh, &[2, 8]).await;
}

/// Runs every check, each on a fresh empty store, with so many racing writers.
///
/// # Panics
/// When the store does not conform.
pub async fn conformance_of<F: Future<Output = Arc<dyn InventoryStore>>>(fresh: impl Fn() -> F, racing: &[usize]) {
    missing_documents(&*fresh().await).await;
    creation_is_exclusive(&*fresh().await).await;
    for &writers in racing {
        one_of_racing_creations_wins(fresh().await, writers).await;
        one_of_racing_replacements_wins(fresh().await, writers).await;
        racing_counters_lose_no_update(fresh().await, writers).await;
        the_lock_admits_one(fresh().await, writers).await;
    }
    nothing_is_visible_before_it_is_whole(fresh().await).await;
    replacement_is_conditional(&*fresh().await).await;
    deletion(&*fresh().await).await;
    listing(&*fresh().await).await;
    faults_leave_old_or_new(&fresh).await;
}

async fn missing_documents(store: &dyn InventoryStore) {
    assert_eq!(store.get(&path("CURRENT")).await.expect("read"), None);
    assert_eq!(
        store.get(&path("inventory/leaves/none.json")).await.expect("read"),
        None
    );
    assert_eq!(store.list(None).await.expect("listed"), []);
    assert_eq!(store.list(Some(&path("history"))).await.expect("listed"), []);
    let replaced = store
        .replace(&path("inventory/HISTORY"), &Revision::new("none"), bytes("x"))
        .await
        .expect("answered");
    assert_eq!(replaced, Replacement::Changed, "what is not there is not replaced");
    assert_eq!(
        store.get(&path("inventory/HISTORY")).await.expect("read"),
        None,
        "nor created"
    );
}

async fn creation_is_exclusive(store: &dyn InventoryStore) {
    let name = path("inventory/000000000001.json");
    assert_eq!(
        store.create(&name, bytes("first")).await.expect("created"),
        Creation::Created
    );
    assert_eq!(
        store.create(&name, bytes("second")).await.expect("answered"),
        Creation::Exists
    );
    assert_eq!(
        store.create(&name, bytes("first")).await.expect("answered"),
        Creation::Exists,
        "the same bytes too"
    );
    assert_eq!(
        store.get(&name).await.expect("read").expect("there").bytes,
        bytes("first")
    );
    // An empty document is a document, and its name is taken.
    assert_eq!(
        store.create(&path("empty"), Bytes::new()).await.expect("created"),
        Creation::Created
    );
    assert_eq!(
        store.create(&path("empty"), bytes("x")).await.expect("answered"),
        Creation::Exists
    );
    assert_eq!(
        store.get(&path("empty")).await.expect("read").expect("there").bytes,
        Bytes::new()
    );
    let large = Bytes::from((0..3_000_000_u32).map(|n| (n % 251) as u8).collect::<Vec<_>>());
    assert_eq!(
        store.create(&path("large"), large.clone()).await.expect("created"),
        Creation::Created
    );
    assert_eq!(
        store.get(&path("large")).await.expect("read").expect("there").bytes,
        large
    );
}

async fn one_of_racing_creations_wins(store: Arc<dyn InventoryStore>, writers: usize) {
    for round in 1..=20 {
        let name = path(&format!("inventory/{round:012}.json"));
        let racers = (0..writers).map(|writer| {
            let (store, name) = (store.clone(), name.clone());
            tokio::spawn(async move {
                store
                    .create(&name, bytes(&format!("writer {writer}")))
                    .await
                    .expect("answered")
            })
        });
        let outcomes: Vec<_> = join_all(racers)
            .await
            .into_iter()
            .map(|outcome| outcome.expect("ran"))
            .collect();
        let winners: Vec<_> = (0..writers)
            .filter(|writer| outcomes[*writer] == Creation::Created)
            .collect();
        assert_eq!(winners.len(), 1, "one of {writers} wins in round {round}: {outcomes:?}");
        let held = store.get(&name).await.expect("read").expect("there");
        assert_eq!(
            held.bytes,
            bytes(&format!("writer {}", winners[0])),
            "and its bytes are there"
        );
    }
}

async fn one_of_racing_replacements_wins(store: Arc<dyn InventoryStore>, writers: usize) {
    let name = path("CURRENT");
    assert_eq!(
        store.create(&name, bytes("start")).await.expect("created"),
        Creation::Created
    );
    for round in 1..=20 {
        let seen = store.get(&name).await.expect("read").expect("there").revision;
        let racers = (0..writers).map(|writer| {
            let (store, name, seen) = (store.clone(), name.clone(), seen.clone());
            tokio::spawn(async move {
                store
                    .replace(&name, &seen, bytes(&format!("round {round} writer {writer}")))
                    .await
                    .expect("answered")
            })
        });
        let outcomes: Vec<_> = join_all(racers)
            .await
            .into_iter()
            .map(|outcome| outcome.expect("ran"))
            .collect();
        let winners: Vec<_> = (0..writers)
            .filter(|writer| outcomes[*writer] == Replacement::Replaced)
            .collect();
        assert_eq!(winners.len(), 1, "one of {writers} wins in round {round}: {outcomes:?}");
        let held = store.get(&name).await.expect("read").expect("there");
        assert_eq!(held.bytes, bytes(&format!("round {round} writer {}", winners[0])));
    }
}

async fn racing_counters_lose_no_update(store: Arc<dyn InventoryStore>, writers: usize) {
    let name = path("inventory/HISTORY");
    assert_eq!(
        store.create(&name, bytes("0")).await.expect("created"),
        Creation::Created
    );
    let racers = (0..writers).map(|_| {
        let (store, name) = (store.clone(), name.clone());
        tokio::spawn(async move {
            let mut added = 0;
            while added < 10 {
                let held = store.get(&name).await.expect("read").expect("there");
                let count: u32 = std::str::from_utf8(&held.bytes)
                    .expect("text")
                    .parse()
                    .expect("whole, never torn");
                let next = bytes(&(count + 1).to_string());
                if store.replace(&name, &held.revision, next).await.expect("answered") == Replacement::Replaced {
                    added += 1;
                }
            }
        })
    });
    for racer in join_all(racers).await {
        racer.expect("ran");
    }
    let total = store.get(&name).await.expect("read").expect("there").bytes;
    assert_eq!(total, bytes(&(writers * 10).to_string()));
}

async fn the_lock_admits_one(store: Arc<dyn InventoryStore>, writers: usize) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let inside = Arc::new(AtomicUsize::new(0));
    let racers = (0..writers).map(|_| {
        let (store, inside) = (store.clone(), inside.clone());
        tokio::spawn(async move {
            for _ in 0..5 {
                let lock = store.lock().await.expect("locked");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "someone else is inside");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(lock);
            }
        })
    });
    for racer in join_all(racers).await {
        racer.expect("ran");
    }
    assert!(matches!(
        store.lock_reach(),
        LockReach::EveryWriter | LockReach::ThisProcess
    ));
}

async fn nothing_is_visible_before_it_is_whole(store: Arc<dyn InventoryStore>) {
    let body = Bytes::from(vec![b'x'; 400_000]);
    let name = path("inventory/leaves/big.json");
    let reader = {
        let (store, name, body) = (store.clone(), name.clone(), body.clone());
        tokio::spawn(async move {
            loop {
                if let Some(held) = store.get(&name).await.expect("read") {
                    assert_eq!(held.bytes, body, "seen before it was whole");
                    break;
                }
                let listed = store.list(Some(&path("inventory"))).await.expect("listed");
                assert!(
                    listed.iter().all(|listed| *listed == name),
                    "something else shows: {listed:?}"
                );
                tokio::task::yield_now().await;
            }
        })
    };
    assert_eq!(store.create(&name, body).await.expect("created"), Creation::Created);
    reader.await.expect("ran");
}

async fn replacement_is_conditional(store: &dyn InventoryStore) {
    let name = path("catalog.json");
    assert_eq!(
        store.create(&name, bytes("one")).await.expect("created"),
        Creation::Created
    );
    let one = store.get(&name).await.expect("read").expect("there").revision;
    assert_eq!(
        store.replace(&name, &one, bytes("two")).await.expect("answered"),
        Replacement::Replaced
    );
    assert_eq!(
        store.replace(&name, &one, bytes("three")).await.expect("answered"),
        Replacement::Changed
    );
    assert_eq!(
        store.get(&name).await.expect("read").expect("there").bytes,
        bytes("two")
    );
    let two = store.get(&name).await.expect("read").expect("there").revision;
    store.delete(&name).await.expect("deleted");
    assert_eq!(
        store.replace(&name, &two, bytes("four")).await.expect("answered"),
        Replacement::Changed
    );
    assert_eq!(
        store.get(&name).await.expect("read"),
        None,
        "a replacement brings nothing back"
    );
}

async fn deletion(store: &dyn InventoryStore) {
    let name = path("products/p/journal/e.json");
    store.delete(&name).await.expect("deleting what is not there is done");
    assert_eq!(
        store.create(&name, bytes("x")).await.expect("created"),
        Creation::Created
    );
    store.delete(&name).await.expect("deleted");
    store.delete(&name).await.expect("deleted already");
    assert_eq!(store.get(&name).await.expect("read"), None);
    assert_eq!(
        store.create(&name, bytes("y")).await.expect("the name is free"),
        Creation::Created
    );
}

async fn listing(store: &dyn InventoryStore) {
    let names = [
        "CURRENT",
        "inventory/000000000001.json",
        "inventory/000000000002.json",
        "inventory/leaves/aa.json",
        "inventory2/other.json",
        "products/a/journal/e1.json",
        "products/a/journal/e2.json",
        "products/ab/journal/e3.json",
    ];
    for name in names.iter().rev() {
        assert_eq!(
            store.create(&path(name), bytes(name)).await.expect("created"),
            Creation::Created
        );
    }
    let mut all: Vec<_> = names.iter().map(|name| path(name)).collect();
    all.sort();
    assert_eq!(store.list(None).await.expect("listed"), all);
    for (folder, expected) in [
        ("inventory", &names[1..4]),
        ("inventory/leaves", &names[3..4]),
        ("products/a", &names[5..7]),
        ("products/a/journal", &names[5..7]),
        ("products", &names[5..8]),
        ("CURRENT", &[]),
        ("prod", &[]),
    ] {
        let mut expected: Vec<_> = expected.iter().map(|name| path(name)).collect();
        expected.sort();
        assert_eq!(
            store.list(Some(&path(folder))).await.expect("listed"),
            expected,
            "under {folder}"
        );
    }
}

/// A script of operations, cut before and after each of them: what was there before the cut is there, what is there is
/// whole, and running the script again completes it.
async fn faults_leave_old_or_new<F: Future<Output = Arc<dyn InventoryStore>>>(fresh: &impl Fn() -> F) {
    let operations = {
        let store = FaultStore::counting(fresh().await);
        script(&store).await.expect("nothing fails");
        store.operations()
    };
    assert!(operations >= 6, "the script has {operations} operations");
    for operation in 0..operations {
        for fault in [Fault::Before(operation), Fault::After(operation)] {
            for dies in [false, true] {
                let inner = fresh().await;
                let failing = FaultStore::new(inner.clone(), fault, dies);
                script(&failing).await.expect_err("the fault shows");
                let leaf = inner.get(&path("inventory/leaves/a.json")).await.expect("read");
                let root = inner.get(&path("inventory/000000000001.json")).await.expect("read");
                let current = inner.get(&path("CURRENT")).await.expect("read");
                assert!(leaf.iter().all(|held| held.bytes == bytes("leaf")));
                assert!(root.iter().all(|held| held.bytes == bytes("root")));
                assert!(
                    current
                        .iter()
                        .all(|held| held.bytes == bytes("0") || held.bytes == bytes("1"))
                );
                assert!(
                    root.is_none() || leaf.is_some(),
                    "a root without its leaf after {fault:?}"
                );
                script(&*inner).await.expect("a second run completes it");
                assert_eq!(
                    inner.get(&path("CURRENT")).await.expect("read").expect("there").bytes,
                    bytes("1")
                );
            }
        }
    }
}

async fn script(store: &dyn InventoryStore) -> Result<(), super::StoreError> {
    let _ = store.create(&path("CURRENT"), bytes("0")).await?;
    let _ = store.create(&path("inventory/leaves/a.json"), bytes("leaf")).await?;
    let _ = store
        .create(&path("inventory/000000000001.json"), bytes("root"))
        .await?;
    if let Some(held) = store.get(&path("CURRENT")).await? {
        let _ = store.replace(&path("CURRENT"), &held.revision, bytes("1")).await?;
    }
    store.delete(&path("products/p/journal/e.json")).await
}
