//! The one thing a reader needs of the world.

use async_trait::async_trait;
use bytes::Bytes;

use crate::store::{InventoryStore, StoreError, StorePath};

/// Gives a document by its name, or `None` when there is none (INV-129).
///
/// Every store is one. A node without a store of its own fetches from a peer: what it gets is verified the same way.
#[async_trait]
pub trait Fetch: Send + Sync {
    /// Fetches one document.
    async fn fetch(&self, path: &StorePath) -> Result<Option<Bytes>, StoreError>;
}

#[async_trait]
impl<S: InventoryStore + ?Sized> Fetch for S {
    async fn fetch(&self, path: &StorePath) -> Result<Option<Bytes>, StoreError> {
        Ok(self.get(path).await?.map(|found| found.bytes))
    }
}
