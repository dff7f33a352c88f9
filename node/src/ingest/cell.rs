//! One value on its way from text or JSON into an array.
//!
//! A row becomes cells first and is appended only when all of them fit, so that a bad row leaves no half behind.

use std::borrow::Cow;

use sovm_object::types::ColumnType;

use super::{
    error::Misfit,
    json::JsonValue,
    parse::{self, Clock, Instant},
    target::TargetColumn,
};

/// A value of the type its column asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell<'a> {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    Decimal(i128),
    Text(Cow<'a, str>),
    Bytes(Vec<u8>),
    Uuid([u8; 16]),
    List(Vec<Self>),
    Struct(Vec<Self>),
    Map(Vec<(Self, Self)>),
}

/// A value that does not fit, and where below the column it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CellError {
    /// Path below the top-level column, as in `.place.lat`.
    pub(super) path: String,
    pub(super) value: String,
    pub(super) misfit: Misfit,
}

impl CellError {
    fn new(value: impl Into<String>, misfit: Misfit) -> Self {
        Self {
            path: String::new(),
            value: value.into(),
            misfit,
        }
    }

    fn below(mut self, name: &str) -> Self {
        self.path = format!(".{name}{}", self.path);
        self
    }
}

/// The cell of a text in a column without children.
pub(super) fn of_text<'a>(ty: ColumnType, text: &'a str) -> Result<Cell<'a>, Misfit> {
    use ColumnType as T;
    if ty == T::Text {
        return Ok(Cell::Text(Cow::Borrowed(text)));
    }
    let text = text.trim_matches(' ');
    let not = || Misfit::NotA(ty);
    Ok(match ty {
        T::Bool => Cell::Bool(match text {
            "1" => true,
            "0" => false,
            word => parse::boolean(word).ok_or_else(not)?,
        }),
        T::Int8 | T::Int16 | T::Int32 | T::Int64 => signed(ty, text)?,
        T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => unsigned(ty, text)?,
        T::Float32 | T::Float64 => float(ty, text)?,
        T::Decimal { precision, scale } => Cell::Decimal(parse::decimal(text, precision, scale)?),
        T::Bytes => Cell::Bytes(parse::bytes(text).ok_or_else(not)?),
        T::Uuid => Cell::Uuid(parse::uuid(text).ok_or_else(not)?),
        T::Date => Cell::Int(parse::date(text).ok_or_else(not)?.into()),
        T::TimeUs => match parse::clock(text).ok_or_else(not)? {
            Clock::At(us) => Cell::Int(us),
            Clock::TooFine => return Err(Misfit::Inexact(ty)),
        },
        T::TimestampUs | T::TimestampUsLocal => match (ty, parse::instant(text).ok_or_else(not)?) {
            (T::TimestampUs, Instant::Utc(us)) | (T::TimestampUsLocal, Instant::Local(us)) => Cell::Int(us),
            (_, Instant::TooFine) => return Err(Misfit::Inexact(ty)),
            (T::TimestampUs, _) => return Err(Misfit::NoZone),
            _ => return Err(Misfit::HasZone),
        },
        T::Text | T::List | T::Struct | T::Map => return Err(not()),
    })
}

fn digits_only(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn signed(ty: ColumnType, text: &str) -> Result<Cell<'static>, Misfit> {
    if !digits_only(text) {
        return Err(Misfit::NotA(ty));
    }
    text.parse()
        .ok()
        .filter(|value| in_range(ty, *value))
        .map(Cell::Int)
        .ok_or(Misfit::OutOfRange(ty))
}

fn unsigned(ty: ColumnType, text: &str) -> Result<Cell<'static>, Misfit> {
    if !digits_only(text) {
        return Err(Misfit::NotA(ty));
    }
    text.parse()
        .ok()
        .filter(|value| in_unsigned_range(ty, *value))
        .map(Cell::UInt)
        .ok_or(Misfit::OutOfRange(ty))
}

const fn in_range(ty: ColumnType, value: i64) -> bool {
    match ty {
        ColumnType::Int8 => value == value as i8 as i64,
        ColumnType::Int16 => value == value as i16 as i64,
        ColumnType::Int32 => value == value as i32 as i64,
        _ => true,
    }
}

const fn in_unsigned_range(ty: ColumnType, value: u64) -> bool {
    match ty {
        ColumnType::UInt8 => value <= u8::MAX as u64,
        ColumnType::UInt16 => value <= u16::MAX as u64,
        ColumnType::UInt32 => value <= u32::MAX as u64,
        _ => true,
    }
}

fn float(ty: ColumnType, text: &str) -> Result<Cell<'static>, Misfit> {
    if let Some(word) = parse::float_word(text) {
        return Ok(Cell::Float(word));
    }
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    if !unsigned
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
    {
        return Err(Misfit::NotA(ty));
    }
    let value: f64 = unsigned.parse().map_err(|_| Misfit::NotA(ty))?;
    finite(ty, value)
}

fn finite(ty: ColumnType, value: f64) -> Result<Cell<'static>, Misfit> {
    // The text was finite; a value that is not did not fit.
    let fits = if ty == ColumnType::Float32 {
        (value as f32).is_finite()
    } else {
        value.is_finite()
    };
    if fits {
        Ok(Cell::Float(value))
    } else {
        Err(Misfit::OutOfRange(ty))
    }
}

/// The cell of a JSON value, children included. JSON null is null.
pub(super) fn of_json<'a>(column: &TargetColumn, json: &'a JsonValue, nulls: &[String]) -> Result<Cell<'a>, CellError> {
    use ColumnType as T;
    let ty = column.ty;
    let shown = || json.to_string();
    let not = || CellError::new(shown(), Misfit::NotA(ty));
    let cell = match (json, ty) {
        (JsonValue::Null, _) => Cell::Null,
        (JsonValue::Text(word), _) if nulls.contains(word) && ty != T::Text => Cell::Null,
        (JsonValue::Text(text), T::Text) => Cell::Text(Cow::Borrowed(text)),
        (JsonValue::Bool(_) | JsonValue::Int(_) | JsonValue::UInt(_) | JsonValue::Float(_), T::Text) => {
            Cell::Text(Cow::Owned(shown()))
        }
        (JsonValue::Bool(value), T::Bool) => Cell::Bool(*value),
        // A number is the number it is; only the words of a bool column are left out.
        (JsonValue::Int(_) | JsonValue::UInt(_), T::Bool) => return Err(not()),
        (JsonValue::Int(value), T::Float32 | T::Float64) => {
            whole_float(ty, i128::from(*value)).map_err(|misfit| CellError::new(shown(), misfit))?
        }
        (JsonValue::UInt(value), T::Float32 | T::Float64) => {
            whole_float(ty, i128::from(*value)).map_err(|misfit| CellError::new(shown(), misfit))?
        }
        (JsonValue::Float(value), T::Float32 | T::Float64) => {
            finite(ty, *value).map_err(|misfit| CellError::new(shown(), misfit))?
        }
        (
            JsonValue::Float(value),
            T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64,
        ) => {
            // Some tools write whole numbers as 5.0.
            if value.fract() != 0.0 || value.abs() >= 9_007_199_254_740_992.0 {
                return Err(not());
            }
            of_number(ty, &format!("{value:.0}")).map_err(|misfit| CellError::new(shown(), misfit))?
        }
        (JsonValue::Int(_) | JsonValue::UInt(_) | JsonValue::Float(_), _) if !ty.is_nested() && is_numeric(ty) => {
            of_number(ty, &shown()).map_err(|misfit| CellError::new(shown(), misfit))?
        }
        (JsonValue::Text(text), _) if !ty.is_nested() => {
            of_text(ty, text).map_err(|misfit| CellError::new(text, misfit))?
        }
        (JsonValue::List(items), T::List) => {
            let element = column.children.first().ok_or_else(not)?;
            let cells = items
                .iter()
                .map(|item| of_json(element, item, nulls).map_err(|error| error.below("element")));
            Cell::List(cells.collect::<Result<_, _>>()?)
        }
        (JsonValue::Object(pairs), T::Struct) => Cell::Struct(of_object(&column.children, pairs, nulls)?),
        (JsonValue::Object(pairs), T::Map) => {
            let [key, value] = column.children.as_slice() else {
                return Err(not());
            };
            let entry = |(name, json): &'a (String, JsonValue)| {
                let key = of_text(key.ty, name).map_err(|misfit| CellError::new(name, misfit).below("key"))?;
                Ok((key, of_json(value, json, nulls).map_err(|error| error.below("value"))?))
            };
            Cell::Map(pairs.iter().map(entry).collect::<Result<_, CellError>>()?)
        }
        _ => return Err(not()),
    };
    if cell == Cell::Null && !column.nullable {
        return Err(CellError::new("", Misfit::Missing));
    }
    Ok(cell)
}

const fn is_numeric(ty: ColumnType) -> bool {
    use ColumnType as T;
    matches!(
        ty,
        T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 | T::Decimal { .. }
    )
}

fn of_number(ty: ColumnType, text: &str) -> Result<Cell<'static>, Misfit> {
    match ty {
        ColumnType::Decimal { precision, scale } => parse::decimal(text, precision, scale).map(Cell::Decimal),
        ColumnType::UInt8 | ColumnType::UInt16 | ColumnType::UInt32 | ColumnType::UInt64 => unsigned(ty, text),
        _ => signed(ty, text),
    }
}

fn whole_float(ty: ColumnType, value: i128) -> Result<Cell<'static>, Misfit> {
    let float = value as f64;
    if float as i128 == value {
        Ok(Cell::Float(float))
    } else {
        Err(Misfit::Inexact(ty))
    }
}

/// Cells of an object's values in the order of `columns`; keys that no column has are refused.
pub(super) fn of_object<'a>(
    columns: &[TargetColumn],
    pairs: &'a [(String, JsonValue)],
    nulls: &[String],
) -> Result<Vec<Cell<'a>>, CellError> {
    let mut cells: Vec<Option<Cell<'a>>> = columns.iter().map(|_| None).collect();
    let mut expected = 0;
    for (key, json) in pairs {
        // Writers keep the order of keys and at most leave some out, so the search ends close to where it starts.
        let mut order = (expected..columns.len()).chain(0..expected);
        let Some(index) = order.find(|index| columns[*index].name == *key) else {
            return Err(CellError::new(json.to_string(), Misfit::UnknownKey(key.clone())));
        };
        expected = index + 1;
        cells[index] = Some(of_json(&columns[index], json, nulls).map_err(|error| error.below(key))?);
    }
    let fill = |(cell, column): (Option<Cell<'a>>, &TargetColumn)| match cell {
        Some(cell) => Ok(cell),
        None if column.nullable => Ok(Cell::Null),
        None => Err(CellError::new("", Misfit::Missing).below(&column.name)),
    };
    cells.into_iter().zip(columns).map(fill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_cells_of_every_type() {
        use ColumnType as T;
        for (ty, text, cell) in [
            (T::Bool, "1", Cell::Bool(true)),
            (T::Bool, "FALSE", Cell::Bool(false)),
            (T::Int8, "-128", Cell::Int(-128)),
            (T::Int32, "007", Cell::Int(7)),
            (T::Int64, " 5 ", Cell::Int(5)),
            (T::UInt64, "18446744073709551615", Cell::UInt(u64::MAX)),
            (T::Float64, "1e3", Cell::Float(1000.0)),
            (T::Float32, "-inf", Cell::Float(f64::NEG_INFINITY)),
            (T::Decimal { precision: 4, scale: 1 }, "1.5", Cell::Decimal(15)),
            (T::Text, " a ", Cell::Text(" a ".into())),
            (T::Bytes, "\\xab", Cell::Bytes(vec![0xab])),
            (T::Date, "1970-01-02", Cell::Int(1)),
            (T::TimeUs, "00:00:01", Cell::Int(1_000_000)),
            (T::TimestampUs, "1970-01-01T00:00:00Z", Cell::Int(0)),
            (T::TimestampUsLocal, "1970-01-01 00:00", Cell::Int(0)),
        ] {
            assert_eq!(of_text(ty, text), Ok(cell), "{ty} {text}");
        }
    }

    #[test]
    fn texts_that_do_not_fit_say_why() {
        use ColumnType as T;
        for (ty, text, misfit) in [
            (T::Bool, "yes", Misfit::NotA(T::Bool)),
            (T::Int8, "128", Misfit::OutOfRange(T::Int8)),
            (T::Int64, "9223372036854775808", Misfit::OutOfRange(T::Int64)),
            (T::Int64, "5.0", Misfit::NotA(T::Int64)),
            (T::Int64, "", Misfit::NotA(T::Int64)),
            (T::Int64, "1_000", Misfit::NotA(T::Int64)),
            (T::UInt8, "256", Misfit::OutOfRange(T::UInt8)),
            (T::UInt8, "-1", Misfit::OutOfRange(T::UInt8)),
            (T::Float64, "1e999", Misfit::OutOfRange(T::Float64)),
            (T::Float32, "1e39", Misfit::OutOfRange(T::Float32)),
            (T::Float64, "abc", Misfit::NotA(T::Float64)),
            (T::Float64, "1,5", Misfit::NotA(T::Float64)),
            (T::Date, "2013-02-29", Misfit::NotA(T::Date)),
            (T::TimeUs, "25:00", Misfit::NotA(T::TimeUs)),
            (T::TimeUs, "00:00:00.0000001", Misfit::Inexact(T::TimeUs)),
            (T::TimestampUs, "2013-01-01T00:00:00", Misfit::NoZone),
            (T::TimestampUsLocal, "2013-01-01T00:00:00Z", Misfit::HasZone),
            (T::TimestampUs, "2013-01-01", Misfit::NotA(T::TimestampUs)),
            (T::Uuid, "x", Misfit::NotA(T::Uuid)),
            (T::Bytes, "xyz", Misfit::NotA(T::Bytes)),
            (T::List, "[]", Misfit::NotA(T::List)),
        ] {
            assert_eq!(of_text(ty, text), Err(misfit), "{ty} {text}");
        }
    }
}
