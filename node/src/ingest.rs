//! Reading people's files into record batches, with bounded memory and without plaintext on disk (DESIGN §7).
//!
//! ```text
//! Source::open(spec) -> source.infer(&options) -> columns
//!                    -> source.batches(&columns, &options) -> batches of at most 8,192 rows
//! ```
//!
//! Types are inferred over the whole input, so text inputs are read twice; what can be read only once (standard input,
//! pipes) is spooled into a temporary file encrypted under a key that lives in this process only. With the columns of an
//! existing table nothing is inferred and a pipe is read straight through, as a feed with pauses if it has no end. Everything here blocks: run it off the runtime.

mod builder;
mod cell;
mod columnar;
mod conform;
mod csv;
mod encrypted;
mod error;
mod feed;
mod format;
pub(crate) mod glob;
mod infer;
mod input;
mod ipc;
mod json;
mod key_file;
mod parse;
mod pieces;
mod records;
mod rejects;
mod rows;
mod rules;
mod source;
mod spool;
mod target;
#[cfg(test)]
mod tests;
mod widen;

use std::{fmt, path::PathBuf, sync::Arc};

pub use self::{
    error::{IngestError, Misfit, Place},
    format::Format,
    key_file::ParquetKey,
    rejects::Skipped,
    rules::RowRules,
    source::{Batches, Input, Source, SourceSpec},
};
pub(crate) use self::{
    feed::{Feed, Stopper},
    parse::uuid as parse_uuid,
    spool::{Spool, SpoolError, SpoolReader},
};

/// Most rows of a batch.
pub const BATCH_ROWS: usize = 8192;

/// Longest row of a text input. A file without line ends, or with a quote that never closes, stops here.
pub(crate) const MAX_ROW_BYTES: u64 = 16 * 1024 * 1024;

/// How an input is to be read.
#[derive(Clone, Default)]
pub struct Options {
    /// Words besides the empty field that mean "no value", such as `NA`. They count where they stand unquoted, and quoted in
    /// columns that are not text.
    pub null_words: Vec<String>,
    /// Field separator of CSV; a comma, or a tab for `.tsv` files, when not given.
    pub delimiter: Option<u8>,
    /// Where rows go that cannot be read. Without it the first such row is an error.
    pub skip_bad_rows: Option<PathBuf>,
    /// Key of Parquet files that are encrypted.
    pub parquet_key: Option<Arc<ParquetKey>>,
    /// What the table asks of its rows beyond their types.
    pub rules: RowRules,
    /// Told about bytes read, now and then.
    pub progress: Option<ProgressFn>,
}

/// Called from the reading thread.
pub type ProgressFn = Arc<dyn Fn(Progress) + Send + Sync>;

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("null_words", &self.null_words)
            .field("delimiter", &self.delimiter)
            .field("skip_bad_rows", &self.skip_bad_rows)
            .finish_non_exhaustive()
    }
}

/// How far reading has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Progress {
    /// Which reading of the input this is.
    pub pass: Pass,
    /// Bytes read in this pass, as they lie on disk or came through the pipe.
    pub bytes: u64,
    /// Bytes of this pass in all, where known.
    pub total: Option<u64>,
}

/// The readings of an input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pass {
    /// Finding the types.
    Infer,
    /// Making the batches.
    Load,
}
