//! Digest of a multiset of rows (SOP §2.13): the same rows give the same digest in any order and any cut.
//!
//! The sum runs over the BLAKE3 keyed hashes of the canonical row bytes, each read as a little-endian number, modulo 2^256.
//! A sum, not an exclusive-or, so that doubled rows do not cancel out. The key is the domain's affair: two tables with
//! equal rows have unlike digests (SOP-80).

use std::fmt;

use arrow::array::RecordBatch;
use zeroize::Zeroizing;

use crate::{
    id::TableId,
    key::{KeyError, RowEncoder},
    types::Column,
};

/// Digest of a set of rows, repetitions counted. It belongs into sealed manifests only.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct RowSetDigest([u8; 32]);

impl RowSetDigest {
    /// Digest of no rows.
    pub const EMPTY: Self = Self([0; 32]);

    /// Takes the bytes as they stand in a manifest.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes as they stand in a manifest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Digest of both sets together.
    pub fn plus(self, other: Self) -> Self {
        let (left, right) = (self.words(), other.words());
        let mut carry = false;
        Self::of_words(std::array::from_fn(|index| {
            let (sum, first) = left[index].overflowing_add(right[index]);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            carry = first | second;
            sum
        }))
    }

    /// Digest of what is left when the rows of `other`, all of which are in here, are taken away.
    pub fn minus(self, other: Self) -> Self {
        let (left, right) = (self.words(), other.words());
        let mut borrow = false;
        Self::of_words(std::array::from_fn(|index| {
            let (difference, first) = left[index].overflowing_sub(right[index]);
            let (difference, second) = difference.overflowing_sub(u64::from(borrow));
            borrow = first | second;
            difference
        }))
    }

    /// The number's digits to the base 2^64, the lowest first.
    fn words(&self) -> [u64; 4] {
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(self.0.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words
    }

    fn of_words(words: [u64; 4]) -> Self {
        let mut bytes = [0; 32];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        Self(bytes)
    }
}

impl fmt::Debug for RowSetDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowSetDigest({})", hex::encode(&self.0[..5]))
    }
}

/// Key of a table's row digests (SOP §2.13).
pub struct RowDigestKey(Zeroizing<[u8; 32]>);

impl RowDigestKey {
    /// Derives the key from what the table's genesis fixed.
    pub fn of_table(table: &TableId, filter_salt: &[u8; 16]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("sovm row-digest v1");
        hasher.update(table.as_bytes()).update(filter_salt);
        Self(Zeroizing::new(*hasher.finalize().as_bytes()))
    }
}

impl fmt::Debug for RowDigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowDigestKey(..)")
    }
}

/// Rows whose bytes are gathered column by column; they stay in the processor's cache.
const ROWS_AT_ONCE: usize = 64;

/// Adds up the rows of many batches.
#[derive(Debug)]
pub struct RowDigester<'a> {
    key: &'a RowDigestKey,
    columns: &'a [Column],
    sum: RowSetDigest,
    rows: u64,
    scratch: Vec<Vec<u8>>,
}

impl<'a> RowDigester<'a> {
    /// Starts over the table's columns at the schema version of the rows.
    pub fn new(key: &'a RowDigestKey, columns: &'a [Column]) -> Self {
        Self {
            key,
            columns,
            sum: RowSetDigest::EMPTY,
            rows: 0,
            scratch: vec![Vec::new(); ROWS_AT_ONCE],
        }
    }

    /// Adds every row of a batch.
    pub fn update(&mut self, batch: &RecordBatch) -> Result<(), KeyError> {
        let encoder = RowEncoder::new(self.columns, batch)?;
        for start in (0..batch.num_rows()).step_by(ROWS_AT_ONCE) {
            let rows = start..batch.num_rows().min(start + ROWS_AT_ONCE);
            let scratch = &mut self.scratch[..rows.len()];
            scratch.iter_mut().for_each(Vec::clear);
            encoder.encode_each(rows, scratch);
            for row in scratch {
                let hash = blake3::keyed_hash(&self.key.0, row);
                self.sum = self.sum.plus(RowSetDigest(*hash.as_bytes()));
            }
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Rows added so far.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// The digest of all rows added.
    pub const fn finish(&self) -> RowSetDigest {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array, Int64Array, StringArray};
    use proptest::prelude::*;

    use super::*;
    use crate::types::{ColumnType, SOURCE_INDEX_COLUMN};

    fn key(salt: u8) -> RowDigestKey {
        RowDigestKey::of_table(&TableId::from_bytes([1; 16]), &[salt; 16])
    }

    fn columns() -> [Column; 2] {
        [
            Column::new(1, "a", ColumnType::Int64, true),
            Column::new(2, "b", ColumnType::Text, true),
        ]
    }

    fn batch(rows: &[(Option<i64>, Option<String>)]) -> RecordBatch {
        let a: Int64Array = rows.iter().map(|row| row.0).collect();
        let b: StringArray = rows.iter().map(|row| row.1.clone()).collect();
        RecordBatch::try_from_iter_with_nullable([
            ("a", Arc::new(a) as ArrayRef, true),
            ("b", Arc::new(b) as ArrayRef, true),
        ])
        .unwrap()
    }

    fn digest(batches: &[RecordBatch]) -> RowSetDigest {
        let (key, columns) = (key(1), columns());
        let mut digester = RowDigester::new(&key, &columns);
        batches.iter().for_each(|batch| digester.update(batch).unwrap());
        digester.finish()
    }

    #[test]
    fn one_row_is_its_keyed_hash() {
        let batch = batch(&[(Some(5), Some("a".into()))]);
        let bytes = hex::decode("028000000000000005076100").unwrap();
        assert_eq!(
            digest(&[batch]).as_bytes(),
            blake3::keyed_hash(&key(1).0, &bytes).as_bytes()
        );
    }

    /// SOP-80: another salt, another digest.
    #[test]
    fn digests_of_two_tables_differ() {
        let columns = columns();
        let batch = batch(&[(Some(5), None)]);
        let [first, second] = [1, 2].map(|salt| {
            let key = key(salt);
            let mut digester = RowDigester::new(&key, &columns);
            digester.update(&batch).unwrap();
            digester.finish()
        });
        assert_ne!(first, second);
    }

    #[test]
    fn doubled_rows_and_moved_nulls_show() {
        let row = (Some(5), Some("a".to_owned()));
        let once = digest(&[batch(std::slice::from_ref(&row))]);
        let twice = digest(&[batch(&[row.clone(), row])]);
        assert_ne!(once, twice);
        assert_ne!(twice, RowSetDigest::EMPTY);
        assert_ne!(
            digest(&[batch(&[(None, Some(String::new()))])]),
            digest(&[batch(&[(None, None)])])
        );
        assert_eq!(digest(&[]), RowSetDigest::EMPTY);
    }

    /// SOP §2.13: the hidden source column is left out.
    #[test]
    fn the_source_column_does_not_count() {
        let plain = batch(&[(Some(1), Some("x".into()))]);
        let mut arrays: Vec<(&str, ArrayRef, bool)> = vec![
            ("a", plain.column(0).clone(), true),
            ("b", plain.column(1).clone(), true),
        ];
        arrays.push((SOURCE_INDEX_COLUMN, Arc::new(Int32Array::from(vec![3])), false));
        let compacted = RecordBatch::try_from_iter_with_nullable(arrays).unwrap();
        assert_eq!(digest(&[plain]), digest(&[compacted]));
    }

    #[test]
    fn a_batch_without_a_column_is_refused() {
        let (key, columns) = (key(1), columns());
        let batch = batch(&[(Some(1), None)]).project(&[0]).unwrap();
        assert!(RowDigester::new(&key, &columns).update(&batch).is_err());
    }

    proptest! {
        /// Any order and any cut into batches gives the same digest; taking rows away undoes adding them.
        #[test]
        fn order_and_cut_do_not_matter(
            rows in prop::collection::vec((any::<Option<i64>>(), prop::option::of("[a-c\\x00]{0,3}")), 0..12),
            cut in 0_usize..12, seed in any::<u64>(),
        ) {
            let cut = cut.min(rows.len());
            let mut shuffled = rows.clone();
            for index in (1..shuffled.len()).rev() {
                shuffled.swap(index, (seed as usize).wrapping_mul(31).wrapping_add(index * 7) % (index + 1));
            }
            let whole = digest(&[batch(&rows)]);
            let (left, right) = shuffled.split_at(cut);
            prop_assert_eq!(whole, digest(&[batch(right), batch(left)]));
            prop_assert_eq!(whole.minus(digest(&[batch(left)])), digest(&[batch(right)]));
        }
    }
}
