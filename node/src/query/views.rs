//! Text and bytes as views inside the engine, and in their plain form in answers.
//!
//! A view points into the page it was decoded from; no value is copied until an answer is given out. Whoever gets an answer
//! sees the types that tables have.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef},
    error::ArrowError,
};
use sovm_object::pme::view_of;

/// The fields of a table as scans give them out: root columns of text and bytes as views.
pub(super) fn viewed(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| match view_of(field.data_type()) {
        Some(view) => Arc::new(field.as_ref().clone().with_data_type(view)),
        None => field.clone(),
    });
    Schema::new_with_metadata(fields.collect::<Fields>(), schema.metadata().clone())
}

/// The schema of an answer, without views.
pub(super) fn settled_schema(schema: &Schema) -> SchemaRef {
    let fields: Fields = schema.fields().iter().map(settled_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// A batch of an answer in that schema.
pub(super) fn settled(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let column = |(column, field): (&ArrayRef, &FieldRef)| {
        if column.data_type() == field.data_type() {
            Ok(column.clone())
        } else {
            cast(column, field.data_type())
        }
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(column);
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns.collect::<Result<_, _>>()?, &options)
}

fn settled_field(field: &FieldRef) -> FieldRef {
    let settled = settled_type(field.data_type());
    if settled == *field.data_type() {
        return field.clone();
    }
    Arc::new(field.as_ref().clone().with_data_type(settled))
}

fn settled_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(settled_field(item)),
        DataType::LargeList(item) => DataType::LargeList(settled_field(item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(settled_field(item), *len),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(settled_field).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Int64Array, ListArray, StringArray, StringViewArray},
        buffer::OffsetBuffer,
        datatypes::Field,
    };

    use super::*;

    #[test]
    fn answers_hold_no_views() {
        let item = Arc::new(Field::new("item", DataType::Utf8View, true));
        let texts = StringViewArray::from(vec!["a", "a text too long for a view by itself"]);
        let list = ListArray::new(item, OffsetBuffer::from_lengths([1, 1]), Arc::new(texts.clone()), None);
        let fields = vec![
            Field::new("n", DataType::Int64, true),
            Field::new("text", DataType::Utf8View, true),
            Field::new("list", list.data_type().clone(), true),
        ];
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1, 2])), Arc::new(texts), Arc::new(list)];
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
        let schema = settled_schema(&batch.schema());
        let settled = settled(&batch, &schema).unwrap();
        assert_eq!(settled.column(0), batch.column(0));
        let plain = StringArray::from(vec!["a", "a text too long for a view by itself"]);
        assert_eq!(settled.column(1).as_ref(), &plain as &dyn arrow::array::Array);
        assert!(!settled.schema().to_string().contains("View"), "{}", settled.schema());
        assert_eq!(viewed(&schema).field(1).data_type(), &DataType::Utf8View);
    }
}
