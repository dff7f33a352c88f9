//! Taking over the versions that a catalogue's authority announced (DESIGN §10).
//!
//! A reader goes on from the version it holds, one at a time, and takes the next one over only when all of it is here: the
//! statement, the bundle with its documents, each verified by the hash that another one names, and the keys of every data file
//! of an edition that it brings. Then one transaction makes it the newest. Before that it is *releasing*: readers see the version
//! before it, whole, and are told that another is on its way.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use futures::FutureExt as _;
use sovm_catalog::{DocumentRole, DocumentStore, Read as _};
use sovm_inventory::{
    authority::{self, Authority, Fork, Held, Next, Statement},
    doc::{
        Catalog, CatalogId, Current, Document as _, EditionState, Entry, FileRoot, Leaf, Manifest, ProductId, Root,
        RootRef, Seq, Sha256, Stored, layout,
    },
    reader::find_head,
};
use sovm_object::{
    bundle::Bundle,
    id::{DomainId, StorageId},
    record::InventoryVersion,
};

use super::{
    super::core::Core,
    announce::reference,
    chains::{Chain, new_store},
    data::{pointed_at, pointer_path},
    store::NodeStore,
};
use crate::error::{ApiError, ErrorKind};

/// How far a reader is with a catalogue it follows.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Versions taken over now.
    pub(super) taken: u64,
    /// The version that is announced and not all here yet, and what it lacks.
    pub(super) releasing: Option<(Seq, String)>,
    /// One number stands for two versions.
    pub(super) fork: Option<Fork>,
}

/// The longest bundle that is read, or made: it is in memory whole.
pub(super) const MAX_BUNDLE_BYTES: u64 = 256 << 20;

/// Why a version, or an edition that a publisher registered, is not taken over.
pub(super) enum Untaken {
    /// Part of it is on its way.
    Waits(String),
    /// It is not what its statement says it is; its authority erred or lies.
    Wrong(String),
    Failed(ApiError),
}

impl<E: Into<ApiError>> From<E> for Untaken {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Core {
    /// Goes as far as it can with every catalogue announced in a domain of this node.
    pub(super) async fn follow_all(self: &Arc<Self>) -> Result<Vec<(CatalogId, Progress)>, ApiError> {
        let mut followed = Vec::new();
        for (domain, catalog) in self.read()?.inventory_catalogs()? {
            // Ids that no catalogue can have are nobody's.
            let Some(catalog) = CatalogId::from_bytes(catalog) else {
                continue;
            };
            // One catalogue that cannot be followed must not stop the others, nor queries.
            let progress = match self.follow(&domain, catalog).boxed().await {
                Ok(progress) => progress,
                Err(error) => {
                    tracing::warn!(%catalog, kind = ?error.kind, "a catalogue could not be followed");
                    Progress::default()
                }
            };
            followed.push((catalog, progress));
        }
        Ok(followed)
    }

    /// Goes as far as it can with one catalogue. One that this node writes has nothing to follow, but may have a fork.
    async fn follow(self: &Arc<Self>, domain: &DomainId, catalog: CatalogId) -> Result<Progress, ApiError> {
        let documents = self
            .documents_of(&catalog)?
            .unwrap_or_else(|| new_store(DocumentRole::Replica, &catalog));
        let lock = self.stores.of(&documents);
        let _held = lock.lock().await;
        let (mut chain, mut held) = self.position(documents).boxed().await?;
        // What was said of versions before the one held decides nothing any more.
        let from = held.as_ref().map_or((0, 0), |held| place(&held.version));
        let accepted = self.accepted_versions(domain, &catalog, from)?;
        let statements: Vec<Statement> = accepted.iter().filter_map(statement_of).collect();
        let mut progress = Progress::default();
        loop {
            let (statement, onto, switches) = match authority::next(held.as_ref(), &statements) {
                Next::Nothing => return Ok(progress),
                Next::Halted(fork) => {
                    progress.fork = Some(fork);
                    return Ok(progress);
                }
                Next::Follow(statement) => (statement, held.map(|held| held.version), false),
                // The version held is given up, with all before it back to one that both were built on.
                Next::Switch(statement) => (statement, None, true),
            };
            if switches && chain.as_ref().is_some_and(|chain| chain.is_ours(self)) {
                // What this node wrote is here; somebody with its key wrote something else. Versions after the one here are
                // followed by their own author, too: a home that was restored from an older copy lacks them.
                return Ok(progress);
            }
            let version = accepted
                .iter()
                .find(|version| reference(version) == Some(statement.version) && by(version) == statement.by);
            let Some(version) = version else {
                return Err(ApiError::bug("a statement without its entry"));
            };
            let all = match switches {
                true => self.accepted_versions(domain, &catalog, (0, 0))?,
                false => Vec::new(),
            };
            let taken = match line_to(version, &all, &self.node_store(documents), switches) {
                Ok(line) => self.take_over(domain, documents, &line, onto).boxed().await,
                Err(untaken) => Err(untaken),
            };
            match taken {
                Ok(()) => progress.taken += 1,
                Err(Untaken::Waits(why) | Untaken::Wrong(why)) => {
                    progress.releasing = Some((statement.version.seq, why));
                    return Ok(progress);
                }
                Err(Untaken::Failed(error)) => return Err(error),
            }
            (chain, held) = self.position(documents).boxed().await?;
        }
    }

    /// Accepted statements about a catalogue's versions, from a place on.
    fn accepted_versions(
        &self,
        domain: &DomainId,
        catalog: &CatalogId,
        from: (u64, u64),
    ) -> Result<Vec<InventoryVersion>, ApiError> {
        let versions = self.read()?.inventory_versions(domain, catalog.as_bytes(), from)?;
        let accepted = versions.into_iter().filter(|(_, _, state)| state.is_accepted());
        Ok(accepted.map(|(_, version, _)| version).collect())
    }

    /// The chain in a store, and the version it is at.
    async fn position(self: &Arc<Self>, documents: DocumentStore) -> Result<(Option<Chain>, Option<Held>), ApiError> {
        let chain = self.chain(documents).boxed().await?;
        let held = match &chain {
            Some(chain) => self.held(chain).await?,
            None => None,
        };
        Ok((chain, held))
    }

    async fn held(self: &Arc<Self>, chain: &Chain) -> Result<Option<Held>, ApiError> {
        let Some(authority) = chain.authority else {
            return Ok(None);
        };
        let found = find_head(&self.node_store(chain.documents), None).await;
        Ok(found.ok().map(|refresh| Held {
            version: refresh.head.reference(),
            authority,
        }))
    }

    /// Verifies versions that follow one another and makes the last of them the newest here, in one transaction.
    async fn take_over(
        self: &Arc<Self>,
        domain: &DomainId,
        documents: DocumentStore,
        line: &[&InventoryVersion],
        onto: Option<RootRef>,
    ) -> Result<(), Untaken> {
        let mut bundle = Bundle::default();
        for version in line {
            for (name, bytes) in self.read_bundle(version.bundle).await?.iter() {
                bundle.insert(name, bytes.clone());
            }
        }
        let store = self.node_store(documents);
        let mut taking = Taking {
            bundle: &bundle,
            store: &store,
            put: Vec::new(),
            data: BTreeSet::new(),
        };
        let mut newest = None;
        for version in line {
            let root = taking.root(version)?;
            match onto {
                Some(onto) if onto.root_sha256.as_bytes() != &version.previous.unwrap_or_default() => {
                    return Err(Untaken::Wrong(
                        "its statement names another version before it".to_owned(),
                    ));
                }
                None if version.previous.is_none() => taking.founding(version)?,
                _ => {}
            }
            taking.content(&root)?;
            newest = reference(version);
        }
        for object in &taking.data {
            if !self.opens_in(domain, object)? {
                return Err(Untaken::Waits(format!(
                    "the key of data file {} is on its way",
                    object.fmt_short()
                )));
            }
        }
        let current = Current {
            root: newest.ok_or_else(|| Untaken::Wrong("its number is no version's".to_owned()))?,
        };
        let current = current.encode().map_err(ApiError::bug)?;
        taking.put.push((layout::CURRENT.to_owned(), current.into()));
        store.put_all(&taking.put, &[])?;
        Ok(())
    }

    pub(super) async fn read_bundle(self: &Arc<Self>, id: StorageId) -> Result<Bundle, Untaken> {
        let file = match self.open_file(id).await {
            Ok(file) => file,
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Incomplete) => {
                return Err(Untaken::Waits("its documents are on their way".to_owned()));
            }
            Err(error) if matches!(error.kind, ErrorKind::BadInput | ErrorKind::Integrity) => {
                return Err(Untaken::Wrong(format!("its bundle: {}", error.message)));
            }
            Err(error) => return Err(error.into()),
        };
        if file.content_len() > MAX_BUNDLE_BYTES {
            return Err(Untaken::Wrong(format!("its bundle has {} bytes", file.content_len())));
        }
        let read = file.read(&self.blobs, 0..file.content_len()).await;
        let content = read.map_err(|error| self.file_fault(&id, error))?;
        let content = Bytes::copy_from_slice(&content);
        Bundle::decode(&content).map_err(|error| Untaken::Wrong(format!("its bundle: {error}")))
    }

    /// Whether this node can open an object by a grant of this domain.
    pub(super) fn opens_in(&self, domain: &DomainId, object: &StorageId) -> Result<bool, ApiError> {
        let snapshot = self.read()?;
        let granted = snapshot
            .access_records(object)?
            .iter()
            .any(|record| record.domain_id == *domain);
        Ok(granted && self.find_dek(object).is_ok())
    }
}

/// A version and those of `accepted` before it that are not what is held here under their numbers, oldest first.
fn line_to<'v>(
    version: &'v InventoryVersion,
    accepted: &'v [InventoryVersion],
    store: &NodeStore,
    switches: bool,
) -> Result<Vec<&'v InventoryVersion>, Untaken> {
    let mut line = vec![version];
    if !switches {
        return Ok(line);
    }
    let mut oldest = version;
    while let Some((previous, number)) = oldest.previous.zip(oldest.version.checked_sub(1)) {
        let Some(seq) = Seq::new(number) else { break };
        let held = store.document(&layout::root(seq))?;
        if held.is_some_and(|bytes| *Sha256::of(&bytes).as_bytes() == previous) {
            break;
        }
        let before = accepted.iter().find(|other| {
            (other.version, other.root_sha256) == (number, previous)
                && other.restore_epoch == oldest.restore_epoch
                && other.authority == oldest.authority
        });
        // Its documents come with its own statement, and no later version brings them again.
        let Some(before) = before else {
            return Err(Untaken::Waits(format!("version {number} before it is on its way")));
        };
        line.push(before);
        oldest = before;
    }
    line.reverse();
    Ok(line)
}

fn by(version: &InventoryVersion) -> Authority {
    Authority::from_bytes(*version.authority.as_bytes())
}

fn statement_of(version: &InventoryVersion) -> Option<Statement> {
    Some(Statement {
        by: by(version),
        version: reference(version)?,
        previous: version.previous.map(Sha256::from_bytes),
    })
}

/// Where a version stands among all of its catalogue.
const fn place(version: &RootRef) -> (u64, u64) {
    (version.restore_epoch.get(), version.seq.get())
}

/// A version being verified: what came in its bundle, what was there before, and what will be stored.
struct Taking<'a> {
    bundle: &'a Bundle,
    store: &'a NodeStore,
    put: Vec<(String, Bytes)>,
    /// Objects of its live editions.
    data: BTreeSet<StorageId>,
}

impl Taking<'_> {
    /// The root, which the statement names by its hash.
    fn root(&mut self, version: &InventoryVersion) -> Result<Stored<Root>, Untaken> {
        let wrong = |what: String| Untaken::Wrong(format!("its root: {what}"));
        let seq = Seq::new(version.version).ok_or_else(|| wrong("no such number".to_owned()))?;
        let path = layout::root(seq);
        let bytes = self
            .bundle
            .get(&path)
            .ok_or_else(|| wrong("not in its bundle".to_owned()))?;
        let root = Stored::<Root>::verify(bytes.clone(), Sha256::from_bytes(version.root_sha256))
            .map_err(|error| wrong(error.to_string()))?;
        let named = root.history.as_ref().and_then(|history| history.previous_root_sha256);
        let same = root.seq == seq
            && root.restore_epoch.get() == version.restore_epoch
            && named.map(|named| *named.as_bytes()) == version.previous;
        if !same {
            return Err(wrong("another version than its statement says".to_owned()));
        }
        // What it says of its authority must be readable, or nobody could follow it any further.
        if let Err(error) = Authority::handed_to(&root.extensions) {
            return Err(wrong(error.to_string()));
        }
        self.put.push((path, bytes.clone()));
        Ok(root)
    }

    /// `catalog.json` comes with the first version, and must name who signed that as the founding authority.
    fn founding(&mut self, version: &InventoryVersion) -> Result<(), Untaken> {
        let wrong = |what: &str| Untaken::Wrong(format!("catalog.json: {what}"));
        let bytes = self
            .bundle
            .get(layout::CATALOG)
            .ok_or_else(|| wrong("not in its bundle"))?;
        let catalog = Catalog::decode(bytes).map_err(|error| wrong(&error.to_string()))?;
        if catalog.catalog_id.as_bytes() != &version.catalog_id {
            return Err(wrong("it is another catalogue's"));
        }
        if Authority::founding(&catalog) != Ok(Some(by(version))) {
            return Err(wrong(
                "it names another founding authority than the one that signed the first version",
            ));
        }
        self.put.push((layout::CATALOG.to_owned(), bytes.clone()));
        Ok(())
    }

    /// Every leaf the root names, and the editions of those that are new.
    fn content(&mut self, root: &Root) -> Result<(), Untaken> {
        for (product, leaf) in &root.products {
            let path = layout::leaf(&leaf.leaf_sha256);
            let Some(bytes) = self.bundle.get(&path) else {
                // Verified when it came.
                if self.store.has(&path)? {
                    continue;
                }
                return Err(absent(&path));
            };
            let leaf = Stored::<Leaf>::verify(bytes.clone(), leaf.leaf_sha256)
                .map_err(|error| Untaken::Wrong(format!("{path}: {error}")))?;
            if leaf.product_id != *product {
                return Err(Untaken::Wrong(format!("{path} is the leaf of {}", leaf.product_id)));
            }
            self.put.push((path, bytes.clone()));
            for entry in &leaf.editions {
                self.edition(product, entry)?;
            }
        }
        Ok(())
    }

    /// An edition's manifest and its documents. An old edition may be gone at the authority, and then nothing of it comes.
    fn edition(&mut self, product: &ProductId, entry: &Entry) -> Result<(), Untaken> {
        let path = layout::manifest(product, &entry.edition_id);
        let live = entry.state == EditionState::Live;
        let Some(bytes) = self.find(&path)? else {
            return match live {
                true => Err(absent(&path)),
                false => Ok(()),
            };
        };
        let manifest = Stored::<Manifest>::verify(bytes.clone(), entry.manifest_sha256)
            .map_err(|error| Untaken::Wrong(format!("{path}: {error}")))?;
        for file in &manifest.files {
            let path = match file.root {
                FileRoot::Data => pointer_path(product, &file.path),
                FileRoot::Edition => format!("{}/{}", layout::edition(product, &entry.edition_id), file.path),
            };
            let bytes = self.find(&path)?.ok_or_else(|| absent(&path))?;
            let fits = match file.root {
                FileRoot::Data => {
                    let object = pointed_at(&bytes);
                    if live {
                        self.data.extend(object);
                    }
                    object.map(|object| *object.as_bytes()) == file.digests.blake3()
                }
                FileRoot::Edition => Sha256::of(&bytes) == file.digests.sha256(),
            };
            if !fits {
                return Err(Untaken::Wrong(format!("{path} is not what the manifest says")));
            }
            self.put.push((path, bytes));
        }
        self.put.push((path, bytes));
        Ok(())
    }

    /// A document of the bundle, or one that was there before.
    fn find(&self, path: &str) -> Result<Option<Bytes>, ApiError> {
        match self.bundle.get(path) {
            Some(bytes) => Ok(Some(bytes.clone())),
            None => self.store.document(path),
        }
    }
}

fn absent(path: &str) -> Untaken {
    Untaken::Wrong(format!("{path} is neither in its bundle nor here"))
}
