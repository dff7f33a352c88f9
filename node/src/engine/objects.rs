//! From batches to sealed objects, on a blocking thread: encode, encrypt, label, pad, seal (DESIGN §7).

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use sovm_object::{
    id::KeyRef,
    pme::{EncodeOptions, Encoder, RandomNonces, Sealed},
    record::{ColumnStats, TableGenesis, TimeRange},
    row_digest::{RowDigestKey, RowDigester, RowSetDigest},
    schema::TableSchema,
    secret::Dek,
    stats::{StatsBuilder, TimeRangeBuilder},
    types::{Column, schema_of_columns},
};

use super::convert::chain;
use crate::error::{ApiError, ErrorKind};

/// Bytes an object should have before padding (DESIGN §16.6).
const OBJECT_TARGET_BYTES: u64 = 32 << 20;

/// An object that is complete in memory, with what its manifest says of its rows.
pub(super) struct Finished {
    pub(super) sealed: Sealed,
    pub(super) dek: Dek,
    pub(super) statistics: Vec<ColumnStats>,
    pub(super) time_range: Option<TimeRange>,
    pub(super) digest: RowSetDigest,
}

/// Cuts a stream of batches of one table into objects.
pub(super) struct ObjectWriter {
    columns: Vec<Column>,
    schema: SchemaRef,
    pruning: Vec<i32>,
    time: Option<i32>,
    digest_key: RowDigestKey,
    open: Option<Open>,
}

/// The object being filled.
struct Open {
    encoder: Encoder,
    statistics: StatsBuilder,
    time_range: Option<TimeRangeBuilder>,
    digest: RowSetDigest,
}

impl ObjectWriter {
    /// Rows are written with the columns `schema` shows, which is the table's now.
    pub(super) fn new(table: &TableGenesis, schema: &TableSchema) -> Result<Self, ApiError> {
        let pruning = schema.pruning().to_vec();
        let columns = schema.columns().map_err(ApiError::bug)?;
        let schema = Arc::new(schema_of_columns(&columns).map_err(ApiError::bug)?);
        Ok(Self {
            columns,
            schema,
            pruning,
            time: table.time,
            digest_key: RowDigestKey::of_table(&table.table_id, &table.filter_salt),
            open: None,
        })
    }

    /// Columns of the table, as batches must have them.
    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Adds rows; gives an object when one is full.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<Option<Finished>, ApiError> {
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => self.start()?,
        };
        let open = self.open.insert(open);
        open.encoder.write(batch).map_err(failed)?;
        open.statistics.update(batch).map_err(failed)?;
        if let Some(range) = &mut open.time_range {
            range.update(batch).map_err(failed)?;
        }
        let mut digester = RowDigester::new(&self.digest_key, &self.columns);
        digester.update(batch).map_err(failed)?;
        open.digest = open.digest.plus(digester.finish());
        if open.encoder.encoded_size_estimate() < OBJECT_TARGET_BYTES {
            return Ok(None);
        }
        self.finish()
    }

    /// Ends the object being filled.
    pub(super) fn finish(&mut self) -> Result<Option<Finished>, ApiError> {
        let Some(open) = self.open.take() else {
            return Ok(None);
        };
        let dek = Dek::generate();
        // SOP §11.12: the order of steps is the order of types.
        let sealed = open
            .encoder
            .finish()
            .map_err(failed)?
            .encrypt(&dek, &mut RandomNonces::default())
            .map_err(failed)?
            .with_key_ref(KeyRef::generate())
            .pad()
            .map_err(failed)?
            .seal()
            .map_err(failed)?;
        Ok(Some(Finished {
            sealed,
            dek,
            statistics: open.statistics.finish(),
            time_range: open.time_range.and_then(TimeRangeBuilder::finish),
            digest: open.digest,
        }))
    }

    fn start(&self) -> Result<Open, ApiError> {
        let column = |id: &i32| self.columns.iter().find(|column| column.field_id == *id);
        let pruning: Vec<_> = self.pruning.iter().filter_map(column).collect();
        Ok(Open {
            encoder: Encoder::new(self.schema.clone(), EncodeOptions::default()).map_err(failed)?,
            statistics: StatsBuilder::new(&pruning).map_err(failed)?,
            time_range: self
                .time
                .as_ref()
                .and_then(column)
                .map(TimeRangeBuilder::new)
                .transpose()
                .map_err(failed)?,
            digest: RowSetDigest::from_bytes([0; 32]),
        })
    }
}

/// SOP-109: rows that cannot be encrypted are not published in another way.
fn failed(error: impl std::error::Error) -> ApiError {
    ApiError::new(
        ErrorKind::Failed,
        format!("the rows could not be made into an object: {}", chain(&error)),
    )
    .safe("nothing was published")
}
