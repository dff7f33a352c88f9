use sovm_object::{
    cbor::Nullable,
    hlc::Hlc,
    id::{MeshId, RecordId, SiteId, StorageId},
    record::{MembershipOp, OpKind, Role},
    roster::Roster,
    secret::SiteKey,
    sign::Signed,
};

use super::*;

const MESH: MeshId = MeshId::from_bytes([1; 32]);
const NOW: u64 = 1_800_000_000_000;

fn key(n: u8) -> SiteKey {
    SiteKey::from_seed(&[n; 32])
}

fn add(founder: &SiteKey, site: SiteId, role: Role, seq: u64) -> Signed<MembershipOp> {
    let op = MembershipOp {
        mesh_id: MESH,
        domain: None,
        kind: OpKind::Add,
        site,
        role,
        binding: None,
        history_from: 0,
        cut_seq: 0,
        issuer: founder.site_id(),
        seq,
        hlc: Hlc::new(NOW, 0),
        ops_seen: Vec::new(),
    };
    Signed::sign(op, founder, &MESH)
}

fn asks() -> [Ask; 6] {
    let id = StorageId::from_bytes([7; 32]);
    [
        Ask::Place(
            vec![PlaceObject {
                storage_id: id,
                size: 9,
                protected: true,
            }]
            .into(),
        ),
        Ask::Have(vec![id].into()),
        Ask::List(ListFrom {
            after: Nullable(Some(id)),
            limit: 5,
        }),
        Ask::Get(vec![id].into()),
        Ask::Challenge(
            vec![RangeOf {
                storage_id: id,
                start: 1,
                len: 2,
            }]
            .into(),
        ),
        Ask::Release(vec![id].into()),
    ]
}

fn request(by: &SiteKey, ask: Ask) -> Signed<ReplicaRequest> {
    let body = ReplicaRequest {
        mesh_id: MESH,
        requester: by.site_id(),
        replica: key(9).site_id(),
        nonce: [3; 16],
        hlc: Hlc::new(NOW, 0),
        ask,
    };
    Signed::sign(body, by, &MESH)
}

/// DESIGN §8: requests are judged by mesh-level ops; strangers get nothing, blind replicas and kits only read.
#[test]
fn roles_decide() {
    let founder = key(1);
    let roles = [
        (2, Role::Writer),
        (3, Role::Reader),
        (4, Role::Blind),
        (5, Role::Recovery),
    ];
    let ops: Vec<_> = roles
        .iter()
        .map(|(n, role)| add(&founder, key(*n).site_id(), *role, u64::from(*n)))
        .collect();
    let roster = Roster::of(founder.site_id(), &ops);
    let me = key(9).site_id();
    for n in 1..=6 {
        let by = key(n);
        for ask in asks() {
            let changes = matches!(ask, Ask::Place(_) | Ask::Release(_));
            let signed = request(&by, ask);
            let decoded = decode_request(signed.bytes()).unwrap().verify(&MESH).unwrap();
            assert_eq!(decoded.body(), signed.body());
            let expected = match n {
                1..=3 => Ok(()),
                4 | 5 if changes => Err(RequestRefusal::NotAllowed),
                4 | 5 => Ok(()),
                _ => Err(RequestRefusal::NotAMember),
            };
            assert_eq!(judge_request(&decoded, me, by.site_id(), &roster, NOW), expected, "{n}");
        }
    }
}

#[test]
fn foreign_and_stale_requests_are_refused() {
    let founder = key(1);
    let roster = Roster::of(founder.site_id(), []);
    let (site, me) = (founder.site_id(), key(9).site_id());
    let signed = request(&founder, asks()[1].clone());
    let judge = |me, peer, now| judge_request(&signed, me, peer, &roster, now);
    assert_eq!(judge(me, site, NOW + MAX_SKEW_MS), Ok(()));
    assert_eq!(judge(me, site, NOW + MAX_SKEW_MS + 1), Err(RequestRefusal::Stale));
    assert_eq!(judge(me, site, NOW - MAX_SKEW_MS - 1), Err(RequestRefusal::Stale));
    assert_eq!(judge(key(8).site_id(), site, NOW), Err(RequestRefusal::NotYours));
    assert_eq!(judge(me, key(2).site_id(), NOW), Err(RequestRefusal::NotYours));
    assert!(
        decode_request(signed.bytes())
            .unwrap()
            .verify(&MeshId::from_bytes([0; 32]))
            .is_err()
    );
}

/// DESIGN §8: only the placer or an admin releases, after 30 days; protected objects need two sites.
#[test]
fn release_takes_time_and_sometimes_two() {
    let (placer, other, admin) = (key(2).site_id(), key(3).site_id(), key(1).site_id());
    let mut plain = Placement::default();
    plain.place(placer, false);
    assert_eq!(plain.release(other, Role::Writer, NOW), Release::Refused);
    assert_eq!(
        plain.release(placer, Role::Writer, NOW),
        Release::Scheduled(NOW + RELEASE_DELAY_MS)
    );
    // Asking again does not shorten or prolong it.
    assert_eq!(
        plain.release(admin, Role::Admin, NOW + 5),
        Release::Scheduled(NOW + RELEASE_DELAY_MS)
    );
    assert!(!plain.is_due(NOW + RELEASE_DELAY_MS - 1) && plain.is_due(NOW + RELEASE_DELAY_MS));
    plain.place(other, false);
    assert!(!plain.is_due(u64::MAX));

    let mut root = Placement::default();
    root.place(placer, true);
    root.place(placer, false);
    assert!(root.protected);
    assert_eq!(root.release(placer, Role::Admin, NOW), Release::Waiting);
    assert_eq!(root.release(placer, Role::Admin, NOW), Release::Waiting);
    assert_eq!(
        root.release(admin, Role::Admin, NOW),
        Release::Scheduled(NOW + RELEASE_DELAY_MS)
    );
}

#[test]
fn receipts_round_trip_and_name_no_words() {
    let replica = key(9);
    let ids: Vec<StorageId> = (0..MAX_IDS).map(|n| StorageId::from_bytes([n as u8; 32])).collect();
    let answers = [
        Answer::Placed(Placed {
            held: ids.clone().into(),
            ..Placed::default()
        }),
        Answer::Have(ids.clone().into()),
        Answer::Listed(Listed {
            sizes: vec![u64::MAX; ids.len()].into(),
            ids: ids.into(),
            more: true,
        }),
        Answer::Ready(vec![].into()),
        Answer::Proof(challenge_answer(&[1; 16], [b"abc".as_slice(), b"".as_slice()])),
        Answer::Released(Released {
            not_before_ms: 5,
            ..Released::default()
        }),
        Answer::Refused(RequestRefusal::NoRoom),
    ];
    for answer in answers {
        let body = ReplicaReceipt {
            mesh_id: MESH,
            replica: replica.site_id(),
            request: RecordId::from_bytes([2; 32]),
            hlc: Hlc::new(NOW, 0),
            answer,
        };
        let signed = Signed::sign(body, &replica, &MESH);
        assert!(signed.bytes().len() <= MAX_REQUEST);
        assert_eq!(
            decode_receipt(signed.bytes()).unwrap().verify(&MESH).unwrap().body(),
            signed.body()
        );
    }
}

/// A listing whose sizes do not belong to its ids one by one is no listing.
#[test]
fn uneven_listings_are_refused() {
    let replica = key(9);
    let listed = Listed {
        ids: vec![StorageId::from_bytes([1; 32])].into(),
        ..Listed::default()
    };
    let body = ReplicaReceipt {
        mesh_id: MESH,
        replica: replica.site_id(),
        request: RecordId::from_bytes([2; 32]),
        hlc: Hlc::new(NOW, 0),
        answer: Answer::Listed(listed),
    };
    assert!(decode_receipt(Signed::sign(body, &replica, &MESH).bytes()).is_err());
}

/// Bytes cannot be moved between ranges, and an answer cannot be reused for another challenge.
#[test]
fn challenge_answers_are_unambiguous() {
    let answer = challenge_answer(&[1; 16], [b"ab".as_slice(), b"c".as_slice()]);
    assert_ne!(answer, challenge_answer(&[1; 16], [b"a".as_slice(), b"bc".as_slice()]));
    assert_ne!(answer, challenge_answer(&[2; 16], [b"ab".as_slice(), b"c".as_slice()]));
}

/// SOP-118, SOP-119, SOP-122: a replica is told ids, padded sizes, ranges and whether one site may release; it answers with the
/// same, times and hashes. A field that says more would have to be added here. No text travels but the name of the format.
#[test]
fn replicas_are_told_ids_and_sizes() {
    for ask in asks() {
        let signed = request(&key(1), ask);
        let body = sovm_object::cbor::to_vec(signed.body());
        assert_eq!(texts(&body), Vec::<String>::new());
        let ReplicaRequest {
            mesh_id: _,
            requester: _,
            replica: _,
            nonce: _,
            hlc: _,
            ask,
        } = signed.body();
        match ask {
            Ask::Place(objects) => {
                let PlaceObject {
                    storage_id,
                    size,
                    protected,
                } = &objects[0];
                let _: (&StorageId, &u64, &bool) = (storage_id, size, protected);
            }
            Ask::Have(ids) | Ask::Get(ids) | Ask::Release(ids) => {
                let _: &StorageId = &ids[0];
            }
            Ask::List(ListFrom { after, limit }) => {
                let _: (&Nullable<StorageId>, &u64) = (after, limit);
            }
            Ask::Challenge(ranges) => {
                let RangeOf { storage_id, start, len } = &ranges[0];
                let _: (&StorageId, &u64, &u64) = (storage_id, start, len);
            }
        }
    }
    let Listed { ids, sizes, more } = Listed::default();
    let _: (&[StorageId], &[u64], bool) = (&ids, &sizes, more);
    let Placed {
        held,
        accepted,
        refused,
    } = Placed::default();
    let _: [&[StorageId]; 3] = [&held, &accepted, &refused];
}

/// The text strings in an encoded payload.
fn texts(payload: &[u8]) -> Vec<String> {
    use minicbor::data::Type;
    let mut d = minicbor::Decoder::new(payload);
    let mut found = Vec::new();
    while d.position() < payload.len() {
        match d.datatype().unwrap() {
            Type::Map => {
                d.map().unwrap();
            }
            Type::Array => {
                d.array().unwrap();
            }
            Type::String => found.push(d.str().unwrap().to_owned()),
            _ => d.skip().unwrap(),
        }
    }
    found
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let _ = decode_request(&bytes);
        let _ = decode_receipt(&bytes);
    }
}
