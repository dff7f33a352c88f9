//! Which objects lie in a partition that the filters ask for, by the partition values of their manifests (SOP-176).

use sovm_object::{
    key::Value,
    partition::partition_value,
    record::{ColumnStats, ObjectManifest},
    types::Column,
};

use super::{
    pushdown::{Condition, Stated},
    source::TableSource,
};

/// The partition columns that some filter tests.
pub(super) struct Partition {
    /// Under their physical names, by field id.
    columns: Vec<Column>,
}

impl Partition {
    pub(super) fn asked(condition: &Condition, source: &dyn TableSource) -> Self {
        let mut ids = Vec::new();
        condition.columns(&mut ids);
        let column = |(id, name): &(i32, String)| {
            let asked = ids.contains(id);
            let column = source.columns().iter().find(|column| asked && column.field_id == *id)?;
            Some(Column {
                name: name.clone(),
                ..column.clone()
            })
        };
        let mut columns: Vec<Column> = source.partition_columns().iter().filter_map(column).collect();
        columns.sort_by_key(|column| column.field_id);
        Self { columns }
    }

    /// Whether an object may hold a row that fits: all its rows have the values its manifest lists.
    pub(super) fn may_match(&self, manifest: &ObjectManifest, condition: &Condition) -> bool {
        if self.columns.is_empty() {
            return true;
        }
        let columns: Vec<ColumnStats> = self
            .columns
            .iter()
            .filter_map(|column| stated(column, manifest))
            .collect();
        condition.may_match(Stated {
            rows: manifest.row_count,
            columns: &columns,
            time: None,
        })
    }
}

/// The partition's value as bounds; `None` when the manifest lists none that can be understood, which excludes nothing.
fn stated(column: &Column, manifest: &ObjectManifest) -> Option<ColumnStats> {
    let text = manifest.partition_values.as_ref()?.0.get(&column.name)?;
    let value = partition_value(column, text.as_deref()).ok()?;
    let (bound, null_count) = match value {
        Value::Null => (None, manifest.row_count),
        value => (Some(value.to_bytes()), 0),
    };
    Some(ColumnStats {
        field_id: column.field_id,
        min: bound.clone(),
        max: bound,
        null_count,
        min_exact: true,
        max_exact: true,
        has_nan: false,
    })
}
