//! Every refusal there is, each met by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use chrono::TimeDelta;

use super::{
    super::draft::Draft,
    fixture::{Edition, World, cites, data, days, hash, id, key, leaf, product, start, structure, version},
};
use crate::{
    doc::{
        Digests, EditionId, EditionState, FileEntry, FileRoot, JsonObject, Lifecycle, Pending, ProductKind, Seq,
        Stored, Tier,
    },
    transition::{
        EditionKey, Operation, PendingEdition, ReferringEdition, Refusal, ReleaseClock, ReleaseWhen, Rollback,
        RollbackRequest, SealedEdition, StoredReferences, VerifiedEdition, Version, check_references, fold,
        resolve_withdraw,
    },
};

macro_rules! refusals {
    ($($name:ident),+ $(,)?) => {
        const ALL: &[&str] = &[$(stringify!($name)),+];

        /// There is no arm for the rest, so a refusal that is added and not listed here does not compile.
        fn name(refusal: &Refusal) -> &'static str {
            match refusal {
                $(Refusal::$name { .. } => stringify!($name),)+
            }
        }
    };
}

refusals!(
    WrongState,
    UnknownProduct,
    AlreadyRecorded,
    EmbargoOn,
    NotFastForward,
    BuiltOnWithdrawn,
    NotDue,
    Competing,
    LiveChanged,
    LiveNotNamed,
    NoRollbackTarget,
    OtherSchema,
    NothingToSupersede,
    InsideWindow,
    Cited,
    FileUnverified,
    OlderThanTombstones,
    MixedKinds,
    ChangedTwice,
    NothingToDo,
    CorrectNotOlder,
    CorrectResurrects,
    CorrectReleases,
    NoMoreVersions,
    BaseAhead,
    ClockAhead,
    TwoLive,
    OtherManifest,
    EntryDisagrees,
    UnknownCanonicalForm,
    FullDisagreesWithHome,
    PartialDisagreesWithHome,
    PartialWithoutHome,
    CopiesDisagree,
    FinalChanged,
    PreviousUnknown,
    TwoHomes,
    StructureNotLive,
    UnresolvedReferences,
    OtherKind,
    StructureWithBindings,
    RecordsMissing,
    LeafUnwritable,
);

/// The refusals met so far.
#[derive(Default)]
struct Met(Vec<Refusal>);

impl Met {
    fn meet(&mut self, expected: &str, refusal: Refusal) {
        cites(&refusal);
        assert_eq!(name(&refusal), expected, "{refusal}");
        self.0.push(refusal);
    }

    fn seal(&mut self, expected: &str, world: &mut World, edition: &Edition) {
        let sealed = world.seal(edition);
        self.meet(expected, world.refusal(&[Operation::Seal(sealed)]));
    }
}

fn release(product_id: &str, n: u8, when: ReleaseWhen) -> [Operation; 1] {
    let edition = key(product_id, n);
    [Operation::Release { edition, when }]
}

fn rollback(if_live: u8, to: u8) -> [Operation; 1] {
    [Operation::Rollback(Rollback {
        product_id: product("p"),
        if_live: id(if_live),
        to: id(to),
    })]
}

fn retire(n: u8) -> [Operation; 1] {
    [Operation::Retire { edition: key("p", n) }]
}

fn correct(to: &Version) -> [Operation; 1] {
    [Operation::Correct {
        to: to.clone(),
        products: BTreeSet::from([product("p")]),
    }]
}

/// What an operation asks of the states it finds.
fn of_states(met: &mut Met) {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    met.seal("AlreadyRecorded", &mut world, &data("p", 1));
    met.seal("NotFastForward", &mut world, &data("p", 2));
    met.seal("PreviousUnknown", &mut world, &data("p", 2).on(9));
    met.meet(
        "WrongState",
        world.refusal(&[Operation::Cancel { edition: key("p", 1) }]),
    );
    met.meet(
        "LiveChanged",
        world.refusal(&[Operation::Withdraw { live: key("p", 2) }]),
    );
    let to_the_last = RollbackRequest {
        product_id: product("p"),
        if_live: None,
        to: None,
    };
    let refused = to_the_last.resolve(&world.version).expect_err("nothing was superseded");
    met.meet("NoRollbackTarget", refused);
    let refused = resolve_withdraw(&world.version, &product("q"), None).map(|_| ());
    met.meet("UnknownProduct", refused.expect_err("there is no such product"));

    world.live(&data("p", 2).on(1));
    met.meet("InsideWindow", world.refusal(&retire(1)));
    world.live(&data("p", 3).on(2).schema("2.53"));
    met.meet("OtherSchema", world.refusal(&rollback(3, 1)));
    let refused = resolve_withdraw(&world.version, &product("p"), None).map(|_| ());
    met.meet("LiveNotNamed", refused.expect_err("two are live"));

    let mut world = World::new(false);
    world.live(&data("p", 1));
    world.live(&data("p", 2).on(1));
    world.apply(&rollback(2, 1));
    met.seal("BuiltOnWithdrawn", &mut world, &data("p", 3).on(2));

    let mut world = World::new(true);
    met.seal("EmbargoOn", &mut world, &data("p", 1));
    world.embargoed(&data("p", 1), Some(start().plus(days(9))));
    met.meet("NotDue", world.refusal(&release("p", 1, ReleaseWhen::Due)));
    let alone = Operation::SupersedePending { by: key("p", 1) };
    met.meet("NothingToSupersede", world.refusal(&[alone]));
}

/// What registrations and files are asked.
fn of_what_is_handed_in(met: &mut Met) {
    let mut world = World::new(true);
    let pending = |edition: &Edition| PendingEdition {
        product_id: edition.key.product_id.clone(),
        pending: Pending {
            edition_id: edition.key.edition_id,
            release_at: None,
            extra: JsonObject::new(),
        },
        manifest: edition.manifest(),
        profile: edition.profile(),
    };
    let window = TimeDelta::from_std(world.retention.tombstone()).expect("the window is in range");
    let forgotten = EditionId::at(start().plus(-window).plus(-days(1)), [1; 10]);
    let old = Edition {
        key: EditionKey::new(product("old"), forgotten),
        ..data("old", 1)
    };
    let editions = [old, data("p", 1), data("p", 2)];
    for edition in &editions {
        world.seal(edition);
    }
    let report = fold(&world.version, editions.iter().map(pending).collect(), &world.context());
    let refused = report.expect("a batch does not fail").refused;
    let names: BTreeSet<&str> = refused.iter().map(|(_, refusal)| name(refusal)).collect();
    assert_eq!(names, BTreeSet::from(["Competing", "OlderThanTombstones"]));
    for (_, refusal) in refused {
        met.meet(name(&refusal), refusal);
    }

    let mut manifest = data("p", 1).manifest().value().clone();
    manifest.files = vec![FileEntry {
        path: "a.parquet".parse().expect("the test's path is well formed"),
        size: 3,
        root: FileRoot::Data,
        tier: Tier::Required,
        digests: Digests::new(hash("a")),
        carried_from: None,
        extra: JsonObject::new(),
    }];
    let sealed = SealedEdition {
        manifest: Stored::encode(manifest).expect("the manifest is valid").into(),
        ..data("p", 1).sealed()
    };
    let refused = VerifiedEdition::compare(sealed, &BTreeMap::new()).map(|_| ());
    met.meet("FileUnverified", refused.expect_err("the file is missing"));
}

/// What a version is built from, and how.
fn of_the_version(met: &mut Met) {
    let mut world = World::new(false);
    met.meet("NothingToDo", world.refusal(&[]));
    let first = world.seal(&data("p", 1));
    let second = world.seal(&data("p", 2).on(1));
    met.meet(
        "ChangedTwice",
        world.refusal(&[Operation::Seal(first), Operation::Seal(second)]),
    );
    world.live(&data("p", 1));
    met.meet("CorrectNotOlder", world.refusal(&correct(&world.version)));
    met.meet(
        "MixedKinds",
        world.refusal(&[Operation::Withdraw { live: key("p", 1) }, Operation::Describe]),
    );
    let was_live = world.version.clone();
    world.apply(&[Operation::Withdraw { live: key("p", 1) }]);
    world.now = start().plus(days(200));
    world.apply(&retire(1));
    met.meet("CorrectResurrects", world.refusal(&correct(&was_live)));

    let mut world = World::new(true);
    world.embargoed(&data("p", 1), None);
    let embargoed = world.version.clone();
    world.apply(&release("p", 1, ReleaseWhen::Explicit));
    let released = world.version.clone();
    world.apply(&correct(&embargoed));
    met.meet("CorrectReleases", world.refusal(&correct(&released)));

    let last = World::at(version(Seq::MAX.get(), false, vec![], vec![]));
    met.meet("NoMoreVersions", last.refusal(&[Operation::Describe]));
    let mut behind = World::at(version(3, false, vec![], vec![]));
    behind.now = start().plus(-days(2));
    met.meet("BaseAhead", behind.refusal(&[Operation::Describe]));
    let fast = ReleaseClock::checked(start().plus(days(1)), start(), Duration::from_secs(1));
    met.meet("ClockAhead", fast.expect_err("a day is more than a second"));

    // No operation leaves a leaf that cannot be written; that the guard stands is seen by getting past them.
    let edition = data("p", 1);
    let mut broken = leaf(&edition, vec![edition.entry(EditionState::Live, start(), None)]);
    broken.editions[0].previous = Some(id(1));
    let (world, base) = (World::new(false), Version::before_the_first(false));
    let context = world.context();
    let mut draft = Draft::new(&base, &context, start());
    draft.put(broken);
    let refused = draft.finish(Seq::FIRST).map(|_| ());
    met.meet(
        "LeafUnwritable",
        refused.expect_err("an edition is not built from itself"),
    );
}

/// What holds of each edition in every version.
fn of_editions(met: &mut Met) {
    let editions = [data("p", 1), data("p", 2).on(1)];
    let live = |edition: &Edition| edition.entry(EditionState::Live, start().plus(-days(3)), None);
    let two = version(
        3,
        false,
        vec![leaf(&editions[0], editions.iter().map(live).collect())],
        vec![],
    );
    let findings = two.findings();
    let [two_live] = &findings[..] else {
        panic!("one finding")
    };
    met.meet("TwoLive", two_live.clone());

    let mut world = World::new(true);
    let edition = data("p", 1);
    world.embargoed(&edition, None);
    world.manifests = Default::default();
    let go = release("p", 1, ReleaseWhen::Explicit);
    met.meet("RecordsMissing", world.refusal(&go));
    world.seal(&Edition {
        content: Some("other"),
        ..edition.clone()
    });
    met.meet("OtherManifest", world.refusal(&go));

    let mut world = World::new(false);
    world.live(&edition);
    let other_lifecycle = Edition {
        lifecycle: Lifecycle::Final,
        ..data("p", 2).on(1)
    };
    met.seal("EntryDisagrees", &mut world, &other_lifecycle);
    let other_kind = Edition {
        kind: ProductKind::Structure,
        ..data("p", 2).on(1)
    };
    met.seal("OtherKind", &mut world, &other_kind);
    let mut bound = world.seal(&data("q", 3));
    bound.profile.kind = ProductKind::Structure;
    met.meet("StructureWithBindings", world.refusal(&[Operation::Seal(bound)]));
    let other_form = Edition {
        form: "7",
        ..data("q", 3)
    };
    met.seal("UnknownCanonicalForm", &mut world, &other_form);
    world.apply(&[Operation::SetLifecycle {
        product_id: product("p"),
        lifecycle: Lifecycle::Final,
    }]);
    let revised = Edition {
        lifecycle: Lifecycle::Final,
        content: Some("revised"),
        ..data("p", 2).on(1)
    };
    met.seal("FinalChanged", &mut world, &revised);
}

/// References to nothing.
struct Dangling;

impl StoredReferences for Dangling {
    fn references(&self) -> BTreeSet<String> {
        BTreeSet::from(["urn:missing".to_owned()])
    }

    fn holds(&self, _: &str) -> bool {
        false
    }

    fn holds_in_full(&self, _: &str) -> bool {
        false
    }
}

/// What holds between the products of a version.
fn between_products(met: &mut Met) {
    let mut world = World::new(false);
    world.live(&structure("s", 1).full("GEO", "geo-1"));
    met.seal("FullDisagreesWithHome", &mut world, &data("a", 2).full("GEO", "geo-2"));
    met.seal(
        "PartialDisagreesWithHome",
        &mut world,
        &data("a", 2).partial("GEO", "geo-2"),
    );
    met.seal("PartialWithoutHome", &mut world, &data("a", 2).partial("AGE", "age-1"));
    met.seal("TwoHomes", &mut world, &structure("t", 2).full("GEO", "geo-1"));
    world.live(&data("a", 2).partial("GEO", "geo-1"));
    world.embargoed(&structure("s", 3).on(1).full("GEO", "geo-2"), None);
    met.seal("StructureNotLive", &mut world, &data("b", 4).partial("GEO", "geo-2"));
    world.apply(&release("s", 3, ReleaseWhen::Explicit));
    world.now = start().plus(days(400));
    let cited = Operation::Retire { edition: key("s", 1) };
    met.meet("Cited", world.refusal(&[cited]));

    let mut world = World::new(false);
    world.live(&data("a", 1).full("DSD", "dsd-1"));
    met.seal("CopiesDisagree", &mut world, &data("b", 2).full("DSD", "dsd-2"));

    for is_structure in [false, true] {
        let referring = ReferringEdition {
            edition: key("a", 1),
            is_structure,
            stored: &Dangling,
        };
        let refused = check_references(&referring, &[]).expect_err("it refers to nothing");
        met.meet("UnresolvedReferences", refused);
    }
}

/// INV-424: each refusal is met by a case that names it, and each release invariant by one that breaks it.
#[test]
fn every_refusal_is_met_by_name() {
    let mut met = Met::default();
    of_states(&mut met);
    of_what_is_handed_in(&mut met);
    of_the_version(&mut met);
    of_editions(&mut met);
    between_products(&mut met);
    let names: BTreeSet<&str> = met.0.iter().map(name).collect();
    let unmet: Vec<&&str> = ALL.iter().filter(|refusal| !names.contains(**refusal)).collect();
    assert!(unmet.is_empty(), "no case meets {unmet:?}");
    // The invariants of §6.5 by number, those of them that are judged on entries and manifests.
    let rules: BTreeSet<u16> = met.0.iter().map(Refusal::rule).collect();
    for invariant in [215, 216, 217, 220, 221, 222, 224, 234, 235, 236, 237, 238, 239] {
        assert!(rules.contains(&invariant), "no case breaks INV-{invariant}");
    }
}
