//! `sovm product`.

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use sovm_inventory::{
    doc::{CleanText, Lifecycle, ProductId, ProductKind},
    transition::ProductProfile,
};

use super::{
    Context,
    catalogue::{StoreArgs, WriteArgs},
    inventory::show_change,
    session::unexpected,
};
use crate::{
    api::{CatalogueCommand, ProductListReport, Response},
    error::ApiError,
    inventory::{Author, Catalogue, NewProduct, Wish},
    output::TextTable,
};

/// Work with products: what a catalogue publishes, each as a sequence of editions
#[derive(Args, Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct ProductArgs {
    #[command(subcommand)]
    command: ProductCommand,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, Subcommand)]
pub(crate) enum ProductCommand {
    /// Make a product, whose editions can then be built
    Create {
        /// Its id: letters, digits, dashes, dots, underscores and tildes, a letter or digit first
        product: ProductId,
        /// What it holds
        #[arg(long)]
        kind: Kind,
        /// Whether its content may still change
        #[arg(long)]
        lifecycle: Life,
        /// What people call it
        #[arg(long, value_name = "TEXT")]
        title: Option<CleanText>,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// List the products
    List {
        #[command(flatten)]
        at: StoreArgs,
    },
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, ValueEnum)]
pub(crate) enum Kind {
    /// Tables, and the structures they need
    Data,
    /// Full codelists and other structures, no tables
    Structure,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, ValueEnum)]
pub(crate) enum Life {
    /// Every edition holds the same content
    Final,
    /// A later edition may hold other content
    Revisable,
}

impl ProductArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let (at, author) = match &self.command {
            ProductCommand::Create { write, .. } => (&write.at, write.author()?),
            ProductCommand::List { at } => (at, Author::new(None, None)?),
        };
        let at = at.clone();
        let command = CatalogueCommand::from(self.command.clone());
        let response = match at.ask(context, Some(author.reason.clone()), &command).await? {
            Some(response) => response,
            None => self.command.perform(&at.open(context)?, author).await?,
        };
        show(context, &response)
    }
}

impl ProductCommand {
    /// Whether it may change the catalogue.
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Create { .. })
    }

    /// Carries it out on a catalogue, wherever that lies.
    pub(crate) async fn perform(self, catalogue: &Catalogue, author: Author) -> Result<Response, ApiError> {
        match self {
            Self::Create {
                product,
                kind,
                lifecycle,
                title,
                write: _,
            } => {
                let kind = match kind {
                    Kind::Data => ProductKind::Data,
                    Kind::Structure => ProductKind::Structure,
                };
                let lifecycle = match lifecycle {
                    Life::Final => Lifecycle::Final,
                    Life::Revisable => Lifecycle::Revisable,
                };
                let product = NewProduct {
                    product_id: product,
                    profile: ProductProfile { kind, lifecycle },
                    title,
                };
                let report = catalogue.change(author, Wish::Create(product)).await?;
                Ok(Response::InventoryChange(Box::new(report)))
            }
            Self::List { at: _ } => Ok(Response::ProductList(catalogue.products().await?)),
        }
    }
}

/// Shows what a command came to.
pub(super) fn show(context: &Context<'_>, response: &Response) -> Result<u8, ApiError> {
    match response {
        Response::InventoryChange(report) => show_change(context, response, report),
        Response::ProductList(report) => context.show(response, |output| output.line(list(report))),
        _ => Err(unexpected("product")),
    }
}

fn list(report: &ProductListReport) -> String {
    let mut table = TextTable::new(&["product", "kind", "lifecycle", "editions", "live", "title"]);
    for product in &report.products {
        table.row([
            product.product_id.as_str(),
            product.kind.as_deref().unwrap_or_default(),
            product.lifecycle.as_deref().unwrap_or_default(),
            &product.editions.to_string(),
            &product.live.join(" "),
            product.title.as_deref().unwrap_or_default(),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ProductInfo;

    #[test]
    fn products_read_as_a_table() {
        let report = ProductListReport {
            products: vec![
                ProductInfo {
                    product_id: "codes".into(),
                    kind: Some("structure".into()),
                    lifecycle: Some("revisable".into()),
                    title: Some("Code lists".into()),
                    ..ProductInfo::default()
                },
                ProductInfo {
                    product_id: "gone".into(),
                    ..ProductInfo::default()
                },
            ],
            ..ProductListReport::default()
        };
        let text = list(&report);
        assert_eq!(text.lines().count(), 4, "{text}");
        let codes = text.lines().find(|line| line.starts_with("codes ")).unwrap();
        assert!(codes.contains("structure") && codes.ends_with("Code lists"), "{text}");
    }
}
