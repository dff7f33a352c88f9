//! From a base version and operations to the next version.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Manifests, Operation, Refusal, ReleaseClock, Retention, Version, change_list::change_list, clock::next_created_at,
    draft::Draft, judge::judge,
};
use crate::doc::{ChangeItem, CleanText, EventKind, Instant, Leaf, Seq, Stored};

/// What a transition is judged by, besides the version itself.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The clock versions are dated by and release times are compared with.
    pub clock: ReleaseClock,
    /// Manifests that were read.
    pub manifests: &'a Manifests,
    /// INV-217: the canonical forms whose fingerprints this build can compare.
    pub canonical_forms: &'a BTreeSet<CleanText>,
    /// The retention windows.
    pub retention: &'a Retention,
}

/// A next version that every rule allows, ready to be written.
#[derive(Clone, Debug)]
pub struct Transition {
    /// The kind of its event.
    pub kind: EventKind,
    /// The version it was built from: the one before, or the one a correction names (INV-150).
    pub previous_inventory: Option<Seq>,
    /// When it is dated (INV-252).
    pub created_at: Instant,
    /// The version: its number, leaves, tombstones and embargo.
    pub next: Version,
    /// The change list against the base version.
    pub changes: Vec<ChangeItem>,
}

impl Transition {
    /// INV-168: the leaves to write, which are those the base version does not name.
    pub fn new_leaves<'a>(&'a self, base: &'a Version) -> impl Iterator<Item = &'a Arc<Stored<Leaf>>> {
        let differing = self.next.leaves.differing(&base.leaves);
        differing
            .into_iter()
            .filter_map(|product_id| self.next.leaves.get(product_id))
    }
}

/// INV-212: does all operations in one version, or none: the first refusal is the answer.
///
/// The function is pure. A writer that lost the race for a version calls it again with the new head and the same operations, and
/// every precondition is judged against that head (INV-249): the fast-forward, the live edition expected, the embargo.
pub fn apply(base: &Version, operations: &[Operation], context: &Context<'_>) -> Result<Transition, Refusal> {
    let kind = one_kind(operations)?;
    let created_at = next_created_at(base.created_at, context.clock.now())?;
    let mut draft = Draft::new(base, context, created_at);
    for operation in operations {
        draft.run(operation)?;
    }
    let transition = conclude(base, draft, kind, created_at)?;
    match judge(base, &transition.next, context)?.into_iter().next() {
        Some((_, refusal)) => Err(refusal),
        None => Ok(transition),
    }
}

/// Writes the leaves out and lists the changes; refuses a version that would change nothing.
pub(super) fn conclude(
    base: &Version,
    draft: Draft<'_>,
    kind: EventKind,
    created_at: Instant,
) -> Result<Transition, Refusal> {
    let seq = match base.seq {
        None => Seq::FIRST,
        Some(seq) => seq.next().ok_or(Refusal::NoMoreVersions { last: seq })?,
    };
    let previous_inventory = draft.built_from;
    let next = draft.finish(seq)?;
    let changes = change_list(base, &next);
    if changes.is_empty() && !matches!(kind, EventKind::Describe | EventKind::EmbargoChange) {
        return Err(Refusal::NothingToDo { what: kind.to_string() });
    }
    Ok(Transition {
        kind,
        previous_inventory,
        created_at,
        next,
        changes,
    })
}

/// INV-156: the kind all operations are recorded under. A correction, a description and an embargo change stand alone.
pub(super) fn one_kind(operations: &[Operation]) -> Result<EventKind, Refusal> {
    let mut kinds = operations.iter().map(Operation::kind);
    let first = kinds.next().ok_or_else(|| Refusal::NothingToDo {
        what: "no operation".to_owned(),
    })?;
    let alone = matches!(
        first,
        EventKind::Correct | EventKind::Describe | EventKind::EmbargoChange
    );
    match kinds.find(|kind| alone || *kind != first) {
        Some(second) => Err(Refusal::MixedKinds {
            first: first.to_string(),
            second: second.to_string(),
        }),
        None => Ok(first),
    }
}
