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
    /// Stable name: `datafusion_plain`, `parquet_plain_write`, `duckdb_encrypted`, `duckdb_plain`; `rewrite_all`.
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

/// The figures of one `sovm bench --inventory`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BenchInventoryReport {
    /// What it ran on.
    pub machine: BenchMachine,
    /// This program's version.
    pub sovm: String,
    /// Products of the catalogue.
    pub products: u64,
    /// Each time of a release of one product is the median of so many.
    pub runs: u64,
    /// Bytes of a root.
    pub root_bytes: u64,
    /// Bytes of one product's leaf.
    pub leaf_bytes: u64,
    /// What versions of the Inventory cost.
    pub versions: Vec<BenchVersion>,
    /// The seal of an update of a large table.
    pub seal: BenchSeal,
    /// How long all of it took.
    pub elapsed_ms: u64,
}

/// What one version of the Inventory cost, from the lock to `CURRENT`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BenchVersion {
    /// Stable name: `one_product` and `batch` by a process that has read nothing, `one_product_again` by the writer of the
    /// version before, `rewrite_all` for a version in which every leaf is another one.
    pub name: String,
    /// Milliseconds.
    pub ms: f64,
    /// Products it changed.
    pub products: u64,
    /// Leaves read.
    pub leaves_read: u64,
    /// Leaves written.
    pub leaves_written: u64,
    /// Roots written.
    pub roots_written: u64,
    /// Bytes of these leaves and roots.
    pub bytes_written: u64,
    /// Compared with `rewrite_all`.
    pub against: Vec<BenchRatio>,
}

/// What the seal of an update cost: a month more of a table in plain Parquet files.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BenchSeal {
    /// Rows of the table after the update.
    pub rows: u64,
    /// Rows of the update.
    pub new_rows: u64,
    /// Data files of the table.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Milliseconds from the journal to the manifest.
    pub ms: f64,
    /// Milliseconds of these that every row was read and hashed for the table fingerprint.
    pub fingerprint_ms: f64,
    /// Milliseconds of these that every file was digested.
    pub digests_ms: f64,
    /// The fingerprint's part of the seal.
    pub fingerprint_share: f64,
    /// Rows read and hashed a second in the seal.
    pub rows_per_second: f64,
    /// The same for each core of the machine.
    pub rows_per_second_per_core: f64,
    /// Rows a second of one thread over one file, best of five.
    pub rows_per_second_alone: f64,
}
