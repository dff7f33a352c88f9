//! `sovm object put`.

use std::{path::PathBuf, sync::Arc};

use clap::Args;

use super::super::{
    Context,
    ingest::{absolute, is_stdin},
    session::expect,
};
use crate::{
    api::{Discard, PutReport, PutRequest, Request, Response},
    config::format_bytes,
    error::ApiError,
    output::Output,
};

/// Publish plain files as encrypted objects
///
/// All files of one command become visible at once, or none. Whoever may read the domain can get them. Their names stay on
/// this device.
#[derive(Args, Debug)]
pub(super) struct PutArgs {
    /// Files to publish, or - for standard input; up to 4 GiB each
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Domain whose members can read them. Default: main
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// What this device calls the one file. Default: the file's own name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl PutArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let stdin = is_stdin(&self.files)?;
        let files = if stdin {
            Vec::new()
        } else {
            self.files.iter().map(|file| absolute(file)).collect::<Result<_, _>>()?
        };
        let request = PutRequest {
            files,
            domain: self.domain,
            name: self.name,
        };
        let input = stdin.then(|| Box::new(std::io::stdin()) as Box<dyn std::io::Read + Send + Sync>);
        let session = context.open(false).await?;
        let result = session
            .service()
            .call(Request::ObjectPut(request), context.exchange(input, Arc::new(Discard)))
            .await;
        session.close().await;
        let report = expect!(result?, ObjectPut);
        let shown = report.clone();
        context.show(&Response::ObjectPut(report), |output| render(&shown, output))
    }
}

fn render(report: &PutReport, output: &Output) -> Result<(), ApiError> {
    for file in &report.files {
        output.line(&file.storage_id)?;
    }
    for file in &report.files {
        output.note(format!(
            "published {} in domain {}: {}, {} encrypted",
            file.name.as_deref().unwrap_or("a file without a name"),
            report.domain,
            format_bytes(file.content_bytes),
            format_bytes(file.size_bytes)
        ));
    }
    Ok(())
}
