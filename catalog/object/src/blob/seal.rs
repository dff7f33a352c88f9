//! Sealing a whole content into a blob.

use std::io::Read as _;

use super::{Draft, Layout, unpadded_len};
use crate::{
    id::{KeyRef, StorageId},
    secret::Dek,
};

/// Longest object that is written; readers take up to [`MAX_TOTAL`](super::MAX_TOTAL) (SOP-275).
pub const MAX_WRITTEN_TOTAL: u64 = 4 << 30;

/// A blob ready to be stored, with the key that opens it.
#[derive(Debug)]
pub struct SealedBlob {
    /// Content address of `bytes`.
    pub storage_id: StorageId,
    /// The clear label in the trailer.
    pub key_ref: KeyRef,
    /// Length without padding, for the manifest only (SOP-76).
    pub exact_byte_size: u64,
    /// The object.
    pub bytes: Vec<u8>,
    /// The key, given back for wrapping. It has sealed its one blob.
    pub dek: Dek,
}

/// A content that cannot be sealed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SealBlobError {
    /// Beyond the largest object.
    #[error("{0} bytes are more than one object can hold: it has 4 GiB at most, encryption included")]
    TooLong(u64),
    /// The cipher refused; nothing was written (SOP-109).
    #[error("sealing failed")]
    Cipher,
}

/// Unpadded length and layout of the object for so many bytes.
pub(super) fn layout_for_writing(content_len: u64) -> Result<(u64, Layout), SealBlobError> {
    let exact = unpadded_len(content_len);
    let layout = Layout::for_content(content_len).filter(|layout| layout.total() <= MAX_WRITTEN_TOTAL);
    exact.zip(layout).ok_or(SealBlobError::TooLong(content_len))
}

/// Seals `content` under a key that was drawn for it. The key is consumed, since a second blob under it would repeat nonces.
pub fn seal(content: &[u8], dek: Dek, key_ref: KeyRef) -> Result<SealedBlob, SealBlobError> {
    let content_len = content.len() as u64;
    let draft = Draft::new(content_len, dek, key_ref)?;
    let capacity = usize::try_from(draft.total()).map_err(|_| SealBlobError::TooLong(content_len))?;
    let mut bytes = Vec::with_capacity(capacity);
    // Memory neither fails nor changes its length, so only the cipher can.
    draft
        .sealer(content)
        .read_to_end(&mut bytes)
        .map_err(|_| SealBlobError::Cipher)?;
    debug_assert_eq!(bytes.len(), capacity);
    Ok(SealedBlob {
        storage_id: StorageId::from_bytes(*blake3::hash(&bytes).as_bytes()),
        key_ref,
        exact_byte_size: draft.exact_byte_size(),
        bytes,
        dek: draft.into_dek(),
    })
}
