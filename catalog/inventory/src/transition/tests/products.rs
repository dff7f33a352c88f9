//! How a catalogue is cut into products changes no rule: large and small, grouped and split, with and without a registry.

use std::collections::BTreeMap;

use super::fixture::{
    Edition, World, clean, codelist, data, days, hash, id, key, leaf, product, start, structure, tombstone, version,
};
use crate::{
    doc::{EditionState, EntryStatus, EventKind, JsonObject, Lifecycle},
    transition::{Operation, Refusal, ReleaseWhen, Rollback, SealedEdition, VerifiedEdition},
};

/// A tombstone's edition in [`catalogue`].
const RETIRED: u8 = 250;

/// A catalogue in which product `p` has `chain` editions, the last one live, one more embargoed and one retired, beside `others`
/// products of one edition.
fn catalogue(chain: u8, others: usize) -> World {
    let since = start().plus(-days(200));
    let edition = |n: u8| match n {
        1 => data("p", 1),
        n => data("p", n).on(n - 1),
    };
    let mut entries: Vec<_> = (1..chain)
        .map(|n| edition(n).entry(EditionState::Superseded, since, None))
        .collect();
    entries.push(edition(chain).entry(EditionState::Live, since, None));
    entries.push(edition(chain + 1).entry(EditionState::Embargoed, since, None));
    let mut leaves = vec![leaf(&data("p", 1), entries)];
    for number in 0..others {
        let other = data(&format!("q{number:04}"), 1);
        leaves.push(leaf(&other, vec![other.entry(EditionState::Live, since, None)]));
    }
    let mut world = World::at(version(900, false, leaves, vec![tombstone(&key("p", RETIRED))]));
    for n in [chain - 1, chain, chain + 1] {
        world.seal(&edition(n));
    }
    world.seal(&data("p", chain + 2).on(chain));
    world.seal(&data("p", RETIRED));
    world
}

/// What may be asked of product `p` with that many editions.
fn asked(chain: u8) -> Vec<(&'static str, Operation)> {
    let sealed = || data("p", chain + 2).on(chain).sealed();
    let release = |when| Operation::Release {
        edition: key("p", chain + 1),
        when,
    };
    let retired = VerifiedEdition::compare(data("p", RETIRED).sealed(), &BTreeMap::new());
    vec![
        ("seal", Operation::Seal(sealed())),
        (
            "register",
            Operation::Register {
                sealed: sealed(),
                release_at: None,
            },
        ),
        ("fork", Operation::Seal(data("p", chain + 2).on(chain - 1).sealed())),
        ("release", release(ReleaseWhen::Explicit)),
        ("release what is not due", release(ReleaseWhen::Due)),
        (
            "cancel",
            Operation::Cancel {
                edition: key("p", chain + 1),
            },
        ),
        (
            "reschedule",
            Operation::Reschedule {
                edition: key("p", chain + 1),
                release_at: Some(start().plus(days(3))),
            },
        ),
        (
            "roll back",
            Operation::Rollback(Rollback {
                product_id: product("p"),
                if_live: id(chain),
                to: id(chain - 1),
            }),
        ),
        ("withdraw", Operation::Withdraw { live: key("p", chain) }),
        (
            "retire",
            Operation::Retire {
                edition: key("p", chain - 1),
            },
        ),
        (
            "retire what is live",
            Operation::Retire {
                edition: key("p", chain),
            },
        ),
        ("reinstate", Operation::Reinstate(retired.expect("it lists no file"))),
    ]
}

type Steps = Vec<(Option<EntryStatus>, Option<EntryStatus>)>;

/// The kind of the version and what changed in `p`, or the rule that refused; and nothing else was touched or written.
fn outcome(world: &World, operation: Operation) -> Result<(EventKind, Steps), u16> {
    let transition = world.try_apply(&[operation]).map_err(|refusal| refusal.rule())?;
    assert_eq!(transition.changes.len(), 1);
    assert_eq!(transition.new_leaves(&world.version).count(), 1);
    assert_eq!(transition.next.leaves().count(), world.version.leaves().count());
    let item = &transition.changes[0];
    assert_eq!(item.product_id, product("p"));
    let steps = item.entries.iter().map(|entry| (entry.from, entry.to)).collect();
    Ok((transition.kind, steps))
}

/// INV-7: whatever is asked of a product gets the same answer, and writes the same one leaf, in a catalogue of one product with two
/// editions, of one with two hundred, and of a thousand products.
#[test]
fn the_same_rules_serve_one_large_product_and_many_small_ones() {
    let small: Vec<_> = asked(2)
        .into_iter()
        .map(|(name, operation)| (name, outcome(&catalogue(2, 0), operation)))
        .collect();
    assert_eq!(small.iter().filter(|(_, found)| found.is_err()).count(), 3, "{small:?}");
    for (chain, others) in [(200, 0), (2, 1000), (60, 100)] {
        let world = catalogue(chain, others);
        for ((name, operation), (_, expected)) in asked(chain).into_iter().zip(&small) {
            assert_eq!(
                outcome(&world, operation),
                *expected,
                "{name} among {chain} editions and {others} products"
            );
        }
    }
}

/// INV-15, INV-234: lifecycle belongs to a product: every edition is of its product's, and a final product changes no table, so a
/// table that is revised is in another product.
#[test]
fn a_final_product_has_no_revisable_member() {
    let last = Edition {
        lifecycle: Lifecycle::Final,
        ..data("f", 1)
    };
    let mut world = World::new(false);
    world.live(&last);
    let member = |lifecycle, content| Edition {
        lifecycle,
        content: Some(content),
        ..data("f", 2).on(1)
    };
    let revisable = world.seal(&member(Lifecycle::Revisable, "content"));
    let refused = world.refusal(&[Operation::Seal(revisable)]);
    assert!(
        matches!(&refused, Refusal::EntryDisagrees { field: "lifecycle", .. }),
        "{refused}"
    );
    let revised = world.seal(&member(Lifecycle::Final, "one table of it revised"));
    let refused = world.refusal(&[Operation::Seal(revised)]);
    assert!(matches!(&refused, Refusal::FinalChanged { .. }), "{refused}");
    world.live(&data("r", 3));
    world.live(&Edition {
        content: Some("revised"),
        ..data("r", 4).on(3)
    });
}

/// INV-374: an agency's structures in one product, or in several, cut anywhere: holders are accepted and refused alike, and an
/// artefact moves from one product to another in one version.
#[test]
fn structures_may_be_split_in_any_way() {
    let names = ["GEO", "AGE", "SEX"];
    let splits: [&[&[usize]]; 4] = [&[&[0, 1, 2]], &[&[0], &[1], &[2]], &[&[0, 2], &[1]], &[&[1, 2], &[0]]];
    for split in splits {
        let mut world = World::new(false);
        for (number, members) in (1..).zip(split) {
            let home = members
                .iter()
                .fold(structure(&format!("s{number}"), number), |home, member| {
                    home.full(names[*member], "first")
                });
            world.live(&home);
        }
        let holder = |n: u8, content: &'static str| {
            let full = data("d", n).full("GEO", content);
            full.partial("AGE", content).partial("SEX", content)
        };
        let other = world.seal(&holder(10, "other"));
        let rule = world.refusal(&[Operation::Seal(other)]).rule();
        assert!([220, 221].contains(&rule), "{split:?}: {rule}");
        world.live(&holder(11, "first"));
        assert_eq!(world.state("d", 11), Some(EditionState::Live), "{split:?}");
    }
    // From one product to two, in one version.
    let mut world = World::new(false);
    world.live(&structure("s", 1).full("GEO", "first").full("AGE", "first"));
    world.live(&data("d", 2).partial("GEO", "first").partial("AGE", "first"));
    let parts = [
        structure("s", 3).on(1).full("GEO", "first"),
        structure("t", 4).full("AGE", "first"),
    ];
    let sealed = parts.map(|part| Operation::Seal(world.seal(&part)));
    world.apply(&sealed);
    world.live(&data("d", 5).on(2).partial("GEO", "first").partial("AGE", "first"));
}

/// INV-379: the registry the structures came from stands in the entry as it was given; what is compared is fingerprints, so the same
/// URN and version with another content is another artefact, and one from elsewhere with the same content is the same.
#[test]
fn a_registry_is_named_and_fingerprints_identify() {
    let mut source = JsonObject::new();
    source.insert("registry", "https://registry.example/sdmx/v2");
    source.insert("version", "1.0");
    let mut world = World::new(false);
    let home = SealedEdition {
        structure_source: Some(source.clone()),
        ..world.seal(&structure("s", 1).full("GEO", "geo as it was"))
    };
    world.apply(&[Operation::Seal(home)]);
    let entry = world.version.entry(&key("s", 1)).expect("it was recorded");
    assert_eq!(entry.structure_source, Some(source.clone()));
    let stored = world
        .version
        .leaf(&product("s"))
        .expect("it was recorded")
        .bytes()
        .clone();
    let text = String::from_utf8(stored.to_vec()).expect("a document is text");
    assert!(
        text.contains("\"structure_source\":{\"registry\":\"https://registry.example/sdmx/v2\""),
        "{text}"
    );

    // The registry changed the artefact and kept its version.
    assert!(codelist("GEO").as_str().ends_with("(1.0)"));
    let changed = SealedEdition {
        structure_source: Some(source),
        ..world.seal(&data("a", 2).full("GEO", "geo as it is now"))
    };
    match world.refusal(&[Operation::Seal(changed)]) {
        Refusal::FullDisagreesWithHome { held, expected, .. } => {
            assert_eq!(
                (held, expected),
                (hash("geo as it is now"), vec![hash("geo as it was")])
            );
        }
        other => panic!("{other}"),
    }
    world.live(&data("a", 2).full("GEO", "geo as it was"));
    let entry = world.version.entry(&key("a", 2)).expect("it was recorded");
    assert_eq!(
        (entry.structure_source.clone(), entry.schema_version.clone()),
        (None, clean("2.52"))
    );
}
