//! Sealing a whole content into a blob.

use zeroize::Zeroizing;

use super::{CHUNK_BYTES, Layout, MAGIC, chunk_key, chunk_nonce, unpadded_len};
use crate::{
    id::{KeyRef, StorageId},
    secret::Dek,
};

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
    #[error("{0} bytes are more than one object can hold")]
    TooLong(u64),
    /// The cipher refused; nothing was written (SOP-109).
    #[error("sealing failed")]
    Cipher,
}

/// Seals `content` under a key that was drawn for it. The key is consumed, since a second blob under it would repeat nonces.
pub fn seal(content: &[u8], dek: Dek, key_ref: KeyRef) -> Result<SealedBlob, SealBlobError> {
    let content_len = content.len() as u64;
    let too_long = || SealBlobError::TooLong(content_len);
    let exact_byte_size = unpadded_len(content_len).ok_or_else(too_long)?;
    let layout = Layout::for_content(content_len).ok_or_else(too_long)?;
    let capacity = usize::try_from(layout.total()).map_err(|_| too_long())?;

    let key = chunk_key(&dek);
    let mut bytes = Vec::with_capacity(capacity);
    let mut rest = content;
    let mut chunk = Zeroizing::new(Vec::with_capacity(CHUNK_BYTES as usize));
    let mut inner_left = layout.inner_len();
    for index in 0..layout.chunks() {
        chunk.clear();
        if index == 0 {
            chunk.extend_from_slice(&content_len.to_le_bytes());
        }
        let len = inner_left.min(CHUNK_BYTES) as usize;
        let (now, later) = rest.split_at(rest.len().min(len - chunk.len()));
        chunk.extend_from_slice(now);
        chunk.resize(len, 0);
        rest = later;
        inner_left -= len as u64;
        let tag = key
            .seal_in_place_separate_tag(
                chunk_nonce(index, layout.is_last(index)),
                ring::aead::Aad::empty(),
                &mut chunk,
            )
            .map_err(|_| SealBlobError::Cipher)?;
        bytes.extend_from_slice(&chunk);
        bytes.extend_from_slice(tag.as_ref());
    }
    bytes.resize(bytes.len() + layout.filler() as usize, 0);
    bytes.extend_from_slice(key_ref.as_bytes());
    bytes.extend_from_slice(&MAGIC);
    debug_assert_eq!(bytes.len(), capacity);

    let storage_id = StorageId::from_bytes(*blake3::hash(&bytes).as_bytes());
    Ok(SealedBlob {
        storage_id,
        key_ref,
        exact_byte_size,
        bytes,
        dek,
    })
}
