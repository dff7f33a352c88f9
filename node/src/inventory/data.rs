//! Where products' data files lie.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use sovm_inventory::{
    doc::ProductId,
    edition::{BucketData, DataFiles, DirectoryData},
    expunge::EditionBytes,
    gc::ProductFiles,
    store::BucketStore,
    verify::DirectoryFiles,
};

use crate::error::ApiError;

/// Gives each product's data files: a catalogue's documents lie in its store, and what its tables consist of may lie
/// elsewhere.
pub(crate) trait DataPlace: fmt::Debug + Send + Sync {
    /// The data files of a product, whether there are any or not.
    fn of(&self, product: &ProductId) -> Result<Arc<dyn DataFiles>, ApiError>;

    /// The bytes of editions, as an expunge deletes them.
    fn bytes(&self) -> Arc<dyn EditionBytes>;

    /// The catalogue's files where they lie under their own names; there garbage is collected file by file.
    fn files(&self) -> Option<Arc<dyn ProductFiles>> {
        None
    }

    /// The directory they lie in, if it is one.
    fn directory(&self) -> Option<&Path> {
        None
    }
}

/// The data files below a catalogue's directory.
#[derive(Debug, Clone)]
pub(crate) struct DirectoryPlace {
    root: PathBuf,
}

impl DirectoryPlace {
    /// The data files of the catalogue in this directory.
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
}

impl DataPlace for DirectoryPlace {
    fn of(&self, product: &ProductId) -> Result<Arc<dyn DataFiles>, ApiError> {
        Ok(Arc::new(DirectoryData::new(&self.root, product)))
    }

    fn bytes(&self) -> Arc<dyn EditionBytes> {
        Arc::new(DirectoryFiles::new(&self.root))
    }

    fn files(&self) -> Option<Arc<dyn ProductFiles>> {
        Some(Arc::new(DirectoryFiles::new(&self.root)))
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.root)
    }
}

/// The data files of a catalogue in a bucket, beside its documents.
#[derive(Debug, Clone)]
pub(super) struct BucketPlace {
    store: BucketStore,
}

impl BucketPlace {
    /// The data files of the catalogue in this bucket.
    pub(super) fn new(store: BucketStore) -> Self {
        Self { store }
    }
}

impl DataPlace for BucketPlace {
    fn of(&self, product: &ProductId) -> Result<Arc<dyn DataFiles>, ApiError> {
        Ok(Arc::new(BucketData::new(self.store.clone(), product)))
    }

    fn bytes(&self) -> Arc<dyn EditionBytes> {
        Arc::new(self.store.clone())
    }

    fn files(&self) -> Option<Arc<dyn ProductFiles>> {
        Some(Arc::new(self.store.clone()))
    }
}
