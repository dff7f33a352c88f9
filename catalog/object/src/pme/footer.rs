//! The clear FileCryptoMetaData and the decrypted footer, made fit for the Parquet library (SOP §11.5, §11.8).
//!
//! The footer is copied field by field into a buffer of its own, without what a SOP reader ignores: pad entries, crypto
//! markers, bloom filters, page indexes. On the way every count, nesting and field type is checked, so that the library behind
//! it only sees sound structure ([`shapes`]).

use super::{
    encrypt::field,
    open::OpenError,
    pad::{HYPHEN, PAD_KEY},
    repack::SOURCES_KEY,
    shapes,
};
use crate::{
    id::KeyRef,
    padme::varint_len,
    thrift::{FieldHeader, Reader, ThriftError, Type, Writer, shape::Fields},
};

/// Nesting of the schema, lists' and maps' own groups included.
const MAX_SCHEMA_DEPTH: usize = 64;

/// The plain structure in front of the footer module.
#[derive(Clone, Debug, Default)]
pub(super) struct CryptoMetadata {
    /// Length of key_metadata, when there is one.
    pub(super) key_metadata_len: Option<usize>,
    /// key_metadata, when it has the right length. Never used to find a key (SOP-39).
    pub(super) key_ref: Option<KeyRef>,
}

/// Parses FileCryptoMetaData at the start of `bytes`; returns the length it took.
pub(super) fn crypto_metadata(bytes: &[u8]) -> Result<(CryptoMetadata, usize), OpenError> {
    let mut reader = Reader::new(bytes);
    let mut found = CryptoMetadata::default();
    let mut algorithm = false;
    let mut last = 0;
    while let Some(header) = reader.field(&mut last).map_err(OpenError::CryptoMetadata)? {
        match header.id {
            1 => {
                check_algorithm(&mut reader, header)?;
                algorithm = true;
            }
            2 => {
                let bytes = reader.binary(header).map_err(OpenError::CryptoMetadata)?;
                found.key_metadata_len = Some(bytes.len());
                found.key_ref = KeyRef::from_slice(bytes);
            }
            _ => reader.skip(header).map_err(OpenError::CryptoMetadata)?,
        }
    }
    if !algorithm {
        return Err(OpenError::UnsupportedAlgorithm);
    }
    Ok((found, reader.position()))
}

/// AES_GCM_V1 without any AAD field, nothing else (SOP-20, SOP-28).
fn check_algorithm(reader: &mut Reader<'_>, header: FieldHeader) -> Result<(), OpenError> {
    structure(header).map_err(OpenError::CryptoMetadata)?;
    let mut supported = false;
    let mut last = 0;
    while let Some(variant) = reader.field(&mut last).map_err(OpenError::CryptoMetadata)? {
        if variant.id != 1 {
            return Err(OpenError::UnsupportedAlgorithm);
        }
        supported = true;
        structure(variant).map_err(OpenError::CryptoMetadata)?;
        let mut last = 0;
        while let Some(detail) = reader.field(&mut last).map_err(OpenError::CryptoMetadata)? {
            // 1 prefix, 2 file-unique value, 3 "the reader must supply a prefix".
            if matches!(detail.id, 1 | 2) || (detail.id == 3 && detail.kind == Type::True) {
                return Err(OpenError::ForeignAad);
            }
            reader.skip(detail).map_err(OpenError::CryptoMetadata)?;
        }
    }
    if supported {
        Ok(())
    } else {
        Err(OpenError::UnsupportedAlgorithm)
    }
}

/// A pad entry as found.
#[derive(Clone, Debug)]
pub(super) struct PadEntry {
    /// The key is the reserved one and hyphens.
    pub(super) key_is_proper: bool,
    /// The value is all zeros.
    pub(super) value_is_zero: bool,
    /// Bytes it adds to an object beyond an empty entry.
    pub(super) growth: u64,
}

/// What was seen while copying, for checks and audits.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) pads: Vec<PadEntry>,
    /// What the object says of the objects its rows come from, as found.
    pub(super) sources: Vec<Vec<u8>>,
    /// Field ids of all schema nodes, in schema order.
    pub(super) field_ids: Vec<i32>,
    /// Schema nodes that should have an id and have none.
    pub(super) missing_field_ids: usize,
    pub(super) chunks: u64,
    pub(super) marked_chunks: u64,
    pub(super) has_bloom: bool,
    pub(super) has_page_index: bool,
    pub(super) key_value_keys: Vec<String>,
}

/// Copies a decrypted footer without what readers ignore.
pub(super) fn strip(plain: &[u8]) -> Result<(Vec<u8>, Facts), OpenError> {
    let mut copy = Copy {
        reader: Reader::new(plain),
        writer: Writer::default(),
        facts: Facts::default(),
    };
    copy.file()?;
    if copy.reader.position() != plain.len() {
        return Err(OpenError::Footer(ThriftError::TooLong(
            (plain.len() - copy.reader.position()) as u64,
        )));
    }
    Ok((copy.writer.out, copy.facts))
}

struct Copy<'a> {
    reader: Reader<'a>,
    writer: Writer,
    facts: Facts,
}

impl Copy<'_> {
    fn file(&mut self) -> Result<(), OpenError> {
        let (mut last_in, mut last_out) = (0, 0);
        while let Some(header) = self.reader.field(&mut last_in)? {
            match header.id {
                field::FILE_SCHEMA => {
                    self.writer.field(header, &mut last_out);
                    let start = self.reader.position();
                    self.schema(header)?;
                    self.writer.out.extend_from_slice(self.reader.since(start));
                }
                field::FILE_ROW_GROUPS => {
                    self.writer.field(header, &mut last_out);
                    let count = self.reader.struct_list(header)?;
                    self.writer.list(Type::Struct, count);
                    (0..count).try_for_each(|_| self.row_group())?;
                }
                field::FILE_KEY_VALUES => self.key_values(header, &mut last_out)?,
                field::FILE_ALGORITHM | field::FILE_SIGNING_KEY => self.reader.skip(header)?,
                _ => self.copy(header, shapes::FILE, &mut last_out)?,
            }
        }
        self.writer.stop();
        Ok(())
    }

    fn copy(&mut self, header: FieldHeader, known: &Fields, last_out: &mut i16) -> Result<(), OpenError> {
        self.writer.field(header, last_out);
        let start = self.reader.position();
        self.reader.skip_as(header, known)?;
        self.writer.out.extend_from_slice(self.reader.since(start));
        Ok(())
    }

    /// Walks the flattened schema tree: the library builds it by recursion, so its depth is bounded here.
    fn schema(&mut self, header: FieldHeader) -> Result<(), OpenError> {
        const REPEATED: i32 = 2;
        let count = self.reader.struct_list(header)?;
        // Children still to come at each level; the file's root is one node.
        let mut open = vec![1u32];
        for index in 0..count {
            while open.last() == Some(&0) {
                open.pop();
            }
            let level = open
                .last_mut()
                .ok_or(OpenError::Schema("more nodes than its tree has"))?;
            *level -= 1;

            let (mut children, mut repetition, mut id) = (0, None, None);
            let mut last = 0;
            while let Some(node) = self.reader.field(&mut last)? {
                match node.id {
                    3 => repetition = Some(self.reader.i32(node)?),
                    5 => children = self.reader.i32(node)?,
                    9 => id = Some(self.reader.i32(node)?),
                    _ => self.reader.skip_as(node, shapes::SCHEMA_ELEMENT)?,
                }
            }
            match id {
                Some(id) => self.facts.field_ids.push(id),
                None if index > 0 && repetition != Some(REPEATED) => self.facts.missing_field_ids += 1,
                None => {}
            }
            let children = u32::try_from(children).map_err(|_| OpenError::Schema("a negative count of children"))?;
            if children > 0 {
                open.push(children);
            }
            if open.len() > MAX_SCHEMA_DEPTH {
                return Err(OpenError::Schema("nested too deeply"));
            }
        }
        if open.iter().any(|&left| left > 0) {
            return Err(OpenError::Schema("fewer nodes than its tree has"));
        }
        let mut ids = self.facts.field_ids.clone();
        ids.sort_unstable();
        match ids.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(OpenError::DuplicateFieldId(pair[0])),
            None => Ok(()),
        }
    }

    fn row_group(&mut self) -> Result<(), OpenError> {
        let (mut last_in, mut last_out) = (0, 0);
        while let Some(header) = self.reader.field(&mut last_in)? {
            if header.id == field::GROUP_COLUMNS {
                self.writer.field(header, &mut last_out);
                let count = self.reader.struct_list(header)?;
                self.writer.list(Type::Struct, count);
                (0..count).try_for_each(|_| self.column_chunk())?;
            } else {
                self.copy(header, shapes::ROW_GROUP, &mut last_out)?;
            }
        }
        self.writer.stop();
        Ok(())
    }

    fn column_chunk(&mut self) -> Result<(), OpenError> {
        self.facts.chunks += 1;
        let (mut last_in, mut last_out) = (0, 0);
        while let Some(header) = self.reader.field(&mut last_in)? {
            match header.id {
                field::CHUNK_FILE_PATH => return Err(OpenError::ExternalColumn),
                field::CHUNK_METADATA => {
                    structure(header)?;
                    self.writer.field(header, &mut last_out);
                    self.column_metadata()?;
                }
                field::CHUNK_CRYPTO => {
                    self.crypto_marker(header)?;
                    self.facts.marked_chunks += 1;
                }
                field::CHUNK_SEALED_METADATA => return Err(OpenError::ColumnKey),
                id if field::CHUNK_INDEXES.contains(&id) => {
                    self.facts.has_page_index = true;
                    self.reader.skip(header)?;
                }
                _ => self.copy(header, shapes::COLUMN_CHUNK, &mut last_out)?,
            }
        }
        self.writer.stop();
        Ok(())
    }

    fn column_metadata(&mut self) -> Result<(), OpenError> {
        let (mut last_in, mut last_out) = (0, 0);
        while let Some(header) = self.reader.field(&mut last_in)? {
            match header.id {
                id if field::COLUMN_BLOOM.contains(&id) => {
                    self.facts.has_bloom = true;
                    self.reader.skip(header)?;
                }
                // Nothing reads them, and parsing them takes as long as the rest.
                field::COLUMN_ENCODING_STATS | field::COLUMN_SIZE_STATS | field::COLUMN_GEO_STATS => {
                    self.reader.skip(header)?;
                }
                // Some writers put 0 where they have no dictionary.
                field::COLUMN_DICTIONARY_OFFSET => {
                    let offset = self.reader.i64(header)?;
                    if offset > 0 {
                        self.writer.field(header, &mut last_out);
                        self.writer.zigzag(offset);
                    }
                }
                _ => self.copy(header, shapes::COLUMN_METADATA, &mut last_out)?,
            }
        }
        self.writer.stop();
        Ok(())
    }

    /// `ColumnCryptoMetaData`: only "under the footer's key" is known to SOP-PME-1 (SOP-10).
    fn crypto_marker(&mut self, header: FieldHeader) -> Result<(), OpenError> {
        structure(header)?;
        let mut last = 0;
        while let Some(variant) = self.reader.field(&mut last)? {
            if variant.id != 1 {
                return Err(OpenError::ColumnKey);
            }
            self.reader.skip(variant)?;
        }
        Ok(())
    }

    /// Copies all entries but those that are this object's alone: padding (SOP-72, SOP-73) and sources.
    fn key_values(&mut self, header: FieldHeader, last_out: &mut i16) -> Result<(), OpenError> {
        let count = self.reader.struct_list(header)?;
        let mut kept = Vec::new();
        for _ in 0..count {
            let start = self.reader.position();
            let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
            let mut last = 0;
            while let Some(part) = self.reader.field(&mut last)? {
                match part.id {
                    1 => key = self.reader.binary(part)?,
                    2 => value = self.reader.binary(part)?,
                    _ => self.reader.skip(part)?,
                }
            }
            match key.strip_prefix(PAD_KEY.as_bytes()) {
                Some(rest) => self.facts.pads.push(pad_entry(rest, key.len() as u64, value)),
                None if key == SOURCES_KEY.as_bytes() => self.facts.sources.push(value.to_vec()),
                None => {
                    self.facts
                        .key_value_keys
                        .push(String::from_utf8_lossy(key).into_owned());
                    kept.push(self.reader.since(start));
                }
            }
        }
        if !kept.is_empty() {
            self.writer.field(header, last_out);
            self.writer.list(Type::Struct, kept.len());
            kept.into_iter()
                .for_each(|entry| self.writer.out.extend_from_slice(entry));
        }
        Ok(())
    }
}

fn pad_entry(key_rest: &[u8], key_len: u64, value: &[u8]) -> PadEntry {
    let value_len = value.len() as u64;
    PadEntry {
        key_is_proper: key_rest.iter().all(|&byte| byte == HYPHEN),
        value_is_zero: value.iter().all(|&byte| byte == 0),
        growth: key_rest.len() as u64 + varint_len(key_len) - 1 + value_len + varint_len(value_len) - 1,
    }
}

fn structure(header: FieldHeader) -> Result<(), ThriftError> {
    if header.kind == Type::Struct {
        Ok(())
    } else {
        Err(ThriftError::WrongType(header.id))
    }
}
