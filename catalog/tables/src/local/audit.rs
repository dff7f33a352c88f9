//! What this node did that cannot be undone, for whoever asks later.

use sovm_object::id::StorageId;

use crate::store::{
    StoreError,
    rows::{decode, encode},
    tables::{AUDIT, Rows},
    tagged,
    txn::Txn,
};

/// Collections remembered; the oldest go first.
pub const MAX_AUDITED: u64 = 1_000;
/// Objects one row names; the count covers all.
pub const MAX_NAMED: usize = 1_000;

sovm_object::payload! {
    /// One collection that removed something.
    pub struct Collection {
        /// When it ended.
        2 at_ms: u64,
        /// The first objects removed, at most [`MAX_NAMED`].
        3 objects: Vec<StorageId>,
        /// How many were removed.
        4 count: u64,
        /// Their bytes.
        5 bytes: u64,
        /// Running time an orphan had to be old.
        6 after_ms: u64,
        /// Whether the bound on what one collection may remove was lifted.
        7 large: bool,
    }
}

impl Txn {
    /// Remembers a collection.
    pub fn audit_collection(&mut self, collection: &Collection) -> Result<(), StoreError> {
        let number = self.next_number(&AUDIT)?;
        self.put_tagged(&AUDIT, &number.to_be_bytes(), &encode(collection))?;
        let bound = if cfg!(test) { 3 } else { MAX_AUDITED };
        while self.count(&AUDIT)? > bound && self.pop_first(&AUDIT)?.is_some() {}
        Ok(())
    }
}

/// Collections remembered, oldest first.
pub(crate) fn all(rows: &(impl Rows + ?Sized)) -> Result<Vec<Collection>, StoreError> {
    tagged::list(rows, &AUDIT, &[])?
        .iter()
        .map(|(_, value)| decode(&AUDIT, value))
        .collect()
}
