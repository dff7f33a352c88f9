//! Release invariants between products: homes, copies, publish order, staleness.

use super::fixture::{Edition, World, clean, codelist, data, days, hash, id, key, product, start, structure};
use crate::{
    doc::{EditionState, Entry, Lifecycle, Stored},
    transition::{EditionKey, Operation, Refusal, ReleaseWhen, Rollback, Verb, stale_artefacts},
};

fn release(edition: &Edition) -> Operation {
    Operation::Release {
        edition: edition.key.clone(),
        when: ReleaseWhen::Explicit,
    }
}

fn seal_refused(world: &mut World, edition: &Edition) -> Refusal {
    let sealed = world.seal(edition);
    world.refusal(&[Operation::Seal(sealed)])
}

fn register_refused(world: &mut World, edition: &Edition) -> Refusal {
    let sealed = world.seal(edition);
    world.refusal(&[Operation::Register {
        sealed,
        release_at: None,
    }])
}

/// A world in which structure product `s` holds codelist `GEO` in full, with content `geo-1`, live.
fn with_home() -> World {
    let mut world = World::new(false);
    world.live(&structure("s", 1).full("GEO", "geo-1"));
    world
}

/// INV-219, INV-220, INV-221, INV-237: a copy and a partial of what is live in the home go live.
#[test]
fn copies_of_the_live_home_are_accepted() {
    let mut world = with_home();
    world.live(&data("a", 2).full("GEO", "geo-1"));
    world.live(&data("b", 3).partial("GEO", "geo-1"));
    assert_eq!(world.state("b", 3), Some(EditionState::Live));
}

/// INV-220: with a home, another full copy is refused, live and embargoed alike.
#[test]
fn a_full_artefact_that_differs_from_its_home_is_refused() {
    let mut world = with_home();
    let edition = data("a", 2).full("GEO", "geo-2");
    for refused in [
        seal_refused(&mut world, &edition),
        register_refused(&mut world, &edition),
    ] {
        assert_eq!(refused.rule(), 220);
        let expected = Refusal::FullDisagreesWithHome {
            edition: key("a", 2),
            urn: codelist("GEO"),
            held: hash("geo-2"),
            home: product("s"),
            expected: vec![hash("geo-1")],
        };
        assert_eq!(refused, expected);
    }
}

/// INV-221: a partial cut from something else is refused, live and embargoed alike, naming both fingerprints.
#[test]
fn a_partial_cut_from_something_else_is_refused() {
    let mut world = with_home();
    let edition = data("a", 2).partial("GEO", "geo-2");
    for refused in [
        seal_refused(&mut world, &edition),
        register_refused(&mut world, &edition),
    ] {
        assert_eq!(refused.rule(), 221);
        let text = refused.to_string();
        assert!(
            text.contains(&hash("geo-1").to_string()) && text.contains(&hash("geo-2").to_string()),
            "{text}"
        );
    }
}

/// INV-222: a partial of what no structure product holds is refused, even embargoed; a full copy elsewhere is no home.
#[test]
fn a_partial_without_a_home_is_refused() {
    let mut world = World::new(false);
    world.live(&data("b", 1).full("GEO", "geo-1"));
    let edition = data("a", 2).partial("GEO", "geo-1");
    assert_eq!(seal_refused(&mut world, &edition).rule(), 222);
    assert_eq!(register_refused(&mut world, &edition).rule(), 222);
}

/// INV-219: a home that was withdrawn is none.
#[test]
fn a_withdrawn_structure_edition_is_no_home() {
    let mut world = with_home();
    world.apply(&[Operation::Withdraw { live: key("s", 1) }]);
    assert_eq!(
        seal_refused(&mut world, &data("a", 2).partial("GEO", "geo-1")).rule(),
        222
    );
}

/// INV-219, INV-237, INV-432: an embargoed structure edition is a home to wait with, and no home to go live with.
#[test]
fn data_waits_for_its_structure_edition() {
    let mut world = with_home();
    let edit = structure("s", 2).on(1).full("GEO", "geo-2");
    world.embargoed(&edit, None);
    let edition = data("a", 3).partial("GEO", "geo-2");
    let refused = seal_refused(&mut world, &edition);
    assert_eq!(refused.rule(), 237);
    assert!(refused.to_string().contains(&hash("geo-2").to_string()), "{refused}");
    world.embargoed(&edition, None);
    assert_eq!(world.refusal(&[release(&edition)]).rule(), 237);
    world.apply(&[release(&edit)]);
    world.apply(&[release(&edition)]);
    assert_eq!(world.state("a", 3), Some(EditionState::Live));
}

/// INV-237, INV-376: structure and data go live in one version, whichever is named first.
#[test]
fn structure_and_data_go_live_together() {
    for structure_first in [true, false] {
        let mut world = with_home();
        let edit = structure("s", 2).on(1).full("GEO", "geo-2");
        let edition = data("a", 3).partial("GEO", "geo-2");
        world.embargoed(&edit, None);
        world.embargoed(&edition, None);
        let mut operations = vec![release(&edit), release(&edition)];
        if !structure_first {
            operations.reverse();
        }
        world.apply(&operations);
        assert_eq!(world.state("a", 3), Some(EditionState::Live));
        assert_eq!(world.state("s", 1), Some(EditionState::Superseded));
    }
}

/// INV-237: the same holds of a full artefact with a home.
#[test]
fn a_full_copy_of_an_embargoed_edit_is_held_back() {
    let mut world = with_home();
    world.embargoed(&structure("s", 2).on(1).full("GEO", "geo-2"), None);
    assert_eq!(seal_refused(&mut world, &data("a", 3).full("GEO", "geo-2")).rule(), 237);
}

/// INV-223, INV-227, INV-229, INV-231, INV-232, INV-377: an edit makes holders stale, and they stay live and as they were.
#[test]
fn an_edit_at_the_same_urn_is_accepted_and_makes_holders_stale() {
    let mut world = with_home();
    world.live(&data("a", 2).partial("GEO", "geo-1"));
    world.live(&data("b", 3).full("GEO", "geo-1"));
    assert_eq!(stale_artefacts(&world.version, &world.manifests), Ok(vec![]));
    let before = world.version.leaf(&product("a")).map(|leaf| leaf.sha256());
    world.live(&structure("s", 4).on(1).full("GEO", "geo-2"));
    let stale = stale_artefacts(&world.version, &world.manifests).expect("all records are at hand");
    let found: Vec<_> = stale
        .iter()
        .map(|stale| (stale.edition.clone(), stale.partial, stale.held))
        .collect();
    assert_eq!(
        found,
        [(key("a", 2), true, hash("geo-1")), (key("b", 3), false, hash("geo-1"))]
    );
    assert_eq!(stale[0].home_live, Some((id(4), hash("geo-2"))));
    let text = stale[0].to_string();
    for part in [
        "INV-227",
        "GEO",
        &hash("geo-1").to_string(),
        &id(4).to_string(),
        "republish product a",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(
        world.version.leaf(&product("a")).map(|leaf| leaf.sha256()),
        before,
        "staleness is recorded nowhere"
    );
    assert_eq!(world.state("a", 2), Some(EditionState::Live));
}

/// INV-227: as long as the old structure edition is live or embargoed, nothing is stale.
#[test]
fn an_embargoed_edit_makes_nothing_stale() {
    let mut world = with_home();
    world.live(&data("a", 2).partial("GEO", "geo-1"));
    world.embargoed(&structure("s", 3).on(1).full("GEO", "geo-2"), None);
    assert_eq!(stale_artefacts(&world.version, &world.manifests), Ok(vec![]));
}

/// INV-228: a rollback of the structure product makes the holders of the newer copy stale.
#[test]
fn a_structure_rollback_makes_holders_stale() {
    let mut world = with_home();
    world.live(&structure("s", 2).on(1).full("GEO", "geo-2"));
    world.live(&data("a", 3).partial("GEO", "geo-2"));
    let rollback = Rollback {
        product_id: product("s"),
        if_live: id(2),
        to: id(1),
    };
    world.apply(&[Operation::Rollback(rollback)]);
    let stale = stale_artefacts(&world.version, &world.manifests).expect("all records are at hand");
    assert_eq!(stale.len(), 1);
    assert_eq!(stale[0].home_live, Some((id(1), hash("geo-1"))));
}

/// INV-230: a stale embargoed edition is not released; rebuilt from the home's current edition it is.
#[test]
fn a_stale_embargoed_edition_is_not_released() {
    let mut world = with_home();
    let old = data("a", 2).partial("GEO", "geo-1");
    world.embargoed(&old, None);
    world.live(&structure("s", 3).on(1).full("GEO", "geo-2"));
    let stale = stale_artefacts(&world.version, &world.manifests).expect("all records are at hand");
    assert_eq!(stale[0].state, EditionState::Embargoed);
    assert_eq!(world.refusal(&[release(&old)]).rule(), 221);
    assert_eq!(world.state("a", 2), Some(EditionState::Embargoed));
    let new = data("a", 4).partial("GEO", "geo-2");
    world.embargoed(&new, None);
    world.apply(&[release(&new)]);
    assert_eq!(
        stale_artefacts(&world.version, &world.manifests).map(|stale| stale.len()),
        Ok(1),
        "the old one is still"
    );
}

/// INV-223: the rollback of a data product to an edition with an old copy is refused as an incoming edition is.
#[test]
fn a_data_rollback_to_an_old_copy_is_refused() {
    let mut world = with_home();
    world.live(&data("a", 2).partial("GEO", "geo-1"));
    world.live(&structure("s", 3).on(1).full("GEO", "geo-2"));
    world.live(&data("a", 4).on(2).partial("GEO", "geo-2"));
    let rollback = Rollback {
        product_id: product("a"),
        if_live: id(4),
        to: id(2),
    };
    assert_eq!(world.refusal(&[Operation::Rollback(rollback)]).rule(), 221);
}

/// INV-224: without a home, a live copy with another fingerprint is refused, naming both editions.
#[test]
fn a_copy_that_differs_from_another_products_is_refused() {
    let mut world = World::new(false);
    world.live(&data("a", 1).full("DSD", "dsd-1"));
    let refused = seal_refused(&mut world, &data("b", 2).full("DSD", "dsd-2"));
    assert_eq!(refused.rule(), 224);
    let text = refused.to_string();
    assert!(
        text.contains(&key("a", 1).to_string()) && text.contains(&key("b", 2).to_string()),
        "{text}"
    );
    world.live(&data("b", 3).full("DSD", "dsd-1"));
}

/// INV-218: a product's own editions are not compared, so a product alone may change what only it holds.
#[test]
fn a_product_may_change_its_own_copy() {
    let mut world = World::new(false);
    world.live(&data("a", 1).full("DSD", "dsd-1"));
    world.live(&data("a", 2).on(1).full("DSD", "dsd-2"));
    assert_eq!(world.state("a", 2), Some(EditionState::Live));
}

/// INV-225, INV-226, INV-378: changed copies are recorded embargoed, and released in one version or not at all.
#[test]
fn changed_copies_are_released_in_one_version() {
    let mut world = World::new(false);
    world.live(&data("a", 1).full("DSD", "dsd-1"));
    world.live(&data("b", 2).full("DSD", "dsd-1"));
    let (a, b) = (
        data("a", 3).on(1).full("DSD", "dsd-2"),
        data("b", 4).on(2).full("DSD", "dsd-2"),
    );
    world.embargoed(&a, None);
    world.embargoed(&b, None);
    assert_eq!(world.refusal(&[release(&a)]).rule(), 224);
    assert_eq!(world.refusal(&[release(&b)]).rule(), 224);
    world.apply(&[release(&a), release(&b)]);
    assert_eq!(
        (world.state("a", 3), world.state("b", 4)),
        (Some(EditionState::Live), Some(EditionState::Live))
    );
}

/// INV-226: a batched seal with the embargo off changes all holders in one version; one at a time it is refused.
#[test]
fn changed_copies_are_sealed_in_one_version() {
    let mut world = World::new(false);
    world.live(&data("a", 1).full("DSD", "dsd-1"));
    world.live(&data("b", 2).full("DSD", "dsd-1"));
    let a = world.seal(&data("a", 3).on(1).full("DSD", "dsd-2"));
    let b = world.seal(&data("b", 4).on(2).full("DSD", "dsd-2"));
    assert_eq!(world.refusal(&[Operation::Seal(a.clone())]).rule(), 224);
    world.apply(&[Operation::Seal(a), Operation::Seal(b)]);
}

/// INV-236: a second live structure product for an artefact is refused; embargoed it may wait, and it goes live once the first lets
/// go in the same version.
#[test]
fn a_second_home_is_refused() {
    let mut world = with_home();
    let second = structure("t", 2).full("GEO", "geo-1");
    let refused = seal_refused(&mut world, &second);
    assert_eq!(refused.rule(), 236);
    assert!(refused.to_string().contains(&key("s", 1).to_string()), "{refused}");
    world.embargoed(&second, None);
    assert_eq!(world.refusal(&[release(&second)]).rule(), 236);
    let without = structure("s", 3).on(1).full("OTHER", "other");
    world.embargoed(&without, None);
    world.apply(&[release(&second), release(&without)]);
    assert_eq!(world.state("t", 2), Some(EditionState::Live));
}

/// INV-234: a final product's new edition with other content is refused at seal, at registration and at release.
#[test]
fn a_final_product_does_not_change() {
    let mut world = World::new(false);
    let last = Edition {
        lifecycle: Lifecycle::Final,
        ..data("a", 1)
    };
    world.live(&last);
    let other = Edition {
        content: Some("other"),
        ..last.clone()
    };
    let other = Edition {
        key: key("a", 2),
        ..other
    }
    .on(1);
    let refused = seal_refused(&mut world, &other);
    assert_eq!(refused.rule(), 234);
    assert!(refused.to_string().contains(&id(1).to_string()), "{refused}");
    assert_eq!(register_refused(&mut world, &other).rule(), 234);
    for (content, form) in [(None, "1"), (Some("content"), "2")] {
        let edition = Edition {
            content,
            form,
            ..other.clone()
        };
        assert_eq!(
            seal_refused(&mut world, &edition).rule(),
            234,
            "{content:?} of form {form}"
        );
    }
    // Registered while revisable, refused when the product was made final meanwhile.
    let lifecycle = |lifecycle| Operation::SetLifecycle {
        product_id: product("a"),
        lifecycle,
    };
    world.apply(&[lifecycle(Lifecycle::Revisable)]);
    let other = Edition {
        lifecycle: Lifecycle::Revisable,
        ..other
    };
    world.embargoed(&other, None);
    world.apply(&[lifecycle(Lifecycle::Final)]);
    assert_eq!(world.refusal(&[release(&other)]).rule(), 234);
    world.apply(&[lifecycle(Lifecycle::Revisable)]);
    world.apply(&[release(&other)]);
}

/// INV-234: equal content is a new edition a final product may have.
#[test]
fn a_final_product_may_be_republished_as_it_is() {
    let mut world = World::new(false);
    let last = Edition {
        lifecycle: Lifecycle::Final,
        ..data("a", 1)
    };
    world.live(&last);
    world.live(
        &Edition {
            key: key("a", 2),
            ..last
        }
        .on(1),
    );
    assert_eq!(world.state("a", 2), Some(EditionState::Live));
}

/// INV-234: withdrawing the live edition is no way around it.
#[test]
fn a_final_product_without_a_head_does_not_change_either() {
    let mut world = World::new(false);
    let last = Edition {
        lifecycle: Lifecycle::Final,
        ..data("a", 1)
    };
    world.live(&last);
    world.apply(&[Operation::Withdraw { live: key("a", 1) }]);
    let other = Edition {
        key: key("a", 2),
        content: Some("other"),
        ..last
    };
    assert_eq!(seal_refused(&mut world, &other).rule(), 234);
}

/// INV-217: fingerprints of a form this build does not know are refused, naming the forms it knows.
#[test]
fn an_unknown_canonical_form_is_refused() {
    let mut world = World::new(false);
    let edition = Edition {
        form: "7",
        ..data("a", 1)
    };
    let refused = seal_refused(&mut world, &edition);
    assert_eq!(refused.rule(), 217);
    assert!(refused.to_string().contains("form 7, known are 1"), "{refused}");
    world.forms.insert(clean("7"));
    world.live(&edition);
}

/// INV-216, INV-241: an embargoed edition's manifest must be read, and be the recorded one.
#[test]
fn another_manifest_than_the_recorded_one_is_refused() {
    let mut world = World::new(true);
    let edition = data("a", 1);
    world.embargoed(&edition, None);
    world.manifests = Default::default();
    assert_eq!(world.refusal(&[release(&edition)]).rule(), 241);
    world.seal(&Edition {
        content: Some("other"),
        ..edition.clone()
    });
    let refused = world.refusal(&[release(&edition)]);
    assert!(matches!(refused, Refusal::OtherManifest { .. }), "{refused}");
    assert_eq!(refused.rule(), 216);
    world.seal(&edition);
    world.apply(&[release(&edition)]);
}

/// Replaces an entry in the world's version by a changed one, as another writer could have left it.
fn tamper(world: &mut World, edition: &EditionKey, change: impl FnOnce(&mut Entry)) {
    let mut leaf = world
        .version
        .leaf(&edition.product_id)
        .expect("the product is there")
        .value()
        .clone();
    let entry = leaf
        .editions
        .iter_mut()
        .find(|entry| entry.edition_id == edition.edition_id);
    change(entry.expect("the edition is there"));
    let leaf = Stored::encode(leaf).expect("the leaf is still valid");
    world.version.leaves.insert(edition.product_id.clone(), leaf.into());
}

/// INV-174, INV-188, INV-170: an incoming entry says what its manifest says, field by field.
#[test]
fn an_entry_that_disagrees_with_its_manifest_is_refused() {
    type Change = fn(&mut Entry);
    let changes: [(u16, &str, Change); 4] = [
        (170, "previous", |entry| entry.previous = None),
        (170, "schema_version", |entry| entry.schema_version = clean("2.51")),
        (174, "artefacts", |entry| entry.artefacts = Some(Default::default())),
        (188, "pull_bytes", |entry| {
            if let Some(routing) = &mut entry.routing {
                routing.pull_bytes += 1;
            }
        }),
    ];
    for (rule, field, change) in changes {
        let mut world = World::new(false);
        world.live(&data("a", 1));
        let edition = data("a", 2).on(1).full("DSD", "dsd");
        world.embargoed(&edition, None);
        tamper(&mut world, &edition.key, change);
        if field == "previous" {
            // A first edition again: the fast-forward must not be what refuses.
            world.apply(&[Operation::Withdraw { live: key("a", 1) }]);
        }
        if field == "schema_version" {
            tamper(&mut world, &key("a", 1), |entry| entry.schema_version = clean("2.51"));
        }
        let refused = world.refusal(&[release(&edition)]);
        assert_eq!(refused.rule(), rule, "{refused}");
        assert!(refused.to_string().contains(field), "{refused}");
    }
}

/// INV-241: records come from filled entries; from manifests where they are not filled; and their lack is named.
#[test]
fn records_come_from_entries_or_manifests() {
    let mut world = with_home();
    tamper(&mut world, &key("s", 1), |entry| entry.artefacts = None);
    let home = world.manifests.get(&key("s", 1)).cloned().expect("it was read");
    world.manifests = Default::default();
    assert_eq!(world.manifests.missing(&world.version), [key("s", 1)]);
    let edition = data("a", 2).partial("GEO", "geo-1");
    let refused = seal_refused(&mut world, &edition);
    assert_eq!(refused, Refusal::RecordsMissing { edition: key("s", 1) });
    assert_eq!(refused.rule(), 241);
    world.manifests.insert(home);
    assert_eq!(world.manifests.missing(&world.version), []);
    world.live(&edition);
}

/// INV-233, INV-416: a structure edition that a live or embargoed partial was cut from is not retired, whatever its age.
#[test]
fn a_cited_structure_edition_is_kept() {
    let mut world = with_home();
    world.live(&data("a", 2).partial("GEO", "geo-1"));
    world.live(&structure("s", 3).on(1).full("GEO", "geo-2"));
    world.now = start().plus(days(400));
    let retire = Operation::Retire { edition: key("s", 1) };
    let refused = world.refusal(std::slice::from_ref(&retire));
    let expected = Refusal::Cited {
        edition: key("s", 1),
        cited_by: key("a", 2),
        urn: codelist("GEO"),
    };
    assert_eq!(refused, expected);
    assert_eq!(refused.rule(), 416);
    world.live(&data("a", 4).on(2).partial("GEO", "geo-2"));
    world.now = world.now.plus(days(400));
    world.apply(&[retire]);
    assert!(matches!(
        world.refusal(&[Operation::Retire { edition: key("s", 1) }]),
        Refusal::WrongState { verb: Verb::Retire, .. }
    ));
}
