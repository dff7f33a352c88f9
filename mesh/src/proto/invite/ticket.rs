//! The one line that is pasted or scanned.
//!
//! `sovm1` + lower-case base32 of (deterministic CBOR + 4 bytes of its BLAKE3). `1` is no base32 digit, so the version can
//! never be taken for content.

use std::fmt;

use data_encoding::BASE32_NOPAD;
use rand::RngCore as _;
use sovm_object::{
    cbor::{self, DecodeError, Decoder, Encoder, Field, Payload},
    id::{DomainId, InviteId, MeshId, SiteId},
    record::Role,
};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::proto::codec::List;

const NAME: &str = "sovm";
const VERSION: char = '1';
const CHECKSUM_BYTES: usize = 4;

/// Longest text that is looked at.
pub const MAX_TEXT: usize = 8 * 1024;
const MAX_ADDRESSES: usize = 16;
const MAX_ADDRESS_BYTES: usize = 256;
/// Domains in one invite.
pub const MAX_DOMAINS: usize = 32;

/// The secret of a ticket. Whoever holds it may knock once.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct InviteSecret([u8; 32]);

impl InviteSecret {
    /// Draws a fresh secret from the operating system.
    pub fn generate() -> Self {
        let mut bytes = [0; 32];
        rand::rng().fill_bytes(&mut bytes);
        Self(bytes)
    }

    /// Takes given bytes, for tests and simulations.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key that proofs are made with, and all that the inviter keeps.
    pub(super) fn mac_key(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(blake3::derive_key("sovm join-mac v1", &self.0))
    }
}

impl fmt::Debug for InviteSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InviteSecret(..)")
    }
}

/// How much of the past a new member may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Everything.
    All,
    /// Only what is written after it joined.
    None,
}

impl Field for History {
    fn encode(&self, e: &mut Encoder) {
        e.uint(match self {
            Self::All => 1,
            Self::None => 2,
        });
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match d.uint()? {
            1 => Ok(Self::All),
            2 => Ok(Self::None),
            _ => Err(DecodeError::Malformed),
        }
    }
}

/// What an invite says.
#[derive(Debug)]
pub struct Ticket {
    /// The mesh.
    pub mesh_id: MeshId,
    /// Whom to dial.
    pub inviter: SiteId,
    /// Socket addresses of the inviter.
    pub addresses: Vec<String>,
    /// Relay of the inviter, if it uses one.
    pub relay: Option<String>,
    /// Which of the inviter's invites this is.
    pub invite_id: InviteId,
    /// Proves that the holder was given the ticket.
    pub secret: InviteSecret,
    /// Role the holder will have.
    pub role: Role,
    /// Domains the holder will enter; none for a blind replica.
    pub domains: Vec<DomainId>,
    /// How far back the holder may read.
    pub history: History,
    /// Milliseconds since 1970 after which the inviter refuses.
    pub expires_ms: u64,
}

/// Why a text is no usable ticket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TicketError {
    /// Something else was pasted.
    #[error("this is not a sovm invite; an invite is one line that begins with \"{NAME}{VERSION}\"")]
    NotATicket,
    /// A character is wrong, missing or too many.
    #[error("the invite has a typing error or is cut short; copy the whole line again")]
    Typo,
    /// Made by a newer sovm.
    #[error("the invite was made by a newer version of sovm; update this device")]
    NewerVersion,
    /// The checksum is right and the content is not: a faulty program made it.
    #[error("the invite is damaged inside; ask for a new one")]
    Malformed(#[source] DecodeError),
}

impl Ticket {
    /// The one line. It holds the secret: show it, do not log it.
    pub fn expose_as_text(&self) -> String {
        let mut data = Zeroizing::new(cbor::to_vec(self));
        let checksum = checksum(&data);
        data.extend_from_slice(&checksum);
        format!("{NAME}{VERSION}{}", BASE32_NOPAD.encode(&data).to_ascii_lowercase())
    }

    /// Reads a ticket as people paste it: white space, line breaks and capitals do not matter.
    pub fn parse(text: &str) -> Result<Self, TicketError> {
        if text.len() > MAX_TEXT {
            return Err(TicketError::NotATicket);
        }
        let text: Zeroizing<String> = Zeroizing::new(
            text.chars()
                .filter(|c| !c.is_whitespace())
                .map(|c| c.to_ascii_lowercase())
                .collect(),
        );
        let rest = text.strip_prefix(NAME).ok_or(TicketError::NotATicket)?;
        let version = rest
            .chars()
            .next()
            .filter(char::is_ascii_digit)
            .ok_or(TicketError::NotATicket)?;
        if version != VERSION {
            return Err(TicketError::NewerVersion);
        }
        let body = Zeroizing::new(rest[1..].to_ascii_uppercase());
        let data = Zeroizing::new(BASE32_NOPAD.decode(body.as_bytes()).map_err(|_| TicketError::Typo)?);
        let (content, sum) = data
            .split_last_chunk::<CHECKSUM_BYTES>()
            .map(|(content, sum)| (content, *sum))
            .ok_or(TicketError::Typo)?;
        if checksum(content) != sum {
            return Err(TicketError::Typo);
        }
        cbor::from_slice(content).map_err(|error| match error {
            DecodeError::NewerVersion(_) => TicketError::NewerVersion,
            other => TicketError::Malformed(other),
        })
    }

    /// Whether the inviter will refuse it, as far as our own clock tells. A hint for people, not a decision.
    pub const fn is_expired(&self, now_ms: u64) -> bool {
        now_ms > self.expires_ms
    }
}

fn checksum(content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = blake3::hash(content);
    std::array::from_fn(|i| hash.as_bytes()[i])
}

// Written by hand: a payload with a secret must not be printable or comparable.
impl Payload for Ticket {
    const MAX_BYTES: usize = MAX_TEXT;

    fn encode(&self, e: &mut Encoder) {
        e.map(10 + usize::from(self.relay.is_some())).uint(1).uint(1);
        e.uint(2)
            .field(&self.mesh_id)
            .uint(3)
            .field(&self.inviter)
            .uint(4)
            .field(&self.addresses);
        if let Some(relay) = &self.relay {
            e.uint(5).text(relay);
        }
        e.uint(6)
            .field(&self.invite_id)
            .uint(7)
            .bytes(&self.secret.0)
            .uint(8)
            .field(&self.role);
        e.uint(9)
            .field(&self.domains)
            .uint(10)
            .field(&self.history)
            .uint(11)
            .uint(self.expires_ms);
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let pairs = d.map()?;
        key(d, 1)?;
        match d.uint()? {
            1 => {}
            newer => return Err(DecodeError::NewerVersion(newer)),
        }
        let relay = match pairs {
            10 => false,
            11 => true,
            _ => return Err(DecodeError::Malformed),
        };
        key(d, 2)?;
        let mesh_id = d.field()?;
        key(d, 3)?;
        let inviter = d.field()?;
        key(d, 4)?;
        let addresses: List<String, MAX_ADDRESSES> = d.field()?;
        let relay = if relay {
            key(d, 5)?;
            Some(d.text()?.to_owned())
        } else {
            None
        };
        key(d, 6)?;
        let invite_id = d.field()?;
        key(d, 7)?;
        let secret = InviteSecret(d.field()?);
        key(d, 8)?;
        let role = d.field()?;
        key(d, 9)?;
        let domains: List<DomainId, MAX_DOMAINS> = d.field()?;
        key(d, 10)?;
        let history = d.field()?;
        key(d, 11)?;
        let expires_ms = d.uint()?;
        let (addresses, domains) = (addresses.0, domains.0);
        Ok(Self {
            mesh_id,
            inviter,
            addresses,
            relay,
            invite_id,
            secret,
            role,
            domains,
            history,
            expires_ms,
        })
    }

    fn check(&self) -> Result<(), DecodeError> {
        let texts = self.addresses.iter().chain(&self.relay);
        if texts
            .into_iter()
            .any(|text| text.len() > MAX_ADDRESS_BYTES || text.chars().any(char::is_control))
        {
            return Err(DecodeError::OutOfRange(4));
        }
        check_role(self.role, &self.domains)
    }
}

/// Blind replicas stand in no domain; the recovery role is for kits and never invited.
pub(super) fn check_role(role: Role, domains: &[DomainId]) -> Result<(), DecodeError> {
    if role == Role::Recovery {
        return Err(DecodeError::OutOfRange(8));
    }
    let sorted = domains.is_sorted_by(|a, b| a < b) && domains.len() <= MAX_DOMAINS;
    if !sorted || (role == Role::Blind && !domains.is_empty()) {
        return Err(DecodeError::OutOfRange(9));
    }
    Ok(())
}

fn key(d: &mut Decoder<'_>, expected: u64) -> Result<(), DecodeError> {
    if d.uint()? == expected {
        Ok(())
    } else {
        Err(DecodeError::Missing(expected))
    }
}
