//! Arrays from cells.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, FixedSizeBinaryBuilder,
        Float32Builder, Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, ListArray, MapArray,
        NullBufferBuilder, RecordBatch, StringBuilder, StructArray, Time64MicrosecondBuilder,
        TimestampMicrosecondBuilder, UInt8Builder, UInt16Builder, UInt32Builder, UInt64Builder,
    },
    buffer::{OffsetBuffer, ScalarBuffer},
    datatypes::{DataType, FieldRef, Fields},
    error::ArrowError,
};
use sovm_object::types::{ColumnType, UTC};

use super::{
    cell::Cell,
    target::{Target, TargetColumn},
};

/// Gathers rows of cells into one batch after another.
pub(super) struct BatchBuilder {
    columns: Vec<ColumnBuilder>,
    rows: usize,
}

impl BatchBuilder {
    pub(super) fn new(target: &Target) -> Self {
        Self {
            columns: target.columns.iter().map(ColumnBuilder::new).collect(),
            rows: 0,
        }
    }

    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    /// Appends a whole row, one cell for each column in its order.
    pub(super) fn push(&mut self, row: Vec<Cell<'_>>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.columns
            .iter_mut()
            .zip(row)
            .for_each(|(column, cell)| column.push(cell));
        self.rows += 1;
    }

    /// The rows so far, leaving none.
    pub(super) fn finish(&mut self, target: &Target) -> Result<RecordBatch, ArrowError> {
        self.rows = 0;
        let arrays = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        RecordBatch::try_new(target.schema.clone(), arrays)
    }
}

enum ColumnBuilder {
    Bool(BooleanBuilder),
    Int8(Int8Builder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    UInt8(UInt8Builder),
    UInt16(UInt16Builder),
    UInt32(UInt32Builder),
    UInt64(UInt64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal(Decimal128Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Uuid(FixedSizeBinaryBuilder),
    List {
        element: FieldRef,
        offsets: Vec<i32>,
        nulls: NullBufferBuilder,
        items: Box<Self>,
    },
    Struct {
        fields: Fields,
        nulls: NullBufferBuilder,
        children: Vec<Self>,
        len: usize,
    },
    Map {
        entries: FieldRef,
        fields: Fields,
        offsets: Vec<i32>,
        nulls: NullBufferBuilder,
        pair: Box<[Self; 2]>,
    },
}

impl ColumnBuilder {
    fn new(column: &TargetColumn) -> Self {
        use ColumnType as T;
        let children = || column.children.iter().map(Self::new);
        let nulls = || NullBufferBuilder::new(0);
        match (column.ty, column.field.data_type()) {
            (T::List, DataType::List(element)) => {
                let items = children().next().expect("a list column has one child");
                Self::List {
                    element: element.clone(),
                    offsets: vec![0],
                    nulls: nulls(),
                    items: Box::new(items),
                }
            }
            (T::Map, DataType::Map(entries, _)) => {
                let DataType::Struct(fields) = entries.data_type() else {
                    unreachable!("entries of a map are structs")
                };
                let pair = children()
                    .collect::<Vec<_>>()
                    .try_into()
                    .ok()
                    .expect("a map column has two children");
                Self::Map {
                    entries: entries.clone(),
                    fields: fields.clone(),
                    offsets: vec![0],
                    nulls: nulls(),
                    pair: Box::new(pair),
                }
            }
            (T::Struct, DataType::Struct(fields)) => Self::Struct {
                fields: fields.clone(),
                nulls: nulls(),
                children: children().collect(),
                len: 0,
            },
            (ty, data_type) => Self::leaf(ty, data_type),
        }
    }

    fn leaf(ty: ColumnType, data_type: &DataType) -> Self {
        use ColumnType as T;
        match ty {
            T::Bool => Self::Bool(BooleanBuilder::new()),
            T::Int8 => Self::Int8(Int8Builder::new()),
            T::Int16 => Self::Int16(Int16Builder::new()),
            T::Int32 => Self::Int32(Int32Builder::new()),
            T::Int64 => Self::Int64(Int64Builder::new()),
            T::UInt8 => Self::UInt8(UInt8Builder::new()),
            T::UInt16 => Self::UInt16(UInt16Builder::new()),
            T::UInt32 => Self::UInt32(UInt32Builder::new()),
            T::UInt64 => Self::UInt64(UInt64Builder::new()),
            T::Float32 => Self::Float32(Float32Builder::new()),
            T::Float64 => Self::Float64(Float64Builder::new()),
            T::Decimal { .. } => Self::Decimal(Decimal128Builder::new().with_data_type(data_type.clone())),
            T::Text => Self::Text(StringBuilder::new()),
            T::Bytes => Self::Bytes(BinaryBuilder::new()),
            T::Date => Self::Date(Date32Builder::new()),
            T::TimeUs => Self::Time(Time64MicrosecondBuilder::new()),
            T::TimestampUs => Self::Timestamp(TimestampMicrosecondBuilder::new().with_timezone(UTC)),
            T::TimestampUsLocal => Self::Timestamp(TimestampMicrosecondBuilder::new()),
            T::Uuid => Self::Uuid(FixedSizeBinaryBuilder::new(16)),
            T::List | T::Struct | T::Map => unreachable!("nested columns have nested Arrow types"),
        }
    }

    /// Appends a cell that was made for this column, so that its kind and range are right.
    fn push(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Self::Bool(b), Cell::Bool(v)) => b.append_value(v),
            (Self::Int8(b), Cell::Int(v)) => b.append_value(v as i8),
            (Self::Int16(b), Cell::Int(v)) => b.append_value(v as i16),
            (Self::Int32(b), Cell::Int(v)) => b.append_value(v as i32),
            (Self::Int64(b), Cell::Int(v)) => b.append_value(v),
            (Self::UInt8(b), Cell::UInt(v)) => b.append_value(v as u8),
            (Self::UInt16(b), Cell::UInt(v)) => b.append_value(v as u16),
            (Self::UInt32(b), Cell::UInt(v)) => b.append_value(v as u32),
            (Self::UInt64(b), Cell::UInt(v)) => b.append_value(v),
            (Self::Float32(b), Cell::Float(v)) => b.append_value(v as f32),
            (Self::Float64(b), Cell::Float(v)) => b.append_value(v),
            (Self::Decimal(b), Cell::Decimal(v)) => b.append_value(v),
            (Self::Text(b), Cell::Text(v)) => b.append_value(v),
            (Self::Bytes(b), Cell::Bytes(v)) => b.append_value(v),
            (Self::Date(b), Cell::Int(v)) => b.append_value(v as i32),
            (Self::Time(b), Cell::Int(v)) => b.append_value(v),
            (Self::Timestamp(b), Cell::Int(v)) => b.append_value(v),
            (Self::Uuid(b), Cell::Uuid(v)) => b.append_value(v).expect("a UUID has the builder's sixteen bytes"),
            (
                Self::List {
                    offsets, nulls, items, ..
                },
                Cell::List(cells),
            ) => {
                push_offset(offsets, cells.len());
                nulls.append_non_null();
                cells.into_iter().for_each(|cell| items.push(cell));
            }
            (
                Self::Struct {
                    nulls, children, len, ..
                },
                Cell::Struct(cells),
            ) => {
                nulls.append_non_null();
                *len += 1;
                children
                    .iter_mut()
                    .zip(cells)
                    .for_each(|(child, cell)| child.push(cell));
            }
            (
                Self::Map {
                    offsets, nulls, pair, ..
                },
                Cell::Map(entries),
            ) => {
                push_offset(offsets, entries.len());
                nulls.append_non_null();
                for (key, value) in entries {
                    pair[0].push(key);
                    pair[1].push(value);
                }
            }
            (builder, Cell::Null) => builder.push_null(),
            _ => unreachable!("cells are made for their column"),
        }
    }

    fn push_null(&mut self) {
        match self {
            Self::Bool(b) => b.append_null(),
            Self::Int8(b) => b.append_null(),
            Self::Int16(b) => b.append_null(),
            Self::Int32(b) => b.append_null(),
            Self::Int64(b) => b.append_null(),
            Self::UInt8(b) => b.append_null(),
            Self::UInt16(b) => b.append_null(),
            Self::UInt32(b) => b.append_null(),
            Self::UInt64(b) => b.append_null(),
            Self::Float32(b) => b.append_null(),
            Self::Float64(b) => b.append_null(),
            Self::Decimal(b) => b.append_null(),
            Self::Text(b) => b.append_null(),
            Self::Bytes(b) => b.append_null(),
            Self::Date(b) => b.append_null(),
            Self::Time(b) => b.append_null(),
            Self::Timestamp(b) => b.append_null(),
            Self::Uuid(b) => b.append_null(),
            Self::List { offsets, nulls, .. } | Self::Map { offsets, nulls, .. } => {
                push_offset(offsets, 0);
                nulls.append_null();
            }
            Self::Struct {
                nulls, children, len, ..
            } => {
                nulls.append_null();
                *len += 1;
                children.iter_mut().for_each(Self::push_hidden);
            }
        }
    }

    /// A value below a null struct, which nobody sees. A column that may not be null needs some value there.
    fn push_hidden(&mut self) {
        match self {
            Self::Bool(b) => b.append_value(false),
            Self::Int8(b) => b.append_value(0),
            Self::Int16(b) => b.append_value(0),
            Self::Int32(b) => b.append_value(0),
            Self::Int64(b) => b.append_value(0),
            Self::UInt8(b) => b.append_value(0),
            Self::UInt16(b) => b.append_value(0),
            Self::UInt32(b) => b.append_value(0),
            Self::UInt64(b) => b.append_value(0),
            Self::Float32(b) => b.append_value(0.0),
            Self::Float64(b) => b.append_value(0.0),
            Self::Decimal(b) => b.append_value(0),
            Self::Text(b) => b.append_value(""),
            Self::Bytes(b) => b.append_value([]),
            Self::Date(b) => b.append_value(0),
            Self::Time(b) => b.append_value(0),
            Self::Timestamp(b) => b.append_value(0),
            Self::Uuid(b) => b.append_value([0; 16]).expect("a UUID has the builder's sixteen bytes"),
            Self::List { offsets, nulls, .. } | Self::Map { offsets, nulls, .. } => {
                push_offset(offsets, 0);
                nulls.append_non_null();
            }
            Self::Struct {
                nulls, children, len, ..
            } => {
                nulls.append_non_null();
                *len += 1;
                children.iter_mut().for_each(Self::push_hidden);
            }
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Bool(b) => Arc::new(b.finish()),
            Self::Int8(b) => Arc::new(b.finish()),
            Self::Int16(b) => Arc::new(b.finish()),
            Self::Int32(b) => Arc::new(b.finish()),
            Self::Int64(b) => Arc::new(b.finish()),
            Self::UInt8(b) => Arc::new(b.finish()),
            Self::UInt16(b) => Arc::new(b.finish()),
            Self::UInt32(b) => Arc::new(b.finish()),
            Self::UInt64(b) => Arc::new(b.finish()),
            Self::Float32(b) => Arc::new(b.finish()),
            Self::Float64(b) => Arc::new(b.finish()),
            Self::Decimal(b) => Arc::new(b.finish()),
            Self::Text(b) => Arc::new(b.finish()),
            Self::Bytes(b) => Arc::new(b.finish()),
            Self::Date(b) => Arc::new(b.finish()),
            Self::Time(b) => Arc::new(b.finish()),
            Self::Timestamp(b) => Arc::new(b.finish()),
            Self::Uuid(b) => Arc::new(b.finish()),
            Self::List {
                element,
                offsets,
                nulls,
                items,
            } => Arc::new(ListArray::new(
                element.clone(),
                take_offsets(offsets),
                items.finish(),
                nulls.finish(),
            )),
            Self::Struct {
                fields,
                nulls,
                children,
                len,
            } => {
                let arrays = children.iter_mut().map(Self::finish).collect();
                *len = 0;
                Arc::new(StructArray::new(fields.clone(), arrays, nulls.finish()))
            }
            Self::Map {
                entries,
                fields,
                offsets,
                nulls,
                pair,
            } => {
                let arrays = pair.iter_mut().map(Self::finish).collect();
                let structs = StructArray::new(fields.clone(), arrays, None);
                Arc::new(MapArray::new(
                    entries.clone(),
                    take_offsets(offsets),
                    structs,
                    nulls.finish(),
                    false,
                ))
            }
        }
    }
}

/// A batch is closed long before its items reach 2^31: each item takes at least one byte of input.
fn push_offset(offsets: &mut Vec<i32>, len: usize) {
    let last = offsets.last().copied().unwrap_or(0);
    offsets.push(last + len as i32);
}

fn take_offsets(offsets: &mut Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(offsets, vec![0])))
}
