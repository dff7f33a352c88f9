//! Partitioned tables as a person meets them: made, filled, asked, shown.

use serde_json::Value;

use crate::harness::{Node, weather_csv};

/// SOP-127, SOP-129, SOP-175, SOP-176, SOP-178: a partitioned table answers like an unpartitioned one, its objects say which
/// partition they are, and of another partition not a byte is read.
#[test]
fn a_partitioned_table_answers_like_any_other() {
    let node = Node::init();
    node.write("weather.csv", weather_csv());
    node.ok(&["table", "create", "plain", "--like", "weather.csv"]);
    let made = node.json(&[
        "table",
        "create",
        "parted",
        "--like",
        "weather.csv",
        "--partition",
        "origin,month",
        "--prune",
        "hour,day",
    ]);
    assert_eq!(made["partition"], serde_json::json!(["origin", "month"]));
    for table in ["plain", "parted"] {
        assert_eq!(node.json(&["ingest", table, "weather.csv"])["rows"], 26_115);
    }
    for query in [
        "select count(*), count(distinct day), min(pressure), max(pressure) from T",
        "select origin, month, count(*), sum(hour) from T group by 1, 2 order by 1, 2",
        "select * from T where origin = 'JFK' and month in (2, 11) and hour between 3 and 4 order by time_hour",
        "select count(*) from T where month > 10 or origin is null",
        "select count(*) from T where origin <> 'EWR' and temp = '39.02'",
    ] {
        let ask = |table: &str| node.rows(&query.replace('T', table));
        assert_eq!(ask("parted"), ask("plain"), "{query}");
    }

    let objects = node.json(&["object", "list", "--table", "parted"])["objects"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(objects.len(), 36);
    let mut seen = std::collections::BTreeSet::new();
    for object in &objects {
        let shown = node.json(&["object", "show", object["storage_id"].as_str().unwrap()]);
        seen.insert(shown["partition"].to_string());
        let bounds = |column: &str| -> Value {
            let all = shown["statistics"].as_array().unwrap();
            all.iter().find(|bounds| bounds["column"] == column).unwrap().clone()
        };
        assert_eq!(bounds("month")["min"], bounds("month")["max"]);
        assert!(bounds("hour")["max"].is_string());
    }
    assert_eq!(seen.len(), 36, "each partition once: {seen:?}");
    assert!(seen.contains(r#"{"month":"12","origin":"LGA"}"#), "{seen:?}");
    let described = node.run(&["table", "describe", "parted"]);
    assert!(
        described.stderr.contains("partition columns: origin, month"),
        "{}",
        described.stderr
    );

    let scan = |query: &str| node.json(&["sql", query, "--explain"])["explain"]["scan"].clone();
    let one = scan("select sum(hour) from parted where origin = 'LGA' and month = 12");
    assert_eq!(
        (one["objects_considered"].as_u64(), one["objects_opened"].as_u64()),
        (Some(36), Some(1))
    );
    let none = scan("select * from parted where month = 13");
    assert_eq!(
        (none["objects_opened"].as_u64(), none["bytes_verified"].as_u64()),
        (Some(0), Some(0))
    );
}

/// SOP-128: what cannot be a partition is refused: a type without exact text when the table is made, an empty text when its
/// row comes, with its line.
#[test]
fn what_cannot_be_a_partition_is_refused() {
    let node = Node::init();
    node.write("t.schema", "p text\nf float64\n");
    let create = |columns: &str| node.run(&["table", "create", "t", "--schema", "t.schema", "--partition", columns]);
    create("f").failed(1, &["f", "float64", "partition"]);
    create("x").failed(1, &["no column x"]);
    create("p,p").failed(1, &["twice"]);
    node.ok(&["table", "create", "t", "--schema", "t.schema", "--partition", "p"]);
    node.write(
        "rows.ndjson",
        "{\"p\": \"a\", \"f\": 1.5}\n{\"p\": \"\", \"f\": 2.5}\n{\"f\": 3.5}\n",
    );
    node.fails(&["ingest", "t", "rows.ndjson"], 1, &["line 2", "\"p\"", "empty"]);
    assert_eq!(node.rows("select count(*) from t"), ["0"]);
    let report = node.json(&["ingest", "t", "rows.ndjson", "--skip-bad-rows", "bad.ndjson"]);
    assert_eq!(
        (report["rows"].as_u64(), report["bad_rows"].as_u64()),
        (Some(2), Some(1))
    );
    assert_eq!(node.rows("select f from t where p is null"), ["3.5"]);
}

/// SOP-177, SOP-233: partition values and bounds stand in sealed manifests only; the home's files hold none of them, during
/// the ingest or after.
#[test]
fn partition_values_and_bounds_are_sealed_at_rest() {
    let node = Node::init();
    let words = ["planted-partition-word", "planted-lowest-word", "planted-highest-word"];
    node.write(
        "rows.csv",
        format!("p,s\n{},{}\n{},{}\n", words[0], words[1], words[0], words[2]),
    );
    node.write("t.schema", "p text\ns text\n");
    node.ok(&[
        "table",
        "create",
        "t",
        "--schema",
        "t.schema",
        "--partition",
        "p",
        "--prune",
        "s",
    ]);
    node.ok(&["ingest", "t", "rows.csv"]);
    assert_eq!(
        node.rows("select count(*) from t where p = 'planted-partition-word'"),
        ["2"]
    );
    for file in node.files() {
        let bytes = std::fs::read(&file).unwrap();
        for word in words {
            let found = bytes.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(!found, "{word} stands in {}", file.display());
        }
    }
}
