//! Reads through to stored rows, keeps writes aside.

use std::{cell::RefCell, collections::BTreeMap, error::Error, fmt};

use openmls_traits::storage::{CURRENT_VERSION, Entity, Key};
use serde::{Serialize, de::DeserializeOwned};
use zeroize::Zeroizing;

/// Read side of the stored MLS rows; the node implements it on a snapshot of its catalogue.
pub trait MlsRows {
    /// The row under `key`, if there is one.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError>;
}

/// The store under [`MlsRows`] could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the stored group state cannot be read")]
pub struct RowsError(#[source] Box<dyn Error + Send + Sync>);

impl RowsError {
    /// Wraps the store's own error.
    pub fn new(source: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(source))
    }
}

/// What went wrong between openmls and its rows.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The store failed.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// A row does not hold what openmls wrote there: the store was damaged or written by another version.
    #[error("a stored row of the group state is damaged")]
    Damaged(#[from] serde_json::Error),
}

/// All rows that one step changes: `Some` is the new value, `None` deletes.
///
/// Values hold private keys of the group, so they are wiped on drop and never printed.
#[derive(Default)]
pub struct MlsWrites(BTreeMap<Vec<u8>, Option<Zeroizing<Vec<u8>>>>);

impl MlsWrites {
    /// The changed rows in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_ref().map(|value| value.as_slice())))
    }

    /// Number of changed rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the step changed nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts the rows of a later step on top of these.
    pub fn extend(&mut self, later: Self) {
        self.0.extend(later.0);
    }
}

impl fmt::Debug for MlsWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MlsWrites({} rows)", self.0.len())
    }
}

/// Rows in memory, for simulations and tests.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MemoryRows(BTreeMap<Vec<u8>, Vec<u8>>);

impl MemoryRows {
    /// Does what the node's transaction does: all changes at once.
    pub fn apply(&mut self, writes: &MlsWrites) {
        for (key, value) in writes.iter() {
            match value {
                Some(value) => self.0.insert(key.to_vec(), value.to_vec()),
                None => self.0.remove(key),
            };
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl MlsRows for MemoryRows {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError> {
        Ok(self.0.get(key).cloned())
    }
}

/// What a row holds. The tag is the first byte of its key and must never change meaning.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Row {
    JoinConfig = 1,
    OwnLeafNodes = 2,
    Proposal = 3,
    ProposalRefs = 4,
    Tree = 5,
    InterimTranscriptHash = 6,
    Context = 7,
    ConfirmationTag = 8,
    GroupState = 9,
    MessageSecrets = 10,
    ResumptionPsks = 11,
    OwnLeafIndex = 12,
    EpochSecrets = 13,
    SignatureKeyPair = 14,
    EncryptionKeyPair = 15,
    EpochKeyPairs = 16,
    KeyPackage = 17,
    Psk = 18,
}

/// The storage that openmls sees during one step.
pub struct Overlay<'a> {
    rows: &'a dyn MlsRows,
    // openmls' storage trait takes `&self` everywhere; a step is single-threaded by design.
    writes: RefCell<MlsWrites>,
}

impl<'a> Overlay<'a> {
    pub(super) fn new(rows: &'a dyn MlsRows) -> Self {
        Self {
            rows,
            writes: RefCell::default(),
        }
    }

    pub(super) fn into_writes(self) -> MlsWrites {
        self.writes.into_inner()
    }

    fn load(&self, key: &[u8]) -> Result<Option<Zeroizing<Vec<u8>>>, StorageError> {
        if let Some(written) = self.writes.borrow().0.get(key) {
            return Ok(written.clone());
        }
        Ok(self.rows.get(key)?.map(Zeroizing::new))
    }

    fn store(&self, key: Vec<u8>, value: Option<Zeroizing<Vec<u8>>>) {
        self.writes.borrow_mut().0.insert(key, value);
    }

    pub(super) fn write<K: Serialize>(&self, row: Row, key: &K, value: &impl Serialize) -> Result<(), StorageError> {
        self.store(row_key(row, key)?, Some(Zeroizing::new(serde_json::to_vec(value)?)));
        Ok(())
    }

    pub(super) fn read<K: Serialize, V: DeserializeOwned>(&self, row: Row, key: &K) -> Result<Option<V>, StorageError> {
        self.load(&row_key(row, key)?)?
            .map(|bytes| Ok(serde_json::from_slice(&bytes)?))
            .transpose()
    }

    pub(super) fn delete<K: Serialize>(&self, row: Row, key: &K) -> Result<(), StorageError> {
        self.store(row_key(row, key)?, None);
        Ok(())
    }

    pub(super) fn append<K: Serialize>(&self, row: Row, key: &K, item: &impl Serialize) -> Result<(), StorageError> {
        let mut list: Vec<serde_json::Value> = self.read(row, key)?.unwrap_or_default();
        list.push(serde_json::to_value(item)?);
        self.write(row, key, &list)
    }

    pub(super) fn list<K: Key<CURRENT_VERSION>, V: Entity<CURRENT_VERSION>>(
        &self,
        row: Row,
        key: &K,
    ) -> Result<Vec<V>, StorageError> {
        Ok(self.read(row, key)?.unwrap_or_default())
    }

    pub(super) fn remove_item<K: Serialize>(
        &self,
        row: Row,
        key: &K,
        item: &impl Serialize,
    ) -> Result<(), StorageError> {
        let mut list: Vec<serde_json::Value> = self.read(row, key)?.unwrap_or_default();
        let item = serde_json::to_value(item)?;
        list.retain(|kept| *kept != item);
        self.write(row, key, &list)
    }
}

/// Key of a row: its tag, then a hash of openmls' own key. Fixed length, and no group id stands in the clear.
fn row_key(row: Row, key: &impl Serialize) -> Result<Vec<u8>, StorageError> {
    let mut out = Vec::with_capacity(33);
    out.push(row as u8);
    out.extend_from_slice(blake3::hash(&serde_json::to_vec(key)?).as_bytes());
    Ok(out)
}
