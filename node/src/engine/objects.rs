//! From batches to sealed objects, on a blocking thread: split, sort, encode, encrypt, label, pad, seal (DESIGN §7).
//!
//! Rows gather in *runs*: as many as make a row group, or, in a table whose rows are sorted, as many as fit a fixed part of
//! the memory. A run is sorted, then its columns are encoded side by side while another thread computes what the manifest
//! will say of its rows. A partitioned table has several objects open at a time, within fixed bounds: beyond them the
//! largest is ended early, so objects may be small, and memory never grows with the input.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use arrow::{array::RecordBatch, compute::interleave_record_batch, datatypes::SchemaRef};
use sovm_object::{
    id::KeyRef,
    key::{IdentityEncoder, decode_identity},
    parallel::cores,
    pme::{EncodeOptions, Encoder, ROW_GROUP_ROWS, RandomNonces, Sealed, raw_size},
    record::{ColumnStats, TableClass, TableGenesis, TimeRange, manifest::PartitionValues},
    row_digest::{RowDigestKey, RowDigester, RowSetDigest},
    schema::TableSchema,
    secret::Dek,
    stats::{StatsBuilder, TimeRangeBuilder},
    types::{Column, schema_of_columns},
};

use super::{
    convert::chain,
    layout::{Part, Partitioner, SortOrder},
    self_check,
};
use crate::error::{ApiError, ErrorKind};

/// Rows handed to the encoder at once when they are put in order.
const SORTED_BATCH_ROWS: usize = 8_192;

/// A run smaller than this is not worth a row group of its own while memory is short.
const SMALL_RUN_BYTES: usize = 4 << 20;

/// Takes a finished object away; an error ends the writing.
pub(super) type Deliver<'a> = &'a mut dyn FnMut(Finished) -> Result<(), ApiError>;

/// An object that is complete in memory, with what its manifest says of its rows.
pub(super) struct Finished {
    pub(super) sealed: Sealed,
    pub(super) dek: Dek,
    pub(super) partition: PartitionValues,
    pub(super) statistics: Vec<ColumnStats>,
    pub(super) time_range: Option<TimeRange>,
    pub(super) digest: RowSetDigest,
}

/// What bounds objects and memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes an object should have before padding (DESIGN §16.6).
    pub(super) target_bytes: u64,
    /// Rows in memory that make a run of a table whose rows keep their order; [`ROW_GROUP_ROWS`] make one too.
    pub(super) run_bytes: usize,
    /// Rows in memory that are sorted at once. Also the largest an object's first run can be, so it stays below the 64 MiB
    /// that an object should not exceed even where nothing compresses.
    pub(super) sorted_run_bytes: usize,
    /// Bytes of all open objects together.
    pub(super) open_bytes: usize,
    /// Objects open at once.
    pub(super) open_objects: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            target_bytes: 32 << 20,
            run_bytes: 32 << 20,
            sorted_run_bytes: 48 << 20,
            open_bytes: 96 << 20,
            open_objects: 256,
        }
    }
}

/// Cuts a stream of batches of one table into objects.
pub(super) struct ObjectWriter {
    table: Table,
    limits: Limits,
    /// By partition.
    open: BTreeMap<Vec<u8>, Open>,
    rows: u64,
}

/// What all objects of the table have in common.
struct Table {
    columns: Vec<Column>,
    schema: SchemaRef,
    pruning: Vec<i32>,
    time: Option<i32>,
    /// What tells rows apart, in tables whose rows can be deleted by it.
    identity: Vec<Column>,
    digest_key: RowDigestKey,
    partitioner: Partitioner,
    sort: Option<SortOrder>,
    threads: usize,
}

/// An object being filled.
struct Open {
    partition: PartitionValues,
    run: Vec<RecordBatch>,
    run_rows: usize,
    run_bytes: usize,
    encoder: Encoder,
    stated: Stated,
}

/// What the manifest will say of the rows encoded so far.
struct Stated {
    statistics: StatsBuilder,
    time_range: Option<TimeRangeBuilder>,
    digest: RowSetDigest,
    /// Hashes of the identities in this object.
    identities: HashSet<[u8; 16]>,
    rows: u64,
}

impl ObjectWriter {
    /// Rows are written with the columns `schema` shows, which is the table's now.
    pub(super) fn new(table: &TableGenesis, schema: &TableSchema) -> Result<Self, ApiError> {
        let pruning = schema.pruning().to_vec();
        let columns = schema.columns().map_err(ApiError::bug)?;
        let schema = Arc::new(schema_of_columns(&columns).map_err(ApiError::bug)?);
        let identity: Vec<Column> = match table.class {
            TableClass::AppendDelete => table
                .identity
                .iter()
                .filter_map(|id| columns.iter().find(|column| column.field_id == *id).cloned())
                .collect(),
            TableClass::Append | TableClass::Mutable => Vec::new(),
        };
        Ok(Self {
            table: Table {
                partitioner: Partitioner::new(table, &columns),
                sort: SortOrder::new(table, &columns, &schema),
                columns,
                schema,
                pruning,
                time: table.time,
                identity,
                digest_key: RowDigestKey::of_table(&table.table_id, &table.filter_salt),
                threads: cores(),
            },
            limits: Limits::default(),
            open: BTreeMap::new(),
            rows: 0,
        })
    }

    /// Columns of the table, as batches must have them.
    pub(super) fn columns(&self) -> &[Column] {
        &self.table.columns
    }

    /// Adds rows, and delivers the objects that became full.
    pub(super) fn write(&mut self, batch: &RecordBatch, deliver: Deliver<'_>) -> Result<(), ApiError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        for part in self.table.partitioner.split(batch, self.rows)? {
            self.add(part, deliver)?;
            self.make_room(deliver)?;
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Ends all objects.
    pub(super) fn finish(mut self, deliver: Deliver<'_>) -> Result<(), ApiError> {
        while let Some((_, open)) = self.open.pop_first() {
            deliver(open.finish(&self.table)?)?;
        }
        Ok(())
    }

    fn add(&mut self, mut part: Part, deliver: Deliver<'_>) -> Result<(), ApiError> {
        // Runs of a table without an order end where a row group is full, however its batches come.
        if self.table.sort.is_none() {
            let begun = self.open.get(&part.key).map_or(0, |open| open.run_rows);
            let room = ROW_GROUP_ROWS - begun;
            if part.rows.num_rows() > room {
                let behind = part.rows.slice(room, part.rows.num_rows() - room);
                let behind = Part {
                    key: part.key.clone(),
                    rows: behind,
                    ..part
                };
                part.rows = part.rows.slice(0, room);
                self.add(part, deliver)?;
                return self.add(behind, deliver);
            }
        }
        let mut open = match self.open.remove(&part.key) {
            Some(open) => open,
            None => self.table.start(self.table.partitioner.values(&part)?)?,
        };
        open.run_rows += part.rows.num_rows();
        open.run_bytes += raw_size(&part.rows);
        open.run.push(part.rows);
        if open.encoder.estimate_with(open.run_bytes) >= self.limits.target_bytes {
            return deliver(open.finish(&self.table)?);
        }
        let full = match &self.table.sort {
            Some(_) => open.run_bytes >= self.limits.sorted_run_bytes,
            None => open.run_bytes >= self.limits.run_bytes || open.run_rows >= ROW_GROUP_ROWS,
        };
        if full {
            open.encode_run(&self.table)?;
            if open.encoder.encoded_size_estimate() >= self.limits.target_bytes {
                return deliver(open.finish(&self.table)?);
            }
        }
        self.open.insert(part.key, open);
        Ok(())
    }

    /// Brings the open objects within their bounds: the largest gives its rows to the encoder, or is ended.
    fn make_room(&mut self, deliver: Deliver<'_>) -> Result<(), ApiError> {
        loop {
            let too_many = self.open.len() > self.limits.open_objects;
            let bytes: usize = self.open.values().map(Open::memory).sum();
            if !too_many && bytes <= self.limits.open_bytes {
                return Ok(());
            }
            let largest = self.open.iter().max_by_key(|(_, open)| open.memory());
            let Some(key) = largest.map(|(key, _)| key.clone()) else {
                return Ok(());
            };
            let Some(mut open) = self.open.remove(&key) else {
                return Ok(());
            };
            if !too_many && open.run_bytes >= SMALL_RUN_BYTES {
                open.encode_run(&self.table)?;
                self.open.insert(key, open);
            } else {
                deliver(open.finish(&self.table)?)?;
            }
        }
    }
}

impl Table {
    fn start(&self, partition: PartitionValues) -> Result<Open, ApiError> {
        let column = |id: &i32| self.columns.iter().find(|column| column.field_id == *id);
        // SOP-175: bounds of the pruning columns and of the partition columns.
        let bounded: Vec<_> = self
            .pruning
            .iter()
            .filter_map(column)
            .chain(
                self.partitioner
                    .columns()
                    .iter()
                    .filter_map(|partition| column(&partition.field_id)),
            )
            .collect();
        let options = EncodeOptions {
            threads: self.threads,
            ..EncodeOptions::default()
        };
        Ok(Open {
            partition,
            run: Vec::new(),
            run_rows: 0,
            run_bytes: 0,
            encoder: Encoder::new(self.schema.clone(), options).map_err(failed)?,
            stated: Stated {
                statistics: StatsBuilder::new(&bounded).map_err(failed)?,
                time_range: self
                    .time
                    .as_ref()
                    .and_then(column)
                    .map(TimeRangeBuilder::new)
                    .transpose()
                    .map_err(failed)?,
                digest: RowSetDigest::EMPTY,
                identities: HashSet::new(),
                rows: 0,
            },
        })
    }
}

impl Open {
    fn memory(&self) -> usize {
        self.encoder.memory() + self.run_bytes
    }

    /// Sorts and encodes the gathered rows as row groups of their own.
    fn encode_run(&mut self, table: &Table) -> Result<(), ApiError> {
        let run = std::mem::take(&mut self.run);
        (self.run_rows, self.run_bytes) = (0, 0);
        let order = match &table.sort {
            Some(sort) => sort.order(&run).map_err(failed)?,
            None => None,
        };
        let Self { encoder, stated, .. } = self;
        std::thread::scope(|scope| {
            let statement = scope.spawn(|| stated.see(&run, table));
            let encoded = encode(encoder, &run, order.as_deref());
            let statement = statement
                .join()
                .map_err(|_| ApiError::bug("the thread that computes statistics broke off"))?;
            encoded.and(statement)
        })
    }

    fn finish(mut self, table: &Table) -> Result<Finished, ApiError> {
        self.encode_run(table)?;
        let dek = Dek::generate();
        // SOP §11.12: the order of steps is the order of types.
        let sealed = self
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
        let statistics = self.stated.statistics.finish();
        self_check::check(&sealed, &dek, self.stated.rows, &statistics, &table.columns)?;
        Ok(Finished {
            sealed,
            dek,
            partition: self.partition,
            statistics,
            time_range: self.stated.time_range.and_then(TimeRangeBuilder::finish),
            digest: self.stated.digest,
        })
    }
}

impl Stated {
    /// Takes the rows of a run, which are final (SOP-185).
    fn see(&mut self, run: &[RecordBatch], table: &Table) -> Result<(), ApiError> {
        let mut digester = RowDigester::new(&table.digest_key, &table.columns);
        for batch in run {
            self.statistics.update(batch).map_err(failed)?;
            if let Some(range) = &mut self.time_range {
                range.update(batch).map_err(failed)?;
            }
            digester.update(batch).map_err(failed)?;
            self.tell_apart(batch, table)?;
        }
        self.rows += digester.rows();
        self.digest = self.digest.plus(digester.finish());
        Ok(())
    }

    /// Refuses a second row of one identity among those of one object (SOP-238): a delete could not say which it means.
    fn tell_apart(&mut self, batch: &RecordBatch, table: &Table) -> Result<(), ApiError> {
        if table.identity.is_empty() {
            return Ok(());
        }
        let columns: Vec<&Column> = table.identity.iter().collect();
        let encoder = IdentityEncoder::new(&columns, batch).map_err(failed)?;
        let mut identity = Vec::new();
        for row in 0..batch.num_rows() {
            encoder.encode(row, &mut identity).map_err(failed)?;
            let hash = blake3::hash(&identity);
            let half = hash.as_bytes().first_chunk::<16>().copied().unwrap_or_default();
            if !self.identities.insert(half) {
                let types: Vec<_> = columns.iter().map(|column| column.ty).collect();
                let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
                let values = decode_identity(&types, &identity).unwrap_or_default();
                return Err(ApiError::new(
                    ErrorKind::BadInput,
                    format!("two rows have the identity {values:?} in {}", names.join(", ")),
                )
                .safe("nothing was published")
                .next("leave one of them out; a row is told apart by these columns"));
            }
        }
        Ok(())
    }
}

fn encode(encoder: &mut Encoder, run: &[RecordBatch], order: Option<&[(usize, usize)]>) -> Result<(), ApiError> {
    match order {
        None => run.iter().try_for_each(|batch| encoder.write(batch)).map_err(failed)?,
        Some(order) => {
            let batches: Vec<&RecordBatch> = run.iter().collect();
            for places in order.chunks(SORTED_BATCH_ROWS) {
                let batch = interleave_record_batch(&batches, places).map_err(failed)?;
                encoder.write(&batch).map_err(failed)?;
            }
        }
    }
    // The next run begins anew; mixed into one row group the two would widen its bounds.
    encoder.end_row_group().map_err(failed)
}

/// SOP-109: rows that cannot be encrypted are not published in another way.
fn failed(error: impl std::error::Error) -> ApiError {
    ApiError::new(
        ErrorKind::Failed,
        format!("the rows could not be made into an object: {}", chain(&error)),
    )
    .safe("nothing was published")
}

#[cfg(test)]
pub(super) mod tests;
