//! The domain digest: one number that says two nodes know the same (DESIGN §16.8, SOP-201).

use std::collections::BTreeSet;

use crate::id::RecordId;

/// BLAKE3 over the sorted ids of a domain's entries and records. It is a function of the set: neither the order in which they
/// came nor how a checkpoint cut them into parts makes a difference.
pub fn domain_digest(ids: impl IntoIterator<Item = RecordId>) -> [u8; 32] {
    let ids: BTreeSet<_> = ids.into_iter().collect();
    let mut hasher = blake3::Hasher::new();
    for id in ids {
        hasher.update(id.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SOP-201: order and repetition make no difference.
    #[test]
    fn it_is_a_function_of_the_set() {
        let id = |n| RecordId::from_bytes([n; 32]);
        let digest = domain_digest([id(1), id(2), id(3)]);
        assert_eq!(digest, domain_digest([id(3), id(1), id(2), id(1)]));
        assert_ne!(digest, domain_digest([id(1), id(2)]));
        assert_eq!(domain_digest([]), *blake3::hash(b"").as_bytes());
    }
}
