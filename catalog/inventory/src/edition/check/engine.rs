//! Which store files this build's engine may open (INV-64).

use std::fmt;

use super::{EditionFinding, EditionProblem, own_schema};
use crate::doc::{CleanText, Manifest, layout};

/// A version such as `v1.4.0`: numbers that compare one by one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EngineVersion(Vec<u64>);

impl EngineVersion {
    /// Reads numbers between points, with a `v` before or a `+` behind; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.strip_prefix('v').unwrap_or(text);
        let numbers = numbers.strip_suffix('+').unwrap_or(numbers);
        let numbers: Option<Vec<u64>> = numbers.split('.').map(|number| number.parse().ok()).collect();
        let mut numbers = numbers?;
        while numbers.len() > 1 && numbers.last() == Some(&0) {
            numbers.pop();
        }
        Some(Self(numbers))
    }
}

impl fmt::Display for EngineVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

/// What this build's engine reads. By default there is no DuckDB in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineReads {
    /// INV-67: the one schema version; none for this build's own.
    pub schema_version: Option<CleanText>,
    /// INV-65: the newest DuckDB storage version.
    pub duckdb_storage_version: Option<EngineVersion>,
    /// INV-66: the newest DuckLake spec version.
    pub ducklake_spec_version: Option<EngineVersion>,
}

impl EngineReads {
    /// Compares an edition's versions with the engine's, before any file is opened.
    pub(super) fn check(&self, manifest: &Manifest) -> Vec<EditionFinding> {
        let mut findings = Vec::new();
        let mut find = |rule, what: &'static str, found: &CleanText, reads: String| {
            let found = found.to_string();
            findings.push(EditionFinding {
                rule,
                file: layout::MANIFEST.to_owned(),
                problem: EditionProblem::Version { what, found, reads },
            });
        };
        let schema = self.schema_version.clone().or_else(own_schema);
        if schema.as_ref() != Some(&manifest.schema_version) {
            let reads = schema.map_or_else(|| "none".to_owned(), |schema| format!("exactly {schema}"));
            find(67, "schema_version", &manifest.schema_version, reads);
        }
        let engine = &manifest.engine;
        for (rule, what, found, newest) in [
            (
                65,
                "duckdb_storage_version",
                &engine.duckdb_storage_version,
                &self.duckdb_storage_version,
            ),
            (
                66,
                "ducklake_spec_version",
                &engine.ducklake_spec_version,
                &self.ducklake_spec_version,
            ),
        ] {
            let Some(found) = found else { continue };
            // What can't be compared may be newer.
            let readable = match (EngineVersion::parse(found.as_str()), newest) {
                (Some(version), Some(newest)) => version <= *newest,
                _ => false,
            };
            if !readable {
                let reads = newest
                    .as_ref()
                    .map_or_else(|| "none".to_owned(), |newest| format!("up to {newest}"));
                find(rule, what, found, reads);
            }
        }
        findings
    }
}
