//! Decrypted column chunks at their encrypted addresses.
//!
//! A chunk's pages are decrypted and closed up in place. What is left over, 64 bytes a page, becomes one empty page of a
//! kind readers skip, so that the chunk keeps its length and Parquet metadata needs no change:
//!
//! ```text
//! encrypted  [frame|header|frame|body][frame|header|frame|body]
//! plain      [header|body][header|body][ filler ..............]
//! ```

use std::ops::Range;

use arrow::error::ArrowError;
use bytes::{Buf as _, Bytes, BytesMut, buf::Reader as BytesReader};
use parquet::{
    errors::ParquetError,
    file::reader::{ChunkReader, Length},
};
use ring::aead::LessSafeKey;

use super::{
    Contained, Footer,
    module::{self, ModuleError},
    page::{self, PageHeaderError, PageInfo, PageKind},
};
use crate::{id::StorageId, thrift::ThriftError, verified::VerifiedBytes};

/// Longest page after decompression; what DuckDB and our writer make stays far below.
const MAX_PAGE_LEN: u32 = 1 << 30;

/// Why verified bytes did not become rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes are of another object, or not of the place they should come from.
    #[error("bytes {start}..{end} of object {} were needed and others were given", .id.fmt_short())]
    WrongBytes {
        /// The object.
        id: StorageId,
        /// Start of the range that was needed.
        start: u64,
        /// End of the range that was needed.
        end: u64,
    },
    /// A row group or column does not exist.
    #[error("row group {row_group} or column {column} does not exist in the object")]
    NoSuchChunk {
        /// Row group asked for.
        row_group: usize,
        /// Leaf column asked for.
        column: usize,
    },
    /// Rows were asked for without any column; rows come from pages only (SOP-98).
    #[error("a read must name at least one column of the object")]
    NoColumns,
    /// A page's tag does not fit the key, although the bytes fit their id (SOP-91).
    #[error("column chunk {column} of row group {row_group} does not open with the object's key")]
    KeyMismatch {
        /// Row group.
        row_group: usize,
        /// Leaf column.
        column: usize,
    },
    /// A module's length leads out of its column chunk (SOP-374).
    #[error("a module of column chunk {column} of row group {row_group} has a wrong length")]
    ModuleLength {
        /// Row group.
        row_group: usize,
        /// Leaf column.
        column: usize,
    },
    /// Version 2 pages are no part of the profile: not every conforming reader opens them (SOP-23).
    #[error("column chunk {column} of row group {row_group} has version 2 pages, which SOP-PME-1 does not allow")]
    PageVersion {
        /// Row group.
        row_group: usize,
        /// Leaf column.
        column: usize,
    },
    /// A page header does not parse or contradicts its page.
    #[error("a page of column chunk {column} of row group {row_group} is malformed: {reason}")]
    Page {
        /// Row group.
        row_group: usize,
        /// Leaf column.
        column: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A page header does not parse.
    #[error("a page header of column chunk {column} of row group {row_group} does not parse")]
    PageHeader {
        /// Row group.
        row_group: usize,
        /// Leaf column.
        column: usize,
        /// What is wrong with it.
        #[source]
        source: ThriftError,
    },
    /// Pages hold another number of rows than the footer says (SOP-103).
    #[error("the object holds {found} rows where its footer says {claimed}")]
    RowCount {
        /// Rows the footer claims.
        claimed: u64,
        /// Rows that came out.
        found: u64,
    },
    /// The Parquet library refuses the pages.
    #[error("the object's pages do not decode")]
    Parquet(#[source] ParquetError),
    /// Decoding of the pages stopped.
    #[error("the object's pages do not decode")]
    Rows(#[source] ArrowError),
    /// The Parquet library failed over the pages.
    #[error("the object's pages make the Parquet library fail")]
    Unreadable,
}

impl From<Contained> for DecodeError {
    fn from(_: Contained) -> Self {
        Self::Unreadable
    }
}

/// Where a column chunk belongs, for checks and errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkPlace {
    pub(super) row_group: usize,
    pub(super) column: usize,
}

impl Footer {
    /// Decrypts one whole column chunk. The result has the chunk's own length and stands for its range when pages are
    /// read with [`metadata`](Self::metadata).
    pub fn view(&self, chunk: VerifiedBytes) -> Result<Bytes, DecodeError> {
        let place = self.place(&chunk.range())?;
        self.open_rows(&self.key.cipher(), place, chunk)
    }

    /// The pages of one whole column chunk, for audits. Every tag in it is checked.
    pub fn pages(&self, chunk: VerifiedBytes) -> Result<Vec<PageInfo>, DecodeError> {
        let place = self.place(&chunk.range())?;
        Ok(self.open_chunk(&self.key.cipher(), place, chunk)?.1)
    }

    fn place(&self, range: &Range<u64>) -> Result<ChunkPlace, DecodeError> {
        let from = self
            .by_start
            .partition_point(|&index| self.chunks[index].start < range.start);
        let here = self.by_start[from..]
            .iter()
            .take_while(|&&index| self.chunks[index].start == range.start);
        let index = here.copied().find(|&index| self.chunks[index] == *range);
        let index = index.ok_or(DecodeError::WrongBytes {
            id: self.id,
            start: range.start,
            end: range.end,
        })?;
        let leaves = self.leaf_count().max(1);
        Ok(ChunkPlace {
            row_group: index / leaves,
            column: index % leaves,
        })
    }

    pub(super) fn chunk(&self, place: ChunkPlace) -> Result<&Range<u64>, DecodeError> {
        let ChunkPlace { row_group, column } = place;
        let leaves = self.leaf_count();
        let index = row_group
            .checked_mul(leaves)
            .and_then(|first| first.checked_add(column));
        let chunk = index
            .filter(|_| column < leaves)
            .and_then(|index| self.chunks.get(index));
        chunk.ok_or(DecodeError::NoSuchChunk { row_group, column })
    }

    /// Decrypts a chunk whose rows are wanted.
    pub(super) fn open_rows(
        &self,
        cipher: &LessSafeKey,
        place: ChunkPlace,
        bytes: VerifiedBytes,
    ) -> Result<Bytes, DecodeError> {
        let (bytes, pages) = self.open_chunk(cipher, place, bytes)?;
        if pages.iter().any(|page| page.kind == PageKind::DataV2) {
            let ChunkPlace { row_group, column } = place;
            return Err(DecodeError::PageVersion { row_group, column });
        }
        Ok(bytes)
    }

    fn open_chunk(
        &self,
        cipher: &LessSafeKey,
        place: ChunkPlace,
        bytes: VerifiedBytes,
    ) -> Result<(Bytes, Vec<PageInfo>), DecodeError> {
        let range = self.chunk(place)?;
        if bytes.storage_id() != self.id || bytes.range() != *range {
            return Err(DecodeError::WrongBytes {
                id: self.id,
                start: range.start,
                end: range.end,
            });
        }
        // Decrypts in place when nobody else holds the bytes.
        let mut buffer = bytes
            .into_bytes()
            .try_into_mut()
            .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        let pages = open_pages(cipher, place, &mut buffer)?;
        let counted = |page: &&PageInfo| page.kind != PageKind::Dictionary;
        let values: u64 = pages
            .iter()
            .filter(counted)
            .map(|page| u64::from(page.num_values))
            .sum();
        let claimed = self
            .metadata()
            .row_group(place.row_group)
            .column(place.column)
            .num_values() as u64;
        if values != claimed {
            let ChunkPlace { row_group, column } = place;
            return Err(DecodeError::Page {
                row_group,
                column,
                reason: "another count of values than the footer says",
            });
        }
        Ok((buffer.freeze(), pages))
    }
}

/// Decrypts all pages of a chunk in place and fills what is left over.
fn open_pages(cipher: &LessSafeKey, place: ChunkPlace, buffer: &mut [u8]) -> Result<Vec<PageInfo>, DecodeError> {
    let ChunkPlace { row_group, column } = place;
    let malformed = |reason| DecodeError::Page {
        row_group,
        column,
        reason,
    };
    let open = |buffer: &mut [u8], at, to| {
        module::open_within(cipher, buffer, at, to).map_err(|error| match error {
            ModuleError::Length => DecodeError::ModuleLength { row_group, column },
            ModuleError::Tag => DecodeError::KeyMismatch { row_group, column },
        })
    };
    let mut pages: Vec<PageInfo> = Vec::new();
    let (mut at, mut to) = (0, 0);
    while at < buffer.len() {
        let (header, header_end) = open(buffer, at, to)?;
        let parsed = page::parse(&buffer[header.clone()]).map_err(|error| match error {
            PageHeaderError::Thrift(source) => DecodeError::PageHeader {
                row_group,
                column,
                source,
            },
            PageHeaderError::Field => malformed("a header lacks a size"),
            PageHeaderError::Kind(_) => malformed("neither data nor dictionary"),
        })?;
        if parsed.len != header.len() {
            return Err(malformed("a header does not fill its module"));
        }
        if parsed.info.uncompressed_len > MAX_PAGE_LEN {
            return Err(malformed("too long when decompressed"));
        }
        if parsed.info.kind == PageKind::Dictionary && !pages.is_empty() {
            return Err(malformed("a dictionary that is not first"));
        }
        let (body, body_end) = open(buffer, header_end, header.end)?;
        if body.len() != parsed.info.compressed_len as usize {
            return Err(malformed("a header gives another size than its page has"));
        }
        pages.push(parsed.info);
        (at, to) = (body_end, body.end);
    }
    fill(&mut buffer[to..]);
    Ok(pages)
}

/// Fills `rest` with the header of one empty index page, which readers skip.
///
/// An unknown binary field makes up the length. `rest` is a multiple of 64, for which its length prefix always comes out.
fn fill(rest: &mut [u8]) {
    // type INDEX_PAGE, both sizes 0, then field 15 as binary
    const START: [u8; 7] = [0x15, 0x02, 0x15, 0x00, 0x15, 0x00, 0xc8];
    rest.fill(0);
    if rest.len() <= START.len() {
        return;
    }
    rest[..START.len()].copy_from_slice(&START);
    // After the start: the length prefix, the field, one byte that ends the struct.
    let room = rest.len() - START.len() - 1;
    let prefix_len = (1..=5)
        .find(|&len| crate::padme::varint_len((room - len) as u64) <= len as u64)
        .unwrap_or(5);
    let mut value = (room - prefix_len) as u64;
    for (index, byte) in rest[START.len()..].iter_mut().take(prefix_len).enumerate() {
        // A prefix may be longer than needed; all but its last byte say that another follows.
        *byte = (value & 0x7f) as u8 | if index + 1 < prefix_len { 0x80 } else { 0 };
        value >>= 7;
    }
}

/// Decrypted chunks, addressed as in the object.
pub(super) struct SparseView {
    size: u64,
    /// Start and bytes, sorted by start.
    chunks: Vec<(u64, Bytes)>,
}

impl SparseView {
    pub(super) fn new(size: u64, mut chunks: Vec<(u64, Bytes)>) -> Self {
        chunks.sort_unstable_by_key(|(start, _)| *start);
        Self { size, chunks }
    }

    fn bytes_from(&self, start: u64) -> Result<Bytes, ParquetError> {
        let index = self.chunks.partition_point(|(from, _)| *from <= start);
        let found = index.checked_sub(1).and_then(|index| self.chunks.get(index));
        found
            .and_then(|(from, bytes)| {
                let skip = usize::try_from(start - from).ok()?;
                (skip <= bytes.len()).then(|| bytes.slice(skip..))
            })
            .ok_or_else(|| ParquetError::EOF(format!("no fetched chunk holds byte {start}")))
    }
}

impl Length for SparseView {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for SparseView {
    type T = BytesReader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.bytes_from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let bytes = self.bytes_from(start)?;
        if bytes.len() < length {
            return Err(ParquetError::EOF(format!(
                "no fetched chunk holds {length} bytes from {start}"
            )));
        }
        Ok(bytes.slice(..length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thrift::Struct;

    #[test]
    fn fillers_are_one_struct_of_every_length() {
        for pages in (1..600).chain([32_768, 40_000]) {
            let mut rest = vec![0xaa; pages * 64];
            fill(&mut rest);
            let (header, len) = Struct::decode_prefix(&rest).unwrap();
            assert_eq!(len, rest.len());
            assert_eq!(
                (header.i32(1), header.i32(2), header.i32(3)),
                (Some(1), Some(0), Some(0))
            );
        }
    }
}
