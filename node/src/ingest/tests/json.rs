use sovm_object::types::ColumnType;

use super::*;

fn read(content: &str) -> (String, Vec<String>) {
    let (columns, batch) = load(open("a.ndjson", content).unwrap(), &Options::default()).unwrap();
    (types(&columns), rows(&batch))
}

fn fails(content: impl AsRef<[u8]>) -> String {
    let error = match open("a.ndjson", content) {
        Ok(source) => load(source, &Options::default()).unwrap_err(),
        Err(error) => error,
    };
    error.to_string()
}

#[test]
fn kinds_become_types_in_the_order_of_the_keys() {
    let (types, rows) = read(
        "{\"z\":1,\"b\":true,\"f\":1,\"t\":\"5\",\"d\":\"2013-01-01\",\"u\":\"2013-01-01T06:00:00Z\",\"n\":null}\n\n\
         {\"f\":2.5,\"z\":-1,\"late\":\"x\"}\n",
    );
    assert_eq!(
        types,
        "z int64, b bool, f float64, t text, d date, u timestamp_us, n text, late text"
    );
    assert_eq!(
        rows,
        ["1,true,1.0,5,2013-01-01,2013-01-01T06:00:00Z,-,-", "-1,-,2.5,-,-,-,-,x"]
    );
}

#[test]
fn nested_values() {
    let content =
        "{\"p\":{\"lat\":1.5,\"tags\":[\"a\",null]},\"e\":[]}\n{\"p\":null,\"e\":[1,2]}\n{\"p\":{\"name\":\"x\"}}\n";
    let (columns, batch) = load(open("a.jsonl", content).unwrap(), &Options::default()).unwrap();
    assert_eq!(
        types(&columns),
        "p struct, lat float64, tags list, element text, name text, e list, element int64"
    );
    assert_eq!(
        columns.iter().map(|column| column.parent).collect::<Vec<_>>(),
        [None, Some(1), Some(1), Some(3), Some(1), None, Some(6)]
    );
    assert_eq!(
        rows(&batch),
        [
            "{lat: 1.5, tags: [a, -], name: -},[]",
            "-,[1, 2]",
            "{lat: -, tags: -, name: x},-"
        ]
    );
}

#[test]
fn numbers_never_change() {
    assert_eq!(read("{\"a\":9223372036854775807}\n").0, "a int64");
    assert_eq!(
        read("{\"a\":9223372036854775808}\n"),
        ("a text".into(), vec!["9223372036854775808".into()])
    );
    assert_eq!(read("{\"a\":9007199254740993}\n{\"a\":0.5}\n").0, "a text");
    assert_eq!(read("{\"a\":1}\n{\"a\":\"x\"}\n{\"a\":true}\n").1, ["1", "x", "true"]);
}

#[test]
fn null_words_in_quotes() {
    let content = "{\"n\":\"NA\",\"t\":\"NA\"}\n{\"n\":5,\"t\":\"x\"}\n";
    let (columns, batch) = load(open("a.ndjson", content).unwrap(), &null_na()).unwrap();
    assert_eq!(
        (types(&columns).as_str(), rows(&batch)),
        ("n int64, t text", vec!["-,NA".into(), "5,x".into()])
    );
}

#[test]
fn broken_lines_are_named() {
    for (content, message) in [
        (
            "{\"a\":1}\n{\"a\":}\n",
            "line 2: not a JSON object: expected value (column 6)",
        ),
        (
            "{\"a\":1}\n\n{\"a\":1",
            "line 3: not a JSON object: EOF while parsing an object (column 6)",
        ),
        ("{\"a\":1}\n5\n", "line 2: a number where an object must stand"),
        (
            "{\"a\":1,\"a\":2}\n",
            "line 1: not a JSON object: the key \"a\" stands twice (column 13)",
        ),
        (
            "{\"a\":1} {\"a\":2}\n",
            "line 1: not a JSON object: trailing characters (column 9)",
        ),
        ("[{\"a\":1}]\n", "is one JSON array, not one object a line"),
        (
            "{\"a\":{\"b\":1}}\n{\"a\":{\"b\":[1]}}\n",
            "line 2, column \"a.b\": an array here, but a plain value before",
        ),
        (
            "{\"a\":[]}\n{\"a\":\"x\"}\n",
            "line 2, column \"a\": a text here, but an array before",
        ),
        ("{\"a\":{}}\n", "column \"a\" holds only empty objects"),
        ("{\"\":1}\n", "column 1 has no name"),
        ("{}\n", "a table needs at least one column"),
        ("\n\n", "is empty"),
        ("", "is empty"),
    ] {
        let error = fails(content);
        assert!(
            error.contains("a.ndjson") && error.ends_with(message),
            "{content:?}: {error}"
        );
    }
    assert!(fails(b"{\"a\":1}\n{\"a\":\"\xff\"}\n").ends_with("line 2: is not valid UTF-8"));
    assert!(fails(format!("{{\"a\":{}1{}}}\n", "[".repeat(40), "]".repeat(40))).contains("nested deeper"));
}

#[test]
fn rows_go_into_a_given_table() {
    let columns = [
        Column::new(1, "id", ColumnType::Int16, false),
        Column::new(2, "m", ColumnType::Map, true),
        Column::new(3, "key", ColumnType::Text, false).within(2),
        Column::new(4, "value", ColumnType::Decimal { precision: 5, scale: 1 }, true).within(2),
        Column::new(5, "s", ColumnType::Struct, true),
        Column::new(6, "must", ColumnType::Date, false).within(5),
    ];
    let read = |content: &str| {
        collect(
            open("a.ndjson", content)
                .unwrap()
                .batches(&columns, &Options::default())
                .unwrap(),
        )
    };
    let batch = read(
        "{\"m\":{\"x\":1.5,\"y\":null},\"id\":5.0}\n{\"id\":7,\"s\":null}\n{\"id\":8,\"s\":{\"must\":\"2013-01-01\"},\"m\":{}}\n",
    )
    .unwrap();
    assert_eq!(rows(&batch), ["5,{x: 1.5, y: -},-", "7,-,-", "8,{},{must: 2013-01-01}"]);
    for (content, message) in [
        (
            "{\"id\":1}\n{\"id\":40000}\n",
            "line 2, column \"id\": \"40000\" is out of range for int16",
        ),
        ("{\"id\":1.5}\n", "column \"id\": \"1.5\" is not of type int16"),
        ("{\"id\":\"x\"}\n", "column \"id\": \"x\" is not of type int16"),
        ("{\"id\":true}\n", "column \"id\": \"true\" is not of type int16"),
        (
            "{\"id\":null}\n",
            "column \"id\": an empty value where a value must stand",
        ),
        ("{\"m\":{}}\n", "column \"id\": an empty value where a value must stand"),
        (
            "{\"id\":1,\"x\":2}\n",
            "column \"x\": \"2\" has the key \"x\", which the column has not",
        ),
        (
            "{\"id\":1,\"s\":{}}\n",
            "column \"s.must\": an empty value where a value must stand",
        ),
        (
            "{\"id\":1,\"s\":{\"must\":5}}\n",
            "column \"s.must\": \"5\" is not of type date",
        ),
        ("{\"id\":1,\"s\":[1]}\n", "column \"s\": \"[1]\" is not of type struct"),
        (
            "{\"id\":1,\"m\":{\"k\":1.55}}\n",
            "column \"m.value\": \"1.55\" has digits that decimal(5,1) cannot hold",
        ),
    ] {
        let error = read(content).unwrap_err().to_string();
        assert!(error.ends_with(message), "{content:?}: {error}");
    }
}

#[test]
fn bad_lines_can_be_written_aside() {
    let dir = tempfile::tempdir().unwrap();
    let aside = dir.path().join("bad.ndjson");
    let options = Options {
        skip_bad_rows: Some(aside.clone()),
        ..Options::default()
    };
    let source = open("a.ndjson", "{\"a\":1}\n{oops\n{\"a\":2}\n").unwrap();
    let (_, batch) = load(source, &options).unwrap();
    assert_eq!(rows(&batch), ["1", "2"]);
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), "{oops\n");
}

/// SOP-128: an empty text in a partition column would be read back as null, so its row is refused, by line.
#[test]
fn an_empty_text_in_a_partition_column_is_refused() {
    let columns = [
        Column::new(1, "p", ColumnType::Text, true),
        Column::new(2, "s", ColumnType::Text, true),
    ];
    let options = Options {
        rules: RowRules {
            partition: vec![1],
            identity: vec![],
        },
        ..Options::default()
    };
    let read = |text: &str| collect(open("a.ndjson", text).unwrap().batches(&columns, &options)?);
    assert_eq!(read("{\"p\":\"x\",\"s\":\"\"}\n{\"s\":\"y\"}\n").unwrap().num_rows(), 2);
    let error = read("{\"p\":\"x\"}\n{\"p\":\"\",\"s\":\"y\"}\n").unwrap_err();
    assert_eq!(
        error.to_string().rsplit_once("a.ndjson").unwrap().1,
        ", line 2, column \"p\": an empty value in a partition \
        column, where an empty text would be read back as null"
    );
}
