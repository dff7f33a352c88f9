//! A pipe that does not end (`sovm ingest TABLE - --every TIME`), from outside.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStderr, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{daemon::Daemon, harness::Node};

/// A command that is being fed.
struct Fed {
    child: Child,
    errors: BufReader<ChildStderr>,
    said: String,
}

impl Fed {
    fn start(node: &Node, args: &[&str]) -> Self {
        let mut child = node
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            errors: BufReader::new(child.stderr.take().unwrap()),
            child,
            said: String::new(),
        }
    }

    /// Waits until it has said this.
    fn until_said(&mut self, words: &str) {
        while !self.said.contains(words) {
            let read = self.errors.read_line(&mut self.said).unwrap();
            assert!(read > 0, "{words:?} was not said: {}", self.said);
        }
    }

    fn send(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Exit code, standard output and standard error; the pipe stays open until the command has ended.
    fn end(mut self) -> (i32, String, String) {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.errors.read_to_string(&mut self.said).unwrap();
        (self.child.wait().unwrap().code().unwrap_or(-1), out, self.said)
    }
}

fn until(node: &Node, query: &str, expected: &str) {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let run = node.run(&["sql", query, "--format", "csv"]);
        if run.code == 0 && run.stdout.lines().nth(1) == Some(expected) {
            return;
        }
        assert!(Instant::now() < deadline, "{query}: {}{}", run.stdout, run.stderr);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// SOP-274: rows of a feed are visible to other commands while it goes on, through the daemon. Bad rows are on disk by then, too.
/// Ctrl-C publishes the rest, but no half line, and is a success.
#[test]
fn a_feed_is_visible_while_it_goes_on() {
    let node = Node::init();
    let schema = node.write("schema", "n int64\nword text\n");
    let bad = node.path("bad.csv");
    let _daemon = Daemon::of(&node);
    let args = [
        "ingest",
        "sensor",
        "-",
        "--schema",
        schema.to_str().unwrap(),
        "--every",
        "1s",
        "--skip-bad-rows",
    ];
    let mut fed = Fed::start(&node, &[&args[..], &[bad.to_str().unwrap(), "--json"]].concat());
    fed.send("n,word\n1,\"two\nlines\"\nx,bad\n2,");
    until(&node, "select count(*) from sensor", "1");
    assert_eq!(std::fs::read_to_string(&bad).unwrap(), "n,word\nx,bad\n");
    fed.send("b\n3,c\n4,hal");
    until(&node, "select count(*) from sensor", "3");
    fed.send("f\n5,cut of");
    // The command reads this before it is told to stop.
    std::thread::sleep(Duration::from_millis(200));
    fed.signal("-INT");
    let (code, out, err) = fed.end();
    assert_eq!(code, 0, "{out}{err}");
    assert!(err.contains("published 1 rows in 1 objects, up to line 4"), "{err}");
    assert!(err.contains("stopping"), "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&report["rows"], &report["bad_rows"], &report["publications"]),
        (&4.into(), &1.into(), &3.into())
    );
    assert_eq!(report["created"], true);
    assert_eq!(
        node.rows("select n, word from sensor where n > 1 order by n"),
        ["2,b", "3,c", "4,half"]
    );
}

/// Without a daemon it is the same, for a table that exists; a bad row says what was published and ends the command.
#[test]
fn a_bad_row_says_what_was_published() {
    let node = Node::init();
    let first = node.write("first.csv", "n\n0\n");
    node.ok(&["ingest", "t", first.to_str().unwrap()]);
    let mut fed = Fed::start(&node, &["ingest", "t", "-", "--every", "1s"]);
    fed.send("n\n1\n");
    fed.until_said("published 1 rows in 1 objects, up to line 2");
    fed.send("2\nthree\n");
    let (code, _, err) = fed.end();
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("line 4") && err.contains("1 rows were published before, up to line 2"),
        "{err}"
    );
    assert_eq!(node.rows("select count(*) from t"), ["2"]);
}

/// The daemon that closes ends its feeds: what came is published, and the command says from where to go on.
#[test]
fn a_daemon_that_closes_ends_its_feeds() {
    let node = Node::init();
    let first = node.write("first.csv", "n\n0\n");
    node.ok(&["ingest", "t", first.to_str().unwrap()]);
    let daemon = Daemon::of(&node);
    let mut fed = Fed::start(&node, &["ingest", "t", "-", "--every", "1s"]);
    fed.send("n\n1\n");
    until(&node, "select count(*) from t", "2");
    fed.send("2\n");
    std::thread::sleep(Duration::from_millis(300));
    daemon.stop();
    let (code, _, err) = fed.end();
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("the node closes") && err.contains("2 rows were published before, up to line 3"),
        "{err}"
    );
    assert_eq!(node.rows("select count(*) from t"), ["3"]);
}

/// What cannot be a feed says so before anything is read.
#[test]
fn what_is_no_feed() {
    let node = Node::init();
    let file = node.write("a.csv", "n\n1\n");
    node.fails(
        &["ingest", "t", file.to_str().unwrap(), "--every", "1s"],
        2,
        &["standard input", "--every 60s"],
    );
    node.fails(&["ingest", "t", "-", "--every", "0s"], 2, &["a second at least"]);
    node.fails(
        &["ingest", "t", "-", "--every"],
        1,
        &["there is no table t", "--schema FILE"],
    );
}
