//! Catalogues of editions on the mesh: the node's own encrypted store, and the domains that read it (DESIGN §10).
//!
//! ```text
//! store      documents in the encrypted database, as the Inventory's crate wants a store
//! data       data files as encrypted objects; a document of one line names each
//! seal       the making of such an object from rows
//! chains     which catalogues are here, and who writes them
//! announce   tells a domain of versions, with their documents and the keys of what became live
//! prefetch   ciphertext ahead of its keys
//! expunge    deletes an edition here for good, and says who may still hold some of it
//! sql        the tables of live editions, for queries
//! follow     takes over what was announced, one version at a time, whole or not at all
//! register   asks the authority to record what was sealed here; at the authority, takes in what others sealed
//! ```
//!
//! What is allowed is decided in [`sovm_inventory`], by the same code as for a catalogue in a directory; here its documents find their
//! way to those who may read them.

mod announce;
mod call;
mod chains;
mod data;
mod expunge;
mod follow;
mod prefetch;
mod register;
mod seal;
mod sql;
mod store;
#[cfg(test)]
mod tests;

pub(super) use self::{
    prefetch::list_ahead,
    sql::{EditionTables, LiveCache},
    store::StoreLocks,
};
