//! The form of a manifest: which fields there must be, may be and must not be, and what its signature binds.

use coset::{CoseSign1, TaggedCborSerializable as _};
use proptest::prelude::*;

use super::*;
use crate::{
    cbor::{MAX_PAYLOAD_BYTES, Payload as _, from_slice, to_vec},
    secret::SiteKey,
    sign::{Body as _, SignedIn, VerifyError},
};

fn key(n: u8) -> SiteKey {
    SiteKey::from_seed(&[n; 32])
}

const MESH: MeshId = MeshId::from_bytes([7; 32]);

fn statistics(field_id: i32) -> ColumnStats {
    ColumnStats {
        field_id,
        min: Some(vec![1]),
        max: Some(vec![2]),
        null_count: 3,
        min_exact: true,
        max_exact: false,
        has_nan: false,
    }
}

/// A manifest of a kind that belongs to a table, with every field the kind must have.
pub(crate) fn manifest_of(kind: ObjectKind) -> ObjectManifest {
    let deletes = matches!(kind, ObjectKind::Delete | ObjectKind::TombstoneSet);
    let sources = matches!(kind, ObjectKind::TombstoneSet | ObjectKind::Repack);
    let rows = matches!(kind, ObjectKind::Data | ObjectKind::Repack);
    ObjectManifest {
        mesh_id: MESH,
        kind,
        storage_id: StorageId::from_bytes([1; 32]),
        table_schema: Some("main".into()),
        table_name: Some("weather".into()),
        schema_fingerprint: Some(SchemaFingerprint::from_bytes([2; 32])),
        producer: key(1).site_id(),
        producer_mls_epoch: 4,
        created_hlc: Hlc::new(5, 0),
        row_count: 6,
        exact_byte_size: 7,
        partition_values: Some(PartitionValues([("city".to_owned(), None)].into())),
        pruning_statistics: Some(vec![statistics(1), statistics(2)]),
        key_ref: KeyRef::from_bytes([8; 16]),
        supersedes: vec![],
        row_id_filter: None,
        time_range: Some(TimeRange {
            min: 1,
            max: 2,
            has_null_time: false,
        }),
        dek_commitment: DekCommitment::from_bytes([9; 32]),
        seq: 10,
        ops_seen: vec![],
        delete_id_filter: deletes.then(|| vec![1]),
        delete_key_bounds: deletes.then(|| vec![vec![1], vec![2]]),
        sources: sources.then(Vec::new),
        tombstone_refs: (kind == ObjectKind::Repack).then(Vec::new),
        profile: kind.profile(),
        row_set_digest: rows.then_some([11; 32]),
        table_id: Some(TableId::from_bytes([12; 16])),
        adopts: None,
    }
}

/// The manifest of an edition's data file, which no table has a part in.
fn edition_file() -> ObjectManifest {
    ObjectManifest {
        table_schema: None,
        table_name: None,
        schema_fingerprint: None,
        partition_values: None,
        pruning_statistics: None,
        time_range: None,
        row_set_digest: None,
        table_id: None,
        ..manifest_of(ObjectKind::EditionFile)
    }
}

/// The pairs of an encoded map, each with its key and its bytes.
fn pairs(payload: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut d = minicbor::Decoder::new(payload);
    let count = d.map().unwrap().unwrap();
    (0..count)
        .map(|_| {
            let from = d.position();
            let key = d.u64().unwrap();
            d.skip().unwrap();
            (key, payload[from..d.position()].to_vec())
        })
        .collect()
}

fn join(pairs: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut e = Encoder::new();
    e.map(pairs.len());
    let mut bytes = e.into_vec();
    pairs.iter().for_each(|(_, pair)| bytes.extend_from_slice(pair));
    bytes
}

fn decode(bytes: &[u8]) -> Result<ObjectManifest, DecodeError> {
    from_slice(bytes)
}

/// SOP-124, SOP-175: version, mesh, kind, id, names, fingerprint, producer, epoch, stamp, counts, partition values, statistics,
/// reference and the rest: whichever is dropped, the manifest is refused. The time range alone depends on the table.
#[test]
fn every_field_that_is_dropped_is_missed() {
    let whole = pairs(&to_vec(&manifest_of(ObjectKind::Data)));
    assert_eq!(decode(&join(&whole)).unwrap(), manifest_of(ObjectKind::Data));
    let keys: Vec<u64> = whole.iter().map(|(key, _)| *key).collect();
    assert_eq!(
        keys,
        [
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 26, 27, 28
        ]
    );
    for (at, key) in keys.iter().enumerate() {
        let mut rest = whole.clone();
        rest.remove(at);
        let refused = decode(&join(&rest)).err();
        assert_eq!(refused, (*key != 18).then_some(DecodeError::Missing(*key)), "{key}");
    }
}

/// SOP-125: the filter over row identities may be there or not.
#[test]
fn the_row_filter_is_optional() {
    for row_id_filter in [None, Some(vec![1, 2, 3])] {
        let manifest = ObjectManifest {
            row_id_filter,
            ..manifest_of(ObjectKind::Data)
        };
        assert_eq!(decode(&to_vec(&manifest)).unwrap(), manifest);
    }
}

/// SOP-126: there is no place for a domain, a KEK, an audience, a holder or a wrapped key. The 29 fields are all there are.
#[test]
fn unknown_fields_are_refused() {
    let whole = pairs(&to_vec(&manifest_of(ObjectKind::Data)));
    for key in [0, 30, 31, 64, 1_000] {
        let mut e = Encoder::new();
        e.uint(key).bytes(&[0x77; 32]);
        let mut more = whole.clone();
        more.push((key, e.into_vec()));
        more.sort_by_key(|(key, _)| *key);
        assert_eq!(decode(&join(&more)), Err(DecodeError::Unknown(key)));
    }
    // Everything a manifest says, by name: a new field has to be added here, and may not change when keys or domains do.
    let ObjectManifest {
        mesh_id: _,
        kind: _,
        storage_id: _,
        table_schema: _,
        table_name: _,
        schema_fingerprint: _,
        producer: _,
        producer_mls_epoch: _,
        created_hlc: _,
        row_count: _,
        exact_byte_size: _,
        partition_values: _,
        pruning_statistics: _,
        key_ref: _,
        supersedes: _,
        row_id_filter: _,
        time_range: _,
        dek_commitment: _,
        seq: _,
        ops_seen: _,
        delete_id_filter: _,
        delete_key_bounds: _,
        sources: _,
        tombstone_refs: _,
        profile: _,
        row_set_digest: _,
        table_id: _,
        adopts: _,
    } = manifest_of(ObjectKind::Data);
}

/// SOP-135: bounds of the whole, of statistics, of sources and of names, each at its border.
#[test]
fn sizes_are_bounded() {
    let data = || manifest_of(ObjectKind::Data);
    let with_statistics = |count| ObjectManifest {
        pruning_statistics: Some((0..count).map(statistics).collect()),
        ..data()
    };
    assert!(decode(&to_vec(&with_statistics(MAX_STATISTICS as i32))).is_ok());
    assert_eq!(
        decode(&to_vec(&with_statistics(MAX_STATISTICS as i32 + 1))),
        Err(DecodeError::OutOfRange(14))
    );

    let leaf = SourceLeaf {
        storage_id: StorageId::from_bytes([0; 32]),
        kept: 0,
        dropped: 0,
        kept_digest: [0; 32],
    };
    let with_sources = |count: usize| ObjectManifest {
        sources: Some(vec![leaf.clone(); count]),
        ..manifest_of(ObjectKind::Repack)
    };
    assert_eq!(with_sources(MAX_SOURCES + 1).check(), Err(DecodeError::OutOfRange(24)));
    assert_eq!(with_sources(MAX_SOURCES).check(), Ok(()));

    for (field, name) in [(5, "é".repeat(64) + "x"), (6, "é".repeat(64) + "x"), (6, String::new())] {
        let mut long = data();
        match field {
            5 => long.table_schema = Some(name),
            _ => long.table_name = Some(name),
        }
        assert_eq!(decode(&to_vec(&long)), Err(DecodeError::OutOfRange(field)));
    }
    let just = ObjectManifest {
        table_name: Some("é".repeat(64)),
        ..data()
    };
    assert!(decode(&to_vec(&just)).is_ok());

    let long = ObjectManifest {
        row_id_filter: Some(vec![0; MAX_PAYLOAD_BYTES]),
        ..data()
    };
    let bytes = to_vec(&long);
    let limit = MAX_PAYLOAD_BYTES;
    assert_eq!(
        decode(&bytes),
        Err(DecodeError::TooLong {
            len: bytes.len(),
            limit
        })
    );
    // The length is looked at first: bytes that are no CBOR at all are refused for it too.
    assert!(matches!(
        decode(&vec![0xff; limit + 1]),
        Err(DecodeError::TooLong { .. })
    ));
    let lied = [&[0xb9, 0xff, 0xff][..], &[1, 1]].concat();
    assert!(decode(&lied).is_err());
}

/// SOP-136: data, deletes and tombstone sets have rows; a repack may be empty, when all its rows were deleted.
#[test]
fn only_a_repack_may_be_empty() {
    let empty = |kind| ObjectManifest {
        row_count: 0,
        ..manifest_of(kind)
    };
    for kind in [ObjectKind::Data, ObjectKind::Delete, ObjectKind::TombstoneSet] {
        assert_eq!(
            decode(&to_vec(&empty(kind))),
            Err(DecodeError::OutOfRange(11)),
            "{kind:?}"
        );
        assert!(decode(&to_vec(&manifest_of(kind))).is_ok(), "{kind:?}");
    }
    assert!(decode(&to_vec(&empty(ObjectKind::Repack))).is_ok());
}

/// SOP-188, SOP-189: rows replace no rows. Only repacks and tombstone sets may name what they take the place of, so a correction
/// is one more object.
#[test]
fn data_supersedes_nothing() {
    let naming = |kind| ObjectManifest {
        supersedes: vec![StorageId::from_bytes([5; 32])],
        ..manifest_of(kind)
    };
    for kind in [ObjectKind::Data, ObjectKind::Delete, ObjectKind::MutableFold] {
        assert_eq!(
            decode(&to_vec(&naming(kind))),
            Err(DecodeError::OutOfRange(16)),
            "{kind:?}"
        );
    }
    for kind in [ObjectKind::Repack, ObjectKind::TombstoneSet] {
        assert!(decode(&to_vec(&naming(kind))).is_ok(), "{kind:?}");
    }
}

/// SOP-3: an edition's file is encrypted Parquet with a count of rows. Whatever else a table's objects say is refused in it by name.
#[test]
fn edition_files_are_in_no_table() {
    assert_eq!(ObjectKind::EditionFile.profile(), Profile::Pme1);
    let good = edition_file();
    assert_eq!(decode(&to_vec(&good)).unwrap(), good);
    let empty = ObjectManifest {
        row_count: 0,
        ..good.clone()
    };
    assert_eq!(decode(&to_vec(&empty)).unwrap(), empty);
    let kind = pairs(&to_vec(&good)).into_iter().find(|(key, _)| *key == 3);
    assert_eq!(kind.unwrap().1, [3, 9], "the number in the page");
    let with = |change: fn(&mut ObjectManifest)| {
        let mut manifest = edition_file();
        change(&mut manifest);
        decode(&to_vec(&manifest)).unwrap_err()
    };
    for (field, error) in [
        (5, with(|m| m.table_schema = Some("main".into()))),
        (6, with(|m| m.table_name = Some("weather".into()))),
        (
            7,
            with(|m| m.schema_fingerprint = Some(SchemaFingerprint::from_bytes([2; 32]))),
        ),
        (13, with(|m| m.partition_values = Some(PartitionValues::default()))),
        (14, with(|m| m.pruning_statistics = Some(vec![]))),
        (16, with(|m| m.supersedes = vec![StorageId::from_bytes([5; 32])])),
        (
            18,
            with(|m| {
                m.time_range = Some(TimeRange {
                    min: 1,
                    max: 2,
                    has_null_time: false,
                })
            }),
        ),
        (22, with(|m| m.delete_id_filter = Some(vec![1]))),
        (24, with(|m| m.sources = Some(vec![]))),
        (25, with(|m| m.tombstone_refs = Some(vec![]))),
        (26, with(|m| m.profile = Profile::Blob1)),
        (27, with(|m| m.row_set_digest = Some([11; 32]))),
        (28, with(|m| m.table_id = Some(TableId::from_bytes([12; 16])))),
        (
            4,
            with(|m| m.storage_id = StorageId::from_bytes(*blake3::hash(&[]).as_bytes())),
        ),
    ] {
        assert_eq!(error, DecodeError::OutOfRange(field));
    }
}

/// SOP-140: a tagged COSE_Sign1 over the deterministic payload, which the producer's key verifies and no other.
#[test]
fn the_producers_key_signs() {
    let body = manifest_of(ObjectKind::Data);
    let signed = Signed::sign(body.clone(), &key(1), &MESH);
    let envelope = CoseSign1::from_tagged_slice(signed.bytes()).unwrap();
    assert_eq!(envelope.payload.as_deref(), Some(&to_vec(&body)[..]));
    let verifies = |site: SiteId| {
        let key = ed25519_dalek::VerifyingKey::from_bytes(site.as_bytes()).unwrap();
        envelope.verify_signature(&body.context(&MESH), |signature, message| {
            let signature = ed25519_dalek::Signature::from_slice(signature).unwrap();
            key.verify_strict(message, &signature)
        })
    };
    assert!(verifies(body.producer).is_ok());
    assert!(verifies(key(2).site_id()).is_err());
    // Another producer's name over the same signature is found by its key id first, and by the signature after that.
    let claimed = ObjectManifest {
        producer: key(2).site_id(),
        ..body
    };
    let mut forged = envelope.clone();
    forged.payload = Some(to_vec(&claimed));
    let forged = SignedIn::<ObjectManifest>::decode(&forged.to_tagged_vec().unwrap()).unwrap();
    assert_eq!(forged.verify(&MESH).err(), Some(VerifyError::WrongKeyId));
}

/// SOP-141: the hash is that of the bytes as they came, and decoding keeps those.
#[test]
fn the_hash_is_over_the_received_bytes() {
    let signed = Signed::sign(manifest_of(ObjectKind::Data), &key(1), &MESH);
    let received = signed.bytes().to_vec();
    let verified = SignedIn::<ObjectManifest>::decode(&received)
        .unwrap()
        .verify(&MESH)
        .unwrap();
    assert_eq!(verified.bytes(), received);
    assert_eq!(verified.manifest_hash().as_bytes(), blake3::hash(&received).as_bytes());
}

/// SOP-150, SOP-151: the context is built from what the verifier expects, so a good signature fails under every other expectation:
/// another mesh, producer, kind, or object.
#[test]
fn the_signature_holds_in_its_context_only() {
    let body = manifest_of(ObjectKind::Data);
    let signed = Signed::sign(body.clone(), &key(1), &MESH);
    let verify = |context: Vec<u8>| {
        SignedIn::<ObjectManifest>::decode(signed.bytes())
            .unwrap()
            .verify_in(&context)
            .err()
    };
    assert_eq!(verify(body.context(&MESH)), None);
    let other_object = ObjectManifest {
        storage_id: StorageId::from_bytes([2; 32]),
        ..body.clone()
    };
    let other_kind = ObjectManifest {
        kind: ObjectKind::Repack,
        ..body.clone()
    };
    let other_producer = ObjectManifest {
        producer: key(2).site_id(),
        ..body.clone()
    };
    for context in [
        body.context(&MeshId::from_bytes([8; 32])),
        other_object.context(&MESH),
        other_kind.context(&MESH),
        other_producer.context(&MESH),
        Vec::new(),
    ] {
        assert_eq!(verify(context), Some(VerifyError::BadSignature));
    }
}

proptest! {
    /// SOP-131: whatever is accepted is encoded again to the very bytes that came.
    #[test]
    fn accepted_bytes_are_the_one_encoding(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let mut bytes = to_vec(&manifest_of(ObjectKind::Data));
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(decoded) = decode(&bytes) {
            prop_assert_eq!(to_vec(&decoded), bytes);
        }
    }
}
