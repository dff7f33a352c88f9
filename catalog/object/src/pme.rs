//! SOP-PME-1: encrypted Parquet objects (SOP §11).
//!
//! Writing is five types that consume each other, so that a wrong order of steps does not compile (SOP-110):
//!
//! ```text
//! Encoder -> Encoded -> Encrypted -> Keyed -> Padded -> Sealed { storage_id, key_ref, exact_byte_size, bytes }
//!            §11.12.1   §11.12.2     §11.12.3 §11.12.4  §11.12.5
//! ```
//!
//! ```compile_fail
//! # use sovm_object::{id::KeyRef, pme::Encrypted};
//! // SOP-111: padding before key_ref has no method.
//! fn wrong(encrypted: Encrypted) { encrypted.pad().unwrap(); }
//! ```
//!
//! Reading starts from a [`VerifiedRead`](crate::verified::VerifiedRead) source and nothing else (SOP-31): a
//! [`Footer`] is opened from verified bytes, says which ranges a projection needs, and turns the fetched
//! [`VerifiedBytes`](crate::verified::VerifiedBytes) into record batches.
//!
//! ```compile_fail
//! # use sovm_object::pme::{DecodeOptions, Footer, ReadPlan};
//! // SOP-31: a key and a stream of bytes give no rows; the bytes must have been verified against the object's id.
//! fn wrong(footer: &Footer, plan: &ReadPlan, bytes: Vec<Vec<u8>>) { footer.decode(plan, bytes, DecodeOptions::default()).unwrap(); }
//! ```
//!
//! Bytes of an object. A module is `length u32 LE | nonce 12 | ciphertext | tag 16`, AES-256-GCM, empty AAD:
//!
//! ```text
//! "PARE"
//! per column chunk    [page header module][page body module]       dictionary page first, then one data page
//! FileCryptoMetaData  1c 1c 00 00 18 10 <key_ref> 00               plain, covered by no tag, only by storage_id
//! footer module       FileMetaData with the pad entry
//! length u32 LE of the last two | "PARE"
//! ```
//!
//! A page header's compressed size is that of the plain page, as DuckDB writes it; chunk and row-group totals include
//! the 32 bytes of each module (SOP-370). There is no page index and no bloom filter: with one data page a chunk the
//! first would say nothing, and the second cannot be read by DuckDB (SOP-35, SOP-369).
//!
//! What storage can still see: module lengths and counts, hence the count of column chunks, roughly their sizes, and
//! which have a dictionary (SOP-36).

mod audit;
mod dictionary;
mod encode;
mod encrypt;
mod footer;
pub mod fuzz;
mod key_ref;
mod module;
mod open;
mod pad;
mod page;
mod read;
mod repack;
mod seal;
mod shapes;
mod view;

#[cfg(test)]
mod tests;

pub use audit::{Claims, Finding, audit_pages};
pub use encode::{
    Codec, EncodeError, EncodeOptions, Encoded, Encoder, MAX_OBJECT_LEN, ROW_GROUP_BYTES, ROW_GROUP_ROWS,
    RowGroupPolicy, raw_size,
};
pub use encrypt::{EncryptError, Encrypted};
pub use key_ref::Keyed;
pub use module::{NonceSource, RandomNonces};
pub use open::{Column, Footer, OpenError, OpenOptions, view_of};
pub use pad::{PAD_KEY, PadError, Padded};
pub use page::{PageInfo, PageKind};
pub use read::{Batches, DecodeOptions, Projection, ReadPlan};
pub use repack::{OtherSources, SourcesCommitment};
pub use seal::Sealed;
pub use view::DecodeError;

/// Magic of a file with encrypted footer, at both ends.
const MAGIC: [u8; 4] = *b"PARE";
/// Magic of a file with plain footer.
const PLAIN_MAGIC: [u8; 4] = *b"PAR1";
/// What follows the footer: its length and the magic.
const TAIL_LEN: u64 = 8;
/// Magic at the front plus [`TAIL_LEN`].
const ENVELOPE_LEN: u64 = 12;

/// Runs library code over a producer's bytes; a panic in it becomes an error instead of ending the process.
///
/// The bytes are authentic, so only a member of the domain can reach this, but a member's damaged object must not take
/// other members' nodes down.
fn contain_panic<T>(what: impl FnOnce() -> T) -> Result<T, Contained> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(what)).map_err(|_| Contained)
}

/// A panic was contained.
#[derive(Debug)]
struct Contained;
