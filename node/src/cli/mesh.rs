//! `sovm mesh`.

use clap::{Args, Subcommand};

use super::{
    Context,
    session::expect,
    status::{now_ms, when},
};
use crate::{
    api::{MembersReport, RemoveReport, Request, Response},
    error::ApiError,
    output::{Output, TextTable},
};

/// Name the mesh, list its devices, take a device out
#[derive(Args, Debug)]
pub(super) struct MeshArgs {
    #[command(subcommand)]
    command: MeshCommand,
}

#[derive(Debug, Subcommand)]
enum MeshCommand {
    /// Name the mesh this node founded
    Create {
        /// Name of the mesh
        name: String,
    },
    /// List the devices
    Members,
    /// Take a device out: it reads nothing that is published afterwards
    ///
    /// Closes its connections and rotates the keys of its domains. What it already has stays with it.
    Remove {
        /// Site id, a unique beginning of it, or the device's name
        site: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

impl MeshArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        match self.command {
            MeshCommand::Create { name } => {
                let mesh = expect!(context.call(Request::MeshCreate { name }).await?, MeshCreate);
                let id = mesh.mesh_id.clone();
                let name = mesh.name.clone().unwrap_or_default();
                context.show(&Response::MeshCreate(mesh), |output| {
                    output.note(format!("this mesh is now named {name}"));
                    output.line(id)
                })
            }
            MeshCommand::Members => {
                let report = expect!(context.call(Request::MeshMembers {}).await?, MeshMembers);
                let table = members(&report, now_ms());
                context.show(&Response::MeshMembers(report), |output| output.line(table.render()))
            }
            MeshCommand::Remove { site, yes } => {
                if !yes && context.output.can_ask() && !context.output.ask(&format!("Take {site} out of the mesh?"))? {
                    context.output.note("nothing was changed");
                    return Ok(1);
                }
                let report = expect!(context.call(Request::MeshRemove { site }).await?, MeshRemove);
                let shown = report.clone();
                context.show(&Response::MeshRemove(report), |output| removed(&shown, output))
            }
        }
    }
}

fn members(report: &MembersReport, now_ms: u64) -> TextTable {
    let mut table = TextTable::new(&["site", "name", "role", "domains", "seen"]);
    for member in &report.members {
        let seen = if member.this_node {
            "this node".to_owned()
        } else if member.online {
            "online".to_owned()
        } else {
            member
                .last_seen_ms
                .map_or_else(|| "never".to_owned(), |at| when(at, now_ms))
        };
        let short: String = member.site.chars().take(10).collect();
        table.row([
            short,
            member.name.clone().unwrap_or_default(),
            member.role.clone(),
            member.domains.join(", "),
            seen,
        ]);
    }
    table
}

fn removed(report: &RemoveReport, output: &Output) -> Result<(), ApiError> {
    output.line(&report.site)?;
    output.note(format!(
        "{} is out of the mesh",
        report.name.as_deref().unwrap_or("the device")
    ));
    for rotation in &report.rotated {
        output.note(format!(
            "domain {} has a new key, generation {}",
            rotation.domain, rotation.generation
        ));
    }
    output.note("what it already had stays with it");
    Ok(())
}
