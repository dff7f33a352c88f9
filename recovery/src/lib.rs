//! Keys at rest and the way back: key store, recovery kits, recovery roots, checkpoints and the drill (DESIGN §5, §9).
//!
//! Nothing here opens a socket or runs a task. The key store does blocking file work behind a small trait; everything about
//! recovery is a function of the blobs it is given, so that a directory, a blind replica and a test are the same to it.

mod age_file;
pub mod blobs;
pub mod chain;
pub mod checkpoint;
pub mod drill;
pub mod keystore;
pub mod kit;
pub mod plan;
pub mod ring;
pub mod root;
mod sizes;

pub use age::secrecy::SecretString;
pub use age_file::{AgeFault, AgeRecipient, AgeSecret};
pub use blobs::{BlobsError, DirBlobs, OpaqueBlobs};
pub use keystore::KeyStore;
pub use kit::Kit;
pub use plan::{RecoverError, RecoverOptions, Recovered, recover};
pub use ring::RingBlob;
pub use root::Root;
