//! The change list: what it holds, and that it adds up.

use std::collections::BTreeMap;

use super::fixture::{World, data, days, id, key, leaf, product, start, tombstone, version};
use crate::{
    doc::{
        ChangeItem, EditionState, EntryStatus, Epoch, Event, EventKind, FormatVersion, JsonObject, LeafRef, Producer,
        Root, RootHistory, Seq, Sha256,
    },
    transition::{
        EditionKey, Operation, ReleaseWhen, ReplayError, Standing, Standings, VerifiedEdition, Version, VersionError,
        change_list,
    },
};

type Step = (u8, Option<EntryStatus>, Option<EntryStatus>);

fn steps(item: &ChangeItem) -> Vec<Step> {
    let number = |edition| {
        (0..=u8::MAX)
            .find(|n| id(*n) == edition)
            .expect("the edition is one of the test's")
    };
    item.entries
        .iter()
        .map(|entry| (number(entry.edition_id), entry.from, entry.to))
        .collect()
}

const EMBARGOED: Option<EntryStatus> = Some(EntryStatus::State(EditionState::Embargoed));
const LIVE: Option<EntryStatus> = Some(EntryStatus::State(EditionState::Live));
const SUPERSEDED: Option<EntryStatus> = Some(EntryStatus::State(EditionState::Superseded));
const TOMBSTONE: Option<EntryStatus> = Some(EntryStatus::Tombstone);

/// INV-162, INV-177, INV-178, INV-179, INV-189: a release lists both editions with their seven fields, sorted.
#[test]
fn a_release_lists_both_editions() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    world.embargoed(&data("p", 2).on(1), None);
    world.live(&data("q", 3));
    let base = world.version.clone();
    let transition = world.apply(&[Operation::Release {
        edition: key("p", 2),
        when: ReleaseWhen::Explicit,
    }]);
    assert_eq!(transition.changes.len(), 1, "product q did not change");
    let item = &transition.changes[0];
    assert_eq!(item.product_id, product("p"));
    assert_eq!(
        item.leaf_sha256.from,
        base.leaf(&product("p")).map(|leaf| leaf.sha256())
    );
    assert_eq!(
        item.leaf_sha256.to,
        world.version.leaf(&product("p")).map(|leaf| leaf.sha256())
    );
    assert_eq!(steps(item), [(1, LIVE, SUPERSEDED), (2, EMBARGOED, LIVE)]);
    for entry in &item.entries {
        let edition = EditionKey::new(product("p"), entry.edition_id);
        assert_eq!(entry.entry, world.version.entry(&edition).map(Into::into));
    }
}

/// INV-177: a new product comes from no leaf; INV-178: its edition from nothing.
#[test]
fn a_new_product_comes_from_nothing() {
    let mut world = World::new(false);
    let sealed = world.seal(&data("p", 1));
    let transition = world.apply(&[Operation::Seal(sealed)]);
    assert_eq!(transition.changes[0].leaf_sha256.from, None);
    assert_eq!(steps(&transition.changes[0]), [(1, None, LIVE)]);
}

/// INV-180: an entry that changed and kept its state is listed with equal ends.
#[test]
fn a_reschedule_is_listed_with_equal_ends() {
    let mut world = World::new(true);
    world.embargoed(&data("p", 1), None);
    let release_at = Some(start().plus(days(9)));
    let transition = world.apply(&[Operation::Reschedule {
        edition: key("p", 1),
        release_at,
    }]);
    assert_eq!(steps(&transition.changes[0]), [(1, EMBARGOED, EMBARGOED)]);
    assert_eq!(
        transition.changes[0].entries[0]
            .entry
            .as_ref()
            .and_then(|entry| entry.release_at),
        release_at
    );
}

/// INV-181: a retirement ends in a tombstone without an entry, a reinstatement goes from it to superseded.
#[test]
fn a_retirement_and_a_reinstatement_are_listed_by_tombstone() {
    let mut world = World::new(false);
    let edition = data("p", 1);
    world.live(&edition);
    world.live(&data("p", 2).on(1));
    world.now = start().plus(days(200));
    let retired = world.apply(&[Operation::Retire {
        edition: edition.key.clone(),
    }]);
    assert_eq!(steps(&retired.changes[0]), [(1, SUPERSEDED, TOMBSTONE)]);
    assert_eq!(retired.changes[0].entries[0].entry, None);
    let verified = VerifiedEdition::compare(edition.sealed(), &BTreeMap::new()).expect("it lists no file");
    let reinstated = world.apply(&[Operation::Reinstate(verified)]);
    assert_eq!(steps(&reinstated.changes[0]), [(1, TOMBSTONE, SUPERSEDED)]);
}

/// INV-328: an entry that changes and keeps its state, a retirement and a reinstatement all stand in the change lists, which are
/// enough to get from the first version to the last.
#[test]
fn nothing_that_changes_is_left_out_of_the_lists() {
    let mut world = World::new(false);
    let edition = data("p", 1);
    world.live(&edition);
    world.live(&data("p", 2).on(1));
    world.embargoed(&data("p", 3).on(2), None);
    let mut standings = Standings::of(&world.version);
    let mut seen = Vec::new();
    let mut step = |world: &mut World, operation| {
        let transition = world.apply(&[operation]);
        seen.extend(transition.changes.iter().flat_map(steps));
        standings.apply(&transition.changes).expect("the list fits its base");
        assert_eq!(standings, Standings::of(&world.version));
    };
    let reschedule = Operation::Reschedule {
        edition: key("p", 3),
        release_at: Some(start().plus(days(300))),
    };
    step(&mut world, reschedule);
    world.now = start().plus(days(200));
    let retire = Operation::Retire {
        edition: edition.key.clone(),
    };
    step(&mut world, retire);
    let verified = VerifiedEdition::compare(edition.sealed(), &BTreeMap::new()).expect("it lists no file");
    step(&mut world, Operation::Reinstate(verified));
    let expected = [
        (3, EMBARGOED, EMBARGOED),
        (1, SUPERSEDED, TOMBSTONE),
        (1, TOMBSTONE, SUPERSEDED),
    ];
    assert_eq!(seen, expected);
}

/// INV-177, INV-182: a dropped tombstone is listed as going to null, with equal leaf hashes.
#[test]
fn a_dropped_tombstone_is_listed() {
    let edition = data("p", 1);
    let leaves = || {
        vec![leaf(
            &edition,
            vec![edition.entry(EditionState::Live, start().plus(-days(2)), None)],
        )]
    };
    let base = version(3, false, leaves(), vec![tombstone(&key("p", 2))]);
    let next = version(4, false, leaves(), vec![]);
    let changes = change_list(&base, &next);
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].leaf_sha256.from, changes[0].leaf_sha256.to);
    assert_eq!(steps(&changes[0]), [(2, TOMBSTONE, None)]);
    let mut standings = Standings::of(&base);
    standings.apply(&changes).expect("the list fits its base");
    assert_eq!(standings, Standings::of(&next));
}

/// INV-162: products are sorted, and versions that are alike have an empty list.
#[test]
fn products_are_sorted_and_equal_versions_list_nothing() {
    let mut world = World::new(false);
    let sealed = [data("q", 1), data("a", 2), data("m", 3)].map(|edition| Operation::Seal(world.seal(&edition)));
    let transition = world.apply(&sealed);
    let products: Vec<_> = transition.changes.iter().map(|item| item.product_id.as_str()).collect();
    assert_eq!(products, ["a", "m", "q"]);
    assert_eq!(change_list(&world.version, &world.version), []);
}

/// INV-251: the loser of a race lists its changes against the head that won.
#[test]
fn a_loser_lists_against_the_new_head() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    let sealed = world.seal(&data("p", 2).on(1));
    let operations = [Operation::Seal(sealed)];
    let lost = world.try_apply(&operations).expect("allowed on the old head");
    world.live(&data("q", 3));
    let won = world.try_apply(&operations).expect("allowed on the new head");
    assert_eq!(won.next.seq(), lost.next.seq().and_then(Seq::next));
    assert_eq!(won.changes.len(), 1);
    assert!(won.next.leaf(&product("q")).is_some() && lost.next.leaf(&product("q")).is_none());
}

/// INV-177, INV-178, INV-179: a list that starts from something else than its base, or lacks an entry, is refused.
#[test]
fn a_list_that_does_not_fit_is_refused() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    let base = Standings::of(&world.version);
    let transition = world.apply(&[Operation::Withdraw { live: key("p", 1) }]);
    let tampered = |change: &dyn Fn(&mut ChangeItem)| {
        let mut changes = transition.changes.clone();
        changes.iter_mut().for_each(change);
        base.clone().apply(&changes)
    };
    assert_eq!(tampered(&|_| {}), Ok(()));
    let other_leaf = tampered(&|item| item.leaf_sha256.from = Some(Sha256::of(b"other")));
    assert!(matches!(other_leaf, Err(ReplayError::OtherLeaf { .. })));
    let other_status = tampered(&|item| item.entries[0].from = EMBARGOED);
    assert!(matches!(other_status, Err(ReplayError::OtherStatus { .. })));
    let no_entry = tampered(&|item| item.entries[0].entry = None);
    assert!(matches!(no_entry, Err(ReplayError::EntryDoesNotFit { .. })));
    let wrong_entry = tampered(&|item| item.entries[0].to = LIVE);
    assert!(matches!(wrong_entry, Err(ReplayError::EntryDoesNotFit { .. })));
    let mut twice = base.clone();
    twice.apply(&transition.changes).expect("it fits once");
    assert!(twice.apply(&transition.changes).is_err(), "and not twice");
    assert!(
        matches!(twice.get(&key("p", 1)), Some(Standing::Recorded(entry)) if entry.state == EditionState::Withdrawn)
    );
}

/// INV-154, INV-181: a root whose leaf is missing, or of another product, or records what it retired, is no version.
#[test]
fn roots_and_leaves_that_do_not_belong_together_are_refused() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    let leaf = world.version.leaf(&product("p")).expect("it was recorded").clone();
    let clean = super::fixture::clean;
    let root = |name: &str, retired| Root {
        format_version: FormatVersion::INVENTORY,
        seq: Seq::FIRST,
        previous_inventory: None,
        restore_epoch: Epoch::FIRST,
        created_at: start(),
        producer: Producer {
            name: clean("sovm"),
            version: clean("0"),
        },
        embargo: false,
        products: BTreeMap::from([(
            product(name),
            LeafRef {
                leaf_sha256: leaf.sha256(),
            },
        )]),
        retired,
        event: Event {
            actor: clean("test"),
            reason: String::new(),
            kind: EventKind::Seal,
        },
        extensions: JsonObject::new(),
        history: Some(RootHistory {
            previous_root_sha256: None,
            changes: Vec::new(),
        }),
        extra: JsonObject::new(),
    };
    let of = |root: Root, given: Option<_>| Version::of(&root, |_| given.clone()).map(|_| ());
    assert_eq!(of(root("p", vec![]), Some(leaf.clone())), Ok(()));
    assert!(matches!(
        of(root("p", vec![]), None),
        Err(VersionError::LeafMissing { .. })
    ));
    world.live(&data("q", 2));
    let other = world.version.leaf(&product("q")).cloned();
    assert!(matches!(
        of(root("p", vec![]), other),
        Err(VersionError::LeafMissing { .. })
    ));
    assert!(matches!(
        of(root("q", vec![]), Some(leaf.clone())),
        Err(VersionError::OtherProduct { .. })
    ));
    let both = of(root("p", vec![tombstone(&key("p", 1))]), Some(leaf.clone()));
    assert!(matches!(both, Err(VersionError::RecordedAndRetired { .. })));
}
