//! Why a transition is refused.

use std::fmt;

use crate::doc::{CleanText, EditionId, EditionState, EntryStatus, Instant, ProductId, ProductKind, Seq, Sha256, Urn};

/// An edition, named together with its product.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct EditionKey {
    /// The product.
    pub product_id: ProductId,
    /// The edition.
    pub edition_id: EditionId,
}

impl EditionKey {
    /// Names an edition of a product.
    pub fn new(product_id: ProductId, edition_id: EditionId) -> Self {
        Self { product_id, edition_id }
    }
}

impl fmt::Display for EditionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "edition {} of product {}", self.edition_id, self.product_id)
    }
}

/// What was asked for, in the words of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Release an embargoed edition.
    Release,
    /// Cancel an embargoed edition.
    Cancel,
    /// Replace one embargoed edition by another.
    SupersedePending,
    /// Give an embargoed edition another release time.
    Reschedule,
    /// Return to a superseded edition.
    RollBack,
    /// Take a live edition back without a successor.
    Withdraw,
    /// Bring a retired edition back.
    Reinstate,
    /// Turn an edition into a tombstone.
    Retire,
    /// Delete an edition's bytes at once.
    Expunge,
}

impl Verb {
    /// The rule that says which state the operation starts from.
    fn rule(self) -> u16 {
        match self {
            Self::Release => 197,
            Self::Cancel | Self::Reschedule => 198,
            Self::SupersedePending => 199,
            Self::RollBack | Self::Withdraw => 201,
            Self::Reinstate => 202,
            Self::Retire => 203,
            Self::Expunge => 412,
        }
    }

    fn needs(self) -> &'static str {
        match self {
            Self::Release | Self::Cancel | Self::SupersedePending | Self::Reschedule => "embargoed",
            Self::RollBack => "superseded",
            Self::Withdraw => "live",
            Self::Reinstate => "a tombstone",
            Self::Retire => "superseded or withdrawn",
            Self::Expunge => "withdrawn or a tombstone",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Release => "release",
            Self::Cancel => "cancel",
            Self::SupersedePending => "supersede-pending",
            Self::Reschedule => "reschedule",
            Self::RollBack => "rollback",
            Self::Withdraw => "withdraw",
            Self::Reinstate => "reinstate",
            Self::Retire => "retire",
            Self::Expunge => "expunge",
        })
    }
}

/// Shows an optional id, with a word for "none".
fn or_none<T: fmt::Display>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
}

fn status(value: &Option<EntryStatus>) -> String {
    value.map_or_else(|| "not recorded".to_owned(), |status| status.to_string())
}

/// A transition the rules do not allow. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    // What an operation asks of the states it finds.
    /// The edition is not in a state the operation starts from.
    #[error("INV-{}: {verb} needs {edition} to be {}, it is {}", verb.rule(), verb.needs(), status(found))]
    WrongState {
        /// What was asked for.
        verb: Verb,
        /// The edition.
        edition: EditionKey,
        /// What the version holds.
        found: Option<EntryStatus>,
    },
    /// The Inventory holds no such product.
    #[error("INV-204: the Inventory holds no product {product_id}")]
    UnknownProduct {
        /// The product asked for.
        product_id: ProductId,
    },
    /// The edition stands in the Inventory already.
    #[error("INV-404: {edition} is recorded already, as {status}")]
    AlreadyRecorded {
        /// The edition.
        edition: EditionKey,
        /// How.
        status: EntryStatus,
    },
    /// A seal may make its edition live only while the embargo is off.
    #[error("INV-195: the embargo is on, so {edition} is recorded as embargoed and released, never sealed live")]
    EmbargoOn {
        /// The edition.
        edition: EditionKey,
    },
    /// The edition was not built from the live edition.
    #[error(
        "INV-205: {edition} was built from {}, the live edition at schema version {schema_version} is {}",
        or_none(previous),
        or_none(live)
    )]
    NotFastForward {
        /// The edition.
        edition: EditionKey,
        /// What it was built from.
        previous: Option<EditionId>,
        /// The live edition it would replace.
        live: Option<EditionId>,
        /// Where.
        schema_version: CleanText,
    },
    /// The edition was built from one that was taken back.
    #[error(
        "INV-208: {edition} was built from {withdrawn}, which is withdrawn; the live edition is {}; discard it and build \
         from the live edition",
        or_none(live)
    )]
    BuiltOnWithdrawn {
        /// The edition.
        edition: EditionKey,
        /// Its base.
        withdrawn: EditionId,
        /// The edition to build from instead.
        live: Option<EditionId>,
    },
    /// The release time has not come.
    #[error("INV-197: {edition} is due at {}, it is {now}", or_none(release_at))]
    NotDue {
        /// The edition.
        edition: EditionKey,
        /// Its release time; none for no schedule.
        release_at: Option<Instant>,
        /// The release clock.
        now: Instant,
    },
    /// Several embargoed editions of one product are due on the same base, and nobody said which one is meant.
    #[error(
        "INV-405: {edition} and edition {other} are both waiting on {}; supersede one of them or release one by name",
        or_none(base)
    )]
    Competing {
        /// The edition.
        edition: EditionKey,
        /// The other one.
        other: EditionId,
        /// The edition both were built from.
        base: Option<EditionId>,
    },
    /// The live edition is another one than the caller saw.
    #[error(
        "INV-206: {verb} of product {product_id} expects {expected} to be live, live is {}",
        or_none(live)
    )]
    LiveChanged {
        /// What was asked for.
        verb: Verb,
        /// The product.
        product_id: ProductId,
        /// The edition the caller saw.
        expected: EditionId,
        /// The live edition at its schema version now.
        live: Option<EditionId>,
    },
    /// Which live edition is meant cannot be told.
    #[error("INV-204: {verb} of product {product_id} must name the live edition, {} are live", live.len())]
    LiveNotNamed {
        /// What was asked for.
        verb: Verb,
        /// The product.
        product_id: ProductId,
        /// The live editions, one for each schema version.
        live: Vec<EditionId>,
    },
    /// There is nothing to return to.
    #[error("INV-206: product {product_id} has no superseded edition at schema version {schema_version} to return to")]
    NoRollbackTarget {
        /// The product.
        product_id: ProductId,
        /// Where.
        schema_version: CleanText,
    },
    /// A head is replaced at its own schema version only.
    #[error("INV-204: {live} is live at schema version {live_schema}, {to} is of {to_schema}: no reader reads both")]
    OtherSchema {
        /// The live edition.
        live: EditionId,
        /// Its schema version.
        live_schema: CleanText,
        /// The target.
        to: EditionKey,
        /// Its schema version.
        to_schema: CleanText,
    },
    /// The embargoed editions do not stand on the same live edition.
    #[error(
        "INV-199: product {product_id} has no other embargoed edition built from {}, as {by} is",
        or_none(base)
    )]
    NothingToSupersede {
        /// The product.
        product_id: ProductId,
        /// The new edition.
        by: EditionId,
        /// What it was built from.
        base: Option<EditionId>,
    },
    /// The edition is still a rollback target.
    #[error("INV-203: {edition} is {state} since {since} and may be retired from {until}, it is {now}")]
    InsideWindow {
        /// The edition.
        edition: EditionKey,
        /// Its state.
        state: EditionState,
        /// When it took that state.
        since: Instant,
        /// When the window passes.
        until: Instant,
        /// The clock.
        now: Instant,
    },
    /// A partial of a live or embargoed edition was cut from this structure edition.
    #[error("INV-416: {edition} is kept: {urn} in {cited_by} was cut from it")]
    Cited {
        /// The structure edition.
        edition: EditionKey,
        /// The edition that cites it.
        cited_by: EditionKey,
        /// The partial.
        urn: Urn,
    },
    /// A listed file is missing or is not what the manifest says.
    #[error("INV-202: {edition} does not verify: {file}: the manifest says {expected}, found {found}")]
    FileUnverified {
        /// The edition.
        edition: EditionKey,
        /// The file.
        file: String,
        /// What the manifest says.
        expected: String,
        /// What was found.
        found: String,
    },
    /// The registration is so old that a tombstone of its edition may have been forgotten.
    #[error("INV-406: {edition} was made at {made}, before the tombstone window began at {window_start}")]
    OlderThanTombstones {
        /// The edition.
        edition: EditionKey,
        /// When, as its id says.
        made: Instant,
        /// From when tombstones are certain to be known.
        window_start: Instant,
    },

    // What a version is built from, and how.
    /// Operations of one version are recorded under one kind.
    #[error("INV-156: one version cannot record both {first} and {second}")]
    MixedKinds {
        /// The kind of the first operation.
        first: String,
        /// Another kind.
        second: String,
    },
    /// An edition changes once in a version, or the change list would hide a step.
    #[error("INV-178: {edition} would change twice in one version")]
    ChangedTwice {
        /// The edition.
        edition: EditionKey,
    },
    /// The version would equal its base.
    #[error("INV-162: {what}: the version would change nothing")]
    NothingToDo {
        /// What was asked for.
        what: String,
    },
    /// A correction is built from an older version.
    #[error(
        "INV-150: a correction names an older version than {}, not {}",
        or_none(base),
        or_none(named)
    )]
    CorrectNotOlder {
        /// The version named.
        named: Option<Seq>,
        /// The base version.
        base: Option<Seq>,
    },
    /// A correction would bring back a retired edition.
    #[error("INV-181: {edition} is a tombstone; only reinstate brings it back, not version {from}")]
    CorrectResurrects {
        /// The edition.
        edition: EditionKey,
        /// The older version that still records it.
        from: Seq,
    },
    /// A correction would release.
    #[error("INV-197: {edition} is embargoed and was live in version {from}; only a release makes it live")]
    CorrectReleases {
        /// The edition.
        edition: EditionKey,
        /// The older version in which it is live.
        from: Seq,
    },
    /// The numbers a root's name can hold are used up.
    #[error("INV-19: version {last} is the last one a root's name can hold")]
    NoMoreVersions {
        /// The base version.
        last: Seq,
    },
    /// The head was written by a clock far ahead of this one.
    #[error("INV-253: the base version is of {base}, more than 5 minutes after this clock's {own}")]
    BaseAhead {
        /// The base version's time.
        base: Instant,
        /// The writer's clock.
        own: Instant,
    },
    /// The release job's clock is ahead of the mesh's.
    #[error("INV-210: this clock reads {own}, the mesh {mesh}, and {bound_millis} ms is the most it may be ahead")]
    ClockAhead {
        /// The own clock.
        own: Instant,
        /// The reference.
        mesh: Instant,
        /// The bound.
        bound_millis: i64,
    },

    // What holds in every version.
    /// Two live editions at one schema version.
    #[error("INV-215: product {product_id} would have {first} and {second} live at schema version {schema_version}")]
    TwoLive {
        /// The product.
        product_id: ProductId,
        /// One.
        first: EditionId,
        /// The other.
        second: EditionId,
        /// Where.
        schema_version: CleanText,
    },
    /// The manifest fetched is not the recorded one.
    #[error("INV-216: {edition} is recorded with manifest {recorded}, the bytes fetched hash to {fetched}")]
    OtherManifest {
        /// The edition.
        edition: EditionKey,
        /// The entry's hash.
        recorded: Sha256,
        /// The fetched bytes' hash.
        fetched: Sha256,
    },
    /// A field of the entry is not what the manifest says.
    #[error("INV-{rule}: {edition}: the entry's {field} is {entry}, the manifest's {manifest}")]
    EntryDisagrees {
        /// The rule about that field.
        rule: u16,
        /// The edition.
        edition: EditionKey,
        /// Which field.
        field: &'static str,
        /// What the entry says.
        entry: String,
        /// What the manifest says.
        manifest: String,
    },
    /// Fingerprints of a text form nobody here computes cannot be compared.
    #[error("INV-217: {edition} has fingerprints of canonical form {found}, known are {known}")]
    UnknownCanonicalForm {
        /// The edition.
        edition: EditionKey,
        /// Its form.
        found: CleanText,
        /// The forms known.
        known: String,
    },
    /// A full artefact is not a copy of the home's.
    #[error(
        "INV-220: {edition} holds {urn} with fingerprint {held}, its home {home} has {}; rebuild from the home's edition",
        shown(expected)
    )]
    FullDisagreesWithHome {
        /// The data edition.
        edition: EditionKey,
        /// The artefact.
        urn: Urn,
        /// The fingerprint held.
        held: Sha256,
        /// The structure product.
        home: ProductId,
        /// What its live and embargoed editions hold.
        expected: Vec<Sha256>,
    },
    /// A partial was cut from something the home does not hold.
    #[error(
        "INV-221: {edition} cut {urn} from fingerprint {held}, its home {home} has {}; rebuild from the home's edition",
        shown(expected)
    )]
    PartialDisagreesWithHome {
        /// The data edition.
        edition: EditionKey,
        /// The artefact.
        urn: Urn,
        /// `partial_of`.
        held: Sha256,
        /// The structure product.
        home: ProductId,
        /// What its live and embargoed editions hold.
        expected: Vec<Sha256>,
    },
    /// A partial needs the full artefact somewhere.
    #[error("INV-222: {edition} holds a partial of {urn}, which no structure product holds")]
    PartialWithoutHome {
        /// The data edition.
        edition: EditionKey,
        /// The artefact.
        urn: Urn,
    },
    /// Products that share an artefact no structure product holds change it together.
    #[error(
        "INV-224: {edition} holds {urn} with fingerprint {held}, {other} with {theirs}; release both in one version"
    )]
    CopiesDisagree {
        /// The incoming edition.
        edition: EditionKey,
        /// The artefact.
        urn: Urn,
        /// The incoming fingerprint.
        held: Sha256,
        /// The other edition.
        other: EditionKey,
        /// Its fingerprint.
        theirs: Sha256,
    },
    /// The content of a final product changed.
    #[error(
        "INV-234: product {} is final; {edition} has content fingerprint {}, edition {compared} has {}; make the product \
         revisable first",
        edition.product_id, or_none(found), or_none(expected)
    )]
    FinalChanged {
        /// The new edition.
        edition: EditionKey,
        /// Its content fingerprint, with its canonical form.
        found: Option<String>,
        /// The edition it is compared with.
        compared: EditionId,
        /// That edition's.
        expected: Option<String>,
    },
    /// The chain of editions has a hole.
    #[error(
        "INV-235: {edition} names {previous} as previous, which is neither recorded nor a tombstone of the product"
    )]
    PreviousUnknown {
        /// The edition.
        edition: EditionKey,
        /// Its previous.
        previous: EditionId,
    },
    /// An artefact would live in two structure products.
    #[error("INV-236: {edition} holds {urn} in full, which {other} holds too")]
    TwoHomes {
        /// The incoming structure edition.
        edition: EditionKey,
        /// The artefact.
        urn: Urn,
        /// The other live structure edition.
        other: EditionKey,
    },
    /// The structure edition comes first.
    #[error(
        "INV-237: {edition} needs {urn} with fingerprint {needed} live in {home}, live there is {}",
        shown(live)
    )]
    StructureNotLive {
        /// The data edition.
        edition: EditionKey,
        /// The artefact.
        urn: Urn,
        /// The fingerprint it holds or was cut from.
        needed: Sha256,
        /// The structure product.
        home: ProductId,
        /// The fingerprints live there.
        live: Vec<Sha256>,
    },
    /// What an edition refers to is not where it must be.
    #[error("INV-{rule}: {edition} refers to {}, found neither in it nor in {}", references.join(", "), looked_in.join(", "))]
    UnresolvedReferences {
        /// 238 for data, 239 for structures.
        rule: u16,
        /// The edition.
        edition: EditionKey,
        /// The references.
        references: Vec<String>,
        /// The other editions looked in.
        looked_in: Vec<String>,
    },
    /// A product is of one kind.
    #[error("INV-169: product {product_id} is of kind {recorded}, the edition was sealed as {asked}")]
    OtherKind {
        /// The product.
        product_id: ProductId,
        /// The kind recorded.
        recorded: ProductKind,
        /// The kind asked for.
        asked: ProductKind,
    },
    /// A structure product holds no tables.
    #[error("INV-373: {edition} binds dataflow {dataflow}, but its product is of kind structure")]
    StructureWithBindings {
        /// The edition.
        edition: EditionKey,
        /// A dataflow it binds.
        dataflow: Urn,
    },
    /// An edition's artefact records are neither filled nor at hand as a manifest.
    #[error(
        "INV-241: the artefact records of {edition} are needed; its entry does not fill them and no manifest was read"
    )]
    RecordsMissing {
        /// The edition whose manifest must be read.
        edition: EditionKey,
    },
    /// The entries could not be written as a document.
    #[error("INV-169: the leaf of product {product_id} cannot be written: {reason}")]
    LeafUnwritable {
        /// The product.
        product_id: ProductId,
        /// What the document says.
        reason: String,
    },
}

fn shown(fingerprints: &[Sha256]) -> String {
    if fingerprints.is_empty() {
        return "none".to_owned();
    }
    fingerprints
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" or ")
}

impl Refusal {
    /// The number of the rule that refused (`INV-n`).
    pub fn rule(&self) -> u16 {
        match self {
            Self::WrongState { verb, .. } => verb.rule(),
            Self::UnknownProduct { .. } | Self::LiveNotNamed { .. } | Self::OtherSchema { .. } => 204,
            Self::AlreadyRecorded { .. } => 404,
            Self::EmbargoOn { .. } => 195,
            Self::NotFastForward { .. } => 205,
            Self::BuiltOnWithdrawn { .. } => 208,
            Self::NotDue { .. } | Self::CorrectReleases { .. } => 197,
            Self::Competing { .. } => 405,
            Self::LiveChanged { .. } | Self::NoRollbackTarget { .. } => 206,
            Self::NothingToSupersede { .. } => 199,
            Self::InsideWindow { .. } => 203,
            Self::Cited { .. } => 416,
            Self::FileUnverified { .. } => 202,
            Self::OlderThanTombstones { .. } => 406,
            Self::MixedKinds { .. } => 156,
            Self::ChangedTwice { .. } => 178,
            Self::NothingToDo { .. } => 162,
            Self::CorrectNotOlder { .. } => 150,
            Self::CorrectResurrects { .. } => 181,
            Self::NoMoreVersions { .. } => 19,
            Self::BaseAhead { .. } => 253,
            Self::ClockAhead { .. } => 210,
            Self::TwoLive { .. } => 215,
            Self::OtherManifest { .. } => 216,
            Self::EntryDisagrees { rule, .. } | Self::UnresolvedReferences { rule, .. } => *rule,
            Self::UnknownCanonicalForm { .. } => 217,
            Self::FullDisagreesWithHome { .. } => 220,
            Self::PartialDisagreesWithHome { .. } => 221,
            Self::PartialWithoutHome { .. } => 222,
            Self::CopiesDisagree { .. } => 224,
            Self::FinalChanged { .. } => 234,
            Self::PreviousUnknown { .. } => 235,
            Self::TwoHomes { .. } => 236,
            Self::StructureNotLive { .. } => 237,
            Self::OtherKind { .. } | Self::LeafUnwritable { .. } => 169,
            Self::StructureWithBindings { .. } => 373,
            Self::RecordsMissing { .. } => 241,
        }
    }
}
