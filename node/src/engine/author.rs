//! Signing what this node says: numbers, stamps and heads come from one place, so that none is ever used twice.

use sovm_catalog::{Read, Scope, SealedUnder};
use sovm_object::{
    hlc::Hlc,
    id::{DekCommitment, DomainId, KeyRef, RecordId, StorageId},
    kek,
    record::{ObjectKind, ObjectManifest},
    secret::Dek,
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

/// What a manifest says of an object that is in no table: a plain file, or a data file of an edition.
pub(super) struct Tableless {
    pub(super) kind: ObjectKind,
    pub(super) storage_id: StorageId,
    pub(super) row_count: u64,
    pub(super) exact_byte_size: u64,
    pub(super) key_ref: KeyRef,
    pub(super) dek_commitment: DekCommitment,
}

impl Tableless {
    /// A plain file.
    pub(super) fn file(storage_id: StorageId, exact_byte_size: u64, key_ref: KeyRef, dek: &Dek) -> Self {
        Self {
            kind: ObjectKind::File,
            storage_id,
            row_count: 0,
            exact_byte_size,
            key_ref,
            dek_commitment: dek.commitment(),
        }
    }

    /// A data file of an edition, as another manifest describes it.
    pub(super) fn edition_file(manifest: &ObjectManifest) -> Self {
        Self {
            kind: ObjectKind::EditionFile,
            storage_id: manifest.storage_id,
            row_count: manifest.row_count,
            exact_byte_size: manifest.exact_byte_size,
            key_ref: manifest.key_ref,
            dek_commitment: manifest.dek_commitment,
        }
    }
}

impl Core {
    /// States what an object without a table is, for the members of one domain. A statement names the membership that its author
    /// had seen of that domain, so each domain gets one of its own.
    pub(super) fn sign_tableless(
        &self,
        domain: &DomainId,
        object: Tableless,
    ) -> Result<Signed<ObjectManifest>, ApiError> {
        let ops_seen = self.heads(Some(*domain))?;
        let producer_mls_epoch = self.epoch(domain)?;
        let stamp = self.stamp()?;
        Ok(self.sign(ObjectManifest {
            mesh_id: self.mesh(),
            kind: object.kind,
            storage_id: object.storage_id,
            table_schema: None,
            table_name: None,
            schema_fingerprint: None,
            producer: self.me,
            producer_mls_epoch,
            created_hlc: stamp.hlc,
            row_count: object.row_count,
            exact_byte_size: object.exact_byte_size,
            partition_values: None,
            pruning_statistics: None,
            key_ref: object.key_ref,
            supersedes: Vec::new(),
            row_id_filter: None,
            time_range: None,
            dek_commitment: object.dek_commitment,
            seq: stamp.seq,
            ops_seen,
            delete_id_filter: None,
            delete_key_bounds: None,
            sources: None,
            tombstone_refs: None,
            profile: object.kind.profile(),
            row_set_digest: None,
            table_id: None,
            adopts: None,
        }))
    }

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
