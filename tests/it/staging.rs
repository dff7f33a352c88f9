//! Rows on their way into objects: in memory, nowhere in clear, and in one object once they were acknowledged (SOP §13.1).

use std::{
    io::Write as _,
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use crate::{daemon::Daemon, harness::Node};

/// Starts an ingest from a pipe that stays open, and gives it `rows`.
fn feed(node: &Node, temp: &Path, table: &str, rows: &str) -> Child {
    let mut child = node
        .command(&["ingest", table, "-", "--format", "csv"])
        .env("TMPDIR", temp)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let input = child.stdin.as_mut().unwrap();
    input.write_all(rows.as_bytes()).unwrap();
    input.flush().unwrap();
    child
}

fn nothing_is_in_clear(node: &Node, temp: &Path) {
    let inside = std::fs::read_dir(temp).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = inside.collect();
    assert!(files.is_empty(), "files outside the home: {files:?}");
    files.extend(node.files());
    for path in files {
        // A temporary file may be gone by now.
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let place = path.display();
        let found = bytes.windows(12).any(|window| window == b"plantedvalue");
        assert!(!found, "a value is in {place}");
        // Compressed pages would not show a word; the ends of plain Parquet show whatever the codec.
        assert!(!bytes.starts_with(b"PAR1") && !bytes.ends_with(b"PAR1"), "{place}");
    }
}

fn names(node: &Node) -> Vec<String> {
    let mut names: Vec<_> = node.files().iter().map(|path| path.display().to_string()).collect();
    names.sort();
    names
}

/// SOP-116, SOP-117, SOP-233, SOP-234: while rows gather, are encoded and encrypted, no plain byte and no temporary file is
/// anywhere. Killed in the middle, before it acknowledged, the ingest leaves the home as it was and publishes nothing.
#[test]
fn a_killed_ingest_leaves_nothing() {
    let node = Node::init();
    let temp = node.path("temp");
    std::fs::create_dir(&temp).unwrap();
    let first = node.write("first.csv", "n,word\n0,first\n");
    node.ok(&["ingest", "plantedtable", first.to_str().unwrap()]);
    let before = names(&node);
    let rows: String = (1..60_000).map(|n| format!("{n},plantedvalue-{n}\n")).collect();
    // Into a table that exists, so that rows are encoded as they come, and into a new one, whose input is spooled.
    for table in ["plantedtable", "another"] {
        let mut child = feed(&node, &temp, table, &format!("n,word\n{rows}"));
        std::thread::sleep(Duration::from_millis(500));
        assert!(
            child.try_wait().unwrap().is_none(),
            "the ingest did not wait for its input"
        );
        nothing_is_in_clear(&node, &temp);
        child.kill().unwrap();
        child.wait().unwrap();
        nothing_is_in_clear(&node, &temp);
        assert_eq!(node.rows("select count(*) from plantedtable"), ["1"]);
        assert_eq!(names(&node), before, "{table}");
    }
}

/// SOP-234, SOP-235: whatever was acknowledged before a kill is there after it, each row once and in one object; what was not
/// acknowledged is not.
#[test]
fn acknowledged_rows_are_there_once() {
    let node = Node::init();
    let temp = node.path("temp");
    std::fs::create_dir(&temp).unwrap();
    let mut acknowledged = 0;
    for round in 0..4_u64 {
        let daemon = Daemon::of(&node);
        let rows: String = (0..50).map(|n| format!("{}\n", round * 1_000 + n)).collect();
        let file = node.write("in.csv", format!("n\n{rows}"));
        let report = node.json(&["ingest", "t", file.to_str().unwrap()]);
        acknowledged += report["rows"].as_u64().unwrap();
        // Another one is in the middle when the node dies.
        let mut open = feed(&node, &temp, "t", &format!("n\n{}", "5000\n".repeat(2_000)));
        std::thread::sleep(Duration::from_millis(50 * round));
        daemon.kill();
        // Its input never ended in order. (Were it closed, a command that had not found the daemon yet would publish by itself.)
        let _ = open.kill();
        let _ = open.wait();
    }
    assert_eq!(acknowledged, 200);
    assert_eq!(node.rows("select count(*), count(distinct n) from t"), ["200,200"]);
    let objects = node.json(&["object", "list"])["objects"].as_array().unwrap().clone();
    let stated: u64 = objects.iter().filter_map(|object| object["rows_stated"].as_u64()).sum();
    assert_eq!((objects.len(), stated), (4, 200));
}

/// SOP-52, SOP-78, SOP-79: nothing is deduplicated, and no hash over plaintext exists to do it with: the same file twice makes two
/// objects, and the hashes of the file and of its lines are nowhere in the home.
#[test]
fn no_hash_of_the_input_is_kept() {
    let node = Node::init();
    let text = "n,word\n1,plantedvalue\n2,plantedvalue-two\n";
    let file = node.write("in.csv", text);
    let [one, two] = [0, 1].map(|_| node.json(&["ingest", "t", file.to_str().unwrap()])["objects"][0].clone());
    assert_ne!(one, two);
    assert_eq!(node.rows("select count(*), count(distinct n) from t"), ["4,2"]);
    let hashed = [
        text,
        "1,plantedvalue",
        "2,plantedvalue-two",
        "plantedvalue",
        "plantedvalue-two",
    ];
    let shown = node.ok(&["object", "show", one.as_str().unwrap(), "--json"]);
    for path in node.files() {
        let bytes = std::fs::read(&path).unwrap();
        for input in hashed {
            let hash = blake3::hash(input.as_bytes());
            for needle in [&hash.as_bytes()[..16], &hash.to_hex().as_bytes()[..16]] {
                let found = bytes.windows(needle.len()).any(|window| window == needle);
                assert!(!found, "the hash of {input:?} is in {}", path.display());
            }
            assert!(!shown.contains(&hash.to_hex()[..16]));
        }
    }
}
