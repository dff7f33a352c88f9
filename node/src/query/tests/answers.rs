//! The same answers as plain DataFusion over the same rows.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, ListBuilder,
        RecordBatch, StringArray, StringBuilder, TimestampMicrosecondArray,
    },
    datatypes::{DataType, Field},
};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use proptest::prelude::*;
use sovm_object::types::{Column, ColumnType};

use super::fixture::*;

fn columns() -> Vec<Column> {
    vec![
        Column::new(1, "id", ColumnType::Int64, false),
        Column::new(2, "origin", ColumnType::Text, true),
        Column::new(3, "temp", ColumnType::Float64, true),
        Column::new(4, "wet", ColumnType::Bool, true),
        Column::new(5, "day", ColumnType::Date, true),
        Column::new(6, "at", ColumnType::TimestampUs, true),
        Column::new(7, "price", ColumnType::decimal(12, 2).unwrap(), true),
        Column::new(8, "small", ColumnType::Int32, true),
        Column::new(9, "tags", ColumnType::List, true),
        Column::new(10, "item", ColumnType::Text, true).within(9),
    ]
}

/// Rows with nulls, NaN, negative zero, empty lists and long texts.
fn arrays(from: i64, to: i64) -> Vec<ArrayRef> {
    let ids: Vec<i64> = (from..to).collect();
    let some = |id: i64, every: i64| id % every != 0;
    let texts: Vec<Option<String>> = ids
        .iter()
        .map(|id| {
            some(*id, 7).then(|| {
                if id % 50 == 1 {
                    "x".repeat(100)
                } else {
                    ["EWR", "JFK", "LGA"][(id % 3) as usize].to_owned()
                }
            })
        })
        .collect();
    let temps: Vec<Option<f64>> = ids
        .iter()
        .map(|id| match id % 11 {
            0 => None,
            1 => Some(f64::NAN),
            2 => Some(-0.0),
            _ => Some(*id as f64 / 4.0 - 20.0),
        })
        .collect();
    let item = Field::new("item", DataType::Utf8, true)
        .with_metadata([(PARQUET_FIELD_ID_META_KEY.to_owned(), "10".to_owned())].into());
    let mut tags = ListBuilder::new(StringBuilder::new()).with_field(Arc::new(item));
    for id in &ids {
        match id % 4 {
            0 => tags.append_null(),
            1 => tags.append(true),
            _ => {
                tags.values().append_value(format!("tag{}", id % 5));
                tags.values().append_null();
                tags.append(true);
            }
        }
    }
    vec![
        Arc::new(Int64Array::from(ids.clone())),
        Arc::new(StringArray::from(texts)),
        Arc::new(Float64Array::from(temps)),
        Arc::new(BooleanArray::from_iter(
            ids.iter().map(|id| some(*id, 5).then_some(id % 2 == 0)),
        )),
        Arc::new(Date32Array::from_iter(
            ids.iter().map(|id| some(*id, 9).then_some(15_000 + (*id / 10) as i32)),
        )),
        Arc::new(
            TimestampMicrosecondArray::from_iter(
                ids.iter()
                    .map(|id| some(*id, 13).then_some(1_357_000_000_000_000 + id * 3_600_000_000)),
            )
            .with_timezone("UTC"),
        ),
        Arc::new(
            Decimal128Array::from_iter(
                ids.iter()
                    .map(|id| some(*id, 6).then_some(i128::from(*id) * 101 - 5_000)),
            )
            .with_precision_and_scale(12, 2)
            .unwrap(),
        ),
        Arc::new(Int32Array::from_iter(
            ids.iter().map(|id| some(*id, 3).then_some((*id % 17) as i32)),
        )),
        Arc::new(tags.finish()),
    ]
}

fn table() -> (Arc<Table>, Vec<RecordBatch>) {
    let mut table = Table::new(columns());
    let schema = table.schema();
    let mut batches = Vec::new();
    for (from, to) in [(0, 350), (350, 500), (500, 501)] {
        table.publish(arrays(from, to));
        let plain = arrays(from, to)
            .iter()
            .zip(schema.fields())
            .map(|(array, field)| arrow::compute::cast(array, field.data_type()).unwrap())
            .collect();
        batches.push(RecordBatch::try_new(schema.clone(), plain).unwrap());
    }
    (Arc::new(table), batches)
}

const STATEMENTS: [&str; 32] = [
    "select * from t",
    "select count(*) from t",
    "select count(*), count(temp), count(origin) from t",
    "select min(id), max(id), min(temp), max(temp), min(origin), max(origin) from t",
    "select origin, count(*), avg(temp) from t where temp < 50 group by 1 order by 1",
    "select id from t where id between 95 and 105",
    "select id from t where id >= 349 and id < 352",
    "select count(*) from t where origin = 'JFK' and id > 400",
    "select count(*) from t where origin is null",
    "select count(*) from t where origin is not null and wet",
    "select count(*) from t where not wet",
    "select count(*) from t where wet is not true",
    "select id from t where origin like 'xx%' order by id",
    "select id, tags from t where tags is not null and id < 20",
    "select id from t where temp = 0",
    "select id from t where temp > 100",
    "select id from t where temp = 'NaN'",
    "select sum(price), min(price), max(price) from t where price > 100.5",
    "select day, count(*) from t where day >= date '2011-02-01' group by day",
    "select id from t where at > timestamp '2013-01-20T00:00:00Z' order by at limit 5",
    "select id, at from t where id < 3",
    "select id from t where small in (1, 2, 3) and id < 40",
    "select id from t where small not in (1, 2, 3) and id < 40",
    "select id from t where id = 1 or id = 499",
    "select a.id from t a join t b on a.id = b.id + 1 where a.id < 5",
    "select id from t order by id desc limit 3",
    "select distinct origin from t",
    "select id, row_number() over (partition by origin order by id) from t where id < 30",
    "select small % 2, count(*) from t group by 1 having count(*) > 3",
    "select 1 from t where id > 1000",
    "select count(*) from t where exists (select 1 from t u where u.id = t.id + 400)",
    "select id from t where id in (select small from t where small is not null) and id < 10",
];

#[tokio::test(flavor = "multi_thread")]
async fn answers_equal_plain_datafusion() {
    let (table, batches) = table();
    for sql in STATEMENTS {
        let expected = plain_rows(table.schema(), batches.clone(), sql).await;
        assert_eq!(rows(&table, sql).await, expected, "{sql}");
    }
    assert!(table.faults.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_without_order_gives_that_many_rows() {
    let (table, _) = table();
    for limit in [0, 1, 99, 100, 350, 351, 501, 1_000] {
        let found = rows(&table, &format!("select id from t limit {limit}")).await;
        assert_eq!(found.len(), limit.min(501), "{limit}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// SOP-100, SOP-186: leaving objects and row groups out changes no answer.
    #[test]
    fn pruning_changes_no_answer(
        values in prop::collection::vec(prop::option::weighted(0.8, -20_i64..20), 1..400),
        cuts in prop::collection::vec(0_usize..400, 0..4),
        low in -25_i64..25,
        width in 0_i64..10,
        form in 0_usize..6,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(values.len())).chain([0, values.len()]).collect();
            cuts.sort_unstable();
            let mut table = Table::new(vec![Column::new(1, "n", ColumnType::Int64, true)]);
            for pair in cuts.windows(2).filter(|pair| pair[0] < pair[1]) {
                table.publish(vec![Arc::new(Int64Array::from(values[pair[0]..pair[1]].to_vec()))]);
            }
            let high = low + width;
            let filter = [
                format!("n between {low} and {high}"),
                format!("n < {low} or n > {high}"),
                format!("n = {low}"),
                format!("n <> {low}"),
                format!("n is null or n >= {high}"),
                format!("not (n > {low}) and n is not null"),
            ][form].clone();
            let sql = format!("select n, count(*) from t where {filter} group by n");
            let schema = table.schema();
            let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(values))]).unwrap();
            let expected = plain_rows(schema, vec![batch], &sql).await;
            assert_eq!(rows(&Arc::new(table), &sql).await, expected, "{sql}");
        });
    }
}
