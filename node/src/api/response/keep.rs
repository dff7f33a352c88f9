//! Looking after a node: what was removed, what is wrong.

use serde::{Deserialize, Serialize};

use crate::error::{ApiError, ErrorKind};

/// What a collection removed, or would remove.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct GcReport {
    /// Nothing was removed: `removed` is what would be.
    pub dry_run: bool,
    /// Running time left-overs had to be old.
    pub after_secs: u64,
    /// What is gone.
    pub removed: Vec<GcObject>,
    /// Its bytes.
    pub removed_bytes: u64,
    /// Left over, and not old enough.
    pub waiting: Vec<GcObject>,
    /// Its bytes.
    pub waiting_bytes: u64,
    /// All bytes of objects that were here before.
    pub held_bytes: u64,
}

/// Bytes that no entry names.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct GcObject {
    /// Storage id.
    pub storage_id: String,
    /// Bytes on disk.
    pub bytes: u64,
    /// For how much running time nobody has been making it.
    pub age_ms: u64,
}

/// What was found wrong with a node.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DoctorReport {
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
    /// Objects looked at, by books and lengths of files.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something was lost here, or what is here cannot be right.
    Damage,
    /// Something waits, or is unproven.
    Attention,
    /// Worth knowing.
    Note,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Finding {
    /// A stable word for scripts.
    pub kind: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it is, in one sentence.
    pub text: String,
    /// What is safe, or what would be lost.
    pub safe: String,
    /// The next command or step.
    pub next: String,
    /// Whether `--repair` did away with it just now.
    pub repaired: bool,
}

impl DoctorReport {
    fn open(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(move |finding| finding.severity == severity && !finding.repaired)
    }

    pub(super) fn attention(&self) -> Vec<String> {
        self.open(Severity::Attention)
            .map(|finding| finding.text.clone())
            .collect()
    }

    /// Damage is a failure, with or without `--strict`, as it is for `object verify`.
    pub(super) fn failure(&self) -> Option<ApiError> {
        let damage = self.open(Severity::Damage).count();
        let first = self.open(Severity::Damage).next()?;
        Some(
            ApiError::new(ErrorKind::Integrity, format!("{damage} findings need repair"))
                .safe("nothing that does not verify is given out")
                .next(first.next.clone()),
        )
    }
}
