//! Devices: members, invites, joining.

use serde::{Deserialize, Serialize};

use super::{MeshInfo, ObjectCounts};

/// The devices of a mesh.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct MembersReport {
    /// The mesh.
    pub mesh: MeshInfo,
    /// Its devices, this one first.
    pub members: Vec<MemberInfo>,
}

/// One device.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct MemberInfo {
    /// Site id.
    pub site: String,
    /// Name, when known.
    pub name: Option<String>,
    /// `admin`, `writer`, `reader`, `blind` or `recovery`.
    pub role: String,
    /// Names of the domains it is in, as far as we know them.
    pub domains: Vec<String>,
    /// Whether it is this node.
    pub this_node: bool,
    /// Whether it can be reached now.
    pub online: bool,
    /// When it was last heard of.
    pub last_seen_ms: Option<u64>,
}

/// A device that is out.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RemoveReport {
    /// Site id.
    pub site: String,
    /// Name, when known.
    pub name: Option<String>,
    /// Domains whose key was rotated, with the new generation.
    pub rotated: Vec<Rotation>,
}

/// A domain under a new key.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Rotation {
    /// Domain name.
    pub domain: String,
    /// The new KEK generation.
    pub generation: u64,
}

/// A ticket.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InviteReport {
    /// Invite id.
    pub id: String,
    /// The one line for the other device.
    pub ticket: String,
    /// `admin`, `writer`, `reader` or `blind`.
    pub role: String,
    /// Names of the domains it opens.
    pub domains: Vec<String>,
    /// When it becomes worthless.
    pub expires_ms: u64,
    /// Whether the joining device is let in without a confirmed code.
    pub auto_confirm: bool,
}

/// Open invites.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InviteListReport {
    /// The invites.
    pub invites: Vec<InviteInfo>,
}

/// One open invite.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InviteInfo {
    /// Invite id.
    pub id: String,
    /// `admin`, `writer`, `reader` or `blind`.
    pub role: String,
    /// Names of the domains it opens.
    pub domains: Vec<String>,
    /// When it becomes worthless.
    pub expires_ms: u64,
    /// Bad proofs seen so far; five burn it.
    pub bad_proofs: u64,
    /// Whether a device waits for confirmation.
    pub waiting: bool,
}

/// A closed invite.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InviteRevokeReport {
    /// Invite id.
    pub id: String,
}

/// Whether a device has presented the ticket.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InviteWaitReport {
    /// Invite id.
    pub id: String,
    /// How far it is.
    pub state: InviteState,
}

/// How far an invite is.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum InviteState {
    /// Nobody came yet.
    Waiting,
    /// A device is there; compare the code.
    Confirm {
        /// Name the device gives itself.
        name: String,
        /// Its site id.
        site: String,
        /// The short code both must show.
        code: String,
    },
    /// The device is a member.
    Joined {
        /// Name the device gives itself.
        name: String,
        /// Its site id.
        site: String,
    },
    /// Expired, revoked or burnt.
    Closed {
        /// Why.
        reason: String,
    },
}

/// What became of the waiting device.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InviteConfirmReport {
    /// Invite id.
    pub id: String,
    /// Site id of the device.
    pub site: String,
    /// Whether it is a member now.
    pub joined: bool,
}

/// This node is in a mesh now.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct JoinReport {
    /// The mesh.
    pub mesh: MeshInfo,
    /// `admin`, `writer`, `reader` or `blind`.
    pub role: String,
    /// Names of the domains this node may read.
    pub domains: Vec<String>,
    /// Devices of the mesh, this one included.
    pub devices: u64,
    /// What is here and what is still coming.
    pub objects: ObjectCounts,
}
