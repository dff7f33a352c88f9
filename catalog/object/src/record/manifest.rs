//! ObjectManifest: the producer's immutable statement of what one object is (SOP §12.2, SOP part 2.3).

use std::collections::BTreeMap;

use super::{MAX_NAME_BYTES, body, check_ops_seen, check_sorted, membership::uint_enum};
use crate::{
    cbor::{DecodeError, Decoder, Encoder, Field, Nullable},
    hlc::Hlc,
    id::{DekCommitment, KeyRef, ManifestHash, MeshId, RecordId, SchemaFingerprint, SiteId, StorageId, TableId},
    payload,
    sign::Signed,
};

/// Most pruning statistics in one manifest (SOP-135).
pub const MAX_STATISTICS: usize = 256;

/// Most leaves listed in one manifest (SOP-135).
pub const MAX_SOURCES: usize = 1_024;

/// What an object is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// Rows as first written.
    Data,
    /// Identities deleted for ever.
    Delete,
    /// Many delete objects folded into one.
    TombstoneSet,
    /// Rows of other objects, written again.
    Repack,
    /// A filter or source list too big for a manifest.
    Companion,
    /// A domain's catalogue at an instant.
    Checkpoint,
    /// A plain file.
    File,
    /// Folded events of a mutable table.
    MutableFold,
    /// Rows of a sealed edition's data file. In no table: which keys open it decides where it is seen.
    EditionFile,
}
uint_enum!(ObjectKind {
    Data = 1,
    Delete = 2,
    TombstoneSet = 3,
    Repack = 4,
    Companion = 5,
    Checkpoint = 6,
    File = 7,
    MutableFold = 8,
    EditionFile = 9,
});

/// The byte format of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Encrypted Parquet.
    Pme1,
    /// Chunked AEAD.
    Blob1,
}
uint_enum!(Profile { Pme1 = 1, Blob1 = 2 });

impl ObjectKind {
    /// The one profile each kind is written in (SOP-3).
    pub const fn profile(self) -> Profile {
        match self {
            Self::Data | Self::Delete | Self::TombstoneSet | Self::Repack | Self::MutableFold | Self::EditionFile => {
                Profile::Pme1
            }
            Self::Companion | Self::Checkpoint | Self::File => Profile::Blob1,
        }
    }

    /// Whether objects of this kind belong to a table's rows.
    const fn has_table_fields(self) -> bool {
        !matches!(
            self,
            Self::Companion | Self::Checkpoint | Self::File | Self::EditionFile
        )
    }
}

/// Bounds of one column over the rows actually written (SOP §12.4). Values are canonical key bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnStats {
    /// The column.
    pub field_id: i32,
    /// Lowest value, if any.
    pub min: Option<Vec<u8>>,
    /// Highest value, if any.
    pub max: Option<Vec<u8>>,
    /// Number of nulls.
    pub null_count: u64,
    /// Whether `min` is a value and not just a lower bound.
    pub min_exact: bool,
    /// Whether `max` is a value and not just an upper bound.
    pub max_exact: bool,
    /// Whether a NaN was seen, which no bound covers.
    pub has_nan: bool,
}

impl Field for ColumnStats {
    fn encode(&self, e: &mut Encoder) {
        let pairs = 3 + usize::from(self.min.is_some()) + usize::from(self.max.is_some());
        e.map(pairs).uint(1).field(&self.field_id);
        if let Some(min) = &self.min {
            e.uint(2).bytes(min);
        }
        if let Some(max) = &self.max {
            e.uint(3).bytes(max);
        }
        let flags = u64::from(self.min_exact) | u64::from(self.max_exact) << 1 | u64::from(self.has_nan) << 2;
        e.uint(4).uint(self.null_count).uint(5).uint(flags);
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut stats = Self {
            field_id: 0,
            min: None,
            max: None,
            null_count: 0,
            min_exact: false,
            max_exact: false,
            has_nan: false,
        };
        for _ in 0..d.map()? {
            match d.uint()? {
                1 => stats.field_id = d.field()?,
                2 => stats.min = Some(d.field()?),
                3 => stats.max = Some(d.field()?),
                4 => stats.null_count = d.uint()?,
                5 => {
                    let flags = d.uint()?;
                    if flags > 7 {
                        return Err(DecodeError::OutOfRange(14));
                    }
                    (stats.min_exact, stats.max_exact, stats.has_nan) =
                        (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
                }
                unknown => return Err(DecodeError::Unknown(unknown)),
            }
        }
        Ok(stats)
    }
}

/// First and last instant of the table's time column, microseconds UTC, both inclusive (SOP-184).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// First instant.
    pub min: i64,
    /// Last instant.
    pub max: i64,
    /// Whether rows without a time are in the object.
    pub has_null_time: bool,
}

impl Field for TimeRange {
    fn encode(&self, e: &mut Encoder) {
        e.array(3).int(self.min).int(self.max).bool(self.has_null_time);
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.array_of(3)?;
        Ok(Self {
            min: d.int()?,
            max: d.int()?,
            has_null_time: d.bool()?,
        })
    }
}

/// Partition column to value in Delta Lake's string convention; null as null (SOP-127).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionValues(pub BTreeMap<String, Option<String>>);

impl Field for PartitionValues {
    fn encode(&self, e: &mut Encoder) {
        // Deterministic order is that of the encoded keys: shorter texts first, then by bytes.
        let mut pairs: Vec<_> = self.0.iter().collect();
        pairs.sort_by_key(|(name, _)| (name.len(), name.as_bytes()));
        e.map(pairs.len());
        for (name, value) in pairs {
            e.text(name).field(&Nullable(value.clone()));
        }
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut values = BTreeMap::new();
        for _ in 0..d.map()? {
            values.insert(d.field()?, d.field::<Nullable<String>>()?.0);
        }
        Ok(Self(values))
    }
}

/// One leaf of a repack: `[storage id, kept, dropped, digest of the kept rows]`; for tombstone sets only the id counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLeaf {
    /// The object the rows were first written in.
    pub storage_id: StorageId,
    /// Rows kept.
    pub kept: u64,
    /// Rows dropped as deleted.
    pub dropped: u64,
    /// Digest of the kept rows.
    pub kept_digest: [u8; 32],
}

impl Field for SourceLeaf {
    fn encode(&self, e: &mut Encoder) {
        e.array(4)
            .field(&self.storage_id)
            .uint(self.kept)
            .uint(self.dropped)
            .field(&self.kept_digest);
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.array_of(4)?;
        Ok(Self {
            storage_id: d.field()?,
            kept: d.uint()?,
            dropped: d.uint()?,
            kept_digest: d.field()?,
        })
    }
}

payload! {
    /// What one object is. Nothing that changes with keys, entitlement or domain is in it (SOP-126).
    pub struct ObjectManifest {
        /// The mesh.
        2 mesh_id: MeshId,
        /// What it is for.
        3 kind: ObjectKind,
        /// The object.
        4 storage_id: StorageId,
        /// Schema name of its table.
        5 table_schema: Option<String>,
        /// Table name.
        6 table_name: Option<String>,
        /// Version of the table's columns.
        7 schema_fingerprint: Option<SchemaFingerprint>,
        /// Who wrote it.
        8 producer: SiteId,
        /// The producer's MLS epoch; audit only (SOP-132).
        9 producer_mls_epoch: u64,
        /// When it was written; orders nothing (SOP-133).
        10 created_hlc: Hlc,
        /// Rows in it.
        11 row_count: u64,
        /// Length before padding.
        12 exact_byte_size: u64,
        /// Partition column values.
        13 partition_values: Option<PartitionValues>,
        /// Bounds of pruning columns, by field id.
        14 pruning_statistics: Option<Vec<ColumnStats>>,
        /// Its opaque clear label; audit only.
        15 key_ref: KeyRef,
        /// Direct inputs of a repack, set or checkpoint.
        16 supersedes: Vec<StorageId>,
        /// Filter over its row identities.
        17 row_id_filter: Option<Vec<u8>>,
        /// Range of the time column.
        18 time_range: Option<TimeRange>,
        /// Commits to its DEK.
        19 dek_commitment: DekCommitment,
        /// The producer's counter.
        20 seq: u64,
        /// Heads of the membership ops the producer had seen.
        21 ops_seen: Vec<RecordId>,
        /// Filter over deleted identities.
        22 delete_id_filter: Option<Vec<u8>>,
        /// Lowest and highest deleted identity.
        23 delete_key_bounds: Option<Vec<Vec<u8>>>,
        /// Leaves of a repack or tombstone set.
        24 sources: Option<Vec<SourceLeaf>>,
        /// Tombstone objects a repack applied.
        25 tombstone_refs: Option<Vec<StorageId>>,
        /// Its byte format.
        26 profile: Profile,
        /// Keyed digest of its rows.
        27 row_set_digest: Option<[u8; 32]>,
        /// Its table.
        28 table_id: Option<TableId>,
        /// A manifest whose author lost the right, adopted by this one.
        29 adopts: Option<ManifestHash>,
    }
    check check_manifest;
}
body!(ObjectManifest, "sovm/object-manifest-v1", author: producer, domain: |_| None,
    tail: 2, |b, e| { e.field(&b.kind).bytes(b.storage_id.as_bytes()); });

fn check_manifest(m: &ObjectManifest) -> Result<(), DecodeError> {
    let out = |field| Err(DecodeError::OutOfRange(field));
    check_ops_seen(21, &m.ops_seen)?;
    check_sorted(16, &m.supersedes)?;
    if m.profile != m.kind.profile() {
        return out(26);
    }
    // SOP-55: the hash of nothing names no object.
    if m.storage_id.as_bytes() == blake3::hash(&[]).as_bytes() {
        return out(4);
    }
    let rows = m.kind.has_table_fields();
    let presence = [
        (5, m.table_schema.is_some(), rows),
        (6, m.table_name.is_some(), rows),
        (7, m.schema_fingerprint.is_some(), rows),
        (13, m.partition_values.is_some(), rows),
        (14, m.pruning_statistics.is_some(), rows),
        (
            22,
            m.delete_id_filter.is_some(),
            matches!(m.kind, ObjectKind::Delete | ObjectKind::TombstoneSet),
        ),
        (
            24,
            m.sources.is_some(),
            matches!(m.kind, ObjectKind::TombstoneSet | ObjectKind::Repack),
        ),
        (25, m.tombstone_refs.is_some(), m.kind == ObjectKind::Repack),
        (
            27,
            m.row_set_digest.is_some(),
            matches!(m.kind, ObjectKind::Data | ObjectKind::Repack),
        ),
        (28, m.table_id.is_some(), rows || m.kind == ObjectKind::Companion),
    ];
    for (field, present, wanted) in presence {
        if present != wanted {
            return if wanted {
                Err(DecodeError::Missing(field))
            } else {
                out(field)
            };
        }
    }
    if m.time_range.is_some_and(|t| !rows || t.min > t.max) {
        return out(18);
    }
    let may_be_empty = !matches!(m.kind, ObjectKind::Data | ObjectKind::Delete | ObjectKind::TombstoneSet);
    if m.row_count == 0 && !may_be_empty {
        return out(11);
    }
    // SOP-189: data never replaces data.
    let may_supersede = matches!(
        m.kind,
        ObjectKind::TombstoneSet | ObjectKind::Repack | ObjectKind::Checkpoint
    );
    if !m.supersedes.is_empty() && !may_supersede {
        return out(16);
    }
    for (field, name) in [(5, &m.table_schema), (6, &m.table_name)] {
        if name
            .as_ref()
            .is_some_and(|name| name.is_empty() || name.len() > MAX_NAME_BYTES)
        {
            return out(field);
        }
    }
    if let Some(statistics) = &m.pruning_statistics {
        let sorted = statistics.is_sorted_by(|a, b| a.field_id < b.field_id);
        if statistics.len() > MAX_STATISTICS || !sorted {
            return out(14);
        }
    }
    if m.sources.as_ref().is_some_and(|sources| sources.len() > MAX_SOURCES) {
        return out(24);
    }
    Ok(())
}

impl Signed<ObjectManifest> {
    /// BLAKE3 of the exact signed bytes, as access records bind it (SOP-141).
    pub fn manifest_hash(&self) -> ManifestHash {
        ManifestHash::from_bytes(*self.id().as_bytes())
    }
}

#[cfg(test)]
pub(crate) mod tests;
