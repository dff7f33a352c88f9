//! Opting in to expiry.

use std::sync::Arc;

use object_store::memory::InMemory;

use crate::{
    doc::{Catalog, CatalogId, Document as _, Epoch, FormatVersion, History, layout},
    store::{BucketStore, InventoryStore, LockReach, MemoryStore},
    writer::{
        OptInRefusal, WriteError, Writer,
        testing::{
            Interposed, World, bytes_at, catalogue, newest, overwrite, overwrite_doc, path, root_at, seq, writer_over,
        },
    },
};

async fn setup(versions: u8) -> (Arc<dyn InventoryStore>, Writer) {
    let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    for sealed in world.chain("a", versions) {
        world.seal(&writer, &sealed).await;
    }
    (store, writer)
}

async fn catalog(store: &Arc<dyn InventoryStore>) -> Catalog {
    Catalog::decode(&bytes_at(store, layout::CATALOG).await.expect("there")).expect("decodes")
}

/// Takes the history fields out of a root, as a writer from before them left it. The link of the next root is broken by that, so
/// the roots after it lose theirs as well unless they are rewritten.
async fn strip_history(store: &Arc<dyn InventoryStore>, number: u64) {
    let mut root = root_at(store, number).await.into_value();
    root.history = None;
    overwrite_doc(store, &layout::root(seq(number)), &root).await;
}

async fn relink(store: &Arc<dyn InventoryStore>, number: u64) {
    let base = root_at(store, number - 1).await.sha256();
    let mut root = root_at(store, number).await.into_value();
    if let Some(history) = &mut root.history {
        history.previous_root_sha256 = Some(base);
    }
    overwrite_doc(store, &layout::root(seq(number)), &root).await;
    store.delete(&path(layout::CURRENT)).await.expect("deleted");
}

async fn refused(store: &Arc<dyn InventoryStore>, writer: &Writer) -> OptInRefusal {
    let before = bytes_at(store, layout::CATALOG).await;
    let error = writer.opt_in().await.expect_err("refused");
    let WriteError::OptIn(refusal) = error else {
        panic!("{error:?}")
    };
    assert_eq!(bytes_at(store, layout::CATALOG).await, before, "nothing was rewritten");
    refusal
}

/// INV-134, INV-138, INV-142, INV-145: `HISTORY` with nothing expired, then `catalog.json` as 2.0 with the lowest version from which
/// every root carries the history fields. A catalogue in a local store opts in.
#[tokio::test]
async fn opting_in_writes_history_and_format_2() {
    let (store, writer) = setup(2).await;
    let before = catalog(&store).await;
    assert_eq!(writer.opt_in().await.expect("opted in"), seq(1));
    let after = catalog(&store).await;
    assert_eq!(
        (after.format_version, after.since_seq),
        (FormatVersion::CATALOG_OPTED_IN, Some(seq(1)))
    );
    assert_eq!(
        (after.catalog_id, after.restore_epoch),
        (before.catalog_id, before.restore_epoch)
    );
    let history = History::decode(&bytes_at(&store, layout::HISTORY).await.expect("there")).expect("decodes");
    assert_eq!(history, History::at_opt_in(before.catalog_id, before.restore_epoch));
    // INV-144: nothing expired, and a commit goes on.
    assert_eq!(newest(&store).await.head().root().seq, seq(3));
    let mut world = World::new();
    let sealed = world.edition("b", 1, None);
    world.seal(&writer, &sealed).await;
}

/// INV-134, INV-140: roots from before the history fields stay below `since_seq`.
#[tokio::test]
async fn since_seq_is_the_first_root_with_the_fields() {
    let (store, writer) = setup(3).await;
    strip_history(&store, 1).await;
    strip_history(&store, 2).await;
    relink(&store, 3).await;
    relink(&store, 4).await;
    assert_eq!(writer.opt_in().await.expect("opted in"), seq(3));
}

/// INV-139: a head without the history fields.
#[tokio::test]
async fn a_head_without_the_history_fields_cannot_opt_in() {
    let (store, writer) = setup(1).await;
    strip_history(&store, 2).await;
    store.delete(&path(layout::CURRENT)).await.expect("deleted");
    assert_eq!(refused(&store, &writer).await, OptInRefusal::HeadWithoutHistory(seq(2)));
}

/// INV-140, INV-333: a root without the fields after one with them.
#[tokio::test]
async fn a_chain_that_lost_the_history_fields_cannot_opt_in() {
    let (store, writer) = setup(2).await;
    strip_history(&store, 2).await;
    relink(&store, 3).await;
    let lost = OptInRefusal::HistoryLost {
        without: seq(2),
        with: seq(1),
    };
    assert_eq!(refused(&store, &writer).await, lost);
}

/// INV-140: a chain that doesn't reach the first version can't show what the rule asks for.
#[tokio::test]
async fn a_chain_with_a_gap_cannot_opt_in() {
    let (store, writer) = setup(2).await;
    store.delete(&path(&layout::root(seq(1)))).await.expect("deleted");
    assert_eq!(refused(&store, &writer).await, OptInRefusal::ChainIncomplete(seq(1)));
}

/// INV-131, INV-138: opting in is done once.
#[tokio::test]
async fn a_second_opt_in_is_refused() {
    let (store, writer) = setup(1).await;
    writer.opt_in().await.expect("opted in");
    assert_eq!(refused(&store, &writer).await, OptInRefusal::AlreadyIn(seq(1)));
}

/// INV-141: a bucket's lock keeps out this process only, so its catalogue keeps every version.
#[tokio::test]
async fn a_bucket_cannot_opt_in() {
    let store: Arc<dyn InventoryStore> = Arc::new(BucketStore::new(Arc::new(InMemory::new()), None));
    let (writer, _) = catalogue(&store, false).await;
    assert_eq!(
        refused(&store, &writer).await,
        OptInRefusal::Lock(LockReach::ThisProcess)
    );
    assert_eq!(bytes_at(&store, layout::HISTORY).await, None);
}

/// INV-142: a `HISTORY` that isn't what an interrupted opt-in leaves is not taken over.
#[tokio::test]
async fn a_foreign_history_stops_an_opt_in() {
    let (store, writer) = setup(1).await;
    let foreign = History::at_opt_in(CatalogId::generate(), Epoch::FIRST);
    overwrite_doc(&store, layout::HISTORY, &foreign).await;
    assert_eq!(refused(&store, &writer).await, OptInRefusal::HistoryExists);
    let own = History::at_opt_in(catalog(&store).await.catalog_id, Epoch::FIRST);
    overwrite_doc(&store, layout::HISTORY, &own).await;
    writer.opt_in().await.expect("an interrupted one is completed");
}

/// INV-143: a `restore_epoch` that changed between the read and the rewrite is refused, naming both, and kept.
#[tokio::test]
async fn an_epoch_that_changes_meanwhile_stops_the_rewrite() {
    let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let (writer, clock) = catalogue(&store, false).await;
    let bump = {
        let writer = writer.clone();
        async move {
            let _ = writer.bump_restore_epoch().await.expect("bumped");
        }
    };
    let slow = writer_over(Interposed::new(store.clone(), layout::CATALOG, bump), &clock);
    let error = slow.opt_in().await.expect_err("refused");
    let one = Epoch::new(1).expect("an epoch");
    assert!(
        matches!(error, WriteError::EpochChanged { read, found } if read == Epoch::FIRST && found == one),
        "{error:?}"
    );
    let after = catalog(&store).await;
    assert_eq!((after.restore_epoch, after.is_opted_in()), (one, false));
}

/// INV-133, INV-146: a restore that only counts the epoch is for catalogues that keep every version.
#[tokio::test]
async fn an_opted_in_catalogue_refuses_a_bare_epoch_bump() {
    let (store, writer) = setup(1).await;
    writer.opt_in().await.expect("opted in");
    let before = bytes_at(&store, layout::CATALOG).await;
    let error = writer.bump_restore_epoch().await.expect_err("refused");
    assert!(matches!(error, WriteError::RestoreNeedsHistory), "{error:?}");
    assert_eq!(bytes_at(&store, layout::CATALOG).await, before);
}

/// INV-133: two counts at once count one each or are refused; none is lost.
#[tokio::test]
async fn concurrent_epoch_bumps_are_not_lost() {
    let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let (writer, clock) = catalogue(&store, false).await;
    let bump = {
        let writer = writer.clone();
        async move {
            let _ = writer.bump_restore_epoch().await.expect("bumped");
        }
    };
    let slow = writer_over(Interposed::new(store.clone(), layout::CATALOG, bump), &clock);
    let error = slow.bump_restore_epoch().await.expect_err("refused");
    assert!(matches!(error, WriteError::EpochChanged { .. }), "{error:?}");
    assert_eq!(catalog(&store).await.restore_epoch.get(), 1);
    overwrite(&store, layout::CATALOG, "{}").await;
    assert!(matches!(
        writer.bump_restore_epoch().await,
        Err(WriteError::Document(_))
    ));
}
