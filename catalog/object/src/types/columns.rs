//! The flat column list of a table, and its two directions to and from an Arrow schema.

use std::{collections::BTreeSet, sync::Arc};

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use super::{ColumnType, EXTENSION_NAME_KEY, TypeParseError, UUID_EXTENSION};
use crate::record::{ColumnDef, MAX_NAME_BYTES, table::MAX_COLUMNS};

/// Field ids from here on belong to the format itself (SOP §2.4).
pub const FIRST_RESERVED_FIELD_ID: i32 = 2_147_483_000;

/// Field id of the hidden column that says from which leaf a compacted row came (SOP §2.13).
pub const SOURCE_INDEX_FIELD_ID: i32 = 2_147_483_100;

/// Name of the hidden column with [`SOURCE_INDEX_FIELD_ID`].
pub const SOURCE_INDEX_COLUMN: &str = "_sovm_src";

/// Deepest nesting; bounds every recursion over a schema that came from outside.
pub const MAX_DEPTH: usize = 16;

/// Name of the entries struct inside an Arrow map; it has no row and no id of its own.
const MAP_ENTRIES: &str = "entries";

/// One row of a table's column list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Column {
    /// Identity across renames, from 1.
    pub field_id: i32,
    /// Physical name, fixed at creation.
    pub name: String,
    /// What it holds.
    pub ty: ColumnType,
    /// Whether a value may be missing.
    pub nullable: bool,
    /// The nested column it belongs to.
    pub parent: Option<i32>,
}

impl Column {
    /// A top-level column.
    pub fn new(field_id: i32, name: impl Into<String>, ty: ColumnType, nullable: bool) -> Self {
        Self {
            field_id,
            name: name.into(),
            ty,
            nullable,
            parent: None,
        }
    }

    /// The same column as a child of `parent`.
    pub const fn within(mut self, parent: i32) -> Self {
        self.parent = Some(parent);
        self
    }

    /// The row as a TableGenesis signs it.
    pub fn to_def(&self) -> ColumnDef {
        ColumnDef {
            field_id: self.field_id,
            name: self.name.clone(),
            ty: self.ty.to_string(),
            nullable: self.nullable,
            parent: self.parent,
        }
    }
}

/// The columns of a signed table definition. Their type names and their tree are checked here, not by its decoder.
pub fn columns_of_defs(defs: &[ColumnDef]) -> Result<Vec<Column>, ColumnsError> {
    let column = |def: &ColumnDef| {
        let ty = def.ty.parse().map_err(|source| ColumnsError::TypeName {
            name: def.name.clone(),
            source,
        })?;
        let ColumnDef {
            field_id,
            ref name,
            nullable,
            parent,
            ..
        } = *def;
        Ok(Column {
            field_id,
            name: name.clone(),
            ty,
            nullable,
            parent,
        })
    };
    let columns = defs.iter().map(column).collect::<Result<Vec<_>, ColumnsError>>()?;
    tree(&columns)?;
    Ok(columns)
}

/// A column list or Arrow schema that cannot be a table's.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ColumnsError {
    /// There is nothing to hold.
    #[error("a table needs at least one column")]
    Empty,
    /// More rows than a signed table definition may have.
    #[error("{0} columns, nested ones counted, are more than the 1024 a table may have")]
    TooMany(usize),
    /// Id outside 1 to the first reserved one.
    #[error("column {name:?}: field id {field_id} is not between 1 and 2147482999")]
    FieldId {
        /// Column.
        name: String,
        /// Its id.
        field_id: i32,
    },
    /// One id twice.
    #[error("column {name:?}: field id {field_id} is used twice")]
    DuplicateFieldId {
        /// Second column with the id.
        name: String,
        /// The id.
        field_id: i32,
    },
    /// A name was empty.
    #[error("the column with field id {field_id} has an empty name")]
    EmptyName {
        /// Its id.
        field_id: i32,
    },
    /// A name was longer than [`MAX_NAME_BYTES`].
    #[error("a column name has {bytes} bytes, at most 128 are allowed: it starts {start:?}")]
    LongName {
        /// First characters.
        start: String,
        /// Length.
        bytes: usize,
    },
    /// A name with a control character could forge a line of output.
    #[error("the column with field id {field_id} has a control character in its name")]
    ControlCharacter {
        /// Its id.
        field_id: i32,
    },
    /// Two siblings with one name.
    #[error("column name {name:?} stands twice")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// The parent is missing, comes later, or holds no children.
    #[error("column {name:?}: its parent (field id {parent}) is not a nested column before it")]
    Parent {
        /// Child.
        name: String,
        /// Id it names.
        parent: i32,
    },
    /// A list without exactly one child, a map without exactly two, a struct without any.
    #[error("column {name:?}: a {ty} cannot have {children} child rows")]
    Children {
        /// Column.
        name: String,
        /// Its type.
        ty: ColumnType,
        /// Children found.
        children: usize,
    },
    /// A map's key may not be missing.
    #[error("column {name:?}: the key of a map may not be null")]
    NullableKey {
        /// Column.
        name: String,
    },
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("column {name:?} is nested deeper than 16 levels")]
    TooDeep {
        /// Column.
        name: String,
    },
    /// The name of the type is none of ours; a newer node may know it.
    #[error("column {name:?}")]
    TypeName {
        /// Column.
        name: String,
        /// What is wrong with the name.
        #[source]
        source: TypeParseError,
    },
    /// A type of Arrow or Parquet that tables cannot hold.
    #[error("column {column:?} has the type {data_type}, which a table cannot hold")]
    UnsupportedType {
        /// Path of the column.
        column: String,
        /// Arrow's name of its type.
        data_type: String,
    },
}

/// A column with its children, in list order.
#[derive(Clone, Debug)]
pub struct ColumnNode<'a> {
    /// The row of the list.
    pub column: &'a Column,
    /// Rows that name it as parent.
    pub children: Vec<Self>,
}

/// Checks a column list whole and gives it as a forest of top-level columns.
pub fn tree(columns: &[Column]) -> Result<Vec<ColumnNode<'_>>, ColumnsError> {
    if columns.is_empty() {
        return Err(ColumnsError::Empty);
    }
    if columns.len() > MAX_COLUMNS {
        return Err(ColumnsError::TooMany(columns.len()));
    }
    let mut ids = BTreeSet::new();
    let mut names = BTreeSet::new();
    let mut nested = BTreeSet::new();
    for column in columns {
        check_name(&column.name, column.field_id)?;
        if !(1..FIRST_RESERVED_FIELD_ID).contains(&column.field_id) {
            return Err(ColumnsError::FieldId {
                name: column.name.clone(),
                field_id: column.field_id,
            });
        }
        if !ids.insert(column.field_id) {
            return Err(ColumnsError::DuplicateFieldId {
                name: column.name.clone(),
                field_id: column.field_id,
            });
        }
        if !names.insert((column.parent, column.name.as_str())) {
            return Err(ColumnsError::DuplicateName {
                name: column.name.clone(),
            });
        }
        // A parent stands before its children, so the list has no cycles.
        if let Some(parent) = column.parent
            && !nested.contains(&parent)
        {
            return Err(ColumnsError::Parent {
                name: column.name.clone(),
                parent,
            });
        }
        if column.ty.is_nested() {
            nested.insert(column.field_id);
        }
    }
    let roots = columns.iter().filter(|column| column.parent.is_none());
    roots.map(|column| node(columns, column, 1)).collect()
}

fn node<'a>(columns: &'a [Column], column: &'a Column, depth: usize) -> Result<ColumnNode<'a>, ColumnsError> {
    let name = || column.name.clone();
    if depth > MAX_DEPTH {
        return Err(ColumnsError::TooDeep { name: name() });
    }
    if !column.ty.is_nested() {
        return Ok(ColumnNode {
            column,
            children: Vec::new(),
        });
    }
    let mine = columns.iter().filter(|child| child.parent == Some(column.field_id));
    let children = mine
        .map(|child| node(columns, child, depth + 1))
        .collect::<Result<Vec<_>, _>>()?;
    let fits = match column.ty {
        ColumnType::List => children.len() == 1,
        ColumnType::Map => children.len() == 2,
        _ => !children.is_empty(),
    };
    if !fits {
        return Err(ColumnsError::Children {
            name: name(),
            ty: column.ty,
            children: children.len(),
        });
    }
    if column.ty == ColumnType::Map && children[0].column.nullable {
        return Err(ColumnsError::NullableKey { name: name() });
    }
    Ok(ColumnNode { column, children })
}

fn check_name(name: &str, field_id: i32) -> Result<(), ColumnsError> {
    if name.is_empty() {
        return Err(ColumnsError::EmptyName { field_id });
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(ColumnsError::LongName {
            start: name.chars().take(24).collect(),
            bytes: name.len(),
        });
    }
    if name.chars().any(char::is_control) {
        return Err(ColumnsError::ControlCharacter { field_id });
    }
    Ok(())
}

/// The Arrow schema of a column list; every field that has a row carries its id, nested ones too.
pub fn schema_of_columns(columns: &[Column]) -> Result<Schema, ColumnsError> {
    let roots = tree(columns)?;
    Ok(Schema::new(roots.iter().map(ColumnNode::field).collect::<Fields>()))
}

impl ColumnNode<'_> {
    /// The Arrow field of this column.
    pub fn field(&self) -> FieldRef {
        let mut metadata =
            std::collections::HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), self.column.field_id.to_string())]);
        if self.column.ty == ColumnType::Uuid {
            metadata.insert(EXTENSION_NAME_KEY.to_owned(), UUID_EXTENSION.to_owned());
        }
        let field = Field::new(&self.column.name, self.data_type(), self.column.nullable);
        Arc::new(field.with_metadata(metadata))
    }

    /// The Arrow type of this column.
    pub fn data_type(&self) -> DataType {
        if let Some(leaf) = self.column.ty.leaf_data_type() {
            return leaf;
        }
        let fields: Fields = self.children.iter().map(ColumnNode::field).collect();
        match self.column.ty {
            ColumnType::List => DataType::List(fields[0].clone()),
            ColumnType::Map => DataType::Map(
                Arc::new(Field::new(MAP_ENTRIES, DataType::Struct(fields), false)),
                false,
            ),
            _ => DataType::Struct(fields),
        }
    }
}

/// The id a field carries, when it carries one.
pub fn field_id_of(field: &Field) -> Option<i32> {
    field.metadata().get(PARQUET_FIELD_ID_META_KEY)?.parse().ok()
}

/// Where a column stands among `fields`: by id where the fields carry ids, else by name.
pub fn child_index(fields: &Fields, column: &Column) -> Option<usize> {
    let by_id = fields
        .iter()
        .position(|field| field_id_of(field) == Some(column.field_id));
    by_id.or_else(|| {
        fields
            .iter()
            .position(|field| field_id_of(field).is_none() && field.name() == &column.name)
    })
}

/// The column list of a foreign Arrow schema, with new ids from 1 in the order of the fields, parents first.
///
/// Ids that the file brought along are not taken over: they belong to another table.
pub fn columns_of_schema(schema: &Schema) -> Result<Vec<Column>, ColumnsError> {
    let mut columns = Vec::new();
    for field in schema.fields() {
        push_field(&mut columns, field, field.name(), field.name(), None, 1)?;
    }
    tree(&columns)?;
    Ok(columns)
}

fn push_field(
    columns: &mut Vec<Column>,
    field: &Field,
    name: &str,
    path: &str,
    parent: Option<i32>,
    depth: usize,
) -> Result<(), ColumnsError> {
    if depth > MAX_DEPTH {
        return Err(ColumnsError::TooDeep { name: path.to_owned() });
    }
    let unsupported = || ColumnsError::UnsupportedType {
        column: path.to_owned(),
        data_type: field.data_type().to_string(),
    };
    let ty = ColumnType::of_field(field).ok_or_else(unsupported)?;
    // A foreign schema may be of any size; it is left before it is copied.
    if columns.len() == MAX_COLUMNS {
        return Err(ColumnsError::TooMany(MAX_COLUMNS + 1));
    }
    let field_id = columns.len() as i32 + 1;
    // Arrow's null type says nothing about nullability; a column of it certainly has nulls.
    let nullable = field.is_nullable() || field.data_type() == &DataType::Null;
    columns.push(Column {
        field_id,
        name: name.to_owned(),
        ty,
        nullable,
        parent,
    });
    let mut child = |field: &Field, name: &str| {
        push_field(
            columns,
            field,
            name,
            &format!("{path}.{name}"),
            Some(field_id),
            depth + 1,
        )
    };
    match field.data_type() {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => child(item, "element"),
        DataType::Struct(fields) => fields.iter().try_for_each(|field| child(field, field.name())),
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else {
                return Err(unsupported());
            };
            let [key, value] = pair.as_ref() else {
                return Err(unsupported());
            };
            child(&key.as_ref().clone().with_nullable(false), "key")?;
            child(value, "value")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    fn nested() -> Vec<Column> {
        vec![
            Column::new(1, "id", ColumnType::Int64, false),
            Column::new(2, "tags", ColumnType::List, true),
            Column::new(3, "element", ColumnType::Text, true).within(2),
            Column::new(4, "place", ColumnType::Struct, true),
            Column::new(5, "lat", ColumnType::Float64, true).within(4),
            Column::new(6, "lon", ColumnType::Float64, true).within(4),
            Column::new(7, "labels", ColumnType::Map, true),
            Column::new(8, "key", ColumnType::Text, false).within(7),
            Column::new(9, "value", ColumnType::Uuid, true).within(7),
            Column::new(
                10,
                "amount",
                ColumnType::Decimal {
                    precision: 20,
                    scale: 4,
                },
                true,
            ),
        ]
    }

    #[test]
    fn column_list_and_schema_are_inverse() {
        let schema = schema_of_columns(&nested()).unwrap();
        assert_eq!(columns_of_schema(&schema).unwrap(), nested());
    }

    #[test]
    fn column_list_and_signed_rows_are_inverse() {
        let defs: Vec<ColumnDef> = nested().iter().map(Column::to_def).collect();
        assert_eq!(columns_of_defs(&defs).unwrap(), nested());
        let mut unknown = defs.clone();
        unknown[0].ty = "int128".into();
        assert!(matches!(columns_of_defs(&unknown), Err(ColumnsError::TypeName { .. })));
        let mut orphan = defs;
        orphan.remove(1);
        assert!(matches!(
            columns_of_defs(&orphan),
            Err(ColumnsError::Parent { parent: 2, .. })
        ));
    }

    #[test]
    fn every_field_with_a_row_carries_its_id() {
        let schema = schema_of_columns(&nested()).unwrap();
        let DataType::List(element) = schema.field(1).data_type() else {
            panic!("list expected")
        };
        assert_eq!(field_id_of(element), Some(3));
        let DataType::Map(entries, false) = schema.field(3).data_type() else {
            panic!("map expected")
        };
        assert_eq!(field_id_of(entries), None);
        let DataType::Struct(pair) = entries.data_type() else {
            panic!("struct expected")
        };
        assert_eq!(
            pair.iter().map(|field| field_id_of(field)).collect::<Vec<_>>(),
            [Some(8), Some(9)]
        );
    }

    #[test]
    fn foreign_ids_are_replaced() {
        let field = Field::new("a", DataType::Int32, true)
            .with_metadata([(PARQUET_FIELD_ID_META_KEY.to_owned(), "77".to_owned())].into());
        let columns = columns_of_schema(&Schema::new(vec![field])).unwrap();
        assert_eq!(columns, [Column::new(1, "a", ColumnType::Int32, true)]);
    }

    #[test]
    fn unsupported_types_are_named_with_their_path() {
        let inner = Field::new("took", DataType::Duration(TimeUnit::Second), true);
        let schema = Schema::new(vec![Field::new("run", DataType::Struct(vec![inner].into()), true)]);
        let error = columns_of_schema(&schema).unwrap_err();
        assert_eq!(
            error.to_string(),
            "column \"run.took\" has the type Duration(s), which a table cannot hold"
        );
    }

    #[test]
    fn broken_lists_are_refused() {
        let column = |id, name: &str, ty| Column::new(id, name, ty, true);
        let int = ColumnType::Int64;
        let cases: Vec<(&str, Vec<Column>)> = vec![
            ("empty", vec![]),
            ("id 0", vec![column(0, "a", int)]),
            ("negative id", vec![column(-1, "a", int)]),
            ("reserved id", vec![column(FIRST_RESERVED_FIELD_ID, "a", int)]),
            ("id twice", vec![column(1, "a", int), column(1, "b", int)]),
            ("no name", vec![column(1, "", int)]),
            ("line feed in name", vec![column(1, "a\nb", int)]),
            ("long name", vec![column(1, &"n".repeat(129), int)]),
            ("name twice", vec![column(1, "a", int), column(2, "a", int)]),
            ("parent missing", vec![column(1, "a", int).within(9)]),
            (
                "parent a leaf",
                vec![column(1, "a", int), column(2, "b", int).within(1)],
            ),
            ("own parent", vec![column(1, "a", ColumnType::List).within(1)]),
            (
                "parent later",
                vec![column(1, "b", int).within(2), column(2, "a", ColumnType::List)],
            ),
            ("list of none", vec![column(1, "a", ColumnType::List)]),
            ("struct of none", vec![column(1, "a", ColumnType::Struct)]),
            (
                "list of two",
                vec![
                    column(1, "a", ColumnType::List),
                    column(2, "x", int).within(1),
                    column(3, "y", int).within(1),
                ],
            ),
            (
                "map of one",
                vec![column(1, "a", ColumnType::Map), column(2, "key", int).within(1)],
            ),
            (
                "null key",
                vec![
                    column(1, "a", ColumnType::Map),
                    column(2, "k", int).within(1),
                    column(3, "v", int).within(1),
                ],
            ),
        ];
        for (case, columns) in cases {
            assert!(tree(&columns).is_err(), "{case}");
        }
        let many: Vec<Column> = (1..=1025).map(|id| column(id, &format!("c{id}"), int)).collect();
        assert!(tree(&many[..1024]).is_ok());
        assert_eq!(tree(&many).unwrap_err(), ColumnsError::TooMany(1025));
        let fields: Vec<Field> = (0..1025)
            .map(|id| Field::new(format!("c{id}"), DataType::Int8, true))
            .collect();
        assert_eq!(
            columns_of_schema(&Schema::new(fields)),
            Err(ColumnsError::TooMany(1025))
        );
        let mut deep = vec![column(1, "c1", ColumnType::List)];
        deep.extend((2..40).map(|id| column(id, &format!("c{id}"), ColumnType::List).within(id - 1)));
        assert!(matches!(tree(&deep), Err(ColumnsError::TooDeep { .. })));
    }

    #[test]
    fn same_name_under_two_parents_is_fine() {
        let columns = [
            Column::new(1, "a", ColumnType::List, true),
            Column::new(2, "element", ColumnType::Int64, true).within(1),
            Column::new(3, "b", ColumnType::List, true),
            Column::new(4, "element", ColumnType::Int64, true).within(3),
        ];
        assert_eq!(tree(&columns).unwrap().len(), 2);
    }
}
