//! What a reader reports and doesn't fail on.

use std::fmt;

use crate::doc::{DocError, Epoch, RootRef, Seq, Sha256};

/// Something wrong with a catalogue that could be read nevertheless. Each is worth an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// `CURRENT` isn't there.
    CurrentMissing,
    /// `CURRENT` names a root that isn't there or doesn't verify.
    CurrentNamesBadRoot {
        /// What it names.
        named: RootRef,
        /// What is wrong with that root.
        why: Invalid,
    },
    /// `CURRENT` can't be decoded.
    CurrentUnreadable(DocError),
    /// The version held had expired, so it was dropped.
    HeldExpired {
        /// What was held.
        held: RootRef,
        /// How far expiry went.
        expired_through: Seq,
    },
    /// A version without the history fields follows one with them.
    HistoryFieldsLost {
        /// That version.
        seq: Seq,
    },
    /// A root was skipped.
    InvalidRoot {
        /// Its number.
        seq: Seq,
        /// What is wrong with it.
        why: Invalid,
    },
    /// Two different roots for one number.
    TwoRoots {
        /// The one held, which stays.
        held: RootRef,
        /// The hash of the other one.
        found: Sha256,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CurrentMissing => f.write_str("CURRENT is missing (INV-262)"),
            Self::CurrentNamesBadRoot { named, why } => {
                write!(
                    f,
                    "CURRENT names version {} of epoch {}, which {why} (INV-256)",
                    named.seq, named.restore_epoch
                )
            }
            Self::CurrentUnreadable(error) => write!(f, "CURRENT is unreadable: {error} (INV-256)"),
            Self::HeldExpired { held, expired_through } => write!(
                f,
                "version {} held here is not above {expired_through}, through which versions expired: dropped (INV-264)",
                held.seq
            ),
            Self::HistoryFieldsLost { seq } => {
                write!(
                    f,
                    "version {seq} has no history fields, but the version before it has (INV-163)"
                )
            }
            Self::InvalidRoot { seq, why } => write!(f, "version {seq} {why}: skipped (INV-260)"),
            Self::TwoRoots { held, found } => write!(
                f,
                "version {} of epoch {} is {} here and {found} in the store: two roots for one version (INV-441)",
                held.seq, held.restore_epoch, held.root_sha256
            ),
        }
    }
}

/// What is wrong with a root.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Invalid {
    /// It isn't there.
    Absent,
    /// It doesn't decode, or has other bytes than named.
    Document(DocError),
    /// It is of an epoch it can't be of.
    Epoch {
        /// Its own.
        found: Epoch,
        /// The epoch it follows, or that of the catalogue.
        expected: Epoch,
    },
    /// It names another version before it than the one there.
    Link {
        /// What it names.
        names: Option<Sha256>,
        /// The hash of the version before it.
        base: Sha256,
    },
    /// It has another number than its name.
    Number {
        /// Its own number.
        found: Seq,
    },
    /// The version before it is invalid, so nothing vouches for what it follows.
    Unlinked,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("is not there"),
            Self::Document(error) => write!(f, "is invalid: {error}"),
            Self::Epoch { found, expected } => write!(f, "is of epoch {found}, not of epoch {expected}"),
            Self::Link {
                names: Some(names),
                base,
            } => {
                write!(f, "names {names} as the version before it, which is {base}")
            }
            Self::Link { names: None, base } => write!(f, "names no version before it, which is {base}"),
            Self::Number { found } => write!(f, "says it is version {found}"),
            Self::Unlinked => f.write_str("follows a version that is invalid"),
        }
    }
}
