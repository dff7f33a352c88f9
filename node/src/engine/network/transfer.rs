//! Bytes that are missing: the pure planner decides, this carries out (DESIGN §8 "Bytes").

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use sovm_catalog::{BadBytes, ByteEvent, ByteState, HolderRow, Read as _, Scope, Snapshot};
use sovm_mesh::{
    net::{
        fetch::{Blame, FetchError, FetchRequest, Fetcher},
        store::Holding,
    },
    proto::fetch::{Config, Effect, Event, Failure, Planner},
};
use sovm_object::{
    entry::EntryKind,
    id::{DomainId, SiteId, StorageId},
    padme::padme,
    record::{PrefetchList, Role, RootAnnouncement},
};
use tokio::{sync::mpsc, task::AbortHandle};

use super::super::core::Core;
use crate::{config::Limits, error::ApiError};

/// Reports of running attempts that may wait.
const REPORTS: usize = 256;

/// The longest pause between two looks at what is missing.
const LOOK: Duration = Duration::from_secs(10);

/// Fetches what is missing, for as long as the node is online.
pub(super) async fn fetch_missing(core: Weak<Core>) {
    let (fetcher, mut changed, config) = {
        let Some(core) = core.upgrade() else {
            return;
        };
        let Ok(network) = core.network() else {
            return;
        };
        let config = Config {
            reserve_bytes: core.config.limits.disk_reserve.unwrap_or(Limits::DISK_RESERVE_BYTES),
            ..Config::default()
        };
        (network.net.fetcher(), core.watch(), config)
    };
    let (report, mut reports) = mpsc::channel(REPORTS);
    let mut work = Work {
        planner: Planner::new(config, rand::random()),
        running: HashMap::new(),
        fetcher,
        report,
    };
    let mut wake = tokio::time::Instant::now();
    loop {
        let mut events = Vec::new();
        tokio::select! {
            Some(event) = reports.recv() => events.push(event),
            result = changed.changed() => {
                if result.is_err() {
                    return;
                }
            }
            () = tokio::time::sleep_until(wake) => {}
        }
        let Some(core) = core.upgrade() else {
            return;
        };
        while let Ok(event) = reports.try_recv() {
            events.push(event);
        }
        match core.what_is_missing(&work.planner) {
            Ok(news) => events.extend(news),
            Err(error) => tracing::warn!(kind = ?error.kind, "what is missing could not be read"),
        }
        events.push(Event::Tick);
        wake = tokio::time::Instant::now() + LOOK;
        for event in events {
            for effect in work.planner.handle(event, core.now_ms()) {
                if let Effect::Wake(at_ms) = effect {
                    let pause = Duration::from_millis(at_ms.saturating_sub(core.now_ms()).max(50));
                    wake = wake.min(tokio::time::Instant::now() + pause);
                } else {
                    work.carry_out(&core, effect).await;
                }
            }
        }
    }
}

struct Work {
    planner: Planner,
    running: HashMap<(StorageId, SiteId), AbortHandle>,
    fetcher: Fetcher,
    report: mpsc::Sender<Event>,
}

impl Work {
    async fn carry_out(&mut self, core: &Arc<Core>, effect: Effect) {
        match effect {
            Effect::Fetch { id, size, part, holder } => {
                let request = FetchRequest { id, size, part };
                let task = tokio::spawn(attempt(
                    Arc::downgrade(core),
                    self.fetcher.clone(),
                    request,
                    holder,
                    self.report.clone(),
                ));
                self.running.insert((id, holder), task.abort_handle());
            }
            Effect::Cancel { id, holder } => {
                if let Some(task) = self.running.remove(&(id, holder)) {
                    task.abort();
                }
            }
            Effect::Done(id) => {
                self.running.retain(|(running, _), _| *running != id);
                core.forget_partly(&id);
            }
            Effect::Wake(_) => {}
        }
    }
}

/// One attempt to get an object, or a part of it, from one holder.
async fn attempt(
    core: Weak<Core>,
    fetcher: Fetcher,
    request: FetchRequest,
    holder: SiteId,
    report: mpsc::Sender<Event>,
) {
    let id = request.id;
    let progress = {
        let (core, report) = (core.clone(), report.clone());
        move |progress: sovm_mesh::net::fetch::FetchProgress| {
            if let Some(core) = core.upgrade() {
                core.note_partly(&id, progress.have_bytes);
            }
            // A full queue only delays the stall clock; the next piece reports again.
            let _ = report.try_send(Event::Progress(id, holder));
        }
    };
    if let Some(core) = core.upgrade() {
        core.let_go_of_damaged(&id).await;
    }
    let result = fetcher.fetch(&request, holder, progress).await;
    let Some(core) = core.upgrade() else {
        return;
    };
    let event = match result {
        Ok(outcome) => {
            if let Ok(network) = core.network() {
                network
                    .fetched_bytes
                    .fetch_add(outcome.fetched_bytes, Ordering::Relaxed);
            }
            let durable = outcome.durable.is_some();
            if let Some(durable) = outcome.durable
                && let Err(error) = core.note_bytes(&id, ByteEvent::Arrived, Some(durable.size()))
            {
                tracing::warn!(kind = ?error.kind, "an object that arrived could not be noted");
            }
            core.remove_if_expunged(&id).await;
            Event::Fetched(id, holder, durable)
        }
        Err(error) => {
            core.note_failed_attempt(&id, &holder, &error);
            Event::Failed(id, holder, failure(&error))
        }
    };
    let _ = report.send(event).await;
}

fn failure(error: &FetchError) -> Failure {
    match error {
        FetchError::NotHeld | FetchError::Refused => Failure::NotHeld,
        FetchError::NoRoom(_) => Failure::NoRoom,
        other => match other.blame() {
            Blame::HolderLied => Failure::Lied,
            Blame::HolderUnavailable => Failure::Unavailable,
            Blame::Description | Blame::Ours => Failure::Ours,
        },
    }
}

impl Core {
    /// News for the planner: objects that are wanted, and who can be asked.
    fn what_is_missing(&self, planner: &Planner) -> Result<Vec<Event>, ApiError> {
        let snapshot = self.read()?;
        let blind = self.is_blind()?;
        let mut events = Vec::new();
        // Asked for anew on request: pauses after failures are forgotten.
        let ask_again = self.keep.ask_again.swap(false, Ordering::Relaxed);
        let missing = snapshot.pending_bytes()?.into_iter().chain(snapshot.damaged_bytes()?);
        for pending in missing {
            // Bytes of an object that only a sender named are not worth anything; a blind replica keeps what it was told to.
            if !pending.accepted && !blind {
                continue;
            }
            if planner.status(&pending.storage_id).is_some() {
                if !ask_again {
                    continue;
                }
                events.push(Event::Unwant(pending.storage_id));
            }
            let size = pending.exact_byte_size.and_then(padme);
            events.push(Event::Want {
                id: pending.storage_id,
                size,
                priority: 1,
            });
            for (site, row) in pending.asked {
                if row.claims {
                    events.push(Event::Holder(pending.storage_id, site));
                }
            }
        }
        for site in self.talk_partners()? {
            events.push(if self.seen(&site).0 {
                Event::Online(site)
            } else {
                Event::Offline(site)
            });
        }
        if let Ok(free) = fs4::available_space(self.blobs.root()) {
            events.push(Event::Space(free));
        }
        Ok(events)
    }

    fn note_failed_attempt(&self, id: &StorageId, holder: &SiteId, error: &FetchError) {
        let note = || -> Result<(), ApiError> {
            let now_ms = self.now_ms();
            let failures = {
                let snapshot = self.read()?;
                let before = snapshot.holders(id)?.into_iter().find(|(site, _)| site == holder);
                before.map_or(0, |(_, row)| row.failures) + 1
            };
            let row = HolderRow {
                asked_ms: now_ms,
                failures,
                reason: Some(error.to_string()),
                next_try_ms: now_ms + 30_000,
                claims: !matches!(error, FetchError::NotHeld),
            };
            let mut txn = self.catalog.begin()?;
            txn.put_holder(id, holder, &row)?;
            if matches!(error, FetchError::NotHeld | FetchError::Refused) {
                // Damaged bytes that this holder cannot replace are bytes that are missing (SOP-262).
                txn.byte_event(id, ByteEvent::NoHolder, None, now_ms)
                    .map_err(ApiError::bug)?;
            }
            self.save(txn)?;
            Ok(())
        };
        if note().is_err() {
            tracing::warn!(object = %id.fmt_short(), "a failed attempt could not be noted");
        }
    }

    /// The store calls a damaged object complete, and would bring nothing. Once it is let go, a fetch looks at its bytes.
    async fn let_go_of_damaged(&self, id: &StorageId) {
        let status = self.read().and_then(|snapshot| Ok(snapshot.byte_status(id)?));
        let damaged = ByteState::Quarantined(BadBytes::HashMismatch);
        if matches!(status, Ok(Some(status)) if status.state == damaged) && self.blobs.release(*id).await.is_err() {
            tracing::warn!(object = %id.fmt_short(), "a damaged object could not be let go");
        }
    }

    fn note_partly(&self, id: &StorageId, have_bytes: u64) {
        if let Some(network) = self.net.get() {
            network
                .partly
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(*id, have_bytes);
        }
    }

    fn forget_partly(&self, id: &StorageId) {
        if let Some(network) = self.net.get() {
            network.partly.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        }
    }

    /// Finds what the last stop left half fetched, so that `status` tells the truth before the fetch goes on.
    pub(super) async fn find_partly_fetched(&self) -> Result<(), ApiError> {
        let pending: Vec<_> = self
            .read()?
            .pending_bytes()?
            .into_iter()
            .map(|pending| pending.storage_id)
            .collect();
        for id in pending {
            match self.blobs.holding(id).await? {
                Holding::Partial { bytes } => self.note_partly(&id, bytes),
                // Complete, and only the note of it was lost.
                Holding::Durable(durable) => self.note_bytes(&id, ByteEvent::Arrived, Some(durable.size()))?,
                Holding::Damaged => self.note_bytes(&id, ByteEvent::Bad(BadBytes::HashMismatch), None)?,
                Holding::Absent => {}
            }
        }
        Ok(())
    }

    /// Domains whose members may have an object's bytes.
    pub(super) fn domains_of_object(&self, snapshot: &Snapshot, id: &StorageId) -> Result<Vec<DomainId>, ApiError> {
        let granted: Vec<DomainId> = snapshot
            .access_records(id)?
            .iter()
            .map(|grant| grant.domain_id)
            .collect();
        let mut domains = granted.clone();
        let roots = snapshot.accepted_naming::<RootAnnouncement>(id, EntryKind::RootAnnouncement)?;
        domains.extend(roots.iter().map(|root| root.domain_id));
        // Members may fetch an object's bytes before its key, when somebody listed it for them who may read it.
        for list in snapshot.accepted_naming::<PrefetchList>(id, EntryKind::PrefetchList)? {
            if reads_in_one_of(snapshot, &list.issuer, &granted)? {
                domains.push(list.domain_id);
            }
        }
        domains.sort_unstable();
        domains.dedup();
        Ok(domains)
    }

    /// Blind replicas of the mesh.
    pub(super) fn blind_replicas(&self, snapshot: &Snapshot) -> Result<Vec<SiteId>, ApiError> {
        let Some(roster) = snapshot.roster(Scope::Mesh)? else {
            return Ok(Vec::new());
        };
        Ok(roster
            .members()
            .filter(|(_, role, _)| *role == Role::Blind)
            .map(|(site, ..)| site)
            .collect())
    }
}

/// Whether a site may read in any of these domains.
fn reads_in_one_of(snapshot: &Snapshot, site: &SiteId, domains: &[DomainId]) -> Result<bool, ApiError> {
    for domain in domains {
        let roster = snapshot.roster(Scope::Domain(*domain))?;
        if roster.and_then(|roster| roster.role(site)).is_some_and(Role::reads) {
            return Ok(true);
        }
    }
    Ok(false)
}
