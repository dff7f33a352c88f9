//! SQL over encrypted objects: the only code that knows DataFusion.
//!
//! ```text
//! statement -> allowed? -> plan -> per table: manifests -> objects that may match -> footers -> row groups that may match
//!           -> verified ranges -> decrypted pages -> rows, matched by field id -> filters again -> answer
//! ```
//!
//! Statistics may skip work and never answer (SOP §11.10, §12.4): a scan states no statistics at all, and `count(*)` decodes
//! a column. Nothing is spilled to disk: a query that needs more than its memory fails and says so.

mod adapt;
mod counters;
mod errors;
mod object;
mod partition;
mod provider;
mod pushdown;
mod scan;
mod session;
mod source;
mod statement;
mod uuid;
mod views;
mod work;

#[cfg(test)]
mod tests;

pub(crate) use self::object::statistics as row_group_statistics;
pub use self::{
    session::run,
    source::{ObjectBytes, ObjectFault, Readiness, ScanObject, TableSource, Tables},
};
