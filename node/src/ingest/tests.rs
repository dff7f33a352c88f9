//! Whole inputs through the public door: open, infer, read.

mod columnar;
mod csv;
mod json;
mod real;
mod sources;

use std::{
    io::{Cursor, Write as _},
    path::PathBuf,
};

use arrow::{
    array::RecordBatch,
    compute::concat_batches,
    util::display::{ArrayFormatter, FormatOptions},
};
use sovm_object::types::Column;

use super::{Batches, Format, IngestError, Input, Options, ParquetKey, RowRules, Source, SourceSpec};

/// A file in a directory that goes away with it.
struct TempFile {
    dir: tempfile::TempDir,
    path: PathBuf,
}

fn file(name: &str, content: impl AsRef<[u8]>) -> TempFile {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::File::create(&path)
        .unwrap()
        .write_all(content.as_ref())
        .unwrap();
    TempFile { dir, path }
}

fn open(name: &str, content: impl AsRef<[u8]>) -> Result<Source, IngestError> {
    let file = file(name, content);
    // The file lives as long as the test process; sources open it again by path.
    Source::open(SourceSpec::files([file.dir.keep().join(name)]))
}

/// The same bytes as a pipe would bring them.
fn pipe(content: impl AsRef<[u8]>, format: Option<Format>) -> Result<Source, IngestError> {
    let reader = Box::new(Cursor::new(content.as_ref().to_vec()));
    let inputs = vec![Input::Stream {
        name: "standard input".into(),
        reader,
    }];
    Source::open(SourceSpec {
        inputs,
        format,
        spool_dir: std::env::temp_dir(),
    })
}

fn null_na() -> Options {
    Options {
        null_words: vec!["NA".into()],
        ..Options::default()
    }
}

/// Name and type of each column, as in `a int64, b text`.
fn types(columns: &[Column]) -> String {
    columns
        .iter()
        .map(|column| format!("{} {}", column.name, column.ty))
        .collect::<Vec<_>>()
        .join(", ")
}

fn collect(batches: Batches) -> Result<RecordBatch, IngestError> {
    let schema = batches.schema().clone();
    let batches = batches.collect::<Result<Vec<_>, _>>()?;
    Ok(concat_batches(&schema, &batches).unwrap())
}

/// Infers and reads, as the first ingest of a table does.
fn load(mut source: Source, options: &Options) -> Result<(Vec<Column>, RecordBatch), IngestError> {
    let columns = source.infer(options)?;
    let rows = collect(source.batches(&columns, options)?)?;
    Ok((columns, rows))
}

/// One line a row, values with commas, nulls as `-`.
fn rows(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new().with_null("-");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
        .collect();
    (0..batch.num_rows())
        .map(|row| {
            columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect::<Vec<_>>()
                .join(",")
        })
        .collect()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}
