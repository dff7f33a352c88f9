//! Exactly what nothing needs is deleted, and nothing inside a window.

use std::{fs, sync::Arc, time::SystemTime};

use super::*;
use crate::{
    doc::{Document as _, Manifest, Pending, Root, Seq, Stored, layout},
    store::LocalStore,
    transition::Operation,
    verify::{
        DirectoryFiles,
        testing::{DAY, Fixture, key, path, product, verify_store},
    },
    writer::Clock as _,
};

/// A directory with a catalogue in it whose files are as old as its clock says.
struct Place {
    fixture: Fixture,
    files: DirectoryFiles,
    _folder: tempfile::TempDir,
}

impl Place {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Arc::new(LocalStore::open(folder.path()).expect("a store"));
        Self {
            fixture: Fixture::new(store).await,
            files: DirectoryFiles::new(folder.path()),
            _folder: folder,
        }
    }

    /// Dates a file as the catalogue's clock.
    fn date(&self, name: &str) {
        let at: SystemTime = self.fixture.clock.now().datetime().into();
        let file = fs::File::options()
            .write(true)
            .open(self.files.root().join(name))
            .expect("a file");
        file.set_modified(at).expect("dated");
    }

    fn date_all(&self, manifest: &Manifest) {
        for entry in &manifest.files {
            let (product_id, edition_id) = (&manifest.product_id, &manifest.edition_id);
            self.date(
                &crate::verify::EditionFile {
                    product_id,
                    edition_id,
                    entry,
                }
                .path(),
            );
        }
    }

    async fn released(&mut self, previous: Option<&Stored<Manifest>>) -> Arc<Stored<Manifest>> {
        let manifest = self.fixture.released("population", previous, &[]).await;
        self.date_all(&manifest);
        manifest
    }

    async fn plan(&self) -> Plan {
        self.try_plan().await.expect("a plan")
    }

    async fn try_plan(&self) -> Result<Plan, GcRefused> {
        plan(
            &*self.fixture.store,
            &self.files,
            &self.fixture.retention,
            self.fixture.clock.now(),
        )
        .await
    }

    async fn collect(&self, forecast: &Plan, log: &mut dyn DeletionLog) -> Collected {
        let (store, now) = (&*self.fixture.store, self.fixture.clock.now());
        collect(store, &self.files, &self.fixture.retention, now, forecast, log)
            .await
            .expect("collected")
    }

    /// Two editions, of which the first is withdrawn and retired; only it lists the first data file.
    async fn with_a_retired_edition() -> (Self, Arc<Stored<Manifest>>, Arc<Stored<Manifest>>) {
        let mut place = Self::new().await;
        let first = place.released(None).await;
        place
            .fixture
            .commit(&[Operation::Withdraw { live: key(&first) }])
            .await
            .expect("withdrawn");
        let second = place.released(None).await;
        place.fixture.clock.advance(100 * DAY);
        place
            .fixture
            .commit(&[Operation::Retire { edition: key(&first) }])
            .await
            .expect("retired");
        (place, first, second)
    }
}

fn paths(plan: &Plan) -> Vec<&str> {
    plan.deletions.iter().map(Deletion::path).collect()
}

/// INV-430, INV-413, INV-411: after the window exactly the retired edition's directory and the data file only it lists are
/// deleted, the manifest last; a day before nothing is. The catalogue verifies afterwards.
#[tokio::test]
async fn exactly_what_nothing_needs_is_deleted_after_the_window() {
    let (place, first, _) = Place::with_a_retired_edition().await;
    place.fixture.clock.advance(34 * DAY);
    assert_eq!(paths(&place.plan().await), Vec::<&str>::new(), "inside the window");
    place.fixture.clock.advance(2 * DAY);
    let forecast = place.plan().await;
    let folder = layout::edition(&first.product_id, &first.edition_id);
    let expected = [
        format!("{}/part-0001.parquet", layout::data(&first.product_id)),
        format!("{folder}/structures.json"),
        format!("{folder}/manifest.json"),
    ];
    assert_eq!(paths(&forecast), expected);
    assert!(forecast.bytes() > 0);
    assert!(
        place.files.root().join(&expected[0]).exists(),
        "a dry run deletes nothing"
    );
    let log = tempfile::NamedTempFile::new().expect("a file");
    let collected = place.collect(&forecast, &mut JsonLinesLog::new(log.path())).await;
    assert!(!collected.deviates());
    assert_eq!(collected.deleted, forecast.deletions);
    assert!(expected.iter().all(|path| !place.files.root().join(path).exists()));
    let lines = fs::read_to_string(log.path()).expect("read");
    assert_eq!(lines.lines().count(), 3);
    assert!(
        lines
            .lines()
            .zip(&expected)
            .all(|(line, path)| line.contains(path.as_str()) && line.contains("INV-413"))
    );
    let report = verify_store(&*place.fixture.store).await;
    assert_eq!(report.findings, []);
    assert!(report.counts.manifests_gone > 0);
    assert_eq!(paths(&place.plan().await), Vec::<&str>::new(), "nothing twice");
}

/// INV-413, INV-430: a data file that a later edition lists too stays, and so does everything of superseded editions.
#[tokio::test]
async fn shared_and_superseded_files_are_kept() {
    let mut place = Place::new().await;
    let first = place.released(None).await;
    let second = place.released(Some(&first)).await;
    place.released(Some(&second)).await;
    place.fixture.clock.advance(400 * DAY);
    place
        .fixture
        .commit(&[Operation::Retire { edition: key(&first) }])
        .await
        .expect("retired");
    place.fixture.clock.advance(60 * DAY);
    let plan = place.plan().await;
    assert!(
        plan.deletions
            .iter()
            .all(|deletion| matches!(deletion.why(), Why::Retired { .. })),
        "{:?}",
        paths(&plan)
    );
    assert_eq!(plan.deletions.len(), 2);
}

/// INV-413, INV-25: data files in no manifest go after the window; those of an edition being built stay however long it takes.
#[tokio::test]
async fn files_of_an_edition_being_built_are_kept() {
    let mut place = Place::new().await;
    place.released(None).await;
    let stray = format!("{}/stray.parquet", layout::data(&product("population")));
    place.fixture.put(&stray, b"rows of nobody").await;
    place.date(&stray);
    let building = place.fixture.sealed("population", None, &[]).await;
    place.date_all(&building);
    let manifest = layout::manifest(&building.product_id, &building.edition_id);
    place.fixture.store.delete(&path(&manifest)).await.expect("deleted");
    place.fixture.clock.advance(60 * DAY);
    assert_eq!(paths(&place.plan().await), [stray.as_str()]);
    // Sealed and not recorded yet: its manifest counts.
    let (place, waiting) = {
        let mut place = Place::new().await;
        place.released(None).await;
        let waiting = place.fixture.sealed("population", None, &[]).await;
        place.date_all(&waiting);
        (place, waiting)
    };
    place.fixture.clock.advance(60 * DAY);
    assert_eq!(paths(&place.plan().await), Vec::<&str>::new(), "{}", waiting.edition_id);
}

/// INV-414: a missing root within the window refuses the run.
#[tokio::test]
async fn a_missing_root_within_the_window_is_refused() {
    let (place, ..) = Place::with_a_retired_edition().await;
    let head = place.fixture.head().await;
    let before = head.seq.previous().expect("a version before");
    place
        .fixture
        .store
        .delete(&path(&layout::root(before)))
        .await
        .expect("deleted");
    let refused = place.try_plan().await.expect_err("a root is missing");
    assert!(
        matches!(refused, GcRefused::RootMissing { seq } if seq == before),
        "{refused}"
    );
}

/// INV-414: the walk ends with the window: a root that was superseded before it is not asked for.
#[tokio::test]
async fn roots_before_the_window_are_not_read() {
    let (place, ..) = Place::with_a_retired_edition().await;
    place.fixture.clock.advance(60 * DAY);
    place
        .fixture
        .commit(&[Operation::SetEmbargo { on: true }])
        .await
        .expect("embargo on");
    place.fixture.clock.advance(60 * DAY);
    place
        .fixture
        .store
        .delete(&path(&layout::root(Seq::FIRST)))
        .await
        .expect("deleted");
    let plan = place.plan().await;
    assert!(plan.oldest > Seq::FIRST);
    assert_eq!(plan.deletions.len(), 3);
}

/// INV-413, INV-216: where a recorded edition's manifest is missing or changed, every data file of its product stays.
#[tokio::test]
async fn an_unknown_manifest_keeps_the_data_of_its_product() {
    let (place, _, second) = Place::with_a_retired_edition().await;
    place.fixture.clock.advance(60 * DAY);
    let manifest = layout::manifest(&second.product_id, &second.edition_id);
    place.fixture.overwrite(&manifest, b"{}").await;
    let plan = place.plan().await;
    assert!(matches!(plan.kept[..], [Kept::ManifestInvalid { .. }]));
    assert!(
        plan.deletions
            .iter()
            .all(|deletion| matches!(deletion.why(), Why::Retired { .. }))
    );
    place.fixture.store.delete(&path(&manifest)).await.expect("deleted");
    let plan = place.plan().await;
    assert!(matches!(plan.kept[..], [Kept::ManifestMissing { .. }]));
    assert!(
        plan.deletions
            .iter()
            .all(|deletion| matches!(deletion.why(), Why::Retired { .. }))
    );
}

/// INV-415, INV-202: an edition reinstated after the dry run is spared; what the dry run did not name is left for the next.
#[tokio::test]
async fn a_deviation_from_the_forecast_is_reported_and_kept() {
    let (place, first, _) = Place::with_a_retired_edition().await;
    place.fixture.clock.advance(40 * DAY);
    let forecast = place.plan().await;
    place
        .fixture
        .commit(&[Operation::Reinstate(Fixture::verified(&first))])
        .await
        .expect("reinstated");
    let stray = format!("{}/stray.parquet", layout::data(&product("population")));
    place.fixture.put(&stray, b"rows of nobody").await;
    let old = fs::File::options()
        .write(true)
        .open(place.files.root().join(&stray))
        .expect("a file");
    old.set_modified(SystemTime::UNIX_EPOCH).expect("dated");
    let log = tempfile::NamedTempFile::new().expect("a file");
    let collected = place.collect(&forecast, &mut JsonLinesLog::new(log.path())).await;
    assert!(collected.deviates());
    assert_eq!(collected.deleted, []);
    assert_eq!(collected.spared, forecast.deletions);
    assert_eq!(
        collected.unforeseen.iter().map(Deletion::path).collect::<Vec<_>>(),
        [stray.as_str()]
    );
    assert_eq!(fs::read_to_string(log.path()).expect("read"), "");
    assert_eq!(verify_store(&*place.fixture.store).await.findings, []);
}

/// INV-415: a log that can't be written stops the run before the deletion it would have named.
#[tokio::test]
async fn nothing_is_deleted_without_its_line() {
    let (place, ..) = Place::with_a_retired_edition().await;
    place.fixture.clock.advance(40 * DAY);
    let forecast = place.plan().await;
    let mut log = JsonLinesLog::new(place.files.root().join("no/such/folder/log"));
    let (store, now) = (&*place.fixture.store, place.fixture.clock.now());
    let refused = collect(store, &place.files, &place.fixture.retention, now, &forecast, &mut log).await;
    assert!(matches!(refused, Err(GcRefused::Store(_))));
    assert_eq!(place.plan().await.deletions, forecast.deletions);
}

/// INV-448, INV-413: a registration goes once its edition has been recorded for longer than the window; one that was not
/// folded stays.
#[tokio::test]
async fn folded_registrations_go_after_the_window() {
    let mut place = Place::new().await;
    let manifest = place.released(None).await;
    let waiting = place.fixture.sealed("population", Some(&manifest), &[]).await;
    for edition in [&manifest, &waiting] {
        let pending = Pending {
            edition_id: edition.edition_id,
            release_at: None,
            extra: crate::doc::JsonObject::new(),
        };
        let name = layout::pending(&edition.product_id, &edition.edition_id);
        place.fixture.put(&name, &pending.encode().expect("encoded")).await;
    }
    place.fixture.clock.advance(34 * DAY);
    assert_eq!(paths(&place.plan().await), Vec::<&str>::new());
    place.fixture.clock.advance(2 * DAY);
    let forecast = place.plan().await;
    let folded = layout::pending(&manifest.product_id, &manifest.edition_id);
    assert_eq!(paths(&forecast), [folded.as_str()]);
    assert_eq!(forecast.deletions[0].why().rule(), 448);
    let log = tempfile::NamedTempFile::new().expect("a file");
    place.collect(&forecast, &mut JsonLinesLog::new(log.path())).await;
    assert_eq!(
        place
            .fixture
            .store
            .list(Some(&path("pending")))
            .await
            .expect("listed")
            .len(),
        1
    );
}

/// INV-414: nothing under `inventory/` and `history/` is touched by a run.
#[tokio::test]
async fn the_inventory_is_not_touched() {
    let (place, ..) = Place::with_a_retired_edition().await;
    place.fixture.clock.advance(40 * DAY);
    let before = place
        .fixture
        .store
        .list(Some(&path("inventory")))
        .await
        .expect("listed");
    let forecast = place.plan().await;
    let log = tempfile::NamedTempFile::new().expect("a file");
    let collected = place.collect(&forecast, &mut JsonLinesLog::new(log.path())).await;
    assert!(
        collected
            .deleted
            .iter()
            .all(|deletion| deletion.path().starts_with("products/"))
    );
    assert_eq!(
        place
            .fixture
            .store
            .list(Some(&path("inventory")))
            .await
            .expect("listed"),
        before
    );
    let root: Root = Root::decode(&place.fixture.get(&layout::root(before_head(&place).await)).await).expect("a root");
    assert!(root.history.is_some());
}

async fn before_head(place: &Place) -> Seq {
    place.fixture.head().await.seq
}
