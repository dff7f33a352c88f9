//! Objects without an entry: noted before they are made, found when nobody names them, collected when they are old (SOP §13.2).
//!
//! ```text
//! row in the catalogue ─▶ bytes durable ─▶ manifest signed ─▶ one transaction: entries, byte state, end of the row
//!          │                                                             │ crash before: the row says whose bytes they are
//!          ▼ the command failed, or the process ended                    ▼ crash after: published, announced at the next start
//!        orphan ──7 days of running time──▶ let go of its tag ─▶ look again ─▶ remove bytes ─▶ row and audit row, last
//! ```
//!
//! Age is running time, counted here, so that a clock that jumps makes nothing old (SOP-269).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use sovm_catalog::{ByteEvent, ByteState, Collection, MAX_NAMED, Read as _, Snapshot, Unpublished, meta};
use sovm_mesh::net::{steps::reached, store::Durable};
use sovm_object::id::StorageId;

use super::core::Core;
use crate::{
    api::{GcObject, GcReport, GcRequest},
    config::{format_bytes, format_duration_ms},
    error::{ApiError, ErrorKind},
};

/// Running time after which bytes that no entry names may go (SOP-269).
pub(super) const SAFE_INTERVAL_MS: u64 = 7 * 24 * 3_600_000;
/// Share of all bytes here that one collection may remove without being told so.
const LARGE_PERCENT: u64 = 25;
/// Pause between two notes of the running time; a crash loses at most this much of it, which only makes orphans younger.
const NOTE_EVERY: Duration = Duration::from_secs(600);
/// Shorter commands do not note their running time: it would cost each of them a commit.
const NOTE_AFTER: Duration = Duration::from_secs(60);
/// Notes between two collections of a running node.
const COLLECT_EVERY: u32 = 36;

/// What housekeeping knows beside the catalogue.
pub(super) struct Keep {
    /// One collection at a time.
    collecting: tokio::sync::Mutex<()>,
    started: Instant,
    /// Running time of all earlier runs.
    before_ms: u64,
    noted: Mutex<Instant>,
    /// The catalogue is an older copy: entries it lacks may name what looks like an orphan.
    pub(super) restored: AtomicBool,
    /// The key store's previous copy is in use.
    pub(super) fell_back: bool,
    /// Ask for everything that is missing again, at once.
    pub(super) ask_again: AtomicBool,
    /// Objects of this node's own entries whose bytes were gone at the start (SOP-254).
    pub(super) own_absent: AtomicU64,
}

impl Keep {
    pub(super) fn new(before_ms: u64, restored: bool, fell_back: bool) -> Self {
        let now = Instant::now();
        Self {
            collecting: tokio::sync::Mutex::default(),
            started: now,
            before_ms,
            noted: Mutex::new(now),
            restored: AtomicBool::new(restored),
            fell_back,
            ask_again: AtomicBool::new(false),
            own_absent: AtomicU64::new(0),
        }
    }
}

/// Bytes that no entry names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orphan {
    pub(super) id: StorageId,
    pub(super) bytes: u64,
    /// Running time since nobody has been making it.
    pub(super) age_ms: u64,
}

/// What a collection would do.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Old enough to go.
    pub(super) condemned: Vec<Orphan>,
    /// Not old enough.
    pub(super) young: Vec<Orphan>,
    /// All bytes here.
    pub(super) held_bytes: u64,
    /// Orphans that have no row yet.
    unnoted: Vec<Orphan>,
    /// Rows that say nothing any more: the object is named now, or has no bytes.
    stale: Vec<StorageId>,
}

impl Core {
    /// Milliseconds this node has run in all.
    pub(super) fn running_ms(&self) -> u64 {
        self.keep.before_ms + self.keep.started.elapsed().as_millis() as u64
    }

    /// Stores the running time, if enough of it has passed since the last note.
    pub(super) fn note_running(&self) {
        let mut noted = self.keep.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.elapsed() < NOTE_AFTER {
            return;
        }
        let note = || -> Result<(), ApiError> {
            let mut txn = self.catalog.begin()?;
            txn.put_meta(meta::RUNNING_MS, &self.running_ms().to_be_bytes())?;
            self.save(txn)
        };
        match note() {
            Ok(()) => *noted = Instant::now(),
            Err(error) => tracing::warn!(kind = ?error.kind, "the running time could not be noted"),
        }
    }

    /// Makes bytes durable that no entry names yet. Their row is on disk first, so that a crash leaves no unknown bytes.
    pub(super) async fn make_unnamed(&self, bytes: Bytes, id: StorageId) -> Result<Durable, ApiError> {
        reached("publish.encoded");
        let row = Unpublished {
            begun_ms: self.now_ms(),
            size: bytes.len() as u64,
            run: self.incarnation.counter,
            orphan_since_ms: None,
        };
        let mut txn = self.catalog.begin()?;
        txn.note_unpublished(&id, &row)?;
        self.save(txn)?;
        reached("publish.noted");
        match self.blobs.publish(bytes, id).await {
            Ok(durable) => {
                reached("publish.durable");
                Ok(durable)
            }
            Err(error) => {
                self.abandon(&[id]).await;
                Err(error.into())
            }
        }
    }

    /// Gives up objects that no entry will name: from here on they are orphans.
    pub(super) async fn abandon(&self, ids: &[StorageId]) {
        let mut ids: BTreeSet<_> = ids.iter().copied().collect();
        // A step can fail after its transaction was made; what that published must stay.
        match self.read().and_then(|snapshot| self.objects_in_use(&snapshot)) {
            Ok(used) => ids.retain(|id| !used.contains(id)),
            Err(_) => return,
        }
        if ids.is_empty() {
            return;
        }
        if self.blobs.release_all(ids.iter().copied()).await.is_err() {
            tracing::warn!(objects = ids.len(), "unpublished objects could not be let go");
        }
        if let Err(error) = self.end_making(|id, _| ids.contains(id)) {
            // The next start of the node does the same.
            tracing::warn!(kind = ?error.kind, "unpublished objects could not be noted as left over");
        }
    }

    /// Rows of earlier runs: their commands ended without a word, and what they made is nobody's.
    pub(super) fn end_earlier_runs(&self) -> Result<(), ApiError> {
        let ended = self.end_making(|_, row| row.run != self.incarnation.counter)?;
        if ended > 0 {
            tracing::info!(objects = ended, "objects of interrupted commands are left over");
        }
        Ok(())
    }

    fn end_making(&self, which: impl Fn(&StorageId, &Unpublished) -> bool) -> Result<usize, ApiError> {
        let mut rows = self.read()?.unpublished()?;
        rows.retain(|(id, row)| row.orphan_since_ms.is_none() && which(id, row));
        if rows.is_empty() {
            return Ok(0);
        }
        let mut txn = self.catalog.begin()?;
        for (id, row) in &rows {
            let orphan_since_ms = Some(self.running_ms());
            txn.note_unpublished(
                id,
                &Unpublished {
                    orphan_since_ms,
                    ..row.clone()
                },
            )?;
        }
        self.save(txn)?;
        Ok(rows.len())
    }

    /// Objects that must stay: those the catalogue names, and the recovery roots the key store goes by.
    fn objects_in_use(&self, snapshot: &Snapshot) -> Result<BTreeSet<StorageId>, ApiError> {
        let mut used = snapshot.objects_in_use()?;
        let keys = self.keys();
        used.extend(
            keys.contents()
                .domains
                .values()
                .filter_map(|domain| Some(domain.root()?.root_id)),
        );
        Ok(used)
    }

    /// What a collection would remove, were it run now.
    pub(super) async fn plan_collection(&self, after_ms: u64) -> Result<Plan, ApiError> {
        // In this order: what is in the list and gets its entry meanwhile is named in the snapshot.
        let stored = self.blobs.inventory().await?;
        let snapshot = self.read()?;
        let used = self.objects_in_use(&snapshot)?;
        let mut rows: BTreeMap<_, _> = snapshot.unpublished()?.into_iter().collect();
        let now_ms = self.running_ms();
        let mut plan = Plan::default();
        for object in &stored {
            plan.held_bytes += object.bytes;
            let row = rows.remove(&object.id);
            if used.contains(&object.id) {
                plan.stale.extend(row.map(|_| object.id));
                continue;
            }
            let age_ms = match &row {
                None => 0,
                Some(row) => match row.orphan_for_ms(now_ms) {
                    Some(age_ms) => age_ms,
                    // Its command runs.
                    None => continue,
                },
            };
            let orphan = Orphan {
                id: object.id,
                bytes: object.bytes,
                age_ms,
            };
            if row.is_none() {
                plan.unnoted.push(orphan);
            }
            if age_ms >= after_ms {
                plan.condemned.push(orphan);
            } else {
                plan.young.push(orphan);
            }
        }
        let without_bytes = rows.into_iter().filter(|(_, row)| row.orphan_since_ms.is_some());
        plan.stale.extend(without_bytes.map(|(id, _)| id));
        Ok(plan)
    }

    /// `gc`.
    pub(super) async fn gc(&self, request: &GcRequest) -> Result<GcReport, ApiError> {
        let _alone = self.keep.collecting.lock().await;
        let after_ms = request
            .after_secs
            .map_or(SAFE_INTERVAL_MS, |secs| secs.saturating_mul(1_000));
        let mut plan = self.plan_collection(after_ms).await?;
        if !request.dry_run {
            self.check_catalogue(request)?;
            if !request.allow_large {
                self.check_size(&plan)?;
            }
            self.note_found(&plan)?;
            let removed = self
                .collect_planned(&plan.condemned, after_ms, request.allow_large)
                .await?;
            plan.condemned.retain(|orphan| removed.contains(&orphan.id));
        }
        Ok(GcReport {
            dry_run: request.dry_run,
            after_secs: after_ms / 1_000,
            removed_bytes: sum(&plan.condemned),
            removed: plan.condemned.iter().map(report).collect(),
            waiting_bytes: sum(&plan.young),
            waiting: plan.young.iter().map(report).collect(),
            held_bytes: plan.held_bytes,
        })
    }

    /// Entries that a catalogue lacks may name what looks left over. Only an operator can know that none is missing.
    fn check_catalogue(&self, request: &GcRequest) -> Result<(), ApiError> {
        if !self.keep.restored.load(Ordering::Relaxed) {
            return Ok(());
        }
        if !request.allow_restored {
            return Err(ApiError::new(
                ErrorKind::Refused,
                "the catalogue is an older copy, so entries it lacks may name what looks left over",
            )
            .safe("nothing was removed")
            .next("sovm sync, so that the entries come back; once no row is missing, sovm gc --allow-restored"));
        }
        let mut txn = self.catalog.begin()?;
        txn.remove_meta(meta::RESTORED)?;
        self.save(txn)?;
        self.keep.restored.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// The watchdog: a collection that takes much is more likely a mistake of ours than so much waste.
    fn check_size(&self, plan: &Plan) -> Result<(), ApiError> {
        let bytes = sum(&plan.condemned);
        if bytes.saturating_mul(100) > plan.held_bytes.saturating_mul(LARGE_PERCENT) {
            return Err(ApiError::new(
                ErrorKind::Refused,
                format!(
                    "{} objects of {} would go: more than {LARGE_PERCENT} % of the {} here",
                    plan.condemned.len(),
                    format_bytes(bytes),
                    format_bytes(plan.held_bytes)
                ),
            )
            .safe("nothing was removed")
            .next("look at sovm gc --dry-run; if these are left-overs, sovm gc --allow-large"));
        }
        Ok(())
    }

    /// Keeps the rows in step with what was found.
    fn note_found(&self, plan: &Plan) -> Result<(), ApiError> {
        if plan.unnoted.is_empty() && plan.stale.is_empty() {
            return Ok(());
        }
        let mut txn = self.catalog.begin()?;
        for orphan in &plan.unnoted {
            let row = Unpublished {
                begun_ms: self.now_ms(),
                size: orphan.bytes,
                run: self.incarnation.counter,
                orphan_since_ms: Some(self.running_ms()),
            };
            txn.note_unpublished(&orphan.id, &row)?;
        }
        for id in &plan.stale {
            txn.forget_unpublished(id)?;
        }
        self.save(txn)
    }

    /// INV-412: deletes the bytes of objects for good, last copy or not. That they are not wanted is durable before the first byte
    /// goes, so nobody fetches them again; what is spared now because it is being read is an orphan, which `gc` finds.
    pub(super) async fn expunge_objects(&self, ids: &BTreeSet<StorageId>) -> Result<(), ApiError> {
        if ids.is_empty() {
            return Ok(());
        }
        let _alone = self.keep.collecting.lock().await;
        let mut txn = self.catalog.begin()?;
        let now_ms = self.now_ms();
        for id in ids {
            txn.byte_event(id, ByteEvent::Expunged, None, now_ms)
                .map_err(ApiError::bug)?;
        }
        self.save(txn)?;
        self.told();
        reached("expunge.marked");
        self.remove_expunged(ids).await
    }

    async fn remove_expunged(&self, ids: &BTreeSet<StorageId>) -> Result<(), ApiError> {
        self.blobs.release_all(ids.iter().copied()).await?;
        reached("expunge.released");
        let collected = self.blobs.collect(ids).await?;
        if !collected.spared.is_empty() {
            let spared = collected.spared.len();
            tracing::warn!(
                objects = spared,
                "expunged objects are being read; sovm gc removes them"
            );
        }
        Ok(())
    }

    /// Bytes of an expunged object that were on their way when it was expunged.
    pub(super) async fn remove_if_expunged(&self, id: &StorageId) {
        let status = self.read().and_then(|snapshot| Ok(snapshot.byte_status(id)?));
        let expunged = matches!(status, Ok(Some(status)) if status.state == ByteState::Expunged);
        if expunged && self.remove_expunged(&BTreeSet::from([*id])).await.is_err() {
            tracing::warn!(object = %id.fmt_short(), "an expunged object that arrived could not be removed; sovm gc does");
        }
    }

    /// Removes orphans; gives those whose bytes are gone. Whatever is interrupted here goes on at the next collection.
    async fn collect_planned(
        &self,
        condemned: &[Orphan],
        after_ms: u64,
        large: bool,
    ) -> Result<BTreeSet<StorageId>, ApiError> {
        let mut ids: BTreeSet<StorageId> = condemned.iter().map(|orphan| orphan.id).collect();
        if ids.is_empty() {
            return Ok(ids);
        }
        self.blobs.release_all(ids.iter().copied()).await?;
        reached("gc.released");
        // An entry may have come since the plan was made. From here on a fetch of the object finds it not held.
        let used = self.objects_in_use(&self.read()?)?;
        for id in ids.intersection(&used) {
            // Whole bytes are taken back; bytes that are not whole are fetched like any others.
            if self.blobs.confirm(*id).await.is_err() {
                tracing::warn!(object = %id.fmt_short(), "an object that is named again does not verify");
            }
        }
        ids.retain(|id| !used.contains(id));
        let collected = self.blobs.collect(&ids).await?;
        reached("gc.collected");
        // The rows go last (SOP-253): a crash before this finds them, and no bytes, at the next collection.
        let bytes = condemned
            .iter()
            .filter(|orphan| collected.removed.contains(&orphan.id))
            .map(|orphan| orphan.bytes)
            .sum();
        let mut txn = self.catalog.begin()?;
        for id in &collected.removed {
            txn.forget_unpublished(id)?;
        }
        txn.audit_collection(&Collection {
            at_ms: self.now_ms(),
            objects: collected.removed.iter().take(MAX_NAMED).copied().collect(),
            count: collected.removed.len() as u64,
            bytes,
            after_ms,
            large,
        })?;
        self.save(txn)?;
        Ok(collected.removed)
    }
}

fn sum(orphans: &[Orphan]) -> u64 {
    orphans.iter().map(|orphan| orphan.bytes).sum()
}

fn report(orphan: &Orphan) -> GcObject {
    GcObject {
        storage_id: orphan.id.to_string(),
        bytes: orphan.bytes,
        age_ms: orphan.age_ms,
    }
}

/// Counts the running time and collects what is old, for as long as the node is online.
pub(super) async fn keep_house(core: Weak<Core>) {
    for round in 1_u32.. {
        tokio::time::sleep(NOTE_EVERY).await;
        let Some(core) = core.upgrade() else {
            return;
        };
        core.note_running();
        if round % COLLECT_EVERY != 0 {
            continue;
        }
        match core.gc(&GcRequest::default()).await {
            Ok(report) if report.removed.is_empty() => {}
            Ok(report) => tracing::info!(objects = report.removed.len(), "left-over objects were removed"),
            Err(error) => tracing::warn!(kind = ?error.kind, "left-over objects were not removed; sovm gc says why"),
        }
    }
}

/// The safe interval in words.
pub(super) fn safe_interval() -> String {
    format!("{} of running time", format_duration_ms(SAFE_INTERVAL_MS))
}

/// Asks for everything that is missing again at the next look.
pub(super) fn ask_again(core: &Core) {
    core.keep.ask_again.store(true, Ordering::Relaxed);
    core.told();
}
