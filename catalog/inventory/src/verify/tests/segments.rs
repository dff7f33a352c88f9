//! Catalogues some of whose roots are segment lines.

use super::*;

/// Version 2 of four expired into a segment.
async fn expired() -> (Fixture, SegmentPath) {
    let fixture = opted_in().await;
    let name = expire_second(&*fixture.store).await;
    (fixture, name)
}

fn seq(number: u64) -> Seq {
    Seq::new(number).expect("a number")
}

async fn edit_history(fixture: &Fixture, edit: impl FnOnce(&mut History)) {
    let bytes = edited(&fixture.get(layout::HISTORY).await, edit);
    fixture.overwrite(layout::HISTORY, &bytes).await;
}

/// INV-321, INV-285: the chain goes over segment lines.
#[tokio::test(start_paused = true)]
async fn a_chain_over_a_segment_line_passes() {
    let (fixture, _) = expired().await;
    let report = fixture.verify().await;
    assert_eq!(report.findings, []);
    assert_eq!((report.counts.roots, report.counts.segments), (3, 1));
}

/// INV-321: a root that is there and its line say different things.
#[tokio::test(start_paused = true)]
async fn a_root_that_differs_from_its_line_is_an_error() {
    let (fixture, _) = expired().await;
    let first: Root = Document::decode(&fixture.get(&layout::root(seq(1))).await).expect("a root");
    let mut other: Root = Document::decode(&fixture.get(&layout::root(seq(3))).await).expect("a root");
    other.seq = seq(2);
    other.previous_inventory = Some(seq(1));
    other.created_at = first.created_at.plus(chrono::TimeDelta::seconds(1));
    fixture
        .put(&layout::root(seq(2)), &other.encode().expect("encoded"))
        .await;
    let found = rules(&fixture.verify().await);
    assert!(found.contains(&(321, Severity::Error)), "{found:?}");
    assert!(found.contains(&(161, Severity::Error)), "{found:?}");
}

/// INV-321, INV-340: an edited line, under a `HISTORY` that names it as edited.
#[tokio::test(start_paused = true)]
async fn an_edited_line_breaks_the_chain() {
    let (fixture, name) = expired().await;
    let text = String::from_utf8(fixture.get(&name.to_string()).await).expect("text");
    let segment: Segment = Document::decode(text.as_bytes()).expect("a segment");
    let edited = text.replace(
        &segment.lines[0].root_sha256.to_string(),
        &Sha256::of(b"another").to_string(),
    );
    assert_ne!(text, edited);
    fixture.overwrite(&name.to_string(), edited.as_bytes()).await;
    // The segment's own hash first; then a HISTORY that lies along.
    assert!(rules(&fixture.verify().await).contains(&(166, Severity::Error)));
    edit_history(&fixture, |history| {
        history.newest_segment = Some((name, Sha256::of(edited.as_bytes())))
    })
    .await;
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(161, Severity::Error)]);
    assert_eq!(report.findings[0].path, layout::root(seq(3)));
}

/// INV-285, INV-321: a segment that is gone takes its versions along.
#[tokio::test(start_paused = true)]
async fn a_missing_segment_is_an_error() {
    let (fixture, name) = expired().await;
    fixture.store.delete(&path(&name.to_string())).await.expect("deleted");
    assert_eq!(
        rules(&fixture.verify().await),
        [(285, Severity::Error), (321, Severity::Error)]
    );
}

/// INV-323: an orphan segment is reported and left alone.
#[tokio::test(start_paused = true)]
async fn an_orphan_segment_is_a_warning() {
    let (fixture, name) = expired().await;
    let clock = crate::writer::Clock::now(&*fixture.clock);
    let orphan = SegmentPath::at(Epoch::FIRST, seq(2), seq(2), clock, [2; 10]);
    fixture
        .put(&orphan.to_string(), &fixture.get(&name.to_string()).await)
        .await;
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(323, Severity::Warning)]);
    assert_eq!(report.findings[0].path, orphan.to_string());
}

/// INV-323, INV-279: an expiry line above `expired_through`.
#[tokio::test(start_paused = true)]
async fn an_expiry_line_above_expired_through_is_an_error() {
    let (fixture, _) = expired().await;
    edit_history(&fixture, |history| history.expired_through = Some(seq(1))).await;
    assert_eq!(rules(&fixture.verify().await), [(279, Severity::Error)]);
}

/// INV-280, INV-323: `cleaned_through` off the chain of segments, and documents of another catalogue.
#[tokio::test(start_paused = true)]
async fn a_history_that_names_what_is_not_there_is_an_error() {
    let (fixture, _) = expired().await;
    let clock = crate::writer::Clock::now(&*fixture.clock);
    let elsewhere = SegmentPath::at(Epoch::FIRST, seq(1), seq(1), clock, [3; 10]);
    edit_history(&fixture, |history| history.cleaned_through = Some(elsewhere)).await;
    assert_eq!(rules(&fixture.verify().await), [(280, Severity::Error)]);

    let (fixture, _) = expired().await;
    edit_history(&fixture, |history| history.catalog_id = CatalogId::generate()).await;
    assert_eq!(rules(&fixture.verify().await), [(280, Severity::Error)]);
}

/// INV-134, INV-323: a version from `since_seq` on without the history fields.
#[tokio::test(start_paused = true)]
async fn a_version_since_the_opt_in_without_history_fields_is_an_error() {
    let (fixture, _) = expired().await;
    fixture.edit_head(|root| root.history = None).await;
    assert_eq!(
        rules(&fixture.verify().await),
        [(134, Severity::Error), (163, Severity::Error)]
    );
}
