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
