//! What operations ask of the editions they meet.

use super::Draft;
use crate::{
    doc::{CleanText, EditionId, EditionState, Entry, Lifecycle, Manifest, ProductKind},
    transition::{
        EditionKey, ProductProfile, Refusal, SealedEdition, Verb,
        fast_forward::{Candidate, fast_forward},
        version::live_at,
    },
};

impl Draft<'_> {
    /// What holds of every edition that is recorded for the first time. Answers the live edition it would replace.
    pub(super) fn check_new(&self, sealed: &SealedEdition) -> Result<Option<EditionId>, Refusal> {
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

    pub(super) fn fast_forward(&self, candidate: &Candidate<'_>) -> Result<Option<EditionId>, Refusal> {
        let product_id = &candidate.edition.product_id;
        let base = self.base.leaves.get(product_id).map(|leaf| leaf.value());
        fast_forward(self.leaf(product_id), base, candidate, |key| self.status(key))
    }

    pub(super) fn check_profile(&self, sealed: &SealedEdition) -> Result<(), Refusal> {
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
    pub(super) fn final_unchanged(&self, edition: &EditionKey, previous: Option<EditionId>) -> Result<(), Refusal> {
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
    pub(super) fn compare_content(
        &self,
        edition: &EditionKey,
        previous: Option<EditionId>,
        manifest: &Manifest,
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
        let content = |manifest: &Manifest| {
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
    pub(super) fn still_live(&self, edition: &EditionKey, verb: Verb) -> Result<CleanText, Refusal> {
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

    pub(super) fn entry_in(
        &self,
        edition: &EditionKey,
        verb: Verb,
        states: &[EditionState],
    ) -> Result<&Entry, Refusal> {
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
}
