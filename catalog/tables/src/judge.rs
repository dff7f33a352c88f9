//! What an entry counts for, as a pure function of the entry and of facts about the others (SOP-154, SOP-170).
//!
//! Nothing here looks at the order of arrival. Dependencies form no cycle:
//!
//! ```text
//! membership ops ─▶ domain genesis ─▶ KEK record, table genesis ─▶ table op, access record ─▶ manifest ─▶ adoption
//! ```
//!
//! An access record looks at what its manifest says, never at its state; a manifest looks at the state of its access records. A
//! table op and a manifest look at which ops are here, never at their states.

use std::{collections::BTreeSet, sync::Arc};

use sovm_object::{
    id::{DomainId, KekId, ManifestHash, RecordId, TableId},
    kek,
    record::{
        AccessRecord, DomainGenesis, KekRecord, ManifestOutline, MembershipOp, ObjectKind, ObjectManifest, TableClass,
        TableGenesis, TableOp,
    },
    roster::{Right, Roster, Verdict},
};

use crate::{
    columns::Versioned,
    state::{EntryState, RefusalReason},
    store::{StoreError, rows::Scope},
};

/// What is known about other entries.
pub(crate) trait Facts {
    /// The roster of a scope; `None` while its founding record is not accepted.
    fn roster(&self, scope: Scope) -> Result<Option<Arc<Roster>>, StoreError>;
    /// A manifest, whatever its state.
    fn manifest(&self, hash: &ManifestHash) -> Result<Known<ObjectManifest>, StoreError>;
    /// State of a known entry.
    fn state(&self, id: &RecordId) -> Result<Option<EntryState>, StoreError>;
    /// Accepted founding records of a table.
    fn tables(&self, table_id: &TableId) -> Result<Vec<TableGenesis>, StoreError>;
    /// Accepted founding records of a table, with every version of its columns.
    fn versioned(&self, table_id: &TableId) -> Result<Vec<Versioned>, StoreError>;
    /// Whether an op on a table is here with everything its author had seen.
    fn knows_op(&self, table_id: &TableId, op: &RecordId) -> Result<bool, StoreError>;
    /// All known records of a KEK, with their states.
    fn keks(&self, kek_id: &KekId) -> Result<Vec<(KekRecord, EntryState)>, StoreError>;
    /// Domains of the accepted access records for a manifest.
    fn granting_domains(&self, hash: &ManifestHash) -> Result<BTreeSet<DomainId>, StoreError>;
    /// Id of the founding record this node took for a domain.
    fn accepted_genesis(&self, domain: &DomainId) -> Result<Option<RecordId>, StoreError>;
}

/// Result of looking an entry up by an id that should name a certain kind.
pub(crate) enum Known<T> {
    Yes(Box<T>),
    /// Of this kind, in a form that only a newer build reads.
    Newer,
    OtherKind,
    No,
}

type Judged = Result<EntryState, StoreError>;

const fn refused(reason: RefusalReason) -> EntryState {
    EntryState::Refused(reason)
}

const fn of_verdict(verdict: Verdict) -> EntryState {
    match verdict {
        Verdict::Authorized => EntryState::Accepted,
        Verdict::Refused => refused(RefusalReason::Authority),
        Verdict::WaitingAuthority => EntryState::WaitingAuthority,
    }
}

/// Records whose author must have had one right in one scope (SOP §2.1).
pub(crate) fn by_right(
    facts: &impl Facts,
    scope: Scope,
    author: &sovm_object::id::SiteId,
    right: Right,
    seq: u64,
    ops_seen: &[RecordId],
) -> Judged {
    let Some(roster) = facts.roster(scope)? else {
        return Ok(EntryState::WaitingAuthority);
    };
    Ok(of_verdict(roster.judge(author, right, seq, ops_seen)))
}

/// The same for what may count in several domains: an author names the heads of each, and a domain looks at its own. A head that is not
/// known here may belong to another domain or still come, so it keeps nothing from being accepted, and a refusal waits for it.
fn by_right_here(facts: &impl Facts, domain: DomainId, manifest: &ObjectManifest, right: Right) -> Judged {
    let Some(roster) = facts.roster(Scope::Domain(domain))? else {
        return Ok(EntryState::WaitingAuthority);
    };
    let known = |op: &&RecordId| roster.knows_ancestors_of(std::slice::from_ref(*op));
    let here: Vec<RecordId> = manifest.ops_seen.iter().filter(known).copied().collect();
    Ok(match roster.judge(&manifest.producer, right, manifest.seq, &here) {
        Verdict::Refused if here.len() < manifest.ops_seen.len() => EntryState::WaitingAuthority,
        verdict => of_verdict(verdict),
    })
}

/// Records that name no ops: a site's statements about itself count once it was a member.
pub(crate) fn by_membership(facts: &impl Facts, scope: Scope, site: &sovm_object::id::SiteId) -> Judged {
    let known = facts.roster(scope)?.is_some_and(|roster| roster.was_member(site));
    Ok(if known {
        EntryState::Accepted
    } else {
        EntryState::WaitingAuthority
    })
}

/// A manifest this build cannot read is kept for members; what it says is for later builds to judge (SOP-4).
pub(crate) fn newer_manifest(facts: &impl Facts, scope: Scope, manifest: &ManifestOutline) -> Judged {
    Ok(match by_membership(facts, scope, &manifest.producer)? {
        EntryState::Accepted => EntryState::Unsupported,
        waiting => waiting,
    })
}

/// A membership op counts when the roster says so.
pub(crate) fn op(facts: &impl Facts, id: &RecordId, op: &MembershipOp) -> Judged {
    let Some(roster) = facts.roster(op.domain.into())? else {
        return Ok(EntryState::WaitingAuthority);
    };
    Ok(if roster.is_valid(id) {
        EntryState::Accepted
    } else if roster.knows_ancestors_of(&op.ops_seen) {
        refused(RefusalReason::Authority)
    } else {
        EntryState::WaitingAuthority
    })
}

/// A domain counts when its founder belongs to the mesh. A second founding record for the same domain id is refused: whoever
/// could choose between two would choose the domain's first admin.
pub(crate) fn domain(facts: &impl Facts, id: &RecordId, genesis: &DomainGenesis) -> Judged {
    match facts.accepted_genesis(&genesis.domain_id)? {
        Some(taken) if taken != *id => Ok(refused(RefusalReason::RivalGenesis)),
        _ => by_membership(facts, Scope::Mesh, &genesis.founder),
    }
}

/// A change of columns counts when its table is known, everything its author had seen of the table is here, and its author may add
/// rows: whoever may make a table may change it.
pub(crate) fn table_op(facts: &impl Facts, id: &RecordId, op: &TableOp) -> Judged {
    let tables = facts.tables(&op.table_id)?;
    if tables.is_empty() || !facts.knows_op(&op.table_id, id)? {
        return Ok(EntryState::WaitingTable);
    }
    if tables.iter().all(|table| table.domain_id != op.domain_id) {
        return Ok(refused(RefusalReason::TableDomain));
    }
    by_right(
        facts,
        Scope::Domain(op.domain_id),
        &op.issuer,
        Right::Append,
        op.seq,
        &op.ops_seen,
    )
}

/// An access record counts when it fits its manifest, its KEK and its domain, and its issuer may grant (SOP §7.5).
pub(crate) fn access(facts: &impl Facts, record: &AccessRecord) -> Judged {
    let manifest = match facts.manifest(&record.object_manifest_hash)? {
        Known::Yes(manifest) => manifest,
        Known::Newer => return Ok(EntryState::Unsupported),
        Known::OtherKind => return Ok(refused(RefusalReason::NotAManifest)),
        Known::No => return Ok(EntryState::NoManifest),
    };
    if manifest.storage_id != record.storage_id {
        return Ok(refused(RefusalReason::StorageId));
    }
    if manifest.dek_commitment != record.dek_commitment {
        return Ok(refused(RefusalReason::DekCommitment));
    }
    if let Some(table_id) = &manifest.table_id {
        let tables = facts.tables(table_id)?;
        if tables.is_empty() {
            return Ok(EntryState::WaitingTable);
        }
        if tables.iter().all(|table| table.domain_id != record.domain_id) {
            return Ok(refused(RefusalReason::TableDomain));
        }
    }
    let scope = Scope::Domain(record.domain_id);
    let Some(roster) = facts.roster(scope)? else {
        return Ok(EntryState::WaitingAuthority);
    };
    let right = |right| roster.judge(&record.issuer, right, record.seq, &record.ops_seen);
    let verdict = match right(Right::Grant) {
        Verdict::Refused if record.issuer == manifest.producer => right(Right::Append),
        verdict => verdict,
    };
    if verdict != Verdict::Authorized {
        return Ok(of_verdict(verdict));
    }
    kek_of(facts, record, &roster)
}

fn kek_of(facts: &impl Facts, record: &AccessRecord, roster: &Roster) -> Judged {
    let known = facts.keks(&record.kek_id)?;
    let mut best = EntryState::WaitingAuthority;
    for (kek, state) in &known {
        let found = if kek.domain_id != record.domain_id {
            refused(RefusalReason::KekOfOtherDomain)
        } else if !state.is_accepted() {
            EntryState::WaitingAuthority
        } else if kek.generation != record.kek_generation {
            refused(RefusalReason::KekGeneration)
        } else if kek::audience(kek, roster).contains(&record.issuer) {
            return Ok(EntryState::Accepted);
        } else {
            refused(RefusalReason::NotInAudience)
        };
        // Another record of the same KEK may still come only if none is here that decides; the least reason is stable.
        best = match (best, found) {
            (EntryState::Refused(a), EntryState::Refused(b)) => refused(a.min(b)),
            (EntryState::Refused(_), _) => best,
            (_, found) => found,
        };
    }
    Ok(best)
}

/// The right a manifest's producer needs.
const fn right_for(kind: ObjectKind) -> Right {
    match kind {
        ObjectKind::Data | ObjectKind::Companion | ObjectKind::File | ObjectKind::EditionFile => Right::Append,
        ObjectKind::Delete => Right::Delete,
        ObjectKind::TombstoneSet | ObjectKind::Repack | ObjectKind::MutableFold => Right::Compact,
        ObjectKind::Checkpoint => Right::Recover,
    }
}

/// A manifest counts when it fits its table, its producer could write it, and somebody could grant its key (SOP-149).
pub(crate) fn manifest(facts: &impl Facts, hash: &ManifestHash, manifest: &ObjectManifest) -> Judged {
    if manifest.supersedes.contains(&manifest.storage_id) {
        return Ok(refused(RefusalReason::SupersedesItself));
    }
    if let Some(adopted) = &manifest.adopts {
        match adoption(facts, adopted, manifest)? {
            EntryState::Accepted => {}
            other => return Ok(other),
        }
    }
    let granted = facts.granting_domains(hash)?;
    let domains = match &manifest.table_id {
        Some(table_id) => match fitting_domains(&facts.versioned(table_id)?, manifest) {
            Ok(domains) => domains,
            Err(state) => return Ok(state),
        },
        // Objects without a table take the domain of their grants.
        None if granted.is_empty() => return Ok(EntryState::NoAccess),
        None => granted.clone(),
    };
    let mut best = None;
    for domain in domains {
        let right = right_for(manifest.kind);
        let scope = Scope::Domain(domain);
        let by_right = match manifest.kind {
            ObjectKind::EditionFile => by_right_here(facts, domain, manifest, right)?,
            _ => by_right(
                facts,
                scope,
                &manifest.producer,
                right,
                manifest.seq,
                &manifest.ops_seen,
            )?,
        };
        let judged = match by_right {
            EntryState::Accepted if granted.contains(&domain) => EntryState::Accepted,
            EntryState::Accepted => EntryState::NoAccess,
            other => other,
        };
        best = Some(best.map_or(judged, |best| nearer(best, judged)));
    }
    Ok(best.unwrap_or(EntryState::WaitingTable))
}

/// Of two outcomes in two domains, the one closer to being accepted.
fn nearer(a: EntryState, b: EntryState) -> EntryState {
    let rank = |state: EntryState| match state {
        EntryState::Accepted => 0,
        EntryState::NoAccess => 1,
        EntryState::WaitingAuthority => 2,
        _ => 3,
    };
    if rank(b) < rank(a) { b } else { a }
}

/// Domains of the founding records a manifest fits; normally one.
fn fitting_domains(tables: &[Versioned], manifest: &ObjectManifest) -> Result<BTreeSet<DomainId>, EntryState> {
    if tables.is_empty() {
        return Err(EntryState::WaitingTable);
    }
    let mut domains = BTreeSet::new();
    let mut worst = None;
    for table in tables {
        match fits(table, manifest) {
            Ok(()) => {
                domains.insert(table.genesis.domain_id);
            }
            Err(state) => worst = Some(worst.map_or(state, |worst| state.min(worst))),
        }
    }
    match worst {
        Some(state) if domains.is_empty() => Err(state),
        _ => Ok(domains),
    }
}

fn fits(table: &Versioned, manifest: &ObjectManifest) -> Result<(), EntryState> {
    let Versioned {
        genesis: table,
        versions,
    } = table;
    let class_ok = match manifest.kind {
        ObjectKind::Delete | ObjectKind::TombstoneSet => table.class != TableClass::Append,
        ObjectKind::MutableFold => table.class == TableClass::Mutable,
        _ => true,
    };
    if !class_ok {
        return Err(refused(RefusalReason::ClassOfTable));
    }
    let names = [
        (&manifest.table_schema, &table.schema_name),
        (&manifest.table_name, &table.table_name),
    ];
    if names
        .into_iter()
        .any(|(said, is)| said.as_ref().is_some_and(|said| said != is))
    {
        return Err(refused(RefusalReason::TableName));
    }
    let version = match &manifest.schema_fingerprint {
        Some(said) => Some(versions.get(said).ok_or(EntryState::WaitingTable)?),
        None => None,
    };
    // Ids that the version the producer names never gave to a column contradict it (SOP-138).
    let known = |id: &i32| version.is_some_and(|version| version.knows(*id));
    let statistics = manifest
        .pruning_statistics
        .iter()
        .flatten()
        .all(|stats| known(&stats.field_id));
    let time = manifest.time_range.is_none() || table.time.is_some();
    let partitions = manifest.partition_values.as_ref().is_none_or(|values| {
        let names: BTreeSet<_> = table
            .columns
            .iter()
            .filter(|column| table.partition.contains(&column.field_id))
            .map(|column| &column.name)
            .collect();
        // Tombstones are of the whole table; everything else lies in one partition.
        values.0.keys().collect::<BTreeSet<_>>() == names || (values.0.is_empty() && is_tombstone(manifest.kind))
    });
    if statistics && time && partitions {
        Ok(())
    } else {
        Err(refused(RefusalReason::Columns))
    }
}

const fn is_tombstone(kind: ObjectKind) -> bool {
    matches!(kind, ObjectKind::Delete | ObjectKind::TombstoneSet)
}

/// An adoption repeats the adopted manifest's meaning, and counts only while that one does not (SOP-163).
fn adoption(facts: &impl Facts, adopted: &ManifestHash, manifest: &ObjectManifest) -> Judged {
    let original = match facts.manifest(adopted)? {
        Known::Yes(original) => original,
        Known::Newer => return Ok(EntryState::Unsupported),
        Known::OtherKind => return Ok(refused(RefusalReason::NotAManifest)),
        Known::No => return Ok(EntryState::NoManifest),
    };
    // All but who, when, under which ops, and what it adopts.
    let same = ObjectManifest {
        producer: manifest.producer,
        producer_mls_epoch: manifest.producer_mls_epoch,
        seq: manifest.seq,
        ops_seen: manifest.ops_seen.clone(),
        adopts: manifest.adopts,
        ..(*original).clone()
    };
    if same != *manifest || original.producer == manifest.producer {
        return Ok(refused(RefusalReason::AdoptionDiffers));
    }
    let counts_itself = facts
        .state(&RecordId::from(*adopted))?
        .is_some_and(EntryState::is_accepted);
    Ok(if counts_itself {
        refused(RefusalReason::AdoptionNotNeeded)
    } else {
        EntryState::Accepted
    })
}
