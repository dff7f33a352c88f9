//! Random histories: whatever is asked, and whatever is refused, every version keeps the rules.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};

use super::fixture::{Edition, World, clean, data, days, id, product, structure};
use crate::{
    doc::{
        Document as _, EditionState, EntryStatus, Epoch, Event, EventKind, FormatVersion, JsonObject, Lifecycle,
        Producer, ProductKind, Root, RootHistory, Seq, Sha256, Urn,
    },
    transition::{
        EditionKey, Operation, PendingEdition, ReleaseWhen, Rollback, RollbackRequest, Standings, Transition,
        VerifiedEdition, Version, fold, prune, release_due,
    },
};

const LIVE: EntryStatus = EntryStatus::State(EditionState::Live);
const EMBARGOED: EntryStatus = EntryStatus::State(EditionState::Embargoed);
const SUPERSEDED: EntryStatus = EntryStatus::State(EditionState::Superseded);
const WITHDRAWN: EntryStatus = EntryStatus::State(EditionState::Withdrawn);

/// One step: what to do, and three numbers that choose with what.
type Step = (u8, u8, u8, u8);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any::<Step>(), 1..60)
}

struct History {
    world: World,
    editions: Vec<Edition>,
    versions: Vec<Version>,
    accepted: BTreeMap<String, usize>,
}

fn pick<T: Clone>(items: &[T], choice: u8) -> Option<T> {
    (!items.is_empty()).then(|| items[usize::from(choice) % items.len()].clone())
}

impl History {
    fn new() -> Self {
        Self {
            world: World::new(false),
            editions: Vec::new(),
            versions: Vec::new(),
            accepted: BTreeMap::new(),
        }
    }

    /// A new edition of one of three products, mostly built from a live edition, with structures that change now and then.
    fn new_edition(&mut self, a: u8, b: u8, c: u8) -> Edition {
        let n = u8::try_from(self.editions.len() % 250).expect("below 250");
        let geo = ["geo-1", "geo-1", "geo-2"][usize::from(b) % 3];
        let dsd = ["dsd-1", "dsd-1", "dsd-1", "dsd-2"][usize::from(c) % 4];
        let edition = match a % 5 {
            0 => structure("s", n).full("GEO", geo),
            1 => structure("t", n).full(if c.is_multiple_of(4) { "GEO" } else { "OTHER" }, "geo-1"),
            2 => data("p", n).partial("GEO", geo).full("DSD", dsd),
            3 => data("q", n).full("GEO", geo),
            _ => data("r", n).full("DSD", dsd),
        };
        let edition = if b.is_multiple_of(7) {
            edition.schema("2.53")
        } else {
            edition
        };
        let mine: Vec<u8> = (0u8..)
            .zip(&self.editions)
            .filter(|(_, other)| other.key.product_id == edition.key.product_id)
            .map(|(n, _)| n)
            .collect();
        let live: Vec<u8> = mine
            .iter()
            .copied()
            .filter(|n| self.world.state(edition.key.product_id.as_str(), *n) == Some(EditionState::Live))
            .collect();
        let previous = match c % 8 {
            0 => None,
            1 => pick(&mine, b),
            _ => pick(&live, b),
        };
        let edition = previous.map_or_else(|| edition.clone(), |previous| edition.clone().on(previous));
        let lifecycle = self
            .world
            .version
            .leaf(&edition.key.product_id)
            .map(|leaf| leaf.lifecycle);
        let edition = Edition {
            lifecycle: lifecycle.unwrap_or(Lifecycle::Revisable),
            content: Some(if c.is_multiple_of(5) { "changed" } else { "content" }),
            ..edition
        };
        self.editions.push(edition.clone());
        edition
    }

    /// An edition that stands so, or any when there is none.
    fn an_edition(&self, status: EntryStatus, choice: u8) -> Option<Edition> {
        let such: Vec<Edition> = self
            .editions
            .iter()
            .filter(|edition| self.world.status(&edition.key) == Some(status))
            .cloned()
            .collect();
        // One time in eight anything at all, so that refusals are met as well.
        if choice.is_multiple_of(8) {
            pick(&self.editions, choice / 8)
        } else {
            pick(&such, choice)
        }
    }

    fn operations(&mut self, (what, a, b, c): Step) -> Option<Vec<Operation>> {
        let release_at = (b % 3 > 0).then(|| self.world.now.plus(TimeDelta::hours(i64::from(b) - 100)));
        Some(match what % 18 {
            0..3 => {
                let edition = self.new_edition(a, b, c);
                vec![Operation::Seal(self.world.seal(&edition))]
            }
            3..6 => {
                let edition = self.new_edition(a, b, c);
                vec![Operation::Register {
                    sealed: self.world.seal(&edition),
                    release_at,
                }]
            }
            6 | 7 => {
                let edition = self.an_edition(EMBARGOED, a)?.key;
                let when = if b % 2 == 0 {
                    ReleaseWhen::Due
                } else {
                    ReleaseWhen::Explicit
                };
                vec![Operation::Release { edition, when }]
            }
            8 => vec![Operation::Cancel {
                edition: self.an_edition(EMBARGOED, a)?.key,
            }],
            9 => vec![Operation::SupersedePending {
                by: self.an_edition(EMBARGOED, a)?.key,
            }],
            10 => vec![Operation::Reschedule {
                edition: self.an_edition(EMBARGOED, a)?.key,
                release_at,
            }],
            11 => {
                let request = RollbackRequest {
                    product_id: self.an_edition(LIVE, a)?.key.product_id,
                    if_live: self.an_edition(LIVE, a).map(|edition| edition.key.edition_id),
                    to: None,
                };
                let fallback = Rollback {
                    product_id: product("p"),
                    if_live: id(b),
                    to: id(c),
                };
                vec![Operation::Rollback(
                    request.resolve(&self.world.version).unwrap_or(fallback),
                )]
            }
            12 => vec![Operation::Withdraw {
                live: self.an_edition(LIVE, a)?.key,
            }],
            13 => {
                let edition = self.an_edition(EntryStatus::Tombstone, a)?;
                let verified = VerifiedEdition::compare(edition.sealed(), &BTreeMap::new()).expect("it lists no file");
                vec![Operation::Reinstate(verified)]
            }
            14 => {
                if b.is_multiple_of(2) {
                    self.world.now = self.world.now.plus(days(91));
                }
                let from = if c.is_multiple_of(2) { SUPERSEDED } else { WITHDRAWN };
                vec![Operation::Retire {
                    edition: self.an_edition(from, a)?.key,
                }]
            }
            15 if a % 3 > 0 => {
                let lifecycle = *pick(Lifecycle::ALL, b).as_ref()?;
                vec![Operation::SetLifecycle {
                    product_id: pick(&self.editions, c)?.key.product_id,
                    lifecycle,
                }]
            }
            15 => vec![Operation::SetEmbargo { on: b % 4 == 0 }],
            16 => {
                let products = self.editions.iter().map(|edition| edition.key.product_id.clone());
                let products: BTreeSet<_> = products.collect();
                let products: Vec<_> = products.into_iter().collect();
                vec![Operation::Correct {
                    to: pick(&self.versions, b)?,
                    products: BTreeSet::from([pick(&products, c)?]),
                }]
            }
            _ => vec![Operation::Describe],
        })
    }

    fn step(&mut self, step: Step) {
        let (what, a, b, c) = step;
        let base = self.world.version.clone();
        self.world.now = self.world.now.plus(TimeDelta::minutes(i64::from(a)));
        let transition = match what {
            240.. => self.batch(a, b, c),
            _ => {
                let Some(operations) = self.operations(step) else {
                    return;
                };
                let result = self.world.try_apply(&operations);
                if let (Ok(_), Some(operation)) = (&result, operations.first()) {
                    let name = format!("{operation:?}");
                    let name = name.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
                    *self.accepted.entry(name).or_default() += 1;
                }
                result.ok()
            }
        };
        if let Some(transition) = transition {
            check(&base, &transition);
            self.world.version = transition.next.clone();
            self.versions.push(transition.next);
        }
    }

    /// A scheduled release, a fold or a pruning.
    fn batch(&mut self, a: u8, b: u8, c: u8) -> Option<Transition> {
        let name;
        let transition = match a % 3 {
            0 => {
                name = "release_due";
                let now = self.world.now;
                let due: BTreeSet<EditionKey> = self
                    .editions
                    .iter()
                    .filter(|edition| {
                        let entry = self.world.version.entry(&edition.key);
                        let due = |entry: &crate::doc::Entry| {
                            entry.state == EditionState::Embargoed && entry.release_at.is_some_and(|at| at <= now)
                        };
                        entry.is_some_and(due)
                    })
                    .map(|edition| edition.key.clone())
                    .collect();
                let report = release_due(&self.world.version, &self.world.context()).expect("every record is at hand");
                let answered = report
                    .done
                    .iter()
                    .chain(report.refused.iter().map(|(edition, _)| edition));
                assert_eq!(
                    answered.cloned().collect::<BTreeSet<_>>(),
                    due,
                    "every due edition is answered, and no other"
                );
                assert_eq!(report.done.is_empty(), report.transition.is_none());
                for edition in &report.done {
                    let next = report.transition.as_ref().map(|transition| &transition.next);
                    assert_eq!(next.and_then(|next| next.status(edition)), Some(LIVE));
                }
                report.transition
            }
            1 => {
                name = "fold";
                let editions = [self.new_edition(a, b, c), self.new_edition(b, c, a)];
                // One that was registered before comes along.
                let again = pick(&self.editions, c);
                let pending = editions.iter().chain(&again).map(|edition| {
                    let manifest = self.world.seal(edition).manifest;
                    let pending = crate::doc::Pending {
                        edition_id: edition.key.edition_id,
                        release_at: Some(self.world.now.plus(days(1))),
                        extra: JsonObject::new(),
                    };
                    let product_id = edition.key.product_id.clone();
                    PendingEdition {
                        product_id,
                        pending,
                        manifest,
                        profile: edition.profile(),
                    }
                });
                let pending: Vec<_> = pending.collect();
                let report =
                    fold(&self.world.version, pending, &self.world.context()).expect("every record is at hand");
                for edition in &report.done {
                    let next = report.transition.as_ref().map(|transition| &transition.next);
                    assert_eq!(next.and_then(|next| next.status(edition)), Some(EMBARGOED));
                }
                report.transition
            }
            _ => {
                name = "prune";
                let due = prune(&self.world.version, &self.world.context()).due;
                if due.is_empty() {
                    return None;
                }
                Some(
                    self.world
                        .try_apply(&due)
                        .expect("what pruning finds due can be retired"),
                )
            }
        };
        if transition.is_some() {
            *self.accepted.entry(name.to_owned()).or_default() += 1;
        }
        transition
    }
}

fn statuses(version: &Version) -> BTreeMap<EditionKey, EntryStatus> {
    let recorded = version.leaves().flat_map(|leaf| {
        let entry = |entry: &crate::doc::Entry| {
            (
                EditionKey::new(leaf.product_id.clone(), entry.edition_id),
                EntryStatus::State(entry.state),
            )
        };
        leaf.editions.iter().map(entry).collect::<Vec<_>>()
    });
    let retired = version.retired().map(|tombstone| {
        (
            EditionKey::new(tombstone.product_id.clone(), tombstone.edition_id),
            EntryStatus::Tombstone,
        )
    });
    recorded.chain(retired).collect()
}

/// What holds of every step, said without the code under test.
fn check(base: &Version, transition: &Transition) {
    let next = &transition.next;
    let kind = &transition.kind;
    let (before, after) = (statuses(base), statuses(next));

    // At most one live edition for each product and schema version.
    let mut heads = BTreeSet::new();
    for leaf in next.leaves() {
        for entry in leaf.editions.iter().filter(|entry| entry.state == EditionState::Live) {
            assert!(
                heads.insert((leaf.product_id.clone(), entry.schema_version.clone())),
                "two heads after {kind}"
            );
            assert_eq!(entry.release_at, None);
        }
        assert!(
            !leaf.editions.is_empty(),
            "a product without editions leaves the Inventory"
        );
        for entry in &leaf.editions {
            let previous = entry
                .previous
                .map(|previous| EditionKey::new(leaf.product_id.clone(), previous));
            assert!(
                previous.is_none_or(|previous| after.contains_key(&previous)),
                "the chain has a hole after {kind}"
            );
        }
    }

    for (edition, from) in &before {
        let to = after.get(edition);
        // Nothing is forgotten.
        assert!(to.is_some(), "{edition} vanished after {kind}");
        let to = to.copied();
        if to == Some(*from) {
            continue;
        }
        // A tombstone is left by reinstate only, and never for live.
        if *from == EntryStatus::Tombstone {
            assert_eq!((kind, to), (&EventKind::Reinstate, Some(SUPERSEDED)), "{edition}");
        }
        // No embargo ends but by a release.
        if *from == EMBARGOED && to == Some(LIVE) {
            assert_eq!(kind, &EventKind::Release, "{edition}");
        }
        // What was withdrawn is routed again by nothing but an explicit correction.
        if *from == WITHDRAWN && to == Some(LIVE) {
            assert_eq!(kind, &EventKind::Correct, "{edition}");
        }
        if *from == SUPERSEDED && to == Some(LIVE) {
            assert!(
                matches!(kind, EventKind::Rollback | EventKind::Correct),
                "{edition} by {kind}"
            );
        }
    }
    // An edition nobody knew goes live by a seal with the embargo off only.
    for (edition, to) in after.iter().filter(|(edition, _)| !before.contains_key(*edition)) {
        assert_eq!(kind, &EventKind::Seal, "{edition} came as {to}");
        assert!(
            *to == EMBARGOED || (*to == LIVE && !base.embargo()),
            "{edition} came as {to}"
        );
    }

    check_structures(&before, next);

    // The change list applied to the base gives the next version, and the root that carries it is a valid document.
    let mut standings = Standings::of(base);
    standings
        .apply(&transition.changes)
        .expect("the change list fits its base");
    assert_eq!(standings, Standings::of(next));
    let created_at = next.created_at().expect("a written version has a time");
    assert_eq!(created_at, transition.created_at);
    if let Some(base) = base.created_at() {
        assert!(created_at.since(base) >= TimeDelta::milliseconds(1));
    }
    let root = root(base, transition);
    let bytes = root.encode().expect("the root is a valid document");
    let read = Root::decode(&bytes).expect("what was written is read");
    let again = Version::of(&read, |sha256| {
        next.leaves().find(|leaf| leaf.sha256() == sha256).cloned()
    });
    assert_eq!(
        Standings::of(&again.expect("root and leaves belong together")),
        Standings::of(next)
    );
}

/// A data edition that became live stands on structures that are live; an artefact has one live home.
fn check_structures(before: &BTreeMap<EditionKey, EntryStatus>, next: &Version) {
    let live = |kind| {
        next.leaves().filter(move |leaf| leaf.kind == kind).flat_map(|leaf| {
            let live = leaf.editions.iter().filter(|entry| entry.state == EditionState::Live);
            live.map(|entry| (EditionKey::new(leaf.product_id.clone(), entry.edition_id), entry))
                .collect::<Vec<_>>()
        })
    };
    let mut homes: BTreeMap<&Urn, Vec<(EditionKey, Sha256)>> = BTreeMap::new();
    for (edition, entry) in live(ProductKind::Structure) {
        for (urn, record) in entry.artefacts.iter().flatten() {
            homes
                .entry(urn)
                .or_default()
                .push((edition.clone(), record.fingerprint));
        }
    }
    for (urn, holders) in &homes {
        let products: BTreeSet<_> = holders.iter().map(|(edition, _)| &edition.product_id).collect();
        assert_eq!(products.len(), 1, "{urn} has two live homes");
    }
    for (edition, entry) in live(ProductKind::Data).filter(|(edition, _)| before.get(edition) != Some(&LIVE)) {
        for (urn, record) in entry.artefacts.iter().flatten() {
            let held = record.partial_of.unwrap_or(record.fingerprint);
            match homes.get(urn) {
                Some(holders) => assert!(
                    holders.iter().any(|(_, other)| *other == held),
                    "{edition} stands on nothing"
                ),
                None => assert_eq!(record.partial_of, None, "{edition} holds a partial without a live home"),
            }
        }
    }
}

fn root(base: &Version, transition: &Transition) -> Root {
    let next = &transition.next;
    Root {
        format_version: FormatVersion::INVENTORY,
        seq: next.seq().expect("a written version has a number"),
        previous_inventory: transition.previous_inventory,
        restore_epoch: Epoch::FIRST,
        created_at: transition.created_at,
        producer: Producer {
            name: clean("sovm"),
            version: clean("0"),
        },
        embargo: next.embargo(),
        products: next.products(),
        retired: next.retired().cloned().collect(),
        event: Event {
            actor: clean("test"),
            reason: String::new(),
            kind: transition.kind.clone(),
        },
        extensions: JsonObject::new(),
        history: Some(RootHistory {
            previous_root_sha256: base.seq().map(|_: Seq| Sha256::of(b"the base")),
            changes: transition.changes.clone(),
        }),
        extra: JsonObject::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// INV-163, INV-181, INV-193, INV-207, INV-215, INV-235, INV-442: whatever is asked, in whatever order, every version keeps the rules and
    /// its change list adds up.
    #[test]
    fn every_history_keeps_the_rules(steps in steps()) {
        let mut history = History::new();
        for step in steps {
            history.step(step);
        }
    }
}

/// INV-212: the histories above are no empty exercise: over a fixed set of them every operation is accepted many times.
#[test]
fn random_histories_reach_every_operation() {
    let mut runner = TestRunner::deterministic();
    let mut accepted: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..300 {
        let steps = steps()
            .new_tree(&mut runner)
            .expect("steps can always be drawn")
            .current();
        let mut history = History::new();
        for step in steps {
            history.step(step);
        }
        for (name, count) in history.accepted {
            *accepted.entry(name).or_default() += count;
        }
    }
    let expected = [
        "Cancel",
        "Correct",
        "Describe",
        "Register",
        "Reinstate",
        "Release",
        "Reschedule",
        "Retire",
        "Rollback",
        "Seal",
        "SetEmbargo",
        "SetLifecycle",
        "SupersedePending",
        "Withdraw",
        "fold",
        "prune",
        "release_due",
    ];
    for name in expected {
        let count = accepted.get(name).copied().unwrap_or_default();
        assert!(count >= 5, "{name} was accepted {count} times only: {accepted:?}");
    }
}
