//! Encrypted Parquet, blobs, hash trees and row keys.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::{EnabledStatistics, WriterProperties},
};
use sovm_object::{
    blob, key, pme,
    secret::Dek,
    thrift,
    types::ColumnType,
    verified::{MemoryObject, ObjectTreeIn},
};

use super::{Numbers, storm};
use crate::sample::{self, KEY_REF, id_of, row_groups_of, seal_under, table};

/// Plain Parquet files as our writer and as others make them.
fn plain_files() -> Vec<Vec<u8>> {
    let small = table(vec![
        ("a", 1, Arc::new(Int64Array::from_iter_values(0..40)) as ArrayRef),
        (
            "b",
            2,
            Arc::new(StringArray::from_iter(
                (0..40).map(|i| (i % 3 != 0).then(|| format!("x{}", i % 4))),
            )),
        ),
    ]);
    let zstd = Compression::ZSTD(ZstdLevel::try_new(1).unwrap());
    [
        (small, Compression::UNCOMPRESSED),
        (sample::rows(0..60), Compression::SNAPPY),
        (sample::rows(0..30), zstd),
    ]
    .into_iter()
    .map(|(rows, codec)| {
        let properties = WriterProperties::builder()
            .set_compression(codec)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .build();
        let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties)).unwrap();
        writer.write(&rows).unwrap();
        writer.into_inner().unwrap()
    })
    .collect()
}

/// The footer of a plain Parquet file.
fn footer_of(file: &[u8]) -> Vec<u8> {
    let (rest, tail) = file.split_at(file.len() - 8);
    let len = u32::from_le_bytes(tail[..4].try_into().unwrap()) as usize;
    rest[rest.len() - len..].to_vec()
}

/// SOP-90: a hostile producer's footers, pages and lengths, behind valid tags too.
#[test]
fn parquet_objects() {
    // The key of the library's own entry points.
    let key = Dek::from_bytes([0x5a; 32]);
    let objects: Vec<Vec<u8>> = [1, 40, 90]
        .into_iter()
        .map(|rows| {
            seal_under(&key, 0, &sample::rows(0..rows), row_groups_of(50))
                .bytes
                .to_vec()
        })
        .collect();
    storm("object", 1_500, &objects, pme::fuzz::object);

    let files = plain_files();
    storm("plain file under valid tags", 2_500, &files, pme::fuzz::parquet);

    let footers: Vec<Vec<u8>> = files.iter().map(|file| footer_of(file)).collect();
    storm("footer", 4_000, &footers, |bytes| {
        for size in [0, 12, 5_000, 1 << 30, u64::MAX] {
            pme::fuzz::footer(bytes, size);
        }
    });
    storm("thrift", 3_000, &footers, |bytes| {
        if let Ok(tree) = thrift::Struct::decode(bytes) {
            let _ = tree.encode();
        }
        let _ = thrift::Struct::decode_prefix(bytes);
        let _ = thrift::Reader::new(bytes).whole_struct();
    });
    storm("pages", 1_500, &files, |bytes| {
        let mut numbers = Numbers::new(bytes.len() as u64);
        let cuts: Vec<usize> = (0..numbers.below(9)).map(|_| numbers.below(300)).collect();
        pme::fuzz::pages(bytes, &cuts, &footers[numbers.below(footers.len())]);
    });
}

#[test]
fn blobs_trees_and_keys() {
    let contents = [Vec::new(), vec![7u8; 100], vec![7u8; 70_000]];
    let blobs: Vec<Vec<u8>> = contents
        .iter()
        .map(|content| blob::seal(content, sample::dek(), KEY_REF).unwrap().bytes)
        .collect();
    storm("blob", 2_000, &blobs, |bytes| {
        let _ = blob::Blob::head_ranges(bytes.len() as u64);
        if let Ok(object) = MemoryObject::verify(id_of(bytes), bytes.to_vec()) {
            let _ = blob::open(object.whole(), &sample::dek());
        }
    });
    let mut numbers = Numbers::new(11);
    for _ in 0..20_000 {
        let total = numbers.next() >> numbers.below(64);
        if let Some(layout) = blob::Layout::of_total(total) {
            assert_eq!(layout.chunk(layout.chunks() - 1).end, layout.tail().start);
        }
        let _ = (blob::Layout::for_content(total), blob::unpadded_len(total));
    }

    let outboards = vec![vec![0; 64], vec![1; 128], vec![2; 640]];
    storm("hash tree", 3_000, &outboards, |bytes| {
        for size in [0, 1, 16_384, 16_385, 40_000, 1 << 40, u64::MAX] {
            if let Ok(tree) = ObjectTreeIn::from_outboard(id_of(bytes), size, bytes) {
                let _ = tree.prove_size(bytes);
            }
        }
    });

    let names = [
        "bool",
        "int8",
        "uint64",
        "float64",
        "text",
        "bytes",
        "date",
        "timestamp_us",
        "uuid",
    ];
    let mut types: Vec<ColumnType> = names.iter().map(|name| name.parse().unwrap()).collect();
    types.extend(ColumnType::decimal(38, 4));
    let keys = vec![
        vec![1, 0, 0, 0, 0, 0, 0, 0, 1],
        b"\x01text\0\xff\0\0".to_vec(),
        vec![0; 20],
    ];
    storm("key", 5_000, &keys, |bytes| {
        for ty in &types {
            let _ = (
                key::decode_bound(*ty, bytes),
                key::decode_identity(&[*ty, types[0]], bytes),
            );
        }
    });
}
