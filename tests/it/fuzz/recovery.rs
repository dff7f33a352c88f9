//! Kit pages as people type them, ring blobs and recovery roots as a replica may hand them out.

use std::collections::BTreeSet;

use sovm_object::{
    entry::sealed,
    id::{KitId, RecordId, SiteId, StorageId},
    record::Role,
    types::ColumnType,
};
use sovm_recovery::{
    AgeSecret, Kit,
    kit::{Fingerprint, PageFacts, Replica},
    ring::{OpenedRing, RingBlob, RingBody},
    root::RootIn,
};

use super::{entries, storm, text_storm};
use crate::{
    sample::id_of,
    vectors::{DOMAIN, KEK_ID, kek, mesh, ring, site_key},
};

#[test]
fn kits_roots_and_rings() {
    let kit = Kit::from_seed([5; 32].into());
    let page = kit.show_page(&PageFacts {
        mesh_name: "weather club".into(),
        mesh_id: mesh(),
        domain_name: "main".into(),
        domain_id: DOMAIN,
        genesis: RecordId::from_bytes([1; 32]),
        made_ms: 1_700_000_000_000,
        root_id: StorageId::from_bytes([2; 32]),
        recovery_generation: 3,
        kek_generation: 2,
        replicas: vec![Replica {
            site: SiteId::from_bytes([3; 32]),
            address: "127.0.0.1:4000".into(),
        }],
        command: "sovm recover --kit page.txt".into(),
    });
    assert_eq!(Kit::parse_page(&page).unwrap().kit.id(), kit.id());
    let samples = [
        page.to_string(),
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

    let me = site_key();
    let body = RingBody {
        mesh_id: mesh(),
        domain_id: DOMAIN,
        ring: ring(),
        admins: BTreeSet::from([me.site_id()]),
        op_heads: BTreeSet::new(),
        newest_root: StorageId::from_bytes([2; 32]),
        kits: BTreeSet::from([kit.id()]),
        issuer: me.site_id(),
    };
    let blob = RingBlob::seal(body, &[kit.age_recipient()], &me).unwrap();
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
