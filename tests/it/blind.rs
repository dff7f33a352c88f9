//! What somebody gets to see who lends disk: ids, ciphertext, padded lengths (SOP §12.1, §12.6).

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{daemon::Daemon, harness::Node};

/// Everything the replica keeps and everything it printed, file names included.
fn everything(node: &Node, daemon: &Daemon) -> Vec<(String, Vec<u8>)> {
    let mut found = vec![("log".to_owned(), std::fs::read(&daemon.log).unwrap())];
    for path in node.files() {
        let name = path.display().to_string();
        found.push((format!("name of {name}"), name.clone().into_bytes()));
        // A file of the running node may be gone by now.
        if let Ok(bytes) = std::fs::read(&path) {
            found.push((name, bytes));
        }
    }
    found
}

/// SOP-118, SOP-119, SOP-122, SOP-193: a blind replica's disk, log and answers hold no name, no value, no manifest and no count. It
/// lists ids and padded sizes in the order of ids, and gives the ciphertext back byte for byte.
#[test]
fn a_blind_replica_sees_ids_and_sizes() {
    let (laptop, vault) = (Node::init(), Node::init());
    let rows = "plantedvalue,1\n".repeat(400);
    let running = Daemon::of(&laptop);
    laptop.ok(&["mesh", "create", "plantedmesh"]);
    let mut placed = Vec::new();
    for n in 0..4 {
        let file = laptop.write(
            "in.csv",
            format!("plantedcolumn,other\n{rows}{}", "x,2\n".repeat(n * 40)),
        );
        let report = laptop.json(&["ingest", "plantedtable", file.to_str().unwrap()]);
        placed.push(report["objects"][0].as_str().unwrap().to_owned());
    }
    let invite = ["invite", "--role", "blind", "--expires", "10m", "--yes", "--no-wait"];
    let ticket = laptop.ok(&invite);
    vault.ok(&["join", ticket.trim(), "--yes"]);
    let replica = Daemon::of(&vault);

    let deadline = Instant::now() + Duration::from_secs(90);
    let objects: Vec<Value> = loop {
        let list = vault.json(&["object", "list"]);
        let objects = list["objects"].as_array().unwrap().clone();
        let has = |id: &String| objects.iter().any(|object| object["storage_id"] == **id);
        if placed.iter().all(has) {
            break objects;
        }
        assert!(Instant::now() < deadline, "nothing was placed: {list}");
        std::thread::sleep(Duration::from_millis(500));
    };
    let ids: Vec<_> = objects
        .iter()
        .map(|object| object["storage_id"].as_str().unwrap())
        .collect();
    assert!(ids.is_sorted(), "{ids:?}");
    for object in &objects {
        for unknown in ["kind", "table", "rows_stated", "created_ms"] {
            assert_eq!(object[unknown], Value::Null, "{unknown}");
        }
        let size = object["size_bytes"].as_u64().unwrap();
        assert_eq!(sovm_object::padme::padme(size), Some(size));
    }

    let mut words: Vec<Vec<u8>> = ["plantedtable", "plantedcolumn", "plantedvalue", "plantedmesh"]
        .iter()
        .flat_map(|word| {
            [
                word.as_bytes().to_vec(),
                word.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            ]
        })
        .collect();
    for id in &placed {
        // What the manifest is called, in both forms, and the object's key.
        let shown = laptop.json(&["object", "show", id]);
        let manifest = shown["manifest"].as_str().unwrap();
        words.push(manifest.as_bytes().to_vec());
        words.push(from_hex(manifest));
        let key = laptop.json(&["object", "key", id, "--yes-show-secret"]);
        words.push(from_hex(key["dek_hex"].as_str().unwrap()));
    }
    for (place, bytes) in everything(&vault, &replica) {
        for word in &words {
            let found = bytes.windows(word.len()).any(|window| window == &word[..]);
            assert!(!found, "{} is in {place}", String::from_utf8_lossy(word));
        }
    }
    for id in &placed {
        let dump = ["object", "hexdump", id, "--length", "1000000"];
        assert_eq!(vault.json(&dump)["hex"], laptop.json(&dump)["hex"]);
        assert_ne!(vault.run(&["object", "key", id, "--yes-show-secret"]).code, 0);
    }
    replica.kill();
    running.kill();
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}
