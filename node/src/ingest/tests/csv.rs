use sovm_object::types::{ColumnType, field_id_of};

use super::*;
use crate::ingest::{Misfit, Place};

fn read(content: &str) -> (String, Vec<String>) {
    let (columns, batch) = load(open("a.csv", content).unwrap(), &Options::default()).unwrap();
    (types(&columns), rows(&batch))
}

fn fails(content: impl AsRef<[u8]>) -> IngestError {
    match open("a.csv", content) {
        Ok(source) => load(source, &Options::default()).unwrap_err(),
        Err(error) => error,
    }
}

fn fails_into(columns: &[Column], content: &str) -> IngestError {
    let source = open("a.csv", content).unwrap();
    source
        .batches(columns, &Options::default())
        .and_then(collect)
        .unwrap_err()
}

#[test]
fn types_are_inferred_and_values_kept() {
    let (types, rows) = read(
        "i,f,b,d,u,l,t,z\n1,1,true,2013-01-01,2013-01-01T06:00:00Z,2013-01-01 06:00,x,007\n\
         -2,2.5,False,1999-12-31,2013-01-01T06:00:00.5+01:00,2013-01-01 06:00:01,,1\n",
    );
    assert_eq!(
        types,
        "i int64, f float64, b bool, d date, u timestamp_us, l timestamp_us_local, t text, z text"
    );
    assert_eq!(
        rows,
        [
            "1,1.0,true,2013-01-01,2013-01-01T06:00:00Z,2013-01-01T06:00:00,x,007",
            "-2,2.5,false,1999-12-31,2013-01-01T05:00:00.500Z,2013-01-01T06:00:01,-,1",
        ]
    );
}

#[test]
fn schema_carries_field_ids() {
    let mut source = open("a.csv", "a,b\n1,x\n").unwrap();
    let columns = source.infer(&Options::default()).unwrap();
    let batches = source.batches(&columns, &Options::default()).unwrap();
    let ids: Vec<_> = batches
        .schema()
        .fields()
        .iter()
        .map(|field| field_id_of(field))
        .collect();
    assert_eq!(ids, [Some(1), Some(2)]);
}

/// A value that decides the type may stand in the last of many rows.
#[test]
fn inference_looks_at_the_whole_input() {
    let content = format!("a\n{}x\n", "1\n".repeat(20_000));
    let (columns, batch) = load(open("a.csv", content).unwrap(), &Options::default()).unwrap();
    assert_eq!((types(&columns).as_str(), batch.num_rows()), ("a text", 20_001));
}

#[test]
fn batches_are_bounded() {
    let mut source = open("a.csv", format!("a\n{}", "1\n".repeat(20_000))).unwrap();
    let columns = source.infer(&Options::default()).unwrap();
    let sizes: Vec<usize> = source
        .batches(&columns, &Options::default())
        .unwrap()
        .map(|batch| batch.unwrap().num_rows())
        .collect();
    assert_eq!(sizes, [8192, 8192, 3616]);
    // A row of a mebibyte is a piece of its own, and so a batch.
    let row = format!("{}\n", "x".repeat(1 << 20));
    let mut source = open("a.csv", format!("a\n{}", row.repeat(40))).unwrap();
    let columns = source.infer(&Options::default()).unwrap();
    let sizes: Vec<usize> = source
        .batches(&columns, &Options::default())
        .unwrap()
        .map(|batch| batch.unwrap().num_rows())
        .collect();
    assert_eq!(sizes, [1; 40]);
}

#[test]
fn marks_line_ends_and_quotes() {
    let expected = (
        String::from("a int64, b text"),
        vec![String::from("1,x\ny"), String::from("2,say \"hi\"")],
    );
    assert_eq!(read("\u{feff}a,b\n1,\"x\ny\"\n\n2,\"say \"\"hi\"\"\""), expected);
    assert_eq!(
        read("\u{feff}\"a\", b \r\n1,\"x\ny\"\r\n\r\n2,\"say \"\"hi\"\"\"\r\n"),
        expected
    );
}

#[test]
fn tabs_and_other_separators() {
    let (columns, batch) = load(open("a.tsv", "a\tb\n1,5\t2\n").unwrap(), &Options::default()).unwrap();
    assert_eq!(
        (types(&columns).as_str(), rows(&batch)[0].as_str()),
        ("a text, b int64", "1,5,2")
    );
    let options = Options {
        delimiter: Some(b';'),
        ..Options::default()
    };
    let (columns, _) = load(open("a.csv", "a;b\n1;2\n").unwrap(), &options).unwrap();
    assert_eq!(types(&columns), "a int64, b int64");
}

/// DESIGN §16.6: empty is null; other words only when named, and a quoted word in a text column is that text.
#[test]
fn null_words() {
    assert_eq!(read("a,b\n1,NA\n,x\n").0, "a int64, b text");
    assert_eq!(read("a\nNA\n1\n").0, "a text");
    let content = "n,t\n1,NA\n\"NA\",\"NA\"\nNA,\"\"\n2,x\n";
    let (columns, batch) = load(open("a.csv", content).unwrap(), &null_na()).unwrap();
    assert_eq!(types(&columns), "n int64, t text");
    assert_eq!(rows(&batch), ["1,-", "-,NA", "-,-", "2,x"]);
    // A column of nothing else has no type but text.
    let (columns, batch) = load(open("a.csv", "a,b\nNA,1\n,2\n").unwrap(), &null_na()).unwrap();
    assert_eq!(
        (types(&columns).as_str(), rows(&batch)),
        ("a text, b int64", vec!["-,1".to_owned(), "-,2".to_owned()])
    );
}

/// DESIGN §15: each broken file is refused by name, with what is wrong and where.
#[test]
fn broken_files_are_named() {
    for (content, message) in [
        ("a,b\n1\n", "line 2: 1 fields, but the header has 2"),
        ("a,b\n1,2\n1,2,3\n", "line 3: 3 fields, but the header has 2"),
        ("a,b\n\"x\ny\",1\n\n1\n", "line 5: 1 fields, but the header has 2"),
        (
            "a\n\"x\n",
            "line 2: a quoted field starts in this row and is never closed",
        ),
        ("a,b\n1,\"x\"y\n", "line 2: field 2 goes on after its closing quote"),
        ("a,,b\n1,2,3\n", "column 2 has no name"),
        ("a,\" \"\n1,2\n", "column 2 has no name"),
        ("a,b,a\n1,2,3\n", "column name \"a\" stands twice"),
        ("a,b\n", "has no rows, so the types of its columns cannot be inferred"),
        (
            "a,b\n\n\n",
            "has no rows, so the types of its columns cannot be inferred",
        ),
        ("\n\n", "is empty"),
        ("", "is empty"),
    ] {
        let error = fails(content).to_string();
        assert!(
            error.contains("a.csv") && error.ends_with(message),
            "{content:?}: {error}"
        );
    }
    assert!(
        fails(b"a\nok\n\xff\xfe\n")
            .to_string()
            .ends_with("line 3: is not valid UTF-8")
    );
    assert!(matches!(fails(b"\xff\xfea\0,\0b\0\n\0"), IngestError::Utf16 { .. }));
    assert!(matches!(fails(b"PK\x03\x04rest"), IngestError::Zip { .. }));
    let long = "n".repeat(200);
    assert!(load(open("a.csv", format!("{long}\n1\n")).unwrap(), &Options::default()).is_err());
}

/// DESIGN §15: a single endless row stops at a bound instead of filling the memory.
#[test]
fn a_row_without_end_is_refused() {
    let mut content = b"a\n1\n".to_vec();
    content.extend(std::iter::repeat_n(b'x', 17 << 20));
    assert!(matches!(fails(&content), IngestError::RowTooLong { line: 3, .. }));
}

#[test]
fn rows_go_into_a_given_table() {
    let columns = [
        Column::new(1, "id", ColumnType::Int32, false),
        Column::new(4, "price", ColumnType::Decimal { precision: 6, scale: 2 }, true),
        Column::new(9, "note", ColumnType::Text, true),
    ];
    // Another order of columns, and one that may be null left out.
    let source = open("a.csv", "price,id\n1.5,1\n,2\n").unwrap();
    let batch = collect(source.batches(&columns, &Options::default()).unwrap()).unwrap();
    assert_eq!(rows(&batch), ["1,1.50,-", "2,-,-"]);
    let ids: Vec<_> = batch.schema().fields().iter().map(|field| field_id_of(field)).collect();
    assert_eq!(ids, [Some(1), Some(4), Some(9)]);
    // No rows are no trouble where the table exists.
    let source = open("a.csv", "id\n").unwrap();
    assert_eq!(source.batches(&columns, &Options::default()).unwrap().count(), 0);
}

#[test]
fn values_that_do_not_fit_the_table_are_named() {
    let columns = [
        Column::new(1, "id", ColumnType::Int8, false),
        Column::new(2, "at", ColumnType::TimestampUs, true),
    ];
    match fails_into(&columns, "id,at\n1,\n\n\"300\",\n") {
        IngestError::BadValue {
            place,
            column,
            value,
            misfit,
            ..
        } => {
            assert_eq!((place, column.as_str(), value.as_str()), (Place::Line(4), "id", "300"));
            assert_eq!(misfit, Misfit::OutOfRange(ColumnType::Int8));
        }
        other => panic!("{other}"),
    }
    for (content, message) in [
        ("id,at\nx,\n", "line 2, column \"id\": \"x\" is not of type int8"),
        (
            "id,at\n,\n",
            "line 2, column \"id\": an empty value where a value must stand",
        ),
        (
            "id,at\n1,2013-01-01T00:00:00\n",
            "has no time zone, and the column holds UTC instants (write Z or an offset)",
        ),
        (
            "id,at\n1,2013-01-01\n",
            "line 2, column \"at\": \"2013-01-01\" is not of type timestamp_us",
        ),
        ("id,when\n1,2\n", "column \"when\" is not one of id, at"),
        ("at\n\n", "has no column \"id\""),
    ] {
        let error = fails_into(&columns, content).to_string();
        assert!(error.ends_with(message), "{content:?}: {error}");
    }
    let nested = [
        Column::new(1, "id", ColumnType::List, true),
        Column::new(2, "element", ColumnType::Int64, true).within(1),
    ];
    assert!(matches!(
        fails_into(&nested, "id\n1\n"),
        IngestError::NestedInCsv { .. }
    ));
    assert!(matches!(fails_into(&[], "id\n1\n"), IngestError::Target(_)));
}

/// After an error there are no more batches: all or nothing is the caller's to keep, and this its ground.
#[test]
fn an_error_ends_the_batches() {
    let columns = [Column::new(1, "a", ColumnType::Int64, true)];
    let source = open("a.csv", "a\nx\n1\n").unwrap();
    let mut batches = source.batches(&columns, &Options::default()).unwrap();
    assert!(batches.next().unwrap().is_err());
    assert!(batches.next().is_none());
}

#[test]
fn bad_rows_can_be_written_aside() {
    let input = b"a,b\n1,x\n2\n\"3\"z,x\n\xff,x\n4,\"p\nq\"\n5,y,z";
    let dir = tempfile::tempdir().unwrap();
    let aside = dir.path().join("bad.csv");
    let options = Options {
        skip_bad_rows: Some(aside.clone()),
        ..Options::default()
    };
    let mut source = open("a.csv", input).unwrap();
    let columns = source.infer(&options).unwrap();
    assert_eq!(types(&columns), "a int64, b text");
    let mut batches = source.batches(&columns, &options).unwrap();
    let batch = batches.next().unwrap().unwrap();
    assert!(batches.next().is_none());
    assert_eq!(rows(&batch), ["1,x", "4,p\nq"]);
    let skipped = batches.skipped();
    assert_eq!((skipped.rows, skipped.reasons.len()), (4, 4));
    assert!(skipped.reasons[3].contains("line 8: 3 fields"), "{:?}", skipped.reasons);
    // The rows as they stood, under their header.
    assert_eq!(std::fs::read(&aside).unwrap(), b"a,b\n2\n\"3\"z,x\n\xff,x\n5,y,z\n");
    // A second run does not overwrite them.
    let again = open("a.csv", input).unwrap().batches(&columns, &options);
    assert!(matches!(again, Err(IngestError::RejectsExist { .. })));
    // Values count as well where the types are given.
    let other = dir.path().join("other.csv");
    let options = Options {
        skip_bad_rows: Some(other.clone()),
        ..Options::default()
    };
    let columns = [
        Column::new(1, "a", ColumnType::Int64, true),
        Column::new(2, "b", ColumnType::Int64, true),
    ];
    let batch = collect(
        open("a.csv", "a,b\n1,2\n1,x\n")
            .unwrap()
            .batches(&columns, &options)
            .unwrap(),
    )
    .unwrap();
    assert_eq!(rows(&batch), ["1,2"]);
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "a,b\n1,x\n");
}

#[test]
fn no_file_is_left_where_no_row_was_bad() {
    let dir = tempfile::tempdir().unwrap();
    let aside = dir.path().join("bad.csv");
    let options = Options {
        skip_bad_rows: Some(aside.clone()),
        ..Options::default()
    };
    load(open("a.csv", "a\n1\n").unwrap(), &options).unwrap();
    assert!(!aside.exists());
    let nowhere = Options {
        skip_bad_rows: Some(dir.path().join("no/such/dir.csv")),
        ..Options::default()
    };
    assert!(matches!(
        load(open("a.csv", "a\n1\n").unwrap(), &nowhere),
        Err(IngestError::Rejects { .. })
    ));
}

/// What breaks the structure of the rest of the file is never skipped.
#[test]
fn an_open_quote_is_never_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        skip_bad_rows: Some(dir.path().join("bad.csv")),
        ..Options::default()
    };
    let error = load(open("a.csv", "a\n1\n\"2\n3\n").unwrap(), &options).unwrap_err();
    assert!(matches!(error, IngestError::UnclosedQuote { line: 3, .. }));
}

/// The shape of a real census file: fifty thousand plain lines, then the first quoted field, with a comma in it. Whoever
/// decides by a sample takes the comma for a separator.
#[test]
fn the_first_quoted_field_may_come_late() {
    let mut text = String::from("LocID,Location,Year\n");
    for row in 0..53_382 {
        text.push_str(&format!("{row},Land {},1950\n", row % 200));
    }
    text.push_str("158,\"China, Taiwan Province of China\",1950\n159,Land,1951\n");
    let (columns, batch) = load(
        open("population.csv.gz", gzip(text.as_bytes())).unwrap(),
        &Options::default(),
    )
    .unwrap();
    assert_eq!(types(&columns), "LocID int64, Location text, Year int64");
    assert_eq!(batch.num_rows(), 53_384);
    assert_eq!(
        rows(&batch.slice(53_382, 2)),
        ["158,China, Taiwan Province of China,1950", "159,Land,1951"]
    );
}

/// SOP-237: an identity has a value in every column and 1,024 bytes at most; the row is named, and can be left out.
#[test]
fn rows_without_an_identity_are_refused() {
    let columns = [
        Column::new(1, "id", ColumnType::Text, true),
        Column::new(2, "n", ColumnType::Int64, true),
    ];
    let rules = RowRules {
        partition: vec![],
        identity: vec![1, 2],
    };
    let read = |text: &str, skip: Option<PathBuf>| {
        let options = Options {
            rules: rules.clone(),
            skip_bad_rows: skip,
            ..Options::default()
        };
        collect(open("a.csv", text).unwrap().batches(&columns, &options)?)
    };
    let long = format!("{},1", "x".repeat(1_020));
    for (row, message) in [
        (
            ",2",
            "line 3, column \"id\": an empty value where a value must stand".to_owned(),
        ),
        (
            "b,",
            "line 3, column \"n\": an empty value where a value must stand".to_owned(),
        ),
        ("b,x", "line 3, column \"n\": \"x\" is not of type int64".to_owned()),
        (
            long.as_str(),
            "line 3, column \"id, n\": cannot tell rows apart: the identity has 1031 bytes, at most 1024 are allowed"
                .to_owned(),
        ),
    ] {
        let text = format!("id,n\na,1\n{row}\nc,3\n");
        let error = read(&text, None).unwrap_err().to_string();
        assert!(error.ends_with(&message), "{error}");
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            rows(&read(&text, Some(dir.path().join("bad.csv"))).unwrap()),
            ["a,1", "c,3"]
        );
    }
}

/// Found by the fuzzer: a byte above ASCII cut a field inside a character.
#[test]
fn separators_are_ascii_and_no_part_of_csv() {
    for delimiter in [0x9d, 0xff, b'"', b'\n', b'\r'] {
        let options = Options {
            delimiter: Some(delimiter),
            ..Options::default()
        };
        let failed = load(open("a.csv", "a\u{4dd}b,c\n1,2\n").unwrap(), &options).unwrap_err();
        assert!(
            matches!(failed, IngestError::Delimiter { found } if found == delimiter),
            "{failed}"
        );
        assert!(failed.hint().is_some());
    }
}
