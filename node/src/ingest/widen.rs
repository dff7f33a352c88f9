//! The one type that holds every value of two, when files of one command give a column two types.
//!
//! Numbers only, and only without loss: integers to wider ones, floats to `float64`, integers of up to 32 bits to floats
//! that hold them, decimals to one with enough digits on both sides of the point. Everything else stays an error.

use sovm_object::types::ColumnType;

/// The narrowest type that holds all values of both.
pub(super) fn widened(a: ColumnType, b: ColumnType) -> Option<ColumnType> {
    use ColumnType as T;
    if a == b {
        return Some(a);
    }
    if let (Some(a), Some(b)) = (integer(a), integer(b)) {
        return Some(match (a.signed, b.signed) {
            (true, true) => signed(a.bits.max(b.bits))?,
            (false, false) => unsigned(a.bits.max(b.bits))?,
            // One bit more for the sign.
            (true, false) => signed(a.bits.max(b.bits * 2))?,
            (false, true) => signed(b.bits.max(a.bits * 2))?,
        });
    }
    match (a, b) {
        (T::Float32, T::Float64) | (T::Float64, T::Float32) => Some(T::Float64),
        (float @ (T::Float32 | T::Float64), other) | (other, float @ (T::Float32 | T::Float64)) => {
            match (integer(other)?.bits, float) {
                (..=16, _) => Some(float),
                (..=32, _) => Some(T::Float64),
                _ => None,
            }
        }
        _ => {
            let ((a_whole, a_scale), (b_whole, b_scale)) = (digits(a)?, digits(b)?);
            let scale = a_scale.max(b_scale);
            T::decimal(a_whole.max(b_whole).checked_add(scale)?, scale)
        }
    }
}

struct Integer {
    signed: bool,
    bits: u8,
}

const fn integer(ty: ColumnType) -> Option<Integer> {
    use ColumnType as T;
    let (signed, bits) = match ty {
        T::Int8 => (true, 8),
        T::Int16 => (true, 16),
        T::Int32 => (true, 32),
        T::Int64 => (true, 64),
        T::UInt8 => (false, 8),
        T::UInt16 => (false, 16),
        T::UInt32 => (false, 32),
        T::UInt64 => (false, 64),
        _ => return None,
    };
    Some(Integer { signed, bits })
}

const fn signed(bits: u8) -> Option<ColumnType> {
    Some(match bits {
        8 => ColumnType::Int8,
        16 => ColumnType::Int16,
        32 => ColumnType::Int32,
        64 => ColumnType::Int64,
        _ => return None,
    })
}

const fn unsigned(bits: u8) -> Option<ColumnType> {
    Some(match bits {
        8 => ColumnType::UInt8,
        16 => ColumnType::UInt16,
        32 => ColumnType::UInt32,
        64 => ColumnType::UInt64,
        _ => return None,
    })
}

/// Digits before and after the point.
const fn digits(ty: ColumnType) -> Option<(u8, u8)> {
    use ColumnType as T;
    Some(match ty {
        T::Decimal { precision, scale } => (precision - scale, scale),
        T::Int8 | T::UInt8 => (3, 0),
        T::Int16 | T::UInt16 => (5, 0),
        T::Int32 | T::UInt32 => (10, 0),
        T::Int64 => (19, 0),
        T::UInt64 => (20, 0),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_widen_without_loss_and_nothing_else_does() {
        use ColumnType as T;
        let decimal = |precision, scale| T::Decimal { precision, scale };
        for (a, b, expected) in [
            (T::Int32, T::Int64, Some(T::Int64)),
            (T::UInt8, T::UInt16, Some(T::UInt16)),
            (T::UInt8, T::Int8, Some(T::Int16)),
            (T::UInt32, T::Int8, Some(T::Int64)),
            (T::UInt64, T::Int8, None),
            (T::Float32, T::Float64, Some(T::Float64)),
            (T::Int16, T::Float32, Some(T::Float32)),
            (T::Int32, T::Float32, Some(T::Float64)),
            (T::Int64, T::Float64, None),
            (decimal(5, 2), decimal(8, 4), Some(decimal(8, 4))),
            (decimal(5, 0), decimal(4, 4), Some(decimal(9, 4))),
            (decimal(38, 0), decimal(4, 4), None),
            (decimal(4, 2), T::Int32, Some(decimal(12, 2))),
            (decimal(4, 2), T::Float64, None),
            (T::Text, T::Text, Some(T::Text)),
            (T::Text, T::Int8, None),
            (T::Date, T::TimestampUs, None),
            (T::Bool, T::Int8, None),
        ] {
            assert_eq!(widened(a, b), expected, "{a} {b}");
            assert_eq!(widened(b, a), expected, "{b} {a}");
        }
    }
}
