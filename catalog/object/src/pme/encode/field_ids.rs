//! Every column carries a stable field id, groups and nested leaves included (SOP-14, SOP-16).

use std::collections::HashSet;

use arrow::datatypes::{DataType, Field, Schema};

use super::EncodeError;
use crate::types::{MAX_PRECISION, field_id_of};

/// Nesting no table needs, and readers refuse.
const MAX_NESTING: usize = 16;

/// Checks ids and types of all columns.
pub(super) fn check(schema: &Schema) -> Result<(), EncodeError> {
    let mut check = Check {
        seen: HashSet::new(),
        path: Vec::new(),
    };
    schema.fields().iter().try_for_each(|field| check.column(field))
}

/// A batch may come without ids, as a query's result does; an id that it has must be the object's.
pub(super) fn compare(object: &Schema, batch: &Schema) -> Result<(), EncodeError> {
    for (expected, found) in object.fields().iter().zip(batch.fields()) {
        match (field_id_of(expected), field_id_of(found)) {
            (Some(expected), Some(id)) if expected != id => {
                return Err(EncodeError::OtherFieldId {
                    column: found.name().clone(),
                    found: id,
                    expected,
                });
            }
            _ => {}
        }
    }
    Ok(())
}

struct Check {
    seen: HashSet<i32>,
    path: Vec<String>,
}

impl Check {
    /// A field that becomes a column or a group with an id of its own.
    fn column(&mut self, field: &Field) -> Result<(), EncodeError> {
        self.path.push(field.name().clone());
        let id = field_id_of(field).ok_or_else(|| EncodeError::NoFieldId {
            column: self.path.join("."),
        })?;
        if !self.seen.insert(id) {
            return Err(EncodeError::DuplicateFieldId {
                id,
                column: self.path.join("."),
            });
        }
        self.data_type(field.data_type())?;
        self.path.pop();
        Ok(())
    }

    fn data_type(&mut self, data_type: &DataType) -> Result<(), EncodeError> {
        if self.path.len() > MAX_NESTING {
            return Err(self.unsupported(data_type));
        }
        match data_type {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => self.column(item),
            DataType::Struct(fields) if !fields.is_empty() => fields.iter().try_for_each(|field| self.column(field)),
            // The entries struct is Parquet's repeated group, which has no id.
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(pair) if pair.len() == 2 => pair.iter().try_for_each(|field| self.column(field)),
                _ => Err(self.unsupported(data_type)),
            },
            DataType::Dictionary(_, values) if !values.is_nested() => self.data_type(values),
            DataType::Boolean
            | DataType::Null
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
            | DataType::UInt64
            | DataType::Float32
            | DataType::Float64
            | DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView => Ok(()),
            DataType::FixedSizeBinary(width) if *width > 0 => Ok(()),
            // DuckDB's, our keys' and our statistics' decimals end at 16 bytes; Parquet's have no negative scale.
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale)
                if *precision <= MAX_PRECISION && (0..=*precision as i8).contains(scale) =>
            {
                Ok(())
            }
            other => Err(self.unsupported(other)),
        }
    }

    fn unsupported(&self, data_type: &DataType) -> EncodeError {
        EncodeError::UnsupportedType {
            column: self.path.join("."),
            data_type: data_type.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{Fields, IntervalUnit, TimeUnit, UnionFields, UnionMode};
    use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

    use super::*;

    fn field(name: &str, data_type: DataType, id: i32) -> Field {
        Field::new(name, data_type, true).with_metadata([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())].into())
    }

    /// SOP-16: a missing id is refused at every level, and so is a second use (SOP-18).
    #[test]
    fn ids_are_demanded_at_every_level() {
        let bare = Field::new("x", DataType::Int32, true);
        let list = DataType::List(Arc::new(bare.clone()));
        let entries = DataType::Struct(vec![field("k", DataType::Utf8, 8), bare.clone()].into());
        let map = DataType::Map(Arc::new(Field::new("entries", entries, false)), false);
        let missing = [
            bare.clone(),
            field("l", list, 1),
            field("s", DataType::Struct(vec![bare].into()), 1),
            field("m", map, 1),
        ];
        for root in missing {
            let error = check(&Schema::new(vec![root])).unwrap_err();
            assert!(matches!(error, EncodeError::NoFieldId { column } if column.ends_with('x')));
        }
        let twice = DataType::List(Arc::new(field("item", DataType::Int8, 1)));
        let error = check(&Schema::new(vec![field("l", twice, 1)])).unwrap_err();
        assert!(matches!(error, EncodeError::DuplicateFieldId { id: 1, column } if column == "l.item"));
    }

    /// What tables cannot hold is refused with the column's path and the type's name. Half floats, run ends and list views
    /// never come here: ingest turns them into types of ours.
    #[test]
    fn types_without_a_form_are_refused_by_name() {
        let boxed = |data_type| Arc::new(field("x", data_type, 2));
        let mut deep = DataType::Int8;
        for id in 0..40 {
            deep = DataType::List(Arc::new(field("item", deep, 1_000 + id)));
        }
        let no_pair = DataType::Struct(vec![field("k", DataType::Utf8, 3)].into());
        let types = [
            DataType::Interval(IntervalUnit::YearMonth),
            DataType::Interval(IntervalUnit::DayTime),
            DataType::Interval(IntervalUnit::MonthDayNano),
            DataType::Duration(TimeUnit::Second),
            DataType::Duration(TimeUnit::Nanosecond),
            DataType::Float16,
            DataType::Decimal256(39, 0),
            DataType::Decimal256(76, 10),
            DataType::Decimal128(10, -2),
            DataType::Decimal64(5, 6),
            DataType::FixedSizeBinary(0),
            DataType::Struct(Fields::empty()),
            DataType::Union(UnionFields::empty(), UnionMode::Sparse),
            DataType::ListView(boxed(DataType::Int8)),
            DataType::LargeListView(boxed(DataType::Int8)),
            DataType::RunEndEncoded(boxed(DataType::Int32), boxed(DataType::Int8)),
            DataType::Dictionary(
                Box::new(DataType::Int32),
                Box::new(DataType::List(boxed(DataType::Int8))),
            ),
            DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Duration(TimeUnit::Second))),
            DataType::Map(Arc::new(Field::new("entries", no_pair, false)), false),
            DataType::Map(boxed(DataType::Int8), false),
            deep,
        ];
        for data_type in types {
            for nested in [false, true] {
                let inner = field("inner", data_type.clone(), 10);
                let root = match nested {
                    false => inner,
                    true => field("outer", DataType::Struct(vec![inner].into()), 1),
                };
                let error = check(&Schema::new(vec![root])).unwrap_err();
                assert!(
                    matches!(&error, EncodeError::UnsupportedType { column, .. } if column.contains("inner")),
                    "{data_type}: {error}"
                );
            }
        }
        let error = check(&Schema::new(vec![field(
            "took",
            DataType::Duration(TimeUnit::Second),
            1,
        )]))
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "column \"took\" has type Duration(s), which objects cannot hold"
        );
    }

    /// SOP-16: an id that the object does not have at that place is refused before anything is encoded.
    #[test]
    fn batches_bring_the_ids_of_the_object_or_none() {
        let object = Schema::new(vec![field("a", DataType::Int8, 1), field("b", DataType::Int8, 2)]);
        let bare = |name| Field::new(name, DataType::Int8, true);
        compare(&object, &object).unwrap();
        compare(&object, &Schema::new(vec![bare("x"), bare("y")])).unwrap();
        let swapped = Schema::new(vec![field("b", DataType::Int8, 2), field("a", DataType::Int8, 1)]);
        let error = compare(&object, &swapped).unwrap_err();
        assert!(
            matches!(error, EncodeError::OtherFieldId { ref column, found: 2, expected: 1 } if column == "b"),
            "{error}"
        );
    }
}
