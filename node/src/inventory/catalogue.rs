//! A catalogue: opening it, making it, and reading its newest or an older version.

use std::sync::Arc;

use sovm_inventory::{
    doc::{
        Catalog, CatalogId, CleanText, Document as _, JsonObject, Leaf, Producer, Root, Seq, Sha256, Stored, layout,
    },
    reader::{Fetch as _, FullInventory, Head, Refresh, find_head, versions_back_from},
    store::{InventoryStore, LocalStore, StorePath},
    transition::Version,
    writer::{Assurance, Clock, Committed, Identity, NewCatalog, SystemClock, Writer},
};

use super::{Address, Author, DataPlace, DirectoryPlace, change::reported, data::BucketPlace, errors, s3};
use crate::{
    api::{InventoryChangeReport, InventoryInitReport, ProgressSink},
    error::{ApiError, ErrorKind},
};

/// A place that may hold a catalogue: a store for its documents, and where the products' data files lie.
#[derive(Clone)]
pub(crate) struct Catalogue {
    pub(super) store: Arc<dyn InventoryStore>,
    pub(super) data: Arc<dyn DataPlace>,
    /// What messages name it by.
    pub(super) shown: Address,
    /// Where the progress of long reads goes.
    pub(super) progress: Arc<dyn ProgressSink>,
    /// Another site writes it, so what is sealed here is registered there.
    pub(super) registers: bool,
}

impl Catalogue {
    /// A catalogue in any store. Whether there is one in it shows at the first read.
    pub(crate) fn over(
        store: Arc<dyn InventoryStore>,
        data: Arc<dyn DataPlace>,
        shown: Address,
        progress: Arc<dyn ProgressSink>,
    ) -> Self {
        Self {
            store,
            data,
            shown,
            progress,
            registers: false,
        }
    }

    /// The same as a copy of what another site writes.
    pub(crate) fn registering(self) -> Self {
        Self {
            registers: true,
            ..self
        }
    }

    /// Opens what an address names. A directory must be there; a bucket is asked at the first read.
    pub(crate) fn open(address: Address, progress: Arc<dyn ProgressSink>) -> Result<Self, ApiError> {
        if let Address::Bucket(bucket) = &address {
            let store = s3::connect(bucket, std::env::vars_os())?;
            let data = BucketPlace::new(store.clone());
            return Ok(Self::over(Arc::new(store), Arc::new(data), address, progress));
        }
        let directory = address.directory()?;
        let store = LocalStore::open(directory).map_err(|error| errors::unopened(&error, directory))?;
        let data = DirectoryPlace::new(directory);
        Ok(Self::over(Arc::new(store), Arc::new(data), address, progress))
    }

    /// Opens what an address names, to make a catalogue there. A directory that isn't there is made; a bucket must be there,
    /// and keep the conditions of a put.
    pub(crate) async fn open_or_make(address: Address, progress: Arc<dyn ProgressSink>) -> Result<Self, ApiError> {
        match &address {
            Address::Bucket(bucket) => {
                let store = s3::connect(bucket, std::env::vars_os())?;
                let conditional = store.is_conditional().await;
                if !conditional.map_err(|error| errors::storage(&error))? {
                    return Err(errors::unconditional(&address));
                }
            }
            Address::Own | Address::Directory(_) => {
                let directory = address.directory()?;
                std::fs::create_dir_all(directory)
                    .map_err(|error| ApiError::io(format!("making {directory}"), &error))?;
            }
        }
        Self::open(address, progress)
    }

    /// Where the progress of long reads goes.
    pub(crate) fn progress(&self) -> Arc<dyn ProgressSink> {
        self.progress.clone()
    }

    /// Makes a catalogue: `catalog.json` and version 1.
    pub(crate) async fn init(&self, author: Author, embargo: bool) -> Result<InventoryInitReport, ApiError> {
        let actor = author.actor.to_string();
        let new = NewCatalog {
            catalog_id: CatalogId::generate(),
            embargo,
            extensions: JsonObject::new(),
            reason: author.reason.clone(),
        };
        let (_, committed) = Writer::create(self.store.clone(), identity(author)?, Arc::new(SystemClock), new)
            .await
            .map_err(|error| errors::unwritten(&error, &self.shown))?;
        let root = committed.head.root();
        Ok(InventoryInitReport {
            store: self.shown.to_string(),
            catalog_id: self.catalog().await?.catalog_id.to_string(),
            seq: root.seq.get(),
            root_sha256: root.sha256().to_string(),
            created_at: root.created_at.to_string(),
            embargo: root.embargo,
            actor,
        })
    }

    /// INV-273: makes version 1 anew from the editions' manifests.
    pub(crate) async fn rebuild(
        &self,
        author: Author,
        assurance: Assurance,
    ) -> Result<InventoryChangeReport, ApiError> {
        let writer = self.writer(author, Arc::new(SystemClock))?;
        let committed: Committed = writer
            .rebuild(assurance)
            .await
            .map_err(|error| errors::unwritten(&error, &self.shown))?;
        Ok(reported("rebuild", &self.shown, &committed))
    }

    /// A writer of this catalogue.
    pub(super) fn writer(&self, author: Author, clock: Arc<dyn Clock>) -> Result<Writer, ApiError> {
        Ok(Writer::new(self.store.clone(), identity(author)?, clock))
    }

    /// Finds the newest version.
    pub(super) async fn head(&self) -> Result<Refresh, ApiError> {
        find_head(&*self.store, None)
            .await
            .map_err(|error| errors::unread(&error, &self.shown))
    }

    /// Reads everything in a version that was found to be the newest.
    pub(super) async fn full(&self, head: Head) -> Result<FullInventory, ApiError> {
        FullInventory::load(&*self.store, head, None)
            .await
            .map_err(|error| errors::unread(&error, &self.shown))
    }

    /// The newest version as transitions take it.
    pub(super) async fn newest(&self) -> Result<(Head, Version), ApiError> {
        let head = self.head().await?.head;
        let full = self.full(head.clone()).await?;
        let version = full.to_version().map_err(|error| self.damaged(&error))?;
        Ok((head, version))
    }

    /// An older version, verified by the chain from the head down to it.
    pub(super) async fn older(&self, head: &Head, seq: Seq) -> Result<(Stored<Root>, Version), ApiError> {
        let mut found = None;
        let missing = versions_back_from(&*self.store, head, seq, |root| {
            if root.seq == seq {
                found = Some(root.clone());
            }
            root.seq > seq
        })
        .await
        .map_err(|error| errors::unread(&error, &self.shown))?;
        let Some(root) = found else {
            let newest = head.root().seq;
            let why = match missing {
                Some(missing) => format!("the versions up to {missing} are not stored any more"),
                None => format!("the newest is {newest}"),
            };
            return Err(
                ApiError::new(ErrorKind::NotFound, format!("there is no version {seq} here: {why}"))
                    .safe("nothing was changed")
                    .next(format!("sovm inventory log{} lists the versions", self.shown.option())),
            );
        };
        let mut leaves = std::collections::HashMap::new();
        for leaf in root.products.values() {
            leaves.insert(leaf.leaf_sha256, Arc::new(self.leaf(leaf.leaf_sha256).await?));
        }
        let version =
            Version::of(&root, |sha256| leaves.get(&sha256).cloned()).map_err(|error| self.damaged(&error))?;
        Ok((root, version))
    }

    /// A leaf by its hash.
    pub(super) async fn leaf(&self, sha256: Sha256) -> Result<Stored<Leaf>, ApiError> {
        let path = layout::leaf(&sha256);
        match self.fetch(&path).await? {
            Some(bytes) => Stored::verify(bytes, sha256).map_err(|error| errors::undecoded(&error)),
            None => Err(self.damaged(&format!("{path} is missing (INV-167)"))),
        }
    }

    /// A document by its name.
    pub(super) async fn fetch(&self, path: &str) -> Result<Option<bytes::Bytes>, ApiError> {
        let path = StorePath::parse(path).map_err(ApiError::bug)?;
        self.store.fetch(&path).await.map_err(|error| errors::storage(&error))
    }

    async fn catalog(&self) -> Result<Catalog, ApiError> {
        let bytes = self.fetch(layout::CATALOG).await?.unwrap_or_default();
        Catalog::decode(&bytes).map_err(|error| errors::undecoded(&error))
    }

    /// Something that was written whole is not whole any more.
    pub(super) fn damaged(&self, what: &dyn std::fmt::Display) -> ApiError {
        ApiError::new(ErrorKind::Integrity, what.to_string())
            .safe("nothing was changed")
            .next(format!(
                "sovm inventory verify{} says what else is wrong; restore that from a backup",
                self.shown.option()
            ))
    }
}

/// What a version records of its writer.
pub(crate) fn identity(author: Author) -> Result<Identity, ApiError> {
    Ok(Identity {
        actor: author.actor,
        producer: producer()?,
    })
}

/// This program, as documents name what wrote them.
pub(super) fn producer() -> Result<Producer, ApiError> {
    let text = |text: &str| text.parse::<CleanText>().map_err(ApiError::bug);
    Ok(Producer {
        name: text("sovm")?,
        version: text(env!("CARGO_PKG_VERSION"))?,
    })
}
