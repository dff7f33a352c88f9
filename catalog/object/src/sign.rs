//! Signed payloads: the COSE_Sign1 profile (SOP §12.3, SOP part 2).
//!
//! Only [`Signed`] has bytes to send or store, only [`SignedIn`] can be decoded, and [`SignedIn::verify`] is the only way from
//! one to the other. The exact received bytes are kept and hashed; nothing signed is ever encoded again.
//!
//! ```text
//! tag 18 [ protected {1: -8 (EdDSA), 3: content type, 4: kid}, unprotected {}, payload, signature ]
//! ```

use std::sync::Arc;

use coset::{
    CoseSign1, CoseSign1Builder, Header, HeaderBuilder, ProtectedHeader, RegisteredLabel, RegisteredLabelWithPrivate,
    TaggedCborSerializable as _, iana,
};

use crate::{
    cbor::{self, DecodeError, Decoder, Encoder, Payload},
    envelope::check_outline,
    id::{DomainId, MeshId, RecordId, SiteId},
    secret::SiteKey,
};

/// What a signed payload says about itself.
pub trait Body: Payload {
    /// The content type in the protected header, `sovm/<name>-v1`.
    const CONTENT_TYPE: &'static str;

    /// The site whose key must have signed.
    fn author(&self) -> SiteId;

    /// The domain in the signature context, if the format belongs to one.
    fn domain(&self) -> Option<DomainId>;

    /// Number of items [`context_tail`](Self::context_tail) writes.
    const CONTEXT_TAIL_ITEMS: usize = 0;

    /// What the format adds to the signature context beyond the common part.
    fn context_tail(&self, _e: &mut Encoder) {}

    /// The external data under the signature, built for the mesh the verifier is in (SOP-150, SOP-151):
    /// `["sovm/sop", 1, content type, mesh_id, domain_id or null, author, …]`.
    fn context(&self, mesh: &MeshId) -> Vec<u8> {
        let mut e = Encoder::new();
        e.array(6 + Self::CONTEXT_TAIL_ITEMS)
            .text("sovm/sop")
            .uint(1)
            .text(Self::CONTENT_TYPE)
            .bytes(mesh.as_bytes());
        match self.domain() {
            Some(domain) => e.bytes(domain.as_bytes()),
            None => e.null(),
        };
        e.bytes(self.author().as_bytes());
        self.context_tail(&mut e);
        e.into_vec()
    }
}

/// Why a decoded envelope is not what it claims to be. Final: bad bytes never become good (SOP-170).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The signature does not fit the payload in this mesh and context.
    #[error("signature does not verify for this mesh and context")]
    BadSignature,
    /// The author's id is not a valid public key.
    #[error("author is not a valid public key")]
    BadKey,
    /// The key id in the envelope is not the author's.
    #[error("key id does not belong to the author")]
    WrongKeyId,
    /// The payload names another mesh (SOP-134).
    #[error("entry belongs to another mesh")]
    WrongMesh,
}

/// A payload whose signature was made here or verified.
#[derive(Debug)]
pub struct Signed<B> {
    body: Arc<B>,
    bytes: Arc<[u8]>,
    id: RecordId,
}

impl<B> Clone for Signed<B> {
    fn clone(&self) -> Self {
        Self {
            body: self.body.clone(),
            bytes: self.bytes.clone(),
            id: self.id,
        }
    }
}

impl<B: Body> Signed<B> {
    /// Signs a body. The author in the body must be the site of `key`.
    pub fn sign(body: B, key: &SiteKey, mesh: &MeshId) -> Self {
        assert_eq!(body.author(), key.site_id(), "a body is signed by its author");
        let context = body.context(mesh);
        let header = HeaderBuilder::new()
            .algorithm(iana::Algorithm::EdDSA)
            .content_type(B::CONTENT_TYPE.to_owned())
            .key_id(key_id(&key.site_id()).to_vec())
            .build();
        let sign1 = CoseSign1Builder::new()
            .protected(header)
            .payload(cbor::to_vec(&body))
            .create_signature(&context, |message| key.sign(message).to_vec())
            .build();
        let bytes = sign1.to_tagged_vec().expect("a header of known labels encodes");
        Self::proven(body, &bytes)
    }

    fn proven(body: B, bytes: &[u8]) -> Self {
        Self {
            body: Arc::new(body),
            bytes: bytes.into(),
            id: record_id(bytes),
        }
    }
}

impl<B> Signed<B> {
    /// The payload.
    pub fn body(&self) -> &B {
        &self.body
    }

    /// The exact signed bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// BLAKE3 of the exact signed bytes.
    pub fn id(&self) -> RecordId {
        self.id
    }
}

/// A decoded envelope. Nothing in it is trusted yet.
#[derive(Debug)]
pub struct SignedIn<B> {
    body: B,
    envelope: CoseSign1,
    bytes: Vec<u8>,
}

impl<B: Body> SignedIn<B> {
    /// Decodes the envelope and the payload, and refuses every form but the profile's one.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (content_type, envelope) = decode_envelope(bytes, B::MAX_BYTES)?;
        if content_type != B::CONTENT_TYPE {
            return Err(DecodeError::UnknownContentType);
        }
        Self::from_envelope(envelope, bytes)
    }

    pub(crate) fn from_envelope(envelope: CoseSign1, bytes: &[u8]) -> Result<Self, DecodeError> {
        let payload = envelope
            .payload
            .as_deref()
            .ok_or(DecodeError::Envelope("payload is detached"))?;
        Ok(Self {
            body: cbor::from_slice(payload)?,
            envelope,
            bytes: bytes.to_vec(),
        })
    }

    /// What the payload claims, before anything was proved.
    pub fn claimed(&self) -> &B {
        &self.body
    }

    /// The exact received bytes.
    pub(crate) fn bytes_in(&self) -> &[u8] {
        &self.bytes
    }

    /// Proves that the claimed author signed this payload for `mesh`.
    pub fn verify(self, mesh: &MeshId) -> Result<Signed<B>, VerifyError> {
        let context = self.body.context(mesh);
        self.verify_in(&context)
    }

    /// Like [`verify`](Self::verify), in a context the caller built from what it expects.
    pub fn verify_in(self, context: &[u8]) -> Result<Signed<B>, VerifyError> {
        let author = self.body.author();
        if self.envelope.protected.header.key_id != key_id(&author) {
            return Err(VerifyError::WrongKeyId);
        }
        let key = ed25519_dalek::VerifyingKey::from_bytes(author.as_bytes()).map_err(|_| VerifyError::BadKey)?;
        self.envelope.verify_signature(context, |signature, message| {
            let signature = ed25519_dalek::Signature::from_slice(signature).map_err(|_| VerifyError::BadSignature)?;
            // SOP-172: strict, so that a signature has one form only.
            key.verify_strict(message, &signature)
                .map_err(|_| VerifyError::BadSignature)
        })?;
        Ok(Signed::proven(self.body, &self.bytes))
    }
}

/// The body in bytes that were verified before and are stored under their id. `None` when they are not the bytes of that id, or not of
/// this format.
///
/// The id stands for everything that [`SignedIn::decode`] proves once: one form, one spelling, the profile's header. So nothing but the
/// payload is read, which is what listing thousands of entries costs.
pub fn stored_body<B: Body>(bytes: &[u8], id: &RecordId) -> Option<B> {
    if record_id(bytes) != *id {
        return None;
    }
    let mut d = Decoder::new(bytes);
    d.tag().ok()?;
    d.array_of(4).ok()?;
    let protected = d.bytes().ok()?;
    d.map().ok()?;
    let payload = d.bytes().ok()?;
    let mut header = Decoder::new(protected);
    (header.map().ok()? == 3 && header.uint().ok()? == 1).then_some(())?;
    header.int().ok()?;
    (header.uint().ok()? == 3 && header.text().ok()? == B::CONTENT_TYPE).then_some(())?;
    B::decode(&mut Decoder::new(payload)).ok()
}

/// BLAKE3 of exact signed bytes.
pub fn record_id(bytes: &[u8]) -> RecordId {
    RecordId::from_bytes(*blake3::hash(bytes).as_bytes())
}

/// First 16 bytes of BLAKE3 of the public key.
fn key_id(site: &SiteId) -> [u8; 16] {
    let hash = blake3::hash(site.as_bytes());
    std::array::from_fn(|i| hash.as_bytes()[i])
}

/// Slack for the envelope around the longest payload.
const ENVELOPE_BYTES: usize = 512;

/// Decodes an envelope of the profile and gives its content type (SOP-171).
pub(crate) fn decode_envelope(bytes: &[u8], max_payload: usize) -> Result<(String, CoseSign1), DecodeError> {
    let limit = max_payload + ENVELOPE_BYTES;
    if bytes.len() > limit {
        return Err(DecodeError::TooLong {
            len: bytes.len(),
            limit,
        });
    }
    check_outline(bytes, CoseSign1::TAG, 4)?;
    let envelope = CoseSign1::from_tagged_slice(bytes).map_err(|_| DecodeError::Envelope("not a tagged COSE_Sign1"))?;
    if !envelope.unprotected.is_empty() {
        return Err(DecodeError::Envelope("unprotected header is not empty"));
    }
    let header = &envelope.protected.header;
    if header.alg != Some(RegisteredLabelWithPrivate::Assigned(iana::Algorithm::EdDSA)) {
        return Err(DecodeError::Envelope("algorithm is not EdDSA"));
    }
    let Some(RegisteredLabel::Text(content_type)) = &header.content_type else {
        return Err(DecodeError::Envelope("content type is missing"));
    };
    let content_type = content_type.clone();
    // Building the one legal form again and comparing bytes refuses extra labels, critical headers and loose CBOR at once.
    let expected = Header {
        alg: header.alg.clone(),
        content_type: header.content_type.clone(),
        key_id: header.key_id.clone(),
        ..Header::default()
    };
    if expected.key_id.len() != 16 || envelope.signature.len() != 64 {
        return Err(DecodeError::Envelope("key id or signature has the wrong length"));
    }
    let rebuilt = CoseSign1 {
        protected: ProtectedHeader {
            original_data: None,
            header: expected,
        },
        unprotected: Header::default(),
        payload: envelope.payload.clone(),
        signature: envelope.signature.clone(),
    };
    match rebuilt.to_tagged_vec() {
        Ok(rebuilt) if rebuilt == bytes => Ok((content_type, envelope)),
        _ => Err(DecodeError::Envelope("not the deterministic form")),
    }
}
