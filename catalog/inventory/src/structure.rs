//! The SDMX structures an edition carries: which artefacts there are, what they refer to, and what their fingerprints hash.
//!
//! A message is read by [`message`] into model values ([`model`]), which are whatever the file said. [`Structures`] is
//! the checked form: every artefact in it is valid by itself and stands under its pinned URN, once. All that an edition
//! does with structures takes that type:
//!
//! - [`canonical`]: the text a fingerprint hashes, and the fingerprint.
//! - [`reference`]: which references leave an artefact, and whether an edition resolves them.
//! - [`closure`]: the artefacts behind one dataflow, and their structural fingerprint.
//! - [`partial`]: codelists cut to the codes a product uses, and the check of such a cut.
//! - [`availability`]: whether coded columns hold codes of their codelists.
//! - [`record`]: what the manifest says about each artefact.
//! - [`stored`]: the file an edition keeps its structures in.

pub mod availability;
pub mod canonical;
pub mod closure;
pub mod language;
pub mod message;
pub mod model;
pub mod partial;
pub mod record;
pub mod reference;
pub mod stored;
pub mod urn;

mod lookup;
mod set;
#[cfg(test)]
mod testing;

pub use canonical::{ArtefactFingerprint, CanonicalForm};
pub use record::ArtefactRecord;
pub use set::{StructureError, Structures};
pub use urn::{ArtefactUrn, Stability, Urn, Version};
