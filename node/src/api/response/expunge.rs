//! Answers about deleting for good, and about how long things are kept.

use serde::{Deserialize, Serialize};

use super::ReaderInfo;

/// `inventory expunge`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct InventoryExpungeReport {
    /// The catalogue.
    pub store: String,
    /// The product.
    pub product_id: String,
    /// The edition.
    pub edition_id: String,
    /// What the newest version says of it.
    pub state: Option<String>,
    /// Whether nothing was deleted.
    pub dry_run: bool,
    /// Whether a run before this one began it.
    pub resumed: bool,
    /// What was deleted, or would be.
    pub removed: Vec<ExpungedFileInfo>,
    /// How many bytes that is.
    pub bytes: u64,
    /// Data files that stay, because other editions list them.
    pub stays: Vec<SharedFileInfo>,
    /// Where the record lies in the catalogue.
    pub record: String,
    /// When it was decided.
    pub begun_at: Option<String>,
    /// When the last byte was gone.
    pub completed_at: Option<String>,
    /// Who decided.
    pub actor: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// SOP-354: the four stages of a deletion, apart.
    pub stages: ExpungeStages,
    /// Other sites that can read the catalogue's domains, or hold copies of the objects.
    pub holders: Vec<ReaderInfo>,
    /// What else has to be scrubbed, by hand.
    pub scrub: Vec<String>,
}

/// A file that was deleted, or would be.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ExpungedFileInfo {
    /// Its path in the catalogue.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256, where a manifest had it.
    pub sha256: Option<String>,
    /// Its BLAKE3, where a manifest had it: the id of its object on the mesh.
    pub object: Option<String>,
}

/// A data file that stays.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct SharedFileInfo {
    /// Its path in the catalogue.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// The other editions that list it.
    pub listed_by: Vec<String>,
}

/// SOP-354: how far a deletion came; none of the four stands for another.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ExpungeStages {
    /// The record is written.
    pub applied: bool,
    /// Files deleted here.
    pub bytes_removed: u64,
    /// Objects whose bytes are still here, because they are being read.
    pub bytes_left: u64,
    /// Keys destroyed.
    pub keys_destroyed: u64,
    /// Grants of the objects' keys that stay, here and at their readers.
    pub keys_left: u64,
    /// Sites that said that they deleted it.
    pub acknowledged: u64,
    /// Sites that did not.
    pub waiting: u64,
}

/// `inventory retention`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct InventoryRetentionReport {
    /// The catalogue.
    pub store: String,
    /// The version whose configuration this is.
    pub seq: u64,
    /// Whether the catalogue says anything; else these are the defaults.
    pub configured: bool,
    /// How long the oldest backup is kept.
    pub backup_secs: u64,
    /// How long a data file that no manifest lists is kept.
    pub data_secs: u64,
    /// How long a tombstone is honoured.
    pub tombstone_secs: u64,
    /// How long a superseded or withdrawn edition stays recorded.
    pub edition_secs: u64,
    /// How long a version is kept after the next one.
    pub versions_secs: u64,
    /// How many of the newest versions are kept whatever their age.
    pub newest_versions: u32,
    /// The longest time between two polls of a reader.
    pub longest_poll_secs: u64,
    /// The longest time a reader takes to fetch what a poll announced.
    pub longest_fetch_secs: u64,
}

impl InventoryExpungeReport {
    /// SOP-355: what is still open. As long as any of it is, nothing is said to be deleted everywhere.
    pub(super) fn attention(&self) -> Vec<String> {
        if self.dry_run {
            return Vec::new();
        }
        let mut open = Vec::new();
        if self.stages.bytes_left > 0 {
            let left = self.stages.bytes_left;
            open.push(format!("{left} objects are being read here; sovm gc removes them"));
        }
        if self.stages.keys_left > 0 {
            let left = self.stages.keys_left;
            open.push(format!(
                "{left} grants of keys stay: whoever holds ciphertext and key can still read it"
            ));
        }
        let waiting = self.holders.iter().map(|holder| {
            let name = holder.name.as_ref().unwrap_or(&holder.site);
            format!("waiting for {name}, which may hold a copy")
        });
        open.extend(waiting);
        open
    }
}
