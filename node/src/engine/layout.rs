//! Where the rows of a table go: which object by partition, and in which order within it.

use std::collections::{BTreeMap, HashMap};

use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::take_record_batch,
    datatypes::Schema,
    error::ArrowError,
    row::{RowConverter, Rows, SortField},
};
use sovm_object::{
    key::{ColumnEncoder, KeyError, Value, decode_bound},
    partition::partition_string,
    record::{TableGenesis, manifest::PartitionValues},
    types::{Column, ColumnNode, child_index, columns_of_defs},
};

use crate::error::{ApiError, ErrorKind};

/// Columns that get bounds in every manifest when the table's maker names none.
const DEFAULT_PRUNING_COLUMNS: usize = 32;

/// Most columns that partition a table. More would give objects of a row each.
const MAX_PARTITION_COLUMNS: usize = 8;

/// Leading pruning columns that rows are sorted by; further ones hardly ever decide.
const SORT_COLUMNS: usize = 4;

/// Field ids of the pruning columns of a table whose maker named none.
pub(super) fn default_pruning(columns: &[Column]) -> Vec<i32> {
    let top = columns
        .iter()
        .filter(|column| column.parent.is_none() && column.ty.is_prunable());
    top.take(DEFAULT_PRUNING_COLUMNS)
        .map(|column| column.field_id)
        .collect()
}

/// Refuses columns that cannot partition a table (SOP part 2.5).
pub(super) fn check_partition(columns: &[Column], partition: &[i32]) -> Result<(), ApiError> {
    let bad = |what: String| Err(ApiError::new(ErrorKind::BadInput, what).safe("nothing was made"));
    if partition.len() > MAX_PARTITION_COLUMNS {
        return bad(format!(
            "{} columns cannot partition a table, at most {MAX_PARTITION_COLUMNS} can",
            partition.len()
        ));
    }
    for (index, id) in partition.iter().enumerate() {
        let Some(column) = columns.iter().find(|column| column.field_id == *id) else {
            continue;
        };
        if partition[..index].contains(id) {
            return bad(format!("partition column {} is named twice", column.name));
        }
        if !column.ty.is_partition() {
            return bad(format!(
                "column {} of type {} cannot partition a table: floats, bytes and nested values have no exact text",
                column.name, column.ty
            ));
        }
    }
    Ok(())
}

/// Splits batches by partition.
#[derive(Debug)]
pub(super) struct Partitioner {
    /// In the order of the table's partition ids, with their physical names (SOP-129).
    columns: Vec<Column>,
}

/// The rows of one batch that lie in one partition.
pub(super) struct Part {
    /// Canonical bytes of the partition's values; equal exactly for equal values.
    pub(super) key: Vec<u8>,
    pub(super) rows: RecordBatch,
    /// Number of the first of them, from 1, among all rows of the command.
    pub(super) first_row: u64,
}

impl Partitioner {
    pub(super) fn new(table: &TableGenesis, columns: &[Column]) -> Self {
        let physical = |id: &i32| {
            let column = columns.iter().find(|column| column.field_id == *id)?;
            let def = table.columns.iter().find(|def| def.field_id == *id)?;
            Some(Column {
                name: def.name.clone(),
                ..column.clone()
            })
        };
        Self {
            columns: table.partition.iter().filter_map(physical).collect(),
        }
    }

    /// The partition columns.
    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The parts of a batch before which `before` rows were seen, in the order of their first rows.
    pub(super) fn split(&self, batch: &RecordBatch, before: u64) -> Result<Vec<Part>, ApiError> {
        let whole = |key| Part {
            key,
            rows: batch.clone(),
            first_row: before + 1,
        };
        if self.columns.is_empty() {
            return Ok(vec![whole(Vec::new())]);
        }
        let encoders = self.encoders(batch)?;
        let mut groups: Vec<(Vec<u8>, Vec<u32>)> = Vec::new();
        let mut by_key: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut key = Vec::new();
        let mut last = 0;
        for row in 0..batch.num_rows() {
            key.clear();
            encoders.iter().for_each(|encoder| encoder.encode(row, &mut key));
            // Neighbours often lie in one partition.
            if groups.get(last).is_none_or(|(known, _)| *known != key) {
                last = match by_key.get(&key) {
                    Some(group) => *group,
                    None => {
                        by_key.insert(key.clone(), groups.len());
                        groups.push((key.clone(), Vec::new()));
                        groups.len() - 1
                    }
                };
            }
            groups[last].1.push(row as u32);
        }
        if groups.len() == 1 {
            return Ok(groups.into_iter().map(|(key, _)| whole(key)).collect());
        }
        let part = |(key, rows): (Vec<u8>, Vec<u32>)| {
            let first_row = before + 1 + u64::from(rows.first().copied().unwrap_or(0));
            // Copied, not sliced: a slice would keep the whole batch in memory for one row of it.
            let rows = take_record_batch(batch, &UInt32Array::from(rows)).map_err(ApiError::bug)?;
            Ok(Part { key, rows, first_row })
        };
        groups.into_iter().map(part).collect()
    }

    /// What the manifest says of the partition that the part's rows lie in.
    pub(super) fn values(&self, part: &Part) -> Result<PartitionValues, ApiError> {
        let mut values = BTreeMap::new();
        for (column, encoder) in self.columns.iter().zip(self.encoders(&part.rows)?) {
            let value = if encoder.is_null(0) {
                Value::Null
            } else {
                let mut key = Vec::new();
                encoder.encode(0, &mut key);
                decode_bound(column.ty, &key).map_err(ApiError::bug)?
            };
            let text = partition_string(column, &value).map_err(|error| {
                ApiError::new(ErrorKind::BadInput, format!("row {}: {error}", part.first_row))
                    .safe("nothing was published")
                    .next("mend the row, or leave the column out of --partition in a new table")
            })?;
            values.insert(column.name.clone(), text);
        }
        Ok(PartitionValues(values))
    }

    fn encoders<'a>(&self, batch: &'a RecordBatch) -> Result<Vec<ColumnEncoder<'a>>, ApiError> {
        let encoder = |column: &Column| {
            let index = child_index(batch.schema_ref().fields(), column);
            let index = index.ok_or_else(|| KeyError::MissingColumn(column.name.clone()))?;
            let node = ColumnNode {
                column,
                children: Vec::new(),
            };
            ColumnEncoder::new(&node, batch.column(index).as_ref())
        };
        self.columns
            .iter()
            .map(encoder)
            .collect::<Result<_, _>>()
            .map_err(ApiError::bug)
    }
}

/// The order of rows within an object: by the leading pruning columns that the table's maker chose.
///
/// A table whose maker chose none keeps the order of its input, which is often that of time. Sorting puts equal and near
/// values into one row group, so that a selective scan reads few of them.
#[derive(Debug)]
pub(super) struct SortOrder {
    columns: Vec<usize>,
}

impl SortOrder {
    /// `columns` are the table's now; what its maker chose shows in its genesis.
    pub(super) fn new(table: &TableGenesis, columns: &[Column], schema: &Schema) -> Option<Self> {
        let first = columns_of_defs(&table.columns).ok()?;
        if table.pruning == default_pruning(&first) {
            return None;
        }
        let index = |id: &i32| {
            // Rows of one object have one value there.
            let column = columns.iter().find(|column| column.field_id == *id)?;
            (!table.partition.contains(id)).then(|| child_index(schema.fields(), column))?
        };
        let columns: Vec<usize> = table.pruning.iter().filter_map(index).take(SORT_COLUMNS).collect();
        (!columns.is_empty()).then_some(Self { columns })
    }

    /// Places (batch, row) of all rows in order, equal ones as they came; `None` when they stand in order already.
    pub(super) fn order(&self, batches: &[RecordBatch]) -> Result<Option<Vec<(usize, usize)>>, ArrowError> {
        let Some(first) = batches.first() else { return Ok(None) };
        let fields = self.columns.iter().map(|index| {
            let data_type = first.column(*index).data_type().clone();
            SortField::new(data_type)
        });
        let converter = RowConverter::new(fields.collect())?;
        let keys = |batch: &RecordBatch| {
            let columns: Vec<_> = self.columns.iter().map(|index| batch.column(*index).clone()).collect();
            converter.convert_columns(&columns)
        };
        let keys: Vec<Rows> = batches.iter().map(keys).collect::<Result<_, _>>()?;
        let key = |place: &(usize, usize)| keys[place.0].row(place.1);
        let mut places: Vec<(usize, usize)> = keys
            .iter()
            .enumerate()
            .flat_map(|(batch, rows)| (0..rows.num_rows()).map(move |row| (batch, row)))
            .collect();
        if places.is_sorted_by(|a, b| key(a) <= key(b)) {
            return Ok(None);
        }
        places.sort_by(|a, b| key(a).cmp(&key(b)));
        Ok(Some(places))
    }
}

#[cfg(test)]
mod tests;
