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
