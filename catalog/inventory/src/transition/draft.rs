//! The next version while operations act on it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Context, EditionKey, Operation, Refusal, SealedEdition, Version};
use crate::doc::{
    DocError, EditionId, EditionState, Entry, EntryStatus, FormatVersion, Instant, JsonObject, Leaf, ProductId, Seq,
    Stored, Tombstone,
};

mod checks;
mod operations;

/// A product's leaf in the next version.
enum Edited {
    /// Written anew.
    Changed(Leaf),
    /// An older version's leaf as it was.
    Reused(Arc<Stored<Leaf>>),
    /// The product has no edition left.
    Removed,
}

/// A base version and what operations changed of it. An operation checks everything before it changes anything, so a refused
/// one leaves the draft as it was and a batch may go on.
pub(super) struct Draft<'a> {
    base: &'a Version,
    context: &'a Context<'a>,
    at: Instant,
    embargo: bool,
    leaves: BTreeMap<ProductId, Edited>,
    retired: BTreeMap<EditionKey, Tombstone>,
    changed: BTreeSet<EditionKey>,
    pub(super) built_from: Option<Seq>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(base: &'a Version, context: &'a Context<'a>, at: Instant) -> Self {
        Self {
            base,
            context,
            at,
            embargo: base.embargo,
            leaves: BTreeMap::new(),
            retired: base.retired.clone(),
            changed: BTreeSet::new(),
            built_from: base.seq,
        }
    }

    /// Does one operation, or refuses it and changes nothing.
    pub(super) fn run(&mut self, operation: &Operation) -> Result<(), Refusal> {
        match operation {
            Operation::Seal(sealed) => self.seal(sealed),
            Operation::Register { sealed, release_at } => self.register(sealed, *release_at),
            Operation::Release { edition, when } => self.release(edition, *when),
            Operation::Cancel { edition } => self.cancel(edition),
            Operation::SupersedePending { by } => self.supersede_pending(by),
            Operation::Reschedule { edition, release_at } => self.reschedule(edition, *release_at),
            Operation::Rollback(rollback) => self.rollback(rollback),
            Operation::Withdraw { live } => self.withdraw(live),
            Operation::Reinstate(verified) => self.reinstate(verified),
            Operation::Retire { edition } => self.retire(edition),
            Operation::SetLifecycle { product_id, lifecycle } => self.set_lifecycle(product_id, *lifecycle),
            Operation::SetEmbargo { on } => self.set_embargo(*on),
            Operation::Describe => Ok(()),
            Operation::Correct { to, products } => self.correct(to, products),
        }
    }

    /// The next version; the leaves that changed are written out, the others are the base's.
    pub(super) fn finish(self, seq: Seq) -> Result<Version, Refusal> {
        let mut leaves = self.base.leaves.clone();
        for (product_id, edited) in self.leaves {
            match edited {
                Edited::Changed(leaf) => {
                    let unwritable = |error: DocError| Refusal::LeafUnwritable {
                        product_id: product_id.clone(),
                        reason: error.to_string(),
                    };
                    let leaf = Stored::encode(leaf).map_err(unwritable)?;
                    leaves.insert(product_id, Arc::new(leaf));
                }
                Edited::Reused(leaf) => {
                    leaves.insert(product_id, leaf);
                }
                Edited::Removed => {
                    leaves.remove(&product_id);
                }
            }
        }
        Ok(Version {
            seq: Some(seq),
            created_at: Some(self.at),
            embargo: self.embargo,
            leaves,
            retired: self.retired,
        })
    }

    /// Puts a leaf in place of the product's, past every check.
    #[cfg(test)]
    pub(super) fn put(&mut self, leaf: Leaf) {
        self.leaves.insert(leaf.product_id.clone(), Edited::Changed(leaf));
    }

    fn unchanged(&self, editions: &[&EditionKey]) -> Result<(), Refusal> {
        match editions.iter().find(|edition| self.changed.contains(**edition)) {
            Some(edition) => Err(Refusal::ChangedTwice {
                edition: (*edition).clone(),
            }),
            None => Ok(()),
        }
    }

    fn supersede(&mut self, product_id: &ProductId, replaced: Option<EditionId>) -> Result<(), Refusal> {
        if let Some(replaced) = replaced {
            let replaced = EditionKey::new(product_id.clone(), replaced);
            self.unchanged(&[&replaced])?;
            self.set_state(&replaced, EditionState::Superseded);
        }
        Ok(())
    }

    fn set_state(&mut self, edition: &EditionKey, state: EditionState) {
        let at = self.at;
        self.edit(edition, |entry| {
            entry.state = state;
            entry.state_changed_at = at;
            // INV-171: only an embargoed edition has a release time.
            entry.release_at = None;
        });
    }

    fn edit(&mut self, edition: &EditionKey, change: impl FnOnce(&mut Entry)) {
        let id = edition.edition_id;
        let leaf = self.leaf_mut(&edition.product_id);
        if let Some(entry) = leaf.and_then(|leaf| leaf.editions.iter_mut().find(|entry| entry.edition_id == id)) {
            change(entry);
        }
        self.changed.insert(edition.clone());
    }

    /// Adds an entry made from a manifest; artefact records and routing fields are filled (INV-175, INV-184, INV-186).
    fn record(
        &mut self,
        sealed: &SealedEdition,
        state: EditionState,
        release_at: Option<Instant>,
    ) -> Result<(), Refusal> {
        let manifest = &sealed.manifest;
        let edition = sealed.edition();
        let entry = Entry {
            edition_id: manifest.edition_id,
            previous: manifest.previous,
            state,
            manifest_sha256: manifest.sha256(),
            schema_version: manifest.schema_version.clone(),
            state_changed_at: self.at,
            release_at,
            structure_source: sealed.structure_source.clone(),
            artefacts: Some(manifest.artefact_fingerprints()),
            routing: Some(manifest.routing()),
            extra: JsonObject::new(),
        };
        let new = Leaf {
            format_version: FormatVersion::INVENTORY,
            product_id: edition.product_id.clone(),
            kind: sealed.profile.kind,
            lifecycle: sealed.profile.lifecycle,
            editions: Vec::new(),
            extra: JsonObject::new(),
        };
        if self.leaf(&edition.product_id).is_none() {
            self.leaves.insert(edition.product_id.clone(), Edited::Changed(new));
        }
        if let Some(leaf) = self.leaf_mut(&edition.product_id) {
            let place = leaf
                .editions
                .partition_point(|other| other.edition_id < entry.edition_id);
            leaf.editions.insert(place, entry);
        }
        self.changed.insert(edition);
        Ok(())
    }

    fn tombstone(&self, edition: &EditionKey) -> Tombstone {
        let EditionKey { product_id, edition_id } = edition.clone();
        Tombstone {
            product_id,
            edition_id,
            retired_at: self.at,
        }
    }

    /// INV-181: the entry goes and the tombstone comes.
    fn bury(&mut self, edition: &EditionKey) {
        self.retired.insert(edition.clone(), self.tombstone(edition));
        if let Some(leaf) = self.leaf_mut(&edition.product_id) {
            leaf.editions.retain(|entry| entry.edition_id != edition.edition_id);
            if leaf.editions.is_empty() {
                self.leaves.insert(edition.product_id.clone(), Edited::Removed);
            }
        }
        self.changed.insert(edition.clone());
    }

    fn leaf(&self, product_id: &ProductId) -> Option<&Leaf> {
        match self.leaves.get(product_id) {
            Some(Edited::Changed(leaf)) => Some(leaf),
            Some(Edited::Reused(leaf)) => Some(leaf.value()),
            Some(Edited::Removed) => None,
            None => self.base.leaves.get(product_id).map(|leaf| leaf.value()),
        }
    }

    fn leaf_mut(&mut self, product_id: &ProductId) -> Option<&mut Leaf> {
        if !matches!(self.leaves.get(product_id), Some(Edited::Changed(_))) {
            // INV-169: a leaf that is written anew is written in the writer's own format.
            let leaf = Leaf {
                format_version: FormatVersion::INVENTORY,
                ..self.leaf(product_id)?.clone()
            };
            self.leaves.insert(product_id.clone(), Edited::Changed(leaf));
        }
        match self.leaves.get_mut(product_id) {
            Some(Edited::Changed(leaf)) => Some(leaf),
            _ => None,
        }
    }

    fn leaves_now(&self) -> Vec<&Leaf> {
        let new = self
            .leaves
            .keys()
            .filter(|product_id| !self.base.leaves.contains_key(product_id));
        self.base
            .leaves
            .keys()
            .chain(new)
            .filter_map(|product_id| self.leaf(product_id))
            .collect()
    }

    fn entry(&self, edition: &EditionKey) -> Option<&Entry> {
        self.leaf(&edition.product_id)?.entry(&edition.edition_id)
    }

    fn status(&self, edition: &EditionKey) -> Option<EntryStatus> {
        match self.entry(edition) {
            Some(entry) => Some(EntryStatus::State(entry.state)),
            None => self.retired.contains_key(edition).then_some(EntryStatus::Tombstone),
        }
    }
}
