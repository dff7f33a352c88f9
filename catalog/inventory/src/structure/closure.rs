//! The artefacts behind one dataflow, and the structural fingerprint over them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use sha2::{Digest as _, Sha256};

pub use super::lookup::LookupError;
use super::{
    canonical::{CanonicalForm, CanonicalText},
    lookup::Lookup,
    model::Artefact,
    reference::references,
    set::Structures,
    urn::{ArtefactUrn, Class},
};

/// SHA-256 over the fingerprints of a dataflow's closure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StructuralFingerprint([u8; 32]);

impl fmt::Display for StructuralFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for StructuralFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StructuralFingerprint({self})")
    }
}

impl serde::Serialize for StructuralFingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What stands behind one dataflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    /// The dataflow.
    pub dataflow: ArtefactUrn,
    /// INV-51: its data structure, pinned.
    pub structural_version: ArtefactUrn,
    /// The artefacts, dataflow and data structure included, sorted by URN.
    pub artefacts: BTreeSet<ArtefactUrn>,
}

/// The closures of an edition's dataflows: references are followed once for all of them.
pub struct Closures<'a> {
    lookup: Lookup<'a>,
    outgoing: BTreeMap<&'a ArtefactUrn, BTreeSet<&'a ArtefactUrn>>,
    incoming: BTreeMap<&'a ArtefactUrn, BTreeSet<&'a ArtefactUrn>>,
    structures: &'a Structures,
}

impl<'a> Closures<'a> {
    /// Follows every reference of an edition's structures.
    pub fn new(structures: &'a Structures) -> Self {
        let lookup = Lookup::new(structures);
        let mut outgoing: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        let mut incoming: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for artefact in structures.iter() {
            for reference in references(artefact) {
                for owner in lookup.owners(reference) {
                    outgoing.entry(artefact.urn()).or_default().insert(owner.urn());
                    incoming.entry(owner.urn()).or_default().insert(artefact.urn());
                }
            }
        }
        Self {
            lookup,
            outgoing,
            incoming,
            structures,
        }
    }

    /// INV-83: outgoing references of dataflow and data structure, the artefacts that reference either, and what those
    /// refer to in turn.
    ///
    /// INV-84: no other dataflow is ever part of it, whichever way it would come in: a constraint may be attached to two
    /// dataflows, and following it from one to the other would let an edit to one change the other's fingerprint.
    pub fn of(&self, dataflow: &ArtefactUrn) -> Result<Closure, LookupError> {
        let (flow, structure) = self.lookup.dataflow(dataflow)?;
        let (flow, structure) = (&flow.header.urn, &structure.header.urn);
        let mut artefacts = BTreeSet::from([flow, structure]);
        let mut open = vec![flow, structure];
        for start in [flow, structure] {
            open.extend(
                self.incoming
                    .get(start)
                    .into_iter()
                    .flatten()
                    .filter(|urn| urn.class() != Class::Dataflow),
            );
        }
        artefacts.extend(&open);
        while let Some(urn) = open.pop() {
            for next in self.outgoing.get(urn).into_iter().flatten().copied() {
                if next.class() != Class::Dataflow && artefacts.insert(next) {
                    open.push(next);
                }
            }
        }
        Ok(Closure {
            dataflow: flow.clone(),
            structural_version: structure.clone(),
            artefacts: artefacts.into_iter().cloned().collect(),
        })
    }

    /// INV-82: SHA-256 of the closure's artefact fingerprints in URN order, joined by line feeds, and the form they have.
    pub fn fingerprint(&self, closure: &Closure) -> (StructuralFingerprint, CanonicalForm) {
        let artefacts = closure.artefacts.iter().filter_map(|urn| self.structures.get(urn));
        let texts: Vec<CanonicalText> = artefacts.map(CanonicalText::of).collect();
        let lines: Vec<String> = texts.iter().map(|text| text.fingerprint().to_string()).collect();
        let fingerprint = StructuralFingerprint(Sha256::digest(lines.join("\n").as_bytes()).into());
        (
            fingerprint,
            CanonicalForm::of_all(texts.iter().map(CanonicalText::form)),
        )
    }

    /// INV-85: what an importer takes of a registry's answer for some dataflows: what they and their data structures refer to, and
    /// what refers to them, such as constraints and associations of hierarchies. The rest of the answer is left.
    pub fn import<'b>(&self, dataflows: impl IntoIterator<Item = &'b ArtefactUrn>) -> Result<Structures, LookupError> {
        let mut urns = BTreeSet::new();
        for dataflow in dataflows {
            urns.extend(self.of(dataflow)?.artefacts);
        }
        Ok(self.structures.only(&urns))
    }
}

/// The dataflows of an edition, sorted by URN.
pub fn dataflows(structures: &Structures) -> impl Iterator<Item = &ArtefactUrn> {
    structures
        .iter()
        .filter(|artefact| matches!(artefact, Artefact::Dataflow(_)))
        .map(Artefact::urn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::testing::{
        Change, associate, change, constraint, dataflow_like, sample, sample_with_hierarchy, urn,
    };

    const FLOW: &str = "datastructure.Dataflow=SYNTHETIC:DF_SYNTHETIC(1.0)";
    const OTHER: &str = "datastructure.Dataflow=SYNTHETIC:DF_OTHER(1.0)";

    fn fingerprint(structures: &Structures, flow: &str) -> StructuralFingerprint {
        let closures = Closures::new(structures);
        closures.fingerprint(&closures.of(&urn(flow)).unwrap()).0
    }

    /// INV-82, INV-83: the golden closure and its structural fingerprint.
    #[test]
    fn closure_and_fingerprint_equal_the_golden_ones() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/sdmx/canonical_texts.json")).unwrap();
        let structures = sample_with_hierarchy();
        let closures = Closures::new(&structures);
        let closure = closures.of(&urn(FLOW)).unwrap();
        let urns: Vec<&str> = closure.artefacts.iter().map(ArtefactUrn::as_str).collect();
        let expected: Vec<&str> = golden["structure_closure"]
            .as_array()
            .unwrap()
            .iter()
            .map(|urn| urn.as_str().unwrap())
            .collect();
        assert_eq!(urns, expected);
        let (fingerprint, form) = closures.fingerprint(&closure);
        assert_eq!(
            fingerprint.to_string(),
            golden["binding"]["structure_fingerprint"].as_str().unwrap()
        );
        assert_eq!(form, CanonicalForm::One);
        assert_eq!(
            closure.structural_version.as_str(),
            golden["binding"]["structural_version"].as_str().unwrap()
        );
    }

    /// INV-83: a constraint points at the dataflow, or at its data structure, and a change to it changes the fingerprint.
    #[test]
    fn constraints_are_part_of_the_closure() {
        for attached in [FLOW, "datastructure.DataStructure=SYNTHETIC:DSD_SYNTHETIC(1.0)"] {
            let mut structures = sample();
            let before = fingerprint(&structures, FLOW);
            structures
                .insert(constraint("C", &[attached], &[("DIM_1", &["D1_00"])]))
                .unwrap();
            let with = fingerprint(&structures, FLOW);
            assert_ne!(before, with);
            structures.remove(&urn("registry.DataConstraint=SYNTHETIC:C(1.0)"));
            structures
                .insert(constraint("C", &[attached], &[("DIM_1", &["D1_01"])]))
                .unwrap();
            assert_ne!(with, fingerprint(&structures, FLOW));
        }
    }

    /// INV-84: an edit to one dataflow leaves its siblings' fingerprints, even when a constraint names both.
    #[test]
    fn sibling_dataflows_are_left_out() {
        let mut structures = sample();
        structures.insert(dataflow_like("DF_OTHER", "one")).unwrap();
        structures
            .insert(constraint("C", &[FLOW, OTHER], &[("DIM_1", &["D1_00"])]))
            .unwrap();
        let (before, other_before) = (fingerprint(&structures, FLOW), fingerprint(&structures, OTHER));
        structures.remove(&urn(OTHER));
        structures.insert(dataflow_like("DF_OTHER", "two")).unwrap();
        assert_eq!(fingerprint(&structures, FLOW), before);
        assert_ne!(fingerprint(&structures, OTHER), other_before);
        let closure = Closures::new(&structures).of(&urn(FLOW)).unwrap();
        assert!(!closure.artefacts.contains(&urn(OTHER)));
        assert!(
            closure
                .artefacts
                .contains(&urn("registry.DataConstraint=SYNTHETIC:C(1.0)"))
        );
    }

    /// INV-83: an association of something else than dataflow or data structure is no part of it.
    #[test]
    fn unrelated_artefacts_are_left_out() {
        let mut structures = sample_with_hierarchy();
        let before = fingerprint(&structures, FLOW);
        structures
            .insert(associate("HA_CODELIST", "codelist.Codelist=SYNTHETIC:CL_DIM_1(1.0)"))
            .unwrap();
        assert_eq!(fingerprint(&structures, FLOW), before);
    }

    /// INV-83: what an artefact that comes in refers to belongs to it as well.
    #[test]
    fn a_hierarchy_comes_in_through_its_association() {
        let structures = sample_with_hierarchy();
        let hierarchy = urn("codelist.Hierarchy=SYNTHETIC:H_DIM_1_1(1.0)");
        assert!(
            Closures::new(&structures)
                .of(&urn(FLOW))
                .unwrap()
                .artefacts
                .contains(&hierarchy)
        );
        let mut without = structures.clone();
        without.remove(&urn("codelist.HierarchyAssociation=SYNTHETIC:HA_DIM_1_1(1.0)"));
        assert!(
            !Closures::new(&without)
                .of(&urn(FLOW))
                .unwrap()
                .artefacts
                .contains(&hierarchy)
        );
    }

    /// INV-85: an import takes what refers to a dataflow or its data structure along, such as a constraint and the association of a
    /// hierarchy with the hierarchy itself, and nothing of other dataflows; what it took resolves by itself.
    #[test]
    fn an_import_takes_incoming_references_along() {
        let mut answer = sample_with_hierarchy();
        let dsd = "datastructure.DataStructure=SYNTHETIC:DSD_SYNTHETIC(1.0)";
        answer.insert(dataflow_like("DF_OTHER", "one")).unwrap();
        for artefact in [
            constraint("C_FLOW", &[FLOW], &[("DIM_1", &["D1_00"])]),
            constraint("C_STRUCTURE", &[dsd], &[("DIM_1", &["D1_01"])]),
            constraint("C_OTHER", &[OTHER], &[("DIM_1", &["D1_02"])]),
            associate("HA_CODELIST", "codelist.Codelist=SYNTHETIC:CL_DIM_1(1.0)"),
        ] {
            answer.insert(artefact).unwrap();
        }
        let imported = Closures::new(&answer).import([&urn(FLOW)]).unwrap();
        for there in [
            FLOW,
            dsd,
            "registry.DataConstraint=SYNTHETIC:C_FLOW(1.0)",
            "registry.DataConstraint=SYNTHETIC:C_STRUCTURE(1.0)",
            "codelist.HierarchyAssociation=SYNTHETIC:HA_DIM_1_1(1.0)",
            "codelist.Hierarchy=SYNTHETIC:H_DIM_1_1(1.0)",
            "codelist.Codelist=SYNTHETIC:CL_DIM_1(1.0)",
        ] {
            assert_eq!(imported.get(&urn(there)), answer.get(&urn(there)), "{there}");
            assert!(imported.get(&urn(there)).is_some(), "{there}");
        }
        for left in [
            OTHER,
            "registry.DataConstraint=SYNTHETIC:C_OTHER(1.0)",
            "codelist.HierarchyAssociation=SYNTHETIC:HA_CODELIST(1.0)",
        ] {
            assert!(
                answer.get(&urn(left)).is_some() && imported.get(&urn(left)).is_none(),
                "{left}"
            );
        }
        assert_eq!(crate::structure::reference::check_data_edition(&imported), []);
        assert_eq!(fingerprint(&imported, FLOW), fingerprint(&answer, FLOW));
        let both = Closures::new(&answer).import([&urn(FLOW), &urn(OTHER)]).unwrap();
        assert_eq!(both.len() + 1, answer.len(), "all but the association with a codelist");
        let missing = urn("datastructure.Dataflow=SYNTHETIC:DF_NONE(1.0)");
        let refused = Closures::new(&answer).import([&missing]);
        assert!(matches!(refused, Err(LookupError::NoDataflow { .. })));
    }

    /// INV-87: a dataflow or data structure that isn't held has no closure.
    #[test]
    fn missing_parts_are_refused() {
        let structures = sample();
        let closures = Closures::new(&structures);
        assert!(matches!(closures.of(&urn(OTHER)), Err(LookupError::NoDataflow { .. })));
        let codelist = urn("codelist.Codelist=SYNTHETIC:CL_DIM_1(1.0)");
        assert!(matches!(closures.of(&codelist), Err(LookupError::NoDataflow { .. })));
        let mut without = structures.clone();
        without.remove(&urn("datastructure.DataStructure=SYNTHETIC:DSD_SYNTHETIC(1.0)"));
        assert!(matches!(
            Closures::new(&without).of(&urn(FLOW)),
            Err(LookupError::NoStructure { .. })
        ));
    }

    /// INV-88, INV-121: a data structure named without a version is the one held, and refused when two are.
    #[test]
    fn data_structure_without_a_version_is_the_one_held() {
        let mut structures = sample();
        let bare = "urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure=SYNTHETIC:DSD_SYNTHETIC";
        change(&mut structures, FLOW, Change::Structure(bare));
        assert!(Closures::new(&structures).of(&urn(FLOW)).is_ok());
        let dsd = structures
            .get(&urn("datastructure.DataStructure=SYNTHETIC:DSD_SYNTHETIC(1.0)"))
            .unwrap()
            .clone();
        let Artefact::DataStructure(mut dsd) = dsd else {
            panic!()
        };
        dsd.header.urn = urn("datastructure.DataStructure=SYNTHETIC:DSD_SYNTHETIC(2.0)");
        structures.insert(Artefact::DataStructure(dsd)).unwrap();
        assert!(matches!(
            Closures::new(&structures).of(&urn(FLOW)),
            Err(LookupError::AmbiguousStructure { .. })
        ));
    }
}
