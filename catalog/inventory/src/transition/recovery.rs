//! What may be recorded again after a crash or a loss, and what must not.

use std::collections::{BTreeMap, BTreeSet};

use super::{EditionKey, Version};
use crate::doc::{ChangeItem, EditionId, EditionState, EntryStatus, EventKind, Journal, Manifest, ProductId, Seq};

/// Why a sealed edition that no version names is left alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepairRefused {
    /// It was recorded once, so recording it again could bring withdrawn data back.
    #[error("INV-270: {edition} is {status} in version {}", shown(seq))]
    Named {
        /// The edition.
        edition: EditionKey,
        /// A version within retention that names it.
        seq: Option<Seq>,
        /// How.
        status: EntryStatus,
    },
    /// A change list names it although no version read does.
    #[error("INV-270: a change list within retention names {edition}")]
    Listed {
        /// The edition.
        edition: EditionKey,
    },
    /// Nothing shows that this writer sealed it.
    #[error("INV-270: no journal entry shows that {edition} was sealed here")]
    NotOurs {
        /// The edition.
        edition: EditionKey,
    },
    /// The journal speaks of another edition, or of another base.
    #[error("INV-270: the journal of {edition} says {field} {journal}, its manifest {manifest}")]
    JournalDisagrees {
        /// The edition.
        edition: EditionKey,
        /// Which field.
        field: &'static str,
        /// What the journal says.
        journal: String,
        /// What the manifest says.
        manifest: String,
    },
}

fn shown(seq: &Option<Seq>) -> String {
    seq.map_or_else(|| "none".to_owned(), |seq| seq.to_string())
}

/// INV-269, INV-270: whether the narrow repair may record a sealed edition: no version within retention names it, nor does any
/// change list, it is no tombstone, and this writer's journal shows the seal.
///
/// A wider repair, by scanning for manifests, would publish an edition again that was rolled back and then retired.
pub fn may_repair<'a>(
    manifest: &Manifest,
    journal: Option<&Journal>,
    versions: impl IntoIterator<Item = &'a Version>,
    change_lists: impl IntoIterator<Item = &'a ChangeItem>,
) -> Result<(), RepairRefused> {
    let edition = EditionKey::new(manifest.product_id.clone(), manifest.edition_id);
    for version in versions {
        if let Some(status) = version.status(&edition) {
            return Err(RepairRefused::Named {
                edition,
                seq: version.seq(),
                status,
            });
        }
    }
    let names = |item: &ChangeItem| {
        item.product_id == edition.product_id && item.entries.iter().any(|entry| entry.edition_id == edition.edition_id)
    };
    if change_lists.into_iter().any(names) {
        return Err(RepairRefused::Listed { edition });
    }
    let Some(journal) = journal else {
        return Err(RepairRefused::NotOurs { edition });
    };
    let sealed = EditionKey::new(journal.product_id.clone(), journal.edition_id);
    let disagrees = |field, journal: String, manifest: String| {
        Err(RepairRefused::JournalDisagrees {
            edition: edition.clone(),
            field,
            journal,
            manifest,
        })
    };
    if sealed != edition {
        return disagrees("edition", sealed.to_string(), edition.to_string());
    }
    if journal.previous != manifest.previous {
        let text = |previous: Option<EditionId>| previous.map_or_else(|| "null".to_owned(), |id| id.to_string());
        return disagrees("previous", text(journal.previous), text(manifest.previous));
    }
    Ok(())
}

/// What is still known of a version of an Inventory that is to be rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenVersion {
    /// Its number.
    pub seq: Seq,
    /// Its kind.
    pub kind: EventKind,
    /// Whether the embargo was on.
    pub embargo: bool,
    /// Whether it has a tombstone.
    pub has_tombstones: bool,
    /// Whether an entry in it is withdrawn or embargoed.
    pub has_hidden_entries: bool,
}

impl SeenVersion {
    /// What a version that can still be read in full shows.
    pub fn of(version: &Version, kind: EventKind) -> Option<Self> {
        let hidden = |state| matches!(state, EditionState::Withdrawn | EditionState::Embargoed);
        Some(Self {
            seq: version.seq()?,
            kind,
            embargo: version.embargo(),
            has_tombstones: version.retired().next().is_some(),
            has_hidden_entries: version
                .leaves()
                .any(|leaf| leaf.editions.iter().any(|entry| hidden(entry.state))),
        })
    }
}

/// Why an Inventory cannot be rebuilt from manifests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RebuildRefused {
    /// Versions are missing that may have withdrawn something.
    #[error("INV-273: {}, and no manifest says what was withdrawn then", absent(missing))]
    HistoryMissing {
        /// The numbers missing below the highest known one.
        missing: Vec<Seq>,
    },
    /// Editions were taken back, retired or corrected, which no manifest says.
    #[error("INV-273: version {seq} ({kind}) took something back, and no manifest says what")]
    TakenBack {
        /// The version.
        seq: Seq,
        /// Its kind.
        kind: EventKind,
    },
    /// An embargo was on, and no manifest says what it holds back.
    #[error("INV-273: version {seq} had the embargo on, and no manifest says what it held back")]
    Embargoed {
        /// The version.
        seq: Seq,
    },
    /// Two editions were built from the same one, so one of them was not released or was taken back.
    #[error(
        "INV-273: editions {first} and {second} of product {product_id} were both built from {}",
        base(previous)
    )]
    Fork {
        /// The product.
        product_id: ProductId,
        /// What both were built from.
        previous: Option<EditionId>,
        /// One.
        first: EditionId,
        /// The other.
        second: EditionId,
    },
    /// An edition's base is gone, so the product lost an edition.
    #[error("INV-235: {edition} was built from {previous}, whose manifest is missing")]
    BaseMissing {
        /// The edition.
        edition: EditionKey,
        /// Its base.
        previous: EditionId,
    },
}

fn absent(missing: &[Seq]) -> String {
    match missing {
        [one] => format!("version {one} is missing"),
        several => format!("versions {} are missing", list(several)),
    }
}

fn list(seqs: &[Seq]) -> String {
    seqs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn base(previous: &Option<EditionId>) -> String {
    previous.map_or_else(|| "nothing".to_owned(), |previous| previous.to_string())
}

/// INV-273: the states editions take in an Inventory rebuilt from manifests: the newest of each product live, the ones before it
/// superseded.
///
/// Refused for a catalogue in which anything was ever withdrawn, retired, corrected or embargoed, since no manifest records it;
/// refused as well when a version is missing, since it might have. `highest` is the highest sequence number anybody remembers.
pub fn rebuild(
    manifests: &[&Manifest],
    seen: &[SeenVersion],
    highest: Option<Seq>,
) -> Result<BTreeMap<EditionKey, EditionState>, RebuildRefused> {
    let numbers: BTreeSet<Seq> = seen.iter().map(|version| version.seq).collect();
    let highest = highest.into_iter().chain(numbers.last().copied()).max();
    let mut missing = Vec::new();
    let mut next = highest.map(|_| Seq::FIRST);
    while let Some(seq) = next.filter(|seq| highest.is_some_and(|highest| *seq <= highest)) {
        if !numbers.contains(&seq) {
            missing.push(seq);
        }
        // A message names the first few; a catalogue that lost a million versions lost them all.
        next = if missing.len() < 20 { seq.next() } else { None };
    }
    if !missing.is_empty() {
        return Err(RebuildRefused::HistoryMissing { missing });
    }
    for version in seen {
        let (seq, kind) = (version.seq, version.kind.clone());
        let adds_only = matches!(
            kind,
            EventKind::Seal | EventKind::Release | EventKind::EmbargoChange | EventKind::Describe
        );
        if !adds_only || version.has_tombstones || version.has_hidden_entries {
            return Err(RebuildRefused::TakenBack { seq, kind });
        }
        if version.embargo {
            return Err(RebuildRefused::Embargoed { seq });
        }
    }
    let mut successors: BTreeMap<(ProductId, Option<EditionId>), EditionId> = BTreeMap::new();
    let known: BTreeSet<EditionKey> = manifests
        .iter()
        .map(|manifest| EditionKey::new(manifest.product_id.clone(), manifest.edition_id))
        .collect();
    for manifest in manifests {
        let (product_id, previous) = (manifest.product_id.clone(), manifest.previous);
        let edition = EditionKey::new(product_id.clone(), manifest.edition_id);
        if let Some(previous) =
            previous.filter(|previous| !known.contains(&EditionKey::new(product_id.clone(), *previous)))
        {
            return Err(RebuildRefused::BaseMissing { edition, previous });
        }
        let second = manifest.edition_id;
        if let Some(first) = successors.insert((product_id.clone(), previous), second) {
            return Err(RebuildRefused::Fork {
                product_id,
                previous,
                first,
                second,
            });
        }
    }
    let state = |edition: EditionKey| {
        let replaced = successors.contains_key(&(edition.product_id.clone(), Some(edition.edition_id)));
        let state = if replaced {
            EditionState::Superseded
        } else {
            EditionState::Live
        };
        (edition, state)
    };
    Ok(known.into_iter().map(state).collect())
}
