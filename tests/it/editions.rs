//! Products and editions in a plain directory: whole processes, without a node.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{Node, Run};

const FLOW: &str = "AG:WEATHER(1.0)";
const ROWS: &str = "station,at,degrees\nJFK,2013-01-01T05:00:00Z,3.5\nLGA,2013-01-01T05:00:00Z,NA\n";
const MORE: &str = "station,at,degrees\nEWR,2013-01-01T06:00:00Z,4\n";

struct Catalogue {
    node: Node,
    store: String,
}

impl Catalogue {
    fn init(arguments: &[&str]) -> Self {
        let node = Node::empty();
        let store = node.path("catalogue").to_str().unwrap().to_owned();
        let catalogue = Self { node, store };
        catalogue.ok(&[&["inventory", "init"][..], arguments].concat());
        catalogue
    }

    /// With the product `weather` and the files of its first edition.
    fn with_product(arguments: &[&str]) -> Self {
        let catalogue = Self::init(arguments);
        catalogue.ok(&[
            "product",
            "create",
            "weather",
            "--kind",
            "data",
            "--lifecycle",
            "revisable",
        ]);
        catalogue.node.write("rows.csv", ROWS);
        catalogue.node.write("more.csv", MORE);
        catalogue.node.write("structures.json", structures("Weather"));
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

    fn run(&self, args: &[&str]) -> Run {
        self.node.run(&self.args(args))
    }

    /// A refusal: exit code 1, the words, what is safe, and a next step; and no version was written.
    fn refuses(&self, args: &[&str], words: &[&str]) {
        let before = self.newest();
        self.run(args).failed(1, &[words, &[" safe: ", " next: "]].concat());
        assert_eq!(self.newest(), before, "{args:?} wrote a version");
    }

    fn newest(&self) -> u64 {
        self.json(&["inventory", "show"])["seq"].as_u64().unwrap()
    }

    fn build(&self, args: &[&str]) -> Value {
        self.json(&[&["edition", "build", "weather"][..], args].concat())
    }

    /// The first edition, sealed.
    fn first(&self) -> String {
        let table = format!("{FLOW}=rows.csv");
        self.build(&["--table", &table, "--null", "NA", "--structures", "structures.json"]);
        let sealed = self.json(&["edition", "seal", "weather"]);
        sealed["edition_id"].as_str().unwrap().to_owned()
    }

    fn states(&self) -> Vec<(String, String)> {
        let report = self.json(&["edition", "list", "weather"]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let editions = report["editions"].as_array().unwrap().iter();
        editions
            .map(|edition| (text(&edition["edition_id"]), text(&edition["state"])))
            .collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(&self.store).join(name)
    }

    fn sound(&self) {
        let report = self.json(&["inventory", "verify"]);
        assert_eq!(
            (&report["findings"], &report["warnings"]),
            (&json!([]), &json!([])),
            "{report}"
        );
    }
}

/// A dataflow, its data structure, and what that needs.
pub(crate) fn structures(name: &str) -> String {
    let urn = |class: &str, rest: &str| format!("urn:sdmx:org.sdmx.infomodel.{class}=AG:{rest}");
    let named = |id: &str| json!({"id": id, "agencyID": "AG", "version": "1.0", "names": {"en": name}});
    let concept = |id: &str| urn("conceptscheme.Concept", &format!("CS(1.0).{id}"));
    let (mut scheme, mut structure, mut flow) = (named("CS"), named("DSD"), named("WEATHER"));
    scheme["concepts"] = ["STATION", "TIME_PERIOD", "OBS_VALUE"]
        .map(|id| json!({"id": id, "names": {"en": id}}))
        .to_vec()
        .into();
    structure["dataStructureComponents"] = json!({
        "dimensionList": {
            "dimensions": [{"id": "STATION", "position": 0, "conceptIdentity": concept("STATION"),
                            "localRepresentation": {"format": {"dataType": "String"}}}],
            "timeDimension": {"id": "TIME_PERIOD", "conceptIdentity": concept("TIME_PERIOD"),
                              "localRepresentation": {"format": {"dataType": "ObservationalTimePeriod"}}},
        },
        "measureList": {"measures": [{"id": "OBS_VALUE", "conceptIdentity": concept("OBS_VALUE"),
                                      "localRepresentation": {"format": {"dataType": "Double"}}}]},
    });
    flow["structure"] = urn("datastructure.DataStructure", "DSD(1.0)").into();
    json!({
        "meta": {"id": "T", "prepared": "2026-01-01T00:00:00Z", "sender": {"id": "t"}},
        "data": {"conceptSchemes": [scheme], "dataStructures": [structure], "dataflows": [flow]},
    })
    .to_string()
}

#[test]
fn products_are_created_and_listed() {
    let catalogue = Catalogue::init(&[]);
    let create = [
        "product",
        "create",
        "weather",
        "--kind",
        "data",
        "--lifecycle",
        "revisable",
        "--title",
        "Weather by hour",
    ];
    let written = catalogue.json(&[&create[..], &["--reason", "asked for", "--actor", "ann"]].concat());
    assert_eq!(
        (&written["kind"], &written["seq"], &written["actor"]),
        (&"describe".into(), &2.into(), &"ann".into())
    );
    catalogue.refuses(&create, &["weather", "already"]);
    catalogue.ok(&[
        "product",
        "create",
        "codes",
        "--kind",
        "structure",
        "--lifecycle",
        "final",
    ]);
    let listed = catalogue.json(&["product", "list"]);
    let field = |index: usize, name: &str| listed["products"][index][name].clone();
    assert_eq!(
        [field(0, "product_id"), field(0, "kind"), field(0, "lifecycle")],
        ["codes", "structure", "final"]
    );
    assert_eq!(
        [field(1, "product_id"), field(1, "title")],
        ["weather", "Weather by hour"]
    );
    assert_eq!(field(1, "editions"), 0);
    assert!(catalogue.ok(&["product", "list"]).contains("Weather by hour"));
    // A product nobody created has no editions, and nothing is made for it.
    for args in [
        &["edition", "build", "wether"][..],
        &["edition", "seal", "wether"],
        &["edition", "list", "wether"],
    ] {
        catalogue.refuses(args, &["wether", "sovm product create wether"]);
    }
    assert!(!catalogue.path("products").exists());
    catalogue.sound();
    for bad in ["..", "a/b", ""] {
        let run = catalogue.run(&["product", "create", bad, "--kind", "data", "--lifecycle", "final"]);
        assert_eq!(run.code, 2, "{bad}: {}", run.stderr);
    }
}

/// INV-21, INV-26, INV-38, INV-57, INV-60, INV-397: an edition is begun from the live one, once; it is resumed or
/// discarded, and carries forward what it is not given anew.
#[test]
fn editions_are_built_on_the_live_one() {
    let catalogue = Catalogue::with_product(&[]);
    catalogue.refuses(
        &["edition", "seal", "weather"],
        &["INV-57", "sovm edition build weather"],
    );
    let first = catalogue.first();
    assert_eq!(catalogue.states(), [(first.clone(), "live".to_owned())]);
    let table = format!("{FLOW}=more.csv");
    // Whether rows stay is never guessed, and nothing of what was refused is sealed.
    catalogue.refuses(
        &["edition", "build", "weather", "--table", &table],
        &["2 rows already", "no edition was begun", "--append"],
    );
    catalogue.build(&[]);
    catalogue.refuses(
        &["edition", "build", "weather"],
        &["INV-397", "--resume", "sovm edition discard weather"],
    );
    let built = catalogue.build(&[
        "--resume",
        "--append",
        "--table",
        &table,
        "--file",
        "notes.txt=more.csv",
    ]);
    assert_eq!(
        (&built["previous"], &built["resumed"]),
        (&first.as_str().into(), &true.into())
    );
    assert_eq!(
        (&built["tables"][0]["rows"], &built["tables"][0]["rows_before"]),
        (&3.into(), &2.into())
    );
    assert_eq!(built["files"], json!(["notes.txt"]));
    let second = built["edition_id"].as_str().unwrap().to_owned();
    assert_eq!(catalogue.states()[1], (second.clone(), "unsealed".to_owned()));
    assert_eq!(
        catalogue.json(&["product", "list"])["products"][0]["unsealed"],
        second.as_str()
    );
    catalogue.refuses(
        &["edition", "check", "weather", &second],
        &["INV-58", "sovm edition seal weather"],
    );
    catalogue.refuses(&["edition", "copy", "weather", &second, "--to", "mirror"], &["INV-58"]);
    catalogue.ok(&["edition", "discard", "weather", &second]);
    catalogue.refuses(&["edition", "discard", "weather", &first], &["INV-60", "sealed"]);
    catalogue.refuses(&["edition", "discard", "weather", &second], &["no edition"]);
    let again = "01980000-0000-7000-8000-00000000000a";
    let built = catalogue.build(&["--replace", "--table", &table, "--edition", again]);
    assert_eq!(
        (&built["edition_id"], &built["tables"][0]["rows"]),
        (&again.into(), &1.into())
    );
    let sealed = catalogue.json(&["edition", "seal", "weather", "--reason", "only Newark"]);
    assert_eq!(
        (&sealed["state"], &sealed["edition_id"]),
        (&"live".into(), &again.into())
    );
    assert_eq!(
        catalogue.json(&["inventory", "log", "--limit", "1"])["versions"][0]["reason"],
        "only Newark"
    );
    let states = catalogue.states();
    assert!(states.contains(&(again.to_owned(), "live".to_owned())), "{states:?}");
    assert!(states.contains(&(first, "superseded".to_owned())), "{states:?}");
    catalogue.sound();
}

/// INV-195, INV-196: while the embargo is on a sealed edition waits, with a time or without; while it is off there is
/// nothing to wait for, and a time is refused before anything is sealed.
#[test]
fn a_seal_waits_while_the_embargo_is_on() {
    let catalogue = Catalogue::with_product(&[]);
    let table = format!("{FLOW}=rows.csv");
    catalogue.build(&["--table", &table, "--null", "NA", "--structures", "structures.json"]);
    let seal = ["edition", "seal", "weather", "--release-at", "2099-01-01T08:30:00Z"];
    catalogue.refuses(&seal, &["INV-195", "sovm inventory embargo on"]);
    assert_eq!(catalogue.states()[0].1, "unsealed");
    catalogue.ok(&["inventory", "embargo", "on"]);
    let sealed = catalogue.json(&seal);
    assert_eq!(
        (&sealed["state"], &sealed["release_at"]),
        (&"embargoed".into(), &"2099-01-01T08:30:00Z".into())
    );
    let listed = catalogue.json(&["edition", "list"]);
    assert_eq!(listed["editions"][0]["release_at"], "2099-01-01T08:30:00Z");
    let due = catalogue.json(&["inventory", "release-due"]);
    assert_eq!((&due["seq"], &due["refused"]), (&Value::Null, &json!([])));
    catalogue.ok(&[
        "inventory",
        "release",
        "weather",
        sealed["edition_id"].as_str().unwrap(),
    ]);
    assert_eq!(catalogue.states()[0].1, "live");
    catalogue.sound();
}

/// INV-72: the same rows have the same fingerprint from CSV, NDJSON and Parquet; a column without a stable text is
/// refused, and so is a file that is not there, before an edition is begun.
#[test]
fn rows_come_from_files_of_every_format() {
    let catalogue = Catalogue::with_product(&[]);
    let fingerprint = |file: &str, begin: &[&str]| {
        let table = format!("{FLOW}={file}");
        catalogue.build(&[&["--null", "NA", "--replace", "--table", &table], begin].concat());
        let sealed = catalogue.json(&["edition", "seal", "weather"]);
        sealed["tables"][0]["fingerprint"].as_str().unwrap().to_owned()
    };
    let from_csv = fingerprint("rows.csv", &["--structures", "structures.json"]);
    assert!(from_csv.ends_with(":2"), "{from_csv}");
    catalogue.node.write(
        "rows.ndjson",
        "{\"station\": \"JFK\", \"at\": \"2013-01-01T05:00:00Z\", \"degrees\": 3.5}\n\
         {\"station\": \"LGA\", \"at\": \"2013-01-01T05:00:00Z\", \"degrees\": null}\n",
    );
    assert_eq!(fingerprint("rows.ndjson", &[]), from_csv);
    // The data file that was written is Parquet, and is taken as it is.
    let data = catalogue.path("products/weather/data/WEATHER");
    let stored = std::fs::read_dir(&data).unwrap().next().unwrap().unwrap().path();
    let bytes = std::fs::read(&stored).unwrap();
    catalogue.node.write("rows.parquet", &bytes);
    assert_eq!(fingerprint("rows.parquet", &[]), from_csv);
    let copies = std::fs::read_dir(&data)
        .unwrap()
        .filter(|file| std::fs::read(file.as_ref().unwrap().path()).unwrap() == bytes);
    assert_eq!(copies.count(), 3, "the same bytes each time, under a fresh name");
    catalogue.refuses(
        &[
            "edition",
            "build",
            "weather",
            "--replace",
            "--table",
            "AG:WEATHER(1.0)=none.csv",
        ],
        &["none.csv"],
    );
    catalogue.refuses(
        &["edition", "build", "weather", "--structures", "none.json"],
        &["none.json"],
    );
    catalogue.refuses(
        &["edition", "build", "weather", "--structures", "rows.csv"],
        &["rows.csv", "SDMX-JSON"],
    );
    assert!(catalogue.states().iter().all(|(_, state)| state != "unsealed"));
    catalogue.node.write("t.csv", "t,x\n1,2\n");
    catalogue.refuses(
        &[
            "edition",
            "build",
            "weather",
            "--replace",
            "--table",
            "AG:WEATHER(1.0)=t.csv",
        ],
        &["INV-72", "\"t\""],
    );
    assert_eq!(
        catalogue
            .run(&["edition", "build", "weather", "--table", "rows.csv"])
            .code,
        2
    );
}

/// INV-87, INV-88: an edition is not sealed with a reference that resolves nowhere, nor with two artefacts of one URN.
#[test]
fn structures_are_closed_and_one_of_each() {
    let catalogue = Catalogue::with_product(&[]);
    let table = format!("{FLOW}=rows.csv");
    catalogue.build(&["--table", &table, "--null", "NA"]);
    catalogue.refuses(&["edition", "seal", "weather"], &["INV-87", "--structures"]);
    catalogue.build(&["--resume", "--structures", "structures.json"]);
    catalogue.node.write("other.json", structures("Another name"));
    let other = ["edition", "build", "weather", "--resume", "--structures", "other.json"];
    catalogue.refuses(&other, &["--replace-structures"]);
    let built = catalogue.json(&[&other[..], &["--replace-structures"]].concat());
    assert_eq!(built["structures"].as_array().unwrap().len(), 1);
    catalogue.ok(&["edition", "seal", "weather"]);
    catalogue.sound();
}

/// INV-105, INV-107, INV-117, INV-401: a check names the file and the rule; each profile reads what it says it reads.
#[test]
fn checks_find_what_their_profile_reads() {
    let catalogue = Catalogue::with_product(&[]);
    let first = catalogue.first();
    let check = |profile: &str| catalogue.run(&["edition", "check", "weather", &first, "--profile", profile]);
    for profile in ["publish", "receive", "open"] {
        let run = check(profile);
        assert_eq!(run.code, 0, "{profile}: {}", run.stdout);
        assert!(run.stdout.starts_with("sound: weather "), "{}", run.stdout);
    }
    let data = catalogue.path("products/weather/data/WEATHER");
    let stored = std::fs::read_dir(&data).unwrap().next().unwrap().unwrap().path();
    let good = std::fs::read(&stored).unwrap();
    let mut bad = good.clone();
    bad[10] ^= 1;
    std::fs::write(&stored, &bad).unwrap();
    let run = check("publish");
    run.failed(1, &["publish check", " next: "]);
    assert!(
        run.stdout.contains("data/WEATHER/") && run.stdout.contains("INV-"),
        "{}",
        run.stdout
    );
    assert_eq!(check("open").code, 0, "the open profile reads sizes");
    std::fs::write(&stored, &good).unwrap();
    let manifest = catalogue.path(&format!("products/weather/{first}/manifest.json"));
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("\"weather\"", "\"wether\"")).unwrap();
    check("open").failed(1, &["open check"]);
    std::fs::write(&manifest, text).unwrap();
    catalogue.refuses(
        &["edition", "check", "weather", "01980000-0000-7000-8000-000000000001"],
        &["no edition"],
    );
    catalogue.sound();
}

/// INV-5, INV-6, INV-213, INV-391, INV-417: a copy of an edition, of the catalogue, and of what the public may see,
/// each verified as it is read; nothing of an embargoed edition is in the last.
#[test]
fn editions_and_catalogues_are_copied() {
    let catalogue = Catalogue::with_product(&[]);
    let first = catalogue.first();
    let copied = catalogue.json(&["edition", "copy", "weather", &first, "--to", "mirror"]);
    assert_eq!((&copied["files"], &copied["files_present"]), (&3.into(), &0.into()));
    let manifest = format!("products/weather/{first}/manifest.json");
    let mirrored = std::fs::read(catalogue.node.path("mirror").join(&manifest)).unwrap();
    assert_eq!(mirrored, std::fs::read(catalogue.path(&manifest)).unwrap());
    assert_eq!(
        catalogue.json(&["edition", "copy", "weather", &first, "--to", "mirror"])["files_present"],
        3
    );

    catalogue.ok(&["inventory", "embargo", "on"]);
    catalogue.ok(&[
        "product",
        "create",
        "secret",
        "--kind",
        "data",
        "--lifecycle",
        "revisable",
    ]);
    let table = format!("{FLOW}=more.csv");
    catalogue.build(&["--append", "--table", &table]);
    let second = catalogue.json(&["edition", "seal", "weather"])["edition_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let whole = catalogue.json(&["inventory", "export", "--to", "whole"]);
    assert_eq!(
        (&whole["versions"], &whole["editions"]),
        (&catalogue.newest().into(), &2.into())
    );
    let verified = catalogue.node.json(&["inventory", "verify", "--store", "whole"]);
    assert_eq!(
        (&verified["findings"], &verified["newest"]),
        (&json!([]), &catalogue.newest().into())
    );
    assert_eq!(catalogue.json(&["inventory", "export", "--to", "whole"])["files"], 0);

    let live = catalogue.json(&[
        "inventory",
        "export",
        "--to",
        "public",
        "--live-only",
        "--actor",
        "desk",
    ]);
    assert_eq!((&live["live_only"], &live["editions"]), (&true.into(), &1.into()));
    let verified = catalogue.node.json(&["inventory", "verify", "--store", "public"]);
    assert_eq!((&verified["findings"], &verified["editions"]), (&json!([]), &1.into()));
    let mut folders = vec![catalogue.node.path("public")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            for word in [second.as_str(), "secret", "embargoed"] {
                assert!(!text.contains(word), "{word} is in {}", path.display());
            }
        }
    }
    // A damaged file is never visible in a copy.
    let data = catalogue.path("products/weather/data/WEATHER");
    for file in std::fs::read_dir(&data).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[10] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    catalogue.refuses(&["inventory", "export", "--to", "damaged"], &["INV-417", "SHA-256"]);
    let shown = catalogue.node.path("damaged/products/weather/data");
    let there = std::fs::read_dir(shown.join("WEATHER")).map_or(0, Iterator::count);
    assert_eq!(there, 0);
    catalogue.refuses(&["edition", "copy", "weather", &first, "--to", "damaged"], &["INV-417"]);
}

/// INV-413, INV-415, INV-439: data files of a discarded edition go once they are old enough, each after a line in a log
/// that lies elsewhere; a dry run deletes nothing.
#[test]
fn garbage_is_collected_by_a_plan() {
    let catalogue = Catalogue::with_product(&[]);
    let first = catalogue.first();
    let table = format!("{FLOW}=more.csv");
    let begun = catalogue.build(&["--append", "--table", &table]);
    catalogue.ok(&["edition", "discard", "weather", begun["edition_id"].as_str().unwrap()]);
    let data = catalogue.path("products/weather/data/WEATHER");
    let files = || std::fs::read_dir(&data).unwrap().count();
    assert_eq!(files(), 2);
    let dry = || catalogue.json(&["inventory", "gc", "--dry-run"]);
    assert_eq!(dry()["deleted"], json!([]), "it is too young");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(60 * 24 * 60 * 60);
    for file in std::fs::read_dir(&data).unwrap() {
        let file = std::fs::File::options().write(true).open(file.unwrap().path()).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    let planned = dry();
    assert_eq!(
        (planned["deleted"].as_array().unwrap().len(), files()),
        (1, 2),
        "{planned}"
    );
    assert_eq!(
        (&planned["deleted"][0]["rule"], &planned["dry_run"]),
        (&413.into(), &true.into())
    );
    assert_eq!(
        catalogue.run(&["inventory", "gc"]).code,
        2,
        "a log is named or nothing is deleted"
    );
    catalogue.refuses(
        &["inventory", "gc", "--log", "catalogue/log.jsonl"],
        &["INV-415", "--log FILE"],
    );
    let collected = catalogue.json(&["inventory", "gc", "--log", "log.jsonl"]);
    assert_eq!((&collected["deleted"], files()), (&planned["deleted"], 1));
    let log = std::fs::read_to_string(catalogue.node.path("log.jsonl")).unwrap();
    assert!(log.lines().count() == 1 && log.contains("INV-413"), "{log}");
    assert_eq!(catalogue.states(), [(first, "live".to_owned())]);
    catalogue.sound();
}

/// INV-270: an edition whose seal ended after its manifest and before its record is recorded by the next command.
#[test]
fn an_interrupted_seal_is_completed() {
    let catalogue = Catalogue::with_product(&[]);
    let first = catalogue.first();
    // The state a kill leaves: the manifest is there, the journal too, and no version names the edition.
    let newest = catalogue.newest();
    std::fs::remove_file(catalogue.path(&format!("inventory/{newest:012}.json"))).unwrap();
    std::fs::remove_file(catalogue.path("CURRENT")).unwrap();
    let journal = catalogue.path("products/weather/journal");
    std::fs::create_dir_all(&journal).unwrap();
    let manifest = std::fs::read(catalogue.path(&format!("products/weather/{first}/manifest.json"))).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let entry = format!(
        "{{\"product_id\":\"weather\",\"edition_id\":\"{first}\",\"previous\":null,\"sealed_at\":{}}}",
        manifest["created_at"]
    );
    std::fs::write(journal.join(format!("{first}.json")), entry).unwrap();
    assert_eq!(catalogue.states(), [(first.clone(), "sealed".to_owned())]);
    let sealed = catalogue.json(&["edition", "seal", "weather"]);
    assert_eq!((&sealed["repaired"], &sealed["state"]), (&true.into(), &"live".into()));
    assert_eq!(
        (&sealed["edition_id"], sealed["seq"].as_u64()),
        (&first.as_str().into(), Some(newest))
    );
    assert_eq!(catalogue.states(), [(first, "live".to_owned())]);
    catalogue.sound();
}

#[test]
fn a_directory_that_is_not_there_says_what_to_do() {
    let node = Node::empty();
    for command in [
        &["inventory", "verify"][..],
        &["inventory", "log"],
        &["product", "list"],
        &["edition", "list"],
    ] {
        let args = [command, &["--store", "nowhere"]].concat();
        node.fails(
            &args,
            1,
            &["nowhere", " safe: ", " next: ", "sovm inventory init --store nowhere"],
        );
    }
    for command in [
        &["product", "list"][..],
        &["edition", "list"],
        &["edition", "seal", "x"],
    ] {
        node.fails(command, 10, &["no node", " safe: "]);
    }
    assert!(!node.path("nowhere").exists());
}

/// INV-205, INV-208: an edition whose base is no longer live is refused before it is sealed, so that it can be discarded and the product goes
/// on.
#[test]
fn a_base_that_was_taken_back_blocks_nothing() {
    let catalogue = Catalogue::with_product(&[]);
    let first = catalogue.first();
    let table = format!("{FLOW}=more.csv");
    let more = ["--append", "--table", &table];
    catalogue.build(&more);
    catalogue.ok(&["edition", "seal", "weather"]);
    let open = catalogue.build(&more)["edition_id"].as_str().unwrap().to_owned();
    catalogue.ok(&["inventory", "rollback", "weather", "--reason", "wrong"]);

    let seal = ["edition", "seal", "weather"];
    catalogue.refuses(&seal, &["INV-205", &open, &first, "still unsealed", "edition discard"]);
    catalogue.ok(&["edition", "discard", "weather", &open]);
    let built = catalogue.build(&more);
    assert_eq!(built["previous"], first.as_str());
    catalogue.ok(&seal);
    assert_eq!(catalogue.json(&["inventory", "verify"])["findings"], json!([]));
}

/// A build that has to say what becomes of the rows leaves no edition behind.
#[test]
fn a_build_that_says_too_little_begins_nothing() {
    let catalogue = Catalogue::with_product(&[]);
    catalogue.first();
    let table = format!("{FLOW}=more.csv");
    let build = ["edition", "build", "weather", "--table", &table];
    catalogue.refuses(&build, &["has 2 rows already", "no edition was begun", "--append"]);
    catalogue.ok(&[&build[..], &["--append"]].concat());
}

/// INV-258, INV-412: while a newer version is there that cannot be read, nothing is deleted and nothing is published by the one before it.
#[test]
fn an_outdated_version_deletes_and_publishes_nothing() {
    let catalogue = Catalogue::with_product(&[]);
    let first = catalogue.first();
    let live = catalogue.newest();
    catalogue.ok(&["inventory", "withdraw", "weather", "--reason", "names of persons"]);
    let withdrawn = catalogue.newest();
    let root = |seq: u64| std::path::Path::new(&catalogue.store).join(format!("inventory/{seq:012}.json"));
    let good = std::fs::read(root(withdrawn)).unwrap();
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    std::fs::write(root(withdrawn), &bad).unwrap();
    let public = ["inventory", "export", "--live-only", "--to", "public"];
    catalogue.run(&public).failed(1, &["INV-258", " safe: ", " next: "]);
    std::fs::write(root(withdrawn), &good).unwrap();

    let to = live.to_string();
    catalogue.ok(&[
        "inventory",
        "correct",
        "weather",
        "--to",
        &to,
        "--reason",
        "it was right",
    ]);
    let corrected = catalogue.newest();
    let good = std::fs::read(root(corrected)).unwrap();
    std::fs::remove_file(root(corrected)).unwrap();
    let expunge = ["inventory", "expunge", "weather", &first, "--yes", "--reason", "no"];
    catalogue
        .run(&expunge)
        .failed(1, &["INV-258", "nothing was deleted", " next: "]);
    let verified = catalogue.run(&["inventory", "verify"]);
    assert_eq!(verified.code, 1, "{}", verified.stdout);
    assert!(verified.stdout.contains("INV-258"), "{}", verified.stdout);
    std::fs::write(root(corrected), good).unwrap();
    assert_eq!(catalogue.json(&["inventory", "verify"])["findings"], json!([]));
}

/// A copy never lies inside the catalogue it is made of.
#[test]
fn a_copy_lies_outside() {
    let catalogue = Catalogue::with_product(&[]);
    let first = catalogue.first();
    for inside in ["catalogue", "catalogue/products/copy", "catalogue/inventory"] {
        catalogue.refuses(&["inventory", "export", "--to", inside], &["inside the catalogue"]);
        catalogue.refuses(
            &["edition", "copy", "weather", &first, "--to", inside],
            &["inside the catalogue"],
        );
    }
}
