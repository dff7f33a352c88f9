//! Child processes of the demo: started, watched, stopped, killed, and always reaped.
//!
//! A child belongs to a guard from its first moment, so an error, a panic and Ctrl-C all end it. Signals other than 9 go
//! through `sh -c kill`: it is what a person would type, and the crate forbids the unsafe call.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom, Write},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::error::{ApiError, ErrorKind};

/// How often a wait looks again.
const LOOK_EVERY: Duration = Duration::from_millis(60);

/// How often a child that should end is asked whether it has.
const REAP_EVERY: Duration = Duration::from_millis(5);

/// How much of a log is read for its tail.
const TAIL_BYTES: u64 = 64 * 1024;

/// Tells whether the person pressed Ctrl-C.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for SIGINT and SIGTERM on a thread of its own until the process ends.
    pub(super) fn listen() -> Result<Self, ApiError> {
        let interrupt = Self::default();
        let raised = interrupt.0.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| ApiError::io("listening for Ctrl-C", &error))?;
        std::thread::spawn(move || {
            runtime.block_on(async {
                use tokio::signal::unix::{SignalKind, signal};
                let (Ok(mut int), Ok(mut term)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
                else {
                    return;
                };
                tokio::select! {
                    _ = int.recv() => {}
                    _ = term.recv() => {}
                }
                raised.store(true, Ordering::SeqCst);
            });
        });
        Ok(interrupt)
    }

    /// Fails once the person wants to stop; the guards then end the children.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        if !self.0.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(ApiError::new(ErrorKind::Interrupted, "the demo was stopped").safe("all processes it started are stopped"))
    }
}

/// What one look at a condition gave.
#[derive(Debug)]
pub(super) enum Look<T> {
    /// It holds.
    Done(T),
    /// It does not hold yet; the text says what was seen.
    NotYet(String),
}

/// Looks until a condition holds. Past the limit the error says what was waited for and what was seen last.
pub(super) fn wait_for<T, E: From<ApiError>>(
    interrupt: &Interrupt,
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<Look<T>, E>,
) -> Result<T, E> {
    let started = Instant::now();
    loop {
        interrupt.check()?;
        let seen = match look()? {
            Look::Done(value) => return Ok(value),
            Look::NotYet(seen) => seen,
        };
        if started.elapsed() > limit {
            return Err(ApiError::new(
                ErrorKind::Timeout,
                format!("waited {} s for {what}; last seen: {seen}", limit.as_secs()),
            )
            .into());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Ends its child when dropped.
#[derive(Debug)]
struct Guarded(Child);

impl Guarded {
    fn spawn(command: &mut Command) -> Result<Self, ApiError> {
        command
            .spawn()
            .map(Self)
            .map_err(|error| ApiError::io(format!("starting {}", command.get_program().to_string_lossy()), &error))
    }

    /// Waits for the end; `None` when the deadline came first.
    fn wait_until(&mut self, interrupt: &Interrupt, deadline: Instant) -> Result<Option<ExitStatus>, ApiError> {
        loop {
            if let Some(status) = self
                .0
                .try_wait()
                .map_err(|error| ApiError::io("waiting for a process", &error))?
            {
                return Ok(Some(status));
            }
            interrupt.check()?;
            if Instant::now() > deadline {
                return Ok(None);
            }
            std::thread::sleep(REAP_EVERY);
        }
    }

    fn kill_and_reap(&mut self) -> io::Result<ExitStatus> {
        // An error here means that it has ended already.
        let _ = self.0.kill();
        self.0.wait()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.kill_and_reap();
    }
}

/// `sovm run` of one home, as a process of its own.
#[derive(Debug)]
pub(super) struct Daemon {
    child: Guarded,
}

impl Daemon {
    /// Starts it; stdout and stderr go to the end of the log file.
    pub(super) fn spawn(command: &mut Command, log: &Path) -> Result<Self, ApiError> {
        let describe = |error: io::Error| ApiError::io(format!("opening {}", log.display()), &error);
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .map_err(describe)?;
        let start = file.seek(SeekFrom::End(0)).map_err(describe)?;
        if start > 0 {
            writeln!(file, "--- started again ---").map_err(describe)?;
        }
        let twin = file.try_clone().map_err(describe)?;
        command.stdin(Stdio::null()).stdout(file).stderr(twin);
        Ok(Self {
            child: Guarded::spawn(command)?,
        })
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Fails when the process has ended by itself.
    pub(super) fn check_alive(&mut self) -> Result<(), ApiError> {
        match self.child.0.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(ApiError::new(
                ErrorKind::Failed,
                format!("process {} ended by itself: {status}", self.pid()),
            )),
            Err(error) => Err(ApiError::io("looking after a process", &error)),
        }
    }

    /// Asks it to stop (SIGTERM) and waits. A process that does not stop in time is a failure, and is killed.
    pub(super) fn stop(mut self, interrupt: &Interrupt, limit: Duration) -> Result<(), ApiError> {
        self.check_alive()?;
        let pid = self.pid();
        // The shell's own `kill`: there is no dependency on a program of that name.
        let sent = Command::new("sh")
            .args(["-c", "kill -TERM \"$0\"", &pid.to_string()])
            .stdin(Stdio::null())
            .status()
            .map_err(|error| ApiError::io("sending SIGTERM with sh", &error))?;
        if !sent.success() {
            return Err(ApiError::new(
                ErrorKind::Failed,
                format!("`kill -TERM {pid}` failed: {sent}"),
            ));
        }
        match self.child.wait_until(interrupt, Instant::now() + limit)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(ApiError::new(
                ErrorKind::Failed,
                format!("process {pid} was asked to stop and ended with {status}"),
            )),
            None => Err(ApiError::new(
                ErrorKind::Timeout,
                format!("waited {} s for process {pid} to stop after SIGTERM", limit.as_secs()),
            )),
        }
    }

    /// Kills it with signal 9 and reaps it.
    pub(super) fn kill9(mut self) -> Result<(), ApiError> {
        use std::os::unix::process::ExitStatusExt as _;
        self.check_alive()?;
        let status = self
            .child
            .kill_and_reap()
            .map_err(|error| ApiError::io("killing a process", &error))?;
        if status.signal() == Some(libc::SIGKILL) {
            return Ok(());
        }
        Err(ApiError::new(
            ErrorKind::Failed,
            format!("signal 9 did not end the process, it says {status}"),
        ))
    }
}

/// The last lines of a log.
pub(super) fn tail(log: &Path, lines: usize) -> Vec<String> {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let all: Vec<&str> = text.lines().collect();
            all[all.len().saturating_sub(lines)..]
                .iter()
                .map(|line| (*line).to_owned())
                .collect()
        }
        Err(error) => vec![format!("({} cannot be read: {error})", log.display())],
    }
}

/// What a finished command left.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

/// Writes the input of a command; runs on a thread of its own.
pub(super) type Feed = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// A command that runs in the background, its outputs collected as they come.
#[derive(Debug)]
pub(super) struct Running {
    child: Guarded,
    label: String,
    stdout: JoinHandle<io::Result<Vec<u8>>>,
    stderr: JoinHandle<()>,
    notes: Arc<Mutex<String>>,
    feed: Option<JoinHandle<io::Result<()>>>,
}

impl Running {
    /// Starts a command; `label` is how it is named when it fails.
    pub(super) fn spawn(command: &mut Command, label: String, input: Option<Feed>) -> Result<Self, ApiError> {
        command
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = Guarded::spawn(command)?;
        let missing = || ApiError::bug("a pipe of a child is missing");
        let mut out = child.0.stdout.take().ok_or_else(missing)?;
        let err = child.0.stderr.take().ok_or_else(missing)?;
        let stdout = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            out.read_to_end(&mut bytes).map(|_| bytes)
        });
        let notes = Arc::new(Mutex::new(String::new()));
        let shared = notes.clone();
        let stderr = std::thread::spawn(move || {
            let mut reader = BufReader::new(err);
            let mut line = Vec::new();
            while matches!(reader.read_until(b'\n', &mut line), Ok(length) if length > 0) {
                shared
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        let feed = match input {
            Some(feed) => {
                let mut stdin = child.0.stdin.take().ok_or_else(missing)?;
                Some(std::thread::spawn(move || feed(&mut stdin)))
            }
            None => None,
        };
        Ok(Self {
            child,
            label,
            stdout,
            stderr,
            notes,
            feed,
        })
    }

    /// What it has written to stderr so far.
    pub(super) fn notes(&self) -> String {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.0.try_wait(), Ok(None))
    }

    /// Waits for its end and gives what it wrote. Past the limit it is killed, and the error says what it was.
    pub(super) fn finish(mut self, interrupt: &Interrupt, limit: Duration) -> Result<Finished, ApiError> {
        let Some(status) = self.child.wait_until(interrupt, Instant::now() + limit)? else {
            let notes = self.notes();
            let said = if notes.trim().is_empty() {
                "nothing".to_owned()
            } else {
                notes.trim().to_owned()
            };
            return Err(ApiError::new(
                ErrorKind::Timeout,
                format!(
                    "waited {} s for `{}` to end; it said on stderr: {said}",
                    limit.as_secs(),
                    self.label
                ),
            ));
        };
        let collected = |what: &str| ApiError::bug(format_args!("the thread that reads {what} panicked"));
        let stdout = self
            .stdout
            .join()
            .map_err(|_| collected("stdout"))?
            .map_err(|error| ApiError::io(format!("reading the output of `{}`", self.label), &error))?;
        self.stderr.join().map_err(|_| collected("stderr"))?;
        if let Some(feed) = self.feed {
            // A command that failed closed its input early; its own error says more than the broken pipe.
            let fed = feed.join().map_err(|_| collected("input"))?;
            if status.success() {
                fed.map_err(|error| {
                    ApiError::new(
                        ErrorKind::Failed,
                        format!("`{}` did not read all its input: {error}", self.label),
                    )
                })?;
            }
        }
        let stderr = self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Finished { status, stdout, stderr })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// DESIGN §16.10: every wait has a deadline and says what it waited for.
    #[test]
    fn a_wait_that_ends_in_vain_says_for_what() {
        let error = wait_for::<(), ApiError>(&Interrupt::default(), "the moon", Duration::ZERO, || {
            Ok(Look::NotYet("clouds".into()))
        })
        .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout);
        assert!(
            error.message.contains("the moon") && error.message.contains("clouds"),
            "{error}"
        );
    }

    #[test]
    fn output_input_and_notes_are_collected() {
        let feed: Feed = Box::new(|input| input.write_all(b"in\n"));
        let running = Running::spawn(&mut shell("cat; echo note >&2"), "cat".into(), Some(feed)).unwrap();
        let finished = running.finish(&Interrupt::default(), Duration::from_secs(10)).unwrap();
        assert!(finished.status.success());
        assert_eq!(
            (finished.stdout.as_slice(), finished.stderr.as_str()),
            (b"in\n".as_slice(), "note\n")
        );
    }

    #[test]
    fn a_command_past_its_limit_is_ended() {
        let running = Running::spawn(&mut shell("exec sleep 60"), "sleep".into(), None).unwrap();
        let started = Instant::now();
        let error = running
            .finish(&Interrupt::default(), Duration::from_millis(50))
            .unwrap_err();
        assert!(error.message.contains("`sleep`"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_daemon_is_stopped_killed_and_its_log_kept() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done";
        let up = || {
            wait_for::<_, ApiError>(&Interrupt::default(), "up", Duration::from_secs(10), || {
                Ok(if tail(&log, 1) == ["up"] {
                    Look::Done(())
                } else {
                    Look::NotYet(String::new())
                })
            })
        };
        let daemon = Daemon::spawn(&mut shell(script), &log).unwrap();
        up().unwrap();
        daemon.stop(&Interrupt::default(), Duration::from_secs(10)).unwrap();
        assert_eq!(tail(&log, 1), ["bye"]);
        let daemon = Daemon::spawn(&mut shell(script), &log).unwrap();
        up().unwrap();
        daemon.kill9().unwrap();
        assert_eq!(tail(&log, 9), ["up", "bye", "--- started again ---", "up"]);
    }

    #[test]
    fn a_daemon_that_ended_by_itself_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = Daemon::spawn(&mut shell("exit 3"), &dir.path().join("log")).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert!(daemon.stop(&Interrupt::default(), Duration::from_secs(1)).is_err());
    }
}
