use std::sync::Arc;

use arrow::{
    array::{
        Array as _, ArrayRef, DurationSecondArray, Int32Array, Int64Array, ListArray, StringArray, StructArray,
        TimestampNanosecondArray,
    },
    datatypes::{DataType, Field, Int64Type, Schema, TimeUnit},
    ipc::{
        CompressionType,
        writer::{FileWriter, IpcWriteOptions, StreamWriter},
    },
};
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use proptest::prelude::*;
use sovm_object::types::{ColumnType, field_id_of};

use super::*;
use crate::ingest::Place;

fn sample(rows: i64) -> RecordBatch {
    let ids: Int64Array = (0..rows).collect();
    let names: StringArray = (0..rows).map(|row| (row % 3 != 0).then(|| format!("n{row}"))).collect();
    let times =
        TimestampNanosecondArray::from_iter_values((0..rows).map(|row| row * 1_000)).with_timezone("Europe/Berlin");
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>((0..rows).map(|row| Some(vec![Some(row), None])));
    let place = StructArray::from(vec![(
        Arc::new(Field::new("lat", DataType::Int32, true)),
        Arc::new(Int32Array::from_iter_values((0..rows).map(|row| row as i32))) as ArrayRef,
    )]);
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new(
            "at",
            DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into())),
            true,
        ),
        Field::new("l", lists.data_type().clone(), true),
        Field::new("place", place.data_type().clone(), true),
    ]);
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(ids),
        Arc::new(names),
        Arc::new(times),
        Arc::new(lists),
        Arc::new(place),
    ];
    RecordBatch::try_new(Arc::new(schema), arrays).unwrap()
}

fn one(name: &str, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([(name, array, true)]).unwrap()
}

fn parquet(batch: &RecordBatch) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(5_000))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn arrow_file(batch: &RecordBatch, compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), batch.schema_ref(), options).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn arrow_stream(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref()).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

const TYPES: &str = "id int64, name text, at timestamp_us, l list, element int64, place struct, lat int32";

#[test]
fn every_container_gives_the_same_rows() {
    let batch = sample(20_000);
    let inputs = [
        ("a.parquet", parquet(&batch)),
        ("a.parquet.gz", gzip(&parquet(&batch))),
        ("a.arrow", arrow_file(&batch, None)),
        ("a.feather", arrow_file(&batch, Some(CompressionType::LZ4_FRAME))),
        ("a.ipc", arrow_file(&batch, Some(CompressionType::ZSTD))),
        ("a.arrows", arrow_stream(&batch)),
    ];
    let mut first: Option<RecordBatch> = None;
    for (name, bytes) in inputs {
        let mut source = open(name, bytes).unwrap();
        let columns = source.infer(&Options::default()).unwrap();
        assert_eq!(types(&columns), TYPES, "{name}");
        assert!(!columns[0].nullable && columns[1].nullable);
        let batches: Vec<RecordBatch> = source
            .batches(&columns, &Options::default())
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert!(batches.iter().all(|batch| batch.num_rows() <= 8192), "{name}");
        let schema = batches[0].schema();
        assert_eq!(
            schema
                .fields()
                .iter()
                .map(|field| field_id_of(field))
                .collect::<Vec<_>>(),
            [Some(1), Some(2), Some(3), Some(4), Some(6)]
        );
        let whole = concat_batches(&schema, &batches).unwrap();
        assert_eq!(
            rows(&whole)[19_999],
            "19999,n19999,1970-01-01T00:00:00.019999Z,[19999, -],{lat: 19999}"
        );
        match &first {
            None => first = Some(whole),
            Some(first) => assert_eq!(&whole, first, "{name}"),
        }
    }
}

#[test]
fn pipes_are_spooled_for_random_access() {
    let batch = sample(100);
    for bytes in [
        parquet(&batch),
        gzip(&parquet(&batch)),
        arrow_file(&batch, None),
        arrow_stream(&batch),
    ] {
        let (columns, read) = load(
            pipe(&bytes, None)
                .or_else(|_| pipe(&bytes, Some(Format::Parquet)))
                .unwrap(),
            &Options::default(),
        )
        .unwrap_or_else(|_| load(pipe(&bytes, Some(Format::Parquet)).unwrap(), &Options::default()).unwrap());
        assert_eq!((types(&columns).as_str(), read.num_rows()), (TYPES, 100));
        let given = pipe(
            &bytes,
            Some(if bytes.starts_with(b"ARROW1") || bytes[0] == 0xff {
                Format::Arrow
            } else {
                Format::Parquet
            }),
        )
        .unwrap();
        assert_eq!(
            collect(given.batches(&columns, &Options::default()).unwrap()).unwrap(),
            read
        );
    }
}

#[test]
fn unsupported_types_are_named() {
    let batch = one("took", Arc::new(DurationSecondArray::from(vec![1])));
    let error = load(open("a.parquet", parquet(&batch)).unwrap(), &Options::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("column \"took\" has the type Duration(s), which a table cannot hold"),
        "{error}"
    );
    // With a table given it is refused as well, before a row is read.
    let columns = [Column::new(1, "took", ColumnType::Int64, true)];
    let source = open("a.arrow", arrow_file(&batch, None)).unwrap();
    assert!(matches!(
        source.batches(&columns, &Options::default()).and_then(collect),
        Err(IngestError::Columns { .. })
    ));
}

#[test]
fn rows_go_into_a_given_table_or_are_named() {
    let columns = [
        Column::new(7, "a", ColumnType::Int8, false),
        Column::new(9, "b", ColumnType::Text, true),
    ];
    let read = |batch: &RecordBatch| {
        collect(
            open("a.parquet", parquet(batch))
                .unwrap()
                .batches(&columns, &Options::default())
                .unwrap(),
        )
    };
    let batch = read(&one("a", Arc::new(Int64Array::from(vec![1, 2])))).unwrap();
    assert_eq!(rows(&batch), ["1,-", "2,-"]);
    let mut values = vec![Some(1); 9_000];
    values.push(Some(300));
    match read(&one("a", Arc::new(Int64Array::from(values)))).unwrap_err() {
        IngestError::BadValue {
            place, column, value, ..
        } => {
            assert_eq!(
                (place, column.as_str(), value.as_str()),
                (Place::Row(9_001), "a", "300")
            );
        }
        other => panic!("{other}"),
    }
    for (batch, message) in [
        (
            one("a", Arc::new(Int64Array::from(vec![None, Some(1)]))),
            "row 1, column \"a\": an empty value where a value must stand",
        ),
        (
            one("a", Arc::new(StringArray::from(vec!["1"]))),
            "column \"a\" is text, which does not go into a int8 column",
        ),
        (
            one("x", Arc::new(Int64Array::from(vec![1]))),
            "column \"x\" is not one of a, b",
        ),
        (one("b", Arc::new(StringArray::from(vec!["x"]))), "has no column \"a\""),
    ] {
        let error = read(&batch).unwrap_err().to_string();
        assert!(error.ends_with(message), "{error}");
    }
}

#[test]
fn several_files_must_agree() {
    let a = one("a", Arc::new(Int64Array::from(vec![1])));
    let open_two = |second: &RecordBatch| {
        let (first, second) = (file("1.parquet", parquet(&a)), file("2.parquet", parquet(second)));
        let source = Source::open(SourceSpec::files([first.path.clone(), second.path.clone()])).unwrap();
        load(source, &Options::default()).map(|(_, batch)| batch.num_rows())
    };
    assert_eq!(open_two(&a).unwrap(), 2);
    let other = open_two(&one("a", Arc::new(StringArray::from(vec!["x"])))).unwrap_err();
    assert!(matches!(
        other,
        IngestError::FilesDiffer {
            expected: ColumnType::Int64,
            found: ColumnType::Text,
            ..
        }
    ));
    assert!(matches!(
        open_two(&one("b", Arc::new(Int64Array::from(vec![1])))).unwrap_err(),
        IngestError::UnknownColumn { .. }
    ));
    assert!(matches!(
        open_two(&sample(1)).unwrap_err(),
        IngestError::UnknownColumn { .. }
    ));
}

#[test]
fn broken_files_are_refused_by_name() {
    let good = parquet(&sample(10));
    let read = |name: &str, bytes: &[u8]| match open(name, bytes) {
        Ok(source) => load(source, &Options::default()).map(|_| ()),
        Err(error) => Err(error),
    };
    let mut encrypted = good.clone();
    let end = encrypted.len();
    encrypted[end - 1] = b'E';
    assert!(matches!(
        read("a.parquet", &encrypted),
        Err(IngestError::EncryptedParquet { .. })
    ));
    for bad in [&good[..good.len() - 1], &good[1..], &good[..8], b"PAR1", b"x,y\n1,2\n"] {
        assert!(matches!(
            read("a.parquet", bad),
            Err(IngestError::Columnar {
                format: Format::Parquet,
                ..
            })
        ));
    }
    let arrow = arrow_file(&sample(10), None);
    for bad in [&arrow[..arrow.len() / 2], &arrow[..20], b"ARROW1", b"hello"] {
        assert!(matches!(
            read("a.arrow", bad),
            Err(IngestError::Columnar {
                format: Format::Arrow,
                ..
            })
        ));
    }
    assert!(matches!(read("a.parquet", b""), Err(IngestError::Empty { .. })));
    let doubled = Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("a", DataType::Int64, true),
    ]);
    let array = || Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let doubled = RecordBatch::try_new(Arc::new(doubled), vec![array(), array()]).unwrap();
    assert!(
        matches!(read("a.arrow", &arrow_file(&doubled, None)), Err(IngestError::DuplicateColumn { column, .. }) if column == "a")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A damaged file is an error or other rows, never a panic.
    #[test]
    fn damage_never_panics(flips in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..6), kind in 0..3_u8) {
        let batch = sample(50);
        let (name, mut bytes) = match kind {
            0 => ("a.parquet", parquet(&batch)),
            1 => ("a.arrow", arrow_file(&batch, None)),
            _ => ("a.arrows", arrow_stream(&batch)),
        };
        for (at, flip) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
        }
        if let Ok(source) = open(name, bytes) {
            let _ = load(source, &Options::default());
        }
    }
}

/// Lengths that lead out of an Arrow file are refused before anybody makes room for them: a process that cannot have the room is
/// ended, and with it the node.
#[test]
fn lengths_in_arrow_are_not_believed() {
    let batch = sample(3);
    for bytes in [
        arrow_file(&batch, None),
        arrow_file(&batch, Some(CompressionType::ZSTD)),
        arrow_stream(&batch),
    ] {
        let read = |bytes: &[u8]| load(pipe(bytes, Some(Format::Arrow))?, &Options::default());
        assert_eq!(read(&bytes).unwrap().1.num_rows(), 3);
        // Lengths stand at multiples of four: one that no machine has room for, and one below zero.
        for at in (0..bytes.len() - 8).step_by(4) {
            for length in [1_i64 << 60, -1] {
                let mut damaged = bytes.clone();
                damaged[at..at + 8].copy_from_slice(&length.to_le_bytes());
                let _ = read(&damaged);
            }
        }
    }
}

/// Files of one command may give a column two number types; the table gets one that holds both.
#[test]
fn number_types_of_several_files_are_widened() {
    let narrow = one("a", Arc::new(Int32Array::from(vec![Some(1), None])));
    let wide = one("a", Arc::new(Int64Array::from(vec![1 << 40])));
    let (first, second) = (file("1.parquet", parquet(&narrow)), file("2.parquet", parquet(&wide)));
    for paths in [[&first, &second], [&second, &first]] {
        let source = Source::open(SourceSpec::files(paths.map(|file| file.path.clone()))).unwrap();
        let (columns, batch) = load(source, &Options::default()).unwrap();
        assert_eq!((types(&columns).as_str(), batch.num_rows()), ("a int64", 3));
    }
}

/// SOP-128, SOP-237: rules over rows hold for columnar files too, and name the row of the file.
#[test]
fn rules_name_rows_of_columnar_files() {
    let columns = [Column::new(1, "p", ColumnType::Text, true)];
    let mut texts = vec!["x"; 10_000];
    texts[9_000] = "";
    let bytes = parquet(&one("p", Arc::new(StringArray::from(texts))));
    let read = |partition: Vec<i32>| {
        let options = Options {
            rules: RowRules {
                partition,
                identity: vec![],
            },
            ..Options::default()
        };
        collect(open("a.parquet", &bytes).unwrap().batches(&columns, &options)?)
    };
    assert_eq!(read(vec![]).unwrap().num_rows(), 10_000);
    let error = read(vec![1]).unwrap_err().to_string();
    assert!(error.contains("row 9001, column \"p\""), "{error}");
}

#[test]
fn bad_rows_of_columnar_files_are_not_written_aside() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        skip_bad_rows: Some(dir.path().join("bad")),
        ..Options::default()
    };
    let error = load(open("a.parquet", parquet(&sample(3))).unwrap(), &options).unwrap_err();
    assert!(
        matches!(
            &error,
            IngestError::SkipColumnar {
                format: Format::Parquet,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.hint().is_some() && !dir.path().join("bad").exists());
}

/// SOP-375: what DuckDB encrypted is read with its key; a wrong key, none, or a module AAD is named.
#[test]
fn encrypted_parquet_is_read_with_its_key() {
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/duckdb_objects");
    let dir = tempfile::tempdir().unwrap();
    let with_key = |key: &[u8], path: PathBuf| {
        let key_file = dir.path().join("key");
        std::fs::write(&key_file, key).unwrap();
        let options = Options {
            parquet_key: Some(ParquetKey::read(&key_file).unwrap()),
            ..Options::default()
        };
        load(Source::open(SourceSpec::files([path])).unwrap(), &options)
    };
    let key = b"0123456789abcdef0123456789abcdef";
    let (columns, batch) = with_key(key, fixture.join("weather_zstd.parquet")).unwrap();
    assert_eq!((batch.num_rows(), columns[0].name.as_str()), (26_115, "origin"));
    let (_, batch) = with_key(key, fixture.join("types_snappy.parquet")).unwrap();
    assert_eq!(batch.num_rows(), 3_000);
    assert_eq!(
        with_key(key, fixture.join("types_empty.parquet")).unwrap().1.num_rows(),
        0
    );
    assert!(matches!(
        with_key(&[7; 32], fixture.join("weather_zstd.parquet")).unwrap_err(),
        IngestError::WrongParquetKey { .. }
    ));
    let without = Source::open(SourceSpec::files([fixture.join("weather_zstd.parquet")])).unwrap();
    assert!(matches!(
        load(without, &Options::default()).unwrap_err(),
        IngestError::EncryptedParquet { .. }
    ));
    assert!(matches!(
        ParquetKey::read(&fixture.join("README.md")).unwrap_err(),
        IngestError::KeyFile { .. }
    ));
    // The head that Spark and pyarrow write: AES_GCM_V1 with a file-unique AAD of eight bytes. Length, and the magic.
    let crypto = [0x1c, 0x1c, 0x28, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0];
    let mut foreign = b"PARE".to_vec();
    foreign.extend_from_slice(&crypto);
    foreign.extend_from_slice(&[0; 40]);
    foreign.extend_from_slice(&(crypto.len() as u32 + 40).to_le_bytes());
    foreign.extend_from_slice(b"PARE");
    let path = dir.path().join("spark.parquet");
    std::fs::write(&path, foreign).unwrap();
    let error = with_key(key, path).unwrap_err();
    assert!(
        matches!(&error, IngestError::ForeignAad { .. }) && error.hint().is_some(),
        "{error}"
    );
}
