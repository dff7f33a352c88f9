//! Sizes and durations as people write them: `512MiB`, `2GB`, `24h`, `15m`.

use std::time::Duration;

const SIZES: [(&str, u64); 9] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
];

/// Reads a size; a number alone means bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let (number, unit) = SIZES
        .iter()
        .find_map(|(suffix, unit)| Some((lower.strip_suffix(suffix)?.trim_end(), *unit)))
        .unwrap_or((lower.as_str(), 1));
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| format!("`{text}` is not a size; write for example 512MiB or 2GB"))
}

/// Reads a duration of whole seconds, minutes, hours or days; the unit is required.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let lower = text.trim().to_ascii_lowercase();
    [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)]
        .iter()
        .find_map(|(suffix, unit)| {
            lower
                .strip_suffix(suffix)?
                .trim_end()
                .parse::<u64>()
                .ok()?
                .checked_mul(*unit)
        })
        .map(Duration::from_secs)
        .ok_or_else(|| format!("`{text}` is not a duration; write for example 15m, 24h or 7d"))
}

/// A size for people.
pub fn format_bytes(bytes: u64) -> String {
    match bytes {
        0..=1023 => format!("{bytes} B"),
        1024..=1_048_575 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..=1_073_741_823 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// A duration for people, in its largest sensible unit.
pub fn format_duration_ms(millis: u64) -> String {
    match millis {
        0..=999 => format!("{millis} ms"),
        1_000..=119_999 => format!("{:.1} s", millis as f64 / 1_000.0),
        120_000..=7_199_999 => format!("{} minutes", millis / 60_000),
        7_200_000..=172_799_999 => format!("{} hours", millis / 3_600_000),
        _ => format!("{} days", millis / 86_400_000),
    }
}

/// Serde form of an optional size: the text people write, or a number of bytes.
pub(super) mod size {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Raw {
        Bytes(u64),
        Text(String),
    }

    pub(crate) fn serialize<S: Serializer>(value: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(bytes) => serializer.serialize_u64(*bytes),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        match Option::<Raw>::deserialize(deserializer)? {
            None => Ok(None),
            Some(Raw::Bytes(bytes)) => Ok(Some(bytes)),
            Some(Raw::Text(text)) => super::parse_size(&text).map(Some).map_err(D::Error::custom),
        }
    }
}

/// Serde form of an optional period in milliseconds: a duration as people write it, from a minute to seven days.
pub(super) mod period {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    const SHORTEST: Duration = Duration::from_secs(60);
    const LONGEST: Duration = Duration::from_secs(7 * 86_400);

    pub(crate) fn serialize<S: Serializer>(value: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(millis) => serializer.serialize_str(&format!("{}s", millis / 1_000)),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else {
            return Ok(None);
        };
        let period = super::parse_duration(&text).map_err(D::Error::custom)?;
        if !(SHORTEST..=LONGEST).contains(&period) {
            return Err(D::Error::custom(format!("`{text}` is no period between 1m and 7d")));
        }
        Ok(Some(period.as_millis() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("17b", 17),
            ("1KiB", 1024),
            ("2 mb", 2_000_000),
            ("1GiB", 1 << 30),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "x", "1.5MB", "-1", "99999999999TiB", "MB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations() {
        for (text, secs) in [("30s", 30), ("15m", 900), ("24h", 86_400), ("7d", 604_800)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(secs)), "{text}");
        }
        for bad in ["", "15", "h", "-1h", "1.5h", "99999999999999999d"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn figures_for_people() {
        assert_eq!(format_bytes(999), "999 B");
        assert_eq!(format_bytes(1 << 20), "1.0 MiB");
        assert_eq!(format_duration_ms(250), "250 ms");
        assert_eq!(format_duration_ms(3 * 86_400_000), "3 days");
    }
}
