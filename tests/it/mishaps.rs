//! What goes wrong around a node while it works: an old catalogue put back, columns and files that change under an ingest.

use std::{
    io::Write as _,
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use crate::{daemon::Daemon, harness::Node};

fn rows(from: u64, to: u64) -> String {
    let rows: String = (from..to).map(|n| format!("{n},{}\n", n % 7)).collect();
    format!("n,v\n{rows}")
}

/// SOP-269, SOP-270: a catalogue that was put back lacks entries whose bytes are here. Nothing is collected, neither at once nor
/// after more commits hid the gap, and no flag but its own lifts that.
#[test]
fn an_old_catalogue_never_costs_an_object() {
    let node = Node::init();
    let ingest = |name: &str, from: u64| {
        let file = node.write(name, rows(from, from + 1_000));
        node.ok(&["ingest", "t", file.to_str().unwrap()]);
    };
    ingest("a.csv", 0);
    let catalog = node.home().join("catalog.redb");
    let old = std::fs::read(&catalog).unwrap();
    ingest("b.csv", 1_000);
    std::fs::write(&catalog, old).unwrap();

    let refused = |flags: &[&str]| node.fails(&[&["gc", "--after", "0s"], flags].concat(), 1, &["older copy"]);
    refused(&[]);
    refused(&["--allow-large"]);
    // These commits take the place of the lost ones in the count.
    for round in 2..6 {
        ingest("more.csv", round * 1_000);
    }
    refused(&[]);
    refused(&["--allow-large"]);
    node.fails(&["doctor"], 1, &[]);
    assert_eq!(node.rows("select count(*) from t"), ["5000"]);

    // Whoever knows that nothing is missed says so, once.
    node.ok(&["gc", "--after", "0s", "--allow-large", "--allow-restored"]);
    node.ok(&["doctor"]);
    assert_eq!(node.rows("select count(*) from t"), ["5000"]);
    node.ok(&["object", "verify"]);
}

/// SOP-14: rows read for columns that are no more are not published: their values would be shown as nothing.
#[test]
fn columns_changed_under_an_ingest_stop_it() {
    let node = Node::init();
    let file = node.write("t.csv", rows(0, 10));
    node.ok(&["ingest", "t", file.to_str().unwrap()]);
    let _daemon = Daemon::of(&node);
    let mut ingest = node
        .command(&["ingest", "t", "-", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let input = ingest.stdin.as_mut().unwrap();
    input.write_all(rows(10, 50_000).as_bytes()).unwrap();
    // The daemon has begun to read; the columns it reads for are settled.
    std::thread::sleep(Duration::from_millis(500));
    node.ok(&["table", "drop-column", "t", "v"]);
    node.ok(&["table", "add-column", "t", "v", "int64"]);
    drop(ingest.stdin.take());
    let output = ingest.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("got other columns") && errors.contains("run the same command again"),
        "{errors}"
    );
    assert_eq!(node.rows("select count(*) from t"), ["10"]);
}

/// A file that is written to while it is read is no input: half of what was and half of what came would look like a whole.
#[test]
fn a_file_changed_under_an_ingest_stops_it() {
    let node = Node::init();
    let path = node.write("t.csv", rows(0, 200_000));
    let done = AtomicBool::new(false);
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = std::fs::File::options().append(true).open(&path).unwrap();
            let mut n = 200_000;
            while !done.load(Ordering::Relaxed) {
                file.write_all(format!("{n},1\n").as_bytes()).unwrap();
                n += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let run = node.run(&["ingest", "t", path.to_str().unwrap()]);
        done.store(true, Ordering::Relaxed);
        run
    });
    run.failed(1, &["changed while it was read", "nothing was published"]);
    node.ok(&["ingest", "t", path.to_str().unwrap()]);
}
