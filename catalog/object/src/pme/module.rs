//! One encrypted module: length, nonce, ciphertext, tag (SOP-13, SOP-20, SOP-21).

use std::{collections::HashSet, ops::Range};

use bytes::BytesMut;
use rand::RngCore as _;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

use super::encrypt::EncryptError;
use crate::secret::Dek;

/// Bytes a module adds to its plaintext.
pub(super) const FRAME_LEN: usize = LENGTH_LEN + SEAL_LEN;
/// Bytes the framed length must at least be: nonce and tag.
const SEAL_LEN: usize = NONCE_LEN + TAG_LEN;
const LENGTH_LEN: usize = 4;
const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;
/// Modules under one key; far below where random nonces could meet (SOP-21).
const MAX_MODULES: usize = 1 << 31;

/// Where nonces come from. Production uses [`RandomNonces`]; golden tests count.
pub trait NonceSource {
    /// The next nonce. One that was used before under the same key stops the writer.
    fn next_nonce(&mut self) -> [u8; 12];
}

/// Nonces from the operating system's generator.
#[derive(Debug, Default)]
pub struct RandomNonces(());

impl NonceSource for RandomNonces {
    fn next_nonce(&mut self) -> [u8; 12] {
        let mut nonce = [0; NONCE_LEN];
        rand::rng().fill_bytes(&mut nonce);
        nonce
    }
}

/// A wiped copy of an object's key. The cipher's own key schedule lives only as long as one step that uses it.
pub(super) struct ModuleKey(Zeroizing<[u8; 32]>);

impl ModuleKey {
    pub(super) fn new(dek: &Dek) -> Self {
        Self(Zeroizing::new(*dek.expose_for_sealing()))
    }

    pub(super) fn cipher(&self) -> LessSafeKey {
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*self.0).expect("the key has the cipher's length"))
    }
}

impl std::fmt::Debug for ModuleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ModuleKey(..)")
    }
}

/// Draws nonces and refuses one that comes twice.
pub(super) struct FreshNonces<'n> {
    source: &'n mut dyn NonceSource,
    used: HashSet<[u8; NONCE_LEN]>,
}

impl<'n> FreshNonces<'n> {
    pub(super) fn new(source: &'n mut dyn NonceSource) -> Self {
        Self {
            source,
            used: HashSet::new(),
        }
    }

    pub(super) fn draw(&mut self) -> Result<[u8; NONCE_LEN], EncryptError> {
        let nonce = self.source.next_nonce();
        if self.used.len() >= MAX_MODULES {
            return Err(EncryptError::TooManyModules);
        }
        if !self.used.insert(nonce) {
            return Err(EncryptError::NonceRepeated);
        }
        Ok(nonce)
    }
}

/// Appends `plain` to `out` as a module.
pub(super) fn seal(
    cipher: &LessSafeKey,
    nonce: [u8; NONCE_LEN],
    plain: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), EncryptError> {
    let framed = u32::try_from(plain.len() + SEAL_LEN).map_err(|_| EncryptError::ModuleTooLong)?;
    out.extend_from_slice(&framed.to_le_bytes());
    out.extend_from_slice(&nonce);
    let start = out.len();
    out.extend_from_slice(plain);
    let tag = cipher
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut out[start..])
        .map_err(|_| EncryptError::Cipher)?;
    out.extend_from_slice(tag.as_ref());
    Ok(())
}

/// Why a module could not be opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ModuleError {
    /// Its length is below 28 or leads out of its place (SOP-374).
    Length,
    /// Its tag does not fit.
    Tag,
}

/// Opens the module at `module.start` in `buffer` and moves its plaintext to `to`, which must not lie behind it.
/// Returns the plaintext's place and the module's end.
pub(super) fn open_within(
    cipher: &LessSafeKey,
    buffer: &mut [u8],
    at: usize,
    to: usize,
) -> Result<(Range<usize>, usize), ModuleError> {
    let rest = buffer.get(at..).ok_or(ModuleError::Length)?;
    let (length, rest) = rest.split_first_chunk::<LENGTH_LEN>().ok_or(ModuleError::Length)?;
    let framed = u32::from_le_bytes(*length) as usize;
    let (nonce, _) = rest.split_first_chunk::<NONCE_LEN>().ok_or(ModuleError::Length)?;
    if framed < SEAL_LEN || framed > rest.len() {
        return Err(ModuleError::Length);
    }
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let end = at + LENGTH_LEN + framed;
    let sealed_from = at + LENGTH_LEN + NONCE_LEN - to;
    let plain = cipher
        .open_within(nonce, Aad::empty(), &mut buffer[to..end], sealed_from..)
        .map_err(|_| ModuleError::Tag)?
        .len();
    Ok((to..to + plain, end))
}

/// Opens `module`, which must be one whole module and nothing else, into a buffer of its own.
pub(super) fn open_whole(cipher: &LessSafeKey, module: &[u8]) -> Result<BytesMut, ModuleError> {
    let mut buffer = BytesMut::from(module);
    let (plain, end) = open_within(cipher, &mut buffer, 0, 0)?;
    if end != module.len() {
        return Err(ModuleError::Length);
    }
    buffer.truncate(plain.end);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cipher() -> LessSafeKey {
        ModuleKey::new(&Dek::from_bytes([7; 32])).cipher()
    }

    #[test]
    fn modules_round_trip_and_reject_every_flip() {
        for len in [0, 1, 15, 16, 17, 1000] {
            let plain: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut module = Vec::new();
            seal(&cipher(), [3; 12], &plain, &mut module).unwrap();
            assert_eq!(module.len(), len + FRAME_LEN);
            assert_eq!(&open_whole(&cipher(), &module).unwrap()[..], &plain[..]);
            for at in 0..module.len() {
                let mut bad = module.clone();
                bad[at] ^= 1;
                assert!(open_whole(&cipher(), &bad).is_err(), "{at}");
            }
            for cut in 0..module.len() {
                assert_eq!(open_whole(&cipher(), &module[..cut]), Err(ModuleError::Length));
            }
        }
    }

    /// SOP-374: a length below 28 or beyond the input is refused before use.
    #[test]
    fn lengths_are_checked() {
        for length in [0u32, 27, 29, u32::MAX, 0x8000_0000] {
            let mut module = vec![0; FRAME_LEN];
            module[..4].copy_from_slice(&length.to_le_bytes());
            assert_eq!(open_whole(&cipher(), &module), Err(ModuleError::Length), "{length}");
        }
    }

    /// SOP-13: a module sealed with an AAD, as the Parquet specification's suffix would be, does not open.
    #[test]
    fn foreign_aad_fails() {
        let mut plain = b"page".to_vec();
        let tag = cipher()
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key([1; 12]),
                Aad::from(b"unique\x00\x00"),
                &mut plain,
            )
            .unwrap();
        let module = [&32u32.to_le_bytes()[..], &[1; 12], &plain, tag.as_ref()].concat();
        assert_eq!(open_whole(&cipher(), &module), Err(ModuleError::Tag));
    }

    /// SOP-21: 100,000 random nonces differ; a source that repeats one is stopped.
    #[test]
    fn nonces_are_fresh() {
        struct Stuck;
        impl NonceSource for Stuck {
            fn next_nonce(&mut self) -> [u8; 12] {
                [5; 12]
            }
        }
        let mut source = RandomNonces::default();
        let mut nonces = FreshNonces::new(&mut source);
        assert!((0..100_000).all(|_| nonces.draw().is_ok()));
        let mut source = Stuck;
        let mut nonces = FreshNonces::new(&mut source);
        assert!(nonces.draw().is_ok());
        assert!(matches!(nonces.draw(), Err(EncryptError::NonceRepeated)));
    }
}
