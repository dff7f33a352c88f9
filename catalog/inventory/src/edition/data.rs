//! The data files a product's editions share.
//!
//! A data file is written once, under a fresh name, and never again (INV-23, INV-99): [`DataFiles`] can create and read, and
//! there is nothing in it that rewrites or deletes (INV-25). Deleting is the garbage collector's alone.
//!
//! ```compile_fail,E0599
//! # use sovm_inventory::{doc::FilePath, edition::DataFiles};
//! // INV-25: a producer has no means to delete from `data/`.
//! async fn wrong(data: &dyn DataFiles, path: &FilePath) { data.delete(path).await; }
//! ```
//!
//! The bytes of a file and its rows are two things: a node's data file is an encrypted object, whose digests are those of the
//! ciphertext and whose rows only a holder of its key can read.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, BufReader, Read},
    num::NonZeroUsize,
    sync::Arc,
};

use arrow::{array::RecordBatchReader, datatypes::SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
    errors::{ParquetError, Result as ParquetResult},
    file::reader::{ChunkReader, Length},
};

use crate::{
    doc::{DigestAlgorithm, FilePath, ProductId, layout},
    fingerprint::{
        CanonicalForm, FileDigests, FileHasher, Fingerprint, Table,
        parquet_table::{ParquetTableError, fingerprint_parquet_parallel},
    },
    store::{Creation, InventoryStore, StoreError, StorePath},
};

mod bucket;
mod directory;

pub use bucket::{BUCKET_FILE_BYTES_MAX, BucketData};
pub use directory::DirectoryData;

/// How much of a file is read at once.
const CHUNK_BYTES: usize = 256 << 10;
/// How many rows are read at once.
const BATCH_ROWS: usize = 4096;

/// The data files of one product.
#[async_trait]
pub trait DataFiles: fmt::Debug + Send + Sync {
    /// Opens a file, or `None` when there is none under that name.
    async fn open(&self, path: &FilePath) -> Result<Option<Arc<dyn DataFile>>, StoreError>;

    /// Creates a file that must not exist yet; nobody sees a part of it.
    async fn create(&self, path: &FilePath, content: Box<dyn Read + Send>) -> Result<Creation, StoreError>;
}

/// One data file. Its methods may block, so they are called where that is allowed.
pub trait DataFile: fmt::Debug + Send + Sync {
    /// Its size in bytes, as stored.
    fn size(&self) -> u64;

    /// Reads stored bytes from `offset`; fewer than asked for only at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// How many rows it holds, without reading them.
    fn rows(&self) -> Result<u64, ParquetTableError>;

    /// Its columns, where they are known without reading rows. Rows added later are written with the same ones.
    fn schema(&self) -> Result<Option<SchemaRef>, ParquetTableError> {
        Ok(None)
    }

    /// Reads its rows, by at most so many threads, and says what they come to.
    fn table(&self, form: CanonicalForm, threads: NonZeroUsize) -> Result<TablePart, ParquetTableError>;

    /// The order its rows are declared to be in, by columns; none when it declares none.
    fn order(&self) -> Result<Vec<SortedBy>, ParquetTableError> {
        Ok(Vec::new())
    }

    /// Its rows in parts, each of which keeps the declared order: for Parquet, the row groups. No two are read at once unless
    /// their caller does.
    fn parts(&self) -> Result<Vec<Batches>, ParquetTableError> {
        Err(ParquetTableError::Unreadable(
            "its rows can be counted and hashed here, not read".to_owned(),
        ))
    }

    /// INV-101: digests the store itself keeps, as lower-case hex; none in a plain directory.
    fn kept_digests(&self) -> BTreeMap<DigestAlgorithm, String> {
        BTreeMap::new()
    }
}

/// Rows, batch by batch. Reading may block.
pub type Batches = Box<dyn RecordBatchReader + Send>;

/// One column of a declared order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortedBy {
    /// The column.
    pub column: String,
    /// Whether the largest value comes first.
    pub descending: bool,
    /// Whether nulls come first.
    pub nulls_first: bool,
}

/// What the rows of one data file come to.
#[derive(Debug, Clone)]
pub struct TablePart {
    /// The fingerprint of its rows alone.
    pub fingerprint: Fingerprint<Table>,
    /// Names and types of its columns; files of one table have the same.
    pub columns: String,
}

/// Bytes at an offset: what a plain data file consists of.
pub trait RandomBytes: fmt::Debug + Send + Sync + 'static {
    /// How many there are.
    fn size(&self) -> u64;

    /// Reads some of them.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

impl RandomBytes for Bytes {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).map_or(self.len(), |offset| offset.min(self.len()));
        let length = buffer.len().min(self.len() - start);
        buffer[..length].copy_from_slice(&self[start..start + length]);
        Ok(length)
    }
}

/// A data file that is Parquet without encryption.
#[derive(Debug)]
pub struct PlainParquet<B>(Arc<B>);

impl<B: RandomBytes> PlainParquet<B> {
    /// A file of these bytes. Whether it is Parquet shows when its rows are asked for.
    pub fn new(bytes: B) -> Self {
        Self(Arc::new(bytes))
    }

    fn metadata(&self) -> Result<ArrowReaderMetadata, ParquetTableError> {
        // As the fingerprint reads it: an Arrow schema left in the file isn't looked at.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        Ok(ArrowReaderMetadata::load(&Chunks(self.0.clone()), options)?)
    }
}

impl<B: RandomBytes> DataFile for PlainParquet<B> {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }

    fn rows(&self) -> Result<u64, ParquetTableError> {
        let rows = self.metadata()?.metadata().file_metadata().num_rows();
        u64::try_from(rows).map_err(|_| ParquetTableError::Unreadable(format!("it says it has {rows} rows")))
    }

    fn schema(&self) -> Result<Option<SchemaRef>, ParquetTableError> {
        Ok(Some(self.metadata()?.schema().clone()))
    }

    fn table(&self, form: CanonicalForm, threads: NonZeroUsize) -> Result<TablePart, ParquetTableError> {
        let columns: Vec<String> = self
            .metadata()?
            .schema()
            .fields()
            .iter()
            .map(|field| format!("{} {}", field.name(), field.data_type()))
            .collect();
        Ok(TablePart {
            fingerprint: fingerprint_parquet_parallel(form, &Chunks(self.0.clone()), threads)?,
            columns: columns.join(", "),
        })
    }

    fn order(&self) -> Result<Vec<SortedBy>, ParquetTableError> {
        let metadata = self.metadata()?;
        let mut orders = metadata.metadata().row_groups().iter().map(|group| {
            let sorted = group.sorting_columns().into_iter().flatten();
            sorted
                .map(|sorted| (sorted.column_idx, sorted.descending, sorted.nulls_first))
                .collect::<Vec<_>>()
        });
        let first = orders.next().unwrap_or_default();
        if orders.any(|order| order != first) {
            return Ok(Vec::new());
        }
        let schema = metadata.parquet_schema();
        let column = |index: i32| {
            let index = usize::try_from(index)
                .ok()
                .filter(|index| *index < schema.num_columns())?;
            Some(schema.get_column_root(index).name().to_owned())
        };
        let named = first
            .into_iter()
            .map(|(index, descending, nulls_first)| -> Result<_, ParquetTableError> {
                let column = column(index).ok_or_else(|| {
                    ParquetTableError::Unreadable(format!("it is sorted by column {index}, which it lacks"))
                })?;
                Ok(SortedBy {
                    column,
                    descending,
                    nulls_first,
                })
            });
        named.collect()
    }

    fn parts(&self) -> Result<Vec<Batches>, ParquetTableError> {
        let metadata = self.metadata()?;
        let part = |group| -> Result<Batches, ParquetTableError> {
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(Chunks(self.0.clone()), metadata.clone());
            let reader = builder
                .with_row_groups(vec![group])
                .with_batch_size(BATCH_ROWS)
                .build()?;
            Ok(Box::new(reader) as Batches)
        };
        (0..metadata.metadata().num_row_groups()).map(part).collect()
    }
}

/// The bytes of a file as Parquet's reader wants them.
struct Chunks<B>(Arc<B>);

impl<B> Clone for Chunks<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Reads on from an offset.
struct ReadFrom<B> {
    bytes: Arc<B>,
    offset: u64,
}

impl<B: RandomBytes> Read for ReadFrom<B> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.bytes.read_at(self.offset, buffer)?;
        self.offset += length as u64;
        Ok(length)
    }
}

impl<B: RandomBytes> Length for Chunks<B> {
    fn len(&self) -> u64 {
        self.0.size()
    }
}

impl<B: RandomBytes> ChunkReader for Chunks<B> {
    type T = BufReader<ReadFrom<B>>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let bytes = self.0.clone();
        Ok(BufReader::new(ReadFrom { bytes, offset: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        // A damaged footer may ask for any length, which must not be allocated on its word.
        if start.checked_add(length as u64).is_none_or(|end| end > self.0.size()) {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at {start} of a file of {} bytes",
                self.0.size()
            )));
        }
        let mut buffer = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match self.0.read_at(start + filled as u64, &mut buffer[filled..])? {
                0 => {
                    return Err(ParquetError::EOF(format!(
                        "the file ended at {}",
                        start + filled as u64
                    )));
                }
                more => filled += more,
            }
        }
        Ok(buffer.into())
    }
}

/// Reads a data file once from front to back and computes every digest a manifest records.
pub(super) fn digest_data(file: &dyn DataFile) -> io::Result<FileDigests> {
    let mut hasher = FileHasher::new().and_blake3();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        match file.read_at(offset, &mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                hasher.update(&buffer[..length]);
                offset += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hasher.finish())
}

/// A data file read from front to back, to be copied.
pub(super) struct DataReader {
    file: Arc<dyn DataFile>,
    offset: u64,
}

impl DataReader {
    pub(super) fn new(file: Arc<dyn DataFile>) -> Self {
        Self { file, offset: 0 }
    }
}

impl Read for DataReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read_at(self.offset, buffer)?;
        self.offset += length as u64;
        Ok(length)
    }
}

/// Runs work that may block where it doesn't hold up the runtime.
pub(super) async fn blocking<T: Send + 'static>(
    action: &'static str,
    path: String,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    // A task that doesn't end normally was ended by the runtime's shutdown or by a panic inside a reader.
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|source| StoreError::Io { action, path, source })
}

/// Data files as documents of an Inventory's store: for catalogues in memory. Each is held in memory while it is used, and is
/// at most as large as a document.
#[derive(Debug, Clone)]
pub struct StoreData {
    store: Arc<dyn InventoryStore>,
    folder: String,
}

impl StoreData {
    /// The data files of a product in a store.
    pub fn new(store: Arc<dyn InventoryStore>, product: &ProductId) -> Self {
        let folder = layout::data(product);
        Self { store, folder }
    }

    fn name(&self, path: &FilePath) -> Result<StorePath, StoreError> {
        Ok(StorePath::parse(&format!("{}/{path}", self.folder))?)
    }
}

#[async_trait]
impl DataFiles for StoreData {
    async fn open(&self, path: &FilePath) -> Result<Option<Arc<dyn DataFile>>, StoreError> {
        let found = self.store.get(&self.name(path)?).await?;
        Ok(found.map(|found| Arc::new(PlainParquet::new(found.bytes)) as Arc<dyn DataFile>))
    }

    async fn create(&self, path: &FilePath, mut content: Box<dyn Read + Send>) -> Result<Creation, StoreError> {
        let name = self.name(path)?;
        let bytes = blocking("reading what becomes", name.to_string(), move || {
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes)?;
            Ok(bytes)
        });
        self.store.create(&name, bytes.await?.into()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        edition::testing::{numbers, product},
        fingerprint::fingerprint_parquet,
        store::MemoryStore,
    };

    fn both(root: &std::path::Path) -> [Arc<dyn DataFiles>; 2] {
        let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
        [
            Arc::new(StoreData::new(store, &product())),
            Arc::new(DirectoryData::new(root, &product())),
        ]
    }

    /// INV-23, INV-99: a data file is written once; a second writer of its name changes nothing.
    #[tokio::test]
    async fn a_data_file_is_written_once() {
        let root = tempfile::tempdir().unwrap();
        let path: FilePath = "flow/one.parquet".parse().unwrap();
        for data in both(root.path()) {
            let (first, second) = (numbers(0..3), numbers(0..4));
            let create = |bytes: Bytes| data.create(&path, Box::new(io::Cursor::new(bytes)));
            assert_eq!(create(first.clone()).await.unwrap(), Creation::Created);
            assert_eq!(create(second).await.unwrap(), Creation::Exists);
            let file = data.open(&path).await.unwrap().unwrap();
            assert_eq!(file.size(), first.len() as u64);
            assert_eq!(file.rows().unwrap(), 3);
            assert_eq!(
                digest_data(&*file).unwrap().blake3,
                Some(*blake3::hash(&first).as_bytes())
            );
            let part = file.table(CanonicalForm::ONE, NonZeroUsize::MIN).unwrap();
            let whole = fingerprint_parquet(CanonicalForm::ONE, first).unwrap();
            assert!(part.fingerprint.same_as(&whole).unwrap());
            assert!(part.columns.contains("value"), "{}", part.columns);
            assert!(data.open(&"flow/two.parquet".parse().unwrap()).await.unwrap().is_none());
        }
    }

    /// INV-73: what is no Parquet, or was cut short, has no rows; it is named and nothing panics.
    #[tokio::test]
    async fn damaged_files_have_no_rows() {
        let whole = numbers(0..300);
        for length in [0, 1, 7, 8, 12, whole.len() / 2, whole.len() - 1] {
            let file = PlainParquet::new(whole.slice(..length));
            assert!(file.rows().is_err(), "{length} bytes");
            assert!(
                file.table(CanonicalForm::ONE, NonZeroUsize::MIN).is_err(),
                "{length} bytes"
            );
        }
    }

    #[tokio::test]
    async fn a_directory_under_a_file_name_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let data = DirectoryData::new(root.path(), &product());
        std::fs::create_dir_all(root.path().join(layout::data(&product())).join("flow/x.parquet")).unwrap();
        let path = "flow/x.parquet".parse().unwrap();
        let refusal = data.open(&path).await.unwrap_err();
        assert!(matches!(refusal, StoreError::NotAFile { .. }), "{refusal}");
        assert_eq!(
            data.create(&path, Box::new(io::empty())).await.unwrap(),
            Creation::Exists
        );
    }

    struct Broken(u8);

    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::Error::other("the source broke off"));
            }
            self.0 -= 1;
            buffer.fill(0);
            Ok(buffer.len())
        }
    }

    /// INV-242: a source that breaks off leaves nothing under the name.
    #[tokio::test]
    async fn a_broken_source_leaves_no_file() {
        let root = tempfile::tempdir().unwrap();
        let path: FilePath = "flow/one.parquet".parse().unwrap();
        for data in both(root.path()) {
            assert!(data.create(&path, Box::new(Broken(3))).await.is_err());
            assert!(data.open(&path).await.unwrap().is_none());
        }
        let left = std::fs::read_dir(root.path().join(layout::data(&product())).join("flow")).unwrap();
        assert_eq!(left.count(), 0, "no temporary file stays");
    }
}
