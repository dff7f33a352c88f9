//! The tables of live editions, for SQL: schema is the product, table is the dataflow.
//!
//! A query sees one version: which editions are live is settled once, when it starts, so a release in the middle of it changes nothing
//! that it reads.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures::FutureExt as _;
use sovm_catalog::{DocumentStore, ObjectState, Read as _};
use sovm_inventory::{
    doc::{CatalogId, Current, Document as _, EditionId, ProductId, RootRef, layout},
    edition::TableList,
    reader::{LiveInventory, find_head},
};
use sovm_object::{
    id::{DomainId, StorageId},
    pme::{Footer, OpenOptions},
    secret::Dek,
    types::{Column, columns_of_schema},
};

use super::{
    super::{
        core::Core,
        source::{describe, waiting},
    },
    chains::Chain,
    data::{pointed_at, pointer_path},
    store::NodeStore,
};
use crate::{
    engine::chain,
    error::{ApiError, ErrorKind},
    inventory::errors,
    query::{ObjectBytes, ObjectFault, Readiness, ScanObject, TableSource},
};

/// Live tables by schema and name.
pub(in super::super) type EditionTables = BTreeMap<(String, String), EditionTable>;

/// One table of one live edition.
#[derive(Clone, Debug)]
pub(in super::super) struct EditionTable {
    product: ProductId,
    edition: EditionId,
    objects: Vec<StorageId>,
    /// Every data file it lists is named here.
    whole: bool,
}

/// The live tables as they were found last.
#[derive(Debug, Default)]
pub(in super::super) struct LiveCache(Mutex<Option<Kept>>);

#[derive(Clone, Debug)]
struct Kept {
    /// How many commits there were when they were found or last seen to be so.
    commits: u64,
    /// What they follow from; none when something newer was on its way.
    heads: Option<Heads>,
    tables: Arc<EditionTables>,
}

/// `CURRENT` of every chain here, and the domains this node reads.
type Heads = (Vec<(DocumentStore, Vec<u8>)>, BTreeSet<DomainId>);

impl Core {
    /// The tables of every live edition that is here whole. Where two catalogues have one product, the one written here counts,
    /// then the full one.
    pub(in super::super) async fn edition_tables(self: &Arc<Self>) -> Result<Arc<EditionTables>, ApiError> {
        if self.read()?.inventory_catalogs()?.is_empty() {
            return Ok(Arc::default());
        }
        let kept = self.live.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let commits = self.read()?.commit_counter()?;
        // While a version is on its way all is looked at again: what it waited for, a key say, may have come without a commit.
        if let Some(mut kept) = kept.filter(|kept| kept.heads.is_some()) {
            if kept.commits == commits {
                return Ok(kept.tables);
            }
            // Most commits have nothing to do with editions.
            if kept.heads == self.settled_heads()? {
                kept.commits = commits;
                return Ok(self.keep_live(kept));
            }
        }
        self.follow_all().boxed().await?;
        let commits = self.read()?.commit_counter()?;
        let heads = self.settled_heads()?;
        let mut chains = self.chains().boxed().await?;
        self.keep_readable(&mut chains)?;
        chains.sort_by_key(|chain| (!chain.is_ours(self), chain.live_only, chain.catalog));
        let mut tables = EditionTables::new();
        for chain in &chains {
            self.add_live(chain, &mut tables).boxed().await?;
        }
        Ok(self.keep_live(Kept {
            commits,
            heads,
            tables: Arc::new(tables),
        }))
    }

    /// Leaves out full chains that this node was put out of, which stand still, and the public's chain of a catalogue whose full one is
    /// read here: a version may have come in one of the two only.
    fn keep_readable(&self, chains: &mut Vec<Chain>) -> Result<(), ApiError> {
        let reads = self.readable_domains()?;
        chains.retain(|chain| {
            let founding = chain.founding.as_ref().filter(|_| !chain.live_only);
            founding.is_none_or(|founding| reads.contains(&founding.release_domain))
        });
        let covered: Vec<_> = chains
            .iter()
            .filter(|chain| !chain.live_only)
            .filter_map(|chain| Some((chain.founding.as_ref()?.public?.catalog, chain.founder)))
            .collect();
        chains.retain(|chain| !chain.live_only || !covered.contains(&(chain.catalog, chain.founder)));
        Ok(())
    }

    /// Domains with catalogues whose members this node is one of.
    fn readable_domains(&self) -> Result<BTreeSet<DomainId>, ApiError> {
        let mut domains = BTreeSet::new();
        for (domain, _) in self.read()?.inventory_catalogs()? {
            if self.readers_of(&domain)?.iter().any(|reader| reader.this_node) {
                domains.insert(domain);
            }
        }
        Ok(domains)
    }

    fn keep_live(&self, kept: Kept) -> Arc<EditionTables> {
        let tables = kept.tables.clone();
        *self.live.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        tables
    }

    /// The newest version of every chain here. None while one of them may have another one than it says: a version is announced
    /// that is not here yet, or written and not pointed at.
    fn settled_heads(&self) -> Result<Option<Heads>, ApiError> {
        let snapshot = self.read()?;
        let mut heads = Vec::new();
        let mut held = BTreeMap::new();
        for documents in snapshot.document_stores()? {
            let Some(bytes) = snapshot.document(&documents, layout::CURRENT)? else {
                return Ok(None);
            };
            let Ok(current) = Current::decode(&bytes) else {
                return Ok(None);
            };
            let RootRef { restore_epoch, seq, .. } = current.root;
            if let Some(next) = seq.next()
                && snapshot.document(&documents, &layout::root(next))?.is_some()
            {
                return Ok(None);
            }
            // The first store of a catalogue is the one that is followed.
            let place = (restore_epoch.get(), seq.get());
            held.entry(documents.catalog).or_insert(place);
            heads.push((documents, bytes));
        }
        for (domain, catalog) in snapshot.inventory_catalogs()? {
            // Ids that no catalogue can have are nobody's, and are not followed.
            if CatalogId::from_bytes(catalog).is_none() {
                continue;
            }
            let from = held
                .get(&catalog)
                .map_or((0, 0), |(restore_epoch, seq)| (*restore_epoch, seq + 1));
            let newer = snapshot.inventory_versions(&domain, &catalog, from)?;
            if newer.iter().any(|(_, _, state)| state.is_accepted()) {
                return Ok(None);
            }
        }
        Ok(Some((heads, self.readable_domains()?)))
    }

    async fn add_live(self: &Arc<Self>, chain: &Chain, tables: &mut EditionTables) -> Result<(), ApiError> {
        let store = self.node_store(chain.documents);
        let Ok(found) = find_head(&store, None).await else {
            return Ok(());
        };
        let live = LiveInventory::load(&store, &found.head, None)
            .await
            .map_err(|error| errors::unread(&error, &NodeStore::SHOWN))?;
        for (product, shown) in live.products() {
            if tables.keys().any(|(schema, _)| schema == product.as_str()) {
                continue;
            }
            // INV-204: during a rollout the newest one is meant.
            let Some(edition) = shown.editions.last() else { continue };
            let path = format!("{}/{}", layout::edition(product, &edition.edition_id), TableList::NAME);
            let Some(bytes) = store.document(&path)? else { continue };
            let Ok(list) = TableList::decode(&bytes) else {
                tracing::warn!(%product, "the table list of a live edition cannot be read");
                continue;
            };
            for table in &list.tables {
                let mut objects = Vec::with_capacity(table.files.len());
                let mut whole = true;
                for file in &table.files {
                    let pointer = store.document(&pointer_path(product, &file.path))?;
                    match pointer.and_then(|bytes| pointed_at(&bytes)) {
                        Some(object) => objects.push(object),
                        None => whole = false,
                    }
                }
                let name = (product.to_string(), table.dataflow.id().to_owned());
                let table = EditionTable {
                    product: product.clone(),
                    edition: edition.edition_id,
                    objects,
                    whole,
                };
                tables.insert(name, table);
            }
        }
        Ok(())
    }

    /// Opens a table for one query: its objects as they are now, and its columns, which its first object says.
    pub(in super::super) async fn edition_source(
        self: &Arc<Self>,
        table: &EditionTable,
    ) -> Result<Arc<dyn TableSource>, ApiError> {
        if !table.whole {
            return Err(table.not_here("a document that names one of its data files is missing"));
        }
        let snapshot = self.read()?;
        let mut objects = Vec::with_capacity(table.objects.len());
        for id in &table.objects {
            let Some(view) = self.object_view(&snapshot, id)? else {
                return Err(table.not_here(&format!("nothing says what data file {} is", id.fmt_short())));
            };
            let Some((_, manifest)) = view.manifests.into_iter().next() else {
                return Err(table.not_here(&format!("data file {} has no manifest that counts", id.fmt_short())));
            };
            let readiness = match &view.state {
                ObjectState::Queryable => Readiness::Ready,
                state => waiting(state),
            };
            objects.push((ScanObject { manifest, readiness }, view.state));
        }
        let ready = objects.iter().find(|(object, _)| object.readiness == Readiness::Ready);
        let columns = match (ready, objects.first()) {
            (Some((object, _)), _) => self.columns_of(object.manifest.storage_id).await?,
            (None, Some((_, state))) => {
                let (_, reason, _) = describe(state);
                return Err(table.not_here(&reason));
            }
            (None, None) => return Err(table.not_here("it has no data file")),
        };
        Ok(Arc::new(EditionSource {
            core: self.clone(),
            columns,
            objects: objects.into_iter().map(|(object, _)| object).collect(),
        }))
    }

    async fn columns_of(&self, id: StorageId) -> Result<Vec<Column>, ApiError> {
        let dek = self.find_dek(&id)?;
        let footer = Footer::open(&self.blobs, id, &dek, OpenOptions::default()).await;
        let footer = footer.map_err(|error| {
            ApiError::new(
                ErrorKind::Integrity,
                format!("data file {}: {}", id.fmt_short(), chain(&error)),
            )
            .safe("no row was answered from bytes that did not verify")
            .next("sovm object verify")
        })?;
        columns_of_schema(footer.schema()).map_err(ApiError::bug)
    }
}

impl EditionTable {
    fn not_here(&self, why: &str) -> ApiError {
        ApiError::new(
            ErrorKind::Incomplete,
            format!(
                "edition {} of product {} cannot be read here: {why}",
                self.edition, self.product
            ),
        )
        .safe("nothing was answered, so nothing was answered wrongly")
        .next("sovm run fetches what is missing, sovm status shows how far it is")
    }
}

struct EditionSource {
    core: Arc<Core>,
    columns: Vec<Column>,
    objects: Vec<ScanObject>,
}

#[async_trait]
impl TableSource for EditionSource {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn time_column(&self) -> Option<i32> {
        None
    }

    async fn objects(&self) -> Result<Vec<ScanObject>, ApiError> {
        Ok(self.objects.clone())
    }

    async fn dek(&self, id: StorageId) -> Result<Dek, ApiError> {
        self.core.find_dek(&id)
    }

    fn bytes(&self) -> Arc<dyn ObjectBytes> {
        Arc::new(self.core.blobs.clone())
    }

    fn report(&self, id: StorageId, fault: &ObjectFault) {
        self.core.report_fault(&id, fault);
    }
}
