//! Data files in a bucket, read by ranges.

use std::{
    collections::VecDeque,
    fmt,
    io::{self, Read},
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::{Error as ClientError, GetOptions, GetRange, ObjectStore, path::Path as ObjectPath};
use tokio::runtime::Handle;

use super::{DataFile, DataFiles, PlainParquet, RandomBytes, blocking};
use crate::{
    doc::{FilePath, ProductId, layout},
    store::{BucketFailure, BucketStore, Creation, StoreError},
};

/// How much is fetched at once.
const BLOCK_BYTES: u64 = 1 << 20;
/// How many blocks of an open file are kept: the columns of a table are read side by side.
const BLOCKS_MAX: usize = 64;
/// The largest file that is put. A conditional put is one request, so its bytes are in memory while it is sent.
pub const BUCKET_FILE_BYTES_MAX: u64 = 1 << 30;

/// The data files under `products/<product_id>/data/` of a catalogue in a bucket.
///
/// They are read in blocks, so a large file takes no more memory than a small one. A file is written with one conditional
/// put, complete before it is visible (INV-245).
#[derive(Debug, Clone)]
pub struct BucketData {
    store: BucketStore,
    folder: String,
}

impl BucketData {
    /// The data files of a product in a bucket.
    pub fn new(store: BucketStore, product: &ProductId) -> Self {
        let folder = layout::data(product);
        Self { store, folder }
    }

    fn name(&self, path: &FilePath) -> String {
        format!("{}/{path}", self.folder)
    }
}

#[async_trait]
impl DataFiles for BucketData {
    async fn open(&self, path: &FilePath) -> Result<Option<Arc<dyn DataFile>>, StoreError> {
        let name = self.name(path);
        let object = self.store.object(&name)?;
        let Some(meta) = self.store.head(&name, &object).await? else {
            return Ok(None);
        };
        let file = PlainParquet::new(BucketFile {
            bucket: self.store.bucket(),
            object,
            size: meta.size,
            e_tag: meta.e_tag,
            runtime: Handle::current(),
            blocks: Mutex::default(),
        });
        Ok(Some(Arc::new(file) as Arc<dyn DataFile>))
    }

    async fn create(&self, path: &FilePath, content: Box<dyn Read + Send>) -> Result<Creation, StoreError> {
        let name = self.name(path);
        let bytes = blocking("reading what becomes", name.clone(), move || {
            let mut bytes = Vec::new();
            content.take(BUCKET_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        });
        let bytes = bytes.await?;
        if bytes.len() as u64 > BUCKET_FILE_BYTES_MAX {
            return Err(StoreError::FileTooLarge {
                path: name,
                limit: BUCKET_FILE_BYTES_MAX,
            });
        }
        self.store.create_object(&name, bytes.into()).await
    }
}

/// A file that is read where blocking is allowed, and fetched on the runtime it was opened on.
struct BucketFile {
    bucket: Arc<dyn ObjectStore>,
    object: ObjectPath,
    size: u64,
    e_tag: Option<String>,
    runtime: Handle,
    /// The blocks used last, newest at the end.
    blocks: Mutex<VecDeque<(u64, Bytes)>>,
}

impl fmt::Debug for BucketFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BucketFile({}, {} bytes)", self.object, self.size)
    }
}

impl BucketFile {
    fn block(&self, number: u64) -> io::Result<Bytes> {
        if let Some(kept) = self.kept(number) {
            return Ok(kept);
        }
        let start = number * BLOCK_BYTES;
        let range = start..self.size.min(start + BLOCK_BYTES);
        let block = self.runtime.block_on(self.fetch(range))?;
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.push_back((number, block.clone()));
        if blocks.len() > BLOCKS_MAX {
            blocks.pop_front();
        }
        Ok(block)
    }

    fn kept(&self, number: u64) -> Option<Bytes> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let at = blocks.iter().position(|(kept, _)| *kept == number)?;
        let found = blocks.remove(at)?;
        let block = found.1.clone();
        blocks.push_back(found);
        Some(block)
    }

    async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes> {
        let length = range.end - range.start;
        let options = GetOptions {
            // One file from its first byte to its last, also when somebody replaces it meanwhile.
            if_match: self.e_tag.clone(),
            range: Some(GetRange::Bounded(range)),
            ..GetOptions::default()
        };
        let failed = |error: ClientError| match error {
            ClientError::Precondition { .. } => io::Error::other("it was replaced while it was read"),
            ClientError::NotFound { .. } => io::Error::other("it was deleted while it was read"),
            error => io::Error::other(BucketFailure::of(&error)),
        };
        let found = self.bucket.get_opts(&self.object, options).await.map_err(failed)?;
        let bytes = found.bytes().await.map_err(failed)?;
        if bytes.len() as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes)
    }
}

impl RandomBytes for BucketFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset + filled as u64;
            if at >= self.size {
                break;
            }
            let block = self.block(at / BLOCK_BYTES)?;
            // Below the size of a block, so it fits.
            let start = (at % BLOCK_BYTES) as usize;
            let length = (block.len() - start).min(buffer.len() - filled);
            buffer[filled..filled + length].copy_from_slice(&block[start..start + length]);
            filled += length;
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use object_store::{ObjectStoreExt as _, memory::InMemory};

    use super::*;
    use crate::{
        edition::{
            data::digest_data,
            testing::{numbers, product},
        },
        fingerprint::{CanonicalForm, fingerprint_parquet},
        store::StorePath,
    };

    fn bucket() -> (Arc<InMemory>, BucketData) {
        let bucket = Arc::new(InMemory::new());
        let prefix = StorePath::parse("some/where").expect("a path");
        let store = BucketStore::new(bucket.clone(), Some(prefix));
        (bucket, BucketData::new(store, &product()))
    }

    async fn put(data: &BucketData, path: &FilePath, bytes: Bytes) -> Creation {
        let created = data.create(path, Box::new(io::Cursor::new(bytes))).await;
        created.expect("answered")
    }

    /// INV-23, INV-99, INV-245: a data file in a bucket is written once, and its rows and digests are those of its bytes.
    #[tokio::test]
    async fn a_data_file_in_a_bucket_is_written_once() {
        let (_, data) = bucket();
        let path: FilePath = "flow/the rows of June.parquet".parse().expect("a path");
        let (first, second) = (numbers(0..3000), numbers(0..4));
        assert_eq!(put(&data, &path, first.clone()).await, Creation::Created);
        assert_eq!(put(&data, &path, second).await, Creation::Exists);
        let file = data.open(&path).await.expect("opened").expect("there");
        assert_eq!(file.size(), first.len() as u64);
        let read = tokio::task::spawn_blocking(move || {
            let part = file.table(CanonicalForm::ONE, NonZeroUsize::MIN).expect("rows");
            (file.rows().expect("rows"), digest_data(&*file).expect("read"), part)
        });
        let (rows, digests, part) = read.await.expect("ran");
        assert_eq!(rows, 3000);
        assert_eq!(digests.blake3, Some(*blake3::hash(&first).as_bytes()));
        let whole = fingerprint_parquet(CanonicalForm::ONE, first).expect("rows");
        assert!(part.fingerprint.same_as(&whole).expect("one form"));
        let other = "flow/two.parquet".parse().expect("a path");
        assert!(data.open(&other).await.expect("asked").is_none());
    }

    /// Reads at the seams of blocks give what is there, and a file that was replaced meanwhile is not mixed with its
    /// successor.
    #[tokio::test]
    async fn a_file_is_read_in_blocks_and_never_mixed() {
        let (bucket, data) = bucket();
        let path: FilePath = "flow/big".parse().expect("a path");
        let length = 2 * BLOCK_BYTES as usize + 12_345;
        let whole: Bytes = (0..length).map(|n| (n % 251) as u8).collect::<Vec<_>>().into();
        assert_eq!(put(&data, &path, whole.clone()).await, Creation::Created);
        let file = data.open(&path).await.expect("opened").expect("there");
        let again = data.open(&path).await.expect("opened").expect("there");
        let expected = whole.clone();
        let read = tokio::task::spawn_blocking(move || {
            let block = BLOCK_BYTES as usize;
            let starts = [0, block - 3, block, 2 * block - 1, length - 2, length, length + 9];
            for start in starts {
                let mut buffer = vec![0; 7];
                let read = file.read_at(start as u64, &mut buffer).expect("read");
                let from = start.min(length);
                assert_eq!(buffer[..read], expected[from..length.min(from + 7)], "at {start}");
            }
            let mut all = vec![0; length + 1];
            assert_eq!(file.read_at(0, &mut all).expect("read"), length);
            assert!(all[..length] == expected[..]);
        });
        read.await.expect("ran");
        let name = format!("some/where/{}/{path}", layout::data(&product()));
        let object = ObjectPath::parse(name).expect("a path");
        bucket.put(&object, whole.slice(1..).into()).await.expect("put");
        let late = tokio::task::spawn_blocking(move || again.read_at(0, &mut [0; 7]));
        let error = late.await.expect("ran").expect_err("it is another file now");
        assert!(error.to_string().contains("replaced"), "{error}");
    }

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the source broke off"))
        }
    }

    /// INV-242: a source that breaks off leaves nothing in the bucket.
    #[tokio::test]
    async fn a_broken_source_leaves_no_object() {
        let (_, data) = bucket();
        let path: FilePath = "flow/one.parquet".parse().expect("a path");
        assert!(data.create(&path, Box::new(Broken)).await.is_err());
        assert!(data.open(&path).await.expect("asked").is_none());
    }
}
