//! Every (state, operation, precondition) combination of one product against a table written from the design's own table.

use std::collections::{BTreeMap, BTreeSet};

use super::fixture::{Edition, World, cites, data, days, key, leaf, start, tombstone, version};
use crate::{
    doc::{EditionState, Entry, EntryStatus},
    transition::{EditionKey, Operation, ReleaseWhen, Rollback, VerifiedEdition},
};

/// What happens to edition E, by operation and condition; the first row whose conditions all hold decides.
///
/// E is the edition acted on, L the edition it may have been built from, T another embargoed edition built from the same one.
/// Outcomes are the rule that refuses, or the states that change and the kind recorded.
const TABLE: &str = "
seal              | embargo=on                           | INV-195
seal              | E=embargoed                          | INV-404
seal              | E=live                               | INV-404
seal              | E=superseded                         | INV-404
seal              | E=withdrawn                          | INV-404
seal              | E=tombstone                          | INV-404
seal              | previous=L L=unknown                 | INV-235
seal              | previous=L L=live                    | E=live L=superseded kind=seal
seal              | previous=L L=withdrawn               | INV-208
seal              | previous=L                           | INV-205
seal              | previous=null L=live                 | INV-205
seal              | previous=null                        | E=live kind=seal

register          | E=embargoed                          | INV-404
register          | E=live                               | INV-404
register          | E=superseded                         | INV-404
register          | E=withdrawn                          | INV-404
register          | E=tombstone                          | INV-404
register          | previous=L L=unknown                 | INV-235
register          | previous=L L=live                    | E=embargoed kind=seal
register          | previous=L L=withdrawn               | INV-208
register          | previous=L                           | INV-205
register          | previous=null L=live                 | INV-205
register          | previous=null                        | E=embargoed kind=seal

release-due       | E=unknown                            | INV-197
release-due       | E=live                               | INV-197
release-due       | E=superseded                         | INV-197
release-due       | E=withdrawn                          | INV-197
release-due       | E=tombstone                          | INV-197
release-due       | release=none                         | INV-197
release-due       | release=future                       | INV-197
release-due       | previous=L L=live                    | E=live L=superseded kind=release
release-due       | previous=L L=withdrawn               | INV-208
release-due       | previous=L                           | INV-205
release-due       | previous=null L=live                 | INV-205
release-due       | previous=null                        | E=live kind=release

release-named     | E=unknown                            | INV-197
release-named     | E=live                               | INV-197
release-named     | E=superseded                         | INV-197
release-named     | E=withdrawn                          | INV-197
release-named     | E=tombstone                          | INV-197
release-named     | previous=L L=live                    | E=live L=superseded kind=release
release-named     | previous=L L=withdrawn               | INV-208
release-named     | previous=L                           | INV-205
release-named     | previous=null L=live                 | INV-205
release-named     | previous=null                        | E=live kind=release

cancel            | E=embargoed                          | E=withdrawn kind=withdraw
cancel            |                                      | INV-198

supersede-pending | E=unknown                            | INV-199
supersede-pending | E=live                               | INV-199
supersede-pending | E=superseded                         | INV-199
supersede-pending | E=withdrawn                          | INV-199
supersede-pending | E=tombstone                          | INV-199
supersede-pending | previous=L L=withdrawn               | INV-208
supersede-pending | previous=L L=embargoed               | INV-205
supersede-pending | previous=L L=superseded              | INV-205
supersede-pending | previous=L L=tombstone               | INV-205
supersede-pending | previous=null L=live                 | INV-205
supersede-pending | previous=null L=embargoed T=embargoed | L=withdrawn T=withdrawn kind=seal
supersede-pending | T=embargoed                          | T=withdrawn kind=seal
supersede-pending | previous=null L=embargoed            | L=withdrawn kind=seal
supersede-pending | T=unknown                            | INV-199

reschedule        | E=embargoed                          | E=embargoed kind=seal
reschedule        |                                      | INV-198

rollback-to-E     | L=unknown                            | INV-206
rollback-to-E     | L=embargoed                          | INV-206
rollback-to-E     | L=superseded                         | INV-206
rollback-to-E     | L=withdrawn                          | INV-206
rollback-to-E     | L=tombstone                          | INV-206
rollback-to-E     | E=superseded                         | E=live L=withdrawn kind=rollback
rollback-to-E     |                                      | INV-201

rollback-from-E   | E=unknown                            | INV-206
rollback-from-E   | E=embargoed                          | INV-206
rollback-from-E   | E=superseded                         | INV-206
rollback-from-E   | E=withdrawn                          | INV-206
rollback-from-E   | E=tombstone                          | INV-206
rollback-from-E   | L=superseded                         | E=withdrawn L=live kind=rollback
rollback-from-E   |                                      | INV-201

withdraw          | E=live                               | E=withdrawn kind=withdraw
withdraw          |                                      | INV-206

reinstate         | E=tombstone previous=L L=unknown     | INV-235
reinstate         | E=tombstone                          | E=superseded kind=reinstate
reinstate         |                                      | INV-202

retire            | E=superseded age=past                | E=tombstone kind=retire
retire            | E=withdrawn age=past                 | E=tombstone kind=retire
retire            |                                      | INV-203
";

type Scenario = BTreeMap<&'static str, &'static str>;

struct Row {
    operation: &'static str,
    conditions: Vec<(&'static str, &'static str)>,
    outcome: &'static str,
}

fn rows() -> Vec<Row> {
    let lines = TABLE.lines().filter(|line| !line.trim().is_empty());
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [operation, conditions, outcome] = cells[..] else {
            panic!("three cells: {line}")
        };
        let conditions = conditions
            .split_whitespace()
            .map(|one| one.split_once('=').expect("name=value"))
            .collect();
        Row {
            operation,
            conditions,
            outcome,
        }
    };
    lines.map(row).collect()
}

const OPERATIONS: [&str; 12] = [
    "seal",
    "register",
    "release-due",
    "release-named",
    "cancel",
    "supersede-pending",
    "reschedule",
    "rollback-to-E",
    "rollback-from-E",
    "withdraw",
    "reinstate",
    "retire",
];
const STATUSES: [&str; 6] = ["unknown", "embargoed", "live", "superseded", "withdrawn", "tombstone"];

/// Every combination a version can have: no second live edition, no chain with a hole.
fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for embargo in ["on", "off"] {
        for e in STATUSES {
            for l in STATUSES {
                for t in ["unknown", "embargoed"] {
                    for previous in ["null", "L"] {
                        let recorded = !matches!(e, "unknown" | "tombstone");
                        let hole = previous == "L" && l == "unknown" && (recorded || t == "embargoed");
                        if hole || (e == "live" && l == "live") {
                            continue;
                        }
                        let releases: &[&str] = if e == "embargoed" {
                            &["none", "past", "future"]
                        } else {
                            &["none"]
                        };
                        for release in releases {
                            for age in ["inside", "past"] {
                                all.push(Scenario::from([
                                    ("embargo", embargo),
                                    ("E", e),
                                    ("L", l),
                                    ("T", t),
                                    ("previous", previous),
                                    ("release", *release),
                                    ("age", age),
                                ]));
                            }
                        }
                    }
                }
            }
        }
    }
    all
}

fn state(word: &str) -> Option<EditionState> {
    EditionState::from_word(word)
}

struct Set {
    e: Edition,
    l: Edition,
    t: Edition,
}

/// Builds the scenario's version from documents. Edition 9 is withdrawn and always there, so that the product is.
fn build(scenario: &Scenario) -> (World, Set) {
    let l = data("p", 1);
    let on = |edition: Edition| {
        if scenario["previous"] == "L" {
            edition.on(1)
        } else {
            edition
        }
    };
    let set = Set {
        e: on(data("p", 3)),
        l,
        t: on(data("p", 4)),
    };
    let since = start().plus(-days(if scenario["age"] == "past" { 90 } else { 89 }));
    let release_at = match scenario["release"] {
        "past" => Some(start().plus(-days(1))),
        "future" => Some(start().plus(days(1))),
        _ => None,
    };
    let mut entries: Vec<Entry> = vec![data("p", 9).entry(EditionState::Withdrawn, since, None)];
    let mut retired = Vec::new();
    for (name, edition) in [("E", &set.e), ("L", &set.l), ("T", &set.t)] {
        let release_at = release_at.filter(|_| name == "E");
        match (scenario[name], state(scenario[name])) {
            (_, Some(state)) => entries.push(edition.entry(state, since, release_at)),
            ("tombstone", None) => retired.push(tombstone(&edition.key)),
            _ => {}
        }
    }
    let embargo = scenario["embargo"] == "on";
    let mut world = World::at(version(7, embargo, vec![leaf(&set.e, entries)], retired));
    for edition in [&set.e, &set.l, &set.t] {
        world.seal(edition);
    }
    (world, set)
}

fn operation(name: &str, set: &Set) -> Operation {
    let edition = set.e.key.clone();
    let rollback = |from: &Edition, to: &Edition| {
        let (if_live, to) = (from.key.edition_id, to.key.edition_id);
        Operation::Rollback(Rollback {
            product_id: edition.product_id.clone(),
            if_live,
            to,
        })
    };
    match name {
        "seal" => Operation::Seal(set.e.sealed()),
        "register" => Operation::Register {
            sealed: set.e.sealed(),
            release_at: None,
        },
        "release-due" => Operation::Release {
            edition,
            when: ReleaseWhen::Due,
        },
        "release-named" => Operation::Release {
            edition,
            when: ReleaseWhen::Explicit,
        },
        "cancel" => Operation::Cancel { edition },
        "supersede-pending" => Operation::SupersedePending { by: edition },
        "reschedule" => Operation::Reschedule {
            edition,
            release_at: Some(start().plus(days(30))),
        },
        "rollback-to-E" => rollback(&set.l, &set.e),
        "rollback-from-E" => rollback(&set.e, &set.l),
        "withdraw" => Operation::Withdraw { live: edition },
        "reinstate" => {
            let verified = VerifiedEdition::compare(set.e.sealed(), &BTreeMap::new());
            Operation::Reinstate(verified.expect("an edition without files verifies"))
        }
        "retire" => Operation::Retire { edition },
        other => panic!("no operation {other}"),
    }
}

fn word(status: Option<EntryStatus>) -> String {
    status.map_or_else(|| "unknown".to_owned(), |status| status.to_string())
}

/// What really happened, in the table's words.
fn outcome(world: &World, set: &Set, name: &str) -> String {
    let transition = match world.try_apply(&[operation(name, set)]) {
        Err(refusal) => {
            cites(&refusal);
            return format!("INV-{}", refusal.rule());
        }
        Ok(transition) => transition,
    };
    assert_eq!(
        transition.next.findings(),
        [],
        "a transition never leaves a broken version"
    );
    let listed: BTreeSet<EditionKey> = transition
        .changes
        .iter()
        .flat_map(|item| {
            item.entries
                .iter()
                .map(|entry| EditionKey::new(item.product_id.clone(), entry.edition_id))
        })
        .collect();
    let mut parts = Vec::new();
    for (name, edition) in [("E", &set.e.key), ("L", &set.l.key), ("T", &set.t.key)] {
        let (before, after) = (world.status(edition), transition.next.status(edition));
        let same = before == after && world.version.entry(edition) == transition.next.entry(edition);
        assert_eq!(same, !listed.contains(edition), "the change list holds what changed");
        if !same {
            parts.push(format!("{name}={}", word(after)));
        }
    }
    assert_eq!(listed.len(), parts.len(), "nothing else changed");
    assert_eq!(transition.next.embargo(), world.version.embargo());
    parts.push(format!("kind={}", transition.kind));
    parts.join(" ")
}

/// INV-193, INV-194, INV-195, INV-196, INV-197, INV-198, INV-199, INV-200, INV-201, INV-202, INV-203, INV-205, INV-206, INV-208,
/// INV-212: each combination does what the table says, and each row decides some combination.
#[test]
fn every_combination_does_what_the_table_says() {
    let rows = rows();
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut combinations = 0;
    for scenario in scenarios() {
        let (world, set) = build(&scenario);
        for name in OPERATIONS {
            combinations += 1;
            let holds = |row: &&Row| {
                row.operation == name
                    && row
                        .conditions
                        .iter()
                        .all(|(key, value)| scenario.get(key) == Some(value))
            };
            let found = rows.iter().position(|row| holds(&row));
            let index = found.unwrap_or_else(|| panic!("no row for {name} in {scenario:?}"));
            used.insert(index);
            let found = outcome(&world, &set, name);
            if found != rows[index].outcome {
                wrong.push(format!(
                    "{name} in {scenario:?}: expected {}, found {found}",
                    rows[index].outcome
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {combinations} differ, first: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(5)]
    );
    for (index, row) in rows.iter().enumerate() {
        assert!(
            used.contains(&index),
            "row {} {:?} decides nothing",
            row.operation,
            row.conditions
        );
    }
    assert!(combinations > 5_000, "only {combinations} combinations were tried");
}

/// INV-249, INV-250: the same operation against a head on which somebody turned the embargo on is judged anew and refused.
#[test]
fn a_retry_judges_the_embargo_of_the_new_head() {
    let mut world = World::new(false);
    let sealed = world.seal(&data("p", 1));
    let operations = [Operation::Seal(sealed)];
    assert!(world.try_apply(&operations).is_ok());
    world.live(&data("q", 2));
    world.apply(&[Operation::SetEmbargo { on: true }]);
    assert_eq!(world.refusal(&operations).rule(), 195);
    assert_eq!(world.status(&key("p", 1)), None);
}
