//! Whether a build can read an edition: its versions against the build's, before any of its files is opened.

use std::cmp::Ordering;

use super::{
    error::{DocError, DocKind, Problem, Refused, disagree},
    id::CleanText,
    manifest::Manifest,
};

/// What one build reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadableVersions {
    /// INV-67: the one store schema.
    pub schema_version: CleanText,
    /// INV-381: the canonical forms whose fingerprints it can compare.
    pub canonical_forms: Vec<CleanText>,
    /// INV-65: the newest storage version its DuckDB opens; none for a build without DuckDB.
    pub duckdb_storage_version: Option<CleanText>,
    /// INV-66: the newest DuckLake spec it opens; none for a build without DuckLake.
    pub ducklake_spec_version: Option<CleanText>,
}

impl Manifest {
    /// INV-64: compares the edition's versions with a build's, before any file of the edition is opened. An older storage
    /// version or spec opens, a newer one is refused, and so is another schema or an unknown canonical form.
    pub fn check_readable(&self, build: &ReadableVersions) -> Result<(), DocError> {
        let check = || {
            if self.schema_version != build.schema_version {
                let problem = disagree(
                    "schema_version",
                    &self.schema_version,
                    "the one this build reads",
                    &build.schema_version,
                );
                return Err(Refused::by(67, problem).inside("schema_version"));
            }
            if !build.canonical_forms.contains(&self.canonical_form) {
                let known: Vec<&str> = build.canonical_forms.iter().map(CleanText::as_str).collect();
                let problem = disagree(
                    "canonical_form",
                    &self.canonical_form,
                    "what this build knows",
                    known.join(", "),
                );
                return Err(Refused::by(381, problem).inside("canonical_form"));
            }
            let engine = &self.engine;
            not_newer(
                65,
                "duckdb_storage_version",
                &engine.duckdb_storage_version,
                &build.duckdb_storage_version,
            )?;
            not_newer(
                66,
                "ducklake_spec_version",
                &engine.ducklake_spec_version,
                &build.ducklake_spec_version,
            )
        };
        check().map_err(|refused: Refused| refused.of(DocKind::Manifest))
    }
}

fn not_newer(
    rule: u16,
    field: &'static str,
    found: &Option<CleanText>,
    newest: &Option<CleanText>,
) -> Result<(), Refused> {
    let Some(found) = found else { return Ok(()) };
    let Some(newest) = newest else {
        let because = "this build opens no such file".to_owned();
        return Err(Refused::by(64, Problem::PresentBut { field, because }).inside(field));
    };
    let numbers = |text: &CleanText| {
        numbers(text.as_str()).ok_or_else(|| {
            let expected = "a version that can be compared (numbers and points)";
            Refused::by(
                64,
                Problem::BadText {
                    expected,
                    found: text.to_string(),
                },
            )
            .inside(field)
        })
    };
    match numbers(found)?.cmp(&numbers(newest)?) {
        Ordering::Greater => {
            let (found, newest) = (found.to_string(), newest.to_string());
            Err(Refused::by(rule, Problem::NewerVersion { found, newest }).inside(field))
        }
        Ordering::Less | Ordering::Equal => Ok(()),
    }
}

/// `v1.5.0+`, `1.0`, `67`: the numbers, without zeros at the end, so that `1.0` and `1.0.0` are one version.
fn numbers(text: &str) -> Option<Vec<u64>> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let text = text.strip_suffix('+').unwrap_or(text);
    let number = |part: &str| {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        if digits { part.parse().ok() } else { None }
    };
    let mut numbers = text.split('.').map(number).collect::<Option<Vec<u64>>>()?;
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}
