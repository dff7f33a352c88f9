//! `sovm object get`.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use arrow::{
    array::{AsArray as _, RecordBatch},
    datatypes::{DataType, SchemaRef},
};
use async_trait::async_trait;
use clap::Args;
use tempfile::NamedTempFile;

use super::super::{Context, session::expect};
use crate::{
    api::{ByteRange, GetReport, GetRequest, Request, Response, RowSink},
    config::format_bytes,
    error::{ApiError, ErrorKind},
    output::Output,
};

/// Read a plain file back, verified and decrypted on the way
#[derive(Args, Debug)]
pub(super) struct GetArgs {
    /// Storage id, a unique beginning of it, or this device's name for the file
    id: String,
    /// Write to this new file, or - for standard output. Default: standard output, unless it is a terminal
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only these bytes: A-B (both included, counted from 0) or A- (to the end); reads no more than it needs
    #[arg(long, value_name = "A-B", value_parser = parse_range)]
    range: Option<ByteRange>,
}

impl GetArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let usage = |what: &str| {
            ApiError::new(ErrorKind::Usage, what)
                .safe("nothing was read")
                .next(format!("sovm object get {} -o FILE", self.id))
        };
        let file = self.output.as_deref().filter(|path| path.as_os_str() != "-");
        if file.is_none() && context.output.is_json() {
            return Err(usage("the content and the JSON cannot both go to standard output"));
        }
        if self.output.is_none() && context.output.stdout_is_terminal() {
            return Err(usage("standard output is a terminal, and the file may be anything"));
        }
        let sink = Arc::new(ContentSink::open(file, context.output.clone())?);
        let request = GetRequest {
            id: self.id.clone(),
            range: self.range,
        };
        let session = context.open(false).await?;
        let result = session
            .service()
            .call(Request::ObjectGet(request), context.exchange(None, sink.clone()))
            .await;
        session.close().await;
        let report = expect!(result?, ObjectGet);
        sink.finish(&report)?;
        let shown = report.clone();
        context.show(&Response::ObjectGet(report), |output| {
            render(&shown, output);
            Ok(())
        })
    }
}

fn render(report: &GetReport, output: &Output) {
    let whole = report.bytes == report.content_bytes;
    let part = if whole {
        String::new()
    } else {
        format!(
            " of {}, from byte {}",
            format_bytes(report.content_bytes),
            report.offset
        )
    };
    output.note(format!("{}{part}, verified and decrypted", format_bytes(report.bytes)));
}

fn parse_range(text: &str) -> Result<ByteRange, String> {
    let wrong = || format!("{text} is no range: write A-B or A-, for example 0-99 for the first hundred bytes");
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    let range = ByteRange {
        first: number(first)?,
        last: if last.is_empty() { None } else { Some(number(last)?) },
    };
    match range.last {
        Some(last) if last < range.first => Err(wrong()),
        _ => Ok(range),
    }
}

/// Where the content goes.
struct ContentSink {
    target: Mutex<Target>,
    written: Mutex<u64>,
}

enum Target {
    Stdout(Arc<Output>),
    /// Under another name until all of it is there, so that half a file is never taken for a whole one.
    File {
        file: NamedTempFile,
        path: PathBuf,
    },
    Done,
}

impl ContentSink {
    fn open(path: Option<&Path>, output: Arc<Output>) -> Result<Self, ApiError> {
        let target = match path {
            None => Target::Stdout(output),
            Some(path) => {
                if path.symlink_metadata().is_ok() {
                    return Err(exists(path));
                }
                let dir = match path.parent() {
                    Some(dir) if !dir.as_os_str().is_empty() => dir,
                    _ => Path::new("."),
                };
                // The temporary file's mode stays: plaintext is for whoever asked for it.
                let file = NamedTempFile::new_in(dir)
                    .map_err(|error| ApiError::io(format!("making a file in {}", dir.display()), &error))?;
                Target::File {
                    file,
                    path: path.to_owned(),
                }
            }
        };
        Ok(Self {
            target: Mutex::new(target),
            written: Mutex::new(0),
        })
    }

    fn write(&self, bytes: &[u8]) -> Result<(), ApiError> {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) += bytes.len() as u64;
        match &mut *self.target.lock().unwrap_or_else(PoisonError::into_inner) {
            Target::Stdout(output) => output.bytes(bytes),
            Target::File { file, path } => file
                .write_all(bytes)
                .map_err(|error| ApiError::io(format!("writing {}", path.display()), &error)),
            Target::Done => Err(ApiError::bug("content after its end")),
        }
    }

    /// Gives the file its name, once everything that was promised is in it.
    fn finish(&self, report: &GetReport) -> Result<(), ApiError> {
        if *self.written.lock().unwrap_or_else(PoisonError::into_inner) != report.bytes {
            return Err(ApiError::bug("another number of bytes came than was given out"));
        }
        let target = std::mem::replace(
            &mut *self.target.lock().unwrap_or_else(PoisonError::into_inner),
            Target::Done,
        );
        match target {
            Target::Stdout(output) => output.flush(),
            Target::File { file, path } => {
                let failed = |error: &std::io::Error| ApiError::io(format!("writing {}", path.display()), error);
                File::sync_all(file.as_file()).map_err(|error| failed(&error))?;
                match file.persist_noclobber(&path) {
                    Ok(_) => Ok(()),
                    Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists(&path)),
                    Err(error) => Err(failed(&error.error)),
                }
            }
            Target::Done => Err(ApiError::bug("a file was finished twice")),
        }
    }
}

fn exists(path: &Path) -> ApiError {
    ApiError::new(ErrorKind::Exists, format!("there is a file {} already", path.display()))
        .safe("it was not changed")
        .next("name another file with -o")
}

#[async_trait]
impl RowSink for ContentSink {
    async fn schema(&self, schema: SchemaRef) -> Result<(), ApiError> {
        match schema
            .fields()
            .iter()
            .map(|field| field.data_type())
            .collect::<Vec<_>>()[..]
        {
            [DataType::Binary] => Ok(()),
            _ => Err(ApiError::bug("a file came as something else than bytes")),
        }
    }

    async fn batch(&self, batch: RecordBatch) -> Result<(), ApiError> {
        for piece in batch.column(0).as_binary::<i32>().iter().flatten() {
            self.write(piece)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let range = |first, last| Ok(ByteRange { first, last });
        assert_eq!(parse_range("0-99"), range(0, Some(99)));
        assert_eq!(parse_range("7-7"), range(7, Some(7)));
        assert_eq!(parse_range("7-"), range(7, None));
        for bad in [
            "",
            "-",
            "-5",
            "5",
            "9-8",
            "a-b",
            "1-2-3",
            "0x1-2",
            "18446744073709551616-",
        ] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }
}
