//! The key store: everything secret a node keeps, in two age files (DESIGN §5).
//!
//! `identity.age` holds one X25519 identity, locked with a passphrase or for a key file. `keystore.age` is encrypted to that
//! identity and carries a MAC under it, so that rewriting costs no passphrase work and nobody else can write it. Every write
//! goes to a temporary file, is forced to disk and takes its name in one step; one previous copy is kept beside it.
//!
//! The threat is a stolen, powered-off disk. The memory of a running node is not protected from whoever can read it.

mod contents;
mod error;
mod fs;
mod identity;
mod seal;
mod store;

pub use contents::{Contents, DomainKeys, MlsKey, RootBackwards, RootRef};
pub(crate) use contents::{decode_ring, decode_set, encode_ring, encode_set};
pub use error::{BodyFault, CreateError, KeyFileError, OpenError, PreviousCopy, UnlockError, WriteError};
pub use fs::{DiskFs, Fs};
pub use identity::{KeyFile, Protection, Unlock};
pub use store::{CatalogueAge, Fallback, HLC_AHEAD_MS, Incarnation, KeyStore, LockedKeyStore, OpenReport, SEQ_BLOCK};

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod tests;
