//! Second step: the recovery roots, and which of them lead back to what is trusted.

use std::collections::BTreeSet;

use sovm_object::{
    id::{DomainId, MeshId, SiteId, StorageId},
    kek::KekRing,
};

use super::{CheckpointStep, RecoverError, RecoverOptions};
use crate::{
    chain::{ChainError, Lineage, RootSet},
    kit::ReadFacts,
    ring::RingError,
    root::{Root, RootError, RootIn},
};

/// Looks for roots with the keys at hand.
#[derive(Debug)]
pub struct RootSearch<'a> {
    facts: &'a ReadFacts,
    mesh: MeshId,
    domain: DomainId,
    ring: KekRing,
    believed: BTreeSet<SiteId>,
    /// Roots that ring blobs name.
    newest: BTreeSet<StorageId>,
    roots: RootSet,
    refused: Vec<(StorageId, RootError)>,
    missing: BTreeSet<StorageId>,
    rings: (Vec<StorageId>, Vec<(StorageId, RingError)>),
}

impl<'a> RootSearch<'a> {
    pub(super) fn new(
        facts: &'a ReadFacts,
        (mesh, domain): (MeshId, DomainId),
        ring: KekRing,
        believed: BTreeSet<SiteId>,
        newest: BTreeSet<StorageId>,
        rings: (Vec<StorageId>, Vec<(StorageId, RingError)>),
    ) -> Self {
        Self {
            facts,
            mesh,
            domain,
            ring,
            believed,
            newest,
            roots: RootSet::default(),
            refused: Vec::new(),
            missing: BTreeSet::new(),
            rings,
        }
    }

    /// Whether a blob of this length is worth a look.
    pub fn wants(len: u64) -> bool {
        RootIn::may_be_root(len)
    }

    /// Whether a blob that begins like this is worth fetching: the tag of COSE_Encrypt0.
    pub fn wants_head(head: &[u8]) -> bool {
        head.first() == Some(&0xd0)
    }

    /// Roots to fetch by id: the page's, those the ring blobs name, and every link of the chain.
    pub fn wanted(&self, options: &RecoverOptions) -> Vec<StorageId> {
        let links = self
            .roots
            .iter()
            .filter_map(|root| root.body().previous_recovery_root_id);
        let named = self
            .newest
            .iter()
            .copied()
            .chain(self.facts.root_id)
            .chain(options.root);
        let refused = |id: &StorageId| self.refused.iter().any(|(refused, _)| refused == id);
        let wanted: BTreeSet<_> = links
            .chain(named)
            .filter(|id| self.roots.get(id).is_none() && !self.missing.contains(id) && !refused(id))
            .collect();
        wanted.into_iter().collect()
    }

    /// Notes that a wanted root is nowhere.
    pub fn is_missing(&mut self, id: StorageId) {
        self.missing.insert(id);
    }

    /// Takes a root that was asked for by id; a refusal is remembered with its reason.
    pub fn offer_wanted(&mut self, id: StorageId, bytes: &[u8]) {
        if let Err(why) = self.try_root(id, bytes) {
            self.refused.push((id, why));
        }
    }

    /// Takes a blob that may be a root. Foreign ones are no fault (SOP-229).
    pub fn offer(&mut self, id: StorageId, bytes: &[u8]) {
        match self.try_root(id, bytes) {
            Ok(()) | Err(RootError::NotARoot | RootError::NoKek { .. } | RootError::WrongHash) => {}
            Err(why) => self.refused.push((id, why)),
        }
    }

    fn try_root(&mut self, id: StorageId, bytes: &[u8]) -> Result<(), RootError> {
        if self.roots.get(&id).is_some() {
            return Ok(());
        }
        let named = self.facts.kek_generation.filter(|_| self.facts.root_id == Some(id));
        let root =
            RootIn::decode(id, bytes)?
                .open(&self.ring, named)?
                .verify(&self.mesh, &self.domain, &self.believed)?;
        self.missing.remove(&id);
        self.roots.insert(root);
        Ok(())
    }

    /// Keeps the heads that lead back to a trusted root (SOP-216, SOP-218).
    pub fn finish(mut self, options: &RecoverOptions) -> Result<HeadsFound<'a>, RecoverError> {
        let trusted: Vec<StorageId> = match self.facts.root_id.filter(|_| !options.trust_ring) {
            Some(page) => vec![page],
            None => self.newest.iter().copied().collect(),
        };
        let first = trusted.first().copied();
        let mut cut_off: Vec<(StorageId, ChainError)> = Vec::new();
        let heads = match options.root {
            Some(wanted) => vec![self.chosen(wanted, &trusted)?],
            None => loop {
                let heads: Vec<_> = self.roots.heads().into_iter().map(Root::id).collect();
                let judged: Vec<_> = heads.iter().map(|head| (*head, self.lineage(head, &trusted))).collect();
                if judged.iter().all(|(_, result)| result.is_ok()) {
                    break judged.into_iter().filter_map(|(_, result)| result.ok()).collect();
                }
                // What stood below a refused head may still be good.
                for (head, result) in judged {
                    if let Err(cause) = result {
                        self.roots.remove(&head);
                        cut_off.push((head, cause));
                    }
                }
            },
        };
        if heads.is_empty() {
            return Err(match cut_off.into_iter().next() {
                Some((head, cause)) => RecoverError::Untrusted { head, cause },
                None => RecoverError::NoRoot {
                    wanted: first.unwrap_or(StorageId::from_bytes([0; 32])),
                    refused: self.refused,
                },
            });
        }
        Ok(HeadsFound {
            search: self,
            heads,
            cut_off,
        })
    }

    /// The shortest way back to any trusted root; with none, the reason for the first.
    fn lineage(&self, head: &StorageId, trusted: &[StorageId]) -> Result<Lineage, ChainError> {
        let mut ways: Vec<_> = trusted.iter().map(|anchor| self.roots.walk(head, anchor)).collect();
        ways.sort_by_key(|way| way.as_ref().map_or(usize::MAX, Lineage::links));
        ways.into_iter().next().unwrap_or(Err(ChainError::Foreign(*head)))
    }

    /// A root the operator named: it descends from a trusted one, or a trusted one descends from it.
    fn chosen(&mut self, wanted: StorageId, trusted: &[StorageId]) -> Result<Lineage, RecoverError> {
        if self.roots.get(&wanted).is_none() {
            return Err(RecoverError::NotThatRoot {
                wanted,
                refused: std::mem::take(&mut self.refused),
            });
        }
        let is_ancestor = trusted.iter().any(|anchor| self.roots.walk(anchor, &wanted).is_ok());
        let way = if is_ancestor {
            self.roots.walk(&wanted, &wanted)
        } else {
            self.lineage(&wanted, trusted)
        };
        way.map_err(|cause| RecoverError::Untrusted { head: wanted, cause })
    }
}

/// The heads recovery goes on from.
#[derive(Debug)]
pub struct HeadsFound<'a> {
    search: RootSearch<'a>,
    heads: Vec<Lineage>,
    cut_off: Vec<(StorageId, ChainError)>,
}

impl HeadsFound<'_> {
    /// Lineages of the heads, best first. More than one after a fork.
    pub fn heads(&self) -> &[Lineage] {
        &self.heads
    }

    /// The step that opens the checkpoint of a root.
    pub fn checkpoint(&self, root: &StorageId) -> Option<CheckpointStep<'_>> {
        let root = self.search.roots.get(root)?;
        Some(CheckpointStep::new(
            root,
            &self.search.ring,
            self.search.facts.genesis.as_ref(),
        ))
    }

    /// The root before this one, if it is here.
    pub fn previous(&self, root: &StorageId) -> Option<&Root> {
        self.search
            .roots
            .get(&self.root(root)?.body().previous_recovery_root_id?)
    }

    /// A root by id.
    pub fn root(&self, root: &StorageId) -> Option<&Root> {
        self.search.roots.get(root)
    }

    /// The mesh.
    pub const fn mesh(&self) -> MeshId {
        self.search.mesh
    }

    /// The domain.
    pub const fn domain(&self) -> DomainId {
        self.search.domain
    }

    pub(super) const fn facts(&self) -> &ReadFacts {
        self.search.facts
    }

    pub(super) const fn ring(&self) -> &KekRing {
        &self.search.ring
    }

    pub(super) fn into_findings(self) -> Findings {
        Findings {
            ring: self.search.ring,
            rings: self.search.rings.0,
            refused_rings: self.search.rings.1,
            roots: self.search.roots.len(),
            refused_roots: self.search.refused,
            missing_roots: self.search.missing.into_iter().collect(),
            cut_off: self.cut_off,
        }
    }
}

/// What the searches came upon, for the report.
pub(super) struct Findings {
    pub(super) ring: KekRing,
    pub(super) rings: Vec<StorageId>,
    pub(super) refused_rings: Vec<(StorageId, RingError)>,
    pub(super) roots: usize,
    pub(super) refused_roots: Vec<(StorageId, RootError)>,
    pub(super) missing_roots: Vec<StorageId>,
    pub(super) cut_off: Vec<(StorageId, ChainError)>,
}
