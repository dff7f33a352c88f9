//! Where a column's smallest and largest values stand, found on the arrays themselves: encoding every value only to compare it
//! costs ten times as much.

use arrow::{
    array::{Array, PrimitiveArray},
    datatypes::ArrowPrimitiveType,
};

use super::encoder::{ColumnEncoder, Values};

/// The rows that bound one array, in the order of canonical bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Extremes {
    /// Rows of a smallest and of a largest value, NaN left out; `None` when there is no value.
    pub(crate) rows: Option<(usize, usize)>,
    /// Whether a value is NaN.
    pub(crate) has_nan: bool,
}

impl ColumnEncoder<'_> {
    /// Finds the bounds; `None` for nested types, which have no order.
    pub(crate) fn extremes(&self) -> Option<Extremes> {
        Some(match &self.values {
            Values::Bool(array) => of(*array, |row| array.value(row)),
            Values::Int8(array) => primitive(array),
            Values::Int16(array) => primitive(array),
            Values::Int32(array) => primitive(array),
            Values::Int64(array) => primitive(array),
            Values::UInt8(array) => primitive(array),
            Values::UInt16(array) => primitive(array),
            Values::UInt32(array) => primitive(array),
            Values::UInt64(array) => primitive(array),
            Values::Float32(array) => primitive(array),
            Values::Float64(array) => primitive(array),
            Values::Decimal(array) => primitive(array),
            Values::Date(array) => primitive(array),
            Values::Time(array) => primitive(array),
            Values::Timestamp(array) => primitive(array),
            Values::Text(array) => of(*array, |row| array.value(row).as_bytes()),
            Values::LargeText(array) => of(*array, |row| array.value(row).as_bytes()),
            Values::TextView(array) => of(*array, |row| array.value(row).as_bytes()),
            Values::Bytes(array) => of(*array, |row| array.value(row)),
            Values::LargeBytes(array) => of(*array, |row| array.value(row)),
            Values::BytesView(array) => of(*array, |row| array.value(row)),
            Values::Uuid(array) => of(*array, |row| array.value(row)),
            Values::List(..) | Values::Map(..) | Values::Struct(_) => return None,
        })
    }
}

fn primitive<T: ArrowPrimitiveType<Native: PartialOrd>>(array: &PrimitiveArray<T>) -> Extremes {
    let values = array.values();
    of(array, |row| values[row])
}

/// Both zeros are equal here. NaN alone does not compare with itself.
fn of<V: Copy + PartialOrd>(array: &dyn Array, value: impl Fn(usize) -> V) -> Extremes {
    let mut bounds: Option<((V, usize), (V, usize))> = None;
    let mut has_nan = false;
    let mut see = |row: usize| {
        let value = value(row);
        if value.partial_cmp(&value).is_none() {
            has_nan = true;
            return;
        }
        match &mut bounds {
            None => bounds = Some(((value, row), (value, row))),
            Some((min, _)) if value < min.0 => *min = (value, row),
            Some((_, max)) if value > max.0 => *max = (value, row),
            Some(_) => {}
        }
    };
    match array.nulls() {
        None => (0..array.len()).for_each(see),
        Some(nulls) => nulls.valid_indices().for_each(&mut see),
    }
    Extremes {
        rows: bounds.map(|((_, min), (_, max))| (min, max)),
        has_nan,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int16Array, StringViewArray},
        array::{BinaryArray, FixedSizeBinaryArray, Int64Array, StringArray, UInt64Array},
    };
    use proptest::prelude::*;

    use super::*;
    use crate::types::{Column, ColumnNode, ColumnType};

    /// The bounds of an array, found by encoding all its values and by looking at them.
    fn both_ways(ty: ColumnType, array: &ArrayRef) -> [Option<(Vec<u8>, Vec<u8>)>; 2] {
        let column = Column::new(1, "c", ty, true);
        let node = ColumnNode {
            column: &column,
            children: Vec::new(),
        };
        let encoder = ColumnEncoder::new(&node, array.as_ref()).unwrap();
        let bytes = |row| {
            let mut out = Vec::new();
            encoder.encode(row, &mut out);
            out
        };
        let all: Vec<Vec<u8>> = (0..array.len())
            .filter(|row| !encoder.is_null(*row))
            .map(bytes)
            .collect();
        let compared = all.iter().min().cloned().zip(all.iter().max().cloned());
        let extremes = encoder.extremes().unwrap();
        assert!(!extremes.has_nan);
        [compared, extremes.rows.map(|(min, max)| (bytes(min), bytes(max)))]
    }

    proptest! {
        /// SOP-175: comparing values and comparing their canonical bytes find the same bounds.
        #[test]
        fn values_sort_as_their_bytes(
            ints in prop::collection::vec(any::<Option<i64>>(), 0..20),
            texts in prop::collection::vec(any::<Option<String>>(), 0..20),
            raw in prop::collection::vec(prop::option::of(prop::collection::vec(0_u8..3, 0..4)), 0..20),
            floats in prop::collection::vec(prop::option::of(-9.0_f64..9.0), 0..20),
            bools in prop::collection::vec(any::<Option<bool>>(), 0..3),
        ) {
            let decimals = ints.iter().map(|int| int.map(|int| i128::from(int) * 3));
            let decimals = Decimal128Array::from_iter(decimals).with_precision_and_scale(38, 2).unwrap();
            let uuids = ints.iter().map(|int| int.map(|int| [int.to_be_bytes(), int.to_le_bytes()].concat()));
            let uuids = FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16).unwrap();
            let decimal = ColumnType::Decimal { precision: 38, scale: 2 };
            let arrays: Vec<(ColumnType, ArrayRef)> = vec![
                (ColumnType::Int64, Arc::new(Int64Array::from(ints.clone()))),
                (ColumnType::Int16, Arc::new(ints.iter().map(|int| int.map(|int| int as i16)).collect::<Int16Array>())),
                (ColumnType::UInt64, Arc::new(ints.iter().map(|int| int.map(|int| int as u64)).collect::<UInt64Array>())),
                (decimal, Arc::new(decimals)),
                (ColumnType::Uuid, Arc::new(uuids)),
                (ColumnType::Text, Arc::new(StringArray::from(texts.clone()))),
                (ColumnType::Text, Arc::new(texts.into_iter().collect::<StringViewArray>())),
                (ColumnType::Bytes, Arc::new(raw.iter().map(Option::as_deref).collect::<BinaryArray>())),
                (ColumnType::Float64, Arc::new(Float64Array::from(floats.clone()))),
                (ColumnType::Float32, Arc::new(floats.iter().map(|f| f.map(|f| f as f32)).collect::<Float32Array>())),
                (ColumnType::Bool, Arc::new(BooleanArray::from(bools))),
            ];
            for (ty, array) in arrays {
                let [compared, found] = both_ways(ty, &array);
                prop_assert_eq!(compared, found, "{}", ty);
                let cut = array.slice(array.len() / 2, array.len() - array.len() / 2);
                let [compared, found] = both_ways(ty, &cut);
                prop_assert_eq!(compared, found, "{} cut", ty);
            }
        }
    }
}
