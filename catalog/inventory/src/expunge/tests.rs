//! Exactly what only the edition lists goes, and a kill between any two steps changes nothing about it.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
};

use futures::FutureExt as _;

use super::*;
use crate::{
    store::LocalStore,
    transition::Operation,
    verify::{
        Severity,
        testing::{Fixture, key, path, product, verify_store},
    },
    writer::Clock as _,
};

const STEPS: [&str; 5] = [
    "expunge.recorded",
    "expunge.data",
    "expunge.files",
    "expunge.removed",
    "expunge.completed",
];

/// Two editions of one product. The first is superseded and lists one data file; the second lists that and one of its own, and is
/// withdrawn.
struct Place {
    fixture: Fixture,
    files: DirectoryFiles,
    first: Arc<Stored<Manifest>>,
    withdrawn: Arc<Stored<Manifest>>,
    folder: tempfile::TempDir,
}

impl Place {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Arc::new(LocalStore::open(folder.path()).expect("a store"));
        let mut fixture = Fixture::new(store).await;
        let first = fixture.released("population", None, &[]).await;
        let withdrawn = fixture.released("population", Some(&first), &[]).await;
        let live = key(&withdrawn);
        fixture
            .commit(&[Operation::Withdraw { live }])
            .await
            .expect("withdrawn");
        Self {
            fixture,
            files: DirectoryFiles::new(folder.path()),
            first,
            withdrawn,
            folder,
        }
    }

    fn order(&self) -> Order {
        Order {
            edition: key(&self.withdrawn),
            actor: "tester@example".parse().expect("clean text"),
            reason: "names of persons".to_owned(),
            now: self.fixture.clock.now(),
        }
    }

    async fn expunge(&self) -> Result<Done, ExpungeRefused> {
        expunge(&*self.fixture.store, &self.files, &self.order(), &|_| {}).await
    }

    fn data(&self, number: u8) -> String {
        format!("{}/part-{number:04}.parquet", layout::data(&product("population")))
    }

    fn is_there(&self, name: &str) -> bool {
        self.folder.path().join(name).exists()
    }
}

/// INV-412, INV-25: what only the edition lists is deleted, with its directory; what another one lists stays, and both stand in
/// the record with size and digest. The catalogue is sound afterwards, and says that the edition was expunged.
#[tokio::test]
async fn what_only_the_edition_lists_is_deleted() {
    let place = Place::new().await;
    let edition = key(&place.withdrawn);
    let forecast = plan(&*place.fixture.store, &place.files, &edition)
        .await
        .expect("a plan");
    assert!(place.is_there(&place.data(2)), "a dry run deletes nothing");
    let done = place.expunge().await.expect("expunged");
    assert!(!done.resumed);
    assert_eq!(done.record.removed, forecast.removed);
    let folder = layout::edition(&edition.product_id, &edition.edition_id);
    let removed: BTreeSet<&str> = done.record.removed.iter().map(|file| file.path.as_str()).collect();
    let expected = [
        place.data(2),
        format!("{folder}/structures.json"),
        format!("{folder}/manifest.json"),
    ];
    assert_eq!(removed, expected.iter().map(String::as_str).collect::<BTreeSet<_>>());
    assert!(
        done.record
            .removed
            .iter()
            .all(|file| file.sha256.is_some() && file.size > 0)
    );
    let stays: Vec<_> = done
        .record
        .stays
        .iter()
        .map(|file| (&file.path, &file.listed_by))
        .collect();
    assert_eq!(stays, [(&place.data(1), &vec![place.first.edition_id])]);
    assert!(expected.iter().all(|path| !place.is_there(path)) && !place.is_there(&folder));
    assert!(place.is_there(&place.data(1)));
    let stored = record_of(&*place.fixture.store, &edition).await.expect("read");
    assert_eq!(stored, Some(done.record));

    let report = verify_store(&*place.fixture.store).await;
    assert!(report.passed(), "{:?}", report.findings);
    assert_eq!(report.counts.expunged, 1);
    assert_eq!(report.findings.len(), 1);
    assert_eq!(
        (report.findings[0].rule(), report.findings[0].severity()),
        (412, Severity::Warning)
    );
    let said = report.findings[0].fault.to_string();
    assert!(
        said.contains("was expunged at") && said.contains("names of persons"),
        "{said}"
    );
}

/// INV-412, INV-443: a second run finds everything done and changes nothing, not even who decided and why.
#[tokio::test]
async fn a_second_run_changes_nothing() {
    let place = Place::new().await;
    let done = place.expunge().await.expect("expunged");
    place.fixture.clock.advance(std::time::Duration::from_secs(60));
    let order = Order {
        reason: "another one".to_owned(),
        ..place.order()
    };
    let again = expunge(&*place.fixture.store, &place.files, &order, &|_| {}).await;
    let again = again.expect("nothing to do");
    assert!(again.resumed);
    assert_eq!(again.record, done.record);
    // A file that comes back out of a backup goes again.
    let back = format!(
        "{}/manifest.json",
        layout::edition(&product("population"), &place.withdrawn.edition_id)
    );
    place.fixture.put(&back, place.withdrawn.bytes()).await;
    let again = place.expunge().await.expect("expunged again");
    assert!(!place.is_there(&back));
    assert_ne!(again.record.completed_at, done.record.completed_at);
}

/// INV-412: a run that ends after any of its steps is gone on with by the next one, under the first one's name and reason.
/// Meanwhile the catalogue is not damaged: it says that the expunge did not come to its end.
#[tokio::test]
async fn a_run_that_was_interrupted_goes_on() {
    for step in STEPS {
        let place = Place::new().await;
        let store = &*place.fixture.store;
        let order = place.order();
        let ends = |reached: &'static str| assert_ne!(reached, step, "ends here");
        let run = AssertUnwindSafe(expunge(store, &place.files, &order, &ends));
        assert!(run.catch_unwind().await.is_err(), "{step} was not reached");

        let report = verify_store(store).await;
        assert!(report.passed(), "{step}: {:?}", report.findings);
        let said = report.findings[0].fault.to_string();
        let ended = step == "expunge.completed";
        assert_eq!(said.contains("run it again"), !ended, "{step}: {said}");

        let later = Order {
            reason: "going on".to_owned(),
            ..place.order()
        };
        let done = expunge(store, &place.files, &later, &|_| {})
            .await
            .expect("gone on with");
        assert!(done.resumed && done.record.completed_at.is_some(), "{step}");
        assert_eq!(
            (done.record.reason.as_str(), done.record.removed.len()),
            ("names of persons", 3)
        );
        assert!(
            !place.is_there(&place.data(2)) && place.is_there(&place.data(1)),
            "{step}"
        );
    }
}

/// INV-412: the steps are told of in their order, and every file is still there when the record is.
#[tokio::test]
async fn the_record_stands_before_the_first_byte_goes() {
    let place = Place::new().await;
    let (data, record) = (
        place.folder.path().join(place.data(2)),
        place
            .folder
            .path()
            .join(layout::expunged(&product("population"), &place.withdrawn.edition_id)),
    );
    let seen = Mutex::new(Vec::new());
    let step = |reached: &'static str| {
        let mut seen = seen.lock().expect("one thread");
        seen.push((reached, data.exists(), record.exists()));
    };
    let done = expunge(&*place.fixture.store, &place.files, &place.order(), &step).await;
    drop(done.expect("expunged"));
    let seen = seen.into_inner().expect("one thread");
    assert_eq!(seen.iter().map(|(step, ..)| *step).collect::<Vec<_>>(), STEPS);
    assert_eq!(seen[0], ("expunge.recorded", true, true));
    assert!(seen[1..].iter().all(|(_, data, record)| !data && *record), "{seen:?}");
}

/// INV-412: an edition that a version still gives out is not expunged, nor one nobody knows.
#[tokio::test]
async fn what_was_not_taken_back_is_refused() {
    let place = Place::new().await;
    let edition = key(&place.first);
    let refused = plan(&*place.fixture.store, &place.files, &edition)
        .await
        .expect_err("it is superseded");
    assert!(
        matches!(&refused, ExpungeRefused::Rule(refusal) if refusal.rule() == 412),
        "{refused}"
    );
    let nobody = EditionKey::new(product("population"), EditionId::generate());
    let refused = plan(&*place.fixture.store, &place.files, &nobody)
        .await
        .expect_err("nobody knows it");
    assert!(matches!(&refused, ExpungeRefused::Rule(_)), "{refused}");
}

/// INV-412, INV-216: where it is unknown what another edition lists, nothing is deleted.
#[tokio::test]
async fn what_another_edition_lists_must_be_known() {
    let mut place = Place::new().await;
    let manifest = layout::manifest(&place.first.product_id, &place.first.edition_id);
    let bytes = place.fixture.get(&manifest).await;
    place.fixture.overwrite(&manifest, b"{}").await;
    let refused = place.expunge().await.expect_err("it does not verify");
    assert!(matches!(refused, ExpungeRefused::ManifestInvalid { .. }), "{refused}");
    place.fixture.store.delete(&path(&manifest)).await.expect("deleted");
    let refused = place.expunge().await.expect_err("it is missing");
    assert!(matches!(refused, ExpungeRefused::ManifestMissing { .. }), "{refused}");
    place.fixture.put(&manifest, &bytes).await;

    let building = place.fixture.sealed("population", Some(&place.withdrawn), &[]).await;
    let unsealed = layout::manifest(&building.product_id, &building.edition_id);
    place.fixture.store.delete(&path(&unsealed)).await.expect("deleted");
    let refused = place.expunge().await.expect_err("one is being built");
    assert!(matches!(refused, ExpungeRefused::Building { .. }), "{refused}");
    assert!(place.is_there(&place.data(2)));
    let record = layout::expunged(&place.withdrawn.product_id, &place.withdrawn.edition_id);
    assert!(!place.is_there(&record), "nothing was begun");
}

/// INV-412: an edition sealed and not recorded yet lists files too.
#[tokio::test]
async fn a_waiting_edition_keeps_its_files() {
    let mut place = Place::new().await;
    let waiting = place.fixture.sealed("population", Some(&place.withdrawn), &[]).await;
    let done = place.expunge().await.expect("expunged");
    let stays: BTreeSet<&str> = done.record.stays.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(stays, BTreeSet::from([place.data(1).as_str(), place.data(2).as_str()]));
    assert!(
        done.record
            .stays
            .iter()
            .all(|file| file.listed_by.contains(&waiting.edition_id))
    );
    assert!(place.is_there(&place.data(2)));
}

/// INV-412: what GC deleted long ago leaves nothing to expunge, and the answer says so.
#[tokio::test]
async fn an_edition_that_is_gone_is_said_to_be() {
    let place = Place::new().await;
    let folder = layout::edition(&place.withdrawn.product_id, &place.withdrawn.edition_id);
    fs::remove_dir_all(place.folder.path().join(folder)).expect("removed");
    let refused = place.expunge().await.expect_err("nothing is there");
    assert!(matches!(refused, ExpungeRefused::Gone { .. }), "{refused}");
}

/// INV-412: a record is read as it is written, and without a reason it is none.
#[tokio::test]
async fn a_record_reads_back() {
    let place = Place::new().await;
    let record = place.expunge().await.expect("expunged").record;
    let bytes = record.encode().expect("encoded");
    assert_eq!(Expunged::decode(&bytes), Ok(record.clone()));
    let text = String::from_utf8(bytes).expect("text");
    for (from, to) in [
        (record.reason.as_str(), " "),
        ("\"actor\"", "\"author\""),
        ("\"begun_at\":\"2026", "\"begun_at\":\"26"),
    ] {
        let error = Expunged::decode(text.replace(from, to).as_bytes()).expect_err(to);
        assert_eq!(error.rule, Some(412), "{error}");
    }
    let other = EditionId::generate();
    assert!(record.check_path(&record.product_id, &other).is_err());
}

/// INV-413, INV-412: GC goes on after an expunge: the product's other files are judged as ever.
#[tokio::test]
async fn gc_does_not_miss_an_expunged_manifest() {
    let place = Place::new().await;
    drop(place.expunge().await.expect("expunged"));
    let (store, now) = (&*place.fixture.store, place.fixture.clock.now());
    let plan = crate::gc::plan(store, &place.files, &place.fixture.retention, now).await;
    assert_eq!(plan.expect("a plan").kept, []);
}
