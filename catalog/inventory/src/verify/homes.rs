//! What holds between products in the newest version: structure homes, shared copies, stale editions.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::Fault;
use crate::{
    doc::{ArtefactFingerprint, EditionState, Entry, Leaf, ProductKind, Sha256, Urn},
    transition::{EditionKey, Manifests, Refusal, Version, stale_artefacts},
};

/// An edition that holds an artefact in full.
struct Holding {
    edition: EditionKey,
    live: bool,
    fingerprint: Sha256,
}

type Holdings = BTreeMap<Urn, Vec<Holding>>;

fn current(leaf: &Leaf) -> impl Iterator<Item = (EditionKey, &Entry)> {
    leaf.editions
        .iter()
        .filter(|entry| matches!(entry.state, EditionState::Live | EditionState::Embargoed))
        .map(|entry| (EditionKey::new(leaf.product_id.clone(), entry.edition_id), entry))
}

fn artefacts<'a>(
    edition: &EditionKey,
    entry: &'a Entry,
    manifests: &Manifests,
) -> Cow<'a, BTreeMap<Urn, ArtefactFingerprint>> {
    match &entry.artefacts {
        Some(filled) => Cow::Borrowed(filled),
        None => Cow::Owned(
            manifests
                .get(edition)
                .map(|manifest| manifest.artefact_fingerprints())
                .unwrap_or_default(),
        ),
    }
}

/// The artefacts that the current editions of one kind of product hold in full.
fn holdings(version: &Version, manifests: &Manifests, kind: ProductKind) -> Holdings {
    let mut holdings = Holdings::new();
    for leaf in version.leaves().filter(|leaf| leaf.kind == kind) {
        for (edition, entry) in current(leaf) {
            let live = entry.state == EditionState::Live;
            for (urn, record) in artefacts(&edition, entry, manifests).iter() {
                if record.partial_of.is_none() {
                    let (edition, fingerprint) = (edition.clone(), record.fingerprint);
                    holdings.entry(urn.clone()).or_default().push(Holding {
                        edition,
                        live,
                        fingerprint,
                    });
                }
            }
        }
    }
    holdings
}

/// INV-219 to INV-237 as they show in a stored version. `manifests` are those of the current editions whose entries do not
/// fill their artefacts.
pub(super) fn check(version: &Version, manifests: &Manifests) -> Result<Vec<(EditionKey, Fault)>, Refusal> {
    let homes = holdings(version, manifests, ProductKind::Structure);
    let copies = holdings(version, manifests, ProductKind::Data);
    let mut found = two_homes(&homes);
    let stale = stale_artefacts(version, manifests)?;
    let is_stale: BTreeSet<(&EditionKey, &Urn)> = stale.iter().map(|stale| (&stale.edition, &stale.urn)).collect();
    for leaf in version.leaves().filter(|leaf| leaf.kind == ProductKind::Data) {
        for (edition, entry) in current(leaf) {
            for (urn, record) in artefacts(&edition, entry, manifests).iter() {
                let needed = record.partial_of.unwrap_or(record.fingerprint);
                let refusal = match homes.get(urn) {
                    Some(holdings) if entry.state == EditionState::Live && !is_stale.contains(&(&edition, urn)) => {
                        not_live(&edition, urn, needed, holdings)
                    }
                    Some(_) => None,
                    None if record.partial_of.is_some() => Some(Refusal::PartialWithoutHome {
                        edition: edition.clone(),
                        urn: urn.clone(),
                    }),
                    None if entry.state == EditionState::Live => other_copy(&edition, urn, needed, &copies),
                    // INV-225: an embargoed copy is compared when it goes live.
                    None => None,
                };
                found.extend(refusal.map(|refusal| (edition.clone(), refusal.into())));
            }
        }
    }
    let stale = stale
        .into_iter()
        .map(|stale| (stale.edition.clone(), Fault::Stale(Box::new(stale))));
    found.extend(stale);
    Ok(found)
}

/// INV-236: live structure editions of two products hold one artefact.
fn two_homes(homes: &Holdings) -> Vec<(EditionKey, Fault)> {
    let mut found = Vec::new();
    for (urn, holdings) in homes {
        let mut live = holdings.iter().filter(|holding| holding.live);
        let Some(first) = live.next() else { continue };
        if let Some(second) = live.find(|holding| holding.edition.product_id != first.edition.product_id) {
            let refusal = Refusal::TwoHomes {
                edition: second.edition.clone(),
                urn: urn.clone(),
                other: first.edition.clone(),
            };
            found.push((second.edition.clone(), refusal.into()));
        }
    }
    found
}

/// INV-237: what a live edition holds is embargoed in its home, not live.
fn not_live(edition: &EditionKey, urn: &Urn, needed: Sha256, holdings: &[Holding]) -> Option<Refusal> {
    let live: BTreeSet<Sha256> = holdings.iter().filter(|h| h.live).map(|h| h.fingerprint).collect();
    let home = holdings.first()?.edition.product_id.clone();
    (!live.contains(&needed)).then(|| Refusal::StructureNotLive {
        edition: edition.clone(),
        urn: urn.clone(),
        needed,
        home,
        live: live.into_iter().collect(),
    })
}

/// INV-224: another live edition holds an artefact without a home with another fingerprint. Of two that disagree the later
/// one in the order of products is named.
fn other_copy(edition: &EditionKey, urn: &Urn, held: Sha256, copies: &Holdings) -> Option<Refusal> {
    let other = copies.get(urn)?.iter().find(|holding| {
        holding.live && holding.fingerprint != held && holding.edition.product_id < edition.product_id
    })?;
    Some(Refusal::CopiesDisagree {
        edition: edition.clone(),
        urn: urn.clone(),
        held,
        other: other.edition.clone(),
        theirs: other.fingerprint,
    })
}
