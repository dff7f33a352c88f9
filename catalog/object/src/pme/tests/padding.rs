//! Lengths, padding and the order of steps.

use super::{encrypt::FOOTER_ENCODINGS, *};
use crate::{
    padme::{PadSolution, padme, solve_pad},
    thrift::{Struct, Value},
};

fn tiny(metadata_len: usize) -> Encoded {
    let batch = sample(3).project(&[0]).unwrap();
    let key_values = vec![("k".to_owned(), "v".repeat(metadata_len))];
    Encoded::new(
        batch.schema(),
        [&batch],
        EncodeOptions {
            key_values,
            ..Default::default()
        },
    )
    .unwrap()
}

/// SOP-57, SOP-69: over many sizes, the object is exactly as long as the target of its unpadded length.
#[test]
fn every_object_reaches_its_target() {
    let mut gaps = 0;
    for metadata_len in (0..3_000).chain((3_000..200_000).step_by(173)) {
        let keyed = tiny(metadata_len)
            .encrypt(&dek(), &mut CountingNonces::default())
            .unwrap()
            .with_key_ref(key_ref());
        let exact = keyed.exact_byte_size();
        let target = padme(exact).unwrap();
        gaps += u32::from(target - exact == 128);
        let sealed = keyed.pad().unwrap().seal().unwrap();
        assert_eq!((sealed.bytes.len() as u64, sealed.exact_byte_size), (target, exact));
        if metadata_len % 97 == 0 {
            let footer = open(&sealed.bytes).unwrap();
            assert_eq!(
                footer.audit(&Claims {
                    key_ref: None,
                    exact_byte_size: Some(exact)
                }),
                []
            );
            assert_eq!(footer.facts.key_value_keys, ["k", "ARROW:schema"]);
        }
    }
    assert!(gaps > 0, "the size that needs a hyphen was met");
}

/// SOP-69, SOP-70: L is the length of that very file, and padding changes nothing before the footer.
#[test]
fn the_unpadded_length_is_a_real_length() {
    let keyed = || {
        tiny(1_000)
            .encrypt(&dek(), &mut CountingNonces::default())
            .unwrap()
            .with_key_ref(key_ref())
    };
    let unpadded = {
        let keyed = keyed();
        let footer = keyed.encrypted.footer.encode();
        Padded {
            footer,
            key_ref: keyed.key_ref,
            unpadded_len: keyed.unpadded_len,
            encrypted: keyed.encrypted,
        }
    };
    let body = unpadded.encrypted.body.len();
    let unpadded = unpadded.seal().unwrap();
    assert_eq!(unpadded.bytes.len() as u64, keyed().exact_byte_size());
    let padded = keyed().pad().unwrap().seal().unwrap();
    assert!(padded.bytes.len() > unpadded.bytes.len());
    assert_eq!(padded.bytes[..body + 23], unpadded.bytes[..body + 23]);
}

/// SOP-61, SOP-63, SOP-64: one entry, always there, key grammar kept, value all zeros.
#[test]
fn the_pad_entry_has_its_form() {
    for metadata_len in 0..300 {
        let padded = tiny(metadata_len)
            .encrypt(&dek(), &mut CountingNonces::default())
            .unwrap()
            .with_key_ref(key_ref())
            .pad()
            .unwrap();
        let footer = Struct::decode(&padded.footer).unwrap();
        let Some(Value::List(entries)) = footer.get(5) else {
            panic!("no key values")
        };
        let pads: Vec<_> = entries
            .items
            .iter()
            .filter_map(|item| match item {
                Value::Struct(entry) => match (entry.get(1), entry.get(2)) {
                    (Some(Value::Binary(key)), Some(Value::Binary(value))) => Some((key, value)),
                    _ => None,
                },
                _ => None,
            })
            .filter(|(key, _)| key.starts_with(PAD_KEY.as_bytes()))
            .collect();
        let [(key, value)] = pads.as_slice() else {
            panic!("{} pad entries", pads.len())
        };
        assert!(key[PAD_KEY.len()..].iter().all(|&byte| byte == b'-'));
        assert!(value.iter().all(|&byte| byte == 0));
    }
}

/// SOP-77, SOP-376, and metadata keys of our own.
#[test]
fn options_out_of_bounds_are_refused() {
    let batch = sample(3).project(&[0]).unwrap();
    for key in [
        "sovm:sop-pad-v1",
        "sovm:sop-pad-v1-",
        "sovm:sop-pad-v1xyz",
        "sovm:sop-repack-v1",
        "ARROW:schema",
    ] {
        let key_values = vec![(key.to_owned(), String::new())];
        let options = EncodeOptions {
            key_values,
            ..Default::default()
        };
        assert!(
            matches!(
                Encoder::new(batch.schema(), options),
                Err(EncodeError::ReservedKey { .. })
            ),
            "{key}"
        );
        let schema = batch
            .schema()
            .as_ref()
            .clone()
            .with_metadata(HashMap::from([(key.to_owned(), String::new())]));
        assert!(Encoder::new(Arc::new(schema), EncodeOptions::default()).is_err());
    }
    for (row_group_rows, max_object_len) in [(0, 1), (1, 0), (ROW_GROUP_ROWS + 1, 1), (1, MAX_OBJECT_LEN + 1)] {
        let options = EncodeOptions {
            row_group_rows,
            max_object_len,
            ..Default::default()
        };
        assert!(matches!(
            Encoder::new(batch.schema(), options),
            Err(EncodeError::Option { .. })
        ));
    }
    let options = EncodeOptions {
        codec: Codec::Zstd(99),
        ..Default::default()
    };
    assert!(Encoder::new(batch.schema(), options).is_err());
    let options = EncodeOptions {
        max_object_len: 100,
        ..Default::default()
    };
    assert!(matches!(
        Encoded::new(batch.schema(), [&batch], options),
        Err(EncodeError::TooLarge { limit: 100 })
    ));
}

/// SOP-275, SOP-376: an object whose padded length would pass the cap is refused, not cut or left unpadded.
#[test]
fn no_object_passes_the_cap() {
    let mut keyed = tiny(0)
        .encrypt(&dek(), &mut CountingNonces::default())
        .unwrap()
        .with_key_ref(key_ref());
    keyed.unpadded_len = MAX_OBJECT_LEN + 1;
    assert!(matches!(keyed.pad(), Err(PadError::TooLarge { .. })));
}

/// SOP-58: a step that misses the target stops the writer.
#[test]
fn a_missed_target_is_an_error() {
    let mut keyed = tiny(0)
        .encrypt(&dek(), &mut CountingNonces::default())
        .unwrap()
        .with_key_ref(key_ref());
    keyed.unpadded_len += 1;
    assert!(matches!(keyed.pad(), Err(PadError::Missed { .. })));
}

/// An object that needs exactly `delta` bytes of padding, and what its footer's entry looks like.
pub(super) fn padded_by(target: u64, delta: u64) -> (Sealed, usize, usize) {
    let exact_of = |metadata_len: usize| {
        let keyed = tiny(metadata_len)
            .encrypt(&dek(), &mut CountingNonces::default())
            .unwrap()
            .with_key_ref(key_ref());
        (keyed.exact_byte_size(), keyed)
    };
    // Metadata grows an object byte by byte, but for the borders of its own length prefix.
    let (near, _) = exact_of(target as usize / 2);
    let metadata_len = target as usize / 2 + (target - delta - near) as usize;
    let (exact, keyed) = exact_of(metadata_len);
    assert_eq!((target - exact, padme(exact)), (delta, Some(target)));
    let padded = keyed.pad().unwrap();
    let mut footer = Struct::decode(&padded.footer).unwrap().into_owned();
    let Some(Value::Struct(last)) = forge::key_values(&mut footer).pop() else {
        panic!("no pad entry")
    };
    let len = |id| match last.get(id) {
        Some(Value::Binary(bytes)) => bytes.len(),
        _ => panic!("a part is missing"),
    };
    let (hyphens, value_len) = (len(1) - PAD_KEY.len(), len(2));
    (padded.seal().unwrap(), value_len, hyphens)
}

/// SOP-66, SOP-57: real objects around both steps of the length prefix: 127 and 128 bytes, 16,383 and 16,384, and the two
/// sizes that only the second knob reaches. Each ends on its target, reads, and audits clean.
#[test]
fn both_knobs_reach_every_size_around_the_steps() {
    // The last target has steps of 32,768 bytes, so that a delta beyond 16,384 can occur.
    let small = [0, 1, 126, 127, 128, 129, 130, 255].map(|delta| (16_384, delta));
    let large = [0, 127, 128, 16_382, 16_383, 16_384, 16_385, 16_386, 32_767].map(|delta| (1_081_344, delta));
    for (target, delta) in small.into_iter().chain(large) {
        let (sealed, value_len, hyphens) = padded_by(target, delta);
        assert_eq!(sealed.bytes.len() as u64, target);
        let PadSolution {
            value_len: solved,
            hyphens: solved_hyphens,
        } = solve_pad(delta);
        assert_eq!((value_len as u64, hyphens as u64), (solved, solved_hyphens), "{delta}");
        assert_eq!(hyphens == 1, [128, 16_385].contains(&delta), "{delta}");
        let footer = open(&sealed.bytes).unwrap();
        let claims = Claims {
            key_ref: Some(key_ref()),
            exact_byte_size: Some(sealed.exact_byte_size),
        };
        assert_eq!(footer.audit(&claims), [], "{delta}");
        assert_eq!(read_all(&sealed.bytes, &footer).unwrap().num_rows(), 3);
    }
}

/// SOP-68: the step at 2,097,152 lies beyond the largest object, so the footer alone is encoded there; the hyphen makes up
/// for the size that no value length gives. An object of 130 MiB is solved, and refused by the writer (SOP-376).
#[test]
fn the_third_step_is_in_the_closed_form() {
    for delta in [2_097_151, 2_097_152, 2_097_153, 2_097_154, 2_097_155] {
        let mut keyed = tiny(10)
            .encrypt(&dek(), &mut CountingNonces::default())
            .unwrap()
            .with_key_ref(key_ref());
        let before = keyed.encrypted.footer.encode().len() as u64;
        let solution = solve_pad(delta);
        pad::set_entry(
            &mut keyed.encrypted.footer,
            solution.value_len as usize,
            solution.hyphens as usize,
        );
        assert_eq!(keyed.encrypted.footer.encode().len() as u64 - before, delta);
        assert_eq!(solution.hyphens, u64::from(delta == 2_097_154));
    }
    let exact = (132 << 20) - 2_097_154;
    assert_eq!(padme(exact), Some(132 << 20));
    let solution = solve_pad((132 << 20) - exact);
    assert_eq!(solution.growth(), (132 << 20) - exact);
    let mut keyed = tiny(0)
        .encrypt(&dek(), &mut CountingNonces::default())
        .unwrap()
        .with_key_ref(key_ref());
    keyed.unpadded_len = exact;
    assert!(matches!(keyed.pad(), Err(PadError::TooLarge { len }) if len == 132 << 20));
}

/// SOP-67: the footer is encoded twice, once to know its length and once with its padding, whatever the padding.
#[test]
fn the_footer_is_encoded_twice() {
    for metadata_len in [0, 1, 127, 128, 129, 1_000, 16_400, 100_000] {
        let encoded = tiny(metadata_len);
        FOOTER_ENCODINGS.set(0);
        seal(encoded);
        assert_eq!(FOOTER_ENCODINGS.get(), 2, "{metadata_len}");
    }
}

/// SOP-65, SOP-62: the entry depends on lengths alone: two tables of the same lengths get the same one; and the map of clear
/// bytes is the same with much padding and with none.
#[test]
fn the_entry_tells_nothing_of_the_table() {
    let entry_of = |name: &str, value: i64, id: i32| {
        let schema = Arc::new(Schema::new(vec![field(name, DataType::Int64, id)]));
        let column: ArrayRef = Arc::new(Int64Array::from(vec![value, value + 1]));
        let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
        let options = EncodeOptions {
            codec: Codec::None,
            ..Default::default()
        };
        let padded = Encoded::new(batch.schema(), [&batch], options)
            .unwrap()
            .encrypt(&dek(), &mut CountingNonces::default())
            .unwrap()
            .with_key_ref(key_ref())
            .pad()
            .unwrap();
        let mut footer = Struct::decode(&padded.footer).unwrap().into_owned();
        forge::key_values(&mut footer).pop().unwrap()
    };
    assert_eq!(entry_of("one", 1_000_000, 11), entry_of("two", 7_654_321, 22));

    let starts = |sealed: &Sealed| -> Vec<usize> {
        forge::modules(&sealed.bytes, 23)
            .iter()
            .map(|module| module.start)
            .collect()
    };
    let (none, _, _) = padded_by(16_384, 0);
    let (much, _, _) = padded_by(16_384, 255);
    assert_eq!(starts(&none), starts(&much));
    assert_eq!(none.bytes.len(), much.bytes.len());
}

/// SOP-72, SOP-73: an object that is read and written anew gets an entry of its own; the old one was not there to be copied.
#[test]
fn a_repack_has_only_its_own_entry() {
    let batch = sample(25);
    let first = write(&batch, EncodeOptions::default());
    let footer = open(&first.bytes).unwrap();
    let rows = read_all(&first.bytes, &footer).unwrap();
    let carried: Vec<(String, String)> = footer
        .metadata()
        .file_metadata()
        .key_value_metadata()
        .into_iter()
        .flatten()
        .filter(|entry| entry.key != parquet::arrow::ARROW_SCHEMA_META_KEY)
        .map(|entry| (entry.key.clone(), entry.value.clone().unwrap_or_default()))
        .collect();
    assert_eq!(carried, []);
    // Every key the reader shows is one the writer takes.
    let options = EncodeOptions {
        key_values: carried,
        ..Default::default()
    };
    let again = seal(Encoded::new(footer.schema().clone(), [&rows], options).unwrap());
    let footer = open(&again.bytes).unwrap();
    assert_eq!(footer.facts.pads.len(), 1);
    assert_eq!(footer.audit(&Claims::default()), []);
    assert_eq!(again.bytes, first.bytes);
}

/// SOP-71: a footer length beyond the object, or beyond any real footer, is refused before anything is read for it.
#[test]
fn a_footer_length_is_believed_only_inside_the_object() {
    use crate::verified::{ReadError, VerifiedBytes, VerifiedRead};
    use std::{
        ops::Range,
        sync::atomic::{AtomicU64, Ordering::Relaxed},
    };

    struct Counting(MemoryObject, AtomicU64);
    impl VerifiedRead for Counting {
        async fn size(&self, id: StorageId) -> Result<u64, ReadError> {
            self.0.size(id).await
        }
        async fn read(&self, id: StorageId, ranges: &[Range<u64>]) -> Result<Vec<VerifiedBytes>, ReadError> {
            let len: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            self.1.fetch_add(len, Relaxed);
            self.0.read(id, ranges).await
        }
    }
    let sealed = write(&sample(300), EncodeOptions::default());
    let len = sealed.bytes.len() as u32;
    for claimed in [len - 11, len, 1 << 28, u32::MAX] {
        let forged = forge::with_footer_len(&sealed.bytes, claimed);
        let source = Counting(object(&forged), AtomicU64::new(0));
        let opened = ready(Footer::open(
            &source,
            id_of(&forged),
            &dek(),
            OpenOptions { tail_len: 8 },
        ));
        assert!(matches!(opened, Err(OpenError::FooterLength { .. })), "{claimed}");
        assert_eq!(source.1.load(Relaxed), 4 + 8, "the two ends and nothing more");
    }
}
