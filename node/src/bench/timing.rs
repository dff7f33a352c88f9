//! Times and what they are compared with.

use std::time::{Duration, Instant};

use crate::api::BenchRatio;

/// Times of one thing, in milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(Vec<f64>);

impl Times {
    /// Times that were taken elsewhere.
    pub(super) fn of(times: &[Duration]) -> Self {
        Self(times.iter().map(|time| time.as_secs_f64() * 1_000.0).collect())
    }

    /// Adds the time since `begun`.
    pub(super) fn add(&mut self, begun: Instant) {
        self.0.push(begun.elapsed().as_secs_f64() * 1_000.0);
    }

    /// The middle one; of an even number the upper.
    pub(super) fn median(&self) -> f64 {
        let mut times = self.0.clone();
        times.sort_by(f64::total_cmp);
        rounded(times.get(times.len() / 2).copied().unwrap_or_default())
    }
}

/// Compares our time with another.
pub(super) fn ratio(with: &str, ours: f64, other: f64, target: Option<f64>) -> BenchRatio {
    BenchRatio {
        with: with.to_owned(),
        ms: rounded(other),
        // A clock too coarse for the other's time says nothing about ours.
        ratio: if other > 0.0 { rounded(ours / other) } else { 0.0 },
        target,
    }
}

/// A thousandth is finer than any of these figures repeats.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios() {
        assert_eq!(Times(vec![3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(Times(vec![3.0, 1.0]).median(), 3.0);
        assert_eq!(Times::default().median(), 0.0);
        assert_eq!(Times::of(&[Duration::from_micros(1_500)]).median(), 1.5);
        assert_eq!(ratio("x", 3.0, 2.0, None).ratio, 1.5);
        assert_eq!(ratio("x", 3.0, 0.0, None).ratio, 0.0);
    }
}
