//! What a reader that holds a version accepts.

use super::{Finding, Versions, number};
use crate::{
    doc::{Document as _, Epoch, Sha256, layout},
    reader::{Invalid, ReadError},
    writer::testing::{overwrite, overwrite_doc, path, reference, root_at, seq},
};

/// INV-258, INV-426: a reader that holds 5 doesn't accept 4, and finds 6 by probing.
#[tokio::test]
async fn a_reader_never_goes_back_and_finds_the_next_by_probing() {
    let mut versions = Versions::through(5).await;
    let held = versions.reference(5).await;
    let fifth = root_at(&versions.store, 5).await;
    versions.point_current_at(versions.reference(4).await).await;
    versions
        .store
        .delete(&path(&layout::root(seq(5))))
        .await
        .expect("deleted");
    let error = versions.find(Some(held)).await.expect_err("a store that went back");
    let fourth = versions.reference(4).await;
    assert!(
        matches!(error, ReadError::Behind { held: h, found } if h == held && found == Some(fourth)),
        "{error:?}"
    );
    assert_eq!(number(&versions.find(None).await.expect("nothing held")), 4);

    overwrite(&versions.store, &layout::root(seq(5)), fifth.bytes().clone()).await;
    assert_eq!(number(&versions.find(Some(held)).await.expect("the same again")), 5);
    versions.seal_next().await;
    versions.point_current_at(versions.reference(2).await).await;
    let found = versions.find(Some(held)).await.expect("found by probing");
    assert_eq!((number(&found), found.freshness.ahead_of_current), (6, 4));
}

/// INV-133, INV-258: a later epoch starts anew: its lower number is accepted; an earlier epoch is not, whatever its number.
#[tokio::test]
async fn a_later_epoch_resets_the_floor_and_an_earlier_one_does_not() {
    let versions = Versions::through(5).await;
    let held = versions.reference(5).await;
    // A storage-level rollback to version 2, counted as a restore.
    for number in 3..=5 {
        versions
            .store
            .delete(&path(&layout::root(seq(number))))
            .await
            .expect("deleted");
    }
    versions.point_current_at(versions.reference(2).await).await;
    versions.writer.bump_restore_epoch().await.expect("bumped");
    assert!(
        versions.find(Some(held)).await.is_err(),
        "nothing of the new epoch is there yet"
    );
    let mut chain = versions.world.clone().chain("a", 2);
    let again = chain.remove(1);
    versions.world.seal(&versions.writer, &again).await;
    let found = versions.find(Some(held)).await.expect("a new epoch");
    let reference = found.head.reference();
    assert_eq!((reference.restore_epoch.get(), reference.seq), (1, seq(3)));

    let old = Versions::through(9).await;
    let error = old.find(Some(reference)).await.expect_err("an earlier epoch");
    assert!(matches!(error, ReadError::Behind { .. }), "{error:?}");
}

/// INV-258: a version held and one found with the same number and other bytes are an alarm; what is held stays if it can be
/// read, and else nothing is accepted.
#[tokio::test]
async fn two_roots_for_one_number_are_an_alarm() {
    let versions = Versions::through(3).await;
    let held = versions.reference(3).await;
    let original = root_at(&versions.store, 3).await;
    let mut other = original.value().clone();
    other.event.reason = "another history".to_owned();
    overwrite_doc(&versions.store, &layout::root(seq(3)), &other).await;
    versions.point_current_at(versions.reference(3).await).await;
    let error = versions.find(Some(held)).await.expect_err("what is held is gone");
    assert!(matches!(error, ReadError::Behind { .. }), "{error:?}");
    assert_eq!(number(&versions.find(None).await.expect("a new reader can't know")), 3);
}

/// INV-260: an invalid root is skipped and reported, the last valid version stays, and what follows the invalid one isn't
/// believed.
#[tokio::test]
async fn an_invalid_root_is_skipped_with_what_follows_it() {
    let versions = Versions::through(5).await;
    versions.point_current_at(versions.reference(2).await).await;
    overwrite(&versions.store, &layout::root(seq(4)), "{\"seq\":4").await;
    let found = versions.find(None).await.expect("found");
    assert_eq!(number(&found), 3);
    let skipped: Vec<_> = found
        .findings
        .iter()
        .map(|finding| match finding {
            Finding::InvalidRoot { seq, why } => (seq.get(), why.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(
        matches!(&skipped[..], [(4, Invalid::Document(_)), (5, Invalid::Unlinked)]),
        "{skipped:?}"
    );
}

/// INV-161, INV-260: a root that links another version before it, has another number or an earlier epoch is no next version.
#[tokio::test]
async fn a_root_that_does_not_follow_is_not_the_next() {
    let versions = Versions::through(3).await;
    let second = versions.reference(2).await;
    let third = root_at(&versions.store, 3).await.into_value();
    type Change = fn(&mut crate::doc::Root);
    let changes: [(Change, &str); 3] = [
        (
            |root| {
                if let Some(history) = &mut root.history {
                    history.previous_root_sha256 = Some(Sha256::of(b"other"));
                }
            },
            "as the version before it",
        ),
        (
            |root| {
                root.seq = seq(4);
                root.previous_inventory = Some(seq(3));
            },
            "says it is version 4",
        ),
        (|root| root.restore_epoch = Epoch::FIRST, "is of epoch 0"),
    ];
    for (change, why) in changes {
        let mut base = root_at(&versions.store, 2).await.into_value();
        let mut changed = third.clone();
        base.restore_epoch = Epoch::new(1).expect("an epoch");
        changed.restore_epoch = base.restore_epoch;
        overwrite_doc(&versions.store, &layout::root(seq(2)), &base).await;
        let base = reference(&root_at(&versions.store, 2).await);
        if let Some(history) = &mut changed.history {
            history.previous_root_sha256 = Some(base.root_sha256);
        }
        change(&mut changed);
        overwrite_doc(&versions.store, &layout::root(seq(3)), &changed).await;
        versions.point_current_at(base).await;
        let found = versions.find(None).await.expect("found");
        assert_eq!(number(&found), 2, "{why}");
        let shown = found
            .findings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ");
        assert!(shown.contains(why) && shown.contains("INV-260"), "{shown}");
    }
    assert_ne!(second.seq, seq(3));
}

/// INV-163: history fields that are gone after they were there are reported; the version is read.
#[tokio::test]
async fn lost_history_fields_are_reported() {
    let versions = Versions::through(3).await;
    versions.point_current_at(versions.reference(2).await).await;
    let mut third = root_at(&versions.store, 3).await.into_value();
    third.history = None;
    overwrite_doc(&versions.store, &layout::root(seq(3)), &third).await;
    let found = versions.find(None).await.expect("found");
    assert_eq!(
        (number(&found), found.findings),
        (3, vec![Finding::HistoryFieldsLost { seq: seq(3) }])
    );
    assert!(third.encode().is_ok());
}
