//! Structural and product fingerprints: hashes over the fingerprints of what they contain.
//!
//! The closure itself (INV-83) is walked by whoever knows the references; what is handed in here is sorted, checked and
//! hashed. Order of arrival does not matter.

use std::collections::BTreeMap;

use super::{
    form::{CanonicalForm, DifferentForms},
    value::{Artefact, Fingerprint, Kind, Product, Sha256Value, Structure, Table},
};

/// Class part of a dataflow's URN.
const DATAFLOW_CLASS: &str = "Dataflow";

/// A structural or product fingerprint could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StructuresError {
    /// Parts hash different texts.
    #[error(transparent)]
    DifferentForms(#[from] DifferentForms),
    /// One URN was given two contents.
    #[error("\"{urn}\" was given with the fingerprints {first} and {second}; an edition holds one of them ({rule})")]
    Ambiguous {
        /// The URN.
        urn: String,
        /// Fingerprint given first.
        first: String,
        /// Fingerprint given later.
        second: String,
        /// Rule that takes one fingerprint per URN.
        rule: &'static str,
    },
    /// The closure lacks what it is the closure of.
    #[error("the closure of \"{dataflow}\" does not hold the dataflow itself (INV-82)")]
    DataflowMissing {
        /// The dataflow.
        dataflow: String,
    },
    /// A text that would not stay one field of the hashed lines.
    #[error("\"{}\" is no URN: expected urn:…Class=agency:id(version) without blanks ({rule})", .urn.escape_debug())]
    NotAUrn {
        /// What was given.
        urn: String,
        /// Rule whose lines it would have gone into.
        rule: &'static str,
    },
    /// A binding names something else than a dataflow.
    #[error("a binding names \"{urn}\", which is no dataflow (INV-86)")]
    NotADataflow {
        /// What was given.
        urn: String,
    },
}

/// Collects the closure of one dataflow and hashes it (INV-82).
pub struct StructuralFingerprint {
    dataflow: String,
    parts: Parts<Artefact>,
}

impl StructuralFingerprint {
    /// Starts the closure of the dataflow with this URN.
    pub fn new(form: CanonicalForm, dataflow: &str) -> Result<Self, StructuresError> {
        if class_of(dataflow, "INV-82")? != DATAFLOW_CLASS {
            return Err(StructuresError::NotADataflow {
                urn: dataflow.to_owned(),
            });
        }
        Ok(Self {
            dataflow: dataflow.to_owned(),
            parts: Parts::new(form, "INV-82"),
        })
    }

    /// Adds an artefact of the closure; the same one may come by several references.
    ///
    /// INV-84: a dataflow other than the closure's own is left out, by whatever reference it was found, so that an edit
    /// to it leaves this fingerprint as it is.
    pub fn add(&mut self, urn: &str, fingerprint: &Fingerprint<Artefact>) -> Result<(), StructuresError> {
        if class_of(urn, self.parts.rule)? == DATAFLOW_CLASS && urn != self.dataflow {
            return Ok(());
        }
        self.parts.add(urn, fingerprint)
    }

    /// INV-82: SHA-256 of the artefact fingerprints, sorted by URN, joined by `\n`.
    pub fn finish(self) -> Result<Fingerprint<Structure>, StructuresError> {
        if !self.parts.by_urn.contains_key(&self.dataflow) {
            return Err(StructuresError::DataflowMissing {
                dataflow: self.dataflow,
            });
        }
        let lines: Vec<String> = self.parts.by_urn.values().map(Fingerprint::to_string).collect();
        Ok(Fingerprint::new(self.parts.form, hash_lines(&lines)))
    }
}

/// Collects the artefacts and bindings of an edition and hashes them (INV-86).
pub struct ProductFingerprint {
    artefacts: Parts<Artefact>,
    bindings: Parts<Table>,
}

impl ProductFingerprint {
    /// Starts with nothing.
    pub fn new(form: CanonicalForm) -> Self {
        Self {
            artefacts: Parts::new(form.clone(), "INV-86"),
            bindings: Parts::new(form, "INV-86"),
        }
    }

    /// Adds an artefact of the edition.
    pub fn artefact(&mut self, urn: &str, fingerprint: &Fingerprint<Artefact>) -> Result<(), StructuresError> {
        class_of(urn, self.artefacts.rule)?;
        self.artefacts.add(urn, fingerprint)
    }

    /// Adds the table bound to a dataflow.
    pub fn binding(&mut self, dataflow: &str, fingerprint: &Fingerprint<Table>) -> Result<(), StructuresError> {
        if class_of(dataflow, self.bindings.rule)? != DATAFLOW_CLASS {
            return Err(StructuresError::NotADataflow {
                urn: dataflow.to_owned(),
            });
        }
        self.bindings.add(dataflow, fingerprint)
    }

    /// INV-86: SHA-256 of `artefacts:`, the artefact fingerprints in URN order, `bindings:`, and
    /// `<dataflow urn>\t<table fingerprint>` in dataflow order, joined by `\n`.
    pub fn finish(self) -> Fingerprint<Product> {
        let lines = self.lines();
        Fingerprint::new(self.artefacts.form, hash_lines(&lines))
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec!["artefacts:".to_owned()];
        lines.extend(self.artefacts.by_urn.values().map(Fingerprint::to_string));
        lines.push("bindings:".to_owned());
        let bindings = self.bindings.by_urn.iter();
        lines.extend(bindings.map(|(dataflow, fingerprint)| format!("{dataflow}\t{fingerprint}")));
        lines
    }
}

fn hash_lines(lines: &[String]) -> Sha256Value {
    Sha256Value::of(lines.join("\n").as_bytes())
}

/// Fingerprints of one form and kind, one per URN, in the byte order of the URNs.
struct Parts<K: Kind> {
    form: CanonicalForm,
    by_urn: BTreeMap<String, Fingerprint<K>>,
    rule: &'static str,
}

impl<K: Kind> Parts<K> {
    fn new(form: CanonicalForm, rule: &'static str) -> Self {
        Self {
            form,
            by_urn: BTreeMap::new(),
            rule,
        }
    }

    fn add(&mut self, urn: &str, fingerprint: &Fingerprint<K>) -> Result<(), StructuresError> {
        self.form.require_same(fingerprint.form())?;
        match self.by_urn.get(urn) {
            None => {
                self.by_urn.insert(urn.to_owned(), fingerprint.clone());
                Ok(())
            }
            Some(known) if known.same_as(fingerprint)? => Ok(()),
            Some(known) => Err(StructuresError::Ambiguous {
                urn: urn.to_owned(),
                first: known.to_string(),
                second: fingerprint.to_string(),
                rule: self.rule,
            }),
        }
    }
}

/// The class that a URN names, `Codelist` in `urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:ID(1.0)`.
///
/// Whether the URN is a good one is for the structures to say; here it must be one field of one line, since a line end
/// or a tab in it could make two different closures hash the same lines.
fn class_of<'urn>(urn: &'urn str, rule: &'static str) -> Result<&'urn str, StructuresError> {
    let class = || {
        if urn
            .chars()
            .any(|character| character.is_whitespace() || character.is_control())
        {
            return None;
        }
        let (path, name) = urn.strip_prefix("urn:")?.split_once('=')?;
        let class = path.rsplit(['.', ':']).next()?;
        (!class.is_empty() && !name.is_empty()).then_some(class)
    };
    class().ok_or_else(|| StructuresError::NotAUrn {
        urn: urn.to_owned(),
        rule,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    /// Texts and fingerprints that the reference implementation wrote for one small synthetic flow.
    #[derive(Deserialize)]
    struct Golden {
        artefacts: BTreeMap<String, GoldenArtefact>,
        binding: GoldenBinding,
        content_fingerprint: String,
        content_lines: Vec<String>,
        structure_closure: Vec<String>,
    }

    #[derive(Deserialize)]
    struct GoldenArtefact {
        canonical_text: String,
        fingerprint: String,
    }

    #[derive(Deserialize)]
    struct GoldenBinding {
        dataflow: String,
        fingerprint: String,
        structure_fingerprint: String,
    }

    fn golden() -> Golden {
        serde_json::from_str(include_str!("../../tests/fingerprints/canonical_texts.json")).unwrap()
    }

    fn hashed(text: &str) -> Fingerprint<Artefact> {
        Fingerprint::of_canonical_text(CanonicalForm::ONE, text)
    }

    fn closure(golden: &Golden) -> StructuralFingerprint {
        let mut closure = StructuralFingerprint::new(CanonicalForm::ONE, &golden.binding.dataflow).unwrap();
        for urn in golden.structure_closure.iter().rev() {
            closure
                .add(urn, &hashed(&golden.artefacts[urn].canonical_text))
                .unwrap();
        }
        closure
    }

    fn product(golden: &Golden) -> ProductFingerprint {
        let mut product = ProductFingerprint::new(CanonicalForm::ONE);
        for (urn, artefact) in golden.artefacts.iter().rev() {
            product.artefact(urn, &hashed(&artefact.canonical_text)).unwrap();
        }
        let table = Fingerprint::parse(CanonicalForm::ONE, &golden.binding.fingerprint).unwrap();
        product.binding(&golden.binding.dataflow, &table).unwrap();
        product
    }

    /// INV-76: every golden text hashes to the fingerprint that came with it.
    #[test]
    fn artefact_fingerprints_of_the_golden_texts() {
        let golden = golden();
        assert_eq!(golden.artefacts.len(), 8);
        for (urn, artefact) in &golden.artefacts {
            let recorded = Fingerprint::parse(CanonicalForm::ONE, &artefact.fingerprint).unwrap();
            assert!(hashed(&artefact.canonical_text).same_as(&recorded).unwrap(), "{urn}");
            let edited = artefact
                .canonical_text
                .replacen("\"version\":\"1.0\"", "\"version\":\"1.1\"", 1);
            assert!(!hashed(&edited).same_as(&recorded).unwrap(), "{urn}");
        }
    }

    /// INV-82: the golden closure, handed in backwards, gives the recorded structural fingerprint.
    #[test]
    fn structural_fingerprint_of_the_golden_closure() {
        let golden = golden();
        let found = closure(&golden).finish().unwrap();
        assert_eq!(found.to_string(), golden.binding.structure_fingerprint);
    }

    /// INV-82: a closure is a set: an artefact that several references reach counts once, and leaving one out shows.
    #[test]
    fn a_closure_is_a_set_of_artefacts() {
        let golden = golden();
        let urn = &golden.structure_closure[0];
        let mut twice = closure(&golden);
        twice.add(urn, &hashed(&golden.artefacts[urn].canonical_text)).unwrap();
        assert_eq!(
            twice.finish().unwrap().to_string(),
            golden.binding.structure_fingerprint
        );

        let mut lacking = closure(&golden);
        lacking.parts.by_urn.remove(urn);
        assert_ne!(
            lacking.finish().unwrap().to_string(),
            golden.binding.structure_fingerprint
        );
    }

    /// INV-84: another dataflow of the DSD is left out, so editing it changes nothing here.
    #[test]
    fn another_dataflow_leaves_the_structural_fingerprint_alone() {
        let golden = golden();
        let sibling = golden.binding.dataflow.replace("DF_SYNTHETIC", "DF_SIBLING");
        for text in ["before its edit", "after its edit"] {
            let mut closure = closure(&golden);
            closure.add(&sibling, &hashed(text)).unwrap();
            assert_eq!(
                closure.finish().unwrap().to_string(),
                golden.binding.structure_fingerprint
            );
        }
        // The dataflow's own edit does change it.
        let mut edited = closure(&golden);
        let own = edited.parts.by_urn.get_mut(&golden.binding.dataflow).unwrap();
        *own = hashed("edited");
        assert_ne!(
            edited.finish().unwrap().to_string(),
            golden.binding.structure_fingerprint
        );
    }

    /// INV-86: the golden edition gives the recorded lines and product fingerprint.
    #[test]
    fn product_fingerprint_of_the_golden_edition() {
        let golden = golden();
        let product = product(&golden);
        assert_eq!(product.lines(), golden.content_lines);
        assert_eq!(product.finish().to_string(), golden.content_fingerprint);
    }

    /// INV-86: bindings are in dataflow order, and a structure product without any still has a fingerprint.
    #[test]
    fn bindings_are_sorted_and_may_be_absent() {
        let table = Fingerprint::parse(CanonicalForm::ONE, "1:1").unwrap();
        let flows = [
            "urn:x.Dataflow=A:B(1.0)",
            "urn:x.Dataflow=A:A(1.0)",
            "urn:x.Dataflow=A:a(1.0)",
        ];
        let mut product = ProductFingerprint::new(CanonicalForm::ONE);
        flows.iter().for_each(|flow| product.binding(flow, &table).unwrap());
        assert_eq!(
            product.lines().join("\n"),
            "artefacts:\nbindings:\nurn:x.Dataflow=A:A(1.0)\t1:1\nurn:x.Dataflow=A:B(1.0)\t1:1\nurn:x.Dataflow=A:a(1.0)\t1:1"
        );
        let empty = ProductFingerprint::new(CanonicalForm::ONE).finish();
        assert_eq!(empty.to_string(), Sha256Value::of(b"artefacts:\nbindings:").to_string());
    }

    /// INV-82: a closure without its dataflow is refused, naming it.
    #[test]
    fn a_closure_without_its_dataflow_is_refused() {
        let golden = golden();
        let mut closure = closure(&golden);
        closure.parts.by_urn.remove(&golden.binding.dataflow);
        let refusal = closure.finish().unwrap_err();
        assert!(refusal.to_string().contains(&golden.binding.dataflow), "{refusal}");
    }

    /// INV-82, INV-86: one URN with two contents is refused, naming both.
    #[test]
    fn two_contents_for_one_urn_are_refused() {
        let golden = golden();
        let urn = &golden.structure_closure[0];
        let (first, second) = (&golden.artefacts[urn].fingerprint, hashed("other"));
        let refusals = [
            closure(&golden).add(urn, &second).unwrap_err(),
            product(&golden).artefact(urn, &second).unwrap_err(),
        ];
        for refusal in refusals {
            let message = refusal.to_string();
            assert!(
                message.contains(first.as_str()) && message.contains(&second.to_string()),
                "{message}"
            );
        }
        let other = Fingerprint::parse(CanonicalForm::ONE, "1:1").unwrap();
        let refusal = product(&golden).binding(&golden.binding.dataflow, &other).unwrap_err();
        assert!(matches!(refusal, StructuresError::Ambiguous { .. }), "{refusal}");
    }

    /// INV-70: a part of another form is refused by both.
    #[test]
    fn parts_of_another_form_are_refused() {
        let golden = golden();
        let urn = &golden.structure_closure[0];
        let foreign = Fingerprint::of_canonical_text(CanonicalForm::SOVM_1, &golden.artefacts[urn].canonical_text);
        let table = Fingerprint::parse(CanonicalForm::SOVM_1, "1:1").unwrap();
        for refusal in [
            closure(&golden).add(urn, &foreign).unwrap_err(),
            product(&golden).artefact(urn, &foreign).unwrap_err(),
            product(&golden).binding(&golden.binding.dataflow, &table).unwrap_err(),
        ] {
            assert!(matches!(refusal, StructuresError::DifferentForms(_)), "{refusal}");
        }
    }

    /// INV-86: only a dataflow is bound to a table, and only a dataflow has a structural fingerprint.
    #[test]
    fn only_dataflows_are_bound() {
        let table = Fingerprint::parse(CanonicalForm::ONE, "1:1").unwrap();
        for urn in ["urn:sdmx:x.Codelist=A:B(1.0)", "urn:sdmx:x.MetadataDataflow=A:B(1.0)"] {
            let refusal = ProductFingerprint::new(CanonicalForm::ONE)
                .binding(urn, &table)
                .unwrap_err();
            assert!(matches!(refusal, StructuresError::NotADataflow { .. }), "{refusal}");
            assert!(StructuralFingerprint::new(CanonicalForm::ONE, urn).is_err());
        }
    }

    /// INV-82, INV-86: a text that could stand for several fields or lines is no URN.
    #[test]
    fn texts_that_could_forge_lines_are_refused() {
        let table = Fingerprint::parse(CanonicalForm::ONE, "1:1").unwrap();
        for bad in [
            "",
            "Dataflow",
            "urn:",
            "urn:=",
            "urn:x.Dataflow=",
            "urn:x.=A:B(1.0)",
            "x.Dataflow=A:B(1.0)",
            "urn:x.Dataflow=A:B(1.0)\t0:0",
            "urn:x.Dataflow=A:B(1.0)\nurn:x.Dataflow=A:C(1.0)",
            "urn:x.Dataflow=A:B(1.0) ",
            "urn:x.Dataflow=A:\u{2028}B(1.0)",
            "urn:x.Dataflow=A:B(1.0)\0",
        ] {
            let mut product = ProductFingerprint::new(CanonicalForm::ONE);
            for refusal in [
                product.binding(bad, &table).unwrap_err(),
                product.artefact(bad, &hashed("x")).unwrap_err(),
                StructuralFingerprint::new(CanonicalForm::ONE, bad).err().unwrap(),
            ] {
                assert!(matches!(refusal, StructuresError::NotAUrn { .. }), "{bad:?}: {refusal}");
                assert!(!refusal.to_string().contains('\n'));
            }
        }
    }

    proptest! {
        /// INV-82: the order in which the closure was walked does not show.
        #[test]
        fn order_of_arrival_does_not_matter(order in Just((0..8usize).collect::<Vec<_>>()).prop_shuffle()) {
            let golden = golden();
            let mut closure = StructuralFingerprint::new(CanonicalForm::ONE, &golden.binding.dataflow).unwrap();
            for position in order {
                let urn = &golden.structure_closure[position];
                closure.add(urn, &hashed(&golden.artefacts[urn].canonical_text)).unwrap();
            }
            prop_assert_eq!(closure.finish().unwrap().to_string(), golden.binding.structure_fingerprint);
        }

        #[test]
        fn any_text_is_a_urn_or_refused(text in any::<String>()) {
            let _ = class_of(&text, "INV-82");
        }
    }
}
