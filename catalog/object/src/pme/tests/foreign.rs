//! Objects as other writers lay them out: several pages a chunk, bloom filters, page indexes, version 2 pages (SOP-375).

use parquet::{
    basic::Compression,
    file::properties::{EnabledStatistics, WriterVersion},
};

use super::{
    forge::{Parts, columns},
    *,
};
use crate::thrift::Value;

/// Pages and rows of each chunk, through the audit's door.
fn pages(bytes: &[u8], footer: &Footer) -> Vec<Vec<PageInfo>> {
    let whole = object(bytes);
    let page = |range: &std::ops::Range<u64>| footer.pages(whole.whole().part(range.clone()).unwrap()).unwrap();
    footer.chunks.iter().map(page).collect()
}

/// SOP-375, SOP-371: several data pages a chunk read, with a dictionary in front, without one, and with one that overflows
/// half-way; no marker, no key reference, no padding is needed.
#[test]
fn several_pages_a_chunk_read() {
    let batch = sample(9_000);
    for codec in [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::LZ4_RAW] {
        for dictionary in [None, Some(1 << 20), Some(4_096)] {
            let parts = Parts::of_foreign(&batch, |properties| {
                properties
                    .set_compression(codec)
                    .set_dictionary_enabled(dictionary.is_some())
                    .set_dictionary_page_size_limit(dictionary.unwrap_or(1))
                    .set_data_page_row_count_limit(700)
                    .set_write_batch_size(100)
                    .set_max_row_group_row_count(Some(4_000))
                    .set_bloom_filter_enabled(false)
                    .set_offset_index_disabled(true)
                    .set_statistics_enabled(EnabledStatistics::Chunk)
            });
            let bytes = parts.seal();
            let footer = open(&bytes).unwrap();
            assert_eq!(footer.row_groups(), 3);
            assert_eq!(read_all(&bytes, &footer).unwrap(), batch);
            let pages = pages(&bytes, &footer);
            let data = |pages: &[PageInfo]| pages.iter().filter(|page| page.kind == PageKind::Data).count();
            assert!(pages.iter().all(|pages| data(pages) >= 2), "{pages:?}");
            assert_eq!(
                pages.iter().flatten().any(|page| page.kind == PageKind::Dictionary),
                dictionary.is_some()
            );
            // SOP-368: read, and found.
            assert_eq!(audit_pages(&pages[0]), [Finding::DataPages(data(&pages[0]))]);
            // One column of one row group, as a selective scan asks for it.
            let plan = footer.plan(&[1], &footer.project([4])).unwrap();
            let chunks = ready(object(&bytes).read(footer.storage_id(), plan.ranges())).unwrap();
            let rows: usize = footer
                .decode(&plan, chunks, DecodeOptions::default())
                .unwrap()
                .map(|batch| batch.unwrap().num_rows())
                .sum();
            assert_eq!(rows, 4_000);
        }
    }
}

/// SOP-369: offsets of bloom filters and page indexes in a foreign footer are dropped before it is decoded, wherever they
/// point; the audit names the filters.
#[test]
fn bloom_filters_and_indexes_of_others_are_dropped() {
    let batch = sample(300);
    for lie in [None, Some(0), Some(-1), Some(i64::MAX)] {
        let mut parts = Parts::of_foreign(&batch, |properties| {
            properties
                .set_bloom_filter_enabled(true)
                .set_statistics_enabled(EnabledStatistics::Page)
                .set_max_row_group_row_count(Some(100))
        });
        let chunks = columns(&mut parts.footer);
        assert!(chunks.iter().all(|chunk| chunk.i64(4).is_some()), "indexes are there");
        for chunk in chunks {
            let metadata = chunk.struct_mut(3).unwrap();
            // Arrow's writer makes none for booleans.
            if let (Some(lie), true) = (lie, metadata.get(14).is_some()) {
                metadata.set(14, Value::I64(lie));
                metadata.set(15, Value::I32(i32::MAX));
            }
        }
        let with_bloom = columns(&mut parts.footer)
            .into_iter()
            .filter_map(|chunk| chunk.struct_mut(3)?.i64(14))
            .count();
        assert!(with_bloom > 10);
        let bytes = parts.seal();
        let footer = open(&bytes).unwrap();
        assert_eq!(read_all(&bytes, &footer).unwrap(), batch);
        for group in footer.metadata().row_groups() {
            for column in group.columns() {
                assert_eq!(
                    (column.bloom_filter_offset(), column.bloom_filter_length()),
                    (None, None)
                );
                assert_eq!(
                    (column.offset_index_offset(), column.column_index_offset()),
                    (None, None)
                );
            }
        }
        assert!(footer.audit(&Claims::default()).contains(&Finding::BloomFilter));
    }
}

/// SOP-23: version 2 pages give no rows; the audit can still look at them and says what they are.
#[test]
fn version_2_pages_are_refused() {
    let batch = sample(50).project(&[0, 3]).unwrap();
    let bytes = Parts::of_foreign(&batch, |properties| {
        properties.set_writer_version(WriterVersion::PARQUET_2_0)
    })
    .seal();
    let footer = open(&bytes).unwrap();
    assert!(matches!(
        read_all(&bytes, &footer),
        Err(DecodeError::PageVersion {
            row_group: 0,
            column: 0
        })
    ));
    let range = footer.chunks[0].clone();
    let chunk = object(&bytes).whole().part(range).unwrap();
    assert!(matches!(footer.view(chunk), Err(DecodeError::PageVersion { .. })));
    assert!(audit_pages(&pages(&bytes, &footer)[0]).contains(&Finding::PageVersion));
}

/// Gaps between chunks, and chunks in another order than the schema's, are another writer's business.
#[test]
fn gaps_and_order_do_not_matter() {
    let batch = sample(40).project(&[0, 1]).unwrap();
    let mut first = None;
    let bytes = Parts::of_ours(&batch, EncodeOptions::default()).seal_with(|forge, chunk, page| {
        if first != Some(chunk) {
            first = Some(chunk);
            forge.module(b"bytes of no column");
        }
        forge.page(page);
    });
    // The gap stands where the chunk is said to begin, so the footer must say otherwise.
    assert!(read_all(&bytes, &open(&bytes).unwrap()).is_err());

    let mut parts = Parts::of_ours(&batch, EncodeOptions::default());
    let mut forge = forge::Forge::new();
    forge.module(b"bytes of no column");
    forge.chunks(&mut parts, |forge, _, page| forge.page(page));
    forge.module(b"more of them");
    let bytes = forge.end(forge::DUCKDB_HEADER, &parts.footer.encode());
    assert_eq!(read_all(&bytes, &open(&bytes).unwrap()).unwrap(), batch);
}
