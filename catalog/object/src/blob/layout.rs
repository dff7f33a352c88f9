//! Where the chunks of a blob stand: arithmetic over its total length, and nothing else.

use std::ops::Range;

use super::{LENGTH_FIELD, TAG, TRAILER};
use crate::padme::padme;

/// Plaintext of a full chunk.
pub const CHUNK_BYTES: u64 = 65_536;

/// Shortest blob: the length field in one chunk, and the trailer.
pub const MIN_TOTAL: u64 = 44;

/// Longest blob, the limit of Padmé.
pub const MAX_TOTAL: u64 = 1 << 40;

/// Length of a full chunk in the object.
const SEALED_CHUNK: u64 = CHUNK_BYTES + TAG;

/// The parts of a blob of one total length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Layout {
    total: u64,
    chunks: u64,
    filler: u64,
}

/// Length of the object that `content_len` bytes would make without padding: the manifest's `exact_byte_size`.
/// `None` beyond [`MAX_TOTAL`].
pub fn unpadded_len(content_len: u64) -> Option<u64> {
    let inner = content_len
        .checked_add(LENGTH_FIELD)
        .filter(|inner| *inner <= MAX_TOTAL)?;
    Some(inner + TAG * inner.div_ceil(CHUNK_BYTES) + TRAILER).filter(|total| *total <= MAX_TOTAL)
}

/// Length of the content of an object whose manifest states this unpadded length; `None` when no content has it.
pub fn stated_content_len(exact_byte_size: u64) -> Option<u64> {
    let body = exact_byte_size.checked_sub(TRAILER)?;
    let inner = body.checked_sub(TAG.checked_mul(body.div_ceil(SEALED_CHUNK))?)?;
    let content_len = inner.checked_sub(LENGTH_FIELD)?;
    (unpadded_len(content_len) == Some(exact_byte_size)).then_some(content_len)
}

impl Layout {
    /// The layout in which `content_len` bytes are sealed; `None` when they are too many.
    pub fn for_content(content_len: u64) -> Option<Self> {
        let layout = Self::of_total(padme(unpadded_len(content_len)?)?)?;
        debug_assert!(
            layout.capacity() >= content_len,
            "inner capacity never falls as the total rises"
        );
        Some(layout)
    }

    /// The layout of a blob that has `total` bytes; `None` when no blob has.
    pub fn of_total(total: u64) -> Option<Self> {
        if !(MIN_TOTAL..=MAX_TOTAL).contains(&total) {
            return None;
        }
        let body = total - TRAILER;
        let (full, rest) = (body / SEALED_CHUNK, body % SEALED_CHUNK);
        // A rest too short for a chunk of one byte becomes filler.
        Some(if full >= 1 && (1..=TAG).contains(&rest) {
            Self {
                total,
                chunks: full,
                filler: rest,
            }
        } else {
            Self {
                total,
                chunks: full + u64::from(rest > 0),
                filler: 0,
            }
        })
    }

    /// Length of the object.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Number of chunks, at least one.
    pub const fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Zero bytes between the last chunk and the trailer.
    pub const fn filler(&self) -> u64 {
        self.filler
    }

    /// Plaintext bytes of the inner stream, length field and padding included.
    pub const fn inner_len(&self) -> u64 {
        self.total - TRAILER - self.filler - TAG * self.chunks
    }

    /// Most content bytes that fit.
    pub const fn capacity(&self) -> u64 {
        self.inner_len() - LENGTH_FIELD
    }

    /// Whether `index` is the last chunk.
    pub const fn is_last(&self, index: u64) -> bool {
        index + 1 == self.chunks
    }

    /// Where chunk `index` stands in the object, tag included.
    pub fn chunk(&self, index: u64) -> Range<u64> {
        let start = index * SEALED_CHUNK;
        start..(start + SEALED_CHUNK).min(self.total - TRAILER - self.filler)
    }

    /// Filler, `key_ref` and magic.
    pub const fn tail(&self) -> Range<u64> {
        self.total - TRAILER - self.filler..self.total
    }

    /// The chunks that hold a range of the content, as indexes.
    pub(super) const fn chunks_of_content(range: &Range<u64>) -> Range<u64> {
        if range.start >= range.end {
            return 0..0;
        }
        let start = (range.start + LENGTH_FIELD) / CHUNK_BYTES;
        let end = (range.end + LENGTH_FIELD - 1) / CHUNK_BYTES + 1;
        start..end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// SOP §2.6: smallest blob, and the rule of the short rest at each of its edges.
    #[test]
    fn edges() {
        assert_eq!(Layout::of_total(43), None);
        assert_eq!(Layout::of_total(MAX_TOTAL + 1), None);
        assert_eq!(
            Layout::of_total(44),
            Some(Layout {
                total: 44,
                chunks: 1,
                filler: 0
            })
        );
        assert_eq!(Layout::for_content(0).map(|layout| layout.total()), Some(44));
        let one = SEALED_CHUNK + TRAILER;
        for (total, chunks, filler) in [
            (one - 1, 1, 0),
            (one, 1, 0),
            (one + 1, 1, 1),
            (one + 16, 1, 16),
            (one + 17, 2, 0),
            (one + SEALED_CHUNK, 2, 0),
        ] {
            assert_eq!(Layout::of_total(total), Some(Layout { total, chunks, filler }));
        }
        assert_eq!(unpadded_len(MAX_TOTAL), None);
        assert_eq!(unpadded_len(u64::MAX), None);
        assert_eq!(Layout::for_content(1 << 40), None);
    }

    /// SOP §2.6: inner capacity never falls as the total rises, so every blob reaches its target.
    #[test]
    fn capacity_never_falls() {
        let capacities = (MIN_TOTAL..400_000).map(|total| Layout::of_total(total).unwrap().capacity());
        assert!(capacities.is_sorted());
    }

    /// Every unpadded length leads back to its content, and lengths between two contents lead nowhere.
    #[test]
    fn stated_lengths_lead_back() {
        let mut last = 0;
        for content_len in (0..200_000).chain([u64::from(u32::MAX), (1 << 38) + 7]) {
            let exact = unpadded_len(content_len).unwrap();
            assert_eq!(stated_content_len(exact), Some(content_len));
            if content_len < 200_000 {
                assert!((last + 1..exact).all(|between| stated_content_len(between).is_none()));
                last = exact;
            }
        }
        assert_eq!(stated_content_len(u64::MAX), None);
    }

    proptest! {
        /// SOP-57: the total is the Padmé size of the unpadded length, and the parts fill it without gap.
        #[test]
        fn parts_fill_the_total(content_len in 0_u64..1 << 38) {
            let layout = Layout::for_content(content_len).unwrap();
            prop_assert_eq!(Some(layout.total()), padme(unpadded_len(content_len).unwrap()));
            prop_assert!(layout.capacity() >= content_len);
            let last = layout.chunks() - 1;
            prop_assert!(layout.chunk(last).end - layout.chunk(last).start > TAG);
            prop_assert_eq!(layout.chunk(last).end, layout.tail().start);
            if last > 0 {
                prop_assert_eq!(layout.chunk(last - 1).end, layout.chunk(last).start);
            }
            prop_assert!(layout.filler() <= 16);
        }
    }
}
