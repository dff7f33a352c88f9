//! First step: which blobs are ring blobs for this kit.

use std::collections::BTreeSet;

use sovm_object::{
    id::{DomainId, MeshId, StorageId},
    kek::KekRing,
    secret::Kek,
};

use super::{RecoverError, RecoverOptions, RootSearch};
use crate::{
    age_file::looks_like_age,
    kit::ParsedKit,
    ring::{OpenedRing, RingBlob, RingError},
};

/// Looks for the domain's keys.
#[derive(Debug)]
pub struct RingSearch<'a> {
    kit: &'a ParsedKit,
    opened: Vec<OpenedRing>,
    refused: Vec<(StorageId, RingError)>,
    searched: usize,
}

impl<'a> RingSearch<'a> {
    /// Starts with a kit and what its page said.
    pub const fn new(kit: &'a ParsedKit) -> Self {
        Self {
            kit,
            opened: Vec::new(),
            refused: Vec::new(),
            searched: 0,
        }
    }

    /// Whether a blob of this length is worth a look at its first bytes.
    pub fn wants(len: u64) -> bool {
        RingBlob::may_be_ring(len)
    }

    /// Whether a blob that begins like this is worth fetching.
    pub fn wants_head(head: &[u8]) -> bool {
        looks_like_age(head)
    }

    /// Tries a blob. Most are not for this kit, which is no fault.
    pub fn offer(&mut self, id: StorageId, bytes: &[u8]) -> bool {
        self.searched += 1;
        let facts = &self.kit.facts;
        match OpenedRing::open(
            id,
            bytes,
            &self.kit.kit,
            (facts.mesh_id.as_ref(), facts.domain_id.as_ref()),
        ) {
            Ok(ring) => {
                self.opened.push(ring);
                true
            }
            Err(RingError::NotForThisKit) => false,
            Err(why) => {
                self.refused.push((id, why));
                false
            }
        }
    }

    /// Goes on to the roots with every key that was found.
    pub fn finish(self, options: &RecoverOptions) -> Result<RootSearch<'a>, RecoverError> {
        let Self {
            kit,
            mut opened,
            refused,
            searched,
        } = self;
        if let Some(domain) = options.domain {
            opened.retain(|ring| ring.body().domain_id == domain);
        }
        let domains: BTreeSet<(MeshId, DomainId)> = opened
            .iter()
            .map(|ring| (ring.body().mesh_id, ring.body().domain_id))
            .collect();
        let mut found = domains.iter();
        let (mesh, domain) = match (found.next(), found.next()) {
            (Some(only), None) => *only,
            (None, _) => {
                return Err(RecoverError::NoRing {
                    kit: kit.kit.fingerprint(),
                    searched,
                    refused,
                });
            }
            _ => return Err(RecoverError::SeveralDomains(domains.into_iter().collect())),
        };
        // Old blobs may hold what a newer one lost and the other way round; more keys can only open more.
        let mut ring = KekRing::default();
        let mut believed = BTreeSet::new();
        let mut newest = BTreeSet::new();
        for opened in &opened {
            for (generation, id, kek) in opened.body().ring.iter() {
                ring.insert(generation, id, Kek::from_bytes(*kek.expose_for_sealing()));
            }
            believed.extend(opened.body().admins.iter().copied());
            newest.insert(opened.body().newest_root);
        }
        let rings = opened.iter().map(OpenedRing::id).collect();
        Ok(RootSearch::new(
            &kit.facts,
            (mesh, domain),
            ring,
            believed,
            newest,
            (rings, refused),
        ))
    }
}
