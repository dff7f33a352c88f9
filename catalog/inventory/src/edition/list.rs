//! Which editions a product has, and discarding the unsealed one.

use std::collections::BTreeMap;

use super::{EditionError, ProductEditions, TableList, build::read_list};
use crate::{
    doc::{DocError, EditionId, Instant, Manifest, Stored, Unverified, layout},
    store::StorePath,
    structure::Structures,
};

/// An edition a product has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEdition {
    /// Its id, the name of its directory.
    pub edition_id: EditionId,
    /// What its manifest says.
    pub state: EditionState,
}

/// INV-61: what a manifest says about its edition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditionState {
    /// There is no manifest.
    Unsealed {
        /// When it was begun, as its id says.
        begun_at: Instant,
    },
    /// It is sealed.
    Sealed {
        /// The edition it was built from.
        previous: Option<EditionId>,
        /// When it was sealed.
        created_at: Instant,
    },
    /// There is a manifest that can't be read.
    Unreadable(DocError),
}

impl ProductEditions {
    /// INV-61: the product's editions in the order of their ids, from manifests only.
    pub async fn list(&self) -> Result<Vec<ListedEdition>, EditionError> {
        let mut editions = Vec::new();
        for (edition_id, sealed) in self.directories().await? {
            let state = if sealed {
                self.sealed_state(&edition_id).await?
            } else {
                let begun_at = edition_id.time();
                EditionState::Unsealed { begun_at }
            };
            editions.push(ListedEdition { edition_id, state });
        }
        Ok(editions)
    }

    async fn sealed_state(&self, edition_id: &EditionId) -> Result<EditionState, EditionError> {
        match self.read_manifest(edition_id).await {
            Ok(manifest) => Ok(EditionState::Sealed {
                previous: manifest.previous,
                created_at: manifest.created_at,
            }),
            Err(EditionError::Document(error)) => Ok(EditionState::Unreadable(*error)),
            Err(error) => Err(error),
        }
    }

    /// Reads a sealed edition's manifest, as it is found there.
    pub async fn read_manifest(&self, edition_id: &EditionId) -> Result<Stored<Manifest, Unverified>, EditionError> {
        let Some(found) = self.store.get(&self.manifest_path(edition_id)?).await? else {
            let (product_id, edition_id) = (self.product_id.clone(), *edition_id);
            return Err(EditionError::NotSealed { product_id, edition_id });
        };
        let manifest = Stored::<Manifest, Unverified>::decode(found.bytes)?;
        manifest.check_path(&self.product_id, edition_id)?;
        Ok(manifest)
    }

    /// The structures an edition holds, as its structure messages say them.
    pub async fn structures(&self, edition_id: &EditionId) -> Result<Structures, EditionError> {
        let (list, _) = read_list(self, edition_id).await?;
        let content = super::content::Content::load(self, edition_id, &list).await?;
        Ok(content.structures)
    }

    /// Every edition's directory, and whether there is a manifest in it.
    async fn directories(&self) -> Result<BTreeMap<EditionId, bool>, EditionError> {
        let product = StorePath::parse(&layout::product(&self.product_id))?;
        let mut directories = BTreeMap::new();
        for name in self.store.list(Some(&product)).await? {
            let relative = &name.as_str()[product.as_str().len() + 1..];
            // `data/` and `journal/` are no ids.
            let Some((folder, file)) = relative.split_once('/') else {
                continue;
            };
            if let Ok(edition_id) = folder.parse() {
                *directories.entry(edition_id).or_insert(false) |= file == layout::MANIFEST;
            }
        }
        Ok(directories)
    }

    /// INV-21: the product's unsealed edition; two of them are refused.
    pub async fn unsealed(&self) -> Result<Option<EditionId>, EditionError> {
        let directories = self.directories().await?;
        let mut unsealed = directories.into_iter().filter(|(_, sealed)| !sealed).map(|(id, _)| id);
        match (unsealed.next(), unsealed.next()) {
            (Some(first), Some(second)) => Err(EditionError::UnsealedTwice {
                product_id: self.product_id.clone(),
                first,
                second,
            }),
            (found, _) => Ok(found),
        }
    }

    /// INV-60: deletes an unsealed edition's directory and its journal; its data files are left to the garbage collector
    /// (INV-439). One that was interrupted is repeated.
    pub async fn discard(&self, edition_id: &EditionId) -> Result<(), EditionError> {
        // A seal writes its manifest under the same lock, so none appears between this look and the deletion.
        let _lock = self.store.lock().await?;
        let (product_id, id) = (self.product_id.clone(), *edition_id);
        if self.is_sealed(edition_id).await? {
            return Err(EditionError::DiscardSealed {
                product_id,
                edition_id: id,
            });
        }
        let files = self.files_in(edition_id).await?;
        let journal = StorePath::parse(&layout::journal(&self.product_id, edition_id))?;
        if files.is_empty() && self.store.get(&journal).await?.is_none() {
            return Err(EditionError::NoEdition {
                product_id,
                edition_id: id,
            });
        }
        self.store.delete(&journal).await?;
        // The list goes last: as long as anything is there, it still says what it is.
        let (list, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file.relative == TableList::NAME);
        for file in others.into_iter().chain(list) {
            self.store.delete(&file.store_path).await?;
        }
        Ok(())
    }
}
