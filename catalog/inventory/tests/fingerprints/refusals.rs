//! What is no table with a fingerprint.

use std::{num::NonZeroUsize, sync::Arc};

use arrow::{
    array::{ArrayRef, Date32Array, Decimal64Array, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray},
    datatypes::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit, UnionFields, UnionMode},
};
use bytes::Bytes;
use proptest::prelude::*;
use sovm_inventory::fingerprint::{
    CanonicalForm, Refused, TableFingerprint, Why, check_schema, fingerprint_batches, fingerprint_parquet,
    row_text::{RowTextError, ValueProblem},
    table::TableError,
};

use crate::vectors::{cases, parquet};

fn schema(fields: impl IntoIterator<Item = (&'static str, DataType)>) -> Schema {
    let fields = fields
        .into_iter()
        .map(|(name, data_type)| Field::new(name, data_type, true));
    Schema::new(fields.collect::<Vec<_>>())
}

fn structure(fields: impl IntoIterator<Item = (&'static str, DataType)>) -> DataType {
    DataType::Struct(schema(fields).fields)
}

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("element", item, true)))
}

/// INV-72, GAP-10: every type outside the allowed ones is refused, at the top and inside lists and structs, naming the
/// column at the top.
#[test]
fn types_without_a_stable_text_are_refused_at_any_depth() {
    let map_entries = structure([("key", DataType::Utf8), ("value", DataType::Int32)]);
    let union = UnionFields::try_new([0], [Field::new("n", DataType::Int32, true)]).unwrap();
    for (bad, why) in [
        (DataType::Null, Why::UnstableType),
        (DataType::Float16, Why::UnstableType),
        (DataType::Binary, Why::UnstableType),
        (DataType::LargeBinary, Why::UnstableType),
        (DataType::BinaryView, Why::UnstableType),
        (DataType::FixedSizeBinary(16), Why::UnstableType),
        (DataType::Date64, Why::UnstableType),
        (DataType::Time32(TimeUnit::Millisecond), Why::UnstableType),
        (DataType::Time64(TimeUnit::Microsecond), Why::UnstableType),
        (DataType::Duration(TimeUnit::Microsecond), Why::UnstableType),
        (DataType::Interval(IntervalUnit::MonthDayNano), Why::UnstableType),
        (DataType::Union(union, UnionMode::Sparse), Why::UnstableType),
        (
            DataType::Map(Arc::new(Field::new("entries", map_entries, false)), false),
            Why::UnstableType,
        ),
        (
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Int64)),
            Why::UnstableType,
        ),
        (DataType::Struct(Fields::empty()), Why::UnstableType),
        (DataType::Timestamp(TimeUnit::Second, None), Why::SecondTimestamp),
        (
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Why::ZonedTimestamp,
        ),
        (
            DataType::Timestamp(TimeUnit::Microsecond, Some("America/Toronto".into())),
            Why::ZonedTimestamp,
        ),
        (DataType::Decimal128(16, 16), Why::DecimalWithoutIntegerDigits),
        (DataType::Decimal128(38, 38), Why::DecimalWithoutIntegerDigits),
        (DataType::Decimal64(18, 18), Why::DecimalWithoutIntegerDigits),
        (DataType::Decimal128(39, 0), Why::DecimalShape),
        (DataType::Decimal128(0, 0), Why::DecimalShape),
        (DataType::Decimal32(5, -2), Why::DecimalShape),
        (DataType::Decimal32(5, 6), Why::DecimalShape),
        (DataType::Decimal256(20, 2), Why::DecimalShape),
    ] {
        for data_type in [
            bad.clone(),
            list(bad.clone()),
            structure([("fine", DataType::Int8), ("inner", bad.clone())]),
            list(structure([("inner", list(bad.clone()))])),
        ] {
            let schema = schema([("fine", DataType::Utf8), ("culprit", data_type.clone())]);
            let refused = check_schema(&schema).expect_err(&data_type.to_string());
            assert_eq!(refused.column(), Some("culprit"), "{data_type}");
            assert_eq!(refused.why(), Some(why), "{data_type}");
            assert!(refused.to_string().contains("\"culprit\""), "{refused}");
            let refused = TableFingerprint::new(CanonicalForm::ONE, &schema).err();
            assert!(refused.is_some(), "{data_type}");
        }
    }
}

/// INV-72: the widest decimals on the accepted side of each limit.
#[test]
fn decimals_with_integer_digits_or_few_digits_are_accepted() {
    for (width, scale) in [(15, 15), (16, 15), (38, 37), (38, 0), (1, 1), (1, 0)] {
        check_schema(&schema([("d", DataType::Decimal128(width, scale))])).unwrap();
    }
}

/// INV-72: names that an engine would change, or that hide the row, are refused.
#[test]
fn names_that_change_the_row_are_refused() {
    let number = || DataType::Int32;
    for (fields, column, why) in [
        (vec![("a", number()), ("t", number())], "t", Why::HidesTheRow),
        (vec![("T", number())], "T", Why::HidesTheRow),
        (vec![("a", number()), ("", number())], "", Why::EmptyName),
        (vec![("geo", number()), ("geo", number())], "geo", Why::DuplicateName),
        (vec![("geo", number()), ("GEO", number())], "GEO", Why::DuplicateName),
        (
            vec![("s", structure([("x", number()), ("X", number())]))],
            "s",
            Why::DuplicateName,
        ),
        (vec![("s", list(structure([("", number())])))], "s", Why::EmptyName),
    ] {
        let refused = check_schema(&schema(fields)).unwrap_err();
        assert_eq!((refused.column(), refused.why()), (Some(column), Some(why)));
    }
    // Only the alias hides the row; a field of a struct may have its name.
    check_schema(&schema([("tt", number()), ("s", structure([("t", number())]))])).unwrap();
    assert_eq!(check_schema(&schema([])), Err(Refused::NoColumns));
}

/// INV-72: a library's own type on top of an Arrow type is refused, whatever lies under it.
#[test]
fn extension_types_are_refused() {
    for name in ["arrow.json", "arrow.uuid", "arrow.opaque", "geoarrow.wkb"] {
        let metadata = [("ARROW:extension:name".to_owned(), name.to_owned())].into();
        let field = Field::new("v", DataType::Utf8, true).with_metadata(metadata);
        let refused = check_schema(&Schema::new(vec![field])).unwrap_err();
        assert_eq!((refused.column(), refused.why()), (Some("v"), Some(Why::ExtensionType)));
    }
}

/// A schema that nests deeper than this code recurses is refused.
#[test]
fn deep_nesting_is_refused() {
    let nested = |depth| (0..depth).fold(DataType::Int8, |item, _| list(item));
    check_schema(&schema([("v", nested(32))])).unwrap();
    for depth in [33, 400] {
        let refused = check_schema(&schema([("v", nested(depth))])).unwrap_err();
        assert_eq!((refused.column(), refused.why()), (Some("v"), Some(Why::TooDeep)));
    }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

/// INV-72: a value outside its column's type is refused, naming column and row, and nothing of its batch is counted.
#[test]
fn values_outside_their_type_are_refused_naming_column_and_row() {
    let decimals = Decimal64Array::from(vec![99_999, 100_000])
        .with_precision_and_scale(5, 2)
        .unwrap();
    for (column, problem) in [
        (
            Arc::new(Date32Array::from(vec![0, i32::MIN])) as ArrayRef,
            ValueProblem::DateOutOfRange,
        ),
        (
            Arc::new(TimestampMicrosecondArray::from(vec![0, i64::MIN])),
            ValueProblem::TimestampOutOfRange,
        ),
        (Arc::new(decimals), ValueProblem::DecimalTooWide),
    ] {
        let batch = batch(vec![("id", Arc::new(Int32Array::from(vec![1, 2]))), ("bad", column)]);
        let mut table = TableFingerprint::new(CanonicalForm::ONE, &batch.schema()).unwrap();
        let expected = TableError::RowText(RowTextError::Value {
            column: "bad".to_owned(),
            row: 1,
            problem,
        });
        assert_eq!(table.update(&batch), Err(expected));
        assert_eq!(table.finish().to_string(), "0:0");
        let threads = NonZeroUsize::new(2).unwrap();
        assert!(fingerprint_batches(CanonicalForm::ONE, &batch.schema(), &[batch], threads).is_err());
    }
}

/// INV-72: a batch must have the table's columns, in the table's order and of its types.
#[test]
fn batches_of_another_table_are_refused() {
    let numbers = || Arc::new(Int32Array::from(vec![1])) as ArrayRef;
    let texts = || Arc::new(StringArray::from(vec!["x"])) as ArrayRef;
    let table = batch(vec![("a", numbers()), ("b", texts())]);
    for other in [
        batch(vec![("b", texts()), ("a", numbers())]),
        batch(vec![("a", numbers())]),
        batch(vec![("a", numbers()), ("B", texts())]),
        batch(vec![("a", texts()), ("b", texts())]),
        batch(vec![("a", numbers()), ("b", texts()), ("c", texts())]),
    ] {
        let mut sum = TableFingerprint::new(CanonicalForm::ONE, &table.schema()).unwrap();
        let refusal = sum.update(&other).unwrap_err();
        assert!(
            matches!(refusal, TableError::RowText(RowTextError::OtherSchema { .. })),
            "{refusal}"
        );
        let rest = TableFingerprint::new(CanonicalForm::ONE, &other.schema()).unwrap();
        let refusal = sum.merge(&rest).unwrap_err();
        assert!(matches!(refusal, TableError::DifferentTables { .. }), "{refusal}");
        assert!(refusal.to_string().contains("\"a\" INT32"), "{refusal}");
    }
}

/// INV-70, INV-71: no rows are hashed under a form whose text is not known, and sums of two forms are not added.
#[test]
fn forms_are_not_mixed_and_not_guessed() {
    let schema = schema([("a", DataType::Int32)]);
    let refusal = TableFingerprint::new("2".parse().unwrap(), &schema).err().unwrap();
    assert!(matches!(refusal, TableError::UnknownForm { .. }), "{refusal}");
    let mut ours = TableFingerprint::new(CanonicalForm::SOVM_1, &schema).unwrap();
    let theirs = TableFingerprint::new(CanonicalForm::ONE, &schema).unwrap();
    let refusal = ours.merge(&theirs).unwrap_err();
    assert!(matches!(refusal, TableError::DifferentForms(_)), "{refusal}");
}

/// What is no Parquet file is an error that says so.
#[test]
fn other_bytes_are_no_parquet_file() {
    for bytes in [&b""[..], b"PAR1", b"PAR1PAR1", b"PAREPARE", b"a,b\n1,2\n"] {
        let refusal = fingerprint_parquet(CanonicalForm::ONE, Bytes::from_static(bytes)).unwrap_err();
        assert!(refusal.to_string().contains("Parquet file cannot be read"), "{refusal}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A damaged file is refused, or read as what it now says; it never ends the process.
    #[test]
    fn damaged_files_never_panic(
        pick in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let cases = cases();
        let files: Vec<_> = cases.values().filter(|case| case.has_file()).collect();
        let mut bytes = parquet(files[pick.index(files.len())]).to_vec();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = fingerprint_parquet(CanonicalForm::ONE, Bytes::from(bytes));
    }
}
