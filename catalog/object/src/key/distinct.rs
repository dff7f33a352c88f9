//! One identity, one row: what a batch for a table with identities must keep (SOP §13.1).

use std::collections::{HashMap, hash_map::Entry};

use super::{IdentityEncoder, KeyError};

/// Identities of one batch, which may come in several pieces. Rows are counted over all of them.
#[derive(Debug, Default)]
pub struct Identities {
    seen: HashMap<Box<[u8]>, usize>,
    rows: usize,
}

impl Identities {
    /// Takes the next piece of `rows` rows. An identity that was there before is refused with both rows (SOP-238), one that
    /// is none with its own (SOP-237). After an error the batch is lost.
    pub fn add(&mut self, encoder: &IdentityEncoder<'_>, rows: usize) -> Result<(), KeyError> {
        let mut identity = Vec::new();
        for row in 0..rows {
            let at = self.rows + row;
            encoder.encode(row, &mut identity).map_err(|error| match error {
                KeyError::Null { column, .. } => KeyError::Null { row: at, column },
                KeyError::TooLong { bytes, .. } => KeyError::TooLong { row: at, bytes },
                other => other,
            })?;
            match self.seen.entry(identity.as_slice().into()) {
                Entry::Occupied(first) => {
                    return Err(KeyError::Duplicate {
                        row: at,
                        first: *first.get(),
                    });
                }
                Entry::Vacant(place) => place.insert(at),
            };
        }
        self.rows += rows;
        Ok(())
    }

    /// Rows taken so far.
    pub const fn rows(&self) -> usize {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{Int64Array, StringArray},
        record_batch::RecordBatch,
    };

    use super::*;
    use crate::types::{Column, ColumnType, schema_of_columns};

    fn add(identities: &mut Identities, rows: &[(i64, Option<&str>)]) -> Result<(), KeyError> {
        let columns = [
            Column::new(1, "n", ColumnType::Int64, true),
            Column::new(2, "s", ColumnType::Text, true),
        ];
        let numbers = Int64Array::from_iter_values(rows.iter().map(|(n, _)| *n));
        let texts = StringArray::from_iter(rows.iter().map(|(_, s)| *s));
        let schema = Arc::new(schema_of_columns(&columns).unwrap());
        let batch = RecordBatch::try_new(schema, vec![Arc::new(numbers), Arc::new(texts)]).unwrap();
        let encoder = IdentityEncoder::new(&[&columns[0], &columns[1]], &batch).unwrap();
        identities.add(&encoder, rows.len())
    }

    /// SOP-237, SOP-238: the same identity twice in one batch is refused, across its pieces too, and rows are named as the batch
    /// counts them.
    #[test]
    fn an_identity_stands_once_in_a_batch() {
        let mut identities = Identities::default();
        add(&mut identities, &[(1, Some("a")), (1, Some("b")), (2, Some("a"))]).unwrap();
        assert_eq!(identities.rows(), 3);
        assert_eq!(
            add(&mut identities, &[(3, Some("a")), (1, Some("b"))]),
            Err(KeyError::Duplicate { row: 4, first: 1 })
        );
        let mut identities = Identities::default();
        add(&mut identities, &[(1, Some("a"))]).unwrap();
        assert_eq!(
            add(&mut identities, &[(2, Some("a")), (2, None)]),
            Err(KeyError::Null {
                row: 2,
                column: "s".into()
            })
        );
    }
}
