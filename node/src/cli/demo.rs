//! `sovm demo`.

use std::path::PathBuf;

use clap::Args;

use super::{Context, DemoOptions, ingest::absolute};
use crate::{
    api::{DemoStep, Response},
    config::format_duration_ms,
    error::ApiError,
    output::{Output, Tone, visible},
};

/// Tell the whole story on this machine, with real nodes in a temporary directory
///
/// Three nodes and a blind replica as separate processes on loopback: ingest, invite, join, query, removal, a killed
/// transfer, recovery from a kit. Exit code 0 only if every step held.
#[derive(Args, Debug)]
pub(super) struct DemoArgs {
    /// Keep the homes in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

impl DemoArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let options = DemoOptions {
            keep: self.keep.as_deref().map(absolute).transpose()?,
        };
        let output = context.output.clone();
        let on_step = move |step: &DemoStep| {
            if output.is_json() {
                Ok(())
            } else {
                render(step, &output)
            }
        };
        let report = context.backend.demo(options, &on_step).await?;
        let (held, all, elapsed) = (
            report.steps.iter().filter(|step| step.held).count(),
            report.steps.len(),
            report.elapsed_ms,
        );
        let kept = report.kept.clone();
        context.show(&Response::Demo(report), |output| {
            output.line(format!("{held} of {all} steps held, {}", format_duration_ms(elapsed)))?;
            if let Some(dir) = kept {
                output.note(format!("the homes are in {}", dir.display()));
            }
            Ok(())
        })
    }
}

fn render(step: &DemoStep, output: &Output) -> Result<(), ApiError> {
    let mark = if step.held {
        output.paint(Tone::Good, "✓")
    } else {
        output.paint(Tone::Bad, "✗")
    };
    let time = output.paint(Tone::Dim, &format!("({})", format_duration_ms(step.elapsed_ms)));
    output.painted_line(&format!("{mark} {} {time}", visible(&step.title)))?;
    step.evidence
        .iter()
        .try_for_each(|line| output.line(format!("    {line}")))?;
    output.flush()
}
