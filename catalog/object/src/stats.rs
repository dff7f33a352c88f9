//! Pruning statistics: made while rows are written, used to leave objects unread (SOP §12.4).
//!
//! Bounds are canonical key bytes, so a decision compares bytes and knows no types. Statistics may skip work and never
//! answer a query: every doubt below ends in "may match".

mod prune;

use arrow::{
    array::RecordBatch, array::cast::AsArray as _, datatypes::Date32Type, datatypes::TimestampMicrosecondType,
};

pub use self::prune::{Comparison, Predicate, may_match, may_match_time};
pub use crate::record::{ColumnStats, TimeRange};

use crate::{
    key::{ColumnEncoder, DAY_US, KeyError, Value},
    types::{Column, ColumnNode, ColumnType, child_index},
};

/// Text and byte bounds are cut to this many bytes (SOP-181).
pub const MAX_BOUND_BYTES: usize = 64;

/// Most columns with statistics in one manifest (SOP-135).
pub const MAX_STATISTICS: usize = 256;

/// Columns that statistics cannot be kept over.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// More than [`MAX_STATISTICS`].
    #[error("{0} columns with statistics, at most 256 are allowed")]
    TooMany(usize),
    /// Nested columns have no order.
    #[error("column {column:?} of type {ty} cannot have statistics")]
    Type {
        /// Name of the column.
        column: String,
        /// Its type.
        ty: ColumnType,
    },
    /// The table's time column must hold instants or days.
    #[error("column {column:?} of type {ty} is no time column")]
    NotATime {
        /// Name of the column.
        column: String,
        /// Its type.
        ty: ColumnType,
    },
    /// A batch does not fit the columns.
    #[error(transparent)]
    Batch(#[from] KeyError),
}

/// Gathers the statistics of some columns over the batches of one object.
#[derive(Debug)]
pub struct StatsBuilder {
    columns: Vec<Accumulator>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Accumulator {
    column: Column,
    min: Option<Vec<u8>>,
    max: Option<Vec<u8>>,
    null_count: u64,
    has_nan: bool,
}

impl StatsBuilder {
    /// Starts over the given top-level columns.
    pub fn new(columns: &[&Column]) -> Result<Self, StatsError> {
        if columns.len() > MAX_STATISTICS {
            return Err(StatsError::TooMany(columns.len()));
        }
        if let Some(column) = columns
            .iter()
            .find(|column| !column.ty.is_prunable() || column.parent.is_some())
        {
            return Err(StatsError::Type {
                column: column.name.clone(),
                ty: column.ty,
            });
        }
        let start = |column: &&Column| Accumulator {
            column: (*column).clone(),
            min: None,
            max: None,
            null_count: 0,
            has_nan: false,
        };
        let mut columns: Vec<Accumulator> = columns.iter().map(start).collect();
        columns.sort_by_key(|accumulator| accumulator.column.field_id);
        columns.dedup_by_key(|accumulator| accumulator.column.field_id);
        Ok(Self {
            columns,
            scratch: Vec::new(),
        })
    }

    /// Takes the rows of one more batch. Rows must be final: statistics of rows that are not written would lie (SOP-185).
    pub fn update(&mut self, batch: &RecordBatch) -> Result<(), StatsError> {
        for accumulator in &mut self.columns {
            let node = ColumnNode {
                column: &accumulator.column,
                children: Vec::new(),
            };
            let index = child_index(batch.schema_ref().fields(), &accumulator.column);
            let index = index.ok_or_else(|| KeyError::MissingColumn(accumulator.column.name.clone()))?;
            let encoder = ColumnEncoder::new(&node, batch.column(index).as_ref())?;
            accumulator.null_count += batch.column(index).null_count() as u64;
            let extremes = encoder.extremes().unwrap_or_default();
            accumulator.has_nan |= extremes.has_nan;
            for row in extremes.rows.into_iter().flat_map(|(min, max)| [min, max]) {
                self.scratch.clear();
                encoder.encode(row, &mut self.scratch);
                accumulator.see(&mut self.scratch);
            }
        }
        Ok(())
    }

    /// The statistics, sorted by field id as a manifest lists them.
    pub fn finish(self) -> Vec<ColumnStats> {
        self.columns.into_iter().map(Accumulator::finish).collect()
    }
}

impl Accumulator {
    /// Takes the bytes of a value that is not NaN.
    fn see(&mut self, bytes: &mut Vec<u8>) {
        // Both zeros stand at the positive one (SOP-180).
        if Value::decode_float(bytes) == Some(0.0) {
            bytes.clear();
            Value::Float(0.0).encode(bytes);
        }
        let replace = |bound: &mut Option<Vec<u8>>, better: bool| {
            if better {
                let kept = bound.get_or_insert_default();
                kept.clear();
                kept.extend_from_slice(bytes);
            }
        };
        let below = self.min.as_ref().is_none_or(|min| *bytes < *min);
        let above = self.max.as_ref().is_none_or(|max| *bytes > *max);
        replace(&mut self.min, below);
        replace(&mut self.max, above);
    }

    fn finish(self) -> ColumnStats {
        let (min, min_exact) = self.min.map_or((None, false), |bytes| cut_down(self.column.ty, bytes));
        let (max, max_exact) = self.max.map_or((None, false), |bytes| cut_up(self.column.ty, bytes));
        ColumnStats {
            field_id: self.column.field_id,
            min,
            max,
            null_count: self.null_count,
            min_exact,
            max_exact,
            has_nan: self.has_nan,
        }
    }
}

/// A lower bound of at most [`MAX_BOUND_BYTES`]: a prefix sorts before whatever it begins.
fn cut_down(ty: ColumnType, bytes: Vec<u8>) -> (Option<Vec<u8>>, bool) {
    match Value::decode_text_or_bytes(ty, &bytes) {
        Some(Value::Text(text)) if text.len() > MAX_BOUND_BYTES => {
            let cut = text.floor_char_boundary(MAX_BOUND_BYTES);
            (Some(Value::Text(text[..cut].to_owned()).to_bytes()), false)
        }
        Some(Value::Bytes(raw)) if raw.len() > MAX_BOUND_BYTES => {
            (Some(Value::Bytes(raw[..MAX_BOUND_BYTES].to_vec()).to_bytes()), false)
        }
        _ => (Some(bytes), true),
    }
}

/// An upper bound of at most [`MAX_BOUND_BYTES`]: the prefix with its last unit raised; none when nothing can be raised.
fn cut_up(ty: ColumnType, bytes: Vec<u8>) -> (Option<Vec<u8>>, bool) {
    match Value::decode_text_or_bytes(ty, &bytes) {
        Some(Value::Text(text)) if text.len() > MAX_BOUND_BYTES => {
            let cut = text.floor_char_boundary(MAX_BOUND_BYTES);
            (
                raise_text(text[..cut].to_owned()).map(|text| Value::Text(text).to_bytes()),
                false,
            )
        }
        Some(Value::Bytes(raw)) if raw.len() > MAX_BOUND_BYTES => {
            let mut raised = raw[..MAX_BOUND_BYTES].to_vec();
            while raised.last() == Some(&0xff) {
                raised.pop();
            }
            match raised.last_mut() {
                Some(last) => *last += 1,
                None => return (None, false),
            }
            (Some(Value::Bytes(raised).to_bytes()), false)
        }
        _ => (Some(bytes), true),
    }
}

fn raise_text(mut text: String) -> Option<String> {
    while let Some(last) = text.pop() {
        // The range step skips the surrogates, which no text holds.
        if let Some(next) = (last..=char::MAX).nth(1)
            && text.len() + next.len_utf8() <= MAX_BOUND_BYTES
        {
            text.push(next);
            return Some(text);
        }
    }
    None
}

/// Gathers the time range of one object over the table's time column (SOP-184).
#[derive(Debug)]
pub struct TimeRangeBuilder {
    column: Column,
    bounds: Option<(i64, i64)>,
    has_null_time: bool,
}

impl TimeRangeBuilder {
    /// Starts over `column`, which must be a timestamp or a date. Local times count as if they were UTC.
    pub fn new(column: &Column) -> Result<Self, StatsError> {
        match column.ty {
            ColumnType::Date | ColumnType::TimestampUs | ColumnType::TimestampUsLocal => Ok(Self {
                column: column.clone(),
                bounds: None,
                has_null_time: false,
            }),
            ty => Err(StatsError::NotATime {
                column: column.name.clone(),
                ty,
            }),
        }
    }

    /// Takes the rows of one more batch.
    pub fn update(&mut self, batch: &RecordBatch) -> Result<(), StatsError> {
        let index = child_index(batch.schema_ref().fields(), &self.column);
        let array = batch.column(index.ok_or_else(|| KeyError::MissingColumn(self.column.name.clone()))?);
        let mut see = |time: Option<i64>| match (time, &mut self.bounds) {
            (None, _) => self.has_null_time = true,
            (Some(time), Some((min, max))) => (*min, *max) = (time.min(*min), time.max(*max)),
            (Some(time), none) => *none = Some((time, time)),
        };
        if let Some(days) = array.as_primitive_opt::<Date32Type>() {
            days.iter().for_each(|day| see(day.map(|day| i64::from(day) * DAY_US)));
        } else if let Some(times) = array.as_primitive_opt::<TimestampMicrosecondType>() {
            times.iter().for_each(see);
        } else {
            return Err(KeyError::ArrayType {
                column: self.column.name.clone(),
                ty: self.column.ty,
                found: array.data_type().to_string(),
            }
            .into());
        }
        Ok(())
    }

    /// The range; `None` when no row has a time, so that nothing is claimed.
    pub fn finish(self) -> Option<TimeRange> {
        self.bounds.map(|(min, max)| TimeRange {
            min,
            max,
            has_null_time: self.has_null_time,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BinaryArray, Date32Array, Float64Array, Int64Array, ListArray, StringArray, TimestampMicrosecondArray,
    };
    use arrow::datatypes::{Int64Type, Schema};

    use super::*;
    use crate::types::schema_of_columns;

    pub(super) fn stats_of(ty: ColumnType, array: ArrayRef) -> ColumnStats {
        let column = Column::new(1, "c", ty, true);
        let schema = schema_of_columns(std::slice::from_ref(&column)).unwrap();
        let batch = RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap();
        let mut builder = StatsBuilder::new(&[&column]).unwrap();
        builder.update(&batch).unwrap();
        builder.finish().remove(0)
    }

    #[test]
    fn bounds_and_nulls_add_up_over_batches() {
        let columns = [
            Column::new(2, "b", ColumnType::Text, true),
            Column::new(1, "a", ColumnType::Int64, true),
        ];
        let schema = Arc::new(schema_of_columns(&columns).unwrap());
        let mut builder = StatsBuilder::new(&[&columns[0], &columns[1]]).unwrap();
        for (texts, ints) in [
            (vec![Some("m"), None], vec![Some(5), Some(-3)]),
            (vec![Some("a"), Some("z")], vec![None, Some(9)]),
        ] {
            let arrays: Vec<ArrayRef> = vec![Arc::new(StringArray::from(texts)), Arc::new(Int64Array::from(ints))];
            builder
                .update(&RecordBatch::try_new(schema.clone(), arrays).unwrap())
                .unwrap();
        }
        let [a, b] = builder.finish().try_into().unwrap();
        assert_eq!((a.field_id, b.field_id), (1, 2));
        assert_eq!(
            (a.min, a.max),
            (Some(Value::Int(-3).to_bytes()), Some(Value::Int(9).to_bytes()))
        );
        assert_eq!((a.null_count, b.null_count), (1, 1));
        assert_eq!(
            (b.min, b.max),
            (
                Some(Value::Text("a".into()).to_bytes()),
                Some(Value::Text("z".into()).to_bytes())
            )
        );
        assert!(a.min_exact && a.max_exact && !a.has_nan);
    }

    /// SOP-179: a column of nulls has no bounds.
    #[test]
    fn all_null_has_no_bounds() {
        let stats = stats_of(ColumnType::Int64, Arc::new(Int64Array::from(vec![None, None])));
        assert_eq!((stats.min, stats.max, stats.null_count), (None, None, 2));
        assert!(!stats.min_exact && !stats.max_exact);
    }

    /// SOP-180: NaN sets the flag and stays out of the bounds; the negative zero counts as zero.
    #[test]
    fn nan_and_zero_in_floats() {
        let stats = stats_of(
            ColumnType::Float64,
            Arc::new(Float64Array::from(vec![f64::NAN, -0.0, -f64::NAN])),
        );
        assert!(stats.has_nan);
        assert_eq!(stats.min, Some(Value::Float(0.0).to_bytes()));
        assert_eq!(stats.max, stats.min);
        let only_nan = stats_of(ColumnType::Float64, Arc::new(Float64Array::from(vec![f64::NAN])));
        assert_eq!(
            (only_nan.min, only_nan.max, only_nan.null_count, only_nan.has_nan),
            (None, None, 0, true)
        );
    }

    /// SOP-181: long bounds are cut, on a character, and the upper one is raised.
    #[test]
    fn long_text_is_cut() {
        let text = |text: &str| stats_of(ColumnType::Text, Arc::new(StringArray::from(vec![text])));
        let kept = text(&"a".repeat(64));
        assert!(kept.min_exact && kept.max_exact);
        assert_eq!(kept.min, kept.max);
        let cut = text(&"a".repeat(65));
        assert!(!cut.min_exact && !cut.max_exact);
        assert_eq!(cut.min, Some(Value::Text("a".repeat(64)).to_bytes()));
        assert_eq!(cut.max, Some(Value::Text(format!("{}b", "a".repeat(63))).to_bytes()));
        // A character that does not fit whole is left out.
        let umlaut = text(&format!("{}ä", "a".repeat(63)));
        assert_eq!(umlaut.min, Some(Value::Text("a".repeat(63)).to_bytes()));
        // Raising U+007F would need a byte more than there is, so the one before is raised.
        let wide = text(&format!("{}\u{7f}x", "a".repeat(63)));
        assert_eq!(wide.max, Some(Value::Text(format!("{}b", "a".repeat(62))).to_bytes()));
        // The step over the surrogates.
        let surrogate = text(&format!("{}\u{d7ff}zz", "a".repeat(61)));
        assert_eq!(
            surrogate.max,
            Some(Value::Text(format!("{}\u{e000}", "a".repeat(61))).to_bytes())
        );
        // Nothing above: no upper bound.
        let highest = text(&"\u{10ffff}".repeat(17));
        assert_eq!((highest.max, highest.max_exact), (None, false));
        assert!(highest.min.is_some());
    }

    #[test]
    fn long_bytes_are_cut() {
        let bytes = |raw: Vec<u8>| stats_of(ColumnType::Bytes, Arc::new(BinaryArray::from(vec![raw.as_slice()])));
        let cut = bytes(vec![7; 70]);
        assert_eq!(cut.min, Some(Value::Bytes(vec![7; 64]).to_bytes()));
        assert_eq!(cut.max, Some(Value::Bytes([vec![7; 63], vec![8]].concat()).to_bytes()));
        let mut raw = vec![0xff; 70];
        raw[3] = 1;
        assert_eq!(bytes(raw).max, Some(Value::Bytes(vec![0xff, 0xff, 0xff, 2]).to_bytes()));
        assert_eq!(bytes(vec![0xff; 65]).max, None);
    }

    #[test]
    fn what_cannot_have_statistics_is_refused() {
        let list = Column::new(1, "l", ColumnType::List, true);
        assert!(matches!(StatsBuilder::new(&[&list]), Err(StatsError::Type { .. })));
        let child = Column::new(2, "x", ColumnType::Int64, true).within(1);
        assert!(matches!(StatsBuilder::new(&[&child]), Err(StatsError::Type { .. })));
        let int = Column::new(1, "i", ColumnType::Int64, true);
        assert_eq!(
            StatsBuilder::new(&vec![&int; 257]).unwrap_err(),
            StatsError::TooMany(257)
        );
        assert!(matches!(TimeRangeBuilder::new(&int), Err(StatsError::NotATime { .. })));
        let empty = RecordBatch::new_empty(Arc::new(Schema::empty()));
        assert!(StatsBuilder::new(&[&int]).unwrap().update(&empty).is_err());
        let nested = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![Some(1)])]);
        let batch = RecordBatch::try_from_iter([("i", Arc::new(nested) as ArrayRef)]).unwrap();
        assert!(StatsBuilder::new(&[&int]).unwrap().update(&batch).is_err());
    }

    #[test]
    fn time_range_covers_rows_and_flags_nulls() {
        let day = Column::new(1, "d", ColumnType::Date, true);
        let batch = |array: ArrayRef| RecordBatch::try_from_iter_with_nullable([("d", array, true)]).unwrap();
        let mut builder = TimeRangeBuilder::new(&day).unwrap();
        builder
            .update(&batch(Arc::new(Date32Array::from(vec![Some(2), Some(-1)]))))
            .unwrap();
        builder
            .update(&batch(Arc::new(Date32Array::from(vec![None, Some(1)]))))
            .unwrap();
        let range = builder.finish().unwrap();
        assert_eq!(
            range,
            TimeRange {
                min: -DAY_US,
                max: 2 * DAY_US,
                has_null_time: true
            }
        );

        let time = Column::new(1, "d", ColumnType::TimestampUs, true);
        let mut builder = TimeRangeBuilder::new(&time).unwrap();
        let array = TimestampMicrosecondArray::from(vec![7, 3]).with_timezone("UTC");
        builder.update(&batch(Arc::new(array))).unwrap();
        assert_eq!(
            builder.finish(),
            Some(TimeRange {
                min: 3,
                max: 7,
                has_null_time: false
            })
        );
        assert!(
            TimeRangeBuilder::new(&time)
                .unwrap()
                .update(&batch(Arc::new(Int64Array::from(vec![1]))))
                .is_err()
        );
        assert_eq!(TimeRangeBuilder::new(&time).unwrap().finish(), None);
    }
}
