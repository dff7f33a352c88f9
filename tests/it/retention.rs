//! `sovm inventory retention`: the windows a catalogue keeps things for, and the commands that go by them.

use serde_json::{Value, json};

use crate::{editions::structures, harness::Node};

const DAY: u64 = 24 * 60 * 60;

struct Catalogue {
    node: Node,
    store: String,
}

impl Catalogue {
    fn init() -> Self {
        let node = Node::empty();
        let store = node.path("catalogue").to_str().unwrap().to_owned();
        let catalogue = Self { node, store };
        catalogue.ok(&["inventory", "init"]);
        catalogue
    }

    fn args<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        [args, &["--store", &self.store]].concat()
    }

    fn ok(&self, args: &[&str]) -> String {
        self.node.ok(&self.args(args))
    }

    fn json(&self, args: &[&str]) -> Value {
        self.node.json(&self.args(args))
    }

    fn windows(&self) -> Value {
        self.json(&["inventory", "retention"])
    }

    fn fails(&self, args: &[&str], words: &[&str]) {
        self.node.fails(&self.args(args), 1, words);
    }
}

/// INV-418, INV-419: without a word the defaults count; what is set is one version with who and why, and the rest stays.
#[test]
fn windows_are_set_by_a_version() {
    let catalogue = Catalogue::init();
    let before = catalogue.windows();
    assert_eq!(
        (&before["configured"], &before["data_secs"]),
        (&json!(false), &json!(35 * DAY))
    );
    let shown = catalogue.ok(&["inventory", "retention"]);
    assert!(shown.contains("35 days") && shown.contains("by default"), "{shown}");

    let set = [
        "inventory",
        "retention",
        "--backup",
        "10d",
        "--data",
        "20d",
        "--reason",
        "less disk",
    ];
    let changed = catalogue.json(&set);
    assert_eq!(
        (&changed["kind"], &changed["reason"]),
        (&json!("describe"), &json!("less disk"))
    );
    let after = catalogue.windows();
    assert_eq!((&after["configured"], &after["seq"]), (&json!(true), &changed["seq"]));
    assert_eq!(
        (&after["backup_secs"], &after["data_secs"]),
        (&json!(10 * DAY), &json!(20 * DAY))
    );
    assert_eq!(after["versions_secs"], before["versions_secs"]);
    catalogue.fails(&set, &["already", " safe: ", " next: "]);
    catalogue.ok(&["inventory", "verify"]);
}

/// INV-418, INV-419: each inequality between the windows is checked when they are set, and all that fail are named at once.
#[test]
fn windows_that_contradict_each_other_are_refused() {
    let catalogue = Catalogue::init();
    for (set, words) in [
        (&["--backup", "36d"][..], &["INV-418", "backups are kept"][..]),
        (&["--tombstone", "34d"][..], &["INV-418", "longer than tombstones"][..]),
        (&["--versions", "35d"][..], &["INV-419", "and one day"][..]),
        (&["--longest-poll", "59d"][..], &["INV-419", "from poll to fetched"][..]),
        (&["--newest-versions", "1"][..], &["INV-419", "at least 2"][..]),
        (
            &["--backup", "36d", "--newest-versions", "0"][..],
            &["INV-418", "INV-419"][..],
        ),
    ] {
        let args = [&["inventory", "retention"][..], set].concat();
        catalogue.fails(
            &args,
            &[words, &["no version was written", "sovm inventory retention"]].concat(),
        );
    }
    let after = catalogue.windows();
    assert_eq!((&after["configured"], &after["seq"]), (&json!(false), &json!(1)));
}

/// INV-203, INV-413, INV-418: `retire` and `gc` go by what the catalogue says.
#[test]
fn commands_go_by_the_windows() {
    let catalogue = Catalogue::init();
    catalogue.ok(&[
        "product",
        "create",
        "weather",
        "--kind",
        "data",
        "--lifecycle",
        "revisable",
    ]);
    catalogue
        .node
        .write("rows.csv", "station,at,degrees\nJFK,2013-01-01T05:00:00Z,1\n");
    catalogue.node.write("structures.json", structures("Weather"));
    let table = "AG:WEATHER(1.0)=rows.csv";
    catalogue.ok(&[
        "edition",
        "build",
        "weather",
        "--table",
        table,
        "--structures",
        "structures.json",
    ]);
    let sealed = catalogue.json(&["edition", "seal", "weather"]);
    let edition = sealed["edition_id"].as_str().unwrap();
    let begun = catalogue.json(&["edition", "build", "weather", "--append", "--table", table]);
    catalogue.ok(&["edition", "discard", "weather", begun["edition_id"].as_str().unwrap()]);
    catalogue.ok(&["inventory", "withdraw", "weather"]);

    catalogue.fails(&["inventory", "retire", "weather", edition], &["INV-203", "--window"]);
    let planned = || {
        catalogue.json(&["inventory", "gc", "--dry-run"])["deleted"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(planned(), 0, "the discarded edition's file is too young");
    let none = ["--backup", "0s", "--data", "0s", "--edition", "0s"];
    catalogue.ok(&[&["inventory", "retention"][..], &none].concat());
    // The windows are over a moment after they began.
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(planned(), 1, "now it is old enough");
    catalogue.ok(&["inventory", "retire", "weather", edition]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(planned() > 1, "and so is the retired edition");
}

/// INV-418: a catalogue of a node keeps them in its own chain.
#[test]
fn a_node_keeps_its_windows() {
    let node = Node::init();
    node.ok(&["inventory", "init"]);
    node.ok(&["inventory", "retention", "--data", "40d", "--reason", "more time"]);
    let shown = node.json(&["inventory", "retention"]);
    assert_eq!(
        (&shown["configured"], &shown["data_secs"]),
        (&json!(true), &json!(40 * DAY))
    );
    node.fails(&["inventory", "retention", "--backup", "41d"], 1, &["INV-418"]);
    node.ok(&["inventory", "verify"]);
}
