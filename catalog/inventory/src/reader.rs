//! Reading the Inventory: which version is the newest, and what is in it.
//!
//! A reader asks for documents by name through [`Fetch`] and never lists (INV-257, INV-392). [`find_head`] starts at `CURRENT`,
//! which it believes only as far as the root it names verifies, probes forward, and never goes back behind what its caller
//! holds; when `CURRENT` fails, it takes the long way over `catalog.json` and `HISTORY`. What comes out is a [`Head`], and
//! nothing else makes one: whoever stores a head to hold later stores a verified one.
//!
//! From a head, [`FullInventory`] loads everything and [`LiveInventory`] what the public may see. They are two types that
//! share no constructor and no trait (INV-213), so a function that serves the public cannot be handed the full one.

use thiserror::Error;

use crate::{
    doc::{DocError, EditionId, Epoch, ProductId, RootRef, Seq, Sha256},
    store::{PathError, StoreError},
};

mod chain;
mod fetch;
mod finding;
mod head;
mod inventory;
#[cfg(test)]
mod tests;

pub use chain::versions_back_from;
pub use fetch::Fetch;
pub use finding::{Finding, Invalid};
pub use head::{Freshness, Head, Refresh, Way, find_head};
pub(crate) use head::{find_base, find_base_from};
pub(crate) use inventory::fetch_leaves;
pub use inventory::{FullInventory, LiveEdition, LiveInventory, LiveProduct};

/// Why a reader has no newer version. What it held before stays good (INV-352): it goes on serving that.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The store has an older version than the one held.
    #[error(
        "the store's newest version is {found:?}, behind version {} of epoch {} held here: \
         a reader never goes back within an epoch (INV-258)",
        .held.seq, .held.restore_epoch
    )]
    Behind {
        /// What is held.
        held: RootRef,
        /// What the store has.
        found: Option<RootRef>,
    },
    /// The chain of roots is broken where it had to be followed.
    #[error("version {seq} {why} (INV-277)")]
    Chain {
        /// The version.
        seq: Seq,
        /// What is wrong with it.
        why: Invalid,
    },
    /// A version after the newest one that verifies is there or named.
    #[error(
        "version {seq} was written and cannot be read, so version {head} before it may be out of date (INV-258): {finding}"
    )]
    NewerLost {
        /// That version.
        seq: Seq,
        /// The newest one that verifies.
        head: Seq,
        /// What was found of it.
        finding: String,
    },
    /// A document that everything else rests on can't be read.
    #[error(transparent)]
    Document(#[from] DocError),
    /// The store failed.
    #[error(transparent)]
    Fetch(#[from] StoreError),
    /// A catalogue that opted in to expiry says nothing of how far it went.
    #[error("catalog.json has format 2, but there is no inventory/HISTORY: failing closed (INV-137, INV-262)")]
    HistoryMissing,
    /// `HISTORY` belongs to another catalogue.
    #[error("inventory/HISTORY names catalogue {history}, but catalog.json names {catalog} (INV-280)")]
    HistoryOfAnother {
        /// The id in `HISTORY`.
        history: crate::doc::CatalogId,
        /// The id in `catalog.json`.
        catalog: crate::doc::CatalogId,
    },
    /// A leaf the head names isn't there.
    #[error("version {seq} names leaf {leaf_sha256} for product {product_id}, and there is no such leaf (INV-167)")]
    LeafMissing {
        /// The version.
        seq: Seq,
        /// The product.
        product_id: ProductId,
        /// The leaf.
        leaf_sha256: Sha256,
    },
    /// A leaf the head names is another product's.
    #[error(
        "version {seq} names leaf {leaf_sha256} for product {product_id}, but the leaf is product {found}'s (INV-169)"
    )]
    LeafOfAnother {
        /// The version.
        seq: Seq,
        /// The product that names it.
        product_id: ProductId,
        /// The leaf.
        leaf_sha256: Sha256,
        /// The product in it.
        found: ProductId,
    },
    /// There is no `catalog.json`.
    #[error("there is no catalog.json, so there is no catalogue here (INV-262)")]
    NoCatalog,
    /// Neither a version nor one held.
    #[error("there is no version above {bound} in epoch {epoch} and none is held: failing closed (INV-265)")]
    NoVersion {
        /// The lower bound of the search.
        bound: u64,
        /// The epoch searched.
        epoch: Epoch,
    },
    /// A manifest that something rests on isn't there.
    #[error(
        "edition {edition_id} of product {product_id} has no manifest.json here, and its entry fills no routing fields (INV-187)"
    )]
    ManifestMissing {
        /// The product.
        product_id: ProductId,
        /// The edition.
        edition_id: EditionId,
    },
    /// A manifest isn't the recorded one, or can't be read.
    #[error(
        "the manifest of edition {edition_id} of product {product_id} does not verify, so nothing of it is used (INV-187)"
    )]
    Manifest {
        /// The product.
        product_id: ProductId,
        /// The edition.
        edition_id: EditionId,
        /// Why.
        source: DocError,
    },
    /// A name no store can have.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A leaf the head names does not verify.
    #[error("version {seq}: the leaf of product {product_id} does not verify")]
    Leaf {
        /// The version.
        seq: Seq,
        /// The product.
        product_id: ProductId,
        /// Why.
        source: DocError,
    },
}
