//! What a check finds, and its report.

use std::fmt;

use thiserror::Error;

use crate::{
    doc::{CatalogId, DocError, EditionId, Epoch, Expunged, Instant, ProductId, RootRef, Seq, Sha256},
    reader::{self, Way},
    store::StoreError,
    transition::{Refusal, StaleArtefact, VersionError},
};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth an alert; the catalogue is sound.
    Warning,
    /// The catalogue is not what was written, or not what may be written.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One thing that was found, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The file, relative to the catalogue's root.
    pub path: String,
    /// What is wrong.
    pub fault: Fault,
}

impl Finding {
    /// The number of the rule (`INV-n`).
    pub fn rule(&self) -> u16 {
        self.fault.rule()
    }

    /// How bad it is.
    pub fn severity(&self) -> Severity {
        self.fault.severity()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (severity, rule) = (self.severity(), self.rule());
        write!(f, "{severity} INV-{rule} {}: {}", self.path, self.fault)
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// There is no description of the catalogue.
    #[error("there is no catalog.json")]
    CatalogMissing,
    /// An edition differs between two versions and the change list does not say so.
    #[error(
        "product {product_id}: the change list says {listed} of edition {edition_id}, the two versions say {computed}"
    )]
    ChangeEntry {
        /// The product.
        product_id: ProductId,
        /// The edition.
        edition_id: EditionId,
        /// What the change list says.
        listed: String,
        /// What follows from the versions.
        computed: String,
    },
    /// The leaf hashes of an item are others.
    #[error("product {product_id}: the change list goes from leaf {} to {}, the two versions from {} to {}", or_none(&.listed.0), or_none(&.listed.1), or_none(&.computed.0), or_none(&.computed.1))]
    ChangeLeaf {
        /// The product.
        product_id: ProductId,
        /// What the change list says.
        listed: (Option<Sha256>, Option<Sha256>),
        /// What follows from the versions.
        computed: (Option<Sha256>, Option<Sha256>),
    },
    /// A product differs and is not listed.
    #[error("product {product_id} differs from the version before, and the change list does not name it")]
    ChangeMissing {
        /// The product.
        product_id: ProductId,
    },
    /// A product is listed and does not differ.
    #[error("the change list names product {product_id}, which is as it was in the version before")]
    ChangeUnfounded {
        /// The product.
        product_id: ProductId,
    },
    /// `cleaned_through` is not where it may be.
    #[error("cleaned_through names {named}, which is no segment at or below the newest one")]
    CleanedElsewhere {
        /// What it names.
        named: String,
    },
    /// A version is dated before the one it follows.
    #[error("version {seq} is of {created_at}, less than 1 ms after the version before, of {base}")]
    CreatedTooEarly {
        /// The version.
        seq: Seq,
        /// Its time.
        created_at: Instant,
        /// The time of the version before.
        base: Instant,
    },
    /// `CURRENT` is not the newest version.
    #[error("CURRENT names version {named}, the newest one is {head}")]
    CurrentBehind {
        /// What it names.
        named: Seq,
        /// The newest.
        head: Seq,
    },
    /// A document does not decode or has other bytes than it is named by.
    #[error(transparent)]
    Document(#[from] DocError),
    /// A version is of an earlier epoch than the one before, or of a later one than the catalogue.
    #[error("version {seq} is of epoch {found}, {other} is of epoch {expected}")]
    Epoch {
        /// The version.
        seq: Seq,
        /// Its epoch.
        found: Epoch,
        /// What it is held against.
        other: String,
        /// The epoch of that.
        expected: Epoch,
    },
    /// A version above `expired_through` has the line of an expiry.
    #[error("version {seq} has an expiry line, but HISTORY says that versions expired through {}", or_zero(.expired_through))]
    ExpiredAbove {
        /// The version.
        seq: Seq,
        /// What `HISTORY` says.
        expired_through: Option<Seq>,
    },
    /// A file has another digest.
    #[error("{algorithm} of the file is {found}, the manifest of edition {edition_id} says {recorded}")]
    FileDigest {
        /// The edition.
        edition_id: EditionId,
        /// The algorithm.
        algorithm: String,
        /// What the manifest says.
        recorded: String,
        /// What the file has.
        found: String,
    },
    /// The files of a withdrawn edition were deleted at once; its record says by whom and why.
    #[error("{}", said_of(.0))]
    Expunged(Box<Expunged>),
    /// A listed file is not there.
    #[error("the manifest of edition {edition_id} lists this file, and it is not there")]
    FileMissing {
        /// The edition.
        edition_id: EditionId,
    },
    /// A file has another size.
    #[error("the file has {found} bytes, the manifest of edition {edition_id} says {recorded}")]
    FileSize {
        /// The edition.
        edition_id: EditionId,
        /// What the manifest says.
        recorded: u64,
        /// What the file has.
        found: u64,
    },
    /// The history fields were there and are gone.
    #[error("version {seq} has no history fields, but version {base} before it has")]
    HistoryFieldsLost {
        /// The version without.
        seq: Seq,
        /// The version with them.
        base: Seq,
    },
    /// A version of an opted-in catalogue has no history fields.
    #[error("version {seq} has no history fields, but catalog.json says that every version from {since_seq} on has")]
    HistoryFieldsSince {
        /// The version.
        seq: Seq,
        /// What `catalog.json` says.
        since_seq: Seq,
    },
    /// An opted-in catalogue without `HISTORY`.
    #[error("catalog.json has format 2, and there is no inventory/HISTORY")]
    HistoryMissing,
    /// `HISTORY` or a segment is another catalogue's.
    #[error("this is of catalogue {found}, catalog.json names {expected}")]
    OfAnotherCatalog {
        /// Its catalogue.
        found: CatalogId,
        /// That of `catalog.json`.
        expected: CatalogId,
    },
    /// A leaf is not there.
    #[error("version {seq} names this leaf for product {product_id}, and it is not there")]
    LeafMissing {
        /// A version that names it.
        seq: Seq,
        /// The product.
        product_id: ProductId,
    },
    /// A leaf is another product's.
    #[error("version {seq} names this leaf for product {product_id}, but it is of product {found}")]
    LeafOfAnother {
        /// A version that names it.
        seq: Seq,
        /// The product.
        product_id: ProductId,
        /// The product in the leaf.
        found: ProductId,
    },
    /// A line and a root say different things.
    #[error("the segment's line of version {seq} names root {line}, {other} is {found}")]
    Line {
        /// The version.
        seq: Seq,
        /// What the line says.
        line: Sha256,
        /// What it is held against.
        other: &'static str,
        /// What that says.
        found: Sha256,
    },
    /// The chain is broken between two versions.
    #[error("version {seq} names {} as the version before it, the stored bytes of version {base} hash to {found}", or_none(.names))]
    Link {
        /// The later version.
        seq: Seq,
        /// What it names.
        names: Option<Sha256>,
        /// The earlier version.
        base: Seq,
        /// Its hash.
        found: Sha256,
    },
    /// The manifest of a recorded edition is not there.
    #[error("the newest version records the edition as {state}, and there is no manifest")]
    ManifestMissing {
        /// The edition's state.
        state: crate::doc::EditionState,
    },
    /// `CURRENT` names a version after the newest one that is here.
    #[error(
        "CURRENT names version {named}, which {why}; the newest version that verifies is {head}, so versions were lost"
    )]
    VersionsLost {
        /// What it names.
        named: Seq,
        /// What is wrong with that.
        why: reader::Invalid,
        /// The newest version that verifies.
        head: Seq,
    },
    /// No version could be read as a reader would.
    #[error("no reader finds a version: {0}")]
    NoHead(String),
    /// What a reader reports.
    #[error("{0}")]
    Reader(reader::Finding),
    /// A root lies behind a gap.
    #[error("version {seq} lies behind a gap after version {head}; no reader gets there")]
    RootBeyond {
        /// The version.
        seq: Seq,
        /// The newest one a reader finds.
        head: Seq,
    },
    /// Roots are missing.
    #[error("versions {first} to {last} are missing: there are neither roots nor segment lines")]
    RootsMissing {
        /// The first.
        first: Seq,
        /// The last.
        last: Seq,
    },
    /// A root says another number than its name.
    #[error("the root says it is version {found}")]
    RootNumber {
        /// What it says.
        found: Seq,
    },
    /// A rule of the release invariants.
    #[error(transparent)]
    Rule(#[from] Refusal),
    /// Segments record one version twice on the chain.
    #[error("version {seq} of epoch {epoch} has a line in another segment as well")]
    SegmentOverlap {
        /// The version.
        seq: Seq,
        /// Its epoch.
        epoch: Epoch,
    },
    /// A segment is not there.
    #[error("{named_by} names this segment, and it is not there")]
    SegmentMissing {
        /// What names it.
        named_by: String,
    },
    /// A segment no other names.
    #[error("no segment and no HISTORY names this segment")]
    SegmentOrphan,
    /// A data edition holds an old copy.
    #[error("{0}")]
    Stale(Box<StaleArtefact>),
    /// The store failed.
    #[error("it can't be read: {0}")]
    Unreadable(String),
    /// A root and its leaves contradict each other.
    #[error(transparent)]
    Version(#[from] VersionError),
}

impl From<reader::Finding> for Fault {
    fn from(finding: reader::Finding) -> Self {
        Self::Reader(finding)
    }
}

fn said_of(record: &Expunged) -> String {
    let Expunged {
        edition_id,
        product_id,
        actor,
        reason,
        begun_at,
        ..
    } = record;
    match record.completed_at {
        Some(at) => format!("edition {edition_id} of product {product_id} was expunged at {at} by {actor}: {reason}"),
        None => format!(
            "expunging edition {edition_id} of product {product_id} was begun at {begun_at} by {actor} and did not come to its \
             end: run it again"
        ),
    }
}

fn or_none<T: fmt::Display>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
}

fn or_zero(value: &Option<Seq>) -> u64 {
    value.map_or(0, Seq::get)
}

impl Fault {
    /// A document or file that a store could not give.
    pub(crate) fn unreadable(error: &StoreError) -> Self {
        // The cause is most of what helps: the kind of failure the system reported.
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        Self::Unreadable(format!("{error}{}", cause.unwrap_or_default()))
    }

    /// The number of the rule (`INV-n`).
    pub fn rule(&self) -> u16 {
        match self {
            Self::CatalogMissing => 130,
            Self::ChangeEntry { .. } => 178,
            Self::ChangeLeaf { .. } => 177,
            Self::ChangeMissing { .. } | Self::ChangeUnfounded { .. } => 162,
            Self::CleanedElsewhere { .. } | Self::OfAnotherCatalog { .. } => 280,
            Self::CreatedTooEarly { .. } => 252,
            Self::CurrentBehind { .. } => 259,
            // A manifest whose bytes have another hash than its entry says is item 2 of the release invariants.
            Self::Document(error) => match error.rule {
                Some(172) => 216,
                rule => rule.unwrap_or(395),
            },
            Self::Epoch { .. } => 151,
            Self::ExpiredAbove { .. } => 279,
            Self::Expunged(_) => 412,
            Self::FileDigest { .. } | Self::FileMissing { .. } | Self::FileSize { .. } => 395,
            Self::ManifestMissing { .. } | Self::Unreadable(_) => 395,
            Self::HistoryFieldsLost { .. } => 163,
            Self::HistoryFieldsSince { .. } => 134,
            Self::HistoryMissing => 137,
            Self::LeafMissing { .. } => 167,
            Self::LeafOfAnother { .. } => 169,
            Self::Line { .. } | Self::RootsMissing { .. } => 321,
            Self::Link { .. } => 161,
            Self::NoHead(_) => 265,
            Self::Reader(finding) => match finding {
                reader::Finding::CurrentMissing => 262,
                reader::Finding::CurrentNamesBadRoot { .. } | reader::Finding::CurrentUnreadable(_) => 256,
                reader::Finding::HeldExpired { .. } => 264,
                reader::Finding::HistoryFieldsLost { .. } => 163,
                reader::Finding::InvalidRoot { .. } => 260,
                reader::Finding::TwoRoots { .. } => 441,
            },
            Self::RootBeyond { .. } => 257,
            Self::VersionsLost { .. } => 258,
            Self::RootNumber { .. } => 150,
            Self::Rule(refusal) => refusal.rule(),
            Self::SegmentMissing { .. } => 285,
            Self::SegmentOrphan | Self::SegmentOverlap { .. } => 323,
            Self::Stale(_) => 232,
            Self::Version(VersionError::RecordedAndRetired { .. }) => 181,
            Self::Version(_) => 154,
        }
    }

    /// How bad it is.
    ///
    /// Warnings are what a sound catalogue can come to by allowed operations: a hint that lags, a copy that became stale when
    /// its home went on or was taken back.
    pub fn severity(&self) -> Severity {
        match self {
            Self::CurrentBehind { .. }
            | Self::Expunged(_)
            | Self::RootBeyond { .. }
            | Self::SegmentOrphan
            | Self::Stale(_) => Severity::Warning,
            Self::Reader(
                reader::Finding::CurrentMissing
                | reader::Finding::CurrentNamesBadRoot { .. }
                | reader::Finding::CurrentUnreadable(_),
            ) => Severity::Warning,
            Self::Rule(Refusal::PartialWithoutHome { .. } | Refusal::StructureNotLive { .. }) => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Roots read.
    pub roots: u64,
    /// Leaves read, each once for every run of versions that names it.
    pub leaves: u64,
    /// Change lists computed again.
    pub change_lists: u64,
    /// Editions whose manifest was read.
    pub manifests: u64,
    /// Entries whose manifest is gone, as that of a retired edition may be.
    pub manifests_gone: u64,
    /// Withdrawn entries whose edition was expunged.
    pub expunged: u64,
    /// Files measured.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files listed and not measured, because nothing was given to read them with.
    pub files_unmeasured: u64,
    /// Segments read.
    pub segments: u64,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Report {
    /// The findings, the first ones if there are very many.
    pub findings: Vec<Finding>,
    /// How much was looked at.
    pub counts: Counts,
    /// The newest version; none if there is none that decodes.
    pub head: Option<RootRef>,
    /// How a reader finds it; none if it does not.
    pub way: Option<Way>,
    errors: u64,
    warnings: u64,
    kept: usize,
}

impl Report {
    pub(super) fn new(kept: usize) -> Self {
        Self {
            findings: Vec::new(),
            counts: Counts::default(),
            head: None,
            way: None,
            errors: 0,
            warnings: 0,
            kept,
        }
    }

    pub(super) fn push(&mut self, path: String, fault: Fault) {
        match fault.severity() {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
        }
        if self.findings.len() < self.kept {
            self.findings.push(Finding { path, fault });
        }
    }

    /// INV-395: the exit status of the restore test: whether there is no error.
    pub fn passed(&self) -> bool {
        self.errors == 0
    }

    /// How many errors there are.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// How many warnings there are.
    pub fn warnings(&self) -> u64 {
        self.warnings
    }

    /// How many findings were counted and not kept.
    pub fn omitted(&self) -> u64 {
        self.errors + self.warnings - self.findings.len() as u64
    }
}
