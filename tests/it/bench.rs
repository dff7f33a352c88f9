//! `sovm bench` by its shape: times of a machine that does other things at the same time prove nothing.

use serde_json::Value;

use crate::harness::Node;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn bench_reports_ratios() {
    let node = Node::empty();
    let dir = node.path("bench");
    std::fs::create_dir(&dir).unwrap();
    let report = node.json(&[
        "bench",
        "--rows",
        "20000",
        "--objects",
        "30",
        "--runs",
        "1",
        "--dir",
        dir.to_str().unwrap(),
    ]);
    assert_eq!(report["command"], "bench");
    assert_eq!(report["format_version"], 1);
    assert_eq!((&report["rows"], &report["runs"]), (&20_000.into(), &1.into()));
    assert!(number(&report["machine"]["cores"]) >= 1.0);
    assert!(report["machine"]["aes_instructions"].is_boolean());
    assert!(number(&report["encrypted_bytes"]) > 0.0);
    for name in ["publish_arrow", "publish_csv", "full_scan", "selective_scan"] {
        let figures = report["figures"].as_array().unwrap();
        let figure = figures
            .iter()
            .find(|figure| figure["name"] == name)
            .unwrap_or_else(|| panic!("no {name}"));
        assert!(number(&figure["ms"]) > 0.0, "{figure}");
        let reads = name.ends_with("scan");
        // What is read was verified and decrypted: there is no plain way around it.
        assert_eq!(number(&figure["bytes_verified"]) > 0.0, reads, "{figure}");
        assert_eq!(number(&figure["bytes_decrypted"]) > 0.0, reads, "{figure}");
        if reads {
            assert_eq!(figure["against"][0]["with"], "datafusion_plain");
            assert!(number(&figure["against"][0]["ratio"]) > 0.0, "{figure}");
        }
    }
    let point = &report["point"];
    assert_eq!(
        ["objects", "considered", "pruned", "opened"].map(|name| number(&point[name])),
        [30.0, 30.0, 29.0, 1.0],
        "{point}"
    );
    assert!(number(&point["planning_target_ms"]) >= 50.0);
    assert_eq!(report["versions"]["duckdb"], Value::Null);

    // Nothing is left, and no node was made where the others live.
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    assert!(!node.home().join("identity.age").exists());
    let table = node.ok(&["bench", "--rows", "1000", "--objects", "1", "--runs", "1"]);
    assert!(
        table.contains("full scan") && table.contains("planning, cold"),
        "{table}"
    );
}

/// A Python without DuckDB is said, and everything else is measured.
#[test]
fn bench_without_duckdb_says_so() {
    let node = Node::empty();
    let mut args = vec!["bench", "--rows", "1000", "--objects", "1", "--runs", "1"];
    args.extend(["--duckdb", "no-such-python"]);
    let report = node.json(&args);
    let why = report["duckdb_missing"].as_str().unwrap();
    assert!(why.contains("no-such-python"), "{why}");
}

/// A release of one product writes one leaf and one root, whatever else there is; the seal read every row.
#[test]
fn bench_of_the_inventory_counts_leaves_and_roots() {
    let node = Node::empty();
    let mut args = vec!["bench", "--inventory", "--products", "40", "--rows", "6000"];
    args.extend(["--runs", "2"]);
    let report = node.json(&args);
    assert_eq!(report["command"], "bench-inventory");
    let versions = report["versions"].as_array().unwrap();
    let counts = |name: &str| {
        let version = versions.iter().find(|version| version["name"] == name);
        let version = version.unwrap_or_else(|| panic!("no {name}"));
        ["products", "leaves_written", "roots_written"].map(|count| number(&version[count]))
    };
    assert_eq!(counts("one_product"), [1.0, 1.0, 1.0]);
    assert_eq!(counts("one_product_again"), [1.0, 1.0, 1.0]);
    // Four of forty were released one by one.
    assert_eq!(counts("batch"), [36.0, 36.0, 1.0]);
    assert_eq!(counts("rewrite_all"), [40.0, 40.0, 1.0]);
    let again = versions.iter().find(|version| version["name"] == "one_product_again");
    assert_eq!(
        again.unwrap()["leaves_read"],
        1,
        "the writer of the version before knows the others"
    );
    let seal = &report["seal"];
    assert_eq!(
        ["rows", "new_rows", "files"].map(|count| number(&seal[count])),
        [6_000.0, 100.0, 60.0]
    );
    assert!(
        number(&seal["fingerprint_share"]) > 0.0 && number(&seal["rows_per_second_per_core"]) > 0.0,
        "{seal}"
    );
    let table = node.ok(&args);
    assert!(
        table.contains("one product again") && table.contains("rows hashed a second"),
        "{table}"
    );
}
