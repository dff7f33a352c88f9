//! Partial codelists: cut to the codes a product uses, closed under parents, and checked against the full ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    canonical::{ArtefactFingerprint, CanonicalForm, CanonicalText},
    closure::{LookupError, dataflows},
    lookup::Lookup,
    model::{Artefact, Cascade, Codelist, ConstraintRole, Item, Selection},
    record::ArtefactRecords,
    reference::references,
    set::{StructureError, Structures},
    urn::{ArtefactUrn, Class},
};

/// Whether an edition's build cuts codelists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Partials {
    /// INV-453: codelists stay full; a fetch always builds so.
    #[default]
    Off,
    /// INV-368: codelists are cut to the codes the product uses.
    On,
}

/// What the written observations of one dataflow hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// How many observations there are.
    pub observations: u64,
    /// The distinct codes of each written column, by component id; an empty set for a column of nulls.
    pub columns: BTreeMap<String, BTreeSet<String>>,
}

/// Why a codelist stays full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FullBecause {
    /// The build doesn't cut.
    PartialsOff,
    /// It isn't full to begin with; it is kept as it is and keeps what it was cut from.
    AlreadyPartial,
    /// A hierarchy of the edition places its codes.
    PlacedBy(ArtefactUrn),
    /// It takes over codes of another codelist.
    HasExtensions,
    /// Another codelist takes over its codes.
    ExtendedBy(ArtefactUrn),
    /// No component is enumerated by it, so nothing says which codes are used.
    EnumeratesNothing,
    /// A component it enumerates belongs to a data structure without a dataflow, so no column is ever written.
    NoDataflow(ArtefactUrn),
    /// A dataflow it serves has no observations.
    NoObservations(ArtefactUrn),
    /// A component it enumerates has no column in the written observations.
    NoColumn {
        /// The dataflow.
        dataflow: ArtefactUrn,
        /// The component.
        component: String,
    },
    /// The product uses all codes.
    AllCodesUsed,
}

/// An edition's structures after the cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The structures, with partial codelists in place of those that were cut.
    pub structures: Structures,
    /// INV-54: for each codelist that was cut, the fingerprint of the full one.
    pub partial_of: BTreeMap<ArtefactUrn, ArtefactFingerprint>,
    /// For each codelist that wasn't, why.
    pub full: BTreeMap<ArtefactUrn, FullBecause>,
}

/// Why codelists can't be cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CutError {
    /// Observations hold a code the codelist lacks.
    #[error("INV-111: the column `{component}` of `{dataflow}` holds `{code}`, which `{codelist}` doesn't have")]
    UnknownCode {
        /// The dataflow.
        dataflow: ArtefactUrn,
        /// The column.
        component: String,
        /// The codelist.
        codelist: ArtefactUrn,
        /// The code.
        code: String,
    },
    /// A constraint names a code the codelist lacks.
    #[error("INV-370: `{constraint}` allows `{code}` for `{component}`, which `{codelist}` doesn't have")]
    UnknownAllowedCode {
        /// The constraint.
        constraint: ArtefactUrn,
        /// The component.
        component: String,
        /// The codelist.
        codelist: ArtefactUrn,
        /// The code.
        code: String,
    },
    /// A reference names a code the codelist lacks.
    #[error("INV-87: `{from}` refers to the code `{code}`, which `{codelist}` doesn't have")]
    UnknownReferencedCode {
        /// The artefact that refers.
        from: ArtefactUrn,
        /// The codelist.
        codelist: ArtefactUrn,
        /// The code.
        code: String,
    },
    /// A dataflow leads nowhere.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A cut codelist isn't valid, which can't be: what is kept is closed under parents.
    #[error(transparent)]
    Structure(#[from] StructureError),
}

/// Codes of a codelist by id, with what lies above and below each.
struct Tree<'a> {
    parents: HashMap<&'a str, Option<&'a str>>,
    children: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> Tree<'a> {
    fn new(codes: &'a [Item]) -> Self {
        let mut children: HashMap<&str, Vec<&str>> = HashMap::new();
        for code in codes {
            if let Some(parent) = &code.parent {
                children.entry(parent).or_default().push(&code.id);
            }
        }
        Self {
            parents: codes
                .iter()
                .map(|code| (code.id.as_str(), code.parent.as_deref()))
                .collect(),
            children,
        }
    }

    fn id(&self, code: &str) -> Option<&'a str> {
        self.parents.get_key_value(code).map(|(id, _)| *id)
    }

    /// The codes below one, itself left out.
    fn below(&self, code: &'a str) -> Vec<&'a str> {
        let mut found = Vec::new();
        let mut open = vec![code];
        while let Some(code) = open.pop() {
            for child in self.children.get(code).into_iter().flatten() {
                found.push(*child);
                open.push(child);
            }
        }
        found
    }

    /// INV-368: closed under parents.
    fn with_ancestors(&self, codes: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        let mut kept = BTreeSet::new();
        for code in codes {
            let mut at = Some(*code);
            while let Some(code) = at {
                if !kept.insert(code) {
                    break;
                }
                at = self.parents.get(code).copied().flatten();
            }
        }
        kept
    }
}

/// The codes selected by a constraint's selection, expanded where it cascades. `None` when a value is no code.
pub(super) fn selected_codes(codelist: &Codelist, selection: &Selection) -> Result<BTreeSet<String>, String> {
    let tree = Tree::new(&codelist.codes);
    let mut codes = BTreeSet::new();
    for selected in &selection.values {
        let id = tree.id(&selected.value).ok_or_else(|| selected.value.clone())?;
        if selected.cascade != Cascade::ExcludeRoot {
            codes.insert(id.to_owned());
        }
        if selected.cascade != Cascade::None {
            codes.extend(tree.below(id).into_iter().map(ToOwned::to_owned));
        }
    }
    Ok(codes)
}

/// Where a codelist is used: the dataflow and the component it enumerates.
type Use<'a> = (&'a ArtefactUrn, &'a str);

/// INV-368 to INV-371: cuts an edition's codelists to the codes the product uses.
///
/// INV-369: codelists and nothing else; concept schemes and all other artefacts stay as they are. `observed` holds every
/// dataflow that has written observations.
pub fn cut(
    structures: &Structures,
    observed: &BTreeMap<ArtefactUrn, Observed>,
    partials: Partials,
) -> Result<Cut, CutError> {
    let lookup = Lookup::new(structures);
    let mut result = Cut {
        structures: Structures::default(),
        partial_of: BTreeMap::new(),
        full: BTreeMap::new(),
    };
    let uses = uses(structures, &lookup)?;
    for artefact in structures.iter() {
        let Artefact::Codelist(codelist) = artefact else {
            result.structures.insert(artefact.clone())?;
            continue;
        };
        let urn = artefact.urn();
        let kept = match stays_full(codelist, &uses, observed, partials) {
            Some(because) => Err(because),
            None => {
                let kept = kept(structures, &lookup, codelist, &uses, observed)?;
                if kept.len() == codelist.codes.len() {
                    Err(FullBecause::AllCodesUsed)
                } else {
                    Ok(kept)
                }
            }
        };
        match kept {
            Err(because) => {
                result.structures.insert(artefact.clone())?;
                result.full.insert(urn.clone(), because);
            }
            Ok(kept) => {
                let mut partial = codelist.clone();
                partial.is_partial = true;
                partial.codes.retain(|code| kept.contains(code.id.as_str()));
                result.structures.insert(Artefact::Codelist(partial))?;
                result
                    .partial_of
                    .insert(urn.clone(), CanonicalText::of(artefact).fingerprint());
            }
        }
    }
    Ok(result)
}

struct Uses<'a> {
    by_codelist: BTreeMap<&'a ArtefactUrn, Vec<Use<'a>>>,
    /// Codelists that enumerate a component of a data structure without a dataflow.
    unserved: BTreeMap<&'a ArtefactUrn, &'a ArtefactUrn>,
    /// Codelists whose codes a hierarchy places.
    placed_by: BTreeMap<&'a ArtefactUrn, &'a ArtefactUrn>,
    /// Codelists whose codes another takes over.
    extended_by: BTreeMap<&'a ArtefactUrn, &'a ArtefactUrn>,
    /// Codes that artefacts refer to, by codelist, with the artefact.
    named: BTreeMap<&'a ArtefactUrn, Vec<(&'a ArtefactUrn, String)>>,
}

fn uses<'a>(structures: &'a Structures, lookup: &Lookup<'a>) -> Result<Uses<'a>, CutError> {
    let mut uses = Uses {
        by_codelist: BTreeMap::new(),
        unserved: BTreeMap::new(),
        placed_by: BTreeMap::new(),
        extended_by: BTreeMap::new(),
        named: BTreeMap::new(),
    };
    let mut served = BTreeSet::new();
    for flow in dataflows(structures) {
        let (dataflow, structure) = lookup.dataflow(flow)?;
        served.insert(&structure.header.urn);
        for (_, component) in structure.components() {
            for codelist in lookup.codelists(component) {
                let used = uses.by_codelist.entry(&codelist.header.urn).or_default();
                used.push((&dataflow.header.urn, component.id.as_str()));
            }
        }
    }
    for artefact in structures.iter() {
        for reference in references(artefact) {
            for owner in lookup
                .owners(reference)
                .filter(|owner| matches!(owner, Artefact::Codelist(_)))
            {
                match artefact {
                    Artefact::Hierarchy(_) => drop(uses.placed_by.insert(owner.urn(), artefact.urn())),
                    Artefact::Codelist(_) => drop(uses.extended_by.insert(owner.urn(), artefact.urn())),
                    _ => {}
                }
                if let (Some(Class::Code), Some(code)) = (reference.class(), reference.path()) {
                    uses.named
                        .entry(owner.urn())
                        .or_default()
                        .push((artefact.urn(), code.to_owned()));
                }
            }
        }
        let Artefact::DataStructure(structure) = artefact else {
            continue;
        };
        if served.contains(&structure.header.urn) {
            continue;
        }
        for (_, component) in structure.components() {
            for codelist in lookup.codelists(component) {
                uses.unserved.insert(&codelist.header.urn, &structure.header.urn);
            }
        }
    }
    Ok(uses)
}

/// INV-371: the first reason for which a codelist stays full, if there is one.
fn stays_full(
    codelist: &Codelist,
    uses: &Uses<'_>,
    observed: &BTreeMap<ArtefactUrn, Observed>,
    partials: Partials,
) -> Option<FullBecause> {
    let urn = &codelist.header.urn;
    if codelist.is_partial {
        return Some(FullBecause::AlreadyPartial);
    }
    if partials == Partials::Off {
        return Some(FullBecause::PartialsOff);
    }
    if !codelist.extensions.is_empty() {
        return Some(FullBecause::HasExtensions);
    }
    if let Some(hierarchy) = uses.placed_by.get(urn) {
        return Some(FullBecause::PlacedBy((*hierarchy).clone()));
    }
    if let Some(other) = uses.extended_by.get(urn) {
        return Some(FullBecause::ExtendedBy((*other).clone()));
    }
    if let Some(structure) = uses.unserved.get(urn) {
        return Some(FullBecause::NoDataflow((*structure).clone()));
    }
    let Some(used) = uses.by_codelist.get(urn) else {
        return Some(FullBecause::EnumeratesNothing);
    };
    for (dataflow, component) in used {
        match observed.get(*dataflow) {
            Some(flow) if flow.observations > 0 => {
                if !flow.columns.contains_key(*component) {
                    let component = (*component).to_owned();
                    return Some(FullBecause::NoColumn {
                        dataflow: (*dataflow).clone(),
                        component,
                    });
                }
            }
            _ => return Some(FullBecause::NoObservations((*dataflow).clone())),
        }
    }
    None
}

/// INV-370: the codes observations hold, allowed constraints name and other artefacts refer to, each with its ancestors.
fn kept<'a>(
    structures: &Structures,
    lookup: &Lookup<'_>,
    codelist: &'a Codelist,
    uses: &Uses<'_>,
    observed: &BTreeMap<ArtefactUrn, Observed>,
) -> Result<BTreeSet<&'a str>, CutError> {
    let tree = Tree::new(&codelist.codes);
    let urn = &codelist.header.urn;
    let used = uses.by_codelist.get(urn).map(Vec::as_slice).unwrap_or_default();
    let mut codes = BTreeSet::new();
    for (dataflow, component) in used {
        let column = observed.get(*dataflow).and_then(|flow| flow.columns.get(*component));
        for code in column.into_iter().flatten() {
            codes.insert(tree.id(code).ok_or_else(|| CutError::UnknownCode {
                dataflow: (*dataflow).clone(),
                component: (*component).to_owned(),
                codelist: urn.clone(),
                code: code.clone(),
            })?);
        }
    }
    for artefact in structures.iter() {
        let Artefact::DataConstraint(constraint) = artefact else {
            continue;
        };
        if constraint.role != ConstraintRole::Allowed {
            continue;
        }
        for selection in constraint
            .region
            .iter()
            .flat_map(|region| region.keys.iter().chain(&region.components))
        {
            let applies = used
                .iter()
                .filter(|(_, component)| *component == selection.id)
                .any(|(dataflow, _)| {
                    let attached = lookup.dataflow(dataflow).map(|(flow, structure)| {
                        let these = BTreeSet::from([&flow.header.urn, &structure.header.urn]);
                        constraint
                            .attachment
                            .iter()
                            .any(|reference| lookup.points_at(reference, &these))
                    });
                    attached.unwrap_or(false)
                });
            if !applies {
                continue;
            }
            for selected in &selection.values {
                let code = tree.id(&selected.value).ok_or_else(|| CutError::UnknownAllowedCode {
                    constraint: artefact.urn().clone(),
                    component: selection.id.clone(),
                    codelist: urn.clone(),
                    code: selected.value.clone(),
                })?;
                // The constraint names the code even where it selects only what lies below.
                codes.insert(code);
                if selected.cascade != Cascade::None {
                    codes.extend(tree.below(code));
                }
            }
        }
    }
    for (from, code) in uses.named.get(urn).into_iter().flatten() {
        codes.insert(tree.id(code).ok_or_else(|| CutError::UnknownReferencedCode {
            from: (*from).clone(),
            codelist: urn.clone(),
            code: code.clone(),
        })?);
    }
    Ok(tree.with_ancestors(&codes))
}

/// A partial that isn't part of what it says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartialFinding {
    /// No structure edition holds the full artefact.
    #[error("INV-113: `{urn}` is a partial, and no structure edition given holds it in full ({})", looked_in.join(", "))]
    NoFull {
        /// The partial.
        urn: ArtefactUrn,
        /// The structure editions given.
        looked_in: Vec<String>,
    },
    /// Every full one has another fingerprint.
    #[error("INV-113: `{urn}` was cut from {partial_of}, but {}", found.iter().map(|(edition, fingerprint)| format!("{edition} holds {fingerprint}")).collect::<Vec<_>>().join(", "))]
    OtherFull {
        /// The partial.
        urn: ArtefactUrn,
        /// What it was cut from.
        partial_of: ArtefactFingerprint,
        /// The full ones: by what the caller calls their editions, and their fingerprints.
        found: Vec<(String, ArtefactFingerprint)>,
    },
    /// The full one's text has another form, so that nothing can be compared.
    #[error(
        "INV-70: `{urn}` was recorded under form `{recorded}`, and the full artefact's text has form `{full}`; they can't be compared"
    )]
    OtherForm {
        /// The partial.
        urn: ArtefactUrn,
        /// The form of the record.
        recorded: CanonicalForm,
        /// The form of the full artefact.
        full: CanonicalForm,
    },
    /// An item the full one lacks.
    #[error("INV-113: `{urn}` holds `{item}`, which the full artefact doesn't")]
    NotInFull {
        /// The partial.
        urn: ArtefactUrn,
        /// The item.
        item: String,
    },
    /// An item below another than in the full one.
    #[error("INV-113: `{urn}` has `{item}` below {}, but the full artefact has it below {}", or_root(.here), or_root(.full))]
    OtherParent {
        /// The partial.
        urn: ArtefactUrn,
        /// The item.
        item: String,
        /// The parent in the partial.
        here: Option<String>,
        /// The parent in the full artefact.
        full: Option<String>,
    },
}

fn or_root(parent: &Option<String>) -> String {
    parent
        .as_ref()
        .map_or_else(|| "nothing".to_owned(), |parent| format!("`{parent}`"))
}

/// INV-113: checks that each partial was cut from a full artefact of these structure editions and that its items and their
/// parents are in it (INV-90).
///
/// Names aren't compared: folding an overlay into an edition changes names of partials and keeps what they were cut from
/// (INV-372). The caller hands in the structure editions and what to call them.
pub fn check(
    structures: &Structures,
    records: &ArtefactRecords,
    editions: &[(String, &Structures)],
) -> Vec<PartialFinding> {
    let mut findings = Vec::new();
    for record in &records.records {
        let (Some(partial_of), Some(partial)) = (record.partial_of, structures.get(&record.urn)) else {
            continue;
        };
        let urn = &record.urn;
        let held = editions
            .iter()
            .filter_map(|(name, edition)| Some((name, edition.get(urn)?)));
        let full: Vec<_> = held
            .filter(|(_, artefact)| !artefact.is_partial())
            .map(|(name, artefact)| (name, artefact, CanonicalText::of(artefact)))
            .collect();
        if full.is_empty() {
            let looked_in = editions.iter().map(|(name, _)| name.clone()).collect();
            findings.push(PartialFinding::NoFull {
                urn: urn.clone(),
                looked_in,
            });
            continue;
        }
        let Some((_, full, _)) = full.iter().find(|(_, _, text)| text.fingerprint() == partial_of) else {
            let other_form = full.iter().find(|(_, _, text)| text.form() > records.form);
            findings.push(match other_form {
                Some((_, _, text)) => PartialFinding::OtherForm {
                    urn: urn.clone(),
                    recorded: records.form,
                    full: text.form(),
                },
                None => PartialFinding::OtherFull {
                    urn: urn.clone(),
                    partial_of,
                    found: full
                        .iter()
                        .map(|(name, _, text)| ((*name).clone(), text.fingerprint()))
                        .collect(),
                },
            });
            continue;
        };
        let parents: HashMap<&str, Option<&str>> = scheme_items(full)
            .map(|item| (item.id.as_str(), item.parent.as_deref()))
            .collect();
        for item in scheme_items(partial) {
            match parents.get(item.id.as_str()) {
                None => findings.push(PartialFinding::NotInFull {
                    urn: urn.clone(),
                    item: item.id.clone(),
                }),
                Some(parent) if *parent != item.parent.as_deref() => findings.push(PartialFinding::OtherParent {
                    urn: urn.clone(),
                    item: item.id.clone(),
                    here: item.parent.clone(),
                    full: parent.map(ToOwned::to_owned),
                }),
                Some(_) => {}
            }
        }
    }
    findings
}

fn scheme_items(artefact: &Artefact) -> Box<dyn Iterator<Item = &Item> + '_> {
    match artefact {
        Artefact::AgencyScheme(scheme) => Box::new(scheme.agencies.iter()),
        Artefact::Codelist(codelist) => Box::new(codelist.codes.iter()),
        Artefact::ConceptScheme(scheme) => Box::new(scheme.concepts.iter().map(|concept| &concept.item)),
        _ => Box::new(std::iter::empty()),
    }
}

#[cfg(test)]
mod tests;
