//! AccessRecord: a signed grant of one object's DEK to the holders of one KEK (SOP §7.5, SOP part 2.2).

use aes_gcm::{
    Aes256Gcm, KeyInit as _, Nonce,
    aead::{Aead as _, Payload},
};
use rand::RngCore as _;
use zeroize::Zeroizing;

use super::{body, check_ops_seen};
use crate::{
    cbor::{DecodeError, Encoder},
    hlc::Hlc,
    id::{DekCommitment, DomainId, KekId, ManifestHash, MeshId, RecordId, SiteId, StorageId},
    payload,
    secret::{Dek, Kek},
};

/// AES-256-GCM, the only wrap algorithm so far.
const WRAP_AES_256_GCM: u64 = 1;

payload! {
    /// One grant. Issuing another never touches the object or its manifest (SOP-145).
    pub struct AccessRecord {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The domain whose KEK wraps the DEK.
        3 domain_id: DomainId,
        /// The object.
        4 storage_id: StorageId,
        /// The exact manifest this grant is for.
        5 object_manifest_hash: ManifestHash,
        /// Generation of the KEK.
        6 kek_generation: u64,
        /// The KEK.
        7 kek_id: KekId,
        /// How the DEK is wrapped.
        8 wrap_alg: u64,
        /// Random.
        9 wrap_nonce: [u8; 12],
        /// DEK and tag.
        10 wrapped_dek: [u8; 48],
        /// What the DEK must commit to.
        11 dek_commitment: DekCommitment,
        /// Who grants.
        12 issuer: SiteId,
        /// The issuer's counter.
        13 seq: u64,
        /// Heads of the membership ops the issuer had seen.
        14 ops_seen: Vec<RecordId>,
        /// When; informative.
        15 issued_hlc: Hlc,
    }
    check |b| {
        if b.wrap_alg != WRAP_AES_256_GCM {
            return Err(DecodeError::OutOfRange(8));
        }
        check_ops_seen(14, &b.ops_seen)
    };
}
body!(AccessRecord, "sovm/access-record-v1", author: issuer, domain: |b| Some(b.domain_id),
    tail: 2, |b, e| { e.bytes(b.object_manifest_hash.as_bytes()).bytes(b.storage_id.as_bytes()); });

/// Why a DEK did not come out of an access record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnwrapError {
    /// The wrap does not open with this KEK.
    #[error("wrapped key does not open with this KEK")]
    WrongKek,
    /// The DEK opens but is not the one the record commits to: its issuer lies or errs (SOP-167).
    #[error("wrapped key is not the one committed to")]
    WrongCommitment,
}

/// What a new grant says besides the keys.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The mesh.
    pub mesh_id: MeshId,
    /// The domain.
    pub domain_id: DomainId,
    /// The object.
    pub storage_id: StorageId,
    /// Its manifest.
    pub object_manifest_hash: ManifestHash,
    /// The KEK's generation.
    pub kek_generation: u64,
    /// The KEK.
    pub kek_id: KekId,
    /// Who grants.
    pub issuer: SiteId,
    /// The issuer's counter.
    pub seq: u64,
    /// Heads of the membership ops the issuer had seen.
    pub ops_seen: Vec<RecordId>,
    /// When.
    pub issued_hlc: Hlc,
}

impl AccessRecord {
    /// Wraps `dek` for the holders of `kek`.
    pub fn wrap(grant: Grant, dek: &Dek, kek: &Kek) -> Self {
        let mut wrap_nonce = [0; 12];
        rand::rng().fill_bytes(&mut wrap_nonce);
        let mut record = Self {
            mesh_id: grant.mesh_id,
            domain_id: grant.domain_id,
            storage_id: grant.storage_id,
            object_manifest_hash: grant.object_manifest_hash,
            kek_generation: grant.kek_generation,
            kek_id: grant.kek_id,
            wrap_alg: WRAP_AES_256_GCM,
            wrap_nonce,
            wrapped_dek: [0; 48],
            dek_commitment: dek.commitment(),
            issuer: grant.issuer,
            seq: grant.seq,
            ops_seen: grant.ops_seen,
            issued_hlc: grant.issued_hlc,
        };
        let sealed = record
            .cipher(kek)
            .encrypt(
                &Nonce::from(wrap_nonce),
                Payload {
                    msg: dek.expose_for_sealing(),
                    aad: &record.wrap_aad(),
                },
            )
            .expect("32 bytes are far below the GCM limit");
        record.wrapped_dek = sealed.try_into().expect("AES-GCM adds exactly 16 bytes");
        record
    }

    /// Opens the wrap and proves that the DEK is the one committed to.
    pub fn unwrap(&self, kek: &Kek) -> Result<Dek, UnwrapError> {
        let opened = self
            .cipher(kek)
            .decrypt(
                &Nonce::from(self.wrap_nonce),
                Payload {
                    msg: &self.wrapped_dek,
                    aad: &self.wrap_aad(),
                },
            )
            .map_err(|_| UnwrapError::WrongKek)?;
        let opened = Zeroizing::new(opened);
        let dek = Dek::from_bytes(opened.as_slice().try_into().map_err(|_| UnwrapError::WrongKek)?);
        if dek.commitment() == self.dek_commitment {
            Ok(dek)
        } else {
            Err(UnwrapError::WrongCommitment)
        }
    }

    /// DESIGN §16.4: a key per object, so that the number of wraps per KEK needs no limit.
    fn cipher(&self, kek: &Kek) -> Aes256Gcm {
        Aes256Gcm::new((&*kek.derive("sovm sop dek-wrap v1", self.storage_id.as_bytes())).into())
    }

    fn wrap_aad(&self) -> Vec<u8> {
        let mut e = Encoder::new();
        e.array(8)
            .text("sovm/sop-wrap")
            .uint(1)
            .field(&self.mesh_id)
            .field(&self.domain_id)
            .uint(self.kek_generation)
            .field(&self.kek_id)
            .field(&self.storage_id)
            .field(&self.object_manifest_hash);
        e.into_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant() -> Grant {
        Grant {
            mesh_id: MeshId::from_bytes([1; 32]),
            domain_id: DomainId::from_bytes([2; 32]),
            storage_id: StorageId::from_bytes([3; 32]),
            object_manifest_hash: ManifestHash::from_bytes([4; 32]),
            kek_generation: 1,
            kek_id: KekId::from_bytes([5; 16]),
            issuer: SiteId::from_bytes([6; 32]),
            seq: 1,
            ops_seen: vec![],
            issued_hlc: Hlc::default(),
        }
    }

    /// SOP-48, SOP-49: a second wrap gives the same DEK. SOP-167: a lying commitment is found.
    #[test]
    fn wrap_opens_only_with_its_kek_and_context() {
        let (dek, kek) = (Dek::generate(), Kek::generate());
        let record = AccessRecord::wrap(grant(), &dek, &kek);
        assert_eq!(record.unwrap(&kek).unwrap().commitment(), dek.commitment());
        assert_eq!(record.unwrap(&Kek::generate()).err(), Some(UnwrapError::WrongKek));
        let moved = AccessRecord {
            storage_id: StorageId::from_bytes([9; 32]),
            ..record.clone()
        };
        assert_eq!(moved.unwrap(&kek).err(), Some(UnwrapError::WrongKek));
        let rebound = AccessRecord {
            object_manifest_hash: ManifestHash::from_bytes([9; 32]),
            ..record.clone()
        };
        assert_eq!(rebound.unwrap(&kek).err(), Some(UnwrapError::WrongKek));
        let lying = AccessRecord {
            dek_commitment: Dek::generate().commitment(),
            ..record
        };
        assert_eq!(lying.unwrap(&kek).err(), Some(UnwrapError::WrongCommitment));
    }
}
