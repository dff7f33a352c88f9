//! One statement from text to rows: a fresh session over one snapshot, bounded memory, no disk.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use async_trait::async_trait;
use datafusion::{
    catalog::{CatalogProvider, SchemaProvider, TableProvider},
    error::{DataFusionError, Result as DataFusionResult},
    execution::{
        SessionStateBuilder,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        memory_pool::GreedyMemoryPool,
        runtime_env::RuntimeEnvBuilder,
    },
    physical_plan::{ExecutionPlanProperties as _, displayable, execute_stream},
    prelude::{SQLOptions, SessionConfig, SessionContext},
};
use futures::StreamExt as _;

use super::{counters::Counters, errors, provider::Provider, scan::external, source::Tables, statement, uuid, views};
use crate::{
    api::{Coverage, RowSink, SqlColumn, SqlExplain, SqlReport, SqlRequest, WaitingObject},
    error::ApiError,
};

/// Name of the one catalogue; people never need it.
pub(super) const CATALOG: &str = "sovm";

/// Name of the schema that a bare table name means (DESIGN §16.6).
pub(super) const DEFAULT_SCHEMA: &str = "main";

/// What the scans of one statement share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) allow_incomplete: bool,
    pub(super) counters: Arc<Counters>,
    coverage: Mutex<Coverage>,
}

impl Shared {
    /// Notes that so many objects may hold rows that fit.
    pub(super) fn need(&self, objects: u64) {
        self.coverage
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .objects_needed += objects;
    }

    /// Notes an object that is not in the answer. A table that stands twice in a statement misses it once.
    pub(super) fn miss(&self, object: WaitingObject) {
        let mut coverage = self.coverage.lock().unwrap_or_else(PoisonError::into_inner);
        if !coverage
            .missing
            .iter()
            .any(|missing| missing.storage_id == object.storage_id)
        {
            coverage.missing.push(object);
        }
    }
}

/// Runs one read-only statement over the given tables, in at most so many bytes of memory; rows go to `rows` as they come.
pub async fn run(
    tables: Arc<dyn Tables>,
    request: &SqlRequest,
    memory_bytes: u64,
    rows: &dyn RowSink,
) -> Result<SqlReport, ApiError> {
    let started = Instant::now();
    let shared = Arc::new(Shared {
        allow_incomplete: request.allow_incomplete,
        counters: Arc::default(),
        coverage: Mutex::default(),
    });
    let context = context(tables.clone(), shared.clone(), memory_bytes)
        .map_err(|error| errors::translate(&error, memory_bytes))?;
    let translate = |error: DataFusionError| errors::translate(&error, memory_bytes);

    let parsed = statement::parse(&request.query)?;
    let state = context.state();
    statement::check_tables(&state, &parsed, tables.as_ref())?;
    let plan = state.statement_to_plan(parsed).await.map_err(translate)?;
    let plan = uuid::read_in_lists(plan).map_err(translate)?;
    // The second look: whatever the statement looked like, the plan may only read.
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
        .verify_plan(&plan)
        .map_err(translate)?;
    let frame = context.execute_logical_plan(plan).await.map_err(translate)?;
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await.map_err(translate)?;
    let text = request
        .explain
        .then(|| displayable(plan.as_ref()).indent(false).to_string());

    let schema = views::settled_schema(&plan.schema());
    let columns = schema
        .fields()
        .iter()
        .map(|field| SqlColumn {
            name: field.name().clone(),
            column_type: field.data_type().to_string(),
        })
        .collect();
    tracing::debug!(
        partitions = plan.output_partitioning().partition_count(),
        "statement planned"
    );
    if !request.explain {
        rows.schema(schema.clone()).await?;
    }
    let mut stream = execute_stream(plan, task).map_err(translate)?;
    let mut count = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(translate)?;
        count += batch.num_rows() as u64;
        if !request.explain && batch.num_rows() > 0 {
            let batch = views::settled(&batch, &schema).map_err(|error| translate(error.into()))?;
            rows.batch(batch).await?;
        }
    }
    // Tasks of the scans hold what they share until they are gone.
    drop(stream);
    let coverage = std::mem::take(&mut *shared.coverage.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(SqlReport {
        columns,
        rows: count,
        elapsed_ms: started.elapsed().as_millis() as u64,
        explain: text.map(|plan| SqlExplain {
            plan,
            scan: shared.counters.counts(),
        }),
        coverage: request.allow_incomplete.then_some(coverage),
    })
}

fn context(tables: Arc<dyn Tables>, shared: Arc<Shared>, memory_bytes: u64) -> DataFusionResult<SessionContext> {
    let memory = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(memory)))
        // A spill file would be plaintext on disk (DESIGN §5).
        .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled))
        .build_arc()?;
    let config = SessionConfig::new()
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, DEFAULT_SCHEMA)
        .with_information_schema(true);
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_expr_planners(vec![Arc::new(uuid::UuidLiterals)])
        .with_default_features()
        .build();
    let context = SessionContext::new_with_state(state);
    context.register_catalog(CATALOG, Arc::new(Catalog { tables, shared }));
    Ok(context)
}

/// The tables of a node, as the engine looks them up.
#[derive(Debug)]
struct Catalog {
    tables: Arc<dyn Tables>,
    shared: Arc<Shared>,
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .tables
            .names()
            .unwrap_or_default()
            .into_iter()
            .map(|(schema, _)| schema)
            .collect();
        names.push(DEFAULT_SCHEMA.to_owned());
        names.sort_unstable();
        names.dedup();
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if !self.schema_names().iter().any(|known| known == name) {
            return None;
        }
        Some(Arc::new(Schema {
            name: name.to_owned(),
            tables: self.tables.clone(),
            shared: self.shared.clone(),
        }))
    }
}

struct Schema {
    name: String,
    tables: Arc<dyn Tables>,
    shared: Arc<Shared>,
}

#[async_trait]
impl SchemaProvider for Schema {
    fn table_names(&self) -> Vec<String> {
        let names = self.tables.names().unwrap_or_default();
        names
            .into_iter()
            .filter(|(schema, _)| *schema == self.name)
            .map(|(_, table)| table)
            .collect()
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        let Some(source) = self.tables.table(&self.name, name).await.map_err(external)? else {
            return Ok(None);
        };
        let shown = if self.name == DEFAULT_SCHEMA {
            name.to_owned()
        } else {
            format!("{}.{name}", self.name)
        };
        let provider = Provider::new(shown, source, self.shared.clone()).map_err(external)?;
        Ok(Some(Arc::new(provider)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|known| known == name)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}
