//! How much is read: manifests first, then row groups, then only the columns asked for.

use std::sync::Arc;

use arrow::array::{Date32Array, Int64Array, StringArray, TimestampMicrosecondArray};
use sovm_object::{
    record::{TimeRange, manifest::PartitionValues},
    types::{Column, ColumnType},
};

use super::fixture::*;
use crate::api::ScanCounts;

const EXPLAIN: QueryOptions = QueryOptions { explain: true, ..PLAIN };

async fn counts(table: &Arc<Table>, sql: &str) -> ScanCounts {
    query(table, sql, EXPLAIN).await.unwrap().1.explain.unwrap().scan
}

/// SOP-176, SOP-178: of many objects only those that can match are opened.
#[tokio::test]
async fn only_objects_that_can_match_are_opened() {
    let ranges: Vec<_> = (0..40).map(|object| (object * 10, object * 10 + 10)).collect();
    let table = Arc::new(numbers(&ranges));
    let found = counts(&table, "select n from t where n between 95 and 104").await;
    assert_eq!(
        (found.objects_considered, found.objects_pruned, found.objects_opened),
        (40, 38, 2)
    );
    let none = counts(&table, "select n from t where n > 1000").await;
    assert_eq!(
        (none.objects_pruned, none.objects_opened, none.bytes_verified),
        (40, 0, 0)
    );
}

/// SOP-101: a row group that may match is decoded whole, and the filter is evaluated again over its values.
#[tokio::test]
async fn only_row_groups_that_can_match_are_read() {
    let table = Arc::new(numbers(&[(0, 1_000)]));
    let found = counts(&table, "select n from t where n = 450").await;
    assert_eq!(
        (found.objects_opened, found.row_groups_read, found.row_groups_skipped),
        (1, 1, 9)
    );
    assert_eq!(found.rows_decoded, ROW_GROUP_ROWS as u64);
    assert_eq!(rows(&table, "select n from t where n = 450").await, ["| 450 |"]);
    let (_, report) = query(&table, "select n from t where n = 450", EXPLAIN).await.unwrap();
    let plan = report.explain.unwrap().plan;
    assert!(plan.contains("FilterExec: n"), "no filter is left in the plan:\n{plan}");
}

/// SOP-83: a projection verifies its columns and the footer, not the object.
#[tokio::test]
async fn only_columns_asked_for_are_read() {
    let mut table = Table::new(vec![
        Column::new(1, "n", ColumnType::Int64, false),
        Column::new(2, "s", ColumnType::Text, false),
    ]);
    // The footer is decrypted for each of them, so the texts are much longer than it.
    let long = (0..100_u64).map(|row| {
        (0..100_u64)
            .map(|i| format!("{:x}", (row * 7919 + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect::<String>()
    });
    table.publish(vec![
        Arc::new(Int64Array::from_iter_values(0..100)),
        Arc::new(StringArray::from_iter_values(long)),
    ]);
    let table = Arc::new(table);
    let narrow = counts(&table, "select n from t").await;
    let counted = counts(&table, "select count(*) from t").await;
    let wide = counts(&table, "select s from t").await;
    assert!(narrow.bytes_decrypted * 4 < wide.bytes_decrypted, "{narrow:?} {wide:?}");
    assert!(counted.bytes_decrypted <= narrow.bytes_decrypted);
}

/// A limit opens one object after the other and stops.
#[tokio::test]
async fn limit_opens_no_more_than_it_needs() {
    let table = Arc::new(numbers(&[(0, 10), (10, 20), (20, 30)]));
    assert_eq!(counts(&table, "select n from t limit 5").await.objects_opened, 1);
    assert_eq!(counts(&table, "select n from t limit 15").await.objects_opened, 2);
}

/// SOP-184: the time range of the manifest chooses objects, boundaries included.
#[tokio::test]
async fn time_range_chooses_objects() {
    let mut table = Table::new(vec![Column::new(1, "at", ColumnType::TimestampUs, false)]);
    table.time = Some(1);
    for hour in 0..4_i64 {
        let (min, max) = (hour * 3_600_000_000, hour * 3_600_000_000 + 1_800_000_000);
        table.publish(vec![Arc::new(
            TimestampMicrosecondArray::from(vec![min, max]).with_timezone("UTC"),
        )]);
        table.forge(|manifest| {
            manifest.pruning_statistics = Some(vec![]);
            manifest.time_range = Some(TimeRange {
                min,
                max,
                has_null_time: false,
            });
        });
    }
    let table = Arc::new(table);
    let sql = "select count(*) from t where at >= timestamp '1970-01-01T01:30:00Z' and at <= timestamp '1970-01-01T02:00:00Z'";
    assert_eq!(rows(&table, sql).await, ["| 2 |"]);
    assert_eq!(counts(&table, sql).await.objects_opened, 2);
}

/// SOP-102: bounds that lie hide rows of their own producer's object and of no other.
#[tokio::test]
async fn lying_bounds_hide_only_their_own_rows() {
    let mut table = numbers(&[(0, 10), (0, 10)]);
    table.forge(|manifest| {
        manifest.pruning_statistics.as_mut().unwrap()[0].max = Some(sovm_object::key::Value::Int(0).to_bytes())
    });
    assert_eq!(
        rows(&Arc::new(table), "select count(*) from t where n = 5").await,
        ["| 1 |"]
    );
}

/// SOP-176: the partition values of the manifest alone choose objects; of the others not a byte is read. A value that no
/// writer writes excludes nothing.
#[tokio::test]
async fn partition_values_choose_objects() {
    let mut table = Table::new(vec![
        Column::new(1, "n", ColumnType::Int64, false),
        Column::new(2, "day", ColumnType::Date, true),
    ]);
    table.partition = vec![(2, "physical".to_owned())];
    for day in [Some(0), Some(1), Some(2), None] {
        table.publish(vec![
            Arc::new(Int64Array::from(vec![1, 2, 3])),
            Arc::new(Date32Array::from(vec![day; 3])),
        ]);
        table.forge(|manifest| {
            manifest.pruning_statistics = Some(vec![]);
            let text = day.map(|day| format!("1970-01-{:02}", day + 1));
            manifest.partition_values = Some(PartitionValues([("physical".to_owned(), text)].into()));
        });
    }
    let table = Arc::new(table);
    for (filter, opened, found) in [
        ("day = date '1970-01-02'", 1, 3),
        ("day in (date '1970-01-01', date '1970-01-03')", 2, 6),
        ("day > date '1970-01-01'", 2, 6),
        ("day <> date '1970-01-01' and n = 2", 2, 2),
        ("day between date '1970-01-02' and date '1970-01-09'", 2, 6),
        ("day is null", 1, 3),
        ("day is not null", 3, 9),
        ("n > 1", 4, 8),
    ] {
        let sql = format!("select count(*) from t where {filter}");
        assert_eq!(rows(&table, &sql).await, [format!("| {found} |")], "{filter}");
        assert_eq!(counts(&table, &sql).await.objects_opened, opened, "{filter}");
    }
    let elsewhere = counts(&table, "select n from t where day = date '1999-01-01'").await;
    assert_eq!((elsewhere.objects_pruned, elsewhere.bytes_verified), (4, 0));

    let mut odd = Table::new(vec![Column::new(1, "n", ColumnType::Int64, false)]);
    odd.partition = vec![(1, "n".to_owned())];
    odd.publish(vec![Arc::new(Int64Array::from(vec![7]))]);
    odd.forge(|manifest| {
        manifest.pruning_statistics = Some(vec![]);
        manifest.partition_values = Some(PartitionValues([("n".to_owned(), Some("+9".to_owned()))].into()));
    });
    assert_eq!(rows(&Arc::new(odd), "select n from t where n = 7").await, ["| 7 |"]);
}
