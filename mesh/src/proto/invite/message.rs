//! Messages of a join.

use sovm_object::{
    cbor::{self, DecodeError, Decoder, Encoder, Field},
    id::{DomainId, InviteId, MeshId},
};

use super::ticket::MAX_DOMAINS;
use crate::proto::{
    codec::{Bytes, List, array_field, message_enum},
    kek::MAX_BUNDLE,
    mls,
};

/// Longest message of a joiner: it is a stranger until the end (DESIGN §8).
pub const MAX_FROM_JOINER: usize = 16 * 1024;
/// Longest message of the inviter, whom the joiner chose.
pub const MAX_FROM_INVITER: usize = 4 << 20;
/// Records in one grant; what does not fit comes by reconciliation.
pub const MAX_ENTRIES: usize = 4_096;
const MAX_SIGNED: usize = 4 * 1024;

/// From the joiner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinerMessage {
    /// First message.
    Hello(Hello),
    /// Proof and offer.
    Proof(Proof),
    /// The joiner has entered.
    Done(Done),
}
message_enum!(JoinerMessage, max MAX_FROM_JOINER, { Hello = 1, Proof = 2, Done = 3 });

/// From the inviter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InviterMessage {
    /// The inviter's nonce.
    Challenge([u8; 32]),
    /// The proof holds; a person has to compare words now.
    Waiting(bool),
    /// Everything the joiner needs.
    Grant(Grant),
    /// No.
    Refused(Refusal),
    /// The joiner's claims arrived; all done.
    Complete(bool),
}
message_enum!(InviterMessage, max MAX_FROM_INVITER, {
    Challenge = 1, Waiting = 2, Grant = 3, Refused = 4, Complete = 5,
});

/// What the joiner wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of this protocol: 1.
    pub version: u64,
    /// The mesh of the ticket.
    pub mesh_id: MeshId,
    /// The invite of the ticket.
    pub invite_id: InviteId,
    /// BLAKE3 of the joiner's nonce.
    pub commitment: [u8; 32],
}
array_field!(Hello {
    version,
    mesh_id,
    invite_id,
    commitment
});

/// The joiner's proof and what it brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Opens the commitment of [`Hello`].
    pub nonce: [u8; 32],
    /// Its signed NodeBinding; empty for a blind replica.
    pub binding: Bytes<MAX_SIGNED>,
    /// One key package for each domain of the ticket.
    pub offers: List<Offer, MAX_DOMAINS>,
    /// Proves the secret, on this connection, for these bytes.
    pub mac: [u8; 32],
}
array_field!(Proof {
    nonce,
    binding,
    offers,
    mac
});

/// A key package for one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The domain.
    pub domain_id: DomainId,
    /// The MLS key package.
    pub key_package: Bytes<MAX_SIGNED>,
}
array_field!(Offer { domain_id, key_package });

/// What the inviter gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The signed MeshGenesis.
    pub genesis: Bytes<MAX_SIGNED>,
    /// Signed records: domain geneses, membership ops, bindings, commit and KEK records.
    pub entries: List<Bytes<{ 1 << 20 }>, MAX_ENTRIES>,
    /// One for each domain.
    pub domains: List<DomainGrant, MAX_DOMAINS>,
}
array_field!(Grant {
    genesis,
    entries,
    domains
});

/// What the inviter gives for one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainGrant {
    /// The domain.
    pub domain_id: DomainId,
    /// The MLS Welcome.
    pub welcome: Bytes<{ mls::MAX_MESSAGE }>,
    /// KEKs under the exporter secret of the new epoch; empty when the joiner is entitled to none yet.
    pub kek_bundle: Bytes<MAX_BUNDLE>,
}
array_field!(DomainGrant {
    domain_id,
    welcome,
    kek_bundle
});

/// The joiner has entered its groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Signed HeadClaims, one for each domain.
    pub head_claims: List<Bytes<MAX_SIGNED>, MAX_DOMAINS>,
}
array_field!(Done { head_claims });

/// Why the inviter says no. Each reads differently, so that people know what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The secret is wrong.
    #[error("the invite is wrong: its secret does not fit; copy the whole line again or ask for a new invite")]
    Wrong,
    /// Its time is over.
    #[error("the invite has expired; ask for a new one")]
    Expired,
    /// Another device joined with it.
    #[error("the invite was already used by another device; an invite works once, ask for a new one")]
    Used,
    /// The inviter took it back.
    #[error("the invite was revoked by the device that made it")]
    Revoked,
    /// The inviter knows no such invite, or is in another mesh.
    #[error("the invite belongs to another mesh, or its device no longer knows it")]
    Foreign,
    /// Too many wrong proofs were made with it.
    #[error("the invite was disabled after five wrong attempts; ask for a new one")]
    Burnt,
    /// A person said no, or the words differed.
    #[error("the other side did not confirm; if the words differed, somebody may have copied the invite")]
    Declined,
    /// Binding or key packages are not usable.
    #[error("this device's offer was not accepted by the other side; update sovm on both and try again")]
    BadOffer,
    /// The inviter could not carry it out; the ticket is still good.
    #[error("the other side could not complete the join; nothing was changed here, try again")]
    Failed,
    /// The two versions have no protocol in common.
    #[error("the other side runs a version of sovm that cannot admit this one; update both")]
    Version,
}

impl Field for Refusal {
    fn encode(&self, e: &mut Encoder) {
        e.uint(match self {
            Self::Wrong => 1,
            Self::Expired => 2,
            Self::Used => 3,
            Self::Revoked => 4,
            Self::Foreign => 5,
            Self::Burnt => 6,
            Self::Declined => 7,
            Self::BadOffer => 8,
            Self::Failed => 9,
            Self::Version => 10,
        });
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match d.uint()? {
            1 => Self::Wrong,
            2 => Self::Expired,
            3 => Self::Used,
            4 => Self::Revoked,
            5 => Self::Foreign,
            6 => Self::Burnt,
            7 => Self::Declined,
            8 => Self::BadOffer,
            9 => Self::Failed,
            10 => Self::Version,
            _ => return Err(DecodeError::Malformed),
        })
    }
}

/// Bytes of a joiner's message.
pub fn encode_from_joiner(message: &JoinerMessage) -> Vec<u8> {
    cbor::to_vec(message)
}

/// A joiner's message from its bytes. Takes arbitrary input; for fuzzing, too.
pub fn decode_from_joiner(bytes: &[u8]) -> Result<JoinerMessage, DecodeError> {
    cbor::from_slice(bytes)
}

/// Bytes of an inviter's message.
pub fn encode_from_inviter(message: &InviterMessage) -> Vec<u8> {
    cbor::to_vec(message)
}

/// An inviter's message from its bytes. Takes arbitrary input; for fuzzing, too.
pub fn decode_from_inviter(bytes: &[u8]) -> Result<InviterMessage, DecodeError> {
    cbor::from_slice(bytes)
}
