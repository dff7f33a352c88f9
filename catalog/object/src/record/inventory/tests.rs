use super::*;
use crate::{
    cbor::{Payload as _, from_slice, to_vec},
    entry::{EntryIn, EntryKind},
    record::MAX_OPS_SEEN,
    secret::SiteKey,
    sign::{Signed, VerifyError},
};

const MESH: MeshId = MeshId::from_bytes([7; 32]);

fn key() -> SiteKey {
    SiteKey::from_seed(&[1; 32])
}

fn version() -> InventoryVersion {
    InventoryVersion {
        mesh_id: MESH,
        domain_id: DomainId::from_bytes([2; 32]),
        catalog_id: [3; 16],
        restore_epoch: 4,
        version: 5,
        root_sha256: [6; 32],
        previous: Some([8; 32]),
        bundle: StorageId::from_bytes([9; 32]),
        authority: key().site_id(),
        seq: 10,
        ops_seen: vec![],
        hlc: Hlc::new(11, 0),
    }
}

fn object(number: usize) -> StorageId {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
    StorageId::from_bytes(bytes)
}

fn list(count: usize) -> PrefetchList {
    PrefetchList {
        mesh_id: MESH,
        domain_id: DomainId::from_bytes([2; 32]),
        objects: (0..count).map(object).collect(),
        issuer: key().site_id(),
        seq: 10,
        ops_seen: vec![],
        hlc: Hlc::new(11, 0),
    }
}

fn nothing() -> StorageId {
    StorageId::from_bytes(*blake3::hash(&[]).as_bytes())
}

/// Both formats byte for byte, as `docs/formats.md` says and a few lines of Python wrote them from it.
#[test]
fn encodings_are_those_of_the_page() {
    let bytes = |byte: &str, count: usize| byte.repeat(count);
    let me = hex::encode(key().site_id().as_bytes());
    let expected = format!(
        "ad 0101 025820{} 035820{} 0450{} 0504 0605 075820{} 085820{} 095820{} 0a5820{me} 0b0a 0c80 0d1a000b0000",
        bytes("07", 32),
        bytes("02", 32),
        bytes("03", 16),
        bytes("06", 32),
        bytes("08", 32),
        bytes("09", 32),
    );
    assert_eq!(hex::encode(to_vec(&version())), expected.replace(' ', ""));
    let expected = format!(
        "a8 0101 025820{} 035820{} 04 82 5820{} 5820{} 055820{me} 060a 0780 081a000b0000",
        bytes("07", 32),
        bytes("02", 32),
        bytes("00", 32),
        format_args!("{}01{}", bytes("00", 7), bytes("00", 24)),
    );
    assert_eq!(hex::encode(to_vec(&list(2))), expected.replace(' ', ""));
}

/// Both are sealed entries of a domain, written by whom they name, in one mesh.
#[test]
fn they_are_entries_of_a_domain() {
    let (version, list) = (
        Signed::sign(version(), &key(), &MESH),
        Signed::sign(list(3), &key(), &MESH),
    );
    for (kind, number, bytes) in [
        (EntryKind::InventoryVersion, 17, version.bytes()),
        (EntryKind::PrefetchList, 18, list.bytes()),
    ] {
        assert_eq!((kind.as_u8(), EntryKind::from_u8(number)), (number, Some(kind)));
        assert!(kind.is_sealed() && !kind.is_mesh_level() && !kind.is_for_blind_replicas());
        let entry = EntryIn::decode(bytes).unwrap();
        assert_eq!(entry.kind(), kind);
        let entry = entry.verify(&MESH).unwrap();
        assert_eq!(entry.bytes(), bytes);
        assert_eq!(
            (entry.author(), entry.domain(), entry.hlc()),
            (key().site_id(), Some(DomainId::from_bytes([2; 32])), Hlc::new(11, 0))
        );
        let elsewhere = EntryIn::decode(bytes).unwrap().verify(&MeshId::from_bytes([8; 32]));
        assert_eq!(elsewhere.err(), Some(VerifyError::WrongMesh));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            let accepted = EntryIn::decode(&bad).is_ok_and(|entry| entry.verify(&MESH).is_ok());
            assert!(!accepted, "{kind:?}: bit {bit}");
        }
    }
}

/// INV-19: the number of a version has twelve digits; only the first one follows on nothing.
#[test]
fn versions_have_their_bounds() {
    let heads = |count: usize| (0..count).map(|n| RecordId::from_bytes([n as u8; 32])).collect();
    let first = || InventoryVersion {
        version: 1,
        previous: None,
        ..version()
    };
    for good in [
        version(),
        first(),
        InventoryVersion {
            restore_epoch: 0,
            ..version()
        },
        InventoryVersion {
            version: 999_999_999_999,
            restore_epoch: u64::MAX,
            ops_seen: heads(MAX_OPS_SEEN),
            ..version()
        },
    ] {
        assert_eq!(from_slice::<InventoryVersion>(&to_vec(&good)).unwrap(), good);
    }
    let cases = [
        (
            "version 0",
            InventoryVersion {
                version: 0,
                previous: None,
                ..version()
            },
            DecodeError::OutOfRange(6),
        ),
        (
            "thirteen digits",
            InventoryVersion {
                version: 1_000_000_000_000,
                ..version()
            },
            DecodeError::OutOfRange(6),
        ),
        (
            "a first one after another",
            InventoryVersion {
                previous: Some([8; 32]),
                ..first()
            },
            DecodeError::OutOfRange(8),
        ),
        (
            "a second one after nothing",
            InventoryVersion { version: 2, ..first() },
            DecodeError::Missing(8),
        ),
        (
            "no bundle",
            InventoryVersion {
                bundle: nothing(),
                ..version()
            },
            DecodeError::OutOfRange(9),
        ),
        (
            "too many heads",
            InventoryVersion {
                ops_seen: heads(MAX_OPS_SEEN + 1),
                ..version()
            },
            DecodeError::OutOfRange(12),
        ),
        (
            "heads twice",
            InventoryVersion {
                ops_seen: vec![RecordId::from_bytes([1; 32]); 2],
                ..version()
            },
            DecodeError::OutOfRange(12),
        ),
    ];
    for (case, bad, error) in cases {
        assert_eq!(from_slice::<InventoryVersion>(&to_vec(&bad)), Err(error), "{case}");
    }
}

/// A list is a set of 1 to 256 objects.
#[test]
fn lists_are_bounded_sets() {
    for count in [1, 2, 255, MAX_PREFETCH] {
        let good = list(count);
        assert_eq!(from_slice::<PrefetchList>(&to_vec(&good)).unwrap(), good);
    }
    let of = |objects| PrefetchList { objects, ..list(1) };
    let mut with_nothing = vec![object(1), nothing()];
    with_nothing.sort_unstable();
    for (case, bad) in [
        ("none", list(0)),
        ("too many", list(MAX_PREFETCH + 1)),
        ("unsorted", of(vec![object(2), object(1)])),
        ("twice", of(vec![object(1), object(1)])),
        ("the hash of nothing", of(with_nothing)),
    ] {
        let refused = from_slice::<PrefetchList>(&to_vec(&bad));
        assert_eq!(refused, Err(DecodeError::OutOfRange(4)), "{case}");
    }
    let heads = PrefetchList {
        ops_seen: (0..9).map(|n| RecordId::from_bytes([n; 32])).collect(),
        ..list(1)
    };
    assert_eq!(heads.check(), Err(DecodeError::OutOfRange(7)));
}

/// Every field but `previous` must be there, and there is no other.
#[test]
fn fields_are_all_there_are() {
    let maps = [(to_vec(&version()), 13, "version"), (to_vec(&list(2)), 8, "list")];
    for (whole, fields, name) in maps {
        let decode = |bytes: &[u8]| match name {
            "version" => from_slice::<InventoryVersion>(bytes).map(drop),
            _ => from_slice::<PrefetchList>(bytes).map(drop),
        };
        assert_eq!(decode(&whole), Ok(()));
        let pairs = pairs(&whole);
        assert_eq!(pairs.len(), fields);
        for without in 0..fields {
            let rest = pairs.iter().enumerate().filter(|(at, _)| *at != without);
            let rest: Vec<u8> = rest.flat_map(|(_, pair)| pair.clone()).collect();
            let refused = decode(&[&[0xa0 + fields as u8 - 1][..], &rest].concat());
            assert_eq!(refused, Err(DecodeError::Missing(without as u64 + 1)), "{name}");
        }
        let more = [&[whole[0] + 1][..], &whole[1..], &[0x18, 0x20, 0]].concat();
        assert_eq!(decode(&more), Err(DecodeError::Unknown(32)), "{name}");
        let newer = [&whole[..2], &[2], &whole[3..]].concat();
        assert_eq!(decode(&newer), Err(DecodeError::NewerVersion(2)), "{name}");
    }
}

/// The pairs of an encoded map.
fn pairs(map: &[u8]) -> Vec<Vec<u8>> {
    let mut d = minicbor::Decoder::new(map);
    let count = d.map().unwrap().unwrap();
    let mut pair = || {
        let from = d.position();
        d.skip().unwrap();
        d.skip().unwrap();
        map[from..d.position()].to_vec()
    };
    (0..count).map(|_| pair()).collect()
}
