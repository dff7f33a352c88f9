//! The plan node that reads objects: its partitions share them row group by row group, rows in the order they come.
//!
//! While a partition decodes one row group, the next one is fetched, verified and decrypted. A partition decodes where it is
//! asked for rows, so that whatever consumes a batch finds it in this core's cache.
//!
//! It states no statistics whatsoever, so that the engine has nothing to answer from but rows (SOP-98, SOP-99).

use std::{fmt, sync::Arc};

use arrow::array::RecordBatch;
use datafusion::{
    common::{Result, internal_err, runtime::SpawnedTask, tree_node::TreeNodeRecursion},
    error::DataFusionError,
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_expr::EquivalenceProperties,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
        ReplaceChildrenOptions,
        execution_plan::{Boundedness, EmissionType},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::stream;
use sovm_object::record::ObjectManifest;

use super::{
    object::{ObjectError, Rows, Wanted},
    session::Shared,
    source::ObjectFault,
    work::{Executions, Unit, Work},
};
use crate::{
    api::{ObjectState, WaitingObject},
    error::ApiError,
};

/// Reads the rows of some objects.
pub(super) struct ScanExec {
    table: String,
    wanted: Arc<Wanted>,
    shared: Arc<Shared>,
    objects: Vec<Arc<ObjectManifest>>,
    executions: Executions,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl ScanExec {
    pub(super) fn new(
        table: String,
        wanted: Wanted,
        shared: Arc<Shared>,
        objects: Vec<Arc<ObjectManifest>>,
        partitions: usize,
        limit: Option<usize>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(wanted.schema.clone()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            table,
            wanted: Arc::new(wanted),
            shared,
            objects,
            executions: Executions::default(),
            limit,
            properties: Arc::new(properties),
        }
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &'static str {
        "SovmScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() {
            Ok(self)
        } else {
            internal_err!("a scan of objects has no input")
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() {
            Ok(self)
        } else {
            internal_err!("a scan of objects has no input")
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties.partitioning.partition_count();
        if partition >= partitions {
            return internal_err!("a scan of {partitions} partitions was asked for number {partition}");
        }
        let reader = Reader {
            wanted: self.wanted.clone(),
            shared: self.shared.clone(),
            work: self.executions.join(partition, &self.objects),
            at: None,
            decoding: None,
            coming: None,
            memory: MemoryConsumer::new(format!("scan {partition}")).register(context.memory_pool()),
            left: self.limit,
        };
        let rows = stream::unfold(Some(reader), |reader| async move {
            let mut reader = reader?;
            match reader.next().await {
                Ok(batch) => Some((Ok(batch?), Some(reader))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.wanted.schema.clone(),
            rows,
        )))
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.wanted.fields.iter().map(|field| field.name().as_str()).collect();
        write!(
            f,
            "SovmScan: table={}, objects={}, partitions={}, columns=[{}]",
            self.table,
            self.objects.len(),
            self.properties.partitioning.partition_count(),
            names.join(", ")
        )?;
        self.limit.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))
    }
}

impl fmt::Debug for ScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

/// The reading end of one partition.
struct Reader {
    wanted: Arc<Wanted>,
    shared: Arc<Shared>,
    work: Arc<Work>,
    /// The object this partition took last.
    at: Option<usize>,
    decoding: Option<Page>,
    /// The row group after it, being fetched.
    coming: Option<SpawnedTask<(Option<usize>, Fetched)>>,
    memory: MemoryReservation,
    left: Option<usize>,
}

/// A row group that is decoded batch by batch, and the memory it takes.
struct Page {
    slot: usize,
    rows: Rows,
    _memory: MemoryReservation,
}

/// What came of fetching the next row group.
enum Fetched {
    Page(Page),
    /// Memory is short beside what is decoded now.
    Short(Unit),
    /// An object that cannot be read, or not any further.
    Failed(usize, ObjectError),
    /// All row groups are taken.
    Nothing,
}

/// Takes a row group and fetches it. Returns the object it is of, too.
async fn fetch(
    work: Arc<Work>,
    wanted: Arc<Wanted>,
    mut at: Option<usize>,
    memory: MemoryReservation,
) -> (Option<usize>, Fetched) {
    let fetched = match work.next(&mut at, &wanted).await {
        Ok(None) => Fetched::Nothing,
        Err((slot, error)) => Fetched::Failed(slot, error),
        Ok(Some(unit)) if memory.try_resize(memory_of(&unit)).is_err() => Fetched::Short(unit),
        Ok(Some(unit)) => read(unit, &wanted, memory).await,
    };
    (at, fetched)
}

async fn read(unit: Unit, wanted: &Wanted, memory: MemoryReservation) -> Fetched {
    match unit.object.read(unit.row_group, wanted).await {
        Err(error) => Fetched::Failed(unit.slot, error),
        Ok(rows) => Fetched::Page(Page {
            slot: unit.slot,
            rows,
            _memory: memory,
        }),
    }
}

/// The decrypted chunks stay in memory until the row group is done, beside what is decoded of them.
fn memory_of(unit: &Unit) -> usize {
    // A row group without a plan says so when it is read.
    let bytes = unit.object.read_len(unit.row_group).unwrap_or_default();
    usize::try_from(bytes.saturating_mul(2)).unwrap_or(usize::MAX)
}

impl Reader {
    /// The next batch that is not empty.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.left != Some(0) {
            let Some(page) = &mut self.decoding else {
                if self.turn().await? {
                    continue;
                }
                break;
            };
            match page.rows.next(&self.wanted) {
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => return Ok(Some(self.limited(batch))),
                Some(Err(error)) => {
                    let slot = page.slot;
                    self.decoding = None;
                    self.failed(slot, error)?;
                }
                None => self.decoding = None,
            }
        }
        Ok(None)
    }

    fn limited(&mut self, batch: RecordBatch) -> RecordBatch {
        let Some(left) = &mut self.left else {
            return batch;
        };
        let taken = batch.num_rows().min(*left);
        *left -= taken;
        batch.slice(0, taken)
    }

    /// Turns to the next row group, and has the one after it fetched. False when there is none.
    async fn turn(&mut self) -> Result<bool> {
        let (at, mut fetched) = match self.coming.take() {
            Some(coming) => coming
                .join_unwind()
                .await
                .map_err(|error| external(ApiError::bug(error)))?,
            None => self.fetch().await,
        };
        self.at = at;
        if let Fetched::Short(unit) = fetched {
            // Nothing else is held any more; what does not fit now never will.
            let memory = self.memory.new_empty();
            memory.try_resize(memory_of(&unit))?;
            fetched = read(unit, &self.wanted, memory).await;
        }
        match fetched {
            Fetched::Page(page) => {
                self.decoding = Some(page);
                // A limit may need no more than this one.
                if self.left.is_none() {
                    self.coming = Some(SpawnedTask::spawn(self.fetch()));
                }
                Ok(true)
            }
            Fetched::Failed(slot, error) => self.failed(slot, error).map(|()| true),
            Fetched::Nothing | Fetched::Short(_) => Ok(false),
        }
    }

    fn fetch(&self) -> impl Future<Output = (Option<usize>, Fetched)> + Send + use<> {
        fetch(self.work.clone(), self.wanted.clone(), self.at, self.memory.new_empty())
    }

    /// An object that cannot be read fails the query, or stands in the list of what is missing (SOP-92, SOP-266).
    fn failed(&self, slot: usize, error: ObjectError) -> Result<()> {
        self.work.give_up(slot);
        let manifest = self.work.manifest(slot);
        let fault = error.fault();
        if let Some(fault) = &fault {
            self.wanted.source.report(manifest.storage_id, fault);
        }
        let state = match fault {
            Some(ObjectFault::BytesGone) => ObjectState::PendingBytes,
            _ => ObjectState::Quarantined,
        };
        let error = error.into_api(manifest.storage_id);
        if fault.is_none() || !self.shared.allow_incomplete {
            return Err(external(error));
        }
        self.shared.miss(WaitingObject {
            storage_id: manifest.storage_id.to_string(),
            state,
            reason: format!("{}; some of its rows may stand in the answer", error.message),
            next_try_ms: None,
        });
        Ok(())
    }
}

/// Carries one of our errors through the engine.
pub(super) fn external(error: ApiError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
