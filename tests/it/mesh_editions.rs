//! Editions on the mesh: an embargo that keys hold, releases that appear as one, readers that are never torn.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{daemon::Daemon, editions::structures, harness::Node};

pub(crate) const FLOW: &str = "AG:WEATHER(1.0)";
const DEADLINE: Duration = Duration::from_secs(90);

/// A node with its daemon.
pub(crate) struct Site {
    pub(crate) node: Node,
    pub(crate) daemon: Daemon,
}

impl Site {
    pub(crate) fn of(node: Node) -> Self {
        let daemon = Daemon::of(&node);
        Self { node, daemon }
    }

    pub(crate) fn founder() -> Self {
        Self::of(Node::init())
    }

    /// A reader of some domains of another site's mesh.
    pub(crate) fn guest_of(&self, domains: &[&str]) -> Self {
        let mut invite = vec!["invite", "--role", "reader", "--expires", "10m", "--yes", "--no-wait"];
        for domain in domains {
            invite.extend(["--domain", domain]);
        }
        let ticket = self.node.ok(&invite);
        let guest = Node::init();
        guest.ok(&["join", ticket.trim(), "--yes"]);
        Self::of(guest)
    }

    fn rows_file(&self, name: &str, number: u64) -> PathBuf {
        let rows =
            format!("station,at,degrees\nJFK,2013-01-01T05:00:00Z,{number}\nLGA,2013-01-01T05:00:00Z,{number}\n");
        self.node.write(name, rows)
    }

    /// Makes a catalogue under embargo that the domain `public` reads.
    pub(crate) fn catalogue(&self) {
        self.node.ok(&["domain", "create", "public"]);
        self.node.ok(&[
            "inventory",
            "init",
            "--embargo",
            "--public-domain",
            "public",
            "--reason",
            "a test",
        ]);
        self.node.write("structures.json", structures("Weather"));
    }

    pub(crate) fn product(&self, product: &str) {
        self.node.ok(&[
            "product",
            "create",
            product,
            "--kind",
            "data",
            "--lifecycle",
            "revisable",
        ]);
    }

    /// Builds an edition whose rows all say `number`.
    pub(crate) fn build(&self, product: &str, number: u64) {
        let file = self.rows_file(&format!("{product}.csv"), number);
        let table = format!("{FLOW}={}", file.display());
        let first = self.node.json(&["edition", "list", product])["editions"] == Value::Array(Vec::new());
        let mut build = vec!["edition", "build", product, "--table", &table];
        match first {
            true => build.extend(["--structures", "structures.json"]),
            false => build.push("--replace"),
        }
        self.node.ok(&build);
    }

    /// Builds and seals an edition whose rows all say `number`, and gives its id.
    fn seal(&self, product: &str, number: u64) -> String {
        self.build(product, number);
        let sealed = self.node.json(&["edition", "seal", product]);
        assert_eq!(sealed["state"], "embargoed", "{sealed}");
        sealed["edition_id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn query(product: &str) -> String {
        format!("select distinct degrees from \"{product}\".\"WEATHER\"")
    }
}

pub(crate) fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(begun.elapsed() < DEADLINE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// INV-8, INV-213, INV-407, INV-446: before the release a member of the public domain has every byte of the edition and cannot decrypt one: no key of it,
/// no name, no date. Seconds after the release it reads the rows. Who could read them before is listed.
#[test]
fn an_embargo_holds_until_the_release() {
    let office = Site::founder();
    office.catalogue();
    let public = office.guest_of(&["public"]);
    office.product("plantedproduct");
    let edition = office.seal("plantedproduct", 7);

    let audience = office.node.json(&["inventory", "audience"]);
    let names = |which: &str| audience[which].as_array().unwrap().len();
    assert_eq!((names("embargoed"), names("live")), (1, 2), "{audience}");
    let listed = office.node.json(&["inventory", "prefetch"]);
    assert_eq!(listed["objects"], 1, "{listed}");
    let objects = office.node.json(&["object", "list"]);
    let is_edition = |object: &&Value| object["kind"].as_str().is_some_and(|kind| kind.contains("edition"));
    let object = objects["objects"].as_array().unwrap().iter().find(is_edition);
    let object = object.unwrap_or_else(|| panic!("{objects}"))["storage_id"]
        .as_str()
        .unwrap()
        .to_owned();

    // The bytes come ahead of the key.
    let dump = ["object", "hexdump", &object, "--length", "1000000"];
    let bytes = eventually("the ciphertext is there", || {
        let run = public.node.run(&[&dump[..], &["--json"]].concat());
        (run.code == 0).then(|| serde_json::from_str::<Value>(&run.stdout).unwrap())
    });
    assert_eq!(bytes["hex"], office.node.json(&dump)["hex"]);
    let key = ["object", "key", &object, "--yes-show-secret"];
    office.node.ok(&key);
    public.node.fails(&key, 1, &[]);
    let query = Site::query("plantedproduct");
    let refused = public.node.run(&["sql", &query]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    let shown = public.node.run(&["inventory", "show", "--json"]);
    let log = std::fs::read_to_string(&public.daemon.log).unwrap();
    for text in [&shown.stdout, &shown.stderr, &log] {
        assert!(!text.contains("plantedproduct") && !text.contains(&edition), "{text}");
    }
    // Nobody else can release it.
    public.node.fails(
        &["inventory", "release", "plantedproduct", &edition],
        1,
        &["only reads", "next:"],
    );

    office
        .node
        .ok(&["inventory", "release", "plantedproduct", &edition, "--reason", "08:30"]);
    assert_eq!(office.node.rows(&query), ["7"]);
    let begun = Instant::now();
    let rows = eventually("the rows can be read", || {
        let run = public.node.run(&["sql", &query, "--format", "csv"]);
        (run.code == 0).then(|| run.stdout.lines().skip(1).map(str::to_owned).collect::<Vec<_>>())
    });
    assert_eq!(rows, ["7"], "after {:?}", begun.elapsed());
    public.node.ok(&key);
    let shown = public.node.json(&["inventory", "show"]);
    assert!(shown.to_string().contains(&edition), "{shown}");
    let verified = public.node.json(&["inventory", "verify"]);
    assert_eq!(verified["findings"], Value::Array(Vec::new()), "{verified}");
}

/// How large the readers' run is: `SOVM_TEST_RELEASES` sets the number of releases; products and readers follow.
struct Size {
    releases: u64,
    pairs: u64,
    readers: u64,
}

impl Size {
    fn of_environment() -> Self {
        let releases = std::env::var("SOVM_TEST_RELEASES")
            .ok()
            .and_then(|text| text.parse().ok());
        match releases {
            None | Some(0) => Self {
                releases: 6,
                pairs: 2,
                readers: 6,
            },
            Some(releases) => Self {
                releases,
                pairs: 25,
                readers: 20,
            },
        }
    }
}

/// INV-259, INV-409: readers on three nodes query two products that are always released together, in a loop, while their authority releases
/// one version after the other. No query ever sees one of two: every answer is of one version, and no reader goes back.
#[test]
fn readers_are_never_torn() {
    let size = Size::of_environment();
    let office = Site::founder();
    office.catalogue();
    let sites = [office.guest_of(&["main", "public"]), office.guest_of(&["public"])];
    for pair in 0..size.pairs {
        for half in ["a", "b"] {
            office.product(&format!("p{pair}{half}"));
        }
    }
    let release = |pair: u64, number: u64| {
        let (a, b) = (format!("p{pair}a"), format!("p{pair}b"));
        let (first, second) = (office.seal(&a, number), office.seal(&b, number));
        office.node.ok(&["inventory", "release", &a, &first, &b, &second]);
    };
    for pair in 0..size.pairs {
        release(pair, 1);
    }
    let nodes = [&office.node, &sites[0].node, &sites[1].node];
    let query = |pair: u64| {
        format!(
            "select (select max(degrees) from p{pair}a.\"WEATHER\"), (select min(degrees) from p{pair}b.\"WEATHER\")"
        )
    };
    for node in &nodes[1..] {
        eventually("the first editions are read", || {
            let all = (0..size.pairs).all(|pair| node.run(&["sql", &query(pair), "--format", "csv"]).code == 0);
            all.then_some(())
        });
    }
    let (done, answers, newest) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(1));
    std::thread::scope(|scope| {
        for reader in 0..size.readers {
            let (done, answers, newest) = (&done, &answers, &newest);
            let node = nodes[reader as usize % nodes.len()];
            scope.spawn(move || {
                let mut seen = vec![0; size.pairs as usize];
                let mut round = reader;
                while !done.load(Ordering::Relaxed) {
                    let pair = round % size.pairs;
                    round += 1;
                    let run = node.run(&["sql", &query(pair), "--format", "csv"]);
                    if run.code != 0 {
                        // Bytes may still be on their way; then nothing is answered, which is no torn answer.
                        assert!(
                            run.stderr.contains("not readable") || run.stderr.contains("cannot be read here"),
                            "{}",
                            run.stderr
                        );
                        continue;
                    }
                    let row = run.stdout.lines().nth(1).unwrap_or_default().to_owned();
                    let (one, other) = row.split_once(',').unwrap_or_else(|| panic!("{row}"));
                    assert_eq!(one, other, "torn: {row}");
                    let number: u64 = one.parse().unwrap();
                    assert!(
                        number >= seen[pair as usize],
                        "went back from {} to {number}",
                        seen[pair as usize]
                    );
                    seen[pair as usize] = number;
                    newest.fetch_max(number, Ordering::Relaxed);
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for number in 0..size.releases {
                release(number % size.pairs, 2 + number);
            }
        }));
        done.store(true, Ordering::Relaxed);
        ended.unwrap();
    });
    let answers = answers.load(Ordering::Relaxed);
    assert!(answers >= size.readers, "{answers}");
    // All of them arrive at the last release.
    let last = (size.releases - 1) % size.pairs;
    for node in nodes {
        eventually("the last release is read", || {
            let run = node.run(&["sql", &query(last), "--format", "csv"]);
            let number = size.releases + 1;
            run.stdout.contains(&format!("{number},{number}")).then_some(())
        });
    }
    println!(
        "{} releases of {} products, {} readers on {} nodes, {answers} answers, none torn",
        size.releases,
        2 * size.pairs,
        size.readers,
        nodes.len()
    );
}

/// INV-242, INV-270: a process that is killed between any two steps of a seal or a release leaves a catalogue that is sound; nothing is live
/// before its version is, and the next command makes up for what was not told.
#[test]
fn a_kill_at_each_step_of_a_release() {
    let node = Node::init();
    node.ok(&["domain", "create", "public"]);
    node.ok(&["inventory", "init", "--embargo", "--public-domain", "public"]);
    node.ok(&[
        "product",
        "create",
        "weather",
        "--kind",
        "data",
        "--lifecycle",
        "revisable",
    ]);
    node.write("structures.json", structures("Weather"));
    let versions = |node: &Node| {
        let list = node.json(&["inventory", "list"]);
        let catalogues = list["catalogues"].as_array().unwrap().clone();
        let of = |live_only: bool| {
            let found = catalogues.iter().find(|catalogue| catalogue["live_only"] == live_only);
            found.unwrap()["version"].as_u64().unwrap()
        };
        (of(false), of(true))
    };
    let build = |number: u64, first: bool| {
        let rows = format!("station,at,degrees\nJFK,2013-01-01T05:00:00Z,{number}\n");
        let file = node.write("rows.csv", rows);
        let table = format!("{FLOW}={}", file.display());
        let mut build = vec!["edition", "build", "weather", "--table", &table];
        match first {
            true => build.extend(["--structures", "structures.json"]),
            false => build.push("--replace"),
        }
        node.ok(&build);
    };
    let seal = ["edition", "seal", "weather", "--json"];
    // Steps of a seal: its version is told to the release domain only.
    for (number, step) in (1..).zip([
        "inventory.spread",
        "publish.durable",
        "publish.granted",
        "publish.committed",
        "inventory.told",
    ]) {
        build(number, number == 1);
        let before = versions(&node);
        crate::crash::killed(&node, step, &seal);
        let after = versions(&node);
        assert_eq!(after.0, before.0 + 1, "{step}: the version is there");
        assert_eq!(after.1, before.1, "{step}: nothing became public");
        node.ok(&["inventory", "announce"]);
        node.ok(&["inventory", "verify"]);
        let list = node.json(&["edition", "list", "weather"]);
        let states: Vec<&str> = list["editions"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|edition| edition["state"].as_str())
            .collect();
        assert_eq!(states.last(), Some(&"embargoed"), "{step}: {list}");
        let edition = list["editions"].as_array().unwrap().last().unwrap()["edition_id"]
            .as_str()
            .unwrap()
            .to_owned();
        // Steps of a release, one each time.
        let release = ["inventory", "release", "weather", &edition];
        let step = [
            "inventory.spread",
            "publish.granted",
            "publish.committed",
            "inventory.told",
            "inventory.exported",
        ][number as usize - 1];
        let before = versions(&node);
        crate::crash::killed(&node, step, &release);
        let between = versions(&node);
        assert_eq!(between.0, before.0 + 1, "{step}: the version is there");
        node.ok(&["inventory", "announce"]);
        let after = versions(&node);
        assert_eq!(after, (before.0 + 1, before.1 + 1), "{step}");
        assert_eq!(node.rows(&Site::query("weather")), [number.to_string()], "{step}");
        node.ok(&["inventory", "verify"]);
    }
}
