//! Recovery from a kit and a heap of opaque blobs (SOP-213, DESIGN §9), as steps that cannot be skipped or reordered.
//!
//! ```text
//! ParsedKit ─▶ RingSearch ─▶ RootSearch ─▶ HeadsFound ─▶ per head: CheckpointStep ─▶ PartsStep ─▶ RecoveredSet
//!              small blobs    by id, then    chain back    object, then its parts     verified entries
//!              that are age   small blobs    to trust                                 and authority
//! ```
//! Each step consumes the one before and is a function of the bytes it is given. [`recover`] drives them over any
//! [`OpaqueBlobs`]; it knows no runtime. Nothing is written here: entries come out for the node to admit.
//!
//! What is trusted. With a page: the mesh id, the domain, its founding record and the root on the page, so every newer root must
//! lead back to that one. With words only: the root the ring blob names; the person compares fingerprints. In both cases the
//! issuers must be admins by the ops inside the recovered set, from the founding records down.

mod checkpoints;
mod driver;
mod rings;
mod roots;

pub use checkpoints::{CheckpointStep, PartsStep, StepError};
pub use driver::{Progress, RecoverReport, Recovered, recover};
pub use rings::RingSearch;
pub use roots::{HeadsFound, RootSearch};
use sovm_object::id::{DomainId, MeshId, StorageId};

use crate::{blobs::BlobsError, chain::ChainError, kit::Fingerprint, ring::RingError, root::RootError};

/// What the operator decided beforehand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoverOptions {
    /// Start at exactly this root.
    pub root: Option<StorageId>,
    /// When a checkpoint does not open, go back to the root before it.
    pub allow_older: bool,
    /// The domain, when a kit without its page opens several.
    pub domain: Option<DomainId>,
    /// Trust the root the ring blob names although the chain back to the page's root has a gap.
    pub trust_ring: bool,
}

/// Why nothing was recovered. Nothing was changed anywhere.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// The source failed.
    #[error(transparent)]
    Blobs(#[from] BlobsError),
    /// There is nothing at all.
    #[error("there are no blobs here; point to another replica or directory")]
    Empty,
    /// No key history: no ring blob opens with this kit (SOP-195).
    #[error(
        "no ring blob for kit {kit} is among the {searched} blobs that could be one, so the domain's keys are missing{}. \
         Either this place never held the domain, or the kit was retired; try another replica or a newer kit",
        refusals(.refused)
    )]
    NoRing {
        /// The kit.
        kit: Fingerprint,
        /// Blobs looked at.
        searched: usize,
        /// Age files that are for this kit but wrong, or too damaged to tell.
        refused: Vec<(StorageId, RingError)>,
    },
    /// Words alone open several domains.
    #[error(
        "this kit opens {} domains; name one: {}", .0.len(),
        .0.iter().map(|(mesh, domain)| format!("{domain} of mesh {}", Fingerprint::of_mesh(mesh))).collect::<Vec<_>>().join(", ")
    )]
    SeveralDomains(Vec<(MeshId, DomainId)>),
    /// Keys, but no catalogue: no recovery root (SOP-195).
    #[error(
        "the keys are here, but recovery root {} is not, nor any other{}. Without a root there is no catalogue; try another \
         replica", wanted.fmt_short(), refusals(.refused)
    )]
    NoRoot {
        /// The root that was looked for first.
        wanted: StorageId,
        /// Roots that were refused, and why.
        refused: Vec<(StorageId, RootError)>,
    },
    /// The root the operator asked for is not here.
    #[error("recovery root {} is not here{}", wanted.fmt_short(), refusals(.refused))]
    NotThatRoot {
        /// The root.
        wanted: StorageId,
        /// Roots that were refused, and why.
        refused: Vec<(StorageId, RootError)>,
    },
    /// Roots, but none leads back to the trusted one (SOP-216).
    #[error(
        "root {} cannot be trusted: {cause}. Try a replica that holds the whole chain, or, if you know this domain by its \
         fingerprint, go on from the root the ring blob names: sovm recover --trust-ring", head.fmt_short()
    )]
    Untrusted {
        /// The best head found.
        head: StorageId,
        /// Why it was refused.
        cause: ChainError,
    },
    /// A checkpoint does not open or is not allowed (SOP-223).
    #[error("root {} (number {number}) leads nowhere: {cause}. {}", root.fmt_short(), older(*.previous, .older_tried))]
    Checkpoint {
        /// The root.
        root: StorageId,
        /// Its number.
        number: u64,
        /// What is wrong.
        cause: Box<StepError>,
        /// The root before it, if it is here.
        previous: Option<StorageId>,
        /// Newer roots that had failed before this one.
        older_tried: Vec<StorageId>,
    },
}

fn refusals<E: std::fmt::Display>(refused: &[(StorageId, E)]) -> String {
    refused
        .iter()
        .map(|(id, why)| format!("; {} was refused: {why}", id.fmt_short()))
        .collect()
}

fn older(previous: Option<StorageId>, tried: &[StorageId]) -> String {
    let hint = match previous {
        Some(previous) => format!(
            "The root before it, {}, is here: sovm recover --accept-older brings back the older, consistent state",
            previous.fmt_short()
        ),
        None => "No older root is here; try another replica".to_owned(),
    };
    if tried.is_empty() {
        format!("No older root was tried. {hint}")
    } else {
        let tried: Vec<_> = tried.iter().map(StorageId::fmt_short).collect();
        format!("Newer roots failed before: {}. {hint}", tried.join(", "))
    }
}

#[cfg(test)]
pub(crate) mod tests;
