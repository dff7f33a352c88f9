//! `sovm inventory expunge`: whole processes, on a directory and on a node's own catalogue, killed at each step.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{
    crash::killed,
    editions::structures,
    harness::{Node, Run},
};

const FLOW: &str = "AG:WEATHER(1.0)";

/// A catalogue with the product `weather`: in a directory beside an empty home, or the node's own.
struct Place {
    node: Node,
    store: Option<String>,
}

impl Place {
    fn directory() -> Self {
        let node = Node::empty();
        let store = node.path("catalogue").to_str().unwrap().to_owned();
        Self::with(node, Some(store), &[])
    }

    fn own() -> Self {
        let node = Node::init();
        node.ok(&["domain", "create", "public"]);
        Self::with(node, None, &["--public-domain", "public"])
    }

    fn with(node: Node, store: Option<String>, init: &[&str]) -> Self {
        let place = Self { node, store };
        place.ok(&[&["inventory", "init"][..], init].concat());
        let product = [
            "product",
            "create",
            "weather",
            "--kind",
            "data",
            "--lifecycle",
            "revisable",
        ];
        place.ok(&product);
        place.node.write("structures.json", structures("Weather"));
        place
    }

    fn args<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        let mut args = args.to_vec();
        if let Some(store) = &self.store {
            args.extend(["--store", store]);
        }
        args
    }

    fn ok(&self, args: &[&str]) -> String {
        self.node.ok(&self.args(args))
    }

    fn json(&self, args: &[&str]) -> Value {
        self.node.json(&self.args(args))
    }

    fn run(&self, args: &[&str]) -> Run {
        self.node.run(&self.args(args))
    }

    fn killed(&self, step: &str, args: &[&str]) {
        killed(&self.node, step, &self.args(args));
    }

    /// Builds and seals an edition that adds one row to what is live; it is live at once.
    fn seal(&self, number: u64) -> String {
        let rows = format!("station,at,degrees\nJFK,2013-01-01T0{number}:00:00Z,{number}\n");
        let file = self.node.write("rows.csv", rows);
        let table = format!("{FLOW}={}", file.display());
        let mut build = vec!["edition", "build", "weather", "--table", &table];
        let first = self.json(&["edition", "list", "weather"])["editions"] == json!([]);
        match first {
            true => build.extend(["--structures", "structures.json"]),
            false => build.push("--append"),
        }
        self.ok(&build);
        let sealed = self.json(&["edition", "seal", "weather"]);
        assert_eq!(sealed["state"], "live", "{sealed}");
        sealed["edition_id"].as_str().unwrap().to_owned()
    }

    /// Two editions, the second withdrawn. It lists the data file of the first and one of its own.
    fn with_one_withdrawn(&self) -> (String, String) {
        let (first, second) = (self.seal(1), self.seal(2));
        self.ok(&["inventory", "withdraw", "weather", "--reason", "a name in it"]);
        (first, second)
    }

    /// Nothing is damaged; the expunged editions are named.
    fn expunged(&self) -> Vec<String> {
        let report = self.json(&["inventory", "verify"]);
        assert_eq!(
            (&report["findings"], &report["warnings"]),
            (&json!([]), &json!([])),
            "{report}"
        );
        texts(&report["expunged"])
    }
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn paths(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|file| file["path"].as_str().unwrap().to_owned()).collect()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files
}

/// INV-412, INV-420: in a directory. A dry run names what goes and what stays; the run says who, when and why; afterwards exactly that is
/// gone, the catalogue is sound and says so, and no command brings the edition back.
#[test]
fn an_edition_is_expunged_from_a_directory() {
    let place = Place::directory();
    let (first, second) = place.with_one_withdrawn();
    let root = PathBuf::from(place.store.as_ref().unwrap());
    let data = root.join("products/weather/data");
    let expunge = ["inventory", "expunge", "weather", &second, "--reason", "persons in it"];
    let before = files_below(&root).len();

    let dry = place.json(&[&expunge[..], &["--dry-run"]].concat());
    assert_eq!((&dry["dry_run"], &dry["state"]), (&json!(true), &json!("withdrawn")));
    assert_eq!(files_below(&data).len(), 2);
    assert_eq!(files_below(&root).len(), before, "a dry run changes nothing");

    // Without a word that it is meant, or without a reason, it is not done.
    assert_eq!(place.run(&expunge).code, 2);
    let run = place.run(&["inventory", "expunge", "weather", &second, "--yes"]);
    run.failed(2, &["INV-412", "--reason", "nothing was deleted"]);
    let live = ["inventory", "expunge", "weather", &first, "--yes", "--reason", "no"];
    place
        .run(&live)
        .failed(1, &["INV-412", "superseded", " safe: nothing was deleted", " next: "]);
    assert_eq!(files_below(&root).len(), before);

    let done = place.json(&[&expunge[..], &["--yes", "--actor", "the office"]].concat());
    assert_eq!(done["removed"], dry["removed"], "what was forecast");
    assert_eq!(done["stays"], dry["stays"]);
    assert_eq!(
        (&done["actor"], &done["reason"]),
        (&json!("the office"), &json!("persons in it"))
    );
    assert!(
        done["completed_at"].is_string() && done["bytes"].as_u64().unwrap() > 0,
        "{done}"
    );
    assert_eq!(done["scrub"].as_array().unwrap().len(), 2);
    let (removed, stays) = (paths(&done["removed"]), paths(&done["stays"]));
    assert!(removed.iter().all(|path| !root.join(path).exists()), "{removed:?}");
    assert_eq!(removed.iter().filter(|path| path.contains("/data/")).count(), 1);
    assert!(removed.contains(&format!("products/weather/{second}/manifest.json")));
    assert!(stays.len() == 1 && root.join(&stays[0]).exists(), "{stays:?}");
    assert_eq!(done["stays"][0]["listed_by"], json!([first]));
    assert!(!root.join(format!("products/weather/{second}")).exists());
    let record = std::fs::read_to_string(root.join(done["record"].as_str().unwrap())).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(
        (&record["actor"], &record["removed"][0]["path"]),
        (&json!("the office"), &done["removed"][0]["path"])
    );

    let told = place.expunged();
    assert!(
        told.len() == 1 && told[0].contains("the office: persons in it"),
        "{told:?}"
    );
    let list = place.json(&["edition", "list", "weather"]);
    let listed = list["editions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|edition| edition["edition_id"] == second);
    assert!(
        listed.unwrap()["problem"].as_str().unwrap().contains("expunged"),
        "{list}"
    );

    // Version 4 had it live: 1 is the catalogue, 2 the product, 3 and 4 the seals.
    let run = place.run(&["inventory", "correct", "weather", "--to", "4"]);
    run.failed(1, &["INV-412", "does not come back", " safe: ", " next: "]);
    place.ok(&["inventory", "retire", "weather", &second, "--window", "0s"]);
    let run = place.run(&["inventory", "reinstate", "weather", &second]);
    run.failed(1, &["INV-412", "does not come back"]);

    // A copy carries the record, and is sound without the files.
    let copy = place.node.path("copy");
    let copy = copy.to_str().unwrap();
    place.ok(&["inventory", "export", "--to", copy]);
    place.node.ok(&["inventory", "verify", "--store", copy]);
    assert!(Path::new(copy).join(done["record"].as_str().unwrap()).exists());
    let again = place.json(&[&expunge[..], &["--yes"]].concat());
    assert_eq!(
        (&again["resumed"], &again["completed_at"]),
        (&json!(true), &done["completed_at"])
    );
    assert_eq!(place.json(&["inventory", "gc", "--dry-run"])["kept"], json!([]));
}

/// INV-412: a copy that was made after an expunge is complete although a recorded edition has no files.
#[test]
fn a_withdrawn_and_expunged_edition_is_copied_as_such() {
    let place = Place::directory();
    let (_, second) = place.with_one_withdrawn();
    place.ok(&[
        "inventory",
        "expunge",
        "weather",
        &second,
        "--reason",
        "persons in it",
        "--yes",
    ]);
    let copy = place.node.path("copy");
    let copy = copy.to_str().unwrap();
    place.ok(&["inventory", "export", "--to", copy]);
    let report = place.node.json(&["inventory", "verify", "--store", copy]);
    assert_eq!(
        (&report["findings"], report["expunged"].as_array().unwrap().len()),
        (&json!([]), 1),
        "{report}"
    );
}

/// INV-412, INV-21: while an edition of the product is being built, nobody knows what it will list.
#[test]
fn nothing_is_expunged_beside_an_unsealed_edition() {
    let place = Place::directory();
    let (_, second) = place.with_one_withdrawn();
    let table = format!("{FLOW}=rows.csv");
    let build = [
        "edition",
        "build",
        "weather",
        "--table",
        &table,
        "--structures",
        "structures.json",
    ];
    let begun = place.json(&build);
    let expunge = [
        "inventory",
        "expunge",
        "weather",
        &second,
        "--reason",
        "persons in it",
        "--yes",
    ];
    place.run(&expunge).failed(
        1,
        &[
            "INV-412",
            "is being built",
            "sovm edition discard weather",
            "nothing was deleted",
        ],
    );
    place.ok(&["edition", "discard", "weather", begun["edition_id"].as_str().unwrap()]);
    place.ok(&expunge);
    assert_eq!(place.expunged().len(), 1);
}

/// INV-412: a process that is killed between any two steps leaves a catalogue that is sound and says that the expunge did not come to
/// its end; the same command goes on with it, and what it was begun for stands.
#[test]
fn a_kill_at_each_step_of_an_expunge() {
    for step in ["expunge.recorded", "expunge.data", "expunge.files", "expunge.removed"] {
        let place = Place::directory();
        let (_, second) = place.with_one_withdrawn();
        let expunge = |reason| ["inventory", "expunge", "weather", &second, "--yes", "--reason", reason];
        place.killed(step, &expunge("the first reason"));
        let report = place.json(&["inventory", "verify"]);
        assert_eq!(report["findings"], json!([]), "{step}: {report}");
        let warning = report["warnings"][0]["message"].as_str().unwrap();
        assert!(
            warning.contains("INV-412") && warning.contains("run it again"),
            "{step}: {warning}"
        );
        let done = place.json(&expunge("another one"));
        assert_eq!(
            (&done["resumed"], &done["reason"]),
            (&json!(true), &json!("the first reason")),
            "{step}"
        );
        let root = PathBuf::from(place.store.as_ref().unwrap());
        assert!(
            paths(&done["removed"]).iter().all(|path| !root.join(path).exists()),
            "{step}"
        );
        assert!(
            paths(&done["stays"]).iter().all(|path| root.join(path).exists()),
            "{step}"
        );
        assert_eq!(place.expunged().len(), 1, "{step}");
    }
}

/// INV-412, SOP-354, SOP-355, SOP-356: on a node, killed at each step: the object is gone from its store, is neither missed nor asked
/// for again, and the report keeps the four stages apart: grants of its key stay, so `--strict` says that something is open.
#[test]
fn an_edition_is_expunged_from_a_node() {
    for step in [
        "expunge.recorded",
        "expunge.marked",
        "expunge.released",
        "expunge.data",
        "expunge.removed",
    ] {
        let place = Place::own();
        let (_, second) = place.with_one_withdrawn();
        let expunge = [
            "inventory",
            "expunge",
            "weather",
            &second,
            "--yes",
            "--reason",
            "persons in it",
        ];
        let forecast = place.json(&["inventory", "expunge", "weather", &second, "--dry-run"]);
        let object = forecast["removed"]
            .as_array()
            .unwrap()
            .iter()
            .find_map(|file| file["object"].as_str());
        let object = object.unwrap().to_owned();
        let state = || {
            let list = place.json(&["object", "list"]);
            let objects = list["objects"].as_array().unwrap().clone();
            let found = objects.iter().find(|known| known["storage_id"] == object.as_str());
            found.map(|known| known["state"].as_str().unwrap().to_owned())
        };
        assert_eq!(state().as_deref(), Some("queryable"), "{step}");
        place.killed(step, &expunge);
        let done = place.json(&expunge);
        assert_eq!(done["resumed"], json!(true), "{step}");
        assert_eq!(done["removed"], forecast["removed"], "{step}");
        let stages = &done["stages"];
        assert_eq!(
            (&stages["applied"], &stages["bytes_left"]),
            (&json!(true), &json!(0)),
            "{step}: {done}"
        );
        assert_eq!(stages["keys_destroyed"], json!(0), "{step}");
        assert!(stages["keys_left"].as_u64().unwrap() > 0, "{step}");
        assert!(
            texts(&done["attention"])
                .iter()
                .any(|open| open.contains("grants of keys stay")),
            "{done}"
        );
        assert_eq!(state().as_deref(), Some("expunged"), "{step}");
        assert_eq!(place.expunged().len(), 1, "{step}");
        let doctor = place.json(&["doctor"]);
        let kinds = doctor["findings"].as_array().unwrap().iter();
        let kinds: Vec<_> = kinds.map(|finding| finding["kind"].as_str().unwrap()).collect();
        let open = ["pending_bytes", "damaged", "orphans", "absent", "unkept"];
        assert!(kinds.iter().all(|kind| !open.contains(kind)), "{step}: {doctor}");
        let status = place.json(&["status"]);
        assert_eq!(status["objects"]["pending_bytes"], json!(0), "{step}: {status}");
    }
}
