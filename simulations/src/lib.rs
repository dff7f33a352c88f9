//! A seeded simulator: several nodes, lossy conversations, partitions, and the very code that ships.
//!
//! Nodes issue signed membership ops and reconcile them by real sessions whose messages can be lost. Phase one injects faults and
//! checks safety; phase two heals and demands convergence. There is no clock and no thread: a seed is a run, byte for byte.

mod checks;
mod node;
mod world;

pub use world::{Config, Failure, Report, run};
