//! A node's local knowledge: signed entries and records, and what this node found out about them, kept in an encrypted redb.
//!
//! ```text
//! backend   sectors of AES-256-XTS under redb
//! store     the only redb code: Catalog, Txn, Snapshot, tables and keys
//! admit     the one door for signed entries; judge says what each counts for, as a pure function of the set
//! local     what no signature covers: byte states, holders, invites, outbox, ceilings, MLS rows, settings, documents
//! read      every question, the same in a step and in a snapshot; view, inventory, sync, digest, prune are its parts
//! ```
//!
//! The crate knows no clock and no network: callers pass `now_ms` and verified entries.

mod admit;
mod authority;
mod backend;
mod body;
mod columns;
mod digest;
mod inventory;
mod judge;
mod local;
pub mod prune;
mod read;
mod state;
mod store;
mod sync;
#[cfg(test)]
mod testing;
mod view;

pub use admit::{Admission, Alarm, MAX_NO_MANIFEST, SealedUnder};
pub use backend::salt::SaltError;
pub use columns::TableColumns;
pub use digest::DomainDigest;
pub use local::{
    ByteEventError, ByteStatus, Collection, DocumentRole, DocumentStore, Held, HeldReason, HolderRow, Invite,
    InviteProblem, MAX_AUDITED, MAX_HELD, MAX_NAMED, MAX_REFUSALS, OutboxItem, REFUSAL_DAYS, Receipt, Refusal,
    Unpublished, meta,
};
pub use read::{CheckpointRecord, Counts, Read, StoredEntry};
pub use state::{BadBytes, ByteEvent, ByteMoveError, ByteState, EntryState, QuarantineReason, RefusalReason};
pub use store::{
    Catalog, CounterCheck, OpenError, StoreError,
    rows::{Scope, Shard},
    snapshot::Snapshot,
    tables::Row,
    txn::{Committed, StateChange, Txn},
};
pub use sync::{Element, ShardDigest};
pub use view::{
    DekError, DomainView, ObjectState, ObjectView, PendingAccess, PendingObject, TableLookupError, TableView,
};
