//! Every column carries a stable field id, groups and nested leaves included (SOP-14, SOP-16).

use std::collections::HashSet;

use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use super::EncodeError;

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

struct Check {
    seen: HashSet<i32>,
    path: Vec<String>,
}

impl Check {
    /// A field that becomes a column or a group with an id of its own.
    fn column(&mut self, field: &Field) -> Result<(), EncodeError> {
        self.path.push(field.name().clone());
        let id = field
            .metadata()
            .get(PARQUET_FIELD_ID_META_KEY)
            .and_then(|id| id.parse::<i32>().ok());
        let id = id.ok_or_else(|| EncodeError::NoFieldId {
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
                DataType::Struct(fields) => fields.iter().try_for_each(|field| self.column(field)),
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
            | DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
            | DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_)
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Ok(()),
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

    #[test]
    fn types_without_a_form_are_refused() {
        let interval = DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano);
        let mut deep = DataType::Int8;
        for id in 0..40 {
            deep = DataType::List(Arc::new(field("item", deep, 1_000 + id)));
        }
        for data_type in [
            interval,
            deep,
            DataType::Float16,
            DataType::Struct(arrow::datatypes::Fields::empty()),
        ] {
            let error = check(&Schema::new(vec![field("c", data_type, 1)])).unwrap_err();
            assert!(matches!(error, EncodeError::UnsupportedType { .. }));
        }
    }
}
