//! Tables, objects and domains as people and the query engine see them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sovm_object::{
    entry::EntryKind,
    id::{DomainId, KekGeneration, KekId, ManifestHash, RecordId, SiteId, StorageId, TableId},
    kek::KekRing,
    record::{AccessRecord, DomainGenesis, ObjectKind, ObjectManifest, TableGenesis},
    secret::Dek,
};

use crate::{
    body,
    columns::{self, TableColumns},
    local::{ByteStatus, HolderRow, by_site, byte_status},
    state::{BadBytes, ByteState, EntryState, QuarantineReason},
    store::{
        StoreError,
        rows::{Key, Scope, record_at_end},
        tables::{BY_MANIFEST, BY_OBJECT, BY_SCOPE, BY_TABLE, HOLDERS, Rows},
    },
};

/// A domain this node knows.
#[derive(Clone, Debug)]
pub struct DomainView {
    /// Its founding record.
    pub record: RecordId,
    /// What the founding record says.
    pub genesis: DomainGenesis,
}

/// A table this node knows.
#[derive(Clone, Debug)]
pub struct TableView {
    /// Its founding record.
    pub record: RecordId,
    /// What the founding record says.
    pub genesis: TableGenesis,
    /// Its columns now.
    pub columns: TableColumns,
    /// Unique in its domain: schema `main` is left out, and tables that share a name bear the start of their id.
    pub display_name: String,
}

/// A name did not lead to one table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableLookupError {
    /// No table has it.
    #[error("there is no table {name:?}; `sovm table list` shows those there are")]
    NotFound {
        /// The name asked for.
        name: String,
    },
    /// Several have it.
    #[error("{name:?} is the name of several tables: {}; use one of these", candidates.join(", "))]
    Ambiguous {
        /// The name asked for.
        name: String,
        /// Display names of the tables that share it.
        candidates: Vec<String>,
    },
    /// The catalogue could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an object's rows cannot be read for want of a key (DESIGN §7: `pending_access`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PendingAccess {
    /// No accepted manifest describes it here.
    #[error("no accepted manifest of this object is known here")]
    NoManifest,
    /// Nobody granted its key to a domain of ours yet.
    #[error("no access record for this object is known here yet")]
    NoGrant,
    /// It is granted, but under KEKs this node does not hold.
    #[error("its key is wrapped under KEKs this node does not hold")]
    NoKek {
        /// The KEKs, newest first.
        wanted: Vec<(KekGeneration, KekId)>,
    },
    /// Every grant we can open is broken.
    #[error("every access record for this object is broken; ask for a new one")]
    Broken {
        /// Sites that issued them (SOP-167).
        issuers: Vec<SiteId>,
    },
}

/// Why a DEK was not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DekError {
    /// It may come.
    #[error(transparent)]
    Pending(#[from] PendingAccess),
    /// The catalogue could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What an object is good for here.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ObjectState {
    /// Described, granted, unlocked, and its bytes are here.
    Queryable,
    /// Its key is missing.
    PendingAccess(PendingAccess),
    /// Its bytes are missing; who was asked, when, why it failed, when next.
    PendingBytes {
        /// Since when.
        since_ms: u64,
        /// By site.
        asked: Vec<(SiteId, HolderRow)>,
    },
    /// Its bytes are here but wrong.
    QuarantinedBytes(BadBytes),
    /// Its manifest is set aside. Such an object blocks no query (`lessons.md`, clocks).
    QuarantinedManifest(QuarantineReason),
    /// This build cannot read objects of its kind, so a query that needs the table must fail.
    Unsupported,
    /// Its bytes were deleted for good, because its edition was expunged (INV-412).
    Expunged,
}

impl ObjectState {
    /// Whether a query that needs this object's rows has to fail or to be incomplete (SOP-266).
    pub const fn blocks_queries(&self) -> bool {
        !matches!(self, Self::Queryable | Self::QuarantinedManifest(_))
    }

    /// The word people see (DESIGN §7).
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Queryable => "queryable",
            Self::PendingAccess(_) => "pending_access",
            Self::PendingBytes { .. } => "pending_bytes",
            Self::QuarantinedBytes(_) | Self::QuarantinedManifest(_) => "quarantined",
            Self::Unsupported => "unsupported",
            Self::Expunged => "expunged",
        }
    }
}

/// One object: all manifests of one (table, kind, storage id) together (SOP-159).
#[derive(Clone, Debug)]
pub struct ObjectView {
    /// The object.
    pub storage_id: StorageId,
    /// What it is for.
    pub kind: ObjectKind,
    /// Its manifests that count, or may count soon; the lowest (stamp, hash) first, which listings show (SOP-161).
    pub manifests: Vec<(ManifestHash, Arc<ObjectManifest>)>,
    /// What it is good for here.
    pub state: ObjectState,
    /// Rows, as the first manifest says. Never an answer to `count(*)` (DESIGN §7).
    pub row_count: u64,
    /// Where its bytes stand.
    pub bytes: Option<ByteStatus>,
}

/// An object whose bytes are wanted.
#[derive(Clone, Debug)]
pub struct PendingObject {
    /// The object.
    pub storage_id: StorageId,
    /// Since when.
    pub since_ms: u64,
    /// Length before padding, when a manifest says it; a hint for planning.
    pub exact_byte_size: Option<u64>,
    /// Whether an accepted manifest or announcement asks for it.
    pub accepted: bool,
    /// Who was asked, when, why it failed, when next.
    pub asked: Vec<(SiteId, HolderRow)>,
}

/// All tables, by domain and display name.
pub(crate) fn tables(rows: &(impl Rows + ?Sized)) -> Result<Vec<TableView>, StoreError> {
    let mut genesis: BTreeMap<TableId, (RecordId, TableGenesis)> = BTreeMap::new();
    for scope in crate::read::scopes(rows)? {
        for key in rows.keys(
            &crate::store::tables::BY_SCOPE,
            &Key::new().scope(scope).kind(EntryKind::TableGenesis),
            usize::MAX,
        )? {
            let id = record_at_end(&BY_TABLE, &key)?;
            if !body::state(rows, &id)?.is_some_and(EntryState::is_accepted) {
                continue;
            }
            let table = body::table_genesis(rows, &id)?;
            // Two founding records of one table: everybody shows the lower id.
            match genesis.get(&table.table_id) {
                Some((shown, _)) if *shown <= id => {}
                _ => {
                    genesis.insert(table.table_id, (id, table));
                }
            }
        }
    }
    let mut views = Vec::with_capacity(genesis.len());
    for (record, genesis) in genesis.into_values() {
        views.push(TableView {
            record,
            columns: columns::current(rows, &record, &genesis)?,
            display_name: plain_name(&genesis),
            genesis,
        });
    }
    let mut shared: BTreeMap<(DomainId, String), usize> = BTreeMap::new();
    for view in &views {
        *shared
            .entry((view.genesis.domain_id, view.display_name.to_lowercase()))
            .or_default() += 1;
    }
    for view in &mut views {
        if shared[&(view.genesis.domain_id, view.display_name.to_lowercase())] > 1 {
            view.display_name = format!("{}~{}", view.display_name, &view.genesis.table_id.fmt_short()[..6]);
        }
    }
    views.sort_by(|a, b| (a.genesis.domain_id, &a.display_name).cmp(&(b.genesis.domain_id, &b.display_name)));
    Ok(views)
}

fn plain_name(genesis: &TableGenesis) -> String {
    match genesis.schema_name.as_str() {
        "main" => genesis.table_name.clone(),
        schema => format!("{schema}.{}", genesis.table_name),
    }
}

/// The one table a name means, in one domain or in all. An exact display name wins over one that differs in case.
pub(crate) fn find_table(
    rows: &(impl Rows + ?Sized),
    domain: Option<&DomainId>,
    name: &str,
) -> Result<TableView, TableLookupError> {
    let wanted = name.strip_prefix("main.").unwrap_or(name);
    let all: Vec<_> = tables(rows)?
        .into_iter()
        .filter(|view| domain.is_none_or(|domain| view.genesis.domain_id == *domain))
        .collect();
    let exact: Vec<_> = all.iter().filter(|view| view.display_name == wanted).cloned().collect();
    let mut found = if exact.is_empty() {
        let matches = |view: &&TableView| {
            view.display_name.eq_ignore_ascii_case(wanted) || plain_name(&view.genesis).eq_ignore_ascii_case(wanted)
        };
        all.iter().filter(matches).cloned().collect()
    } else {
        exact
    };
    match found.len() {
        0 => Err(TableLookupError::NotFound { name: name.to_owned() }),
        1 => Ok(found.remove(0)),
        _ => {
            let candidates = found.into_iter().map(|view| view.display_name).collect();
            Err(TableLookupError::Ambiguous {
                name: name.to_owned(),
                candidates,
            })
        }
    }
}

type Claims = BTreeMap<(ObjectKind, StorageId), Vec<(ManifestHash, Arc<ObjectManifest>, EntryState)>>;

/// Objects of a table that people should see: those that count, and those that would if a grant or the time came.
pub(crate) fn objects(
    rows: &(impl Rows + ?Sized),
    table: &TableId,
    ring: &KekRing,
) -> Result<Vec<ObjectView>, StoreError> {
    let keys = rows.keys(
        &BY_TABLE,
        &Key::new().id(table.as_bytes()).kind(EntryKind::Manifest),
        usize::MAX,
    )?;
    let ids = keys.iter().map(|key| record_at_end(&BY_TABLE, key));
    let ids: Vec<RecordId> = ids.collect::<Result<_, _>>()?;
    let mut claims = Claims::new();
    for some in ids.chunks(MANIFESTS_AT_ONCE) {
        body::decode_manifests(rows, some)?;
        some.iter().try_for_each(|id| claim(rows, id, &mut claims))?;
    }
    views(rows, claims, ring)
}

/// Manifests decoded side by side.
const MANIFESTS_AT_ONCE: usize = 1_024;

fn views(rows: &(impl Rows + ?Sized), claims: Claims, ring: &KekRing) -> Result<Vec<ObjectView>, StoreError> {
    let mut grants = grants(rows, claims.keys().map(|(_, storage_id)| *storage_id))?;
    claims
        .into_iter()
        .map(|((kind, storage_id), claims)| {
            // Claims of two kinds for one object are rare, and read its grants again.
            let grants = match grants.remove(&storage_id) {
                Some(grants) => grants,
                None => access_records(rows, &storage_id)?,
            };
            object_of(rows, kind, storage_id, claims, grants, ring)
        })
        .collect()
}

/// Objects of one kind in a domain: plain files, or files of editions. They have no table; where they belong is what
/// their grants say, and a manifest is indexed under each domain it travelled in.
pub(crate) fn files(
    rows: &(impl Rows + ?Sized),
    kind: ObjectKind,
    domain: &DomainId,
    ring: &KekRing,
) -> Result<Vec<ObjectView>, StoreError> {
    let mut claims = Claims::new();
    let prefix = Key::new().scope(Scope::Domain(*domain)).kind(EntryKind::Manifest);
    for key in rows.keys(&BY_SCOPE, &prefix, usize::MAX)? {
        let id = record_at_end(&BY_SCOPE, &key)?;
        let manifest = body::cached_manifest(rows, &id)?;
        if manifest.kind == kind {
            claim(rows, &id, &mut claims)?;
        }
    }
    views(rows, claims, ring)
}

/// Everything known about one object, one view for each table and kind it is claimed for (SOP-162).
pub(crate) fn object(
    rows: &(impl Rows + ?Sized),
    storage_id: &StorageId,
    ring: &KekRing,
) -> Result<Vec<ObjectView>, StoreError> {
    let mut by_table: BTreeMap<Option<TableId>, Claims> = BTreeMap::new();
    for key in rows.keys(
        &BY_OBJECT,
        &Key::new().id(storage_id.as_bytes()).kind(EntryKind::Manifest),
        usize::MAX,
    )? {
        let id = record_at_end(&BY_OBJECT, &key)?;
        let table = body::cached_manifest(rows, &id)?.table_id;
        claim(rows, &id, by_table.entry(table).or_default())?;
    }
    let views = by_table.into_values().map(|claims| views(rows, claims, ring));
    Ok(views.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn claim(rows: &(impl Rows + ?Sized), id: &RecordId, claims: &mut Claims) -> Result<(), StoreError> {
    let Some(state) = body::state(rows, id)? else {
        return Ok(());
    };
    if matches!(
        state,
        EntryState::Accepted | EntryState::NoAccess | EntryState::Quarantined(_)
    ) {
        let manifest = body::cached_manifest(rows, id)?;
        let hash = ManifestHash::from_bytes(*id.as_bytes());
        claims
            .entry((manifest.kind, manifest.storage_id))
            .or_default()
            .push((hash, manifest, state));
    }
    Ok(())
}

fn object_of(
    rows: &(impl Rows + ?Sized),
    kind: ObjectKind,
    storage_id: StorageId,
    mut claims: Vec<(ManifestHash, Arc<ObjectManifest>, EntryState)>,
    grants: Vec<AccessRecord>,
    ring: &KekRing,
) -> Result<ObjectView, StoreError> {
    // Claims that count hide those that only may.
    let best = claims
        .iter()
        .map(|(.., state)| *state)
        .min()
        .unwrap_or(EntryState::NoAccess);
    claims.retain(|(.., state)| *state == best);
    claims.sort_by_key(|(hash, manifest, _)| (manifest.created_hlc, *hash));
    let bytes = byte_status(rows, &storage_id)?;
    let state = match best {
        EntryState::Quarantined(reason) => ObjectState::QuarantinedManifest(reason),
        EntryState::Accepted => accepted_state(rows, kind, &storage_id, bytes, &grants, ring)?,
        _ => ObjectState::PendingAccess(PendingAccess::NoGrant),
    };
    let row_count = claims.first().map_or(0, |(_, manifest, _)| manifest.row_count);
    let manifests = claims.into_iter().map(|(hash, manifest, _)| (hash, manifest)).collect();
    Ok(ObjectView {
        storage_id,
        kind,
        manifests,
        state,
        row_count,
        bytes,
    })
}

fn accepted_state(
    rows: &(impl Rows + ?Sized),
    kind: ObjectKind,
    storage_id: &StorageId,
    bytes: Option<ByteStatus>,
    grants: &[AccessRecord],
    ring: &KekRing,
) -> Result<ObjectState, StoreError> {
    // Deletes, repacks and folds of later releases change which rows count, so they must not be overlooked.
    if matches!(
        kind,
        ObjectKind::Delete | ObjectKind::TombstoneSet | ObjectKind::Repack | ObjectKind::MutableFold
    ) {
        return Ok(ObjectState::Unsupported);
    }
    if !grants.iter().any(|grant| ring.get(&grant.kek_id).is_some()) {
        let wanted = grants
            .iter()
            .map(|grant| (grant.kek_generation, grant.kek_id))
            .collect();
        return Ok(ObjectState::PendingAccess(PendingAccess::NoKek { wanted }));
    }
    Ok(match bytes.map(|bytes| bytes.state) {
        Some(ByteState::Available) => ObjectState::Queryable,
        Some(ByteState::Quarantined(reason)) => ObjectState::QuarantinedBytes(reason),
        Some(ByteState::Expunged) => ObjectState::Expunged,
        Some(ByteState::PendingBytes) | None => ObjectState::PendingBytes {
            since_ms: bytes.map_or(0, |bytes| bytes.since_ms),
            asked: by_site(rows.rows(&HOLDERS, storage_id.as_bytes())?, &HOLDERS)?,
        },
    })
}

/// Grants of one object that count, the one to try first in front (SOP-166).
pub(crate) fn access_records(
    rows: &(impl Rows + ?Sized),
    storage_id: &StorageId,
) -> Result<Vec<AccessRecord>, StoreError> {
    Ok(grants(rows, [*storage_id])?.remove(storage_id).unwrap_or_default())
}

/// The same for many objects. Entries lie in the order of their ids and pages are decrypted one by one, so all are read in that
/// order: object by object, nearly every read would be of another page.
fn grants(
    rows: &(impl Rows + ?Sized),
    objects: impl IntoIterator<Item = StorageId>,
) -> Result<BTreeMap<StorageId, Vec<AccessRecord>>, StoreError> {
    let mut ids = Vec::new();
    let mut found: BTreeMap<StorageId, Vec<(RecordId, AccessRecord)>> = BTreeMap::new();
    for storage_id in objects {
        let prefix = Key::new().id(storage_id.as_bytes()).kind(EntryKind::Access);
        for key in rows.keys(&BY_OBJECT, &prefix, usize::MAX)? {
            ids.push(record_at_end(&BY_OBJECT, &key)?);
        }
        found.insert(storage_id, Vec::new());
    }
    let counts = |id: &RecordId| Ok(body::state(rows, id)?.is_some_and(EntryState::is_accepted));
    ids.sort_unstable();
    ids.dedup();
    let mut grants = Vec::with_capacity(ids.len());
    for id in ids {
        if counts(&id)? {
            grants.push((id, body::access_record(rows, &id)?));
        }
    }
    grants.sort_by_key(|(_, grant)| grant.object_manifest_hash);
    for (id, grant) in grants {
        // A grant may wait for a manifest that itself was refused.
        if counts(&RecordId::from(grant.object_manifest_hash))?
            && let Some(grants) = found.get_mut(&grant.storage_id)
        {
            grants.push((id, grant));
        }
    }
    let in_order = |mut grants: Vec<(RecordId, AccessRecord)>| {
        grants.sort_by_key(|(id, grant)| std::cmp::Reverse((grant.kek_generation, grant.kek_id, *id)));
        grants.into_iter().map(|(_, grant)| grant).collect()
    };
    Ok(found
        .into_iter()
        .map(|(storage_id, grants)| (storage_id, in_order(grants)))
        .collect())
}

/// Unwraps an object's DEK with the first grant that opens and keeps its commitment (SOP-166, SOP-167).
pub(crate) fn dek(rows: &(impl Rows + ?Sized), storage_id: &StorageId, ring: &KekRing) -> Result<Dek, DekError> {
    unlock(rows, storage_id, access_records(rows, storage_id)?, ring)
}

/// The same with the grants of one table's manifests only: what another table claims for the object has no say (SOP-162).
pub(crate) fn dek_in_table(
    rows: &(impl Rows + ?Sized),
    table: &TableId,
    storage_id: &StorageId,
    ring: &KekRing,
) -> Result<Dek, DekError> {
    let mut grants = Vec::new();
    for grant in access_records(rows, storage_id)? {
        let manifest = body::cached_manifest(rows, &RecordId::from(grant.object_manifest_hash))?;
        if manifest.table_id.as_ref() == Some(table) {
            grants.push(grant);
        }
    }
    unlock(rows, storage_id, grants, ring)
}

fn unlock(
    rows: &(impl Rows + ?Sized),
    storage_id: &StorageId,
    grants: Vec<AccessRecord>,
    ring: &KekRing,
) -> Result<Dek, DekError> {
    if grants.is_empty() {
        let prefix = Key::new().id(storage_id.as_bytes()).kind(EntryKind::Manifest);
        let described = !rows.keys(&BY_OBJECT, &prefix, 1)?.is_empty();
        return Err(if described {
            PendingAccess::NoGrant
        } else {
            PendingAccess::NoManifest
        }
        .into());
    }
    let mut issuers = Vec::new();
    for grant in &grants {
        let Some(kek) = ring.get(&grant.kek_id) else {
            continue;
        };
        // The record's commitment equals the manifest's, or the record would not be accepted.
        match grant.unwrap(kek) {
            Ok(dek) => return Ok(dek),
            Err(_) => issuers.push(grant.issuer),
        }
    }
    Err(if issuers.is_empty() {
        PendingAccess::NoKek {
            wanted: grants
                .iter()
                .map(|grant| (grant.kek_generation, grant.kek_id))
                .collect(),
        }
    } else {
        PendingAccess::Broken { issuers }
    }
    .into())
}

/// Whether an object's bytes belong here: an accepted manifest describes it, whoever can open it, or an accepted entry
/// names it.
pub(crate) fn is_wanted(
    rows: &(impl Rows + ?Sized),
    storage_id: &StorageId,
) -> Result<(bool, Option<u64>), StoreError> {
    let mut size = None;
    for key in rows.keys(&BY_OBJECT, &Key::new().id(storage_id.as_bytes()), usize::MAX)? {
        let id = record_at_end(&BY_OBJECT, &key)?;
        let Some(row) = body::row(rows, &id)? else {
            continue;
        };
        match row.kind {
            EntryKind::Manifest => {
                size = Some(body::cached_manifest(rows, &id)?.exact_byte_size);
                if body::state(rows, &id)?.is_some_and(EntryState::is_accepted) {
                    return Ok((true, size));
                }
            }
            // They name objects without describing them.
            EntryKind::RootAnnouncement
            | EntryKind::InventoryVersion
            | EntryKind::PrefetchList
            | EntryKind::Registration
                if body::state(rows, &id)?.is_some_and(EntryState::is_accepted) =>
            {
                return Ok((true, size));
            }
            _ => {}
        }
    }
    Ok((false, size))
}

/// Domains of the access records for one manifest that count.
pub(crate) fn granting_domains(
    rows: &(impl Rows + ?Sized),
    hash: &ManifestHash,
) -> Result<BTreeSet<DomainId>, StoreError> {
    let mut domains = BTreeSet::new();
    for id in grants_of_manifest(rows, hash)? {
        if body::state(rows, &id)?.is_some_and(EntryState::is_accepted) {
            domains.insert(body::access_record(rows, &id)?.domain_id);
        }
    }
    Ok(domains)
}

/// Manifests of an object that this build reads, whatever they count for.
pub(crate) fn manifests(
    rows: &(impl Rows + ?Sized),
    storage_id: &StorageId,
) -> Result<Vec<(ManifestHash, Arc<ObjectManifest>, EntryState)>, StoreError> {
    let mut found = Vec::new();
    let prefix = Key::new().id(storage_id.as_bytes()).kind(EntryKind::Manifest);
    for key in rows.keys(&BY_OBJECT, &prefix, usize::MAX)? {
        let id = record_at_end(&BY_OBJECT, &key)?;
        if let Some(state) = body::state(rows, &id)? {
            let hash = ManifestHash::from_bytes(*id.as_bytes());
            found.push((hash, body::cached_manifest(rows, &id)?, state));
        }
    }
    Ok(found)
}

/// Manifests that access records wait for, so that reconciliation can be asked for them.
pub(crate) fn grants_of_manifest(
    rows: &(impl Rows + ?Sized),
    hash: &ManifestHash,
) -> Result<Vec<RecordId>, StoreError> {
    rows.keys(&BY_MANIFEST, hash.as_bytes(), usize::MAX)?
        .iter()
        .map(|key| record_at_end(&BY_MANIFEST, key))
        .collect()
}

#[cfg(test)]
mod tests;
