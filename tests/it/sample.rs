//! Rows of every kind that tables have, objects made of them, and the way back to plain values.

use std::{collections::HashMap, future::Future, ops::Range, pin::pin, sync::Arc, task};

use arrow::{
    array::{
        Array, ArrayRef, AsArray as _, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
        Float64Array, Int32Array, Int64Array, ListArray, StringArray, StructArray, TimestampMicrosecondArray,
        TimestampMillisecondArray,
    },
    buffer::NullBuffer,
    compute::concat_batches,
    datatypes::{
        DataType, Date32Type, Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Schema, TimeUnit,
        TimestampMicrosecondType, TimestampMillisecondType,
    },
    record_batch::RecordBatch,
};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use serde_json::{Value, json};
use sovm_object::{
    id::{KeyRef, StorageId},
    pme::{DecodeOptions, EncodeOptions, Encoded, Footer, NonceSource, OpenOptions, Projection, Sealed},
    secret::Dek,
    verified::{MemoryObject, ObjectTree, ReadError, VerifiedBytes, VerifiedRead},
};

/// The key of all objects made here.
pub(crate) const DEK: [u8; 32] = [0x42; 32];

pub(crate) const KEY_REF: KeyRef = KeyRef::from_bytes(*b"0123456789abcdef");

pub(crate) const fn dek() -> Dek {
    Dek::from_bytes(DEK)
}

/// A nullable field with its id.
pub(crate) fn field(name: &str, data_type: DataType, id: i32) -> Field {
    Field::new(name, data_type, true)
        .with_metadata(HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())]))
}

/// A table of columns with their ids.
pub(crate) fn table(columns: Vec<(&str, i32, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, id, array)| field(name, array.data_type().clone(), *id))
        .collect();
    let arrays = columns.into_iter().map(|(.., array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Rows with nulls, dictionaries, nesting, decimals and times. Row `i` is the same whatever the range.
pub(crate) fn rows(range: Range<i64>) -> RecordBatch {
    let every = |n: i64| move |i: i64| (i % n != 0).then_some(i);
    let numbers = |i: i64| (i % 6 != 0).then(|| (0..i % 4).map(move |j| every(5)(i + j).map(|v| v as i32)));
    let count = (range.end - range.start) as usize;

    let legs: Vec<Option<Vec<i64>>> = range
        .clone()
        .map(|i| (i % 4 != 1).then(|| (0..i % 3).map(|j| 10 * i + j).collect()))
        .collect();
    let flat: Vec<i64> = legs.iter().flatten().flatten().copied().collect();
    let stop = StructArray::new(
        vec![
            field("x", DataType::Int64, 42),
            field(
                "path",
                DataType::List(Arc::new(field("element", DataType::Int32, 44))),
                43,
            ),
        ]
        .into(),
        vec![
            Arc::new(flat.iter().map(|&v| every(7)(v)).collect::<Int64Array>()) as ArrayRef,
            Arc::new(list_of(flat.iter().map(|&v| numbers(v)), 44)),
        ],
        None,
    );
    let (_, offsets, _, nulls) =
        ListArray::from_iter_primitive::<Int64Type, _, _>(legs.into_iter().map(|l| l.map(|l| l.into_iter().map(Some))))
            .into_parts();
    let trips = ListArray::new(
        Arc::new(field("element", stop.data_type().clone(), 41)),
        offsets,
        Arc::new(stop),
        nulls,
    );

    let place = StructArray::new(
        vec![field("a", DataType::Int64, 31), field("b", DataType::Utf8, 32)].into(),
        vec![
            Arc::new(range.clone().map(every(9)).collect::<Int64Array>()) as ArrayRef,
            Arc::new(
                range
                    .clone()
                    .map(|i| Some(format!("place {i}")))
                    .collect::<StringArray>(),
            ),
        ],
        Some(NullBuffer::from_iter(range.clone().map(|i| i % 8 != 0))),
    );
    let tag: DictionaryArray<Int32Type> = range
        .clone()
        .map(|i| (i % 10 != 0).then_some(["red", "green", "blue"][(i % 3) as usize]))
        .collect();
    let at = range.clone().map(|i| 1_700_000_000_000_000 + i * 1_000_001);
    let price = range.clone().map(|i| Some(i128::from(i % 1_000_000) * 7 - 300));
    let total = range
        .clone()
        .map(|i| every(6)(i).map(|i| i128::from(i) * 1_234_567_890_123_456_789_012 - 5));

    table(vec![
        ("id", 1, Arc::new(Int64Array::from_iter_values(range.clone()))),
        (
            "small",
            2,
            Arc::new(
                range
                    .clone()
                    .map(|i| every(5)(i).map(|i| (i % 17) as i32))
                    .collect::<Int32Array>(),
            ),
        ),
        (
            "ratio",
            3,
            Arc::new(Float64Array::from_iter_values(range.clone().map(|i| i as f64 / 7.0))),
        ),
        (
            "name",
            4,
            Arc::new(
                range
                    .clone()
                    .map(|i| every(3)(i).map(|i| format!("name {}", i % 40)))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "raw",
            5,
            Arc::new(
                range
                    .clone()
                    .map(|i| every(4)(i).map(|i| vec![i as u8; (i % 9) as usize]))
                    .collect::<BinaryArray>(),
            ),
        ),
        (
            "flag",
            6,
            Arc::new(
                range
                    .clone()
                    .map(|i| every(7)(i).map(|i| i % 2 == 0))
                    .collect::<BooleanArray>(),
            ),
        ),
        (
            "day",
            7,
            Arc::new(Date32Array::from_iter_values(
                range.clone().map(|i| 19_000 + (i % 400) as i32),
            )),
        ),
        (
            "at",
            8,
            Arc::new(TimestampMicrosecondArray::from_iter_values(at).with_timezone("UTC")),
        ),
        (
            "local",
            9,
            Arc::new(
                range
                    .clone()
                    .map(|i| every(11)(i).map(|i| i * 86_399_999 - 5))
                    .collect::<TimestampMillisecondArray>(),
            ),
        ),
        (
            "price",
            10,
            Arc::new(
                Decimal128Array::from_iter(price)
                    .with_precision_and_scale(9, 2)
                    .unwrap(),
            ),
        ),
        (
            "total",
            11,
            Arc::new(
                Decimal128Array::from_iter(total)
                    .with_precision_and_scale(38, 4)
                    .unwrap(),
            ),
        ),
        ("tag", 12, Arc::new(tag)),
        ("void", 13, Arc::new(Int64Array::new_null(count))),
        ("numbers", 20, Arc::new(list_of(range.map(numbers), 21))),
        ("place", 30, Arc::new(place)),
        ("trips", 40, Arc::new(trips)),
    ])
}

fn list_of<I: IntoIterator<Item = Option<i32>>>(lists: impl IntoIterator<Item = Option<I>>, id: i32) -> ListArray {
    let (_, offsets, items, nulls) = ListArray::from_iter_primitive::<Int32Type, _, _>(lists).into_parts();
    ListArray::new(Arc::new(field("element", DataType::Int32, id)), offsets, items, nulls)
}

/// Nonces that count, so that objects are the same in each run. `lane` keeps objects under one key apart.
pub(crate) struct CountingNonces {
    pub(crate) lane: u32,
    pub(crate) count: u64,
}

impl NonceSource for CountingNonces {
    fn next_nonce(&mut self) -> [u8; 12] {
        self.count += 1;
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.lane.to_be_bytes());
        nonce[4..].copy_from_slice(&self.count.to_be_bytes());
        nonce
    }
}

pub(crate) fn row_groups_of(rows: usize) -> EncodeOptions {
    EncodeOptions {
        row_group_rows: rows,
        ..EncodeOptions::default()
    }
}

/// Goes through all five steps under `key`.
pub(crate) fn seal_under(key: &Dek, lane: u32, batch: &RecordBatch, options: EncodeOptions) -> Sealed {
    let encoded = Encoded::new(batch.schema(), [batch], options).unwrap();
    let encrypted = encoded.encrypt(key, &mut CountingNonces { lane, count: 0 }).unwrap();
    encrypted.with_key_ref(KEY_REF).pad().unwrap().seal().unwrap()
}

pub(crate) fn seal(batch: &RecordBatch, options: EncodeOptions) -> Sealed {
    seal_under(&dek(), 0, batch, options)
}

pub(crate) fn id_of(bytes: &[u8]) -> StorageId {
    StorageId::from_bytes(*blake3::hash(bytes).as_bytes())
}

/// An object under the id its bytes have.
pub(crate) fn object(bytes: &[u8]) -> MemoryObject {
    MemoryObject::verify(id_of(bytes), bytes.to_vec()).unwrap()
}

/// Runs a future over memory, which never waits.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut task::Context::from_waker(task::Waker::noop())) {
        task::Poll::Ready(value) => value,
        task::Poll::Pending => panic!("a source in memory never waits"),
    }
}

/// Bytes on a disk nobody vouches for, read against the proven tree of the true object.
pub(crate) struct Disk {
    pub(crate) tree: ObjectTree,
    pub(crate) bytes: Vec<u8>,
}

impl Disk {
    pub(crate) fn of(object: &[u8]) -> Self {
        Self {
            tree: ObjectTree::of_bytes(id_of(object), object).unwrap(),
            bytes: object.to_vec(),
        }
    }
}

impl VerifiedRead for Disk {
    async fn size(&self, _id: StorageId) -> Result<u64, ReadError> {
        Ok(self.tree.size())
    }

    async fn read(&self, _id: StorageId, ranges: &[Range<u64>]) -> Result<Vec<VerifiedBytes>, ReadError> {
        let one = |range: &Range<u64>| -> Result<VerifiedBytes, ReadError> {
            let cover = self.tree.covering(range)?;
            let read = self.bytes[cover.start as usize..cover.end as usize].to_vec();
            Ok(self
                .tree
                .prove(cover.start, read.into())?
                .part(range.clone())
                .expect("the cover holds the range"))
        };
        ranges.iter().map(one).collect()
    }
}

/// Everything that can go wrong on the way from a source to rows.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// The error of a hash that does not fit, and nothing else.
pub(crate) fn is_hash_mismatch(failure: &Failure) -> bool {
    use sovm_object::pme::OpenError;
    let read = match failure.downcast_ref() {
        Some(OpenError::Read(error)) => Some(error),
        _ => failure.downcast_ref(),
    };
    matches!(read, Some(ReadError::HashMismatch { .. }))
}

/// Reads `projection` of an opened object in the steps an engine takes.
pub(crate) fn decode(
    source: &impl VerifiedRead,
    footer: &Footer,
    projection: &Projection,
) -> Result<RecordBatch, Failure> {
    let groups: Vec<usize> = (0..footer.row_groups()).collect();
    let plan = footer.plan(&groups, projection)?;
    let chunks = ready(source.read(footer.storage_id(), plan.ranges()))?;
    let batches = footer.decode(&plan, chunks, DecodeOptions::default())?;
    let schema = batches.schema().clone();
    Ok(concat_batches(&schema, &batches.collect::<Result<Vec<_>, _>>()?)?)
}

/// Opens and reads all of an object. A short first read of its end, so that the footer comes in a read of its own.
pub(crate) fn read_all(source: &impl VerifiedRead, id: StorageId) -> Result<RecordBatch, Failure> {
    let footer = ready(Footer::open(source, id, &dek(), OpenOptions { tail_len: 100 }))?;
    decode(source, &footer, &footer.project_all())
}

/// One value as the Python script prints it: floats by their bits, decimals as text, times in microseconds, days, hex.
pub(crate) fn cell(array: &dyn Array, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::Int16 => json!(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => json!(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => json!(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => float(f64::from(array.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(..) => {
            json!(
                array
                    .as_primitive::<arrow::datatypes::Decimal128Type>()
                    .value_as_string(row)
            )
        }
        DataType::Date32 => json!(array.as_primitive::<Date32Type>().value(row)),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            json!(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            json!(array.as_primitive::<TimestampMillisecondType>().value(row) * 1_000)
        }
        DataType::Utf8 => json!(array.as_string::<i32>().value(row)),
        DataType::Binary => json!(hex(array.as_binary::<i32>().value(row))),
        DataType::FixedSizeBinary(_) => json!(hex(array.as_fixed_size_binary().value(row))),
        DataType::Dictionary(..) => {
            let dictionary = array.as_dictionary::<Int32Type>();
            cell(dictionary.values(), dictionary.keys().value(row) as usize)
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|item| cell(&items, item)).collect()
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            fields
                .iter()
                .zip(columns)
                .map(|(field, column)| (field.name().clone(), cell(column, row)))
                .collect()
        }
        other => panic!("no test has columns of {other}"),
    }
}

/// All rows, a list of values each.
pub(crate) fn values(batch: &RecordBatch) -> Vec<Value> {
    (0..batch.num_rows())
        .map(|row| batch.columns().iter().map(|column| cell(column, row)).collect())
        .collect()
}

/// A double by its bits, so that equal means equal.
pub(crate) fn float(value: f64) -> Value {
    json!(format!("{:016x}", value.to_bits()))
}

/// Back from [`float`].
pub(crate) fn as_float(value: &Value) -> f64 {
    f64::from_bits(u64::from_str_radix(value.as_str().unwrap(), 16).unwrap())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}
