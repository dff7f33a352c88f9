//! Manifests that a decision turns out to need, read between two attempts at it.

use std::{collections::BTreeMap, sync::Arc};

use sovm_inventory::{
    doc::{Manifest, Sha256, Stored, layout},
    transition::{EditionKey, Manifests, Refusal},
};

use super::Catalogue;
use crate::error::ApiError;

/// The manifests read so far, and what was wrong with the others.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    manifests: Manifests,
    failed: BTreeMap<EditionKey, Failure>,
}

/// Why an edition's manifest could not be read.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) rule: Option<u16>,
    pub(super) message: String,
}

impl Gathered {
    /// What was read.
    pub(super) const fn manifests(&self) -> &Manifests {
        &self.manifests
    }

    /// A manifest that was read and verified before.
    pub(super) fn insert(&mut self, manifest: Arc<Stored<Manifest>>) {
        self.manifests.insert(manifest);
    }

    /// Whether an edition's manifest was asked for already, with or without success.
    pub(super) fn knows(&self, edition: &EditionKey) -> bool {
        self.manifests.get(edition).is_some() || self.failed.contains_key(edition)
    }

    /// Why the manifest a refusal misses is missing.
    pub(super) fn cause(&self, refusal: &Refusal) -> Option<&Failure> {
        match refusal {
            Refusal::RecordsMissing { edition } => self.failed.get(edition),
            _ => None,
        }
    }

    /// Reads manifests, each named with the hash the Inventory has for it. One that isn't there or is another one is kept
    /// as a failure, so that a batch can go on without its edition.
    pub(super) async fn read(
        &mut self,
        catalogue: &Catalogue,
        wanted: Vec<(EditionKey, Sha256)>,
    ) -> Result<(), ApiError> {
        for (edition, recorded) in wanted {
            match verified(catalogue, &edition, recorded).await? {
                Ok(manifest) => self.manifests.insert(manifest),
                Err(failure) => drop(self.failed.insert(edition, failure)),
            }
        }
        Ok(())
    }
}

/// INV-172: hashes the manifest's bytes, compares, and only then parses them.
pub(super) async fn verified(
    catalogue: &Catalogue,
    edition: &EditionKey,
    recorded: Sha256,
) -> Result<Result<Arc<Stored<Manifest>>, Failure>, ApiError> {
    let path = layout::manifest(&edition.product_id, &edition.edition_id);
    let Some(bytes) = catalogue.fetch(&path).await? else {
        return Ok(Err(Failure {
            rule: Some(241),
            message: format!("INV-241: the manifest of {edition} is needed, and {path} is not there"),
        }));
    };
    let fetched = Sha256::of(&bytes);
    if fetched != recorded {
        let refusal = Refusal::OtherManifest {
            edition: edition.clone(),
            recorded,
            fetched,
        };
        return Ok(Err(Failure {
            rule: Some(refusal.rule()),
            message: refusal.to_string(),
        }));
    }
    let read = Stored::<Manifest>::verify(bytes, recorded).and_then(|manifest| {
        manifest.check_path(&edition.product_id, &edition.edition_id)?;
        Ok(manifest)
    });
    Ok(read.map(Arc::new).map_err(|error| Failure {
        rule: error.rule,
        message: format!("{edition}: {error}"),
    }))
}
