//! `sovm join`.

use clap::Args;

use super::{Context, session::expect, status};
use crate::{
    api::{JoinReport, Request, Response},
    error::ApiError,
    output::Output,
};

/// Join another mesh with the ticket that `sovm invite` printed there
///
/// This node's own mesh is replaced, which is possible only while it holds no table.
#[derive(Args, Debug)]
pub(super) struct JoinArgs {
    /// The ticket, one line
    ticket: String,
    /// Do not wait for a compared code; for reader and blind tickets of at most 15 minutes
    #[arg(long)]
    yes: bool,
}

impl JoinArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let request = Request::Join {
            ticket: self.ticket.trim().to_owned(),
            yes: self.yes,
        };
        let report = expect!(context.call(request).await?, Join);
        let shown = report.clone();
        context.show(&Response::Join(report), |output| render(&shown, output))
    }
}

fn render(report: &JoinReport, output: &Output) -> Result<(), ApiError> {
    output.line(&report.mesh.mesh_id)?;
    let mesh = report.mesh.name.as_deref().unwrap_or("a mesh without a name");
    output.note(format!("joined {mesh} as {}, {} devices", report.role, report.devices));
    if !report.domains.is_empty() {
        output.note(format!("domains: {}", report.domains.join(", ")));
    }
    output.note(status::objects(&report.objects, report.role == "blind"));
    output.note("next: sovm run keeps this node in step with the others; sovm status shows how far it is");
    Ok(())
}
