//! What a scan has left to read, shared by its partitions.
//!
//! ```text
//! objects:   [1 2 3 4]  [1 2 3]  [1 2]          a partition takes a whole object while one is left,
//!             ^ first    ^ second               then helps with the row groups of those that are under way
//! ```
//!
//! So a table of one object keeps every core busy, and no partition ends long before the others, whatever was pruned.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use sovm_object::record::ObjectManifest;

use super::object::{ObjectError, OpenObject, Wanted};

/// One row group to read.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) object: Arc<OpenObject>,
    pub(super) row_group: usize,
    /// Which object it is of.
    pub(super) slot: usize,
}

/// The objects of one execution of a scan.
#[derive(Debug)]
pub(super) struct Work {
    slots: Vec<Slot>,
    /// Objects below are taken by somebody.
    taken: AtomicUsize,
}

#[derive(Debug)]
struct Slot {
    manifest: Arc<ObjectManifest>,
    /// Held while the object is opened, so that helpers wait for its footer.
    state: tokio::sync::Mutex<State>,
    given_up: AtomicBool,
}

#[derive(Debug)]
enum State {
    Unopened,
    /// Row groups below the number, counted among those to read, are taken.
    Open(Arc<OpenObject>, usize),
    /// Nothing is left to take. The footer stays only with those who read from it.
    Done,
}

impl Work {
    fn new(objects: &[Arc<ObjectManifest>]) -> Self {
        let slot = |manifest: &Arc<ObjectManifest>| Slot {
            manifest: manifest.clone(),
            state: tokio::sync::Mutex::new(State::Unopened),
            given_up: AtomicBool::new(false),
        };
        Self {
            slots: objects.iter().map(slot).collect(),
            taken: AtomicUsize::new(0),
        }
    }

    /// The object a unit or an error is about.
    pub(super) fn manifest(&self, slot: usize) -> &ObjectManifest {
        &self.slots[slot].manifest
    }

    /// The next row group for a partition whose object so far was `at`. An error names the object that did not open; the
    /// partition may go on after it.
    pub(super) async fn next(
        &self,
        at: &mut Option<usize>,
        wanted: &Wanted,
    ) -> Result<Option<Unit>, (usize, ObjectError)> {
        loop {
            if let Some(slot) = *at
                && let Some(unit) = self.take_from(slot, wanted).await?
            {
                return Ok(Some(unit));
            }
            let mine = self.taken.fetch_update(Relaxed, Relaxed, |taken| {
                (taken < self.slots.len()).then_some(taken + 1)
            });
            match mine {
                Ok(slot) => *at = Some(slot),
                Err(_) => break,
            }
        }
        for slot in 0..self.slots.len() {
            if let Some(unit) = self.take_from(slot, wanted).await? {
                *at = Some(slot);
                return Ok(Some(unit));
            }
        }
        Ok(None)
    }

    /// The next row group of an object, which is opened if nobody did; `None` when all are taken.
    async fn take_from(&self, at: usize, wanted: &Wanted) -> Result<Option<Unit>, (usize, ObjectError)> {
        let slot = &self.slots[at];
        let mut state = slot.state.lock().await;
        if slot.given_up.load(Relaxed) {
            *state = State::Done;
        }
        if matches!(*state, State::Unopened) {
            *state = match OpenObject::open(&slot.manifest, wanted).await {
                Ok(object) => State::Open(Arc::new(object), 0),
                Err(error) => {
                    *state = State::Done;
                    return Err((at, error));
                }
            };
        }
        let State::Open(object, next) = &mut *state else {
            return Ok(None);
        };
        let unit = object.row_groups().get(*next).map(|row_group| Unit {
            object: object.clone(),
            row_group: *row_group,
            slot: at,
        });
        *next += 1;
        if *next >= object.row_groups().len() {
            *state = State::Done;
        }
        Ok(unit)
    }

    /// Leaves the rest of an object unread, since it is bad.
    pub(super) fn give_up(&self, slot: usize) {
        self.slots[slot].given_up.store(true, Relaxed);
    }
}

/// Hands out one [`Work`] an execution: the partitions of the first share the first one, those of a repetition the next.
#[derive(Debug, Default)]
pub(super) struct Executions(Mutex<(Vec<usize>, Vec<Arc<Work>>)>);

impl Executions {
    /// The work that `partition` takes part in, when it is executed once more.
    pub(super) fn join(&self, partition: usize, objects: &[Arc<ObjectManifest>]) -> Arc<Work> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (times, works) = &mut *state;
        if times.len() <= partition {
            times.resize(partition + 1, 0);
        }
        let time = times[partition];
        times[partition] += 1;
        while works.len() <= time {
            works.push(Arc::new(Work::new(objects)));
        }
        works[time].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan that is executed again, as recursive statements do, starts from the beginning again.
    #[test]
    fn every_execution_has_work_of_its_own() {
        let executions = Executions::default();
        let first = executions.join(0, &[]);
        assert!(Arc::ptr_eq(&first, &executions.join(1, &[])));
        let second = executions.join(1, &[]);
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&second, &executions.join(0, &[])));
    }
}
