//! Records of membership: who founded, who belongs, which group state is where, which KEKs exist (`mls.md` §2.3, DESIGN §8).

use super::{body, check_name, check_ops_seen, check_sorted};
use crate::{
    cbor::{DecodeError, Decoder, Encoder, Field},
    hlc::Hlc,
    id::{BranchId, DomainId, KekId, MeshId, RecordId, SiteId},
    payload,
};

/// What a membership op does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpKind {
    /// The site becomes a member with the role named.
    Add,
    /// The site is out; wins over every add that has not seen it.
    Remove,
    /// A member's role changes.
    Role,
}

/// What a member may do. Ordered by privilege, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Stores ciphertext for others, reads nothing.
    Blind,
    /// The key of a recovery kit; may add the machine that was recovered and nothing else.
    Recovery,
    /// Reads.
    Reader,
    /// Reads, appends, deletes, compacts, grants.
    Writer,
    /// Everything, membership included.
    Admin,
}

impl Role {
    /// The word people type and see.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blind => "blind",
            Self::Recovery => "recovery",
            Self::Reader => "reader",
            Self::Writer => "writer",
            Self::Admin => "admin",
        }
    }

    /// Whether this role holds keys and takes part in the domain's MLS group.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Reader | Self::Writer | Self::Admin)
    }
}

impl std::str::FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Blind, Self::Recovery, Self::Reader, Self::Writer, Self::Admin]
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or(UnknownRole)
    }
}

/// Text names no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown role: use admin, writer, reader or blind")]
pub struct UnknownRole;

macro_rules! uint_enum {
    ($name:ident { $($variant:ident = $value:literal),* $(,)? }) => {
        impl Field for $name {
            fn encode(&self, e: &mut Encoder) {
                e.uint(match self { $(Self::$variant => $value,)* });
            }
            fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                match d.uint()? { $($value => Ok(Self::$variant),)* _ => Err(DecodeError::Malformed) }
            }
        }
    };
}
pub(crate) use uint_enum;

uint_enum!(OpKind { Add = 1, Remove = 2, Role = 3 });
uint_enum!(Role { Admin = 1, Writer = 2, Reader = 3, Blind = 4, Recovery = 5 });

payload! {
    /// The founding of a mesh. Its id is the mesh id; the founder is the first admin (DESIGN §16.2).
    pub struct MeshGenesis {
        /// The founding site.
        2 founder: SiteId,
        /// Makes two meshes of one founder different.
        3 nonce: [u8; 32],
        /// When.
        4 created: Hlc,
    }
}
body!(MeshGenesis, "sovm/mesh-genesis-v1", author: founder, domain: |_| None);

impl MeshGenesis {
    /// The mesh id that stands in this record's own signature context, where the real one cannot be known yet.
    pub const CONTEXT_MESH: MeshId = MeshId::from_bytes([0; 32]);
}

payload! {
    /// The founding of a domain (DESIGN §16.2). Travels only between its members and rests encrypted.
    pub struct DomainGenesis {
        /// The mesh.
        2 mesh_id: MeshId,
        /// Random, never meaningful.
        3 domain_id: DomainId,
        /// What people call the domain.
        4 name: String,
        /// Id of the domain's MLS group.
        5 group_id: [u8; 32],
        /// The founding site, first admin of the domain.
        6 founder: SiteId,
        /// The founder's counter.
        7 seq: u64,
        /// When.
        8 created: Hlc,
    }
    check |b| check_name(4, &b.name);
}
body!(DomainGenesis, "sovm/domain-genesis-v1", author: founder, domain: |b| Some(b.domain_id));

payload! {
    /// What the mesh is called. The newest (hlc, id) of an admin wins; blind replicas never get it.
    pub struct MeshName {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The name.
        3 name: String,
        /// The admin.
        4 issuer: SiteId,
        /// The admin's counter.
        5 seq: u64,
        /// Heads of the membership ops the admin had seen.
        6 ops_seen: Vec<RecordId>,
        /// When.
        7 hlc: Hlc,
    }
    check |b| { check_name(3, &b.name)?; check_ops_seen(6, &b.ops_seen) };
}
body!(MeshName, "sovm/mesh-name-v1", author: issuer, domain: |_| None);

payload! {
    /// A site's own statement of its MLS key and display name. The admin's Add op names it.
    pub struct NodeBinding {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The site.
        3 site: SiteId,
        /// Its MLS leaf signature key, which is never the site key.
        4 mls_key: [u8; 32],
        /// What people call the device.
        5 display_name: String,
        /// When.
        6 hlc: Hlc,
        /// Reserved: a separate COSE key, so that the key can be split later without a format change (DESIGN §16.3).
        7 cose_key: Option<[u8; 32]>,
    }
    check |b| check_name(5, &b.display_name);
}
body!(NodeBinding, "sovm/node-binding-v1", author: site, domain: |_| None);

payload! {
    /// One change of a roster. The roster is a pure function of the set of these ([`crate::roster`]).
    pub struct MembershipOp {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The domain, or none for the mesh itself, where blind replicas stand.
        3 domain: Option<DomainId>,
        /// What happens.
        4 kind: OpKind,
        /// To whom.
        5 site: SiteId,
        /// The role given (Add, Role) or held (Remove).
        6 role: Role,
        /// The site's binding (Add of a site that has one).
        7 binding: Option<RecordId>,
        /// First KEK generation the site is entitled to (Add).
        8 history_from: u64,
        /// Remove, Role: the highest `seq` of the site that its issuer had accepted.
        9 cut_seq: u64,
        /// The admin who decides.
        10 issuer: SiteId,
        /// The admin's counter.
        11 seq: u64,
        /// When.
        12 hlc: Hlc,
        /// Heads of the membership ops the admin had seen.
        13 ops_seen: Vec<RecordId>,
    }
    check |b| check_ops_seen(13, &b.ops_seen);
}
body!(MembershipOp, "sovm/membership-op-v1", author: issuer, domain: |b| b.domain);

payload! {
    /// One MLS commit: the edge from one branch of a domain's group to the next.
    pub struct CommitRecord {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The domain.
        3 domain_id: DomainId,
        /// The state the commit applies to.
        4 parent: BranchId,
        /// The state it leads to.
        5 branch: BranchId,
        /// Epoch number after the commit.
        6 epoch: u64,
        /// Who made it.
        7 committer: SiteId,
        /// Membership ops it carries out, sorted.
        8 ops: Vec<RecordId>,
        /// Sites it adds again with fresh keys, sorted.
        9 readds: Vec<SiteId>,
        /// A KEK minted together with it.
        10 kek_id: Option<KekId>,
        /// The MLS message.
        11 commit: Vec<u8>,
        /// The MLS welcome, when sites were added.
        12 welcome: Option<Vec<u8>>,
        /// When.
        13 hlc: Hlc,
    }
    check |b| { check_sorted(8, &b.ops)?; check_sorted(9, &b.readds) };
    max 1024 * 1024;
}
body!(CommitRecord, "sovm/commit-record-v1", author: committer, domain: |b| Some(b.domain_id));

payload! {
    /// Where a site's group state stands. The newest counter of a site wins.
    pub struct HeadClaim {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The domain.
        3 domain_id: DomainId,
        /// The site.
        4 site: SiteId,
        /// Rises with every claim of the site.
        5 counter: u64,
        /// Its epoch.
        6 epoch: u64,
        /// Its branch.
        7 branch: BranchId,
        /// When.
        8 hlc: Hlc,
    }
}
body!(HeadClaim, "sovm/head-claim-v1", author: site, domain: |b| Some(b.domain_id));

payload! {
    /// A member's wish to be added to the group again with fresh keys. The newest of a site wins.
    pub struct RejoinOffer {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The domain.
        3 domain_id: DomainId,
        /// The site.
        4 site: SiteId,
        /// A fresh MLS key package.
        5 key_package: Vec<u8>,
        /// Where it stands now, if anywhere.
        6 head: Option<BranchId>,
        /// When the offer lapses.
        7 expires: Hlc,
        /// When it was made.
        8 hlc: Hlc,
    }
}
body!(RejoinOffer, "sovm/rejoin-offer-v1", author: site, domain: |b| Some(b.domain_id));

payload! {
    /// The public part of a KEK (SOP §2.8). The key itself travels only sealed.
    pub struct KekRecord {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The domain.
        3 domain_id: DomainId,
        /// The KEK.
        4 kek_id: KekId,
        /// One above the highest generation its minter had seen.
        5 generation: u64,
        /// Who drew it.
        6 minter: SiteId,
        /// Who gets it, sorted.
        7 audience: Vec<SiteId>,
        /// What the key must commit to.
        8 commitment: [u8; 32],
        /// The minter's counter.
        9 seq: u64,
        /// Heads of the membership ops the minter had seen.
        10 ops_seen: Vec<RecordId>,
        /// When.
        11 hlc: Hlc,
    }
    check |b| { check_sorted(7, &b.audience)?; check_ops_seen(10, &b.ops_seen) };
}
body!(KekRecord, "sovm/kek-record-v1", author: minter, domain: |b| Some(b.domain_id));
