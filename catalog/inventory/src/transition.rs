//! What may happen to an edition, as pure functions.
//!
//! [`apply`] takes the version a writer read and what somebody wants, and answers with the next version's entries, tombstones and
//! change list, or with a [`Refusal`] that names the rule. It reads no store and no clock, so a writer that lost a race calls it
//! again with the new head, and every precondition is judged afresh.
//!
//! | from | to | operation | precondition |
//! |---|---|---|---|
//! | (sealed) | live | [`Operation::Seal`] | embargo off, fast-forward |
//! | (sealed) | embargoed | [`Operation::Register`], [`fold`] | fast-forward |
//! | embargoed | live | [`Operation::Release`], [`release_due`] | due or named, fast-forward |
//! | embargoed | withdrawn | [`Operation::Cancel`] | none |
//! | embargoed | withdrawn | [`Operation::SupersedePending`] | the new edition waits on the same live edition |
//! | embargoed | embargoed | [`Operation::Reschedule`] | none |
//! | live | superseded | (another edition goes live) | the same version |
//! | live | withdrawn | [`Operation::Rollback`], [`Operation::Withdraw`] | still live |
//! | superseded | live | [`Operation::Rollback`] | the same rollback |
//! | tombstone | superseded | [`Operation::Reinstate`] | manifest and files verify |
//! | superseded, withdrawn | tombstone | [`Operation::Retire`], [`prune`] | past the window, not cited |
//!
//! [`Operation::Correct`] returns whole products to an older version's leaves.
//!
//! Every transition is judged once more as a whole version: by the release invariants over all products, on the entries that
//! become live or embargoed in it.

mod apply;
mod batch;
mod change_list;
mod clock;
mod draft;
mod fast_forward;
mod judge;
mod leaves;
mod operation;
mod prune;
mod records;
mod recovery;
mod references;
mod refusal;
mod retention;
mod stale;
#[cfg(test)]
mod tests;
mod version;

pub use self::{
    apply::{Context, Transition, apply},
    batch::{BatchReport, PendingEdition, fold, release_due},
    change_list::{ReplayError, Standing, Standings, change_list},
    clock::{ReleaseClock, next_created_at},
    operation::{Operation, ReleaseWhen, Rollback, RollbackRequest, resolve_withdraw},
    prune::{Prune, check_expunge, directory_is_deletable, prune},
    records::{Manifests, MeasuredFile, ProductProfile, SealedEdition, VerifiedEdition},
    recovery::{RebuildRefused, RepairRefused, SeenVersion, may_repair, rebuild},
    references::{ReferringEdition, StoredReferences, check_references},
    refusal::{EditionKey, Refusal, Verb},
    retention::{Retention, RetentionRefused, RetentionSettings, RetentionViolation},
    stale::{StaleArtefact, stale_artefacts},
    version::{Version, VersionError},
};
