//! Ring blob: every key a stale kit needs, sealed to all kits and signed inside (DESIGN §9, SOP part 2.16).
//!
//! ```text
//! age file to every kit not retired; 4,096, 8,192, then a Padmé length
//!   COSE_Sign1 by the issuer, an admin
//!     RingBody {mesh, domain, KEK ring, admins, op heads, newest root, kit ids, issuer, zeros}
//! ```
//! What opening one proves, and what not. Whoever knows a kit's public recipient can encrypt to it, so the age layer says nothing
//! about the writer. The signature says who wrote it, and the body must list that site among its own admins: that is circular,
//! and only ties the blob together. A member who was removed, or any former member, can therefore write a ring blob that
//! opens. What stops it is what follows: the recovered set must hold the genesis whose hash is the mesh id on the page, the
//! domain's genesis named there, and a roster, computed from signed ops alone, in which the issuers of ring and root
//! are admins (see [`crate::plan`]). With words only and no page, nothing pins the mesh but the person who reads its
//! fingerprint.
//!
//! Keys in memory: the plaintext is wiped, but the signing envelope keeps its bytes as long as the ring is in use, and those
//! are not. It is the same exposure as the ring itself, which is needed in memory anyway.

use std::{collections::BTreeSet, sync::Arc};

use sovm_object::{
    cbor::{DecodeError, Decoder, Encoder, Payload},
    id::{DomainId, KitId, MeshId, RecordId, SiteId, StorageId},
    kek::KekRing,
    secret::SiteKey,
    sign::{Body, Signed, SignedIn},
};
use zeroize::Zeroizing;

use crate::{
    age_file::{self, AgeFault, AgeRecipient, Key, Lock},
    keystore::{decode_ring, decode_set, encode_ring, encode_set},
    kit::{Fingerprint, Kit},
    root::storage_id,
    sizes::{is_on_ladder, ladder, zeros_for_growth},
};

const SMALLEST: usize = 4_096;
/// Room for 20,000 KEKs; larger blobs are not looked at.
const LARGEST: usize = 2 * 1024 * 1024;

/// What a ring blob holds.
#[derive(Debug)]
pub struct RingBody {
    /// The mesh.
    pub mesh_id: MeshId,
    /// The domain.
    pub domain_id: DomainId,
    /// All KEKs of the domain.
    pub ring: KekRing,
    /// The domain's admins.
    pub admins: BTreeSet<SiteId>,
    /// Heads of the membership ops.
    pub op_heads: BTreeSet<RecordId>,
    /// The root this blob was written with.
    pub newest_root: StorageId,
    /// The kits it is encrypted to.
    pub kits: BTreeSet<KitId>,
    /// Who wrote it.
    pub issuer: SiteId,
}

/// The signed form: the body and its padding.
#[derive(Debug)]
struct Padded {
    body: Arc<RingBody>,
    zeros: usize,
}

impl Payload for Padded {
    const MAX_BYTES: usize = LARGEST;

    fn encode(&self, e: &mut Encoder) {
        let body = &self.body;
        e.map(10)
            .uint(1)
            .uint(1)
            .uint(2)
            .field(&body.mesh_id)
            .uint(3)
            .field(&body.domain_id)
            .uint(4);
        encode_ring(&body.ring, e);
        e.uint(5);
        encode_set(&body.admins, e);
        e.uint(6);
        encode_set(&body.op_heads, e);
        e.uint(7).field(&body.newest_root).uint(8);
        encode_set(&body.kits, e);
        e.uint(9).field(&body.issuer).uint(10).bytes(&vec![0; self.zeros]);
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        if d.map()? != 10 {
            return Err(DecodeError::Malformed);
        }
        let key = |d: &mut Decoder<'_>, expected: u64| match d.uint()? {
            found if found == expected => Ok(()),
            _ => Err(DecodeError::Missing(expected)),
        };
        key(d, 1)?;
        match d.uint()? {
            1 => {}
            newer => return Err(DecodeError::NewerVersion(newer)),
        }
        key(d, 2)?;
        let mesh_id = d.field()?;
        key(d, 3)?;
        let domain_id = d.field()?;
        key(d, 4)?;
        let ring = decode_ring(d)?;
        key(d, 5)?;
        let admins = decode_set(d)?;
        key(d, 6)?;
        let op_heads = decode_set(d)?;
        key(d, 7)?;
        let newest_root = d.field()?;
        key(d, 8)?;
        let kits = decode_set(d)?;
        key(d, 9)?;
        let issuer = d.field()?;
        key(d, 10)?;
        // Only the length is kept; the comparison with the re-encoded bytes proves that all of it is zeros.
        let zeros = d.bytes()?.len();
        let body = RingBody {
            mesh_id,
            domain_id,
            ring,
            admins,
            op_heads,
            newest_root,
            kits,
            issuer,
        };
        Ok(Self {
            body: Arc::new(body),
            zeros,
        })
    }
}

impl Body for Padded {
    const CONTENT_TYPE: &'static str = "sovm/ring-blob-v1";
    const CONTEXT_TAIL_ITEMS: usize = 1;

    fn author(&self) -> SiteId {
        self.body.issuer
    }

    fn domain(&self) -> Option<DomainId> {
        Some(self.body.domain_id)
    }

    fn context_tail(&self, e: &mut Encoder) {
        e.field(&self.body.newest_root);
    }
}

/// Why a ring blob was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingSealError {
    /// There is no kit to encrypt to.
    #[error("the domain has no recovery kit; make one with `sovm recovery kit`")]
    NoKit,
    /// The ring is beyond any real size.
    #[error("the key ring is too large for a ring blob")]
    TooLarge,
}

/// Why a blob is not a ring for this kit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The bytes are not those the id names.
    #[error("its bytes do not match its id")]
    WrongHash,
    /// Not an age file, or not for this kit. Most blobs are like that.
    #[error("it is not for this kit")]
    NotForThisKit,
    /// For this kit, but broken.
    #[error("{0}")]
    Damaged(AgeFault),
    /// The inside is malformed.
    #[error("its content is malformed ({0})")]
    Malformed(DecodeError),
    /// Signed badly, or by a site that is not among the admins it lists.
    #[error("it is not signed by an admin of its domain")]
    NotByAdmin,
    /// It does not list this kit: it was encrypted to it by somebody else.
    #[error("it does not name this kit")]
    KitNotListed,
    /// Another mesh than the page says.
    #[error("it belongs to mesh {found}, the page is of mesh {expected}")]
    WrongMesh {
        /// Fingerprint of the page's mesh.
        expected: Fingerprint,
        /// Fingerprint of the blob's mesh.
        found: Fingerprint,
    },
    /// Another domain than the page says.
    #[error("it belongs to another domain than the page")]
    WrongDomain,
}

/// A ring blob as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingBlob {
    id: StorageId,
    bytes: Vec<u8>,
}

impl RingBlob {
    /// Signs and seals a ring for these kits. `body.kits` must be their ids and `body.issuer` the site of `key`.
    pub fn seal(body: RingBody, kits: &[AgeRecipient], key: &SiteKey) -> Result<Self, RingSealError> {
        if kits.is_empty() {
            return Err(RingSealError::NoKit);
        }
        let body = Arc::new(body);
        let sign = |zeros| {
            let signed = Signed::sign(
                Padded {
                    body: body.clone(),
                    zeros,
                },
                key,
                &body.mesh_id,
            );
            Zeroizing::new(signed.bytes().to_vec())
        };
        let bare = sign(0).len();
        let fill = |room: usize| {
            let zeros = zeros_for_growth(room.checked_sub(bare)?)?;
            Some(sign(zeros)).filter(|plain| plain.len() == room)
        };
        let targets = ladder(SMALLEST).take_while(|size| *size <= LARGEST);
        let bytes = age_file::seal_sized(Lock::Recipients(kits), targets, fill).map_err(|_| RingSealError::TooLarge)?;
        Ok(Self {
            id: storage_id(&bytes),
            bytes,
        })
    }

    /// BLAKE3 root of the bytes.
    pub const fn id(&self) -> StorageId {
        self.id
    }

    /// The bytes to store.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether a blob of this length is worth fetching.
    pub fn may_be_ring(len: u64) -> bool {
        len <= LARGEST as u64 && is_on_ladder(len, SMALLEST as u64)
    }
}

/// A ring blob that opened with the kit and is consistent in itself.
#[derive(Debug)]
pub struct OpenedRing {
    id: StorageId,
    body: Arc<RingBody>,
}

impl OpenedRing {
    /// Opens a blob with a kit. `page` is what the page says about mesh and domain, as far as it was typed in.
    pub fn open(
        id: StorageId,
        bytes: &[u8],
        kit: &Kit,
        page: (Option<&MeshId>, Option<&DomainId>),
    ) -> Result<Self, RingError> {
        if storage_id(bytes) != id {
            return Err(RingError::WrongHash);
        }
        let plain = age_file::open(bytes, Key::Secret(kit.age_secret())).map_err(|fault| match fault {
            AgeFault::NotAge | AgeFault::WrongKey | AgeFault::TooMuchWork(_) => RingError::NotForThisKit,
            fault => RingError::Damaged(fault),
        })?;
        let signed = SignedIn::<Padded>::decode(&plain).map_err(RingError::Malformed)?;
        let says = &signed.claimed().body;
        let (mesh, domain) = (says.mesh_id, says.domain_id);
        if let Some(expected) = page.0.filter(|expected| **expected != mesh) {
            let (expected, found) = (Fingerprint::of_mesh(expected), Fingerprint::of_mesh(&mesh));
            return Err(RingError::WrongMesh { expected, found });
        }
        if page.1.is_some_and(|expected| *expected != domain) {
            return Err(RingError::WrongDomain);
        }
        let signed = signed.verify(&mesh).map_err(|_| RingError::NotByAdmin)?;
        let body = signed.body().body.clone();
        if !body.admins.contains(&body.issuer) {
            return Err(RingError::NotByAdmin);
        }
        if !body.kits.contains(&kit.id()) {
            return Err(RingError::KitNotListed);
        }
        Ok(Self { id, body })
    }

    /// The blob it came from.
    pub const fn id(&self) -> StorageId {
        self.id
    }

    /// What it holds.
    pub fn body(&self) -> &RingBody {
        &self.body
    }
}

/// Arbitrary bytes as the signed inside of a ring blob; for fuzzing, which age would stop before. Must never panic.
pub fn fuzz_decode(bytes: &[u8]) {
    let _ = SignedIn::<Padded>::decode(bytes);
}

#[cfg(test)]
mod tests;
