//! `sovm inventory`.

mod render;

use std::{collections::BTreeSet, num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use sovm_inventory::{
    doc::{CleanText, EditionId, Instant, ProductId, Seq},
    transition::{EditionKey, RollbackRequest},
    writer::Assurance,
};

use super::Context;
use crate::{
    api::{InventoryChangeReport, Response},
    config::parse_duration,
    error::{ApiError, ErrorKind},
    inventory::{Address, Author, Catalogue, Look, Retire, Wish},
};

/// Decide which editions of published products are live: release, roll back, withdraw, and prove it later
///
/// An Inventory is a chain of immutable versions, and every command that changes something writes exactly one. It lies in
/// a plain directory so far (--store), which needs no node, no home and no key.
#[derive(Args, Debug)]
pub(super) struct InventoryArgs {
    #[command(subcommand)]
    command: InventoryCommand,
}

/// Which catalogue.
#[derive(Args, Debug)]
struct StoreArgs {
    /// The catalogue's directory
    #[arg(long, value_name = "DIR")]
    store: Option<String>,
}

/// Which catalogue, who changes it, and why.
#[derive(Args, Debug)]
struct WriteArgs {
    #[command(flatten)]
    at: StoreArgs,
    /// Why; kept in the version for good
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who; kept in the version for good. Default: this user at this machine
    #[arg(long, value_name = "NAME")]
    actor: Option<CleanText>,
}

/// One edition.
#[derive(Args, Debug)]
struct EditionArg {
    /// The product
    product: ProductId,
    /// Its edition
    edition: EditionId,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Switch {
    /// A sealed edition waits for its release
    On,
    /// A sealed edition is live at once
    Off,
}

#[derive(Debug, Subcommand)]
enum InventoryCommand {
    /// Make a catalogue in a directory that is empty or not there yet
    Init {
        /// Let sealed editions wait for a release
        #[arg(long)]
        embargo: bool,
        #[command(flatten)]
        write: WriteArgs,
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
        /// How long this catalogue keeps such editions. Default: 90d
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
    /// Check every version: links, leaves, change lists, invariants
    Verify {
        #[command(flatten)]
        at: StoreArgs,
    },
}

impl InventoryArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let (write, wish) = match self.command {
            InventoryCommand::Init { embargo, write } => {
                let (address, author) = write.split()?;
                let catalogue = Catalogue::open_or_make(address, context.output.clone())?;
                let report = catalogue.init(author, embargo).await?;
                let text = format!("{} version {}", report.catalog_id, report.seq);
                return context.show(&Response::InventoryInit(report), |output| output.line(text));
            }
            InventoryCommand::Log { limit, at } => {
                let limit = limit.map_or(usize::MAX, NonZeroUsize::get);
                let report = at.open(context)?.log(limit).await?;
                let lines = render::log(&report);
                let notes = render::log_notes(&report);
                return context.show(&Response::InventoryLog(report), |output| {
                    notes.iter().for_each(|note| output.warn(note));
                    lines.iter().try_for_each(|line| output.line(line))
                });
            }
            InventoryCommand::Show { product, seq, live, at } => {
                let report = at.open(context)?.show(&Look { product, seq, live }).await?;
                let (text, findings) = (render::show(&report), report.findings.clone());
                return context.show(&Response::InventoryShow(Box::new(report)), |output| {
                    findings.iter().for_each(|finding| output.warn(finding));
                    output.line(text)
                });
            }
            InventoryCommand::Verify { at } => {
                let report = at.open(context)?.verify().await?;
                let shown = report.clone();
                return context.show(&Response::InventoryVerify(report), |output| {
                    render::verify(&shown, output)
                });
            }
            InventoryCommand::Rebuild {
                nothing_ever_withheld,
                write,
            } => {
                let assurance = if nothing_ever_withheld {
                    Assurance::NothingEverWithheld
                } else {
                    Assurance::None
                };
                let (catalogue, author) = write.open(context)?;
                return changed(context, catalogue.rebuild(author, assurance).await?);
            }
            InventoryCommand::Release { editions, write } => (write, Wish::Release(pairs(&editions)?)),
            InventoryCommand::ReleaseDue { write } => (write, Wish::ReleaseDue),
            InventoryCommand::Reschedule {
                edition,
                at_time,
                never: _,
                write,
            } => (write, Wish::Reschedule(edition.key(), at_time)),
            InventoryCommand::Cancel { edition, write } => (write, Wish::Cancel(edition.key())),
            InventoryCommand::SupersedePending { product, by, write } => {
                (write, Wish::SupersedePending(EditionKey::new(product, by)))
            }
            InventoryCommand::Rollback {
                product,
                to,
                if_live,
                write,
            } => {
                let product_id = product;
                (
                    write,
                    Wish::Rollback(RollbackRequest {
                        product_id,
                        if_live,
                        to,
                    }),
                )
            }
            InventoryCommand::Withdraw {
                product,
                if_live,
                write,
            } => (write, Wish::Withdraw(product, if_live)),
            InventoryCommand::Retire { edition, window, write } => {
                let edition = edition.key();
                (write, Wish::Retire(Retire { edition, window }))
            }
            InventoryCommand::Reinstate { edition, write } => (write, Wish::Reinstate(edition.key())),
            InventoryCommand::Correct { products, to, write } => {
                (write, Wish::Correct(to, BTreeSet::from_iter(products)))
            }
            InventoryCommand::Describe { file, clear: _, write } => {
                (write, Wish::Describe(file.map(description).transpose()?))
            }
            InventoryCommand::Embargo { state, write } => (write, Wish::Embargo(matches!(state, Switch::On))),
        };
        let (catalogue, author) = write.open(context)?;
        changed(context, catalogue.change(author, wish).await?)
    }
}

fn changed(context: &Context<'_>, report: InventoryChangeReport) -> Result<u8, ApiError> {
    let (lines, note) = (render::change(&report), render::written(&report));
    let current = report.current_failed.clone();
    context.show(&Response::InventoryChange(Box::new(report)), |output| {
        lines.iter().try_for_each(|line| output.line(line))?;
        if let Some(why) = current {
            output.warn(format!("CURRENT does not name the version yet: {why}"));
        }
        output.note(note);
        Ok(())
    })
}

impl StoreArgs {
    fn open(&self, context: &Context<'_>) -> Result<Catalogue, ApiError> {
        Catalogue::open(self.address()?, context.output.clone())
    }

    fn address(&self) -> Result<Address, ApiError> {
        Address::parse(self.store.as_deref())
    }
}

impl WriteArgs {
    fn split(self) -> Result<(Address, Author), ApiError> {
        let address = self.at.address()?;
        Ok((address, Author::new(self.actor, self.reason)?))
    }

    fn open(self, context: &Context<'_>) -> Result<(Catalogue, Author), ApiError> {
        let catalogue = self.at.open(context)?;
        Ok((catalogue, self.split()?.1))
    }
}

impl EditionArg {
    fn key(self) -> EditionKey {
        EditionKey::new(self.product, self.edition)
    }
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
