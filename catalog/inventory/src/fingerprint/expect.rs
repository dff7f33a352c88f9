//! An edition's fingerprints held against an earlier manifest's, and when they are computed anew.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    form::{CanonicalForm, DifferentForms},
    structures::{ProductFingerprint, StructuresError},
    value::{Artefact, Fingerprint, Kind, Product, Structure, Table},
};

/// At which point of its life an edition is checked (§4.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckProfile {
    /// Before it is offered for registration.
    Publish,
    /// When it arrives from elsewhere.
    Receive,
    /// When a node opens it to serve it.
    Open,
}

impl CheckProfile {
    /// INV-110: whether fingerprints are computed anew from rows and texts: always at publish, at receive when asked for,
    /// never at open, where recorded ones are read.
    pub fn recomputes_fingerprints(self, asked: bool) -> bool {
        match self {
            Self::Publish => true,
            Self::Receive => asked,
            Self::Open => false,
        }
    }
}

/// All fingerprints of one edition, computed or as its manifest records them.
#[derive(Debug, Clone)]
pub struct EditionFingerprints {
    form: CanonicalForm,
    artefacts: BTreeMap<String, Fingerprint<Artefact>>,
    tables: BTreeMap<String, Fingerprint<Table>>,
    structures: BTreeMap<String, Fingerprint<Structure>>,
    recorded_product: Option<Fingerprint<Product>>,
}

impl EditionFingerprints {
    /// An edition with nothing in it.
    pub fn new(form: CanonicalForm) -> Self {
        Self {
            form,
            artefacts: BTreeMap::new(),
            tables: BTreeMap::new(),
            structures: BTreeMap::new(),
            recorded_product: None,
        }
    }

    /// Adds an artefact. What was known under the URN is replaced.
    pub fn artefact(&mut self, urn: &str, artefact: Fingerprint<Artefact>) -> Result<(), DifferentForms> {
        self.form.require_same(artefact.form())?;
        self.artefacts.insert(urn.to_owned(), artefact);
        Ok(())
    }

    /// Adds a binding: a dataflow with its table and its closure.
    pub fn binding(
        &mut self,
        dataflow: &str,
        table: Fingerprint<Table>,
        structure: Fingerprint<Structure>,
    ) -> Result<(), DifferentForms> {
        self.form.require_same(table.form())?;
        self.form.require_same(structure.form())?;
        self.tables.insert(dataflow.to_owned(), table);
        self.structures.insert(dataflow.to_owned(), structure);
        Ok(())
    }

    /// Sets the `content_fingerprint` that a manifest records.
    pub fn recorded_product(&mut self, product: Fingerprint<Product>) -> Result<(), DifferentForms> {
        self.form.require_same(product.form())?;
        self.recorded_product = Some(product);
        Ok(())
    }

    /// INV-86: the product fingerprint of what is in here.
    pub fn product(&self) -> Result<Fingerprint<Product>, StructuresError> {
        let mut product = ProductFingerprint::new(self.form.clone());
        for (urn, artefact) in &self.artefacts {
            product.artefact(urn, artefact)?;
        }
        for (dataflow, table) in &self.tables {
            product.binding(dataflow, table)?;
        }
        Ok(product.finish())
    }

    /// INV-106: these fingerprints must be those of an earlier manifest, all of them; what differs is listed.
    ///
    /// Needs no rows and no texts, so it runs at any profile.
    pub fn expect(&self, earlier: &Self) -> Result<(), ExpectError> {
        self.form.require_same(&earlier.form)?;
        let mut differences = Vec::new();
        compare(&self.artefacts, &earlier.artefacts, &mut differences)?;
        compare(&self.tables, &earlier.tables, &mut differences)?;
        compare(&self.structures, &earlier.structures, &mut differences)?;
        // The field may be null in either; the parts it is made of were compared above.
        if let (Some(found), Some(expected)) = (&self.recorded_product, &earlier.recorded_product)
            && !found.same_as(expected)?
        {
            differences.push(difference::<Product>("the edition", Some(found), Some(expected)));
        }
        if differences.is_empty() {
            Ok(())
        } else {
            Err(ExpectError::Differ { differences })
        }
    }

    /// INV-110: the fingerprints computed from the edition must be the recorded ones, product fingerprint included.
    pub fn check_recorded(&self, recorded: &Self) -> Result<(), ExpectError> {
        let mut computed = self.clone();
        computed.recorded_product = Some(self.product()?);
        computed.expect(recorded)
    }
}

fn compare<K: Kind>(
    found: &BTreeMap<String, Fingerprint<K>>,
    expected: &BTreeMap<String, Fingerprint<K>>,
    differences: &mut Vec<FingerprintDifference>,
) -> Result<(), DifferentForms> {
    let urns: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    for urn in urns {
        let (found, expected) = (found.get(urn), expected.get(urn));
        let same = match (found, expected) {
            (Some(found), Some(expected)) => found.same_as(expected)?,
            _ => false,
        };
        if !same {
            differences.push(difference(urn, found, expected));
        }
    }
    Ok(())
}

fn difference<K: Kind>(
    of: &str,
    found: Option<&Fingerprint<K>>,
    expected: Option<&Fingerprint<K>>,
) -> FingerprintDifference {
    FingerprintDifference {
        kind: K::NAME,
        of: of.to_owned(),
        found: found.map(Fingerprint::to_string),
        expected: expected.map(Fingerprint::to_string),
    }
}

/// One fingerprint that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} of {of}: {} instead of {}", shown(.found), shown(.expected))]
pub struct FingerprintDifference {
    /// What kind of fingerprint.
    pub kind: &'static str,
    /// URN of the artefact or dataflow.
    pub of: String,
    /// The edition's, if it has one.
    pub found: Option<String>,
    /// The expected one, if one is.
    pub expected: Option<String>,
}

fn shown(fingerprint: &Option<String>) -> &str {
    fingerprint.as_deref().unwrap_or("none")
}

/// An edition's fingerprints are not the expected ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpectError {
    /// Some differ.
    #[error(
        "{} of the edition's fingerprints are not the expected ones (INV-106, INV-110); the first: {}",
        .differences.len(),
        .differences.first().map_or_else(String::new, ToString::to_string)
    )]
    Differ {
        /// Every one that differs.
        differences: Vec<FingerprintDifference>,
    },
    /// The two hash different texts.
    #[error(transparent)]
    DifferentForms(#[from] DifferentForms),
    /// The product fingerprint cannot be made.
    #[error(transparent)]
    Structures(#[from] StructuresError),
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODES: &str = "urn:sdmx:x.Codelist=A:CL(1.0)";
    const FLOW: &str = "urn:sdmx:x.Dataflow=A:DF(1.0)";

    fn text(text: &str) -> Fingerprint<Artefact> {
        Fingerprint::of_canonical_text(CanonicalForm::ONE, text)
    }

    fn table(text: &str) -> Fingerprint<Table> {
        Fingerprint::parse(CanonicalForm::ONE, text).unwrap()
    }

    fn hash<K: Kind>(digit: &str) -> Fingerprint<K> {
        Fingerprint::parse(CanonicalForm::ONE, &digit.repeat(64)).unwrap()
    }

    fn edition() -> EditionFingerprints {
        let mut edition = EditionFingerprints::new(CanonicalForm::ONE);
        edition.artefact(CODES, text("codes")).unwrap();
        edition.binding(FLOW, table("7:2"), hash("a")).unwrap();
        edition
    }

    fn differences(found: &EditionFingerprints, expected: &EditionFingerprints) -> Vec<FingerprintDifference> {
        match found.expect(expected) {
            Err(ExpectError::Differ { differences }) => differences,
            other => panic!("{other:?}"),
        }
    }

    /// INV-106: each kind that differs is refused by name, with both values.
    #[test]
    fn each_kind_of_difference_is_named() {
        let earlier = edition();
        edition().expect(&earlier).unwrap();

        let mut changed = edition();
        changed.artefact(CODES, text("other codes")).unwrap();
        changed.binding(FLOW, table("8:2"), hash("b")).unwrap();
        let found = differences(&changed, &earlier);
        let kinds: Vec<_> = found
            .iter()
            .map(|difference| (difference.kind, difference.of.as_str()))
            .collect();
        assert_eq!(
            kinds,
            [
                ("artefact fingerprint", CODES),
                ("table fingerprint", FLOW),
                ("structural fingerprint", FLOW)
            ]
        );
        assert_eq!(found[1].found.as_deref(), Some("8:2"));
        assert_eq!(found[1].expected.as_deref(), Some("7:2"));
        let message = changed.expect(&earlier).unwrap_err().to_string();
        assert!(
            message.contains("3 of") && message.contains("INV-106") && message.contains(CODES),
            "{message}"
        );
    }

    /// INV-106: what only one of the two has is a difference, whichever it is.
    #[test]
    fn missing_and_added_parts_are_differences() {
        let full = edition();
        let empty = EditionFingerprints::new(CanonicalForm::ONE);
        let lacking = differences(&empty, &full);
        assert_eq!(lacking.len(), 3);
        assert!(lacking.iter().all(|difference| difference.found.is_none()));
        let added = differences(&full, &empty);
        assert!(added.iter().all(|difference| difference.expected.is_none()));
        assert!(added[0].to_string().ends_with("instead of none"), "{}", added[0]);
    }

    /// INV-106: the recorded product fingerprints are compared when both manifests have one.
    #[test]
    fn recorded_product_fingerprints_are_compared() {
        let (mut found, mut earlier) = (edition(), edition());
        found.recorded_product(hash("c")).unwrap();
        found.expect(&earlier).unwrap();
        earlier.recorded_product(hash("d")).unwrap();
        assert_eq!(differences(&found, &earlier)[0].kind, "product fingerprint");
    }

    /// INV-70: an edition of another form is not compared, and no part of another form gets into one.
    #[test]
    fn editions_of_another_form_are_not_compared() {
        let other = EditionFingerprints::new(CanonicalForm::SOVM_1);
        assert!(matches!(edition().expect(&other), Err(ExpectError::DifferentForms(_))));
        let foreign = Fingerprint::of_canonical_text(CanonicalForm::SOVM_1, "codes");
        assert!(edition().artefact(CODES, foreign).is_err());
        let foreign = Fingerprint::parse(CanonicalForm::SOVM_1, "7:2").unwrap();
        assert!(edition().binding(FLOW, foreign, hash("a")).is_err());
        let foreign = Fingerprint::parse(CanonicalForm::SOVM_1, &"a".repeat(64)).unwrap();
        assert!(edition().binding(FLOW, table("7:2"), foreign).is_err());
        let foreign = Fingerprint::parse(CanonicalForm::SOVM_1, &"a".repeat(64)).unwrap();
        assert!(edition().recorded_product(foreign).is_err());
    }

    /// INV-110: recomputing finds a recorded product fingerprint that its parts do not give, and any other untruth.
    #[test]
    fn recorded_fingerprints_are_checked_against_computed_ones() {
        let computed = edition();
        let mut recorded = edition();
        computed.check_recorded(&recorded).unwrap();
        recorded.recorded_product(computed.product().unwrap()).unwrap();
        computed.check_recorded(&recorded).unwrap();
        recorded.recorded_product(hash("e")).unwrap();
        assert!(matches!(
            computed.check_recorded(&recorded),
            Err(ExpectError::Differ { .. })
        ));
        let mut recorded = edition();
        recorded.binding(FLOW, table("7:3"), hash("a")).unwrap();
        assert!(computed.check_recorded(&recorded).is_err());
    }

    /// INV-110: fingerprints are recomputed at publish whatever is asked, at receive when asked, at open never.
    #[test]
    fn profiles_decide_what_is_recomputed() {
        for (profile, unasked, asked) in [
            (CheckProfile::Publish, true, true),
            (CheckProfile::Receive, false, true),
            (CheckProfile::Open, false, false),
        ] {
            assert_eq!(profile.recomputes_fingerprints(false), unasked, "{profile:?}");
            assert_eq!(profile.recomputes_fingerprints(true), asked, "{profile:?}");
        }
    }
}
