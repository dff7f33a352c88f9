//! Column types by name, and their place in Arrow (DESIGN §16.6).
//!
//! A table's columns are a flat list: nested types own child rows that name them as parent. The list is what a
//! TableGenesis signs; the Arrow schema is derived from it, never the other way round, except when a file is read for
//! the first time and gets its ids.

mod columns;

use std::{fmt, str::FromStr, sync::Arc};

use arrow::datatypes::{DataType, Field, TimeUnit};

pub use self::columns::{
    Column, ColumnNode, ColumnsError, FIRST_RESERVED_FIELD_ID, MAX_DEPTH, SOURCE_INDEX_COLUMN, SOURCE_INDEX_FIELD_ID,
    child_index, columns_of_defs, columns_of_schema, field_id_of, schema_of_columns, tree,
};

/// Digits of the widest decimal.
pub const MAX_PRECISION: u8 = 38;

/// Time zone of every `timestamp_us` column.
pub const UTC: &str = "UTC";

/// Name under which Arrow marks 16 fixed bytes as a UUID.
const UUID_EXTENSION: &str = "arrow.uuid";

/// Key under which Arrow keeps the name of an extension type.
const EXTENSION_NAME_KEY: &str = "ARROW:extension:name";

/// What a column holds. `Display` and `FromStr` use the names of DESIGN §16.6.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ColumnType {
    /// True or false.
    Bool,
    /// Signed, 8 bits.
    Int8,
    /// Signed, 16 bits.
    Int16,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 64 bits.
    Int64,
    /// Unsigned, 8 bits.
    UInt8,
    /// Unsigned, 16 bits.
    UInt16,
    /// Unsigned, 32 bits.
    UInt32,
    /// Unsigned, 64 bits.
    UInt64,
    /// IEEE 754 single precision.
    Float32,
    /// IEEE 754 double precision.
    Float64,
    /// Exact decimal of at most 38 digits.
    Decimal {
        /// All digits.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// UTF-8 text.
    Text,
    /// Any bytes.
    Bytes,
    /// Calendar day.
    Date,
    /// Time of day in microseconds.
    TimeUs,
    /// Instant in microseconds, UTC.
    TimestampUs,
    /// Date and time in microseconds without a zone.
    TimestampUsLocal,
    /// 16 bytes shown as a UUID.
    Uuid,
    /// Values of the one child row.
    List,
    /// One value of each child row.
    Struct,
    /// Pairs of the two child rows, key first.
    Map,
}

/// Text was not the name of a column type.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TypeParseError {
    /// The word is no type of ours.
    #[error("unknown column type {0:?}")]
    Unknown(String),
    /// `decimal` with digits that cannot be.
    #[error("{0:?}: a decimal has 1 to 38 digits, of which at most all stand after the point")]
    Decimal(String),
}

/// Every type without parameters, with its name.
const NAMES: [(ColumnType, &str); 21] = [
    (ColumnType::Bool, "bool"),
    (ColumnType::Int8, "int8"),
    (ColumnType::Int16, "int16"),
    (ColumnType::Int32, "int32"),
    (ColumnType::Int64, "int64"),
    (ColumnType::UInt8, "uint8"),
    (ColumnType::UInt16, "uint16"),
    (ColumnType::UInt32, "uint32"),
    (ColumnType::UInt64, "uint64"),
    (ColumnType::Float32, "float32"),
    (ColumnType::Float64, "float64"),
    (ColumnType::Text, "text"),
    (ColumnType::Bytes, "bytes"),
    (ColumnType::Date, "date"),
    (ColumnType::TimeUs, "time_us"),
    (ColumnType::TimestampUs, "timestamp_us"),
    (ColumnType::TimestampUsLocal, "timestamp_us_local"),
    (ColumnType::Uuid, "uuid"),
    (ColumnType::List, "list"),
    (ColumnType::Struct, "struct"),
    (ColumnType::Map, "map"),
];

impl ColumnType {
    /// A decimal, when its digits can be.
    pub fn decimal(precision: u8, scale: u8) -> Option<Self> {
        ((1..=MAX_PRECISION).contains(&precision) && scale <= precision).then_some(Self::Decimal { precision, scale })
    }

    /// Whether the type owns child rows.
    pub const fn is_nested(self) -> bool {
        matches!(self, Self::List | Self::Struct | Self::Map)
    }

    /// Whether the type may stand in a row identity: no floats, no nested types (SOP §2.10).
    pub const fn is_identity(self) -> bool {
        !self.is_nested() && !matches!(self, Self::Float32 | Self::Float64)
    }

    /// Whether the type may stand in a partition: its string form must be exact (SOP §2.5).
    pub const fn is_partition(self) -> bool {
        !self.is_nested() && !matches!(self, Self::Float32 | Self::Float64 | Self::Bytes)
    }

    /// Whether statistics can be kept over the type.
    pub const fn is_prunable(self) -> bool {
        !self.is_nested()
    }

    /// The Arrow type of a type without children; `None` for nested ones.
    pub fn leaf_data_type(self) -> Option<DataType> {
        Some(match self {
            Self::Bool => DataType::Boolean,
            Self::Int8 => DataType::Int8,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::UInt8 => DataType::UInt8,
            Self::UInt16 => DataType::UInt16,
            Self::UInt32 => DataType::UInt32,
            Self::UInt64 => DataType::UInt64,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Decimal { precision, scale } => DataType::Decimal128(precision, scale as i8),
            Self::Text => DataType::Utf8,
            Self::Bytes => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::TimeUs => DataType::Time64(TimeUnit::Microsecond),
            Self::TimestampUs => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from(UTC))),
            Self::TimestampUsLocal => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Uuid => DataType::FixedSizeBinary(16),
            Self::List | Self::Struct | Self::Map => return None,
        })
    }

    /// The type that holds every value of an Arrow field, or `None` when there is none.
    ///
    /// Units finer than a microsecond map to the microsecond types, milliseconds of a day to the day; whoever converts values
    /// checks that nothing is lost. Half floats become `float32`, which holds all of them: DuckDB and our statistics know no
    /// half. Dictionaries and run ends are ways to write a column down, so their values' type counts.
    pub fn of_field(field: &Field) -> Option<Self> {
        if let DataType::FixedSizeBinary(16) = field.data_type()
            && field
                .metadata()
                .get(EXTENSION_NAME_KEY)
                .is_some_and(|name| name == UUID_EXTENSION)
        {
            return Some(Self::Uuid);
        }
        Self::of_data_type(field.data_type())
    }

    fn of_data_type(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Bool,
            DataType::Int8 => Self::Int8,
            DataType::Int16 => Self::Int16,
            DataType::Int32 => Self::Int32,
            DataType::Int64 => Self::Int64,
            DataType::UInt8 => Self::UInt8,
            DataType::UInt16 => Self::UInt16,
            DataType::UInt32 => Self::UInt32,
            DataType::UInt64 => Self::UInt64,
            DataType::Float16 | DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => {
                return u8::try_from(*scale)
                    .ok()
                    .and_then(|scale| Self::decimal(*precision, scale));
            }
            // A column without any value has no type of its own; text takes whatever comes later.
            DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Self::Bytes
            }
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Time32(_) | DataType::Time64(_) => Self::TimeUs,
            DataType::Timestamp(_, Some(_)) => Self::TimestampUs,
            DataType::Timestamp(_, None) => Self::TimestampUsLocal,
            DataType::Dictionary(_, values) if !values.is_nested() => return Self::of_data_type(values),
            DataType::RunEndEncoded(_, values) if !values.data_type().is_nested() => {
                return Self::of_data_type(values.data_type());
            }
            DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::ListView(_)
            | DataType::LargeListView(_) => Self::List,
            DataType::Struct(_) => Self::Struct,
            DataType::Map(..) => Self::Map,
            _ => return None,
        })
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Decimal { precision, scale } = self {
            return write!(f, "decimal({precision},{scale})");
        }
        let name = NAMES.iter().find(|(ty, _)| ty == self).map_or("?", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for ColumnType {
    type Err = TypeParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some((ty, _)) = NAMES.iter().find(|(_, name)| *name == text) {
            return Ok(*ty);
        }
        let Some(digits) = text.strip_prefix("decimal(").and_then(|rest| rest.strip_suffix(')')) else {
            return Err(TypeParseError::Unknown(text.to_owned()));
        };
        let parse = |digits: &str| -> Option<u8> {
            let digits = digits.trim();
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
            plain.then(|| digits.parse().ok()).flatten()
        };
        digits
            .split_once(',')
            .and_then(|(precision, scale)| Self::decimal(parse(precision)?, parse(scale)?))
            .ok_or_else(|| TypeParseError::Decimal(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_round_trips() {
        for (ty, name) in NAMES {
            assert_eq!(ty.to_string(), name);
            assert_eq!(name.parse::<ColumnType>().unwrap(), ty);
        }
        let decimal = ColumnType::decimal(38, 10).unwrap();
        assert_eq!(decimal.to_string(), "decimal(38,10)");
        assert_eq!("decimal(38, 10)".parse::<ColumnType>().unwrap(), decimal);
    }

    #[test]
    fn words_that_are_no_type_are_refused() {
        for bad in [
            "",
            "Int64",
            "int",
            "string",
            "varchar",
            "timestamp",
            " int64",
            "int64 ",
            "decimal",
            "decimal()",
        ] {
            assert!(bad.parse::<ColumnType>().is_err(), "{bad}");
        }
        for bad in [
            "decimal(0,0)",
            "decimal(39,0)",
            "decimal(5,6)",
            "decimal(5)",
            "decimal(-1,0)",
            "decimal(05,1)",
            "decimal(5,1",
        ] {
            assert!(bad.parse::<ColumnType>().is_err(), "{bad}");
        }
    }

    #[test]
    fn leaf_types_come_back_from_arrow() {
        for (ty, name) in NAMES {
            let Some(data_type) = ty.leaf_data_type() else {
                assert!(ty.is_nested());
                continue;
            };
            if ty == ColumnType::Uuid {
                // Without the extension name sixteen bytes are just bytes.
                assert_eq!(
                    ColumnType::of_field(&Field::new(name, data_type, true)),
                    Some(ColumnType::Bytes)
                );
            } else {
                assert_eq!(ColumnType::of_field(&Field::new(name, data_type, true)), Some(ty));
            }
        }
    }

    #[test]
    fn every_arrow_type_that_parquet_holds_has_a_home() {
        use ColumnType as T;
        let item = || Arc::new(Field::new("item", DataType::Int32, true));
        let dictionary = |values| DataType::Dictionary(Box::new(DataType::UInt16), Box::new(values));
        let zone = || Some(Arc::from("Europe/Berlin"));
        let homes = [
            (DataType::Null, T::Text),
            (DataType::Float16, T::Float32),
            (DataType::Date32, T::Date),
            (DataType::Date64, T::Date),
            (DataType::Time32(TimeUnit::Second), T::TimeUs),
            (DataType::Time32(TimeUnit::Millisecond), T::TimeUs),
            (DataType::Time64(TimeUnit::Microsecond), T::TimeUs),
            (DataType::Time64(TimeUnit::Nanosecond), T::TimeUs),
            (DataType::Timestamp(TimeUnit::Second, None), T::TimestampUsLocal),
            (DataType::Timestamp(TimeUnit::Nanosecond, None), T::TimestampUsLocal),
            (DataType::Timestamp(TimeUnit::Millisecond, zone()), T::TimestampUs),
            (DataType::Timestamp(TimeUnit::Nanosecond, zone()), T::TimestampUs),
            (DataType::Decimal32(9, 2), T::Decimal { precision: 9, scale: 2 }),
            (
                DataType::Decimal64(18, 0),
                T::Decimal {
                    precision: 18,
                    scale: 0,
                },
            ),
            (
                DataType::Decimal256(38, 38),
                T::Decimal {
                    precision: 38,
                    scale: 38,
                },
            ),
            (DataType::LargeUtf8, T::Text),
            (DataType::Utf8View, T::Text),
            (DataType::LargeBinary, T::Bytes),
            (DataType::BinaryView, T::Bytes),
            (DataType::FixedSizeBinary(5), T::Bytes),
            (DataType::LargeList(item()), T::List),
            (DataType::FixedSizeList(item(), 3), T::List),
            (DataType::ListView(item()), T::List),
            (DataType::LargeListView(item()), T::List),
            (dictionary(DataType::Utf8View), T::Text),
            (
                DataType::RunEndEncoded(item(), Arc::new(Field::new("values", DataType::Float64, true))),
                T::Float64,
            ),
        ];
        for (data_type, ty) in homes {
            assert_eq!(
                ColumnType::of_field(&Field::new("x", data_type.clone(), true)),
                Some(ty),
                "{data_type}"
            );
        }
    }

    #[test]
    fn arrow_types_without_a_home_are_refused() {
        use arrow::datatypes::IntervalUnit;
        for data_type in [
            DataType::Duration(TimeUnit::Second),
            DataType::Interval(IntervalUnit::DayTime),
            DataType::Interval(IntervalUnit::YearMonth),
            DataType::Interval(IntervalUnit::MonthDayNano),
            DataType::Decimal128(10, -2),
            DataType::Decimal256(39, 2),
            DataType::Decimal256(60, 2),
            DataType::Dictionary(
                Box::new(DataType::Int32),
                Box::new(DataType::Duration(TimeUnit::Second)),
            ),
            DataType::Union(
                arrow::datatypes::UnionFields::empty(),
                arrow::datatypes::UnionMode::Sparse,
            ),
        ] {
            assert_eq!(
                ColumnType::of_field(&Field::new("x", data_type.clone(), true)),
                None,
                "{data_type}"
            );
        }
    }
}
