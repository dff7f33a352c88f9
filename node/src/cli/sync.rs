//! `sovm sync`.

use std::time::Duration;

use clap::Args;

use super::{Context, session::expect, status};
use crate::{
    api::{Request, Response, SyncReport},
    config::parse_duration,
    error::ApiError,
    output::Output,
};

/// Exchange entries with every device that can be reached, now instead of at the next round
#[derive(Args, Debug)]
pub(super) struct SyncArgs {
    /// Go on until nothing is missing here and replicas have what they should, at most this long
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    wait: Duration,
}

impl SyncArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let report = expect!(
            context
                .call(Request::Sync {
                    wait_secs: self.wait.as_secs()
                })
                .await?,
            Sync
        );
        let shown = report.clone();
        context.show(&Response::Sync(report), |output| render(&shown, output))
    }
}

fn render(report: &SyncReport, output: &Output) -> Result<(), ApiError> {
    output.line(format!(
        "talked to {} devices: {} entries received, {} sent; {}",
        report.peers,
        report.received,
        report.sent,
        status::objects(&report.objects, report.blind)
    ))
}
