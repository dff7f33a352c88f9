//! A table as the SQL engine sees it: choose objects by manifest, refuse what is not here, plan the scan.

use std::{fmt, sync::Arc};

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::Result,
    logical_expr::{Expr, TableProviderFilterPushDown, TableType},
    physical_plan::ExecutionPlan,
};
use sovm_object::{
    pme::ROW_GROUP_ROWS,
    record::{ColumnStats, ObjectManifest},
    types::schema_of_columns,
};

use super::{
    adapt::plain_schema,
    counters::Counters,
    object::Wanted,
    partition::Partition,
    pushdown::{Condition, Stated},
    scan::{ScanExec, external},
    session::Shared,
    source::{ScanObject, TableSource},
    views::viewed,
};
use crate::{
    api::WaitingObject,
    error::{ApiError, ErrorKind},
};

/// Objects named in an error; a longer list helps nobody.
const NAMED_OBJECTS: usize = 5;

/// One table of one query.
pub(super) struct Provider {
    name: String,
    source: Arc<dyn TableSource>,
    /// With field ids.
    fields: Schema,
    /// What SQL sees.
    schema: SchemaRef,
    shared: Arc<Shared>,
}

impl Provider {
    pub(super) fn new(name: String, source: Arc<dyn TableSource>, shared: Arc<Shared>) -> Result<Self, ApiError> {
        let fields = schema_of_columns(source.columns()).map_err(|error| {
            ApiError::new(
                ErrorKind::Integrity,
                format!("the definition of table {name} cannot be used: {error}"),
            )
        })?;
        let fields = viewed(&fields);
        let schema = Arc::new(plain_schema(&fields));
        Ok(Self {
            name,
            source,
            fields,
            schema,
            shared,
        })
    }

    /// Objects that may hold rows that fit. One that is not here and would be needed fails the query, or is listed
    /// (SOP-266); one that cannot match is not missed (SOP-267).
    async fn choose(&self, condition: &Condition) -> Result<Vec<Arc<ObjectManifest>>, ApiError> {
        let objects = self.source.objects().await?;
        let counters = &self.shared.counters;
        Counters::add(&counters.objects_considered, objects.len() as u64);
        let time_column = self.source.time_column();
        let partition = Partition::asked(condition, self.source.as_ref());
        let may_match = |object: &&ScanObject| {
            let manifest = &object.manifest;
            let all = manifest.pruning_statistics.as_deref().unwrap_or_default();
            let foreign = self.source.foreign_columns(manifest);
            let by_bounds = if foreign.is_empty() {
                condition.may_match(stated(manifest, all, time_column))
            } else {
                // Bounds of another column say nothing about this one.
                let own = all.iter().filter(|stats| !foreign.contains(&stats.field_id));
                let own: Vec<ColumnStats> = own.cloned().collect();
                condition.may_match(stated(manifest, &own, time_column))
            };
            by_bounds && partition.may_match(manifest, condition)
        };
        let needed: Vec<&ScanObject> = objects.iter().filter(may_match).collect();
        Counters::add(&counters.objects_pruned, (objects.len() - needed.len()) as u64);
        self.shared.need(needed.len() as u64);
        let waiting: Vec<WaitingObject> = needed.iter().filter_map(|object| object.waiting()).collect();
        if !waiting.is_empty() && !self.shared.allow_incomplete {
            return Err(self.incomplete(&waiting, needed.len()));
        }
        waiting.into_iter().for_each(|object| self.shared.miss(object));
        Ok(needed
            .into_iter()
            .filter(|object| object.waiting().is_none())
            .map(|object| object.manifest.clone())
            .collect())
    }

    fn incomplete(&self, waiting: &[WaitingObject], needed: usize) -> ApiError {
        let mut named: Vec<String> = waiting
            .iter()
            .take(NAMED_OBJECTS)
            .map(|object| {
                let short: String = object.storage_id.chars().take(10).collect();
                format!("{short} ({}: {})", object.state.word(), object.reason)
            })
            .collect();
        if waiting.len() > NAMED_OBJECTS {
            named.push(format!("and {} more", waiting.len() - NAMED_OBJECTS));
        }
        ApiError::new(
            ErrorKind::Incomplete,
            format!(
                "{} of the {needed} objects that table {} needs here are not readable: {}",
                waiting.len(),
                self.name,
                named.join(", ")
            ),
        )
        .safe("nothing was answered, so nothing was answered wrongly")
        .next("sovm run fetches them, sovm status shows how far it is; --allow-incomplete answers from what is here")
    }
}

fn stated<'a>(manifest: &'a ObjectManifest, columns: &'a [ColumnStats], time_column: Option<i32>) -> Stated<'a> {
    Stated {
        rows: manifest.row_count,
        columns,
        time: time_column.zip(manifest.time_range.as_ref()),
    }
}

#[async_trait]
impl TableProvider for Provider {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Inexact at best: a filter chooses objects and row groups here, and is evaluated over the rows above (SOP-101).
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let of_filter = |filter: &&Expr| match Condition::of_filters(&[(*filter).clone()], self.source.columns()) {
            Condition::All(parts) if parts == [Condition::Unknown] => TableProviderFilterPushDown::Unsupported,
            _ => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(of_filter).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let condition = Condition::of_filters(filters, self.source.columns());
        let objects = self.choose(&condition).await.map_err(external)?;
        let (fields, schema) = match projection {
            Some(indices) => (
                indices
                    .iter()
                    .map(|index| self.fields.fields()[*index].clone())
                    .collect(),
                Arc::new(self.schema.project(indices)?),
            ),
            None => (self.fields.fields().to_vec(), self.schema.clone()),
        };
        let wanted = Wanted {
            source: self.source.clone(),
            fields,
            table_fields: self.fields.fields().clone(),
            schema,
            condition,
            batch_size: state.config().batch_size(),
            counters: self.shared.counters.clone(),
        };
        // With a limit one row group after the other: the first may be enough.
        let partitions = if limit.is_some() {
            1
        } else {
            partitions(&objects, state.config().target_partitions())
        };
        Ok(Arc::new(ScanExec::new(
            self.name.clone(),
            wanted,
            self.shared.clone(),
            objects,
            partitions,
            limit,
        )))
    }
}

/// At most `most` partitions, and no more than there are row groups by the manifests' figures, which decide about nothing
/// else here; at least one.
fn partitions(objects: &[Arc<ObjectManifest>], most: usize) -> usize {
    let row_groups = |object: &Arc<ObjectManifest>| object.row_count.div_ceil(ROW_GROUP_ROWS as u64).max(1);
    let all = objects.iter().map(row_groups).fold(0, u64::saturating_add);
    usize::try_from(all).unwrap_or(usize::MAX).min(most).max(1)
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").finish_non_exhaustive()
    }
}
