//! Kit pages as people type them, ring blobs and recovery roots as a replica may hand them out.

use sovm_object::{
    entry::sealed,
    id::{KitId, StorageId},
    record::Role,
    types::ColumnType,
};
use sovm_recovery::{AgeSecret, Kit, kit::Fingerprint, ring::OpenedRing, root::RootIn};

use super::{entries, storm, text_storm};
use crate::{
    messages,
    sample::id_of,
    vectors::{DOMAIN, KEK_ID, kek, mesh, ring},
};

#[test]
fn kits_roots_and_rings() {
    let (kit, page) = (messages::kit(), messages::kit_page());
    assert_eq!(Kit::parse_page(&page).unwrap().kit.id(), kit.id());
    let samples = [
        page.clone(),
        kit.show_words().to_string(),
        page.to_uppercase(),
        page.replace('\n', "\r\n"),
    ];
    text_storm("kit page", 3_000, &samples, |text| drop(Kit::parse_page(text)));

    let secret = AgeSecret::from_bytes([6; 32].into());
    let texts = [
        secret.to_text().to_string(),
        kit.fingerprint().to_string(),
        mesh().to_string(),
    ];
    text_storm("keys and ids as text", 4_000, &texts, |text| {
        let _ = (
            AgeSecret::from_text(text),
            text.parse::<Fingerprint>(),
            text.parse::<StorageId>(),
        );
        let _ = (text.parse::<KitId>(), text.parse::<Role>(), text.parse::<ColumnType>());
    });

    let blob = messages::ring_blob();
    OpenedRing::open(blob.id(), blob.bytes(), &kit, (None, None)).unwrap();
    // Each opening costs a key agreement.
    storm("ring blob", 300, &[blob.bytes().to_vec()], |bytes| {
        let _ = OpenedRing::open(id_of(bytes), bytes, &kit, (None, None));
    });
    let (ring, mesh) = (ring(), mesh());
    let sealed: Vec<Vec<u8>> = entries()
        .iter()
        .map(|entry| sealed::seal(entry, &kek(), &KEK_ID, &mesh, &DOMAIN))
        .collect();
    storm("recovery root", 2_000, &sealed, |bytes| {
        if let Ok(root) = RootIn::decode(id_of(bytes), bytes) {
            let _ = root.open(&ring, Some(2));
        }
    });
}
