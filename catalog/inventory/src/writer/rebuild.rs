//! Rebuilding an Inventory from the manifests of its editions.

use std::{collections::BTreeMap, sync::Arc};

use thiserror::Error;

use super::{CommitError, Committed, Outcome, Planned, ReadCatalog, WriteError, Writer};
use crate::{
    doc::{
        Current, Document as _, EditionId, EditionState, Entry, EntryChange, EntryStatus, Event, EventKind,
        FormatVersion, JsonObject, Leaf, LeafRef, Lifecycle, Manifest, ProductId, ProductKind, Root, Seq, Sha256,
        Stored, Unverified, layout,
    },
    reader::Fetch as _,
    store::StorePath,
    transition::{EditionKey, SeenVersion, Version, VersionError, rebuild},
};

/// What nobody can read off a catalogue whose Inventory is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    /// Expired versions say what happened, and only the roots kept beside them say the rest.
    #[error("history segment {0} records expired versions, whose effect no manifest repeats (INV-273)")]
    HistorySegments(String),
    /// The Inventory is there.
    #[error("version {0} and everything it names can be read: there is nothing to rebuild")]
    Readable(Seq),
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
        let mut manifests: Vec<Stored<Manifest>> = Vec::new();
        for path in self.store.list(Some(&StorePath::parse(layout::PRODUCTS)?)).await? {
            manifests.extend(self.manifest_at(&path).await?);
        }
        let states = self.judge_rebuild(&manifests).await?;
        if assurance == Assurance::None {
            return Err(RebuildRefusal::Unassured.into());
        }
        let mut products: BTreeMap<ProductId, Vec<&Stored<Manifest>>> = BTreeMap::new();
        for manifest in &manifests {
            products.entry(manifest.product_id.clone()).or_default().push(manifest);
        }
        let mut leaves = BTreeMap::new();
        for (product, manifests) in products {
            let leaf = Stored::encode(rebuilt_leaf(product, &manifests, &states))?;
            leaves.insert(leaf.sha256(), Arc::new(leaf));
        }
        let outcome = self
            .commit_locked(|base| {
                let next = version_of(&leaves, base.at, &self.identity)?;
                let reason = "rebuilt from the editions' manifests";
                Ok::<_, VersionError>(Some(Planned::new(next, EventKind::Restore, reason)))
            })
            .await;
        match outcome {
            Ok(Outcome::Committed(committed)) => Ok(committed),
            Ok(Outcome::Unchanged(_)) => Err(RebuildRefusal::Unassured.into()),
            Err(CommitError::Write(error)) => Err(error),
            Err(CommitError::Refused(error)) => Err(error.into()),
        }
    }

    /// Looks at everything that is left of the Inventory, and refuses for what it shows.
    async fn judge_rebuild(
        &self,
        manifests: &[Stored<Manifest>],
    ) -> Result<BTreeMap<EditionKey, EditionState>, WriteError> {
        let ReadCatalog { catalog, .. } = self.catalog().await?;
        if let Some(segment) = self
            .store
            .list(Some(&StorePath::parse(layout::SEGMENTS)?))
            .await?
            .first()
        {
            return Err(RebuildRefusal::HistorySegments(segment.to_string()).into());
        }
        let names = self.store.list(Some(&StorePath::parse(layout::INVENTORY)?)).await?;
        let mut seen = Vec::new();
        let mut highest = None;
        for seq in names.iter().filter_map(|path| layout::root_seq(path.as_str())) {
            highest = highest.max(Some(seq));
            let bytes = self
                .store
                .fetch(&StorePath::parse(&layout::root(seq))?)
                .await?
                .unwrap_or_default();
            // One that can't be read is as good as missing.
            if let Ok(root) = Root::decode(&bytes) {
                seen.push(seen_in(seq, &root));
            }
        }
        let newest_root = highest;
        if let Some(bytes) = self.store.fetch(&StorePath::parse(layout::CURRENT)?).await? {
            // Whatever it names, there were versions from 1 on.
            let named = Current::decode(&bytes).map_or(Seq::FIRST, |current| current.root.seq);
            highest = highest.max(Some(named));
        }
        let values: Vec<_> = manifests.iter().map(Stored::value).collect();
        let states = rebuild(&values, &seen, highest)?;
        if let Some(seq) = newest_root {
            return Err(match self.newest_whole(&catalog).await {
                Ok(_) => RebuildRefusal::Readable(seq).into(),
                Err(error) => RebuildRefusal::Unreadable {
                    seq,
                    why: error.to_string(),
                }
                .into(),
            });
        }
        for leaf_sha256 in names.iter().filter_map(|path| layout::leaf_sha256(path.as_str())) {
            let bytes = self
                .store
                .fetch(&StorePath::parse(&layout::leaf(&leaf_sha256))?)
                .await?
                .unwrap_or_default();
            refuse_withheld(leaf_sha256, Stored::<Leaf>::verify(bytes, leaf_sha256)?.value())?;
        }
        Ok(states)
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

/// What a root shows by itself. A withheld entry of a version with history fields stands in its change list or in that of a
/// version before it.
fn seen_in(seq: Seq, root: &Root) -> SeenVersion {
    let mut states = root
        .history
        .iter()
        .flat_map(|history| &history.changes)
        .flat_map(|item| &item.entries);
    let hidden = |entry: &EntryChange| {
        let state = entry.to.and_then(EntryStatus::state);
        matches!(state, Some(EditionState::Embargoed | EditionState::Withdrawn))
    };
    SeenVersion {
        seq,
        kind: root.event.kind.clone(),
        embargo: root.embargo,
        has_tombstones: !root.retired.is_empty(),
        has_hidden_entries: states.any(hidden),
    }
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

/// One product's leaf, in the states its editions were judged to have.
fn rebuilt_leaf(
    product_id: ProductId,
    manifests: &[&Stored<Manifest>],
    states: &BTreeMap<EditionKey, EditionState>,
) -> Leaf {
    let mut editions: Vec<_> = manifests
        .iter()
        .map(|manifest| {
            let successor = manifests
                .iter()
                .find(|other| other.previous == Some(manifest.edition_id));
            let key = EditionKey::new(product_id.clone(), manifest.edition_id);
            Entry {
                edition_id: manifest.edition_id,
                previous: manifest.previous,
                // Every edition was judged; one that wasn't is not published.
                state: states.get(&key).copied().unwrap_or(EditionState::Withdrawn),
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
    Leaf {
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
    }
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
