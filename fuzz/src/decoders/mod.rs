//! Every decoder under a name, with what must hold of it for any input.
//!
//! The fuzzer's targets and the ordinary test run (`tests/it/fuzz/corpus.rs`) share this module. A decoder must not panic;
//! it panics itself when something is accepted that breaks a promise: a second encoding of the same value (SOP-131), a
//! range outside the object (SOP-90).

mod inputs;
mod objects;
mod peers;
mod records;
mod recovery;
mod wrap;

/// One decoder.
pub struct Target {
    /// Name of the target, and of its directory in the corpus.
    pub name: &'static str,
    /// Feeds it.
    pub decode: fn(&[u8]),
    /// Longest input the fuzzer tries.
    pub max_len: usize,
    /// Memory it may take at once: this much, and `memory_per_byte` for each byte of input.
    pub memory: usize,
    /// See `memory`.
    pub memory_per_byte: usize,
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The table below: a constant for each target, so that a program of one target holds the code of no other.
macro_rules! targets {
    ($($constant:ident $name:literal, $decode:path, max $max_len:expr, memory $memory:expr, $per_byte:expr;)*) => {
        $(#[doc = concat!("Target `", $name, "`.")]
        pub const $constant: Target = Target {
            name: $name,
            decode: $decode,
            max_len: $max_len,
            memory: $memory,
            memory_per_byte: $per_byte,
        };)*

        /// All of them.
        pub const TARGETS: &[Target] = &[$($constant),*];
    };
}

targets! {
    // Objects.
    THRIFT "thrift", objects::thrift, max 4 * KIB, memory 4 * KIB, 256;
    FOOTER "footer", objects::footer, max 8 * KIB, memory 64 * KIB, 512;
    PAGE_HEADER "page_header", objects::page_header, max KIB, memory KIB, 0;
    OBJECT "object", objects::object, max 16 * KIB, memory 64 * KIB, 64;
    PAGES "pages", objects::pages, max 16 * KIB, memory 16 * MIB, 0;
    PARQUET "parquet", objects::parquet, max 16 * KIB, memory 16 * MIB, 0;
    BLOB "blob", objects::blob, max 80 * KIB, memory 4 * KIB, 4;
    HASH_TREE "hash_tree", objects::hash_tree, max 4 * KIB, memory 4 * KIB, 2;
    // Records, entries, envelopes.
    MANIFEST "manifest", records::manifest, max 64 * KIB, memory 16 * KIB, 128;
    ACCESS "access", records::access, max 4 * KIB, memory 16 * KIB, 16;
    RECORD "record", records::record, max 64 * KIB, memory 16 * KIB, 128;
    ENTRY "entry", records::entry, max 64 * KIB, memory 16 * KIB, 128;
    BUNDLE "bundle", records::bundle, max 16 * KIB, memory 16 * KIB, 128;
    SEALED "sealed", records::sealed, max 16 * KIB, memory 16 * KIB, 16;
    KEY "key", records::key, max 2 * KIB, memory 4 * KIB, 16;
    // What peers send and people paste.
    SYNC "sync", peers::sync, max 16 * KIB, memory 4 * KIB, 256;
    PEER "peer", peers::peer, max 16 * KIB, memory 4 * KIB, 256;
    INVITE "invite", peers::invite, max 16 * KIB, memory 4 * KIB, 256;
    TICKET "ticket", peers::ticket, max 8 * KIB, memory 16 * KIB, 64;
    REPLICA "replica", peers::replica, max 16 * KIB, memory 16 * KIB, 64;
    HINT "hint", peers::hint, max 2 * KIB, memory 16 * KIB, 64;
    MLS "mls", peers::mls, max 4 * KIB, memory 16 * KIB, 512;
    // Recovery.
    RING "ring", recovery::ring, max 8 * KIB, memory 256 * KIB, 512;
    ROOT "root", recovery::root, max 8 * KIB, memory 16 * KIB, 16;
    KIT_PAGE "kit_page", recovery::kit_page, max 8 * KIB, memory 16 * KIB, 64;
    CHECKPOINT "checkpoint", recovery::checkpoint, max 16 * KIB, memory 4 * KIB, 512;
    // People's files.
    CSV "csv", inputs::csv, max 4 * KIB, memory 4 * MIB, 4 * KIB;
    NDJSON "ndjson", inputs::ndjson, max 4 * KIB, memory 4 * MIB, 4 * KIB;
}
