//! The upload limit: one token bucket for everything this node serves (`limits.upload`).

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How much may be sent at once after a quiet time: a quarter of a second's worth, at least one chunk group.
const BURST_MILLIS: u64 = 250;
const BURST_BYTES_MIN: u64 = 16 * 1024;
/// No single booking waits longer than this, however low the limit.
const COST_SECONDS_MAX: f64 = 3600.0;

/// Bytes per second that all connections together may send; clones share one bucket.
#[derive(Clone, Debug, Default)]
pub struct UploadLimit(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Zero means no limit.
    bytes_per_second: AtomicU64,
    bucket: Mutex<Bucket>,
}

impl UploadLimit {
    /// No limit.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// A limit in bytes per second.
    pub fn bytes_per_second(rate: u64) -> Self {
        let limit = Self::default();
        limit.set(Some(rate));
        limit
    }

    /// Changes the limit. Connections that were accepted while there was none keep running without one.
    pub fn set(&self, bytes_per_second: Option<u64>) {
        self.0
            .bytes_per_second
            .store(bytes_per_second.unwrap_or(0), Ordering::Relaxed);
    }

    /// The limit, if there is one.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.bytes_per_second.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }

    /// Books `bytes` and says how long their sender has to wait.
    pub(super) fn book(&self, bytes: u64, now: Instant) -> Duration {
        let Some(rate) = self.get() else { return Duration::ZERO };
        self.0
            .bucket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .book(bytes, rate, now)
    }
}

/// Tokens kept as the instant at which the bucket will have paid for everything that was booked.
#[derive(Debug, Default)]
struct Bucket {
    paid_at: Option<Instant>,
}

impl Bucket {
    fn book(&mut self, bytes: u64, rate: u64, now: Instant) -> Duration {
        let burst_bytes = (rate.saturating_mul(BURST_MILLIS) / 1000).max(BURST_BYTES_MIN);
        let burst = Duration::from_secs_f64(burst_bytes as f64 / rate as f64);
        let cost = Duration::from_secs_f64((bytes as f64 / rate as f64).min(COST_SECONDS_MAX));
        // A quiet time saves up one burst, never more.
        let floor = now.checked_sub(burst).unwrap_or(now);
        let paid_at = self.paid_at.map_or(floor, |paid_at| paid_at.max(floor)) + cost;
        self.paid_at = Some(paid_at);
        paid_at.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_run_rate_is_the_limit() {
        let (mut bucket, start) = (Bucket::default(), Instant::now() + Duration::from_secs(10));
        let mut now = start;
        for _ in 0..1000 {
            now += bucket.book(16 * 1024, 1024 * 1024, now);
        }
        let expected = 1000.0 * 16.0 / 1024.0;
        let seconds = (now - start).as_secs_f64();
        assert!((expected - 0.5..=expected).contains(&seconds), "{seconds}");
    }

    #[test]
    fn quiet_time_saves_one_burst_only() {
        let (mut bucket, start) = (Bucket::default(), Instant::now() + Duration::from_secs(10));
        assert_eq!(bucket.book(250_000, 1_000_000, start), Duration::ZERO);
        let later = start + Duration::from_secs(3600);
        assert_eq!(bucket.book(250_000, 1_000_000, later), Duration::ZERO);
        assert!(bucket.book(250_000, 1_000_000, later) >= Duration::from_millis(240));
    }

    #[test]
    fn no_limit_never_waits() {
        assert_eq!(UploadLimit::unlimited().book(u64::MAX, Instant::now()), Duration::ZERO);
        assert_eq!(UploadLimit::bytes_per_second(5).get(), Some(5));
    }
}
