use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, Int64Array, StringArray};
use arrow::datatypes::Int64Type;
use sovm_object::types::{ColumnType, schema_of_columns};

use super::*;
use crate::engine::objects::tests::genesis;

fn columns() -> Vec<Column> {
    vec![
        Column::new(1, "n", ColumnType::Int64, true),
        Column::new(2, "s", ColumnType::Text, true),
    ]
}

fn batch(numbers: &[Option<i64>], texts: &[Option<&str>]) -> RecordBatch {
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(numbers.to_vec())),
        Arc::new(StringArray::from(texts.to_vec())),
    ];
    RecordBatch::try_new(Arc::new(schema_of_columns(&columns()).unwrap()), arrays).unwrap()
}

/// SOP-127, SOP-129: equal values go together, null is a partition of its own, and the map's keys are physical names even
/// after a column got another name.
#[test]
fn a_batch_is_split_by_partition() {
    let table = genesis(&columns(), &[2], &[]);
    let mut renamed = columns();
    renamed[1].name = "another name".into();
    let partitioner = Partitioner::new(&table, &renamed);
    let rows = batch(
        &[Some(1), Some(2), Some(3), Some(4), None],
        &[Some("a"), Some("b"), Some("a"), None, Some("b")],
    );
    let parts = partitioner.split(&rows, 100).unwrap();
    let found: Vec<(u64, usize, Option<String>)> = parts
        .iter()
        .map(|part| {
            let values = partitioner.values(part).unwrap().0;
            assert_eq!(values.keys().collect::<Vec<_>>(), ["s"]);
            (part.first_row, part.rows.num_rows(), values["s"].clone())
        })
        .collect();
    assert_eq!(
        found,
        [(101, 2, Some("a".into())), (102, 2, Some("b".into())), (104, 1, None)]
    );
    assert_eq!(parts[0].rows.column(0).as_primitive::<Int64Type>().values(), &[1, 3]);

    let one = batch(&[Some(1), Some(2)], &[Some("a"), Some("a")]);
    assert_eq!(partitioner.split(&one, 0).unwrap().len(), 1);
    let unpartitioned = Partitioner::new(&genesis(&columns(), &[], &[]), &columns());
    assert_eq!(unpartitioned.split(&rows, 0).unwrap().len(), 1);
    assert!(
        unpartitioned
            .values(&unpartitioned.split(&rows, 0).unwrap()[0])
            .unwrap()
            .0
            .is_empty()
    );
}

/// SOP-128: an empty text names its row.
#[test]
fn an_empty_partition_text_is_refused_with_its_row() {
    let partitioner = Partitioner::new(&genesis(&columns(), &[2], &[]), &columns());
    let rows = batch(&[Some(1), Some(2)], &[Some("a"), Some("")]);
    let parts = partitioner.split(&rows, 7).unwrap();
    let error = partitioner.values(&parts[1]).unwrap_err().to_string();
    assert!(error.contains("row 9") && error.contains("\"s\""), "{error}");
}

#[test]
fn what_cannot_partition_a_table_is_refused() {
    let mut columns = columns();
    columns.push(Column::new(3, "f", ColumnType::Float64, true));
    check_partition(&columns, &[1, 2]).unwrap();
    check_partition(&columns, &[]).unwrap();
    for partition in [&[3][..], &[1, 1], &[1; 9]] {
        assert!(check_partition(&columns, partition).is_err(), "{partition:?}");
    }
}

/// Rows are sorted by the pruning columns that somebody chose, equal ones as they came; partition columns are left out.
#[test]
fn rows_are_sorted_by_chosen_pruning_columns() {
    let schema = schema_of_columns(&columns()).unwrap();
    let order = |pruning: &[i32], partition: &[i32]| {
        SortOrder::new(&genesis(&columns(), partition, pruning), &columns(), &schema)
    };
    assert!(
        order(&[1, 2], &[]).is_none(),
        "nobody chose the columns that every table gets"
    );
    assert!(order(&[1], &[1]).is_none());
    let by_text = order(&[2], &[]).unwrap();
    let batches = [
        batch(&[Some(1), Some(2), Some(3)], &[Some("b"), Some("a"), Some("b")]),
        batch(&[Some(4), Some(5)], &[None, Some("a")]),
    ];
    assert_eq!(
        by_text.order(&batches).unwrap(),
        Some(vec![(1, 0), (0, 1), (1, 1), (0, 0), (0, 2)])
    );
    let sorted = [batch(&[Some(9), Some(1)], &[Some("a"), Some("a")])];
    assert_eq!(by_text.order(&sorted).unwrap(), None);
    assert_eq!(by_text.order(&[]).unwrap(), None);
}
