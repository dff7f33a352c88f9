//! Invites this node gave out (DESIGN §8). The secret is stored hashed; an invite is burnt in the step that uses it.

use sovm_object::{
    id::{DomainId, InviteId, SiteId},
    record::Role,
};

use crate::store::{
    StoreError,
    rows::{decode, encode},
    tables::{INVITES, Rows},
    tagged,
    txn::Txn,
};

/// Bad proofs after which a ticket is burnt.
const MAX_BAD_PROOFS: u64 = 5;

sovm_object::payload! {
    /// One invite.
    pub struct Invite {
        /// BLAKE3 of the secret; the secret itself is in the ticket only.
        2 secret_hash: [u8; 32],
        /// Role the joiner gets.
        3 role: Role,
        /// Domains the joiner gets into.
        4 domains: Vec<DomainId>,
        /// Whether the joiner may read what was there before.
        5 history: bool,
        /// When it lapses.
        6 expires_ms: u64,
        /// Joins it is still good for.
        7 uses_left: u64,
        /// Wrong proofs so far.
        8 bad_proofs: u64,
        /// Taken back by hand.
        9 revoked: bool,
        /// Whether joining needs no short code.
        10 skip_code: bool,
        /// When it was made.
        11 created_ms: u64,
        /// Who joined with it.
        12 used_by: Vec<SiteId>,
    }
}

/// Why an invite is no good; each is a message of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InviteProblem {
    /// Its time is over.
    #[error("this ticket has expired; ask for a new one")]
    Expired,
    /// All its uses are taken.
    #[error("this ticket was used already; ask for a new one")]
    Used,
    /// Taken back.
    #[error("this ticket was revoked; ask for a new one")]
    Revoked,
    /// Too many wrong proofs.
    #[error("this ticket was closed after five wrong proofs; ask for a new one")]
    Burnt,
}

impl Invite {
    /// Whether it can be used now.
    pub const fn check(&self, now_ms: u64) -> Result<(), InviteProblem> {
        if self.revoked {
            Err(InviteProblem::Revoked)
        } else if self.bad_proofs >= MAX_BAD_PROOFS {
            Err(InviteProblem::Burnt)
        } else if self.uses_left == 0 {
            Err(InviteProblem::Used)
        } else if now_ms >= self.expires_ms {
            Err(InviteProblem::Expired)
        } else {
            Ok(())
        }
    }
}

/// Reads one invite.
pub(crate) fn get(rows: &(impl Rows + ?Sized), id: &InviteId) -> Result<Option<Invite>, StoreError> {
    tagged::get(rows, &INVITES, id.as_bytes())?
        .map(|value| decode(&INVITES, &value))
        .transpose()
}

impl Txn {
    /// Writes a new invite.
    pub fn put_invite(&mut self, id: &InviteId, invite: &Invite) -> Result<(), StoreError> {
        self.put_tagged(&INVITES, id.as_bytes(), &encode(invite))
    }

    /// Uses an invite up, in the step that admits the joiner's membership ops.
    pub fn use_invite(
        &mut self,
        id: &InviteId,
        joiner: &SiteId,
        now_ms: u64,
    ) -> Result<Result<(), InviteProblem>, StoreError> {
        self.change_invite(id, |invite| {
            invite.check(now_ms)?;
            invite.uses_left -= 1;
            invite.used_by.push(*joiner);
            Ok(())
        })
    }

    /// Counts a wrong proof; the fifth one burns the invite.
    pub fn count_bad_proof(&mut self, id: &InviteId) -> Result<(), StoreError> {
        let _ = self.change_invite(id, |invite| {
            invite.bad_proofs += 1;
            Ok(())
        })?;
        Ok(())
    }

    /// Takes an invite back. False when there is none with this id.
    pub fn revoke_invite(&mut self, id: &InviteId) -> Result<bool, StoreError> {
        let revoked = self.change_invite(id, |invite| {
            invite.revoked = true;
            Ok(())
        })?;
        Ok(revoked.is_ok())
    }

    fn change_invite(
        &mut self,
        id: &InviteId,
        change: impl FnOnce(&mut Invite) -> Result<(), InviteProblem>,
    ) -> Result<Result<(), InviteProblem>, StoreError> {
        // An invite that is not here any more was revoked and cleaned up.
        let Some(mut invite) = get(self, id)? else {
            return Ok(Err(InviteProblem::Revoked));
        };
        if let Err(problem) = change(&mut invite) {
            return Ok(Err(problem));
        }
        self.put_invite(id, &invite)?;
        Ok(Ok(()))
    }
}
