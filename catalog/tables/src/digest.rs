//! The domain digest: one number that says two nodes know the same (DESIGN §16.8, SOP-201).

use std::collections::BTreeSet;

use sovm_object::id::RecordId;

/// What a domain's accepted entries, with the mesh's own, come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainDigest {
    /// BLAKE3 over the sorted record ids.
    pub digest: [u8; 32],
    /// Number of records.
    pub records: u64,
}

/// The digest of a set of records. How a checkpoint is cut into parts makes no difference.
pub fn digest_of(records: &BTreeSet<RecordId>) -> DomainDigest {
    let mut hasher = blake3::Hasher::new_derive_key("sovm domain-digest v1");
    for id in records {
        hasher.update(id.as_bytes());
    }
    DomainDigest {
        digest: *hasher.finalize().as_bytes(),
        records: records.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_repetition_make_no_difference() {
        let id = |n| RecordId::from_bytes([n; 32]);
        let a = digest_of(&BTreeSet::from([id(1), id(2), id(3)]));
        let b = digest_of(&[id(3), id(1), id(2), id(1)].into_iter().collect());
        assert_eq!(a, b);
        assert_ne!(a, digest_of(&BTreeSet::from([id(1), id(2)])));
    }
}
