//! A store in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    Creation, Found, InventoryStore, LockReach, Replacement, Revision, StoreError, StoreLock, StorePath, check_size,
};

/// Documents in memory. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    documents: Arc<Mutex<BTreeMap<StorePath, Bytes>>>,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every change below is one map operation, so a panic elsewhere can't have left the map half changed.
    fn documents(&self) -> MutexGuard<'_, BTreeMap<StorePath, Bytes>> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl InventoryStore for MemoryStore {
    async fn get(&self, path: &StorePath) -> Result<Option<Found>, StoreError> {
        let found = self.documents().get(path).cloned();
        Ok(found.map(|bytes| Found {
            revision: Revision::of_bytes(&bytes),
            bytes,
        }))
    }

    async fn create(&self, path: &StorePath, bytes: Bytes) -> Result<Creation, StoreError> {
        check_size(path, bytes.len() as u64)?;
        let mut documents = self.documents();
        if documents.contains_key(path) {
            return Ok(Creation::Exists);
        }
        documents.insert(path.clone(), bytes);
        Ok(Creation::Created)
    }

    async fn replace(&self, path: &StorePath, expected: &Revision, bytes: Bytes) -> Result<Replacement, StoreError> {
        check_size(path, bytes.len() as u64)?;
        match self.documents().get_mut(path) {
            Some(held) if Revision::of_bytes(held) == *expected => {
                *held = bytes;
                Ok(Replacement::Replaced)
            }
            _ => Ok(Replacement::Changed),
        }
    }

    async fn delete(&self, path: &StorePath) -> Result<(), StoreError> {
        self.documents().remove(path);
        Ok(())
    }

    async fn list(&self, folder: Option<&StorePath>) -> Result<Vec<StorePath>, StoreError> {
        let documents = self.documents();
        Ok(documents
            .keys()
            .filter(|path| folder.is_none_or(|folder| path.is_under(folder)))
            .cloned()
            .collect())
    }

    async fn lock(&self) -> Result<StoreLock, StoreError> {
        Ok(StoreLock::new(self.lock.clone().lock_owned().await))
    }

    fn lock_reach(&self) -> LockReach {
        LockReach::EveryWriter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// INV-148, INV-242, INV-441: exclusive creation has one winner among racing writers.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn memory_conforms() {
        super::super::testing::conformance(|| async { Arc::new(MemoryStore::new()) as Arc<dyn InventoryStore> }).await;
    }

    #[tokio::test]
    async fn clones_share_documents_and_lock() {
        let store = MemoryStore::new();
        let path = StorePath::parse("CURRENT").expect("a path");
        assert_eq!(
            store.create(&path, Bytes::from_static(b"1")).await.expect("created"),
            Creation::Created
        );
        let clone = store.clone();
        assert!(clone.get(&path).await.expect("read").is_some());
        let held = store.lock().await.expect("locked");
        assert!(futures::FutureExt::now_or_never(clone.lock()).is_none());
        drop(held);
        assert!(futures::FutureExt::now_or_never(clone.lock()).is_some());
    }
}
