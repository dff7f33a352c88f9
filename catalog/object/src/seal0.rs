//! Sealed payloads: the COSE_Encrypt0 profile (A256GCM) used for entries, recovery roots, hints and key bundles.
//!
//! ```text
//! tag 16 [ protected {1: 3 (A256GCM), 3: content type, 4: kid?}, unprotected {5: 12-byte IV}, ciphertext ]
//! ```
//! `kid` appears only inside the mesh; blobs that reach blind storage leave it out and are tried against the ring.

use aes_gcm::{
    Aes256Gcm, KeyInit as _, Nonce,
    aead::{Aead as _, Payload},
};
use coset::{
    CoseEncrypt0, CoseEncrypt0Builder, Header, HeaderBuilder, ProtectedHeader, RegisteredLabel,
    RegisteredLabelWithPrivate, TaggedCborSerializable as _, iana,
};
use rand::RngCore as _;

use crate::{cbor::DecodeError, envelope::check_outline};

/// Why a sealed payload did not open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The envelope is not of the profile.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Sealed for another purpose.
    #[error("sealed payload has another content type")]
    WrongContentType,
    /// Wrong key, wrong context, or changed bytes; GCM does not tell which.
    #[error("sealed payload does not open with this key in this context")]
    Unsealed,
}

/// A decoded envelope: which key it names and what is inside once opened.
#[derive(Debug)]
pub struct SealedIn {
    envelope: CoseEncrypt0,
}

/// Seals `plaintext` with a random IV.
pub fn seal(key: &[u8; 32], content_type: &str, kid: Option<&[u8]>, external_aad: &[u8], plaintext: &[u8]) -> Vec<u8> {
    let mut iv = [0; 12];
    rand::rng().fill_bytes(&mut iv);
    seal_with_iv(key, content_type, kid, external_aad, plaintext, iv)
}

/// Seals `plaintext` under a given IV. The caller owes the proof that (key, IV) never repeats for another plaintext.
pub fn seal_with_iv(
    key: &[u8; 32],
    content_type: &str,
    kid: Option<&[u8]>,
    external_aad: &[u8],
    plaintext: &[u8],
    iv: [u8; 12],
) -> Vec<u8> {
    let unprotected = HeaderBuilder::new().iv(iv.to_vec()).build();
    let cipher = Aes256Gcm::new(key.into());
    CoseEncrypt0Builder::new()
        .protected(protected_header(content_type, kid))
        .unprotected(unprotected)
        .create_ciphertext(plaintext, external_aad, |msg, aad| {
            cipher
                .encrypt(&Nonce::from(iv), Payload { msg, aad })
                .expect("payloads are far below the GCM limit")
        })
        .build()
        .to_tagged_vec()
        .expect("a header of known labels encodes")
}

/// The protected header as the bytes a derived IV is computed over.
pub(crate) fn protected_bytes(content_type: &str, kid: Option<&[u8]>) -> Vec<u8> {
    use coset::CborSerializable as _;
    protected_header(content_type, kid)
        .to_vec()
        .expect("a header of known labels encodes")
}

fn protected_header(content_type: &str, kid: Option<&[u8]>) -> Header {
    let mut header = HeaderBuilder::new()
        .algorithm(iana::Algorithm::A256GCM)
        .content_type(content_type.to_owned())
        .build();
    if let Some(kid) = kid {
        header.key_id = kid.to_vec();
    }
    header
}

impl SealedIn {
    /// Decodes the envelope and refuses every form but the profile's one.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        check_outline(bytes, CoseEncrypt0::TAG, 3)?;
        let envelope =
            CoseEncrypt0::from_tagged_slice(bytes).map_err(|_| DecodeError::Envelope("not a tagged COSE_Encrypt0"))?;
        let header = &envelope.protected.header;
        if header.alg != Some(RegisteredLabelWithPrivate::Assigned(iana::Algorithm::A256GCM)) {
            return Err(DecodeError::Envelope("algorithm is not A256GCM"));
        }
        if envelope.unprotected.iv.len() != 12 || envelope.ciphertext.is_none() {
            return Err(DecodeError::Envelope("IV or ciphertext is missing"));
        }
        let Some(RegisteredLabel::Text(_)) = &header.content_type else {
            return Err(DecodeError::Envelope("content type is missing"));
        };
        let rebuilt = CoseEncrypt0 {
            protected: ProtectedHeader {
                original_data: None,
                header: Header {
                    alg: header.alg.clone(),
                    content_type: header.content_type.clone(),
                    key_id: header.key_id.clone(),
                    ..Header::default()
                },
            },
            unprotected: Header {
                iv: envelope.unprotected.iv.clone(),
                ..Header::default()
            },
            ciphertext: envelope.ciphertext.clone(),
        };
        match rebuilt.to_tagged_vec() {
            Ok(rebuilt) if rebuilt == bytes => Ok(Self { envelope }),
            _ => Err(DecodeError::Envelope("not the deterministic form")),
        }
    }

    /// The key id in the protected header; empty when the sealer left it out.
    pub fn kid(&self) -> &[u8] {
        &self.envelope.protected.header.key_id
    }

    pub(crate) fn iv(&self) -> &[u8] {
        &self.envelope.unprotected.iv
    }

    /// Opens with one key, for one purpose and context.
    pub fn open(&self, key: &[u8; 32], content_type: &str, external_aad: &[u8]) -> Result<Vec<u8>, OpenError> {
        match &self.envelope.protected.header.content_type {
            Some(RegisteredLabel::Text(found)) if found == content_type => {}
            _ => return Err(OpenError::WrongContentType),
        }
        let iv: [u8; 12] = self.iv().try_into().map_err(|_| OpenError::Unsealed)?;
        let cipher = Aes256Gcm::new(key.into());
        self.envelope.decrypt_ciphertext(
            external_aad,
            || OpenError::Unsealed,
            |msg, aad| {
                cipher
                    .decrypt(&Nonce::from(iv), Payload { msg, aad })
                    .map_err(|_| OpenError::Unsealed)
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_with_the_same_key_purpose_and_context() {
        let key = [3; 32];
        let sealed = seal(&key, "sovm/test-v1", Some(&[9; 16]), b"ctx", b"secret");
        let opened = SealedIn::decode(&sealed).unwrap();
        assert_eq!(opened.kid(), [9; 16]);
        assert_eq!(opened.open(&key, "sovm/test-v1", b"ctx").unwrap(), b"secret");
        assert_eq!(opened.open(&[4; 32], "sovm/test-v1", b"ctx"), Err(OpenError::Unsealed));
        assert_eq!(opened.open(&key, "sovm/test-v1", b"other"), Err(OpenError::Unsealed));
        assert_eq!(
            opened.open(&key, "sovm/other-v1", b"ctx"),
            Err(OpenError::WrongContentType)
        );
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let key = [3; 32];
        let sealed = seal(&key, "sovm/test-v1", None, b"", b"secret");
        for bit in 0..sealed.len() * 8 {
            let mut bad = sealed.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let opened = SealedIn::decode(&bad)
                .map_err(OpenError::from)
                .and_then(|s| s.open(&key, "sovm/test-v1", b""));
            assert!(opened.is_err(), "bit {bit}");
        }
    }
}
