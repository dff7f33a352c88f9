//! Encrypted objects, looked at one by one.

use serde::{Deserialize, Serialize};

use super::ObjectState;

/// Objects a node knows.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ObjectListReport {
    /// The objects.
    pub objects: Vec<ObjectSummary>,
}

/// One object in a list.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ObjectSummary {
    /// Storage id.
    pub storage_id: String,
    /// `data`, `checkpoint`, …; `None` on a blind replica, which cannot know.
    pub kind: Option<String>,
    /// Schema and table name, when it has one.
    pub table: Option<String>,
    /// Its state.
    pub state: ObjectState,
    /// Length of the encrypted bytes, when here.
    pub size_bytes: Option<u64>,
    /// Rows as the manifest states them.
    pub rows_stated: Option<u64>,
    /// When it was made, by its producer's clock.
    pub created_ms: Option<u64>,
}

/// Everything known of one object.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ObjectReport {
    /// What the list shows of it.
    #[serde(flatten)]
    pub summary: ObjectSummary,
    /// Id of its signed manifest.
    pub manifest: Option<String>,
    /// Site that produced it, by signature.
    pub producer: Option<String>,
    /// Domain through which this node may read it.
    pub domain: Option<String>,
    /// Generation of the key that opens its access record.
    pub generation: Option<u64>,
    /// Its opaque label.
    pub key_ref: Option<String>,
    /// Unpadded length.
    pub exact_bytes: Option<u64>,
    /// Partition values by column.
    pub partition: std::collections::BTreeMap<String, Option<String>>,
    /// Column bounds as text.
    pub statistics: Vec<ColumnBounds>,
    /// Access records known.
    pub access_records: u64,
    /// When all its bytes were last verified here.
    pub verified_whole_ms: Option<u64>,
    /// Why it is not queryable.
    pub reason: Option<String>,
}

/// Bounds of one column in one object.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ColumnBounds {
    /// Column name.
    pub column: String,
    /// Lower bound.
    pub min: Option<String>,
    /// Upper bound.
    pub max: Option<String>,
    /// Nulls.
    pub nulls: Option<u64>,
}

/// The result of reading objects in full.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct VerifyReport {
    /// One line an object.
    pub objects: Vec<VerifyResult>,
    /// Bytes read and compared.
    pub bytes: u64,
}

/// The result for one object.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct VerifyResult {
    /// Storage id.
    pub storage_id: String,
    /// What is wrong with it; empty when nothing is.
    pub findings: Vec<String>,
    /// Bytes read and compared.
    pub bytes: u64,
    /// Where intact bytes come from, when these are damaged or gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healing: Option<String>,
}

/// Encrypted bytes as they stand on disk.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct HexdumpReport {
    /// Storage id.
    pub storage_id: String,
    /// Position of the first byte.
    pub offset: u64,
    /// Length of the object.
    pub size_bytes: u64,
    /// The bytes as hex digits.
    pub hex: String,
}

/// A data key in clear.
#[derive(Clone, Deserialize, PartialEq, Serialize)]
pub struct ObjectKeyReport {
    /// Storage id.
    pub storage_id: String,
    /// The key as 64 hex digits.
    pub dek_hex: String,
}

impl std::fmt::Debug for ObjectKeyReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectKeyReport")
            .field("storage_id", &self.storage_id)
            .finish_non_exhaustive()
    }
}
