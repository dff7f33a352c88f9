//! Checks that only look.

use sovm_catalog::{Alarm, BadBytes, ObjectState, Read as _};

use super::{super::reports::newest_alarms, Core, Finding, Severity};
use crate::{
    config::{format_bytes, format_duration_ms},
    error::ApiError,
};

/// How far this clock may be behind the newest entry.
const CLOCK_BEHIND_MS: u64 = 60_000;
/// Age at which a checkpoint is called old.
const OLD_CHECKPOINT_MS: u64 = 30 * 24 * 3_600_000;

impl Core {
    /// Bytes that do not match their id, and bytes that match and are not what was described.
    pub(super) fn check_damaged(&self) -> Result<Vec<Finding>, ApiError> {
        let snapshot = self.read()?;
        let mut findings = Vec::new();
        let damaged = snapshot.damaged_bytes()?.len();
        if damaged > 0 {
            findings.push(
                Finding::new(
                    "damaged",
                    Severity::Damage,
                    format!("{damaged} objects do not match their id on this disk"),
                )
                .safe("no byte of them is given out; copies on other devices are not touched")
                .next(self.way_back()?),
            );
        }
        let wrong = ObjectState::QuarantinedBytes(BadBytes::NotAsDescribed);
        let wrong = self
            .all_objects(&snapshot)?
            .iter()
            .filter(|object| object.state == wrong)
            .count();
        if wrong > 0 {
            findings.push(
                Finding::new(
                    "not_as_described",
                    Severity::Damage,
                    format!("{wrong} objects are not what their manifests say"),
                )
                .safe("no row of them is given out; every copy has the same bytes")
                .next("sovm object list, then sovm object show ID: its producer has to publish the rows again"),
            );
        }
        Ok(findings)
    }

    pub(super) fn check_pending(&self, repair: bool) -> Result<Option<Finding>, ApiError> {
        let pending = self.read()?.pending_bytes()?;
        let blind = self.is_blind()?;
        let count = pending.iter().filter(|object| object.accepted || blind).count();
        let asked = if repair && self.is_online() {
            "; all are asked for again now"
        } else {
            ""
        };
        let next = if self.is_online() {
            "sovm status says who was asked and why it failed; bring a device that holds them online"
        } else {
            "sovm run fetches them from devices that hold them"
        };
        Ok((count > 0).then(|| {
            Finding::new(
                "pending_bytes",
                Severity::Attention,
                format!("{count} objects wait for their bytes{asked}"),
            )
            .safe("their entries stay, and queries name what is missing")
            .next(next)
        }))
    }

    /// SOP-4: what other devices wrote with a newer build.
    pub(super) fn check_newer(&self) -> Result<Option<Finding>, ApiError> {
        let count = self.read()?.counts()?.unsupported;
        Ok((count > 0).then(|| {
            Finding::new(
                "newer",
                Severity::Attention,
                format!("{count} entries were written by a newer version of sovm; their rows are in no table here"),
            )
            .safe("they are kept and passed on to other devices byte for byte")
            .next("install the newer version on this device; it reads them when it starts")
        }))
    }

    /// What was noticed when the node was opened.
    pub(super) fn check_start(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.keep.fell_back {
            findings.push(
                Finding::new(
                    "key_store",
                    Severity::Damage,
                    "the key store was damaged; its previous copy is in use and was written anew",
                )
                .safe("what its last change added, such as a key received minutes ago, comes again from other devices")
                .next("sovm sync")
                .repaired(true),
            );
        }
        if self.keep.restored.load(std::sync::atomic::Ordering::Relaxed) {
            findings.push(
                Finding::new(
                    "restored",
                    Severity::Damage,
                    "the catalogue is older than the key store: this home was restored from a copy",
                )
                .safe("entries written since come back from other devices; nothing is collected meanwhile")
                .next("sovm sync; publish nothing before it is done. Once no row is missing: sovm gc --allow-restored"),
            );
        }
        findings
    }

    pub(super) fn check_disk(&self) -> Option<Finding> {
        let full = self.blobs.check_room(0).err()?;
        Some(
            Finding::new(
                "disk_reserve",
                Severity::Attention,
                format!(
                    "{} are free at {} and {} stay reserved: no new bytes are taken",
                    format_bytes(full.free),
                    full.path.display(),
                    format_bytes(full.reserve)
                ),
            )
            .safe("what is stored stays readable")
            .next("free some space outside the home; sovm gc removes left-overs"),
        )
    }

    /// A clock that went back makes every stamp of ours run ahead of it; a clock that is behind sets aside what others write.
    pub(super) fn check_clock(&self) -> Result<Vec<Finding>, ApiError> {
        let snapshot = self.read()?;
        let now_ms = self.now_ms();
        let mut findings = Vec::new();
        let newest = snapshot.newest_stamp()?.map_or(0, |stamp| stamp.millis());
        if newest > now_ms + CLOCK_BEHIND_MS {
            findings.push(
                Finding::new(
                    "clock",
                    Severity::Attention,
                    format!(
                        "this clock is {} behind the newest entry",
                        format_duration_ms(newest - now_ms)
                    ),
                )
                .safe("stamps of this node never go back")
                .next("set the clock (NTP), then start sovm run again"),
            );
        }
        let ahead = snapshot.counts()?.quarantined;
        if ahead > 0 {
            findings.push(
                Finding::new(
                    "ahead",
                    Severity::Attention,
                    format!("{ahead} entries are more than five minutes ahead of this clock and do not count yet"),
                )
                .safe("they count by themselves once this clock has passed their time")
                .next("compare the clocks: sovm object list shows the quarantined objects"),
            );
        }
        Ok(findings)
    }

    pub(super) fn check_alarms(&self) -> Result<Vec<Finding>, ApiError> {
        let newest = newest_alarms(&self.read()?)?;
        Ok(newest
            .into_iter()
            .map(|(alarm, sentence)| {
                let section = match alarm {
                    Alarm::TwoRoots { .. } => "A catalogue has two roots for one version",
                    _ => "A home was restored from a backup, or copied",
                };
                Finding::new("alarm", Severity::Attention, sentence)
                    .safe("all that was said is kept")
                    .next(format!("docs/operations.md, {section:?}"))
            })
            .collect())
    }

    pub(super) fn check_recovery(&self) -> Result<Option<Finding>, ApiError> {
        if self.is_blind()? {
            return Ok(None);
        }
        let info = self.recovery_info(&self.read()?)?;
        let age_ms = info.checkpoint_ms.map(|made| self.now_ms().saturating_sub(made));
        Ok(match (info.kits, age_ms) {
            (0, _) => Some(
                Finding::new("no_kit", Severity::Attention, "there is no recovery kit")
                    .safe("what is on the devices is safe as long as one of them is")
                    .next("sovm recovery kit > page.txt, and keep the page somewhere else"),
            ),
            (_, Some(age_ms)) if age_ms > OLD_CHECKPOINT_MS => Some(
                Finding::new(
                    "old_checkpoint",
                    Severity::Attention,
                    format!("the newest checkpoint is {} old", format_duration_ms(age_ms)),
                )
                .safe("a recovery gives the state of that time")
                .next("sovm recovery checkpoint, then sovm drill"),
            ),
            _ => None,
        })
    }

    pub(super) fn check_key_file(&self) -> Option<Finding> {
        let from_variable = std::env::var_os("SOVM_KEY_FILE").map(std::path::PathBuf::from);
        let path = from_variable.or_else(|| self.config.key_file.clone())?;
        let path = path.canonicalize().unwrap_or(path);
        let home = self.home.path().canonicalize().ok()?;
        path.starts_with(&home).then(|| {
            Finding::new(
                "key_file",
                Severity::Note,
                "the key file lies in the home it opens, where it protects nothing",
            )
            .safe("nothing is lost; a thief of this disk reads everything")
            .next("move it to another disk, and name it in config.toml or SOVM_KEY_FILE")
        })
    }
}
