//! The change list of a version, computed again and compared with the one it carries.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fault, Loaded};
use crate::{
    doc::{ChangeItem, EditionId, EntryChange, ProductId, RootHistory},
    transition::{Version, VersionError, change_list},
};

/// INV-162, INV-177 to INV-180, INV-183: compares a version's change list with what follows from it and its base.
///
/// Products whose leaf does not verify in either version are left out: what is wrong with them has been reported.
pub(super) fn compare(base: Option<&Loaded>, next: &Loaded, history: &RootHistory) -> Result<Vec<Fault>, VersionError> {
    let mut left_out: BTreeSet<ProductId> = next.bad.keys().cloned().collect();
    left_out.extend(base.iter().flat_map(|base| base.bad.keys().cloned()));
    let base = match base {
        Some(base) => base.version(&left_out)?,
        None => Version::before_the_first(false),
    };
    let computed = change_list(&base, &next.version(&left_out)?);
    let listed = history
        .changes
        .iter()
        .filter(|item| !left_out.contains(&item.product_id));
    Ok(differences(listed, &computed))
}

fn differences<'a>(listed: impl Iterator<Item = &'a ChangeItem>, computed: &[ChangeItem]) -> Vec<Fault> {
    let mut computed: BTreeMap<&ProductId, &ChangeItem> =
        computed.iter().map(|item| (&item.product_id, item)).collect();
    let mut faults = Vec::new();
    for item in listed {
        let product_id = || item.product_id.clone();
        let Some(expected) = computed.remove(&item.product_id) else {
            faults.push(Fault::ChangeUnfounded {
                product_id: product_id(),
            });
            continue;
        };
        if item.leaf_sha256 != expected.leaf_sha256 {
            faults.push(Fault::ChangeLeaf {
                product_id: product_id(),
                listed: (item.leaf_sha256.from, item.leaf_sha256.to),
                computed: (expected.leaf_sha256.from, expected.leaf_sha256.to),
            });
        }
        let by_id = |item: &'a ChangeItem| -> BTreeMap<EditionId, &'a EntryChange> {
            item.entries.iter().map(|entry| (entry.edition_id, entry)).collect()
        };
        let listed = by_id(item);
        let expected: BTreeMap<EditionId, &EntryChange> =
            expected.entries.iter().map(|entry| (entry.edition_id, entry)).collect();
        for edition_id in listed.keys().chain(expected.keys()).collect::<BTreeSet<_>>() {
            let (listed, computed) = (listed.get(edition_id), expected.get(edition_id));
            if listed != computed {
                faults.push(Fault::ChangeEntry {
                    product_id: product_id(),
                    edition_id: *edition_id,
                    listed: shown(listed.copied(), computed.copied()),
                    computed: shown(computed.copied(), listed.copied()),
                });
            }
        }
    }
    faults.extend(computed.into_keys().map(|product_id| Fault::ChangeMissing {
        product_id: product_id.clone(),
    }));
    faults
}

/// One side of a difference; the entry's fields are spelled out only when the two sides are alike up to them.
fn shown(side: Option<&EntryChange>, other: Option<&EntryChange>) -> String {
    let Some(side) = side else { return "nothing".to_owned() };
    let word =
        |status: Option<crate::doc::EntryStatus>| status.map_or_else(|| "null".to_owned(), |status| status.to_string());
    let arrow = format!("{} to {}", word(side.from), word(side.to));
    match (&side.entry, other) {
        (Some(entry), Some(other)) if (side.from, side.to) == (other.from, other.to) => {
            let previous = entry.previous.map_or_else(|| "null".to_owned(), |id| id.to_string());
            let release_at = entry.release_at.map_or_else(|| "null".to_owned(), |at| at.to_string());
            format!(
                "{arrow} (previous {previous}, manifest {}, schema {}, since {}, release at {release_at})",
                entry.manifest_sha256, entry.schema_version, entry.state_changed_at
            )
        }
        _ => arrow,
    }
}
