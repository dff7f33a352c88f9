//! One node of the demo: a home, its daemon, and the command line as the only way in.
//!
//! Nothing here links to the engine: each call is a process `sovm --home … --json …`, and what it printed is read back
//! into the documented types.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::process::{Daemon, Feed, Finished, Interrupt, Look, Running, tail, wait_for};
use crate::{
    api::{ApiError, ErrorKind, Response, StatusReport},
    config::{Config, Home},
};

/// How long any command may take unless the step says otherwise.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// How long a daemon may take to start.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How long a daemon may take to stop: its own grace and its last checkpoint.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// What `sovm run` prints once it answers.
const READY: &str = "running on";

/// Why a step did not hold, and whose log tells more.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) node: Option<&'static str>,
    pub(super) error: ApiError,
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self { node: None, error }
    }
}

impl Failure {
    /// A claim of the step that is not true.
    pub(super) fn claim(text: impl Into<String>) -> Self {
        ApiError::new(ErrorKind::Failed, text).into()
    }
}

/// Fails the step unless a claim is true.
pub(super) fn hold(claim: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failure> {
    if claim {
        Ok(())
    } else {
        Err(Failure::claim(otherwise()))
    }
}

/// One home and what runs on it.
#[derive(Debug)]
pub(super) struct Node {
    /// What the story calls it.
    pub(super) name: &'static str,
    /// What the mesh calls it.
    pub(super) device: &'static str,
    home: Home,
    key_file: PathBuf,
    log: PathBuf,
    port: u16,
    program: PathBuf,
    interrupt: Interrupt,
    daemon: Option<Daemon>,
}

/// Calls a command of a node and takes the expected kind of answer.
macro_rules! ask {
    ($node:expr, $variant:ident, $($argument:expr),+ $(,)?) => {
        match $node.call(&[$(std::ffi::OsStr::new($argument)),+]) {
            Ok($crate::api::Response::$variant(report)) => Ok(report),
            Ok(_) => Err($node.failed($crate::api::ApiError::bug(concat!("another kind of answer than ", stringify!($variant))))),
            Err(failure) => Err(failure),
        }
    };
}
pub(super) use ask;

impl Node {
    /// Names a node; nothing is made yet.
    pub(super) fn new(
        (name, device): (&'static str, &'static str),
        stage: &Path,
        port: u16,
        program: &Path,
        interrupt: &Interrupt,
    ) -> Self {
        Self {
            name,
            device,
            home: Home::at(stage.join("homes").join(name)),
            key_file: stage.join("keys").join(format!("{name}.key")),
            log: stage.join("logs").join(format!("{name}.log")),
            port,
            program: program.to_owned(),
            interrupt: interrupt.clone(),
            daemon: None,
        }
    }

    /// Its directory.
    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    /// The file with its key.
    pub(super) fn key_file(&self) -> &Path {
        &self.key_file
    }

    /// Where its daemon writes.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// Where it listens.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The last lines of its log.
    pub(super) fn log_tail(&self, lines: usize) -> Vec<String> {
        tail(&self.log, lines)
    }

    /// An error of this node.
    pub(super) fn failed(&self, mut error: ApiError) -> Failure {
        error.message = format!("{}: {}", self.name, error.message);
        Failure {
            node: Some(self.name),
            error,
        }
    }

    /// Writes `config.toml`: loopback at a fixed port, so that a node is found again after a restart without any relay or
    /// discovery, and a bound on what it sends.
    pub(super) fn configure(&self, upload: Option<u64>) -> Result<(), Failure> {
        let write = || {
            self.home.create()?;
            let mut config = Config::load(&self.home)?;
            config.network.bind = vec![([127, 0, 0, 1], self.port).into()];
            config.limits.upload = upload;
            config.store(&self.home)
        };
        write().map_err(|error| self.failed(error))
    }

    fn command(&self, arguments: &[&OsStr]) -> Command {
        let mut command = Command::new(&self.program);
        // What the person has set for their own node must not reach these.
        command
            .env_remove("SOVM_HOME")
            .env_remove("SOVM_KEY_FILE")
            .env("NO_COLOR", "1");
        command.arg("--home").arg(self.home.path()).args(arguments);
        command
    }

    fn label(&self, arguments: &[&OsStr]) -> String {
        let words: Vec<String> = arguments
            .iter()
            .map(|argument| {
                let text = argument.to_string_lossy();
                let short: String = text.chars().take(60).collect();
                if short.len() < text.len() {
                    format!("{short}…")
                } else {
                    short
                }
            })
            .collect();
        format!("sovm {} (on {})", words.join(" "), self.name)
    }

    /// Starts a command with `--json` in the background.
    pub(super) fn begin(&self, arguments: &[&OsStr], input: Option<Feed>) -> Result<Running, Failure> {
        let mut command = self.command(arguments);
        command.arg("--json");
        Running::spawn(&mut command, self.label(arguments), input).map_err(|error| self.failed(error))
    }

    /// Waits for a command begun with [`begin`](Self::begin) and reads its answer.
    pub(super) fn end(&self, running: Running, limit: Duration) -> Result<Response, Failure> {
        let finished = running
            .finish(&self.interrupt, limit)
            .map_err(|error| self.failed(error))?;
        read_answer(&finished).map_err(|error| self.failed(error))
    }

    /// Runs a command to its end.
    pub(super) fn call(&self, arguments: &[&OsStr]) -> Result<Response, Failure> {
        self.call_with(arguments, None, CALL_LIMIT)
    }

    /// Runs a command to its end, with input and a limit of its own.
    pub(super) fn call_with(
        &self,
        arguments: &[&OsStr],
        input: Option<Feed>,
        limit: Duration,
    ) -> Result<Response, Failure> {
        let label = self.label(arguments);
        self.end(self.begin(arguments, input)?, limit).map_err(|mut failure| {
            failure.error.message = format!("{} [command: {label}]", failure.error.message);
            failure
        })
    }

    /// Runs a command that must fail, and gives its error.
    pub(super) fn must_fail(&self, arguments: &[&str]) -> Result<ApiError, Failure> {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let finished = self
            .begin(&arguments, None)?
            .finish(&self.interrupt, CALL_LIMIT)
            .map_err(|error| self.failed(error))?;
        match read_answer(&finished) {
            Ok(_) => Err(self.failed(ApiError::new(
                ErrorKind::Failed,
                format!("`{}` should have been refused and was answered", self.label(&arguments)),
            ))),
            // A bug or a locked home refuses everything, which proves nothing.
            Err(error)
                if matches!(
                    error.kind,
                    ErrorKind::Bug | ErrorKind::HomeInUse | ErrorKind::Usage | ErrorKind::WrongKey
                ) =>
            {
                Err(self.failed(error))
            }
            Err(error) => Ok(error),
        }
    }

    /// The rows of a statement as CSV, byte for byte as printed.
    pub(super) fn rows(&self, query: &str) -> Result<Vec<u8>, Failure> {
        let arguments = ["sql", query, "--format", "csv", "--quiet"].map(OsStr::new);
        let finished = Running::spawn(&mut self.command(&arguments), self.label(&arguments), None)
            .and_then(|running| running.finish(&self.interrupt, CALL_LIMIT))
            .map_err(|error| self.failed(error))?;
        if finished.status.success() {
            return Ok(finished.stdout);
        }
        Err(self.failed(ApiError::new(
            ErrorKind::Failed,
            format!("`{query}` failed ({}): {}", finished.status, finished.stderr.trim()),
        )))
    }

    /// `sovm status`.
    pub(super) fn status(&self) -> Result<StatusReport, Failure> {
        ask!(self, Status, "status")
    }

    /// Starts `sovm run` and waits until it answers.
    pub(super) fn start(&mut self) -> Result<(), Failure> {
        let before = self.ready_lines();
        let daemon = Daemon::spawn(&mut self.command(&["run", "-v"].map(OsStr::new)), &self.log)
            .map_err(|error| self.failed(error))?;
        let pid = daemon.pid();
        self.daemon = Some(daemon);
        let interrupt = self.interrupt.clone();
        // The log first: a `status` before the daemon is there would open the home itself and stand in its way.
        wait_for(
            &interrupt,
            &format!("`sovm run` of {} to say `{READY}` in {}", self.name, self.log.display()),
            START_LIMIT,
            || {
                self.check_alive()?;
                Ok(if self.ready_lines() > before {
                    Look::Done(())
                } else {
                    Look::NotYet("nothing of the kind".into())
                })
            },
        )
        .map_err(|failure: Failure| Failure {
            node: Some(self.name),
            ..failure
        })?;
        let status = self.status()?;
        hold(status.daemon_pid == Some(pid), || {
            format!(
                "{}: status names daemon {:?}, the process started is {pid}",
                self.name, status.daemon_pid
            )
        })
    }

    fn ready_lines(&self) -> usize {
        std::fs::read_to_string(&self.log).map_or(0, |text| text.lines().filter(|line| line.starts_with(READY)).count())
    }

    /// Fails when the daemon has ended by itself.
    pub(super) fn check_alive(&mut self) -> Result<(), Failure> {
        let Some(daemon) = self.daemon.as_mut() else {
            return Ok(());
        };
        let alive = daemon.check_alive();
        alive.map_err(|error| self.failed(error))
    }

    /// Process id of the daemon, when one runs.
    pub(super) fn pid(&self) -> Option<u32> {
        self.daemon.as_ref().map(Daemon::pid)
    }

    /// Stops the daemon in an orderly way.
    pub(super) fn stop(&mut self) -> Result<(), Failure> {
        let Some(daemon) = self.daemon.take() else {
            return Ok(());
        };
        daemon
            .stop(&self.interrupt, STOP_LIMIT)
            .map_err(|error| self.failed(error))
    }

    /// Kills the daemon with signal 9.
    pub(super) fn kill9(&mut self) -> Result<(), Failure> {
        let Some(daemon) = self.daemon.take() else {
            return Ok(());
        };
        daemon.kill9().map_err(|error| self.failed(error))
    }

    /// Looks until a condition on this node holds; also fails when its daemon has ended.
    pub(super) fn wait<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut look: impl FnMut(&Self) -> Result<Look<T>, Failure>,
    ) -> Result<T, Failure> {
        let interrupt = self.interrupt.clone();
        let what = format!("{what} on {}", self.name);
        let name = self.name;
        wait_for(&interrupt, &what, limit, || {
            self.check_alive()?;
            look(self)
        })
        .map_err(|failure: Failure| Failure {
            node: failure.node.or(Some(name)),
            ..failure
        })
    }
}

/// Reads what a command with `--json` printed: one object, an answer or an error.
fn read_answer(finished: &Finished) -> Result<Response, ApiError> {
    let text = String::from_utf8_lossy(&finished.stdout);
    let unreadable = |why: String| {
        let said = [text.trim(), finished.stderr.trim()].join("\n");
        let lines: Vec<&str> = said.trim().lines().collect();
        let end = lines[lines.len().saturating_sub(6)..].join(" / ");
        ApiError::new(ErrorKind::Failed, format!("{why} ({}): {end}", finished.status))
    };
    let mut value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| unreadable(format!("the answer is not one JSON object: {error}")))?;
    if value["format_version"] != crate::api::FORMAT_VERSION {
        return Err(unreadable("the answer lacks format_version".into()));
    }
    if let Some(error) = value.as_object_mut().and_then(|object| object.remove("error")) {
        let mut error: ApiError = serde_json::from_value(error)
            .unwrap_or_else(|error| unreadable(format!("the error cannot be read: {error}")));
        // A drill or a verification that failed still reports what it saw.
        if value.get("command").is_some() {
            error.message.push_str(&format!("; it reports {value}"));
        }
        return Err(error);
    }
    if !finished.status.success() {
        return Err(unreadable("the command reported and failed".into()));
    }
    serde_json::from_value(value).map_err(|error| unreadable(format!("the answer cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{DomainListReport, MeshInfo};

    fn finished(script: &str) -> Finished {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Running::spawn(&mut command, "sh".into(), None)
            .unwrap()
            .finish(&Interrupt::default(), CALL_LIMIT)
            .unwrap()
    }

    fn printed(value: &serde_json::Value, code: u8) -> Finished {
        finished(&format!("cat <<'END'\n{value:#}\nEND\nexit {code}"))
    }

    #[test]
    fn answers_and_errors_are_told_apart() {
        let mesh = Response::MeshCreate(MeshInfo {
            mesh_id: "00".into(),
            name: None,
        });
        assert_eq!(read_answer(&printed(&mesh.to_json().unwrap(), 0)).unwrap(), mesh);
        let error = ApiError::new(ErrorKind::NotFound, "no table x").next("sovm table list");
        assert_eq!(read_answer(&printed(&error.to_json(), 1)).unwrap_err(), error);
    }

    #[test]
    fn anything_else_is_a_failure_that_shows_what_was_said() {
        let domains = Response::DomainList(DomainListReport { domains: vec![] });
        assert!(
            read_answer(&printed(&domains.to_json().unwrap(), 1))
                .unwrap_err()
                .message
                .contains("failed")
        );
        let error = read_answer(&finished("echo thread panicked >&2; exit 101")).unwrap_err();
        assert!(
            error.message.contains("thread panicked") && error.message.contains("101"),
            "{error}"
        );
        assert!(read_answer(&finished("echo '{\"command\":\"status\"}'")).is_err());
    }
}
