//! Editions and the Inventory: products, their immutable sealed editions, and the chain of versions that decides which edition is live.
//!
//! - [`doc`]: the documents as they are stored, decoded strictly where the format says so and leniently where it does not.
//! - [`transition`]: what may happen to an edition, as pure functions from a version to the next one or a refusal that names the rule.
//! - [`store`]: where documents lie: exclusive creation, conditional update, durability.
//! - [`writer`] and [`reader`]: the protocol over a store; [`authority`]: whose versions a reader follows.
//! - [`edition`]: the life of one edition on a store: built, sealed, checked, copied, recorded.
//! - [`section`]: where this project keeps its own in a catalogue's documents.
//! - [`verify`]: everything a stored catalogue can be checked for; [`export`] copies one, [`gc`] says what may be deleted;
//!   [`expunge`] deletes one edition at once.
//! - [`fingerprint`]: fingerprints of tables, artefacts, structures and products.
//! - [`structure`]: the SDMX structures an edition carries.

pub mod authority;
pub mod doc;
pub mod edition;
pub mod export;
pub mod expunge;
pub mod fingerprint;
pub mod gc;
pub mod reader;
pub mod section;
pub mod store;
pub mod structure;
pub mod transition;
pub mod verify;
pub mod writer;
