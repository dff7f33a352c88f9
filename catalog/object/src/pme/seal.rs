//! Step 5: seal the footer, close the file, hash it (SOP §11.7, §11.12).

use std::fmt;

use bytes::Bytes;

use super::{MAGIC, encrypt::EncryptError, key_ref::crypto_metadata, module, pad::Padded};
use crate::id::{KeyRef, StorageId};

/// A finished object. Its bytes never change again (SOP-112).
///
/// It is the only form rows leave the writer in:
///
/// ```compile_fail,E0616
/// // SOP-2, SOP-117: the plain bytes cannot be taken out, so nobody can store, hash or seal them in another form.
/// fn wrong(encoded: sovm_object::pme::Encoded) -> Vec<u8> {
///     encoded.bytes
/// }
/// ```
///
/// ```compile_fail,E0599
/// // SOP-110: what is not padded cannot be sealed.
/// fn wrong(keyed: sovm_object::pme::Keyed) {
///     let _ = keyed.seal();
/// }
/// ```
///
/// ```compile_fail,E0599
/// // SOP-110: what is not encrypted gets no key reference.
/// fn wrong(encoded: sovm_object::pme::Encoded, key_ref: sovm_object::id::KeyRef) {
///     let _ = encoded.with_key_ref(key_ref);
/// }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Sealed {
    /// Content address: BLAKE3 of the bytes.
    pub storage_id: StorageId,
    /// The reference that stands in the bytes.
    pub key_ref: KeyRef,
    /// Unpadded length, for the sealed manifest only (SOP-69, SOP-76).
    pub exact_byte_size: u64,
    /// Rows in the object.
    pub row_count: u64,
    /// The object.
    pub bytes: Bytes,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed")
            .field("storage_id", &self.storage_id)
            .field("len", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl Padded {
    /// Seals the footer, closes the file and takes its content address.
    pub fn seal(self) -> Result<Sealed, EncryptError> {
        let Self {
            encrypted,
            key_ref,
            footer,
            unpadded_len,
        } = self;
        let mut bytes = encrypted.body;
        bytes.reserve_exact(footer.len() + 128);
        let footer_from = bytes.len();
        bytes.extend_from_slice(&crypto_metadata(&key_ref));
        module::seal(&encrypted.key.cipher(), encrypted.footer_nonce, &footer, &mut bytes)?;
        let footer_len = u32::try_from(bytes.len() - footer_from).map_err(|_| EncryptError::ModuleTooLong)?;
        bytes.extend_from_slice(&footer_len.to_le_bytes());
        bytes.extend_from_slice(&MAGIC);
        let storage_id = StorageId::from_bytes(*blake3::hash(&bytes).as_bytes());
        Ok(Sealed {
            storage_id,
            key_ref,
            exact_byte_size: unpadded_len,
            row_count: encrypted.rows,
            bytes: bytes.into(),
        })
    }
}
