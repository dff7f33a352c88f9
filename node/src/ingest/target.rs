//! The columns that batches are made for, resolved once per command.

use std::{collections::HashMap, sync::Arc};

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use sovm_object::types::{Column, ColumnNode, ColumnType, ColumnsError, tree};

/// Top-level columns in table order.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) columns: Vec<TargetColumn>,
    pub(super) schema: SchemaRef,
    by_name: HashMap<String, usize>,
}

/// One column with its children.
#[derive(Clone, Debug)]
pub(super) struct TargetColumn {
    pub(super) name: String,
    pub(super) ty: ColumnType,
    pub(super) nullable: bool,
    pub(super) field: FieldRef,
    pub(super) children: Vec<Self>,
}

impl Target {
    pub(super) fn new(columns: &[Column]) -> Result<Self, ColumnsError> {
        let columns: Vec<TargetColumn> = tree(columns)?.iter().map(TargetColumn::new).collect();
        let schema = Schema::new(columns.iter().map(|column| column.field.clone()).collect::<Vec<_>>());
        let by_name = columns
            .iter()
            .enumerate()
            .map(|(index, column)| (column.name.clone(), index))
            .collect();
        Ok(Self {
            columns,
            schema: Arc::new(schema),
            by_name,
        })
    }

    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The names, as an error lists them.
    pub(super) fn names(&self) -> String {
        list_names(self.columns.iter().map(|column| column.name.as_str()))
    }
}

/// Names with commas; long lists are cut.
pub(super) fn list_names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const MOST: usize = 12;
    let more = names.len().saturating_sub(MOST);
    let shown: Vec<&str> = names.take(MOST).collect();
    let rest = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{}{rest}", shown.join(", "))
}

impl TargetColumn {
    fn new(node: &ColumnNode<'_>) -> Self {
        Self {
            name: node.column.name.clone(),
            ty: node.column.ty,
            nullable: node.column.nullable,
            field: node.field(),
            children: node.children.iter().map(Self::new).collect(),
        }
    }
}
