//! Where an Inventory's documents lie: exclusive creation, conditional update, durability.
//!
//! The protocol of the Inventory needs little of a store, and needs that little exactly:
//!
//! - **exclusive creation**, complete before it is visible, because creating `inventory/<seq>.json` is the commit;
//! - **conditional replacement**, because `CURRENT`, `HISTORY` and `catalog.json` are the only documents ever rewritten;
//! - a **lock** that one writer holds from its first leaf to `CURRENT`.
//!
//! [`InventoryStore`] is those three and reading. [`LocalStore`] is a plain directory, [`MemoryStore`] is for tests and
//! throw-away catalogues, [`BucketStore`] is any `object_store` with conditional put. `testing::conformance` holds what
//! each of them must do, and runs on each. A [`Layer`] lies over any of them.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;

mod bucket;
mod layer;
mod local;
mod memory;
mod path;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use bucket::{BucketFailure, BucketFault, BucketStore};
pub use layer::Layer;
pub use local::LocalStore;
pub use memory::MemoryStore;
pub use path::{PathError, StorePath};

/// The largest document a store hands out. A root that republishes 7,000 products takes about 8 MB and a history segment
/// at most 64 MiB; whatever is larger than this was not written by an Inventory.
pub const DOCUMENT_BYTES_MAX: u64 = 256 << 20;

/// A place where an Inventory's documents lie.
///
/// An error from [`create`](Self::create) or [`replace`](Self::replace) leaves the outcome unknown: the call may have
/// taken effect before it failed. Only [`Creation::Exists`] and [`Replacement::Changed`] say that it did not.
#[async_trait]
pub trait InventoryStore: fmt::Debug + Send + Sync + 'static {
    /// Reads a document, or `None` when there is none under that name.
    async fn get(&self, path: &StorePath) -> Result<Option<Found>, StoreError>;

    /// Creates a document that must not exist yet.
    ///
    /// No reader ever sees a part of it: it is there with all its bytes, durably, or it is not there (INV-242, INV-243).
    async fn create(&self, path: &StorePath, bytes: Bytes) -> Result<Creation, StoreError>;

    /// Replaces a document that must still be at `expected`. Readers see the old bytes or the new ones.
    async fn replace(&self, path: &StorePath, expected: &Revision, bytes: Bytes) -> Result<Replacement, StoreError>;

    /// Deletes a document. Deleting one that is not there is no error, so that an interrupted deletion can be repeated.
    async fn delete(&self, path: &StorePath) -> Result<(), StoreError>;

    /// Names every document under a folder, at any depth, sorted. `None` means the whole store.
    ///
    /// Readers of the Inventory never list (INV-392); the repair of a seal, `rebuild` and expiry do.
    async fn list(&self, folder: Option<&StorePath>) -> Result<Vec<StorePath>, StoreError>;

    /// Waits for the catalogue's lock and takes it. It isn't reentrant.
    async fn lock(&self) -> Result<StoreLock, StoreError>;

    /// Whom the lock keeps out.
    fn lock_reach(&self) -> LockReach;
}

/// A document's bytes and what identifies them for a conditional replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The document, exactly as it was written.
    pub bytes: Bytes,
    /// What to pass to [`InventoryStore::replace`].
    pub revision: Revision,
}

/// What a store tells two states of one document apart by: an ETag, or a hash of the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Revision(Arc<str>);

impl Revision {
    /// Wraps a store's own mark. Only a store makes these.
    pub fn new(mark: &str) -> Self {
        Self(mark.into())
    }

    /// The mark a store made it from.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The revision of stores that compare content.
    fn of_bytes(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self::new(&hex::encode(sha2::Sha256::digest(bytes)))
    }
}

/// How an exclusive creation went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Creation {
    /// This call created the document.
    Created,
    /// A document has the name already; nothing was written.
    Exists,
}

/// How a conditional replacement went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Replacement {
    /// The document is gone, or no longer at the expected revision; nothing was written.
    Changed,
    /// This call replaced the document.
    Replaced,
}

/// Whom a store's lock keeps out (INV-141: what expires old versions must know).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockReach {
    /// Every writer that can reach the store.
    EveryWriter,
    /// Writers of this process alone: another machine isn't kept out.
    ThisProcess,
}

/// The catalogue's lock, held until dropped.
#[must_use]
pub struct StoreLock {
    _held: Box<dyn Send + Sync>,
}

impl StoreLock {
    /// Wraps what releases the lock when it is dropped.
    pub fn new(held: impl Send + Sync + 'static) -> Self {
        Self { _held: Box::new(held) }
    }
}

impl fmt::Debug for StoreLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreLock")
    }
}

/// What a store could not do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The bucket's client failed.
    #[error("{action} {path}: the bucket failed")]
    Bucket {
        /// What was tried.
        action: &'static str,
        /// On which document.
        path: String,
        /// What became of it, without a word that could hold a secret.
        source: BucketFailure,
    },
    /// The bucket identifies no revision, so nothing in it can be replaced safely.
    #[error("{path}: the bucket gives its objects no ETag, which a conditional replacement needs")]
    NoRevision {
        /// The object without one.
        path: StorePath,
    },
    /// The operating system failed.
    #[error("{action} {path}: the file system failed")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another kind of store failed.
    #[error("{action} {path}: the store failed")]
    Other {
        /// What was tried.
        action: &'static str,
        /// On which document.
        path: String,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something lies under the name that is no file.
    #[error("{path} is no regular file, so it holds no document")]
    NotAFile {
        /// Its path.
        path: String,
    },
    /// A name that no document can have.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file that can't be put in one request.
    #[error("{path} has more than the {limit} bytes that a file in a bucket may have")]
    FileTooLarge {
        /// The file.
        path: String,
        /// The limit.
        limit: u64,
    },
    /// A document no Inventory writes.
    #[error("{path} has {size} bytes, more than the {limit} a document of the Inventory may have")]
    TooLarge {
        /// The document.
        path: String,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
}

/// Refuses what is larger than any document.
fn check_size(path: &StorePath, size: u64) -> Result<(), StoreError> {
    if size > DOCUMENT_BYTES_MAX {
        return Err(StoreError::TooLarge {
            path: path.to_string(),
            size,
            limit: DOCUMENT_BYTES_MAX,
        });
    }
    Ok(())
}
