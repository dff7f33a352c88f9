//! Checkpoint: an encrypted object that holds a domain's entries and records (SOP §12.7, part 2.16).
//!
//! ```text
//! SOP-BLOB-1, manifest kind 6, content = CBOR
//!   {1: 1, 2: mesh_id, 3: domain_id, 4: record count, 5: parts, 6: records}
//!   part   = [storage_id, manifest hash, access record, record count, level]
//!   record = [record id, kek_id or null, bytes]
//! ```
//! An entry that travels sealed rests here sealed, under its own KEK, so that opening a checkpoint shows a newcomer nothing older
//! than its limit. Records of membership ride as their exact signed bytes under null: the object around them is
//! encrypted. Parts are named flat: the head of a checkpoint names every object that belongs to it.

use std::collections::BTreeSet;

use sovm_object::{
    blob::{self, OpenBlobError},
    cbor::{self, DecodeError, Decoder, Encoder, Nullable, Payload},
    entry::VerifiedEntry,
    id::{DomainId, KekGeneration, KekId, ManifestHash, MeshId, RecordId, StorageId},
    kek::KekRing,
    record::AccessRecord,
    sign::{Signed, SignedIn},
    verified::MemoryObject,
};

mod object;
mod set;

pub use object::{CheckpointObject, Publisher};
pub use set::{RecoveredEntry, RecoveredSet, SetError};
pub use sovm_object::domain_digest::domain_digest;

/// Most records in one part.
pub const MAX_RECORDS: usize = 50_000;
/// Most bytes of records in one part.
pub const MAX_RECORD_BYTES: usize = 64 * 1024 * 1024;
/// Parts of one level that are merged into one of the next, so that a checkpoint costs what changed.
pub const MERGE_AT: usize = 8;
/// Envelope of one record in the encoding, at most.
const RECORD_OVERHEAD: usize = 64;

/// Another object that belongs to a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRef {
    /// The object.
    pub storage_id: StorageId,
    /// Its manifest.
    pub manifest_hash: ManifestHash,
    /// Exact bytes of an access record for it.
    pub access: Vec<u8>,
    /// Records in it.
    pub record_count: u64,
    /// How often its records were merged.
    pub level: u64,
}

/// One entry as it rests in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRecord {
    id: RecordId,
    kek_id: Option<KekId>,
    bytes: Vec<u8>,
}

impl CheckpointRecord {
    /// An entry that travels sealed: its sealed form under the lowest KEK held.
    pub const fn sealed(id: RecordId, kek_id: KekId, sealed: Vec<u8>) -> Self {
        Self {
            id,
            kek_id: Some(kek_id),
            bytes: sealed,
        }
    }

    /// A record that travels as it is: genesis, membership, KEK records.
    pub fn public(entry: &VerifiedEntry) -> Self {
        Self {
            id: entry.id(),
            kek_id: None,
            bytes: entry.bytes().to_vec(),
        }
    }

    /// The record.
    pub const fn id(&self) -> RecordId {
        self.id
    }
}

/// The content of one object of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointBody {
    mesh_id: MeshId,
    domain_id: DomainId,
    parts: Vec<PartRef>,
    records: Vec<CheckpointRecord>,
}

impl CheckpointBody {
    /// Cuts records into the contents of as few objects as the limits allow, sorted by record id (SOP-201, SOP-228).
    pub fn divide(mesh_id: MeshId, domain_id: DomainId, mut records: Vec<CheckpointRecord>) -> Vec<Self> {
        records.sort_by_key(|record| record.id);
        records.dedup_by_key(|record| record.id);
        let mut bodies = vec![Self {
            mesh_id,
            domain_id,
            parts: vec![],
            records: vec![],
        }];
        let mut bytes = 0;
        for record in records {
            let size = record.bytes.len() + RECORD_OVERHEAD;
            let last = bodies.last().expect("there is always one");
            if last.records.len() == MAX_RECORDS || (bytes + size > MAX_RECORD_BYTES && !last.records.is_empty()) {
                bodies.push(Self {
                    mesh_id,
                    domain_id,
                    parts: vec![],
                    records: vec![],
                });
                bytes = 0;
            }
            bytes += size;
            bodies.last_mut().expect("there is always one").records.push(record);
        }
        bodies
    }

    /// Names the parts this one is the head of.
    pub fn with_parts(mut self, mut parts: Vec<PartRef>) -> Self {
        parts.sort_by_key(|part| part.storage_id);
        parts.dedup_by_key(|part| part.storage_id);
        self.parts = parts;
        self
    }

    /// The other objects of the checkpoint.
    pub fn parts(&self) -> &[PartRef] {
        &self.parts
    }

    /// The records in this object.
    pub fn records(&self) -> &[CheckpointRecord] {
        &self.records
    }

    /// Records here and in all parts.
    pub fn record_count(&self) -> u64 {
        self.parts.iter().fold(self.records.len() as u64, |sum, part| {
            sum.saturating_add(part.record_count)
        })
    }
}

/// The parts to merge into one now: the lowest level that has eight.
pub fn merge_due(parts: &[PartRef]) -> Option<(u64, Vec<StorageId>)> {
    let levels: BTreeSet<u64> = parts.iter().map(|part| part.level).collect();
    levels.into_iter().find_map(|level| {
        let ids: Vec<_> = parts
            .iter()
            .filter(|part| part.level == level)
            .map(|part| part.storage_id)
            .collect();
        (ids.len() >= MERGE_AT).then_some((level, ids))
    })
}

impl Payload for CheckpointBody {
    const MAX_BYTES: usize = MAX_RECORD_BYTES + 16 * 1024 * 1024;

    fn encode(&self, e: &mut Encoder) {
        e.map(6)
            .uint(1)
            .uint(1)
            .uint(2)
            .field(&self.mesh_id)
            .uint(3)
            .field(&self.domain_id);
        e.uint(4).uint(self.record_count()).uint(5).array(self.parts.len());
        for part in &self.parts {
            e.array(5)
                .field(&part.storage_id)
                .field(&part.manifest_hash)
                .bytes(&part.access);
            e.uint(part.record_count).uint(part.level);
        }
        e.uint(6).array(self.records.len());
        for record in &self.records {
            e.array(3)
                .field(&record.id)
                .field(&Nullable(record.kek_id))
                .bytes(&record.bytes);
        }
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let pairs = d.map()?;
        let key = |d: &mut Decoder<'_>, expected: u64| match d.uint()? {
            found if found == expected => Ok(()),
            _ => Err(DecodeError::Missing(expected)),
        };
        key(d, 1)?;
        match d.uint()? {
            1 if pairs == 6 => {}
            1 => return Err(DecodeError::Malformed),
            newer => return Err(DecodeError::NewerVersion(newer)),
        }
        key(d, 2)?;
        let mesh_id = d.field()?;
        key(d, 3)?;
        let domain_id = d.field()?;
        key(d, 4)?;
        let count = d.uint()?;
        key(d, 5)?;
        let mut parts = Vec::new();
        for _ in 0..d.array()? {
            d.array_of(5)?;
            parts.push(PartRef {
                storage_id: d.field()?,
                manifest_hash: d.field()?,
                access: d.field()?,
                record_count: d.uint()?,
                level: d.uint()?,
            });
        }
        key(d, 6)?;
        let mut records = Vec::new();
        for _ in 0..d.array()? {
            d.array_of(3)?;
            records.push(CheckpointRecord {
                id: d.field()?,
                kek_id: d.field::<Nullable<_>>()?.0,
                bytes: d.field()?,
            });
        }
        let body = Self {
            mesh_id,
            domain_id,
            parts,
            records,
        };
        if body.record_count() == count {
            Ok(body)
        } else {
            Err(DecodeError::OutOfRange(4))
        }
    }

    fn check(&self) -> Result<(), DecodeError> {
        if !self.records.is_sorted_by(|a, b| a.id < b.id) || self.records.len() > MAX_RECORDS {
            return Err(DecodeError::OutOfRange(6));
        }
        let sorted = self.parts.is_sorted_by(|a, b| a.storage_id < b.storage_id);
        if sorted {
            Ok(())
        } else {
            Err(DecodeError::OutOfRange(5))
        }
    }
}

/// Why a checkpoint object does not open (SOP-214, SOP-223).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Its bytes are nowhere.
    #[error("checkpoint object {} is missing", .0.fmt_short())]
    Missing(StorageId),
    /// The bytes are not those the id names.
    #[error("checkpoint object {} is damaged: its bytes do not match its id", .0.fmt_short())]
    WrongHash(StorageId),
    /// The KEK its access record names is not in the ring.
    #[error("the key of generation {0} is missing, without which the checkpoint does not open")]
    MissingKek(KekGeneration),
    /// The ring knows this KEK under another generation.
    #[error("its access record names generation {says} for a key of generation {held}")]
    WrongGeneration {
        /// What the record says.
        says: KekGeneration,
        /// What the ring says.
        held: KekGeneration,
    },
    /// The access record gives no key, or another than it commits to.
    #[error("its access record does not give its key ({0})")]
    Unwrap(sovm_object::record::UnwrapError),
    /// The access record of a part is not one for it; the text names what differs.
    #[error("the access record of part {} does not fit: {why}", part.fmt_short())]
    PartAccess {
        /// The part.
        part: StorageId,
        /// What differs.
        why: &'static str,
    },
    /// The object does not decrypt.
    #[error("it does not decrypt ({0})")]
    Blob(OpenBlobError),
    /// The content is malformed.
    #[error("its content is malformed ({0})")]
    Malformed(DecodeError),
    /// Another mesh or domain inside.
    #[error("its content belongs to another mesh or domain")]
    Foreign,
    /// A part holds another number of records than the head says.
    #[error("part {} holds {found} records where {expected} were promised", part.fmt_short())]
    PartCount {
        /// The part.
        part: StorageId,
        /// What the head says.
        expected: u64,
        /// What is there.
        found: u64,
    },
}

/// Opens one object with the grant that came with it. Neither the manifest nor anything else is needed (SOP-204, SOP-205).
pub fn open(bytes: &[u8], access: &Signed<AccessRecord>, ring: &KekRing) -> Result<CheckpointBody, CheckpointError> {
    let access = access.body();
    let id = access.storage_id;
    let kek = ring
        .get(&access.kek_id)
        .ok_or(CheckpointError::MissingKek(access.kek_generation))?;
    let held = ring.generation(&access.kek_id).unwrap_or_default();
    if held != access.kek_generation {
        return Err(CheckpointError::WrongGeneration {
            says: access.kek_generation,
            held,
        });
    }
    let object = MemoryObject::verify(id, bytes.to_vec()).map_err(|_| CheckpointError::WrongHash(id))?;
    let dek = access.unwrap(kek).map_err(CheckpointError::Unwrap)?;
    let content = blob::open(object.whole(), &dek).map_err(CheckpointError::Blob)?;
    let body: CheckpointBody = cbor::from_slice(&content).map_err(CheckpointError::Malformed)?;
    if body.mesh_id != access.mesh_id || body.domain_id != access.domain_id {
        return Err(CheckpointError::Foreign);
    }
    Ok(body)
}

/// The grant of a part, verified to be for it.
pub fn part_access(part: &PartRef, mesh: &MeshId, domain: &DomainId) -> Result<Signed<AccessRecord>, CheckpointError> {
    let wrong = |why| CheckpointError::PartAccess {
        part: part.storage_id,
        why,
    };
    let access = SignedIn::<AccessRecord>::decode(&part.access)
        .map_err(|_| wrong("it is malformed"))?
        .verify(mesh)
        .map_err(|_| wrong("its signature is wrong"))?;
    let says = access.body();
    if says.mesh_id != *mesh || says.domain_id != *domain {
        return Err(wrong("it is of another mesh or domain"));
    }
    if says.storage_id != part.storage_id {
        return Err(wrong("it is for another object"));
    }
    if says.object_manifest_hash != part.manifest_hash {
        return Err(wrong("it is for another manifest"));
    }
    Ok(access)
}

#[cfg(test)]
pub(crate) mod tests;
