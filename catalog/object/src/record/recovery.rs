//! Records of recovery: which kits exist, which root is the newest, and the body of a root (SOP §12.7, SOP part 2.16).

use super::{body, check_ops_seen};
use crate::{
    hlc::Hlc,
    id::{DomainId, KekId, KitId, ManifestHash, MeshId, RecordId, SiteId, StorageId},
    payload,
};

payload! {
    /// A recovery kit's public halves, put into the domain by an admin. A retirement always wins.
    pub struct KitRecord {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The domain.
        3 domain_id: DomainId,
        /// The kit.
        4 kit_id: KitId,
        /// X25519 recipient of ring blobs.
        5 age_recipient: [u8; 32],
        /// The key that may add a recovered machine.
        6 recovery_site: SiteId,
        /// Whether the kit no longer counts.
        7 retired: bool,
        /// The admin.
        8 issuer: SiteId,
        /// The admin's counter.
        9 seq: u64,
        /// Heads of the membership ops the admin had seen.
        10 ops_seen: Vec<RecordId>,
        /// When.
        11 hlc: Hlc,
    }
    check |b| check_ops_seen(10, &b.ops_seen);
}
body!(KitRecord, "sovm/kit-record-v1", author: issuer, domain: |b| Some(b.domain_id));

payload! {
    /// Announces a recovery root and the ring blob beside it to the members of the domain.
    pub struct RootAnnouncement {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The domain.
        3 domain_id: DomainId,
        /// The root.
        4 root_id: StorageId,
        /// Its number in the chain.
        5 recovery_generation: u64,
        /// The ring blob written with it.
        6 ring_blob: StorageId,
        /// The checkpoint it opens.
        7 checkpoint: StorageId,
        /// Who issued it.
        8 issuer: SiteId,
        /// The issuer's counter.
        9 seq: u64,
        /// Heads of the membership ops the issuer had seen.
        10 ops_seen: Vec<RecordId>,
        /// When.
        11 hlc: Hlc,
    }
    check |b| check_ops_seen(10, &b.ops_seen);
}
body!(RootAnnouncement, "sovm/root-announcement-v1", author: issuer, domain: |b| Some(b.domain_id));

payload! {
    /// What a recovery root says once opened (SOP §12.7). Signed first, then sealed under the domain's KEK.
    pub struct RecoveryRootBody {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The domain.
        3 domain_id: DomainId,
        /// Generation of the KEK it is sealed under.
        4 kek_generation: u64,
        /// Previous root's number plus one.
        5 recovery_generation: u64,
        /// The checkpoint object.
        6 checkpoint_storage_id: StorageId,
        /// Hash of the checkpoint's manifest, which itself stays secret.
        7 checkpoint_manifest_hash: ManifestHash,
        /// Exact bytes of a complete access record for the checkpoint.
        8 checkpoint_access_record: Vec<u8>,
        /// The root before this one; absent in the first.
        9 previous_recovery_root_id: Option<StorageId>,
        /// Who issued it.
        10 issuer: SiteId,
        /// When; orders nothing (SOP-230).
        11 issued_hlc: Hlc,
        /// The KEK it is sealed under.
        12 kek_id: KekId,
        /// The issuer's counter.
        13 seq: u64,
        /// Heads of the membership ops the issuer had seen.
        14 ops_seen: Vec<RecordId>,
        /// Zero bytes that bring the sealed root to its padded size.
        15 padding: Vec<u8>,
    }
    check |b| {
        if b.padding.iter().any(|&byte| byte != 0) {
            return Err(crate::cbor::DecodeError::OutOfRange(15));
        }
        check_ops_seen(14, &b.ops_seen)
    };
}
body!(RecoveryRootBody, "sovm/recovery-root-body-v1", author: issuer, domain: |b| Some(b.domain_id),
    tail: 1, |b, e| { e.bytes(b.checkpoint_storage_id.as_bytes()); });
