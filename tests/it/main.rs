//! One binary, a module per topic.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod bad_input;
mod bench;
mod blind;
mod blob_vectors;
mod bucket;
mod crash;
mod daemon;
mod documents;
mod duckdb;
mod editions;
mod evolution;
mod expunge;
mod feed;
mod files;
mod fuzz;
mod harness;
mod heal;
mod ingest;
mod inventory;
mod mesh_authority;
mod mesh_editions;
mod messages;
mod mishaps;
mod objects;
mod office;
mod offline;
mod partitions;
mod population;
mod readme;
mod registrations;
mod retention;
mod s3_server;
mod sample;
mod staging;
mod vectors;

/// A file under `it/` that no `mod` line names would be a test that never runs.
#[test]
fn no_file_is_forgotten() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/it");
    let main = std::fs::read_to_string(format!("{dir}/main.rs")).unwrap();
    for file in std::fs::read_dir(dir).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(
            module == "main" || main.contains(&format!("mod {module};")),
            "{name} is not in main.rs"
        );
    }
}
