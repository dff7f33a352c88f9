//! Merging a final product's tables.

use std::{io, sync::Arc};

use arrow::{
    array::{Array as _, ArrayRef, Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema},
};
use bytes::Bytes;
use parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
    file::{metadata::SortingColumn, properties::WriterProperties},
};

use super::super::{
    EditionBuilder, EditionError, MessageFormat, SortedBy, data::DataFile as _, seal::SealRequest, testing::*,
};
use crate::{
    doc::{FilePath, Lifecycle, Tier, layout},
    fingerprint::CheckProfile,
    store::{Creation, StorePath},
};

type Row = (Option<String>, i64);

fn row(area: &str, value: i64) -> Row {
    (Some(area.to_owned()), value)
}

/// A file that declares to be in order of its areas, the largest value of an area first; in row groups of three rows.
fn declared(rows: &[Row]) -> Bytes {
    let schema = Arc::new(Schema::new(vec![
        Field::new("area", DataType::Utf8, true),
        Field::new("value", DataType::Int64, false),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|(area, _)| area.as_deref()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|(_, value)| *value).collect::<Int64Array>()),
    ];
    let by = |column_idx, descending| SortingColumn {
        column_idx,
        descending,
        nulls_first: true,
    };
    let properties = WriterProperties::builder()
        .set_sorting_columns(Some(vec![by(0, false), by(1, true)]))
        .set_max_row_group_row_count(Some(3))
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema.clone(), Some(properties)).unwrap();
    writer.write(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    writer.close().unwrap();
    bytes.into()
}

fn read(bytes: Bytes) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(bytes)
        .unwrap()
        .build()
        .unwrap()
    {
        let batch = batch.unwrap();
        let areas: &StringArray = batch.column(0).as_any().downcast_ref().unwrap();
        let values: &Int64Array = batch.column(1).as_any().downcast_ref().unwrap();
        for index in 0..batch.num_rows() {
            let area = areas.is_valid(index).then(|| areas.value(index).to_owned());
            rows.push((area, values.value(index)));
        }
    }
    rows
}

async fn final_world() -> World {
    let mut world = World::in_memory(false).await;
    world.lifecycle = Lifecycle::Final;
    world
}

async fn begun(world: &World) -> EditionBuilder {
    let mut builder = world.begin(1).await;
    builder
        .add_structures(message(), MessageFormat::Json, &[])
        .await
        .unwrap();
    builder
}

async fn bytes_of(world: &World, path: &FilePath) -> Bytes {
    let name = StorePath::parse(&format!("{}/{path}", layout::data(&product()))).unwrap();
    world.store.get(&name).await.unwrap().unwrap().bytes
}

fn paths(builder: &EditionBuilder) -> Vec<FilePath> {
    let table = builder.list().table(&flow()).unwrap();
    table.files.iter().map(|file| file.path.clone()).collect()
}

/// INV-97, INV-98: a final product's table becomes one file whose rows are those of its files, in the order these declare, over row
/// groups and with nulls; the content fingerprint is the same, so the merged edition is recorded, and the old files stay.
#[tokio::test]
async fn a_final_table_becomes_one_file_in_its_declared_order() {
    let world = final_world().await;
    let mut builder = begun(&world).await;
    let files = [
        vec![
            (None, 4),
            row("A", 9),
            row("A", 2),
            row("C", 5),
            row("C", 1),
            row("D", 0),
            row("F", 3),
        ],
        vec![row("A", 5), row("B", 8), row("B", 7), row("B", 6)],
        vec![(None, 9), row("A", 5), row("E", 1), row("G", 2), row("G", 1)],
    ];
    for rows in &files {
        world.add(&mut builder, &flow(), declared(rows)).await;
    }
    let first = world.publish(builder).await;

    let mut builder = world.begin(2).await;
    let old = paths(&builder);
    let merged = builder.merge_table(&flow()).await.unwrap();
    assert_eq!((merged.before, merged.after), (3, 1));
    let new = paths(&builder);
    let [path] = &new[..] else { panic!("one file") };
    let rows = read(bytes_of(&world, path).await);
    let mut expected = files.concat();
    // Nulls first; within an area the largest value first.
    expected.sort_by(|(area, value), (other, than)| area.cmp(other).then(than.cmp(value)));
    assert_eq!(rows, expected);
    let by = |column: &str, descending| SortedBy {
        column: column.to_owned(),
        descending,
        nulls_first: true,
    };
    let file = super::super::PlainParquet::new(bytes_of(&world, path).await);
    assert_eq!(file.order().unwrap(), [by("area", false), by("value", true)]);
    let again = builder.merge_table(&flow()).await.unwrap();
    assert_eq!((again.before, again.after), (1, 1), "nothing is left to do");

    let second = world.publish(builder).await;
    assert_eq!(second.content_fingerprint, first.content_fingerprint);
    for path in &old {
        assert!(!bytes_of(&world, path).await.is_empty(), "INV-25");
    }
    for edition in [1, 2] {
        let options = super::super::check::CheckOptions::default();
        let (place, id) = (world.place(), edition_id(edition));
        let report = super::super::check::check(&place, &id, CheckProfile::Publish, &options)
            .await
            .unwrap();
        assert_eq!(report.findings, []);
    }
}

/// INV-97: a table whose files lie in folders becomes one file a folder, and INV-98: files that declare no order are written one
/// after the other, since no order is set here.
#[tokio::test]
async fn a_partitioned_table_becomes_one_file_a_partition() {
    let world = final_world().await;
    let mut builder = begun(&world).await;
    let parts = [
        ("2020", "a", 9..12),
        ("2020", "b", 3..7),
        ("2021", "c", 0..2),
        ("2020", "d", 20..21),
    ];
    for (year, name, range) in parts {
        let path: FilePath = format!("DF_SYNTHETIC/year={year}/{name}.parquet").parse().unwrap();
        let bytes = Box::new(io::Cursor::new(numbers(range)));
        assert_eq!(
            world.place().data().create(&path, bytes).await.unwrap(),
            Creation::Created
        );
        builder.append(&flow(), &[path], Tier::Remote).await.unwrap();
    }
    let merged = builder.merge_table(&flow()).await.unwrap();
    assert_eq!((merged.before, merged.after), (4, 2));
    let files = paths(&builder);
    assert!(files[0].as_str().starts_with("DF_SYNTHETIC/year=2020/"), "{files:?}");
    assert_eq!(
        files[1].as_str(),
        "DF_SYNTHETIC/year=2021/c.parquet",
        "one file is left as it is"
    );
    let values: Vec<i64> = read(bytes_of(&world, &files[0]).await)
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    assert_eq!(values, [9, 10, 11, 3, 4, 5, 6, 20]);
    let manifest = world.publish(builder).await;
    assert_eq!(manifest.bindings[0].observations, 10);
}

/// INV-97: a revisable product's tables are not merged. INV-98: files that declare different orders, or aren't in the order they
/// declare, are refused, and so are files of other columns; the table stays as it was.
#[tokio::test]
async fn what_cannot_keep_its_order_is_not_merged() {
    let world = World::in_memory(false).await;
    let mut builder = world.first().await;
    let refusal = builder.merge_table(&flow()).await.unwrap_err();
    assert!(matches!(refusal, EditionError::MergeRevisable { .. }), "{refusal}");

    let sorted = declared(&[row("A", 2), row("B", 1)]);
    let unsorted = declared(&[row("B", 1), row("A", 2)]);
    for (other, expected) in [(numbers(0..3), "different"), (unsorted, "")] {
        let world = final_world().await;
        let mut builder = begun(&world).await;
        world.add(&mut builder, &flow(), sorted.clone()).await;
        world.add(&mut builder, &flow(), other).await;
        let before = builder.list().clone();
        let refusal = builder.merge_table(&flow()).await.unwrap_err();
        assert!(refusal.to_string().contains(expected), "{refusal}");
        assert_eq!(*builder.list(), before);
        assert_eq!(*world.publisher().resume().await.unwrap().list(), before);
        builder.seal(SealRequest::default()).await.unwrap();
    }
    let none = final_world().await;
    let refusal = begun(&none).await.merge_table(&flow()).await.unwrap_err();
    assert!(matches!(refusal, EditionError::NoTable { .. }), "{refusal}");
}
