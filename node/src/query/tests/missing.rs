//! Objects that are not here: a query fails, or says what it lacks; never silently partial.

use std::sync::Arc;

use super::{super::ObjectFault, fixture::*};
use crate::{api::ObjectState, error::ErrorKind};

const PARTIAL: QueryOptions = QueryOptions {
    allow_incomplete: true,
    ..PLAIN
};

/// SOP-266: a needed object that is pending fails the query and is named; `--allow-incomplete` answers with coverage.
#[tokio::test]
async fn pending_object_fails_or_is_listed() {
    let mut table = numbers(&[(0, 10), (10, 20), (20, 30)]);
    table.lose(1);
    let id = table.objects[1].manifest.storage_id;
    let table = Arc::new(table);
    let error = query(&table, "select count(*) from t", PLAIN).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Incomplete);
    assert!(
        error.message.contains(&id.fmt_short()) && error.message.contains("asked nobody yet"),
        "{error:?}"
    );

    let (found, report) = query(&table, "select count(*), max(n) from t", PARTIAL).await.unwrap();
    assert_eq!(found, ["| 20 | 29 |"]);
    let coverage = report.coverage.unwrap();
    assert_eq!((coverage.objects_needed, coverage.missing.len()), (3, 1));
    assert_eq!(
        (coverage.missing[0].storage_id.clone(), coverage.missing[0].state),
        (id.to_string(), ObjectState::PendingBytes)
    );
}

/// SOP-267: a pending object that cannot match does not make a query incomplete.
#[tokio::test]
async fn pending_object_outside_the_predicate_is_not_missed() {
    let mut table = numbers(&[(0, 10), (10, 20)]);
    table.lose(1);
    let table = Arc::new(table);
    assert_eq!(rows(&table, "select count(*) from t where n < 10").await, ["| 10 |"]);
    let (_, report) = query(&table, "select count(*) from t where n < 10", PARTIAL)
        .await
        .unwrap();
    assert!(report.coverage.unwrap().missing.is_empty());
}

/// SOP-87: bytes the store promised and does not have.
#[tokio::test]
async fn bytes_that_vanished_are_reported() {
    let table = numbers(&[(0, 10), (10, 20)]);
    let id = table.objects[0].manifest.storage_id;
    table.disk.remove(id);
    let table = Arc::new(table);
    let error = query(&table, "select n from t", PLAIN).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Incomplete);
    assert_eq!(table.faults.lock().unwrap()[0], (id, ObjectFault::BytesGone));
    let (found, report) = query(&table, "select count(*) from t", PARTIAL).await.unwrap();
    assert_eq!(found, ["| 10 |"]);
    assert_eq!(report.coverage.unwrap().missing[0].state, ObjectState::PendingBytes);
}

/// A table that stands twice in a statement misses its object once.
#[tokio::test]
async fn missing_object_is_listed_once() {
    let mut table = numbers(&[(0, 10), (10, 20)]);
    table.lose(0);
    let (_, report) = query(&Arc::new(table), "select * from t a join t b on a.n = b.n", PARTIAL)
        .await
        .unwrap();
    assert_eq!(report.coverage.unwrap().missing.len(), 1);
}
