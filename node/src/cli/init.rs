//! `sovm init`.

use std::path::PathBuf;

use clap::Args;

use super::{Context, InitOptions, session::expect, unlock};
use crate::{
    api::{Exchange, InitReport, MeshInfo, Request, Response, Service as _},
    client::{self, PATIENCE, Reached},
    config::Config,
    error::{ApiError, ErrorKind},
    output::Output,
};

/// Make a node in this home, with a mesh of its own and the domain `main`
///
/// Works offline and is safe to repeat: a node that is there stays as it is.
#[derive(Args, Debug)]
pub(super) struct InitArgs {
    /// Name of this device, as the other devices show it. Default: the machine's name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Open the node with this file instead of a passphrase; made with mode 0600 when it does not exist
    #[arg(long, value_name = "PATH")]
    key_file: Option<PathBuf>,
}

impl InitArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let existing = context.home.is_initialised();
        let report = match client::reach(&context.home, PATIENCE).await? {
            Reached::Daemon(client) => {
                let status = expect!(client.call(Request::Status {}, Exchange::silent()).await?, Status);
                InitReport {
                    home: context.home.path().to_owned(),
                    site: status.site,
                    name: status.name,
                    mesh: status.mesh,
                    created: false,
                    key_file: status.key_file,
                }
            }
            Reached::Here(_lock) => {
                let mut config = Config::load(&context.home)?;
                let unlock = if existing {
                    unlock::existing(&config, &context.output)?
                } else {
                    let (unlock, remember) = unlock::fresh(self.key_file.as_deref(), &context.output)?;
                    if let Some(path) = remember {
                        // Before the node is there: a node that forgot its key file could not be opened by the next command.
                        config.key_file = Some(path);
                        config.store(&context.home)?;
                    }
                    unlock
                };
                let options = InitOptions {
                    unlock,
                    name: self.name.clone(),
                };
                context.backend.init(&context.home, options).await?
            }
        };
        if existing && self.name.as_ref().is_some_and(|name| *name != report.name) {
            return Err(ApiError::new(
                ErrorKind::Exists,
                format!("there is a node here already, named {}", report.name),
            )
            .safe("it was not changed")
            .next("leave out --name, or make another node with --home DIR"));
        }
        let response = Response::Init(report);
        let Response::Init(report) = &response else {
            unreachable!("made one line above")
        };
        context.show(&response, |output| render(report, output))
    }
}

fn render(report: &InitReport, output: &Output) -> Result<(), ApiError> {
    // The id alone is data: `site=$(sovm init)` works.
    output.line(&report.site)?;
    if report.created {
        output.note(format!("made node {} in {}", report.name, report.home.display()));
    } else {
        output.note(format!(
            "node {} is already in {}; nothing was changed",
            report.name,
            report.home.display()
        ));
    }
    output.note(mesh_sentence(&report.mesh));
    if report.key_file {
        output.note("a key file opens this node: it protects nothing when it lies beside the data");
    }
    if report.created {
        output.note("next: sovm ingest TABLE FILE, then sovm sql \"select count(*) from TABLE\"");
        output.note("make a recovery kit soon: sovm recovery kit. Without it a lost device is lost data");
    }
    Ok(())
}

fn mesh_sentence(mesh: &MeshInfo) -> String {
    let short: String = mesh.mesh_id.chars().take(10).collect();
    match &mesh.name {
        Some(name) => format!("mesh {name} ({short})"),
        None => format!("mesh {short}, without a name yet (sovm mesh create NAME)"),
    }
}
