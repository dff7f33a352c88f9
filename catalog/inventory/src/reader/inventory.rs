//! What is in a version: everything, or what the public may see.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use futures::{StreamExt as _, TryStreamExt as _};

use super::{Fetch, Head, ReadError};
use crate::{
    doc::{
        ArtefactFingerprint, CleanText, EditionId, EditionState, Entry, Instant, Leaf, LeafRef, Lifecycle, Manifest,
        ProductId, ProductKind, RootRef, Routing, Seq, Sha256, Stored, Urn, layout,
    },
    store::StorePath,
    transition::{Version, VersionError},
};

/// How many leaves are asked for at once.
const LEAVES_AT_ONCE: usize = 16;

/// A version with all its entries: for writers and operators only.
#[derive(Debug, Clone)]
pub struct FullInventory {
    head: Head,
    leaves: BTreeMap<ProductId, Arc<Stored<Leaf>>>,
}

impl FullInventory {
    /// Loads a version, taking from `earlier` every leaf whose hash is the same (INV-349).
    pub async fn load<F: Fetch + ?Sized>(fetch: &F, head: Head, earlier: Option<&Self>) -> Result<Self, ReadError> {
        let known = |product: &ProductId, leaf: &LeafRef| {
            let leaf_there = earlier.and_then(|earlier| earlier.leaves.get(product));
            leaf_there.filter(|held| held.sha256() == leaf.leaf_sha256).cloned()
        };
        let leaves = load_leaves(fetch, &head, known, Arc::new).await?;
        Ok(Self { head, leaves })
    }

    /// The version as transitions take it.
    pub fn to_version(&self) -> Result<Version, VersionError> {
        let by_hash: HashMap<Sha256, &Arc<Stored<Leaf>>> =
            self.leaves.values().map(|leaf| (leaf.sha256(), leaf)).collect();
        Version::of(self.head.root(), |leaf| by_hash.get(&leaf).map(|leaf| Arc::clone(leaf)))
    }

    /// The version.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Every product's leaf.
    pub fn leaves(&self) -> &BTreeMap<ProductId, Arc<Stored<Leaf>>> {
        &self.leaves
    }

    /// The entry of an edition.
    pub fn entry(&self, product: &ProductId, edition: &EditionId) -> Option<&Entry> {
        self.leaves.get(product)?.entry(edition)
    }
}

/// The live editions of a version: for everything that serves or routes (INV-213).
///
/// Entries in any other state are dropped while the leaves are read, and a product without a live edition with them, so
/// that nothing which holds this can show that an embargoed edition exists. The root's change list, which names them
/// (INV-446), is dropped too.
///
/// ```compile_fail,E0308
/// # use sovm_inventory::reader::{FullInventory, LiveInventory};
/// fn serve(_: &LiveInventory) {}
/// // INV-213: nothing that serves the public takes the full view.
/// fn wrong(full: &FullInventory) { serve(full) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveInventory {
    version: RootRef,
    written_at: Instant,
    products: BTreeMap<ProductId, Arc<LiveProduct>>,
    /// Leaves of products with nothing live, so that the next version doesn't fetch them again.
    silent: BTreeMap<ProductId, Sha256>,
}

/// A product with at least one live edition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveProduct {
    /// What it holds.
    pub kind: ProductKind,
    /// Whether its content may change.
    pub lifecycle: Lifecycle,
    /// Its live editions: one, or during a rollout one for each schema version (INV-204).
    pub editions: Vec<LiveEdition>,
    leaf_sha256: Sha256,
}

/// A live edition. There is no release time and no state in it: it has been released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveEdition {
    /// The edition.
    pub edition_id: EditionId,
    /// The edition it was built from.
    pub previous: Option<EditionId>,
    /// The SHA-256 of its manifest, to verify before anything else is read of it.
    pub manifest_sha256: Sha256,
    /// The store schema it was written at.
    pub schema_version: CleanText,
    /// Since when it is live.
    pub live_since: Instant,
    /// Its artefacts, when the writer filled them in.
    pub artefacts: Option<BTreeMap<Urn, ArtefactFingerprint>>,
    /// What a router needs, when the writer filled it in; else
    /// [`read_routing`](Self::read_routing) takes it from the manifest.
    pub routing: Option<Routing>,
}

impl LiveEdition {
    /// INV-187: what a router needs of the edition: from the Inventory, or from the manifest, which is verified by its recorded hash
    /// before anything in it is used. `product` is the product the edition is of.
    pub async fn read_routing<F: Fetch + ?Sized>(&self, fetch: &F, product: &ProductId) -> Result<Routing, ReadError> {
        if let Some(routing) = &self.routing {
            return Ok(routing.clone());
        }
        let (product_id, edition_id) = (product.clone(), self.edition_id);
        let path = StorePath::parse(&layout::manifest(product, &edition_id))?;
        let Some(bytes) = fetch.fetch(&path).await? else {
            return Err(ReadError::ManifestMissing { product_id, edition_id });
        };
        let read = Stored::<Manifest>::verify(bytes, self.manifest_sha256)
            .and_then(|manifest| manifest.check_path(product, &edition_id).map(|()| manifest.routing()));
        read.map_err(|source| ReadError::Manifest {
            product_id,
            edition_id,
            source,
        })
    }
}

/// A product as the live view keeps it.
enum Seen {
    Live(Arc<LiveProduct>),
    Silent(Sha256),
}

impl LiveInventory {
    /// Loads the live editions of a version, taking from `earlier` every product whose leaf has the same hash (INV-349).
    pub async fn load<F: Fetch + ?Sized>(fetch: &F, head: &Head, earlier: Option<&Self>) -> Result<Self, ReadError> {
        let known = |product: &ProductId, leaf: &LeafRef| {
            let earlier = earlier?;
            match (earlier.products.get(product), earlier.silent.get(product)) {
                (Some(held), _) if held.leaf_sha256 == leaf.leaf_sha256 => Some(Seen::Live(held.clone())),
                (_, Some(held)) if *held == leaf.leaf_sha256 => Some(Seen::Silent(*held)),
                _ => None,
            }
        };
        let mut inventory = Self {
            version: head.reference(),
            written_at: head.root().created_at,
            products: BTreeMap::new(),
            silent: BTreeMap::new(),
        };
        for (product, seen) in load_leaves(fetch, head, known, live_part).await? {
            match seen {
                Seen::Live(live) => drop(inventory.products.insert(product, live)),
                Seen::Silent(leaf) => drop(inventory.silent.insert(product, leaf)),
            }
        }
        Ok(inventory)
    }

    /// Which version this is.
    pub fn version(&self) -> RootRef {
        self.version
    }

    /// Its sequence number.
    pub fn seq(&self) -> Seq {
        self.version.seq
    }

    /// When it was written.
    pub fn written_at(&self) -> Instant {
        self.written_at
    }

    /// Every product with something live.
    pub fn products(&self) -> impl Iterator<Item = (&ProductId, &LiveProduct)> {
        self.products.iter().map(|(id, product)| (id, &**product))
    }

    /// A product, if something of it is live.
    pub fn product(&self, product: &ProductId) -> Option<&LiveProduct> {
        self.products.get(product).map(|product| &**product)
    }

    /// INV-204: the product's head at a reader's schema version. Without a live edition there, there is no head.
    pub fn head_of(&self, product: &ProductId, schema_version: &CleanText) -> Option<&LiveEdition> {
        self.product(product)?
            .editions
            .iter()
            .find(|edition| edition.schema_version == *schema_version)
    }
}

fn live_part(leaf: Stored<Leaf>) -> Seen {
    let leaf_sha256 = leaf.sha256();
    let leaf = leaf.into_value();
    let editions: Vec<_> = leaf
        .editions
        .into_iter()
        .filter(|entry| entry.state == EditionState::Live)
        .map(|entry| LiveEdition {
            edition_id: entry.edition_id,
            previous: entry.previous,
            manifest_sha256: entry.manifest_sha256,
            schema_version: entry.schema_version,
            live_since: entry.state_changed_at,
            artefacts: entry.artefacts,
            routing: entry.routing,
        })
        .collect();
    if editions.is_empty() {
        return Seen::Silent(leaf_sha256);
    }
    Seen::Live(Arc::new(LiveProduct {
        kind: leaf.kind,
        lifecycle: leaf.lifecycle,
        editions,
        leaf_sha256,
    }))
}

/// Reads every leaf of a version that isn't known already, verified by the hash the root names.
async fn load_leaves<F: Fetch + ?Sized, T>(
    fetch: &F,
    head: &Head,
    known: impl Fn(&ProductId, &LeafRef) -> Option<T>,
    keep: impl Fn(Stored<Leaf>) -> T,
) -> Result<BTreeMap<ProductId, T>, ReadError> {
    let seq = head.root().seq;
    let mut leaves = BTreeMap::new();
    let mut wanted = Vec::new();
    for (product, leaf) in &head.root().products {
        match known(product, leaf) {
            Some(held) => drop(leaves.insert(product.clone(), held)),
            None => wanted.push((product.clone(), *leaf)),
        }
    }
    leaves.extend(fetch_leaves(fetch, seq, wanted, keep).await?);
    Ok(leaves)
}

/// Reads leaves of a version, each verified by the hash its root names.
pub(crate) async fn fetch_leaves<F: Fetch + ?Sized, T>(
    fetch: &F,
    seq: Seq,
    wanted: Vec<(ProductId, LeafRef)>,
    keep: impl Fn(Stored<Leaf>) -> T,
) -> Result<Vec<(ProductId, T)>, ReadError> {
    let mut leaves = Vec::with_capacity(wanted.len());
    let loads = wanted.into_iter().map(|(product_id, leaf)| async move {
        let leaf_sha256 = leaf.leaf_sha256;
        let Some(bytes) = fetch.fetch(&StorePath::parse(&leaf.path())?).await? else {
            return Err(ReadError::LeafMissing {
                seq,
                product_id,
                leaf_sha256,
            });
        };
        let leaf = match Stored::<Leaf>::verify(bytes, leaf_sha256) {
            Ok(leaf) => leaf,
            Err(source) => {
                return Err(ReadError::Leaf {
                    seq,
                    product_id,
                    source,
                });
            }
        };
        if leaf.product_id != product_id {
            return Err(ReadError::LeafOfAnother {
                seq,
                product_id,
                leaf_sha256,
                found: leaf.into_value().product_id,
            });
        }
        Ok((product_id, leaf))
    });
    let mut loads = futures::stream::iter(loads).buffer_unordered(LEAVES_AT_ONCE);
    while let Some((product, leaf)) = loads.try_next().await? {
        leaves.push((product, keep(leaf)));
    }
    Ok(leaves)
}
