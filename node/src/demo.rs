//! `sovm demo`: the whole story on one machine, told by separate processes of this same program (DESIGN §12).
//!
//! The driver knows nothing of the engine. It starts nodes as `sovm run`, asks them through the command line with
//! `--json`, and proves each step from outside: what a person could do by hand, with a stopwatch and a notebook.
//!
//! * [`process`] children that always end, and waits that say what they waited for;
//! * [`cli`] a node as the command line shows it; [`scan`] words on disks; [`data`] the input; [`checks`] the claims;
//! * [`founding`], [`trouble`], [`editions`] and [`rescue`] the steps.

mod checks;
mod cli;
mod data;
mod editions;
mod founding;
mod process;
mod rescue;
mod scan;
mod trouble;

use std::{
    net::UdpSocket,
    path::{Path, PathBuf},
    time::Instant,
};

use self::{
    cli::{Failure, Node},
    data::words,
    process::Interrupt,
    rescue::Noted,
    scan::Needles,
};
use crate::{
    api::{ApiError, DemoReport, DemoStep, ErrorKind},
    cli::{DemoOptions, OnStep},
    config::format_bytes,
};

/// Lines of a node's log shown when a step does not hold.
const TAIL_LINES: usize = 12;

/// Disk space the five homes, the spill files and the drill need at most.
const DISK_BYTES: u64 = 1 << 30;

/// One step: what it shows, and how.
type Step = (&'static str, fn(&mut Story, &mut Vec<String>) -> Result<(), Failure>);

/// The steps in their order; each builds on those before it.
const STEPS: [Step; 10] = [
    (
        "three nodes and a blind replica run as processes of their own",
        founding::start_nodes,
    ),
    (
        "CSV files become encrypted objects, and SQL gives what the files say",
        founding::ingest,
    ),
    (
        "devices join by invite, one of them by a code both sides show",
        founding::join,
    ),
    (
        "data replicates: the same SQL gives the same bytes on two nodes",
        founding::replicate,
    ),
    (
        "a transfer cut by signal 9 resumes where it was",
        trouble::kill_in_transfer,
    ),
    ("a removed device reads nothing that came after", trouble::remove),
    (
        "the blind replica holds everything and knows nothing",
        trouble::look_at_vault,
    ),
    (
        "an edition under embargo is closed by its key, and a release and a rollback appear as one",
        editions::publish,
    ),
    (
        "a lost domain comes back from the kit and the blind replica alone",
        rescue::recover,
    ),
    ("a drill proves that it would work again", rescue::drill),
];

/// Everything the steps share.
#[derive(Debug)]
struct Story {
    /// The directory everything happens in.
    stage: PathBuf,
    interrupt: Interrupt,
    needles: Needles,
    /// Founder and admin; its home is destroyed later.
    alice: Node,
    /// Writer, killed with signal 9.
    bob: Node,
    /// Reader, removed later.
    carol: Node,
    /// Blind replica.
    vault: Node,
    /// The machine that takes alice's place.
    again: Node,
    /// What was known before the disaster.
    noted: Option<Noted>,
}

/// Tells the story. `on_step` is called as each step ends, held or not; the first step that does not hold is the last.
///
/// Blocks for about a minute: call it outside an async context or inside `block_in_place`. A step that does not hold is
/// part of the report; an error is what kept the story from being told at all.
pub fn run(options: &DemoOptions, on_step: OnStep<'_>) -> Result<DemoReport, ApiError> {
    let started = Instant::now();
    let interrupt = Interrupt::listen()?;
    let stage = Stage::make(options.keep.as_deref())?;
    let mut story = Story::prepare(stage.path(), &interrupt)?;
    let mut steps = Vec::new();
    for (title, step) in STEPS {
        let begun = Instant::now();
        let mut evidence = Vec::new();
        let result = step(&mut story, &mut evidence);
        let held = result.is_ok();
        if let Err(failure) = result {
            interrupt.check()?;
            evidence.extend(story.explain(&failure));
        }
        let step = DemoStep {
            title: title.to_owned(),
            held,
            evidence,
            elapsed_ms: millis(begun),
        };
        on_step(&step)?;
        steps.push(step);
        if !held {
            break;
        }
    }
    let held = steps.iter().all(|step| step.held);
    if held && options.keep.is_some() {
        story.leave_in_order();
    }
    // The nodes end before their homes go.
    drop(story);
    Ok(DemoReport {
        steps,
        elapsed_ms: millis(started),
        kept: stage.close(held),
    })
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl Story {
    fn prepare(stage: &Path, interrupt: &Interrupt) -> Result<Self, ApiError> {
        let program = std::env::current_exe().map_err(|error| ApiError::io("finding this program", &error))?;
        let ports = free_ports()?;
        let names = [
            ("alice", words::ALICE),
            ("bob", words::BOB),
            ("carol", words::CAROL),
            ("vault", words::VAULT),
            ("alice-again", words::ALICE_AGAIN),
        ];
        let mut nodes = names
            .iter()
            .zip(ports)
            .map(|(names, port)| Node::new(*names, stage, port, &program, interrupt));
        let mut next = || nodes.next().ok_or_else(|| ApiError::bug("the demo has five nodes"));
        Ok(Self {
            stage: stage.to_owned(),
            interrupt: interrupt.clone(),
            needles: Needles::new(words::planted()),
            alice: next()?,
            bob: next()?,
            carol: next()?,
            vault: next()?,
            again: next()?,
            noted: None,
        })
    }

    /// A file of input.
    fn input(&self, name: &str) -> PathBuf {
        self.stage.join("input").join(name)
    }

    fn nodes(&self) -> [&Node; 5] {
        [&self.alice, &self.bob, &self.carol, &self.vault, &self.again]
    }

    /// What a person needs to find out why a step did not hold.
    fn explain(&self, failure: &Failure) -> Vec<String> {
        let error = &failure.error;
        let mut lines = vec![format!("did not hold: {}", error.message)];
        lines.extend(error.safe.iter().map(|safe| format!("safe: {safe}")));
        lines.extend(error.next.iter().map(|next| format!("next: {next}")));
        let concerned = |node: &&Node| {
            failure
                .node
                .map_or_else(|| node.pid().is_some(), |name| name == node.name)
        };
        for node in self.nodes().into_iter().filter(concerned) {
            lines.push(format!("end of {}'s log ({}):", node.name, node.log().display()));
            lines.extend(node.log_tail(TAIL_LINES).into_iter().map(|line| format!("  | {line}")));
        }
        lines.push(format!("the homes are kept in {}", self.stage.display()));
        lines
    }

    /// Stops what still runs, so that kept homes are as after an ordinary day. The steps have all held: nothing is left to
    /// prove, and a node that does not stop is killed by its guard.
    fn leave_in_order(&mut self) {
        for node in [
            &mut self.alice,
            &mut self.bob,
            &mut self.carol,
            &mut self.vault,
            &mut self.again,
        ] {
            let _ = node.stop();
        }
    }
}

/// The directory of the story.
#[derive(Debug)]
enum Stage {
    /// Goes away with the story, unless a step did not hold.
    Temporary(tempfile::TempDir),
    /// Stays.
    Kept(PathBuf),
}

impl Stage {
    fn make(keep: Option<&Path>) -> Result<Self, ApiError> {
        let stage = match keep {
            None => Self::Temporary(
                tempfile::Builder::new()
                    .prefix("sovm-demo-")
                    .tempdir()
                    .map_err(|error| ApiError::io("making a temporary directory", &error))?,
            ),
            Some(dir) => {
                let describe = |error: std::io::Error| ApiError::io(format!("making {}", dir.display()), &error);
                crate::config::create_private_dir(dir).map_err(describe)?;
                if std::fs::read_dir(dir).map_err(describe)?.next().is_some() {
                    return Err(
                        ApiError::new(ErrorKind::Exists, format!("{} is not empty", dir.display()))
                            .safe("nothing was changed")
                            .next("name an empty or a new directory: sovm demo --keep DIR"),
                    );
                }
                Self::Kept(dir.to_owned())
            }
        };
        let path = stage.path();
        for name in ["homes", "keys", "logs", "input"] {
            let path = path.join(name);
            crate::config::create_private_dir(&path)
                .map_err(|error| ApiError::io(format!("making {}", path.display()), &error))?;
        }
        let free = fs4::available_space(path)
            .map_err(|error| ApiError::io(format!("asking for free space at {}", path.display()), &error))?;
        if free < DISK_BYTES {
            return Err(ApiError::new(
                ErrorKind::DiskFull,
                format!(
                    "the demo needs up to {}, and {} has {} left",
                    format_bytes(DISK_BYTES),
                    path.display(),
                    format_bytes(free)
                ),
            )
            .safe("nothing was started")
            .next("free some space, or set TMPDIR (or --keep DIR) to another disk"));
        }
        Ok(stage)
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(dir) => dir.path(),
            Self::Kept(dir) => dir,
        }
    }

    /// Removes what is not to be kept, and says what was.
    fn close(self, held: bool) -> Option<PathBuf> {
        match self {
            Self::Kept(dir) => Some(dir),
            Self::Temporary(dir) if !held => Some(dir.keep()),
            Self::Temporary(_) => None,
        }
    }
}

/// Five free UDP ports on loopback. A port stays with its node over restarts, so that the others find it again; should
/// another program take one in between, that node says so when it starts.
fn free_ports() -> Result<[u16; 5], ApiError> {
    let describe = |error: std::io::Error| ApiError::io("looking for free ports on 127.0.0.1", &error);
    let mut sockets = Vec::new();
    let mut ports = [0; 5];
    for port in &mut ports {
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(describe)?;
        *port = socket.local_addr().map_err(describe)?.port();
        sockets.push(socket);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_directory_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("mine"), "x").unwrap();
        assert_eq!(Stage::make(Some(dir.path())).unwrap_err().kind, ErrorKind::Exists);
    }

    #[test]
    fn a_temporary_stage_goes_unless_something_failed() {
        let stage = Stage::make(None).unwrap();
        let path = stage.path().to_owned();
        assert!(path.join("homes").is_dir());
        assert_eq!(stage.close(true), None);
        assert!(!path.exists());
        let stage = Stage::make(None).unwrap();
        let kept = stage.close(false).unwrap();
        assert!(kept.is_dir());
        std::fs::remove_dir_all(kept).unwrap();
    }

    #[test]
    fn ports_differ() {
        let ports = free_ports().unwrap();
        assert_eq!(
            ports.iter().collect::<std::collections::BTreeSet<_>>().len(),
            ports.len()
        );
    }
}
