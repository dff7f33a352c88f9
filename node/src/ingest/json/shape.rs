//! The columns that hold every value seen, nested ones included.

use std::collections::HashMap;

use sovm_object::types::{Column, ColumnType, ColumnsError, MAX_DEPTH};

use super::{super::error::IngestError, JsonValue};
use crate::ingest::infer::Guess;

/// What was seen in one place of all objects.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    scalar: Scalar,
    list: Option<Box<Self>>,
    object: Option<Fields>,
}

#[derive(Clone, Debug, Default)]
struct Fields {
    order: Vec<(String, Shape)>,
    index: HashMap<String, usize>,
}

/// Kinds of the scalars seen. Texts are looked at as CSV fields are, but only for dates and times: a quoted number is text.
#[derive(Clone, Debug, Default)]
struct Scalar {
    boolean: bool,
    integer: bool,
    float: bool,
    /// A whole number that a float would change.
    wide: bool,
    /// A whole number that an int64 cannot hold.
    huge: bool,
    text: Guess,
}

/// A value of another kind than before.
#[derive(Debug)]
pub(super) struct Conflict {
    path: String,
    kind: ConflictKind,
}

#[derive(Debug)]
enum ConflictKind {
    Mixed {
        expected: &'static str,
        found: &'static str,
    },
    TooDeep,
}

impl Conflict {
    pub(super) fn at(self, file: &str, line: u64) -> IngestError {
        let (file, column) = (file.to_owned(), self.path.trim_start_matches('.').to_owned());
        match self.kind {
            ConflictKind::Mixed { expected, found } => IngestError::JsonMixed {
                file,
                line,
                column,
                expected,
                found,
            },
            ConflictKind::TooDeep => IngestError::Columns {
                file,
                source: ColumnsError::TooDeep { name: column },
            },
        }
    }

    fn below(mut self, name: &str) -> Self {
        self.path = format!(".{name}{}", self.path);
        self
    }
}

impl Shape {
    /// Takes the keys of one more object. A text that is a null word decides nothing: the other values say whether it can
    /// be a text.
    pub(super) fn see_object(&mut self, pairs: &[(String, JsonValue)], nulls: &[String]) -> Result<(), Conflict> {
        self.see_fields(pairs, nulls, 1)
    }

    fn see_fields(&mut self, pairs: &[(String, JsonValue)], nulls: &[String], depth: usize) -> Result<(), Conflict> {
        let fields = self.object.get_or_insert_default();
        for (key, value) in pairs {
            let index = match fields.index.get(key) {
                Some(index) => *index,
                None => {
                    let index = fields.order.len();
                    fields.index.insert(key.clone(), index);
                    fields.order.push((key.clone(), Self::default()));
                    index
                }
            };
            fields.order[index]
                .1
                .see(value, nulls, depth)
                .map_err(|conflict| conflict.below(key))?;
        }
        Ok(())
    }

    fn see(&mut self, value: &JsonValue, nulls: &[String], depth: usize) -> Result<(), Conflict> {
        if depth > MAX_DEPTH {
            return Err(Conflict {
                path: String::new(),
                kind: ConflictKind::TooDeep,
            });
        }
        let before = self.kind();
        let mixed = |expected| Conflict {
            path: String::new(),
            kind: ConflictKind::Mixed {
                expected,
                found: value.kind(),
            },
        };
        match (value, before) {
            (JsonValue::Null, _) => Ok(()),
            (JsonValue::Text(word), _) if nulls.contains(word) => Ok(()),
            (JsonValue::List(items), Some("an array") | None) => {
                let element = self.list.get_or_insert_default();
                let see = |item| element.see(item, nulls, depth + 1);
                items.iter().try_for_each(see).map_err(|error| error.below("element"))
            }
            (JsonValue::Object(pairs), Some("an object") | None) => self.see_fields(pairs, nulls, depth + 1),
            (JsonValue::List(_) | JsonValue::Object(_), Some(expected))
            | (_, Some(expected @ ("an array" | "an object"))) => Err(mixed(expected)),
            (scalar, _) => {
                self.scalar.see(scalar);
                Ok(())
            }
        }
    }

    fn kind(&self) -> Option<&'static str> {
        if self.list.is_some() {
            Some("an array")
        } else if self.object.is_some() {
            Some("an object")
        } else if self.scalar.any() {
            Some("a plain value")
        } else {
            None
        }
    }

    /// The column list of the objects seen.
    pub(super) fn into_columns(self, file: &str) -> Result<Vec<Column>, IngestError> {
        let mut columns = Vec::new();
        for (name, shape) in self.object.unwrap_or_default().order {
            if name.is_empty() {
                return Err(IngestError::EmptyColumnName {
                    file: file.to_owned(),
                    position: columns.len() + 1,
                });
            }
            shape.push_columns(&mut columns, &name, &name, None, file)?;
        }
        sovm_object::types::tree(&columns).map_err(|source| IngestError::Columns {
            file: file.to_owned(),
            source,
        })?;
        Ok(columns)
    }

    fn push_columns(
        self,
        columns: &mut Vec<Column>,
        name: &str,
        path: &str,
        parent: Option<i32>,
        file: &str,
    ) -> Result<(), IngestError> {
        let ty = match (&self.list, &self.object) {
            (Some(_), _) => ColumnType::List,
            (None, Some(_)) => ColumnType::Struct,
            (None, None) => self.scalar.finish(),
        };
        // Keys come from lines of bounded length; their number stays far below 2^31 before memory ends.
        let field_id = columns.len() as i32 + 1;
        columns.push(Column {
            field_id,
            name: name.to_owned(),
            ty,
            nullable: true,
            parent,
        });
        if let Some(element) = self.list {
            return element.push_columns(columns, "element", &format!("{path}.element"), Some(field_id), file);
        }
        let Some(fields) = self.object else { return Ok(()) };
        if fields.order.is_empty() {
            return Err(IngestError::EmptyObjects {
                file: file.to_owned(),
                column: path.to_owned(),
            });
        }
        for (name, shape) in fields.order {
            shape.push_columns(columns, &name, &format!("{path}.{name}"), Some(field_id), file)?;
        }
        Ok(())
    }
}

impl Scalar {
    fn see(&mut self, value: &JsonValue) {
        match value {
            JsonValue::Bool(_) => self.boolean = true,
            JsonValue::Int(value) => {
                self.integer = true;
                self.wide |= (*value as f64) as i128 != i128::from(*value);
            }
            JsonValue::UInt(_) => (self.integer, self.wide, self.huge) = (true, true, true),
            JsonValue::Float(_) => self.float = true,
            JsonValue::Text(text) => self.text.see(text),
            JsonValue::Null | JsonValue::List(_) | JsonValue::Object(_) => {}
        }
    }

    const fn any(&self) -> bool {
        self.boolean || self.integer || self.float || self.text.any()
    }

    fn finish(&self) -> ColumnType {
        match (self.boolean, self.integer, self.float, self.text.any()) {
            (true, false, false, false) => ColumnType::Bool,
            (false, true, false, false) if !self.huge => ColumnType::Int64,
            (false, false, true, false) => ColumnType::Float64,
            (false, true, true, false) if !self.wide => ColumnType::Float64,
            (false, false, false, true) => match self.text.finish() {
                ty @ (ColumnType::Date | ColumnType::TimestampUs | ColumnType::TimestampUsLocal) => ty,
                _ => ColumnType::Text,
            },
            _ => ColumnType::Text,
        }
    }
}
