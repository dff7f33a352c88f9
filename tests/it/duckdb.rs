//! DuckDB reads our objects with nothing but the key, and we read what DuckDB wrote (SOP-375).
//!
//! DuckDB runs through Python: the interpreter in `SOVM_TEST_PYTHON`, or `python3`. A machine without the `duckdb` package
//! skips these tests and says so; an interpreter that was named on purpose and has none fails them.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use arrow::{
    array::{Array as _, ArrayRef, Float64Array, Int64Array, StringArray},
    compute::cast,
    datatypes::{DataType, Field, Schema},
    record_batch::RecordBatch,
};
use serde_json::{Value, json};
use sovm_object::{
    pme::{Claims, Footer, OpenOptions, PageKind},
    secret::Dek,
};

use crate::{
    harness::{Node, weather_csv},
    sample::{self, DEK, as_float, decode, float, hex, object, ready, row_groups_of, seal, table, unhex, values},
};

const NAMED: &str = "SOVM_TEST_PYTHON";

/// Answers of DuckDB over one object, a list of rows for each query; `None` when there is no DuckDB.
fn ask(bytes: &[u8], key: &str, queries: &[&str]) -> Option<Vec<Vec<Value>>> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("object.parquet");
    std::fs::write(&file, bytes).unwrap();
    ask_file(&file, key, queries)
}

fn ask_file(file: &Path, key: &str, queries: &[&str]) -> Option<Vec<Vec<Value>>> {
    let answers = try_file(file, key, queries)?;
    Some(answers.unwrap_or_else(|why| panic!("DuckDB failed over {}: {why}", file.display())))
}

/// The error is what Python printed.
fn try_file(file: &Path, key: &str, queries: &[&str]) -> Option<Result<Vec<Vec<Value>>, String>> {
    let named = std::env::var_os(NAMED);
    let python = named.clone().unwrap_or_else(|| "python3".into());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/duckdb_read.py");
    let spawned = Command::new(&python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) if named.is_none() => return skip(&format!("{} does not start: {error}", python.display())),
        Err(error) => panic!("{} of {NAMED} does not start: {error}", python.display()),
    };
    let task = json!({ "file": file, "key": key, "queries": queries });
    // A script that ends early closes its input; its exit code says why.
    let _ = child.stdin.take().unwrap().write_all(task.to_string().as_bytes());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.code() == Some(3) && named.is_none() {
        return skip(&format!("{} says: {stderr}", python.display()));
    }
    if !output.status.success() {
        return Some(Err(stderr));
    }
    let answers: Vec<Vec<Value>> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answers.len(), queries.len());
    Some(Ok(answers))
}

/// Says why a test proves nothing here, past the test runner's capture.
fn skip<T>(why: &str) -> Option<T> {
    let advice = "pip install duckdb==2.0.1, or name an interpreter that has it";
    let _ = writeln!(
        std::io::stderr(),
        "skipped: no DuckDB to read with: {why} ({advice} in {NAMED})"
    );
    None
}

/// SOP-59, SOP-370, SOP-371: every type, several row groups, dictionaries, nulls and nesting come out of DuckDB as they went in.
#[test]
fn duckdb_reads_every_type() {
    let rows = sample::rows(0..3_000);
    let sealed = seal(&rows, row_groups_of(700));
    let whole = object(&sealed.bytes);
    let footer = Footer::open_whole(&whole, &sample::dek()).unwrap();
    assert_eq!(footer.row_groups(), 5);
    let plan = footer.plan(&[0], &footer.project_all()).unwrap();
    let mut pages = plan
        .ranges()
        .iter()
        .flat_map(|range| footer.pages(whole.whole().part(range.clone()).unwrap()).unwrap());
    assert!(
        pages.any(|page| page.kind == PageKind::Dictionary),
        "no dictionary is tested"
    );

    let queries = [
        "from objects order by id",
        "from objects where name = 'name 7' and id > 1500 order by id",
        "from objects where place.b = 'place 1499' or list_contains(numbers, 2998) order by id",
        "select count(*), count(name), count(void), sum(small), sum(total), min(price), max(\"at\"), count(place) from objects",
        "select id from objects order by id desc limit 3 offset 100",
        "select tag, count(*) from objects group by tag order by tag nulls first",
    ];
    let Some(answers) = ask(&sealed.bytes, &hex(&DEK), &queries) else {
        return;
    };
    let written = values(&rows);
    assert_eq!(answers[0].len(), written.len());
    for (found, written) in answers[0].iter().zip(&written) {
        assert_eq!(found, written);
    }
    let chosen = |keep: &dyn Fn(i64) -> bool| -> Vec<Value> {
        written
            .iter()
            .filter(|row| keep(row[0].as_i64().unwrap()))
            .cloned()
            .collect()
    };
    assert_eq!(answers[1], chosen(&|id| id > 1_500 && id % 3 != 0 && id % 40 == 7));
    // 2,998 is in the lists of 2,995 to 2,998 as far as those are long enough and not null.
    assert_eq!(
        answers[2],
        chosen(&|id| id == 1_499 || (id % 6 != 0 && (0..id % 4).any(|j| id + j == 2_998)))
    );
    let small: i64 = (0..3_000).filter(|id| id % 5 != 0).map(|id| id % 17).sum();
    let total: i128 = (0..3_000i128)
        .filter(|id| id % 6 != 0)
        .map(|id| id * 1_234_567_890_123_456_789_012 - 5)
        .sum();
    let total = format!("{}.{:04}", total / 10_000, total % 10_000);
    let at = 1_700_000_000_000_000i64 + 2_999 * 1_000_001;
    assert_eq!(answers[3], [json!([3_000, 2_000, 0, small, total, "-3.00", at, 2_625])]);
    assert_eq!(answers[4], [json!([2_899]), json!([2_898]), json!([2_897])]);
    assert_eq!(
        answers[5],
        [
            json!([null, 300]),
            json!(["blue", 900]),
            json!(["green", 900]),
            json!(["red", 900])
        ]
    );
}

/// An object without rows keeps its columns; one row and a column of nulls alone are no special cases.
#[test]
fn duckdb_reads_objects_with_few_rows() {
    let queries = [
        "from objects",
        "select count(*), count(id) from objects where id >= 0",
        "describe objects",
    ];
    for count in [0, 1, 2] {
        let rows = sample::rows(0..count);
        let sealed = seal(&rows, row_groups_of(700));
        let Some(answers) = ask(&sealed.bytes, &hex(&DEK), &queries) else {
            return;
        };
        assert_eq!(answers[0], values(&rows));
        assert_eq!(answers[1], [json!([count, count])]);
        let names: Vec<&str> = answers[2].iter().map(|column| column[0].as_str().unwrap()).collect();
        let schema = rows.schema();
        assert_eq!(
            names,
            schema
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect::<Vec<_>>()
        );
    }
    let nulls = table(vec![("void", 1, Arc::new(StringArray::new_null(50)) as ArrayRef)]);
    let sealed = seal(&nulls, row_groups_of(20));
    if let Some(answers) = ask(
        &sealed.bytes,
        &hex(&DEK),
        &["select count(*), count(void) from objects"],
    ) {
        assert_eq!(answers[0], [json!([50, 0])]);
    }
}

/// SOP-91: with another key DuckDB gets nothing either.
#[test]
fn duckdb_needs_the_key() {
    let sealed = seal(&sample::rows(0..10), row_groups_of(10));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("object.parquet");
    std::fs::write(&file, &sealed.bytes).unwrap();
    let Some(right) = ask_file(&file, &hex(&DEK), &["from objects"]) else {
        return;
    };
    assert_eq!(right[0].len(), 10);
    let wrong = try_file(&file, &hex(&[1; 32]), &["from objects"]).unwrap();
    // Not a failure of the script: DuckDB itself refuses.
    assert!(wrong.unwrap_err().contains("duckdb."));
}

/// The whole way: a CSV goes in through the command line, DuckDB reads the object with the key a person asked for.
#[test]
fn duckdb_reads_what_the_command_line_ingested() {
    let node = Node::init();
    let file = node.write("weather.csv", weather_csv());
    let report = node.json(&["ingest", "weather", file.to_str().unwrap(), "--null", "NA"]);
    let objects = report["objects"].as_array().unwrap();
    let ours: Vec<Vec<String>> = node
        .rows("select origin, count(*), count(temp), avg(temp) from weather group by 1 order by 1")
        .iter()
        .map(|row| row.split(',').map(str::to_owned).collect())
        .collect();
    assert_eq!(ours.len(), 3);

    let mut theirs: Vec<(String, i64, i64, f64)> = Vec::new();
    for id in objects {
        let id = id.as_str().unwrap();
        let key = node.json(&["object", "key", id, "--yes-show-secret"]);
        let query = "select origin, count(*), count(temp), sum(temp) from objects group by 1 order by 1";
        let Some(answers) = ask(&bytes_of(&node, id), key["dek_hex"].as_str().unwrap(), &[query]) else {
            return;
        };
        for row in &answers[0] {
            let part = (row[1].as_i64().unwrap(), row[2].as_i64().unwrap(), as_float(&row[3]));
            let origin = row[0].as_str().unwrap();
            match theirs.iter_mut().find(|known| known.0 == origin) {
                Some(known) => (known.1, known.2, known.3) = (known.1 + part.0, known.2 + part.1, known.3 + part.2),
                None => theirs.push((origin.to_owned(), part.0, part.1, part.2)),
            }
        }
    }
    assert_eq!(theirs.len(), ours.len());
    for ((origin, rows, known, sum), ours) in theirs.iter().zip(&ours) {
        assert_eq!(
            [origin, &rows.to_string(), &known.to_string()],
            [&ours[0], &ours[1], &ours[2]]
        );
        let (avg, found) = (sum / *known as f64, ours[3].parse::<f64>().unwrap());
        assert!(
            (avg - found).abs() < 1e-9 * avg.abs(),
            "{origin}: DuckDB {avg}, sovm {found}"
        );
    }
}

/// An object's bytes as `object hexdump` shows them.
fn bytes_of(node: &Node, id: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let dump = node.json(&[
            "object",
            "hexdump",
            id,
            "--offset",
            &bytes.len().to_string(),
            "--length",
            "1048576",
        ]);
        bytes.extend(unhex(dump["hex"].as_str().unwrap()));
        if bytes.len() as u64 == dump["size_bytes"].as_u64().unwrap() {
            return bytes;
        }
        assert_ne!(dump["hex"], "", "hexdump stopped before the end");
    }
}

/// A file of `fixtures/duckdb_objects` and its rows.
fn fixture(name: &str) -> (Footer, RecordBatch) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/duckdb_objects")
        .join(name);
    let whole = object(&std::fs::read(path).unwrap());
    let footer = Footer::open_whole(&whole, &Dek::from_bytes(*b"0123456789abcdef0123456789abcdef")).unwrap();
    let rows = decode(&whole, &footer, &footer.project_all()).unwrap();
    (footer, rows)
}

/// SOP-375: types, nulls and nesting of a DuckDB file come out as DuckDB shows them.
#[test]
fn types_of_duckdb_read_here() {
    let (footer, rows) = fixture("types_snappy.parquet");
    assert_eq!(
        (footer.row_groups(), rows.num_rows(), rows.num_columns()),
        (2, 3_000, 17)
    );
    let rows = values(&rows);
    let second = json!([
        1, 1, 1_000_003, float(1.0 / 3.0), float(f64::from(1.0f32 / 7.0)), float(0.25), "12345678901234.0000000000", "name 1",
        "c4ca4238a0b923820dcc509a6f75849b", 18_263, 1_577_836_861_000_000i64, false, [1, 2, null], { "a": 1, "b": "x1" },
        [{ "k": "1", "v": ["1.5"] }], "00ff", "74295a26e22948588ccb30c0998cbfa5",
    ]);
    assert_eq!(rows[1], second);
    let of_second_group = json!([
        2_500, 1, 2_500_007_500i64, float(2_500.0 / 3.0), "4076524920000000", float(0.0), "30864197253085000.0000000000", null,
        "f7696a9b362ac5a51c3dc8f098b73923", 20_762, 1_577_989_300_000_000i64, false, [2_500, 2_501, null],
        { "a": 2_500, "b": "x2500" }, null, "00ff", "d6f2a3bb15834428a237937a22837de0",
    ]);
    assert_eq!(rows[2_500], of_second_group);
    for (row, id) in rows.iter().zip(0i64..) {
        let low = if id % 5 == 0 {
            json!(null)
        } else {
            json!(format!("name {}", id % 50))
        };
        assert_eq!(
            (&row[0], &row[1], &row[2]),
            (&json!(id), &json!(id % 7), &json!(id * 1_000_003))
        );
        assert_eq!((&row[3], &row[7]), (&float(id as f64 / 3.0), &low));
        assert_eq!(
            (&row[9], &row[10]),
            (&json!(18_262 + id), &json!(1_577_836_800_000_000 + id * 61_000_000))
        );
        assert_eq!((&row[11], &row[12]), (&json!(id % 3 == 0), &json!([id, id + 1, null])));
        assert_eq!(row[13], json!({ "a": id, "b": format!("x{id}") }));
        assert_eq!(row[14].is_null(), id % 4 == 0);
    }
}

/// SOP-375: several row groups, every one of 391,725 values against the CSV they came from.
#[test]
fn weather_of_duckdb_reads_here() {
    let (footer, rows) = fixture("weather_zstd.parquet");
    assert_eq!(
        (footer.row_groups(), rows.num_rows(), rows.num_columns()),
        (4, 26_115, 15)
    );
    let text = String::from_utf8(weather_csv()).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let lines: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    for (index, name) in header.iter().enumerate() {
        let texts: StringArray = lines
            .iter()
            .map(|line| Some(line[index]).filter(|text| *text != "NA"))
            .collect();
        let column = rows.column_by_name(name).unwrap();
        let expected: ArrayRef = match column.data_type() {
            DataType::Utf8 => Arc::new(texts),
            DataType::Int64 => Arc::new(
                texts
                    .iter()
                    .map(|t| t.map(|t| t.parse::<i64>().unwrap()))
                    .collect::<Int64Array>(),
            ),
            DataType::Float64 => Arc::new(
                texts
                    .iter()
                    .map(|t| t.map(|t| t.parse::<f64>().unwrap()))
                    .collect::<Float64Array>(),
            ),
            time @ DataType::Timestamp(..) => cast(&texts, time).unwrap(),
            other => panic!("{name} is {other}"),
        };
        assert_eq!(column, &expected, "{name}");
    }
}

/// SOP-375: no rows, and a column of nulls alone.
#[test]
fn empty_files_of_duckdb_read_here() {
    let (footer, rows) = fixture("types_empty.parquet");
    assert_eq!((rows.num_rows(), rows.num_columns()), (0, 17));
    assert_eq!(rows.schema().fields().len(), footer.columns().len());
    let (_, rows) = fixture("all_null.parquet");
    assert_eq!(values(&rows), (0..10).map(|id| json!([id, null])).collect::<Vec<_>>());
}

/// What DuckDB wrote goes through our writer and back to DuckDB unchanged.
#[test]
fn rows_of_duckdb_make_the_round_trip() {
    let (_, rows) = fixture("weather_zstd.parquet");
    let fields: Vec<Field> = rows
        .schema()
        .fields()
        .iter()
        .zip(1..)
        .map(|(old, id)| sample::field(old.name(), old.data_type().clone(), id))
        .collect();
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), rows.columns().to_vec()).unwrap();
    let sealed = seal(&rows, row_groups_of(8_192));
    let claims = Claims {
        key_ref: Some(sample::KEY_REF),
        exact_byte_size: Some(sealed.exact_byte_size),
    };
    let footer = ready(Footer::open(
        &object(&sealed.bytes),
        sealed.storage_id,
        &sample::dek(),
        OpenOptions::default(),
    ));
    assert_eq!(footer.unwrap().audit(&claims), []);

    let query = "select origin, count(*), count(temp), sum(humid), min(time_hour), max(time_hour) from objects group by 1 order by 1";
    let Some(ours) = ask(
        &sealed.bytes,
        &hex(&DEK),
        &[query, "select temp from objects where temp > 98 order by temp"],
    ) else {
        return;
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/duckdb_objects/weather_zstd.parquet");
    let key = hex(b"0123456789abcdef0123456789abcdef");
    let theirs = ask_file(
        &path,
        &key,
        &[query, "select temp from objects where temp > 98 order by temp"],
    )
    .unwrap();
    assert_eq!(ours[1], theirs[1]);
    for (ours, theirs) in ours[0].iter().zip(&theirs[0]) {
        // Sums of doubles differ in the last digits with the order of addition.
        let (a, b) = (as_float(&ours[3]), as_float(&theirs[3]));
        assert!((a - b).abs() < 1e-9 * a.abs(), "{a} is not {b}");
        for place in [0, 1, 2, 4, 5] {
            assert_eq!(ours[place], theirs[place]);
        }
    }
    assert_eq!((ours[0].len(), theirs[0].len()), (3, 3));
}
