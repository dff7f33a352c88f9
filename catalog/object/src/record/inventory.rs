//! Records that bring an Inventory onto the mesh: a version of a catalogue, what may be fetched ahead of it, and an edition that a
//! publisher asks to be recorded (DESIGN §10).
//!
//! None holds a document. A version names the hash of its root and the object its new documents travel in; a list names ciphertexts
//! and nothing about them; a registration names the object that an edition's documents travel in.

use super::{MAX_NAME_BYTES, body, check_ops_seen, check_sorted};
use crate::{
    cbor::DecodeError,
    hlc::Hlc,
    id::{DomainId, MeshId, RecordId, SiteId, StorageId},
    payload,
};

/// The highest number of a version: a root's name has twelve digits (INV-19).
pub const MAX_VERSION: u64 = 999_999_999_999;

/// Most objects one list names.
pub const MAX_PREFETCH: usize = 256;

payload! {
    /// One version of a catalogue, signed by its release authority.
    pub struct InventoryVersion {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The domain whose members read this chain.
        3 domain_id: DomainId,
        /// The catalogue.
        4 catalog_id: [u8; 16],
        /// How often the catalogue was restored from a copy.
        5 restore_epoch: u64,
        /// The root's number.
        6 version: u64,
        /// SHA-256 of the root's exact bytes.
        7 root_sha256: [u8; 32],
        /// SHA-256 of the root before this one; absent in version 1 only.
        8 previous: Option<[u8; 32]>,
        /// The plain file that holds this version's new documents.
        9 bundle: StorageId,
        /// The release authority.
        10 authority: SiteId,
        /// The authority's counter.
        11 seq: u64,
        /// Heads of the membership ops the authority had seen.
        12 ops_seen: Vec<RecordId>,
        /// When.
        13 hlc: Hlc,
    }
    check check_version;
}
body!(InventoryVersion, "sovm/inventory-version-v1", author: authority, domain: |b| Some(b.domain_id));

fn check_version(version: &InventoryVersion) -> Result<(), DecodeError> {
    if !(1..=MAX_VERSION).contains(&version.version) {
        return Err(DecodeError::OutOfRange(6));
    }
    match (version.version, version.previous) {
        (1, Some(_)) => return Err(DecodeError::OutOfRange(8)),
        (2.., None) => return Err(DecodeError::Missing(8)),
        _ => {}
    }
    check_object(9, &version.bundle)?;
    check_ops_seen(12, &version.ops_seen)
}

payload! {
    /// Ciphertexts that members of a domain may fetch before they get a manifest or a key of them.
    pub struct PrefetchList {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The domain.
        3 domain_id: DomainId,
        /// The objects, sorted: their order tells nothing.
        4 objects: Vec<StorageId>,
        /// Who asks for them to be fetched.
        5 issuer: SiteId,
        /// The issuer's counter.
        6 seq: u64,
        /// Heads of the membership ops the issuer had seen.
        7 ops_seen: Vec<RecordId>,
        /// When.
        8 hlc: Hlc,
    }
    check check_list;
}
body!(PrefetchList, "sovm/prefetch-list-v1", author: issuer, domain: |b| Some(b.domain_id));

fn check_list(list: &PrefetchList) -> Result<(), DecodeError> {
    if !(1..=MAX_PREFETCH).contains(&list.objects.len()) {
        return Err(DecodeError::OutOfRange(4));
    }
    check_sorted(4, &list.objects)?;
    list.objects.iter().try_for_each(|object| check_object(4, object))?;
    check_ops_seen(7, &list.ops_seen)
}

payload! {
    /// An edition that a publisher sealed and asks the catalogue's authority to record (INV-403).
    pub struct Registration {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The release domain.
        3 domain_id: DomainId,
        /// The catalogue.
        4 catalog_id: [u8; 16],
        /// The product.
        5 product: String,
        /// The edition, a UUIDv7.
        6 edition_id: [u8; 16],
        /// The plain file that holds the edition's documents and the registration's own.
        7 bundle: StorageId,
        /// SHA-256 of the exact bytes of `pending/<product>/<edition>.json`.
        8 registration_sha256: [u8; 32],
        /// Who sealed it.
        9 publisher: SiteId,
        /// The publisher's counter.
        10 seq: u64,
        /// Heads of the membership ops the publisher had seen.
        11 ops_seen: Vec<RecordId>,
        /// When.
        12 hlc: Hlc,
    }
    check check_registration;
}
body!(Registration, "sovm/registration-v1", author: publisher, domain: |b| Some(b.domain_id));

fn check_registration(registration: &Registration) -> Result<(), DecodeError> {
    if !is_product(&registration.product) {
        return Err(DecodeError::OutOfRange(5));
    }
    if !is_uuid7(&registration.edition_id) {
        return Err(DecodeError::OutOfRange(6));
    }
    check_object(7, &registration.bundle)?;
    check_ops_seen(11, &registration.ops_seen)
}

/// A product's id is a directory's name in every store, so it never climbs out of one.
fn is_product(product: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&product.len())
        && product.starts_with(|first: char| first.is_ascii_alphanumeric())
        && product
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

/// Version 7 and the variant of RFC 9562; the rest is time and chance.
const fn is_uuid7(id: &[u8; 16]) -> bool {
    id[6] >> 4 == 7 && id[8] >> 6 == 0b10
}

/// SOP-55: the hash of nothing names no object.
fn check_object(field: u64, object: &StorageId) -> Result<(), DecodeError> {
    if object.as_bytes() == blake3::hash(&[]).as_bytes() {
        Err(DecodeError::OutOfRange(field))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
