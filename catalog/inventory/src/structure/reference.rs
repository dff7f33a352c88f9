//! References: what an artefact names outside itself, and whether an edition holds it.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{
    model::{Artefact, Coding, Component, HierarchicalCode, Representation},
    set::Structures,
    urn::{ArtefactUrn, Class, Target, Urn},
};

/// Classes a place takes; an empty list takes any.
type Expected = &'static [Class];

/// Every reference of an artefact with the classes its place takes (INV-119: whatever field declares it).
pub(super) fn typed(artefact: &Artefact) -> Vec<(&Urn, Expected)> {
    let mut found = Vec::new();
    match artefact {
        Artefact::AgencyScheme(_) => {}
        Artefact::Codelist(codelist) => {
            found.extend(
                codelist
                    .extensions
                    .iter()
                    .map(|extension| (&extension.codelist, &[Class::Codelist] as Expected)),
            );
        }
        Artefact::ConceptScheme(scheme) => {
            for concept in &scheme.concepts {
                coding(&concept.core, &mut found);
            }
        }
        Artefact::DataConstraint(constraint) => {
            const ATTACHED: Expected = &[Class::Dataflow, Class::DataStructure];
            found.extend(constraint.attachment.iter().map(|urn| (urn, ATTACHED)));
        }
        Artefact::DataStructure(structure) => {
            for (_, component) in structure.components() {
                self::component(component, &mut found);
            }
        }
        Artefact::Dataflow(dataflow) => found.push((&dataflow.structure, &[Class::DataStructure])),
        Artefact::Hierarchy(hierarchy) => placed(&hierarchy.tree, &mut found),
        Artefact::HierarchyAssociation(association) => {
            found.push((&association.linked_hierarchy, &[Class::Hierarchy]));
            found.push((&association.linked_object, Class::ALL));
            found.extend(association.context_object.iter().map(|urn| (urn, Class::ALL)));
        }
    }
    found
}

fn component<'a>(component: &'a Component, found: &mut Vec<(&'a Urn, Expected)>) {
    found.push((&component.concept, &[Class::Concept]));
    found.extend(
        component
            .concept_role
            .iter()
            .map(|urn| (urn, &[Class::Concept] as Expected)),
    );
    coding(&component.local, found);
}

fn coding<'a>(coding: &'a Coding, found: &mut Vec<(&'a Urn, Expected)>) {
    if let Some(Representation::Enumeration(codelist)) = &coding.representation {
        found.push((codelist, &[Class::Codelist, Class::ConceptScheme]));
    }
}

fn placed<'a>(tree: &'a [HierarchicalCode], found: &mut Vec<(&'a Urn, Expected)>) {
    for code in tree {
        found.push((&code.code, &[Class::Code]));
        placed(&code.children, found);
    }
}

/// INV-119: the references of an artefact, each once, sorted.
pub fn references(artefact: &Artefact) -> BTreeSet<&Urn> {
    typed(artefact).into_iter().map(|(urn, _)| urn).collect()
}

/// INV-120: the URN of every item an artefact stores.
pub fn items(artefact: &Artefact) -> Vec<Urn> {
    let urn = artefact.urn();
    let item = |class, path: &str| Urn::item(urn, class, path);
    match artefact {
        Artefact::AgencyScheme(scheme) => scheme
            .agencies
            .iter()
            .map(|agency| item(Class::Agency, &agency.id))
            .collect(),
        Artefact::Codelist(codelist) => codelist.codes.iter().map(|code| item(Class::Code, &code.id)).collect(),
        Artefact::ConceptScheme(scheme) => scheme
            .concepts
            .iter()
            .map(|concept| item(Class::Concept, &concept.item.id))
            .collect(),
        Artefact::DataStructure(structure) => {
            let mut items: Vec<Urn> = structure
                .components()
                .map(|(class, component)| item(class, &component.id))
                .collect();
            items.extend(
                structure
                    .groups
                    .iter()
                    .map(|group| item(Class::GroupDimensionDescriptor, &group.id)),
            );
            items.push(item(Class::DimensionDescriptor, "DimensionDescriptor"));
            if !structure.measures.is_empty() {
                items.push(item(Class::MeasureDescriptor, "MeasureDescriptor"));
            }
            if !structure.attributes.is_empty() {
                items.push(item(Class::AttributeDescriptor, "AttributeDescriptor"));
            }
            items
        }
        Artefact::Hierarchy(hierarchy) => {
            let mut items: Vec<Urn> = hierarchy
                .levels
                .iter()
                .map(|level| item(Class::Level, &level.id))
                .collect();
            let mut open: Vec<(String, &HierarchicalCode)> =
                hierarchy.tree.iter().map(|code| (code.id.clone(), code)).collect();
            while let Some((path, code)) = open.pop() {
                items.push(item(Class::HierarchicalCode, &path));
                open.extend(
                    code.children
                        .iter()
                        .map(|child| (format!("{path}.{}", child.id), child)),
                );
            }
            items
        }
        Artefact::DataConstraint(_) | Artefact::Dataflow(_) | Artefact::HierarchyAssociation(_) => Vec::new(),
    }
}

/// INV-120, INV-121: everything references can resolve to, by target and then version.
#[derive(Debug, Default)]
pub struct Targets {
    held: HashMap<Target, HashSet<String>>,
}

impl Targets {
    /// The targets some artefacts give.
    pub fn of<'a>(artefacts: impl IntoIterator<Item = &'a Artefact>) -> Self {
        let mut targets = Self::default();
        for artefact in artefacts {
            targets.add(artefact.urn().as_urn());
            for item in items(artefact) {
                targets.add(&item);
            }
        }
        targets
    }

    fn add(&mut self, urn: &Urn) {
        let version = urn.version().map(ToString::to_string).unwrap_or_default();
        self.held.entry(urn.target()).or_default().insert(version);
    }

    /// Whether the reference resolves: to its version, or to any version held when it names none.
    pub fn resolve(&self, reference: &Urn) -> bool {
        self.held.get(&reference.target()).is_some_and(|versions| {
            reference
                .version()
                .is_none_or(|version| versions.contains(version.as_str()))
        })
    }
}

/// A reference that resolves nowhere it may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: `{from}` refers to `{to}`, which {}", rule(.looked_in), place(.looked_in))]
pub struct Unresolved {
    /// The artefact that refers.
    pub from: ArtefactUrn,
    /// What it refers to.
    pub to: Urn,
    /// The editions looked in besides its own, by what the caller calls them; `None` for a data edition, which has to
    /// hold everything itself.
    pub looked_in: Option<Vec<String>>,
}

fn rule(looked_in: &Option<Vec<String>>) -> &'static str {
    if looked_in.is_some() { "INV-239" } else { "INV-87" }
}

fn place(looked_in: &Option<Vec<String>>) -> String {
    match looked_in.as_deref() {
        None => "the edition doesn't hold".to_owned(),
        Some([]) => "the edition doesn't hold, and there is no other structure edition".to_owned(),
        Some(editions) => format!("neither the edition holds nor any of {}", editions.join(", ")),
    }
}

/// INV-87: checks that a data edition resolves every reference inside itself, and names each that it doesn't.
pub fn check_data_edition(structures: &Structures) -> Vec<Unresolved> {
    unresolved(structures, &[Targets::of(structures.iter())], None)
}

/// INV-375: checks that a structure edition resolves every reference in itself or in full artefacts of other structure
/// editions, and names each that it doesn't with the editions looked in.
///
/// The caller hands in the live and embargoed structure editions and what to call them.
pub fn check_structure_edition(structures: &Structures, others: &[(String, &Structures)]) -> Vec<Unresolved> {
    let mut targets = vec![Targets::of(structures.iter())];
    targets.extend(
        others
            .iter()
            .map(|(_, other)| Targets::of(other.iter().filter(|artefact| !artefact.is_partial()))),
    );
    unresolved(
        structures,
        &targets,
        Some(others.iter().map(|(name, _)| name.clone()).collect()),
    )
}

fn unresolved(structures: &Structures, targets: &[Targets], looked_in: Option<Vec<String>>) -> Vec<Unresolved> {
    let mut missing = Vec::new();
    for artefact in structures.iter() {
        for reference in references(artefact) {
            if !targets.iter().any(|targets| targets.resolve(reference)) {
                missing.push(Unresolved {
                    from: artefact.urn().clone(),
                    to: reference.clone(),
                    looked_in: looked_in.clone(),
                });
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::{
        model::Codelist,
        testing::{Change, associate, change, constraint, sample, sample_with_hierarchy, urn},
    };

    const FLOW: &str = "datastructure.Dataflow=SYNTHETIC:DF_SYNTHETIC(1.0)";

    /// Everything the module stores, with references of every kind.
    fn corpus() -> Structures {
        let mut structures = sample_with_hierarchy();
        structures
            .insert(constraint("C", &[FLOW], &[("DIM_1", &["D1_00"])]))
            .unwrap();
        structures
            .insert(associate(
                "HA_CODE",
                "codelist.HierarchicalCode=SYNTHETIC:H_DIM_1_1(1.0).D1_14.D1_07",
            ))
            .unwrap();
        structures.insert(associate("HA_FLOW", FLOW)).unwrap();
        structures
    }

    /// INV-87, INV-119: the corpus is closed.
    #[test]
    fn closed_edition_passes() {
        assert_eq!(check_data_edition(&sample()), []);
        assert_eq!(check_data_edition(&corpus()), []);
    }

    /// A second, plain answer to what is missing: whatever text in the artefact's canonical text is a URN has to be the
    /// URN of an artefact or of an item found by walking canonical texts. It shares no code with the check but the text.
    fn oracle(structures: &Structures) -> BTreeSet<String> {
        use crate::structure::canonical::CanonicalText;
        let texts: Vec<(String, serde_json::Value)> = structures
            .iter()
            .map(|artefact| {
                let text = CanonicalText::of(artefact);
                (artefact.urn().to_string(), serde_json::from_str(text.as_str()).unwrap())
            })
            .collect();
        let mut held = BTreeSet::new();
        for (urn, text) in &texts {
            held.insert(urn.clone());
            let (_, name) = urn.split_once('=').unwrap();
            let mut add = |class: &str, id: &str| {
                held.insert(format!("urn:sdmx:org.sdmx.infomodel.{class}={name}.{id}"));
            };
            let lists = [
                ("codes", "codelist.Code"),
                ("concepts", "conceptscheme.Concept"),
                ("agencies", "base.Agency"),
                ("dimensions", "datastructure.Dimension"),
                ("measures", "datastructure.Measure"),
                ("attributes", "datastructure.DataAttribute"),
            ];
            for (list, class) in lists {
                for item in text[list].as_array().into_iter().flatten() {
                    add(class, item["id"].as_str().unwrap());
                }
            }
            if let Some(id) = text["time_dimension"]["id"].as_str() {
                add("datastructure.TimeDimension", id);
            }
            fn tree(node: &serde_json::Value, path: &str, add: &mut impl FnMut(&str, &str)) {
                for child in node.as_array().into_iter().flatten() {
                    let path = format!("{path}{}", child["id"].as_str().unwrap());
                    add("codelist.HierarchicalCode", &path);
                    tree(&child["children"], &format!("{path}."), add);
                }
            }
            tree(&text["tree"], "", &mut add);
        }
        fn urns(value: &serde_json::Value, found: &mut BTreeSet<String>) {
            match value {
                serde_json::Value::String(text) if text.starts_with("urn:sdmx:") => drop(found.insert(text.clone())),
                serde_json::Value::Array(members) => members.iter().for_each(|member| urns(member, found)),
                serde_json::Value::Object(fields) => fields.values().for_each(|field| urns(field, found)),
                _ => {}
            }
        }
        let mut missing = BTreeSet::new();
        for (_, text) in &texts {
            urns(text, &mut missing);
        }
        missing.retain(|urn| !held.contains(urn));
        missing
    }

    fn missing(structures: &Structures) -> BTreeSet<String> {
        check_data_edition(structures)
            .into_iter()
            .map(|unresolved| unresolved.to.to_string())
            .collect()
    }

    /// INV-122, INV-87: each artefact dropped in turn: the check reports what the oracle does, and something whenever the
    /// artefact was referred to.
    #[test]
    fn each_artefact_dropped_is_reported() {
        let corpus = corpus();
        assert_eq!(oracle(&corpus), BTreeSet::new());
        let mut reported = 0;
        for artefact in corpus.iter() {
            let mut without = corpus.clone();
            without.remove(artefact.urn());
            let missing = missing(&without);
            assert_eq!(missing, oracle(&without), "{}", artefact.urn());
            reported += usize::from(!missing.is_empty());
        }
        // Nothing refers to the constraint and the three associations.
        assert_eq!(reported, corpus.len() - 4);
    }

    /// INV-122, INV-120: one leaf item of each kind dropped: the check reports it, and the oracle agrees.
    #[test]
    fn each_kind_of_item_dropped_is_reported() {
        type Drop = fn(&mut Artefact);
        let drop_item: [(&str, &str, Drop); 5] = [
            ("codelist.Codelist=SYNTHETIC:CL_DIM_1(1.0)", "Code", |artefact| {
                let Artefact::Codelist(Codelist { codes, .. }) = artefact else {
                    panic!()
                };
                codes.retain(|code| code.id != "D1_19");
            }),
            (
                "conceptscheme.ConceptScheme=SYNTHETIC:CS_SYNTHETIC(1.0)",
                "Concept",
                |artefact| {
                    let Artefact::ConceptScheme(scheme) = artefact else {
                        panic!()
                    };
                    scheme.concepts.retain(|concept| concept.item.id != "DIM_2");
                },
            ),
            (
                "datastructure.DataStructure=SYNTHETIC:DSD_SYNTHETIC(1.0)",
                "Dimension",
                |artefact| {
                    let Artefact::DataStructure(structure) = artefact else {
                        panic!()
                    };
                    structure.dimensions.retain(|dimension| dimension.id != "DIM_1");
                },
            ),
            (
                "codelist.Hierarchy=SYNTHETIC:H_DIM_1_1(1.0)",
                "HierarchicalCode",
                |artefact| {
                    let Artefact::Hierarchy(hierarchy) = artefact else {
                        panic!()
                    };
                    hierarchy.tree[0].children.retain(|code| code.id != "D1_07");
                },
            ),
            (
                "datastructure.DataStructure=SYNTHETIC:DSD_SYNTHETIC(1.0)",
                "TimeDimension",
                |artefact| {
                    let Artefact::DataStructure(structure) = artefact else {
                        panic!()
                    };
                    structure.time_dimension = None;
                },
            ),
        ];
        let mut corpus = corpus();
        let time = "datastructure.TimeDimension=SYNTHETIC:DSD_SYNTHETIC(1.0).TIME_PERIOD";
        corpus.insert(associate("HA_TIME", time)).unwrap();
        assert_eq!(missing(&corpus), BTreeSet::new());
        for (owner, kind, edit) in drop_item {
            let mut without = corpus.clone();
            let mut artefact = without.remove(&urn(owner)).unwrap();
            edit(&mut artefact);
            without.insert(artefact).unwrap();
            let missing = missing(&without);
            assert_eq!(missing.len(), 1, "{kind}: {missing:?}");
            assert!(
                missing.iter().all(|urn| urn.contains(&format!(".{kind}="))),
                "{missing:?}"
            );
            assert_eq!(missing, oracle(&without));
        }
    }

    /// INV-119: a reference counts once, however often the artefact makes it.
    #[test]
    fn a_reference_counts_once() {
        let mut without = corpus();
        without.remove(&urn("codelist.Codelist=SYNTHETIC:CL_DIM_1(1.0)"));
        let from_dsd: Vec<Unresolved> = check_data_edition(&without)
            .into_iter()
            .filter(|unresolved| unresolved.from.id() == "DSD_SYNTHETIC")
            .collect();
        assert_eq!(from_dsd.len(), 1);
        assert!(from_dsd[0].to_string().starts_with("INV-87"), "{}", from_dsd[0]);
    }

    /// INV-121: a reference without a version resolves to any version held; older spellings fold.
    #[test]
    fn spellings_fold_and_missing_versions_match() {
        let structures = sample();
        let targets = Targets::of(structures.iter());
        let resolve =
            |text: &str| targets.resolve(&Urn::parse(&format!("urn:sdmx:org.sdmx.infomodel.{text}")).unwrap());
        for text in [
            "codelist.Codelist=SYNTHETIC:CL_DIM_1",
            "codelist.Code=SYNTHETIC:CL_DIM_1.D1_00",
            "datastructure.Attribute=SYNTHETIC:DSD_SYNTHETIC(1.0).ATTR_1",
            "datastructure.DataAttribute=SYNTHETIC:DSD_SYNTHETIC(1.0).ATTR_1",
            "datastructure.PrimaryMeasure=SYNTHETIC:DSD_SYNTHETIC(1.0).OBS_VALUE",
            "datastructure.DimensionDescriptor=SYNTHETIC:DSD_SYNTHETIC(1.0).DimensionDescriptor",
        ] {
            assert!(resolve(text), "{text}");
        }
        for text in [
            "codelist.Codelist=SYNTHETIC:CL_DIM_1(1.1)",
            "codelist.Codelist=OTHER:CL_DIM_1(1.0)",
            "codelist.Code=SYNTHETIC:CL_DIM_1.NO",
            "datastructure.Dimension=SYNTHETIC:DSD_SYNTHETIC(1.0).ATTR_1",
            "registry.ProvisionAgreement=SYNTHETIC:PA(1.0)",
        ] {
            assert!(!resolve(text), "{text}");
        }
    }

    /// INV-375: a structure edition may name a full artefact of another structure edition, and what resolves nowhere is
    /// reported with the editions looked in.
    #[test]
    fn structure_edition_may_name_another() {
        let codelist = urn("codelist.Codelist=SYNTHETIC:CL_DIM_1(1.0)");
        let mut here = sample();
        let artefact = here.remove(&codelist).unwrap();
        let other = Structures::new([artefact.clone()]).unwrap();
        assert_eq!(check_structure_edition(&here, &[("geo".to_owned(), &other)]), []);
        let missing = check_structure_edition(&here, &[("classifications".to_owned(), &Structures::default())]);
        assert_eq!(missing.len(), 1);
        let text = missing[0].to_string();
        assert!(
            text.starts_with("INV-239") && text.contains("CL_DIM_1(1.0)") && text.contains("classifications"),
            "{text}"
        );
        assert!(
            check_structure_edition(&here, &[])[0]
                .to_string()
                .contains("no other structure edition")
        );
        // INV-87: a data edition vendors its closure.
        assert_eq!(check_data_edition(&here).len(), 1);
        // A partial of another edition is no full artefact.
        let Artefact::Codelist(mut partial) = artefact else {
            panic!()
        };
        partial.is_partial = true;
        let other = Structures::new([Artefact::Codelist(partial)]).unwrap();
        assert_eq!(check_structure_edition(&here, &[("geo".to_owned(), &other)]).len(), 1);
    }

    /// INV-90: within its edition a partial resolves references to the codes it kept and to no others.
    #[test]
    fn references_into_a_partial_resolve_to_kept_codes() {
        let mut structures = sample();
        structures
            .insert(associate("HA", "codelist.Code=SYNTHETIC:CL_DIM_2(1.0).D2_4"))
            .unwrap();
        structures.remove(&urn("codelist.HierarchyAssociation=SYNTHETIC:NO(1.0)"));
        let hierarchy = "Hierarchy=";
        let only_codes = |structures: &Structures| {
            let mut missing = missing(structures);
            missing.retain(|urn| !urn.contains(hierarchy));
            missing
        };
        assert_eq!(only_codes(&structures), BTreeSet::new());
        change(
            &mut structures,
            "codelist.Codelist=SYNTHETIC:CL_DIM_2(1.0)",
            Change::DropCode("D2_4"),
        );
        assert_eq!(only_codes(&structures).len(), 1);
    }
}
