//! What a manifest says about each artefact of an edition.

use std::collections::BTreeMap;

use super::{
    canonical::{ArtefactFingerprint, CanonicalForm, CanonicalText},
    set::Structures,
    urn::{ArtefactUrn, Stability},
};

/// The manifest's entry for one artefact (INV-52).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ArtefactRecord {
    /// The pinned URN.
    pub urn: ArtefactUrn,
    /// What SDMX guarantees for the version.
    pub stability: Stability,
    /// Whether the edition holds a part of the artefact.
    pub partial: bool,
    /// The fingerprint of what the edition holds.
    pub fingerprint: ArtefactFingerprint,
    /// The fingerprint of the full artefact a partial was cut from; absent for a full one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial_of: Option<ArtefactFingerprint>,
}

/// The records of an edition's artefacts and the form their fingerprints have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtefactRecords {
    /// INV-40: what the manifest records as `canonical_form`.
    pub form: CanonicalForm,
    /// INV-45: the records, sorted by URN.
    pub records: Vec<ArtefactRecord>,
}

/// Why records can't be made or don't agree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A partial of which nobody said what it was cut from.
    #[error(
        "INV-52: `{urn}` is partial, and what it was cut from is not known; a partial records the full artefact's fingerprint"
    )]
    NoPartialOf {
        /// The partial.
        urn: ArtefactUrn,
    },
    /// A full artefact that is said to be cut from another.
    #[error("INV-52: `{urn}` is a full artefact, yet it is said to be cut from {partial_of}")]
    FullHasPartialOf {
        /// The artefact.
        urn: ArtefactUrn,
        /// What it is said to be cut from.
        partial_of: ArtefactFingerprint,
    },
    /// A cut of something the edition doesn't hold.
    #[error("INV-52: `{urn}` is said to be cut from {partial_of}, and the edition doesn't hold it")]
    NotHeld {
        /// The artefact.
        urn: ArtefactUrn,
        /// What it is said to be cut from.
        partial_of: ArtefactFingerprint,
    },
}

/// INV-52: records every artefact of an edition.
///
/// `partial_of` gives, for each partial, the fingerprint of the full artefact it was cut from: from
/// [`super::partial::Cut`], or from the edition a fold started with (INV-372).
pub fn record(
    structures: &Structures,
    partial_of: &BTreeMap<ArtefactUrn, ArtefactFingerprint>,
) -> Result<ArtefactRecords, RecordError> {
    if let Some((urn, partial_of)) = partial_of.iter().find(|(urn, _)| structures.get(urn).is_none()) {
        return Err(RecordError::NotHeld {
            urn: urn.clone(),
            partial_of: *partial_of,
        });
    }
    let mut forms = Vec::with_capacity(structures.len());
    let mut records = Vec::with_capacity(structures.len());
    for artefact in structures.iter() {
        let urn = artefact.urn().clone();
        let text = CanonicalText::of(artefact);
        let partial_of = match (artefact.is_partial(), partial_of.get(&urn)) {
            (true, None) => return Err(RecordError::NoPartialOf { urn }),
            (false, Some(partial_of)) => {
                return Err(RecordError::FullHasPartialOf {
                    urn,
                    partial_of: *partial_of,
                });
            }
            (_, partial_of) => partial_of.copied(),
        };
        forms.push(text.form());
        records.push(ArtefactRecord {
            stability: urn.stability(),
            urn,
            partial: artefact.is_partial(),
            fingerprint: text.fingerprint(),
            partial_of,
        });
    }
    Ok(ArtefactRecords {
        form: CanonicalForm::of_all(forms),
        records,
    })
}

/// Two editions that hold different content under one full URN.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "INV-89: `{urn}` has the fingerprint {first} in one edition and {second} in the other; a pinned URN names one content"
)]
pub struct Disagreement {
    /// The artefact both hold in full.
    pub urn: ArtefactUrn,
    /// Its fingerprint in one edition.
    pub first: ArtefactFingerprint,
    /// Its fingerprint in the other.
    pub second: ArtefactFingerprint,
}

/// INV-89: names every full artefact two editions hold with different content. A partial is no copy and is left out
/// (INV-90): it is compared with the full one by [`super::partial::check`].
///
/// Under different forms nothing is comparable (INV-70), so nothing is reported.
pub fn disagreements(first: &ArtefactRecords, second: &ArtefactRecords) -> Vec<Disagreement> {
    if first.form != second.form {
        return Vec::new();
    }
    let held: BTreeMap<_, _> = second
        .records
        .iter()
        .filter(|record| !record.partial)
        .map(|record| (&record.urn, record.fingerprint))
        .collect();
    let full = first.records.iter().filter(|record| !record.partial);
    full.filter_map(|record| {
        let second = *held.get(&record.urn)?;
        (second != record.fingerprint).then(|| Disagreement {
            urn: record.urn.clone(),
            first: record.fingerprint,
            second,
        })
    })
    .collect()
}

/// Under what a reader may keep an artefact it has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheScope {
    /// The URN alone: SDMX guarantees the content.
    Urn,
    /// The edition and the URN: the content is this edition's.
    EditionAndUrn,
}

impl ArtefactRecord {
    /// INV-91: legacy and partial artefacts are kept under edition and URN.
    pub fn cache_scope(&self) -> CacheScope {
        match (self.stability, self.partial) {
            (Stability::Semantic, false) => CacheScope::Urn,
            _ => CacheScope::EditionAndUrn,
        }
    }
}

impl ArtefactRecords {
    /// INV-372: what each partial was cut from, for a fold to carry into the next edition.
    pub fn partial_of(&self) -> BTreeMap<ArtefactUrn, ArtefactFingerprint> {
        self.records
            .iter()
            .filter_map(|record| Some((record.urn.clone(), record.partial_of?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::testing::{Change, change, sample, sample_with_hierarchy, urn};

    const DIM_2: &str = "codelist.Codelist=SYNTHETIC:CL_DIM_2(1.0)";

    fn plain(structures: &Structures) -> ArtefactRecords {
        record(structures, &BTreeMap::new()).unwrap()
    }

    fn with_version(structures: &Structures, version: &str) -> Structures {
        let mut structures = structures.clone();
        let artefact = structures.remove(&urn(DIM_2)).unwrap();
        let crate::structure::model::Artefact::Codelist(mut codelist) = artefact else {
            panic!()
        };
        codelist.header.urn = urn(&DIM_2.replace("1.0", version));
        structures
            .insert(crate::structure::model::Artefact::Codelist(codelist))
            .unwrap();
        structures
    }

    fn partial() -> (Structures, ArtefactFingerprint) {
        let mut structures = sample();
        let full = CanonicalText::of(structures.get(&urn(DIM_2)).unwrap()).fingerprint();
        let crate::structure::model::Artefact::Codelist(mut codelist) = structures.remove(&urn(DIM_2)).unwrap() else {
            panic!()
        };
        codelist.is_partial = true;
        codelist.codes.truncate(1);
        structures
            .insert(crate::structure::model::Artefact::Codelist(codelist))
            .unwrap();
        (structures, full)
    }

    /// INV-45, INV-52: every artefact has a record, sorted by URN, with the golden fingerprints.
    #[test]
    fn records_are_sorted_and_complete() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/sdmx/canonical_texts.json")).unwrap();
        let records = plain(&sample_with_hierarchy());
        assert_eq!(records.form, CanonicalForm::One);
        let got: Vec<(String, String)> = records
            .records
            .iter()
            .map(|record| (record.urn.to_string(), record.fingerprint.to_string()))
            .collect();
        let mut expected: Vec<(String, String)> = golden["artefacts"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(urn, entry)| (urn.clone(), entry["fingerprint"].as_str().unwrap().to_owned()))
            .collect();
        expected.sort();
        assert_eq!(got, expected);
    }

    /// INV-52, INV-53: the record as the manifest has it; `partial_of` is absent for a full artefact.
    #[test]
    fn record_as_the_manifest_has_it() {
        let (structures, full) = partial();
        let records = record(&structures, &BTreeMap::from([(urn(DIM_2), full)])).unwrap();
        let json = serde_json::to_value(&records.records).unwrap();
        let entries = json.as_array().unwrap();
        let cut = entries
            .iter()
            .find(|entry| entry["urn"] == urn(DIM_2).as_str())
            .unwrap();
        assert_eq!(cut["stability"], "legacy");
        assert_eq!(cut["partial"], true);
        assert_eq!(cut["partial_of"], full.to_string());
        assert!(
            entries
                .iter()
                .filter(|entry| *entry != cut)
                .all(|entry| entry.get("partial_of").is_none())
        );
        let semantic = plain(&with_version(&sample(), "1.2.0"));
        let entry = semantic
            .records
            .iter()
            .find(|record| record.urn.id() == "CL_DIM_2")
            .unwrap();
        assert_eq!(serde_json::to_value(entry).unwrap()["stability"], "semantic");
    }

    /// INV-52: a partial of which nobody knows what it was cut from is refused.
    #[test]
    fn partial_without_origin_is_refused() {
        assert_eq!(
            record(&partial().0, &BTreeMap::new()),
            Err(RecordError::NoPartialOf { urn: urn(DIM_2) })
        );
    }

    /// INV-52: a full artefact has no `partial_of`, and neither has what isn't held.
    #[test]
    fn origin_of_a_full_artefact_is_refused() {
        let (_, full) = partial();
        let origin = BTreeMap::from([(urn(DIM_2), full)]);
        assert!(matches!(
            record(&sample(), &origin),
            Err(RecordError::FullHasPartialOf { .. })
        ));
        let mut without = sample();
        without.remove(&urn(DIM_2));
        assert!(matches!(record(&without, &origin), Err(RecordError::NotHeld { .. })));
    }

    /// INV-89: two editions that hold different content under one full URN are named; the same content is fine.
    #[test]
    fn copies_that_differ_are_named() {
        let first = plain(&sample());
        assert_eq!(disagreements(&first, &plain(&sample())), []);
        let mut other = sample();
        change(&mut other, DIM_2, Change::RenameCode("D2_0", "other"));
        let found = disagreements(&first, &plain(&other));
        assert!(
            matches!(&found[..], [Disagreement { urn: of, .. }] if *of == urn(DIM_2)),
            "{found:?}"
        );
    }

    /// INV-90: a partial is no copy of the full artefact.
    #[test]
    fn partials_are_not_compared_as_copies() {
        let (structures, full) = partial();
        let records = record(&structures, &BTreeMap::from([(urn(DIM_2), full)])).unwrap();
        assert_eq!(disagreements(&plain(&sample()), &records), []);
        assert_eq!(disagreements(&records, &plain(&sample())), []);
    }

    /// INV-70: fingerprints of different forms are never compared.
    #[test]
    fn other_forms_are_not_compared() {
        let mut other = sample();
        change(&mut other, DIM_2, Change::RenameCode("D2_0", "à"));
        assert_eq!(disagreements(&plain(&sample()), &plain(&other)), []);
    }

    /// INV-91: only a full artefact with a semantic version is kept under its URN alone.
    #[test]
    fn legacy_and_partial_artefacts_are_kept_under_their_edition() {
        let scope = |structures: &Structures, origin: &BTreeMap<_, _>| {
            let records = record(structures, origin).unwrap();
            records
                .records
                .iter()
                .find(|record| record.urn.id() == "CL_DIM_2")
                .unwrap()
                .cache_scope()
        };
        let none = BTreeMap::new();
        assert_eq!(scope(&sample(), &none), CacheScope::EditionAndUrn);
        assert_eq!(scope(&with_version(&sample(), "1.0.0"), &none), CacheScope::Urn);
        assert_eq!(
            scope(&with_version(&sample(), "0.1.0"), &none),
            CacheScope::EditionAndUrn
        );
        let (structures, full) = partial();
        let structures = with_version(&structures, "1.0.0");
        let origin = BTreeMap::from([(urn(&DIM_2.replace("1.0", "1.0.0")), full)]);
        assert_eq!(scope(&structures, &origin), CacheScope::EditionAndUrn);
    }
}
