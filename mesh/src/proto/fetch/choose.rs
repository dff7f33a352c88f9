//! Choosing the next attempts.

use std::{
    collections::VecDeque,
    ops::{Bound, Range},
};

use sovm_object::id::{SiteId, StorageId};

use super::{
    Effect, Planner,
    object::{Job, Object},
};

/// Space set aside for an object whose length nobody stated: the usual object target (DESIGN §16.6).
const GUESSED_BYTES: u64 = 32 << 20;

/// Parts begin and end at whole mebibytes, so that parts from different holders share no hash group.
const PART_ALIGN: u64 = 1 << 20;

enum Choice {
    Ask(SiteId),
    /// All that could be asked are at work.
    Busy,
    /// Everyone has to be left alone until then.
    Later(u64),
    Nobody,
}

impl Planner {
    pub(super) fn start_more(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        while let Some((at, id)) = self.sleeping.first().copied().filter(|(at, _)| *at <= now_ms) {
            self.sleeping.remove(&(at, id));
            self.make_ready(id);
        }
        if self.no_room {
            return;
        }
        let mut next = self.ready.first().copied();
        while let Some(rank) = next {
            if self.running >= self.config.total || self.everyone_is_busy() {
                return;
            }
            self.start_object(rank.1, now_ms, effects);
            next = self
                .ready
                .range((Bound::Excluded(rank), Bound::Unbounded))
                .next()
                .copied();
        }
    }

    fn start_object(&mut self, id: StorageId, now_ms: u64, effects: &mut Vec<Effect>) {
        while self.running < self.config.total {
            let Some(object) = self.objects.get(&id) else { return };
            let rank = object.rank(id);
            if object.jobs.is_empty() && !self.fits(object) {
                // Smaller objects behind it may still fit.
                return;
            }
            if !has_open_work(object, &self.config) {
                self.ready.remove(&rank);
                return;
            }
            match self.choose(object, now_ms) {
                Choice::Ask(holder) => effects.push(self.start(id, holder, now_ms)),
                Choice::Busy => return,
                Choice::Later(at) if object.jobs.is_empty() => {
                    self.ready.remove(&rank);
                    self.sleeping.insert((at, id));
                    if let Some(object) = self.objects.get_mut(&id) {
                        object.sleeps_until = Some(at);
                    }
                    return;
                }
                // While another attempt runs its end makes the object ready again; otherwise a site coming online does.
                Choice::Later(_) | Choice::Nobody => {
                    self.ready.remove(&rank);
                    return;
                }
            }
        }
    }

    fn start(&mut self, id: StorageId, holder: SiteId, now_ms: u64) -> Effect {
        let config = self.config;
        self.running += 1;
        *self.load.entry(holder).or_default() += 1;
        let mut effect = Effect::Fetch {
            id,
            size: None,
            part: None,
            holder,
        };
        if let (Some(object), Effect::Fetch { size, part, .. }) = (self.objects.get_mut(&id), &mut effect) {
            if object.parts.is_none() {
                object.parts = object
                    .size
                    .filter(|size| *size >= config.split_bytes)
                    .map(|s| split(s, config.parts));
            }
            *size = object.size;
            *part = object.parts.as_mut().and_then(VecDeque::pop_front);
            object.jobs.push(Job {
                holder,
                part: part.clone(),
                last_progress_ms: now_ms,
            });
            self.active.insert(id);
        }
        effect
    }

    /// The best site for one more attempt: one that says it holds the object before one that merely might; the least
    /// busy first.
    fn choose(&self, object: &Object, now_ms: u64) -> Choice {
        if object.not_before_ms > now_ms {
            return Choice::Later(object.not_before_ms);
        }
        let mut best: Option<(bool, usize, u32, SiteId)> = None;
        let mut later: Option<u64> = None;
        let mut busy = false;
        for site in &self.online {
            let tried = object.tried.get(site).copied().unwrap_or_default();
            if tried.lied || object.jobs.iter().any(|job| job.holder == *site) {
                continue;
            }
            if tried.not_before_ms > now_ms {
                later = Some(later.map_or(tried.not_before_ms, |at| at.min(tried.not_before_ms)));
                continue;
            }
            let load = self.load.get(site).copied().unwrap_or(0);
            if load >= self.config.per_holder {
                busy = true;
                continue;
            }
            // Parts go only to sites that are known to hold the object.
            if !tried.claims && !object.jobs.is_empty() {
                continue;
            }
            let rank = (!tried.claims, load, tried.failures, *site);
            if best.is_none_or(|best| rank < best) {
                best = Some(rank);
            }
        }
        match (best, busy, later) {
            (Some((.., site)), ..) => Choice::Ask(site),
            (None, true, _) => Choice::Busy,
            (None, false, Some(at)) => Choice::Later(at),
            (None, false, None) => Choice::Nobody,
        }
    }

    fn everyone_is_busy(&self) -> bool {
        !self.online.is_empty()
            && self
                .online
                .iter()
                .all(|site| self.load.get(site).is_some_and(|load| *load >= self.config.per_holder))
    }

    /// Whether an object's bytes leave the disk reserve alone.
    pub(super) fn fits(&self, object: &Object) -> bool {
        if self.no_room {
            return false;
        }
        let Some(free) = self.free_bytes else { return true };
        let promised: u64 = self
            .active
            .iter()
            .filter_map(|id| self.objects.get(id))
            .map(|other| other.size.unwrap_or(GUESSED_BYTES))
            .fold(0, u64::saturating_add);
        let size = object.size.unwrap_or(GUESSED_BYTES);
        free >= self.config.reserve_bytes.saturating_add(promised).saturating_add(size)
    }
}

/// Whether a further attempt would have anything to do.
fn has_open_work(object: &Object, config: &super::Config) -> bool {
    match &object.parts {
        // All parts were fetched and the whole is not durable yet: one last attempt settles what is missing.
        Some(parts) => !parts.is_empty() || object.jobs.is_empty(),
        None => object.jobs.is_empty() || object.size.is_some_and(|size| size >= config.split_bytes),
    }
}

fn split(size: u64, parts: u64) -> VecDeque<Range<u64>> {
    let step = (size / parts.max(1)).next_multiple_of(PART_ALIGN).max(PART_ALIGN);
    let mut out = VecDeque::new();
    let mut start = 0;
    while start < size {
        let end = size.min(start.saturating_add(step));
        out.push_back(start..end);
        start = end;
    }
    out
}
