//! One step of the engine: everything it writes becomes visible together, or not at all.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use redb::Durability;
use sovm_object::{entry::EntryKind, id::RecordId, roster::Roster};

use super::{
    Inner, StoreError, fault,
    rows::{Scope, u64_of},
    tables::{self, COUNTER, Row, Rows as _, Table},
    tagged,
};
use crate::state::EntryState;

/// A step. Dropping it without [`commit`](Self::commit) leaves no trace.
pub struct Txn {
    txn: redb::WriteTransaction,
    inner: Arc<Inner>,
    pub(crate) work: Work,
}

/// What still has to be judged in this step, and what changed so far.
#[derive(Default)]
pub(crate) struct Work {
    /// Entries to judge, what others depend on first.
    pub(crate) queue: BTreeSet<(u8, RecordId)>,
    /// New entries that were not judged yet.
    pub(crate) fresh: BTreeSet<RecordId>,
    /// Scopes whose membership ops or founding record changed.
    pub(crate) scopes: BTreeSet<Scope>,
    /// Rosters as of now; emptied when ops or founding records change.
    pub(crate) rosters: RefCell<HashMap<Scope, Option<Arc<Roster>>>>,
    pub(crate) changes: BTreeMap<RecordId, StateChange>,
}

/// An entry that counts for something else after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// The entry's format.
    pub kind: EntryKind,
    /// Before the step; `None` when it is new.
    pub before: Option<EntryState>,
    /// After it.
    pub after: EntryState,
}

/// A step that is on disk.
#[derive(Debug)]
#[must_use]
pub struct Committed {
    /// Number of commits so far; goes into the key store from time to time.
    pub counter: u64,
    /// Entries that are new, or count for something else than before.
    pub changes: BTreeMap<RecordId, StateChange>,
}

impl Txn {
    pub(super) fn over(mut txn: redb::WriteTransaction, inner: Arc<Inner>) -> Self {
        // Immediate is redb's default and only durable level; two phases and quick repair make a crash cost nothing.
        txn.set_durability(Durability::Immediate)
            .expect("no savepoint was made in this transaction");
        txn.set_two_phase_commit(true);
        txn.set_quick_repair(true);
        Self {
            txn,
            inner,
            work: Work::default(),
        }
    }

    /// A table of the step, open until it is dropped.
    pub(super) fn table(&self, table: &Table) -> Result<redb::Table<'_, &'static [u8], &'static [u8]>, StoreError> {
        self.txn.open_table(*table).map_err(fault)
    }

    /// Takes a table away, as a catalogue of an earlier build has none of that name.
    #[cfg(test)]
    pub(super) fn without(&self, table: Table) {
        assert!(self.txn.delete_table(table).unwrap());
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// Judges what is still open, then makes the step durable and visible.
    pub fn commit(mut self) -> Result<Committed, StoreError> {
        self.settle()?;
        let counter = match tagged::get(&self, &COUNTER, b"commits")? {
            Some(found) => u64_of("counter-1", &found)?,
            None => 0,
        } + 1;
        self.put_tagged(&COUNTER, b"commits", &counter.to_be_bytes())?;
        let Self { txn, work, .. } = self;
        txn.commit().map_err(fault)?;
        Ok(Committed {
            counter,
            changes: work.changes,
        })
    }

    pub(super) fn create_tables(mut self, layout: u64) -> Result<(), StoreError> {
        for table in tables::ALL {
            self.txn.open_table(*table).map_err(fault)?;
        }
        self.put(&tables::LAYOUT, b"layout", &layout.to_be_bytes())?;
        self.txn.commit().map_err(fault)
    }

    pub(crate) fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let mut table = self.txn.open_table(*table).map_err(fault)?;
        table.insert(key, value).map_err(fault)?;
        Ok(())
    }

    /// Writes a row that no signature covers.
    pub(crate) fn put_tagged(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let sealed = tagged::seal(&self.inner.keys.rows, table, key, value);
        self.put(table, key, &sealed)
    }

    /// Removes a row; says whether it was there.
    pub(crate) fn remove(&mut self, table: &Table, key: &[u8]) -> Result<bool, StoreError> {
        let mut table = self.txn.open_table(*table).map_err(fault)?;
        let removed = table.remove(key).map_err(fault)?.is_some();
        Ok(removed)
    }

    /// Removes and gives the first row of a table.
    pub(crate) fn pop_first(&mut self, table: &Table) -> Result<Option<Row>, StoreError> {
        let mut table = self.txn.open_table(*table).map_err(fault)?;
        let first = table.pop_first().map_err(fault)?;
        Ok(first.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())))
    }

    /// A key above all others in a table whose keys are numbers.
    pub(crate) fn next_number(&self, table: &Table) -> Result<u64, StoreError> {
        Ok(match self.last_below(table, &[0xff; 9])? {
            Some((key, _)) => u64_of(tables::name(table), &key)? + 1,
            None => 0,
        })
    }

    /// Empties every table: this node leaves its mesh and starts again. The commit counter goes on, so that the emptied
    /// catalogue is not taken for an old copy.
    pub fn forget_mesh(&mut self) -> Result<(), StoreError> {
        for table in tables::ALL {
            if [tables::name(&COUNTER), tables::LAYOUT_NAME].contains(&tables::name(table)) {
                continue;
            }
            self.txn.delete_table(*table).map_err(fault)?;
            self.txn.open_table(*table).map_err(fault)?;
        }
        self.work = Work::default();
        Ok(())
    }
}

impl fmt::Debug for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Txn(..)")
    }
}
