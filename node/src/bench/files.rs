//! The made-up rows as files: Arrow and CSV for both sides to read, and the plain Parquet that scans are compared with.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use arrow::{csv, ipc::writer::FileWriter, record_batch::RecordBatch};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};
use sovm_object::pme::ROW_GROUP_ROWS;

use super::{data, timing::Times};
use crate::error::{ApiError, ErrorKind};

/// Level of the codec, as objects are written.
const ZSTD_LEVEL: i32 = 3;

/// The files of one benchmark.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) arrow: PathBuf,
    pub(super) csv: PathBuf,
    pub(super) parquet: PathBuf,
    /// How long plain Parquet took to write, by one thread, with nothing synced.
    pub(super) parquet_times: Times,
}

/// Writes them all. Blocks.
pub(super) fn write(dir: &Path, rows: u64, runs: u64) -> Result<Files, ApiError> {
    let files = Files {
        arrow: dir.join("flights.arrow"),
        csv: dir.join("flights.csv"),
        parquet: dir.join("flights.parquet"),
        parquet_times: Times::default(),
    };
    let mut arrow = FileWriter::try_new(create(&files.arrow)?, &data::schema()).map_err(failed)?;
    let mut text = csv::WriterBuilder::new().with_header(true).build(create(&files.csv)?);
    let mut batches = Vec::new();
    for batch in data::batches(rows) {
        let batch = batch.map_err(failed)?;
        arrow.write(&batch).map_err(failed)?;
        text.write(&batch).map_err(failed)?;
        batches.push(batch);
    }
    arrow.finish().map_err(failed)?;
    drop(text);
    let mut parquet_times = Times::default();
    for _ in 0..runs {
        let begun = Instant::now();
        write_parquet(&files.parquet, &batches)?;
        parquet_times.add(begun);
    }
    Ok(Files { parquet_times, ..files })
}

/// Plain Parquet as this writer does it by itself, with the codec and the row groups that objects have.
pub(super) fn write_parquet(path: &Path, batches: &[RecordBatch]) -> Result<(), ApiError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).map_err(failed)?))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .build();
    let schema = batches.first().map_or_else(data::schema, RecordBatch::schema);
    let mut writer = ArrowWriter::try_new(create(path)?, Arc::clone(&schema), Some(properties)).map_err(failed)?;
    batches
        .iter()
        .try_for_each(|batch| writer.write(batch))
        .map_err(failed)?;
    let mut file = writer.into_inner().map_err(failed)?;
    file.flush()
        .map_err(|error| ApiError::io("writing the rows of the benchmark", &error))
}

fn create(path: &Path) -> Result<BufWriter<File>, ApiError> {
    File::create(path)
        .map(BufWriter::new)
        .map_err(|error| ApiError::io("writing the rows of the benchmark", &error))
}

pub(super) fn failed(error: impl std::fmt::Display) -> ApiError {
    ApiError::new(ErrorKind::Failed, format!("the benchmark stopped: {error}"))
        .safe("it ran in a temporary directory; this node was not touched")
        .next("sovm bench --dir DIR takes another disk")
}
