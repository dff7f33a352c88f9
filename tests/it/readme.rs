//! The README's tutorial does what it says, pasted block by block into an empty directory.

use std::{
    fs::File,
    os::unix::{fs::symlink, process::CommandExt as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const FENCE: &str = "```sh tutorial";
const DEADLINE: Duration = Duration::from_secs(120);

/// The tutorial blocks of a page, in order.
fn blocks(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line.trim_end() {
            FENCE => {
                inside = true;
                found.push(String::new());
            }
            "```" => inside = false,
            _ if inside => {
                let block = found.last_mut().expect("a block was opened");
                block.push_str(line);
                block.push('\n');
            }
            _ => {}
        }
    }
    assert!(!inside, "the last block is not closed");
    found
}

/// A shell and everything it started, which end together with this value.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // The tutorial leaves nodes running when it fails half way. They are in the group of the shell, which was made for it.
        let group = format!("kill -KILL -- -{}", self.0.id());
        let _ = Command::new("bash").args(["-c", &group]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

/// Runs `script` in `dir`; gives its exit code, if it came in time, and what it printed.
fn run(script: &str, dir: &Path, path: &std::ffi::OsStr, log: &Path) -> (Option<i32>, String) {
    let output = File::create(log).unwrap();
    // Output goes to a file: a pipe would stay open as long as any node the script started.
    let shell = Command::new("bash")
        .args(["-c", script])
        .env_clear()
        .env("PATH", path)
        .env("HOME", dir)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .process_group(0)
        .spawn()
        .unwrap();
    let mut group = Group(shell);
    let started = Instant::now();
    let code = loop {
        match group.0.try_wait().unwrap() {
            Some(status) => break Some(status.code().unwrap_or(-1)),
            None if started.elapsed() > DEADLINE => break None,
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    drop(group);
    (code, String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned())
}

#[test]
fn tutorial_runs_as_it_stands() {
    let page = include_str!("../../README.md");
    let blocks = blocks(page);
    assert!(blocks.len() >= 3, "the README lost its tutorial");
    let script = format!("set -euo pipefail\nset -x\n{}", blocks.concat());

    let temp = tempfile::tempdir().unwrap();
    let (bin, work) = (temp.path().join("bin"), temp.path().join("work"));
    std::fs::create_dir(&bin).unwrap();
    std::fs::create_dir(&work).unwrap();
    symlink(env!("CARGO_BIN_EXE_sovm-under-test"), bin.join("sovm")).unwrap();
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&inherited))).unwrap();

    let (code, output) = run(&script, &work, &path, &temp.path().join("log"));
    match code {
        Some(0) => {}
        Some(code) => panic!("the tutorial ended with exit code {code}:\n{output}"),
        None => panic!("the tutorial was not done after {} s:\n{output}", DEADLINE.as_secs()),
    }
    // The answer stands there three times: at home, on the second device, and after recovery.
    let answers = output
        .lines()
        .filter(|line| line.contains("north") && line.contains("3.5"))
        .count();
    assert!(answers >= 3, "the query was answered {answers} times:\n{output}");
}

#[test]
fn blocks_are_found_in_order() {
    let page = "```sh\nno\n```\n```sh tutorial\na\nb\n```\ntext\n```sh tutorial\nc\n```\n";
    assert_eq!(blocks(page), ["a\nb\n", "c\n"]);
}

/// What a script leaves running ends with it, and a script that fails is told from one that does not end.
#[test]
fn what_a_script_started_ends_with_it() {
    let temp = tempfile::tempdir().unwrap();
    let log = temp.path().join("log");
    let path = std::env::var_os("PATH").unwrap();
    let (code, output) = run(
        "while :; do echo beat >> heart; sleep 0.05; done & sleep 0.3; exit 7",
        temp.path(),
        &path,
        &log,
    );
    assert_eq!((code, output.as_str()), (Some(7), ""));
    let beats = || std::fs::metadata(temp.path().join("heart")).unwrap().len();
    let last = beats();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(beats(), last, "the loop still runs");
}
