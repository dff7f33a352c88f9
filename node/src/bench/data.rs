//! Rows to measure with: a table like the flights out of New York, of any length, the same ones every time.
//!
//! 19 columns in the order of time: whole numbers of few and of many values, delays as floats that may be missing, codes of
//! a few letters, an instant. How often a value comes up follows the real table, since that is what encodings live on.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
    error::ArrowError,
};

/// Rows of a batch.
pub(super) const BATCH_ROWS: usize = 65_536;
/// Rows of an hour: about as many flights left in one.
const HOUR_ROWS: u64 = 46;
const HOUR_US: i64 = 3_600_000_000;
/// 2013-01-01T05:00:00Z.
const FIRST_HOUR_US: i64 = 1_357_016_400_000_000;

const CARRIERS: [(&str, u64); 16] = [
    ("UA", 174),
    ("B6", 162),
    ("EV", 161),
    ("DL", 143),
    ("AA", 97),
    ("MQ", 78),
    ("US", 61),
    ("9E", 55),
    ("WN", 36),
    ("VX", 15),
    ("FL", 10),
    ("AS", 2),
    ("F9", 2),
    ("YV", 2),
    ("HA", 1),
    ("OO", 1),
];
const ORIGINS: [&str; 3] = ["EWR", "JFK", "LGA"];
const DESTINATIONS: u64 = 105;
const PLANES_OF_A_CARRIER: u64 = 250;
/// Minutes most flights are due at.
const ROUND_MINUTES: [i64; 6] = [0, 0, 30, 45, 15, 55];

pub(super) fn schema() -> SchemaRef {
    let instant = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let fields = [
        ("year", DataType::Int64),
        ("month", DataType::Int64),
        ("day", DataType::Int64),
        ("dep_time", DataType::Int64),
        ("sched_dep_time", DataType::Int64),
        ("dep_delay", DataType::Float64),
        ("arr_time", DataType::Int64),
        ("sched_arr_time", DataType::Int64),
        ("arr_delay", DataType::Float64),
        ("carrier", DataType::Utf8),
        ("flight", DataType::Int64),
        ("tailnum", DataType::Utf8),
        ("origin", DataType::Utf8),
        ("dest", DataType::Utf8),
        ("air_time", DataType::Float64),
        ("distance", DataType::Int64),
        ("hour", DataType::Int64),
        ("minute", DataType::Int64),
        ("time_hour", instant),
    ];
    Arc::new(Schema::new(
        fields
            .map(|(name, data_type)| Field::new(name, data_type, true))
            .to_vec(),
    ))
}

/// The statement that reads every value of every column of `table`.
pub(super) fn full_scan(table: &str) -> String {
    let columns: Vec<String> = schema()
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            DataType::Int64 | DataType::Float64 => format!("sum({})", field.name()),
            _ => format!("max({})", field.name()),
        })
        .collect();
    format!("select {} from {table}", columns.join(", "))
}

/// The statement that reads one column of the middle hundredth of `rows` rows.
pub(super) fn selective_scan(table: &str, rows: u64) -> String {
    let hours = rows.div_ceil(HOUR_ROWS);
    let wanted = (hours / 100).max(1);
    let first = hours / 2;
    let literal = |hour: u64| format!("to_timestamp_micros({})", hour_us(hour));
    format!(
        "select count(time_hour), max(time_hour) from {table} where time_hour >= {} and time_hour < {}",
        literal(first),
        literal(first + wanted)
    )
}

/// The same in DuckDB's words.
pub(super) fn selective_scan_duckdb(table: &str, rows: u64) -> String {
    selective_scan(table, rows).replace("to_timestamp_micros(", "make_timestamptz(")
}

/// The statement for the rows of one hour.
pub(super) fn hour(table: &str, hour: u64) -> String {
    format!(
        "select count(time_hour), sum(distance) from {table} where time_hour = to_timestamp_micros({})",
        hour_us(hour)
    )
}

fn hour_us(hour: u64) -> i64 {
    FIRST_HOUR_US + hour as i64 * HOUR_US
}

/// Batches of `rows` rows.
pub(super) fn batches(rows: u64) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> {
    (0..rows)
        .step_by(BATCH_ROWS)
        .map(move |start| batch(start, (rows - start).min(BATCH_ROWS as u64)))
}

/// Rows `start` to `start + rows`.
pub(super) fn batch(start: u64, rows: u64) -> Result<RecordBatch, ArrowError> {
    let flights: Vec<Flight> = (start..start + rows).map(Flight::number).collect();
    let whole =
        |value: fn(&Flight) -> Option<i64>| -> ArrayRef { Arc::new(flights.iter().map(value).collect::<Int64Array>()) };
    let float = |value: fn(&Flight) -> Option<i64>| -> ArrayRef {
        let floats = flights.iter().map(|flight| value(flight).map(|value| value as f64));
        Arc::new(floats.collect::<Float64Array>())
    };
    let text = |value: fn(&Flight) -> Option<String>| -> ArrayRef {
        Arc::new(flights.iter().map(value).collect::<StringArray>())
    };
    let instants = TimestampMicrosecondArray::from_iter_values(flights.iter().map(|flight| hour_us(flight.hour)));
    RecordBatch::try_new(
        schema(),
        vec![
            whole(|flight| Some(flight.date().0)),
            whole(|flight| Some(flight.date().1)),
            whole(|flight| Some(flight.date().2)),
            whole(|flight| flight.flown.then(|| clock(flight.due + flight.late))),
            whole(|flight| Some(clock(flight.due))),
            float(|flight| flight.flown.then_some(flight.late)),
            whole(|flight| {
                flight
                    .flown
                    .then(|| clock(flight.due + flight.planned + flight.late + flight.gained))
            }),
            whole(|flight| Some(clock(flight.due + flight.planned))),
            float(|flight| flight.flown.then_some(flight.late + flight.gained)),
            text(|flight| Some(CARRIERS[flight.carrier].0.to_owned())),
            whole(|flight| Some(flight.flight)),
            text(|flight| {
                flight
                    .plane
                    .map(|plane| format!("N{}{}", 100 + plane, CARRIERS[flight.carrier].0))
            }),
            text(|flight| Some(ORIGINS[flight.origin].to_owned())),
            text(|flight| Some(destination(flight.dest))),
            float(|flight| flight.flown.then_some(flight.planned - 30 + flight.gained / 2)),
            whole(|flight| Some(flight.distance())),
            whole(|flight| Some(flight.due / 60 % 24)),
            whole(|flight| Some(flight.due % 60)),
            Arc::new(instants.with_timezone("UTC")),
        ],
    )
}

/// One row before it is spread over its columns. Times are minutes.
struct Flight {
    hour: u64,
    due: i64,
    late: i64,
    gained: i64,
    planned: i64,
    flown: bool,
    carrier: usize,
    flight: i64,
    plane: Option<u64>,
    origin: usize,
    dest: u64,
}

impl Flight {
    fn number(row: u64) -> Self {
        let mut dice = Dice(row.wrapping_mul(0xd134_2543_de82_ef95));
        let hour = row / HOUR_ROWS;
        let minute = if dice.below(3) == 0 {
            dice.below(60) as i64
        } else {
            ROUND_MINUTES[dice.below(6) as usize]
        };
        let mut weight = dice.below(1_000);
        let carrier = CARRIERS
            .iter()
            .position(|(_, share)| {
                let found = weight < *share;
                weight = weight.saturating_sub(*share);
                found
            })
            .unwrap_or(0);
        let origin = dice.below(3) as usize;
        // A few places are much more common than the others.
        let dest = dice.below(DESTINATIONS).min(dice.below(DESTINATIONS));
        let late = match dice.below(10) {
            0..=6 => dice.below(18) as i64 - 12,
            7 | 8 => dice.below(60) as i64,
            _ => (dice.below(20) * dice.below(20)) as i64,
        };
        let planned = 60 + distance(origin, dest) / 8 + dice.below(12) as i64;
        Self {
            hour,
            due: (5 + hour % 19) as i64 * 60 + minute,
            late,
            gained: dice.below(40) as i64 - 25,
            planned,
            flown: dice.below(1_000) >= 25,
            carrier,
            flight: 1 + (dice.below(60) * dice.below(64)) as i64,
            plane: (dice.below(1_000) >= 8).then(|| dice.below(PLANES_OF_A_CARRIER)),
            origin,
            dest,
        }
    }

    const fn distance(&self) -> i64 {
        distance(self.origin, self.dest)
    }

    /// Year, month, day: months of 30 days, which is near enough.
    const fn date(&self) -> (i64, i64, i64) {
        let day = (self.hour / 19) as i64;
        (2013 + day / 360, 1 + day % 360 / 30, 1 + day % 30)
    }
}

const fn distance(origin: usize, dest: u64) -> i64 {
    let place = (origin as u64 * DESTINATIONS + dest) * 2_654_435_761 % 2_400;
    80 + place as i64
}

fn destination(dest: u64) -> String {
    let letter = |value: u64| char::from(b'A' + (value % 26) as u8);
    [letter(dest / 26 + 3), letter(dest * 7), letter(dest)].iter().collect()
}

/// Minutes as the table writes clock times: 517 is 5:17.
const fn clock(minutes: i64) -> i64 {
    let day = minutes.rem_euclid(24 * 60);
    day / 60 * 100 + day % 60
}

/// Numbers that look drawn and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array as _, AsArray as _, types::Int64Type};

    use super::*;

    #[test]
    fn rows_are_the_same_however_they_are_cut() {
        let whole = batch(0, 3_000).unwrap();
        assert_eq!(whole.num_columns(), 19);
        assert_eq!(whole.slice(1_000, 500), batch(1_000, 500).unwrap());
        assert_eq!(
            batches(150_000).map(|batch| batch.unwrap().num_rows()).sum::<usize>(),
            150_000
        );
    }

    #[test]
    fn values_are_like_those_of_the_real_table() {
        let rows = batch(0, 50_000).unwrap();
        let missing = rows.column_by_name("arr_delay").unwrap().null_count();
        assert!((500..2_500).contains(&missing), "{missing}");
        let distances = rows.column_by_name("distance").unwrap().as_primitive::<Int64Type>();
        let distinct: std::collections::BTreeSet<i64> = distances.values().iter().copied().collect();
        assert!((150..=315).contains(&distinct.len()), "{}", distinct.len());
        let time = rows.column_by_name("time_hour").unwrap();
        assert!(time.to_data().buffers()[0].typed_data::<i64>().is_sorted());
    }
}
