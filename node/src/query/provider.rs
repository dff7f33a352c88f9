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
use sovm_object::{record::ObjectManifest, types::schema_of_columns};

use super::{
    adapt::plain_schema,
    counters::Counters,
    object::Wanted,
    partition::Partition,
    pushdown::{Condition, Stated},
    scan::{ScanExec, external},
    session::Shared,
    source::{ScanObject, TableSource},
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
        let needed: Vec<&ScanObject> = objects
            .iter()
            .filter(|object| {
                let manifest = &object.manifest;
                condition.may_match(stated(manifest, time_column)) && partition.may_match(manifest, condition)
            })
            .collect();
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

fn stated(manifest: &ObjectManifest, time_column: Option<i32>) -> Stated<'_> {
    Stated {
        rows: manifest.row_count,
        columns: manifest.pruning_statistics.as_deref().unwrap_or_default(),
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
        // With a limit one object after the other: the first may be enough.
        let partitions = if limit.is_some() {
            1
        } else {
            state.config().target_partitions()
        };
        let groups = spread(objects, partitions);
        Ok(Arc::new(ScanExec::new(
            self.name.clone(),
            wanted,
            self.shared.clone(),
            groups,
            limit,
        )))
    }
}

/// Objects in at most `partitions` groups of about equal bytes; at least one group, so that there is a partition.
fn spread(objects: Vec<Arc<ObjectManifest>>, partitions: usize) -> Vec<Vec<Arc<ObjectManifest>>> {
    let count = partitions.min(objects.len()).max(1);
    let mut groups = vec![(0_u64, Vec::new()); count];
    for object in objects {
        if let Some((bytes, group)) = groups.iter_mut().min_by_key(|(bytes, _)| *bytes) {
            *bytes = bytes.saturating_add(object.exact_byte_size);
            group.push(object);
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").finish_non_exhaustive()
    }
}
