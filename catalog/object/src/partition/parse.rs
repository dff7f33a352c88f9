//! From a manifest's partition string back to the value, so that a query can compare it.

use arrow::{compute::kernels::cast_utils::Parser as _, datatypes::Date32Type};

use super::{PartitionError, partition_string};
use crate::{
    key::{DAY_US, Value},
    types::{Column, ColumnType},
};

/// The value a manifest's partition string stands for. A string that no writer makes of any value is refused: another
/// reader might read it otherwise.
pub fn partition_value(column: &Column, text: Option<&str>) -> Result<Value, PartitionError> {
    let misfit = || PartitionError::Value {
        column: column.name.clone(),
        ty: column.ty,
    };
    let value = match text {
        None => Value::Null,
        Some(text) => parse(column.ty, text).ok_or_else(misfit)?,
    };
    if partition_string(column, &value)?.as_deref() == text {
        Ok(value)
    } else {
        Err(misfit())
    }
}

fn parse(ty: ColumnType, text: &str) -> Option<Value> {
    use ColumnType as T;
    Some(match ty {
        T::Text => Value::Text(text.to_owned()),
        T::Bool => Value::Bool(text.parse().ok()?),
        T::Int8 | T::Int16 | T::Int32 | T::Int64 => Value::Int(text.parse().ok()?),
        T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => Value::UInt(text.parse().ok()?),
        // All digits of the scale stand there, so the point is only where it is.
        T::Decimal { .. } => Value::Decimal(text.replacen('.', "", 1).parse().ok()?),
        T::Date => Value::Date(Date32Type::parse(text)?),
        T::TimestampUs | T::TimestampUsLocal => {
            let (day, time) = text.split_once(' ')?;
            let day = i64::from(Date32Type::parse(day)?);
            Value::Timestamp(day.checked_mul(DAY_US)?.checked_add(time_of_day(time)?)?)
        }
        T::TimeUs => Value::Time(time_of_day(text)?),
        T::Uuid => Value::Uuid(hex::decode(text.replace('-', "")).ok()?.try_into().ok()?),
        T::Float32 | T::Float64 | T::Bytes | T::List | T::Struct | T::Map => return None,
    })
}

/// `HH:MM:SS.ffffff`; whether the parts are in range shows when the string is made again.
fn time_of_day(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.')?;
    let mut parts = clock.split(':');
    let mut next = || -> Option<i64> { Some(i64::from(parts.next()?.parse::<u8>().ok()?)) };
    let seconds = (next()? * 60 + next()?) * 60 + next()?;
    (fraction.len() == 6).then_some(())?;
    Some(seconds * 1_000_000 + i64::from(fraction.parse::<u32>().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(ty: ColumnType, value: Value) -> Result<(), TestCaseError> {
        let column = Column::new(1, "p", ty, true);
        // Dates beyond the year 9999 have no string.
        if let Ok(text) = partition_string(&column, &value) {
            prop_assert_eq!(partition_value(&column, text.as_deref()), Ok(value));
        }
        Ok(())
    }

    proptest! {
        /// SOP-127: what a manifest says of a partition is read back as the value that was written.
        #[test]
        fn strings_are_read_back(
            text in "[a-z0-9 ./=%äß\u{0}-]{0,12}", int: i64, small: i8, unsigned: u64, decimal in -9_999_i128..=9_999,
            day in -800_000..3_000_000_i32, us in any::<i64>(), recent in 0..4_000_000_000_000_000_i64, time in 0..DAY_US,
            uuid: [u8; 16], flag: bool,
        ) {
            use ColumnType as T;
            for (ty, value) in [
                (T::Text, Value::Text(text)),
                (T::Int64, Value::Int(int)),
                (T::Int8, Value::Int(small.into())),
                (T::UInt64, Value::UInt(unsigned)),
                (T::Decimal { precision: 4, scale: 4 }, Value::Decimal(decimal)),
                (T::Decimal { precision: 4, scale: 0 }, Value::Decimal(decimal)),
                (T::Decimal { precision: 9, scale: 2 }, Value::Decimal(decimal)),
                (T::Date, Value::Date(day)),
                (T::TimestampUs, Value::Timestamp(us)),
                (T::TimestampUsLocal, Value::Timestamp(recent)),
                (T::TimeUs, Value::Time(time)),
                (T::Uuid, Value::Uuid(uuid)),
                (T::Bool, Value::Bool(flag)),
                (T::Bool, Value::Null),
            ] {
                round_trip(ty, value)?;
            }
        }
    }

    /// One value, one string: what a lenient reader would take is refused.
    #[test]
    fn other_spellings_are_refused() {
        let decimal = ColumnType::Decimal { precision: 9, scale: 2 };
        for (ty, text) in [
            (ColumnType::Text, ""),
            (ColumnType::Int64, "+1"),
            (ColumnType::Int64, "01"),
            (ColumnType::Int8, "128"),
            (ColumnType::Bool, "True"),
            (decimal, "1.2"),
            (decimal, "1.2.0"),
            (decimal, "120"),
            (ColumnType::Date, "1970-1-1"),
            (ColumnType::Date, "1970-02-30"),
            (ColumnType::TimestampUs, "1970-01-01T00:00:00.000000"),
            (ColumnType::TimestampUs, "1970-01-01 00:00:00"),
            (ColumnType::TimestampUs, "1970-01-01 24:00:00.000000"),
            (ColumnType::TimeUs, "00:60:00.000000"),
            (ColumnType::Uuid, "abababababababababababababababab"),
        ] {
            let column = Column::new(1, "p", ty, true);
            assert!(partition_value(&column, Some(text)).is_err(), "{ty} {text:?}");
        }
    }
}
