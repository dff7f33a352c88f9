//! Sealed entries: how entries travel between members and rest in checkpoints (SOP part 2.2, DESIGN §16.4).
//!
//! Sealing is repeatable: the nonce is a keyed hash of everything sealed, so equal entries give equal bytes and no
//! (key, nonce) pair ever covers two plaintexts. The opener recomputes it.

use crate::{
    cbor::{Decoder, Encoder},
    id::{DomainId, KekId, MeshId, RecordId},
    kek::KekRing,
    padme::padme,
    seal0::{self, OpenError, SealedIn},
    secret::Kek,
};

const CONTENT_TYPE: &str = "sovm/entry-v1";

/// Seals the exact signed bytes of an entry under one KEK.
pub fn seal(entry: &[u8], kek: &Kek, kek_id: &KekId, mesh: &MeshId, domain: &DomainId) -> Vec<u8> {
    let aad = external_aad(mesh, domain);
    let plaintext = pad(entry);
    let iv = nonce(kek, kek_id, &aad, &plaintext);
    let key = kek.derive("sovm entry-seal v1", &[]);
    seal0::seal_with_iv(&key, CONTENT_TYPE, Some(kek_id.as_bytes()), &aad, &plaintext, iv)
}

/// The KEK a sealed entry names, without opening it.
pub fn kek_id_of(sealed: &[u8]) -> Option<KekId> {
    KekId::from_slice(SealedIn::decode(sealed).ok()?.kid())
}

/// Opens a sealed entry with the KEK it names and gives the exact signed bytes inside.
///
/// `Ok(None)` means the KEK is not held here yet: the bytes are worth keeping.
pub fn open(
    sealed: &[u8],
    ring: &KekRing,
    mesh: &MeshId,
    domain: &DomainId,
) -> Result<Option<(KekId, Vec<u8>)>, OpenError> {
    let envelope = SealedIn::decode(sealed)?;
    let kek_id = KekId::from_slice(envelope.kid()).ok_or(OpenError::Unsealed)?;
    let Some(kek) = ring.get(&kek_id) else {
        return Ok(None);
    };
    let aad = external_aad(mesh, domain);
    let plaintext = envelope.open(&kek.derive("sovm entry-seal v1", &[]), CONTENT_TYPE, &aad)?;
    if nonce(kek, &kek_id, &aad, &plaintext) != envelope.iv() {
        return Err(OpenError::Unsealed);
    }
    let entry = unpad(&plaintext).ok_or(OpenError::Unsealed)?;
    Ok(Some((kek_id, entry)))
}

/// What reconciliation compares: BLAKE3 of record id and KEK id, never sealed bytes (DESIGN §8).
pub fn element_id(record: &RecordId, kek_id: Option<&KekId>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(record.as_bytes());
    hasher.update(kek_id.map_or(&[0; 16][..], |id| &id.as_bytes()[..]));
    *hasher.finalize().as_bytes()
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

fn nonce(kek: &Kek, kek_id: &KekId, aad: &[u8], plaintext: &[u8]) -> [u8; 12] {
    let mut e = Encoder::new();
    e.array(3)
        .bytes(&seal0::protected_bytes(CONTENT_TYPE, Some(kek_id.as_bytes())))
        .bytes(aad)
        .bytes(plaintext);
    let hash = blake3::keyed_hash(&kek.derive("sovm entry-nonce v1", &[]), &e.into_vec());
    std::array::from_fn(|i| hash.as_bytes()[i])
}

/// Sizes of small plaintexts, so that an entry's length tells little.
const SMALL_SIZES: [usize; 3] = [256, 512, 1_024];

/// `[entry bytes, zero bytes]`, brought to the next small size or to its Padmé length.
fn pad(entry: &[u8]) -> Vec<u8> {
    let encode = |zeros: usize| {
        let mut e = Encoder::new();
        e.array(2).bytes(entry).bytes(&vec![0; zeros]);
        e.into_vec()
    };
    let bare = encode(0);
    let target = SMALL_SIZES
        .into_iter()
        .find(|&size| bare.len() <= size)
        .unwrap_or_else(|| padme(bare.len() as u64).expect("entries are far below the Padmé limit") as usize);
    // The length prefix of the zeros grows at 24, 256 and 65,536; step down until it fits. A gap of a byte or two is no leak:
    // it depends on the target alone.
    let mut zeros = target - bare.len();
    let mut padded = encode(zeros);
    while padded.len() > target && zeros > 0 {
        zeros -= 1;
        padded = encode(zeros);
    }
    padded
}

fn unpad(plaintext: &[u8]) -> Option<Vec<u8>> {
    let mut d = Decoder::new(plaintext);
    d.array_of(2).ok()?;
    let entry = d.bytes().ok()?;
    let zeros = d.bytes().ok()?;
    (d.is_at_end() && zeros.iter().all(|&b| b == 0) && pad(entry) == plaintext).then(|| entry.to_vec())
}

/// The entry in the opened inside of a sealed entry; for fuzzing, which the tag would stop before. Must never panic.
pub fn fuzz_unpad(plaintext: &[u8]) -> Option<Vec<u8>> {
    unpad(plaintext)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> (KekRing, KekId, MeshId, DomainId) {
        let kek_id = KekId::from_bytes([1; 16]);
        let mut ring = KekRing::default();
        ring.insert(1, kek_id, Kek::from_bytes([2; 32]));
        (ring, kek_id, MeshId::from_bytes([3; 32]), DomainId::from_bytes([4; 32]))
    }

    #[test]
    fn sealing_is_repeatable_and_opens() {
        let (ring, kek_id, mesh, domain) = setup();
        let kek = ring.get(&kek_id).unwrap();
        for len in [0, 1, 100, 250, 251, 252, 600, 1_000, 1_020, 5_000, 70_000] {
            let entry = vec![5; len];
            let sealed = seal(&entry, kek, &kek_id, &mesh, &domain);
            assert_eq!(sealed, seal(&entry, kek, &kek_id, &mesh, &domain));
            assert_eq!(open(&sealed, &ring, &mesh, &domain), Ok(Some((kek_id, entry))), "{len}");
        }
    }

    #[test]
    fn other_context_or_changed_bytes_are_refused() {
        let (ring, kek_id, mesh, domain) = setup();
        let sealed = seal(b"entry", ring.get(&kek_id).unwrap(), &kek_id, &mesh, &domain);
        assert!(open(&sealed, &ring, &MeshId::from_bytes([9; 32]), &domain).is_err());
        assert!(open(&sealed, &ring, &mesh, &DomainId::from_bytes([9; 32])).is_err());
        assert_eq!(open(&sealed, &KekRing::default(), &mesh, &domain), Ok(None));
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            assert!(!matches!(open(&bad, &ring, &mesh, &domain), Ok(Some(_))), "byte {at}");
        }
    }

    /// DESIGN §16.4: a nonce that was not derived from the plaintext is refused even though the tag fits.
    #[test]
    fn chosen_nonce_is_refused() {
        let (ring, kek_id, mesh, domain) = setup();
        let kek = ring.get(&kek_id).unwrap();
        let key = kek.derive("sovm entry-seal v1", &[]);
        let aad = external_aad(&mesh, &domain);
        let sealed = seal0::seal_with_iv(
            &key,
            CONTENT_TYPE,
            Some(kek_id.as_bytes()),
            &aad,
            &pad(b"entry"),
            [0; 12],
        );
        assert_eq!(open(&sealed, &ring, &mesh, &domain), Err(OpenError::Unsealed));
    }
}
