//! Digests of sets that add up: element → day → span of days → generation → root.

use sovm_object::cbor::{DecodeError, Decoder, Encoder, Field};

/// Number of elements and the sum of their ids modulo 2^256, little-endian.
///
/// Sums make a generation's digest computable from its days'. Ids are hashes of signed records, so outsiders cannot choose
/// them; a member that forges equal sums only keeps its own records from spreading.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Digest {
    /// Number of elements.
    pub count: u64,
    /// Sum of their ids.
    pub sum: [u8; 32],
}

impl Digest {
    /// The digest of one element.
    pub const fn of(id: &[u8; 32]) -> Self {
        Self { count: 1, sum: *id }
    }

    /// Digest of the union of two disjoint sets.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.wrapping_add(other.count);
        let mut carry = 0u16;
        for (byte, add) in self.sum.iter_mut().zip(other.sum) {
            let sum = u16::from(*byte) + u16::from(add) + carry;
            *byte = sum as u8;
            carry = sum >> 8;
        }
    }

    /// Whether the set is empty.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl FromIterator<Self> for Digest {
    fn from_iter<I: IntoIterator<Item = Self>>(parts: I) -> Self {
        parts.into_iter().fold(Self::default(), |mut sum, part| {
            sum.add(&part);
            sum
        })
    }
}

impl Field for Digest {
    fn encode(&self, e: &mut Encoder) {
        e.array(2).uint(self.count).bytes(&self.sum);
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.array_of(2)?;
        Ok(Self {
            count: d.uint()?,
            sum: d.field()?,
        })
    }
}

/// One hash over the digests of all shared generations, so that an equal scope costs 32 bytes.
pub(super) fn root<'a>(generations: impl IntoIterator<Item = (&'a u64, &'a Digest)>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("sovm sync-root v1");
    for (generation, digest) in generations {
        hasher.update(&generation.to_be_bytes());
        hasher.update(&digest.count.to_be_bytes());
        hasher.update(&digest.sum);
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn sums_do_not_depend_on_order_or_grouping(ids: Vec<[u8; 32]>, cut: proptest::sample::Index) {
            let all: Digest = ids.iter().map(Digest::of).collect();
            let mut reversed: Digest = ids.iter().rev().map(Digest::of).collect();
            assert_eq!(all, reversed);
            let (left, right) = ids.split_at(cut.index(ids.len() + 1));
            reversed = left.iter().map(Digest::of).collect();
            reversed.add(&right.iter().map(Digest::of).collect());
            assert_eq!(all, reversed);
        }
    }

    #[test]
    fn carries_wrap_at_256_bits() {
        let mut a = Digest::of(&[0xff; 32]);
        let mut one = [0; 32];
        one[0] = 1;
        a.add(&Digest::of(&one));
        assert_eq!(a, Digest { count: 2, sum: [0; 32] });
    }
}
