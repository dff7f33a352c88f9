//! The steps of writing and of opening, in their order (SOP §11.10, §11.12).

use std::{ops::Range, sync::Mutex};

use super::*;
use crate::verified::{ReadError, VerifiedBytes, VerifiedRead};

/// The last part of a value's type name.
fn step<T>(_: &T) -> &'static str {
    std::any::type_name::<T>().rsplit("::").next().unwrap()
}

/// SOP-42, SOP-110: encode, encrypt, write the reference, pad, hash for import. Each step takes what the one before gave.
#[test]
fn an_object_is_written_in_five_steps() {
    let batch = sample(100);
    let mut trace = Vec::new();
    let encoded = Encoded::new(batch.schema(), [&batch], EncodeOptions::default()).unwrap();
    trace.push(step(&encoded));
    assert!(encoded.bytes.starts_with(b"PAR1"));
    let encrypted = encoded.encrypt(&dek(), &mut CountingNonces::default()).unwrap();
    trace.push(step(&encrypted));
    assert!(encrypted.body.starts_with(b"PARE"));
    let keyed = encrypted.with_key_ref(key_ref());
    trace.push(step(&keyed));
    // The reference is counted before any padding is.
    let unpadded = keyed.exact_byte_size();
    let padded = keyed.pad().unwrap();
    trace.push(step(&padded));
    let sealed = padded.seal().unwrap();
    trace.push(step(&sealed));
    assert_eq!(trace, ["Encoded", "Encrypted", "Keyed", "Padded", "Sealed"]);
    assert_eq!(sealed.exact_byte_size, unpadded);
    assert_eq!(crate::padme::padme(unpadded), Some(sealed.bytes.len() as u64));
    assert_eq!(sealed.storage_id, id_of(&sealed.bytes));
}

/// SOP-52: the hash of the plain Parquet bytes stands nowhere: not in the object, not in its footer, not in what a step prints.
#[test]
fn the_plain_bytes_leave_no_hash() {
    let batch = sample(300);
    let encoded = Encoded::new(batch.schema(), [&batch], EncodeOptions::default()).unwrap();
    let hash = blake3::hash(&encoded.bytes);
    let mut printed = format!("{encoded:?}");
    let encrypted = encoded.encrypt(&dek(), &mut CountingNonces::default()).unwrap();
    printed += &format!("{encrypted:?}");
    let padded = encrypted.with_key_ref(key_ref()).pad().unwrap();
    printed += &format!("{padded:?}");
    let footer = padded.footer.clone();
    let sealed = padded.seal().unwrap();
    printed += &format!("{sealed:?}");
    let found = |haystack: &[u8], needle: &[u8]| haystack.windows(needle.len()).any(|window| window == needle);
    for haystack in [&sealed.bytes[..], &footer, printed.as_bytes()] {
        assert!(!found(haystack, &hash.as_bytes()[..8]));
        assert!(!found(haystack, &hash.to_hex().as_bytes()[..10]));
    }
}

/// SOP-109: when a step fails the rows are gone with it. There is no way on, least of all to plain Parquet.
#[test]
fn a_step_that_fails_ends_the_writing() {
    struct Stuck;
    impl NonceSource for Stuck {
        fn next_nonce(&mut self) -> [u8; 12] {
            [9; 12]
        }
    }
    let batch = sample(10);
    let encoded = Encoded::new(batch.schema(), [&batch], EncodeOptions::default()).unwrap();
    let error = encoded.encrypt(&dek(), &mut Stuck).unwrap_err();
    assert!(matches!(error, EncryptError::NonceRepeated));
    assert!(error.to_string().contains("not written"), "{error}");
}

/// What an opening asked of its source.
#[derive(Debug, PartialEq)]
enum Asked {
    Size,
    Ranges(Vec<Range<u64>>),
}

struct Traced {
    object: MemoryObject,
    asked: Mutex<Vec<Asked>>,
}

impl VerifiedRead for Traced {
    async fn size(&self, id: StorageId) -> Result<u64, ReadError> {
        self.asked.lock().unwrap().push(Asked::Size);
        self.object.size(id).await
    }

    async fn read(&self, id: StorageId, ranges: &[Range<u64>]) -> Result<Vec<VerifiedBytes>, ReadError> {
        self.asked.lock().unwrap().push(Asked::Ranges(ranges.to_vec()));
        self.object.read(id, ranges).await
    }
}

/// SOP-89: the proven length first, then the ends, then the footer's range, then columns. A wrong key gets no further than the
/// footer.
#[test]
fn opening_goes_from_the_end_to_the_columns() {
    let options = EncodeOptions {
        row_group_rows: 1_000,
        ..Default::default()
    };
    let sealed = write(&sample(2_500), options);
    let traced = Traced {
        object: object(&sealed.bytes),
        asked: Mutex::default(),
    };
    let taken = || std::mem::take(&mut *traced.asked.lock().unwrap());
    let tail = OpenOptions { tail_len: 100 };
    let footer = ready(Footer::open(&traced, sealed.storage_id, &dek(), tail)).unwrap();
    let size = sealed.bytes.len() as u64;
    let columns_end = footer.chunks.iter().map(|chunk| chunk.end).max().unwrap();
    let opening = [
        Asked::Size,
        Asked::Ranges(vec![0..4, size - 100..size]),
        Asked::Ranges(vec![columns_end..size]),
    ];
    assert_eq!(taken(), opening);

    let plan = footer.plan(&[1], &footer.project([2, 4])).unwrap();
    assert!(plan.ranges().iter().all(|range| range.end <= columns_end));
    let chunks = ready(traced.read(sealed.storage_id, plan.ranges())).unwrap();
    let rows: usize = footer
        .decode(&plan, chunks, DecodeOptions::default())
        .unwrap()
        .map(|batch| batch.unwrap().num_rows())
        .sum();
    assert_eq!(rows, 1_000);
    assert_eq!(taken(), [Asked::Ranges(plan.ranges().to_vec())]);

    let wrong = ready(Footer::open(
        &traced,
        sealed.storage_id,
        &Dek::from_bytes([1; 32]),
        tail,
    ));
    assert!(matches!(wrong, Err(OpenError::KeyMismatch)));
    assert_eq!(taken(), opening);
}
