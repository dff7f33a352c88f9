//! What the indexes say about an entry.

use sovm_object::{
    entry::EntryKind,
    id::{DomainId, KekId, ManifestHash, RecordId, SiteId, StorageId, TableId},
    record as r,
};

use crate::{
    body,
    store::{
        StoreError,
        rows::{EntryRow, Key},
        tables::{BY_KEK, BY_MANIFEST, BY_OBJECT, BY_SCOPE, BY_SEQ, BY_TABLE, BY_VERSION, Table},
    },
};

/// The parts of an entry that indexes name.
#[derive(Debug, Default)]
pub(crate) struct Facets {
    /// Author and the author's counter; statements of a site about itself have no counter.
    pub(crate) seq: Option<(SiteId, u64)>,
    pub(crate) table: Option<TableId>,
    pub(crate) object: Option<StorageId>,
    /// Further objects a recovery root's announcement names, or all that a prefetch list names.
    pub(crate) more_objects: Vec<StorageId>,
    /// The manifest an access record is for.
    pub(crate) manifest: Option<ManifestHash>,
    pub(crate) kek: Option<KekId>,
    /// Where a version of an Inventory stands.
    pub(crate) version: Option<VersionKey>,
}

/// Domain, catalogue, restore epoch and number of a version.
pub(crate) type VersionKey = (DomainId, [u8; 16], u64, u64);

/// The beginning of the keys of all entries for one version.
pub(crate) fn version_key(&(domain, catalog, restore_epoch, version): &VersionKey) -> Key {
    Key::new()
        .id(domain.as_bytes())
        .id(&catalog)
        .number(restore_epoch)
        .number(version)
}

impl Facets {
    pub(crate) fn of(row: &EntryRow) -> Result<Self, StoreError> {
        let bytes = &row.bytes;
        macro_rules! numbered {
            ($body:ty, $author:ident $(, $field:ident: $from:ident)*) => {{
                let b: $body = body::decode(bytes)?;
                Self { seq: Some((b.$author, b.seq)), $($field: b.$from.into(),)* ..Self::default() }
            }};
        }
        Ok(match row.kind {
            EntryKind::MeshGenesis
            | EntryKind::NodeBinding
            | EntryKind::CommitRecord
            | EntryKind::HeadClaim
            | EntryKind::RejoinOffer => Self::default(),
            EntryKind::MeshName => numbered!(r::MeshName, issuer),
            EntryKind::MembershipOp => numbered!(r::MembershipOp, issuer),
            EntryKind::DomainGenesis => numbered!(r::DomainGenesis, founder),
            EntryKind::KekRecord => numbered!(r::KekRecord, minter, kek: kek_id),
            EntryKind::KitRecord => numbered!(r::KitRecord, issuer),
            EntryKind::RootAnnouncement => {
                let b: r::RootAnnouncement = body::decode(bytes)?;
                Self {
                    seq: Some((b.issuer, b.seq)),
                    object: Some(b.root_id),
                    more_objects: vec![b.ring_blob, b.checkpoint],
                    ..Self::default()
                }
            }
            EntryKind::TableGenesis => numbered!(r::TableGenesis, creator, table: table_id),
            EntryKind::TableOp => numbered!(r::TableOp, issuer, table: table_id),
            EntryKind::Manifest => numbered!(r::ObjectManifest, producer, table: table_id, object: storage_id),
            EntryKind::NewerManifest => {
                let b: r::ManifestOutline = body::decode(bytes)?;
                Self {
                    object: Some(b.storage_id),
                    ..Self::default()
                }
            }
            EntryKind::Access => {
                numbered!(r::AccessRecord, issuer, object: storage_id, manifest: object_manifest_hash, kek: kek_id)
            }
            EntryKind::InventoryVersion => {
                let b: r::InventoryVersion = body::decode(bytes)?;
                Self {
                    seq: Some((b.authority, b.seq)),
                    object: Some(b.bundle),
                    version: Some((b.domain_id, b.catalog_id, b.restore_epoch, b.version)),
                    ..Self::default()
                }
            }
            EntryKind::PrefetchList => numbered!(r::PrefetchList, issuer, more_objects: objects),
            EntryKind::Registration => numbered!(r::Registration, publisher, object: bundle),
        })
    }

    /// Objects whose bytes an entry of this kind makes us want. An access record names one, but only its manifest says what it is,
    /// and what a newer manifest describes is of no use here.
    pub(crate) fn named_objects(&self, kind: EntryKind) -> impl Iterator<Item = &StorageId> {
        let wanted = !matches!(kind, EntryKind::Access | EntryKind::NewerManifest);
        self.object.iter().chain(&self.more_objects).filter(move |_| wanted)
    }

    /// Membership never depends on a clock; everything else waits when its stamp is ahead.
    pub(crate) const fn clock_matters(&self, kind: EntryKind) -> bool {
        !matches!(
            kind,
            EntryKind::MeshGenesis | EntryKind::DomainGenesis | EntryKind::MembershipOp
        )
    }

    /// The rows that index an entry, the one by scope of first admission included.
    pub(crate) fn index_keys(&self, id: &RecordId, row: &EntryRow) -> Vec<(Table, Key)> {
        let mut keys = vec![(BY_SCOPE, Key::new().scope(row.scope).kind(row.kind).id(id.as_bytes()))];
        let by = |key: &[u8]| Key::new().id(key).kind(row.kind).id(id.as_bytes());
        if let Some((author, seq)) = &self.seq {
            keys.push((
                BY_SEQ,
                Key::new()
                    .id(author.as_bytes())
                    .scope(row.scope)
                    .number(*seq)
                    .id(id.as_bytes()),
            ));
        }
        if let Some(table) = &self.table {
            keys.push((BY_TABLE, by(table.as_bytes())));
        }
        for object in self.object.iter().chain(&self.more_objects) {
            keys.push((BY_OBJECT, by(object.as_bytes())));
        }
        if let Some(manifest) = &self.manifest {
            keys.push((BY_MANIFEST, Key::new().id(manifest.as_bytes()).id(id.as_bytes())));
        }
        if let Some(kek) = &self.kek {
            keys.push((BY_KEK, by(kek.as_bytes())));
        }
        if let Some(version) = &self.version {
            keys.push((BY_VERSION, version_key(version).id(id.as_bytes())));
        }
        keys
    }
}
