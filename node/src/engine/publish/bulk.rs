//! Many small objects at once: how a benchmark gets the table of thousands of objects that years of small ingests make.

use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use sovm_object::types::schema_of_columns;

use super::{super::core::Node, ObjectWriter, Ready};
use crate::error::{ApiError, ErrorKind};

/// Objects made durable at the same time.
const IN_FLIGHT: usize = 64;

impl Node {
    /// Publishes each batch as an object of its own, all in one step. The batches have the table's columns in its order.
    pub(crate) async fn publish_each(
        &self,
        table: &str,
        batches: impl Iterator<Item = Result<RecordBatch, ApiError>> + Send,
    ) -> Result<(), ApiError> {
        let core = &self.0;
        let view = core
            .lookup_table(table)?
            .ok_or_else(|| ApiError::new(ErrorKind::NotFound, format!("there is no table {table} here")))?;
        let target = &core.target_of(view)?;
        let finished = batches.map(|batch| {
            let mut writer = ObjectWriter::new(&target.genesis, &target.schema)?;
            let schema = Arc::new(schema_of_columns(writer.columns()).map_err(ApiError::bug)?);
            let rows = RecordBatch::try_new(schema, batch?.columns().to_vec()).map_err(ApiError::bug)?;
            let mut made = Vec::new();
            let mut keep = |object| {
                made.push(object);
                Ok(())
            };
            writer.write(&rows, &mut keep)?;
            writer.finish(&mut keep)?;
            made.pop()
                .filter(|_| made.is_empty())
                .ok_or_else(|| ApiError::bug("a batch that does not make one object"))
        });
        let ready: Vec<Ready> = stream::iter(finished)
            .map(|object| async move { core.make_durable(target, object?).await })
            .buffer_unordered(IN_FLIGHT)
            .try_collect()
            .await?;
        core.publish(target.genesis.domain_id, target, &ready).await
    }
}
