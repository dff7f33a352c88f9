//! The narrow repair and the rebuild.

use std::collections::BTreeMap;

use super::fixture::{World, data, days, id, key, product, start};
use crate::{
    doc::{EditionState, EventKind, Journal, Manifest, Seq},
    transition::{Operation, RebuildRefused, RepairRefused, SeenVersion, Version, may_repair, rebuild},
};

fn journal(n: u8, previous: Option<u8>) -> Journal {
    Journal {
        product_id: product("p"),
        edition_id: id(n),
        previous: previous.map(id),
        sealed_at: start(),
        release_at: None,
    }
}

fn seq(n: u64) -> Seq {
    Seq::new(n).expect("the test's number is in range")
}

/// INV-269, INV-270: a sealed edition nobody names, with this writer's journal, may be recorded.
#[test]
fn an_unrecorded_edition_with_a_journal_is_repaired() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    let manifest = data("p", 2).on(1).manifest();
    assert_eq!(
        may_repair(&manifest, Some(&journal(2, Some(1))), [&world.version], []),
        Ok(())
    );
}

/// INV-270, INV-450: an edition that was rolled back and then retired still has a manifest; it is not recorded again.
#[test]
fn a_retired_edition_is_not_repaired() {
    let mut world = World::new(false);
    let edition = data("p", 1);
    world.live(&edition);
    let recorded = world.version.clone();
    let journal = journal(1, None);
    let named = may_repair(&edition.manifest(), Some(&journal), [&recorded], []);
    assert!(matches!(named, Err(RepairRefused::Named { .. })), "{named:?}");
    world.apply(&[Operation::Withdraw {
        live: edition.key.clone(),
    }]);
    world.now = start().plus(days(200));
    let retire = world.apply(&[Operation::Retire {
        edition: edition.key.clone(),
    }]);
    let retired = may_repair(&edition.manifest(), Some(&journal), [&world.version], []);
    assert!(matches!(retired, Err(RepairRefused::Named { .. })), "{retired:?}");
    // Even with the versions gone, a change list is enough.
    let none: [&Version; 0] = [];
    let listed = may_repair(&edition.manifest(), Some(&journal), none, &retire.changes);
    assert_eq!(listed, Err(RepairRefused::Listed { edition: edition.key }));
}

/// INV-270: without a journal, or with another edition's or another base's, nothing is recorded.
#[test]
fn an_edition_without_its_journal_is_not_repaired() {
    let world = World::new(false);
    let manifest = data("p", 2).manifest();
    let repair = |journal: Option<&Journal>| may_repair(&manifest, journal, [&world.version], []);
    assert_eq!(repair(None), Err(RepairRefused::NotOurs { edition: key("p", 2) }));
    let other_product = Journal {
        product_id: product("q"),
        ..journal(2, None)
    };
    for wrong in [journal(3, None), journal(2, Some(1)), other_product] {
        let refused = repair(Some(&wrong)).expect_err("the journal speaks of something else");
        assert!(matches!(refused, RepairRefused::JournalDisagrees { .. }), "{refused}");
        assert!(refused.to_string().starts_with("INV-270"), "{refused}");
    }
}

fn manifests(editions: &[(u8, Option<u8>)]) -> Vec<Manifest> {
    let edition = |(n, previous): &(u8, Option<u8>)| {
        let edition = data("p", *n);
        previous
            .map_or_else(|| edition.clone(), |previous| edition.clone().on(previous))
            .manifest()
            .value()
            .clone()
    };
    editions.iter().map(edition).collect()
}

fn try_rebuild(
    editions: &[(u8, Option<u8>)],
    seen: &[SeenVersion],
    highest: Option<u64>,
) -> Result<BTreeMap<super::super::EditionKey, EditionState>, RebuildRefused> {
    let manifests = manifests(editions);
    rebuild(&manifests.iter().collect::<Vec<_>>(), seen, highest.map(seq))
}

fn seen(n: u64, kind: EventKind) -> SeenVersion {
    SeenVersion {
        seq: seq(n),
        kind,
        embargo: false,
        has_tombstones: false,
        has_hidden_entries: false,
    }
}

/// INV-273: a chain of manifests gives one live edition and superseded ones before it.
#[test]
fn a_catalogue_never_rolled_back_is_rebuilt() {
    let chain = [(1, None), (2, Some(1)), (3, Some(2))];
    let history = [seen(1, EventKind::Seal), seen(2, EventKind::Describe)];
    let rebuilt = try_rebuild(&chain, &history, Some(2)).expect("nothing was taken back");
    let expected = [
        (1, EditionState::Superseded),
        (2, EditionState::Superseded),
        (3, EditionState::Live),
    ];
    assert_eq!(
        rebuilt,
        expected.into_iter().map(|(n, state)| (key("p", n), state)).collect()
    );
}

/// INV-273: any version that took something back is named and refuses the rebuild.
#[test]
fn a_catalogue_that_took_something_back_is_not_rebuilt() {
    let taking = [
        EventKind::Rollback,
        EventKind::Withdraw,
        EventKind::Retire,
        EventKind::Reinstate,
        EventKind::Restore,
        EventKind::Correct,
        EventKind::Other("later".to_owned()),
    ];
    for kind in taking {
        let refused = try_rebuild(&[(1, None)], &[seen(1, EventKind::Seal), seen(2, kind.clone())], None);
        assert_eq!(refused, Err(RebuildRefused::TakenBack { seq: seq(2), kind }));
    }
    let tombstones = SeenVersion {
        has_tombstones: true,
        ..seen(1, EventKind::Seal)
    };
    let hidden = SeenVersion {
        has_hidden_entries: true,
        ..seen(1, EventKind::Seal)
    };
    for version in [tombstones, hidden] {
        let refused = try_rebuild(&[(1, None)], &[version], None);
        assert!(matches!(refused, Err(RebuildRefused::TakenBack { .. })), "{refused:?}");
    }
    let embargo = SeenVersion {
        embargo: true,
        ..seen(1, EventKind::Seal)
    };
    assert_eq!(
        try_rebuild(&[(1, None)], &[embargo], None),
        Err(RebuildRefused::Embargoed { seq: seq(1) })
    );
}

/// INV-273: versions that are missing are named, since they may have withdrawn something.
#[test]
fn missing_history_is_named() {
    let refused = try_rebuild(&[(1, None)], &[seen(2, EventKind::Seal)], Some(4)).expect_err("three are missing");
    assert_eq!(
        refused,
        RebuildRefused::HistoryMissing {
            missing: vec![seq(1), seq(3), seq(4)]
        }
    );
    assert!(refused.to_string().contains("1, 3, 4"), "{refused}");
    let many = try_rebuild(&[], &[], Some(Seq::MAX.get())).expect_err("all are missing");
    assert!(matches!(many, RebuildRefused::HistoryMissing { missing } if missing.len() == 20));
}

/// INV-273: a fork shows that something was taken back; INV-235: a missing base that an edition was lost.
#[test]
fn forks_and_holes_are_not_rebuilt() {
    let fork = try_rebuild(&[(1, None), (2, Some(1)), (3, Some(1))], &[], None);
    assert!(matches!(fork, Err(RebuildRefused::Fork { .. })), "{fork:?}");
    let roots = try_rebuild(&[(1, None), (2, None)], &[], None);
    assert!(
        matches!(roots, Err(RebuildRefused::Fork { previous: None, .. })),
        "{roots:?}"
    );
    let hole = try_rebuild(&[(2, Some(1))], &[], None);
    assert!(matches!(hole, Err(RebuildRefused::BaseMissing { .. })), "{hole:?}");
}

/// INV-273: what a readable version shows is taken from its entries and tombstones.
#[test]
fn a_version_shows_what_it_hides() {
    assert_eq!(
        SeenVersion::of(&Version::before_the_first(false), EventKind::Seal),
        None
    );
    let mut world = World::new(false);
    world.live(&data("p", 1));
    assert_eq!(
        SeenVersion::of(&world.version, EventKind::Seal),
        Some(seen(1, EventKind::Seal))
    );
    world.embargoed(&data("q", 2), None);
    let shown = SeenVersion::of(&world.version, EventKind::Seal).expect("it has a number");
    assert!(shown.has_hidden_entries && !shown.has_tombstones);
}
