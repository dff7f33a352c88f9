//! Messages of peers, joiners and replicas, and what a person may paste.

use sovm_mesh::proto::{
    blind, hint,
    invite::{self, Ticket},
    kek, mls, peer, sync,
};
use sovm_object::id::MeshId;

use super::wrap::{self, signed_around};

/// A message of a reconciliation session.
pub(super) fn sync(bytes: &[u8]) {
    if let Ok(message) = sync::decode(bytes) {
        assert_eq!(sync::encode(&message), bytes, "a message has one encoding");
        assert!(bytes.len() <= sync::MAX_MESSAGE);
    }
}

/// A message on the stream between two members.
pub(super) fn peer(bytes: &[u8]) {
    if let Ok(message) = peer::decode(bytes) {
        assert_eq!(peer::encode(&message), bytes, "a message has one encoding");
    }
}

/// A message of either side of an invite.
pub(super) fn invite(bytes: &[u8]) {
    if let Ok(message) = invite::decode_from_joiner(bytes) {
        assert_eq!(
            invite::encode_from_joiner(&message),
            bytes,
            "a message has one encoding"
        );
    }
    if let Ok(message) = invite::decode_from_inviter(bytes) {
        assert_eq!(
            invite::encode_from_inviter(&message),
            bytes,
            "a message has one encoding"
        );
    }
}

/// A ticket as text, and the content behind its checksum.
pub(super) fn ticket(bytes: &[u8]) {
    if let Ok(ticket) = Ticket::parse(&String::from_utf8_lossy(bytes)) {
        let text = ticket.expose_as_text();
        let again = Ticket::parse(&text).expect("a ticket is read back");
        assert_eq!(again.expose_as_text(), text);
    }
    if let Ok(ticket) = wrap::bare::<Ticket>(bytes) {
        let text = ticket.expose_as_text();
        // Content near the limit has no text that is looked at.
        assert!(text.len() > invite::MAX_TEXT || Ticket::parse(&text).is_ok());
    }
}

/// A request to a replica and a replica's receipt, in their envelope and bare.
pub(super) fn replica(bytes: &[u8]) {
    let mesh = MeshId::from_bytes([1; 32]);
    let _ = blind::decode_request(bytes).map(|request| request.verify(&mesh).is_ok());
    let _ = blind::decode_receipt(bytes).map(|receipt| receipt.verify(&mesh).is_ok());
    wrap::payload::<blind::ReplicaRequest>(bytes);
    if let Some(receipt) = wrap::payload::<blind::ReplicaReceipt>(bytes)
        && let blind::Answer::Listed(listed) = receipt.answer
    {
        assert_eq!(listed.ids.len(), listed.sizes.len(), "every listed object has its size");
    }
}

/// A hint and a key bundle, sealed, in their envelope and bare.
pub(super) fn hint(bytes: &[u8]) {
    hint::fuzz_decode(bytes);
    kek::fuzz_decode(bytes);
    wrap::payload::<hint::Hint>(bytes);
    kek::fuzz_decode(&signed_around("sovm/kek-bundle-v1", bytes));
}

/// Commits, welcomes and key packages of MLS.
pub(super) fn mls(bytes: &[u8]) {
    mls::fuzz_message(bytes);
}
