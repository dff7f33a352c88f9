//! Samples of every signed format from fixed keys, and figures that others computed. Files under `vectors/`.

use std::collections::{BTreeMap, BTreeSet};

use sovm_mesh::proto::invite::{History, InviteSecret, Ticket};
use sovm_object::{
    cbor::{Encoder, from_slice},
    entry::{EntryIn, EntryKind, VerifiedEntry, mesh_id_of},
    hlc::Hlc,
    id::{
        BranchId, DekCommitment, DomainId, InviteId, KekId, KeyRef, KitId, ManifestHash, MeshId, RecordId, SiteId,
        StorageId, TableId,
    },
    kek::KekRing,
    padme::padme,
    record::{
        AccessRecord, ColumnChange, ColumnDef, ColumnStats, CommitRecord, DomainGenesis, HeadClaim, InventoryVersion,
        KekRecord, KitRecord, ManifestOutline, MembershipOp, MeshGenesis, MeshName, NodeBinding, ObjectKind,
        ObjectManifest, OpKind, PrefetchList, Profile, Registration, RejoinOffer, Role, RootAnnouncement, TableClass,
        TableGenesis, TableOp, TimeRange, manifest::PartitionValues,
    },
    secret::{Dek, Kek, SiteKey},
    sign::{Body, Signed},
    types::ColumnType,
};

pub(crate) const DOMAIN: DomainId = DomainId::from_bytes([4; 32]);
pub(crate) const HLC: Hlc = Hlc::new(1_700_000_000_000, 3);
pub(crate) const KEK_ID: KekId = KekId::from_bytes([8; 16]);

pub(crate) fn site_key() -> SiteKey {
    SiteKey::from_seed(&[1; 32])
}

pub(crate) const fn kek() -> Kek {
    Kek::from_bytes([9; 32])
}

/// A ring that holds the one KEK.
pub(crate) fn ring() -> KekRing {
    let mut ring = KekRing::default();
    ring.insert(2, KEK_ID, kek());
    ring
}

pub(crate) fn genesis() -> Signed<MeshGenesis> {
    let key = site_key();
    Signed::sign(
        MeshGenesis {
            founder: key.site_id(),
            nonce: [3; 32],
            created: HLC,
        },
        &key,
        &MeshGenesis::CONTEXT_MESH,
    )
}

pub(crate) fn mesh() -> MeshId {
    mesh_id_of(&genesis())
}

pub(crate) fn signed<B: Body>(body: B) -> Signed<B> {
    Signed::sign(body, &site_key(), &mesh())
}

fn membership() -> Vec<(&'static str, VerifiedEntry)> {
    let (mesh_id, me) = (mesh(), site_key().site_id());
    let (branch, seen) = (BranchId::from_bytes([6; 32]), vec![RecordId::from_bytes([5; 32])]);
    let op = MembershipOp {
        mesh_id,
        domain: Some(DOMAIN),
        kind: OpKind::Add,
        site: SiteId::from_bytes([2; 32]),
        role: Role::Reader,
        binding: Some(RecordId::from_bytes([7; 32])),
        history_from: 1,
        cut_seq: 0,
        issuer: me,
        seq: 4,
        hlc: HLC,
        ops_seen: seen.clone(),
    };
    let domain = DomainGenesis {
        mesh_id,
        domain_id: DOMAIN,
        name: "main".into(),
        group_id: [4; 32],
        founder: me,
        seq: 2,
        created: HLC,
    };
    let commit = CommitRecord {
        mesh_id,
        domain_id: DOMAIN,
        parent: branch,
        branch: BranchId::from_bytes([7; 32]),
        epoch: 3,
        committer: me,
        ops: seen.clone(),
        readds: vec![],
        kek_id: Some(KEK_ID),
        commit: vec![1; 40],
        welcome: Some(vec![2; 40]),
        hlc: HLC,
    };
    let offer = RejoinOffer {
        mesh_id,
        domain_id: DOMAIN,
        site: me,
        key_package: vec![3; 60],
        head: Some(branch),
        expires: HLC,
        hlc: HLC,
    };
    let name = MeshName {
        mesh_id,
        name: "club".into(),
        issuer: me,
        seq: 1,
        ops_seen: seen,
        hlc: HLC,
    };
    let binding = NodeBinding {
        mesh_id,
        site: me,
        mls_key: [1; 32],
        display_name: "laptop".into(),
        hlc: HLC,
        cose_key: None,
    };
    vec![
        ("mesh genesis", genesis().into()),
        ("mesh name", signed(name).into()),
        ("node binding", signed(binding).into()),
        ("membership op", signed(op).into()),
        ("domain genesis", signed(domain).into()),
        ("commit record", signed(commit).into()),
        (
            "head claim",
            signed(HeadClaim {
                mesh_id,
                domain_id: DOMAIN,
                site: me,
                counter: 1,
                epoch: 3,
                branch,
                hlc: HLC,
            })
            .into(),
        ),
        ("rejoin offer", signed(offer).into()),
    ]
}

fn keys() -> Vec<(&'static str, VerifiedEntry)> {
    let (mesh_id, me) = (mesh(), site_key().site_id());
    let seen = vec![RecordId::from_bytes([5; 32])];
    let record = KekRecord {
        mesh_id,
        domain_id: DOMAIN,
        kek_id: KEK_ID,
        generation: 2,
        minter: me,
        audience: vec![me],
        commitment: kek().commitment(),
        seq: 3,
        ops_seen: seen.clone(),
        hlc: HLC,
    };
    let kit = KitRecord {
        mesh_id,
        domain_id: DOMAIN,
        kit_id: KitId::from_bytes([1; 16]),
        age_recipient: [2; 32],
        recovery_site: SiteId::from_bytes([3; 32]),
        retired: false,
        issuer: me,
        seq: 6,
        ops_seen: seen.clone(),
        hlc: HLC,
    };
    let root = RootAnnouncement {
        mesh_id,
        domain_id: DOMAIN,
        root_id: StorageId::from_bytes([1; 32]),
        recovery_generation: 3,
        ring_blob: StorageId::from_bytes([2; 32]),
        checkpoint: StorageId::from_bytes([3; 32]),
        issuer: me,
        seq: 7,
        ops_seen: seen.clone(),
        hlc: HLC,
    };
    let access = AccessRecord {
        mesh_id,
        domain_id: DOMAIN,
        storage_id: StorageId::from_bytes([1; 32]),
        object_manifest_hash: ManifestHash::from_bytes([2; 32]),
        kek_generation: 2,
        kek_id: KEK_ID,
        wrap_alg: 1,
        wrap_nonce: [3; 12],
        wrapped_dek: [4; 48],
        dek_commitment: Dek::from_bytes([0x42; 32]).commitment(),
        issuer: me,
        seq: 5,
        ops_seen: seen,
        issued_hlc: HLC,
    };
    vec![
        ("KEK record", signed(record).into()),
        ("kit record", signed(kit).into()),
        ("root announcement", signed(root).into()),
        ("access record", signed(access).into()),
    ]
}

fn tables() -> Vec<(&'static str, VerifiedEntry)> {
    let (mesh_id, me) = (mesh(), site_key().site_id());
    let seen = vec![RecordId::from_bytes([5; 32])];
    let column = |field_id, name: &str, ty: &str, parent| ColumnDef {
        field_id,
        name: name.into(),
        ty: ty.into(),
        nullable: true,
        parent,
    };
    let table = TableGenesis {
        mesh_id,
        table_id: TableId::from_bytes([1; 16]),
        domain_id: DOMAIN,
        schema_name: "main".into(),
        table_name: "weather".into(),
        class: TableClass::Append,
        columns: vec![
            column(1, "origin", "text", None),
            column(2, "at", "timestamp_us", None),
            column(3, "gusts", "list", None),
            column(4, "element", "float64", Some(3)),
        ],
        identity: vec![],
        partition: vec![1],
        time: Some(2),
        pruning: vec![1, 2],
        filter_salt: [2; 16],
        seq: 8,
        ops_seen: seen.clone(),
        creator: me,
        hlc: HLC,
    };
    let statistics = ColumnStats {
        field_id: 1,
        min: Some(b"EWR".to_vec()),
        max: Some(b"LGA".to_vec()),
        null_count: 0,
        min_exact: true,
        max_exact: true,
        has_nan: false,
    };
    let manifest = ObjectManifest {
        mesh_id,
        kind: ObjectKind::Data,
        storage_id: StorageId::from_bytes([1; 32]),
        table_schema: Some("main".into()),
        table_name: Some("weather".into()),
        schema_fingerprint: Some(table.schema_fingerprint()),
        producer: me,
        producer_mls_epoch: 3,
        created_hlc: HLC,
        row_count: 26_115,
        exact_byte_size: 330_000,
        partition_values: Some(PartitionValues(BTreeMap::from([("origin".into(), Some("EWR".into()))]))),
        pruning_statistics: Some(vec![statistics]),
        key_ref: KeyRef::from_bytes([1; 16]),
        supersedes: vec![],
        row_id_filter: None,
        time_range: Some(TimeRange {
            min: -5,
            max: 1_700_000_000_000_000,
            has_null_time: false,
        }),
        dek_commitment: DekCommitment::from_bytes([6; 32]),
        seq: 9,
        ops_seen: seen,
        delete_id_filter: None,
        delete_key_bounds: None,
        sources: None,
        tombstone_refs: None,
        profile: Profile::Pme1,
        row_set_digest: Some([7; 32]),
        table_id: Some(TableId::from_bytes([1; 16])),
        adopts: None,
    };
    let later = {
        let mut e = Encoder::new();
        e.map(7).uint(1).uint(2).uint(2).field(&mesh()).uint(3).uint(1);
        e.uint(4).field(&manifest.storage_id).uint(8).field(&manifest.producer);
        e.uint(10).field(&manifest.created_hlc).uint(99).text("later");
        from_slice::<ManifestOutline>(&e.into_vec()).unwrap()
    };
    let op = |change, seq| TableOp {
        mesh_id,
        table_id: TableId::from_bytes([1; 16]),
        domain_id: DOMAIN,
        change,
        parents: vec![RecordId::from_bytes([1; 32]), RecordId::from_bytes([2; 32])],
        issuer: me,
        seq,
        ops_seen: vec![RecordId::from_bytes([5; 32])],
        hlc: HLC,
    };
    let added = ColumnChange::Add {
        name: "gust".into(),
        ty: ColumnType::Float64,
    };
    let widened = ColumnChange::Widen {
        field_id: 4,
        ty: ColumnType::Float64,
    };
    let renamed = ColumnChange::Rename {
        field_id: 4,
        name: "squall".into(),
    };
    vec![
        ("added column", signed(op(added, 10)).into()),
        (
            "dropped column",
            signed(op(ColumnChange::Drop { field_id: 4 }, 11)).into(),
        ),
        ("renamed column", signed(op(renamed, 12)).into()),
        ("widened column", signed(op(widened, 13)).into()),
        ("joined versions", signed(op(ColumnChange::Join, 14)).into()),
        ("table genesis", signed(table).into()),
        ("object manifest", signed(manifest).into()),
        ("manifest of a later build", signed(later).into()),
    ]
}

fn inventory() -> Vec<(&'static str, VerifiedEntry)> {
    let (mesh_id, me) = (mesh(), site_key().site_id());
    let seen = vec![RecordId::from_bytes([5; 32])];
    let version = |version, previous, seq| InventoryVersion {
        mesh_id,
        domain_id: DOMAIN,
        catalog_id: [1; 16],
        restore_epoch: 0,
        version,
        root_sha256: [version as u8; 32],
        previous,
        bundle: StorageId::from_bytes([2; 32]),
        authority: me,
        seq,
        ops_seen: seen.clone(),
        hlc: HLC,
    };
    let list = PrefetchList {
        mesh_id,
        domain_id: DOMAIN,
        objects: vec![StorageId::from_bytes([3; 32]), StorageId::from_bytes([4; 32])],
        issuer: me,
        seq: 17,
        ops_seen: seen.clone(),
        hlc: HLC,
    };
    let registration = Registration {
        mesh_id,
        domain_id: DOMAIN,
        catalog_id: [1; 16],
        product: "weather".into(),
        edition_id: [1, 1, 1, 1, 1, 1, 0x71, 1, 0x81, 1, 1, 1, 1, 1, 1, 1],
        bundle: StorageId::from_bytes([2; 32]),
        registration_sha256: [3; 32],
        publisher: me,
        seq: 19,
        ops_seen: seen.clone(),
        hlc: HLC,
    };
    let edition_file = ObjectManifest {
        mesh_id,
        kind: ObjectKind::EditionFile,
        storage_id: StorageId::from_bytes([3; 32]),
        table_schema: None,
        table_name: None,
        schema_fingerprint: None,
        producer: me,
        producer_mls_epoch: 3,
        created_hlc: HLC,
        row_count: 19_961,
        exact_byte_size: 440_000,
        partition_values: None,
        pruning_statistics: None,
        key_ref: KeyRef::from_bytes([1; 16]),
        supersedes: vec![],
        row_id_filter: None,
        time_range: None,
        dek_commitment: DekCommitment::from_bytes([6; 32]),
        seq: 18,
        ops_seen: vec![RecordId::from_bytes([5; 32]), RecordId::from_bytes([6; 32])],
        delete_id_filter: None,
        delete_key_bounds: None,
        sources: None,
        tombstone_refs: None,
        profile: Profile::Pme1,
        row_set_digest: None,
        table_id: None,
        adopts: None,
    };
    vec![
        ("first Inventory version", signed(version(1, None, 15)).into()),
        ("next Inventory version", signed(version(2, Some([1; 32]), 16)).into()),
        ("prefetch list", signed(list).into()),
        ("registration", signed(registration).into()),
        ("manifest of an edition file", signed(edition_file).into()),
    ]
}

/// One valid entry of every kind.
pub(crate) fn entries() -> Vec<(&'static str, VerifiedEntry)> {
    membership()
        .into_iter()
        .chain(keys())
        .chain(tables())
        .chain(inventory())
        .collect()
}

pub(crate) fn ticket() -> Ticket {
    Ticket {
        mesh_id: mesh(),
        inviter: site_key().site_id(),
        addresses: vec!["127.0.0.1:4000".into(), "[::1]:4000".into()],
        relay: Some("https://relay.example".into()),
        invite_id: InviteId::from_bytes([1; 16]),
        secret: InviteSecret::from_bytes([2; 32]),
        role: Role::Reader,
        domains: vec![DOMAIN],
        history: History::All,
        expires_ms: 1_700_000_000_000,
    }
}

/// SOP-123, SOP-130: every kind decodes and verifies, keeps its id, and signing is repeatable.
#[test]
fn entries_of_every_kind_verify() {
    let mesh = mesh();
    let mut kinds = BTreeSet::new();
    for ((name, entry), (_, again)) in entries().into_iter().zip(entries()) {
        assert_eq!(entry.bytes(), again.bytes(), "{name}");
        let decoded = EntryIn::decode(entry.bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let verified = decoded.verify(&mesh).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((verified.id(), verified.kind()), (entry.id(), entry.kind()), "{name}");
        kinds.insert(entry.kind());
    }
    let all: BTreeSet<EntryKind> = (0..=u8::MAX).filter_map(EntryKind::from_u8).collect();
    assert_eq!(kinds, all, "a kind of entry has no sample");
}

/// SOP-15, SOP-130: a change of columns and the id of the column it adds, as a few lines of Python made them from `docs/formats.md`,
/// and what must be refused in its place.
#[test]
fn table_op_agrees_with_the_page() {
    let (name, entry) = tables().remove(0);
    let VerifiedEntry::TableOp(op) = &entry else {
        panic!("{name} is no op")
    };
    let vector: serde_json::Value = serde_json::from_str(include_str!("../vectors/table_op.json")).unwrap();
    let bytes = |value: &serde_json::Value| -> Vec<u8> {
        let text = value.as_str().unwrap();
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        (0..text.len()).step_by(2).map(byte).collect()
    };
    assert_eq!(bytes(&vector["mesh_id"]), mesh().as_bytes());
    assert_eq!(bytes(&vector["signed"]), op.bytes());
    assert_eq!(bytes(&vector["record_id"]), op.id().as_bytes());
    assert_eq!(vector["added_field_id"], op.body().added_field_id().unwrap());
    let decoded = from_slice::<TableOp>(&bytes(&vector["payload"]));
    assert_eq!(&decoded.unwrap(), op.body());
    let refused = vector["refused"].as_array().unwrap();
    assert!(refused.len() > 30);
    for case in refused {
        assert!(
            from_slice::<TableOp>(&bytes(&case["payload"])).is_err(),
            "{}",
            case["why"]
        );
    }
}

/// SOP-56: Padmé lengths that a few lines of Python gave, written from the paper and not from our code.
#[test]
fn padme_agrees_with_the_paper() {
    let text = include_str!("../vectors/padme.json");
    let pairs: Vec<(u64, u64)> = serde_json::from_str(text).unwrap();
    assert!(pairs.len() > 100);
    for (len, target) in pairs {
        assert_eq!(padme(len), Some(target), "{len}");
    }
}
