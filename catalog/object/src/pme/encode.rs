//! Step 1: encode rows as Parquet, in memory only (SOP §11.12, SOP-117).
//!
//! Rows gather until a row group is full, then every column chunk is encoded as one data page. Memory is bounded by one
//! row group of rows plus the encoded bytes.

mod codec;
mod field_ids;
mod policy;

use std::{fmt, io, sync::Arc};

pub use self::policy::{ROW_GROUP_BYTES, RowGroupPolicy};

use arrow::{
    array::{Array as _, ArrayRef},
    datatypes::{FieldRef, Schema, SchemaRef},
    error::ArrowError,
    record_batch::RecordBatch,
};
use parquet::{
    arrow::{
        ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata,
        arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves},
    },
    errors::ParquetError,
    file::{
        metadata::KeyValue,
        properties::{EnabledStatistics, WriterProperties, WriterVersion},
        writer::SerializedFileWriter,
    },
};

pub use codec::Codec;

use crate::parallel::in_parallel;

use super::{
    PLAIN_MAGIC, TAIL_LEN,
    dictionary::{self, Choice},
    encrypt::EncryptError,
    pad::PAD_KEY,
    repack::{SOURCES_KEY, SourcesCommitment},
};

/// Largest object that is ever written, after padding: 128 MiB (SOP-376).
pub const MAX_OBJECT_LEN: u64 = 128 << 20;
/// Rows of a full row group (SOP-368).
pub const ROW_GROUP_ROWS: usize = 122_880;

/// A page limit that is never reached: one data page a chunk (SOP-368).
const NO_LIMIT: usize = 1 << 30;

/// How to encode. The default fits nearly every table.
#[derive(Clone, Debug)]
pub struct EncodeOptions {
    /// Compression of pages.
    pub codec: Codec,
    /// Rows of a full row group.
    pub row_group_rows: usize,
    /// Compressed bytes of a full row group, about: rows with large values close it early (SOP-273).
    pub row_group_bytes: usize,
    /// Threads that encode the columns of a row group side by side.
    pub threads: usize,
    /// The object's largest length; above [`MAX_OBJECT_LEN`] it is refused.
    pub max_object_len: u64,
    /// Entries for the encrypted footer. Reserved keys are refused (SOP-77).
    pub key_values: Vec<(String, String)>,
    /// Where the rows of a repack come from (SOP-164).
    pub sources: Option<SourcesCommitment>,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self {
            codec: Codec::Zstd(3),
            row_group_rows: ROW_GROUP_ROWS,
            row_group_bytes: ROW_GROUP_BYTES,
            threads: 1,
            max_object_len: MAX_OBJECT_LEN,
            key_values: Vec::new(),
            sources: None,
        }
    }
}

/// Why rows were not encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A column, or a part of a nested one, has no field id (SOP-16).
    #[error("column {column:?} has no field id")]
    NoFieldId {
        /// Path of the column.
        column: String,
    },
    /// Two columns have one field id (SOP-18).
    #[error("field id {id} stands at two columns, the second is {column:?}")]
    DuplicateFieldId {
        /// The id.
        id: i32,
        /// Path of the second column.
        column: String,
    },
    /// A batch brought a column with another id than the object has there (SOP-16).
    #[error("column {column:?} of the rows has field id {found}, where the object has {expected}")]
    OtherFieldId {
        /// Name of the column in the batch.
        column: String,
        /// Its id.
        found: i32,
        /// The object's id.
        expected: i32,
    },
    /// The type cannot be stored.
    #[error("column {column:?} has type {data_type}, which objects cannot hold")]
    UnsupportedType {
        /// Path of the column.
        column: String,
        /// Its type.
        data_type: String,
    },
    /// A metadata key is reserved for padding (SOP-77).
    #[error("metadata key {key:?} is reserved")]
    ReservedKey {
        /// The key.
        key: String,
    },
    /// An option is out of range.
    #[error("{option} must be between {min} and {max}")]
    Option {
        /// The option.
        option: &'static str,
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// The object grew beyond its limit; start another one earlier.
    #[error("the object grew beyond {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The batch does not fit the encoder's schema.
    #[error("the rows do not fit the schema of the object")]
    Batch(#[source] ArrowError),
    /// The Parquet writer failed.
    #[error("the rows could not be encoded")]
    Parquet(#[from] ParquetError),
}

/// Takes batches of rows until an object is full.
pub struct Encoder {
    schema: SchemaRef,
    options: EncodeOptions,
    file: SerializedFileWriter<Vec<u8>>,
    with_dictionary: ArrowRowGroupWriterFactory,
    plain: ArrowRowGroupWriterFactory,
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    pending_bytes: usize,
    /// Memory the rows of finished row groups took, for the size estimate.
    encoded_raw_bytes: usize,
    row_groups: usize,
    rows: u64,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("rows", &self.rows)
            .field("row_groups", &self.row_groups)
            .finish_non_exhaustive()
    }
}

impl Encoder {
    /// Starts an object of rows of `schema`, whose fields carry their ids as `PARQUET:field_id` metadata.
    pub fn new(schema: SchemaRef, options: EncodeOptions) -> Result<Self, EncodeError> {
        check_options(&schema, &options)?;
        field_ids::check(&schema)?;
        let root = ArrowSchemaConverter::new().convert(&schema)?.root_schema_ptr();
        let file_properties = Arc::new(properties(&schema, &options, true)?);
        let plain_properties = Arc::new(properties(&schema, &options, false)?);
        let file = SerializedFileWriter::new(Vec::new(), root.clone(), file_properties)?;
        let with_dictionary = ArrowRowGroupWriterFactory::new(&file, schema.clone());
        // The factory takes its properties from a file writer; this one writes nothing.
        let nowhere = SerializedFileWriter::new(io::sink(), root, plain_properties)?;
        let plain = ArrowRowGroupWriterFactory::new(&nowhere, schema.clone());
        Ok(Self {
            schema,
            options,
            file,
            with_dictionary,
            plain,
            pending: Vec::new(),
            pending_rows: 0,
            pending_bytes: 0,
            encoded_raw_bytes: 0,
            row_groups: 0,
            rows: 0,
        })
    }

    /// Adds rows. Their columns must have the encoder's types, in its order, and its ids where they have any.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), EncodeError> {
        field_ids::compare(&self.schema, &batch.schema())?;
        let mut rest =
            RecordBatch::try_new(self.schema.clone(), batch.columns().to_vec()).map_err(EncodeError::Batch)?;
        let row_bytes = raw_size(&rest).div_ceil(rest.num_rows().max(1)).max(1);
        let policy = RowGroupPolicy {
            rows: self.options.row_group_rows,
            compressed_bytes: self.options.row_group_bytes,
            ..RowGroupPolicy::default()
        };
        while rest.num_rows() > 0 {
            let by_bytes = policy.raw_bytes(self.percent()).saturating_sub(self.pending_bytes) / row_bytes;
            let room = (self.options.row_group_rows - self.pending_rows).min(by_bytes);
            // A single row larger than the limit still becomes a row group.
            let take = if self.pending_rows == 0 { room.max(1) } else { room }.min(rest.num_rows());
            if take > 0 {
                self.pending.push(rest.slice(0, take));
                self.pending_rows += take;
                self.pending_bytes += take * row_bytes;
                rest = rest.slice(take, rest.num_rows() - take);
            }
            if rest.num_rows() > 0 || self.pending_rows == self.options.row_group_rows {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Roughly the length of the object if it were finished now, before padding.
    pub fn encoded_size_estimate(&self) -> u64 {
        self.estimate_with(0)
    }

    /// The same with rows that would take `more` bytes in memory, by [`raw_size`], added first.
    pub fn estimate_with(&self, more: usize) -> u64 {
        let pending = policy::estimate(self.pending_bytes + more, self.percent());
        (self.file.bytes_written() + pending) as u64
    }

    /// Bytes this encoder holds in memory, about: rows not yet encoded, and what was encoded.
    pub fn memory(&self) -> usize {
        self.file.bytes_written() + self.pending_bytes
    }

    /// How well the rows of this object compressed so far.
    fn percent(&self) -> Option<usize> {
        let written = self.file.bytes_written().checked_mul(100)?;
        written.checked_div(self.encoded_raw_bytes)
    }

    /// Rows taken so far.
    pub const fn rows(&self) -> u64 {
        self.rows + self.pending_rows as u64
    }

    /// Ends the row group being filled, so that the next rows begin another one.
    pub fn end_row_group(&mut self) -> Result<(), EncodeError> {
        self.flush()
    }

    /// Ends the object.
    pub fn finish(mut self) -> Result<Encoded, EncodeError> {
        self.flush()?;
        let bytes = self.file.into_inner()?;
        if bytes.len() as u64 > self.options.max_object_len {
            return Err(EncodeError::TooLarge {
                limit: self.options.max_object_len,
            });
        }
        Ok(Encoded { bytes, rows: self.rows })
    }

    /// Encodes the pending rows as one row group.
    fn flush(&mut self) -> Result<(), EncodeError> {
        if self.pending_rows == 0 {
            return Ok(());
        }
        let mut with_dictionary = self.with_dictionary.create_column_writers(self.row_groups)?.into_iter();
        let mut plain = self.plain.create_column_writers(self.row_groups)?.into_iter();
        let mut jobs = Vec::with_capacity(self.schema.fields().len());
        for (index, field) in self.schema.fields().iter().enumerate() {
            let columns: Vec<ArrayRef> = self.pending.iter().map(|batch| batch.column(index).clone()).collect();
            let mut leaves = Vec::new();
            columns
                .iter()
                .take(1)
                .for_each(|column| dictionary::leaves(column, &mut leaves));
            let writers: Vec<_> = leaves.iter().map(|_| (with_dictionary.next(), plain.next())).collect();
            jobs.push((field, columns, writers));
        }
        let chunks = in_parallel(self.options.threads, jobs, |(field, columns, writers)| {
            encode_column(field, &columns, writers)
        });
        let mut row_group = self.file.next_row_group()?;
        for chunks in chunks {
            for chunk in chunks? {
                chunk.append_to_row_group(&mut row_group)?;
            }
        }
        row_group.close()?;

        self.pending.clear();
        self.rows += self.pending_rows as u64;
        self.encoded_raw_bytes += self.pending_bytes;
        (self.pending_rows, self.pending_bytes) = (0, 0);
        self.row_groups += 1;
        if self.file.bytes_written() as u64 > self.options.max_object_len {
            return Err(EncodeError::TooLarge {
                limit: self.options.max_object_len,
            });
        }
        Ok(())
    }
}

/// The writers of one leaf column: with dictionary, and without.
type Writers = (Option<ArrowColumnWriter>, Option<ArrowColumnWriter>);

/// Encodes all leaves of a root column, given in batches.
fn encode_column(
    field: &FieldRef,
    columns: &[ArrayRef],
    writers: Vec<Writers>,
) -> Result<Vec<ArrowColumnChunk>, EncodeError> {
    let mut writers: Vec<LeafWriter> = choices(columns)
        .into_iter()
        .zip(writers)
        .map(|(choice, (with_dictionary, plain))| LeafWriter::new(choice, with_dictionary, plain))
        .collect();
    for column in columns {
        let leaves = compute_leaves(field, column)?;
        for (leaf, writer) in leaves.iter().zip(&mut writers) {
            writer.0.iter_mut().try_for_each(|writer| writer.write(leaf))?;
        }
    }
    writers.into_iter().map(LeafWriter::smallest).collect()
}

/// Encodes a leaf column one way, or both ways to keep the smaller.
struct LeafWriter(Vec<ArrowColumnWriter>);

impl LeafWriter {
    fn new(choice: Choice, with_dictionary: Option<ArrowColumnWriter>, plain: Option<ArrowColumnWriter>) -> Self {
        let (with_dictionary, plain) = match choice {
            Choice::Dictionary => (with_dictionary, None),
            Choice::Plain => (None, plain),
            Choice::TryBoth => (with_dictionary, plain),
        };
        Self(plain.into_iter().chain(with_dictionary).collect())
    }

    fn smallest(self) -> Result<ArrowColumnChunk, EncodeError> {
        let chunks = self
            .0
            .into_iter()
            .map(ArrowColumnWriter::close)
            .collect::<Result<Vec<_>, _>>()?;
        let smallest = chunks.into_iter().min_by_key(|chunk| chunk.close().bytes_written);
        Ok(smallest.ok_or_else(|| ParquetError::General("a column has no writer".to_owned()))?)
    }
}

/// One choice for each leaf under a root column.
fn choices(columns: &[ArrayRef]) -> Vec<Choice> {
    let mut parts: Vec<Vec<ArrayRef>> = Vec::new();
    for column in columns {
        let mut leaves = Vec::new();
        dictionary::leaves(column, &mut leaves);
        parts.resize_with(leaves.len().max(parts.len()), Vec::new);
        leaves
            .into_iter()
            .zip(&mut parts)
            .for_each(|(leaf, parts)| parts.push(leaf));
    }
    parts.iter().map(|parts| dictionary::choose(parts)).collect()
}

/// Bytes the rows take in memory.
pub fn raw_size(batch: &RecordBatch) -> usize {
    // For a slice this counts the slice; where Arrow cannot tell, the whole buffers.
    let size = |column: &ArrayRef| {
        let data = column.to_data();
        data.get_slice_memory_size()
            .unwrap_or_else(|_| data.get_array_memory_size())
    };
    batch.columns().iter().map(size).sum()
}

fn check_options(schema: &Schema, options: &EncodeOptions) -> Result<(), EncodeError> {
    let bounds = [
        ("row_group_rows", options.row_group_rows as u64, ROW_GROUP_ROWS as u64),
        ("row_group_bytes", options.row_group_bytes as u64, MAX_OBJECT_LEN),
        ("max_object_len", options.max_object_len, MAX_OBJECT_LEN),
    ];
    for (option, value, max) in bounds {
        if value == 0 || value > max {
            return Err(EncodeError::Option { option, min: 1, max });
        }
    }
    let keys = options
        .key_values
        .iter()
        .map(|(key, _)| key)
        .chain(schema.metadata().keys());
    for key in keys {
        if key.starts_with(PAD_KEY) || [SOURCES_KEY, parquet::arrow::ARROW_SCHEMA_META_KEY].contains(&key.as_str()) {
            return Err(EncodeError::ReservedKey { key: key.clone() });
        }
    }
    Ok(())
}

fn properties(schema: &Schema, options: &EncodeOptions, dictionary: bool) -> Result<WriterProperties, EncodeError> {
    let sources = options.sources.map(|sources| (SOURCES_KEY.to_owned(), sources.value()));
    let key_values = options
        .key_values
        .iter()
        .cloned()
        .chain(sources)
        .map(|(key, value)| KeyValue::new(key, value))
        .collect();
    let mut properties = WriterProperties::builder()
        .set_created_by("sovm SOP-PME-1".to_owned())
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(options.codec.compression()?)
        .set_dictionary_enabled(dictionary)
        .set_dictionary_page_size_limit(NO_LIMIT)
        .set_data_page_size_limit(NO_LIMIT)
        .set_data_page_row_count_limit(usize::MAX)
        .set_max_row_group_row_count(None)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_bloom_filter_enabled(false)
        .set_key_value_metadata(Some(key_values))
        .build();
    // Types that Parquet has no name for survive by this entry, which the encrypted footer hides.
    add_encoded_arrow_schema_to_metadata(schema, &mut properties);
    Ok(properties)
}

/// Plain Parquet bytes. They never leave memory, and nothing but encryption takes them (SOP-117).
pub struct Encoded {
    pub(super) bytes: Vec<u8>,
    pub(super) rows: u64,
}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoded")
            .field("len", &self.bytes.len())
            .field("rows", &self.rows)
            .finish()
    }
}

impl Encoded {
    /// Encodes all `batches` at once.
    pub fn new<'a>(
        schema: SchemaRef,
        batches: impl IntoIterator<Item = &'a RecordBatch>,
        options: EncodeOptions,
    ) -> Result<Self, EncodeError> {
        let mut encoder = Encoder::new(schema, options)?;
        batches.into_iter().try_for_each(|batch| encoder.write(batch))?;
        encoder.finish()
    }

    /// Rows in the object.
    pub const fn row_count(&self) -> u64 {
        self.rows
    }

    /// The footer's bytes.
    pub(super) fn footer(&self) -> Result<&[u8], EncryptError> {
        let malformed = EncryptError::Malformed("not a Parquet file");
        let Some((rest, tail)) = self.bytes.split_last_chunk::<{ TAIL_LEN as usize }>() else {
            return Err(malformed);
        };
        let (length, magic) = tail.split_at(4);
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        if magic != PLAIN_MAGIC || !rest.starts_with(&PLAIN_MAGIC) || length > rest.len() {
            return Err(malformed);
        }
        Ok(&rest[rest.len() - length..])
    }
}
