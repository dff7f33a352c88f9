//! Every column type, alone and nested to any depth, through all steps and back.

use arrow::{
    array::{
        Decimal256Array, DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray, LargeListArray, PrimitiveArray,
        StringViewArray,
    },
    datatypes::{
        ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
        Int64Type, Time64MicrosecondType, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
        i256,
    },
};

use super::*;
use crate::types::{self, Column, ColumnType, columns_of_schema, schema_of_columns};

/// Makes columns and values from a stream of numbers.
struct Maker<N>(N);

impl<N: Iterator<Item = u64>> Maker<N> {
    fn below(&mut self, limit: usize) -> usize {
        self.0.next().unwrap() as usize % limit
    }

    fn leaf_type(&mut self) -> ColumnType {
        use ColumnType as T;
        let precision = 1 + self.below(38) as u8;
        let decimal = T::decimal(precision, self.below(usize::from(precision) + 1) as u8).unwrap();
        let types = [
            T::Bool,
            T::Int8,
            T::Int16,
            T::Int32,
            T::Int64,
            T::UInt8,
            T::UInt16,
            T::UInt32,
            T::UInt64,
            T::Float32,
            T::Float64,
            T::Text,
            T::Bytes,
            T::Date,
            T::TimeUs,
            T::TimestampUs,
            T::TimestampUsLocal,
            T::Uuid,
            decimal,
            decimal,
        ];
        types[self.below(types.len())]
    }

    /// Appends a column with everything below it. Ids are spread, so that they are no positions.
    fn column(&mut self, columns: &mut Vec<Column>, name: &str, parent: Option<i32>, levels: usize) {
        let ty = match self.below(if levels > 1 { 6 } else { 3 }) {
            3 => ColumnType::List,
            4 => ColumnType::Struct,
            5 => ColumnType::Map,
            _ => self.leaf_type(),
        };
        let field_id = 7 * columns.len() as i32 + 3;
        let nullable = name != "key" && self.below(3) > 0;
        let mut column = Column::new(field_id, name, ty, nullable);
        column.parent = parent;
        columns.push(column);
        let children = match ty {
            ColumnType::List => vec!["element".to_owned()],
            ColumnType::Map => vec!["key".to_owned(), "value".to_owned()],
            ColumnType::Struct => (0..=self.below(3)).map(|child| format!("f{child}")).collect(),
            _ => vec![],
        };
        for child in children {
            self.column(columns, &child, Some(field_id), levels - 1);
        }
    }

    fn nulls(&mut self, nullable: bool, len: usize) -> Option<NullBuffer> {
        nullable.then(|| (0..len).map(|_| self.below(4) > 0).collect::<Vec<bool>>().into())
    }

    fn numbers<T: ArrowPrimitiveType>(
        &mut self,
        data_type: &DataType,
        nulls: Option<NullBuffer>,
        len: usize,
        value: impl Fn(u64) -> T::Native,
    ) -> ArrayRef {
        let values: Vec<T::Native> = (0..len).map(|_| value(self.0.next().unwrap())).collect();
        Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(data_type.clone()))
    }

    fn array(&mut self, field: &Field, len: usize) -> ArrayRef {
        let nulls = self.nulls(field.is_nullable(), len);
        let data_type = field.data_type();
        match data_type {
            DataType::Boolean => {
                let values: Vec<bool> = (0..len).map(|_| self.below(2) == 0).collect();
                Arc::new(BooleanArray::new(values.into(), nulls))
            }
            DataType::Int8 => self.numbers::<Int8Type>(data_type, nulls, len, |x| x as i8),
            DataType::Int16 => self.numbers::<Int16Type>(data_type, nulls, len, |x| x as i16),
            DataType::Int32 => self.numbers::<Int32Type>(data_type, nulls, len, |x| (x as i32).wrapping_mul(3)),
            DataType::Int64 => {
                self.numbers::<Int64Type>(data_type, nulls, len, |x| (x as i64).wrapping_mul(-977_777_777))
            }
            DataType::UInt8 => self.numbers::<UInt8Type>(data_type, nulls, len, |x| x as u8),
            DataType::UInt16 => self.numbers::<UInt16Type>(data_type, nulls, len, |x| x as u16),
            DataType::UInt32 => self.numbers::<UInt32Type>(data_type, nulls, len, |x| (x as u32).wrapping_mul(5)),
            DataType::UInt64 => self.numbers::<UInt64Type>(data_type, nulls, len, |x| x.wrapping_mul(u64::MAX / 3)),
            DataType::Float32 => self.numbers::<Float32Type>(data_type, nulls, len, |x| x as f32 / 3.0 - 1e8),
            DataType::Float64 => self.numbers::<Float64Type>(data_type, nulls, len, |x| 1e300 / (x as f64 + 1.0)),
            DataType::Date32 => self.numbers::<Date32Type>(data_type, nulls, len, |x| x as i32 % 800_000 - 100_000),
            DataType::Time64(_) => {
                self.numbers::<Time64MicrosecondType>(data_type, nulls, len, |x| (x * 41 % 86_400_000_000) as i64)
            }
            DataType::Timestamp(..) => {
                self.numbers::<TimestampMicrosecondType>(data_type, nulls, len, |x| x as i64 * 1_000_003 - 5_000)
            }
            DataType::Decimal128(precision, _) => {
                let limit = 10i128.pow(u32::from(*precision));
                self.numbers::<Decimal128Type>(data_type, nulls, len, |x| {
                    let wide = i128::from(x) << 64 | i128::from(x);
                    (wide % limit) * if x % 2 == 0 { 1 } else { -1 }
                })
            }
            DataType::Utf8 => {
                let texts: Vec<String> = (0..len).map(|_| "ä".repeat(self.below(5))).collect();
                let texts = StringArray::from_iter_values(texts);
                Arc::new(StringArray::new(texts.offsets().clone(), texts.values().clone(), nulls))
            }
            DataType::Binary => {
                let values: Vec<Vec<u8>> = (0..len).map(|_| vec![0xff; self.below(5)]).collect();
                let values = BinaryArray::from_iter_values(values);
                Arc::new(BinaryArray::new(
                    values.offsets().clone(),
                    values.values().clone(),
                    nulls,
                ))
            }
            DataType::FixedSizeBinary(width) => {
                let bytes: Vec<u8> = (0..len * *width as usize).map(|_| self.below(256) as u8).collect();
                Arc::new(FixedSizeBinaryArray::new(*width, bytes.into(), nulls))
            }
            DataType::List(item) => {
                let lengths: Vec<usize> = (0..len).map(|_| self.below(4)).collect();
                let items = self.array(item, lengths.iter().sum());
                Arc::new(ListArray::new(
                    item.clone(),
                    OffsetBuffer::from_lengths(lengths),
                    items,
                    nulls,
                ))
            }
            DataType::Map(entries, _) => {
                let lengths: Vec<usize> = (0..len).map(|_| self.below(3)).collect();
                let pairs = self.structs(entries.data_type(), None, lengths.iter().sum());
                Arc::new(MapArray::new(
                    entries.clone(),
                    OffsetBuffer::from_lengths(lengths),
                    pairs,
                    nulls,
                    false,
                ))
            }
            _ => Arc::new(self.structs(data_type, nulls, len)),
        }
    }

    fn structs(&mut self, data_type: &DataType, nulls: Option<NullBuffer>, len: usize) -> StructArray {
        let DataType::Struct(fields) = data_type else {
            panic!("{data_type} is no type of a table's column")
        };
        let columns = fields.iter().map(|field| self.array(field, len)).collect();
        StructArray::new(fields.clone(), columns, nulls)
    }

    fn batch(&mut self, columns: &[Column], rows: usize) -> RecordBatch {
        let schema = schema_of_columns(columns).unwrap();
        let arrays = schema.fields().iter().map(|field| self.array(field, rows)).collect();
        RecordBatch::try_new(Arc::new(schema), arrays).unwrap()
    }
}

fn comes_back(batch: &RecordBatch, columns: &[Column], codec: Codec) {
    let options = EncodeOptions {
        codec,
        row_group_rows: 17,
        ..Default::default()
    };
    let sealed = write(batch, options);
    let footer = open(&sealed.bytes).unwrap();
    assert_eq!(footer.schema().fields(), batch.schema().fields());
    // SOP-14: every node of the schema has the id of its row in the table's definition, groups included.
    let ids: Vec<i32> = columns.iter().map(|column| column.field_id).collect();
    assert_eq!(footer.facts.field_ids, ids);
    assert_eq!(read_all(&sealed.bytes, &footer).unwrap(), *batch);
    let claims = Claims {
        key_ref: Some(key_ref()),
        exact_byte_size: Some(sealed.exact_byte_size),
    };
    assert_eq!(footer.audit(&claims), []);
}

/// SOP-14: tables of any shape: lists, structs and maps in each other, every leaf type, nulls at every level, all codecs.
#[test]
fn trees_of_any_shape_round_trip() {
    let codecs = [Codec::Zstd(3), Codec::Lz4, Codec::Snappy, Codec::None];
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..120 {
        let mut maker = Maker(numbers(seed));
        let mut columns = Vec::new();
        for root in 0..=maker.below(3) {
            maker.column(&mut columns, &format!("c{root}"), None, 6);
        }
        let rows = [0, 1, 16, 17, 50][maker.below(5)];
        let batch = maker.batch(&columns, rows);
        comes_back(&batch, &columns, codecs[maker.below(4)]);
        seen.extend(columns.iter().map(|column| column.ty.to_string()));
        // What is read gives the table's own column types again.
        let types = |columns: &[Column]| columns.iter().map(|column| column.ty).collect::<Vec<_>>();
        assert_eq!(types(&columns_of_schema(&batch.schema()).unwrap()), types(&columns));
    }
    assert!(seen.len() > 40, "{seen:?}");
}

/// Sixteen levels are the most a table has; they are written and read, and a seventeenth is refused by name.
#[test]
fn sixteen_levels_round_trip() {
    let chain = |levels: usize| {
        let mut columns: Vec<Column> = Vec::new();
        let mut parent = None;
        for level in 1..=levels {
            let ty = match level % 3 {
                _ if level == levels => ColumnType::Int64,
                1 => ColumnType::List,
                2 => ColumnType::Map,
                _ => ColumnType::Struct,
            };
            let in_map = columns.last().is_some_and(|column| column.ty == ColumnType::Text);
            let name = if in_map { "value" } else { "element" };
            let id = columns.len() as i32 + 1;
            let mut column = Column::new(id, name, ty, true);
            column.parent = parent;
            columns.push(column);
            parent = Some(id);
            if ty == ColumnType::Map {
                columns.push(Column::new(id + 1, "key", ColumnType::Text, false).within(id));
            }
        }
        columns
    };
    let columns = chain(types::MAX_DEPTH);
    let batch = Maker(numbers(16)).batch(&columns, 40);
    comes_back(&batch, &columns, Codec::Zstd(3));
    assert!(matches!(
        schema_of_columns(&chain(types::MAX_DEPTH + 1)),
        Err(types::ColumnsError::TooDeep { .. })
    ));
    let deeper = field(
        "outer",
        DataType::Struct(vec![batch.schema().field(0).clone()].into()),
        99,
    );
    let error = Encoder::new(Arc::new(Schema::new(vec![deeper])), EncodeOptions::default()).unwrap_err();
    assert!(matches!(error, EncodeError::UnsupportedType { .. }), "{error}");
}

/// Decimals of every width, at their largest values, with exact statistics; 39 digits are refused by name.
#[test]
fn decimals_to_38_digits_round_trip() {
    for precision in 1..=38u8 {
        for scale in [0, precision / 2, precision] {
            let most = 10i128.pow(u32::from(precision)) - 1;
            let values = [Some(-most), Some(most), None, Some(0), Some(1), Some(-1)];
            let array = Decimal128Array::from_iter(values)
                .with_precision_and_scale(precision, scale as i8)
                .unwrap();
            let schema = Arc::new(Schema::new(vec![field("d", array.data_type().clone(), 1)]));
            let batch = RecordBatch::try_new(schema, vec![Arc::new(array)]).unwrap();
            let sealed = write(&batch, EncodeOptions::default());
            let footer = open(&sealed.bytes).unwrap();
            assert_eq!(read_all(&sealed.bytes, &footer).unwrap(), batch);
            let statistics = footer.statistics(0, 0).unwrap();
            let number = |bytes: &[u8], little: bool| {
                let mut bytes = bytes.to_vec();
                if little {
                    bytes.reverse();
                }
                let sign = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
                let mut wide = [sign; 16];
                wide[16 - bytes.len()..].copy_from_slice(&bytes);
                i128::from_be_bytes(wide)
            };
            let (min, max) = (statistics.min_bytes_opt().unwrap(), statistics.max_bytes_opt().unwrap());
            // Up to 18 digits Parquet stores integers, little-endian; above, big-endian bytes.
            assert_eq!(
                (number(min, precision <= 18), number(max, precision <= 18)),
                (-most, most)
            );
        }
    }
    let wide = Decimal256Array::from(vec![i256::from_i128(1)])
        .with_precision_and_scale(39, 0)
        .unwrap();
    let schema = Arc::new(Schema::new(vec![field("wide", wide.data_type().clone(), 1)]));
    let error = Encoder::new(schema, EncodeOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "column \"wide\" has type Decimal256(39, 0), which objects cannot hold"
    );
}

/// Other Arrow forms of the same columns go in as they are: dictionaries at the root and in lists, long offsets, fixed lists,
/// views inside structs.
#[test]
fn other_arrow_forms_round_trip() {
    let rows = 60;
    let words = || (0..rows).map(|i| (i % 7 != 0).then_some(["red", "green", "blue"][i % 3]));
    let dictionary: DictionaryArray<UInt16Type> = words().collect();
    let items: DictionaryArray<Int8Type> = words().collect();
    let lists = ListArray::new(
        Arc::new(field("element", items.data_type().clone(), 21)),
        OffsetBuffer::from_lengths((0..rows).map(|i| i % 3)),
        Arc::new(items),
        Some(nulls(rows, 5)),
    );
    let long = LargeListArray::new(
        Arc::new(field("element", DataType::Int32, 31)),
        OffsetBuffer::from_lengths((0..rows).map(|i| i % 2)),
        Arc::new(Int32Array::from_iter_values(0..rows as i32)),
        None,
    );
    let fixed = FixedSizeListArray::new(
        Arc::new(field("element", DataType::Float64, 41)),
        2,
        Arc::new(Float64Array::from_iter_values((0..2 * rows).map(|i| i as f64))),
        Some(nulls(rows, 4)),
    );
    let views = StructArray::new(
        vec![field("view", DataType::Utf8View, 51)].into(),
        vec![Arc::new(StringViewArray::from_iter(words())) as ArrayRef],
        Some(nulls(rows, 3)),
    );
    let columns: Vec<(&str, i32, ArrayRef)> = vec![
        ("dictionary", 1, Arc::new(dictionary)),
        ("lists", 20, Arc::new(lists)),
        ("long", 30, Arc::new(long)),
        ("fixed", 40, Arc::new(fixed)),
        ("views", 50, Arc::new(views)),
    ];
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, id, array)| field(name, array.data_type().clone(), *id))
        .collect();
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let sealed = write(
        &batch,
        EncodeOptions {
            row_group_rows: 25,
            ..Default::default()
        },
    );
    let footer = open(&sealed.bytes).unwrap();
    assert_eq!(footer.facts.field_ids, [1, 20, 21, 30, 31, 40, 41, 50, 51]);
    assert_eq!(read_all(&sealed.bytes, &footer).unwrap(), batch);
}
