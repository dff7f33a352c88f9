//! Bodies of stored entries.
//!
//! Admission took verified entries only and stored their exact bytes, so reading a body back decodes without verifying again.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
};

use sovm_object::{
    entry::EntryKind,
    id::{ManifestHash, RecordId},
    parallel::{cores, in_parallel},
    record::{AccessRecord, DomainGenesis, KekRecord, MeshGenesis, ObjectManifest, TableGenesis},
    sign::{Body, Signed, SignedIn, stored_body},
};

use crate::{
    judge::Known,
    state::EntryState,
    store::{
        StoreError,
        rows::{EntryRow, StateRow, form},
        tables::{ENTRIES, ENTRIES_NAME, Rows, STATES},
    },
};

/// The stored row of an entry.
pub(crate) fn row(rows: &(impl Rows + ?Sized), id: &RecordId) -> Result<Option<EntryRow>, StoreError> {
    rows.get(&ENTRIES, id.as_bytes())?
        .map(|value| EntryRow::decode(&value))
        .transpose()
}

/// The state of an entry, with when it was received.
pub(crate) fn state_row(rows: &(impl Rows + ?Sized), id: &RecordId) -> Result<Option<StateRow>, StoreError> {
    rows.get(&STATES, id.as_bytes())?
        .map(|value| StateRow::decode(&value))
        .transpose()
}

/// The state of an entry.
pub(crate) fn state(rows: &(impl Rows + ?Sized), id: &RecordId) -> Result<Option<EntryState>, StoreError> {
    Ok(state_row(rows, id)?.map(|row| row.state))
}

/// Decodes stored bytes as one kind.
pub(crate) fn decode<B: Body + Clone>(bytes: &[u8]) -> Result<B, StoreError> {
    SignedIn::<B>::decode(bytes)
        .map(|entry| entry.claimed().clone())
        .map_err(|_| form(&ENTRIES))
}

/// The body of an entry that an index says is here.
pub(crate) fn of<B: Body>(rows: &(impl Rows + ?Sized), id: &RecordId) -> Result<B, StoreError> {
    stored(id, &row(rows, id)?.ok_or_else(|| form(&ENTRIES))?.bytes)
}

fn stored<B: Body>(id: &RecordId, bytes: &[u8]) -> Result<B, StoreError> {
    stored_body(bytes, id).ok_or_else(|| form(&ENTRIES))
}

/// A stored entry as a signed value. The signature is checked once more, since that is the one way to the type.
pub(crate) fn signed<B: Body>(rows: &(impl Rows + ?Sized), id: &RecordId) -> Result<Signed<B>, StoreError> {
    let row = row(rows, id)?.ok_or_else(|| form(&ENTRIES))?;
    let entry = SignedIn::<B>::decode(&row.bytes).map_err(|_| form(&ENTRIES))?;
    let mesh = match row.kind {
        EntryKind::MeshGenesis => MeshGenesis::CONTEXT_MESH,
        _ => crate::authority::mesh_id(rows)?.ok_or_else(|| form(&ENTRIES))?,
    };
    entry.verify(&mesh).map_err(|_| StoreError::RowChanged(ENTRIES_NAME))
}

/// A manifest by its hash.
pub(crate) fn manifest(rows: &(impl Rows + ?Sized), hash: &ManifestHash) -> Result<Known<ObjectManifest>, StoreError> {
    Ok(match row(rows, &RecordId::from(*hash))? {
        Some(row) if row.kind == EntryKind::Manifest => {
            Known::Yes(Box::new(stored(&RecordId::from(*hash), &row.bytes)?))
        }
        Some(row) if row.kind == EntryKind::NewerManifest => Known::Newer,
        Some(_) => Known::OtherKind,
        None => Known::No,
    })
}

/// Manifests kept decoded; about 1 KiB each.
const MAX_CACHED: usize = 16_384;

/// Decoded manifests. Their ids are hashes of their content, so a cached one is never stale.
#[allow(unreachable_pub, reason = "sealed: named by a method of the sealed `Rows`")]
pub type ManifestCache = HashMap<RecordId, Arc<ObjectManifest>>;

/// A manifest that an index says is here.
pub(crate) fn cached_manifest(rows: &(impl Rows + ?Sized), id: &RecordId) -> Result<Arc<ObjectManifest>, StoreError> {
    let cache = rows.manifest_cache();
    if let Some(known) = cache.lock().unwrap_or_else(PoisonError::into_inner).get(id) {
        return Ok(known.clone());
    }
    let manifest: Arc<ObjectManifest> = Arc::new(of(rows, id)?);
    let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
    if cache.len() >= MAX_CACHED {
        cache.clear();
    }
    cache.insert(*id, manifest.clone());
    Ok(manifest)
}

/// Decodes those manifests that are not kept decoded yet, on all cores; the others and what is no manifest are left alone.
pub(crate) fn decode_manifests(rows: &(impl Rows + ?Sized), ids: &[RecordId]) -> Result<(), StoreError> {
    let cache = rows.manifest_cache();
    let known = cache.lock().unwrap_or_else(PoisonError::into_inner);
    let missing: Vec<RecordId> = ids.iter().filter(|id| !known.contains_key(*id)).copied().collect();
    drop(known);
    let mut entries = Vec::with_capacity(missing.len());
    for id in missing {
        if let Some(row) = row(rows, &id)?.filter(|row| row.kind == EntryKind::Manifest) {
            entries.push((id, row.bytes));
        }
    }
    let threads = cores();
    let share = entries.len().div_ceil(threads).max(DECODED_BY_ONE);
    let shares: Vec<_> = entries.chunks(share).collect();
    let decoded = in_parallel(threads, shares, |entries| {
        let decoded = entries
            .iter()
            .map(|(id, bytes)| Ok((*id, Arc::new(stored::<ObjectManifest>(id, bytes)?))));
        decoded.collect::<Result<Vec<_>, StoreError>>()
    });
    let decoded = decoded.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
    if cache.len() + entries.len() > MAX_CACHED {
        cache.clear();
    }
    cache.extend(decoded.into_iter().flatten());
    Ok(())
}

/// Fewer manifests are not worth a thread.
const DECODED_BY_ONE: usize = 64;

macro_rules! typed {
    ($($name:ident -> $body:ty;)*) => {$(
        pub(crate) fn $name(rows: &(impl Rows + ?Sized), id: &RecordId) -> Result<$body, StoreError> {
            of(rows, id)
        }
    )*};
}

typed! {
    mesh_genesis -> MeshGenesis;
    domain_genesis -> DomainGenesis;
    table_genesis -> TableGenesis;
    kek_record -> KekRecord;
    access_record -> AccessRecord;
}
