//! SOP-BLOB-1: the sealed form of whatever is not a table (SOP §2.6): checkpoints, companions, plain files.
//!
//! ```text
//! inner stream   u64 little-endian content length | content | zeros
//! object         chunk 0 | chunk 1 | … | last chunk | filler | key_ref 16 | "SVB1"
//! chunk          ciphertext of 65,536 bytes (the last: 1 to 65,536) | tag 16
//! nonce          00 00 00 | chunk index u64 big-endian | 01 for the last chunk, else 00
//! ```
//!
//! The total length is the Padmé size of the unpadded object, exactly. Layout and filler are functions of the total alone,
//! so a holder learns nothing from them. A DEK seals one blob and no other: the nonces start at zero in each.

pub mod fuzz;
mod layout;
mod read;
mod seal;

pub use self::{
    layout::{CHUNK_BYTES, Layout, MAX_TOTAL, MIN_TOTAL, unpadded_len},
    read::{Blob, OpenBlobError, open},
    seal::{SealBlobError, SealedBlob, seal},
};

use ring::aead::{AES_256_GCM, LessSafeKey, Nonce, UnboundKey};

use crate::secret::Dek;

/// Last four bytes of every blob.
pub const MAGIC: [u8; 4] = *b"SVB1";

/// Bytes a chunk grows by.
const TAG: u64 = 16;

/// `key_ref` and magic.
const TRAILER: u64 = 20;

/// Length field before the content.
const LENGTH_FIELD: u64 = 8;

fn chunk_key(dek: &Dek) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, dek.expose_for_sealing()).expect("a DEK has the length of an AES-256 key");
    LessSafeKey::new(key)
}

fn chunk_nonce(index: u64, last: bool) -> Nonce {
    let mut nonce = [0; 12];
    nonce[3..11].copy_from_slice(&index.to_be_bytes());
    nonce[11] = u8::from(last);
    Nonce::assume_unique_for_key(nonce)
}
