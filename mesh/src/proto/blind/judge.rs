//! Who may ask what, and when something may be deleted.

use std::collections::BTreeSet;

use sovm_object::{id::SiteId, record::Role, roster::Roster, sign::Signed};

use super::message::{Ask, ReplicaRequest, RequestRefusal};

/// How far a request's stamp may lie from the replica's clock.
pub const MAX_SKEW_MS: u64 = 10 * 60 * 1000;

/// Time between a release and the deletion, so that a mistake or a stolen device can be noticed.
pub const RELEASE_DELAY_MS: u64 = 30 * 24 * 3_600_000;

/// Judges a verified request by the mesh-level roster. `peer` is the site at the other end of the connection.
pub fn judge_request(
    request: &Signed<ReplicaRequest>,
    me: SiteId,
    peer: SiteId,
    roster: &Roster,
    now_ms: u64,
) -> Result<(), RequestRefusal> {
    let body = request.body();
    if body.replica != me || body.requester != peer {
        return Err(RequestRefusal::NotYours);
    }
    if body.hlc.millis().abs_diff(now_ms) > MAX_SKEW_MS {
        return Err(RequestRefusal::Stale);
    }
    let role = roster.role(&peer).ok_or(RequestRefusal::NotAMember)?;
    let reading = matches!(body.ask, Ask::Have(_) | Ask::List(_) | Ask::Get(_) | Ask::Challenge(_));
    // A blind replica fills itself from another one, a recovery key reads back what it needs; neither changes anything.
    match role {
        Role::Admin | Role::Writer | Role::Reader => Ok(()),
        Role::Blind | Role::Recovery if reading => Ok(()),
        Role::Blind | Role::Recovery => Err(RequestRefusal::NotAllowed),
    }
}

/// What a replica knows about one object it keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Sites that placed it.
    pub placers: BTreeSet<SiteId>,
    /// Whether one site alone cannot have it released.
    pub protected: bool,
    /// Sites that asked for its release since it was last placed.
    pub released_by: BTreeSet<SiteId>,
    /// When it may be deleted.
    pub delete_after_ms: Option<u64>,
}

/// What a release does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Deletion is due at this time.
    Scheduled(u64),
    /// A second site has to ask, too.
    Waiting,
    /// Only placers and admins can release.
    Refused,
}

impl Placement {
    /// A site places the object (again). Cancels a release under way; protection is never taken away.
    pub fn place(&mut self, site: SiteId, protected: bool) {
        self.placers.insert(site);
        self.protected |= protected;
        self.released_by.clear();
        self.delete_after_ms = None;
    }

    /// A site asks for release.
    pub fn release(&mut self, site: SiteId, role: Role, now_ms: u64) -> Release {
        if role != Role::Admin && !self.placers.contains(&site) {
            return Release::Refused;
        }
        self.released_by.insert(site);
        if self.protected && self.released_by.len() < 2 {
            return Release::Waiting;
        }
        let due = *self
            .delete_after_ms
            .get_or_insert_with(|| now_ms.saturating_add(RELEASE_DELAY_MS));
        Release::Scheduled(due)
    }

    /// Whether the bytes may go now.
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.delete_after_ms.is_some_and(|due| now_ms >= due)
    }
}

/// The answer to a challenge: hash over the request's nonce and the bytes of all ranges in order.
pub fn challenge_answer<'a>(nonce: &[u8; 16], ranges: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("sovm replica-challenge v1");
    hasher.update(nonce);
    for bytes in ranges {
        hasher.update(&(bytes.len() as u64).to_be_bytes()).update(bytes);
    }
    *hasher.finalize().as_bytes()
}
