//! RecoveryRoot: the small sealed blob from which a checkpoint can be opened (SOP §12.7, part 2.16).
//!
//! ```text
//! COSE_Encrypt0 (A256GCM, raw KEK of the domain, no kid, external data = the content type's text)
//!   COSE_Sign1 by the issuer
//!     RecoveryRootBody, padded so that the whole is 1,024, 2,048, then a Padmé length
//! ```
//! The id of a root is the BLAKE3 root of exactly these bytes. Opening goes in steps that cannot be skipped:
//! [`RootIn`] (hash fits) → [`UnverifiedRoot`] (a KEK opened it, and it names that KEK) → [`Root`] (signed by somebody believed,
//! in our mesh and domain, with an access record that belongs to it).

use std::collections::BTreeSet;

use sovm_object::{
    cbor::DecodeError,
    hlc::Hlc,
    id::{DomainId, KekGeneration, KekId, ManifestHash, MeshId, RecordId, SiteId, StorageId},
    kek::KekRing,
    record::{AccessRecord, RecoveryRootBody},
    seal0::{self, OpenError, SealedIn},
    secret::{Kek, SiteKey},
    sign::{Signed, SignedIn},
};

use crate::{
    keystore::RootRef,
    sizes::{is_on_ladder, ladder, zeros_for_growth},
};

/// Content type of the envelope, and its external data.
const CONTENT_TYPE: &str = "sovm/sop-recovery-root-v1";
const SMALLEST: usize = 1_024;
/// Roots above this length are not looked at: a root is its access record and a few ids.
const LARGEST: u64 = 64 * 1024;
/// Number of the first root of a domain.
pub const FIRST_ROOT: u64 = 1;

/// What the issuer says in a new root.
#[derive(Debug, Clone)]
pub struct RootDraft {
    /// The mesh.
    pub mesh_id: MeshId,
    /// The domain.
    pub domain_id: DomainId,
    /// The checkpoint.
    pub checkpoint: StorageId,
    /// Hash of the checkpoint's manifest.
    pub checkpoint_manifest: ManifestHash,
    /// The grant of the checkpoint's key.
    pub access: Signed<AccessRecord>,
    /// The root before this one and its number; none for the first.
    pub previous: Option<(StorageId, u64)>,
    /// When.
    pub issued_hlc: Hlc,
    /// The issuer's counter.
    pub seq: u64,
    /// Heads of the membership ops the issuer had seen.
    pub ops_seen: Vec<RecordId>,
}

/// A root whose issuer, mesh, domain and access record were checked, or that was made here.
#[derive(Debug, Clone)]
pub struct Root {
    id: StorageId,
    bytes: Vec<u8>,
    body: Signed<RecoveryRootBody>,
    access: Signed<AccessRecord>,
}

impl Root {
    /// Signs and seals a new root.
    pub fn seal(draft: RootDraft, key: &SiteKey, (generation, kek_id, kek): (KekGeneration, KekId, &Kek)) -> Self {
        let access = draft.access;
        let mesh = draft.mesh_id;
        let body = |zeros| RecoveryRootBody {
            mesh_id: mesh,
            domain_id: draft.domain_id,
            kek_generation: generation,
            recovery_generation: draft
                .previous
                .map_or(FIRST_ROOT, |(_, number)| number.saturating_add(1)),
            checkpoint_storage_id: draft.checkpoint,
            checkpoint_manifest_hash: draft.checkpoint_manifest,
            checkpoint_access_record: access.bytes().to_vec(),
            previous_recovery_root_id: draft.previous.map(|(id, _)| id),
            issuer: key.site_id(),
            issued_hlc: draft.issued_hlc,
            kek_id,
            seq: draft.seq,
            ops_seen: draft.ops_seen.clone(),
            padding: vec![0; zeros],
        };
        let sealed = |zeros| {
            let body = Signed::sign(body(zeros), key, &mesh);
            let bytes = seal0::seal(
                kek.expose_for_sealing(),
                CONTENT_TYPE,
                None,
                CONTENT_TYPE.as_bytes(),
                body.bytes(),
            );
            (body, bytes)
        };
        let bare = sealed(0).1.len();
        let (body, bytes) = ladder(SMALLEST)
            .filter_map(|target| zeros_for_growth(target.checked_sub(bare)?).map(|zeros| (target, sealed(zeros))))
            .find(|(target, (_, bytes))| bytes.len() == *target)
            .map(|(_, root)| root)
            .expect("one of the next few lengths is reachable");
        Self {
            id: storage_id(&bytes),
            bytes,
            body,
            access,
        }
    }

    /// BLAKE3 root of the exact sealed bytes (SOP-203).
    pub const fn id(&self) -> StorageId {
        self.id
    }

    /// The exact sealed bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What it says.
    pub fn body(&self) -> &RecoveryRootBody {
        self.body.body()
    }

    /// The grant of the checkpoint's key, verified to be by its issuer and for this checkpoint.
    pub const fn access(&self) -> &Signed<AccessRecord> {
        &self.access
    }

    /// What the key store keeps of it.
    pub fn reference(&self) -> RootRef {
        let body = self.body();
        RootRef {
            root_id: self.id,
            recovery_generation: body.recovery_generation,
            kek_generation: body.kek_generation,
            kek_id: body.kek_id,
        }
    }
}

/// Why a blob is not a root this domain can use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// The bytes are not those the id names.
    #[error("its bytes do not match its id")]
    WrongHash,
    /// Not the envelope of a root.
    #[error("it is not a recovery root")]
    NotARoot,
    /// No KEK held opens it.
    #[error("none of the {held} keys here opens it{}", wanted.map(|g| format!("; the key of generation {g} is missing")).unwrap_or_default())]
    NoKek {
        /// The generation that was asked for, if one was named.
        wanted: Option<KekGeneration>,
        /// Keys tried.
        held: usize,
    },
    /// The inside is malformed.
    #[error("its content is malformed ({0})")]
    Malformed(DecodeError),
    /// It was sealed under one KEK and names another (SOP-221, SOP-222).
    #[error("it is sealed with the key of generation {sealed}, but says generation {says}")]
    WrongKek {
        /// Generation of the key that opened it.
        sealed: KekGeneration,
        /// What it says.
        says: KekGeneration,
    },
    /// It belongs to another mesh.
    #[error("it belongs to mesh {found}, not {expected}")]
    WrongMesh {
        /// What was expected.
        expected: MeshId,
        /// What it says.
        found: MeshId,
    },
    /// It belongs to another domain.
    #[error("it belongs to another domain of this mesh")]
    WrongDomain,
    /// The signature does not fit.
    #[error("its signature is wrong")]
    BadSignature,
    /// Signed well, by nobody we believe.
    #[error("its issuer {} is not an admin known here", .0.fmt_short())]
    UnknownIssuer(SiteId),
    /// The access record inside is not one for this checkpoint; the text names what differs.
    #[error("its access record does not fit: {0}")]
    Access(&'static str),
}

/// Bytes whose hash is the id they were asked for by, in the envelope of a root.
#[derive(Debug)]
pub struct RootIn {
    id: StorageId,
    bytes: Vec<u8>,
    envelope: SealedIn,
}

impl RootIn {
    /// Whether a blob of this length is worth fetching.
    pub fn may_be_root(len: u64) -> bool {
        len <= LARGEST && is_on_ladder(len, SMALLEST as u64)
    }

    /// Checks the hash and the envelope.
    pub fn decode(id: StorageId, bytes: &[u8]) -> Result<Self, RootError> {
        if storage_id(bytes) != id {
            return Err(RootError::WrongHash);
        }
        let envelope = SealedIn::decode(bytes).map_err(|_| RootError::NotARoot)?;
        if !envelope.kid().is_empty() {
            return Err(RootError::NotARoot);
        }
        Ok(Self {
            id,
            bytes: bytes.to_vec(),
            envelope,
        })
    }

    /// Tries the KEKs: those of the named generation first, then all others, newest first (SOP-220, SOP-221).
    pub fn open(self, ring: &KekRing, named: Option<KekGeneration>) -> Result<UnverifiedRoot, RootError> {
        let first = ring.iter().filter(|(generation, ..)| Some(*generation) == named);
        let rest = ring.iter().rev().filter(|(generation, ..)| Some(*generation) != named);
        for (generation, kek_id, kek) in first.chain(rest) {
            let plain = match self
                .envelope
                .open(kek.expose_for_sealing(), CONTENT_TYPE, CONTENT_TYPE.as_bytes())
            {
                Ok(plain) => plain,
                Err(OpenError::WrongContentType | OpenError::Decode(_)) => return Err(RootError::NotARoot),
                Err(_) => continue,
            };
            let signed = SignedIn::<RecoveryRootBody>::decode(&plain).map_err(RootError::Malformed)?;
            let says = signed.claimed();
            if (says.kek_generation, says.kek_id) != (generation, kek_id) {
                return Err(RootError::WrongKek {
                    sealed: generation,
                    says: says.kek_generation,
                });
            }
            return Ok(UnverifiedRoot {
                id: self.id,
                bytes: self.bytes,
                signed,
            });
        }
        Err(RootError::NoKek {
            wanted: named,
            held: ring.len(),
        })
    }
}

/// A root that opened with one of our KEKs. Whoever holds that KEK could have written it.
#[derive(Debug)]
pub struct UnverifiedRoot {
    id: StorageId,
    bytes: Vec<u8>,
    signed: SignedIn<RecoveryRootBody>,
}

impl UnverifiedRoot {
    /// Checks mesh, domain, issuer, signature and the access record inside (SOP-214, SOP-224).
    pub fn verify(self, mesh: &MeshId, domain: &DomainId, believed: &BTreeSet<SiteId>) -> Result<Root, RootError> {
        let says = self.signed.claimed();
        if says.mesh_id != *mesh {
            return Err(RootError::WrongMesh {
                expected: *mesh,
                found: says.mesh_id,
            });
        }
        if says.domain_id != *domain {
            return Err(RootError::WrongDomain);
        }
        if !believed.contains(&says.issuer) {
            return Err(RootError::UnknownIssuer(says.issuer));
        }
        let body = self.signed.verify(mesh).map_err(|_| RootError::BadSignature)?;
        let access = access_record(body.body())?;
        Ok(Root {
            id: self.id,
            bytes: self.bytes,
            body,
            access,
        })
    }
}

fn access_record(root: &RecoveryRootBody) -> Result<Signed<AccessRecord>, RootError> {
    let access = SignedIn::<AccessRecord>::decode(&root.checkpoint_access_record)
        .map_err(|_| RootError::Access("it is malformed"))?
        .verify(&root.mesh_id)
        .map_err(|_| RootError::Access("its signature is wrong"))?;
    let says = access.body();
    let wrong = if says.mesh_id != root.mesh_id {
        "it is of another mesh"
    } else if says.domain_id != root.domain_id {
        "it is of another domain"
    } else if says.storage_id != root.checkpoint_storage_id {
        "it is for another object"
    } else if says.object_manifest_hash != root.checkpoint_manifest_hash {
        "it is for another manifest"
    } else {
        return Ok(access);
    };
    Err(RootError::Access(wrong))
}

/// The address of bytes (SOP §11.7).
pub(crate) fn storage_id(bytes: &[u8]) -> StorageId {
    StorageId::from_bytes(*blake3::hash(bytes).as_bytes())
}

#[cfg(test)]
mod tests;
