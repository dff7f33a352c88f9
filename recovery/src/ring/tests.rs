use super::*;
use crate::plan::tests::World;

fn root() -> StorageId {
    StorageId::from_bytes([9; 32])
}

fn sealed(world: &World) -> RingBlob {
    let issuer = SiteKey::from_seed(&[1; 32]);
    RingBlob::seal(world.ring_body(root(), &issuer), &[world.kit.age_recipient()], &issuer).unwrap()
}

fn open(blob: &RingBlob, kit: &Kit) -> Result<OpenedRing, RingError> {
    OpenedRing::open(blob.id(), blob.bytes(), kit, (None, None))
}

/// SOP part 2.16: what goes in comes out, for every kit named.
#[test]
fn every_kit_opens_it() {
    let mut world = World::new();
    world.rotate();
    let second = Kit::generate();
    let issuer = SiteKey::from_seed(&[1; 32]);
    let mut body = world.ring_body(root(), &issuer);
    body.kits.insert(second.id());
    let blob = RingBlob::seal(body, &[world.kit.age_recipient(), second.age_recipient()], &issuer).unwrap();
    for kit in [&world.kit, &second] {
        let opened = open(&blob, kit).unwrap();
        let body = opened.body();
        assert_eq!(
            (body.mesh_id, body.domain_id, body.newest_root),
            (world.mesh, world.domain, root())
        );
        assert_eq!(body.ring.len(), 2);
        for kek in &world.keks {
            assert_eq!(body.ring.get(&kek.id).unwrap().expose_for_sealing(), &kek.bytes);
            assert_eq!(body.ring.generation(&kek.id), Some(kek.generation));
        }
        assert_eq!(body.admins.len(), 2);
        assert_eq!(opened.id(), blob.id());
    }
}

/// SOP part 2.16: 4,096, 8,192, then Padmé, whatever age's random stanza does to the header.
#[test]
fn lengths_are_those_of_the_ladder() {
    let mut world = World::new();
    let mut seen = BTreeSet::new();
    for generation in 2..400 {
        world.mint(generation, generation as u8);
        let last = world.keks.len() - 1;
        let id: [u8; 16] = std::array::from_fn(|i| if i < 8 { generation.to_le_bytes()[i] } else { 7 });
        world.keks[last].id = sovm_object::id::KekId::from_bytes(id);
        if generation % 13 == 0 {
            let blob = sealed(&world);
            assert!(
                RingBlob::may_be_ring(blob.bytes().len() as u64),
                "{}",
                blob.bytes().len()
            );
            assert!(open(&blob, &world.kit).is_ok());
            seen.insert(blob.bytes().len());
        }
    }
    assert!(
        seen.contains(&4_096) && seen.contains(&8_192) && seen.len() > 4,
        "{seen:?}"
    );
}

/// SOP-207 for rings: the blob names nothing.
#[test]
fn the_blob_shows_nothing() {
    let world = World::new();
    let blob = sealed(&world);
    let admin = world.admin.site_id();
    let kit = world.kit.id();
    let kek = world.newest();
    let needles: [&[u8]; 5] = [
        world.mesh.as_bytes(),
        world.domain.as_bytes(),
        admin.as_bytes(),
        kit.as_bytes(),
        &kek.bytes,
    ];
    for needle in needles {
        assert!(!blob.bytes().windows(needle.len()).any(|w| w == needle));
    }
}

#[test]
fn a_retired_kit_opens_nothing_new() {
    let world = World::new();
    let issuer = SiteKey::from_seed(&[1; 32]);
    let fresh = Kit::generate();
    let mut body = world.ring_body(root(), &issuer);
    body.kits = [fresh.id()].into();
    let blob = RingBlob::seal(body, &[fresh.age_recipient()], &issuer).unwrap();
    assert_eq!(open(&blob, &world.kit).unwrap_err(), RingError::NotForThisKit);
    assert!(open(&blob, &fresh).is_ok());
    let body = world.ring_body(root(), &issuer);
    assert_eq!(RingBlob::seal(body, &[], &issuer).unwrap_err(), RingSealError::NoKit);
}

#[test]
fn damage_and_foreign_files_are_refused() {
    let world = World::new();
    let blob = sealed(&world);
    for at in (0..blob.bytes().len()).step_by(11) {
        let mut bad = blob.bytes().to_vec();
        bad[at] ^= 1;
        assert_eq!(
            OpenedRing::open(blob.id(), &bad, &world.kit, (None, None)).unwrap_err(),
            RingError::WrongHash
        );
        assert!(
            OpenedRing::open(storage_id(&bad), &bad, &world.kit, (None, None)).is_err(),
            "byte {at}"
        );
    }
    for foreign in [&b""[..], b"PARE", &[0; 4_096]] {
        let error = OpenedRing::open(storage_id(foreign), foreign, &world.kit, (None, None)).unwrap_err();
        assert!(
            matches!(error, RingError::NotForThisKit | RingError::Damaged(_)),
            "{error}"
        );
    }
}

/// The signature ties the blob together: a holder of the recipient cannot write one in an admin's name, nor one whose
/// writer is not among its own admins.
#[test]
fn only_an_admin_it_lists_may_sign() {
    let world = World::new();
    let writer = SiteKey::from_seed(&[6; 32]);
    let blob = RingBlob::seal(world.ring_body(root(), &writer), &[world.kit.age_recipient()], &writer).unwrap();
    assert_eq!(open(&blob, &world.kit).unwrap_err(), RingError::NotByAdmin);

    // An admin's signed inside, moved to another root and encrypted again.
    let issuer = SiteKey::from_seed(&[1; 32]);
    let honest = Padded {
        body: Arc::new(world.ring_body(root(), &issuer)),
        zeros: 0,
    };
    let signed = Signed::sign(honest, &issuer, &world.mesh).bytes().to_vec();
    let other_root = [8; 32];
    let at = signed.windows(32).position(|w| w == root().as_bytes()).unwrap();
    let mut moved = signed.clone();
    moved[at..at + 32].copy_from_slice(&other_root);
    for (plain, refused) in [(signed.clone(), false), (moved, true)] {
        let file = wrap(&world.kit, &plain);
        let result = OpenedRing::open(storage_id(&file), &file, &world.kit, (None, None));
        assert_eq!(matches!(result, Err(RingError::NotByAdmin)), refused);
    }
    for malformed in [&b""[..], b"\xa0", &signed[..100]] {
        if malformed.is_empty() {
            continue;
        }
        let file = wrap(&world.kit, malformed);
        assert!(matches!(
            OpenedRing::open(storage_id(&file), &file, &world.kit, (None, None)),
            Err(RingError::Malformed(_))
        ));
    }
}

/// An age file with exactly this plaintext, of whatever length.
fn wrap(kit: &Kit, plain: &[u8]) -> Vec<u8> {
    let targets = 1..1_000_000;
    let fill = |room| (room == plain.len()).then(|| Zeroizing::new(plain.to_vec()));
    age_file::seal_sized(Lock::Recipients(&[kit.age_recipient()]), targets, fill).unwrap()
}

#[test]
fn it_must_name_the_kit_that_opens_it() {
    let world = World::new();
    let issuer = SiteKey::from_seed(&[1; 32]);
    let mut body = world.ring_body(root(), &issuer);
    body.kits.clear();
    let blob = RingBlob::seal(body, &[world.kit.age_recipient()], &issuer).unwrap();
    assert_eq!(open(&blob, &world.kit).unwrap_err(), RingError::KitNotListed);
}

/// lessons.md: a kit of another mesh is refused with both fingerprints.
#[test]
fn mesh_and_domain_of_the_page_must_fit() {
    let world = World::new();
    let blob = sealed(&world);
    let at = |mesh: Option<&MeshId>, domain: Option<&DomainId>| {
        OpenedRing::open(blob.id(), blob.bytes(), &world.kit, (mesh, domain))
    };
    assert!(at(Some(&world.mesh), Some(&world.domain)).is_ok());
    let other = MeshId::from_bytes([0x55; 32]);
    let error = at(Some(&other), None).unwrap_err();
    let (expected, found) = (Fingerprint::of_mesh(&other), Fingerprint::of_mesh(&world.mesh));
    assert_eq!(error, RingError::WrongMesh { expected, found });
    assert_eq!(
        at(None, Some(&DomainId::from_bytes([0x55; 32]))).unwrap_err(),
        RingError::WrongDomain
    );
}
