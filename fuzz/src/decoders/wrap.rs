//! Envelopes around any payload, with a signature that nobody made: as far as an entry gets before it is verified.

use sovm_object::{
    cbor::{self, DecodeError, Encoder, Payload},
    sign::{Body, SignedIn},
};

/// A COSE_Sign1 of the profile.
pub(super) fn signed_around(content_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut header = Encoder::new();
    header
        .map(3)
        .uint(1)
        .int(-8)
        .uint(3)
        .text(content_type)
        .uint(4)
        .bytes(&[7; 16]);
    let mut envelope = Encoder::new();
    // A map without pairs, as the unprotected header.
    envelope
        .array(4)
        .bytes(&header.into_vec())
        .map(0)
        .bytes(payload)
        .bytes(&[9; 64]);
    let mut bytes = vec![0xd2];
    bytes.extend(envelope.into_vec());
    bytes
}

/// Decodes a payload bare and in its envelope. Both must agree, and what is accepted has one encoding (SOP-130, SOP-131).
pub(super) fn payload<T: Body>(bytes: &[u8]) -> Option<T> {
    let bare = bare::<T>(bytes);
    let enveloped = SignedIn::<T>::decode(&signed_around(T::CONTENT_TYPE, bytes));
    assert_eq!(
        bare.is_ok(),
        enveloped.is_ok(),
        "bare and in its envelope, a payload is judged alike"
    );
    bare.ok()
}

/// The payload alone.
pub(super) fn bare<T: Payload>(bytes: &[u8]) -> Result<T, DecodeError> {
    let decoded = cbor::from_slice::<T>(bytes)?;
    assert_eq!(cbor::to_vec(&decoded), bytes, "accepted bytes are the one encoding");
    assert!(bytes.len() <= T::MAX_BYTES, "longer payloads are refused");
    Ok(decoded)
}
