//! The live-only export: a chain of its own of what the public may see.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
};

use chrono::TimeDelta;

use super::{
    ExportError, FileTransfer, Transferred,
    full::{catalog, immutable, read},
};
use crate::{
    authority::Authority,
    doc::{
        CatalogId, EditionState, EventKind, FileRoot, FormatVersion, Instant, JsonObject, Leaf, LeafRef, Manifest,
        ProductId, Root, Seq, Sha256, Stored, Unverified, layout,
    },
    reader::{FullInventory, Invalid, ReadError, find_head, versions_back_from},
    section,
    store::{InventoryStore, StorePath},
    transition::{EditionKey, Version},
    verify::{EditionFile, LIVE_ONLY, Loaded, is_live_only, load, root_at},
    writer::{Clock, CommitError, Identity, NewCatalog, Outcome, Planned, WriteError, Writer},
};

/// How a live-only export is made.
#[derive(Debug, Clone)]
pub struct LiveExport {
    /// The id of the new chain; ignored when a live-only export is there already, which keeps its own.
    pub catalog_id: CatalogId,
    /// Who exports. The actors of the catalogue are not copied: they may be names of people (INV-391).
    pub identity: Identity,
    /// The root's extension sections that may be public; no other is copied.
    pub sections: BTreeSet<String>,
    /// Who founds the new chain, for nodes that follow it; none for a copy nobody follows by signatures.
    pub authority: Option<Authority>,
    /// Who writes the next version, once the catalogue was handed over.
    pub handed_to: Option<Authority>,
}

/// What a live-only export wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveCopy {
    /// Versions.
    pub versions: u64,
    /// Editions live now.
    pub editions: u64,
    /// Files copied.
    pub files: u64,
    /// Files that were there already.
    pub files_present: u64,
}

/// INV-132, INV-213, INV-214, INV-390: writes the versions in which something entered or left live, as a chain of its own, and
/// the files of the editions that are live now.
///
/// Each version is dated as the one it stands for. What is not copied: reasons and actors, fields this build does not know,
/// release times, tombstones, versions in which nothing public happened, and how many of those there were. Where a live-only
/// export is there already, one version brings it up to the newest one.
pub async fn export_live(
    from: &dyn InventoryStore,
    to: Arc<dyn InventoryStore>,
    files: &dyn FileTransfer,
    export: &LiveExport,
) -> Result<LiveCopy, ExportError> {
    let source = catalog(from).await?.ok_or(ReadError::NoCatalog)?;
    let there = catalog(&*to).await?;
    match &there {
        Some(there) if !is_live_only(there) => {
            return Err(ExportError::NotLiveOnly {
                found: there.catalog_id,
            });
        }
        None if export.catalog_id == source.catalog_id => return Err(ExportError::SameId(source.catalog_id)),
        _ => {}
    }
    let head = find_head(from, None).await?.certain()?;
    let mut copy = LiveCopy::default();
    let newest = FullInventory::load(from, head.clone(), None).await?;
    let first = match there {
        // An update stands for everything since the last one.
        Some(_) => head.root().seq,
        None => oldest(from, &head).await?,
    };
    let mut chain = LiveChain {
        to,
        export,
        writer: None,
        clock: Arc::new(SourceClock(Mutex::new(head.root().created_at))),
        exists: there.is_some(),
        leaves: BTreeMap::new(),
    };
    // The empty first version before anything else: a catalogue is not made among files that are there already (INV-30). Until
    // the files are copied, readers find a catalogue that shows nothing.
    let begun = root(from, first).await?.created_at;
    let target = Arc::clone(chain.writer(begun).await?.store());
    live_files(from, &*target, files, &newest, &mut copy).await?;
    let mut older: Option<Loaded> = None;
    let mut next = Some(first);
    while let Some(seq) = next.filter(|seq| *seq <= head.root().seq) {
        let root = root(from, seq).await?;
        follows(older.as_ref(), &root)?;
        let mut bad = false;
        let loaded = load(from, root, older.as_ref(), &mut |_, _| bad = true).await?;
        if bad && let Some((product_id, leaf_sha256)) = loaded.bad.iter().next() {
            let (product_id, leaf_sha256) = (product_id.clone(), *leaf_sha256);
            return Err(ExportError::Leaf {
                seq,
                product_id,
                leaf_sha256,
            });
        }
        copy.versions += u64::from(chain.version(&loaded).await?);
        older = Some(loaded);
        next = seq.next();
    }
    // The hashes were followed forward; here they end at the head that was verified.
    match older {
        Some(last) if last.root.sha256() == head.root().sha256() => Ok(copy),
        _ => Err(chain_error(head.root().seq, Invalid::Unlinked)),
    }
}

async fn root(from: &dyn InventoryStore, seq: Seq) -> Result<Stored<Root, Unverified>, ExportError> {
    match root_at(from, seq).await? {
        Some(Ok(root)) => Ok(root),
        Some(Err(error)) => Err(chain_error(seq, Invalid::Document(error))),
        None => Err(chain_error(seq, Invalid::Absent)),
    }
}

fn chain_error(seq: Seq, why: Invalid) -> ExportError {
    ReadError::Chain { seq, why }.into()
}

/// INV-161: a version follows the one before it.
fn follows(older: Option<&Loaded>, root: &Stored<Root, Unverified>) -> Result<(), ExportError> {
    let (Some(older), Some(history)) = (older, &root.history) else {
        return Ok(());
    };
    let base = older.root.sha256();
    match history.previous_root_sha256 {
        Some(named) if named == base => Ok(()),
        names => Err(chain_error(root.seq, Invalid::Link { names, base })),
    }
}

/// The first version the chain still reaches.
async fn oldest(from: &dyn InventoryStore, head: &crate::reader::Head) -> Result<Seq, ExportError> {
    let mut oldest = head.root().seq;
    versions_back_from(from, head, Seq::FIRST, |root| {
        oldest = root.seq;
        true
    })
    .await?;
    Ok(oldest)
}

/// INV-394, INV-417: data files, edition files, then manifests, of the editions live now.
async fn live_files(
    from: &dyn InventoryStore,
    to: &dyn InventoryStore,
    files: &dyn FileTransfer,
    newest: &FullInventory,
    copy: &mut LiveCopy,
) -> Result<(), ExportError> {
    for root in [FileRoot::Data, FileRoot::Edition] {
        for (product_id, leaf) in newest.leaves() {
            for entry in leaf.editions.iter().filter(|entry| entry.state == EditionState::Live) {
                let edition = EditionKey::new(product_id.clone(), entry.edition_id);
                let path = StorePath::parse(&layout::manifest(product_id, &entry.edition_id))?;
                let Some(bytes) = read(from, path.as_str()).await? else {
                    return Err(ExportError::ManifestMissing { edition });
                };
                let manifest = Stored::<Manifest>::verify(bytes, entry.manifest_sha256).map_err(|source| {
                    ExportError::Document {
                        path: path.to_string(),
                        source,
                    }
                })?;
                for entry in manifest.files.iter().filter(|file| file.root == root) {
                    let file = EditionFile {
                        product_id,
                        edition_id: &edition.edition_id,
                        entry,
                    };
                    match files.transfer(&file).await? {
                        Transferred::Copied => copy.files += 1,
                        Transferred::Present => copy.files_present += 1,
                        Transferred::Missing => {
                            let path = file.path();
                            return Err(ExportError::FileMissing { edition, path });
                        }
                    }
                }
                if root == FileRoot::Edition {
                    immutable(to, &path, manifest.bytes().clone()).await?;
                    copy.editions += 1;
                }
            }
        }
    }
    Ok(())
}

/// Dates the versions of the export as those they stand for.
struct SourceClock(Mutex<Instant>);

impl Clock for SourceClock {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SourceClock {
    fn set(&self, at: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }
}

/// The chain being written.
struct LiveChain<'a> {
    to: Arc<dyn InventoryStore>,
    export: &'a LiveExport,
    writer: Option<Writer>,
    clock: Arc<SourceClock>,
    exists: bool,
    /// The live part of each product's leaf, under the hash of the whole one.
    leaves: BTreeMap<ProductId, (Sha256, LivePart)>,
}

/// A leaf with its live edition only; nothing where none is live.
type LivePart = Option<Arc<Stored<Leaf>>>;

impl LiveChain<'_> {
    /// Writes the version that stands for one of the catalogue, if anything live differs; says whether it did.
    async fn version(&mut self, source: &Loaded) -> Result<bool, ExportError> {
        let next = self.live_part(source)?;
        let mut extensions = JsonObject::new();
        for (name, section) in source.root.extensions.iter() {
            if self.export.sections.contains(name) {
                extensions.insert(name, section.clone());
            }
        }
        if let Some(authority) = &self.export.handed_to {
            authority.name_in(&mut extensions);
        }
        let kind = public_kind(&source.root.event.kind);
        let writer = self.writer(source.root.created_at).await?;
        self.clock.set(source.root.created_at);
        let decide = |base: crate::writer::Base<'_>| {
            let same_products = base.version.products() == next.products();
            let same_sections = base.root.is_none_or(|root| root.extensions == extensions);
            let planned = || {
                // What is public of a version that changes no product is a section of it.
                let kind = if same_products {
                    EventKind::Describe
                } else {
                    kind.clone()
                };
                let mut planned = Planned::new(next.clone(), kind, "");
                planned.extensions = Some(extensions.clone());
                planned
            };
            Ok::<_, Infallible>((!same_products || !same_sections).then(planned))
        };
        match writer.commit(decide).await {
            Ok(Outcome::Committed(committed)) => {
                committed.current?;
                Ok(true)
            }
            Ok(Outcome::Unchanged(_)) => Ok(false),
            Err(CommitError::Refused(never)) => match never {},
            Err(CommitError::Write(error)) => Err(error.into()),
        }
    }

    async fn writer(&mut self, at: Instant) -> Result<Writer, WriteError> {
        if let Some(writer) = &self.writer {
            return Ok(writer.clone());
        }
        let identity = self.export.identity.clone();
        let writer = if self.exists {
            Writer::new(Arc::clone(&self.to), identity, self.clock.clone())
        } else {
            let mut extensions = JsonObject::new();
            section::change(&mut extensions, |section| section.insert(LIVE_ONLY, true));
            if let Some(authority) = &self.export.authority {
                authority.name_in(&mut extensions);
            }
            // The empty first version stands before everything, so the next one can have its own time.
            self.clock.set(at.plus(TimeDelta::milliseconds(-1)));
            let new = NewCatalog {
                catalog_id: self.export.catalog_id,
                embargo: false,
                extensions,
                reason: String::new(),
            };
            Writer::create(Arc::clone(&self.to), identity, self.clock.clone(), new)
                .await?
                .0
        };
        self.writer = Some(writer.clone());
        Ok(writer)
    }

    /// A version with its live entries alone, and of those only what is public.
    fn live_part(&mut self, source: &Loaded) -> Result<Version, ExportError> {
        let mut root = source.root.value().clone();
        root.products.clear();
        root.retired.clear();
        root.embargo = false;
        self.leaves
            .retain(|product_id, _| source.leaves.contains_key(product_id));
        let mut by_hash = BTreeMap::new();
        for (product_id, leaf) in &source.leaves {
            let known = self.leaves.get(product_id).filter(|(of, _)| *of == leaf.sha256());
            let live = match known {
                Some((_, live)) => live.clone(),
                None => {
                    let live = live_leaf(leaf)?;
                    self.leaves.insert(product_id.clone(), (leaf.sha256(), live.clone()));
                    live
                }
            };
            if let Some(live) = live {
                let leaf_sha256 = live.sha256();
                root.products.insert(product_id.clone(), LeafRef { leaf_sha256 });
                by_hash.insert(leaf_sha256, live);
            }
        }
        Ok(Version::of(&root, |leaf| by_hash.get(&leaf).cloned())?)
    }
}

/// The live entries of a leaf; none for a product without any.
fn live_leaf(leaf: &Leaf) -> Result<Option<Arc<Stored<Leaf>>>, ExportError> {
    let mut live = Leaf {
        format_version: FormatVersion::INVENTORY,
        extra: JsonObject::new(),
        ..leaf.clone()
    };
    live.editions.retain(|entry| entry.state == EditionState::Live);
    for entry in &mut live.editions {
        entry.extra = JsonObject::new();
    }
    if live.editions.is_empty() {
        return Ok(None);
    }
    let path = format!("the live leaf of product {}", leaf.product_id);
    let stored = Stored::encode(live).map_err(|source| ExportError::Document { path, source })?;
    Ok(Some(Arc::new(stored)))
}

/// The kind a version of the export is recorded under. A restore of the catalogue is none of the export, and a kind this build
/// does not know is one no writer may record.
fn public_kind(kind: &EventKind) -> EventKind {
    match kind {
        EventKind::Restore | EventKind::Other(_) => EventKind::Correct,
        // These change no entry; what differs came with versions that are not told apart any more.
        EventKind::Describe | EventKind::EmbargoChange => EventKind::Release,
        kind => kind.clone(),
    }
}
