//! What the fingerprint of a table costs: `cargo bench -p sovm-inventory`.
//!
//! Prints rows a second of a statistical table (dimension codes, a time, a value, a status), by one thread and by all,
//! and how the time of one thread splits between writing texts and hashing them.

use std::{hint::black_box, num::NonZeroUsize, sync::Arc, time::Instant};

use arrow::{
    array::{
        ArrayRef, Date32Array, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
        StringDictionaryBuilder,
    },
    datatypes::{Int32Type, SchemaRef},
};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use sovm_inventory::fingerprint::{
    CanonicalForm, FileDigests, TableFingerprint, fingerprint_batches, fingerprint_parquet, row_text::RowTexts,
    schema::TextSchema, table::row_value,
};

const ROWS: usize = 500_000;
const BATCH_ROWS: usize = 8_192;
const RUNS: usize = 5;

fn main() {
    let batches = table(false);
    let schema = batches[0].schema();
    let texts = texts(&schema, &batches);
    let text_bytes: usize = texts.iter().map(Vec::len).sum();
    println!(
        "{ROWS} rows of {} columns, {:.0} bytes of text a row; rows/s",
        schema.fields().len(),
        text_bytes as f64 / ROWS as f64
    );

    report("write texts", || write_texts(&schema, &batches));
    report("hash texts", || {
        texts.iter().map(|text| u128::from(row_value(text))).sum::<u128>()
    });
    report("fingerprint, one thread", || fingerprint(&schema, &batches));
    let coded = table(true);
    report("the same of dictionaries", || fingerprint(&coded[0].schema(), &coded));
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    report(&format!("fingerprint, {threads} threads"), || {
        fingerprint_batches(CanonicalForm::ONE, &schema, &batches, threads)
            .expect("the table is accepted")
            .rows()
    });
    let file = parquet(&schema, &batches);
    report("from Parquet, one thread", || {
        fingerprint_parquet(CanonicalForm::ONE, file.clone())
            .expect("the file is whole")
            .rows()
    });

    let content = vec![0x5A; 64 << 20];
    let seconds = best(|| FileDigests::of_reader(content.as_slice()).expect("memory can be read"));
    println!(
        "{:<28}{:>12.0} MB/s",
        "digests of a file",
        content.len() as f64 / seconds / 1e6
    );
}

/// Ten columns, as data of a statistical office has them.
fn table(dictionaries: bool) -> Vec<RecordBatch> {
    (0..ROWS)
        .step_by(BATCH_ROWS)
        .map(|start| {
            let rows = start..(start + BATCH_ROWS).min(ROWS);
            let codes = |prefix: &str, distinct: usize, stride: usize| -> ArrayRef {
                let codes = rows.clone().map(|row| format!("{prefix}{}", row / stride % distinct));
                if dictionaries {
                    let mut builder = StringDictionaryBuilder::<Int32Type>::new();
                    codes.for_each(|code| builder.append_value(code));
                    let array: DictionaryArray<Int32Type> = builder.finish();
                    Arc::new(array)
                } else {
                    Arc::new(StringArray::from_iter_values(codes))
                }
            };
            let value = |row: usize| (!row.is_multiple_of(7)).then(|| (row * 2_654_435_761 % 10_000_000) as f64 / 10.0);
            RecordBatch::try_from_iter([
                ("FREQ", codes("M", 1, 1)),
                ("GEO", codes("2021A0", 300, 50)),
                ("SEX", codes("S", 3, 7)),
                ("AGE", codes("Y", 101, 1)),
                ("NAICS", codes("NAICS_", 800, 3)),
                (
                    "TIME_PERIOD",
                    Arc::new(Date32Array::from_iter_values(
                        rows.clone().map(|row| (row % 20_000) as i32),
                    )),
                ),
                ("OBS_VALUE", Arc::new(Float64Array::from_iter(rows.clone().map(value)))),
                ("OBS_STATUS", codes("A", 2, 11)),
                (
                    "DECIMALS",
                    Arc::new(Int32Array::from_iter_values(rows.clone().map(|row| (row % 3) as i32))),
                ),
                (
                    "VECTOR",
                    Arc::new(Int64Array::from_iter_values(
                        rows.clone().map(|row| 41_690_000 + row as i64),
                    )),
                ),
            ])
            .expect("columns are of one length")
        })
        .collect()
}

fn texts(schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<Vec<u8>> {
    let schema = TextSchema::of(schema).expect("the table is accepted");
    let mut texts = Vec::with_capacity(ROWS);
    for batch in batches {
        let rows = RowTexts::new(&schema, batch).expect("the batch is of the table");
        for row in 0..rows.rows() {
            let mut text = Vec::new();
            rows.write(row, &mut text).expect("values are in range");
            texts.push(text);
        }
    }
    texts
}

fn write_texts(schema: &SchemaRef, batches: &[RecordBatch]) -> usize {
    let schema = TextSchema::of(schema).expect("the table is accepted");
    let mut text = Vec::new();
    let mut bytes = 0;
    for batch in batches {
        let rows = RowTexts::new(&schema, batch).expect("the batch is of the table");
        for row in 0..rows.rows() {
            rows.write(row, &mut text).expect("values are in range");
            bytes += black_box(&text).len();
        }
    }
    bytes
}

fn fingerprint(schema: &SchemaRef, batches: &[RecordBatch]) -> u64 {
    let mut table = TableFingerprint::new(CanonicalForm::ONE, schema).expect("the table is accepted");
    for batch in batches {
        table.update(batch).expect("values are in range");
    }
    table.finish().rows()
}

fn parquet(schema: &SchemaRef, batches: &[RecordBatch]) -> Bytes {
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, schema.clone(), None).expect("the schema can be written");
    for batch in batches {
        writer.write(batch).expect("memory can be written");
    }
    writer.close().expect("memory can be written");
    file.into()
}

fn report<T>(step: &str, run: impl FnMut() -> T) {
    println!("{step:<28}{:>12.0}", ROWS as f64 / best(run));
}

fn best<T>(mut run: impl FnMut() -> T) -> f64 {
    let times = (0..RUNS).map(|_| {
        let begun = Instant::now();
        black_box(run());
        begun.elapsed().as_secs_f64()
    });
    times.fold(f64::INFINITY, f64::min)
}
