//! Which editions may be retired, and whose bytes may be deleted.

use chrono::TimeDelta;

use super::{
    Context, EditionKey, Manifests, Operation, Refusal, Retention, Verb, Version, draft::Draft, judge::current,
};
use crate::doc::{EditionState, Entry, EntryStatus, Instant, Leaf, ProductKind};

/// INV-233, INV-416: refuses to let go of a structure edition that a live or embargoed data edition's partial was cut from, so a
/// stale edition's partials can still be verified. `edition` is of a structure product.
pub(super) fn uncited(
    leaves: &[&Leaf],
    edition: &EditionKey,
    entry: &Entry,
    manifests: &Manifests,
) -> Result<(), Refusal> {
    let held = manifests.artefacts(edition, entry)?;
    for leaf in leaves.iter().filter(|leaf| leaf.kind == ProductKind::Data) {
        for (cited_by, entry) in current(leaf) {
            let artefacts = manifests.artefacts(&cited_by, entry)?;
            let cited = artefacts.iter().find(|(urn, record)| {
                let full = held.get(*urn).filter(|full| full.partial_of.is_none());
                full.is_some_and(|full| record.partial_of == Some(full.fingerprint))
            });
            if let Some((urn, _)) = cited {
                return Err(Refusal::Cited {
                    edition: edition.clone(),
                    cited_by,
                    urn: urn.clone(),
                });
            }
        }
    }
    Ok(())
}

/// The retirements that are due, and why the other superseded and withdrawn editions are kept.
#[derive(Clone, Debug, Default)]
pub struct Prune {
    /// One [`Operation::Retire`] for each edition past its window.
    pub due: Vec<Operation>,
    /// The editions kept, with the refusal a retirement would meet.
    pub kept: Vec<(EditionKey, Refusal)>,
}

/// INV-203: finds every edition whose window has passed and that nothing holds back.
pub fn prune(version: &Version, context: &Context<'_>) -> Prune {
    let mut draft = Draft::new(version, context, context.clock.now());
    let mut found = Prune::default();
    for leaf in version.leaves() {
        for entry in &leaf.editions {
            if !matches!(entry.state, EditionState::Superseded | EditionState::Withdrawn) {
                continue;
            }
            let edition = EditionKey::new(leaf.product_id.clone(), entry.edition_id);
            let operation = Operation::Retire {
                edition: edition.clone(),
            };
            match draft.run(&operation) {
                Ok(()) => found.due.push(operation),
                Err(refusal) => found.kept.push((edition, refusal)),
            }
        }
    }
    found
}

/// INV-411: whether an edition's directory may be deleted: as a tombstone, once no backup can bring the edition back.
pub fn directory_is_deletable(version: &Version, edition: &EditionKey, now: Instant, retention: &Retention) -> bool {
    let Some(tombstone) = version.retired.get(edition) else {
        return false;
    };
    let window = TimeDelta::from_std(retention.backup()).unwrap_or(TimeDelta::MAX);
    version.entry(edition).is_none() && now.since(tombstone.retired_at) >= window
}

/// INV-412: whether an edition may be expunged, that is, have its bytes deleted at once: it must have been taken back first, so
/// that no reader is sent to bytes that are gone.
pub fn check_expunge(version: &Version, edition: &EditionKey) -> Result<(), Refusal> {
    match version.status(edition) {
        Some(EntryStatus::State(EditionState::Withdrawn) | EntryStatus::Tombstone) => Ok(()),
        found => Err(Refusal::WrongState {
            verb: Verb::Expunge,
            edition: edition.clone(),
            found,
        }),
    }
}
