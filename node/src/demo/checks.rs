//! Claims of the story as pure functions over what the commands printed.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    cli::{Failure, hold},
    data::Origin,
};
use crate::{
    api::{HexdumpReport, ObjectState, ObjectSummary},
    config::format_bytes,
};

/// What stands at both ends of an encrypted Parquet file.
const MAGIC: &[u8] = b"PARE";

/// Averages of the same numbers in another order of addition agree this well.
const RELATIVE_ERROR: f64 = 1e-9;

/// A number with separators for people.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The beginning of an id.
pub(super) fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// BLAKE3 of some bytes as hex.
pub(super) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Cells of a CSV answer, without its header.
pub(super) fn cells(bytes: &[u8]) -> Result<Vec<Vec<String>>, Failure> {
    csv::Reader::from_reader(bytes)
        .records()
        .map(|record| record.map(|record| record.iter().map(str::to_owned).collect()))
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::claim(format!("an answer is not CSV: {error}")))
}

/// Compares `origin, count, avg` rows with our own calculation; gives one line of evidence an origin.
pub(super) fn compare_origins(
    expected: &BTreeMap<String, Origin>,
    rows: &[Vec<String>],
) -> Result<Vec<String>, Failure> {
    let told: Vec<&str> = rows.iter().filter_map(|row| row.first().map(String::as_str)).collect();
    hold(told.iter().copied().eq(expected.keys().map(String::as_str)), || {
        format!(
            "the query names the origins {told:?}, the file has {:?}",
            expected.keys()
        )
    })?;
    let mut evidence = Vec::new();
    for (row, (origin, ours)) in rows.iter().zip(expected) {
        let numbers = row
            .get(1)
            .and_then(|count| count.parse::<u64>().ok())
            .zip(row.get(2).and_then(|mean| mean.parse::<f64>().ok()));
        let Some((count, mean)) = numbers else {
            return Err(Failure::claim(format!("the row {row:?} is not origin, count, average")));
        };
        hold(count == ours.rows, || {
            format!("{origin}: the query counts {count} rows, the file has {}", ours.rows)
        })?;
        hold(
            (mean - ours.mean_temp).abs() <= RELATIVE_ERROR * ours.mean_temp.abs(),
            || format!("{origin}: the query's average is {mean}, the file's {}", ours.mean_temp),
        )?;
        evidence.push(format!(
            "{origin}: {} rows, average {mean:.6}, as calculated from the file itself",
            thousands(count)
        ));
    }
    Ok(evidence)
}

/// Whether a dump begins (or ends) with the magic of an encrypted Parquet file.
pub(super) fn is_magic(dump: &HexdumpReport) -> Result<(), Failure> {
    hold(dump.hex.eq_ignore_ascii_case(&hex::encode(MAGIC)), || {
        format!(
            "object {} has {} at byte {}, not PARE",
            short(&dump.storage_id),
            dump.hex,
            dump.offset
        )
    })
}

/// Ids of the objects whose bytes are here.
pub(super) fn ids_here(objects: &[ObjectSummary]) -> BTreeSet<String> {
    objects
        .iter()
        .filter(|object| matches!(object.state, ObjectState::Queryable | ObjectState::Held))
        .map(|object| object.storage_id.clone())
        .collect()
}

/// Which ids are still missing, as words; `None` when none is.
pub(super) fn missing(wanted: &BTreeSet<String>, objects: &[ObjectSummary]) -> Option<String> {
    let here = ids_here(objects);
    let missing: Vec<&String> = wanted.difference(&here).collect();
    let first = missing.first()?;
    let state = objects
        .iter()
        .find(|object| object.storage_id == ***first)
        .map_or("unknown", |object| object.state.word());
    Some(format!(
        "{} of {} objects, first of them {} ({state})",
        missing.len(),
        wanted.len(),
        short(first)
    ))
}

/// How one transfer went that signal 9 cut in two.
#[derive(Clone, Copy, Debug)]
pub(super) struct CutTransfer {
    /// Encrypted bytes of the whole table.
    pub(super) total: u64,
    /// Of them here at the last look before the kill.
    pub(super) before: u64,
    /// Fetched by the process that was started afterwards.
    pub(super) after: u64,
}

impl CutTransfer {
    /// Ranges that were open at the kill are fetched again; this bounds how many that may be.
    const SLACK_SHARE: u64 = 8;

    /// Both parts together are the whole, give or take what was open when the process died.
    pub(super) fn judge(&self) -> Result<Vec<String>, Failure> {
        let Self { total, before, after } = *self;
        let slack = total / Self::SLACK_SHARE;
        hold(after > 0, || "the restarted node says that it fetched nothing".into())?;
        hold(after < total && before + after <= total + slack, || {
            format!(
                "{} were here before the kill and {} were fetched afterwards, of {} in all: what was here was fetched again",
                format_bytes(before),
                format_bytes(after),
                format_bytes(total)
            )
        })?;
        hold(before + after + 2 * slack >= total, || {
            format!(
                "{} before the kill and {} afterwards do not make {}: the counters cannot be right",
                format_bytes(before),
                format_bytes(after),
                format_bytes(total)
            )
        })?;
        Ok(vec![
            format!(
                "fetched after the restart: {} bytes, of {} in all",
                thousands(after),
                thousands(total)
            ),
            match (before + after).checked_sub(total) {
                Some(twice) => format!(
                    "together with what was here: {} bytes of open ranges came twice",
                    thousands(twice)
                ),
                None => "together with what was here: no byte came twice".to_owned(),
            },
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins() -> BTreeMap<String, Origin> {
        BTreeMap::from([(
            "EWR".to_owned(),
            Origin {
                rows: 3,
                mean_temp: 1.5,
            },
        )])
    }

    fn rows(text: &str) -> Vec<Vec<String>> {
        cells(format!("a,b,c\n{text}\n").as_bytes()).unwrap()
    }

    #[test]
    fn an_average_must_be_ours() {
        assert!(compare_origins(&origins(), &rows("EWR,3,1.5000000000001")).is_ok());
        for bad in [
            "EWR,3,1.50001",
            "EWR,4,1.5",
            "JFK,3,1.5",
            "EWR,3,",
            "EWR,3,1.5\nJFK,1,1",
        ] {
            assert!(compare_origins(&origins(), &rows(bad)).is_err(), "{bad}");
        }
        assert!(compare_origins(&origins(), &[]).is_err());
    }

    /// DESIGN §16.10: resume after kill -9 fetches the open ranges only.
    #[test]
    fn a_transfer_that_starts_over_does_not_count_as_resumed() {
        let cut = |before, after| {
            CutTransfer {
                total: 800,
                before,
                after,
            }
            .judge()
        };
        assert!(cut(400, 400).is_ok());
        assert!(cut(400, 450).is_ok());
        assert!(cut(400, 390).is_ok());
        assert!(cut(400, 800).is_err());
        assert!(cut(400, 600).is_err());
        assert!(cut(400, 0).is_err());
        assert!(cut(400, 10).is_err());
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(
            ["0", "999", "1,000", "26,115", "1,234,567"],
            [0, 999, 1_000, 26_115, 1_234_567]
                .map(thousands)
                .each_ref()
                .map(String::as_str)
        );
    }

    #[test]
    fn magic_is_the_encrypted_one() {
        let dump = |hex: &str| HexdumpReport {
            storage_id: String::new(),
            offset: 0,
            size_bytes: 4,
            hex: hex.into(),
        };
        assert!(is_magic(&dump("50415245")).is_ok());
        assert!(is_magic(&dump("50415231")).is_err());
    }
}
