//! Sealed editions that no version names, over all products.

use std::{collections::BTreeMap, fmt};

use super::EditionError;
use crate::{
    doc::{CleanText, Instant, Manifest, Seq, Stored, Unverified, layout},
    reader::{FullInventory, find_base, versions_back_from},
    store::{InventoryStore, StorePath},
    transition::EditionKey,
};

/// What becomes of an unrecorded edition if nobody does anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Its journal shows that its seal was interrupted: the product's next begin, resume or seal records it (INV-270).
    Repair,
    /// It waits in `pending/` to be folded.
    Fold,
    /// Nothing: somebody has to decide.
    Decide,
}

/// INV-272: a sealed edition that no stored version names, and whom to ask about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnrecordedEdition {
    /// The edition.
    pub edition: EditionKey,
    /// When it was sealed.
    pub sealed_at: Instant,
    /// What sealed it, by name and version.
    pub sealed_by: String,
    /// The actor of the newest version, who writes this catalogue and so is responsible; none before the first version.
    pub responsible: Option<CleanText>,
    /// What comes next.
    pub next: Next,
}

impl fmt::Display for UnrecordedEdition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            edition,
            sealed_at,
            sealed_by,
            ..
        } = self;
        write!(
            f,
            "{edition} was sealed at {sealed_at} by {sealed_by}, and no version names it: "
        )?;
        match self.next {
            Next::Repair => f.write_str("the next build of the product records it")?,
            Next::Fold => f.write_str("its registration waits for the release job")?,
            Next::Decide => f.write_str("record it, or delete its directory")?,
        }
        match &self.responsible {
            Some(actor) => write!(f, "; {actor} writes this catalogue (INV-272)"),
            None => f.write_str(" (INV-272)"),
        }
    }
}

/// INV-272: every sealed edition below `products/` that neither the newest version nor any stored one before it names. Nothing is
/// changed: recording is the narrow repair's (INV-271), and everything beyond it somebody's decision.
///
/// An edition whose manifest can't be read is left to `verify`, which names what is wrong with it.
pub async fn unrecorded(store: &dyn InventoryStore) -> Result<Vec<UnrecordedEdition>, EditionError> {
    let mut open = BTreeMap::new();
    for path in store.list(Some(&StorePath::parse(layout::PRODUCTS)?)).await? {
        let Some(edition) = crate::export::manifest_edition(path.as_str()) else {
            continue;
        };
        let Some(found) = store.get(&path).await? else { continue };
        if let Ok(manifest) = Stored::<Manifest, Unverified>::decode(found.bytes)
            && manifest.check_path(&edition.product_id, &edition.edition_id).is_ok()
        {
            open.insert(edition, manifest.into_value());
        }
    }
    let mut responsible = None;
    if let Some(found) = find_base(store).await? {
        responsible = Some(found.head.root().event.actor.clone());
        let full = FullInventory::load(store, found.head.clone(), None).await?;
        let version = full.to_version()?;
        open.retain(|edition, _| version.status(edition).is_none());
        // One that was dropped from the newest version was named by the change list that dropped or added it.
        versions_back_from(store, &found.head, Seq::FIRST, |root| {
            for item in root.history.iter().flat_map(|history| &history.changes) {
                for entry in &item.entries {
                    open.remove(&EditionKey::new(item.product_id.clone(), entry.edition_id));
                }
            }
            !open.is_empty()
        })
        .await?;
    }
    let mut report = Vec::with_capacity(open.len());
    for (edition, manifest) in open {
        let there = |name: String| async move {
            let found = store.get(&StorePath::parse(&name)?).await?;
            Ok::<_, EditionError>(found.is_some())
        };
        let (product, id) = (&edition.product_id, &edition.edition_id);
        let next = if there(layout::journal(product, id)).await? {
            Next::Repair
        } else if there(layout::pending(product, id)).await? {
            Next::Fold
        } else {
            Next::Decide
        };
        report.push(UnrecordedEdition {
            sealed_at: manifest.created_at,
            sealed_by: format!("{} {}", manifest.producer.name, manifest.producer.version),
            responsible: responsible.clone(),
            next,
            edition,
        });
    }
    Ok(report)
}
