//! `CURRENT`: conditional, and forward only.

use super::{ReadCatalog, WriteError, Writer};
use crate::{
    doc::{Current, Document as _, Root, RootRef, Stored, layout},
    store::{Creation, Replacement, StorePath},
};

/// How often `CURRENT` may change under a writer that brings it up.
const ATTEMPTS: u32 = 100;

impl Writer {
    /// INV-259: brings `CURRENT` up to the newest version; what a release job does when it starts.
    ///
    /// Answers with the version it names afterwards; none in a catalogue without versions.
    pub async fn advance_current_to_head(&self) -> Result<Option<RootRef>, WriteError> {
        let _lock = self.store.lock().await?;
        let ReadCatalog { catalog, .. } = self.catalog().await?;
        let Some(newest) = self.newest(&catalog).await? else {
            return Ok(None);
        };
        self.advance_current(newest.reference()).await?;
        Ok(Some(newest.reference()))
    }

    /// INV-147: makes `CURRENT` name a version, unless it names a later one.
    pub(super) async fn advance_current(&self, to: RootRef) -> Result<(), WriteError> {
        let path = StorePath::parse(layout::CURRENT)?;
        let bytes = bytes::Bytes::from(Current { root: to }.encode()?);
        for _ in 0..ATTEMPTS {
            let Some(found) = self.store.get(&path).await? else {
                match self.store.create(&path, bytes.clone()).await? {
                    Creation::Created => return Ok(()),
                    Creation::Exists => continue,
                }
            };
            // An unreadable hint names nothing, so anything is forward of it.
            if let Ok(current) = Current::decode(&found.bytes) {
                let named = current.root;
                if named == to {
                    return Ok(());
                }
                let ahead = (named.restore_epoch, named.seq) >= (to.restore_epoch, to.seq);
                if ahead && self.is_there(named).await? {
                    return Ok(());
                }
            }
            if self.store.replace(&path, &found.revision, bytes.clone()).await? == Replacement::Replaced {
                return Ok(());
            }
        }
        Err(WriteError::CurrentContended(to.seq))
    }

    /// Whether a root is there as it is named. Without it a later number in `CURRENT` is no version that anybody could be
    /// moved back from.
    async fn is_there(&self, named: RootRef) -> Result<bool, WriteError> {
        let found = self.store.get(&StorePath::parse(&layout::root(named.seq))?).await?;
        let root = found.and_then(|found| Stored::<Root>::verify(found.bytes, named.root_sha256).ok());
        Ok(root.is_some_and(|root| (root.restore_epoch, root.seq) == (named.restore_epoch, named.seq)))
    }
}
