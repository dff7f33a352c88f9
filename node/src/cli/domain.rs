//! `sovm domain`.

use clap::{Args, Subcommand};

use super::{Context, session::expect};
use crate::{
    api::{Request, Response},
    error::ApiError,
    output::TextTable,
};

/// List domains, make a domain: a domain is who may read, and every table belongs to one
#[derive(Args, Debug)]
pub(super) struct DomainArgs {
    #[command(subcommand)]
    command: DomainCommand,
}

#[derive(Debug, Subcommand)]
enum DomainCommand {
    /// List the domains this node is in
    List,
    /// Make a domain with this node as its first admin
    Create {
        /// Name of the domain
        name: String,
    },
}

impl DomainArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        match self.command {
            DomainCommand::List => {
                let report = expect!(context.call(Request::DomainList {}).await?, DomainList);
                let mut table = TextTable::new(&["name", "id", "role", ">members", ">tables", ">objects", ">key"]);
                for domain in &report.domains {
                    table.row([
                        domain.name.clone(),
                        domain.domain_id.chars().take(10).collect(),
                        domain.role.clone(),
                        domain.members.to_string(),
                        domain.tables.to_string(),
                        domain.objects.to_string(),
                        domain
                            .generation
                            .map_or_else(|| "none yet".to_owned(), |generation| generation.to_string()),
                    ]);
                }
                context.show(&Response::DomainList(report), |output| {
                    if table.is_empty() {
                        output.note("this node is in no domain");
                        return Ok(());
                    }
                    output.line(table.render())
                })
            }
            DomainCommand::Create { name } => {
                let domain = expect!(context.call(Request::DomainCreate { name }).await?, DomainCreate);
                let (id, name) = (domain.domain_id.clone(), domain.name.clone());
                context.show(&Response::DomainCreate(domain), |output| {
                    output.note(format!("made domain {name}; this node is its admin"));
                    output.line(id)
                })
            }
        }
    }
}
