//! How a table lies in memory or in its file does not show in its fingerprint.

use std::{num::NonZeroUsize, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, BooleanArray, DictionaryArray, FixedSizeListArray, Float64Array, Int8Array, Int32Array,
        Int64Array, ListArray, RecordBatch, StringArray, StructArray, TimestampSecondArray,
    },
    buffer::{NullBuffer, OffsetBuffer},
    compute::{cast, concat_batches},
    datatypes::{DataType, Field, Int8Type, Int32Type, Schema},
};
use bytes::Bytes;
use parquet::{
    arrow::ArrowWriter,
    data_type::{ByteArrayType, Int96, Int96Type},
    file::writer::SerializedFileWriter,
    schema::parser::parse_message_type,
};
use sovm_inventory::fingerprint::{
    CanonicalForm, TableFingerprint, Why, fingerprint_batches, fingerprint_parquet, fingerprint_parquet_parallel,
    row_text::RowTexts, schema::TextSchema,
};

use crate::vectors::{accepted, batches, column_refusal, parquet};

fn texts(batch: &RecordBatch) -> Vec<String> {
    let schema = TextSchema::of(batch.schema_ref()).unwrap();
    let rows = RowTexts::new(&schema, batch).unwrap();
    let mut text = Vec::new();
    (0..rows.rows())
        .map(|row| {
            rows.write(row, &mut text).unwrap();
            String::from_utf8(text.clone()).unwrap()
        })
        .collect()
}

fn fingerprint(batches: &[RecordBatch]) -> String {
    let mut table = TableFingerprint::new(CanonicalForm::ONE, batches[0].schema_ref()).unwrap();
    for batch in batches {
        table.update(batch).unwrap();
    }
    table.finish().to_string()
}

fn column(array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter([("v", array)]).unwrap()
}

/// INV-72: rows of a slice are those of the whole, for every accepted type.
#[test]
fn slices_have_the_texts_of_the_whole() {
    for (name, case) in accepted() {
        let (schema, parts) = batches(parquet(&case), 1_000);
        let whole = concat_batches(&schema, &parts).unwrap();
        let expected = texts(&whole);
        for start in 0..whole.num_rows() {
            for length in [1, whole.num_rows() - start] {
                let slice = whole.slice(start, length);
                assert_eq!(texts(&slice), expected[start..start + length], "{name}");
            }
        }
    }
}

/// INV-72: strings and lists have one text, however Arrow lays them out, and the batches of a table may differ in it.
#[test]
fn layouts_of_strings_and_lists_do_not_show() {
    let strings = StringArray::from(vec![Some("a"), None, Some("\u{b}\"é"), Some(""), Some("a")]);
    let strings = column(Arc::new(strings));
    let expected = texts(&strings);
    assert_eq!(expected[2], "{\"v\":\"\\u000B\\\"é\"}");
    let mut all = vec![strings.clone()];
    let dictionary = |key| DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8));
    for layout in [
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary(DataType::Int8),
        dictionary(DataType::UInt32),
        DataType::Dictionary(Box::new(DataType::Int64), Box::new(DataType::LargeUtf8)),
    ] {
        let other = column(cast(strings.column(0), &layout).unwrap());
        assert_eq!(texts(&other), expected, "{layout}");
        assert_eq!(texts(&other.slice(2, 2)), expected[2..4], "{layout}");
        all.push(other);
    }
    let six_times = fingerprint(&all);
    assert_eq!(six_times, fingerprint(&vec![strings; 6]));

    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
    let lists = column(Arc::new(lists));
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let large = column(cast(lists.column(0), &DataType::LargeList(item)).unwrap());
    assert_eq!(texts(&large), texts(&lists));
    assert_eq!(texts(&lists), ["{\"v\":[1,null]}", "{\"v\":null}", "{\"v\":[]}"]);
}

/// INV-72: a dictionary with nulls among its entries, without entries, or with more of them than the batch has rows.
#[test]
fn odd_dictionaries_have_the_texts_of_their_strings() {
    let entries: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some("y")]));
    let keys = Int8Array::from(vec![Some(2), Some(1), None, Some(0)]);
    let found = texts(&column(Arc::new(
        DictionaryArray::<Int8Type>::try_new(keys, entries.clone()).unwrap(),
    )));
    assert_eq!(
        found,
        ["{\"v\":\"y\"}", "{\"v\":null}", "{\"v\":null}", "{\"v\":\"x\"}"]
    );
    let keys = Int8Array::from(vec![Some(2)]);
    let found = texts(&column(Arc::new(
        DictionaryArray::<Int8Type>::try_new(keys, entries).unwrap(),
    )));
    assert_eq!(found, ["{\"v\":\"y\"}"]);
    let nothing: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
    let keys = Int8Array::from(vec![None, None]);
    let found = texts(&column(Arc::new(
        DictionaryArray::<Int8Type>::try_new(keys, nothing).unwrap(),
    )));
    assert_eq!(found, ["{\"v\":null}", "{\"v\":null}"]);
}

/// INV-72: a null struct or list hides what lies under it, and fixed-size lists are lists.
#[test]
fn nulls_hide_what_lies_under_them() {
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let fields = vec![Field::new("x", DataType::Int32, true)];
    let nulls = Some(NullBuffer::from(vec![true, false, true]));
    let structs = StructArray::try_new(fields.into(), vec![inner.clone()], nulls.clone()).unwrap();
    let found = texts(&column(Arc::new(structs)));
    assert_eq!(found, ["{\"v\":{\"x\":1}}", "{\"v\":null}", "{\"v\":{\"x\":3}}"]);

    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let offsets = OffsetBuffer::new(vec![0, 1, 2, 3].into());
    let lists = ListArray::try_new(item.clone(), offsets, inner, nulls.clone()).unwrap();
    let found = texts(&column(Arc::new(lists)));
    assert_eq!(found, ["{\"v\":[1]}", "{\"v\":null}", "{\"v\":[3]}"]);

    let six: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5, 6]));
    let pairs = column(Arc::new(FixedSizeListArray::try_new(item, 2, six, nulls).unwrap()));
    assert_eq!(texts(&pairs), ["{\"v\":[1,2]}", "{\"v\":null}", "{\"v\":[5,6]}"]);
    assert_eq!(texts(&pairs.slice(2, 1)), ["{\"v\":[5,6]}"]);
}

/// INV-73, INV-75: more rows than one thread takes at a time, in uneven batches, on any number of threads.
#[test]
fn threads_and_batches_do_not_show() {
    let rows = 50_000;
    let whole = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef),
        (
            "value",
            Arc::new(Float64Array::from_iter(
                (0..rows).map(|row| (row % 5 > 0).then_some(row as f64 / 7.0)),
            )),
        ),
        (
            "flag",
            Arc::new(BooleanArray::from_iter((0..rows).map(|row| Some(row % 3 == 0)))),
        ),
    ])
    .unwrap();
    let expected = fingerprint(std::slice::from_ref(&whole));
    assert!(expected.ends_with(":50000"));
    let uneven = [
        whole.slice(0, 1),
        whole.slice(1, 0),
        whole.slice(1, 40_000),
        whole.slice(40_001, 9_999),
    ];
    for threads in [1, 2, 3, 16] {
        let threads = NonZeroUsize::new(threads).unwrap();
        for batches in [&uneven[..], std::slice::from_ref(&whole)] {
            let found = fingerprint_batches(CanonicalForm::ONE, &whole.schema(), batches, threads).unwrap();
            assert_eq!(found.to_string(), expected);
        }
        let none = fingerprint_batches(CanonicalForm::ONE, &whole.schema(), &[], threads).unwrap();
        assert_eq!(none.to_string(), "0:0");
        let file = written(&whole, 7_000);
        let found = fingerprint_parquet_parallel(CanonicalForm::ONE, &file, threads).unwrap();
        assert_eq!(found.to_string(), expected);
    }
}

fn written(batch: &RecordBatch, group_rows: usize) -> Bytes {
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    for start in (0..batch.num_rows()).step_by(group_rows) {
        writer
            .write(&batch.slice(start, group_rows.min(batch.num_rows() - start)))
            .unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    file.into()
}

/// INV-72: an Arrow schema that a writer left in a Parquet file is not believed. Seconds are kept as bare integers there,
/// and integers are what the engine of the definition sees.
#[test]
fn the_arrow_schema_in_a_parquet_file_is_not_looked_at() {
    let seconds = column(Arc::new(TimestampSecondArray::from(vec![1_700_000_000])));
    let found = fingerprint_parquet(CanonicalForm::ONE, written(&seconds, 10)).unwrap();
    let integers = column(Arc::new(Int64Array::from(vec![1_700_000_000])));
    assert_eq!(found.to_string(), fingerprint(&[integers]));
}

/// INV-72, GAP-10: what only Parquet's own annotations show is refused at any depth, naming the column at the top.
#[test]
fn annotations_of_parquet_are_looked_at() {
    let json = "message m { optional group deep (LIST) { repeated group list { optional binary element (JSON); } } }";
    let bson = "message m { required int32 fine; required group deep { required binary inner (BSON); } }";
    for (schema, why) in [(json, Why::Json), (bson, Why::Json)] {
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut file = Vec::new();
        SerializedFileWriter::new(&mut file, schema, Arc::default())
            .unwrap()
            .close()
            .unwrap();
        let refused = column_refusal(fingerprint_parquet(CanonicalForm::ONE, Bytes::from(file)).unwrap_err());
        assert_eq!((refused.column(), refused.why()), (Some("deep"), Some(why)));
    }

    let schema = Arc::new(parse_message_type("message m { required int96 at; }").unwrap());
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let noon = Int96::from(vec![0, 0, 2_440_588]);
    column.typed::<Int96Type>().write_batch(&[noon], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let refused = column_refusal(fingerprint_parquet(CanonicalForm::ONE, Bytes::from(file)).unwrap_err());
    assert_eq!((refused.column(), refused.why()), (Some("at"), Some(Why::Int96)));
}

/// INV-72: bytes without a string annotation are a BLOB, refused, even where every one of them is a letter.
#[test]
fn bytes_without_annotation_are_a_blob() {
    let schema = Arc::new(parse_message_type("message m { required binary word; }").unwrap());
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<ByteArrayType>()
        .write_batch(&["abc".into()], None, None)
        .unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let refused = column_refusal(fingerprint_parquet(CanonicalForm::ONE, Bytes::from(file)).unwrap_err());
    assert_eq!(
        (refused.column(), refused.why()),
        (Some("word"), Some(Why::UnstableType))
    );
    assert!(refused.to_string().contains("BLOB"), "{refused}");
}

/// INV-72: what the schema says about nulls, and its metadata, is not part of the table.
#[test]
fn nullability_and_metadata_do_not_show() {
    let array: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let metadata = [("note".to_owned(), "x".to_owned())].into();
    let field = Field::new("v", array.data_type().clone(), false).with_metadata(metadata);
    let strict = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array.clone()]).unwrap();
    assert_eq!(
        fingerprint(&[strict.clone(), column(array)]),
        fingerprint(&[strict.clone(), strict])
    );
}
