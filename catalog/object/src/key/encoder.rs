//! Canonical bytes straight from Arrow arrays, for identities and row digests.

use std::ops::Range;

use arrow::{
    array::{
        Array, AsArray as _, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray,
        LargeStringArray, ListArray, MapArray, PrimitiveArray, RecordBatch, StringArray, StringViewArray, StructArray,
    },
    datatypes::{
        ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, UInt8Type, UInt16Type,
        UInt32Type, UInt64Type,
    },
};

use super::{KeyError, MAX_IDENTITY_BYTES, tag, value};
use crate::types::{Column, ColumnNode, ColumnType, SOURCE_INDEX_FIELD_ID, child_index, tree};

/// Encodes the values of one array, resolved once so that a row costs no type dispatch over `dyn`.
#[derive(Debug)]
pub struct ColumnEncoder<'a> {
    array: &'a dyn Array,
    pub(super) values: Values<'a>,
}

#[derive(Debug)]
pub(super) enum Values<'a> {
    Bool(&'a BooleanArray),
    Int8(&'a PrimitiveArray<Int8Type>),
    Int16(&'a PrimitiveArray<Int16Type>),
    Int32(&'a PrimitiveArray<Int32Type>),
    Int64(&'a PrimitiveArray<Int64Type>),
    UInt8(&'a PrimitiveArray<UInt8Type>),
    UInt16(&'a PrimitiveArray<UInt16Type>),
    UInt32(&'a PrimitiveArray<UInt32Type>),
    UInt64(&'a PrimitiveArray<UInt64Type>),
    Float32(&'a PrimitiveArray<Float32Type>),
    Float64(&'a PrimitiveArray<Float64Type>),
    Decimal(&'a PrimitiveArray<Decimal128Type>),
    Date(&'a PrimitiveArray<Date32Type>),
    Time(&'a PrimitiveArray<Time64MicrosecondType>),
    Timestamp(&'a PrimitiveArray<TimestampMicrosecondType>),
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
    TextView(&'a StringViewArray),
    Bytes(&'a BinaryArray),
    LargeBytes(&'a LargeBinaryArray),
    BytesView(&'a BinaryViewArray),
    Uuid(&'a FixedSizeBinaryArray),
    List(&'a ListArray, Box<ColumnEncoder<'a>>),
    Map(&'a MapArray, Box<[ColumnEncoder<'a>; 2]>),
    Struct(Vec<ColumnEncoder<'a>>),
}

impl<'a> ColumnEncoder<'a> {
    /// Looks at `array` as a column of `node`'s type. Query engines hand text and bytes in wider layouts; those are taken too.
    pub fn new(node: &ColumnNode<'_>, array: &'a dyn Array) -> Result<Self, KeyError> {
        let column = node.column;
        let mismatch = || KeyError::ArrayType {
            column: column.name.clone(),
            ty: column.ty,
            found: array.data_type().to_string(),
        };
        let values = match (column.ty, array.data_type()) {
            (ColumnType::Bool, DataType::Boolean) => Values::Bool(array.as_boolean()),
            (ColumnType::Int8, DataType::Int8) => Values::Int8(array.as_primitive()),
            (ColumnType::Int16, DataType::Int16) => Values::Int16(array.as_primitive()),
            (ColumnType::Int32, DataType::Int32) => Values::Int32(array.as_primitive()),
            (ColumnType::Int64, DataType::Int64) => Values::Int64(array.as_primitive()),
            (ColumnType::UInt8, DataType::UInt8) => Values::UInt8(array.as_primitive()),
            (ColumnType::UInt16, DataType::UInt16) => Values::UInt16(array.as_primitive()),
            (ColumnType::UInt32, DataType::UInt32) => Values::UInt32(array.as_primitive()),
            (ColumnType::UInt64, DataType::UInt64) => Values::UInt64(array.as_primitive()),
            (ColumnType::Float32, DataType::Float32) => Values::Float32(array.as_primitive()),
            (ColumnType::Float64, DataType::Float64) => Values::Float64(array.as_primitive()),
            // The scale is part of the meaning: unscaled values of another scale would be other numbers.
            (ColumnType::Decimal { scale, .. }, DataType::Decimal128(_, found))
                if i16::from(scale) == i16::from(*found) =>
            {
                Values::Decimal(array.as_primitive())
            }
            (ColumnType::Date, DataType::Date32) => Values::Date(array.as_primitive()),
            (ColumnType::TimeUs, DataType::Time64(TimeUnit::Microsecond)) => Values::Time(array.as_primitive()),
            (ColumnType::TimestampUs, DataType::Timestamp(TimeUnit::Microsecond, Some(_)))
            | (ColumnType::TimestampUsLocal, DataType::Timestamp(TimeUnit::Microsecond, None)) => {
                Values::Timestamp(array.as_primitive())
            }
            (ColumnType::Text, DataType::Utf8) => Values::Text(array.as_string()),
            (ColumnType::Text, DataType::LargeUtf8) => Values::LargeText(array.as_string()),
            (ColumnType::Text, DataType::Utf8View) => Values::TextView(array.as_string_view()),
            (ColumnType::Bytes, DataType::Binary) => Values::Bytes(array.as_binary()),
            (ColumnType::Bytes, DataType::LargeBinary) => Values::LargeBytes(array.as_binary()),
            (ColumnType::Bytes, DataType::BinaryView) => Values::BytesView(array.as_binary_view()),
            (ColumnType::Uuid, DataType::FixedSizeBinary(16)) => Values::Uuid(array.as_fixed_size_binary()),
            (ColumnType::List, DataType::List(_)) => {
                let list = array.as_list::<i32>();
                let [item] = node.children.as_slice() else {
                    return Err(mismatch());
                };
                Values::List(list, Box::new(Self::new(item, list.values())?))
            }
            (ColumnType::Map, DataType::Map(..)) => {
                let map = array.as_map();
                let [key, value] = node.children.as_slice() else {
                    return Err(mismatch());
                };
                Values::Map(
                    map,
                    Box::new([Self::new(key, map.keys())?, Self::new(value, map.values())?]),
                )
            }
            (ColumnType::Struct, DataType::Struct(_)) => Values::Struct(children(node, array.as_struct())?),
            _ => return Err(mismatch()),
        };
        Ok(Self { array, values })
    }

    /// Whether the row has no value.
    pub fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row)
    }

    /// Appends the canonical bytes of a row's value, 00 for null.
    pub fn encode(&self, row: usize, out: &mut Vec<u8>) {
        self.encode_each(row..row + 1, std::slice::from_mut(out));
    }

    /// Appends the bytes of each of the `rows` to an `out` of its own. One look at the type serves all rows.
    pub fn encode_each(&self, rows: Range<usize>, out: &mut [Vec<u8>]) {
        let outs = rows.zip(out);
        match &self.values {
            Values::Bool(array) => each(*array, outs, |out, row| value::put_bool(out, array.value(row))),
            Values::Int8(array) => signed(array, tag::INT, outs),
            Values::Int16(array) => signed(array, tag::INT, outs),
            Values::Int32(array) => signed(array, tag::INT, outs),
            Values::Int64(array) => signed(array, tag::INT, outs),
            Values::UInt8(array) => unsigned(array, outs),
            Values::UInt16(array) => unsigned(array, outs),
            Values::UInt32(array) => unsigned(array, outs),
            Values::UInt64(array) => unsigned(array, outs),
            Values::Float32(array) => each(*array, outs, |out, row| {
                value::put_float(out, f64::from(array.value(row)));
            }),
            Values::Float64(array) => each(*array, outs, |out, row| value::put_float(out, array.value(row))),
            Values::Decimal(array) => each(*array, outs, |out, row| value::put_decimal(out, array.value(row))),
            Values::Date(array) => each(*array, outs, |out, row| value::put_date(out, array.value(row))),
            Values::Time(array) => signed(array, tag::TIME, outs),
            Values::Timestamp(array) => signed(array, tag::TIMESTAMP, outs),
            Values::Text(array) => each(*array, outs, |out, row| {
                value::put_escaped(out, tag::TEXT, array.value(row).as_bytes());
            }),
            Values::LargeText(array) => each(*array, outs, |out, row| {
                value::put_escaped(out, tag::TEXT, array.value(row).as_bytes());
            }),
            Values::TextView(array) => each(*array, outs, |out, row| {
                value::put_escaped(out, tag::TEXT, array.value(row).as_bytes());
            }),
            Values::Bytes(array) => each(*array, outs, |out, row| {
                value::put_escaped(out, tag::BYTES, array.value(row));
            }),
            Values::LargeBytes(array) => each(*array, outs, |out, row| {
                value::put_escaped(out, tag::BYTES, array.value(row));
            }),
            Values::BytesView(array) => each(*array, outs, |out, row| {
                value::put_escaped(out, tag::BYTES, array.value(row));
            }),
            Values::Uuid(array) => each(*array, outs, |out, row| {
                out.push(tag::UUID);
                out.extend_from_slice(array.value(row));
            }),
            Values::List(array, items) => each(*array, outs, |out, row| {
                let offsets = array.value_offsets();
                let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                value::put_list(out, end - start);
                (start..end).for_each(|item| items.encode(item, out));
            }),
            Values::Map(array, pair) => each(*array, outs, |out, row| {
                let offsets = array.value_offsets();
                let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                value::put_list(out, end - start);
                for entry in start..end {
                    out.push(tag::STRUCT);
                    pair.iter().for_each(|item| item.encode(entry, out));
                }
            }),
            Values::Struct(children) => each(self.array, outs, |out, row| {
                out.push(tag::STRUCT);
                children.iter().for_each(|child| child.encode(row, out));
            }),
        }
    }
}

/// Puts each row that has a value, and the null tag for the others.
fn each<'o>(
    array: &dyn Array,
    outs: impl Iterator<Item = (usize, &'o mut Vec<u8>)>,
    put: impl Fn(&mut Vec<u8>, usize),
) {
    match array.nulls() {
        None => outs.for_each(|(row, out)| put(out, row)),
        Some(nulls) => outs.for_each(|(row, out)| match nulls.is_null(row) {
            true => out.push(tag::NULL),
            false => put(out, row),
        }),
    }
}

fn signed<'o, T: ArrowPrimitiveType<Native: Into<i64>>>(
    array: &PrimitiveArray<T>,
    tag: u8,
    outs: impl Iterator<Item = (usize, &'o mut Vec<u8>)>,
) {
    each(array, outs, |out, row| {
        value::put_signed(out, tag, array.value(row).into());
    });
}

fn unsigned<'o, T: ArrowPrimitiveType<Native: Into<u64>>>(
    array: &PrimitiveArray<T>,
    outs: impl Iterator<Item = (usize, &'o mut Vec<u8>)>,
) {
    each(array, outs, |out, row| {
        value::put_unsigned(out, array.value(row).into())
    });
}

/// Encoders of a struct's children, by field id as the digest asks.
fn children<'a>(node: &ColumnNode<'_>, array: &'a StructArray) -> Result<Vec<ColumnEncoder<'a>>, KeyError> {
    let mut nodes: Vec<&ColumnNode<'_>> = node.children.iter().collect();
    nodes.sort_by_key(|child| child.column.field_id);
    let find = |child: &ColumnNode<'_>| {
        let index = child_index(array.fields(), child.column);
        let index = index.ok_or_else(|| KeyError::MissingColumn(child.column.name.clone()))?;
        ColumnEncoder::new(child, array.column(index).as_ref())
    };
    nodes.into_iter().map(find).collect()
}

fn top_level<'a>(node: &ColumnNode<'_>, batch: &'a RecordBatch) -> Result<ColumnEncoder<'a>, KeyError> {
    let index = child_index(batch.schema_ref().fields(), node.column);
    let index = index.ok_or_else(|| KeyError::MissingColumn(node.column.name.clone()))?;
    ColumnEncoder::new(node, batch.column(index).as_ref())
}

/// Canonical bytes of whole rows of one batch: top-level columns by field id, the hidden source column left out
/// (SOP §2.13).
#[derive(Debug)]
pub struct RowEncoder<'a>(Vec<ColumnEncoder<'a>>);

impl<'a> RowEncoder<'a> {
    /// Finds `columns` in the batch by field id, or by name where the batch carries no ids.
    pub fn new(columns: &[Column], batch: &'a RecordBatch) -> Result<Self, KeyError> {
        let columns: Vec<Column> = columns
            .iter()
            .filter(|column| column.field_id != SOURCE_INDEX_FIELD_ID)
            .cloned()
            .collect();
        let mut nodes = tree(&columns)?;
        nodes.sort_by_key(|node| node.column.field_id);
        nodes
            .iter()
            .map(|node| top_level(node, batch))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Appends the bytes of each of the `rows` to an `out` of its own, column by column.
    pub fn encode_each(&self, rows: Range<usize>, out: &mut [Vec<u8>]) {
        for column in &self.0 {
            column.encode_each(rows.clone(), out);
        }
    }
}

/// Row identities of one batch, in the order of the genesis identity list (SOP §2.10).
#[derive(Debug)]
pub struct IdentityEncoder<'a>(Vec<(String, ColumnEncoder<'a>)>);

impl<'a> IdentityEncoder<'a> {
    /// Takes the identity columns in their order. Floats and nested types are refused.
    pub fn new(identity: &[&Column], batch: &'a RecordBatch) -> Result<Self, KeyError> {
        let encoder = |column: &&Column| {
            if !column.ty.is_identity() {
                return Err(KeyError::Type(column.ty));
            }
            let node = ColumnNode {
                column,
                children: Vec::new(),
            };
            Ok((column.name.clone(), top_level(&node, batch)?))
        };
        identity.iter().map(encoder).collect::<Result<_, _>>().map(Self)
    }

    /// Writes the identity of one row into `out`, whatever it held before (SOP-237: null and overlong are refused by row).
    pub fn encode(&self, row: usize, out: &mut Vec<u8>) -> Result<(), KeyError> {
        out.clear();
        for (name, column) in &self.0 {
            if column.is_null(row) {
                return Err(KeyError::Null {
                    row,
                    column: name.clone(),
                });
            }
            column.encode(row, out);
        }
        if out.len() > MAX_IDENTITY_BYTES {
            return Err(KeyError::TooLong { row, bytes: out.len() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{ArrayRef, Int64Array, MapBuilder, StringBuilder},
        buffer::{NullBuffer, OffsetBuffer},
        datatypes::{Field, Schema},
    };

    use super::*;
    use crate::{
        key::{Value, decode_identity},
        types::schema_of_columns,
    };

    fn batch(columns: &[Column], arrays: Vec<ArrayRef>) -> RecordBatch {
        RecordBatch::try_new(Arc::new(schema_of_columns(columns).unwrap()), arrays).unwrap()
    }

    fn row(encoder: &RowEncoder<'_>, row: usize) -> Vec<u8> {
        let mut out = Vec::new();
        encoder.encode_each(row..row + 1, std::slice::from_mut(&mut out));
        out
    }

    fn bytes(values: &[Value]) -> Vec<u8> {
        values.iter().flat_map(Value::to_bytes).collect()
    }

    #[test]
    fn rows_are_encoded_by_field_id_not_by_position() {
        let columns = [
            Column::new(2, "b", ColumnType::Text, true),
            Column::new(1, "a", ColumnType::Int64, true),
        ];
        let batch = batch(
            &columns,
            vec![
                Arc::new(StringArray::from(vec![Some("x"), None])),
                Arc::new(Int64Array::from(vec![1, 2])),
            ],
        );
        let encoder = RowEncoder::new(&columns, &batch).unwrap();
        assert_eq!(row(&encoder, 0), bytes(&[Value::Int(1), Value::Text("x".into())]));
        assert_eq!(row(&encoder, 1), bytes(&[Value::Int(2), Value::Null]));
    }

    #[test]
    fn nested_values_follow_the_rule() {
        let columns = [
            Column::new(1, "l", ColumnType::List, true),
            Column::new(2, "element", ColumnType::Int64, true).within(1),
            Column::new(3, "s", ColumnType::Struct, true),
            Column::new(5, "late", ColumnType::Text, true).within(3),
            Column::new(4, "early", ColumnType::Int64, true).within(3),
        ];
        let schema = schema_of_columns(&columns).unwrap();
        let DataType::List(element) = schema.field(0).data_type().clone() else {
            panic!("list expected")
        };
        let DataType::Struct(fields) = schema.field(1).data_type().clone() else {
            panic!("struct expected")
        };
        let list = ListArray::new(
            element,
            OffsetBuffer::new(vec![0, 2, 2, 3].into()),
            Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])),
            Some(NullBuffer::from(vec![true, true, false])),
        );
        let inner: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec!["a", "b", "c"])),
            Arc::new(Int64Array::from(vec![7, 8, 9])),
        ];
        let structs = StructArray::new(fields, inner, Some(NullBuffer::from(vec![true, false, true])));
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(list), Arc::new(structs)]).unwrap();
        let encoder = RowEncoder::new(&columns, &batch).unwrap();
        let row_struct = |n, s: &str| Value::Struct(vec![Value::Int(n), Value::Text(s.into())]);
        let list = |items: &[Value]| Value::List(items.to_vec());
        assert_eq!(
            row(&encoder, 0),
            bytes(&[list(&[Value::Int(1), Value::Null]), row_struct(7, "a")])
        );
        assert_eq!(row(&encoder, 1), bytes(&[list(&[]), Value::Null]));
        assert_eq!(row(&encoder, 2), bytes(&[Value::Null, row_struct(9, "c")]));
        // A slice of the batch gives the same bytes as the rows it was cut from.
        let cut = batch.slice(2, 1);
        assert_eq!(row(&RowEncoder::new(&columns, &cut).unwrap(), 0), row(&encoder, 2));
    }

    #[test]
    fn a_map_is_a_list_of_pairs() {
        let mut builder = MapBuilder::new(None, StringBuilder::new(), arrow::array::Int64Builder::new());
        builder.keys().append_value("k");
        builder.values().append_value(1);
        builder.append(true).unwrap();
        let map = builder.finish();
        let columns = [
            Column::new(1, "m", ColumnType::Map, true),
            Column::new(2, "key", ColumnType::Text, false).within(1),
            Column::new(3, "value", ColumnType::Int64, true).within(1),
        ];
        let batch = RecordBatch::try_new(
            Arc::new(Schema::new(vec![Field::new("m", map.data_type().clone(), true)])),
            vec![Arc::new(map)],
        )
        .unwrap();
        let expected = Value::List(vec![Value::Struct(vec![Value::Text("k".into()), Value::Int(1)])]);
        assert_eq!(row(&RowEncoder::new(&columns, &batch).unwrap(), 0), expected.to_bytes());
    }

    /// The first value of a column without children.
    fn encode(column: &Column, array: &dyn Array) -> Vec<u8> {
        let mut out = Vec::new();
        let node = ColumnNode {
            column,
            children: Vec::new(),
        };
        ColumnEncoder::new(&node, array).unwrap().encode(0, &mut out);
        out
    }

    #[test]
    fn every_layout_of_text_and_bytes_gives_the_same_bytes() {
        let text = Column::new(1, "t", ColumnType::Text, true);
        let data = Column::new(1, "t", ColumnType::Bytes, true);
        let expected = Value::Text("ab".into()).to_bytes();
        assert_eq!(encode(&text, &StringArray::from(vec!["ab"])), expected);
        assert_eq!(encode(&text, &LargeStringArray::from(vec!["ab"])), expected);
        assert_eq!(encode(&text, &StringViewArray::from(vec!["ab"])), expected);
        let expected = Value::Bytes(b"ab".to_vec()).to_bytes();
        assert_eq!(encode(&data, &BinaryArray::from(vec![&b"ab"[..]])), expected);
        assert_eq!(encode(&data, &LargeBinaryArray::from(vec![&b"ab"[..]])), expected);
        assert_eq!(encode(&data, &BinaryViewArray::from(vec![&b"ab"[..]])), expected);
    }

    #[test]
    fn widening_an_integer_changes_no_byte() {
        let narrow = Column::new(1, "n", ColumnType::Int8, true);
        let wide = Column::new(1, "n", ColumnType::Int64, true);
        let small = PrimitiveArray::<Int8Type>::from(vec![-5]);
        assert_eq!(encode(&narrow, &small), encode(&wide, &Int64Array::from(vec![-5])));
    }

    /// SOP-237: null, wrong type and overlong identities are refused, with the row.
    #[test]
    fn identities_refuse_what_the_rule_forbids() {
        let id = Column::new(1, "id", ColumnType::Text, true);
        let long = "x".repeat(1023);
        let batch = batch(
            std::slice::from_ref(&id),
            vec![Arc::new(StringArray::from(vec![Some("a"), None, Some(&long)]))],
        );
        let encoder = IdentityEncoder::new(&[&id], &batch).unwrap();
        let mut out = vec![9];
        encoder.encode(0, &mut out).unwrap();
        assert_eq!(
            decode_identity(&[ColumnType::Text], &out).unwrap(),
            [Value::Text("a".into())]
        );
        assert_eq!(
            encoder.encode(1, &mut out),
            Err(KeyError::Null {
                row: 1,
                column: "id".into()
            })
        );
        assert_eq!(
            encoder.encode(2, &mut out),
            Err(KeyError::TooLong { row: 2, bytes: 1025 })
        );
        for ty in [ColumnType::Float64, ColumnType::List] {
            let float = Column::new(1, "id", ty, true);
            assert_eq!(IdentityEncoder::new(&[&float], &batch).unwrap_err(), KeyError::Type(ty));
        }
        let other = Column::new(1, "id", ColumnType::Int64, true);
        assert!(matches!(
            IdentityEncoder::new(&[&other], &batch),
            Err(KeyError::ArrayType { .. })
        ));
        let missing = Column::new(7, "nowhere", ColumnType::Text, true);
        assert!(matches!(
            IdentityEncoder::new(&[&missing], &batch),
            Err(KeyError::MissingColumn(_))
        ));
    }
}
