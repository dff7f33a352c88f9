//! A store that counts what it is asked for.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use bytes::Bytes;
use sovm_inventory::{
    doc::layout,
    store::{Creation, Found, InventoryStore, Layer, StoreError, StorePath},
};

/// What a store was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub(super) leaves_read: u64,
    pub(super) leaves_written: u64,
    pub(super) roots_written: u64,
    /// Of leaves and roots.
    pub(super) bytes_written: u64,
}

/// Counts over another store.
#[derive(Debug)]
pub(super) struct Counting {
    inner: Arc<dyn InventoryStore>,
    leaves_read: AtomicU64,
    leaves_written: AtomicU64,
    roots_written: AtomicU64,
    bytes_written: AtomicU64,
}

impl Counting {
    pub(super) fn over(inner: Arc<dyn InventoryStore>) -> Self {
        Self {
            inner,
            leaves_read: AtomicU64::default(),
            leaves_written: AtomicU64::default(),
            roots_written: AtomicU64::default(),
            bytes_written: AtomicU64::default(),
        }
    }

    /// What was asked for since the last reset.
    pub(super) fn traffic(&self) -> Traffic {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            leaves_read: read(&self.leaves_read),
            leaves_written: read(&self.leaves_written),
            roots_written: read(&self.roots_written),
            bytes_written: read(&self.bytes_written),
        }
    }

    pub(super) fn reset(&self) {
        for counter in [
            &self.leaves_read,
            &self.leaves_written,
            &self.roots_written,
            &self.bytes_written,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl Layer for Counting {
    fn under(&self) -> &dyn InventoryStore {
        &*self.inner
    }

    async fn get(&self, path: &StorePath) -> Result<Option<Found>, StoreError> {
        if layout::leaf_sha256(path.as_str()).is_some() {
            self.leaves_read.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.get(path).await
    }

    async fn create(&self, path: &StorePath, bytes: Bytes) -> Result<Creation, StoreError> {
        let counter = match (layout::leaf_sha256(path.as_str()), layout::root_seq(path.as_str())) {
            (Some(_), _) => Some(&self.leaves_written),
            (None, Some(_)) => Some(&self.roots_written),
            (None, None) => None,
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
            self.bytes_written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        self.inner.create(path, bytes).await
    }
}
