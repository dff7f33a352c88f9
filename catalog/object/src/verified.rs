//! Bytes proven against a [`StorageId`], the only kind a reader accepts (SOP §11.10).
//!
//! [`VerifiedBytes`] has no public constructor. It comes out of an [`ObjectTree`], which holds the group hashes of one
//! object proven from its id downwards, or out of a [`MemoryObject`], which hashed the whole object. A store hands in
//! bytes it read however it likes; what it gets back is proven or an error.
//!
//! ```compile_fail
//! // SOP-86: plain bytes are not verified bytes.
//! let bytes = sovm_object::verified::VerifiedBytes { bytes: Default::default() };
//! ```

mod memory;
mod tree;

use std::{
    fmt,
    future::Future,
    ops::{Deref, Range},
    sync::Arc,
};

use bytes::Bytes;

use crate::id::StorageId;

pub use memory::MemoryObject;
pub use tree::{GROUP_LEN, ObjectTree, ObjectTreeIn};

/// Part of an object, proven to stand at its offset in the object with its id.
#[derive(Clone)]
pub struct VerifiedBytes {
    id: StorageId,
    offset: u64,
    bytes: Bytes,
}

impl VerifiedBytes {
    /// The one place where the proof is made into a type; callers in this module have just compared hashes.
    fn proven(id: StorageId, offset: u64, bytes: Bytes) -> Self {
        Self { id, offset, bytes }
    }

    /// The object the bytes belong to.
    pub const fn storage_id(&self) -> StorageId {
        self.id
    }

    /// Where in the object the bytes stand.
    pub const fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes.len() as u64
    }

    /// A part of these bytes, given as a range of the object; `None` when it is not inside.
    pub fn part(&self, range: Range<u64>) -> Option<Self> {
        let start = usize::try_from(range.start.checked_sub(self.offset)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(self.offset)?).ok()?;
        if start > end || end > self.bytes.len() {
            return None;
        }
        Some(Self::proven(self.id, range.start, self.bytes.slice(start..end)))
    }

    /// The bytes without their proof, for a consumer that keeps no more promise than "these were verified".
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl Deref for VerifiedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for VerifiedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifiedBytes({}, {:?})", self.id.fmt_short(), self.range())
    }
}

/// A source of verified ranges. The only door through which readers get object bytes (SOP-86).
pub trait VerifiedRead: Send + Sync {
    /// The object's length, proven by verifying its last bytes (SOP-88).
    fn size(&self, id: StorageId) -> impl Future<Output = Result<u64, ReadError>> + Send;

    /// The asked ranges, in the asked order, each complete. One call for all ranges lets a store merge neighbours.
    fn read(
        &self,
        id: StorageId,
        ranges: &[Range<u64>],
    ) -> impl Future<Output = Result<Vec<VerifiedBytes>, ReadError>> + Send;
}

/// A borrowed or shared source reads like the source.
macro_rules! forward_verified_read {
    ($($pointer:ty),*) => {$(
        impl<T: VerifiedRead> VerifiedRead for $pointer {
            fn size(&self, id: StorageId) -> impl Future<Output = Result<u64, ReadError>> + Send {
                T::size(self, id)
            }

            fn read(
                &self,
                id: StorageId,
                ranges: &[Range<u64>],
            ) -> impl Future<Output = Result<Vec<VerifiedBytes>, ReadError>> + Send {
                T::read(self, id, ranges)
            }
        }
    )*};
}

forward_verified_read!(&T, Arc<T>);

/// Why no verified bytes came.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The store has no such object, or not all of it.
    #[error("object {} is not here", .id.fmt_short())]
    Missing {
        /// The object asked for.
        id: StorageId,
    },
    /// The bytes, their hashes or the claimed length do not belong to the id; the object must be quarantined (SOP-92).
    #[error("object {} is damaged near byte {offset}: its bytes do not match its id", .id.fmt_short())]
    HashMismatch {
        /// The object asked for.
        id: StorageId,
        /// First byte of the group that failed.
        offset: u64,
    },
    /// The range is not inside the object.
    #[error("bytes {start}..{end} were asked of object {}, which has {size}", .id.fmt_short())]
    OutOfBounds {
        /// The object asked for.
        id: StorageId,
        /// Start of the range.
        start: u64,
        /// End of the range.
        end: u64,
        /// Proven length of the object.
        size: u64,
    },
    /// The empty blob, or a length beyond what any object may have (SOP-55).
    #[error("object {} cannot have a length of {size} bytes", .id.fmt_short())]
    BadSize {
        /// The object asked for.
        id: StorageId,
        /// The claimed length.
        size: u64,
    },
    /// The store failed below the hashes.
    #[error("object {} could not be read", .id.fmt_short())]
    Store {
        /// The object asked for.
        id: StorageId,
        /// What the store said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Checks a range against a proven size.
fn check_range(id: StorageId, range: &Range<u64>, size: u64) -> Result<(), ReadError> {
    if range.start > range.end || range.end > size {
        return Err(ReadError::OutOfBounds {
            id,
            start: range.start,
            end: range.end,
            size,
        });
    }
    Ok(())
}
