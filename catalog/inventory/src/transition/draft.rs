//! The next version while operations act on it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use chrono::TimeDelta;

use super::{
    Context, EditionKey, Operation, ProductProfile, Refusal, ReleaseWhen, Rollback, SealedEdition, Verb,
    VerifiedEdition, Version,
    fast_forward::{Candidate, fast_forward},
    prune,
    version::live_at,
};
use crate::doc::{
    CleanText, DocError, EditionId, EditionState, Entry, EntryStatus, FormatVersion, Instant, JsonObject, Leaf,
    Lifecycle, ProductId, ProductKind, Seq, Stored, Tombstone,
};

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

    /// INV-195: (sealed) to live, and the live edition it was built from to superseded.
    fn seal(&mut self, sealed: &SealedEdition) -> Result<(), Refusal> {
        if self.embargo {
            return Err(Refusal::EmbargoOn {
                edition: sealed.edition(),
            });
        }
        let replaced = self.check_new(sealed)?;
        self.supersede(&sealed.edition().product_id, replaced)?;
        self.record(sealed, EditionState::Live, None)
    }

    /// INV-196: (sealed) to embargoed.
    fn register(&mut self, sealed: &SealedEdition, release_at: Option<Instant>) -> Result<(), Refusal> {
        self.check_new(sealed)?;
        self.record(sealed, EditionState::Embargoed, release_at)
    }

    /// INV-197: embargoed to live, and the live edition it was built from to superseded (INV-200).
    fn release(&mut self, edition: &EditionKey, when: ReleaseWhen) -> Result<(), Refusal> {
        let entry = self.entry_in(edition, Verb::Release, &[EditionState::Embargoed])?;
        let (release_at, now) = (entry.release_at, self.context.clock.now());
        if when == ReleaseWhen::Due && release_at.is_none_or(|release_at| release_at > now) {
            return Err(Refusal::NotDue {
                edition: edition.clone(),
                release_at,
                now,
            });
        }
        let (previous, schema_version) = (entry.previous, entry.schema_version.clone());
        let candidate = Candidate {
            edition: edition.clone(),
            previous,
            schema_version: &schema_version,
        };
        let replaced = self.fast_forward(&candidate)?;
        self.final_unchanged(edition, previous)?;
        self.unchanged(&[edition])?;
        self.supersede(&edition.product_id, replaced)?;
        self.set_state(edition, EditionState::Live);
        Ok(())
    }

    /// INV-198: embargoed to withdrawn.
    fn cancel(&mut self, edition: &EditionKey) -> Result<(), Refusal> {
        self.entry_in(edition, Verb::Cancel, &[EditionState::Embargoed])?;
        self.unchanged(&[edition])?;
        self.set_state(edition, EditionState::Withdrawn);
        Ok(())
    }

    /// INV-199: embargoed to withdrawn, for every one that waits on the same live edition as `by`.
    fn supersede_pending(&mut self, by: &EditionKey) -> Result<(), Refusal> {
        let entry = self.entry_in(by, Verb::SupersedePending, &[EditionState::Embargoed])?;
        let (base, schema_version) = (entry.previous, entry.schema_version.clone());
        // A new edition that could not be released itself must not take the place of one that can.
        let candidate = Candidate {
            edition: by.clone(),
            previous: base,
            schema_version: &schema_version,
        };
        self.fast_forward(&candidate)?;
        let waiting = |entry: &&Entry| {
            entry.state == EditionState::Embargoed
                && entry.previous == base
                && entry.schema_version == schema_version
                && entry.edition_id != by.edition_id
        };
        let editions = self
            .leaf(&by.product_id)
            .map(|leaf| leaf.editions.as_slice())
            .unwrap_or_default();
        let pending: Vec<EditionKey> = editions
            .iter()
            .filter(waiting)
            .map(|entry| EditionKey::new(by.product_id.clone(), entry.edition_id))
            .collect();
        if pending.is_empty() {
            let product_id = by.product_id.clone();
            return Err(Refusal::NothingToSupersede {
                product_id,
                by: by.edition_id,
                base,
            });
        }
        self.unchanged(&pending.iter().collect::<Vec<_>>())?;
        for edition in &pending {
            self.set_state(edition, EditionState::Withdrawn);
        }
        Ok(())
    }

    /// An embargoed edition keeps its state and takes another release time; its `state_changed_at` stays (INV-180).
    fn reschedule(&mut self, edition: &EditionKey, release_at: Option<Instant>) -> Result<(), Refusal> {
        let entry = self.entry_in(edition, Verb::Reschedule, &[EditionState::Embargoed])?;
        if entry.release_at == release_at {
            let what = format!("{edition} has that release time already");
            return Err(Refusal::NothingToDo { what });
        }
        self.unchanged(&[edition])?;
        self.edit(edition, |entry| entry.release_at = release_at);
        Ok(())
    }

    /// INV-201: live X to withdrawn and superseded Y to live, if X is still the live edition (INV-206).
    fn rollback(&mut self, rollback: &Rollback) -> Result<(), Refusal> {
        let to = EditionKey::new(rollback.product_id.clone(), rollback.to);
        let live = EditionKey::new(rollback.product_id.clone(), rollback.if_live);
        let schema_version = self.still_live(&live, Verb::RollBack)?;
        let target = self.entry_in(&to, Verb::RollBack, &[EditionState::Superseded])?;
        if target.schema_version != schema_version {
            let to_schema = target.schema_version.clone();
            return Err(Refusal::OtherSchema {
                live: live.edition_id,
                live_schema: schema_version,
                to,
                to_schema,
            });
        }
        self.unchanged(&[&live, &to])?;
        self.set_state(&live, EditionState::Withdrawn);
        self.set_state(&to, EditionState::Live);
        Ok(())
    }

    /// Live to withdrawn without a successor.
    fn withdraw(&mut self, live: &EditionKey) -> Result<(), Refusal> {
        self.still_live(live, Verb::Withdraw)?;
        self.unchanged(&[live])?;
        self.set_state(live, EditionState::Withdrawn);
        Ok(())
    }

    /// INV-202: tombstone to superseded. The entry is made from the manifest anew, artefacts and routing fields included.
    fn reinstate(&mut self, verified: &VerifiedEdition) -> Result<(), Refusal> {
        let sealed = verified.sealed();
        let edition = sealed.edition();
        let found = self.status(&edition);
        if found != Some(EntryStatus::Tombstone) {
            return Err(Refusal::WrongState {
                verb: Verb::Reinstate,
                edition,
                found,
            });
        }
        self.check_profile(sealed)?;
        self.unchanged(&[&edition])?;
        self.retired.remove(&edition);
        self.record(sealed, EditionState::Superseded, None)
    }

    /// INV-203: superseded or withdrawn to a tombstone, once the window has passed; the last edition takes its product along.
    fn retire(&mut self, edition: &EditionKey) -> Result<(), Refusal> {
        let retirable = [EditionState::Superseded, EditionState::Withdrawn];
        let entry = self.entry_in(edition, Verb::Retire, &retirable)?;
        let now = self.context.clock.now();
        let window = TimeDelta::from_std(self.context.retention.edition()).unwrap_or(TimeDelta::MAX);
        if now.since(entry.state_changed_at) < window {
            let (state, since) = (entry.state, entry.state_changed_at);
            let until = since.plus(window);
            return Err(Refusal::InsideWindow {
                edition: edition.clone(),
                state,
                since,
                until,
                now,
            });
        }
        let leaves = self.leaves_now();
        prune::uncited(&leaves, edition, entry, self.context.manifests)?;
        self.unchanged(&[edition])?;
        self.bury(edition);
        Ok(())
    }

    /// A product becomes final or revisable; no edition changes.
    fn set_lifecycle(&mut self, product_id: &ProductId, lifecycle: Lifecycle) -> Result<(), Refusal> {
        let Some(leaf) = self.leaf(product_id) else {
            return Err(Refusal::UnknownProduct {
                product_id: product_id.clone(),
            });
        };
        if leaf.lifecycle == lifecycle {
            let what = format!("product {product_id} is {lifecycle} already");
            return Err(Refusal::NothingToDo { what });
        }
        if let Some(leaf) = self.leaf_mut(product_id) {
            leaf.lifecycle = lifecycle;
        }
        Ok(())
    }

    fn set_embargo(&mut self, on: bool) -> Result<(), Refusal> {
        if self.embargo == on {
            let what = format!("the embargo is {} already", if on { "on" } else { "off" });
            return Err(Refusal::NothingToDo { what });
        }
        self.embargo = on;
        Ok(())
    }

    /// INV-150: products return to the leaves of an older version, as they were.
    ///
    /// A tombstone stays one (INV-181), and what is embargoed now is not released by the way. An edition recorded since the older
    /// version becomes a tombstone: forgetting it would let its registration be folded again and publish what was corrected.
    fn correct(&mut self, to: &Version, products: &BTreeSet<ProductId>) -> Result<(), Refusal> {
        let (named, base) = (to.seq, self.base.seq);
        let Some(from) = named.filter(|named| base.is_some_and(|base| *named < base)) else {
            return Err(Refusal::CorrectNotOlder { named, base });
        };
        for product_id in products {
            if to.leaf(product_id).is_none() && self.leaf(product_id).is_none() {
                return Err(Refusal::UnknownProduct {
                    product_id: product_id.clone(),
                });
            }
            for entry in to.leaf(product_id).iter().flat_map(|leaf| &leaf.editions) {
                let edition = EditionKey::new(product_id.clone(), entry.edition_id);
                self.unchanged(&[&edition])?;
                match self.status(&edition) {
                    Some(EntryStatus::Tombstone) => return Err(Refusal::CorrectResurrects { edition, from }),
                    Some(EntryStatus::State(EditionState::Embargoed)) if entry.state == EditionState::Live => {
                        return Err(Refusal::CorrectReleases { edition, from });
                    }
                    _ => {}
                }
            }
        }
        for product_id in products {
            let older = to.leaf(product_id).cloned();
            let now = self
                .leaf(product_id)
                .map(|leaf| leaf.editions.as_slice())
                .unwrap_or_default();
            let kept = |entry: &&Entry| {
                older
                    .as_ref()
                    .is_some_and(|leaf| leaf.entry(&entry.edition_id).is_some())
            };
            let gone: Vec<EditionId> = now
                .iter()
                .filter(|entry| !kept(entry))
                .map(|entry| entry.edition_id)
                .collect();
            for edition_id in gone {
                let edition = EditionKey::new(product_id.clone(), edition_id);
                let tombstone = to
                    .retired
                    .get(&edition)
                    .cloned()
                    .unwrap_or_else(|| self.tombstone(&edition));
                self.retired.insert(edition, tombstone);
            }
            self.leaves
                .insert(product_id.clone(), older.map_or(Edited::Removed, Edited::Reused));
        }
        self.built_from = Some(from);
        Ok(())
    }

    /// What holds of every edition that is recorded for the first time. Answers the live edition it would replace.
    fn check_new(&self, sealed: &SealedEdition) -> Result<Option<EditionId>, Refusal> {
        let edition = sealed.edition();
        if let Some(status) = self.status(&edition) {
            return Err(Refusal::AlreadyRecorded { edition, status });
        }
        self.check_profile(sealed)?;
        let manifest = &sealed.manifest;
        let leaf = self.leaf(&edition.product_id);
        let (previous, schema_version) = (manifest.previous, &manifest.schema_version);
        let candidate = Candidate {
            edition: edition.clone(),
            previous,
            schema_version,
        };
        let replaced = self.fast_forward(&candidate)?;
        if let (Some(leaf), ProductProfile { lifecycle, .. }) = (leaf, sealed.profile)
            && leaf.lifecycle != lifecycle
        {
            let (entry, manifest) = (leaf.lifecycle.to_string(), lifecycle.to_string());
            return Err(Refusal::EntryDisagrees {
                rule: 169,
                edition,
                field: "lifecycle",
                entry,
                manifest,
            });
        }
        self.compare_content(&edition, manifest.previous, manifest)?;
        self.unchanged(&[&edition])?;
        if let Some(replaced) = replaced {
            self.unchanged(&[&EditionKey::new(edition.product_id, replaced)])?;
        }
        Ok(replaced)
    }

    fn fast_forward(&self, candidate: &Candidate<'_>) -> Result<Option<EditionId>, Refusal> {
        let product_id = &candidate.edition.product_id;
        let base = self.base.leaves.get(product_id).map(|leaf| leaf.value());
        fast_forward(self.leaf(product_id), base, candidate, |key| self.status(key))
    }

    fn check_profile(&self, sealed: &SealedEdition) -> Result<(), Refusal> {
        let edition = sealed.edition();
        let asked = sealed.profile.kind;
        if let Some(recorded) = self.leaf(&edition.product_id).map(|leaf| leaf.kind)
            && recorded != asked
        {
            return Err(Refusal::OtherKind {
                product_id: edition.product_id,
                recorded,
                asked,
            });
        }
        match sealed.manifest.bindings.first() {
            Some(binding) if asked == ProductKind::Structure => Err(Refusal::StructureWithBindings {
                edition,
                dataflow: binding.dataflow.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// INV-234, for an edition that is recorded already.
    fn final_unchanged(&self, edition: &EditionKey, previous: Option<EditionId>) -> Result<(), Refusal> {
        let is_final = self
            .leaf(&edition.product_id)
            .is_some_and(|leaf| leaf.lifecycle == Lifecycle::Final);
        let Some(entry) = self.entry(edition).filter(|_| is_final) else {
            return Ok(());
        };
        let manifest = self.context.manifests.of_entry(edition, entry)?;
        self.compare_content(edition, previous, manifest)
    }

    /// INV-234: a final product's new edition holds the content of the one before: the one it was built from, or the newest one
    /// that left its embargo.
    fn compare_content(
        &self,
        edition: &EditionKey,
        previous: Option<EditionId>,
        manifest: &crate::doc::Manifest,
    ) -> Result<(), Refusal> {
        let Some(leaf) = self
            .leaf(&edition.product_id)
            .filter(|leaf| leaf.lifecycle == Lifecycle::Final)
        else {
            return Ok(());
        };
        let before = |entry: &&Entry| match previous {
            Some(previous) => entry.edition_id == previous,
            None => entry.edition_id != edition.edition_id && entry.state != EditionState::Embargoed,
        };
        let Some(compared) = leaf.editions.iter().filter(before).max_by_key(|entry| entry.edition_id) else {
            return Ok(());
        };
        let key = EditionKey::new(edition.product_id.clone(), compared.edition_id);
        // Values of different canonical forms are never compared, so the form belongs to the value (INV-70).
        let content = |manifest: &crate::doc::Manifest| {
            manifest
                .content_fingerprint
                .map(|value| format!("{} of form {}", value, manifest.canonical_form))
        };
        let expected = content(self.context.manifests.of_entry(&key, compared)?);
        let found = content(manifest);
        if found.is_some() && found == expected {
            return Ok(());
        }
        let compared = compared.edition_id;
        Err(Refusal::FinalChanged {
            edition: edition.clone(),
            found,
            compared,
            expected,
        })
    }

    /// The schema version of an edition that must still be live.
    fn still_live(&self, edition: &EditionKey, verb: Verb) -> Result<CleanText, Refusal> {
        let Some(leaf) = self.leaf(&edition.product_id) else {
            return Err(Refusal::UnknownProduct {
                product_id: edition.product_id.clone(),
            });
        };
        let entry = leaf.entry(&edition.edition_id);
        match entry {
            Some(entry) if entry.state == EditionState::Live => Ok(entry.schema_version.clone()),
            _ => {
                let live = entry
                    .and_then(|entry| live_at(leaf, &entry.schema_version))
                    .map(|live| live.edition_id);
                let (product_id, expected) = (edition.product_id.clone(), edition.edition_id);
                Err(Refusal::LiveChanged {
                    verb,
                    product_id,
                    expected,
                    live,
                })
            }
        }
    }

    fn entry_in(&self, edition: &EditionKey, verb: Verb, states: &[EditionState]) -> Result<&Entry, Refusal> {
        self.entry(edition)
            .filter(|entry| states.contains(&entry.state))
            .ok_or_else(|| {
                let found = self.status(edition);
                Refusal::WrongState {
                    verb,
                    edition: edition.clone(),
                    found,
                }
            })
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
            .filter(|product_id| !self.base.leaves.contains_key(*product_id));
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
