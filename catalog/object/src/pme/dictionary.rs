//! Whether a column chunk gets a dictionary (SOP-373).
//!
//! With one page a chunk there is no falling back half-way, so the choice is made before encoding, from the values: a
//! clear case is decided by counting distinct values, an unclear one is encoded both ways and the smaller form kept. Columns
//! of few values are most columns, and a sample shows them.
//! Dictionary everywhere costs a quarter more on real tables, nowhere costs even more on repetitive ones.

use std::{
    collections::HashSet,
    hash::{BuildHasherDefault, Hasher},
};

use arrow::{
    array::{Array, ArrayRef, AsArray as _},
    datatypes::DataType,
};

/// How to encode a leaf column of one row group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Choice {
    Dictionary,
    Plain,
    /// Neither is clearly smaller.
    TryBoth,
}

/// How to encode a leaf column that comes in `parts`.
pub(super) fn choose(parts: &[ArrayRef]) -> Choice {
    let rows: usize = parts.iter().map(|part| part.len()).sum();
    if rows >= SAMPLED_ROWS {
        let mut sample = Survey::default();
        for part in parts {
            for start in (0..part.len()).step_by(SAMPLE_STEP) {
                sample.add(&part.slice(start, SAMPLE_LEN.min(part.len() - start)));
            }
        }
        if sample.repeats_often() && sample.choice() == Choice::Dictionary {
            return Choice::Dictionary;
        }
    }
    let mut all = Survey::default();
    parts.iter().for_each(|part| all.add(part));
    all.choice()
}

/// From so many rows on a sample is looked at first.
const SAMPLED_ROWS: usize = 32_768;
/// A piece of each step is in the sample, spread out since tables are often in the order of some column.
const SAMPLE_STEP: usize = 4_096;
const SAMPLE_LEN: usize = 512;

/// Counts the distinct values of a leaf column, and stops as soon as the answer is clear.
#[derive(Default)]
struct Survey {
    distinct: HashSet<u64, BuildHasherDefault<Prehashed>>,
    distinct_bytes: u64,
    values: u64,
    plain_bytes: u64,
    hopeless: bool,
}

/// After so many values a column in which hardly any repeated is given up.
const FIRST_LOOK: u64 = 4_096;
/// After so many, one in which most were new.
const SECOND_LOOK: u64 = 32_768;

impl Survey {
    /// Takes note of an array's values.
    fn add(&mut self, leaf: &dyn Array) {
        if self.hopeless {
            return;
        }
        match leaf.data_type() {
            // The Parquet writer never gives these a dictionary, or the array has no values.
            DataType::Boolean | DataType::Null => self.hopeless = true,
            DataType::Utf8 => self.add_values(leaf, 4, |i| leaf.as_string::<i32>().value(i).as_bytes()),
            DataType::LargeUtf8 => self.add_values(leaf, 4, |i| leaf.as_string::<i64>().value(i).as_bytes()),
            DataType::Utf8View => self.add_values(leaf, 4, |i| leaf.as_string_view().value(i).as_bytes()),
            DataType::Binary => self.add_values(leaf, 4, |i| leaf.as_binary::<i32>().value(i)),
            DataType::LargeBinary => self.add_values(leaf, 4, |i| leaf.as_binary::<i64>().value(i)),
            DataType::BinaryView => self.add_values(leaf, 4, |i| leaf.as_binary_view().value(i)),
            DataType::FixedSizeBinary(_) => self.add_values(leaf, 0, |i| leaf.as_fixed_size_binary().value(i)),
            DataType::Dictionary(_, _) => {
                let keys = leaf.as_any_dictionary();
                // An Arrow dictionary names its distinct values; whoever made it thought they were few.
                self.values += (leaf.len() - leaf.null_count()) as u64;
                self.plain_bytes += (leaf.len() - leaf.null_count()) as u64 * 8;
                let first = self.distinct.len() as u64;
                self.distinct.extend(first..first.max(keys.values().len() as u64));
            }
            other => match other.primitive_width() {
                Some(width) => {
                    let data = leaf.to_data();
                    let bytes = data.buffers()[0].as_slice();
                    let from = data.offset() * width;
                    self.add_values(leaf, 0, |i| &bytes[from + i * width..from + (i + 1) * width]);
                }
                None => self.hopeless = true,
            },
        }
    }

    fn add_values<'a>(&mut self, leaf: &dyn Array, prefix: u64, value: impl Fn(usize) -> &'a [u8]) {
        let nulls = leaf.nulls();
        for i in (0..leaf.len()).filter(|&i| nulls.is_none_or(|nulls| nulls.is_valid(i))) {
            let value = value(i);
            let bytes = value.len() as u64 + prefix;
            self.values += 1;
            self.plain_bytes += bytes;
            if self.distinct.insert(hash(value)) {
                self.distinct_bytes += bytes;
            }
            let seen = self.distinct.len() as u64;
            if (self.values == FIRST_LOOK && seen * 16 > FIRST_LOOK * 15)
                || (self.values == SECOND_LOOK && seen * 4 > SECOND_LOOK * 3)
            {
                self.hopeless = true;
                return;
            }
        }
    }

    /// Each value of a sample stands in it some dozens of times, so the values outside it are hardly others.
    fn repeats_often(&self) -> bool {
        self.distinct.len() as u64 * 64 <= self.values
    }

    fn mostly_distinct(&self) -> bool {
        self.distinct.len() as u64 * 4 > self.values * 3
    }

    /// The verdict over everything added.
    fn choice(&self) -> Choice {
        if self.hopeless || self.values == 0 || self.mostly_distinct() {
            return Choice::Plain;
        }
        let distinct = self.distinct.len() as u64;
        let index_bits = u64::from(64 - (distinct - 1).leading_zeros());
        let with_dictionary = self.distinct_bytes + self.values * index_bits / 8;
        // Compression narrows the gap, so only a wide one decides.
        if with_dictionary * 6 <= self.plain_bytes && distinct * 32 <= self.values {
            Choice::Dictionary
        } else if with_dictionary >= self.plain_bytes {
            Choice::Plain
        } else {
            Choice::TryBoth
        }
    }
}

/// The arrays under `array` that become leaf columns, in the order of the Parquet schema.
pub(super) fn leaves(array: &ArrayRef, out: &mut Vec<ArrayRef>) {
    match array.data_type() {
        DataType::Struct(_) => array.as_struct().columns().iter().for_each(|child| leaves(child, out)),
        DataType::List(_) => leaves(array.as_list::<i32>().values(), out),
        DataType::LargeList(_) => leaves(array.as_list::<i64>().values(), out),
        DataType::FixedSizeList(_, _) => leaves(array.as_fixed_size_list().values(), out),
        DataType::Map(_, _) => array
            .as_map()
            .entries()
            .columns()
            .iter()
            .for_each(|child| leaves(child, out)),
        _ => out.push(array.clone()),
    }
}

/// Good enough to count distinct values; never stored, never compared between processes.
fn hash(value: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = value.len() as u64;
    let mut words = value.chunks_exact(8);
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("chunks of eight"));
        state = (state.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    state = (state.rotate_left(23) ^ u64::from_le_bytes(last)).wrapping_mul(FACTOR);
    state ^ (state >> 32)
}

/// Passes a hash through.
#[derive(Default)]
struct Prehashed(u64);

impl Hasher for Prehashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only u64 keys are hashed")
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BooleanArray, Int64Array, StringArray};

    use super::*;

    fn choice(array: impl Array + 'static) -> Choice {
        choose(&[Arc::new(array)])
    }

    /// SOP-373: few values get a dictionary, many do not, and the middle is tried.
    #[test]
    fn cardinality_decides() {
        let ints = |modulus: i64| Int64Array::from_iter_values((0..100_000).map(|i| (i * 7_919) % modulus));
        assert_eq!(choice(ints(10)), Choice::Dictionary);
        assert_eq!(choice(ints(3_001)), Choice::TryBoth);
        assert_eq!(choice(ints(99_991)), Choice::Plain);
        assert_eq!(
            choice(StringArray::from_iter_values(
                (0..50_000).map(|i| format!("country {}", i % 50))
            )),
            Choice::Dictionary
        );
        assert_eq!(
            choice(StringArray::from_iter_values((0..50_000).map(|i| format!("key {i}")))),
            Choice::Plain
        );
        assert_eq!(choice(BooleanArray::from(vec![true; 9])), Choice::Plain);
        assert_eq!(choice(Int64Array::from(vec![None::<i64>; 9])), Choice::Plain);
    }

    /// What a sample cannot tell is counted: values that are few at first, or between the pieces of the sample.
    #[test]
    fn a_sample_decides_only_what_is_clear() {
        let growing = Int64Array::from_iter_values((0..100_000).map(|i| if i < 30_000 { 1 } else { i }));
        assert_eq!(choice(growing), Choice::TryBoth);
        let sorted = Int64Array::from_iter_values((0..100_000).map(|i| i / 46));
        assert_eq!(choice(sorted), Choice::TryBoth);
        let parts: Vec<ArrayRef> = (0..20)
            .map(|part| Arc::new(Int64Array::from_iter_values((0..5_000).map(|i| (part + i) % 40))) as ArrayRef)
            .collect();
        assert_eq!(choose(&parts), Choice::Dictionary);
    }

    #[test]
    fn slices_are_surveyed_as_slices() {
        let all: ArrayRef = Arc::new(Int64Array::from_iter_values(
            (0..10_000).map(|i| if i < 5_000 { 1 } else { i }),
        ));
        assert_eq!(choose(&[all.slice(0, 5_000)]), Choice::Dictionary);
        assert_eq!(choose(&[all.slice(5_000, 5_000)]), Choice::Plain);
    }
}
