//! Single values as DuckDB's JSON conversion writes them.
//!
//! Every function appends to a buffer that the caller reuses, so that hashing a table allocates nothing per row.

use arrow::datatypes::TimeUnit;

/// A value of an accepted type that DuckDB's type of that name cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueProblem {
    /// More digits than the column's type says.
    #[error("the decimal has more digits than its type")]
    DecimalTooWide,
    /// Outside DATE.
    #[error("the day is outside the range of DATE")]
    DateOutOfRange,
    /// Outside TIMESTAMP.
    #[error("the instant is outside the range of TIMESTAMP")]
    TimestampOutOfRange,
}

pub(super) fn write_null(out: &mut Vec<u8>) {
    out.extend_from_slice(b"null");
}

pub(super) fn write_boolean(value: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

pub(super) fn write_integer(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Largest magnitude below which every integral double is its own shortest decimal.
const EXACT_INTEGER_LIMIT: f64 = 9_007_199_254_740_992.0;

/// DOUBLE: the shortest digits that read back as the value, set by [`write_decimal_digits`].
pub(super) fn write_double(value: f64, out: &mut Vec<u8>) {
    if !value.is_finite() {
        // Not JSON, but what the engine writes.
        let text: &[u8] = match (value.is_nan(), value > 0.0) {
            (true, _) => b"NaN",
            (false, true) => b"Infinity",
            (false, false) => b"-Infinity",
        };
        out.extend_from_slice(text);
        return;
    }
    if value.abs() < EXACT_INTEGER_LIMIT {
        let truncated = value as i64;
        // Counts and amounts: most numbers that are published. Zero is left out for the sake of its sign.
        if truncated as f64 == value && truncated != 0 {
            write_integer(truncated, out);
            out.extend_from_slice(b".0");
            return;
        }
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value).as_bytes();
    match text.iter().position(|byte| *byte == b'e') {
        // The crate turns to an exponent earlier than the engine does, so without one both agree.
        None => out.extend_from_slice(text),
        Some(at) => set_anew(&text[..at], &text[at + 1..], out),
    }
}

/// Takes `[-]d[.ddd]` and an exponent apart and sets the number as the engine does.
fn set_anew(mantissa: &[u8], exponent: &[u8], out: &mut Vec<u8>) {
    let mut digits = [0; 24];
    let mut length = 0;
    let mut negative = false;
    for byte in mantissa {
        match byte {
            b'-' => negative = true,
            b'.' => {}
            digit => {
                digits[length] = *digit;
                length += 1;
            }
        }
    }
    let mut magnitude = 0;
    let mut below_one = false;
    for byte in exponent {
        match byte {
            b'-' => below_one = true,
            b'+' => {}
            digit => magnitude = magnitude * 10 + i32::from(digit - b'0'),
        }
    }
    let exponent = if below_one { -magnitude } else { magnitude };
    write_decimal_digits(negative, &digits[..length], exponent, out);
}

/// Sets `d.ddd × 10^exponent`, given its digits without trailing zeros.
///
/// Positional where 1e-6 <= |x| < 1e21, with `.0` when integral; else `d[.ddd]e[-]n` without a plus sign.
fn write_decimal_digits(negative: bool, digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    const ZEROS: [u8; 21] = [b'0'; 21];
    if negative {
        out.push(b'-');
    }
    match exponent {
        -6..=-1 => {
            out.extend_from_slice(b"0.");
            out.extend_from_slice(&ZEROS[..exponent.unsigned_abs() as usize - 1]);
            out.extend_from_slice(digits);
        }
        0..=20 => {
            let integral = exponent as usize + 1;
            match digits.split_at_checked(integral) {
                Some((whole, fraction)) if !fraction.is_empty() => {
                    out.extend_from_slice(whole);
                    out.push(b'.');
                    out.extend_from_slice(fraction);
                }
                _ => {
                    out.extend_from_slice(digits);
                    out.extend_from_slice(&ZEROS[..integral - digits.len()]);
                    out.extend_from_slice(b".0");
                }
            }
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            out.extend_from_slice(first);
            if !rest.is_empty() {
                out.push(b'.');
                out.extend_from_slice(rest);
            }
            out.push(b'e');
            write_integer(exponent, out);
        }
    }
}

/// DECIMAL of up to 15 digits, which the engine casts to DOUBLE first.
///
/// A decimal of so few digits is the shortest text of the double nearest to it, so the digits are set without the cast.
pub(super) fn write_narrow_decimal(unscaled: i64, scale: u8, out: &mut Vec<u8>) {
    if unscaled == 0 {
        out.extend_from_slice(b"0.0");
        return;
    }
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(unscaled.unsigned_abs()).as_bytes();
    let exponent = digits.len() as i32 - 1 - i32::from(scale);
    let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
    write_decimal_digits(unscaled < 0, &digits[..digits.len() - zeros], exponent, out);
}

/// DECIMAL of 16 digits and more: the exact text, with every digit of the scale.
pub(super) fn write_wide_decimal(unscaled: i128, scale: u8, out: &mut Vec<u8>) {
    const ZEROS: [u8; 39] = [b'0'; 39];
    let scale = usize::from(scale);
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(unscaled.unsigned_abs()).as_bytes();
    if unscaled < 0 {
        out.push(b'-');
    }
    match digits.len().checked_sub(scale) {
        Some(integral) if integral > 0 => {
            out.extend_from_slice(&digits[..integral]);
            if scale > 0 {
                out.push(b'.');
                out.extend_from_slice(&digits[integral..]);
            }
        }
        _ => {
            out.extend_from_slice(b"0.");
            out.extend_from_slice(&ZEROS[..scale - digits.len()]);
            out.extend_from_slice(digits);
        }
    }
}

/// Which bytes a JSON string does not hold as they are.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escaped[byte] = true;
        byte += 1;
    }
    escaped[b'"' as usize] = true;
    escaped[b'\\' as usize] = true;
    escaped
};

/// VARCHAR: raw UTF-8 between quotes, with the fewest escapes.
pub(super) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    write_string_body(text, out);
    out.push(b'"');
}

fn write_string_body(text: &str, out: &mut Vec<u8>) {
    const HEX: [u8; 16] = *b"0123456789ABCDEF";
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| ESCAPED[usize::from(*byte)]) {
        let byte = rest[at];
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(control >> 4)], HEX[usize::from(control & 15)]]);
            }
        }
    }
    out.extend_from_slice(rest);
}

/// An object key and its colon.
pub(super) fn write_key(name: &str, out: &mut Vec<u8>) {
    write_string(name, out);
    out.push(b':');
}

const DAY_MICROS: i64 = 86_400_000_000;
/// 290309-12-22 (BC) 00:00:00, the first instant of the engine's TIMESTAMP.
const FIRST_MICROS: i64 = -9_223_372_022_400_000_000;

/// DATE from days since 1970-01-01, quotes included.
pub(super) fn write_date(days: i32, out: &mut Vec<u8>) -> Result<(), ValueProblem> {
    match days {
        // The two ends stand for the infinities, and are tested before any arithmetic.
        i32::MAX => out.extend_from_slice(b"\"infinity\""),
        -2_147_483_647 => out.extend_from_slice(b"\"-infinity\""),
        i32::MIN => return Err(ValueProblem::DateOutOfRange),
        days => {
            out.push(b'"');
            write_day(i64::from(days), out);
            out.push(b'"');
        }
    }
    Ok(())
}

/// TIMESTAMP without zone, quotes included. Fraction digits go without trailing zeros.
pub(super) fn write_timestamp(value: i64, unit: TimeUnit, out: &mut Vec<u8>) -> Result<(), ValueProblem> {
    let (days, nanos) = match unit {
        TimeUnit::Nanosecond => match infinity(value, out) {
            Some(done) => return done,
            None => (value.div_euclid(DAY_MICROS * 1000), value.rem_euclid(DAY_MICROS * 1000)),
        },
        unit => {
            // Parquet files with seconds or milliseconds come to the engine as microseconds, or not at all.
            let factor = match unit {
                TimeUnit::Second => 1_000_000,
                TimeUnit::Millisecond => 1_000,
                _ => 1,
            };
            let micros = value.checked_mul(factor).ok_or(ValueProblem::TimestampOutOfRange)?;
            if let Some(done) = infinity(micros, out) {
                return done;
            }
            if micros < FIRST_MICROS {
                return Err(ValueProblem::TimestampOutOfRange);
            }
            (micros.div_euclid(DAY_MICROS), micros.rem_euclid(DAY_MICROS) * 1000)
        }
    };
    out.push(b'"');
    write_day(days, out);
    out.push(b' ');
    write_time(nanos as u64, out);
    out.push(b'"');
    Ok(())
}

/// The ends of the range that stand for the infinities, or for nothing.
fn infinity(value: i64, out: &mut Vec<u8>) -> Option<Result<(), ValueProblem>> {
    match value {
        i64::MAX => out.extend_from_slice(b"\"infinity\""),
        -9_223_372_036_854_775_807 => out.extend_from_slice(b"\"-infinity\""),
        i64::MIN => return Some(Err(ValueProblem::TimestampOutOfRange)),
        _ => return None,
    }
    Some(Ok(()))
}

/// `YYYY-MM-DD` of the proleptic Gregorian calendar; years before 1 are counted backwards and marked.
fn write_day(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil_from_days(days);
    let shown = if year > 0 { year } else { 1 - year } as u64;
    match u32::try_from(shown) {
        Ok(shown) if shown <= 9999 => {
            out.extend_from_slice(&two_digits(shown / 100));
            out.extend_from_slice(&two_digits(shown % 100));
        }
        _ => write_integer(shown, out),
    }
    let [month_tens, month_ones] = two_digits(month);
    let [day_tens, day_ones] = two_digits(day);
    out.extend_from_slice(&[b'-', month_tens, month_ones, b'-', day_tens, day_ones]);
    if year <= 0 {
        out.extend_from_slice(b" (BC)");
    }
}

/// `HH:MM:SS[.f]`, given nanoseconds since midnight.
fn write_time(nanos: u64, out: &mut Vec<u8>) {
    let seconds = (nanos / 1_000_000_000) as u32;
    let mut fraction = (nanos % 1_000_000_000) as u32;
    let [hour_tens, hour_ones] = two_digits(seconds / 3600);
    let [minute_tens, minute_ones] = two_digits(seconds / 60 % 60);
    let [second_tens, second_ones] = two_digits(seconds % 60);
    let clock = [
        hour_tens,
        hour_ones,
        b':',
        minute_tens,
        minute_ones,
        b':',
        second_tens,
        second_ones,
    ];
    out.extend_from_slice(&clock);
    if fraction > 0 {
        let mut digits = [b'0'; 9];
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (fraction % 10) as u8;
            fraction /= 10;
        }
        let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
        out.push(b'.');
        out.extend_from_slice(&digits[..9 - zeros]);
    }
}

fn two_digits(value: u32) -> [u8; 2] {
    [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]
}

/// Year, month and day of a day number counted from 1970-01-01.
///
/// Counts in eras of 400 years that begin on 1 March, so that the leap day is the last of a year.
fn civil_from_days(days: i64) -> (i64, u32, u32) {
    const ERA_DAYS: i64 = 146_097;
    let since_march_0 = days + 719_468;
    let era = since_march_0.div_euclid(ERA_DAYS);
    let day_of_era = since_march_0.rem_euclid(ERA_DAYS) as u32;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + i64::from(year_of_era) + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn double(value: f64) -> String {
        text(|out| write_double(value, out))
    }

    /// INV-72: where the notation of doubles changes, on both sides of each limit.
    #[test]
    fn doubles_at_the_limits_of_notation() {
        for (value, expected) in [
            (1e21, "1e21"),
            (9.999999999999999e20, "999999999999999900000.0"),
            (-1e20, "-100000000000000000000.0"),
            (1e-6, "0.000001"),
            (9.99e-7, "9.99e-7"),
            (-1.5e-300, "-1.5e-300"),
            (9007199254740991.0, "9007199254740991.0"),
            (9007199254740992.0, "9007199254740992.0"),
            (9007199254740993.0, "9007199254740992.0"),
            (-0.0, "-0.0"),
            (0.0, "0.0"),
            (-1.0, "-1.0"),
            (f64::NAN, "NaN"),
            (-f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double(value), expected);
        }
    }

    /// INV-72: days that DATE does not have, and instants that TIMESTAMP does not have, have no text.
    #[test]
    fn values_outside_their_type_are_refused() {
        let date = |days| write_date(days, &mut Vec::new());
        assert_eq!(date(i32::MIN), Err(ValueProblem::DateOutOfRange));
        assert_eq!(date(i32::MIN + 2), Ok(()));
        let instant = |value, unit| write_timestamp(value, unit, &mut Vec::new());
        let refused = Err(ValueProblem::TimestampOutOfRange);
        assert_eq!(instant(i64::MIN, TimeUnit::Microsecond), refused);
        assert_eq!(instant(FIRST_MICROS - 1, TimeUnit::Microsecond), refused);
        assert_eq!(instant(FIRST_MICROS, TimeUnit::Microsecond), Ok(()));
        assert_eq!(instant(i64::MIN, TimeUnit::Nanosecond), refused);
        assert_eq!(instant(i64::MIN + 2, TimeUnit::Nanosecond), Ok(()));
        assert_eq!(instant(i64::MAX, TimeUnit::Millisecond), refused);
        assert_eq!(instant(i64::MAX, TimeUnit::Second), refused);
        assert_eq!(instant(i64::MIN, TimeUnit::Millisecond), refused);
    }

    /// INV-72: the ends of DATE and TIMESTAMP.
    #[test]
    fn ends_of_the_calendar() {
        let date = |days| text(|out| write_date(days, out).unwrap());
        assert_eq!(date(i32::MAX - 1), "\"5881580-07-10\"");
        assert_eq!(date(i32::MIN + 2), "\"5877642-06-25 (BC)\"");
        assert_eq!(date(-719_528), "\"0001-01-01 (BC)\"");
        assert_eq!(date(-719_529), "\"0002-12-31 (BC)\"");
        assert_eq!(date(-719_162), "\"0001-01-01\"");
        assert_eq!(date(11_016), "\"2000-02-29\"");
        let micros = |value| text(|out| write_timestamp(value, TimeUnit::Microsecond, out).unwrap());
        assert_eq!(micros(i64::MAX - 1), "\"294247-01-10 04:00:54.775806\"");
        assert_eq!(micros(FIRST_MICROS), "\"290309-12-22 (BC) 00:00:00\"");
        assert_eq!(micros(-i64::MAX), "\"-infinity\"");
        let nanos = |value| text(|out| write_timestamp(value, TimeUnit::Nanosecond, out).unwrap());
        assert_eq!(nanos(i64::MAX - 1), "\"2262-04-11 23:47:16.854775806\"");
        assert_eq!(nanos(-1), "\"1969-12-31 23:59:59.999999999\"");
        assert_eq!(nanos(1), "\"1970-01-01 00:00:00.000000001\"");
    }

    proptest! {
        /// The text reads back as the very value, whatever the notation.
        #[test]
        fn doubles_read_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            prop_assert_eq!(double(value).parse::<f64>().unwrap().to_bits(), bits);
        }

        /// The shortcut for narrow decimals equals the cast to a double that the engine makes.
        #[test]
        fn narrow_decimals_equal_their_double(unscaled in -999_999_999_999_999i64..=999_999_999_999_999, scale in 0u8..=15) {
            let cast = unscaled as f64 / 10f64.powi(i32::from(scale));
            prop_assert_eq!(text(|out| write_narrow_decimal(unscaled, scale, out)), double(cast));
        }

        #[test]
        fn wide_decimals_keep_every_digit(unscaled in any::<i128>(), scale in 0u8..=38) {
            let written = text(|out| write_wide_decimal(unscaled, scale, out));
            let fraction = written.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            prop_assert_eq!(fraction, usize::from(scale));
            prop_assert_eq!(written.replace('.', "").parse::<i128>().unwrap(), unscaled);
        }

        /// Strings are JSON strings of the same characters.
        #[test]
        fn strings_read_back(value in any::<String>()) {
            let written = text(|out| write_string(&value, out));
            prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), value);
        }

        /// The calendar agrees with another implementation.
        #[test]
        fn days_agree_with_chrono(days in -90_000_000i32..90_000_000) {
            use chrono::Datelike;
            let expected = chrono::NaiveDate::from_epoch_days(days).unwrap();
            prop_assert_eq!(
                civil_from_days(i64::from(days)),
                (i64::from(expected.year()), expected.month(), expected.day())
            );
        }
    }
}
