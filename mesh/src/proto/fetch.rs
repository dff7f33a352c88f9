//! Fetch planning (DESIGN §8 "Bytes"): which object to ask for, of whom, and when again.
//!
//! One [`Planner`] holds all objects whose bytes are missing. It knows no socket: an attempt starts with
//! [`Effect::Fetch`] and ends with [`Event::Fetched`] or [`Event::Failed`]. A holder that could not deliver is left alone for
//! 30 seconds, then twice as long each time, up to six hours, so that ten objects nobody holds among a thousand cost next
//! to nothing (any-sync#700). A holder that lied about an object is never asked for it again.

mod choose;
mod object;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use object::{Job, Object};
use sovm_object::id::{SiteId, StorageId};

/// Bounds of the planner.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Attempts at one holder at once.
    pub per_holder: usize,
    /// Attempts at once.
    pub total: usize,
    /// Objects from this size on are fetched in parts from several holders.
    pub split_bytes: u64,
    /// Parts of one object at once.
    pub parts: u64,
    /// Free disk space that is never used.
    pub reserve_bytes: u64,
    /// An attempt without progress for this long is given up.
    pub stall_ms: u64,
    /// First pause after a failure; doubles each time.
    pub backoff_ms: u64,
    /// Longest pause.
    pub backoff_max_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            per_holder: 2,
            total: 8,
            split_bytes: 32 << 20,
            parts: 4,
            reserve_bytes: 512 << 20,
            stall_ms: 30_000,
            backoff_ms: 30_000,
            backoff_max_ms: 6 * 3_600_000,
        }
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The bytes of this object are missing and wanted. Higher priority goes first.
    Want {
        /// The object.
        id: StorageId,
        /// Its length, where a manifest states it.
        size: Option<u64>,
        /// Urgency.
        priority: u8,
    },
    /// The object is here by other means, or not wanted any more.
    Unwant(StorageId),
    /// A site says that it holds the object.
    Holder(StorageId, SiteId),
    /// A site can be reached. Members are also asked for objects of which no holder is known.
    Online(SiteId),
    /// A site cannot be reached any more.
    Offline(SiteId),
    /// A running attempt brought bytes.
    Progress(StorageId, SiteId),
    /// An attempt brought what it was to bring; `durable` when the whole object is now here and safe.
    Fetched(StorageId, SiteId, bool),
    /// An attempt failed. What arrived is kept.
    Failed(StorageId, SiteId, Failure),
    /// Free disk space was measured.
    Space(u64),
    /// Time passed.
    Tick,
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The holder sent bytes or a length that do not belong to the object.
    Lied,
    /// The holder does not have it or may not give it.
    NotHeld,
    /// The holder cannot serve now, was lost, or sent nothing for too long.
    Unavailable,
    /// Our disk is full; no other holder would help.
    NoRoom,
    /// Our own store failed.
    Ours,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start an attempt.
    Fetch {
        /// The object.
        id: StorageId,
        /// Its length, if known.
        size: Option<u64>,
        /// Only this part.
        part: Option<Range<u64>>,
        /// Whom to ask.
        holder: SiteId,
    },
    /// Stop an attempt; no event is expected for it any more.
    Cancel {
        /// The object.
        id: StorageId,
        /// Who was asked.
        holder: SiteId,
    },
    /// The object is complete.
    Done(StorageId),
    /// Come back with [`Event::Tick`] at this time.
    Wake(u64),
}

/// Why an object is not here yet; for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Being fetched from these sites.
    Fetching(Vec<SiteId>),
    /// Waits for its turn.
    Queued,
    /// No site that may have it can be reached.
    NoHolder,
    /// Everyone who may have it was asked; next try at this time.
    Waiting {
        /// Milliseconds since 1970.
        next_ms: u64,
        /// Failed attempts so far.
        failures: u32,
    },
    /// Too little disk space.
    DiskFull,
}

/// Plans the fetching of all missing objects of one node.
pub struct Planner {
    config: Config,
    /// Makes pauses differ between nodes that failed at the same time.
    seed: u64,
    objects: BTreeMap<StorageId, Object>,
    /// Those of them with a running attempt.
    active: BTreeSet<StorageId>,
    online: BTreeSet<SiteId>,
    /// Running attempts per holder.
    load: BTreeMap<SiteId, usize>,
    running: usize,
    /// Objects that may start now: urgent first.
    ready: BTreeSet<(std::cmp::Reverse<u8>, StorageId)>,
    /// Objects whose holders all have to be left alone until a time.
    sleeping: BTreeSet<(u64, StorageId)>,
    free_bytes: Option<u64>,
    no_room: bool,
}

impl Planner {
    /// A planner with nothing to do. `seed` is any random number.
    pub const fn new(config: Config, seed: u64) -> Self {
        Self {
            config,
            seed,
            objects: BTreeMap::new(),
            active: BTreeSet::new(),
            online: BTreeSet::new(),
            load: BTreeMap::new(),
            running: 0,
            ready: BTreeSet::new(),
            sleeping: BTreeSet::new(),
            free_bytes: None,
            no_room: false,
        }
    }

    /// Number of objects still missing.
    pub fn missing(&self) -> usize {
        self.objects.len()
    }

    /// Where an object stands; `None` if it is not wanted.
    pub fn status(&self, id: &StorageId) -> Option<Status> {
        let object = self.objects.get(id)?;
        Some(if !object.jobs.is_empty() {
            Status::Fetching(object.jobs.iter().map(|job| job.holder).collect())
        } else if !self.fits(object) {
            Status::DiskFull
        } else if let Some(next_ms) = object.sleeps_until {
            Status::Waiting {
                next_ms,
                failures: object.failures(),
            }
        } else if self.ready.contains(&object.rank(*id)) {
            Status::Queued
        } else {
            Status::NoHolder
        })
    }

    /// Takes one event and says what to do.
    pub fn handle(&mut self, event: Event, now_ms: u64) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Want { id, size, priority } => self.want(id, size, priority),
            Event::Unwant(id) => self.forget(&id, &mut effects),
            Event::Holder(id, site) => {
                if let Some(object) = self.objects.get_mut(&id) {
                    object.holder_says_yes(site);
                    self.make_ready(id);
                }
            }
            Event::Online(site) => {
                if self.online.insert(site) {
                    // A new candidate for everything that waits without one; those asleep may try it, too.
                    let idle: Vec<_> = self
                        .objects
                        .iter()
                        .filter(|(_, o)| o.jobs.is_empty())
                        .map(|(id, _)| *id)
                        .collect();
                    for id in idle {
                        self.make_ready(id);
                    }
                }
            }
            Event::Offline(site) => {
                self.online.remove(&site);
            }
            Event::Progress(id, site) => {
                if let Some(job) = self.objects.get_mut(&id).and_then(|object| object.job_mut(site)) {
                    job.last_progress_ms = now_ms;
                }
            }
            Event::Fetched(id, site, durable) => self.fetched(id, site, durable, &mut effects),
            Event::Failed(id, site, failure) => self.failed(id, site, failure, now_ms),
            Event::Space(free_bytes) => {
                self.free_bytes = Some(free_bytes);
                self.no_room = false;
            }
            Event::Tick => {}
        }
        self.give_up_stalled(now_ms, &mut effects);
        self.start_more(now_ms, &mut effects);
        effects.extend(self.next_wake(now_ms).map(Effect::Wake));
        effects
    }

    fn want(&mut self, id: StorageId, size: Option<u64>, priority: u8) {
        if let Some(known) = self.objects.get_mut(&id) {
            let old = known.rank(id);
            known.priority = known.priority.max(priority);
            known.size = known.size.or(size);
            let new = known.rank(id);
            if self.ready.remove(&old) {
                self.ready.insert(new);
            }
            return;
        }
        self.objects.insert(id, Object::new(size, priority));
        self.make_ready(id);
    }

    fn forget(&mut self, id: &StorageId, effects: &mut Vec<Effect>) {
        let Some(object) = self.objects.remove(id) else { return };
        self.active.remove(id);
        self.ready.remove(&object.rank(*id));
        if let Some(at) = object.sleeps_until {
            self.sleeping.remove(&(at, *id));
        }
        for job in object.jobs {
            self.release(job.holder);
            effects.push(Effect::Cancel {
                id: *id,
                holder: job.holder,
            });
        }
    }

    fn fetched(&mut self, id: StorageId, site: SiteId, durable: bool, effects: &mut Vec<Effect>) {
        if self.end_job(id, site).is_none() {
            return;
        }
        let Some(object) = self.objects.get_mut(&id) else {
            return;
        };
        object.delivered(site);
        if durable {
            self.forget(&id, effects);
            effects.push(Effect::Done(id));
        } else {
            self.make_ready(id);
        }
    }

    fn failed(&mut self, id: StorageId, site: SiteId, failure: Failure, now_ms: u64) {
        let Some(job) = self.end_job(id, site) else { return };
        let pause = |failures| pause_ms(&self.config, self.seed, &id, &site, failures);
        let Some(object) = self.objects.get_mut(&id) else {
            return;
        };
        object.give_back(job.part);
        match failure {
            Failure::Lied => object.never_again(site),
            Failure::NotHeld | Failure::Unavailable => object.leave_alone(site, |n| now_ms.saturating_add(pause(n))),
            Failure::NoRoom => self.no_room = true,
            // Trying the next holder at once would only repeat our own failure.
            Failure::Ours => object.leave_all_alone(now_ms.saturating_add(pause(1))),
        }
        self.make_ready(id);
    }

    fn give_up_stalled(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        let stall_ms = self.config.stall_ms;
        let stalled: Vec<(StorageId, SiteId)> = self
            .jobs()
            .filter(|(_, job)| job.last_progress_ms.saturating_add(stall_ms) <= now_ms)
            .map(|(id, job)| (id, job.holder))
            .collect();
        for (id, holder) in stalled {
            effects.push(Effect::Cancel { id, holder });
            self.failed(id, holder, Failure::Unavailable, now_ms);
        }
    }

    fn make_ready(&mut self, id: StorageId) {
        let Some(object) = self.objects.get_mut(&id) else {
            return;
        };
        if let Some(at) = object.sleeps_until.take() {
            self.sleeping.remove(&(at, id));
        }
        self.ready.insert(object.rank(id));
    }

    fn end_job(&mut self, id: StorageId, site: SiteId) -> Option<Job> {
        let object = self.objects.get_mut(&id)?;
        let job = object.take_job(site)?;
        if object.jobs.is_empty() {
            self.active.remove(&id);
        }
        self.release(site);
        Some(job)
    }

    fn jobs(&self) -> impl Iterator<Item = (StorageId, &Job)> {
        self.active
            .iter()
            .filter_map(|id| Some((*id, self.objects.get(id)?)))
            .flat_map(|(id, object)| object.jobs.iter().map(move |job| (id, job)))
    }

    fn release(&mut self, holder: SiteId) {
        self.running = self.running.saturating_sub(1);
        if let Some(load) = self.load.get_mut(&holder) {
            *load = load.saturating_sub(1);
            if *load == 0 {
                self.load.remove(&holder);
            }
        }
    }

    fn next_wake(&self, now_ms: u64) -> Option<u64> {
        let sleeper = self.sleeping.first().map(|(at, _)| *at);
        let stall = self
            .jobs()
            .map(|(_, job)| job.last_progress_ms.saturating_add(self.config.stall_ms))
            .min();
        sleeper
            .into_iter()
            .chain(stall)
            .min()
            .map(|at| at.max(now_ms.saturating_add(1)))
    }
}

/// Pause after the n-th failure of one holder with one object: doubling, capped, and spread by a quarter either way.
fn pause_ms(config: &Config, seed: u64, id: &StorageId, site: &SiteId, failures: u32) -> u64 {
    let doubled = config
        .backoff_ms
        .saturating_mul(1 << failures.saturating_sub(1).min(32));
    let pause = doubled.min(config.backoff_max_ms);
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(&seed.to_be_bytes())
        .update(id.as_bytes())
        .update(site.as_bytes())
        .update(&failures.to_be_bytes());
    let jitter = u64::from(hasher.finalize().as_bytes()[0]);
    (pause - pause / 4 + pause / 2 * jitter / 255).min(config.backoff_max_ms)
}
