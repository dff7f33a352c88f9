//! What commands that work on a catalogue have in common.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use sovm_inventory::{
    doc::{CatalogId, CleanText, EditionId, ProductId},
    transition::EditionKey,
};

use super::{Context, ingest::absolute};
use crate::{
    api::{CatalogueCommand, CatalogueRequest, Request, Response},
    error::{ApiError, ErrorKind},
    inventory::{Address, Author, Catalogue},
};

/// Which catalogue.
#[derive(Args, Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct StoreArgs {
    /// The catalogue's directory, or s3://BUCKET/PREFIX. Default: this node's own catalogue
    #[arg(long, value_name = "DIR|URL")]
    store: Option<String>,
    /// Which of this node's catalogues, where it has several
    #[arg(long, value_name = "ID", conflicts_with = "store")]
    catalog: Option<CatalogId>,
}

/// Which catalogue, who changes it, and why.
#[derive(Args, Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct WriteArgs {
    #[command(flatten)]
    pub(super) at: StoreArgs,
    /// Why; kept in the version for good
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who; kept in the version for good. Default: this user at this machine. In a node it is always the node
    #[arg(long, value_name = "NAME", requires = "store")]
    actor: Option<CleanText>,
}

/// One edition.
#[derive(Args, Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct EditionArg {
    /// The product
    pub(super) product: ProductId,
    /// Its edition
    pub(super) edition: EditionId,
}

impl StoreArgs {
    /// Opens the catalogue; a directory must be there.
    pub(super) fn open(&self, context: &Context<'_>) -> Result<Catalogue, ApiError> {
        Catalogue::open(self.address()?, context.output.clone())
    }

    /// Opens the catalogue; a directory that isn't there is made.
    pub(super) async fn open_or_make(&self, context: &Context<'_>) -> Result<Catalogue, ApiError> {
        Catalogue::open_or_make(self.address()?, context.output.clone()).await
    }

    /// Has a node answer, where the catalogue is one of a node: in the daemon, if one runs on this home. None for a catalogue in a
    /// directory or a bucket, which answers here.
    pub(super) async fn ask(
        &self,
        context: &Context<'_>,
        reason: Option<String>,
        command: &CatalogueCommand,
    ) -> Result<Option<Response>, ApiError> {
        if self.store.is_some() {
            return Ok(None);
        }
        let request = CatalogueRequest {
            catalog: self.catalog,
            reason,
            ask: command.clone(),
        };
        context.call(Request::Catalogue(Box::new(request))).await.map(Some)
    }

    fn address(&self) -> Result<Address, ApiError> {
        Address::parse(self.store.as_deref())
    }
}

impl WriteArgs {
    /// Who is recorded, and why.
    pub(super) fn author(&self) -> Result<Author, ApiError> {
        Author::new(self.actor.clone(), self.reason.clone())
    }
}

/// Where a copy is written: a plain directory, whoever writes it.
pub(super) fn directory(path: &Path) -> Result<PathBuf, ApiError> {
    if path.to_string_lossy().contains("://") {
        return Err(ApiError::new(
            ErrorKind::Refused,
            "a copy is written into a plain directory, and --to names an address",
        )
        .safe("nothing was copied")
        .next("name a directory with --to DIR, and copy that into the bucket with its provider's tools"));
    }
    absolute(path)
}

impl EditionArg {
    pub(super) fn key(self) -> EditionKey {
        EditionKey::new(self.product, self.edition)
    }
}
