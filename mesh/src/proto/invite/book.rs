//! What the inviter remembers of an invite: its terms, how to check a proof, and whether it is still good.

use std::fmt;

use sovm_object::{
    cbor::{DecodeError, Decoder, Encoder, Nullable, Payload},
    id::{DomainId, InviteId, MeshId, SiteId},
    record::Role,
};
use zeroize::Zeroizing;

use super::{
    message::Refusal,
    ticket::{History, InviteSecret, MAX_DOMAINS, Ticket, check_role},
};
use crate::proto::codec::List;

/// Bad proofs after which an invite is burnt.
pub const MAX_BAD_PROOFS: u64 = 5;

/// Longest life of an invite that needs no confirmation by words.
pub const SKIP_CODE_MAX_MS: u64 = 15 * 60 * 1000;

/// Terms of a new invite.
#[derive(Clone, Debug)]
pub struct NewInvite {
    /// Role to give.
    pub role: Role,
    /// Domains to enter.
    pub domains: Vec<DomainId>,
    /// How far back the new member may read.
    pub history: History,
    /// When it lapses.
    pub expires_ms: u64,
    /// Admit without a person comparing words. Only for readers and blind replicas, and short-lived.
    pub skip_code: bool,
}

/// Why an invite cannot be made as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InviteError {
    /// Nobody is invited into the recovery role; blind replicas enter no domain; at most 32 domains.
    #[error("that role cannot be invited into those domains")]
    Terms(#[source] DecodeError),
    /// Already over.
    #[error("the invite would have expired already")]
    Expired,
    /// DESIGN §8: never for admins and writers.
    #[error("only reader and blind invites may skip the word code")]
    CodeNeededForRole,
    /// DESIGN §8: at most 15 minutes.
    #[error("an invite that skips the word code may live 15 minutes at most")]
    CodeNeededForLifetime,
}

/// Whether an invite can still be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InviteState {
    /// Yes, while it lasts.
    Open,
    /// This site joined with it.
    Used(SiteId),
    /// The inviter took it back.
    Revoked,
    /// Too many bad proofs.
    Burnt,
}

/// An invite as the inviter stores it. The secret is not in it, only the key that checks proofs.
pub struct Invite {
    /// Its id.
    pub invite_id: InviteId,
    mac_key: Zeroizing<[u8; 32]>,
    /// Role to give.
    pub role: Role,
    /// Domains to enter.
    pub domains: Vec<DomainId>,
    /// How far back the new member may read.
    pub history: History,
    /// When it lapses.
    pub expires_ms: u64,
    /// Whether no person has to compare words.
    pub skip_code: bool,
    /// Bad proofs so far.
    pub bad_proofs: u64,
    /// Whether it can still be used.
    pub state: InviteState,
}

impl fmt::Debug for Invite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Invite({} {:?} {:?})", self.invite_id, self.role, self.state)
    }
}

impl Invite {
    /// Makes an invite: what to store, and the ticket to hand out. The caller fills in its own addresses.
    pub fn new(
        terms: NewInvite,
        mesh_id: MeshId,
        inviter: SiteId,
        invite_id: InviteId,
        secret: InviteSecret,
        now_ms: u64,
    ) -> Result<(Self, Ticket), InviteError> {
        let NewInvite {
            role,
            mut domains,
            history,
            expires_ms,
            skip_code,
        } = terms;
        domains.sort_unstable();
        domains.dedup();
        check_role(role, &domains).map_err(InviteError::Terms)?;
        let lifetime_ms = expires_ms
            .checked_sub(now_ms)
            .filter(|left| *left > 0)
            .ok_or(InviteError::Expired)?;
        if skip_code && !matches!(role, Role::Reader | Role::Blind) {
            return Err(InviteError::CodeNeededForRole);
        }
        if skip_code && lifetime_ms > SKIP_CODE_MAX_MS {
            return Err(InviteError::CodeNeededForLifetime);
        }
        let invite = Self {
            invite_id,
            mac_key: secret.mac_key(),
            role,
            domains: domains.clone(),
            history,
            expires_ms,
            skip_code,
            bad_proofs: 0,
            state: InviteState::Open,
        };
        let (addresses, relay) = (Vec::new(), None);
        let ticket = Ticket {
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
        };
        Ok((invite, ticket))
    }

    pub(super) fn mac_key(&self) -> &[u8; 32] {
        &self.mac_key
    }

    /// Whether the holder of a valid proof may join now. A site whose join was interrupted may finish it.
    pub fn check(&self, site: SiteId, now_ms: u64) -> Result<(), Refusal> {
        match self.state {
            InviteState::Burnt => Err(Refusal::Burnt),
            InviteState::Revoked => Err(Refusal::Revoked),
            InviteState::Used(by) if by == site => Ok(()),
            InviteState::Used(_) => Err(Refusal::Used),
            InviteState::Open if now_ms > self.expires_ms => Err(Refusal::Expired),
            InviteState::Open => Ok(()),
        }
    }

    /// Counts a bad proof. Store the result before answering.
    pub fn count_bad_proof(&mut self) {
        self.bad_proofs = self.bad_proofs.saturating_add(1);
        if self.state == InviteState::Open && self.bad_proofs >= MAX_BAD_PROOFS {
            self.state = InviteState::Burnt;
        }
    }

    /// Burns the invite for one site. Belongs into the transaction that stores the membership ops.
    pub fn use_by(&mut self, site: SiteId, now_ms: u64) -> Result<(), Refusal> {
        self.check(site, now_ms)?;
        self.state = InviteState::Used(site);
        Ok(())
    }

    /// Takes the invite back; false if it was used already.
    pub fn revoke(&mut self) -> bool {
        match self.state {
            InviteState::Used(_) => false,
            _ => {
                self.state = InviteState::Revoked;
                true
            }
        }
    }

    /// Whether the join handler has to listen because of this invite.
    pub fn is_open(&self, now_ms: u64) -> bool {
        self.state == InviteState::Open && now_ms <= self.expires_ms
    }
}

// Written by hand: a payload with a secret must not be printable or comparable.
impl Payload for Invite {
    fn encode(&self, e: &mut Encoder) {
        let (state, used_by) = match self.state {
            InviteState::Open => (1, None),
            InviteState::Used(site) => (2, Some(site)),
            InviteState::Revoked => (3, None),
            InviteState::Burnt => (4, None),
        };
        e.array(11)
            .uint(1)
            .field(&self.invite_id)
            .bytes(&*self.mac_key)
            .field(&self.role)
            .field(&self.domains);
        e.field(&self.history)
            .uint(self.expires_ms)
            .bool(self.skip_code)
            .uint(self.bad_proofs)
            .uint(state);
        e.field(&Nullable(used_by));
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.array_of(11)?;
        match d.uint()? {
            1 => {}
            newer => return Err(DecodeError::NewerVersion(newer)),
        }
        let (invite_id, mac_key) = (d.field()?, Zeroizing::new(d.field()?));
        let role = d.field()?;
        let domains: List<DomainId, MAX_DOMAINS> = d.field()?;
        let (history, expires_ms, skip_code, bad_proofs) = (d.field()?, d.uint()?, d.bool()?, d.uint()?);
        let state = d.uint()?;
        let Nullable(used_by) = d.field()?;
        let state = match (state, used_by) {
            (1, None) => InviteState::Open,
            (2, Some(site)) => InviteState::Used(site),
            (3, None) => InviteState::Revoked,
            (4, None) => InviteState::Burnt,
            _ => return Err(DecodeError::Malformed),
        };
        let domains = domains.0;
        Ok(Self {
            invite_id,
            mac_key,
            role,
            domains,
            history,
            expires_ms,
            skip_code,
            bad_proofs,
            state,
        })
    }
}
