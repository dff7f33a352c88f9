//! Tables in memory over objects that `sovm_object` really made.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex},
};

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::SchemaRef,
    util::pretty::pretty_format_batches,
};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::{datasource::MemTable, prelude::SessionContext};
use sovm_object::{
    hlc::Hlc,
    id::{KeyRef, MeshId, SiteId, StorageId, TableId},
    pme::{EncodeOptions, Encoded, RandomNonces},
    record::{ObjectKind, ObjectManifest, Profile, manifest::PartitionValues},
    secret::Dek,
    stats::StatsBuilder,
    types::{Column, ColumnType, schema_of_columns},
    verified::{MemoryObject, ReadError, VerifiedBytes, VerifiedRead},
};

use super::super::{ObjectBytes, ObjectFault, Readiness, ScanObject, TableSource, Tables, adapt::plain_schema, run};
use crate::{
    api::{ObjectState, RowSink, SqlReport, SqlRequest},
    error::ApiError,
};

/// Rows of a row group in every test object, so that a few hundred rows make several.
pub(super) const ROW_GROUP_ROWS: usize = 100;

/// Objects as a disk holds them: bytes that may have been damaged since.
#[derive(Debug, Default)]
pub(super) struct Disk(Mutex<BTreeMap<StorageId, Bytes>>);

impl Disk {
    fn object(&self, id: StorageId) -> Result<MemoryObject, ReadError> {
        let bytes = self
            .0
            .lock()
            .unwrap()
            .get(&id)
            .cloned()
            .ok_or(ReadError::Missing { id })?;
        MemoryObject::verify(id, bytes)
    }

    pub(super) fn flip(&self, id: StorageId, at: usize) {
        let mut objects = self.0.lock().unwrap();
        let mut bytes = objects[&id].to_vec();
        bytes[at] ^= 1;
        objects.insert(id, bytes.into());
    }

    pub(super) fn remove(&self, id: StorageId) {
        self.0.lock().unwrap().remove(&id);
    }

    pub(super) fn len(&self, id: StorageId) -> usize {
        self.0.lock().unwrap()[&id].len()
    }
}

impl VerifiedRead for Disk {
    async fn size(&self, id: StorageId) -> Result<u64, ReadError> {
        VerifiedRead::size(&self.object(id)?, id).await
    }

    async fn read(&self, id: StorageId, ranges: &[Range<u64>]) -> Result<Vec<VerifiedBytes>, ReadError> {
        VerifiedRead::read(&self.object(id)?, id, ranges).await
    }
}

/// One table.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) objects: Vec<ScanObject>,
    pub(super) time: Option<i32>,
    /// Ids that are another column's in the object.
    pub(super) foreign: BTreeMap<StorageId, Vec<i32>>,
    pub(super) partition: Vec<(i32, String)>,
    pub(super) disk: Arc<Disk>,
    keys: BTreeMap<StorageId, [u8; 32]>,
    pub(super) faults: Mutex<Vec<(StorageId, ObjectFault)>>,
}

impl Table {
    pub(super) fn new(columns: Vec<Column>) -> Self {
        Self {
            columns,
            ..Self::default()
        }
    }

    /// Publishes rows as one object, written with the columns the table has now.
    pub(super) fn publish(&mut self, arrays: Vec<ArrayRef>) -> StorageId {
        let schema = Arc::new(schema_of_columns(&self.columns).unwrap());
        let batch = RecordBatch::try_new(schema.clone(), arrays).unwrap();
        let dek = Dek::generate();
        let options = EncodeOptions {
            row_group_rows: ROW_GROUP_ROWS,
            ..EncodeOptions::default()
        };
        let sealed = Encoded::new(schema, [&batch], options)
            .unwrap()
            .encrypt(&dek, &mut RandomNonces::default())
            .unwrap()
            .with_key_ref(KeyRef::from_bytes([7; 16]))
            .pad()
            .unwrap()
            .seal()
            .unwrap();
        let prunable: Vec<&Column> = self
            .columns
            .iter()
            .filter(|column| column.parent.is_none() && column.ty.is_prunable())
            .collect();
        let mut stats = StatsBuilder::new(&prunable).unwrap();
        stats.update(&batch).unwrap();
        let manifest = ObjectManifest {
            mesh_id: MeshId::from_bytes([1; 32]),
            kind: ObjectKind::Data,
            storage_id: sealed.storage_id,
            table_schema: Some("main".into()),
            table_name: Some("t".into()),
            schema_fingerprint: None,
            producer: SiteId::from_bytes([2; 32]),
            producer_mls_epoch: 0,
            created_hlc: Hlc::default(),
            row_count: batch.num_rows() as u64,
            exact_byte_size: sealed.exact_byte_size,
            partition_values: Some(PartitionValues::default()),
            pruning_statistics: Some(stats.finish()),
            key_ref: sealed.key_ref,
            supersedes: vec![],
            row_id_filter: None,
            time_range: None,
            dek_commitment: dek.commitment(),
            seq: 1,
            ops_seen: vec![],
            delete_id_filter: None,
            delete_key_bounds: None,
            sources: None,
            tombstone_refs: None,
            profile: Profile::Pme1,
            row_set_digest: None,
            table_id: Some(TableId::from_bytes([3; 16])),
            adopts: None,
        };
        self.objects.push(ScanObject {
            manifest: Arc::new(manifest),
            readiness: Readiness::Ready,
        });
        self.keys.insert(sealed.storage_id, *dek.expose_for_sealing());
        self.disk.0.lock().unwrap().insert(sealed.storage_id, sealed.bytes);
        sealed.storage_id
    }

    /// Changes the manifest of the last object, as a producer that lies would sign it.
    pub(super) fn forge(&mut self, change: impl FnOnce(&mut ObjectManifest)) {
        let object = self.objects.last_mut().unwrap();
        let mut manifest = ObjectManifest::clone(&object.manifest);
        change(&mut manifest);
        object.manifest = Arc::new(manifest);
    }

    /// Makes the only object's manifest name an object of another table, whose key this table does not have.
    pub(super) fn alias(&mut self, from: StorageId, to: StorageId, other: &Self) {
        self.disk
            .0
            .lock()
            .unwrap()
            .insert(to, other.disk.0.lock().unwrap()[&to].clone());
        self.keys.insert(to, self.keys[&from]);
        self.forge(|manifest| manifest.storage_id = to);
    }

    /// Says that the bytes of an object are not here.
    pub(super) fn lose(&mut self, index: usize) {
        self.objects[index].readiness = Readiness::Waiting {
            state: ObjectState::PendingBytes,
            reason: "asked nobody yet".into(),
            next_try_ms: None,
        };
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::new(plain_schema(&schema_of_columns(&self.columns).unwrap()))
    }
}

#[async_trait]
impl TableSource for Table {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn time_column(&self) -> Option<i32> {
        self.time
    }

    fn foreign_columns(&self, manifest: &ObjectManifest) -> &[i32] {
        self.foreign.get(&manifest.storage_id).map_or(&[], Vec::as_slice)
    }

    fn partition_columns(&self) -> &[(i32, String)] {
        &self.partition
    }

    async fn objects(&self) -> Result<Vec<ScanObject>, ApiError> {
        Ok(self.objects.clone())
    }

    async fn dek(&self, id: StorageId) -> Result<Dek, ApiError> {
        Ok(Dek::from_bytes(self.keys[&id]))
    }

    fn bytes(&self) -> Arc<dyn ObjectBytes> {
        self.disk.clone()
    }

    fn report(&self, id: StorageId, fault: &ObjectFault) {
        self.faults.lock().unwrap().push((id, *fault));
    }
}

/// The tables of one node.
#[derive(Debug, Default)]
pub(super) struct Node(BTreeMap<(String, String), Arc<Table>>);

impl Node {
    pub(super) fn with(mut self, schema: &str, name: &str, table: Arc<Table>) -> Self {
        self.0.insert((schema.to_owned(), name.to_owned()), table);
        self
    }
}

#[async_trait]
impl Tables for Node {
    fn names(&self) -> Result<Vec<(String, String)>, ApiError> {
        Ok(self.0.keys().cloned().collect())
    }

    async fn table(&self, schema: &str, name: &str) -> Result<Option<Arc<dyn TableSource>>, ApiError> {
        Ok(self
            .0
            .get(&(schema.to_owned(), name.to_owned()))
            .map(|table| table.clone() as Arc<dyn TableSource>))
    }
}

/// Keeps the rows of an answer.
#[derive(Default)]
pub(super) struct Collected(Mutex<(Option<SchemaRef>, Vec<RecordBatch>)>);

#[async_trait]
impl RowSink for Collected {
    async fn schema(&self, schema: SchemaRef) -> Result<(), ApiError> {
        self.0.lock().unwrap().0 = Some(schema);
        Ok(())
    }

    async fn batch(&self, batch: RecordBatch) -> Result<(), ApiError> {
        self.0.lock().unwrap().1.push(batch);
        Ok(())
    }
}

/// How a test runs a statement.
#[derive(Clone, Copy)]
pub(super) struct QueryOptions {
    pub(super) memory_bytes: u64,
    pub(super) allow_incomplete: bool,
    pub(super) explain: bool,
}

pub(super) const PLAIN: QueryOptions = QueryOptions {
    memory_bytes: 256 << 20,
    allow_incomplete: false,
    explain: false,
};

/// An answer as sorted lines of text, and its report.
pub(super) async fn query_on(
    node: Node,
    sql: &str,
    options: QueryOptions,
) -> Result<(Vec<String>, SqlReport), ApiError> {
    let rows = Collected::default();
    let request = SqlRequest {
        query: sql.to_owned(),
        explain: options.explain,
        allow_incomplete: options.allow_incomplete,
        memory: None,
    };
    let report = run(Arc::new(node), &request, options.memory_bytes, &rows).await?;
    let (schema, batches) = rows.0.into_inner().unwrap();
    for batch in &batches {
        assert_eq!(Some(batch.schema()), schema, "every batch has the announced columns");
    }
    Ok((lines(&batches), report))
}

pub(super) async fn query(
    table: &Arc<Table>,
    sql: &str,
    options: QueryOptions,
) -> Result<(Vec<String>, SqlReport), ApiError> {
    query_on(Node::default().with("main", "t", table.clone()), sql, options).await
}

pub(super) async fn rows(table: &Arc<Table>, sql: &str) -> Vec<String> {
    query(table, sql, PLAIN)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error:?}"))
        .0
}

/// The same statement over the same rows in plain DataFusion.
pub(super) async fn plain_rows(schema: SchemaRef, batches: Vec<RecordBatch>, sql: &str) -> Vec<String> {
    let context = SessionContext::new();
    context
        .register_table("t", Arc::new(MemTable::try_new(schema, vec![batches]).unwrap()))
        .unwrap();
    lines(&context.sql(sql).await.unwrap().collect().await.unwrap())
}

fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let text = pretty_format_batches(batches).unwrap().to_string();
    // Widths of the frame depend on nothing but the values.
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    lines.sort();
    lines
}

/// A table of one `int64` column `n` with one object of each list.
pub(super) fn numbers(objects: &[(i64, i64)]) -> Table {
    let mut table = Table::new(vec![Column::new(1, "n", ColumnType::Int64, true)]);
    for (from, to) in objects {
        table.publish(vec![Arc::new(arrow::array::Int64Array::from_iter_values(*from..*to))]);
    }
    table
}
