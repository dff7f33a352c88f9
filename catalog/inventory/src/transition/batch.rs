//! Batches that do what they can: the scheduled release and the fold of registrations.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use chrono::TimeDelta;

use super::{
    Context, EditionKey, Operation, ProductProfile, Refusal, ReleaseWhen, SealedEdition, Transition, Version,
    apply::{conclude, one_kind},
    clock::next_created_at,
    draft::Draft,
    judge::{Blame, judge},
};
use crate::doc::{EditionId, EditionState, Instant, Manifest, Pending, ProductId, Stored};

/// What a batch did and what it refused. A refusal of one edition never fails the others (INV-209).
#[derive(Clone, Debug, Default)]
pub struct BatchReport {
    /// The next version; none when nothing could be done.
    pub transition: Option<Transition>,
    /// The editions it changed, in the order of their products.
    pub done: Vec<EditionKey>,
    /// INV-209: the editions refused, each with its reason, for the writer to keep.
    pub refused: Vec<(EditionKey, Refusal)>,
    /// Registrations whose edition is recorded or retired already; nothing to do and nothing wrong.
    pub skipped: Vec<EditionKey>,
}

/// INV-197, INV-209: releases every embargoed edition whose time has come, in one version.
///
/// Structure and data editions go live together, so that the order of INV-237 holds in that one version. Two editions of a product
/// that are due on the same base are both refused: which of them is meant is for people to say.
pub fn release_due(base: &Version, context: &Context<'_>) -> Result<BatchReport, Refusal> {
    let now = context.clock.now();
    let mut due: Vec<(EditionKey, Option<EditionId>)> = Vec::new();
    for leaf in base.leaves() {
        for entry in &leaf.editions {
            let is_due = entry.release_at.is_some_and(|release_at| release_at <= now);
            if entry.state == EditionState::Embargoed && is_due {
                due.push((
                    EditionKey::new(leaf.product_id.clone(), entry.edition_id),
                    entry.previous,
                ));
            }
        }
    }
    let schema = |edition: &EditionKey| base.entry(edition).map(|entry| &entry.schema_version);
    let (due, refused) = split_competing(due, |a, b| schema(a) == schema(b));
    let release = |edition| Operation::Release {
        edition,
        when: ReleaseWhen::Due,
    };
    let report = as_many_as_possible(base, due.into_iter().map(release).collect(), context)?;
    Ok(with_refused(report, refused))
}

/// A registration, and the manifest of the edition it registers.
#[derive(Clone, Debug)]
pub struct PendingEdition {
    /// The product, which is in the registration's name.
    pub product_id: ProductId,
    /// The registration.
    pub pending: Pending,
    /// The edition's manifest.
    pub manifest: Arc<Stored<Manifest>>,
    /// Its product's kind and lifecycle.
    pub profile: ProductProfile,
}

/// INV-404: folds registrations into one version, each as an embargoed edition.
///
/// An edition that is recorded or a tombstone is skipped, so a second fold of the same registrations does nothing. One whose id is
/// older than the tombstone window is refused, since its tombstone may be forgotten (INV-406). Two of a product on the same base are
/// both refused (INV-405).
pub fn fold(base: &Version, pending: Vec<PendingEdition>, context: &Context<'_>) -> Result<BatchReport, Refusal> {
    let window = TimeDelta::from_std(context.retention.tombstone()).unwrap_or(TimeDelta::MAX);
    let window_start = context.clock.now().plus(-window);
    let mut skipped = Vec::new();
    let mut refused = Vec::new();
    let mut fresh: BTreeMap<EditionKey, PendingEdition> = BTreeMap::new();
    for registration in pending {
        let edition = EditionKey::new(registration.product_id.clone(), registration.pending.edition_id);
        let made = edition.edition_id.time();
        let found = EditionKey::new(
            registration.manifest.product_id.clone(),
            registration.manifest.edition_id,
        );
        if base.status(&edition).is_some() {
            skipped.push(edition);
        } else if made < window_start {
            refused.push((
                edition.clone(),
                Refusal::OlderThanTombstones {
                    edition,
                    made,
                    window_start,
                },
            ));
        } else if found != edition {
            let (entry, manifest) = (edition.to_string(), found.to_string());
            let field = "registration";
            let refusal = Refusal::EntryDisagrees {
                rule: 403,
                edition: edition.clone(),
                field,
                entry,
                manifest,
            };
            refused.push((edition, refusal));
        } else {
            fresh.insert(edition, registration);
        }
    }
    let bases = fresh
        .iter()
        .map(|(edition, registration)| (edition.clone(), registration.manifest.previous))
        .collect();
    let (accepted, competing) = split_competing(bases, |_, _| true);
    refused.extend(competing);
    let register = |edition: EditionKey| {
        let PendingEdition {
            pending,
            manifest,
            profile,
            ..
        } = fresh.remove(&edition)?;
        let sealed = SealedEdition {
            manifest,
            profile,
            structure_source: None,
        };
        Some(Operation::Register {
            sealed,
            release_at: pending.release_at,
        })
    };
    let operations = accepted.into_iter().filter_map(register).collect();
    let mut report = with_refused(as_many_as_possible(base, operations, context)?, refused);
    report.skipped = skipped;
    Ok(report)
}

/// INV-405: parts editions into those alone on their base and those that compete, as `alike` understands it.
fn split_competing(
    editions: Vec<(EditionKey, Option<EditionId>)>,
    alike: impl Fn(&EditionKey, &EditionKey) -> bool,
) -> (Vec<EditionKey>, Vec<Blame>) {
    let rival = |edition: &EditionKey, base: &Option<EditionId>| {
        let mut others = editions.iter().filter(|(other, its_base)| {
            other.product_id == edition.product_id && other != edition && its_base == base && alike(other, edition)
        });
        others.next().map(|(other, _)| other.edition_id)
    };
    let mut alone = Vec::new();
    let mut competing = Vec::new();
    for (edition, base) in &editions {
        match rival(edition, base) {
            None => alone.push(edition.clone()),
            Some(other) => {
                let refusal = Refusal::Competing {
                    edition: edition.clone(),
                    other,
                    base: *base,
                };
                competing.push((edition.clone(), refusal));
            }
        }
    }
    (alone, competing)
}

fn with_refused(mut report: BatchReport, refused: Vec<Blame>) -> BatchReport {
    report.refused.extend(refused);
    report.refused.sort_by(|(a, _), (b, _)| a.cmp(b));
    report
}

/// One attempt at a version with some of the operations.
struct Attempt {
    transition: Option<Transition>,
    /// What each refused operation met on its own, before the version as a whole was judged.
    alone: Vec<Blame>,
    /// What the version as a whole is refused for.
    together: Vec<Blame>,
}

/// Does as many operations as the rules allow together.
///
/// Operations that fail on their own go first; then the whole version is judged, the editions blamed are taken out, and it is
/// judged again, until nothing is blamed. Taking an edition out can cure what another one was blamed for (a structure edition that
/// stays embargoed leaves the old one live), so each refused one is tried again at the end beside all that were accepted.
fn as_many_as_possible(
    base: &Version,
    mut operations: Vec<Operation>,
    context: &Context<'_>,
) -> Result<BatchReport, Refusal> {
    let created_at = next_created_at(base.created_at, context.clock.now())?;
    let mut refused: BTreeMap<EditionKey, (Operation, Refusal)> = BTreeMap::new();
    let mut report = BatchReport::default();
    loop {
        let attempt = attempt(base, &operations, context, created_at)?;
        let blames: Vec<Blame> = attempt.alone.into_iter().chain(attempt.together).collect();
        if blames.is_empty() {
            report.transition = attempt.transition;
            break;
        }
        let before = operations.len();
        for (edition, refusal) in blames {
            if let Some(index) = operations
                .iter()
                .position(|operation| operation.edition().as_ref() == Some(&edition))
            {
                refused.insert(edition, (operations.remove(index), refusal));
            }
        }
        if operations.len() == before {
            // The base version itself is at fault, and no choice of operations mends it.
            let first = attempt_refusal(base, &operations, context, created_at)?;
            return Err(first);
        }
    }
    let mut progress = true;
    while progress {
        progress = false;
        let candidates: Vec<EditionKey> = refused.keys().cloned().collect();
        for edition in candidates {
            let Some((operation, _)) = refused.get(&edition) else {
                continue;
            };
            let mut trial = operations.clone();
            trial.push(operation.clone());
            let attempt = attempt(base, &trial, context, created_at)?;
            if attempt.alone.is_empty() && attempt.together.is_empty() {
                report.transition = attempt.transition;
                operations = trial;
                refused.remove(&edition);
                progress = true;
            }
        }
    }
    let done: BTreeSet<EditionKey> = operations.iter().filter_map(Operation::edition).collect();
    report.done = done.into_iter().collect();
    report.refused = refused
        .into_iter()
        .map(|(edition, (_, refusal))| (edition, refusal))
        .collect();
    Ok(report)
}

fn attempt(
    base: &Version,
    operations: &[Operation],
    context: &Context<'_>,
    created_at: Instant,
) -> Result<Attempt, Refusal> {
    let mut alone = Vec::new();
    let mut draft = Draft::new(base, context, created_at);
    for operation in operations {
        if let Err(refusal) = draft.run(operation)
            && let Some(edition) = operation.edition()
        {
            alone.push((edition, refusal));
        }
    }
    if !alone.is_empty() || operations.is_empty() {
        return Ok(Attempt {
            transition: None,
            alone,
            together: Vec::new(),
        });
    }
    let transition = conclude(base, draft, one_kind(operations)?, created_at)?;
    let together = judge(base, &transition.next, context)?;
    Ok(Attempt {
        transition: Some(transition),
        alone,
        together,
    })
}

fn attempt_refusal(
    base: &Version,
    operations: &[Operation],
    context: &Context<'_>,
    created_at: Instant,
) -> Result<Refusal, Refusal> {
    let attempt = attempt(base, operations, context, created_at)?;
    let first = attempt.alone.into_iter().chain(attempt.together).next();
    Ok(first.map_or_else(
        || Refusal::NothingToDo {
            what: "the batch".to_owned(),
        },
        |(_, refusal)| refusal,
    ))
}
