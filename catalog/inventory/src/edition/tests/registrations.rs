//! Editions of a site that doesn't write the catalogue: registered, and held against what they say when they arrive.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::super::{
    EditionError, Publisher,
    check::{CheckOptions, Publishable},
    registration::{Claim, Registered, Unfit, examine},
    seal::SealRequest,
    testing::*,
};
use crate::{
    doc::{Document as _, EditionId, Pending, Sha256, layout},
    reader::find_head,
    transition::EditionKey,
    writer::Repair,
};

async fn sealed(world: &World, publisher: &Publisher) -> Publishable {
    drop(world.first().await);
    let builder = publisher.resume().await.unwrap();
    let sealed = builder.seal(SealRequest::default()).await.unwrap();
    let report = publisher
        .check(&sealed.manifest.edition_id, &CheckOptions::default())
        .await;
    report.unwrap().into_publishable().unwrap()
}

async fn unregistered(publisher: &Publisher) -> Option<EditionId> {
    let found = publisher.unregistered(&CheckOptions::default()).await.unwrap();
    found.map(|edition| edition.manifest().edition_id)
}

async fn seq(world: &World) -> u64 {
    find_head(&*world.store, None).await.unwrap().head.root().seq.get()
}

/// INV-403, INV-409: where another site writes, a seal leaves a registration and no version. Until it is sent, the journal keeps the
/// next edition from being begun; what was registered keeps its release time.
#[tokio::test]
async fn a_publisher_registers_and_writes_no_version() {
    let world = World::in_memory(true).await;
    let before = seq(&world).await;
    let publisher = world.publisher().registering();
    assert_eq!(unregistered(&publisher).await, None);
    let edition = sealed(&world, &publisher).await;
    assert_eq!(unregistered(&publisher).await, Some(edition_id(1)));
    assert!(matches!(
        publisher.record(&edition, "no").await,
        Err(EditionError::OnlyRegisters { .. })
    ));
    assert!(matches!(
        publisher.repair().await,
        Err(EditionError::Unregistered { .. })
    ));

    let first = publisher.register(&edition, Some(at(900))).await.unwrap();
    let again = publisher.register(&edition, None).await.unwrap();
    assert_eq!(first.bytes(), again.bytes());
    let other = publisher.register(&edition, Some(at(901))).await;
    assert!(
        matches!(other, Err(EditionError::RegisteredOtherwise { .. })),
        "{other:?}"
    );
    let contents = world.contents().await;
    let registration = Pending::decode(&contents[&layout::pending(&product(), &edition_id(1))]).unwrap();
    assert_eq!(
        (registration.edition_id, registration.release_at),
        (edition_id(1), Some(at(900)))
    );
    assert_eq!(seq(&world).await, before);
    assert_eq!(world.status(&edition_id(1)).await, None);

    // What sends the registration takes the journal away.
    let journal = crate::store::StorePath::parse(&layout::journal(&product(), &edition_id(1))).unwrap();
    world.store.delete(&journal).await.unwrap();
    assert_eq!(publisher.repair().await.unwrap(), []);
}

/// INV-401: an edition that was damaged after its seal is neither registered nor in the way of the next one.
#[tokio::test]
async fn a_damaged_seal_is_left() {
    let world = World::in_memory(true).await;
    let publisher = world.publisher().registering();
    drop(sealed(&world, &publisher).await);
    world.plant(&edition_id(1), "tables.json", b"{}").await;
    assert_eq!(unregistered(&publisher).await, None);
    assert_eq!(publisher.repair().await.unwrap(), [Repair::Left(edition_id(1))]);
}

/// INV-34: a journal that outlived the version that records its edition is removed, and records nothing.
#[tokio::test]
async fn a_journal_of_a_recorded_edition_goes() {
    let world = World::in_memory(false).await;
    let publisher = world.publisher();
    let edition = sealed(&world, &publisher).await;
    let name = layout::journal(&product(), &edition_id(1));
    let path = crate::store::StorePath::parse(&name).unwrap();
    let journal = world.store.get(&path).await.unwrap().unwrap().bytes;
    publisher.record(&edition, "a release").await.unwrap();
    let created = world.store.create(&path, journal).await.unwrap();
    assert_eq!(created, crate::store::Creation::Created);
    let before = seq(&world).await;
    let registering = world.publisher().registering();
    assert_eq!(
        registering.repair().await.unwrap(),
        [Repair::AlreadyRecorded(edition_id(1))]
    );
    assert!(!world.contents().await.contains_key(&name));
    assert_eq!(seq(&world).await, before);
}

/// The object that a data file is: here its own bytes.
fn object_of(bytes: &[u8]) -> Option<[u8; 32]> {
    Some(*blake3::hash(bytes).as_bytes())
}

/// What travels with a registration of the first edition.
async fn travelling() -> (Claim, BTreeMap<String, Bytes>) {
    let world = World::in_memory(true).await;
    let publisher = world.publisher().registering();
    let edition = sealed(&world, &publisher).await;
    let registration = publisher.register(&edition, None).await.unwrap();
    let contents = world.contents().await;
    let travels = |path: &String| {
        let folder = format!("{}/", layout::product(&product()));
        let journal = layout::journal(&product(), &edition_id(1));
        (path.starts_with(&folder) && *path != journal) || path.starts_with(layout::PENDING)
    };
    let came = contents.into_iter().filter(|(path, _)| travels(path)).collect();
    let claim = Claim {
        edition: EditionKey::new(product(), edition_id(1)),
        registration_sha256: registration.sha256(),
    };
    (claim, came)
}

/// INV-403: a whole edition is taken, its files before its manifest and its registration last; a second look says the same.
#[tokio::test]
async fn a_whole_edition_is_taken() {
    let (claim, came) = travelling().await;
    let registered: Registered = examine(&claim, &came, object_of).unwrap();
    assert_eq!(registered.documents.len(), came.len());
    assert!(registered.documents.iter().all(|(path, bytes)| came[path] == *bytes));
    let names: Vec<&str> = registered.documents.iter().map(|(path, _)| path.as_str()).collect();
    let manifest = layout::manifest(&product(), &edition_id(1));
    let pending = layout::pending(&product(), &edition_id(1));
    assert_eq!(names[names.len() - 2..], [manifest.as_str(), pending.as_str()]);
    assert_eq!(registered.manifest.edition_id, edition_id(1));
    let data = came.iter().filter(|(path, _)| path.contains("/data/"));
    let objects: Vec<[u8; 32]> = data.filter_map(|(_, bytes)| object_of(bytes)).collect();
    assert_eq!(objects.len(), 1);
    assert!(registered.objects.iter().eq(&objects));
    assert_eq!(examine(&claim, &came, object_of).unwrap(), registered);
}

/// INV-104, INV-403: of an edition with a document too few, too many, or with one byte changed, nothing is taken; the refusal names the
/// document and a rule.
#[tokio::test]
async fn a_changed_edition_is_refused() {
    let (claim, came) = travelling().await;
    let refused = |claim: &Claim, came: &BTreeMap<String, Bytes>, named: &str| {
        let unfit = examine(claim, came, object_of).unwrap_err();
        assert!(unfit.to_string().contains(named), "{named}: {unfit}");
        assert!(unfit.rule() > 0);
        unfit
    };
    let manifest = layout::manifest(&product(), &edition_id(1));
    assert!(came.len() >= 5, "{:?}", came.keys());
    for path in came.keys() {
        let mut without = came.clone();
        without.remove(path);
        let unfit = refused(&claim, &without, path);
        assert_eq!(unfit, Unfit::Absent { path: path.clone() });
        let mut changed = came.clone();
        let mut bytes = came[path].to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        changed.insert(path.clone(), bytes.into());
        refused(&claim, &changed, path);
    }
    for surplus in [
        "CURRENT",
        "inventory/000000000002.json",
        "pending/other/x",
        "products/population/x",
    ] {
        let mut more = came.clone();
        more.insert(surplus.to_owned(), Bytes::from_static(b"{}"));
        let path = surplus.to_owned();
        assert_eq!(refused(&claim, &more, surplus), Unfit::Unnamed { path });
    }
    let of = |claim: &Claim| examine(claim, &came, object_of).unwrap_err();
    let other_edition = Claim {
        edition: EditionKey::new(product(), edition_id(2)),
        ..claim.clone()
    };
    assert!(matches!(of(&other_edition), Unfit::Absent { .. }));
    let other_product = Claim {
        edition: EditionKey::new("elsewhere".parse().unwrap(), edition_id(1)),
        ..claim.clone()
    };
    assert!(matches!(of(&other_product), Unfit::Absent { .. }));
    let other_hash = Claim {
        registration_sha256: Sha256::of(b"another"),
        ..claim.clone()
    };
    assert!(matches!(of(&other_hash), Unfit::Document { .. }));
    // A data file's document that names no object, or another one.
    let unfit = examine(&claim, &came, |_| None).unwrap_err();
    assert!(
        matches!(&unfit, Unfit::Differs { path } if path.contains("/data/")),
        "{unfit}"
    );
    let unfit = examine(&claim, &came, |_| Some([7; 32])).unwrap_err();
    assert!(matches!(unfit, Unfit::Differs { .. }), "{unfit}");
    // The manifest of another edition under this one's name.
    let mut renamed = came.clone();
    let text = String::from_utf8(came[&manifest].to_vec()).unwrap();
    let text = text.replace(&edition_id(1).to_string(), &edition_id(2).to_string());
    renamed.insert(manifest.clone(), text.into());
    let unfit = refused(&claim, &renamed, &manifest);
    assert_eq!(unfit.rule(), 37);
}
