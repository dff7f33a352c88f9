//! Kits, checkpoints, recovery, drills, and what runs over several nodes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{MeshInfo, ObjectCounts};

/// A recovery kit: the page a person keeps.
#[derive(Clone, Deserialize, PartialEq, Serialize)]
pub struct KitReport {
    /// Kit id.
    pub kit_id: String,
    /// Domain it opens.
    pub domain: String,
    /// Short fingerprint that stands on the page.
    pub fingerprint: String,
    /// Newest recovery root when it was made.
    pub root_id: String,
    /// The page, words included.
    pub page: String,
}

impl std::fmt::Debug for KitReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The page holds the words; whoever reads them holds the data.
        f.debug_struct("KitReport")
            .field("kit_id", &self.kit_id)
            .finish_non_exhaustive()
    }
}

/// Checkpoints that were written.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CheckpointReport {
    /// One a domain.
    pub checkpoints: Vec<CheckpointInfo>,
}

/// One checkpoint and its root.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CheckpointInfo {
    /// Domain name.
    pub domain: String,
    /// Recovery root id.
    pub root_id: String,
    /// Number of the root in its chain.
    pub recovery_generation: u64,
    /// Entries and records it holds.
    pub entries: u64,
    /// Digest over their ids (DESIGN §16.8).
    pub digest: String,
    /// Devices that keep a copy.
    pub copies: u64,
}

/// A domain that came back.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RecoverReport {
    /// Where the new node lives.
    pub home: PathBuf,
    /// Its site id.
    pub site: String,
    /// The mesh.
    pub mesh: MeshInfo,
    /// Domain name.
    pub domain: String,
    /// The root that was used.
    pub root_id: String,
    /// When its checkpoint was made.
    pub checkpoint_ms: u64,
    /// Entries and records restored.
    pub entries: u64,
    /// Digest over their ids.
    pub digest: String,
    /// Tables restored.
    pub tables: u64,
    /// What is here and what is still missing.
    pub objects: ObjectCounts,
}

/// Whether recovery would work.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DrillReport {
    /// Whether everything compared equal and nothing was missing, in every domain.
    pub proven: bool,
    /// Objects missing, over all domains.
    pub missing: u64,
    /// One line a domain.
    pub domains: Vec<DrillDomain>,
}

/// One domain in a drill.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DrillDomain {
    /// Domain name.
    pub domain: String,
    /// Whether everything compared equal and nothing was missing.
    pub proven: bool,
    /// The root that was used.
    pub root_id: String,
    /// Age of its checkpoint.
    pub checkpoint_age_ms: u64,
    /// Digest of the restored set.
    pub digest_restored: String,
    /// Digest of this node's set at that checkpoint.
    pub digest_here: String,
    /// Objects restored.
    pub objects: u64,
    /// Storage ids of the objects that are missing.
    pub missing: Vec<String>,
    /// Tables whose rows were counted on both sides.
    pub tables: Vec<DrillTable>,
    /// Plain files restored.
    #[serde(default)]
    pub files: u64,
    /// Data files of editions restored.
    #[serde(default)]
    pub edition_files: u64,
    /// Bytes read and compared.
    pub sampled_bytes: u64,
}

/// One table in a drill.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DrillTable {
    /// Schema and table name.
    pub table: String,
    /// Rows counted in the restored home.
    pub rows_restored: u64,
    /// Rows counted here.
    pub rows_here: u64,
}

/// What one round of reconciliation did.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SyncReport {
    /// Devices talked to.
    pub peers: u64,
    /// Entries and records received.
    pub received: u64,
    /// Entries and records sent.
    pub sent: u64,
    /// What is here and what is still coming.
    pub objects: ObjectCounts,
    /// This device keeps bytes for others and knows nothing about them.
    #[serde(default)]
    pub blind: bool,
}

/// The whole story, step by step.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DemoReport {
    /// The steps in order.
    pub steps: Vec<DemoStep>,
    /// How long it took.
    pub elapsed_ms: u64,
    /// Where the homes were kept, with `--keep`.
    pub kept: Option<PathBuf>,
}

/// One step of the demo.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DemoStep {
    /// What it shows.
    pub title: String,
    /// Whether it held.
    pub held: bool,
    /// The proof: digests, counts, bytes.
    pub evidence: Vec<String>,
    /// How long it took.
    pub elapsed_ms: u64,
}
