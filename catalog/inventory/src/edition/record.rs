//! A product's publisher: begins, resumes, repairs and records editions.

use std::{collections::BTreeSet, fmt, sync::Arc};

use super::{
    Begin, EditionBuilder, EditionError, ProductEditions,
    build::read_list,
    check::{CheckOptions, CheckReport, Publishable, check},
};
use crate::{
    doc::{
        CleanText, Document as _, EditionId, EditionState, Entry, EntryStatus, Instant, Journal, Lifecycle, Manifest,
        Producer, Stored, layout,
    },
    fingerprint::CheckProfile,
    reader::{FullInventory, find_base},
    store::StorePath,
    transition::{
        Context, EditionKey, Manifests, Operation, ProductProfile, Refusal, ReleaseClock, Retention, SealedEdition,
        Version, apply,
    },
    writer::{Base, Clock, Committed, Outcome, Planned, Repair, Writer},
};

/// What a publisher records editions by.
#[derive(Clone)]
pub struct PublisherSettings {
    /// The product's kind and lifecycle.
    pub profile: ProductProfile,
    /// INV-217: the canonical forms whose fingerprints this build can compare.
    pub canonical_forms: BTreeSet<CleanText>,
    /// The retention windows.
    pub retention: Retention,
    /// INV-39: what seals.
    pub producer: Producer,
    /// The clock that dates seals.
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for PublisherSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublisherSettings")
            .field("profile", &self.profile)
            .field("producer", &self.producer)
            .finish_non_exhaustive()
    }
}

/// How recording an edition ended.
#[derive(Debug)]
pub enum Recorded {
    /// A version records it.
    Committed(Box<Committed>),
    /// A version recorded it before.
    Already(EntryStatus),
}

/// Writes one product's editions into one catalogue.
#[derive(Debug, Clone)]
pub struct Publisher {
    place: ProductEditions,
    writer: Writer,
    settings: Arc<PublisherSettings>,
    /// Another site writes the catalogue, so what is sealed here is registered with it.
    registers: bool,
}

impl Publisher {
    /// A publisher of the product in `place`, whose catalogue `writer` writes.
    pub fn new(place: ProductEditions, writer: Writer, settings: PublisherSettings) -> Self {
        let settings = Arc::new(settings);
        Self {
            place,
            writer,
            settings,
            registers: false,
        }
    }

    /// The same for a catalogue that another site writes (INV-409): nothing is recorded, neither by a repair, and what is sealed is
    /// [registered](Self::register).
    pub fn registering(self) -> Self {
        Self {
            registers: true,
            ..self
        }
    }

    /// The product's place.
    pub fn place(&self) -> &ProductEditions {
        &self.place
    }

    pub(super) fn writer(&self) -> &Writer {
        &self.writer
    }

    pub(super) fn now(&self) -> Instant {
        self.settings.clock.now()
    }

    pub(super) fn lifecycle(&self) -> Lifecycle {
        self.settings.profile.lifecycle
    }

    pub(super) fn producer(&self) -> &Producer {
        &self.settings.producer
    }

    /// INV-397: begins the product's next edition, built from the live one. Refuses while there is an unsealed edition, naming
    /// it and when it was begun.
    pub async fn begin(&self, begin: Begin) -> Result<EditionBuilder, EditionError> {
        // INV-271: before `previous` is picked, since what the repair records may become it.
        self.repair().await?;
        let edition_id = begin.edition_id.unwrap_or_else(EditionId::generate);
        let builder = {
            let _lock = self.place.store.lock().await?;
            if let Some(unsealed) = self.place.unsealed().await? {
                return Err(EditionError::UnsealedExists {
                    product_id: self.place.product_id.clone(),
                    edition_id: unsealed,
                    begun_at: unsealed.time(),
                });
            }
            let previous = match self.live().await? {
                Some(manifest) => {
                    let (list, _) = read_list(&self.place, &manifest.edition_id).await?;
                    Some((manifest, list))
                }
                None => None,
            };
            EditionBuilder::create(self.clone(), edition_id, previous, &begin.lazy).await?
        };
        builder.copy_carried().await?;
        Ok(builder)
    }

    /// Goes on with the product's unsealed edition, from whatever was done to it.
    pub async fn resume(&self) -> Result<EditionBuilder, EditionError> {
        self.repair().await?;
        let Some(edition_id) = self.place.unsealed().await? else {
            let product_id = self.place.product_id.clone();
            return Err(EditionError::NothingToResume { product_id });
        };
        let (list, _) = read_list(&self.place, &edition_id).await?;
        let previous = match list.previous {
            Some(previous) => Some(Arc::new(self.recorded_manifest(&previous).await?)),
            None => None,
        };
        let builder = EditionBuilder::open(self.clone(), edition_id, previous).await?;
        builder.copy_carried().await?;
        Ok(builder)
    }

    /// INV-60: deletes the unsealed edition.
    pub async fn discard(&self, edition_id: &EditionId) -> Result<(), EditionError> {
        self.place.discard(edition_id).await
    }

    /// INV-205, INV-208: whether an edition built from `previous` could be recorded now. Asked before it is sealed, so that one that could
    /// not is still unsealed, and can be discarded.
    pub async fn check_base(&self, edition_id: EditionId, previous: Option<EditionId>) -> Result<(), EditionError> {
        let (Some(version), _) = self.manifests().await? else {
            return Ok(());
        };
        let schema_version: CleanText = super::SCHEMA_VERSION.parse()?;
        let Some(live) = version.head(&self.place.product_id, &schema_version) else {
            return Ok(());
        };
        if previous == Some(live.edition_id) {
            return Ok(());
        }
        Err(EditionError::from(Refusal::NotFastForward {
            edition: EditionKey::new(self.place.product_id.clone(), edition_id),
            previous,
            live: Some(live.edition_id),
            schema_version,
        }))
    }

    /// INV-401: checks a sealed edition as one that is about to be recorded.
    pub async fn check(&self, edition_id: &EditionId, options: &CheckOptions<'_>) -> Result<CheckReport, EditionError> {
        check(&self.place, edition_id, CheckProfile::Publish, options).await
    }

    /// Records a sealed edition that the publish check found nothing wrong with, then removes its journal (INV-34): live in one
    /// version, or embargoed while the embargo is on.
    pub async fn record(&self, edition: &Publishable, reason: &str) -> Result<Recorded, EditionError> {
        self.record_for(edition, reason, None).await
    }

    /// The same; an edition with a release time is embargoed until then, whether the embargo is on or not.
    pub async fn record_for(
        &self,
        edition: &Publishable,
        reason: &str,
        release_at: Option<Instant>,
    ) -> Result<Recorded, EditionError> {
        if self.registers {
            let product_id = self.place.product_id.clone();
            return Err(EditionError::OnlyRegisters { product_id });
        }
        let manifest = Arc::clone(edition.manifest());
        manifest.check_path(&self.place.product_id, &manifest.edition_id)?;
        let key = EditionKey::new(manifest.product_id.clone(), manifest.edition_id);
        let (_, manifests) = self.manifests().await?;
        let mut status = None;
        let outcome = self
            .writer
            .commit(|base| {
                status = base.version.status(&key);
                self.plan(base, &manifest, &manifests, release_at, reason)
            })
            .await?;
        self.writer.end_seal(&key.product_id, &key.edition_id).await?;
        Ok(match (outcome, status) {
            (Outcome::Committed(committed), _) => Recorded::Committed(Box::new(committed)),
            (Outcome::Unchanged(_), Some(status)) => Recorded::Already(status),
            // `plan` answers with nothing only for an edition that has a status.
            (Outcome::Unchanged(_), None) => return Err(Refusal::NothingToDo { what: key.to_string() }.into()),
        })
    }

    /// INV-270: records what a seal of this product left unrecorded. INV-401: an edition that the publish check finds
    /// something wrong with is left where it is.
    pub async fn repair(&self) -> Result<Vec<Repair>, EditionError> {
        if self.registers {
            return self.settle().await;
        }
        let mut clean = BTreeSet::new();
        for edition_id in self.journalled().await? {
            if self.place.is_sealed(&edition_id).await? {
                let report = self.check(&edition_id, &CheckOptions::default()).await?;
                match report.into_publishable() {
                    Ok(edition) => {
                        clean.insert((edition_id, edition.manifest().sha256()));
                    }
                    Err(findings) => tracing::warn!(%edition_id, %findings, "sealed, unrecorded and not recordable"),
                }
            }
        }
        let (_, manifests) = self.manifests().await?;
        let repairs = self.writer.repair(&self.place.product_id, |base, unrecorded| {
            let manifest = Arc::new(unrecorded.manifest.clone());
            if !clean.contains(&(manifest.edition_id, manifest.sha256())) {
                return Ok(None);
            }
            let planned = self.plan(
                base,
                &manifest,
                &manifests,
                unrecorded.journal.release_at,
                "recording an edition whose seal was interrupted",
            );
            match planned {
                // What was live when it was built is not live any more. It stays where it is, and the product goes on without it.
                Err(refused @ (Refusal::NotFastForward { .. } | Refusal::BuiltOnWithdrawn { .. })) => {
                    tracing::warn!(%refused, "sealed and not recordable");
                    Ok(None)
                }
                planned => planned,
            }
        });
        Ok(repairs.await?)
    }

    /// The editions of this product that have a journal.
    pub(super) async fn journalled(&self) -> Result<Vec<EditionId>, EditionError> {
        let folder = StorePath::parse(&format!("{}/journal", layout::product(&self.place.product_id)))?;
        let mut editions = Vec::new();
        for path in self.place.store.list(Some(&folder)).await? {
            let found = self.place.store.get(&path).await?;
            editions.extend(
                found
                    .map(|found| Journal::decode(&found.bytes))
                    .transpose()?
                    .map(|journal| journal.edition_id),
            );
        }
        Ok(editions)
    }

    fn plan(
        &self,
        base: Base<'_>,
        manifest: &Arc<Stored<Manifest>>,
        manifests: &Manifests,
        release_at: Option<Instant>,
        reason: &str,
    ) -> Result<Option<Planned>, Refusal> {
        let sealed = SealedEdition {
            manifest: Arc::clone(manifest),
            profile: self.settings.profile,
            structure_source: None,
        };
        if base.version.status(&sealed.edition()).is_some() {
            return Ok(None);
        }
        let operation = if base.version.embargo() || release_at.is_some() {
            Operation::Register { sealed, release_at }
        } else {
            Operation::Seal(sealed)
        };
        let mut manifests = manifests.clone();
        manifests.insert(Arc::clone(manifest));
        let context = Context {
            clock: ReleaseClock::alone(base.at),
            manifests: &manifests,
            canonical_forms: &self.settings.canonical_forms,
            retention: &self.settings.retention,
        };
        let transition = apply(base.version, &[operation], &context)?;
        Ok(Some(Planned::new(transition.next, transition.kind, reason)))
    }

    /// The newest version, and the manifests that recording needs of editions whose entries don't fill their records (INV-241).
    pub(super) async fn manifests(&self) -> Result<(Option<Version>, Manifests), EditionError> {
        let mut manifests = Manifests::default();
        let Some(found) = find_base(&*self.place.store).await? else {
            return Ok((None, manifests));
        };
        let version = FullInventory::load(&*self.place.store, found.certain()?, None)
            .await?
            .to_version()?;
        // INV-234: a final product's next edition is compared with the content of the live one, which its entry doesn't say.
        let product_id = &self.place.product_id;
        let own = version.leaf(product_id).into_iter().flat_map(|leaf| &leaf.editions);
        let live = own
            .filter(|entry| entry.state == EditionState::Live)
            .map(|entry| EditionKey::new(product_id.clone(), entry.edition_id));
        let needed: BTreeSet<EditionKey> = manifests.missing(&version).into_iter().chain(live).collect();
        for key in needed {
            let path = StorePath::parse(&layout::manifest(&key.product_id, &key.edition_id))?;
            if let (Some(found), Some(entry)) = (self.place.store.get(&path).await?, version.entry(&key)) {
                manifests.insert(Arc::new(Stored::verify(found.bytes, entry.manifest_sha256)?));
            }
        }
        Ok((Some(version), manifests))
    }

    /// The manifest of the product's live edition: the one at this build's schema version, else at any other, which is what
    /// the first edition at a new schema version is built from.
    async fn live(&self) -> Result<Option<Arc<Stored<Manifest>>>, EditionError> {
        let (Some(version), _) = self.manifests().await? else {
            return Ok(None);
        };
        let Some(leaf) = version.leaf(&self.place.product_id) else {
            return Ok(None);
        };
        let schema: CleanText = super::SCHEMA_VERSION.parse()?;
        let is_live = |entry: &&Entry| entry.state == EditionState::Live;
        let own = version.head(&self.place.product_id, &schema);
        let Some(entry) = own.or_else(|| leaf.editions.iter().rfind(is_live)) else {
            return Ok(None);
        };
        let manifest = self.recorded_manifest(&entry.edition_id).await?;
        Ok(Some(Arc::new(manifest)))
    }

    /// INV-172: the manifest of an edition the newest version records, verified by the hash it is recorded with.
    async fn recorded_manifest(&self, edition_id: &EditionId) -> Result<Stored<Manifest>, EditionError> {
        let (version, _) = self.manifests().await?;
        let key = EditionKey::new(self.place.product_id.clone(), *edition_id);
        let not_there = || EditionError::NoEdition {
            product_id: self.place.product_id.clone(),
            edition_id: *edition_id,
        };
        let version = version.ok_or_else(not_there)?;
        let entry = version.entry(&key).ok_or_else(not_there)?;
        let found = self.place.store.get(&self.place.manifest_path(edition_id)?).await?;
        let found = found.ok_or_else(not_there)?;
        Ok(Stored::verify(found.bytes, entry.manifest_sha256)?)
    }
}
