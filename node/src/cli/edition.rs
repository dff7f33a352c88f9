//! `sovm edition`.

mod render;

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::{ArgAction, Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use sovm_inventory::{
    doc::{EditionId, FilePath, Instant, ProductId, Urn},
    fingerprint::CheckProfile,
};

use super::{
    Context,
    catalogue::{EditionArg, StoreArgs, WriteArgs, directory},
    ingest::absolute,
    session::unexpected,
};
use crate::{
    api::{CatalogueCommand, Response},
    error::ApiError,
    inventory::{self, Author, Build, Catalogue, Rows},
};

/// Work with editions: immutable, sealed states of a published product
#[derive(Args, Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct EditionArgs {
    #[command(subcommand)]
    command: EditionCommand,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, Subcommand)]
pub(crate) enum EditionCommand {
    Build(BuildArgs),
    /// Seal the unsealed edition, check it and record it: live, or embargoed while the embargo is on
    Seal {
        /// The product
        product: ProductId,
        /// When it becomes due for release, as 2026-07-30T08:30:00Z; the embargo must be on
        #[arg(long, value_name = "TIME")]
        release_at: Option<Instant>,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// List the editions of a product, or of all
    List {
        /// Only this product
        product: Option<ProductId>,
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Delete an unsealed edition
    Discard {
        #[command(flatten)]
        edition: EditionArg,
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Check a sealed edition against its manifest
    Check {
        #[command(flatten)]
        edition: EditionArg,
        /// How much is read
        #[arg(long, default_value = "publish")]
        profile: Profile,
        /// With the receive profile: compute the fingerprints anew as well
        #[arg(long)]
        fingerprints: bool,
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Copy a sealed edition with all its files, its manifest last
    Copy {
        #[command(flatten)]
        edition: EditionArg,
        /// The directory; made when it isn't there
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Print the table fingerprint of a Parquet file: the same for the same rows, however they are stored
    Fingerprint {
        /// A Parquet file in clear
        file: PathBuf,
    },
}

/// Begin the product's next edition, or go on with it, and give it tables, structures and files
///
/// It starts with everything the live edition holds, and stays unsealed, visible to nobody, until `edition seal`.
/// Parquet files are taken as they are; CSV, NDJSON and Arrow files are written as Parquet, instants as times in UTC.
#[derive(Args, Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct BuildArgs {
    /// The product
    product: ProductId,
    /// A file with rows, and the dataflow it belongs to, as AGENCY:FLOW(1.0)=FILE; repeat it for more files
    #[arg(long = "table", value_name = "DATAFLOW=FILE")]
    tables: Vec<TableFile>,
    /// Add the rows to those the table has
    #[arg(long, conflicts_with = "replace")]
    append: bool,
    /// Put the rows in the place of those the table has
    #[arg(long)]
    replace: bool,
    /// A word that means "no value" in text files, such as NA
    #[arg(long = "null", value_name = "WORD")]
    nulls: Vec<String>,
    /// A structure message, SDMX-JSON 2.0 or SDMX-ML 2.1; repeat it for more
    #[arg(long, value_name = "FILE")]
    structures: Vec<PathBuf>,
    /// Take the structure messages of the live edition out first
    #[arg(long)]
    replace_structures: bool,
    /// Another file, and its name in the edition; repeat it for more
    #[arg(long = "file", value_name = "NAME=FILE", action = ArgAction::Append)]
    files: Vec<OtherFile>,
    /// Go on with the unsealed edition
    #[arg(long, conflicts_with = "edition")]
    resume: bool,
    /// The new edition's id. Default: one of this moment
    #[arg(long, value_name = "EDITION")]
    edition: Option<EditionId>,
    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, ValueEnum)]
pub(crate) enum Profile {
    /// Everything: sizes, digests, counts, references, fingerprints
    Publish,
    /// Sizes everywhere, digests of the edition's own files, counts, references
    Receive,
    /// The manifest and sizes
    Open,
}

impl From<Profile> for CheckProfile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Publish => Self::Publish,
            Profile::Receive => Self::Receive,
            Profile::Open => Self::Open,
        }
    }
}

const DATAFLOW: &str = "urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=";

/// `DATAFLOW=FILE`. A URN has an equals sign of its own, so the one after its version counts.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct TableFile {
    dataflow: Urn,
    file: PathBuf,
}

impl FromStr for TableFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.find(")=").map(|at| (&text[..=at], &text[at + 2..]));
        let Some((dataflow, file)) = parts.filter(|(_, file)| !file.is_empty()) else {
            return Err("it is DATAFLOW=FILE, such as ESTAT:POPULATION(1.0)=population.parquet".to_owned());
        };
        let urn = match dataflow.strip_prefix(DATAFLOW) {
            Some(_) => dataflow.to_owned(),
            None => format!("{DATAFLOW}{dataflow}"),
        };
        Ok(Self {
            dataflow: urn.parse().map_err(|error| format!("{error}"))?,
            file: file.into(),
        })
    }
}

/// `NAME=FILE`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct OtherFile {
    name: FilePath,
    file: PathBuf,
}

impl FromStr for OtherFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, file)) if !file.is_empty() => Ok(Self {
                name: name.parse().map_err(|error| format!("{error}"))?,
                file: file.into(),
            }),
            _ => Err("it is NAME=FILE, such as notes.pdf=methods-2026.pdf".to_owned()),
        }
    }
}

impl BuildArgs {
    fn build(self) -> Build {
        Build {
            product_id: self.product,
            edition_id: self.edition,
            resume: self.resume,
            tables: self
                .tables
                .into_iter()
                .map(|table| (table.dataflow, table.file))
                .collect(),
            rows: match (self.append, self.replace) {
                (true, _) => Some(Rows::Append),
                (_, true) => Some(Rows::Replace),
                (false, false) => None,
            },
            nulls: self.nulls,
            structures: self.structures,
            replace_structures: self.replace_structures,
            files: self.files.into_iter().map(|other| (other.name, other.file)).collect(),
        }
    }

    /// Whoever carries it out may have another directory.
    fn make_absolute(&mut self) -> Result<(), ApiError> {
        let tables = self.tables.iter_mut().map(|table| &mut table.file);
        let files = self.files.iter_mut().map(|other| &mut other.file);
        for path in tables.chain(files).chain(&mut self.structures) {
            *path = absolute(path)?;
        }
        Ok(())
    }
}

impl EditionArgs {
    pub(super) async fn run(mut self, context: &Context<'_>) -> Result<u8, ApiError> {
        let (at, author) = match &mut self.command {
            EditionCommand::Build(args) => {
                args.make_absolute()?;
                (&args.write.at, args.write.author()?)
            }
            EditionCommand::Seal { write, .. } => (&write.at, write.author()?),
            EditionCommand::Copy { at, to, .. } => {
                *to = directory(to)?;
                (&*at, Author::new(None, None)?)
            }
            EditionCommand::List { at, .. } | EditionCommand::Discard { at, .. } | EditionCommand::Check { at, .. } => {
                (&*at, Author::new(None, None)?)
            }
            EditionCommand::Fingerprint { file } => return fingerprint(file, context).await,
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

impl EditionCommand {
    /// Whether it may change the catalogue.
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Build(_) | Self::Seal { .. } | Self::Discard { .. })
    }

    /// Carries it out on a catalogue, wherever that lies.
    pub(crate) async fn perform(self, catalogue: &Catalogue, author: Author) -> Result<Response, ApiError> {
        Ok(match self {
            Self::Build(args) => Response::EditionBuild(catalogue.build(author, args.build()).await?),
            Self::Seal {
                product, release_at, ..
            } => Response::EditionSeal(Box::new(catalogue.seal(author, &product, release_at).await?)),
            Self::List { product, at: _ } => Response::EditionList(catalogue.editions(product.as_ref()).await?),
            Self::Discard { edition, at: _ } => {
                Response::EditionDiscard(catalogue.discard(&edition.product, edition.edition).await?)
            }
            Self::Check {
                edition,
                profile,
                fingerprints,
                at: _,
            } => {
                let checked = catalogue.check(&edition.product, edition.edition, profile.into(), fingerprints);
                Response::EditionCheck(checked.await?)
            }
            Self::Copy { edition, to, at: _ } => {
                Response::EditionCopy(catalogue.copy(&edition.product, edition.edition, &to).await?)
            }
            // It is about a file and no catalogue.
            Self::Fingerprint { file } => {
                Response::EditionFingerprint(inventory::fingerprint(&file, catalogue.progress()).await?)
            }
        })
    }
}

/// Shows what a command came to.
pub(super) fn show(context: &Context<'_>, response: &Response) -> Result<u8, ApiError> {
    match response {
        Response::EditionBuild(report) => context.show(response, |output| {
            output.line(&report.edition_id)?;
            render::build(report).iter().for_each(|note| output.note(note));
            Ok(())
        }),
        Response::EditionSeal(report) => context.show(response, |output| render::seal(report, output)),
        Response::EditionList(report) => context.show(response, |output| output.line(render::list(report))),
        Response::EditionDiscard(report) => context.show(response, |output| {
            output.note(format!(
                "edition {} is no more; its data files are left to sovm inventory gc",
                report.edition_id
            ));
            Ok(())
        }),
        Response::EditionCheck(report) => context.show(response, |output| render::check(report, output)),
        Response::EditionCopy(report) => context.show(response, |output| {
            output.note(render::copy(report));
            Ok(())
        }),
        Response::EditionFingerprint(report) => context.show(response, |output| {
            report.fingerprint.as_ref().map_or(Ok(()), |text| output.line(text))
        }),
        _ => Err(unexpected("edition")),
    }
}

async fn fingerprint(file: &Path, context: &Context<'_>) -> Result<u8, ApiError> {
    let report = inventory::fingerprint(&absolute(file)?, context.output.clone()).await?;
    show(context, &Response::EditionFingerprint(report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_named_by_dataflows() {
        let short: TableFile = "UN:WPP(1.0)=a=b.csv".parse().unwrap();
        let long: TableFile = format!("{DATAFLOW}UN:WPP(1.0)=a=b.csv").parse().unwrap();
        assert_eq!(short.dataflow, long.dataflow);
        assert_eq!((short.dataflow.id(), short.file.to_str()), ("WPP", Some("a=b.csv")));
        for bad in [
            "",
            "a.csv",
            "UN:WPP(1.0)=",
            "UN:WPP=a.csv",
            "WPP(1.0)=a.csv",
            "UN:W PP(1.0)=a.csv",
        ] {
            assert!(bad.parse::<TableFile>().is_err(), "{bad}");
        }
    }

    #[test]
    fn files_have_names_inside_the_edition() {
        let other: OtherFile = "search/notes.txt=../n.txt".parse().unwrap();
        assert_eq!(
            (other.name.as_str(), other.file.to_str()),
            ("search/notes.txt", Some("../n.txt"))
        );
        for bad in ["", "x", "x=", "../x=y", "/x=y", "=y"] {
            assert!(bad.parse::<OtherFile>().is_err(), "{bad}");
        }
    }
}
