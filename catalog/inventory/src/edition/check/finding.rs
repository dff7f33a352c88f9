//! What a check of an edition can find.

use std::fmt;

use crate::{doc::Urn, fingerprint::CheckProfile};

/// One thing that is wrong with an edition: the rule, the file, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditionFinding {
    /// The rule of the acceptance list.
    pub rule: u16,
    /// The file, relative to the edition's directory, or below `data/`.
    pub file: String,
    /// What is wrong.
    pub problem: EditionProblem,
}

impl fmt::Display for EditionFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (INV-{})", self.file, self.problem, self.rule)
    }
}

/// What can be wrong with a file of an edition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditionProblem {
    /// There is no manifest.
    #[error("is not there, so the edition is not sealed")]
    NotSealed,
    /// A listed file isn't there.
    #[error("is listed and is not there")]
    Missing,
    /// A file that nothing lists.
    #[error("is there and is not listed")]
    Unlisted,
    /// A write-ahead log.
    #[error("is a write-ahead log: its DuckDB file was not checkpointed before the seal")]
    NotCheckpointed,
    /// A file of deletions.
    #[error("is a delete file: its table was not rewritten before the seal")]
    DeleteFile,
    /// Another size.
    #[error("has {found} bytes, {recorded} are recorded")]
    Size {
        /// Its size.
        found: u64,
        /// The recorded size.
        recorded: u64,
    },
    /// Another digest.
    #[error("has {algorithm} {found}, {recorded} is recorded")]
    Digest {
        /// Which digest.
        algorithm: String,
        /// What the bytes come to, or the store keeps.
        found: String,
        /// The recorded one.
        recorded: String,
    },
    /// The store keeps no digest that the manifest records.
    #[error("has no digest in its store that the manifest records, so a look-up vouches for nothing")]
    NoKeptDigest,
    /// A version this build doesn't read.
    #[error("{what} is {found}, this build reads {reads}")]
    Version {
        /// Which version.
        what: &'static str,
        /// The edition's.
        found: String,
        /// What is read.
        reads: String,
    },
    /// A table's file that the manifest doesn't list.
    #[error("belongs to table {dataflow} and the manifest does not list it")]
    NotListed {
        /// The table.
        dataflow: Urn,
    },
    /// A binding without a table.
    #[error("has no table for the binding {dataflow}")]
    NoTable {
        /// The dataflow.
        dataflow: Urn,
    },
    /// A table without a binding.
    #[error("has table {dataflow}, and the manifest has no binding for it")]
    NoBinding {
        /// The dataflow.
        dataflow: Urn,
    },
    /// An artefact that is recorded only.
    #[error("names no structure message with {0}, which the manifest records")]
    ArtefactMissing(String),
    /// An artefact that isn't recorded.
    #[error("does not record {0}, which the edition holds")]
    ArtefactUnrecorded(String),
    /// Two documents disagree.
    #[error("{what} is {found}, {recorded} is recorded")]
    Differs {
        /// On what.
        what: String,
        /// What was found.
        found: String,
        /// What is recorded.
        recorded: String,
    },
    /// What the file says is refused.
    #[error("{0}")]
    Content(String),
    /// An extension found something.
    #[error("section {extension}: {what}")]
    Extension {
        /// Whose section.
        extension: String,
        /// What is wrong.
        what: String,
    },
}

/// Everything a check found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {profile:?} check found {} faults; the first: {}", .findings.len(), first(.findings))]
pub struct EditionFindings {
    /// The profile.
    pub profile: CheckProfile,
    /// Each finding. None means that another profile than publish ran.
    pub findings: Vec<EditionFinding>,
}

fn first(findings: &[EditionFinding]) -> String {
    findings.first().map_or_else(
        || "none, but only a publish check makes an edition recordable".to_owned(),
        ToString::to_string,
    )
}
