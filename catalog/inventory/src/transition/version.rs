//! A version of the Inventory as transitions see it: a root and all its leaves.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{EditionKey, Refusal, leaves::Leaves};
use crate::doc::{
    CleanText, EditionId, EditionState, Entry, EntryStatus, Instant, Leaf, LeafRef, ProductId, Root, Seq, Sha256,
    Stored, Tombstone,
};

/// A root with the leaves it names: what a transition starts from and what it produces.
///
/// Leaves are shared between versions, so a version costs memory for what it changed only. [`Version::of`] takes every leaf.
/// A commit hands out versions of which only some leaves were read: whatever is concluded from a leaf that was not, the commit
/// throws away, reads the leaf and asks again.
#[derive(Clone, Debug)]
pub struct Version {
    pub(super) seq: Option<Seq>,
    pub(super) created_at: Option<Instant>,
    pub(super) embargo: bool,
    pub(super) leaves: Leaves,
    pub(super) retired: BTreeMap<EditionKey, Tombstone>,
}

/// A root and the leaves given for it do not belong together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// A leaf the root names was not given.
    #[error("INV-154: version {seq} names leaf {leaf_sha256} for product {product_id}, which was not read")]
    LeafMissing {
        /// The version.
        seq: Seq,
        /// The product.
        product_id: ProductId,
        /// The leaf.
        leaf_sha256: Sha256,
    },
    /// A leaf belongs to another product.
    #[error("INV-154: version {seq} names leaf {leaf_sha256} for product {product_id}, it is of product {found}")]
    OtherProduct {
        /// The version.
        seq: Seq,
        /// The product.
        product_id: ProductId,
        /// The leaf.
        leaf_sha256: Sha256,
        /// The product the leaf is of.
        found: ProductId,
    },
    /// An edition is recorded and retired at once.
    #[error("INV-181: in version {seq} {edition} is {state} and a tombstone at once")]
    RecordedAndRetired {
        /// The version.
        seq: Seq,
        /// The edition.
        edition: EditionKey,
        /// The state its entry has.
        state: EditionState,
    },
}

impl Version {
    /// The state before the first version: no product, no tombstone.
    pub fn before_the_first(embargo: bool) -> Self {
        Self {
            seq: None,
            created_at: None,
            embargo,
            leaves: Leaves::default(),
            retired: BTreeMap::new(),
        }
    }

    /// Joins a root with its leaves. `leaf` gives the verified leaf of a hash; leaves are asked for by hash, so a reader can
    /// hand out the ones it holds already.
    pub fn of(root: &Root, mut leaf: impl FnMut(Sha256) -> Option<Arc<Stored<Leaf>>>) -> Result<Self, VersionError> {
        let mut version = Self::named(root);
        for (product_id, LeafRef { leaf_sha256 }) in &root.products {
            // A leaf under a wrong hash would be a caller's mistake; it is treated as one that was not read.
            let Some(leaf) = leaf(*leaf_sha256).filter(|leaf| leaf.sha256() == *leaf_sha256) else {
                return Err(version.leaf_missing(product_id, *leaf_sha256));
            };
            version.read(product_id, leaf)?;
        }
        Ok(version)
    }

    /// The version of a root whose leaves are known by their hashes alone.
    pub(crate) fn named(root: &Root) -> Self {
        let mut leaves = Leaves::default();
        for (product_id, LeafRef { leaf_sha256 }) in &root.products {
            leaves.insert_named(product_id.clone(), *leaf_sha256);
        }
        let mut retired = BTreeMap::new();
        for tombstone in &root.retired {
            let edition = EditionKey::new(tombstone.product_id.clone(), tombstone.edition_id);
            retired.entry(edition).or_insert_with(|| tombstone.clone());
        }
        Self {
            seq: Some(root.seq),
            created_at: Some(root.created_at),
            embargo: root.embargo,
            leaves,
            retired,
        }
    }

    /// Takes a leaf that was read: the one the root names for this product, in which no edition stands that is a tombstone.
    pub(crate) fn read(&mut self, product_id: &ProductId, leaf: Arc<Stored<Leaf>>) -> Result<(), VersionError> {
        let seq = self.seq.unwrap_or(Seq::FIRST);
        let leaf_sha256 = leaf.sha256();
        match self.leaves.sha256(product_id) {
            Some(named) if named == leaf_sha256 => {}
            named => return Err(self.leaf_missing(product_id, named.unwrap_or(leaf_sha256))),
        }
        if leaf.product_id != *product_id {
            return Err(VersionError::OtherProduct {
                seq,
                product_id: product_id.clone(),
                leaf_sha256,
                found: leaf.product_id.clone(),
            });
        }
        for entry in leaf.editions.iter().filter(|_| !self.retired.is_empty()) {
            let edition = EditionKey::new(product_id.clone(), entry.edition_id);
            if self.retired.contains_key(&edition) {
                let state = entry.state;
                return Err(VersionError::RecordedAndRetired { seq, edition, state });
            }
        }
        self.leaves.insert(product_id.clone(), leaf);
        Ok(())
    }

    /// The leaf of a product, if it was read.
    pub(crate) fn leaf_if_read(&self, product_id: &ProductId) -> Option<&Arc<Stored<Leaf>>> {
        self.leaves.peek(product_id)
    }

    /// The products whose leaves were asked for since the last call and are known by their hashes alone. While there are
    /// any, nothing that was concluded from this version holds.
    pub(crate) fn take_asked(&self) -> BTreeSet<ProductId> {
        self.leaves.take_asked()
    }

    /// The leaves this version has and another one has not, by product.
    pub(crate) fn new_leaves(&self, base: &Self) -> Result<Vec<Arc<Stored<Leaf>>>, VersionError> {
        let mut new = Vec::new();
        for product_id in self.leaves.differing(&base.leaves) {
            match (self.leaves.peek(product_id), self.leaves.sha256(product_id)) {
                (Some(leaf), _) => new.push(Arc::clone(leaf)),
                (None, Some(leaf_sha256)) => return Err(self.leaf_missing(product_id, leaf_sha256)),
                (None, None) => {}
            }
        }
        Ok(new)
    }

    /// This version once it is written under a root, to be a base itself.
    pub(crate) fn written_as(mut self, root: &Root) -> Self {
        self.seq = Some(root.seq);
        self.created_at = Some(root.created_at);
        self.leaves.part_from_base();
        self
    }

    /// The error of a leaf that is known by its hash where it is needed.
    pub(crate) fn missing(&self, product_id: ProductId) -> VersionError {
        let leaf_sha256 = self.leaves.sha256(&product_id).unwrap_or_else(|| Sha256::of(&[]));
        self.leaf_missing(&product_id, leaf_sha256)
    }

    fn leaf_missing(&self, product_id: &ProductId, leaf_sha256: Sha256) -> VersionError {
        VersionError::LeafMissing {
            seq: self.seq.unwrap_or(Seq::FIRST),
            product_id: product_id.clone(),
            leaf_sha256,
        }
    }

    /// The version's number; none before the first.
    pub fn seq(&self) -> Option<Seq> {
        self.seq
    }

    /// When it was written; none before the first.
    pub fn created_at(&self) -> Option<Instant> {
        self.created_at
    }

    /// Whether a sealed edition waits for a release.
    pub fn embargo(&self) -> bool {
        self.embargo
    }

    /// Every product's leaf.
    pub fn leaves(&self) -> impl Iterator<Item = &Arc<Stored<Leaf>>> {
        self.leaves.values()
    }

    /// One product's leaf.
    pub fn leaf(&self, product_id: &ProductId) -> Option<&Arc<Stored<Leaf>>> {
        self.leaves.get(product_id)
    }

    /// The `products` of this version's root.
    pub fn products(&self) -> BTreeMap<ProductId, LeafRef> {
        self.leaves
            .hashes()
            .map(|(product_id, leaf_sha256)| (product_id.clone(), LeafRef { leaf_sha256 }))
            .collect()
    }

    /// The `retired` list of this version's root, sorted by product and edition.
    pub fn retired(&self) -> impl Iterator<Item = &Tombstone> {
        self.retired.values()
    }

    /// An edition's entry.
    pub fn entry(&self, edition: &EditionKey) -> Option<&Entry> {
        self.leaves.get(&edition.product_id)?.entry(&edition.edition_id)
    }

    /// INV-193: an edition's state, or that it is a tombstone; none when it was never recorded.
    pub fn status(&self, edition: &EditionKey) -> Option<EntryStatus> {
        match self.entry(edition) {
            Some(entry) => Some(EntryStatus::State(entry.state)),
            None => self.retired.contains_key(edition).then_some(EntryStatus::Tombstone),
        }
    }

    /// INV-204: a product's head for a reader of `schema_version`: the live edition of that version, or none.
    pub fn head(&self, product_id: &ProductId, schema_version: &CleanText) -> Option<&Entry> {
        live_at(self.leaves.get(product_id)?, schema_version)
    }

    /// What is wrong with this version by itself: two live editions of a product at one schema version (INV-215), a
    /// `previous` nobody knows (INV-235). Empty for every version a transition produced.
    pub fn findings(&self) -> Vec<Refusal> {
        let known = |edition: &EditionKey| self.status(edition).is_some();
        self.leaves
            .values()
            .flat_map(|leaf| leaf_findings(leaf, known))
            .collect()
    }
}

/// The entry that is live at a schema version.
pub(super) fn live_at<'a>(leaf: &'a Leaf, schema_version: &CleanText) -> Option<&'a Entry> {
    leaf.editions
        .iter()
        .find(|entry| entry.state == EditionState::Live && entry.schema_version == *schema_version)
}

/// The findings of one leaf; `known` says whether an edition of the product is recorded or a tombstone.
pub(super) fn leaf_findings(leaf: &Leaf, known: impl Fn(&EditionKey) -> bool) -> Vec<Refusal> {
    let key = |edition_id| EditionKey::new(leaf.product_id.clone(), edition_id);
    let mut findings = Vec::new();
    let mut live: BTreeMap<&CleanText, EditionId> = BTreeMap::new();
    for entry in &leaf.editions {
        if entry.state == EditionState::Live
            && let Some(first) = live.insert(&entry.schema_version, entry.edition_id)
        {
            findings.push(Refusal::TwoLive {
                product_id: leaf.product_id.clone(),
                first,
                second: entry.edition_id,
                schema_version: entry.schema_version.clone(),
            });
        }
        if let Some(previous) = entry.previous
            && !known(&key(previous))
        {
            findings.push(Refusal::PreviousUnknown {
                edition: key(entry.edition_id),
                previous,
            });
        }
    }
    findings
}
