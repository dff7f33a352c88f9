//! Copies that verify, and refusals.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use bytes::Bytes;

use super::*;
use crate::{
    doc::{
        CatalogId, Document as _, EditionState, EntryStatus, Instant, Json, Leaf, Manifest, Root, Seq, Stored, layout,
    },
    reader::{FullInventory, LiveInventory, find_head},
    store::{Found, InventoryStore, LocalStore, MemoryStore, StorePath, testing::FaultStore},
    transition::Operation,
    verify::testing::{DAY, Fixture, expire_second, identity, key, opted_in, path, product, verify_store},
};

/// An empty store that notes what it is asked for.
fn noting() -> Arc<FaultStore> {
    Arc::new(FaultStore::counting(Arc::new(MemoryStore::new())))
}

/// The documents that were created, in their order.
fn created(store: &FaultStore) -> Vec<String> {
    let log = store.log().into_iter();
    log.filter_map(|asked| asked.strip_prefix("creating ").map(str::to_owned))
        .collect()
}

async fn fixture() -> Fixture {
    Fixture::new(Arc::new(MemoryStore::new())).await
}

/// One product with a live and an embargoed edition.
async fn embargoed() -> (Fixture, Arc<Stored<Manifest>>, Arc<Stored<Manifest>>) {
    let mut fixture = fixture().await;
    let live = fixture.released("population", None, &[]).await;
    fixture
        .commit(&[Operation::SetEmbargo { on: true }])
        .await
        .expect("embargo on");
    let waiting = fixture.sealed("population", Some(&live), &[]).await;
    let release_at: Instant = "2026-03-01T13:30:00Z".parse().expect("an instant");
    let register = Operation::Register {
        sealed: Fixture::edition(&waiting),
        release_at: Some(release_at),
    };
    fixture.commit(&[register]).await.expect("registered");
    (fixture, live, waiting)
}

fn live_export(random: u8) -> LiveExport {
    LiveExport {
        authority: None,
        handed_to: None,
        catalog_id: CatalogId::at("2026-02-01T00:00:00Z".parse().expect("an instant"), [random; 10]),
        identity: identity(),
        sections: BTreeSet::new(),
    }
}

/// INV-132, INV-391, INV-394: a full copy has the same bytes under the same names, without `pending/`, in the order of
/// dependency; it verifies and keeps the catalogue's id.
#[tokio::test(start_paused = true)]
async fn a_full_copy_is_the_catalogue_and_ordered() {
    let mut fixture = fixture().await;
    fixture.population().await;
    fixture
        .put("pending/population/01a18e63-e292-7250-a332-b79d9b7a7efd.json", b"{}")
        .await;
    let to = noting();
    let copied = export_full(&*fixture.store, &*to, &StoreTransfer::new(&*fixture.store, &*to))
        .await
        .expect("copied");
    assert_eq!((copied.roots, copied.editions, copied.files), (36, 31, 62));
    let report = verify_store(&*to).await;
    assert_eq!(report.findings, []);
    let mut expected = fixture.store.list(None).await.expect("listed");
    expected.retain(|path| !path.as_str().starts_with("pending/"));
    assert_eq!(to.list(None).await.expect("listed"), expected);
    for path in &expected {
        let of = |found: Option<Found>| found.expect("there").bytes;
        let (source, copy) = (
            fixture.store.get(path).await.expect("read"),
            to.get(path).await.expect("read"),
        );
        assert_eq!(of(source), of(copy), "{path}");
    }
    let stage = |path: &String| match path.as_str() {
        path if path.contains("/data/") => 0,
        path if path.starts_with("products/") => 1,
        path if path.starts_with("inventory/leaves/") => 2,
        path if path.starts_with("inventory/0") => 3,
        "catalog.json" => 4,
        "CURRENT" => 5,
        other => panic!("{other}"),
    };
    let created = created(&to);
    assert!(created.is_sorted_by_key(stage), "{created:?}");
}

/// INV-417: within an edition the manifest comes last.
#[tokio::test(start_paused = true)]
async fn manifests_come_after_the_files_they_list() {
    let mut fixture = fixture().await;
    let manifest = fixture.released("population", None, &[]).await;
    let to = noting();
    export_full(&*fixture.store, &*to, &StoreTransfer::new(&*fixture.store, &*to))
        .await
        .expect("copied");
    let folder = layout::edition(&manifest.product_id, &manifest.edition_id);
    let own: Vec<String> = created(&to)
        .into_iter()
        .filter(|path| path.starts_with(&folder))
        .collect();
    assert_eq!(
        own,
        [format!("{folder}/structures.json"), format!("{folder}/manifest.json")]
    );
}

/// INV-394: a copy repeated later adds what is new and moves the documents that are rewritten.
#[tokio::test(start_paused = true)]
async fn a_repeated_copy_adds_what_is_new() {
    let mut fixture = fixture().await;
    let first = fixture.released("population", None, &[]).await;
    let to = MemoryStore::new();
    let files = StoreTransfer::new(&*fixture.store, &to);
    export_full(&*fixture.store, &to, &files).await.expect("copied");
    let store = Arc::clone(&fixture.store);
    fixture.released("population", Some(&first), &[]).await;
    let copied = export_full(&*store, &to, &StoreTransfer::new(&*store, &to))
        .await
        .expect("copied");
    assert_eq!((copied.files, copied.files_present), (2, 2));
    let report = verify_store(&to).await;
    assert_eq!(report.findings, []);
    assert_eq!(report.head.map(|head| head.seq.get()), Some(3));
}

/// INV-132, INV-391: a copy is not mixed with another catalogue or with changed documents.
#[tokio::test(start_paused = true)]
async fn a_copy_into_something_else_is_refused() {
    let mut fixture = fixture().await;
    fixture.released("population", None, &[]).await;
    let to = MemoryStore::new();
    let files = StoreTransfer::new(&*fixture.store, &to);
    to.create(&path(&layout::root(Seq::FIRST)), Bytes::from_static(b"{}"))
        .await
        .map(drop)
        .expect("created");
    let refused = export_full(&*fixture.store, &to, &files)
        .await
        .expect_err("another root");
    assert!(matches!(refused, ExportError::Differs { .. }), "{refused}");

    let other = live_export(9);
    let to = Arc::new(MemoryStore::new());
    export_live(
        &*fixture.store,
        to.clone(),
        &StoreTransfer::new(&*fixture.store, &*to),
        &other,
    )
    .await
    .expect("exported");
    let refused = export_full(&*fixture.store, &*to, &files)
        .await
        .expect_err("another catalogue");
    assert!(matches!(refused, ExportError::OfAnotherCatalog { .. }), "{refused}");
}

/// INV-393, INV-417: what does not verify is not copied: a missing or changed file, a missing manifest, a damaged leaf.
#[tokio::test(start_paused = true)]
async fn a_broken_catalogue_is_not_copied() {
    let mut fixture = fixture().await;
    let manifest = fixture.released("population", None, &[]).await;
    let data = format!("{}/part-0001.parquet", layout::data(&manifest.product_id));
    let name = layout::manifest(&manifest.product_id, &manifest.edition_id);
    let root: Root = Root::decode(&fixture.get(&layout::root(fixture.head().await.seq)).await).expect("a root");
    let leaf = root.products[&product("population")].path();
    let refused = async |to: &MemoryStore| {
        let files = StoreTransfer::new(&*fixture.store, to);
        export_full(&*fixture.store, to, &files).await.expect_err("broken")
    };
    let held = fixture.get(&data).await;
    fixture.overwrite(&data, b"other").await;
    assert!(matches!(refused(&MemoryStore::new()).await, ExportError::File { .. }));
    fixture.store.delete(&path(&data)).await.expect("deleted");
    assert!(matches!(
        refused(&MemoryStore::new()).await,
        ExportError::FileMissing { .. }
    ));
    fixture.put(&data, &held).await;
    let held = fixture.get(&name).await;
    fixture.store.delete(&path(&name)).await.expect("deleted");
    assert!(matches!(
        refused(&MemoryStore::new()).await,
        ExportError::ManifestMissing { .. }
    ));
    fixture.put(&name, &held).await;
    fixture.overwrite(&leaf, b"{}").await;
    let to = MemoryStore::new();
    assert!(matches!(refused(&to).await, ExportError::Read(_)));
    assert_eq!(to.list(None).await.expect("listed"), [], "nothing looks like a copy");
}

/// INV-391: from directory to directory; a file that does not verify leaves nothing visible.
#[tokio::test]
async fn a_directory_is_copied_to_a_directory() {
    let (from, to) = (
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    );
    let mut fixture = Fixture::new(Arc::new(LocalStore::open(from.path()).expect("a store"))).await;
    let manifest = fixture.released("population", None, &[]).await;
    let target = LocalStore::open(to.path()).expect("a store");
    let files = DirectoryTransfer::new(from.path(), to.path());
    export_full(&*fixture.store, &target, &files).await.expect("copied");
    assert_eq!(verify_store(&target).await.findings, []);
    let again = export_full(&*fixture.store, &target, &files).await.expect("copied");
    assert_eq!((again.files, again.files_present), (0, 2));

    let data = format!("{}/part-0001.parquet", layout::data(&manifest.product_id));
    fixture.overwrite(&data, b"other").await;
    let empty = tempfile::tempdir().expect("a folder");
    let target = LocalStore::open(empty.path()).expect("a store");
    let files = DirectoryTransfer::new(from.path(), empty.path());
    let refused = export_full(&*fixture.store, &target, &files)
        .await
        .expect_err("changed");
    assert!(matches!(refused, ExportError::File { .. }), "{refused}");
    let left = std::fs::read_dir(empty.path().join(layout::data(&manifest.product_id)))
        .expect("listed")
        .count();
    assert_eq!(left, 0);
}

/// INV-390, INV-214, INV-132: a live-only export has another id, verifies, and nothing in any byte of it names an embargoed
/// edition, its release time or an actor of the catalogue.
#[tokio::test(start_paused = true)]
async fn a_live_only_export_shows_no_embargoed_edition() {
    let (fixture, live, waiting) = embargoed().await;
    let to = Arc::new(MemoryStore::new());
    let files = StoreTransfer::new(&*fixture.store, &*to);
    let mut export = live_export(1);
    export.identity.actor = "exporter@example".parse().expect("clean text");
    let copied = export_live(&*fixture.store, to.clone(), &files, &export)
        .await
        .expect("exported");
    assert_eq!((copied.versions, copied.editions, copied.files), (1, 1, 2));
    assert_eq!(verify_store(&*to).await.findings, []);
    for path in to.list(None).await.expect("listed") {
        let bytes = to.get(&path).await.expect("read").expect("there").bytes;
        let text = format!("{path} {}", String::from_utf8_lossy(&bytes));
        for secret in [
            waiting.edition_id.to_string(),
            "2026-03-01T13:30".into(),
            "embargoed".into(),
            "tester".into(),
        ] {
            assert!(!text.contains(&secret), "{secret} in {text}");
        }
    }
    let catalog: crate::doc::Catalog =
        crate::doc::Catalog::decode(&to.get(&path("catalog.json")).await.expect("read").expect("there").bytes)
            .expect("a catalogue");
    assert_eq!(catalog.catalog_id, export.catalog_id);
    assert!(matches!(catalog.extensions.get("sovm"), Some(Json::Object(_))));
    // INV-213: what the public view shows is the same on both chains.
    let view = async |store: &dyn InventoryStore| {
        let head = find_head(store, None).await.expect("a head").head;
        let view = LiveInventory::load(store, &head, None).await.expect("loaded");
        view.products()
            .map(|(product, live)| (product.clone(), live.editions.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(view(&*fixture.store).await, view(&*to).await);
    assert!(
        to.get(&path(&layout::manifest(&live.product_id, &live.edition_id)))
            .await
            .expect("read")
            .is_some()
    );
}

/// INV-390: change lists carry only transitions into or out of live: an edition that goes live from an embargo comes from
/// nothing, one that is superseded goes to nothing, and each version is dated as the one it stands for.
#[tokio::test(start_paused = true)]
async fn change_lists_go_into_and_out_of_live_only() {
    let (fixture, _, waiting) = embargoed().await;
    fixture.clock.advance(90 * DAY);
    let when = crate::transition::ReleaseWhen::Explicit;
    let committed = fixture
        .commit(&[Operation::Release {
            edition: key(&waiting),
            when,
        }])
        .await
        .expect("released");
    let to = Arc::new(MemoryStore::new());
    let files = StoreTransfer::new(&*fixture.store, &*to);
    let copied = export_live(&*fixture.store, to.clone(), &files, &live_export(1))
        .await
        .expect("exported");
    assert_eq!(copied.versions, 2);
    assert_eq!(verify_store(&*to).await.findings, []);
    let head = find_head(&*to, None).await.expect("a head").head;
    let root = head.root();
    assert_eq!(root.created_at, committed.head.root().created_at);
    assert!(!root.embargo);
    assert_eq!(root.event.reason, "");
    let live = Some(EntryStatus::State(EditionState::Live));
    let changes = &root.history.as_ref().expect("history fields").changes;
    let ways: Vec<_> = changes[0].entries.iter().map(|entry| (entry.from, entry.to)).collect();
    assert_eq!(ways, [(live, None), (None, live)]);
    let full = FullInventory::load(&*to, head, None).await.expect("loaded");
    let states: Vec<EditionState> = full
        .leaves()
        .values()
        .flat_map(|leaf| leaf.editions.iter().map(|entry| entry.state))
        .collect();
    assert_eq!(states, [EditionState::Live]);
}

/// INV-390: an export that is there is brought up by one version; nothing is written when nothing public changed.
#[tokio::test(start_paused = true)]
async fn a_live_only_export_is_brought_up() {
    let (fixture, _, waiting) = embargoed().await;
    let to = Arc::new(MemoryStore::new());
    let export = async |random| {
        let files = StoreTransfer::new(&*fixture.store, &*to);
        export_live(&*fixture.store, to.clone(), &files, &live_export(random))
            .await
            .expect("exported")
    };
    assert_eq!(export(1).await.versions, 1);
    assert_eq!(export(2).await.versions, 0);
    fixture.clock.advance(90 * DAY);
    let when = crate::transition::ReleaseWhen::Explicit;
    fixture
        .commit(&[Operation::Release {
            edition: key(&waiting),
            when,
        }])
        .await
        .expect("released");
    assert_eq!(export(3).await.versions, 1);
    assert_eq!(verify_store(&*to).await.findings, []);
}

/// INV-132, INV-390: an export takes another id and is not written over a catalogue.
#[tokio::test(start_paused = true)]
async fn a_live_only_export_into_a_catalogue_is_refused() {
    let (fixture, ..) = embargoed().await;
    let bytes = fixture.get("catalog.json").await;
    let catalog_id = crate::doc::Catalog::decode(&bytes).expect("a catalogue").catalog_id;
    let to = Arc::new(MemoryStore::new());
    let files = StoreTransfer::new(&*fixture.store, &*to);
    let same = LiveExport {
        catalog_id,
        ..live_export(1)
    };
    let refused = export_live(&*fixture.store, to.clone(), &files, &same)
        .await
        .expect_err("the same id");
    assert!(matches!(refused, ExportError::SameId(_)), "{refused}");
    export_full(&*fixture.store, &*to, &files).await.expect("copied");
    let refused = export_live(&*fixture.store, to.clone(), &files, &live_export(1))
        .await
        .expect_err("a catalogue");
    assert!(matches!(refused, ExportError::NotLiveOnly { .. }), "{refused}");
}

/// INV-167, INV-393: a live-only export of what does not verify is refused.
#[tokio::test(start_paused = true)]
async fn a_live_only_export_of_a_broken_catalogue_is_refused() {
    let (fixture, live, _) = embargoed().await;
    let name = layout::manifest(&live.product_id, &live.edition_id);
    let held = fixture.get(&name).await;
    fixture.store.delete(&path(&name)).await.expect("deleted");
    let refused = async || {
        let to = Arc::new(MemoryStore::new());
        let files = StoreTransfer::new(&*fixture.store, &*to);
        export_live(&*fixture.store, to.clone(), &files, &live_export(1))
            .await
            .expect_err("broken")
    };
    assert!(matches!(refused().await, ExportError::ManifestMissing { .. }));
    fixture.put(&name, &held).await;
    // The leaf of an older version, which the newest one does not name.
    let root: Root = Root::decode(&fixture.get(&layout::root(Seq::new(2).expect("a number"))).await).expect("a root");
    let leaf = root.products[&product("population")].path();
    assert!(Leaf::decode(&fixture.get(&leaf).await).is_ok());
    fixture.store.delete(&path(&leaf)).await.expect("deleted");
    assert!(matches!(refused().await, ExportError::Leaf { .. }));
}

/// A catalogue whose version 2 expires when somebody asks for its root.
#[derive(Debug)]
struct ExpiresMeanwhile {
    inner: Arc<dyn InventoryStore>,
    expired: Mutex<bool>,
}

#[async_trait]
impl crate::store::Layer for ExpiresMeanwhile {
    fn under(&self) -> &dyn InventoryStore {
        &*self.inner
    }

    async fn get(&self, path: &StorePath) -> Result<Option<Found>, StoreError> {
        let two = layout::root(Seq::new(2).expect("a number"));
        let now = path.as_str() == two && !std::mem::replace(&mut *self.expired.lock().expect("not poisoned"), true);
        if now {
            expire_second(&*self.inner).await;
        }
        self.inner.get(path).await
    }
}

/// INV-447: a root that expires while the backup is made stands in the `HISTORY` and the segment that are copied later: the copy says
/// so and verifies. In a catalogue that never opted in, where no root expires, a root that is gone ends the copy.
#[tokio::test(start_paused = true)]
async fn a_root_that_expires_during_a_backup_stands_in_a_segment() {
    let fixture = opted_in().await;
    let two = Seq::new(2).expect("a number");
    let from = ExpiresMeanwhile {
        inner: Arc::clone(&fixture.store),
        expired: Mutex::new(false),
    };
    let to = MemoryStore::new();
    let files = StoreTransfer::new(&from, &to);
    let copied = export_full(&from, &to, &files).await.expect("copied");
    assert_eq!(copied.expired_meanwhile, [two]);
    assert_eq!((copied.roots, copied.segments), (3, 1));
    assert!(*from.expired.lock().expect("not poisoned"));
    let report = verify_store(&to).await;
    assert_eq!(report.findings, []);
    assert_eq!((report.counts.roots, report.counts.segments), (3, 1));
    assert_eq!(to.get(&path(&layout::root(two))).await.expect("read"), None);
    // Without the later copies the chain would have a hole.
    for name in to.list(Some(&path(layout::SEGMENTS))).await.expect("listed") {
        to.delete(&name).await.expect("deleted");
    }
    assert!(!verify_store(&to).await.passed());

    let mut whole = self::fixture().await;
    let first = whole.released("population", None, &[]).await;
    whole.released("population", Some(&first), &[]).await;
    let name = layout::root(two);
    whole.store.delete(&path(&name)).await.expect("deleted");
    let to = MemoryStore::new();
    let gone = export_full(
        &Listing(Arc::clone(&whole.store), name),
        &to,
        &StoreTransfer::new(&*whole.store, &to),
    )
    .await;
    assert!(
        matches!(gone, Err(ExportError::RootGone { seq }) if seq == two),
        "{gone:?}"
    );
}

/// A store that still lists a file which is gone: the listing is older than the deletion.
#[derive(Debug)]
struct Listing(Arc<dyn InventoryStore>, String);

#[async_trait]
impl crate::store::Layer for Listing {
    fn under(&self) -> &dyn InventoryStore {
        &*self.0
    }

    async fn list(&self, folder: Option<&StorePath>) -> Result<Vec<StorePath>, StoreError> {
        let mut names = self.0.list(folder).await?;
        if folder.is_some_and(|folder| folder.as_str() == layout::INVENTORY) {
            names.push(path(&self.1));
            names.sort();
        }
        Ok(names)
    }
}

/// INV-396: an edition that was retired comes back from a backup as contents: its files return, and a reinstatement records it as
/// superseded. The backup's version never becomes the current one: `CURRENT` put back to it is passed by, and a correction to it is
/// refused.
#[tokio::test(start_paused = true)]
async fn restored_contents_come_back_by_reinstating() {
    let mut fixture = fixture().await;
    let first = fixture.released("population", None, &[]).await;
    let backup = MemoryStore::new();
    let files = StoreTransfer::new(&*fixture.store, &backup);
    export_full(&*fixture.store, &backup, &files).await.expect("copied");
    let held = FullInventory::load(&backup, find_head(&backup, None).await.expect("a head").head, None)
        .await
        .expect("loaded");
    let then = held.to_version().expect("a version");
    let old_current = backup
        .get(&path(layout::CURRENT))
        .await
        .expect("read")
        .expect("there")
        .bytes;

    let second = fixture.released("population", Some(&first), &[]).await;
    fixture.clock.advance(100 * DAY);
    fixture
        .commit(&[Operation::Retire { edition: key(&first) }])
        .await
        .expect("retired");
    let folder = layout::edition(&first.product_id, &first.edition_id);
    for name in fixture.store.list(Some(&path(&folder))).await.expect("listed") {
        fixture.store.delete(&name).await.expect("deleted");
    }
    let newest = fixture.head().await;

    // The files are restored, and with them the backup's CURRENT by mistake.
    for name in backup.list(Some(&path(&folder))).await.expect("listed") {
        let bytes = backup.get(&name).await.expect("read").expect("there").bytes;
        fixture.put(name.as_str(), &bytes).await;
    }
    fixture.overwrite(layout::CURRENT, &old_current).await;
    let found = find_head(&*fixture.store, None).await.expect("a head");
    assert_eq!(
        found.head.reference(),
        newest,
        "CURRENT is a hint, and never takes the chain back"
    );
    let correct = Operation::Correct {
        to: then,
        products: BTreeSet::from([product("population")]),
    };
    let refusal = fixture.commit(&[correct]).await.expect_err("a tombstone");
    assert_eq!(refusal.rule(), 181, "{refusal}");

    let committed = fixture
        .commit(&[Operation::Reinstate(Fixture::verified(&first))])
        .await
        .expect("reinstated");
    assert_eq!(Some(committed.head.root().seq), newest.seq.next(), "a new version");
    let full = FullInventory::load(&*fixture.store, committed.head, None)
        .await
        .expect("loaded");
    let state = |manifest: &Manifest| {
        let entry = full.entry(&manifest.product_id, &manifest.edition_id);
        entry.map(|entry| entry.state)
    };
    assert_eq!(
        (state(&first), state(&second)),
        (Some(EditionState::Superseded), Some(EditionState::Live))
    );
    assert_eq!(verify_store(&*fixture.store).await.findings, []);
}
