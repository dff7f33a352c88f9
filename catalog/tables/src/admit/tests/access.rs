//! Who can read: a manifest and an access record together, and the KEK behind the record (SOP §12.3).

use sovm_object::{cbor, kek::KekRing};

use super::*;

/// Why an object's key is not to be had.
fn pending(catalog: &Catalog, world: &World, ring: &KekRing) -> Option<PendingAccess> {
    match catalog.read().unwrap().dek(&world.storage_id, ring) {
        Ok(dek) => {
            assert_eq!(dek.commitment(), world.dek().commitment());
            None
        }
        Err(crate::DekError::Pending(pending)) => Some(pending),
        Err(crate::DekError::Store(error)) => panic!("{error}"),
    }
}

fn object_state(catalog: &Catalog, world: &World, ring: &KekRing) -> Option<ObjectState> {
    let objects = catalog.read().unwrap().objects(&world.table_id, ring).unwrap();
    objects.into_iter().next().map(|object| object.state)
}

/// SOP-40, SOP-144, SOP-149, SOP-152: neither a manifest nor an access record counts or opens anything alone, though the KEK is
/// held. A manifest that waits is kept and passed on, and is no data. Both orders end in the same state.
#[test]
fn neither_half_is_enough() {
    let mut ends = Vec::new();
    for manifest_first in [true, false] {
        let (world, catalog) = founded();
        let manifest = world.signed_manifest();
        let access = world.sign(world.access(), &world.member);
        let halves: [VerifiedEntry; 2] = [manifest.clone().into(), access.clone().into()];
        let (first, second) = if manifest_first { (0, 1) } else { (1, 0) };
        commit(&catalog, |txn| drop(world.admit(txn, halves[first].clone())));
        let element = element_id(&halves[first].id(), Some(&world.kek_id));
        assert!(catalog.read().unwrap().has_element(&element).unwrap(), "not passed on");
        if manifest_first {
            assert_eq!(state(&catalog, manifest.id()), Some(EntryState::NoAccess));
            assert_eq!(pending(&catalog, &world, &world.ring()), Some(PendingAccess::NoGrant));
            assert_eq!(
                object_state(&catalog, &world, &world.ring()),
                Some(ObjectState::PendingAccess(PendingAccess::NoGrant))
            );
        } else {
            assert_eq!(state(&catalog, access.id()), Some(EntryState::NoManifest));
            assert_eq!(
                pending(&catalog, &world, &world.ring()),
                Some(PendingAccess::NoManifest)
            );
            assert_eq!(object_state(&catalog, &world, &world.ring()), None);
        }
        commit(&catalog, |txn| drop(world.admit(txn, halves[second].clone())));
        for half in &halves {
            assert_eq!(state(&catalog, half.id()), Some(EntryState::Accepted));
        }
        assert_eq!(pending(&catalog, &world, &world.ring()), None);
        ends.push(object_state(&catalog, &world, &world.ring()).map(|state| state.as_str()));
    }
    assert_eq!(ends, [Some("pending_bytes"); 2]);
}

/// SOP-48, SOP-145, SOP-146: another member grants the object to the holders of another KEK. The object then has two access
/// records; its manifest stays byte for byte what it was, and so does its id.
#[test]
fn another_member_grants_the_object() {
    let (world, catalog) = founded();
    let manifest = world.signed_manifest();
    let add_reader = world.op(
        Some(world.domain),
        OpKind::Add,
        world.reader.site_id(),
        Role::Reader,
        (5, 0),
        &[world.add_member().id()],
    );
    let (kek_id, kek) = (KekId::from_bytes([0xee; 16]), Kek::from_bytes([0xef; 32]));
    let mut audience = vec![world.founder.site_id(), world.member.site_id(), world.reader.site_id()];
    audience.sort_unstable();
    let record = KekRecord {
        kek_id,
        generation: 2,
        audience,
        commitment: kek.commitment(),
        seq: 22,
        ops_seen: vec![add_reader.id()],
        ..world.kek_record()
    };
    commit(&catalog, |txn| {
        world.admit(txn, manifest.clone());
        world.admit(txn, world.sign(world.access(), &world.member));
        world.admit(txn, add_reader.clone());
        world.admit(txn, world.sign(record, &world.founder));
    });
    let mut newcomer = KekRing::default();
    newcomer.insert(2, kek_id, kek);
    assert!(matches!(
        pending(&catalog, &world, &newcomer),
        Some(PendingAccess::NoKek { .. })
    ));

    let grant = Grant {
        kek_generation: 2,
        kek_id,
        issuer: world.founder.site_id(),
        seq: 23,
        ops_seen: vec![add_reader.id()],
        ..world.grant()
    };
    let kek = newcomer.get(&kek_id).unwrap();
    let second = world.sign(AccessRecord::wrap(grant, &world.dek(), kek), &world.founder);
    commit(&catalog, |txn| drop(world.admit(txn, second.clone())));
    assert_eq!(state(&catalog, second.id()), Some(EntryState::Accepted));
    assert_eq!(pending(&catalog, &world, &newcomer), None);
    assert_eq!(
        pending(&catalog, &world, &world.ring()),
        None,
        "the first record still opens"
    );

    let snapshot = catalog.read().unwrap();
    let issuers: Vec<_> = snapshot
        .access_records(&world.storage_id)
        .unwrap()
        .iter()
        .map(|record| record.issuer)
        .collect();
    assert_eq!(issuers, [world.founder.site_id(), world.member.site_id()]);
    let view = snapshot.objects(&world.table_id, &newcomer).unwrap().remove(0);
    assert_eq!(view.storage_id, world.storage_id);
    assert_eq!(view.manifests.len(), 1);
    assert_eq!(
        snapshot.entry(&manifest.id()).unwrap().unwrap().bytes[..],
        manifest.bytes()[..]
    );
}

/// SOP-168: without its KEK an object is locked here and says which one it wants. With the KEK it reads, and no record came.
#[test]
fn an_object_waits_for_its_kek() {
    let (world, catalog) = founded();
    commit(&catalog, |txn| {
        world.admit(txn, world.signed_manifest());
        world.admit(txn, world.sign(world.access(), &world.member));
    });
    let none = KekRing::default();
    let wanted = PendingAccess::NoKek {
        wanted: vec![(1, world.kek_id)],
    };
    assert_eq!(pending(&catalog, &world, &none), Some(wanted.clone()));
    assert_eq!(
        object_state(&catalog, &world, &none),
        Some(ObjectState::PendingAccess(wanted))
    );
    let before = catalog.read().unwrap().counts().unwrap();
    assert_eq!(pending(&catalog, &world, &world.ring()), None);
    assert_eq!(
        object_state(&catalog, &world, &world.ring()).map(|state| state.as_str()),
        Some("pending_bytes")
    );
    assert_eq!(catalog.read().unwrap().counts().unwrap(), before);
}

/// SOP-143: a manifest is believed for its signature and for nothing else. Whoever brings it over whatever connection, without one,
/// with an empty one, or with the signature of another member it is refused.
#[test]
fn nothing_stands_in_for_the_signature() {
    let (world, catalog) = founded();
    let manifest = world.signed_manifest();
    let bare = cbor::to_vec(&world.manifest());
    let signed_by = |signature: &[u8]| {
        let body = &manifest.bytes()[..manifest.bytes().len() - 64];
        [body, signature].concat()
    };
    let others = world.sign(
        ObjectManifest {
            producer: world.founder.site_id(),
            ..world.manifest()
        },
        &world.founder,
    );
    let foreign = &others.bytes()[others.bytes().len() - 64..];
    let mut verified = 0;
    assert!(receive(&world, &catalog, &bare, &mut verified).is_err());
    for signature in [&[0; 64][..], foreign] {
        let reason = receive(&world, &catalog, &signed_by(signature), &mut verified).unwrap_err();
        assert_eq!(reason, VerifyError::BadSignature.to_string());
    }
    assert!(
        catalog
            .read()
            .unwrap()
            .objects(&world.table_id, &world.ring())
            .unwrap()
            .is_empty()
    );
    assert!(receive(&world, &catalog, manifest.bytes(), &mut verified).is_ok());
}
