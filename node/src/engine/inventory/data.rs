//! An edition's data files as encrypted objects (DESIGN §10).
//!
//! ```text
//! rows as Parquet ──encrypt──▶ object, granted to the release domain alone
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

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
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
    id::{DekCommitment, DomainId, KeyRef, StorageId},
    pme::{DecodeOptions, EncodeOptions, Encoder, Footer, OpenOptions, RandomNonces, Sealed},
    record::{ObjectKind, ObjectManifest},
    secret::Dek,
    sign::Signed,
    types::{columns_of_schema, schema_of_columns},
    verified::{MemoryObject, VerifiedRead},
};
use tokio::runtime::Handle;

use super::{
    super::{
        core::Core,
        publish::{Publication, Ready},
    },
    store::NodeStore,
};
use crate::{
    engine::chain,
    error::{ApiError, ErrorKind},
    inventory::DataPlace,
};

/// Rows that are read and fingerprinted at once.
const BATCH_ROWS: usize = 8_192;

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

    async fn create(&self, path: &FilePath, mut content: Box<dyn Read + Send>) -> Result<Creation, StoreError> {
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
        let making = tokio::task::spawn_blocking(move || {
            let mut bytes = Vec::new();
            content
                .read_to_end(&mut bytes)
                .map_err(|error| ApiError::io("reading the rows", &error))?;
            encrypt(bytes.into())
        });
        let made = making.await.map_err(ApiError::bug).and_then(|made| made);
        let (sealed, dek) = made.map_err(failed)?;
        let id = sealed.storage_id;
        core.publish_edition_file(domain, sealed, dek).await.map_err(failed)?;
        // From here on the object is one of the domain's; a name that was taken meanwhile leaves it without one.
        self.place.store.create(&name, pointer(&id)).await
    }
}

/// Makes one object of the rows of a Parquet file, and opens it once more before anybody is told of it.
fn encrypt(parquet: Bytes) -> Result<(Sealed, Dek), ApiError> {
    let bad = |what: &dyn std::error::Error| {
        ApiError::new(
            ErrorKind::BadInput,
            format!("the rows cannot be encrypted: {}", chain(what)),
        )
        .safe("nothing was published")
        .next("write the file again with column types that sovm table create takes")
    };
    // As the fingerprint reads it: an Arrow schema left in the file isn't looked at.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let reader =
        ParquetRecordBatchReaderBuilder::try_new_with_options(parquet, options).map_err(|error| bad(&error))?;
    let columns = columns_of_schema(reader.schema()).map_err(|error| bad(&error))?;
    let schema = Arc::new(schema_of_columns(&columns).map_err(|error| bad(&error))?);
    let mut encoder = Encoder::new(schema.clone(), EncodeOptions::default()).map_err(|error| bad(&error))?;
    let mut rows = 0;
    for batch in reader
        .with_batch_size(BATCH_ROWS)
        .build()
        .map_err(|error| bad(&error))?
    {
        let batch = batch.map_err(|error| bad(&error))?;
        rows += batch.num_rows() as u64;
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns
            .map(|(column, field)| arrow::compute::cast(column, field.data_type()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| bad(&error))?;
        let batch = RecordBatch::try_new(schema.clone(), columns).map_err(|error| bad(&error))?;
        encoder.write(&batch).map_err(|error| bad(&error))?;
    }
    let dek = Dek::generate();
    let sealed = encoder
        .finish()
        .map_err(|error| bad(&error))?
        .encrypt(&dek, &mut RandomNonces::default())
        .map_err(ApiError::bug)?
        .with_key_ref(KeyRef::generate())
        .pad()
        .map_err(ApiError::bug)?
        .seal()
        .map_err(ApiError::bug)?;
    let object = MemoryObject::verify(sealed.storage_id, sealed.bytes.clone()).map_err(ApiError::bug)?;
    let footer = Footer::open_whole(&object, &dek).map_err(ApiError::bug)?;
    let written: u64 = (0..footer.row_groups()).map(|group| footer.claimed_rows(group)).sum();
    if written != rows || sealed.row_count != rows {
        return Err(ApiError::bug(format_args!("{written} rows were written of {rows}")));
    }
    Ok((sealed, dek))
}

impl Core {
    /// Makes a data file durable and visible to the members of one domain.
    async fn publish_edition_file(&self, domain: DomainId, sealed: Sealed, dek: Dek) -> Result<(), ApiError> {
        let durable = self.make_unnamed(sealed.bytes.clone(), sealed.storage_id).await?;
        let described = EditionObject {
            storage_id: sealed.storage_id,
            row_count: sealed.row_count,
            exact_byte_size: sealed.exact_byte_size,
            key_ref: sealed.key_ref,
            dek_commitment: dek.commitment(),
        };
        let ready = self
            .sign_edition_object(&domain, &described)
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

    /// States what a data file is, for the members of one domain. A statement names the membership that its author had seen of
    /// that domain, so each domain gets one of its own.
    pub(super) fn sign_edition_object(
        &self,
        domain: &DomainId,
        object: &EditionObject,
    ) -> Result<Signed<ObjectManifest>, ApiError> {
        let ops_seen = self.heads(Some(*domain))?;
        let producer_mls_epoch = self.epoch(domain)?;
        let stamp = self.stamp()?;
        Ok(self.sign(ObjectManifest {
            mesh_id: self.mesh(),
            kind: ObjectKind::EditionFile,
            storage_id: object.storage_id,
            table_schema: None,
            table_name: None,
            schema_fingerprint: None,
            producer: self.me,
            producer_mls_epoch,
            created_hlc: stamp.hlc,
            row_count: object.row_count,
            exact_byte_size: object.exact_byte_size,
            partition_values: None,
            pruning_statistics: None,
            key_ref: object.key_ref,
            supersedes: Vec::new(),
            row_id_filter: None,
            time_range: None,
            dek_commitment: object.dek_commitment,
            seq: stamp.seq,
            ops_seen,
            delete_id_filter: None,
            delete_key_bounds: None,
            sources: None,
            tombstone_refs: None,
            profile: ObjectKind::EditionFile.profile(),
            row_set_digest: None,
            table_id: None,
            adopts: None,
        }))
    }

    /// Rows of a data file by its manifest; none when no manifest of it counts here.
    fn edition_rows(&self, id: &StorageId) -> Result<Option<u64>, ApiError> {
        let snapshot = self.read()?;
        Ok(self.object_view(&snapshot, id)?.map(|view| view.row_count))
    }
}

/// What every statement about one data file says.
pub(super) struct EditionObject {
    storage_id: StorageId,
    row_count: u64,
    exact_byte_size: u64,
    key_ref: KeyRef,
    dek_commitment: DekCommitment,
}

impl From<&ObjectManifest> for EditionObject {
    fn from(manifest: &ObjectManifest) -> Self {
        Self {
            storage_id: manifest.storage_id,
            row_count: manifest.row_count,
            exact_byte_size: manifest.exact_byte_size,
            key_ref: manifest.key_ref,
            dek_commitment: manifest.dek_commitment,
        }
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
