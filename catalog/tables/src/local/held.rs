//! Sealed entries that do not open yet: kept, counted, tried again (`lessons.md`: never acknowledge what could not be opened).

use sovm_object::id::{DomainId, KekId, SiteId};

use crate::store::{
    StoreError,
    rows::{Key, decode, encode},
    tables::{HELD, HELD_BY_ELEMENT, HELD_BY_KEK, Rows, Table},
    txn::Txn,
};

/// Held entries kept; then no more are taken until some open.
pub const MAX_HELD: u64 = 100_000;

/// Why an entry is held instead of admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeldReason {
    /// The KEK it is sealed under is not here.
    NoKek,
    /// It has a version or content type this build does not know (SOP-4).
    NewerFormat,
}

/// A held entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The element a peer gave it as.
    pub element: [u8; 32],
    /// The domain it came in.
    pub domain: DomainId,
    /// The KEK it names; none when it came unsealed.
    pub kek_id: Option<KekId>,
    /// Why it is held.
    pub reason: HeldReason,
    /// Who gave it.
    pub from: SiteId,
    /// When.
    pub received_ms: u64,
    /// The bytes as they came.
    pub bytes: Vec<u8>,
}

sovm_object::payload! {
    /// A held entry, stored.
    pub struct HeldRow {
        /// The element.
        2 element: [u8; 32],
        /// The domain.
        3 domain: DomainId,
        /// The KEK.
        4 kek_id: Option<KekId>,
        /// 1 no KEK, 2 newer format.
        5 reason: u64,
        /// From whom.
        6 from: SiteId,
        /// When.
        7 received_ms: u64,
        /// The bytes.
        8 bytes: Vec<u8>,
    }
    max 2 * 1024 * 1024;
}

impl Held {
    fn key(&self) -> [u8; 32] {
        *blake3::hash(&self.bytes).as_bytes()
    }

    fn row(&self) -> HeldRow {
        let reason = match self.reason {
            HeldReason::NoKek => 1,
            HeldReason::NewerFormat => 2,
        };
        HeldRow {
            element: self.element,
            domain: self.domain,
            kek_id: self.kek_id,
            reason,
            from: self.from,
            received_ms: self.received_ms,
            bytes: self.bytes.clone(),
        }
    }

    fn of_row(row: HeldRow) -> Self {
        Self {
            element: row.element,
            domain: row.domain,
            kek_id: row.kek_id,
            reason: if row.reason == 1 {
                HeldReason::NoKek
            } else {
                HeldReason::NewerFormat
            },
            from: row.from,
            received_ms: row.received_ms,
            bytes: row.bytes,
        }
    }
}

impl Txn {
    /// Keeps an entry for later. False when [`MAX_HELD`] are kept already.
    pub fn hold(&mut self, held: &Held) -> Result<bool, StoreError> {
        let key = held.key();
        if self.get(&HELD, &key)?.is_some() {
            return Ok(true);
        }
        if self.count(&HELD)? >= MAX_HELD {
            return Ok(false);
        }
        self.put(&HELD, &key, &encode(&held.row()))?;
        self.put(&HELD_BY_ELEMENT, &Key::new().id(&held.element).id(&key), &[])?;
        self.put(&HELD_BY_KEK, &Key::new().kek(held.kek_id.as_ref()).id(&key), &[])?;
        Ok(true)
    }

    /// Drops a held entry that was opened, or that turned out to be worthless.
    pub fn unhold(&mut self, held: &Held) -> Result<(), StoreError> {
        let key = held.key();
        self.remove(&HELD, &key)?;
        self.remove(&HELD_BY_ELEMENT, &Key::new().id(&held.element).id(&key))?;
        self.remove(&HELD_BY_KEK, &Key::new().kek(held.kek_id.as_ref()).id(&key))?;
        Ok(())
    }

    pub(crate) fn drop_held(&mut self, element: &[u8; 32]) -> Result<(), StoreError> {
        for held in of_index(self, &HELD_BY_ELEMENT, element)? {
            self.unhold(&held)?;
        }
        Ok(())
    }
}

/// Held entries under a prefix of one of the indexes, whose keys end in the hash of the bytes.
pub(crate) fn of_index(rows: &(impl Rows + ?Sized), index: &Table, prefix: &[u8]) -> Result<Vec<Held>, StoreError> {
    let mut held = Vec::new();
    for key in rows.keys(index, prefix, usize::MAX)? {
        let hash = key.last_chunk::<32>().ok_or_else(|| crate::store::rows::form(index))?;
        if let Some(value) = rows.get(&HELD, hash)? {
            held.push(Held::of_row(decode(&HELD, &value)?));
        }
    }
    Ok(held)
}
