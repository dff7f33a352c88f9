//! The columns of one batch, ready to write any cell.

use std::ops::Range;

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, FixedSizeListArray, GenericListArray,
        LargeStringArray, OffsetSizeTrait, StringArray, StringViewArray,
    },
    buffer::{NullBuffer, OffsetBuffer, ScalarBuffer},
    datatypes::{
        DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
        Int16Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};

use super::scalar::{
    ValueProblem, write_boolean, write_date, write_double, write_integer, write_key, write_narrow_decimal, write_null,
    write_string, write_timestamp, write_wide_decimal,
};
use crate::fingerprint::schema::{DECIMAL_DOUBLE_WIDTH_MAX, TextField, TextType};

/// One column of a batch: its nulls, and its values by how Arrow lays them out.
pub(super) struct Cells {
    nulls: Option<NullBuffer>,
    values: Values,
}

enum Values {
    Boolean(BooleanArray),
    Date(ScalarBuffer<i32>),
    Decimal32 {
        unscaled: ScalarBuffer<i32>,
        shape: DecimalShape,
    },
    Decimal64 {
        unscaled: ScalarBuffer<i64>,
        shape: DecimalShape,
    },
    Decimal128 {
        unscaled: ScalarBuffer<i128>,
        shape: DecimalShape,
    },
    Dictionary(Dictionary),
    FixedSizeList {
        length: usize,
        items: Box<Cells>,
    },
    Float32(ScalarBuffer<f32>),
    Float64(ScalarBuffer<f64>),
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    LargeList {
        offsets: OffsetBuffer<i64>,
        items: Box<Cells>,
    },
    LargeString(LargeStringArray),
    List {
        offsets: OffsetBuffer<i32>,
        items: Box<Cells>,
    },
    String(StringArray),
    StringView(StringViewArray),
    Struct(Object),
    Timestamp {
        values: ScalarBuffer<i64>,
        unit: TimeUnit,
    },
    UInt8(ScalarBuffer<u8>),
    UInt16(ScalarBuffer<u16>),
    UInt32(ScalarBuffer<u32>),
    UInt64(ScalarBuffer<u64>),
}

/// The layout of an array is not the one its column's type has.
pub(super) struct LayoutDiffers;

impl Cells {
    pub(super) fn new(text: &TextType, array: &ArrayRef) -> Result<Self, LayoutDiffers> {
        Ok(Self {
            nulls: array.nulls().cloned(),
            values: Values::new(text, array)?,
        })
    }

    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), ValueProblem> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            write_null(out);
            return Ok(());
        }
        match &self.values {
            Values::Boolean(values) => write_boolean(values.value(row), out),
            Values::Date(values) => write_date(values[row], out)?,
            Values::Decimal32 { unscaled, shape } => shape.write(unscaled[row].into(), out)?,
            Values::Decimal64 { unscaled, shape } => shape.write(unscaled[row].into(), out)?,
            Values::Decimal128 { unscaled, shape } => shape.write(unscaled[row], out)?,
            Values::Dictionary(values) => values.write(row, out)?,
            Values::FixedSizeList { length, items } => write_list(items, row * length..(row + 1) * length, out)?,
            // INV-72: a FLOAT is widened first, so 0.1 shows the digits of its nearest single.
            Values::Float32(values) => write_double(values[row].into(), out),
            Values::Float64(values) => write_double(values[row], out),
            Values::Int8(values) => write_integer(values[row], out),
            Values::Int16(values) => write_integer(values[row], out),
            Values::Int32(values) => write_integer(values[row], out),
            Values::Int64(values) => write_integer(values[row], out),
            Values::LargeList { offsets, items } => write_list(items, range(offsets, row), out)?,
            Values::LargeString(values) => write_string(values.value(row), out),
            Values::List { offsets, items } => write_list(items, range(offsets, row), out)?,
            Values::String(values) => write_string(values.value(row), out),
            Values::StringView(values) => write_string(values.value(row), out),
            Values::Struct(object) => object.write(row, out).map_err(|(_, problem)| problem)?,
            Values::Timestamp { values, unit } => write_timestamp(values[row], *unit, out)?,
            Values::UInt8(values) => write_integer(values[row], out),
            Values::UInt16(values) => write_integer(values[row], out),
            Values::UInt32(values) => write_integer(values[row], out),
            Values::UInt64(values) => write_integer(values[row], out),
        }
        Ok(())
    }
}

fn write_list(items: &Cells, range: Range<usize>, out: &mut Vec<u8>) -> Result<(), ValueProblem> {
    out.push(b'[');
    for (position, item) in range.enumerate() {
        if position > 0 {
            out.push(b',');
        }
        items.write(item, out)?;
    }
    out.push(b']');
    Ok(())
}

fn range<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, row: usize) -> Range<usize> {
    offsets[row].as_usize()..offsets[row + 1].as_usize()
}

impl Values {
    fn new(text: &TextType, array: &ArrayRef) -> Result<Self, LayoutDiffers> {
        let values = match (text, array.data_type()) {
            (TextType::Boolean, DataType::Boolean) => Self::Boolean(array.as_boolean().clone()),
            (TextType::Integer { bits, signed }, _) => return integers(*bits, *signed, array),
            (TextType::Float, DataType::Float32) => Self::Float32(primitive::<Float32Type>(array)?),
            (TextType::Double, DataType::Float64) => Self::Float64(primitive::<Float64Type>(array)?),
            (TextType::Date, DataType::Date32) => Self::Date(primitive::<Date32Type>(array)?),
            (TextType::Decimal { width, scale }, data_type) => {
                let shape = DecimalShape::new(*width, *scale);
                match data_type {
                    DataType::Decimal32(..) => Self::Decimal32 {
                        unscaled: primitive::<Decimal32Type>(array)?,
                        shape,
                    },
                    DataType::Decimal64(..) => Self::Decimal64 {
                        unscaled: primitive::<Decimal64Type>(array)?,
                        shape,
                    },
                    _ => Self::Decimal128 {
                        unscaled: primitive::<Decimal128Type>(array)?,
                        shape,
                    },
                }
            }
            (TextType::Timestamp(unit), DataType::Timestamp(_, None)) => Self::Timestamp {
                values: match unit {
                    TimeUnit::Millisecond => primitive::<TimestampMillisecondType>(array)?,
                    TimeUnit::Nanosecond => primitive::<TimestampNanosecondType>(array)?,
                    _ => primitive::<TimestampMicrosecondType>(array)?,
                },
                unit: *unit,
            },
            (TextType::Varchar, DataType::Utf8) => Self::String(array.as_string().clone()),
            (TextType::Varchar, DataType::LargeUtf8) => Self::LargeString(array.as_string().clone()),
            (TextType::Varchar, DataType::Utf8View) => Self::StringView(array.as_string_view().clone()),
            (TextType::Varchar, DataType::Dictionary(..)) => Self::Dictionary(Dictionary::new(text, array)?),
            (TextType::List(item), DataType::List(_)) => {
                let list: &GenericListArray<i32> = array.as_list();
                Self::List {
                    offsets: list.offsets().clone(),
                    items: Box::new(Cells::new(item, list.values())?),
                }
            }
            (TextType::List(item), DataType::LargeList(_)) => {
                let list: &GenericListArray<i64> = array.as_list();
                Self::LargeList {
                    offsets: list.offsets().clone(),
                    items: Box::new(Cells::new(item, list.values())?),
                }
            }
            (TextType::List(item), DataType::FixedSizeList(..)) => {
                let list: &FixedSizeListArray = array.as_fixed_size_list();
                Self::FixedSizeList {
                    length: usize::try_from(list.value_length()).map_err(|_| LayoutDiffers)?,
                    items: Box::new(Cells::new(item, list.values())?),
                }
            }
            (TextType::Struct(fields), DataType::Struct(_)) => {
                Self::Struct(Object::new(fields, array.as_struct().columns())?)
            }
            _ => return Err(LayoutDiffers),
        };
        Ok(values)
    }
}

fn integers(bits: u8, signed: bool, array: &ArrayRef) -> Result<Values, LayoutDiffers> {
    Ok(match (bits, signed) {
        (8, true) => Values::Int8(primitive::<Int8Type>(array)?),
        (16, true) => Values::Int16(primitive::<Int16Type>(array)?),
        (32, true) => Values::Int32(primitive::<Int32Type>(array)?),
        (64, true) => Values::Int64(primitive::<Int64Type>(array)?),
        (8, false) => Values::UInt8(primitive::<UInt8Type>(array)?),
        (16, false) => Values::UInt16(primitive::<UInt16Type>(array)?),
        (32, false) => Values::UInt32(primitive::<UInt32Type>(array)?),
        (64, false) => Values::UInt64(primitive::<UInt64Type>(array)?),
        _ => return Err(LayoutDiffers),
    })
}

fn primitive<T: ArrowPrimitiveType>(array: &ArrayRef) -> Result<ScalarBuffer<T::Native>, LayoutDiffers> {
    let array = array.as_primitive_opt::<T>().ok_or(LayoutDiffers)?;
    Ok(array.values().clone())
}

/// Width and scale of a DECIMAL column, and how many digits its values may have.
#[derive(Clone, Copy)]
struct DecimalShape {
    scale: u8,
    narrow: bool,
    /// 10^width: no value reaches it.
    limit: u128,
}

impl DecimalShape {
    fn new(width: u8, scale: u8) -> Self {
        Self {
            scale,
            narrow: width <= DECIMAL_DOUBLE_WIDTH_MAX,
            // The schema has at most 38 digits, and 10^38 fits.
            limit: 10u128.saturating_pow(width.into()),
        }
    }

    fn write(self, unscaled: i128, out: &mut Vec<u8>) -> Result<(), ValueProblem> {
        if unscaled.unsigned_abs() >= self.limit {
            return Err(ValueProblem::DecimalTooWide);
        }
        match i64::try_from(unscaled) {
            Ok(unscaled) if self.narrow => write_narrow_decimal(unscaled, self.scale, out),
            _ => write_wide_decimal(unscaled, self.scale, out),
        }
        Ok(())
    }
}

/// Strings as numbers into a list of distinct ones.
struct Dictionary {
    /// Into the entries, for every row; a null row has any number.
    keys: Vec<usize>,
    entries: Entries,
}

enum Entries {
    /// Each entry's text, written once: dimensions of a table have few codes and many rows.
    Written { texts: Vec<u8>, ends: Vec<usize> },
    /// More entries than rows, as in a slice of a large batch: written when asked for.
    Cells(Box<Cells>),
}

impl Dictionary {
    fn new(text: &TextType, array: &ArrayRef) -> Result<Self, LayoutDiffers> {
        let array = array.as_any_dictionary_opt().ok_or(LayoutDiffers)?;
        let cells = Cells::new(text, array.values())?;
        let count = array.values().len();
        // Without entries every row is null, and no key is looked up.
        let keys = if count == 0 {
            Vec::new()
        } else {
            array.normalized_keys()
        };
        if count > keys.len() {
            let entries = Entries::Cells(Box::new(cells));
            return Ok(Self { keys, entries });
        }
        let mut texts = Vec::new();
        let mut ends = Vec::with_capacity(count);
        for entry in 0..count {
            // Entries are strings, and every string has a text.
            cells.write(entry, &mut texts).map_err(|_| LayoutDiffers)?;
            ends.push(texts.len());
        }
        let entries = Entries::Written { texts, ends };
        Ok(Self { keys, entries })
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), ValueProblem> {
        let key = self.keys[row];
        match &self.entries {
            Entries::Cells(cells) => cells.write(key, out),
            Entries::Written { texts, ends } => {
                let start = key.checked_sub(1).map_or(0, |before| ends[before]);
                out.extend_from_slice(&texts[start..ends[key]]);
                Ok(())
            }
        }
    }
}

/// Named cells side by side: a row, or a struct in one.
pub(super) struct Object {
    members: Vec<Member>,
}

struct Member {
    /// The brace or comma before the key, the key, the colon.
    lead: Vec<u8>,
    cells: Cells,
}

impl Object {
    pub(super) fn new(fields: &[TextField], arrays: &[ArrayRef]) -> Result<Self, LayoutDiffers> {
        if fields.len() != arrays.len() {
            return Err(LayoutDiffers);
        }
        let mut members = Vec::with_capacity(fields.len());
        for (position, (field, array)) in fields.iter().zip(arrays).enumerate() {
            let mut lead = vec![if position == 0 { b'{' } else { b',' }];
            write_key(&field.name, &mut lead);
            let cells = Cells::new(&field.text, array)?;
            members.push(Member { lead, cells });
        }
        Ok(Self { members })
    }

    /// Writes `{"key":value,…}`; a problem comes with the position of its member.
    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), (usize, ValueProblem)> {
        for (position, member) in self.members.iter().enumerate() {
            out.extend_from_slice(&member.lead);
            member.cells.write(row, out).map_err(|problem| (position, problem))?;
        }
        out.push(b'}');
        Ok(())
    }
}
