//! Two schema versions at once: heads, first editions, rollbacks.

use super::fixture::{World, clean, data, days, id, key, leaf, product, start, version};
use crate::{
    doc::EditionState,
    transition::{Operation, Refusal, ReleaseWhen, Rollback, RollbackRequest, resolve_withdraw},
};

/// INV-204, INV-215: the first edition at a new schema version stands on the live one of the older; then both are live.
#[test]
fn a_rollout_has_one_head_for_each_schema_version() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    world.live(&data("p", 2).on(1).schema("2.53"));
    let head = |schema| {
        world
            .version
            .head(&product("p"), &clean(schema))
            .map(|entry| entry.edition_id)
    };
    assert_eq!(
        (head("2.52"), head("2.53"), head("2.54")),
        (Some(id(1)), Some(id(2)), None)
    );
    assert_eq!(world.version.findings(), []);
}

/// INV-205: once the new schema version has a head, only an edition built from that head replaces it.
#[test]
fn the_second_edition_of_a_schema_version_stands_on_the_first() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    world.live(&data("p", 2).on(1).schema("2.53"));
    let fork = world.seal(&data("p", 3).on(1).schema("2.53"));
    let refused = world.refusal(&[Operation::Seal(fork)]);
    let expected = Refusal::NotFastForward {
        edition: key("p", 3),
        previous: Some(id(1)),
        live: Some(id(2)),
        schema_version: clean("2.53"),
    };
    assert_eq!(refused, expected);
    world.live(&data("p", 4).on(2).schema("2.53"));
    assert_eq!(
        world.state("p", 1),
        Some(EditionState::Live),
        "the older head is untouched"
    );
}

/// INV-205: a first edition does not stand on a superseded one, on one at a newer schema version, or on an older head than the
/// nearest.
#[test]
fn a_first_edition_elsewhere_is_refused() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    world.live(&data("p", 2).on(1));
    world.live(&data("p", 3).on(2).schema("2.53"));
    for (previous, schema) in [(1, "2.54"), (2, "2.54"), (3, "2.51"), (1, "2.51")] {
        let edition = world.seal(&data("p", 9).on(previous).schema(schema));
        let refused = world.refusal(&[Operation::Seal(edition)]);
        assert_eq!(refused.rule(), 205, "from {previous} to {schema}: {refused}");
    }
    let edition = world.seal(&data("p", 9).on(3).schema("2.54"));
    assert!(world.try_apply(&[Operation::Seal(edition)]).is_ok());
}

/// INV-205: schema versions that are no numbers cannot be ordered, so there a first edition stands on nothing.
#[test]
fn unordered_schema_versions_have_no_older_head() {
    let mut world = World::new(false);
    world.live(&data("p", 1).schema("alpha"));
    let edition = world.seal(&data("p", 2).on(1).schema("beta"));
    assert_eq!(world.refusal(&[Operation::Seal(edition)]).rule(), 205);
    world.live(&data("p", 3).schema("beta"));
}

/// INV-208: the refusal of an edition built on a withdrawn one names that one, the live edition and what to do.
#[test]
fn an_edition_built_on_a_withdrawn_one_is_refused() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    world.live(&data("p", 2).on(1));
    let pending = data("p", 3).on(2);
    world.embargoed(&pending, None);
    let rollback = RollbackRequest {
        product_id: product("p"),
        if_live: None,
        to: None,
    };
    let rollback = rollback.resolve(&world.version).expect("there is one to return to");
    world.apply(&[Operation::Rollback(rollback)]);
    let refused = world.refusal(&[Operation::Release {
        edition: pending.key,
        when: ReleaseWhen::Explicit,
    }]);
    assert_eq!(refused.rule(), 208);
    let text = refused.to_string();
    for part in [
        &id(2).to_string(),
        &id(1).to_string(),
        "discard",
        "build from the live edition",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// INV-206, INV-201: defaults are the edition live now and the one superseded last, and become part of the request.
#[test]
fn a_rollback_resolves_to_the_last_superseded_edition() {
    let mut world = World::new(false);
    for n in 1..=3 {
        let edition = data("p", n);
        world.live(&if n == 1 { edition } else { edition.on(n - 1) });
    }
    let request = |if_live: Option<u8>, to: Option<u8>| RollbackRequest {
        product_id: product("p"),
        if_live: if_live.map(id),
        to: to.map(id),
    };
    let resolved = request(None, None).resolve(&world.version);
    let expected = Rollback {
        product_id: product("p"),
        if_live: id(3),
        to: id(2),
    };
    assert_eq!(resolved, Ok(expected));
    let named = request(Some(3), Some(1))
        .resolve(&world.version)
        .expect("both are named");
    assert_eq!((named.if_live, named.to), (id(3), id(1)));
    assert_eq!(
        request(Some(2), None)
            .resolve(&world.version)
            .map_err(|refused| refused.rule()),
        Err(206)
    );
}

/// INV-206: after another writer's release the same rollback is refused, naming what is live now.
#[test]
fn a_retried_rollback_is_refused_when_the_live_edition_changed() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    world.live(&data("p", 2).on(1));
    let request = RollbackRequest {
        product_id: product("p"),
        if_live: None,
        to: None,
    };
    let operation = Operation::Rollback(request.resolve(&world.version).expect("it resolves"));
    assert!(world.try_apply(std::slice::from_ref(&operation)).is_ok());
    world.live(&data("p", 3).on(2));
    let refused = world.refusal(&[operation]);
    assert_eq!(refused.rule(), 206);
    assert!(refused.to_string().contains(&id(3).to_string()), "{refused}");
}

/// INV-206: the first edition cannot be rolled back by default; INV-204: nor a product nobody knows.
#[test]
fn a_rollback_without_a_target_is_refused() {
    let mut world = World::new(false);
    world.live(&data("p", 1));
    let request = |id| RollbackRequest {
        product_id: product(id),
        if_live: None,
        to: None,
    };
    assert_eq!(
        request("p").resolve(&world.version).map_err(|refused| refused.rule()),
        Err(206)
    );
    let unknown = request("q").resolve(&world.version).expect_err("no such product");
    assert_eq!(
        unknown,
        Refusal::UnknownProduct {
            product_id: product("q")
        }
    );
    let rollback = Rollback {
        product_id: product("q"),
        if_live: id(1),
        to: id(2),
    };
    assert_eq!(world.refusal(&[Operation::Rollback(rollback)]).rule(), 204);
    assert_eq!(
        resolve_withdraw(&world.version, &product("q"), None)
            .map(|_| ())
            .map_err(|r| r.rule()),
        Err(204)
    );
}

/// INV-204: with two live editions the caller says which one, and a head is replaced at its own schema version only.
#[test]
fn during_a_rollout_the_live_edition_is_named() {
    let since = start().plus(-days(3));
    let editions = [
        data("p", 1),
        data("p", 2),
        data("p", 3).on(2).schema("2.53"),
        data("p", 4).on(1),
    ];
    let states = [
        EditionState::Superseded,
        EditionState::Live,
        EditionState::Live,
        EditionState::Withdrawn,
    ];
    let entries = editions
        .iter()
        .zip(states)
        .map(|(edition, state)| edition.entry(state, since, None))
        .collect();
    let mut world = World::at(version(3, false, vec![leaf(&editions[0], entries)], vec![]));
    for edition in &editions {
        world.seal(edition);
    }
    let request = |if_live: Option<u8>, to: Option<u8>| RollbackRequest {
        product_id: product("p"),
        if_live: if_live.map(id),
        to: to.map(id),
    };
    let refused = request(None, None).resolve(&world.version).expect_err("two are live");
    assert_eq!(refused.rule(), 204);
    assert_eq!(
        resolve_withdraw(&world.version, &product("p"), None)
            .map(|_| ())
            .map_err(|r| r.rule()),
        Err(204)
    );
    assert_eq!(
        request(Some(3), None)
            .resolve(&world.version)
            .map_err(|refused| refused.rule()),
        Err(206)
    );
    let across = request(Some(3), Some(1))
        .resolve(&world.version)
        .expect("both are named");
    let refused = world.refusal(&[Operation::Rollback(across)]);
    assert!(matches!(refused, Refusal::OtherSchema { .. }), "{refused}");
    assert_eq!(refused.rule(), 204);
    let within = request(Some(2), None)
        .resolve(&world.version)
        .expect("one is superseded");
    world.apply(&[Operation::Rollback(within)]);
    assert_eq!(world.state("p", 3), Some(EditionState::Live));
}

/// INV-215: a version with two heads at one schema version is found out, and so is a chain with a hole (INV-235).
#[test]
fn findings_name_two_heads_and_unknown_bases() {
    let since = start().plus(-days(3));
    let editions = [data("p", 1), data("p", 2).on(1), data("p", 3).on(8)];
    let entries = editions
        .iter()
        .map(|edition| edition.entry(EditionState::Live, since, None))
        .collect();
    let version = version(3, false, vec![leaf(&editions[0], entries)], vec![]);
    let rules: Vec<u16> = version.findings().iter().map(Refusal::rule).collect();
    assert_eq!(rules, [215, 215, 235]);
}
