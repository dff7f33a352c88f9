//! The plan node that reads objects: one partition a group of objects, rows in the order they come.
//!
//! It states no statistics whatsoever, so that the engine has nothing to answer from but rows (SOP-98, SOP-99).

use std::{fmt, sync::Arc};

use datafusion::{
    common::{Result, internal_err, tree_node::TreeNodeRecursion},
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
        stream::RecordBatchReceiverStreamBuilder,
    },
};
use sovm_object::record::ObjectManifest;
use tokio::sync::mpsc::Sender;

use super::{
    object::{ObjectError, OpenObject, Wanted},
    session::Shared,
};
use crate::{
    api::{ObjectState, WaitingObject},
    error::ApiError,
};

/// Batches between a scan and a slower reader.
const BATCHES_IN_FLIGHT: usize = 2;

/// Reads the rows of some objects.
pub(super) struct ScanExec {
    table: String,
    wanted: Arc<Wanted>,
    shared: Arc<Shared>,
    /// Objects of each partition.
    groups: Vec<Vec<Arc<ObjectManifest>>>,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl ScanExec {
    pub(super) fn new(
        table: String,
        wanted: Wanted,
        shared: Arc<Shared>,
        groups: Vec<Vec<Arc<ObjectManifest>>>,
        limit: Option<usize>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(wanted.schema.clone()),
            Partitioning::UnknownPartitioning(groups.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            table,
            wanted: Arc::new(wanted),
            shared,
            groups,
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
        let Some(objects) = self.groups.get(partition).cloned() else {
            return internal_err!(
                "a scan of {} partitions was asked for number {partition}",
                self.groups.len()
            );
        };
        let reader = Reader {
            wanted: self.wanted.clone(),
            shared: self.shared.clone(),
            memory: MemoryConsumer::new(format!("scan {partition}")).register(context.memory_pool()),
            left: self.limit,
        };
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.wanted.schema.clone(), BATCHES_IN_FLIGHT);
        let sender = stream.tx();
        stream.spawn(async move { reader.run(&objects, &sender).await });
        Ok(stream.build())
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects: usize = self.groups.iter().map(Vec::len).sum();
        let names: Vec<&str> = self.wanted.fields.iter().map(|field| field.name().as_str()).collect();
        write!(
            f,
            "SovmScan: table={}, objects={objects}, partitions={}, columns=[{}]",
            self.table,
            self.groups.len(),
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

type Batches = Sender<Result<arrow::array::RecordBatch>>;

/// Why a partition ended before its objects did.
enum Stop {
    /// The limit is reached, or nobody reads any more.
    Enough,
    Failed(DataFusionError),
    Object(ObjectError),
}

impl From<ObjectError> for Stop {
    fn from(error: ObjectError) -> Self {
        Self::Object(error)
    }
}

/// Works through the objects of one partition.
struct Reader {
    wanted: Arc<Wanted>,
    shared: Arc<Shared>,
    memory: MemoryReservation,
    left: Option<usize>,
}

impl Reader {
    async fn run(mut self, objects: &[Arc<ObjectManifest>], batches: &Batches) -> Result<()> {
        for manifest in objects {
            match self.object(manifest, batches).await {
                Ok(()) => {}
                Err(Stop::Enough) => return Ok(()),
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Object(error)) => self.failed(manifest, error)?,
            }
        }
        Ok(())
    }

    async fn object(&mut self, manifest: &ObjectManifest, batches: &Batches) -> Result<(), Stop> {
        let object = OpenObject::open(manifest, &self.wanted).await?;
        for row_group in object.row_groups() {
            // The fetched chunks stay in memory until the row group is done, beside their decrypted pages.
            let bytes = object.read_len(*row_group)?.saturating_mul(2);
            self.memory
                .try_resize(usize::try_from(bytes).unwrap_or(usize::MAX))
                .map_err(Stop::Failed)?;
            let mut rows = object.read(*row_group, &self.wanted).await?;
            while let Some(batch) = rows.next(&self.wanted) {
                self.send(batch?, batches).await?;
            }
        }
        self.memory.free();
        Ok(())
    }

    async fn send(&mut self, batch: arrow::array::RecordBatch, batches: &Batches) -> Result<(), Stop> {
        let batch = match &mut self.left {
            None => batch,
            Some(left) => {
                let taken = batch.num_rows().min(*left);
                *left -= taken;
                batch.slice(0, taken)
            }
        };
        if batch.num_rows() > 0 {
            batches.send(Ok(batch)).await.map_err(|_| Stop::Enough)?;
        }
        if self.left == Some(0) {
            Err(Stop::Enough)
        } else {
            Ok(())
        }
    }

    /// An object that cannot be read fails the query, or stands in the list of what is missing (SOP-92, SOP-266).
    fn failed(&self, manifest: &ObjectManifest, error: ObjectError) -> Result<()> {
        let fault = error.fault();
        if let Some(fault) = &fault {
            self.wanted.source.report(manifest.storage_id, fault);
        }
        let state = match fault {
            Some(super::source::ObjectFault::BytesGone) => ObjectState::PendingBytes,
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
