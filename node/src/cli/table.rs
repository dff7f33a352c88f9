//! `sovm table`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Context, ingest::absolute, session::expect};
use crate::{
    api::{AskedChange, ColumnsFrom, Request, Response, TableAlterRequest, TableClass, TableCreateRequest, TableInfo},
    config::format_bytes,
    error::ApiError,
    output::{Output, TextTable},
};

/// Make, list, describe and change tables
#[derive(Args, Debug)]
pub(super) struct TableArgs {
    #[command(subcommand)]
    command: TableCommand,
}

#[derive(Debug, Subcommand)]
enum TableCommand {
    /// Make a table; `sovm ingest` makes an append table by itself
    Create(CreateArgs),
    /// List the tables this node can read
    List,
    /// Show columns, keys and sizes of a table
    Describe {
        /// Table name
        table: String,
    },
    /// Add a column; rows written before have no value in it
    AddColumn {
        /// Table name
        table: String,
        /// Name of the new column
        name: String,
        /// Type of the new column
        #[arg(value_name = "TYPE")]
        column_type: String,
    },
    /// Drop a column; rows written before keep its values, and nobody sees them
    DropColumn {
        /// Table name
        table: String,
        /// Column name
        name: String,
    },
    /// Rename a column
    RenameColumn {
        /// Table name
        table: String,
        /// Column name
        #[arg(value_name = "OLD")]
        name: String,
        /// New name
        #[arg(value_name = "NEW")]
        to: String,
    },
    /// Widen a column: integers and floats to more bits, decimals to more digits
    WidenColumn {
        /// Table name
        table: String,
        /// Column name
        name: String,
        /// The wider type
        #[arg(value_name = "TYPE")]
        column_type: String,
    },
}

#[derive(Args, Debug)]
struct CreateArgs {
    /// Table name
    table: String,
    /// Domain that owns it. Default: main
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// How its rows change
    #[arg(long, value_enum, default_value_t = TableClass::Append)]
    class: TableClass,
    /// Columns that tell rows apart
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    id: Vec<String>,
    /// Columns by which objects are split
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    partition: Vec<String>,
    /// Columns whose bounds help to skip objects
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    prune: Vec<String>,
    /// The column that carries time
    #[arg(long, value_name = "COL")]
    time: Option<String>,
    #[command(flatten)]
    columns: ColumnArgs,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct ColumnArgs {
    /// Take the columns of this data file
    #[arg(long, value_name = "FILE")]
    like: Option<PathBuf>,
    /// Take the columns written in this file, one `name type` a line
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
}

impl ColumnArgs {
    fn source(self) -> Result<ColumnsFrom, ApiError> {
        match (self.like, self.schema) {
            (Some(file), _) => absolute(&file).map(ColumnsFrom::Like),
            (None, Some(file)) => absolute(&file).map(ColumnsFrom::Schema),
            (None, None) => Err(ApiError::bug("the command line asked for columns and got none")),
        }
    }
}

impl TableArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        match self.command {
            TableCommand::Create(args) => {
                let request = TableCreateRequest {
                    table: args.table,
                    domain: args.domain,
                    class: args.class,
                    id: args.id,
                    partition: args.partition,
                    prune: args.prune,
                    time: args.time,
                    columns: args.columns.source()?,
                };
                let table = expect!(context.call(Request::TableCreate(request)).await?, TableCreate);
                let shown = table.clone();
                context.show(&Response::TableCreate(table), |output| {
                    output.note(format!("made table {} in domain {}", full_name(&shown), shown.domain));
                    output.line(columns(&shown).render())
                })
            }
            TableCommand::List => {
                let report = expect!(context.call(Request::TableList {}).await?, TableList);
                let mut table = TextTable::new(&[
                    "table",
                    "domain",
                    "class",
                    ">columns",
                    ">objects",
                    ">rows stated",
                    ">size",
                ]);
                for info in &report.tables {
                    let waiting = if info.objects_waiting > 0 {
                        format!(" ({} waiting)", info.objects_waiting)
                    } else {
                        String::new()
                    };
                    table.row([
                        full_name(info),
                        info.domain.clone(),
                        info.class.clone(),
                        info.columns.len().to_string(),
                        format!("{}{waiting}", info.objects),
                        info.rows_stated.to_string(),
                        format_bytes(info.size_bytes),
                    ]);
                }
                context.show(&Response::TableList(report), |output| {
                    if table.is_empty() {
                        output.note("no table yet: sovm ingest TABLE FILE makes one");
                        return Ok(());
                    }
                    output.line(table.render())
                })
            }
            TableCommand::Describe { table } => {
                let table = expect!(context.call(Request::TableDescribe { table }).await?, TableDescribe);
                let shown = table.clone();
                context.show(&Response::TableDescribe(table), |output| describe(&shown, output))
            }
            TableCommand::AddColumn {
                table,
                name,
                column_type,
            } => {
                let done = format!("added column {name}");
                alter(context, table, AskedChange::AddColumn { name, column_type }, done).await
            }
            TableCommand::DropColumn { table, name } => {
                let done = format!("dropped column {name}");
                alter(context, table, AskedChange::DropColumn { name }, done).await
            }
            TableCommand::RenameColumn { table, name, to } => {
                let done = format!("column {name} is now {to}");
                alter(context, table, AskedChange::RenameColumn { name, to }, done).await
            }
            TableCommand::WidenColumn {
                table,
                name,
                column_type,
            } => {
                let done = format!("column {name} is now {column_type}");
                alter(context, table, AskedChange::WidenColumn { name, column_type }, done).await
            }
        }
    }
}

async fn alter(context: &Context<'_>, table: String, change: AskedChange, done: String) -> Result<u8, ApiError> {
    let request = Request::TableAlter(TableAlterRequest { table, change });
    let table = expect!(context.call(request).await?, TableAlter);
    let shown = table.clone();
    context.show(&Response::TableAlter(table), |output| {
        output.note(format!("table {}: {done}", full_name(&shown)));
        output.line(columns(&shown).render())
    })
}

fn describe(table: &TableInfo, output: &Output) -> Result<(), ApiError> {
    output.line(columns(table).render())?;
    output.note(format!(
        "{}, {} table of domain {}",
        full_name(table),
        table.class,
        table.domain
    ));
    for (what, columns) in [
        ("identity", &table.identity),
        ("partition", &table.partition),
        ("pruning", &table.prune),
    ] {
        if !columns.is_empty() {
            output.note(format!("{what} columns: {}", columns.join(", ")));
        }
    }
    if let Some(time) = &table.time {
        output.note(format!("time column: {time}"));
    }
    if table.dropped_columns > 0 {
        output.note(format!("dropped columns: {}", table.dropped_columns));
    }
    output.note(format!(
        "{} objects, {} rows stated by their manifests, {}",
        table.objects,
        table.rows_stated,
        format_bytes(table.size_bytes)
    ));
    if table.objects_waiting > 0 {
        output.note(format!(
            "{} objects are not queryable here yet: sovm status",
            table.objects_waiting
        ));
    }
    Ok(())
}

fn columns(table: &TableInfo) -> TextTable {
    let mut text = TextTable::new(&[">id", "column", "type", "null"]);
    for column in &table.columns {
        let null = if column.nullable { "yes" } else { "no" };
        text.row([
            column.field_id.to_string().as_str(),
            &column.name,
            &column.column_type,
            null,
        ]);
    }
    text
}

fn full_name(table: &TableInfo) -> String {
    if table.schema == "main" {
        table.name.clone()
    } else {
        format!("{}.{}", table.schema, table.name)
    }
}
