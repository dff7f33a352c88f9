//! Changes of columns: when they count, and which versions manifests may name.

use sovm_object::{
    record::{ColumnChange, TableOp},
    schema::{OpGraph, TableSchema, columns_at},
    types::ColumnType,
};

use super::*;
use crate::TableColumns;

impl World {
    fn table_op(&self, key: &SiteKey, seq: u64, parents: &[&Signed<TableOp>], change: ColumnChange) -> Signed<TableOp> {
        let mut parents: Vec<RecordId> = parents.iter().map(|op| op.id()).collect();
        parents.sort_unstable();
        let op = TableOp {
            mesh_id: self.mesh,
            table_id: self.table_id,
            domain_id: self.domain,
            change,
            parents,
            issuer: key.site_id(),
            seq,
            ops_seen: vec![self.add_member().id()],
            hlc: Hlc::new(NOW - 2_000, 0),
        };
        self.sign(op, key)
    }

    /// The version of the table's columns after these ops.
    fn version(&self, ops: &[&Signed<TableOp>]) -> TableSchema {
        let graph = OpGraph::of(ops.iter().map(|op| (op.id(), op.body().clone())));
        columns_at(&self.table(), &graph, &graph.known().copied().collect())
    }

    /// A manifest of the member's that names this version, with bounds of these columns.
    fn manifest_at(&self, version: &TableSchema, seq: u64, columns: &[i32]) -> Signed<ObjectManifest> {
        let bounds = self.manifest().pruning_statistics.unwrap().remove(0);
        let mut statistics: Vec<_> = columns.iter().map(|id| (*id, bounds.clone())).collect();
        statistics.sort_by_key(|(id, _)| *id);
        let manifest = ObjectManifest {
            schema_fingerprint: Some(version.fingerprint()),
            pruning_statistics: Some(
                statistics
                    .into_iter()
                    .map(|(field_id, bounds)| sovm_object::record::ColumnStats { field_id, ..bounds })
                    .collect(),
            ),
            seq,
            ..self.manifest()
        };
        self.sign(manifest, &self.member)
    }
}

fn add(name: &str) -> ColumnChange {
    ColumnChange::Add {
        name: name.into(),
        ty: ColumnType::Int64,
    }
}

fn columns(world: &World, catalog: &Catalog) -> TableColumns {
    let tables = catalog.read().unwrap().tables().unwrap();
    tables
        .into_iter()
        .find(|table| table.genesis.table_id == world.table_id)
        .unwrap()
        .columns
}

fn names(world: &World, catalog: &Catalog) -> Vec<String> {
    let columns = columns(world, catalog);
    columns.schema.live().map(|column| column.name.clone()).collect()
}

const FOUNDING: [&str; 3] = ["planted_column_word", "temp", "at"];

/// SOP-137, SOP-138: an op waits for its table and for what its author had seen; a manifest that names a version waits for the op
/// that makes it, and is judged again when it comes.
#[test]
fn ops_and_versions_wait_for_what_they_stand_on() {
    let (world, catalog) = (World::new(), catalog());
    let first = world.table_op(&world.member, 11, &[], add("gust"));
    let second = world.table_op(&world.founder, 12, &[&first], add("dew"));
    let version = world.version(&[&first, &second]);
    let added = first.body().added_field_id().unwrap();
    let manifest = world.manifest_at(&version, 13, &[2, added]);
    commit(&catalog, |txn| {
        world.admit(txn, world.genesis.clone());
        world.admit(txn, world.domain_genesis());
        world.admit(txn, world.add_member());
        world.admit(txn, world.sign(world.kek_record(), &world.founder));
        world.admit(txn, second.clone());
        world.admit(txn, manifest.clone());
    });
    assert_eq!(state(&catalog, second.id()), Some(EntryState::WaitingTable));
    commit(&catalog, |txn| {
        drop(world.admit(txn, world.sign(world.table(), &world.founder)))
    });
    assert_eq!(
        state(&catalog, second.id()),
        Some(EntryState::WaitingTable),
        "its parent is not here"
    );
    assert_eq!(state(&catalog, manifest.id()), Some(EntryState::WaitingTable));
    assert_eq!(names(&world, &catalog), FOUNDING);
    let changes = commit(&catalog, |txn| drop(world.admit(txn, first.clone())));
    assert_eq!(state(&catalog, first.id()), Some(EntryState::Accepted));
    assert_eq!(state(&catalog, second.id()), Some(EntryState::Accepted));
    assert_eq!(state(&catalog, manifest.id()), Some(EntryState::NoAccess));
    assert_eq!(changes[&manifest.id()].before, Some(EntryState::WaitingTable));
    assert_eq!(names(&world, &catalog), [&FOUNDING[..], &["gust", "dew"]].concat());
    let now = columns(&world, &catalog);
    assert!(now.is_version && now.contradictions.is_empty());
    assert_eq!((now.heads, now.fingerprint), (vec![second.id()], version.fingerprint()));
    // A checkpoint carries ops as it carries the table, sealed.
    let records = catalog.read().unwrap().checkpoint_records(&world.domain).unwrap();
    for op in [&first, &second] {
        let record = records.iter().find(|record| record.id == op.id()).unwrap();
        assert_eq!(record.sealed, Some((1, world.kek_id)));
    }
    check_indexes(&catalog);
}

/// SOP-138: every version stays good for manifests, and each is held to its own columns.
#[test]
fn manifests_are_held_to_their_version() {
    let (world, catalog) = founded();
    let added = world.table_op(&world.member, 11, &[], add("gust"));
    let id = added.body().added_field_id().unwrap();
    let dropped = world.table_op(&world.member, 12, &[&added], ColumnChange::Drop { field_id: 2 });
    commit(&catalog, |txn| {
        world.admit(txn, added.clone());
        world.admit(txn, dropped.clone());
    });
    let versions = [
        world.version(&[]),
        world.version(&[&added]),
        world.version(&[&added, &dropped]),
    ];
    let contradicts = refused(RefusalReason::Columns);
    for (seq, (version, bounds, expected)) in [
        (0, vec![2], EntryState::NoAccess),
        (0, vec![2, id], contradicts),
        (1, vec![2, id], EntryState::NoAccess),
        (2, vec![id], EntryState::NoAccess),
        (2, vec![99], contradicts),
    ]
    .into_iter()
    .enumerate()
    {
        let manifest = world.manifest_at(&versions[version], 20 + seq as u64, &bounds);
        commit(&catalog, |txn| drop(world.admit(txn, manifest.clone())));
        assert_eq!(
            state(&catalog, manifest.id()),
            Some(expected),
            "version {version}, {bounds:?}"
        );
    }
}

/// Who may make a table of a domain may change it, and nobody else.
#[test]
fn changing_columns_takes_the_right_to_make_tables() {
    let (world, catalog) = founded();
    let add_reader = world.op(
        Some(world.domain),
        OpKind::Add,
        world.reader.site_id(),
        Role::Reader,
        (5, 0),
        &[],
    );
    let by_reader = world.table_op(&world.reader, 1, &[], add("a"));
    let by_stranger = world.table_op(&world.stranger, 1, &[], add("b"));
    let elsewhere = TableOp {
        domain_id: DomainId::from_bytes([0xdd; 32]),
        ..world.table_op(&world.member, 9, &[], add("c")).body().clone()
    };
    let elsewhere = world.sign(elsewhere, &world.member);
    commit(&catalog, |txn| {
        world.admit(txn, add_reader.clone());
        world.admit(txn, by_reader.clone());
        world.admit(txn, by_stranger.clone());
        world.admit(txn, elsewhere.clone());
    });
    for op in [&by_reader, &by_stranger] {
        assert_eq!(state(&catalog, op.id()), Some(refused(RefusalReason::Authority)));
    }
    assert_eq!(
        state(&catalog, elsewhere.id()),
        Some(refused(RefusalReason::TableDomain))
    );
    assert_eq!(names(&world, &catalog), FOUNDING);
    assert!(columns(&world, &catalog).heads.is_empty());
}

/// SOP-264: a cut-off takes a member's changes back. What others wrote with them in place stays readable, and what they changed on
/// top of them stays changed.
#[test]
fn a_cut_off_takes_changes_back_and_no_rows() {
    let (world, catalog) = founded();
    let bad = world.table_op(&world.member, 50, &[], add("bad"));
    let good = world.table_op(&world.founder, 51, &[&bad], add("good"));
    let version = world.version(&[&bad, &good]);
    let manifest = ObjectManifest {
        producer: world.founder.site_id(),
        ..world.manifest_at(&version, 52, &[2]).body().clone()
    };
    let manifest = world.sign(manifest, &world.founder);
    let grant = Grant {
        object_manifest_hash: manifest.manifest_hash(),
        issuer: world.founder.site_id(),
        seq: 53,
        ..world.grant()
    };
    let access = world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.founder);
    commit(&catalog, |txn| {
        world.admit(txn, bad.clone());
        world.admit(txn, good.clone());
        world.admit(txn, manifest.clone());
        world.admit(txn, access.clone());
    });
    assert_eq!(state(&catalog, manifest.id()), Some(EntryState::Accepted));
    let remove = world.op(
        Some(world.domain),
        OpKind::Remove,
        world.member.site_id(),
        Role::Writer,
        (60, 10),
        &[world.add_member().id()],
    );
    commit(&catalog, |txn| drop(world.admit(txn, remove.clone())));
    assert_eq!(state(&catalog, bad.id()), Some(refused(RefusalReason::Authority)));
    assert_eq!(state(&catalog, good.id()), Some(EntryState::Accepted));
    assert_eq!(state(&catalog, manifest.id()), Some(EntryState::Accepted));
    assert_eq!(names(&world, &catalog), [&FOUNDING[..], &["good"]].concat());
    let now = columns(&world, &catalog);
    assert_eq!((now.is_version, now.fingerprint), (true, version.fingerprint()));
    // Whoever starts from a checkpoint needs the op to find the version.
    let records = catalog.read().unwrap().checkpoint_records(&world.domain).unwrap();
    assert!(records.iter().any(|record| record.id == bad.id()));
    check_indexes(&catalog);
}

/// Columns changed apart stand side by side until a join makes one version of them.
#[test]
fn a_join_makes_one_version() {
    let (world, catalog) = founded();
    let apart = [
        world.table_op(&world.member, 11, &[], add("a")),
        world.table_op(&world.founder, 12, &[], add("b")),
    ];
    commit(&catalog, |txn| {
        apart.iter().for_each(|op| drop(world.admit(txn, op.clone())))
    });
    let before = columns(&world, &catalog);
    assert!(!before.is_version);
    assert_eq!(before.heads.len(), 2);
    let join = world.table_op(&world.member, 13, &[&apart[0], &apart[1]], ColumnChange::Join);
    commit(&catalog, |txn| drop(world.admit(txn, join.clone())));
    let after = columns(&world, &catalog);
    assert!(after.is_version);
    assert_eq!((after.heads, after.fingerprint), (vec![join.id()], before.fingerprint));
    assert_eq!(after.schema.live().count(), 5);
}

/// SOP-138: an id that two ops took means one column; the version that means the other is named with it.
#[test]
fn an_id_taken_twice_is_named() {
    let (world, catalog) = founded();
    let twice = [
        world.table_op(&world.member, 11, &[], add("a")),
        world.table_op(&world.member, 11, &[], add("b")),
    ];
    commit(&catalog, |txn| {
        twice.iter().for_each(|op| drop(world.admit(txn, op.clone())))
    });
    let now = columns(&world, &catalog);
    let loser = twice.iter().max_by_key(|op| op.id()).unwrap();
    assert_eq!(now.schema.void(), [loser.id()]);
    let expected = (
        world.version(&[loser]).fingerprint(),
        vec![loser.body().added_field_id().unwrap()],
    );
    assert_eq!(now.contradictions.into_iter().collect::<Vec<_>>(), [expected]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// SOP-154: in every order, a story with changed columns ends in one state and one set of columns.
    #[test]
    fn any_order_ends_in_the_same_columns(keys in prop::collection::vec(any::<u64>(), 11), one_step_each in any::<bool>()) {
        let (world, catalog) = (World::new(), catalog());
        let first = world.table_op(&world.member, 11, &[], add("gust"));
        let apart = world.table_op(&world.founder, 12, &[], ColumnChange::Rename { field_id: 2, name: "t".into() });
        let dropped = world.table_op(&world.founder, 13, &[&first, &apart], ColumnChange::Drop { field_id: 2 });
        let late = world.table_op(&world.member, 14, &[&first], ColumnChange::Rename { field_id: 2, name: "late".into() });
        let manifest = world.manifest_at(&world.version(&[&first, &apart, &dropped]), 20, &[]);
        let grant = Grant { object_manifest_hash: manifest.manifest_hash(), seq: 21, ..world.grant() };
        let access = world.sign(AccessRecord::wrap(grant, &world.dek(), &world.kek()), &world.member);
        let mut events: Vec<Event> = vec![
            Event::Entries(vec![world.genesis.clone().into(), world.domain_genesis().into()]),
            Event::Entries(vec![world.add_member().into()]),
            Event::Entries(vec![world.sign(world.kek_record(), &world.founder).into()]),
            Event::Entries(vec![world.sign(world.table(), &world.founder).into()]),
            Event::Entries(vec![first.into()]),
            Event::Entries(vec![apart.into()]),
            Event::Entries(vec![dropped.into()]),
            Event::Entries(vec![late.into()]),
            Event::Entries(vec![manifest.into()]),
            Event::Entries(vec![access.into()]),
            Event::Bytes,
        ];
        play(&world, &catalog, &events, false);
        let expected = (summary(&world, &catalog), columns(&world, &catalog).schema);
        prop_assert_eq!(expected.1.live().count(), 3);
        prop_assert_eq!(catalog.read().unwrap().counts().unwrap().accepted, 11);
        let mut order: Vec<_> = keys.into_iter().zip(events.drain(..)).collect();
        order.sort_by_key(|(key, _)| *key);
        let shuffled: Vec<Event> = order.into_iter().map(|(_, event)| event).collect();
        play(&world, &catalog, &shuffled, one_step_each);
        prop_assert_eq!((summary(&world, &catalog), columns(&world, &catalog).schema), expected);
    }
}
