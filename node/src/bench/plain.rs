//! What the scans are compared with: DataFusion over plain Parquet.
//!
//! This build of DataFusion comes without its own Parquet source, so this is one: the reader that source is made of
//! (`ParquetRecordBatchStream`), with the same decisions. Footers are read once when the table is registered, row groups
//! are ruled out by DataFusion's own pruning predicate over their statistics, the rest are shared among the partitions,
//! only projected columns are read, text comes as views, and a partition decodes where it is asked for rows. It reads the file
//! straight from the page cache, without the object store in between.

use std::{collections::HashSet, fmt, fs::File, ops::Range, path::Path, sync::Arc};

use arrow::{
    array::{ArrayRef, BooleanArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{Column, DFSchema, Result, ScalarValue, internal_err, tree_node::TreeNodeRecursion},
    error::DataFusionError,
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::{Expr, TableProviderFilterPushDown, TableType, utils::conjunction},
    physical_expr::EquivalenceProperties,
    physical_optimizer::pruning::{PruningPredicateBuilder, PruningStatistics},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
        ReplaceChildrenOptions,
        execution_plan::{Boundedness, EmissionType},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use parquet::{
    arrow::{
        ParquetRecordBatchStreamBuilder, ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, statistics::StatisticsConverter},
        async_reader::AsyncFileReader,
    },
    errors::ParquetError,
    file::metadata::{ParquetMetaData, RowGroupMetaData},
};

/// A plain Parquet file as a table.
#[derive(Debug)]
pub(super) struct PlainTable {
    file: Arc<File>,
    metadata: ArrowReaderMetadata,
}

impl PlainTable {
    /// Opens a file and reads its footer.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)?;
        let found = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(outside)?;
        // As DataFusion does by default: text and bytes as views.
        let viewed = found.schema().fields().iter().map(|field| match field.data_type() {
            DataType::Utf8 => Arc::new(Field::new(field.name(), DataType::Utf8View, field.is_nullable())),
            _ => field.clone(),
        });
        let schema = Arc::new(Schema::new(viewed.collect::<Vec<_>>()));
        let options = ArrowReaderOptions::new().with_schema(schema);
        let metadata = ArrowReaderMetadata::try_new(found.metadata().clone(), options).map_err(outside)?;
        Ok(Self {
            file: Arc::new(file),
            metadata,
        })
    }

    /// Row groups that may hold rows that fit.
    fn choose(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<usize>> {
        let groups = self.metadata.metadata().row_groups();
        let all = (0..groups.len()).collect();
        let Some(filter) = conjunction(filters.to_vec()) else {
            return Ok(all);
        };
        let schema = self.metadata.schema().clone();
        let filter = state.create_physical_expr(filter, &DFSchema::try_from(schema.clone())?)?;
        let predicate = PruningPredicateBuilder::new()
            .with_file_schema(schema.clone())
            .try_build(filter)?;
        let statistics = GroupStatistics {
            metadata: &self.metadata,
            groups,
        };
        let keep = predicate.prune(&statistics)?;
        Ok((0..groups.len()).filter(|group| keep[*group]).collect())
    }
}

/// Statistics of row groups in the form of DataFusion's predicate.
struct GroupStatistics<'a> {
    metadata: &'a ArrowReaderMetadata,
    groups: &'a [RowGroupMetaData],
}

impl GroupStatistics<'_> {
    fn converter(&self, column: &Column) -> Option<StatisticsConverter<'_>> {
        StatisticsConverter::try_new(
            &column.name,
            self.metadata.schema(),
            self.metadata.metadata().file_metadata().schema_descr(),
        )
        .ok()
    }
}

impl PruningStatistics for GroupStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.converter(column)?.row_group_mins(self.groups).ok()
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.converter(column)?.row_group_maxes(self.groups).ok()
    }

    fn num_containers(&self) -> usize {
        self.groups.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let counts = self.converter(column)?.row_group_null_counts(self.groups).ok()?;
        Some(Arc::new(counts))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

#[async_trait]
impl TableProvider for PlainTable {
    fn schema(&self) -> SchemaRef {
        self.metadata.schema().clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let row_groups = self.choose(state, filters)?;
        let schema = match projection {
            Some(indices) => Arc::new(self.schema().project(indices)?),
            None => self.schema(),
        };
        let descriptor = self.metadata.metadata().file_metadata().schema_descr();
        let mask = match projection {
            Some(indices) => ProjectionMask::roots(descriptor, indices.iter().copied()),
            None => ProjectionMask::all(),
        };
        // Runs of row groups of about equal length, one a partition.
        let count = state.config().target_partitions().min(row_groups.len()).max(1);
        let share = row_groups.len().div_ceil(count).max(1);
        let mut shares: Vec<Vec<usize>> = row_groups.chunks(share).map(<[usize]>::to_vec).collect();
        if shares.is_empty() {
            shares.push(Vec::new());
        }
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(shares.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(PlainScan {
            file: self.file.clone(),
            metadata: self.metadata.clone(),
            mask,
            shares,
            batch_size: state.config().batch_size(),
            schema,
            properties: Arc::new(properties),
        }))
    }
}

/// Reads the row groups that are left.
struct PlainScan {
    file: Arc<File>,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    shares: Vec<Vec<usize>>,
    batch_size: usize,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl ExecutionPlan for PlainScan {
    fn name(&self) -> &'static str {
        "PlainParquet"
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
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(row_groups) = self.shares.get(partition) else {
            return internal_err!("no such partition");
        };
        let source = PlainFile {
            file: self.file.clone(),
            metadata: self.metadata.metadata().clone(),
        };
        let rows = ParquetRecordBatchStreamBuilder::new_with_metadata(source, self.metadata.clone())
            .with_projection(self.mask.clone())
            .with_row_groups(row_groups.clone())
            .with_batch_size(self.batch_size)
            .build()
            .map_err(outside)?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema.clone(),
            rows.map(|batch| batch.map_err(outside)),
        )))
    }
}

impl DisplayAs for PlainScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlainParquet: partitions={}", self.shares.len())
    }
}

impl fmt::Debug for PlainScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

/// This build of DataFusion does not know the errors of Parquet.
fn outside(error: ParquetError) -> DataFusionError {
    DataFusionError::External(error.into())
}

/// Ranges of a file in the page cache.
struct PlainFile {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
}

impl AsyncFileReader for PlainFile {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        std::future::ready(read(&self.file, range)).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        std::future::ready(Ok(self.metadata.clone())).boxed()
    }
}

fn read(file: &File, range: Range<u64>) -> parquet::errors::Result<Bytes> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    read_exact_at(file, &mut bytes, range.start).map_err(|error| ParquetError::External(error.into()))?;
    Ok(bytes.into())
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => {
                bytes = &mut bytes[read..];
                offset += read as u64;
            }
        }
    }
    Ok(())
}
