//! What may be asked of an Inventory.
//!
//! An [`Operation`] names every edition it means. Where a caller may leave one out ("roll back to the one before"), the choice
//! is made once, when the call starts, by the functions at the end of this file. A writer that lost a race repeats the operation
//! it resolved, so that a retry cannot quietly act on an edition nobody looked at.

use std::collections::BTreeSet;

use super::{EditionKey, Refusal, SealedEdition, Verb, VerifiedEdition, Version};
use crate::doc::{CleanText, EditionId, EditionState, Entry, EventKind, Instant, Lifecycle, ProductId};

/// One thing to do in a version.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Record a sealed edition as live; only while the embargo is off.
    Seal(SealedEdition),
    /// Record a sealed edition as embargoed.
    Register {
        /// The edition.
        sealed: SealedEdition,
        /// When it becomes releasable; none for no schedule.
        release_at: Option<Instant>,
    },
    /// Make an embargoed edition live.
    Release {
        /// The edition.
        edition: EditionKey,
        /// On whose word.
        when: ReleaseWhen,
    },
    /// Withdraw an embargoed edition.
    Cancel {
        /// The edition.
        edition: EditionKey,
    },
    /// Withdraw every embargoed edition of the product that waits on the same live edition as `by`.
    SupersedePending {
        /// The edition that replaces them, embargoed itself.
        by: EditionKey,
    },
    /// Give an embargoed edition another release time.
    Reschedule {
        /// The edition.
        edition: EditionKey,
        /// The new time; none takes it off the schedule.
        release_at: Option<Instant>,
    },
    /// Withdraw the live edition and make a superseded one live again.
    Rollback(Rollback),
    /// Withdraw the live edition without a successor; the product then has no head at that schema version.
    Withdraw {
        /// The edition, which must still be live.
        live: EditionKey,
    },
    /// Bring a retired edition back as superseded.
    Reinstate(VerifiedEdition),
    /// Turn a superseded or withdrawn edition into a tombstone.
    Retire {
        /// The edition.
        edition: EditionKey,
    },
    /// Make a product final or revisable.
    SetLifecycle {
        /// The product.
        product_id: ProductId,
        /// The lifecycle.
        lifecycle: Lifecycle,
    },
    /// Turn the embargo on or off.
    SetEmbargo {
        /// On or off.
        on: bool,
    },
    /// Change the catalogue's description, and no entry.
    Describe,
    /// Undo what happened to products since an older version.
    Correct {
        /// The known-good version.
        to: Version,
        /// The products.
        products: BTreeSet<ProductId>,
    },
}

/// On whose word an edition is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseWhen {
    /// The schedule's: refused before its release time.
    Due,
    /// Somebody named this edition.
    Explicit,
}

/// A rollback with both editions named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// The product.
    pub product_id: ProductId,
    /// The edition that must still be live.
    pub if_live: EditionId,
    /// The superseded edition to return to.
    pub to: EditionId,
}

impl Operation {
    /// The kind its version is recorded under.
    ///
    /// The format has no kinds of their own for a reschedule, a supersede-pending and a change of lifecycle; they concern what
    /// was or will be sealed and are recorded as `seal`. A cancellation withdraws.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::Seal(_)
            | Self::Register { .. }
            | Self::SupersedePending { .. }
            | Self::Reschedule { .. }
            | Self::SetLifecycle { .. } => EventKind::Seal,
            Self::Release { .. } => EventKind::Release,
            Self::Cancel { .. } | Self::Withdraw { .. } => EventKind::Withdraw,
            Self::Rollback(_) => EventKind::Rollback,
            Self::Reinstate(_) => EventKind::Reinstate,
            Self::Retire { .. } => EventKind::Retire,
            Self::SetEmbargo { .. } => EventKind::EmbargoChange,
            Self::Describe => EventKind::Describe,
            Self::Correct { .. } => EventKind::Correct,
        }
    }

    /// The edition it acts on, where it is one.
    pub fn edition(&self) -> Option<EditionKey> {
        match self {
            Self::Seal(sealed) | Self::Register { sealed, .. } => Some(sealed.edition()),
            Self::Release { edition, .. }
            | Self::Cancel { edition }
            | Self::Reschedule { edition, .. }
            | Self::Retire { edition }
            | Self::Withdraw { live: edition }
            | Self::SupersedePending { by: edition } => Some(edition.clone()),
            Self::Rollback(rollback) => Some(EditionKey::new(rollback.product_id.clone(), rollback.to)),
            Self::Reinstate(verified) => Some(verified.sealed().edition()),
            Self::SetLifecycle { .. } | Self::SetEmbargo { .. } | Self::Describe | Self::Correct { .. } => None,
        }
    }
}

/// A rollback as somebody asks for it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RollbackRequest {
    /// The product.
    pub product_id: ProductId,
    /// The live edition the caller saw; none takes the one live now.
    pub if_live: Option<EditionId>,
    /// The edition to return to; none takes the most recent superseded one.
    pub to: Option<EditionId>,
}

impl RollbackRequest {
    /// INV-201, INV-206: fills in what was left out from the version the call starts with.
    ///
    /// The most recent superseded edition is the one that was superseded last. During a rollout a product has several live
    /// editions; then the live one must be named.
    pub fn resolve(self, version: &Version) -> Result<Rollback, Refusal> {
        let live = the_live_edition(version, &self.product_id, self.if_live, Verb::RollBack)?;
        let leaf = version
            .leaf(&self.product_id)
            .map(|leaf| leaf.editions.as_slice())
            .unwrap_or_default();
        let target =
            |entry: &&Entry| entry.state == EditionState::Superseded && entry.schema_version == live.schema_version;
        let latest = leaf
            .iter()
            .filter(target)
            .max_by_key(|entry| (entry.state_changed_at, entry.edition_id));
        let to = match (self.to, latest) {
            (Some(to), _) => to,
            (None, Some(entry)) => entry.edition_id,
            (None, None) => {
                let schema_version: CleanText = live.schema_version.clone();
                return Err(Refusal::NoRollbackTarget {
                    product_id: self.product_id,
                    schema_version,
                });
            }
        };
        Ok(Rollback {
            if_live: live.edition_id,
            to,
            product_id: self.product_id,
        })
    }
}

/// Resolves a withdrawal: the live edition the caller saw, or the one live now.
pub fn resolve_withdraw(
    version: &Version,
    product_id: &ProductId,
    if_live: Option<EditionId>,
) -> Result<Operation, Refusal> {
    let live = the_live_edition(version, product_id, if_live, Verb::Withdraw)?;
    Ok(Operation::Withdraw {
        live: EditionKey::new(product_id.clone(), live.edition_id),
    })
}

fn the_live_edition<'a>(
    version: &'a Version,
    product_id: &ProductId,
    if_live: Option<EditionId>,
    verb: Verb,
) -> Result<&'a Entry, Refusal> {
    let leaf = version.leaf(product_id).ok_or_else(|| Refusal::UnknownProduct {
        product_id: product_id.clone(),
    })?;
    let mut live: Vec<&Entry> = leaf
        .editions
        .iter()
        .filter(|entry| entry.state == EditionState::Live)
        .collect();
    if let Some(expected) = if_live {
        let found = live.iter().find(|entry| entry.edition_id == expected);
        return found.copied().ok_or_else(|| Refusal::LiveChanged {
            verb,
            product_id: product_id.clone(),
            expected,
            live: live.last().map(|entry| entry.edition_id),
        });
    }
    match (live.pop(), live.is_empty()) {
        (Some(only), true) => Ok(only),
        (last, _) => {
            live.extend(last);
            let live = live.iter().map(|entry| entry.edition_id).collect();
            Err(Refusal::LiveNotNamed {
                verb,
                product_id: product_id.clone(),
                live,
            })
        }
    }
}
