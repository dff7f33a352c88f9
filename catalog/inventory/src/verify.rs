//! Checking a stored catalogue: `verify-catalog`, which is also the test of a restore (INV-395).
//!
//! [`verify`] starts where a reader would, at `CURRENT`, and walks back to the first version over stored bytes. Of each root it
//! checks the link, the time, the epoch, the leaves, and its change list, which it computes again from the version before and
//! the version after. Of each edition whose manifest exists it compares the manifest with its entry; of each edition the newest
//! version records it also measures every listed file. It holds two versions at a time, however long the chain is; of older
//! versions and of segment lines it keeps hashes only.
//!
//! It never stops at what it finds. A catalogue whose `CURRENT` is missing or wrong is read by the fallback and that is
//! reported; where a root is missing, the versions behind it are still checked among themselves.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    doc::{Catalog, CleanText, Document as _, Json, RootRef, Seq, Stored, Unverified, layout},
    reader::{self, ReadError, Way, find_head},
    section,
    store::{InventoryStore, StorePath},
    transition::EditionKey,
};

mod chain;
mod changes;
mod data;
mod edition;
mod files;
mod finding;
mod homes;
mod load;
mod segments;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use data::{DataFiles, DirectoryFiles, EditionFile, Measured, StoreFiles};
pub(crate) use data::{blocking, io_error, open_file};
pub use edition::EditionReferences;
pub use finding::{Counts, Fault, Finding, Report, Severity};
pub(crate) use load::{Loaded, load, root_at};

/// The member of this project's section that marks a live-only export.
pub(crate) const LIVE_ONLY: &str = "live_only";

/// How [`verify`] reads what lies outside the Inventory.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The editions' files; none leaves them unmeasured, and the report says so in its counts.
    pub files: Option<&'a dyn DataFiles>,
    /// What editions refer to; none leaves references unchecked.
    pub references: Option<&'a dyn EditionReferences>,
    /// INV-217: the canonical forms whose fingerprints this build can compare.
    pub canonical_forms: &'a BTreeSet<CleanText>,
    /// How many findings the report keeps; the others are counted.
    pub findings_kept: usize,
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("files", &self.files.is_some())
            .field("references", &self.references.is_some())
            .field("canonical_forms", &self.canonical_forms)
            .field("findings_kept", &self.findings_kept)
            .finish()
    }
}

/// Checks everything in a catalogue.
///
/// The catalogue may be anybody's: unknown fields, another order of keys and roots from before the history fields are no
/// findings.
pub async fn verify(store: &dyn InventoryStore, options: &Options<'_>) -> Report {
    let mut check = Check {
        store,
        options,
        report: Report::new(options.findings_kept),
        live_only: false,
        editions: BTreeSet::new(),
    };
    check.run().await;
    check.report
}

/// A check under way.
struct Check<'a> {
    store: &'a dyn InventoryStore,
    options: &'a Options<'a>,
    report: Report,
    /// A live-only export drops editions that left live, so a `previous` may name one that is not in it.
    live_only: bool,
    /// Editions whose manifest was read; older versions' entries have them read again.
    editions: BTreeSet<EditionKey>,
}

impl Check<'_> {
    fn fault(&mut self, path: impl Into<String>, fault: impl Into<Fault>) {
        self.report.push(path.into(), fault.into());
    }

    /// Reads a document; a failure is a finding, and then there is nothing to look at.
    async fn read(&mut self, path: &str) -> Option<bytes::Bytes> {
        let found = match StorePath::parse(path) {
            Ok(name) => self.store.get(&name).await,
            Err(error) => Err(error.into()),
        };
        match found {
            Ok(found) => found.map(|found| found.bytes),
            Err(error) => {
                self.fault(path, Fault::unreadable(&error));
                None
            }
        }
    }

    async fn list(&mut self, folder: &str) -> Vec<StorePath> {
        let found = match StorePath::parse(folder) {
            Ok(name) => self.store.list(Some(&name)).await,
            Err(error) => Err(error.into()),
        };
        found.unwrap_or_else(|error| {
            self.fault(folder, Fault::unreadable(&error));
            Vec::new()
        })
    }

    async fn run(&mut self) {
        let catalog = self.catalog().await;
        let mut listed: BTreeSet<Seq> = self
            .list(layout::INVENTORY)
            .await
            .iter()
            .filter_map(|path| layout::root_seq(path.as_str()))
            .collect();
        let start = self.head(&listed).await;
        let segments = self.segments(catalog.as_ref()).await;
        if let Some(seq) = start {
            // It may have been written since the listing.
            listed.insert(seq);
            self.chain(seq, &listed, catalog.as_ref(), &segments).await;
        }
    }

    async fn catalog(&mut self) -> Option<Catalog> {
        let Some(bytes) = self.read(layout::CATALOG).await else {
            self.fault(layout::CATALOG, Fault::CatalogMissing);
            return None;
        };
        match Catalog::decode(&bytes) {
            Ok(catalog) => {
                self.live_only = is_live_only(&catalog);
                Some(catalog)
            }
            Err(error) => {
                self.fault(layout::CATALOG, error);
                None
            }
        }
    }

    /// Where the walk begins: at the version a reader takes, else at the newest one there is.
    async fn head(&mut self, listed: &BTreeSet<Seq>) -> Option<Seq> {
        let refresh = match find_head(self.store, None).await {
            Ok(refresh) => refresh,
            Err(error) => {
                let path = match &error {
                    ReadError::NoCatalog => layout::CATALOG.to_owned(),
                    ReadError::HistoryMissing | ReadError::HistoryOfAnother { .. } => layout::HISTORY.to_owned(),
                    _ => layout::INVENTORY.to_owned(),
                };
                self.fault(path, Fault::NoHead(error.to_string()));
                return self.newest_that_decodes(listed).await;
            }
        };
        let head = refresh.head.reference();
        for finding in refresh.findings {
            let path = match &finding {
                // The walk comes to these by itself.
                reader::Finding::HistoryFieldsLost { .. } => continue,
                reader::Finding::InvalidRoot { seq, .. } if *seq <= head.seq => continue,
                reader::Finding::InvalidRoot { seq, .. } => layout::root(*seq),
                reader::Finding::CurrentNamesBadRoot { named, why }
                    if (named.restore_epoch, named.seq) > (head.restore_epoch, head.seq) =>
                {
                    self.fault(
                        layout::root(named.seq),
                        Fault::VersionsLost {
                            named: named.seq,
                            why: why.clone(),
                            head: head.seq,
                        },
                    );
                    continue;
                }
                _ => layout::CURRENT.to_owned(),
            };
            self.fault(path, finding);
        }
        if refresh.way == Way::Current
            && let Some(named) = refresh
                .freshness
                .current
                .filter(|_| refresh.freshness.ahead_of_current > 0)
        {
            self.fault(layout::CURRENT, Fault::CurrentBehind { named, head: head.seq });
        }
        let beyond = head.seq.next().and_then(|next| listed.range(next..).next().copied());
        // One that follows at once has been reported as invalid already.
        if let Some(seq) = beyond.filter(|seq| Some(*seq) != head.seq.next()) {
            self.fault(layout::root(seq), Fault::RootBeyond { seq, head: head.seq });
        }
        self.report.head = Some(head);
        self.report.way = Some(refresh.way);
        Some(head.seq)
    }

    async fn newest_that_decodes(&mut self, listed: &BTreeSet<Seq>) -> Option<Seq> {
        for seq in listed.iter().rev() {
            if let Ok(Some(Ok(root))) = root_at(self.store, *seq).await {
                self.report.head = Some(reference(&root));
                return Some(*seq);
            }
        }
        None
    }
}

fn reference(root: &Stored<crate::doc::Root, Unverified>) -> RootRef {
    RootRef {
        restore_epoch: root.restore_epoch,
        seq: root.seq,
        root_sha256: root.sha256(),
    }
}

/// Whether a catalogue is marked as a live-only export.
pub fn is_live_only(catalog: &Catalog) -> bool {
    section::of(&catalog.extensions).is_some_and(|section| section.get(LIVE_ONLY) == Some(&Json::Bool(true)))
}

/// What is known of one removed root: enough to follow the chain over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    root_sha256: crate::doc::Sha256,
    previous: Option<crate::doc::Sha256>,
    has_history: bool,
    expired: bool,
}

/// Segment lines by epoch and number.
type Lines = BTreeMap<(crate::doc::Epoch, Seq), Line>;
