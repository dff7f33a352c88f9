//! DuckDB at the same work, in a Python that has it.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

use super::{data, files::Files};

const SCRIPT: &str = include_str!("duckdb.py");

/// What DuckDB is asked for.
#[derive(Debug, Serialize)]
pub(super) struct Task {
    parquet: PathBuf,
    csv: PathBuf,
    dir: PathBuf,
    threads: u64,
    runs: u64,
    full: String,
    selective: String,
    row_group: usize,
}

impl Task {
    pub(super) fn new(files: &Files, dir: &Path, threads: u64, rows: u64, runs: u64) -> Self {
        Self {
            parquet: files.parquet.clone(),
            csv: files.csv.clone(),
            dir: dir.to_owned(),
            threads,
            runs,
            full: data::full_scan("flights"),
            selective: data::selective_scan_duckdb("flights", rows),
            row_group: sovm_object::pme::ROW_GROUP_ROWS,
        }
    }
}

/// Milliseconds by DuckDB.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct DuckDb {
    pub(super) version: String,
    pub(super) ms: Milliseconds,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Milliseconds {
    pub(super) copy_plain: f64,
    pub(super) copy_encrypted: f64,
    pub(super) csv_copy_plain: f64,
    pub(super) csv_copy_encrypted: f64,
    pub(super) full_plain: f64,
    pub(super) full_encrypted: f64,
    pub(super) selective_plain: f64,
    pub(super) selective_encrypted: f64,
}

/// Has DuckDB measured. The error says in words why there are no figures. Blocks.
pub(super) fn measure(python: &Path, task: &Task) -> Result<DuckDb, String> {
    let task = serde_json::to_vec(task).map_err(|error| error.to_string())?;
    let cannot = |error: std::io::Error| format!("{} does not run: {error}", python.display());
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    if let Some(mut input) = child.stdin.take() {
        // A child that is gone says why below.
        let _ = input.write_all(&task);
    }
    let output = child.wait_with_output().map_err(cannot)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.lines().last().unwrap_or("no reason given");
        return Err(format!("{} failed: {last}", python.display()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("DuckDB's figures cannot be read: {error}"))
}
