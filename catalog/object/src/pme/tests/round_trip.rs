//! What is written comes back.

use arrow::array::{
    Date64Array, Decimal256Array, DictionaryArray, FixedSizeBinaryArray, Float32Array, Int8Array, Int16Array,
    LargeBinaryArray, LargeStringArray, NullArray, StringViewArray, Time64MicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::{Int32Type, i256};

use super::*;

/// SOP-59: whatever the codec and the count of row groups, the padded object is a well-formed encrypted Parquet file.
#[test]
fn tables_of_many_types_round_trip() {
    for rows in [1, 2, 9, 3_000] {
        for codec in [Codec::Zstd(3), Codec::Lz4, Codec::Snappy, Codec::None] {
            let batch = sample(rows);
            let sealed = write(
                &batch,
                EncodeOptions {
                    codec,
                    row_group_rows: 1_024,
                    ..Default::default()
                },
            );
            assert_eq!(sealed.row_count, rows as u64);
            let footer = open(&sealed.bytes).unwrap();
            assert_eq!(footer.row_groups(), rows.div_ceil(1_024));
            assert_eq!(read_all(&sealed.bytes, &footer).unwrap(), batch);
            assert_eq!(
                footer.audit(&Claims {
                    key_ref: Some(key_ref()),
                    exact_byte_size: Some(sealed.exact_byte_size)
                }),
                []
            );
        }
    }
}

#[test]
fn every_single_type_round_trips() {
    let n = 2_500i64;
    let ints = 0..n;
    let some = |i: i64| i % 11 != 0;
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int8Array::from_iter(ints.clone().map(|i| some(i).then_some(i as i8)))),
        Arc::new(Int16Array::from_iter(ints.clone().map(|i| some(i).then_some(i as i16)))),
        Arc::new(UInt8Array::from_iter_values(ints.clone().map(|i| i as u8))),
        Arc::new(UInt16Array::from_iter_values(ints.clone().map(|i| i as u16))),
        Arc::new(UInt32Array::from_iter_values(ints.clone().map(|i| u32::MAX - i as u32))),
        Arc::new(UInt64Array::from_iter_values(ints.clone().map(|i| u64::MAX - i as u64))),
        Arc::new(Float32Array::from_iter_values(
            ints.clone().map(|i| if i == 3 { f32::NAN } else { -(i as f32) / 3.0 }),
        )),
        Arc::new(Date64Array::from_iter_values(ints.clone().map(|i| i * 86_400_000))),
        Arc::new(Time64MicrosecondArray::from_iter_values(ints.clone())),
        Arc::new(TimestampMillisecondArray::from_iter_values(ints.clone())),
        Arc::new(TimestampNanosecondArray::from_iter_values(ints.clone()).with_timezone("+02:00")),
        Arc::new(LargeStringArray::from_iter_values(ints.clone().map(|i| i.to_string()))),
        Arc::new(LargeBinaryArray::from_iter_values(
            ints.clone().map(|i| i.to_le_bytes()),
        )),
        Arc::new(StringViewArray::from_iter_values(
            ints.clone().map(|i| format!("a rather long text number {}", i % 7)),
        )),
        Arc::new(FixedSizeBinaryArray::try_from_iter(ints.clone().map(|i| i128::from(i).to_be_bytes())).unwrap()),
        Arc::new(
            Decimal256Array::from_iter_values(ints.clone().map(|i| i256::from_i128(i128::from(i) << 60)))
                .with_precision_and_scale(38, 2)
                .unwrap(),
        ),
        Arc::new(
            ints.clone()
                .map(|i| if i % 2 == 0 { "even" } else { "odd" })
                .collect::<DictionaryArray<Int32Type>>(),
        ),
        Arc::new(NullArray::new(n as usize)),
        Arc::new(StringArray::from(vec![""; n as usize])),
        Arc::new(StringArray::from(vec![None::<&str>; n as usize])),
    ];
    for array in arrays {
        let schema = Arc::new(Schema::new(vec![field("c", array.data_type().clone(), 7)]));
        let batch = RecordBatch::try_new(schema, vec![array]).unwrap();
        let sealed = write(
            &batch,
            EncodeOptions {
                row_group_rows: 1_000,
                ..Default::default()
            },
        );
        let footer = open(&sealed.bytes).unwrap();
        assert_eq!(read_all(&sealed.bytes, &footer).unwrap(), batch);
    }
}

#[test]
fn an_object_without_rows_keeps_its_columns() {
    let batch = sample(10).slice(0, 0);
    let sealed = write(&batch, EncodeOptions::default());
    let footer = open(&sealed.bytes).unwrap();
    assert_eq!((footer.row_groups(), sealed.row_count), (0, 0));
    assert_eq!(footer.columns().len(), batch.num_columns());
    assert_eq!(read_all(&sealed.bytes, &footer).unwrap().num_rows(), 0);
}

/// SOP-14: ids of roots, groups and nested leaves survive; readers find columns by them (SOP-17, SOP-19).
#[test]
fn field_ids_survive() {
    let batch = sample(50);
    let sealed = write(&batch, EncodeOptions::default());
    let footer = open(&sealed.bytes).unwrap();
    assert_eq!(footer.schema().fields(), batch.schema().fields());
    let mut ids = footer.facts.field_ids.clone();
    ids.sort_unstable();
    assert_eq!(
        ids,
        [
            1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 30, 31, 32, 40, 41, 42, 43, 50, 51, 52
        ]
    );
    assert_eq!(footer.column(30).unwrap().name, "structure");
    assert_eq!(footer.column(31), None);

    let projection = footer.project([50, 4, 999]);
    let some = read_projected(&sealed.bytes, &footer, &projection).unwrap();
    assert_eq!(some, batch.project(&[3, 12]).unwrap());
    assert!(footer.project([999]).is_empty());
}

/// SOP-83: a projection asks for its own chunks only. SOP-98: no rows without pages.
#[test]
fn plans_name_the_projected_chunks_only() {
    let batch = sample(5_000);
    let sealed = write(
        &batch,
        EncodeOptions {
            row_group_rows: 1_000,
            ..Default::default()
        },
    );
    let footer = open(&sealed.bytes).unwrap();
    let plan = footer.plan(&[1, 3], &footer.project([2])).unwrap();
    assert_eq!(plan.ranges().len(), 2);
    assert!(plan.len() < sealed.bytes.len() as u64 / 20);
    assert!(matches!(
        footer.plan(&[0], &Projection::default()),
        Err(DecodeError::NoColumns)
    ));
    assert!(matches!(
        footer.plan(&[9], &footer.project_all()),
        Err(DecodeError::NoSuchChunk { .. })
    ));
    assert!(matches!(
        footer.plan(&[0], &[99].into_iter().collect()),
        Err(DecodeError::NoSuchChunk { .. })
    ));

    let chunks = ready(object(&sealed.bytes).read(footer.storage_id(), plan.ranges())).unwrap();
    let rows = footer
        .decode(&plan, chunks, DecodeOptions::default())
        .unwrap()
        .map(Result::unwrap);
    let rows: Vec<RecordBatch> = rows.collect();
    let wanted = [batch.slice(1_000, 1_000), batch.slice(3_000, 1_000)].map(|part| part.project(&[1]).unwrap());
    let schema = rows[0].schema();
    assert_eq!(
        concat_batches(&schema, &rows).unwrap(),
        concat_batches(&schema, &wanted).unwrap()
    );

    let count = read_projected(&sealed.bytes, &footer, &footer.narrowest()).unwrap();
    assert_eq!(count.num_rows(), 5_000);
}

/// The view fits Parquet's own readers: same metadata, same addresses.
#[test]
fn views_serve_the_parquet_reader() {
    let batch = sample(2_000);
    let sealed = write(
        &batch,
        EncodeOptions {
            row_group_rows: 700,
            ..Default::default()
        },
    );
    let footer = open(&sealed.bytes).unwrap();
    let whole = object(&sealed.bytes);
    let mut plain = vec![0; sealed.bytes.len()];
    for group in footer.metadata().row_groups() {
        for column in group.columns() {
            let (start, len) = column.byte_range();
            let view = footer.view(whole.whole().part(start..start + len).unwrap()).unwrap();
            plain[start as usize..(start + len) as usize].copy_from_slice(&view);
        }
    }
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::new_with_metadata(
        bytes::Bytes::from(plain),
        footer.reader.clone(),
    );
    let selection = vec![
        parquet::arrow::arrow_reader::RowSelector::skip(650),
        parquet::arrow::arrow_reader::RowSelector::select(100),
        parquet::arrow::arrow_reader::RowSelector::skip(1_240),
        parquet::arrow::arrow_reader::RowSelector::select(10),
    ];
    let rows: Vec<_> = reader
        .with_row_selection(selection.into())
        .build()
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let wanted = [batch.slice(650, 100), batch.slice(1_990, 10)];
    assert_eq!(
        concat_batches(&batch.schema(), &rows).unwrap(),
        concat_batches(&batch.schema(), &wanted).unwrap()
    );
}

#[test]
fn text_can_be_read_as_views() {
    let batch = sample(100).project(&[3]).unwrap();
    let sealed = write(&batch, EncodeOptions::default());
    let schema = Arc::new(Schema::new(vec![field("text", DataType::Utf8View, 4)]));
    let footer = open(&sealed.bytes).unwrap().with_schema(schema.clone()).unwrap();
    assert_eq!(
        read_all(&sealed.bytes, &footer).unwrap().schema().field(0).data_type(),
        &DataType::Utf8View
    );
    let numbers = Arc::new(Schema::new(vec![field("text", DataType::Int8, 4)]));
    assert!(open(&sealed.bytes).unwrap().with_schema(numbers).is_err());
}

/// The encoder takes batches of any size and cuts row groups itself.
#[test]
fn batches_of_any_size_make_the_same_rows() {
    let batch = sample(5_000);
    let mut encoder = Encoder::new(
        batch.schema(),
        EncodeOptions {
            row_group_rows: 1_500,
            ..Default::default()
        },
    )
    .unwrap();
    let mut at = 0;
    let mut last_estimate = 0;
    for len in [1, 1_499, 1, 2_999, 0, 500] {
        encoder.write(&batch.slice(at, len)).unwrap();
        at += len;
        assert_eq!(encoder.rows(), at as u64);
        last_estimate = encoder.encoded_size_estimate();
        assert!(last_estimate > 0);
    }
    let sealed = seal(encoder.finish().unwrap());
    let footer = open(&sealed.bytes).unwrap();
    assert_eq!(
        (0..footer.row_groups())
            .map(|group| footer.claimed_rows(group))
            .collect::<Vec<_>>(),
        [1_500, 1_500, 1_500, 500]
    );
    assert_eq!(read_all(&sealed.bytes, &footer).unwrap(), batch);
    assert!(
        last_estimate.abs_diff(sealed.exact_byte_size) < sealed.exact_byte_size / 2,
        "{last_estimate}"
    );
}

/// Rows with large values close a row group before its row limit.
#[test]
fn large_values_bound_a_row_group() {
    let text = StringArray::from_iter_values((0..40).map(|i| format!("{i}").repeat(2_000_000)));
    let schema = Arc::new(Schema::new(vec![field("text", DataType::Utf8, 1)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(text)]).unwrap();
    let sealed = write(&batch, EncodeOptions::default());
    let footer = open(&sealed.bytes).unwrap();
    assert!(footer.row_groups() > 1);
    assert_eq!(read_all(&sealed.bytes, &footer).unwrap(), batch);
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let batch = sample(10);
    let mut encoder = Encoder::new(batch.schema(), EncodeOptions::default()).unwrap();
    assert!(matches!(
        encoder.write(&batch.project(&[1]).unwrap()),
        Err(EncodeError::Batch(_))
    ));
    let strict = Arc::new(Schema::new(vec![
        field("small", DataType::Int32, 2).with_nullable(false),
    ]));
    let mut encoder = Encoder::new(strict, EncodeOptions::default()).unwrap();
    assert!(matches!(
        encoder.write(&batch.project(&[1]).unwrap()),
        Err(EncodeError::Batch(_))
    ));
}
