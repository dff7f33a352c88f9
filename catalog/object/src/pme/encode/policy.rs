//! How many rows a row group takes (SOP-273).
//!
//! A row group is what a selective scan reads or leaves, so it should be small; a column chunk is what one read fetches, so
//! it should not be tiny. Eight compressed MiB is the middle for scans that read every column. A scan that reads one column
//! in ten would fetch chunks a tenth of that, so tables that are read so get larger row groups, up to four times.

use super::ROW_GROUP_ROWS;

/// Compressed bytes of a row group whose scans read every column.
pub const ROW_GROUP_BYTES: usize = 8 << 20;

/// Rows in memory a row group may take, whatever they compress to.
const ROW_GROUP_RAW_BYTES: usize = 64 << 20;

/// Guess before anything of an object was encoded: encoded bytes for each byte in memory, in percent.
const FIRST_RATIO_PERCENT: usize = 50;

/// What the size of a row group depends on.
#[derive(Clone, Copy, Debug)]
pub struct RowGroupPolicy {
    /// Most rows, whatever their size; at most [`ROW_GROUP_ROWS`].
    pub rows: usize,
    /// Compressed bytes, about.
    pub compressed_bytes: usize,
    /// Rows in memory, in bytes.
    pub memory_bytes: usize,
}

impl Default for RowGroupPolicy {
    fn default() -> Self {
        Self {
            rows: ROW_GROUP_ROWS,
            compressed_bytes: ROW_GROUP_BYTES,
            memory_bytes: ROW_GROUP_RAW_BYTES,
        }
    }
}

impl RowGroupPolicy {
    /// The policy for a table of `columns` leaf columns of which scans usually read `scanned`, written by a device that
    /// can spare `memory_bytes` for the rows of one row group.
    pub fn for_scans(columns: usize, scanned: usize, memory_bytes: usize) -> Self {
        let widening = (columns.max(1) / scanned.clamp(1, columns.max(1))).min(4);
        Self {
            compressed_bytes: ROW_GROUP_BYTES * widening,
            memory_bytes: memory_bytes.clamp(1 << 20, ROW_GROUP_RAW_BYTES),
            ..Self::default()
        }
    }

    /// Bytes of rows in memory that make a row group, when rows have compressed to `percent` of their size so far.
    pub(super) fn raw_bytes(&self, percent: Option<usize>) -> usize {
        let percent = percent.unwrap_or(FIRST_RATIO_PERCENT).max(1);
        (self.compressed_bytes.saturating_mul(100) / percent).min(self.memory_bytes)
    }

    /// Rows of `row_bytes` in memory that make a row group; one at least.
    pub fn rows_of(&self, row_bytes: usize, percent: Option<usize>) -> usize {
        (self.raw_bytes(percent) / row_bytes.max(1)).clamp(1, self.rows.max(1))
    }
}

/// Bytes that `raw` bytes of rows will take when encoded, by what was encoded before.
pub(super) const fn estimate(raw: usize, percent: Option<usize>) -> usize {
    let percent = match percent {
        Some(percent) => percent,
        None => FIRST_RATIO_PERCENT,
    };
    raw / 100 * percent
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SOP-273: 122,880 rows or 8 MiB compressed, whichever comes first, bounded by memory and widened for narrow scans.
    #[test]
    fn rows_of_a_row_group_by_their_size() {
        let policy = RowGroupPolicy::default();
        // Narrow rows: the number of rows decides.
        assert_eq!(policy.rows_of(16, Some(50)), ROW_GROUP_ROWS);
        assert_eq!(policy.rows_of(0, None), ROW_GROUP_ROWS);
        // Wide ones: 8 MiB compressed at the ratio seen, or at a half before any was seen.
        assert_eq!(policy.rows_of(1_024, Some(50)), 16 << 10);
        assert_eq!(policy.rows_of(1_024, None), 16 << 10);
        assert_eq!(policy.rows_of(1_024, Some(100)), 8 << 10);
        // What compresses well is bounded by memory.
        assert_eq!(policy.rows_of(1_024, Some(1)), 64 << 10);
        assert_eq!(
            policy.rows_of(1 << 30, Some(100)),
            1,
            "a single large row is a row group"
        );

        let narrow_scans = RowGroupPolicy::for_scans(19, 1, 64 << 20);
        assert_eq!(narrow_scans.compressed_bytes, 4 * ROW_GROUP_BYTES);
        assert_eq!(narrow_scans.rows_of(1_024, Some(100)), 32 << 10);
        assert_eq!(
            RowGroupPolicy::for_scans(19, 19, 64 << 20).compressed_bytes,
            ROW_GROUP_BYTES
        );
        assert_eq!(RowGroupPolicy::for_scans(0, 0, 0).compressed_bytes, ROW_GROUP_BYTES);
        let small = RowGroupPolicy::for_scans(10, 10, 4 << 20);
        assert_eq!(small.rows_of(1_024, Some(10)), 4 << 10, "a small device takes less");
        assert_eq!(
            RowGroupPolicy::for_scans(10, 10, usize::MAX).memory_bytes,
            ROW_GROUP_RAW_BYTES
        );
    }
}
