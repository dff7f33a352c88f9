//! What the tests of this module share: a product, Parquet files, a catalogue.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema},
};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;

use crate::doc::{EditionId, Instant, ProductId};

pub(crate) fn product() -> ProductId {
    "population".parse().unwrap()
}

/// The instant the tests' clock stands at, plus some seconds.
pub(crate) fn at(seconds: i64) -> Instant {
    Instant::from_unix_millis(1_790_000_000_000 + seconds * 1000)
}

pub(crate) fn edition_id(number: u8) -> EditionId {
    EditionId::at(at(i64::from(number)), [number; 10])
}

/// A Parquet file with one row for each number.
pub(crate) fn numbers(range: std::ops::Range<i64>) -> Bytes {
    table(&range.map(|number| (format!("D1_{:02}", number % 5), number)).collect::<Vec<_>>())
}

pub(crate) fn table(rows: &[(String, i64)]) -> Bytes {
    let schema = Arc::new(Schema::new(vec![
        Field::new("area", DataType::Utf8, false),
        Field::new("value", DataType::Int64, false),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|(area, _)| Some(area.as_str())).collect::<StringArray>()),
        Arc::new(rows.iter().map(|(_, value)| *value).collect::<Int64Array>()),
    ];
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes.into()
}
