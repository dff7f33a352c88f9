//! What the scans of one statement did, counted while they run.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::api::ScanCounts;

/// Shared by all scans of one statement.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) objects_considered: AtomicU64,
    pub(super) objects_pruned: AtomicU64,
    pub(super) objects_opened: AtomicU64,
    pub(super) row_groups_read: AtomicU64,
    pub(super) row_groups_skipped: AtomicU64,
    pub(super) bytes_verified: AtomicU64,
    pub(super) bytes_decrypted: AtomicU64,
    pub(super) rows_decoded: AtomicU64,
}

impl Counters {
    /// Adds to one figure.
    pub(super) fn add(figure: &AtomicU64, count: u64) {
        figure.fetch_add(count, Relaxed);
    }

    /// The figures as they stand.
    pub(super) fn counts(&self) -> ScanCounts {
        ScanCounts {
            objects_considered: self.objects_considered.load(Relaxed),
            objects_pruned: self.objects_pruned.load(Relaxed),
            objects_opened: self.objects_opened.load(Relaxed),
            row_groups_read: self.row_groups_read.load(Relaxed),
            row_groups_skipped: self.row_groups_skipped.load(Relaxed),
            bytes_verified: self.bytes_verified.load(Relaxed),
            bytes_decrypted: self.bytes_decrypted.load(Relaxed),
            rows_decoded: self.rows_decoded.load(Relaxed),
        }
    }
}
