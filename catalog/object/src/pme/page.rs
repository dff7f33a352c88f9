//! Page headers, as far as both writer and reader look into them.

use super::shapes;
use crate::thrift::{FieldHeader, Reader, ThriftError, Type, shape::Fields};

/// What a page holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PageKind {
    /// Values, version 1.
    Data,
    /// Values, version 2; never written, and refused where rows are wanted (SOP-23).
    DataV2,
    /// The dictionary of a column chunk.
    Dictionary,
}

/// A page as it stands in a column chunk, for audits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PageInfo {
    /// What the page holds.
    pub kind: PageKind,
    /// Values, nulls included; entries in case of a dictionary.
    pub num_values: u32,
    /// Length of the compressed page before encryption.
    pub compressed_len: u32,
    /// Length after decompression.
    pub uncompressed_len: u32,
}

/// A parsed page header.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageHeader {
    pub(super) info: PageInfo,
    /// Bytes of the header.
    pub(super) len: usize,
    /// A checksum stands in the header; it covers bytes that encryption replaces.
    pub(super) has_crc: bool,
}

/// Why bytes are not a page header we accept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum PageHeaderError {
    Thrift(ThriftError),
    /// A required field is missing or negative.
    Field,
    /// Neither data nor dictionary.
    Kind(i32),
}

impl From<ThriftError> for PageHeaderError {
    fn from(error: ThriftError) -> Self {
        Self::Thrift(error)
    }
}

/// Parses the header at the start of `input`.
pub(super) fn parse(input: &[u8]) -> Result<PageHeader, PageHeaderError> {
    let mut reader = Reader::new(input);
    let (mut kind, mut uncompressed, mut compressed, mut has_crc) = (None, None, None, false);
    // Value counts by the field of the header that holds them: 5 data, 7 dictionary, 8 data version 2.
    let mut counts = [None; 3];
    let mut last = 0;
    while let Some(header) = reader.field(&mut last)? {
        match header.id {
            1 => kind = Some(reader.i32(header)?),
            2 => uncompressed = Some(reader.i32(header)?),
            3 => compressed = Some(reader.i32(header)?),
            4 => {
                has_crc = true;
                reader.i32(header)?;
            }
            5 => counts[0] = first_i32(&mut reader, header, shapes::DATA_PAGE)?,
            7 => counts[1] = first_i32(&mut reader, header, shapes::DICTIONARY_PAGE)?,
            8 => counts[2] = first_i32(&mut reader, header, shapes::DATA_PAGE_V2)?,
            _ => reader.skip_as(header, shapes::PAGE_HEADER)?,
        }
    }
    let (kind, count) = match kind.ok_or(PageHeaderError::Field)? {
        0 => (PageKind::Data, counts[0]),
        2 => (PageKind::Dictionary, counts[1]),
        3 => (PageKind::DataV2, counts[2]),
        other => return Err(PageHeaderError::Kind(other)),
    };
    let size =
        |value: Option<i32>| u32::try_from(value.ok_or(PageHeaderError::Field)?).map_err(|_| PageHeaderError::Field);
    let info = PageInfo {
        kind,
        num_values: size(count)?,
        compressed_len: size(compressed)?,
        uncompressed_len: size(uncompressed)?,
    };
    Ok(PageHeader {
        info,
        len: reader.position(),
        has_crc,
    })
}

/// Field 1 of the struct that is the field just read; all three page header kinds keep their value count there.
fn first_i32(reader: &mut Reader<'_>, header: FieldHeader, known: &Fields) -> Result<Option<i32>, PageHeaderError> {
    if header.kind != Type::Struct {
        return Err(ThriftError::WrongType(header.id).into());
    }
    let mut found = None;
    let mut last = 0;
    while let Some(inner) = reader.field(&mut last)? {
        match inner.id {
            1 => found = Some(reader.i32(inner)?),
            _ => reader.skip_as(inner, known)?,
        }
    }
    Ok(found)
}
