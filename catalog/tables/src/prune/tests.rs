use std::sync::Arc;

use proptest::prelude::*;
use sovm_object::{
    id::ManifestHash,
    key::Value,
    record::{ColumnStats, ObjectKind, ObjectManifest, TimeRange},
};

use super::*;
use crate::{testing::World, view::ObjectState};

fn view(manifests: Vec<ObjectManifest>) -> ObjectView {
    ObjectView {
        storage_id: manifests[0].storage_id,
        kind: ObjectKind::Data,
        row_count: manifests[0].row_count,
        manifests: manifests
            .into_iter()
            .map(|m| (ManifestHash::from_bytes([0; 32]), Arc::new(m)))
            .collect(),
        state: ObjectState::Queryable,
        bytes: None,
    }
}

fn with(min: i64, max: i64) -> ObjectManifest {
    let stats = ColumnStats {
        field_id: 2,
        min: Some(Value::Int(min).to_bytes()),
        max: Some(Value::Int(max).to_bytes()),
        null_count: 0,
        min_exact: true,
        max_exact: true,
        has_nan: false,
    };
    ObjectManifest {
        pruning_statistics: Some(vec![stats]),
        ..World::new().manifest()
    }
}

fn compare(comparison: Comparison, value: i64) -> Test {
    Test::Compare {
        field_id: 2,
        comparison,
        value: Value::Int(value).to_bytes(),
    }
}

/// SOP-176: partition, bounds and time each leave an object unread without opening it.
#[test]
fn objects_that_cannot_match_are_left_unread() {
    let object = view(vec![World::new().manifest()]);
    let partition = |value: Option<&str>| Test::PartitionIs {
        column: "planted_column_word".into(),
        value: value.map(str::to_owned),
    };
    let cases = [
        (compare(Comparison::Eq, 31), false),
        (compare(Comparison::Eq, 30), true),
        (compare(Comparison::Lt, -5), false),
        (Test::IsNull { field_id: 2 }, true),
        (partition(Some("planted-value-word")), true),
        (partition(Some("elsewhere")), false),
        (partition(None), false),
        (
            Test::PartitionIsNot {
                column: "planted_column_word".into(),
                value: "planted-value-word".into(),
            },
            false,
        ),
        (
            Test::Time {
                comparison: Comparison::Gt,
                instant_us: 2_000,
            },
            false,
        ),
        (
            Test::Time {
                comparison: Comparison::GtEq,
                instant_us: 2_000,
            },
            true,
        ),
        (
            Test::Compare {
                field_id: 77,
                comparison: Comparison::Eq,
                value: Value::Int(1).to_bytes(),
            },
            true,
        ),
        (
            Test::PartitionIs {
                column: "unknown".into(),
                value: None,
            },
            true,
        ),
    ];
    for (test, expected) in cases {
        assert_eq!(
            Filter(vec![vec![test.clone()]]).may_match(&object),
            expected,
            "{test:?}"
        );
    }
    assert!(Filter::default().may_match(&object));
    assert!(Filter(vec![vec![]]).may_match(&object));
}

/// SOP-183: an object without statistics is always read.
#[test]
fn missing_statistics_never_exclude() {
    let bare = ObjectManifest {
        pruning_statistics: Some(vec![]),
        time_range: None,
        partition_values: None,
        ..World::new().manifest()
    };
    let object = view(vec![bare]);
    for test in [
        compare(Comparison::Eq, 1),
        Test::IsNull { field_id: 2 },
        Test::IsNotNull { field_id: 2 },
        Test::PartitionIs {
            column: "planted_column_word".into(),
            value: Some("x".into()),
        },
        Test::Time {
            comparison: Comparison::Eq,
            instant_us: 1,
        },
    ] {
        assert!(Filter(vec![vec![test]]).may_match(&object));
    }
}

/// SOP-160: a second manifest with lying bounds hides nothing.
#[test]
fn lying_manifest_hides_no_rows() {
    let object = view(vec![with(100, 200), with(0, 10)]);
    let wants = |value| Filter(vec![vec![compare(Comparison::Eq, value)]]);
    assert!(wants(5).may_match(&object));
    assert!(wants(150).may_match(&object));
    assert!(!wants(50).may_match(&object));
    let (kept, pruned) = wants(50).select(vec![object, view(vec![with(40, 60)])]);
    assert_eq!((kept.len(), pruned), (1, 1));
}

proptest! {
    /// SOP-186: a filter never leaves an object unread in which a row passes it.
    #[test]
    fn pruning_never_loses_a_row(
        rows in prop::collection::vec(-20i64..20, 1..8),
        filter in prop::collection::vec(prop::collection::vec((0usize..6, -22i64..22, any::<bool>()), 1..3), 0..4),
    ) {
        const ALL: [Comparison; 6] =
            [Comparison::Eq, Comparison::NotEq, Comparison::Lt, Comparison::LtEq, Comparison::Gt, Comparison::GtEq];
        let holds = |comparison, row: i64, value: i64| match comparison {
            Comparison::Eq => row == value,
            Comparison::NotEq => row != value,
            Comparison::Lt => row < value,
            Comparison::LtEq => row <= value,
            Comparison::Gt => row > value,
            Comparison::GtEq => row >= value,
        };
        let (min, max) = (*rows.iter().min().unwrap(), *rows.iter().max().unwrap());
        let manifest = ObjectManifest {
            row_count: rows.len() as u64,
            time_range: Some(TimeRange { min, max, has_null_time: false }),
            ..with(min, max)
        };
        let passes = rows.iter().any(|row| {
            filter.iter().all(|tests| tests.iter().any(|(n, value, _)| holds(ALL[*n], *row, *value)))
        });
        let filter = Filter(filter.into_iter().map(|tests| tests.into_iter().map(|(n, value, on_time)| {
            if on_time {
                Test::Time { comparison: ALL[n], instant_us: value }
            } else {
                compare(ALL[n], value)
            }
        }).collect()).collect());
        prop_assert!(!passes || filter.may_match(&view(vec![manifest])));
    }
}
