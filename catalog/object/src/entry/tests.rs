use super::*;
use crate::{
    record::*,
    secret::SiteKey,
    sign::{record_id, stored_body},
};

fn mesh() -> MeshId {
    MeshId::from_bytes([7; 32])
}

fn op(key: &SiteKey) -> Signed<MembershipOp> {
    let body = MembershipOp {
        mesh_id: mesh(),
        domain: None,
        kind: OpKind::Add,
        site: SiteId::from_bytes([1; 32]),
        role: Role::Reader,
        binding: None,
        history_from: 1,
        cut_seq: 0,
        issuer: key.site_id(),
        seq: 1,
        hlc: Hlc::new(5, 0),
        ops_seen: vec![],
    };
    Signed::sign(body, key, &mesh())
}

#[test]
fn round_trip_keeps_bytes_and_id() {
    let signed = op(&SiteKey::from_seed(&[1; 32]));
    let entry = EntryIn::decode(signed.bytes()).unwrap().verify(&mesh()).unwrap();
    assert_eq!(entry.id(), signed.id());
    assert_eq!(entry.bytes(), signed.bytes());
    assert_eq!(entry.kind(), EntryKind::MembershipOp);
}

/// A stored entry gives the body that was verified, and nothing when it is not the entry of that id or not of the format asked for.
#[test]
fn stored_bodies_are_those_of_their_id() {
    let signed = op(&SiteKey::from_seed(&[1; 32]));
    assert_eq!(
        stored_body::<MembershipOp>(signed.bytes(), &signed.id()).as_ref(),
        Some(signed.body())
    );
    assert_eq!(
        stored_body::<MembershipOp>(signed.bytes(), &RecordId::from_bytes([0; 32])),
        None
    );
    assert_eq!(stored_body::<MeshName>(signed.bytes(), &signed.id()), None);
    for at in 0..signed.bytes().len() {
        let mut bad = signed.bytes().to_vec();
        bad[at] ^= 1;
        assert_eq!(stored_body::<MembershipOp>(&bad, &signed.id()), None, "byte {at}");
        // Bytes that never were an entry, stored under their own id.
        let _ = stored_body::<MembershipOp>(&bad, &record_id(&bad));
        let _ = stored_body::<MembershipOp>(&bad[..at], &record_id(&bad[..at]));
    }
}

/// SOP-134, SOP-150: replayed in another mesh, the entry is refused by field and by signature.
#[test]
fn another_mesh_is_refused() {
    let key = SiteKey::from_seed(&[1; 32]);
    let other = MeshId::from_bytes([8; 32]);
    let signed = op(&key);
    assert_eq!(
        EntryIn::decode(signed.bytes()).unwrap().verify(&other).err(),
        Some(VerifyError::WrongMesh)
    );
    let relabelled = Signed::sign(
        MembershipOp {
            mesh_id: other,
            ..signed.body().clone()
        },
        &key,
        &mesh(),
    );
    assert_eq!(
        EntryIn::decode(relabelled.bytes()).unwrap().verify(&other).err(),
        Some(VerifyError::BadSignature)
    );
}

/// SOP-123: no bit of an entry can be changed.
#[test]
fn every_flipped_bit_is_refused() {
    let signed = op(&SiteKey::from_seed(&[1; 32]));
    for bit in 0..signed.bytes().len() * 8 {
        let mut bad = signed.bytes().to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(
            EntryIn::decode(&bad).is_err_or(|entry| entry.verify(&mesh()).is_err()),
            "bit {bit}"
        );
    }
}

#[expect(
    clippy::wrong_self_convention,
    reason = "named after `is_none_or`, which consumes too"
)]
trait IsErrOr<T> {
    fn is_err_or(self, f: impl FnOnce(T) -> bool) -> bool;
}

impl<T, E> IsErrOr<T> for Result<T, E> {
    fn is_err_or(self, f: impl FnOnce(T) -> bool) -> bool {
        match self {
            Ok(value) => f(value),
            Err(_) => true,
        }
    }
}

/// SOP-139: the signer's key must be the author's.
#[test]
fn signature_of_another_site_is_refused() {
    use coset::{CoseSign1, TaggedCborSerializable as _};
    let (a, b) = (SiteKey::from_seed(&[1; 32]), SiteKey::from_seed(&[2; 32]));
    let mut envelope = CoseSign1::from_tagged_slice(op(&a).bytes()).unwrap();
    envelope.signature = CoseSign1::from_tagged_slice(op(&b).bytes()).unwrap().signature;
    let forged = envelope.to_tagged_vec().unwrap();
    assert_eq!(
        EntryIn::decode(&forged).unwrap().verify(&mesh()).err(),
        Some(VerifyError::BadSignature)
    );
}

/// SOP-171: one case for each way to loosen the envelope.
#[test]
fn loose_envelopes_are_refused() {
    use coset::{CborSerializable as _, CoseSign1, Header, ProtectedHeader, TaggedCborSerializable as _, iana};
    let signed = op(&SiteKey::from_seed(&[1; 32]));
    let good = || CoseSign1::from_tagged_slice(signed.bytes()).unwrap();
    let with_header = |change: fn(&mut Header)| {
        let mut envelope = good();
        let mut header = envelope.protected.header.clone();
        change(&mut header);
        envelope.protected = ProtectedHeader {
            original_data: None,
            header,
        };
        envelope.to_tagged_vec().unwrap()
    };
    let mut unprotected = good();
    unprotected.unprotected.key_id = vec![1];
    let mut detached = good();
    detached.payload = None;
    let cases = [
        ("unprotected header", unprotected.to_tagged_vec().unwrap()),
        ("no payload", detached.to_tagged_vec().unwrap()),
        ("no tag", good().to_vec().unwrap()),
        (
            "other algorithm",
            with_header(|h| h.alg = Some(coset::RegisteredLabelWithPrivate::Assigned(iana::Algorithm::ES256))),
        ),
        ("no content type", with_header(|h| h.content_type = None)),
        (
            "critical header",
            with_header(|h| {
                h.crit
                    .push(coset::RegisteredLabelWithPrivate::Assigned(iana::HeaderParameter::Kid))
            }),
        ),
        ("short kid", with_header(|h| h.key_id.truncate(8))),
        ("IV in a signature", with_header(|h| h.iv = vec![0; 12])),
        (
            "unknown content type",
            with_header(|h| h.content_type = Some(coset::RegisteredLabel::Text("sovm/nothing-v1".into()))),
        ),
        ("trailing byte", [signed.bytes(), &[0]].concat()),
    ];
    for (why, bytes) in cases {
        assert!(EntryIn::decode(&bytes).is_err(), "{why}");
    }
    let wrong_kid = with_header(|h| h.key_id = vec![0; 16]);
    assert_eq!(
        EntryIn::decode(&wrong_kid).unwrap().verify(&mesh()).err(),
        Some(VerifyError::WrongKeyId)
    );
}

/// SOP-172: a signature with a non-canonical scalar is the same signature to a lax verifier, not to ours.
#[test]
fn malleable_signature_is_refused() {
    use coset::{CoseSign1, TaggedCborSerializable as _};
    let order = hex::decode("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010").unwrap();
    let mut envelope = CoseSign1::from_tagged_slice(op(&SiteKey::from_seed(&[1; 32])).bytes()).unwrap();
    let mut carry = 0u16;
    for (byte, add) in envelope.signature[32..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = sum as u8;
        carry = sum >> 8;
    }
    let forged = envelope.to_tagged_vec().unwrap();
    assert_eq!(
        EntryIn::decode(&forged).unwrap().verify(&mesh()).err(),
        Some(VerifyError::BadSignature)
    );
}

/// A mesh's id is the hash of its founding record, so that no other record can claim it.
#[test]
fn genesis_proves_the_mesh_id() {
    let key = SiteKey::from_seed(&[1; 32]);
    let body = MeshGenesis {
        founder: key.site_id(),
        nonce: [3; 32],
        created: Hlc::new(1, 0),
    };
    let genesis = Signed::sign(body, &key, &MeshGenesis::CONTEXT_MESH);
    let id = mesh_id_of(&genesis);
    assert!(EntryIn::decode(genesis.bytes()).unwrap().verify(&id).is_ok());
    assert_eq!(
        EntryIn::decode(genesis.bytes()).unwrap().verify(&mesh()).err(),
        Some(VerifyError::WrongMesh)
    );
}
