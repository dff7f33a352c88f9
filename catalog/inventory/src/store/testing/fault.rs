//! A store that fails where it is told to.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;

use crate::store::{Creation, Found, InventoryStore, Layer, Replacement, Revision, StoreError, StoreLock, StorePath};

/// Where a [`FaultStore`] fails. Operations count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operation isn't done, and fails.
    Before(usize),
    /// The operation is done, and yet fails: its answer was lost.
    After(usize),
}

/// A store over another one that fails once, or from then on as a dead process would.
#[derive(Debug)]
pub struct FaultStore {
    inner: Arc<dyn InventoryStore>,
    fault: Option<Fault>,
    dies: bool,
    operations: AtomicUsize,
    log: Mutex<Vec<String>>,
}

impl FaultStore {
    /// Fails at `fault`; if it `dies`, every later operation fails too, undone.
    pub fn new(inner: Arc<dyn InventoryStore>, fault: Fault, dies: bool) -> Self {
        Self {
            inner,
            fault: Some(fault),
            dies,
            operations: AtomicUsize::new(0),
            log: Mutex::default(),
        }
    }

    /// Never fails, and counts.
    pub fn counting(inner: Arc<dyn InventoryStore>) -> Self {
        Self {
            inner,
            fault: None,
            dies: false,
            operations: AtomicUsize::new(0),
            log: Mutex::default(),
        }
    }

    /// How many operations were asked for.
    pub fn operations(&self) -> usize {
        self.operations.load(Ordering::SeqCst)
    }

    /// What was asked for, in order, as `creating CURRENT`.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn run<T>(
        &self,
        action: &'static str,
        path: &str,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(format!("{action} {path}"));
        let number = self.operations.fetch_add(1, Ordering::SeqCst);
        let failure = |why: &str| StoreError::Io {
            action,
            path: path.to_owned(),
            source: io::Error::other(format!("injected at operation {number}: {why}")),
        };
        match self.fault {
            Some(Fault::Before(at)) if number == at => Err(failure("not done")),
            Some(Fault::After(at)) if number == at => {
                operation.await?;
                Err(failure("done, answer lost"))
            }
            Some(Fault::Before(at) | Fault::After(at)) if self.dies && number > at => Err(failure("dead")),
            _ => operation.await,
        }
    }
}

#[async_trait]
impl Layer for FaultStore {
    fn under(&self) -> &dyn InventoryStore {
        &*self.inner
    }

    async fn get(&self, path: &StorePath) -> Result<Option<Found>, StoreError> {
        self.run("reading", path.as_str(), self.inner.get(path)).await
    }

    async fn create(&self, path: &StorePath, bytes: Bytes) -> Result<Creation, StoreError> {
        self.run("creating", path.as_str(), self.inner.create(path, bytes))
            .await
    }

    async fn replace(&self, path: &StorePath, expected: &Revision, bytes: Bytes) -> Result<Replacement, StoreError> {
        self.run("replacing", path.as_str(), self.inner.replace(path, expected, bytes))
            .await
    }

    async fn delete(&self, path: &StorePath) -> Result<(), StoreError> {
        self.run("deleting", path.as_str(), self.inner.delete(path)).await
    }

    async fn list(&self, folder: Option<&StorePath>) -> Result<Vec<StorePath>, StoreError> {
        self.run("listing", folder.map_or("", StorePath::as_str), self.inner.list(folder))
            .await
    }

    async fn lock(&self) -> Result<StoreLock, StoreError> {
        self.run("locking", "LOCK", self.inner.lock()).await
    }
}
