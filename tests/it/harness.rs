//! A node in a directory of its own, driven as a person would: by running the binary.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

/// A home with its key file beside it, in one temporary directory.
pub(crate) struct Node {
    dir: tempfile::TempDir,
}

/// What a finished command left behind.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Node {
    /// A directory without a node.
    pub(crate) fn empty() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// A node that a key file opens.
    pub(crate) fn init() -> Self {
        let node = Self::empty();
        node.ok(&["init", "--name", "tester"]);
        std::fs::write(node.home().join("config.toml"), "[network]\nbind = [\"127.0.0.1:0\"]\n").unwrap();
        node
    }

    /// A copy of the home and its key file as they are now, as a backup would hold them. No process may be at work on the home.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::empty();
        copy_tree(&self.home(), &copy.home());
        std::fs::copy(self.key_file(), copy.key_file()).unwrap();
        copy
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.dir.path().join("node.key")
    }

    /// A place for input files, outside the home.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sovm-under-test"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("SOVM_HOME", self.home())
            .env("SOVM_KEY_FILE", self.key_file())
            .env("SOVM_LOG", "warn")
            .current_dir(self.dir.path())
            .args(args)
            .stdin(Stdio::null());
        if args.first() == Some(&"init") {
            command.arg("--key-file").arg(self.key_file());
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        Run::of(self.command(args).output().unwrap())
    }

    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> Run {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            // A command that refuses early closes its input; that is not this test's failure.
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Run::of(output)
    }

    /// Runs a command that must succeed and gives its standard output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(
            run.code, 0,
            "sovm {args:?} failed\nstdout: {}\nstderr: {}",
            run.stdout, run.stderr
        );
        run.stdout
    }

    /// Runs a command with `--json` that must succeed.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut with_json = args.to_vec();
        with_json.push("--json");
        let out = self.ok(&with_json);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("sovm {args:?} printed no JSON ({error}): {out}"))
    }

    /// Runs a command that must fail with this exit code, say what is safe to do next, and name every word.
    pub(crate) fn fails(&self, args: &[&str], code: i32, words: &[&str]) {
        self.run(args).failed(code, words);
    }

    /// Rows of a statement as CSV text without the header.
    pub(crate) fn rows(&self, query: &str) -> Vec<String> {
        self.ok(&["sql", query, "--format", "csv"])
            .lines()
            .skip(1)
            .map(str::to_owned)
            .collect()
    }

    /// Every file of the home, for scans.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        walk(&self.home(), &mut files);
        files
    }
}

impl Run {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub(crate) fn failed(&self, code: i32, words: &[&str]) {
        let Self {
            code: found,
            stdout,
            stderr,
        } = self;
        assert_eq!(*found, code, "stdout: {stdout}\nstderr: {stderr}");
        for word in words {
            assert!(stderr.contains(word), "{word:?} is not in: {stderr}");
        }
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

/// Directories with their permissions, and files; a socket that a daemon left is none.
fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    std::fs::set_permissions(to, from.metadata().unwrap().permissions()).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let to = to.join(entry.file_name());
        if kind.is_dir() {
            copy_tree(&path, &to);
        } else if kind.is_file() {
            std::fs::copy(&path, &to).unwrap();
        }
    }
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.is_file() {
            files.push(path);
        }
    }
}

/// The CC0 weather table, as the repository carries it.
pub(crate) fn weather_csv() -> Vec<u8> {
    use std::io::Read as _;
    let packed = include_bytes!("../../node/assets/weather.csv.gz");
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_end(&mut text)
        .unwrap();
    text
}
