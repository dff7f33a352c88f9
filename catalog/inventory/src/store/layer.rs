//! A store over another one.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Creation, Found, InventoryStore, LockReach, Replacement, Revision, StoreError, StoreLock, StorePath};

/// A store over another one: it answers what it is written for, and hands everything else through.
#[async_trait]
pub trait Layer: fmt::Debug + Send + Sync + 'static {
    /// The store underneath.
    fn under(&self) -> &dyn InventoryStore;

    /// Answers [`InventoryStore::get`].
    async fn get(&self, path: &StorePath) -> Result<Option<Found>, StoreError> {
        self.under().get(path).await
    }

    /// Answers [`InventoryStore::create`].
    async fn create(&self, path: &StorePath, bytes: Bytes) -> Result<Creation, StoreError> {
        self.under().create(path, bytes).await
    }

    /// Answers [`InventoryStore::replace`].
    async fn replace(&self, path: &StorePath, expected: &Revision, bytes: Bytes) -> Result<Replacement, StoreError> {
        self.under().replace(path, expected, bytes).await
    }

    /// Answers [`InventoryStore::delete`].
    async fn delete(&self, path: &StorePath) -> Result<(), StoreError> {
        self.under().delete(path).await
    }

    /// Answers [`InventoryStore::list`].
    async fn list(&self, folder: Option<&StorePath>) -> Result<Vec<StorePath>, StoreError> {
        self.under().list(folder).await
    }

    /// Answers [`InventoryStore::lock`].
    async fn lock(&self) -> Result<StoreLock, StoreError> {
        self.under().lock().await
    }
}

#[async_trait]
impl<L: Layer> InventoryStore for L {
    async fn get(&self, path: &StorePath) -> Result<Option<Found>, StoreError> {
        Layer::get(self, path).await
    }

    async fn create(&self, path: &StorePath, bytes: Bytes) -> Result<Creation, StoreError> {
        Layer::create(self, path, bytes).await
    }

    async fn replace(&self, path: &StorePath, expected: &Revision, bytes: Bytes) -> Result<Replacement, StoreError> {
        Layer::replace(self, path, expected, bytes).await
    }

    async fn delete(&self, path: &StorePath) -> Result<(), StoreError> {
        Layer::delete(self, path).await
    }

    async fn list(&self, folder: Option<&StorePath>) -> Result<Vec<StorePath>, StoreError> {
        Layer::list(self, folder).await
    }

    async fn lock(&self) -> Result<StoreLock, StoreError> {
        Layer::lock(self).await
    }

    fn lock_reach(&self) -> LockReach {
        self.under().lock_reach()
    }
}
