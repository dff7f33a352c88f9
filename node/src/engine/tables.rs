//! Tables: making them, finding them, describing them.

use std::path::Path;

use sovm_catalog::{Read, Scope, TableLookupError, TableView};
use sovm_object::{
    id::{DomainId, TableId},
    kek::KekRing,
    record::{TableClass, TableGenesis},
    roster::Right,
    sign::Signed,
    types::Column,
};

use super::{
    core::Core,
    founding::random,
    layout::{check_partition, default_pruning},
};
use crate::{
    api::{ColumnInfo, ColumnsFrom, TableCreateRequest, TableInfo, TableListReport},
    error::{ApiError, ErrorKind},
    ingest::{Options, Source, SourceSpec},
};

/// Schema of tables whose name gives none.
const DEFAULT_SCHEMA: &str = "main";

/// Schema and name, the schema left out when it is the usual one.
pub(super) fn qualified_name(table: &TableGenesis) -> String {
    if table.schema_name == DEFAULT_SCHEMA {
        table.table_name.clone()
    } else {
        format!("{}.{}", table.schema_name, table.table_name)
    }
}

impl Core {
    /// The table of this name, if there is one.
    pub(super) fn lookup_table(&self, name: &str) -> Result<Option<TableView>, ApiError> {
        match self.read()?.find_table(None, name) {
            Ok(view) => Ok(Some(view)),
            Err(TableLookupError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses when this node may not add rows to tables of the domain.
    pub(super) fn may_append(&self, domain: &DomainId) -> Result<(), ApiError> {
        self.may_append_in(&self.read()?, domain)
    }

    /// Like [`may_append`](Self::may_append), in one state of the catalogue.
    pub(super) fn may_append_in(&self, rows: &impl Read, domain: &DomainId) -> Result<(), ApiError> {
        let roster = rows.roster(Scope::Domain(*domain))?;
        match roster.as_ref().and_then(|roster| roster.role(&self.me)) {
            Some(role) if role.has(Right::Append) => Ok(()),
            Some(role) => Err(ApiError::new(
                ErrorKind::Refused,
                format!(
                    "this device is a {} of the domain and may not publish rows",
                    role.as_str()
                ),
            )
            .safe("nothing was published")
            .next("ask an admin to invite it again as a writer")),
            None => Err(ApiError::new(
                ErrorKind::Refused,
                "this device is not a member of the domain (any more)",
            )
            .safe("nothing was published")
            .next("ask an admin to invite it again")),
        }
    }

    /// Signs a new table.
    pub(super) fn sign_table(
        &self,
        name: &str,
        domain: &DomainId,
        columns: &[Column],
        request: Option<&TableCreateRequest>,
    ) -> Result<Signed<TableGenesis>, ApiError> {
        let (schema_name, table_name) = match name.split_once('.') {
            Some((schema, table)) => (schema, table),
            None => (DEFAULT_SCHEMA, name),
        };
        for part in [schema_name, table_name] {
            check_name(part)?;
        }
        let id_of = |wanted: &String| -> Result<i32, ApiError> {
            let found = columns
                .iter()
                .find(|column| column.parent.is_none() && column.name == *wanted);
            found.map(|column| column.field_id).ok_or_else(|| {
                ApiError::new(ErrorKind::BadInput, format!("the table has no column {wanted}")).safe("nothing was made")
            })
        };
        let ids = |names: &[String]| names.iter().map(id_of).collect::<Result<Vec<_>, _>>();
        let pruning = match request {
            Some(request) if !request.prune.is_empty() => {
                for name in &request.prune {
                    let column = columns.iter().find(|column| column.name == *name);
                    if column.is_some_and(|column| !column.ty.is_prunable()) {
                        return Err(ApiError::new(
                            ErrorKind::BadInput,
                            format!("column {name} has a type without bounds"),
                        )
                        .safe("nothing was made"));
                    }
                }
                ids(&request.prune)?
            }
            _ => default_pruning(columns),
        };
        let partition = ids(request.map_or(&[][..], |request| &request.partition))?;
        check_partition(columns, &partition)?;
        let time = request
            .and_then(|request| request.time.as_ref())
            .map(id_of)
            .transpose()?;
        if let Some(column) = columns.iter().find(|column| Some(column.field_id) == time) {
            sovm_object::stats::TimeRangeBuilder::new(column).map_err(|error| {
                ApiError::new(
                    ErrorKind::BadInput,
                    format!("column {} cannot carry the time: {error}", column.name),
                )
                .safe("nothing was made")
            })?;
        }
        let ops_seen = self.heads(Some(*domain))?;
        let stamp = self.stamp()?;
        Ok(self.sign(TableGenesis {
            mesh_id: self.mesh(),
            table_id: TableId::from_bytes(random()),
            domain_id: *domain,
            schema_name: schema_name.to_owned(),
            table_name: table_name.to_owned(),
            class: TableClass::Append,
            columns: columns.iter().map(Column::to_def).collect(),
            identity: ids(request.map_or(&[][..], |request| &request.id))?,
            partition,
            time,
            pruning,
            filter_salt: random(),
            seq: stamp.seq,
            ops_seen,
            creator: self.me,
            hlc: stamp.hlc,
        }))
    }

    /// `table create`.
    pub(super) async fn create_table(&self, request: TableCreateRequest) -> Result<TableInfo, ApiError> {
        let domain = self.domain(request.domain.as_deref())?;
        self.may_append(&domain)?;
        let columns = match request.columns.clone() {
            ColumnsFrom::Schema(path) => read_schema_file(&path)?,
            ColumnsFrom::Like(path) => {
                let read = move || Source::open(SourceSpec::files([path]))?.infer(&Options::default());
                tokio::task::spawn_blocking(read).await.map_err(ApiError::bug)??
            }
        };
        let _step = self.step.lock().await;
        if self.lookup_table(&request.table)?.is_some() {
            return Err(
                ApiError::new(ErrorKind::Exists, format!("there is a table {} already", request.table))
                    .safe("it was not changed")
                    .next(format!("sovm table describe {}", request.table)),
            );
        }
        let kek = self.current_kek(&domain)?;
        let signed = self.sign_table(&request.table, &domain, &columns, Some(&request))?;
        let mut txn = self.catalog.begin()?;
        txn.admit(signed.clone(), Some(kek), self.now_ms())?;
        self.save(txn)?;
        self.told();
        self.describe_table(&qualified_name(signed.body()))
    }

    /// `table list`.
    pub(super) fn list_tables(&self) -> Result<TableListReport, ApiError> {
        let tables = self.read()?.tables()?;
        Ok(TableListReport {
            tables: tables
                .iter()
                .map(|view| self.table_info(view))
                .collect::<Result<_, _>>()?,
        })
    }

    /// `table describe`.
    pub(super) fn describe_table(&self, name: &str) -> Result<TableInfo, ApiError> {
        let view = self.read()?.find_table(None, name)?;
        self.table_info(&view)
    }

    fn table_info(&self, view: &TableView) -> Result<TableInfo, ApiError> {
        let table = &view.genesis;
        let schema = &view.columns.schema;
        let snapshot = self.read()?;
        let objects = {
            let keys = self.keys();
            let none = KekRing::default();
            snapshot.objects(
                &table.table_id,
                keys.domain(&table.domain_id).map_or(&none, |keys| &keys.ring),
            )?
        };
        let name_of = |id: &i32| {
            let column = schema.get(*id);
            column.map_or_else(|| id.to_string(), |column| column.name.clone())
        };
        let names = |ids: &[i32]| ids.iter().map(name_of).collect();
        let columns = schema.columns().map_err(ApiError::bug)?;
        let domain = snapshot
            .domains()?
            .into_iter()
            .find(|domain| domain.genesis.domain_id == table.domain_id);
        Ok(TableInfo {
            schema: table.schema_name.clone(),
            name: table.table_name.clone(),
            table_id: table.table_id.to_string(),
            domain: domain.map_or_else(|| table.domain_id.fmt_short(), |domain| domain.genesis.name),
            class: match table.class {
                TableClass::Append => "append",
                TableClass::AppendDelete => "append-delete",
                TableClass::Mutable => "mutable",
            }
            .to_owned(),
            columns: columns
                .iter()
                .filter(|column| column.parent.is_none())
                .map(|column| ColumnInfo {
                    field_id: column.field_id,
                    name: column.name.clone(),
                    column_type: column.ty.to_string(),
                    nullable: column.nullable,
                })
                .collect(),
            dropped_columns: schema.dropped() as u64,
            partition: names(&table.partition),
            identity: names(&table.identity),
            prune: names(schema.pruning()),
            time: table.time.as_ref().map(name_of),
            objects: objects.len() as u64,
            objects_waiting: objects.iter().filter(|object| object.state.blocks_queries()).count() as u64,
            rows_stated: objects.iter().map(|object| object.row_count).sum(),
            size_bytes: objects
                .iter()
                .filter_map(|object| object.bytes)
                .map(|bytes| bytes.size)
                .sum(),
        })
    }
}

/// A name that fits into SQL without surprises and into an entry.
fn check_name(name: &str) -> Result<(), ApiError> {
    let fits = !name.is_empty()
        && name.len() <= sovm_object::record::MAX_NAME_BYTES
        && !name.chars().any(|c| c.is_control() || c == '.' || c == '"');
    if fits {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorKind::BadInput,
        format!("{name:?} cannot be the name of a table or schema"),
    )
    .safe("nothing was made")
    .next("use up to 128 bytes without control characters, dots and double quotes"))
}

/// Reads a schema file: one column a line, `name type [not null]`; lines that begin with # are comments.
pub(super) fn read_schema_file(path: &Path) -> Result<Vec<Column>, ApiError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ApiError::io(format!("reading the schema file {}", path.display()), &error))?;
    let mut columns: Vec<Column> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = |why: String| {
            ApiError::new(
                ErrorKind::BadInput,
                format!("{} line {}: {why}", path.display(), number + 1),
            )
            .safe("nothing was made")
            .next("write one column a line: NAME TYPE [not null], for example: temp float64")
        };
        let (name, rest) = line
            .split_once(char::is_whitespace)
            .ok_or_else(|| bad(format!("column {line} has no type")))?;
        let rest = rest.trim();
        let (ty, nullable) = match rest.strip_suffix("not null") {
            Some(ty) => (ty.trim(), false),
            None => (rest, true),
        };
        let ty: sovm_object::types::ColumnType = ty.parse().map_err(|error| bad(format!("{error}")))?;
        if ty.is_nested() {
            return Err(bad(
                "nested columns come from a file: use --like with a Parquet or NDJSON file".to_owned(),
            ));
        }
        if columns.iter().any(|column| column.name.eq_ignore_ascii_case(name)) {
            return Err(bad(format!("column {name} stands there twice")));
        }
        columns.push(Column::new(columns.len() as i32 + 1, name, ty, nullable));
    }
    if columns.is_empty() {
        return Err(
            ApiError::new(ErrorKind::BadInput, format!("{} names no column", path.display())).safe("nothing was made"),
        );
    }
    Ok(columns)
}

impl From<TableLookupError> for ApiError {
    fn from(error: TableLookupError) -> Self {
        match error {
            TableLookupError::NotFound { .. } => {
                Self::new(ErrorKind::NotFound, error.to_string()).next("sovm table list")
            }
            TableLookupError::Ambiguous { .. } => Self::new(ErrorKind::BadInput, error.to_string()),
            TableLookupError::Store(error) => error.into(),
            other => Self::new(ErrorKind::Failed, other.to_string()),
        }
    }
}
