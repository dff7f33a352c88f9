//! Nodes that publish editions and nodes that read them, for tests with real processes.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{daemon::Daemon, editions::structures, harness::Node};

pub(crate) const FLOW: &str = "AG:WEATHER(1.0)";
/// How long anything may take to reach another node.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

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

    /// A writer of some domains, let in by the code that both sides show.
    pub(crate) fn writer_of(&self, domains: &[&str]) -> Self {
        let mut invite = vec!["invite", "--role", "writer", "--no-wait"];
        for domain in domains {
            invite.extend(["--domain", domain]);
        }
        let invite = self.node.json(&invite);
        let (id, ticket) = (invite["id"].as_str().unwrap(), invite["ticket"].as_str().unwrap());
        let guest = Node::init();
        let mut joining = guest
            .command(&["join", ticket])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let code = eventually("the joining device shows its code", || {
            let waited = self.node.json(&["invite", "wait", id, "--timeout", "5s"]);
            waited["state"]["code"].as_str().map(str::to_owned)
        });
        self.node.ok(&["invite", "confirm", id, &code]);
        assert!(joining.wait().unwrap().success(), "the writer did not join");
        Self::of(guest)
    }

    /// The site's id.
    pub(crate) fn id(&self) -> String {
        self.node.json(&["status"])["site"].as_str().unwrap().to_owned()
    }

    /// Stops the daemon in order, for what is done without one.
    pub(crate) fn stop(self) -> Node {
        self.daemon.stop();
        self.node
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
        build(&self.node, product, number);
    }

    /// Builds and seals an edition whose rows all say `number`, and gives its id.
    pub(crate) fn seal(&self, product: &str, number: u64) -> String {
        seal(&self.node, product, number)
    }

    pub(crate) fn query(product: &str) -> String {
        format!("select distinct degrees from \"{product}\".\"WEATHER\"")
    }

    /// Waits until the product's live edition says `number` here.
    pub(crate) fn reads(&self, product: &str, number: u64) {
        let query = Self::query(product);
        let number = number.to_string();
        let begun = Instant::now();
        loop {
            let run = self.node.run(&["sql", &query, "--format", "csv"]);
            if run.code == 0 && run.stdout.lines().skip(1).eq([number.as_str()]) {
                return;
            }
            assert!(
                begun.elapsed() < DEADLINE,
                "{number} was never read; last answer: {}{}; catalogues: {}",
                run.stdout,
                run.stderr,
                self.node.ok(&["inventory", "list", "--json"])
            );
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// The catalogues here, as `inventory list` has them.
    pub(crate) fn catalogues(&self) -> Vec<Value> {
        let list = self.node.json(&["inventory", "list"]);
        list["catalogues"].as_array().unwrap().clone()
    }
}

/// As [`Site::build`], on a node without a daemon.
fn build(node: &Node, product: &str, number: u64) {
    let rows = format!("station,at,degrees\nJFK,2013-01-01T05:00:00Z,{number}\nLGA,2013-01-01T05:00:00Z,{number}\n");
    let file = node.write(&format!("{product}.csv"), rows);
    let table = format!("{FLOW}={}", file.display());
    let first = node.json(&["edition", "list", product])["editions"] == Value::Array(Vec::new());
    let mut build = vec!["edition", "build", product, "--table", &table];
    match first {
        true => build.extend(["--structures", "structures.json"]),
        false => build.push("--replace"),
    }
    node.ok(&build);
}

/// As [`Site::seal`], on a node without a daemon.
pub(crate) fn seal(node: &Node, product: &str, number: u64) -> String {
    build(node, product, number);
    let sealed = node.json(&["edition", "seal", product]);
    assert_eq!(sealed["state"], "embargoed", "{sealed}");
    sealed["edition_id"].as_str().unwrap().to_owned()
}

/// Waits for something, and says what when it never happens.
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
