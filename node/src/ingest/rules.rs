//! What a table asks of its rows beyond their types, looked at while the place of a row is still known.

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use sovm_object::{
    key::{IdentityEncoder, KeyError, MAX_IDENTITY_BYTES},
    types::{Column, ColumnType},
};

use super::{
    cell::Cell,
    error::{IngestError, Misfit, Place},
};

/// Columns with a meaning, by field id.
#[derive(Clone, Debug, Default)]
pub struct RowRules {
    /// Columns that partition the table: an empty text there would be read back as null (SOP-128).
    pub partition: Vec<i32>,
    /// Columns that tell rows apart: all have a value, and together at most 1,024 bytes (SOP-237).
    pub identity: Vec<i32>,
}

/// The rules over the positions of one table's columns.
#[derive(Debug)]
pub(super) struct Checks {
    /// Texts that partition the table.
    partition: Vec<(usize, String)>,
    identity: Vec<(usize, Column)>,
}

/// A row that breaks a rule.
#[derive(Debug)]
pub(super) struct Broken {
    column: String,
    misfit: Misfit,
}

impl Broken {
    pub(super) fn at(self, file: String, place: Place) -> IngestError {
        IngestError::BadValue {
            file,
            place,
            column: self.column,
            value: String::new(),
            misfit: self.misfit,
        }
    }
}

impl Checks {
    /// `columns` are those of the table, nested ones among them.
    pub(super) fn new(rules: &RowRules, columns: &[Column]) -> Self {
        let top = || columns.iter().filter(|column| column.parent.is_none()).enumerate();
        let identity = rules.identity.iter().filter_map(|id| {
            let found = top().find(|(_, column)| column.field_id == *id);
            found.map(|(index, column)| (index, column.clone()))
        });
        Self {
            partition: top()
                .filter(|(_, column)| column.ty == ColumnType::Text && rules.partition.contains(&column.field_id))
                .map(|(index, column)| (index, column.name.clone()))
                .collect(),
            identity: identity.collect(),
        }
    }

    /// The rule that a row of cells breaks.
    pub(super) fn of_cells(&self, row: &[Cell<'_>]) -> Option<Broken> {
        let empty =
            |(index, _): &&(usize, String)| matches!(row.get(*index), Some(Cell::Text(text)) if text.is_empty());
        if let Some((_, column)) = self.partition.iter().find(empty) {
            return Some(empty_partition(column));
        }
        let mut bytes = 0;
        for (index, column) in &self.identity {
            match row.get(*index) {
                None | Some(Cell::Null) => return Some(no_identity(&column.name)),
                Some(cell) => bytes += key_len(column.ty, cell),
            }
        }
        (bytes > MAX_IDENTITY_BYTES).then(|| self.long_identity(bytes))
    }

    /// The first row of a batch that breaks a rule, from 0.
    pub(super) fn of_batch(&self, batch: &RecordBatch) -> Result<Option<(usize, Broken)>, KeyError> {
        for (index, column) in &self.partition {
            let texts = batch.column(*index).as_string::<i32>();
            let empty = (0..texts.len()).find(|row| texts.is_valid(*row) && texts.value(*row).is_empty());
            if let Some(row) = empty {
                return Ok(Some((row, empty_partition(column))));
            }
        }
        if self.identity.is_empty() {
            return Ok(None);
        }
        let columns: Vec<&Column> = self.identity.iter().map(|(_, column)| column).collect();
        let encoder = IdentityEncoder::new(&columns, batch)?;
        let mut identity = Vec::new();
        for row in 0..batch.num_rows() {
            match encoder.encode(row, &mut identity) {
                Ok(()) => {}
                Err(KeyError::Null { column, .. }) => return Ok(Some((row, no_identity(&column)))),
                Err(KeyError::TooLong { bytes, .. }) => return Ok(Some((row, self.long_identity(bytes)))),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn long_identity(&self, bytes: usize) -> Broken {
        let names: Vec<&str> = self.identity.iter().map(|(_, column)| column.name.as_str()).collect();
        Broken {
            column: names.join(", "),
            misfit: Misfit::LongIdentity(bytes),
        }
    }
}

fn empty_partition(column: &str) -> Broken {
    Broken {
        column: column.to_owned(),
        misfit: Misfit::EmptyPartition,
    }
}

fn no_identity(column: &str) -> Broken {
    Broken {
        column: column.to_owned(),
        misfit: Misfit::Missing,
    }
}

/// Length of a cell in an identity (SOP part 2.10): tag, and fixed bytes or escaped ones with their end.
fn key_len(ty: ColumnType, cell: &Cell<'_>) -> usize {
    let escaped = |bytes: &[u8]| 2 + bytes.len() + bytes.iter().filter(|byte| **byte == 0).count();
    match cell {
        Cell::Text(text) => escaped(text.as_bytes()),
        Cell::Bytes(bytes) => escaped(bytes),
        Cell::Bool(_) => 2,
        Cell::Int(_) if ty == ColumnType::Date => 5,
        Cell::Decimal(_) | Cell::Uuid(_) => 17,
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Date32Array, StringArray};
    use sovm_object::types::schema_of_columns;

    use super::*;

    /// SOP-237: both ways of looking at a row measure an identity alike.
    #[test]
    fn cells_and_batches_are_judged_alike() {
        let columns = [
            Column::new(1, "s", ColumnType::Text, true),
            Column::new(2, "d", ColumnType::Date, true),
        ];
        let rules = RowRules {
            partition: vec![],
            identity: vec![2, 1],
        };
        let checks = Checks::new(&rules, &columns);
        for text in ["", "a\0b", &"x".repeat(1_017), &"x".repeat(1_018), &"\0".repeat(509)] {
            let cells = [Cell::Text(text.into()), Cell::Int(7)];
            let arrays: Vec<ArrayRef> = vec![
                Arc::new(StringArray::from(vec![text])),
                Arc::new(Date32Array::from(vec![7])),
            ];
            let schema = Arc::new(schema_of_columns(&columns).unwrap());
            let batch = RecordBatch::try_new(schema, arrays).unwrap();
            let by_cells = checks.of_cells(&cells).map(|broken| (broken.column, broken.misfit));
            let by_batch = checks.of_batch(&batch).unwrap();
            let by_batch = by_batch.map(|(_, broken)| (broken.column, broken.misfit));
            assert_eq!(by_cells, by_batch, "{}", text.len());
            assert_eq!(
                by_cells.is_some(),
                text.len() == 1_018 || text.starts_with("\0"),
                "{}",
                text.len()
            );
        }
    }
}
