//! From an opened footer to record batches.
//!
//! 1. [`Footer::project`] picks columns by field id, 2. [`Footer::plan`] says which ranges they need, 3. the caller fetches
//!    them as verified bytes, in one call, 4. [`Footer::decode`] decrypts and decodes, synchronously.

use std::{collections::BTreeSet, ops::Range};

use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
use parquet::arrow::{
    ProjectionMask,
    arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder},
};

use bytes::Bytes;

use super::{
    Footer, contain_panic,
    view::{ChunkPlace, DecodeError, SparseView, only_version_1, owned},
};
use crate::verified::VerifiedBytes;

/// Bytes a module has beside its plaintext: length, nonce, tag.
const MODULE_OVERHEAD: u64 = 32;

/// Leaf columns to read, of one object.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Projection {
    leaves: BTreeSet<usize>,
}

impl Projection {
    /// Nothing is left of what was asked for; see [`Footer::narrowest`].
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// Leaf columns, ascending.
    pub fn leaves(&self) -> impl Iterator<Item = usize> {
        self.leaves.iter().copied()
    }
}

impl FromIterator<usize> for Projection {
    fn from_iter<T: IntoIterator<Item = usize>>(leaves: T) -> Self {
        Self {
            leaves: leaves.into_iter().collect(),
        }
    }
}

/// Column chunks to fetch and decode.
#[derive(Clone, Debug)]
pub struct ReadPlan {
    row_groups: Vec<usize>,
    projection: Projection,
    places: Vec<ChunkPlace>,
    ranges: Vec<Range<u64>>,
    runs: Vec<Range<u64>>,
}

impl ReadPlan {
    /// Ranges of the object to fetch, one for each column chunk, in the order [`Footer::decode`] wants them.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// The same ranges with neighbours joined. What is fetched as one run is decrypted where it lies, without a copy.
    pub fn runs(&self) -> &[Range<u64>] {
        &self.runs
    }

    /// Bytes to fetch.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// Nothing needs to be fetched.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// How to decode.
#[derive(Clone, Copy, Debug)]
pub struct DecodeOptions {
    /// Rows of a batch.
    pub batch_size: usize,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self { batch_size: 8_192 }
    }
}

impl Footer {
    /// The root columns with these field ids; ids the object lacks are left out (SOP-19).
    pub fn project(&self, field_ids: impl IntoIterator<Item = i32>) -> Projection {
        field_ids
            .into_iter()
            .filter_map(|id| self.column(id))
            .flat_map(|column| column.leaves.clone())
            .collect()
    }

    /// All columns.
    pub fn project_all(&self) -> Projection {
        (0..self.leaf_count()).collect()
    }

    /// The root column with the fewest bytes, to count rows with (SOP-98).
    pub fn narrowest(&self) -> Projection {
        let bytes = |leaf: usize| -> i64 {
            self.metadata()
                .row_groups()
                .iter()
                .map(|group| group.column(leaf).compressed_size())
                .fold(0, i64::saturating_add)
        };
        let root = self.columns.iter().filter(|column| !column.leaves.is_empty());
        let root = root.min_by_key(|column| column.leaves.clone().map(bytes).fold(0, i64::saturating_add));
        root.map(|column| column.leaves.clone().collect()).unwrap_or_default()
    }

    /// Which ranges `projection` needs in `row_groups`.
    pub fn plan(&self, row_groups: &[usize], projection: &Projection) -> Result<ReadPlan, DecodeError> {
        if projection.is_empty() {
            return Err(DecodeError::NoColumns);
        }
        let places: Vec<ChunkPlace> = row_groups
            .iter()
            .flat_map(|&row_group| projection.leaves().map(move |column| ChunkPlace { row_group, column }))
            .collect();
        let ranges: Vec<Range<u64>> = places
            .iter()
            .map(|&place| self.chunk(place).cloned())
            .collect::<Result<_, _>>()?;
        Ok(ReadPlan {
            row_groups: row_groups.to_vec(),
            projection: projection.clone(),
            places,
            runs: join(&ranges),
            ranges,
        })
    }

    /// Decrypts the fetched [`ranges`](ReadPlan::ranges) or [`runs`](ReadPlan::runs), checks every tag, and decodes them
    /// batch by batch.
    pub fn decode(
        &self,
        plan: &ReadPlan,
        chunks: Vec<VerifiedBytes>,
        options: DecodeOptions,
    ) -> Result<Batches, DecodeError> {
        let (view, decrypted) = self.open_runs(plan, chunks)?;
        let claimed = plan
            .row_groups
            .iter()
            .map(|&row_group| self.claimed_rows(row_group))
            .sum();
        let mask = ProjectionMask::leaves(self.reader.parquet_schema(), plan.projection.leaves());
        let reader = contain_panic(|| {
            let metadata = self.viewed.as_ref().unwrap_or(&self.reader).clone();
            ParquetRecordBatchReaderBuilder::new_with_metadata(SparseView::new(self.size, view), metadata)
                .with_projection(mask)
                .with_row_groups(plan.row_groups.clone())
                .with_batch_size(options.batch_size.max(1))
                .build()
        })?
        .map_err(DecodeError::Parquet)?;
        let schema = arrow::record_batch::RecordBatchReader::schema(&reader);
        Ok(Batches {
            reader: Some(reader),
            schema,
            claimed,
            found: 0,
            decrypted,
        })
    }
}

impl Footer {
    /// Decrypts what was fetched, chunk by chunk, each in its part of the buffer it came in. Tells how much plaintext that gave.
    fn open_runs(&self, plan: &ReadPlan, fetched: Vec<VerifiedBytes>) -> Result<(Vec<(u64, Bytes)>, u64), DecodeError> {
        let cipher = self.key.cipher();
        let wrong = |range: Range<u64>| DecodeError::WrongBytes {
            id: self.id,
            start: range.start,
            end: range.end,
        };
        let mut places = plan.places.iter().copied();
        let mut view = Vec::with_capacity(plan.places.len());
        let mut decrypted = 0;
        for run in fetched {
            let Range { start: mut at, end } = run.range();
            if run.storage_id() != self.id {
                return Err(wrong(at..end));
            }
            let mut buffer = owned(run);
            // At least one chunk, which may be empty.
            loop {
                let place = places.next().ok_or_else(|| wrong(at..end))?;
                let chunk = self.chunk(place)?;
                if chunk.start != at || chunk.end > end {
                    return Err(wrong(chunk.clone()));
                }
                let bytes = buffer.split_to((chunk.end - chunk.start) as usize);
                let (chunk_bytes, pages) = self.open_buffer(&cipher, place, bytes)?;
                only_version_1(place, &pages)?;
                // A page is two modules, its header and its body.
                decrypted += chunk_bytes.len() as u64 - pages.len() as u64 * 2 * MODULE_OVERHEAD;
                view.push((at, chunk_bytes));
                at = chunk.end;
                if at == end {
                    break;
                }
            }
        }
        match places.next() {
            Some(place) => Err(wrong(self.chunk(place)?.clone())),
            None => Ok((view, decrypted)),
        }
    }
}

/// Joins ranges that touch, in their order.
fn join(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match runs.last_mut() {
            Some(last) if last.end == range.start && !last.is_empty() && !range.is_empty() => last.end = range.end,
            _ => runs.push(range.clone()),
        }
    }
    runs
}

/// Decoded rows. Ends with an error when the pages hold another number of rows than the footer claims (SOP-103).
pub struct Batches {
    reader: Option<ParquetRecordBatchReader>,
    schema: SchemaRef,
    claimed: u64,
    found: u64,
    decrypted: u64,
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches")
            .field("claimed", &self.claimed)
            .field("found", &self.found)
            .finish_non_exhaustive()
    }
}

impl Batches {
    /// Plaintext bytes that decryption gave for them, still compressed.
    pub const fn bytes_decrypted(&self) -> u64 {
        self.decrypted
    }

    /// Schema of the batches: the projected columns in the object's order, with their field ids.
    pub const fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = self.reader.as_mut()?;
        match contain_panic(|| reader.next()) {
            Ok(Some(Ok(batch))) => {
                self.found += batch.num_rows() as u64;
                Some(Ok(batch))
            }
            Ok(None) => {
                self.reader = None;
                let (claimed, found) = (self.claimed, self.found);
                (claimed != found).then_some(Err(DecodeError::RowCount { claimed, found }))
            }
            Ok(Some(Err(error))) => {
                self.reader = None;
                Some(Err(DecodeError::Rows(error)))
            }
            Err(contained) => {
                self.reader = None;
                Some(Err(contained.into()))
            }
        }
    }
}
