//! Plain files: put, get, what is signed about them, and their way over the network and through a recovery.

use std::{
    path::Path,
    process::{Child, Stdio},
};

use dcbor::CBOR;
use serde_json::Value;

use crate::{
    harness::Node,
    sample::{hex, unhex},
};

/// Bytes that no compression and no accident makes.
fn content(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

fn put(node: &Node, path: &Path) -> String {
    let report = node.json(&["object", "put", path.to_str().unwrap()]);
    report["files"][0]["storage_id"].as_str().unwrap().to_owned()
}

/// The file's bytes through `object get -o`.
fn get(node: &Node, id: &str, name: &str, range: Option<&str>) -> Vec<u8> {
    let path = node.path(name);
    let mut args = vec!["object", "get", id, "-o", path.to_str().unwrap()];
    args.extend(range.iter().flat_map(|range| ["--range", *range]));
    node.ok(&args);
    std::fs::read(path).unwrap()
}

fn object<'a>(list: &'a Value, id: &str) -> &'a Value {
    let objects = list["objects"].as_array().unwrap();
    objects.iter().find(|object| object["storage_id"] == id).unwrap()
}

/// SOP-275, SOP-57: a file comes back byte for byte, in whole and in ranges, under its id or this node's name for it, and rests as
/// a blob of a Padmé length.
#[test]
fn what_is_put_is_got() {
    let node = Node::init();
    for len in [0, 1, 65_528, 65_529, 3_000_000] {
        let name = format!("file-{len}.bin");
        let bytes = content(len);
        let id = put(&node, &node.write(&name, &bytes));
        assert_eq!(get(&node, &id, &format!("out-{len}"), None), bytes, "{len}");
        assert_eq!(get(&node, &name, &format!("by-name-{len}"), None), bytes, "{len}");
        let shown = node.json(&["object", "show", &id]);
        assert_eq!((&shown["kind"], &shown["state"]), (&"file".into(), &"queryable".into()));
        assert_eq!(
            (&shown["name"], &shown["content_bytes"]),
            (&name.as_str().into(), &len.into())
        );
        let size = shown["size_bytes"].as_u64().unwrap();
        assert_eq!(
            sovm_object::padme::padme(shown["exact_bytes"].as_u64().unwrap()),
            Some(size)
        );
        let tail = node.json(&["object", "hexdump", &id, "--offset", &(size - 4).to_string()]);
        assert_eq!(tail["hex"], hex(b"SVB1"));
    }
    let bytes = content(3_000_000);
    let id = "file-3000000.bin";
    for (index, (range, expected)) in [
        ("0-0", 0..1),
        ("65527-65528", 65_527..65_529),
        ("100000-2999999", 100_000..3_000_000),
        ("2999999-", 2_999_999..3_000_000),
        ("2000000-9999999999", 2_000_000..3_000_000),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(
            get(&node, id, &format!("range-{index}"), Some(range)),
            bytes[expected],
            "{range}"
        );
    }
    node.fails(
        &["object", "get", id, "-o", "x", "--range", "3000000-"],
        1,
        &["3000000 bytes"],
    );
    node.fails(&["object", "get", id, "-o", "out-1"], 1, &["out-1", "not changed"]);
    node.fails(&["object", "get", id, "--json"], 2, &[]);
    assert!(!node.path("x").exists());
}

/// DESIGN §7: standard input becomes a file too; nothing of it lies anywhere in plaintext.
#[test]
fn standard_input_is_put_without_a_trace() {
    let node = Node::init();
    let bytes = b"planted-sentence;".repeat(20_000);
    let run = node.run_with_input(&["object", "put", "-", "--name", "planted-name", "--json"], &bytes);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(get(&node, "planted-name", "out", None), bytes);
    for path in node.files() {
        let stored = std::fs::read(&path).unwrap();
        for word in [&b"planted-sentence"[..], b"planted-name"] {
            let found = stored.windows(word.len()).any(|window| window == word);
            assert!(!found, "{word:?} is in clear in {}", path.display());
        }
    }
}

/// All files of one command or none.
#[test]
fn one_bad_file_publishes_none() {
    let node = Node::init();
    let good = node.write("good", b"good");
    let (good, dir) = (good.to_str().unwrap(), node.path("dir"));
    std::fs::create_dir(&dir).unwrap();
    node.fails(
        &["object", "put", good, "missing"],
        1,
        &["missing", "nothing was published"],
    );
    node.fails(
        &["object", "put", good, dir.to_str().unwrap()],
        1,
        &["directory", "tar"],
    );
    node.fails(&["object", "put", good, good, "--name", "n"], 2, &["--name"]);
    node.fails(&["object", "put", "-", good], 2, &[]);
    assert_eq!(node.json(&["object", "list"])["objects"], Value::Array(vec![]));
    node.fails(&["object", "get", "good", "-o", "out"], 1, &["good"]);
    let csv = node.write("t.csv", "x\n1\n");
    let table = node.json(&["ingest", "t", csv.to_str().unwrap()]);
    node.fails(
        &["object", "get", table["objects"][0].as_str().unwrap(), "-o", "out"],
        1,
        &["is no file", "sovm sql"],
    );
}

/// SOP-104, SOP-105: a projection and a range never make an object "verified whole"; a scrub does; the next fault takes it away,
/// and the file is not given out.
#[test]
fn verified_whole_follows_scrubs_and_faults() {
    let node = Node::init();
    let id = put(&node, &node.write("file", content(300_000)));
    let csv = node.write("t.csv", "x,y\n1,a\n2,b\n");
    let table = node.json(&["ingest", "t", csv.to_str().unwrap()]);
    let table = table["objects"][0].as_str().unwrap();
    node.ok(&["sql", "select x from t"]);
    get(&node, &id, "part", Some("0-9"));
    get(&node, &id, "whole", None);
    let verified = |id: &str| node.json(&["object", "show", id])["verified_whole_ms"].clone();
    assert_eq!((verified(table), verified(&id)), (Value::Null, Value::Null));

    let report = node.json(&["object", "verify"]);
    let findings: Vec<_> = report["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["findings"])
        .collect();
    assert!(findings.iter().all(|found| **found == Value::Array(vec![])), "{report}");
    assert!(verified(table).is_u64() && verified(&id).is_u64());

    let data = node.files().into_iter().find(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy() == format!("{id}.data"))
    });
    let data = data.expect("an object of this size has a file of its own");
    let mut stored = std::fs::read(&data).unwrap();
    stored[200_000] ^= 1;
    std::fs::write(&data, stored).unwrap();
    let run = node.run(&["object", "get", &id, "-o", "damaged"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(!node.path("damaged").exists(), "half a file was left");
    let shown = node.json(&["object", "show", &id]);
    assert_eq!(
        (&shown["state"], &shown["verified_whole_ms"]),
        (&"quarantined".into(), &Value::Null)
    );
    let run = node.run(&["object", "verify", &id]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(verified(&id).is_null() && verified(table).is_u64());
}

/// Every signed thing can be taken out and checked with other tools: decoded by another CBOR library, verified by plain COSE
/// and Ed25519, in a context built from what `docs/formats.md` says (SOP-150, SOP-151).
#[test]
fn signed_records_can_be_checked_elsewhere() {
    let node = Node::init();
    let file = put(&node, &node.write("file", b"content"));
    let csv = node.write("t.csv", "x\n1\n");
    let table = node.json(&["ingest", "t", csv.to_str().unwrap()]);
    for (id, kind) in [(file.as_str(), 7_u64), (table["objects"][0].as_str().unwrap(), 1)] {
        let dir = node.path(&format!("raw-{kind}"));
        let report = node.json(&["object", "show", id, "--raw", dir.to_str().unwrap()]);
        let mesh = unhex(report["mesh_id"].as_str().unwrap());
        let read = |part: &str| std::fs::read(dir.join(format!("{id}.{part}.cose"))).unwrap();

        let manifest = read("manifest");
        let payload = payload_of(&manifest);
        let field = |key: u64| bytes(&payload, key);
        assert_eq!(payload.get::<u64, u64>(3), Some(kind));
        assert_eq!((field(2), field(4)), (mesh.clone(), unhex(id)));
        let context = array([
            CBOR::from("sovm/sop"),
            CBOR::from(1_u64),
            CBOR::from("sovm/object-manifest-v1"),
            CBOR::to_byte_string(&mesh),
            CBOR::null(),
            CBOR::to_byte_string(field(8)),
            CBOR::from(kind),
            CBOR::to_byte_string(unhex(id)),
        ]);
        check_signature(&manifest, &context, &field(8));

        let access = read("access-1");
        let payload = payload_of(&access);
        let field = |key: u64| bytes(&payload, key);
        let manifest_hash = blake3::hash(&manifest).as_bytes().to_vec();
        assert_eq!((field(4), field(5)), (unhex(id), manifest_hash.clone()));
        let context = array([
            CBOR::from("sovm/sop"),
            CBOR::from(1_u64),
            CBOR::from("sovm/access-record-v1"),
            CBOR::to_byte_string(&mesh),
            CBOR::to_byte_string(field(3)),
            CBOR::to_byte_string(field(12)),
            CBOR::to_byte_string(&manifest_hash),
            CBOR::to_byte_string(unhex(id)),
        ]);
        check_signature(&access, &context, &field(12));
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 2);
        node.fails(
            &["object", "show", id, "--raw", dir.to_str().unwrap()],
            1,
            &["already", "not changed"],
        );
    }
}

fn array(items: impl IntoIterator<Item = CBOR>) -> Vec<u8> {
    CBOR::from(items.into_iter().collect::<Vec<CBOR>>()).to_cbor_data()
}

fn payload_of(cose: &[u8]) -> dcbor::Map {
    use coset::TaggedCborSerializable as _;
    // The envelope by the one library, the payload by the other; dcbor takes deterministic encodings only.
    let envelope = coset::CoseSign1::from_tagged_slice(cose).unwrap();
    CBOR::try_from_data(cose).unwrap();
    CBOR::try_from_data(envelope.payload.unwrap())
        .unwrap()
        .try_into_map()
        .unwrap()
}

fn bytes(map: &dcbor::Map, key: u64) -> Vec<u8> {
    let value: CBOR = map.get(key).unwrap();
    value.try_into_byte_string().unwrap()
}

fn check_signature(cose: &[u8], context: &[u8], public: &[u8]) {
    use coset::TaggedCborSerializable as _;
    let key = ed25519_dalek::VerifyingKey::from_bytes(public.try_into().unwrap()).unwrap();
    let envelope = coset::CoseSign1::from_tagged_slice(cose).unwrap();
    let verify = |signature: &[u8], message: &[u8]| {
        key.verify_strict(message, &ed25519_dalek::Signature::from_slice(signature).unwrap())
    };
    envelope.verify_signature(context, verify).unwrap();
    let mut other = context.to_vec();
    *other.last_mut().unwrap() ^= 1;
    assert!(envelope.verify_signature(&other, verify).is_err());
}

/// A running daemon that ends with this value.
struct Daemon(Child);

impl Daemon {
    fn of(node: &Node) -> Self {
        let child = node
            .command(&["run"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let daemon = Self(child.unwrap());
        node.ok(&["status", "--wait", "30s"]);
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ticket(node: &Node, role: &str) -> String {
    let args = ["invite", "--role", role, "--expires", "10m", "--yes", "--no-wait"];
    node.ok(&args).trim().to_owned()
}

/// Through a daemon; to a reader who joins; to a blind replica that cannot read it; and back from that replica and a page.
#[test]
fn files_travel_and_come_back() {
    let bytes = content(400_000);
    let laptop = Node::init();
    let running = Daemon::of(&laptop);
    laptop.ok(&["mesh", "create", "club"]);
    let id = put(&laptop, &laptop.write("holiday.jpg", &bytes));
    let run = laptop.run_with_input(&["object", "put", "-", "--name", "piped", "--json"], &bytes[..1_000]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(get(&laptop, "piped", "piped", None), bytes[..1_000]);

    let phone = Node::init();
    phone.ok(&["join", &ticket(&laptop, "reader"), "--yes"]);
    phone.ok(&["sync", "--wait", "60s"]);
    assert_eq!(get(&phone, &id, "got", None), bytes);
    let listed = phone.json(&["object", "list"]);
    assert_eq!(
        (&object(&listed, &id)["kind"], &object(&listed, &id)["name"]),
        (&"file".into(), &Value::Null),
        "the name stayed at home"
    );
    let own = phone.write("own", b"mine");
    phone.fails(&["object", "put", own.to_str().unwrap()], 1, &["reader"]);

    let vault = Node::init();
    // The kit's page names the place, so it must stay where it is.
    let port = std::net::UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let config = format!("[network]\nbind = [\"127.0.0.1:{port}\"]\n");
    std::fs::write(vault.home().join("config.toml"), config).unwrap();
    vault.ok(&["join", &ticket(&laptop, "blind"), "--yes"]);
    let vault_runs = Daemon::of(&vault);
    let page = laptop.ok(&["recovery", "kit"]);
    laptop.ok(&["recovery", "checkpoint"]);
    laptop.ok(&["sync", "--wait", "60s"]);
    vault.ok(&["sync", "--wait", "60s"]);
    let held = vault.json(&["object", "list"]);
    assert_eq!(object(&held, &id)["state"], "held");
    vault.fails(&["object", "get", &id, "-o", "x"], 1, &["blind"]);
    let drill = laptop.json(&["drill", "--full"]);
    assert_eq!(
        (&drill["proven"], &drill["domains"][0]["files"]),
        (&true.into(), &2.into()),
        "{drill}"
    );
    drop(running);

    let heir = Node::empty();
    let page = heir.write("page.txt", page);
    let key = heir.key_file();
    heir.ok(&[
        "recover",
        "--kit",
        page.to_str().unwrap(),
        "--name",
        "heir",
        "--key-file",
        key.to_str().unwrap(),
    ]);
    assert_eq!(get(&heir, &id, "back", None), bytes);
    let report = heir.json(&["object", "verify", &id]);
    assert_eq!(report["objects"][0]["findings"], Value::Array(vec![]));
    // The checkpoint it came from is no left-over, at once or later.
    let plan = heir.json(&["gc", "--dry-run", "--after", "0s"]);
    assert_eq!(
        (&plan["removed"], &plan["waiting"]),
        (&Value::Array(vec![]), &Value::Array(vec![])),
        "{plan}"
    );
    drop(vault_runs);
}

/// UUIDs read as UUIDs in text formats, stay sixteen bytes in Arrow and Parquet, and compare with their text.
#[test]
fn uuids_are_texts_for_people() {
    let node = Node::init();
    let schema = node.write("t.schema", "id uuid not null\nn int64\n");
    let ids = [
        "0f8fad5b-d9cb-469f-a165-70867728950e",
        "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    ];
    let csv = node.write("t.csv", format!("id,n\n{},1\n{},2\n", ids[0], ids[1]));
    node.ok(&[
        "ingest",
        "t",
        csv.to_str().unwrap(),
        "--schema",
        schema.to_str().unwrap(),
    ]);
    assert_eq!(node.rows("select id from t order by id"), ids);
    assert_eq!(node.rows("select max(id) from t"), [ids[1]]);
    assert_eq!(
        node.json(&["sql", "select id from t where n = 1"])["data"][0]["id"],
        ids[0]
    );
    assert!(
        node.ok(&["sql", "select id from t"]).contains(ids[0]),
        "the table format"
    );
    for query in [
        format!("select n from t where id = '{}'", ids[1]),
        format!("select n from t where '{}' = id", ids[1].to_uppercase()),
        format!("select n from t where id > '{}'", ids[0]),
        format!(
            "select n from t where id in ('{}', '00000000-0000-0000-0000-000000000000')",
            ids[1]
        ),
        format!("select n from t where id not in ('{}')", ids[0]),
        format!(
            "select n from t where id between '{}' and 'ffffffff-ffff-ffff-ffff-ffffffffffff'",
            ids[1]
        ),
    ] {
        assert_eq!(node.rows(&query), ["2"], "{query}");
    }
    node.fails(&["sql", "select n from t where id = 'abc'"], 1, &["abc", "UUID"]);
    node.fails(&["sql", "select n from t where id in ('abc')"], 1, &["abc", "UUID"]);
    let parquet = node
        .command(&["sql", "select id from t", "--format", "parquet"])
        .output()
        .unwrap();
    let reader =
        parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(bytes_of(parquet.stdout)).unwrap();
    let stored = reader.schema().field(0).data_type().clone();
    assert_eq!(stored, arrow::datatypes::DataType::FixedSizeBinary(16));
}

/// What the Parquet reader takes: a file, since the test has no other source at hand.
fn bytes_of(parquet: Vec<u8>) -> std::fs::File {
    use std::io::{Seek as _, Write as _};
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&parquet).unwrap();
    file.rewind().unwrap();
    file
}
