//! What a peer, a joiner or an inviter may send, and what a person may paste.

use sovm_mesh::proto::{
    blind,
    invite::{self, Ticket},
    peer::{self, PeerMessage},
    sync,
};
use sovm_object::cbor;

use super::{entries, storm, text_storm};
use crate::{
    messages,
    vectors::{mesh, ticket},
};

#[test]
fn messages_of_peers() {
    let mesh_id = mesh();
    let messages = messages::session();
    let session: Vec<Vec<u8>> = messages.iter().map(sync::encode).collect();
    session
        .iter()
        .zip(&messages)
        .for_each(|(bytes, message)| assert_eq!(&sync::decode(bytes).unwrap(), message));
    storm("session", 4_000, &session, |bytes| {
        if let Ok(message) = sync::decode(bytes) {
            assert_eq!(sync::encode(&message), bytes);
        }
    });

    let peers: Vec<Vec<u8>> = messages::peers()
        .into_iter()
        .chain(messages.into_iter().map(PeerMessage::Sync))
        .map(|message| peer::encode(&message))
        .collect();
    storm("peer", 4_000, &peers, |bytes| {
        if let Ok(message) = peer::decode(bytes) {
            assert_eq!(peer::encode(&message), bytes);
        }
    });

    storm("replica", 3_000, &messages::replica(), |bytes| {
        let _ = blind::decode_request(bytes).map(|request| request.verify(&mesh_id).is_ok());
        let _ = blind::decode_receipt(bytes).map(|receipt| receipt.verify(&mesh_id).is_ok());
    });
}

#[test]
fn invites_and_tickets() {
    let text = ticket().expose_as_text();
    Ticket::parse(&text).unwrap();
    let samples = [
        text.clone(),
        text.to_uppercase(),
        format!(" {}\n", text),
        "sovm1".into(),
        "sovm2aaaa".into(),
        "ſovm1ß".into(),
    ];
    text_storm("ticket text", 5_000, &samples, |text| drop(Ticket::parse(text)));
    // Behind the checksum.
    storm("ticket content", 4_000, &[cbor::to_vec(&ticket())], |bytes| {
        if let Ok(ticket) = cbor::from_slice::<Ticket>(bytes) {
            assert!(Ticket::parse(&ticket.expose_as_text()).is_ok());
        }
    });

    storm("joiner", 3_000, &messages::joiner(), |bytes| {
        if let Ok(message) = invite::decode_from_joiner(bytes) {
            assert_eq!(invite::encode_from_joiner(&message), bytes);
        }
    });

    storm("inviter", 3_000, &messages::inviter(entries()), |bytes| {
        if let Ok(message) = invite::decode_from_inviter(bytes) {
            assert_eq!(invite::encode_from_inviter(&message), bytes);
        }
    });
}
