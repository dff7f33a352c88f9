//! INV-238, INV-239: what an edition refers to is in the edition, or for structures in another structure edition.

use std::collections::BTreeSet;

use super::{EditionKey, Refusal};

/// What an edition refers to and what it holds, as whoever reads its store sees it. How a reference is matched with what is held
/// (a reference without a version, older class names) is the store's business.
pub trait StoredReferences {
    /// Every reference the edition stores, each once, as URNs.
    fn references(&self) -> BTreeSet<String>;

    /// Whether the edition holds what the reference names: an artefact, or an item of one.
    fn holds(&self, reference: &str) -> bool;

    /// Whether it holds it in full: a full artefact, or an item of one.
    fn holds_in_full(&self, reference: &str) -> bool;
}

/// An edition whose references are to be checked.
pub struct ReferringEdition<'a> {
    /// Its name.
    pub edition: EditionKey,
    /// INV-240: whether it has no bindings, and so is a structure product for this check.
    pub is_structure: bool,
    /// Its references.
    pub stored: &'a dyn StoredReferences,
}

/// Checks every reference of an edition.
///
/// A data edition resolves all of them in itself. A structure edition may also name what another live or embargoed structure edition
/// holds in full; `structures` are those editions. Everything that stays unresolved is reported at once, with the editions that were
/// looked in.
pub fn check_references(
    referring: &ReferringEdition<'_>,
    structures: &[(EditionKey, &dyn StoredReferences)],
) -> Result<(), Refusal> {
    let elsewhere = || structures.iter().filter(|(edition, _)| *edition != referring.edition);
    let resolves = |reference: &str| {
        referring.stored.holds(reference)
            || (referring.is_structure && elsewhere().any(|(_, stored)| stored.holds_in_full(reference)))
    };
    let mut references: Vec<String> = referring.stored.references().into_iter().collect();
    references.retain(|reference| !resolves(reference));
    if references.is_empty() {
        return Ok(());
    }
    let looked_in = match referring.is_structure {
        true => elsewhere().map(|(edition, _)| edition.to_string()).collect(),
        false => Vec::new(),
    };
    let rule = if referring.is_structure { 239 } else { 238 };
    Err(Refusal::UnresolvedReferences {
        rule,
        edition: referring.edition.clone(),
        references,
        looked_in,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sets {
        references: Vec<&'static str>,
        full: Vec<&'static str>,
        partial: Vec<&'static str>,
    }

    impl StoredReferences for Sets {
        fn references(&self) -> BTreeSet<String> {
            self.references.iter().map(ToString::to_string).collect()
        }

        fn holds(&self, reference: &str) -> bool {
            self.holds_in_full(reference) || self.partial.contains(&reference)
        }

        fn holds_in_full(&self, reference: &str) -> bool {
            self.full.contains(&reference)
        }
    }

    fn key(product: &str, last: u8) -> EditionKey {
        let edition = format!("01900000-0000-7000-8000-0000000000{last:02x}");
        EditionKey::new(
            product.parse().expect("a product id"),
            edition.parse().expect("an edition id"),
        )
    }

    fn check(is_structure: bool, stored: &Sets, others: &[(EditionKey, &dyn StoredReferences)]) -> Result<(), Refusal> {
        check_references(
            &ReferringEdition {
                edition: key("p", 1),
                is_structure,
                stored,
            },
            others,
        )
    }

    /// INV-238: a data edition's own artefacts resolve its references, partials included.
    #[test]
    fn a_data_edition_resolves_in_itself() {
        let stored = Sets {
            references: vec!["dsd", "code"],
            full: vec!["dsd"],
            partial: vec!["code"],
        };
        assert_eq!(check(false, &stored, &[]), Ok(()));
    }

    /// INV-238: what another edition holds is no help to a data edition.
    #[test]
    fn a_data_edition_that_leans_on_another_is_refused() {
        let stored = Sets {
            references: vec!["code", "dsd", "scheme"],
            full: vec!["dsd"],
            partial: vec![],
        };
        let other = Sets {
            references: vec![],
            full: vec!["code", "scheme"],
            partial: vec![],
        };
        let refused = check(false, &stored, &[(key("s", 2), &other)]).expect_err("two references dangle");
        assert_eq!(refused.rule(), 238);
        match refused {
            Refusal::UnresolvedReferences {
                references, looked_in, ..
            } => {
                assert_eq!(references, ["code", "scheme"], "all are reported");
                assert!(looked_in.is_empty());
            }
            other => panic!("{other}"),
        }
    }

    /// INV-239, INV-240: an edition without bindings may name what another structure edition holds in full.
    #[test]
    fn a_structure_edition_resolves_in_another_one() {
        let stored = Sets {
            references: vec!["code"],
            full: vec![],
            partial: vec![],
        };
        let other = Sets {
            references: vec![],
            full: vec!["code"],
            partial: vec![],
        };
        assert_eq!(check(true, &stored, &[(key("s", 2), &other)]), Ok(()));
    }

    /// INV-239: a partial elsewhere does not count, and the refusal names the editions looked in.
    #[test]
    fn a_structure_reference_to_a_partial_elsewhere_is_refused() {
        let stored = Sets {
            references: vec!["code"],
            full: vec![],
            partial: vec![],
        };
        let other = Sets {
            references: vec![],
            full: vec![],
            partial: vec!["code"],
        };
        let refused =
            check(true, &stored, &[(key("s", 2), &other), (key("p", 1), &other)]).expect_err("only a partial");
        assert_eq!(refused.rule(), 239);
        let text = refused.to_string();
        assert!(text.contains(&key("s", 2).to_string()), "{text}");
        assert!(
            !text.contains(&format!("nor in {}", key("p", 1))),
            "an edition is not another one to itself: {text}"
        );
    }
}
