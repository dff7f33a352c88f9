//! Answers about products and editions. Ids, hashes and times stand as in the documents they are of.

use serde::{Deserialize, Serialize};

use crate::error::{ApiError, ErrorKind};

/// `product list`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ProductListReport {
    /// The catalogue.
    pub store: String,
    /// The version it is as of.
    pub seq: u64,
    /// The products, by id.
    pub products: Vec<ProductInfo>,
}

/// A product.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ProductInfo {
    /// The product.
    pub product_id: String,
    /// `data` or `structure`; `null` when nothing says.
    pub kind: Option<String>,
    /// `final` or `revisable`; `null` when nothing says.
    pub lifecycle: Option<String>,
    /// What people call it.
    pub title: Option<String>,
    /// How many editions the newest version records.
    pub editions: u64,
    /// Its live editions: one, or one for each schema version in use.
    pub live: Vec<String>,
    /// Its embargoed editions.
    pub embargoed: Vec<String>,
    /// The edition that is being built.
    pub unsealed: Option<String>,
}

/// `edition build`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct EditionBuildReport {
    /// The catalogue.
    pub store: String,
    /// The product.
    pub product_id: String,
    /// The unsealed edition.
    pub edition_id: String,
    /// The edition it is built from.
    pub previous: Option<String>,
    /// Whether it had been begun before.
    pub resumed: bool,
    /// Its tables as they are now.
    pub tables: Vec<EditionTable>,
    /// Its structure messages.
    pub structures: Vec<String>,
    /// Its other files.
    pub files: Vec<String>,
}

/// A table of an edition.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct EditionTable {
    /// The dataflow it is published as.
    pub dataflow: String,
    /// How many data files it consists of.
    pub files: u64,
    /// Its rows.
    pub rows: u64,
    /// Its rows before this command; `null` when it is new.
    pub rows_before: Option<u64>,
    /// Its fingerprint, once sealed.
    pub fingerprint: Option<String>,
}

/// `edition seal`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct EditionSealReport {
    /// The catalogue.
    pub store: String,
    /// The product.
    pub product_id: String,
    /// The edition.
    pub edition_id: String,
    /// The edition it was built from.
    pub previous: Option<String>,
    /// The SHA-256 of its manifest.
    pub manifest_sha256: String,
    /// Its product fingerprint.
    pub content_fingerprint: Option<String>,
    /// Its tables.
    pub tables: Vec<EditionTable>,
    /// How many structural artefacts it holds.
    pub artefacts: u64,
    /// `live` or `embargoed`; `null` when it was not recorded.
    pub state: Option<String>,
    /// The site that was asked to record it; `null` when this one writes the catalogue.
    #[serde(default)]
    pub registered_with: Option<String>,
    /// When it becomes releasable; only while embargoed.
    pub release_at: Option<String>,
    /// The version that records it; `null` when none does.
    pub seq: Option<u64>,
    /// Whether an earlier seal had been interrupted and this command recorded what it had sealed.
    pub repaired: bool,
    /// What the publish check found; with any finding it is not recorded.
    pub findings: Vec<EditionFindingInfo>,
    /// Why `CURRENT` doesn't name the version yet. The version stands; readers probe past `CURRENT`.
    pub current_failed: Option<String>,
}

/// `edition list`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct EditionListReport {
    /// The catalogue.
    pub store: String,
    /// The editions, by product and age.
    pub editions: Vec<ListedEditionInfo>,
}

/// An edition as its files and the newest version have it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ListedEditionInfo {
    /// The product.
    pub product_id: String,
    /// The edition.
    pub edition_id: String,
    /// `unsealed`; `sealed` and recorded nowhere; `unreadable`; or what the newest version says: `embargoed`, `live`,
    /// `superseded`, `withdrawn`, `tombstone`.
    pub state: String,
    /// When it was begun.
    pub begun_at: String,
    /// When it was sealed.
    pub sealed_at: Option<String>,
    /// The edition it was built from.
    pub previous: Option<String>,
    /// When it becomes releasable; only while embargoed.
    pub release_at: Option<String>,
    /// What is wrong with its files.
    pub problem: Option<String>,
}

/// `edition discard`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct EditionDiscardReport {
    /// The catalogue.
    pub store: String,
    /// The product.
    pub product_id: String,
    /// The edition that is no more.
    pub edition_id: String,
}

/// `edition check`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct EditionCheckReport {
    /// The catalogue.
    pub store: String,
    /// The product.
    pub product_id: String,
    /// The edition.
    pub edition_id: String,
    /// `publish`, `receive` or `open`.
    pub profile: String,
    /// What the newest version says of it; `null` when it says nothing.
    pub state: Option<String>,
    /// The checks that ran.
    pub checks: Vec<String>,
    /// What is wrong.
    pub findings: Vec<EditionFindingInfo>,
}

/// Something wrong with an edition.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct EditionFindingInfo {
    /// The number of the rule (`INV-n`).
    pub rule: u16,
    /// The file, relative to the edition's directory, or below `data/`.
    pub file: String,
    /// What it is.
    pub message: String,
}

/// `edition copy`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct EditionCopyReport {
    /// The catalogue.
    pub store: String,
    /// The product.
    pub product_id: String,
    /// The edition.
    pub edition_id: String,
    /// The directory it was copied to.
    pub to: String,
    /// Files copied, without the manifest.
    pub files: u64,
    /// Files that were there already, as the manifest lists them.
    pub files_present: u64,
    /// Bytes copied.
    pub bytes: u64,
}

/// `inventory export`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct InventoryExportReport {
    /// The catalogue.
    pub store: String,
    /// The directory it was copied to.
    pub to: String,
    /// Whether it is a catalogue of what the public may see, with a chain of its own.
    pub live_only: bool,
    /// Versions written.
    pub versions: u64,
    /// Editions whose manifest was written or is there.
    pub editions: u64,
    /// Files copied.
    pub files: u64,
    /// Files that were there already.
    pub files_present: u64,
    /// Files of retired editions that are gone.
    pub files_gone: Vec<String>,
}

/// `inventory gc`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct InventoryGcReport {
    /// The catalogue.
    pub store: String,
    /// Whether nothing was deleted.
    pub dry_run: bool,
    /// What was deleted, or would be.
    pub deleted: Vec<DeletedFile>,
    /// How many bytes that is.
    pub bytes: u64,
    /// Data files that are kept because it can't be known that nothing lists them.
    pub kept: Vec<String>,
    /// What might no longer be deleted when it was to be.
    pub spared: Vec<String>,
    /// Where each deletion is written down.
    pub log: Option<String>,
}

/// A file that no edition needs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct DeletedFile {
    /// Its path in the catalogue.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// The rule (`INV-n`) that allows it.
    pub rule: u16,
    /// Why.
    pub why: String,
}

impl EditionSealReport {
    /// What did not go as wished although a version was written.
    pub(super) fn attention(&self) -> Vec<String> {
        let current = self.current_failed.iter();
        let current = current.map(|why| format!("the version is written, and CURRENT does not name it yet: {why}"));
        current.collect()
    }

    /// INV-401: an edition with a finding is sealed, and no version names it.
    pub(super) fn failure(&self) -> Option<ApiError> {
        (!self.findings.is_empty()).then(|| {
            ApiError::new(
                ErrorKind::Integrity,
                format!(
                    "edition {} of product {} is sealed and not recorded: the publish check found {} faults (INV-401)",
                    self.edition_id,
                    self.product_id,
                    self.findings.len()
                ),
            )
            .safe("no version was written; what is live is as it was")
            .next("bring its files to what its manifest lists, or build its content as a new edition")
        })
    }
}

impl EditionCheckReport {
    /// A finding is a failure.
    pub(super) fn failure(&self) -> Option<ApiError> {
        (!self.findings.is_empty()).then(|| {
            ApiError::new(
                ErrorKind::Integrity,
                format!(
                    "edition {} of product {}: the {} check found {} faults",
                    self.edition_id,
                    self.product_id,
                    self.profile,
                    self.findings.len()
                ),
            )
            .safe("nothing was changed: this only reads")
            .next("bring what is damaged or missing back from a backup, then check again")
        })
    }
}

impl InventoryGcReport {
    /// INV-415: what is kept for a reason that should not last, and what deviated from the forecast.
    pub(super) fn attention(&self) -> Vec<String> {
        let spared = self
            .spared
            .iter()
            .map(|path| format!("{path} was forecast and not deleted"));
        self.kept.iter().cloned().chain(spared).collect()
    }
}
