//! Lengths of blobs that lie with blind holders: two fixed small sizes, then Padmé (SOP part 2.6).

use std::iter;

use sovm_object::padme::padme;

/// The allowed lengths in ascending order: `first`, twice `first`, then every Padmé length above.
pub(crate) fn ladder(first: usize) -> impl Iterator<Item = usize> {
    let above = iter::successors(Some(2 * first), |size| {
        padme(*size as u64 + 1).map(|next| next as usize)
    });
    iter::once(first).chain(above)
}

/// Whether a blob can be one of ours by its length alone. `list` gives lengths, so most foreign blobs need no fetching.
pub(crate) fn is_on_ladder(len: u64, first: u64) -> bool {
    len == first || len == 2 * first || (len > 2 * first && padme(len) == Some(len))
}

/// A number of zeros whose byte string grows an encoding by `growth` bytes over the empty one; `None` in the gaps.
///
/// A CBOR byte string has a header of 1, 2, 3 or 5 bytes, so a few growths (24, 257, …) cannot be reached.
pub(crate) fn zeros_for_growth(growth: usize) -> Option<usize> {
    [(0, 0..24), (1, 24..256), (2, 256..65_536), (4, 65_536..usize::MAX)]
        .into_iter()
        .find_map(|(header, range)| growth.checked_sub(header).filter(|zeros| range.contains(zeros)))
}

#[cfg(test)]
mod tests {
    use sovm_object::cbor::Encoder;

    use super::*;

    #[test]
    fn the_ladder_is_1024_2048_then_padme() {
        let rungs: Vec<_> = ladder(1_024).take(5).collect();
        assert_eq!(rungs, [1_024, 2_048, 2_176, 2_304, 2_432]);
        assert!(rungs.iter().all(|&r| is_on_ladder(r as u64, 1_024)));
        for off in [0, 1_023, 1_025, 2_000, 2_049] {
            assert!(!is_on_ladder(off, 1_024), "{off}");
        }
    }

    #[test]
    fn growths_are_exact_and_gaps_are_named() {
        let len = |zeros: usize| {
            let mut e = Encoder::new();
            e.bytes(&vec![0; zeros]);
            e.into_vec().len()
        };
        for growth in (0..700).chain(65_500..65_600) {
            match zeros_for_growth(growth) {
                Some(zeros) => assert_eq!(len(zeros), 1 + growth),
                None => assert!([24, 257, 65_538, 65_539].contains(&growth), "{growth}"),
            }
        }
    }
}
