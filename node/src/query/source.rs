//! What a query needs of the node: tables, their objects at one snapshot, keys, verified bytes.
//!
//! The engine implements these over its catalogue and object store; the tests over objects in memory. Nothing here can hand
//! out bytes that were not verified: [`ObjectBytes`] exists for [`VerifiedRead`]s only (SOP-86).

use std::{fmt, ops::Range, sync::Arc};

use async_trait::async_trait;
use sovm_object::{
    id::StorageId,
    pme::Footer,
    record::ObjectManifest,
    secret::Dek,
    types::Column,
    verified::{ReadError, VerifiedBytes, VerifiedRead},
};

use crate::{
    api::{ObjectState, WaitingObject},
    error::ApiError,
};

/// The tables of a node at one snapshot: every lookup of one query sees the same set of objects.
#[async_trait]
pub trait Tables: Send + Sync {
    /// Schema and name of every table that can be read.
    fn names(&self) -> Result<Vec<(String, String)>, ApiError>;

    /// One table, by schema and name.
    async fn table(&self, schema: &str, name: &str) -> Result<Option<Arc<dyn TableSource>>, ApiError>;
}

/// One table at one snapshot.
#[async_trait]
pub trait TableSource: Send + Sync {
    /// Its columns as its definition and later column changes give them: the flat list, nested ones by parent.
    fn columns(&self) -> &[Column];

    /// The column whose range stands in every manifest.
    fn time_column(&self) -> Option<i32>;

    /// Field ids under which this object holds another column than the table does. Its values and bounds for them are nobody's.
    fn foreign_columns(&self, _manifest: &ObjectManifest) -> &[i32] {
        &[]
    }

    /// The columns that partition the table: field id, and the physical name under which manifests list their values.
    fn partition_columns(&self) -> &[(i32, String)] {
        &[]
    }

    /// Every live object with its manifest, readable or not.
    async fn objects(&self) -> Result<Vec<ScanObject>, ApiError>;

    /// The data key of an object that is [`Readiness::Ready`].
    async fn dek(&self, id: StorageId) -> Result<Dek, ApiError>;

    /// The opened footer of an object, if an earlier query left it.
    fn kept_footer(&self, _id: &StorageId) -> Option<Arc<Footer>> {
        None
    }

    /// Offers an opened footer for later queries.
    fn keep_footer(&self, _footer: &Arc<Footer>) {}

    /// Where verified bytes come from.
    fn bytes(&self) -> Arc<dyn ObjectBytes>;

    /// Told when an object turned out to be bad, so that it can be quarantined and fetched anew (SOP-92).
    fn report(&self, id: StorageId, fault: &ObjectFault);
}

/// One live object of a table.
#[derive(Clone, Debug)]
pub struct ScanObject {
    /// Its verified manifest.
    pub manifest: Arc<ObjectManifest>,
    /// Whether its rows can be read now.
    pub readiness: Readiness,
}

/// Whether an object's rows can be read now.
#[derive(Clone, Debug, PartialEq)]
pub enum Readiness {
    /// Bytes and key are here.
    Ready,
    /// They are not, and this is why.
    Waiting {
        /// The state it is in.
        state: ObjectState,
        /// Why, and who was asked.
        reason: String,
        /// When it is tried next.
        next_try_ms: Option<u64>,
    },
}

impl ScanObject {
    /// The entry for a list of what is missing; `None` when nothing is.
    pub(super) fn waiting(&self) -> Option<WaitingObject> {
        let Readiness::Waiting {
            state,
            reason,
            next_try_ms,
        } = &self.readiness
        else {
            return None;
        };
        Some(WaitingObject {
            storage_id: self.manifest.storage_id.to_string(),
            state: *state,
            reason: reason.clone(),
            next_try_ms: *next_try_ms,
        })
    }
}

/// What is wrong with an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ObjectFault {
    /// Bytes were promised and are not here (SOP-87).
    BytesGone,
    /// Bytes do not match the storage id.
    HashMismatch,
    /// The hash is right and a tag is not: a wrong key, or the producer's damage (SOP-91).
    KeyMismatch,
    /// Decrypted and nonsense: not the profile, or columns that contradict the table (SOP-18).
    Malformed,
    /// Manifest, footer and rows state different counts (SOP-103).
    Inconsistent,
}

/// Verified ranges of objects, behind a pointer. Every [`VerifiedRead`] is one, and nothing else.
#[async_trait]
pub trait ObjectBytes: Send + Sync {
    /// The object's proven length.
    async fn size(&self, id: StorageId) -> Result<u64, ReadError>;

    /// The asked ranges in the asked order.
    async fn read(&self, id: StorageId, ranges: &[Range<u64>]) -> Result<Vec<VerifiedBytes>, ReadError>;
}

#[async_trait]
impl<T: VerifiedRead> ObjectBytes for T {
    async fn size(&self, id: StorageId) -> Result<u64, ReadError> {
        VerifiedRead::size(self, id).await
    }

    async fn read(&self, id: StorageId, ranges: &[Range<u64>]) -> Result<Vec<VerifiedBytes>, ReadError> {
        VerifiedRead::read(self, id, ranges).await
    }
}

impl fmt::Debug for dyn TableSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TableSource")
    }
}

impl fmt::Debug for dyn Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tables")
    }
}
