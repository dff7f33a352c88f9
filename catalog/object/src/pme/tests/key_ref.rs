//! The key reference names nothing and decides nothing (SOP §11.5).

use super::{
    forge::{DUCKDB_HEADER, footer_from, modules, open_module, with_header},
    *,
};

/// SOP-39, SOP-46: no tag covers key_ref and no read depends on it: with another one every module opens under the new
/// storage id, the rows are the same, and only that id says that the bytes changed.
#[test]
fn another_key_ref_changes_the_id_and_nothing_else() {
    let batch = sample(200);
    let sealed = write(&batch, EncodeOptions::default());
    let mut changed = sealed.bytes.to_vec();
    let at = footer_from(&changed) + 6;
    assert_eq!(&changed[at..at + 16], key_ref().as_bytes());
    changed[at..at + 16].fill(0xee);
    assert_ne!(id_of(&changed), sealed.storage_id);
    for module in modules(&changed, 23) {
        assert_eq!(
            open_module(&changed[module.clone()]),
            open_module(&sealed.bytes[module])
        );
    }
    assert_eq!(read_all(&changed, &open(&changed).unwrap()).unwrap(), batch);
    // Under the id of before, nothing comes out.
    assert!(MemoryObject::verify(sealed.storage_id, changed).is_err());
}

/// SOP-37, SOP-40, SOP-45: every object gets a reference of its own; it is drawn, never derived from the key, and the key alone
/// opens. Two objects may claim one reference: each has an id of its own and opens with its own key alone.
#[test]
fn references_are_drawn_and_open_nothing() {
    let drawn: std::collections::HashSet<[u8; 16]> = (0..1_000).map(|_| *KeyRef::generate().as_bytes()).collect();
    assert_eq!(drawn.len(), 1_000);
    let batch = sample(5);
    let seal_as = |key: [u8; 32], key_ref: KeyRef| {
        let encoded = Encoded::new(batch.schema(), [&batch], EncodeOptions::default()).unwrap();
        let encrypted = encoded
            .encrypt(&Dek::from_bytes(key), &mut RandomNonces::default())
            .unwrap();
        encrypted.with_key_ref(key_ref).pad().unwrap().seal().unwrap()
    };
    let (first, second) = (seal_as([1; 32], key_ref()), seal_as([2; 32], key_ref()));
    assert_eq!(first.key_ref, second.key_ref);
    assert_ne!(first.storage_id, second.storage_id);
    let open_with = |sealed: &Sealed, key: [u8; 32]| Footer::open_whole(&object(&sealed.bytes), &Dek::from_bytes(key));
    open_with(&first, [1; 32]).unwrap();
    open_with(&second, [2; 32]).unwrap();
    for (sealed, key) in [(&first, [2; 32]), (&second, [1; 32])] {
        assert!(matches!(open_with(sealed, key), Err(OpenError::KeyMismatch)));
    }
}

/// SOP-43: a reference that differs from the manifest's stops no read; the audit names it.
#[test]
fn a_reference_that_the_manifest_does_not_say_is_found() {
    let batch = sample(20);
    let sealed = write(&batch, EncodeOptions::default());
    let footer = open(&sealed.bytes).unwrap();
    let claims = |key_ref| Claims {
        key_ref: Some(key_ref),
        exact_byte_size: Some(sealed.exact_byte_size),
    };
    assert_eq!(footer.audit(&claims(key_ref())), []);
    let other = KeyRef::from_bytes([9; 16]);
    assert_eq!(footer.audit(&claims(other)), [Finding::KeyRefMismatch]);
    assert_eq!(read_all(&sealed.bytes, &footer).unwrap(), batch);
}

/// SOP-44: no key_metadata, or one of another length, is a breach that the audit names and that costs no row. Our writer has
/// one header and cannot make another (SOP-372).
#[test]
fn missing_and_odd_references_read_and_are_found() {
    let batch = sample(20);
    let sealed = write(&batch, EncodeOptions::default());
    let of_len = |len: u8| [&[0x1c, 0x1c, 0, 0, 0x18, len], &vec![7; usize::from(len)][..], &[0]].concat();
    let cases = [
        (DUCKDB_HEADER.to_vec(), Finding::NoKeyRef),
        (of_len(0), Finding::KeyRefLength(0)),
        (of_len(15), Finding::KeyRefLength(15)),
        (of_len(17), Finding::KeyRefLength(17)),
        (of_len(100), Finding::KeyRefLength(100)),
    ];
    for (header, finding) in cases {
        let bytes = with_header(&sealed.bytes, &header);
        let footer = open(&bytes).unwrap();
        assert_eq!(read_all(&bytes, &footer).unwrap(), batch);
        assert!(footer.audit(&Claims::default()).contains(&finding), "{finding:?}");
    }
}
