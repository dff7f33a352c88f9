//! Partition values as strings in Delta Lake's convention (SOP §2.5, SOP-127).
//!
//! The string form is exact for every type that may partition a table, so that a later projection copies the map whole.

mod parse;

use arrow::temporal_conversions::{date32_to_datetime, timestamp_us_to_datetime};

pub use self::parse::partition_value;

use crate::{
    key::Value,
    types::{Column, ColumnType},
};

/// A value that cannot partition a table.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PartitionError {
    /// Floats, bytes and nested types have no exact string form.
    #[error("column {column:?} of type {ty} cannot partition a table")]
    Type {
        /// Name of the column.
        column: String,
        /// Its type.
        ty: ColumnType,
    },
    /// Delta reads the empty string as null (SOP-128).
    #[error("partition column {column:?} has an empty text, which would be read back as null")]
    EmptyText {
        /// Name of the column.
        column: String,
    },
    /// The value is not of the column's type, or its date lies outside the years that have a string form.
    #[error("partition column {column:?} has a value that no {ty} can have")]
    Value {
        /// Name of the column.
        column: String,
        /// Its type.
        ty: ColumnType,
    },
}

/// The string under which a manifest lists a partition value; `None` is null.
pub fn partition_string(column: &Column, value: &Value) -> Result<Option<String>, PartitionError> {
    let ty = column.ty;
    if !ty.is_partition() || column.parent.is_some() {
        return Err(PartitionError::Type {
            column: column.name.clone(),
            ty,
        });
    }
    let misfit = || PartitionError::Value {
        column: column.name.clone(),
        ty,
    };
    if value == &Value::Null {
        return Ok(None);
    }
    if !value.is_within(ty) {
        return Err(misfit());
    }
    let text = match (value, ty) {
        (Value::Text(text), _) if text.is_empty() => {
            return Err(PartitionError::EmptyText {
                column: column.name.clone(),
            });
        }
        (Value::Text(text), _) => text.clone(),
        (Value::Bool(value), _) => value.to_string(),
        (Value::Int(value), _) => value.to_string(),
        (Value::UInt(value), _) => value.to_string(),
        (Value::Decimal(value), ColumnType::Decimal { scale, .. }) => decimal_string(*value, scale),
        (Value::Date(days), _) => date32_to_datetime(*days)
            .map(|day| day.format("%Y-%m-%d").to_string())
            .filter(|text| text.len() == 10)
            .ok_or_else(misfit)?,
        (Value::Timestamp(us), _) => timestamp_us_to_datetime(*us)
            .map(|time| time.format("%Y-%m-%d %H:%M:%S%.6f").to_string())
            .filter(|text| text.len() == 26)
            .ok_or_else(misfit)?,
        (Value::Time(us), _) => {
            let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
            format!(
                "{:02}:{:02}:{:02}.{fraction:06}",
                seconds / 3600,
                seconds / 60 % 60,
                seconds % 60
            )
        }
        (Value::Uuid(bytes), _) => uuid_string(bytes),
        _ => return Err(misfit()),
    };
    Ok(Some(text))
}

/// A decimal with all digits of its scale.
pub fn decimal_string(unscaled: i128, scale: u8) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let scale = usize::from(scale);
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    if scale == 0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    }
}

/// A UUID in its usual groups.
pub fn uuid_string(bytes: &[u8; 16]) -> String {
    let text = hex::encode(bytes);
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(ty: ColumnType, value: Value) -> Result<Option<String>, PartitionError> {
        partition_string(&Column::new(1, "p", ty, true), &value)
    }

    /// SOP-127: one string for each value, as Delta writes it.
    #[test]
    fn strings_of_every_type() {
        let decimal = ColumnType::Decimal {
            precision: 10,
            scale: 2,
        };
        for (ty, value, expected) in [
            (ColumnType::Text, Value::Text("Zürich".into()), "Zürich"),
            (ColumnType::Int8, Value::Int(-7), "-7"),
            (ColumnType::UInt64, Value::UInt(u64::MAX), "18446744073709551615"),
            (ColumnType::Bool, Value::Bool(true), "true"),
            (decimal, Value::Decimal(-5), "-0.05"),
            (decimal, Value::Decimal(1200), "12.00"),
            (ColumnType::Decimal { precision: 5, scale: 0 }, Value::Decimal(12), "12"),
            (ColumnType::Date, Value::Date(0), "1970-01-01"),
            (ColumnType::Date, Value::Date(-1), "1969-12-31"),
            (
                ColumnType::TimestampUs,
                Value::Timestamp(1_500_000),
                "1970-01-01 00:00:01.500000",
            ),
            (
                ColumnType::TimestampUs,
                Value::Timestamp(-1),
                "1969-12-31 23:59:59.999999",
            ),
            (ColumnType::TimeUs, Value::Time(3_661_000_001), "01:01:01.000001"),
            (
                ColumnType::Uuid,
                Value::Uuid([0xab; 16]),
                "abababab-abab-abab-abab-abababababab",
            ),
        ] {
            assert_eq!(string(ty, value).unwrap().as_deref(), Some(expected));
        }
        assert_eq!(string(ColumnType::Int8, Value::Null), Ok(None));
    }

    /// SOP-128 and §2.5: what has no exact string is refused.
    #[test]
    fn what_has_no_exact_string_is_refused() {
        assert!(matches!(
            string(ColumnType::Text, Value::Text(String::new())),
            Err(PartitionError::EmptyText { .. })
        ));
        for ty in [
            ColumnType::Float64,
            ColumnType::Float32,
            ColumnType::Bytes,
            ColumnType::List,
            ColumnType::Map,
        ] {
            assert!(
                matches!(string(ty, Value::Null), Err(PartitionError::Type { .. })),
                "{ty}"
            );
        }
        let child = Column::new(2, "p", ColumnType::Int64, true).within(1);
        assert!(partition_string(&child, &Value::Int(1)).is_err());
        for (ty, value) in [
            (ColumnType::Int8, Value::Int(128)),
            (ColumnType::Int64, Value::Text("1".into())),
            (ColumnType::Date, Value::Date(i32::MAX)),
            (ColumnType::TimestampUs, Value::Timestamp(i64::MAX)),
        ] {
            assert!(matches!(string(ty, value), Err(PartitionError::Value { .. })), "{ty}");
        }
    }
}
