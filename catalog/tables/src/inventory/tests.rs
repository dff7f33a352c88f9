use std::{cell::Cell, sync::Mutex};

use redb::TableHandle as _;
use sovm_object::{
    entry::EntryKind,
    hlc::Hlc,
    id::{DomainId, MeshId, RecordId, StorageId},
    record::{InventoryVersion, OpKind, PrefetchList, Registration, Role},
    secret::SiteKey,
    sign::Signed,
};

use crate::{
    Alarm, ByteEvent, ByteState, Catalog, DekError, EntryState, PendingAccess, Read as _, RefusalReason, Txn,
    admit::tests::check_indexes,
    authority::OpsCache,
    backend::salt::RowKey,
    body::ManifestCache,
    columns::ColumnsCache,
    store::{
        StoreError,
        snapshot::Snapshot,
        tables::{ENTRIES_NAME, Row, Rows, Table, Visit},
    },
    testing::{NOW, World, catalog},
};

const CATALOG: [u8; 16] = [0xc0; 16];

fn commit(catalog: &Catalog, run: impl FnOnce(&mut Txn)) {
    let mut txn = catalog.begin().unwrap();
    run(&mut txn);
    let _ = txn.commit().unwrap();
}

/// A catalogue in which the domain is known.
fn founded() -> (World, Catalog) {
    let (world, catalog) = (World::new(), catalog());
    commit(&catalog, |txn| world.found(txn));
    (world, catalog)
}

fn bundle(number: u64) -> StorageId {
    let mut id = [0xb0; 32];
    id[..8].copy_from_slice(&number.to_be_bytes());
    StorageId::from_bytes(id)
}

/// A version by the member. Its counter is given, since one number in two records is an alarm of its own.
fn version(world: &World, (restore_epoch, version): (u64, u64), root: u8, seq: u64) -> InventoryVersion {
    InventoryVersion {
        mesh_id: world.mesh,
        domain_id: world.domain,
        catalog_id: CATALOG,
        restore_epoch,
        version,
        root_sha256: [root; 32],
        previous: (version > 1).then_some([1; 32]),
        bundle: bundle(seq),
        authority: world.member.site_id(),
        seq,
        ops_seen: vec![world.add_member().id()],
        hlc: Hlc::new(NOW - 2_000, 0),
    }
}

fn list(world: &World, objects: Vec<StorageId>, seq: u64) -> PrefetchList {
    PrefetchList {
        mesh_id: world.mesh,
        domain_id: world.domain,
        objects,
        issuer: world.member.site_id(),
        seq,
        ops_seen: vec![world.add_member().id()],
        hlc: Hlc::new(NOW - 2_000, 0),
    }
}

fn numbers(found: &[(RecordId, InventoryVersion, EntryState)]) -> Vec<(u64, u64)> {
    let place = |(_, body, _): &(_, InventoryVersion, _)| (body.restore_epoch, body.version);
    found.iter().map(place).collect()
}

/// Versions come in the order of restore epoch and number, from any of them on, by domain and catalogue.
#[test]
fn versions_are_listed_in_order() {
    let (world, catalog) = founded();
    let places = [(0, 1), (0, 2), (0, 300), (1, 2), (1, 3), (u64::MAX, 999_999_999_999)];
    let other_domain = DomainId::from_bytes([0xff; 32]);
    let of = |place, domain, catalog, seq| InventoryVersion {
        domain_id: domain,
        catalog_id: catalog,
        ..version(&world, place, 1, seq)
    };
    assert!(catalog.read().unwrap().inventory_catalogs().unwrap().is_empty());
    commit(&catalog, |txn| {
        let mut seq = 100;
        for (domain, id) in [
            (world.domain, CATALOG),
            (world.domain, [0xff; 16]),
            (other_domain, CATALOG),
            (other_domain, [0xff; 16]),
        ] {
            for place in places.iter().rev() {
                seq += 1;
                world.admit(txn, world.sign(of(*place, domain, id, seq), &world.member));
            }
        }
    });
    let snapshot = catalog.read().unwrap();
    for (domain, state) in [
        (world.domain, EntryState::Accepted),
        // Nothing is known of its members.
        (other_domain, EntryState::WaitingAuthority),
    ] {
        for id in [CATALOG, [0xff; 16]] {
            let all = snapshot.inventory_versions(&domain, &id, (0, 0)).unwrap();
            assert_eq!(numbers(&all), places);
            for (record, body, found) in &all {
                assert_eq!((body.domain_id, body.catalog_id, *found), (domain, id, state));
                let entry = snapshot.entry(record).unwrap().unwrap();
                assert_eq!(world.sign(body.clone(), &world.member).bytes(), entry.bytes);
            }
            for (at, place) in places.into_iter().enumerate() {
                let rest = snapshot.inventory_versions(&domain, &id, place).unwrap();
                assert_eq!(numbers(&rest), places[at..]);
                let after = snapshot
                    .inventory_versions(&domain, &id, (place.0, place.1 + 1))
                    .unwrap();
                assert_eq!(numbers(&after), places[at + 1..]);
            }
        }
    }
    assert!(
        snapshot
            .inventory_versions(&world.domain, &[0; 16], (0, 0))
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        snapshot.inventory_catalogs().unwrap(),
        [
            (world.domain, CATALOG),
            (world.domain, [0xff; 16]),
            (other_domain, CATALOG),
            (other_domain, [0xff; 16])
        ]
    );
    drop(snapshot);
    check_indexes(&catalog);
}

/// DESIGN §10: two roots of one version are an alarm in either order, whoever signed them, and both stay. One root twice
/// is none, nor are versions of other catalogues, domains or restore epochs.
#[test]
fn two_roots_of_a_version_are_an_alarm() {
    for swapped in [false, true] {
        let (world, catalog) = founded();
        let by = |body: InventoryVersion, key: &SiteKey| {
            let authority = key.site_id();
            world.sign(InventoryVersion { authority, ..body }, key)
        };
        let place = (3, 7);
        let mut pair = [
            by(version(&world, place, 1, 20), &world.member),
            by(version(&world, place, 2, 21), &world.founder),
        ];
        if swapped {
            pair.reverse();
        }
        let alarm = Alarm::TwoRoots {
            catalog: CATALOG,
            restore_epoch: 3,
            version: 7,
            first: pair[0].id(),
            second: pair[1].id(),
        };
        let quiet = [
            by(version(&world, (4, 7), 3, 30), &world.member),
            by(version(&world, (3, 8), 4, 31), &world.member),
            by(
                InventoryVersion {
                    catalog_id: [1; 16],
                    ..version(&world, place, 5, 32)
                },
                &world.member,
            ),
            by(
                InventoryVersion {
                    domain_id: DomainId::from_bytes([1; 32]),
                    ..version(&world, place, 6, 33)
                },
                &world.member,
            ),
        ];
        commit(&catalog, |txn| {
            for entry in quiet.iter().chain(&pair[..1]) {
                assert_eq!(world.admit(txn, entry.clone()).alarms, []);
            }
            assert_eq!(world.admit(txn, pair[1].clone()).alarms, [alarm]);
            assert_eq!(world.admit(txn, pair[1].clone()).alarms, []);
        });
        let snapshot = catalog.read().unwrap();
        assert_eq!(snapshot.alarms().unwrap(), [(alarm, NOW)]);
        let kept = snapshot.inventory_versions(&world.domain, &CATALOG, place).unwrap();
        let roots = |root: u8| {
            kept.iter()
                .any(|(_, body, state)| body.root_sha256 == [root; 32] && state.is_accepted())
        };
        assert!(roots(1) && roots(2), "both are kept");
        drop(snapshot);
        // The same root once more, by another author.
        let again = by(version(&world, (3, 8), 4, 40), &world.founder);
        commit(&catalog, |txn| assert_eq!(world.admit(txn, again).alarms, []));
        check_indexes(&catalog);
    }
}

/// SOP-169: who may not append signs no version and asks for no bytes; one whose membership is unknown waits. Each is
/// judged again.
#[test]
fn only_who_may_append_counts() {
    let (world, catalog) = founded();
    let add = world.op(
        Some(world.domain),
        OpKind::Add,
        world.reader.site_id(),
        Role::Reader,
        (5, 0),
        &[],
    );
    let promote = world.op(
        Some(world.domain),
        OpKind::Role,
        world.reader.site_id(),
        Role::Writer,
        (6, 0),
        &[add.id()],
    );
    let object = StorageId::from_bytes([0x31; 32]);
    let signed = |seen: &[RecordId], seq: u64| -> (Signed<InventoryVersion>, Signed<PrefetchList>) {
        let (authority, ops_seen) = (world.reader.site_id(), seen.to_vec());
        let version = InventoryVersion {
            authority,
            ops_seen: ops_seen.clone(),
            ..version(&world, (0, 1), 1, seq)
        };
        let list = PrefetchList {
            issuer: authority,
            ops_seen,
            ..list(&world, vec![object], seq + 1)
        };
        (world.sign(version, &world.reader), world.sign(list, &world.reader))
    };
    let (early, late) = (signed(&[add.id()], 50), signed(&[promote.id()], 60));
    commit(&catalog, |txn| {
        world.admit(txn, add);
        for (version, list) in [&early, &late] {
            world.admit(txn, version.clone());
            world.admit(txn, list.clone());
        }
    });
    let state = |id| catalog.read().unwrap().entry_state(&id).unwrap().unwrap();
    let refused = EntryState::Refused(RefusalReason::Authority);
    assert_eq!([state(early.0.id()), state(early.1.id())], [refused; 2]);
    assert_eq!(
        [state(late.0.id()), state(late.1.id())],
        [EntryState::WaitingAuthority; 2]
    );
    let wanted = || {
        let pending = catalog.read().unwrap().pending_bytes().unwrap();
        let mut wanted: Vec<_> = pending.iter().filter(|o| o.accepted).map(|o| o.storage_id).collect();
        wanted.sort_unstable();
        wanted
    };
    assert_eq!(wanted(), []);
    commit(&catalog, |txn| drop(world.admit(txn, promote)));
    assert_eq!([state(early.0.id()), state(early.1.id())], [refused; 2]);
    assert_eq!([state(late.0.id()), state(late.1.id())], [EntryState::Accepted; 2]);
    assert_eq!(wanted(), [bundle(60), object]);
    check_indexes(&catalog);
}

/// A bundle and the objects of a list are wanted and kept before anything describes them, and a manifest that comes later
/// takes over.
#[test]
fn named_objects_are_wanted_without_a_manifest() {
    let (world, catalog) = founded();
    let mut objects = vec![StorageId::from_bytes([0x31; 32]), world.storage_id];
    objects.sort_unstable();
    let entry = version(&world, (0, 1), 1, 20);
    commit(&catalog, |txn| {
        world.admit(txn, world.sign(entry.clone(), &world.member));
        world.admit(txn, world.sign(list(&world, objects.clone(), 21), &world.member));
    });
    let mut named = objects.clone();
    named.push(entry.bundle);
    let snapshot = catalog.read().unwrap();
    let pending = snapshot.pending_bytes().unwrap();
    assert_eq!(pending.len(), 3);
    for object in &pending {
        assert!(named.contains(&object.storage_id) && object.accepted);
        assert_eq!(object.exact_byte_size, None, "nobody said so yet");
    }
    drop(snapshot);
    commit(&catalog, |txn| {
        for object in &named {
            txn.byte_event(object, ByteEvent::Arrived, Some(8_192), NOW).unwrap();
        }
    });
    let snapshot = catalog.read().unwrap();
    let mut available = snapshot.available_bytes().unwrap();
    let used = snapshot.objects_in_use().unwrap();
    for object in &named {
        assert!(used.contains(object), "a collection would take it");
        assert!(available.contains(object));
        assert!(snapshot.object(object, &world.ring()).unwrap().is_empty());
        assert!(snapshot.manifests(object).unwrap().is_empty());
        let locked = snapshot.dek(object, &world.ring());
        assert!(matches!(locked, Err(DekError::Pending(PendingAccess::NoManifest))));
    }
    available.sort_unstable();
    assert_eq!((snapshot.counts().unwrap().objects_available, available.len()), (3, 3));
    assert!(snapshot.files(&world.domain, &world.ring()).unwrap().is_empty());
    drop(snapshot);
    // The bytes are here before their manifest and key: nothing is fetched twice.
    commit(&catalog, |txn| {
        world.admit(txn, world.signed_manifest());
        world.admit(txn, world.sign(world.access(), &world.member));
    });
    let snapshot = catalog.read().unwrap();
    assert!(snapshot.pending_bytes().unwrap().is_empty());
    let shown = snapshot.objects(&world.table_id, &world.ring()).unwrap();
    assert_eq!(shown[0].state, crate::ObjectState::Queryable);
    let manifests = snapshot.manifests(&world.storage_id).unwrap();
    assert_eq!(
        (manifests[0].0, manifests[0].2, manifests.len()),
        (world.signed_manifest().manifest_hash(), EntryState::Accepted, 1)
    );
    drop(snapshot);
    // Gone again, it is wanted again for both reasons.
    commit(&catalog, |txn| {
        for object in &named {
            let state = txn.byte_event(object, ByteEvent::Missing, None, NOW).unwrap();
            assert_eq!(state, ByteState::PendingBytes);
        }
    });
    let pending = catalog.read().unwrap().pending_bytes().unwrap();
    let described = pending.iter().find(|o| o.storage_id == world.storage_id).unwrap();
    assert_eq!((pending.len(), described.exact_byte_size), (3, Some(5_000)));
    check_indexes(&catalog);
}

/// SOP-169, INV-403: whoever may append registers editions, and its bundle is wanted; a reader's registration is refused, kept and
/// shown, and nothing is fetched for it. Of other domains' registrations none is shown.
#[test]
fn registrations_are_shown_with_what_they_count_for() {
    let (world, catalog) = founded();
    let add = world.op(
        Some(world.domain),
        OpKind::Add,
        world.reader.site_id(),
        Role::Reader,
        (5, 0),
        &[],
    );
    let registration = |key: &SiteKey, seen: &RecordId, seq: u64| Registration {
        mesh_id: world.mesh,
        domain_id: world.domain,
        catalog_id: CATALOG,
        product: "weather".into(),
        edition_id: [1, 1, 1, 1, 1, 1, 0x71, 1, 0x81, 1, 1, 1, 1, 1, 1, 1],
        bundle: bundle(seq),
        registration_sha256: [7; 32],
        publisher: key.site_id(),
        seq,
        ops_seen: vec![*seen],
        hlc: Hlc::new(NOW - 2_000, 0),
    };
    let by_member = registration(&world.member, &world.add_member().id(), 70);
    let by_reader = registration(&world.reader, &add.id(), 71);
    let elsewhere = Registration {
        domain_id: DomainId::from_bytes([0xff; 32]),
        seq: 72,
        ..by_member.clone()
    };
    commit(&catalog, |txn| {
        world.admit(txn, add);
        world.admit(txn, world.sign(by_member.clone(), &world.member));
        world.admit(txn, world.sign(by_reader.clone(), &world.reader));
        world.admit(txn, world.sign(elsewhere.clone(), &world.member));
    });
    let snapshot = catalog.read().unwrap();
    let shown = snapshot.registrations(&world.domain).unwrap();
    let found = |body: &Registration| {
        let one = shown.iter().find(|(_, shown, _)| shown == body);
        one.map(|(_, _, state)| *state)
    };
    assert_eq!(shown.len(), 2);
    assert_eq!(found(&by_member), Some(EntryState::Accepted));
    assert_eq!(found(&by_reader), Some(EntryState::Refused(RefusalReason::Authority)));
    let others = snapshot.registrations(&elsewhere.domain_id).unwrap();
    assert_eq!((others.len(), others[0].2), (1, EntryState::WaitingAuthority));
    let pending = snapshot.pending_bytes().unwrap();
    let wanted: Vec<_> = pending.iter().filter(|o| o.accepted).map(|o| o.storage_id).collect();
    assert_eq!(wanted, [bundle(70)]);
    drop(snapshot);
    check_indexes(&catalog);
}

/// Of another mesh, neither is an entry here.
#[test]
fn other_meshes_are_refused() {
    use sovm_object::{entry::EntryIn, sign::VerifyError};
    let world = World::new();
    let mesh_id = MeshId::from_bytes([9; 32]);
    let body = InventoryVersion {
        mesh_id,
        ..version(&world, (0, 1), 1, 20)
    };
    let foreign = Signed::sign(body, &world.member, &mesh_id);
    let entry = EntryIn::decode(foreign.bytes()).unwrap();
    assert_eq!(entry.verify(&world.mesh).err(), Some(VerifyError::WrongMesh));
}

/// Counts the entries that are read.
struct Counting<'a> {
    rows: &'a Snapshot,
    entries: Cell<usize>,
}

impl Rows for Counting<'_> {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if table.name() == ENTRIES_NAME {
            self.entries.set(self.entries.get() + 1);
        }
        self.rows.get(table, key)
    }

    fn scan_from(&self, table: &Table, from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.rows.scan_from(table, from, visit)
    }

    fn last_below(&self, table: &Table, below: &[u8]) -> Result<Option<Row>, StoreError> {
        self.rows.last_below(table, below)
    }

    fn count(&self, table: &Table) -> Result<u64, StoreError> {
        self.rows.count(table)
    }

    fn row_key(&self) -> &RowKey {
        self.rows.row_key()
    }

    fn ops_cache(&self) -> &Mutex<OpsCache> {
        self.rows.ops_cache()
    }

    fn manifest_cache(&self) -> &Mutex<ManifestCache> {
        self.rows.manifest_cache()
    }

    fn columns_cache(&self) -> &Mutex<ColumnsCache> {
        self.rows.columns_cache()
    }
}

/// Which lists name an object is asked of the index: a list that names others is not even read, and one that doesn't count is
/// none.
#[test]
fn only_lists_that_name_an_object_are_read() {
    let (world, catalog) = founded();
    let [wanted, other] = [0x31, 0x32].map(|byte| StorageId::from_bytes([byte; 32]));
    commit(&catalog, |txn| {
        for seq in 20..60 {
            let objects = if seq == 40 { vec![wanted, other] } else { vec![other] };
            world.admit(txn, world.sign(list(&world, objects, seq), &world.member));
        }
        // Nobody added this one to the domain.
        let stranger = PrefetchList {
            issuer: world.reader.site_id(),
            ..list(&world, vec![wanted], 1)
        };
        world.admit(txn, world.sign(stranger, &world.reader));
    });
    let snapshot = catalog.read().unwrap();
    let read = |object: StorageId| -> (Vec<u64>, usize) {
        let counting = Counting {
            rows: &snapshot,
            entries: Cell::new(0),
        };
        let lists: Vec<PrefetchList> = counting.accepted_naming(&object, EntryKind::PrefetchList).unwrap();
        (lists.iter().map(|list| list.seq).collect(), counting.entries.get())
    };
    assert_eq!(read(wanted), (vec![40], 1));
    let (mut lists, entries) = read(other);
    lists.sort_unstable();
    assert_eq!((lists, entries), ((20..60).collect::<Vec<u64>>(), 40));
    assert_eq!(read(StorageId::from_bytes([0x33; 32])), (Vec::new(), 0));
}
