//! Writing the Inventory: leaves, then the root, then `CURRENT`.
//!
//! Creating `inventory/<seq>.json` is the commit (INV-242): before it a version does not exist for anybody, after it the
//! version is there whatever becomes of its writer. What leads up to it can be repeated and what follows it can be made
//! up for, so a writer may die anywhere:
//!
//! | dies | left behind | afterwards |
//! |---|---|---|
//! | before the root | leaves nobody names | the commit is repeated and finds them present |
//! | after the root | `CURRENT` one version behind | readers probe past it, the next commit brings it up |
//!
//! A [`Writer`] is handed a decision as a function from the newest version to the next one. It calls that function again
//! for every head it loses a race to, so that no precondition is ever judged on an old version (INV-249).

use std::{collections::BTreeSet, sync::Arc};

use thiserror::Error;

use crate::{
    doc::{
        Catalog, CatalogId, CleanText, DocError, EditionId, Epoch, EventKind, Instant, JsonObject, Producer, ProductId,
        Root, RootRef, Seq, Sha256, Stored,
    },
    reader::{Head, ReadError},
    store::{InventoryStore, LockReach, PathError, StoreError},
    transition::{RebuildRefused, Refusal, RepairRefused, Transition, Version, VersionError},
};

mod base;
mod commit;
mod create;
mod current;
mod journal;
mod opt_in;
mod rebuild;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use create::NewCatalog;
pub use journal::{Repair, Unrecorded};
pub use rebuild::{Assurance, RebuildRefusal};

/// Who writes: the actor comes from here and never from the caller of an operation (INV-158).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The writer's own name.
    pub actor: CleanText,
    /// The program.
    pub producer: Producer,
}

/// Where a writer takes the time from: a node's clock under the mesh's bound (INV-254).
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Instant;
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// Writes versions of one catalogue.
///
/// It keeps the leaves it read of the last version between commits, in memory; so do its clones, together.
#[derive(Clone)]
pub struct Writer {
    store: Arc<dyn InventoryStore>,
    identity: Identity,
    clock: Arc<dyn Clock>,
    memory: Arc<base::Memory>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("store", &self.store)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// A writer of the catalogue in a store. Whether there is one shows at the first commit.
    pub fn new(store: Arc<dyn InventoryStore>, identity: Identity, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            identity,
            clock,
            memory: Arc::default(),
        }
    }

    /// The store it writes to.
    pub fn store(&self) -> &Arc<dyn InventoryStore> {
        &self.store
    }
}

/// What a decision is made on: the head, read under the lock, and the time the next version will be dated.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// The version.
    pub version: &'a Version,
    /// Its root; none before the first version.
    pub root: Option<&'a Stored<Root>>,
    /// The writer's clock, read once for this decision. A transition takes its time from here, so that what it dates and
    /// what the root says agree.
    pub now: Instant,
    /// The `created_at` of the version that may follow (INV-252).
    pub at: Instant,
}

/// A version to write.
#[derive(Debug, Clone)]
pub struct Planned {
    /// What it holds.
    pub next: Version,
    /// What it does.
    pub kind: EventKind,
    /// Why.
    pub reason: String,
    /// The version it was built from, for a correction; every other version is built from its base (INV-150).
    pub corrects_from: Option<Seq>,
    /// New extension sections; none keeps the base version's.
    pub extensions: Option<JsonObject>,
}

impl Planned {
    /// A version built from its base that keeps its extension sections.
    pub fn new(next: Version, kind: EventKind, reason: impl Into<String>) -> Self {
        Self {
            next,
            kind,
            reason: reason.into(),
            corrects_from: None,
            extensions: None,
        }
    }
}

impl Planned {
    /// The version of a transition that was judged.
    pub fn of(transition: Transition, reason: impl Into<String>) -> Self {
        let corrects = transition.kind == EventKind::Correct;
        Self {
            corrects_from: transition.previous_inventory.filter(|_| corrects),
            ..Self::new(transition.next, transition.kind, reason)
        }
    }
}

/// How a commit ended.
#[derive(Debug)]
pub enum Outcome {
    /// A version was written.
    Committed(Committed),
    /// The decision was that there is nothing to write.
    Unchanged(Option<Head>),
}

impl Outcome {
    /// The version written, if one was.
    pub fn committed(self) -> Option<Committed> {
        match self {
            Self::Committed(committed) => Some(committed),
            Self::Unchanged(_) => None,
        }
    }
}

/// A version that was written.
#[derive(Debug)]
pub struct Committed {
    /// The version.
    pub head: Head,
    /// How many heads the decision was made on; more than one after lost races.
    pub attempts: u32,
    /// Whether `CURRENT` names it by now. A failure here doesn't undo the version: readers probe past `CURRENT`.
    pub current: Result<(), WriteError>,
}

/// Why a commit wrote nothing, or doesn't know.
#[derive(Debug, Error)]
pub enum CommitError<E: std::error::Error + 'static> {
    /// The decision was a refusal.
    #[error(transparent)]
    Refused(E),
    /// The protocol failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why a writer could not write.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A root is in the way that no reader accepts.
    #[error("version {seq} exists and is invalid, so nothing can follow version {head:?}: {finding}")]
    Blocked {
        /// Its number.
        seq: Seq,
        /// The newest valid version.
        head: Option<Seq>,
        /// What is wrong with it.
        finding: String,
    },
    /// There is a catalogue already.
    #[error("there is catalogue {catalog_id} here already, with versions up to {newest}")]
    CatalogExists {
        /// Its id.
        catalog_id: CatalogId,
        /// Its newest version.
        newest: Seq,
    },
    /// Too many others were faster.
    #[error("lost the race for a version {attempts} times in a row; the last was version {seq}")]
    Contended {
        /// How often.
        attempts: u32,
        /// The last version lost.
        seq: Seq,
    },
    /// `CURRENT` names a version that isn't there.
    #[error(
        "CURRENT names version {named}, but the newest version here is {}: versions were lost, and writing \
         would use a number again that a reader may hold (INV-258); restore the missing versions first",
        .head.map_or_else(|| "none".to_owned(), |head| head.to_string())
    )]
    CurrentAhead {
        /// What `CURRENT` names.
        named: Seq,
        /// The newest version.
        head: Option<Seq>,
    },
    /// `CURRENT` kept changing.
    #[error("CURRENT kept changing while it was brought up to version {0}")]
    CurrentContended(Seq),
    /// A document of one's own is wrong, or one that has to be rewritten.
    #[error(transparent)]
    Document(#[from] DocError),
    /// `catalog.json` changed under a rewrite.
    #[error(
        "restore_epoch of catalog.json was {read} when it was read and is {found} now: nothing was rewritten (INV-143)"
    )]
    EpochChanged {
        /// As read.
        read: Epoch,
        /// As found.
        found: Epoch,
    },
    /// The chain is of a later epoch than `catalog.json`.
    #[error("catalog.json has restore_epoch {catalog}, but version {seq} is of epoch {base} (INV-151)")]
    EpochBehind {
        /// The catalogue's.
        catalog: Epoch,
        /// The version's.
        base: Epoch,
        /// The version.
        seq: Seq,
    },
    /// The base version has expired.
    #[error(
        "version {seq} is not above {expired_through}, through which versions expired: refusing to build on it (INV-255)"
    )]
    Expired {
        /// The base version.
        seq: Seq,
        /// How far expiry went.
        expired_through: Seq,
    },
    /// A journal of the same edition with other content.
    #[error("edition {edition_id} of product {product_id} has a journal already, and it says something else (INV-268)")]
    JournalExists {
        /// The product.
        product_id: ProductId,
        /// The edition.
        edition_id: EditionId,
    },
    /// A leaf's name is taken by other bytes.
    #[error("leaf {expected} is there with bytes that hash to {found}: it was changed after it was written (INV-246)")]
    LeafDiffers {
        /// Its name.
        expected: Sha256,
        /// What is there.
        found: Sha256,
    },
    /// There is no catalogue.
    #[error("there is no catalog.json here; `sovm inventory init` makes a catalogue")]
    NoCatalog,
    /// Files that aren't a catalogue's.
    #[error(
        "there is no catalog.json here but other files, such as {found}: refusing to make a catalogue among them (INV-30)"
    )]
    NotEmpty {
        /// One of them.
        found: String,
    },
    /// An opt-in that cannot be.
    #[error(transparent)]
    OptIn(#[from] OptInRefusal),
    /// Nobody knows whether the version was written.
    #[error("writing version {seq} ({root_sha256}) failed and it can't be read whether it is there: run again to see")]
    OutcomeUnknown {
        /// The version.
        seq: Seq,
        /// The hash of the root that was to be.
        root_sha256: Sha256,
        /// The failure.
        source: StoreError,
    },
    /// A name no store can have.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A catalogue can't be rebuilt.
    #[error(transparent)]
    Rebuild(#[from] RebuildRefusal),
    /// A catalogue that can't be rebuilt from its manifests.
    #[error(transparent)]
    RebuildFromManifests(#[from] RebuildRefused),
    /// A sealed edition that must not be recorded by a repair.
    #[error(transparent)]
    Repair(#[from] RepairRefused),
    /// Restores of an opted-in catalogue have their own order.
    #[error(
        "the catalogue opted in to expiry: a restore writes its segment and HISTORY before the epoch (INV-133, INV-146)"
    )]
    RestoreNeedsHistory,
    /// A transition's rule refused, such as the clock's.
    #[error(transparent)]
    Rule(#[from] Refusal),
    /// There is no further number.
    #[error("version {0} is the last one a root's name can hold (INV-19)")]
    SeqExhausted(Seq),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The root and its leaves don't fit together.
    #[error(transparent)]
    Version(#[from] VersionError),
}

/// Why a catalogue can't opt in to expiry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptInRefusal {
    /// It did already.
    #[error("the catalogue opted in already, with versions from {0} on (INV-131)")]
    AlreadyIn(Seq),
    /// The chain doesn't reach the first version.
    #[error("version {0} is missing, so it can't be seen whether it has the history fields (INV-140)")]
    ChainIncomplete(Seq),
    /// The head has no history fields.
    #[error("the head, version {0}, has no history fields (INV-139)")]
    HeadWithoutHistory(Seq),
    /// There is a `HISTORY` already that says something else.
    #[error("inventory/HISTORY is there already and isn't what an opt-in writes (INV-142)")]
    HistoryExists,
    /// The fields were lost once.
    #[error("version {without} has no history fields, but version {with} before it has (INV-140)")]
    HistoryLost {
        /// The later version.
        without: Seq,
        /// The earlier version.
        with: Seq,
    },
    /// The store's lock doesn't keep everybody out.
    #[error("the store's lock keeps out {0:?} only, and expiry needs one that keeps out every writer (INV-141)")]
    Lock(LockReach),
    /// There is no version yet.
    #[error("the catalogue has no version yet (INV-139)")]
    NoVersion,
}

/// What `catalog.json` says, and what it must still be when it is rewritten.
struct ReadCatalog {
    catalog: Catalog,
    revision: crate::store::Revision,
}

/// The newest version as a writer sees it.
struct Newest {
    head: Head,
    /// With the leaves that were needed so far.
    version: Version,
    /// The products whose leaves this commit found in the store as the root names them.
    confirmed: BTreeSet<ProductId>,
}

impl Newest {
    fn reference(&self) -> RootRef {
        self.head.reference()
    }
}
