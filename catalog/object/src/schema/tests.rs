use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{
    cbor::to_vec,
    hlc::Hlc,
    id::{DomainId, MeshId, SiteId, TableId},
    record::{ColumnChange, TableClass, TableOp, table_op::field_id_of_add},
    sign::record_id,
};

const TABLE: TableId = TableId::from_bytes([1; 16]);

fn genesis() -> TableGenesis {
    let column = |field_id, name: &str, ty: &str, parent| ColumnDef {
        field_id,
        name: name.into(),
        ty: ty.into(),
        nullable: false,
        parent,
    };
    TableGenesis {
        mesh_id: MeshId::from_bytes([2; 32]),
        table_id: TABLE,
        domain_id: DomainId::from_bytes([3; 32]),
        schema_name: "main".into(),
        table_name: "t".into(),
        class: TableClass::Append,
        columns: vec![
            column(1, "day", "date", None),
            column(2, "n", "int32", None),
            column(3, "tags", "list", None),
            column(4, "element", "text", Some(3)),
            column(5, "price", "decimal(10,2)", None),
        ],
        identity: vec![],
        partition: vec![1],
        time: None,
        pruning: vec![1, 2],
        filter_salt: [0; 16],
        seq: 1,
        ops_seen: vec![],
        creator: site(0),
        hlc: Hlc::new(1, 0),
    }
}

fn site(byte: u8) -> SiteId {
    SiteId::from_bytes([byte; 32])
}

/// Ops as devices make them.
#[derive(Clone, Default)]
struct Story {
    ops: Vec<(RecordId, TableOp)>,
    seq: u64,
}

impl Story {
    /// An op by `by` that had seen `seen` and all under it.
    fn op(&mut self, by: u8, seen: &[RecordId], change: ColumnChange) -> RecordId {
        self.seq += 1;
        self.op_numbered(by, self.seq, seen, change)
    }

    fn op_numbered(&mut self, by: u8, seq: u64, seen: &[RecordId], change: ColumnChange) -> RecordId {
        let mut parents = seen.to_vec();
        parents.sort_unstable();
        let op = TableOp {
            mesh_id: MeshId::from_bytes([2; 32]),
            table_id: TABLE,
            domain_id: DomainId::from_bytes([3; 32]),
            change,
            parents,
            issuer: site(by),
            seq,
            ops_seen: vec![],
            hlc: Hlc::new(1, 0),
        };
        let id = record_id(&to_vec(&op));
        self.ops.push((id, op));
        id
    }

    fn added(&self, id: RecordId) -> i32 {
        let (_, op) = self.ops.iter().find(|(found, _)| *found == id).unwrap();
        op.added_field_id().unwrap()
    }

    fn graph(&self) -> OpGraph {
        OpGraph::of(self.ops.clone())
    }

    fn schema(&self) -> TableSchema {
        let graph = self.graph();
        columns_at(&genesis(), &graph, &graph.known().copied().collect())
    }
}

fn add(name: &str, ty: ColumnType) -> ColumnChange {
    ColumnChange::Add { name: name.into(), ty }
}

const fn drop_of(field_id: i32) -> ColumnChange {
    ColumnChange::Drop { field_id }
}

fn rename(field_id: i32, name: &str) -> ColumnChange {
    ColumnChange::Rename {
        field_id,
        name: name.into(),
    }
}

const fn widen(field_id: i32, ty: ColumnType) -> ColumnChange {
    ColumnChange::Widen { field_id, ty }
}

fn shown(schema: &TableSchema) -> Vec<String> {
    let top = schema.live().filter(|column| column.def.parent.is_none());
    top.map(|column| format!("{} {}", column.name, column.def.ty)).collect()
}

/// SOP-14: without ops the columns are those of the founding record, and so is the fingerprint.
#[test]
fn no_ops_no_change() {
    let schema = Story::default().schema();
    assert_eq!(
        shown(&schema),
        ["day date", "n int32", "tags list", "price decimal(10,2)"]
    );
    assert_eq!(schema.columns().unwrap().len(), 5);
    assert_eq!(schema.fingerprint(), genesis().schema_fingerprint());
    assert_eq!((schema.pruning(), schema.dropped()), (&[1, 2][..], 0));
}

/// SOP-15: c dropped and added again is another column with another id; the old id stays taken.
#[test]
fn a_dropped_id_never_comes_back() {
    let mut story = Story::default();
    let first = story.op(1, &[], add("c", ColumnType::Int32));
    let gone = story.op(1, &[first], drop_of(story.added(first)));
    let again = story.op(1, &[gone], add("c", ColumnType::Text));
    let schema = story.schema();
    let (old, new) = (story.added(first), story.added(again));
    assert_ne!(old, new);
    assert_eq!(schema.find("c").unwrap().def.field_id, new);
    assert_eq!(schema.find("c").unwrap().name, "c");
    assert!(schema.get(old).is_none() && schema.knows(old));
    assert!(schema.void().is_empty());
    // Nothing brings it back: not even the same author under the same counter.
    let forged = story.op_numbered(1, 1, &[again], add("back", ColumnType::Text));
    assert_eq!(story.schema().void(), [forged]);
    // What comes too late for it changes nothing.
    let late = [rename(old, "late"), widen(old, ColumnType::Int64)].map(|change| story.op(2, &[again], change));
    let mut void = story.schema().void().to_vec();
    void.sort_unstable();
    let mut expected = vec![forged, late[0], late[1]];
    expected.sort_unstable();
    assert_eq!(void, expected);
    assert_eq!(story.op(2, &[again], drop_of(old)), story.ops.last().unwrap().0);
    assert_eq!(story.schema().void().len(), 3, "dropping twice is done already");
}

/// SOP-129: a rename changes what people see; physical name, id and fingerprint stay.
#[test]
fn renames_change_names_only() {
    let mut story = Story::default();
    let before = story.schema().fingerprint();
    story.op(1, &[], rename(1, "date"));
    let schema = story.schema();
    assert_eq!(schema.find("date").unwrap().def.name, "day");
    assert_eq!(schema.columns().unwrap()[0].name, "date");
    assert!(schema.find("day").is_none());
    assert_eq!(schema.fingerprint(), before);
}

/// Two renames made apart: the one later in the order of ops, the same everywhere. One made with knowledge wins over what it knew.
#[test]
fn renames_made_apart() {
    let mut story = Story::default();
    let ids = [story.op(1, &[], rename(2, "a")), story.op(2, &[], rename(2, "b"))];
    let expected = if ids[0] < ids[1] { "b" } else { "a" };
    assert_eq!(story.schema().get(2).unwrap().name, expected);
    assert!(story.schema().void().is_empty());
    for id in ids {
        let mut story = story.clone();
        story.op(3, &[id], rename(2, "c"));
        assert_eq!(story.schema().get(2).unwrap().name, "c");
    }
}

/// A drop wins over a rename and a widening made apart from it, in every order of ids.
#[test]
fn drop_wins() {
    for by in 0..16 {
        let mut story = Story::default();
        let dropped = story.op(by, &[], drop_of(2));
        let widened = story.op(by + 16, &[], widen(2, ColumnType::Int64));
        story.op(by + 32, &[widened], rename(2, "m"));
        assert!(story.schema().get(2).is_none());
        assert!(!story.schema().void().contains(&dropped));
    }
}

/// Widenings made apart join in the widest; what is none is void.
#[test]
fn widenings_join() {
    for by in 0..8 {
        let mut story = Story::default();
        story.op(by, &[], widen(2, ColumnType::Int64));
        story.op(by + 8, &[], widen(2, ColumnType::Int32));
        story.op(by, &[], widen(5, ColumnType::decimal(12, 2).unwrap()));
        story.op(by + 8, &[], widen(5, ColumnType::decimal(20, 2).unwrap()));
        assert_eq!(
            shown(&story.schema()),
            ["day date", "n int64", "tags list", "price decimal(20,2)"]
        );
        assert!(story.schema().void().is_empty());
        for change in [
            widen(2, ColumnType::Float64),
            widen(2, ColumnType::UInt64),
            widen(5, ColumnType::decimal(30, 4).unwrap()),
            widen(1, ColumnType::TimestampUs),
            widen(99, ColumnType::Int64),
            widen(4, ColumnType::Text),
            rename(4, "x"),
            drop_of(4),
        ] {
            let id = story.op(by, &[], change);
            assert!(story.schema().void().contains(&id));
        }
    }
}

/// Two columns added under one name are two columns; the second bears its id. Case makes no difference, and a rename undoes it.
#[test]
fn names_are_made_distinct() {
    let mut story = Story::default();
    let ids = [
        story.op(1, &[], add("gust", ColumnType::Int64)),
        story.op(2, &[], add("GUST", ColumnType::Text)),
    ];
    let second = *ids.iter().max().unwrap();
    let schema = story.schema();
    let names: Vec<_> = schema.live().skip(5).map(|column| column.name.clone()).collect();
    assert_eq!(names[0].to_lowercase(), "gust");
    assert_eq!(names[1].to_lowercase(), format!("gust~{}", story.added(second)));
    assert!(schema.columns().is_ok() && schema.void().is_empty());
    story.op(3, &ids, rename(story.added(second), "other"));
    assert_eq!(story.schema().get(story.added(second)).unwrap().name, "other");

    // A founding column keeps its name against an added one that is renamed to it, also when the name has no room for an id.
    let long = "ä".repeat(64);
    let mut story = Story::default();
    let added = story.op(1, &[], add(&long, ColumnType::Bool));
    story.op(2, &[], rename(2, &long));
    let schema = story.schema();
    assert_eq!(schema.get(2).unwrap().name, long);
    let name = &schema.get(story.added(added)).unwrap().name;
    assert!(
        name.ends_with(&format!("~{}", story.added(added))) && name.len() <= 128,
        "{name}"
    );
    assert!(schema.columns().is_ok());
}

/// Two ops that take one id, which only an author that uses a counter twice can make: the first in order keeps it, and rows of the
/// other's version have no value there.
#[test]
fn one_id_belongs_to_one_column() {
    let mut story = Story::default();
    let ids = [
        story.op_numbered(1, 9, &[], add("a", ColumnType::Int64)),
        story.op_numbered(1, 9, &[], add("b", ColumnType::Text)),
    ];
    let (kept, void) = (ids.iter().min().unwrap(), ids.iter().max().unwrap());
    let schema = story.schema();
    assert_eq!(schema.void(), [*void]);
    let graph = story.graph();
    let version = |id| columns_at(&genesis(), &graph, &graph.ancestry([id]));
    assert_eq!(
        version(void).contradictions(&schema),
        [field_id_of_add(&TABLE, &site(1), 9)]
    );
    assert!(version(kept).contradictions(&schema).is_empty());
    // The same column twice is one column.
    story.op_numbered(2, 5, &[], add("c", ColumnType::Int32));
    story.op_numbered(2, 5, &ids, add("c", ColumnType::Int32));
    let graph = story.graph();
    let all = story.schema();
    for id in graph.known() {
        let version = columns_at(&genesis(), &graph, &graph.ancestry([id]));
        assert!(version.contradictions(&all).is_empty() || id == void);
    }
}

/// Columns by which rows are told apart or split stay, and so does the last column; then it may be null, since whoever dropped
/// it wrote rows without it.
#[test]
fn what_cannot_be_dropped() {
    let mut story = Story::default();
    let key = story.op(1, &[], drop_of(1));
    assert_eq!(story.schema().void(), [key]);
    let unsplit = TableGenesis {
        partition: vec![],
        columns: genesis().columns[..2].to_vec(),
        pruning: vec![2],
        ..genesis()
    };
    let mut story = Story::default();
    let ids = [story.op(1, &[], drop_of(1)), story.op(2, &[], drop_of(2))];
    let graph = story.graph();
    let schema = columns_at(&unsplit, &graph, &graph.known().copied().collect());
    assert_eq!(schema.live().count(), 1);
    assert!(schema.live().all(|column| column.def.nullable));
    assert_eq!(schema.void(), [*ids.iter().max().unwrap()]);
}

/// A whole nested column goes with what is in it.
#[test]
fn nested_columns_go_whole() {
    let mut story = Story::default();
    story.op(1, &[], drop_of(3));
    let schema = story.schema();
    assert_eq!(shown(&schema), ["day date", "n int32", "price decimal(10,2)"]);
    assert!(schema.get(4).is_none() && schema.knows(4));
    assert_eq!(schema.dropped(), 1);
}

/// An op whose author had seen one that is not here changes nothing until that one comes.
#[test]
fn ops_wait_for_what_their_author_had_seen() {
    let mut story = Story::default();
    let first = story.op(1, &[], add("a", ColumnType::Int64));
    let second = story.op(2, &[first], rename(2, "m"));
    let mut partial = story.clone();
    partial.ops.remove(0);
    assert!(!partial.graph().knows(&second));
    assert_eq!(partial.schema(), Story::default().schema());
    assert_eq!(story.graph().heads(&BTreeSet::from([first, second])), [second]);
    let apart = story.op(3, &[], rename(5, "p"));
    let graph = story.graph();
    let heads = graph.heads(&graph.known().copied().collect());
    assert_eq!(
        heads.iter().copied().collect::<BTreeSet<_>>(),
        BTreeSet::from([second, apart])
    );
    let join = story.op(1, &heads, ColumnChange::Join);
    let graph = story.graph();
    assert_eq!(graph.heads(&graph.known().copied().collect()), [join]);
    let version = columns_at(&genesis(), &graph, &graph.ancestry([&join]));
    assert_eq!(version, story.schema());
}

/// Added columns get bounds while there is room.
#[test]
fn pruning_follows_the_columns() {
    let mut story = Story::default();
    let mut last = vec![];
    for column in 0..40 {
        last = vec![story.op(1, &last, add(&format!("c{column}"), ColumnType::Int64))];
    }
    story.op(1, &last, drop_of(2));
    let schema = story.schema();
    assert_eq!(schema.pruning().len(), 32);
    assert_eq!(schema.pruning()[0], 1);
    assert!(!schema.pruning().contains(&2));
}

/// What one device does: which of its kinds of change, to which column, and how far back it has looked.
type Step = (u8, u8, u8, u8, u8);

/// A story of devices that know more or less of each other.
fn story_of(steps: &[Step]) -> Story {
    let mut story = Story::default();
    for (by, kind, column, name, behind) in steps {
        let known = story.ops.len().saturating_sub(usize::from(*behind) % 4);
        let seen: BTreeSet<RecordId> = story.ops[..known].iter().map(|(id, _)| *id).collect();
        let graph = OpGraph::of(story.ops[..known].to_vec());
        let mut heads = graph.heads(&seen);
        heads.truncate(crate::record::table_op::MAX_PARENTS);
        let ids: Vec<i32> = (1..=5)
            .chain(story.ops[..known].iter().filter_map(|(_, op)| op.added_field_id()))
            .collect();
        let id = ids[usize::from(*column) % ids.len()];
        let name = ["n", "N", "gust", "price", "x"][usize::from(*name) % 5];
        let ty = [
            ColumnType::Int32,
            ColumnType::Int64,
            ColumnType::Text,
            ColumnType::Int16,
        ][usize::from(*column) % 4];
        let change = match kind % 8 {
            0..=2 => add(name, ty),
            3 | 4 => drop_of(id),
            5 => rename(id, name),
            6 => widen(id, ty),
            _ if heads.len() > 1 => ColumnChange::Join,
            _ => rename(id, name),
        };
        story.op(*by % 5, &heads, change);
    }
    story
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// SOP-15, SOP-17, SOP-154: any order and any repetition of any ops gives the same columns; ids keep their column for ever,
    /// types only widen, and names tell columns apart.
    #[test]
    fn columns_are_a_function_of_the_set(
        steps in prop::collection::vec(any::<Step>(), 0..24),
        order in any::<u64>(),
        repeated in any::<u8>(),
    ) {
        let story = story_of(&steps);
        let expected = story.schema();
        let mut shuffled = story.ops.clone();
        // A permutation from a number: sort by a hash of place and number.
        shuffled.sort_by_key(|(id, _)| *blake3::hash(&[id.as_bytes().as_slice(), &order.to_be_bytes()].concat()).as_bytes());
        let again: Vec<_> = shuffled.iter().take(usize::from(repeated)).cloned().collect();
        shuffled.extend(again);
        let graph = OpGraph::of(shuffled);
        let all: BTreeSet<RecordId> = graph.known().copied().collect();
        prop_assert_eq!(all.len(), story.ops.len(), "everything an author had seen is here");
        prop_assert_eq!(&columns_at(&genesis(), &graph, &all), &expected);

        let names: BTreeSet<String> = expected.live()
            .filter(|column| column.def.parent.is_none())
            .map(|column| column.name.to_lowercase())
            .collect();
        prop_assert!(!names.is_empty());
        prop_assert_eq!(names.len(), expected.live().filter(|column| column.def.parent.is_none()).count());
        prop_assert!(expected.columns().is_ok());

        // However the set grows, a column stays what it is: the version of every op fits the whole.
        for id in &all {
            let version = columns_at(&genesis(), &graph, &graph.ancestry([id]));
            prop_assert!(version.contradictions(&expected).is_empty());
            for column in version.live() {
                prop_assert!(expected.knows(column.def.field_id));
                let required = |schema: &TableSchema| schema.get(column.def.field_id).is_some_and(|now| !now.def.nullable);
                prop_assert!(!required(&expected) || required(&version));
            }
            // What the whole demands of every row, every version had.
            for column in expected.live().filter(|column| !column.def.nullable) {
                prop_assert!(version.get(column.def.field_id).is_some());
            }
        }
    }
}
