//! Checking a catalogue, which is also the test of a restore. What is checked is decided by [`sovm_inventory::verify`].

use std::collections::BTreeSet;

use async_trait::async_trait;
use sovm_inventory::{
    doc::{Manifest, Seq, layout},
    edition::{EditionError, SCHEMA_VERSION},
    reader::ReadError,
    store::{StoreError, StorePath},
    structure::{
        reference::{Targets, references},
        urn::Urn,
    },
    transition::{EditionKey, StoredReferences},
    verify::{EditionReferences, Fault, Finding, Options, Severity, verify},
};

use super::{Catalogue, change::canonical_forms, errors, files::MeasuredFiles};
use crate::{
    api::{InventoryFinding, InventoryVerifyReport},
    error::ApiError,
};

/// How many findings are shown; what is wrong beyond that is counted.
const FINDINGS_KEPT: usize = 10_000;

impl Catalogue {
    /// Reads everything the newest version rests on, every file of its editions, and every version before it, and says
    /// what is wrong. An error means that there is no catalogue to look at; whatever is wrong with one is a finding.
    pub(crate) async fn verify(&self) -> Result<InventoryVerifyReport, ApiError> {
        self.is_there().await?;
        let (files, forms) = (MeasuredFiles::new(self, None), canonical_forms()?);
        let options = Options {
            files: Some(&files),
            references: Some(self),
            canonical_forms: &forms,
            findings_kept: FINDINGS_KEPT,
        };
        let found = verify(&*self.store, &options).await;
        let mut report = InventoryVerifyReport {
            store: self.shown.to_string(),
            newest: found.head.map(|head| head.seq.get()),
            versions: found.counts.roots,
            editions: found.counts.manifests,
            files: found.counts.files,
            bytes: found.counts.bytes,
            omitted: found.omitted(),
            ..InventoryVerifyReport::default()
        };
        for finding in &found.findings {
            match (finding.severity(), &finding.fault) {
                (Severity::Error, _) => report.findings.push(info(finding)),
                (Severity::Warning, Fault::Stale(stale)) => report.stale.push(stale.to_string()),
                (Severity::Warning, Fault::Expunged(record)) if record.completed_at.is_some() => {
                    report.expunged.push(finding.fault.to_string());
                }
                (Severity::Warning, _) => report.warnings.push(info(finding)),
            }
        }
        Ok(report)
    }

    /// A place where nothing of a catalogue lies is the wrong place, and no damaged one.
    async fn is_there(&self) -> Result<(), ApiError> {
        if self.fetch(layout::CATALOG).await?.is_some() || self.fetch(layout::CURRENT).await?.is_some() {
            return Ok(());
        }
        let folder = StorePath::parse(layout::INVENTORY).map_err(ApiError::bug)?;
        let found = self.store.list(Some(&folder)).await;
        if found.map_err(|error| errors::storage(&error))?.is_empty() {
            return Err(errors::unread(&ReadError::NoCatalog, &self.shown));
        }
        Ok(())
    }
}

fn info(finding: &Finding) -> InventoryFinding {
    InventoryFinding {
        rules: vec![finding.rule()],
        seq: layout::root_seq(&finding.path).map(Seq::get),
        path: finding.path.clone(),
        message: format!("INV-{} {}: {}", finding.rule(), finding.path, finding.fault),
    }
}

/// What an edition's structures refer to and hold.
struct Held {
    references: BTreeSet<String>,
    all: Targets,
    full: Targets,
}

impl StoredReferences for Held {
    fn references(&self) -> BTreeSet<String> {
        self.references.clone()
    }

    fn holds(&self, reference: &str) -> bool {
        Urn::parse(reference).is_ok_and(|reference| self.all.resolve(&reference))
    }

    fn holds_in_full(&self, reference: &str) -> bool {
        Urn::parse(reference).is_ok_and(|reference| self.full.resolve(&reference))
    }
}

#[async_trait]
impl EditionReferences for Catalogue {
    /// Editions of another schema keep their structures in another way, and they are not looked at.
    async fn references_of(
        &self,
        edition: &EditionKey,
        manifest: &Manifest,
    ) -> Result<Option<Box<dyn StoredReferences + Send + Sync>>, StoreError> {
        if manifest.schema_version.as_str() != SCHEMA_VERSION {
            return Ok(None);
        }
        let other = |error: Box<dyn std::error::Error + Send + Sync>| StoreError::Other {
            action: "reading the structures of",
            path: edition.to_string(),
            source: error,
        };
        let place = self
            .editions_of(&edition.product_id)
            .await
            .map_err(|error| other(Box::new(error)))?;
        let structures = match place.structures(&edition.edition_id).await {
            Ok(structures) => structures,
            Err(EditionError::Store(error)) => return Err(error),
            // A file that is missing or damaged is a finding of its digests already.
            Err(error) => return Err(other(Box::new(error))),
        };
        let references = structures
            .iter()
            .flat_map(references)
            .map(|urn| urn.as_str().to_owned());
        Ok(Some(Box::new(Held {
            references: references.collect(),
            all: Targets::of(structures.iter()),
            full: Targets::of(structures.iter().filter(|artefact| !artefact.is_partial())),
        })))
    }
}
