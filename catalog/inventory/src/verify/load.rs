//! One version, read for checking.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{StreamExt as _, TryStreamExt as _};

use super::Fault;
use crate::{
    doc::{DocError, Leaf, LeafRef, ProductId, Root, Seq, Sha256, Stored, Unverified, layout},
    store::{InventoryStore, StoreError, StorePath},
    transition::{Version, VersionError},
};

/// How many leaves are asked for at once.
const LEAVES_AT_ONCE: usize = 16;

/// A root and those of its leaves that verify.
pub(crate) struct Loaded {
    /// The root as found; what vouches for it is its caller's business.
    pub(crate) root: Stored<Root, Unverified>,
    /// Its leaves.
    pub(crate) leaves: BTreeMap<ProductId, Arc<Stored<Leaf>>>,
    /// The products whose leaf is missing or wrong, with the hash the root names.
    pub(crate) bad: BTreeMap<ProductId, Sha256>,
    /// The products whose leaf the version it was loaded beside does not have.
    pub(crate) fetched: Vec<ProductId>,
}

/// Reads a root by its number. The outer error is the store's, the inner one the document's.
pub(crate) async fn root_at(
    store: &dyn InventoryStore,
    seq: Seq,
) -> Result<Option<Result<Stored<Root, Unverified>, DocError>>, StoreError> {
    let found = store.get(&StorePath::parse(&layout::root(seq))?).await?;
    Ok(found.map(|found| Stored::decode(found.bytes)))
}

/// Reads a root's leaves, taking those with the same hash from the version beside it. What is wrong with a leaf goes to
/// `report` once, not again for every version that names it.
pub(crate) async fn load(
    store: &dyn InventoryStore,
    root: Stored<Root, Unverified>,
    beside: Option<&Loaded>,
    report: &mut (dyn FnMut(String, Fault) + Send),
) -> Result<Loaded, StoreError> {
    let mut leaves = BTreeMap::new();
    let mut bad = BTreeMap::new();
    let mut wanted = Vec::new();
    for (product_id, LeafRef { leaf_sha256 }) in &root.products {
        let held = beside.and_then(|beside| beside.leaves.get(product_id));
        let known_bad = beside.and_then(|beside| beside.bad.get(product_id)) == Some(leaf_sha256);
        match held.filter(|held| held.sha256() == *leaf_sha256) {
            Some(held) => drop(leaves.insert(product_id.clone(), Arc::clone(held))),
            None if known_bad => drop(bad.insert(product_id.clone(), *leaf_sha256)),
            None => wanted.push((product_id.clone(), *leaf_sha256)),
        }
    }
    let get = |(product_id, leaf_sha256): (ProductId, Sha256)| async move {
        let found = store.get(&StorePath::parse(&layout::leaf(&leaf_sha256))?).await?;
        Ok::<_, StoreError>((product_id, leaf_sha256, found))
    };
    let gets: Vec<_> = wanted.into_iter().map(get).collect();
    let mut gets = futures::stream::iter(gets).buffered(LEAVES_AT_ONCE);
    let mut fetched = Vec::new();
    while let Some((product_id, leaf_sha256, found)) = gets.try_next().await? {
        let seq = root.seq;
        let fault = match found.map(|found| Stored::<Leaf>::verify(found.bytes, leaf_sha256)) {
            Some(Ok(leaf)) if leaf.product_id == product_id => {
                fetched.push(product_id.clone());
                leaves.insert(product_id, Arc::new(leaf));
                continue;
            }
            Some(Ok(leaf)) => Fault::LeafOfAnother {
                seq,
                product_id: product_id.clone(),
                found: leaf.product_id.clone(),
            },
            Some(Err(error)) => Fault::Document(error),
            None => Fault::LeafMissing {
                seq,
                product_id: product_id.clone(),
            },
        };
        report(layout::leaf(&leaf_sha256), fault);
        bad.insert(product_id, leaf_sha256);
    }
    drop(gets);
    Ok(Loaded {
        root,
        leaves,
        bad,
        fetched,
    })
}

impl Loaded {
    /// The version without some products, which must be every one whose leaf is bad.
    pub(crate) fn version(&self, without: &BTreeSet<ProductId>) -> Result<Version, VersionError> {
        self.part(|product_id| !without.contains(product_id))
    }

    /// The version of some products alone, as far as their leaves verify.
    pub(crate) fn part(&self, keep: impl Fn(&ProductId) -> bool) -> Result<Version, VersionError> {
        let mut root = self.root.value().clone();
        root.products
            .retain(|product_id, _| keep(product_id) && self.leaves.contains_key(product_id));
        root.retired.retain(|tombstone| keep(&tombstone.product_id));
        let by_hash: BTreeMap<Sha256, &Arc<Stored<Leaf>>> = root
            .products
            .keys()
            .filter_map(|product_id| self.leaves.get(product_id))
            .map(|leaf| (leaf.sha256(), leaf))
            .collect();
        Version::of(&root, |leaf| by_hash.get(&leaf).map(|leaf| Arc::clone(leaf)))
    }
}
