//! An edition's data files as encrypted objects (DESIGN §10).
//!
//! ```text
//! rows as Parquet ──encrypt, row group by row group──▶ object, granted to the release domain alone
//! products/<product>/data/<name>   a document of this one line: the object's id
//! manifest.json, digest blake3     the same id (INV-102)
//! ```
//!
//! The stored bytes of a data file are ciphertext; its rows come out for a holder of the object's key. Until a release grants that key
//! to the public domain, nobody there can decrypt them, whatever bytes they hold: an embargo is a key.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read},
    num::NonZeroUsize,
    sync::Arc,
};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use sovm_catalog::Txn;
use sovm_inventory::{
    doc::{DigestAlgorithm, FilePath, ProductId, layout},
    edition::{DataFile, DataFiles, TablePart},
    expunge::EditionBytes,
    fingerprint::{CanonicalForm, TableFingerprint, parquet_table::ParquetTableError},
    store::{Creation, InventoryStore as _, StoreError, StorePath},
};
use sovm_mesh::net::store::Holding;
use sovm_object::{
    id::{DomainId, StorageId},
    pme::{DecodeOptions, Footer, OpenOptions, Sealed},
    record::ObjectKind,
    secret::Dek,
    verified::VerifiedRead,
};
use tokio::runtime::Handle;

use super::{
    super::{
        author::Tableless,
        core::Core,
        publish::{Publication, Ready},
    },
    seal::seal_rows,
    store::NodeStore,
};
use crate::{
    error::{ApiError, ErrorKind},
    inventory::DataPlace,
};

/// Rows that are read, encrypted and fingerprinted at once.
pub(super) const BATCH_ROWS: usize = 8_192;

/// The data files of a catalogue of this node.
#[derive(Clone, Debug)]
pub(super) struct NodePlace {
    pub(super) store: NodeStore,
    /// Whose members may read what is written; none where this node writes no editions.
    pub(super) domain: Option<DomainId>,
}

impl DataPlace for NodePlace {
    fn of(&self, product: &ProductId) -> Result<Arc<dyn DataFiles>, ApiError> {
        Ok(Arc::new(NodeData {
            place: self.clone(),
            product: product.clone(),
        }))
    }

    fn bytes(&self) -> Arc<dyn EditionBytes> {
        Arc::new(self.clone())
    }
}

/// The data files of one product.
#[derive(Debug)]
struct NodeData {
    place: NodePlace,
    product: ProductId,
}

/// The document that says which object a data file is.
pub(super) fn pointer_path(product: &ProductId, file: &FilePath) -> String {
    format!("{}/{file}", layout::data(product))
}

/// What that document says.
pub(super) fn pointer(object: &StorageId) -> Bytes {
    format!("{object}\n").into()
}

/// The object a pointer names; none for bytes that are no pointer.
pub(super) fn pointed_at(bytes: &[u8]) -> Option<StorageId> {
    let object = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?.parse().ok()?;
    // One text for one id.
    (pointer(&object) == bytes).then_some(object)
}

fn failed(action: &'static str, path: &FilePath, error: ApiError) -> StoreError {
    StoreError::Other {
        action,
        path: path.to_string(),
        source: Box::new(error),
    }
}

#[async_trait]
impl DataFiles for NodeData {
    async fn open(&self, path: &FilePath) -> Result<Option<Arc<dyn DataFile>>, StoreError> {
        let failed = |error| failed("opening", path, error);
        let core = self.place.store.core();
        let pointer = self
            .place
            .store
            .document(&pointer_path(&self.product, path))
            .map_err(failed)?;
        let Some(id) = pointer.and_then(|bytes| pointed_at(&bytes)) else {
            return Ok(None);
        };
        let rows = core.edition_rows(&id).map_err(failed)?;
        let holding = core.blobs.holding(id).await.map_err(|error| failed(error.into()))?;
        let (Some(rows), Holding::Durable(durable)) = (rows, holding) else {
            return Ok(None);
        };
        Ok(Some(Arc::new(NodeFile {
            core: core.clone(),
            id,
            size: durable.size(),
            rows,
            runtime: Handle::current(),
        })))
    }

    async fn create(&self, path: &FilePath, content: Box<dyn Read + Send>) -> Result<Creation, StoreError> {
        let failed = |error| failed("creating", path, error);
        let name = StorePath::parse(&pointer_path(&self.product, path))?;
        let Some(domain) = self.place.domain else {
            return Err(failed(
                ApiError::new(
                    ErrorKind::Refused,
                    "this node follows the catalogue and writes no editions of it",
                )
                .safe("nothing was changed")
                .next("build the edition on the node that is the catalogue's authority: sovm inventory list"),
            ));
        };
        if self.place.store.get(&name).await?.is_some() {
            return Ok(Creation::Exists);
        }
        let core = self.place.store.core();
        // Whoever may not publish learns it before any work is done.
        let permitted = || core.check_may_publish(&core.read()?, &domain);
        permitted().map_err(failed)?;
        let spool_dir = core.home.path().to_owned();
        let mut content = WithRoom {
            content,
            core: core.clone(),
            left: 0,
        };
        let making = tokio::task::spawn_blocking(move || seal_rows(&mut content, &spool_dir));
        let made = making.await.map_err(ApiError::bug).and_then(|made| made);
        let (sealed, dek) = made.map_err(failed)?;
        let id = sealed.storage_id;
        core.publish_edition_file(domain, sealed, dek).await.map_err(failed)?;
        // From here on the object is one of the domain's; a name that was taken meanwhile leaves it without one.
        self.place.store.create(&name, pointer(&id)).await
    }
}

/// Room is looked at again after so many bytes.
const ROOM_BYTES: u64 = 64 << 20;

/// Rows on their way into a temporary file, which must leave the disk's reserve alone.
struct WithRoom {
    content: Box<dyn Read + Send>,
    core: Arc<Core>,
    /// Bytes until room is looked at again.
    left: u64,
}

impl Read for WithRoom {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let room = self.core.blobs.check_room(ROOM_BYTES);
            room.map_err(|full| io::Error::new(io::ErrorKind::StorageFull, full))?;
            self.left = ROOM_BYTES;
        }
        let read = self.content.read(buffer)?;
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}

impl Core {
    /// Makes a data file durable and visible to the members of one domain.
    async fn publish_edition_file(&self, domain: DomainId, sealed: Sealed, dek: Dek) -> Result<(), ApiError> {
        let durable = self.make_unnamed(sealed.bytes.clone(), sealed.storage_id).await?;
        let described = Tableless {
            kind: ObjectKind::EditionFile,
            storage_id: sealed.storage_id,
            row_count: sealed.row_count,
            exact_byte_size: sealed.exact_byte_size,
            key_ref: sealed.key_ref,
            dek_commitment: dek.commitment(),
        };
        let ready = self
            .sign_tableless(&domain, described)
            .and_then(|manifest| Ready::new(durable, dek, manifest));
        let published = match &ready {
            Ok(ready) => {
                let nothing_else = |_: &mut Txn| Ok(());
                let publication = Publication {
                    domain,
                    first: Vec::new(),
                    objects: vec![ready],
                    also: &nothing_else,
                };
                self.publish_objects(&publication).await
            }
            Err(_) => Ok(()),
        };
        match ready.map(drop).and(published) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.abandon(&[sealed.storage_id]).await;
                Err(error)
            }
        }
    }

    /// Rows of a data file by its manifest; none when no manifest of it counts here.
    fn edition_rows(&self, id: &StorageId) -> Result<Option<u64>, ApiError> {
        let snapshot = self.read()?;
        Ok(self.object_view(&snapshot, id)?.map(|view| view.row_count))
    }
}

/// One object.
struct NodeFile {
    core: Arc<Core>,
    id: StorageId,
    size: u64,
    rows: u64,
    runtime: Handle,
}

impl fmt::Debug for NodeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeFile").field(&self.id).finish()
    }
}

impl DataFile for NodeFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let end = offset.saturating_add(buffer.len() as u64).min(self.size);
        if offset >= end {
            return Ok(0);
        }
        let ranges = [offset..end];
        let reading = VerifiedRead::read(&self.core.blobs, self.id, &ranges);
        let parts = self.runtime.block_on(reading).map_err(io::Error::other)?;
        let mut filled = 0;
        for part in parts {
            buffer[filled..filled + part.len()].copy_from_slice(&part);
            filled += part.len();
        }
        Ok(filled)
    }

    fn rows(&self) -> Result<u64, ParquetTableError> {
        Ok(self.rows)
    }

    fn schema(&self) -> Result<Option<SchemaRef>, ParquetTableError> {
        let footer = self.runtime.block_on(self.open())?;
        Ok(Some(footer.schema().clone()))
    }

    fn table(&self, form: CanonicalForm, _threads: NonZeroUsize) -> Result<TablePart, ParquetTableError> {
        self.runtime.block_on(self.fingerprint(form))
    }

    fn kept_digests(&self) -> BTreeMap<DigestAlgorithm, String> {
        let blake3 = "blake3".parse().ok();
        blake3.map(|blake3| (blake3, self.id.to_string())).into_iter().collect()
    }
}

impl NodeFile {
    async fn open(&self) -> Result<Footer, ParquetTableError> {
        let dek = self.core.find_dek(&self.id).map_err(|error| unreadable(&error))?;
        Footer::open(&self.core.blobs, self.id, &dek, OpenOptions::default())
            .await
            .map_err(|error| unreadable(&error))
    }

    async fn fingerprint(&self, form: CanonicalForm) -> Result<TablePart, ParquetTableError> {
        let footer = self.open().await?;
        let mut table = TableFingerprint::new(form, footer.schema())?;
        let projection = footer.project_all();
        for group in 0..footer.row_groups() {
            let plan = footer.plan(&[group], &projection).map_err(|error| unreadable(&error))?;
            let chunks = VerifiedRead::read(&self.core.blobs, self.id, plan.runs())
                .await
                .map_err(|error| unreadable(&error))?;
            let options = DecodeOptions { batch_size: BATCH_ROWS };
            let batches = footer
                .decode(&plan, chunks, options)
                .map_err(|error| unreadable(&error))?;
            for batch in batches {
                table.update(&batch.map_err(|error| unreadable(&error))?)?;
            }
        }
        let columns: Vec<String> = footer
            .schema()
            .fields()
            .iter()
            .map(|field| format!("{} {}", field.name(), field.data_type()))
            .collect();
        Ok(TablePart {
            fingerprint: table.finish(),
            columns: columns.join(", "),
        })
    }
}

fn unreadable(error: &dyn fmt::Display) -> ParquetTableError {
    ParquetTableError::Unreadable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_one_line() {
        let id = StorageId::from_bytes([7; 32]);
        assert_eq!(pointed_at(&pointer(&id)), Some(id));
        for bad in [
            "",
            "\n",
            "07\n",
            &"07".repeat(32),
            &format!("{id}\n\n"),
            &format!("{id} \n"),
        ] {
            assert_eq!(pointed_at(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
