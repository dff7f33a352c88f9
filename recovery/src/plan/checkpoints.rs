//! Third step: from a root to the verified entries of its checkpoint.

use std::collections::BTreeMap;

use sovm_object::{
    id::{RecordId, StorageId},
    kek::KekRing,
    record::AccessRecord,
    sign::Signed,
};

use crate::{
    checkpoint::{self, CheckpointBody, CheckpointError, RecoveredSet, SetError},
    root::Root,
};

/// Why a root leads to no state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// One of its objects does not open.
    #[error(transparent)]
    Object(#[from] CheckpointError),
    /// The records are not a domain's state.
    #[error(transparent)]
    Set(#[from] SetError),
}

/// A root whose checkpoint is to be opened.
#[derive(Debug)]
pub struct CheckpointStep<'a> {
    root: &'a Root,
    ring: &'a KekRing,
    genesis: Option<&'a RecordId>,
}

impl<'a> CheckpointStep<'a> {
    pub(super) const fn new(root: &'a Root, ring: &'a KekRing, genesis: Option<&'a RecordId>) -> Self {
        Self { root, ring, genesis }
    }

    /// The object to fetch.
    pub fn wanted(&self) -> StorageId {
        self.root.body().checkpoint_storage_id
    }

    /// Opens the object, or says that it is missing.
    pub fn open(self, bytes: Option<&[u8]>) -> Result<PartsStep<'a>, StepError> {
        let bytes = bytes.ok_or_else(|| CheckpointError::Missing(self.wanted()))?;
        let head = checkpoint::open(bytes, self.root.access(), self.ring)?;
        let (mesh, domain) = (self.root.body().mesh_id, self.root.body().domain_id);
        let mut wanted = BTreeMap::new();
        for part in head.parts() {
            let access = checkpoint::part_access(part, &mesh, &domain)?;
            wanted.insert(part.storage_id, (access, part.record_count));
        }
        Ok(PartsStep {
            step: self,
            bodies: vec![head],
            wanted,
        })
    }
}

/// A checkpoint whose head is open.
#[derive(Debug)]
pub struct PartsStep<'a> {
    step: CheckpointStep<'a>,
    bodies: Vec<CheckpointBody>,
    wanted: BTreeMap<StorageId, (Signed<AccessRecord>, u64)>,
}

impl PartsStep<'_> {
    /// The next part to fetch.
    pub fn wanted(&self) -> Option<StorageId> {
        self.wanted.keys().next().copied()
    }

    /// Opens a part, or says that it is missing.
    pub fn offer(&mut self, part: StorageId, bytes: Option<&[u8]>) -> Result<(), StepError> {
        let Some((access, expected)) = self.wanted.remove(&part) else {
            return Ok(());
        };
        let bytes = bytes.ok_or(CheckpointError::Missing(part))?;
        let body = checkpoint::open(bytes, &access, self.step.ring)?;
        let found = body.records().len() as u64;
        if found != expected {
            return Err(CheckpointError::PartCount { part, expected, found }.into());
        }
        self.bodies.push(body);
        Ok(())
    }

    /// Verifies every entry and the authority of the root's issuer.
    pub fn finish(self) -> Result<RecoveredSet, StepError> {
        if let Some(part) = self.wanted() {
            return Err(CheckpointError::Missing(part).into());
        }
        let (root, ring) = (self.step.root, self.step.ring);
        let (mesh, domain) = (root.body().mesh_id, root.body().domain_id);
        let set = RecoveredSet::open(&self.bodies, ring, &mesh, &domain)?;
        set.authorize(root, ring, &mesh, self.step.genesis)?;
        Ok(set)
    }
}
