//! Publishing a checkpoint body as an object with its manifest and its access record.

use rand::RngCore as _;
use sovm_object::{
    blob::{self, SealBlobError, SealedBlob},
    cbor,
    hlc::Hlc,
    id::{KekGeneration, KekId, KeyRef, RecordId, StorageId},
    record::{AccessRecord, ObjectKind, ObjectManifest, Profile, access::Grant},
    secret::{Dek, Kek, SiteKey},
    sign::Signed,
};

use super::{CheckpointBody, PartRef};

/// Who publishes a checkpoint object, and under which KEK.
#[derive(Debug)]
pub struct Publisher<'a> {
    /// The site.
    pub key: &'a SiteKey,
    /// Its MLS epoch, for audit.
    pub mls_epoch: u64,
    /// Two fresh numbers, for manifest and access record.
    pub seq: [u64; 2],
    /// Heads of the membership ops it had seen.
    pub ops_seen: Vec<RecordId>,
    /// When.
    pub hlc: Hlc,
    /// The domain's current KEK.
    pub kek: (KekGeneration, KekId, &'a Kek),
}

/// A checkpoint object ready to be stored, with the two records that make it one.
#[derive(Debug)]
pub struct CheckpointObject {
    /// The object's address.
    pub storage_id: StorageId,
    /// The object.
    pub bytes: Vec<u8>,
    /// Its manifest.
    pub manifest: Signed<ObjectManifest>,
    /// The grant of its key to the domain.
    pub access: Signed<AccessRecord>,
    record_count: u64,
}

impl CheckpointObject {
    /// Encrypts a body under a fresh key and signs manifest and access record.
    pub fn seal(body: &CheckpointBody, by: Publisher<'_>) -> Result<Self, SealBlobError> {
        let mut key_ref = [0; KeyRef::LEN];
        rand::rng().fill_bytes(&mut key_ref);
        let blob = blob::seal(&cbor::to_vec(body), Dek::generate(), KeyRef::from_bytes(key_ref))?;
        let SealedBlob {
            storage_id,
            key_ref,
            exact_byte_size,
            bytes,
            dek,
        } = blob;
        let issuer = by.key.site_id();
        let manifest = ObjectManifest {
            mesh_id: body.mesh_id,
            kind: ObjectKind::Checkpoint,
            storage_id,
            table_schema: None,
            table_name: None,
            schema_fingerprint: None,
            producer: issuer,
            producer_mls_epoch: by.mls_epoch,
            created_hlc: by.hlc,
            row_count: body.records.len() as u64,
            exact_byte_size,
            partition_values: None,
            pruning_statistics: None,
            key_ref,
            // A head does not replace its parts, it needs them.
            supersedes: vec![],
            row_id_filter: None,
            time_range: None,
            dek_commitment: dek.commitment(),
            seq: by.seq[0],
            ops_seen: by.ops_seen.clone(),
            delete_id_filter: None,
            delete_key_bounds: None,
            sources: None,
            tombstone_refs: None,
            profile: Profile::Blob1,
            row_set_digest: None,
            table_id: None,
            adopts: None,
        };
        let manifest = Signed::sign(manifest, by.key, &body.mesh_id);
        let (kek_generation, kek_id, kek) = by.kek;
        let grant = Grant {
            mesh_id: body.mesh_id,
            domain_id: body.domain_id,
            storage_id,
            object_manifest_hash: manifest.manifest_hash(),
            kek_generation,
            kek_id,
            issuer,
            seq: by.seq[1],
            ops_seen: by.ops_seen,
            issued_hlc: by.hlc,
        };
        let access = Signed::sign(AccessRecord::wrap(grant, &dek, kek), by.key, &body.mesh_id);
        Ok(Self {
            storage_id,
            bytes,
            manifest,
            access,
            record_count: body.records.len() as u64,
        })
    }

    /// How a head names this object as its part.
    pub fn as_part(&self, level: u64) -> PartRef {
        PartRef {
            storage_id: self.storage_id,
            manifest_hash: self.manifest.manifest_hash(),
            access: self.access.bytes().to_vec(),
            record_count: self.record_count,
            level,
        }
    }
}
