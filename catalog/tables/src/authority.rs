//! Rosters from the stored membership ops.
//!
//! Ops are verified again when they are first read back, because [`Roster`] takes nothing but verified ones; after that they are
//! shared by all steps and snapshots. A cached roster is used only for exactly the ops a view holds, so a step that was dropped
//! leaves nothing wrong behind.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, PoisonError},
};

use sovm_object::{
    entry::{EntryIn, EntryKind, VerifiedEntry},
    id::{MeshId, RecordId, SiteId},
    record::MembershipOp,
    roster::Roster,
    sign::Signed,
};

use crate::{
    body,
    store::{
        StoreError,
        rows::{EntryRow, Key, Scope, form, record_at_end},
        tables::{BY_SCOPE, ENTRIES, Rows, STATES},
    },
};

/// Verified membership ops and the roster last made of them, by scope.
#[derive(Default)]
#[allow(unreachable_pub, reason = "sealed: named by a method of the sealed `Rows`")]
pub struct OpsCache {
    scopes: HashMap<Scope, Cached>,
}

#[derive(Default)]
struct Cached {
    ops: BTreeMap<RecordId, Signed<MembershipOp>>,
    /// The founder and the ops it was made of.
    roster: Option<(SiteId, BTreeSet<RecordId>, Arc<Roster>)>,
}

/// Founder of a scope, once its founding record is accepted.
pub(crate) fn founder(rows: &(impl Rows + ?Sized), scope: Scope) -> Result<Option<SiteId>, StoreError> {
    Ok(match scope {
        Scope::Mesh => match rows
            .keys(&BY_SCOPE, &Key::new().scope(scope).kind(EntryKind::MeshGenesis), 1)?
            .first()
        {
            Some(key) => Some(body::mesh_genesis(rows, &record_at_end(&BY_SCOPE, key)?)?.founder),
            None => None,
        },
        Scope::Domain(_) => match accepted_genesis(rows, scope)? {
            Some(id) => Some(body::domain_genesis(rows, &id)?.founder),
            None => None,
        },
    })
}

/// The accepted founding record of a domain.
pub(crate) fn accepted_genesis(rows: &(impl Rows + ?Sized), scope: Scope) -> Result<Option<RecordId>, StoreError> {
    for key in rows.keys(
        &BY_SCOPE,
        &Key::new().scope(scope).kind(EntryKind::DomainGenesis),
        usize::MAX,
    )? {
        let id = record_at_end(&BY_SCOPE, &key)?;
        if body::state(rows, &id)?.is_some_and(crate::state::EntryState::is_accepted) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// This node's mesh, once its founding record is here.
pub(crate) fn mesh_id(rows: &(impl Rows + ?Sized)) -> Result<Option<MeshId>, StoreError> {
    let keys = rows.keys(
        &BY_SCOPE,
        &Key::new().scope(Scope::Mesh).kind(EntryKind::MeshGenesis),
        1,
    )?;
    let id = keys.first().map(|key| record_at_end(&BY_SCOPE, key)).transpose()?;
    Ok(id.map(|id| MeshId::from_bytes(*id.as_bytes())))
}

/// The roster a view's membership ops give, or `None` while the founding record is not accepted.
pub(crate) fn roster(rows: &(impl Rows + ?Sized), scope: Scope) -> Result<Option<Arc<Roster>>, StoreError> {
    let Some(founder) = founder(rows, scope)? else {
        return Ok(None);
    };
    let mut ids = BTreeSet::new();
    for key in rows.keys(
        &BY_SCOPE,
        &Key::new().scope(scope).kind(EntryKind::MembershipOp),
        usize::MAX,
    )? {
        ids.insert(record_at_end(&BY_SCOPE, &key)?);
    }
    let mut cache = rows.ops_cache().lock().unwrap_or_else(PoisonError::into_inner);
    let cached = cache.scopes.entry(scope).or_default();
    if let Some((by, of, roster)) = &cached.roster
        && *by == founder
        && *of == ids
    {
        return Ok(Some(roster.clone()));
    }
    for id in &ids {
        if !cached.ops.contains_key(id) {
            cached.ops.insert(*id, verified_op(rows, id)?);
        }
    }
    let roster = Arc::new(Roster::of(
        founder,
        cached.ops.iter().filter(|(id, _)| ids.contains(id)).map(|(_, op)| op),
    ));
    cached.roster = Some((founder, ids, roster.clone()));
    Ok(Some(roster))
}

/// Puts an op that was just verified into the cache, so that it is not verified twice.
pub(crate) fn remember_op(rows: &impl Rows, op: &Signed<MembershipOp>) {
    let mut cache = rows.ops_cache().lock().unwrap_or_else(PoisonError::into_inner);
    cache
        .scopes
        .entry(op.body().domain.into())
        .or_default()
        .ops
        .insert(op.id(), op.clone());
}

fn verified_op(rows: &(impl Rows + ?Sized), id: &RecordId) -> Result<Signed<MembershipOp>, StoreError> {
    let stored = rows.get(&ENTRIES, id.as_bytes())?.ok_or_else(|| form(&STATES))?;
    let entry = EntryIn::decode(&EntryRow::decode(&stored)?.bytes).map_err(|_| form(&ENTRIES))?;
    let EntryIn::MembershipOp(op) = &entry else {
        return Err(form(&ENTRIES));
    };
    let mesh = op.claimed().mesh_id;
    match entry.verify(&mesh) {
        Ok(VerifiedEntry::MembershipOp(op)) => Ok(op),
        _ => Err(StoreError::RowChanged(crate::store::tables::ENTRIES_NAME)),
    }
}
