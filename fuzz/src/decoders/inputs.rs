//! People's files, with the options they can be read with.

use std::{io::Cursor, path::Path};

use sovm_object::types::{Column, ColumnType};

use super::super::ingest::{Format, Input, Options, Source, SourceSpec};

/// Three bytes of options, then CSV: what it is read with, the separator, a word that means no value.
pub(super) fn csv(bytes: &[u8]) {
    text(bytes, Format::Csv);
}

/// The same for newline-delimited JSON.
pub(super) fn ndjson(bytes: &[u8]) {
    text(bytes, Format::NdJson);
}

fn text(bytes: &[u8], format: Format) {
    let Some(([how, delimiter, word], content)) = bytes.split_first_chunk::<3>() else {
        return;
    };
    let options = Options {
        null_words: [&["NA"][..], &[], &["", "-"], &["null", "\"x\""]][usize::from(word % 4)]
            .iter()
            .map(|word| (*word).to_owned())
            .collect(),
        delimiter: (*delimiter != 0).then_some(*delimiter),
        ..Options::default()
    };
    if how % 2 == 1 {
        // Into a table that is there already: nothing is inferred, every value is converted.
        if let Ok(source) = open(content, format)
            && let Ok(batches) = source.batches(&fixed_columns(), &options)
        {
            batches.for_each(drop);
        }
        return;
    }
    let Ok(mut source) = open(content, format) else { return };
    let Ok(columns) = source.infer(&options) else { return };
    // Inference looked at every row, so every row must fit.
    let schema = sovm_object::types::schema_of_columns(&columns).expect("inferred columns form a table");
    for batch in source
        .batches(&columns, &options)
        .expect("inferred columns are a target")
    {
        let batch = batch.unwrap_or_else(|error| panic!("inferred as {columns:?}, then refused: {error}"));
        assert_eq!(*batch.schema(), schema);
    }
}

fn open(content: &[u8], format: Format) -> Result<Source, super::super::ingest::IngestError> {
    // A pipe is read twice too, so it is spooled; in memory where there is such a place.
    let memory = Path::new("/dev/shm");
    Source::open(SourceSpec {
        inputs: vec![Input::Stream {
            name: "input".to_owned(),
            reader: Box::new(Cursor::new(content.to_vec())),
        }],
        format: Some(format),
        spool_dir: if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        },
    })
}

/// A column of every type without children, named `a` to `q`.
fn fixed_columns() -> Vec<Column> {
    use ColumnType as T;
    let leaves = [
        T::Bool,
        T::Int8,
        T::Int16,
        T::Int32,
        T::Int64,
        T::UInt8,
        T::UInt64,
        T::Float32,
        T::Float64,
        T::Decimal { precision: 9, scale: 2 },
        T::Text,
        T::Bytes,
        T::Date,
        T::TimeUs,
        T::TimestampUs,
        T::TimestampUsLocal,
        T::Uuid,
    ];
    (1..)
        .zip('a'..)
        .zip(leaves)
        .map(|((id, name), ty)| Column::new(id, name.to_string(), ty, true))
        .collect()
}
