//! `sovm gc`.

use std::time::Duration;

use clap::Args;

use super::{Context, session::expect};
use crate::{
    api::{GcReport, GcRequest, Request, Response},
    config::{format_bytes, format_duration_ms, parse_duration},
    error::ApiError,
    output::Output,
};

/// Remove bytes that no entry names: left over from commands that failed or were killed
#[derive(Args, Debug)]
pub(super) struct GcArgs {
    /// Only list what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Running time of this node that left-overs must be old. Default: 7d
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    after: Option<Duration>,
    /// Remove them even if they are more than a quarter of all bytes here
    #[arg(long)]
    allow_large: bool,
    /// The catalogue was restored from an older copy, and no row is missing: what it does not name may go
    #[arg(long)]
    allow_restored: bool,
}

impl GcArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let request = GcRequest {
            dry_run: self.dry_run,
            after_secs: self.after.map(|after| after.as_secs()),
            allow_large: self.allow_large,
            allow_restored: self.allow_restored,
        };
        let report = expect!(context.call(Request::Gc(request)).await?, Gc);
        let shown = report.clone();
        context.show(&Response::Gc(report), |output| render(&shown, output))
    }
}

fn render(report: &GcReport, output: &Output) -> Result<(), ApiError> {
    let did = if report.dry_run { "would be removed" } else { "removed" };
    for object in &report.removed {
        output.line(format!("{} {} {did}", object.storage_id, format_bytes(object.bytes)))?;
    }
    for object in &report.waiting {
        output.line(format!(
            "{} {} left over for {}",
            object.storage_id,
            format_bytes(object.bytes),
            format_duration_ms(object.age_ms)
        ))?;
    }
    output.note(format!(
        "{} objects, {} {did}; {} are left over for less than {}",
        report.removed.len(),
        format_bytes(report.removed_bytes),
        report.waiting.len(),
        format_duration_ms(report.after_secs.saturating_mul(1_000))
    ));
    Ok(())
}
