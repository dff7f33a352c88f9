//! What two sites say to each other on the sync protocol besides reconciliation: who runs, which keys are wanted.

use sovm_object::{
    cbor::{self, DecodeError},
    id::{BranchId, DomainId, KekId, MeshId, SiteId},
};

use super::{
    blind::MAX_REQUEST,
    codec::{Bytes, List, array_field, message_enum, payload_field},
    kek::{MAX_BUNDLE, MAX_KEKS},
    sync::{self, Message},
};

/// Longest message on the sync protocol.
pub const MAX_MESSAGE: usize = sync::MAX_MESSAGE + 1_024;

payload_field!(Message);

/// One message of the sync protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// First message of both sides.
    Hello(Hello),
    /// A message of a reconciliation session.
    Sync(Message),
    /// A member asks for KEKs.
    KekRequest(KekRequest),
    /// Answer to a request for KEKs.
    KekReply(KekReply),
    /// A signed HeadClaim, so that branches are compared before keys are asked for.
    HeadClaim(Bytes<4096>),
    /// Where the speaker listens.
    Whereabouts(Whereabouts),
    /// A signed request to a replica, or its signed receipt (see [`super::blind`]).
    Replica(Bytes<MAX_REQUEST>),
}

message_enum!(PeerMessage, max MAX_MESSAGE, { Hello = 1, Sync = 2, KekRequest = 3, KekReply = 4, HeadClaim = 5, Whereabouts = 6, Replica = 7 });

/// Who is speaking. The site itself is proven by the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of this protocol: 1.
    pub version: u64,
    /// The mesh.
    pub mesh_id: MeshId,
    /// Drawn at each start of the node.
    pub incarnation: [u8; 16],
    /// Rises with each start; kept in the key store and in the catalogue.
    pub counter: u64,
    /// The highest counter the speaker saw from the site it speaks to; 0 if none.
    pub your_counter: u64,
}
array_field!(Hello {
    version,
    mesh_id,
    incarnation,
    counter,
    your_counter
});

impl Hello {
    /// The only version so far.
    pub const VERSION: u64 = 1;
}

/// A member asks another one on the same branch for the keys it lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KekRequest {
    /// The domain.
    pub domain_id: DomainId,
    /// The branch the asker is on.
    pub branch: BranchId,
    /// Keys it holds already.
    pub held: List<KekId, MAX_KEKS>,
}
array_field!(KekRequest {
    domain_id,
    branch,
    held
});

/// Answer to a [`KekRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KekReply {
    /// The domain.
    pub domain_id: DomainId,
    /// Why, or that there is a bundle.
    pub status: KekStatus,
    /// The bundle; empty unless granted.
    pub bundle: Bytes<MAX_BUNDLE>,
}
array_field!(KekReply {
    domain_id,
    status,
    bundle
});

/// Where a site listens, told by itself. A hint: the handshake proves who answers there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// The site.
    pub site: SiteId,
    /// Socket addresses as text.
    pub direct: List<String, 16>,
    /// Relay URLs.
    pub relays: List<String, 16>,
}
array_field!(Whereabouts { site, direct, relays });

/// Outcome of a [`KekRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KekStatus {
    /// Here is a bundle.
    Granted,
    /// Nothing the asker lacks and is entitled to is held here.
    NothingNew,
    /// The two stand on different branches: first settle the group.
    OtherBranch,
    /// The asker is not in the domain's roster as known here.
    NotInRoster,
}

impl cbor::Field for KekStatus {
    fn encode(&self, e: &mut cbor::Encoder) {
        e.uint(match self {
            Self::Granted => 0,
            Self::NothingNew => 1,
            Self::OtherBranch => 2,
            Self::NotInRoster => 3,
        });
    }

    fn decode(d: &mut cbor::Decoder<'_>) -> Result<Self, DecodeError> {
        match d.uint()? {
            0 => Ok(Self::Granted),
            1 => Ok(Self::NothingNew),
            2 => Ok(Self::OtherBranch),
            3 => Ok(Self::NotInRoster),
            _ => Err(DecodeError::Malformed),
        }
    }
}

/// Bytes of a message.
pub fn encode(message: &PeerMessage) -> Vec<u8> {
    cbor::to_vec(message)
}

/// A message from its bytes. Takes arbitrary input; for fuzzing, too.
pub fn decode(bytes: &[u8]) -> Result<PeerMessage, DecodeError> {
    cbor::from_slice(bytes)
}

/// What a peer's Hello says about the peer, and about ourselves (DESIGN §5 "Incarnation").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All is well.
    Fine,
    /// The peer is in another mesh; talk no further.
    OtherMesh,
    /// The peer speaks a protocol we do not know.
    OtherVersion,
    /// The peer's counter lies behind what we saw of it: it was restored from an older copy and must learn its own later
    /// entries before it publishes.
    PeerRestored,
    /// The peer's site was seen with another live incarnation: two copies run. The later one must stop publishing.
    PeerCloned,
    /// The peer saw a higher counter of us than we have: we were restored from an older copy.
    WeAreRestored,
}

/// What was last seen of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its counter.
    pub counter: u64,
    /// Its incarnation.
    pub incarnation: [u8; 16],
    /// Whether a connection with that incarnation is open now.
    pub live: bool,
}

/// Judges a Hello. `seen` is what we knew of the peer, `own` what we said ourselves.
pub fn judge_hello(hello: &Hello, own: &Hello, seen: Option<&Seen>) -> Standing {
    if hello.version != Hello::VERSION {
        return Standing::OtherVersion;
    }
    if hello.mesh_id != own.mesh_id {
        return Standing::OtherMesh;
    }
    if hello.your_counter > own.counter {
        return Standing::WeAreRestored;
    }
    match seen {
        Some(seen) if seen.live && seen.incarnation != hello.incarnation => Standing::PeerCloned,
        Some(seen) if hello.counter < seen.counter => Standing::PeerRestored,
        // One counter, two incarnations: both started from the same copy.
        Some(seen) if hello.counter == seen.counter && hello.incarnation != seen.incarnation => Standing::PeerCloned,
        _ => Standing::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(counter: u64, incarnation: u8, your_counter: u64) -> Hello {
        Hello {
            version: 1,
            mesh_id: MeshId::from_bytes([1; 32]),
            incarnation: [incarnation; 16],
            counter,
            your_counter,
        }
    }

    /// tailscale#506, hypercore#174: copies and restored states are told apart from restarts.
    #[test]
    fn copies_and_restored_states_are_noticed() {
        let own = hello(10, 9, 0);
        let seen = |counter, incarnation, live| {
            Some(Seen {
                counter,
                incarnation: [incarnation; 16],
                live,
            })
        };
        let cases = [
            (hello(5, 1, 0), None, Standing::Fine),
            (hello(5, 1, 10), seen(5, 1, true), Standing::Fine),
            (hello(6, 2, 10), seen(5, 1, false), Standing::Fine),
            (hello(6, 2, 10), seen(5, 1, true), Standing::PeerCloned),
            (hello(5, 2, 10), seen(5, 1, false), Standing::PeerCloned),
            (hello(4, 2, 10), seen(5, 1, false), Standing::PeerRestored),
            (hello(5, 1, 11), seen(5, 1, true), Standing::WeAreRestored),
            (
                Hello {
                    version: 2,
                    ..hello(5, 1, 0)
                },
                None,
                Standing::OtherVersion,
            ),
            (
                Hello {
                    mesh_id: MeshId::from_bytes([2; 32]),
                    ..hello(5, 1, 99)
                },
                None,
                Standing::OtherMesh,
            ),
        ];
        for (hello, seen, expected) in cases {
            assert_eq!(judge_hello(&hello, &own, seen.as_ref()), expected, "{hello:?}");
        }
    }

    #[test]
    fn messages_round_trip() {
        let (domain_id, branch) = (DomainId::from_bytes([1; 32]), BranchId::from_bytes([2; 32]));
        let held = vec![KekId::from_bytes([3; 16])].into();
        let messages = [
            PeerMessage::Hello(hello(1, 2, 3)),
            PeerMessage::Sync(Message::End(true)),
            PeerMessage::KekRequest(KekRequest {
                domain_id,
                branch,
                held,
            }),
            PeerMessage::KekReply(KekReply {
                domain_id,
                status: KekStatus::Granted,
                bundle: vec![1].into(),
            }),
            PeerMessage::HeadClaim(vec![1, 2].into()),
        ];
        for message in messages {
            let bytes = encode(&message);
            assert_eq!(decode(&bytes).unwrap(), message);
            assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }
    }
}
