//! What a benchmark found. Every ratio is this node's time over the other's, in one run: below 1 is faster.

use serde::{Deserialize, Serialize};

/// The figures of one `sovm bench`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BenchReport {
    /// What it ran on.
    pub machine: BenchMachine,
    /// What was measured with.
    pub versions: BenchVersions,
    /// Rows of the table.
    pub rows: u64,
    /// Each time is the median of so many runs; those that write are run at most three times.
    pub runs: u64,
    /// State of the file cache: "warm", since everything was written or read just before.
    pub cache: String,
    /// Bytes of the table's encrypted objects.
    pub encrypted_bytes: u64,
    /// Bytes of the plain Parquet file with the same rows, codec and row groups.
    pub plain_bytes: u64,
    /// The measurements.
    pub figures: Vec<BenchFigure>,
    /// The query for a few rows out of many small objects.
    pub point: BenchPoint,
    /// Why DuckDB was not measured, when it was asked for.
    pub duckdb_missing: Option<String>,
    /// How long all of it took.
    pub elapsed_ms: u64,
}

/// What a benchmark ran on.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BenchMachine {
    /// Threads that work at the same time.
    pub cores: u64,
    /// Processor architecture.
    pub arch: String,
    /// Operating system.
    pub os: String,
    /// Whether the processor has instructions for AES. Without them decryption is much slower; it is never left out.
    pub aes_instructions: bool,
    /// Whether the program was built without optimisation, which makes its figures meaningless.
    pub unoptimised: bool,
}

/// Versions of what was measured.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BenchVersions {
    /// This program.
    pub sovm: String,
    /// The engine on both sides of the scans.
    pub datafusion: String,
    /// DuckDB, when it was measured.
    pub duckdb: Option<String>,
}

/// One measurement.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BenchFigure {
    /// Stable name: `publish_arrow`, `publish_csv`, `full_scan`, `selective_scan`.
    pub name: String,
    /// Milliseconds this node took.
    pub ms: f64,
    /// Bytes that were proven against their storage id; 0 for writes.
    pub bytes_verified: u64,
    /// Bytes that were decrypted; 0 for writes.
    pub bytes_decrypted: u64,
    /// What it is compared with.
    pub against: Vec<BenchRatio>,
}

/// A comparison.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BenchRatio {
    /// Stable name: `datafusion_plain`, `parquet_plain_write`, `duckdb_encrypted`, `duckdb_plain`.
    pub with: String,
    /// Milliseconds the other took.
    pub ms: f64,
    /// This node's time over the other's.
    pub ratio: f64,
    /// The ratio that is aimed at, where one is.
    pub target: Option<f64>,
}

/// The query for a few rows out of many small objects.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BenchPoint {
    /// Objects of the table.
    pub objects: u64,
    /// Objects whose manifest was looked at.
    pub considered: u64,
    /// Objects ruled out by their manifest.
    pub pruned: u64,
    /// Objects whose footer was opened.
    pub opened: u64,
    /// Objects that hold rows that fit.
    pub matching: u64,
    /// Milliseconds of the whole query.
    pub ms: f64,
    /// Milliseconds of a query that no object can match: planning alone.
    pub planning_ms: f64,
    /// The same right after the node was opened, when nothing is in memory.
    pub planning_cold_ms: f64,
    /// What planning is aimed to take: 50 ms for 10,000 manifests.
    pub planning_target_ms: f64,
    /// The same query over one plain Parquet file of the same rows.
    pub against: Vec<BenchRatio>,
}
