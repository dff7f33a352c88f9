//! Copies of a catalogue: the whole of it, or what the public may see.
//!
//! [`export_full`] copies every byte under its own name, in the order of dependency, so that a copy that was interrupted never
//! names what it does not have (INV-132, INV-394). [`export_live`] writes a chain of its own under a new id: its versions hold
//! live editions only and its change lists only the ways into and out of live, so that nothing in it shows that an embargoed
//! edition exists (INV-214, INV-390).

use thiserror::Error;

use crate::{
    doc::{CatalogId, DocError, ProductId, Seq, Sha256},
    reader::ReadError,
    store::{PathError, StoreError},
    transition::{EditionKey, VersionError},
    writer::WriteError,
};

mod full;
mod live;
#[cfg(test)]
mod tests;
mod transfer;

pub(crate) use full::manifest_edition;
pub use full::{FullCopy, export_full};
pub use live::{LiveCopy, LiveExport, export_live};
pub use transfer::{DirectoryTransfer, FileTransfer, StoreTransfer, Transferred};

/// Why a copy was not made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A root, leaf or segment is there with other bytes.
    #[error(
        "{path} is in the copy with other bytes than in the catalogue: it is another catalogue's, or was changed (INV-391)"
    )]
    Differs {
        /// The document.
        path: String,
    },
    /// A document does not decode, or is not what it is named by.
    #[error("{path}: {source}")]
    Document {
        /// The document.
        path: String,
        /// What is wrong.
        source: DocError,
    },
    /// A file is not what its manifest says.
    #[error("{path} has {found}, the manifest of {edition} says {recorded}: not copied (INV-417)")]
    File {
        /// The edition.
        edition: EditionKey,
        /// The file.
        path: String,
        /// What the manifest says.
        recorded: String,
        /// What was read.
        found: String,
    },
    /// A listed file is not there.
    #[error("{edition} lists {path}, and it is not there: the copy could not be restored (INV-393)")]
    FileMissing {
        /// The edition.
        edition: EditionKey,
        /// The file.
        path: String,
    },
    /// A leaf is missing or wrong.
    #[error("version {seq}: the leaf {leaf_sha256} of product {product_id} does not verify (INV-167)")]
    Leaf {
        /// The version.
        seq: Seq,
        /// The product.
        product_id: ProductId,
        /// The leaf.
        leaf_sha256: Sha256,
    },
    /// The manifest of a recorded edition is not there.
    #[error("there is no manifest of {edition}, which the newest version records (INV-393)")]
    ManifestMissing {
        /// The edition.
        edition: EditionKey,
    },
    /// A root disappeared.
    #[error("version {seq} was there and is gone, and the catalogue expires nothing (INV-447)")]
    RootGone {
        /// The version.
        seq: Seq,
    },
    /// The copy is of another catalogue.
    #[error("{found} is there already, and the catalogue to copy is {expected} (INV-132)")]
    OfAnotherCatalog {
        /// The catalogue in the copy.
        found: CatalogId,
        /// The one to copy.
        expected: CatalogId,
    },
    /// There is a catalogue that is no live-only export.
    #[error("catalogue {found} is there already and is no live-only export: nothing was written (INV-390)")]
    NotLiveOnly {
        /// Its id.
        found: CatalogId,
    },
    /// A live-only export takes an id of its own.
    #[error("a live-only export of catalogue {0} needs another id (INV-132)")]
    SameId(CatalogId),
    /// A name no store can have.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The catalogue can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The live chain can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The root and its leaves don't fit together.
    #[error(transparent)]
    Version(#[from] VersionError),
}
