//! A small mesh for tests: a founder, a member who writes, a reader and a stranger; one domain, one KEK, one table, one object.

use sovm_object::{
    entry::{VerifiedEntry, mesh_id_of},
    hlc::Hlc,
    id::{DomainId, KekId, KeyRef, MeshId, RecordId, SiteId, StorageId, TableId},
    kek::KekRing,
    record::{
        AccessRecord, ColumnDef, ColumnStats, DomainGenesis, KekRecord, MembershipOp, MeshGenesis, ObjectKind,
        ObjectManifest, OpKind, Profile, Role, TableClass, TableGenesis, TimeRange, access::Grant,
        manifest::PartitionValues,
    },
    secret::{Dek, Kek, SiteKey},
    sign::{Body, Signed},
};

use crate::{SealedUnder, Txn, backend::crash::CrashDisk, store::Catalog};

/// The time every test starts at.
pub(crate) const NOW: u64 = 1_800_000_000_000;

pub(crate) struct World {
    pub(crate) founder: SiteKey,
    pub(crate) member: SiteKey,
    pub(crate) reader: SiteKey,
    pub(crate) stranger: SiteKey,
    pub(crate) genesis: Signed<MeshGenesis>,
    pub(crate) mesh: MeshId,
    pub(crate) domain: DomainId,
    pub(crate) kek_id: KekId,
    pub(crate) table_id: TableId,
    pub(crate) storage_id: StorageId,
}

pub(crate) fn catalog() -> Catalog {
    Catalog::on_disk(&CrashDisk::default()).unwrap()
}

impl World {
    pub(crate) fn new() -> Self {
        let founder = SiteKey::from_seed(&[1; 32]);
        let body = MeshGenesis {
            founder: founder.site_id(),
            nonce: [5; 32],
            created: Hlc::new(NOW - 9_000, 0),
        };
        let genesis = Signed::sign(body, &founder, &MeshGenesis::CONTEXT_MESH);
        Self {
            mesh: mesh_id_of(&genesis),
            founder,
            member: SiteKey::from_seed(&[2; 32]),
            reader: SiteKey::from_seed(&[3; 32]),
            stranger: SiteKey::from_seed(&[4; 32]),
            genesis,
            domain: DomainId::from_bytes([0xd0; 32]),
            kek_id: KekId::from_bytes([0xe0; 16]),
            table_id: TableId::from_bytes([0xf0; 16]),
            storage_id: StorageId::from_bytes([0xa0; 32]),
        }
    }

    pub(crate) fn sign<B: Body>(&self, body: B, key: &SiteKey) -> Signed<B> {
        Signed::sign(body, key, &self.mesh)
    }

    pub(crate) fn kek(&self) -> Kek {
        Kek::from_bytes([0xe1; 32])
    }

    pub(crate) fn dek(&self) -> Dek {
        Dek::from_bytes([0xde; 32])
    }

    pub(crate) fn ring(&self) -> KekRing {
        let mut ring = KekRing::default();
        ring.insert(1, self.kek_id, self.kek());
        ring
    }

    pub(crate) fn sealed(&self) -> Option<SealedUnder> {
        Some(SealedUnder {
            domain: self.domain,
            generation: 1,
            kek_id: self.kek_id,
        })
    }

    pub(crate) fn domain_genesis(&self) -> Signed<DomainGenesis> {
        let body = DomainGenesis {
            mesh_id: self.mesh,
            domain_id: self.domain,
            name: "planted-domain-word".into(),
            group_id: [6; 32],
            founder: self.founder.site_id(),
            seq: 1,
            created: Hlc::new(NOW - 8_000, 0),
        };
        self.sign(body, &self.founder)
    }

    pub(crate) fn op(
        &self,
        domain: Option<DomainId>,
        kind: OpKind,
        site: SiteId,
        role: Role,
        (seq, cut_seq): (u64, u64),
        ops_seen: &[RecordId],
    ) -> Signed<MembershipOp> {
        let mut ops_seen = ops_seen.to_vec();
        ops_seen.sort_unstable();
        let body = MembershipOp {
            mesh_id: self.mesh,
            domain,
            kind,
            site,
            role,
            binding: None,
            history_from: 1,
            cut_seq,
            issuer: self.founder.site_id(),
            seq,
            hlc: Hlc::new(NOW - 7_000, 0),
            ops_seen,
        };
        self.sign(body, &self.founder)
    }

    /// The founder adds the member to the domain as a writer.
    pub(crate) fn add_member(&self) -> Signed<MembershipOp> {
        self.op(
            Some(self.domain),
            OpKind::Add,
            self.member.site_id(),
            Role::Writer,
            (2, 0),
            &[],
        )
    }

    pub(crate) fn kek_record(&self) -> KekRecord {
        let mut audience = vec![self.founder.site_id(), self.member.site_id()];
        audience.sort_unstable();
        KekRecord {
            mesh_id: self.mesh,
            domain_id: self.domain,
            kek_id: self.kek_id,
            generation: 1,
            minter: self.founder.site_id(),
            audience,
            commitment: self.kek().commitment(),
            seq: 3,
            ops_seen: vec![self.add_member().id()],
            hlc: Hlc::new(NOW - 6_000, 0),
        }
    }

    pub(crate) fn table(&self) -> TableGenesis {
        let column = |field_id, name: &str, ty: &str| ColumnDef {
            field_id,
            name: name.into(),
            ty: ty.into(),
            nullable: true,
            parent: None,
        };
        TableGenesis {
            mesh_id: self.mesh,
            table_id: self.table_id,
            domain_id: self.domain,
            schema_name: "main".into(),
            table_name: "planted_table_word".into(),
            class: TableClass::Append,
            columns: vec![
                column(1, "planted_column_word", "text"),
                column(2, "temp", "int64"),
                column(3, "at", "timestamp_us"),
            ],
            identity: vec![],
            partition: vec![1],
            time: Some(3),
            pruning: vec![2],
            filter_salt: [8; 16],
            seq: 4,
            ops_seen: vec![],
            creator: self.founder.site_id(),
            hlc: Hlc::new(NOW - 5_000, 0),
        }
    }

    pub(crate) fn manifest(&self) -> ObjectManifest {
        ObjectManifest {
            mesh_id: self.mesh,
            kind: ObjectKind::Data,
            storage_id: self.storage_id,
            table_schema: Some("main".into()),
            table_name: Some("planted_table_word".into()),
            schema_fingerprint: Some(self.table().schema_fingerprint()),
            producer: self.member.site_id(),
            producer_mls_epoch: 77,
            created_hlc: Hlc::new(NOW - 4_000, 0),
            row_count: 10,
            exact_byte_size: 5_000,
            partition_values: Some(PartitionValues(
                [("planted_column_word".to_owned(), Some("planted-value-word".to_owned()))].into(),
            )),
            pruning_statistics: Some(vec![ColumnStats {
                field_id: 2,
                min: Some(sovm_object::key::Value::Int(-5).to_bytes()),
                max: Some(sovm_object::key::Value::Int(30).to_bytes()),
                null_count: 1,
                min_exact: true,
                max_exact: true,
                has_nan: false,
            }]),
            key_ref: KeyRef::from_bytes([1; 16]),
            supersedes: vec![],
            row_id_filter: None,
            time_range: Some(TimeRange {
                min: 1_000,
                max: 2_000,
                has_null_time: false,
            }),
            dek_commitment: self.dek().commitment(),
            seq: 1,
            ops_seen: vec![self.add_member().id()],
            delete_id_filter: None,
            delete_key_bounds: None,
            sources: None,
            tombstone_refs: None,
            profile: Profile::Pme1,
            row_set_digest: Some([9; 32]),
            table_id: Some(self.table_id),
            adopts: None,
        }
    }

    pub(crate) fn signed_manifest(&self) -> Signed<ObjectManifest> {
        self.sign(self.manifest(), &self.member)
    }

    pub(crate) fn grant(&self) -> Grant {
        Grant {
            mesh_id: self.mesh,
            domain_id: self.domain,
            storage_id: self.storage_id,
            object_manifest_hash: self.signed_manifest().manifest_hash(),
            kek_generation: 1,
            kek_id: self.kek_id,
            issuer: self.member.site_id(),
            seq: 2,
            ops_seen: vec![self.add_member().id()],
            issued_hlc: Hlc::new(NOW - 3_000, 0),
        }
    }

    pub(crate) fn access(&self) -> AccessRecord {
        AccessRecord::wrap(self.grant(), &self.dek(), &self.kek())
    }

    /// Founding, membership and table, without the object.
    pub(crate) fn found(&self, txn: &mut Txn) {
        self.admit(txn, self.genesis.clone());
        self.admit(txn, self.domain_genesis());
        self.admit(txn, self.add_member());
        self.admit(txn, self.sign(self.kek_record(), &self.founder));
        self.admit(txn, self.sign(self.table(), &self.founder));
        txn.settle().unwrap();
    }

    /// Admits as if sealed under the domain's KEK, where the kind is sealed.
    pub(crate) fn admit(&self, txn: &mut Txn, entry: impl Into<VerifiedEntry>) -> crate::Admission {
        let entry = entry.into();
        let sealed = self.sealed().filter(|_| entry.kind().is_sealed());
        txn.admit(entry, sealed, NOW).unwrap()
    }
}
