use std::collections::BTreeSet;

use arrow::{
    array::{ArrayRef, AsArray as _, BinaryArray, Int64Array, StringArray},
    datatypes::Int64Type,
};
use rand::RngCore as _;
use sovm_object::{
    hlc::Hlc,
    id::{DomainId, MeshId, SiteId, TableId},
    key::Value,
    pme::{DecodeOptions, Footer},
    record::TableClass,
    schema::{OpGraph, columns_at},
    types::ColumnType,
    verified::MemoryObject,
};

use super::*;

/// A table with these columns.
pub(in crate::engine) fn genesis(columns: &[Column], partition: &[i32], pruning: &[i32]) -> TableGenesis {
    TableGenesis {
        mesh_id: MeshId::from_bytes([1; 32]),
        table_id: TableId::from_bytes([2; 16]),
        domain_id: DomainId::from_bytes([3; 32]),
        schema_name: "main".into(),
        table_name: "t".into(),
        class: TableClass::Append,
        columns: columns.iter().map(Column::to_def).collect(),
        identity: vec![],
        partition: partition.to_vec(),
        time: None,
        pruning: pruning.to_vec(),
        filter_salt: [4; 16],
        seq: 1,
        ops_seen: vec![],
        creator: SiteId::from_bytes([5; 32]),
        hlc: Hlc::default(),
    }
}

fn columns() -> Vec<Column> {
    vec![
        Column::new(1, "n", ColumnType::Int64, false),
        Column::new(2, "place", ColumnType::Text, true),
        Column::new(3, "kind", ColumnType::Int64, true),
    ]
}

/// Rows whose places and kinds repeat, nulls among them.
fn rows(range: std::ops::Range<i64>) -> RecordBatch {
    let place = |n: i64| (n % 7 != 6).then(|| format!("place {}", n % 7));
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(range.clone())),
        Arc::new(range.clone().map(place).collect::<StringArray>()),
        Arc::new(range.map(|n| Some(n * 31 % 10)).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(Arc::new(schema_of_columns(&columns()).unwrap()), arrays).unwrap()
}

fn write(mut writer: ObjectWriter, batches: impl IntoIterator<Item = RecordBatch>) -> Vec<Finished> {
    let mut objects = Vec::new();
    for batch in batches {
        writer
            .write(&batch, &mut |object| {
                objects.push(object);
                Ok(())
            })
            .unwrap();
        assert!(writer.open.len() <= writer.limits.open_objects);
        assert!(writer.open.values().map(Open::memory).sum::<usize>() <= writer.limits.open_bytes);
    }
    writer
        .finish(&mut |object| {
            objects.push(object);
            Ok(())
        })
        .unwrap();
    objects
}

/// A writer for a table whose columns were never changed.
fn writer_of(table: &TableGenesis) -> ObjectWriter {
    let schema = columns_at(table, &OpGraph::default(), &BTreeSet::new());
    ObjectWriter::new(table, &schema).unwrap()
}

fn writer(partition: &[i32], pruning: &[i32], limits: Limits) -> ObjectWriter {
    let mut writer = writer_of(&genesis(&columns(), partition, pruning));
    writer.limits = limits;
    writer
}

/// Values of an int64 column, row group by row group.
fn numbers(object: &Finished, column: usize) -> Vec<Vec<i64>> {
    let memory = MemoryObject::verify(object.sealed.storage_id, object.sealed.bytes.clone()).unwrap();
    let footer = Footer::open_whole(&memory, &object.dek).unwrap();
    (0..footer.row_groups())
        .map(|group| {
            let plan = footer.plan(&[group], &footer.project_all()).unwrap();
            let chunks = plan
                .ranges()
                .iter()
                .map(|range| memory.whole().part(range.clone()).unwrap());
            let batches = footer
                .decode(&plan, chunks.collect(), DecodeOptions::default())
                .unwrap();
            batches
                .flat_map(|batch| {
                    batch
                        .unwrap()
                        .column(column)
                        .as_primitive::<Int64Type>()
                        .values()
                        .to_vec()
                })
                .collect()
        })
        .collect()
}

fn digest(objects: &[Finished]) -> RowSetDigest {
    objects
        .iter()
        .fold(RowSetDigest::EMPTY, |sum, object| sum.plus(object.digest))
}

/// SOP-127, SOP-175: each object lies in one partition, says so in strings and in bounds, and together they hold the rows
/// of an unpartitioned table.
#[test]
fn objects_of_a_partitioned_table_lie_in_one_partition_each() {
    let batches = || (0..10).map(|batch| rows(batch * 1_000..(batch + 1) * 1_000));
    let plain = write(writer(&[], &[3], Limits::default()), batches());
    assert_eq!((plain.len(), plain[0].partition.0.len()), (1, 0));
    let parted = write(writer(&[3, 2], &[1], Limits::default()), batches());
    assert_eq!(digest(&parted), digest(&plain));
    assert_eq!(parted.len(), 70);
    let partitions: BTreeSet<_> = parted.iter().map(|object| object.partition.0.clone()).collect();
    assert_eq!(partitions.len(), 70);
    for object in &parted {
        assert_eq!(object.partition.0.keys().collect::<Vec<_>>(), ["kind", "place"]);
        let kind: i64 = object.partition.0["kind"].as_deref().unwrap().parse().unwrap();
        assert!(numbers(object, 2).concat().iter().all(|found| *found == kind));
        let stats = |id| object.statistics.iter().find(|stats| stats.field_id == id).unwrap();
        assert_eq!(object.statistics.len(), 3, "pruning and partition columns");
        assert_eq!(stats(3).min, Some(Value::Int(kind).to_bytes()));
        assert_eq!(stats(3).min, stats(3).max);
        match &object.partition.0["place"] {
            Some(place) => assert_eq!(stats(2).max, Some(Value::Text(place.clone()).to_bytes())),
            None => assert_eq!((&stats(2).min, stats(2).null_count), (&None, object.sealed.row_count)),
        }
    }
}

/// SOP-236: with more partitions than may be open, and more rows than may be in memory, objects end early, and every row
/// is in exactly one of them (`write` looks at the bounds after each batch).
#[test]
fn open_objects_and_their_bytes_are_bounded() {
    let batches = || (0..40).map(|batch| rows(batch * 500..(batch + 1) * 500));
    let plain = write(writer(&[], &[3], Limits::default()), batches());
    for limits in [
        Limits {
            open_objects: 3,
            ..Limits::default()
        },
        Limits {
            open_bytes: 60_000,
            ..Limits::default()
        },
        Limits {
            target_bytes: 1_500,
            run_bytes: 5_000,
            sorted_run_bytes: 5_000,
            ..Limits::default()
        },
    ] {
        for pruning in [&[1][..], &[1, 2, 3]] {
            let parted = write(writer(&[2, 3], pruning, limits), batches());
            assert!(parted.len() > 70, "{limits:?}");
            assert_eq!(digest(&parted), digest(&plain), "{limits:?}");
            let count: u64 = parted.iter().map(|object| object.sealed.row_count).sum();
            assert_eq!(count, 20_000);
        }
    }
}

/// Rows of an object stand in the order of the chosen pruning columns, run by run, so that the row groups of one run do not
/// overlap; nothing is lost on the way.
#[test]
fn rows_are_sorted_within_a_run() {
    let batches = || (0..30).map(|batch| rows(batch * 8_192..(batch + 1) * 8_192));
    let plain = write(writer(&[], &[1, 2, 3], Limits::default()), batches());
    let sorted = write(writer(&[], &[3], Limits::default()), batches());
    assert_eq!(digest(&sorted), digest(&plain));
    assert_eq!(sorted.len(), 1);
    let groups = numbers(&sorted[0], 2);
    assert!(groups.len() > 1, "{}", groups.len());
    assert!(groups.concat().is_sorted());
    // Equal rows as they came.
    let ids = numbers(&sorted[0], 0).concat();
    let kinds = groups.concat();
    assert!(
        ids.windows(2)
            .zip(kinds.windows(2))
            .all(|(id, kind)| kind[0] < kind[1] || id[0] < id[1])
    );
    // A table whose maker chose no column keeps the order of the input.
    assert!(numbers(&plain[0], 0).concat().is_sorted());
}

/// SOP-271, SOP-275: of a large ingest all objects but the last have 16 to 64 MiB, whether rows are sorted or not, and none
/// comes near the largest length that is ever written.
#[test]
fn objects_of_a_large_ingest_have_their_size() {
    let columns = vec![
        Column::new(1, "n", ColumnType::Int64, false),
        Column::new(2, "noise", ColumnType::Bytes, false),
    ];
    let schema = Arc::new(schema_of_columns(&columns).unwrap());
    let mut noise = vec![0; 4_096];
    let mut batch = |number: i64| {
        let values: Vec<Vec<u8>> = (0..256)
            .map(|_| {
                rand::rng().fill_bytes(&mut noise);
                noise.clone()
            })
            .collect();
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(
                (0..256).map(|row| row * 7_919 % 257 + number),
            )),
            Arc::new(BinaryArray::from_iter_values(&values)),
        ];
        RecordBatch::try_new(schema.clone(), arrays).unwrap()
    };
    for pruning in [&[1][..], &[1, 2]] {
        let writer = writer_of(&genesis(&columns, &[], pruning));
        let sizes: Vec<u64> = write(writer, (0..140).map(&mut batch))
            .iter()
            .map(|object| object.sealed.exact_byte_size)
            .collect();
        let (_, full) = sizes.split_last().unwrap();
        assert!(full.len() >= 2, "{sizes:?}");
        assert!(
            full.iter().all(|size| (16 << 20..=64 << 20).contains(size)),
            "{sizes:?}"
        );
    }
}

/// SOP-238: in a table whose rows are deleted by identity, one identity twice in a batch is refused by its values.
#[test]
fn an_identity_stands_once_in_a_batch() {
    let write = |class: TableClass, identity: &[i32]| {
        let table = TableGenesis {
            class,
            identity: identity.to_vec(),
            ..genesis(&columns(), &[], &[3])
        };
        let mut writer = writer_of(&table);
        writer.write(&rows(0..20), &mut |_| Ok(())).unwrap();
        writer.finish(&mut |_| Ok(()))
    };
    write(TableClass::AppendDelete, &[1]).unwrap();
    write(TableClass::Append, &[3]).unwrap();
    let error = write(TableClass::AppendDelete, &[3]).unwrap_err().to_string();
    assert!(error.contains("Int(0)") && error.contains("kind"), "{error}");
}
