//! Damage on a disk: found, set aside, told of, and healed from another device.

use std::{
    io::{Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use crate::harness::Node;

const DEADLINE: Duration = Duration::from_secs(90);
/// Large enough for a data file and an outboard file of its own.
const ROWS: u64 = 320_000;

/// `sovm run`, stopped with the value.
struct Daemon(Child);

impl Daemon {
    fn of(node: &Node) -> Self {
        let child = node
            .command(&["run"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let daemon = Self(child);
        node.ok(&["status", "--wait", "60s"]);
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < DEADLINE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// The files of the largest object: data, inner hashes.
fn files_of(node: &Node, id: &str) -> (PathBuf, PathBuf) {
    let find = |ending: &str| {
        let name = format!("{id}.{ending}");
        node.files()
            .into_iter()
            .find(|path| path.file_name().is_some_and(|found| *found == *name))
            .unwrap_or_else(|| panic!("{name} is not in {:?}", node.files()))
    };
    (find("data"), find("obao4"))
}

fn largest_object(node: &Node) -> String {
    let list = node.json(&["object", "list", "--table", "numbers"]);
    let objects = list["objects"].as_array().unwrap();
    let largest = objects
        .iter()
        .max_by_key(|object| object["size_bytes"].as_u64())
        .unwrap();
    largest["storage_id"].as_str().unwrap().to_owned()
}

fn flip(path: &Path, at: u64) {
    let mut byte = std::fs::read(path).unwrap()[at as usize];
    byte ^= 1;
    let mut file = std::fs::File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(&[byte]).unwrap();
}

fn numbers(node: &Node) {
    // Numbers that compress badly, so that one object has many groups.
    let mut state = 7_u64;
    let mut text = String::from("a,b\n");
    for _ in 0..ROWS {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{},{}\n", state >> 1, state.rotate_left(17) >> 1));
    }
    let path = node.write("numbers.csv", text);
    node.ok(&["ingest", "numbers", path.to_str().unwrap()]);
}

/// SOP-187, SOP-261, SOP-262, SOP-263: a flipped byte, damaged inner hashes, a short file and a file that is gone are each
/// found by a verification, told by `doctor`, and replaced in place with bytes of the same id from another device.
#[test]
fn damage_heals_from_another_device() {
    let (giver, taker) = (Node::init(), Node::init());
    numbers(&giver);
    let _giving = Daemon::of(&giver);
    let invite = giver.json(&["invite", "--role", "reader", "--yes", "--expires", "10m", "--no-wait"]);
    taker.ok(&["join", invite["ticket"].as_str().unwrap(), "--yes"]);
    let mut running = Some(Daemon::of(&taker));
    let expected = giver.rows("select count(*), sum(a % 1000) from numbers");
    eventually("everything is here", || {
        taker.run(&["sql", "select count(*) from numbers"]).code == 0 && taker.run(&["status", "--strict"]).code == 0
    });
    assert_eq!(taker.rows("select count(*), sum(a % 1000) from numbers"), expected);
    let id = largest_object(&taker);

    type Damage = fn(&Path, &Path);
    let damages: [(&str, Damage); 5] = [
        ("a flipped byte", |data, _| flip(data, 70_000)),
        ("flipped inner hashes", |_, outboard| flip(outboard, 70)),
        ("a short file", |data, _| {
            let file = std::fs::File::options().write(true).open(data).unwrap();
            file.set_len(50_000).unwrap();
        }),
        ("a missing file", |data, _| std::fs::remove_file(data).unwrap()),
        ("missing inner hashes", |_, outboard| {
            std::fs::remove_file(outboard).unwrap()
        }),
    ];
    for (what, damage) in damages {
        drop(running.take());
        let (data, outboard) = files_of(&taker, &id);
        damage(&data, &outboard);
        let run = taker.run(&["object", "verify", &id]);
        assert_eq!(run.code, 1, "{what}: {}{}", run.stdout, run.stderr);
        assert!(
            run.stdout.contains("sovm run fetches an intact copy"),
            "{what}: {}",
            run.stdout
        );
        let doctor = taker.run(&["doctor"]);
        assert!(
            doctor.stdout.contains("do not match their id") || doctor.stdout.contains("wait for their bytes"),
            "{what}: {}",
            doctor.stdout
        );
        // No row of it is given out, and the query says so.
        assert_eq!(taker.run(&["sql", "select sum(a) from numbers"]).code, 1, "{what}");

        running = Some(Daemon::of(&taker));
        eventually(what, || taker.run(&["status", "--strict"]).code == 0);
        taker.ok(&["object", "verify", &id]);
        assert_eq!(
            taker.rows("select count(*), sum(a % 1000) from numbers"),
            expected,
            "{what}"
        );
    }

    // Found by a query of the running node, the same happens without a word from anybody.
    let (data, _) = files_of(&taker, &id);
    std::fs::remove_file(&data).unwrap();
    taker
        .run(&["object", "verify", &id])
        .failed(1, &["some objects do not verify"]);
    eventually("healed while running", || {
        taker.run(&["object", "verify", &id]).code == 0
    });
    assert_eq!(taker.rows("select count(*), sum(a % 1000) from numbers"), expected);
}

/// SOP-254, SOP-256: without another device the damage is told, with what to do, and nothing else is lost.
#[test]
fn a_single_node_says_that_nobody_can_help() {
    let node = Node::init();
    numbers(&node);
    let other = node.write("other.csv", "x\n1\n2\n");
    node.ok(&["ingest", "other", other.to_str().unwrap()]);
    let id = largest_object(&node);
    let (data, _) = files_of(&node, &id);
    std::fs::remove_file(&data).unwrap();

    node.fails(&["doctor"], 1, &["findings need repair"]);
    let doctor = node.run(&["doctor"]).stdout;
    assert!(
        doctor.contains("1 of them published here") && doctor.contains("publish the rows again"),
        "{doctor}"
    );
    let verify = node.run(&["object", "verify"]);
    assert_eq!(verify.code, 1);
    assert!(verify.stdout.contains("no other device is known"), "{}", verify.stdout);
    assert_eq!(node.rows("select sum(x) from other"), ["3"]);
    node.fails(&["sql", "select sum(a) from numbers"], 1, &[]);
    // Publishing the rows again is what it said; the object that was lost stays known as missing.
    numbers(&node);
    assert_eq!(
        node.run(&["status", "--strict"]).code,
        20,
        "the first object still waits"
    );
}

/// What `--repair` does, and that a healthy node says so.
#[test]
fn doctor_repairs_what_loses_nothing() {
    let node = Node::init();
    node.ok(&["recovery", "kit"]);
    let healthy = node.ok(&["doctor", "--strict"]);
    assert!(healthy.contains("nothing is wrong"), "{healthy}");

    // A key store whose last write was torn: the error names the command, and the command does it.
    let current = node.home().join("keystore.age");
    let whole = std::fs::read(&current).unwrap();
    std::fs::write(&current, &whole[..whole.len() / 2]).unwrap();
    node.fails(&["status"], 1, &["sovm doctor --repair"]);
    node.fails(&["doctor"], 1, &["sovm doctor --repair"]);
    let repaired = node.ok(&["doctor", "--repair"]);
    assert!(repaired.contains("previous copy is in use"), "{repaired}");
    node.ok(&["doctor", "--strict"]);

    // A temporary file of a process that was killed long ago.
    let litter = node.home().join(".tmpAbC123");
    std::fs::write(&litter, b"x").unwrap();
    let old = std::time::SystemTime::now() - Duration::from_secs(3_600);
    std::fs::File::options()
        .write(true)
        .open(&litter)
        .unwrap()
        .set_modified(old)
        .unwrap();
    assert_eq!(node.run(&["doctor", "--strict"]).code, 20);
    node.ok(&["doctor", "--repair", "--strict"]);
    assert!(!litter.exists());

    // The key file beside the data is worth knowing, and no reason to fail.
    let key = node.home().join("node.key");
    std::fs::copy(node.key_file(), &key).unwrap();
    let output = node
        .command(&["doctor", "--strict"])
        .env("SOVM_KEY_FILE", &key)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("protects nothing"), "{text}");
}
