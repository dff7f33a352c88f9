//! What holds in every version: the release invariants, judged over a whole next version.
//!
//! Only incoming entries are judged: those that become live or embargoed in the version. Each finding names the incoming edition
//! that causes it, so that a batch can drop that edition and keep the rest.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::{Context, EditionKey, Refusal, Version, version::leaf_findings};
use crate::doc::{
    ArtefactFingerprint, EditionState, Entry, EntryStatus, Leaf, Manifest, ProductId, ProductKind, Sha256, Urn,
};

type Artefacts<'a> = Cow<'a, BTreeMap<Urn, ArtefactFingerprint>>;

/// An incoming edition and the refusal it causes.
pub(super) type Blame = (EditionKey, Refusal);

struct Incoming<'a> {
    edition: EditionKey,
    kind: ProductKind,
    live: bool,
    artefacts: Artefacts<'a>,
}

/// A live or embargoed edition that holds an artefact in full.
struct Holding {
    edition: EditionKey,
    live: bool,
    fingerprint: Sha256,
}

/// Who holds the artefacts in question in full.
#[derive(Default)]
struct Holders {
    /// INV-219: live and embargoed editions of structure products.
    homes: BTreeMap<Urn, Vec<Holding>>,
    /// Live editions of data products.
    copies: BTreeMap<Urn, Vec<Holding>>,
}

/// Judges a version against its base. `Err` is a fact that is missing, not a verdict.
///
/// Verdicts come in stages, since a later stage depends on an earlier one: an edition refused for its manifest or its structures
/// is no longer there to disagree with anybody. Only the first stage that finds something is answered.
pub(super) fn judge(base: &Version, next: &Version, context: &Context<'_>) -> Result<Vec<Blame>, Refusal> {
    let mut blames = Vec::new();
    let mut incoming = Vec::new();
    for product_id in next.leaves.differing(&base.leaves) {
        let Some(leaf) = next.leaves.get(product_id) else {
            continue;
        };
        let entries: Vec<(EditionKey, &Entry)> = incoming_entries(base, leaf).collect();
        for finding in leaf_findings(leaf, |edition| next.status(edition).is_some()) {
            let blamed = match &finding {
                Refusal::PreviousUnknown { edition, .. } => edition.clone(),
                Refusal::TwoLive { first, second, .. } => {
                    let came = entries
                        .iter()
                        .find(|(key, _)| key.edition_id == *first || key.edition_id == *second);
                    came.map_or_else(|| EditionKey::new(product_id.clone(), *second), |(key, _)| key.clone())
                }
                _ => continue,
            };
            blames.push((blamed, finding));
        }
        for (edition, entry) in entries {
            match check_manifest(&edition, entry, leaf.kind, context) {
                Ok(()) => {
                    let artefacts = context.manifests.artefacts(&edition, entry)?;
                    let live = entry.state == EditionState::Live;
                    incoming.push(Incoming {
                        edition,
                        kind: leaf.kind,
                        live,
                        artefacts,
                    });
                }
                Err(refusal) => blames.push((edition, refusal)),
            }
        }
    }
    if !blames.is_empty() {
        return Ok(blames);
    }
    let holders = holders(next, &incoming, context)?;
    blames.extend(incoming.iter().flat_map(|incoming| against_homes(incoming, &holders)));
    if blames.is_empty() {
        blames.extend(incoming.iter().flat_map(|incoming| against_copies(incoming, &holders)));
    }
    Ok(blames)
}

/// The entries of a leaf that become live or embargoed.
fn incoming_entries<'a>(base: &'a Version, leaf: &'a Leaf) -> impl Iterator<Item = (EditionKey, &'a Entry)> {
    leaf.editions.iter().filter_map(move |entry| {
        let edition = EditionKey::new(leaf.product_id.clone(), entry.edition_id);
        let current = matches!(entry.state, EditionState::Live | EditionState::Embargoed);
        let came = base.status(&edition) != Some(EntryStatus::State(entry.state));
        (current && came).then_some((edition, entry))
    })
}

/// INV-216, INV-217, and that the entry says what its manifest says.
fn check_manifest(
    edition: &EditionKey,
    entry: &Entry,
    kind: ProductKind,
    context: &Context<'_>,
) -> Result<(), Refusal> {
    let manifest: &Manifest = context.manifests.of_entry(edition, entry)?;
    if !context.canonical_forms.contains(&manifest.canonical_form) {
        let known: Vec<&str> = context.canonical_forms.iter().map(|form| form.as_str()).collect();
        return Err(Refusal::UnknownCanonicalForm {
            edition: edition.clone(),
            found: manifest.canonical_form.clone(),
            known: known.join(", "),
        });
    }
    let disagrees = |rule, field, entry: String, manifest: String| {
        Err(Refusal::EntryDisagrees {
            rule,
            edition: edition.clone(),
            field,
            entry,
            manifest,
        })
    };
    if entry.previous != manifest.previous {
        let shown = |previous: Option<_>| {
            previous.map_or_else(|| "null".to_owned(), |id: crate::doc::EditionId| id.to_string())
        };
        return disagrees(170, "previous", shown(entry.previous), shown(manifest.previous));
    }
    if entry.schema_version != manifest.schema_version {
        let (entry, manifest) = (entry.schema_version.to_string(), manifest.schema_version.to_string());
        return disagrees(170, "schema_version", entry, manifest);
    }
    if let Some(filled) = &entry.artefacts {
        let expected = manifest.artefact_fingerprints();
        let differs = |urn: &&Urn| filled.get(*urn) != expected.get(*urn);
        if let Some(urn) = filled.keys().chain(expected.keys()).find(differs) {
            let shown = |records: &BTreeMap<Urn, ArtefactFingerprint>| {
                let record = records.get(urn);
                record.map_or_else(|| format!("no {urn}"), |record| format!("{urn} {}", record.fingerprint))
            };
            return disagrees(174, "artefacts", shown(filled), shown(&expected));
        }
    }
    if let Some(filled) = &entry.routing {
        let expected = manifest.routing();
        if *filled != expected {
            let shown = |routing: &crate::doc::Routing| {
                format!("{} dataflows and {} bytes", routing.dataflows.len(), routing.pull_bytes)
            };
            return disagrees(188, "dataflows and pull_bytes", shown(filled), shown(&expected));
        }
    }
    match manifest.bindings.first() {
        Some(binding) if kind == ProductKind::Structure => Err(Refusal::StructureWithBindings {
            edition: edition.clone(),
            dataflow: binding.dataflow.clone(),
        }),
        _ => Ok(()),
    }
}

/// Finds who holds the incoming editions' artefacts. Products that no incoming edition could be compared with are not asked for
/// their records.
fn holders(next: &Version, incoming: &[Incoming<'_>], context: &Context<'_>) -> Result<Holders, Refusal> {
    let wanted: BTreeSet<&Urn> = incoming.iter().flat_map(|incoming| incoming.artefacts.keys()).collect();
    let mut holders = Holders::default();
    if wanted.is_empty() {
        return Ok(holders);
    }
    let products: BTreeSet<&ProductId> = incoming.iter().map(|incoming| &incoming.edition.product_id).collect();
    for leaf in next.leaves.values() {
        // INV-218: an edition is compared with editions of other products only.
        if products.len() == 1 && products.contains(&leaf.product_id) {
            continue;
        }
        for (edition, entry) in current(leaf) {
            let live = entry.state == EditionState::Live;
            if leaf.kind == ProductKind::Data && !live {
                continue;
            }
            let artefacts = context.manifests.artefacts(&edition, entry)?;
            let full = artefacts
                .iter()
                .filter(|(urn, record)| record.partial_of.is_none() && wanted.contains(urn));
            let side = match leaf.kind {
                ProductKind::Structure => &mut holders.homes,
                ProductKind::Data => &mut holders.copies,
            };
            for (urn, record) in full {
                let holding = Holding {
                    edition: edition.clone(),
                    live,
                    fingerprint: record.fingerprint,
                };
                side.entry(urn.clone()).or_default().push(holding);
            }
        }
    }
    Ok(holders)
}

/// The live and embargoed entries of a leaf.
pub(super) fn current(leaf: &Leaf) -> impl Iterator<Item = (EditionKey, &Entry)> {
    let states = [EditionState::Live, EditionState::Embargoed];
    let entries = leaf.editions.iter().filter(move |entry| states.contains(&entry.state));
    entries.map(|entry| (EditionKey::new(leaf.product_id.clone(), entry.edition_id), entry))
}

/// Items 4, 7 and 8 of §6.5 as far as structure homes decide: what a data edition holds is what its home holds and, once it
/// goes live, what is live there; a structure edition is the only home of what it holds.
fn against_homes(incoming: &Incoming<'_>, holders: &Holders) -> Option<Blame> {
    let edition = || incoming.edition.clone();
    incoming.artefacts.iter().find_map(|(urn, record)| {
        let homes = holders.homes.get(urn).map(Vec::as_slice).unwrap_or_default();
        if incoming.kind == ProductKind::Structure {
            let twin = |holding: &&Holding| holding.live && holding.edition.product_id != incoming.edition.product_id;
            let other = homes
                .iter()
                .find(twin)
                .filter(|_| incoming.live && record.partial_of.is_none())?;
            let refusal = Refusal::TwoHomes {
                edition: edition(),
                urn: urn.clone(),
                other: other.edition.clone(),
            };
            return Some((edition(), refusal));
        }
        let held = record.partial_of.unwrap_or(record.fingerprint);
        let Some(first) = homes.first() else {
            record.partial_of?;
            return Some((
                edition(),
                Refusal::PartialWithoutHome {
                    edition: edition(),
                    urn: urn.clone(),
                },
            ));
        };
        let (urn, home) = (urn.clone(), first.edition.product_id.clone());
        let fingerprints = |live: bool| -> Vec<Sha256> {
            let holdings = homes.iter().filter(|holding| holding.live || !live);
            holdings
                .map(|holding| holding.fingerprint)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect()
        };
        let (expected, live) = (fingerprints(false), fingerprints(true));
        if !expected.contains(&held) {
            let edition = edition();
            let refusal = match record.partial_of {
                Some(_) => Refusal::PartialDisagreesWithHome {
                    edition,
                    urn,
                    held,
                    home,
                    expected,
                },
                None => Refusal::FullDisagreesWithHome {
                    edition,
                    urn,
                    held,
                    home,
                    expected,
                },
            };
            return Some((incoming.edition.clone(), refusal));
        }
        if incoming.live && !live.contains(&held) {
            let refusal = Refusal::StructureNotLive {
                edition: edition(),
                urn,
                needed: held,
                home,
                live,
            };
            return Some((edition(), refusal));
        }
        None
    })
}

/// INV-224: a full artefact that no structure product holds carries one fingerprint across live editions. An embargoed edition
/// is compared when it goes live (INV-225).
fn against_copies(incoming: &Incoming<'_>, holders: &Holders) -> Option<Blame> {
    if !incoming.live || incoming.kind == ProductKind::Structure {
        return None;
    }
    incoming.artefacts.iter().find_map(|(urn, record)| {
        if record.partial_of.is_some() || holders.homes.contains_key(urn) {
            return None;
        }
        let other = holders.copies.get(urn)?.iter().find(|holding| {
            holding.edition.product_id != incoming.edition.product_id && holding.fingerprint != record.fingerprint
        })?;
        let edition = incoming.edition.clone();
        let refusal = Refusal::CopiesDisagree {
            edition: edition.clone(),
            urn: urn.clone(),
            held: record.fingerprint,
            other: other.edition.clone(),
            theirs: other.fingerprint,
        };
        Some((edition, refusal))
    })
}
