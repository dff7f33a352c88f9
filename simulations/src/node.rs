//! One simulated device: its key, its set, the ops in it.

use std::collections::BTreeMap;

use sovm_mesh::proto::sync::{Element, Item, MemorySet, Scope, SharedScope};
use sovm_object::{
    entry::{EntryIn, VerifiedEntry, sealed::element_id},
    hlc::Hlc,
    id::{MeshId, RecordId, SiteId},
    record::{MembershipOp, OpKind, Role},
    roster::Roster,
    secret::SiteKey,
    sign::Signed,
};

/// The mesh all simulated nodes are in.
pub(crate) const MESH: MeshId = MeshId::from_bytes([42; 32]);

/// What two nodes share.
pub(crate) const SHARED: SharedScope = SharedScope {
    scope: Scope::Mesh,
    from_generation: 0,
};

pub(crate) struct Node {
    pub(crate) key: SiteKey,
    pub(crate) set: MemorySet,
    pub(crate) ops: BTreeMap<RecordId, Signed<MembershipOp>>,
    seq: u64,
}

impl Node {
    pub(crate) fn new(number: u8) -> Self {
        Self {
            key: SiteKey::from_seed(&[number; 32]),
            set: MemorySet::default(),
            ops: BTreeMap::new(),
            seq: 0,
        }
    }

    pub(crate) fn site(&self) -> SiteId {
        self.key.site_id()
    }

    pub(crate) fn roster(&self, founder: SiteId) -> Roster {
        Roster::of(founder, self.ops.values())
    }

    /// Issues an op on top of everything this node knows.
    pub(crate) fn issue(&mut self, founder: SiteId, kind: OpKind, site: SiteId, role: Role, now_ms: u64) {
        self.seq += 1;
        let op = MembershipOp {
            mesh_id: MESH,
            domain: None,
            kind,
            site,
            role,
            binding: None,
            history_from: 1,
            cut_seq: 0,
            issuer: self.site(),
            seq: self.seq,
            hlc: Hlc::new(now_ms, 0),
            ops_seen: self.roster(founder).heads(),
        };
        let op = Signed::sign(op, &self.key, &MESH);
        self.keep(op);
    }

    /// Takes what a session gave, by the one door every entry goes through. Anything else is refused.
    pub(crate) fn take(&mut self, item: &Item) -> Result<(), String> {
        let entry = EntryIn::decode(&item.bytes).map_err(|error| error.to_string())?;
        match entry.verify(&MESH).map_err(|error| error.to_string())? {
            VerifiedEntry::MembershipOp(op) => {
                self.keep(op);
                Ok(())
            }
            other => Err(format!("{:?} was never issued", other.kind())),
        }
    }

    fn keep(&mut self, op: Signed<MembershipOp>) {
        let element = Element {
            hlc: op.body().hlc,
            id: element_id(&op.id(), None),
        };
        self.set.insert(
            Scope::Mesh,
            0,
            element,
            Item {
                kind: 0,
                bytes: op.bytes().to_vec(),
            },
        );
        self.ops.insert(op.id(), op);
    }
}
