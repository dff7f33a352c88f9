//! Objects that no conforming reader gives rows of.

use parquet::file::properties::WriterVersion;

use super::{
    super::forge::{
        Counted, DUCKDB_HEADER, Forge, Page, Parts, columns, footer_from, modules, with_footer, with_footer_len,
        with_header,
    },
    *,
};
use crate::thrift::{List, Struct, Value};

/// Bytes that were never meant to be read from there may fail in more than one way.
const ANY: &str = "any";

fn reject(
    name: &'static str,
    [clause, rule]: [&'static str; 2],
    [step, error]: [&'static str; 2],
    why: &'static str,
    object: Vec<u8>,
) -> Case {
    Case {
        name,
        clause,
        rule,
        why,
        object,
        storage_id: None,
        expect: Expect::Reject { step, error },
    }
}

pub(super) fn cases() -> Vec<Case> {
    let parts = [
        moved(),
        envelopes(),
        headers(),
        bombs(),
        footers(),
        footer_modules(),
        pages(),
        page_modules(),
    ];
    parts.into_iter().flatten().collect()
}

/// The object that most vectors start from.
fn good() -> Vec<u8> {
    write(&twins(1_000), plain()).bytes.to_vec()
}

/// Bytes that another id names: only the content address tells.
fn moved() -> Vec<Case> {
    const RULE: [&str; 2] = ["verify", "HashMismatch"];
    let good = good();
    let id = Some(id_of(&good));
    let pages = modules(&good, 23);
    // Header and body of the two chunks' pages.
    let [_, a, _, b, _] = pages.as_slice() else {
        panic!("two chunks of one page")
    };
    assert_eq!(a.len(), b.len());
    let mut swapped = good.clone();
    swapped[a.clone()].copy_from_slice(&good[b.clone()]);
    swapped[b.clone()].copy_from_slice(&good[a.clone()]);

    let donor = Encoded::new(twins(0).schema(), [&twins(7_000)], plain()).unwrap();
    let donor = donor.encrypt(&dek(), &mut Counted(1_000)).unwrap();
    let donor = donor.with_key_ref(key_ref()).pad().unwrap().seal().unwrap();
    let mut grafted = good.clone();
    grafted[a.clone()].copy_from_slice(&donor.bytes[a.clone()]);

    let mut key_ref = good.clone();
    key_ref[footer_from(&good) + 6] ^= 1;
    let cases = [
        reject(
            "module_moved_within_the_object",
            ["SOP §11.10", "SOP-29"],
            RULE,
            "two page modules changed places: every tag verifies, only the hash fails",
            swapped,
        ),
        reject(
            "module_of_another_object",
            ["SOP §11.10", "SOP-30"],
            RULE,
            "a page module of another object under the same key: every tag verifies, only the hash fails",
            grafted,
        ),
        reject(
            "key_ref_changed",
            ["SOP §11.5", "SOP-46"],
            RULE,
            "no tag covers key_ref, only the storage id does",
            key_ref,
        ),
        reject(
            "other_object_of_the_same_key",
            ["SOP §11.10", "SOP-30"],
            RULE,
            "a whole other object under the same key and key reference",
            donor.bytes.to_vec(),
        ),
    ];
    cases.into_iter().map(|case| Case { storage_id: id, ..case }).collect()
}

/// Magics, ends and the footer's length.
fn envelopes() -> Vec<Case> {
    let good = good();
    let len = good.len();
    let true_len = (len - 8 - footer_from(&good)) as u32;
    let with_magic = |at: usize, magic: &[u8; 4]| {
        let mut bytes = good.clone();
        bytes[at..at + 4].copy_from_slice(magic);
        bytes
    };
    // A footer that lost bytes out of its middle, behind a length that was mended.
    let mut cut = good.clone();
    cut.drain(len - 60..len - 50);
    let cut = with_footer_len(&cut, true_len - 10);
    let encoded = Encoded::new(twins(0).schema(), [&twins(0)], plain()).unwrap();
    // Pages sealed, the footer in clear with the algorithm in it and a signature's room behind.
    let mut parts = Parts::of_ours(&twins(0), plain());
    let mut forge = Forge::new();
    forge.chunks(&mut parts, |forge, _, page| forge.page(page));
    let mut algorithm = Struct::default();
    algorithm.set(1, Value::Struct(Struct::default()));
    parts.footer.set(8, Value::Struct(algorithm));
    let mut clear_footer = forge.end_raw(&[&parts.footer.encode()[..], &[0; 28]].concat());
    let end = clear_footer.len() - 4;
    clear_footer[..4].copy_from_slice(b"PAR1");
    clear_footer[end..].copy_from_slice(b"PAR1");

    let mut trailing = good.clone();
    trailing.push(0);
    vec![
        reject(
            "plain_parquet",
            ["SOP §11.1", "SOP-5"],
            ["open", "NotEncrypted"],
            "plain Parquet",
            encoded.bytes,
        ),
        reject(
            "plain_footer",
            ["SOP §11.4", "SOP-11"],
            ["open", "NotEncrypted"],
            "encrypted columns under a footer in clear",
            clear_footer,
        ),
        reject(
            "plain_magic_at_the_front",
            ["SOP §11.4", "SOP-32"],
            ["open", "NotEncrypted"],
            "the front says PAR1",
            with_magic(0, b"PAR1"),
        ),
        reject(
            "plain_magic_at_the_end",
            ["SOP §11.4", "SOP-32"],
            ["open", "NotEncrypted"],
            "the end says PAR1",
            with_magic(len - 4, b"PAR1"),
        ),
        reject(
            "wrong_magic_at_the_front",
            ["SOP §11.10", "SOP-374"],
            ["open", "BadMagic"],
            "no tag covers the leading magic, so it is compared",
            with_magic(0, b"PARQ"),
        ),
        reject(
            "wrong_magic_at_the_end",
            ["SOP §11.10", "SOP-374"],
            ["open", "BadMagic"],
            "the trailing magic is another one",
            with_magic(len - 4, b"ERAP"),
        ),
        reject(
            "byte_after_the_magic",
            ["SOP §11.8", "SOP-60"],
            ["open", "BadMagic"],
            "one zero byte follows the closing magic",
            trailing,
        ),
        reject(
            "last_byte_missing",
            ["SOP §11.8", "SOP-60"],
            ["open", "BadMagic"],
            "the last byte is missing",
            good[..len - 1].to_vec(),
        ),
        reject(
            "nothing_but_the_envelope",
            ["SOP §11.10", "SOP-374"],
            ["open", "CryptoMetadata"],
            "two magics around a footer of no bytes",
            b"PARE\0\0\0\0PARE".to_vec(),
        ),
        reject(
            "shorter_than_an_envelope",
            ["SOP §11.10", "SOP-374"],
            ["open", "BadMagic"],
            "eleven bytes",
            b"PARE\0\0\0PARE".to_vec(),
        ),
        reject(
            "footer_truncated",
            ["SOP §11.10", "SOP-374"],
            ["open", "ModuleLength"],
            "the footer module lost ten bytes; the length behind it was mended",
            cut,
        ),
        reject(
            "footer_length_one_too_short",
            ["SOP §11.10", "SOP-71"],
            ["open", ANY],
            "the footer is said to start one byte late",
            with_footer_len(&good, true_len - 1),
        ),
        reject(
            "footer_length_without_its_header",
            ["SOP §11.10", "SOP-71"],
            ["open", ANY],
            "the footer is said to start at its module",
            with_footer_len(&good, true_len - 23),
        ),
        reject(
            "footer_length_zero",
            ["SOP §11.10", "SOP-71"],
            ["open", "CryptoMetadata"],
            "the footer is said to have no bytes",
            with_footer_len(&good, 0),
        ),
        reject(
            "footer_length_of_the_whole_object",
            ["SOP §11.10", "SOP-71"],
            ["open", ANY],
            "the footer is said to start behind the leading magic",
            with_footer_len(&good, len as u32 - 12),
        ),
        reject(
            "footer_length_one_beyond",
            ["SOP §11.10", "SOP-71"],
            ["open", "FooterLength"],
            "the footer is said to reach into the leading magic",
            with_footer_len(&good, len as u32 - 11),
        ),
        reject(
            "footer_length_four_gigabytes",
            ["SOP §11.10", "SOP-71"],
            ["open", "FooterLength"],
            "the largest length that can be written",
            with_footer_len(&good, u32::MAX),
        ),
    ]
}

/// Algorithms and AADs that are not ours.
fn headers() -> Vec<Case> {
    const AAD: [&str; 2] = ["SOP §11.3", "SOP-28"];
    const FOREIGN: [&str; 2] = ["open", "ForeignAad"];
    // Every module sealed under an AAD, as the header says.
    let with_aad = |header: &[u8]| {
        let mut parts = Parts::of_ours(&twins(0), plain());
        let mut forge = Forge::new();
        forge.chunks(&mut parts, |forge, _, page| {
            forge.module_with_aad(&page.header, b"ab\x04\0\0\0\0\0\0");
            forge.module_with_aad(&page.body, b"ab\x02\0\0\0\0\0\0");
        });
        let from = forge.bytes.len();
        forge.module_with_aad(&parts.footer.encode(), b"ab\0");
        let module = forge.bytes.split_off(from);
        forge.end_raw(&[header, &module].concat())
    };
    let good = good();
    let under = |header: &[u8]| with_header(&good, header);
    let other_key = Encoded::new(twins(0).schema(), [&twins(0)], plain()).unwrap();
    let other_key = other_key
        .encrypt(&Dek::from_bytes([0x17; 32]), &mut Counted(0))
        .unwrap();
    let other_key = other_key.with_key_ref(key_ref()).pad().unwrap().seal().unwrap();
    vec![
        reject(
            "aad_prefix",
            AAD,
            FOREIGN,
            "an AAD prefix stands in the header",
            with_aad(&[0x1c, 0x1c, 0x18, 2, b'a', b'b', 0, 0, 0]),
        ),
        reject(
            "aad_file_unique",
            AAD,
            FOREIGN,
            "a file-unique value stands in the header",
            with_aad(&[0x1c, 0x1c, 0x28, 2, b'a', b'b', 0, 0, 0]),
        ),
        reject(
            "aad_prefix_to_be_supplied",
            AAD,
            FOREIGN,
            "the reader is told to supply an AAD prefix",
            with_aad(&[0x1c, 0x1c, 0x31, 0, 0, 0]),
        ),
        reject(
            "aad_that_the_header_hides",
            ["SOP §11.3", "SOP-13"],
            ["open", "KeyMismatch"],
            "the modules were sealed with an AAD and the header has none",
            with_aad(DUCKDB_HEADER),
        ),
        reject(
            "algorithm_gcm_ctr",
            ["SOP §11.2", "SOP-20"],
            ["open", "UnsupportedAlgorithm"],
            "AES_GCM_CTR_V1 leaves pages without tags",
            under(&[0x1c, 0x2c, 0, 0, 0]),
        ),
        reject(
            "algorithm_unknown",
            ["SOP §11.2", "SOP-20"],
            ["open", "UnsupportedAlgorithm"],
            "a third algorithm",
            under(&[0x1c, 0x3c, 0, 0, 0]),
        ),
        reject(
            "algorithm_missing",
            ["SOP §11.2", "SOP-20"],
            ["open", "UnsupportedAlgorithm"],
            "key_metadata and no algorithm",
            under(&[0x28, 1, 7, 0]),
        ),
        reject(
            "sealed_with_another_key",
            ["SOP §11.10", "SOP-91"],
            ["open", "KeyMismatch"],
            "the bytes are those of their id, and the key is another object's",
            other_key.bytes.to_vec(),
        ),
    ]
}

/// Structures that announce or nest more than they hold.
fn bombs() -> Vec<Case> {
    const RULE: [&str; 2] = ["SOP §11.10", "SOP-90"];
    let under = |footer: &[u8]| {
        let mut forge = Forge::new();
        forge.bytes.extend_from_slice(&[0; 64]);
        forge.end(DUCKDB_HEADER, footer)
    };
    let node = |children: i32| {
        let mut node = Struct::default();
        node.set(3, Value::I32(1));
        node.set(4, Value::Binary(b"n".to_vec().into()));
        node.set(5, Value::I32(children));
        node
    };
    let schema = |nodes: Vec<Struct<'static>>| {
        let mut footer = Struct::default();
        footer.set(1, Value::I32(1));
        footer.set(2, Value::List(List::of_structs(nodes)));
        footer.encode()
    };
    let mut chunks = Struct::default();
    let mut group = Struct::default();
    group.set(1, Value::List(List::of_structs((0..1_000).map(|_| Struct::default()))));
    chunks.set(4, Value::List(List::of_structs([group])));
    let repeated = |byte: u8| vec![byte; 400];
    vec![
        reject(
            "bomb_key_metadata",
            RULE,
            ["open", "CryptoMetadata"],
            "key_metadata of four gigabytes in a header of ten bytes",
            with_header(&good(), &[0x1c, 0x1c, 0, 0, 0x18, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        ),
        reject(
            "bomb_header_nesting",
            RULE,
            ["open", "CryptoMetadata"],
            "a header of structures without end",
            with_header(&good(), &[&[0x9c][..], &repeated(0x1c)].concat()),
        ),
        reject(
            "bomb_schema_list",
            RULE,
            ["open", "Footer"],
            "a schema of 2^31 nodes in seven bytes",
            under(&[0x29, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x08, 0]),
        ),
        reject(
            "bomb_row_group_list",
            RULE,
            ["open", "Footer"],
            "2^63 row groups in a few bytes",
            under(&[0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0]),
        ),
        reject(
            "bomb_key_values",
            RULE,
            ["open", "Footer"],
            "2^31 key-value entries in seven bytes",
            under(&[0x59, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x08, 0]),
        ),
        reject(
            "bomb_binary",
            RULE,
            ["open", "Footer"],
            "a text of four gigabytes in a footer of seven bytes",
            under(&[0x68, 0xff, 0xff, 0xff, 0xff, 0x0f, 0]),
        ),
        reject(
            "bomb_map",
            RULE,
            ["open", "Footer"],
            "a map of 2^40 entries in a field nobody knows",
            under(&[0xfb, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0xcc, 0]),
        ),
        reject(
            "bomb_nested_structs",
            RULE,
            ["open", "Footer"],
            "four hundred structures, each in the one before",
            under(&repeated(0x1c)),
        ),
        reject(
            "bomb_nested_lists",
            RULE,
            ["open", "Footer"],
            "four hundred lists, each in the one before",
            under(&repeated(0x19)),
        ),
        reject(
            "bomb_endless_varint",
            RULE,
            ["open", "Footer"],
            "a number that does not end",
            under(&[&[0x15][..], &repeated(0xff)].concat()),
        ),
        reject(
            "bomb_nested_schema",
            RULE,
            ["open", "Schema"],
            "a hundred columns, each in the one before; libraries build the tree by recursion",
            under(&schema((0..100).map(|_| node(1)).collect())),
        ),
        reject(
            "bomb_children",
            RULE,
            ["open", "Schema"],
            "a root that says it has 2^31 - 1 children and has none",
            under(&schema(vec![node(i32::MAX)])),
        ),
        reject(
            "bomb_column_chunks",
            RULE,
            ["open", "Inconsistent"],
            "a thousand column chunks of one byte each, in an object without room for them",
            under(&chunks.encode()),
        ),
    ]
}

/// Footers that lie.
fn footers() -> Vec<Case> {
    const RANGE: [&str; 2] = ["SOP §11.10", "SOP-90"];
    const OUTSIDE: [&str; 2] = ["open", "ChunkRange"];
    let twins = || twins(0);
    let set = |index: usize, id: i16, value: i64| {
        with_footer(&twins(), plain(), |footer| {
            columns(footer)[index].struct_mut(3).unwrap().set(id, Value::I64(value));
        })
    };
    let rows = |rows: i64| {
        with_footer(&twins(), plain(), |footer| {
            footer.set(3, Value::I64(rows));
            footer.structs_mut(4).for_each(|group| group.set(3, Value::I64(rows)));
            for chunk in columns(footer) {
                chunk.struct_mut(3).unwrap().set(5, Value::I64(rows));
            }
        })
    };
    let chunk = |change: fn(&mut Struct<'static>)| with_footer(&twins(), plain(), |footer| change(columns(footer)[0]));
    let list = sample(5).project(&[9]).unwrap();
    vec![
        reject(
            "field_id_twice",
            ["SOP §11.2", "SOP-18"],
            ["open", "DuplicateFieldId"],
            "two columns have one field id",
            with_footer(&twins(), plain(), |footer| {
                footer.structs_mut(2).nth(1).unwrap().set(9, Value::I32(2));
            }),
        ),
        reject(
            "field_id_twice_in_a_list",
            ["SOP §11.2", "SOP-18"],
            ["open", "DuplicateFieldId"],
            "a list's element has the id of the list",
            with_footer(&list, plain(), |footer| {
                footer.structs_mut(2).nth(3).unwrap().set(9, Value::I32(20));
            }),
        ),
        reject(
            "one_column_without_marker",
            ["SOP §11.2", "SOP-8"],
            ["open", "MixedEncryption"],
            "one of two columns is not marked as encrypted",
            chunk(|chunk| chunk.remove(&[8])),
        ),
        reject(
            "column_with_a_key_of_its_own",
            ["SOP §11.2", "SOP-10"],
            ["open", "ColumnKey"],
            "a column is marked as under a key of its own",
            chunk(|chunk| {
                let mut marker = Struct::default();
                marker.set(2, Value::Struct(Struct::default()));
                chunk.set(8, Value::Struct(marker));
            }),
        ),
        reject(
            "column_with_sealed_metadata",
            ["SOP §11.2", "SOP-10"],
            ["open", "ColumnKey"],
            "a column's metadata is sealed on its own",
            chunk(|chunk| chunk.set(9, Value::Binary(b"sealed".to_vec().into()))),
        ),
        reject(
            "column_in_another_file",
            ["SOP §11.5", "SOP-25"],
            ["open", "ExternalColumn"],
            "a column is said to lie in another file",
            chunk(|chunk| chunk.set(1, Value::Binary(b"elsewhere".to_vec().into()))),
        ),
        reject(
            "chunk_behind_the_body",
            RANGE,
            OUTSIDE,
            "a column chunk starts a terabyte behind the object",
            set(0, 9, 1 << 40),
        ),
        reject(
            "chunk_over_the_magic",
            RANGE,
            OUTSIDE,
            "a column chunk starts inside the leading magic",
            set(0, 9, 3),
        ),
        reject(
            "chunk_of_negative_length",
            RANGE,
            OUTSIDE,
            "a column chunk has a negative length",
            set(0, 7, -5),
        ),
        reject(
            "chunk_to_the_sky",
            RANGE,
            OUTSIDE,
            "a column chunk's end does not fit 64 bits",
            set(0, 7, i64::MAX),
        ),
        reject(
            "chunks_that_overlap",
            RANGE,
            OUTSIDE,
            "two column chunks claim the same bytes",
            set(1, 9, 4),
        ),
        reject(
            "rows_that_do_not_add_up",
            ["SOP §11.10", "SOP-103"],
            ["open", "Inconsistent"],
            "the file says five rows, its row group four",
            with_footer(&twins(), plain(), |footer| footer.set(3, Value::I64(5))),
        ),
        reject(
            "rows_below_zero",
            ["SOP §11.10", "SOP-103"],
            ["open", "Inconsistent"],
            "a negative count of rows, everywhere",
            rows(-4),
        ),
        reject(
            "rows_2_to_the_31",
            ["SOP §11.10", "SOP-103"],
            ["read", "Page"],
            "2^31 rows, said everywhere in the footer, over pages of four",
            rows(1 << 31),
        ),
        reject(
            "rows_2_to_the_62",
            ["SOP §11.10", "SOP-103"],
            ["read", "Page"],
            "2^62 rows, said everywhere in the footer, over pages of four",
            rows(1 << 62),
        ),
        reject(
            "rows_of_a_list_2_to_the_31",
            ["SOP §11.10", "SOP-103"],
            ["read", "RowCount"],
            "a list's values do not give its rows away; the pages do",
            with_footer(&list, plain(), |footer| {
                footer.set(3, Value::I64(1 << 31));
                footer
                    .structs_mut(4)
                    .for_each(|group| group.set(3, Value::I64(1 << 31)));
            }),
        ),
    ]
}

/// Lengths of the footer module.
fn footer_modules() -> Vec<Case> {
    const RULE: [&str; 2] = ["SOP §11.10", "SOP-374"];
    const LENGTH: [&str; 2] = ["open", "ModuleLength"];
    let good = good();
    let at = footer_from(&good) + 23;
    let framed = good.len() - 8 - at - 4;
    let with = |length: usize| {
        let mut bytes = good.clone();
        bytes[at..at + 4].copy_from_slice(&(length as u32).to_le_bytes());
        bytes
    };
    vec![
        reject(
            "footer_module_of_no_length",
            RULE,
            LENGTH,
            "a module of zero bytes",
            with(0),
        ),
        reject(
            "footer_module_of_27",
            RULE,
            LENGTH,
            "27 bytes have no room for nonce and tag",
            with(27),
        ),
        reject(
            "footer_module_one_too_long",
            RULE,
            LENGTH,
            "the module reaches into the tail",
            with(framed + 1),
        ),
        reject(
            "footer_module_beyond_the_file",
            RULE,
            LENGTH,
            "the module reaches beyond the object",
            with(u32::MAX as usize),
        ),
        reject(
            "footer_module_of_28",
            RULE,
            ["open", "KeyMismatch"],
            "28 bytes are an empty module, whose tag is not there",
            with(28),
        ),
    ]
}

/// Pages that no SOP-PME-1 object has, each sealed with the right key.
fn pages() -> Vec<Case> {
    const PAGE: [&str; 2] = ["read", "Page"];
    let changed = |change: fn(&mut Struct<'_>)| {
        Parts::of_ours(&twins(0), plain()).seal_with(|forge, chunk, page| match chunk {
            0 => forge.page(&page.with_header(change)),
            _ => forge.page(page),
        })
    };
    let version_2 = Parts::of_foreign(&twins(0), |properties| {
        properties.set_writer_version(WriterVersion::PARQUET_2_0)
    });
    let repeating = || {
        let text = StringArray::from_iter_values((0..400).map(|i| if i % 2 == 0 { "even" } else { "odd" }));
        let schema = Arc::new(Schema::new(vec![field("text", DataType::Utf8, 1)]));
        Parts::of_ours(&RecordBatch::try_new(schema, vec![Arc::new(text)]).unwrap(), plain())
    };
    assert_eq!(repeating().chunks[0].len(), 2);
    let mut two_dictionaries = repeating();
    let again = two_dictionaries.chunks[0][0].clone();
    two_dictionaries.chunks[0].push(again);
    let mut no_data = repeating();
    no_data.chunks[0].pop();
    let clear_column = |marked: bool| {
        let mut parts = Parts::of_ours(&twins(0), plain());
        if marked {
            let mut marker = Struct::default();
            marker.set(1, Value::Struct(Struct::default()));
            for chunk in columns(&mut parts.footer) {
                chunk.set(8, Value::Struct(marker.clone()));
            }
        }
        parts.seal_with(|forge, chunk, page| match chunk {
            0 => [&page.header, &page.body]
                .into_iter()
                .for_each(|plain| forge.bytes.extend_from_slice(plain)),
            _ => forge.page(page),
        })
    };
    vec![
        reject(
            "page_of_version_2",
            ["SOP §11.2", "SOP-23"],
            ["read", "PageVersion"],
            "data pages are version 1 pages; not every conforming reader opens others",
            version_2.seal(),
        ),
        reject(
            "column_in_clear",
            ["SOP §11.2", "SOP-8"],
            ["open", "Inconsistent"],
            "one column's pages stand in clear, and no column is marked",
            clear_column(false),
        ),
        reject(
            "column_in_clear_that_says_otherwise",
            ["SOP §11.2", "SOP-8"],
            ["open", "Inconsistent"],
            "one column's pages stand in clear although all are marked as encrypted",
            clear_column(true),
        ),
        reject(
            "page_size_with_frames",
            ["SOP §11.2", "SOP-370"],
            PAGE,
            "the header counts its body's frame, as the Parquet specification has it",
            changed(|header| {
                let size = header.i32(3).unwrap();
                header.set(3, Value::I32(size + 32));
            }),
        ),
        reject(
            "page_size_below_zero",
            ["SOP §11.10", "SOP-90"],
            PAGE,
            "a page of negative size",
            changed(|header| header.set(3, Value::I32(-1))),
        ),
        reject(
            "page_of_two_gigabytes",
            ["SOP §11.10", "SOP-90"],
            PAGE,
            "a page that claims to decompress to 2^31 - 1 bytes",
            changed(|header| header.set(2, Value::I32(i32::MAX))),
        ),
        reject(
            "page_of_no_known_kind",
            ["SOP §11.10", "SOP-90"],
            PAGE,
            "an index page where data should be",
            changed(|header| header.set(1, Value::I32(1))),
        ),
        reject(
            "page_of_other_values",
            ["SOP §11.10", "SOP-103"],
            PAGE,
            "a page claims 2^31 - 1 values where the footer says four",
            changed(|header| {
                let data = header.struct_mut(5).unwrap();
                data.set(1, Value::I32(i32::MAX));
            }),
        ),
        reject(
            "second_dictionary",
            ["SOP §11.10", "SOP-90"],
            PAGE,
            "a dictionary page behind the data",
            two_dictionaries.seal(),
        ),
        reject(
            "no_data_page",
            ["SOP §11.10", "SOP-103"],
            PAGE,
            "a chunk of values with a dictionary and no page of data",
            no_data.seal(),
        ),
    ]
}

/// Lengths and seals of page modules.
fn page_modules() -> Vec<Case> {
    const RULE: [&str; 2] = ["SOP §11.10", "SOP-374"];
    const LENGTH: [&str; 2] = ["read", "ModuleLength"];
    let with = |put: &dyn Fn(&mut Forge, &Page)| {
        Parts::of_ours(&twins(0), plain()).seal_with(|forge, chunk, page| match chunk {
            1 => put(forge, page),
            _ => forge.page(page),
        })
    };
    // The page's header module with another length in front.
    let of_length = |length: u32| {
        with(&move |forge, page| {
            let at = forge.bytes.len();
            forge.page(page);
            forge.bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
        })
    };
    vec![
        reject(
            "page_module_of_no_length",
            RULE,
            LENGTH,
            "a module of zero bytes",
            of_length(0),
        ),
        reject(
            "page_module_of_27",
            RULE,
            LENGTH,
            "27 bytes have no room for nonce and tag",
            of_length(27),
        ),
        reject(
            "page_module_beyond_its_chunk",
            RULE,
            LENGTH,
            "a module reaches out of its column chunk into the footer",
            of_length(400),
        ),
        reject(
            "page_module_beyond_the_file",
            RULE,
            LENGTH,
            "a module reaches beyond the object",
            of_length(u32::MAX),
        ),
        reject(
            "page_module_one_too_short",
            RULE,
            ["read", "KeyMismatch"],
            "a module's length leaves out the last byte of its tag",
            with(&|forge, page| {
                let at = forge.bytes.len();
                forge.page(page);
                forge.bytes[at] -= 1;
            }),
        ),
        reject(
            "page_header_empty",
            RULE,
            ["read", "PageHeader"],
            "a module that holds nothing where a page header should be",
            with(&|forge, page| {
                forge.module(&[]);
                forge.module(&page.body);
            }),
        ),
        reject(
            "page_body_missing",
            RULE,
            LENGTH,
            "a page header without its body at the end of a chunk",
            with(&|forge, page| {
                forge.module(&page.header);
                forge.bytes.extend_from_slice(&[0; 24]);
            }),
        ),
        reject(
            "page_with_aad",
            ["SOP §11.3", "SOP-13"],
            ["read", "KeyMismatch"],
            "one page body was sealed with an AAD, everything else without",
            with(&|forge, page| {
                forge.module(&page.header);
                forge.module_with_aad(&page.body, b"\x02\0\0\0\0\0\0");
            }),
        ),
    ]
}
