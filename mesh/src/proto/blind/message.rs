//! Signed requests and receipts.

use sovm_object::{
    cbor::{DecodeError, Decoder, Encoder, Field, Nullable},
    hlc::Hlc,
    id::{DomainId, MeshId, RecordId, SiteId, StorageId},
    payload,
    sign::Body,
};

use crate::proto::codec::{List, array_field};

/// Ids in one request or receipt. Placement goes in batches anyway.
pub const MAX_IDS: usize = 1_024;

/// Longest request or receipt, envelope included.
pub const MAX_REQUEST: usize = 128 * 1024;

payload! {
    /// What a site asks of a replica.
    pub struct ReplicaRequest {
        /// The mesh.
        2 mesh_id: MeshId,
        /// Who asks. The connection must come from it.
        3 requester: SiteId,
        /// Who is asked: a request shown to another replica is void.
        4 replica: SiteId,
        /// Makes two equal requests different, and salts a challenge.
        5 nonce: [u8; 16],
        /// When.
        6 hlc: Hlc,
        /// What.
        7 ask: Ask,
    }
    max MAX_REQUEST;
}

payload! {
    /// What a replica answers. Signed, so that a member can show later what was promised.
    pub struct ReplicaReceipt {
        /// The mesh.
        2 mesh_id: MeshId,
        /// Who answers.
        3 replica: SiteId,
        /// The request answered.
        4 request: RecordId,
        /// When.
        5 hlc: Hlc,
        /// What.
        6 answer: Answer,
    }
    check |b| match &b.answer {
        Answer::Listed(listed) if listed.ids.len() != listed.sizes.len() => Err(DecodeError::OutOfRange(6)),
        _ => Ok(()),
    };
    max MAX_REQUEST;
}

macro_rules! body {
    ($name:ident, $content_type:literal, $author:ident) => {
        impl Body for $name {
            const CONTENT_TYPE: &'static str = $content_type;

            fn author(&self) -> SiteId {
                self.$author
            }

            fn domain(&self) -> Option<DomainId> {
                None
            }
        }
    };
}
body!(ReplicaRequest, "sovm/replica-request-v1", requester);
body!(ReplicaReceipt, "sovm/replica-receipt-v1", replica);

/// The requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Store these objects; the replica fetches them from the requester.
    Place(List<PlaceObject, MAX_IDS>),
    /// Which of these do you hold whole?
    Have(List<StorageId, MAX_IDS>),
    /// What do you hold, in order of ids?
    List(ListFrom),
    /// I am about to fetch these.
    Get(List<StorageId, MAX_IDS>),
    /// Prove that you still have these bytes.
    Challenge(List<RangeOf, 64>),
    /// These need not be kept for me any more.
    Release(List<StorageId, MAX_IDS>),
}

/// The answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To `Place`.
    Placed(Placed),
    /// To `Have`: those held whole.
    Have(List<StorageId, MAX_IDS>),
    /// To `List`.
    Listed(Listed),
    /// To `Get`: those that may be fetched now.
    Ready(List<StorageId, MAX_IDS>),
    /// To `Challenge`: hash over nonce and bytes.
    Proof([u8; 32]),
    /// To `Release`.
    Released(Released),
    /// To anything.
    Refused(RequestRefusal),
}

macro_rules! one_of {
    ($name:ident { $($variant:ident = $number:literal),+ $(,)? }) => {
        impl Field for $name {
            fn encode(&self, e: &mut Encoder) {
                e.array(2);
                match self { $(Self::$variant(body) => { e.uint($number).field(body); })+ }
            }

            fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                d.array_of(2)?;
                match d.uint()? {
                    $($number => d.field().map(Self::$variant),)+
                    _ => Err(DecodeError::Malformed),
                }
            }
        }
    };
}
one_of!(Ask { Place = 1, Have = 2, List = 3, Get = 4, Challenge = 5, Release = 6 });
one_of!(Answer { Placed = 1, Have = 2, Listed = 3, Ready = 4, Proof = 5, Released = 6, Refused = 7 });

/// One object to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceObject {
    /// The object.
    pub storage_id: StorageId,
    /// Its padded size.
    pub size: u64,
    /// One of the newest recovery roots or their parts: a single site cannot have it released.
    pub protected: bool,
}
array_field!(PlaceObject {
    storage_id,
    size,
    protected
});

/// Where a listing goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFrom {
    /// The last id of the page before.
    pub after: Nullable<StorageId>,
    /// At most so many.
    pub limit: u64,
}
array_field!(ListFrom { after, limit });

/// A range of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeOf {
    /// The object.
    pub storage_id: StorageId,
    /// First byte.
    pub start: u64,
    /// Number of bytes.
    pub len: u64,
}
array_field!(RangeOf { storage_id, start, len });

/// Which objects the replica takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// Held whole and safe already.
    pub held: List<StorageId, MAX_IDS>,
    /// Will be fetched.
    pub accepted: List<StorageId, MAX_IDS>,
    /// No room.
    pub refused: List<StorageId, MAX_IDS>,
}
array_field!(Placed {
    held,
    accepted,
    refused
});

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Ids in order.
    pub ids: List<StorageId, MAX_IDS>,
    /// The padded size of each of them.
    pub sizes: List<u64, MAX_IDS>,
    /// Whether there are more.
    pub more: bool,
}
array_field!(Listed { ids, sizes, more });

/// What becomes of objects whose release was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// Go after the delay, unless placed again.
    pub scheduled: List<StorageId, MAX_IDS>,
    /// When the first of them goes.
    pub not_before_ms: u64,
    /// Wait for a second site.
    pub waiting: List<StorageId, MAX_IDS>,
    /// Not the requester's to release.
    pub refused: List<StorageId, MAX_IDS>,
}
array_field!(Released {
    scheduled,
    not_before_ms,
    waiting,
    refused
});

/// Why a replica does not answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestRefusal {
    /// Signed by another site than the one on the line, or for another replica.
    #[error("the request was not made by this site for this replica")]
    NotYours,
    /// The site is not in the mesh, or was removed.
    #[error("the site is not a member of the mesh")]
    NotAMember,
    /// The site's role does not allow it.
    #[error("the site's role does not allow this request")]
    NotAllowed,
    /// The request's clock is too far off.
    #[error("the request is stamped too far from this replica's clock; check the clocks of both")]
    Stale,
    /// The disk reserve is reached.
    #[error("the replica has no room left")]
    NoRoom,
}

impl Field for RequestRefusal {
    fn encode(&self, e: &mut Encoder) {
        e.uint(match self {
            Self::NotYours => 1,
            Self::NotAMember => 2,
            Self::NotAllowed => 3,
            Self::Stale => 4,
            Self::NoRoom => 5,
        });
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match d.uint()? {
            1 => Self::NotYours,
            2 => Self::NotAMember,
            3 => Self::NotAllowed,
            4 => Self::Stale,
            5 => Self::NoRoom,
            _ => return Err(DecodeError::Malformed),
        })
    }
}
