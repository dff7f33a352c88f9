//! One node, no network: the first ten minutes.

use std::collections::BTreeMap;

use crate::harness::{Node, weather_csv};

/// Count and average temperature by origin, computed from the text alone.
fn expected() -> BTreeMap<String, (u64, f64)> {
    let text = String::from_utf8(weather_csv()).unwrap();
    let mut sums: BTreeMap<String, (u64, u64, f64)> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<_> = line.split(',').collect();
        let entry = sums.entry(fields[0].to_owned()).or_default();
        entry.0 += 1;
        if let Ok(temp) = fields[5].parse::<f64>() {
            entry.1 += 1;
            entry.2 += temp;
        }
    }
    sums.into_iter()
        .map(|(origin, (rows, known, sum))| (origin, (rows, sum / known as f64)))
        .collect()
}

#[test]
fn init_ingest_sql_needs_nothing_else() {
    let node = Node::init();
    let file = node.write("weather.csv", weather_csv());
    let report = node.json(&["ingest", "weather", file.to_str().unwrap(), "--null", "NA"]);
    assert_eq!(report["rows"], 26_115);
    let rows = node.rows("select origin, count(*), avg(temp) from weather group by 1 order by 1");
    let expected = expected();
    assert_eq!(rows.len(), expected.len());
    for (row, (origin, (count, avg))) in rows.iter().zip(expected) {
        let fields: Vec<_> = row.split(',').collect();
        assert_eq!((fields[0], fields[1]), (origin.as_str(), count.to_string().as_str()));
        let found: f64 = fields[2].parse().unwrap();
        assert!((found - avg).abs() < 1e-9 * avg.abs(), "{origin}: {found} is not {avg}");
    }
}

/// SOP-1, SOP-58, SOP-59: what `object hexdump` shows is the encrypted form, at its padded length.
#[test]
fn objects_rest_encrypted() {
    let node = Node::init();
    let file = node.write("weather.csv", weather_csv());
    let report = node.json(&["ingest", "weather", file.to_str().unwrap(), "--null", "NA"]);
    let id = report["objects"][0].as_str().unwrap();
    let dump = node.json(&["object", "hexdump", id, "--length", "16"]);
    assert!(dump["hex"].as_str().unwrap().starts_with("50415245"), "{dump}");
    let size = dump["size_bytes"].as_u64().unwrap();
    assert_eq!(
        sovm_object::padme::padme(size),
        Some(size),
        "the length is no Padmé length"
    );
    assert!(
        node.json(&["object", "verify", id])["objects"][0]["findings"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

/// DESIGN §5: nothing a person named is in clear anywhere in the home.
#[test]
fn home_shows_no_planted_word() {
    let node = Node::init();
    let words = [
        "plantedtable",
        "plantedcolumn",
        "plantedvalue",
        "planteddomain",
        "plantedmesh",
        "tester",
    ];
    let csv = "plantedcolumn,other\nplantedvalue,1\n".to_owned() + &"plantedvalue,2\n".repeat(1_000);
    let file = node.write("in.csv", csv);
    node.ok(&["mesh", "create", "plantedmesh"]);
    node.ok(&["domain", "create", "planteddomain"]);
    node.ok(&["ingest", "plantedtable", file.to_str().unwrap()]);
    node.ok(&[
        "ingest",
        "plantedtable2",
        file.to_str().unwrap(),
        "--domain",
        "planteddomain",
    ]);
    assert_eq!(
        node.rows("select count(*) from plantedtable where plantedcolumn = 'plantedvalue'"),
        ["1001"]
    );
    for path in node.files() {
        let bytes = std::fs::read(&path).unwrap();
        for word in words {
            let utf16: Vec<u8> = word.encode_utf16().flat_map(u16::to_le_bytes).collect();
            for needle in [word.as_bytes(), &utf16] {
                let found = bytes.windows(needle.len()).any(|window| window == needle);
                assert!(!found, "{word} is in clear in {}", path.display());
            }
        }
    }
}

#[test]
fn init_is_safe_to_repeat() {
    let node = Node::init();
    let file = node.write("a.csv", "x\n1\n");
    node.ok(&["ingest", "t", file.to_str().unwrap()]);
    let before = node.json(&["status"])["site"].clone();
    node.fails(&["init", "--name", "other"], 1, &["tester", "not changed"]);
    let again = node.json(&["init"]);
    assert_eq!(again["created"], false);
    assert_eq!(again["site"], before);
    assert_eq!(node.rows("select x from t"), ["1"]);
}

#[test]
fn rows_of_several_ingests_add_up_and_schema_is_kept() {
    let node = Node::init();
    let first = node.write("a.csv", "id,name\n1,one\n2,two\n");
    let second = node.write("b.csv", "name,id\nthree,3\n");
    node.ok(&["ingest", "t", first.to_str().unwrap()]);
    node.ok(&["ingest", "t", second.to_str().unwrap()]);
    assert_eq!(
        node.rows("select id, name from t order by id"),
        ["1,one", "2,two", "3,three"]
    );
    assert_eq!(node.rows("select count(*) from t"), ["3"]);
}

#[test]
fn standard_input_is_read() {
    let node = Node::init();
    let run = node.run_with_input(&["ingest", "t", "-", "--format", "csv", "--json"], b"x,y\n1,a\n2,b\n");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(node.rows("select sum(x) from t"), ["3"]);
}
