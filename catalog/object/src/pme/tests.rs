//! Tests across the steps of an object.

mod duckdb;
mod envelope;
mod foreign;
mod forge;
mod hostile;
mod key_ref;
mod padding;
mod profile;
mod repack;
mod round_trip;
mod steps;
mod types;
mod vectors;

use std::{collections::HashMap, future::Future, pin::pin, sync::Arc, task};

use arrow::{
    array::{
        Array as _, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array,
        Int64Array, ListArray, MapArray, StringArray, StructArray, TimestampMicrosecondArray,
    },
    buffer::{NullBuffer, OffsetBuffer},
    compute::concat_batches,
    datatypes::{DataType, Field, Fields, Schema, SchemaRef},
    record_batch::RecordBatch,
};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use super::{fuzz::CountingNonces, *};
use crate::{
    id::{KeyRef, StorageId},
    secret::Dek,
    verified::{MemoryObject, VerifiedRead as _},
};

/// Runs a future that never waits, as all futures over memory.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut task::Context::from_waker(task::Waker::noop())) {
        task::Poll::Ready(value) => value,
        task::Poll::Pending => panic!("a memory source never waits"),
    }
}

fn dek() -> Dek {
    Dek::from_bytes([0x42; 32])
}

fn key_ref() -> KeyRef {
    KeyRef::from_bytes(*b"0123456789abcdef")
}

fn id_of(bytes: &[u8]) -> StorageId {
    StorageId::from_bytes(*blake3::hash(bytes).as_bytes())
}

fn field(name: &str, data_type: DataType, id: i32) -> Field {
    Field::new(name, data_type, true)
        .with_metadata(HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())]))
}

fn seal(encoded: Encoded) -> Sealed {
    let encrypted = encoded.encrypt(&dek(), &mut CountingNonces::default()).unwrap();
    encrypted.with_key_ref(key_ref()).pad().unwrap().seal().unwrap()
}

fn write(batch: &RecordBatch, options: EncodeOptions) -> Sealed {
    seal(Encoded::new(batch.schema(), [batch], options).unwrap())
}

fn object(bytes: &[u8]) -> MemoryObject {
    MemoryObject::verify(id_of(bytes), bytes.to_vec()).unwrap()
}

fn open(bytes: &[u8]) -> Result<Footer, OpenError> {
    let object = object(bytes);
    ready(Footer::open(&object, id_of(bytes), &dek(), OpenOptions::default()))
}

/// Reads `projection` of all row groups through the three steps an engine takes.
fn read_projected(bytes: &[u8], footer: &Footer, projection: &Projection) -> Result<RecordBatch, DecodeError> {
    let groups: Vec<usize> = (0..footer.row_groups()).collect();
    let plan = footer.plan(&groups, projection)?;
    let chunks = ready(object(bytes).read(footer.storage_id(), plan.ranges())).unwrap();
    let batches = footer.decode(&plan, chunks, DecodeOptions { batch_size: 1000 })?;
    let schema = batches.schema().clone();
    let batches = batches.collect::<Result<Vec<_>, _>>()?;
    Ok(concat_batches(&schema, &batches).unwrap())
}

fn read_all(bytes: &[u8], footer: &Footer) -> Result<RecordBatch, DecodeError> {
    read_projected(bytes, footer, &footer.project_all())
}

/// Deterministic numbers.
fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    })
}

fn nulls(rows: usize, every: usize) -> NullBuffer {
    (0..rows).map(|row| row % every != 0).collect::<Vec<bool>>().into()
}

/// Rows of the types tables have, with nulls and nesting.
fn sample(rows: usize) -> RecordBatch {
    let n = rows as i64;
    let int = Int64Array::from_iter_values(0..n);
    let small = Int32Array::from_iter((0..n).map(|i| (i % 5 != 0).then_some((i % 17) as i32)));
    let float = Float64Array::from_iter_values(numbers(1).take(rows).map(|x| x as f64 / 7.0));
    let text = StringArray::from_iter((0..n).map(|i| (i % 3 != 0).then(|| format!("name {}", i % 40))));
    let bytes = BinaryArray::from_iter((0..n).map(|i| (i % 4 != 0).then(|| vec![i as u8; (i % 9) as usize])));
    let flag = BooleanArray::from_iter((0..n).map(|i| (i % 7 != 0).then_some(i % 2 == 0)));
    let day = Date32Array::from_iter_values((0..n).map(|i| 19_000 + (i % 400) as i32));
    let time = TimestampMicrosecondArray::from_iter_values((0..n).map(|i| 1_700_000_000_000_000 + i * 1_000))
        .with_timezone("UTC");
    let money = Decimal128Array::from_iter((0..n).map(|i| (i % 6 != 0).then_some(i128::from(i) * 1_000_003 - 5)))
        .with_precision_and_scale(38, 4)
        .unwrap();

    let lengths: Vec<usize> = (0..rows).map(|row| row % 4).collect();
    let total: usize = lengths.iter().sum();
    let item = Arc::new(field("element", DataType::Int32, 21));
    let items = Arc::new(Int32Array::from_iter(
        (0..total as i32).map(|i| (i % 5 != 0).then_some(i)),
    ));
    let list = ListArray::new(
        item,
        OffsetBuffer::from_lengths(lengths.clone()),
        items,
        Some(nulls(rows, 6)),
    );

    let inner: Fields = vec![field("a", DataType::Int64, 31), field("b", DataType::Utf8, 32)].into();
    let structure = StructArray::new(
        inner.clone(),
        vec![Arc::new(int.clone()), Arc::new(text.clone())],
        Some(nulls(rows, 8)),
    );

    let deep_values = StructArray::new(
        vec![field("x", DataType::Int64, 42), field("y", DataType::Boolean, 43)].into(),
        vec![
            Arc::new(Int64Array::from_iter_values(0..total as i64)) as ArrayRef,
            Arc::new(BooleanArray::from_iter(
                (0..total).map(|i| (i % 3 != 0).then_some(true)),
            )),
        ],
        None,
    );
    let deep_item = Arc::new(field("element", deep_values.data_type().clone(), 41));
    let deep = ListArray::new(
        deep_item,
        OffsetBuffer::from_lengths(lengths.clone()),
        Arc::new(deep_values),
        None,
    );

    let entries = StructArray::new(
        vec![
            field("key", DataType::Utf8, 51).with_nullable(false),
            field("value", DataType::Int64, 52),
        ]
        .into(),
        vec![
            Arc::new(StringArray::from_iter_values((0..total).map(|i| format!("k{i}")))) as ArrayRef,
            Arc::new(Int64Array::from_iter(
                (0..total as i64).map(|i| (i % 2 == 0).then_some(i)),
            )),
        ],
        None,
    );
    let entries_field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    let map = MapArray::new(
        entries_field,
        OffsetBuffer::from_lengths(lengths),
        entries,
        Some(nulls(rows, 5)),
        false,
    );

    let columns: Vec<(&str, i32, ArrayRef)> = vec![
        ("int", 1, Arc::new(int)),
        ("small", 2, Arc::new(small)),
        ("float", 3, Arc::new(float)),
        ("text", 4, Arc::new(text)),
        ("bytes", 5, Arc::new(bytes)),
        ("flag", 6, Arc::new(flag)),
        ("day", 7, Arc::new(day)),
        ("time", 8, Arc::new(time)),
        ("money", 9, Arc::new(money)),
        ("list", 20, Arc::new(list)),
        ("structure", 30, Arc::new(structure)),
        ("deep", 40, Arc::new(deep)),
        ("map", 50, Arc::new(map)),
    ];
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, id, array)| field(name, array.data_type().clone(), *id))
        .collect();
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, _, array)| array).collect()).unwrap()
}
