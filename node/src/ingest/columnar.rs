//! Parquet and Arrow IPC: schema from the file, values converted where they stay equal.

use std::{
    collections::VecDeque,
    io::{BufReader, Read as _, Seek as _, SeekFrom},
    path::PathBuf,
    sync::Arc,
};

use arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
    error::ArrowError,
    ipc::reader::{FileReader, StreamReader},
};
use bytes::Bytes;
use parquet::{
    arrow::arrow_reader::ParquetRecordBatchReaderBuilder,
    errors::ParquetError,
    file::reader::{ChunkReader, Length},
};
use sovm_object::types::{Column, ColumnsError, columns_of_schema};

use super::{
    BATCH_ROWS,
    conform::{ConformError, by_name},
    encrypted,
    error::{IngestError, Place},
    format::Format,
    input::{Meter, RandomAccess, RandomReader, Slot, unreadable},
    ipc,
    key_file::ParquetKey,
    rules::Checks,
    target::Target,
    widen::widened,
};

impl Length for RandomAccess {
    fn len(&self) -> u64 {
        self.len()
    }
}

impl ChunkReader for RandomAccess {
    type T = BufReader<RandomReader>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let mut reader = self.reader();
        reader.seek(SeekFrom::Start(start))?;
        Ok(BufReader::new(reader))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // Lengths come from the file; none is believed before it is inside the file.
        let end = start.checked_add(length as u64).filter(|end| *end <= self.len());
        if end.is_none() {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at {start} of {}",
                self.len()
            )));
        }
        let mut reader = self.reader();
        reader.seek(SeekFrom::Start(start))?;
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

pub(super) type BatchReader = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// A file whose schema is known.
pub(super) struct Opened {
    pub(super) schema: SchemaRef,
    pub(super) batches: BatchReader,
}

/// How the files of one command are opened.
pub(super) struct Opener {
    pub(super) format: Format,
    /// Where the encrypted temporary file goes for what cannot be read at random.
    pub(super) spool_dir: PathBuf,
    /// Key of encrypted Parquet files.
    pub(super) key: Option<Arc<ParquetKey>>,
}

fn refused(file: &str, format: Format, error: impl std::fmt::Display) -> IngestError {
    IngestError::Columnar {
        file: file.to_owned(),
        format,
        problem: error.to_string(),
    }
}

fn open(slot: &mut Slot, opener: &Opener, meter: &Meter) -> Result<Opened, IngestError> {
    let format = opener.format;
    let bytes = slot.random_access(&opener.spool_dir, meter)?;
    let name = slot.name.as_str();
    if bytes.len() == 0 {
        return Err(IngestError::Empty { file: name.to_owned() });
    }
    let edge = |from: u64| -> Result<Vec<u8>, IngestError> {
        let mut reader = bytes.reader();
        let mut edge = Vec::new();
        let read = reader
            .seek(SeekFrom::Start(from))
            .and_then(|_| reader.take(8).read_to_end(&mut edge));
        read.map(|_| edge).map_err(|source| unreadable(name, source))
    };
    if format == Format::Parquet {
        if edge(bytes.len().saturating_sub(4))? == b"PARE" {
            return match &opener.key {
                Some(key) => encrypted::open(name, bytes, key),
                None => Err(IngestError::EncryptedParquet { file: name.to_owned() }),
            };
        }
        guarded(name, format, || {
            let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone())?.with_batch_size(BATCH_ROWS);
            let schema = builder.schema().clone();
            Ok::<_, ParquetError>(Opened {
                schema,
                batches: Box::new(builder.build()?),
            })
        })
    } else if edge(0)?.starts_with(b"ARROW1") {
        ipc::check_file(&bytes).map_err(|problem| refused(name, format, problem))?;
        guarded(name, format, || {
            let reader = FileReader::try_new(BufReader::new(bytes.reader()), None)?;
            Ok::<_, ArrowError>(Opened {
                schema: reader.schema(),
                batches: Box::new(reader),
            })
        })
    } else {
        ipc::check_stream(&bytes).map_err(|problem| refused(name, format, problem))?;
        guarded(name, format, || {
            let reader = StreamReader::try_new(BufReader::new(bytes.reader()), None)?;
            Ok::<_, ArrowError>(Opened {
                schema: reader.schema(),
                batches: Box::new(reader),
            })
        })
    }
}

/// Runs a step of a foreign decoder. Those have panicked on damaged files before; a damaged file is an error here, and its
/// reader is not used again.
fn guarded<T, E: std::fmt::Display>(
    file: &str,
    format: Format,
    step: impl FnOnce() -> Result<T, E>,
) -> Result<T, IngestError> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(step)) {
        Ok(result) => result.map_err(|error| refused(file, format, error)),
        Err(_) => Err(refused(file, format, "its reader broke off")),
    }
}

fn columns_of(name: &str, schema: &Schema) -> Result<Vec<Column>, IngestError> {
    let file = name.to_owned();
    columns_of_schema(schema).map_err(|source| match source {
        ColumnsError::DuplicateName { name } => IngestError::DuplicateColumn { file, column: name },
        ColumnsError::EmptyName { field_id } => IngestError::EmptyColumnName {
            file,
            position: field_id as usize,
        },
        source => IngestError::Columns { file, source },
    })
}

/// The columns of the first file, which the others must have too, with types wide enough for all.
pub(super) fn infer(slots: &mut [Slot], opener: &Opener, meter: &Meter) -> Result<Vec<Column>, IngestError> {
    let mut first: Option<(String, Vec<Column>)> = None;
    for slot in slots {
        let opened = open(slot, opener, meter)?;
        let columns = columns_of(&slot.name, &opened.schema)?;
        match &mut first {
            None => first = Some((slot.name.clone(), columns)),
            Some((first, known)) => merge(first, known, &slot.name, &columns)?,
        }
    }
    meter.finish();
    first.map(|(_, columns)| columns).ok_or(IngestError::NoInput)
}

/// Columns by path, so that files may order them differently.
fn path_of(columns: &[Column], column: &Column) -> String {
    let parent = column
        .parent
        .and_then(|parent| columns.iter().find(|other| other.field_id == parent));
    parent.map_or_else(
        || column.name.clone(),
        |parent| format!("{}.{}", path_of(columns, parent), column.name),
    )
}

fn merge(first: &str, known: &mut [Column], file: &str, columns: &[Column]) -> Result<(), IngestError> {
    let paths: Vec<String> = known.iter().map(|column| path_of(known, column)).collect();
    let mut seen = vec![false; known.len()];
    for column in columns {
        let path = path_of(columns, column);
        let Some(index) = paths.iter().position(|other| *other == path) else {
            let known = super::target::list_names(paths.iter().map(String::as_str));
            return Err(IngestError::UnknownColumn {
                file: file.to_owned(),
                column: path,
                known,
            });
        };
        known[index].ty = widened(known[index].ty, column.ty).ok_or_else(|| IngestError::FilesDiffer {
            first: first.to_owned(),
            expected: known[index].ty,
            file: file.to_owned(),
            column: path,
            found: column.ty,
        })?;
        seen[index] = true;
        known[index].nullable |= column.nullable;
    }
    match seen.iter().position(|seen| !seen) {
        Some(index) => Err(IngestError::MissingColumn {
            file: file.to_owned(),
            column: paths[index].clone(),
        }),
        None => Ok(()),
    }
}

pub(super) struct ColumnarBatches {
    slots: VecDeque<Slot>,
    opener: Opener,
    target: Arc<Target>,
    meter: Meter,
    checks: Checks,
    current: Option<Current>,
}

struct Current {
    name: String,
    opened: Opened,
    /// Rows of the file that were handed on.
    rows: u64,
    /// The part of a large batch that is still to come.
    rest: Option<RecordBatch>,
}

impl ColumnarBatches {
    pub(super) fn new(slots: Vec<Slot>, opener: Opener, target: Arc<Target>, meter: Meter, checks: Checks) -> Self {
        Self {
            slots: slots.into(),
            opener,
            target,
            meter,
            checks,
            current: None,
        }
    }

    /// The next batch; `None` when all inputs are read.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>, IngestError> {
        loop {
            let Some(current) = &mut self.current else {
                let Some(mut slot) = self.slots.pop_front() else {
                    self.meter.finish();
                    return Ok(None);
                };
                let opened = open(&mut slot, &self.opener, &self.meter)?;
                // Names the unsupported types before a single row is read.
                columns_of(&slot.name, &opened.schema)?;
                self.current = Some(Current {
                    name: slot.name,
                    opened,
                    rows: 0,
                    rest: None,
                });
                continue;
            };
            let next = match current.rest.take() {
                Some(rest) => Some(rest),
                None => guarded(&current.name, self.opener.format, || {
                    current.opened.batches.next().transpose()
                })?,
            };
            let Some(batch) = next else {
                self.current = None;
                continue;
            };
            if batch.num_rows() == 0 {
                continue;
            }
            let rows = batch.num_rows().min(BATCH_ROWS);
            if rows < batch.num_rows() {
                current.rest = Some(batch.slice(rows, batch.num_rows() - rows));
            }
            let batch = convert(&batch.slice(0, rows), &self.target, current, self.opener.format)?;
            let broken = self.checks.of_batch(&batch);
            let broken = broken.map_err(|error| refused(&current.name, self.opener.format, error))?;
            if let Some((row, broken)) = broken {
                return Err(broken.at(current.name.clone(), Place::Row(current.rows + row as u64 + 1)));
            }
            current.rows += rows as u64;
            return Ok(Some(batch));
        }
    }
}

fn convert(
    batch: &RecordBatch,
    target: &Target,
    current: &Current,
    format: Format,
) -> Result<RecordBatch, IngestError> {
    let file = || current.name.clone();
    let arrays = by_name(
        batch.schema_ref().fields(),
        batch.columns(),
        &target.columns,
        batch.num_rows(),
        None,
    );
    let arrays = arrays.map_err(|error| match error {
        ConformError::Type { path, found, expected } => IngestError::ColumnType {
            file: file(),
            column: path,
            found,
            expected,
        },
        ConformError::Value {
            row,
            path,
            value,
            misfit,
        } => IngestError::BadValue {
            file: file(),
            place: Place::Row(current.rows + row as u64 + 1),
            column: path,
            value,
            misfit,
        },
        ConformError::Unknown { path } => IngestError::UnknownColumn {
            file: file(),
            column: path,
            known: target.names(),
        },
        ConformError::Missing { path } => IngestError::MissingColumn {
            file: file(),
            column: path,
        },
        ConformError::Arrow(error) => refused(&current.name, format, error),
    })?;
    RecordBatch::try_new(target.schema.clone(), arrays).map_err(|error| refused(&current.name, format, error))
}
