//! The bytes of an object are those of the profile.

use std::{collections::HashSet, ops::Range};

use arrow::array::StringArray;
use parquet::{
    arrow::ArrowWriter,
    file::properties::{EnabledStatistics, WriterProperties, WriterVersion},
};

use super::{
    forge::{cipher, footer_from, modules, open_module},
    *,
};
use crate::thrift::{Reader, Struct, Value};

/// The modules of one of our objects, and where its FileCryptoMetaData starts.
fn byte_map(bytes: &[u8]) -> (Vec<Range<usize>>, usize) {
    (modules(bytes, 23), footer_from(bytes))
}

/// Decrypted footer of one of our objects.
fn plain_footer(bytes: &[u8]) -> Vec<u8> {
    open_module(&bytes[modules(bytes, 23).pop().unwrap()])
}

/// SOP-6, SOP-34, SOP-372: every clear byte is accounted for, and FileCryptoMetaData is the one form.
#[test]
fn clear_bytes_are_the_envelope_only() {
    let sealed = write(
        &sample(3_000),
        EncodeOptions {
            row_group_rows: 1_000,
            ..Default::default()
        },
    );
    let bytes = &sealed.bytes;
    assert_eq!((&bytes[..4], &bytes[bytes.len() - 4..]), (&MAGIC[..], &MAGIC[..]));
    let (modules, footer_from) = byte_map(bytes);
    let mut expected = vec![0x1c, 0x1c, 0, 0, 0x18, 0x10];
    expected.extend_from_slice(key_ref().as_bytes());
    expected.push(0);
    assert_eq!(&bytes[footer_from..footer_from + 23], &expected[..]);
    let covered: usize = modules.iter().map(Range::len).sum();
    assert_eq!(4 + covered + 23 + 8, bytes.len());
}

/// SOP-33, SOP-62: no name, value or padding key stands in clear.
#[test]
fn nothing_of_the_table_is_in_clear() {
    let text = StringArray::from_iter_values((0..500).map(|i| format!("planted-word-{i}")));
    let schema = Arc::new(Schema::new(vec![field("planted_column", DataType::Utf8, 1)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(text)]).unwrap();
    let key_values = vec![("planted_key".to_owned(), "planted_value".to_owned())];
    let sealed = write(
        &batch,
        EncodeOptions {
            key_values,
            ..Default::default()
        },
    );
    for word in ["planted", "sovm", "ARROW", "parquet"] {
        assert!(
            !sealed.bytes.windows(word.len()).any(|window| window == word.as_bytes()),
            "{word}"
        );
    }
    assert!(
        !sealed
            .bytes
            .windows(64)
            .any(|window| window.iter().all(|&byte| byte == 0))
    );
}

/// SOP-9, SOP-12, SOP-21: nonces of an object all differ; same rows under other keys share no module.
#[test]
fn nonces_and_bytes_are_fresh() {
    let batch = sample(4_000);
    let write = || {
        let encoded = Encoded::new(
            batch.schema(),
            [&batch],
            EncodeOptions {
                row_group_rows: 100,
                ..Default::default()
            },
        );
        let encrypted = encoded
            .unwrap()
            .encrypt(&Dek::generate(), &mut RandomNonces::default())
            .unwrap();
        encrypted
            .with_key_ref(KeyRef::generate())
            .pad()
            .unwrap()
            .seal()
            .unwrap()
    };
    let (first, second) = (write(), write());
    let (modules, _) = byte_map(&first.bytes);
    let nonces: HashSet<&[u8]> = modules
        .iter()
        .map(|module| &first.bytes[module.start + 4..][..12])
        .collect();
    assert_eq!(nonces.len(), modules.len());
    assert!(modules.len() > 1_000);
    assert_ne!(first.storage_id, second.storage_id);
    assert_ne!(first.key_ref, second.key_ref);
    // SOP-36: lengths and counts do not depend on keys.
    assert_eq!(byte_map(&first.bytes), byte_map(&second.bytes));
}

/// SOP-368, SOP-23: one version 1 data page a chunk, with a dictionary in front where it pays.
#[test]
fn chunks_have_one_data_page() {
    let sealed = write(&sample(60_000), EncodeOptions::default());
    let footer = open(&sealed.bytes).unwrap();
    let whole = object(&sealed.bytes);
    let mut dictionaries = 0;
    for range in &footer.chunks {
        let pages = footer.pages(whole.whole().part(range.clone()).unwrap()).unwrap();
        assert_eq!(audit_pages(&pages), []);
        dictionaries += pages.len() - 1;
    }
    assert!(dictionaries > 0);
}

/// SOP-368: a chunk with two data pages fails closed. Default settings of the Parquet library make such chunks.
#[test]
fn a_second_data_page_stops_the_writer() {
    let batch = sample(60_000).project(&[0]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    let bytes = writer.into_inner().unwrap();
    let error = Encoded { bytes, rows: 60_000 }
        .encrypt(&dek(), &mut CountingNonces::default())
        .unwrap_err();
    assert!(matches!(error, EncryptError::DataPages { row_group: 0, column: 0, pages } if pages > 1));
}

/// SOP-23: version 2 pages are never written, whatever the encoder made.
#[test]
fn version_2_pages_stop_the_writer() {
    let batch = sample(10).project(&[0]).unwrap();
    let properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    let encoded = Encoded {
        bytes: writer.into_inner().unwrap(),
        rows: 10,
    };
    assert!(matches!(
        encoded.encrypt(&dek(), &mut CountingNonces::default()),
        Err(EncryptError::Malformed(_))
    ));
}

/// SOP-10, SOP-35, SOP-369, SOP-370: footer fields after encryption, even from an encoder that made indexes and blooms.
#[test]
fn the_footer_is_rewritten() {
    let batch = sample(300);
    let properties = WriterProperties::builder()
        .set_bloom_filter_enabled(true)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_max_row_group_row_count(Some(100))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    let sealed = seal(Encoded {
        bytes: writer.into_inner().unwrap(),
        rows: 300,
    });
    assert_eq!(read_all(&sealed.bytes, &open(&sealed.bytes).unwrap()).unwrap(), batch);

    let plain = plain_footer(&sealed.bytes);
    let mut footer = Struct::decode(&plain).unwrap();
    assert_eq!(footer.get(8), None);
    let mut at = 4i64;
    let mut groups = 0;
    for (ordinal, group) in footer.structs_mut(4).enumerate() {
        assert_eq!(group.get(7), Some(&Value::I16(ordinal as i16)));
        assert_eq!(group.i64(5), Some(at));
        let start = at;
        for chunk in group.structs_mut(1) {
            assert_eq!(chunk.i64(2), Some(0));
            let ids: Vec<i16> = chunk.fields.iter().map(|field| field.id).collect();
            assert_eq!(ids, [2, 3, 8]);
            let Some(Value::Struct(marker)) = chunk.get(8) else {
                panic!("no crypto marker")
            };
            assert_eq!(marker.encode(), [0x1c, 0, 0]);
            let metadata = chunk.struct_mut(3).unwrap();
            assert!(metadata.get(14).is_none() && metadata.get(15).is_none());
            let first = metadata.i64(11).unwrap_or_else(|| metadata.i64(9).unwrap());
            assert_eq!(first, at, "no gaps between chunks");
            at += metadata.i64(7).unwrap();
        }
        assert_eq!(group.i64(6), Some(at - start));
        groups += 1;
    }
    assert_eq!(groups, 3);
}

/// Footers survive the tree byte for byte, ours and the Parquet library's.
#[test]
fn footers_re_encode_without_loss() {
    let encoded = Encoded::new(sample(50).schema(), [&sample(50)], EncodeOptions::default()).unwrap();
    let footer = encoded.footer().unwrap();
    assert_eq!(Struct::decode(footer).unwrap().encode(), footer);
    assert_eq!(Reader::new(footer).whole_struct().unwrap(), footer);
    let plain = plain_footer(&seal(encoded).bytes);
    assert_eq!(Struct::decode(&plain).unwrap().encode(), plain);
}

/// SOP-373: not above 1.02 times plain Parquet with the library's default settings, before padding.
#[test]
fn size_stays_near_plain_parquet() {
    let rows = 150_000;
    let number = |seed, modulus: u64| numbers(seed).take(rows).map(move |x| (x % modulus) as i64);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(number(1, u64::MAX))),
        Arc::new(Int64Array::from_iter_values(number(2, 5_000))),
        Arc::new(Int64Array::from_iter_values(number(3, 20))),
        Arc::new(StringArray::from_iter_values(
            number(4, 60).map(|i| format!("country-{i}")),
        )),
        Arc::new(StringArray::from_iter_values(
            number(5, u64::MAX).map(|i| format!("id-{i:x}")),
        )),
        Arc::new(Float64Array::from_iter_values(
            number(6, 100_000).map(|i| i as f64 / 100.0),
        )),
        Arc::new(Int64Array::from_iter_values(0..rows as i64)),
    ];
    let fields: Vec<Field> = columns
        .iter()
        .zip(1..)
        .map(|(array, id)| field(&format!("c{id}"), array.data_type().clone(), id))
        .collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let zstd = parquet::basic::Compression::ZSTD(parquet::basic::ZstdLevel::try_new(3).unwrap());
    let properties = WriterProperties::builder().set_compression(zstd).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    let plain = writer.into_inner().unwrap().len() as u64;
    let sealed = write(&batch, EncodeOptions::default());
    assert!(
        sealed.exact_byte_size * 100 <= plain * 102,
        "{} against {plain}",
        sealed.exact_byte_size
    );
}

/// SOP-50, SOP-113, SOP-115: fixed key, nonces and reference give fixed bytes.
///
/// The hash pins our format together with the Parquet and zstd versions of the lock file; when one of those changes the
/// compressed pages, compare the objects' structure before pinning anew.
#[test]
fn golden_object() {
    let sealed = write(
        &sample(1_000),
        EncodeOptions {
            row_group_rows: 600,
            ..Default::default()
        },
    );
    assert_eq!(sealed.storage_id, id_of(&sealed.bytes));
    assert_eq!((sealed.exact_byte_size, sealed.bytes.len()), (35_707, 36_864));
    assert_eq!(
        sealed.storage_id.to_string(),
        "fdcc0c7cc9789e5872855cc93d7f66480616f150e56a353c5f04594b27f797c1"
    );
}

/// SOP-7, SOP-13, SOP-24: every module of every column chunk, and the footer's, opens with the key and an empty AAD, with no
/// other key, and not with the suffix of the Parquet specification. What comes out of a page was compressed first.
#[test]
fn every_module_opens_with_the_key_and_no_aad() {
    let sealed = write(
        &sample(3_000),
        EncodeOptions {
            row_group_rows: 1_100,
            ..Default::default()
        },
    );
    let footer = open(&sealed.bytes).unwrap();
    let modules = modules(&sealed.bytes, 23);
    // The chunks lie one behind the other and hold all modules but the footer's.
    let mut end = 4;
    for chunk in &footer.chunks {
        assert_eq!(chunk.start as usize, end);
        end = chunk.end as usize;
    }
    assert_eq!(end, footer_from(&sealed.bytes));
    assert_eq!(footer.chunks.len(), 3 * 16);

    let other = module::ModuleKey::new(&Dek::from_bytes([0x43; 32])).cipher();
    let mut compressed_pages = 0;
    for (index, range) in modules.iter().enumerate() {
        let module = &sealed.bytes[range.clone()];
        let plain = open_module(module);
        assert_eq!(module::open_whole(&other, module), Err(module::ModuleError::Tag));
        // File-unique value, module type, row group, column and page ordinals.
        for aad in [&b"\0\0\0\0\0\0\0\0\x02\0\0\0\0\0\0"[..], &[0], &[index as u8, 0]] {
            let nonce = ring::aead::Nonce::try_assume_unique_for_key(&module[4..16]).unwrap();
            let mut sealed = module[16..].to_vec();
            assert!(
                cipher()
                    .open_in_place(nonce, ring::aead::Aad::from(aad), &mut sealed)
                    .is_err()
            );
        }
        if plain.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            compressed_pages += 1;
        }
    }
    // Every second module is a page's body, and zstd's magic stands at its start.
    assert_eq!(compressed_pages, modules.len() / 2);
    let whole = object(&sealed.bytes);
    let (plain, packed) = footer
        .chunks
        .iter()
        .flat_map(|chunk| footer.pages(whole.whole().part(chunk.clone()).unwrap()).unwrap())
        .fold((0, 0), |(plain, packed), page| {
            (plain + page.uncompressed_len, packed + page.compressed_len)
        });
    assert!(packed * 2 < plain, "{packed} of {plain}");
}

/// SOP-7: bytes of values that no codec changes stand nowhere in the object.
#[test]
fn uncompressed_values_are_in_no_clear_byte() {
    let text = StringArray::from_iter_values((0..300).map(|i| format!("clear as day {i}")));
    let schema = Arc::new(Schema::new(vec![field("words", DataType::Utf8, 1)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(text)]).unwrap();
    let options = EncodeOptions {
        codec: Codec::None,
        ..Default::default()
    };
    let encoded = Encoded::new(batch.schema(), [&batch], options.clone()).unwrap();
    let shows = |bytes: &[u8]| bytes.windows(12).any(|window| window == b"clear as day");
    assert!(shows(&encoded.bytes), "the step before encryption holds them");
    let sealed = write(&batch, options);
    assert!(!shows(&sealed.bytes));
    assert_eq!(read_all(&sealed.bytes, &open(&sealed.bytes).unwrap()).unwrap(), batch);
}

/// SOP-21: all nonces of an object of 100,000 modules differ.
#[test]
fn no_nonce_repeats_in_a_large_object() {
    const GROUPS: usize = 2_500;
    let columns: Vec<ArrayRef> = (0..20)
        .map(|column| Arc::new(Int32Array::from_iter_values((0..GROUPS as i32).map(|row| row + column))) as ArrayRef)
        .collect();
    let fields: Vec<Field> = (1..=20)
        .map(|id| field(&format!("c{id}"), DataType::Int32, id))
        .collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let options = EncodeOptions {
        codec: Codec::None,
        row_group_rows: 1,
        ..Default::default()
    };
    let encoded = Encoded::new(batch.schema(), [&batch], options).unwrap();
    let encrypted = encoded.encrypt(&dek(), &mut RandomNonces::default()).unwrap();
    let sealed = encrypted.with_key_ref(key_ref()).pad().unwrap().seal().unwrap();
    let modules = modules(&sealed.bytes, 23);
    assert_eq!(modules.len(), 2 * 20 * GROUPS + 1);
    let nonces: HashSet<&[u8]> = modules
        .iter()
        .map(|module| &sealed.bytes[module.start + 4..][..12])
        .collect();
    assert_eq!(nonces.len(), modules.len());
}

/// SOP-36: what storage can still see is written down, and page sizing tells no value: as many rows of the same widths give
/// as many modules of the same lengths.
#[test]
fn module_lengths_tell_sizes_and_no_values() {
    let table = |seed: u64| {
        let schema = Arc::new(Schema::new(vec![
            field("number", DataType::Int64, 1),
            field("word", DataType::Utf8, 2),
        ]));
        let words = numbers(seed).take(5_000).map(|x| format!("{:08x}", x as u32));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(
                numbers(seed + 1).take(5_000).map(|x| x as i64),
            )),
            Arc::new(StringArray::from_iter_values(words)),
        ];
        let options = EncodeOptions {
            codec: Codec::None,
            row_group_rows: 1_500,
            ..Default::default()
        };
        write(&RecordBatch::try_new(schema, columns).unwrap(), options)
    };
    let (first, second) = (table(11), table(12));
    assert_ne!(first.storage_id, second.storage_id);
    let bodies = |sealed: &Sealed| -> Vec<Range<usize>> {
        let mut modules = byte_map(&sealed.bytes).0;
        modules.pop();
        modules
    };
    // Headers hold varints and the footer holds statistics; the pages' own lengths are what is compared.
    let lengths =
        |sealed: &Sealed| -> Vec<usize> { bodies(sealed).iter().skip(1).step_by(2).map(Range::len).collect() };
    assert_eq!(bodies(&first).len(), bodies(&second).len());
    assert_eq!(lengths(&first), lengths(&second));

    let formats = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats.md");
    let formats = std::fs::read_to_string(formats).unwrap();
    assert!(formats.contains("What storage can still see of an object"));
}

/// SOP-33, SOP-35: statistics of every column that can have them stand in the sealed footer and in no clear byte.
#[test]
fn statistics_stand_in_the_sealed_footer() {
    let batch = sample(2_000);
    let sealed = write(
        &batch,
        EncodeOptions {
            row_group_rows: 800,
            ..Default::default()
        },
    );
    let footer = open(&sealed.bytes).unwrap();
    for group in 0..3 {
        for leaf in 0..footer.leaf_count() {
            let statistics = footer.statistics(group, leaf).unwrap();
            assert!(statistics.null_count_opt().is_some(), "{leaf}");
            assert!(
                statistics.min_bytes_opt().is_some() && statistics.max_bytes_opt().is_some(),
                "{leaf}"
            );
        }
        let Some(parquet::file::statistics::Statistics::Int64(int)) = footer.statistics(group, 0) else {
            panic!("statistics of another type")
        };
        let first = group as i64 * 800;
        let last = (first + 799).min(1_999);
        assert_eq!((int.min_opt(), int.max_opt()), (Some(&first), Some(&last)));
    }
    let clear = |word: &[u8]| sealed.bytes.windows(word.len()).any(|window| window == word);
    assert!(!clear(b"name 9"), "the text column's largest value");
    assert!(!clear(&1_999i64.to_le_bytes()));
    assert!(plain_footer(&sealed.bytes).windows(6).any(|window| window == b"name 9"));
}

/// SOP-373: on a real table, too, not above 1.02 times plain Parquet with the library's default settings, before padding.
#[test]
fn the_weather_stays_near_plain_parquet() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/fixtures/duckdb_objects/weather_zstd.parquet"
    );
    let bytes = std::fs::read(path).unwrap();
    let key = Dek::from_bytes(*b"0123456789abcdef0123456789abcdef");
    let weather = read_all(&bytes, &Footer::open_whole(&object(&bytes), &key).unwrap()).unwrap();
    let fields: Vec<Field> = weather
        .schema()
        .fields()
        .iter()
        .zip(1..)
        .map(|(column, id)| field(column.name(), column.data_type().clone(), id))
        .collect();
    let weather = RecordBatch::try_new(Arc::new(Schema::new(fields)), weather.columns().to_vec()).unwrap();
    let zstd = parquet::basic::Compression::ZSTD(parquet::basic::ZstdLevel::try_new(3).unwrap());
    let properties = WriterProperties::builder().set_compression(zstd).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), weather.schema(), Some(properties)).unwrap();
    writer.write(&weather).unwrap();
    let plain = writer.into_inner().unwrap().len() as u64;
    let ours = write(&weather, EncodeOptions::default()).exact_byte_size;
    assert!(ours * 100 <= plain * 102, "{ours} against {plain}");
}
