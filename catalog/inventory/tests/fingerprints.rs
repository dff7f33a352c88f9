//! Table fingerprints against the vectors of DuckDB, and against DuckDB itself where it is installed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

#[path = "fingerprints/duckdb.rs"]
mod duckdb;
#[path = "fingerprints/layouts.rs"]
mod layouts;
#[path = "fingerprints/refusals.rs"]
mod refusals;
#[path = "fingerprints/vectors.rs"]
mod vectors;
