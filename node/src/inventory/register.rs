//! Editions of publishers that don't write the catalogue: sealed there for its authority to record, folded here (§11.2).

use std::collections::BTreeSet;

use sovm_inventory::{
    doc::{Instant, JsonObject, Pending, ProductId, ProductKind, Stored, Unverified, layout},
    edition::{
        check::{CheckOptions, EditionFindings, check},
        seal::SealRequest,
    },
    fingerprint::CheckProfile,
    reader::Head,
    store::StorePath,
    structure::Structures,
    transition::{EditionKey, PendingEdition, Version},
};

use super::{Author, Catalogue, Wish, change::Folding, editions::finding_info, errors};
use crate::{
    api::{EditionSealReport, InventoryChangeReport, RefusedEdition},
    error::{ApiError, ErrorKind},
};

impl Catalogue {
    /// Seals the product's unsealed edition, checks it as one that is about to be published, and writes its registration. The report
    /// says no state: no version names the edition.
    ///
    /// An edition whose seal ended before it was registered is registered first, and then there is nothing to seal.
    pub(super) async fn seal_to_register(
        &self,
        author: Author,
        product_id: &ProductId,
        release_at: Option<Instant>,
    ) -> Result<EditionSealReport, ApiError> {
        let failed = |error| errors::edition(&error, product_id, &self.shown);
        let (publisher, version, profile) = self.publisher(author, product_id).await?;
        let other_structures = self.beside(product_id, profile.kind, &version).await?;
        let options = CheckOptions {
            other_structures: &other_structures,
            ..CheckOptions::default()
        };
        let interrupted = publisher.unregistered(&options).await.map_err(failed)?;
        let repaired = interrupted.is_some();
        let publishable = match interrupted {
            Some(publishable) => publishable,
            None => {
                let builder = publisher.resume().await.map_err(failed)?;
                let request = SealRequest {
                    producer_fields: JsonObject::new(),
                    extensions: JsonObject::new(),
                    other_structures: other_structures.clone(),
                    release_at,
                };
                let sealed = builder.seal(request).await.map_err(failed)?.manifest;
                let checked = publisher.check(&sealed.edition_id, &options).await.map_err(failed)?;
                match checked.into_publishable() {
                    Ok(publishable) => publishable,
                    Err(found) => {
                        return Ok(EditionSealReport {
                            findings: found.findings.iter().map(finding_info).collect(),
                            ..self.sealed(&sealed, sealed.sha256())
                        });
                    }
                }
            }
        };
        let manifest = publishable.manifest();
        let registration = publisher.register(&publishable, release_at).await.map_err(failed)?;
        Ok(EditionSealReport {
            repaired,
            release_at: registration.release_at.map(|at| at.to_string()),
            ..self.sealed(manifest, manifest.sha256())
        })
    }

    /// INV-404: records every registered edition that the rules allow, as embargoed, in one version. The others are named with the rule that
    /// refuses them, in the answer and in the version.
    pub(crate) async fn fold(&self, author: Author) -> Result<InventoryChangeReport, ApiError> {
        let (head, version) = self.newest().await?;
        let mut folding = Folding::default();
        for edition in self.inbox().await? {
            if version.status(&edition).is_some() {
                continue;
            }
            match self.registered(&edition, &head, &version).await? {
                Ok(pending) => folding.pending.push(pending),
                Err((rule, message)) => folding.unfit.push(RefusedEdition {
                    product_id: edition.product_id.to_string(),
                    edition_id: edition.edition_id.to_string(),
                    rule,
                    message,
                }),
            }
        }
        let unfit = folding.unfit.clone();
        let mut report = self.change(author, Wish::Fold(folding)).await?;
        report.refused.extend(unfit);
        Ok(report)
    }

    /// The editions that have a registration, recorded ones included. Other files beside them register nothing.
    async fn inbox(&self) -> Result<BTreeSet<EditionKey>, ApiError> {
        let folder = StorePath::parse(layout::PENDING).map_err(ApiError::bug)?;
        let names = self.store.list(Some(&folder)).await;
        let names = names.map_err(|error| errors::storage(&error))?;
        let named = |path: &StorePath| layout::pending_ids(path.as_str());
        let ids = names.iter().filter_map(named);
        Ok(ids
            .map(|(product_id, edition_id)| EditionKey::new(product_id, edition_id))
            .collect())
    }

    /// Reads a registration and checks its edition as one that is about to be published (INV-401). An error is the rule that refuses and
    /// why.
    async fn registered(
        &self,
        edition: &EditionKey,
        head: &Head,
        version: &Version,
    ) -> Result<Result<PendingEdition, (u16, String)>, ApiError> {
        let EditionKey { product_id, edition_id } = edition;
        let path = layout::pending(product_id, edition_id);
        let bytes = self.fetch(&path).await?.unwrap_or_default();
        let read = Stored::<Pending, Unverified>::decode(bytes)
            .and_then(|pending| pending.check_path(edition_id).map(|()| pending.into_value()));
        let pending = match read {
            Ok(pending) => pending,
            Err(error) => return Ok(Err((error.rule.unwrap_or(403), format!("{edition}: {error}")))),
        };
        let profile = match self.profile(head, version, product_id) {
            Ok(profile) => profile,
            Err(error) if error.kind == ErrorKind::NotFound => {
                return Ok(Err((403, format!("INV-403: {edition}: {}", error.message))));
            }
            Err(error) => return Err(error),
        };
        let other_structures = self.beside(product_id, profile.kind, version).await?;
        let options = CheckOptions {
            other_structures: &other_structures,
            ..CheckOptions::default()
        };
        let place = self.editions_of(product_id).await?;
        let checked = check(&place, edition_id, CheckProfile::Publish, &options).await;
        let checked = checked.map_err(|error| errors::edition(&error, product_id, &self.shown))?;
        Ok(match checked.into_publishable() {
            Ok(publishable) => Ok(PendingEdition {
                product_id: product_id.clone(),
                pending,
                manifest: publishable.manifest().clone(),
                profile,
            }),
            Err(found) => Err((rule_of(&found), format!("{edition}: {found}"))),
        })
    }

    /// What a structure edition's references may resolve in beside itself.
    async fn beside(
        &self,
        product_id: &ProductId,
        kind: ProductKind,
        version: &Version,
    ) -> Result<Vec<(String, Structures)>, ApiError> {
        match kind {
            ProductKind::Data => Ok(Vec::new()),
            ProductKind::Structure => self.other_structures(product_id, version).await,
        }
    }
}

fn rule_of(found: &EditionFindings) -> u16 {
    found.findings.first().map_or(401, |finding| finding.rule)
}
