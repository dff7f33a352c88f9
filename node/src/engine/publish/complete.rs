//! What is complete before an entry is published, as types: each takes what the one before proved (SOP-239).
//!
//! ```text
//! Durable ── bytes are on disk here ──────────────┐
//! Dek ────── the object's own ────────────────────┼─▶ Ready ──┐
//! Signed<ObjectManifest> ─────────────────────────┘           │
//! Permit ─── right and required key, one state ───────────────┼─▶ Granted ──the same Permit, in the transaction──▶ entries
//! Signed<AccessRecord> ── opens to that Dek here ─────────────┘
//! ```
//!
//! A [`Ready`] is what a retry starts from. Its manifest is signed once, whatever happens to the key it is granted under.

use sovm_catalog::{Read, SealedUnder};
use sovm_mesh::net::store::Durable;
use sovm_object::{
    entry::VerifiedEntry,
    id::{DomainId, SiteId, StorageId},
    record::{AccessRecord, ObjectManifest},
    secret::{Dek, Kek},
    sign::Signed,
};

use super::super::core::Core;
use crate::error::{ApiError, ErrorKind};

/// An object whose bytes are durable and whose manifest is signed. Nobody sees it yet.
pub(in super::super) struct Ready {
    durable: Durable,
    dek: Dek,
    manifest: Signed<ObjectManifest>,
}

impl Ready {
    /// Refuses a manifest of other bytes than those that are durable, or of another key.
    pub(in super::super) fn new(
        durable: Durable,
        dek: Dek,
        manifest: Signed<ObjectManifest>,
    ) -> Result<Self, ApiError> {
        let body = manifest.body();
        if body.storage_id != durable.id() {
            return Err(ApiError::bug("a manifest of bytes that are not durable"));
        }
        if body.dek_commitment != dek.commitment() {
            return Err(ApiError::bug("a manifest of another key than its object's"));
        }
        Ok(Self { durable, dek, manifest })
    }

    pub(in super::super) fn id(&self) -> StorageId {
        self.durable.id()
    }

    pub(in super::super) fn size(&self) -> u64 {
        self.durable.size()
    }

    pub(in super::super) fn manifest(&self) -> &Signed<ObjectManifest> {
        &self.manifest
    }

    pub(super) fn dek(&self) -> &Dek {
        &self.dek
    }
}

/// This node may publish into a domain, under this key. True of the one state of the catalogue that was asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in super::super) struct Permit {
    site: SiteId,
    under: SealedUnder,
}

impl Permit {
    /// The key that access records must be under.
    pub(super) const fn under(&self) -> SealedUnder {
        self.under
    }
}

/// Whether a node that has the right to publish has the key for it, too.
pub(super) enum Standing {
    Permitted(Permit),
    /// The required key is not here; why.
    NoKey(ApiError),
}

impl Core {
    /// Refuses when this node may not publish into the domain, or lacks the key it must publish under.
    pub(in super::super) fn check_may_publish(&self, rows: &impl Read, domain: &DomainId) -> Result<Permit, ApiError> {
        match self.standing(rows, domain)? {
            Standing::Permitted(permit) => Ok(permit),
            Standing::NoKey(why) => Err(why),
        }
    }

    /// Refuses when this node may not publish into the domain. A key that is missing may be on its way.
    pub(super) fn standing(&self, rows: &impl Read, domain: &DomainId) -> Result<Standing, ApiError> {
        self.may_append_in(rows, domain)?;
        match self.kek_in(rows, domain) {
            Ok(under) => Ok(Standing::Permitted(Permit { site: self.me, under })),
            Err(why) if why.kind == ErrorKind::Refused => Ok(Standing::NoKey(why)),
            Err(error) => Err(error),
        }
    }
}

/// An object that is complete.
pub(super) struct Granted<'a> {
    object: &'a Ready,
    grant: Signed<AccessRecord>,
    permit: Permit,
}

impl<'a> Granted<'a> {
    /// Refuses a record that is not this object's, not under the permitted key, or does not open to the object's key with `kek`,
    /// which the key store holds: such a record would leave bytes that nobody can read.
    pub(super) fn new(
        object: &'a Ready,
        grant: Signed<AccessRecord>,
        kek: &Kek,
        permit: Permit,
    ) -> Result<Self, ApiError> {
        let (manifest, record) = (object.manifest.body(), grant.body());
        if manifest.producer != permit.site || record.issuer != permit.site {
            return Err(ApiError::bug("a record that this node did not sign"));
        }
        if record.storage_id != manifest.storage_id
            || record.object_manifest_hash != object.manifest.manifest_hash()
            || record.dek_commitment != manifest.dek_commitment
        {
            return Err(ApiError::bug("an access record of another object"));
        }
        let under = SealedUnder {
            domain: record.domain_id,
            generation: record.kek_generation,
            kek_id: record.kek_id,
        };
        if under != permit.under {
            return Err(ApiError::bug(
                "an access record under another key than the required one",
            ));
        }
        record.unwrap(kek).map_err(ApiError::bug)?;
        Ok(Self { object, grant, permit })
    }

    pub(super) fn object(&self) -> &'a Ready {
        self.object
    }

    /// The entries, for a transaction in which right and key are still what they were. `None` means that the record is over.
    pub(super) fn into_entries(self, in_transaction: &Permit) -> Option<[VerifiedEntry; 2]> {
        (self.permit == *in_transaction).then(|| [self.object.manifest.clone().into(), self.grant.into()])
    }
}
