//! The life of one edition on a store: begun, built, sealed, checked, copied, recorded.
//!
//! | step | type | what it leaves |
//! |---|---|---|
//! | begin, resume | [`Publisher`] → [`EditionBuilder`] | `<edition_id>/tables.json`: an unsealed edition (INV-21) |
//! | build | [`EditionBuilder`] | data files, structure messages, other files |
//! | merge | [`EditionBuilder::merge_table`] | a final product's table in one file, or one a partition |
//! | seal | [`seal`]: [`seal::Journalled`] → [`seal::Flushed`] → [`seal::Fingerprinted`] → [`seal::Listed`] | the journal first, `manifest.json` last (INV-400) |
//! | check | [`check::check`] | findings that name rule and file; a [`Stamps`] entry after a clean receive |
//! | record | [`Publisher::record`] | a version that names the edition; the journal is removed |
//! | register | [`Publisher::register`], [`registration`] | where another site writes: `pending/`, for its next fold |
//! | open | [`OpenEdition`] | nothing: structures and observations, by dataflow, and no SQL (INV-59) |
//!
//! What an edition holds is its [`TableList`], `tables.json`: which data files each table consists of, which structure
//! messages it has, which other files belong to it. It is made from the previous edition's by copying and extending
//! (INV-26), is rewritten while the edition is built, and is a listed file of the edition like any other once it is sealed.

use std::{fmt, sync::Arc};

use crate::{
    doc::{EditionId, FilePath, ProductId, layout},
    store::{InventoryStore, StorePath},
};

mod build;
mod carry;
pub mod check;
mod content;
mod copy;
mod data;
mod error;
mod grouping;
mod list;
mod merge;
mod open;
mod record;
pub mod registration;
pub mod seal;
mod stamp;
mod table_list;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod unrecorded;

pub use self::{
    build::{Begin, EditionBuilder, LazyFiles, MessageFormat},
    copy::{CopyReport, copy, files_of},
    data::{
        BUCKET_FILE_BYTES_MAX, Batches, BucketData, DataFile, DataFiles, DirectoryData, PlainParquet, RandomBytes,
        SortedBy, StoreData, TablePart,
    },
    error::EditionError,
    grouping::{Grouping, GroupingError},
    list::{EditionState, ListedEdition},
    merge::Merged,
    open::{Observations, OpenEdition, Selection},
    record::{Publisher, PublisherSettings, Recorded},
    stamp::{StampError, Stamps, check_on_open},
    table_list::{ListedData, ListedTable, OtherFile, StructureFile, TableList, TableListError},
    unrecorded::{Next, UnrecordedEdition, unrecorded},
};

/// The schema of the stores an edition of this build consists of: `tables.json` 1, structure messages, Parquet tables.
/// INV-67: a reader takes exactly this.
pub const SCHEMA_VERSION: &str = "sovm-1";

/// One product's place in a catalogue: where its editions lie, and where their data files do.
#[derive(Debug, Clone)]
pub struct ProductEditions {
    store: Arc<dyn InventoryStore>,
    data: Arc<dyn DataFiles>,
    product_id: ProductId,
}

impl ProductEditions {
    /// Opens a product's place in the catalogue of a store.
    ///
    /// INV-30: refuses another layout, and files without a `catalog.json`; nothing is created.
    pub async fn open(
        store: Arc<dyn InventoryStore>,
        data: Arc<dyn DataFiles>,
        product_id: ProductId,
    ) -> Result<Self, EditionError> {
        for name in ["meta.duckdb", "bundle.manifest.json"] {
            if store.get(&StorePath::parse(name)?).await?.is_some() {
                return Err(EditionError::OtherLayout { found: name.to_owned() });
            }
        }
        if store.get(&StorePath::parse(layout::CATALOG)?).await?.is_none() {
            return Err(match store.list(None).await?.first() {
                Some(found) => EditionError::NoCatalogAmong {
                    found: found.to_string(),
                },
                None => EditionError::NoCatalog,
            });
        }
        Ok(Self::unchecked(store, data, product_id))
    }

    /// A product's place in a store that holds no catalogue: a mirror's disk, what [`copy`] writes to.
    pub fn unchecked(store: Arc<dyn InventoryStore>, data: Arc<dyn DataFiles>, product_id: ProductId) -> Self {
        Self {
            store,
            data,
            product_id,
        }
    }

    /// The product.
    pub fn product_id(&self) -> &ProductId {
        &self.product_id
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn InventoryStore> {
        &self.store
    }

    /// The product's data files.
    pub fn data(&self) -> &Arc<dyn DataFiles> {
        &self.data
    }

    fn folder(&self, edition: &EditionId) -> Result<StorePath, EditionError> {
        Ok(StorePath::parse(&layout::edition(&self.product_id, edition))?)
    }

    fn manifest_path(&self, edition: &EditionId) -> Result<StorePath, EditionError> {
        Ok(StorePath::parse(&layout::manifest(&self.product_id, edition))?)
    }

    fn file(&self, edition: &EditionId, path: &impl fmt::Display) -> Result<StorePath, EditionError> {
        let folder = layout::edition(&self.product_id, edition);
        Ok(StorePath::parse(&format!("{folder}/{path}"))?)
    }

    /// INV-20: whether the edition is sealed, which its manifest's presence says.
    pub async fn is_sealed(&self, edition: &EditionId) -> Result<bool, EditionError> {
        Ok(self.store.get(&self.manifest_path(edition)?).await?.is_some())
    }

    /// The files in an edition's directory, relative to it, sorted.
    async fn files_in(&self, edition: &EditionId) -> Result<Vec<StoredName>, EditionError> {
        let folder = self.folder(edition)?;
        let names = self.store.list(Some(&folder)).await?;
        Ok(names
            .into_iter()
            .map(|store_path| {
                let relative = &store_path.as_str()[folder.as_str().len() + 1..];
                let relative = relative.to_owned();
                StoredName { store_path, relative }
            })
            .collect())
    }
}

/// A file found in an edition's directory.
#[derive(Debug, Clone)]
struct StoredName {
    store_path: StorePath,
    relative: String,
}

impl StoredName {
    /// INV-20, INV-69: the manifest, and the signature reserved for it, are no files of the edition.
    fn is_manifest(&self) -> bool {
        [layout::MANIFEST, layout::MANIFEST_SIGNATURE].contains(&self.relative.as_str())
    }

    /// INV-93: what a DuckDB file's changes wait in until its checkpoint.
    fn is_wal(&self) -> bool {
        is_wal(&self.relative)
    }
}

fn is_wal(path: &str) -> bool {
    path.ends_with(".wal")
}

/// INV-96: whether a data file holds deletions of rows and no rows.
fn is_delete_file(path: &FilePath) -> bool {
    let name = path.as_str().rsplit('/').next().unwrap_or_default();
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    stem.ends_with("-delete") || stem.ends_with("-deletes") || name.ends_with(".delete")
}
