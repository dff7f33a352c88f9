//! What can go wrong with a group, and whose fault it is.

use std::error::Error;

use sovm_object::id::SiteId;

use super::overlay::StorageError;

type Source = Box<dyn Error + Send + Sync>;

/// A step on an MLS group did not happen; nothing was stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MlsError {
    /// Our own rows could not be read or are damaged.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// This node holds no group under that id.
    #[error("this node is not in the group of that domain")]
    NoGroup,
    /// A group under that id is already here.
    #[error("this node already has a group under that id")]
    GroupExists,
    /// A commit of our own waits to be merged or cleared.
    #[error("a commit of our own is still pending")]
    AlreadyPending,
    /// There is no commit of our own to merge.
    #[error("no commit of our own is pending")]
    NothingPending,
    /// We were removed: the group object is a dead leaf and waits for a fresh Welcome.
    #[error("this site was removed from the group")]
    Evicted,
    /// openmls could not carry out our own operation.
    #[error("the group operation failed")]
    Operation(#[source] Source),

    /// The bytes are no MLS message of the expected kind.
    #[error("malformed group message")]
    Malformed,
    /// The message belongs to another group.
    #[error("the message belongs to another group")]
    WrongGroup,
    /// The key package is invalid, of another suite, or marked last-resort.
    #[error("the key package of {0} is not usable")]
    BadKeyPackage(SiteId),
    /// Someone offered a key package under another site's name, or with a key its binding does not name.
    #[error("the key package does not belong to {0}")]
    ForeignKeyPackage(SiteId),
    /// A removal names a site that has no leaf.
    #[error("{0} has no leaf in the group")]
    NotAMember(SiteId),
    /// The commit is for another epoch, forged, or breaks MLS.
    #[error("the commit cannot be applied to our state of the group")]
    CommitRejected(#[source] Source),
    /// The commit is our own; it is merged from the pending state, never from its echo.
    #[error("the commit is our own")]
    OwnCommit,
    /// The MLS sender is not the site that signed the commit record.
    #[error("the commit was made by another member than its record says")]
    WrongCommitter,
    /// External commits would let a non-member walk a victim onto its own group (rule R1).
    #[error("external commits are not accepted")]
    External,
    /// Only proposals inside the commit itself count (rule R1).
    #[error("the commit refers to proposals outside itself")]
    ByReference,
    /// A proposal other than Add or Remove (rule R1).
    #[error("the commit carries a proposal that is not an addition or a removal")]
    UnexpectedProposal,
    /// No signed membership op asks for this addition (rule R1).
    #[error("nobody with the right to do so added {0}")]
    UnjustifiedAdd(SiteId),
    /// No signed membership op asks for this removal (rule R1).
    #[error("nobody with the right to do so removed {0}")]
    UnjustifiedRemove(SiteId),
    /// The committer tried to change its own name or signature key.
    #[error("the commit changes the identity of its committer")]
    IdentityChanged,
    /// A leaf whose credential is not a site id.
    #[error("a member of the group carries no site id")]
    ForeignCredential,

    /// The Welcome is not for a key package of ours, or breaks MLS.
    #[error("the welcome cannot be opened")]
    WelcomeRejected(#[source] Source),
    /// The group behind the Welcome holds a site that the roster does not.
    #[error("the group of the welcome contains {0}, which is not in the roster")]
    NotInRoster(SiteId),
    /// The group behind the Welcome carries another key for a site than its binding.
    #[error("the group of the welcome carries a wrong key for {0}")]
    WrongLeafKey(SiteId),
}

impl MlsError {
    pub(super) fn operation(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Operation(Box::new(source))
    }
}
