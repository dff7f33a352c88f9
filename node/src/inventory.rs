//! Catalogues: their Inventory, their products and editions, in a plain directory or a bucket without a home, a key or a
//! daemon.
//!
//! Anybody who may read the directory can look at it; whoever may write in it is its release authority for as long as the
//! directory's lock is held. A bucket has no lock: there a version is committed by the put that creates its root. What is allowed is decided by [`sovm_inventory`]; here its answers are fetched, carried and put
//! into words.

mod actor;
mod address;
mod catalogue;
mod change;
mod collect;
mod data;
mod editions;
pub(crate) mod errors;
mod export;
mod expunge;
mod files;
mod fingerprint;
mod look;
mod manifests;
mod product;
mod publish;
mod register;
mod reinstate;
mod retention;
mod s3;
mod tables;
mod verify;

pub(crate) use self::{
    actor::Author,
    address::Address,
    catalogue::{Catalogue, identity},
    change::{Retire, Wish, reported},
    data::{DataPlace, DirectoryPlace},
    fingerprint::fingerprint,
    look::Look,
    product::NewProduct,
    publish::{Build, Rows},
    retention::WindowsChange,
};
