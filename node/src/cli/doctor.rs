//! `sovm doctor`.

use clap::Args;

use super::{Context, OpenOptions, session::expect};
use crate::{
    api::{DoctorReport, Request, Response, Severity},
    config::format_bytes,
    error::ApiError,
    output::{Output, Tone, visible},
};

/// Show what is wrong with this node, what is safe, and what to do
#[derive(Args, Debug)]
#[command(after_help = "\
Exit code 1 when something is damaged and not repaired, 20 with --strict when something waits or is
unproven, else 0.

--repair does what loses nothing: goes back to the previous copy of a damaged key store, removes
temporary files, takes whole bytes back, lets go of bytes that are gone, and asks for everything
that is missing again.")]
pub(super) struct DoctorArgs {
    /// Do what is safe without asking
    #[arg(long)]
    repair: bool,
}

impl DoctorArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let session = context
            .open_with(OpenOptions {
                fall_back: self.repair,
                ..OpenOptions::default()
            })
            .await?;
        let answer = context
            .call_on(session, Request::Doctor { repair: self.repair })
            .await?;
        let report = expect!(answer, Doctor);
        let shown = report.clone();
        context.show(&Response::Doctor(report), |output| render(&shown, output))
    }
}

fn render(report: &DoctorReport, output: &Output) -> Result<(), ApiError> {
    for finding in &report.findings {
        let mark = match (finding.repaired, finding.severity) {
            (true, _) => output.paint(Tone::Good, "repaired"),
            (false, Severity::Damage) => output.paint(Tone::Bad, "damage"),
            (false, Severity::Attention) => "attention".to_owned(),
            (false, Severity::Note) => output.paint(Tone::Dim, "note"),
        };
        output.painted_line(&format!("{mark}  {}", visible(&finding.text)))?;
        output.line(format!("  safe: {}", finding.safe))?;
        if !finding.repaired {
            output.line(format!("  next: {}", finding.next))?;
        }
    }
    if report.findings.is_empty() {
        output.painted_line(&output.paint(Tone::Good, "nothing is wrong"))?;
    }
    output.note(format!(
        "{} objects, {} looked at by their files; sovm object verify reads every byte",
        report.objects,
        format_bytes(report.bytes)
    ));
    Ok(())
}
