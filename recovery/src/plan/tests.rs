use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    task::{Context, Poll, Waker},
};

use sovm_object::{
    entry::{VerifiedEntry, sealed},
    hlc::Hlc,
    id::{DomainId, MeshId, RecordId, StorageId, TableId},
    record::{DomainGenesis, NodeBinding, Role},
    secret::SiteKey,
    sign::Signed,
};

use super::*;
use crate::{
    blobs::DirBlobs,
    chain::Lineage,
    checkpoint::{CheckpointBody, CheckpointError, CheckpointRecord, SetError, domain_digest},
    drill,
    kit::Kit,
    ring::RingBlob,
    root::Root,
};

mod world;

pub(crate) use world::{Heap, World};

/// The blobs in these tests are in memory or on disk, so every future is ready at once.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here waits"),
    }
}

/// Why a root led nowhere.
fn step(error: &RecoverError) -> Option<&StepError> {
    match error {
        RecoverError::Checkpoint { cause, .. } => Some(cause),
        _ => None,
    }
}

fn ids(recovered: &Recovered) -> BTreeSet<RecordId> {
    recovered.entries.iter().map(|r| r.entry.id()).collect()
}

/// SOP-213, SOP-200, SOP-205: page and blobs alone give back every record, the keys and the digest.
#[test]
fn the_whole_path_from_a_page_and_blobs() {
    let mut world = World::new();
    world.announce();
    let first = world.publish(None);
    let mut seen = Vec::new();
    let kit = world.page(&first);
    let recovered = ready(recover(&kit, &world.heap, &RecoverOptions::default(), &mut |step| {
        seen.push(step)
    }))
    .unwrap();
    assert_eq!(ids(&recovered), first.ids);
    assert_eq!(recovered.report.digest, domain_digest(first.ids.iter().copied()));
    assert_eq!((recovered.mesh_id, recovered.domain_id), (world.mesh, world.domain));
    assert_eq!(recovered.keys.ring.len(), 1);
    assert_eq!(recovered.keys.root(), Some(&first.root.reference()));
    assert_eq!(
        recovered.keys.admins,
        [world.admin.site_id(), world.second.site_id()].into()
    );
    assert_eq!(recovered.roster.role(&world.writer.site_id()), Some(Role::Writer));
    assert!(!recovered.report.is_stale());
    assert_eq!(recovered.entries[0].entry.author(), world.admin.site_id());
    assert!(
        matches!(recovered.entries[0].entry, VerifiedEntry::MeshGenesis(_)),
        "founding records come first"
    );
    let sealed: Vec<_> = recovered.entries.iter().filter(|r| r.sealed.is_some()).collect();
    assert_eq!(sealed.len(), 1);
    assert!(
        matches!(seen[0], Progress::Listed { blobs: 7 }) && seen.len() >= 4,
        "{seen:?}"
    );
}

/// DESIGN §9: `sovm recover` needs only the words and a bare directory of blobs, whatever its files are called.
#[test]
fn words_and_a_bare_directory_are_enough() {
    let mut world = World::new();
    let first = world.publish(None);
    let dir = tempfile::TempDir::new().unwrap();
    for (number, bytes) in world.heap.0.values().enumerate() {
        std::fs::write(dir.path().join(format!("file-{number}")), bytes).unwrap();
    }
    let blobs = DirBlobs::open(dir.path()).unwrap();
    let recovered = ready(recover(&world.words(), &blobs, &RecoverOptions::default(), &mut |_| {})).unwrap();
    assert_eq!(ids(&recovered), first.ids);
}

/// The future crosses threads in the node.
#[test]
fn the_future_is_send() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let mut world = World::new();
    let first = world.publish(None);
    let kit = world.page(&first);
    let mut progress = |_| {};
    let options = RecoverOptions::default();
    assert!(ready(is_send(recover(&kit, &world.heap, &options, &mut progress))).is_ok());
}

/// DESIGN §9: a stale kit opens the newest ring blob, hence every generation, and walks forward.
#[test]
fn a_stale_page_walks_forward_over_rotations() {
    let mut world = World::new();
    let first = world.publish(None);
    let kit = world.page(&first);
    let mut last = first.clone();
    for _ in 0..3 {
        world.rotate();
        world.announce();
        last = world.publish(Some(&last));
    }
    let recovered = world.recover(&kit).unwrap();
    assert_eq!(ids(&recovered), last.ids);
    assert_eq!(recovered.report.heads, [last.root.reference()]);
    assert_eq!((recovered.report.roots, recovered.keys.ring.len()), (4, 4));
    // Old ring blobs may all be gone but the newest.
    world.heap.0.remove(&first.ring);
    assert_eq!(ids(&world.recover(&kit).unwrap()), last.ids);
}

/// SOP-215: an older root gives exactly its own records, when the operator names it.
#[test]
fn an_older_root_can_be_chosen() {
    let mut world = World::new();
    let first = world.publish(None);
    world.announce();
    let second = world.publish(Some(&first));
    let options = RecoverOptions {
        root: Some(first.root.id()),
        ..Default::default()
    };
    for kit in [world.page(&second), world.page(&first), world.words()] {
        let recovered = world.recover_with(&kit, &options).unwrap();
        assert_eq!(ids(&recovered), first.ids);
    }
    let nowhere = RecoverOptions {
        root: Some(StorageId::from_bytes([8; 32])),
        ..Default::default()
    };
    assert!(matches!(
        world.recover_with(&world.words(), &nowhere),
        Err(RecoverError::NotThatRoot { .. })
    ));
}

/// SOP-195: ciphertext, catalogue and keys each missing in turn are three errors, and nothing partial comes out.
#[test]
fn each_missing_third_has_its_own_error() {
    let mut world = World::new();
    let first = world.publish(None);
    let kit = world.page(&first);
    let without = |id: &StorageId| {
        let mut heap = world.heap.clone();
        heap.0.remove(id);
        ready(recover(&kit, &heap, &RecoverOptions::default(), &mut |_| {})).unwrap_err()
    };
    let no_ring = without(&first.ring);
    assert!(matches!(no_ring, RecoverError::NoRing { .. }));
    assert!(no_ring.to_string().contains("keys are missing"), "{no_ring}");
    let no_root = without(&first.root.id());
    assert!(
        matches!(no_root, RecoverError::NoRoot { wanted, .. } if wanted == first.root.id()),
        "{no_root}"
    );
    let no_checkpoint = without(&first.checkpoint);
    assert!(
        matches!(step(&no_checkpoint), Some(StepError::Object(CheckpointError::Missing(id))) if *id == first.checkpoint),
        "{no_checkpoint}"
    );
    assert!(no_checkpoint.to_string().contains("No older root"), "{no_checkpoint}");
    let empty = ready(recover(&kit, &Heap::default(), &RecoverOptions::default(), &mut |_| {}));
    assert!(matches!(empty, Err(RecoverError::Empty)));
}

/// SOP-223: a checkpoint that is gone fails closed and offers the root before it; going there is explicit and reported.
#[test]
fn a_lost_checkpoint_offers_the_older_root() {
    let mut world = World::new();
    let first = world.publish(None);
    world.announce();
    let second = world.publish(Some(&first));
    world.heap.0.remove(&second.checkpoint);
    let kit = world.page(&first);
    let error = world.recover(&kit).unwrap_err();
    assert!(
        matches!(&error, RecoverError::Checkpoint { previous: Some(previous), older_tried, .. }
            if *previous == first.root.id() && older_tried.is_empty()),
        "{error}"
    );
    assert!(error.to_string().contains("--accept-older"), "{error}");
    let options = RecoverOptions {
        allow_older: true,
        ..Default::default()
    };
    let recovered = world.recover_with(&kit, &options).unwrap();
    assert_eq!(ids(&recovered), first.ids);
    assert!(recovered.report.is_stale() && recovered.report.failed[0].0 == second.root.id());

    world.heap.0.remove(&first.checkpoint);
    let error = world.recover_with(&kit, &options).unwrap_err();
    assert!(
        matches!(&error, RecoverError::Checkpoint { older_tried, previous: None, .. } if older_tried == &[second.root.id()]),
        "{error}"
    );
}

/// SOP-216: a chain with a missing link is refused with "gap", unless the operator trusts the ring blob's root.
#[test]
fn a_gap_in_the_chain_is_named() {
    let mut world = World::new();
    let first = world.publish(None);
    let kit = world.page(&first);
    let second = world.publish(Some(&first));
    let third = world.publish(Some(&second));
    world.heap.0.remove(&second.root.id());
    world.heap.0.remove(&first.root.id());
    let error = world.recover(&kit).unwrap_err();
    assert!(
        matches!(&error, RecoverError::Untrusted { head, cause: crate::chain::ChainError::Gap { missing, number: 2 } }
            if *head == third.root.id() && *missing == second.root.id()),
        "{error}"
    );
    assert!(error.to_string().contains("gap"), "{error}");
    let options = RecoverOptions {
        trust_ring: true,
        ..Default::default()
    };
    assert_eq!(ids(&world.recover_with(&kit, &options).unwrap()), third.ids);
}

/// SOP-216: with a gap above it, the page's own root still recovers, as an older state that says so.
#[test]
fn the_pages_root_survives_a_gap_above_it() {
    let mut world = World::new();
    let first = world.publish(None);
    let kit = world.page(&first);
    let second = world.publish(Some(&first));
    world.publish(Some(&second));
    world.heap.0.remove(&second.root.id());
    let recovered = world.recover(&kit).unwrap();
    assert_eq!(recovered.report.heads, [first.root.reference()]);
    assert!(recovered.report.is_stale() && recovered.report.missing_roots == [second.root.id()]);
    assert_eq!(recovered.report.cut_off.len(), 1);
}

/// SOP-218: after a fork both newest roots are opened and their records united.
#[test]
fn a_fork_is_united() {
    let mut world = World::new();
    let base = world.publish(None);
    let kit = world.page(&base);
    let before = world.entries.clone();
    let left_only = world.announce();
    let left = world.publish(Some(&base));
    world.entries = before;
    let right_only = world.announce();
    let second = SiteKey::from_seed(&[5; 32]);
    let right = world.publish_by(Some(&base.root), &second, 1);
    let recovered = world.recover(&kit).unwrap();
    assert_eq!(ids(&recovered), &left.ids | &right.ids);
    assert!(ids(&recovered).is_superset(&[left_only, right_only].into()));
    assert_eq!(recovered.report.heads.len(), 2);
    let best = recovered.keys.root().unwrap();
    assert_eq!(best.root_id, left.root.id().max(right.root.id()));
}

/// SOP-228: a checkpoint of several parts is recovered whole; a part that is missing, foreign or short is named.
#[test]
fn parts_are_recovered_and_their_faults_named() {
    let mut world = World::new();
    for _ in 0..6 {
        world.announce();
    }
    let issuer = SiteKey::from_seed(&[1; 32]);
    let published = world.publish_by(None, &issuer, 4);
    let kit = world.page(&published);
    let recovered = world.recover(&kit).unwrap();
    assert_eq!(ids(&recovered), published.ids);
    assert_eq!(recovered.report.digest, domain_digest(published.ids.iter().copied()));
    let head: BTreeSet<_> = world.heap.0.keys().copied().collect();
    let mut missing = 0;
    for id in head {
        let mut heap = world.heap.clone();
        heap.0.remove(&id);
        let result = ready(recover(&kit, &heap, &RecoverOptions::default(), &mut |_| {}));
        if let Err(error) = result
            && let Some(StepError::Object(CheckpointError::Missing(part))) = step(&error)
        {
            assert_eq!(*part, id);
            missing += 1;
        }
    }
    assert_eq!(missing, 4, "the head and its three parts");
}

/// SOP-224: a root by somebody who is no admin is refused, by the ring's admins first and by the ops inside the checkpoint
/// when the ring blob lies.
#[test]
fn a_root_by_a_writer_is_refused_twice() {
    let mut world = World::new();
    let first = world.publish(None);
    let kit = world.page(&first);
    let writer = SiteKey::from_seed(&[6; 32]);
    world.announce();
    let ids = BTreeSet::new();
    let body = CheckpointBody::divide(world.mesh, world.domain, world.records()).remove(0);
    let object = world.object(&body, &writer);
    world.heap.put(&object.bytes);
    let before = world.heap.clone();
    let forged = world.publish_root(&object, Some(&first.root), &writer, ids);
    // The ring blob signed by the writer does not list it, so it is refused, and so is the root.
    let recovered = world.recover(&kit).unwrap();
    assert_eq!(recovered.report.heads, [first.root.reference()]);
    assert!(
        recovered
            .report
            .refused_roots
            .iter()
            .any(|(id, _)| *id == forged.root.id())
    );
    assert!(recovered.report.refused_rings.iter().any(|(id, _)| *id == forged.ring));

    // Now the ring blob names its writer as an admin, so that the root is believed at first.
    world.heap = before;
    world.heap.put(forged.root.bytes());
    let mut body = world.ring_body(forged.root.id(), &writer);
    body.admins.insert(writer.site_id());
    let lying = RingBlob::seal(body, &[world.kit.age_recipient()], &writer).unwrap();
    world.heap.put(lying.bytes());
    let error = world.recover(&kit).unwrap_err();
    assert!(
        matches!(step(&error), Some(StepError::Set(SetError::IssuerNotAuthorized(site)))
            if *site == writer.site_id()),
        "{error}"
    );
    let options = RecoverOptions {
        allow_older: true,
        ..Default::default()
    };
    assert_eq!(ids_of(world.recover_with(&kit, &options)), first.ids);
}

fn ids_of(recovered: Result<Recovered, RecoverError>) -> BTreeSet<RecordId> {
    ids(&recovered.unwrap())
}

/// SOP-223: the checkpoint's key must have been granted by somebody who could grant.
#[test]
fn a_grant_by_a_stranger_is_refused() {
    let mut world = World::new();
    let stranger = SiteKey::from_seed(&[0x66; 32]);
    let admin = SiteKey::from_seed(&[1; 32]);
    let body = CheckpointBody::divide(world.mesh, world.domain, world.records()).remove(0);
    let object = world.object(&body, &stranger);
    world.heap.put(&object.bytes);
    let published = world.publish_root(&object, None, &admin, BTreeSet::new());
    let error = world.recover(&world.page(&published)).unwrap_err();
    assert!(
        matches!(step(&error), Some(StepError::Set(SetError::GranterNotAuthorized(site)))
            if *site == stranger.site_id()),
        "{error}"
    );
}

/// A second founding of the domain by a former member, in a checkpoint of its own: the page's founding record, or at least the
/// rule that a founder was an admin of the mesh, stops it.
#[test]
fn a_second_founding_is_refused() {
    let mut world = World::new();
    let first = world.publish(None);
    let (kit, words) = (world.page(&first), world.words());
    let writer = SiteKey::from_seed(&[6; 32]);
    world
        .entries
        .retain(|entry| !matches!(entry, VerifiedEntry::DomainGenesis(_)));
    let founding = DomainGenesis {
        mesh_id: world.mesh,
        domain_id: world.domain,
        name: "main".into(),
        group_id: [4; 32],
        founder: writer.site_id(),
        seq: 1,
        created: Hlc::new(1, 0),
    };
    world.entries.push(Signed::sign(founding, &writer, &world.mesh).into());
    let body = CheckpointBody::divide(world.mesh, world.domain, world.records()).remove(0);
    let object = world.object(&body, &writer);
    world.heap.put(&object.bytes);
    let mut draft = world.draft(&object, Some(&first.root));
    draft.ops_seen = vec![];
    let kek = world.newest();
    let forged = Root::seal(draft, &writer, (kek.generation, kek.id, &kek.kek()));
    world.heap.put(forged.bytes());
    let mut ring = world.ring_body(forged.id(), &writer);
    ring.admins = [writer.site_id()].into();
    world.heap.put(
        RingBlob::seal(ring, &[world.kit.age_recipient()], &writer)
            .unwrap()
            .bytes(),
    );
    for kit in [kit, words] {
        let error = world.recover(&kit).unwrap_err();
        assert!(
            matches!(step(&error), Some(StepError::Set(SetError::NoDomainGenesis))),
            "{error}"
        );
    }
}

/// SOP-196, SOP-220: entries whose KEK is in no ring blob make recovery fail closed, naming generation and count.
#[test]
fn a_missing_generation_is_named() {
    let mut world = World::new();
    world.announce();
    let old = world.newest();
    let records = world.records();
    world.rotate();
    let mut all = world.records();
    all.retain(|record| records.iter().all(|old| old.id() != record.id()));
    all.extend(records);
    let body = CheckpointBody::divide(world.mesh, world.domain, all).remove(0);
    let issuer = SiteKey::from_seed(&[1; 32]);
    let object = world.object(&body, &issuer);
    world.heap.put(&object.bytes);
    world.keks.retain(|kek| kek.id != old.id);
    let published = world.publish_root(&object, None, &issuer, BTreeSet::new());
    let error = world.recover(&world.page(&published)).unwrap_err();
    assert!(
        matches!(step(&error), Some(StepError::Set(SetError::MissingKeks { missing, records: 1 }))
            if missing == &[(old.id, Some(1))]),
        "{error}"
    );
    assert!(error.to_string().contains("generation 1"), "{error}");
}

/// DESIGN §16.4: a ring that holds another key than the KekRecord commits to is refused.
#[test]
fn a_kek_that_breaks_its_commitment_is_refused() {
    let mut world = World::new();
    let mut liar = world.newest();
    liar.bytes = [0x99; 32];
    world.keks = vec![liar];
    let published = world.publish(None);
    let error = world.recover(&world.page(&published)).unwrap_err();
    assert!(
        matches!(step(&error), Some(StepError::Set(SetError::WrongKek(1)))),
        "{error}"
    );
}

/// lessons.md: a kit of another mesh, another kit, and a kit that opens two domains are told apart.
#[test]
fn foreign_kits_are_told_apart() {
    let mut world = World::new();
    let first = world.publish(None);
    let stranger = Kit::from_seed([0x77; 32].into());
    let stranger = Kit::parse_page(&stranger.show_words()).unwrap();
    let error = world.recover(&stranger).unwrap_err();
    assert!(
        error.to_string().contains(&stranger.kit.fingerprint().to_string()),
        "{error}"
    );

    let mut other_mesh = world.page(&first);
    other_mesh.facts.mesh_id = Some(MeshId::from_bytes([0x11; 32]));
    let error = world.recover(&other_mesh).unwrap_err().to_string();
    let fingerprints = [MeshId::from_bytes([0x11; 32]), world.mesh].map(|mesh| Fingerprint::of_mesh(&mesh).to_string());
    assert!(fingerprints.iter().all(|f| error.contains(f)), "{error}");

    let mut body = world.ring_body(first.root.id(), &world.admin);
    body.domain_id = DomainId::from_bytes([0x22; 32]);
    let second_domain = RingBlob::seal(body, &[world.kit.age_recipient()], &world.admin).unwrap();
    world.heap.put(second_domain.bytes());
    assert!(matches!(world.recover(&world.words()), Err(RecoverError::SeveralDomains(domains)) if domains.len() == 2));
    let options = RecoverOptions {
        domain: Some(world.domain),
        ..Default::default()
    };
    assert_eq!(ids_of(world.recover_with(&world.words(), &options)), first.ids);
}

/// SOP-214 and G10: any flipped byte of any blob gives the same state or an error, never another state.
#[test]
fn damage_anywhere_never_gives_another_state() {
    let mut world = World::new();
    world.announce();
    let first = world.publish(None);
    let kit = world.page(&first);
    let ours = [first.ring, first.root.id(), first.checkpoint];
    for id in ours {
        let len = world.heap.0[&id].len();
        for at in (0..len).step_by(len / 40 + 1) {
            let mut heap = world.heap.clone();
            heap.0.get_mut(&id).unwrap()[at] ^= 0x10;
            match ready(recover(&kit, &heap, &RecoverOptions::default(), &mut |_| {})) {
                Err(_) => {}
                Ok(recovered) => panic!("byte {at} of {id} went unnoticed: {:?}", recovered.report),
            }
        }
    }
}

/// SOP-227: objects that the catalogue names and the replica lacks are counted and listed.
#[test]
fn objects_without_bytes_are_listed() {
    let mut world = World::new();
    let table = TableId::from_bytes([1; 16]);
    let here = world.heap.put(b"an object");
    let gone = StorageId::from_bytes([0xee; 32]);
    for storage_id in [here, gone] {
        let manifest = crate::checkpoint::tests::data_manifest(&world.mesh, storage_id, table, world.writer.site_id());
        let manifest = Signed::sign(manifest, &world.writer, &world.mesh);
        world.entries.push(manifest.into());
    }
    let first = world.publish(None);
    let recovered = world.recover(&world.page(&first)).unwrap();
    assert_eq!(
        (recovered.report.objects, recovered.report.missing_objects.clone()),
        (2, vec![gone])
    );
    // The drill counts the same.
    let report = drill::DrillReport {
        at_ms: 0,
        root: first.root.id(),
        recovery_generation: 1,
        live_digest: domain_digest(first.ids.iter().copied()),
        restored_digest: recovered.report.digest,
        tables: BTreeMap::new(),
        samples: vec![drill::Sample::Equal { object: here, bytes: 9 }],
        objects: 2,
        missing: recovered.report.missing_objects,
    };
    assert_eq!(report.findings(), [drill::Finding::Missing { missing: 1, objects: 2 }]);
}

/// SOP-225: the key store's root moves forward along the chain only.
#[test]
fn the_stored_root_never_moves_back() {
    let mut world = World::new();
    let first = world.publish(None);
    let second = world.publish(Some(&first));
    let third = world.publish(Some(&second));
    let stranger = world.publish(None);
    let mut keys = crate::keystore::DomainKeys::default();
    keys.advance_root(&Lineage::of_own(&first.root)).unwrap();
    keys.advance_root(&Lineage::of_own(&second.root)).unwrap();
    keys.advance_root(&Lineage::of_own(&second.root)).unwrap();
    keys.advance_root(&Lineage::of_own(&third.root)).unwrap();
    for backwards in [&first, &second, &stranger] {
        let error = keys.advance_root(&Lineage::of_own(&backwards.root)).unwrap_err();
        assert!(error.to_string().contains("--accept-older"), "{error}");
        assert_eq!(keys.root(), Some(&third.root.reference()));
    }
    keys.accept_older_root(first.root.reference());
    assert_eq!(keys.root(), Some(&first.root.reference()));
}

/// A node binding is public in its mesh and must not ride sealed, nor a sealed kind open.
#[test]
fn kinds_ride_as_they_travel() {
    let mut world = World::new();
    let binding = NodeBinding {
        mesh_id: world.mesh,
        site: world.writer.site_id(),
        mls_key: [1; 32],
        display_name: "pi".into(),
        hlc: Hlc::default(),
        cose_key: None,
    };
    let binding: VerifiedEntry = Signed::sign(binding, &world.writer, &world.mesh).into();
    let kek = world.newest();
    let sealed = sealed::seal(binding.bytes(), &kek.kek(), &kek.id, &world.mesh, &world.domain);
    world.announce();
    let open = CheckpointRecord::public(world.entries.last().unwrap());
    world.entries.pop();
    for wrong in [CheckpointRecord::sealed(binding.id(), kek.id, sealed), open] {
        let mut records = world.records();
        records.push(wrong);
        let body = CheckpointBody::divide(world.mesh, world.domain, records).remove(0);
        let issuer = SiteKey::from_seed(&[1; 32]);
        let object = world.object(&body, &issuer);
        world.heap.put(&object.bytes);
        let published = world.publish_root(&object, None, &issuer, BTreeSet::new());
        let error = world.recover(&world.page(&published)).unwrap_err();
        assert!(
            matches!(step(&error), Some(StepError::Set(SetError::Broken { .. }))),
            "{error}"
        );
    }
}
