//! Objects that DuckDB 2.0.1 wrote open in our reader (SOP-375): no key_ref, no crypto marker, no padding, several pages.

use std::path::Path;

use arrow::{
    array::AsArray as _,
    datatypes::{Int32Type, Int64Type},
};

use super::*;

const KEY: &[u8; 32] = b"0123456789abcdef0123456789abcdef";

fn load(name: &str) -> (Vec<u8>, Footer) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/duckdb_objects")
        .join(name);
    let bytes = std::fs::read(&path).unwrap();
    let footer = ready(Footer::open(
        &object(&bytes),
        id_of(&bytes),
        &Dek::from_bytes(*KEY),
        OpenOptions::default(),
    ))
    .unwrap();
    (bytes, footer)
}

#[test]
fn every_type_reads() {
    let (bytes, footer) = load("types_snappy.parquet");
    let rows = read_all(&bytes, &footer).unwrap();
    assert_eq!(rows.num_rows(), 3_000);
    assert_eq!(footer.row_groups(), 2);
    let ids = rows.column_by_name("id").unwrap();
    let ids: Vec<i64> = match ids.data_type() {
        DataType::Int32 => ids
            .as_primitive::<Int32Type>()
            .values()
            .iter()
            .map(|&id| i64::from(id))
            .collect(),
        _ => ids.as_primitive::<Int64Type>().values().to_vec(),
    };
    assert_eq!(ids, (0..3_000).collect::<Vec<i64>>());
    let types: Vec<&DataType> = footer.schema().fields().iter().map(|field| field.data_type()).collect();
    assert!(
        types
            .iter()
            .any(|data_type| matches!(data_type, DataType::Decimal128(38, 10))),
        "{types:?}"
    );
    assert!(
        types
            .iter()
            .any(|data_type| matches!(data_type, DataType::List(item) if item.data_type().is_nested()))
    );
}

#[test]
fn several_row_groups_read_and_project() {
    let (bytes, footer) = load("weather_zstd.parquet");
    assert_eq!(footer.row_groups(), 4);
    let rows = read_all(&bytes, &footer).unwrap();
    assert_eq!(rows.num_rows(), 26_115);
    for (leaf, name) in rows
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .enumerate()
    {
        let one = read_projected(&bytes, &footer, &[leaf].into_iter().collect()).unwrap();
        assert_eq!(one.column(0), rows.column_by_name(&name).unwrap());
    }
}

#[test]
fn no_rows_and_all_nulls_read() {
    let (bytes, footer) = load("types_empty.parquet");
    assert_eq!(read_all(&bytes, &footer).unwrap().num_rows(), 0);
    assert_eq!(footer.columns().len(), load("types_snappy.parquet").1.columns().len());
    let (bytes, footer) = load("all_null.parquet");
    let rows = read_all(&bytes, &footer).unwrap();
    assert_eq!((rows.num_rows(), rows.column(1).null_count()), (10, 10));
}

/// SOP-44, SOP-74, SOP-371: what DuckDB leaves out is a finding, never a reason not to read.
#[test]
fn what_is_missing_is_found() {
    let (_, footer) = load("weather_zstd.parquet");
    let findings = footer.audit(&Claims::default());
    for expected in [Finding::NoPadEntry, Finding::NoKeyRef, Finding::NoCryptoMarker] {
        assert!(findings.contains(&expected), "{expected:?}");
    }
    assert!(findings.iter().any(|finding| matches!(finding, Finding::NoFieldId(_))));
}

/// SOP-370: DuckDB's totals and ours follow one convention.
#[test]
fn totals_follow_duckdb() {
    let ours = write(&sample(500), EncodeOptions::default());
    let ours = (ours.bytes.to_vec(), open(&ours.bytes).unwrap());
    for (bytes, footer) in [ours, load("types_snappy.parquet"), load("weather_zstd.parquet")] {
        let whole = object(&bytes);
        for group in footer.metadata().row_groups() {
            let mut total = 0;
            for column in group.columns() {
                let (start, len) = column.byte_range();
                let pages = footer.pages(whole.whole().part(start..start + len).unwrap()).unwrap();
                let plain: u64 = pages.iter().map(|page| u64::from(page.compressed_len)).sum();
                // Headers differ in length; what is left after pages and frames is theirs.
                let headers = len - plain - 64 * pages.len() as u64;
                let uncompressed: u64 = pages.iter().map(|page| u64::from(page.uncompressed_len)).sum();
                assert_eq!(
                    column.uncompressed_size() as u64,
                    uncompressed + headers + 32 * pages.len() as u64
                );
                total += len as i64;
            }
            assert_eq!(group.compressed_size(), total);
        }
    }
}
