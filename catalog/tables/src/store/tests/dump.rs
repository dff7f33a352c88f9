//! What a copy of the catalogue's files and of what travels shows (SOP §12.3, §12.4).

use sovm_object::{
    entry::sealed,
    key::Value,
    record::{AccessRecord, ColumnStats, ObjectManifest, access::Grant},
};

use super::*;

/// SOP-147, SOP-148, SOP-177: the bytes of a manifest, and the bounds in it, are neither in the files nor in what goes to other
/// members, although the entry is accepted and its statistics are ready for the planner.
#[test]
fn manifests_rest_and_travel_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new();
    let (min, max) = (
        Value::Text("planted-minimum-word".into()).to_bytes(),
        Value::Text("planted-zenith-word".into()).to_bytes(),
    );
    let manifest = world.sign(
        ObjectManifest {
            pruning_statistics: Some(vec![ColumnStats {
                field_id: 1,
                min: Some(min.clone()),
                max: Some(max.clone()),
                null_count: 0,
                min_exact: true,
                max_exact: true,
                has_nan: false,
            }]),
            ..world.manifest()
        },
        &world.member,
    );
    let grant = Grant {
        object_manifest_hash: manifest.manifest_hash(),
        ..world.grant()
    };
    let catalog = Catalog::open(dir.path(), &key()).unwrap();
    let mut txn = catalog.begin().unwrap();
    world.found(&mut txn);
    world.admit(&mut txn, manifest.clone());
    let access = world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.member);
    world.admit(&mut txn, access.clone());
    let _ = txn.commit().unwrap();
    let shown = catalog.read().unwrap().objects(&world.table_id, &world.ring()).unwrap();
    let statistics = shown[0].manifests[0].1.pruning_statistics.clone().unwrap();
    assert_eq!((&statistics[0].min, &statistics[0].max), (&Some(min), &Some(max)));

    let open = files(dir.path());
    drop(catalog);
    let travels = [manifest.bytes(), access.bytes()]
        .map(|bytes| sealed::seal(bytes, &world.kek(), &world.kek_id, &world.mesh, &world.domain));
    for (what, bytes) in [
        ("open", open),
        ("closed", files(dir.path())),
        ("sealed", travels.concat()),
    ] {
        let found = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
        for word in ["planted", "minimum-word", "zenith"] {
            assert!(!found(word.as_bytes()), "{what}: {word}");
        }
        for record in [manifest.bytes(), access.bytes()] {
            assert!(record.chunks_exact(48).take(5).all(|part| !found(part)), "{what}");
        }
    }
}
