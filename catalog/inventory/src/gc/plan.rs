//! What may be deleted.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;

use super::{Deletion, GcRefused, Kept, Plan, ProductFiles, StoredFile, Why};
use crate::{
    doc::{
        Catalog, Document as _, EditionId, EntryStatus, FileRoot, History, Instant, Leaf, Manifest, ProductId, Root,
        Seq, Sha256, Stored, Unverified, layout,
    },
    reader::{FullInventory, Head, ReadError, find_head, versions_back_from},
    store::{InventoryStore, StorePath},
    transition::{EditionKey, Retention, Version, directory_is_deletable},
};

/// The dry run: what may be deleted at `now`. Deletes nothing.
///
/// It takes a [`Retention`], and there is none whose windows contradict each other (INV-418, INV-419).
pub async fn plan(
    store: &dyn InventoryStore,
    files: &dyn ProductFiles,
    retention: &Retention,
    now: Instant,
) -> Result<Plan, GcRefused> {
    let head = find_head(store, None).await?.certain()?;
    let window = TimeDelta::from_std(retention.data()).unwrap_or(TimeDelta::MAX);
    let start = now.plus(-window);
    let walked = walk(store, &head, start).await?;
    let version = FullInventory::load(store, head.clone(), None).await?.to_version()?;
    let mut plan = Plan {
        head: head.reference(),
        now,
        oldest: walked.oldest,
        deletions: Vec::new(),
        kept: Vec::new(),
    };
    let mut directories = Vec::new();
    let products = by_product(files.list_files(layout::PRODUCTS).await?);
    for (product_id, files) in &products {
        let judge = Judge {
            store,
            version: &version,
            retention,
            now,
            start,
            seen: &walked.editions,
        };
        judge.product(product_id, files, &mut plan, &mut directories).await?;
    }
    plan.deletions.extend(directories);
    plan.deletions.extend(folded(store, &version, start).await?);
    Ok(plan)
}

/// What the chain says of the window.
struct Walked {
    /// Every edition a version of the window records, or had recorded when it began.
    editions: BTreeSet<EditionKey>,
    oldest: Seq,
}

/// INV-414, INV-415: reads the chain back to the version that was superseded before the window began. It stops at
/// `expired_through`; a missing root above it refuses the run.
async fn walk(store: &dyn InventoryStore, head: &Head, start: Instant) -> Result<Walked, GcRefused> {
    let expired_through = expired_through(store).await?;
    let mut walked = Walked {
        editions: BTreeSet::new(),
        oldest: head.root().seq,
    };
    let mut leaves: BTreeMap<(ProductId, Sha256), Seq> = BTreeMap::new();
    let mut superseded: Option<Instant> = None;
    let missing = versions_back_from(store, head, Seq::FIRST, |root: &Stored<Root>| {
        // Superseded before the window began: nothing it alone records counts any more.
        if superseded.is_some_and(|at| at < start) {
            return false;
        }
        superseded = Some(root.created_at);
        walked.oldest = root.seq;
        match &root.history {
            Some(history) => {
                for item in &history.changes {
                    let recorded = |status| matches!(status, Some(EntryStatus::State(_)));
                    let entries = item
                        .entries
                        .iter()
                        .filter(|entry| recorded(entry.from) || recorded(entry.to));
                    let key = |id: EditionId| EditionKey::new(item.product_id.clone(), id);
                    walked.editions.extend(entries.map(|entry| key(entry.edition_id)));
                }
            }
            // From before the history fields: its leaves say what it records.
            None => leaves.extend(
                root.products
                    .iter()
                    .map(|(product_id, leaf)| ((product_id.clone(), leaf.leaf_sha256), root.seq)),
            ),
        }
        true
    })
    .await?;
    // The missing one was superseded by the last one read; before the window it is no loss.
    let counts = superseded.is_none_or(|at| at >= start);
    if let Some(seq) = missing.filter(|seq| counts && expired_through.is_none_or(|through| *seq > through)) {
        return Err(GcRefused::RootMissing { seq });
    }
    for ((product_id, leaf_sha256), seq) in leaves {
        let found = store.get(&StorePath::parse(&layout::leaf(&leaf_sha256))?).await?;
        let leaf = found.and_then(|found| Stored::<Leaf>::verify(found.bytes, leaf_sha256).ok());
        let Some(leaf) = leaf else {
            return Err(GcRefused::Leaf { seq, product_id });
        };
        let key = |id: EditionId| EditionKey::new(product_id.clone(), id);
        walked
            .editions
            .extend(leaf.editions.iter().map(|entry| key(entry.edition_id)));
    }
    Ok(walked)
}

async fn expired_through(store: &dyn InventoryStore) -> Result<Option<Seq>, GcRefused> {
    let document = |path: &str| {
        let path = path.to_owned();
        move |source| GcRefused::Document { path, source }
    };
    let bytes = store
        .get(&StorePath::parse(layout::CATALOG)?)
        .await?
        .ok_or(ReadError::NoCatalog)?
        .bytes;
    if !Catalog::decode(&bytes)
        .map_err(document(layout::CATALOG))?
        .is_opted_in()
    {
        return Ok(None);
    }
    let bytes = store
        .get(&StorePath::parse(layout::HISTORY)?)
        .await?
        .ok_or(ReadError::HistoryMissing)?
        .bytes;
    Ok(History::decode(&bytes)
        .map_err(document(layout::HISTORY))?
        .expired_through)
}

fn by_product(files: Vec<StoredFile>) -> BTreeMap<ProductId, Vec<StoredFile>> {
    let mut products: BTreeMap<ProductId, Vec<StoredFile>> = BTreeMap::new();
    for file in files {
        let name = file
            .path
            .strip_prefix(layout::PRODUCTS)
            .and_then(|rest| rest.strip_prefix('/'));
        let product_id = name
            .and_then(|rest| rest.split('/').next())
            .and_then(|id| id.parse().ok());
        if let Some(product_id) = product_id {
            products.entry(product_id).or_default().push(file);
        }
    }
    products
}

/// Judges the files of one product.
struct Judge<'a> {
    store: &'a dyn InventoryStore,
    version: &'a Version,
    retention: &'a Retention,
    now: Instant,
    start: Instant,
    seen: &'a BTreeSet<EditionKey>,
}

impl Judge<'_> {
    async fn product(
        &self,
        product_id: &ProductId,
        files: &[StoredFile],
        plan: &mut Plan,
        directories: &mut Vec<Deletion>,
    ) -> Result<(), GcRefused> {
        let mut data = Vec::new();
        let mut editions: BTreeMap<EditionId, Vec<&StoredFile>> = BTreeMap::new();
        let (data_folder, own) = (
            format!("{}/", layout::data(product_id)),
            format!("{}/", layout::product(product_id)),
        );
        for file in files {
            if file.path.starts_with(&data_folder) {
                data.push(file);
            } else if let Some(id) = file.path.strip_prefix(&own).and_then(|rest| rest.split('/').next())
                && let Ok(edition_id) = id.parse()
            {
                editions.entry(edition_id).or_default().push(file);
            }
        }
        let key = |edition_id: EditionId| EditionKey::new(product_id.clone(), edition_id);
        let gone: Vec<EditionId> = editions.keys().copied().filter(|id| self.is_gone(&key(*id))).collect();
        for edition_id in &gone {
            let files = editions.remove(edition_id).unwrap_or_default();
            directories.extend(self.directory(&key(*edition_id), files));
        }
        // Whoever may still list files: what lies there, what the newest version records, what was recorded in the window.
        let mut listing: BTreeSet<EditionKey> = editions.keys().map(|id| key(*id)).collect();
        let recorded = self
            .version
            .leaf(product_id)
            .map(|leaf| leaf.editions.as_slice())
            .unwrap_or_default();
        listing.extend(recorded.iter().map(|entry| key(entry.edition_id)));
        let retired = self
            .version
            .retired()
            .filter(|tombstone| tombstone.product_id == *product_id);
        listing.extend(retired.map(|tombstone| key(tombstone.edition_id)));
        listing.extend(
            self.seen
                .iter()
                .filter(|edition| edition.product_id == *product_id)
                .cloned(),
        );
        let records = files.iter().filter_map(|file| layout::expunged_ids(&file.path));
        let expunged: BTreeSet<EditionId> = records.map(|(_, edition_id)| edition_id).collect();
        let mut listed = BTreeSet::new();
        let mut written_before = self.start;
        let mut kept = Vec::new();
        for edition in listing.into_iter().filter(|edition| !self.is_gone(edition)) {
            match self.manifest(&edition).await? {
                Ok(Some(manifest)) => {
                    let data = manifest.files.iter().filter(|file| file.root == FileRoot::Data);
                    listed.extend(data.map(|file| format!("{data_folder}{}", file.path)));
                }
                // Being built: whatever it will list was written since it was begun.
                Ok(None) if self.version.status(&edition).is_none() && !self.seen.contains(&edition) => {
                    written_before = written_before.min(edition.edition_id.time());
                }
                // INV-412: it was expunged, and lists nothing any more.
                Ok(None) if expunged.contains(&edition.edition_id) => {}
                Ok(None) => kept.push(Kept::ManifestMissing { edition }),
                Err(source) => kept.push(Kept::ManifestInvalid { edition, source }),
            }
        }
        if kept.is_empty() {
            let unlisted = data
                .into_iter()
                .filter(|file| !listed.contains(&file.path) && file.modified < written_before);
            plan.deletions.extend(unlisted.map(|file| Deletion {
                path: file.path.clone(),
                size: file.size,
                why: Why::Unlisted {
                    product_id: product_id.clone(),
                    modified: file.modified,
                },
            }));
        }
        plan.kept.extend(kept);
        Ok(())
    }

    /// INV-411, INV-413: retired longer ago than the backup and the data window.
    fn is_gone(&self, edition: &EditionKey) -> bool {
        self.retired_at(edition)
            .is_some_and(|retired_at| retired_at < self.start)
            && directory_is_deletable(self.version, edition, self.now, self.retention)
    }

    fn retired_at(&self, edition: &EditionKey) -> Option<Instant> {
        let mut retired = self.version.retired();
        let tombstone = retired.find(|t| t.edition_id == edition.edition_id && t.product_id == edition.product_id);
        tombstone.map(|tombstone| tombstone.retired_at)
    }

    /// The files of a directory, the manifest last: without it the directory would be that of an edition being built.
    fn directory(&self, edition: &EditionKey, mut files: Vec<&StoredFile>) -> Vec<Deletion> {
        let manifest = layout::manifest(&edition.product_id, &edition.edition_id);
        files.sort_by_key(|file| (file.path == manifest, file.path.clone()));
        let Some(retired_at) = self.retired_at(edition) else {
            return Vec::new();
        };
        let deletion = |file: &StoredFile| Deletion {
            path: file.path.clone(),
            size: file.size,
            why: Why::Retired {
                edition: edition.clone(),
                retired_at,
            },
        };
        files.into_iter().map(deletion).collect()
    }

    async fn manifest(
        &self,
        edition: &EditionKey,
    ) -> Result<Result<Option<Stored<Manifest>>, crate::doc::DocError>, GcRefused> {
        let path = StorePath::parse(&layout::manifest(&edition.product_id, &edition.edition_id))?;
        let Some(found) = self.store.get(&path).await? else {
            return Ok(Ok(None));
        };
        let manifest = match self.version.entry(edition) {
            Some(entry) => Stored::<Manifest>::verify(found.bytes, entry.manifest_sha256),
            None => Stored::<Manifest, Unverified>::decode(found.bytes).map(Stored::trusted),
        };
        Ok(manifest.map(Some))
    }
}

/// INV-413, INV-448: registrations whose edition has been recorded, as it is now, since before the window.
async fn folded(store: &dyn InventoryStore, version: &Version, start: Instant) -> Result<Vec<Deletion>, GcRefused> {
    let mut deletions = Vec::new();
    for path in store.list(Some(&StorePath::parse(layout::PENDING)?)).await? {
        let Some((product_id, edition_id)) = layout::pending_ids(path.as_str()) else {
            continue;
        };
        let edition = EditionKey::new(product_id, edition_id);
        let changed = version.entry(&edition).map(|entry| entry.state_changed_at);
        let retired = || {
            let mut retired = version.retired();
            let found = retired.find(|t| t.edition_id == edition_id && t.product_id == edition.product_id);
            found.map(|tombstone| tombstone.retired_at)
        };
        let Some(recorded) = changed.or_else(retired).map(|at| at.max(edition_id.time())) else {
            continue;
        };
        if recorded < start {
            let path = path.to_string();
            let why = Why::Folded { edition, recorded };
            deletions.push(Deletion { path, size: 0, why });
        }
    }
    Ok(deletions)
}
