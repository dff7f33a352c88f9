//! `sovm drill`.

use clap::Args;

use super::{Context, session::expect};
use crate::{
    api::{DrillReport, Request, Response},
    config::{format_bytes, format_duration_ms},
    error::ApiError,
    output::{Output, Tone, visible},
};

/// Prove that recovery would work: restore into a temporary home, compare, record
#[derive(Args, Debug)]
pub(super) struct DrillArgs {
    /// Only this domain. Default: all
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// Read every object in full instead of a random sample
    #[arg(long)]
    full: bool,
}

impl DrillArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let report = expect!(
            context
                .call(Request::Drill {
                    domain: self.domain,
                    full: self.full
                })
                .await?,
            Drill
        );
        let shown = report.clone();
        context.show(&Response::Drill(report), |output| render(&shown, output))
    }
}

fn render(report: &DrillReport, output: &Output) -> Result<(), ApiError> {
    for domain in &report.domains {
        let mark = if domain.proven {
            output.paint(Tone::Good, "proven")
        } else {
            output.paint(Tone::Bad, "not proven")
        };
        output.painted_line(&format!(
            "{mark}  {}: {} objects restored, {} missing, checkpoint {} old, {} read and compared",
            visible(&domain.domain),
            domain.objects,
            domain.missing.len(),
            format_duration_ms(domain.checkpoint_age_ms),
            format_bytes(domain.sampled_bytes)
        ))?;
        let equal = if domain.digest_restored == domain.digest_here {
            "equal"
        } else {
            "DIFFERENT"
        };
        output.line(format!("  digest {} ({equal})", domain.digest_restored))?;
        for table in &domain.tables {
            output.line(format!(
                "  table {}: {} rows restored, {} here",
                table.table, table.rows_restored, table.rows_here
            ))?;
        }
        if domain.files > 0 {
            output.line(format!("  files: {} restored", domain.files))?;
        }
        if domain.edition_files > 0 {
            output.line(format!("  files of editions: {} restored", domain.edition_files))?;
        }
        for id in &domain.missing {
            output.line(format!("  missing {id}"))?;
        }
    }
    Ok(())
}
