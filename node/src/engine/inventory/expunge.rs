//! Expunging an edition of a catalogue of this node: its documents in every chain, its objects, and who may still hold some of it.
//!
//! What is deleted here is deleted here. No statement of the mesh takes a grant back or asks a site to drop bytes, so the report
//! counts the keys that stay and names the sites that may hold copies; nobody has acknowledged anything (SOP §14.8).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use futures::FutureExt as _;
use sovm_catalog::{DocumentStore, Read as _};
use sovm_inventory::{
    doc::{FilePath, ProductId, layout},
    expunge::EditionBytes,
    store::StoreError,
    transition::EditionKey,
};
use sovm_object::id::{SiteId, StorageId};

use super::{
    super::core::Core,
    chains::Chain,
    data::{NodePlace, pointed_at, pointer_path},
};
use crate::{
    api::{InventoryExpungeReport, ReaderInfo},
    error::ApiError,
};

/// A document by its chain and path.
type Named = (DocumentStore, String);

fn failed(action: &'static str, path: &str, error: ApiError) -> StoreError {
    StoreError::Other {
        action,
        path: path.to_owned(),
        source: Box::new(error),
    }
}

impl NodePlace {
    /// The catalogue's own chains: the one worked on, and the one its public reads, where an edition that was live lies, too. What
    /// another catalogue says of a product or a file of the same name decides nothing here.
    async fn own_chains(&self) -> Result<BTreeSet<DocumentStore>, ApiError> {
        let (core, own) = (self.store.core(), self.store.chain_of());
        let mut chains = BTreeSet::from([own]);
        if let Some(chain) = core.chain(own).boxed().await?
            && let Some(public) = chain.founding.as_ref().and_then(|founding| founding.public)
            && let Some(live) = core.live_chain(&public).boxed().await?
            && live.founder == chain.founder
        {
            chains.insert(live.documents);
        }
        Ok(chains)
    }

    /// Documents below a folder in these chains.
    fn documents_below(
        &self,
        chains: &BTreeSet<DocumentStore>,
        folder: &str,
    ) -> Result<Vec<(DocumentStore, String, u64)>, ApiError> {
        let prefix = format!("{folder}/");
        let snapshot = self.store.core().read()?;
        let mut found = Vec::new();
        for store in chains {
            for path in snapshot.documents(store, &prefix)? {
                let size = snapshot.document(store, &path)?.map_or(0, |bytes| bytes.len() as u64);
                found.push((*store, path, size));
            }
        }
        Ok(found)
    }

    /// Takes out of `objects` what a document of these chains names that is not going.
    fn spare_named(
        &self,
        chains: &BTreeSet<DocumentStore>,
        going: &[Named],
        objects: &mut BTreeSet<StorageId>,
    ) -> Result<(), ApiError> {
        let snapshot = self.store.core().read()?;
        for store in chains {
            for path in snapshot.documents(store, "products/")? {
                let goes = going.iter().any(|(chain, gone)| chain == store && *gone == path);
                if goes || !path.contains("/data/") {
                    continue;
                }
                let named = snapshot.document(store, &path)?.and_then(|bytes| pointed_at(&bytes));
                if let Some(object) = named {
                    objects.remove(&object);
                }
            }
        }
        Ok(())
    }

    fn remove_documents(&self, documents: &[Named]) -> Result<(), ApiError> {
        let core = self.store.core();
        let mut txn = core.catalog.begin()?;
        for (store, path) in documents {
            txn.remove_document(store, path)?;
        }
        core.save(txn)
    }

    /// The documents that name these data files' objects, and the objects.
    fn pointers(
        &self,
        chains: &BTreeSet<DocumentStore>,
        product_id: &ProductId,
        files: &[FilePath],
    ) -> Result<(Vec<Named>, BTreeSet<StorageId>), ApiError> {
        let snapshot = self.store.core().read()?;
        let (mut documents, mut objects) = (Vec::new(), BTreeSet::new());
        for store in chains {
            for file in files {
                let path = pointer_path(product_id, file);
                if let Some(bytes) = snapshot.document(store, &path)? {
                    objects.extend(pointed_at(&bytes));
                    documents.push((*store, path));
                }
            }
        }
        Ok((documents, objects))
    }
}

#[async_trait]
impl EditionBytes for NodePlace {
    async fn files(&self, edition: &EditionKey) -> Result<Vec<(String, u64)>, StoreError> {
        let folder = layout::edition(&edition.product_id, &edition.edition_id);
        let failed = |error| failed("listing", &folder, error);
        let chains = self.own_chains().await.map_err(failed)?;
        let found = self.documents_below(&chains, &folder).map_err(failed)?;
        // The same document in two chains is one file.
        let files: BTreeMap<String, u64> = found.into_iter().map(|(_, path, size)| (path, size)).collect();
        Ok(files.into_iter().collect())
    }

    async fn remove(&self, _edition: &EditionKey, path: &str) -> Result<(), StoreError> {
        let failed = |error| failed("deleting", path, error);
        let chains = self.own_chains().await.map_err(failed)?;
        let documents: Vec<_> = chains.into_iter().map(|store| (store, path.to_owned())).collect();
        self.remove_documents(&documents).map_err(failed)
    }

    /// The objects first: as long as the documents that name them are there, a run that was interrupted finds them.
    async fn remove_data(&self, product_id: &ProductId, files: &[FilePath]) -> Result<(), StoreError> {
        let folder = layout::data(product_id);
        let failed = |error| failed("deleting", &folder, error);
        let chains = self.own_chains().await.map_err(failed)?;
        let (documents, mut objects) = self.pointers(&chains, product_id, files).map_err(failed)?;
        self.spare_named(&chains, &documents, &mut objects).map_err(failed)?;
        self.store.core().expunge_objects(&objects).await.map_err(failed)?;
        self.remove_documents(&documents).map_err(failed)
    }

    /// Every commit of the database is durable when it returns.
    async fn settle(&self, _product_id: &ProductId) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Core {
    /// SOP-354, SOP-355, SOP-356: adds to a report how far each of the four stages came, and who may still hold some of it.
    pub(super) async fn say_who_holds(
        self: &Arc<Self>,
        chain: &Chain,
        report: &mut InventoryExpungeReport,
    ) -> Result<(), ApiError> {
        let objects: BTreeSet<StorageId> = report
            .removed
            .iter()
            .filter_map(|file| file.object.as_deref()?.parse().ok())
            .collect();
        let mut holders: BTreeMap<String, ReaderInfo> = BTreeMap::new();
        {
            let snapshot = self.read()?;
            let mut sites: BTreeSet<SiteId> = BTreeSet::new();
            for object in &objects {
                report.stages.keys_left += snapshot.access_records(object)?.len() as u64;
                sites.extend(snapshot.receipts(object)?.into_iter().map(|(site, _)| site));
                let claims = snapshot.holders(object)?.into_iter().filter(|(_, row)| row.claims);
                sites.extend(claims.map(|(site, _)| site));
            }
            let bindings = snapshot.bindings()?;
            for site in sites.into_iter().filter(|site| *site != self.me) {
                let info = ReaderInfo {
                    site: site.to_string(),
                    name: bindings.get(&site).map(|binding| binding.body().display_name.clone()),
                    this_node: false,
                };
                holders.insert(info.site.clone(), info);
            }
        }
        if let Some(founding) = &chain.founding {
            let domains = [
                Some(founding.release_domain),
                founding.public.map(|public| public.domain),
            ];
            for domain in domains.into_iter().flatten() {
                let readers = self.readers_of(&domain)?.into_iter().filter(|reader| !reader.this_node);
                holders.extend(readers.map(|reader| (reader.site.clone(), reader)));
            }
        }
        for object in &objects {
            if self.blobs.has(*object).await? {
                report.stages.bytes_left += 1;
            }
        }
        report.holders = holders.into_values().collect();
        report.stages.waiting = report.holders.len() as u64;
        report.scrub = vec![
            "every copy of this node's home: the database holds documents and keys, the object store ciphertext"
                .to_owned(),
            "recovery checkpoints and archives made since the edition was sealed, with the kits that open them"
                .to_owned(),
            "every directory made with sovm inventory export or sovm edition copy since then".to_owned(),
            "at each holder: the bundle that announced the edition holds its manifest and structures".to_owned(),
        ];
        Ok(())
    }
}
