//! Bodies of everything that is signed: membership records and the entries of a domain's replicated set.
//!
//! Each format is one file; the field numbers are the format (DESIGN §16.3, SOP part 2). All carry `mesh_id`, which the
//! signature context binds as well, so that a replay elsewhere fails twice.

pub mod access;
pub mod inventory;
pub mod manifest;
pub mod membership;
pub mod outline;
pub mod recovery;
pub mod table;
pub mod table_op;

pub use access::{AccessRecord, UnwrapError};
pub use inventory::{InventoryVersion, PrefetchList, Registration};
pub use manifest::{ColumnStats, ObjectKind, ObjectManifest, Profile, TimeRange};
pub use membership::{
    CommitRecord, DomainGenesis, HeadClaim, KekRecord, MembershipOp, MeshGenesis, MeshName, NodeBinding, OpKind,
    RejoinOffer, Role,
};
pub use outline::ManifestOutline;
pub use recovery::{KitRecord, RecoveryRootBody, RootAnnouncement};
pub use table::{ColumnDef, TableClass, TableGenesis};
pub use table_op::{ColumnChange, TableOp};

/// Longest name of a table, schema, column, device or domain, in bytes of UTF-8 (SOP-135).
pub const MAX_NAME_BYTES: usize = 128;

/// Most heads of the membership ops an author names (SOP §2.1).
pub const MAX_OPS_SEEN: usize = 8;

/// States author, content type and domain of a body in one line each.
macro_rules! body {
    ($name:ident, $content_type:literal, author: $author:ident, domain: $domain:expr $(, tail: $items:literal, $tail:expr)?) => {
        impl $crate::sign::Body for $name {
            const CONTENT_TYPE: &'static str = $content_type;
            $(const CONTEXT_TAIL_ITEMS: usize = $items;)?

            fn author(&self) -> $crate::id::SiteId {
                self.$author
            }

            fn domain(&self) -> Option<$crate::id::DomainId> {
                let domain: fn(&Self) -> Option<$crate::id::DomainId> = $domain;
                domain(self)
            }

            $(fn context_tail(&self, e: &mut $crate::cbor::Encoder) {
                let tail: fn(&Self, &mut $crate::cbor::Encoder) = $tail;
                tail(self, e);
            })?
        }
    };
}
pub(crate) use body;

use crate::{cbor::DecodeError, id::RecordId};

/// A name people see: not empty, bounded, and without control characters that could forge a line of output.
pub(crate) fn check_name(field: u64, name: &str) -> Result<(), DecodeError> {
    let ok = !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.chars().any(char::is_control);
    if ok {
        Ok(())
    } else {
        Err(DecodeError::OutOfRange(field))
    }
}

/// Heads an author had seen: sorted, unique, bounded.
pub(crate) fn check_ops_seen(field: u64, ops: &[RecordId]) -> Result<(), DecodeError> {
    if ops.len() > MAX_OPS_SEEN {
        Err(DecodeError::OutOfRange(field))
    } else {
        check_sorted(field, ops)
    }
}

/// A set in its one order.
pub(crate) fn check_sorted<T: Ord>(field: u64, items: &[T]) -> Result<(), DecodeError> {
    if items.is_sorted_by(|a, b| a < b) {
        Ok(())
    } else {
        Err(DecodeError::OutOfRange(field))
    }
}
