//! What this node calls plain files. A manifest has no place for a name (SOP part 2.3), so a label is local: it is never signed,
//! never sent and not in a checkpoint.

use sovm_object::id::StorageId;

use crate::store::{
    StoreError,
    rows::{Key, form},
    tables::{META, Rows},
    tagged,
    txn::Txn,
};

/// Beginning of the names of label rows among a node's settings.
const LABEL: &[u8] = b"label/";

fn key(object: &StorageId) -> Key {
    Key::new().id(LABEL).id(object.as_bytes())
}

impl Txn {
    /// Calls an object something, here only.
    pub fn put_label(&mut self, object: &StorageId, label: &str) -> Result<(), StoreError> {
        self.put_tagged(&META, &key(object), label.as_bytes())
    }
}

/// All labels, by object.
pub(crate) fn all(rows: &(impl Rows + ?Sized)) -> Result<Vec<(StorageId, String)>, StoreError> {
    tagged::list(rows, &META, LABEL)?
        .into_iter()
        .map(|(key, value)| {
            let object = key.get(LABEL.len()..).and_then(StorageId::from_slice);
            object.zip(String::from_utf8(value).ok()).ok_or_else(|| form(&META))
        })
        .collect()
}
