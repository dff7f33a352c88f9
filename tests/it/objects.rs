//! Objects under attack and at their edges, through the public API only.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, BinaryArray, Int64Array},
    record_batch::RecordBatch,
};
use sovm_object::{
    padme::{padme, solve_pad},
    pme::{Claims, DecodeError, Footer, OpenError, OpenOptions, Sealed},
    secret::Dek,
    verified::{GROUP_LEN, MemoryObject},
};

use crate::fuzz::Numbers;
use crate::sample::{
    self, Disk, KEY_REF, decode, dek, is_hash_mismatch, object, read_all, ready, row_groups_of, seal, seal_under,
    table, values,
};

/// Length of the plain FileCryptoMetaData in front of the footer module.
const CRYPTO_METADATA_LEN: usize = 23;

fn open(sealed: &Sealed) -> Footer {
    open_under(&dek(), sealed)
}

fn open_under(key: &Dek, sealed: &Sealed) -> Footer {
    ready(Footer::open(
        &object(&sealed.bytes),
        sealed.storage_id,
        key,
        OpenOptions::default(),
    ))
    .unwrap()
}

/// Places of the column chunks, row group by row group.
fn chunks(footer: &Footer) -> Vec<Range<usize>> {
    let groups: Vec<usize> = (0..footer.row_groups()).collect();
    let plan = footer.plan(&groups, &footer.project_all()).unwrap();
    plan.ranges()
        .iter()
        .map(|range| range.start as usize..range.end as usize)
        .collect()
}

/// Modules that fill `range` one after another: length, nonce, ciphertext, tag.
fn modules(bytes: &[u8], range: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        found.push(at..at + 4 + length);
        at += 4 + length;
    }
    assert_eq!(at, range.end, "modules fill a chunk without gap");
    found
}

/// SOP-81, SOP-91: whatever bit of an object turns over on disk, no row comes out, and the error blames the bytes.
#[test]
fn a_flipped_bit_anywhere_fails_closed() {
    let sealed = seal(&sample::rows(0..3_000), row_groups_of(1_000));
    let bytes = &sealed.bytes;
    let len = bytes.len();
    assert!(len as u64 > 3 * GROUP_LEN, "several groups under one hash each: {len}");
    let chunks = chunks(&open(&sealed));
    let body_end = chunks.iter().map(|chunk| chunk.end).max().unwrap();
    let footer_from = body_end + CRYPTO_METADATA_LEN;

    let mut places: Vec<usize> = (0..len).step_by(211).collect();
    // Both magics, the plain header with the key reference, the footer's length.
    places.extend((0..4).chain(body_end..footer_from).chain(len - 8..len));
    // Of each module the length, the nonce, the first and last byte of the ciphertext, the tag.
    let footer = footer_from..len - 8;
    for module in chunks
        .iter()
        .cloned()
        .flat_map(|chunk| modules(bytes, chunk))
        .chain(modules(bytes, footer))
    {
        places.extend([0, 3, 4, 15, 16].map(|offset| module.start + offset));
        places.extend([17, 16, 1].map(|offset| module.end - offset));
    }
    places.sort_unstable();
    places.dedup();

    let mut disk = Disk::of(bytes);
    assert_eq!(read_all(&disk, sealed.storage_id).unwrap().num_rows(), 3_000);
    for at in places {
        let bit = 1 << (at % 8);
        disk.bytes[at] ^= bit;
        match read_all(&disk, sealed.storage_id) {
            Ok(_) => panic!("rows came out with byte {at} of {len} changed"),
            Err(error) => assert!(is_hash_mismatch(&error), "byte {at} of {len}: {error}"),
        }
        disk.bytes[at] ^= bit;
    }
    assert_eq!(read_all(&disk, sealed.storage_id).unwrap().num_rows(), 3_000);
}

/// SOP-84, SOP-88: a shorter or longer file under the same id is refused whole.
#[test]
fn a_cut_or_grown_file_is_refused() {
    let sealed = seal(&sample::rows(0..200), row_groups_of(100));
    let len = sealed.bytes.len();
    for cut in [1, 4, 8, 100, len / 2, len - 1] {
        assert!(
            MemoryObject::verify(sealed.storage_id, sealed.bytes.slice(..len - cut)).is_err(),
            "{cut}"
        );
    }
    for extra in [&[0u8][..], b"PARE", &[0; 5_000]] {
        assert!(MemoryObject::verify(sealed.storage_id, [&sealed.bytes[..], extra].concat()).is_err());
    }
}

/// Two columns of noise, which no codec shortens: their modules have equal lengths.
fn twins(seed: u64) -> RecordBatch {
    let mut numbers = Numbers::new(seed);
    let mut column = || Arc::new(Int64Array::from_iter_values((0..64).map(|_| numbers.next() as i64))) as ArrayRef;
    table(vec![("a", 1, column()), ("b", 2, column())])
}

/// Reads `forged` once under the id it has of its own, once as what a disk holds in place of `sealed`.
fn read_forged(sealed: &Sealed, forged: &[u8]) -> (RecordBatch, sample::Failure) {
    let own = sample::id_of(forged);
    let rows = read_all(&object(forged), own).expect("every tag verifies");
    assert!(MemoryObject::verify(sealed.storage_id, forged.to_vec()).is_err());
    let disk = Disk {
        bytes: forged.to_vec(),
        ..Disk::of(&sealed.bytes)
    };
    (
        rows,
        read_all(&disk, sealed.storage_id).expect_err("rows of a forged object"),
    )
}

/// SOP-29: two modules that changed places keep valid tags; the content address catches them.
#[test]
fn swapped_modules_are_refused() {
    let batch = twins(1);
    let sealed = seal(&batch, row_groups_of(64));
    let pages: Vec<Vec<Range<usize>>> = chunks(&open(&sealed))
        .into_iter()
        .map(|chunk| modules(&sealed.bytes, chunk))
        .collect();
    let [a, b] = pages.as_slice() else {
        panic!("two column chunks")
    };
    assert_eq!(a.len(), b.len());
    // The last module of a chunk is its data page.
    let (a, b) = (a.last().unwrap().clone(), b.last().unwrap().clone());
    assert_eq!(
        a.len(),
        b.len(),
        "equal lengths, so that nothing but the content tells them apart"
    );
    let mut forged = sealed.bytes.to_vec();
    forged[a.clone()].copy_from_slice(&sealed.bytes[b.clone()]);
    forged[b].copy_from_slice(&sealed.bytes[a]);

    let (rows, error) = read_forged(&sealed, &forged);
    assert_eq!((rows.column(0), rows.column(1)), (batch.column(1), batch.column(0)));
    assert!(is_hash_mismatch(&error), "{error}");
}

/// SOP-30: were a key ever used twice, a module of the other object would keep its tag too, and be caught all the same.
#[test]
fn modules_of_another_object_are_refused() {
    let (batch, other) = (twins(1), twins(2));
    let sealed = seal_under(&dek(), 1, &batch, row_groups_of(64));
    let donor = seal_under(&dek(), 2, &other, row_groups_of(64));
    let (to, from) = (
        chunks(&open(&sealed)).swap_remove(0),
        chunks(&open(&donor)).swap_remove(0),
    );
    assert_eq!(to.len(), from.len());
    let mut forged = sealed.bytes.to_vec();
    forged[to.clone()].copy_from_slice(&donor.bytes[from]);

    let (rows, error) = read_forged(&sealed, &forged);
    assert_eq!((rows.column(0), rows.column(1)), (other.column(0), batch.column(1)));
    assert!(is_hash_mismatch(&error), "{error}");

    // Under keys of their own, as objects really are, the tag speaks first.
    let own_key = Dek::from_bytes([7; 32]);
    let donor = seal_under(&own_key, 1, &other, row_groups_of(64));
    let from = chunks(&open_under(&own_key, &donor)).swap_remove(0);
    let mut forged = sealed.bytes.to_vec();
    forged[to].copy_from_slice(&donor.bytes[from]);
    let error = read_all(&object(&forged), sample::id_of(&forged)).unwrap_err();
    assert!(
        matches!(
            error.downcast_ref(),
            Some(DecodeError::KeyMismatch {
                row_group: 0,
                column: 0
            })
        ),
        "{error}"
    );
}

/// SOP-91: a wrong key is told apart from wrong bytes.
#[test]
fn a_wrong_key_is_a_key_error() {
    let sealed = seal(&sample::rows(0..50), row_groups_of(50));
    let error = Footer::open_whole(&object(&sealed.bytes), &Dek::from_bytes([1; 32])).unwrap_err();
    assert!(matches!(error, OpenError::KeyMismatch), "{error}");
}

/// SOP-57, SOP-67, SOP-76: whatever the size, an object ends exactly at its Padmé length, and its manifest can say how long
/// it would have been.
#[test]
fn every_length_is_a_padme_length() {
    let check = |batch: &RecordBatch| {
        let sealed = seal(batch, row_groups_of(500));
        let len = sealed.bytes.len() as u64;
        assert_eq!(
            padme(sealed.exact_byte_size),
            Some(len),
            "{} bytes before padding",
            sealed.exact_byte_size
        );
        assert_eq!(padme(len), Some(len));
        let claims = Claims {
            key_ref: Some(KEY_REF),
            exact_byte_size: Some(sealed.exact_byte_size),
        };
        assert_eq!(open(&sealed).audit(&claims), []);
        len - sealed.exact_byte_size
    };
    let mut numbers = Numbers::new(57);
    let mut paddings = std::collections::BTreeSet::new();
    // Bytes that do not compress, so that lengths grow one by one, then in leaps up to some megabytes.
    let lengths = (0..600usize)
        .chain((600..40_000).step_by(389))
        .chain([300_000, 1_000_003, 2_500_001, 4_200_000]);
    for length in lengths {
        let noise: Vec<u8> = (0..length).map(|_| numbers.next() as u8).collect();
        paddings.insert(check(&table(vec![(
            "noise",
            1,
            Arc::new(BinaryArray::from_vec(vec![&noise[..]])),
        )])));
    }
    assert!(
        paddings.len() > 50,
        "the sizes try many amounts of padding: {paddings:?}"
    );
    for rows in [0, 1, 2, 499, 500, 501, 2_000] {
        check(&sample::rows(0..rows));
    }
}

/// SOP-68: the closed form hits every amount of padding, the three steps of the length prefix included.
#[test]
fn every_amount_of_padding_is_reached() {
    for delta in (0..40_000).chain(2_097_000..2_097_300).chain([(4 << 20) - 1]) {
        let solution = solve_pad(delta);
        assert_eq!(solution.growth(), delta);
        assert_eq!(
            solution.hyphens,
            u64::from([128, 16_385, 2_097_154].contains(&delta)),
            "{delta}"
        );
    }
}

/// SOP-14, SOP-17: order, names, types and ids of columns survive, nested ones included, and columns are found by id.
#[test]
fn field_order_and_ids_survive() {
    let rows = sample::rows(0..300);
    // Ids neither ascend nor start at one.
    let order = [15, 3, 9, 0, 14, 13, 11, 1, 12];
    let rows = rows.project(&order).unwrap();
    let sealed = seal(&rows, row_groups_of(128));
    let footer = open(&sealed);
    assert_eq!(footer.schema().fields(), rows.schema().fields());
    let columns: Vec<(Option<i32>, &str, usize)> = footer
        .columns()
        .iter()
        .map(|column| (column.field_id, column.name.as_str(), column.index))
        .collect();
    let names = [
        "trips", "name", "price", "id", "place", "numbers", "tag", "small", "void",
    ];
    let ids = [40, 4, 10, 1, 30, 20, 12, 2, 13];
    let expected: Vec<_> = ids
        .iter()
        .zip(names)
        .enumerate()
        .map(|(at, (id, name))| (Some(*id), name, at))
        .collect();
    assert_eq!(columns, expected);
    assert_eq!(footer.column(20).unwrap().name, "numbers");
    assert_eq!(footer.column(31), None, "ids of nested columns name no root column");

    let whole = object(&sealed.bytes);
    assert_eq!(
        values(&decode(&whole, &footer, &footer.project_all()).unwrap()),
        values(&rows)
    );
    // Asked for in another order, and with an id the object lacks: the object's order counts.
    let some = decode(&whole, &footer, &footer.project([2, 10, 999, 40])).unwrap();
    assert_eq!(some, rows.project(&[0, 2, 7]).unwrap());
}
