//! The vectors: `fingerprint_vectors.json` says what DuckDB wrote for each row, `parquet/` holds the same rows.
//!
//! Nothing is regenerated here: a vector that is missing fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    num::NonZeroUsize,
    path::PathBuf,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use serde::Deserialize;
use sovm_inventory::fingerprint::{
    CanonicalForm, Fingerprint, Refused, Table, TableFingerprint, Why, check_schema, fingerprint_batches,
    fingerprint_parquet, fingerprint_parquet_parallel,
    parquet_table::ParquetTableError,
    row_text::{RowTextError, RowTexts},
    schema::TextSchema,
    table::{TableError, row_value},
};

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
    definition: Definition,
}

#[derive(Deserialize)]
struct Definition {
    sql: String,
}

#[derive(Deserialize)]
pub(crate) struct Case {
    name: String,
    columns: Vec<Column>,
    row_text: Vec<String>,
    row_value: Vec<String>,
    fingerprint: String,
    parquet_file: Option<String>,
    parquet_equal: Option<bool>,
    parquet_fingerprint: Option<String>,
    parquet_row_text: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
}

/// The refused vectors: the column at fault and why.
const REFUSED: [(&str, &str, Why); 14] = [
    ("blob", "v", Why::UnstableType),
    ("blob_all_bytes", "v", Why::UnstableType),
    ("column_named_T", "T", Why::HidesTheRow),
    ("column_named_t", "t", Why::HidesTheRow),
    ("decimal_18_18", "v", Why::DecimalWithoutIntegerDigits),
    ("json", "v", Why::Json),
    ("json_numbers", "v", Why::Json),
    ("map", "v", Why::UnstableType),
    ("map_intkey", "v", Why::UnstableType),
    ("time", "v", Why::UnstableType),
    ("timestamptz_utc", "v", Why::ZonedTimestamp),
    ("timetz", "v", Why::UnstableType),
    ("uuid", "v", Why::UnstableType),
    // Has no Parquet file: the engine writes none of an INTERVAL column.
    ("interval", "v", Why::UnstableType),
];

/// Refused types that Parquet turns into accepted ones: the file is another table, with another fingerprint.
const CHANGED_BY_PARQUET: [&str; 3] = ["hugeint", "uhugeint", "union"];

impl Case {
    pub(crate) fn has_file(&self) -> bool {
        self.parquet_file.is_some()
    }
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fingerprints")
}

fn vectors() -> Vectors {
    let text = fs::read_to_string(directory().join("fingerprint_vectors.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The SQL that defines the fingerprint, with `<table>` where the table goes.
pub(crate) fn definition() -> String {
    vectors().definition.sql
}

pub(crate) fn cases() -> BTreeMap<String, Case> {
    let cases: BTreeMap<String, Case> = vectors()
        .cases
        .into_iter()
        .map(|case| (case.name.clone(), case))
        .collect();
    assert_eq!(cases.len(), 54, "the vectors as they were handed over");
    cases
}

/// The vectors of tables that may be published.
pub(crate) fn accepted() -> BTreeMap<String, Case> {
    let refused: BTreeSet<&str> = REFUSED.iter().map(|(name, ..)| *name).collect();
    let mut cases = cases();
    cases.retain(|name, _| !refused.contains(name.as_str()) && !CHANGED_BY_PARQUET.contains(&name.as_str()));
    cases
}

pub(crate) fn parquet(case: &Case) -> Bytes {
    let file = case
        .parquet_file
        .as_ref()
        .expect("only the interval vector has no file");
    fs::read(directory().join("parquet").join(file)).unwrap().into()
}

pub(crate) fn batches(bytes: Bytes, rows: usize) -> (SchemaRef, Vec<RecordBatch>) {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options).unwrap();
    let schema = builder.schema().clone();
    let batches = builder.with_batch_size(rows).build().unwrap();
    (schema, batches.map(Result::unwrap).collect())
}

fn one() -> CanonicalForm {
    CanonicalForm::ONE
}

fn assert_equal(name: &str, found: &Fingerprint<Table>, expected: &str) {
    let expected = Fingerprint::parse(one(), expected).unwrap();
    assert!(
        found.same_as(&expected).unwrap(),
        "{name}: {found} instead of {expected}"
    );
}

fn two() -> NonZeroUsize {
    NonZeroUsize::new(2).unwrap()
}

/// INV-71, INV-72, INV-73: every vector of an accepted table, from its Parquet file: text and value of each row, and the
/// sum, however the file is read. A change to the text fails here, and would need a new canonical form.
#[test]
fn every_accepted_vector_gives_the_texts_values_and_sums_of_the_engine() {
    let accepted = accepted();
    assert_eq!(accepted.len(), 54 - REFUSED.len() - CHANGED_BY_PARQUET.len());
    for (name, case) in accepted {
        assert_eq!(case.parquet_equal, Some(true), "{name}");
        assert_eq!(case.parquet_fingerprint.as_ref(), Some(&case.fingerprint), "{name}");
        assert_eq!(case.row_text.len(), case.row_value.len(), "{name}");

        let (schema, batches) = batches(parquet(&case), 3);
        check_schema(&schema).unwrap();
        let text_schema = TextSchema::of(&schema).unwrap();
        let mut buffer = Vec::new();
        let mut texts = Vec::new();
        let mut values = Vec::new();
        for batch in &batches {
            let rows = RowTexts::new(&text_schema, batch).unwrap();
            for row in 0..rows.rows() {
                rows.write(row, &mut buffer).unwrap();
                texts.push(String::from_utf8(buffer.clone()).unwrap());
                values.push(row_value(&buffer).to_string());
            }
        }
        assert_eq!(texts, case.row_text, "{name}");
        assert_eq!(values, case.row_value, "{name}");

        let whole = fingerprint_parquet(one(), parquet(&case)).unwrap();
        assert_equal(&name, &whole, &case.fingerprint);
        assert_eq!(whole.to_string(), case.fingerprint, "{name}");
        let shared = fingerprint_parquet_parallel(one(), &parquet(&case), two()).unwrap();
        assert_equal(&name, &shared, &case.fingerprint);
        assert_equal(
            &name,
            &fingerprint_batches(one(), &schema, &batches, two()).unwrap(),
            &case.fingerprint,
        );
    }
}

pub(crate) fn column_refusal(error: ParquetTableError) -> Refused {
    match error {
        ParquetTableError::Table(TableError::RowText(RowTextError::Refused(refused))) => refused,
        other => panic!("{other}"),
    }
}

/// INV-72, GAP-10: every vector of a refused table is refused, and the refusal names the column.
#[test]
fn every_refused_vector_is_refused_naming_its_column() {
    let cases = cases();
    for (name, column, why) in REFUSED {
        let case = &cases[name];
        assert!(case.columns.iter().any(|known| known.name == column), "{name}");
        if case.parquet_file.is_none() {
            continue;
        }
        let refused = column_refusal(fingerprint_parquet(one(), parquet(case)).expect_err(name));
        assert_eq!((refused.column(), refused.why()), (Some(column), Some(why)), "{name}");
        let message = refused.to_string();
        assert!(
            message.contains(&format!("\"{column}\"")) && message.contains("GAP-10"),
            "{message}"
        );
        let refused = column_refusal(fingerprint_parquet_parallel(one(), &parquet(case), two()).expect_err(name));
        assert_eq!(refused.column(), Some(column), "{name}");
    }
}

/// INV-72, GAP-10: HUGEINT and UNION come back from Parquet as other types. The file then is what it says it is, with the
/// fingerprint the engine gives to the file, and that is not the one of the table it was written from.
#[test]
fn types_that_parquet_changes_have_another_fingerprint_after_it() {
    let cases = cases();
    for name in CHANGED_BY_PARQUET {
        let case = &cases[name];
        assert_eq!(case.parquet_equal, Some(false));
        let (schema, batches) = batches(parquet(case), 100);
        let text_schema = TextSchema::of(&schema).unwrap();
        let rows = RowTexts::new(&text_schema, &batches[0]).unwrap();
        let expected = case.parquet_row_text.as_ref().unwrap();
        let mut buffer = Vec::new();
        for (row, expected) in expected.iter().enumerate() {
            rows.write(row, &mut buffer).unwrap();
            assert_eq!(std::str::from_utf8(&buffer).unwrap(), expected, "{name}");
        }
        let found = fingerprint_parquet(one(), parquet(case)).unwrap();
        assert_equal(name, &found, case.parquet_fingerprint.as_ref().unwrap());
        let before = Fingerprint::parse(one(), &case.fingerprint).unwrap();
        assert!(!found.same_as(&before).unwrap(), "{name}");
    }
}

/// INV-74: a table without rows.
#[test]
fn an_empty_table_is_zero_of_zero_rows() {
    let found = fingerprint_parquet(one(), parquet(&cases()["empty_table"])).unwrap();
    assert_eq!(found.to_string(), "0:0");
    assert_eq!(found.rows(), 0);
}

/// INV-75: row order does not change it, swapped values do, and a duplicate row counts twice.
#[test]
fn order_is_free_but_values_and_multiplicity_are_not() {
    let cases = cases();
    let of = |name: &str| fingerprint_parquet(one(), parquet(&cases[name])).unwrap();
    assert!(of("row_order_1").same_as(&of("row_order_2")).unwrap());
    assert!(!of("row_order_1").same_as(&of("swapped_values")).unwrap());

    let (schema, rows) = batches(parquet(&cases["duplicate_rows"]), 1);
    let single = fingerprint_batches(one(), &schema, &rows[..1], two()).unwrap();
    let double = of("duplicate_rows");
    let sum = |found: &Fingerprint<Table>| found.to_string().split_once(':').unwrap().0.parse::<u128>().unwrap();
    assert_eq!((sum(&double), double.rows()), (2 * sum(&single), 2));
}

/// INV-75: parts of a table that were added up apart are put together in any order.
#[test]
fn parts_merge_in_any_order() {
    let case = &cases()["double_finite"];
    let (schema, batches) = batches(parquet(case), 7);
    let part = |batches: &[RecordBatch]| {
        let mut part = TableFingerprint::new(one(), &schema).unwrap();
        batches.iter().for_each(|batch| part.update(batch).unwrap());
        part
    };
    let (front, back) = batches.split_at(2);
    for (mut first, second) in [(part(front), part(back)), (part(back), part(front))] {
        first.merge(&second).unwrap();
        assert_equal("double_finite", &first.finish(), &case.fingerprint);
    }
}
