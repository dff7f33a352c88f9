//! Which columns have a text that is the same everywhere, and the refusal of all others.

use std::{collections::HashSet, fmt};

use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};

/// Deepest nesting of lists and structs in a published table.
///
/// Rendering recurses by this, and a schema that comes from a file must not choose our stack depth.
const NESTING_MAX: usize = 32;

/// Decimals up to this width are rendered through a double, wider ones exactly.
pub(super) const DECIMAL_DOUBLE_WIDTH_MAX: u8 = 15;
const DECIMAL_WIDTH_MAX: u8 = 38;

const EXTENSION_NAME: &str = "ARROW:extension:name";

/// A table cannot be published, so it has no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A column is the reason.
    #[error("column \"{column}\" of type {data_type} is refused in a published table: {why} (INV-72, GAP-10)")]
    Column {
        /// The column, by its name at the top of the schema.
        column: String,
        /// Its type, or the type inside it that is refused.
        data_type: String,
        /// Why its text is not stable.
        why: Why,
    },
    /// A table without columns has no row text.
    #[error("a table without columns is refused: its rows have no text (INV-72)")]
    NoColumns,
}

impl Refused {
    /// The column at fault.
    pub fn column(&self) -> Option<&str> {
        match self {
            Self::Column { column, .. } => Some(column),
            Self::NoColumns => None,
        }
    }

    /// Why that column is refused.
    pub fn why(&self) -> Option<Why> {
        match self {
            Self::Column { why, .. } => Some(*why),
            Self::NoColumns => None,
        }
    }
}

/// Why a column has no stable text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// Width = scale >= 16.
    #[error("engine releases disagree on the leading zero of a wide decimal without integer digits")]
    DecimalWithoutIntegerDigits,
    /// A width or scale that DuckDB's DECIMAL does not have.
    #[error("DECIMAL has 1 to 38 digits, and a scale from 0 to that")]
    DecimalShape,
    /// Another column, or field of the same struct, has this name.
    #[error("another one has the same name, letter case aside, and an engine would rename one of them")]
    DuplicateName,
    /// The name is empty.
    #[error("it has no name, which an engine would make up")]
    EmptyName,
    /// Named `t`, in either case.
    #[error("a column named t hides the row from to_json(t), so that only it would be hashed")]
    HidesTheRow,
    /// An INT96 timestamp of a Parquet file.
    #[error("engines read INT96 timestamps at different precision")]
    Int96,
    /// JSON text.
    #[error("JSON is parsed and written anew, so its text follows the engine")]
    Json,
    /// TIMESTAMP_S.
    #[error("a timestamp in seconds becomes another type through Parquet; store microseconds")]
    SecondTimestamp,
    /// Deeper than this code renders.
    #[error("lists and structs are nested more than {NESTING_MAX} deep")]
    TooDeep,
    /// TIMESTAMPTZ.
    #[error("the text of an instant follows the session's time zone; store it as a TIMESTAMP in UTC")]
    ZonedTimestamp,
    /// None of the types above, and none that is allowed.
    #[error(
        "only BOOLEAN, integers to 64 bits, DOUBLE, FLOAT, DECIMAL, VARCHAR, DATE, TIMESTAMP, and lists and structs of these have a text that is the same everywhere"
    )]
    UnstableType,
    /// A field that carries an Arrow extension type.
    #[error("an extension type is rendered as its own library sees fit")]
    ExtensionType,
}

/// INV-72, GAP-10: refuses a table with a column whose text is not the same on every engine, naming the column.
pub fn check_schema(schema: &Schema) -> Result<(), Refused> {
    TextSchema::of(schema).map(drop)
}

/// A schema all of whose columns have a stable text, reduced to what that text depends on.
///
/// How Arrow lays out strings or offsets does not belong to it: the batches of one table may differ in that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextSchema {
    pub(super) columns: Vec<TextField>,
}

/// A named column or struct field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextField {
    pub(super) name: String,
    pub(super) text: TextType,
}

/// The types that have a stable text, as the engine names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextType {
    Boolean,
    Date,
    Decimal { width: u8, scale: u8 },
    Double,
    Float,
    Integer { bits: u8, signed: bool },
    List(Box<Self>),
    Struct(Vec<TextField>),
    Timestamp(TimeUnit),
    Varchar,
}

impl TextSchema {
    /// Reads a schema, or refuses it.
    pub fn of(schema: &Schema) -> Result<Self, Refused> {
        if schema.fields().is_empty() {
            return Err(Refused::NoColumns);
        }
        for field in schema.fields() {
            // DuckDB resolves the alias of the definition's `AS t` without regard to case.
            if field.name().eq_ignore_ascii_case("t") {
                return Err(refusal(field.name(), field.data_type(), Why::HidesTheRow));
            }
        }
        let columns = text_fields(None, schema.fields(), 0)?;
        Ok(Self { columns })
    }
}

fn text_fields(column: Option<&str>, fields: &Fields, depth: usize) -> Result<Vec<TextField>, Refused> {
    let mut seen = HashSet::with_capacity(fields.len());
    let mut texts = Vec::with_capacity(fields.len());
    for field in fields {
        // A refusal names the column at the top, however deep the field lies.
        let column = column.unwrap_or_else(|| field.name());
        if field.name().is_empty() {
            return Err(refusal(column, field.data_type(), Why::EmptyName));
        }
        if !seen.insert(field.name().to_ascii_lowercase()) {
            return Err(refusal(column, field.data_type(), Why::DuplicateName));
        }
        let text = text_type(column, field, depth)?;
        let name = field.name().clone();
        texts.push(TextField { name, text });
    }
    Ok(texts)
}

fn text_type(column: &str, field: &Field, depth: usize) -> Result<TextType, Refused> {
    let data_type = field.data_type();
    let refuse = |why| Err(refusal(column, data_type, why));
    if depth > NESTING_MAX {
        // The type is not printed: printing recurses as deep as the type does.
        return Err(Refused::Column {
            column: column.to_owned(),
            data_type: "nested list or struct".to_owned(),
            why: Why::TooDeep,
        });
    }
    if field.metadata().contains_key(EXTENSION_NAME) {
        return refuse(Why::ExtensionType);
    }
    let integer = |bits, signed| Ok(TextType::Integer { bits, signed });
    match data_type {
        DataType::Boolean => Ok(TextType::Boolean),
        DataType::Int8 => integer(8, true),
        DataType::Int16 => integer(16, true),
        DataType::Int32 => integer(32, true),
        DataType::Int64 => integer(64, true),
        DataType::UInt8 => integer(8, false),
        DataType::UInt16 => integer(16, false),
        DataType::UInt32 => integer(32, false),
        DataType::UInt64 => integer(64, false),
        DataType::Float32 => Ok(TextType::Float),
        DataType::Float64 => Ok(TextType::Double),
        DataType::Decimal32(width, scale) | DataType::Decimal64(width, scale) | DataType::Decimal128(width, scale) => {
            match decimal(*width, *scale) {
                Ok(text) => Ok(text),
                Err(why) => refuse(why),
            }
        }
        DataType::Decimal256(..) => refuse(Why::DecimalShape),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(TextType::Varchar),
        DataType::Dictionary(_, values) => match values.as_ref() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(TextType::Varchar),
            _ => refuse(Why::UnstableType),
        },
        DataType::Date32 => Ok(TextType::Date),
        DataType::Timestamp(_, Some(_)) => refuse(Why::ZonedTimestamp),
        DataType::Timestamp(TimeUnit::Second, None) => refuse(Why::SecondTimestamp),
        DataType::Timestamp(unit, None) => Ok(TextType::Timestamp(*unit)),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Ok(TextType::List(Box::new(text_type(column, item, depth + 1)?)))
        }
        // DuckDB has no struct without fields.
        DataType::Struct(fields) if fields.is_empty() => refuse(Why::UnstableType),
        DataType::Struct(fields) => Ok(TextType::Struct(text_fields(Some(column), fields, depth + 1)?)),
        _ => refuse(Why::UnstableType),
    }
}

fn decimal(width: u8, scale: i8) -> Result<TextType, Why> {
    let scale = u8::try_from(scale).map_err(|_| Why::DecimalShape)?;
    if width == 0 || width > DECIMAL_WIDTH_MAX || scale > width {
        return Err(Why::DecimalShape);
    }
    if width == scale && width > DECIMAL_DOUBLE_WIDTH_MAX {
        return Err(Why::DecimalWithoutIntegerDigits);
    }
    Ok(TextType::Decimal { width, scale })
}

fn refusal(column: &str, data_type: &DataType, why: Why) -> Refused {
    Refused::Column {
        column: column.to_owned(),
        data_type: type_name(data_type),
        why,
    }
}

/// The type as people who publish tables know it.
fn type_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BLOB",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMPTZ",
        DataType::Timestamp(TimeUnit::Second, None) => "TIMESTAMP_S",
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL",
        DataType::Map(..) => "MAP",
        DataType::Union(..) => "UNION",
        DataType::Decimal32(width, scale) | DataType::Decimal64(width, scale) | DataType::Decimal128(width, scale) => {
            return format!("DECIMAL({width},{scale})");
        }
        other => return other.to_string(),
    };
    name.to_owned()
}

impl fmt::Display for TextSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_fields(&self.columns, f)
    }
}

fn write_fields(fields: &[TextField], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("(")?;
    for (position, field) in fields.iter().enumerate() {
        let comma = if position == 0 { "" } else { ", " };
        write!(f, "{comma}\"{}\" {}", field.name, field.text)?;
    }
    f.write_str(")")
}

impl fmt::Display for TextType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("BOOLEAN"),
            Self::Date => f.write_str("DATE"),
            Self::Decimal { width, scale } => write!(f, "DECIMAL({width},{scale})"),
            Self::Double => f.write_str("DOUBLE"),
            Self::Float => f.write_str("FLOAT"),
            Self::Integer { bits, signed } => write!(f, "{}INT{bits}", if *signed { "" } else { "U" }),
            Self::List(item) => write!(f, "{item}[]"),
            Self::Struct(fields) => {
                f.write_str("STRUCT")?;
                write_fields(fields, f)
            }
            Self::Timestamp(TimeUnit::Nanosecond) => f.write_str("TIMESTAMP_NS"),
            Self::Timestamp(TimeUnit::Millisecond) => f.write_str("TIMESTAMP_MS"),
            Self::Timestamp(_) => f.write_str("TIMESTAMP"),
            Self::Varchar => f.write_str("VARCHAR"),
        }
    }
}
