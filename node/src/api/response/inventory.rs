//! Answers about editions and Inventories. Ids, hashes and times stand as in the documents they are of: times are RFC 3339
//! in UTC (`…_at`), sequence numbers are numbers.

use serde::{Deserialize, Serialize};

use crate::error::{ApiError, ErrorKind};

/// `inventory init`
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InventoryInitReport {
    /// The directory.
    pub store: String,
    /// The new catalogue's id.
    pub catalog_id: String,
    /// Its first version.
    pub seq: u64,
    /// The SHA-256 of that version's root.
    pub root_sha256: String,
    /// When it was written.
    pub created_at: String,
    /// Whether a sealed edition waits for a release.
    pub embargo: bool,
    /// Who is recorded as its maker.
    pub actor: String,
}

/// `inventory log`
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InventoryLogReport {
    /// The directory.
    pub store: String,
    /// The versions, newest first.
    pub versions: Vec<InventoryVersionInfo>,
    /// Whether there are older ones that were not asked for.
    pub older: bool,
    /// The newest version that isn't stored any more; it and those before it can't be shown.
    pub missing_from: Option<u64>,
    /// Why the chain could not be followed further down.
    pub broken: Option<String>,
    /// What is wrong with the catalogue nevertheless.
    pub findings: Vec<String>,
}

/// One version of an Inventory.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InventoryVersionInfo {
    /// Its number.
    pub seq: u64,
    /// How often the catalogue had been restored.
    pub restore_epoch: u64,
    /// The SHA-256 of its root.
    pub root_sha256: String,
    /// The version it was built from.
    pub previous_inventory: Option<u64>,
    /// When it was written.
    pub created_at: String,
    /// What it did.
    pub kind: String,
    /// Who did it.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// Whether the embargo is on from here.
    pub embargo: bool,
    /// What differs from the version before; `null` for versions from before change lists.
    pub changes: Option<Vec<ProductChangeInfo>>,
}

/// What a version changed in a product.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ProductChangeInfo {
    /// The product.
    pub product_id: String,
    /// Its editions that changed; empty when only the product itself did.
    pub editions: Vec<EditionChangeInfo>,
}

/// What a version changed in an edition.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct EditionChangeInfo {
    /// The edition.
    pub edition_id: String,
    /// Its state before, `tombstone`, or `null` when it was not recorded.
    pub from: Option<String>,
    /// Its state after, `tombstone`, or `null` when its tombstone was dropped.
    pub to: Option<String>,
    /// When it becomes releasable; only while embargoed.
    pub release_at: Option<String>,
}

/// `inventory show`
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InventoryShowReport {
    /// The directory.
    pub store: String,
    /// The version shown.
    pub seq: u64,
    /// The newest version.
    pub newest: u64,
    /// How often the catalogue had been restored.
    pub restore_epoch: u64,
    /// The SHA-256 of the version's root.
    pub root_sha256: String,
    /// When it was written.
    pub created_at: String,
    /// Whether a sealed edition waits for a release.
    pub embargo: bool,
    /// How the newest version was found: `current`, or `fallback` when `CURRENT` was no help.
    pub found_by: String,
    /// How many versions the newest is ahead of `CURRENT`.
    pub ahead_of_current: u64,
    /// The catalogue's description.
    pub description: Option<serde_json::Value>,
    /// The products, by id.
    pub products: Vec<InventoryProduct>,
    /// What is wrong with the catalogue nevertheless.
    pub findings: Vec<String>,
}

/// A product in a version.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct InventoryProduct {
    /// The product.
    pub product_id: String,
    /// `data` or `structure`; `null` for one whose last edition was retired.
    pub kind: Option<String>,
    /// `final` or `revisable`; `null` for one whose last edition was retired.
    pub lifecycle: Option<String>,
    /// Its editions, by id, which is by age.
    pub editions: Vec<EditionInfo>,
    /// Its tombstones.
    pub retired: Vec<RetiredEdition>,
}

/// An edition in a version.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct EditionInfo {
    /// The edition.
    pub edition_id: String,
    /// `embargoed`, `live`, `superseded` or `withdrawn`.
    pub state: String,
    /// Since when.
    pub state_changed_at: String,
    /// The edition it was built from.
    pub previous: Option<String>,
    /// When it becomes releasable; only while embargoed.
    pub release_at: Option<String>,
    /// The store schema it was written at.
    pub schema_version: String,
    /// The SHA-256 of its manifest.
    pub manifest_sha256: String,
}

/// A tombstone.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RetiredEdition {
    /// The edition.
    pub edition_id: String,
    /// Since when it is retired.
    pub retired_at: String,
}

/// Every `inventory` command that writes a version, but `init`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct InventoryChangeReport {
    /// The command.
    pub operation: String,
    /// The directory.
    pub store: String,
    /// The version written; `null` when there was nothing to do.
    pub seq: Option<u64>,
    /// The kind it is recorded under.
    pub kind: Option<String>,
    /// When it was written.
    pub created_at: Option<String>,
    /// The SHA-256 of its root.
    pub root_sha256: Option<String>,
    /// Who is recorded.
    pub actor: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Whether the embargo is on from here.
    pub embargo: Option<bool>,
    /// What changed, by product.
    pub changes: Vec<ProductChangeInfo>,
    /// What a batch refused, by product.
    pub refused: Vec<RefusedEdition>,
    /// Registered editions that are not all here yet.
    #[serde(default)]
    pub waiting: Vec<WaitingEdition>,
    /// Why `CURRENT` doesn't name the version yet. The version stands; readers probe past `CURRENT`.
    pub current_failed: Option<String>,
}

/// An edition that a batch refused.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RefusedEdition {
    /// The product.
    pub product_id: String,
    /// The edition.
    pub edition_id: String,
    /// The number of the rule (`INV-n`).
    pub rule: u16,
    /// Why.
    pub message: String,
}

/// A registered edition of which something is still on its way.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct WaitingEdition {
    /// The product.
    pub product_id: String,
    /// The edition.
    pub edition_id: String,
    /// What it waits for.
    pub message: String,
}

/// `inventory verify`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct InventoryVerifyReport {
    /// The directory.
    pub store: String,
    /// The newest version; `null` when none could be found.
    pub newest: Option<u64>,
    /// How many versions were read.
    pub versions: u64,
    /// How many editions' manifests were read.
    pub editions: u64,
    /// How many of their files were measured.
    pub files: u64,
    /// How many bytes those have.
    pub bytes: u64,
    /// What is wrong.
    pub findings: Vec<InventoryFinding>,
    /// What a sound catalogue can come to and somebody should look at, such as a `CURRENT` that names another version.
    pub warnings: Vec<InventoryFinding>,
    /// How many findings and warnings there are beyond those listed.
    pub omitted: u64,
    /// Editions that hold an old copy of a structure: to be republished, and nothing wrong.
    pub stale: Vec<String>,
    /// Withdrawn editions whose files were expunged, each with who and why: nothing wrong.
    #[serde(default)]
    pub expunged: Vec<String>,
}

/// Something wrong with a catalogue.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InventoryFinding {
    /// The rules (`INV-n`) it breaks.
    pub rules: Vec<u16>,
    /// The file it was found in.
    pub path: String,
    /// The version it was found in, where the file is one.
    pub seq: Option<u64>,
    /// What it is.
    pub message: String,
}

/// `edition fingerprint`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct EditionFingerprintReport {
    /// The file.
    pub file: String,
    /// Its size.
    pub file_bytes: u64,
    /// Which text of the rows was hashed.
    pub canonical_form: String,
    /// The fingerprint, `<sum>:<rows>`; `null` when a column is refused.
    pub fingerprint: Option<String>,
    /// How many rows it has; `null` when a column is refused.
    pub rows: Option<u64>,
    /// The columns that have no stable text.
    pub refused: Vec<RefusedColumn>,
}

/// A column of a Parquet file that a published table may not have.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RefusedColumn {
    /// Its name; `null` when the table as a whole is refused.
    pub column: Option<String>,
    /// Why.
    pub message: String,
}

impl InventoryLogReport {
    /// A chain that breaks off is a failure, whatever was shown of it.
    pub(super) fn failure(&self) -> Option<ApiError> {
        let broken = self.broken.as_ref()?;
        Some(
            ApiError::new(ErrorKind::Integrity, broken.clone())
                .safe("the versions shown were verified from the newest down")
                .next("sovm inventory verify says what else is wrong; restore that from a backup"),
        )
    }
}

impl InventoryChangeReport {
    /// What did not go as wished although a version was written, or although nothing was due.
    pub(super) fn attention(&self) -> Vec<String> {
        let current = self.current_failed.iter();
        let current = current.map(|why| format!("the version is written, and CURRENT does not name it yet: {why}"));
        let waiting = self.waiting.iter().map(|waiting| {
            format!(
                "edition {} of product {} waits: {}",
                waiting.edition_id, waiting.product_id, waiting.message
            )
        });
        self.refused
            .iter()
            .map(|refused| refused.message.clone())
            .chain(waiting)
            .chain(current)
            .collect()
    }

    /// A batch of which nothing could be done.
    pub(super) fn failure(&self) -> Option<ApiError> {
        (self.seq.is_none() && !self.refused.is_empty()).then(|| {
            let reasons: Vec<&str> = self.refused.iter().map(|refused| refused.message.as_str()).collect();
            let reasons = reasons.join("; ");
            if self.operation == "fold" {
                return ApiError::new(ErrorKind::Refused, format!("nothing could be recorded: {reasons}"))
                    .safe("no version was written; the registrations are kept")
                    .next("its publisher builds it anew from the live edition; sovm inventory list shows what waits");
            }
            ApiError::new(ErrorKind::Refused, format!("nothing could be released: {reasons}"))
                .safe("no version was written; what is embargoed stays so")
                .next("sovm inventory release PRODUCT EDITION says for one edition how to go on")
        })
    }
}

impl InventoryVerifyReport {
    /// What should be looked at although the catalogue is sound.
    pub(super) fn attention(&self) -> Vec<String> {
        let warnings = self.warnings.iter().map(|warning| warning.message.clone());
        warnings.chain(self.stale.iter().cloned()).collect()
    }

    /// INV-395: the exit code is the test of a restore.
    pub(super) fn failure(&self) -> Option<ApiError> {
        (!self.findings.is_empty()).then(|| {
            ApiError::new(
                ErrorKind::Integrity,
                format!(
                    "the catalogue in {} is not sound: {} findings",
                    self.store,
                    self.findings.len() as u64 + self.omitted
                ),
            )
            .safe("nothing was changed: this only reads")
            .next("restore what is damaged or missing from a backup, then verify again")
        })
    }
}

impl EditionFingerprintReport {
    /// A table with such a column cannot be published.
    pub(super) fn failure(&self) -> Option<ApiError> {
        (!self.refused.is_empty()).then(|| {
            let reasons: Vec<&str> = self.refused.iter().map(|column| column.message.as_str()).collect();
            ApiError::new(ErrorKind::BadInput, format!("{}: {}", self.file, reasons.join("; ")))
                .safe("nothing was changed: this only reads")
                .next("write the file again without these columns, or with types whose text is stable")
        })
    }
}

/// `inventory list`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CatalogueListReport {
    /// Every catalogue this node writes, follows, or was told of.
    pub catalogues: Vec<CatalogueInfo>,
}

impl CatalogueListReport {
    /// What does not go on by itself.
    pub(crate) fn attention(&self) -> Vec<String> {
        let alarms = self.catalogues.iter().filter_map(|catalogue| {
            let alarm = catalogue.alarm.as_ref()?;
            Some(format!(
                "catalogue {}: {alarm}; what was held before is still shown",
                catalogue.catalog_id
            ))
        });
        let registrations = self.catalogues.iter().flat_map(|catalogue| &catalogue.registrations);
        let refused = registrations.filter(|registration| registration.state == "refused");
        let refused = refused.map(|registration| {
            let why = registration.note.as_deref().unwrap_or_default();
            format!("a registration is refused: {why}")
        });
        alarms.chain(refused).collect()
    }
}

/// One catalogue of a node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CatalogueInfo {
    /// Its id.
    pub catalog_id: String,
    /// Whether it shows only what the public may see.
    pub live_only: bool,
    /// The site that writes its next version.
    pub authority: Option<String>,
    /// Whether that is this node.
    pub written_here: bool,
    /// The newest version that is here whole.
    pub version: Option<u64>,
    /// The domain whose members read everything.
    pub release_domain: Option<String>,
    /// The domain whose members read what is live.
    pub public_domain: Option<String>,
    /// A version that is announced and not all here yet, and what it lacks.
    pub releasing: Option<String>,
    /// Two versions that claim one number.
    pub alarm: Option<String>,
    /// Editions that publishers asked its authority to record, and that no version records.
    #[serde(default)]
    pub registrations: Vec<RegistrationInfo>,
}

/// An edition that a publisher registered.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct RegistrationInfo {
    /// The product.
    pub product_id: String,
    /// The edition.
    pub edition_id: String,
    /// The site that registered it.
    pub publisher: String,
    /// `whole`: the authority's next fold looks at it; `waiting`: something of it is on its way; `refused`.
    pub state: String,
    /// What it waits for, or why it is refused.
    pub note: Option<String>,
}

/// `inventory audience`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct AudienceReport {
    /// The catalogue.
    pub catalog_id: String,
    /// Every site that holds keys of embargoed editions.
    pub embargoed: Vec<ReaderInfo>,
    /// Every site that is given the keys of an edition at its release.
    pub live: Vec<ReaderInfo>,
}

/// A site that can read.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ReaderInfo {
    /// Its id.
    pub site: String,
    /// Its name.
    pub name: Option<String>,
    /// Whether it is the node that answers.
    pub this_node: bool,
}

/// `inventory prefetch`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PrefetchReport {
    /// The catalogue.
    pub catalog_id: String,
    /// Data files listed now.
    pub objects: u64,
    /// Lists they are in.
    pub lists: u64,
}
