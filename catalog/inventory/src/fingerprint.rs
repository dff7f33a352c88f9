//! Fingerprints: what an edition says about the content of its tables and structures, independent of how it is stored.
//!
//! - [`form`]: the canonical form that tags every fingerprint, so that none is compared with one over another text.
//! - [`value`]: the fingerprint itself, one type per kind.
//! - [`schema`]: which columns have a stable text, and the refusal of all others.
//! - [`row_text`]: a row as the text that is hashed, byte for byte what DuckDB's `to_json` writes.
//! - [`table`]: the sum over the rows of a table; [`parquet_table`] takes the rows from a Parquet file.
//! - [`structures`]: artefact, structural and product fingerprints.
//! - [`expect`]: an edition's fingerprints held against an earlier manifest's.
//! - [`digests`]: digests of an edition's files, all in one pass.
//!
//! Fingerprints are unkeyed hashes of plaintext (GAP-11): they stay inside documents that are encrypted at rest and go
//! only to those entitled to the rows.

pub mod digests;
pub mod expect;
pub mod form;
pub mod parquet_table;
pub mod row_text;
pub mod schema;
pub mod structures;
pub mod table;
pub mod value;

pub use digests::{FileDigests, FileHasher};
pub use expect::{CheckProfile, EditionFingerprints};
pub use form::{CanonicalForm, DifferentForms};
pub use parquet_table::{fingerprint_parquet, fingerprint_parquet_parallel};
pub use schema::{Refused, Why, check_schema};
pub use structures::{ProductFingerprint, StructuralFingerprint};
pub use table::{TableFingerprint, fingerprint_batches};
pub use value::{Artefact, Fingerprint, Product, Structure, Table};
