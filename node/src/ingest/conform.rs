//! Arrays of a foreign file as arrays of the table's columns: equal values or an error, never a rounded one.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray as _, ListArray, MapArray, StructArray, new_null_array},
    buffer::{NullBuffer, OffsetBuffer, ScalarBuffer},
    compute::{CastOptions, cast_with_options, kernels::cmp},
    datatypes::{DataType, Decimal128Type, Fields, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType},
    error::ArrowError,
    util::display::array_value_to_string,
};
use sovm_object::types::{ColumnType, UTC};

use super::{error::Misfit, target::TargetColumn};

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Why an array does not become a column.
#[derive(Debug)]
pub(super) enum ConformError {
    /// The types do not go together, whatever the values.
    Type {
        path: String,
        found: String,
        expected: ColumnType,
    },
    /// One value does not fit.
    Value {
        row: usize,
        path: String,
        value: String,
        misfit: Misfit,
    },
    /// A struct has a field that the column has not.
    Unknown { path: String },
    /// A struct lacks a field that may not be null.
    Missing { path: String },
    /// The array library refused.
    Arrow(ArrowError),
}

impl From<ArrowError> for ConformError {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

impl ConformError {
    fn below(mut self, name: &str, row_of: impl Fn(usize) -> usize) -> Self {
        match &mut self {
            Self::Value { row, path, .. } => {
                *row = row_of(*row);
                *path = format!("{name}.{path}");
            }
            Self::Type { path, .. } | Self::Unknown { path } | Self::Missing { path } => {
                *path = format!("{name}.{path}")
            }
            Self::Arrow(_) => {}
        }
        self
    }
}

/// The array as `target` holds it. `visible` says which rows a parent shows; nulls elsewhere are nobody's.
pub(super) fn conform(
    array: &ArrayRef,
    target: &TargetColumn,
    visible: Option<&NullBuffer>,
) -> Result<ArrayRef, ConformError> {
    let conformed = match target.ty {
        ColumnType::List => list(array, target)?,
        ColumnType::Map => map(array, target)?,
        ColumnType::Struct => structs(array, target)?,
        _ => leaf(array, target)?,
    };
    if !target.nullable && conformed.null_count() > 0 {
        let missing = |row: &usize| conformed.is_null(*row) && visible.is_none_or(|visible| visible.is_valid(*row));
        if let Some(row) = (0..conformed.len()).find(missing) {
            return Err(ConformError::Value {
                row,
                path: target.name.clone(),
                value: String::new(),
                misfit: Misfit::Missing,
            });
        }
    }
    Ok(conformed)
}

fn type_error(array: &dyn Array, target: &TargetColumn) -> ConformError {
    let found = ColumnType::of_field(&arrow::datatypes::Field::new("", array.data_type().clone(), true));
    let found = found.map_or_else(|| array.data_type().to_string(), |ty| ty.to_string());
    ConformError::Type {
        path: target.name.clone(),
        found,
        expected: target.ty,
    }
}

/// Nulls where the input would overflow, so that the row can be found.
fn cast(array: &dyn Array, to: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(
        array,
        to,
        &CastOptions {
            safe: true,
            ..CastOptions::default()
        },
    )
}

fn leaf(array: &ArrayRef, target: &TargetColumn) -> Result<ArrayRef, ConformError> {
    use DataType as D;
    let to = target.field.data_type();
    let from = array.data_type();
    let is_number = |data_type: &D| data_type.is_integer() || data_type.is_floating() || is_decimal(data_type);
    let conformed = match (from, target.ty) {
        // Ways to write a column down; what counts are the values.
        (D::Dictionary(_, values), _) => return leaf(&cast(array, values)?, target),
        (D::RunEndEncoded(_, values), _) => return leaf(&cast(array, values.data_type())?, target),
        (D::Null, _) => new_null_array(to, array.len()),
        _ if from == to => array.clone(),
        (D::Utf8 | D::LargeUtf8 | D::Utf8View, ColumnType::Text)
        | (D::Binary | D::LargeBinary | D::BinaryView | D::FixedSizeBinary(_), ColumnType::Bytes) => cast(array, to)?,
        (D::Time32(_) | D::Time64(_), ColumnType::TimeUs) | (D::Date64, ColumnType::Date) => exact(array, to, target)?,
        (D::Timestamp(_, None), ColumnType::TimestampUsLocal) => exact(array, to, target)?,
        (D::Timestamp(_, Some(zone)), ColumnType::TimestampUs) => {
            // The instant is the same in every zone; only the label changes.
            let micros = exact(array, &D::Timestamp(TimeUnit::Microsecond, Some(zone.clone())), target)?;
            Arc::new(
                micros
                    .as_primitive::<TimestampMicrosecondType>()
                    .clone()
                    .with_timezone(UTC),
            )
        }
        _ if is_number(from) && is_number(to) => exact(array, to, target)?,
        _ => return Err(type_error(array, target)),
    };
    check_range(&conformed, target)?;
    Ok(conformed)
}

const fn is_decimal(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..)
    )
}

/// Casts there and back, and demands what was there before.
fn exact(array: &ArrayRef, to: &DataType, target: &TargetColumn) -> Result<ArrayRef, ConformError> {
    let there = cast(array, to)?;
    let back = cast(&there, array.data_type())?;
    let same = cmp::not_distinct(&back, array)?;
    if same.true_count() == array.len() {
        return Ok(there);
    }
    let row = same.values().iter().position(|same| !same).unwrap_or_default();
    let misfit = if there.is_null(row) {
        Misfit::OutOfRange(target.ty)
    } else {
        Misfit::Inexact(target.ty)
    };
    Err(value_error(array, row, target, misfit))
}

fn value_error(array: &dyn Array, row: usize, target: &TargetColumn, misfit: Misfit) -> ConformError {
    let value = array_value_to_string(array, row).unwrap_or_default();
    ConformError::Value {
        row,
        path: target.name.clone(),
        value,
        misfit,
    }
}

/// Files may claim a type and hold values beyond it; nothing after this checks again.
fn check_range(array: &ArrayRef, target: &TargetColumn) -> Result<(), ConformError> {
    let bad = match target.ty {
        ColumnType::TimeUs => {
            let times = array.as_primitive::<Time64MicrosecondType>();
            times
                .iter()
                .position(|time| time.is_some_and(|time| !(0..DAY).contains(&time)))
        }
        ColumnType::Decimal { precision, .. } => {
            let limit = 10_u128.pow(u32::from(precision));
            let decimals = array.as_primitive::<Decimal128Type>();
            decimals
                .iter()
                .position(|value| value.is_some_and(|value| value.unsigned_abs() >= limit))
        }
        _ => None,
    };
    match bad {
        Some(row) => Err(value_error(array, row, target, Misfit::OutOfRange(target.ty))),
        None => Ok(()),
    }
}

/// Offsets from zero, and the row that an item belongs to.
fn rebase(offsets: &[i32]) -> (usize, usize, OffsetBuffer<i32>) {
    let first = offsets.first().copied().unwrap_or(0);
    let last = offsets.last().copied().unwrap_or(0);
    let rebased: Vec<i32> = offsets.iter().map(|offset| offset - first).collect();
    (
        first as usize,
        (last - first) as usize,
        OffsetBuffer::new(ScalarBuffer::from(rebased)),
    )
}

fn row_of(offsets: &OffsetBuffer<i32>) -> impl Fn(usize) -> usize {
    |item| {
        offsets
            .partition_point(|offset| *offset as usize <= item)
            .saturating_sub(1)
    }
}

fn list(array: &ArrayRef, target: &TargetColumn) -> Result<ArrayRef, ConformError> {
    let (DataType::List(element), [child]) = (target.field.data_type(), target.children.as_slice()) else {
        return Err(type_error(array, target));
    };
    let array = match array.data_type() {
        DataType::Null => return Ok(new_null_array(target.field.data_type(), array.len())),
        DataType::List(_) => array.clone(),
        DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => cast(array, &DataType::List(item.clone()))?,
        _ => return Err(type_error(array, target)),
    };
    let lists = array.as_list::<i32>();
    let (first, len, offsets) = rebase(lists.value_offsets());
    let items = conform(&lists.values().slice(first, len), child, None)
        .map_err(|error| error.below(&target.name, row_of(&offsets)))?;
    Ok(Arc::new(ListArray::try_new(
        element.clone(),
        offsets,
        items,
        lists.nulls().cloned(),
    )?))
}

fn map(array: &ArrayRef, target: &TargetColumn) -> Result<ArrayRef, ConformError> {
    let (DataType::Map(entries, _), [key, value]) = (target.field.data_type(), target.children.as_slice()) else {
        return Err(type_error(array, target));
    };
    if array.data_type() == &DataType::Null {
        return Ok(new_null_array(target.field.data_type(), array.len()));
    }
    let (Some(maps), DataType::Struct(fields)) = (array.as_map_opt(), entries.data_type()) else {
        return Err(type_error(array, target));
    };
    let (first, len, offsets) = rebase(maps.value_offsets());
    let side = |values: &ArrayRef, column: &TargetColumn| {
        conform(&values.slice(first, len), column, None).map_err(|error| error.below(&target.name, row_of(&offsets)))
    };
    let pair = vec![side(maps.keys(), key)?, side(maps.values(), value)?];
    let pairs = StructArray::try_new(fields.clone(), pair, None)?;
    Ok(Arc::new(MapArray::try_new(
        entries.clone(),
        offsets,
        pairs,
        maps.nulls().cloned(),
        false,
    )?))
}

fn structs(array: &ArrayRef, target: &TargetColumn) -> Result<ArrayRef, ConformError> {
    let DataType::Struct(fields) = target.field.data_type() else {
        return Err(type_error(array, target));
    };
    if array.data_type() == &DataType::Null {
        return Ok(new_null_array(target.field.data_type(), array.len()));
    }
    let Some(structs) = array.as_struct_opt() else {
        return Err(type_error(array, target));
    };
    let children = by_name(
        structs.fields(),
        structs.columns(),
        &target.children,
        array.len(),
        structs.nulls(),
    )
    .map_err(|error| error.below(&target.name, |row| row))?;
    Ok(Arc::new(StructArray::try_new(
        fields.clone(),
        children,
        structs.nulls().cloned(),
    )?))
}

/// The arrays of `targets` in their order, found by name among `fields`.
pub(super) fn by_name(
    fields: &Fields,
    arrays: &[ArrayRef],
    targets: &[TargetColumn],
    rows: usize,
    visible: Option<&NullBuffer>,
) -> Result<Vec<ArrayRef>, ConformError> {
    if let Some(unknown) = fields
        .iter()
        .find(|field| targets.iter().all(|target| target.name != *field.name()))
    {
        return Err(ConformError::Unknown {
            path: unknown.name().clone(),
        });
    }
    let child = |target: &TargetColumn| match fields.iter().position(|field| *field.name() == target.name) {
        Some(index) => conform(&arrays[index], target, visible),
        None if target.nullable => Ok(new_null_array(target.field.data_type(), rows)),
        None => Err(ConformError::Missing {
            path: target.name.clone(),
        }),
    };
    targets.iter().map(child).collect()
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{
            BinaryArray, BooleanArray, Date32Array, Date64Array, Decimal128Array, Decimal256Array, DictionaryArray,
            FixedSizeBinaryArray, FixedSizeListArray, Float32Array, Float64Array, Int8Array, Int32Array, Int32RunArray,
            Int64Array, LargeStringArray, StringArray, StringViewArray, Time32SecondArray, Time64MicrosecondArray,
            Time64NanosecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
        },
        datatypes::{Date32Type, Field, Float32Type, Int32Type, i256},
    };
    use sovm_object::types::Column;

    use super::{super::target::Target, *};

    fn column(ty: ColumnType) -> TargetColumn {
        Target::new(&[Column::new(1, "c", ty, true)]).unwrap().columns.remove(0)
    }

    fn ok(array: impl Array + 'static, ty: ColumnType) -> ArrayRef {
        let target = column(ty);
        let conformed = conform(&(Arc::new(array) as ArrayRef), &target, None).unwrap();
        assert_eq!(conformed.data_type(), target.field.data_type());
        conformed
    }

    fn misfit(array: impl Array + 'static, ty: ColumnType) -> (usize, Misfit) {
        match conform(&(Arc::new(array) as ArrayRef), &column(ty), None) {
            Err(ConformError::Value { row, misfit, .. }) => (row, misfit),
            other => panic!("{other:?}"),
        }
    }

    const DECIMAL: ColumnType = ColumnType::Decimal { precision: 4, scale: 2 };

    #[test]
    fn equal_values_pass() {
        ok(LargeStringArray::from(vec!["a"]), ColumnType::Text);
        ok(StringViewArray::from(vec![Some("a"), None]), ColumnType::Text);
        ok(
            DictionaryArray::<Int32Type>::from_iter([Some("a"), None, Some("a")]),
            ColumnType::Text,
        );
        ok(
            FixedSizeBinaryArray::try_from_iter([[1, 2]].into_iter()).unwrap(),
            ColumnType::Bytes,
        );
        ok(
            FixedSizeBinaryArray::try_from_iter([[1; 16]].into_iter()).unwrap(),
            ColumnType::Uuid,
        );
        ok(Int8Array::from(vec![Some(-1), None]), ColumnType::Int64);
        ok(UInt64Array::from(vec![5]), ColumnType::Int8);
        ok(Int64Array::from(vec![1 << 53]), ColumnType::Float64);
        ok(Float64Array::from(vec![Some(5.0), None]), ColumnType::Int64);
        ok(Float32Array::from(vec![0.1, f32::NAN]), ColumnType::Float64);
        ok(Float64Array::from(vec![0.5, f64::INFINITY]), ColumnType::Float32);
        ok(Int64Array::from(vec![99]), DECIMAL);
        ok(
            Decimal128Array::from(vec![1500])
                .with_precision_and_scale(10, 3)
                .unwrap(),
            DECIMAL,
        );
        ok(
            Decimal256Array::from(vec![i256::from(150)])
                .with_precision_and_scale(38, 2)
                .unwrap(),
            DECIMAL,
        );
        let zoned = ok(
            TimestampNanosecondArray::from(vec![1_000]).with_timezone("America/New_York"),
            ColumnType::TimestampUs,
        );
        assert_eq!(zoned.as_primitive::<TimestampMicrosecondType>().value(0), 1);
        ok(TimestampSecondArray::from(vec![-5]), ColumnType::TimestampUsLocal);
        ok(Time32SecondArray::from(vec![86_399]), ColumnType::TimeUs);
        assert_eq!(ok(arrow::array::NullArray::new(3), ColumnType::Date).null_count(), 3);
        let days = ok(Date64Array::from(vec![Some(-86_400_000), None]), ColumnType::Date);
        assert_eq!(days.as_primitive::<Date32Type>().value(0), -1);
        let runs = ["a", "a", "b"].into_iter().collect::<Int32RunArray>();
        assert_eq!(ok(runs, ColumnType::Text).as_string::<i32>().value(1), "a");
    }

    /// Half floats widen to `float32`, which holds every one of them, the odd ones included.
    #[test]
    fn half_floats_widen() {
        let halves: ArrayRef = Arc::new(Float32Array::from(vec![
            Some(1.5),
            Some(f32::NEG_INFINITY),
            Some(65_504.0),
            Some(5.960_464_5e-8),
            Some(f32::NAN),
            None,
        ]));
        let halves = cast(&halves, &DataType::Float16).unwrap();
        let wide = conform(&halves, &column(ColumnType::Float32), None).unwrap();
        let wide = wide.as_primitive::<Float32Type>();
        assert_eq!(
            (wide.value(0), wide.value(1), wide.value(2)),
            (1.5, f32::NEG_INFINITY, 65_504.0)
        );
        assert_eq!(wide.value(3), 2f32.powi(-24));
        assert!(wide.value(4).is_nan() && wide.is_null(5));
    }

    #[test]
    fn changed_values_are_refused_with_their_row() {
        use ColumnType as T;
        assert_eq!(
            misfit(Int64Array::from(vec![1, 128]), T::Int8),
            (1, Misfit::OutOfRange(T::Int8))
        );
        assert_eq!(
            misfit(Int64Array::from(vec![-1]), T::UInt64),
            (0, Misfit::OutOfRange(T::UInt64))
        );
        assert_eq!(
            misfit(UInt64Array::from(vec![u64::MAX]), T::Int64),
            (0, Misfit::OutOfRange(T::Int64))
        );
        assert_eq!(
            misfit(Int64Array::from(vec![None, Some((1 << 53) + 1)]), T::Float64),
            (1, Misfit::Inexact(T::Float64))
        );
        assert_eq!(
            misfit(Float64Array::from(vec![5.5]), T::Int64),
            (0, Misfit::Inexact(T::Int64))
        );
        assert_eq!(misfit(Float64Array::from(vec![1.0, f64::NAN]), T::Int64).0, 1);
        assert_eq!(
            misfit(Float64Array::from(vec![0.1]), T::Float32),
            (0, Misfit::Inexact(T::Float32))
        );
        assert_eq!(
            misfit(Int64Array::from(vec![100]), DECIMAL),
            (0, Misfit::OutOfRange(DECIMAL))
        );
        let fine = Decimal128Array::from(vec![1501])
            .with_precision_and_scale(10, 3)
            .unwrap();
        assert_eq!(misfit(fine, DECIMAL), (0, Misfit::Inexact(DECIMAL)));
        assert_eq!(
            misfit(TimestampNanosecondArray::from(vec![1_000, 1_001]), T::TimestampUsLocal),
            (1, Misfit::Inexact(T::TimestampUsLocal))
        );
        assert_eq!(
            misfit(TimestampSecondArray::from(vec![i64::MAX]), T::TimestampUsLocal).1,
            Misfit::OutOfRange(T::TimestampUsLocal)
        );
        assert_eq!(
            misfit(Time64NanosecondArray::from(vec![1]), T::TimeUs),
            (0, Misfit::Inexact(T::TimeUs))
        );
        assert_eq!(
            misfit(Time64MicrosecondArray::from(vec![DAY]), T::TimeUs),
            (0, Misfit::OutOfRange(T::TimeUs))
        );
        assert_eq!(
            misfit(Date64Array::from(vec![0, 1]), T::Date),
            (1, Misfit::Inexact(T::Date))
        );
        // A file may claim fewer digits than its values have.
        let lying = Decimal128Array::from(vec![10_000]).with_data_type(DataType::Decimal128(4, 2));
        assert_eq!(misfit(lying, DECIMAL), (0, Misfit::OutOfRange(DECIMAL)));
    }

    #[test]
    fn types_that_do_not_go_together_are_refused() {
        use ColumnType as T;
        let arrays: [(ArrayRef, T); 10] = [
            (Arc::new(StringArray::from(vec!["1"])), T::Int64),
            (Arc::new(Int64Array::from(vec![1])), T::Text),
            (Arc::new(BooleanArray::from(vec![true])), T::Int8),
            (Arc::new(Date32Array::from(vec![1])), T::TimestampUs),
            (Arc::new(TimestampSecondArray::from(vec![1])), T::TimestampUs),
            (
                Arc::new(TimestampSecondArray::from(vec![1]).with_timezone("UTC")),
                T::TimestampUsLocal,
            ),
            (Arc::new(BinaryArray::from(vec![&b"a"[..]])), T::Text),
            (Arc::new(StringArray::from(vec!["a"])), T::Bytes),
            (Arc::new(BinaryArray::from(vec![&b"a"[..]])), T::Uuid),
            (Arc::new(Int64Array::from(vec![1])), T::Date),
        ];
        for (array, ty) in arrays {
            assert!(
                matches!(conform(&array, &column(ty), None), Err(ConformError::Type { .. })),
                "{ty}"
            );
        }
    }

    fn nested() -> Vec<TargetColumn> {
        let columns = [
            Column::new(1, "l", ColumnType::List, true),
            Column::new(2, "element", ColumnType::Int8, true).within(1),
            Column::new(3, "s", ColumnType::Struct, true),
            Column::new(4, "a", ColumnType::Int64, false).within(3),
            Column::new(5, "b", ColumnType::Text, true).within(3),
        ];
        Target::new(&columns).unwrap().columns
    }

    #[test]
    fn nested_values_are_converted_and_refused_by_top_level_row() {
        let columns = nested();
        let fixed = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
            vec![Some(vec![Some(1), Some(2)]), None, Some(vec![Some(3), Some(4)])],
            2,
        );
        let conformed = conform(&(Arc::new(fixed) as ArrayRef), &columns[0], None).unwrap();
        assert_eq!(conformed.data_type(), columns[0].field.data_type());
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
            Some(vec![Some(1)]),
            Some(vec![]),
            None,
            Some(vec![Some(2), Some(300)]),
        ]);
        let sliced: ArrayRef = Arc::new(lists.slice(1, 3));
        match conform(&sliced, &columns[0], None) {
            Err(ConformError::Value { row, path, value, .. }) => {
                assert_eq!((row, path.as_str(), value.as_str()), (2, "l.element", "300"));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn structs_go_by_name() {
        let target = &nested()[1];
        let a = || Arc::new(Int32Array::from(vec![Some(1), None])) as ArrayRef;
        let fields = |names: &[&str]| -> Fields {
            names
                .iter()
                .map(|name| Field::new(*name, DataType::Int32, true))
                .collect()
        };
        let structs = |names: &[&str], nulls: Option<Vec<bool>>| {
            let arrays = names.iter().map(|_| a()).collect();
            Arc::new(StructArray::new(fields(names), arrays, nulls.map(NullBuffer::from))) as ArrayRef
        };
        // The null of `a` is hidden by its null struct, so it breaks no promise; `b` is missing and becomes null.
        let conformed = conform(&structs(&["a"], Some(vec![true, false])), target, None).unwrap();
        assert_eq!(conformed.data_type(), target.field.data_type());
        assert!(matches!(
            conform(&structs(&["a"], None), target, None),
            Err(ConformError::Value {
                row: 1,
                misfit: Misfit::Missing,
                ..
            })
        ));
        assert!(
            matches!(conform(&structs(&["a", "x"], None), target, None), Err(ConformError::Unknown { path }) if path == "s.x")
        );
        assert!(matches!(
            conform(&structs(&["b"], None), target, None),
            Err(ConformError::Missing { .. } | ConformError::Type { .. })
        ));
        assert!(matches!(conform(&a(), target, None), Err(ConformError::Type { .. })));
    }
}
