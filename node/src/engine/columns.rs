//! Changing a table's columns: whether what is asked can be, and the op that says it (SOP part 2.4).

use sovm_catalog::{EntryState, Read as _, TableColumns, TableView};
use sovm_object::{
    id::RecordId,
    record::{ColumnChange, MAX_NAME_BYTES, TableGenesis, TableOp, table::MAX_COLUMNS, table_op::MAX_PARENTS},
    schema::{SchemaColumn, TableSchema},
    sign::Signed,
    types::{ColumnType, SOURCE_INDEX_COLUMN},
};

use super::{core::Core, tables::qualified_name};
use crate::{
    api::{AskedChange, TableAlterRequest, TableInfo},
    error::{ApiError, ErrorKind},
};

impl Core {
    /// `table add-column`, `drop-column`, `rename-column`, `widen-column`.
    pub(super) async fn alter_table(&self, request: TableAlterRequest) -> Result<TableInfo, ApiError> {
        let _step = self.step.lock().await;
        let view = self.read()?.find_table(None, &request.table)?;
        let table = &view.genesis;
        self.may_append(&table.domain_id)?;
        let change = plan(&view, &request.change)?;
        let kek = self.current_kek(&table.domain_id)?;
        let (joins, heads) = self.join_heads(table, view.columns.heads.clone(), MAX_PARENTS)?;
        let op = self.sign_table_op(table, &view.columns, heads, change)?;
        let mut txn = self.catalog.begin()?;
        for entry in joins.iter().chain([&op]) {
            txn.admit(entry.clone(), Some(kek), self.now_ms())?;
        }
        txn.settle()?;
        let state = txn.entry_state(&op.id())?;
        let after = txn.find_table(Some(&table.domain_id), &view.display_name)?;
        if !state.is_some_and(EntryState::is_accepted) || after.columns.schema.void().contains(&op.id()) {
            return Err(ApiError::bug("a change of columns that would change nothing"));
        }
        self.save(txn)?;
        self.told();
        self.describe_table(&request.table)
    }

    /// Signs a change made with knowledge of `parents`.
    fn sign_table_op(
        &self,
        table: &TableGenesis,
        columns: &TableColumns,
        parents: Vec<RecordId>,
        change: ColumnChange,
    ) -> Result<Signed<TableOp>, ApiError> {
        let ops_seen = self.heads(Some(table.domain_id))?;
        loop {
            let stamp = self.stamp()?;
            let op = TableOp {
                mesh_id: self.mesh(),
                table_id: table.table_id,
                domain_id: table.domain_id,
                change: change.clone(),
                parents: parents.clone(),
                issuer: self.me,
                seq: stamp.seq,
                ops_seen: ops_seen.clone(),
                hlc: stamp.hlc,
            };
            // The id of a new column follows from the counter; where it is taken, the next one gives another.
            if op.added_field_id().is_none_or(|id| !columns.schema.knows(id)) {
                return Ok(self.sign(op));
            }
        }
    }

    /// Joins ops that stand side by side until at most `most` heads are left; gives the joins and the heads.
    fn join_heads(
        &self,
        table: &TableGenesis,
        mut heads: Vec<RecordId>,
        most: usize,
    ) -> Result<(Vec<Signed<TableOp>>, Vec<RecordId>), ApiError> {
        let mut joins = Vec::new();
        while heads.len() > most.max(1) {
            let mut parents: Vec<RecordId> = heads.drain(..heads.len().min(MAX_PARENTS)).collect();
            parents.sort_unstable();
            let ops_seen = self.heads(Some(table.domain_id))?;
            let stamp = self.stamp()?;
            let join = self.sign(TableOp {
                mesh_id: self.mesh(),
                table_id: table.table_id,
                domain_id: table.domain_id,
                change: ColumnChange::Join,
                parents,
                issuer: self.me,
                seq: stamp.seq,
                ops_seen,
                hlc: stamp.hlc,
            });
            heads.push(join.id());
            joins.push(join);
        }
        heads.sort_unstable();
        Ok((joins, heads))
    }

    /// What makes one version of a table's columns, so that a manifest can name it; normally nothing.
    pub(super) fn join_versions(&self, view: &TableView) -> Result<Vec<Signed<TableOp>>, ApiError> {
        if view.columns.is_version {
            return Ok(Vec::new());
        }
        let (joins, _) = self.join_heads(&view.genesis, view.columns.heads.clone(), 1)?;
        Ok(joins)
    }
}

/// The change that is asked for, or why it cannot be.
fn plan(view: &TableView, asked: &AskedChange) -> Result<ColumnChange, ApiError> {
    let table = Table {
        genesis: &view.genesis,
        schema: &view.columns.schema,
        name: word(&qualified_name(&view.genesis)),
    };
    match asked {
        AskedChange::AddColumn { name, column_type } => table.add(name, column_type),
        AskedChange::DropColumn { name } => table.drop_column(name),
        AskedChange::RenameColumn { name, to } => table.rename(name, to),
        AskedChange::WidenColumn { name, column_type } => table.widen(name, column_type),
    }
}

struct Table<'a> {
    genesis: &'a TableGenesis,
    schema: &'a TableSchema,
    /// As a command line takes it.
    name: String,
}

impl Table<'_> {
    fn add(&self, name: &str, column_type: &str) -> Result<ColumnChange, ApiError> {
        let ty = self.parse(column_type)?;
        if ty.is_nested() {
            return Err(refused(format!(
                "a {ty} cannot be added: only columns without others inside can"
            ))
            .next("make another table from a file that has it: sovm table create NAME --like FILE"));
        }
        self.check_new(name, None)?;
        if self.schema.live().count() >= MAX_COLUMNS {
            return Err(refused(format!("a table has at most {MAX_COLUMNS} columns"))
                .next(format!("sovm table drop-column {} COLUMN", self.name)));
        }
        Ok(ColumnChange::Add {
            name: name.to_owned(),
            ty,
        })
    }

    fn drop_column(&self, name: &str) -> Result<ColumnChange, ApiError> {
        let column = self.find(name)?;
        let field_id = column.def.field_id;
        let role = [
            (self.genesis.identity.contains(&field_id), "tells rows apart"),
            (
                self.genesis.partition.contains(&field_id),
                "splits the table into partitions",
            ),
            (self.genesis.time == Some(field_id), "carries the table's time"),
        ];
        if let Some((_, role)) = role.iter().find(|(has, _)| *has) {
            return Err(refused(format!("column {} {role}, so it stays", column.name))
                .next("make another table without it: sovm table create NAME --schema FILE"));
        }
        let top = self.schema.live().filter(|column| column.def.parent.is_none());
        if top.count() == 1 {
            return Err(refused(format!(
                "column {} is the last one, and a table has at least one",
                column.name
            ))
            .next(format!(
                "sovm table add-column {} NAME TYPE, then drop this one",
                self.name
            )));
        }
        Ok(ColumnChange::Drop { field_id })
    }

    fn rename(&self, name: &str, to: &str) -> Result<ColumnChange, ApiError> {
        let column = self.find(name)?;
        if column.name == to {
            return Err(
                ApiError::new(ErrorKind::Exists, format!("column {to} has this name already"))
                    .safe("nothing was changed")
                    .next(self.describe()),
            );
        }
        self.check_new(to, Some(column.def.field_id))?;
        Ok(ColumnChange::Rename {
            field_id: column.def.field_id,
            name: to.to_owned(),
        })
    }

    fn widen(&self, name: &str, column_type: &str) -> Result<ColumnChange, ApiError> {
        let to = self.parse(column_type)?;
        let column = self.find(name)?;
        let from: ColumnType = column.def.ty.parse().map_err(ApiError::bug)?;
        let name = &column.name;
        if from == to {
            return Err(
                ApiError::new(ErrorKind::Exists, format!("column {name} is {from} already"))
                    .safe("nothing was changed")
                    .next(self.describe()),
            );
        }
        if from.widens_to(to) {
            return Ok(ColumnChange::Widen {
                field_id: column.def.field_id,
                ty: to,
            });
        }
        let why = if to.widens_to(from) {
            format!("column {name} is {from}, and {to} would not hold all of its values")
        } else {
            format!("column {name} is {from}, which does not become {to}")
        };
        let can = match from.wider_names().as_slice() {
            [] => format!("{from} cannot be widened"),
            wider => format!("it can be widened to {}", wider.join(", ")),
        };
        let other = word(&format!("{name}_2"));
        Err(refused(format!("{why}; {can}")).next(format!(
            "a column of its own holds the other type: sovm table add-column {} {other} {}",
            self.name,
            word(&to.to_string())
        )))
    }

    /// The top-level column people see under this name.
    fn find(&self, name: &str) -> Result<&SchemaColumn, ApiError> {
        if let Some(column) = self.schema.find(name) {
            return Ok(column);
        }
        let inside = name.split_once('.').and_then(|(outer, _)| self.schema.find(outer));
        Err(match inside.filter(|outer| self.is_parent(outer)) {
            Some(outer) => refused(format!(
                "{name} is inside column {}, which changes as a whole or not",
                outer.name
            ))
            .next(self.describe()),
            None => ApiError::new(ErrorKind::NotFound, format!("table {} has no column {name}", self.name))
                .safe("nothing was changed")
                .next(self.describe()),
        })
    }

    fn is_parent(&self, column: &SchemaColumn) -> bool {
        self.schema
            .live()
            .any(|child| child.def.parent == Some(column.def.field_id))
    }

    /// A name a column may get: fit for SQL and an entry, and no other column's.
    fn check_new(&self, name: &str, own: Option<i32>) -> Result<(), ApiError> {
        let fits = !name.is_empty()
            && name.len() <= MAX_NAME_BYTES
            && !name.chars().any(|c| c.is_control() || c == '"')
            && name != SOURCE_INDEX_COLUMN;
        if !fits {
            return Err(
                ApiError::new(ErrorKind::BadInput, format!("{name:?} cannot be the name of a column"))
                    .safe("nothing was changed")
                    .next("use up to 128 bytes without control characters and double quotes"),
            );
        }
        match self.schema.find(name).filter(|column| Some(column.def.field_id) != own) {
            None => Ok(()),
            Some(other) => Err(ApiError::new(
                ErrorKind::Exists,
                format!("table {} has a column {} already", self.name, other.name),
            )
            .safe("nothing was changed")
            .next(format!(
                "choose another name, or give that one another: sovm table rename-column {} {} NAME",
                self.name,
                word(&other.name)
            ))),
        }
    }

    fn parse(&self, column_type: &str) -> Result<ColumnType, ApiError> {
        column_type.parse().map_err(|error| {
            ApiError::new(ErrorKind::BadInput, format!("{error}"))
                .safe("nothing was changed")
                .next("types are bool, int8 to int64, uint8 to uint64, float32, float64, decimal(p,s), text, bytes, date, time_us, timestamp_us, timestamp_us_local and uuid")
        })
    }

    fn describe(&self) -> String {
        format!("sovm table describe {}", self.name)
    }
}

fn refused(why: String) -> ApiError {
    ApiError::new(ErrorKind::Refused, why).safe("nothing was changed")
}

/// Text as one word of a command line.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~');
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use sovm_object::{
        hlc::Hlc,
        id::{DomainId, MeshId, SiteId, TableId},
        record::{ColumnDef, TableClass},
        schema::{OpGraph, columns_at},
    };

    use super::*;

    fn view() -> TableView {
        let column = |field_id, name: &str, ty: &str, parent| ColumnDef {
            field_id,
            name: name.into(),
            ty: ty.into(),
            nullable: true,
            parent,
        };
        let genesis = TableGenesis {
            mesh_id: MeshId::from_bytes([1; 32]),
            table_id: TableId::from_bytes([2; 16]),
            domain_id: DomainId::from_bytes([3; 32]),
            schema_name: "main".into(),
            table_name: "rain".into(),
            class: TableClass::Append,
            columns: vec![
                column(1, "day", "date", None),
                column(2, "station", "text", None),
                column(3, "at", "timestamp_us", None),
                column(4, "mm", "int32", None),
                column(5, "note", "text", None),
                column(6, "tags", "list", None),
                column(7, "element", "text", Some(6)),
                column(8, "price", "decimal(10,2)", None),
            ],
            identity: vec![2],
            partition: vec![1],
            time: Some(3),
            pruning: vec![],
            filter_salt: [0; 16],
            seq: 1,
            ops_seen: vec![],
            creator: SiteId::from_bytes([4; 32]),
            hlc: Hlc::new(1, 0),
        };
        of(genesis)
    }

    fn of(genesis: TableGenesis) -> TableView {
        let schema = Arc::new(columns_at(&genesis, &OpGraph::default(), &BTreeSet::new()));
        TableView {
            record: RecordId::from_bytes([5; 32]),
            display_name: genesis.table_name.clone(),
            columns: TableColumns {
                heads: vec![],
                fingerprint: schema.fingerprint(),
                is_version: true,
                contradictions: Default::default(),
                schema,
            },
            genesis,
        }
    }

    fn add(name: &str, column_type: &str) -> AskedChange {
        AskedChange::AddColumn {
            name: name.into(),
            column_type: column_type.into(),
        }
    }
    fn drop_of(name: &str) -> AskedChange {
        AskedChange::DropColumn { name: name.into() }
    }
    fn rename(name: &str, to: &str) -> AskedChange {
        AskedChange::RenameColumn {
            name: name.into(),
            to: to.into(),
        }
    }
    fn widen(name: &str, column_type: &str) -> AskedChange {
        AskedChange::WidenColumn {
            name: name.into(),
            column_type: column_type.into(),
        }
    }

    #[test]
    fn what_can_be_becomes_an_op() {
        let view = view();
        let planned = |asked| plan(&view, &asked).unwrap();
        assert_eq!(
            planned(add("gust", "float64")),
            ColumnChange::Add {
                name: "gust".into(),
                ty: ColumnType::Float64
            }
        );
        assert_eq!(planned(drop_of("note")), ColumnChange::Drop { field_id: 5 });
        assert_eq!(planned(drop_of("tags")), ColumnChange::Drop { field_id: 6 });
        assert_eq!(
            planned(rename("DAY", "Day")),
            ColumnChange::Rename {
                field_id: 1,
                name: "Day".into()
            }
        );
        assert_eq!(
            planned(widen("mm", "int64")),
            ColumnChange::Widen {
                field_id: 4,
                ty: ColumnType::Int64
            }
        );
        assert!(plan(&view, &widen("price", "decimal(20, 2)")).is_ok());
    }

    /// Everything else is refused by name, with what to do instead.
    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let view = view();
        for (asked, kind, words) in [
            (add("x", "list"), ErrorKind::Refused, ["list", "--like"]),
            (add("x", "int"), ErrorKind::BadInput, ["\"int\"", "int8 to int64"]),
            (add("", "text"), ErrorKind::BadInput, ["\"\"", "128 bytes"]),
            (add("a\nb", "text"), ErrorKind::BadInput, ["a\\nb", "control"]),
            (
                add("Note", "text"),
                ErrorKind::Exists,
                ["note", "rename-column rain note"],
            ),
            (
                drop_of("station"),
                ErrorKind::Refused,
                ["station tells rows apart", "table create"],
            ),
            (drop_of("day"), ErrorKind::Refused, ["day splits", "table create"]),
            (
                drop_of("at"),
                ErrorKind::Refused,
                ["at carries the table's time", "table create"],
            ),
            (
                drop_of("nothing"),
                ErrorKind::NotFound,
                ["nothing", "table describe rain"],
            ),
            (
                drop_of("tags.element"),
                ErrorKind::Refused,
                ["inside column tags", "table describe rain"],
            ),
            (
                rename("nothing", "x"),
                ErrorKind::NotFound,
                ["nothing", "table describe rain"],
            ),
            (rename("mm", "mm"), ErrorKind::Exists, ["mm", "table describe rain"]),
            (
                rename("mm", "NOTE"),
                ErrorKind::Exists,
                ["note", "rename-column rain note"],
            ),
            (
                widen("mm", "int32"),
                ErrorKind::Exists,
                ["int32", "table describe rain"],
            ),
            (
                widen("mm", "int16"),
                ErrorKind::Refused,
                ["would not hold", "add-column rain mm_2 int16"],
            ),
            (
                widen("mm", "float64"),
                ErrorKind::Refused,
                ["widened to int64", "add-column rain mm_2"],
            ),
            (
                widen("note", "int64"),
                ErrorKind::Refused,
                ["text cannot be widened", "add-column rain note_2 int64"],
            ),
            (widen("tags", "text"), ErrorKind::Refused, ["list", "add-column"]),
            (
                widen("price", "decimal(20,4)"),
                ErrorKind::Refused,
                ["decimal(11 to 38,2)", "'decimal(20,4)'"],
            ),
        ] {
            let error = plan(&view, &asked).unwrap_err();
            assert_eq!(error.kind, kind, "{asked:?}");
            assert_eq!(error.safe.as_deref(), Some("nothing was changed"), "{asked:?}");
            let text = format!("{} {}", error.message, error.next.unwrap());
            for word in words {
                assert!(text.contains(word), "{word:?} is not in {text:?}");
            }
        }
        let single = of(TableGenesis {
            columns: view.genesis.columns[3..4].to_vec(),
            identity: vec![],
            partition: vec![],
            time: None,
            ..view.genesis
        });
        let error = plan(&single, &drop_of("mm")).unwrap_err();
        assert!(error.message.contains("last") && error.next.unwrap().contains("add-column rain"));
    }
}
