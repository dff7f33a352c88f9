//! Deleting what no edition needs any more.
//!
//! GC is the only one that deletes under `products/` (INV-415), and it deletes by a [`Plan`]: [`plan`] is the dry run, and
//! [`collect`] computes the plan again under the catalogue's lock and deletes only what both name, each after a line in the
//! deletion log. It reads the chain back through the data window and manifests, nothing else. What it can't read it takes for
//! a reason to keep: a missing root refuses the whole run (INV-414), a missing or damaged manifest keeps every data file of its
//! product. It never touches `inventory/` or `history/`: a [`Deletion`] can't name a file there.

use std::fmt;

use async_trait::async_trait;
use thiserror::Error;

use crate::{
    doc::{DocError, Instant, ProductId, RootRef, Seq},
    reader::ReadError,
    store::{PathError, StoreError},
    transition::{EditionKey, VersionError},
};

mod bucket;
mod collect;
mod directory;
mod plan;
#[cfg(test)]
mod tests;

pub use collect::{Collected, DeletionLog, JsonLinesLog, collect};
pub use plan::plan;

/// A file as GC sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// Its path relative to the catalogue's root.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last written.
    pub modified: Instant,
}

/// The files below `products/`, whatever their names: here a plain directory's ([`crate::verify::DirectoryFiles`]) and a bucket's
/// ([`crate::store::BucketStore`]).
#[async_trait]
pub trait ProductFiles: Send + Sync {
    /// Lists every file below a folder, at any depth.
    async fn list_files(&self, folder: &str) -> Result<Vec<StoredFile>, StoreError>;

    /// Deletes one; that it is gone already is no error.
    async fn delete_file(&self, path: &str) -> Result<(), StoreError>;
}

/// Why something is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// INV-411, INV-413: the edition was retired longer ago than every window.
    Retired {
        /// The edition.
        edition: EditionKey,
        /// When.
        retired_at: Instant,
    },
    /// INV-413: no manifest of an edition recorded, retired or waiting within the window lists the file.
    Unlisted {
        /// The product.
        product_id: ProductId,
        /// When the file was written.
        modified: Instant,
    },
    /// INV-448: the registration was folded and its edition has been recorded for longer than the window.
    Folded {
        /// The edition.
        edition: EditionKey,
        /// Since when.
        recorded: Instant,
    },
}

impl Why {
    /// The number of the rule that allows it (`INV-n`).
    pub fn rule(&self) -> u16 {
        match self {
            Self::Retired { .. } | Self::Unlisted { .. } => 413,
            Self::Folded { .. } => 448,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retired { edition, retired_at } => write!(f, "{edition} was retired at {retired_at}"),
            Self::Unlisted { product_id, modified } => {
                write!(
                    f,
                    "no manifest of product {product_id} lists it, and it was written at {modified}"
                )
            }
            Self::Folded { edition, recorded } => write!(f, "{edition} has been recorded since {recorded}"),
        }
    }
}

/// One file to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    path: String,
    size: u64,
    why: Why,
}

impl Deletion {
    /// The file, always below `products/` or `pending/`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its size in bytes; 0 for a registration.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Why.
    pub fn why(&self) -> &Why {
        &self.why
    }
}

/// Data files that are kept although nothing lists them, because it can't be known that nothing does.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Kept {
    /// A manifest that may list them is not there.
    #[error("data files of product {} are kept: there is no manifest of {edition}, so what it lists is unknown (INV-413)", edition.product_id)]
    ManifestMissing {
        /// The edition.
        edition: EditionKey,
    },
    /// A manifest that may list them does not verify.
    #[error("data files of product {} are kept: the manifest of {edition} does not verify: {source} (INV-216)", edition.product_id)]
    ManifestInvalid {
        /// The edition.
        edition: EditionKey,
        /// Why.
        source: DocError,
    },
}

/// What a run would delete.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Plan {
    /// The version it was made on.
    pub head: RootRef,
    /// The time it was made for.
    pub now: Instant,
    /// The oldest version it read.
    pub oldest: Seq,
    /// What to delete, in the order to delete it: data files, directories with their manifests last, registrations.
    pub deletions: Vec<Deletion>,
    /// Products whose data files are kept, and why.
    pub kept: Vec<Kept>,
}

impl Plan {
    /// How many bytes it would free.
    pub fn bytes(&self) -> u64 {
        self.deletions.iter().map(|deletion| deletion.size).sum()
    }
}

/// Why nothing is deleted, or nothing more.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GcRefused {
    /// A root within the window is missing.
    #[error("version {seq} is missing and has not expired, so what it records is unknown: deleting nothing (INV-414)")]
    RootMissing {
        /// The version.
        seq: Seq,
    },
    /// A leaf of a version within the window is missing or damaged.
    #[error("a leaf of product {product_id} in version {seq} does not verify, so what it records is unknown (INV-414)")]
    Leaf {
        /// The version.
        seq: Seq,
        /// The product.
        product_id: ProductId,
    },
    /// A document does not decode.
    #[error("{path}: {source}")]
    Document {
        /// The document.
        path: String,
        /// Why.
        source: DocError,
    },
    /// The chain can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A name no store can have.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A root and its leaves contradict each other.
    #[error(transparent)]
    Version(#[from] VersionError),
}
