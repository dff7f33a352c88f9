//! A row as the text that is hashed.
//!
//! INV-72: the text is what DuckDB's `to_json(t)` writes for the row, with the columns in schema order: compact, null
//! members written, no escapes but the needed ones.

mod cells;
mod scalar;

use arrow::array::RecordBatch;

use super::schema::{Refused, TextSchema};
pub use scalar::ValueProblem;

/// A row or a batch had no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowTextError {
    /// A column's type has no stable text.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A batch has other columns than the table.
    #[error("a batch with the columns {batch} was given to a table with the columns {table} (INV-72)")]
    OtherSchema {
        /// Names and types of the batch.
        batch: String,
        /// Names and types of the table.
        table: String,
    },
    /// A value that its type cannot hold.
    #[error("column \"{column}\", row {row} of the batch: {problem} (INV-72)")]
    Value {
        /// The column.
        column: String,
        /// Position in the batch.
        row: usize,
        /// What is wrong with the value.
        problem: ValueProblem,
    },
}

/// The rows of one batch, ready to be written as text.
pub struct RowTexts<'table> {
    table: &'table TextSchema,
    object: cells::Object,
    rows: usize,
}

impl<'table> RowTexts<'table> {
    /// Prepares a batch of a table; its columns must be the table's, in order.
    pub fn new(table: &'table TextSchema, batch: &RecordBatch) -> Result<Self, RowTextError> {
        let found = TextSchema::of(batch.schema_ref())?;
        let other = || RowTextError::OtherSchema {
            batch: format!("{found}"),
            table: format!("{table}"),
        };
        if found != *table {
            return Err(other());
        }
        let object = cells::Object::new(&table.columns, batch.columns()).map_err(|_| other())?;
        Ok(Self {
            table,
            object,
            rows: batch.num_rows(),
        })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Replaces what `out` holds by the text of one row.
    ///
    /// # Panics
    ///
    /// When `row` is not below [`rows`](Self::rows).
    pub fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), RowTextError> {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        out.clear();
        self.object
            .write(row, out)
            .map_err(|(position, problem)| RowTextError::Value {
                column: self.table.columns[position].name.clone(),
                row,
                problem,
            })
    }
}
