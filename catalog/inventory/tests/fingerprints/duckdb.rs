//! Random tables, held against DuckDB's own definition.
//!
//! DuckDB runs through Python: the interpreter in `SOVM_TEST_PYTHON`, or `python3`. A machine without the `duckdb` package
//! skips the test and says so; an interpreter that was named on purpose and has none fails it. `SOVM_TEST_SEED` repeats
//! a run.

use std::{
    io::Write as _,
    num::NonZeroUsize,
    process::{Command, Stdio},
    time::SystemTime,
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use sovm_inventory::fingerprint::{
    CanonicalForm, fingerprint_parquet, fingerprint_parquet_parallel, row_text::RowTexts, schema::TextSchema,
};

use crate::vectors::{batches, definition};

const NAMED: &str = "SOVM_TEST_PYTHON";
const SEED: &str = "SOVM_TEST_SEED";
const TABLES: usize = 60;

#[derive(Deserialize)]
struct Answers {
    version: String,
    tables: Vec<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    file: String,
    columns: String,
    texts: Vec<String>,
    fingerprint: String,
}

/// INV-72, INV-73: random tables of every accepted type, nested ones too: each row's text and the sum are DuckDB's own.
#[test]
fn random_tables_have_the_texts_and_fingerprints_of_duckdb() {
    let seed = match std::env::var(SEED) {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
    };
    let directory = tempfile::tempdir().unwrap();
    let task = json!({
        "directory": directory.path(),
        "seed": seed,
        "tables": TABLES,
        "definition": definition(),
    });
    let Some(answers) = ask(&task.to_string()) else {
        return;
    };
    assert_eq!(answers.tables.len(), TABLES);
    let mut rows_total = 0;
    for answer in answers.tables {
        let context = format!(
            "{SEED}={seed}, DuckDB {}, {} with the columns {}",
            answers.version, answer.file, answer.columns
        );
        let bytes = Bytes::from(std::fs::read(&answer.file).unwrap());
        let (schema, batches) = batches(bytes.clone(), 1000);
        let schema = TextSchema::of(&schema).unwrap_or_else(|refused| panic!("{context}: {refused}"));
        let mut expected = answer.texts.iter();
        let mut text = Vec::new();
        for batch in &batches {
            let rows = RowTexts::new(&schema, batch).unwrap();
            for row in 0..rows.rows() {
                rows.write(row, &mut text)
                    .unwrap_or_else(|error| panic!("{context}: {error}"));
                let expected = expected.next().expect(&context);
                assert_eq!(std::str::from_utf8(&text).unwrap(), expected, "{context}");
                rows_total += 1;
            }
        }
        assert_eq!(expected.next(), None, "{context}");
        let found = fingerprint_parquet(CanonicalForm::ONE, bytes.clone()).unwrap();
        assert_eq!(found.to_string(), answer.fingerprint, "{context}");
        let threads = NonZeroUsize::new(2).unwrap();
        let found = fingerprint_parquet_parallel(CanonicalForm::ONE, &bytes, threads).unwrap();
        assert_eq!(found.to_string(), answer.fingerprint, "{context}");
    }
    assert!(rows_total > 1_000, "{rows_total} rows show little; {SEED}={seed}");
}

/// Runs the script over a task; `None` when there is no DuckDB.
fn ask(task: &str) -> Option<Answers> {
    let named = std::env::var_os(NAMED);
    let python = named.clone().unwrap_or_else(|| "python3".into());
    let spawned = Command::new(&python)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fingerprints/random_tables.py"
        ))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) if named.is_none() => return skip(&format!("{} does not start: {error}", python.display())),
        Err(error) => panic!("{} of {NAMED} does not start: {error}", python.display()),
    };
    // A script that ends early closes its input; its exit code says why.
    let _ = child.stdin.take().unwrap().write_all(task.as_bytes());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.code() == Some(3) && named.is_none() {
        return skip(&format!("{} says: {stderr}", python.display()));
    }
    assert!(output.status.success(), "DuckDB failed over {task}: {stderr}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Says why the test proves nothing here, past the test runner's capture.
fn skip(why: &str) -> Option<Answers> {
    let advice = "pip install duckdb==2.0.1, or name an interpreter that has it";
    let _ = writeln!(
        std::io::stderr(),
        "skipped: no DuckDB to compare fingerprints with: {why} ({advice} in {NAMED})"
    );
    None
}
