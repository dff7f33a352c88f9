//! A single value outside Arrow: constants of queries, decoded identities, bounds shown to people.

use super::{DAY_US, KeyError, tag};
use crate::types::ColumnType;

/// One value of a column, null included.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value; never in identities and bounds.
    Null,
    /// `bool`.
    Bool(bool),
    /// `int8` to `int64`.
    Int(i64),
    /// `uint8` to `uint64`.
    UInt(u64),
    /// Unscaled value of a `decimal`; the column fixes the scale.
    Decimal(i128),
    /// Days since 1970.
    Date(i32),
    /// Microseconds since 1970, in UTC or without a zone as the column says.
    Timestamp(i64),
    /// Microseconds since midnight.
    Time(i64),
    /// `text`.
    Text(String),
    /// `bytes`.
    Bytes(Vec<u8>),
    /// `uuid`.
    Uuid([u8; 16]),
    /// `float32`, widened, or `float64`.
    Float(f64),
    /// Items in order; for digests only.
    List(Vec<Self>),
    /// Values of the children by field id; for digests only.
    Struct(Vec<Self>),
}

impl Value {
    /// Appends the canonical bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(tag::NULL),
            Self::Bool(value) => put_bool(out, *value),
            Self::Int(value) => put_signed(out, tag::INT, *value),
            Self::UInt(value) => put_unsigned(out, *value),
            Self::Decimal(value) => put_decimal(out, *value),
            Self::Date(value) => put_date(out, *value),
            Self::Timestamp(value) => put_signed(out, tag::TIMESTAMP, *value),
            Self::Time(value) => put_signed(out, tag::TIME, *value),
            Self::Text(value) => put_escaped(out, tag::TEXT, value.as_bytes()),
            Self::Bytes(value) => put_escaped(out, tag::BYTES, value),
            Self::Uuid(value) => put_uuid(out, value),
            Self::Float(value) => put_float(out, *value),
            Self::List(items) => {
                put_list(out, items.len());
                items.iter().for_each(|item| item.encode(out));
            }
            Self::Struct(items) => {
                out.push(tag::STRUCT);
                items.iter().for_each(|item| item.encode(out));
            }
        }
    }

    /// The canonical bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Takes one value of type `ty` off the front of `bytes`. Nested types and null are not decoded.
    pub(super) fn decode(ty: ColumnType, bytes: &mut &[u8]) -> Result<Self, KeyError> {
        let (&found, rest) = bytes.split_first().ok_or(KeyError::Truncated)?;
        let expected = tag_of(ty).ok_or(KeyError::Type(ty))?;
        if found != expected {
            return Err(KeyError::Tag { found, ty });
        }
        *bytes = rest;
        let value = match found {
            tag::BOOL => match take::<1>(bytes)? {
                [0] => Self::Bool(false),
                [1] => Self::Bool(true),
                _ => return Err(KeyError::Range(ty)),
            },
            tag::INT => Self::Int(take_signed(bytes)?),
            tag::UINT => Self::UInt(u64::from_be_bytes(take(bytes)?)),
            tag::DECIMAL => Self::Decimal((u128::from_be_bytes(take(bytes)?) ^ (1 << 127)) as i128),
            tag::DATE => Self::Date((u32::from_be_bytes(take(bytes)?) ^ (1 << 31)) as i32),
            tag::TIMESTAMP => Self::Timestamp(take_signed(bytes)?),
            tag::TIME => Self::Time(take_signed(bytes)?),
            tag::TEXT => Self::Text(String::from_utf8(take_escaped(bytes)?).map_err(|_| KeyError::Utf8)?),
            tag::BYTES => Self::Bytes(take_escaped(bytes)?),
            tag::UUID => Self::Uuid(take(bytes)?),
            _ => Self::Float(float_of_bits(u64::from_be_bytes(take(bytes)?))),
        };
        if value.is_within(ty) {
            Ok(value)
        } else {
            Err(KeyError::Range(ty))
        }
    }

    /// The float in canonical bytes of exactly one float.
    pub(crate) fn decode_float(bytes: &[u8]) -> Option<f64> {
        let (&found, rest) = bytes.split_first()?;
        let bits = <[u8; 8]>::try_from(rest).ok()?;
        (found == tag::FLOAT).then(|| float_of_bits(u64::from_be_bytes(bits)))
    }

    /// The value of a text or bytes column; `None` for every other type.
    pub(crate) fn decode_text_or_bytes(ty: ColumnType, mut bytes: &[u8]) -> Option<Self> {
        let variable = matches!(ty, ColumnType::Text | ColumnType::Bytes);
        variable.then(|| Self::decode(ty, &mut bytes).ok()).flatten()
    }

    /// Whether a column of type `ty` can hold this value.
    pub fn is_within(&self, ty: ColumnType) -> bool {
        use ColumnType as T;
        match (self, ty) {
            (Self::Int(v), T::Int8) => i8::try_from(*v).is_ok(),
            (Self::Int(v), T::Int16) => i16::try_from(*v).is_ok(),
            (Self::Int(v), T::Int32) => i32::try_from(*v).is_ok(),
            (Self::UInt(v), T::UInt8) => u8::try_from(*v).is_ok(),
            (Self::UInt(v), T::UInt16) => u16::try_from(*v).is_ok(),
            (Self::UInt(v), T::UInt32) => u32::try_from(*v).is_ok(),
            (Self::Decimal(v), T::Decimal { precision, .. }) => v.unsigned_abs() < 10_u128.pow(u32::from(precision)),
            (Self::Time(v), T::TimeUs) => (0..DAY_US).contains(v),
            (Self::Float(v), T::Float32) => v.is_nan() || f64::from(*v as f32) == *v,
            (Self::Timestamp(_), T::TimestampUs | T::TimestampUsLocal)
            | (Self::Bool(_), T::Bool)
            | (Self::Int(_), T::Int64)
            | (Self::UInt(_), T::UInt64)
            | (Self::Date(_), T::Date)
            | (Self::Text(_), T::Text)
            | (Self::Bytes(_), T::Bytes)
            | (Self::Uuid(_), T::Uuid)
            | (Self::Float(_), T::Float64) => true,
            _ => false,
        }
    }
}

/// The tag under which values of a type stand; `None` for nested ones.
pub(crate) const fn tag_of(ty: ColumnType) -> Option<u8> {
    use ColumnType as T;
    Some(match ty {
        T::Bool => tag::BOOL,
        T::Int8 | T::Int16 | T::Int32 | T::Int64 => tag::INT,
        T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => tag::UINT,
        T::Decimal { .. } => tag::DECIMAL,
        T::Date => tag::DATE,
        T::TimestampUs | T::TimestampUsLocal => tag::TIMESTAMP,
        T::TimeUs => tag::TIME,
        T::Text => tag::TEXT,
        T::Bytes => tag::BYTES,
        T::Uuid => tag::UUID,
        T::Float32 | T::Float64 => tag::FLOAT,
        T::List | T::Struct | T::Map => return None,
    })
}

pub(super) fn put_bool(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(&[tag::BOOL, u8::from(value)]);
}

pub(super) fn put_signed(out: &mut Vec<u8>, tag: u8, value: i64) {
    put_eight(out, tag, (value as u64) ^ (1 << 63));
}

pub(super) fn put_unsigned(out: &mut Vec<u8>, value: u64) {
    put_eight(out, tag::UINT, value);
}

/// One append, not two: rows are many, and an append looks at the room there is.
fn put_eight(out: &mut Vec<u8>, tag: u8, value: u64) {
    let mut bytes = [tag; 9];
    bytes[1..].copy_from_slice(&value.to_be_bytes());
    out.extend_from_slice(&bytes);
}

pub(super) fn put_decimal(out: &mut Vec<u8>, value: i128) {
    out.push(tag::DECIMAL);
    out.extend_from_slice(&((value as u128) ^ (1 << 127)).to_be_bytes());
}

pub(super) fn put_date(out: &mut Vec<u8>, value: i32) {
    out.push(tag::DATE);
    out.extend_from_slice(&((value as u32) ^ (1 << 31)).to_be_bytes());
}

pub(super) fn put_uuid(out: &mut Vec<u8>, value: &[u8; 16]) {
    out.push(tag::UUID);
    out.extend_from_slice(value);
}

pub(super) fn put_float(out: &mut Vec<u8>, value: f64) {
    let bits = value.to_bits();
    // Negative numbers sort backwards by their bits, positive ones forwards above them.
    let sortable = if bits >> 63 == 1 { !bits } else { bits | (1 << 63) };
    put_eight(out, tag::FLOAT, sortable);
}

fn float_of_bits(sortable: u64) -> f64 {
    f64::from_bits(if sortable >> 63 == 1 {
        sortable & !(1 << 63)
    } else {
        !sortable
    })
}

pub(super) fn put_list(out: &mut Vec<u8>, len: usize) {
    out.push(tag::LIST);
    // Arrow's list offsets are 32 bits wide, so a list's length always fits.
    out.extend_from_slice(&(len as u32).to_be_bytes());
}

pub(super) fn put_escaped(out: &mut Vec<u8>, tag: u8, value: &[u8]) {
    out.push(tag);
    let mut parts = value.split(|byte| *byte == 0);
    out.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        out.extend_from_slice(&[0, 0xff]);
        out.extend_from_slice(part);
    }
    out.push(0);
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], KeyError> {
    let (head, rest) = bytes.split_first_chunk::<N>().ok_or(KeyError::Truncated)?;
    *bytes = rest;
    Ok(*head)
}

fn take_signed(bytes: &mut &[u8]) -> Result<i64, KeyError> {
    Ok((u64::from_be_bytes(take(bytes)?) ^ (1 << 63)) as i64)
}

/// Reads up to the end mark. What follows the mark is the next value's tag, which is never FF, so a mark is never mistaken
/// for an escape.
fn take_escaped(bytes: &mut &[u8]) -> Result<Vec<u8>, KeyError> {
    let mut value = Vec::new();
    loop {
        let (&byte, rest) = bytes.split_first().ok_or(KeyError::Truncated)?;
        *bytes = rest;
        if byte != 0 {
            value.push(byte);
            continue;
        }
        match bytes.first() {
            Some(0xff) => {
                value.push(0);
                *bytes = &bytes[1..];
            }
            None => return Ok(value),
            Some(next) if is_tag(*next) => return Ok(value),
            Some(_) => return Err(KeyError::Escape),
        }
    }
}

const fn is_tag(byte: u8) -> bool {
    matches!(byte, tag::BOOL..=tag::TIME)
}
