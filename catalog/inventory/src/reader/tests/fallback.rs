//! The way without a good `CURRENT`.

use super::{Finding, Versions, number};
use crate::{
    doc::{Catalog, CatalogId, Document as _, Epoch, History, RootRef, SegmentPath, Sha256, layout},
    reader::{ReadError, Way, find_head},
    store::testing::FaultStore,
    writer::testing::{bytes_at, overwrite, overwrite_doc, path, reference, root_at, seq},
};

impl Versions {
    async fn without_current(newest: u8) -> Self {
        let versions = Self::through(newest).await;
        versions.store.delete(&path(layout::CURRENT)).await.expect("deleted");
        versions
    }

    async fn opted_in(newest: u8) -> Self {
        let versions = Self::through(newest).await;
        versions.writer.opt_in().await.expect("opted in");
        versions.store.delete(&path(layout::CURRENT)).await.expect("deleted");
        versions
    }

    /// What an expiry or a restore leaves in `HISTORY`.
    async fn history(&self, epoch: u64, expired_through: Option<u64>) {
        let bytes = bytes_at(&self.store, layout::HISTORY).await.expect("HISTORY");
        let mut history = History::decode(&bytes).expect("decodes");
        history.restore_epoch = Epoch::new(epoch).expect("an epoch");
        history.expired_through = expired_through.map(seq);
        history.newest_segment = expired_through.map(|through| {
            (
                SegmentPath::generate(Epoch::FIRST, seq(1), seq(through)),
                Sha256::of(b"segment"),
            )
        });
        overwrite_doc(&self.store, layout::HISTORY, &history).await;
    }

    async fn expire(&self, through: u64) {
        for number in 1..=through {
            self.store
                .delete(&path(&layout::root(seq(number))))
                .await
                .expect("deleted");
        }
        self.history(0, Some(through)).await;
    }

    async fn in_epoch(&self, number: u64, epoch: u64) {
        let mut root = root_at(&self.store, number).await.into_value();
        root.restore_epoch = Epoch::new(epoch).expect("an epoch");
        overwrite_doc(&self.store, &layout::root(seq(number)), &root).await;
    }
}

/// INV-256: a `CURRENT` whose hash isn't the root's makes a reader fall back to the version before, reported.
#[tokio::test]
async fn a_root_that_is_not_the_one_named_is_not_taken() {
    let versions = Versions::through(5).await;
    let wrong = RootRef {
        root_sha256: Sha256::of(b"other"),
        ..versions.reference(5).await
    };
    versions.point_current_at(wrong).await;
    let found = versions.find(None).await.expect("found");
    assert_eq!((number(&found), found.way), (4, Way::Fallback));
    assert!(matches!(found.findings[0], Finding::CurrentNamesBadRoot { named, .. } if named == wrong));
    assert!(matches!(found.findings[1], Finding::InvalidRoot { seq: skipped, .. } if skipped == seq(5)));
}

/// INV-256, INV-260: whether `CURRENT` or the root it names is wrong shows in the version after: it is followed in both cases.
#[tokio::test]
async fn the_version_after_tells_which_of_the_two_is_wrong() {
    let versions = Versions::through(5).await;
    let fourth = versions.reference(4).await;
    versions
        .point_current_at(RootRef {
            root_sha256: Sha256::of(b"other"),
            ..fourth
        })
        .await;
    let found = versions.find(None).await.expect("found");
    assert_eq!(
        (number(&found), found.way),
        (5, Way::Fallback),
        "CURRENT was wrong: version 5 vouches for version 4"
    );
    assert_eq!(found.findings.len(), 1);

    versions.point_current_at(fourth).await;
    let mut rotten = root_at(&versions.store, 4).await.into_value();
    rotten.event.reason = "changed".to_owned();
    overwrite_doc(&versions.store, &layout::root(seq(4)), &rotten).await;
    let found = versions.find(None).await.expect("found");
    assert_eq!(
        number(&found),
        5,
        "the root is wrong: version 5 follows the one CURRENT names"
    );
    assert!(
        found
            .findings
            .iter()
            .any(|f| matches!(f, Finding::InvalidRoot { seq: skipped, .. } if *skipped == seq(4)))
    );
}

/// INV-262, INV-329: on a 1.x catalogue without `CURRENT`, or with one that can't be read or names nothing, the newest version is
/// found and what is wrong is reported.
#[tokio::test]
async fn a_missing_or_unreadable_current_is_not_needed() {
    let versions = Versions::without_current(4).await;
    let found = versions.find(None).await.expect("found");
    assert_eq!(
        (number(&found), found.way, found.findings),
        (4, Way::Fallback, vec![Finding::CurrentMissing])
    );
    for bad in ["", "{}", "{\"seq\":4}", "\u{feff}"] {
        overwrite(&versions.store, layout::CURRENT, bad).await;
        let found = versions.find(None).await.expect("found");
        assert_eq!(number(&found), 4);
        assert!(matches!(found.findings[..], [Finding::CurrentUnreadable(_)]), "{bad:?}");
    }
    versions
        .point_current_at(RootRef {
            seq: seq(70),
            ..versions.reference(4).await
        })
        .await;
    let found = versions.find(None).await.expect("found");
    assert_eq!((number(&found), found.findings.len()), (4, 1));
}

/// INV-135, INV-262, INV-329: on a 2.x catalogue the fallback reads `HISTORY`, and without it fails closed.
#[tokio::test]
async fn a_2x_catalogue_without_history_fails_closed() {
    let versions = Versions::opted_in(4).await;
    assert_eq!(number(&versions.find(None).await.expect("found")), 4);
    versions.expire(2).await;
    assert_eq!(number(&versions.find(None).await.expect("found above what expired")), 4);
    versions.store.delete(&path(layout::HISTORY)).await.expect("deleted");
    let error = versions.find(None).await.expect_err("fails closed");
    assert!(matches!(error, ReadError::HistoryMissing), "{error:?}");
    let held = versions.reference(4).await;
    assert!(
        matches!(versions.find(Some(held)).await, Err(ReadError::HistoryMissing)),
        "whatever is held"
    );
    versions.point_current_at(held).await;
    assert_eq!(
        number(
            &versions
                .find(None)
                .await
                .expect("INV-261: not needed with a good CURRENT")
        ),
        4
    );
}

/// INV-192, INV-262, INV-280: a `catalog.json` or `HISTORY` that is missing, foreign or of a newer major fails closed.
#[tokio::test]
async fn an_unreadable_catalogue_fails_closed() {
    let versions = Versions::opted_in(3).await;
    let foreign = History::at_opt_in(CatalogId::generate(), Epoch::FIRST);
    overwrite_doc(&versions.store, layout::HISTORY, &foreign).await;
    assert!(matches!(
        versions.find(None).await,
        Err(ReadError::HistoryOfAnother { .. })
    ));
    overwrite(&versions.store, layout::HISTORY, "{\"format_version\":\"2.0\"}").await;
    assert!(matches!(versions.find(None).await, Err(ReadError::Document(_))));
    overwrite(&versions.store, layout::CATALOG, "{\"format_version\":\"3.0\"}").await;
    assert!(matches!(versions.find(None).await, Err(ReadError::Document(_))));
    versions.store.delete(&path(layout::CATALOG)).await.expect("deleted");
    assert!(matches!(versions.find(None).await, Err(ReadError::NoCatalog)));
}

/// INV-263, INV-331: the epoch comes from `HISTORY` on 2.x and from `catalog.json` on 1.x; versions of another epoch are no
/// answer.
#[tokio::test]
async fn the_epoch_comes_from_history_or_from_catalog_json() {
    let versions = Versions::without_current(3).await;
    versions.writer.bump_restore_epoch().await.expect("bumped");
    let error = versions.find(None).await.expect_err("nothing of epoch 1");
    assert!(
        matches!(error, ReadError::NoVersion { epoch, .. } if epoch.get() == 1),
        "{error:?}"
    );
    versions.in_epoch(3, 1).await;
    assert_eq!(
        number(&versions.find(None).await.expect("of epoch 1 by catalog.json")),
        3
    );

    let versions = Versions::opted_in(3).await;
    versions.history(1, None).await;
    let catalog = Catalog::decode(&bytes_at(&versions.store, layout::CATALOG).await.expect("there")).expect("decodes");
    assert_eq!(catalog.restore_epoch, Epoch::FIRST, "a restore writes HISTORY first");
    assert!(matches!(versions.find(None).await, Err(ReadError::NoVersion { epoch, .. }) if epoch.get() == 1));
    versions.in_epoch(3, 1).await;
    assert_eq!(number(&versions.find(None).await.expect("of epoch 1 by HISTORY")), 3);
}

/// INV-319: after the `HISTORY` write of a restore to version 2, readers without `CURRENT` fail closed until version 3 of the new
/// epoch is there, although the older versions and those the restore discards still are.
#[tokio::test]
async fn a_restore_under_way_fails_closed_until_its_first_version() {
    let versions = Versions::opted_in(4).await;
    versions.history(1, None).await;
    assert!(versions.find(None).await.is_err());
    versions
        .store
        .delete(&path(&layout::root(seq(3))))
        .await
        .expect("discarded");
    versions
        .store
        .delete(&path(&layout::root(seq(4))))
        .await
        .expect("discarded");
    assert!(versions.find(None).await.is_err());
    let second = root_at(&versions.store, 2).await;
    let mut third = second.value().clone();
    third.seq = seq(3);
    third.previous_inventory = Some(seq(2));
    third.restore_epoch = Epoch::new(1).expect("an epoch");
    third.event.kind = crate::doc::EventKind::Restore;
    third.history = Some(crate::doc::RootHistory {
        previous_root_sha256: Some(second.sha256()),
        changes: vec![],
    });
    overwrite_doc(&versions.store, &layout::root(seq(3)), &third).await;
    let found = versions.find(None).await.expect("found");
    assert_eq!((number(&found), found.head.reference().restore_epoch.get()), (3, 1));
}

/// INV-264, INV-330: a version held at or below `expired_through` is dropped, and the search begins above what expired.
#[tokio::test]
async fn a_held_version_that_expired_is_dropped() {
    let versions = Versions::opted_in(5).await;
    let (second, fourth) = (versions.reference(2).await, versions.reference(4).await);
    versions.expire(3).await;
    let found = versions.find(Some(second)).await.expect("found");
    assert_eq!(number(&found), 5);
    let dropped = Finding::HeldExpired {
        held: second,
        expired_through: seq(3),
    };
    assert!(found.findings.contains(&dropped), "{:?}", found.findings);
    let found = versions.find(Some(fourth)).await.expect("found");
    assert_eq!((number(&found), found.findings), (5, vec![Finding::CurrentMissing]));
    // Nothing above what expired and what was held is dropped.
    for number in 4..=5 {
        versions
            .store
            .delete(&path(&layout::root(seq(number))))
            .await
            .expect("deleted");
    }
    let error = versions.find(Some(second)).await.expect_err("fails closed");
    assert!(matches!(error, ReadError::NoVersion { bound: 3, .. }), "{error:?}");
}

/// INV-264, INV-265: the search walks back no further than the lower bound and begins one above it.
#[tokio::test]
async fn the_search_stays_above_the_lower_bound() {
    let versions = Versions::without_current(6).await;
    let held = versions.reference(4).await;
    let counting = FaultStore::counting(versions.store.clone());
    assert_eq!(number(&find_head(&counting, Some(held)).await.expect("found")), 6);
    let log = counting.log();
    assert!(
        !log.iter()
            .any(|line| (1..4).any(|number| line.contains(&layout::root(seq(number))))),
        "{log:?}"
    );

    // A CURRENT that names a version which isn't there: back from it, down to the bound.
    versions.point_current_at(RootRef { seq: seq(9), ..held }).await;
    let counting = FaultStore::counting(versions.store.clone());
    assert_eq!(number(&find_head(&counting, Some(held)).await.expect("found")), 6);
    let log = counting.log();
    assert!(
        !log.iter()
            .any(|line| (1..4).any(|number| line.contains(&layout::root(seq(number))))),
        "{log:?}"
    );
}

/// INV-265: with nothing above the lower bound the held version stays, and without one the reader fails closed.
#[tokio::test]
async fn without_a_version_and_without_one_held_a_reader_fails_closed() {
    let versions = Versions::without_current(3).await;
    let held = versions.reference(3).await;
    let found = versions.find(Some(held)).await.expect("what is held");
    assert_eq!((number(&found), found.head.reference()), (3, held));
    for number in 1..=3 {
        versions
            .store
            .delete(&path(&layout::root(seq(number))))
            .await
            .expect("deleted");
    }
    assert!(matches!(
        versions.find(None).await,
        Err(ReadError::NoVersion { bound: 0, .. })
    ));
    assert!(
        matches!(
            versions.find(Some(held)).await,
            Err(ReadError::Behind { found: None, .. })
        ),
        "it can't be read"
    );
}

/// INV-256: the root's own number and epoch must be the ones it is named by.
#[tokio::test]
async fn a_root_named_under_another_number_or_epoch_is_not_taken() {
    let versions = Versions::through(3).await;
    let third = root_at(&versions.store, 3).await;
    overwrite(&versions.store, &layout::root(seq(4)), third.bytes().clone()).await;
    for wrong in [
        RootRef {
            seq: seq(4),
            ..reference(&third)
        },
        RootRef {
            restore_epoch: Epoch::new(2).expect("an epoch"),
            ..reference(&third)
        },
    ] {
        versions.point_current_at(wrong).await;
        let found = versions.find(None).await.expect("found");
        assert!(number(&found) <= 3);
        assert!(
            matches!(found.findings[0], Finding::CurrentNamesBadRoot { .. }),
            "{:?}",
            found.findings
        );
    }
}
