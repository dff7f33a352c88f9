//! Bad input: a clear error with the next step, the right exit code, and nothing half-published.

use std::process::{Command, Stdio};

use crate::{fuzz::Numbers, harness::Node};

/// After a refused ingest nothing is there: no table, no object, no row.
fn nothing_published(node: &Node) {
    assert_eq!(node.json(&["object", "list"])["objects"].as_array().unwrap().len(), 0);
    assert_eq!(node.json(&["table", "list"])["tables"].as_array().unwrap().len(), 0);
}

#[test]
fn no_node_here() {
    let node = Node::empty();
    node.fails(&["status"], 10, &["sovm init"]);
    node.fails(&["ingest", "t", "x.csv"], 10, &["sovm init"]);
}

#[test]
fn missing_file_and_directory() {
    let node = Node::init();
    node.fails(&["ingest", "t", "no-such-file.csv"], 1, &["no-such-file.csv"]);
    std::fs::create_dir(node.path("dir.csv")).unwrap();
    node.fails(&["ingest", "t", "dir.csv"], 1, &["dir.csv", "directory"]);
    nothing_published(&node);
}

#[test]
fn unreadable_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let node = Node::init();
    let path = node.write("secret.csv", "x\n1\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).unwrap();
    if std::fs::read(&path).is_ok() {
        println!("skipped: this user may read every file, so no file is unreadable");
        return;
    }
    node.fails(&["ingest", "t", "secret.csv"], 1, &["secret.csv", "permission"]);
    nothing_published(&node);
}

#[test]
fn broken_csv_names_the_place() {
    let node = Node::init();
    let cases: [(&str, &[u8], &[&str]); 6] = [
        ("ragged.csv", b"a,b\n1,2\n3\n", &["ragged.csv", "line 3"]),
        ("wide.csv", b"a,b\n1,2\n3,4,5\n", &["wide.csv", "line 3"]),
        ("utf8.csv", b"a,b\n1,\xff\xfe\n", &["utf8.csv", "UTF-8"]),
        ("twice.csv", b"a,b,a\n1,2,3\n", &["twice.csv", "a"]),
        ("unnamed.csv", b"a,,c\n1,2,3\n", &["unnamed.csv", "name"]),
        ("empty.csv", b"", &["empty.csv", "empty"]),
    ];
    for (name, bytes, words) in cases {
        node.write(name, bytes);
        node.fails(&["ingest", "t", name], 1, words);
        nothing_published(&node);
    }
}

/// One bad file among good ones: none of them counts.
#[test]
fn all_or_nothing_over_several_files() {
    let node = Node::init();
    node.write("good.csv", "a,b\n1,2\n");
    node.write("bad.csv", "a,b\n1,2\n3\n");
    node.fails(&["ingest", "t", "good.csv", "bad.csv"], 1, &["bad.csv", "line 3"]);
    nothing_published(&node);
}

#[test]
fn value_that_does_not_fit_an_existing_table() {
    let node = Node::init();
    node.write("good.csv", "a\n1\n");
    node.write("bad.csv", "a\n2\nthree\n");
    node.ok(&["ingest", "t", "good.csv"]);
    node.fails(&["ingest", "t", "bad.csv"], 1, &["bad.csv", "line 3", "three"]);
    assert_eq!(node.rows("select a from t"), ["1"]);
}

/// Runs the commands in a file system of 16 MiB that only they see. `None`: this system lets nobody mount one.
fn in_small_disk(node: &Node, commands: &str) -> Option<String> {
    let home = node.home();
    std::fs::create_dir_all(&home).unwrap();
    let mount = format!("mount -t tmpfs -o size=16m none '{}'", home.display());
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        for (name, value) in node.command(&[]).get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
            .args(["--map-root-user", "--mount", "bash", "-c", script])
            .current_dir(node.path("."))
            .output()
    };
    if !unshare(&mount).is_ok_and(|output| output.status.success()) {
        return None;
    }
    let sovm = env!("CARGO_BIN_EXE_sovm-under-test");
    let script = format!("exec 2>&1\nset -eu\n{mount}\nsovm() {{ '{sovm}' \"$@\"; }}\n{commands}");
    let output = unshare(&script).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    Some(text)
}

/// A full disk stops an ingest wherever the write is that finds it; nothing is half published, and with room again the same
/// command works.
#[test]
fn disk_full_while_ingesting() {
    let node = Node::empty();
    let mut numbers = Numbers::new(7);
    let mut csv = String::from("id,noise\n");
    for id in 0..2_000 {
        let noise: String = (0..60).map(|_| format!("{:016x}", numbers.next())).collect();
        csv.push_str(&format!("{id},{noise}\n"));
    }
    node.write("noise.csv", csv);
    let commands = r#"
        sovm init --name tester --key-file "$SOVM_KEY_FILE"
        printf '[limits]\ndisk_reserve = "1B"\n' > "$SOVM_HOME/config.toml"
        for left in 0 4 20 100 700; do
            rm -f "$SOVM_HOME/filler"
            free=$(df -k --output=avail "$SOVM_HOME" | tail -1)
            head -c $(( (free - left) * 1024 )) /dev/zero > "$SOVM_HOME/filler"
            code=0; sovm ingest noise noise.csv || code=$?
            echo "left $left: exit $code"
        done
        rm "$SOVM_HOME/filler"
        echo "objects: $(sovm object list --json | grep -c storage_id || true)"
        sovm ingest noise noise.csv
        sovm sql "select count(*) as n from noise" --format csv
        sovm object verify
    "#;
    let Some(text) = in_small_disk(&node, commands) else {
        println!("skipped: this system does not let a test mount a small file system");
        return;
    };
    assert_eq!(text.matches(": exit 1\n").count(), 5, "{text}");
    assert_eq!(text.matches("next: free some space").count(), 5, "{text}");
    assert!(text.contains("objects: 0\n"), "{text}");
    assert!(text.contains("\nn\n2000\n"), "{text}");
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn wrong_key_file_opens_nothing() {
    let node = Node::init();
    let other = Node::init();
    std::fs::copy(other.key_file(), node.key_file()).unwrap();
    node.fails(&["status"], 12, &["key"]);
}

/// DESIGN §16.9: without a terminal the passphrase comes from nowhere, so the command says so and stops.
#[test]
fn no_passphrase_without_a_terminal() {
    let node = Node::init();
    let output = node
        .command(&["status"])
        .env_remove("SOVM_KEY_FILE")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(12),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn second_process_on_one_home() {
    let node = Node::init();
    let mut child = node
        .command(&["ingest", "t", "-", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The first command holds the home while it waits for its input.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let run = node.run(&["status"]);
        if run.code == 11 {
            run.failed(11, &[&child.id().to_string()]);
            break;
        }
        assert!(
            std::time::Instant::now() < deadline,
            "the second process never found the home in use"
        );
    }
    drop(child.stdin.take());
    child.wait().unwrap();
    node.ok(&["status"]);
}

#[test]
fn tickets_that_are_none() {
    let node = Node::init();
    node.fails(&["join", "hello", "--yes"], 1, &["ticket"]);
    // A ticket is only made while somebody is there to answer it.
    node.fails(&["invite", "--role", "reader", "--no-wait"], 1, &["sovm run"]);
    let mut daemon = node.command(&["run"]).stdout(Stdio::null()).spawn().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let made = loop {
        let run = node.run(&["invite", "--role", "reader", "--no-wait", "--json"]);
        if run.code == 0 || std::time::Instant::now() > deadline {
            break run;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert_eq!(made.code, 0, "{}{}", made.stdout, made.stderr);
    let made: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    let ticket = made["ticket"].as_str().unwrap().to_owned();
    let mut typo: Vec<char> = ticket.chars().collect();
    let at = typo.len() / 2;
    typo[at] = if typo[at] == 'a' { 'b' } else { 'a' };
    let typo: String = typo.into_iter().collect();
    node.fails(&["join", &typo, "--yes"], 1, &["ticket"]);
}

#[test]
fn sql_that_is_wrong_or_would_change_something() {
    let node = Node::init();
    node.write("weather.csv", "a\n1\n");
    node.ok(&["ingest", "weather", "weather.csv"]);
    node.fails(&["sql", "select * from wether"], 1, &["wether", "weather"]);
    node.fails(&["sql", "selec 1"], 1, &["selec"]);
    node.fails(&["sql", "drop table weather"], 1, &["read"]);
    node.fails(&["sql", "copy weather to 'x.csv'"], 1, &[]);
    node.fails(
        &["sql", "create external table x stored as csv location '/etc/passwd'"],
        1,
        &[],
    );
    assert!(!node.path("x.csv").exists());
}

#[test]
fn usage_errors_exit_with_two() {
    let node = Node::empty();
    assert_eq!(node.run(&["no-such-command"]).code, 2);
    assert_eq!(node.run(&["ingest"]).code, 2);
}
