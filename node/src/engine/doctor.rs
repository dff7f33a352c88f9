//! `doctor`: everything that can be wrong with a node on one screen, and what is safe to do about it.
//!
//! A look costs no more than a list of files: bytes are compared by `object verify`. Each check gives findings; a repair does
//! only what loses nothing and needs no choice.

mod checks;

use std::path::PathBuf;

use sovm_catalog::{ByteEvent, ByteState, Read as _};
use sovm_object::id::StorageId;

use super::{
    core::Core,
    orphans::{ask_again, safe_interval},
};
use crate::{
    api::{DoctorReport, Finding, Severity},
    config::format_bytes,
    error::ApiError,
};

impl Finding {
    fn new(kind: &str, severity: Severity, text: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            severity,
            text: text.into(),
            safe: "nothing was changed".to_owned(),
            next: "sovm doctor --repair".to_owned(),
            repaired: false,
        }
    }

    fn safe(mut self, safe: impl Into<String>) -> Self {
        self.safe = safe.into();
        self
    }

    fn next(mut self, next: impl Into<String>) -> Self {
        self.next = next.into();
        self
    }

    const fn repaired(mut self, repaired: bool) -> Self {
        self.repaired = repaired;
        self
    }
}

impl Core {
    /// `doctor`.
    pub(super) async fn doctor(&self, repair: bool) -> Result<DoctorReport, ApiError> {
        let mut findings = Vec::new();
        // Bytes that came back change what the checks after this one see.
        findings.extend(self.check_unkept(repair).await?);
        findings.extend(self.check_absent(repair).await?);
        findings.extend(self.check_damaged()?);
        findings.extend(self.check_pending(repair)?);
        findings.extend(self.check_newer()?);
        findings.extend(self.check_orphans().await?);
        findings.extend(self.check_litter(repair));
        findings.extend(self.check_start());
        findings.extend(self.check_disk());
        findings.extend(self.check_clock()?);
        findings.extend(self.check_alarms()?);
        findings.extend(self.check_recovery()?);
        findings.extend(self.check_key_file());
        if repair {
            ask_again(self);
        }
        findings.sort_by_key(|finding| finding.severity);
        let held = self.blobs.list().await?;
        Ok(DoctorReport {
            findings,
            objects: held.len() as u64,
            bytes: held.iter().map(|object| object.size()).sum(),
        })
    }

    /// Whole bytes in the store that were never reported durable, of objects somebody wants: a kill came between.
    async fn check_unkept(&self, repair: bool) -> Result<Option<Finding>, ApiError> {
        let snapshot = self.read()?;
        let mut unkept = Vec::new();
        for stored in self.blobs.inventory().await? {
            let wanted = snapshot.byte_status(&stored.id)?;
            let wanted = wanted.filter(|status| status.state != ByteState::Expunged);
            let missing = wanted.is_some_and(|status| status.state != ByteState::Available);
            if stored.whole && !stored.kept && missing {
                unkept.push(stored.id);
            }
        }
        let mut back = 0;
        if repair {
            for id in &unkept {
                back += usize::from(self.take_back(*id).await?);
            }
        }
        // Those that do not verify are damaged objects, which another check tells of.
        let count = if repair { back } else { unkept.len() };
        Ok((count > 0).then(|| {
            Finding::new(
                "unkept",
                Severity::Attention,
                format!("{count} objects are here by the books and count as missing"),
            )
            .safe("they are read in full before they count")
            .repaired(repair)
        }))
    }

    /// Takes bytes that are here, and count as missing or damaged, after all: every byte is compared first (SOP-263).
    pub(super) async fn take_back(&self, id: StorageId) -> Result<bool, ApiError> {
        let Ok(Some(durable)) = self.blobs.confirm(id).await else {
            return Ok(false);
        };
        self.note_bytes(&id, ByteEvent::Arrived, Some(durable.size()))?;
        Ok(true)
    }

    /// SOP-254: entries whose bytes are gone. Those of this node itself had their bytes when they were made.
    async fn check_absent(&self, repair: bool) -> Result<Option<Finding>, ApiError> {
        let absent = self.absent_objects().await?;
        if absent.is_empty() {
            return Ok(None);
        }
        let snapshot = self.read()?;
        let mut own = 0;
        for id in &absent {
            own += usize::from(self.is_own(&snapshot, id)?);
            if repair {
                self.set_aside(*id, ByteEvent::Missing).await?;
            }
        }
        Ok(Some(
            Finding::new(
                "absent",
                Severity::Damage,
                format!(
                    "{} entries name bytes that are gone from this disk, {own} of them published here",
                    absent.len()
                ),
            )
            .safe("the entries stay, and no query answers without saying so")
            .next(format!(
                "sovm doctor --repair counts them as missing; then {}",
                self.way_back()?
            ))
            .repaired(repair),
        ))
    }

    /// What lies around from processes that were killed. A running node's own files are never among it: its key store and
    /// settings are written in one step, under the home's lock that this process has.
    fn check_litter(&self, repair: bool) -> Option<Finding> {
        let litter = self.litter();
        if litter.is_empty() {
            return None;
        }
        let bytes: u64 = litter.iter().map(|(_, bytes)| *bytes).sum();
        let mut left = 0;
        if repair {
            for (path, _) in &litter {
                left += usize::from(std::fs::remove_file(path).is_err());
            }
        }
        Some(
            Finding::new(
                "litter",
                Severity::Attention,
                format!(
                    "{} temporary files of {} are left over",
                    litter.len(),
                    format_bytes(bytes)
                ),
            )
            .safe("they are encrypted or empty, and nothing refers to them")
            .repaired(repair && left == 0),
        )
    }

    fn litter(&self) -> Vec<(PathBuf, u64)> {
        let Ok(entries) = std::fs::read_dir(self.home.path()) else {
            return Vec::new();
        };
        let old = |entry: &std::fs::DirEntry| {
            let meta = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
            // One that another command is writing now is about to get its name.
            let age = meta.modified().ok()?.elapsed().ok()?;
            (age.as_secs() >= 60).then_some(meta.len())
        };
        entries
            .flatten()
            .filter(|entry| {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                name.starts_with(".tmp") || name.ends_with(".new")
            })
            .filter_map(|entry| Some((entry.path(), old(&entry)?)))
            .collect()
    }

    async fn check_orphans(&self) -> Result<Option<Finding>, ApiError> {
        let plan = self.plan_collection(super::orphans::SAFE_INTERVAL_MS).await?;
        let all = plan.condemned.iter().chain(&plan.young);
        let bytes: u64 = all.clone().map(|orphan| orphan.bytes).sum();
        let count = all.count();
        Ok((count > 0).then(|| {
            Finding::new(
                "orphans",
                Severity::Attention,
                format!(
                    "{count} objects of {} are left over from commands that did not finish; {} are old enough to go",
                    format_bytes(bytes),
                    plan.condemned.len()
                ),
            )
            .safe(format!(
                "no entry names them; a running node removes them after {}",
                safe_interval()
            ))
            .next("sovm gc --dry-run lists them; sovm gc removes what is old")
        }))
    }
}
