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

use super::{
    Footer, contain_panic,
    view::{ChunkPlace, DecodeError, SparseView},
};
use crate::verified::VerifiedBytes;

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
}

impl ReadPlan {
    /// Ranges of the object to fetch, one for each column chunk, in the order [`Footer::decode`] wants them.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
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
        let ranges = places
            .iter()
            .map(|&place| self.chunk(place).cloned())
            .collect::<Result<_, _>>()?;
        Ok(ReadPlan {
            row_groups: row_groups.to_vec(),
            projection: projection.clone(),
            places,
            ranges,
        })
    }

    /// Decrypts the fetched chunks, checks every tag, and decodes them batch by batch.
    pub fn decode(
        &self,
        plan: &ReadPlan,
        chunks: Vec<VerifiedBytes>,
        options: DecodeOptions,
    ) -> Result<Batches, DecodeError> {
        let cipher = self.key.cipher();
        if chunks.len() != plan.places.len() {
            let missing = plan.ranges.get(chunks.len()).cloned().unwrap_or_default();
            return Err(DecodeError::WrongBytes {
                id: self.id,
                start: missing.start,
                end: missing.end,
            });
        }
        let open = |(&place, bytes): (&ChunkPlace, VerifiedBytes)| {
            let start = bytes.range().start;
            Ok((start, self.open_rows(&cipher, place, bytes)?))
        };
        let view = plan
            .places
            .iter()
            .zip(chunks)
            .map(open)
            .collect::<Result<Vec<_>, DecodeError>>()?;
        let claimed = plan
            .row_groups
            .iter()
            .map(|&row_group| self.claimed_rows(row_group))
            .sum();
        let mask = ProjectionMask::leaves(self.reader.parquet_schema(), plan.projection.leaves());
        let reader = contain_panic(|| {
            ParquetRecordBatchReaderBuilder::new_with_metadata(SparseView::new(self.size, view), self.reader.clone())
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
        })
    }
}

/// Decoded rows. Ends with an error when the pages hold another number of rows than the footer claims (SOP-103).
pub struct Batches {
    reader: Option<ParquetRecordBatchReader>,
    schema: SchemaRef,
    claimed: u64,
    found: u64,
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
