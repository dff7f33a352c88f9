//! Canonical key encoding: bytes that sort like the values (SOP §2.10).
//!
//! One encoding serves three uses. Row identities use the tags 01 to 09 and are decoded again. Bounds of statistics use
//! the same plus float64 (0A), so that pruning compares bytes and needs no type logic. Row digests use everything, with
//! null (00), lists (20) and structs (21).
//!
//! ```text
//! 00 null            06 timestamp µs, 8 bytes         0A float64, sign-fixed bits
//! 01 bool, 1 byte    07 text, 00 becomes 00 FF, 00    0B time of day µs, 8 bytes
//! 02 signed, 8       08 bytes, likewise               20 list: count u32, items
//! 03 unsigned, 8     09 UUID, 16 bytes                21 struct: items by field id
//! 04 decimal, 16     05 date, 4 bytes
//! ```
//!
//! Signed numbers are big-endian with the sign bit flipped. Both timestamp types use 06 and all decimals 04, since zone
//! and scale are fixed by the column. A map is a list of structs of key and value, in stored order.

mod distinct;
mod encoder;
mod extremes;
mod value;

pub use self::{
    distinct::Identities,
    encoder::{ColumnEncoder, IdentityEncoder, RowEncoder},
    value::Value,
};

use crate::types::{ColumnType, ColumnsError};

/// Longest row identity (SOP §2.10).
pub const MAX_IDENTITY_BYTES: usize = 1024;

pub(crate) mod tag {
    pub(crate) const NULL: u8 = 0x00;
    pub(crate) const BOOL: u8 = 0x01;
    pub(crate) const INT: u8 = 0x02;
    pub(crate) const UINT: u8 = 0x03;
    pub(crate) const DECIMAL: u8 = 0x04;
    pub(crate) const DATE: u8 = 0x05;
    pub(crate) const TIMESTAMP: u8 = 0x06;
    pub(crate) const TEXT: u8 = 0x07;
    pub(crate) const BYTES: u8 = 0x08;
    pub(crate) const UUID: u8 = 0x09;
    pub(crate) const FLOAT: u8 = 0x0a;
    pub(crate) const TIME: u8 = 0x0b;
    pub(crate) const LIST: u8 = 0x20;
    pub(crate) const STRUCT: u8 = 0x21;
}

/// Microseconds of a day; a time of day is below.
pub(crate) const DAY_US: i64 = 86_400_000_000;

/// Why a value cannot be a key, or bytes are no key.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The type has no place in identities or bounds.
    #[error("a {0} cannot be part of a key")]
    Type(ColumnType),
    /// An identity has a value in every column.
    #[error("row {row}: the identity column {column:?} has no value")]
    Null {
        /// Row in its batch, from 0.
        row: usize,
        /// Name of the column.
        column: String,
    },
    /// The identity of a row exceeds [`MAX_IDENTITY_BYTES`].
    #[error("row {row}: the identity has {bytes} bytes, at most 1024 are allowed")]
    TooLong {
        /// Row in its batch, from 0.
        row: usize,
        /// Length of its identity.
        bytes: usize,
    },
    /// Two rows of one batch have one identity (SOP-238).
    #[error("row {row}: the same identity stands in row {first} already")]
    Duplicate {
        /// Row in its batch, from 0.
        row: usize,
        /// The row that had it first.
        first: usize,
    },
    /// The batch lacks the column.
    #[error("the batch has no column {0:?}")]
    MissingColumn(String),
    /// The array does not hold what the column says.
    #[error("column {column:?} should hold {ty}, its array is {found}")]
    ArrayType {
        /// Name of the column.
        column: String,
        /// Its type.
        ty: ColumnType,
        /// Arrow's name of the array's type.
        found: String,
    },
    /// The columns form no table.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// The bytes end inside a value.
    #[error("key ends early")]
    Truncated,
    /// Another type than the column has.
    #[error("key has tag {found:#04x} where a {ty} stands")]
    Tag {
        /// Tag found.
        found: u8,
        /// Type of the column.
        ty: ColumnType,
    },
    /// A zero byte followed by neither its escape nor the end.
    #[error("key has a bad escape")]
    Escape,
    /// Text is not UTF-8.
    #[error("key has text that is not UTF-8")]
    Utf8,
    /// A value its column type cannot hold.
    #[error("key has a value that no {0} can have")]
    Range(ColumnType),
    /// Bytes after the last value.
    #[error("key has {0} bytes after its last value")]
    Trailing(usize),
}

/// Decodes an identity: exactly one value for each type, nothing after (SOP §2.10).
pub fn decode_identity(types: &[ColumnType], bytes: &[u8]) -> Result<Vec<Value>, KeyError> {
    if bytes.len() > MAX_IDENTITY_BYTES {
        return Err(KeyError::TooLong {
            row: 0,
            bytes: bytes.len(),
        });
    }
    let mut rest = bytes;
    let mut values = Vec::with_capacity(types.len());
    for ty in types {
        if !ty.is_identity() {
            return Err(KeyError::Type(*ty));
        }
        values.push(Value::decode(*ty, &mut rest)?);
    }
    if rest.is_empty() {
        Ok(values)
    } else {
        Err(KeyError::Trailing(rest.len()))
    }
}

/// Decodes one bound of a column's statistics.
pub fn decode_bound(ty: ColumnType, bytes: &[u8]) -> Result<Value, KeyError> {
    if !ty.is_prunable() {
        return Err(KeyError::Type(ty));
    }
    let mut rest = bytes;
    let value = Value::decode(ty, &mut rest)?;
    if !rest.is_empty() {
        return Err(KeyError::Trailing(rest.len()));
    }
    // Bounds never stand at NaN or at the negative zero, which compare unlike their bits.
    match value {
        Value::Float(float) if float.is_nan() || (float == 0.0 && float.is_sign_negative()) => Err(KeyError::Range(ty)),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(values: &[Value]) -> Vec<u8> {
        let mut out = Vec::new();
        values.iter().for_each(|value| value.encode(&mut out));
        out
    }

    /// SOP §2.10: the vector of the rule itself, and one for each tag.
    #[test]
    fn vectors() {
        let cases: [(&[Value], &str); 13] = [
            (
                &[Value::Int(5), Value::Text("a\0".into())],
                "0280000000000000050761", /* "a" */
            ),
            (&[Value::Bool(false), Value::Bool(true)], "01000101"),
            (
                &[Value::Int(-1), Value::Int(i64::MIN)],
                "027fffffffffffffff020000000000000000",
            ),
            (&[Value::UInt(u64::MAX)], "03ffffffffffffffff"),
            (&[Value::Decimal(-1)], "047fffffffffffffffffffffffffffffff"),
            (&[Value::Date(0), Value::Date(-1)], "0580000000057fffffff"),
            (&[Value::Timestamp(1)], "068000000000000001"),
            (&[Value::Text(String::new())], "0700"),
            (&[Value::Bytes(vec![0, 0xff])], "0800ffff00"),
            (&[Value::Uuid([0x11; 16])], "0911111111111111111111111111111111"),
            (
                &[Value::Float(1.0), Value::Float(-1.0)],
                "0abff00000000000000a400fffffffffffff",
            ),
            (&[Value::Time(0)], "0b8000000000000000"),
            (
                &[
                    Value::List(vec![Value::Int(1), Value::Null]),
                    Value::Struct(vec![Value::Bool(true)]),
                ],
                "2000000002028000000000000001002101", /* then 01 */
            ),
        ];
        for (index, (values, hex_text)) in cases.iter().enumerate() {
            let text = hex::encode(encode(values));
            match index {
                0 => assert_eq!(text, format!("{hex_text}00ff00")),
                12 => assert_eq!(text, format!("{hex_text}01")),
                _ => assert_eq!(&text, hex_text),
            }
        }
    }

    #[test]
    fn identities_decode_to_what_was_encoded() {
        let types = [
            ColumnType::Int64,
            ColumnType::Text,
            ColumnType::Uuid,
            ColumnType::TimeUs,
        ];
        let values = [
            Value::Int(-7),
            Value::Text("ä\0b".into()),
            Value::Uuid([3; 16]),
            Value::Time(5),
        ];
        assert_eq!(decode_identity(&types, &encode(&values)).unwrap(), values);
    }

    /// SOP §2.10: decoding refuses wrong tags, bad escapes, bad UTF-8 and left-over bytes.
    #[test]
    fn broken_keys_are_refused() {
        use ColumnType as T;
        let decimal = T::Decimal { precision: 3, scale: 1 };
        let cases: [(&str, &[ColumnType], &str); 26] = [
            ("nothing", &[T::Int64], ""),
            ("null", &[T::Int64], "00"),
            ("tag only", &[T::Int64], "02"),
            ("short int", &[T::Int64], "0280000000000000"),
            ("wrong tag", &[T::Int64], "038000000000000000"),
            ("unsigned for signed", &[T::UInt64], "028000000000000000"),
            ("unknown tag", &[T::Int64], "7f8000000000000000"),
            ("left over", &[T::Int64], "02800000000000000000"),
            ("one value too many", &[T::Bool], "01000100"),
            ("one value too few", &[T::Bool, T::Bool], "0100"),
            ("bool of two", &[T::Bool], "0102"),
            ("int8 of 128", &[T::Int8], "028000000000000080"),
            ("uint8 of 256", &[T::UInt8], "030000000000000100"),
            ("int32 of 2^31", &[T::Int32], "028000000080000000"),
            ("decimal of 1000", &[decimal], "048000000000000000000000000000 03e8"),
            ("short decimal", &[decimal], "0480"),
            ("short date", &[T::Date], "05800000"),
            ("time of 24 h", &[T::TimeUs], "0b8000 00141dd76000"),
            ("time below 0", &[T::TimeUs], "0b7fffffffffffffff"),
            ("text without end", &[T::Text], "0761"),
            ("text ends in escape half", &[T::Text], "076100ff"),
            ("text goes on after end", &[T::Text], "07610061"),
            ("text not UTF-8", &[T::Text], "07ff00"),
            ("text for bytes", &[T::Bytes], "076100"),
            ("short uuid", &[T::Uuid], "0911"),
            ("list count cut", &[T::Bool], "20"),
        ];
        for (case, types, hex_text) in cases {
            let bytes = hex::decode(hex_text.replace(' ', "")).unwrap();
            assert!(decode_identity(types, &bytes).is_err(), "{case}");
        }
        for ty in [T::Float64, T::Float32, T::List, T::Struct, T::Map] {
            assert_eq!(decode_identity(&[ty], &[0x0a; 9]), Err(KeyError::Type(ty)));
        }
        let long = encode(&[Value::Text("x".repeat(1023))]);
        assert!(matches!(
            decode_identity(&[T::Text], &long),
            Err(KeyError::TooLong { bytes: 1025, .. })
        ));
    }

    #[test]
    fn bounds_refuse_nan_and_negative_zero() {
        for float in [f64::NAN, -f64::NAN, -0.0] {
            assert!(decode_bound(ColumnType::Float64, &encode(&[Value::Float(float)])).is_err());
        }
        for float in [0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE] {
            let bytes = encode(&[Value::Float(float)]);
            assert_eq!(decode_bound(ColumnType::Float64, &bytes), Ok(Value::Float(float)));
        }
        assert!(
            decode_bound(ColumnType::Float32, &encode(&[Value::Float(0.1)])).is_err(),
            "no float32 is 0.1"
        );
    }

    fn order_kept<T: PartialOrd>(a: &T, b: &T, wrap: impl Fn(&T) -> Value) {
        let (x, y) = (encode(&[wrap(a)]), encode(&[wrap(b)]));
        assert_eq!(a.partial_cmp(b), x.partial_cmp(&y));
    }

    proptest! {
        /// SOP-182: encode(a) < encode(b) iff a < b.
        #[test]
        fn order_of_bytes_is_order_of_values(
            ints: (i64, i64), unsigned: (u64, u64), wide: (i128, i128), days: (i32, i32),
            texts in ("[a\\x00\\x01ä]{0,6}", "[a\\x00\\x01ä]{0,6}"),
            raw in (prop::collection::vec(0_u8..3, 0..6), prop::collection::vec(0_u8..3, 0..6)),
            floats in (prop::num::f64::NORMAL | prop::num::f64::INFINITE, prop::num::f64::NORMAL | prop::num::f64::INFINITE),
        ) {
            order_kept(&ints.0, &ints.1, |v| Value::Int(*v));
            order_kept(&ints.0, &ints.1, |v| Value::Timestamp(*v));
            order_kept(&unsigned.0, &unsigned.1, |v| Value::UInt(*v));
            order_kept(&wide.0, &wide.1, |v| Value::Decimal(*v));
            order_kept(&days.0, &days.1, |v| Value::Date(*v));
            order_kept(&texts.0, &texts.1, |v| Value::Text(v.clone()));
            order_kept(&raw.0, &raw.1, |v| Value::Bytes(v.clone()));
            order_kept(&floats.0, &floats.1, |v| Value::Float(*v));
        }

        /// Composite identities sort by their parts, so text never runs into what follows it.
        #[test]
        fn order_of_composites(
            a in ("[a\\x00]{0,4}", any::<i64>()), b in ("[a\\x00]{0,4}", any::<i64>()),
        ) {
            let bytes = |v: &(String, i64)| encode(&[Value::Text(v.0.clone()), Value::Int(v.1)]);
            prop_assert_eq!(a.cmp(&b), bytes(&a).cmp(&bytes(&b)));
        }

        /// Whatever decodes encodes to the same bytes again: one key, one identity.
        #[test]
        fn accepted_bytes_are_canonical(bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(7), Just(8), Just(0xff), any::<u8>()], 0..14)) {
            for types in [&[ColumnType::Text][..], &[ColumnType::Bytes], &[ColumnType::Bool, ColumnType::Text], &[ColumnType::Int64], &[ColumnType::Date]] {
                if let Ok(values) = decode_identity(types, &bytes) {
                    prop_assert_eq!(encode(&values), bytes.clone());
                }
            }
        }
    }
}
