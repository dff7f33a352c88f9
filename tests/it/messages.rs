//! Valid messages of every protocol, and what a recoverer is handed: seeds of the storms and of the fuzzer's corpus.

use std::collections::BTreeSet;

use sovm_mesh::proto::{
    blind::{self, Answer, Ask, ReplicaReceipt, ReplicaRequest},
    hint::{self, Hint},
    invite::{self, InviterMessage, JoinerMessage},
    kek::{self as bundle, BundleContext},
    peer::{self, PeerMessage},
    sync::{self, Message, Scope},
};
use sovm_object::{
    cbor,
    id::{BranchId, InviteId, RecordId, SiteId, StorageId},
    secret::SiteKey,
};
use sovm_recovery::{
    Kit,
    kit::{PageFacts, Replica},
    ring::{RingBlob, RingBody},
};

use crate::vectors::{DOMAIN, HLC, KEK_ID, entries, genesis, kek, mesh, ring, signed, site_key};

/// The valid entry of that name.
pub(crate) fn entry(name: &str) -> Vec<u8> {
    let mut entries = entries().into_iter();
    let found = entries.find(|(found, _)| *found == name);
    found.expect("every kind has a sample").1.bytes().to_vec()
}

/// One message of each kind of a reconciliation session.
pub(crate) fn session() -> Vec<Message> {
    let digest = sync::Digest::of(&[7; 32]);
    vec![
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
    ]
}

/// Messages between two members, without those of a session.
pub(crate) fn peers() -> Vec<PeerMessage> {
    let hello = peer::Hello {
        version: 1,
        mesh_id: mesh(),
        incarnation: [2; 16],
        counter: 5,
        your_counter: 4,
    };
    let held = vec![KEK_ID].into();
    vec![
        PeerMessage::Hello(hello),
        PeerMessage::KekRequest(peer::KekRequest {
            domain_id: DOMAIN,
            branch: BranchId::from_bytes([6; 32]),
            held,
        }),
        PeerMessage::KekReply(peer::KekReply {
            domain_id: DOMAIN,
            status: peer::KekStatus::Granted,
            bundle: vec![1; 80].into(),
        }),
        PeerMessage::HeadClaim(entry("head claim").into()),
        PeerMessage::Whereabouts(peer::Whereabouts {
            site: site_key().site_id(),
            direct: vec!["127.0.0.1:4000".to_owned()].into(),
            relays: vec!["https://relay.example".to_owned()].into(),
        }),
    ]
}

/// A signed request to a replica and its receipt.
pub(crate) fn replica() -> [Vec<u8>; 2] {
    let request = signed(request());
    let receipt = signed(receipt(request.id()));
    [request.bytes().to_vec(), receipt.bytes().to_vec()]
}

/// The payloads of [`replica`] without their envelopes.
pub(crate) fn replica_payloads() -> [Vec<u8>; 2] {
    let receipt = receipt(RecordId::from_bytes([5; 32]));
    [cbor::to_vec(&request()), cbor::to_vec(&receipt)]
}

fn request() -> ReplicaRequest {
    ReplicaRequest {
        mesh_id: mesh(),
        requester: site_key().site_id(),
        replica: SiteId::from_bytes([2; 32]),
        nonce: [3; 16],
        hlc: HLC,
        ask: Ask::Have(vec![StorageId::from_bytes([1; 32])].into()),
    }
}

fn receipt(request: RecordId) -> ReplicaReceipt {
    ReplicaReceipt {
        mesh_id: mesh(),
        replica: site_key().site_id(),
        request,
        hlc: HLC,
        answer: Answer::Listed(blind::Listed {
            ids: vec![StorageId::from_bytes([1; 32])].into(),
            sizes: vec![4_096].into(),
            more: false,
        }),
    }
}

/// What a joiner sends.
pub(crate) fn joiner() -> Vec<Vec<u8>> {
    let messages = [
        JoinerMessage::Hello(invite::Hello {
            version: 1,
            mesh_id: mesh(),
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
    ];
    messages.iter().map(invite::encode_from_joiner).collect()
}

/// What an inviter sends. The grant carries these entries.
pub(crate) fn inviter(entries: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let domains = vec![invite::DomainGrant {
        domain_id: DOMAIN,
        welcome: vec![3; 60].into(),
        kek_bundle: vec![4; 60].into(),
    }];
    let messages = [
        InviterMessage::Challenge([1; 32]),
        InviterMessage::Waiting(true),
        InviterMessage::Grant(invite::Grant {
            genesis: genesis().bytes().to_vec().into(),
            entries: entries.into_iter().map(Into::into).collect::<Vec<_>>().into(),
            domains: domains.into(),
        }),
        InviterMessage::Refused(invite::Refusal::Used),
        InviterMessage::Complete(true),
    ];
    messages.iter().map(invite::encode_from_inviter).collect()
}

/// A hint of that many elements, sealed.
pub(crate) fn hint(elements: usize) -> Vec<u8> {
    hint::seal(hint_body(elements), &site_key(), &kek()).expect("the samples are short")
}

/// What a hint says.
pub(crate) fn hint_body(elements: usize) -> Hint {
    Hint {
        mesh_id: mesh(),
        domain_id: DOMAIN,
        site: site_key().site_id(),
        hlc: HLC,
        elements: vec![[7; 32]; elements].into(),
        objects: vec![].into(),
    }
}

/// Key and context of [`key_bundle`].
pub(crate) fn bundle_context() -> ([u8; 32], BundleContext) {
    let context = BundleContext {
        mesh: mesh(),
        domain: DOMAIN,
        branch: BranchId::from_bytes([6; 32]),
        receiver: site_key().site_id(),
    };
    ([3; 32], context)
}

/// The ring's one key, wrapped for a receiver.
pub(crate) fn key_bundle() -> Vec<u8> {
    let (wrap_key, context) = bundle_context();
    bundle::seal(&wrap_key, &context, 0, &ring(), &|_, _| true, &site_key(), HLC).expect("the ring has a key")
}

/// The kit of all samples.
pub(crate) fn kit() -> Kit {
    Kit::from_seed([5; 32].into())
}

/// The page of [`kit`].
pub(crate) fn kit_page() -> String {
    let page = kit().show_page(&PageFacts {
        mesh_name: "weather club".into(),
        mesh_id: mesh(),
        domain_name: "main".into(),
        domain_id: DOMAIN,
        genesis: RecordId::from_bytes([1; 32]),
        made_ms: 1_700_000_000_000,
        root_id: StorageId::from_bytes([2; 32]),
        recovery_generation: 3,
        kek_generation: 2,
        replicas: vec![Replica {
            site: SiteId::from_bytes([3; 32]),
            address: "127.0.0.1:4000".into(),
        }],
        command: "sovm recover --kit page.txt".into(),
    });
    page.to_string()
}

/// A ring blob for [`kit`].
pub(crate) fn ring_blob() -> RingBlob {
    let me: SiteKey = site_key();
    let body = RingBody {
        mesh_id: mesh(),
        domain_id: DOMAIN,
        ring: ring(),
        admins: BTreeSet::from([me.site_id()]),
        op_heads: BTreeSet::new(),
        newest_root: StorageId::from_bytes([2; 32]),
        kits: BTreeSet::from([kit().id()]),
        issuer: me.site_id(),
    };
    RingBlob::seal(body, &[kit().age_recipient()], &me).expect("one kit and one key fit")
}
