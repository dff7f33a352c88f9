mod dump;

use std::{fs, path::Path};

use sovm_object::{
    hlc::Hlc,
    id::{DomainId, InviteId, SiteId, StorageId},
    record::{InventoryVersion, PrefetchList, Role},
};

use super::{tables::META, *};
use crate::{
    ByteEvent, DocumentRole, DocumentStore, Invite, InviteProblem, OutboxItem, Read as _, Receipt,
    admit::tests::check_indexes,
    backend::crash::CrashDisk,
    local::meta,
    testing::{NOW, World, catalog},
};

fn key() -> DatabaseKey {
    DatabaseKey::from_bytes([7; 32])
}

fn invite(uses_left: u64) -> Invite {
    Invite {
        secret_hash: [1; 32],
        role: Role::Reader,
        domains: vec![DomainId::from_bytes([1; 32])],
        history: true,
        expires_ms: NOW + 1_000,
        uses_left,
        bad_proofs: 0,
        revoked: false,
        skip_code: false,
        created_ms: NOW,
        used_by: vec![],
    }
}

const INVITE: InviteId = InviteId::from_bytes([9; 16]);

/// Nothing of a step is visible before its commit, and a dropped step leaves no trace.
#[test]
fn a_step_is_whole_or_absent() {
    let (world, catalog) = (World::new(), catalog());
    let mut txn = catalog.begin().unwrap();
    world.found(&mut txn);
    txn.put_meta(meta::NODE_NAME, b"desk").unwrap();
    txn.put_mls(b"group", b"state").unwrap();
    assert_eq!(txn.meta(meta::NODE_NAME).unwrap().unwrap(), b"desk");
    assert!(catalog.read().unwrap().mesh_id().unwrap().is_none());
    drop(txn);
    let snapshot = catalog.read().unwrap();
    assert!(snapshot.mesh_id().unwrap().is_none() && snapshot.mls(b"group").unwrap().is_none());
    assert_eq!(snapshot.commit_counter().unwrap(), 0);
    let mut txn = catalog.begin().unwrap();
    world.found(&mut txn);
    let committed = txn.commit().unwrap();
    assert_eq!((committed.counter, committed.changes.len()), (1, 5));
    assert!(snapshot.mesh_id().unwrap().is_none(), "a snapshot is one view for good");
    assert_eq!(catalog.read().unwrap().mesh_id().unwrap(), Some(world.mesh));
    // A roster made in a dropped step is not taken for the committed one.
    let add = world.op(
        Some(world.domain),
        sovm_object::record::OpKind::Add,
        world.reader.site_id(),
        Role::Reader,
        (9, 0),
        &[],
    );
    let mut txn = catalog.begin().unwrap();
    world.admit(&mut txn, add);
    let scope = crate::Scope::Domain(world.domain);
    assert!(
        txn.roster(scope)
            .unwrap()
            .unwrap()
            .role(&world.reader.site_id())
            .is_some()
    );
    drop(txn);
    assert!(
        catalog
            .read()
            .unwrap()
            .roster(scope)
            .unwrap()
            .unwrap()
            .role(&world.reader.site_id())
            .is_none()
    );
}

/// DESIGN §5: rows no signature covers are sealed with table and key; a moved or changed row is noticed.
#[test]
fn moved_rows_are_noticed() {
    let catalog = catalog();
    let mut txn = catalog.begin().unwrap();
    txn.put_meta("a", b"first").unwrap();
    txn.put_meta("b", b"second").unwrap();
    let other = txn.get(&META, b"b").unwrap().unwrap();
    txn.put(&META, b"a", &other).unwrap();
    assert!(matches!(txn.meta("a"), Err(StoreError::RowChanged("meta-1"))));
    let mut changed = other.clone();
    *changed.last_mut().unwrap() ^= 1;
    for bad in [&changed[..], &other[..5], &[]] {
        txn.put(&META, b"b", bad).unwrap();
        assert!(matches!(txn.meta("b"), Err(StoreError::RowChanged("meta-1"))));
    }
}

/// DESIGN §8: used, expired, revoked and burnt invites are told apart; an invite is burnt with the step that used it.
#[test]
fn invites_are_used_up_in_their_step() {
    let catalog = catalog();
    let joiner = SiteId::from_bytes([2; 32]);
    let step = |run: &dyn Fn(&mut Txn)| {
        let mut txn = catalog.begin().unwrap();
        run(&mut txn);
        let _ = txn.commit().unwrap();
    };
    step(&|txn| txn.put_invite(&INVITE, &invite(1)).unwrap());
    let mut txn = catalog.begin().unwrap();
    assert_eq!(txn.use_invite(&INVITE, &joiner, NOW).unwrap(), Ok(()));
    drop(txn);
    step(&|txn| {
        assert_eq!(
            txn.use_invite(&INVITE, &joiner, NOW + 1_000).unwrap(),
            Err(InviteProblem::Expired)
        )
    });
    step(&|txn| assert_eq!(txn.use_invite(&INVITE, &joiner, NOW).unwrap(), Ok(())));
    step(&|txn| assert_eq!(txn.use_invite(&INVITE, &joiner, NOW).unwrap(), Err(InviteProblem::Used)));
    assert_eq!(
        catalog.read().unwrap().invite(&INVITE).unwrap().unwrap().used_by,
        [joiner]
    );
    step(&|txn| {
        txn.put_invite(&INVITE, &invite(3)).unwrap();
        for _ in 0..5 {
            assert_eq!(txn.invite(&INVITE).unwrap().unwrap().check(NOW), Ok(()));
            txn.count_bad_proof(&INVITE).unwrap();
        }
    });
    step(&|txn| {
        assert_eq!(
            txn.use_invite(&INVITE, &joiner, NOW).unwrap(),
            Err(InviteProblem::Burnt)
        )
    });
    step(&|txn| assert!(txn.revoke_invite(&INVITE).unwrap()));
    step(&|txn| {
        assert_eq!(
            txn.use_invite(&INVITE, &joiner, NOW).unwrap(),
            Err(InviteProblem::Revoked)
        )
    });
    step(&|txn| assert!(!txn.revoke_invite(&InviteId::from_bytes([0; 16])).unwrap()));
    assert_eq!(catalog.read().unwrap().invites().unwrap().len(), 1);
}

#[test]
fn ceilings_never_fall_and_the_outbox_keeps_its_order() {
    let catalog = catalog();
    let mut txn = catalog.begin().unwrap();
    txn.raise_ceiling("seq", 1_000).unwrap();
    txn.raise_ceiling("seq", 1_000).unwrap();
    assert!(matches!(
        txn.raise_ceiling("seq", 999),
        Err(StoreError::CeilingFalls(_))
    ));
    assert_eq!(
        (txn.ceiling("seq").unwrap(), txn.ceiling("hlc").unwrap()),
        (Some(1_000), None)
    );
    let item = |held| OutboxItem {
        to: None,
        purpose: "hint".into(),
        bytes: vec![1],
        held,
        created_ms: NOW,
    };
    for n in 0..300 {
        assert_eq!(txn.push_outbox(&item(n == 7)).unwrap(), n);
    }
    txn.remove_outbox(0).unwrap();
    txn.release_outbox(7).unwrap();
    let outbox = txn.outbox().unwrap();
    assert!(outbox.iter().map(|(number, _)| *number).eq(1..300));
    assert!(outbox.iter().all(|(_, item)| !item.held));
    let (object, site) = (StorageId::from_bytes([1; 32]), SiteId::from_bytes([2; 32]));
    let receipt = Receipt {
        issued_ms: NOW,
        valid_until_ms: NOW + 9,
        bytes: vec![3],
    };
    txn.put_receipt(&object, &site, &receipt).unwrap();
    assert_eq!(txn.receipts(&object).unwrap(), [(site, receipt)]);
    txn.remove_receipt(&object, &site).unwrap();
    assert!(txn.receipts(&object).unwrap().is_empty());
}

/// SOP-173: remembered refusals are bounded in number and in age.
#[test]
fn refusals_are_bounded() {
    let catalog = catalog();
    let mut txn = catalog.begin().unwrap();
    for n in 0..30u64 {
        txn.remember_refusal(&n.to_be_bytes(), "why", NOW + n).unwrap();
    }
    assert_eq!(txn.counts().unwrap().refusals_remembered, 20);
    assert!(txn.refusal(&9u64.to_be_bytes()).unwrap().is_none());
    assert_eq!(txn.refusal(&10u64.to_be_bytes()).unwrap().unwrap().refused_ms, NOW + 10);
    txn.forget_refusals(NOW + 30 * 86_400_000 + 15).unwrap();
    assert_eq!(txn.counts().unwrap().refusals_remembered, 15);
}

/// A home that leaves its mesh starts empty, and its commit counter goes on.
#[test]
fn forgetting_the_mesh_keeps_the_counter() {
    let (world, catalog) = (World::new(), catalog());
    for _ in 0..2 {
        let mut txn = catalog.begin().unwrap();
        world.found(&mut txn);
        let _ = txn.commit().unwrap();
    }
    let mut txn = catalog.begin().unwrap();
    txn.forget_mesh().unwrap();
    assert_eq!(txn.commit().unwrap().counter, 3);
    let snapshot = catalog.read().unwrap();
    assert_eq!(snapshot.counts().unwrap(), crate::Counts::default());
    assert!(snapshot.scopes().unwrap().is_empty() && snapshot.domains().unwrap().is_empty());
}

/// `lessons.md`, disks: on a full disk the step fails and says so, reads go on, and work resumes by itself.
#[test]
fn full_disk_fails_one_step_and_heals() {
    let disk = CrashDisk::default();
    let (world, catalog) = (World::new(), Catalog::on_disk(&disk).unwrap());
    let mut txn = catalog.begin().unwrap();
    world.found(&mut txn);
    let _ = txn.commit().unwrap();
    disk.set_full(true);
    let step = || {
        let mut txn = catalog.begin()?;
        txn.put_mls(b"row", &[1; 100_000])?;
        txn.commit()
    };
    for _ in 0..3 {
        assert!(matches!(step(), Err(StoreError::DiskFull | StoreError::Io(_))));
    }
    disk.set_full(false);
    assert_eq!(catalog.read().unwrap().mesh_id().unwrap(), Some(world.mesh));
    assert_eq!(step().unwrap().counter, 2);
    check_indexes(&catalog);
}

/// A catalogue of an earlier build lacks tables made since: opening makes them and keeps everything else.
#[test]
fn tables_of_a_later_build_are_made_at_open() {
    let disk = CrashDisk::default();
    let (world, catalog) = (World::new(), Catalog::on_disk(&disk).unwrap());
    let mut txn = catalog.begin().unwrap();
    world.found(&mut txn);
    for table in [
        tables::UNPUBLISHED,
        tables::AUDIT,
        tables::BY_VERSION,
        tables::DOCUMENTS,
        tables::DOCUMENT_PARTS,
    ] {
        txn.without(table);
    }
    let _ = txn.commit().unwrap();
    let before = catalog.read().unwrap();
    assert!(before.unpublished().is_err() && before.inventory_catalogs().is_err());
    drop(before);
    drop(catalog);
    let snapshot = Catalog::on_disk(&disk).unwrap().read().unwrap();
    assert_eq!(snapshot.mesh_id().unwrap(), Some(world.mesh));
    assert_eq!(snapshot.unpublished().unwrap(), []);
    assert_eq!(snapshot.collections().unwrap(), []);
    assert_eq!(snapshot.inventory_catalogs().unwrap(), []);
    assert_eq!(snapshot.document_stores().unwrap(), []);
}

const DOCUMENTS: DocumentStore = DocumentStore {
    role: DocumentRole::Full,
    catalog: [4; 16],
};

/// A version of an Inventory and a list of what to fetch ahead, by the founder, whom no removal of the story reaches.
fn inventory(world: &World) -> (InventoryVersion, PrefetchList) {
    let version = InventoryVersion {
        mesh_id: world.mesh,
        domain_id: world.domain,
        catalog_id: DOCUMENTS.catalog,
        restore_epoch: 0,
        version: 1,
        root_sha256: [5; 32],
        previous: None,
        bundle: StorageId::from_bytes([0x41; 32]),
        authority: world.founder.site_id(),
        seq: 30,
        ops_seen: vec![],
        hlc: Hlc::new(NOW - 1_000, 0),
    };
    let list = PrefetchList {
        mesh_id: world.mesh,
        domain_id: world.domain,
        objects: vec![StorageId::from_bytes([0x42; 32])],
        issuer: world.founder.site_id(),
        seq: 31,
        ops_seen: vec![],
        hlc: Hlc::new(NOW - 1_000, 0),
    };
    (version, list)
}

/// Everything durable, one step after the other. Gives the number of steps that returned.
fn story(world: &World, catalog: &Catalog) -> u64 {
    type Step<'s> = &'s dyn Fn(&mut Txn) -> Result<(), StoreError>;
    let steps: [Step<'_>; 7] = [
        &|txn| {
            for entry in [
                world.genesis.clone().into(),
                world.domain_genesis().into(),
                world.add_member().into(),
            ] {
                let entry: sovm_object::entry::VerifiedEntry = entry;
                txn.admit(entry, None, NOW)?;
            }
            txn.put_meta(meta::NODE_NAME, b"step 1")
        },
        &|txn| {
            txn.admit(world.sign(world.kek_record(), &world.founder), None, NOW)?;
            txn.admit(world.sign(world.table(), &world.founder), world.sealed(), NOW)?;
            txn.put_invite(&INVITE, &invite(1))?;
            // An object is being made: its row comes before its bytes.
            let row = crate::Unpublished {
                begun_ms: NOW,
                size: 8_192,
                run: 1,
                orphan_since_ms: None,
            };
            txn.note_unpublished(&world.storage_id, &row)?;
            txn.put_meta(meta::NODE_NAME, b"step 2")
        },
        &|txn| {
            // The publication step: manifest, grant, bytes, outbox and the end of the journal row together (SOP-241).
            txn.forget_unpublished(&world.storage_id)?;
            txn.admit(world.signed_manifest(), world.sealed(), NOW)?;
            txn.admit(world.sign(world.access(), &world.member), world.sealed(), NOW)?;
            txn.set_byte_state(&world.storage_id, crate::ByteState::Available, 8_192, NOW)?;
            let item = OutboxItem {
                to: None,
                purpose: "hint".into(),
                bytes: vec![1],
                held: false,
                created_ms: NOW,
            };
            txn.push_outbox(&item)?;
            // A version of an Inventory: its entries and its documents together.
            let (version, list) = inventory(world);
            txn.admit(world.sign(version, &world.founder), world.sealed(), NOW)?;
            txn.admit(world.sign(list, &world.founder), world.sealed(), NOW)?;
            txn.put_document(&DOCUMENTS, "a", &[3; 70_000])?;
            txn.put_document(&DOCUMENTS, "CURRENT", b"1")?;
            txn.put_meta(meta::NODE_NAME, b"step 3")
        },
        &|txn| {
            txn.put_mls(b"tree", &[1; 3_000])?;
            txn.put_mls(b"secrets", &[2; 3_000])?;
            let _ = txn.use_invite(&INVITE, &world.reader.site_id(), NOW)?;
            txn.put_meta(meta::NODE_NAME, b"step 4")
        },
        &|txn| {
            txn.raise_ceiling("seq", 2_000)?;
            txn.put_document(&DOCUMENTS, "CURRENT", b"2")?;
            txn.remove_document(&DOCUMENTS, "a")?;
            txn.remove_outbox(0)?;
            txn.remember_refusal(b"bad", "why", NOW)?;
            txn.put_meta(meta::NODE_NAME, b"step 5")
        },
        &|txn| {
            let kind = sovm_object::record::OpKind::Remove;
            let seen = [world.add_member().id()];
            let remove = world.op(
                Some(world.domain),
                kind,
                world.member.site_id(),
                Role::Writer,
                (6, 0),
                &seen,
            );
            txn.admit(remove, None, NOW)?;
            txn.put_meta(meta::NODE_NAME, b"step 6")
        },
        &|txn| {
            txn.remove_mls(b"tree")?;
            txn.forget_mesh()?;
            txn.put_meta(meta::NODE_NAME, b"step 7")
        },
    ];
    let run = |step: Step<'_>| {
        let mut txn = catalog.begin()?;
        step(&mut txn)?;
        txn.commit().map(drop)
    };
    steps.into_iter().take_while(|step| run(step).is_ok()).count() as u64
}

/// What must hold after each whole step, and nothing in between.
fn check_story(world: &World, catalog: &Catalog) -> u64 {
    let snapshot = catalog.read().unwrap();
    let done = snapshot.commit_counter().unwrap();
    let name = snapshot.meta(meta::NODE_NAME).unwrap();
    assert_eq!(name, (done > 0).then(|| format!("step {done}").into_bytes()));
    let has = |from: u64| (from..7).contains(&done);
    assert_eq!(snapshot.mesh_id().unwrap().is_some(), has(1));
    assert_eq!(snapshot.tables().unwrap().len(), usize::from(has(2)));
    let objects = snapshot.objects(&world.table_id, &world.ring()).unwrap();
    assert_eq!(
        objects.len(),
        usize::from(has(3) && done < 6),
        "manifest, grant and bytes come together"
    );
    assert!(
        objects
            .iter()
            .all(|object| object.state == crate::ObjectState::Queryable)
    );
    let (tree, secrets) = (snapshot.mls(b"tree").unwrap(), snapshot.mls(b"secrets").unwrap());
    assert_eq!((tree.is_some(), secrets.is_some()), (has(4), has(4)), "a torn merge");
    let invite = snapshot.invite(&INVITE).unwrap();
    assert_eq!(
        invite.map(|invite| invite.uses_left),
        has(2).then(|| u64::from(done < 4))
    );
    assert_eq!(snapshot.outbox().unwrap().len(), usize::from(has(3) && done < 5));
    assert_eq!(
        snapshot.unpublished().unwrap().len(),
        usize::from(done == 2),
        "the journal row ends with the step that publishes"
    );
    let versions = snapshot
        .inventory_versions(&world.domain, &DOCUMENTS.catalog, (0, 0))
        .unwrap();
    assert_eq!(versions.len(), usize::from(has(3)));
    assert!(versions.iter().all(|(.., state)| state.is_accepted()));
    assert_eq!(
        snapshot.inventory_catalogs().unwrap(),
        has(3).then_some((world.domain, DOCUMENTS.catalog)).as_slice()
    );
    let mut wanted = snapshot.pending_bytes().unwrap();
    wanted.retain(|object| object.accepted);
    assert_eq!(wanted.len(), if has(3) { 2 } else { 0 }, "bundle and list");
    assert_eq!(
        snapshot.document(&DOCUMENTS, "a").unwrap(),
        (has(3) && done < 5).then(|| vec![3; 70_000]),
        "documents and their versions come together"
    );
    let current = snapshot.document(&DOCUMENTS, "CURRENT").unwrap();
    assert_eq!(
        current,
        has(3).then(|| if done < 5 { b"1".to_vec() } else { b"2".to_vec() })
    );
    assert_eq!(snapshot.ceiling("seq").unwrap(), has(5).then_some(2_000));
    assert_eq!(snapshot.counts().unwrap().refused, if done == 6 { 2 } else { 0 });
    check_indexes(catalog);
    done
}

/// SOP-241, `mls.md` 1.4 T1: power lost at writes and syncs of every step; each step is whole or absent, and what returned is kept.
#[test]
fn power_cut_at_every_step() {
    let world = World::new();
    let fresh = CrashDisk::default();
    drop(Catalog::on_disk(&fresh).unwrap());
    let image = fresh.bytes();
    let probe = CrashDisk::with_image(image.clone());
    let catalog = Catalog::on_disk(&probe).unwrap();
    let opened = probe.steps();
    assert_eq!(story(&world, &catalog), 7);
    assert_eq!(check_story(&world, &catalog), 7);
    let total = probe.steps() - opened;
    assert!(total > 100, "the test must see many steps, saw {total}");
    let mut seen = std::collections::BTreeSet::new();
    // The last round has no power cut inside the story.
    for at in 0..=total {
        let disk = CrashDisk::with_image(image.clone());
        let catalog = Catalog::on_disk(&disk).unwrap();
        disk.die_at(disk.steps() + at);
        let returned = story(&world, &catalog);
        let crashed = disk.after_crash(at);
        drop(catalog);
        let reopened = Catalog::on_disk(&crashed).unwrap();
        let found = check_story(&world, &reopened);
        assert!(
            found == returned || found == returned + 1,
            "write {at}: {returned} steps returned, {found} found"
        );
        seen.insert(found);
        // It goes on from there.
        let mut txn = reopened.begin().unwrap();
        txn.put_meta("after", b"crash").unwrap();
        assert_eq!(txn.commit().unwrap().counter, found + 1);
    }
    assert_eq!(seen, (0..=7).collect(), "every end of the story must be seen");
}

/// A power cut while the catalogue is first made leaves a home that opens: the file gets its name when it is whole.
#[test]
fn making_that_was_cut_short_starts_again() {
    let dir = tempfile::tempdir().unwrap();
    let whole = tempfile::tempdir().unwrap();
    drop(Catalog::open(whole.path(), &key()).unwrap());
    let image = fs::read(whole.path().join("catalog.redb")).unwrap();
    for cut in [0, 100, 512, 4_096, image.len() - 1, image.len()] {
        fs::write(dir.path().join("catalog.new"), &image[..cut]).unwrap();
        fs::write(dir.path().join("catalog.salt.new"), b"half").unwrap();
        let catalog = Catalog::open(dir.path(), &key()).unwrap();
        assert_eq!(catalog.read().unwrap().commit_counter().unwrap(), 0, "cut at {cut}");
        assert!(!dir.path().join("catalog.new").exists());
        drop(catalog);
        fs::remove_file(dir.path().join("catalog.redb")).unwrap();
    }
    // An empty file is no new catalogue: something took its content away.
    fs::write(dir.path().join("catalog.redb"), b"").unwrap();
    assert!(matches!(
        Catalog::open(dir.path(), &key()),
        Err(OpenError::Store(StoreError::Damaged(_)))
    ));
}

fn files(dir: &Path) -> Vec<u8> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    names
        .flat_map(|path| {
            [
                path.to_string_lossy().into_owned().into_bytes(),
                fs::read(path).unwrap(),
            ]
            .concat()
        })
        .collect()
}

/// DESIGN §5, SOP-147: planted words of domain, table, column, value and device names are nowhere in the home while it is open and
/// after.
#[test]
fn planted_words_are_not_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new();
    let catalog = Catalog::open(dir.path(), &key()).unwrap();
    let mut txn = catalog.begin().unwrap();
    world.found(&mut txn);
    world.admit(&mut txn, world.signed_manifest());
    world.admit(&mut txn, world.sign(world.access(), &world.member));
    txn.put_meta(meta::NODE_NAME, b"planted-device-word").unwrap();
    txn.put_mls(b"planted-mls-word", b"planted-mls-secret").unwrap();
    txn.put_document(&DOCUMENTS, "planted-path-word", b"planted-document-word")
        .unwrap();
    txn.byte_event(&world.storage_id, ByteEvent::Arrived, None, NOW)
        .unwrap();
    let _ = txn.commit().unwrap();
    let open = files(dir.path());
    drop(catalog);
    for bytes in [open, files(dir.path())] {
        assert!(bytes.len() > 10_000);
        for word in ["planted", "entries-1", "meta-1", "redb", "temp"] {
            let found = bytes.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(
                !found || word == "redb" && !bytes.windows(9).any(|w| w == b"redb\x1a\x0a\xa9\x0d\x0a"),
                "{word}"
            );
        }
        // Nor the bytes of a manifest, signed or not.
        let manifest = world.signed_manifest();
        assert!(!bytes.windows(64).any(|window| window == &manifest.bytes()[40..104]));
    }
}

/// Everything survives closing and opening again (SOP-265).
#[test]
fn reopening_finds_everything() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new();
    let catalog = Catalog::open(dir.path(), &key()).unwrap();
    assert_eq!(story(&world, &catalog), 7);
    drop(catalog);
    let catalog = Catalog::open(dir.path(), &key()).unwrap();
    assert_eq!(check_story(&world, &catalog), 7);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(dir.path().join("catalog.redb"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "others may not read it");
    }
}

/// DESIGN §15: wrong key, missing or damaged side file, damaged pages: an error that says what to do, and no panic.
#[test]
fn unfit_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (redb, salt) = (dir.path().join("catalog.redb"), dir.path().join("catalog.salt"));
    drop(Catalog::open(dir.path(), &key()).unwrap());
    let wrong = Catalog::open(dir.path(), &DatabaseKey::from_bytes([8; 32]));
    assert!(matches!(wrong, Err(OpenError::Salt(SaltError::WrongKey))));
    let good = fs::read(&redb).unwrap();
    for (from, to) in [(0, 512), (0, 64)] {
        let mut bad = good.clone();
        bad[from..to].fill(0x5a);
        fs::write(&redb, &bad).unwrap();
        assert!(
            matches!(
                Catalog::open(dir.path(), &key()),
                Err(OpenError::Store(StoreError::Damaged(_)))
            ),
            "{to}"
        );
    }
    fs::write(&redb, &good).unwrap();
    let kept = fs::read(&salt).unwrap();
    fs::remove_file(&salt).unwrap();
    assert!(matches!(Catalog::open(dir.path(), &key()), Err(OpenError::SaltMissing)));
    fs::write(&salt, &kept[..10]).unwrap();
    assert!(matches!(
        Catalog::open(dir.path(), &key()),
        Err(OpenError::Salt(SaltError::Damaged))
    ));
    fs::write(&salt, &kept).unwrap();
    drop(Catalog::open(dir.path(), &key()).unwrap());
    let nowhere = Catalog::open(&dir.path().join("nowhere"), &key());
    assert!(matches!(nowhere, Err(OpenError::Salt(SaltError::Io(_)))));
}

/// DESIGN §5: a catalogue restored from an older copy is behind the key store's counter, and says so.
#[test]
fn restored_copy_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.redb");
    let commit = |catalog: &Catalog| {
        let mut txn = catalog.begin().unwrap();
        txn.put_meta("x", b"y").unwrap();
        txn.commit().unwrap().counter
    };
    let catalog = Catalog::open(dir.path(), &key()).unwrap();
    assert_eq!(commit(&catalog), 1);
    drop(catalog);
    let copy = fs::read(&path).unwrap();
    let catalog = Catalog::open(dir.path(), &key()).unwrap();
    let key_store = [commit(&catalog), commit(&catalog)][1];
    assert_eq!(catalog.compare_counter(key_store).unwrap(), CounterCheck::Current);
    drop(catalog);
    fs::write(&path, copy).unwrap();
    let catalog = Catalog::open(dir.path(), &key()).unwrap();
    assert_eq!(
        catalog.compare_counter(key_store).unwrap(),
        CounterCheck::Behind {
            catalog: 1,
            key_store: 3
        }
    );
}

/// Clones share one database: a writer and many readers at once see whole steps only.
#[test]
fn readers_beside_a_writer_see_whole_steps() {
    let catalog = catalog();
    let writer = catalog.clone();
    let write = std::thread::spawn(move || {
        for n in 0..50u64 {
            let mut txn = writer.begin().unwrap();
            txn.put_mls(b"a", &n.to_be_bytes()).unwrap();
            txn.put_mls(b"b", &n.to_be_bytes()).unwrap();
            let _ = txn.commit().unwrap();
        }
    });
    while !write.is_finished() {
        let snapshot = catalog.read().unwrap();
        assert_eq!(snapshot.mls(b"a").unwrap(), snapshot.mls(b"b").unwrap());
    }
    write.join().unwrap();
    assert_eq!(catalog.read().unwrap().commit_counter().unwrap(), 50);
}
