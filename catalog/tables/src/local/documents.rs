//! The Inventory's documents in the encrypted catalogue.
//!
//! ```text
//! documents-1        store | path               ->  length, BLAKE3 of the document; sealed with its key
//! document-parts-1   store | hash of path | n   ->  part n of its bytes
//! ```
//!
//! A document comes from its catalogue's authority inside a bundle, and its reader checks the hash that the documents before it give, so no
//! signature of ours covers it here. Still, what is read is exactly what was written under that path, or an error. A checkpoint holds no
//! documents: they come back out of the bundles that its entries name.

use std::ops::ControlFlow;

use crate::store::{
    StoreError,
    rows::{Key, decode, encode, form},
    tables::{DOCUMENT_PARTS, DOCUMENTS, Rows, name},
    tagged,
    txn::Txn,
};

/// Bytes of one part. With its key it fills a page of 64 KiB; one value of 64 MiB would take a page of twice its size.
const PART: usize = (64 << 10) - 512;

/// Which of a catalogue's chains a document belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DocumentRole {
    /// Everything, for the release authority and its operators.
    Full,
    /// What is live, as the authority writes it.
    Live,
    /// A copy of either, as it came over the mesh.
    Replica,
}

impl DocumentRole {
    const fn code(self) -> u8 {
        match self {
            Self::Full => 0,
            Self::Live => 1,
            Self::Replica => 2,
        }
    }

    const fn of_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Full,
            1 => Self::Live,
            2 => Self::Replica,
            _ => return None,
        })
    }
}

/// One set of documents at this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentStore {
    /// The chain.
    pub role: DocumentRole,
    /// The catalogue, or a fixed id.
    pub catalog: [u8; 16],
}

impl DocumentStore {
    const LEN: usize = 17;

    fn key(self) -> Key {
        Key::new().byte(self.role.code()).id(&self.catalog)
    }

    fn document(self, path: &str) -> Key {
        self.key().id(path.as_bytes())
    }

    fn part(self, path: &str, number: u32) -> Key {
        self.parts(path).id(&number.to_be_bytes())
    }

    fn parts(self, path: &str) -> Key {
        self.key().id(blake3::hash(path.as_bytes()).as_bytes())
    }

    fn of(key: &[u8]) -> Result<Self, StoreError> {
        let parse = || {
            let (role, rest) = key.split_first()?;
            Some(Self {
                role: DocumentRole::of_code(*role)?,
                catalog: *rest.first_chunk()?,
            })
        };
        parse().ok_or_else(|| form(&DOCUMENTS))
    }
}

sovm_object::payload! {
    /// What a document's parts make together, stored.
    pub struct DocumentRow {
        /// Bytes of it.
        2 length: u64,
        /// BLAKE3 of them.
        3 blake3: [u8; 32],
    }
}

impl DocumentRow {
    fn of(bytes: &[u8]) -> Self {
        Self {
            length: bytes.len() as u64,
            blake3: *blake3::hash(bytes).as_bytes(),
        }
    }

    const fn parts(&self) -> u64 {
        self.length.div_ceil(PART as u64)
    }
}

impl Txn {
    /// Writes a document, in the place of one that has this path. The path is any text; none is told from another by case.
    pub fn put_document(&mut self, store: &DocumentStore, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let (old, new) = (row(self, store, path)?, DocumentRow::of(bytes));
        if old.as_ref() == Some(&new) {
            return Ok(());
        }
        for (number, part) in (0..).zip(bytes.chunks(PART)) {
            self.put(&DOCUMENT_PARTS, &store.part(path, number), part)?;
        }
        if let Some(old) = old {
            self.remove_parts(store, path, new.parts()..old.parts())?;
        }
        self.put_tagged(&DOCUMENTS, &store.document(path), &encode(&new))
    }

    /// Removes a document; says whether there was one.
    pub fn remove_document(&mut self, store: &DocumentStore, path: &str) -> Result<bool, StoreError> {
        let Some(old) = row(self, store, path)? else {
            return Ok(false);
        };
        self.remove_parts(store, path, 0..old.parts())?;
        self.remove(&DOCUMENTS, &store.document(path))
    }

    fn remove_parts(
        &mut self,
        store: &DocumentStore,
        path: &str,
        numbers: std::ops::Range<u64>,
    ) -> Result<(), StoreError> {
        for number in numbers {
            let number = u32::try_from(number).map_err(|_| form(&DOCUMENTS))?;
            self.remove(&DOCUMENT_PARTS, &store.part(path, number))?;
        }
        Ok(())
    }
}

fn row(rows: &(impl Rows + ?Sized), store: &DocumentStore, path: &str) -> Result<Option<DocumentRow>, StoreError> {
    let stored = tagged::get(rows, &DOCUMENTS, &store.document(path))?;
    stored.map(|stored| decode(&DOCUMENTS, &stored)).transpose()
}

/// The bytes of a document.
pub(crate) fn get(
    rows: &(impl Rows + ?Sized),
    store: &DocumentStore,
    path: &str,
) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(row) = row(rows, store, path)? else {
        return Ok(None);
    };
    let mut bytes = Vec::with_capacity(usize::try_from(row.length).map_err(|_| form(&DOCUMENTS))?);
    rows.scan(&DOCUMENT_PARTS, &store.parts(path), &mut |_, part| {
        bytes.extend_from_slice(part);
        ControlFlow::Continue(())
    })?;
    if DocumentRow::of(&bytes) == row {
        Ok(Some(bytes))
    } else {
        Err(StoreError::RowChanged(name(&DOCUMENT_PARTS)))
    }
}

/// Paths of a store's documents that start with `prefix`, sorted by their bytes.
pub(crate) fn paths(
    rows: &(impl Rows + ?Sized),
    store: &DocumentStore,
    prefix: &str,
) -> Result<Vec<String>, StoreError> {
    let keys = rows.keys(&DOCUMENTS, &store.document(prefix), usize::MAX)?;
    let path = |key: Vec<u8>| String::from_utf8(key.get(DocumentStore::LEN..)?.to_vec()).ok();
    keys.into_iter()
        .map(|key| path(key).ok_or_else(|| form(&DOCUMENTS)))
        .collect()
}

/// Stores that hold a document, found by hopping from one store's first row to the next store's.
pub(crate) fn stores(rows: &(impl Rows + ?Sized)) -> Result<Vec<DocumentStore>, StoreError> {
    let mut stores = Vec::new();
    let mut from = Vec::new();
    loop {
        let mut next = None;
        rows.scan_from(&DOCUMENTS, &from, &mut |key, _| {
            next = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        let Some(found) = next else {
            return Ok(stores);
        };
        stores.push(DocumentStore::of(&found)?);
        // No text has this byte.
        from = found.get(..DocumentStore::LEN).unwrap_or_default().to_vec();
        from.push(0xff);
    }
}

#[cfg(test)]
mod tests;
