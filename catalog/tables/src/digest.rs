//! The domain digest as this node states it, with the number of records behind it.

/// What a domain's accepted entries, with the mesh's own, come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainDigest {
    /// [`domain_digest`](sovm_object::domain_digest::domain_digest) of their ids.
    pub digest: [u8; 32],
    /// Number of records.
    pub records: u64,
}
