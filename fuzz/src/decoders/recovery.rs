//! What a replica may hand out to somebody who recovers, and the page a person types in.

use sovm_object::{
    cbor,
    id::{KekId, KitId, SiteId, StorageId},
    kek::KekRing,
    record::Role,
    secret::Kek,
};
use sovm_recovery::{
    AgeSecret, Kit,
    checkpoint::CheckpointBody,
    kit::Fingerprint,
    ring::{self, OpenedRing},
    root::RootIn,
};

use super::wrap::{self, signed_around};

fn id_of(bytes: &[u8]) -> StorageId {
    StorageId::from_bytes(*blake3::hash(bytes).as_bytes())
}

/// First byte even: the rest is a ring blob as stored. Odd: the signed body inside one.
pub(super) fn ring(bytes: &[u8]) {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    if how % 2 == 1 {
        ring::fuzz_decode(bytes);
        ring::fuzz_decode(&signed_around("sovm/ring-blob-v1", bytes));
        return;
    }
    let kit = Kit::from_seed([5; 32].into());
    let _ = OpenedRing::open(id_of(bytes), bytes, &kit, (None, None));
}

/// A recovery root as stored.
pub(super) fn root(bytes: &[u8]) {
    let mut ring = KekRing::default();
    ring.insert(2, KekId::from_bytes([8; 16]), Kek::from_bytes([9; 32]));
    if let Ok(root) = RootIn::decode(id_of(bytes), bytes) {
        let _ = root.open(&ring, Some(2));
    }
}

/// A kit page, its words, and the keys and ids on it.
pub(super) fn kit_page(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(parsed) = Kit::parse_page(&text) {
        let words = Kit::parse_page(&parsed.kit.show_words()).expect("the words are read back");
        assert_eq!(words.kit.id(), parsed.kit.id());
    }
    if let Some(secret) = AgeSecret::from_text(&text) {
        assert!(AgeSecret::from_text(&secret.to_text()).is_some());
    }
    if let Ok(id) = text.parse::<StorageId>() {
        assert_eq!(id.to_string().parse::<StorageId>().ok(), Some(id));
    }
    let _ = (
        text.parse::<Fingerprint>(),
        text.parse::<KitId>(),
        text.parse::<SiteId>(),
        text.parse::<Role>(),
    );
}

/// The content of a checkpoint object.
pub(super) fn checkpoint(bytes: &[u8]) {
    if let Ok(body) = wrap::bare::<CheckpointBody>(bytes) {
        assert_eq!(cbor::from_slice(bytes), Ok(body));
    }
}
