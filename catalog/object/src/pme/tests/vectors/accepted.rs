//! Objects that every conforming reader opens.

use parquet::file::properties::EnabledStatistics;

use super::{
    super::{
        forge::{DUCKDB_HEADER, Parts, columns, entry, key_values, with_footer, with_header},
        padding::padded_by,
    },
    *,
};

/// An object of our writer: no findings.
fn ours(name: &'static str, rule: &'static str, why: &'static str, rows: RecordBatch, options: EncodeOptions) -> Case {
    let sealed = write(&rows, options);
    Case {
        name,
        clause: "SOP §11.2",
        rule,
        why,
        object: sealed.bytes.to_vec(),
        storage_id: None,
        expect: Expect::Accept {
            rows,
            exact_byte_size: Some(sealed.exact_byte_size),
            findings: &[],
        },
    }
}

/// An object that another writer made, or one of ours that was changed.
fn theirs(
    name: &'static str,
    [clause, rule]: [&'static str; 2],
    why: &'static str,
    rows: RecordBatch,
    object: Vec<u8>,
    findings: &'static [&'static str],
) -> Case {
    Case {
        name,
        clause,
        rule,
        why,
        object,
        storage_id: None,
        expect: Expect::Accept {
            rows,
            exact_byte_size: None,
            findings,
        },
    }
}

pub(super) fn cases() -> Vec<Case> {
    let codec = |codec| EncodeOptions {
        codec,
        ..Default::default()
    };
    let words = sample(40).project(&[0, 3]).unwrap();
    let groups = EncodeOptions {
        row_group_rows: 3,
        ..plain()
    };
    let mut cases = vec![
        ours(
            "every_type",
            "SOP-14",
            "a column of each kind, nested ones too, every node with its field id",
            sample(7),
            plain(),
        ),
        ours(
            "several_row_groups",
            "SOP-368",
            "three row groups, one data page a chunk",
            sample(8).project(&[0, 4, 9]).unwrap(),
            groups,
        ),
        ours(
            "no_rows",
            "SOP-59",
            "an object without rows keeps its columns",
            twins(0).slice(0, 0),
            plain(),
        ),
        ours(
            "codec_zstd",
            "SOP-24",
            "pages were compressed with zstd before encryption",
            words.clone(),
            codec(Codec::Zstd(3)),
        ),
        ours(
            "codec_lz4",
            "SOP-24",
            "pages were compressed with LZ4_RAW before encryption",
            words.clone(),
            codec(Codec::Lz4),
        ),
        ours(
            "codec_snappy",
            "SOP-24",
            "pages were compressed with Snappy before encryption",
            words.clone(),
            codec(Codec::Snappy),
        ),
        ours(
            "codec_none",
            "SOP-24",
            "pages stand uncompressed inside their modules",
            words.clone(),
            codec(Codec::None),
        ),
    ];

    let (padded, _, hyphens) = padded_by(4_608, 128);
    assert_eq!(hyphens, 1);
    cases.push(Case {
        name: "padding_with_a_hyphen",
        clause: "SOP §11.8",
        rule: "SOP-66",
        why: "128 bytes of padding are reached by the second knob only: 127 zeros and one hyphen",
        object: padded.bytes.to_vec(),
        storage_id: None,
        expect: Expect::Accept {
            rows: sample(3).project(&[0]).unwrap(),
            exact_byte_size: Some(padded.exact_byte_size),
            findings: &[],
        },
    });

    let several = Parts::of_foreign(&words, |properties| {
        properties
            .set_data_page_row_count_limit(15)
            .set_write_batch_size(5)
            .set_offset_index_disabled(true)
            .set_statistics_enabled(EnabledStatistics::Chunk)
    });
    assert!(several.chunks.iter().all(|pages| pages.len() > 3));
    let bloom = Parts::of_foreign(&twins(10), |properties| {
        properties
            .set_bloom_filter_enabled(true)
            .set_statistics_enabled(EnabledStatistics::Page)
    });
    let unmarked = with_footer(&twins(20), plain(), |footer| {
        columns(footer).into_iter().for_each(|chunk| chunk.remove(&[8]));
    });
    let other_key = with_footer(&twins(30), plain(), |footer| {
        *key_values(footer).last_mut().unwrap() = entry("sovm:sop-pad-v1xyz", b"text");
    });
    let no_entry = with_footer(&twins(40), plain(), |footer| drop(key_values(footer).pop()));
    let no_key_ref = with_header(&write(&twins(50), plain()).bytes, DUCKDB_HEADER);
    cases.extend([
        theirs(
            "foreign_several_pages",
            ["SOP §11.10", "SOP-375"],
            "several data pages behind a dictionary, as other writers lay them out; no marker, no key reference, no padding",
            words,
            several.seal(),
            &["NoPadEntry", "OffTarget", "NoKeyRef", "NoCryptoMarker"],
        ),
        theirs(
            "foreign_bloom_filter",
            ["SOP §11.2", "SOP-369"],
            "the footer names bloom filters and page indexes; a reader drops them before decoding",
            twins(10),
            bloom.seal(),
            &["NoPadEntry", "OffTarget", "NoKeyRef", "NoCryptoMarker", "BloomFilter"],
        ),
        theirs(
            "no_crypto_markers",
            ["SOP §11.2", "SOP-371"],
            "no column chunk carries the footer-key marker, as in DuckDB's files",
            twins(20),
            unmarked,
            &["OffTarget", "NoCryptoMarker"],
        ),
        theirs(
            "reserved_key_with_a_suffix",
            ["SOP §11.8", "SOP-72"],
            "a key with the reserved prefix is ignored whatever follows it and whatever its value",
            twins(30),
            other_key,
            &["PadKey", "PadValue", "OffTarget"],
        ),
        theirs(
            "no_pad_entry",
            ["SOP §11.8", "SOP-74"],
            "no pad entry at all is a breach that costs no row",
            twins(40),
            no_entry,
            &["NoPadEntry", "OffTarget"],
        ),
        theirs(
            "no_key_ref",
            ["SOP §11.5", "SOP-44"],
            "no key_metadata is a breach that costs no row",
            twins(50),
            no_key_ref,
            &["OffTarget", "NoKeyRef"],
        ),
    ]);
    cases
}
