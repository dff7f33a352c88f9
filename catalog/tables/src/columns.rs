//! The columns of a table as the ops in the catalogue leave them.
//!
//! Ops are immutable and name what their authors had seen, so the columns at an op are a function of its id. They are kept once
//! computed, and shared by all steps and snapshots.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, PoisonError},
};

use sovm_object::{
    entry::EntryKind,
    id::{RecordId, SchemaFingerprint, TableId},
    record::{TableGenesis, TableOp},
    schema::{OpGraph, TableSchema, columns_at},
};

use crate::{
    body,
    state::EntryState,
    store::{
        StoreError,
        rows::{Key, record_at_end},
        tables::{BY_TABLE, Rows},
    },
};

/// Versions kept computed; about 10 KiB each.
const MAX_CACHED: usize = 2_048;

/// Ops by table and columns by version. A graph is used only for exactly the ops a view holds, so a step that was dropped leaves
/// nothing wrong behind.
#[derive(Default)]
#[allow(unreachable_pub, reason = "sealed: named by a method of the sealed `Rows`")]
pub struct ColumnsCache {
    graphs: HashMap<TableId, (BTreeSet<RecordId>, Arc<OpGraph>)>,
    /// By founding record and op; the founding record itself stands for the version without ops.
    versions: HashMap<(RecordId, RecordId), Arc<TableSchema>>,
}

/// All versions of a table's columns, by what manifests call them.
pub(crate) type Versions = BTreeMap<SchemaFingerprint, Arc<TableSchema>>;

/// A founding record with the versions made of it.
pub(crate) struct Versioned {
    pub(crate) genesis: TableGenesis,
    pub(crate) versions: Versions,
}

/// The columns of a table now.
#[derive(Clone, Debug)]
pub struct TableColumns {
    /// Columns after all ops that count.
    pub schema: Arc<TableSchema>,
    /// The newest ops that count: the parents of the next one.
    pub heads: Vec<RecordId>,
    /// What a manifest of rows written now says.
    pub fingerprint: SchemaFingerprint,
    /// Whether that version exists. Otherwise several stand side by side, and a `Join` of the heads makes it one before rows are
    /// written: everybody must find the version a manifest names.
    pub is_version: bool,
    /// Versions in which ids mean other columns than now, with those ids: rows of these versions have no value there.
    pub contradictions: BTreeMap<SchemaFingerprint, Vec<i32>>,
}

/// All known ops of a table, whatever they count for.
pub(crate) fn graph(rows: &(impl Rows + ?Sized), table_id: &TableId) -> Result<Arc<OpGraph>, StoreError> {
    let mut ids = BTreeSet::new();
    let prefix = Key::new().id(table_id.as_bytes()).kind(EntryKind::TableOp);
    for key in rows.keys(&BY_TABLE, &prefix, usize::MAX)? {
        ids.insert(record_at_end(&BY_TABLE, &key)?);
    }
    if ids.is_empty() {
        return Ok(Arc::default());
    }
    let cached = |of: &BTreeSet<RecordId>| {
        let cache = rows.columns_cache().lock().unwrap_or_else(PoisonError::into_inner);
        let (known, graph) = cache.graphs.get(table_id)?;
        (known == of).then(|| graph.clone())
    };
    if let Some(graph) = cached(&ids) {
        return Ok(graph);
    }
    let mut ops = Vec::with_capacity(ids.len());
    for id in &ids {
        ops.push((*id, body::of::<TableOp>(rows, id)?));
    }
    let graph = Arc::new(OpGraph::of(ops));
    let mut cache = rows.columns_cache().lock().unwrap_or_else(PoisonError::into_inner);
    cache.graphs.insert(*table_id, (ids, graph.clone()));
    Ok(graph)
}

/// Every version of a table's columns: the founding one, and for each op what its author had seen with it. What an op counts for
/// makes no difference here: rows of others, written with its columns while it counted, stay readable when its author is cut off.
pub(crate) fn versions(
    rows: &(impl Rows + ?Sized),
    record: &RecordId,
    genesis: &TableGenesis,
    graph: &OpGraph,
) -> Versions {
    let mut versions = Versions::new();
    for op in std::iter::once(record).chain(graph.known()) {
        let known = {
            let cache = rows.columns_cache().lock().unwrap_or_else(PoisonError::into_inner);
            cache.versions.get(&(*record, *op)).cloned()
        };
        let version = known.unwrap_or_else(|| {
            let version = Arc::new(columns_at(genesis, graph, &graph.ancestry([op])));
            let mut cache = rows.columns_cache().lock().unwrap_or_else(PoisonError::into_inner);
            if cache.versions.len() >= MAX_CACHED {
                cache.versions.clear();
            }
            cache.versions.insert((*record, *op), version.clone());
            version
        });
        versions.insert(version.fingerprint(), version);
    }
    versions
}

/// The columns of a table now, for people, queries and writers.
pub(crate) fn current(
    rows: &(impl Rows + ?Sized),
    record: &RecordId,
    genesis: &TableGenesis,
) -> Result<TableColumns, StoreError> {
    let graph = graph(rows, &genesis.table_id)?;
    let mut counted = BTreeSet::new();
    for op in graph.known() {
        if body::state(rows, op)?.is_some_and(EntryState::is_accepted) {
            counted.insert(*op);
        }
    }
    let versions = versions(rows, record, genesis, &graph);
    let schema = columns_at(genesis, &graph, &counted);
    // An op that counts vouches for what its author had seen, so a version is named by all of that; ops in it that do not count
    // have no part in the columns.
    let ancestry = graph.ancestry(&counted);
    let fingerprint = if ancestry == counted {
        schema.fingerprint()
    } else {
        columns_at(genesis, &graph, &ancestry).fingerprint()
    };
    let contradictions = versions
        .iter()
        .map(|(fingerprint, version)| (*fingerprint, version.contradictions(&schema)))
        .filter(|(_, ids)| !ids.is_empty());
    Ok(TableColumns {
        heads: graph.heads(&counted),
        fingerprint,
        is_version: versions.contains_key(&fingerprint),
        contradictions: contradictions.collect(),
        schema: Arc::new(schema),
    })
}
