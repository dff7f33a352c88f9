//! Telling a domain of a catalogue's versions (DESIGN §10).
//!
//! ```text
//! the writer commits a version ──▶ here, in the node's own store: it is what it is from now on
//! documents that came with it ──▶ one bundle, a plain file of the domain ┐
//! keys of data files that became live ──▶ statements and grants ─────────┼─ one transaction
//! InventoryVersion, signed by the authority ─────────────────────────────┘
//! ```
//!
//! Everything that leads up to the announcement can be repeated, and what was announced is never announced again: a node that died
//! anywhere in between goes on with the first version its domain has no statement of. Members get these entries in any order;
//! a reader takes a version over only when all of it is there ([`super::follow`]).
//!
//! Each version is told of by the site that signed it, also the last one before a hand-over. Who writes on has taken over all of them as
//! a reader ([`super::follow`]) and tells of its own only: a second voice about an old version would be a second founder to newcomers.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use futures::FutureExt as _;
use sovm_catalog::{Read as _, Txn};
use sovm_inventory::{
    authority::Authority,
    doc::{EditionId, FileRoot, Leaf, Manifest, ProductId, Root, RootRef, Seq, Sha256, Stored, layout},
    export::{ExportError, FileTransfer, LiveExport, Transferred, export_live},
    reader::find_head,
    store::{Creation, InventoryStore as _, StorePath},
    verify::EditionFile,
    writer::Identity,
};
use sovm_mesh::net::{steps::reached, store::Holding};
use sovm_object::{
    blob,
    bundle::Bundle,
    entry::VerifiedEntry,
    id::{DomainId, KeyRef, StorageId},
    record::InventoryVersion,
    secret::Dek,
};

use super::{
    super::{
        author::Tableless,
        core::Core,
        publish::{Publication, Ready},
    },
    chains::{Chain, Public, before, new_store},
    data::{pointed_at, pointer_path},
    follow::MAX_BUNDLE_BYTES,
    store::NodeStore,
};
use crate::{
    error::{ApiError, ErrorKind},
    inventory::errors,
};

impl Core {
    /// Brings everything that follows from a catalogue's versions up to the newest one: what the release domain is told, the
    /// live-only chain, what the public domain is told.
    pub(super) async fn spread(self: &Arc<Self>, chain: &Chain, identity: Identity) -> Result<(), ApiError> {
        let Some(founding) = &chain.founding else { return Ok(()) };
        if !self.wrote_newest(chain).boxed().await? {
            return Ok(());
        }
        reached("inventory.spread");
        self.announce(chain, founding.release_domain).boxed().await?;
        reached("inventory.told");
        let Some(public) = founding.public else { return Ok(()) };
        let live = self.export_live_chain(chain, &public, identity).boxed().await?;
        reached("inventory.exported");
        self.announce(&live, public.domain).boxed().await
    }

    /// Writes the versions of the live-only chain that are missing.
    async fn export_live_chain(
        self: &Arc<Self>,
        chain: &Chain,
        public: &Public,
        identity: Identity,
    ) -> Result<Chain, ApiError> {
        let there = self.live_chain(public).boxed().await?;
        if let Some(live) = &there
            && !live.is_ours(self)
            && self.wrote_newest(live).boxed().await?
        {
            // Handed over with the full one already; what is left is to tell of it.
            return Ok(live.clone());
        }
        let documents = match &there {
            Some(live) if live.is_ours(self) => live.documents,
            None if chain.founder == Some(self.as_authority()) => {
                new_store(sovm_catalog::DocumentRole::Live, &public.catalog)
            }
            other => return Err(not_handed_over(other.as_ref())),
        };
        let from = self.node_store(chain.documents);
        let to = Arc::new(self.node_store(documents));
        let transfer = NodeTransfer {
            from: from.clone(),
            to: to.clone(),
        };
        let head = find_head(&from, None)
            .await
            .map_err(|error| errors::unread(&error, &NodeStore::SHOWN))?
            .head;
        let export = LiveExport {
            catalog_id: public.catalog,
            identity,
            // The section of this program names products that nobody knows of yet.
            sections: BTreeSet::new(),
            authority: chain.founding.as_ref().map(|founding| founding.authority),
            handed_to: Authority::handed_to(&head.root().extensions).map_err(ApiError::bug)?,
        };
        export_live(&from, to, &transfer, &export)
            .await
            .map_err(|error| errors::unspread(&error))?;
        self.chain(documents)
            .await?
            .ok_or_else(|| ApiError::bug("a live-only chain that is not there"))
    }

    /// Tells a domain of every version of a chain that it has no statement of.
    async fn announce(self: &Arc<Self>, chain: &Chain, domain: DomainId) -> Result<(), ApiError> {
        let store = self.node_store(chain.documents);
        let head = find_head(&store, None)
            .await
            .map_err(|error| errors::unread(&error, &NodeStore::SHOWN))?
            .head;
        let told: BTreeSet<[u8; 32]> = self
            .read()?
            .inventory_versions(&domain, chain.catalog.as_bytes(), (0, 0))?
            .into_iter()
            .filter(|(_, said, state)| state.is_accepted() && said.authority == self.me)
            .map(|(_, said, _)| said.root_sha256)
            .collect();
        // From the newest back to one that was told, or that another site signed: normally one step.
        let mut untold = Vec::new();
        let mut at = Some((head.root().seq, head.root().sha256()));
        while let Some((seq, sha256)) = at.filter(|(_, sha256)| !told.contains(sha256.as_bytes())) {
            let root = store.root(seq, sha256).await?;
            if self.signer_of(chain, &root).await? != Some(self.as_authority()) {
                break;
            }
            at = before(&root);
            untold.push(root);
        }
        for root in untold.into_iter().rev() {
            self.announce_version(chain, domain, &store, &root).boxed().await?;
        }
        Ok(())
    }

    async fn announce_version(
        self: &Arc<Self>,
        chain: &Chain,
        domain: DomainId,
        store: &NodeStore,
        root: &Stored<Root>,
    ) -> Result<(), ApiError> {
        let new = store.new_in(root).boxed().await?;
        let mut objects = vec![self.make_bundle(&domain, &new.bundle).await?];
        let bundle = objects[0].id();
        let outcome = async {
            for object in &new.data {
                if !self.is_granted(chain, &domain, object)? {
                    objects.push(self.grant_again(&domain, object).await?);
                }
            }
            let statement = self.state_version(chain, domain, root, bundle)?;
            let nothing_else = |_: &mut Txn| Ok(());
            let publication = Publication {
                domain,
                first: vec![statement],
                objects: objects.iter().collect(),
                also: &nothing_else,
            };
            self.publish_objects(&publication).boxed().await
        }
        .await;
        if let Err(error) = outcome {
            // The data files are in use whatever becomes of this announcement.
            self.let_go(objects.first()).await;
            return Err(error);
        }
        Ok(())
    }

    fn state_version(
        &self,
        chain: &Chain,
        domain: DomainId,
        root: &Stored<Root>,
        bundle: StorageId,
    ) -> Result<VerifiedEntry, ApiError> {
        let ops_seen = self.heads(Some(domain))?;
        let stamp = self.stamp()?;
        let previous = root.history.as_ref().and_then(|history| history.previous_root_sha256);
        Ok(self
            .sign(InventoryVersion {
                mesh_id: self.mesh(),
                domain_id: domain,
                catalog_id: *chain.catalog.as_bytes(),
                restore_epoch: root.restore_epoch.get(),
                version: root.seq.get(),
                root_sha256: *root.sha256().as_bytes(),
                previous: previous.map(|previous| *previous.as_bytes()),
                bundle,
                authority: self.me,
                seq: stamp.seq,
                ops_seen,
                hlc: stamp.hlc,
            })
            .into())
    }

    /// Seals documents into a plain file of the domain. Nobody sees it yet.
    pub(super) async fn make_bundle(self: &Arc<Self>, domain: &DomainId, bundle: &Bundle) -> Result<Ready, ApiError> {
        let content = bundle.encode();
        if content.len() as u64 > MAX_BUNDLE_BYTES {
            return Err(ApiError::new(
                ErrorKind::Refused,
                format!(
                    "the documents of one version have {} bytes, more than others read",
                    content.len()
                ),
            )
            .safe("nobody was told of it, and what others read is as it was"));
        }
        let sealed = blob::seal(&content, Dek::generate(), KeyRef::generate()).map_err(ApiError::bug)?;
        let id = sealed.storage_id;
        let durable = self.make_unnamed(sealed.bytes.into(), id).await?;
        let ready = self
            .sign_tableless(
                domain,
                Tableless::file(id, sealed.exact_byte_size, sealed.key_ref, &sealed.dek),
            )
            .and_then(|manifest| Ready::new(durable, sealed.dek, manifest));
        if ready.is_err() {
            self.abandon(&[id]).await;
        }
        ready
    }

    /// Whether this node, or the catalogue's founder before it, granted the domain's members an object already. A grant of anybody else
    /// may be of another key.
    fn is_granted(&self, chain: &Chain, domain: &DomainId, object: &StorageId) -> Result<bool, ApiError> {
        let writers = [Some(self.as_authority()), chain.founder];
        let records = self.read()?.access_records(object)?;
        Ok(records.iter().any(|record| {
            let issuer = Authority::from_bytes(*record.issuer.as_bytes());
            record.domain_id == *domain && writers.contains(&Some(issuer))
        }))
    }

    /// States an object that is here already for another domain, so that its key can be granted there.
    async fn grant_again(&self, domain: &DomainId, object: &StorageId) -> Result<Ready, ApiError> {
        let missing = |what: &str| {
            ApiError::new(
                ErrorKind::Incomplete,
                format!("data file {} of a live edition {what}", object.fmt_short()),
            )
            .safe("the version stands; readers go on with the one before until they have all of it")
            .next("sovm sync brings what is missing; then sovm inventory announce")
        };
        let Holding::Durable(durable) = self.blobs.holding(*object).await? else {
            return Err(missing("is not on this node"));
        };
        let snapshot = self.read()?;
        let view = self.object_view(&snapshot, object)?;
        let dek = self.find_dek(object)?;
        let commitment = dek.commitment();
        let manifest = view.as_ref().and_then(|view| {
            let mut manifests = view.manifests.iter();
            manifests.find(|(_, manifest)| manifest.dek_commitment == commitment)
        });
        let Some((_, manifest)) = manifest else {
            return Err(missing("has no manifest here"));
        };
        let manifest = self.sign_tableless(domain, Tableless::edition_file(manifest))?;
        Ready::new(durable, dek, manifest)
    }
}

/// What a version brings.
struct NewIn {
    bundle: Bundle,
    /// The objects of the editions that it brings.
    data: BTreeSet<StorageId>,
}

impl NodeStore {
    async fn bytes(&self, path: &str) -> Result<Option<Bytes>, ApiError> {
        let path = StorePath::parse(path).map_err(ApiError::bug)?;
        let found = self.get(&path).await.map_err(|error| errors::storage(&error))?;
        Ok(found.map(|found| found.bytes))
    }

    pub(super) async fn needed(&self, path: &str) -> Result<Bytes, ApiError> {
        self.bytes(path).await?.ok_or_else(|| {
            ApiError::new(ErrorKind::Integrity, format!("{path} is missing in {}", Self::SHOWN))
                .safe("nothing was changed")
                .next("sovm inventory verify")
        })
    }

    /// A root, by the hash that another document names.
    pub(super) async fn root(&self, seq: Seq, sha256: Sha256) -> Result<Stored<Root>, ApiError> {
        let bytes = self.needed(&layout::root(seq)).await?;
        Stored::verify(bytes, sha256).map_err(|error| errors::undecoded(&error))
    }

    async fn leaf(&self, sha256: Sha256) -> Result<Stored<Leaf>, ApiError> {
        let bytes = self.needed(&layout::leaf(&sha256)).await?;
        Stored::verify(bytes, sha256).map_err(|error| errors::undecoded(&error))
    }

    /// The documents that came with a version, and the objects of its new editions.
    async fn new_in(&self, root: &Stored<Root>) -> Result<NewIn, ApiError> {
        let mut bundle = Bundle::default();
        let mut data = BTreeSet::new();
        bundle.insert(layout::root(root.seq), root.bytes().clone());
        let previous = root.history.as_ref().and_then(|history| history.previous_root_sha256);
        let before = match previous.zip(root.seq.previous()) {
            Some((sha256, seq)) => self.root(seq, sha256).await?.products.clone(),
            None => {
                bundle.insert(layout::CATALOG, self.needed(layout::CATALOG).await?);
                Default::default()
            }
        };
        for (product, leaf) in &root.products {
            let old = before.get(product).map(|leaf| leaf.leaf_sha256);
            if old == Some(leaf.leaf_sha256) {
                continue;
            }
            let known: HashMap<EditionId, Sha256> = match old {
                Some(old) => {
                    let leaf = self.leaf(old).await?;
                    leaf.editions
                        .iter()
                        .map(|entry| (entry.edition_id, entry.manifest_sha256))
                        .collect()
                }
                None => HashMap::new(),
            };
            let leaf = self.leaf(leaf.leaf_sha256).await?;
            bundle.insert(layout::leaf(&leaf.sha256()), leaf.bytes().clone());
            for entry in leaf
                .editions
                .iter()
                .filter(|entry| !known.contains_key(&entry.edition_id))
            {
                self.edition(
                    product,
                    &entry.edition_id,
                    entry.manifest_sha256,
                    &mut bundle,
                    &mut data,
                )
                .await?;
            }
        }
        Ok(NewIn { bundle, data })
    }

    /// An edition's documents and objects. One that was expunged since has none.
    pub(super) async fn edition(
        &self,
        product: &ProductId,
        edition: &EditionId,
        manifest_sha256: Sha256,
        bundle: &mut Bundle,
        data: &mut BTreeSet<StorageId>,
    ) -> Result<(), ApiError> {
        let Some(bytes) = self.bytes(&layout::manifest(product, edition)).await? else {
            return Ok(());
        };
        let manifest = Stored::<Manifest>::verify(bytes, manifest_sha256).map_err(|error| errors::undecoded(&error))?;
        for file in &manifest.files {
            match file.root {
                FileRoot::Data => {
                    let path = pointer_path(product, &file.path);
                    let pointer = self.needed(&path).await?;
                    data.extend(pointed_at(&pointer));
                    bundle.insert(path, pointer);
                }
                FileRoot::Edition => {
                    let path = format!("{}/{}", layout::edition(product, edition), file.path);
                    bundle.insert(path.clone(), self.needed(&path).await?);
                }
            }
        }
        bundle.insert(layout::manifest(product, edition), manifest.bytes().clone());
        Ok(())
    }
}

/// Copies documents between two chains of this node. Data files are objects, which both name.
struct NodeTransfer {
    from: NodeStore,
    to: Arc<NodeStore>,
}

#[async_trait::async_trait]
impl FileTransfer for NodeTransfer {
    async fn transfer(&self, file: &EditionFile<'_>) -> Result<Transferred, ExportError> {
        if file.entry.root == FileRoot::Data {
            return self.transfer_pointer(file).await;
        }
        sovm_inventory::export::StoreTransfer::new(&self.from, &*self.to)
            .transfer(file)
            .await
    }
}

impl NodeTransfer {
    /// The manifest's digests are the object's; what is copied is the line that names it.
    async fn transfer_pointer(&self, file: &EditionFile<'_>) -> Result<Transferred, ExportError> {
        let path = StorePath::parse(&file.path())?;
        let Some(found) = self.from.get(&path).await? else {
            return Ok(Transferred::Missing);
        };
        Ok(match self.to.create(&path, found.bytes).await? {
            Creation::Created => Transferred::Copied,
            Creation::Exists => Transferred::Present,
        })
    }
}

/// The chain that the public reads cannot be gone on with here. Another one under its id would be a second beginning, which no reader
/// could tell from the first.
pub(super) fn not_handed_over(live: Option<&Chain>) -> ApiError {
    let why = match live {
        Some(_) => "was not handed over to this node yet",
        None => "is not on this node",
    };
    ApiError::new(
        ErrorKind::Refused,
        format!("the chain of versions that the public of this catalogue reads {why}"),
    )
    .safe("the public reads on what it reads now")
    .next(
        "sovm sync brings it to a member of the public domain; then the same command again, or sovm inventory announce",
    )
}

/// A chain's version, as statements name it.
pub(super) fn reference(version: &InventoryVersion) -> Option<RootRef> {
    Some(RootRef {
        restore_epoch: sovm_inventory::doc::Epoch::new(version.restore_epoch)?,
        seq: Seq::new(version.version)?,
        root_sha256: Sha256::from_bytes(version.root_sha256),
    })
}
