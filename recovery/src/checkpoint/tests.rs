use sovm_object::{
    hlc::Hlc,
    id::{DekCommitment, KeyRef, SchemaFingerprint, SiteId, TableId},
    record::{ObjectKind, ObjectManifest, Profile, UnwrapError, access::Grant, manifest::PartitionValues},
    secret::SiteKey,
};

use super::*;
use crate::plan::tests::World;

/// A minimal manifest of a data object.
pub(crate) fn data_manifest(mesh: &MeshId, storage_id: StorageId, table: TableId, producer: SiteId) -> ObjectManifest {
    ObjectManifest {
        mesh_id: *mesh,
        kind: ObjectKind::Data,
        storage_id,
        table_schema: Some("main".into()),
        table_name: Some("weather".into()),
        schema_fingerprint: Some(SchemaFingerprint::from_bytes([1; 32])),
        producer,
        producer_mls_epoch: 0,
        created_hlc: Hlc::new(7, 0),
        row_count: 1,
        exact_byte_size: 9,
        partition_values: Some(PartitionValues::default()),
        pruning_statistics: Some(vec![]),
        key_ref: KeyRef::from_bytes([2; 16]),
        supersedes: vec![],
        row_id_filter: None,
        time_range: None,
        dek_commitment: DekCommitment::from_bytes([3; 32]),
        seq: 1,
        ops_seen: vec![],
        delete_id_filter: None,
        delete_key_bounds: None,
        sources: None,
        tombstone_refs: None,
        profile: Profile::Pme1,
        row_set_digest: Some([4; 32]),
        table_id: Some(table),
        adopts: None,
    }
}

fn record(n: u32, len: usize) -> CheckpointRecord {
    let id = RecordId::from_bytes(*blake3::hash(&n.to_le_bytes()).as_bytes());
    CheckpointRecord::sealed(id, KekId::from_bytes([1; 16]), vec![n as u8; len])
}

fn ids() -> (MeshId, DomainId) {
    (MeshId::from_bytes([1; 32]), DomainId::from_bytes([2; 32]))
}

fn part(n: u8, level: u64) -> PartRef {
    PartRef {
        storage_id: StorageId::from_bytes([n; 32]),
        manifest_hash: ManifestHash::from_bytes([n; 32]),
        access: vec![n],
        record_count: 10,
        level,
    }
}

/// SOP-201: order and duplicates of the input make no difference.
#[test]
fn division_is_a_function_of_the_set() {
    let (mesh, domain) = ids();
    let records: Vec<_> = (0..200).map(|n| record(n, 10)).collect();
    let mut shuffled: Vec<_> = records.iter().rev().cloned().collect();
    shuffled.extend(records[..50].iter().cloned());
    let bodies = CheckpointBody::divide(mesh, domain, records);
    assert_eq!(bodies, CheckpointBody::divide(mesh, domain, shuffled));
    assert_eq!(bodies.len(), 1);
    assert_eq!(
        CheckpointBody::divide(mesh, domain, vec![]).len(),
        1,
        "an empty domain has a checkpoint too"
    );
}

/// SOP-228: parts stay within 50,000 records and 64 MiB, and the digest does not see the cuts.
#[test]
fn division_keeps_the_limits() {
    let (mesh, domain) = ids();
    let records: Vec<_> = (0..MAX_RECORDS as u32 + 5).map(|n| record(n, 1)).collect();
    let all = domain_digest(records.iter().map(CheckpointRecord::id));
    let bodies = CheckpointBody::divide(mesh, domain, records);
    assert_eq!(
        bodies.iter().map(|b| b.records().len()).collect::<Vec<_>>(),
        [MAX_RECORDS, 5]
    );
    let cut = domain_digest(
        bodies
            .iter()
            .rev()
            .flat_map(|b| b.records().iter().map(CheckpointRecord::id)),
    );
    assert_eq!(all, cut);

    let big: Vec<_> = (0..5).map(|n| record(n, 20 * 1024 * 1024)).collect();
    let bodies = CheckpointBody::divide(mesh, domain, big);
    assert_eq!(bodies.iter().map(|b| b.records().len()).collect::<Vec<_>>(), [3, 2]);
    assert!(bodies.iter().all(|body| cbor::to_vec(body).len() <= MAX_RECORD_BYTES));
}

#[test]
fn bodies_survive_and_every_other_form_is_refused() {
    let (mesh, domain) = ids();
    let body = CheckpointBody::divide(mesh, domain, (0..3).map(|n| record(n, 4)).collect())
        .remove(0)
        .with_parts(vec![part(9, 0), part(4, 1), part(9, 0)]);
    assert_eq!((body.parts().len(), body.record_count()), (2, 23));
    let bytes = cbor::to_vec(&body);
    assert_eq!(cbor::from_slice::<CheckpointBody>(&bytes).unwrap(), body);
    for cut in 0..bytes.len() {
        assert!(
            cbor::from_slice::<CheckpointBody>(&bytes[..cut]).is_err(),
            "cut at {cut}"
        );
    }
    let mut unsorted = body.clone();
    unsorted.records.swap(0, 1);
    assert!(cbor::from_slice::<CheckpointBody>(&cbor::to_vec(&unsorted)).is_err());
    let mut doubled = body.clone();
    doubled.records.push(body.records[2].clone());
    assert!(cbor::from_slice::<CheckpointBody>(&cbor::to_vec(&doubled)).is_err());
    let mut parts = body.clone();
    parts.parts.swap(0, 1);
    assert!(cbor::from_slice::<CheckpointBody>(&cbor::to_vec(&parts)).is_err());
    // The count stands in clear before the records: one digit off is a lie.
    let at = bytes.windows(3).position(|w| w == [4, 23, 5]).unwrap();
    let mut lie = bytes.clone();
    lie[at + 1] = 22;
    assert_eq!(
        cbor::from_slice::<CheckpointBody>(&lie),
        Err(DecodeError::OutOfRange(4))
    );
    let newer = [&[0xa6, 1, 2][..], &bytes[3..]].concat();
    assert_eq!(
        cbor::from_slice::<CheckpointBody>(&newer),
        Err(DecodeError::NewerVersion(2))
    );
}

#[test]
fn parts_of_one_level_are_merged_when_there_are_eight() {
    let level = |n: u8, level| (0..n).map(move |i| part(i + 100 * level as u8, level));
    assert_eq!(merge_due(&level(7, 0).chain(level(7, 1)).collect::<Vec<_>>()), None);
    let (merged, ids) = merge_due(&level(3, 0).chain(level(8, 1)).collect::<Vec<_>>()).unwrap();
    assert_eq!((merged, ids.len()), (1, 8));
    assert_eq!(merge_due(&[]), None);
}

/// SOP-204, SOP-205: the object opens with the embedded grant alone, and its length is a Padmé length.
#[test]
fn an_object_opens_with_its_grant_alone() {
    let mut world = World::new();
    world.announce();
    let body = CheckpointBody::divide(world.mesh, world.domain, world.records()).remove(0);
    let issuer = SiteKey::from_seed(&[1; 32]);
    let object = world.object(&body, &issuer);
    let ring = world.ring_body(object.storage_id, &issuer).ring;
    assert_eq!(open(&object.bytes, &object.access, &ring).unwrap(), body);
    assert_eq!(
        sovm_object::padme::padme(object.bytes.len() as u64),
        Some(object.bytes.len() as u64)
    );
    assert_eq!(object.manifest.body().kind, ObjectKind::Checkpoint);
    assert_eq!(
        object.access.body().object_manifest_hash,
        object.manifest.manifest_hash()
    );
    let part = object.as_part(0);
    assert_eq!(
        part_access(&part, &world.mesh, &world.domain).unwrap().id(),
        object.access.id()
    );
}

/// SOP-214, SOP-223: every way an object does not fit its grant has its own error.
#[test]
fn objects_that_do_not_open_say_why() {
    let mut world = World::new();
    let body = CheckpointBody::divide(world.mesh, world.domain, world.records()).remove(0);
    let issuer = SiteKey::from_seed(&[1; 32]);
    let object = world.object(&body, &issuer);
    let ring = world.ring_body(object.storage_id, &issuer).ring;
    let resign = |change: fn(&mut AccessRecord)| {
        let mut access = object.access.body().clone();
        change(&mut access);
        Signed::sign(access, &issuer, &world.mesh)
    };

    let mut damaged = object.bytes.clone();
    damaged[0] ^= 1;
    assert!(matches!(
        open(&damaged, &object.access, &ring),
        Err(CheckpointError::WrongHash(_))
    ));
    assert!(matches!(
        open(&[], &object.access, &ring),
        Err(CheckpointError::WrongHash(_))
    ));
    assert!(matches!(
        open(&object.bytes, &object.access, &KekRing::default()),
        Err(CheckpointError::MissingKek(1))
    ));
    let renumbered = resign(|access| access.kek_generation = 7);
    assert!(matches!(
        open(&object.bytes, &renumbered, &ring),
        Err(CheckpointError::WrongGeneration { says: 7, held: 1 })
    ));
    let rebound = resign(|access| access.object_manifest_hash = ManifestHash::from_bytes([0; 32]));
    assert!(matches!(
        open(&object.bytes, &rebound, &ring),
        Err(CheckpointError::Unwrap(UnwrapError::WrongKek))
    ));
    let lying = resign(|access| access.dek_commitment = DekCommitment::from_bytes([0; 32]));
    assert!(matches!(
        open(&object.bytes, &lying, &ring),
        Err(CheckpointError::Unwrap(UnwrapError::WrongCommitment))
    ));
    // A grant that is right in itself, for a key that is another object's.
    let other = world.object(&body, &issuer);
    let dek = other.access.body().unwrap(ring.newest().unwrap().2).unwrap();
    let grant = Grant {
        mesh_id: world.mesh,
        domain_id: world.domain,
        storage_id: object.storage_id,
        object_manifest_hash: object.manifest.manifest_hash(),
        kek_generation: 1,
        kek_id: world.newest().id,
        issuer: issuer.site_id(),
        seq: 1,
        ops_seen: vec![],
        issued_hlc: Hlc::default(),
    };
    let crossed = Signed::sign(
        AccessRecord::wrap(grant, &dek, &world.newest().kek()),
        &issuer,
        &world.mesh,
    );
    assert!(matches!(
        open(&object.bytes, &crossed, &ring),
        Err(CheckpointError::Blob(_))
    ));
}

#[test]
fn a_parts_grant_must_be_for_it() {
    let mut world = World::new();
    let body = CheckpointBody::divide(world.mesh, world.domain, world.records()).remove(0);
    let issuer = SiteKey::from_seed(&[1; 32]);
    let good = world.object(&body, &issuer).as_part(0);
    let (mesh, domain) = (world.mesh, world.domain);
    let bad = [
        PartRef {
            storage_id: StorageId::from_bytes([0; 32]),
            ..good.clone()
        },
        PartRef {
            manifest_hash: ManifestHash::from_bytes([0; 32]),
            ..good.clone()
        },
        PartRef {
            access: vec![1, 2, 3],
            ..good.clone()
        },
    ];
    for part in bad {
        assert!(matches!(
            part_access(&part, &mesh, &domain),
            Err(CheckpointError::PartAccess { .. })
        ));
    }
    assert!(part_access(&good, &MeshId::from_bytes([9; 32]), &domain).is_err());
    assert!(part_access(&good, &mesh, &DomainId::from_bytes([9; 32])).is_err());
    assert!(part_access(&good, &mesh, &domain).is_ok());
}
