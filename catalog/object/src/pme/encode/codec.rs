//! How pages are compressed before they are encrypted (SOP-24).

use parquet::{
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
};

/// Compression of pages. Encrypted bytes never compress later, so [`None`](Self::None) is for values that are dense already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Codec {
    /// Zstandard at a level of 1 to 22.
    Zstd(i32),
    /// LZ4, raw blocks.
    Lz4,
    /// Snappy.
    Snappy,
    /// Pages as they are.
    None,
}

impl Codec {
    /// What the Parquet library calls it; a level that does not exist is its error.
    pub(super) fn compression(self) -> Result<Compression, ParquetError> {
        Ok(match self {
            Self::Zstd(level) => Compression::ZSTD(ZstdLevel::try_new(level)?),
            Self::Lz4 => Compression::LZ4_RAW,
            Self::Snappy => Compression::SNAPPY,
            Self::None => Compression::UNCOMPRESSED,
        })
    }
}
