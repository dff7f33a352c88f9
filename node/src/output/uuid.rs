//! UUIDs as people read them. The engine has sixteen bytes; text formats show the usual form, Arrow and Parquet keep the bytes.
//!
//! Sixteen fixed bytes come out of a table only where a column is a `uuid`, so the type alone says what they are, through
//! every join and aggregate.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray as _, ListArray, MapArray, RecordBatch, StringArray, StructArray},
    datatypes::{DataType, Field, FieldRef, Fields, Schema},
    error::ArrowError,
};

const UUID: DataType = DataType::FixedSizeBinary(16);

/// The rows as text formats show them.
pub(super) fn shown(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    if !schema.fields().iter().any(|field| holds_uuids(field.data_type())) {
        return Ok(batch.clone());
    }
    let fields: Fields = schema.fields().iter().map(shown_field).collect();
    let columns = batch.columns().iter().map(shown_array).collect::<Result<_, _>>()?;
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn holds_uuids(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::Map(item, _) => holds_uuids(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_uuids(field.data_type())),
        other => *other == UUID,
    }
}

fn shown_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::List(item) => DataType::List(shown_field(item)),
        DataType::Map(entries, sorted) => DataType::Map(shown_field(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(shown_field).collect()),
        other if *other == UUID => DataType::Utf8,
        other => other.clone(),
    }
}

fn shown_field(field: &FieldRef) -> FieldRef {
    let data_type = shown_type(field.data_type());
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

fn shown_array(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !holds_uuids(array.data_type()) {
        return Ok(array.clone());
    }
    Ok(match array.data_type() {
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let values = shown_array(list.values())?;
            Arc::new(ListArray::try_new(
                shown_field(item),
                list.offsets().clone(),
                values,
                list.nulls().cloned(),
            )?)
        }
        DataType::Map(entries, sorted) => {
            let map = array.as_map();
            Arc::new(MapArray::try_new(
                shown_field(entries),
                map.offsets().clone(),
                shown_struct(map.entries())?,
                map.nulls().cloned(),
                *sorted,
            )?)
        }
        DataType::Struct(_) => Arc::new(shown_struct(array.as_struct())?),
        _ => {
            let values = array.as_fixed_size_binary();
            Arc::new(values.iter().map(|value| value.map(text)).collect::<StringArray>())
        }
    })
}

fn shown_struct(array: &StructArray) -> Result<StructArray, ArrowError> {
    let fields: Fields = array.fields().iter().map(shown_field).collect();
    let columns = array.columns().iter().map(shown_array).collect::<Result<_, _>>()?;
    StructArray::try_new(fields, columns, array.nulls().cloned())
}

/// Five groups of lower-case digits.
fn text(bytes: &[u8]) -> String {
    let digits = hex::encode(bytes);
    let mut text = String::with_capacity(36);
    for (at, digit) in digits.chars().enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{FixedSizeBinaryArray, Int64Array},
        buffer::OffsetBuffer,
    };

    use super::*;

    fn ids() -> FixedSizeBinaryArray {
        let one: Vec<u8> = (0..16).collect();
        FixedSizeBinaryArray::try_from_sparse_iter_with_size([Some(one), None].into_iter(), 16).unwrap()
    }

    #[test]
    fn uuids_are_shown_at_every_depth() {
        let item = Arc::new(Field::new("element", UUID, true));
        let list = ListArray::try_new(item, OffsetBuffer::from_lengths([2]), Arc::new(ids()), None).unwrap();
        let nested = StructArray::from(vec![(
            Arc::new(Field::new("ids", list.data_type().clone(), true)),
            Arc::new(list) as ArrayRef,
        )]);
        let batch = RecordBatch::try_from_iter([
            ("id", Arc::new(ids().slice(0, 1)) as ArrayRef),
            ("nested", Arc::new(nested) as ArrayRef),
            ("n", Arc::new(Int64Array::from(vec![7])) as ArrayRef),
        ])
        .unwrap();
        let shown = shown(&batch).unwrap();
        let first = "00010203-0405-0607-0809-0a0b0c0d0e0f";
        assert_eq!(shown.column(0).as_string::<i32>().value(0), first);
        let list = shown.column(1).as_struct().column(0).as_list::<i32>().value(0);
        assert_eq!(list.as_string::<i32>().iter().collect::<Vec<_>>(), [Some(first), None]);
        assert_eq!(shown.column(2), batch.column(2));
    }
}
