//! Ops applied in their one order.

use std::collections::BTreeSet;

use super::{OpGraph, SchemaColumn, TableSchema, widens};
use crate::{
    id::RecordId,
    record::{ColumnChange, ColumnDef, MAX_NAME_BYTES, TableGenesis, TableOp, table::MAX_COLUMNS},
};

/// The columns of a table when the ops in `counted` are all that count. Ops whose ancestors are not all in `graph` change nothing.
pub fn columns_at(genesis: &TableGenesis, graph: &OpGraph, counted: &BTreeSet<RecordId>) -> TableSchema {
    let founding = genesis.columns.iter().map(|def| SchemaColumn {
        def: def.clone(),
        name: def.name.clone(),
        dropped: false,
    });
    let mut replay = Replay {
        genesis,
        columns: founding.collect(),
    };
    let mut void = Vec::new();
    for (id, op) in graph.in_order(counted) {
        if op.table_id != genesis.table_id || !replay.apply(op) {
            void.push(id);
        }
    }
    make_names_distinct(&mut replay.columns);
    TableSchema::of(genesis, replay.columns, void)
}

struct Replay<'a> {
    genesis: &'a TableGenesis,
    columns: Vec<SchemaColumn>,
}

impl Replay<'_> {
    /// Applies an op; says whether the table now is as the op wants it.
    fn apply(&mut self, op: &TableOp) -> bool {
        match &op.change {
            ColumnChange::Join => true,
            ColumnChange::Add { name, ty } => op.added_field_id().is_some_and(|field_id| {
                self.add(ColumnDef {
                    field_id,
                    name: name.clone(),
                    ty: ty.to_string(),
                    nullable: true,
                    parent: None,
                })
            }),
            ColumnChange::Drop { field_id } => self.drop_column(*field_id),
            ColumnChange::Rename { field_id, name } => self.top(*field_id).is_some_and(|column| {
                column.name.clone_from(name);
                true
            }),
            ColumnChange::Widen { field_id, ty } => self.top(*field_id).is_some_and(|column| {
                let ty = ty.to_string();
                if widens(&column.def.ty, &ty) {
                    column.def.ty = ty;
                    return true;
                }
                // Somebody else widened it further already.
                widens(&ty, &column.def.ty)
            }),
        }
    }

    /// A top-level column that was not dropped.
    fn top(&mut self, field_id: i32) -> Option<&mut SchemaColumn> {
        self.columns
            .iter_mut()
            .find(|column| column.def.field_id == field_id && column.def.parent.is_none() && !column.dropped)
    }

    fn add(&mut self, def: ColumnDef) -> bool {
        let taken = self.columns.iter().any(|column| column.def.field_id == def.field_id);
        let live = self.columns.iter().filter(|column| !column.dropped).count();
        if taken || live >= MAX_COLUMNS {
            return false;
        }
        self.columns.push(SchemaColumn {
            name: def.name.clone(),
            def,
            dropped: false,
        });
        true
    }

    fn drop_column(&mut self, field_id: i32) -> bool {
        let known = |column: &&mut SchemaColumn| column.def.field_id == field_id && column.def.parent.is_none();
        let others = self
            .columns
            .iter()
            .any(|column| column.def.field_id != field_id && column.def.parent.is_none() && !column.dropped);
        let is_key = self.genesis.is_key(field_id);
        let Some(column) = self.columns.iter_mut().find(known) else {
            return false;
        };
        if is_key {
            return false;
        }
        if !others && !column.dropped {
            // Rows may have been written without it by whoever dropped it.
            column.def.nullable = true;
            return false;
        }
        column.dropped = true;
        // Children stand behind their parent.
        let mut gone = BTreeSet::from([field_id]);
        for column in &mut self.columns {
            if column.def.parent.is_some_and(|parent| gone.contains(&parent)) {
                gone.insert(column.def.field_id);
                column.dropped = true;
            }
        }
        true
    }
}

/// Of top-level columns that would be shown under one name, the first keeps it; the others bear their id behind it. Names that
/// differ in case alone are one name.
fn make_names_distinct(columns: &mut [SchemaColumn]) {
    let mut taken = BTreeSet::new();
    for column in columns
        .iter_mut()
        .filter(|column| !column.dropped && column.def.parent.is_none())
    {
        let wanted = std::mem::take(&mut column.name);
        let others = (1_u32..).map(|attempt| match attempt {
            1 => format!("~{}", column.def.field_id),
            more => format!("~{}.{more}", column.def.field_id),
        });
        let mut candidates = std::iter::once(String::new()).chain(others).map(|suffix| {
            let end = wanted.floor_char_boundary(MAX_NAME_BYTES - suffix.len());
            format!("{}{suffix}", &wanted[..end])
        });
        // Fewer names are taken than there are candidates.
        column.name = candidates
            .find(|name| taken.insert(name.to_lowercase()))
            .unwrap_or_default();
    }
}
