//! Padmé target lengths and the closed form that reaches them (SOP §11.8, part 2.9).
//!
//! Integer code only: the target decides an object's published size, so two builds must never round differently.

/// Longest length the padding function takes: 2^40 bytes.
pub const MAX_LEN: u64 = 1 << 40;

/// The Padmé target of `len`; `None` above [`MAX_LEN`].
///
/// Keeps the highest `log2 log2 len` bits of a length, so that an observer learns only those.
pub const fn padme(len: u64) -> Option<u64> {
    if len > MAX_LEN {
        return None;
    }
    if len < 2 {
        return Some(len);
    }
    let exponent = 63 - len.leading_zeros() as u64;
    let kept = 64 - exponent.leading_zeros() as u64;
    let step = 1u64 << (exponent - kept);
    Some(len.div_ceil(step) * step)
}

/// How to grow the pad entry by an exact number of bytes: the two length knobs of SOP §11.8.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PadSolution {
    /// Zero bytes in the entry's value.
    pub value_len: u64,
    /// Hyphens after the entry's key, 0 or 1.
    pub hyphens: u64,
}

impl PadSolution {
    /// Bytes this solution adds to an object whose pad entry was empty.
    pub const fn growth(self) -> u64 {
        self.hyphens + self.value_len + varint_len(self.value_len) - 1
    }
}

/// The one pad entry that adds exactly `delta` bytes, without search (SOP-67, SOP-68).
///
/// A value of `n` bytes costs `n` plus what its length prefix grew beyond one byte. Just above each growth of the prefix
/// one size cannot be reached by the value alone; there one hyphen in the key makes up the missing byte.
pub const fn solve_pad(delta: u64) -> PadSolution {
    let mut prefix = 1;
    loop {
        // Values of lengths below `bound` have a prefix of at most `prefix` bytes.
        let bound = if prefix < 10 { 1u64 << (7 * prefix) } else { u64::MAX };
        let extra = prefix - 1;
        // Not reachable with this prefix length means the next one, or the gap between the two.
        if delta - extra < bound {
            return PadSolution {
                value_len: delta - extra,
                hyphens: 0,
            };
        }
        if delta - extra == bound {
            return PadSolution {
                value_len: bound - 1,
                hyphens: 1,
            };
        }
        prefix += 1;
    }
}

/// Bytes of an unsigned LEB128 number.
pub(crate) const fn varint_len(n: u64) -> u64 {
    let bits = 64 - n.leading_zeros() as u64;
    if bits == 0 { 1 } else { bits.div_ceil(7) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SOP-56: the table of part 2.9.
    #[test]
    fn targets_match_the_table() {
        let table = [
            (0, 0),
            (1, 1),
            (2, 2),
            (9, 10),
            (15, 16),
            (17, 18),
            (33, 36),
            (100, 104),
            (255, 256),
            (257, 272),
            (1000, 1024),
            (4097, 4352),
            (65_537, 67_584),
            (1_000_000, 1_015_808),
            (16_777_216, 16_777_216),
            (16_777_217, 17_301_504),
            (33_554_433, 34_603_008),
            (67_108_865, 69_206_016),
            (134_217_729, 138_412_032),
        ];
        for (len, target) in table {
            assert_eq!(padme(len), Some(target), "{len}");
        }
        assert_eq!(padme(MAX_LEN), Some(MAX_LEN));
        assert_eq!(padme(MAX_LEN + 1), None);
    }

    #[test]
    fn targets_are_monotone_idempotent_and_cheap() {
        let mut last = 0;
        let lengths = (0..200_000).chain((18..40).flat_map(|e| (1u64 << e) - 300..(1u64 << e) + 300));
        for len in lengths {
            let target = padme(len).unwrap();
            assert!(target >= len && target >= last, "{len}");
            assert_eq!(padme(target), Some(target), "{len}");
            assert!((target - len) * 100 < len.max(1) * 12, "{len}");
            last = target;
        }
    }

    /// SOP-66, SOP-68: every delta is reached exactly, and the hyphen is used at the four gaps only.
    #[test]
    fn every_delta_is_reached() {
        const GAPS: [u64; 4] = [128, 16_385, 2_097_154, 268_435_459];
        let around = |centre: u64| centre - 2_000..centre + 2_000;
        for delta in (0..200_000)
            .chain(around(2_097_154))
            .chain(around(268_435_459))
            .chain([1 << 35, 1 << 40])
        {
            let solution = solve_pad(delta);
            assert_eq!(solution.growth(), delta, "{solution:?}");
            assert_eq!(solution.hyphens, u64::from(GAPS.contains(&delta)), "{delta}");
        }
    }

    /// SOP-68: the borders of each row of the table in part 2.9.
    #[test]
    fn solutions_match_the_table() {
        let table = [
            (0, 0),
            (127, 127),
            (128, 127),
            (129, 128),
            (16_384, 16_383),
            (16_385, 16_383),
            (16_386, 16_384),
            (2_097_153, 2_097_151),
            (2_097_154, 2_097_151),
            (2_097_155, 2_097_152),
            (268_435_458, 268_435_455),
            (268_435_459, 268_435_455),
            (268_435_460, 268_435_456),
        ];
        for (delta, value_len) in table {
            assert_eq!(solve_pad(delta).value_len, value_len, "{delta}");
        }
    }
}
