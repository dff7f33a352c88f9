//! Editions that hold an old copy of an artefact whose home has moved on.

use std::{collections::BTreeMap, fmt};

use super::{EditionKey, Manifests, Refusal, Version, judge::current};
use crate::doc::{EditionId, EditionState, ProductId, ProductKind, Sha256, Urn};

/// INV-232: one artefact of one data edition that matches no live or embargoed edition of its home.
///
/// Staleness is computed whenever somebody asks and recorded nowhere (INV-231).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleArtefact {
    /// The data edition.
    pub edition: EditionKey,
    /// Live, and then it stays so; or embargoed, and then its release will be refused (INV-229, INV-230).
    pub state: EditionState,
    /// The artefact.
    pub urn: Urn,
    /// Whether the edition holds a partial of it.
    pub partial: bool,
    /// The fingerprint held, for a partial the one it was cut from.
    pub held: Sha256,
    /// The structure product.
    pub home: ProductId,
    /// The home's live edition and its fingerprint; none when only embargoed editions hold the artefact.
    pub home_live: Option<(EditionId, Sha256)>,
}

impl fmt::Display for StaleArtefact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.partial {
            "a partial cut from"
        } else {
            "fingerprint"
        };
        write!(
            f,
            "INV-227: {} ({}) holds {} with {how} {}; its home {} has ",
            self.edition, self.state, self.urn, self.held, self.home
        )?;
        match &self.home_live {
            Some((edition, fingerprint)) => write!(f, "{fingerprint} in live edition {edition}")?,
            None => f.write_str("no live edition of it")?,
        }
        write!(f, "; republish product {}", self.edition.product_id)
    }
}

/// INV-227: every stale artefact of a version, by product, edition and URN.
pub fn stale_artefacts(version: &Version, manifests: &Manifests) -> Result<Vec<StaleArtefact>, Refusal> {
    let mut homes: BTreeMap<Urn, Vec<(EditionKey, bool, Sha256)>> = BTreeMap::new();
    for leaf in version.leaves().filter(|leaf| leaf.kind == ProductKind::Structure) {
        for (edition, entry) in current(leaf) {
            let live = entry.state == EditionState::Live;
            for (urn, record) in manifests.artefacts(&edition, entry)?.iter() {
                if record.partial_of.is_none() {
                    homes
                        .entry(urn.clone())
                        .or_default()
                        .push((edition.clone(), live, record.fingerprint));
                }
            }
        }
    }
    let mut stale = Vec::new();
    for leaf in version.leaves().filter(|leaf| leaf.kind == ProductKind::Data) {
        for (edition, entry) in current(leaf) {
            for (urn, record) in manifests.artefacts(&edition, entry)?.iter() {
                let held = record.partial_of.unwrap_or(record.fingerprint);
                let Some(holdings) = homes.get(urn) else { continue };
                let Some((home, ..)) = holdings.first() else { continue };
                if holdings.iter().any(|(_, _, fingerprint)| *fingerprint == held) {
                    continue;
                }
                let live = holdings.iter().find(|(_, live, _)| *live);
                stale.push(StaleArtefact {
                    edition: edition.clone(),
                    state: entry.state,
                    urn: urn.clone(),
                    partial: record.partial_of.is_some(),
                    held,
                    home: live.map_or(home, |(home, ..)| home).product_id.clone(),
                    home_live: live.map(|(home, _, fingerprint)| (home.edition_id, *fingerprint)),
                });
            }
        }
    }
    Ok(stale)
}
