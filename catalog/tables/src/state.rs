//! States people and peers can see, and the moves between them (SOP-257..264). Pure.

use std::fmt;

/// Why an entry is set aside until something about it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum QuarantineReason {
    /// Its stamp is more than five minutes ahead of our clock (SOP-133).
    ClockAhead,
}

macro_rules! refusals {
    ($($(#[$meta:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// Why an entry does not count. The text names fields, never values (SOP-165).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum RefusalReason { $($(#[$meta])* $name,)* }

        impl RefusalReason {
            const fn code(self) -> u8 {
                match self { $(Self::$name => $code,)* }
            }
            const fn of_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }
        }

        impl fmt::Display for RefusalReason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $text,)* })
            }
        }
    };
}

refusals! {
    /// The author had no right to write it, or had lost it before (SOP-169, SOP-174).
    Authority = 1, "its author had no right to write it";
    /// The issuer of an access record does not hold the KEK it names.
    NotInAudience = 2, "issuer is not in the audience of kek_id";
    /// `object_manifest_hash` names an entry that is not a manifest.
    NotAManifest = 3, "object_manifest_hash names no manifest";
    /// An access record names another object than its manifest does (SOP-156).
    StorageId = 4, "storage_id is not the manifest's";
    /// An access record commits to another DEK than the manifest does (SOP-167).
    DekCommitment = 5, "dek_commitment is not the manifest's";
    /// The KEK belongs to another domain (SOP-169).
    KekOfOtherDomain = 6, "kek_id belongs to another domain";
    /// The KEK has another generation.
    KekGeneration = 7, "kek_generation is not that of kek_id";
    /// The table belongs to another domain.
    TableDomain = 8, "domain_id is not the table's";
    /// Schema or table name are not those of the table (SOP-137).
    TableName = 9, "table_schema or table_name is not the table's";
    /// Statistics, partition values or time range name columns the table does not have (SOP-138).
    Columns = 10, "statistics, partition values or time range do not fit the table's columns";
    /// The kind of object has no place in this class of table.
    ClassOfTable = 11, "object kind does not belong in this class of table";
    /// `supersedes` names the object itself (SOP-283).
    SupersedesItself = 12, "supersedes names the object itself";
    /// An adoption differs from the manifest it adopts (SOP-163).
    AdoptionDiffers = 13, "adopts names a manifest with another meaning";
    /// The manifest it would adopt counts by itself (SOP-163).
    AdoptionNotNeeded = 14, "adopts names a manifest that counts by itself";
    /// Another founding record of this domain was here first.
    RivalGenesis = 15, "domain has another founding record";
}

/// What an entry counts for, as a function of the set of entries (SOP-154), and of our clock for stamps that are ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryState {
    /// It counts.
    Accepted,
    /// Its table, or this version of the table's columns, is not known yet (SOP-137).
    WaitingTable,
    /// Membership ops or a KEK record that decide about it are not known yet (SOP-169).
    WaitingAuthority,
    /// An access record, or an adoption, whose manifest is not known yet (SOP-153).
    NoManifest,
    /// A manifest without a valid access record (SOP-152).
    NoAccess,
    /// A manifest that a newer build wrote, or an entry that stands on one (SOP-4). Kept and passed on; in no table.
    Unsupported,
    /// Set aside.
    Quarantined(QuarantineReason),
    /// It does not count. Judged again when what decided changes (SOP-170).
    Refused(RefusalReason),
}

impl EntryState {
    /// Whether the entry counts.
    pub const fn is_accepted(self) -> bool {
        matches!(self, Self::Accepted)
    }

    pub(crate) const fn codes(self) -> (u8, u8) {
        match self {
            Self::Accepted => (1, 0),
            Self::WaitingTable => (2, 0),
            Self::WaitingAuthority => (3, 0),
            Self::NoManifest => (4, 0),
            Self::NoAccess => (5, 0),
            Self::Quarantined(QuarantineReason::ClockAhead) => (6, 1),
            Self::Refused(reason) => (7, reason.code()),
            Self::Unsupported => (8, 0),
        }
    }

    pub(crate) const fn of_codes(state: u8, reason: u8) -> Option<Self> {
        Some(match (state, reason) {
            (1, 0) => Self::Accepted,
            (2, 0) => Self::WaitingTable,
            (3, 0) => Self::WaitingAuthority,
            (4, 0) => Self::NoManifest,
            (5, 0) => Self::NoAccess,
            (6, 1) => Self::Quarantined(QuarantineReason::ClockAhead),
            (7, reason) => match RefusalReason::of_code(reason) {
                Some(reason) => Self::Refused(reason),
                None => return None,
            },
            (8, 0) => Self::Unsupported,
            _ => return None,
        })
    }
}

impl fmt::Display for EntryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => f.write_str("accepted"),
            Self::WaitingTable => f.write_str("waiting for its table"),
            Self::WaitingAuthority => f.write_str("waiting for membership records"),
            Self::NoManifest => f.write_str("waiting for its manifest"),
            Self::NoAccess => f.write_str("waiting for an access record"),
            Self::Quarantined(QuarantineReason::ClockAhead) => {
                f.write_str("quarantined: its time is more than five minutes ahead of this clock")
            }
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::Unsupported => f.write_str("kept: written by a newer version of sovm than this one"),
        }
    }
}

/// Why bytes are set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BadBytes {
    /// A part does not match the object's id.
    HashMismatch,
    /// They match the id, but are not what the manifest says: not encrypted, other columns, wrong length.
    NotAsDescribed,
}

/// Where an object's bytes stand at this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ByteState {
    /// Not here, or not whole. Never a reason to drop the entry (SOP-256).
    PendingBytes,
    /// Here, verified whole, on disk.
    Available,
    /// Here, but wrong.
    Quarantined(BadBytes),
    /// Deleted for good: they are not asked for again, and what arrives all the same is nobody's.
    Expunged,
}

/// What happened to an object's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteEvent {
    /// Complete, verified whole and flushed, by fetch or import (SOP-260, SOP-263).
    Arrived,
    /// Dropped by policy.
    Evicted {
        /// Other holders known. Without one the bytes stay (SOP-261).
        other_holders: u32,
    },
    /// The file is gone.
    Missing,
    /// A check failed.
    Bad(BadBytes),
    /// A repair found no holder with good bytes (SOP-262).
    NoHolder,
    /// Somebody decided that they go, last copy or not (INV-412).
    Expunged,
}

/// A move that must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ByteMoveError {
    /// Nobody else has them.
    #[error("no other holder of these bytes is known, so they stay here")]
    LastCopy,
    /// Only bytes that are here can be dropped.
    #[error("these bytes are not here")]
    NotHere,
}

impl ByteState {
    /// The state after `event`. Repeating an event changes nothing.
    pub const fn after(self, event: ByteEvent) -> Result<Self, ByteMoveError> {
        match (self, event) {
            (Self::Expunged, _) | (_, ByteEvent::Expunged) => Ok(Self::Expunged),
            (_, ByteEvent::Arrived) => Ok(Self::Available),
            (Self::Available, ByteEvent::Evicted { other_holders: 0 }) => Err(ByteMoveError::LastCopy),
            (Self::Available, ByteEvent::Evicted { .. } | ByteEvent::Missing) => Ok(Self::PendingBytes),
            (Self::PendingBytes | Self::Quarantined(_), ByteEvent::Evicted { .. }) => Err(ByteMoveError::NotHere),
            (Self::PendingBytes, ByteEvent::Missing | ByteEvent::NoHolder | ByteEvent::Bad(_)) => {
                Ok(Self::PendingBytes)
            }
            (Self::Available | Self::Quarantined(_), ByteEvent::Bad(reason)) => Ok(Self::Quarantined(reason)),
            (Self::Quarantined(_), ByteEvent::Missing | ByteEvent::NoHolder) => Ok(Self::PendingBytes),
            (Self::Available, ByteEvent::NoHolder) => Ok(Self::Available),
        }
    }

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::PendingBytes => 1,
            Self::Available => 2,
            Self::Quarantined(BadBytes::HashMismatch) => 3,
            Self::Quarantined(BadBytes::NotAsDescribed) => 4,
            Self::Expunged => 5,
        }
    }

    pub(crate) const fn of_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::PendingBytes,
            2 => Self::Available,
            3 => Self::Quarantined(BadBytes::HashMismatch),
            4 => Self::Quarantined(BadBytes::NotAsDescribed),
            5 => Self::Expunged,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SOP-257, SOP-260, SOP-261, SOP-262, SOP-263, INV-412: the whole table of moves.
    #[test]
    fn byte_moves() {
        use ByteState::{Available, Expunged, PendingBytes, Quarantined};
        let bad = BadBytes::HashMismatch;
        let cases = [
            (PendingBytes, ByteEvent::Arrived, Ok(Available)),
            (PendingBytes, ByteEvent::Missing, Ok(PendingBytes)),
            (PendingBytes, ByteEvent::NoHolder, Ok(PendingBytes)),
            (PendingBytes, ByteEvent::Bad(bad), Ok(PendingBytes)),
            (
                PendingBytes,
                ByteEvent::Evicted { other_holders: 2 },
                Err(ByteMoveError::NotHere),
            ),
            (Available, ByteEvent::Arrived, Ok(Available)),
            (Available, ByteEvent::Missing, Ok(PendingBytes)),
            (Available, ByteEvent::NoHolder, Ok(Available)),
            (Available, ByteEvent::Bad(bad), Ok(Quarantined(bad))),
            (Available, ByteEvent::Evicted { other_holders: 1 }, Ok(PendingBytes)),
            (
                Available,
                ByteEvent::Evicted { other_holders: 0 },
                Err(ByteMoveError::LastCopy),
            ),
            (Quarantined(bad), ByteEvent::Arrived, Ok(Available)),
            (Quarantined(bad), ByteEvent::NoHolder, Ok(PendingBytes)),
            (Quarantined(bad), ByteEvent::Missing, Ok(PendingBytes)),
            (Quarantined(bad), ByteEvent::Bad(bad), Ok(Quarantined(bad))),
            (
                Quarantined(bad),
                ByteEvent::Evicted { other_holders: 9 },
                Err(ByteMoveError::NotHere),
            ),
            (PendingBytes, ByteEvent::Expunged, Ok(Expunged)),
            (Available, ByteEvent::Expunged, Ok(Expunged)),
            (Quarantined(bad), ByteEvent::Expunged, Ok(Expunged)),
            (Expunged, ByteEvent::Expunged, Ok(Expunged)),
            (Expunged, ByteEvent::Arrived, Ok(Expunged)),
            (Expunged, ByteEvent::Missing, Ok(Expunged)),
            (Expunged, ByteEvent::NoHolder, Ok(Expunged)),
            (Expunged, ByteEvent::Bad(bad), Ok(Expunged)),
            (Expunged, ByteEvent::Evicted { other_holders: 1 }, Ok(Expunged)),
        ];
        for (before, event, after) in cases {
            assert_eq!(before.after(event), after, "{before:?} {event:?}");
        }
    }

    /// SOP-265: every state survives being stored.
    #[test]
    fn stored_codes_round_trip() {
        let mut found = 0;
        for state in 0..=255 {
            for reason in 0..=255 {
                if let Some(known) = EntryState::of_codes(state, reason) {
                    assert_eq!(known.codes(), (state, reason));
                    found += 1;
                }
            }
            if let Some(known) = ByteState::of_code(state) {
                assert_eq!(known.code(), state);
            }
        }
        assert_eq!(found, 7 + 15);
    }
}
