//! Step 2: seal every page under the object's key and point the footer at the sealed pages (SOP §11.12).
//!
//! One pass: each page is copied once, into its place in the output, and encrypted there.

use std::borrow::Cow;

use ring::aead::LessSafeKey;

use super::{
    MAGIC,
    encode::Encoded,
    module::{self, FRAME_LEN, FreshNonces, ModuleKey, NonceSource},
    page::{self, PageHeaderError, PageKind},
};
use crate::{
    secret::Dek,
    thrift::{Struct, ThriftError, Value},
};

/// Field ids of the Parquet footer structs that are changed here.
pub(super) mod field {
    pub(in crate::pme) const FILE_SCHEMA: i16 = 2;
    pub(in crate::pme) const FILE_ROW_GROUPS: i16 = 4;
    pub(in crate::pme) const FILE_KEY_VALUES: i16 = 5;
    pub(in crate::pme) const FILE_ALGORITHM: i16 = 8;
    pub(in crate::pme) const FILE_SIGNING_KEY: i16 = 9;
    pub(in crate::pme) const GROUP_COLUMNS: i16 = 1;
    pub(in crate::pme) const GROUP_BYTE_SIZE: i16 = 2;
    pub(in crate::pme) const GROUP_OFFSET: i16 = 5;
    pub(in crate::pme) const GROUP_COMPRESSED: i16 = 6;
    pub(in crate::pme) const GROUP_ORDINAL: i16 = 7;
    pub(in crate::pme) const CHUNK_FILE_PATH: i16 = 1;
    pub(in crate::pme) const CHUNK_OFFSET: i16 = 2;
    pub(in crate::pme) const CHUNK_METADATA: i16 = 3;
    /// Offset and length of offset index and column index.
    pub(in crate::pme) const CHUNK_INDEXES: [i16; 4] = [4, 5, 6, 7];
    pub(in crate::pme) const CHUNK_CRYPTO: i16 = 8;
    pub(in crate::pme) const CHUNK_SEALED_METADATA: i16 = 9;
    pub(in crate::pme) const COLUMN_UNCOMPRESSED: i16 = 6;
    pub(in crate::pme) const COLUMN_COMPRESSED: i16 = 7;
    pub(in crate::pme) const COLUMN_DATA_OFFSET: i16 = 9;
    pub(in crate::pme) const COLUMN_DICTIONARY_OFFSET: i16 = 11;
    pub(in crate::pme) const COLUMN_ENCODING_STATS: i16 = 13;
    /// Offset and length of a bloom filter.
    pub(in crate::pme) const COLUMN_BLOOM: [i16; 2] = [14, 15];
    pub(in crate::pme) const COLUMN_SIZE_STATS: i16 = 16;
    pub(in crate::pme) const COLUMN_GEO_STATS: i16 = 17;
    pub(in crate::pme) const PAGE_CRC: i16 = 4;
}

/// Why an encoded object could not be encrypted. There is no plain fallback (SOP-109).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncryptError {
    /// A column chunk has no data page or more than one (SOP-368).
    #[error("column chunk {column} of row group {row_group} has {pages} data pages; exactly one is allowed")]
    DataPages {
        /// Row group.
        row_group: usize,
        /// Leaf column.
        column: usize,
        /// Data pages found.
        pages: usize,
    },
    /// The encoded bytes are not what the Parquet writer should have made.
    #[error("the encoded Parquet bytes are inconsistent: {0}")]
    Malformed(&'static str),
    /// The encoded footer does not parse.
    #[error("the encoded Parquet footer does not parse")]
    Footer(#[from] ThriftError),
    /// The nonce source gave one nonce twice.
    #[error("the source of nonces repeated one; the object was not written")]
    NonceRepeated,
    /// More modules than one key may seal.
    #[error("the object would have too many encrypted modules for one key")]
    TooManyModules,
    /// A page is longer than a module can be.
    #[error("a page is too long for an encrypted module")]
    ModuleTooLong,
    /// The cipher refused.
    #[error("encryption failed; the object was not written")]
    Cipher,
}

/// Pages are sealed; the footer points at them and still waits for `key_ref` and padding.
#[derive(Debug)]
pub struct Encrypted {
    /// Magic and all page modules.
    pub(super) body: Vec<u8>,
    /// The final footer but for the pad entry.
    pub(super) footer: Struct<'static>,
    pub(super) footer_nonce: [u8; 12],
    pub(super) key: ModuleKey,
    pub(super) rows: u64,
}

impl Encoded {
    /// Seals every page under `dek`, which must be fresh: one key, one object (SOP-9).
    pub fn encrypt(self, dek: &Dek, nonces: &mut dyn NonceSource) -> Result<Encrypted, EncryptError> {
        let key = ModuleKey::new(dek);
        let footer = self.footer()?;
        let mut footer = Struct::decode(footer)?;
        let mut walk = Walk {
            input: &self.bytes,
            cipher: &key.cipher(),
            nonces: FreshNonces::new(nonces),
            body: Vec::with_capacity(self.bytes.len() + self.bytes.len() / 64 + 4096),
        };
        walk.body.extend_from_slice(&MAGIC);
        for (ordinal, group) in footer.structs_mut(field::FILE_ROW_GROUPS).enumerate() {
            walk.row_group(ordinal, group)?;
        }
        let Walk { mut nonces, body, .. } = walk;
        let footer_nonce = nonces.draw()?;
        Ok(Encrypted {
            body,
            footer: footer.into_owned(),
            footer_nonce,
            key,
            rows: self.rows,
        })
    }
}

impl Encrypted {
    /// The footer's bytes as they stand now. An object's footer is encoded exactly twice (SOP-67).
    pub(super) fn encode_footer(&self) -> Vec<u8> {
        #[cfg(test)]
        FOOTER_ENCODINGS.set(FOOTER_ENCODINGS.get() + 1);
        self.footer.encode()
    }
}

#[cfg(test)]
thread_local! {
    /// Footers encoded on this thread, for the test of SOP-67.
    pub(super) static FOOTER_ENCODINGS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

struct Walk<'a, 'n> {
    input: &'a [u8],
    cipher: &'a LessSafeKey,
    nonces: FreshNonces<'n>,
    body: Vec<u8>,
}

impl Walk<'_, '_> {
    fn row_group(&mut self, ordinal: usize, group: &mut Struct<'_>) -> Result<(), EncryptError> {
        let start = self.body.len() as i64;
        let mut uncompressed = 0;
        for (column, chunk) in group.structs_mut(field::GROUP_COLUMNS).enumerate() {
            uncompressed += self.column_chunk(ordinal, column, chunk)?;
        }
        let ordinal = i16::try_from(ordinal).map_err(|_| EncryptError::Malformed("too many row groups"))?;
        group.set(field::GROUP_BYTE_SIZE, Value::I64(uncompressed));
        group.set(field::GROUP_OFFSET, Value::I64(start));
        group.set(field::GROUP_COMPRESSED, Value::I64(self.body.len() as i64 - start));
        group.set(field::GROUP_ORDINAL, Value::I16(ordinal));
        Ok(())
    }

    /// Seals a chunk's pages and rewrites its places and totals. Returns its uncompressed total.
    fn column_chunk(&mut self, row_group: usize, column: usize, chunk: &mut Struct<'_>) -> Result<i64, EncryptError> {
        let metadata = chunk
            .struct_mut(field::CHUNK_METADATA)
            .ok_or(EncryptError::Malformed("column without metadata"))?;
        let data_offset = metadata.i64(field::COLUMN_DATA_OFFSET);
        let start = metadata.i64(field::COLUMN_DICTIONARY_OFFSET).or(data_offset);
        let len = metadata.i64(field::COLUMN_COMPRESSED);
        let mut pages =
            range(self.input, start, len).ok_or(EncryptError::Malformed("column chunk outside the file"))?;

        let sealed_from = self.body.len();
        let (mut data_at, mut dictionary_at) = (None, None);
        let mut data_pages = 0;
        let mut page_count = 0;
        while !pages.is_empty() {
            let at = self.body.len() as i64;
            let header = page::parse(pages).map_err(|error| match error {
                PageHeaderError::Thrift(error) => EncryptError::Footer(error),
                PageHeaderError::Field | PageHeaderError::Kind(_) => EncryptError::Malformed("page header"),
            })?;
            let (header_bytes, rest) = pages.split_at(header.len);
            let body_len = header.info.compressed_len as usize;
            let page_body = rest
                .get(..body_len)
                .ok_or(EncryptError::Malformed("page outside its column chunk"))?;
            pages = &rest[body_len..];
            match header.info.kind {
                PageKind::Data => {
                    data_pages += 1;
                    data_at.get_or_insert(at);
                }
                PageKind::Dictionary if page_count == 0 => dictionary_at = Some(at),
                PageKind::Dictionary | PageKind::DataV2 => {
                    return Err(EncryptError::Malformed("a page of a kind that is never written"));
                }
            }
            page_count += 1;
            // A checksum covers the bytes as stored, which are other bytes now.
            let header_bytes = if header.has_crc {
                Cow::Owned(without_crc(header_bytes)?)
            } else {
                Cow::Borrowed(header_bytes)
            };
            for plain in [&header_bytes[..], page_body] {
                module::seal(self.cipher, self.nonces.draw()?, plain, &mut self.body)?;
            }
        }
        let data_at = data_at.filter(|_| data_pages == 1);
        let data_at = data_at.ok_or(EncryptError::DataPages {
            row_group,
            column,
            pages: data_pages,
        })?;

        // DuckDB's totals: the compressed one counts both modules of a page, the uncompressed one the header's only.
        let uncompressed = metadata.i64(field::COLUMN_UNCOMPRESSED).unwrap_or(0) + (page_count * FRAME_LEN) as i64;
        metadata.set(field::COLUMN_UNCOMPRESSED, Value::I64(uncompressed));
        metadata.set(
            field::COLUMN_COMPRESSED,
            Value::I64((self.body.len() - sealed_from) as i64),
        );
        metadata.set(field::COLUMN_DATA_OFFSET, Value::I64(data_at));
        match dictionary_at {
            Some(at) => metadata.set(field::COLUMN_DICTIONARY_OFFSET, Value::I64(at)),
            None => metadata.remove(&[field::COLUMN_DICTIONARY_OFFSET]),
        }
        metadata.remove(&field::COLUMN_BLOOM);
        chunk.remove(&field::CHUNK_INDEXES);
        chunk.set(field::CHUNK_OFFSET, Value::I64(0));
        chunk.set(field::CHUNK_CRYPTO, footer_key_marker());
        Ok(uncompressed)
    }
}

/// `ColumnCryptoMetaData`: this column is under the footer's key (SOP-10).
fn footer_key_marker() -> Value<'static> {
    let mut marker = Struct::default();
    marker.set(1, Value::Struct(Struct::default()));
    Value::Struct(marker)
}

fn range(bytes: &[u8], start: Option<i64>, len: Option<i64>) -> Option<&[u8]> {
    let start = usize::try_from(start?).ok()?;
    let end = start.checked_add(usize::try_from(len?).ok()?)?;
    bytes.get(start..end)
}

fn without_crc(header: &[u8]) -> Result<Vec<u8>, ThriftError> {
    let mut header = Struct::decode(header)?;
    header.remove(&[field::PAGE_CRC]);
    Ok(header.encode())
}
