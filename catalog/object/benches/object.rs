//! What the steps of an object cost, one thread, without a node around them: `cargo bench -p sovm-object`.
//!
//! Prints MB of encrypted object a second for each step. `sovm bench` measures whole commands.

use std::{hint::black_box, sync::Arc, time::Instant};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use sovm_object::{
    id::KeyRef,
    pme::{DecodeOptions, EncodeOptions, Encoded, Footer, RandomNonces, Sealed},
    secret::Dek,
    verified::{MemoryObject, ObjectTree},
};

const ROWS: i64 = 500_000;
const RUNS: usize = 5;

fn main() {
    let schema = schema();
    let batch = rows(&schema);
    let dek = Dek::from_bytes([7; 32]);
    let sealed = seal(&schema, &batch, &dek);
    println!("{} rows, {} bytes, MB/s of the object", ROWS, sealed.bytes.len());

    let size = sealed.bytes.len();
    report("encode, encrypt, seal", size, || seal(&schema, &batch, &dek));
    report("verify", size, || {
        ObjectTree::of_bytes(sealed.storage_id, &sealed.bytes).expect("the object is whole")
    });
    let whole = MemoryObject::verify(sealed.storage_id, sealed.bytes.clone()).expect("the object is whole");
    let footer = Footer::open_whole(&whole, &dek).expect("the key fits");
    report("decrypt", size, || {
        let groups: Vec<usize> = (0..footer.row_groups()).collect();
        let plan = footer
            .plan(&groups, &footer.project_all())
            .expect("every column is there");
        for range in plan.ranges() {
            let chunk = whole.whole().part(range.clone()).expect("chunks are in the object");
            black_box(footer.view(chunk).expect("every tag fits"));
        }
    });
    report("decrypt and decode", size, || {
        for group in 0..footer.row_groups() {
            let plan = footer
                .plan(&[group], &footer.project_all())
                .expect("every column is there");
            let runs = plan.runs().iter();
            let chunks = runs.map(|run| whole.whole().part(run.clone()).expect("chunks are in the object"));
            let batches = footer
                .decode(&plan, chunks.collect(), DecodeOptions::default())
                .expect("every tag fits");
            batches.for_each(|batch| drop(black_box(batch.expect("pages decode"))));
        }
    });
}

fn schema() -> SchemaRef {
    let field = |id: i32, name: &str, data_type| {
        Field::new(name, data_type, true).with_metadata([("PARQUET:field_id".to_owned(), id.to_string())].into())
    };
    Arc::new(Schema::new(vec![
        field(1, "number", DataType::Int64),
        field(2, "few", DataType::Int64),
        field(3, "name", DataType::Utf8),
    ]))
}

fn rows(schema: &SchemaRef) -> RecordBatch {
    let numbers = (0..ROWS).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 20);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(numbers)),
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(|n| n % 97))),
        Arc::new(StringArray::from_iter_values(
            (0..ROWS).map(|n| format!("N{}", n % 4_000)),
        )),
    ];
    RecordBatch::try_new(schema.clone(), columns).expect("columns fit their schema")
}

fn seal(schema: &SchemaRef, batch: &RecordBatch, dek: &Dek) -> Sealed {
    Encoded::new(schema.clone(), [batch], EncodeOptions::default())
        .expect("rows encode")
        .encrypt(dek, &mut RandomNonces::default())
        .expect("modules encrypt")
        .with_key_ref(KeyRef::from_bytes([7; 16]))
        .pad()
        .expect("the footer can be padded")
        .seal()
        .expect("the object is not too long")
}

/// The best of some runs: what the step costs when nothing else runs.
fn report<T>(step: &str, bytes: usize, mut run: impl FnMut() -> T) {
    let times = (0..RUNS).map(|_| {
        let begun = Instant::now();
        black_box(run());
        begun.elapsed().as_secs_f64()
    });
    let best = times.fold(f64::INFINITY, f64::min);
    println!("{step:<24}{:>10.0}", bytes as f64 / best / 1e6);
}
