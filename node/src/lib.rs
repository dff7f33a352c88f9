//! A peer-to-peer mesh node: an encrypted lakehouse without a server.
//!
//! [`api`] is the seam: one request a command, the same types in this process, over the daemon's socket and with `--json`.
//! [`cli`] turns a command line into requests, [`daemon`] and [`client`] carry them between processes, [`query`] is the
//! only place that knows DataFusion (beside what [`bench`] compares it with), [`output`] the only one that prints, and [`error`] the only one that knows exit codes.

pub mod api;
pub mod bench;
pub mod cli;
pub mod client;
pub mod config;
pub mod daemon;
pub mod demo;
pub mod engine;
pub mod error;
pub mod ingest;
mod inventory;
pub mod output;
pub mod query;
