//! A node, its state and what it holds.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::DomainInfo;

/// A node that exists now.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InitReport {
    /// Where it lives.
    pub home: PathBuf,
    /// Its site id.
    pub site: String,
    /// Its name among the devices.
    pub name: String,
    /// The mesh it founded, or is in.
    pub mesh: MeshInfo,
    /// False when the node was there before and nothing was changed.
    pub created: bool,
    /// Whether a key file opens it, rather than a passphrase.
    pub key_file: bool,
}

/// A mesh.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct MeshInfo {
    /// Its id.
    pub mesh_id: String,
    /// Its name, when it has one.
    pub name: Option<String>,
}

/// One screen about a node.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct StatusReport {
    /// Where it lives.
    pub home: PathBuf,
    /// Its site id.
    pub site: String,
    /// Its name among the devices.
    pub name: String,
    /// The mesh it is in.
    pub mesh: MeshInfo,
    /// Whether this node only keeps ciphertext for others.
    pub blind: bool,
    /// Process id of the daemon, when one answers.
    pub daemon_pid: Option<u32>,
    /// Whether a key file opens this home, which protects nothing when it lies beside the data.
    pub key_file: bool,
    /// Devices of the mesh.
    pub devices: u64,
    /// Devices that can be reached now, this one included.
    pub devices_online: u64,
    /// Tables this node can read.
    pub tables: u64,
    /// Objects by state.
    pub objects: ObjectCounts,
    /// The domains this node is in.
    pub domains: Vec<DomainInfo>,
    /// Peers as this node sees them.
    pub peers: Vec<PeerInfo>,
    /// Objects that are not queryable, with the reason.
    pub waiting: Vec<WaitingObject>,
    /// Bytes moved since this process started.
    pub transfer: TransferInfo,
    /// Kits, roots and the last proof.
    pub recovery: RecoveryInfo,
    /// Sentences the person should read: clone, restored home, clock, disk.
    pub warnings: Vec<String>,
}

/// Bytes of objects moved between devices since the process started.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct TransferInfo {
    /// Received, verified on arrival.
    pub fetched_bytes: u64,
    /// Sent to others.
    pub served_bytes: u64,
}

/// Objects by state.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ObjectCounts {
    /// All that are known.
    pub known: u64,
    /// Readable here and now; on a blind replica: held.
    pub available: u64,
    /// Bytes are not here yet.
    pub pending_bytes: u64,
    /// No key for them yet.
    pub pending_access: u64,
    /// Set aside because something about them is wrong.
    pub quarantined: u64,
    /// Bytes that are here.
    pub have_bytes: u64,
    /// Bytes that should be here.
    pub want_bytes: u64,
}

impl ObjectCounts {
    pub(super) fn attention(&self) -> Vec<String> {
        [
            (self.pending_bytes, "objects wait for their bytes"),
            (self.pending_access, "objects wait for a key"),
            (self.quarantined, "objects are quarantined"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect()
    }
}

/// A peer as this node sees it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PeerInfo {
    /// Site id.
    pub site: String,
    /// Name, when known.
    pub name: Option<String>,
    /// Whether it can be reached now.
    pub online: bool,
    /// Round-trip time in microseconds, when connected.
    pub rtt_us: Option<u64>,
    /// Whether the path goes through a relay, when connected.
    pub relayed: Option<bool>,
    /// When it was last heard of.
    pub last_seen_ms: Option<u64>,
}

/// An object that cannot be queried yet.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct WaitingObject {
    /// Its storage id.
    pub storage_id: String,
    /// Its state.
    pub state: ObjectState,
    /// Why, and who was asked.
    pub reason: String,
    /// When it is tried next.
    pub next_try_ms: Option<u64>,
}

/// Where an object stands on this node (DESIGN §7).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectState {
    /// Rows can be read.
    Queryable,
    /// Bytes are kept for others (blind replica, checkpoint, root).
    Held,
    /// Bytes are missing.
    PendingBytes,
    /// The key is missing.
    PendingAccess,
    /// Something about it is wrong.
    Quarantined,
    /// A later object stands for it.
    Superseded,
    /// Its edition was expunged.
    Expunged,
}

impl ObjectState {
    /// The state as a word for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queryable => "queryable",
            Self::Held => "held",
            Self::PendingBytes => "pending bytes",
            Self::PendingAccess => "pending access",
            Self::Quarantined => "quarantined",
            Self::Superseded => "superseded",
            Self::Expunged => "expunged",
        }
    }
}

/// What recovery could start from.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct RecoveryInfo {
    /// Kits that work.
    pub kits: u64,
    /// The newest recovery root.
    pub root_id: Option<String>,
    /// When its checkpoint was made.
    pub checkpoint_ms: Option<u64>,
    /// When a drill last proved recovery.
    pub proven_ms: Option<u64>,
    /// Objects that drill restored.
    pub proven_objects: Option<u64>,
    /// Objects that drill missed.
    pub proven_missing: Option<u64>,
}
