//! People's files as data files of an edition: Parquet as it is, everything else read by the ingest reader and written
//! as Parquet while it is stored, never as a whole in memory or beside the catalogue.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use arrow::{
    array::{Array as _, ArrayRef, AsArray as _, RecordBatch},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType},
};
use parquet::{arrow::ArrowWriter, basic::Compression, file::properties::WriterProperties};
use sovm_inventory::fingerprint::{check_schema, parquet_table::refused_columns};
use sovm_object::types::{Column, ColumnType, columns_of_schema};

use super::fingerprint::SharedFile;
use crate::{
    api::{Event, ProgressSink, Unit},
    engine::chain,
    error::{ApiError, ErrorKind},
    ingest::{Batches, Format, Input, Options, Source, SourceSpec},
};

/// A file that was looked at and may become a data file.
pub(super) struct TableFile {
    /// Its bytes as Parquet.
    pub(super) content: Box<dyn Read + Send>,
    /// Why reading stopped. A store says of a failed reader only that it failed.
    pub(super) failure: Failure,
}

/// Where a reader leaves the reason it stopped for.
#[derive(Debug, Clone, Default)]
pub(super) struct Failure(Arc<Mutex<Option<ApiError>>>);

impl Failure {
    /// The reason, once.
    pub(super) fn take(&self) -> Option<ApiError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, error: ApiError) -> io::Error {
        let text = error.message.clone();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        io::Error::other(text)
    }
}

/// Opens a file. Everything that is said of its columns is known before a byte of it is stored.
///
/// `like` are the columns of the table it is added to; without them they are inferred.
pub(super) fn open(
    path: &Path,
    like: Option<&SchemaRef>,
    nulls: &[String],
    progress: &Arc<dyn ProgressSink>,
) -> Result<TableFile, ApiError> {
    let name = path.display().to_string();
    let reading = |error: &io::Error| ApiError::io(format!("reading {name}"), error).safe(UNTOUCHED);
    let mut start = [0; 4];
    let mut file = File::open(path).map_err(|error| reading(&error))?;
    let length = file.read(&mut start).map_err(|error| reading(&error))?;
    match &start[..length] {
        b"PARE" => Err(
            ApiError::new(ErrorKind::BadInput, format!("{name} is encrypted Parquet"))
                .safe(UNTOUCHED)
                .next("name the table in clear: what is published is read by whoever may read the edition"),
        ),
        b"PAR1" => as_it_is(path, &name, progress),
        _ => converted(path, like, nulls, progress),
    }
}

/// What is true until the first byte is stored.
const UNTOUCHED: &str = "no version was written; what is live is as it was";

fn refused(name: &str, reasons: &[String]) -> ApiError {
    ApiError::new(ErrorKind::BadInput, format!("{name}: {}", reasons.join("; ")))
        .safe(UNTOUCHED)
        .next("write the file again without these columns, or with types whose text is stable")
}

fn as_it_is(path: &Path, name: &str, progress: &Arc<dyn ProgressSink>) -> Result<TableFile, ApiError> {
    let file = SharedFile::open(path, progress.clone())
        .map_err(|error| ApiError::io(format!("reading {name}"), &error).safe(UNTOUCHED))?;
    let columns = refused_columns(&file).map_err(|error| {
        ApiError::new(ErrorKind::BadInput, format!("{name}: {}", chain(&error)))
            .safe(UNTOUCHED)
            .next("write the file again; it is no Parquet file that can be read")
    })?;
    if !columns.is_empty() {
        let reasons: Vec<String> = columns.iter().map(ToString::to_string).collect();
        return Err(refused(name, &reasons));
    }
    Ok(TableFile {
        content: Box::new(file.reader()),
        failure: Failure::default(),
    })
}

fn converted(
    path: &Path,
    like: Option<&SchemaRef>,
    nulls: &[String],
    progress: &Arc<dyn ProgressSink>,
) -> Result<TableFile, ApiError> {
    let told = progress.clone();
    let options = Options {
        null_words: nulls.to_vec(),
        progress: Some(Arc::new(move |read| {
            told.event(Event::Progress {
                stage: "reading rows".to_owned(),
                unit: Unit::Bytes,
                done: read.bytes,
                total: read.total,
            });
        })),
        ..Options::default()
    };
    let source = |spec: SourceSpec| Source::open(spec).map_err(|error| ApiError::from(error).safe(UNTOUCHED));
    let mut inputs = source(SourceSpec {
        inputs: vec![Input::File(path.to_owned())],
        format: None,
        spool_dir: std::env::temp_dir(),
    })?;
    debug_assert_ne!(inputs.format(), Format::Parquet, "its first bytes would have said so");
    let found = inputs
        .infer(&options)
        .map_err(|error| ApiError::from(error).safe(UNTOUCHED))?;
    let columns = match like {
        None => found,
        Some(like) => columns_like(like, &found)?,
    };
    let batches = inputs
        .batches(&columns, &options)
        .map_err(|error| ApiError::from(error).safe(UNTOUCHED))?;
    let schema = published(batches.schema());
    if let Err(reason) = check_schema(&schema) {
        return Err(refused(&path.display().to_string(), &[reason.to_string()]));
    }
    let failure = Failure::default();
    let content = ParquetRows::new(batches, schema, failure.clone())?;
    Ok(TableFile {
        content: Box::new(content),
        failure,
    })
}

/// The columns of the table, so that rows added later are of the same types: a column that happens to hold whole
/// numbers, or nothing, in this file is still what it was.
fn columns_like(like: &SchemaRef, found: &[Column]) -> Result<Vec<Column>, ApiError> {
    let mut columns = columns_of_schema(like).map_err(ApiError::bug)?;
    for column in &mut columns {
        let instant = |other: &&Column| {
            other.parent.is_none() && other.name == column.name && other.ty == ColumnType::TimestampUs
        };
        // An instant is read as one and stored as the time in UTC, as it was the first time.
        if column.parent.is_none()
            && column.ty == ColumnType::TimestampUsLocal
            && found.iter().any(|other| instant(&other))
        {
            column.ty = ColumnType::TimestampUs;
        }
    }
    Ok(columns)
}

/// GAP-10: an instant's text follows the reader's time zone, so what is published is its date and time in UTC.
fn published(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            let plain = DataType::Timestamp(TimeUnit::Microsecond, None);
            Arc::new(Field::new(field.name(), plain, field.is_nullable()).with_metadata(field.metadata().clone()))
        }
        _ => field.clone(),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn in_utc(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            let instants = column.as_primitive::<TimestampMicrosecondType>().clone();
            Arc::new(instants.with_timezone_opt(None::<Arc<str>>))
        }
        _ => column.clone(),
    }
}

/// Rows that become Parquet as they are read.
struct ParquetRows {
    batches: Batches,
    schema: SchemaRef,
    /// Nothing once the footer is written.
    writer: Option<ArrowWriter<Vec<u8>>>,
    ready: io::Cursor<Vec<u8>>,
    failure: Failure,
}

impl ParquetRows {
    fn new(batches: Batches, schema: SchemaRef, failure: Failure) -> Result<Self, ApiError> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(Default::default()))
            .build();
        let writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties)).map_err(ApiError::bug)?;
        Ok(Self {
            batches,
            schema,
            writer: Some(writer),
            ready: io::Cursor::default(),
            failure,
        })
    }

    /// Encodes the next rows; nothing more once the footer is out.
    fn advance(&mut self) -> Result<bool, ApiError> {
        let Some(writer) = &mut self.writer else {
            return Ok(false);
        };
        let bytes = match self.batches.next() {
            Some(batch) => {
                let columns = batch?.columns().iter().map(in_utc).collect();
                let batch = RecordBatch::try_new(self.schema.clone(), columns).map_err(ApiError::bug)?;
                writer.write(&batch).map_err(ApiError::bug)?;
                std::mem::take(writer.inner_mut())
            }
            None => match self.writer.take() {
                Some(writer) => writer.into_inner().map_err(ApiError::bug)?,
                None => return Ok(false),
            },
        };
        self.ready = io::Cursor::new(bytes);
        Ok(true)
    }
}

impl Read for ParquetRows {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.ready.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                Err(error) => return Err(self.failure.set(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;
    use crate::api::Discard;

    fn stored(dir: &Path, name: &str, text: &str, like: Option<&SchemaRef>) -> Result<RecordBatch, ApiError> {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        let progress: Arc<dyn ProgressSink> = Arc::new(Discard);
        let mut file = open(&path, like, &["NA".to_owned()], &progress)?;
        let mut bytes = Vec::new();
        if let Err(error) = file.content.read_to_end(&mut bytes) {
            return Err(file.failure.take().unwrap_or_else(|| panic!("{error}")));
        }
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).unwrap();
        let mut batches = reader.build().unwrap();
        let batch = batches.next().unwrap().unwrap();
        assert!(batches.next().is_none());
        Ok(batch)
    }

    #[test]
    fn text_becomes_parquet() {
        let dir = tempfile::tempdir().unwrap();
        let batch = stored(
            dir.path(),
            "a.csv",
            "place,at,people\nx,2013-01-01T05:00:00Z,3\ny,NA,NA\n",
            None,
        )
        .unwrap();
        assert_eq!((batch.num_rows(), batch.num_columns()), (2, 3));
        let at = batch.schema().field(1).data_type().clone();
        assert_eq!(at, DataType::Timestamp(TimeUnit::Microsecond, None));
        assert_eq!(batch.column(2).null_count(), 1);
    }

    /// Rows that are added have the types the table has, whatever the file alone would suggest.
    #[test]
    fn rows_that_are_added_have_the_tables_types() {
        let dir = tempfile::tempdir().unwrap();
        let first = stored(
            dir.path(),
            "a.csv",
            "place,at,share\nx,2013-01-01T05:00:00Z,0.5\n",
            None,
        )
        .unwrap();
        let like = first.schema();
        let second = stored(
            dir.path(),
            "b.csv",
            "place,at,share\n1,2014-01-01T05:00:00Z,1\n",
            Some(&like),
        )
        .unwrap();
        let types = |batch: &RecordBatch| {
            let schema = batch.schema();
            schema
                .fields()
                .iter()
                .map(|field| field.data_type().clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(types(&first), types(&second));
        let error = stored(
            dir.path(),
            "c.csv",
            "place,at,share\nx,2014-01-01T05:00:00Z,much\n",
            Some(&like),
        )
        .unwrap_err();
        assert!(error.message.contains("share"), "{}", error.message);
    }

    #[test]
    fn columns_without_a_stable_text_are_refused_before_anything_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let error = stored(dir.path(), "a.csv", "t,x\n1,2\n", None).unwrap_err();
        assert!(
            error.message.contains("INV-72") && error.message.contains("\"t\""),
            "{}",
            error.message
        );
        assert!(error.safe.is_some() && error.next.is_some());
        let error = stored(dir.path(), "b.parquet", "PAR1 but nothing else", None).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadInput);
        let error = stored(dir.path(), "c.parquet", "PARE", None).unwrap_err();
        assert!(error.message.contains("encrypted"), "{}", error.message);
    }
}
