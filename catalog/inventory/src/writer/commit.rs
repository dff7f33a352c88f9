//! One version: read the head, decide, write.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};

use super::{Base, CommitError, Committed, Newest, Outcome, Planned, ReadCatalog, WriteError, Writer, base::Decided};
use crate::{
    doc::{
        Catalog, Document as _, Event, FormatVersion, History, Leaf, Root, RootHistory, Seq, Sha256, Stored,
        WriterSupport, layout,
    },
    reader::{Fetch as _, Head},
    store::{Creation, StoreError, StorePath},
    transition::Version,
};

/// How many lost races end a commit. Each one means that somebody else wrote a version.
const ATTEMPTS: u32 = 100;
/// How many leaves are written at once.
const LEAVES_AT_ONCE: usize = 8;

impl Writer {
    /// Writes the version that `decide` makes of the newest one.
    ///
    /// `decide` is called with the head as it is under the lock, and called anew with every head this commit lost a race to
    /// (INV-249 to INV-251). It answers with a version, with `None` if there is nothing to do, or with its own refusal.
    ///
    /// It is also called anew on the same head after it looked at a leaf that was not read yet. Its answer to the earlier
    /// call counts for nothing, so what it keeps beside its answer must be what its last call found.
    pub async fn commit<E: std::error::Error + 'static>(
        &self,
        decide: impl FnMut(Base<'_>) -> Result<Option<Planned>, E> + Send,
    ) -> Result<Outcome, CommitError<E>> {
        // INV-293: from before the first look at the head until `CURRENT` is written.
        let _lock = self.store.lock().await.map_err(WriteError::from)?;
        self.commit_locked(decide).await
    }

    /// INV-295: the commit of code that holds the lock already, which isn't reentrant (INV-294).
    pub(super) async fn commit_locked<E: std::error::Error + 'static>(
        &self,
        mut decide: impl FnMut(Base<'_>) -> Result<Option<Planned>, E> + Send,
    ) -> Result<Outcome, CommitError<E>> {
        let mut lost: Option<Seq> = None;
        for attempts in 1..=ATTEMPTS {
            // INV-136: on every commit, since a catalogue may opt in between two.
            let ReadCatalog { catalog, .. } = self.catalog().await?;
            let mut newest = self.newest(&catalog).await?;
            if let Some(lost) = lost
                && newest.as_ref().is_none_or(|newest| newest.head.root().seq < lost)
            {
                let head = newest.map(|newest| newest.head.root().seq);
                let finding = "its name is taken, but it is no version that follows".to_owned();
                return Err(WriteError::Blocked {
                    seq: lost,
                    head,
                    finding,
                }
                .into());
            }
            let decided = match self.decide(newest.as_mut(), &mut decide).await {
                Ok(Some(decided)) => decided,
                nothing => {
                    let head = newest.as_ref().map(|newest| newest.head.clone());
                    newest.into_iter().for_each(|newest| self.remember(newest));
                    return nothing.map(|_| Outcome::Unchanged(head));
                }
            };
            let root = self.root(&catalog, newest.as_ref(), &decided)?;
            let planned = decided.planned;
            let empty = Version::before_the_first(false);
            let base = newest.as_ref().map_or(&empty, |newest| &newest.version);
            self.write_leaves(planned.next.new_leaves(base).map_err(WriteError::from)?)
                .await?;
            if self.create_root(&root).await? == Creation::Exists {
                lost = Some(root.seq);
                newest.into_iter().for_each(|newest| self.remember(newest));
                tokio::task::yield_now().await;
                continue;
            }
            let head = Head::written(root);
            self.remember(Newest {
                version: planned.next.written_as(head.root()),
                head: head.clone(),
                confirmed: BTreeSet::new(),
            });
            let current = self.advance_current(head.reference()).await;
            if let Err(error) = &current {
                tracing::warn!(seq = %head.root().seq, %error, "the version is written, CURRENT is not");
            }
            return Ok(Outcome::Committed(Committed {
                head,
                attempts,
                current,
            }));
        }
        Err(WriteError::Contended {
            attempts: ATTEMPTS,
            seq: lost.unwrap_or(Seq::FIRST),
        }
        .into())
    }

    /// Reads `catalog.json` as a writer that locks and minds expiry.
    pub(super) async fn catalog(&self) -> Result<ReadCatalog, WriteError> {
        let found = self
            .store
            .get(&StorePath::parse(layout::CATALOG)?)
            .await?
            .ok_or(WriteError::NoCatalog)?;
        let catalog = Catalog::decode_for_writer(&found.bytes, WriterSupport::LockAndExpiry)?;
        Ok(ReadCatalog {
            catalog,
            revision: found.revision,
        })
    }

    /// INV-255: read afresh under the lock, on an opted-in catalogue only.
    pub(super) async fn history(&self, catalog: &Catalog) -> Result<Option<History>, WriteError> {
        if !catalog.is_opted_in() {
            return Ok(None);
        }
        let bytes = self.store.fetch(&StorePath::parse(layout::HISTORY)?).await?;
        let history = History::decode(&bytes.ok_or(crate::reader::ReadError::HistoryMissing)?)?;
        Ok(Some(history))
    }

    /// Puts the root together. Link, change list and time follow the base version, whichever version the content was built
    /// from (INV-165).
    fn root(&self, catalog: &Catalog, newest: Option<&Newest>, decided: &Decided) -> Result<Stored<Root>, WriteError> {
        let Decided { planned, at, changes } = decided;
        let base_root = newest.map(|newest| newest.head.root());
        let base_seq = base_root.map(|root| root.seq);
        let seq = match base_seq {
            Some(base) => base.next().ok_or(WriteError::SeqExhausted(base))?,
            None => Seq::FIRST,
        };
        let extensions = match &planned.extensions {
            Some(extensions) => extensions.clone(),
            None => base_root.map(|root| root.extensions.clone()).unwrap_or_default(),
        };
        let root = Root {
            format_version: FormatVersion::INVENTORY,
            seq,
            previous_inventory: planned.corrects_from.or(base_seq),
            restore_epoch: catalog.restore_epoch,
            created_at: *at,
            producer: self.identity.producer.clone(),
            embargo: planned.next.embargo(),
            products: planned.next.products(),
            retired: planned.next.retired().cloned().collect(),
            event: Event {
                actor: self.identity.actor.clone(),
                reason: planned.reason.clone(),
                kind: planned.kind.clone(),
            },
            extensions,
            history: Some(RootHistory {
                previous_root_sha256: base_root.map(Stored::sha256),
                changes: changes.clone(),
            }),
            extra: crate::doc::JsonObject::new(),
        };
        root.check_as_written()?;
        Ok(Stored::encode(root)?)
    }

    /// INV-246, INV-248: every leaf the base version doesn't have, before the root that names it.
    async fn write_leaves(&self, new: Vec<Arc<Stored<Leaf>>>) -> Result<(), WriteError> {
        let new = new.into_iter().map(|leaf| self.write_leaf(leaf));
        futures::stream::iter(new)
            .buffer_unordered(LEAVES_AT_ONCE)
            .try_collect::<()>()
            .await
    }

    async fn write_leaf(&self, leaf: Arc<Stored<Leaf>>) -> Result<(), WriteError> {
        let expected = leaf.sha256();
        let path = StorePath::parse(&layout::leaf(&expected))?;
        let created = self.store.create(&path, leaf.bytes().clone()).await;
        if matches!(created, Ok(Creation::Created)) {
            return Ok(());
        }
        // INV-296: one that is present is skipped. Its name says what its bytes are, and whether they are is seen here,
        // before a root rests on it. After a failure it may be there as well.
        match (self.store.get(&path).await?, created) {
            (Some(found), _) if Sha256::of(&found.bytes) == expected => Ok(()),
            (Some(found), _) => Err(WriteError::LeafDiffers {
                expected,
                found: Sha256::of(&found.bytes),
            }),
            (None, Err(error)) => Err(error.into()),
            // There a moment ago and gone now: somebody deletes without the lock.
            (None, Ok(_)) => Err(WriteError::LeafDiffers {
                expected,
                found: Sha256::of(&[]),
            }),
        }
    }

    /// INV-148: the compare-and-swap. A failure may have written the root nevertheless, and then it counts.
    async fn create_root(&self, root: &Stored<Root>) -> Result<Creation, WriteError> {
        let path = StorePath::parse(&layout::root(root.seq))?;
        let source = match self.store.create(&path, root.bytes().clone()).await {
            Ok(creation) => return Ok(creation),
            Err(error) => error,
        };
        match self.read_back(&path).await {
            Ok(Some(bytes)) if bytes == root.bytes() => Ok(Creation::Created),
            Ok(Some(_)) => Ok(Creation::Exists),
            Ok(None) => Err(source.into()),
            Err(_) => Err(WriteError::OutcomeUnknown {
                seq: root.seq,
                root_sha256: root.sha256(),
                source,
            }),
        }
    }

    async fn read_back(&self, path: &StorePath) -> Result<Option<Bytes>, StoreError> {
        Ok(self.store.get(path).await?.map(|found| found.bytes))
    }
}
