//! `sovm bench`: how fast this node is on this machine, as ratios to others in the same run (DESIGN §13).
//!
//! ```text
//! made-up rows ──▶ Arrow file, CSV file, plain Parquet      in a temporary directory, which is removed
//!              ──▶ publish ▶ full scan ▶ selective scan ▶ point query over many small objects
//!                  each beside DataFusion over the plain Parquet, and beside DuckDB when there is one
//! ```
//!
//! The node's side runs what every command runs: requests to a node in a temporary home, objects that are encrypted and
//! durable, bytes that are verified before they are decrypted. The rows are made up, so their plain copies give nothing away.
//!
//! [`run_inventory`] measures the other half, editions and their catalogue, in a plain directory.

mod data;
mod duckdb;
mod files;
mod inventory;
mod plain;
mod run;
mod timing;

use std::{path::PathBuf, sync::Arc};

pub use self::{
    inventory::{InventoryBench, run_inventory},
    run::run,
};
use crate::api::ProgressSink;

/// What is measured.
#[derive(Clone)]
pub struct BenchOptions {
    /// Rows of the table.
    pub rows: u64,
    /// Small objects for the point query.
    pub small_objects: u64,
    /// Runs of which each time is the median.
    pub runs: u64,
    /// Where the temporary directory goes; `None` means the system's.
    pub dir: Option<PathBuf>,
    /// A Python with the module `duckdb`.
    pub duckdb: Option<PathBuf>,
    /// Told what is being measured.
    pub progress: Arc<dyn ProgressSink>,
}

impl std::fmt::Debug for BenchOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BenchOptions")
            .field("rows", &self.rows)
            .field("small_objects", &self.small_objects)
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}
