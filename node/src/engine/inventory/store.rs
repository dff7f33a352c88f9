//! A catalogue's documents in the node's encrypted database, as the Inventory's crate wants a store (DESIGN §10).
//!
//! One document is one row and one change is one transaction, so what [`InventoryStore`] asks for is what the database gives:
//! creation is complete before it is visible, replacement compares inside the transaction, everything is durable when it
//! returns. The home is locked by one process, so a lock of this process keeps every writer out.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use sovm_catalog::{DocumentStore, Read as _, StoreError as CatalogError};
use sovm_inventory::{
    doc::Sha256,
    store::{Creation, Found, InventoryStore, LockReach, Replacement, Revision, StoreError, StoreLock, StorePath},
};

use super::super::core::Core;
use crate::error::ApiError;

/// One catalogue of this node.
#[derive(Clone)]
pub(in super::super) struct NodeStore {
    core: Arc<Core>,
    documents: DocumentStore,
}

/// A lock for each catalogue, shared by everything that opens it.
#[derive(Debug, Default)]
pub(in super::super) struct StoreLocks(Mutex<HashMap<DocumentStore, Arc<tokio::sync::Mutex<()>>>>);

impl StoreLocks {
    pub(super) fn of(&self, documents: &DocumentStore) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locks.entry(*documents).or_default().clone()
    }
}

impl NodeStore {
    pub(super) fn new(core: Arc<Core>, documents: DocumentStore) -> Self {
        Self { core, documents }
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Which chain this is.
    pub(super) const fn chain_of(&self) -> DocumentStore {
        self.documents
    }

    /// Puts documents in one transaction, over what is there: how a reader takes over what it verified.
    pub(super) fn put_all(&self, documents: &[(String, Bytes)], removed: &[String]) -> Result<(), ApiError> {
        let mut txn = self.core.catalog.begin()?;
        for (path, bytes) in documents {
            txn.put_document(&self.documents, path, bytes)?;
        }
        for path in removed {
            txn.remove_document(&self.documents, path)?;
        }
        self.core.save(txn)
    }

    /// A document's bytes.
    pub(super) fn document(&self, path: &str) -> Result<Option<Bytes>, ApiError> {
        Ok(self.core.read()?.document(&self.documents, path)?.map(Bytes::from))
    }

    /// The names of the documents that begin with `prefix`.
    pub(super) fn below(&self, prefix: &str) -> Result<Vec<String>, ApiError> {
        Ok(self.core.read()?.documents(&self.documents, prefix)?)
    }

    /// Whether a document is there.
    pub(super) fn has(&self, path: &str) -> Result<bool, ApiError> {
        Ok(self.document(path)?.is_some())
    }

    fn change<T>(
        &self,
        action: &'static str,
        path: &StorePath,
        change: impl FnOnce(&mut sovm_catalog::Txn, Option<Vec<u8>>) -> Result<(bool, T), CatalogError>,
    ) -> Result<T, StoreError> {
        let failed = |error| failed(action, path, error);
        let mut txn = self.core.catalog.begin().map_err(|error| failed(error.into()))?;
        let found = txn
            .document(&self.documents, path.as_str())
            .map_err(|error| failed(error.into()))?;
        let (changed, outcome) = change(&mut txn, found).map_err(|error| failed(error.into()))?;
        if changed {
            self.core.save(txn).map_err(failed)?;
        }
        Ok(outcome)
    }
}

impl fmt::Debug for NodeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeStore").field(&self.documents).finish()
    }
}

fn failed(action: &'static str, path: &dyn fmt::Display, error: ApiError) -> StoreError {
    StoreError::Other {
        action,
        path: path.to_string(),
        source: Box::new(error),
    }
}

fn revision(bytes: &[u8]) -> Revision {
    Revision::new(&Sha256::of(bytes).to_string())
}

#[async_trait]
impl InventoryStore for NodeStore {
    async fn get(&self, path: &StorePath) -> Result<Option<Found>, StoreError> {
        let read =
            || -> Result<Option<Vec<u8>>, ApiError> { Ok(self.core.read()?.document(&self.documents, path.as_str())?) };
        let found = read().map_err(|error| failed("reading", path, error))?;
        Ok(found.map(|bytes| Found {
            revision: revision(&bytes),
            bytes: bytes.into(),
        }))
    }

    async fn create(&self, path: &StorePath, bytes: Bytes) -> Result<Creation, StoreError> {
        self.change("creating", path, |txn, found| {
            if found.is_some() {
                return Ok((false, Creation::Exists));
            }
            txn.put_document(&self.documents, path.as_str(), &bytes)?;
            Ok((true, Creation::Created))
        })
    }

    async fn replace(&self, path: &StorePath, expected: &Revision, bytes: Bytes) -> Result<Replacement, StoreError> {
        self.change("replacing", path, |txn, found| {
            if found.is_none_or(|found| revision(&found) != *expected) {
                return Ok((false, Replacement::Changed));
            }
            txn.put_document(&self.documents, path.as_str(), &bytes)?;
            Ok((true, Replacement::Replaced))
        })
    }

    async fn delete(&self, path: &StorePath) -> Result<(), StoreError> {
        self.change("deleting", path, |txn, found| {
            if found.is_none() {
                return Ok((false, ()));
            }
            txn.remove_document(&self.documents, path.as_str())?;
            Ok((true, ()))
        })
    }

    async fn list(&self, folder: Option<&StorePath>) -> Result<Vec<StorePath>, StoreError> {
        let prefix = folder.map_or_else(String::new, |folder| format!("{folder}/"));
        let read = || -> Result<Vec<String>, ApiError> { Ok(self.core.read()?.documents(&self.documents, &prefix)?) };
        let names = read().map_err(|error| failed("listing", &prefix, error))?;
        Ok(names
            .iter()
            .map(|name| StorePath::parse(name))
            .collect::<Result<_, _>>()?)
    }

    async fn lock(&self) -> Result<StoreLock, StoreError> {
        Ok(StoreLock::new(self.core.stores.of(&self.documents).lock_owned().await))
    }

    fn lock_reach(&self) -> LockReach {
        LockReach::EveryWriter
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use sovm_catalog::DocumentRole;
    use sovm_inventory::store::testing::conformance;

    use super::*;
    use crate::engine::testing::World;

    /// INV-242, INV-243: the encrypted store is held to the same conformance suite as a directory and a bucket.
    #[tokio::test(flavor = "multi_thread")]
    async fn it_conforms() {
        let world = World::new().await;
        let count = AtomicU8::new(0);
        conformance(|| {
            let documents = DocumentStore {
                role: DocumentRole::Full,
                catalog: [count.fetch_add(1, Ordering::Relaxed); 16],
            };
            let store: Arc<dyn InventoryStore> = Arc::new(world.core().node_store(documents));
            async move { store }
        })
        .await;
    }
}
