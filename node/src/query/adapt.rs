//! Columns of an object as the table has them today: matched by field id, never by name (SOP-17).
//!
//! A column the object lacks reads as null, one the table dropped is ignored, a renamed one keeps its values (SOP-19).
//! Types may only have been widened; anything else makes the object refused as a whole (SOP-18).

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray as _, ListArray, MapArray, StructArray, make_array, new_null_array},
    compute::cast,
    datatypes::{DataType, Field, FieldRef, Fields, Schema},
    error::ArrowError,
};
use sovm_object::types::field_id_of;

/// An object's column contradicts the table's.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdaptError {
    #[error("column {column:?} is {found} in the object and {expected} in the table")]
    Type {
        column: String,
        found: DataType,
        expected: DataType,
    },
    #[error("field id {0} stands twice")]
    DuplicateId(i32),
    #[error("column {0:?} has no field id")]
    NoId(String),
    #[error("column {0:?} may not be null and has no value")]
    Null(String),
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// The same schema without the metadata that carries ids: what SQL sees. Fields inside nested types included, since their
/// metadata would be part of the type.
pub(super) fn plain_schema(schema: &Schema) -> Schema {
    Schema::new(schema.fields().iter().map(plain_field).collect::<Fields>())
}

fn plain_field(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(plain_field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(plain_field(entries), *sorted),
        other => other.clone(),
    };
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

/// Where among an object's fields the column with this id stands. Every field must have an id, and no id twice.
pub(super) fn position(fields: &Fields, field_id: i32) -> Result<Option<usize>, AdaptError> {
    let mut found = None;
    for (index, field) in fields.iter().enumerate() {
        let id = field_id_of(field).ok_or_else(|| AdaptError::NoId(field.name().clone()))?;
        if id == field_id && found.replace(index).is_some() {
            return Err(AdaptError::DuplicateId(id));
        }
    }
    Ok(found)
}

/// Whether values of an object's field can be shown as the table's: the same type, or one that was widened since.
pub(super) fn fits(found: &Field, expected: &Field) -> Result<(), AdaptError> {
    let type_error = || AdaptError::Type {
        column: expected.name().clone(),
        found: found.data_type().clone(),
        expected: expected.data_type().clone(),
    };
    match (found.data_type(), expected.data_type()) {
        (DataType::List(found), DataType::List(expected)) => fits(found, expected),
        (DataType::Map(found, _), DataType::Map(expected, _)) => {
            let (DataType::Struct(found), DataType::Struct(expected)) = (found.data_type(), expected.data_type())
            else {
                return Err(type_error());
            };
            fit_children(found, expected)
        }
        (DataType::Struct(found), DataType::Struct(expected)) => fit_children(found, expected),
        (found, expected) if widens(found, expected) => Ok(()),
        _ => Err(type_error()),
    }
}

fn fit_children(found: &Fields, expected: &Fields) -> Result<(), AdaptError> {
    for field in expected {
        let id = field_id_of(field).ok_or_else(|| AdaptError::NoId(field.name().clone()))?;
        if let Some(index) = position(found, id)? {
            fits(&found[index], field)?;
        }
    }
    Ok(())
}

/// Widening only, by the rule of `ColumnType::widens_to`: every old value is a value of the new type, and old bounds compare
/// rightly with new constants. A decimal of another scale would pass the first and fail the second.
fn widens(found: &DataType, expected: &DataType) -> bool {
    use DataType as T;
    match (found, expected) {
        _ if found == expected => true,
        (T::Decimal128(from, from_scale), T::Decimal128(to, to_scale)) => from_scale == to_scale && from < to,
        (T::Float32, T::Float64) => true,
        (from, to) if from.is_signed_integer() && to.is_signed_integer() => {
            from.primitive_width() < to.primitive_width()
        }
        (from, to) if from.is_unsigned_integer() && to.is_unsigned_integer() => {
            from.primitive_width() < to.primitive_width()
        }
        // One column type of ours, in another layout of Arrow's.
        (T::Utf8 | T::LargeUtf8 | T::Utf8View, T::Utf8 | T::LargeUtf8 | T::Utf8View) => true,
        (T::Binary | T::LargeBinary | T::BinaryView, T::Binary | T::LargeBinary | T::BinaryView) => true,
        _ => false,
    }
}

/// The values of an object's column as the table's field. `expected` carries field ids, the result has none.
pub(super) fn adapt(array: &ArrayRef, expected: &Field) -> Result<ArrayRef, AdaptError> {
    let plain = plain_field(&Arc::new(expected.clone()));
    let adapted: ArrayRef = match (array.data_type(), expected.data_type(), plain.data_type()) {
        (DataType::List(_), DataType::List(item), DataType::List(plain_item)) => {
            let list = array.as_list::<i32>();
            let values = adapt(list.values(), item)?;
            Arc::new(ListArray::try_new(
                plain_item.clone(),
                list.offsets().clone(),
                values,
                list.nulls().cloned(),
            )?)
        }
        (DataType::Map(..), DataType::Map(entries, _), DataType::Map(plain_entries, sorted)) => {
            let map = array.as_map();
            let pairs = adapt_struct(map.entries(), entries)?;
            Arc::new(MapArray::try_new(
                plain_entries.clone(),
                map.offsets().clone(),
                pairs,
                map.nulls().cloned(),
                *sorted,
            )?)
        }
        (DataType::Struct(_), DataType::Struct(_), _) => Arc::new(adapt_struct(array.as_struct(), expected)?),
        (found, _, plain) if found == plain => array.clone(),
        (found, _, plain) if widens(found, plain) => cast(array, plain)?,
        (found, expected_type, _) => {
            return Err(AdaptError::Type {
                column: expected.name().clone(),
                found: found.clone(),
                expected: expected_type.clone(),
            });
        }
    };
    if !expected.is_nullable() && adapted.null_count() > 0 {
        return Err(AdaptError::Null(expected.name().clone()));
    }
    Ok(adapted)
}

fn adapt_struct(found: &StructArray, expected: &Field) -> Result<StructArray, AdaptError> {
    let DataType::Struct(children) = expected.data_type() else {
        return Err(AdaptError::Type {
            column: expected.name().clone(),
            found: found.data_type().clone(),
            expected: expected.data_type().clone(),
        });
    };
    let mut fields = Vec::with_capacity(children.len());
    let mut columns = Vec::with_capacity(children.len());
    for child in children {
        let id = field_id_of(child).ok_or_else(|| AdaptError::NoId(child.name().clone()))?;
        let column = match position(found.fields(), id)? {
            Some(index) => adapt_child(found, index, child)?,
            None => missing(child, found.len())?,
        };
        fields.push(plain_field(child));
        columns.push(column);
    }
    Ok(StructArray::try_new_with_length(
        fields.into(),
        columns,
        found.nulls().cloned(),
        found.len(),
    )?)
}

/// A child's own nulls include those under a null parent, which are no missing values.
fn adapt_child(parent: &StructArray, index: usize, expected: &FieldRef) -> Result<ArrayRef, AdaptError> {
    let relaxed = expected.as_ref().clone().with_nullable(true);
    let adapted = adapt(parent.column(index), &relaxed)?;
    let valid_parent = |row| parent.is_valid(row);
    if !expected.is_nullable() && (0..adapted.len()).any(|row| adapted.is_null(row) && valid_parent(row)) {
        return Err(AdaptError::Null(expected.name().clone()));
    }
    Ok(make_array(adapted.to_data()))
}

/// The column of an object that was written before the column was added.
pub(super) fn missing(expected: &Field, rows: usize) -> Result<ArrayRef, AdaptError> {
    if !expected.is_nullable() && rows > 0 {
        return Err(AdaptError::Null(expected.name().clone()));
    }
    Ok(new_null_array(
        plain_field(&Arc::new(expected.clone())).data_type(),
        rows,
    ))
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Int32Array, Int64Array, StringArray},
        buffer::{NullBuffer, OffsetBuffer},
    };
    use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

    use super::*;

    fn field(id: i32, name: &str, data_type: DataType) -> Field {
        Field::new(name, data_type, true).with_metadata([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())].into())
    }

    #[test]
    fn widening_is_allowed_and_narrowing_is_not() {
        use DataType as T;
        for (from, to) in [
            (T::Int32, T::Int64),
            (T::UInt32, T::UInt64),
            (T::Float32, T::Float64),
            (T::Decimal128(10, 2), T::Decimal128(12, 2)),
        ] {
            assert!(widens(&from, &to), "{from} to {to}");
            assert!(!widens(&to, &from), "{to} to {from}");
        }
        assert!(!widens(&T::UInt32, &T::Int64));
        assert!(!widens(&T::Decimal128(10, 2), &T::Decimal128(12, 4)));
        assert!(!widens(&T::Utf8, &T::Binary));
    }

    /// SOP-17, SOP-19: inside a list of structs, a renamed child keeps its values, an added one is null, a dropped one is gone.
    #[test]
    fn nested_columns_follow_their_ids() {
        let old = Fields::from(vec![
            field(3, "a", DataType::Int32),
            field(4, "dropped", DataType::Utf8),
        ]);
        let structs = StructArray::new(
            old.clone(),
            vec![
                Arc::new(Int32Array::from(vec![1, 2])) as _,
                Arc::new(StringArray::from(vec!["x", "y"])) as _,
            ],
            None,
        );
        let item = Arc::new(field(2, "item", DataType::Struct(old)));
        let list: ArrayRef = Arc::new(ListArray::new(
            item,
            OffsetBuffer::from_lengths([2]),
            Arc::new(structs),
            None,
        ));
        let new = Fields::from(vec![
            field(5, "added", DataType::Utf8),
            field(3, "renamed", DataType::Int64),
        ]);
        let expected = field(
            1,
            "l",
            DataType::List(Arc::new(field(2, "item", DataType::Struct(new)))),
        );
        let adapted = adapt(&list, &expected).unwrap();
        let rows = adapted.as_list::<i32>().value(0);
        let rows = rows.as_struct();
        assert_eq!(rows.column_names(), ["added", "renamed"]);
        assert_eq!(rows.column(0).null_count(), 2);
        assert_eq!(rows.column(1).as_ref(), &Int64Array::from(vec![1, 2]));
        assert_eq!(adapted.data_type(), plain_field(&Arc::new(expected)).data_type());
    }

    /// SOP-18: an id that stands twice, or a type that is no widening, refuses the object.
    #[test]
    fn contradictions_are_refused() {
        let twice = Fields::from(vec![field(1, "a", DataType::Int32), field(1, "b", DataType::Int32)]);
        assert!(matches!(position(&twice, 1), Err(AdaptError::DuplicateId(1))));
        let without = Fields::from(vec![Field::new("a", DataType::Int32, true)]);
        assert!(matches!(position(&without, 1), Err(AdaptError::NoId(_))));
        assert!(fits(&field(1, "a", DataType::Utf8), &field(1, "a", DataType::Int64)).is_err());
    }

    #[test]
    fn required_child_under_a_null_parent_is_no_contradiction() {
        let required = field(2, "x", DataType::Int32).with_nullable(false);
        let parent = StructArray::new(
            Fields::from(vec![field(2, "x", DataType::Int32)]),
            vec![Arc::new(Int32Array::from(vec![Some(1), None])) as _],
            Some(NullBuffer::from(vec![true, false])),
        );
        let expected = field(1, "s", DataType::Struct(Fields::from(vec![required])));
        let array: ArrayRef = Arc::new(parent);
        assert_eq!(adapt(&array, &expected).unwrap().null_count(), 1);
    }
}
