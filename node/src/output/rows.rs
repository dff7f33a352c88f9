//! Rows of an answer on stdout, in the format the user asked for, as they come: nothing but the table format and `--json`
//! holds rows back.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::{
    array::RecordBatch,
    datatypes::SchemaRef,
    util::display::{ArrayFormatter, FormatOptions},
};
use async_trait::async_trait;
use parquet::arrow::ArrowWriter;

use super::{Output, TextTable, uuid::shown};
use crate::{
    api::{Response, RowSink},
    error::{ApiError, ErrorKind},
};

/// How rows are written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum RowFormat {
    /// Columns padded with spaces, for people.
    #[default]
    Table,
    /// Comma-separated text with a header line.
    Csv,
    /// One JSON object a line.
    Json,
    /// Arrow IPC stream.
    Arrow,
    /// One Parquet file, not encrypted.
    Parquet,
}

/// Rows after which the widths of a text table are settled.
const TABLE_SETTLES_AT: usize = 1_000;

/// Writes the rows of one answer.
#[derive(Debug)]
pub struct RowPrinter {
    output: Arc<Output>,
    state: Mutex<State>,
}

/// Bytes a writer has produced and nobody has taken yet.
#[derive(Clone, Debug, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Pipe {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct State {
    format: RowFormat,
    writer: Writer,
    pipe: Pipe,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "State({:?})", self.format)
    }
}

enum Writer {
    /// No schema yet, or already finished.
    Idle,
    Table {
        table: TextTable,
        heading_done: bool,
    },
    Csv(Box<arrow::csv::Writer<Pipe>>),
    Json(arrow::json::LineDelimitedWriter<Pipe>),
    /// `--json`: rows become part of one object, so they wait for its end.
    Collect(arrow::json::ArrayWriter<Pipe>),
    Arrow(arrow::ipc::writer::StreamWriter<Pipe>),
    Parquet(Box<ArrowWriter<Pipe>>),
}

impl RowPrinter {
    /// A printer for one answer.
    pub fn new(output: Arc<Output>, format: RowFormat) -> Arc<Self> {
        let state = State {
            format,
            writer: Writer::Idle,
            pipe: Pipe::default(),
        };
        Arc::new(Self {
            output,
            state: Mutex::new(state),
        })
    }

    /// Writes what was held back, and with `--json` the whole object.
    pub fn finish(&self, response: &Response) -> Result<(), ApiError> {
        let (bytes, collected) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let writer = std::mem::replace(&mut state.writer, Writer::Idle);
            let mut collected = false;
            let mut text = Vec::new();
            match writer {
                Writer::Idle => collected = self.output.is_json(),
                Writer::Table {
                    mut table,
                    heading_done,
                } => {
                    if !heading_done {
                        text.extend(table.render_heading().into_bytes());
                    }
                    text.extend(table.take_rows().into_bytes());
                }
                Writer::Csv(_) => {}
                Writer::Json(mut writer) => writer.finish().map_err(encode)?,
                Writer::Collect(mut writer) => {
                    writer.finish().map_err(encode)?;
                    collected = true;
                }
                Writer::Arrow(mut writer) => writer.finish().map_err(encode)?,
                Writer::Parquet(writer) => drop(writer.close().map_err(encode)?),
            }
            text.extend(state.pipe.take());
            (text, collected)
        };
        if !collected {
            return self.output.bytes(&bytes);
        }
        let rows = if bytes.is_empty() {
            serde_json::json!([])
        } else {
            serde_json::from_slice(&bytes).map_err(ApiError::bug)?
        };
        let mut object = response.to_json().map_err(ApiError::bug)?;
        if let Some(object) = object.as_object_mut() {
            // `rows` of the report is their number; the object carries the rows themselves as well.
            object.insert("data".to_owned(), rows);
        }
        self.output.json(&object)
    }
}

impl State {
    fn begin(&mut self, schema: &SchemaRef, collect: bool) -> Result<(), ApiError> {
        let pipe = self.pipe.clone();
        self.writer = match self.format {
            _ if collect => Writer::Collect(arrow::json::WriterBuilder::new().with_explicit_nulls(true).build(pipe)),
            RowFormat::Table => {
                let names = schema.fields().iter().map(|field| field.name().clone()).collect();
                let right = schema
                    .fields()
                    .iter()
                    .map(|field| field.data_type().is_numeric())
                    .collect();
                Writer::Table {
                    table: TextTable::with_alignment(names, right),
                    heading_done: false,
                }
            }
            RowFormat::Csv => {
                let nested = schema.fields().iter().find(|field| field.data_type().is_nested());
                if let Some(field) = nested {
                    return Err(ApiError::new(
                        ErrorKind::BadInput,
                        format!(
                            "column `{}` holds {}, which CSV cannot",
                            field.name(),
                            field.data_type()
                        ),
                    )
                    .next("use --format json, arrow or parquet"));
                }
                let mut writer = arrow::csv::WriterBuilder::new().with_header(true).build(pipe);
                // An answer without rows still has its header line.
                writer.write(&RecordBatch::new_empty(schema.clone())).map_err(encode)?;
                Writer::Csv(Box::new(writer))
            }
            RowFormat::Json => Writer::Json(arrow::json::WriterBuilder::new().with_explicit_nulls(true).build(pipe)),
            RowFormat::Arrow => Writer::Arrow(arrow::ipc::writer::StreamWriter::try_new(pipe, schema).map_err(encode)?),
            RowFormat::Parquet => Writer::Parquet(Box::new(
                ArrowWriter::try_new(pipe, schema.clone(), None).map_err(encode)?,
            )),
        };
        Ok(())
    }

    fn push(&mut self, batch: &RecordBatch) -> Result<(), ApiError> {
        match &mut self.writer {
            Writer::Idle => return Err(ApiError::bug("rows came before their columns")),
            Writer::Table { table, heading_done } => {
                add_rows(table, &shown(batch).map_err(encode)?)?;
                if table.len() >= TABLE_SETTLES_AT {
                    let heading = if std::mem::replace(heading_done, true) {
                        String::new()
                    } else {
                        table.render_heading()
                    };
                    let rows = table.take_rows();
                    self.pipe
                        .0
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .extend([heading, rows].concat().into_bytes());
                }
            }
            Writer::Csv(writer) => writer.write(&shown(batch).map_err(encode)?).map_err(encode)?,
            Writer::Json(writer) => writer.write(&shown(batch).map_err(encode)?).map_err(encode)?,
            Writer::Collect(writer) => writer.write(&shown(batch).map_err(encode)?).map_err(encode)?,
            Writer::Arrow(writer) => writer.write(batch).map_err(encode)?,
            Writer::Parquet(writer) => writer.write(batch).map_err(encode)?,
        }
        Ok(())
    }
}

#[async_trait]
impl RowSink for RowPrinter {
    async fn schema(&self, schema: SchemaRef) -> Result<(), ApiError> {
        let json = self.output.is_json();
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .begin(&schema, json)
    }

    async fn batch(&self, batch: RecordBatch) -> Result<(), ApiError> {
        let bytes = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.push(&batch)?;
            if matches!(state.writer, Writer::Collect(_)) {
                Vec::new()
            } else {
                state.pipe.take()
            }
        };
        if bytes.is_empty() {
            Ok(())
        } else {
            self.output.bytes(&bytes)
        }
    }
}

fn add_rows(table: &mut TextTable, batch: &RecordBatch) -> Result<(), ApiError> {
    let options = FormatOptions::default().with_null("").with_display_error(true);
    let columns: Vec<ArrayFormatter<'_>> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
        .collect::<Result<_, _>>()
        .map_err(encode)?;
    for row in 0..batch.num_rows() {
        table.row(columns.iter().map(|column| column.value(row).to_string()));
    }
    Ok(())
}

fn encode(error: impl std::fmt::Display) -> ApiError {
    ApiError::new(
        ErrorKind::Failed,
        format!("the rows cannot be written in this format: {error}"),
    )
    .safe("the data is unchanged")
    .next("use another --format")
}

impl RowFormat {
    /// Whether the format is bytes that a terminal should not get.
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::Arrow | Self::Parquet)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, RecordBatch, StringArray};

    use super::*;
    use crate::{
        api::SqlReport,
        output::{OutputOptions, testing::captured},
    };

    fn weather() -> RecordBatch {
        RecordBatch::try_from_iter([
            ("origin", Arc::new(StringArray::from(vec![Some("JFK"), None])) as _),
            ("temp", Arc::new(Float64Array::from(vec![Some(55.5), Some(-3.0)])) as _),
        ])
        .unwrap()
    }

    async fn print(format: RowFormat, json: bool) -> Vec<u8> {
        let (output, stdout, _) = captured(OutputOptions { json, quiet: false });
        let printer = RowPrinter::new(Arc::new(output), format);
        let batch = weather();
        printer.schema(batch.schema()).await.unwrap();
        printer.batch(batch).await.unwrap();
        let report = SqlReport {
            columns: vec![],
            rows: 2,
            elapsed_ms: 1,
            explain: None,
            coverage: None,
        };
        printer.finish(&Response::Sql(report)).unwrap();
        stdout.bytes()
    }

    #[tokio::test]
    async fn text_formats() {
        let table = String::from_utf8(print(RowFormat::Table, false).await).unwrap();
        insta::assert_snapshot!(table, @r"
        origin  temp
        ------  ----
        JFK     55.5
                -3.0
        ");
        let csv = String::from_utf8(print(RowFormat::Csv, false).await).unwrap();
        assert_eq!(csv, "origin,temp\nJFK,55.5\n,-3.0\n");
        let json = String::from_utf8(print(RowFormat::Json, false).await).unwrap();
        assert_eq!(
            json,
            "{\"origin\":\"JFK\",\"temp\":55.5}\n{\"origin\":null,\"temp\":-3.0}\n"
        );
    }

    #[tokio::test]
    async fn json_flag_gives_one_object() {
        let value: serde_json::Value = serde_json::from_slice(&print(RowFormat::Table, true).await).unwrap();
        assert_eq!(value["format_version"], 1);
        assert_eq!(value["command"], "sql");
        assert_eq!(value["rows"], 2);
        assert_eq!(value["data"][1]["origin"], serde_json::Value::Null);
    }

    #[tokio::test]
    async fn binary_formats_read_back() {
        let bytes = print(RowFormat::Arrow, false).await;
        let mut reader = arrow::ipc::reader::StreamReader::try_new(bytes.as_slice(), None).unwrap();
        assert_eq!(reader.next().unwrap().unwrap(), weather());
        let bytes = bytes::Bytes::from(print(RowFormat::Parquet, false).await);
        let mut reader = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(bytes, 10).unwrap();
        assert_eq!(reader.next().unwrap().unwrap(), weather());
    }
}
