//! Table fingerprints against the vectors of DuckDB, and against DuckDB itself where it is installed.

#[path = "fingerprints/duckdb.rs"]
mod duckdb;
#[path = "fingerprints/layouts.rs"]
mod layouts;
#[path = "fingerprints/refusals.rs"]
mod refusals;
#[path = "fingerprints/vectors.rs"]
mod vectors;
