//! Rows of one object: open its footer, leave out row groups, read and decode the rest, match columns by field id.
//!
//! Every row comes out of decrypted pages of verified ranges. Counts in footer and manifest are compared with what was
//! found, never given out (SOP-97, SOP-98, SOP-103).

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::{DataType, FieldRef, Fields, SchemaRef},
};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use sovm_object::{
    id::StorageId,
    key::ColumnEncoder,
    pme::{self, DecodeError, DecodeOptions, Footer, OpenError, OpenOptions, OtherSources},
    record::{ColumnStats, ObjectManifest},
    types::{Column, ColumnNode},
    verified::{ReadError, VerifiedBytes, VerifiedRead},
};

use super::{
    adapt::{AdaptError, adapt, fits, missing, position},
    counters::Counters,
    pushdown::{Condition, Stated},
    source::{ObjectBytes, ObjectFault, TableSource},
};
use crate::error::{ApiError, ErrorKind};

/// Bytes read at once from an object's end, beyond its padding: enough for most footers.
const FOOTER_GUESS_BYTES: u64 = 64 * 1024;

/// Why an object gave no rows, or no more.
#[derive(Debug, thiserror::Error)]
pub(super) enum ObjectError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Adapt(#[from] AdaptError),
    #[error("the manifest states {manifest} rows and the footer {footer}")]
    RowCount { manifest: u64, footer: u64 },
    #[error(transparent)]
    OtherSources(#[from] OtherSources),
    /// Not the object's fault: no key, or whoever reads the rows went away.
    #[error(transparent)]
    Other(#[from] ApiError),
}

impl ObjectError {
    /// What is wrong with the object; `None` when nothing is.
    pub(super) fn fault(&self) -> Option<ObjectFault> {
        Some(match self {
            Self::Read(error) | Self::Open(OpenError::Read(error)) => match error {
                ReadError::Missing { .. } => ObjectFault::BytesGone,
                ReadError::Store { .. } => return None,
                _ => ObjectFault::HashMismatch,
            },
            Self::Open(OpenError::KeyMismatch) | Self::Decode(DecodeError::KeyMismatch { .. }) => {
                ObjectFault::KeyMismatch
            }
            Self::RowCount { .. }
            | Self::OtherSources(_)
            | Self::Open(OpenError::Inconsistent(_))
            | Self::Decode(DecodeError::RowCount { .. }) => ObjectFault::Inconsistent,
            Self::Open(_) | Self::Decode(_) | Self::Adapt(_) => ObjectFault::Malformed,
            Self::Other(_) => return None,
        })
    }

    /// The error for the user.
    pub(super) fn into_api(self, id: StorageId) -> ApiError {
        let object = id.fmt_short();
        let fault = self.fault();
        let kind = match fault {
            Some(ObjectFault::BytesGone) => ErrorKind::Incomplete,
            Some(_) => ErrorKind::Integrity,
            None => ErrorKind::Storage,
        };
        match self {
            Self::Other(error) => error,
            error => ApiError::new(kind, format!("object {object} cannot be read: {error}"))
                .safe("no row was answered from bytes that did not verify")
                .next(match fault {
                    Some(ObjectFault::BytesGone) => {
                        "sovm status shows who is asked for it; --allow-incomplete answers without it"
                    }
                    _ => "sovm object verify checks every object; --allow-incomplete answers without it",
                }),
        }
    }
}

/// What a scan wants of every object.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) source: Arc<dyn TableSource>,
    /// Table fields that are asked for, with their ids; empty when only rows are counted.
    pub(super) fields: Vec<FieldRef>,
    /// Every field of the table, to check types against.
    pub(super) table_fields: Fields,
    /// The same fields without ids: the schema of the batches.
    pub(super) schema: SchemaRef,
    pub(super) condition: Condition,
    pub(super) batch_size: usize,
    pub(super) counters: Arc<Counters>,
}

/// One object whose footer is open.
#[derive(Debug)]
pub(super) struct OpenObject {
    footer: Arc<Footer>,
    projection: pme::Projection,
    /// Row groups that may hold rows that fit.
    row_groups: Vec<usize>,
    /// Field ids that are another column's here.
    foreign: Vec<i32>,
}

impl OpenObject {
    /// Opens the footer, checks it against manifest and table, and chooses row groups.
    pub(super) async fn open(manifest: &ObjectManifest, wanted: &Wanted) -> Result<Self, ObjectError> {
        let id = manifest.storage_id;
        let footer = match wanted.source.kept_footer(&id) {
            Some(kept) => kept,
            None => open_footer(id, manifest, wanted).await?,
        };
        Counters::add(&wanted.counters.objects_opened, 1);

        footer.check_sources(manifest)?;
        let claimed = (0..footer.row_groups())
            .map(|group| footer.claimed_rows(group))
            .fold(0, u64::saturating_add);
        if claimed != manifest.row_count {
            return Err(ObjectError::RowCount {
                manifest: manifest.row_count,
                footer: claimed,
            });
        }
        let foreign = wanted.source.foreign_columns(manifest).to_vec();
        let own_id = |field: &FieldRef| sovm_object::types::field_id_of(field).filter(|id| !foreign.contains(id));
        for field in &wanted.table_fields {
            if let Some(found) = own_id(field).and_then(|id| footer.column(id)) {
                fits(&footer.schema().fields()[found.index], field)?;
            }
        }
        let mut projection = footer.project(wanted.fields.iter().filter_map(own_id));
        if projection.is_empty() {
            // Rows come from pages only, also when no column is asked for or none of them was there yet.
            projection = footer.narrowest();
        }
        let row_groups = choose_row_groups(&footer, wanted, &foreign);
        Counters::add(
            &wanted.counters.row_groups_skipped,
            (footer.row_groups() - row_groups.len()) as u64,
        );
        Ok(Self {
            footer,
            projection,
            row_groups,
            foreign,
        })
    }

    /// Row groups left to read.
    pub(super) fn row_groups(&self) -> &[usize] {
        &self.row_groups
    }

    /// Encrypted bytes that a row group's columns take.
    pub(super) fn read_len(&self, row_group: usize) -> Result<u64, ObjectError> {
        Ok(self.footer.plan(&[row_group], &self.projection)?.len())
    }

    /// Fetches the columns of a row group in one call and decrypts them; decoding goes on batch by batch.
    pub(super) async fn read(&self, row_group: usize, wanted: &Wanted) -> Result<Rows, ObjectError> {
        let plan = self.footer.plan(&[row_group], &self.projection)?;
        let bytes = wanted.source.bytes();
        let source = Counted {
            bytes: bytes.as_ref(),
            counters: &wanted.counters,
        };
        let chunks = VerifiedRead::read(&source, self.footer.storage_id(), plan.runs()).await?;
        let batches = self.footer.decode(
            &plan,
            chunks,
            DecodeOptions {
                batch_size: wanted.batch_size,
            },
        )?;
        Counters::add(&wanted.counters.row_groups_read, 1);
        Counters::add(&wanted.counters.bytes_decrypted, batches.bytes_decrypted());
        Ok(Rows {
            batches,
            foreign: self.foreign.clone(),
        })
    }
}

async fn open_footer(id: StorageId, manifest: &ObjectManifest, wanted: &Wanted) -> Result<Arc<Footer>, ObjectError> {
    let dek = wanted.source.dek(id).await?;
    let bytes = wanted.source.bytes();
    let source = Counted {
        bytes: bytes.as_ref(),
        counters: &wanted.counters,
    };
    let padded = sovm_object::padme::padme(manifest.exact_byte_size).unwrap_or(manifest.exact_byte_size);
    let tail_len = padded
        .saturating_sub(manifest.exact_byte_size)
        .saturating_add(FOOTER_GUESS_BYTES);
    let mut footer = Footer::open(&source, id, &dek, OpenOptions { tail_len }).await?;
    Counters::add(&wanted.counters.bytes_decrypted, footer.bytes_decrypted());
    footer.prefer_views();
    let footer = Arc::new(footer);
    wanted.source.keep_footer(&footer);
    Ok(footer)
}

/// Rows of one row group.
#[derive(Debug)]
pub(super) struct Rows {
    batches: pme::Batches,
    foreign: Vec<i32>,
}

impl Rows {
    /// The next batch, in the table's columns.
    pub(super) fn next(&mut self, wanted: &Wanted) -> Option<Result<RecordBatch, ObjectError>> {
        let batch = match self.batches.next()? {
            Ok(batch) => batch,
            Err(error) => return Some(Err(error.into())),
        };
        Counters::add(&wanted.counters.rows_decoded, batch.num_rows() as u64);
        Some(in_table_columns(&batch, wanted, &self.foreign).map_err(ObjectError::from))
    }
}

fn in_table_columns(batch: &RecordBatch, wanted: &Wanted, foreign: &[i32]) -> Result<RecordBatch, AdaptError> {
    let fields = batch.schema_ref().fields();
    let column = |field: &FieldRef| -> Result<ArrayRef, AdaptError> {
        let id = sovm_object::types::field_id_of(field).ok_or_else(|| AdaptError::NoId(field.name().clone()))?;
        match position(fields, id)?.filter(|_| !foreign.contains(&id)) {
            Some(index) => adapt(batch.column(index), field),
            None => missing(field, batch.num_rows()),
        }
    };
    let columns = wanted.fields.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        wanted.schema.clone(),
        columns,
        &options,
    )?)
}

/// Row groups that may hold rows that fit, judged by the same rule as whole objects.
fn choose_row_groups(footer: &Footer, wanted: &Wanted, foreign: &[i32]) -> Vec<usize> {
    let groups = footer.row_groups();
    let mut stated: Vec<Vec<ColumnStats>> = vec![Vec::new(); groups];
    let mut asked = Vec::new();
    wanted.condition.columns(&mut asked);
    asked.sort_unstable();
    asked.dedup();
    asked.retain(|id| !foreign.contains(id));
    for column in asked
        .iter()
        .filter_map(|id| wanted.source.columns().iter().find(|column| column.field_id == *id))
    {
        // What cannot be understood is left out, and excludes nothing.
        if let Some(of_groups) = statistics(footer, column) {
            for (group, stats) in stated.iter_mut().zip(of_groups) {
                group.extend(stats);
            }
        }
    }
    (0..groups)
        .filter(|group| {
            let columns = stated[*group].as_slice();
            wanted.condition.may_match(Stated {
                rows: footer.claimed_rows(*group),
                columns,
                time: None,
            })
        })
        .collect()
}

/// A column's statistics in each row group, in the canonical form of the table's type.
pub(crate) fn statistics(footer: &Footer, column: &Column) -> Option<Vec<Option<ColumnStats>>> {
    let found = footer.column(column.field_id)?;
    let data_type = column.ty.leaf_data_type()?;
    let descriptor = footer.metadata().file_metadata().schema_descr();
    let field = &footer.schema().fields()[found.index];
    let leaf = found.leaves.clone().next().filter(|_| found.leaves.len() == 1)?;
    let converter = StatisticsConverter::from_column_index(leaf, field, descriptor)
        .ok()?
        .with_missing_null_counts_as_zero(false);
    let groups = footer.metadata().row_groups();
    let null_counts = converter.row_group_null_counts(groups).ok()?;
    let mins = bounds(&converter.row_group_mins(groups).ok()?, column, &data_type)?;
    let maxes = bounds(&converter.row_group_maxes(groups).ok()?, column, &data_type)?;
    let of_group = |group: usize| {
        // Without a count of nulls nothing else can be told.
        null_counts.is_valid(group).then(|| ColumnStats {
            field_id: column.field_id,
            min: mins[group].clone(),
            max: maxes[group].clone(),
            null_count: null_counts.value(group),
            min_exact: false,
            max_exact: false,
            // Parquet does not say.
            has_nan: data_type.is_floating(),
        })
    };
    Some((0..groups.len()).map(of_group).collect())
}

fn bounds(array: &ArrayRef, column: &Column, data_type: &DataType) -> Option<Vec<Option<Vec<u8>>>> {
    let array = cast(array, data_type).ok()?;
    let node = ColumnNode {
        column,
        children: Vec::new(),
    };
    let encoder = ColumnEncoder::new(&node, array.as_ref()).ok()?;
    let bound = |row: usize| {
        (!encoder.is_null(row)).then(|| {
            let mut bytes = Vec::new();
            encoder.encode(row, &mut bytes);
            bytes
        })
    };
    Some((0..array.len()).map(bound).collect())
}

/// Counts the bytes that were verified.
struct Counted<'a> {
    bytes: &'a dyn ObjectBytes,
    counters: &'a Counters,
}

impl VerifiedRead for Counted<'_> {
    async fn size(&self, id: StorageId) -> Result<u64, ReadError> {
        self.bytes.size(id).await
    }

    async fn read(&self, id: StorageId, ranges: &[Range<u64>]) -> Result<Vec<VerifiedBytes>, ReadError> {
        let parts = self.bytes.read(id, ranges).await?;
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        Counters::add(&self.counters.bytes_verified, bytes);
        Ok(parts)
    }
}
