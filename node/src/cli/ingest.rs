//! `sovm ingest`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{Context, session::expect};
use crate::{
    api::{Discard, IngestReport, IngestRequest, InputFormat, Request, Response},
    config::{format_bytes, format_duration_ms},
    error::{ApiError, ErrorKind},
    ingest::glob,
    output::Output,
};

/// Publish rows of files or of standard input into a table
///
/// All or nothing: one bad row and nothing is published, unless --skip-bad-rows names a file for them. The table is made
/// when it does not exist, with types inferred over the whole input.
#[derive(Args, Debug)]
pub(super) struct IngestArgs {
    /// Table name
    table: String,
    /// Files to read, or - for standard input. * ? and [..] in quoted names are expanded here
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How the input is encoded. Default: by file name, then by content
    #[arg(long, value_enum)]
    format: Option<InputFormat>,
    /// Text that stands for null beside the empty field; repeat for more
    #[arg(long = "null", value_name = "TEXT")]
    nulls: Vec<String>,
    /// Take the columns written in this file instead of inferring them
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Domain of the table, if it is made now. Default: main
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// Write bad rows to this file and publish the others
    #[arg(long, value_name = "FILE")]
    skip_bad_rows: Option<PathBuf>,
    /// Key of encrypted Parquet files, as 32 bytes or 64 hex digits
    #[arg(long, value_name = "FILE")]
    parquet_key_file: Option<PathBuf>,
}

impl IngestArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let stdin = is_stdin(&self.files)?;
        let files = if stdin { Vec::new() } else { named_files(&self.files)? };
        let request = IngestRequest {
            table: self.table,
            files,
            format: self.format,
            nulls: self.nulls,
            schema: self.schema.as_deref().map(absolute).transpose()?,
            domain: self.domain,
            skip_bad_rows: self.skip_bad_rows.as_deref().map(absolute).transpose()?,
            parquet_key_file: self.parquet_key_file.as_deref().map(absolute).transpose()?,
        };
        let input = stdin.then(|| Box::new(std::io::stdin()) as Box<dyn std::io::Read + Send + Sync>);
        let session = context.open(false).await?;
        let result = session
            .service()
            .call(
                Request::Ingest(request),
                context.exchange(input, std::sync::Arc::new(Discard)),
            )
            .await;
        session.close().await;
        let report = expect!(result?, Ingest);
        let shown = report.clone();
        context.show(&Response::Ingest(report), |output| render(&shown, output))
    }
}

/// Whether the input is standard input, which stands alone.
pub(super) fn is_stdin(files: &[PathBuf]) -> Result<bool, ApiError> {
    let stdin = files.iter().any(|file| file.as_os_str() == "-");
    if stdin && files.len() > 1 {
        return Err(
            ApiError::new(ErrorKind::Usage, "- (standard input) cannot be mixed with files")
                .safe("nothing was published"),
        );
    }
    Ok(stdin)
}

/// Absolute paths of the files, wildcards expanded in the order of the names. A pattern that finds nothing is an error: a
/// forgotten file must not look like a table without its rows.
fn named_files(named: &[PathBuf]) -> Result<Vec<PathBuf>, ApiError> {
    let mut files = Vec::with_capacity(named.len());
    for path in named {
        let found = glob::expand(&absolute(path)?).map_err(|error| ApiError::io(path.display(), &error))?;
        if found.is_empty() {
            return Err(
                ApiError::new(ErrorKind::BadInput, format!("no file matches {}", path.display()))
                    .safe("nothing was published")
                    .next("check the pattern: ls shows what is there"),
            );
        }
        files.extend(found);
    }
    Ok(files)
}

/// The daemon has another working directory, so only absolute paths cross the seam.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, ApiError> {
    std::path::absolute(path).map_err(|error| ApiError::io(path.display(), &error))
}

fn render(report: &IngestReport, output: &Output) -> Result<(), ApiError> {
    for id in &report.objects {
        output.line(id)?;
    }
    if report.created {
        output.note(format!("made table {}", report.table));
    }
    output.note(format!(
        "published {} rows in {} objects: {} read, {} encrypted, {}",
        report.rows,
        report.objects.len(),
        format_bytes(report.input_bytes),
        format_bytes(report.output_bytes),
        format_duration_ms(report.elapsed_ms)
    ));
    if report.bad_rows > 0 {
        output.warn(format!("{} bad rows were left out", report.bad_rows));
    }
    Ok(())
}
