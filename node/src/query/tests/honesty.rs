//! No answer comes from statistics, and none from bytes that did not verify.

use std::sync::Arc;

use sovm_object::key::Value;

use super::{super::ObjectFault, fixture::*};
use crate::{api::ObjectState, error::ErrorKind};

const EXPLAIN: QueryOptions = QueryOptions { explain: true, ..PLAIN };
const PARTIAL: QueryOptions = QueryOptions {
    allow_incomplete: true,
    ..PLAIN
};

/// SOP-97, SOP-99: bounds that lie do not become the answer of min and max.
#[tokio::test]
async fn forged_bounds_answer_nothing() {
    let mut table = numbers(&[(10, 20)]);
    table.forge(|manifest| {
        let stats = manifest.pruning_statistics.as_mut().unwrap();
        stats[0].min = Some(Value::Int(1).to_bytes());
        stats[0].max = Some(Value::Int(5).to_bytes());
        stats[0].null_count = 3;
    });
    let table = Arc::new(table);
    assert_eq!(
        rows(&table, "select min(n), max(n), count(*), count(n) from t").await,
        ["| 10 | 19 | 10 | 10 |"]
    );
}

/// SOP-98: `count(*)` decodes a column of every object, even if no column is asked for.
#[tokio::test]
async fn count_comes_from_pages() {
    let table = Arc::new(numbers(&[(0, 250), (250, 300)]));
    let (_, report) = query(&table, "select count(*) from t", EXPLAIN).await.unwrap();
    let explain = report.explain.unwrap();
    assert_eq!(explain.scan.rows_decoded, 300);
    assert_eq!((explain.scan.objects_opened, explain.scan.row_groups_read), (2, 4));
    assert!(explain.scan.bytes_decrypted > 0 && explain.scan.bytes_verified >= explain.scan.bytes_decrypted);
    assert!(explain.plan.contains("SovmScan"), "{}", explain.plan);
    assert!(!explain.plan.contains("PlaceholderRowExec"), "{}", explain.plan);
}

/// SOP-103: a manifest that states another count makes the object inconsistent, whatever was asked.
#[tokio::test]
async fn forged_row_count_is_refused() {
    for forged in [9, 11] {
        let mut table = numbers(&[(0, 10)]);
        table.forge(|manifest| manifest.row_count = forged);
        let id = table.objects[0].manifest.storage_id;
        let table = Arc::new(table);
        for sql in ["select count(*) from t", "select n from t"] {
            assert_eq!(
                query(&table, sql, PLAIN).await.unwrap_err().kind,
                ErrorKind::Integrity,
                "{sql}"
            );
        }
        assert_eq!(table.faults.lock().unwrap()[0], (id, ObjectFault::Inconsistent));
    }
}

/// SOP-81, SOP-92: one flipped bit anywhere and no row of the object is given out; the query fails or says so.
#[tokio::test]
async fn damaged_object_fails_the_query() {
    let probe = numbers(&[(0, 50)]);
    let length = probe.disk.len(probe.objects[0].manifest.storage_id);
    for at in (0..length).step_by(length / 9) {
        let table = numbers(&[(0, 50), (50, 60)]);
        let id = table.objects[0].manifest.storage_id;
        table.disk.flip(id, at.min(table.disk.len(id) - 1));
        let table = Arc::new(table);
        let error = query(&table, "select sum(n) from t", PLAIN).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Integrity, "{error:?}");
        assert!(error.message.contains(&id.fmt_short()));
        assert_eq!(table.faults.lock().unwrap()[0], (id, ObjectFault::HashMismatch));

        let (found, report) = query(&table, "select count(*) from t", PARTIAL).await.unwrap();
        assert_eq!(found, ["| 10 |"]);
        let missing = report.coverage.unwrap().missing;
        assert_eq!((missing.len(), missing[0].state), (1, ObjectState::Quarantined));
    }
}

/// SOP-91: right bytes and a wrong key is another fault than wrong bytes.
#[tokio::test]
async fn wrong_key_is_its_own_fault() {
    let mut other = numbers(&[(5, 6)]);
    let table = numbers(&[(0, 50)]);
    let id = table.objects[0].manifest.storage_id;
    // The other table's manifest and key are asked for bytes of the first one's object.
    let stray = other.objects[0].manifest.storage_id;
    other.alias(stray, id, &table);
    let other = Arc::new(other);
    let error = query(&other, "select n from t", PLAIN).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Integrity);
    assert_eq!(other.faults.lock().unwrap()[0], (id, ObjectFault::KeyMismatch));
}

/// Memory is bounded, and nothing is spilled: the query fails in words.
#[tokio::test(flavor = "multi_thread")]
async fn too_little_memory_is_said() {
    let table = Arc::new(numbers(&[(0, 100_000)]));
    let options = QueryOptions {
        memory_bytes: 200_000,
        ..PLAIN
    };
    let error = query(&table, "select n, count(*) from t group by n", options)
        .await
        .unwrap_err();
    assert!(error.message.contains("memory"), "{error:?}");
    assert!(error.next.unwrap().contains("--memory"));
}
