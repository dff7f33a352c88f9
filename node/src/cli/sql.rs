//! `sovm sql`.

use clap::Args;

use super::{Context, session::expect};
use crate::{
    api::{Request, Response, SqlExplain, SqlReport, SqlRequest},
    config::{format_bytes, format_duration_ms, parse_size},
    error::{ApiError, ErrorKind},
    output::{Output, RowFormat, RowPrinter},
};

/// Run one read-only SQL statement over the tables of this node
///
/// Every byte an answer comes from is verified and decrypted on the way; statistics may skip work, never answer. A query
/// that needs objects which are not here fails and names them.
#[derive(Args, Debug)]
pub(super) struct SqlArgs {
    /// The statement: SELECT, EXPLAIN, SHOW TABLES or DESCRIBE
    query: String,
    /// How rows are written
    #[arg(long, value_enum, default_value_t = RowFormat::Table)]
    format: RowFormat,
    /// Run the statement, and print its plan and what was read instead of its rows
    #[arg(long)]
    explain: bool,
    /// Answer from what is here, and say what is missing
    #[arg(long)]
    allow_incomplete: bool,
    /// Memory the query may use, for example 512MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
}

impl SqlArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        if self.format.is_binary() && !context.output.is_json() && !self.explain && context.output.stdout_is_terminal()
        {
            return Err(ApiError::new(
                ErrorKind::Usage,
                "this format is not text, and standard output is a terminal",
            )
            .safe("nothing was run")
            .next("send it to a file: sovm sql … > FILE"));
        }
        let printer = RowPrinter::new(context.output.clone(), self.format);
        let request = SqlRequest {
            query: self.query,
            explain: self.explain,
            allow_incomplete: self.allow_incomplete,
            memory: self.memory,
        };
        let session = context.open(false).await?;
        let result = session
            .service()
            .call(Request::Sql(request), context.exchange(None, printer.clone()))
            .await;
        session.close().await;
        let report = expect!(result?, Sql);
        let response = Response::Sql(report.clone());
        if let Some(explain) = &report.explain {
            return context.show(&response, |output| render_explain(explain, &report, output));
        }
        printer.finish(&response)?;
        context.output.flush()?;
        notes(&report, &context.output);
        context.judge(&response)
    }
}

fn notes(report: &SqlReport, output: &Output) {
    output.note(format!(
        "{} rows, {}",
        report.rows,
        format_duration_ms(report.elapsed_ms)
    ));
    if let Some(coverage) = report.coverage.as_ref().filter(|coverage| !coverage.missing.is_empty()) {
        output.warn(format!(
            "this answer is incomplete: {} of the {} objects it needs are not here",
            coverage.missing.len(),
            coverage.objects_needed
        ));
        for object in coverage.missing.iter().take(10) {
            let short: String = object.storage_id.chars().take(10).collect();
            output.note(format!("  {short} {}: {}", object.state.word(), object.reason));
        }
    }
}

fn render_explain(explain: &SqlExplain, report: &SqlReport, output: &Output) -> Result<(), ApiError> {
    output.line(explain.plan.trim_end())?;
    let scan = &explain.scan;
    output.line(format!(
        "objects: {} considered, {} pruned by manifest, {} opened",
        scan.objects_considered, scan.objects_pruned, scan.objects_opened
    ))?;
    output.line(format!(
        "row groups: {} read, {} skipped by footer",
        scan.row_groups_read, scan.row_groups_skipped
    ))?;
    output.line(format!(
        "bytes: {} verified, {} decrypted; {} rows decoded",
        format_bytes(scan.bytes_verified),
        format_bytes(scan.bytes_decrypted),
        scan.rows_decoded
    ))?;
    notes(report, output);
    Ok(())
}
