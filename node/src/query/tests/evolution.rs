//! Tables whose columns changed since an object was written.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt8Array, UInt64Array,
};
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

async fn opened(table: &Arc<Table>, sql: &str) -> u64 {
    let options = QueryOptions { explain: true, ..PLAIN };
    query(table, sql, options)
        .await
        .unwrap()
        .1
        .explain
        .unwrap()
        .scan
        .objects_opened
}

/// Two objects: one from before every number was widened, one from after. `base` is the first value of the second.
fn widened() -> (Table, RecordBatch) {
    let decimal = |precision| ColumnType::decimal(precision, 2).unwrap();
    let columns = |types: [ColumnType; 4]| -> Vec<Column> {
        let names = ["i", "u", "f", "d"];
        let columns = names.iter().zip(types).enumerate();
        columns
            .map(|(at, (name, ty))| Column::new(at as i32 + 1, *name, ty, true))
            .collect()
    };
    let narrow = [ColumnType::Int32, ColumnType::UInt8, ColumnType::Float32, decimal(5)];
    let wide = [ColumnType::Int64, ColumnType::UInt64, ColumnType::Float64, decimal(20)];
    let money = |values: Vec<i128>, precision| {
        Decimal128Array::from(values)
            .with_precision_and_scale(precision, 2)
            .unwrap()
    };
    let mut table = Table::new(columns(narrow));
    table.publish(vec![
        Arc::new(Int32Array::from(vec![Some(-7), Some(40), None])),
        Arc::new(UInt8Array::from(vec![0, 200, 255])),
        Arc::new(Float32Array::from(vec![0.1, -0.5, 3.0])),
        Arc::new(money(vec![-125, 100, 99_999], 5)),
    ]);
    table.columns = columns(wide);
    table.publish(vec![
        Arc::new(Int64Array::from(vec![40, 5_000_000_000, -9])),
        Arc::new(UInt64Array::from(vec![255, u64::MAX, 256])),
        Arc::new(Float64Array::from(vec![0.1, 1e300, 3.5])),
        Arc::new(money(vec![100, 1_000_000_000_000, -500], 20)),
    ]);
    let all: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![
            Some(-7),
            Some(40),
            None,
            Some(40),
            Some(5_000_000_000),
            Some(-9),
        ])),
        Arc::new(UInt64Array::from(vec![0, 200, 255, 255, u64::MAX, 256])),
        Arc::new(Float64Array::from(vec![f64::from(0.1_f32), -0.5, 3.0, 0.1, 1e300, 3.5])),
        Arc::new(money(vec![-125, 100, 99_999, 100, 1_000_000_000_000, -500], 20)),
    ];
    let batch = RecordBatch::try_new(table.schema(), all).unwrap();
    (table, batch)
}

/// SOP-182, SOP-186: after a widening, pruning by bounds written before it gives the rows that no pruning gives.
#[tokio::test]
async fn bounds_from_before_a_widening_prune_rightly() {
    let (table, batch) = widened();
    let schema = table.schema();
    let table = Arc::new(table);
    let constants = [
        ("i", vec!["-9", "-7", "40", "41", "5000000000", "9000000000"]),
        ("u", vec!["0", "200", "255", "256", "300"]),
        ("f", vec!["0.1", "-0.5", "3.0", "1e300", "0.10000000149011612"]),
        ("d", vec!["-1.25", "1.00", "1", "999.99", "10000000000.00", "0.01"]),
    ];
    for (column, constants) in constants {
        for constant in constants {
            for comparison in ["=", "<>", "<", "<=", ">", ">="] {
                let sql = format!("select * from t where {column} {comparison} {constant}");
                let expected = plain_rows(schema.clone(), vec![batch.clone()], &sql).await;
                assert_eq!(rows(&table, &sql).await, expected, "{sql}");
            }
        }
    }
    // And it does prune.
    for sql in [
        "select i from t where i > 41",
        "select i from t where i = -8",
        "select f from t where f < 0.0",
        "select d from t where d = cast('-2.50' as decimal(20,2))",
    ] {
        assert!(opened(&table, sql).await <= 1, "{sql}");
    }
}

/// SOP-17, SOP-19, SOP-183: bounds of a dropped column, and the lack of bounds of an added one, hide no row.
#[tokio::test]
async fn added_and_dropped_columns_hide_no_row() {
    let mut table = old_table();
    table.columns = vec![
        // `a` was dropped, and `c` now bears its name.
        Column::new(3, "a", ColumnType::Float32, true),
        Column::new(2_000_001, "late", ColumnType::Int64, true),
    ];
    table.publish(vec![
        Arc::new(Float32Array::from(vec![9.5, 10.5])),
        Arc::new(Int64Array::from(vec![Some(100), None])),
    ]);
    let table = Arc::new(table);
    assert_eq!(
        rows(&table, "select a from t where a < cast(1 as real)").await,
        ["| 0.5 |"]
    );
    assert_eq!(opened(&table, "select a from t where a < cast(1 as real)").await, 1);
    assert_eq!(
        rows(&table, "select a from t where late is null").await,
        ["| 0.5 |", "| 1.5 |", "| 10.5 |"]
    );
    assert_eq!(rows(&table, "select a from t where late = 100").await, ["| 9.5 |"]);
    assert_eq!(
        rows(&table, "select a from t where late < 100").await,
        Vec::<String>::new()
    );
    assert_eq!(rows(&table, "select count(late), count(*) from t").await, ["| 1 | 4 |"]);
}

/// SOP-138: where an object holds another column under an id, neither its values nor its bounds nor its type are looked at.
#[tokio::test]
async fn an_id_of_another_column_reads_as_null() {
    let mut table = old_table();
    let object = table.objects[0].manifest.storage_id;
    table.columns[1] = Column::new(2, "other", ColumnType::Int64, true);
    table.foreign.insert(object, vec![2]);
    table.publish(vec![
        Arc::new(Int32Array::from(vec![3])),
        Arc::new(Int64Array::from(vec![7])),
        Arc::new(Float32Array::from(vec![2.5])),
    ]);
    let table = Arc::new(table);
    assert_eq!(
        rows(&table, "select a, other, c from t").await,
        ["| 1 | | 0.5 |", "| 2 | | 1.5 |", "| 3 | 7 | 2.5 |"]
    );
    assert_eq!(
        rows(&table, "select a from t where other is null").await,
        ["| 1 |", "| 2 |"]
    );
    assert_eq!(rows(&table, "select a from t where other >= 0").await, ["| 3 |"]);
    assert!(table.faults.lock().unwrap().is_empty());
}
