//! Rebuilding an Inventory from the manifests of its editions.

use std::{collections::BTreeMap, sync::Arc};

use thiserror::Error;

use super::{CommitError, Committed, Outcome, Planned, ReadCatalog, WriteError, Writer};
use crate::{
    doc::{
        Current, Document as _, EditionId, EditionState, Entry, Event, EventKind, FormatVersion, JsonObject, Leaf,
        LeafRef, Lifecycle, Manifest, ProductId, ProductKind, Root, Seq, Sha256, Stored, Unverified, layout,
    },
    reader::Fetch as _,
    store::StorePath,
    transition::{Version, VersionError},
};

/// What nobody can read off a catalogue whose Inventory is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assurance {
    /// Nothing is vouched for.
    None,
    /// The operator states that nothing was ever rolled back, withdrawn or retired, and that no embargo was on: every sealed
    /// edition may be public.
    NothingEverWithheld,
}

/// INV-273: why a catalogue is not rebuilt. No manifest says that its edition was withdrawn or is under embargo, so a rebuild
/// that guessed would publish it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RebuildRefusal {
    /// Versions are gone.
    #[error(
        "version {0} and perhaps more is missing, and could have been a rollback: restore it from a backup (INV-273)"
    )]
    HistoryMissing(Seq),
    /// Expired versions say what happened, and only the roots kept beside them say the rest.
    #[error("history segment {0} records expired versions, whose effect no manifest repeats (INV-273)")]
    HistorySegments(String),
    /// Two manifests were built from one edition.
    #[error(
        "product {product_id}: editions {first} and {second} are both built from {previous:?}: which one is live? (INV-273)"
    )]
    Fork {
        /// The product.
        product_id: ProductId,
        /// What both were built from.
        previous: Option<EditionId>,
        /// One.
        first: EditionId,
        /// The other.
        second: EditionId,
    },
    /// The Inventory is there.
    #[error("version {0} and everything it names can be read: there is nothing to rebuild")]
    Readable(Seq),
    /// Something was withheld once.
    #[error("version {seq} is of kind {kind}: no manifest records that, so a rebuild would undo it (INV-273)")]
    RolledBack {
        /// The version.
        seq: Seq,
        /// Its kind.
        kind: EventKind,
    },
    /// A leaf shows that something was withheld.
    #[error(
        "leaf {leaf_sha256} has edition {edition_id} of product {product_id} as {state}: a rebuild would publish it (INV-273)"
    )]
    Withheld {
        /// The leaf.
        leaf_sha256: Sha256,
        /// The product.
        product_id: ProductId,
        /// The edition.
        edition_id: EditionId,
        /// Its state.
        state: EditionState,
    },
    /// Nobody says that nothing was withheld.
    #[error(
        "no version is left to show whether anything was rolled back, withdrawn or under embargo: the operator has to state \
         that nothing was (INV-273)"
    )]
    Unassured,
    /// An edition is missing in a product's chain.
    #[error(
        "product {product_id}: edition {edition_id} was built from {previous}, whose manifest is missing (INV-235)"
    )]
    PreviousMissing {
        /// The product.
        product_id: ProductId,
        /// The later edition.
        edition_id: EditionId,
        /// The missing one.
        previous: EditionId,
    },
    /// Versions are there but not all of it can be read.
    #[error("version {seq} is there and something it needs is not: {why}; restore that from a backup")]
    Unreadable {
        /// The newest version stored.
        seq: Seq,
        /// What is wrong.
        why: String,
    },
}

impl Writer {
    /// INV-273: makes version 1 of a catalogue whose Inventory is gone, from the manifests of its editions. The newest edition of
    /// each product is live, the others are superseded.
    ///
    /// Only for a catalogue that was never rolled back: whatever is left that shows otherwise, or that versions are missing, is
    /// named in the refusal.
    pub async fn rebuild(&self, assurance: Assurance) -> Result<Committed, WriteError> {
        let _lock = self.store.lock().await?;
        let ReadCatalog { .. } = self.catalog().await?;
        self.refuse_with_history().await?;
        if assurance == Assurance::None {
            return Err(RebuildRefusal::Unassured.into());
        }
        let mut products: BTreeMap<ProductId, Vec<Stored<Manifest>>> = BTreeMap::new();
        for path in self.store.list(Some(&StorePath::parse(layout::PRODUCTS)?)).await? {
            if let Some(manifest) = self.manifest_at(&path).await? {
                products.entry(manifest.product_id.clone()).or_default().push(manifest);
            }
        }
        let mut leaves = BTreeMap::new();
        for (product, manifests) in products {
            let leaf = Stored::encode(rebuilt_leaf(product, &manifests)?)?;
            leaves.insert(leaf.sha256(), Arc::new(leaf));
        }
        let outcome = self
            .commit_locked(|base| {
                let next = version_of(&leaves, base.at, &self.identity)?;
                Ok::<_, VersionError>(Some(Planned::new(
                    next,
                    EventKind::Restore,
                    "rebuilt from the editions' manifests",
                )))
            })
            .await;
        match outcome {
            Ok(Outcome::Committed(committed)) => Ok(committed),
            Ok(Outcome::Unchanged(_)) => Err(RebuildRefusal::Unassured.into()),
            Err(CommitError::Write(error)) => Err(error),
            Err(CommitError::Refused(error)) => Err(error.into()),
        }
    }

    /// Refuses when anything of the Inventory is left, and says what it shows.
    async fn refuse_with_history(&self) -> Result<(), WriteError> {
        if let Some(segment) = self
            .store
            .list(Some(&StorePath::parse(layout::SEGMENTS)?))
            .await?
            .first()
        {
            return Err(RebuildRefusal::HistorySegments(segment.to_string()).into());
        }
        let names = self.store.list(Some(&StorePath::parse(layout::INVENTORY)?)).await?;
        let mut expected = Some(Seq::FIRST);
        let mut newest = None;
        for seq in names.iter().filter_map(|path| layout::root_seq(path.as_str())) {
            if let Some(missing) = expected.filter(|expected| *expected != seq) {
                return Err(RebuildRefusal::HistoryMissing(missing).into());
            }
            let bytes = self
                .store
                .fetch(&StorePath::parse(&layout::root(seq))?)
                .await?
                .unwrap_or_default();
            match Root::decode(&bytes) {
                Ok(root) => refuse_rollback(&root)?,
                Err(error) => {
                    return Err(RebuildRefusal::Unreadable {
                        seq,
                        why: error.to_string(),
                    }
                    .into());
                }
            }
            newest = Some(seq);
            expected = seq.next();
        }
        if let Some(seq) = newest {
            let ReadCatalog { catalog, .. } = self.catalog().await?;
            return Err(match self.newest(&catalog).await {
                Ok(_) => RebuildRefusal::Readable(seq).into(),
                Err(error) => RebuildRefusal::Unreadable {
                    seq,
                    why: error.to_string(),
                }
                .into(),
            });
        }
        if let Some(bytes) = self.store.fetch(&StorePath::parse(layout::CURRENT)?).await? {
            // Whatever it names, there were versions from 1 on.
            let named = Current::decode(&bytes).map_or(Seq::FIRST, |current| current.root.seq);
            return Err(RebuildRefusal::HistoryMissing(named).into());
        }
        for leaf_sha256 in names.iter().filter_map(|path| layout::leaf_sha256(path.as_str())) {
            let bytes = self
                .store
                .fetch(&StorePath::parse(&layout::leaf(&leaf_sha256))?)
                .await?
                .unwrap_or_default();
            refuse_withheld(leaf_sha256, Stored::<Leaf>::verify(bytes, leaf_sha256)?.value())?;
        }
        Ok(())
    }

    async fn manifest_at(&self, path: &StorePath) -> Result<Option<Stored<Manifest>>, WriteError> {
        let mut parts = path.as_str().split('/').skip(1);
        let (Some(product), Some(edition), Some(layout::MANIFEST), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Ok(None);
        };
        let (Ok(product), Ok(edition)) = (product.parse::<ProductId>(), edition.parse::<EditionId>()) else {
            return Ok(None);
        };
        let Some(bytes) = self.store.fetch(path).await? else {
            return Ok(None);
        };
        let manifest = Stored::<Manifest, Unverified>::decode(bytes)?;
        manifest.check_path(&product, &edition)?;
        // What named it by its hash is gone: the operator vouches for it, as for everything a rebuild takes.
        Ok(Some(manifest.trusted()))
    }
}

fn refuse_rollback(root: &Root) -> Result<(), RebuildRefusal> {
    let withholds = matches!(
        root.event.kind,
        EventKind::Rollback
            | EventKind::Withdraw
            | EventKind::Retire
            | EventKind::Reinstate
            | EventKind::Restore
            | EventKind::Correct
            | EventKind::Other(_)
    );
    if withholds {
        return Err(RebuildRefusal::RolledBack {
            seq: root.seq,
            kind: root.event.kind.clone(),
        });
    }
    Ok(())
}

fn refuse_withheld(leaf_sha256: Sha256, leaf: &Leaf) -> Result<(), RebuildRefusal> {
    let withheld = |entry: &&Entry| matches!(entry.state, EditionState::Embargoed | EditionState::Withdrawn);
    match leaf.editions.iter().find(withheld) {
        Some(entry) => Err(RebuildRefusal::Withheld {
            leaf_sha256,
            product_id: leaf.product_id.clone(),
            edition_id: entry.edition_id,
            state: entry.state,
        }),
        None => Ok(()),
    }
}

/// One product's leaf: its editions must be one chain, whose end is live.
fn rebuilt_leaf(product_id: ProductId, manifests: &[Stored<Manifest>]) -> Result<Leaf, RebuildRefusal> {
    let mut next: BTreeMap<Option<EditionId>, &Stored<Manifest>> = BTreeMap::new();
    for manifest in manifests {
        if let Some(other) = next.insert(manifest.previous, manifest) {
            let (first, second) = (
                other.edition_id.min(manifest.edition_id),
                other.edition_id.max(manifest.edition_id),
            );
            return Err(RebuildRefusal::Fork {
                product_id,
                previous: manifest.previous,
                first,
                second,
            });
        }
        if let Some(previous) = manifest.previous
            && !manifests.iter().any(|other| other.edition_id == previous)
        {
            return Err(RebuildRefusal::PreviousMissing {
                product_id,
                edition_id: manifest.edition_id,
                previous,
            });
        }
    }
    let mut editions: Vec<_> = manifests
        .iter()
        .map(|manifest| {
            let successor = next.get(&Some(manifest.edition_id));
            Entry {
                edition_id: manifest.edition_id,
                previous: manifest.previous,
                state: if successor.is_some() {
                    EditionState::Superseded
                } else {
                    EditionState::Live
                },
                manifest_sha256: manifest.sha256(),
                schema_version: manifest.schema_version.clone(),
                // The nearest thing to it that is written down: when it, or what replaced it, was sealed.
                state_changed_at: successor.map_or(manifest.created_at, |successor| successor.created_at),
                release_at: None,
                structure_source: None,
                artefacts: Some(manifest.artefact_fingerprints()),
                routing: Some(manifest.routing()),
                extra: JsonObject::new(),
            }
        })
        .collect();
    editions.sort_by_key(|entry| entry.edition_id);
    let structure = manifests.iter().all(|manifest| manifest.is_structure());
    Ok(Leaf {
        format_version: FormatVersion::INVENTORY,
        product_id,
        kind: if structure {
            ProductKind::Structure
        } else {
            ProductKind::Data
        },
        // No manifest says `final`; a revisable product can be made final again.
        lifecycle: Lifecycle::Revisable,
        editions,
        extra: JsonObject::new(),
    })
}

/// The version that holds these leaves and nothing else.
fn version_of(
    leaves: &BTreeMap<Sha256, Arc<Stored<Leaf>>>,
    at: crate::doc::Instant,
    identity: &super::Identity,
) -> Result<Version, VersionError> {
    let products = leaves
        .values()
        .map(|leaf| {
            (
                leaf.product_id.clone(),
                LeafRef {
                    leaf_sha256: leaf.sha256(),
                },
            )
        })
        .collect();
    let root = Root {
        format_version: FormatVersion::INVENTORY,
        seq: Seq::FIRST,
        previous_inventory: None,
        restore_epoch: crate::doc::Epoch::FIRST,
        created_at: at,
        producer: identity.producer.clone(),
        embargo: false,
        products,
        retired: Vec::new(),
        event: Event {
            actor: identity.actor.clone(),
            reason: String::new(),
            kind: EventKind::Restore,
        },
        extensions: JsonObject::new(),
        history: None,
        extra: JsonObject::new(),
    };
    Version::of(&root, |leaf| leaves.get(&leaf).cloned())
}
