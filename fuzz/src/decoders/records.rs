//! Signed payloads, their envelopes, their sealed form, and the keys inside statistics.

use sovm_object::{
    bundle::Bundle,
    entry::{self, EntryIn},
    id::{DomainId, KekId, MeshId},
    kek::KekRing,
    key,
    record::{
        AccessRecord, CommitRecord, DomainGenesis, HeadClaim, InventoryVersion, KekRecord, KitRecord, ManifestOutline,
        MembershipOp, MeshGenesis, MeshName, NodeBinding, ObjectManifest, PrefetchList, RecoveryRootBody, Registration,
        RejoinOffer, RootAnnouncement, TableGenesis, TableOp,
    },
    seal0::SealedIn,
    secret::Kek,
    sign::Body,
    stats::{Comparison, MAX_STATISTICS, Predicate, may_match, may_match_time},
    types::{ColumnType, columns_of_defs, schema_of_columns},
};

use super::wrap::payload;

/// Types whose values stand in keys.
fn key_types() -> impl Iterator<Item = ColumnType> {
    use ColumnType as T;
    [
        T::Bool,
        T::Int8,
        T::Int64,
        T::UInt16,
        T::UInt64,
        T::Float32,
        T::Float64,
        T::Decimal { precision: 5, scale: 2 },
        T::Decimal {
            precision: 38,
            scale: 0,
        },
        T::Text,
        T::Bytes,
        T::Date,
        T::TimeUs,
        T::TimestampUs,
        T::Uuid,
        T::List,
    ]
    .into_iter()
}

/// A bundle's content: whatever decodes has one encoding.
pub(super) fn bundle(bytes: &[u8]) {
    let content = bytes::Bytes::copy_from_slice(bytes);
    if let Ok(bundle) = Bundle::decode(&content) {
        assert_eq!(bundle.encode(), content);
        assert_eq!(bundle.iter().count(), bundle.len());
    }
}

/// A manifest's payload: its bounds decode or are refused, and pruning takes any of them.
pub(super) fn manifest(bytes: &[u8]) {
    let Some(manifest) = payload::<ObjectManifest>(bytes) else {
        return;
    };
    let statistics = manifest.pruning_statistics.unwrap_or_default();
    assert!(statistics.len() <= MAX_STATISTICS);
    for column in &statistics {
        for bound in [&column.min, &column.max].into_iter().flatten() {
            key_types().for_each(|ty| drop(key::decode_bound(ty, bound)));
            for comparison in [Comparison::Eq, Comparison::NotEq, Comparison::Lt, Comparison::GtEq] {
                let _ = may_match(Some(column), manifest.row_count, Predicate::Compare(comparison, bound));
            }
        }
        let _ = may_match(Some(column), manifest.row_count, Predicate::IsNull);
    }
    if let Some(range) = manifest.time_range {
        assert!(
            may_match_time(Some(&range), Comparison::Eq, range.min),
            "the range holds its ends"
        );
        assert!(may_match_time(Some(&range), Comparison::Eq, range.max));
    }
}

/// An access record's payload, and the key it claims to wrap.
pub(super) fn access(bytes: &[u8]) {
    if let Some(record) = payload::<AccessRecord>(bytes)
        && let Ok(dek) = record.unwrap(&Kek::from_bytes([9; 32]))
    {
        assert_eq!(
            dek.commitment(),
            record.dek_commitment,
            "only the committed key comes out"
        );
    }
}

/// The first byte says which format; the rest is a payload of it.
pub(super) fn record(bytes: &[u8]) {
    let Some((&kind, bytes)) = bytes.split_first() else {
        return;
    };
    match kind % 20 {
        0 => check::<RecoveryRootBody>(bytes),
        1 => check::<MeshGenesis>(bytes),
        2 => check::<MeshName>(bytes),
        3 => check::<NodeBinding>(bytes),
        4 => check::<MembershipOp>(bytes),
        5 => check::<DomainGenesis>(bytes),
        6 => check::<CommitRecord>(bytes),
        7 => check::<HeadClaim>(bytes),
        8 => check::<RejoinOffer>(bytes),
        9 => check::<KekRecord>(bytes),
        10 => check::<KitRecord>(bytes),
        11 => check::<RootAnnouncement>(bytes),
        12 => table(bytes),
        13 => check::<ObjectManifest>(bytes),
        14 => check::<AccessRecord>(bytes),
        16 => check::<ManifestOutline>(bytes),
        17 => check::<InventoryVersion>(bytes),
        18 => check::<PrefetchList>(bytes),
        19 => check::<Registration>(bytes),
        _ => check::<TableOp>(bytes),
    }
}

fn check<T: Body>(bytes: &[u8]) {
    let _ = payload::<T>(bytes);
}

/// Columns of a table that decodes become a schema or are refused.
fn table(bytes: &[u8]) {
    let Some(table) = payload::<TableGenesis>(bytes) else {
        return;
    };
    let _ = table.schema_fingerprint();
    if let Ok(columns) = columns_of_defs(&table.columns) {
        let back: Vec<_> = columns.iter().map(sovm_object::types::Column::to_def).collect();
        assert!(
            back.iter().zip(&table.columns).all(|(a, b)| fields(a) == fields(b)),
            "columns keep what was signed"
        );
        let _ = schema_of_columns(&columns);
    }
}

/// All of a column but its type, whose name has a short and a spaced form.
fn fields(column: &sovm_object::record::ColumnDef) -> (i32, &str, bool, Option<i32>) {
    (column.field_id, &column.name, column.nullable, column.parent)
}

/// Any entry in its envelope.
pub(super) fn entry(bytes: &[u8]) {
    let Ok(entry) = EntryIn::decode(bytes) else { return };
    let (kind, mesh) = (entry.kind(), MeshId::from_bytes([1; 32]));
    if let Ok(entry) = entry.verify(&mesh) {
        assert_eq!((entry.kind(), entry.bytes()), (kind, bytes), "exact bytes are kept");
    }
}

/// A sealed entry, and the padded inside of one.
pub(super) fn sealed(bytes: &[u8]) {
    let (mesh, domain) = (MeshId::from_bytes([1; 32]), DomainId::from_bytes([4; 32]));
    let mut ring = KekRing::default();
    ring.insert(2, KekId::from_bytes([8; 16]), Kek::from_bytes([9; 32]));
    let envelope = SealedIn::decode(bytes);
    let named = entry::sealed::kek_id_of(bytes);
    assert!(named.is_none() || envelope.is_ok());
    if let Ok(opened) = entry::sealed::open(bytes, &ring, &mesh, &domain) {
        assert!(opened.is_none_or(|(kek_id, _)| Some(kek_id) == named));
    }
    if let Some(entry) = entry::sealed::fuzz_unpad(bytes) {
        let kek_id = KekId::from_bytes([8; 16]);
        let again = entry::sealed::seal(&entry, &Kek::from_bytes([9; 32]), &kek_id, &mesh, &domain);
        assert_eq!(
            entry::sealed::open(&again, &ring, &mesh, &domain),
            Ok(Some((kek_id, entry)))
        );
    }
}

/// A bound and an identity of every type: what decodes is the one encoding of its value.
pub(super) fn key(bytes: &[u8]) {
    for ty in key_types() {
        if let Ok(value) = key::decode_bound(ty, bytes) {
            assert!(value.is_within(ty), "a bound is a value of its column");
            assert_eq!(value.to_bytes(), bytes, "a bound has one encoding");
        }
        for other in [ColumnType::Text, ColumnType::Bytes, ColumnType::Int64] {
            if let Ok(values) = key::decode_identity(&[ty, other], bytes) {
                let again: Vec<u8> = values.iter().flat_map(key::Value::to_bytes).collect();
                assert_eq!(again, bytes, "an identity has one encoding");
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(ty) = text.parse::<ColumnType>()
    {
        assert_eq!(ty.to_string().parse(), Ok(ty));
    }
}
