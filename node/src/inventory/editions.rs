//! Looking at editions, discarding unsealed ones, checking and copying sealed ones.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use sovm_inventory::{
    doc::{EditionId, EntryStatus, ProductId, ProductKind, Tier},
    edition::{
        EditionState as Listed, ProductEditions,
        check::{CheckOptions, EditionFinding, check},
        copy,
    },
    fingerprint::CheckProfile,
    store::LocalStore,
    transition::{EditionKey, Version},
};

use super::{Catalogue, DataPlace as _, DirectoryPlace, errors};
use crate::{
    api::{
        EditionCheckReport, EditionCopyReport, EditionDiscardReport, EditionFindingInfo, EditionListReport,
        ListedEditionInfo,
    },
    error::{ApiError, ErrorKind},
};

impl Catalogue {
    /// INV-61: the editions of one product or of all, from their manifests; what the newest version says of each stands
    /// beside.
    pub(crate) async fn editions(&self, product: Option<&ProductId>) -> Result<EditionListReport, ApiError> {
        let (head, version) = self.newest().await?;
        let products = match product {
            Some(product) => BTreeSet::from([product.clone()]),
            None => self.product_ids(&head, &version).await?,
        };
        let mut report = EditionListReport {
            store: self.shown.to_string(),
            editions: Vec::new(),
        };
        for product_id in &products {
            let place = self.editions_of(product_id).await?;
            let listed = place.list().await;
            let listed = listed.map_err(|error| errors::edition(&error, product_id, &self.shown))?;
            let there: BTreeSet<EditionId> = listed.iter().map(|edition| edition.edition_id).collect();
            report.editions.extend(
                listed
                    .into_iter()
                    .map(|edition| listed_info(&version, product_id, edition.edition_id, Some(edition.state))),
            );
            // A tombstone's files may be gone; what is recorded without any is for `inventory verify` to say.
            let retired = version.retired().filter(|retired| retired.product_id == *product_id);
            let recorded = version.leaf(product_id).into_iter().flat_map(|leaf| &leaf.editions);
            let known = retired
                .map(|retired| retired.edition_id)
                .chain(recorded.map(|entry| entry.edition_id));
            let gone: BTreeSet<EditionId> = known.filter(|edition_id| !there.contains(edition_id)).collect();
            for edition_id in gone {
                let mut info = listed_info(&version, product_id, edition_id, None);
                let key = EditionKey::new(product_id.clone(), edition_id);
                if let Some(how) = self.expunged(&key).await? {
                    info.problem = Some(how);
                }
                report.editions.push(info);
            }
        }
        report
            .editions
            .sort_by(|one, other| (&one.product_id, &one.edition_id).cmp(&(&other.product_id, &other.edition_id)));
        match product {
            Some(product_id) if report.editions.is_empty() => {
                // Refuses a product nobody created; one that was created has no editions yet.
                self.profile(&head, &version, product_id)?;
                Ok(report)
            }
            _ => Ok(report),
        }
    }

    /// INV-60: deletes an unsealed edition.
    pub(crate) async fn discard(
        &self,
        product_id: &ProductId,
        edition_id: EditionId,
    ) -> Result<EditionDiscardReport, ApiError> {
        let place = self.editions_of(product_id).await?;
        let discarded = place.discard(&edition_id).await;
        discarded.map_err(|error| errors::edition(&error, product_id, &self.shown))?;
        Ok(EditionDiscardReport {
            store: self.shown.to_string(),
            product_id: product_id.to_string(),
            edition_id: edition_id.to_string(),
        })
    }

    /// Checks a sealed edition. Where a version records it, its manifest must be the recorded one.
    pub(crate) async fn check(
        &self,
        product_id: &ProductId,
        edition_id: EditionId,
        profile: CheckProfile,
        fingerprints: bool,
    ) -> Result<EditionCheckReport, ApiError> {
        let (_, version) = self.newest().await?;
        let place = self.editions_of(product_id).await?;
        let key = EditionKey::new(product_id.clone(), edition_id);
        if place
            .is_sealed(&edition_id)
            .await
            .map_err(|error| errors::edition(&error, product_id, &self.shown))?
        {
            // What follows says what is wrong with it.
        } else if version.status(&key).is_none() {
            return Err(self.not_sealed(&place, edition_id).await?);
        }
        let other_structures = match version.leaf(product_id).map(|leaf| leaf.kind) {
            Some(ProductKind::Data) => Vec::new(),
            _ => self.other_structures(product_id, &version).await?,
        };
        let options = CheckOptions {
            manifest_sha256: version.entry(&key).map(|entry| entry.manifest_sha256),
            kept_digests: false,
            fingerprints,
            other_structures: &other_structures,
            ..CheckOptions::default()
        };
        let report = check(&place, &edition_id, profile, &options).await;
        let report = report.map_err(|error| errors::edition(&error, product_id, &self.shown))?;
        Ok(EditionCheckReport {
            store: self.shown.to_string(),
            product_id: product_id.to_string(),
            edition_id: edition_id.to_string(),
            profile: profile_word(profile).to_owned(),
            state: version.status(&key).map(|status| status.to_string()),
            checks: report.checks.iter().map(|check| (*check).to_owned()).collect(),
            findings: report.findings.iter().map(finding_info).collect(),
        })
    }

    /// Copies a sealed edition to the same product of a catalogue's directory, or of a mirror's that holds no
    /// Inventory.
    pub(crate) async fn copy(
        &self,
        product_id: &ProductId,
        edition_id: EditionId,
        to: &Path,
    ) -> Result<EditionCopyReport, ApiError> {
        self.check_apart(to)?;
        let (_, version) = self.newest().await?;
        let from = self.editions_of(product_id).await?;
        let key = EditionKey::new(product_id.clone(), edition_id);
        // INV-6: the hash its manifest must have comes from the Inventory; a manifest alone would vouch for itself.
        let Some(entry) = version.entry(&key) else {
            return Err(match version.status(&key) {
                Some(EntryStatus::Tombstone) => ApiError::new(
                    ErrorKind::Refused,
                    format!("{key} is retired, so no version vouches for its manifest (INV-6)"),
                )
                .safe("nothing was copied")
                .next(format!(
                    "sovm inventory reinstate {product_id} {edition_id}{}",
                    self.shown.option()
                )),
                _ => self.not_sealed(&from, edition_id).await?,
            });
        };
        let shown = to.display().to_string();
        std::fs::create_dir_all(to).map_err(|error| ApiError::io(format!("making {shown}"), &error))?;
        let store = LocalStore::open(to).map_err(|error| errors::unopened(&error, &shown))?;
        let data = DirectoryPlace::new(to).of(product_id)?;
        let target = ProductEditions::unchecked(Arc::new(store), data, product_id.clone());
        let tiers: BTreeSet<Tier> = Tier::ALL.iter().copied().collect();
        let copied = copy(&from, &target, &edition_id, entry.manifest_sha256, &tiers).await;
        let copied = copied.map_err(|error| errors::edition(&error, product_id, &self.shown))?;
        Ok(EditionCopyReport {
            store: self.shown.to_string(),
            product_id: product_id.to_string(),
            edition_id: edition_id.to_string(),
            to: shown,
            files: copied.copied as u64,
            files_present: copied.present as u64,
            bytes: copied.bytes,
        })
    }

    /// Why an edition that no version records can't be used.
    async fn not_sealed(&self, place: &ProductEditions, edition_id: EditionId) -> Result<ApiError, ApiError> {
        let product_id = place.product_id();
        let at = self.shown.option();
        let failed = |error| errors::edition(&error, product_id, &self.shown);
        if place.unsealed().await.map_err(failed)? == Some(edition_id) {
            return Ok(ApiError::new(
                ErrorKind::Refused,
                format!("edition {edition_id} of product {product_id} is not sealed yet (INV-58)"),
            )
            .safe("nothing was changed")
            .next(format!("sovm edition seal {product_id}{at}")));
        }
        if place.is_sealed(&edition_id).await.map_err(failed)? {
            return Ok(ApiError::new(
                ErrorKind::Refused,
                format!("edition {edition_id} of product {product_id} is sealed, and no version records it (INV-6)"),
            )
            .safe("nothing was changed")
            .next(format!(
                "sovm edition seal {product_id}{at} records it; sovm edition check {product_id} {edition_id}{at} says what is \
                 wrong with it"
            )));
        }
        Ok(ApiError::new(
            ErrorKind::NotFound,
            format!("product {product_id} has no edition {edition_id}"),
        )
        .safe("nothing was changed")
        .next(format!("sovm edition list {product_id}{at}")))
    }
}

fn listed_info(
    version: &Version,
    product_id: &ProductId,
    edition_id: EditionId,
    listed: Option<Listed>,
) -> ListedEditionInfo {
    let key = EditionKey::new(product_id.clone(), edition_id);
    let status = version.status(&key).map(|status| status.to_string());
    let entry = version.entry(&key);
    let mut info = ListedEditionInfo {
        product_id: product_id.to_string(),
        edition_id: edition_id.to_string(),
        begun_at: edition_id.time().to_string(),
        sealed_at: None,
        previous: entry
            .and_then(|entry| entry.previous)
            .map(|previous| previous.to_string()),
        release_at: entry.and_then(|entry| entry.release_at).map(|at| at.to_string()),
        problem: None,
        state: String::new(),
    };
    let (state, missing) = match listed {
        None => ("missing", Some("its files are not there")),
        Some(Listed::Unsealed { .. }) => ("unsealed", None),
        Some(Listed::Sealed { previous, created_at }) => {
            info.previous = previous.map(|previous| previous.to_string());
            info.sealed_at = Some(created_at.to_string());
            ("sealed", None)
        }
        Some(Listed::Unreadable(error)) => {
            info.problem = Some(error.to_string());
            ("unreadable", None)
        }
    };
    let retired = version.status(&key) == Some(EntryStatus::Tombstone);
    if !retired && info.problem.is_none() {
        info.problem = missing.map(str::to_owned);
    }
    info.state = status.unwrap_or_else(|| state.to_owned());
    info
}

/// A finding of an edition's check.
pub(super) fn finding_info(finding: &EditionFinding) -> EditionFindingInfo {
    EditionFindingInfo {
        rule: finding.rule,
        file: finding.file.clone(),
        message: finding.to_string(),
    }
}

fn profile_word(profile: CheckProfile) -> &'static str {
    match profile {
        CheckProfile::Publish => "publish",
        CheckProfile::Receive => "receive",
        CheckProfile::Open => "open",
    }
}
