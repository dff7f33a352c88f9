//! Editions: manifests against entries, and references.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;

use super::{Check, Fault, Loaded, homes};
use crate::{
    doc::{
        ArtefactFingerprint, Document as _, EditionState, Entry, Expunged, Leaf, Manifest, ProductId, ProductKind,
        Routing, Stored, Urn, layout,
    },
    store::{StoreError, StorePath},
    transition::{EditionKey, Manifests, ReferringEdition, Refusal, StoredReferences, check_references},
};

/// Gives what editions refer to; whoever reads an edition's structures implements it.
#[async_trait]
pub trait EditionReferences: Send + Sync {
    /// The references of an edition; none when nothing here can read its structures.
    async fn references_of(
        &self,
        edition: &EditionKey,
        manifest: &Manifest,
    ) -> Result<Option<Box<dyn StoredReferences + Send + Sync>>, StoreError>;
}

fn is_current(entry: &Entry) -> bool {
    matches!(entry.state, EditionState::Live | EditionState::Embargoed)
}

impl Check<'_> {
    /// Everything of the newest version: each entry with its manifest and files, then what holds between products.
    pub(super) async fn recorded(&mut self, head: &Loaded) {
        let mut unfilled = Manifests::default();
        let mut unknown = std::collections::BTreeSet::new();
        let mut structures: Vec<(EditionKey, Box<dyn StoredReferences + Send + Sync>)> = Vec::new();
        let mut referring = Vec::new();
        for (product_id, leaf) in &head.leaves {
            let mut measured = BTreeMap::new();
            for entry in &leaf.editions {
                let edition = EditionKey::new(product_id.clone(), entry.edition_id);
                if self.is_expunged(&edition, entry).await {
                    continue;
                }
                let Some(manifest) = self.entry(&edition, entry, leaf.kind, true).await else {
                    if is_current(entry) && entry.artefacts.is_none() {
                        unknown.insert(product_id.clone());
                    }
                    continue;
                };
                self.files(&edition, &manifest, &mut measured).await;
                if !is_current(entry) {
                    continue;
                }
                self.canonical_form(&edition, &manifest);
                match (self.references(&edition, &manifest).await, manifest.is_structure()) {
                    (Some(references), true) => structures.push((edition, references)),
                    (Some(_), false) => referring.push((edition, entry)),
                    (None, _) => {}
                }
                if entry.artefacts.is_none() {
                    unfilled.insert(Arc::new(manifest));
                }
            }
        }
        self.homes(head, unknown, &unfilled);
        self.all_references(structures, referring).await;
    }

    /// INV-412: what a withdrawn edition's expunge record says stands in place of its files. One that is live or embargoed needs
    /// its files, whatever a record says.
    async fn is_expunged(&mut self, edition: &EditionKey, entry: &Entry) -> bool {
        if entry.state != EditionState::Withdrawn {
            return false;
        }
        let path = layout::expunged(&edition.product_id, &edition.edition_id);
        let Some(bytes) = self.read(&path).await else {
            return false;
        };
        let read = Expunged::decode(&bytes).and_then(|record| {
            record.check_path(&edition.product_id, &edition.edition_id)?;
            Ok(record)
        });
        match read {
            Ok(record) => {
                self.report.counts.expunged += 1;
                self.fault(path, Fault::Expunged(Box::new(record)));
                true
            }
            Err(error) => {
                self.fault(path, error);
                false
            }
        }
    }

    fn homes(&mut self, head: &Loaded, mut unknown: std::collections::BTreeSet<ProductId>, manifests: &Manifests) {
        unknown.extend(head.bad.keys().cloned());
        let path = |edition: &EditionKey| layout::manifest(&edition.product_id, &edition.edition_id);
        let found = head
            .version(&unknown)
            .map_err(Fault::from)
            .and_then(|version| homes::check(&version, manifests).map_err(Fault::from));
        match found {
            Ok(faults) => faults
                .into_iter()
                .for_each(|(edition, fault)| self.fault(path(&edition), fault)),
            // The version itself is reported where it is walked over.
            Err(Fault::Version(_)) => {}
            Err(fault) => self.fault(layout::root(head.root.seq), fault),
        }
    }

    /// INV-238 to INV-240. Structure editions come first, since they may hold what another one names; data editions are
    /// read one by one.
    async fn all_references(
        &mut self,
        structures: Vec<(EditionKey, Box<dyn StoredReferences + Send + Sync>)>,
        referring: Vec<(EditionKey, &Entry)>,
    ) {
        let mut faults = among_structures(&structures);
        for (edition, entry) in referring {
            let Some(manifest) = self.quiet_manifest(&edition, entry).await else {
                continue;
            };
            if let Some(stored) = self.references(&edition, &manifest).await {
                let referring = ReferringEdition {
                    edition: edition.clone(),
                    is_structure: false,
                    stored: &*stored,
                };
                faults.extend(
                    check_references(&referring, &[])
                        .err()
                        .map(|refusal| (edition, refusal)),
                );
            }
        }
        for (edition, refusal) in faults {
            self.fault(layout::manifest(&edition.product_id, &edition.edition_id), refusal);
        }
    }

    async fn references(
        &mut self,
        edition: &EditionKey,
        manifest: &Manifest,
    ) -> Option<Box<dyn StoredReferences + Send + Sync>> {
        match self.options.references?.references_of(edition, manifest).await {
            Ok(references) => references,
            Err(error) => {
                let path = layout::edition(&edition.product_id, &edition.edition_id);
                self.fault(path, Fault::unreadable(&error));
                None
            }
        }
    }

    /// INV-217.
    fn canonical_form(&mut self, edition: &EditionKey, manifest: &Manifest) {
        let known = self.options.canonical_forms;
        if known.contains(&manifest.canonical_form) {
            return;
        }
        let known: Vec<&str> = known.iter().map(|form| form.as_str()).collect();
        self.fault(
            layout::manifest(&edition.product_id, &edition.edition_id),
            Refusal::UnknownCanonicalForm {
                edition: edition.clone(),
                found: manifest.canonical_form.clone(),
                known: known.join(", "),
            },
        );
    }

    /// INV-176: the entries of an older leaf that the version after does not have alike. Manifests of retired editions may
    /// be gone.
    pub(super) async fn earlier_entries(&mut self, leaf: &Leaf, later: Option<&Leaf>) {
        for entry in &leaf.editions {
            let seen = later
                .and_then(|later| later.entry(&entry.edition_id))
                .is_some_and(|later| {
                    later.manifest_sha256 == entry.manifest_sha256
                        && later.previous == entry.previous
                        && later.schema_version == entry.schema_version
                        && later.artefacts == entry.artefacts
                        && later.routing == entry.routing
                });
            if !seen {
                let edition = EditionKey::new(leaf.product_id.clone(), entry.edition_id);
                self.entry(&edition, entry, leaf.kind, false).await;
            }
        }
    }

    /// Compares an entry with its manifest, which it answers with when it verifies.
    async fn entry(
        &mut self,
        edition: &EditionKey,
        entry: &Entry,
        kind: ProductKind,
        required: bool,
    ) -> Option<Stored<Manifest>> {
        let path = layout::manifest(&edition.product_id, &edition.edition_id);
        let unreadable = self.report.errors();
        let Some(bytes) = self.read(&path).await else {
            match required {
                true if unreadable == self.report.errors() => {
                    self.fault(path, Fault::ManifestMissing { state: entry.state });
                }
                true => {}
                false => self.report.counts.manifests_gone += 1,
            }
            return None;
        };
        if self.editions.insert(edition.clone()) {
            self.report.counts.manifests += 1;
        }
        let manifest = match Stored::<Manifest>::verify(bytes, entry.manifest_sha256) {
            Ok(manifest) => manifest,
            Err(error) => {
                self.fault(path, error);
                return None;
            }
        };
        if let Err(error) = manifest.check_path(&edition.product_id, &edition.edition_id) {
            self.fault(path.clone(), error);
        }
        for refusal in disagreements(edition, entry, kind, &manifest) {
            self.fault(path.clone(), refusal);
        }
        Some(manifest)
    }

    /// The manifest of an entry without a word about what is wrong with it.
    pub(super) async fn quiet_manifest(&self, edition: &EditionKey, entry: &Entry) -> Option<Stored<Manifest>> {
        let path = StorePath::parse(&layout::manifest(&edition.product_id, &edition.edition_id)).ok()?;
        let bytes = self.store.get(&path).await.ok()??.bytes;
        Stored::verify(bytes, entry.manifest_sha256).ok()
    }
}

/// INV-170, INV-174, INV-188: what an entry repeats of its manifest is what the manifest says.
fn disagreements(edition: &EditionKey, entry: &Entry, kind: ProductKind, manifest: &Manifest) -> Vec<Refusal> {
    let mut found = Vec::new();
    let mut disagree = |rule, field, entry: String, manifest: String| {
        found.push(Refusal::EntryDisagrees {
            rule,
            edition: edition.clone(),
            field,
            entry,
            manifest,
        });
    };
    if entry.previous != manifest.previous {
        let shown = |id: Option<crate::doc::EditionId>| id.map_or_else(|| "null".to_owned(), |id| id.to_string());
        disagree(170, "previous", shown(entry.previous), shown(manifest.previous));
    }
    if entry.schema_version != manifest.schema_version {
        let (entry, manifest) = (entry.schema_version.to_string(), manifest.schema_version.to_string());
        disagree(170, "schema_version", entry, manifest);
    }
    if let Some(filled) = &entry.artefacts {
        let expected = manifest.artefact_fingerprints();
        let differs = |urn: &&Urn| filled.get(*urn) != expected.get(*urn);
        if let Some(urn) = filled.keys().chain(expected.keys()).find(differs) {
            let shown = |records: &BTreeMap<Urn, ArtefactFingerprint>| match records.get(urn) {
                None => format!("without {urn}"),
                Some(record) => match record.partial_of {
                    None => format!("{urn} {}", record.fingerprint),
                    Some(partial_of) => format!("{urn} {} cut from {partial_of}", record.fingerprint),
                },
            };
            disagree(176, "artefacts", shown(filled), shown(&expected));
        }
    }
    if let Some(filled) = &entry.routing {
        let expected = manifest.routing();
        let shown = |routing: &Routing| {
            let dataflows: Vec<&str> = routing.dataflows.iter().map(Urn::as_str).collect();
            format!("[{}] and {} bytes", dataflows.join(", "), routing.pull_bytes)
        };
        if *filled != expected {
            disagree(188, "dataflows and pull_bytes", shown(filled), shown(&expected));
        }
    }
    if let Some(binding) = manifest.bindings.first().filter(|_| kind == ProductKind::Structure) {
        found.push(Refusal::StructureWithBindings {
            edition: edition.clone(),
            dataflow: binding.dataflow.clone(),
        });
    }
    found
}

/// INV-239: the structure editions among themselves.
fn among_structures(
    structures: &[(EditionKey, Box<dyn StoredReferences + Send + Sync>)],
) -> Vec<(EditionKey, Refusal)> {
    let held: Vec<(EditionKey, &dyn StoredReferences)> = structures
        .iter()
        .map(|(edition, stored)| (edition.clone(), &**stored as &dyn StoredReferences))
        .collect();
    let check = |edition: &EditionKey, stored: &dyn StoredReferences| {
        let referring = ReferringEdition {
            edition: edition.clone(),
            is_structure: true,
            stored,
        };
        check_references(&referring, &held)
            .err()
            .map(|refusal| (edition.clone(), refusal))
    };
    held.iter()
        .filter_map(|(edition, stored)| check(edition, *stored))
        .collect()
}
