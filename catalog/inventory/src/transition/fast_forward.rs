//! Whether an edition may take the place of the live one.

use std::cmp::Ordering;

use super::{EditionKey, Refusal, version::live_at};
use crate::doc::{CleanText, EditionId, EditionState, EntryStatus, Leaf};

/// The edition that asks to become live, now or after its embargo.
pub(super) struct Candidate<'a> {
    pub(super) edition: EditionKey,
    pub(super) previous: Option<EditionId>,
    pub(super) schema_version: &'a CleanText,
}

/// INV-195, INV-205: the fast-forward check. Answers the live edition that would be replaced.
///
/// With a live edition at the candidate's schema version, the candidate was built from it. With none, the candidate was built
/// from nothing, or from the live edition at the schema version before: a rollout's first edition replaces no head at its own
/// schema version and still must not drop what is live at the older one.
///
/// `leaf` is the product as earlier operations of the same version left it, `base` as the base version has it. The head at an older
/// schema version may be the one of either, so that the order of two releases in one version does not matter.
pub(super) fn fast_forward(
    leaf: Option<&Leaf>,
    base: Option<&Leaf>,
    candidate: &Candidate<'_>,
    status: impl Fn(&EditionKey) -> Option<EntryStatus>,
) -> Result<Option<EditionId>, Refusal> {
    let Candidate {
        edition,
        previous,
        schema_version,
    } = candidate;
    let previous_status = match previous {
        None => None,
        Some(previous) => match status(&EditionKey::new(edition.product_id.clone(), *previous)) {
            None => {
                return Err(Refusal::PreviousUnknown {
                    edition: edition.clone(),
                    previous: *previous,
                });
            }
            found => found,
        },
    };
    let here = leaf
        .and_then(|leaf| live_at(leaf, schema_version))
        .map(|entry| entry.edition_id);
    let older = |leaf: Option<&Leaf>| live_at_older_schema(leaf?, schema_version);
    let expected = here.or_else(|| older(leaf));
    let fits = match here {
        Some(live) => *previous == Some(live),
        None => previous.is_none() || *previous == expected || *previous == older(base),
    };
    if fits {
        return Ok(here);
    }
    match previous {
        Some(withdrawn) if previous_status == Some(EntryStatus::State(EditionState::Withdrawn)) => {
            Err(Refusal::BuiltOnWithdrawn {
                edition: edition.clone(),
                withdrawn: *withdrawn,
                live: expected,
            })
        }
        _ => Err(Refusal::NotFastForward {
            edition: edition.clone(),
            previous: *previous,
            live: expected,
            schema_version: (*schema_version).clone(),
        }),
    }
}

/// The live edition at the newest schema version below this one.
fn live_at_older_schema(leaf: &Leaf, schema_version: &CleanText) -> Option<EditionId> {
    leaf.editions
        .iter()
        .filter(|entry| entry.state == EditionState::Live)
        .filter(|entry| compare_schemas(&entry.schema_version, schema_version) == Some(Ordering::Less))
        .max_by(|a, b| compare_schemas(&a.schema_version, &b.schema_version).unwrap_or(Ordering::Equal))
        .map(|entry| entry.edition_id)
}

/// Orders two schema versions part by part as numbers; none when one of them is not made of numbers and cannot be ordered.
fn compare_schemas(a: &CleanText, b: &CleanText) -> Option<Ordering> {
    let parts = |version: &CleanText| -> Option<Vec<u64>> {
        version.as_str().split('.').map(|part| part.parse().ok()).collect()
    };
    Some(parts(a)?.cmp(&parts(b)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(a: &str, b: &str) -> Option<Ordering> {
        let text = |text: &str| text.parse().expect("a clean text");
        compare_schemas(&text(a), &text(b))
    }

    /// INV-204: schema versions are ordered by their numbers, not as text, and not at all when they are no numbers.
    #[test]
    fn schema_versions_are_ordered_by_number() {
        assert_eq!(order("2.9", "2.52"), Some(Ordering::Less));
        assert_eq!(order("2.52", "2.52"), Some(Ordering::Equal));
        assert_eq!(order("3", "2.52"), Some(Ordering::Greater));
        for (a, b) in [
            ("2.x", "2.52"),
            ("2.52", "two"),
            ("2..1", "2.2"),
            ("99999999999999999999", "1"),
        ] {
            assert_eq!(order(a, b), None, "{a} {b}");
        }
    }
}
