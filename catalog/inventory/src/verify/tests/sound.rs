//! Catalogues that pass.

use super::*;

/// INV-395, INV-176, INV-188: thirty-one editions with a rollback, a withdrawal and a reinstatement pass without a finding,
/// and everything was looked at.
#[tokio::test(start_paused = true)]
async fn a_catalogue_of_thirty_one_editions_passes() {
    let mut fixture = fixture().await;
    let editions = fixture.population().await;
    let report = fixture.verify().await;
    assert_eq!(report.findings, []);
    assert!(report.passed());
    assert_eq!(report.way, Some(Way::Current));
    // Version 1, 31 seals, a rollback, a withdrawal, a retirement, a reinstatement.
    assert_eq!(report.head.map(|head| head.seq.get()), Some(36));
    assert_eq!(report.counts.roots, 36);
    assert_eq!(report.counts.change_lists, 36);
    assert_eq!(report.counts.leaves, 35);
    // Each data file once, although later editions list it again.
    assert_eq!(report.counts.files, 31 * 2);
    assert_eq!(editions.len(), 31);
}

/// INV-191, INV-157, INV-166, INV-163: what another implementation writes: unknown fields, keys in another order, spaces, an
/// unknown event kind, a first version from before the history fields.
#[tokio::test(start_paused = true)]
async fn what_another_implementation_writes_passes() {
    let store = Arc::new(MemoryStore::new());
    let put = async |name: &str, text: String| {
        let created = crate::store::InventoryStore::create(&*store, &path(name), text.clone().into()).await;
        created.map(drop).expect("created");
        Sha256::of(text.as_bytes())
    };
    let (catalog, edition) = (
        "01a18e63-e292-7250-a332-b79d9b7a7efd",
        "01a18e63-e292-7250-a332-b79d9b7a7ef0",
    );
    put(
        "catalog.json",
        format!(r#"{{"restore_epoch":0, "x":[1], "catalog_id":"{catalog}","format_version":"1.7"}}"#),
    )
    .await;
    let mut fixture = Fixture::new(Arc::new(MemoryStore::new())).await;
    let manifest = fixture.sealed("trade", None, &[]).await;
    for file in fixture.store.list(Some(&path("products"))).await.expect("listed") {
        put(
            file.as_str(),
            String::from_utf8(fixture.get(file.as_str()).await).expect("text"),
        )
        .await;
    }
    let edition = edition.replace("01a18e63-e292-7250-a332-b79d9b7a7ef0", &manifest.edition_id.to_string());
    let entry = format!(
        r#""state":"live","edition_id":"{edition}","previous":null,"schema_version":"2.52","release_at":null,"state_changed_at":"2026-01-02T00:00:00Z","manifest_sha256":"{}""#,
        manifest.sha256()
    );
    let leaf = format!(
        r#"{{ "kind":"data", "product_id":"trade","new":true,"lifecycle":"revisable","format_version":"1.9","editions":[{{{entry},"colour":"red"}}]}}"#
    );
    let leaf = put(&layout::leaf(&Sha256::of(leaf.as_bytes())), leaf.clone()).await;
    let head = |seq: u64, previous: &str, created_at: &str, products: &str| {
        format!(
            r#""format_version":"1.9","seq":{seq},"previous_inventory":{previous},"restore_epoch":0,"created_at":"{created_at}","embargo":false,"retired":[],"producer":{{"version":"3","name":"other","build":7}},"products":{products}"#
        )
    };
    let first = head(1, "null", "2026-01-01T00:00:00Z", "{}");
    let first = put(
        &layout::root(Seq::FIRST),
        format!(r#"{{{first},"event":{{"kind":"seal","actor":"a","reason":""}}}}"#),
    )
    .await;
    let products = format!(r#"{{"trade":{{"leaf_sha256":"{leaf}","leaf":"inventory/leaves/{leaf}.json","n":1}}}}"#);
    let second = head(2, "1", "2026-01-02T00:00:00Z", &products);
    let changes = format!(
        r#"[{{"entries":[{{"entry":{{{entry}}},"to":"live","from":null,"edition_id":"{edition}"}}],"leaf_sha256":{{"to":"{leaf}","from":null}},"product_id":"trade"}}]"#
    );
    let second = put(
        &layout::root(Seq::new(2).expect("a number")),
        format!(
            r#"{{{second},"changes":{changes},"previous_root_sha256":"{first}","event":{{"kind":"annex","actor":"a","reason":""}},"zone":null}}"#
        ),
    )
    .await;
    put(
        "CURRENT",
        format!(r#"{{"restore_epoch":0,"root_sha256":"{second}","seq":2,"hint":1}}"#),
    )
    .await;
    let report = verify_store(&*store).await;
    assert_eq!(report.findings, []);
    assert_eq!((report.counts.roots, report.counts.change_lists), (2, 1));
}

/// INV-224, INV-226: a homeless artefact may change in all its holders in one version.
#[tokio::test(start_paused = true)]
async fn homes_copies_and_partials_in_order_pass() {
    let mut fixture = fixture().await;
    let structure = fixture.released("structure", None, &[("CL_AGE", "age 1", None)]).await;
    fixture
        .released(
            "population",
            None,
            &[("CL_AGE", "part", Some("age 1")), ("CL_OWN", "own", None)],
        )
        .await;
    fixture
        .released("trade", None, &[("CL_AGE", "age 1", None), ("CL_OWN", "own", None)])
        .await;
    let report = fixture.verify().await;
    assert_eq!(report.findings, [], "{}", structure.edition_id);
}

/// INV-227, INV-232, INV-223, INV-229, INV-231: a structure edit makes holders of the old copy stale: a warning that names the
/// URN, what is held, the home's live edition and the fix, and no failure.
#[tokio::test(start_paused = true)]
async fn stale_editions_are_reported_and_pass() {
    let mut fixture = fixture().await;
    let first = fixture.released("structure", None, &[("CL_AGE", "age 1", None)]).await;
    let data = fixture
        .released("population", None, &[("CL_AGE", "part", Some("age 1"))])
        .await;
    let second = fixture
        .released("structure", Some(&first), &[("CL_AGE", "age 2", None)])
        .await;
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(232, Severity::Warning)]);
    assert!(report.passed());
    let finding = &report.findings[0];
    assert_eq!(finding.path, layout::manifest(&data.product_id, &data.edition_id));
    let text = finding.to_string();
    for part in ["CL_AGE", &second.edition_id.to_string(), "republish product population"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// INV-222, INV-219: a partial whose home was withdrawn is a warning.
#[tokio::test(start_paused = true)]
async fn a_partial_without_a_home_is_a_warning() {
    let mut fixture = fixture().await;
    let home = fixture.released("structure", None, &[("CL_AGE", "age 1", None)]).await;
    fixture
        .released("population", None, &[("CL_AGE", "part", Some("age 1"))])
        .await;
    fixture
        .commit(&[crate::transition::Operation::Withdraw { live: key(&home) }])
        .await
        .expect("withdrawn");
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(222, Severity::Warning)]);
}
