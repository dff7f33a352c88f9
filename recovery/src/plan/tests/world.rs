//! A domain as recovery meets it, made of real records, and the pile of blobs it leaves on a replica.

use std::collections::{BTreeMap, BTreeSet};

use sovm_object::{
    entry::{VerifiedEntry, sealed},
    hlc::Hlc,
    id::{DomainId, KekGeneration, KekId, MeshId, RecordId, SiteId, StorageId},
    record::{DomainGenesis, KekRecord, MembershipOp, MeshGenesis, OpKind, Role, RootAnnouncement},
    secret::{Kek, SiteKey},
    sign::{Body, Signed},
};

use super::{super::*, ready};
use crate::{
    blobs::{BlobsError, OpaqueBlobs},
    checkpoint::{CheckpointBody, CheckpointObject, CheckpointRecord, Publisher},
    kit::{Kit, PageFacts, ParsedKit, Replica},
    ring::{RingBlob, RingBody},
    root::{Root, RootDraft},
};

/// A blind replica: bytes by id, and nothing else.
#[derive(Clone, Default)]
pub(crate) struct Heap(pub(crate) BTreeMap<StorageId, Vec<u8>>);

impl Heap {
    pub(crate) fn put(&mut self, bytes: &[u8]) -> StorageId {
        let id = StorageId::from_bytes(*blake3::hash(bytes).as_bytes());
        self.0.insert(id, bytes.to_vec());
        id
    }
}

impl OpaqueBlobs for Heap {
    async fn list(&self) -> Result<Vec<(StorageId, u64)>, BlobsError> {
        Ok(self.0.iter().map(|(id, bytes)| (*id, bytes.len() as u64)).collect())
    }

    async fn get(&self, id: StorageId) -> Result<Option<Vec<u8>>, BlobsError> {
        Ok(self.0.get(&id).cloned())
    }
}

/// A KEK as the ring stores it, so that tests can hand it around.
#[derive(Clone, Copy)]
pub(crate) struct TestKek {
    pub(crate) generation: KekGeneration,
    pub(crate) id: KekId,
    pub(crate) bytes: [u8; 32],
}

impl TestKek {
    pub(crate) fn kek(&self) -> Kek {
        Kek::from_bytes(self.bytes)
    }
}

/// A domain with everything recovery meets: founder, a second admin, a writer, two kits, rotations, roots on a replica.
pub(crate) struct World {
    pub(crate) mesh: MeshId,
    pub(crate) domain: DomainId,
    pub(crate) admin: SiteKey,
    pub(crate) second: SiteKey,
    pub(crate) writer: SiteKey,
    pub(crate) kit: Kit,
    pub(crate) genesis: RecordId,
    pub(crate) heap: Heap,
    pub(crate) keks: Vec<TestKek>,
    pub(crate) entries: Vec<VerifiedEntry>,
    pub(crate) ops: Vec<Signed<MembershipOp>>,
    seq: u64,
}

/// A checkpoint that was published, with its root and ring blob.
#[derive(Clone)]
pub(crate) struct Published {
    pub(crate) root: Root,
    pub(crate) checkpoint: StorageId,
    pub(crate) ring: StorageId,
    pub(crate) ids: BTreeSet<RecordId>,
}

impl World {
    pub(crate) fn new() -> Self {
        let admin = SiteKey::from_seed(&[1; 32]);
        let genesis = MeshGenesis {
            founder: admin.site_id(),
            nonce: [9; 32],
            created: Hlc::new(1_000, 0),
        };
        let genesis = Signed::sign(genesis, &admin, &MeshGenesis::CONTEXT_MESH);
        let mesh = sovm_object::entry::mesh_id_of(&genesis);
        let domain = DomainId::from_bytes([2; 32]);
        let mut world = Self {
            mesh,
            domain,
            admin,
            second: SiteKey::from_seed(&[5; 32]),
            writer: SiteKey::from_seed(&[6; 32]),
            kit: Kit::from_seed([7; 32].into()),
            genesis: RecordId::from_bytes([0; 32]),
            heap: Heap::default(),
            keks: Vec::new(),
            entries: vec![genesis.into()],
            ops: Vec::new(),
            seq: 0,
        };
        let founding = DomainGenesis {
            mesh_id: mesh,
            domain_id: domain,
            name: "main".into(),
            group_id: [3; 32],
            founder: world.admin.site_id(),
            seq: world.next(),
            created: Hlc::new(1_001, 0),
        };
        let founding = world.sign(founding);
        world.genesis = founding.id();
        world.entries.push(founding.into());
        for (site, role) in [
            (world.second.site_id(), Role::Admin),
            (world.writer.site_id(), Role::Writer),
        ] {
            world.op(None, OpKind::Add, site, role);
            world.op(Some(domain), OpKind::Add, site, role);
        }
        world.rotate();
        // Foreign things that lie on any blind replica.
        world.heap.put(b"PARE....");
        world.heap.put(&vec![0xd0; 2_048]);
        world.heap.put(&vec![7; 4_096]);
        let mut age = b"age-encryption.org/v1\n-> X25519 nonsense\n".to_vec();
        age.resize(8_192, b'x');
        world.heap.put(&age);
        world
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    fn sign<B: Body>(&self, body: B) -> Signed<B> {
        let author = body.author();
        let key = [&self.admin, &self.second, &self.writer]
            .into_iter()
            .find(|key| key.site_id() == author);
        Signed::sign(body, key.expect("a member"), &self.mesh)
    }

    pub(crate) fn heads(&self, domain: Option<DomainId>) -> Vec<RecordId> {
        self.ops
            .iter()
            .rev()
            .find(|op| op.body().domain == domain)
            .map(Signed::id)
            .into_iter()
            .collect()
    }

    pub(crate) fn op(&mut self, domain: Option<DomainId>, kind: OpKind, site: SiteId, role: Role) {
        let seq = self.next();
        let op = MembershipOp {
            mesh_id: self.mesh,
            domain,
            kind,
            site,
            role,
            binding: None,
            history_from: 1,
            cut_seq: seq - 1,
            issuer: self.admin.site_id(),
            seq,
            hlc: Hlc::new(2_000 + seq, 0),
            ops_seen: self.heads(domain),
        };
        let op = self.sign(op);
        self.ops.push(op.clone());
        self.entries.push(op.into());
    }

    /// Mints a KEK and its record.
    pub(crate) fn rotate(&mut self) -> TestKek {
        let generation = self.keks.len() as u64 + 1;
        self.mint(generation, generation as u8)
    }

    pub(crate) fn mint(&mut self, generation: u64, byte: u8) -> TestKek {
        let kek = TestKek {
            generation,
            id: KekId::from_bytes([byte; 16]),
            bytes: [0x40 | byte; 32],
        };
        let mut audience = vec![self.admin.site_id(), self.second.site_id(), self.writer.site_id()];
        audience.sort_unstable();
        let record = KekRecord {
            mesh_id: self.mesh,
            domain_id: self.domain,
            kek_id: kek.id,
            generation,
            minter: self.admin.site_id(),
            audience,
            commitment: kek.kek().commitment(),
            seq: self.next(),
            ops_seen: self.heads(Some(self.domain)),
            hlc: Hlc::new(3_000, 0),
        };
        let record = self.sign(record);
        self.entries.push(record.into());
        self.keks.push(kek);
        kek
    }

    /// An entry of a kind that travels sealed.
    pub(crate) fn announce(&mut self) -> RecordId {
        let announcement = RootAnnouncement {
            mesh_id: self.mesh,
            domain_id: self.domain,
            root_id: StorageId::from_bytes([self.seq as u8; 32]),
            recovery_generation: 1,
            ring_blob: StorageId::from_bytes([2; 32]),
            checkpoint: StorageId::from_bytes([3; 32]),
            issuer: self.admin.site_id(),
            seq: self.next(),
            ops_seen: self.heads(Some(self.domain)),
            hlc: Hlc::new(4_000, 0),
        };
        let entry: VerifiedEntry = self.sign(announcement).into();
        let id = entry.id();
        self.entries.push(entry);
        id
    }

    pub(crate) fn newest(&self) -> TestKek {
        *self.keks.last().expect("a KEK")
    }

    pub(crate) fn records(&self) -> Vec<CheckpointRecord> {
        let kek = self.newest();
        let record = |entry: &VerifiedEntry| match entry.kind().is_sealed() {
            false => CheckpointRecord::public(entry),
            true => {
                let bytes = sealed::seal(entry.bytes(), &kek.kek(), &kek.id, &self.mesh, &self.domain);
                CheckpointRecord::sealed(entry.id(), kek.id, bytes)
            }
        };
        self.entries.iter().map(record).collect()
    }

    pub(crate) fn object(&mut self, body: &CheckpointBody, issuer: &SiteKey) -> CheckpointObject {
        let kek = self.newest();
        let by = Publisher {
            key: issuer,
            mls_epoch: 1,
            seq: [self.next(), self.next()],
            ops_seen: self.heads(Some(self.domain)),
            hlc: Hlc::new(5_000, 0),
            kek: (kek.generation, kek.id, &kek.kek()),
        };
        CheckpointObject::seal(body, by).unwrap()
    }

    pub(crate) fn draft(&mut self, object: &CheckpointObject, previous: Option<&Root>) -> RootDraft {
        let seq = self.next();
        RootDraft {
            mesh_id: self.mesh,
            domain_id: self.domain,
            checkpoint: object.storage_id,
            checkpoint_manifest: object.manifest.manifest_hash(),
            access: object.access.clone(),
            previous: previous.map(|root| (root.id(), root.body().recovery_generation)),
            issued_hlc: Hlc::new(6_000 + seq, 0),
            seq,
            ops_seen: self.heads(Some(self.domain)),
        }
    }

    pub(crate) fn ring_body(&self, newest_root: StorageId, issuer: &SiteKey) -> RingBody {
        let mut ring = sovm_object::kek::KekRing::default();
        for kek in &self.keks {
            ring.insert(kek.generation, kek.id, kek.kek());
        }
        RingBody {
            mesh_id: self.mesh,
            domain_id: self.domain,
            ring,
            admins: [self.admin.site_id(), self.second.site_id()].into(),
            op_heads: self.heads(Some(self.domain)).into_iter().collect(),
            newest_root,
            kits: [self.kit.id()].into(),
            issuer: issuer.site_id(),
        }
    }

    /// Publishes everything known now: parts, head, root, ring blob.
    pub(crate) fn publish(&mut self, previous: Option<&Published>) -> Published {
        let issuer = SiteKey::from_seed(&[1; 32]);
        self.publish_by(previous.map(|p| &p.root), &issuer, 1)
    }

    pub(crate) fn publish_by(&mut self, previous: Option<&Root>, issuer: &SiteKey, parts: usize) -> Published {
        let records = self.records();
        let ids = records.iter().map(CheckpointRecord::id).collect();
        let cut = records.len().div_ceil(parts);
        let mut bodies: Vec<_> = records
            .chunks(cut)
            .flat_map(|chunk| CheckpointBody::divide(self.mesh, self.domain, chunk.to_vec()))
            .collect();
        let head = bodies.remove(0);
        let mut refs = Vec::new();
        for body in &bodies {
            let object = self.object(body, issuer);
            self.heap.put(&object.bytes);
            refs.push(object.as_part(0));
        }
        let object = self.object(&head.with_parts(refs), issuer);
        self.heap.put(&object.bytes);
        self.publish_root(&object, previous, issuer, ids)
    }

    pub(crate) fn publish_root(
        &mut self,
        object: &CheckpointObject,
        previous: Option<&Root>,
        issuer: &SiteKey,
        ids: BTreeSet<RecordId>,
    ) -> Published {
        let draft = self.draft(object, previous);
        let kek = self.newest();
        let root = Root::seal(draft, issuer, (kek.generation, kek.id, &kek.kek()));
        self.heap.put(root.bytes());
        let body = self.ring_body(root.id(), issuer);
        let ring = RingBlob::seal(body, &[self.kit.age_recipient()], issuer).unwrap();
        self.heap.put(ring.bytes());
        Published {
            root,
            checkpoint: object.storage_id,
            ring: ring.id(),
            ids,
        }
    }

    /// The page as it was printed when `published` was the newest.
    pub(crate) fn page(&self, published: &Published) -> ParsedKit {
        let facts = PageFacts {
            mesh_name: "Harbour".into(),
            mesh_id: self.mesh,
            domain_name: "main".into(),
            domain_id: self.domain,
            genesis: self.genesis,
            made_ms: 0,
            root_id: published.root.id(),
            recovery_generation: published.root.body().recovery_generation,
            kek_generation: published.root.body().kek_generation,
            replicas: vec![Replica {
                site: self.writer.site_id(),
                address: "192.0.2.1:1".into(),
            }],
            command: "sovm recover".into(),
        };
        Kit::parse_page(&self.kit.show_page(&facts)).unwrap()
    }

    pub(crate) fn words(&self) -> ParsedKit {
        Kit::parse_page(&self.kit.show_words()).unwrap()
    }

    pub(crate) fn recover(&self, kit: &ParsedKit) -> Result<Recovered, RecoverError> {
        self.recover_with(kit, &RecoverOptions::default())
    }

    pub(crate) fn recover_with(&self, kit: &ParsedKit, options: &RecoverOptions) -> Result<Recovered, RecoverError> {
        ready(recover(kit, &self.heap, options, &mut |_| {}))
    }
}
