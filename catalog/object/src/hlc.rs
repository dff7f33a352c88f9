//! Hybrid logical clock (SOP part 2.7): milliseconds since 1970 shifted left 16, plus a 16-bit counter.
//!
//! The clock never reads the system time; callers pass `now`. A remote value more than five minutes ahead of `now` moves
//! nothing, so one peer with a wrong clock cannot drag everybody else along.

use std::fmt;

/// How far ahead of our own clock a remote stamp may be before its entry is held (DESIGN §7).
pub const MAX_AHEAD_MS: u64 = 5 * 60 * 1000;

/// One stamp: orders events of one site strictly, and events across sites causally.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Hlc(u64);

impl Hlc {
    /// Builds a stamp from its parts.
    pub const fn new(millis: u64, counter: u16) -> Self {
        Self((millis << 16) | counter as u64)
    }

    /// The stamp as it stands in payloads.
    pub const fn from_u64(raw: u64) -> Self {
        Self(raw)
    }

    /// The stamp as it stands in payloads.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Wall-clock part, milliseconds since 1970.
    pub const fn millis(self) -> u64 {
        self.0 >> 16
    }

    /// Days since 1970, the unit in which sets are sharded for reconciliation.
    pub const fn day(self) -> u32 {
        (self.millis() / 86_400_000) as u32
    }

    /// Whether this stamp is too far ahead of `now_ms` to be believed.
    pub const fn is_from_the_future(self, now_ms: u64) -> bool {
        self.millis() > now_ms.saturating_add(MAX_AHEAD_MS)
    }
}

impl fmt::Display for Hlc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.millis(), self.0 & 0xffff)
    }
}

/// A site's own clock. Persist [`ceiling`](Self::ceiling) before using a stamp, and restart from it.
#[derive(Debug)]
pub struct HlcClock {
    last: Hlc,
}

impl HlcClock {
    /// Starts at or above `floor`, the ceiling that was persisted before the last stop.
    pub const fn starting_at(floor: Hlc) -> Self {
        Self { last: floor }
    }

    /// A fresh stamp, strictly above every stamp given before.
    pub fn tick(&mut self, now_ms: u64) -> Hlc {
        self.last = if now_ms > self.last.millis() {
            Hlc::new(now_ms, 0)
        } else {
            Hlc(self.last.0 + 1)
        };
        self.last
    }

    /// Takes note of a remote stamp. Returns false, and changes nothing, when it lies too far ahead.
    pub fn observe(&mut self, remote: Hlc, now_ms: u64) -> bool {
        if remote.is_from_the_future(now_ms) {
            return false;
        }
        self.last = self.last.max(remote);
        true
    }

    /// The highest stamp given or seen.
    pub const fn last(&self) -> Hlc {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SOP-366: a clock set back never gives an older stamp.
    #[test]
    fn never_goes_back() {
        let mut clock = HlcClock::starting_at(Hlc::new(1_000, 0));
        let a = clock.tick(2_000);
        let b = clock.tick(500);
        assert!(b > a);
        let restarted = HlcClock::starting_at(b).tick(0);
        assert!(restarted > b);
    }

    /// SOP-133: a stamp from the far future moves our clock by nothing.
    #[test]
    fn future_stamp_moves_nothing() {
        let mut clock = HlcClock::starting_at(Hlc::new(1_000, 0));
        assert!(!clock.observe(Hlc::new(1_000 + MAX_AHEAD_MS + 2, 0), 1_000));
        assert_eq!(clock.last(), Hlc::new(1_000, 0));
        assert!(clock.observe(Hlc::new(1_000 + MAX_AHEAD_MS, 0), 1_000));
    }

    #[test]
    fn counter_overflow_carries_into_milliseconds() {
        let mut clock = HlcClock::starting_at(Hlc::new(5, u16::MAX));
        assert_eq!(clock.tick(5), Hlc::new(6, 0));
    }
}
