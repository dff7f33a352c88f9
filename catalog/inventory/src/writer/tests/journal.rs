//! The seal journal and what it allows a repair to do.

use std::sync::Arc;

use crate::{
    doc::{Document as _, EditionId, Journal, layout},
    store::{InventoryStore, MemoryStore},
    transition::{EditionKey, Operation, Refusal, RepairRefused, SealedEdition},
    writer::{
        CommitError, Repair, WriteError, Writer,
        testing::{World, at, bytes_at, catalogue, newest, overwrite, overwrite_doc, product, root_at, seq},
    },
};

fn journal_of(sealed: &SealedEdition) -> Journal {
    Journal {
        product_id: sealed.manifest.product_id.clone(),
        edition_id: sealed.manifest.edition_id,
        previous: sealed.manifest.previous,
        sealed_at: at("2026-03-01T08:10:00Z"),
        release_at: None,
    }
}

/// What a seal leaves when it dies between its manifest and its version.
pub(super) async fn seal_without_recording(writer: &Writer, sealed: &SealedEdition) {
    writer.begin_seal(&journal_of(sealed)).await.expect("journalled");
    put_manifest(writer.store(), sealed).await;
}

async fn put_manifest(store: &Arc<dyn InventoryStore>, sealed: &SealedEdition) {
    let name = layout::manifest(&sealed.manifest.product_id, &sealed.manifest.edition_id);
    overwrite(store, &name, sealed.manifest.bytes().clone()).await;
}

async fn repair(writer: &Writer, world: &World, sealed: &SealedEdition) -> Result<Vec<Repair>, CommitError<Refusal>> {
    let operation = Operation::Seal(sealed.clone());
    let mut decided = 0;
    let repairs = writer
        .repair(&sealed.manifest.product_id, |base, unrecorded| {
            assert_eq!(unrecorded.manifest.sha256(), sealed.manifest.sha256());
            decided += 1;
            world.decide(base, std::slice::from_ref(&operation))
        })
        .await;
    if !matches!(&repairs, Ok(repairs) if repairs.iter().any(|repair| matches!(repair, Repair::Recorded { .. }))) {
        assert_eq!(decided, 0, "nothing that isn't recorded was judged");
    }
    repairs
}

async fn setup() -> (Arc<dyn InventoryStore>, Writer, World) {
    let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let (writer, _) = catalogue(&store, false).await;
    (store, writer, World::new())
}

/// INV-34, INV-268: the journal is there before the manifest, beginning again is no error, and recording removes it.
#[tokio::test]
async fn a_journal_is_written_once_and_removed_once_recorded() {
    let (store, writer, mut world) = setup().await;
    let sealed = world.edition("a", 1, None);
    let journal = journal_of(&sealed);
    writer.begin_seal(&journal).await.expect("journalled");
    let later = Journal {
        sealed_at: at("2026-03-01T09:00:00Z"),
        ..journal.clone()
    };
    writer.begin_seal(&later).await.expect("a resumed seal begins again");
    let other = Journal {
        previous: Some(EditionId::generate()),
        ..journal.clone()
    };
    let error = writer
        .begin_seal(&other)
        .await
        .expect_err("another seal of the same edition");
    assert!(matches!(error, WriteError::JournalExists { .. }), "{error:?}");
    let name = layout::journal(&journal.product_id, &journal.edition_id);
    assert_eq!(
        Journal::decode(&bytes_at(&store, &name).await.expect("there")),
        Ok(journal.clone())
    );
    writer
        .end_seal(&journal.product_id, &journal.edition_id)
        .await
        .expect("removed");
    assert_eq!(bytes_at(&store, &name).await, None);
}

/// INV-269, INV-270: an edition with a journal and a manifest that no version names is recorded, and its journal removed.
#[tokio::test]
async fn a_sealed_edition_that_was_not_recorded_is_recorded() {
    let (store, writer, mut world) = setup().await;
    let sealed = world.edition("a", 1, None);
    seal_without_recording(&writer, &sealed).await;
    assert!(newest(&store).await.leaves().is_empty(), "INV-269");
    let edition_id = sealed.manifest.edition_id;
    let repairs = repair(&writer, &world, &sealed).await.expect("repaired");
    assert_eq!(
        repairs,
        [Repair::Recorded {
            edition_id,
            seq: seq(2)
        }]
    );
    assert!(newest(&store).await.entry(&product("a"), &edition_id).is_some());
    assert_eq!(repair(&writer, &world, &sealed).await.expect("nothing left"), []);
}

/// INV-270: without a journal a manifest is left alone, and without a manifest a journal is.
#[tokio::test]
async fn without_a_journal_or_a_manifest_nothing_is_recorded() {
    let (store, writer, mut world) = setup().await;
    let sealed = world.edition("a", 1, None);
    put_manifest(&store, &sealed).await;
    assert_eq!(repair(&writer, &world, &sealed).await.expect("nothing to do"), []);
    let unsealed = world.edition("b", 1, None);
    writer.begin_seal(&journal_of(&unsealed)).await.expect("journalled");
    let expected = [Repair::Unsealed(unsealed.manifest.edition_id)];
    assert_eq!(
        repair(&writer, &world, &unsealed).await.expect("nothing to do"),
        expected
    );
    assert_eq!(newest(&store).await.head().root().seq, seq(1));
    let name = layout::journal(&product("b"), &unsealed.manifest.edition_id);
    assert!(
        bytes_at(&store, &name).await.is_some(),
        "a resumed build still needs it"
    );
}

/// INV-34: a journal left over after its edition was recorded is removed, and nothing is recorded again.
#[tokio::test]
async fn a_left_over_journal_is_removed() {
    let (store, writer, mut world) = setup().await;
    let sealed = world.edition("a", 1, None);
    seal_without_recording(&writer, &sealed).await;
    world.seal(&writer, &sealed).await;
    let expected = [Repair::AlreadyRecorded(sealed.manifest.edition_id)];
    assert_eq!(repair(&writer, &world, &sealed).await.expect("removed"), expected);
    assert_eq!(newest(&store).await.head().root().seq, seq(2));
    assert_eq!(repair(&writer, &world, &sealed).await.expect("nothing left"), []);
}

/// INV-270, INV-442, INV-450: an edition that was rolled back and then retired is a tombstone: a leftover journal and its manifest,
/// which names the live edition as `previous`, don't bring it back.
#[tokio::test]
async fn a_withdrawn_and_retired_edition_does_not_come_back() {
    let (store, writer, mut world) = setup().await;
    let chain = world.chain("a", 2);
    world.seal(&writer, &chain[0]).await;
    seal_without_recording(&writer, &chain[1]).await;
    world.seal(&writer, &chain[1]).await;
    let rollback = Operation::Rollback(crate::transition::Rollback {
        product_id: product("a"),
        if_live: chain[1].manifest.edition_id,
        to: chain[0].manifest.edition_id,
    });
    world.run(&writer, &[rollback]).await.expect("rolled back");
    let versions = newest(&store).await.head().root().seq;
    let expected = [Repair::AlreadyRecorded(chain[1].manifest.edition_id)];
    assert_eq!(repair(&writer, &world, &chain[1]).await.expect("left"), expected);
    assert_eq!(newest(&store).await.head().root().seq, versions);

    // The same for one that only an older version names: taken out by hand, without a tombstone.
    let mut root = root_at(&store, 4).await.into_value();
    root.products.clear();
    root.retired.clear();
    root.history = None;
    overwrite_doc(&store, &layout::root(seq(4)), &root).await;
    store
        .delete(&crate::writer::testing::path(layout::CURRENT))
        .await
        .expect("deleted");
    writer.begin_seal(&journal_of(&chain[1])).await.expect("journalled");
    let expected = [Repair::NamedBefore {
        edition_id: chain[1].manifest.edition_id,
        seq: seq(3),
    }];
    assert_eq!(repair(&writer, &world, &chain[1]).await.expect("left"), expected);
}

/// INV-270: versions from before the change lists are asked by their leaves.
#[tokio::test]
async fn an_old_version_without_a_change_list_names_by_its_leaf() {
    let (store, writer, mut world) = setup().await;
    let sealed = world.edition("a", 1, None);
    world.seal(&writer, &sealed).await;
    for number in [1, 2] {
        let mut root = root_at(&store, number).await.into_value();
        root.history = None;
        overwrite_doc(&store, &layout::root(seq(number)), &root).await;
    }
    let mut third = root_at(&store, 2).await.into_value();
    third.seq = seq(3);
    third.previous_inventory = Some(seq(2));
    third.products.clear();
    overwrite_doc(&store, &layout::root(seq(3)), &third).await;
    store
        .delete(&crate::writer::testing::path(layout::CURRENT))
        .await
        .expect("deleted");
    seal_without_recording(&writer, &sealed).await;
    let expected = [Repair::NamedBefore {
        edition_id: sealed.manifest.edition_id,
        seq: seq(2),
    }];
    assert_eq!(repair(&writer, &world, &sealed).await.expect("left"), expected);
}

/// INV-268: a journal and a manifest that disagree, or lie under another name, are refused, naming both.
#[tokio::test]
async fn a_journal_that_disagrees_with_its_manifest_is_refused() {
    let (store, writer, mut world) = setup().await;
    let sealed = world.edition("a", 1, None);
    put_manifest(&store, &sealed).await;
    let journal = Journal {
        previous: Some(EditionId::generate()),
        ..journal_of(&sealed)
    };
    writer.begin_seal(&journal).await.expect("journalled");
    let error = repair(&writer, &world, &sealed).await.expect_err("refused");
    assert!(
        matches!(
            error,
            CommitError::Write(WriteError::Repair(RepairRefused::JournalDisagrees { .. }))
        ),
        "{error:?}"
    );
    writer
        .end_seal(&journal.product_id, &journal.edition_id)
        .await
        .expect("removed");

    let elsewhere = layout::journal(&product("a"), &EditionId::generate());
    overwrite_doc(&store, &elsewhere, &journal_of(&sealed)).await;
    let error = repair(&writer, &world, &sealed).await.expect_err("refused");
    assert!(
        matches!(error, CommitError::Write(WriteError::Document(_))),
        "{error:?}"
    );
    overwrite(&store, &elsewhere, "{}").await;
    let error = repair(&writer, &world, &sealed).await.expect_err("refused");
    assert!(
        matches!(error, CommitError::Write(WriteError::Document(_))),
        "{error:?}"
    );
    let key = EditionKey::new(product("a"), sealed.manifest.edition_id);
    assert_eq!(newest(&store).await.to_version().expect("a version").status(&key), None);
}

/// INV-205, INV-270: recording by a repair is judged like every other commit: one whose base was replaced meanwhile is refused.
#[tokio::test]
async fn a_repair_is_judged_like_every_commit() {
    let (store, writer, mut world) = setup().await;
    let (left, winner) = (world.edition("a", 1, None), world.edition("a", 2, None));
    seal_without_recording(&writer, &left).await;
    world.seal(&writer, &winner).await;
    let operation = Operation::Seal(left.clone());
    let error = writer
        .repair(&product("a"), |base, _| {
            world.decide(base, std::slice::from_ref(&operation))
        })
        .await
        .expect_err("a fork");
    assert!(matches!(error, CommitError::Refused(_)), "{error:?}");
    assert_eq!(newest(&store).await.head().root().seq, seq(2));
}

/// INV-271: reads never repair: a reader that finds an unrecorded edition leaves the store as it is.
#[tokio::test]
async fn reading_repairs_nothing() {
    let (store, writer, mut world) = setup().await;
    seal_without_recording(&writer, &world.edition("a", 1, None)).await;
    let before = store.list(None).await.expect("listed");
    newest(&store).await;
    writer.advance_current_to_head().await.expect("nothing to do");
    assert_eq!(store.list(None).await.expect("listed"), before);
}
