//! What a manifest claims, who is believed for it, and what nobody is believed for (SOP §12.2, §12.3, §12.6).

use sovm_object::id::KeyRef;

use super::*;

fn grant_for(world: &World, manifest: &Signed<ObjectManifest>, seq: u64) -> Signed<AccessRecord> {
    let grant = Grant {
        storage_id: manifest.body().storage_id,
        object_manifest_hash: manifest.manifest_hash(),
        seq,
        ..world.grant()
    };
    world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.member)
}

/// The objects of the world's table, as text that holds everything about them.
fn objects(catalog: &Catalog, world: &World) -> String {
    let objects = catalog.read().unwrap().objects(&world.table_id, &world.ring()).unwrap();
    format!("{objects:?}")
}

/// SOP-132: whatever epoch the producer names, the entry is accepted, and the epoch is there to be looked at.
#[test]
fn the_producers_epoch_decides_nothing() {
    for epoch in [0, 78, u64::MAX] {
        let (world, catalog) = founded();
        let manifest = ObjectManifest {
            producer_mls_epoch: epoch,
            ..world.manifest()
        };
        let manifest = world.sign(manifest, &world.member);
        commit(&catalog, |txn| {
            world.admit(txn, manifest.clone());
            world.admit(txn, grant_for(&world, &manifest, 2));
        });
        assert_eq!(state(&catalog, manifest.id()), Some(EntryState::Accepted));
        let shown = catalog.read().unwrap().objects(&world.table_id, &world.ring()).unwrap();
        assert_eq!(shown[0].manifests[0].1.producer_mls_epoch, epoch);
    }
}

/// SOP-141: what is stored are the bytes that came, and their hash is the one access records bind.
#[test]
fn received_bytes_are_kept() {
    let (world, catalog) = founded();
    let received = world.signed_manifest().bytes().to_vec();
    let id = receive(&world, &catalog, &received, &mut 0).unwrap();
    let stored = catalog.read().unwrap().entry(&id).unwrap().unwrap().bytes;
    assert_eq!(stored[..], received[..]);
    assert_eq!(blake3::hash(&stored).as_bytes(), id.as_bytes());
    assert_eq!(id, world.signed_manifest().manifest_hash().into());
}

/// SOP-96, SOP-190, SOP-192: whoever holds or serves the bytes, the producer is the signer of the manifest. A claim to hold them
/// changes nothing until verified bytes are here.
#[test]
fn holders_are_no_producers() {
    let (world, catalog) = founded();
    commit(&catalog, |txn| {
        world.admit(txn, world.signed_manifest());
        world.admit(txn, world.sign(world.access(), &world.member));
    });
    let view = || {
        let mut objects = catalog.read().unwrap().objects(&world.table_id, &world.ring()).unwrap();
        objects.remove(0)
    };
    let claim = HolderRow {
        asked_ms: 0,
        failures: 0,
        reason: None,
        next_try_ms: NOW,
        claims: true,
    };
    for (n, holder) in [&world.founder, &world.stranger].into_iter().enumerate() {
        commit(&catalog, |txn| {
            txn.put_holder(&world.storage_id, &holder.site_id(), &claim).unwrap()
        });
        let ObjectState::PendingBytes { asked, .. } = view().state else {
            panic!("a claim made bytes available")
        };
        assert_eq!(asked.len(), n + 1);
    }
    commit(&catalog, |txn| {
        txn.byte_event(&world.storage_id, ByteEvent::Arrived, Some(8_192), NOW)
            .unwrap();
    });
    let view = view();
    assert_eq!(view.state, ObjectState::Queryable);
    assert_eq!(view.manifests[0].1.producer, world.member.site_id());
}

/// SOP-155: bytes that have another id are another object's; the entry goes on waiting for its own.
#[test]
fn other_bytes_do_not_attach() {
    let (world, catalog) = founded();
    let other = StorageId::from_bytes([0x0b; 32]);
    commit(&catalog, |txn| {
        world.admit(txn, world.signed_manifest());
        world.admit(txn, world.sign(world.access(), &world.member));
        txn.byte_event(&other, ByteEvent::Arrived, Some(8_192), NOW).unwrap();
    });
    let snapshot = catalog.read().unwrap();
    let view = snapshot.objects(&world.table_id, &world.ring()).unwrap().remove(0);
    assert_eq!(view.state.as_str(), "pending_bytes");
    let wanted: Vec<_> = snapshot
        .pending_bytes()
        .unwrap()
        .into_iter()
        .map(|object| object.storage_id)
        .collect();
    assert_eq!(wanted, [world.storage_id]);
}

/// SOP-45: two objects under one reference are two objects, each found by its id, each with its own key. Nothing is looked up by
/// the reference.
#[test]
fn one_reference_for_two_objects() {
    let (world, catalog) = founded();
    let shared = KeyRef::from_bytes([1; 16]);
    let other_dek = Dek::from_bytes([0x5d; 32]);
    let other = world.sign(
        ObjectManifest {
            storage_id: StorageId::from_bytes([0x0b; 32]),
            dek_commitment: other_dek.commitment(),
            seq: 30,
            ..world.manifest()
        },
        &world.member,
    );
    assert_eq!((other.body().key_ref, world.manifest().key_ref), (shared, shared));
    let grant = Grant {
        storage_id: other.body().storage_id,
        object_manifest_hash: other.manifest_hash(),
        seq: 31,
        ..world.grant()
    };
    let grant = world.sign(AccessRecord::wrap(grant, &other_dek, &world.kek()), &world.member);
    commit(&catalog, |txn| {
        world.admit(txn, world.signed_manifest());
        world.admit(txn, world.sign(world.access(), &world.member));
        world.admit(txn, other.clone());
        world.admit(txn, grant);
    });
    let snapshot = catalog.read().unwrap();
    assert_eq!(snapshot.objects(&world.table_id, &world.ring()).unwrap().len(), 2);
    for (id, dek) in [(world.storage_id, world.dek()), (other.body().storage_id, other_dek)] {
        assert_eq!(snapshot.dek(&id, &world.ring()).unwrap().commitment(), dek.commitment());
    }
}

/// SOP-162: one object claimed for a second table, under another key, and as another kind: each claim is judged by itself, and the
/// first table stays what it was, its key included.
#[test]
fn a_second_claim_leaves_the_first_alone() {
    let (world, catalog) = founded();
    commit(&catalog, |txn| {
        world.admit(txn, world.signed_manifest());
        world.admit(txn, world.sign(world.access(), &world.member));
    });
    let before = objects(&catalog, &world);
    let second_table = TableGenesis {
        table_id: TableId::from_bytes([0x0f; 16]),
        table_name: "second".into(),
        seq: 44,
        ..world.table()
    };
    let other_dek = Dek::from_bytes([0x5d; 32]);
    let as_delete = ObjectManifest {
        kind: ObjectKind::Delete,
        delete_id_filter: Some(vec![1]),
        row_set_digest: None,
        seq: 60,
        ..world.manifest()
    };
    let as_delete = world.sign(as_delete, &world.member);
    commit(&catalog, |txn| {
        world.admit(txn, world.sign(second_table.clone(), &world.founder));
        world.admit(txn, as_delete.clone());
    });
    // Several forged grants, so that some of them would be tried before the honest one.
    for n in 0..8 {
        let claim = world.sign(
            ObjectManifest {
                table_id: Some(second_table.table_id),
                table_name: Some("second".into()),
                schema_fingerprint: Some(second_table.schema_fingerprint()),
                dek_commitment: other_dek.commitment(),
                seq: 50 + 2 * n,
                ..world.manifest()
            },
            &world.member,
        );
        let grant = Grant {
            object_manifest_hash: claim.manifest_hash(),
            seq: 51 + 2 * n,
            ..world.grant()
        };
        let grant = world.sign(AccessRecord::wrap(grant, &other_dek, &world.kek()), &world.member);
        commit(&catalog, |txn| {
            world.admit(txn, claim.clone());
            world.admit(txn, grant);
        });
        assert_eq!(state(&catalog, claim.id()), Some(EntryState::Accepted));
    }
    assert_eq!(
        state(&catalog, as_delete.id()),
        Some(refused(RefusalReason::ClassOfTable))
    );
    assert_eq!(objects(&catalog, &world), before);
    let snapshot = catalog.read().unwrap();
    let key = |table| {
        snapshot
            .dek_in_table(&table, &world.storage_id, &world.ring())
            .unwrap()
            .commitment()
    };
    assert_eq!(key(world.table_id), world.dek().commitment());
    assert_eq!(key(second_table.table_id), other_dek.commitment());
}

/// SOP-165: no refusal shows a name, a value or a key of what it refuses.
#[test]
fn refusals_show_no_values() {
    let (world, catalog) = founded();
    let m = || world.manifest();
    let mut unknown_column = m().pruning_statistics.unwrap();
    unknown_column[0].field_id = 99;
    unknown_column[0].min = Some(b"planted-minimum-word".to_vec());
    let unfit = [
        ObjectManifest {
            table_name: Some("planted-other-table".into()),
            ..m()
        },
        ObjectManifest {
            table_schema: Some("planted-other-schema".into()),
            ..m()
        },
        ObjectManifest {
            pruning_statistics: Some(unknown_column),
            ..m()
        },
        ObjectManifest {
            producer: world.stranger.site_id(),
            ..m()
        },
        ObjectManifest {
            supersedes: vec![StorageId::from_bytes([3; 32])],
            ..m()
        },
        ObjectManifest { row_count: 0, ..m() },
        ObjectManifest {
            table_name: Some("planted-".repeat(20)),
            ..m()
        },
        ObjectManifest {
            profile: Profile::Blob1,
            ..m()
        },
    ];
    let mut texts = Vec::new();
    for (n, body) in unfit.into_iter().enumerate() {
        let key = if body.producer == world.stranger.site_id() {
            &world.stranger
        } else {
            &world.member
        };
        let signed = world.sign(
            ObjectManifest {
                seq: 70 + n as u64,
                ..body
            },
            key,
        );
        let mut flipped = signed.bytes().to_vec();
        *flipped.last_mut().unwrap() ^= 1;
        texts.push(receive(&world, &catalog, &flipped, &mut 0).unwrap_err());
        texts.push(match receive(&world, &catalog, signed.bytes(), &mut 0) {
            Ok(id) => match state(&catalog, id).unwrap() {
                state @ EntryState::Refused(_) => state.to_string(),
                other => panic!("case {n}: {other:?}"),
            },
            Err(reason) => reason,
        });
    }
    // A record whose wrap opens to another key, and one that says so.
    let forged = AccessRecord::wrap(world.grant(), &Dek::from_bytes([0x5d; 32]), &world.kek());
    commit(&catalog, |txn| {
        world.admit(txn, world.signed_manifest());
        let state = world.admit(txn, world.sign(forged.clone(), &world.member)).state;
        texts.push(state.to_string());
    });
    texts.push(forged.unwrap(&Kek::from_bytes([1; 32])).unwrap_err().to_string());
    assert_eq!(texts.len(), 18);
    let secrets = [
        hex(world.dek().expose_for_sealing()),
        hex(&[0x5d; 32]),
        hex(&[0xe1; 32]),
    ];
    for text in texts {
        assert!(!text.is_empty());
        assert!(!text.contains("planted"), "{text}");
        assert!(secrets.iter().all(|secret| !text.contains(&secret[..10])), "{text}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
