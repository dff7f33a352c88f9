//! Catalogues in a bucket of an S3 server: whole processes, without a node.

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    editions::structures,
    harness::{Node, Run},
    s3_server::{BUCKET, S3Server, SECRET},
};

const FLOW: &str = "AG:WEATHER(1.0)";
const ROWS: &str = "station,at,degrees\nJFK,2013-01-01T05:00:00Z,3.5\nLGA,2013-01-01T05:00:00Z,NA\n";
const MORE: &str = "station,at,degrees\nEWR,2013-01-01T06:00:00Z,4\n";

/// A catalogue in the server's bucket, and a home without a node.
struct Catalogue {
    node: Node,
    server: S3Server,
    store: String,
}

impl Catalogue {
    /// With the product `weather` and the files of its first edition.
    fn with_product(arguments: &[&str]) -> Option<Self> {
        let server = S3Server::start(&[])?;
        let catalogue = Self {
            node: Node::empty(),
            server,
            store: format!("s3://{BUCKET}/deep/catalogue"),
        };
        catalogue.ok(&[&["inventory", "init"][..], arguments].concat());
        let create = [
            "product",
            "create",
            "weather",
            "--kind",
            "data",
            "--lifecycle",
            "revisable",
        ];
        catalogue.ok(&create);
        catalogue.node.write("rows.csv", ROWS);
        catalogue.node.write("more.csv", MORE);
        catalogue.node.write("structures.json", structures("Weather"));
        Some(catalogue)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.node.command(&[args, &["--store", &self.store]].concat());
        command.envs(self.server.variables());
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        let run = Run::of(self.command(args).output().unwrap());
        assert!(!run.stdout.contains(SECRET) && !run.stderr.contains(SECRET));
        run
    }

    fn ok(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, 0, "{args:?}\nstdout: {}\nstderr: {}", run.stdout, run.stderr);
        run.stdout
    }

    fn json(&self, args: &[&str]) -> Value {
        let out = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&out).unwrap()
    }

    fn refuses(&self, args: &[&str], words: &[&str]) {
        let run = self.run(args);
        run.failed(1, &[words, &[" safe: ", " next: "]].concat());
    }

    /// The first edition, sealed.
    fn first(&self) -> String {
        let table = format!("{FLOW}=rows.csv");
        self.ok(&[
            "edition",
            "build",
            "weather",
            "--table",
            &table,
            "--null",
            "NA",
            "--structures",
            "structures.json",
        ]);
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

    /// Numbers of the versions, oldest first.
    fn versions(&self) -> Vec<u64> {
        let log = self.json(&["inventory", "log"]);
        let versions = log["versions"].as_array().unwrap().iter().rev();
        versions.map(|version| version["seq"].as_u64().unwrap()).collect()
    }

    fn sound(&self) {
        let report = self.json(&["inventory", "verify"]);
        assert_eq!(
            (&report["findings"], &report["warnings"]),
            (&json!([]), &json!([])),
            "{report}"
        );
    }

    /// What `verify` finds wrong, as one text.
    fn findings(&self) -> String {
        let run = self.run(&["inventory", "verify", "--json"]);
        assert_eq!(run.code, 1, "{}", run.stdout);
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_ne!(report["findings"], json!([]));
        report["findings"].to_string()
    }

    /// Keys of the bucket below a folder of it, as its server lists them.
    fn keys(&self, folder: &str) -> Vec<String> {
        let (status, body) = self.server.send("GET", &format!("?list-type=2&prefix={folder}"), b"");
        assert_eq!(status, 200);
        let text = String::from_utf8(body).unwrap();
        let keys = text.split("<Key>").skip(1);
        keys.map(|rest| rest.split("</Key>").next().unwrap().to_owned())
            .collect()
    }

    fn object(&self, key: &str) -> Vec<u8> {
        let (status, body) = self.server.send("GET", key, b"");
        assert_eq!(status, 200, "{key}");
        body
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        let (status, _) = self.server.send("PUT", key, bytes);
        assert_eq!(status, 200, "{key}");
    }
}

/// INV-391: editions are published into a bucket, looked at, checked and copied out of it by the same commands as in
/// a directory; what lies there are the same documents.
#[test]
fn a_catalogue_lives_in_a_bucket() {
    let Some(catalogue) = Catalogue::with_product(&[]) else {
        return;
    };
    let first = catalogue.first();
    assert_eq!(catalogue.states(), [(first.clone(), "live".to_owned())]);
    let table = format!("{FLOW}=more.csv");
    catalogue.ok(&["edition", "build", "weather", "--append", "--table", &table]);
    let sealed = catalogue.json(&["edition", "seal", "weather"]);
    let second = sealed["edition_id"].as_str().unwrap().to_owned();
    let expected = [
        (first.clone(), "superseded".to_owned()),
        (second.clone(), "live".to_owned()),
    ];
    assert_eq!(catalogue.states(), expected);
    for profile in ["publish", "receive", "open"] {
        let checked = catalogue.ok(&["edition", "check", "weather", &second, "--profile", profile]);
        assert!(checked.starts_with("sound: weather "), "{checked}");
    }
    catalogue.ok(&["inventory", "rollback", "weather", "--reason", "wrong"]);
    assert_eq!(catalogue.states()[0], (first.clone(), "live".to_owned()));
    let shown = catalogue.json(&["inventory", "show", "weather", "--live"]);
    assert_eq!(shown["store"], catalogue.store.as_str());
    assert_eq!(shown["products"][0]["editions"][0]["edition_id"], first.as_str());
    let versions = catalogue.versions();
    assert_eq!(versions, (1..=versions.len() as u64).collect::<Vec<_>>());
    catalogue.sound();

    catalogue.refuses(&["inventory", "init"], &["sovm inventory show --store s3://"]);
    catalogue.refuses(
        &["edition", "copy", "weather", &first, "--to", "s3://books/copy"],
        &["--to DIR"],
    );
    catalogue.refuses(&["inventory", "export", "--to", "s3://books/copy"], &["--to DIR"]);
    let collected = catalogue.json(&["inventory", "gc", "--dry-run"]);
    assert_eq!(collected["deleted"], json!([]), "everything is too young");
    catalogue.refuses(
        &["inventory", "gc", "--log", "log.jsonl"],
        &["has no lock", "--only-writer"],
    );
    catalogue.ok(&["inventory", "gc", "--log", "log.jsonl", "--only-writer"]);

    catalogue.ok(&["edition", "copy", "weather", &first, "--to", "mirror"]);
    catalogue.ok(&["inventory", "export", "--to", "copied"]);
    let copied = catalogue.node.json(&["inventory", "verify", "--store", "copied"]);
    assert_eq!(copied["findings"], json!([]));
    for key in catalogue.keys("") {
        let name = key.strip_prefix("deep/catalogue/").unwrap_or_else(|| panic!("{key}"));
        assert!(!name.starts_with('.'), "{key} was left behind");
        let here = std::fs::read(catalogue.node.path("copied").join(name));
        // What a copy doesn't take is what only a writer needs.
        if let Ok(here) = here {
            assert!(here == catalogue.object(&key), "{key}");
        }
    }

    let expunge = [
        "inventory",
        "expunge",
        "weather",
        &second,
        "--yes",
        "--reason",
        "a name in it",
    ];
    catalogue.refuses(&expunge, &["has no lock", "--only-writer"]);
    let done = catalogue.json(&[&expunge[..], &["--only-writer"]].concat());
    let removed = done["removed"].as_array().unwrap();
    assert!(!removed.is_empty(), "{done}");
    let keys = catalogue.keys("");
    for file in removed {
        let key = format!("deep/catalogue/{}", file["path"].as_str().unwrap());
        assert!(!keys.contains(&key), "{key}");
    }
    catalogue.sound();
}

/// INV-395, INV-417: whatever somebody changes in the bucket behind a catalogue's back is found and named.
#[test]
fn damage_in_a_bucket_is_found() {
    let Some(catalogue) = Catalogue::with_product(&[]) else {
        return;
    };
    catalogue.first();
    let below = |folder: &str| {
        let keys = catalogue.keys(&format!("deep/catalogue/{folder}/"));
        keys.first().unwrap_or_else(|| panic!("nothing below {folder}")).clone()
    };
    for folder in ["inventory/leaves", "products/weather/data"] {
        let key = below(folder);
        let good = catalogue.object(&key);
        let mut bad = good.clone();
        let middle = bad.len() / 2;
        bad[middle] ^= 1;
        catalogue.put(&key, &bad);
        let name = key.rsplit('/').next().unwrap();
        let found = catalogue.findings();
        assert!(found.contains(name) && found.contains("INV-"), "{name}: {found}");
        let (status, _) = catalogue.server.send("DELETE", &key, b"");
        assert_eq!(status, 204);
        assert!(catalogue.findings().contains(name));
        catalogue.put(&key, &good);
        catalogue.sound();
    }
}

/// INV-441: of two processes that release the same edition one does, and nobody else's version is lost, whatever the order.
#[test]
fn racing_processes_lose_no_version() {
    let Some(catalogue) = Catalogue::with_product(&["--embargo"]) else {
        return;
    };
    let first = catalogue.first();
    assert_eq!(catalogue.states(), [(first.clone(), "embargoed".to_owned())]);
    let before = catalogue.versions().len();
    let release = ["inventory", "release", "weather", &first];
    let spawn = |args: &[&str]| -> Child {
        let mut command = catalogue.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut racers: Vec<Child> = (0..2).map(|_| spawn(&release)).collect();
    for writer in 0..3 {
        let name = format!("about{writer}.json");
        catalogue
            .node
            .write(&name, format!("{{\"title\": \"title {writer}\"}}"));
        racers.push(spawn(&["inventory", "describe", &name]));
    }
    let ended: Vec<Run> = racers
        .into_iter()
        .map(|racer| Run::of(racer.wait_with_output().unwrap()))
        .collect();
    let codes: Vec<i32> = ended.iter().map(|run| run.code).collect();
    let said: Vec<&str> = ended.iter().map(|run| run.stderr.as_str()).collect();
    assert!(matches!(codes[..2], [0, 1] | [1, 0]), "{codes:?}: {said:?}");
    assert_eq!(codes[2..], [0, 0, 0], "{said:?}");
    let refused = &ended[usize::from(codes[0] == 0)];
    assert!(
        refused.stderr.contains("INV-") && refused.stderr.contains(" next: "),
        "{said:?}"
    );
    let versions = catalogue.versions();
    assert_eq!(versions.len(), before + 4);
    assert_eq!(versions, (1..=versions.len() as u64).collect::<Vec<_>>());
    assert_eq!(catalogue.states(), [(first, "live".to_owned())]);
    catalogue.sound();
}

/// A bucket that isn't there, and one that these keys don't open, say so, say what to do, and show no key.
#[test]
fn a_bucket_that_does_not_open_says_why() {
    // One request, which makes the bucket, is let through without looking at its keys.
    let Some(server) = S3Server::start(&[("INITIAL_NO_AUTH_ACTION_COUNT", "1")]) else {
        return;
    };
    let node = Node::empty();
    let run = |server: &S3Server, args: &[&str], store: &str| {
        let mut command = node.command(&[args, &["--store", store]].concat());
        let run = Run::of(command.envs(server.variables()).output().unwrap());
        assert!(
            !run.stdout.contains(SECRET) && !run.stderr.contains(SECRET),
            "{}",
            run.stderr
        );
        run
    };
    for command in ["init", "log", "show", "verify", "release-due"] {
        let denied = run(&server, &["inventory", command], "s3://books/catalogue");
        denied.failed(
            1,
            &[
                "access was denied",
                "InvalidAccessKeyId",
                "AWS_SECRET_ACCESS_KEY",
                " safe: ",
            ],
        );
    }
    let Some(open) = S3Server::start(&[]) else {
        return;
    };
    for command in ["init", "log", "show", "verify", "release-due"] {
        let missing = run(&open, &["inventory", command], "s3://no-books/catalogue");
        missing.failed(1, &["there is no such bucket", "NoSuchBucket", " safe: ", " next: "]);
    }
    let nothing = run(&open, &["inventory", "log"], "s3://books/catalogue");
    nothing.failed(
        1,
        &[
            "INV-262",
            "sovm inventory init --store s3://books/catalogue",
            "another bucket or prefix",
        ],
    );
}

/// An endpoint where nobody listens, or nobody answers, is an error within half a minute; variables that don't fit are refused
/// before anything is sent.
#[test]
fn an_endpoint_that_is_not_there_says_so_in_time() {
    let node = Node::empty();
    let log = |variables: &[(&str, &str)], words: &[&str]| {
        let mut command = node.command(&["inventory", "log", "--store", "s3://books/catalogue"]);
        command.env("AWS_SECRET_ACCESS_KEY", SECRET);
        command.envs(variables.iter().copied());
        let began = Instant::now();
        let run = Run::of(command.output().unwrap());
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        run.failed(1, &[words, &[" safe: ", " next: "]].concat());
        assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
    };
    let id = ("AWS_ACCESS_KEY_ID", "an-id");
    let http = ("AWS_ALLOW_HTTP", "true");
    // Nobody accepts here, so whoever connects waits.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let endpoint = ("AWS_ENDPOINT_URL", endpoint.as_str());
    log(
        &[id, http, endpoint, ("AWS_TIMEOUT", "1s")],
        &["can't be reached", "in time", "AWS_ENDPOINT_URL"],
    );
    // Nobody listens on the lowest port, and nobody is given it.
    let refused = ("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    log(
        &[id, http, refused],
        &["can't be reached", "the connection was refused", "AWS_ENDPOINT_URL"],
    );
    log(&[id, endpoint], &["http://", "AWS_ALLOW_HTTP"]);
    log(&[http, endpoint], &["AccessKeyId"]);
    log(
        &[id, ("AWS_ENDPOINT_URL", "https://me:a-hushed-key@host")],
        &["AWS_ENDPOINT_URL", "password"],
    );
}
