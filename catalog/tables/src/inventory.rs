//! Versions of Inventory catalogues and registrations of editions, as the entries here tell them.

use std::ops::ControlFlow;

use sovm_object::{
    entry::EntryKind,
    id::{DomainId, RecordId},
    record::{InventoryVersion, Registration},
};

use crate::{
    body,
    state::EntryState,
    store::{
        StoreError,
        rows::{Key, Scope, form, record_at_end},
        tables::{BY_SCOPE, BY_VERSION, Rows},
    },
};

/// Length of a catalogue's id.
const CATALOG: usize = 16;

/// Entries for versions of a catalogue in a domain from (restore epoch, version) on, in that order, whatever they count
/// for.
pub(crate) fn versions(
    rows: &(impl Rows + ?Sized),
    domain: &DomainId,
    catalog: &[u8; CATALOG],
    from: (u64, u64),
) -> Result<Vec<(RecordId, InventoryVersion, EntryState)>, StoreError> {
    let prefix = Key::new().id(domain.as_bytes()).id(catalog);
    let first = prefix.clone().number(from.0).number(from.1);
    let mut keys = Vec::new();
    rows.scan_from(&BY_VERSION, &first, &mut |key, _| {
        if !key.starts_with(&prefix) {
            return ControlFlow::Break(());
        }
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let id = record_at_end(&BY_VERSION, &key)?;
        if let Some(state) = body::state(rows, &id)? {
            found.push((id, body::of(rows, &id)?, state));
        }
    }
    Ok(found)
}

/// Registrations of editions in a domain, whatever they count for, in the order of their ids.
pub(crate) fn registrations(
    rows: &(impl Rows + ?Sized),
    domain: &DomainId,
) -> Result<Vec<(RecordId, Registration, EntryState)>, StoreError> {
    let prefix = Key::new().scope(Scope::Domain(*domain)).kind(EntryKind::Registration);
    let mut found = Vec::new();
    for key in rows.keys(&BY_SCOPE, &prefix, usize::MAX)? {
        let id = record_at_end(&BY_SCOPE, &key)?;
        let Some(state) = body::state(rows, &id)? else {
            continue;
        };
        let registration: Registration = body::of(rows, &id)?;
        // The index also has what came sealed for this domain and says that it belongs to another one.
        if registration.domain_id == *domain {
            found.push((id, registration, state));
        }
    }
    Ok(found)
}

/// Catalogues that any version is known of, by domain, found by hopping from one catalogue's first row to the next
/// one's.
pub(crate) fn catalogs(rows: &(impl Rows + ?Sized)) -> Result<Vec<(DomainId, [u8; CATALOG])>, StoreError> {
    let mut catalogs = Vec::new();
    let mut from = Vec::new();
    loop {
        let mut next = None;
        rows.scan_from(&BY_VERSION, &from, &mut |key, _| {
            next = key.get(..DomainId::LEN + CATALOG).map(<[u8]>::to_vec);
            ControlFlow::Break(())
        })?;
        let Some(found) = next else {
            return Ok(catalogs);
        };
        let (domain, catalog) = found.split_at(DomainId::LEN);
        let catalog = catalog.try_into().map_err(|_| form(&BY_VERSION))?;
        catalogs.push((DomainId::from_slice(domain).ok_or_else(|| form(&BY_VERSION))?, catalog));
        from = found;
        // Longer than the rest of any key: epoch, version and record id.
        from.extend([0xff; 49]);
    }
}

#[cfg(test)]
mod tests;
