//! What stands around the pages, whatever the writer is told: encrypted footer, one key, no AAD, an opaque reference.

use std::{borrow::Cow, collections::HashSet};

use proptest::prelude::*;

use super::*;
use crate::thrift::{Struct, Value};

/// FileCryptoMetaData in front of the footer module.
const CRYPTO_METADATA_LEN: usize = 23;

/// Where FileCryptoMetaData starts.
fn footer_from(bytes: &[u8]) -> usize {
    let len = bytes.len();
    let footer_len = u32::from_le_bytes(bytes[len - 8..len - 4].try_into().unwrap());
    len - 8 - footer_len as usize
}

/// The modules that lie in `bytes` one behind the other.
fn modules(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some(length) = bytes.first_chunk::<4>() {
        let (module, rest) = bytes.split_at(4 + u32::from_le_bytes(*length) as usize);
        found.push(module);
        bytes = rest;
    }
    assert!(bytes.is_empty());
    found
}

fn cipher(key: &Dek) -> ring::aead::LessSafeKey {
    module::ModuleKey::new(key).cipher()
}

/// Decrypted footer.
fn plain_footer(bytes: &[u8]) -> Vec<u8> {
    let sealed = &bytes[footer_from(bytes) + CRYPTO_METADATA_LEN..bytes.len() - 8];
    module::open_whole(&cipher(&dek()), sealed).unwrap().to_vec()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

/// A table of one column, for tests that write many objects.
fn one_column(rows: i64) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![field("n", DataType::Int64, 1)]));
    RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from_iter_values(0..rows))]).unwrap()
}

/// SOP-7: the chunks of all columns and row groups fill the body, and every module in them opens with the object's key only.
#[test]
fn every_chunk_of_every_row_group_is_encrypted() {
    let options = EncodeOptions {
        row_group_rows: 300,
        ..Default::default()
    };
    let sealed = write(&sample(900), options);
    let footer = open(&sealed.bytes).unwrap();
    assert_eq!(footer.chunks.len(), 3 * footer.leaf_count());
    let (ours, other) = (cipher(&dek()), cipher(&Dek::from_bytes([0x43; 32])));
    let mut chunks = footer.chunks.clone();
    chunks.sort_by_key(|chunk| chunk.start);
    let mut at = 4;
    for chunk in chunks {
        assert_eq!(chunk.start, at, "a gap between chunks");
        at = chunk.end;
        let modules = modules(&sealed.bytes[chunk.start as usize..chunk.end as usize]);
        assert!(modules.len() >= 2, "a page header and a page body at least");
        for module in modules {
            assert!(module::open_whole(&ours, module).is_ok());
            assert!(matches!(
                module::open_whole(&other, module),
                Err(module::ModuleError::Tag)
            ));
        }
    }
    assert_eq!(at as usize, footer_from(&sealed.bytes));
}

/// SOP-11, SOP-32: encrypted pages under a signed plain footer are refused by name, and a plain footer between the encrypted
/// magics is refused too.
#[test]
fn plain_footers_are_refused() {
    let bytes = write(&sample(50), EncodeOptions::default()).bytes;
    let plain = plain_footer(&bytes);
    let mut footer = Struct::decode(&plain).unwrap();
    // As the Parquet format has it: the algorithm in the footer itself, the key's metadata, then nonce and tag of a signature.
    let mut algorithm = Struct::default();
    algorithm.set(1, Value::Struct(Struct::default()));
    footer.set(8, Value::Struct(algorithm));
    footer.set(9, Value::Binary(Cow::Owned(key_ref().as_bytes().to_vec())));
    let footer = [footer.encode(), vec![0x5a; 28]].concat();
    let file = |magic: &[u8; 4]| {
        let length = (footer.len() as u32).to_le_bytes();
        [
            &magic[..],
            &bytes[4..footer_from(&bytes)],
            &footer[..],
            &length[..],
            &magic[..],
        ]
        .concat()
    };
    assert!(matches!(open(&file(b"PAR1")), Err(OpenError::NotEncrypted)));
    assert!(open(&file(b"PARE")).is_err());
    assert!(open(&bytes).is_ok());
}

/// SOP-25: the key and the bytes are all it takes. Nothing in this crate knows a mesh, a catalogue or a disk.
#[test]
fn an_object_reads_with_its_key_alone() {
    let batch = sample(200);
    let (bytes, key) = {
        let sealed = write(&batch, EncodeOptions::default());
        (sealed.bytes.to_vec(), *dek().expose_for_sealing())
    };
    let whole = MemoryObject::verify(id_of(&bytes), bytes.clone()).unwrap();
    let footer = Footer::open_whole(&whole, &Dek::from_bytes(key)).unwrap();
    assert_eq!(read_all(&bytes, &footer).unwrap(), batch);
}

/// SOP-36: how many modules there are follows from rows and widths, not from values. `docs/security.md` says what stays visible.
#[test]
fn values_do_not_show_in_the_number_of_modules() {
    let rows = 3_000;
    let count = |seed: u64| {
        let ints = Int64Array::from_iter_values(numbers(seed).take(rows).map(|n| n as i64));
        let texts = StringArray::from_iter_values(numbers(seed + 1).take(rows).map(|n| format!("{n:08x}")));
        let schema = Arc::new(Schema::new(vec![
            field("n", DataType::Int64, 1),
            field("s", DataType::Utf8, 2),
        ]));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(ints), Arc::new(texts)]).unwrap();
        let options = EncodeOptions {
            row_group_rows: 1_000,
            ..Default::default()
        };
        let bytes = write(&batch, options).bytes;
        modules(&bytes[4..footer_from(&bytes)]).len()
    };
    assert_eq!(count(1), count(77));
}

/// SOP-37: a thousand objects have a thousand references, all in their bytes and all different.
#[test]
fn every_object_has_a_reference_of_its_own() {
    let batch = one_column(1);
    let mut seen = HashSet::new();
    for _ in 0..1_000 {
        let encoded = Encoded::new(batch.schema(), [&batch], EncodeOptions::default()).unwrap();
        let encrypted = encoded.encrypt(&dek(), &mut CountingNonces::default()).unwrap();
        let sealed = encrypted
            .with_key_ref(KeyRef::generate())
            .pad()
            .unwrap()
            .seal()
            .unwrap();
        let from = footer_from(&sealed.bytes);
        assert_eq!(sealed.bytes[from + 4..from + 6], [0x18, 16], "16 bytes of key_metadata");
        let found = KeyRef::from_slice(&sealed.bytes[from + 6..from + 22]).unwrap();
        assert_eq!(found, sealed.key_ref);
        assert!(seen.insert(found));
    }
}

/// SOP-39, SOP-114: another reference changes its own 16 bytes and the object's id, and nothing else: no offset moves, and all
/// columns read as before under the new id.
#[test]
fn the_reference_takes_no_part_in_reading() {
    let batch = sample(2_500);
    let options = || EncodeOptions {
        row_group_rows: 1_000,
        ..Default::default()
    };
    let labelled = |label: [u8; 16]| {
        let encoded = Encoded::new(batch.schema(), [&batch], options()).unwrap();
        let encrypted = encoded.encrypt(&dek(), &mut CountingNonces::default()).unwrap();
        let keyed = encrypted.with_key_ref(KeyRef::from_bytes(label));
        keyed.pad().unwrap().seal().unwrap()
    };
    let (one, two) = (labelled([0; 16]), labelled([0xff; 16]));
    assert_ne!(one.storage_id, two.storage_id);
    let from = footer_from(&one.bytes) + 6;
    for (at, (a, b)) in one.bytes.iter().zip(&two.bytes).enumerate() {
        assert_eq!(a != b, (from..from + 16).contains(&at), "byte {at}");
    }
    let (first, second) = (open(&one.bytes).unwrap(), open(&two.bytes).unwrap());
    assert_eq!(first.chunks, second.chunks);
    assert_eq!(read_all(&one.bytes, &first).unwrap(), batch);
    assert_eq!(read_all(&two.bytes, &second).unwrap(), batch);
}

/// SOP-47: an object holds neither its key nor any wrapped form of it, in clear or inside its footer.
#[test]
fn keys_stand_outside_the_object() {
    use crate::{
        hlc::Hlc,
        id::{DomainId, KekId, ManifestHash, MeshId, SiteId},
        record::{AccessRecord, access::Grant},
        secret::Kek,
    };
    let sealed = write(&sample(500), EncodeOptions::default());
    let grant = Grant {
        mesh_id: MeshId::from_bytes([1; 32]),
        domain_id: DomainId::from_bytes([2; 32]),
        storage_id: sealed.storage_id,
        object_manifest_hash: ManifestHash::from_bytes([3; 32]),
        kek_generation: 1,
        kek_id: KekId::from_bytes([4; 16]),
        issuer: SiteId::from_bytes([5; 32]),
        seq: 1,
        ops_seen: vec![],
        issued_hlc: Hlc::new(1, 0),
    };
    let record = AccessRecord::wrap(grant, &dek(), &Kek::from_bytes([6; 32]));
    let footer = plain_footer(&sealed.bytes);
    for needle in [
        &dek().expose_for_sealing()[..],
        &record.wrapped_dek[..16],
        &record.wrapped_dek[32..],
        record.kek_id.as_bytes(),
        record.dek_commitment.as_bytes(),
    ] {
        assert!(!contains(&sealed.bytes, needle) && !contains(&footer, needle));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// SOP-26, SOP-27, SOP-108: no option gives another envelope. Both magics are those of an encrypted footer, the algorithm has
    /// neither prefix, nor file-unique value, nor the demand for a prefix, and every module opens with an empty AAD.
    #[test]
    fn no_option_changes_the_envelope(
        codec in 0..4,
        row_group_rows in 1..300_usize,
        max_object_len in 4_u64 << 20..=MAX_OBJECT_LEN,
        values in prop::collection::vec(any::<u32>(), 0..4),
        rows in 1..150_usize,
    ) {
        let options = EncodeOptions {
            codec: [Codec::Zstd(1), Codec::Zstd(9), Codec::Lz4, Codec::Snappy][codec as usize],
            row_group_rows,
            max_object_len,
            key_values: values.iter().enumerate().map(|(n, value)| (format!("key {n}"), value.to_string())).collect(),
            ..Default::default()
        };
        let bytes = write(&sample(rows), options).bytes;
        prop_assert_eq!((&bytes[..4], &bytes[bytes.len() - 4..]), (&b"PARE"[..], &b"PARE"[..]));
        let from = footer_from(&bytes);
        let mut header = Struct::decode(&bytes[from..from + CRYPTO_METADATA_LEN]).unwrap();
        prop_assert_eq!(header.fields.len(), 2, "algorithm and key_metadata");
        let algorithm = header.struct_mut(1).expect("the algorithm");
        prop_assert_eq!(algorithm.fields.len(), 1);
        let gcm = algorithm.struct_mut(1).expect("AES-GCM for all modules");
        prop_assert!(gcm.fields.is_empty(), "an AAD field");
        let cipher = cipher(&dek());
        for module in modules(&bytes[4..from]) {
            prop_assert!(module::open_whole(&cipher, module).is_ok());
        }
        prop_assert!(module::open_whole(&cipher, &bytes[from + CRYPTO_METADATA_LEN..bytes.len() - 8]).is_ok());
    }
}
