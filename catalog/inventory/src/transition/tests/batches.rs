//! Scheduled releases and folds: what can be done is done, the rest is reported.

use chrono::TimeDelta;

use super::fixture::{Edition, World, cites, data, days, id, key, product, start, structure};
use crate::{
    doc::{EditionId, EditionState, EventKind, Instant, JsonObject, Pending},
    transition::{BatchReport, EditionKey, Operation, PendingEdition, Refusal, fold, release_due},
};

fn past() -> Option<Instant> {
    Some(start().plus(TimeDelta::seconds(-1)))
}

fn release(world: &World) -> BatchReport {
    release_due(&world.version, &world.context()).expect("a batch does not fail")
}

fn refused(report: &BatchReport) -> Vec<(EditionKey, u16)> {
    let rule = |(edition, refusal): &(EditionKey, Refusal)| {
        cites(refusal);
        (edition.clone(), refusal.rule())
    };
    report.refused.iter().map(rule).collect()
}

fn pending(edition: &Edition, release_at: Option<Instant>) -> PendingEdition {
    PendingEdition {
        product_id: edition.key.product_id.clone(),
        pending: Pending {
            edition_id: edition.key.edition_id,
            release_at,
            extra: JsonObject::new(),
        },
        manifest: edition.manifest(),
        profile: edition.profile(),
    }
}

/// Makes the manifests known and folds.
fn fold_all(world: &mut World, editions: &[&Edition]) -> BatchReport {
    for edition in editions {
        world.seal(edition);
    }
    let pending = editions.iter().map(|edition| pending(edition, past())).collect();
    let report = fold(&world.version, pending, &world.context()).expect("a batch does not fail");
    if let Some(transition) = &report.transition {
        world.version = transition.next.clone();
    }
    report
}

/// INV-197, INV-408: one version moves every due edition, and no other.
#[test]
fn what_is_due_goes_live_in_one_version() {
    let mut world = World::new(true);
    world.embargoed(&data("a", 1), past());
    world.embargoed(&data("b", 2), Some(start().plus(days(1))));
    world.embargoed(&data("c", 3), None);
    world.embargoed(&data("d", 4), past());
    let report = release(&world);
    assert_eq!(report.done, [key("a", 1), key("d", 4)]);
    assert_eq!(refused(&report), []);
    let transition = report.transition.expect("two were due");
    assert_eq!((transition.kind, transition.changes.len()), (EventKind::Release, 2));
}

/// INV-209: a refused edition is reported with its reason and holds nobody back.
#[test]
fn a_refused_edition_does_not_fail_the_batch() {
    let mut world = World::new(false);
    world.live(&data("a", 1));
    world.embargoed(&data("a", 2).on(1), past());
    world.live(&data("a", 3).on(1));
    world.embargoed(&data("b", 4), past());
    let report = release(&world);
    assert_eq!(report.done, [key("b", 4)]);
    assert_eq!(refused(&report), [(key("a", 2), 205)]);
    let text = report.refused[0].1.to_string();
    assert!(
        text.contains(&id(1).to_string()) && text.contains(&id(3).to_string()),
        "both editions are named: {text}"
    );
}

/// INV-209: with nothing due there is no version, and neither is there when everything is refused.
#[test]
fn nothing_to_release_is_no_version() {
    let mut world = World::new(false);
    assert!(release(&world).transition.is_none());
    world.live(&data("a", 1));
    world.embargoed(&data("a", 2).on(1), past());
    world.live(&data("a", 3).on(1));
    let report = release(&world);
    assert!(report.transition.is_none() && report.done.is_empty());
    assert_eq!(report.refused.len(), 1);
}

/// INV-237, INV-408: structure and data that wait for each other are released together, and data stays when its structure does.
#[test]
fn structures_are_released_with_their_data() {
    let mut world = World::new(true);
    world.embargoed(&structure("s", 1).full("GEO", "geo-1"), past());
    world.embargoed(&data("a", 2).partial("GEO", "geo-1"), past());
    assert_eq!(release(&world).done, [key("a", 2), key("s", 1)]);
    let mut world = World::new(true);
    world.embargoed(&structure("s", 1).full("GEO", "geo-1"), Some(start().plus(days(1))));
    world.embargoed(&data("a", 2).partial("GEO", "geo-1"), past());
    assert_eq!(refused(&release(&world)), [(key("a", 2), 237)]);
}

/// INV-226, INV-378: of two products that change an artefact together, neither goes when one cannot; a third goes anyway.
#[test]
fn copies_go_together_or_not_at_all() {
    let mut world = World::new(false);
    world.live(&data("a", 1).full("DSD", "dsd-1"));
    world.live(&data("b", 2).full("DSD", "dsd-1"));
    world.embargoed(&data("a", 3).on(1).full("DSD", "dsd-2"), past());
    world.embargoed(&data("b", 4).on(2).full("DSD", "dsd-2"), past());
    world.embargoed(&data("c", 5), past());
    assert_eq!(release(&world).done, [key("a", 3), key("b", 4), key("c", 5)]);
    // Somebody releases another edition of b meanwhile: b's fails on its own, and a's with it.
    world.live(&data("b", 6).on(2).full("DSD", "dsd-1"));
    let report = release(&world);
    assert_eq!(report.done, [key("c", 5)]);
    assert_eq!(refused(&report), [(key("a", 3), 224), (key("b", 4), 205)]);
}

/// INV-209: an edition blamed for a structure edition that then stays behind is tried again and goes.
#[test]
fn an_edition_is_tried_again_when_its_obstacle_stays_behind() {
    let mut world = World::new(false);
    world.live(&structure("s", 1).full("GEO", "geo-1").full("T", "t-1"));
    world.live(&structure("t", 2).full("U", "u-1"));
    // The edit of s would make the partial of a old; but the edit also takes U, which t holds, and is refused for it.
    world.embargoed(&structure("s", 3).on(1).full("GEO", "geo-2").full("U", "u-1"), past());
    world.embargoed(&data("a", 4).partial("GEO", "geo-1"), past());
    let report = release(&world);
    assert_eq!(report.done, [key("a", 4)]);
    assert_eq!(refused(&report), [(key("s", 3), 236)]);
    let next = report.transition.expect("one went").next;
    assert_eq!(
        next.entry(&key("s", 3)).map(|entry| entry.state),
        Some(EditionState::Embargoed)
    );
}

/// INV-405: two due editions of a product on one base are both refused; one released by name goes.
#[test]
fn two_due_on_one_base_are_both_refused() {
    let mut world = World::new(true);
    world.embargoed(&data("a", 1), past());
    world.embargoed(&data("a", 2), past());
    world.embargoed(&data("b", 3), past());
    let report = release(&world);
    assert_eq!(report.done, [key("b", 3)]);
    assert_eq!(refused(&report), [(key("a", 1), 405), (key("a", 2), 405)]);
    world.apply(&[Operation::SupersedePending { by: key("a", 2) }]);
    assert_eq!(release(&world).done, [key("a", 2), key("b", 3)]);
}

/// INV-204: two due editions on one base at two schema versions are a rollout and both go.
#[test]
fn two_schema_versions_do_not_compete() {
    let mut world = World::new(false);
    world.live(&data("a", 1));
    world.embargoed(&data("a", 2).on(1), past());
    world.embargoed(&data("a", 3).on(1).schema("2.53"), past());
    assert_eq!(release(&world).done, [key("a", 2), key("a", 3)]);
}

/// INV-410: a release that was not written left everything embargoed, and the next run does all of it.
#[test]
fn an_interrupted_release_starts_again() {
    let mut world = World::new(true);
    world.embargoed(&data("a", 1), past());
    let first = release(&world);
    assert_eq!(
        world.state("a", 1),
        Some(EditionState::Embargoed),
        "nothing is visible before the version is written"
    );
    let second = release(&world);
    assert_eq!(first.done, second.done);
    assert_eq!(
        first.transition.map(|t| t.changes),
        second.transition.map(|t| t.changes)
    );
}

/// INV-241: records that are missing stop the batch, since nobody can be blamed for them.
#[test]
fn a_batch_without_the_records_it_needs_is_an_error() {
    let mut world = World::new(true);
    world.embargoed(&data("a", 1).full("DSD", "dsd"), past());
    world.embargoed(&data("b", 2).full("DSD", "dsd"), past());
    let edition = key("b", 2);
    world.manifests = Default::default();
    world.seal(&data("a", 1).full("DSD", "dsd"));
    let report = release(&world);
    assert_eq!(
        (report.done.as_slice(), refused(&report)),
        ([key("a", 1)].as_slice(), vec![(edition, 241)])
    );
}

/// INV-160, INV-404: a fold records registrations as embargoed, with their release times, as a seal.
#[test]
fn a_fold_records_registrations_as_embargoed() {
    let mut world = World::new(true);
    let report = fold_all(&mut world, &[&data("a", 1), &data("b", 2)]);
    assert_eq!(report.done, [key("a", 1), key("b", 2)]);
    assert_eq!(
        report.transition.map(|transition| transition.kind),
        Some(EventKind::Seal)
    );
    let entry = world.version.entry(&key("a", 1)).expect("it was folded");
    assert_eq!((entry.state, entry.release_at), (EditionState::Embargoed, past()));
}

/// INV-404: folding again writes nothing, whatever became of the editions.
#[test]
fn a_second_fold_does_nothing() {
    let mut world = World::new(false);
    let (a, b) = (data("a", 1), data("b", 2));
    fold_all(&mut world, &[&a, &b]);
    world.apply(&[Operation::Cancel { edition: a.key.clone() }]);
    world.now = start().plus(days(95));
    world.apply(&[Operation::Retire { edition: a.key.clone() }]);
    let report = fold_all(&mut world, &[&a, &b]);
    assert!(report.transition.is_none());
    assert_eq!(report.skipped, [a.key, b.key]);
    assert_eq!(refused(&report), []);
}

/// INV-405: two registrations of a product on one base are both refused and the others folded; one alone later is accepted.
#[test]
fn two_registrations_on_one_base_are_both_refused() {
    let mut world = World::new(false);
    world.live(&data("a", 1));
    let (first, second, other) = (data("a", 2).on(1), data("a", 3).on(1), data("b", 4));
    let report = fold_all(&mut world, &[&first, &second, &other]);
    assert_eq!(report.done, [key("b", 4)]);
    assert_eq!(refused(&report), [(key("a", 2), 405), (key("a", 3), 405)]);
    assert!(
        report.refused[0].1.to_string().contains(&id(3).to_string()),
        "the other one is named"
    );
    assert_eq!(fold_all(&mut world, &[&first]).done, [key("a", 2)]);
    assert_eq!(
        fold_all(&mut world, &[&second]).done,
        [key("a", 3)],
        "a recorded one is superseded by supersede-pending"
    );
}

/// INV-406: a registration older than the tombstone window is refused, to the millisecond of its id.
#[test]
fn an_old_registration_is_refused() {
    let mut world = World::new(true);
    let window = TimeDelta::from_std(world.retention.tombstone()).expect("the window is in range");
    let edge = world.now.plus(-window);
    let old = EditionId::at(edge.plus(TimeDelta::milliseconds(-1)), [1; 10]);
    let young = EditionId::at(edge, [1; 10]);
    let old = Edition {
        key: EditionKey::new(product("a"), old),
        ..data("a", 1)
    };
    let young = Edition {
        key: EditionKey::new(product("b"), young),
        ..data("b", 1)
    };
    let report = fold_all(&mut world, &[&old, &young]);
    assert_eq!(report.done, [young.key]);
    assert!(
        matches!(report.refused[..], [(_, Refusal::OlderThanTombstones { .. })]),
        "{:?}",
        report.refused
    );
    assert_eq!(report.refused[0].1.rule(), 406);
}

/// INV-403: a registration whose manifest is of another edition or product is refused.
#[test]
fn a_registration_of_another_edition_is_refused() {
    let world = World::new(true);
    let mut other_edition = pending(&data("a", 1), None);
    other_edition.pending.edition_id = id(2);
    let mut other_product = pending(&data("b", 3), None);
    other_product.product_id = product("c");
    let report = fold(&world.version, vec![other_edition, other_product], &world.context()).expect("no failure");
    assert_eq!(refused(&report), [(key("a", 2), 403), (key("c", 3), 403)]);
}

/// INV-196, INV-209: each registration meets the checks of one that is recorded by itself, and is reported.
#[test]
fn a_fold_refuses_what_a_registration_would() {
    let mut world = World::new(false);
    world.live(&data("a", 1));
    let fork = data("a", 2);
    let dangling = data("b", 3).on(9);
    let homeless = data("c", 4).partial("GEO", "geo-1");
    let unknown_form = Edition {
        form: "9",
        ..data("d", 5)
    };
    let fine = data("e", 6);
    let report = fold_all(&mut world, &[&fork, &dangling, &homeless, &unknown_form, &fine]);
    assert_eq!(report.done, [key("e", 6)]);
    let expected = [
        (key("a", 2), 205),
        (key("b", 3), 235),
        (key("c", 4), 222),
        (key("d", 5), 217),
    ];
    assert_eq!(refused(&report), expected);
}
