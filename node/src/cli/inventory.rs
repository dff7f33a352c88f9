//! `sovm inventory`.

mod render;

use std::{collections::BTreeSet, num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use sovm_inventory::{
    doc::{CleanText, EditionId, Instant, ProductId, Seq},
    transition::{EditionKey, RollbackRequest},
    writer::Assurance,
};

use super::{
    Context,
    catalogue::{EditionArg, StoreArgs, WriteArgs, directory},
    ingest::absolute,
    session::unexpected,
};
use crate::{
    api::{CatalogueCommand, InventoryChangeReport, Response},
    config::parse_duration,
    error::{ApiError, ErrorKind},
    inventory::{Author, Catalogue, Look, Retire, WindowsChange, Wish},
};

/// Decide which editions of published products are live: release, roll back, withdraw, and prove it later
///
/// An Inventory is a chain of immutable versions, and every command that changes something writes exactly one. It lies in this
/// node's encrypted store, and the members of its domains follow it; or in a plain directory or a bucket (--store), which need
/// no node, no home and no key.
#[derive(Args, Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct InventoryArgs {
    #[command(subcommand)]
    command: InventoryCommand,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, ValueEnum)]
pub(crate) enum Switch {
    /// A sealed edition waits for its release
    On,
    /// A sealed edition is live at once
    Off,
}

/// Windows to set.
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct WindowArgs {
    /// How long the oldest backup is kept
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    backup: Option<Duration>,
    /// How long a data file that no manifest lists is kept; at least as long as backups
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    data: Option<Duration>,
    /// How long it is remembered that an edition was retired; at least as long as data files are kept
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    tombstone: Option<Duration>,
    /// How long a superseded or withdrawn edition stays recorded
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    edition: Option<Duration>,
    /// How long a version is kept after the next one; at least a day longer than data files
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    versions: Option<Duration>,
    /// How many of the newest versions are kept whatever their age; at least 2
    #[arg(long, value_name = "N")]
    newest_versions: Option<u32>,
    /// The longest time between two polls of any reader
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    longest_poll: Option<Duration>,
    /// The longest time a reader takes to fetch what a poll announced; with the poll below the time versions are kept
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    longest_fetch: Option<Duration>,
}

impl WindowArgs {
    fn sets_any(&self) -> bool {
        *self != Self::default()
    }
}

impl From<WindowArgs> for WindowsChange {
    fn from(windows: WindowArgs) -> Self {
        Self {
            backup: windows.backup,
            data: windows.data,
            tombstone: windows.tombstone,
            edition: windows.edition,
            versions: windows.versions,
            newest_versions: windows.newest_versions,
            longest_poll: windows.longest_poll,
            longest_fetch: windows.longest_fetch,
        }
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, Subcommand)]
pub(crate) enum InventoryCommand {
    /// Make a catalogue in a directory that is empty or not there yet, or below an empty prefix of a bucket
    Init {
        /// Let sealed editions wait for a release
        #[arg(long)]
        embargo: bool,
        /// In a node: the domain whose members read everything. Default: main
        #[arg(long, value_name = "DOMAIN", conflicts_with = "store")]
        release_domain: Option<String>,
        /// In a node: the domain whose members read what is live, and get the keys of an edition at its release
        #[arg(long, value_name = "DOMAIN", conflicts_with = "store")]
        public_domain: Option<String>,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// List the catalogues of this node, those of its domains included
    List {
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Name every site that can read an embargoed edition, and every site that reads what is live
    Audience {
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Let another site write the versions from the next one on
    HandOver {
        /// The site's name or id
        site: String,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Tell the domains of every version that they were not told of, after a failure
    Announce {
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Let the public domain fetch the encrypted bytes of embargoed editions, so that a release hands out keys only
    Prefetch {
        #[command(flatten)]
        at: StoreArgs,
    },
    /// List the versions, newest first
    Log {
        /// At most so many
        #[arg(long, value_name = "N")]
        limit: Option<NonZeroUsize>,
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Show the products and their editions
    Show {
        /// Only this product
        product: Option<ProductId>,
        /// As of this version. Default: the newest
        #[arg(long, value_name = "N", value_parser = seq)]
        seq: Option<Seq>,
        /// Only what the public sees
        #[arg(long)]
        live: bool,
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Make embargoed editions live, all in one version
    Release {
        /// Product and edition; several pairs become visible together
        #[arg(required = true, num_args = 2.., value_names = ["PRODUCT", "EDITION"])]
        editions: Vec<String>,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Release every embargoed edition whose time has come, and say of each other one why not
    ReleaseDue {
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Record the editions that publishers registered, as embargoed, and say of each other one why not
    Fold {
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Give an embargoed edition another release time
    Reschedule {
        #[command(flatten)]
        edition: EditionArg,
        /// The new time, as 2026-07-30T08:30:00Z
        #[arg(
            long = "at",
            value_name = "TIME",
            required_unless_present = "never",
            conflicts_with = "never"
        )]
        at_time: Option<Instant>,
        /// Take it off the schedule: it is released by name only
        #[arg(long)]
        never: bool,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Withdraw an embargoed edition
    Cancel {
        #[command(flatten)]
        edition: EditionArg,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Withdraw the embargoed editions of a product that another one replaces
    SupersedePending {
        /// The product
        product: ProductId,
        /// The embargoed edition that stays
        #[arg(long, value_name = "EDITION")]
        by: EditionId,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Withdraw the live edition and make a superseded one live again
    Rollback {
        /// The product
        product: ProductId,
        /// The edition to return to. Default: the one superseded last
        #[arg(long, value_name = "EDITION")]
        to: Option<EditionId>,
        /// Only if this edition is the live one
        #[arg(long, value_name = "EDITION")]
        if_live: Option<EditionId>,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Withdraw the live edition without a successor
    Withdraw {
        /// The product
        product: ProductId,
        /// Only if this edition is the live one
        #[arg(long, value_name = "EDITION")]
        if_live: Option<EditionId>,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Turn a superseded or withdrawn edition into a tombstone
    Retire {
        #[command(flatten)]
        edition: EditionArg,
        /// How long this catalogue keeps such editions. Default: as sovm inventory retention says
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        window: Option<Duration>,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Bring a retired edition back as superseded, once its manifest and every file verify
    Reinstate {
        #[command(flatten)]
        edition: EditionArg,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Return products to what they were in an older version
    Correct {
        /// The products
        #[arg(required = true)]
        products: Vec<ProductId>,
        /// The older version that was right
        #[arg(long, value_name = "N", value_parser = seq)]
        to: Seq,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Replace the catalogue's description
    Describe {
        /// A file with a JSON object
        #[arg(required_unless_present = "clear", conflicts_with = "clear")]
        file: Option<PathBuf>,
        /// Remove the description
        #[arg(long)]
        clear: bool,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Decide whether a sealed edition waits for its release
    Embargo {
        /// Whether it does
        state: Switch,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Make a lost Inventory anew from the editions' manifests
    Rebuild {
        /// Yes: nothing was ever rolled back, withdrawn, retired or embargoed here, so every sealed edition may be public
        #[arg(long)]
        nothing_ever_withheld: bool,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Check every version, edition and file: links, leaves, change lists, digests, references
    Verify {
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Copy the catalogue into a directory, byte for byte; repeat it to bring the copy up to date
    Export {
        /// The directory; made when it isn't there
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// Only what the public may see, as a catalogue with a chain of its own
        #[arg(long)]
        live_only: bool,
        /// Who is recorded in a live-only copy. Default: this user at this machine
        #[arg(long, value_name = "NAME")]
        actor: Option<CleanText>,
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Delete the bytes of a withdrawn or retired edition at once and for good; what another edition lists too stays
    Expunge {
        #[command(flatten)]
        edition: EditionArg,
        /// List what would go and what would stay, and delete nothing
        #[arg(long)]
        dry_run: bool,
        /// Delete it; there is no way back
        #[arg(long, conflicts_with = "dry_run")]
        yes: bool,
        /// Nobody else writes meanwhile; must be said of a bucket, which has no lock
        #[arg(long, conflicts_with = "dry_run")]
        only_writer: bool,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Show how long this catalogue keeps things, or set it
    Retention {
        #[command(flatten)]
        windows: WindowArgs,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Delete the files that no edition needs any more
    Gc {
        /// List them and delete nothing
        #[arg(long)]
        dry_run: bool,
        /// Where each deletion is written down before it happens; outside of the catalogue
        #[arg(
            long,
            value_name = "FILE",
            required_unless_present = "dry_run",
            conflicts_with = "dry_run"
        )]
        log: Option<PathBuf>,
        /// Nobody else writes meanwhile; must be said of a bucket, which has no lock
        #[arg(long, conflicts_with = "dry_run")]
        only_writer: bool,
        #[command(flatten)]
        at: StoreArgs,
    },
}

impl InventoryArgs {
    pub(super) async fn run(mut self, context: &Context<'_>) -> Result<u8, ApiError> {
        self.command.make_absolute()?;
        let (at, author) = (self.command.at().clone(), self.command.author()?);
        let command = CatalogueCommand::from(self.command.clone());
        if let Some(response) = at.ask(context, Some(author.reason.clone()), &command).await? {
            return show(context, &response);
        }
        let catalogue = match self.command {
            InventoryCommand::Init { .. } => at.open_or_make(context).await?,
            _ => at.open(context)?,
        };
        let response = self.command.perform(&catalogue, author).await?;
        show(context, &response)
    }
}

/// What a command does with the catalogue, and the options that come with that.
enum Access<'a> {
    /// Looks at it, or deletes what no edition needs.
    Reads(&'a StoreArgs),
    /// Writes a copy, in which somebody may be named.
    Copies(&'a StoreArgs, Option<&'a CleanText>),
    /// Tells the members of its domains.
    Tells(&'a StoreArgs),
    /// Writes a version.
    Writes(&'a WriteArgs),
}

impl InventoryCommand {
    /// Whoever carries it out may have another directory.
    fn make_absolute(&mut self) -> Result<(), ApiError> {
        match self {
            Self::Describe { file: Some(path), .. } | Self::Gc { log: Some(path), .. } => *path = absolute(path)?,
            Self::Export { to, .. } => *to = directory(to)?,
            _ => {}
        }
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        match self {
            Self::List { at }
            | Self::Audience { at }
            | Self::Log { at, .. }
            | Self::Show { at, .. }
            | Self::Verify { at }
            | Self::Gc { at, .. } => Access::Reads(at),
            Self::Export { at, actor, .. } => Access::Copies(at, actor.as_ref()),
            Self::Announce { at } | Self::Prefetch { at } => Access::Tells(at),
            Self::Init { write, .. }
            | Self::HandOver { write, .. }
            | Self::Release { write, .. }
            | Self::ReleaseDue { write }
            | Self::Fold { write }
            | Self::Reschedule { write, .. }
            | Self::Cancel { write, .. }
            | Self::SupersedePending { write, .. }
            | Self::Rollback { write, .. }
            | Self::Withdraw { write, .. }
            | Self::Retire { write, .. }
            | Self::Reinstate { write, .. }
            | Self::Correct { write, .. }
            | Self::Describe { write, .. }
            | Self::Expunge { write, .. }
            | Self::Retention { write, .. }
            | Self::Embargo { write, .. }
            | Self::Rebuild { write, .. } => Access::Writes(write),
        }
    }

    fn at(&self) -> &StoreArgs {
        match self.access() {
            Access::Reads(at) | Access::Copies(at, _) | Access::Tells(at) => at,
            Access::Writes(write) => &write.at,
        }
    }

    /// Who is recorded; asked of nobody who only reads.
    fn author(&self) -> Result<Author, ApiError> {
        match self.access() {
            Access::Reads(_) | Access::Tells(_) => Author::new(None, None),
            Access::Copies(_, actor) => Author::new(actor.cloned(), None),
            Access::Writes(write) => write.author(),
        }
    }

    /// Whether it may change the catalogue.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::Expunge { dry_run, .. } => !dry_run,
            Self::Retention { windows, .. } => windows.sets_any(),
            _ => matches!(self.access(), Access::Tells(_) | Access::Writes(_)),
        }
    }

    /// Carries it out on a catalogue, wherever that lies.
    pub(crate) async fn perform(self, catalogue: &Catalogue, author: Author) -> Result<Response, ApiError> {
        let wish = match self {
            Self::List { .. }
            | Self::Audience { .. }
            | Self::HandOver { .. }
            | Self::Announce { .. }
            | Self::Prefetch { .. } => {
                return Err(ApiError::new(
                    ErrorKind::Refused,
                    "domains, sites and keys belong to the catalogues of a node, and this one lies in a directory or a bucket",
                )
                .safe("nothing was changed")
                .next("leave --store out"));
            }
            Self::Init { embargo, .. } => return Ok(Response::InventoryInit(catalogue.init(author, embargo).await?)),
            Self::Log { limit, .. } => {
                let limit = limit.map_or(usize::MAX, NonZeroUsize::get);
                return Ok(Response::InventoryLog(catalogue.log(limit).await?));
            }
            Self::Show { product, seq, live, .. } => {
                let report = catalogue.show(&Look { product, seq, live }).await?;
                return Ok(Response::InventoryShow(Box::new(report)));
            }
            Self::Verify { .. } => return Ok(Response::InventoryVerify(catalogue.verify().await?)),
            Self::Export { to, live_only, .. } => {
                let report = match live_only {
                    true => catalogue.export_live(author, &to).await?,
                    false => catalogue.export(&to).await?,
                };
                return Ok(Response::InventoryExport(report));
            }
            Self::Gc { log, only_writer, .. } => {
                let report = catalogue.collect_garbage(log, only_writer).await?;
                return Ok(Response::InventoryGc(report));
            }
            Self::Expunge {
                edition,
                dry_run,
                yes,
                only_writer,
                ..
            } => {
                if !dry_run && !yes {
                    return Err(ApiError::new(ErrorKind::Usage, "nothing says whether to look or to delete")
                        .safe("nothing was deleted")
                        .next(
                            "the same command with --dry-run lists what would go; with --yes --reason TEXT it deletes that for good",
                        ));
                }
                let report = catalogue.expunge(author, edition.key(), dry_run, only_writer).await?;
                return Ok(Response::InventoryExpunge(Box::new(report)));
            }
            Self::Retention { windows, .. } if !windows.sets_any() => {
                return Ok(Response::InventoryRetention(catalogue.retention_shown().await?));
            }
            Self::Retention { windows, .. } => Wish::Retention(windows.into()),
            Self::Rebuild {
                nothing_ever_withheld, ..
            } => {
                let assurance = match nothing_ever_withheld {
                    true => Assurance::NothingEverWithheld,
                    false => Assurance::None,
                };
                let report = catalogue.rebuild(author, assurance).await?;
                return Ok(Response::InventoryChange(Box::new(report)));
            }
            Self::Release { editions, .. } => Wish::Release(pairs(&editions)?),
            Self::Fold { .. } => {
                let report = catalogue.fold(author).await?;
                return Ok(Response::InventoryChange(Box::new(report)));
            }
            Self::ReleaseDue { .. } => Wish::ReleaseDue,
            Self::Reschedule { edition, at_time, .. } => Wish::Reschedule(edition.key(), at_time),
            Self::Cancel { edition, .. } => Wish::Cancel(edition.key()),
            Self::SupersedePending { product, by, .. } => Wish::SupersedePending(EditionKey::new(product, by)),
            Self::Rollback {
                product: product_id,
                to,
                if_live,
                ..
            } => Wish::Rollback(RollbackRequest {
                product_id,
                if_live,
                to,
            }),
            Self::Withdraw { product, if_live, .. } => Wish::Withdraw(product, if_live),
            Self::Retire { edition, window, .. } => Wish::Retire(Retire {
                edition: edition.key(),
                window,
            }),
            Self::Reinstate { edition, .. } => Wish::Reinstate(edition.key()),
            Self::Correct { products, to, .. } => Wish::Correct(to, BTreeSet::from_iter(products)),
            Self::Describe { file, .. } => Wish::Describe(file.map(description).transpose()?),
            Self::Embargo { state, .. } => Wish::Embargo(matches!(state, Switch::On)),
        };
        let report = catalogue.change(author, wish).await?;
        Ok(Response::InventoryChange(Box::new(report)))
    }
}

/// Shows what a command came to.
pub(super) fn show(context: &Context<'_>, response: &Response) -> Result<u8, ApiError> {
    match response {
        Response::CatalogueList(report) => context.show(response, |output| {
            if report.catalogues.is_empty() {
                output.note("no catalogue is here, and none was announced in a domain of this node");
                return Ok(());
            }
            output.line(render::catalogues(report))
        }),
        Response::Audience(report) => context.show(response, |output| output.line(render::audience(report))),
        Response::Prefetch(report) => context.show(response, |output| {
            output.note(format!(
                "{} data files listed now, in {} lists",
                report.objects, report.lists
            ));
            Ok(())
        }),
        Response::InventoryInit(report) => context.show(response, |output| {
            output.line(format!("{} version {}", report.catalog_id, report.seq))
        }),
        Response::InventoryLog(report) => context.show(response, |output| {
            render::log_notes(report).iter().for_each(|note| output.warn(note));
            render::log(report).iter().try_for_each(|line| output.line(line))
        }),
        Response::InventoryShow(report) => context.show(response, |output| {
            report.findings.iter().for_each(|finding| output.warn(finding));
            output.line(render::show(report))
        }),
        Response::InventoryVerify(report) => context.show(response, |output| render::verify(report, output)),
        Response::InventoryExport(report) => context.show(response, |output| {
            output.note(render::export(report));
            Ok(())
        }),
        Response::InventoryGc(report) => context.show(response, |output| render::gc(report, output)),
        Response::InventoryExpunge(report) => context.show(response, |output| render::expunge(report, output)),
        Response::InventoryRetention(report) => context.show(response, |output| output.line(render::retention(report))),
        Response::InventoryChange(report) => show_change(context, response, report),
        _ => Err(unexpected("inventory")),
    }
}

/// Shows what a command that writes a version came to.
pub(super) fn show_change(
    context: &Context<'_>,
    response: &Response,
    report: &InventoryChangeReport,
) -> Result<u8, ApiError> {
    context.show(response, |output| {
        render::change(report).iter().try_for_each(|line| output.line(line))?;
        if let Some(why) = &report.current_failed {
            output.warn(format!("CURRENT does not name the version yet: {why}"));
        }
        output.note(render::written(report));
        Ok(())
    })
}

/// A version's number.
fn seq(text: &str) -> Result<Seq, String> {
    let number = text.parse().ok().and_then(Seq::new);
    number.ok_or_else(|| format!("`{text}` is no version: 1 to {}", Seq::MAX))
}

/// Products and editions by turns.
fn pairs(words: &[String]) -> Result<Vec<EditionKey>, ApiError> {
    let usage = |message: String| {
        ApiError::new(ErrorKind::Usage, message)
            .safe("no version was written")
            .next("sovm inventory release PRODUCT EDITION [PRODUCT EDITION]... --store DIR")
    };
    words
        .chunks(2)
        .map(|pair| match pair {
            [product, edition] => {
                let product = product
                    .parse::<ProductId>()
                    .map_err(|error| usage(format!("{product}: {error}")))?;
                let edition = edition
                    .parse::<EditionId>()
                    .map_err(|error| usage(format!("{edition}: {error}")))?;
                Ok(EditionKey::new(product, edition))
            }
            _ => Err(usage(format!("product {} has no edition beside it", pair.concat()))),
        })
        .collect()
}

/// INV-159: what a description is: one JSON object.
fn description(file: PathBuf) -> Result<serde_json::Value, ApiError> {
    let text = std::fs::read(&file).map_err(|error| ApiError::io(format!("reading {}", file.display()), &error))?;
    let bad = |why: String| {
        ApiError::new(ErrorKind::BadInput, format!("{}: {why}", file.display()))
            .safe("no version was written")
            .next("write one JSON object into the file")
    };
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(bad("a description is a JSON object".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_products_and_editions() {
        let edition = EditionId::generate().to_string();
        let words = ["weather", &edition, "airports", &edition].map(str::to_owned);
        let found = pairs(&words).unwrap();
        assert_eq!((found.len(), found[1].product_id.as_str()), (2, "airports"));
        for (bad, named) in [(&words[..3], "airports"), (&words[1..], "weather")] {
            let error = pairs(bad).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Usage);
            let said = error.message.contains(named) || error.message.contains("edition");
            assert!(said, "{}", error.message);
        }
    }

    #[test]
    fn versions_are_numbers_from_one() {
        assert_eq!(seq("7"), Ok(Seq::new(7).unwrap()));
        for bad in ["0", "-1", "x", "", "1000000000000"] {
            assert!(seq(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn descriptions_are_objects() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("d.json");
        for (text, ok) in [("{\"title\": {\"en\": \"x\"}}", true), ("[]", false), ("{", false)] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(description(file.clone()).is_ok(), ok, "{text}");
        }
        assert_eq!(
            description(dir.path().join("none")).unwrap_err().kind,
            ErrorKind::NotFound
        );
    }
}
