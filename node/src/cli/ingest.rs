//! `sovm ingest`.

use std::{
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;

use super::{
    Context,
    run::stop_signal,
    session::{Session, expect},
};
use crate::{
    api::{Discard, IngestReport, IngestRequest, InputFormat, Request, Response},
    config::{format_bytes, format_duration_ms, parse_duration},
    error::{ApiError, ErrorKind},
    ingest::{Feed, glob},
    output::Output,
};

/// Publish rows of files or of standard input into a table
///
/// All or nothing: one bad row and nothing is published, unless --skip-bad-rows names a file for them. The table is made
/// when it does not exist, with types inferred over the whole input.
///
/// With --every a pipe that does not end is published in parts, each of them all or nothing. The table must exist, or --schema
/// name its columns. Ctrl-C publishes what has come.
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
    /// Publish what standard input has brought each time this has passed, instead of at its end. Without TIME: 60s
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "60s", value_parser = parse_duration)]
    every: Option<Duration>,
}

impl IngestArgs {
    /// Whether the input may have no end. Then this command takes signals itself.
    pub(super) const fn is_feed(&self) -> bool {
        self.every.is_some()
    }

    fn check_every(&self, stdin: bool) -> Result<(), ApiError> {
        let wrong = match self.every {
            Some(_) if !stdin => "--every is for a feed on standard input",
            Some(every) if every.is_zero() => "--every needs a second at least",
            _ => return Ok(()),
        };
        Err(ApiError::new(ErrorKind::Usage, wrong)
            .safe("nothing was published")
            .next("sovm ingest TABLE - --every 60s"))
    }

    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let stdin = is_stdin(&self.files)?;
        self.check_every(stdin)?;
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
            every_ms: self.every.map(|every| every.as_millis() as u64),
        };
        let session = context.open(false).await?;
        let result = if self.every.is_some() {
            feed(context, &session, Request::Ingest(request)).await
        } else {
            let input = stdin.then(|| Box::new(std::io::stdin()) as Box<dyn Read + Send + Sync>);
            let exchange = context.exchange(input, Arc::new(Discard));
            session.service().call(Request::Ingest(request), exchange).await
        };
        session.close().await;
        let report = expect!(result?, Ingest);
        let shown = report.clone();
        context.show(&Response::Ingest(report), |output| render(&shown, output))
    }
}

/// Calls with standard input as a feed. A signal ends it behind a line, and then is like its own end.
async fn feed(context: &Context<'_>, session: &Session, request: Request) -> Result<Response, ApiError> {
    let (feed, stopper) = Feed::of_lines(Box::new(std::io::stdin()));
    let stop = stop_signal()?;
    let exchange = context.exchange(Some(Box::new(feed)), Arc::new(Discard));
    let mut call = session.service().call(request, exchange);
    tokio::select! {
        result = &mut call => return result,
        () = stop => {}
    }
    context
        .output
        .note("stopping: what has come is published; Ctrl-C again drops it");
    stopper.stop();
    let again = stop_signal()?;
    tokio::select! {
        result = call => result,
        () = again => Err(
            ApiError::new(ErrorKind::Interrupted, "stopped before the last rows were published")
                .safe("what was published before is kept, and nothing is published by halves")
                .next("sovm sql shows what is there"),
        ),
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
