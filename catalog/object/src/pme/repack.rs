//! What a repack's encrypted footer says of the objects its rows come from (SOP §12.3).
//!
//! Whoever holds a table's key could sign a second manifest for the bytes of a repack, with its leaves in another order or its
//! tombstones left out, and rows would count twice or come back. So the one who wrote the rows says it inside the object too.

use crate::{
    cbor::{Encoder, Field as _},
    id::StorageId,
    pme::Footer,
    record::{ObjectManifest, manifest::SourceLeaf},
};

/// Key of the footer's entry. Readers show no entry with it, so that nobody copies one into another object.
pub(super) const SOURCES_KEY: &str = "sovm:sop-repack-v1";

/// What a repack commits to: BLAKE3 over the deterministic CBOR of `[sources, tombstone_refs]`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SourcesCommitment(blake3::Hash);

impl SourcesCommitment {
    /// Of the leaves and tombstone objects as the repack's manifest will name them.
    pub fn new(sources: &[SourceLeaf], tombstone_refs: &[StorageId]) -> Self {
        let mut e = Encoder::new();
        e.array(2).array(sources.len());
        sources.iter().for_each(|source| source.encode(&mut e));
        e.array(tombstone_refs.len());
        tombstone_refs.iter().for_each(|id| id.encode(&mut e));
        Self(blake3::hash(&e.into_vec()))
    }

    /// The value of the footer's entry.
    pub(super) fn value(&self) -> String {
        self.0.to_hex().to_string()
    }
}

/// A manifest says other sources than the object does.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("its manifest and the object itself disagree about the objects its rows come from")]
pub struct OtherSources;

impl Footer {
    /// Holds the sources a manifest names against those the object commits to; an object that is no repack commits to none.
    pub fn check_sources(&self, manifest: &ObjectManifest) -> Result<(), OtherSources> {
        let stated = match (&manifest.sources, &manifest.tombstone_refs) {
            (Some(sources), Some(refs)) => vec![SourcesCommitment::new(sources, refs).value().into_bytes()],
            _ => Vec::new(),
        };
        if self.facts.sources == stated {
            Ok(())
        } else {
            Err(OtherSources)
        }
    }
}
