//! Damaged, forged and foreign objects.

use std::ops::Range;

use super::{
    forge::{columns, entry, key_values, with_footer, with_header},
    *,
};
use crate::{
    thrift::{Field as ThriftField, List, Struct, Value},
    verified::{GROUP_LEN, ObjectTree, ReadError, VerifiedBytes, VerifiedRead},
};

/// A store whose bytes may be damaged: reads are proven against the tree of the true object.
struct Store {
    tree: ObjectTree,
    bytes: Vec<u8>,
}

impl Store {
    fn of(bytes: &[u8]) -> Self {
        Self {
            tree: ObjectTree::of_bytes(id_of(bytes), bytes).unwrap(),
            bytes: bytes.to_vec(),
        }
    }
}

impl VerifiedRead for Store {
    async fn size(&self, _id: StorageId) -> Result<u64, ReadError> {
        Ok(self.tree.size())
    }

    async fn read(&self, _id: StorageId, ranges: &[Range<u64>]) -> Result<Vec<VerifiedBytes>, ReadError> {
        ranges
            .iter()
            .map(|range| {
                let cover = self.tree.covering(range)?;
                let read = bytes::Bytes::copy_from_slice(&self.bytes[cover.start as usize..cover.end as usize]);
                Ok(self
                    .tree
                    .prove(cover.start, read)?
                    .part(range.clone())
                    .expect("covered"))
            })
            .collect()
    }
}

fn read_store(store: &Store) -> Result<usize, Box<dyn std::error::Error>> {
    let id = store.tree.storage_id();
    let footer = ready(Footer::open(store, id, &dek(), OpenOptions { tail_len: 100 }))?;
    let groups: Vec<usize> = (0..footer.row_groups()).collect();
    let plan = footer.plan(&groups, &footer.project_all())?;
    let chunks = ready(store.read(id, plan.ranges()))?;
    let mut rows = 0;
    for batch in footer.decode(&plan, chunks, DecodeOptions::default())? {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

/// SOP-81, SOP-91: a flipped bit in any byte fails with a hash error on the verified path.
#[test]
fn any_flipped_byte_fails_closed() {
    let sealed = write(
        &sample(60),
        EncodeOptions {
            row_group_rows: 25,
            ..Default::default()
        },
    );
    assert!(sealed.bytes.len() < GROUP_LEN as usize * 2);
    let mut store = Store::of(&sealed.bytes);
    assert_eq!(read_store(&store).unwrap(), 60);
    for at in 0..sealed.bytes.len() {
        store.bytes[at] ^= 1 << (at % 8);
        let error = read_store(&store).unwrap_err();
        assert!(
            matches!(
                error.downcast_ref(),
                Some(OpenError::Read(ReadError::HashMismatch { .. }))
            ) || matches!(error.downcast_ref(), Some(ReadError::HashMismatch { .. })),
            "{at}: {error}"
        );
        assert!(MemoryObject::verify(sealed.storage_id, store.bytes.clone()).is_err());
        store.bytes[at] ^= 1 << (at % 8);
    }
}

/// Behind the hash, the tags: a producer's own damage is found in every module and in every length.
#[test]
fn any_byte_a_producer_damages_is_found() {
    let batch = sample(40);
    let sealed = write(&batch, EncodeOptions::default());
    let footer_from = open(&sealed.bytes)
        .unwrap()
        .chunks
        .iter()
        .map(|range| range.end)
        .max()
        .unwrap() as usize;
    for at in 0..sealed.bytes.len() {
        let mut bytes = sealed.bytes.to_vec();
        bytes[at] ^= 1 << (at % 8);
        let read = open(&bytes)
            .map_err(drop)
            .and_then(|footer| Ok((read_all(&bytes, &footer).map_err(drop)?, footer)));
        if let Ok((rows, footer)) = read {
            // key_ref is in clear, under no tag, and no reader depends on it or its presence (SOP-44, SOP-46).
            assert!((footer_from..footer_from + 23).contains(&at), "{at}");
            assert_eq!(rows, batch);
            assert_ne!(
                footer.audit(&Claims {
                    key_ref: Some(key_ref()),
                    exact_byte_size: None
                }),
                [],
                "{at}"
            );
        }
    }
}

/// SOP-29, SOP-30: a module in another's place keeps its tag valid; only the hash catches it.
#[test]
fn moved_modules_are_caught_by_the_hash_alone() {
    let column = |from: i64| Arc::new(Int64Array::from_iter_values((0..50).map(|i| from + i % 50))) as ArrayRef;
    let schema = Arc::new(Schema::new(vec![
        field("a", DataType::Int64, 1),
        field("b", DataType::Int64, 2),
    ]));
    let batch = RecordBatch::try_new(schema, vec![column(1_000), column(2_000)]).unwrap();
    let sealed = write(&batch, EncodeOptions::default());
    let footer = open(&sealed.bytes).unwrap();
    let [a, b] = footer.chunks.as_slice() else {
        panic!("two chunks")
    };
    let mut moved = sealed.bytes.to_vec();
    assert_eq!(
        a.end - a.start,
        b.end - b.start,
        "equal lengths, so that chunks can be swapped"
    );
    let (from, to) = (a.start as usize..a.end as usize, b.start as usize..b.end as usize);
    moved[from.clone()].copy_from_slice(&sealed.bytes[to.clone()]);
    moved[to].copy_from_slice(&sealed.bytes[from]);

    // Every tag verifies and rows come out, with the columns' values exchanged: under an id of its own.
    let forged = read_all(&moved, &open(&moved).unwrap()).unwrap();
    assert_eq!(forged.column(0), batch.column(1));
    // Under the true id nothing comes out.
    assert!(MemoryObject::verify(sealed.storage_id, moved.clone()).is_err());
    let store = Store {
        tree: ObjectTree::of_bytes(sealed.storage_id, &sealed.bytes).unwrap(),
        bytes: moved,
    };
    assert!(read_store(&store).is_err());
}

/// SOP-91: a wrong key is told apart from damaged bytes.
#[test]
fn wrong_keys_are_key_errors() {
    let sealed = write(&sample(20), EncodeOptions::default());
    let error = Footer::open_whole(&object(&sealed.bytes), &Dek::from_bytes([1; 32])).unwrap_err();
    assert!(matches!(error, OpenError::KeyMismatch));

    let mut footer = open(&sealed.bytes).unwrap();
    footer.key = module::ModuleKey::new(&Dek::from_bytes([1; 32]));
    assert!(matches!(
        read_all(&sealed.bytes, &footer),
        Err(DecodeError::KeyMismatch {
            row_group: 0,
            column: 0
        })
    ));
}

/// SOP-60, SOP-71, SOP-374: ends, lengths and magics.
#[test]
fn crooked_envelopes_are_refused() {
    let sealed = write(&sample(20), EncodeOptions::default());
    let good = sealed.bytes.to_vec();
    let len = good.len();
    for cut in (1..len).step_by(13).chain(len - 40..len).chain(1..40) {
        assert!(open(&good[..cut]).is_err(), "cut to {cut}");
    }
    for extra in [&[0u8][..], b"x", b"PARE", &[0; 100]] {
        assert!(open(&[&good, extra].concat()).is_err());
    }
    let with_footer_len = |footer: u32| {
        let mut bytes = good.clone();
        bytes[len - 8..len - 4].copy_from_slice(&footer.to_le_bytes());
        open(&bytes).unwrap_err()
    };
    for footer in [len as u32 - 11, len as u32, u32::MAX, 0x8000_0000] {
        assert!(
            matches!(with_footer_len(footer), OpenError::FooterLength { .. }),
            "{footer}"
        );
    }
    let true_len = u32::from_le_bytes(good[len - 8..len - 4].try_into().unwrap());
    for footer in [0, 1, 22, 23, 50, true_len - 1, true_len + 1, len as u32 - 12] {
        with_footer_len(footer);
    }
    let mut head = good.clone();
    head[0] = b'Q';
    assert!(matches!(open(&head), Err(OpenError::BadMagic)));
    for (from, magic) in [(0, b"PAR1"), (len - 4, b"PAR1")] {
        let mut bytes = good.clone();
        bytes[from..from + 4].copy_from_slice(magic);
        assert!(matches!(open(&bytes), Err(OpenError::NotEncrypted)));
    }
    assert!(matches!(
        open(b"PARE\0\0\0\0PARE"),
        Err(OpenError::CryptoMetadata(_) | OpenError::FooterLength { .. })
    ));
}

/// SOP-5: plain Parquet is refused by name.
#[test]
fn plain_parquet_is_not_encrypted() {
    let encoded = Encoded::new(sample(5).schema(), [&sample(5)], EncodeOptions::default()).unwrap();
    assert!(matches!(open(&encoded.bytes), Err(OpenError::NotEncrypted)));
}

/// SOP-20, SOP-28, SOP-44: algorithms and AADs that are not ours; absent or odd key references still read.
#[test]
fn foreign_encryption_headers() {
    let sealed = write(&sample(20), EncodeOptions::default());
    let open_with = |crypto: &[u8]| open(&with_header(&sealed.bytes, crypto));
    // AES_GCM_V1 with prefix, with file-unique value, with "supply prefix"
    for crypto in [
        &[0x1c, 0x1c, 0x18, 2, b'a', b'b', 0, 0, 0][..],
        &[0x1c, 0x1c, 0x28, 2, b'a', b'b', 0, 0, 0],
        &[0x1c, 0x1c, 0x31, 0, 0, 0],
    ] {
        assert!(matches!(open_with(crypto), Err(OpenError::ForeignAad)), "{crypto:?}");
    }
    // AES_GCM_CTR_V1; an empty union; no algorithm at all
    for crypto in [&[0x1c, 0x2c, 0, 0, 0][..], &[0x1c, 0, 0], &[0]] {
        assert!(
            matches!(open_with(crypto), Err(OpenError::UnsupportedAlgorithm)),
            "{crypto:?}"
        );
    }
    for crypto in [
        &[][..],
        &[0xff, 0xff],
        &[0x1c, 0x1c, 0, 0, 0x18, 0xff, 0xff, 0xff, 0xff, 0x0f],
    ] {
        assert!(
            matches!(open_with(crypto), Err(OpenError::CryptoMetadata(_))),
            "{crypto:?}"
        );
    }
    let none = open_with(&[0x1c, 0x1c, 0, 0, 0]).unwrap();
    assert!(none.audit(&Claims::default()).contains(&Finding::NoKeyRef));
    let short = open_with(&[0x1c, 0x1c, 0, 0, 0x18, 3, 1, 2, 3, 0]).unwrap();
    assert!(short.audit(&Claims::default()).contains(&Finding::KeyRefLength(3)));
}

/// SOP-72, SOP-74: four breaches of padding are read and found; a reserved key is never shown.
#[test]
fn padding_breaches_read_and_are_found() {
    let batch = sample(30);
    type Change = fn(&mut Struct<'static>);
    let cases: [(Change, &[Finding]); 5] = [
        (|footer| drop(key_values(footer).pop()), &[Finding::NoPadEntry]),
        (
            |footer| key_values(footer).push(entry(PAD_KEY, &[])),
            &[Finding::SeveralPadEntries(2)],
        ),
        (
            |footer| *key_values(footer).last_mut().unwrap() = entry(PAD_KEY, b"\0\0text"),
            &[Finding::PadValue],
        ),
        (
            |footer| *key_values(footer).last_mut().unwrap() = entry("sovm:sop-pad-v1xyz", b""),
            &[Finding::PadKey],
        ),
        (
            |footer| *key_values(footer).last_mut().unwrap() = entry(PAD_KEY, &[0; 3]),
            &[],
        ),
    ];
    for (change, expected) in cases {
        let bytes = with_footer(&batch, EncodeOptions::default(), change);
        let footer = open(&bytes).unwrap();
        assert_eq!(read_all(&bytes, &footer).unwrap(), batch);
        assert!(!format!("{:?}", footer.metadata().file_metadata().key_value_metadata()).contains("sovm:"));
        assert!(footer.schema().metadata().keys().all(|key| !key.starts_with("sovm:")));
        let findings = footer.audit(&Claims::default());
        assert!(
            expected.iter().all(|finding| findings.contains(finding)),
            "{findings:?}"
        );
        assert!(
            findings
                .iter()
                .any(|finding| matches!(finding, Finding::OffTarget { .. })),
            "{findings:?}"
        );
    }
}

/// SOP-43, SOP-75: claims of the manifest that the object does not bear out.
#[test]
fn false_claims_are_found() {
    let sealed = write(&sample(30), EncodeOptions::default());
    let footer = open(&sealed.bytes).unwrap();
    let other = Claims {
        key_ref: Some(KeyRef::from_bytes([9; 16])),
        exact_byte_size: Some(sealed.exact_byte_size - 1),
    };
    let findings = footer.audit(&other);
    assert!(
        matches!(
            findings.as_slice(),
            [Finding::ExactByteSize { .. }, Finding::KeyRefMismatch]
        ),
        "{findings:?}"
    );
}

/// SOP-8, SOP-10, SOP-18, SOP-90, SOP-103: footers that lie are refused at open.
#[test]
fn lying_footers_are_refused() {
    let batch = sample(30);
    type Change = fn(&mut Struct<'static>);
    let set = |footer: &mut Struct<'static>, index: usize, id: i16, value: i64| {
        columns(footer)[index].struct_mut(3).unwrap().set(id, Value::I64(value));
    };
    type Lie = Box<dyn FnOnce(&mut Struct<'static>)>;
    let changes: Vec<(&str, Lie)> = vec![
        (
            "offset behind the body",
            Box::new(move |footer| set(footer, 0, 9, 1 << 40)),
        ),
        ("negative offset", Box::new(move |footer| set(footer, 0, 9, -1))),
        ("offset over the magic", Box::new(move |footer| set(footer, 0, 9, 3))),
        ("length to the sky", Box::new(move |footer| set(footer, 0, 7, i64::MAX))),
        ("negative length", Box::new(move |footer| set(footer, 0, 7, -5))),
        ("short length", Box::new(move |footer| set(footer, 0, 7, 10))),
        ("overlapping chunks", Box::new(move |footer| set(footer, 1, 9, 4))),
        ("negative values", Box::new(move |footer| set(footer, 0, 5, -1))),
        ("other count of values", Box::new(move |footer| set(footer, 0, 5, 31))),
        (
            "dictionary behind data",
            Box::new(move |footer| set(footer, 0, 11, 1 << 30)),
        ),
        ("file rows", Box::new(|footer| footer.set(3, Value::I64(29)))),
        (
            "negative rows",
            Box::new(|footer| footer.structs_mut(4).for_each(|group| group.set(3, Value::I64(-30)))),
        ),
        (
            "lost column",
            Box::new(|footer| {
                footer.structs_mut(4).for_each(|group| {
                    if let Some(Value::List(list)) = group.get_mut(1) {
                        list.items.pop();
                    }
                })
            }),
        ),
        (
            "external file",
            Box::new(|footer| columns(footer)[0].set(1, Value::Binary(b"elsewhere".to_vec().into()))),
        ),
        (
            "own column key",
            Box::new(|footer| {
                let mut marker = Struct::default();
                marker.set(2, Value::Struct(Struct::default()));
                columns(footer)[0].set(8, Value::Struct(marker));
            }),
        ),
        (
            "sealed column metadata",
            Box::new(|footer| columns(footer)[0].set(9, Value::Binary(b"x".to_vec().into()))),
        ),
        (
            "one column unmarked",
            Box::new(|footer| columns(footer)[0].remove(&[8])),
        ),
        (
            "field id twice",
            Box::new(|footer| footer.structs_mut(2).nth(1).unwrap().set(9, Value::I32(2))),
        ),
        (
            "too many children",
            Box::new(|footer| footer.structs_mut(2).next().unwrap().set(5, Value::I32(1_000))),
        ),
        (
            "too few children",
            Box::new(|footer| footer.structs_mut(2).next().unwrap().set(5, Value::I32(2))),
        ),
        (
            "negative children",
            Box::new(|footer| footer.structs_mut(2).next().unwrap().set(5, Value::I32(-2))),
        ),
        (
            "unknown physical type",
            Box::new(|footer| footer.structs_mut(2).nth(1).unwrap().set(1, Value::I32(77))),
        ),
        ("no schema", Box::new(|footer| footer.remove(&[2]))),
    ];
    for (what, change) in changes {
        let bytes = with_footer(&batch, EncodeOptions::default(), change);
        let opened = open(&bytes);
        assert!(opened.is_err(), "{what}");
        assert!(
            !matches!(opened, Err(OpenError::KeyMismatch | OpenError::Unreadable)),
            "{what}: {opened:?}"
        );
    }
    // A marker missing on all columns is DuckDB's way (SOP-371).
    let all: Change = |footer| columns(footer).into_iter().for_each(|chunk| chunk.remove(&[8]));
    let bytes = with_footer(&batch, EncodeOptions::default(), all);
    assert_eq!(read_all(&bytes, &open(&bytes).unwrap()).unwrap(), batch);
}

/// SOP-103: pages with another count of rows than the footer claims end in an error, not in fewer rows.
#[test]
fn row_counts_are_held_against_pages() {
    let batch = sample(30).project(&[9]).unwrap();
    let bytes = with_footer(&batch, EncodeOptions::default(), |footer| {
        footer.set(3, Value::I64(31));
        footer.structs_mut(4).for_each(|group| group.set(3, Value::I64(31)));
    });
    let error = read_all(&bytes, &open(&bytes).unwrap()).unwrap_err();
    assert!(
        matches!(error, DecodeError::RowCount { claimed: 31, found: 30 }),
        "{error}"
    );

    let batch = sample(30).project(&[0]).unwrap();
    let bytes = with_footer(&batch, EncodeOptions::default(), |footer| {
        footer.set(3, Value::I64(29));
        footer.structs_mut(4).for_each(|group| group.set(3, Value::I64(29)));
        columns(footer)[0].struct_mut(3).unwrap().set(5, Value::I64(29));
    });
    assert!(matches!(
        read_all(&bytes, &open(&bytes).unwrap()),
        Err(DecodeError::Page { .. })
    ));
}

/// SOP-73: the Arrow schema entry is a hint; a forged one falls back to the Parquet schema.
#[test]
fn a_forged_arrow_schema_is_ignored() {
    let batch = sample(30).project(&[0, 3]).unwrap();
    for forged in [&b"not base64"[..], b"AAAA", b"", &[b'/'; 40]] {
        let bytes = with_footer(&batch, EncodeOptions::default(), |footer| {
            for item in key_values(footer) {
                if let Value::Struct(entry) = item
                    && matches!(entry.get(1), Some(Value::Binary(key)) if key.starts_with(b"ARROW"))
                {
                    entry.set(2, Value::Binary(forged.into()));
                }
            }
        });
        let footer = open(&bytes).unwrap();
        assert_eq!(read_all(&bytes, &footer).unwrap().columns(), batch.columns());
    }
}

/// SOP-90: footers that announce or nest more than they hold.
#[test]
fn footer_bombs_are_refused() {
    let nested = |depth: usize| {
        // A schema of one path, each group with one child.
        let node = |children: Option<i32>| {
            let mut node = Struct::default();
            node.set(4, Value::Binary(b"n".to_vec().into()));
            match children {
                Some(children) => node.set(5, Value::I32(children)),
                None => node.set(1, Value::I32(1)),
            }
            node.set(3, Value::I32(1));
            node
        };
        let nodes = (0..depth).map(|_| node(Some(1))).chain([node(None)]);
        let mut footer = Struct::default();
        footer.set(1, Value::I32(1));
        footer.set(2, Value::List(List::of_structs(nodes)));
        footer.set(3, Value::I64(0));
        footer.set(4, Value::List(List::of_structs([])));
        footer.encode()
    };
    for depth in [10, 100, 100_000] {
        fuzz::footer(&nested(depth), 1 << 20);
    }
    let mut chunks = Struct::default();
    let empty = Struct {
        fields: vec![ThriftField {
            id: 1,
            value: Value::List(List::of_structs((0..200_000).map(|_| Struct::default()))),
        }],
    };
    chunks.set(4, Value::List(List::of_structs([empty])));
    fuzz::footer(&chunks.encode(), 4_096);
    fuzz::footer(&[0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07], 1 << 30);
}

/// SOP-374: forged pages, each sealed with the right key.
#[test]
fn forged_pages_are_errors() {
    let batch = sample(30).project(&[0]).unwrap();
    let encoded = Encoded::new(batch.schema(), [&batch], EncodeOptions::default()).unwrap();
    let footer = encoded.footer().unwrap().to_vec();
    let body = encoded.bytes[4..encoded.bytes.len() - 8 - footer.len()].to_vec();
    let header_len = page::parse(&body).unwrap().len;
    for cuts in [
        [header_len, body.len() - header_len],
        [header_len - 1, body.len()],
        [header_len + 1, body.len()],
        [0, body.len()],
    ] {
        fuzz::pages(&body, &cuts, &footer);
    }
}

/// The fuzz entries over mutations of a real file, as a smoke test: no panic gets out, and they end.
#[test]
fn mutated_files_never_panic() {
    let batch = sample(200);
    let encoded = Encoded::new(
        batch.schema(),
        [&batch],
        EncodeOptions {
            row_group_rows: 90,
            ..Default::default()
        },
    )
    .unwrap();
    let sealed = write(&batch, EncodeOptions::default());
    let footer = encoded.footer().unwrap().to_vec();
    let mut random = numbers(7);
    for _ in 0..1_500 {
        let mut next = |below: usize| random.next().unwrap() as usize % below;
        let mut bytes = encoded.bytes.clone();
        for _ in 0..1 + next(3) {
            let at = next(bytes.len());
            bytes[at] = next(256) as u8;
        }
        fuzz::parquet(&bytes);
        let mut bytes = footer.clone();
        for _ in 0..1 + next(4) {
            let at = next(bytes.len());
            bytes[at] = next(256) as u8;
        }
        fuzz::footer(&bytes, encoded.bytes.len() as u64);
        let mut bytes = sealed.bytes.to_vec();
        let at = next(bytes.len());
        bytes[at] = next(256) as u8;
        fuzz::object(&bytes[..bytes.len() - next(2) * next(bytes.len())]);
    }
}

/// SOP-31: rows come from bytes that were verified for this very object and place; a key and other bytes give none, not even
/// another object's verified ones under the same key. (That unverified bytes are no argument at all is a `compile_fail` test
/// of the module's documentation.)
#[test]
fn rows_come_from_verified_bytes_of_the_object_alone() {
    let batch = sample(30).project(&[0, 1]).unwrap();
    let sealed = write(&batch, EncodeOptions::default());
    let other = with_footer(&batch, EncodeOptions::default(), |footer| {
        drop(key_values(footer).pop())
    });
    let footer = open(&sealed.bytes).unwrap();
    let plan = footer.plan(&[0], &footer.project_all()).unwrap();
    let of = |bytes: &[u8]| ready(object(bytes).read(id_of(bytes), plan.ranges())).unwrap();
    let decode = |chunks| footer.decode(&plan, chunks, DecodeOptions::default()).map(drop);
    // The same pages, byte for byte, proven for another object.
    assert_eq!(of(&other)[0][..], of(&sealed.bytes)[0][..]);
    assert!(matches!(decode(of(&other)), Err(DecodeError::WrongBytes { .. })));
    let mut swapped = of(&sealed.bytes);
    swapped.reverse();
    assert!(matches!(decode(swapped), Err(DecodeError::WrongBytes { .. })));
    decode(of(&sealed.bytes)).unwrap();
}
