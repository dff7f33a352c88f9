//! Manifests of newer builds: which are kept unread, and which are bad whatever their version.

use super::*;
use crate::{
    cbor::{from_slice, to_vec},
    entry::{EntryIn, EntryKind, VerifiedEntry},
    record::manifest::tests::manifest_of,
    secret::SiteKey,
    sign::{Signed, VerifyError},
};

const MESH: MeshId = MeshId::from_bytes([7; 32]);

fn producer() -> SiteKey {
    SiteKey::from_seed(&[1; 32])
}

fn item(value: &impl Field) -> Vec<u8> {
    let mut e = Encoder::new();
    e.field(value);
    e.into_vec()
}

/// A map of encoded values, written as they come.
fn map(pairs: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut e = Encoder::new();
    e.map(pairs.len());
    for (key, value) in pairs {
        e.uint(*key).encoded(value);
    }
    e.into_vec()
}

/// A manifest as a later build might write it: the fixed fields, and others that nobody knows yet.
fn later(version: u64, kind: u64, profile: Option<u64>) -> Vec<u8> {
    let mut pairs = vec![
        (1, item(&version)),
        (2, item(&MESH)),
        (3, item(&kind)),
        (4, item(&StorageId::from_bytes([1; 32]))),
        (8, item(&producer().site_id())),
        (10, item(&Hlc::new(5, 0))),
    ];
    pairs.extend(profile.map(|profile| (26, item(&profile))));
    // ["later", {1: null}]
    pairs.push((99, hex::decode("82656c61746572a101f6").unwrap()));
    map(&pairs)
}

fn signed(payload: &[u8]) -> Vec<u8> {
    let outline: ManifestOutline = from_slice(payload).unwrap();
    Signed::sign(outline, &producer(), &MESH).bytes().to_vec()
}

/// SOP-4: a newer version, kind or profile is told apart from a bad manifest, its signature is checked, and its bytes are the same.
#[test]
fn what_is_newer_is_kept() {
    for (version, kind, profile) in [
        (2, 1, Some(1)),
        (9, 77, None),
        (1, 10, Some(1)),
        (1, 1, Some(3)),
        (u64::MAX, 0, None),
    ] {
        let bytes = signed(&later(version, kind, profile));
        let entry = EntryIn::decode(&bytes).unwrap();
        assert_eq!(entry.kind(), EntryKind::NewerManifest, "{version} {kind} {profile:?}");
        let entry = entry.verify(&MESH).unwrap();
        assert_eq!((entry.bytes(), entry.author()), (&bytes[..], producer().site_id()));
        assert_eq!((entry.hlc(), entry.domain()), (Hlc::new(5, 0), None));
        let VerifiedEntry::NewerManifest(outline) = entry else {
            panic!("not a newer manifest")
        };
        let outline = outline.body();
        assert_eq!(
            (outline.version, outline.kind, outline.profile),
            (version, kind, profile)
        );
    }
}

/// SOP-4: what this build knows and finds wrong is refused as before; a newer number is no way around any check.
#[test]
fn what_is_known_and_bad_is_refused() {
    // Version, kind and profile are known, so the unknown field is an error.
    assert_eq!(
        EntryIn::decode(&signed(&later(1, 1, Some(1)))).err(),
        Some(DecodeError::Unknown(99))
    );
    assert_eq!(
        EntryIn::decode(&signed(&later(1, 8, None))).err(),
        Some(DecodeError::Unknown(99))
    );
    let known = to_vec(&manifest_of(ObjectKind::Data));
    assert!(matches!(EntryIn::decode(&signed(&known)), Ok(EntryIn::Manifest(_))));
    let good = later(2, 9, Some(3));
    for (at, what) in [
        (1, "version"),
        (2, "mesh"),
        (3, "kind"),
        (4, "object"),
        (8, "producer"),
        (10, "stamp"),
    ] {
        let outline = from_slice::<ManifestOutline>(&without(&good, at));
        assert_eq!(outline.err(), Some(DecodeError::Missing(at)), "no {what}");
    }
    let version = (1, item(&2_u64));
    let bad = [
        ("trailing byte", [&good[..], &[0]].concat()),
        ("cut short", good[..good.len() - 1].to_vec()),
        ("field twice", map(&[version.clone(), version.clone()])),
        ("keys not ascending", map(&[(2, item(&MESH)), version.clone()])),
        ("no map", vec![0x01]),
    ];
    for (why, payload) in bad {
        assert!(from_slice::<ManifestOutline>(&payload).is_err(), "{why}");
    }
    let long = map(&[version, (99, item(&vec![0_u8; 70_000]))]);
    assert!(matches!(
        from_slice::<ManifestOutline>(&long),
        Err(DecodeError::TooLong { .. })
    ));
}

fn without(payload: &[u8], key: u64) -> Vec<u8> {
    let mut d = Decoder::new(payload);
    let mut kept = vec![];
    for _ in 0..d.map().unwrap() {
        let found = d.uint().unwrap();
        let value = d.any().unwrap().to_vec();
        if found != key {
            kept.push((found, value));
        }
    }
    map(&kept)
}

/// SOP-4, SOP-134: another mesh, another author or one changed bit is refused whatever the version says.
#[test]
fn signatures_are_checked_all_the_same() {
    let bytes = signed(&later(2, 1, Some(1)));
    let other = MeshId::from_bytes([8; 32]);
    assert_eq!(
        EntryIn::decode(&bytes).unwrap().verify(&other).err(),
        Some(VerifyError::WrongMesh)
    );
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        let verified = EntryIn::decode(&bad).map(|entry| entry.verify(&MESH));
        assert!(!matches!(verified, Ok(Ok(_))), "byte {at}");
    }
}
