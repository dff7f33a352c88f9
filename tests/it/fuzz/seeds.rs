//! The seeds of the fuzzer's corpus, from the valid samples of this test suite.
//!
//! ```text
//! cargo test -p sovm-tests -- --ignored write_the_seeds
//! ```
//! Seeds are named `seed-…` and written anew; whatever else stands in the corpus is left alone. Some samples are drawn at
//! random (encryption, group messages), so their files change with every run.

use std::{fs, path::Path, sync::Arc};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use blake3::hazmat::{HasherExt as _, Mode, merge_subtrees_non_root};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::{EnabledStatistics, WriterProperties, WriterVersion},
};
use sovm_mesh::proto::{
    mls::{self, AddMember, Change, MemoryRows, MlsKey},
    peer::{self, PeerMessage},
    sync,
};
use sovm_object::{
    blob,
    bundle::Bundle,
    cbor::{self, Encoder},
    entry::{VerifiedEntry, sealed},
    id::{ManifestHash, RecordId, SiteId, StorageId},
    key::Value,
    pme::{self, EncodeOptions},
    secret::Dek,
    thrift::Reader,
};
use sovm_recovery::{
    AgeSecret, Root,
    checkpoint::{CheckpointBody, CheckpointRecord},
    root::RootDraft,
};

use crate::{
    messages, sample,
    vectors::{DOMAIN, HLC, KEK_ID, entries, kek, mesh, site_key, ticket},
};

#[test]
#[ignore = "writes the seeds under fuzz/corpus"]
fn write_the_seeds() {
    let corpus = Path::new(super::corpus::CORPUS);
    let seeds = objects()
        .into_iter()
        .chain(records())
        .chain(peers())
        .chain(recovery())
        .chain(inputs());
    for (target, seeds) in seeds {
        let dir = corpus.join(target);
        fs::create_dir_all(&dir).unwrap();
        for old in fs::read_dir(&dir).unwrap().flatten() {
            if old.file_name().to_string_lossy().starts_with("seed-") {
                fs::remove_file(old.path()).unwrap();
            }
        }
        let total: usize = seeds.iter().map(Vec::len).sum();
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(dir.join(format!("seed-{number:02}")), seed).unwrap();
        }
        println!("{target}: {} seeds, {total} bytes", seeds.len());
        assert!(total < 16 * 1024, "seeds are small");
    }
}

type Seeds = Vec<(&'static str, Vec<Vec<u8>>)>;

/// A few rows with text, nulls and repeats.
fn small(rows: i64) -> RecordBatch {
    sample::table(vec![
        ("a", 1, Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef),
        (
            "b",
            2,
            Arc::new(StringArray::from_iter(
                (0..rows).map(|i| (i % 3 != 0).then(|| format!("x{}", i % 4))),
            )),
        ),
    ])
}

/// A plain Parquet file, without the Arrow schema in its footer unless asked for.
fn plain(rows: &RecordBatch, codec: Compression, version: WriterVersion, schema: bool) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(codec)
        .set_writer_version(version)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by("x".to_owned())
        .build();
    let options = parquet::arrow::arrow_writer::ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(!schema);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), rows.schema(), options).unwrap();
    writer.write(rows).unwrap();
    writer.into_inner().unwrap()
}

fn footer_of(file: &[u8]) -> Vec<u8> {
    let (rest, tail) = file.split_at(file.len() - 8);
    let len = u32::from_le_bytes(tail[..4].try_into().unwrap()) as usize;
    rest[rest.len() - len..].to_vec()
}

/// Page headers and bodies of a plain file, by turns.
fn modules_of(file: &[u8]) -> Vec<Vec<u8>> {
    let end = file.len() - 8 - footer_of(file).len();
    let (mut at, mut modules) = (4, Vec::new());
    while at < end {
        let header = Reader::new(&file[at..end]).whole_struct().unwrap();
        let page = pme::fuzz::page_header(header).unwrap().1;
        let body = at + header.len();
        modules.push(header.to_vec());
        at = body + page.compressed_len as usize;
        modules.push(file[body..at].to_vec());
    }
    modules
}

fn objects() -> Seeds {
    let (v1, v2) = (WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0);
    let zstd = Compression::ZSTD(ZstdLevel::try_new(1).unwrap());
    let nested = sample::rows(1..4);
    let files = vec![
        plain(&small(40), Compression::UNCOMPRESSED, v1, false),
        plain(&small(9), Compression::SNAPPY, v2, true),
        plain(&small(9), zstd, v1, false),
        plain(&small(9), Compression::LZ4_RAW, v1, false),
        plain(
            &nested.project(&[13, 14, 15]).unwrap(),
            Compression::UNCOMPRESSED,
            v1,
            false,
        ),
        plain(
            &nested.project(&[4, 5, 9, 10, 11]).unwrap(),
            Compression::UNCOMPRESSED,
            v2,
            false,
        ),
    ];
    let footers: Vec<Vec<u8>> = files.iter().map(|file| footer_of(file)).collect();
    let headers: Vec<Vec<u8>> = files
        .iter()
        .flat_map(|file| modules_of(file).into_iter().step_by(2))
        .collect();
    let crypto = [&[0x1c, 0x1c, 0, 0, 0x18, 0x10][..], &[7; 16], &[0]].concat();
    let sized = |footer: &Vec<u8>| [&2_000u16.to_le_bytes()[..], footer].concat();
    let pages = files.iter().zip(&footers).map(|(file, footer)| {
        let modules = modules_of(file);
        let mut seed = vec![modules.len() as u8];
        let lengths = modules.iter().chain([footer]);
        lengths.for_each(|piece| seed.extend_from_slice(&(piece.len() as u16).to_le_bytes()));
        seed.extend_from_slice(footer);
        seed.extend(modules.concat());
        seed
    });
    let object = sample::seal_under(&Dek::from_bytes([0x5a; 32]), 0, &small(2), EncodeOptions::default());
    let inner = |content: &[u8], zeros: usize| {
        let mut inner = vec![1];
        inner.extend_from_slice(&(content.len() as u64).to_le_bytes());
        inner.extend_from_slice(content);
        inner.resize(inner.len() + zeros, 0);
        inner
    };
    let stored = |content: &[u8]| {
        let sealed = blob::seal(content, sample::dek(), sample::KEY_REF).unwrap();
        [&[0][..], &sealed.bytes].concat()
    };
    let mut trees = vec![];
    for groups in 1..=3_usize {
        let bytes = vec![7; (groups - 1) * 16_384 + 100];
        let outboard = outboard(&bytes);
        trees.push([&(bytes.len() as u64).to_le_bytes()[..], &outboard].concat());
    }
    let small_thrift = footers.iter().take(2).chain(headers.iter().take(2)).cloned().collect();
    vec![
        ("thrift", small_thrift),
        ("footer", footers.iter().map(sized).collect()),
        ("page_header", headers.into_iter().take(8).chain([crypto]).collect()),
        ("object", vec![object.bytes.to_vec()]),
        ("pages", pages.collect()),
        ("parquet", files.clone()),
        (
            "blob",
            vec![
                stored(b""),
                stored(b"a few words"),
                inner(b"", 0),
                inner(b"a few words", 9),
                inner(b"x", 300),
            ],
        ),
        ("hash_tree", trees),
    ]
}

/// The pre-order outboard of at most three groups.
fn outboard(bytes: &[u8]) -> Vec<u8> {
    let groups: Vec<[u8; 32]> = bytes
        .chunks(16_384)
        .enumerate()
        .map(|(index, group)| {
            let mut hasher = blake3::Hasher::new();
            hasher.set_input_offset(index as u64 * 16_384).update(group);
            hasher.finalize_non_root()
        })
        .collect();
    match groups.as_slice() {
        [left, right] => [*left, *right].concat(),
        [a, b, c] => [merge_subtrees_non_root(a, b, Mode::Hash), *c, *a, *b].concat(),
        _ => Vec::new(),
    }
}

/// The bare payload of an entry, and the number of its format in the target `record`.
fn payload_of(entry: &VerifiedEntry) -> (u8, Vec<u8>) {
    use VerifiedEntry as E;
    match entry {
        E::MeshGenesis(entry) => (1, cbor::to_vec(entry.body())),
        E::MeshName(entry) => (2, cbor::to_vec(entry.body())),
        E::NodeBinding(entry) => (3, cbor::to_vec(entry.body())),
        E::MembershipOp(entry) => (4, cbor::to_vec(entry.body())),
        E::DomainGenesis(entry) => (5, cbor::to_vec(entry.body())),
        E::CommitRecord(entry) => (6, cbor::to_vec(entry.body())),
        E::HeadClaim(entry) => (7, cbor::to_vec(entry.body())),
        E::RejoinOffer(entry) => (8, cbor::to_vec(entry.body())),
        E::KekRecord(entry) => (9, cbor::to_vec(entry.body())),
        E::KitRecord(entry) => (10, cbor::to_vec(entry.body())),
        E::RootAnnouncement(entry) => (11, cbor::to_vec(entry.body())),
        E::TableGenesis(entry) => (12, cbor::to_vec(entry.body())),
        E::Manifest(entry) => (13, cbor::to_vec(entry.body())),
        E::Access(entry) => (14, cbor::to_vec(entry.body())),
        E::TableOp(entry) => (15, cbor::to_vec(entry.body())),
        E::NewerManifest(entry) => (16, cbor::to_vec(entry.body())),
        E::InventoryVersion(entry) => (17, cbor::to_vec(entry.body())),
        E::PrefetchList(entry) => (18, cbor::to_vec(entry.body())),
        E::Registration(entry) => (19, cbor::to_vec(entry.body())),
    }
}

fn records() -> Seeds {
    let entries: Vec<VerifiedEntry> = entries().into_iter().map(|(_, entry)| entry).collect();
    let bare = |kind| {
        entries
            .iter()
            .map(payload_of)
            .filter(move |(found, _)| *found == kind)
            .map(|(_, bytes)| bytes)
    };
    let numbered = |(kind, payload): (u8, Vec<u8>)| [&[kind][..], &payload].concat();
    let seal = |entry: &VerifiedEntry| sealed::seal(entry.bytes(), &kek(), &KEK_ID, &mesh(), &DOMAIN);
    let padded = |entry: &[u8], target: usize| {
        let encode = |zeros: usize| {
            let mut e = Encoder::new();
            e.array(2).bytes(entry).bytes(&vec![0; zeros]);
            e.into_vec()
        };
        (0..target)
            .rev()
            .map(encode)
            .find(|bytes| bytes.len() <= target)
            .unwrap()
    };
    let keys = [
        Value::Bool(true),
        Value::Int(-7),
        Value::UInt(9),
        Value::Decimal(-1_234),
        Value::Date(20_000),
        Value::Timestamp(1_700_000_000_000_000),
        Value::Time(3_600_000_000),
        Value::Text("a\0b".into()),
        Value::Bytes(vec![0, 255, 0]),
        Value::Uuid([7; 16]),
        Value::Float(-0.5),
    ];
    let mut key_seeds: Vec<Vec<u8>> = keys.iter().map(Value::to_bytes).collect();
    let pair = |a: &Value, b: &Value| [a.to_bytes(), b.to_bytes()].concat();
    key_seeds.push(pair(&keys[7], &keys[8]));
    key_seeds.push(pair(&keys[1], &keys[1]));
    key_seeds.push(b"decimal(38, 4)".to_vec());
    vec![
        ("manifest", bare(13).collect()),
        ("access", bare(14).collect()),
        (
            "record",
            entries
                .iter()
                .map(|entry| numbered(payload_of(entry)))
                .chain([root_body()])
                .collect(),
        ),
        ("entry", entries.iter().map(|entry| entry.bytes().to_vec()).collect()),
        (
            "sealed",
            vec![
                seal(&entries[4]),
                seal(&entries[11]),
                padded(b"an entry", 256),
                padded(entries[0].bytes(), 512),
            ],
        ),
        ("key", key_seeds),
        ("bundle", bundles()),
    ]
}

/// Nothing, one document, and what a first version brings.
fn bundles() -> Vec<Vec<u8>> {
    let mut one = Bundle::default();
    one.insert("a", vec![1]);
    let mut first = Bundle::default();
    first.insert("catalog.json", "{\"a\": 1}");
    first.insert("empty", "");
    first.insert("inventory/000000000001.json", "{}");
    [Bundle::default(), one, first].iter().map(Bundle::encode).collect()
}

/// The body of a recovery root, under its number in the target `record`.
fn root_body() -> Vec<u8> {
    [&[0][..], &cbor::to_vec(root().body())].concat()
}

fn root() -> Root {
    let entries = entries();
    let access = entries.iter().find_map(|(_, entry)| match entry {
        VerifiedEntry::Access(access) => Some(access.clone()),
        _ => None,
    });
    let draft = RootDraft {
        mesh_id: mesh(),
        domain_id: DOMAIN,
        checkpoint: StorageId::from_bytes([1; 32]),
        checkpoint_manifest: ManifestHash::from_bytes([2; 32]),
        access: access.unwrap(),
        previous: Some((StorageId::from_bytes([6; 32]), 3)),
        issued_hlc: HLC,
        seq: 11,
        ops_seen: vec![RecordId::from_bytes([5; 32])],
    };
    Root::seal(draft, &site_key(), (2, KEK_ID, &kek()))
}

fn peers() -> Seeds {
    let session = messages::session();
    let peer_messages: Vec<Vec<u8>> = messages::peers()
        .into_iter()
        .chain(session.iter().take(2).cloned().map(PeerMessage::Sync))
        .map(|message| peer::encode(&message))
        .collect();
    let some: Vec<Vec<u8>> = entries()
        .iter()
        .take(2)
        .map(|(_, entry)| entry.bytes().to_vec())
        .collect();
    let invites = messages::joiner().into_iter().chain(messages::inviter(some)).collect();
    let text = ticket().expose_as_text();
    let tickets = vec![
        text.clone().into_bytes(),
        text.to_uppercase().into_bytes(),
        cbor::to_vec(&ticket()),
    ];
    let hints = vec![
        messages::hint(1),
        cbor::to_vec(&messages::hint_body(2)),
        messages::key_bundle(),
    ];
    vec![
        ("sync", session.iter().map(sync::encode).collect()),
        ("peer", peer_messages),
        ("invite", invites),
        ("ticket", tickets),
        (
            "replica",
            messages::replica()
                .into_iter()
                .chain(messages::replica_payloads())
                .collect(),
        ),
        ("hint", hints),
        ("mls", group_messages()),
    ]
}

/// A key package, a commit and a welcome.
fn group_messages() -> Vec<Vec<u8>> {
    let (group_id, founder, joiner) = ([4; 32], SiteId::from_bytes([1; 32]), SiteId::from_bytes([2; 32]));
    let (founder_key, joiner_key) = (MlsKey::from_seed(&[1; 32]), MlsKey::from_seed(&[2; 32]));
    let (mut founder_rows, joiner_rows) = (MemoryRows::default(), MemoryRows::default());
    let create = mls::step(&founder_rows, |mls| mls.create_group(&group_id, founder, &founder_key));
    founder_rows.apply(&create.unwrap().0);
    let package = mls::step(&joiner_rows, |mls| mls.new_key_package(joiner, &joiner_key));
    let (_, key_package) = package.unwrap();
    let offer = AddMember {
        site: joiner,
        mls_key: joiner_key.public(),
        key_package: key_package.clone(),
    };
    let change = Change {
        add: vec![offer],
        remove: vec![],
    };
    let staged = mls::step(&founder_rows, |mls| mls.stage_change(&group_id, &founder_key, &change));
    let (_, staged) = staged.unwrap();
    vec![key_package, staged.commit, staged.welcome.unwrap()]
}

fn recovery() -> Seeds {
    let records = entries()
        .iter()
        .take(2)
        .map(|(_, entry)| CheckpointRecord::public(entry))
        .collect();
    let checkpoint = CheckpointBody::divide(mesh(), DOMAIN, records);
    let blob = messages::ring_blob();
    let page = messages::kit_page();
    vec![
        ("ring", vec![[&[0][..], blob.bytes()].concat()]),
        ("root", vec![root().bytes().to_vec()]),
        (
            "kit_page",
            vec![
                page.clone().into_bytes(),
                messages::kit().show_words().as_bytes().to_vec(),
                AgeSecret::from_bytes([6; 32].into()).to_text().as_bytes().to_vec(),
                messages::kit().fingerprint().to_string().into_bytes(),
                mesh().to_string().into_bytes(),
            ],
        ),
        ("checkpoint", checkpoint.iter().map(cbor::to_vec).collect()),
    ]
}

fn inputs() -> Seeds {
    let with = |options: [u8; 3], content: &str| [&options[..], content.as_bytes()].concat();
    let csv = [
        (
            [0, 0, 0],
            "a,b,c\n1,x,2020-01-01\n2,\"y, \"\"z\"\"\",NA\n3,,2021-02-03\n",
        ),
        (
            [0, b';', 1],
            "id;when;price\r\n1;2020-01-01 10:00:00;1.50\r\n2;2020-01-01T10:00:00.25Z;-20.125\r\n",
        ),
        (
            [0, b'\t', 2],
            "\u{feff}t\tu\n12:30:00\t00000000-0000-0000-0000-000000000001\n-\t\n",
        ),
        (
            [0, 0, 3],
            "f,g,h\ntrue,1e300,9223372036854775808\nfalse,nan,-1\nnull,inf,0x0\n",
        ),
        (
            [1, 0, 0],
            "a,b,i,j,k,m,n\ntrue,-128,0.5,123.45,text,2020-01-01,10:00:00\n",
        ),
        (
            [1, 0, 0],
            "o,p,q,l\n2020-01-01T00:00:00Z,2020-01-01 00:00:00,00000000-0000-0000-0000-000000000001,\\x00ff\n",
        ),
    ];
    let ndjson = [
        (
            [0, 0, 0],
            "{\"a\":1,\"b\":\"x\",\"c\":[1,2,null]}\n{\"a\":2.5,\"b\":null,\"c\":[]}\n",
        ),
        (
            [0, 0, 0],
            "{\"s\":{\"x\":true,\"y\":\"2020-01-01\"},\"t\":\"10:00:00\"}\n{\"s\":{\"x\":false}}\n\n",
        ),
        (
            [0, 0, 3],
            "{\"n\":9223372036854775808,\"m\":-1e-7,\"u\":\"\\u00e9\\ud83d\\ude00\"}\n{\"n\":\"null\"}\n",
        ),
        (
            [1, 0, 0],
            "{\"a\":true,\"b\":-128,\"e\":5,\"h\":0.5,\"j\":\"1.50\",\"k\":\"t\",\"m\":\"2020-01-01\"}\n",
        ),
    ];
    vec![
        (
            "csv",
            csv.iter().map(|(options, content)| with(*options, content)).collect(),
        ),
        (
            "ndjson",
            ndjson
                .iter()
                .map(|(options, content)| with(*options, content))
                .collect(),
        ),
    ]
}
