//! Opting in to the expiry of old versions.

use super::{OptInRefusal, ReadCatalog, WriteError, Writer};
use crate::{
    doc::{Catalog, Document as _, History, Seq, layout},
    reader::versions_back_from,
    store::{Creation, LockReach, Replacement, StorePath},
};

impl Writer {
    /// Opts the catalogue in: `inventory/HISTORY` first, then `catalog.json` as format 2 (INV-142). Expires nothing; the first
    /// expiry is a later call (INV-144), because a writer that read the old `catalog.json` may be about to write a root.
    ///
    /// Answers with the lowest version from which every root carries the history fields.
    pub async fn opt_in(&self) -> Result<Seq, WriteError> {
        let reach = self.store.lock_reach();
        if reach != LockReach::EveryWriter {
            return Err(OptInRefusal::Lock(reach).into());
        }
        let _lock = self.store.lock().await?;
        let ReadCatalog { catalog, revision } = self.catalog().await?;
        if let Some(since) = catalog.since_seq {
            return Err(OptInRefusal::AlreadyIn(since).into());
        }
        let newest = self.newest_whole(&catalog).await?.ok_or(OptInRefusal::NoVersion)?;
        let since_seq = self.history_since(&newest.head).await?;

        let history = History::at_opt_in(catalog.catalog_id, catalog.restore_epoch).encode()?;
        let path = StorePath::parse(layout::HISTORY)?;
        if self.store.create(&path, history.clone().into()).await? == Creation::Exists {
            // An opt-in that was interrupted left exactly this.
            let found = self.store.get(&path).await?;
            if found.is_none_or(|found| found.bytes != history) {
                return Err(OptInRefusal::HistoryExists.into());
            }
        }
        self.rewrite_catalog(catalog.clone().opted_in(since_seq), &catalog, &revision)
            .await?;
        Ok(since_seq)
    }

    /// INV-134, INV-139, INV-140: walks the whole chain.
    async fn history_since(&self, head: &crate::reader::Head) -> Result<Seq, WriteError> {
        let mut with = Vec::new();
        let mut refusal = None;
        let mut lacks: Option<Seq> = None;
        let missing = versions_back_from(&*self.store, head, Seq::FIRST, |root| {
            if root.history.is_none() {
                if with.is_empty() {
                    refusal = Some(OptInRefusal::HeadWithoutHistory(root.seq));
                }
                lacks = lacks.or(Some(root.seq));
            } else if let Some(without) = lacks {
                refusal = Some(OptInRefusal::HistoryLost {
                    without,
                    with: root.seq,
                });
            } else {
                with.push(root.seq);
            }
            refusal.is_none()
        })
        .await?;
        match (refusal, missing, with.last()) {
            (Some(refusal), ..) => Err(refusal.into()),
            (None, Some(missing), _) => Err(OptInRefusal::ChainIncomplete(missing).into()),
            (None, None, Some(since)) => Ok(*since),
            (None, None, None) => Err(OptInRefusal::NoVersion.into()),
        }
    }

    /// INV-143: reads, compares and renames.
    async fn rewrite_catalog(
        &self,
        new: Catalog,
        read: &Catalog,
        revision: &crate::store::Revision,
    ) -> Result<(), WriteError> {
        let path = StorePath::parse(layout::CATALOG)?;
        if self.store.replace(&path, revision, new.encode()?.into()).await? == Replacement::Replaced {
            return Ok(());
        }
        let found = self.catalog().await?.catalog.restore_epoch;
        Err(WriteError::EpochChanged {
            read: read.restore_epoch,
            found,
        })
    }
}
