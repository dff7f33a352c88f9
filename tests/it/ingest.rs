//! What `sovm ingest` takes, and how much memory it takes for it.

use std::{
    io::{BufWriter, Write as _},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use crate::harness::Node;

/// Peak memory of an ingest, whatever the size of its input (DESIGN §13).
const MOST_MEMORY_KIB: u64 = 400 * 1024;

/// A quoted pattern is expanded by the command; one that finds nothing is an error.
#[test]
fn quoted_patterns_are_expanded() {
    let node = Node::init();
    std::fs::create_dir(node.path("data")).unwrap();
    for number in 0..3 {
        node.write(&format!("data/{number}.csv"), format!("a\n{number}\n"));
    }
    node.write("data/9.txt", "not ours");
    node.ok(&["ingest", "t", "data/*.csv"]);
    assert_eq!(node.rows("select a from t order by a"), ["0", "1", "2"]);
    node.ok(&["ingest", "t", "data/[01].csv", "data/2.csv"]);
    assert_eq!(node.rows("select count(*) from t"), ["6"]);
    node.fails(
        &["ingest", "t", "data/*.json"],
        1,
        &["no file matches", "nothing was published"],
    );
}

/// A file that DuckDB encrypted is published under a key of our own, and its own key is needed to read it.
#[test]
fn encrypted_parquet_of_duckdb_is_ingested() {
    let node = Node::init();
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/duckdb_objects/weather_zstd.parquet"
    );
    node.write("right.key", "0123456789abcdef0123456789abcdef");
    node.write("wrong.key", "00".repeat(32));
    node.write("no.key", "secret");
    node.fails(&["ingest", "t", file], 1, &["encrypted", "--parquet-key-file"]);
    node.fails(
        &["ingest", "t", file, "--parquet-key-file", "wrong.key"],
        1,
        &["does not open"],
    );
    node.fails(
        &["ingest", "t", file, "--parquet-key-file", "no.key"],
        1,
        &["no.key", "64 hex digits"],
    );
    node.ok(&["ingest", "t", file, "--parquet-key-file", "right.key"]);
    assert_eq!(node.rows("select count(*), count(temp) from t"), ["26115,26114"]);
}

#[test]
fn bad_rows_of_parquet_are_not_skipped() {
    let node = Node::init();
    let rows = node.write("rows.csv", "a\n1\n");
    node.ok(&["ingest", "t", rows.to_str().unwrap()]);
    let parquet = node
        .command(&["sql", "select * from t", "--format", "parquet"])
        .output()
        .unwrap();
    node.write("rows.parquet", parquet.stdout);
    node.fails(
        &["ingest", "t", "rows.parquet", "--skip-bad-rows", "bad"],
        1,
        &["--skip-bad-rows", "parquet"],
    );
    node.ok(&["ingest", "t", "rows.parquet"]);
}

/// SOP-235: a command that is killed published all of its rows or none, and one that was acknowledged published each once.
#[test]
fn a_killed_ingest_publishes_all_or_nothing() {
    const ROWS: u64 = 60_000;
    let node = Node::init();
    let rows: String = (0..ROWS).map(|row| format!("{row},name {}\n", row % 97)).collect();
    node.write("rows.csv", format!("id,name\n{rows}"));
    node.write("t.schema", "id int64\nname text\n");
    node.ok(&["table", "create", "t", "--schema", "t.schema", "--partition", "name"]);
    let mut acknowledged = 0;
    for attempt in 1..=6 {
        let mut child = node
            .command(&["ingest", "t", "rows.csv"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(attempt * 150));
        let _ = child.kill();
        acknowledged += u64::from(child.wait().unwrap().success());
        let count: u64 = node.rows("select count(*) from t")[0].parse().unwrap();
        assert!(count.is_multiple_of(ROWS), "{count}");
        let times = count / ROWS;
        assert!(
            (acknowledged..=attempt).contains(&times),
            "{times} of {acknowledged} acknowledged"
        );
        let odd = node.rows(&format!(
            "select count(*) from (select id from t group by id having count(*) <> {times})"
        ));
        assert_eq!(odd, ["0"]);
    }
    node.ok(&["ingest", "t", "rows.csv"]);
}

/// SOP-236, SOP-271: an ingest of any size stays within its memory, and its objects within their sizes. 256 MiB, or what
/// `SOVM_TEST_INGEST_MIB` says; the peak is printed.
#[test]
fn memory_of_an_ingest_is_bounded() {
    let mib = std::env::var("SOVM_TEST_INGEST_MIB").map_or(256, |mib| mib.parse().unwrap());
    let node = Node::init();
    let path = node.path("large.csv");
    write_csv(&path, mib << 20);
    let begun = Instant::now();
    let mut child = node
        .command(&["ingest", "large", "large.csv", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut peak = 0;
    let status = loop {
        // The peak is the kernel's own, so the last look before the end misses hardly anything.
        peak = peak.max(peak_memory_kib(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success());
    let _ = writeln!(
        std::io::stderr(),
        "ingest of {mib} MiB of CSV: peak {} MiB, {:.1} s",
        peak / 1024,
        begun.elapsed().as_secs_f64()
    );
    if cfg!(target_os = "linux") {
        assert!(peak > 0 && peak <= MOST_MEMORY_KIB, "{} MiB", peak / 1024);
    }
    let objects = node.json(&["object", "list", "--table", "large"])["objects"]
        .as_array()
        .unwrap()
        .clone();
    let mut sizes: Vec<u64> = objects
        .iter()
        .map(|object| object["size_bytes"].as_u64().unwrap())
        .collect();
    sizes.sort_unstable();
    let fits = |size: &u64| (16 << 20..=64 << 20).contains(size);
    // The last object has what was left.
    assert!(sizes.iter().skip(1).all(fits), "{sizes:?}");
    assert_eq!(sizes.len() > 1, mib >= 128, "{sizes:?}");
}

/// Rows as measuring devices write them: a counter, a place, a time, and readings that hardly compress.
fn write_csv(path: &Path, bytes: u64) {
    let mut out = BufWriter::new(std::fs::File::create(path).unwrap());
    let header = "id,station,at,x,y,z,note\n";
    out.write_all(header.as_bytes()).unwrap();
    let mut written = header.len() as u64;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut row = String::new();
    for id in 0_u64.. {
        use std::fmt::Write as _;
        row.clear();
        let minute = id % 60;
        let hour = id / 60 % 24;
        let _ = writeln!(
            row,
            "{id},station {},2026-11-{:02}T{hour:02}:{minute:02}:00Z,{},{:.3},{},{:016x}",
            random() % 500,
            id / 1_440 % 30 + 1,
            random() % 1_000_000,
            (random() % 100_000_000) as f64 / 1_000.0,
            random() % 10_000_000_000,
            random(),
        );
        out.write_all(row.as_bytes()).unwrap();
        written += row.len() as u64;
        if written >= bytes {
            break;
        }
    }
    out.flush().unwrap();
}

/// The most memory the process had so far, where the system says so.
fn peak_memory_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
