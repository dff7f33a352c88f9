//! The table fingerprint: a sum over rows, so neither their order nor their batches matter.

use std::{
    num::NonZeroUsize,
    sync::atomic::{AtomicUsize, Ordering},
};

use arrow::{array::RecordBatch, datatypes::Schema};
use md5::{Digest, Md5};

use super::{
    form::CanonicalForm,
    row_text::{RowTextError, RowTexts},
    schema::{Refused, TextSchema},
    value::{Fingerprint, ROW_VALUE_LIMIT, Table, TableValue},
};

/// Rows that one thread takes at a time.
const PIECE_ROWS: usize = 16_384;

/// A table could not be fingerprinted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The form's row text is not known here.
    #[error("rows cannot be hashed in canonical form \"{form}\": this version knows \"1\" and \"sovm-1\" (INV-71)")]
    UnknownForm {
        /// The form that was asked for.
        form: CanonicalForm,
    },
    /// Two partial sums are of different tables.
    #[error("sums over a table with the columns {left} and one with the columns {right} are not added (INV-72)")]
    DifferentTables {
        /// Names and types of the one.
        left: String,
        /// Names and types of the other.
        right: String,
    },
    /// Two partial sums hash different texts.
    #[error(transparent)]
    DifferentForms(#[from] super::form::DifferentForms),
    /// A row has no text.
    #[error(transparent)]
    RowText(#[from] RowTextError),
}

impl From<Refused> for TableError {
    fn from(refused: Refused) -> Self {
        Self::RowText(refused.into())
    }
}

/// Adds up the fingerprint of one table from its batches (INV-73).
///
/// Memory is that of the batch at hand. Batches come in any order, and parts of a table that were added up apart (by
/// threads, by partitions) are put together by [`merge`](Self::merge).
pub struct TableFingerprint {
    form: CanonicalForm,
    schema: TextSchema,
    sum: TableValue,
    text: Vec<u8>,
}

impl TableFingerprint {
    /// Starts at no rows. INV-72: refuses a table whose columns have no stable text.
    pub fn new(form: CanonicalForm, schema: &Schema) -> Result<Self, TableError> {
        if !form.has_known_row_text() {
            return Err(TableError::UnknownForm { form });
        }
        let schema = TextSchema::of(schema)?;
        Ok(Self::empty(form, schema))
    }

    fn empty(form: CanonicalForm, schema: TextSchema) -> Self {
        Self {
            form,
            schema,
            sum: TableValue { sum: 0, rows: 0 },
            text: Vec::new(),
        }
    }

    /// Adds the rows of a batch. After a refusal nothing of the batch is counted.
    pub fn update(&mut self, batch: &RecordBatch) -> Result<(), TableError> {
        let rows = RowTexts::new(&self.schema, batch)?;
        let mut sum = 0;
        for row in 0..rows.rows() {
            rows.write(row, &mut self.text)?;
            sum += u128::from(row_value(&self.text));
        }
        self.add(TableValue {
            sum,
            rows: rows.rows() as u64,
        });
        Ok(())
    }

    /// Adds what another part of the same table came to.
    pub fn merge(&mut self, other: &Self) -> Result<(), TableError> {
        self.form.require_same(&other.form)?;
        if self.schema != other.schema {
            return Err(TableError::DifferentTables {
                left: self.schema.to_string(),
                right: other.schema.to_string(),
            });
        }
        self.add(other.sum);
        Ok(())
    }

    fn add(&mut self, part: TableValue) {
        // A table would need 2^64 rows to overflow either.
        self.sum.sum += part.sum;
        self.sum.rows += part.rows;
    }

    /// The fingerprint of the rows so far; INV-74: `0:0` without any.
    pub fn finish(self) -> Fingerprint<Table> {
        Fingerprint::new(self.form, self.sum)
    }
}

/// INV-73: what a row adds, `md5_number_lower(text) mod 2^62`: the last eight digest bytes as a little-endian number.
pub fn row_value(text: &[u8]) -> u64 {
    let digest = Md5::digest(text);
    let mut lower = [0; 8];
    lower.copy_from_slice(&digest[8..]);
    u64::from_le_bytes(lower) % ROW_VALUE_LIMIT
}

/// The fingerprint of a table that is in memory, added up by several threads.
pub fn fingerprint_batches(
    form: CanonicalForm,
    schema: &Schema,
    batches: &[RecordBatch],
    threads: NonZeroUsize,
) -> Result<Fingerprint<Table>, TableError> {
    let total = TableFingerprint::new(form, schema)?;
    let pieces: Vec<(&RecordBatch, usize)> = batches
        .iter()
        .flat_map(|batch| {
            (0..batch.num_rows().max(1))
                .step_by(PIECE_ROWS)
                .map(move |start| (batch, start))
        })
        .collect();
    add_up(total, pieces.len(), threads, |part, piece| {
        let (batch, start) = pieces[piece];
        part.update(&batch.slice(start, PIECE_ROWS.min(batch.num_rows() - start)))
    })
    .map(TableFingerprint::finish)
}

/// Runs `pieces` pieces of work on several threads, each with its own sum, and adds the sums to `total`.
pub(super) fn add_up<E: From<TableError> + Send>(
    mut total: TableFingerprint,
    pieces: usize,
    threads: NonZeroUsize,
    work: impl Fn(&mut TableFingerprint, usize) -> Result<(), E> + Sync,
) -> Result<TableFingerprint, E> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut part = TableFingerprint::empty(total.form.clone(), total.schema.clone());
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces {
                return Ok(part);
            }
            if let Err(error) = work(&mut part, piece) {
                // The others stop at their next piece.
                next.store(pieces, Ordering::Relaxed);
                return Err(error);
            }
        }
    };
    let parts: Vec<Result<TableFingerprint, E>> = std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads.get().min(pieces)).map(|_| scope.spawn(run)).collect();
        let mut parts = vec![run()];
        for helper in helpers {
            parts.push(match helper.join() {
                Ok(part) => part,
                Err(panic) => std::panic::resume_unwind(panic),
            });
        }
        parts
    });
    for part in parts {
        total.merge(&part?)?;
    }
    Ok(total)
}
