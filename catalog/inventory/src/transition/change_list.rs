//! The change list of a version: computed from it and its base alone, and replayed onto the base for checking.

use std::collections::{BTreeMap, BTreeSet};

use super::{EditionKey, Version};
use crate::doc::{ChangeItem, EditionId, EntryChange, EntryStatus, LeafChange, ListedEntry, ProductId, Sha256};

/// INV-162, INV-183: what differs between a base version and the next one, sorted by product and edition.
///
/// It reads these two versions and no other, so it does not matter which version the next one was built from: a correction is
/// listed against the head it replaces (INV-165).
pub fn change_list(base: &Version, next: &Version) -> Vec<ChangeItem> {
    let mut products: BTreeSet<&ProductId> = next.leaves.differing(&base.leaves).into_iter().collect();
    let came = next
        .retired
        .keys()
        .filter(|edition| !base.retired.contains_key(*edition));
    let went = base
        .retired
        .keys()
        .filter(|edition| !next.retired.contains_key(*edition));
    let tombstones: BTreeSet<&EditionKey> = came.chain(went).collect();
    products.extend(tombstones.iter().map(|edition| &edition.product_id));

    let item = |product_id: &ProductId| {
        let mut editions: BTreeSet<EditionId> = tombstones
            .iter()
            .filter(|e| e.product_id == *product_id)
            .map(|e| e.edition_id)
            .collect();
        let leaf_sha256 = LeafChange {
            from: base.leaves.sha256(product_id),
            to: next.leaves.sha256(product_id),
        };
        if leaf_sha256.from != leaf_sha256.to {
            let (from, to) = (base.leaves.get(product_id), next.leaves.get(product_id));
            editions.extend(
                from.iter()
                    .chain(to.iter())
                    .flat_map(|leaf| leaf.editions.iter().map(|e| e.edition_id)),
            );
        }
        let entries = editions.into_iter().filter_map(|edition_id| {
            let edition = EditionKey::new(product_id.clone(), edition_id);
            let (from, to) = (base.status(&edition), next.status(&edition));
            // INV-180: an entry that kept its state is listed when anything in it differs.
            let same = from == to && base.entry(&edition) == next.entry(&edition);
            let entry = next.entry(&edition).map(ListedEntry::from);
            (!same).then_some(EntryChange {
                edition_id,
                from,
                to,
                entry,
            })
        });
        ChangeItem {
            product_id: product_id.clone(),
            leaf_sha256,
            entries: entries.collect(),
        }
    };
    products.into_iter().map(item).collect()
}

/// What a chain of change lists adds up to: each product's leaf hash, and each edition's listed entry or tombstone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standings {
    leaves: BTreeMap<ProductId, Sha256>,
    editions: BTreeMap<EditionKey, Standing>,
}

/// How one edition stands, as far as a change list says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has this entry.
    Recorded(ListedEntry),
    /// It stands in `retired`.
    Tombstone,
}

impl Standing {
    fn status(&self) -> EntryStatus {
        match self {
            Self::Recorded(entry) => EntryStatus::State(entry.state),
            Self::Tombstone => EntryStatus::Tombstone,
        }
    }
}

/// A change list does not fit the version it is applied to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The leaf before is another one.
    #[error("INV-177: the change list takes product {product_id} from leaf {listed:?}, the base version has {found:?}")]
    OtherLeaf {
        /// The product.
        product_id: ProductId,
        /// What the list says.
        listed: Option<Sha256>,
        /// What the base has.
        found: Option<Sha256>,
    },
    /// The edition stood otherwise.
    #[error("INV-178: the change list takes {edition} from {listed:?}, the base version has {found:?}")]
    OtherStatus {
        /// The edition.
        edition: EditionKey,
        /// What the list says.
        listed: Option<EntryStatus>,
        /// What the base has.
        found: Option<EntryStatus>,
    },
    /// An item lacks the entry of the state it goes to, or has one of another state.
    #[error("INV-179: the change list takes {edition} to {to:?} with an entry of {entry:?}")]
    EntryDoesNotFit {
        /// The edition.
        edition: EditionKey,
        /// Where to.
        to: Option<EntryStatus>,
        /// What the entry's state is.
        entry: Option<EntryStatus>,
    },
}

impl Standings {
    /// How a version stands.
    pub fn of(version: &Version) -> Self {
        let key = |product: &ProductId, edition| EditionKey::new(product.clone(), edition);
        let recorded = version.leaves.values().flat_map(|leaf| {
            leaf.editions.iter().map(|entry| {
                (
                    key(&leaf.product_id, entry.edition_id),
                    Standing::Recorded(entry.into()),
                )
            })
        });
        let retired = version
            .retired
            .keys()
            .map(|edition| (edition.clone(), Standing::Tombstone));
        Self {
            leaves: version
                .leaves
                .hashes()
                .map(|(product, leaf)| (product.clone(), leaf))
                .collect(),
            editions: recorded.chain(retired).collect(),
        }
    }

    /// How an edition stands.
    pub fn get(&self, edition: &EditionKey) -> Option<&Standing> {
        self.editions.get(edition)
    }

    /// Applies a version's change list to how its base stands; refuses one that starts from something else.
    pub fn apply(&mut self, changes: &[ChangeItem]) -> Result<(), ReplayError> {
        for item in changes {
            let found = self.leaves.get(&item.product_id).copied();
            if found != item.leaf_sha256.from {
                let (product_id, listed) = (item.product_id.clone(), item.leaf_sha256.from);
                return Err(ReplayError::OtherLeaf {
                    product_id,
                    listed,
                    found,
                });
            }
            match item.leaf_sha256.to {
                Some(leaf) => self.leaves.insert(item.product_id.clone(), leaf),
                None => self.leaves.remove(&item.product_id),
            };
            for change in &item.entries {
                self.apply_entry(&item.product_id, change)?;
            }
        }
        Ok(())
    }

    fn apply_entry(&mut self, product_id: &ProductId, change: &EntryChange) -> Result<(), ReplayError> {
        let edition = EditionKey::new(product_id.clone(), change.edition_id);
        let found = self.editions.get(&edition).map(Standing::status);
        if found != change.from {
            return Err(ReplayError::OtherStatus {
                edition,
                listed: change.from,
                found,
            });
        }
        match (change.to, &change.entry) {
            (Some(EntryStatus::State(state)), Some(entry)) if entry.state == state => {
                self.editions.insert(edition, Standing::Recorded(entry.clone()));
            }
            (Some(EntryStatus::Tombstone), None) => {
                self.editions.insert(edition, Standing::Tombstone);
            }
            (None, None) => {
                self.editions.remove(&edition);
            }
            (to, entry) => {
                let entry = entry.as_ref().map(|entry| EntryStatus::State(entry.state));
                return Err(ReplayError::EntryDoesNotFit { edition, to, entry });
            }
        }
        Ok(())
    }
}
