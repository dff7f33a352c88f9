//! `sovm ingest`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{Context, session::expect};
use crate::{
    api::{Discard, IngestReport, IngestRequest, InputFormat, Request, Response},
    config::{format_bytes, format_duration_ms},
    error::{ApiError, ErrorKind},
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
    /// Files to read, or - for standard input
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
}

impl IngestArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let stdin = self.files.iter().any(|file| file.as_os_str() == "-");
        if stdin && self.files.len() > 1 {
            return Err(
                ApiError::new(ErrorKind::Usage, "- (standard input) cannot be mixed with files")
                    .safe("nothing was published"),
            );
        }
        let files = if stdin {
            Vec::new()
        } else {
            self.files.iter().map(|file| absolute(file)).collect::<Result<_, _>>()?
        };
        let request = IngestRequest {
            table: self.table,
            files,
            format: self.format,
            nulls: self.nulls,
            schema: self.schema.as_deref().map(absolute).transpose()?,
            domain: self.domain,
            skip_bad_rows: self.skip_bad_rows.as_deref().map(absolute).transpose()?,
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
