//! Opening an object: prove its length, open its footer, check its shape (SOP §11.10, SOP-88 to SOP-91).

use std::{ops::Range, sync::Arc};

use arrow::datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef};
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    errors::ParquetError,
    file::{
        metadata::{ParquetMetaData, ParquetMetaDataReader},
        statistics::Statistics,
    },
};

use super::{
    Contained, ENVELOPE_LEN, MAGIC, PLAIN_MAGIC, TAIL_LEN, contain_panic,
    footer::{self, CryptoMetadata, Facts},
    module::{self, FRAME_LEN, ModuleError, ModuleKey},
};
use crate::{
    id::StorageId,
    secret::Dek,
    thrift::ThriftError,
    verified::{MemoryObject, ReadError, VerifiedBytes, VerifiedRead},
};

/// Longest footer that is read (SOP-71).
const MAX_FOOTER_LEN: u64 = 256 << 20;
/// A page takes two modules.
const MIN_CHUNK_LEN: u64 = 2 * FRAME_LEN as u64;

/// Why an object cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No verified bytes came.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Plain Parquet, or plain footer (SOP-5, SOP-11).
    #[error("the object is not encrypted")]
    NotEncrypted,
    /// No Parquet magic at one of the ends (SOP-60, SOP-374).
    #[error("the object is not an encrypted Parquet file")]
    BadMagic,
    /// The footer's length leads out of the object, or is beyond any real footer (SOP-71).
    #[error("the object's footer length of {footer} does not fit its {size} bytes")]
    FooterLength {
        /// Claimed length of the footer.
        footer: u64,
        /// Length of the object.
        size: u64,
    },
    /// FileCryptoMetaData does not parse.
    #[error("the object's encryption header does not parse")]
    CryptoMetadata(#[source] ThriftError),
    /// Not AES-GCM for all modules (SOP-20).
    #[error("the object uses an encryption algorithm that is not accepted")]
    UnsupportedAlgorithm,
    /// The object was made with an AAD, so it is not SOP-PME-1 (SOP-28).
    #[error("the object was encrypted with a module AAD, which SOP-PME-1 does not use")]
    ForeignAad,
    /// The footer's tag does not fit the key, although the bytes fit their id (SOP-91).
    #[error("the object does not open with its key: the key is wrong, or its producer damaged it")]
    KeyMismatch,
    /// The footer module does not fill its place.
    #[error("the object's footer module has a wrong length")]
    ModuleLength,
    /// The decrypted footer does not parse.
    #[error("the object's footer does not parse")]
    Footer(#[from] ThriftError),
    /// The Parquet library refuses the footer.
    #[error("the object's footer is not valid Parquet metadata")]
    Metadata(#[source] ParquetError),
    /// The Parquet library failed over the footer.
    #[error("the object's footer makes the Parquet library fail")]
    Unreadable,
    /// The schema is no tree.
    #[error("the object's schema is malformed: {0}")]
    Schema(&'static str),
    /// Two columns claim one field id (SOP-18).
    #[error("two columns of the object have field id {0}")]
    DuplicateFieldId(i32),
    /// A column has a key of its own (SOP-10).
    #[error("a column of the object has a key of its own, which SOP-PME-1 does not allow")]
    ColumnKey,
    /// Some columns are marked as encrypted and others are not (SOP-8).
    #[error("only some columns of the object are marked as encrypted")]
    MixedEncryption,
    /// A column chunk names another file.
    #[error("a column of the object is said to be in another file")]
    ExternalColumn,
    /// A column chunk lies outside the object, or over another one (SOP-90).
    #[error("column chunk {column} of row group {row_group} is not inside the object")]
    ChunkRange {
        /// Row group.
        row_group: usize,
        /// Leaf column.
        column: usize,
    },
    /// Counts in the footer contradict each other or the object's length (SOP-90, SOP-103).
    #[error("the object's footer contradicts itself: {0}")]
    Inconsistent(&'static str),
}

impl From<Contained> for OpenError {
    fn from(_: Contained) -> Self {
        Self::Unreadable
    }
}

/// How to open.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Bytes of the object's end to read in the first step. Enough for footer and padding saves a second read; the
    /// padding alone is blob length minus `exact_byte_size`.
    pub tail_len: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { tail_len: 64 * 1024 }
    }
}

/// A root column of an object. Readers match by field id; names are display (SOP-17).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Column {
    /// Stable field id; foreign objects may have none.
    pub field_id: Option<i32>,
    /// Name at the time of writing.
    pub name: String,
    /// Place among the root columns, also in [`Footer::schema`].
    pub index: usize,
    /// Its leaf columns.
    pub leaves: Range<usize>,
}

/// An opened footer: everything needed to plan reads and to decode them. Holds the object's key.
#[derive(Debug)]
pub struct Footer {
    pub(super) id: StorageId,
    pub(super) size: u64,
    pub(super) key: ModuleKey,
    pub(super) reader: ArrowReaderMetadata,
    /// The same with texts and bytes as views, for rows.
    pub(super) viewed: Option<ArrowReaderMetadata>,
    pub(super) columns: Vec<Column>,
    /// Places of column chunks, row group by row group.
    pub(super) chunks: Vec<Range<u64>>,
    /// Indexes into `chunks`, by start.
    pub(super) by_start: Vec<usize>,
    pub(super) facts: Facts,
    pub(super) crypto: CryptoMetadata,
    plain_len: u64,
}

impl Footer {
    /// Opens an object through a verified source.
    ///
    /// ```
    /// # use sovm_object::{id::StorageId, pme::{Footer, OpenOptions}, secret::Dek, verified::MemoryObject};
    /// async fn right(object: &MemoryObject, id: StorageId, dek: &Dek) {
    ///     let _ = Footer::open(object, id, dek, OpenOptions::default()).await;
    /// }
    /// ```
    ///
    /// ```compile_fail,E0277
    /// # use sovm_object::{id::StorageId, pme::{Footer, OpenOptions}, secret::Dek};
    /// // SOP-31, SOP-86, SOP-94: a key and a file give no rows, whoever asks.
    /// async fn wrong(object: &std::fs::File, id: StorageId, dek: &Dek) {
    ///     let _ = Footer::open(object, id, dek, OpenOptions::default()).await;
    /// }
    /// ```
    pub async fn open<R: VerifiedRead>(
        source: &R,
        id: StorageId,
        dek: &Dek,
        options: OpenOptions,
    ) -> Result<Self, OpenError> {
        let size = source.size(id).await?;
        if size < ENVELOPE_LEN {
            return Err(OpenError::BadMagic);
        }
        let tail_from = size.saturating_sub(options.tail_len.max(TAIL_LEN));
        let mut parts = read_parts(source, id, &[0..MAGIC.len() as u64, tail_from..size]).await?;
        let (Some(tail), Some(head)) = (parts.pop(), parts.pop()) else {
            return Err(OpenError::BadMagic);
        };
        let footer_from = locate(size, &head, &tail)?;
        let footer = match tail.part(footer_from..size) {
            Some(footer) => footer,
            None => {
                let footer = footer_from..size;
                read_parts(source, id, std::slice::from_ref(&footer))
                    .await?
                    .pop()
                    .ok_or(OpenError::BadMagic)?
            }
        };
        Self::parse(id, size, &footer, dek)
    }

    /// Opens an object that is wholly in memory.
    pub fn open_whole(object: &MemoryObject, dek: &Dek) -> Result<Self, OpenError> {
        let whole = object.whole();
        let size = whole.len() as u64;
        if size < ENVELOPE_LEN {
            return Err(OpenError::BadMagic);
        }
        let footer_from = locate(size, &whole[..MAGIC.len()], whole)?;
        let footer = whole.part(footer_from..size).ok_or(OpenError::BadMagic)?;
        Self::parse(whole.storage_id(), size, &footer, dek)
    }

    /// `footer` is everything from FileCryptoMetaData to the end of the object.
    fn parse(id: StorageId, size: u64, footer: &VerifiedBytes, dek: &Dek) -> Result<Self, OpenError> {
        let key = ModuleKey::new(dek);
        let body_end = footer.range().start;
        let footer = &footer[..footer.len() - TAIL_LEN as usize];
        let (crypto, crypto_len) = footer::crypto_metadata(footer)?;
        let plain = module::open_whole(&key.cipher(), &footer[crypto_len..]).map_err(|error| match error {
            ModuleError::Length => OpenError::ModuleLength,
            ModuleError::Tag => OpenError::KeyMismatch,
        })?;
        Self::from_plain(id, size, body_end, &plain, crypto, key)
    }

    /// The part after decryption, also the entry for fuzzing.
    pub(super) fn from_plain(
        id: StorageId,
        size: u64,
        body_end: u64,
        plain: &[u8],
        crypto: CryptoMetadata,
        key: ModuleKey,
    ) -> Result<Self, OpenError> {
        let (stripped, facts) = footer::strip(plain)?;
        if facts.marked_chunks != 0 && facts.marked_chunks != facts.chunks {
            return Err(OpenError::MixedEncryption);
        }
        // Before the library allocates for them: no more chunks than the body has room for.
        if facts.chunks > size / MIN_CHUNK_LEN {
            return Err(OpenError::Inconsistent(
                "more column chunks than the object has room for",
            ));
        }
        let metadata =
            contain_panic(|| ParquetMetaDataReader::decode_metadata(&stripped))?.map_err(OpenError::Metadata)?;
        let (chunks, by_start) = chunk_ranges(&metadata, body_end)?;
        let columns = root_columns(&metadata);
        let reader = reader_metadata(Arc::new(metadata))?;
        Ok(Self {
            id,
            size,
            key,
            reader,
            viewed: None,
            columns,
            chunks,
            by_start,
            facts,
            crypto,
            plain_len: plain.len() as u64,
        })
    }

    /// The same object, read as `schema`: equal columns, other Arrow types where Parquet allows (views, time zones).
    pub fn with_schema(mut self, schema: SchemaRef) -> Result<Self, OpenError> {
        let options = ArrowReaderOptions::new().with_schema(schema);
        self.reader = contain_panic(|| ArrowReaderMetadata::try_new(self.reader.metadata().clone(), options))?
            .map_err(OpenError::Metadata)?;
        Ok(self)
    }

    /// Has rows come with root columns of text and bytes as views, which share a page's bytes instead of copying every value. An object
    /// for which that cannot be is read as before. [`schema`](Self::schema) stays as it was.
    pub fn prefer_views(&mut self) {
        let viewed = |field: &FieldRef| match view_of(field.data_type()) {
            Some(view) => Arc::new(field.as_ref().clone().with_data_type(view)),
            None => field.clone(),
        };
        let found = self.schema();
        let fields: Fields = found.fields().iter().map(viewed).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, found.metadata().clone()));
        let options = ArrowReaderOptions::new().with_schema(schema);
        self.viewed = contain_panic(|| ArrowReaderMetadata::try_new(self.reader.metadata().clone(), options))
            .ok()
            .and_then(Result::ok);
    }

    /// Memory it takes, about.
    pub fn memory_size(&self) -> usize {
        size_of::<Self>() + self.metadata().memory_size() + self.chunks.len() * size_of::<Range<u64>>()
    }

    /// Plaintext bytes that decryption of the footer gave, padding included.
    pub const fn bytes_decrypted(&self) -> u64 {
        self.plain_len
    }

    /// The object's id.
    pub const fn storage_id(&self) -> StorageId {
        self.id
    }

    /// The object's proven length.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Arrow schema of the object; fields carry `PARQUET:field_id` metadata.
    pub fn schema(&self) -> &SchemaRef {
        self.reader.schema()
    }

    /// Root columns, in the order of the schema.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The root column with a field id; a dropped or never written one is `None` and reads as null (SOP-19).
    pub fn column(&self, field_id: i32) -> Option<&Column> {
        self.columns.iter().find(|column| column.field_id == Some(field_id))
    }

    /// Parquet metadata whose offsets are the encrypted object's, fit for a reader over [`view`](Self::view).
    ///
    /// Statistics and counts may skip work; no answer may come from them (SOP-97).
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        self.reader.metadata()
    }

    /// Count of row groups.
    pub fn row_groups(&self) -> usize {
        self.metadata().num_row_groups()
    }

    /// Rows a row group claims to have. For planning only (SOP-98).
    pub fn claimed_rows(&self, row_group: usize) -> u64 {
        self.metadata()
            .row_groups()
            .get(row_group)
            .map_or(0, |group| group.num_rows() as u64)
    }

    /// Statistics of a leaf column in a row group, to skip work with (SOP-100).
    pub fn statistics(&self, row_group: usize, leaf: usize) -> Option<&Statistics> {
        self.metadata()
            .row_groups()
            .get(row_group)?
            .columns()
            .get(leaf)?
            .statistics()
    }

    pub(super) fn leaf_count(&self) -> usize {
        self.metadata().file_metadata().schema_descr().num_columns()
    }
}

/// Reads and checks that the source kept its contract.
async fn read_parts<R: VerifiedRead>(
    source: &R,
    id: StorageId,
    ranges: &[Range<u64>],
) -> Result<Vec<VerifiedBytes>, OpenError> {
    let parts = source.read(id, ranges).await?;
    let fits = |(part, range): (&VerifiedBytes, &Range<u64>)| part.storage_id() == id && part.range() == *range;
    if parts.len() != ranges.len() || !parts.iter().zip(ranges).all(fits) {
        return Err(ReadError::HashMismatch {
            id,
            offset: ranges.first().map_or(0, |range| range.start),
        }
        .into());
    }
    Ok(parts)
}

/// Checks the magics and finds where FileCryptoMetaData starts.
fn locate(size: u64, head: &[u8], tail: &[u8]) -> Result<u64, OpenError> {
    let Some((_, end)) = tail.split_last_chunk::<{ TAIL_LEN as usize }>() else {
        return Err(OpenError::BadMagic);
    };
    let (length, magic) = end.split_at(4);
    if head == PLAIN_MAGIC || magic == PLAIN_MAGIC {
        return Err(OpenError::NotEncrypted);
    }
    if head != MAGIC || magic != MAGIC {
        return Err(OpenError::BadMagic);
    }
    let footer = u64::from(u32::from_le_bytes([length[0], length[1], length[2], length[3]]));
    if footer > size - ENVELOPE_LEN || footer > MAX_FOOTER_LEN {
        return Err(OpenError::FooterLength { footer, size });
    }
    Ok(size - TAIL_LEN - footer)
}

/// Checks every number a read will rely on, and gives the chunks' places and their order (SOP-90).
fn chunk_ranges(metadata: &ParquetMetaData, body_end: u64) -> Result<(Vec<Range<u64>>, Vec<usize>), OpenError> {
    let schema = metadata.file_metadata().schema_descr();
    let mut ranges = Vec::new();
    let mut rows = 0i64;
    for (row_group, group) in metadata.row_groups().iter().enumerate() {
        if group.num_columns() != schema.num_columns() {
            return Err(OpenError::Inconsistent("a row group lacks columns"));
        }
        if group.num_rows() < 0 {
            return Err(OpenError::Inconsistent("a negative count of rows"));
        }
        rows = rows
            .checked_add(group.num_rows())
            .ok_or(OpenError::Inconsistent("too many rows"))?;
        for (column, chunk) in group.columns().iter().enumerate() {
            let bad_range = OpenError::ChunkRange { row_group, column };
            let data = chunk.data_page_offset();
            let start = chunk.dictionary_page_offset().unwrap_or(data);
            let (Ok(from), Ok(len)) = (u64::try_from(start), u64::try_from(chunk.compressed_size())) else {
                return Err(bad_range);
            };
            let end = from
                .checked_add(len)
                .filter(|&end| end <= body_end && from >= MAGIC.len() as u64);
            let end = end.ok_or(bad_range)?;
            if data < start || chunk.uncompressed_size() < 0 {
                return Err(OpenError::ChunkRange { row_group, column });
            }
            if chunk.num_values() < 0 || (len < MIN_CHUNK_LEN && chunk.num_values() > 0) {
                return Err(OpenError::Inconsistent("a column chunk without room for its values"));
            }
            if chunk.column_descr().max_rep_level() == 0 && chunk.num_values() != group.num_rows() {
                return Err(OpenError::Inconsistent(
                    "a column has another count of values than its row group has rows",
                ));
            }
            ranges.push(from..end);
        }
    }
    if rows != metadata.file_metadata().num_rows() {
        return Err(OpenError::Inconsistent(
            "row groups and file differ in their count of rows",
        ));
    }
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_unstable_by_key(|&index| (ranges[index].start, ranges[index].end));
    if let Some(pair) = order
        .windows(2)
        .find(|pair| ranges[pair[0]].end > ranges[pair[1]].start)
    {
        let leaves = schema.num_columns().max(1);
        return Err(OpenError::ChunkRange {
            row_group: pair[1] / leaves,
            column: pair[1] % leaves,
        });
    }
    Ok((ranges, order))
}

fn root_columns(metadata: &ParquetMetaData) -> Vec<Column> {
    let schema = metadata.file_metadata().schema_descr();
    let mut leaf = 0;
    let roots = schema.root_schema().get_fields().iter().enumerate();
    roots
        .map(|(index, field)| {
            let first = leaf;
            while leaf < schema.num_columns() && schema.get_column_root_idx(leaf) == index {
                leaf += 1;
            }
            let info = field.get_basic_info();
            Column {
                field_id: info.has_id().then(|| info.id()),
                name: field.name().to_owned(),
                index,
                leaves: first..leaf,
            }
        })
        .collect()
}

/// The same values as views; `None` for types that have none.
pub fn view_of(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => Some(DataType::Utf8View),
        DataType::Binary | DataType::LargeBinary => Some(DataType::BinaryView),
        _ => None,
    }
}

/// The Arrow schema, with the writer's own types where its entry for them is sound.
fn reader_metadata(metadata: Arc<ParquetMetaData>) -> Result<ArrowReaderMetadata, OpenError> {
    let hinted = contain_panic(|| ArrowReaderMetadata::try_new(metadata.clone(), ArrowReaderOptions::new()));
    if let Ok(Ok(reader)) = hinted {
        return Ok(reader);
    }
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    contain_panic(|| ArrowReaderMetadata::try_new(metadata, options))?.map_err(OpenError::Metadata)
}
