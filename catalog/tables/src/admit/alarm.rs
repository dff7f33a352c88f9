//! Things that are no error of one entry, but that an operator should hear of.

use sovm_object::{
    entry::EntryKind,
    id::{RecordId, SiteId, StorageId},
    record::{InventoryVersion, ObjectKind, ObjectManifest},
};

use super::facets::{Facets, version_key};
use crate::{
    body,
    store::{
        StoreError,
        rows::{EntryRow, Key, decode, encode, record_at_end},
        tables::{ALARMS, BY_OBJECT, BY_SEQ, BY_VERSION, Rows, name},
        txn::Txn,
    },
};

/// Alarms kept; the oldest go first.
const MAX_ALARMS: u64 = 10_000;

/// Two facts that cannot both be honest, or come from a restored copy of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alarm {
    /// A site gave one `seq` to two records (SOP §2.1).
    SeqReused {
        /// The site.
        site: SiteId,
        /// The record known before.
        first: RecordId,
        /// The other one.
        second: RecordId,
    },
    /// A producer described one object twice (SOP-161).
    TwoManifests {
        /// The object.
        object: StorageId,
        /// The manifest known before.
        first: RecordId,
        /// The other one.
        second: RecordId,
    },
    /// One version of a catalogue has two roots, whoever signed them (DESIGN §10). Both are kept.
    TwoRoots {
        /// The catalogue.
        catalog: [u8; 16],
        /// Its restore epoch.
        restore_epoch: u64,
        /// The version.
        version: u64,
        /// The entry known before.
        first: RecordId,
        /// The other one.
        second: RecordId,
    },
}

sovm_object::payload! {
    /// A stored alarm.
    pub struct AlarmRow {
        /// 1 reused seq, 2 two manifests, 3 two roots of one version.
        2 code: u64,
        /// Site or object; or catalogue, restore epoch and version.
        3 subject: [u8; 32],
        /// The record known before.
        4 first: RecordId,
        /// The other one.
        5 second: RecordId,
        /// When it was noticed.
        6 noticed_ms: u64,
    }
}

impl Alarm {
    fn row(&self, noticed_ms: u64) -> AlarmRow {
        match *self {
            Self::SeqReused { site, first, second } => AlarmRow {
                code: 1,
                subject: *site.as_bytes(),
                first,
                second,
                noticed_ms,
            },
            Self::TwoManifests { object, first, second } => AlarmRow {
                code: 2,
                subject: *object.as_bytes(),
                first,
                second,
                noticed_ms,
            },
            Self::TwoRoots {
                catalog,
                restore_epoch,
                version,
                first,
                second,
            } => {
                let mut subject = [0; 32];
                subject[..16].copy_from_slice(&catalog);
                subject[16..24].copy_from_slice(&restore_epoch.to_be_bytes());
                subject[24..].copy_from_slice(&version.to_be_bytes());
                AlarmRow {
                    code: 3,
                    subject,
                    first,
                    second,
                    noticed_ms,
                }
            }
        }
    }

    fn of_row(row: &AlarmRow) -> Option<(Self, u64)> {
        let (first, second) = (row.first, row.second);
        let alarm = match row.code {
            1 => Self::SeqReused {
                site: SiteId::from_bytes(row.subject),
                first,
                second,
            },
            2 => Self::TwoManifests {
                object: StorageId::from_bytes(row.subject),
                first,
                second,
            },
            3 => {
                let (catalog, rest) = row.subject.split_first_chunk::<16>()?;
                let (restore_epoch, version) = rest.split_first_chunk::<8>()?;
                Self::TwoRoots {
                    catalog: *catalog,
                    restore_epoch: u64::from_be_bytes(*restore_epoch),
                    version: u64::from_be_bytes(version.try_into().ok()?),
                    first,
                    second,
                }
            }
            _ => return None,
        };
        Some((alarm, row.noticed_ms))
    }
}

/// Whether two manifests of an edition's file say the same of it: its authority states it once for each domain that may read it
/// (DESIGN §10).
fn stated_again(one: &ObjectManifest, other: &ObjectManifest) -> bool {
    one.kind == ObjectKind::EditionFile
        && one.row_count == other.row_count
        && one.exact_byte_size == other.exact_byte_size
        && one.key_ref == other.key_ref
        && one.dek_commitment == other.dek_commitment
}

/// All alarms kept, oldest first, with when each was noticed.
pub(crate) fn list(rows: &(impl Rows + ?Sized)) -> Result<Vec<(Alarm, u64)>, StoreError> {
    let stored = rows.rows(&ALARMS, &[])?;
    stored
        .iter()
        .map(|(_, value)| Alarm::of_row(&decode(&ALARMS, value)?).ok_or(StoreError::RowForm(name(&ALARMS))))
        .collect()
}

impl Txn {
    /// What a new entry gives away about its author, looked up before it is stored.
    pub(super) fn find_alarms(&self, id: &RecordId, row: &EntryRow, facets: &Facets) -> Result<Vec<Alarm>, StoreError> {
        let mut alarms = Vec::new();
        if let Some((site, seq)) = facets.seq {
            let prefix = Key::new().id(site.as_bytes()).scope(row.scope).number(seq);
            if let Some(key) = self.keys(&BY_SEQ, &prefix, 1)?.first() {
                alarms.push(Alarm::SeqReused {
                    site,
                    first: record_at_end(&BY_SEQ, key)?,
                    second: *id,
                });
            }
        }
        if row.kind == EntryKind::Manifest
            && let Some(object) = facets.object
        {
            let manifest: ObjectManifest = body::decode(&row.bytes)?;
            let prefix = Key::new().id(object.as_bytes()).kind(EntryKind::Manifest);
            for key in self.keys(&BY_OBJECT, &prefix, usize::MAX)? {
                let first = record_at_end(&BY_OBJECT, &key)?;
                let other: ObjectManifest = body::of(self, &first)?;
                let same_claim = (other.producer, other.kind, other.table_id);
                if same_claim == (manifest.producer, manifest.kind, manifest.table_id)
                    && !stated_again(&other, &manifest)
                {
                    alarms.push(Alarm::TwoManifests {
                        object,
                        first,
                        second: *id,
                    });
                    break;
                }
            }
        }
        if let Some(key) = &facets.version {
            let new: InventoryVersion = body::decode(&row.bytes)?;
            for other in self.keys(&BY_VERSION, &version_key(key), usize::MAX)? {
                let first = record_at_end(&BY_VERSION, &other)?;
                let known: InventoryVersion = body::of(self, &first)?;
                if known.root_sha256 != new.root_sha256 {
                    alarms.push(Alarm::TwoRoots {
                        catalog: new.catalog_id,
                        restore_epoch: new.restore_epoch,
                        version: new.version,
                        first,
                        second: *id,
                    });
                    break;
                }
            }
        }
        Ok(alarms)
    }

    pub(super) fn raise(&mut self, alarm: &Alarm, now_ms: u64) -> Result<(), StoreError> {
        let number = self.next_number(&ALARMS)?;
        self.put(&ALARMS, &number.to_be_bytes(), &encode(&alarm.row(now_ms)))?;
        if self.count(&ALARMS)? > MAX_ALARMS {
            self.pop_first(&ALARMS)?;
        }
        Ok(())
    }
}
