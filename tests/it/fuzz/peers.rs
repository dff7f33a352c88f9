//! What a peer, a joiner or an inviter may send, and what a person may paste.

use sovm_mesh::proto::{
    blind::{self, Ask, ReplicaRequest},
    invite::{self, InviterMessage, JoinerMessage, Ticket},
    peer::{self, PeerMessage},
    sync::{self, Message, Scope},
};
use sovm_object::{
    cbor,
    id::{BranchId, InviteId, SiteId, StorageId},
};

use super::{entries, entry, storm, text_storm};
use crate::vectors::{DOMAIN, HLC, KEK_ID, genesis, mesh, signed, site_key, ticket};

#[test]
fn messages_of_peers() {
    let (mesh_id, me) = (mesh(), site_key().site_id());
    let (branch, digest) = (BranchId::from_bytes([6; 32]), sync::Digest::of(&[7; 32]));
    let messages = [
        Message::Open(sync::Open {
            version: 1,
            scopes: vec![
                sync::OpenScope {
                    scope: Scope::Mesh,
                    from_generation: 0,
                    root: [1; 32],
                },
                sync::OpenScope {
                    scope: Scope::Domain(DOMAIN),
                    from_generation: 3,
                    root: [2; 32],
                },
            ]
            .into(),
        }),
        Message::Generations(sync::Generations {
            scopes: vec![sync::ScopeGenerations {
                scope: 1,
                from_generation: 0,
                generations: vec![sync::GenerationDigest { generation: 4, digest }].into(),
            }]
            .into(),
            declined: vec![0].into(),
        }),
        Message::Spans(
            vec![sync::GenerationSpans {
                scope: 1,
                generation: 4,
                spans: vec![sync::SpanDigest { span: 9, digest }].into(),
            }]
            .into(),
        ),
        Message::Days(sync::Days {
            spans: vec![sync::SpanDays {
                scope: 1,
                generation: 4,
                span: 9,
                days: vec![sync::DayDigest { day: 300, digest }].into(),
            }]
            .into(),
            truncated: true,
        }),
        Message::Compare(
            vec![sync::Frame {
                scope: 1,
                generation: 4,
                day: 300,
                bytes: vec![0x61, 0, 1, 2].into(),
            }]
            .into(),
        ),
        Message::Give(sync::Give {
            items: vec![sync::ItemIn {
                scope: 1,
                generation: 4,
                day: 300,
                kind: 2,
                bytes: entry("membership op").into(),
            }]
            .into(),
            want: vec![sync::Wanted {
                scope: 1,
                generation: 4,
                day: 300,
                ids: vec![[1; 32]].into(),
            }]
            .into(),
            served: 1,
            missing: 0,
        }),
        Message::End(true),
    ];
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

    let hello = peer::Hello {
        version: 1,
        mesh_id,
        incarnation: [2; 16],
        counter: 5,
        your_counter: 4,
    };
    let held = vec![KEK_ID].into();
    let mut peers = vec![
        peer::encode(&PeerMessage::Hello(hello)),
        peer::encode(&PeerMessage::KekRequest(peer::KekRequest {
            domain_id: DOMAIN,
            branch,
            held,
        })),
        peer::encode(&PeerMessage::KekReply(peer::KekReply {
            domain_id: DOMAIN,
            status: peer::KekStatus::Granted,
            bundle: vec![1; 80].into(),
        })),
        peer::encode(&PeerMessage::HeadClaim(entry("head claim").into())),
        peer::encode(&PeerMessage::Whereabouts(peer::Whereabouts {
            site: me,
            direct: vec!["127.0.0.1:4000".to_owned()].into(),
            relays: vec!["https://relay.example".to_owned()].into(),
        })),
    ];
    peers.extend(
        messages
            .into_iter()
            .map(|message| peer::encode(&PeerMessage::Sync(message))),
    );
    storm("peer", 4_000, &peers, |bytes| {
        if let Ok(message) = peer::decode(bytes) {
            assert_eq!(peer::encode(&message), bytes);
        }
    });

    let ask = Ask::Have(vec![StorageId::from_bytes([1; 32])].into());
    let replica = SiteId::from_bytes([2; 32]);
    let request = signed(ReplicaRequest {
        mesh_id,
        requester: me,
        replica,
        nonce: [3; 16],
        hlc: HLC,
        ask,
    });
    let listed = blind::Answer::Listed(blind::Listed {
        ids: vec![StorageId::from_bytes([1; 32])].into(),
        sizes: vec![4_096].into(),
        more: false,
    });
    let receipt = signed(blind::ReplicaReceipt {
        mesh_id,
        replica: me,
        request: request.id(),
        hlc: HLC,
        answer: listed,
    });
    storm(
        "replica",
        3_000,
        &[request.bytes().to_vec(), receipt.bytes().to_vec()],
        |bytes| {
            let _ = blind::decode_request(bytes).map(|request| request.verify(&mesh_id).is_ok());
            let _ = blind::decode_receipt(bytes).map(|receipt| receipt.verify(&mesh_id).is_ok());
        },
    );
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

    let mesh_id = mesh();
    let joiner: Vec<Vec<u8>> = [
        JoinerMessage::Hello(invite::Hello {
            version: 1,
            mesh_id,
            invite_id: InviteId::from_bytes([1; 16]),
            commitment: [2; 32],
        }),
        JoinerMessage::Proof(invite::Proof {
            nonce: [1; 32],
            binding: entry("node binding").into(),
            offers: vec![invite::Offer {
                domain_id: DOMAIN,
                key_package: vec![1; 50].into(),
            }]
            .into(),
            mac: [2; 32],
        }),
        JoinerMessage::Done(invite::Done {
            head_claims: vec![entry("head claim").into()].into(),
        }),
    ]
    .iter()
    .map(invite::encode_from_joiner)
    .collect();
    storm("joiner", 3_000, &joiner, |bytes| {
        if let Ok(message) = invite::decode_from_joiner(bytes) {
            assert_eq!(invite::encode_from_joiner(&message), bytes);
        }
    });

    let domains = vec![invite::DomainGrant {
        domain_id: DOMAIN,
        welcome: vec![3; 60].into(),
        kek_bundle: vec![4; 60].into(),
    }];
    let inviter: Vec<Vec<u8>> = [
        InviterMessage::Challenge([1; 32]),
        InviterMessage::Waiting(true),
        InviterMessage::Grant(invite::Grant {
            genesis: genesis().bytes().to_vec().into(),
            entries: entries().into_iter().map(Into::into).collect::<Vec<_>>().into(),
            domains: domains.into(),
        }),
        InviterMessage::Refused(invite::Refusal::Used),
        InviterMessage::Complete(true),
    ]
    .iter()
    .map(invite::encode_from_inviter)
    .collect();
    storm("inviter", 3_000, &inviter, |bytes| {
        if let Ok(message) = invite::decode_from_inviter(bytes) {
            assert_eq!(invite::encode_from_inviter(&message), bytes);
        }
    });
}
