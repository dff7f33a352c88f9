use super::*;
use crate::{
    cbor::{Payload as _, from_slice, to_vec},
    entry::{EntryIn, EntryKind},
    record::{MAX_OPS_SEEN, ObjectManifest},
    secret::SiteKey,
    sign::{Body, Signed, VerifyError},
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

fn registration() -> Registration {
    Registration {
        mesh_id: MESH,
        domain_id: DomainId::from_bytes([2; 32]),
        catalog_id: [3; 16],
        product: "weather".into(),
        edition_id: EDITION,
        bundle: StorageId::from_bytes([9; 32]),
        registration_sha256: [6; 32],
        publisher: key().site_id(),
        seq: 10,
        ops_seen: vec![],
        hlc: Hlc::new(11, 0),
    }
}

const EDITION: [u8; 16] = [1, 1, 1, 1, 1, 1, 0x71, 1, 0x81, 1, 1, 1, 1, 1, 1, 1];

fn nothing() -> StorageId {
    StorageId::from_bytes(*blake3::hash(&[]).as_bytes())
}

/// The formats byte for byte, as `docs/formats.md` says.
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
    let expected = format!(
        "ac 0101 025820{} 035820{} 0450{} 0567{} 0650{} 075820{} 085820{} 095820{me} 0a0a 0b80 0c1a000b0000",
        bytes("07", 32),
        bytes("02", 32),
        bytes("03", 16),
        hex::encode("weather"),
        hex::encode(EDITION),
        bytes("09", 32),
        bytes("06", 32),
    );
    assert_eq!(hex::encode(to_vec(&registration())), expected.replace(' ', ""));
}

/// SOP-130, SOP-140: versions, lists, registrations and manifests of edition files with their signatures, as a few lines of Python made them from
/// `docs/formats.md`, and what must be refused in their place.
#[test]
fn entries_agree_with_the_page() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../../../../tests/vectors/inventory.json")).unwrap();
    let bytes = |value: &serde_json::Value| hex::decode(value.as_str().unwrap()).unwrap();
    let key = SiteKey::from_seed(&bytes(&vectors["site_seed"]).try_into().unwrap());
    let mesh = MeshId::from_slice(&bytes(&vectors["mesh_id"])).unwrap();
    let mut kinds = std::collections::BTreeMap::<u8, (usize, usize)>::new();
    for entry in vectors["entries"].as_array().unwrap() {
        let (name, signed) = (&entry["name"], bytes(&entry["signed"]));
        let verified = EntryIn::decode(&signed).unwrap_or_else(|error| panic!("{name}: {error}"));
        let verified = verified.verify(&mesh).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(verified.kind().as_u8(), entry["kind"], "{name}");
        assert_eq!(verified.id().as_bytes()[..], bytes(&entry["record_id"]), "{name}");
        let counts = kinds.entry(verified.kind().as_u8()).or_default();
        counts.0 += 1;
        let again = match verified.kind() {
            EntryKind::InventoryVersion => again::<InventoryVersion>(entry, &key, &mesh, &mut counts.1),
            EntryKind::PrefetchList => again::<PrefetchList>(entry, &key, &mesh, &mut counts.1),
            EntryKind::Registration => again::<Registration>(entry, &key, &mesh, &mut counts.1),
            _ => again::<ObjectManifest>(entry, &key, &mesh, &mut counts.1),
        };
        assert_eq!(again, signed, "{name}");
    }
    assert_eq!(
        kinds,
        [(13, (2, 33)), (17, (3, 48)), (18, (2, 36)), (19, (2, 62))].into()
    );
    let longest = from_slice::<PrefetchList>(&bytes(&vectors["longest_list"])).unwrap();
    assert_eq!(longest.objects.len(), MAX_PREFETCH);
}

/// Decodes the payload of a vector and signs it anew. What stands in its place is refused, and counted.
fn again<B: Body>(entry: &serde_json::Value, key: &SiteKey, mesh: &MeshId, refused: &mut usize) -> Vec<u8> {
    let payload = |value: &serde_json::Value| hex::decode(value["payload"].as_str().unwrap()).unwrap();
    for case in entry["refused"].as_array().unwrap() {
        assert!(
            from_slice::<B>(&payload(case)).is_err(),
            "{}: {}",
            entry["name"],
            case["why"]
        );
        *refused += 1;
    }
    let body = from_slice::<B>(&payload(entry)).unwrap();
    Signed::sign(body, key, mesh).bytes().to_vec()
}

/// All are sealed entries of a domain, written by whom they name, in one mesh.
#[test]
fn they_are_entries_of_a_domain() {
    let (version, list, registration) = (
        Signed::sign(version(), &key(), &MESH),
        Signed::sign(list(3), &key(), &MESH),
        Signed::sign(registration(), &key(), &MESH),
    );
    for (kind, number, bytes) in [
        (EntryKind::InventoryVersion, 17, version.bytes()),
        (EntryKind::PrefetchList, 18, list.bytes()),
        (EntryKind::Registration, 19, registration.bytes()),
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

/// INV-19, INV-403: a registration names a product and an edition by ids that are names of directories, and a bundle.
#[test]
fn registrations_name_an_edition() {
    let longest = format!("9{}", "-._~".repeat(31));
    for good in [
        registration(),
        Registration {
            product: "A".into(),
            ..registration()
        },
        Registration {
            product: format!("{longest}zZ0"),
            ..registration()
        },
        Registration {
            edition_id: [
                0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xbf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            ],
            ..registration()
        },
    ] {
        assert_eq!(from_slice::<Registration>(&to_vec(&good)).unwrap(), good);
    }
    let products = ["", ".", "..", ".a", "-a", "a/b", "a b", "a\n", "a\0", "ä", "%2e"].map(str::to_owned);
    for product in products.into_iter().chain([format!("{longest}zZ01")]) {
        let bad = Registration {
            product,
            ..registration()
        };
        let refused = from_slice::<Registration>(&to_vec(&bad));
        assert_eq!(refused, Err(DecodeError::OutOfRange(5)), "{:?}", bad.product);
    }
    for (at, byte) in [(6, 0x41), (6, 0x81), (6, 0x01), (8, 0x01), (8, 0x41), (8, 0xc1)] {
        let mut edition_id = EDITION;
        edition_id[at] = byte;
        let bad = Registration {
            edition_id,
            ..registration()
        };
        let refused = from_slice::<Registration>(&to_vec(&bad));
        assert_eq!(refused, Err(DecodeError::OutOfRange(6)), "byte {at} is {byte:#x}");
    }
    let no_bundle = Registration {
        bundle: nothing(),
        ..registration()
    };
    assert_eq!(no_bundle.check(), Err(DecodeError::OutOfRange(7)));
    let heads = Registration {
        ops_seen: vec![RecordId::from_bytes([1; 32]); 2],
        ..registration()
    };
    assert_eq!(heads.check(), Err(DecodeError::OutOfRange(11)));
}

/// Every field but `previous` must be there, and there is no other.
#[test]
fn fields_are_all_there_are() {
    let maps = [
        (to_vec(&version()), 13, "version"),
        (to_vec(&list(2)), 8, "list"),
        (to_vec(&registration()), 12, "registration"),
    ];
    for (whole, fields, name) in maps {
        let decode = |bytes: &[u8]| match name {
            "version" => from_slice::<InventoryVersion>(bytes).map(drop),
            "registration" => from_slice::<Registration>(bytes).map(drop),
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
