use sovm_object::{
    id::StorageId,
    kek::KekRing,
    record::{AccessRecord, ObjectKind, ObjectManifest, access::Grant},
};

use crate::{
    ByteEvent, EntryState, ObjectState, PendingAccess, Read as _, RefusalReason,
    testing::{NOW, World, catalog},
};

/// The manifest of a plain file by the member.
fn file_manifest(world: &World) -> ObjectManifest {
    ObjectManifest {
        kind: ObjectKind::File,
        profile: ObjectKind::File.profile(),
        storage_id: StorageId::from_bytes([0xf1; 32]),
        table_schema: None,
        table_name: None,
        schema_fingerprint: None,
        row_count: 0,
        partition_values: None,
        pruning_statistics: None,
        time_range: None,
        row_set_digest: None,
        table_id: None,
        seq: 5,
        ..world.manifest()
    }
}

/// A file has no table: it takes the domain of its grant, is listed there, and goes through the states of any object.
#[test]
fn files_are_listed_by_domain() {
    let (world, catalog) = (World::new(), catalog());
    let manifest = world.sign(file_manifest(&world), &world.member);
    let object = manifest.body().storage_id;
    let grant = Grant {
        storage_id: object,
        object_manifest_hash: manifest.manifest_hash(),
        seq: 6,
        ..world.grant()
    };
    let access = world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.member);
    let files = |ring: &KekRing| catalog.read().unwrap().files(&world.domain, ring).unwrap();

    let mut txn = catalog.begin().unwrap();
    world.found(&mut txn);
    world.admit(&mut txn, world.signed_manifest());
    world.admit(&mut txn, world.sign(world.access(), &world.member));
    assert_eq!(world.admit(&mut txn, manifest.clone()).state, EntryState::NoAccess);
    let _ = txn.commit().unwrap();
    assert!(
        files(&world.ring())
            .iter()
            .all(|file| file.state == ObjectState::PendingAccess(PendingAccess::NoGrant))
    );

    let mut txn = catalog.begin().unwrap();
    world.admit(&mut txn, access);
    let _ = txn.commit().unwrap();
    assert_eq!(
        catalog.read().unwrap().entry_state(&manifest.id()).unwrap(),
        Some(EntryState::Accepted)
    );
    let listed = files(&world.ring());
    assert_eq!(
        (listed.len(), listed[0].storage_id, listed[0].kind),
        (1, object, ObjectKind::File)
    );
    assert!(matches!(listed[0].state, ObjectState::PendingBytes { .. }));
    assert!(matches!(
        files(&KekRing::default())[0].state,
        ObjectState::PendingAccess(PendingAccess::NoKek { .. })
    ));
    let pending = catalog.read().unwrap().pending_bytes().unwrap();
    assert!(
        pending
            .iter()
            .any(|pending| pending.storage_id == object && pending.accepted)
    );

    let mut txn = catalog.begin().unwrap();
    txn.byte_event(&object, ByteEvent::Arrived, Some(44), NOW).unwrap();
    let _ = txn.commit().unwrap();
    assert_eq!(files(&world.ring())[0].state, ObjectState::Queryable);
    let tables = catalog.read().unwrap().objects(&world.table_id, &world.ring()).unwrap();
    assert!(
        tables.iter().all(|object| object.kind == ObjectKind::Data),
        "a file is in no table"
    );
}

/// SOP-169: whoever may not publish rows may not publish files either.
#[test]
fn a_reader_cannot_publish_a_file() {
    let (world, catalog) = (World::new(), catalog());
    let mut body = file_manifest(&world);
    body.producer = world.stranger.site_id();
    let manifest = world.sign(body, &world.stranger);
    let grant = Grant {
        storage_id: manifest.body().storage_id,
        object_manifest_hash: manifest.manifest_hash(),
        seq: 6,
        ..world.grant()
    };
    let mut txn = catalog.begin().unwrap();
    world.found(&mut txn);
    world.admit(&mut txn, manifest.clone());
    world.admit(
        &mut txn,
        world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.member),
    );
    let _ = txn.commit().unwrap();
    let state = catalog.read().unwrap().entry_state(&manifest.id()).unwrap();
    assert_ne!(state, Some(EntryState::Accepted));
    if let Some(EntryState::Refused(reason)) = state {
        assert_eq!(reason, RefusalReason::Authority);
    }
}

/// What this node calls a file stays here, and is forgotten with its mesh.
#[test]
fn labels_are_local() {
    let catalog = catalog();
    let (one, two) = (StorageId::from_bytes([1; 32]), StorageId::from_bytes([2; 32]));
    let mut txn = catalog.begin().unwrap();
    txn.put_label(&one, "a.txt").unwrap();
    txn.put_label(&two, "b.txt").unwrap();
    txn.put_label(&one, "c.txt").unwrap();
    let _ = txn.commit().unwrap();
    let labels = catalog.read().unwrap().labels().unwrap();
    assert_eq!(labels, [(one, "c.txt".to_owned()), (two, "b.txt".to_owned())]);
    let mut txn = catalog.begin().unwrap();
    txn.forget_mesh().unwrap();
    let _ = txn.commit().unwrap();
    assert!(catalog.read().unwrap().labels().unwrap().is_empty());
}
