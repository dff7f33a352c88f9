//! The seal journal, and the narrow repair it allows.
//!
//! A seal writes a manifest and then a version; a crash between the two leaves an edition that is sealed and recorded nowhere.
//! Recording every such manifest would bring back editions that were withdrawn and retired (INV-442), so only those are
//! recorded which a journal shows to be this writer's own unfinished work and which no version ever named.

use super::{Base, CommitError, Newest, Outcome, Planned, ReadCatalog, WriteError, Writer};
use crate::{
    doc::{Document as _, EditionId, Journal, Leaf, Manifest, ProductId, Seq, Stored, Unverified, layout},
    reader::{Fetch as _, ReadError, versions_back_from},
    store::{Creation, StorePath},
    transition::{EditionKey, may_repair},
};

/// A sealed edition that no version names.
#[derive(Debug, Clone)]
pub struct Unrecorded {
    /// What its seal wrote down before the manifest.
    pub journal: Journal,
    /// Its manifest.
    pub manifest: Stored<Manifest>,
}

/// What became of one journal entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// A version names the edition already; the entry was left over and is removed.
    AlreadyRecorded(EditionId),
    /// An older version names the edition and the newest doesn't: it was taken out, and is never put back.
    NamedBefore {
        /// The edition.
        edition_id: EditionId,
        /// The newest version that names it.
        seq: Seq,
    },
    /// The edition has been recorded, in this version.
    Recorded {
        /// The edition.
        edition_id: EditionId,
        /// The version.
        seq: Seq,
    },
    /// There is no manifest, so it isn't sealed. Resuming its build uses the entry.
    Unsealed(EditionId),
    /// The decision was to leave it.
    Left(EditionId),
}

impl Writer {
    /// INV-268: writes the journal of a seal that is about to write its manifest. Writing the same one again is no error.
    pub async fn begin_seal(&self, journal: &Journal) -> Result<(), WriteError> {
        let path = StorePath::parse(&layout::journal(&journal.product_id, &journal.edition_id))?;
        let bytes = bytes::Bytes::from(journal.encode()?);
        if self.store.create(&path, bytes).await? == Creation::Created {
            return Ok(());
        }
        let found = self.store.get(&path).await?;
        let same = found
            .and_then(|found| Journal::decode(&found.bytes).ok())
            .is_some_and(|found| {
                // A resumed seal begins later, perhaps with another release time; everything else must be as it was.
                Journal {
                    sealed_at: journal.sealed_at,
                    release_at: journal.release_at,
                    ..found
                } == *journal
            });
        if same {
            return Ok(());
        }
        let (product_id, edition_id) = (journal.product_id.clone(), journal.edition_id);
        Err(WriteError::JournalExists { product_id, edition_id })
    }

    /// INV-34: removes the journal of an edition that has been recorded.
    pub async fn end_seal(&self, product: &ProductId, edition: &EditionId) -> Result<(), WriteError> {
        Ok(self
            .store
            .delete(&StorePath::parse(&layout::journal(product, edition))?)
            .await?)
    }

    /// INV-270, INV-271: records what a seal of this product left unrecorded. Runs when an edition is begun, resumed or
    /// sealed, and never on a read.
    ///
    /// `decide` is what recording means: it is judged like every other commit and may refuse.
    pub async fn repair<E: std::error::Error + 'static>(
        &self,
        product: &ProductId,
        mut decide: impl FnMut(Base<'_>, &Unrecorded) -> Result<Option<Planned>, E> + Send,
    ) -> Result<Vec<Repair>, CommitError<E>> {
        let _lock = self.store.lock().await.map_err(WriteError::from)?;
        let mut repairs = Vec::new();
        for edition in self.journals(product).await? {
            repairs.push(self.repair_one(product, edition, &mut decide).await?);
        }
        Ok(repairs)
    }

    /// The editions that have a journal. Other files beside them are nobody's seal.
    async fn journals(&self, product: &ProductId) -> Result<Vec<EditionId>, WriteError> {
        let folder = StorePath::parse(&format!("{}/journal", layout::product(product)))?;
        let names = self.store.list(Some(&folder)).await?;
        let edition = |path: &StorePath| path.file_name().strip_suffix(".json")?.parse().ok();
        Ok(names.iter().filter_map(edition).collect())
    }

    async fn repair_one<E: std::error::Error + 'static>(
        &self,
        product: &ProductId,
        edition: EditionId,
        decide: &mut (impl FnMut(Base<'_>, &Unrecorded) -> Result<Option<Planned>, E> + Send),
    ) -> Result<Repair, CommitError<E>> {
        let Some(unrecorded) = self.sealed(product, &edition).await? else {
            return Ok(Repair::Unsealed(edition));
        };
        let key = EditionKey::new(product.clone(), edition);
        let ReadCatalog { catalog, .. } = self.catalog().await?;
        let mut newest = self.newest(&catalog).await?;
        if let Some(newest) = &mut newest {
            self.read_leaves(newest, [product.clone()].into()).await?;
            if newest.version.status(&key).is_some() {
                self.end_seal(product, &edition).await?;
                return Ok(Repair::AlreadyRecorded(edition));
            }
            if let Some(seq) = self.last_named(newest, &key).await? {
                return Ok(Repair::NamedBefore {
                    edition_id: edition,
                    seq,
                });
            }
        }
        // What is left to judge is whether the journal and the manifest are of one seal.
        let head = newest.iter().map(|newest| &newest.version);
        may_repair(unrecorded.manifest.value(), Some(&unrecorded.journal), head, []).map_err(WriteError::from)?;
        let outcome = self
            .commit_locked(|base| match base.version.status(&key) {
                Some(_) => Ok(None),
                None => decide(base, &unrecorded),
            })
            .await?;
        match outcome {
            Outcome::Committed(committed) => {
                self.end_seal(product, &edition).await?;
                Ok(Repair::Recorded {
                    edition_id: edition,
                    seq: committed.head.root().seq,
                })
            }
            Outcome::Unchanged(_) => Ok(Repair::Left(edition)),
        }
    }

    /// Reads a journal and the manifest it announced; none before there is a manifest.
    async fn sealed(&self, product: &ProductId, edition: &EditionId) -> Result<Option<Unrecorded>, WriteError> {
        let name = StorePath::parse(&layout::journal(product, edition))?;
        let journal = Journal::decode(&self.store.fetch(&name).await?.unwrap_or_default())?;
        journal.check_path(product, edition)?;
        let name = StorePath::parse(&layout::manifest(product, edition))?;
        let Some(bytes) = self.store.fetch(&name).await? else {
            return Ok(None);
        };
        let manifest = Stored::<Manifest, Unverified>::decode(bytes)?;
        manifest.check_path(product, edition)?;
        // The journal is what vouches for it: this writer announced it, under this name, before it was there.
        Ok(Some(Unrecorded {
            journal,
            manifest: manifest.trusted(),
        }))
    }

    /// The newest stored version that names an edition.
    async fn last_named(&self, newest: &Newest, edition: &EditionKey) -> Result<Option<Seq>, WriteError> {
        let mut named = None;
        let mut leaves = Vec::new();
        versions_back_from(&*self.store, &newest.head, Seq::FIRST, |root| {
            let changed = root.history.iter().flat_map(|history| &history.changes).any(|item| {
                item.product_id == edition.product_id
                    && item.entries.iter().any(|entry| entry.edition_id == edition.edition_id)
            });
            if changed || root.is_retired(&edition.product_id, &edition.edition_id) {
                named = Some(root.seq);
            } else if root.history.is_none()
                && let Some(leaf) = root.products.get(&edition.product_id)
                && leaves.last().is_none_or(|(_, last)| *last != leaf.leaf_sha256)
            {
                // Without a change list only the leaf tells.
                leaves.push((root.seq, leaf.leaf_sha256));
            }
            named.is_none()
        })
        .await?;
        if named.is_some() {
            return Ok(named);
        }
        for (seq, leaf_sha256) in leaves {
            let product_id = edition.product_id.clone();
            let Some(bytes) = self
                .store
                .fetch(&StorePath::parse(&layout::leaf(&leaf_sha256))?)
                .await?
            else {
                return Err(ReadError::LeafMissing {
                    seq,
                    product_id,
                    leaf_sha256,
                }
                .into());
            };
            if Stored::<Leaf>::verify(bytes, leaf_sha256)?
                .entry(&edition.edition_id)
                .is_some()
            {
                return Ok(Some(seq));
            }
        }
        Ok(None)
    }
}
