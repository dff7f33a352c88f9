//! Signing what this node says: numbers, stamps and heads come from one place, so that none is ever used twice.

use sovm_catalog::{Read, Scope, SealedUnder};
use sovm_object::{
    hlc::Hlc,
    id::{DomainId, RecordId},
    kek,
    sign::{Body, Signed},
};

use super::core::Core;
use crate::error::{ApiError, ErrorKind};

/// What every signed body of this node starts from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) seq: u64,
    pub(super) hlc: Hlc,
}

impl Core {
    /// A fresh number and time. Both are covered on disk before they are handed out.
    pub(super) fn stamp(&self) -> Result<Stamp, ApiError> {
        let now_ms = self.now_ms();
        let hlc = self.clock().tick(now_ms);
        let mut keys = self.keys();
        keys.cover_hlc(hlc, now_ms)?;
        Ok(Stamp {
            seq: keys.next_seq()?,
            hlc,
        })
    }

    /// Signs a body as this node, for the mesh it is in.
    pub(super) fn sign<B: Body>(&self, body: B) -> Signed<B> {
        Signed::sign(body, self.keys().site_key(), &self.mesh())
    }

    /// Heads of the membership ops known in the mesh or a domain.
    pub(super) fn heads(&self, domain: Option<DomainId>) -> Result<Vec<RecordId>, ApiError> {
        Ok(self
            .read()?
            .roster(domain.into())?
            .map(|roster| roster.heads())
            .unwrap_or_default())
    }

    /// The KEK new entries of a domain travel and are wrapped under (`mls.md` R5).
    pub(super) fn current_kek(&self, domain: &DomainId) -> Result<SealedUnder, ApiError> {
        self.kek_in(&self.read()?, domain)
    }

    /// Like [`current_kek`](Self::current_kek), in one state of the catalogue.
    pub(super) fn kek_in(&self, rows: &impl Read, domain: &DomainId) -> Result<SealedUnder, ApiError> {
        let roster = rows.roster(Scope::Domain(*domain))?;
        let records = rows.kek_records(domain)?;
        let current = roster.and_then(|roster| kek::current(records.iter(), &roster));
        let Some((generation, kek_id)) = current else {
            return Err(ApiError::new(
                ErrorKind::Refused,
                "this domain has no key that all of its members hold yet",
            )
            .safe("nothing was published")
            .next("sovm status; the next contact with an admin's device brings the key"));
        };
        if self
            .keys()
            .domain(domain)
            .and_then(|keys| keys.ring.get(&kek_id))
            .is_none()
        {
            return Err(ApiError::new(
                ErrorKind::Refused,
                format!("this node does not hold key {generation} of the domain yet"),
            )
            .safe("nothing was published")
            .next("sovm sync, then repeat the command"));
        }
        Ok(SealedUnder {
            domain: *domain,
            generation,
            kek_id,
        })
    }
}
