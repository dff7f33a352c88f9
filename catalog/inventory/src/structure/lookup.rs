//! Finding artefacts by reference, and which codelist enumerates which component.

use std::collections::{BTreeSet, HashMap};

use super::{
    model::{Artefact, Codelist, Component, DataStructure, Dataflow, Representation},
    set::Structures,
    urn::{ArtefactUrn, Class, Target, Urn},
};

/// Why a dataflow can't be followed to its data structure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// No such dataflow.
    #[error("INV-87: the edition doesn't hold `{dataflow}`")]
    NoDataflow {
        /// The URN asked for.
        dataflow: ArtefactUrn,
    },
    /// No data structure for the dataflow.
    #[error("INV-87: the edition doesn't hold `{structure}`, the data structure of `{dataflow}`")]
    NoStructure {
        /// The dataflow.
        dataflow: ArtefactUrn,
        /// Its data structure.
        structure: Urn,
    },
    /// A reference without a version, and several versions held.
    #[error(
        "INV-88: `{dataflow}` names its data structure as `{structure}`, and the edition holds several versions of it"
    )]
    AmbiguousStructure {
        /// The dataflow.
        dataflow: ArtefactUrn,
        /// Its data structure.
        structure: Urn,
    },
}

/// Artefacts by the target of references.
pub(super) struct Lookup<'a> {
    structures: &'a Structures,
    held: HashMap<Target, Vec<&'a Artefact>>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(structures: &'a Structures) -> Self {
        let mut held: HashMap<Target, Vec<&Artefact>> = HashMap::new();
        for artefact in structures.iter() {
            held.entry(artefact.urn().as_urn().target()).or_default().push(artefact);
        }
        Self { structures, held }
    }

    /// The artefacts a reference points at or into: one, or every version held when it names none.
    pub(super) fn owners(&self, reference: &Urn) -> impl Iterator<Item = &'a Artefact> {
        let held = self.held.get(&reference.owner()).map(Vec::as_slice).unwrap_or_default();
        let version = reference.version().cloned();
        held.iter().copied().filter(move |artefact| {
            version
                .as_ref()
                .is_none_or(|version| artefact.urn().version() == version)
        })
    }

    /// A dataflow and its data structure.
    pub(super) fn dataflow(&self, urn: &ArtefactUrn) -> Result<(&'a Dataflow, &'a DataStructure), LookupError> {
        let Some(Artefact::Dataflow(dataflow)) = self.structures.get(urn) else {
            return Err(LookupError::NoDataflow { dataflow: urn.clone() });
        };
        let mut found = self.owners(&dataflow.structure);
        match (found.next(), found.next()) {
            (Some(Artefact::DataStructure(structure)), None) => Ok((dataflow, structure)),
            (Some(_), Some(_)) => Err(LookupError::AmbiguousStructure {
                dataflow: urn.clone(),
                structure: dataflow.structure.clone(),
            }),
            _ => Err(LookupError::NoStructure {
                dataflow: urn.clone(),
                structure: dataflow.structure.clone(),
            }),
        }
    }

    /// The codelists that enumerate a component: its own, or its concept's when it has no representation.
    pub(super) fn codelists(&self, component: &Component) -> Vec<&'a Codelist> {
        let enumerations: Vec<&Urn> = match &component.local.representation {
            Some(Representation::Enumeration(urn)) => vec![urn],
            Some(Representation::Facet(_)) => Vec::new(),
            None => self.core_enumerations(&component.concept),
        };
        let owners = enumerations
            .into_iter()
            .filter(|urn| urn.class() == Some(Class::Codelist));
        let owners = owners.flat_map(|urn| self.owners(urn));
        owners
            .filter_map(|artefact| {
                if let Artefact::Codelist(codelist) = artefact {
                    Some(codelist)
                } else {
                    None
                }
            })
            .collect()
    }

    fn core_enumerations(&self, concept: &Urn) -> Vec<&'a Urn> {
        let mut found = Vec::new();
        for owner in self.owners(concept) {
            let Artefact::ConceptScheme(scheme) = owner else {
                continue;
            };
            let held = scheme
                .concepts
                .iter()
                .filter(|held| Some(held.item.id.as_str()) == concept.path());
            found.extend(held.filter_map(|held| match &held.core.representation {
                Some(Representation::Enumeration(urn)) => Some(urn),
                _ => None,
            }));
        }
        found
    }

    /// Whether a reference points at one of these artefacts.
    pub(super) fn points_at(&self, reference: &Urn, artefacts: &BTreeSet<&ArtefactUrn>) -> bool {
        self.owners(reference).any(|owner| artefacts.contains(owner.urn()))
    }
}
