//! A whole object in memory, hashed once: for self-checks before publication, small blobs, archives and tests.

use std::ops::Range;

use bytes::Bytes;

use super::{ReadError, VerifiedBytes, VerifiedRead, check_range};
use crate::id::StorageId;

/// A whole object whose bytes were hashed and compared with its id (SOP-84).
#[derive(Clone, Debug)]
pub struct MemoryObject {
    whole: VerifiedBytes,
}

impl MemoryObject {
    /// Hashes `bytes` and compares with `id`.
    pub fn verify(id: StorageId, bytes: impl Into<Bytes>) -> Result<Self, ReadError> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(ReadError::BadSize { id, size: 0 });
        }
        if blake3::hash(&bytes).as_bytes() != id.as_bytes() {
            return Err(ReadError::HashMismatch { id, offset: 0 });
        }
        Ok(Self {
            whole: VerifiedBytes::proven(id, 0, bytes),
        })
    }

    /// All of the object.
    pub const fn whole(&self) -> &VerifiedBytes {
        &self.whole
    }

    fn check_id(&self, id: StorageId) -> Result<(), ReadError> {
        if id == self.whole.id {
            Ok(())
        } else {
            Err(ReadError::Missing { id })
        }
    }
}

impl VerifiedRead for MemoryObject {
    async fn size(&self, id: StorageId) -> Result<u64, ReadError> {
        self.check_id(id)?;
        Ok(self.whole.len() as u64)
    }

    async fn read(&self, id: StorageId, ranges: &[Range<u64>]) -> Result<Vec<VerifiedBytes>, ReadError> {
        self.check_id(id)?;
        let size = self.whole.len() as u64;
        ranges
            .iter()
            .map(|range| {
                check_range(id, range, size)?;
                Ok(self.whole.part(range.clone()).expect("the range was checked"))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SOP-55, SOP-84: the empty blob and foreign bytes are refused.
    #[test]
    fn only_matching_bytes_become_an_object() {
        let id = StorageId::from_bytes(*blake3::hash(b"abc").as_bytes());
        assert!(MemoryObject::verify(id, &b"abc"[..]).is_ok());
        assert!(matches!(
            MemoryObject::verify(id, &b"abd"[..]),
            Err(ReadError::HashMismatch { .. })
        ));
        let empty = StorageId::from_bytes(*blake3::hash(b"").as_bytes());
        assert!(matches!(
            MemoryObject::verify(empty, &b""[..]),
            Err(ReadError::BadSize { .. })
        ));
    }
}
