//! A process that is killed at each step of publication and of collection, and what the next start finds (SOP §13.2).

use std::os::unix::process::ExitStatusExt as _;

use serde_json::Value;

use crate::harness::Node;

/// Stands in every row, and so in every plaintext form of an object.
const MARK: &str = "kestrel";
/// Enough for an object that has a file of its own.
const ROWS: u64 = 2_000;

fn csv(from: u64) -> String {
    let noise = |id: u64| id.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let rows: String = (from..from + ROWS)
        .map(|id| format!("{id},{MARK}-{:x}{:x}\n", noise(id), noise(!id)))
        .collect();
    format!("id,word\n{rows}")
}

/// Runs a command that is killed at `step`.
pub(crate) fn killed(node: &Node, step: &str, args: &[&str]) {
    let output = node.command(args).env("SOVM_CRASH_AT", step).output().unwrap();
    assert_eq!(
        output.status.signal(),
        Some(9),
        "{step} was not reached by {args:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn count(node: &Node) -> u64 {
    node.rows("select count(*) from birds")[0].parse().unwrap()
}

fn ids(report: &Value, field: &str) -> Vec<String> {
    let objects = report[field].as_array().unwrap();
    objects
        .iter()
        .map(|object| object["storage_id"].as_str().unwrap().to_owned())
        .collect()
}

fn findings(node: &Node) -> Vec<String> {
    let report = node.json(&["doctor"]);
    let findings = report["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|finding| finding["kind"].as_str().unwrap().to_owned())
        .collect()
}

/// SOP-116: nothing readable and no temporary file.
fn nothing_is_left_open(node: &Node, step: &str) {
    for path in node.files() {
        let name = path.strip_prefix(node.home()).unwrap().display().to_string();
        assert!(!name.contains("/temp/") && !name.contains(".tmp"), "{step} left {name}");
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(MARK.len()).any(|window| window == MARK.as_bytes());
        assert!(!found, "{step} left plaintext in {name}");
    }
}

/// SOP-116, SOP-242, SOP-246, SOP-247, SOP-248, SOP-249, SOP-250, SOP-251, SOP-252: a kill at each step leaves the rows
/// published once or not at all, nothing readable, and no bytes that a collection does not find; repeating the command
/// publishes them.
#[test]
fn a_kill_at_each_step_of_publication() {
    // What lies in the store afterwards, and whether the rows are published.
    let steps = [
        ("publish.encoded", 0, false),
        ("publish.noted", 0, false),
        ("store.imported", 1, false),
        ("store.flushed", 1, false),
        ("store.tagged", 1, false),
        ("publish.durable", 1, false),
        ("publish.signed", 1, false),
        ("publish.granted", 1, false),
        ("publish.committed", 0, true),
    ];
    let node = Node::init();
    let first = node.write("first.csv", csv(0));
    node.ok(&["ingest", "birds", first.to_str().unwrap()]);
    let mut rows = ROWS;
    for (number, (step, left_over, published)) in steps.into_iter().enumerate() {
        let path = node.write("more.csv", csv((number as u64 + 1) * ROWS));
        let ingest = ["ingest", "birds", path.to_str().unwrap()];
        killed(&node, step, &ingest);

        // The next start has cleaned up what it can, and knows of the rest.
        assert_eq!(count(&node), if published { rows + ROWS } else { rows }, "{step}");
        nothing_is_left_open(&node, step);
        let plan = node.json(&["gc", "--dry-run", "--after", "0s"]);
        let orphans = ids(&plan, "removed");
        assert_eq!(orphans.len(), left_over, "{step}: {plan}");
        assert_eq!(findings(&node).contains(&"orphans".to_owned()), left_over > 0, "{step}");
        // SOP-269: not before its time.
        assert_eq!(ids(&node.json(&["gc"]), "removed"), Vec::<String>::new(), "{step}");
        assert_eq!(ids(&node.json(&["gc"]), "waiting"), orphans, "{step}");
        // dvc#10585: what the dry run lists is what goes.
        let done = node.json(&["gc", "--after", "0s", "--allow-large"]);
        assert_eq!(ids(&done, "removed"), orphans, "{step}");
        let files = node.files();
        for id in &orphans {
            let left: Vec<_> = files
                .iter()
                .filter(|path| path.display().to_string().contains(id))
                .collect();
            assert!(left.is_empty(), "{step}: {left:?}");
        }
        assert_eq!(findings(&node), ["no_kit"], "{step}");
        node.ok(&["object", "verify"]);

        if !published {
            node.ok(&ingest);
        }
        rows += ROWS;
        assert_eq!(count(&node), rows, "{step}");
        assert_eq!(
            node.rows("select count(distinct id) from birds")[0],
            rows.to_string(),
            "{step}"
        );
    }
}

/// SOP-253, SOP-268: a collection that is killed goes on at the next one; the rows go last, and none is left.
#[test]
fn a_kill_during_a_collection() {
    let node = Node::init();
    let first = node.write("first.csv", csv(0));
    node.ok(&["ingest", "birds", first.to_str().unwrap()]);
    let collect = ["gc", "--after", "0s", "--allow-large"];
    for (step, bytes_left) in [("gc.released", 1), ("gc.collected", 0)] {
        let path = node.write("more.csv", csv(ROWS));
        killed(&node, "publish.signed", &["ingest", "birds", path.to_str().unwrap()]);
        let orphans = ids(&node.json(&["gc", "--dry-run", "--after", "0s"]), "removed");
        assert_eq!(orphans.len(), 1);
        killed(&node, step, &collect);
        assert_eq!(ids(&node.json(&collect), "removed").len(), bytes_left, "{step}");
        assert_eq!(findings(&node), ["no_kit"], "{step}");
        assert_eq!(count(&node), ROWS);
        node.ok(&["object", "verify"]);
    }
}

/// The watchdog: a collection that would take much of what is here says so and takes nothing.
#[test]
fn a_large_collection_needs_a_word() {
    let node = Node::init();
    let first = node.write("first.csv", csv(0));
    node.ok(&["ingest", "birds", first.to_str().unwrap()]);
    killed(&node, "publish.signed", &["ingest", "birds", first.to_str().unwrap()]);
    node.fails(
        &["gc", "--after", "0s"],
        1,
        &["more than 25 %", "nothing was removed", "--allow-large"],
    );
    assert_eq!(
        ids(&node.json(&["gc", "--dry-run", "--after", "0s"]), "removed").len(),
        1
    );
}

/// A command that fails is no crash: its object is let go, left over at once, and nothing is published.
#[test]
fn a_failed_command_leaves_nothing_open() {
    let node = Node::init();
    let good = node.write("good.csv", csv(0));
    node.ok(&["ingest", "birds", good.to_str().unwrap()]);
    // The second file fails after the rows of the first were read.
    let bad = node.write("bad.csv", "id,word\n1,a\nx,b\n");
    let run = node.run(&["ingest", "birds", good.to_str().unwrap(), bad.to_str().unwrap()]);
    run.failed(1, &["nothing was published"]);
    assert_eq!(count(&node), ROWS);
    nothing_is_left_open(&node, "a failed command");
    node.json(&["gc", "--after", "0s", "--allow-large"]);
    assert_eq!(findings(&node), ["no_kit"]);
}
