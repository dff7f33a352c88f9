//! The chain of recovery roots: which root may follow which, and which is the newest (SOP §12.7).
//!
//! Links are hashes of exact sealed bytes, so the chain only ever grows at its head. Two members may extend it at once: both
//! heads count, and their record sets are united (SOP-218). Clocks decide nothing.

use std::collections::{BTreeMap, BTreeSet};

use sovm_object::id::StorageId;

use crate::{
    keystore::RootRef,
    root::{FIRST_ROOT, Root},
};

/// Longest walk back (SOP-217).
pub const MAX_LINKS: usize = 1_000_000;

/// Why a root does not lead back to the one that is trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// A link of the chain is not among the blobs.
    #[error("there is a gap: root {} (number {number}) is missing", missing.fmt_short())]
    Gap {
        /// The missing root.
        missing: StorageId,
        /// The number it must have.
        number: u64,
    },
    /// The chain is whole, but passes the trusted root by.
    #[error("it does not descend from root {}, which is trusted", .0.fmt_short())]
    Foreign(StorageId),
    /// A root does not bear its predecessor's number plus one (SOP-219).
    #[error("root {} bears number {found} where {expected} must follow", root.fmt_short())]
    WrongNumber {
        /// The root.
        root: StorageId,
        /// What must stand there.
        expected: u64,
        /// What stands there.
        found: u64,
    },
    /// A root that leads back to itself. Hashes make it impossible; still checked.
    #[error("the chain runs in a circle")]
    Loop,
    /// More links than any real domain has.
    #[error("the chain is longer than {MAX_LINKS} links")]
    TooLong,
}

/// A root proven to descend from a trusted one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    head: RootRef,
    ancestors: BTreeSet<StorageId>,
    clock_went_back: bool,
}

impl Lineage {
    /// Of a root made here, directly after the one it names.
    pub fn of_own(root: &Root) -> Self {
        let ancestors = root.body().previous_recovery_root_id.into_iter().collect();
        Self {
            head: root.reference(),
            ancestors,
            clock_went_back: false,
        }
    }

    /// The newest root of the lineage.
    pub const fn head(&self) -> &RootRef {
        &self.head
    }

    /// Whether `root` is among the ancestors walked.
    pub fn descends_from(&self, root: &StorageId) -> bool {
        self.ancestors.contains(root)
    }

    /// Number of links between the trusted root and the head.
    pub fn links(&self) -> usize {
        self.ancestors.len()
    }

    /// A stamp along the way lies before its predecessor's: worth a warning, decides nothing (SOP-230).
    pub const fn clock_went_back(&self) -> bool {
        self.clock_went_back
    }
}

/// The verified roots of one domain that are at hand.
#[derive(Debug, Default)]
pub struct RootSet {
    roots: BTreeMap<StorageId, Root>,
}

impl RootSet {
    /// Adds a root.
    pub fn insert(&mut self, root: Root) {
        self.roots.insert(root.id(), root);
    }

    /// Drops a root that turned out not to count.
    pub(crate) fn remove(&mut self, id: &StorageId) {
        self.roots.remove(id);
    }

    /// A root by id.
    pub fn get(&self, id: &StorageId) -> Option<&Root> {
        self.roots.get(id)
    }

    /// All roots.
    pub fn iter(&self) -> impl Iterator<Item = &Root> {
        self.roots.values()
    }

    /// Number of roots.
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Roots that no other root here follows, highest (number, id) first.
    pub fn heads(&self) -> Vec<&Root> {
        let followed: BTreeSet<_> = self
            .roots
            .values()
            .filter_map(|root| root.body().previous_recovery_root_id)
            .collect();
        let mut heads: Vec<_> = self
            .roots
            .values()
            .filter(|root| !followed.contains(&root.id()))
            .collect();
        heads.sort_by_key(|root| std::cmp::Reverse((root.body().recovery_generation, root.id())));
        heads
    }

    /// What a new root must name as its predecessor: the highest (number, id) (SOP-218).
    pub fn next_previous(&self) -> Option<(StorageId, u64)> {
        self.heads()
            .first()
            .map(|root| (root.id(), root.body().recovery_generation))
    }

    /// Walks from `head` back to `trusted` and checks every link (SOP-216, SOP-217, SOP-219).
    pub fn walk(&self, head: &StorageId, trusted: &StorageId) -> Result<Lineage, ChainError> {
        self.walk_bounded(head, trusted, MAX_LINKS)
    }

    pub(crate) fn walk_bounded(
        &self,
        head: &StorageId,
        trusted: &StorageId,
        limit: usize,
    ) -> Result<Lineage, ChainError> {
        let Some(start) = self.roots.get(head) else {
            return Err(ChainError::Gap {
                missing: *head,
                number: 0,
            });
        };
        let mut lineage = Lineage {
            head: start.reference(),
            ancestors: BTreeSet::new(),
            clock_went_back: false,
        };
        let mut at = start;
        while at.id() != *trusted {
            let number = at.body().recovery_generation;
            let Some(previous) = at.body().previous_recovery_root_id else {
                return Err(match number {
                    FIRST_ROOT => ChainError::Foreign(*trusted),
                    found => ChainError::WrongNumber {
                        root: at.id(),
                        expected: FIRST_ROOT,
                        found,
                    },
                });
            };
            if previous == *head || !lineage.ancestors.insert(previous) {
                return Err(ChainError::Loop);
            }
            if lineage.ancestors.len() > limit {
                return Err(ChainError::TooLong);
            }
            let Some(before) = self.roots.get(&previous) else {
                return Err(ChainError::Gap {
                    missing: previous,
                    number: number.saturating_sub(1),
                });
            };
            let expected = before.body().recovery_generation.saturating_add(1);
            if number != expected {
                return Err(ChainError::WrongNumber {
                    root: at.id(),
                    expected,
                    found: number,
                });
            }
            lineage.clock_went_back |= at.body().issued_hlc < before.body().issued_hlc;
            at = before;
        }
        Ok(lineage)
    }
}

#[cfg(test)]
mod tests;
