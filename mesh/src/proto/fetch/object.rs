//! What is remembered about one missing object.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use sovm_object::id::{SiteId, StorageId};

/// One running attempt.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) holder: SiteId,
    pub(super) part: Option<Range<u64>>,
    pub(super) last_progress_ms: u64,
}

/// What one site's answers taught us about one object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tried {
    /// It said that it holds the object.
    pub(super) claims: bool,
    pub(super) failures: u32,
    pub(super) not_before_ms: u64,
    pub(super) lied: bool,
}

#[derive(Debug)]
pub(super) struct Object {
    pub(super) size: Option<u64>,
    pub(super) priority: u8,
    pub(super) tried: BTreeMap<SiteId, Tried>,
    pub(super) jobs: Vec<Job>,
    /// Parts nobody works on; `None` while the object is not split.
    pub(super) parts: Option<VecDeque<Range<u64>>>,
    pub(super) sleeps_until: Option<u64>,
    pub(super) not_before_ms: u64,
}

impl Object {
    pub(super) const fn new(size: Option<u64>, priority: u8) -> Self {
        Self {
            size,
            priority,
            tried: BTreeMap::new(),
            jobs: Vec::new(),
            parts: None,
            sleeps_until: None,
            not_before_ms: 0,
        }
    }

    pub(super) const fn rank(&self, id: StorageId) -> (Reverse<u8>, StorageId) {
        (Reverse(self.priority), id)
    }

    pub(super) fn failures(&self) -> u32 {
        self.tried.values().map(|tried| tried.failures).sum()
    }

    pub(super) fn job_mut(&mut self, site: SiteId) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.holder == site)
    }

    pub(super) fn take_job(&mut self, site: SiteId) -> Option<Job> {
        let at = self.jobs.iter().position(|job| job.holder == site)?;
        Some(self.jobs.swap_remove(at))
    }

    /// A claim is news: earlier failures of that site say nothing any more, unless it lied.
    pub(super) fn holder_says_yes(&mut self, site: SiteId) {
        let tried = self.tried.entry(site).or_default();
        if !tried.claims || tried.failures > 0 {
            *tried = Tried {
                claims: true,
                lied: tried.lied,
                ..Tried::default()
            };
        }
    }

    pub(super) fn delivered(&mut self, site: SiteId) {
        let tried = self.tried.entry(site).or_default();
        *tried = Tried {
            claims: true,
            ..Tried::default()
        };
    }

    pub(super) fn never_again(&mut self, site: SiteId) {
        self.tried.entry(site).or_default().lied = true;
    }

    pub(super) fn leave_alone(&mut self, site: SiteId, until_ms: impl Fn(u32) -> u64) {
        let tried = self.tried.entry(site).or_default();
        tried.failures = tried.failures.saturating_add(1);
        tried.not_before_ms = until_ms(tried.failures);
    }

    pub(super) fn leave_all_alone(&mut self, until_ms: u64) {
        self.not_before_ms = until_ms;
    }

    /// A part that was not finished goes to the next holder.
    pub(super) fn give_back(&mut self, part: Option<Range<u64>>) {
        if let (Some(parts), Some(part)) = (&mut self.parts, part) {
            parts.push_front(part);
        }
    }
}
