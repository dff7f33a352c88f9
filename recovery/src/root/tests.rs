use sovm_object::{id::DekCommitment, sign::Body as _};

use super::*;
use crate::{
    checkpoint::{CheckpointBody, CheckpointObject},
    plan::tests::World,
};

struct Setup {
    world: World,
    root: Root,
    draft: RootDraft,
    ring: KekRing,
    issuer: SiteKey,
    believed: BTreeSet<SiteId>,
}

fn object(world: &mut World, issuer: &SiteKey) -> CheckpointObject {
    let body = CheckpointBody::divide(world.mesh, world.domain, world.records()).remove(0);
    world.object(&body, issuer)
}

fn setup() -> Setup {
    let mut world = World::new();
    let issuer = SiteKey::from_seed(&[1; 32]);
    let object = object(&mut world, &issuer);
    let draft = world.draft(&object, None);
    let kek = world.newest();
    let root = Root::seal(draft.clone(), &issuer, (kek.generation, kek.id, &kek.kek()));
    let ring = world.ring_body(root.id(), &issuer).ring;
    let believed = [issuer.site_id()].into();
    Setup {
        world,
        root,
        draft,
        ring,
        issuer,
        believed,
    }
}

impl Setup {
    fn open(&self, bytes: &[u8], ring: &KekRing) -> Result<Root, RootError> {
        RootIn::decode(storage_id(bytes), bytes)?.open(ring, None)?.verify(
            &self.world.mesh,
            &self.world.domain,
            &self.believed,
        )
    }

    /// Signs any body and seals it under any KEK, as a member who holds the KEK could.
    fn forge(&self, change: impl FnOnce(&mut RecoveryRootBody), by: &SiteKey, kek: &Kek) -> Vec<u8> {
        let mut body = self.root.body().clone();
        change(&mut body);
        let mesh = body.mesh_id;
        let signed = Signed::sign(body, by, &mesh);
        seal0::seal(
            kek.expose_for_sealing(),
            CONTENT_TYPE,
            None,
            CONTENT_TYPE.as_bytes(),
            signed.bytes(),
        )
    }

    fn refused(&self, change: impl FnOnce(&mut RecoveryRootBody)) -> RootError {
        let bytes = self.forge(change, &self.issuer, &self.world.newest().kek());
        self.open(&bytes, &self.ring).unwrap_err()
    }
}

/// SOP-202, SOP-203: the envelope, the id, and the way back.
#[test]
fn a_root_opens_to_what_was_sealed() {
    let s = setup();
    assert_eq!(s.root.id(), storage_id(s.root.bytes()));
    let opened = s.open(s.root.bytes(), &s.ring).unwrap();
    assert_eq!(opened.body(), s.root.body());
    assert_eq!(opened.reference(), s.root.reference());
    assert_eq!(opened.access().id(), s.draft.access.id());
    assert_eq!(
        (
            s.root.body().recovery_generation,
            s.root.body().previous_recovery_root_id
        ),
        (FIRST_ROOT, None)
    );
    assert_eq!(s.root.bytes()[0], 0xd0);
}

/// SOP-206, SOP-219: a follower names its predecessor's id and number plus one.
#[test]
fn a_follower_is_linked() {
    let mut s = setup();
    let issuer = SiteKey::from_seed(&[1; 32]);
    let object = object(&mut s.world, &issuer);
    let draft = s.world.draft(&object, Some(&s.root));
    let kek = s.world.newest();
    let next = Root::seal(draft, &issuer, (kek.generation, kek.id, &kek.kek()));
    assert_eq!(next.body().previous_recovery_root_id, Some(s.root.id()));
    assert_eq!(next.body().recovery_generation, 2);
}

/// SOP-207: nothing of the root stands in the blob in clear, and its length is one of few.
#[test]
fn the_blob_shows_nothing() {
    let s = setup();
    let body = s.root.body();
    let planted: [&[u8]; 6] = [
        body.mesh_id.as_bytes(),
        body.domain_id.as_bytes(),
        body.kek_id.as_bytes(),
        body.issuer.as_bytes(),
        body.checkpoint_storage_id.as_bytes(),
        RecoveryRootBody::CONTENT_TYPE.as_bytes(),
    ];
    for needle in planted {
        assert!(!s.root.bytes().windows(needle.len()).any(|w| w == needle));
    }
    let len = s.root.bytes().len() as u64;
    assert!(RootIn::may_be_root(len), "{len}");
    assert!(len == 1_024 || len == 2_048, "{len}");
    assert!(!RootIn::may_be_root(len + 1) && !RootIn::may_be_root(1 << 20));
}

/// Every length of the content reaches a rung exactly.
#[test]
fn every_root_has_a_length_of_the_ladder() {
    let s = setup();
    let kek = s.world.newest();
    for heads in 0..8 {
        for seq in [1, 30, 300, 70_000, u64::MAX] {
            let ops_seen = (0..heads).map(|n| RecordId::from_bytes([n; 32])).collect();
            let draft = RootDraft {
                ops_seen,
                seq,
                ..s.draft.clone()
            };
            let root = Root::seal(draft, &s.issuer, (kek.generation, kek.id, &kek.kek()));
            assert!(RootIn::may_be_root(root.bytes().len() as u64));
            assert!(s.open(root.bytes(), &s.ring).is_ok());
        }
    }
}

/// SOP-214: the id, the tag and the envelope.
#[test]
fn every_flipped_byte_is_refused() {
    let s = setup();
    for at in 0..s.root.bytes().len() {
        let mut bad = s.root.bytes().to_vec();
        bad[at] ^= 1;
        assert_eq!(
            RootIn::decode(s.root.id(), &bad).unwrap_err(),
            RootError::WrongHash,
            "{at}"
        );
        assert!(s.open(&bad, &s.ring).is_err(), "{at}");
    }
    for cut in [0, 1, 100, s.root.bytes().len() - 1] {
        assert_eq!(
            s.open(&s.root.bytes()[..cut], &s.ring).unwrap_err(),
            RootError::NotARoot
        );
    }
}

/// SOP-220: the generation that is missing is named.
#[test]
fn a_missing_kek_is_named() {
    let s = setup();
    let root = || RootIn::decode(s.root.id(), s.root.bytes()).unwrap();
    let empty = KekRing::default();
    assert_eq!(
        root().open(&empty, Some(4)).unwrap_err(),
        RootError::NoKek {
            wanted: Some(4),
            held: 0
        }
    );
    let mut others = KekRing::default();
    others.insert(1, KekId::from_bytes([0xaa; 16]), Kek::from_bytes([1; 32]));
    let error = root().open(&others, Some(1)).unwrap_err();
    assert!(error.to_string().contains("generation 1 is missing"), "{error}");
    assert!(matches!(
        root().open(&others, None),
        Err(RootError::NoKek { wanted: None, held: 1 })
    ));
}

/// SOP-221: several KEKs bear one generation; the right one is found, also when another generation was named.
#[test]
fn forked_generations_are_all_tried() {
    let s = setup();
    let mut ring = KekRing::default();
    for byte in 0x90..0x98 {
        ring.insert(1, KekId::from_bytes([byte; 16]), Kek::from_bytes([byte; 32]));
    }
    ring.insert(2, KekId::from_bytes([0x99; 16]), Kek::from_bytes([0x99; 32]));
    let kek = s.world.newest();
    ring.insert(kek.generation, kek.id, kek.kek());
    for named in [None, Some(1), Some(2), Some(77)] {
        assert!(
            RootIn::decode(s.root.id(), s.root.bytes())
                .unwrap()
                .open(&ring, named)
                .is_ok()
        );
    }
}

/// SOP-222: the generation or KEK inside is not that of the key it is sealed with.
#[test]
fn a_root_must_name_its_own_kek() {
    let s = setup();
    assert_eq!(
        s.refused(|body| body.kek_generation = 9),
        RootError::WrongKek { sealed: 1, says: 9 }
    );
    assert!(matches!(
        s.refused(|body| body.kek_id = KekId::from_bytes([9; 16])),
        RootError::WrongKek { .. }
    ));
    // Sealed under an old KEK that leaked, naming the current one.
    let leaked = Kek::from_bytes([0x31; 32]);
    let mut ring = KekRing::default();
    ring.insert(0, KekId::from_bytes([0x31; 16]), Kek::from_bytes([0x31; 32]));
    let bytes = s.forge(|_| {}, &s.issuer, &leaked);
    assert_eq!(
        s.open(&bytes, &ring).unwrap_err(),
        RootError::WrongKek { sealed: 0, says: 1 }
    );
}

/// SOP-214: mesh and domain.
#[test]
fn foreign_roots_are_refused() {
    let s = setup();
    let other = MeshId::from_bytes([0x77; 32]);
    assert_eq!(
        s.refused(|body| body.mesh_id = other),
        RootError::WrongMesh {
            expected: s.world.mesh,
            found: other
        }
    );
    assert_eq!(
        s.refused(|body| body.domain_id = DomainId::from_bytes([0x77; 32])),
        RootError::WrongDomain
    );
}

/// SOP-224: signed by a key nobody knows, or not at all by the one it names.
#[test]
fn only_believed_issuers_count() {
    let s = setup();
    let stranger = SiteKey::from_seed(&[0x66; 32]);
    let kek = s.world.newest().kek();
    let bytes = s.forge(|body| body.issuer = stranger.site_id(), &stranger, &kek);
    assert_eq!(
        s.open(&bytes, &s.ring).unwrap_err(),
        RootError::UnknownIssuer(stranger.site_id())
    );

    // The stranger's signature under the admin's name: take the admin's envelope and change one byte of what is signed.
    let mut signed = Signed::sign(s.root.body().clone(), &s.issuer, &s.world.mesh)
        .bytes()
        .to_vec();
    let seq = signed.len() - 70;
    signed[seq] ^= 0;
    let last = signed.len() - 1;
    signed[last] ^= 1;
    let bytes = seal0::seal(
        kek.expose_for_sealing(),
        CONTENT_TYPE,
        None,
        CONTENT_TYPE.as_bytes(),
        &signed,
    );
    assert_eq!(s.open(&bytes, &s.ring).unwrap_err(), RootError::BadSignature);
}

/// SOP-204, SOP-214, SOP-223: the access record inside must be a complete one, for this checkpoint.
#[test]
fn the_access_record_must_fit() {
    let s = setup();
    let access = |change: fn(&mut AccessRecord), mesh: MeshId| {
        let mut record = s.draft.access.body().clone();
        change(&mut record);
        Signed::sign(record, &s.issuer, &mesh).bytes().to_vec()
    };
    let mesh = s.world.mesh;
    let cases: [(Vec<u8>, &str); 7] = [
        (vec![], "malformed"),
        (s.draft.access.bytes()[1..].to_vec(), "malformed"),
        (
            access(|r| r.storage_id = StorageId::from_bytes([9; 32]), mesh),
            "another object",
        ),
        (
            access(|r| r.object_manifest_hash = ManifestHash::from_bytes([9; 32]), mesh),
            "another manifest",
        ),
        (
            access(|r| r.domain_id = DomainId::from_bytes([9; 32]), mesh),
            "another domain",
        ),
        (
            access(|r| r.mesh_id = MeshId::from_bytes([9; 32]), mesh),
            "another mesh",
        ),
        (
            access(
                |r| r.dek_commitment = DekCommitment::from_bytes([9; 32]),
                MeshId::from_bytes([9; 32]),
            ),
            "signature",
        ),
    ];
    for (bytes, why) in cases {
        let error = s.refused(|body| body.checkpoint_access_record = bytes);
        assert!(
            matches!(error, RootError::Access(_)) && error.to_string().contains(why),
            "{why}: {error}"
        );
    }
    let error = s.refused(|body| body.checkpoint_storage_id = StorageId::from_bytes([9; 32]));
    assert!(matches!(error, RootError::Access(_)), "{error}");
    let error = s.refused(|body| body.checkpoint_manifest_hash = ManifestHash::from_bytes([9; 32]));
    assert!(matches!(error, RootError::Access(_)), "{error}");
}

/// SOP-202: padding that is not zeros, and payloads of another kind, are refused.
#[test]
fn malformed_insides_are_refused() {
    let s = setup();
    assert!(matches!(
        s.refused(|body| body.padding = vec![1; 20]),
        RootError::Malformed(_)
    ));
    let kek = s.world.newest().kek();
    let seal = |plain: &[u8], content_type: &str, kid: Option<&[u8]>| {
        seal0::seal(
            kek.expose_for_sealing(),
            content_type,
            kid,
            CONTENT_TYPE.as_bytes(),
            plain,
        )
    };
    let signed = Signed::sign(s.root.body().clone(), &s.issuer, &s.world.mesh)
        .bytes()
        .to_vec();
    let malformed = [&b""[..], b"\xa0", s.draft.access.bytes(), &signed[..signed.len() - 1]];
    for plain in malformed {
        assert!(matches!(
            s.open(&seal(plain, CONTENT_TYPE, None), &s.ring),
            Err(RootError::Malformed(_))
        ));
    }
    assert_eq!(
        s.open(&seal(&signed, "sovm/entry-v1", None), &s.ring).unwrap_err(),
        RootError::NotARoot
    );
    assert_eq!(
        s.open(&seal(&signed, CONTENT_TYPE, Some(&[1; 16])), &s.ring)
            .unwrap_err(),
        RootError::NotARoot
    );
    assert!(s.open(&seal(&signed, CONTENT_TYPE, None), &s.ring).is_ok());
}
