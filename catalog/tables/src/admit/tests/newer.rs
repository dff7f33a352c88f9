//! Manifests of later builds: kept, passed on, in no table, and read once this build can (SOP-4).

use sovm_object::{
    cbor::{Encoder, from_slice},
    record::ManifestOutline,
    sign::SignedIn,
};

use super::*;

/// What a later build might write about the world's object.
fn later(world: &World, author: &SiteKey, version: u64, ms: u64) -> Signed<ManifestOutline> {
    let mut e = Encoder::new();
    e.map(7)
        .uint(1)
        .uint(version)
        .uint(2)
        .field(&world.mesh)
        .uint(3)
        .uint(1);
    e.uint(4).field(&world.storage_id).uint(8).field(&author.site_id());
    e.uint(10).field(&Hlc::new(ms, 0)).uint(99).text("later");
    world.sign(from_slice(&e.into_vec()).unwrap(), author)
}

fn by_member(world: &World, version: u64) -> Signed<ManifestOutline> {
    later(world, &world.member, version, NOW - 4_000)
}

/// A grant that stands on any manifest of the world's object.
fn grant_on(world: &World, manifest: RecordId) -> Signed<AccessRecord> {
    let grant = Grant {
        object_manifest_hash: ManifestHash::from_bytes(*manifest.as_bytes()),
        ..world.grant()
    };
    world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.member)
}

/// SOP-4: a manifest of version 2 is held as newer than this node, with what stands on it; nothing of it is in a table or wanted.
#[test]
fn a_newer_manifest_is_kept_and_in_no_table() {
    for granted_first in [false, true] {
        let (world, catalog) = founded();
        let manifest = by_member(&world, 2);
        let grant = grant_on(&world, manifest.id());
        let mut arrivals = [manifest.bytes(), grant.bytes()];
        if granted_first {
            arrivals.reverse();
        }
        for bytes in arrivals {
            receive(&world, &catalog, bytes, &mut 0).unwrap();
        }
        for id in [manifest.id(), grant.id()] {
            assert_eq!(state(&catalog, id), Some(EntryState::Unsupported));
        }
        let snapshot = catalog.read().unwrap();
        assert!(snapshot.objects(&world.table_id, &world.ring()).unwrap().is_empty());
        assert!(snapshot.object(&world.storage_id, &world.ring()).unwrap().is_empty());
        assert!(snapshot.pending_bytes().unwrap().is_empty());
        assert!(snapshot.dek(&world.storage_id, &world.ring()).is_err());
        let counts = snapshot.counts().unwrap();
        assert_eq!((counts.unsupported, counts.no_manifest, counts.refused), (2, 0, 0));
        // Peers and checkpoints get the exact bytes.
        let shared = snapshot.checkpoint_records(&world.domain).unwrap();
        let kept = shared.iter().find(|record| record.id == manifest.id()).unwrap();
        assert_eq!(
            (kept.kind, &kept.bytes[..]),
            (EntryKind::NewerManifest, manifest.bytes())
        );
        let element = element_id(&manifest.id(), Some(&world.kek_id));
        assert_eq!(snapshot.element(&element).unwrap().unwrap().bytes, manifest.bytes());
        drop(snapshot);
        check_indexes(&catalog);
    }
}

/// SOP-4, SOP-169: a stranger's waits like any other entry of somebody who may never have been a member; one from the future is set
/// aside; a table goes on as it was.
#[test]
fn a_newer_form_gives_no_rights() {
    let (world, catalog) = founded();
    let stranger = later(&world, &world.stranger, 2, NOW - 4_000);
    let ahead = later(&world, &world.member, 2, NOW + MAX_AHEAD_MS + 1);
    for (manifest, expected) in [
        (stranger, EntryState::WaitingAuthority),
        (ahead, EntryState::Quarantined(QuarantineReason::ClockAhead)),
    ] {
        receive(&world, &catalog, manifest.bytes(), &mut 0).unwrap();
        assert_eq!(state(&catalog, manifest.id()), Some(expected));
    }
    commit(&catalog, |txn| {
        world.admit(txn, by_member(&world, 2));
        world.admit(txn, world.signed_manifest());
        world.admit(txn, world.sign(world.access(), &world.member));
    });
    let objects = catalog.read().unwrap().objects(&world.table_id, &world.ring()).unwrap();
    assert_eq!((objects.len(), objects[0].manifests.len()), (1, 1));
    assert_eq!(
        state(&catalog, world.signed_manifest().id()),
        Some(EntryState::Accepted)
    );
}

/// SOP-4: a build that can read what an earlier one kept does so at its start, and all that waits for it counts. A manifest of today
/// plays the part of one that was newer: it was admitted by its outline.
#[test]
fn what_can_be_read_later_is_read_then() {
    let (world, kept) = founded();
    let (_, fresh) = founded();
    let known = world.signed_manifest();
    let outline = SignedIn::<ManifestOutline>::decode(known.bytes())
        .unwrap()
        .verify(&world.mesh)
        .unwrap();
    let access = world.sign(world.access(), &world.member);
    commit(&kept, |txn| {
        world.admit(txn, access.clone());
        world.admit(txn, outline.clone());
        world.admit(txn, by_member(&world, 3));
    });
    assert_eq!(state(&kept, known.id()), Some(EntryState::Unsupported));
    assert_eq!(state(&kept, access.id()), Some(EntryState::Unsupported));
    commit(&kept, |txn| assert_eq!(txn.decode_again(NOW).unwrap(), 1));
    commit(&kept, |txn| {
        assert_eq!(txn.decode_again(NOW).unwrap(), 0, "nothing is left to do")
    });
    commit(&fresh, |txn| {
        world.admit(txn, access.clone());
        world.admit(txn, known.clone());
        world.admit(txn, by_member(&world, 3));
    });
    // Afterwards nothing tells the two apart.
    assert!(summary(&world, &kept) == summary(&world, &fresh));
    assert_eq!(state(&kept, known.id()), Some(EntryState::Accepted));
    assert_eq!(state(&kept, by_member(&world, 3).id()), Some(EntryState::Unsupported));
    check_indexes(&kept);
}
