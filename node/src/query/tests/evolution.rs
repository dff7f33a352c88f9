//! Tables whose columns changed since an object was written.

use std::sync::Arc;

use arrow::array::{Float32Array, Int32Array, StringArray};
use sovm_object::types::{Column, ColumnType};

use super::{super::ObjectFault, fixture::*};
use crate::error::ErrorKind;

fn old_table() -> Table {
    let mut table = Table::new(vec![
        Column::new(1, "a", ColumnType::Int32, true),
        Column::new(2, "b", ColumnType::Text, true),
        Column::new(3, "c", ColumnType::Float32, true),
    ]);
    table.publish(vec![
        Arc::new(Int32Array::from(vec![1, 2])),
        Arc::new(StringArray::from(vec!["x", "y"])),
        Arc::new(Float32Array::from(vec![0.5, 1.5])),
    ]);
    table
}

/// SOP-17, SOP-19: added reads as null, dropped is ignored, renamed keeps its values, and a name used again is another column.
#[tokio::test]
async fn columns_are_matched_by_id() {
    let mut table = old_table();
    table.columns = vec![
        Column::new(1, "renamed", ColumnType::Int32, true),
        Column::new(64, "b", ColumnType::Text, true),
        Column::new(3, "c", ColumnType::Float32, true),
    ];
    table.publish(vec![
        Arc::new(Int32Array::from(vec![3])),
        Arc::new(StringArray::from(vec!["new"])),
        Arc::new(Float32Array::from(vec![2.5])),
    ]);
    let table = Arc::new(table);
    assert_eq!(
        rows(&table, "select renamed, b, c from t").await,
        ["| 1 | | 0.5 |", "| 2 | | 1.5 |", "| 3 | new | 2.5 |"]
    );
    assert_eq!(rows(&table, "select count(*) from t where b is null").await, ["| 2 |"]);
    assert_eq!(rows(&table, "select count(b), count(*) from t").await, ["| 1 | 3 |"]);
    // Only the added column: the old object still counts its rows by decoding one it has.
    assert_eq!(rows(&table, "select b from t").await, ["| new |", "| |", "| |"]);
}

/// Widened columns read old values, and bounds written in the old type still prune.
#[tokio::test]
async fn widened_columns_read_old_objects() {
    let mut table = old_table();
    table.columns[0].ty = ColumnType::Int64;
    table.columns[2].ty = ColumnType::Float64;
    let table = Arc::new(table);
    assert_eq!(
        rows(&table, "select a + 3000000000, c from t where a = 2").await,
        ["| 3000000002 | 1.5 |"]
    );
    assert!(rows(&table, "select a from t where a > 2").await.is_empty());
}

/// SOP-18: an id with a type the table does not say makes the object refused as a whole, even if the column is not asked for.
#[tokio::test]
async fn another_type_refuses_the_object() {
    let mut table = old_table();
    table.columns[1].ty = ColumnType::Int64;
    let table = Arc::new(table);
    let error = query(&table, "select a from t", PLAIN).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Integrity);
    assert_eq!(table.faults.lock().unwrap()[0].1, ObjectFault::Malformed);
}

/// A required column that an old object lacks is a contradiction, not a null.
#[tokio::test]
async fn required_column_cannot_be_missing() {
    let mut table = old_table();
    table.columns.push(Column::new(9, "must", ColumnType::Int64, false));
    assert_eq!(
        query(&Arc::new(table), "select must from t", PLAIN)
            .await
            .unwrap_err()
            .kind,
        ErrorKind::Integrity
    );
}
