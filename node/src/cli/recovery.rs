//! `sovm recovery`.

use clap::{Args, Subcommand};

use super::{Context, session::expect};
use crate::{
    api::{Request, Response},
    error::ApiError,
    output::TextTable,
};

/// Make a recovery kit, write a checkpoint
#[derive(Args, Debug)]
pub(super) struct RecoveryArgs {
    #[command(subcommand)]
    command: RecoveryCommand,
}

#[derive(Debug, Subcommand)]
enum RecoveryCommand {
    /// Make a recovery kit: one page that opens the domain again on an empty machine
    ///
    /// Whoever holds the page holds the data. Print it, keep it away from the devices, do not store it on them.
    Kit {
        /// Domain it opens. Default: main
        #[arg(long, value_name = "DOMAIN")]
        domain: Option<String>,
    },
    /// Write a checkpoint and a recovery root now
    Checkpoint {
        /// Only this domain. Default: all
        #[arg(long, value_name = "DOMAIN")]
        domain: Option<String>,
    },
}

impl RecoveryArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        match self.command {
            RecoveryCommand::Kit { domain } => {
                let report = expect!(context.call(Request::RecoveryKit { domain }).await?, RecoveryKit);
                let (page, domain) = (report.page.clone(), report.domain.clone());
                context.show(&Response::RecoveryKit(report), |output| {
                    output.line(page.trim_end())?;
                    output.flush()?;
                    output.note(format!(
                        "this page is the kit of domain {domain}: print it, then clear the screen"
                    ));
                    output.note("next: sovm drill proves that recovery works");
                    Ok(())
                })
            }
            RecoveryCommand::Checkpoint { domain } => {
                let report = expect!(
                    context.call(Request::RecoveryCheckpoint { domain }).await?,
                    RecoveryCheckpoint
                );
                let mut table = TextTable::new(&["domain", "root", ">number", ">entries", "digest", ">copies"]);
                for checkpoint in &report.checkpoints {
                    table.row([
                        checkpoint.domain.clone(),
                        checkpoint.root_id.chars().take(10).collect(),
                        checkpoint.recovery_generation.to_string(),
                        checkpoint.entries.to_string(),
                        checkpoint.digest.chars().take(10).collect(),
                        checkpoint.copies.to_string(),
                    ]);
                }
                context.show(&Response::RecoveryCheckpoint(report), |output| {
                    output.line(table.render())
                })
            }
        }
    }
}
