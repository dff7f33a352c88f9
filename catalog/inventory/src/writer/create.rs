//! Making a catalogue, and counting its restores.

use std::{convert::Infallible, sync::Arc};

use super::{Clock, CommitError, Committed, Identity, Outcome, Planned, ReadCatalog, WriteError, Writer};
use crate::{
    doc::{Catalog, CatalogId, Document as _, Epoch, EventKind, JsonObject, layout},
    store::{Creation, InventoryStore, Replacement, StorePath},
    transition::Version,
};

/// A catalogue to make.
#[derive(Debug, Clone)]
pub struct NewCatalog {
    /// Its id.
    pub catalog_id: CatalogId,
    /// Whether a sealed edition waits for a release.
    pub embargo: bool,
    /// Sections of `catalog.json`, such as the founding authority's.
    pub extensions: JsonObject,
    /// Why, for the first version's event.
    pub reason: String,
}

impl Writer {
    /// Makes a catalogue: `catalog.json`, then version 1, which holds no product and says whether there is an embargo.
    ///
    /// Refuses a place with files and no `catalog.json`, and creates nothing there (INV-30). One that was interrupted is
    /// completed, under the id it began with.
    pub async fn create(
        store: Arc<dyn InventoryStore>,
        identity: Identity,
        clock: Arc<dyn Clock>,
        new: NewCatalog,
    ) -> Result<(Self, Committed), WriteError> {
        let writer = Self::new(store, identity, clock);
        if writer.store.get(&StorePath::parse(layout::CATALOG)?).await?.is_none()
            && let Some(found) = writer.store.list(None).await?.first()
        {
            return Err(WriteError::NotEmpty {
                found: found.to_string(),
            });
        }
        let _lock = writer.store.lock().await?;
        let mut catalog = Catalog::new(new.catalog_id);
        catalog.extensions = new.extensions;
        let path = StorePath::parse(layout::CATALOG)?;
        if writer.store.create(&path, catalog.encode()?.into()).await? == Creation::Exists {
            let ReadCatalog { catalog, .. } = writer.catalog().await?;
            if let Some(newest) = writer.newest(&catalog).await? {
                let newest = newest.head.root().seq;
                return Err(WriteError::CatalogExists {
                    catalog_id: catalog.catalog_id,
                    newest,
                });
            }
        }
        let (embargo, reason) = (new.embargo, new.reason);
        let decide = |base: super::Base<'_>| {
            // The lock of a bucket keeps out this process only, so somebody else may have completed it meanwhile.
            let first = base.root.is_none();
            let planned = || {
                Planned::new(
                    Version::before_the_first(embargo),
                    EventKind::EmbargoChange,
                    reason.clone(),
                )
            };
            Ok::<_, Infallible>(first.then(planned))
        };
        match writer.commit_locked(decide).await {
            Ok(Outcome::Committed(committed)) => Ok((writer, committed)),
            Ok(Outcome::Unchanged(head)) => {
                let newest = head.map_or(crate::doc::Seq::FIRST, |head| head.root().seq);
                let ReadCatalog { catalog, .. } = writer.catalog().await?;
                Err(WriteError::CatalogExists {
                    catalog_id: catalog.catalog_id,
                    newest,
                })
            }
            Err(CommitError::Write(error)) => Err(error),
            Err(CommitError::Refused(never)) => match never {},
        }
    }

    /// INV-133: counts a whole-catalogue restore or a failover, so that readers start anew instead of refusing the lower
    /// numbers they find.
    ///
    /// On a catalogue that opted in, a restore has its own order, which begins with a segment and `HISTORY`: refused here.
    pub async fn bump_restore_epoch(&self) -> Result<Epoch, WriteError> {
        let _lock = self.store.lock().await?;
        let ReadCatalog { mut catalog, revision } = self.catalog().await?;
        if catalog.is_opted_in() {
            return Err(WriteError::RestoreNeedsHistory);
        }
        let read = catalog.restore_epoch;
        let bumped = read.next().unwrap_or(Epoch::MAX);
        catalog.restore_epoch = bumped;
        let path = StorePath::parse(layout::CATALOG)?;
        match self.store.replace(&path, &revision, catalog.encode()?.into()).await? {
            Replacement::Replaced => Ok(bumped),
            Replacement::Changed => {
                let found = self.catalog().await?.catalog.restore_epoch;
                Err(WriteError::EpochChanged { read, found })
            }
        }
    }
}
