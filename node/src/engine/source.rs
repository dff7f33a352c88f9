//! The tables of one query: a snapshot of the catalogue, keys, and the verified door to bytes.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures::FutureExt as _;
use sovm_catalog::{BadBytes, ByteEvent, DekError, ObjectState, PendingAccess, Read as _, TableView};
use sovm_object::{
    id::{KekId, SiteId, StorageId, TableId},
    kek::KekRing,
    pme::Footer,
    record::ObjectManifest,
    secret::Dek,
    types::Column,
};

use super::{core::Core, inventory::EditionTables};
use crate::{
    api,
    error::{ApiError, ErrorKind},
    query::{ObjectBytes, ObjectFault, Readiness, ScanObject, TableSource, Tables},
};

/// All tables as one query sees them.
pub(super) struct QueryTables {
    core: Arc<Core>,
    tables: Vec<TableView>,
    /// Tables of editions that are live; a table of the same name comes first.
    editions: Arc<EditionTables>,
}

impl QueryTables {
    /// Takes the snapshot.
    pub(super) async fn of(core: &Arc<Core>) -> Result<Self, ApiError> {
        Ok(Self {
            editions: core.edition_tables().boxed().await?,
            core: core.clone(),
            tables: core.read()?.tables()?,
        })
    }
}

/// Schema and table under which SQL finds a table. Tables that share a name bear the start of their id.
fn sql_name(view: &TableView) -> (String, String) {
    let schema = view.genesis.schema_name.clone();
    let name = view
        .display_name
        .strip_prefix(&format!("{schema}."))
        .unwrap_or(&view.display_name)
        .to_owned();
    (schema, name)
}

#[async_trait]
impl Tables for QueryTables {
    fn names(&self) -> Result<Vec<(String, String)>, ApiError> {
        let names: BTreeSet<_> = self
            .tables
            .iter()
            .map(sql_name)
            .chain(self.editions.keys().cloned())
            .collect();
        Ok(names.into_iter().collect())
    }

    async fn table(&self, schema: &str, name: &str) -> Result<Option<Arc<dyn TableSource>>, ApiError> {
        let wanted = (schema.to_owned(), name.to_owned());
        let Some(view) = self.tables.iter().find(|view| sql_name(view) == wanted) else {
            return match self.editions.get(&wanted) {
                Some(table) => self.core.edition_source(table).boxed().await.map(Some),
                None => Ok(None),
            };
        };
        let columns = view.columns.schema.columns().map_err(ApiError::bug)?;
        let partition = partition_columns(view);
        // One snapshot of the objects for the whole query (SOP-348).
        let (objects, keks) = self.core.scan_objects(view)?;
        Ok(Some(Arc::new(QueryTable {
            core: self.core.clone(),
            view: view.clone(),
            columns,
            partition,
            objects,
            keks,
        })))
    }
}

struct QueryTable {
    core: Arc<Core>,
    view: TableView,
    columns: Vec<Column>,
    partition: Vec<(i32, String)>,
    objects: Arc<[ScanObject]>,
    /// KEKs of its domain that are held.
    keks: Vec<KekId>,
}

/// Partition columns under the names that the table's creation fixed for them (SOP-129).
fn partition_columns(view: &TableView) -> Vec<(i32, String)> {
    let partition = &view.genesis.partition;
    let columns = view.genesis.columns.iter();
    columns
        .filter(|column| partition.contains(&column.field_id))
        .map(|column| (column.field_id, column.name.clone()))
        .collect()
}

#[async_trait]
impl TableSource for QueryTable {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn time_column(&self) -> Option<i32> {
        self.view.genesis.time
    }

    fn foreign_columns(&self, manifest: &ObjectManifest) -> &[i32] {
        let version = manifest.schema_fingerprint.as_ref();
        version
            .and_then(|version| self.view.columns.contradictions.get(version))
            .map_or(&[], Vec::as_slice)
    }

    fn partition_columns(&self) -> &[(i32, String)] {
        &self.partition
    }

    async fn objects(&self) -> Result<Vec<ScanObject>, ApiError> {
        Ok(self.objects.to_vec())
    }

    async fn dek(&self, id: StorageId) -> Result<Dek, ApiError> {
        let keys = self.core.keys();
        let genesis = &self.view.genesis;
        let ring = keys.domain(&genesis.domain_id).map(|keys| &keys.ring);
        let none = KekRing::default();
        let snapshot = self.core.read()?;
        Ok(snapshot.dek_in_table(&genesis.table_id, &id, ring.unwrap_or(&none))?)
    }

    fn kept_footer(&self, id: &StorageId) -> Option<Arc<Footer>> {
        self.core.footers.get(&self.view.genesis.table_id, &self.keks, id)
    }

    fn keep_footer(&self, footer: &Arc<Footer>) {
        self.core.footers.keep(&self.view.genesis.table_id, &self.keks, footer);
    }

    fn bytes(&self) -> Arc<dyn ObjectBytes> {
        Arc::new(self.core.blobs.clone())
    }

    fn report(&self, id: StorageId, fault: &ObjectFault) {
        self.core.report_fault(&id, fault);
    }
}

/// Objects of tables as queries saw them since the last commit: what they are depends on what is committed and on the KEKs
/// held, and on nothing else.
#[derive(Debug, Default)]
pub(super) struct ScanCache(Mutex<Scans>);

#[derive(Debug, Default)]
struct Scans {
    commits: u64,
    tables: HashMap<TableId, (Vec<KekId>, Arc<[ScanObject]>)>,
}

impl ScanCache {
    fn get(&self, commits: u64, table: &TableId, keks: &[KekId]) -> Option<Arc<[ScanObject]>> {
        let scans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, objects) = scans.tables.get(table)?;
        (scans.commits == commits && known == keks).then(|| objects.clone())
    }

    fn keep(&self, commits: u64, table: TableId, keks: Vec<KekId>, objects: &Arc<[ScanObject]>) {
        let mut scans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if scans.commits > commits {
            return;
        }
        if scans.commits < commits {
            scans.tables.clear();
            scans.commits = commits;
        }
        scans.tables.insert(table, (keks, objects.clone()));
    }
}

impl Core {
    /// Objects of a table, and the KEKs of its domain that are held.
    fn scan_objects(&self, view: &TableView) -> Result<(Arc<[ScanObject]>, Vec<KekId>), ApiError> {
        let none = KekRing::default();
        let table = view.genesis.table_id;
        let keys = self.keys();
        let ring = keys.domain(&view.genesis.domain_id).map_or(&none, |keys| &keys.ring);
        let keks: Vec<KekId> = ring.iter().map(|(_, id, _)| id).collect();
        let snapshot = self.read()?;
        let commits = snapshot.commit_counter()?;
        if let Some(objects) = self.scans.get(commits, &table, &keks) {
            return Ok((objects, keks));
        }
        let objects = snapshot.objects(&table, ring)?;
        drop(keys);
        let scan = objects.into_iter().filter_map(|object| {
            // An entry that is set aside blocks nobody (`lessons.md`, clocks).
            let readiness = match &object.state {
                ObjectState::QuarantinedManifest(_) => return None,
                ObjectState::Queryable => Readiness::Ready,
                state => waiting(state),
            };
            let (_, manifest) = object.manifests.into_iter().next()?;
            Some(ScanObject { manifest, readiness })
        });
        let objects: Arc<[ScanObject]> = scan.collect();
        self.scans.keep(commits, table, keks.clone(), &objects);
        Ok((objects, keks))
    }

    /// Sets aside an object that a read found to be bad.
    pub(super) fn report_fault(&self, id: &StorageId, fault: &ObjectFault) {
        let event = match fault {
            ObjectFault::BytesGone => ByteEvent::Missing,
            ObjectFault::HashMismatch => ByteEvent::Bad(BadBytes::HashMismatch),
            ObjectFault::KeyMismatch | ObjectFault::Malformed | ObjectFault::Inconsistent => {
                ByteEvent::Bad(BadBytes::NotAsDescribed)
            }
        };
        if self.note_bytes(id, event, None).is_err() {
            tracing::warn!(object = %id.fmt_short(), "a damaged object could not be set aside");
        }
    }

    /// Records what happened to an object's bytes.
    pub(super) fn note_bytes(&self, id: &StorageId, event: ByteEvent, size: Option<u64>) -> Result<(), ApiError> {
        let mut txn = self.catalog.begin()?;
        txn.byte_event(id, event, size, self.now_ms())
            .map_err(|error| match error {
                sovm_catalog::ByteEventError::Store(error) => error.into(),
                other => ApiError::bug(other),
            })?;
        self.save(txn)?;
        self.told();
        Ok(())
    }
}

/// The state of an object that cannot be read now, in the words of the API.
pub(super) fn waiting(state: &ObjectState) -> Readiness {
    let (state, reason, next_try_ms) = describe(state);
    Readiness::Waiting {
        state,
        reason,
        next_try_ms,
    }
}

/// A state in the words of the API: the word, the reason, and when something is tried next.
pub(super) fn describe(state: &ObjectState) -> (api::ObjectState, String, Option<u64>) {
    match state {
        ObjectState::Queryable => (api::ObjectState::Queryable, String::new(), None),
        ObjectState::PendingAccess(pending) => (api::ObjectState::PendingAccess, pending_access(pending), None),
        ObjectState::PendingBytes { asked, .. } => {
            let next = asked.iter().map(|(_, row)| row.next_try_ms).min();
            (api::ObjectState::PendingBytes, pending_bytes(asked), next)
        }
        ObjectState::QuarantinedBytes(BadBytes::HashMismatch) => (
            api::ObjectState::Quarantined,
            "its bytes on this disk do not match its id".to_owned(),
            None,
        ),
        ObjectState::QuarantinedBytes(_) => (
            api::ObjectState::Quarantined,
            "its bytes are not what its manifest says".to_owned(),
            None,
        ),
        ObjectState::QuarantinedManifest(_) => (
            api::ObjectState::Quarantined,
            "its time is more than five minutes ahead of this clock".to_owned(),
            None,
        ),
        ObjectState::Unsupported => (
            api::ObjectState::Quarantined,
            "it is of a kind that a newer sovm reads".to_owned(),
            None,
        ),
        ObjectState::Expunged => (
            api::ObjectState::Expunged,
            "its edition was expunged, and its bytes are not fetched again".to_owned(),
            None,
        ),
        other => (api::ObjectState::Quarantined, other.as_str().to_owned(), None),
    }
}

fn pending_access(pending: &PendingAccess) -> String {
    match pending {
        PendingAccess::NoKek { wanted } => match wanted.first() {
            Some((generation, _)) => {
                format!("its key is wrapped under generation {generation}, which this node does not hold")
            }
            None => pending.to_string(),
        },
        other => other.to_string(),
    }
}

fn pending_bytes(asked: &[(SiteId, sovm_catalog::HolderRow)]) -> String {
    if asked.is_empty() {
        return "its bytes are not here yet and nobody was asked".to_owned();
    }
    let asked: Vec<_> = asked
        .iter()
        .map(|(site, row)| match &row.reason {
            Some(why) => format!("{} ({why})", site.fmt_short()),
            None => site.fmt_short(),
        })
        .collect();
    format!("its bytes are not here yet; asked {}", asked.join(", "))
}

impl From<DekError> for ApiError {
    fn from(error: DekError) -> Self {
        match error {
            DekError::Store(error) => error.into(),
            other => Self::new(ErrorKind::Incomplete, other.to_string()).next("sovm sync"),
        }
    }
}
