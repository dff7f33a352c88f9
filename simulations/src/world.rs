//! The run: events drawn from a seed, sessions whose messages get lost, a healing phase at the end.

use std::{collections::BTreeSet, fmt};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use sovm_mesh::proto::sync::{Effect, Initiator, Limits, Responder};
use sovm_object::{
    id::{RecordId, SiteId},
    record::{OpKind, Role},
};

use crate::{
    checks,
    node::{Node, SHARED},
};

/// What is drawn from the seed, and how much of it.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Everything else follows from it.
    pub seed: u64,
    /// Devices.
    pub nodes: u8,
    /// Events of the faulty phase.
    pub events: u32,
    /// Chance that a message of a session is lost, in percent; the session ends there.
    pub loss_percent: u8,
    /// Chance that two devices cannot reach each other at all, in percent, drawn anew every 16 events.
    pub partition_percent: u8,
}

impl Config {
    /// The usual run of a seed.
    pub const fn of_seed(seed: u64) -> Self {
        Self {
            seed,
            nodes: 6,
            events: 160,
            loss_percent: 10,
            partition_percent: 30,
        }
    }
}

/// What a run did, and its trace for comparing two runs of one seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// One line an event.
    pub trace: Vec<String>,
    /// Ops issued.
    pub issued: usize,
    /// Sessions that were cut by a lost message.
    pub cut: usize,
    /// Sessions it took to converge after healing.
    pub healing_sessions: usize,
}

/// A checker's complaint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// After how many events.
    pub step: u32,
    /// What did not hold.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FAILED step={} {}", self.step, self.what)
    }
}

struct World {
    rng: StdRng,
    config: Config,
    nodes: Vec<Node>,
    founder: SiteId,
    issued: BTreeSet<RecordId>,
    trace: Vec<String>,
    cut: usize,
    now_ms: u64,
    /// Pairs that cannot reach each other, smaller number first.
    apart: BTreeSet<(usize, usize)>,
}

/// Runs one seed to its end.
pub fn run(config: Config) -> Result<Report, Failure> {
    let nodes: Vec<_> = (0..config.nodes).map(|number| Node::new(number + 1)).collect();
    let mut world = World {
        rng: StdRng::seed_from_u64(config.seed),
        founder: nodes[0].site(),
        config,
        nodes,
        issued: BTreeSet::new(),
        trace: Vec::new(),
        cut: 0,
        now_ms: 0,
        apart: BTreeSet::new(),
    };
    for step in 0..config.events {
        world.event(step).map_err(|what| Failure { step, what })?;
        checks::safety(&world.nodes, world.founder, &world.issued).map_err(|what| Failure { step, what })?;
    }
    let healing_sessions = world.heal().map_err(|what| Failure {
        step: config.events,
        what,
    })?;
    checks::safety(&world.nodes, world.founder, &world.issued).map_err(|what| Failure {
        step: config.events,
        what,
    })?;
    Ok(Report {
        trace: world.trace,
        issued: world.issued.len(),
        cut: world.cut,
        healing_sessions,
    })
}

impl World {
    fn event(&mut self, step: u32) -> Result<(), String> {
        self.now_ms += self.rng.random_range(1..120_000);
        if step.is_multiple_of(16) {
            self.draw_partition();
        }
        if self.rng.random_range(0..100) < 40 {
            self.issue();
            return Ok(());
        }
        let from = self.rng.random_range(0..self.nodes.len());
        let to = self.rng.random_range(0..self.nodes.len());
        if from == to || self.apart.contains(&(from.min(to), from.max(to))) {
            return Ok(());
        }
        let whole = self.session(from, to, self.config.loss_percent)?;
        self.cut += usize::from(!whole);
        self.trace.push(format!(
            "{} session {from}->{to} {}",
            self.now_ms,
            if whole { "whole" } else { "cut" }
        ));
        Ok(())
    }

    fn draw_partition(&mut self) {
        self.apart.clear();
        for a in 0..self.nodes.len() {
            for b in a + 1..self.nodes.len() {
                if self.rng.random_range(0..100) < self.config.partition_percent {
                    self.apart.insert((a, b));
                }
            }
        }
    }

    fn issue(&mut self) {
        let by = self.rng.random_range(0..self.nodes.len());
        let about = self.nodes[self.rng.random_range(0..self.nodes.len())].site();
        let kind = match self.rng.random_range(0..10) {
            0..6 => OpKind::Add,
            6..8 => OpKind::Role,
            _ => OpKind::Remove,
        };
        let role = [Role::Reader, Role::Writer, Role::Admin][self.rng.random_range(0..3)];
        let founder = self.founder;
        self.nodes[by].issue(founder, kind, about, role, self.now_ms);
        self.issued.extend(self.nodes[by].ops.keys().copied());
        self.trace.push(format!(
            "{} node {by} issues {kind:?} {} {}",
            self.now_ms,
            about.fmt_short(),
            role.as_str()
        ));
    }

    /// One reconciliation session. True when it ended by itself.
    fn session(&mut self, from: usize, to: usize, loss_percent: u8) -> Result<bool, String> {
        let mut initiator = Initiator::new(vec![SHARED], Limits::default());
        let mut responder = Responder::new(vec![SHARED], Limits::default());
        let mut effects = initiator
            .start(&self.nodes[from].set)
            .map_err(|error| error.to_string())?;
        let mut turn_of_initiator = true;
        loop {
            let (speaker, listener) = if turn_of_initiator { (from, to) } else { (to, from) };
            let mut message = None;
            let mut over = false;
            for effect in effects {
                match effect {
                    Effect::Send(next) => message = Some(next),
                    Effect::Received { items, .. } => {
                        for item in &items {
                            self.nodes[speaker].take(item)?;
                        }
                    }
                    Effect::Done(_) => over = true,
                }
            }
            let Some(message) = message else {
                return if over {
                    Ok(true)
                } else {
                    Err("a session that neither speaks nor ends".to_owned())
                };
            };
            if self.rng.random_range(0..100) < loss_percent {
                return Ok(false);
            }
            let set = &self.nodes[listener].set;
            effects = if turn_of_initiator {
                responder.handle(set, message)
            } else {
                initiator.handle(set, message)
            }
            .map_err(|error| error.to_string())?;
            turn_of_initiator = !turn_of_initiator;
        }
    }

    /// No loss and no partition any more: everybody meets everybody until all is known, in a bounded number of rounds.
    fn heal(&mut self) -> Result<usize, String> {
        let mut sessions = 0;
        for _ in 0..3 {
            for from in 0..self.nodes.len() {
                for to in 0..self.nodes.len() {
                    if checks::converged(&self.nodes, &self.issued) {
                        return Ok(sessions);
                    }
                    if from != to {
                        self.session(from, to, 0)?;
                        sessions += 1;
                    }
                }
            }
        }
        if checks::converged(&self.nodes, &self.issued) {
            return Ok(sessions);
        }
        Err("the nodes did not converge after healing".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds that once failed, and a few that never did. A found seed is added here with what it showed.
    const SEEDS: [u64; 12] = [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 8731, 0x5eed];

    #[test]
    fn fixed_seeds_hold_and_converge() {
        for seed in SEEDS {
            let report = run(Config::of_seed(seed)).unwrap_or_else(|failure| panic!("seed={seed} {failure}"));
            assert!(
                report.issued > 10 && report.cut > 0,
                "seed {seed} tests nothing: {report:?}"
            );
        }
    }

    /// The same seed gives the same run, byte for byte.
    #[test]
    fn a_seed_is_a_run() {
        let config = Config {
            nodes: 9,
            events: 300,
            ..Config::of_seed(7)
        };
        assert_eq!(run(config), run(config));
    }
}
