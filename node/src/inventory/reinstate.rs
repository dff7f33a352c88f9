//! Bringing a retired edition back: its record is looked up in the chain, and every byte it lists is read first.

use sovm_inventory::{
    doc::{Entry, EntryStatus, Leaf, Seq, Sha256, Stored},
    reader::{Head, versions_back_from},
    transition::{EditionKey, ProductProfile, Refusal, SealedEdition, Verb, VerifiedEdition},
};

use super::{Catalogue, errors, manifests::verified};
use crate::error::{ApiError, ErrorKind};

impl Catalogue {
    /// INV-202: reads a tombstone's manifest and every file it lists.
    ///
    /// A tombstone carries no hash, so the hash the manifest must have is taken from the newest version that recorded the
    /// edition: any manifest found in the directory would vouch for itself only.
    pub(super) async fn verified_edition(&self, edition: &EditionKey) -> Result<VerifiedEdition, ApiError> {
        let (head, version) = self.newest().await?;
        let found = version.status(edition);
        if found != Some(EntryStatus::Tombstone) {
            let verb = Verb::Reinstate;
            let edition = edition.clone();
            return Err(errors::refused(
                &Refusal::WrongState { verb, edition, found },
                &self.shown,
            ));
        }
        let Some((leaf, entry)) = self.last_record(&head, edition).await? else {
            return Err(ApiError::new(
                ErrorKind::Refused,
                format!(
                    "INV-202: no version stored here records {edition}, so nothing says which manifest it was sealed with"
                ),
            )
            .safe("no version was written; the catalogue is as it was")
            .next("seal its content as a new edition"));
        };
        let manifest = match verified(self, edition, entry.manifest_sha256).await? {
            Ok(manifest) => manifest,
            Err(failure) => {
                return Err(ApiError::new(
                    ErrorKind::Integrity,
                    format!("INV-202: {edition} does not verify: {}", failure.message),
                )
                .safe("no version was written; the catalogue is as it was")
                .next("bring the edition's directory back from a backup, then run it again"));
            }
        };
        let measured = self.measure(&manifest).await?;
        // The product may have become final or revisable meanwhile; what it is now counts.
        let lifecycle = version
            .leaf(&edition.product_id)
            .map_or(leaf.lifecycle, |leaf| leaf.lifecycle);
        let sealed = SealedEdition {
            manifest,
            profile: ProductProfile {
                kind: leaf.kind,
                lifecycle,
            },
            structure_source: entry.structure_source,
        };
        VerifiedEdition::compare(sealed, &measured).map_err(|refusal| errors::refused(&refusal, &self.shown))
    }

    /// The newest leaf of the product that records the edition, and its entry.
    async fn last_record(&self, head: &Head, edition: &EditionKey) -> Result<Option<(Stored<Leaf>, Entry)>, ApiError> {
        let mut leaves: Vec<Sha256> = Vec::new();
        versions_back_from(&*self.store, head, Seq::FIRST, |root| {
            if let Some(leaf) = root.products.get(&edition.product_id)
                && leaves.last() != Some(&leaf.leaf_sha256)
            {
                leaves.push(leaf.leaf_sha256);
            }
            true
        })
        .await
        .map_err(|error| errors::unread(&error, &self.shown))?;
        for sha256 in leaves {
            let leaf = self.leaf(sha256).await?;
            if let Some(entry) = leaf.entry(&edition.edition_id).cloned() {
                return Ok(Some((leaf, entry)));
            }
        }
        Ok(None)
    }
}
