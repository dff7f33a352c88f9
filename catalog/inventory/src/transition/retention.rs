//! How long things are kept, as one configuration whose windows were compared with each other.
//!
//! Every window protects another one. A backup may bring back an edition for as long as backups are kept, so data files must
//! outlive backups and the memory that an edition was retired must outlive both. [`Retention`] exists only for windows that
//! satisfy all of this, so garbage collection, pruning and expiry take a [`Retention`] and have nothing left to check.

use std::{fmt, time::Duration};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Windows as an operator wrote them, not yet compared with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionSettings {
    /// How long the oldest backup is kept.
    pub backup: Duration,
    /// How long a data file that no recorded edition lists is kept.
    pub data: Duration,
    /// How long a retired edition's tombstone is honoured.
    pub tombstone: Duration,
    /// How long a superseded or withdrawn edition stays recorded before pruning may retire it.
    pub edition: Duration,
    /// How long an Inventory version is kept after the next one superseded it.
    pub versions: Duration,
    /// How many of the newest Inventory versions are kept whatever their age.
    pub newest_versions: u32,
    /// The longest time between two polls of any reader.
    pub longest_poll: Duration,
    /// The longest time a reader takes to fetch what a poll announced.
    pub longest_fetch: Duration,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self {
            backup: 30 * DAY,
            data: 35 * DAY,
            tombstone: 400 * DAY,
            edition: 90 * DAY,
            versions: 60 * DAY,
            newest_versions: 10,
            longest_poll: Duration::from_secs(60 * 60),
            longest_fetch: DAY,
        }
    }
}

/// Windows that satisfy every inequality between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention(RetentionSettings);

impl Retention {
    /// Compares the windows with each other and reports every inequality that fails, not only the first.
    pub fn new(settings: RetentionSettings) -> Result<Self, RetentionRefused> {
        let mut violations = Vec::new();
        if settings.backup > settings.data {
            violations.push(RetentionViolation::BackupOutlivesData {
                backup: settings.backup,
                data: settings.data,
            });
        }
        if settings.data > settings.tombstone {
            violations.push(RetentionViolation::DataOutlivesTombstones {
                data: settings.data,
                tombstone: settings.tombstone,
            });
        }
        // Saturating: a window too long to add a day to is longer than any other and fails by comparison, not by a panic.
        if settings.versions < settings.data.saturating_add(DAY) {
            violations.push(RetentionViolation::VersionsTooShort {
                versions: settings.versions,
                data: settings.data,
            });
        }
        let reader = settings.longest_poll.saturating_add(settings.longest_fetch);
        if reader >= settings.versions {
            violations.push(RetentionViolation::ReadersTooSlow {
                reader,
                versions: settings.versions,
            });
        }
        if settings.newest_versions < 2 {
            violations.push(RetentionViolation::TooFewVersions {
                kept: settings.newest_versions,
            });
        }
        if violations.is_empty() {
            Ok(Self(settings))
        } else {
            Err(RetentionRefused { violations })
        }
    }

    /// How long the oldest backup is kept.
    pub fn backup(&self) -> Duration {
        self.0.backup
    }

    /// How long a data file that no recorded edition lists is kept.
    pub fn data(&self) -> Duration {
        self.0.data
    }

    /// How long a retired edition's tombstone is honoured.
    pub fn tombstone(&self) -> Duration {
        self.0.tombstone
    }

    /// How long a superseded or withdrawn edition stays recorded.
    pub fn edition(&self) -> Duration {
        self.0.edition
    }

    /// How long an Inventory version is kept after the next one superseded it.
    pub fn versions(&self) -> Duration {
        self.0.versions
    }

    /// How many of the newest Inventory versions are kept whatever their age.
    pub fn newest_versions(&self) -> u32 {
        self.0.newest_versions
    }
}

/// Retention windows contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionRefused {
    /// Each inequality that fails.
    pub violations: Vec<RetentionViolation>,
}

impl fmt::Display for RetentionRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("retention windows contradict each other")?;
        for violation in &self.violations {
            write!(f, "; {violation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RetentionRefused {}

/// One inequality between retention windows that fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetentionViolation {
    /// A restored backup could name data files that were already deleted.
    #[error("INV-418: backups are kept {backup:?}, longer than unlisted data files ({data:?})")]
    BackupOutlivesData {
        /// Backup retention.
        backup: Duration,
        /// Data file window.
        data: Duration,
    },
    /// Data of a retired edition could lie around after its tombstone is forgotten.
    #[error("INV-418: unlisted data files are kept {data:?}, longer than tombstones ({tombstone:?})")]
    DataOutlivesTombstones {
        /// Data file window.
        data: Duration,
        /// Tombstone window.
        tombstone: Duration,
    },
    /// Garbage collection could meet a file whose last version it cannot read any more.
    #[error("INV-419: versions are kept {versions:?}, less than the data window ({data:?}) and one day")]
    VersionsTooShort {
        /// Version window.
        versions: Duration,
        /// Data file window.
        data: Duration,
    },
    /// A version could expire between a reader's poll and the end of its fetch.
    #[error("INV-419: a reader takes up to {reader:?} from poll to fetched, versions are kept only {versions:?}")]
    ReadersTooSlow {
        /// Longest poll and longest fetch together.
        reader: Duration,
        /// Version window.
        versions: Duration,
    },
    /// The head and the version before it must always be there.
    #[error("INV-419: the newest {kept} versions are kept, at least 2 are needed")]
    TooFewVersions {
        /// The configured count.
        kept: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(change: impl FnOnce(&mut RetentionSettings)) -> Vec<RetentionViolation> {
        let mut settings = RetentionSettings::default();
        change(&mut settings);
        Retention::new(settings)
            .expect_err("the changed window contradicts another")
            .violations
    }

    /// INV-418: equal windows are in order; INV-419: exactly one day more is enough.
    #[test]
    fn windows_in_order_are_accepted() {
        assert!(Retention::new(RetentionSettings::default()).is_ok());
        let tight = RetentionSettings {
            backup: 10 * DAY,
            data: 10 * DAY,
            tombstone: 10 * DAY,
            versions: 11 * DAY,
            newest_versions: 2,
            longest_poll: DAY,
            longest_fetch: 10 * DAY - Duration::from_secs(1),
            ..RetentionSettings::default()
        };
        assert!(Retention::new(tight).is_ok());
    }

    /// INV-418: backups may not outlive the data files they name.
    #[test]
    fn a_backup_that_outlives_data_is_refused() {
        let found = violations(|settings| settings.backup = settings.data + Duration::from_secs(1));
        assert!(
            matches!(found[..], [RetentionViolation::BackupOutlivesData { .. }]),
            "{found:?}"
        );
    }

    /// INV-418: data files may not outlive the memory that their edition was retired.
    #[test]
    fn data_that_outlives_tombstones_is_refused() {
        let found = violations(|settings| settings.tombstone = settings.data - Duration::from_secs(1));
        assert!(
            matches!(found[..], [RetentionViolation::DataOutlivesTombstones { .. }]),
            "{found:?}"
        );
    }

    /// INV-419: versions are kept at least one day longer than data files.
    #[test]
    fn a_version_window_short_of_the_day_is_refused() {
        let found = violations(|settings| settings.versions = settings.data + DAY - Duration::from_secs(1));
        assert!(
            matches!(found[..], [RetentionViolation::VersionsTooShort { .. }]),
            "{found:?}"
        );
    }

    /// INV-419: poll and fetch together stay strictly below the version window.
    #[test]
    fn readers_as_slow_as_the_version_window_are_refused() {
        let found = violations(|settings| settings.longest_poll = settings.versions - settings.longest_fetch);
        assert!(
            matches!(found[..], [RetentionViolation::ReadersTooSlow { .. }]),
            "{found:?}"
        );
        let found = violations(|settings| settings.longest_poll = Duration::MAX);
        assert!(
            matches!(found[..], [RetentionViolation::ReadersTooSlow { .. }]),
            "{found:?}"
        );
    }

    /// INV-419: the head and its base are never both at risk.
    #[test]
    fn fewer_than_two_versions_are_refused() {
        for kept in [0, 1] {
            let found = violations(|settings| settings.newest_versions = kept);
            assert_eq!(found, [RetentionViolation::TooFewVersions { kept }]);
        }
    }

    /// INV-418, INV-419: every failing inequality is named, so that an operator mends them in one go.
    #[test]
    fn all_contradictions_are_reported_together() {
        let found = Retention::new(RetentionSettings {
            backup: 3 * DAY,
            data: 2 * DAY,
            tombstone: DAY,
            versions: Duration::MAX,
            newest_versions: 0,
            ..RetentionSettings::default()
        })
        .expect_err("three windows are wrong");
        assert_eq!(found.violations.len(), 3, "{found}");
        let text = found.to_string();
        assert!(text.contains("INV-418") && text.contains("INV-419"), "{text}");
    }
}
