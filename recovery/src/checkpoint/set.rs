//! From the bodies of a checkpoint to a set of verified entries, or a reason why not (SOP-195, SOP-200, SOP-224).

use std::collections::{BTreeMap, BTreeSet};

use sovm_object::{
    cbor::DecodeError,
    entry::{EntryIn, VerifiedEntry, sealed},
    id::{DomainId, KekGeneration, KekId, MeshId, RecordId, SiteId},
    kek::KekRing,
    record::{DomainGenesis, KekRecord, MembershipOp, MeshGenesis, OpKind, Role},
    roster::{Right, Roster, Verdict},
    sign::Signed,
};

use super::{CheckpointBody, CheckpointRecord, domain_digest};
use crate::root::Root;

/// An entry that came out of a checkpoint. Its author is proved; acceptance is judged again at admission (SOP-226).
#[derive(Debug, Clone)]
pub struct RecoveredEntry {
    /// The entry.
    pub entry: VerifiedEntry,
    /// For entries that travel sealed: the KEK and the sealed form.
    pub sealed: Option<(KekId, Vec<u8>)>,
}

/// Why a checkpoint's records are not a domain's state. Nothing partial is given out (SOP-195).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// KEKs are missing; without them the entries cannot be read, and nothing replaces them.
    #[error("{records} entries need keys that are missing: {}", generations(.missing))]
    MissingKeks {
        /// The KEKs, with their generation where a KEK record tells it.
        missing: Vec<(KekId, Option<KekGeneration>)>,
        /// Entries that need them.
        records: usize,
    },
    /// An entry is not what the checkpoint says it is.
    #[error("entry {} in the checkpoint is broken: {why}", id.fmt_short())]
    Broken {
        /// The entry.
        id: RecordId,
        /// What is wrong.
        why: String,
    },
    /// The record whose hash is the mesh id is not there.
    #[error("the founding record of mesh {} is not in the checkpoint", .0.fmt_short())]
    NoMeshGenesis(MeshId),
    /// No founding record of the domain that an admin of the mesh signed, or not the one on the page.
    #[error("the founding record of the domain is not in the checkpoint, or is not the one the page names")]
    NoDomainGenesis,
    /// The issuer of the root had no right to issue it (SOP-224).
    #[error("the root's issuer {} was not allowed to issue it", .0.fmt_short())]
    IssuerNotAuthorized(SiteId),
    /// Whoever granted the checkpoint's key had no right to (SOP-223).
    #[error("the checkpoint's access record is by {}, who was not allowed to grant it", .0.fmt_short())]
    GranterNotAuthorized(SiteId),
    /// A KEK in the ring is not the one its record commits to (DESIGN §16.4).
    #[error("the key of generation {0} in the ring is not the one its record names")]
    WrongKek(KekGeneration),
}

fn generations(missing: &[(KekId, Option<KekGeneration>)]) -> String {
    let names = missing.iter().map(|(id, generation)| match generation {
        Some(generation) => format!("generation {generation}"),
        None => format!("KEK {}", id.fmt_short()),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// The verified entries of one or several checkpoints of a domain.
#[derive(Debug, Default)]
pub struct RecoveredSet {
    entries: BTreeMap<RecordId, RecoveredEntry>,
    unsupported: BTreeSet<RecordId>,
}

impl RecoveredSet {
    /// Opens and verifies every record. All or nothing.
    pub fn open(bodies: &[CheckpointBody], ring: &KekRing, mesh: &MeshId, domain: &DomainId) -> Result<Self, SetError> {
        let mut set = Self::default();
        let mut missing: BTreeMap<KekId, usize> = BTreeMap::new();
        for record in bodies.iter().flat_map(|body| &body.records) {
            if set.entries.contains_key(&record.id) {
                continue;
            }
            match open_record(record, ring, mesh, domain) {
                Ok(Opened::Entry(entry)) => {
                    set.entries.insert(record.id, entry);
                }
                Ok(Opened::Unsupported) => {
                    set.unsupported.insert(record.id);
                }
                Ok(Opened::MissingKek(kek_id)) => *missing.entry(kek_id).or_default() += 1,
                Err(why) => return Err(SetError::Broken { id: record.id, why }),
            }
        }
        if !missing.is_empty() {
            let known: BTreeMap<_, _> = set.keks().map(|record| (record.kek_id, record.generation)).collect();
            let records = missing.values().sum();
            let missing = missing.into_keys().map(|id| (id, known.get(&id).copied())).collect();
            return Err(SetError::MissingKeks { missing, records });
        }
        Ok(set)
    }

    /// Judges the issuer of the root by the ops in the set, and holds the ring against the KEK records.
    ///
    /// `genesis` is the domain's founding record as the page names it. Without it, the founder must at least have been an
    /// admin of the mesh, so that no ordinary former member can found the domain a second time.
    pub fn authorize(
        &self,
        root: &Root,
        ring: &KekRing,
        mesh: &MeshId,
        genesis: Option<&RecordId>,
    ) -> Result<Roster, SetError> {
        let domain = root.body().domain_id;
        let mesh_founder = self.mesh_founder().ok_or(SetError::NoMeshGenesis(*mesh))?;
        let founder = self
            .of(|entry| match entry {
                VerifiedEntry::DomainGenesis(genesis) => Some(genesis),
                _ => None,
            })
            .filter(|found: &&Signed<DomainGenesis>| found.body().domain_id == domain)
            .find(|found| match genesis {
                Some(genesis) => found.id() == *genesis,
                None => self.was_admin(mesh_founder, &found.body().founder),
            })
            .ok_or(SetError::NoDomainGenesis)?
            .body()
            .founder;
        let roster = Roster::of(founder, self.ops().filter(|op| op.body().domain == Some(domain)));
        let body = root.body();
        if roster.judge(&body.issuer, Right::Recover, body.seq, &body.ops_seen) != Verdict::Authorized {
            return Err(SetError::IssuerNotAuthorized(body.issuer));
        }
        let access = root.access().body();
        if roster.judge(&access.issuer, Right::Grant, access.seq, &access.ops_seen) != Verdict::Authorized {
            return Err(SetError::GranterNotAuthorized(access.issuer));
        }
        for record in self.keks() {
            match ring.get(&record.kek_id) {
                Some(kek) if kek.commitment() != record.commitment => {
                    return Err(SetError::WrongKek(record.generation));
                }
                _ => {}
            }
        }
        Ok(roster)
    }

    /// Unites two sets; both only grow (SOP-218).
    pub fn unite(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.unsupported.extend(other.unsupported);
    }

    /// The entries, founding records and membership first.
    pub fn into_entries(self) -> Vec<RecoveredEntry> {
        let mut entries: Vec<_> = self.entries.into_values().collect();
        entries.sort_by_key(|recovered| (recovered.entry.kind(), recovered.entry.hlc(), recovered.entry.id()));
        entries
    }

    /// Ids of all entries.
    pub fn ids(&self) -> impl Iterator<Item = RecordId> {
        self.entries.keys().copied()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries of formats newer than this build. They are not lost: peers give them to a newer build.
    pub fn unsupported(&self) -> usize {
        self.unsupported.len()
    }

    /// The domain digest of the set.
    pub fn digest(&self) -> [u8; 32] {
        domain_digest(self.ids())
    }

    fn of<'a, B: 'a>(
        &'a self,
        pick: impl Fn(&'a VerifiedEntry) -> Option<&'a Signed<B>>,
    ) -> impl Iterator<Item = &'a Signed<B>> {
        self.entries
            .values()
            .filter_map(move |recovered| pick(&recovered.entry))
    }

    fn ops(&self) -> impl Iterator<Item = &Signed<MembershipOp>> {
        self.of(|entry| match entry {
            VerifiedEntry::MembershipOp(op) => Some(op),
            _ => None,
        })
    }

    fn keks(&self) -> impl Iterator<Item = &KekRecord> {
        self.of(|entry| match entry {
            VerifiedEntry::KekRecord(record) => Some(record),
            _ => None,
        })
        .map(Signed::body)
    }

    /// Verification compared the genesis' hash with the mesh id, so there is at most one.
    fn mesh_founder(&self) -> Option<SiteId> {
        let mut found = self.of(|entry| match entry {
            VerifiedEntry::MeshGenesis(genesis) => Some(genesis),
            _ => None,
        });
        found.next().map(|genesis: &Signed<MeshGenesis>| genesis.body().founder)
    }

    fn was_admin(&self, mesh_founder: SiteId, site: &SiteId) -> bool {
        if mesh_founder == *site {
            return true;
        }
        let ops: Vec<_> = self.ops().filter(|op| op.body().domain.is_none()).collect();
        let roster = Roster::of(mesh_founder, ops.iter().copied());
        ops.iter()
            .filter(|op| roster.is_valid(&op.id()))
            .map(|op| op.body())
            .any(|op| op.site == *site && op.role == Role::Admin && op.kind != OpKind::Remove)
    }
}

enum Opened {
    Entry(RecoveredEntry),
    MissingKek(KekId),
    Unsupported,
}

fn open_record(record: &CheckpointRecord, ring: &KekRing, mesh: &MeshId, domain: &DomainId) -> Result<Opened, String> {
    let (bytes, sealed) = match record.kek_id {
        None => (record.bytes.clone(), None),
        Some(kek_id) => match sealed::open(&record.bytes, ring, mesh, domain).map_err(|e| e.to_string())? {
            None => return Ok(Opened::MissingKek(kek_id)),
            Some((found, _)) if found != kek_id => return Err("it is sealed under another key than it says".into()),
            Some((_, bytes)) => (bytes, Some((kek_id, record.bytes.clone()))),
        },
    };
    let entry = match EntryIn::decode(&bytes) {
        Ok(entry) => entry,
        Err(DecodeError::UnknownContentType | DecodeError::NewerVersion(_)) => return Ok(Opened::Unsupported),
        Err(error) => return Err(error.to_string()),
    };
    if entry.kind().is_sealed() != sealed.is_some() {
        return Err("it is sealed where it must be open, or open where it must be sealed".into());
    }
    let entry = entry.verify(mesh).map_err(|e| e.to_string())?;
    if entry.id() != record.id {
        return Err("it has another id".into());
    }
    if entry.domain().is_some_and(|found| found != *domain) {
        return Err("it belongs to another domain".into());
    }
    Ok(Opened::Entry(RecoveredEntry { entry, sealed }))
}
