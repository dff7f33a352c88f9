//! The checked form of an edition's structures.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{
    canonical::CanonicalText,
    model::{Artefact, Attachment, Coding, DataStructure, HierarchicalCode, Item, Occurs, Representation},
    urn::{ArtefactUrn, Class, is_id},
};

/// Why an artefact can't be one of an edition's structures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StructureError {
    /// The URN's class is another than the artefact's.
    #[error("INV-88: the artefact under `{urn}` is a {class}")]
    WrongClass {
        /// The URN.
        urn: ArtefactUrn,
        /// The artefact's class.
        class: &'static str,
    },
    /// Two artefacts under one URN.
    #[error("INV-88: `{urn}` is there twice, with the fingerprints {first} and {second}")]
    Twice {
        /// The URN.
        urn: ArtefactUrn,
        /// The fingerprint of the one met first.
        first: super::ArtefactFingerprint,
        /// The fingerprint of the other.
        second: super::ArtefactFingerprint,
    },
    /// Two items with one id.
    #[error("`{urn}` has two {kind}s with the id `{id}`")]
    ItemTwice {
        /// The artefact.
        urn: ArtefactUrn,
        /// What kind of item.
        kind: &'static str,
        /// The id.
        id: String,
    },
    /// An id that is no identifier.
    #[error("`{urn}` has a {kind} whose id `{id}` is no identifier")]
    BadId {
        /// The artefact.
        urn: ArtefactUrn,
        /// What kind of item.
        kind: &'static str,
        /// The id.
        id: String,
    },
    /// An item below one that isn't there.
    #[error(
        "INV-433: `{urn}` has the {kind} `{id}` below `{parent}`, which it doesn't hold; a list is closed under parents"
    )]
    NoParent {
        /// The artefact.
        urn: ArtefactUrn,
        /// What kind of item.
        kind: &'static str,
        /// The item.
        id: String,
        /// The parent it names.
        parent: String,
    },
    /// Items that are below themselves.
    #[error("`{urn}` has the {kind} `{id}` below itself")]
    ParentCycle {
        /// The artefact.
        urn: ArtefactUrn,
        /// What kind of item.
        kind: &'static str,
        /// An item of the circle.
        id: String,
    },
    /// A component, group, attribute or level that names a part the same artefact doesn't have.
    #[error("`{urn}` has the {kind} `{id}`, which names the {part} `{name}`, and there is none")]
    NoSuchPart {
        /// The artefact.
        urn: ArtefactUrn,
        /// What kind of part names it.
        kind: &'static str,
        /// The id of the part that names it.
        id: String,
        /// What kind of part is named.
        part: &'static str,
        /// The id named.
        name: String,
    },
    /// A reference to something of another class than its place takes.
    #[error("`{urn}` refers to `{reference}` where a {expected} is meant")]
    WrongTarget {
        /// The artefact.
        urn: ArtefactUrn,
        /// The reference.
        reference: String,
        /// The class its place takes.
        expected: &'static str,
    },
    /// Something the class doesn't have.
    #[error("`{urn}`: {what}")]
    NotInClass {
        /// The artefact.
        urn: ArtefactUrn,
        /// What is wrong.
        what: &'static str,
    },
}

/// Artefacts that are valid by themselves, each once under its pinned URN (INV-88).
///
/// Whether their references resolve is a property of an edition and not of this type: see [`super::reference`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Structures {
    artefacts: BTreeMap<ArtefactUrn, Artefact>,
}

impl Structures {
    /// Checks artefacts and gathers them.
    pub fn new(artefacts: impl IntoIterator<Item = Artefact>) -> Result<Self, StructureError> {
        let mut structures = Self::default();
        for artefact in artefacts {
            structures.insert(artefact)?;
        }
        Ok(structures)
    }

    /// Checks an artefact and adds it; the same content again is fine, another under its URN is refused.
    pub fn insert(&mut self, artefact: Artefact) -> Result<(), StructureError> {
        check(&artefact)?;
        if let Some(first) = self.artefacts.get(artefact.urn()) {
            // Two files may list the values of a set in different orders, so texts are compared and not values.
            let (first, second) = (CanonicalText::of(first), CanonicalText::of(&artefact));
            if first.as_str() == second.as_str() {
                return Ok(());
            }
            return Err(StructureError::Twice {
                urn: artefact.urn().clone(),
                first: first.fingerprint(),
                second: second.fingerprint(),
            });
        }
        self.artefacts.insert(artefact.urn().clone(), artefact);
        Ok(())
    }

    /// Those of the artefacts that have one of these URNs.
    #[must_use]
    pub fn only<'a>(&self, urns: impl IntoIterator<Item = &'a ArtefactUrn>) -> Self {
        let held = urns.into_iter().filter_map(|urn| self.artefacts.get_key_value(urn));
        Self {
            artefacts: held.map(|(urn, artefact)| (urn.clone(), artefact.clone())).collect(),
        }
    }

    /// Takes an artefact out.
    pub fn remove(&mut self, urn: &ArtefactUrn) -> Option<Artefact> {
        self.artefacts.remove(urn)
    }

    /// The artefact under a URN.
    pub fn get(&self, urn: &ArtefactUrn) -> Option<&Artefact> {
        self.artefacts.get(urn)
    }

    /// All artefacts, sorted by URN.
    pub fn iter(&self) -> impl Iterator<Item = &Artefact> {
        self.artefacts.values()
    }

    /// How many artefacts there are.
    pub fn len(&self) -> usize {
        self.artefacts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.artefacts.is_empty()
    }
}

fn check(artefact: &Artefact) -> Result<(), StructureError> {
    let urn = artefact.urn();
    if urn.class() != artefact.class() {
        return Err(StructureError::WrongClass {
            urn: urn.clone(),
            class: artefact.class().name(),
        });
    }
    for (reference, expected) in super::reference::typed(artefact) {
        if reference.class().is_some_and(|class| !expected.contains(&class)) {
            return Err(StructureError::WrongTarget {
                urn: urn.clone(),
                reference: reference.to_string(),
                expected: expected.first().map_or("artefact", |class| class.name()),
            });
        }
    }
    match artefact {
        Artefact::AgencyScheme(scheme) => check_items(urn, "agency", scheme.agencies.iter()),
        Artefact::Codelist(codelist) => check_items(urn, "code", codelist.codes.iter()),
        Artefact::ConceptScheme(scheme) => {
            check_items(urn, "concept", scheme.concepts.iter().map(|concept| &concept.item))
        }
        Artefact::DataStructure(structure) => check_data_structure(urn, structure),
        Artefact::Hierarchy(hierarchy) => {
            check_items(urn, "level", hierarchy.levels.iter())?;
            let levels = hierarchy.levels.iter().map(|level| level.id.as_str()).collect();
            check_tree(urn, &levels, &hierarchy.tree)
        }
        Artefact::DataConstraint(constraint) => {
            let selections = constraint
                .region
                .iter()
                .flat_map(|region| region.keys.iter().chain(&region.components));
            check_ids(urn, "selection", selections.map(|selection| selection.id.as_str()))
        }
        Artefact::Dataflow(_) | Artefact::HierarchyAssociation(_) => Ok(()),
    }
}

fn check_ids<'a>(
    urn: &ArtefactUrn,
    kind: &'static str,
    ids: impl Iterator<Item = &'a str>,
) -> Result<(), StructureError> {
    let mut seen = HashSet::new();
    for id in ids {
        if !is_id(id) {
            return Err(StructureError::BadId {
                urn: urn.clone(),
                kind,
                id: id.to_owned(),
            });
        }
        if !seen.insert(id) {
            return Err(StructureError::ItemTwice {
                urn: urn.clone(),
                kind,
                id: id.to_owned(),
            });
        }
    }
    Ok(())
}

fn check_items<'a>(
    urn: &ArtefactUrn,
    kind: &'static str,
    items: impl Iterator<Item = &'a Item> + Clone,
) -> Result<(), StructureError> {
    check_ids(urn, kind, items.clone().map(|item| item.id.as_str()))?;
    let parents: HashMap<&str, Option<&str>> = items
        .clone()
        .map(|item| (item.id.as_str(), item.parent.as_deref()))
        .collect();
    // Items known to end at a root, so that the walk over a deep list stays linear.
    let mut rooted: HashSet<&str> = HashSet::new();
    for item in items {
        let mut path = Vec::new();
        let mut on_path = HashSet::new();
        let mut at = item.id.as_str();
        while !rooted.contains(at) {
            if !on_path.insert(at) {
                return Err(StructureError::ParentCycle {
                    urn: urn.clone(),
                    kind,
                    id: at.to_owned(),
                });
            }
            path.push(at);
            let Some(Some(parent)) = parents.get(at) else { break };
            if !parents.contains_key(parent) {
                return Err(StructureError::NoParent {
                    urn: urn.clone(),
                    kind,
                    id: at.to_owned(),
                    parent: (*parent).to_owned(),
                });
            }
            at = parent;
        }
        rooted.extend(path);
    }
    Ok(())
}

fn check_tree(urn: &ArtefactUrn, levels: &HashSet<&str>, tree: &[HierarchicalCode]) -> Result<(), StructureError> {
    check_ids(urn, "hierarchical code", tree.iter().map(|code| code.id.as_str()))?;
    for code in tree {
        if let Some(level) = code.level.as_deref().filter(|level| !levels.contains(level)) {
            return Err(StructureError::NoSuchPart {
                urn: urn.clone(),
                kind: "hierarchical code",
                id: code.id.clone(),
                part: "level",
                name: level.to_owned(),
            });
        }
        check_tree(urn, levels, &code.children)?;
    }
    Ok(())
}

fn check_data_structure(urn: &ArtefactUrn, structure: &DataStructure) -> Result<(), StructureError> {
    check_ids(
        urn,
        "component",
        structure.components().map(|(_, component)| component.id.as_str()),
    )?;
    check_ids(urn, "group", structure.groups.iter().map(|group| group.id.as_str()))?;
    if let Some(time) = &structure.time_dimension {
        let coded = matches!(time.local.representation, Some(Representation::Enumeration(_)));
        if coded || time.local.enumeration_format.is_some() {
            return Err(StructureError::NotInClass {
                urn: urn.clone(),
                what: "a dimension of time is never enumerated",
            });
        }
        if !time.concept_role.is_empty() {
            return Err(StructureError::NotInClass {
                urn: urn.clone(),
                what: "a dimension of time has no concept roles",
            });
        }
    }
    for (class, component) in structure.components() {
        let Coding {
            min_occurs, max_occurs, ..
        } = &component.local;
        let repeats = (*min_occurs, *max_occurs) != (1, Occurs::AtMost(1));
        if repeats && !matches!(class, Class::Measure | Class::DataAttribute) {
            let what = "a dimension has one value, so it states no number of values";
            return Err(StructureError::NotInClass { urn: urn.clone(), what });
        }
    }
    let dimensions: BTreeSet<&str> = structure
        .components()
        .filter(|(class, _)| matches!(class, Class::Dimension | Class::MeasureDimension | Class::TimeDimension))
        .map(|(_, component)| component.id.as_str())
        .collect();
    let groups: BTreeSet<&str> = structure.groups.iter().map(|group| group.id.as_str()).collect();
    let measures: BTreeSet<&str> = structure
        .measures
        .iter()
        .map(|measure| measure.component.id.as_str())
        .collect();
    let need = |known: &BTreeSet<&str>, kind: &'static str, id: &str, part: &'static str, names: &[String]| match names
        .iter()
        .find(|name| !known.contains(name.as_str()))
    {
        None => Ok(()),
        Some(name) => Err(StructureError::NoSuchPart {
            urn: urn.clone(),
            kind,
            id: id.to_owned(),
            part,
            name: name.clone(),
        }),
    };
    for group in &structure.groups {
        need(&dimensions, "group", &group.id, "dimension", &group.dimensions)?;
    }
    for attribute in &structure.attributes {
        let id = &attribute.component.id;
        match &attribute.attachment {
            Attachment::Observation | Attachment::Dataflow => {}
            Attachment::Dimensions { related, optional } => {
                need(&dimensions, "attribute", id, "dimension", related)?;
                need(
                    &related.iter().map(String::as_str).collect(),
                    "attribute",
                    id,
                    "related dimension",
                    optional,
                )?;
            }
            Attachment::Group(group) => need(&groups, "attribute", id, "group", std::slice::from_ref(group))?,
        }
        need(&groups, "attribute", id, "group", &attribute.attachment_groups)?;
        need(
            &measures,
            "attribute",
            id,
            "measure",
            attribute.related_measures.as_deref().unwrap_or_default(),
        )?;
    }
    Ok(())
}
