//! Lengths, padding and the order of steps.

use super::*;
use crate::{
    padme::padme,
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
