//! Encrypted objects and signed entries: bytes and types.
//!
//! This crate knows no clock, disk, socket, database or async runtime. Everything in it is a function of its arguments,
//! so that it can be tested byte by byte and simulated.

pub mod blob;
pub mod bundle;
pub mod cbor;
pub mod domain_digest;
pub mod entry;
mod envelope;
pub mod hlc;
pub mod id;
pub mod kek;
pub mod key;
pub mod padme;
pub mod parallel;
pub mod partition;
pub mod pme;
pub mod record;
pub mod roster;
pub mod row_digest;
pub mod schema;
pub mod seal0;
pub mod secret;
pub mod sign;
pub mod stats;
pub mod thrift;
pub mod types;
pub mod verified;
