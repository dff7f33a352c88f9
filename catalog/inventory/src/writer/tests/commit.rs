//! What one commit writes, and on what it refuses to build.

use std::sync::Arc;

use chrono::TimeDelta;

use crate::{
    doc::{
        Catalog, Current, Document as _, Epoch, EventKind, FormatVersion, History, RootRef, SegmentPath, Sha256, layout,
    },
    reader::{FullInventory, ReadError},
    store::{
        InventoryStore, MemoryStore,
        testing::{Fault, FaultStore},
    },
    transition::{EditionKey, Operation, Refusal},
    writer::{
        CommitError, WriteError, Writer,
        testing::{
            World, at, bytes_at, catalogue, identity, new_catalog, newest, overwrite, overwrite_doc, path, product,
            reference, root_at, seq, writer_over,
        },
    },
};

fn memory() -> Arc<dyn InventoryStore> {
    Arc::new(MemoryStore::new())
}

async fn current(store: &Arc<dyn InventoryStore>) -> Option<RootRef> {
    let bytes = bytes_at(store, layout::CURRENT).await?;
    Some(Current::decode(&bytes).expect("decodes").root)
}

/// INV-150, INV-153, INV-156, INV-161: a new catalogue has one version, which holds nothing and says whether there is an embargo.
#[tokio::test]
async fn a_new_catalogue_has_an_empty_first_version() {
    let store = memory();
    catalogue(&store, true).await;
    let root = root_at(&store, 1).await;
    assert!(root.embargo);
    assert_eq!(root.previous_inventory, None);
    assert_eq!(root.event.kind, EventKind::EmbargoChange);
    assert_eq!(root.event.actor, identity().actor);
    let history = root.history.as_ref().expect("both history fields");
    assert_eq!((history.previous_root_sha256, history.changes.len()), (None, 0));
    assert_eq!(current(&store).await, Some(reference(&root)));
}

/// INV-168, INV-246, INV-425: a change of one product among several writes one leaf and one root, and reuses the other leaves.
#[tokio::test]
async fn a_change_of_one_product_writes_one_leaf_and_one_root() {
    let store = memory();
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        let sealed = world.edition(name, 1, None);
        world.seal(&writer, &sealed).await;
    }
    let before = store.list(None).await.expect("listed");
    let next = world.edition("b", 2, Some(world_first(&store, "b").await));
    let committed = world.seal(&writer, &next).await;
    let after = store.list(None).await.expect("listed");
    let new: Vec<_> = after
        .iter()
        .filter(|path| !before.contains(path))
        .map(ToString::to_string)
        .collect();
    let leaf = committed.head.root().products[&product("b")].path();
    assert_eq!(new, [layout::root(seq(5)), leaf]);
    assert_eq!(before.len() + 2, after.len());
}

async fn world_first(store: &Arc<dyn InventoryStore>, name: &str) -> crate::doc::EditionId {
    newest(store).await.leaves()[&product(name)].editions[0].edition_id
}

/// INV-167, INV-248, INV-293: lock, leaves, root, `CURRENT`, in this order, and nothing after.
#[tokio::test]
async fn leaves_come_before_the_root_and_the_root_before_current() {
    let inner = memory();
    let (_, clock) = catalogue(&inner, false).await;
    let counting = Arc::new(FaultStore::counting(inner));
    let mut world = World::new();
    let sealed = world.edition("a", 1, None);
    let committed = world.seal(&writer_over(counting.clone(), &clock), &sealed).await;
    let leaf = committed.head.root().products[&product("a")].path();
    let log = counting.log();
    assert_eq!(log[0], "locking LOCK", "INV-293: before the first look at the head");
    let writes: Vec<_> = log
        .iter()
        .filter(|line| line.starts_with("creating") || line.starts_with("replacing"))
        .collect();
    let root = layout::root(seq(2));
    assert_eq!(
        writes,
        [
            &format!("creating {leaf}"),
            &format!("creating {root}"),
            "replacing CURRENT"
        ]
    );
    assert_eq!(log.last().map(String::as_str), Some("replacing CURRENT"));
    assert!(
        !log.iter().any(|line| line.starts_with("listing")),
        "INV-257: no LIST: {log:?}"
    );
}

/// INV-252, INV-327: a clock that stands still or runs behind dates each version a millisecond after its base, and an epoch
/// change doesn't start time anew.
#[tokio::test]
async fn created_at_only_goes_forward_also_across_an_epoch_change() {
    let store = memory();
    let (writer, clock) = catalogue(&store, false).await;
    let mut world = World::new();
    let chain = world.chain("a", 3);
    world.seal(&writer, &chain[0]).await;
    clock.set("2026-03-01T08:28:00Z");
    world.seal(&writer, &chain[1]).await;
    assert_eq!(
        writer.bump_restore_epoch().await.expect("bumped"),
        Epoch::new(1).expect("an epoch")
    );
    world.seal(&writer, &chain[2]).await;
    let mut times = Vec::new();
    for number in 1..=4 {
        times.push(root_at(&store, number).await.created_at);
    }
    assert_eq!(times[0], at("2026-03-01T08:30:00Z"));
    for pair in times.windows(2) {
        assert_eq!(pair[1].since(pair[0]), TimeDelta::milliseconds(1));
    }
    let newest = newest(&store).await;
    let head = newest.head().root();
    assert_eq!((head.seq, head.restore_epoch.get()), (seq(4), 1), "INV-151");
    let live = newest
        .entry(&product("a"), &chain[2].manifest.edition_id)
        .expect("recorded");
    assert_eq!(
        live.state_changed_at, head.created_at,
        "the entry took its state when the version was made"
    );
}

/// INV-253: a base version more than five minutes ahead is refused, with its time in the message; nothing is written.
#[tokio::test]
async fn a_base_far_ahead_of_the_clock_is_refused() {
    let store = memory();
    let (writer, clock) = catalogue(&store, false).await;
    let mut world = World::new();
    let sealed = world.edition("a", 1, None);
    let before = store.list(None).await.expect("listed");
    clock.set("2026-03-01T08:24:59.999Z");
    let error = world
        .run(&writer, &[Operation::Seal(sealed.clone())])
        .await
        .expect_err("refused");
    assert!(
        matches!(error, CommitError::Write(WriteError::Rule(Refusal::BaseAhead { .. }))),
        "{error:?}"
    );
    assert!(error.to_string().contains("2026-03-01T08:30:00"), "{error}");
    assert_eq!(store.list(None).await.expect("listed"), before);
    clock.set("2026-03-01T08:25:00Z");
    world.seal(&writer, &sealed).await;
}

/// INV-147: `CURRENT` goes forward only; a later version in it is left, one that was never written is not believed.
#[tokio::test]
async fn current_only_moves_forward() {
    let store = memory();
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    let chain = world.chain("a", 2);
    world.seal(&writer, &chain[0]).await;
    world.seal(&writer, &chain[1]).await;
    let third = reference(&root_at(&store, 3).await);
    writer
        .advance_current(reference(&root_at(&store, 2).await))
        .await
        .expect("nothing to do");
    assert_eq!(current(&store).await, Some(third), "not moved back");
    for wrong in [
        RootRef {
            root_sha256: Sha256::of(b"other"),
            ..third
        },
        RootRef { seq: seq(99), ..third },
        RootRef {
            restore_epoch: Epoch::new(4).expect("an epoch"),
            ..third
        },
    ] {
        overwrite_doc(&store, layout::CURRENT, &Current { root: wrong }).await;
        writer.advance_current(third).await.expect("corrected");
        assert_eq!(
            current(&store).await,
            Some(third),
            "{wrong:?} names nothing that is there"
        );
    }
    overwrite(&store, layout::CURRENT, "{").await;
    writer.advance_current(third).await.expect("corrected");
    assert_eq!(current(&store).await, Some(third));
}

/// INV-259: a release job's start brings a lagging or missing `CURRENT` up to the newest version.
#[tokio::test]
async fn a_start_brings_current_up_to_the_newest_root() {
    let store = memory();
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    for sealed in world.chain("a", 3) {
        world.seal(&writer, &sealed).await;
    }
    let first = reference(&root_at(&store, 1).await);
    let newest = reference(&root_at(&store, 4).await);
    overwrite_doc(&store, layout::CURRENT, &Current { root: first }).await;
    assert_eq!(writer.advance_current_to_head().await.expect("advanced"), Some(newest));
    assert_eq!(current(&store).await, Some(newest));
    store.delete(&path(layout::CURRENT)).await.expect("deleted");
    assert_eq!(writer.advance_current_to_head().await.expect("advanced"), Some(newest));
    assert_eq!(current(&store).await, Some(newest));
}

/// INV-255, INV-334: on an opted-in catalogue a base at or below `expired_through` is refused, against a `HISTORY` read after the
/// lock was taken; one above is built on.
#[tokio::test]
async fn a_base_that_has_expired_is_refused() {
    let store = memory();
    let (writer, clock) = catalogue(&store, false).await;
    writer.opt_in().await.expect("opted in");
    let mut world = World::new();
    let chain = world.chain("a", 3);
    world.seal(&writer, &chain[0]).await;
    let expire = |through| {
        let store = store.clone();
        async move {
            let bytes = bytes_at(&store, layout::HISTORY).await.expect("HISTORY");
            let mut history = History::decode(&bytes).expect("decodes");
            history.expired_through = Some(seq(through));
            history.newest_segment = Some((
                SegmentPath::generate(Epoch::FIRST, seq(1), seq(through)),
                Sha256::of(b"segment"),
            ));
            overwrite_doc(&store, layout::HISTORY, &history).await;
        }
    };
    expire(1).await;
    world.seal(&writer, &chain[1]).await;
    // Expiry goes on while this writer waits for the lock.
    let log = Arc::new(FaultStore::counting(store.clone()));
    expire(3).await;
    let error = world
        .run(&writer_over(log.clone(), &clock), &[Operation::Seal(chain[2].clone())])
        .await
        .expect_err("refused");
    assert!(
        matches!(error, CommitError::Write(WriteError::Expired { seq: base, expired_through })
            if base == seq(3) && expired_through == seq(3)),
        "{error:?}"
    );
    let position = |what: &str| log.log().iter().position(|line| line == what).expect(what);
    assert!(
        position("locking LOCK") < position("reading inventory/HISTORY"),
        "INV-255: after taking the lock"
    );
    assert_eq!(bytes_at(&store, &layout::root(seq(4))).await, None);
}

/// INV-150, INV-165, INV-325: a correction names the version it was built from, but links and lists against the version before it.
#[tokio::test]
async fn a_correction_links_the_version_before_it() {
    let store = memory();
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    let chain = world.chain("a", 2);
    world.seal(&writer, &chain[0]).await;
    let good = newest(&store).await.to_version().expect("a version");
    world.seal(&writer, &chain[1]).await;
    let head = root_at(&store, 3).await;
    let correct = Operation::Correct {
        to: good,
        products: [product("a")].into(),
    };
    let committed = world.run(&writer, &[correct]).await.expect("corrected");
    let root = committed.head.root();
    assert_eq!((root.seq, root.previous_inventory), (seq(4), Some(seq(2))));
    let history = root.history.as_ref().expect("history fields");
    assert_eq!(
        history.previous_root_sha256,
        Some(head.sha256()),
        "the base version is root 3"
    );
    assert_eq!(
        history.changes[0].leaf_sha256.from,
        Some(head.products[&product("a")].leaf_sha256)
    );
    assert_eq!(
        root.products,
        root_at(&store, 2).await.products,
        "the older leaf as it was"
    );
}

/// INV-148: a creation whose answer is lost still counts: the writer reads back what is there and reports the version it made.
#[tokio::test]
async fn a_root_whose_creation_lost_its_answer_is_the_writers_own() {
    let inner = memory();
    let (_, clock) = catalogue(&inner, false).await;
    let mut world = World::new();
    let chain = world.chain("a", 1);
    let probe = Arc::new(FaultStore::counting(Arc::new(MemoryStore::new())));
    let (_, probe_clock) = catalogue(&(probe.clone() as Arc<dyn InventoryStore>), false).await;
    let before = probe.operations();
    world.seal(&writer_over(probe.clone(), &probe_clock), &chain[0]).await;
    let creation = probe.log()[before..]
        .iter()
        .position(|line| *line == format!("creating {}", layout::root(seq(2))));
    let fault = Fault::After(creation.expect("a root was created"));
    let committed = world
        .seal(
            &writer_over(Arc::new(FaultStore::new(inner.clone(), fault, false)), &clock),
            &chain[0],
        )
        .await;
    assert_eq!(committed.head.root().seq, seq(2));
    assert_eq!(newest(&inner).await.head(), &committed.head);
}

/// INV-243, INV-260: a root that is empty or garbage, as a writer without exclusive creation leaves it, blocks writing with a
/// message that names it, and is never overwritten.
#[tokio::test]
async fn an_invalid_root_in_the_way_is_named_and_kept() {
    for garbage in ["", "{", "{\"seq\":2}"] {
        let store = memory();
        let (writer, _) = catalogue(&store, false).await;
        let mut world = World::new();
        let sealed = world.edition("a", 1, None);
        overwrite(&store, &layout::root(seq(2)), garbage).await;
        let error = world
            .run(&writer, &[Operation::Seal(sealed)])
            .await
            .expect_err("blocked");
        assert!(
            matches!(&error, CommitError::Write(WriteError::Blocked { seq: blocked, head, .. })
                if *blocked == seq(2) && *head == Some(seq(1))),
            "{error:?}"
        );
        assert_eq!(bytes_at(&store, &layout::root(seq(2))).await.expect("kept"), garbage);
    }
}

/// INV-258: a `CURRENT` that names a version which is gone means lost versions; writing would use their numbers again.
#[tokio::test]
async fn lost_versions_are_not_written_over() {
    let store = memory();
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    let chain = world.chain("a", 3);
    world.seal(&writer, &chain[0]).await;
    world.seal(&writer, &chain[1]).await;
    store.delete(&path(&layout::root(seq(3)))).await.expect("lost");
    let error = world
        .run(&writer, &[Operation::Seal(chain[1].clone())])
        .await
        .expect_err("refused");
    assert!(
        matches!(&error, CommitError::Write(WriteError::CurrentAhead { named, head })
            if *named == seq(3) && *head == Some(seq(2))),
        "{error:?}"
    );
    // A failover that is counted says that the loss is known.
    writer.bump_restore_epoch().await.expect("bumped");
    world.seal(&writer, &chain[1]).await;
    assert_eq!(newest(&store).await.head().root().restore_epoch.get(), 1);
}

/// INV-246: a leaf that is there under its name with other bytes is refused before a root rests on it.
#[tokio::test]
async fn a_leaf_with_other_bytes_than_its_name_is_refused() {
    let twin = memory();
    let (twin_writer, _) = catalogue(&twin, false).await;
    let mut world = World::new();
    let sealed = world.edition("a", 1, None);
    let leaf = world.seal(&twin_writer, &sealed).await.head.root().products[&product("a")].path();

    let store = memory();
    let (writer, _) = catalogue(&store, false).await;
    overwrite(&store, &leaf, "{\"product_id\":\"evil\"}").await;
    let error = world
        .run(&writer, &[Operation::Seal(sealed.clone())])
        .await
        .expect_err("refused");
    assert!(
        matches!(error, CommitError::Write(WriteError::LeafDiffers { .. })),
        "{error:?}"
    );
    assert_eq!(bytes_at(&store, &layout::root(seq(2))).await, None);

    // INV-296: one with the right bytes is skipped.
    overwrite(&store, &leaf, bytes_at(&twin, &leaf).await.expect("the leaf")).await;
    world.seal(&writer, &sealed).await;
}

/// INV-167: a head whose leaf is gone or was changed is not built on.
#[tokio::test]
async fn a_head_without_its_leaves_is_not_built_on() {
    let store = memory();
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    let chain = world.chain("a", 2);
    let leaf = world.seal(&writer, &chain[0]).await.head.root().products[&product("a")].path();
    overwrite(&store, &leaf, "{}").await;
    let error = world
        .run(&writer, &[Operation::Seal(chain[1].clone())])
        .await
        .expect_err("refused");
    assert!(
        matches!(error, CommitError::Write(WriteError::Read(ReadError::Leaf { .. }))),
        "{error:?}"
    );
    store.delete(&path(&leaf)).await.expect("deleted");
    let error = world
        .run(&writer, &[Operation::Seal(chain[1].clone())])
        .await
        .expect_err("refused");
    assert!(
        matches!(
            error,
            CommitError::Write(WriteError::Read(ReadError::LeafMissing { .. }))
        ),
        "{error:?}"
    );
}

/// INV-30: where other files lie and no `catalog.json`, no catalogue is made and nothing is created.
#[tokio::test]
async fn a_catalogue_is_not_made_among_other_files() {
    for found in [
        "meta.duckdb",
        "bundle.manifest.json",
        "CURRENT",
        "inventory/000000000001.json",
    ] {
        let store = memory();
        overwrite(&store, found, "old").await;
        let clock = super::super::testing::ManualClock::new();
        let error = Writer::create(store.clone(), identity(), clock, new_catalog(false))
            .await
            .expect_err("refused");
        assert!(
            matches!(&error, WriteError::NotEmpty { found: named } if named == found),
            "{error:?}"
        );
        assert_eq!(store.list(None).await.expect("listed"), [path(found)]);
    }
}

/// INV-131: a catalogue is made once.
#[tokio::test]
async fn a_second_catalogue_in_one_place_is_refused() {
    let store = memory();
    let (_, clock) = catalogue(&store, false).await;
    let before = bytes_at(&store, layout::CATALOG).await;
    let error = Writer::create(store.clone(), identity(), clock, new_catalog(true))
        .await
        .expect_err("refused");
    assert!(
        matches!(error, WriteError::CatalogExists { newest, .. } if newest == seq(1)),
        "{error:?}"
    );
    assert_eq!(bytes_at(&store, layout::CATALOG).await, before);
}

/// INV-136, INV-137: a writer reads `catalog.json` on every commit: without it, in a newer format, or with format 2 and no
/// `HISTORY`, nothing is written.
#[tokio::test]
async fn a_writer_reads_catalog_json_on_every_commit() {
    let store = memory();
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    let sealed = world.edition("a", 1, None);
    let good = Catalog::decode(&bytes_at(&store, layout::CATALOG).await.expect("there")).expect("decodes");
    let refused = |store: &Arc<dyn InventoryStore>| {
        let (writer, world, sealed, store) = (writer.clone(), world.clone(), sealed.clone(), store.clone());
        async move {
            let error = world
                .run(&writer, &[Operation::Seal(sealed)])
                .await
                .expect_err("refused");
            assert_eq!(bytes_at(&store, &layout::root(seq(2))).await, None);
            error.to_string()
        }
    };
    store.delete(&path(layout::CATALOG)).await.expect("deleted");
    assert!(refused(&store).await.contains("no catalog.json"));
    let newer = String::from_utf8(good.encode().expect("encodes"))
        .expect("text")
        .replace("\"1.0\"", "\"3.0\"");
    overwrite(&store, layout::CATALOG, newer).await;
    assert!(refused(&store).await.contains("newer"), "INV-192");
    overwrite_doc(&store, layout::CATALOG, &good.clone().opted_in(seq(1))).await;
    assert!(refused(&store).await.contains("INV-137"));
    assert_eq!(good.format_version, FormatVersion::CATALOG);
    overwrite_doc(&store, layout::CATALOG, &good).await;
    world.seal(&writer, &sealed).await;
}

/// INV-151: a chain of a later epoch than `catalog.json` is not built on.
#[tokio::test]
async fn an_epoch_that_went_back_is_refused() {
    let store = memory();
    let (writer, _) = catalogue(&store, false).await;
    let old = bytes_at(&store, layout::CATALOG).await.expect("there");
    let mut world = World::new();
    let chain = world.chain("a", 2);
    writer.bump_restore_epoch().await.expect("bumped");
    world.seal(&writer, &chain[0]).await;
    overwrite(&store, layout::CATALOG, old).await;
    let error = world
        .run(&writer, &[Operation::Seal(chain[1].clone())])
        .await
        .expect_err("refused");
    assert!(
        matches!(error, CommitError::Write(WriteError::EpochBehind { .. })),
        "{error:?}"
    );
}

/// A version that changes nothing and a decision for nothing write nothing.
#[tokio::test]
async fn a_decision_for_nothing_writes_nothing() {
    let store = memory();
    let (writer, _) = catalogue(&store, false).await;
    let before = store.list(None).await.expect("listed");
    let outcome = writer.commit(|_| Ok::<_, Refusal>(None)).await.expect("decided");
    assert!(outcome.committed().is_none());
    let mut world = World::new();
    let sealed = world.edition("a", 1, None);
    let key = EditionKey::new(product("a"), sealed.manifest.edition_id);
    let error = world
        .run(&writer, &[Operation::Cancel { edition: key }])
        .await
        .expect_err("refused");
    assert!(matches!(error, CommitError::Refused(_)), "{error:?}");
    assert_eq!(store.list(None).await.expect("listed"), before);
}

/// INV-386: what a reader loads of a version is what was written.
#[tokio::test]
async fn a_version_read_back_is_the_version_written() {
    let store = memory();
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    let sealed = world.edition("a", 1, None);
    let committed = world.seal(&writer, &sealed).await;
    assert!(committed.current.is_ok());
    let full = FullInventory::load(&*store, committed.head.clone(), None)
        .await
        .expect("loads");
    let entry = full
        .entry(&product("a"), &sealed.manifest.edition_id)
        .expect("recorded");
    assert_eq!(entry.manifest_sha256, sealed.manifest.sha256());
    assert_eq!(newest(&store).await.head(), &committed.head);
}
