//! The MLS group of a domain, as a follower of the signed roster (DESIGN §8: "MLS follows, sets decide").
//!
//! openmls writes a dozen rows one by one when it merges a commit, and keeps its own copy of the state in memory. A crash
//! between two rows, or a rollback under a live group object, would tear the group. So nothing here writes: every
//! operation runs inside [`step`], which reads through [`MlsRows`] and collects all writes in an overlay. The caller gets
//! the writes only if the whole step succeeded, and flushes them in the one transaction that also holds the catalogue rows
//! of the same step. When the step fails, overlay and group objects are gone and nothing happened.
//!
//! Suite: X25519, ChaCha20-Poly1305, SHA-256, Ed25519, a 128-bit security class (DESIGN §16.7).

mod commit;
mod error;
mod group;
mod key;
mod overlay;
mod storage;
mod welcome;

#[cfg(test)]
mod tests;

pub use commit::{AddMember, Change, Justified, MergedCommit, StagedChange};
pub use error::MlsError;
pub use group::{GroupView, MlsMember, PendingView};
pub use key::MlsKey;
pub use overlay::{MemoryRows, MlsRows, MlsWrites, RowsError, StorageError};
pub use welcome::JoinCheck;

use openmls::prelude::{Ciphersuite, OpenMlsProvider};
use openmls_rust_crypto::RustCrypto;
use overlay::Overlay;

/// The one suite of this format; another suite is another format version.
pub const SUITE: Ciphersuite = Ciphersuite::MLS_128_DHKEMX25519_CHACHA20POLY1305_SHA256_Ed25519;

/// Epochs whose application messages can still be opened after a commit (DESIGN §16.7).
pub const PAST_EPOCHS: usize = 4;

/// The longest MLS message we decode: a Welcome for some hundreds of members fits.
pub const MAX_MESSAGE: usize = 1 << 20;

/// Runs one step on the groups of this node and returns what it has to store together with its result.
///
/// The writes exist only if `run` succeeded. To try something and forget it, as for rival commits during the settle
/// window (rule R2), run a step and drop the writes.
pub fn step<T, E: From<MlsError>>(
    rows: &dyn MlsRows,
    run: impl FnOnce(&Mls<'_>) -> Result<T, E>,
) -> Result<(MlsWrites, T), E> {
    let mls = Mls {
        crypto: RustCrypto::default(),
        storage: Overlay::new(rows),
    };
    let outcome = run(&mls)?;
    Ok((mls.storage.into_writes(), outcome))
}

/// Whether a key package is what its site offers it as: valid, of our suite, not last-resort, with the site's own name and
/// bound key. Needs no group and no rows.
pub fn check_offer(offer: &AddMember) -> Result<(), MlsError> {
    commit::check_key_package(&RustCrypto::default(), offer).map(|_| ())
}

/// Arbitrary bytes through every MLS decoder; for fuzzing. Must never panic.
pub fn fuzz_message(bytes: &[u8]) {
    let _ = commit::parse_commit(bytes);
    let _ = commit::parse_key_package(bytes);
}

/// The MLS operations of one [`step`]. Later operations see what earlier ones of the same step wrote.
pub struct Mls<'a> {
    crypto: RustCrypto,
    storage: Overlay<'a>,
}

impl<'a> OpenMlsProvider for Mls<'a> {
    type CryptoProvider = RustCrypto;
    type RandProvider = RustCrypto;
    type StorageProvider = Overlay<'a>;

    fn storage(&self) -> &Self::StorageProvider {
        &self.storage
    }

    fn crypto(&self) -> &Self::CryptoProvider {
        &self.crypto
    }

    fn rand(&self) -> &Self::RandProvider {
        &self.crypto
    }
}
