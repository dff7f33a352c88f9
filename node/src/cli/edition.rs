//! `sovm edition`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Context, ingest::absolute};
use crate::{api::Response, error::ApiError, inventory, output::Output};

/// Work with editions: immutable, sealed states of a published product
#[derive(Args, Debug)]
pub(super) struct EditionArgs {
    #[command(subcommand)]
    command: EditionCommand,
}

#[derive(Debug, Subcommand)]
enum EditionCommand {
    /// Print the table fingerprint of a Parquet file: the same for the same rows, however they are stored
    Fingerprint {
        /// A Parquet file in clear
        file: PathBuf,
    },
}

impl EditionArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        match self.command {
            EditionCommand::Fingerprint { file } => {
                let report = inventory::fingerprint(&absolute(&file)?, context.output.clone()).await?;
                let fingerprint = report.fingerprint.clone();
                let response = Response::EditionFingerprint(report);
                context.show(&response, |output: &Output| {
                    fingerprint.map_or(Ok(()), |text| output.line(text))
                })
            }
        }
    }
}
