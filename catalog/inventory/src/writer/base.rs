//! The version a commit builds on: its head, and of its leaves those the decision needs.
//!
//! A root names thousands of leaves and a decision most often concerns one. So a commit starts from the root alone, and reads
//! what the decision asks for:
//!
//! ```text
//! root ──▶ decide ──▶ asked for leaves? ──yes──▶ read them, and decide anew
//!            ▲                 │ no                        │
//!            └─────────────────┼───────────────────────────┘
//!                              ▼
//!          every leaf that is replaced was read in this commit ──▶ write
//! ```
//!
//! A decision that asked for a leaf nobody had read is thrown away, whatever it was: no rule is ever judged on part of what
//! it looks at. The rules of one product ask for that product's leaf. Those between products, on artefacts that several
//! hold and on what is due, ask for all of them.
//!
//! A writer keeps the version it saw last. A leaf's name is the hash of its bytes, so a leaf that was verified once is known
//! for good. What a version replaces is read again all the same: nothing is built on a leaf that is gone (INV-167).

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Base, CommitError, Newest, Planned, WriteError, Writer};
use crate::{
    doc::{Catalog, ChangeItem, ProductId},
    reader::{Finding, fetch_leaves, find_base_from},
    transition::{Version, VersionError, change_list, next_created_at},
};

/// The version a writer saw last. Its clones share it.
#[derive(Default)]
pub(super) struct Memory(Mutex<Option<Newest>>);

impl Memory {
    /// Takes it out: a commit beside this one starts from nothing, which is slower and not wrong.
    fn take(&self) -> Option<Newest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, newest: Newest) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(newest);
    }
}

/// A decision every leaf of which was read.
pub(super) struct Decided {
    pub(super) planned: Planned,
    /// When the version will be dated.
    pub(super) at: crate::doc::Instant,
    /// The change list against the base.
    pub(super) changes: Vec<ChangeItem>,
}

impl Writer {
    /// Finds the newest version, with the leaves this writer knows already; none before the first one.
    pub(super) async fn newest(&self, catalog: &Catalog) -> Result<Option<Newest>, WriteError> {
        let seen = self.memory.take();
        let Some(found) = find_base_from(&*self.store, seen.as_ref().map(|seen| &seen.head)).await? else {
            return Ok(None);
        };
        let root = found.head.root();
        let seq = root.seq;
        for finding in &found.findings {
            match finding {
                Finding::InvalidRoot { seq: invalid, .. } if *invalid > seq => {
                    let (seq, head) = (*invalid, Some(seq));
                    return Err(WriteError::Blocked {
                        seq,
                        head,
                        finding: finding.to_string(),
                    });
                }
                Finding::CurrentNamesBadRoot { named, .. }
                    if named.seq > seq && named.restore_epoch >= catalog.restore_epoch =>
                {
                    return Err(WriteError::CurrentAhead {
                        named: named.seq,
                        head: Some(seq),
                    });
                }
                _ => {}
            }
        }
        if root.restore_epoch > catalog.restore_epoch {
            let (catalog, base) = (catalog.restore_epoch, root.restore_epoch);
            return Err(WriteError::EpochBehind { catalog, base, seq });
        }
        if let Some(expired_through) = self.history(catalog).await?.and_then(|history| history.expired_through)
            && seq <= expired_through
        {
            return Err(WriteError::Expired { seq, expired_through });
        }
        let version = match seen {
            Some(seen) if seen.head.root().sha256() == root.sha256() => seen.version,
            Some(seen) => of_what_is_known(root, &seen.version)?,
            None => Version::named(root),
        };
        Ok(Some(Newest {
            head: found.head,
            version,
            confirmed: BTreeSet::new(),
        }))
    }

    /// Finds the newest version and reads every leaf it names.
    pub(super) async fn newest_whole(&self, catalog: &Catalog) -> Result<Option<Newest>, WriteError> {
        let Some(mut newest) = self.newest(catalog).await? else {
            return Ok(None);
        };
        let all = newest.head.root().products.keys().cloned().collect();
        self.read_leaves(&mut newest, all).await?;
        Ok(Some(newest))
    }

    /// Reads the leaves of products, also those that were read before: they are in the store as the root names them.
    pub(super) async fn read_leaves(
        &self,
        newest: &mut Newest,
        products: BTreeSet<ProductId>,
    ) -> Result<(), WriteError> {
        let root = newest.head.root();
        let wanted = products
            .into_iter()
            .filter_map(|product_id| root.products.get(&product_id).map(|leaf| (product_id, *leaf)));
        let wanted: Vec<_> = wanted.collect();
        for (product_id, leaf) in fetch_leaves(&*self.store, root.seq, wanted, Arc::new).await? {
            newest.version.read(&product_id, leaf)?;
            newest.confirmed.insert(product_id);
        }
        Ok(())
    }

    /// Keeps a version for the next commit.
    pub(super) fn remember(&self, newest: Newest) {
        self.memory.put(newest);
    }

    /// Has a version decided on, and reads leaves until the decision asked for none that was not read.
    pub(super) async fn decide<E: std::error::Error + 'static>(
        &self,
        mut newest: Option<&mut Newest>,
        decide: &mut (impl FnMut(Base<'_>) -> Result<Option<Planned>, E> + Send),
    ) -> Result<Option<Decided>, CommitError<E>> {
        let before_the_first = Version::before_the_first(false);
        let now = self.clock.now();
        loop {
            let version = newest.as_ref().map_or(&before_the_first, |newest| &newest.version);
            let root = newest.as_ref().map(|newest| newest.head.root());
            let at = next_created_at(version.created_at(), now).map_err(WriteError::from)?;
            let decision = decide(Base { version, root, now, at });
            let changes = match &decision {
                Ok(Some(planned)) => change_list(version, &planned.next),
                _ => Vec::new(),
            };
            let asked = version.take_asked();
            if let Some(newest) = &mut newest
                && !asked.is_empty()
            {
                drop(decision);
                self.read_leaves(newest, asked).await?;
                continue;
            }
            let Some(planned) = decision.map_err(CommitError::Refused)? else {
                return Ok(None);
            };
            // Only a version put together from another commit's base has questions of its own.
            if let Some(product_id) = planned.next.take_asked().into_iter().next() {
                return Err(WriteError::from(planned.next.missing(product_id)).into());
            }
            if let Some(newest) = &mut newest {
                let replaced = changes.iter().filter(|item| item.leaf_sha256.from.is_some());
                let unconfirmed: BTreeSet<ProductId> = replaced
                    .map(|item| item.product_id.clone())
                    .filter(|product_id| !newest.confirmed.contains(product_id))
                    .collect();
                if !unconfirmed.is_empty() {
                    self.read_leaves(newest, unconfirmed).await?;
                }
            }
            return Ok(Some(Decided { planned, at, changes }));
        }
    }
}

/// A root's version with the leaves another version has of it (INV-349).
fn of_what_is_known(root: &crate::doc::Root, seen: &Version) -> Result<Version, VersionError> {
    let mut version = Version::named(root);
    for (product_id, leaf) in &root.products {
        if let Some(known) = seen.leaf_if_read(product_id)
            && known.sha256() == leaf.leaf_sha256
        {
            version.read(product_id, Arc::clone(known))?;
        }
    }
    Ok(version)
}
