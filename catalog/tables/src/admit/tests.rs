mod access;
mod claims;
mod edition;
mod newer;

use std::collections::BTreeMap;

use proptest::prelude::*;
use sovm_object::{
    cbor::DecodeError,
    entry::{EntryIn, VerifiedEntry},
    hlc::MAX_AHEAD_MS,
    id::{KekId, ManifestHash, SchemaFingerprint, SiteId, StorageId, TableId},
    record::{
        AccessRecord, InventoryVersion, KekRecord, ObjectKind, ObjectManifest, OpKind, PrefetchList, Profile,
        Registration, Role, TableGenesis, access::Grant,
    },
    secret::{Dek, Kek, SiteKey},
    sign::{Signed, VerifyError},
};

use super::*;
use crate::{
    ByteEvent, Catalog, Held, HeldReason, HolderRow, ObjectState, PendingAccess, Read as _, StoredEntry,
    state::{QuarantineReason, RefusalReason},
    store::tables::STATE_COUNTS,
    testing::{NOW, World, catalog},
};

mod columns;

fn refused(reason: RefusalReason) -> EntryState {
    EntryState::Refused(reason)
}

/// A catalogue in which everything but the object is known.
fn founded() -> (World, Catalog) {
    let (world, catalog) = (World::new(), catalog());
    let mut txn = catalog.begin().unwrap();
    world.found(&mut txn);
    let _ = txn.commit().unwrap();
    (world, catalog)
}

fn commit(catalog: &Catalog, step: impl FnOnce(&mut Txn)) -> BTreeMap<RecordId, StateChange> {
    let mut txn = catalog.begin().unwrap();
    step(&mut txn);
    txn.commit().unwrap().changes
}

fn state(catalog: &Catalog, id: RecordId) -> Option<EntryState> {
    catalog.read().unwrap().entry_state(&id).unwrap()
}

/// What a node does with bytes from a peer. Counts how often it had to verify.
fn receive(world: &World, catalog: &Catalog, bytes: &[u8], verified: &mut usize) -> Result<RecordId, String> {
    let mut txn = catalog.begin().unwrap();
    if let Some(refusal) = txn.refusal(bytes).unwrap() {
        return Err(refusal.reason);
    }
    *verified += 1;
    let entry = EntryIn::decode(bytes).map_err(|error| error.to_string());
    let entry = entry.and_then(|entry| entry.verify(&world.mesh).map_err(|error| error.to_string()));
    let outcome = match entry {
        Ok(entry) => Ok(world.admit(&mut txn, entry).id),
        Err(reason) => {
            txn.remember_refusal(bytes, &reason, NOW).unwrap();
            Err(reason)
        }
    };
    let _ = txn.commit().unwrap();
    outcome
}

/// SOP-123, SOP-173: a changed byte is refused, and the same bad bytes cost one verification however often they come.
#[test]
fn bad_signature_is_refused_once_and_remembered() {
    let (world, catalog) = founded();
    let mut bytes = world.signed_manifest().bytes().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    let mut verified = 0;
    for _ in 0..1_000 {
        let reason = receive(&world, &catalog, &bytes, &mut verified).unwrap_err();
        assert_eq!(reason, VerifyError::BadSignature.to_string());
    }
    assert_eq!(verified, 1);
    assert_eq!(catalog.read().unwrap().counts().unwrap().no_access, 0);
    // The good bytes are not harmed by it.
    assert!(receive(&world, &catalog, world.signed_manifest().bytes(), &mut verified).is_ok());
}

/// SOP-134: an entry of another mesh is refused for good.
#[test]
fn wrong_mesh_is_refused() {
    let (world, catalog) = founded();
    let other = sovm_object::id::MeshId::from_bytes([9; 32]);
    let foreign = Signed::sign(
        ObjectManifest {
            mesh_id: other,
            ..world.manifest()
        },
        &world.member,
        &other,
    );
    let mut verified = 0;
    let reason = receive(&world, &catalog, foreign.bytes(), &mut verified).unwrap_err();
    assert_eq!(reason, VerifyError::WrongMesh.to_string());
    assert_eq!(state(&catalog, foreign.id()), None);
}

/// SOP-3, SOP-150: a kind that does not fit its profile, its table, or the signature is refused.
#[test]
fn wrong_kind_is_refused() {
    let (world, catalog) = founded();
    let unfit = world.sign(
        ObjectManifest {
            profile: Profile::Blob1,
            ..world.manifest()
        },
        &world.member,
    );
    assert!(matches!(
        EntryIn::decode(unfit.bytes()),
        Err(DecodeError::OutOfRange(26))
    ));

    let delete = ObjectManifest {
        kind: ObjectKind::Delete,
        delete_id_filter: Some(vec![1]),
        row_set_digest: None,
        ..world.manifest()
    };
    let delete = world.sign(delete, &world.member);
    commit(&catalog, |txn| drop(world.admit(txn, delete.clone())));
    assert_eq!(state(&catalog, delete.id()), Some(refused(RefusalReason::ClassOfTable)));

    // A grant that names something which is no manifest.
    let table = world.sign(world.table(), &world.founder);
    let grant = Grant {
        object_manifest_hash: ManifestHash::from_bytes(*table.id().as_bytes()),
        ..world.grant()
    };
    let access = world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.member);
    commit(&catalog, |txn| drop(world.admit(txn, access.clone())));
    assert_eq!(state(&catalog, access.id()), Some(refused(RefusalReason::NotAManifest)));
}

/// SOP-156, SOP-157: a grant for another object is refused in both orders; one for another manifest applies to that one only.
#[test]
fn wrong_object_is_refused_in_both_orders() {
    for manifest_first in [true, false] {
        let (world, catalog) = founded();
        let grant = Grant {
            storage_id: StorageId::from_bytes([0x11; 32]),
            ..world.grant()
        };
        let forged = world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.member);
        let manifest = world.signed_manifest();
        let entries: [VerifiedEntry; 2] = [manifest.clone().into(), forged.clone().into()];
        for index in if manifest_first { [0, 1] } else { [1, 0] } {
            commit(&catalog, |txn| drop(world.admit(txn, entries[index].clone())));
        }
        assert_eq!(state(&catalog, forged.id()), Some(refused(RefusalReason::StorageId)));
        assert_eq!(state(&catalog, manifest.id()), Some(EntryState::NoAccess));

        let other = world.sign(
            ObjectManifest {
                created_hlc: Hlc::new(NOW, 0),
                seq: 9,
                ..world.manifest()
            },
            &world.member,
        );
        let grant = Grant {
            object_manifest_hash: other.manifest_hash(),
            seq: 10,
            ..world.grant()
        };
        let access = world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.member);
        commit(&catalog, |txn| {
            world.admit(txn, other.clone());
            world.admit(txn, access.clone());
        });
        assert_eq!(state(&catalog, other.id()), Some(EntryState::Accepted));
        assert_eq!(state(&catalog, manifest.id()), Some(EntryState::NoAccess), "SOP-157");
    }
}

/// SOP-169, SOP-170: a stranger's grant is refused, one whose ops are missing waits, and both are judged again.
#[test]
fn unknown_issuer_is_refused_or_waits() {
    let (world, catalog) = founded();
    let by = |key: &SiteKey, ops_seen: Vec<RecordId>| {
        let grant = Grant {
            issuer: key.site_id(),
            ops_seen,
            ..world.grant()
        };
        world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), key)
    };
    let stranger = by(&world.stranger, vec![world.add_member().id()]);
    let add_reader = world.op(
        Some(world.domain),
        OpKind::Add,
        world.reader.site_id(),
        Role::Writer,
        (5, 0),
        &[world.add_member().id()],
    );
    let early = by(&world.reader, vec![add_reader.id()]);
    commit(&catalog, |txn| {
        world.admit(txn, world.signed_manifest());
        world.admit(txn, stranger.clone());
        world.admit(txn, early.clone());
    });
    assert_eq!(state(&catalog, stranger.id()), Some(refused(RefusalReason::Authority)));
    assert_eq!(state(&catalog, early.id()), Some(EntryState::WaitingAuthority));
    let changes = commit(&catalog, |txn| drop(world.admit(txn, add_reader.clone())));
    // The late grant of the KEK is the Add op itself: its minter had not seen it.
    assert_eq!(state(&catalog, early.id()), Some(EntryState::Accepted));
    assert_eq!(
        state(&catalog, world.signed_manifest().id()),
        Some(EntryState::Accepted)
    );
    assert_eq!(changes[&early.id()].before, Some(EntryState::WaitingAuthority));
    assert_eq!(state(&catalog, stranger.id()), Some(refused(RefusalReason::Authority)));
}

/// SOP-191: a reader holds keys and bytes, and may neither write nor grant.
#[test]
fn reader_neither_writes_nor_grants() {
    let (world, catalog) = founded();
    let add = world.op(
        Some(world.domain),
        OpKind::Add,
        world.reader.site_id(),
        Role::Reader,
        (5, 0),
        &[],
    );
    let manifest = ObjectManifest {
        producer: world.reader.site_id(),
        ops_seen: vec![add.id()],
        ..world.manifest()
    };
    let manifest = world.sign(manifest, &world.reader);
    commit(&catalog, |txn| {
        world.admit(txn, add.clone());
        world.admit(txn, manifest.clone());
    });
    assert_eq!(state(&catalog, manifest.id()), Some(refused(RefusalReason::Authority)));
}

/// SOP-158: the same bytes twice are one entry, without change and without error.
#[test]
fn duplicate_changes_nothing() {
    let (world, catalog) = founded();
    let manifest = world.signed_manifest();
    commit(&catalog, |txn| assert!(world.admit(txn, manifest.clone()).is_new));
    let before = catalog.read().unwrap();
    let changes = commit(&catalog, |txn| {
        let again = world.admit(txn, manifest.clone());
        assert!(!again.is_new && again.alarms.is_empty());
    });
    assert!(changes.is_empty());
    let after = catalog.read().unwrap();
    assert_eq!(before.counts().unwrap(), after.counts().unwrap());
    let scope = Scope::Domain(world.domain);
    assert_eq!(before.shards(scope).unwrap(), after.shards(scope).unwrap());
}

/// SOP-255, SOP-256: an entry without bytes is accepted, stays `pending_bytes`, and says who was asked.
#[test]
fn entry_without_bytes_is_pending() {
    let (world, catalog) = founded();
    let site = SiteId::from_bytes([4; 32]);
    let asked = HolderRow {
        asked_ms: NOW,
        failures: 2,
        reason: Some("stalled".into()),
        next_try_ms: NOW + 60_000,
        claims: true,
    };
    commit(&catalog, |txn| {
        world.admit(txn, world.signed_manifest());
        world.admit(txn, world.sign(world.access(), &world.member));
        txn.put_holder(&world.storage_id, &site, &asked).unwrap();
    });
    let view = |catalog: &Catalog| {
        catalog
            .read()
            .unwrap()
            .objects(&world.table_id, &world.ring())
            .unwrap()
            .remove(0)
    };
    let expected = ObjectState::PendingBytes {
        since_ms: NOW,
        asked: vec![(site, asked.clone())],
    };
    assert_eq!(view(&catalog).state, expected);
    let pending = catalog.read().unwrap().pending_bytes().unwrap();
    assert_eq!(
        (pending.len(), pending[0].exact_byte_size, pending[0].accepted),
        (1, Some(5_000), true)
    );
    commit(&catalog, |txn| {
        txn.byte_event(&world.storage_id, ByteEvent::Arrived, Some(8_192), NOW + 5)
            .unwrap();
    });
    assert_eq!(view(&catalog).state, ObjectState::Queryable);
    assert!(catalog.read().unwrap().pending_bytes().unwrap().is_empty());
    let counts = catalog.read().unwrap().counts().unwrap();
    assert_eq!((counts.objects_available, counts.objects_pending), (1, 0));
}

/// SOP-153: a grant may come before its manifest.
#[test]
fn access_record_before_manifest_waits() {
    let (world, catalog) = founded();
    let access = world.sign(world.access(), &world.member);
    commit(&catalog, |txn| {
        assert_eq!(world.admit(txn, access.clone()).state, EntryState::NoManifest)
    });
    assert!(
        catalog
            .read()
            .unwrap()
            .objects(&world.table_id, &world.ring())
            .unwrap()
            .is_empty()
    );
    commit(&catalog, |txn| drop(world.admit(txn, world.signed_manifest())));
    assert_eq!(state(&catalog, access.id()), Some(EntryState::Accepted));
    assert_eq!(
        state(&catalog, world.signed_manifest().id()),
        Some(EntryState::Accepted)
    );
}

/// SOP-153: grants without a manifest are bounded; the oldest go, and leave the reconciled set with all their rows.
#[test]
fn flood_of_grants_stays_within_its_bound() {
    let (world, catalog) = founded();
    let scope = Scope::Domain(world.domain);
    let before = catalog.read().unwrap().shards(scope).unwrap();
    let mut txn = catalog.begin().unwrap();
    for n in 0..80u8 {
        let grant = Grant {
            object_manifest_hash: ManifestHash::from_bytes([n; 32]),
            seq: 100 + u64::from(n),
            ..world.grant()
        };
        let access = world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.member);
        txn.admit(access, world.sealed(), NOW + u64::from(n)).unwrap();
    }
    let _ = txn.commit().unwrap();
    let snapshot = catalog.read().unwrap();
    assert_eq!(snapshot.counts().unwrap().no_manifest, 50);
    let elements = |shards: &BTreeMap<Shard, ShardDigest>| shards.values().map(|digest| digest.count).sum::<u64>();
    assert_eq!(elements(&snapshot.shards(scope).unwrap()), elements(&before) + 50);
    let oldest = snapshot.unaccepted(1).unwrap();
    assert_eq!(oldest[0].1.received_ms, NOW + 30);
    check_indexes(&catalog);
}

/// SOP-133: a stamp from the far future is set aside and named, moves nothing, and counts once its time has come.
#[test]
fn future_stamp_is_quarantined_until_its_time() {
    let (world, catalog) = founded();
    let future = NOW + MAX_AHEAD_MS + 1_000;
    let manifest = world.sign(
        ObjectManifest {
            created_hlc: Hlc::new(future, 0),
            ..world.manifest()
        },
        &world.member,
    );
    let grant = Grant {
        object_manifest_hash: manifest.manifest_hash(),
        ..world.grant()
    };
    let access = world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.member);
    commit(&catalog, |txn| {
        world.admit(txn, manifest.clone());
        world.admit(txn, access.clone());
    });
    let ahead = EntryState::Quarantined(QuarantineReason::ClockAhead);
    assert_eq!(state(&catalog, manifest.id()), Some(ahead));
    let view = catalog
        .read()
        .unwrap()
        .objects(&world.table_id, &world.ring())
        .unwrap()
        .remove(0);
    assert!(!view.state.blocks_queries(), "one bad clock blocks no query");
    // It is still part of the set, so that it is forwarded.
    let element = element_id(&manifest.id(), Some(&world.kek_id));
    assert!(catalog.read().unwrap().has_element(&element).unwrap());
    commit(&catalog, |txn| txn.release_due(NOW + 500).unwrap());
    assert_eq!(state(&catalog, manifest.id()), Some(ahead));
    commit(&catalog, |txn| txn.release_due(NOW + 2_000).unwrap());
    assert_eq!(state(&catalog, manifest.id()), Some(EntryState::Accepted));
    // A clock set back does not take it away again.
    commit(&catalog, |txn| {
        txn.release_due(0).unwrap();
        txn.work.scopes.insert(Scope::Domain(world.domain));
    });
    assert_eq!(state(&catalog, manifest.id()), Some(EntryState::Accepted));
}

/// SOP-169: the KEK must be of the record's domain and generation, and its issuer must hold it.
#[test]
fn grant_under_an_unfit_kek_is_refused() {
    let (world, catalog) = founded();
    let other_domain = DomainId::from_bytes([0x77; 32]);
    let foreign = KekRecord {
        domain_id: other_domain,
        kek_id: KekId::from_bytes([1; 16]),
        seq: 20,
        ..world.kek_record()
    };
    let closed = KekRecord {
        kek_id: KekId::from_bytes([2; 16]),
        audience: vec![world.founder.site_id()],
        generation: 2,
        seq: 21,
        ..world.kek_record()
    };
    let access = |kek_id: KekId, kek_generation, seq| {
        let grant = Grant {
            kek_id,
            kek_generation,
            seq,
            ..world.grant()
        };
        world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.member)
    };
    let cases = [
        (
            access(KekId::from_bytes([1; 16]), 1, 30),
            refused(RefusalReason::KekOfOtherDomain),
        ),
        (
            access(KekId::from_bytes([2; 16]), 2, 31),
            refused(RefusalReason::NotInAudience),
        ),
        (access(world.kek_id, 5, 32), refused(RefusalReason::KekGeneration)),
        (access(KekId::from_bytes([3; 16]), 3, 33), EntryState::WaitingAuthority),
    ];
    for keks_first in [true, false] {
        let catalog = if keks_first { catalog.clone() } else { founded().1 };
        let keks = |txn: &mut Txn| {
            world.admit(txn, world.sign(foreign.clone(), &world.founder));
            world.admit(txn, world.sign(closed.clone(), &world.founder));
        };
        commit(&catalog, |txn| {
            if keks_first {
                keks(txn);
            }
            world.admit(txn, world.signed_manifest());
            cases
                .iter()
                .for_each(|(access, _)| drop(world.admit(txn, access.clone())));
            if !keks_first {
                keks(txn);
            }
        });
        for (access, expected) in &cases {
            assert_eq!(
                state(&catalog, access.id()),
                Some(*expected),
                "KEK records first: {keks_first}"
            );
        }
    }
}

/// SOP-174, SOP-264: removal with a cut-off refuses what lies past it, and leaves the rest.
#[test]
fn cut_off_takes_later_entries_only() {
    let (world, catalog) = founded();
    let later = ObjectManifest {
        storage_id: StorageId::from_bytes([0x22; 32]),
        seq: 50,
        ..world.manifest()
    };
    let later = world.sign(later, &world.member);
    let grant = Grant {
        object_manifest_hash: later.manifest_hash(),
        storage_id: later.body().storage_id,
        seq: 51,
        ..world.grant()
    };
    let later_access = world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.member);
    commit(&catalog, |txn| {
        world.admit(txn, world.signed_manifest());
        world.admit(txn, world.sign(world.access(), &world.member));
        world.admit(txn, later.clone());
        world.admit(txn, later_access.clone());
    });
    assert_eq!(state(&catalog, later.id()), Some(EntryState::Accepted));
    let snapshot = catalog.read().unwrap();
    assert_eq!(
        snapshot
            .highest_seq(Scope::Domain(world.domain), &world.member.site_id())
            .unwrap(),
        51
    );
    let remove = world.op(
        Some(world.domain),
        OpKind::Remove,
        world.member.site_id(),
        Role::Writer,
        (60, 10),
        &[world.add_member().id()],
    );
    commit(&catalog, |txn| drop(world.admit(txn, remove.clone())));
    assert_eq!(
        state(&catalog, world.signed_manifest().id()),
        Some(EntryState::Accepted)
    );
    assert_eq!(state(&catalog, later.id()), Some(refused(RefusalReason::Authority)));
    assert_eq!(
        state(&catalog, later_access.id()),
        Some(refused(RefusalReason::Authority))
    );
    assert_eq!(
        catalog
            .read()
            .unwrap()
            .objects(&world.table_id, &world.ring())
            .unwrap()
            .len(),
        1
    );
    check_indexes(&catalog);
}

/// SOP-159, SOP-161: two manifests of one object make one object; the lowest (stamp, hash) is shown; one alarm, in both orders.
#[test]
fn two_manifests_make_one_object_and_one_alarm() {
    let first = |world: &World| world.signed_manifest();
    let second = |world: &World| {
        let body = ObjectManifest {
            created_hlc: Hlc::new(NOW - 4_500, 0),
            row_count: 11,
            seq: 7,
            ..world.manifest()
        };
        world.sign(body, &world.member)
    };
    for swap in [false, true] {
        let (world, catalog) = founded();
        let mut manifests = [first(&world), second(&world)];
        if swap {
            manifests.swap(0, 1);
        }
        for (n, manifest) in manifests.iter().enumerate() {
            let grant = Grant {
                object_manifest_hash: manifest.manifest_hash(),
                seq: 20 + n as u64,
                ..world.grant()
            };
            let access = world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.member);
            commit(&catalog, |txn| {
                assert_eq!(world.admit(txn, manifest.clone()).alarms.len(), n);
                world.admit(txn, access);
                world.admit(txn, manifest.clone());
            });
        }
        let snapshot = catalog.read().unwrap();
        let objects = snapshot.objects(&world.table_id, &world.ring()).unwrap();
        assert_eq!(
            (objects.len(), objects[0].manifests.len(), objects[0].row_count),
            (1, 2, 11)
        );
        assert_eq!(snapshot.alarms().unwrap().len(), 1);
    }
}

/// SOP part 2.1: one `seq` in two records is an alarm; both are judged as usual.
#[test]
fn reused_seq_is_an_alarm() {
    let (world, catalog) = founded();
    let other = ObjectManifest {
        storage_id: StorageId::from_bytes([0x33; 32]),
        ..world.manifest()
    };
    let other = world.sign(other, &world.member);
    commit(&catalog, |txn| {
        assert!(world.admit(txn, world.signed_manifest()).alarms.is_empty());
        let alarms = world.admit(txn, other.clone()).alarms;
        let (first, second) = (world.signed_manifest().id(), other.id());
        assert_eq!(
            alarms,
            [Alarm::SeqReused {
                site: world.member.site_id(),
                first,
                second
            }]
        );
    });
    assert_eq!(state(&catalog, other.id()), Some(EntryState::NoAccess));
}

/// SOP-166, SOP-167: a grant that commits to another DEK is refused; one that lies inside is passed over and its issuer named.
#[test]
fn lying_grants_do_not_reach_the_reader() {
    let (world, catalog) = founded();
    let other_dek = Dek::from_bytes([0x55; 32]);
    let forged = world.sign(
        AccessRecord::wrap(
            Grant {
                seq: 30,
                ..world.grant()
            },
            &other_dek,
            &world.kek(),
        ),
        &world.member,
    );
    let hollow = {
        // The right commitment over a wrap of another DEK.
        let wrap = AccessRecord::wrap(
            Grant {
                seq: 31,
                ..world.grant()
            },
            &other_dek,
            &world.kek(),
        );
        world.sign(
            AccessRecord {
                dek_commitment: world.dek().commitment(),
                ..wrap
            },
            &world.member,
        )
    };
    commit(&catalog, |txn| {
        world.admit(txn, world.signed_manifest());
        world.admit(txn, forged.clone());
        world.admit(txn, hollow.clone());
    });
    assert_eq!(
        state(&catalog, forged.id()),
        Some(refused(RefusalReason::DekCommitment))
    );
    let dek = |ring: &sovm_object::kek::KekRing| match catalog.read().unwrap().dek(&world.storage_id, ring) {
        Ok(dek) => Ok(dek.commitment()),
        Err(crate::DekError::Pending(pending)) => Err(pending),
        Err(crate::DekError::Store(error)) => panic!("{error}"),
    };
    assert_eq!(
        dek(&world.ring()),
        Err(PendingAccess::Broken {
            issuers: vec![world.member.site_id()]
        })
    );
    commit(&catalog, |txn| {
        drop(world.admit(txn, world.sign(world.access(), &world.member)))
    });
    assert_eq!(dek(&world.ring()), Ok(world.dek().commitment()));
    // SOP-168: without the KEK it is locked, and says which one it needs.
    let locked = dek(&sovm_object::kek::KekRing::default());
    assert!(matches!(locked, Err(PendingAccess::NoKek { wanted }) if wanted[0] == (1, world.kek_id)));
}

/// SOP-137, SOP-138, SOP-272: names must be the table's, an unknown version of its columns waits, unknown columns are refused; any
/// size is accepted.
#[test]
fn manifest_must_fit_its_table() {
    let (world, catalog) = founded();
    let m = || world.manifest();
    let mut stats = m().pruning_statistics.unwrap();
    stats[0].field_id = 99;
    let cases = [
        (
            ObjectManifest {
                table_name: Some("other".into()),
                seq: 11,
                ..m()
            },
            refused(RefusalReason::TableName),
        ),
        (
            ObjectManifest {
                table_schema: Some("other".into()),
                seq: 12,
                ..m()
            },
            refused(RefusalReason::TableName),
        ),
        (
            ObjectManifest {
                schema_fingerprint: Some(SchemaFingerprint::from_bytes([1; 32])),
                seq: 13,
                ..m()
            },
            EntryState::WaitingTable,
        ),
        (
            ObjectManifest {
                pruning_statistics: Some(stats),
                seq: 14,
                ..m()
            },
            refused(RefusalReason::Columns),
        ),
        (
            ObjectManifest {
                partition_values: Some(Default::default()),
                seq: 15,
                ..m()
            },
            refused(RefusalReason::Columns),
        ),
        (
            ObjectManifest {
                table_id: Some(TableId::from_bytes([1; 16])),
                seq: 16,
                ..m()
            },
            EntryState::WaitingTable,
        ),
        // SOP-132: the producer's epoch decides nothing.
        (
            ObjectManifest {
                producer_mls_epoch: u64::MAX,
                seq: 17,
                ..m()
            },
            EntryState::NoAccess,
        ),
        // SOP-272: the size that writers aim at is no rule of acceptance.
        (
            ObjectManifest {
                exact_byte_size: 1_024,
                seq: 19,
                ..m()
            },
            EntryState::NoAccess,
        ),
        (
            ObjectManifest {
                exact_byte_size: 4 << 30,
                seq: 20,
                ..m()
            },
            EntryState::NoAccess,
        ),
        // SOP-133: an old stamp decides nothing either.
        (
            ObjectManifest {
                created_hlc: Hlc::default(),
                seq: 18,
                ..m()
            },
            EntryState::NoAccess,
        ),
    ];
    for (manifest, expected) in cases {
        let manifest = world.sign(manifest, &world.member);
        commit(&catalog, |txn| drop(world.admit(txn, manifest.clone())));
        assert_eq!(
            state(&catalog, manifest.id()),
            Some(expected),
            "seq {}",
            manifest.body().seq
        );
    }
}

/// SOP-163: an adoption by another member counts only while the adopted manifest does not, and must repeat its meaning.
#[test]
fn adoption_counts_while_the_original_does_not() {
    let (world, catalog) = founded();
    let original = world.sign(
        ObjectManifest {
            seq: 50,
            ..world.manifest()
        },
        &world.member,
    );
    let adopt = |change: fn(ObjectManifest) -> ObjectManifest, seq| {
        let body = ObjectManifest {
            producer: world.founder.site_id(),
            seq,
            adopts: Some(original.manifest_hash()),
            ..world.manifest()
        };
        world.sign(change(body), &world.founder)
    };
    let adoption = adopt(|m| m, 70);
    let altered = adopt(|m| ObjectManifest { row_count: 999, ..m }, 71);
    let grant_for = |manifest: &Signed<ObjectManifest>, key: &SiteKey, seq| {
        let grant = Grant {
            object_manifest_hash: manifest.manifest_hash(),
            issuer: key.site_id(),
            seq,
            ..world.grant()
        };
        world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), key)
    };
    commit(&catalog, |txn| {
        world.admit(txn, adoption.clone());
        world.admit(txn, grant_for(&adoption, &world.founder, 80));
    });
    assert_eq!(state(&catalog, adoption.id()), Some(EntryState::NoManifest));
    commit(&catalog, |txn| {
        world.admit(txn, altered.clone());
        world.admit(txn, original.clone());
        world.admit(txn, grant_for(&original, &world.member, 9));
    });
    assert_eq!(state(&catalog, original.id()), Some(EntryState::Accepted));
    assert_eq!(
        state(&catalog, adoption.id()),
        Some(refused(RefusalReason::AdoptionNotNeeded))
    );
    assert_eq!(
        state(&catalog, altered.id()),
        Some(refused(RefusalReason::AdoptionDiffers))
    );
    let remove = world.op(
        Some(world.domain),
        OpKind::Remove,
        world.member.site_id(),
        Role::Writer,
        (90, 10),
        &[world.add_member().id()],
    );
    commit(&catalog, |txn| drop(world.admit(txn, remove)));
    assert_eq!(state(&catalog, original.id()), Some(refused(RefusalReason::Authority)));
    assert_eq!(state(&catalog, adoption.id()), Some(EntryState::Accepted));
    assert_eq!(
        catalog
            .read()
            .unwrap()
            .objects(&world.table_id, &world.ring())
            .unwrap()
            .len(),
        1
    );
}

/// A second founding record for a known domain is refused, so that nobody becomes its admin by forging one.
#[test]
fn rival_domain_genesis_is_refused() {
    let (world, catalog) = founded();
    let add = world.op(None, OpKind::Add, world.stranger.site_id(), Role::Admin, (40, 0), &[]);
    let rival = DomainGenesisOf {
        founder: world.stranger.site_id(),
    }
    .sign(&world);
    commit(&catalog, |txn| {
        world.admit(txn, add);
        world.admit(txn, rival.clone());
    });
    assert_eq!(state(&catalog, rival.id()), Some(refused(RefusalReason::RivalGenesis)));
    let roster = catalog
        .read()
        .unwrap()
        .roster(Scope::Domain(world.domain))
        .unwrap()
        .unwrap();
    assert_eq!(roster.role(&world.stranger.site_id()), None);
}

struct DomainGenesisOf {
    founder: SiteId,
}

impl DomainGenesisOf {
    fn sign(self, world: &World) -> Signed<sovm_object::record::DomainGenesis> {
        let body = sovm_object::record::DomainGenesis {
            founder: self.founder,
            ..world.domain_genesis().body().clone()
        };
        world.sign(body, &world.stranger)
    }
}

/// DESIGN §8: an entry widened to another KEK is two elements of the set and still one entry.
#[test]
fn a_second_seal_is_a_second_element() {
    let (world, catalog) = founded();
    let manifest = world.signed_manifest();
    let second = SealedUnder {
        kek_id: KekId::from_bytes([0xe9; 16]),
        generation: 2,
        domain: world.domain,
    };
    commit(&catalog, |txn| {
        world.admit(txn, manifest.clone());
        txn.admit(manifest.clone(), Some(second), NOW).unwrap();
    });
    let snapshot = catalog.read().unwrap();
    for kek_id in [world.kek_id, second.kek_id] {
        let element = snapshot
            .element(&element_id(&manifest.id(), Some(&kek_id)))
            .unwrap()
            .unwrap();
        assert_eq!(
            (element.record, element.kek_id, &element.bytes[..]),
            (manifest.id(), Some(kek_id), manifest.bytes())
        );
    }
    let scope = Scope::Domain(world.domain);
    let shards = snapshot.shards(scope).unwrap();
    let generations: Vec<_> = shards.keys().map(|shard| shard.generation).collect();
    assert!(generations.contains(&1) && generations.contains(&2) && generations.contains(&0));
    for (shard, digest) in shards {
        let mut again = ShardDigest::default();
        snapshot
            .elements(scope, shard)
            .unwrap()
            .iter()
            .for_each(|(_, element)| again.add(element));
        assert_eq!(again, digest);
    }
    let records = snapshot.checkpoint_records(&world.domain).unwrap();
    let sealed = records.iter().find(|record| record.id == manifest.id()).unwrap().sealed;
    assert_eq!(
        sealed,
        Some((1, world.kek_id)),
        "the lowest KEK goes into the checkpoint"
    );
}

/// `lessons.md`: what does not open is kept, found by its KEK when that comes, and gone once admitted.
#[test]
fn held_entries_wait_for_their_kek() {
    let (world, catalog) = founded();
    let manifest = world.signed_manifest();
    let sealed = sovm_object::entry::sealed::seal(
        manifest.bytes(),
        &world.kek(),
        &world.kek_id,
        &world.mesh,
        &world.domain,
    );
    let held = Held {
        element: element_id(&manifest.id(), Some(&world.kek_id)),
        domain: world.domain,
        kek_id: Some(world.kek_id),
        reason: HeldReason::NoKek,
        from: world.founder.site_id(),
        received_ms: NOW,
        bytes: sealed,
    };
    commit(&catalog, |txn| {
        assert!(txn.hold(&held).unwrap() && txn.hold(&held).unwrap())
    });
    let snapshot = catalog.read().unwrap();
    assert!(snapshot.has_element(&held.element).unwrap());
    assert_eq!(snapshot.counts().unwrap().held, 1);
    assert_eq!(
        snapshot.held_keks().unwrap().into_iter().collect::<Vec<_>>(),
        [world.kek_id]
    );
    let again = snapshot.held_for_kek(&world.kek_id).unwrap();
    assert_eq!(again, [held]);
    let opened = sovm_object::entry::sealed::open(&again[0].bytes, &world.ring(), &world.mesh, &world.domain);
    let (_, bytes) = opened.unwrap().unwrap();
    let entry = EntryIn::decode(&bytes).unwrap().verify(&world.mesh).unwrap();
    commit(&catalog, |txn| drop(world.admit(txn, entry)));
    assert_eq!(catalog.read().unwrap().counts().unwrap().held, 0);
}

/// Tables that share a name both bear the start of their id; a name that leads to two is refused and names both.
#[test]
fn shared_table_names_stay_apart() {
    let (world, catalog) = founded();
    let twin = TableGenesis {
        table_id: TableId::from_bytes([0x0f; 16]),
        seq: 44,
        ..world.table()
    };
    commit(&catalog, |txn| drop(world.admit(txn, world.sign(twin, &world.founder))));
    let snapshot = catalog.read().unwrap();
    let names: Vec<_> = snapshot
        .tables()
        .unwrap()
        .into_iter()
        .map(|table| table.display_name)
        .collect();
    assert_eq!(names, ["planted_table_word~0f0f0f", "planted_table_word~f0f0f0"]);
    assert!(matches!(
        snapshot.find_table(None, "planted_table_word"),
        Err(crate::TableLookupError::Ambiguous { candidates, .. }) if candidates == names
    ));
    assert_eq!(
        snapshot.find_table(None, &names[1]).unwrap().genesis.table_id,
        world.table_id
    );
    assert_eq!(
        snapshot
            .find_table(None, "PLANTED_TABLE_WORD~F0F0F0")
            .unwrap()
            .genesis
            .table_id,
        world.table_id
    );
    assert!(matches!(
        snapshot.find_table(None, "nothing"),
        Err(crate::TableLookupError::NotFound { .. })
    ));
    assert_eq!(snapshot.domains().unwrap()[0].genesis.name, "planted-domain-word");
}

/// Every index agrees with the entries, and every count with the rows.
pub(crate) fn check_indexes(catalog: &Catalog) {
    let snapshot = catalog.read().unwrap();
    let mut states: BTreeMap<u8, u64> = BTreeMap::new();
    let mut seen = 0;
    for (key, value) in snapshot.rows(&STATES, &[]).unwrap() {
        let id = RecordId::from_slice(&key).unwrap();
        let row = StateRow::decode(&value).unwrap();
        *states.entry(row.state.codes().0).or_default() += 1;
        assert!(snapshot.get(&BY_STATE, &row.index(&id)).unwrap().is_some());
        let entry: StoredEntry = snapshot.entry(&id).unwrap().unwrap();
        assert_eq!(sovm_object::sign::record_id(&entry.bytes), id);
        let row = body::row(&snapshot, &id).unwrap().unwrap();
        for (table, key) in Facets::of(&row).unwrap().index_keys(&id, &row) {
            assert!(snapshot.get(&table, &key).unwrap().is_some(), "index row is missing");
        }
        seen += 1;
    }
    assert_eq!(snapshot.count(&ENTRIES).unwrap(), seen);
    assert_eq!(snapshot.count(&BY_STATE).unwrap(), seen);
    for (code, count) in states {
        assert_eq!(
            snapshot.get(&STATE_COUNTS, &[code]).unwrap().unwrap(),
            count.to_be_bytes()
        );
    }
    let elements = snapshot.count(&SYNC).unwrap();
    assert_eq!(snapshot.count(&ELEMENTS).unwrap(), elements);
    assert_eq!(snapshot.count(&SEALS).unwrap(), elements);
    let digests: u64 = snapshot
        .scopes()
        .unwrap()
        .into_iter()
        .map(|scope| {
            snapshot
                .shards(scope)
                .unwrap()
                .values()
                .map(|digest| digest.count)
                .sum::<u64>()
        })
        .sum();
    assert_eq!(digests, elements);
}

/// Everything a state consists of, to be compared across orders.
fn summary(world: &World, catalog: &Catalog) -> impl PartialEq + std::fmt::Debug {
    let snapshot = catalog.read().unwrap();
    let states: BTreeMap<_, _> = snapshot
        .rows(&STATES, &[])
        .unwrap()
        .into_iter()
        .map(|(key, value)| (key, StateRow::decode(&value).unwrap().state))
        .collect();
    let objects = snapshot.objects(&world.table_id, &world.ring()).unwrap();
    let object_states: Vec<_> = objects
        .into_iter()
        .map(|object| (object.storage_id, object.state.as_str()))
        .collect();
    let scope = Scope::Domain(world.domain);
    let unlocked = snapshot
        .dek(&world.storage_id, &world.ring())
        .map(|dek| dek.commitment())
        .ok();
    let digest = snapshot.domain_digest(&world.domain).unwrap();
    (
        states,
        object_states,
        snapshot.shards(scope).unwrap(),
        digest,
        unlocked,
        snapshot.counts().unwrap(),
    )
}

/// One thing that can happen to a catalogue.
#[derive(Clone)]
enum Event {
    Entries(Vec<VerifiedEntry>),
    Bytes,
}

fn play(world: &World, catalog: &Catalog, events: &[Event], one_step_each: bool) {
    let mut txn = catalog.begin().unwrap();
    txn.forget_mesh().unwrap();
    for event in events {
        if one_step_each {
            let _ = txn.commit().unwrap();
            txn = catalog.begin().unwrap();
        }
        match event {
            Event::Entries(entries) => entries
                .iter()
                .for_each(|entry| drop(world.admit(&mut txn, entry.clone()))),
            Event::Bytes => {
                txn.byte_event(&world.storage_id, ByteEvent::Arrived, Some(8_192), NOW)
                    .unwrap();
            }
        }
    }
    let _ = txn.commit().unwrap();
}

/// SOP-154: all 720 orders of genesis, membership op, KEK record, manifest, access record and bytes end in one state.
#[test]
fn every_order_of_six_events_ends_in_the_same_state() {
    let (world, catalog) = (World::new(), catalog());
    let events = [
        Event::Entries(vec![
            world.genesis.clone().into(),
            world.domain_genesis().into(),
            world.sign(world.table(), &world.founder).into(),
        ]),
        Event::Entries(vec![world.add_member().into()]),
        Event::Entries(vec![world.sign(world.kek_record(), &world.founder).into()]),
        Event::Entries(vec![world.signed_manifest().into()]),
        Event::Entries(vec![world.sign(world.access(), &world.member).into()]),
        Event::Bytes,
    ];
    play(&world, &catalog, &events, true);
    let expected = summary(&world, &catalog);
    // Kept no longer than needed: redb cannot reuse pages while a snapshot can still see them.
    let snapshot = catalog.read().unwrap();
    assert_eq!(
        snapshot.objects(&world.table_id, &world.ring()).unwrap()[0].state,
        ObjectState::Queryable
    );
    assert_eq!(snapshot.counts().unwrap().accepted, 7);
    drop(snapshot);
    let mut order: Vec<usize> = (0..6).collect();
    let mut orders = 0;
    // Heap's algorithm.
    let mut stack = [0; 6];
    let mut i = 1;
    loop {
        let shuffled: Vec<_> = order.iter().map(|&n| events[n].clone()).collect();
        play(&world, &catalog, &shuffled, orders % 8 == 0);
        assert_eq!(summary(&world, &catalog), expected, "order {order:?}");
        orders += 1;
        while i < 6 && stack[i] >= i {
            stack[i] = 0;
            i += 1;
        }
        if i == 6 {
            break;
        }
        order.swap(if i.is_multiple_of(2) { 0 } else { stack[i] }, i);
        stack[i] += 1;
        i = 1;
    }
    assert_eq!(orders, 720);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// SOP-154, SOP-264: any order of a longer story, with a removal, a second member and lying records in it.
    #[test]
    fn any_order_of_a_longer_story(keys in prop::collection::vec(any::<u64>(), 22), cuts in any::<u16>()) {
        let world = World::new();
        let add = world.add_member();
        let add_reader =
            world.op(Some(world.domain), OpKind::Add, world.reader.site_id(), Role::Writer, (5, 0), &[add.id()]);
        let remove =
            world.op(Some(world.domain), OpKind::Remove, world.member.site_id(), Role::Writer, (6, 10), &[add_reader.id()]);
        let manifest = world.signed_manifest();
        let late = ObjectManifest { storage_id: StorageId::from_bytes([0x22; 32]), seq: 50, ..world.manifest() };
        let late = world.sign(late, &world.member);
        let wrap = |grant, dek: &Dek, key: &SiteKey| {
            // Fixed keys and one KEK: the nonce alone differs between runs, and it stands in both of a run's summaries.
            world.sign(AccessRecord::wrap(grant, dek, &world.kek()), key)
        };
        let late_grant = Grant { object_manifest_hash: late.manifest_hash(), storage_id: late.body().storage_id, ..world.grant() };
        let by_reader =
            Grant { issuer: world.reader.site_id(), ops_seen: vec![add_reader.id()], seq: 1, ..world.grant() };
        let entries: Vec<VerifiedEntry> = vec![
            world.genesis.clone().into(),
            world.domain_genesis().into(),
            add.into(),
            add_reader.into(),
            remove.into(),
            world.sign(world.kek_record(), &world.founder).into(),
            world.sign(world.table(), &world.founder).into(),
            manifest.clone().into(),
            late.clone().into(),
            wrap(world.grant(), &world.dek(), &world.member).into(),
            wrap(Grant { seq: 51, ..late_grant.clone() }, &world.dek(), &world.member).into(),
            wrap(Grant { seq: 9, ..late_grant }, &world.dek(), &world.member).into(),
            wrap(by_reader, &world.dek(), &world.reader).into(),
            wrap(Grant { seq: 8, ..world.grant() }, &Dek::from_bytes([1; 32]), &world.member).into(),
            wrap(Grant { seq: 7, kek_id: KekId::from_bytes([0x99; 16]), ..world.grant() }, &world.dek(), &world.member).into(),
        ];
        let version = InventoryVersion {
            mesh_id: world.mesh,
            domain_id: world.domain,
            catalog_id: [1; 16],
            restore_epoch: 0,
            version: 1,
            root_sha256: [1; 32],
            previous: None,
            bundle: StorageId::from_bytes([0x41; 32]),
            authority: world.member.site_id(),
            seq: 5,
            ops_seen: vec![world.add_member().id()],
            hlc: Hlc::new(NOW - 1_000, 0),
        };
        // After the cut, with another root of the same version.
        let rival = InventoryVersion { root_sha256: [2; 32], seq: 60, ..version.clone() };
        let list = PrefetchList {
            mesh_id: world.mesh,
            domain_id: world.domain,
            objects: vec![StorageId::from_bytes([0x42; 32]), world.storage_id],
            issuer: world.member.site_id(),
            seq: 6,
            ops_seen: vec![world.add_member().id()],
            hlc: Hlc::new(NOW - 1_000, 0),
        };
        let late_list = PrefetchList { objects: vec![StorageId::from_bytes([0x43; 32])], seq: 61, ..list.clone() };
        let registration = Registration {
            mesh_id: world.mesh,
            domain_id: world.domain,
            catalog_id: [1; 16],
            product: "weather".into(),
            edition_id: [1, 1, 1, 1, 1, 1, 0x71, 1, 0x81, 1, 1, 1, 1, 1, 1, 1],
            bundle: StorageId::from_bytes([0x44; 32]),
            registration_sha256: [1; 32],
            publisher: world.member.site_id(),
            seq: 4,
            ops_seen: vec![world.add_member().id()],
            hlc: Hlc::new(NOW - 1_000, 0),
        };
        let late_registration =
            Registration { bundle: StorageId::from_bytes([0x45; 32]), seq: 62, ..registration.clone() };
        let (registration, late_registration) =
            (world.sign(registration, &world.member), world.sign(late_registration, &world.member));
        let (version, rival) = (world.sign(version, &world.member), world.sign(rival, &world.member));
        let (list, late_list) = (world.sign(list, &world.member), world.sign(late_list, &world.member));
        let judged = [
            (version.id(), EntryState::Accepted),
            (list.id(), EntryState::Accepted),
            (rival.id(), refused(RefusalReason::Authority)),
            (late_list.id(), refused(RefusalReason::Authority)),
            (registration.id(), EntryState::Accepted),
            (late_registration.id(), refused(RefusalReason::Authority)),
        ];
        let mut entries = entries;
        entries.extend([version.into(), rival.into(), list.into(), late_list.into()]);
        entries.extend([registration.into(), late_registration.into()]);
        let catalog = catalog();
        let mut events: Vec<_> = entries.into_iter().map(|entry| Event::Entries(vec![entry])).collect();
        events.push(Event::Bytes);
        play(&world, &catalog, &events, true);
        let expected = summary(&world, &catalog);
        prop_assert_eq!(state(&catalog, manifest.id()), Some(EntryState::Accepted));
        prop_assert_eq!(state(&catalog, late.id()), Some(refused(RefusalReason::Authority)));
        let mut order: Vec<_> = (0..events.len()).collect();
        order.sort_by_key(|&n| keys[n]);
        let shuffled: Vec<_> = order.iter().map(|&n| events[n].clone()).collect();
        play(&world, &catalog, &shuffled, cuts & 1 == 0);
        prop_assert_eq!(summary(&world, &catalog), expected, "order {:?}", order);
        for (id, judgement) in judged {
            prop_assert_eq!(state(&catalog, id), Some(judgement));
        }
        let wanted = catalog.read().unwrap().pending_bytes().unwrap();
        let wanted: BTreeMap<_, _> = wanted.iter().map(|object| (object.storage_id, object.accepted)).collect();
        for (object, accepted) in [(0x41, true), (0x42, true), (0x43, false), (0x44, true), (0x45, false)] {
            prop_assert_eq!(wanted.get(&StorageId::from_bytes([object; 32])), Some(&accepted));
        }
        check_indexes(&catalog);
    }
}

/// A KEK nobody here ever heard of keeps its grants waiting, and the object pending.
#[test]
fn grant_under_an_unknown_kek_waits() {
    let (world, catalog) = founded();
    let kek = Kek::from_bytes([0x31; 32]);
    let grant = Grant {
        kek_id: KekId::from_bytes([0x32; 16]),
        kek_generation: 9,
        ..world.grant()
    };
    let access = world.sign(AccessRecord::wrap(grant, &world.dek(), &kek), &world.member);
    commit(&catalog, |txn| {
        world.admit(txn, world.signed_manifest());
        world.admit(txn, access.clone());
    });
    assert_eq!(state(&catalog, access.id()), Some(EntryState::WaitingAuthority));
    let view = catalog
        .read()
        .unwrap()
        .objects(&world.table_id, &world.ring())
        .unwrap()
        .remove(0);
    assert_eq!(view.state, ObjectState::PendingAccess(PendingAccess::NoGrant));
}
