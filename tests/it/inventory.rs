//! Catalogues in a plain directory: whole processes, without a node.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use serde_json::Value;
use sovm_inventory::{
    doc::{
        ArtefactRecord, Binding, CleanText, Digests, EditionId, EngineVersions, FileEntry, FileRoot, FormatVersion,
        Instant, JsonObject, Lifecycle, Manifest, Producer, ProductKind, Sha256, Stored, Tier, layout,
    },
    store::{InventoryStore, LocalStore},
    transition::{
        Context, Manifests, Operation, ProductProfile, Refusal, ReleaseClock, Retention, RetentionSettings,
        SealedEdition, apply,
    },
    writer::{Clock as _, Identity, Planned, SystemClock, Writer},
};

use crate::harness::{Node, Run};

const CODELIST: &str = "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:CL_AREA(1.0)";

/// A catalogue, and a home without a node beside it.
struct Catalogue {
    node: Node,
}

/// What an edition is made of.
#[derive(Default)]
struct Content {
    previous: Option<EditionId>,
    release_at: Option<&'static str>,
    /// The text its copy of the codelist is fingerprinted by.
    codelist: Option<&'static str>,
    /// Record it live although the catalogue may be under embargo.
    live: bool,
}

impl Catalogue {
    fn init(arguments: &[&str]) -> Self {
        let catalogue = Self { node: Node::empty() };
        catalogue.ok(&[&["init"][..], arguments].concat());
        catalogue
    }

    fn dir(&self) -> PathBuf {
        self.node.path("catalogue")
    }

    fn args<'a>(&self, dir: &'a str, args: &[&'a str]) -> Vec<&'a str> {
        [&["inventory"][..], args, &["--store", dir]].concat()
    }

    fn ok(&self, args: &[&str]) -> String {
        let dir = self.dir();
        self.node.ok(&self.args(dir.to_str().unwrap(), args))
    }

    fn json(&self, args: &[&str]) -> Value {
        let dir = self.dir();
        self.node.json(&self.args(dir.to_str().unwrap(), args))
    }

    fn run(&self, args: &[&str]) -> Run {
        let dir = self.dir();
        self.node.run(&self.args(dir.to_str().unwrap(), args))
    }

    /// A refusal: exit code 1, the rule, what is safe, and a next step; and no version was written.
    fn refuses(&self, args: &[&str], words: &[&str]) {
        let before = self.roots();
        let run = self.run(args);
        run.failed(1, &[words, &[" safe: ", " next: "]].concat());
        assert_eq!(self.roots(), before, "{args:?} wrote a version");
    }

    fn roots(&self) -> usize {
        std::fs::read_dir(self.dir().join("inventory"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().is_file())
            .count()
    }

    /// States of a product's editions, tombstones among them.
    fn states(&self, product: &str) -> BTreeMap<String, String> {
        let report = self.json(&["show", product]);
        let product = &report["products"][0];
        let state = |edition: &Value| {
            let state = edition["state"].as_str().unwrap_or("tombstone");
            (edition["edition_id"].as_str().unwrap().to_owned(), state.to_owned())
        };
        let editions = product["editions"].as_array().unwrap().iter();
        editions
            .chain(product["retired"].as_array().unwrap())
            .map(state)
            .collect()
    }

    fn state(&self, product: &str, edition: EditionId) -> String {
        let states = self.states(product);
        states.get(&edition.to_string()).cloned().unwrap_or_default()
    }

    /// Seals an edition as a publisher would: files, then the manifest, then the record.
    fn seal(&self, product: &str, content: Content) -> Result<EditionId, Refusal> {
        let edition_id = EditionId::generate();
        let manifest = self.write_edition(product, edition_id, &content);
        let sealed = SealedEdition {
            manifest: Arc::new(manifest),
            profile: ProductProfile {
                kind: ProductKind::Data,
                lifecycle: Lifecycle::Revisable,
            },
            structure_source: None,
        };
        let mut manifests = Manifests::default();
        manifests.insert(sealed.manifest.clone());
        let operation = if content.live {
            Operation::Seal(sealed)
        } else {
            let release_at = content.release_at.map(|at| at.parse().unwrap());
            Operation::Register { sealed, release_at }
        };
        self.record(&manifests, &operation).map(|()| edition_id)
    }

    fn record(&self, manifests: &Manifests, operation: &Operation) -> Result<(), Refusal> {
        let store: Arc<dyn InventoryStore> = Arc::new(LocalStore::open(self.dir()).unwrap());
        let identity = Identity {
            actor: "publisher@test".parse().unwrap(),
            producer: producer(),
        };
        let writer = Writer::new(store, identity, Arc::new(SystemClock));
        let forms = BTreeSet::<CleanText>::from(["1".parse().unwrap()]);
        let retention = Retention::new(RetentionSettings::default()).unwrap();
        let commit = writer.commit(|base| {
            let context = Context {
                clock: ReleaseClock::alone(SystemClock.now()),
                manifests,
                canonical_forms: &forms,
                retention: &retention,
            };
            let transition = apply(base.version, std::slice::from_ref(operation), &context)?;
            Ok::<_, Refusal>(Some(Planned::new(transition.next, transition.kind, "sealed")))
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        match runtime.block_on(commit) {
            Ok(_) => Ok(()),
            Err(sovm_inventory::writer::CommitError::Refused(refusal)) => Err(refusal),
            Err(error) => panic!("{error}"),
        }
    }

    fn write_edition(&self, product: &str, edition_id: EditionId, content: &Content) -> Stored<Manifest> {
        let product_id = product.parse().unwrap();
        let data = self.dir().join(layout::data(&product_id));
        let edition = self.dir().join(layout::edition(&product_id, &edition_id));
        std::fs::create_dir_all(&data).unwrap();
        std::fs::create_dir_all(&edition).unwrap();
        let rows = format!("rows of {edition_id}");
        std::fs::write(data.join(format!("{edition_id}.parquet")), &rows).unwrap();
        std::fs::write(edition.join("tables.json"), "{}").unwrap();
        let file = |root, path: String, bytes: &[u8]| FileEntry {
            path: path.parse().unwrap(),
            size: bytes.len() as u64,
            root,
            tier: Tier::Required,
            digests: Digests::new(Sha256::of(bytes)),
            carried_from: None,
            extra: JsonObject::new(),
        };
        let artefact = |text: &str| ArtefactRecord {
            urn: CODELIST.parse().unwrap(),
            fingerprint: Sha256::of(text.as_bytes()),
            partial_of: None,
        };
        let manifest = Stored::encode(Manifest {
            format_version: FormatVersion::MANIFEST,
            product_id,
            edition_id,
            previous: content.previous,
            created_at: SystemClock.now(),
            producer: producer(),
            schema_version: "1".parse().unwrap(),
            engine: EngineVersions::default(),
            files: vec![
                file(FileRoot::Data, format!("{edition_id}.parquet"), rows.as_bytes()),
                file(FileRoot::Edition, "tables.json".to_owned(), b"{}"),
            ],
            bindings: vec![Binding {
                dataflow: "urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=AG:DF(1.0)"
                    .parse()
                    .unwrap(),
                observations: 1,
                structural_version: "urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure=AG:DS(1.0)"
                    .parse()
                    .unwrap(),
                fingerprint: "1:1".parse().unwrap(),
                structure_fingerprint: Sha256::of(b"structures"),
            }],
            artefacts: content.codelist.map(artefact).into_iter().collect(),
            canonical_form: "1".parse().unwrap(),
            content_fingerprint: None,
            producer_fields: JsonObject::new(),
            extensions: JsonObject::new(),
            extra: JsonObject::new(),
        })
        .unwrap();
        std::fs::write(edition.join(layout::MANIFEST), manifest.bytes()).unwrap();
        manifest
    }

    /// One edition live and a second one, built from it, embargoed.
    fn with_one_waiting(release_at: Option<&'static str>) -> (Self, EditionId, EditionId) {
        let catalogue = Self::init(&["--embargo"]);
        let first = catalogue.seal("weather", Content::default()).unwrap();
        catalogue.ok(&["release", "weather", &first.to_string()]);
        let second = Content {
            previous: Some(first),
            release_at,
            ..Content::default()
        };
        let second = catalogue.seal("weather", second).unwrap();
        (catalogue, first, second)
    }

    fn sound(&self) {
        let report = self.json(&["verify"]);
        assert_eq!(report["findings"], serde_json::json!([]), "{report}");
        assert_eq!(report["versions"].as_u64(), report["newest"].as_u64());
    }
}

fn producer() -> Producer {
    Producer {
        name: "publisher".parse().unwrap(),
        version: "1".parse().unwrap(),
    }
}

fn root(dir: &Path, seq: u64) -> PathBuf {
    dir.join(format!("inventory/{seq:012}.json"))
}

/// INV-130, INV-150, INV-153: a new catalogue has an id, epoch 0 and version 1, which says whether there is an embargo.
#[test]
fn init_makes_a_catalogue_once() {
    let catalogue = Catalogue { node: Node::empty() };
    let made = catalogue.json(&["init", "--embargo", "--reason", "a test", "--actor", "desk"]);
    assert_eq!(
        (&made["command"], &made["seq"], &made["embargo"], &made["actor"]),
        (
            &Value::from("inventory-init"),
            &Value::from(1),
            &Value::from(true),
            &Value::from("desk")
        )
    );
    let log = catalogue.json(&["log"]);
    let first = &log["versions"][0];
    assert_eq!(
        (&first["actor"], &first["reason"]),
        (&Value::from("desk"), &Value::from("a test"))
    );
    assert!(first["created_at"].as_str().unwrap().parse::<Instant>().is_ok());
    catalogue.refuses(&["init"], &["already", made["catalog_id"].as_str().unwrap()]);
    catalogue.sound();
}

/// INV-391: without `--actor` a version names the user and the machine.
#[test]
fn the_actor_is_this_user_at_this_machine() {
    let catalogue = Catalogue::init(&[]);
    let log = catalogue.json(&["log"]);
    let actor = log["versions"][0]["actor"].as_str().unwrap();
    let (user, machine) = actor.split_once('@').unwrap();
    assert!(!user.is_empty() && !machine.is_empty(), "{actor}");
}

/// INV-30: files that are no catalogue's are left alone, and nothing is made among them.
#[test]
fn init_among_other_files_is_refused() {
    let node = Node::empty();
    std::fs::create_dir(node.path("other")).unwrap();
    node.write("other/meta.duckdb", "x");
    let dir = node.path("other");
    let args = ["inventory", "init", "--store", dir.to_str().unwrap()];
    node.fails(&args, 1, &["INV-30", "meta.duckdb", " safe: ", " next: "]);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn without_a_store_it_says_what_to_do() {
    let node = Node::empty();
    // Then a node is meant, and there is none.
    for command in ["init", "log", "show", "verify", "release-due", "rebuild"] {
        node.fails(&["inventory", command], 10, &["no node", "sovm init", " safe: "]);
    }
    node.fails(
        &["inventory", "log", "--store", "https://host/bucket/c"],
        1,
        &["https://", "--store DIR", "s3://BUCKET"],
    );
    node.fails(&["inventory", "log", "--store", "nowhere"], 1, &["nowhere", " next: "]);
    std::fs::create_dir(node.path("empty")).unwrap();
    node.fails(
        &["inventory", "log", "--store", "empty"],
        1,
        &["INV-262", "sovm inventory init"],
    );
    let run = node.run(&["inventory", "show", "--store", "empty", "--json"]);
    let error: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&error["error"]["kind"], run.code), (&Value::from("not_found"), 1));
}

/// INV-195, INV-200: with the embargo off a seal releases its edition in the same version, and the one before is superseded.
#[test]
fn without_embargo_a_seal_is_live_at_once() {
    let catalogue = Catalogue::init(&[]);
    let live = |previous| Content {
        previous,
        live: true,
        ..Content::default()
    };
    let first = catalogue.seal("weather", live(None)).unwrap();
    let second = catalogue.seal("weather", live(Some(first))).unwrap();
    assert_eq!(catalogue.state("weather", first), "superseded");
    assert_eq!(catalogue.state("weather", second), "live");
    catalogue.sound();
}

/// INV-194, INV-197, INV-213: an embargoed edition is shown to operators and not to the public, until it is released.
#[test]
fn an_embargo_holds_until_the_release() {
    let catalogue = Catalogue::init(&["--embargo"]);
    let edition = catalogue.seal("weather", Content::default()).unwrap();
    assert_eq!(catalogue.state("weather", edition), "embargoed");
    let live = catalogue.json(&["show", "--live"]);
    assert_eq!(live["products"], serde_json::json!([]));
    catalogue.refuses(&["show", "weather", "--live"], &["INV-204", "weather"]);

    let done = catalogue.json(&["release", "weather", &edition.to_string(), "--reason", "08:30"]);
    assert_eq!(
        (&done["operation"], &done["kind"]),
        (&Value::from("release"), &Value::from("release"))
    );
    assert_eq!(done["changes"][0]["editions"][0]["to"], "live");
    let live = catalogue.json(&["show", "--live"]);
    assert_eq!(live["products"][0]["editions"][0]["edition_id"], edition.to_string());
    // A version never changes: the one before still says embargoed.
    let before = catalogue.json(&["show", "weather", "--seq", "2"]);
    assert_eq!(before["products"][0]["editions"][0]["state"], "embargoed");
    assert_eq!((&before["seq"], &before["newest"]), (&Value::from(2), &Value::from(3)));
    catalogue.refuses(&["show", "--seq", "9"], &["version 9", "newest is 3"]);
    catalogue.sound();
}

/// INV-195: while the embargo is on nothing is sealed live; INV-443: turning it off changes no entry.
#[test]
fn the_embargo_is_turned_on_and_off() {
    let catalogue = Catalogue::init(&[]);
    catalogue.refuses(&["embargo", "off"], &["INV-162", "off already"]);
    catalogue.ok(&["embargo", "on"]);
    let live = || Content {
        live: true,
        ..Content::default()
    };
    let refused = catalogue.seal("weather", live()).unwrap_err();
    assert_eq!(refused.rule(), 195);
    let off = catalogue.json(&["embargo", "off"]);
    assert_eq!(
        (&off["kind"], &off["changes"]),
        (&Value::from("embargo-change"), &serde_json::json!([]))
    );
    catalogue.seal("weather", live()).unwrap();
    catalogue.sound();
}

/// INV-197, INV-205, INV-216: each refusal names its rule, and a wrong name is told from a wrong state.
#[test]
fn refused_releases_name_the_rule() {
    let (catalogue, first, second) = Catalogue::with_one_waiting(None);
    let third = catalogue.seal(
        "weather",
        Content {
            previous: Some(first),
            ..Content::default()
        },
    );
    let third = third.unwrap().to_string();
    let (first, second) = (first.to_string(), second.to_string());
    let unknown = EditionId::generate().to_string();
    catalogue.refuses(
        &["release", "nowhere", &second],
        &["INV-197", "nowhere", "not recorded"],
    );
    catalogue.refuses(
        &["release", "weather", &unknown],
        &["INV-197", &unknown, "not recorded"],
    );
    catalogue.refuses(&["release", "weather", &first], &["INV-197", "it is live"]);
    catalogue.refuses(&["show", "nowhere"], &["INV-204", "nowhere"]);
    catalogue.ok(&["release", "weather", &second]);
    catalogue.refuses(
        &["release", "weather", &third],
        &["INV-205", &third, &first, &second, "sovm inventory cancel"],
    );
    catalogue.run(&["release", "weather"]).failed(2, &["EDITION"]);
    catalogue.run(&["release", "weather", "0198"]).failed(2, &["0198"]);
    // A manifest that changed since it was recorded is not what was approved.
    let fourth = Content {
        previous: Some(second.parse().unwrap()),
        ..Content::default()
    };
    let fourth = catalogue.seal("weather", fourth).unwrap();
    let manifest = catalogue
        .dir()
        .join(layout::manifest(&"weather".parse().unwrap(), &fourth));
    let text = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, [text.as_slice(), b" "].concat()).unwrap();
    catalogue.refuses(
        &["release", "weather", &fourth.to_string()],
        &["INV-216", &fourth.to_string()],
    );
    std::fs::remove_file(&manifest).unwrap();
    catalogue.refuses(
        &["release", "weather", &fourth.to_string()],
        &["INV-241", "manifest.json is not there"],
    );
    std::fs::write(&manifest, text).unwrap();
    catalogue.ok(&["release", "weather", &fourth.to_string()]);
    catalogue.sound();
}

/// INV-224, INV-226, INV-4: products that share an artefact no structure product holds change it in one version.
#[test]
fn products_that_share_a_structure_release_together() {
    let catalogue = Catalogue::init(&["--embargo"]);
    let holding = |text, previous| Content {
        codelist: Some(text),
        previous,
        ..Content::default()
    };
    let old = ["a", "b"].map(|product| {
        let edition = catalogue.seal(product, holding("old", None)).unwrap();
        catalogue.ok(&["release", product, &edition.to_string()]);
        edition
    });
    let new_a = catalogue.seal("a", holding("new", Some(old[0]))).unwrap().to_string();
    let new_b = catalogue.seal("b", holding("new", Some(old[1]))).unwrap().to_string();
    catalogue.refuses(&["release", "a", &new_a], &["INV-224", CODELIST, "in one version"]);
    let done = catalogue.json(&["release", "a", &new_a, "b", &new_b]);
    let products: Vec<_> = done["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| &change["product_id"])
        .collect();
    assert_eq!(products, ["a", "b"]);
    catalogue.sound();
}

/// INV-209, INV-405: a batch releases what it can, says of each other product why not, and keeps the reasons.
#[test]
fn release_due_does_what_it_can() {
    let past = Some("2020-01-01T00:00:00Z");
    let catalogue = Catalogue::init(&["--embargo"]);
    let due = |release_at| Content {
        release_at,
        ..Content::default()
    };
    let nothing = catalogue.json(&["release-due"]);
    assert_eq!(nothing["seq"], Value::Null);
    let good = catalogue.seal("good", due(past)).unwrap();
    let later = catalogue.seal("later", due(Some("2999-01-01T00:00:00Z"))).unwrap();
    let twins = [
        catalogue.seal("twins", due(past)).unwrap(),
        catalogue.seal("twins", due(past)).unwrap(),
    ];
    let gone = catalogue.seal("gone", due(past)).unwrap();
    let manifest = catalogue.dir().join(layout::manifest(&"gone".parse().unwrap(), &gone));
    let text = std::fs::read(&manifest).unwrap();
    std::fs::remove_file(&manifest).unwrap();

    let report = catalogue.json(&["release-due", "--reason", "the daily run"]);
    assert_eq!(report["changes"][0]["product_id"], "good");
    assert_eq!(report["changes"].as_array().unwrap().len(), 1);
    let refused: Vec<(&str, u64)> = report["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|refused| {
            (
                refused["product_id"].as_str().unwrap(),
                refused["rule"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(refused, [("gone", 241), ("twins", 405), ("twins", 405)]);
    assert_eq!(report["attention"].as_array().unwrap().len(), 3);
    let log = catalogue.json(&["log", "--limit", "1"]);
    let reason = log["versions"][0]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("the daily run") && reason.contains("INV-405"),
        "{reason}"
    );
    assert_eq!(catalogue.state("good", good), "live");
    assert_eq!(catalogue.state("later", later), "embargoed");
    // What is left is refused as a whole, and nothing is written.
    catalogue.refuses(&["release-due"], &["INV-405", "INV-241"]);
    assert_eq!(catalogue.run(&["release-due", "--strict"]).code, 1);

    catalogue.ok(&["supersede-pending", "twins", "--by", &twins[1].to_string()]);
    assert_eq!(catalogue.state("twins", twins[0]), "withdrawn");
    assert_eq!(catalogue.run(&["release-due", "--strict"]).code, 20);
    assert_eq!(catalogue.state("twins", twins[1]), "live");
    std::fs::write(&manifest, text).unwrap();
    catalogue.ok(&["release-due"]);
    assert_eq!(catalogue.state("gone", gone), "live");
    catalogue.sound();
}

/// INV-171, INV-180, INV-198: a release time is changed and taken off; a cancelled edition never goes live.
#[test]
fn schedules_change_and_are_cancelled() {
    let (catalogue, _, second) = Catalogue::with_one_waiting(None);
    let id = second.to_string();
    let done = catalogue.json(&["reschedule", "weather", &id, "--at", "2999-07-30T08:30:00Z"]);
    let change = &done["changes"][0]["editions"][0];
    assert_eq!(
        (&change["from"], &change["to"]),
        (&Value::from("embargoed"), &Value::from("embargoed"))
    );
    assert_eq!(change["release_at"], "2999-07-30T08:30:00Z");
    assert!(catalogue.ok(&["show", "weather"]).contains("2999-07-30T08:30:00Z"));
    catalogue.ok(&["reschedule", "weather", &id, "--never"]);
    assert_eq!(
        catalogue.json(&["show", "weather"])["products"][0]["editions"][1]["release_at"],
        Value::Null
    );
    catalogue.refuses(&["supersede-pending", "weather", "--by", &id], &["INV-199", &id]);
    catalogue.ok(&["cancel", "weather", &id, "--reason", "wrong figures"]);
    assert_eq!(catalogue.state("weather", second), "withdrawn");
    catalogue.refuses(&["release", "weather", &id], &["INV-197", "it is withdrawn"]);
    catalogue.refuses(&["cancel", "weather", &id], &["INV-198", "it is withdrawn"]);
    catalogue.refuses(
        &["reschedule", "weather", &id, "--never"],
        &["INV-198", "it is withdrawn"],
    );
    catalogue.sound();
}

/// INV-201, INV-206, INV-207, INV-208: a rollback is a new version; what was built on the withdrawn edition is refused.
#[test]
fn rollbacks_return_to_a_superseded_edition() {
    let (catalogue, first, second) = Catalogue::with_one_waiting(None);
    catalogue.refuses(&["rollback", "weather"], &["INV-206", "no superseded edition"]);
    catalogue.ok(&["release", "weather", &second.to_string()]);
    let third = Content {
        previous: Some(second),
        ..Content::default()
    };
    let third = catalogue.seal("weather", third).unwrap();
    let wrong = first.to_string();
    catalogue.refuses(
        &["rollback", "weather", "--if-live", &wrong],
        &["INV-206", &wrong, &second.to_string()],
    );
    catalogue.refuses(
        &["rollback", "weather", "--to", &third.to_string()],
        &["INV-201", "it is embargoed"],
    );
    catalogue.refuses(&["rollback", "nowhere"], &["INV-204", "nowhere"]);
    let before = catalogue.roots();
    catalogue.ok(&[
        "rollback",
        "weather",
        "--if-live",
        &second.to_string(),
        "--reason",
        "broken figures",
    ]);
    assert_eq!(catalogue.roots(), before + 1);
    assert_eq!(catalogue.state("weather", first), "live");
    assert_eq!(catalogue.state("weather", second), "withdrawn");
    catalogue.refuses(
        &["release", "weather", &third.to_string()],
        &["INV-208", &second.to_string(), &first.to_string()],
    );
    catalogue.sound();
}

/// INV-202, INV-203, INV-181: withdrawn, retired, and brought back as superseded only once every file verifies.
#[test]
fn withdrawn_retired_and_reinstated() {
    let (catalogue, first, second) = Catalogue::with_one_waiting(None);
    let id = second.to_string();
    catalogue.refuses(&["reinstate", "weather", &id], &["INV-202", "it is embargoed"]);
    catalogue.ok(&["release", "weather", &id]);
    catalogue.refuses(
        &["withdraw", "weather", "--if-live", &first.to_string()],
        &["INV-206", &first.to_string()],
    );
    catalogue.ok(&["withdraw", "weather", "--reason", "a leak"]);
    assert_eq!(catalogue.state("weather", second), "withdrawn");
    catalogue.refuses(&["withdraw", "weather"], &["INV-204", "0 are live"]);
    catalogue.refuses(&["retire", "weather", &id], &["INV-203", "--window"]);
    catalogue.ok(&["retire", "weather", &id, "--window", "0s"]);
    assert_eq!(catalogue.state("weather", second), "tombstone");
    catalogue.refuses(&["retire", "weather", &id, "--window", "0s"], &["INV-203", "tombstone"]);

    let data = catalogue.dir().join(format!("products/weather/data/{id}.parquet"));
    let rows = std::fs::read(&data).unwrap();
    std::fs::write(&data, vec![b'x'; rows.len()]).unwrap();
    catalogue.refuses(
        &["reinstate", "weather", &id],
        &["INV-202", &format!("data/{id}.parquet"), "SHA-256"],
    );
    std::fs::remove_file(&data).unwrap();
    catalogue.refuses(&["reinstate", "weather", &id], &["INV-202", "no such file"]);
    std::fs::write(&data, &rows).unwrap();
    let manifest = catalogue
        .dir()
        .join(layout::manifest(&"weather".parse().unwrap(), &second));
    let text = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, [text.as_slice(), b"\n"].concat()).unwrap();
    catalogue.refuses(&["reinstate", "weather", &id], &["INV-202", "INV-216"]);
    std::fs::write(&manifest, text).unwrap();
    catalogue.ok(&["reinstate", "weather", &id, "--reason", "it was no leak"]);
    assert_eq!(catalogue.state("weather", second), "superseded");
    catalogue.sound();
}

/// INV-202: a product whose last edition was retired comes back as it was, from the version that held it last.
#[test]
fn the_last_edition_of_a_product_comes_back() {
    let catalogue = Catalogue::init(&["--embargo"]);
    let only = catalogue.seal("weather", Content::default()).unwrap();
    let id = only.to_string();
    catalogue.ok(&["cancel", "weather", &id]);
    catalogue.ok(&["retire", "weather", &id, "--window", "0s"]);
    assert_eq!(catalogue.state("weather", only), "tombstone");
    catalogue.ok(&["reinstate", "weather", &id]);
    assert_eq!(catalogue.state("weather", only), "superseded");
    catalogue.sound();
}

/// INV-150, INV-165: a correction names the older version it was built from, and links the one before it.
#[test]
fn corrections_return_to_an_older_version() {
    let (catalogue, first, second) = Catalogue::with_one_waiting(None);
    let good = catalogue.roots().to_string();
    catalogue.ok(&["cancel", "weather", &second.to_string(), "--reason", "by mistake"]);
    catalogue.refuses(&["correct", "weather", "--to", "99"], &["version 99"]);
    catalogue.refuses(&["correct", "nowhere", "--to", &good], &["INV-204", "nowhere"]);
    let done = catalogue.json(&["correct", "weather", "--to", &good]);
    assert_eq!(done["kind"], "correct");
    assert_eq!(catalogue.state("weather", first), "live");
    assert_eq!(catalogue.state("weather", second), "embargoed");
    let log = catalogue.json(&["log", "--limit", "1"]);
    assert_eq!(log["versions"][0]["previous_inventory"].to_string(), good);
    let newest = catalogue.roots().to_string();
    catalogue.refuses(&["correct", "weather", "--to", &newest], &["INV-150", &newest]);
    catalogue.sound();
}

/// INV-159, INV-443: a description changes nothing else, and is not written twice.
#[test]
fn descriptions_are_recorded() {
    let catalogue = Catalogue::init(&[]);
    let file = catalogue
        .node
        .write("d.json", "{\"title\": {\"en\": \"Weather\"}, \"weight\": 1.50}");
    let file = file.to_str().unwrap();
    let done = catalogue.json(&["describe", file]);
    assert_eq!(
        (&done["kind"], &done["changes"]),
        (&Value::from("describe"), &serde_json::json!([]))
    );
    assert_eq!(catalogue.json(&["show"])["description"]["title"]["en"], "Weather");
    catalogue.refuses(&["describe", file], &["INV-162"]);
    catalogue.node.write("d.json", "[]");
    catalogue.refuses(&["describe", file], &["d.json", "JSON object"]);
    catalogue.run(&["describe", "none.json"]).failed(1, &["none.json"]);
    catalogue.ok(&["describe", "--clear"]);
    assert_eq!(catalogue.json(&["show"])["description"], Value::Null);
    catalogue.sound();
}

/// INV-156: the log names each version's time, kind, actor, reason and products, newest first.
#[test]
fn the_log_tells_what_happened() {
    let (catalogue, first, _) = Catalogue::with_one_waiting(None);
    let log = catalogue.json(&["log"]);
    let versions = log["versions"].as_array().unwrap();
    let kinds: Vec<_> = versions
        .iter()
        .map(|version| version["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["seal", "release", "seal", "embargo-change"]);
    let seqs: Vec<_> = versions
        .iter()
        .map(|version| version["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, [4, 3, 2, 1]);
    let text = catalogue.ok(&["log", "--limit", "2"]);
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(
        text.starts_with("4 20") && text.contains("Z seal by publisher@test: sealed"),
        "{text}"
    );
    assert!(text.contains(&format!("  weather {first} embargoed -> live")), "{text}");
    let short = catalogue.json(&["log", "--limit", "2"]);
    assert_eq!(
        (&short["older"], &short["versions"][1]["seq"]),
        (&Value::from(true), &Value::from(3))
    );
}

/// INV-256, INV-262: without `CURRENT`, or with a wrong one, the chain is read all the same, and it is said.
#[test]
fn a_catalogue_is_read_without_current() {
    let (catalogue, first, second) = Catalogue::with_one_waiting(None);
    let current = catalogue.dir().join("CURRENT");
    let good = std::fs::read_to_string(&current).unwrap();
    std::fs::remove_file(&current).unwrap();
    let report = catalogue.json(&["show", "weather"]);
    assert_eq!(
        (&report["seq"], &report["found_by"]),
        (&Value::from(4), &Value::from("fallback"))
    );
    assert!(report["findings"][0].as_str().unwrap().contains("INV-262"), "{report}");
    assert_eq!(catalogue.json(&["log"])["versions"].as_array().unwrap().len(), 4);
    assert_eq!(catalogue.run(&["show", "--strict"]).code, 20);
    // A sound chain is sound without its hint: said, and no failure unless somebody asks for one.
    let run = catalogue.run(&["verify"]);
    run.failed(0, &["INV-262 CURRENT"]);
    assert!(run.stdout.starts_with("sound: 4 versions"), "{}", run.stdout);
    assert_eq!(catalogue.run(&["verify", "--strict"]).code, 20);
    for wrong in ["", "{}", &good.replace("\"seq\":4", "\"seq\":3")] {
        std::fs::write(&current, wrong).unwrap();
        let report = catalogue.json(&["show", "weather"]);
        assert_eq!(
            (&report["seq"], &report["found_by"]),
            (&Value::from(4), &Value::from("fallback"))
        );
        assert!(
            report["findings"][0].as_str().unwrap().contains("INV-256"),
            "{wrong}: {report}"
        );
        let report = catalogue.json(&["verify"]);
        assert_eq!(
            (&report["findings"], &report["warnings"][0]["path"]),
            (&serde_json::json!([]), &"CURRENT".into())
        );
    }
    // INV-259: the next version brings it back.
    catalogue.ok(&["release", "weather", &second.to_string()]);
    assert_eq!(catalogue.state("weather", first), "superseded");
    catalogue.sound();
}

/// INV-161, INV-260, INV-277: a damaged version, leaf or link is found, named, and never built on.
#[test]
fn damage_is_found_and_named() {
    let (catalogue, _, second) = Catalogue::with_one_waiting(None);
    let dir = catalogue.dir();
    let (third, fourth) = (
        std::fs::read(root(&dir, 3)).unwrap(),
        std::fs::read(root(&dir, 4)).unwrap(),
    );
    let found = |words: &[&str]| {
        let run = catalogue.run(&["verify"]);
        run.failed(1, &["not sound"]);
        for word in words {
            assert!(run.stdout.contains(word), "{word}: {}", run.stdout);
        }
    };
    // The newest one: it is skipped, and nobody may write over or past it.
    std::fs::write(root(&dir, 4), &fourth[..fourth.len() / 2]).unwrap();
    found(&["INV-260 inventory/000000000004.json"]);
    assert_eq!(catalogue.json(&["show"])["seq"], 3);
    catalogue.refuses(&["embargo", "off"], &["version", "4", "sovm inventory verify"]);
    std::fs::write(root(&dir, 4), &fourth).unwrap();
    // An older one: valid by itself, and not the one that was written.
    let text = String::from_utf8(third.clone()).unwrap();
    std::fs::write(root(&dir, 3), text.replace("\"reason\":\"\"", "\"reason\":\"forged\"")).unwrap();
    found(&["version 4 names", "INV-161"]);
    let run = catalogue.run(&["log"]);
    run.failed(1, &["INV-277", " safe: ", " next: "]);
    assert!(
        run.stdout.starts_with("4 ") && !run.stdout.contains("forged"),
        "{}",
        run.stdout
    );
    std::fs::remove_file(root(&dir, 3)).unwrap();
    found(&["versions 3 to 3 are missing", "INV-321"]);
    std::fs::write(root(&dir, 3), &third).unwrap();
    // A leaf.
    let newest: Value = serde_json::from_slice(&fourth).unwrap();
    let leaf = dir.join(newest["products"]["weather"]["leaf"].as_str().unwrap());
    let bytes = std::fs::read(&leaf).unwrap();
    std::fs::write(
        &leaf,
        String::from_utf8(bytes.clone())
            .unwrap()
            .replace("embargoed", "withdrawn"),
    )
    .unwrap();
    found(&["inventory/leaves/", "INV-166"]);
    catalogue.refuses(&["show"], &["weather"]);
    catalogue.refuses(&["release", "weather", &second.to_string()], &["weather"]);
    std::fs::remove_file(&leaf).unwrap();
    found(&["leaf for product weather, and it is not there", "INV-167"]);
    std::fs::write(&leaf, bytes).unwrap();
    catalogue.sound();
    std::fs::remove_file(dir.join("catalog.json")).unwrap();
    found(&["there is no catalog.json", "INV-130"]);
}

/// INV-162: a change list that does not say what changed is found, although hash and link are right.
#[test]
fn a_change_list_that_lies_is_found() {
    let (catalogue, _, _) = Catalogue::with_one_waiting(None);
    let dir = catalogue.dir();
    let mut newest: Value = serde_json::from_slice(&std::fs::read(root(&dir, 4)).unwrap()).unwrap();
    newest["changes"] = serde_json::json!([]);
    let text = newest.to_string();
    std::fs::write(root(&dir, 4), rebuilt(&text)).unwrap();
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    let run = catalogue.run(&["verify"]);
    run.failed(1, &["not sound"]);
    assert!(
        run.stdout.contains("INV-162") && run.stdout.contains("weather"),
        "{}",
        run.stdout
    );
}

/// A root with `created_at` in its place again, which a sorted map of the test took from it.
fn rebuilt(text: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap();
    let order = [
        "format_version",
        "seq",
        "previous_inventory",
        "restore_epoch",
        "created_at",
        "producer",
        "embargo",
        "products",
        "retired",
        "event",
        "extensions",
        "previous_root_sha256",
        "changes",
    ];
    let fields: Vec<String> = order
        .iter()
        .filter(|key| value.get(**key).is_some())
        .map(|key| format!("\"{key}\":{}", value[*key]))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// INV-273: a lost Inventory is rebuilt only on somebody's word that nothing was ever withheld, and never over one that is
/// there or that shows a rollback.
#[test]
fn rebuilding_needs_an_assurance() {
    let catalogue = Catalogue::init(&[]);
    let live = |previous| Content {
        previous,
        live: true,
        ..Content::default()
    };
    let first = catalogue.seal("weather", live(None)).unwrap();
    let second = catalogue.seal("weather", live(Some(first))).unwrap();
    catalogue.refuses(&["rebuild", "--nothing-ever-withheld"], &["nothing to rebuild"]);
    std::fs::remove_file(catalogue.dir().join("CURRENT")).unwrap();
    std::fs::remove_dir_all(catalogue.dir().join("inventory")).unwrap();
    catalogue
        .run(&["rebuild"])
        .failed(1, &["INV-273", "--nothing-ever-withheld", " safe: "]);
    let done = catalogue.json(&["rebuild", "--nothing-ever-withheld"]);
    assert_eq!(
        (&done["seq"], &done["kind"]),
        (&Value::from(1), &Value::from("restore"))
    );
    assert_eq!(catalogue.state("weather", first), "superseded");
    assert_eq!(catalogue.state("weather", second), "live");
    catalogue.sound();

    catalogue.ok(&["rollback", "weather"]);
    std::fs::remove_file(root(&catalogue.dir(), 1)).unwrap();
    catalogue.refuses(&["rebuild", "--nothing-ever-withheld"], &["INV-273", "version 1"]);
}

/// INV-242, INV-249, INV-441: two processes at once both land, one after the other; of two that want the same, one is refused.
#[test]
fn two_processes_at_once() {
    let catalogue = Catalogue::init(&["--embargo"]);
    let products = ["a", "b", "c", "d"];
    let editions = products.map(|product| catalogue.seal(product, Content::default()).unwrap().to_string());
    let dir = catalogue.dir();
    let start = |args: &[&str]| {
        catalogue
            .node
            .command(&catalogue.args(dir.to_str().unwrap(), args))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let running: Vec<_> = products
        .iter()
        .zip(&editions)
        .map(|(product, edition)| start(&["release", product, edition]))
        .collect();
    for child in running {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(catalogue.roots(), 1 + 4 + 4);
    let twice = [
        start(&["withdraw", "a", "--if-live", &editions[0]]),
        start(&["withdraw", "a", "--if-live", &editions[0]]),
    ];
    let codes: Vec<_> = twice.map(|child| child.wait_with_output().unwrap()).into();
    let refused: Vec<_> = codes.iter().filter(|output| !output.status.success()).collect();
    assert_eq!(refused.len(), 1);
    let said = String::from_utf8_lossy(&refused[0].stderr);
    assert!(said.contains("INV-206"), "{said}");
    catalogue.sound();
}

/// A file with two columns that have no stable text, and one that has.
fn write_refused(path: &Path) {
    use arrow::{
        array::{ArrayRef, Int32Array, Int64Array, RecordBatch, Time64MicrosecondArray},
        datatypes::{DataType, Field, Schema, TimeUnit},
    };
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("clock", DataType::Time64(TimeUnit::Microsecond), false),
        Field::new("t", DataType::Int32, false),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1])),
        Arc::new(Time64MicrosecondArray::from(vec![1])),
        Arc::new(Int32Array::from(vec![1])),
    ];
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// INV-72, INV-73: the fingerprint of a Parquet file is DuckDB's, and every refused column is named.
#[test]
fn fingerprints_of_files() {
    let node = Node::empty();
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../catalog/inventory/tests/fingerprints");
    let cases: Value =
        serde_json::from_slice(&std::fs::read(vectors.join("fingerprint_vectors.json")).unwrap()).unwrap();
    let case = cases["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|case| case["name"] == "varchar_ascii");
    let expected = case.unwrap()["parquet_fingerprint"].as_str().unwrap();
    let file = vectors.join("parquet/varchar_ascii.parquet");
    let file = file.to_str().unwrap();
    assert_eq!(node.ok(&["edition", "fingerprint", file]).trim_end(), expected);
    let report = node.json(&["edition", "fingerprint", file]);
    assert_eq!(
        (&report["fingerprint"], &report["canonical_form"]),
        (&Value::from(expected), &Value::from("1"))
    );

    let bad = node.path("bad.parquet");
    write_refused(&bad);
    let bad = bad.to_str().unwrap();
    node.fails(
        &["edition", "fingerprint", bad],
        1,
        &["\"clock\"", "\"t\"", "INV-72", " safe: ", " next: "],
    );
    let run = node.run(&["edition", "fingerprint", bad, "--json"]);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let columns: Vec<_> = report["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|refused| &refused["column"])
        .collect();
    assert_eq!(columns, ["clock", "t"]);
    assert_eq!(
        (&report["fingerprint"], &report["error"]["kind"]),
        (&Value::Null, &Value::from("bad_input"))
    );

    let text = node.write("text.parquet", "no parquet at all");
    node.fails(
        &["edition", "fingerprint", text.to_str().unwrap()],
        1,
        &["text.parquet", " next: "],
    );
    node.fails(&["edition", "fingerprint", "none.parquet"], 1, &["none.parquet"]);
    node.fails(&["edition", "fingerprint", "."], 1, &["regular file"]);
}
