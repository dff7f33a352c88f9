//! A catalogue in a plain directory: opening it, making it, and reading its newest or an older version.

use std::{path::Path, sync::Arc};

use sovm_inventory::{
    doc::{
        Catalog, CatalogId, CleanText, Document as _, JsonObject, Leaf, Producer, Root, Seq, Sha256, Stored, layout,
    },
    reader::{Fetch as _, FullInventory, Head, Refresh, find_head, versions_back_from},
    store::{InventoryStore, LocalStore, StorePath},
    transition::Version,
    writer::{Assurance, Clock, Committed, Identity, NewCatalog, SystemClock, Writer},
};

use super::{Author, change::reported, errors};
use crate::{
    api::{Discard, InventoryChangeReport, InventoryInitReport, ProgressSink},
    error::{ApiError, ErrorKind},
};

/// A directory that may hold a catalogue.
#[derive(Clone)]
pub(crate) struct Catalogue {
    pub(super) store: Arc<LocalStore>,
    /// The directory as it was named, for messages.
    pub(super) shown: String,
    /// Where the progress of long reads goes.
    pub(super) progress: Arc<dyn ProgressSink>,
}

impl Catalogue {
    /// Opens a directory. Whether there is a catalogue in it shows at the first read.
    pub(crate) fn open(directory: Option<&str>, progress: Arc<dyn ProgressSink>) -> Result<Self, ApiError> {
        let shown = checked(directory)?.to_owned();
        let store = LocalStore::open(&shown).map_err(|error| errors::storage(&error))?;
        Ok(Self {
            store: Arc::new(store),
            shown,
            progress,
        })
    }

    /// Makes a catalogue: `catalog.json` and version 1. The directory is made when it isn't there.
    pub(crate) async fn init(
        directory: Option<&str>,
        author: Author,
        embargo: bool,
    ) -> Result<InventoryInitReport, ApiError> {
        let shown = checked(directory)?;
        if !Path::new(shown).exists() {
            std::fs::create_dir_all(shown).map_err(|error| ApiError::io(format!("making {shown}"), &error))?;
        }
        let catalogue = Self::open(Some(shown), Arc::new(Discard))?;
        let actor = author.actor.to_string();
        let new = NewCatalog {
            catalog_id: CatalogId::generate(),
            embargo,
            extensions: JsonObject::new(),
            reason: author.reason.clone(),
        };
        let store: Arc<dyn InventoryStore> = catalogue.store.clone();
        let (_, committed) = Writer::create(store, identity(author)?, Arc::new(SystemClock), new)
            .await
            .map_err(|error| errors::unwritten(&error, shown))?;
        let root = committed.head.root();
        Ok(InventoryInitReport {
            store: shown.to_owned(),
            catalog_id: catalogue.catalog().await?.catalog_id.to_string(),
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
        let store: Arc<dyn InventoryStore> = self.store.clone();
        Ok(Writer::new(store, identity(author)?, clock))
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
                    .next(format!(
                        "sovm inventory log {} lists the versions",
                        errors::at(&self.shown)
                    )),
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
                "sovm inventory verify {} says what else is wrong; restore that from a backup",
                errors::at(&self.shown)
            ))
    }
}

/// The directory a command names.
fn checked(directory: Option<&str>) -> Result<&str, ApiError> {
    let Some(directory) = directory else {
        return Err(ApiError::new(
            ErrorKind::Refused,
            "this command works on a catalogue in a plain directory so far; one in the node's own encrypted store comes later",
        )
        .safe("nothing was changed")
        .next("name the directory with --store DIR"));
    };
    if directory.contains("://") {
        return Err(ApiError::new(
            ErrorKind::Refused,
            format!("{directory} is an address, and a catalogue is read from a plain directory so far"),
        )
        .safe("nothing was changed")
        .next("copy the catalogue into a directory and name that with --store DIR"));
    }
    Ok(directory)
}

/// What a version records of its writer.
fn identity(author: Author) -> Result<Identity, ApiError> {
    let text = |text: &str| text.parse::<CleanText>().map_err(ApiError::bug);
    Ok(Identity {
        actor: author.actor,
        producer: Producer {
            name: text("sovm")?,
            version: text(env!("CARGO_PKG_VERSION"))?,
        },
    })
}
