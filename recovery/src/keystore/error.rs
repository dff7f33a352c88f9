//! What can go wrong with a key store, one enum per operation, in words for people.

use std::{io, path::PathBuf};

use sovm_object::cbor::DecodeError;

use crate::age_file::AgeFault;

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// There is nothing at the path.
    #[error("there is no key file at {}; put it back from its copy, nothing else opens this node", .0.display())]
    Missing(PathBuf),
    /// Others on this machine can read it.
    #[error("the key file {} can be read by other users (mode {mode:03o}); run `chmod 600 {}`", path.display(), path.display())]
    OpenToOthers {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It holds no key, or more than one.
    #[error("{} is not a key file: it must hold exactly one line that begins with AGE-SECRET-KEY-1", .0.display())]
    NotAKey(PathBuf),
    /// A file is there already, and a key file is never replaced.
    #[error("{} exists already; a key file is never overwritten", .0.display())]
    Exists(PathBuf),
    /// The file system refused.
    #[error("key file {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Why a key store could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// A key store is there; it is never overwritten.
    #[error("{} holds a node already; nothing was changed", .0.display())]
    Exists(PathBuf),
    /// Keys without the identity that opens them: someone lost a file, and making a new node would bury the rest.
    #[error(
        "{} holds keystore.age and its previous copy but no identity.age; nothing was changed. Put identity.age back, \
         or choose another home and run `sovm recover`", .0.display()
    )]
    Orphaned(PathBuf),
    /// An empty passphrase protects nothing.
    #[error("the passphrase is empty; give one, or use a key file")]
    EmptyPassphrase,
    /// Writing failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why a home's key store could not be found whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Neither file: there is no node.
    #[error("no node in {}; run `sovm init` first", .0.display())]
    NoKeyStore(PathBuf),
    /// Only the key store.
    #[error(
        "identity.age is missing from {}, and nothing opens keystore.age without it. Put it back from a copy, or run \
         `sovm recover` with your kit in an empty home. (If `sovm init` was interrupted here, just run it again.)", .0.display()
    )]
    IdentityMissing(PathBuf),
    /// `identity.age` is damaged.
    #[error("identity.age in {}: {fault}. Put it back from a copy, or run `sovm recover` with your kit in an empty home", dir.display())]
    Identity {
        /// The home.
        dir: PathBuf,
        /// What is wrong with it.
        fault: AgeFault,
    },
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What is wrong with one copy of `keystore.age`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyFault {
    /// There is no such file.
    #[error("it is missing")]
    Missing,
    /// The file system refused.
    #[error("it cannot be read ({0})")]
    Unreadable(String),
    /// The age layer refused.
    #[error(transparent)]
    Age(#[from] AgeFault),
    /// It opens with this identity, but was not written by anyone who holds it.
    #[error("it was not written by this node (its seal is wrong)")]
    Forged,
    /// The seal holds, but the content is not a key store.
    #[error("its content is malformed ({0})")]
    Malformed(DecodeError),
    /// Written by a newer build.
    #[error("it was written by a newer version of sovm (format {0}); use that version")]
    Newer(u64),
}

/// What is known about `keystore.age.prev` when the current copy is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreviousCopy {
    /// It opens; the number says which rewrite it is.
    Usable {
        /// How often the key store had been written.
        revision: u64,
    },
    /// It does not help either.
    Useless(BodyFault),
}

impl std::fmt::Display for PreviousCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usable { revision } => write!(
                f,
                "The previous copy (revision {revision}) is whole; `sovm doctor --repair` goes back to it. What the last write \
                 added, such as a key received minutes ago, comes again from peers"
            ),
            Self::Useless(fault) => write!(
                f,
                "The previous copy does not help: {fault}. Run `sovm recover` with your kit in an empty home"
            ),
        }
    }
}

/// Why the key store did not open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// The passphrase is another one.
    #[error("wrong passphrase; nothing was changed")]
    WrongPassphrase,
    /// The key file is another one.
    #[error("the key file {} does not open this node; nothing was changed", .0.display())]
    WrongKeyFile(PathBuf),
    /// A key file was offered to a node with a passphrase.
    #[error("this node is locked with a passphrase, not with a key file")]
    NeedsPassphrase,
    /// A passphrase was offered to a node with a key file.
    #[error("this node is locked with a key file; give it by --key-file or SOVM_KEY_FILE")]
    NeedsKeyFile,
    /// `identity.age` is damaged.
    #[error("identity.age: {0}. Put it back from a copy, or run `sovm recover` with your kit in an empty home")]
    Identity(AgeFault),
    /// `keystore.age` is damaged.
    #[error("keystore.age: {fault}. {previous}")]
    KeyStore {
        /// What is wrong with the current copy.
        fault: BodyFault,
        /// Whether the previous one would help.
        previous: PreviousCopy,
    },
    /// An interrupted change of the lock could not be finished.
    #[error(transparent)]
    Write(WriteError),
}

/// Why the key store could not be rewritten. What was there before is still there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file system refused.
    #[error("cannot write {} ({bytes} bytes): {source}. The key store is as it was; free some space or fix the disk, then repeat", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// How much was to be written.
        bytes: usize,
        /// What the system said.
        source: io::Error,
    },
    /// Far beyond any real use.
    #[error("a counter of this node is used up")]
    Exhausted,
}
