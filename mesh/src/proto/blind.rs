//! What members ask of blind replicas, and what those answer (DESIGN §8 "Blind replicas").
//!
//! Requests are records signed by a member and judged by mesh-level ops alone; answers are signed receipts. Nothing in
//! either names a domain, a table or a device in words: ids, sizes and times only. The bytes themselves travel by the blob
//! protocol.

mod judge;
mod message;

#[cfg(test)]
mod tests;

pub use judge::{MAX_SKEW_MS, Placement, RELEASE_DELAY_MS, Release, challenge_answer, judge_request};
pub use message::{
    Answer, Ask, ListFrom, Listed, MAX_IDS, MAX_REQUEST, PlaceObject, Placed, RangeOf, Released, ReplicaReceipt,
    ReplicaRequest, RequestRefusal,
};

use sovm_object::{cbor::DecodeError, sign::SignedIn};

/// A request from its signed bytes, not yet verified. Takes arbitrary input; for fuzzing, too.
pub fn decode_request(bytes: &[u8]) -> Result<SignedIn<ReplicaRequest>, DecodeError> {
    SignedIn::decode(bytes)
}

/// A receipt from its signed bytes, not yet verified. Takes arbitrary input; for fuzzing, too.
pub fn decode_receipt(bytes: &[u8]) -> Result<SignedIn<ReplicaReceipt>, DecodeError> {
    SignedIn::decode(bytes)
}
