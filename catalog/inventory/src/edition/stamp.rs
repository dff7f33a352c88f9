//! The receive stamp: what a reader remembers of a check, so that it isn't run at every open.

use std::{str::FromStr as _, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{
    ProductEditions,
    check::{CheckOptions, CheckReport, check},
    error::EditionError,
};
use crate::{
    doc::{EditionId, ProductId, Sha256},
    fingerprint::CheckProfile,
    store::{Creation, InventoryStore, LocalStore, Replacement, StoreError, StorePath},
    writer::Clock,
};

/// A reader's stamps, one for each edition that was received without a finding.
///
/// They lie in a place of the reader's own and never in a catalogue: an edition's directory is written by its seal only
/// (INV-63, INV-99).
#[derive(Debug, Clone)]
pub struct Stamps {
    store: Arc<dyn InventoryStore>,
}

/// Why stamps can't lie there.
#[derive(Debug, thiserror::Error)]
pub enum StampError {
    /// The place is a catalogue.
    #[error("{found} is here, so this is a catalogue: stamps are a reader's own and lie elsewhere (INV-63, INV-116)")]
    InCatalogue {
        /// What shows it.
        found: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Serialize, Deserialize)]
struct RawStamp {
    manifest_sha256: String,
    checks: Vec<String>,
    checked_at: String,
}

impl Stamps {
    /// Stamps in a place of the reader's own.
    pub async fn open(store: Arc<dyn InventoryStore>) -> Result<Self, StampError> {
        for name in [crate::doc::layout::CATALOG, crate::doc::layout::CURRENT] {
            let path = StorePath::parse(name).map_err(StoreError::from)?;
            if store.get(&path).await?.is_some() {
                return Err(StampError::InCatalogue { found: name.to_owned() });
            }
        }
        Ok(Self { store })
    }

    /// Stamps in a directory, which must exist.
    pub async fn in_directory(directory: &std::path::Path) -> Result<Self, StampError> {
        Self::open(Arc::new(LocalStore::open(directory)?)).await
    }

    fn path(product: &ProductId, edition: &EditionId) -> Result<StorePath, StoreError> {
        Ok(StorePath::parse(&format!("{product}/{edition}"))?)
    }

    /// The manifest an edition was received with; a stamp that can't be read is none.
    pub async fn get(&self, product: &ProductId, edition: &EditionId) -> Result<Option<Sha256>, StoreError> {
        let found = self.store.get(&Self::path(product, edition)?).await?;
        let stamp = found.and_then(|found| serde_json::from_slice::<RawStamp>(&found.bytes).ok());
        Ok(stamp.and_then(|stamp| Sha256::from_str(&stamp.manifest_sha256).ok()))
    }

    /// INV-118: complete before it is visible, in place of what was there.
    async fn put(&self, product: &ProductId, edition: &EditionId, stamp: &RawStamp) -> Result<(), EditionError> {
        let path = Self::path(product, edition)?;
        let text = serde_json::to_vec(stamp).map_err(super::TableListError::from)?;
        let bytes = Bytes::from(text);
        if self.store.create(&path, bytes.clone()).await? == Creation::Exists
            && let Some(found) = self.store.get(&path).await?
            && self.store.replace(&path, &found.revision, bytes).await? == Replacement::Changed
        {
            // Another process of this reader stamped it meanwhile; either stamp is true of the manifest it names.
            tracing::debug!(%path, "the stamp was written by another process");
        }
        Ok(())
    }
}

/// INV-117: checks an edition that is about to be opened. With a stamp for this very manifest the open profile runs; without
/// one, or with another manifest's, the receive profile, which INV-116 stamps when it finds nothing.
///
/// INV-118: fingerprints are never computed here, whatever the options say.
pub async fn check_on_open(
    place: &ProductEditions,
    edition: &EditionId,
    stamps: &Stamps,
    clock: &dyn Clock,
    options: &CheckOptions<'_>,
) -> Result<CheckReport, EditionError> {
    let options = CheckOptions {
        fingerprints: false,
        ..options.clone()
    };
    let product = place.product_id();
    let stamped = stamps.get(product, edition).await?;
    if let Some(stamped) = stamped {
        let pinned = CheckOptions {
            manifest_sha256: Some(options.manifest_sha256.unwrap_or(stamped)),
            ..options.clone()
        };
        if pinned.manifest_sha256 == Some(stamped) && place.manifest_sha256(edition).await? == Some(stamped) {
            return check(place, edition, CheckProfile::Open, &pinned).await;
        }
    }
    let report = check(place, edition, CheckProfile::Receive, &options).await?;
    if let (true, Some(manifest)) = (report.findings.is_empty(), &report.manifest) {
        let stamp = RawStamp {
            manifest_sha256: manifest.sha256().to_string(),
            checks: report.checks.iter().map(|check| (*check).to_owned()).collect(),
            checked_at: clock.now().to_string(),
        };
        stamps.put(product, edition, &stamp).await?;
    }
    Ok(report)
}

impl ProductEditions {
    /// The hash of an edition's manifest as it lies there.
    pub async fn manifest_sha256(&self, edition: &EditionId) -> Result<Option<Sha256>, EditionError> {
        let found = self.store.get(&self.manifest_path(edition)?).await?;
        Ok(found.map(|found| Sha256::of(&found.bytes)))
    }
}
