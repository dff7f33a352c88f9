//! Single operations: what an entry holds afterwards, and the refusals the table has no room for.

use std::collections::{BTreeMap, BTreeSet};

use super::fixture::{
    Edition, World, clean, codelist, data, days, hash, id, key, leaf, product, start, structure, tombstone, version,
};
use crate::{
    doc::{
        ArtefactFingerprint, Digests, EditionState, EntryStatus, EventKind, FileEntry, FilePath, FileRoot,
        FormatVersion, JsonObject, Lifecycle, ProductKind, Seq, Stored, Tier,
    },
    transition::{
        EditionKey, MeasuredFile, Operation, Refusal, ReleaseWhen, SealedEdition, Verb, VerifiedEdition, Version,
        check_expunge, directory_is_deletable, prune, resolve_withdraw,
    },
};

/// INV-170, INV-171, INV-175, INV-184, INV-186: a recorded entry is made from the manifest; a release changes state, time and
/// schedule and copies the rest.
#[test]
fn entries_are_filled_when_recorded_and_copied_afterwards() {
    let mut world = World::new(true);
    let release_at = Some(start().plus(days(1)));
    let edition = data("p", 1).full("DSD", "dsd");
    let source: JsonObject = JsonObject::new();
    let sealed = SealedEdition {
        structure_source: Some(source),
        ..world.seal(&edition)
    };
    let registered = world.apply(&[Operation::Register { sealed, release_at }]);
    let entry = world.version.entry(&edition.key).expect("it was recorded").clone();
    assert_eq!(entry.state_changed_at, registered.created_at);
    assert_eq!(
        (entry.release_at, entry.manifest_sha256),
        (release_at, edition.manifest().sha256())
    );
    let record = ArtefactFingerprint {
        fingerprint: hash("dsd"),
        partial_of: None,
    };
    assert_eq!(entry.artefacts, Some(BTreeMap::from([(codelist("DSD"), record)])));
    assert_eq!(entry.routing.as_ref().map(|routing| routing.dataflows.len()), Some(1));
    let released = world.apply(&[Operation::Release {
        edition: edition.key.clone(),
        when: ReleaseWhen::Explicit,
    }]);
    let mut expected = entry;
    expected.state = EditionState::Live;
    expected.state_changed_at = released.created_at;
    expected.release_at = None;
    assert_eq!(world.version.entry(&edition.key), Some(&expected));
}

/// INV-180: a reschedule keeps the state and the time it was taken, and takes the edition off the schedule when asked.
#[test]
fn a_reschedule_changes_the_release_time_alone() {
    let mut world = World::new(true);
    let edition = data("p", 1);
    world.embargoed(&edition, Some(start().plus(days(1))));
    let since = world.version.entry(&edition.key).map(|entry| entry.state_changed_at);
    let reschedule = |release_at| Operation::Reschedule {
        edition: edition.key.clone(),
        release_at,
    };
    assert_eq!(world.refusal(&[reschedule(Some(start().plus(days(1))))]).rule(), 162);
    world.apply(&[reschedule(None)]);
    let entry = world.version.entry(&edition.key).expect("it is still there");
    assert_eq!((entry.state, entry.release_at), (EditionState::Embargoed, None));
    assert_eq!(Some(entry.state_changed_at), since);
}

/// INV-197: an edition is due from its release time on, not a millisecond before, and never without one.
#[test]
fn an_edition_is_due_from_its_release_time() {
    let mut world = World::new(true);
    let release_at = start().plus(days(1));
    world.embargoed(&data("p", 1), Some(release_at));
    world.embargoed(&data("q", 2), None);
    let due = |product_id, n| {
        [Operation::Release {
            edition: key(product_id, n),
            when: ReleaseWhen::Due,
        }]
    };
    world.now = release_at.plus(chrono::TimeDelta::milliseconds(-1));
    let refused = world.refusal(&due("p", 1));
    assert!(matches!(refused, Refusal::NotDue { .. }), "{refused}");
    world.now = release_at;
    assert!(world.try_apply(&due("p", 1)).is_ok());
    assert_eq!(world.refusal(&due("q", 2)).rule(), 197);
}

/// INV-168, INV-425: one product's change writes one leaf; every other leaf is the base's.
#[test]
fn a_one_product_change_writes_one_leaf() {
    let mut world = World::new(false);
    for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
        world.live(&data(name, u8::try_from(index).expect("three products")));
    }
    let base = world.version.clone();
    let transition = world.apply(&[Operation::Withdraw { live: key("b", 1) }]);
    let written: Vec<_> = transition
        .new_leaves(&base)
        .map(|leaf| leaf.product_id.clone())
        .collect();
    assert_eq!(written, [product("b")]);
    assert_eq!(transition.changes.len(), 1);
    assert_eq!(
        transition.next.products()[&product("a")],
        base.products()[&product("a")]
    );
}

/// INV-204: a product whose live edition was withdrawn has no head, and may start again from nothing.
#[test]
fn a_withdrawal_without_successor_leaves_no_head() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    let operation = resolve_withdraw(&world.version, &product("p"), Some(id(1))).expect("it is live");
    let transition = world.apply(&[operation]);
    assert_eq!(transition.kind, EventKind::Withdraw);
    assert_eq!(world.version.head(&product("p"), &clean("2.52")), None);
    let none = resolve_withdraw(&world.version, &product("p"), None)
        .map(|_| ())
        .expect_err("nothing is live");
    assert_eq!(none.rule(), 204);
    world.live(&data("p", 2));
}

/// INV-169: a product's editions are of one kind, and its lifecycle is changed on purpose only.
#[test]
fn a_product_keeps_its_kind_and_lifecycle() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    let other_kind = world.seal(&Edition {
        kind: ProductKind::Structure,
        ..data("p", 2).on(1)
    });
    let refused = world.refusal(&[Operation::Seal(other_kind)]);
    assert!(matches!(refused, Refusal::OtherKind { .. }), "{refused}");
    let other_lifecycle = world.seal(&Edition {
        lifecycle: Lifecycle::Final,
        ..data("p", 2).on(1)
    });
    let refused = world.refusal(&[Operation::Seal(other_lifecycle)]);
    assert_eq!(refused.rule(), 169);
    assert!(
        refused.to_string().contains("revisable") && refused.to_string().contains("final"),
        "{refused}"
    );
    let set = |id, lifecycle| {
        [Operation::SetLifecycle {
            product_id: product(id),
            lifecycle,
        }]
    };
    assert_eq!(world.refusal(&set("p", Lifecycle::Revisable)).rule(), 162);
    assert_eq!(world.refusal(&set("q", Lifecycle::Final)).rule(), 204);
    let transition = world.apply(&set("p", Lifecycle::Final));
    assert_eq!((transition.kind, transition.changes.len()), (EventKind::Seal, 1));
    assert!(transition.changes[0].entries.is_empty(), "no entry differs");
}

/// INV-373: an edition that binds tables is none of a structure product.
#[test]
fn a_structure_edition_with_bindings_is_refused() {
    let mut world = World::new(false);
    let edition = data("p", 1);
    let mut sealed = world.seal(&edition);
    sealed.profile.kind = ProductKind::Structure;
    let refused = world.refusal(&[Operation::Seal(sealed)]);
    assert_eq!(refused.rule(), 373);
    world.live(&structure("p", 2));
}

/// INV-235: a base that belongs to another product is no base.
#[test]
fn a_base_in_another_product_is_refused() {
    let mut world = World::new(false);
    world.live(&data("q", 1));
    let sealed = world.seal(&data("p", 2).on(1));
    let refused = world.refusal(&[Operation::Seal(sealed)]);
    assert_eq!(
        refused,
        Refusal::PreviousUnknown {
            edition: key("p", 2),
            previous: id(1)
        }
    );
}

/// INV-443: turning the embargo and describing change no entry; turning it to what it is is refused.
#[test]
fn an_embargo_change_and_a_description_change_no_entry() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    assert_eq!(world.refusal(&[Operation::SetEmbargo { on: false }]).rule(), 162);
    let base = world.version.clone();
    for (operation, kind) in [
        (Operation::SetEmbargo { on: true }, EventKind::EmbargoChange),
        (Operation::Describe, EventKind::Describe),
    ] {
        let transition = world.apply(&[operation]);
        assert_eq!(transition.kind, kind);
        assert_eq!(transition.changes, []);
        assert_eq!(transition.next.products(), base.products());
    }
    assert!(world.version.embargo());
}

/// INV-156: one version has one kind; a correction, a description and an embargo change stand alone; nothing is no version.
#[test]
fn one_version_records_one_kind() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    world.embargoed(&data("q", 2), None);
    let cancel = Operation::Cancel { edition: key("q", 2) };
    let withdraw = Operation::Withdraw { live: key("p", 1) };
    let embargo = Operation::SetEmbargo { on: true };
    assert_eq!(world.refusal(&[cancel.clone(), embargo.clone()]).rule(), 156);
    assert_eq!(world.refusal(&[embargo.clone(), embargo]).rule(), 156);
    assert_eq!(world.refusal(&[Operation::Describe, Operation::Describe]).rule(), 156);
    assert_eq!(world.refusal(&[]).rule(), 162);
    assert!(world.try_apply(&[cancel, withdraw]).is_ok());
}

/// INV-178: an edition changes once in a version, so no step is hidden between two versions.
#[test]
fn an_edition_changes_once_in_a_version() {
    let mut world = World::new(false);
    let first = world.seal(&data("p", 1));
    let second = world.seal(&data("p", 2).on(1));
    let refused = world.refusal(&[Operation::Seal(first), Operation::Seal(second)]);
    assert_eq!(refused, Refusal::ChangedTwice { edition: key("p", 1) });
    assert_eq!(refused.rule(), 178);
}

/// INV-199: a new edition is recorded and takes the place of the waiting one in one version.
#[test]
fn a_new_edition_supersedes_the_pending_one_in_one_version() {
    let mut world = World::new(true);
    world.embargoed(&data("p", 1), Some(start().plus(days(1))));
    let by = data("p", 2);
    let sealed = world.seal(&by);
    let register = Operation::Register {
        sealed,
        release_at: Some(start().plus(days(2))),
    };
    let transition = world.apply(&[register, Operation::SupersedePending { by: by.key }]);
    assert_eq!(transition.kind, EventKind::Seal);
    assert_eq!(
        (world.state("p", 1), world.state("p", 2)),
        (Some(EditionState::Withdrawn), Some(EditionState::Embargoed))
    );
    assert_eq!(
        world.version.entry(&key("p", 1)).and_then(|entry| entry.release_at),
        None
    );
}

/// INV-19: after the last number a root's name can hold there is no version.
#[test]
fn numbers_end() {
    let world = World::at(version(Seq::MAX.get(), false, vec![], vec![]));
    assert_eq!(world.refusal(&[Operation::Describe]).rule(), 19);
}

/// INV-253: a base far ahead of the clock stops every operation.
#[test]
fn a_base_far_ahead_stops_every_operation() {
    let mut world = World::at(version(3, false, vec![], vec![]));
    world.now = start().plus(-days(2));
    assert_eq!(world.refusal(&[Operation::Describe]).rule(), 253);
}

/// INV-169: a leaf of an older minor version is rewritten in the writer's own.
#[test]
fn a_changed_leaf_takes_the_writers_format() {
    let edition = data("p", 1);
    let mut old = leaf(
        &edition,
        vec![edition.entry(EditionState::Live, start().plus(-days(2)), None)],
    );
    old.format_version = FormatVersion { major: 1, minor: 0 };
    let mut world = World::at(version(3, false, vec![old], vec![]));
    world.apply(&[Operation::Withdraw { live: edition.key }]);
    let format = world.version.leaf(&product("p")).map(|leaf| leaf.format_version);
    assert_eq!(format, Some(FormatVersion::INVENTORY));
}

fn with_files(edition: &Edition) -> SealedEdition {
    let mut manifest = edition.manifest().value().clone();
    let file = |root, path: &str| FileEntry {
        path: path.parse().expect("the test's path is well formed"),
        size: 3,
        root,
        tier: Tier::Required,
        digests: Digests::new(hash(path)),
        carried_from: None,
        extra: JsonObject::new(),
    };
    manifest.files = vec![
        file(FileRoot::Data, "a.parquet"),
        file(FileRoot::Edition, "labels.json"),
    ];
    let manifest = Stored::encode(manifest).expect("the manifest is valid");
    SealedEdition {
        manifest: manifest.into(),
        profile: edition.profile(),
        structure_source: None,
    }
}

/// INV-202, INV-175: reinstate verifies every listed file, by size and hash, and fills the entry again.
#[test]
fn reinstate_verifies_every_file() {
    let edition = data("p", 1);
    let sealed = with_files(&edition);
    let file = |path: &str| path.parse::<FilePath>().expect("the test's path is well formed");
    let good = |path: &str| MeasuredFile {
        size: 3,
        sha256: hash(path),
    };
    let measured = BTreeMap::from([
        ((FileRoot::Data, file("a.parquet")), good("a.parquet")),
        ((FileRoot::Edition, file("labels.json")), good("labels.json")),
    ]);
    let mut missing = measured.clone();
    missing.remove(&(FileRoot::Edition, file("labels.json")));
    let mut longer = measured.clone();
    longer.insert(
        (FileRoot::Data, file("a.parquet")),
        MeasuredFile {
            size: 4,
            ..good("a.parquet")
        },
    );
    let mut other = measured.clone();
    other.insert((FileRoot::Data, file("a.parquet")), good("b.parquet"));
    for (files, named) in [
        (missing, "edition/labels.json"),
        (longer, "data/a.parquet"),
        (other, "data/a.parquet"),
    ] {
        let refused = VerifiedEdition::compare(sealed.clone(), &files)
            .map(|_| ())
            .expect_err("a file is wrong");
        assert_eq!(refused.rule(), 202);
        assert!(refused.to_string().contains(named), "{refused}");
    }
    let verified = VerifiedEdition::compare(sealed, &measured).expect("every file is there");
    let mut world = World::at(version(3, true, vec![], vec![tombstone(&edition.key)]));
    let transition = world.apply(&[Operation::Reinstate(verified)]);
    assert_eq!(transition.kind, EventKind::Reinstate);
    let entry = world.version.entry(&edition.key).expect("it is recorded again");
    assert_eq!(entry.state, EditionState::Superseded);
    assert_eq!(entry.routing.as_ref().map(|routing| routing.pull_bytes), Some(6));
    assert!(entry.artefacts.is_some());
    assert_eq!(world.version.retired().count(), 0);
}

/// INV-155, INV-181: the last edition's retirement takes its product out and leaves the tombstone.
#[test]
fn the_last_retirement_removes_the_product() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    world.apply(&[Operation::Withdraw { live: key("p", 1) }]);
    world.now = start().plus(days(200));
    let transition = world.apply(&[Operation::Retire { edition: key("p", 1) }]);
    assert!(world.version.leaf(&product("p")).is_none());
    assert_eq!(world.status(&key("p", 1)), Some(EntryStatus::Tombstone));
    assert_eq!(transition.changes[0].leaf_sha256.to, None);
    let again = world.seal(&data("p", 1));
    assert_eq!(
        world.refusal(&[Operation::Seal(again)]).rule(),
        404,
        "a tombstone is not recorded again"
    );
}

/// INV-203: the window counts from when the state was taken, to the second, and the refusal says when it passes.
#[test]
fn the_window_passes_when_it_says() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    let withdrawn = world.apply(&[Operation::Withdraw { live: key("p", 1) }]);
    let until = withdrawn.created_at.plus(days(90));
    let retire = [Operation::Retire { edition: key("p", 1) }];
    world.now = until.plus(chrono::TimeDelta::milliseconds(-1));
    match world.refusal(&retire) {
        Refusal::InsideWindow { until: said, .. } => assert_eq!(said, until),
        other => panic!("{other}"),
    }
    world.now = until;
    assert!(world.try_apply(&retire).is_ok());
}

/// INV-203, INV-416: pruning finds what is due, and says of the rest why it is kept.
#[test]
fn prune_says_what_is_due_and_why_the_rest_is_kept() {
    let mut world = World::new(false);
    world.live(&structure("s", 1).full("GEO", "geo-1"));
    world.live(&data("a", 2).partial("GEO", "geo-1"));
    world.live(&structure("s", 3).on(1).full("GEO", "geo-2"));
    world.live(&data("b", 4));
    world.live(&data("b", 5).on(4));
    world.now = start().plus(days(100));
    world.live(&data("b", 6).on(5));
    let found = prune(&world.version, &world.context());
    let due: Vec<EditionKey> = found.due.iter().filter_map(Operation::edition).collect();
    assert_eq!(due, [key("b", 4)]);
    let kept: Vec<(EditionKey, u16)> = found
        .kept
        .iter()
        .map(|(edition, refusal)| (edition.clone(), refusal.rule()))
        .collect();
    assert_eq!(kept, [(key("b", 5), 203), (key("s", 1), 416)]);
    world.apply(&found.due);
    assert_eq!(world.status(&key("b", 4)), Some(EntryStatus::Tombstone));
}

/// INV-411, INV-412: bytes go as a tombstone past the backups, or by expunge once the edition was taken back.
#[test]
fn bytes_go_when_no_reader_needs_them() {
    let states = [
        (1, EditionState::Embargoed, false),
        (2, EditionState::Live, false),
        (3, EditionState::Superseded, false),
        (4, EditionState::Withdrawn, true),
    ];
    let since = start().plus(-days(500));
    let entries = states
        .iter()
        .map(|(n, state, _)| data("p", *n).entry(*state, since, None))
        .collect();
    let world = World::at(version(
        3,
        true,
        vec![leaf(&data("p", 1), entries)],
        vec![tombstone(&key("p", 5))],
    ));
    for (n, state, expunge) in states {
        let edition = key("p", n);
        assert!(
            !directory_is_deletable(&world.version, &edition, start().plus(days(999)), &world.retention),
            "{state}"
        );
        match check_expunge(&world.version, &edition) {
            Ok(()) => assert!(expunge, "{state}"),
            Err(refused) => {
                assert!(!expunge, "{state}");
                assert_eq!(refused.rule(), 412);
                assert!(matches!(
                    refused,
                    Refusal::WrongState {
                        verb: Verb::Expunge,
                        ..
                    }
                ));
            }
        }
    }
    let gone = key("p", 5);
    assert_eq!(check_expunge(&world.version, &gone), Ok(()));
    assert_eq!(
        check_expunge(&world.version, &key("p", 6)).map_err(|refused| refused.rule()),
        Err(412)
    );
    // Retired two days before the fixture's start; backups are kept for 30 days.
    assert!(!directory_is_deletable(
        &world.version,
        &gone,
        start().plus(days(27)),
        &world.retention
    ));
    assert!(directory_is_deletable(
        &world.version,
        &gone,
        start().plus(days(28)),
        &world.retention
    ));
    assert!(!directory_is_deletable(
        &world.version,
        &key("p", 6),
        start().plus(days(999)),
        &world.retention
    ));
}

fn correct(to: &Version, id: &str) -> [Operation; 1] {
    [Operation::Correct {
        to: to.clone(),
        products: BTreeSet::from([product(id)]),
    }]
}

/// INV-150, INV-165: a correction reuses the older leaf as it was, names that version, and is listed against the head.
#[test]
fn a_correction_reuses_the_older_leaf() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    let good = world.version.clone();
    world.live(&data("p", 2).on(1));
    world.live(&data("q", 3));
    let head = world.version.clone();
    let transition = world.apply(&correct(&good, "p"));
    assert_eq!(transition.kind, EventKind::Correct);
    assert_eq!(transition.previous_inventory, good.seq());
    assert_eq!(transition.next.seq(), head.seq().and_then(Seq::next));
    let leaf = |version: &Version| version.leaf(&product("p")).map(|leaf| leaf.sha256());
    assert_eq!(leaf(&transition.next), leaf(&good));
    assert_eq!(transition.changes.len(), 1, "product q is as it was");
    assert_eq!(transition.changes[0].leaf_sha256.from, leaf(&head));
    assert_eq!(
        world.status(&key("p", 2)),
        Some(EntryStatus::Tombstone),
        "what was undone cannot be folded again"
    );
    assert_eq!(world.state("p", 1), Some(EditionState::Live));
}

/// INV-150: a correction names an older version and undoes something.
#[test]
fn a_correction_from_the_head_or_without_effect_is_refused() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    let head = world.version.clone();
    assert_eq!(world.refusal(&correct(&head, "p")).rule(), 150);
    assert_eq!(
        world.refusal(&correct(&Version::before_the_first(false), "p")).rule(),
        150
    );
    world.live(&data("q", 2));
    assert_eq!(world.refusal(&correct(&head, "p")).rule(), 162);
    assert_eq!(world.refusal(&correct(&head, "r")).rule(), 204);
    let twice: Vec<Operation> = correct(&head, "q").into_iter().chain(correct(&head, "q")).collect();
    assert_eq!(world.refusal(&twice).rule(), 156);
}

/// INV-181: a correction brings no tombstone back.
#[test]
fn a_correction_resurrects_nothing() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    world.apply(&[Operation::Withdraw { live: key("p", 1) }]);
    let good = world.version.clone();
    world.now = start().plus(days(200));
    world.apply(&[Operation::Retire { edition: key("p", 1) }]);
    let refused = world.refusal(&correct(&good, "p"));
    assert!(matches!(refused, Refusal::CorrectResurrects { .. }), "{refused}");
    assert_eq!(refused.rule(), 181);
}

/// INV-197: a correction releases nothing, even what was live once.
#[test]
fn a_correction_releases_nothing() {
    let mut world = World::new(true);
    let edition = data("p", 1);
    world.embargoed(&edition, None);
    let embargoed = world.version.clone();
    world.apply(&[Operation::Release {
        edition: edition.key,
        when: ReleaseWhen::Explicit,
    }]);
    let released = world.version.clone();
    world.apply(&correct(&embargoed, "p"));
    assert_eq!(world.state("p", 1), Some(EditionState::Embargoed));
    let refused = world.refusal(&correct(&released, "p"));
    assert!(matches!(refused, Refusal::CorrectReleases { .. }), "{refused}");
    assert_eq!(refused.rule(), 197);
}
