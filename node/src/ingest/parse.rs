//! One value from its text. Everything here is strict: what is accepted means exactly what was written.

use sovm_object::types::ColumnType;

use super::error::Misfit;

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// Microseconds of a day.
const DAY: i64 = 86_400 * SECOND;

/// A whole number in its usual spelling: no plus sign, no leading zeros, so that text made of digits stays text.
pub(super) fn is_integer_literal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    match digits.as_bytes() {
        [b'0'] => !text.starts_with('-'),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// A decimal number in its usual spelling, with or without point and exponent.
pub(super) fn is_number_literal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match digits.find(['e', 'E']) {
        Some(at) => (&digits[..at], Some(&digits[at + 1..])),
        None => (digits, None),
    };
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_fits = all_digits(whole)
        && all_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && (whole.len() < 2 || !whole.starts_with('0'));
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && all_digits(digits)
    });
    mantissa_fits && exponent_fits
}

/// The words by which tools write what is not a finite number.
pub(super) fn float_word(text: &str) -> Option<f64> {
    Some(match text {
        "NaN" | "nan" => f64::NAN,
        "inf" | "Inf" | "Infinity" | "infinity" => f64::INFINITY,
        "-inf" | "-Inf" | "-Infinity" | "-infinity" => f64::NEG_INFINITY,
        _ => return None,
    })
}

/// A float, unless it is too large for one or a whole number that a float would change.
pub(super) fn lossless_float(text: &str) -> Option<f64> {
    if !is_number_literal(text) {
        return None;
    }
    let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
    if is_integer_literal(text) && text.len() > 15 {
        let whole: i128 = text.parse().ok()?;
        // Below 2^127 both conversions are exact, so the comparison finds every changed digit.
        return (value.abs() < 1e38 && value as i128 == whole).then_some(value);
    }
    Some(value)
}

/// `true` or `false`, in the cases people and tools write.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// `YYYY-MM-DD` as days since 1970.
pub(super) fn date(text: &str) -> Option<i32> {
    let bytes: &[u8; 10] = text.as_bytes().try_into().ok()?;
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *bytes else {
        return None;
    };
    let year = number(&[y0, y1, y2, y3])?;
    let (month, day) = (number(&[m0, m1])?, number(&[d0, d1])?);
    if year == 0 || !(1..=12).contains(&month) || day == 0 || day > month_days(year, month) {
        return None;
    }
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400;
    let in_year: i32 = (1..month).map(|month| month_days(year, month)).sum();
    // 719,162 days lie between the first day of year 1 and the first of 1970.
    Some(before * 365 + leap_days + in_year + day - 1 - 719_162)
}

const fn month_days(year: i32, month: i32) -> i32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn number(digits: &[u8]) -> Option<i32> {
    digits.iter().try_fold(0, |sum, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + i32::from(digit - b'0'))
    })
}

/// What a clock shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Clock {
    /// Microseconds since midnight.
    At(i64),
    /// Finer than a microsecond.
    TooFine,
}

/// `HH:MM`, `HH:MM:SS` or `HH:MM:SS.ffffff`.
pub(super) fn clock(text: &str) -> Option<Clock> {
    let bytes = text.as_bytes();
    let [h0, h1, b':', m0, m1, rest @ ..] = bytes else {
        return None;
    };
    let (hour, minute) = (number(&[*h0, *h1])?, number(&[*m0, *m1])?);
    let (second, fraction) = match rest {
        [] => (0, &[][..]),
        [b':', s0, s1] => (number(&[*s0, *s1])?, &[][..]),
        [b':', s0, s1, b'.' | b',', fraction @ ..] if !fraction.is_empty() => (number(&[*s0, *s1])?, fraction),
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 59 || fraction.len() > 9 {
        return None;
    }
    let (kept, finer) = fraction.split_at(fraction.len().min(6));
    let scale = 10_i32.pow(6 - kept.len() as u32);
    let micros = number(kept)? * scale;
    if number(finer)? != 0 {
        return Some(Clock::TooFine);
    }
    Some(Clock::At(
        i64::from(hour * 3600 + minute * 60 + second) * SECOND + i64::from(micros),
    ))
}

/// A date with a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Instant {
    /// With a zone: microseconds UTC.
    Utc(i64),
    /// Without: microseconds as if in UTC.
    Local(i64),
    /// Finer than a microsecond; the flag says whether it has a zone.
    TooFine,
}

/// ISO 8601 as tools write it: date, `T` or a space, time, then nothing, `Z` or an offset.
pub(super) fn instant(text: &str) -> Option<Instant> {
    let (day, rest) = text.split_at_checked(10)?;
    let day = i64::from(date(day)?) * DAY;
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (time, offset) = match rest.find(['Z', 'z', '+', '-']) {
        None => (rest, None),
        Some(at) => (&rest[..at], Some(offset(&rest[at..])?)),
    };
    // Some tools write a space before the offset.
    let time = if offset.is_some() {
        time.strip_suffix(' ').unwrap_or(time)
    } else {
        time
    };
    let Clock::At(time) = clock(time)? else {
        return Some(Instant::TooFine);
    };
    Some(match offset {
        None => Instant::Local(day + time),
        Some(offset) => Instant::Utc(day + time - offset),
    })
}

/// `Z`, `+HH:MM`, `+HHMM` or `+HH` in microseconds.
fn offset(text: &str) -> Option<i64> {
    let (hours, minutes) = match text.as_bytes() {
        [b'Z' | b'z'] => return Some(0),
        [_, h0, h1] => (number(&[*h0, *h1])?, 0),
        [_, h0, h1, m0, m1] | [_, h0, h1, b':', m0, m1] => (number(&[*h0, *h1])?, number(&[*m0, *m1])?),
        _ => return None,
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let offset = i64::from(hours * 60 + minutes) * 60 * SECOND;
    match text.as_bytes()[0] {
        b'+' => Some(offset),
        b'-' => Some(-offset),
        _ => None,
    }
}

/// A decimal number as its unscaled value; digits that do not fit are an error, never rounded away.
pub(super) fn decimal(text: &str, precision: u8, scale: u8) -> Result<i128, Misfit> {
    let ty = ColumnType::Decimal { precision, scale };
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match digits.find(['e', 'E']) {
        Some(at) => (
            &digits[..at],
            digits[at + 1..].parse::<i32>().map_err(|_| Misfit::NotA(ty))?,
        ),
        None => (digits, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(whole) || !plain(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return Err(Misfit::NotA(ty));
    }
    let significant: Vec<u8> = whole
        .bytes()
        .chain(fraction.bytes())
        .skip_while(|digit| *digit == b'0')
        .collect();
    // How many places the digits move to become the unscaled value.
    let shift = i64::from(scale) + i64::from(exponent) - fraction.len() as i64;
    let (kept, dropped) = if shift < 0 {
        let cut = significant.len().saturating_sub(shift.unsigned_abs() as usize);
        significant.split_at(cut)
    } else {
        (significant.as_slice(), &[][..])
    };
    if dropped.iter().any(|digit| *digit != b'0') {
        return Err(Misfit::Inexact(ty));
    }
    let zeros = usize::try_from(shift.max(0)).unwrap_or(usize::MAX);
    if kept.is_empty() {
        return Ok(0);
    }
    if kept.len().saturating_add(zeros) > usize::from(precision) {
        return Err(Misfit::OutOfRange(ty));
    }
    // At most 38 digits, which an i128 holds.
    let value = kept
        .iter()
        .fold(0_i128, |sum, digit| sum * 10 + i128::from(digit - b'0'))
        * 10_i128.pow(zeros as u32);
    Ok(if negative { -value } else { value })
}

/// Sixteen bytes in hex, with or without the usual hyphens or braces.
pub(crate) fn uuid(text: &str) -> Option<[u8; 16]> {
    let text = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .unwrap_or(text);
    let mut plain = String::with_capacity(32);
    if text.len() == 36 && text.is_ascii() {
        let groups = [&text[..8], &text[9..13], &text[14..18], &text[19..23], &text[24..]];
        let hyphens = [8, 13, 18, 23].iter().all(|at| text.as_bytes()[*at] == b'-');
        hyphens.then(|| groups.iter().for_each(|group| plain.push_str(group)))?;
    } else {
        plain.push_str(text);
    }
    let mut bytes = [0; 16];
    hex::decode_to_slice(plain, &mut bytes).ok()?;
    Some(bytes)
}

/// Bytes in hex, with or without the prefix that databases write.
pub(super) fn bytes(text: &str) -> Option<Vec<u8>> {
    let plain = text
        .strip_prefix("\\x")
        .or_else(|| text.strip_prefix("0x"))
        .unwrap_or(text);
    hex::decode(plain).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_and_numbers() {
        for yes in ["0", "7", "-7", "10", "9223372036854775807"] {
            assert!(is_integer_literal(yes) && is_number_literal(yes), "{yes}");
        }
        for no in [
            "", "-", "007", "00", "-0", "+5", " 5", "5 ", "1_000", "1,000", "0x10", "٣", "5.0",
        ] {
            assert!(!is_integer_literal(no), "{no}");
        }
        for yes in ["0.5", ".5", "5.", "-0.0", "-0", "1e5", "1E+5", "2.5e-3"] {
            assert!(is_number_literal(yes), "{yes}");
        }
        for no in [
            "", ".", "-", "e5", "1e", "1e+", "00.5", "007.1", "1.2.3", "1e5.0", "0x1p3", "NaN", "1d",
        ] {
            assert!(!is_number_literal(no), "{no}");
        }
    }

    #[test]
    fn whole_numbers_a_float_would_change_are_none() {
        assert_eq!(lossless_float("9007199254740992"), Some(9_007_199_254_740_992.0));
        assert_eq!(lossless_float("9007199254740993"), None);
        assert_eq!(lossless_float("-9007199254740993"), None);
        assert_eq!(lossless_float("12345678901234567890123456789012345678901234"), None);
        assert_eq!(lossless_float("1e400"), None);
        assert_eq!(lossless_float("0.1"), Some(0.1));
    }

    #[test]
    fn dates() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("2013-01-01", 15_706),
            ("0001-01-01", -719_162),
            ("9999-12-31", 2_932_896),
        ] {
            assert_eq!(date(text), Some(days), "{text}");
        }
        for no in [
            "",
            "2013-1-1",
            "2013-13-01",
            "2013-00-01",
            "2013-02-29",
            "1900-02-29",
            "2013-04-31",
            "0000-01-01",
            "2013/01/01",
            "20130101",
            "2013-01-01 ",
            "-013-01-01",
            "٢013-01-0",
        ] {
            assert_eq!(date(no), None, "{no}");
        }
    }

    #[test]
    fn instants() {
        let utc = |text| match instant(text) {
            Some(Instant::Utc(us)) => us,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(utc("1970-01-01T00:00:00Z"), 0);
        assert_eq!(utc("1970-01-01 01:00:00+01:00"), 0);
        assert_eq!(utc("1970-01-01T01:00+0100"), 0);
        assert_eq!(utc("1969-12-31T23:30:00.5-00:30"), 500_000);
        assert_eq!(utc("1970-01-01 00:00:01 -00"), SECOND);
        assert_eq!(utc("1970-01-01T00:00:00.000001000Z"), 1);
        assert_eq!(instant("1970-01-01 00:00"), Some(Instant::Local(0)));
        assert_eq!(instant("1970-01-01T00:00:00.0000001"), Some(Instant::TooFine));
        for no in [
            "",
            "1970-01-01",
            "1970-01-01T",
            "1970-01-01T24:00",
            "1970-01-01T00:60",
            "1970-01-01T00:00:60",
            "1970-01-01T00",
            "1970-01-01T00:00:00.",
            "1970-01-01T00:00:00.1234567890",
            "1970-01-01X00:00",
            "1970-01-01T00:00Zz",
            "1970-01-01T00:00+24:00",
            "1970-01-01T00:00+1",
            "1970-01-01T00:00:00 UTC",
            "1970-01-01T0:00",
            "é970-01-01T00:00",
            "1970-01-01  00:00",
            "1970-01-01T00:00Z01",
        ] {
            assert_eq!(instant(no), None, "{no}");
        }
    }

    #[test]
    fn decimals_are_exact_or_refused() {
        for (text, precision, scale, value) in [
            ("0", 1, 0, 0),
            ("-0.00", 3, 1, 0),
            ("1.5", 3, 2, 150),
            ("+1.50", 3, 2, 150),
            ("1.500", 3, 2, 150),
            (".5", 2, 1, 5),
            ("007", 3, 0, 7),
            ("-12.34", 4, 2, -1234),
            ("1.2e3", 4, 0, 1200),
            ("12e-1", 3, 1, 12),
            ("0e999", 3, 1, 0),
            ("99999999999999999999999999999999999999", 38, 0, 10_i128.pow(38) - 1),
        ] {
            assert_eq!(decimal(text, precision, scale), Ok(value), "{text}");
        }
        let ty = ColumnType::Decimal { precision: 4, scale: 2 };
        for text in ["", "-", ".", "abc", "1.2.3", "1e", "1e99999999999", "--1", " 1"] {
            assert_eq!(decimal(text, 4, 2), Err(Misfit::NotA(ty)), "{text}");
        }
        for text in ["1.234", "0.001", "1e-3"] {
            assert_eq!(decimal(text, 4, 2), Err(Misfit::Inexact(ty)), "{text}");
        }
        for text in ["100", "123.45", "1e2", "1e2000000000"] {
            assert_eq!(decimal(text, 4, 2), Err(Misfit::OutOfRange(ty)), "{text}");
        }
    }

    #[test]
    fn uuids_and_bytes() {
        let expected = Some([
            0x12, 0x3e, 0x45, 0x67, 0xe8, 0x9b, 0x12, 0xd3, 0xa4, 0x56, 0x42, 0x66, 0x14, 0x17, 0x40, 0,
        ]);
        for yes in [
            "123e4567-e89b-12d3-a456-426614174000",
            "123E4567E89B12D3A456426614174000",
            "{123e4567-e89b-12d3-a456-426614174000}",
        ] {
            assert_eq!(uuid(yes), expected, "{yes}");
        }
        for no in [
            "",
            "123e4567",
            "123e4567-e89b-12d3-a456-42661417400g",
            "123e4567xe89b-12d3-a456-426614174000",
            "{}",
        ] {
            assert_eq!(uuid(no), None, "{no}");
        }
        assert_eq!(bytes("\\x00ff"), Some(vec![0, 0xff]));
        assert_eq!(bytes("0xAB"), Some(vec![0xab]));
        assert_eq!(bytes(""), Some(vec![]));
        assert_eq!(bytes("abc"), None);
        assert_eq!(bytes("zz"), None);
    }

    proptest! {
        /// Days count up by one from each day to the next.
        #[test]
        fn days_are_consecutive(year in 1_i32..9999, month in 1_i32..=12, day in 1_i32..=31) {
            let text = format!("{year:04}-{month:02}-{day:02}");
            if let Some(days) = date(&text) {
                let next = [(year, month, day + 1), (year, month + 1, 1), (year + 1, 1, 1)];
                let next = next.iter().find_map(|(y, m, d)| date(&format!("{y:04}-{m:02}-{d:02}")));
                prop_assert_eq!(next, Some(days + 1));
            }
        }

        /// Nothing panics, whatever the text.
        #[test]
        fn any_text_is_answered(text in "\\PC{0,30}", noisy in "[0-9TZ:. +eE-]{0,30}") {
            for text in [text.as_str(), noisy.as_str()] {
                let _ = (date(text), instant(text), clock(text), decimal(text, 10, 3), uuid(text), bytes(text), lossless_float(text));
            }
        }
    }
}
