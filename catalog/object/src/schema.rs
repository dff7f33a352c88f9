//! The columns of a table, as a pure function of its founding record and of the set of ops on it (SOP part 2.4).
//!
//! Neither clocks nor the order of arrival are looked at. Ops stand in one order that everybody finds alike: by the length of the
//! longest chain of ops under them, then by record id. Applied in that order, each op finds a state in which it either has its
//! effect or is void. Since an op stands behind all ops its author had seen, only ops made apart can make each other void.

mod graph;
mod replay;

pub use self::{graph::OpGraph, replay::columns_at};
use crate::{
    id::{RecordId, SchemaFingerprint},
    record::{ColumnDef, TableGenesis},
    types::{Column, ColumnType, ColumnsError, columns_of_defs},
};

/// Columns with bounds in every manifest, those added later included. A founding record may name more of its own.
const PRUNING_COLUMNS: usize = 32;

/// One column a table has, or had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaColumn {
    /// As rows are written: physical name, and the type it was widened to.
    pub def: ColumnDef,
    /// The name people see.
    pub name: String,
    /// Whether it was dropped; its id stays taken (SOP-15).
    pub dropped: bool,
}

/// The columns of a table after some ops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// All columns there ever were: the founding ones in their order, then added ones in the order of ops.
    columns: Vec<SchemaColumn>,
    pruning: Vec<i32>,
    fingerprint: SchemaFingerprint,
    void: Vec<RecordId>,
}

impl TableSchema {
    /// Columns that are shown and written.
    pub fn live(&self) -> impl Iterator<Item = &SchemaColumn> {
        self.columns.iter().filter(|column| !column.dropped)
    }

    /// Columns that are shown and written, under the names people see.
    pub fn columns(&self) -> Result<Vec<Column>, ColumnsError> {
        let shown = self.live().map(|column| ColumnDef {
            name: column.name.clone(),
            ..column.def.clone()
        });
        columns_of_defs(&shown.collect::<Vec<_>>())
    }

    /// The top-level column people see under this name; one that differs in case is found when no other has it exactly.
    pub fn find(&self, name: &str) -> Option<&SchemaColumn> {
        let top = || self.live().filter(|column| column.def.parent.is_none());
        let folded = name.to_lowercase();
        top()
            .find(|column| column.name == name)
            .or_else(|| top().find(|column| column.name.to_lowercase() == folded))
    }

    /// A column by id, unless it was dropped.
    pub fn get(&self, field_id: i32) -> Option<&SchemaColumn> {
        self.live().find(|column| column.def.field_id == field_id)
    }

    /// Whether the id belongs to a column of this table, dropped ones included.
    pub fn knows(&self, field_id: i32) -> bool {
        self.columns.iter().any(|column| column.def.field_id == field_id)
    }

    /// Number of columns dropped, without those inside them.
    pub fn dropped(&self) -> usize {
        let dropped = |column: &&SchemaColumn| column.dropped && column.def.parent.is_none();
        self.columns.iter().filter(dropped).count()
    }

    /// Columns that get bounds in a manifest written now: those the founding record names, then added ones while there are fewer
    /// than 32.
    pub fn pruning(&self) -> &[i32] {
        &self.pruning
    }

    /// What a manifest of rows written with these columns says: BLAKE3 over ids, physical names and types, so that a new display
    /// name is no new version.
    pub const fn fingerprint(&self) -> SchemaFingerprint {
        self.fingerprint
    }

    /// Ops that had no effect, because others made apart from them came first.
    pub fn void(&self) -> &[RecordId] {
        &self.void
    }

    /// Ids that mean another column in rows of this version than in `current`. Rows of this version have no value for those: two
    /// ops took one id, and `current` gives it to the other.
    pub fn contradictions(&self, current: &Self) -> Vec<i32> {
        let other = |column: &&SchemaColumn| {
            current
                .get(column.def.field_id)
                .is_some_and(|now| now.def.name != column.def.name || !widens(&column.def.ty, &now.def.ty))
        };
        let ids = self.live().filter(other).map(|column| column.def.field_id);
        ids.collect()
    }

    fn of(genesis: &TableGenesis, columns: Vec<SchemaColumn>, void: Vec<RecordId>) -> Self {
        let live = || {
            columns
                .iter()
                .filter(|column| !column.dropped)
                .map(|column| &column.def)
        };
        let fingerprint = genesis.fingerprint_of(&live().cloned().collect());
        let founding = |id: &i32| genesis.columns.iter().any(|column| column.field_id == *id);
        let mut pruning: Vec<i32> = genesis.pruning.clone();
        pruning.retain(|id| live().any(|column| column.field_id == *id));
        for column in live() {
            if pruning.len() >= PRUNING_COLUMNS {
                break;
            }
            // Nested columns are never added.
            if !founding(&column.field_id) {
                pruning.push(column.field_id);
            }
        }
        Self {
            columns,
            pruning,
            fingerprint,
            void,
        }
    }
}

/// Whether values of one type by name are values of the other. Types this build does not know widen to themselves alone.
fn widens(from: &str, to: &str) -> bool {
    let parse = |name: &str| name.parse::<ColumnType>();
    from == to || matches!((parse(from), parse(to)), (Ok(from), Ok(to)) if from.widens_to(to))
}

#[cfg(test)]
mod tests;
