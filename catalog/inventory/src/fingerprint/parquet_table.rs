//! The fingerprint of a table from its Parquet file.

use std::{
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
};

use arrow::{datatypes::Schema, error::ArrowError};
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
    basic::{ConvertedType, LogicalType, Type as PhysicalType},
    errors::ParquetError,
    file::reader::ChunkReader,
    schema::types::SchemaDescriptor,
};

use super::{
    form::CanonicalForm,
    schema::{Refused, Why, check_schema},
    table::{TableError, TableFingerprint, add_up},
    value::{Fingerprint, Table},
};

const BATCH_ROWS: usize = 8_192;

/// A Parquet file could not be fingerprinted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParquetTableError {
    /// Its table is refused, or a value in it.
    #[error(transparent)]
    Table(#[from] TableError),
    /// It is no Parquet file, or a damaged one.
    #[error("the Parquet file cannot be read: {0}")]
    Unreadable(String),
}

impl From<Refused> for ParquetTableError {
    fn from(refused: Refused) -> Self {
        Self::Table(refused.into())
    }
}

impl From<ParquetError> for ParquetTableError {
    fn from(error: ParquetError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<ArrowError> for ParquetTableError {
    fn from(error: ArrowError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// The fingerprint of the table in a Parquet file, read once from front to back.
pub fn fingerprint_parquet<R: ChunkReader + 'static>(
    form: CanonicalForm,
    reader: R,
) -> Result<Fingerprint<Table>, ParquetTableError> {
    let metadata = contained(|| open(&reader))?;
    let mut table = TableFingerprint::new(form, metadata.schema())?;
    contained(|| {
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(reader, metadata);
        for batch in builder.with_batch_size(BATCH_ROWS).build()? {
            table.update(&batch?)?;
        }
        Ok(())
    })?;
    Ok(table.finish())
}

/// The same, with the file's row groups shared out to several threads.
///
/// The reader is cloned per row group, so clones must not share a position, as those of a `File` do; `Bytes` do not.
pub fn fingerprint_parquet_parallel<R: ChunkReader + Clone + 'static>(
    form: CanonicalForm,
    reader: &R,
    threads: NonZeroUsize,
) -> Result<Fingerprint<Table>, ParquetTableError> {
    let metadata = contained(|| open(reader))?;
    let total = TableFingerprint::new(form, metadata.schema())?;
    let groups = metadata.metadata().num_row_groups();
    add_up(total, groups, threads, |part, group| {
        contained(|| {
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(reader.clone(), metadata.clone())
                .with_row_groups(vec![group])
                .with_batch_size(BATCH_ROWS);
            for batch in builder.build()? {
                part.update(&batch?)?;
            }
            Ok(())
        })
    })
    .map(TableFingerprint::finish)
}

/// Every column of a Parquet file that has no stable text, in the file's order, where a fingerprint stops at the first.
/// Empty for a file whose columns can all be hashed.
pub fn refused_columns<R: ChunkReader>(reader: &R) -> Result<Vec<Refused>, ParquetTableError> {
    let metadata = contained(|| load(reader))?;
    let annotated: Vec<Refused> = annotations(metadata.parquet_schema()).collect();
    let mut refused = Vec::new();
    for field in metadata.schema().fields() {
        let alone = || check_schema(&Schema::new(vec![field.clone()])).err();
        let marked = annotated.iter().find(|found| found.column() == Some(field.name()));
        refused.extend(marked.cloned().or_else(alone));
    }
    if refused.is_empty() {
        // What no column shows by itself, such as a name that stands twice.
        refused.extend(check_schema(metadata.schema()).err());
    }
    Ok(refused)
}

fn open<R: ChunkReader>(reader: &R) -> Result<ArrowReaderMetadata, ParquetTableError> {
    let metadata = load(reader)?;
    let refused = annotations(metadata.parquet_schema()).next();
    match refused {
        Some(refused) => Err(refused.into()),
        None => Ok(metadata),
    }
}

fn load<R: ChunkReader>(reader: &R) -> Result<ArrowReaderMetadata, ParquetTableError> {
    // An Arrow schema that a writer left in the file is not looked at: the engine the definition belongs to does not
    // look at it either, and it could turn a column into a type that engine never sees.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    Ok(ArrowReaderMetadata::load(reader, options)?)
}

/// INV-72, GAP-10: refuses what Parquet marks and Arrow's types do not show.
fn annotations(schema: &SchemaDescriptor) -> impl Iterator<Item = Refused> {
    schema.columns().iter().enumerate().filter_map(|(position, leaf)| {
        let json = matches!(leaf.logical_type_ref(), Some(LogicalType::Json | LogicalType::Bson))
            || matches!(leaf.converted_type(), ConvertedType::JSON | ConvertedType::BSON);
        let (data_type, why) = if json {
            ("JSON", Why::Json)
        } else if leaf.physical_type() == PhysicalType::INT96 {
            ("INT96", Why::Int96)
        } else {
            return None;
        };
        Some(Refused::Column {
            column: schema.get_column_root(position).name().to_owned(),
            data_type: data_type.to_owned(),
            why,
        })
    })
}

/// Runs a step of the Parquet reader, which has panicked on damaged files before: such a file is an error here, and its
/// reader is not used again.
fn contained<T>(step: impl FnOnce() -> Result<T, ParquetTableError>) -> Result<T, ParquetTableError> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(result) => result,
        Err(_) => Err(ParquetTableError::Unreadable("its reader broke off".to_owned())),
    }
}
