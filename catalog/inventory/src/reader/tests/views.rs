//! The live view, the full view, and many readers beside one writer.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::Versions;
use crate::{
    doc::{
        Binding, Digests, EditionState, FileEntry, FileRoot, JsonObject, LeafRef, Sha256, Stored, TableFingerprint,
        Tier, layout,
    },
    reader::{FullInventory, LiveInventory, ReadError, find_head},
    store::{InventoryStore, testing::FaultStore},
    transition::{EditionKey, Operation, ReleaseWhen, SealedEdition},
    writer::testing::{Place, World, catalogue, newest, overwrite, overwrite_doc, path, product, root_at, seq},
};

async fn live(store: &Arc<dyn InventoryStore>) -> LiveInventory {
    let found = find_head(&**store, None).await.expect("a head");
    LiveInventory::load(&**store, &found.head, None)
        .await
        .expect("its leaves")
}

/// INV-194, INV-213, INV-214: the live view has live editions only, drops products without one, and shows nothing of an embargoed
/// edition; the full view has everything.
#[tokio::test]
async fn the_live_view_shows_live_editions_only() {
    let store = Place::Memory.open().store();
    let (writer, _) = catalogue(&store, true).await;
    let mut world = World::new();
    let (first, second) = (world.edition("a", 1, None), world.edition("secret", 1, None));
    for sealed in [&first, &second] {
        let register = Operation::Register {
            sealed: sealed.clone(),
            release_at: None,
        };
        world.run(&writer, &[register]).await.expect("registered");
    }
    let view = live(&store).await;
    assert_eq!(view.products().count(), 0);
    let shown = format!("{view:?}");
    assert!(!shown.contains(&second.manifest.edition_id.to_string()), "{shown}");

    let release = Operation::Release {
        edition: first.edition(),
        when: ReleaseWhen::Explicit,
    };
    world.run(&writer, &[release]).await.expect("released");
    let view = live(&store).await;
    assert_eq!(
        view.products().map(|(id, _)| id.clone()).collect::<Vec<_>>(),
        [product("a")]
    );
    let schema = &first.manifest.schema_version;
    let head = view.head_of(&product("a"), schema).expect("live");
    assert_eq!(head.manifest_sha256, first.manifest.sha256());
    assert_eq!(
        view.head_of(&product("a"), &"2.53".parse().expect("a version")),
        None,
        "INV-204"
    );
    assert_eq!(view.product(&product("secret")), None);
    assert!(
        newest(&store)
            .await
            .entry(&product("secret"), &second.manifest.edition_id)
            .is_some()
    );

    let withdraw = Operation::Withdraw { live: first.edition() };
    world.run(&writer, &[withdraw]).await.expect("withdrawn");
    assert_eq!(live(&store).await.products().count(), 0);
}

/// INV-349: the next version's views fetch only the leaves whose hash changed.
#[tokio::test]
async fn a_reload_fetches_changed_leaves_only() {
    let store = Place::Memory.open().store();
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        let sealed = world.edition(name, 1, None);
        world.seal(&writer, &sealed).await;
    }
    let full = newest(&store).await;
    let view = live(&store).await;
    let next = world.edition("b", 2, Some(full.leaves()[&product("b")].editions[0].edition_id));
    world.seal(&writer, &next).await;
    let counting = FaultStore::counting(store.clone());
    let found = find_head(&counting, Some(full.head().reference()))
        .await
        .expect("found");
    let before = counting.operations();
    let view = LiveInventory::load(&counting, &found.head, Some(&view))
        .await
        .expect("loads");
    assert_eq!(counting.operations() - before, 1);
    let full = FullInventory::load(&counting, found.head, Some(&full))
        .await
        .expect("loads");
    assert_eq!(counting.operations() - before, 2);
    assert!(
        counting
            .log()
            .iter()
            .filter(|line| line.contains(layout::LEAVES))
            .count()
            == 2
    );
    assert_eq!(view, live(&store).await, "the same as loaded from nothing");
    assert_eq!(full.leaves(), newest(&store).await.leaves());
}

/// INV-4, INV-408, INV-426: 20 readers that look all the time while 100 releases of 50 products are written see each release as
/// one: in every version they find, all products are at the same edition, and they never go back.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_readers_see_no_torn_release() {
    const PRODUCTS: usize = 50;
    const RELEASES: u8 = 100;
    let store = Place::Memory.open().store();
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    let chains: Vec<_> = (0..PRODUCTS)
        .map(|number| world.chain(&format!("p{number:02}"), RELEASES))
        .collect();
    let over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..20)
        .map(|_| {
            let (store, over) = (store.clone(), over.clone());
            let position: Vec<_> = chains
                .iter()
                .map(|chain| {
                    chain
                        .iter()
                        .map(|sealed| sealed.manifest.edition_id)
                        .collect::<Vec<_>>()
                })
                .collect();
            tokio::spawn(async move {
                let (mut held, mut view, mut seen) = (None, None::<LiveInventory>, BTreeSet::new());
                loop {
                    let last = over.load(Ordering::SeqCst);
                    let found = find_head(&*store, held).await.expect("a head at any time");
                    assert_eq!(found.findings, []);
                    let reference = found.head.reference();
                    assert!(held.is_none_or(|held| held.seq <= reference.seq), "went back");
                    held = Some(reference);
                    let now = LiveInventory::load(&*store, &found.head, view.as_ref())
                        .await
                        .expect("all leaves");
                    let at: BTreeSet<_> = now
                        .products()
                        .zip(&position)
                        .map(|((_, product), editions)| {
                            assert_eq!(product.editions.len(), 1);
                            editions
                                .iter()
                                .position(|edition| *edition == product.editions[0].edition_id)
                        })
                        .collect();
                    assert!(
                        at.len() <= 1 && matches!(now.products().count(), 0 | PRODUCTS),
                        "torn: {at:?}"
                    );
                    assert_eq!(
                        at.iter().flatten().next().map_or(1, |at| at + 2) as u64,
                        reference.seq.get()
                    );
                    seen.insert(reference.seq);
                    view = Some(now);
                    if last {
                        return seen;
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for release in 0..usize::from(RELEASES) {
        let operations: Vec<_> = chains
            .iter()
            .map(|chain| Operation::Seal(chain[release].clone()))
            .collect();
        world.run(&writer, &operations).await.expect("released");
    }
    over.store(true, Ordering::SeqCst);
    for reader in readers {
        let seen = reader.await.expect("no torn state");
        assert_eq!(
            seen.last().map(|seq| seq.get()),
            Some(u64::from(RELEASES) + 1),
            "the last is seen in the end"
        );
    }
}

/// INV-204: the full view tells the state of each edition after a chain of seals.
#[tokio::test]
async fn the_full_view_keeps_what_was_superseded() {
    let versions = Versions::through(4).await;
    let full = newest(&versions.store).await;
    let states: Vec<_> = full.leaves()[&product("a")]
        .editions
        .iter()
        .map(|entry| entry.state)
        .collect();
    assert_eq!(
        states,
        [EditionState::Superseded, EditionState::Superseded, EditionState::Live]
    );
    let version = full.to_version().expect("a version");
    let absent = EditionKey::new(product("a"), versions.chain[0].manifest.edition_id);
    assert_eq!(version.status(&absent), None);
}

/// An edition that binds a table and has seven bytes to pull.
fn with_a_table(world: &mut World) -> SealedEdition {
    let sealed = world.edition("a", 1, None);
    let mut manifest = sealed.manifest.value().clone();
    manifest.bindings = vec![Binding {
        dataflow: "urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=TEST:DF(1.0)"
            .parse()
            .expect("a URN"),
        observations: 1,
        structural_version: "urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure=TEST:DSD(1.0)"
            .parse()
            .expect("a URN"),
        fingerprint: TableFingerprint { sum: 1, rows: 1 },
        structure_fingerprint: Sha256::of(b"structure"),
    }];
    manifest.files = vec![FileEntry {
        path: "tables.json".parse().expect("a path"),
        size: 7,
        root: FileRoot::Edition,
        tier: Tier::Required,
        digests: Digests::new(Sha256::of(b"tables")),
        carried_from: None,
        extra: JsonObject::new(),
    }];
    let manifest = Arc::new(Stored::encode(manifest).expect("a manifest"));
    world.manifests.insert(manifest.clone());
    SealedEdition { manifest, ..sealed }
}

/// INV-187: an entry without routing fields is routed by its manifest, once that verifies; a manifest that is another one or is gone
/// routes nothing, and one whose entry has the fields is never asked for.
#[tokio::test]
async fn missing_routing_fields_come_from_the_verified_manifest() {
    let store = Place::Memory.open().store();
    let (writer, _) = catalogue(&store, false).await;
    let mut world = World::new();
    let sealed = with_a_table(&mut world);
    world.seal(&writer, &sealed).await;
    let expected = sealed.manifest.routing();
    assert_eq!((expected.dataflows.len(), expected.pull_bytes), (1, 7));

    let schema = &sealed.manifest.schema_version;
    let routed = async |counting: &FaultStore| {
        let view = live(&store).await;
        let head = view.head_of(&product("a"), schema).expect("live").clone();
        head.read_routing(counting, &product("a")).await
    };
    let counting = FaultStore::counting(store.clone());
    assert_eq!(routed(&counting).await.expect("filled"), expected);
    assert_eq!(counting.operations(), 0, "the Inventory says it");

    // As a writer from before the routing fields left it.
    let mut leaf = newest(&store).await.leaves()[&product("a")].value().clone();
    leaf.editions[0].routing = None;
    let leaf = Stored::encode(leaf).expect("a leaf");
    let mut root = root_at(&store, 2).await.into_value();
    let reference = LeafRef {
        leaf_sha256: leaf.sha256(),
    };
    overwrite(&store, &reference.path(), leaf.bytes().clone()).await;
    root.products.insert(product("a"), reference);
    for item in root.history.iter_mut().flat_map(|history| &mut history.changes) {
        item.leaf_sha256.to = Some(leaf.sha256());
    }
    overwrite_doc(&store, &layout::root(seq(2)), &root).await;
    store.delete(&path(layout::CURRENT)).await.expect("deleted");

    let name = layout::manifest(&product("a"), &sealed.manifest.edition_id);
    let error = routed(&counting).await.expect_err("there is none");
    assert!(matches!(error, ReadError::ManifestMissing { .. }), "{error}");
    let other = String::from_utf8(sealed.manifest.bytes().to_vec()).expect("text");
    overwrite(&store, &name, other.replace("\"size\":7", "\"size\":8")).await;
    let error = routed(&counting).await.expect_err("another manifest");
    assert!(matches!(error, ReadError::Manifest { .. }), "{error}");
    overwrite(&store, &name, sealed.manifest.bytes().clone()).await;
    assert_eq!(routed(&counting).await.expect("it verifies"), expected);
    assert_eq!(counting.log().last(), Some(&format!("reading {name}")));
}
