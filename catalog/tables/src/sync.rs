//! What peers compare to find out who lacks what (DESIGN §8): elements by shard, and a digest per shard.

use sovm_object::id::{KekId, RecordId};

use crate::store::{StoreError, rows::form, tables::SHARDS};

/// Number and sum of the elements of a shard. Digests of days add up to digests of months, generations and domains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardDigest {
    /// Number of elements.
    pub count: u64,
    /// Sum of the element ids modulo 2^256, least byte first.
    pub sum: [u8; 32],
}

impl ShardDigest {
    /// Takes an element in.
    pub fn add(&mut self, element: &[u8; 32]) {
        self.count += 1;
        self.add_sum(element);
    }

    /// Takes all elements of a disjoint set in.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.add_sum(&other.sum);
    }

    pub(crate) fn subtract(&mut self, element: &[u8; 32]) {
        self.count = self.count.saturating_sub(1);
        let mut borrow = 0i16;
        for (byte, less) in self.sum.iter_mut().zip(element) {
            let difference = i16::from(*byte) - i16::from(*less) - borrow;
            borrow = i16::from(difference < 0);
            *byte = difference.rem_euclid(256) as u8;
        }
    }

    fn add_sum(&mut self, other: &[u8; 32]) {
        let mut carry = 0u16;
        for (byte, more) in self.sum.iter_mut().zip(other) {
            let sum = u16::from(*byte) + u16::from(*more) + carry;
            *byte = sum as u8;
            carry = sum >> 8;
        }
    }

    pub(crate) fn encode(&self) -> [u8; 40] {
        let mut value = [0; 40];
        value[..8].copy_from_slice(&self.count.to_be_bytes());
        value[8..].copy_from_slice(&self.sum);
        value
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, StoreError> {
        let parse = || {
            let (count, sum) = value.split_first_chunk::<8>()?;
            Some(Self {
                count: u64::from_be_bytes(*count),
                sum: sum.try_into().ok()?,
            })
        };
        parse().ok_or_else(|| form(&SHARDS))
    }
}

/// An entry as one element of the reconciled set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The entry.
    pub record: RecordId,
    /// The KEK it travels under; none for kinds that are never sealed.
    pub kek_id: Option<KekId>,
    /// The exact signed bytes, to be sealed under that KEK.
    pub bytes: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A digest does not depend on the order of elements, and taking one out undoes taking it in.
        #[test]
        fn sums_commute_and_undo(elements in prop::collection::vec(any::<[u8; 32]>(), 1..20), split in 0usize..20) {
            let all = |elements: &[[u8; 32]]| {
                let mut digest = ShardDigest::default();
                elements.iter().for_each(|element| digest.add(element));
                digest
            };
            let forward = all(&elements);
            let mut reversed = elements.clone();
            reversed.reverse();
            prop_assert_eq!(forward, all(&reversed));
            let (left, right) = elements.split_at(split.min(elements.len()));
            let mut merged = all(left);
            merged.merge(&all(right));
            prop_assert_eq!(forward, merged);
            for element in &elements {
                merged.subtract(element);
            }
            prop_assert_eq!(merged, ShardDigest::default());
            prop_assert_eq!(ShardDigest::decode(&forward.encode()).unwrap(), forward);
        }
    }
}
