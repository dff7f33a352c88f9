//! The bytes of an object are those of the profile.

use std::collections::HashSet;

use arrow::array::StringArray;
use parquet::{
    arrow::ArrowWriter,
    file::properties::{EnabledStatistics, WriterProperties, WriterVersion},
};

use super::*;
use crate::thrift::{Reader, Struct, Value};

/// The modules of an object, by walking lengths alone: start and whole length of each.
fn byte_map(bytes: &[u8]) -> (Vec<(usize, usize)>, usize) {
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let footer_from = bytes.len() - 8 - u32_at(bytes.len() - 8);
    let mut modules = Vec::new();
    let mut at = 4;
    while at < footer_from {
        modules.push((at, u32_at(at) + 4));
        at += u32_at(at) + 4;
    }
    assert_eq!(at, footer_from);
    let footer = footer_from + 23;
    assert_eq!(footer + 4 + u32_at(footer), bytes.len() - 8);
    modules.push((footer, u32_at(footer) + 4));
    (modules, footer_from)
}

/// Decrypted footer of one of our objects.
fn plain_footer(bytes: &[u8]) -> Vec<u8> {
    let (modules, _) = byte_map(bytes);
    let (start, len) = *modules.last().unwrap();
    module::open_whole(&module::ModuleKey::new(&dek()).cipher(), &bytes[start..start + len])
        .unwrap()
        .to_vec()
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
    let covered: usize = modules.iter().map(|(_, len)| len).sum();
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
    let nonces: HashSet<&[u8]> = modules.iter().map(|(at, _)| &first.bytes[at + 4..at + 16]).collect();
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
