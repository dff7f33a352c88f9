//! The body of `keystore.age`: what makes it ours, and what a change to it looks like.

use sovm_object::cbor::DecodeError;
use zeroize::Zeroizing;

use super::{contents::Contents, error::BodyFault};
use crate::age_file::{self, AgeFault, AgeSecret, Key, Lock};

/// `keystore.age` has a multiple of this length, so that it tells neither domains nor rotations, and a cut shows.
const STEP: usize = 4_096;
/// Far above any real key store: about 20,000 KEKs for each of ten domains.
const MAX_STEPS: usize = 4_096;
const MAC_CONTEXT: &str = "sovm keystore mac v1";
const MAC: usize = 32;
const LEN: usize = 4;

/// `MAC (32) | length of the body, little-endian (4) | body | zeros`, encrypted to the identity.
///
/// Age to a recipient authenticates nobody: whoever knows the public half can write such a file. The MAC needs the secret.
pub(super) fn seal(contents: &Contents, identity: &AgeSecret) -> Vec<u8> {
    seal_body(&contents.encode(), identity, identity)
}

pub(super) fn seal_body(body: &[u8], identity: &AgeSecret, mac_by: &AgeSecret) -> Vec<u8> {
    let key = mac_by.derive(MAC_CONTEXT);
    let fill = |room: usize| {
        if room < MAC + LEN + body.len() {
            return None;
        }
        let mut plain = Zeroizing::new(Vec::with_capacity(room));
        plain.extend_from_slice(&[0; MAC]);
        plain.extend_from_slice(&u32::try_from(body.len()).ok()?.to_le_bytes());
        plain.extend_from_slice(body);
        plain.resize(room, 0);
        let mac = blake3::keyed_hash(&key, &plain[MAC..]);
        plain[..MAC].copy_from_slice(mac.as_bytes());
        Some(plain)
    };
    let targets = (1..=MAX_STEPS).map(|n| n * STEP);
    age_file::seal_sized(Lock::Recipients(&[identity.recipient()]), targets, fill)
        .expect("a key store is far below the largest size")
}

pub(super) fn unseal(sealed: &[u8], identity: &AgeSecret) -> Result<Contents, BodyFault> {
    if age_file::looks_like_age(sealed) && !sealed.len().is_multiple_of(STEP) {
        return Err(AgeFault::Truncated.into());
    }
    let plain = age_file::open(sealed, Key::Secret(identity))?;
    let (mac, rest) = plain.split_at_checked(MAC).ok_or(BodyFault::Forged)?;
    let mac: [u8; MAC] = mac.try_into().map_err(|_| BodyFault::Forged)?;
    // blake3's comparison takes constant time.
    if blake3::keyed_hash(&identity.derive(MAC_CONTEXT), rest) != mac {
        return Err(BodyFault::Forged);
    }
    let malformed = || BodyFault::Malformed(DecodeError::Malformed);
    let (len, rest) = rest.split_first_chunk::<LEN>().ok_or_else(malformed)?;
    let body = rest.get(..u32::from_le_bytes(*len) as usize).ok_or_else(malformed)?;
    Contents::decode(body).map_err(|error| match error {
        DecodeError::NewerVersion(version) => BodyFault::Newer(version),
        other => BodyFault::Malformed(other),
    })
}
