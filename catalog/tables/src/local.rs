//! What this node knows by itself: rows no peer signed, written in the same step as the entries they belong to.

mod audit;
mod documents;
mod held;
mod invites;
mod labels;
mod refusals;
mod scrubs;
mod unpublished;

use sovm_object::id::{SiteId, StorageId};

pub(crate) use self::{
    audit::all as collections,
    documents::{get as document, paths as documents, stores as document_stores},
    held::of_index as held_of_index,
    invites::get as invite,
    labels::all as labels,
    refusals::of_bytes as refusal_of,
    unpublished::all as unpublished,
};
pub use self::{
    audit::{Collection, MAX_AUDITED, MAX_NAMED},
    documents::{DocumentRole, DocumentStore},
    held::{Held, HeldReason, MAX_HELD},
    invites::{Invite, InviteProblem},
    refusals::{MAX_REFUSALS, REFUSAL_DAYS, Refusal},
    unpublished::Unpublished,
};
use crate::{
    state::{ByteEvent, ByteMoveError, ByteState},
    store::{
        StoreError,
        rows::{Key, decode, encode, form},
        tables::{BYTES, BYTES_BY_STATE, CEILINGS, HOLDERS, META, MLS, OUTBOX, RECEIPTS, Row, Rows, Table},
        tagged,
        txn::Txn,
    },
};

/// Names of the settings every node has. Others may be added freely.
pub mod meta {
    /// What people call this node.
    pub const NODE_NAME: &str = "node-name";
    /// What people call the mesh, until an admin's signed name is known.
    pub const MESH_NAME: &str = "mesh-name";
    /// When a drill last proved recovery, and what it found.
    pub const LAST_DRILL: &str = "last-drill";
    /// Milliseconds this node has run in all, by a clock that nobody sets; big-endian.
    pub const RUNNING_MS: &str = "running-ms";
    /// Stands here once the catalogue was found to be an older copy, until an operator says that nothing is missing.
    pub const RESTORED: &str = "restored";
}

sovm_object::payload! {
    /// Where an object's bytes stand, stored.
    pub struct ByteRow {
        /// Code of the state.
        2 code: u64,
        /// Since when.
        3 since_ms: u64,
        /// Bytes on disk, padding included, once known.
        4 size: u64,
        /// When all of them were last read and found right.
        5 verified_ms: Option<u64>,
    }
}

sovm_object::payload! {
    /// What asking one site for one object came to.
    pub struct HolderRow {
        /// When it was asked last.
        2 asked_ms: u64,
        /// Failures in a row.
        3 failures: u64,
        /// Why it failed last, in words for people; absent after success.
        4 reason: Option<String>,
        /// When to ask again.
        5 next_try_ms: u64,
        /// Whether it says it has the object. Only verified bytes prove it (SOP-192).
        6 claims: bool,
    }
}

sovm_object::payload! {
    /// A holder's signed promise to keep an object.
    pub struct Receipt {
        /// When it was given.
        2 issued_ms: u64,
        /// Until when it counts.
        3 valid_until_ms: u64,
        /// The exact signed bytes.
        4 bytes: Vec<u8>,
    }
}

sovm_object::payload! {
    /// A message that leaves only after the step that made it is on disk.
    pub struct OutboxItem {
        /// To whom; absent for everybody in the domain.
        2 to: Option<SiteId>,
        /// What the sender makes of it.
        3 purpose: String,
        /// The message.
        4 bytes: Vec<u8>,
        /// Waits until another step releases it.
        5 held: bool,
        /// When it was put here.
        6 created_ms: u64,
    }
}

/// Where an object's bytes stand at this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteStatus {
    /// The state.
    pub state: ByteState,
    /// Since when.
    pub since_ms: u64,
    /// Bytes on disk, padding included; 0 while unknown.
    pub size: u64,
    /// When a scrub last read all of them and found them right; gone with the first fault (SOP-105).
    pub verified_ms: Option<u64>,
}

/// A move of bytes that could not be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ByteEventError {
    /// The move is not allowed.
    #[error(transparent)]
    Move(#[from] ByteMoveError),
    /// The row could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Added to a byte state's code where states of entries and bytes are counted together.
pub(crate) const BYTE_COUNTS: u8 = 128;

impl Txn {
    /// Records what happened to an object's bytes. `size` is the length on disk, where the event knows it.
    pub fn byte_event(
        &mut self,
        object: &StorageId,
        event: ByteEvent,
        size: Option<u64>,
        now_ms: u64,
    ) -> Result<ByteState, ByteEventError> {
        let old = self.byte_status(object)?;
        let state = old.map_or(ByteState::PendingBytes, |old| old.state).after(event)?;
        let size = size.unwrap_or_else(|| old.map_or(0, |old| old.size));
        self.set_byte_state(object, state, size, now_ms)?;
        Ok(state)
    }

    pub(crate) fn byte_state(&self, object: &StorageId) -> Result<Option<ByteState>, StoreError> {
        Ok(self.byte_status(object)?.map(|status| status.state))
    }

    fn byte_status(&self, object: &StorageId) -> Result<Option<ByteStatus>, StoreError> {
        byte_status(self, object)
    }

    pub(crate) fn set_byte_state(
        &mut self,
        object: &StorageId,
        state: ByteState,
        size: u64,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let old = self.byte_status(object)?;
        if let Some(old) = old {
            self.remove(&BYTES_BY_STATE, &byte_index(old.state, object))?;
            self.count_in(BYTE_COUNTS + old.state.code(), -1)?;
        }
        let same = old.filter(|old| old.state == state);
        let since_ms = same.map_or(now_ms, |old| old.since_ms);
        self.put(
            &BYTES,
            object.as_bytes(),
            &encode(&ByteRow {
                code: state.code().into(),
                since_ms,
                size,
                verified_ms: same.and_then(|old| old.verified_ms),
            }),
        )?;
        self.put(&BYTES_BY_STATE, &byte_index(state, object), &[])?;
        self.count_in(BYTE_COUNTS + state.code(), 1)
    }

    /// Remembers what asking a site for an object came to.
    pub fn put_holder(&mut self, object: &StorageId, site: &SiteId, row: &HolderRow) -> Result<(), StoreError> {
        self.put(
            &HOLDERS,
            &Key::new().id(object.as_bytes()).id(site.as_bytes()),
            &encode(row),
        )
    }

    /// Stores a holder's receipt; the newest one counts.
    pub fn put_receipt(&mut self, object: &StorageId, site: &SiteId, receipt: &Receipt) -> Result<(), StoreError> {
        self.put_tagged(
            &RECEIPTS,
            &Key::new().id(object.as_bytes()).id(site.as_bytes()),
            &encode(receipt),
        )
    }

    /// Drops a receipt that was withdrawn.
    pub fn remove_receipt(&mut self, object: &StorageId, site: &SiteId) -> Result<(), StoreError> {
        self.remove(&RECEIPTS, &Key::new().id(object.as_bytes()).id(site.as_bytes()))?;
        Ok(())
    }

    /// Writes an MLS row as given.
    pub fn put_mls(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.put(&MLS, key, value)
    }

    /// Removes an MLS row.
    pub fn remove_mls(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.remove(&MLS, key)?;
        Ok(())
    }

    /// Writes a setting of this node; [`meta`] has the known names.
    pub fn put_meta(&mut self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        self.put_tagged(&META, name.as_bytes(), value)
    }

    /// Removes a setting.
    pub fn remove_meta(&mut self, name: &str) -> Result<(), StoreError> {
        self.remove(&META, name.as_bytes())?;
        Ok(())
    }

    /// Reserves numbers up to `value` under a name. A ceiling never falls, so a number is never used twice.
    pub fn raise_ceiling(&mut self, name: &str, value: u64) -> Result<(), StoreError> {
        if ceiling(self, name)?.is_some_and(|old| value < old) {
            return Err(StoreError::CeilingFalls(crate::store::tables::name(&CEILINGS)));
        }
        self.put_tagged(&CEILINGS, name.as_bytes(), &value.to_be_bytes())
    }

    /// Queues a message; gives its number.
    pub fn push_outbox(&mut self, item: &OutboxItem) -> Result<u64, StoreError> {
        let number = self.next_number(&OUTBOX)?;
        self.put_tagged(&OUTBOX, &number.to_be_bytes(), &encode(item))?;
        Ok(number)
    }

    /// Lets a held message go.
    pub fn release_outbox(&mut self, number: u64) -> Result<(), StoreError> {
        let key = number.to_be_bytes();
        if let Some(value) = tagged::get(self, &OUTBOX, &key)? {
            let item: OutboxItem = decode(&OUTBOX, &value)?;
            self.put_tagged(&OUTBOX, &key, &encode(&OutboxItem { held: false, ..item }))?;
        }
        Ok(())
    }

    /// Drops a message that was delivered.
    pub fn remove_outbox(&mut self, number: u64) -> Result<(), StoreError> {
        self.remove(&OUTBOX, &number.to_be_bytes())?;
        Ok(())
    }
}

fn byte_index(state: ByteState, object: &StorageId) -> Key {
    Key::new().byte(state.code()).id(object.as_bytes())
}

pub(crate) fn byte_status(rows: &(impl Rows + ?Sized), object: &StorageId) -> Result<Option<ByteStatus>, StoreError> {
    let Some(value) = rows.get(&BYTES, object.as_bytes())? else {
        return Ok(None);
    };
    let row: ByteRow = decode(&BYTES, &value)?;
    let state = u8::try_from(row.code)
        .ok()
        .and_then(ByteState::of_code)
        .ok_or_else(|| form(&BYTES))?;
    Ok(Some(ByteStatus {
        state,
        since_ms: row.since_ms,
        size: row.size,
        verified_ms: row.verified_ms,
    }))
}

/// A reserved number.
pub(crate) fn ceiling(rows: &(impl Rows + ?Sized), name: &str) -> Result<Option<u64>, StoreError> {
    let value = tagged::get(rows, &CEILINGS, name.as_bytes())?;
    value
        .map(|value| crate::store::rows::u64_of("ceilings-1", &value))
        .transpose()
}

/// Rows of one object by site.
pub(crate) fn by_site<T: sovm_object::cbor::Payload>(
    rows: Vec<Row>,
    table: &Table,
) -> Result<Vec<(SiteId, T)>, StoreError> {
    rows.into_iter()
        .map(|(key, value)| {
            let site = key
                .get(StorageId::LEN..)
                .and_then(SiteId::from_slice)
                .ok_or_else(|| form(table))?;
            Ok((site, decode(table, &value)?))
        })
        .collect()
}
