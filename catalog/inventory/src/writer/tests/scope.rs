//! Who writes, under which name, and what a writer leaves alone.

use std::{os::unix::fs::MetadataExt as _, path::Path, sync::Arc, time::Duration};

use crate::{
    doc::{Catalog, CatalogId, JsonObject, Root, Stored, layout},
    store::{InventoryStore, LocalStore, MemoryStore, testing::FaultStore},
    transition::Operation,
    writer::{
        CommitError, Identity, NewCatalog, Planned, WriteError, Writer,
        testing::{
            World, bytes_at, catalogue, identity, new_catalog, newest, overwrite, product, root_at, seq, writer_over,
        },
    },
};

/// INV-158: each version bears the name of the writer that wrote it. Reasons, extension sections and the manifest's producer are a
/// caller's words and change nothing about it.
#[tokio::test]
async fn the_actor_is_the_writers_own() {
    let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let (first, clock) = catalogue(&store, false).await;
    let other = Identity {
        actor: "night-shift@test".parse().expect("a name"),
        ..identity()
    };
    let second = Writer::new(store.clone(), other.clone(), clock);
    let mut world = World::new();
    for (writer, name) in [(&first, "a"), (&second, "b"), (&first, "c")] {
        let operations = [Operation::Seal(world.edition(name, 1, None))];
        let mut section = JsonObject::new();
        section.insert("format_version", "1");
        section.insert("actor", "somebody-else@test");
        let mut claims = JsonObject::new();
        claims.insert("claims", section);
        let outcome = writer
            .commit(|base| {
                let planned = world.decide(base, &operations)?;
                Ok::<_, crate::transition::Refusal>(planned.map(|planned| Planned {
                    reason: "actor: somebody-else@test".to_owned(),
                    extensions: Some(claims.clone()),
                    ..planned
                }))
            })
            .await
            .expect("written");
        assert!(outcome.committed().is_some());
    }
    let own = identity().actor;
    let expected = [&own, &own, &other.actor, &own];
    for (number, actor) in (1..).zip(expected) {
        let root: Stored<Root> = root_at(&store, number).await;
        assert_eq!(root.event.actor, *actor, "version {number}");
    }
}

/// Inode and change time of a file: either is another one once it was written again.
fn written(root: &Path, name: &str) -> (u64, i64, i64) {
    let metadata = std::fs::metadata(root.join(name)).expect("the file is there");
    (metadata.ino(), metadata.mtime(), metadata.mtime_nsec())
}

/// INV-247: a leaf that is there is skipped, under the lock, opted in or not: a commit that finds the leaves of one that died before
/// its root names them and writes none of them again.
#[tokio::test]
async fn a_leaf_that_is_there_is_skipped_under_the_lock() {
    for opted_in in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let store: Arc<dyn InventoryStore> = Arc::new(LocalStore::open(folder.path()).expect("a store"));
        let (writer, clock) = catalogue(&store, false).await;
        if opted_in {
            writer.opt_in().await.expect("opted in");
        }
        let mut world = World::new();
        let sealed = world.edition("a", 1, None);
        // The twin writes the same version at the same time of the same clock, so its leaf is the one left behind.
        let twin: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
        let (twin_writer, _) = catalogue(&twin, false).await;
        let leaf = world.seal(&twin_writer, &sealed).await.head.root().products[&product("a")].path();
        overwrite(&store, &leaf, bytes_at(&twin, &leaf).await.expect("the leaf")).await;
        let before = written(folder.path(), &leaf);
        tokio::time::sleep(Duration::from_millis(20)).await;

        let log = Arc::new(FaultStore::counting(store.clone()));
        let committed = world.seal(&writer_over(log.clone(), &clock), &sealed).await;
        assert_eq!(committed.head.root().products[&product("a")].path(), leaf);
        assert_eq!(written(folder.path(), &leaf), before, "it was written again");
        let lines = log.log();
        let position = |what: String| lines.iter().position(|line| *line == what);
        let (locked, looked) = (
            position("locking LOCK".to_owned()),
            position(format!("creating {leaf}")),
        );
        assert!(locked.is_some() && locked < looked, "{lines:?}");
        assert!(
            !lines
                .iter()
                .any(|line| line.starts_with("replacing inventory/") || line.starts_with("deleting"))
        );
    }
}

/// INV-281: `HISTORY` is written at the opt-in, under the lock, which waits for whoever holds it; commits, repairs and a second
/// opt-in leave it alone.
#[tokio::test]
async fn history_is_written_under_the_lock_only() {
    let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let (writer, clock) = catalogue(&store, false).await;
    let held = store.lock().await.expect("locked");
    let opting = tokio::spawn({
        let writer = writer.clone();
        async move { writer.opt_in().await }
    });
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        bytes_at(&store, layout::HISTORY).await,
        None,
        "somebody else holds the lock"
    );
    assert!(!opting.is_finished());
    drop(held);
    opting.await.expect("ran").expect("opted in");
    let history = bytes_at(&store, layout::HISTORY).await.expect("it is written now");

    let log = Arc::new(FaultStore::counting(store.clone()));
    let after = writer_over(log.clone(), &clock);
    let mut world = World::new();
    let chain = world.chain("a", 3);
    for sealed in &chain {
        world.seal(&after, sealed).await;
    }
    let repairs = after.repair(&product("a"), |base, _| world.decide(base, &[])).await;
    assert!(repairs.expect("nothing to repair").is_empty());
    after.advance_current_to_head().await.expect("nothing to do");
    after.opt_in().await.expect_err("opted in already");
    let touched: Vec<String> = log
        .log()
        .into_iter()
        .filter(|line| line.ends_with(layout::HISTORY) && !line.starts_with("reading"))
        .collect();
    assert_eq!(touched, Vec::<String>::new());
    assert_eq!(bytes_at(&store, layout::HISTORY).await, Some(history));

    // And the opt-in itself: the lock first, then HISTORY, created and never replaced.
    let other: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let (_, clock) = catalogue(&other, false).await;
    let log = Arc::new(FaultStore::counting(other));
    writer_over(log.clone(), &clock).opt_in().await.expect("opted in");
    let lines = log.log();
    assert_eq!(lines.first().map(String::as_str), Some("locking LOCK"));
    let history: Vec<&String> = lines
        .iter()
        .filter(|line| line.ends_with(layout::HISTORY) && !line.starts_with("reading"))
        .collect();
    assert_eq!(history, [&format!("creating {}", layout::HISTORY)]);
}

/// INV-332: a writer that supports less than the format asks for leaves the catalogue as it lies: one without the lock and the check
/// of `expired_through` refuses format 2, and this one a format it doesn't know, whatever it is asked to do.
#[tokio::test]
async fn a_catalogue_of_a_later_format_is_left_alone() {
    let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let (writer, clock) = catalogue(&store, false).await;
    let mut world = World::new();
    let chain = world.chain("a", 2);
    world.seal(&writer, &chain[0]).await;
    writer.opt_in().await.expect("opted in");
    let opted_in = bytes_at(&store, layout::CATALOG).await.expect("there");
    let unlocked = Catalog::decode_for_writer(&opted_in, crate::doc::WriterSupport::Unlocked);
    let refused = unlocked.expect_err("format 2 asks for more");
    assert_eq!(refused.rule, Some(136));
    assert!(refused.to_string().contains("2.0"), "{refused}");
    assert!(Catalog::decode_for_writer(&opted_in, crate::doc::WriterSupport::LockAndExpiry).is_ok());

    let text = String::from_utf8(opted_in.to_vec()).expect("text");
    let later = text.replace("\"format_version\":\"2.0\"", "\"format_version\":\"3.0\"");
    assert_ne!(later, text);
    overwrite(&store, layout::CATALOG, later).await;
    let before = contents(&store).await;
    let error = world.run(&writer, &[Operation::Seal(chain[1].clone())]).await;
    assert!(
        matches!(error, Err(CommitError::Write(WriteError::Document(_)))),
        "{error:?}"
    );
    assert!(matches!(writer.opt_in().await, Err(WriteError::Document(_))));
    assert!(matches!(
        writer.bump_restore_epoch().await,
        Err(WriteError::Document(_))
    ));
    let again = NewCatalog {
        catalog_id: CatalogId::generate(),
        ..new_catalog(false)
    };
    let created = Writer::create(store.clone(), identity(), clock, again).await;
    assert!(matches!(created, Err(WriteError::Document(_))), "{created:?}");
    assert_eq!(contents(&store).await, before);
    assert_eq!(newest(&store).await.head().root().seq, seq(2), "readers go on");
}

/// Every document of a store.
async fn contents(store: &Arc<dyn InventoryStore>) -> Vec<(String, bytes::Bytes)> {
    let mut contents = Vec::new();
    for path in store.list(None).await.expect("listed") {
        let bytes = store.get(&path).await.expect("read").expect("there").bytes;
        contents.push((path.to_string(), bytes));
    }
    contents
}
