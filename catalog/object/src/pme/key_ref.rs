//! Step 3: the opaque key reference in FileCryptoMetaData (SOP §11.5).

use super::{ENVELOPE_LEN, encrypt::Encrypted, module::FRAME_LEN, pad};
use crate::id::KeyRef;

/// Length of the FileCryptoMetaData below.
pub(super) const CRYPTO_METADATA_LEN: usize = 23;

/// The only FileCryptoMetaData ever written (SOP-372): AES_GCM_V1 without AAD fields, then key_metadata.
pub(super) fn crypto_metadata(key_ref: &KeyRef) -> [u8; CRYPTO_METADATA_LEN] {
    let mut bytes = [0; CRYPTO_METADATA_LEN];
    bytes[..6].copy_from_slice(&[0x1c, 0x1c, 0x00, 0x00, 0x18, 0x10]);
    bytes[6..22].copy_from_slice(key_ref.as_bytes());
    bytes
}

/// Everything but padding is in place, so the unpadded length is known.
#[derive(Debug)]
pub struct Keyed {
    pub(super) encrypted: Encrypted,
    pub(super) key_ref: KeyRef,
    pub(super) unpadded_len: u64,
}

impl Encrypted {
    /// Writes `key_ref`, 16 random bytes that name nothing (SOP-37, SOP-38).
    pub fn with_key_ref(mut self, key_ref: KeyRef) -> Keyed {
        pad::add_entry(&mut self.footer);
        // First of two footer encodings: with the empty pad entry it gives the unpadded length (SOP-67, SOP-69).
        let footer_len = self.encode_footer().len();
        let unpadded_len = object_len(self.body.len(), footer_len);
        Keyed {
            encrypted: self,
            key_ref,
            unpadded_len,
        }
    }
}

impl Keyed {
    /// The unpadded length L, which goes into the sealed manifest (SOP-76).
    pub const fn exact_byte_size(&self) -> u64 {
        self.unpadded_len
    }
}

/// Length of an object from its body (front magic included) and plain footer.
pub(super) const fn object_len(body: usize, footer: usize) -> u64 {
    let front_magic = 4;
    (body + CRYPTO_METADATA_LEN + FRAME_LEN + footer) as u64 + ENVELOPE_LEN - front_magic
}

impl KeyRef {
    /// Draws a fresh reference from the operating system.
    pub fn generate() -> Self {
        use rand::RngCore as _;
        let mut bytes = [0; Self::LEN];
        rand::rng().fill_bytes(&mut bytes);
        Self::from_bytes(bytes)
    }
}
