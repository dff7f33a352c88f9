//! Instants: RFC 3339, UTC, ending in `Z`.

use std::{cmp::Ordering, fmt, hash, str::FromStr};

use chrono::{DateTime, Datelike as _, NaiveDate, SubsecRound as _, TimeDelta, Timelike as _, Utc};

use super::{
    id::{IdError, json_text, serde_text},
    json::Json,
};

/// An instant of UTC, which remembers how many digits its fraction was written with.
///
/// Two instants are equal when they are the same moment, whichever way they were written; `Display` gives the text back as it
/// was read.
#[derive(Clone, Copy)]
pub struct Instant {
    at: DateTime<Utc>,
    digits: u8,
}

impl Instant {
    /// Digits a writer of this project gives the fraction: microseconds.
    const WRITTEN: u8 = 6;

    /// An instant of a clock, cut to microseconds; years outside 0 to 9999, which RFC 3339 cannot write, are drawn to its ends.
    pub fn from_datetime(at: DateTime<Utc>) -> Self {
        Self {
            at: within(at).trunc_subsecs(u16::from(Self::WRITTEN)),
            digits: Self::WRITTEN,
        }
    }

    /// This moment by the system's clock.
    pub fn now() -> Self {
        Self::from_datetime(std::time::SystemTime::now().into())
    }

    /// An instant given in milliseconds since 1970.
    pub fn from_unix_millis(millis: i64) -> Self {
        let end = if millis < 0 {
            DateTime::<Utc>::MIN_UTC
        } else {
            DateTime::<Utc>::MAX_UTC
        };
        Self::from_datetime(DateTime::from_timestamp_millis(millis).unwrap_or(end))
    }

    /// Milliseconds since 1970, cut.
    pub fn unix_millis(&self) -> i64 {
        self.at.timestamp_millis()
    }

    /// The moment.
    pub fn datetime(&self) -> DateTime<Utc> {
        self.at
    }

    /// The moment `delta` later (earlier when negative), with at least microseconds; drawn to the ends of what RFC 3339 writes.
    pub fn plus(&self, delta: TimeDelta) -> Self {
        let end = if delta < TimeDelta::zero() {
            DateTime::<Utc>::MIN_UTC
        } else {
            DateTime::<Utc>::MAX_UTC
        };
        let at = within(self.at.checked_add_signed(delta).unwrap_or(end));
        Self {
            at,
            digits: self.digits.max(Self::WRITTEN),
        }
    }

    /// How much later this moment is than `earlier`.
    pub fn since(&self, earlier: Self) -> TimeDelta {
        self.at.signed_duration_since(earlier.at)
    }
}

fn within(at: DateTime<Utc>) -> DateTime<Utc> {
    let end = |year, month, day, hour, minute, second, nano| {
        NaiveDate::from_ymd_opt(year, month, day)
            .and_then(|date| date.and_hms_nano_opt(hour, minute, second, nano))
            .map_or(at, |time| time.and_utc())
    };
    match at.year() {
        ..0 => end(0, 1, 1, 0, 0, 0, 0),
        0..=9999 => at,
        _ => end(9999, 12, 31, 23, 59, 59, 999_999_999),
    }
}

impl FromStr for Instant {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        parse(text).ok_or_else(|| IdError::new("an instant (RFC 3339, UTC, ending in Z)", text))
    }
}

/// `YYYY-MM-DDThh:mm:ss[.f{1,9}]Z`; no leap seconds, which no clock here counts.
fn parse(text: &str) -> Option<Instant> {
    let body = text.strip_suffix('Z')?;
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let (whole, fraction) = body.split_at_checked(shape.len())?;
    let fits = whole.bytes().zip(shape).all(|(byte, expected)| match expected {
        b'd' => byte.is_ascii_digit(),
        other => byte == *other,
    });
    if !fits {
        return None;
    }
    let number = |range: std::ops::Range<usize>| whole.get(range)?.parse::<u32>().ok();
    let (digits, nanos) = match fraction.strip_prefix('.') {
        None if fraction.is_empty() => (0, 0),
        Some(digits) if (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()) => (
            u8::try_from(digits.len()).ok()?,
            format!("{digits:0<9}").parse::<u32>().ok()?,
        ),
        _ => return None,
    };
    let date = NaiveDate::from_ymd_opt(i32::try_from(number(0..4)?).ok()?, number(5..7)?, number(8..10)?)?;
    let at = date
        .and_hms_nano_opt(number(11..13)?, number(14..16)?, number(17..19)?, nanos)?
        .and_utc();
    Some(Instant { at, digits })
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = &self.at;
        write!(f, "{:04}-{:02}-{:02}T", at.year(), at.month(), at.day())?;
        write!(f, "{:02}:{:02}:{:02}", at.hour(), at.minute(), at.second())?;
        if self.digits > 0 {
            let nanos = format!("{:09}", at.nanosecond());
            write!(f, ".{}", &nanos[..usize::from(self.digits)])?;
        }
        f.write_str("Z")
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({self})")
    }
}

impl PartialEq for Instant {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Instant {}

impl PartialOrd for Instant {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Instant {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

impl hash::Hash for Instant {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.at.hash(state);
    }
}

json_text!(Instant);
serde_text!(Instant);
