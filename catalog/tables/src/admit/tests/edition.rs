//! Files of editions: their keys decide in which domains they are seen, so one manifest stands in several (DESIGN
//! §10).

use sovm_object::record::{DomainGenesis, MembershipOp};

use super::*;

const PUBLIC: DomainId = DomainId::from_bytes([0xd9; 32]);
const PUBLIC_KEK: KekId = KekId::from_bytes([0xe9; 16]);

/// The world's domain is the one of releases; beside it stands one that more may read, founded by the same site.
struct Editions {
    world: World,
}

impl Editions {
    fn new() -> Self {
        Self { world: World::new() }
    }

    fn public(&self) -> Option<SealedUnder> {
        Some(SealedUnder {
            domain: PUBLIC,
            generation: 1,
            kek_id: PUBLIC_KEK,
        })
    }

    fn public_kek(&self) -> Kek {
        Kek::from_bytes([0xea; 32])
    }

    fn public_genesis(&self) -> Signed<DomainGenesis> {
        let body = DomainGenesis {
            domain_id: PUBLIC,
            name: "public".into(),
            group_id: [0x16; 32],
            seq: 10,
            ..self.world.domain_genesis().body().clone()
        };
        self.world.sign(body, &self.world.founder)
    }

    /// The member writes in the public domain too.
    fn public_add(&self) -> Signed<MembershipOp> {
        let member = self.world.member.site_id();
        self.world
            .op(Some(PUBLIC), OpKind::Add, member, Role::Writer, (11, 0), &[])
    }

    fn public_kek_record(&self) -> Signed<KekRecord> {
        let body = KekRecord {
            domain_id: PUBLIC,
            kek_id: PUBLIC_KEK,
            commitment: self.public_kek().commitment(),
            seq: 12,
            ops_seen: vec![self.public_add().id()],
            ..self.world.kek_record()
        };
        self.world.sign(body, &self.world.founder)
    }

    /// An edition's file by the member, who had seen the heads of both domains.
    fn manifest(&self) -> Signed<ObjectManifest> {
        let mut ops_seen = vec![self.world.add_member().id(), self.public_add().id()];
        ops_seen.sort_unstable();
        self.seen(ops_seen)
    }

    fn seen(&self, ops_seen: Vec<RecordId>) -> Signed<ObjectManifest> {
        let body = ObjectManifest {
            kind: ObjectKind::EditionFile,
            storage_id: StorageId::from_bytes([0xed; 32]),
            table_schema: None,
            table_name: None,
            schema_fingerprint: None,
            partition_values: None,
            pruning_statistics: None,
            time_range: None,
            row_set_digest: None,
            table_id: None,
            row_count: 336_776,
            seq: 40,
            ops_seen,
            ..self.world.manifest()
        };
        self.world.sign(body, &self.world.member)
    }

    fn grant(&self, manifest: &Signed<ObjectManifest>, public: bool) -> Signed<AccessRecord> {
        let world = &self.world;
        let base = Grant {
            storage_id: manifest.body().storage_id,
            object_manifest_hash: manifest.manifest_hash(),
            seq: 41,
            ..world.grant()
        };
        let (grant, kek) = if public {
            let grant = Grant {
                domain_id: PUBLIC,
                kek_id: PUBLIC_KEK,
                seq: 42,
                ops_seen: vec![self.public_add().id()],
                ..base
            };
            (grant, self.public_kek())
        } else {
            (base, world.kek())
        };
        world.sign(AccessRecord::wrap(grant, &world.dek(), &kek), &world.member)
    }

    fn found_release(&self, txn: &mut Txn) {
        self.world.found(txn);
    }

    fn found_public(&self, txn: &mut Txn) {
        self.world.admit(txn, self.world.genesis.clone());
        self.world.admit(txn, self.public_genesis());
        self.world.admit(txn, self.public_add());
        self.world.admit(txn, self.public_kek_record());
        txn.settle().unwrap();
    }

    fn admit_public(&self, txn: &mut Txn, entry: impl Into<VerifiedEntry>) -> Admission {
        txn.admit(entry, self.public(), NOW).unwrap()
    }

    fn public_ring(&self) -> sovm_object::kek::KekRing {
        let mut ring = sovm_object::kek::KekRing::default();
        ring.insert(1, PUBLIC_KEK, self.public_kek());
        ring
    }
}

fn elements(catalog: &Catalog, domain: DomainId) -> Vec<[u8; 32]> {
    let snapshot = catalog.read().unwrap();
    let scope = Scope::Domain(domain);
    let shards = snapshot.shards(scope).unwrap();
    let of_shard = |shard| snapshot.elements(scope, shard).unwrap();
    shards
        .into_keys()
        .flat_map(of_shard)
        .map(|(_, element)| element)
        .collect()
}

/// An embargoed file is in the set of the domain of releases only. Admitted once more under the public KEK it stands in
/// that set too, its grant there counts, and whoever holds only the public KEK opens it.
#[test]
fn a_released_file_stands_in_both_domains() {
    let editions = Editions::new();
    let (world, catalog) = (&editions.world, catalog());
    let manifest = editions.manifest();
    let (inside, outside) = (editions.grant(&manifest, false), editions.grant(&manifest, true));
    let object = manifest.body().storage_id;
    let under = |domain, kek_id| SealedUnder {
        domain,
        generation: 1,
        kek_id,
    };
    commit(&catalog, |txn| {
        editions.found_release(txn);
        editions.found_public(txn);
        world.admit(txn, manifest.clone());
        world.admit(txn, inside.clone());
    });
    let snapshot = catalog.read().unwrap();
    assert_eq!(state(&catalog, manifest.id()), Some(EntryState::Accepted));
    assert_eq!(
        snapshot.placed_under(&manifest.id()).unwrap(),
        [under(world.domain, world.kek_id)]
    );
    assert_eq!(
        snapshot.granting_domains(&manifest.manifest_hash()).unwrap(),
        [world.domain].into()
    );
    let (here, there) = (
        element_id(&manifest.id(), Some(&world.kek_id)),
        element_id(&manifest.id(), Some(&PUBLIC_KEK)),
    );
    assert!(elements(&catalog, world.domain).contains(&here));
    // Nothing of it, not the least sign, is in the set of those who wait.
    let before = elements(&catalog, PUBLIC);
    assert!(!before.contains(&there) && !before.contains(&here));
    assert!(snapshot.dek(&object, &editions.public_ring()).is_err());
    assert!(
        snapshot
            .edition_files(&PUBLIC, &editions.public_ring())
            .unwrap()
            .is_empty()
    );
    let public_digest = snapshot.domain_digest(&PUBLIC).unwrap();
    drop(snapshot);

    commit(&catalog, |txn| {
        let again = editions.admit_public(txn, manifest.clone());
        assert!(!again.is_new && again.alarms.is_empty());
        assert!(editions.admit_public(txn, outside.clone()).alarms.is_empty());
    });
    let snapshot = catalog.read().unwrap();
    for entry in [manifest.id(), inside.id(), outside.id()] {
        assert_eq!(state(&catalog, entry), Some(EntryState::Accepted));
    }
    assert_eq!(
        snapshot.granting_domains(&manifest.manifest_hash()).unwrap(),
        [world.domain, PUBLIC].into()
    );
    assert_eq!(
        snapshot.placed_under(&manifest.id()).unwrap(),
        [under(world.domain, world.kek_id), under(PUBLIC, PUBLIC_KEK)]
    );
    assert_eq!(
        snapshot.placed_under(&outside.id()).unwrap(),
        [under(PUBLIC, PUBLIC_KEK)]
    );
    assert!(snapshot.placed_under(&world.genesis.id()).unwrap().is_empty());
    assert!(elements(&catalog, world.domain).contains(&here) && !elements(&catalog, world.domain).contains(&there));
    assert!(elements(&catalog, PUBLIC).contains(&there) && !elements(&catalog, PUBLIC).contains(&here));
    let after = snapshot.domain_digest(&PUBLIC).unwrap();
    assert_eq!(after.records, public_digest.records + 2, "manifest and grant");
    for (domain, seal) in [(world.domain, world.kek_id), (PUBLIC, PUBLIC_KEK)] {
        let records = snapshot.checkpoint_records(&domain).unwrap();
        let found = records.iter().find(|record| record.id == manifest.id()).unwrap();
        assert_eq!(found.sealed, Some((1, seal)));
    }
    for ring in [world.ring(), editions.public_ring()] {
        let view = snapshot.object(&object, &ring).unwrap().remove(0);
        assert_eq!((view.kind, view.row_count), (ObjectKind::EditionFile, 336_776));
        assert!(matches!(view.state, ObjectState::PendingBytes { .. }));
        assert_eq!(
            snapshot.dek(&object, &ring).unwrap().commitment(),
            world.dek().commitment()
        );
    }
    drop(snapshot);
    commit(&catalog, |txn| {
        txn.byte_event(&object, ByteEvent::Arrived, Some(8_192), NOW).unwrap();
    });
    let snapshot = catalog.read().unwrap();
    let view = snapshot.object(&object, &editions.public_ring()).unwrap().remove(0);
    assert_eq!(view.state, ObjectState::Queryable);
    // It is an object of no table, and no plain file.
    assert!(snapshot.objects(&world.table_id, &world.ring()).unwrap().is_empty());
    assert!(snapshot.files(&PUBLIC, &editions.public_ring()).unwrap().is_empty());
    for (domain, ring) in [(world.domain, world.ring()), (PUBLIC, editions.public_ring())] {
        let listed = snapshot.edition_files(&domain, &ring).unwrap();
        assert_eq!((listed.len(), listed[0].storage_id), (1, object));
    }
    drop(snapshot);
    check_indexes(&catalog);
}

/// SOP-169: a device that knows only the public domain looks at the heads of that one, however the entries come; the
/// other heads will never come there. Heads that give the producer nothing leave the manifest waiting, as they may be of
/// ops still to come.
#[test]
fn a_public_device_judges_by_its_own_domain() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let editions = Editions::new();
        let catalog = catalog();
        let manifest = editions.manifest();
        let grant = editions.grant(&manifest, true);
        for event in order {
            commit(&catalog, |txn| match event {
                0 => editions.found_public(txn),
                1 => drop(editions.admit_public(txn, manifest.clone())),
                _ => drop(editions.admit_public(txn, grant.clone())),
            });
        }
        assert_eq!(state(&catalog, manifest.id()), Some(EntryState::Accepted), "{order:?}");
        let snapshot = catalog.read().unwrap();
        assert!(
            snapshot
                .dek(&manifest.body().storage_id, &editions.public_ring())
                .is_ok()
        );
    }
    let editions = Editions::new();
    let catalog = catalog();
    // The producer had seen nothing of the public domain.
    let manifest = editions.seen(vec![editions.world.add_member().id()]);
    let nobody = ObjectManifest {
        producer: editions.world.stranger.site_id(),
        ops_seen: vec![editions.public_add().id()],
        seq: 1,
        ..manifest.body().clone()
    };
    let nobody = editions.world.sign(nobody, &editions.world.stranger);
    commit(&catalog, |txn| {
        editions.found_public(txn);
        for manifest in [&manifest, &nobody] {
            editions.admit_public(txn, manifest.clone());
            editions.admit_public(txn, editions.grant(manifest, true));
        }
    });
    assert_eq!(state(&catalog, manifest.id()), Some(EntryState::WaitingAuthority));
    assert_eq!(state(&catalog, nobody.id()), Some(refused(RefusalReason::Authority)));
}

/// SOP-170, SOP-264: a removal in one domain takes a file out of that one only.
#[test]
fn a_removal_reaches_one_domain() {
    let editions = Editions::new();
    let (world, catalog) = (&editions.world, catalog());
    let manifest = editions.manifest();
    commit(&catalog, |txn| {
        editions.found_release(txn);
        editions.found_public(txn);
        for public in [false, true] {
            let seal = if public { editions.public() } else { world.sealed() };
            txn.admit(manifest.clone(), seal, NOW).unwrap();
            txn.admit(editions.grant(&manifest, public), seal, NOW).unwrap();
        }
    });
    // Cut below the file's number, in one domain after the other.
    let remove = |domain, seq, seen: RecordId| {
        world.op(
            Some(domain),
            OpKind::Remove,
            world.member.site_id(),
            Role::Writer,
            (seq, 30),
            &[seen],
        )
    };
    commit(&catalog, |txn| {
        drop(world.admit(txn, remove(PUBLIC, 80, editions.public_add().id())))
    });
    assert_eq!(state(&catalog, manifest.id()), Some(EntryState::Accepted));
    assert_eq!(
        catalog
            .read()
            .unwrap()
            .granting_domains(&manifest.manifest_hash())
            .unwrap(),
        [world.domain].into()
    );
    commit(&catalog, |txn| {
        drop(world.admit(txn, remove(world.domain, 81, world.add_member().id())))
    });
    assert_ne!(state(&catalog, manifest.id()), Some(EntryState::Accepted));
    check_indexes(&catalog);
}

/// SOP-169: whoever may not append publishes no edition's file either.
#[test]
fn a_reader_publishes_no_edition_file() {
    let editions = Editions::new();
    let (world, catalog) = (&editions.world, catalog());
    let add = world.op(
        Some(world.domain),
        OpKind::Add,
        world.reader.site_id(),
        Role::Reader,
        (50, 0),
        &[world.add_member().id()],
    );
    let body = ObjectManifest {
        producer: world.reader.site_id(),
        ops_seen: vec![add.id()],
        ..editions.manifest().body().clone()
    };
    let manifest = world.sign(body, &world.reader);
    commit(&catalog, |txn| {
        editions.found_release(txn);
        world.admit(txn, add);
        world.admit(txn, manifest.clone());
    });
    assert_eq!(state(&catalog, manifest.id()), Some(EntryState::NoAccess));
    commit(&catalog, |txn| drop(world.admit(txn, editions.grant(&manifest, false))));
    assert_eq!(state(&catalog, manifest.id()), Some(refused(RefusalReason::Authority)));
}

/// SOP-161: an edition's file is stated once for each domain that may read it. Statements that agree are no alarm, one that disagrees is.
#[test]
fn a_file_is_stated_for_each_domain() {
    let editions = Editions::new();
    let (world, catalog) = (&editions.world, catalog());
    let manifest = editions.manifest();
    let again = |seq, row_count| {
        let body = ObjectManifest {
            seq,
            row_count,
            ..manifest.body().clone()
        };
        world.sign(body, &world.member)
    };
    commit(&catalog, |txn| {
        editions.found_release(txn);
        world.admit(txn, manifest.clone());
        let same = world.admit(txn, again(50, manifest.body().row_count));
        assert!(same.is_new && same.alarms.is_empty(), "{:?}", same.alarms);
        let other = world.admit(txn, again(51, 1));
        assert!(
            matches!(other.alarms.as_slice(), [Alarm::TwoManifests { .. }]),
            "{:?}",
            other.alarms
        );
    });
}
