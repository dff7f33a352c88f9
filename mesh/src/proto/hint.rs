//! Hints: small sealed messages that say "there is news" (DESIGN §8). Correctness never depends on one.
//!
//! Topic and key come from the newest KEKs, so a removed member loses both. On the wire a hint has one of three sizes and
//! no clear ids.

use sovm_object::{
    cbor::{DecodeError, Decoder, Encoder},
    hlc::Hlc,
    id::{DomainId, MeshId, SiteId, StorageId},
    payload,
    seal0::{self, OpenError, SealedIn},
    secret::{Kek, SiteKey},
    sign::{Body, Signed, SignedIn, VerifyError},
};
use zeroize::Zeroizing;

use super::codec::List;

const CONTENT_TYPE: &str = "sovm/hint-v1";

/// Longest hint on the wire; gossip breaks its connection on longer messages.
pub const MAX_HINT: usize = 1_024;

/// Sizes of what is sealed, chosen so that the envelope keeps the whole within 256, 512 and 1,024 bytes.
const PLAINTEXT_SIZES: [usize; 3] = [256 - 96, 512 - 96, MAX_HINT - 96];

payload! {
    /// News of one site in one domain.
    pub struct Hint {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The domain.
        3 domain_id: DomainId,
        /// Whose news.
        4 site: SiteId,
        /// When; equal hints are sent once.
        5 hlc: Hlc,
        /// New elements of the domain's set, newest last; empty means "compare with me".
        6 elements: List<[u8; 32], 12>,
        /// Objects whose bytes the site holds since recently.
        7 objects: List<StorageId, 12>,
    }
    max MAX_HINT;
}

impl Body for Hint {
    const CONTENT_TYPE: &'static str = CONTENT_TYPE;

    fn author(&self) -> SiteId {
        self.site
    }

    fn domain(&self) -> Option<DomainId> {
        Some(self.domain_id)
    }
}

/// Why a hint is dropped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HintError {
    /// Not sealed under a key we hold, or damaged.
    #[error("the hint does not open")]
    Open(#[from] OpenError),
    /// What is inside is not of the format.
    #[error("the hint is malformed")]
    Malformed(#[from] DecodeError),
    /// The signature inside does not verify.
    #[error("the hint is not signed by its site")]
    Signature(#[from] VerifyError),
    /// Too much to say at once.
    #[error("the hint does not fit into {MAX_HINT} bytes")]
    TooLong,
}

/// The gossip topic of a domain while `kek` is among its newest.
pub fn topic(kek: &Kek) -> [u8; 32] {
    *kek.derive("sovm gossip-topic v1", &[])
}

fn key(kek: &Kek) -> Zeroizing<[u8; 32]> {
    kek.derive("sovm gossip-hint v1", &[])
}

/// Signs and seals a hint under a random IV.
pub fn seal(hint: Hint, sender: &SiteKey, kek: &Kek) -> Result<Vec<u8>, HintError> {
    let (mesh, domain) = (hint.mesh_id, hint.domain_id);
    let signed = Signed::sign(hint, sender, &mesh);
    let padded = |zeros: usize| {
        let mut e = Encoder::new();
        e.array(2).bytes(signed.bytes()).bytes(&vec![0; zeros]);
        e.into_vec()
    };
    let bare = padded(0).len();
    let target = PLAINTEXT_SIZES
        .into_iter()
        .find(|size| bare <= *size)
        .ok_or(HintError::TooLong)?;
    // The length prefix of the zeros grows with them; what it skips is padded by nothing and depends on the target alone.
    let mut zeros = target - bare;
    while padded(zeros).len() > target {
        zeros -= 1;
    }
    let mut plaintext = padded(zeros);
    plaintext.resize(target, 0);
    Ok(seal0::seal(
        &key(kek),
        CONTENT_TYPE,
        None,
        &external_aad(&mesh, &domain),
        &plaintext,
    ))
}

/// Opens and verifies a hint. The caller checks that its site is in the roster.
pub fn open(bytes: &[u8], kek: &Kek, mesh: &MeshId, domain: &DomainId) -> Result<Hint, HintError> {
    if bytes.len() > MAX_HINT {
        return Err(HintError::TooLong);
    }
    let plaintext = SealedIn::decode(bytes)?.open(&key(kek), CONTENT_TYPE, &external_aad(mesh, domain))?;
    let mut d = Decoder::new(&plaintext);
    d.array_of(2)?;
    let signed = SignedIn::<Hint>::decode(d.bytes()?)?;
    if (signed.claimed().mesh_id, signed.claimed().domain_id) != (*mesh, *domain) {
        return Err(HintError::Malformed(DecodeError::OutOfRange(2)));
    }
    Ok(signed.verify(mesh)?.body().clone())
}

fn external_aad(mesh: &MeshId, domain: &DomainId) -> Vec<u8> {
    let mut e = Encoder::new();
    e.array(5)
        .text("sovm/sop")
        .uint(1)
        .text(CONTENT_TYPE)
        .field(mesh)
        .field(domain);
    e.into_vec()
}

/// Arbitrary bytes through the decoders; for fuzzing. Must never panic.
pub fn fuzz_decode(bytes: &[u8]) {
    let _ = open(
        bytes,
        &Kek::from_bytes([0; 32]),
        &MeshId::from_bytes([0; 32]),
        &DomainId::from_bytes([0; 32]),
    );
    let _ = SignedIn::<Hint>::decode(bytes);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const MESH: MeshId = MeshId::from_bytes([1; 32]);
    const DOMAIN: DomainId = DomainId::from_bytes([2; 32]);

    fn hint(key: &SiteKey, elements: usize, objects: usize) -> Hint {
        Hint {
            mesh_id: MESH,
            domain_id: DOMAIN,
            site: key.site_id(),
            hlc: Hlc::new(1_700_000_000_000, 3),
            elements: vec![[7; 32]; elements].into(),
            objects: vec![StorageId::from_bytes([8; 32]); objects].into(),
        }
    }

    /// DESIGN §8: at most 1 KiB, and only three sizes are ever seen.
    #[test]
    fn hints_have_three_sizes() {
        let (key, kek) = (SiteKey::from_seed(&[3; 32]), Kek::from_bytes([4; 32]));
        let mut sizes = BTreeSet::new();
        for elements in 0..=12 {
            for objects in 0..=6 {
                let hint = hint(&key, elements, objects);
                let sealed = seal(hint.clone(), &key, &kek).unwrap();
                assert_eq!(open(&sealed, &kek, &MESH, &DOMAIN).unwrap(), hint);
                sizes.insert(sealed.len());
            }
        }
        assert!(
            sizes.len() <= 3 && sizes.iter().all(|size| *size <= MAX_HINT),
            "{sizes:?}"
        );
        assert!(matches!(
            seal(hint(&key, 12, 12), &key, &kek),
            Ok(_) | Err(HintError::TooLong)
        ));
    }

    #[test]
    fn removed_members_and_other_domains_cannot_open() {
        let (key, kek) = (SiteKey::from_seed(&[3; 32]), Kek::from_bytes([4; 32]));
        let next = Kek::from_bytes([5; 32]);
        assert_ne!(topic(&kek), topic(&next));
        let sealed = seal(hint(&key, 1, 1), &key, &kek).unwrap();
        assert!(open(&sealed, &next, &MESH, &DOMAIN).is_err());
        assert!(open(&sealed, &kek, &MESH, &DomainId::from_bytes([0; 32])).is_err());
        assert!(open(&sealed, &kek, &MeshId::from_bytes([0; 32]), &DOMAIN).is_err());
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            assert!(open(&bad, &kek, &MESH, &DOMAIN).is_err(), "byte {at}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            fuzz_decode(&bytes);
        }
    }
}
