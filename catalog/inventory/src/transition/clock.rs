//! The two clocks of a writer: the one versions are dated with, and the one releases are due by.

use std::time::Duration;

use chrono::TimeDelta;

use super::Refusal;
use crate::doc::Instant;

/// INV-253: how far a base version may be ahead of a writer's clock.
const AHEAD: TimeDelta = TimeDelta::minutes(5);

/// INV-252: when the next version is dated: by the own clock, but always at least a millisecond after the base version.
///
/// A base far in the future is refused, or one fast clock would pin the time of every version after it (INV-253). The base is
/// the version before, whichever epoch it belongs to.
pub fn next_created_at(base: Option<Instant>, own: Instant) -> Result<Instant, Refusal> {
    let Some(base) = base else { return Ok(own) };
    if base.since(own) > AHEAD {
        return Err(Refusal::BaseAhead { base, own });
    }
    Ok(own.max(base.plus(TimeDelta::milliseconds(1))))
}

/// The clock release times are compared with, checked against the mesh's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseClock(Instant);

impl ReleaseClock {
    /// INV-210: takes the own clock unless it is ahead of the mesh's by more than `bound`, since a fast clock would lift an
    /// embargo early. A slow one only releases late.
    ///
    /// Both are [`Instant`]s, which are of UTC by construction: a time without a zone cannot come this far (INV-211).
    pub fn checked(own: Instant, mesh: Instant, bound: Duration) -> Result<Self, Refusal> {
        let bound = TimeDelta::from_std(bound).unwrap_or(TimeDelta::MAX);
        if own.since(mesh) > bound {
            return Err(Refusal::ClockAhead {
                own,
                mesh,
                bound_millis: bound.num_milliseconds(),
            });
        }
        Ok(Self(own))
    }

    /// Takes the own clock where nobody else's can be asked: a catalogue on one machine.
    pub fn alone(own: Instant) -> Self {
        Self(own)
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Instant {
        text.parse().expect("the test's instant is well formed")
    }

    /// INV-252: a clock that runs dates the version itself.
    #[test]
    fn a_later_clock_dates_the_version() {
        let own = at("2026-01-01T00:00:01Z");
        assert_eq!(next_created_at(Some(at("2026-01-01T00:00:00Z")), own), Ok(own));
        assert_eq!(next_created_at(None, own), Ok(own));
    }

    /// INV-252: a clock at or behind the base writes the base's time and one millisecond.
    #[test]
    fn a_slower_clock_writes_the_base_and_a_millisecond() {
        let base = at("2026-01-01T00:00:00.5005Z");
        let expected = at("2026-01-01T00:00:00.5015Z");
        for own in [
            "2026-01-01T00:00:00.5005Z",
            "2026-01-01T00:00:00.501Z",
            "2025-12-31T23:56:00Z",
        ] {
            assert_eq!(next_created_at(Some(base), at(own)), Ok(expected), "{own}");
        }
    }

    /// INV-253: exactly five minutes ahead is followed, more is refused with both times in the message.
    #[test]
    fn a_base_more_than_five_minutes_ahead_is_refused() {
        let base = at("2026-01-01T00:05:00Z");
        assert!(next_created_at(Some(base), at("2026-01-01T00:00:00Z")).is_ok());
        let refused = next_created_at(Some(base), at("2025-12-31T23:59:59.999Z")).expect_err("too far ahead");
        assert_eq!(refused.rule(), 253);
        let text = refused.to_string();
        assert!(
            text.contains("2026-01-01T00:05:00") && text.contains("23:59:59.999"),
            "{text}"
        );
    }

    /// INV-210, INV-254: the release clock may be ahead of the mesh by the bound and no more; behind is harmless.
    #[test]
    fn a_release_clock_ahead_of_the_mesh_is_refused() {
        let mesh = at("2026-01-01T08:30:00Z");
        let bound = Duration::from_secs(2);
        for own in ["2026-01-01T08:30:02Z", "2026-01-01T07:00:00Z"] {
            assert_eq!(
                ReleaseClock::checked(at(own), mesh, bound).map(|clock| clock.now()),
                Ok(at(own))
            );
        }
        let refused = ReleaseClock::checked(at("2026-01-01T08:30:02.001Z"), mesh, bound).expect_err("ahead");
        assert_eq!(refused.rule(), 210);
    }

    /// INV-211: an instant without a zone is no instant, so no release clock can be made of it.
    #[test]
    fn a_time_without_a_zone_is_refused() {
        for naive in ["2026-01-01T08:30:00", "2026-01-01 08:30:00", "2026-01-01"] {
            assert!(naive.parse::<Instant>().is_err(), "{naive}");
        }
    }
}
