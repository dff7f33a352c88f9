//! How long a catalogue keeps things: one configuration, in the `sovm` section of its newest version (INV-418, INV-419).
//!
//! It is changed as everything else is, by a version that says who and why, so that it is known later which windows a deletion
//! went by. `catalog.json` is rewritten for an epoch and an opt-in only (INV-131), and a live-only export carries no section of
//! this program.

use std::time::Duration;

use sovm_inventory::{
    doc::{Json, JsonObject},
    section,
    transition::{Retention, RetentionRefused, RetentionSettings},
};

use super::{Catalogue, errors};
use crate::{api::InventoryRetentionReport, error::ApiError};

const RETENTION: &str = "retention";

/// Windows to set; what is none stays as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct WindowsChange {
    pub(crate) backup: Option<Duration>,
    pub(crate) data: Option<Duration>,
    pub(crate) tombstone: Option<Duration>,
    pub(crate) edition: Option<Duration>,
    pub(crate) versions: Option<Duration>,
    pub(crate) newest_versions: Option<u32>,
    pub(crate) longest_poll: Option<Duration>,
    pub(crate) longest_fetch: Option<Duration>,
}

impl WindowsChange {
    /// The windows with this change.
    fn applied_to(&self, before: RetentionSettings) -> RetentionSettings {
        RetentionSettings {
            backup: self.backup.unwrap_or(before.backup),
            data: self.data.unwrap_or(before.data),
            tombstone: self.tombstone.unwrap_or(before.tombstone),
            edition: self.edition.unwrap_or(before.edition),
            versions: self.versions.unwrap_or(before.versions),
            newest_versions: self.newest_versions.unwrap_or(before.newest_versions),
            longest_poll: self.longest_poll.unwrap_or(before.longest_poll),
            longest_fetch: self.longest_fetch.unwrap_or(before.longest_fetch),
        }
    }
}

/// Why a catalogue's windows are no configuration to go by.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WindowsRefused {
    /// They contradict each other.
    #[error(transparent)]
    Contradiction(#[from] RetentionRefused),
    /// One can't be read.
    #[error("INV-418: the catalogue's window {name} is {found}, which is no number of seconds")]
    Unreadable {
        /// Which.
        name: &'static str,
        /// What stands there.
        found: String,
    },
}

/// The windows a version's extensions say; what they don't say is as by default.
fn settings(extensions: &JsonObject) -> Result<RetentionSettings, WindowsRefused> {
    let defaults = RetentionSettings::default();
    let Some(Json::Object(said)) = section::of(extensions).and_then(|section| section.get(RETENTION)) else {
        return Ok(defaults);
    };
    let number = |name: &'static str| match said.get(name) {
        None => Ok(None),
        Some(Json::Number(number)) if number.as_u64().is_some() => Ok(number.as_u64()),
        Some(other) => Err(WindowsRefused::Unreadable {
            name,
            found: other.to_text(),
        }),
    };
    let window = |name, default: Duration| Ok::<_, WindowsRefused>(number(name)?.map_or(default, Duration::from_secs));
    let newest = number("newest_versions")?.map(u32::try_from);
    Ok(RetentionSettings {
        backup: window("backup_secs", defaults.backup)?,
        data: window("data_secs", defaults.data)?,
        tombstone: window("tombstone_secs", defaults.tombstone)?,
        edition: window("edition_secs", defaults.edition)?,
        versions: window("versions_secs", defaults.versions)?,
        newest_versions: newest.map_or(defaults.newest_versions, |count| count.unwrap_or(u32::MAX)),
        longest_poll: window("longest_poll_secs", defaults.longest_poll)?,
        longest_fetch: window("longest_fetch_secs", defaults.longest_fetch)?,
    })
}

/// The windows to go by; superseded and withdrawn editions are kept for as long as a command says, where it says anything.
pub(super) fn retention(extensions: &JsonObject, edition: Option<Duration>) -> Result<Retention, WindowsRefused> {
    let settings = settings(extensions)?;
    let edition = edition.unwrap_or(settings.edition);
    Ok(Retention::new(RetentionSettings { edition, ..settings })?)
}

/// The same extensions with other windows; none when they are these already. Windows that contradict each other are refused
/// before anything is written.
pub(super) fn with_windows(
    mut extensions: JsonObject,
    change: &WindowsChange,
) -> Result<Option<JsonObject>, WindowsRefused> {
    // Where one can't be read, all that is not set now is as by default: that mends it.
    let before = settings(&extensions).ok();
    let after = change.applied_to(before.clone().unwrap_or_default());
    Retention::new(after.clone())?;
    if before.as_ref() == Some(&after) {
        return Ok(None);
    }
    // A window that a newer build wrote beside these is kept.
    let mut said = match section::of(&extensions).and_then(|section| section.get(RETENTION)) {
        Some(Json::Object(said)) => said.clone(),
        _ => JsonObject::new(),
    };
    let windows = [
        ("backup_secs", after.backup),
        ("data_secs", after.data),
        ("tombstone_secs", after.tombstone),
        ("edition_secs", after.edition),
        ("versions_secs", after.versions),
        ("longest_poll_secs", after.longest_poll),
        ("longest_fetch_secs", after.longest_fetch),
    ];
    for (name, window) in windows {
        said.insert(name, window.as_secs());
    }
    said.insert("newest_versions", u64::from(after.newest_versions));
    section::change(&mut extensions, |section| section.insert(RETENTION, said));
    Ok(Some(extensions))
}

impl Catalogue {
    /// The windows this catalogue goes by.
    pub(crate) async fn retention_shown(&self) -> Result<InventoryRetentionReport, ApiError> {
        let head = self.head().await?.head;
        let extensions = &head.root().extensions;
        let shown = settings(extensions).map_err(|error| errors::windows(&error, &self.shown))?;
        Ok(InventoryRetentionReport {
            store: self.shown.to_string(),
            seq: head.root().seq.get(),
            configured: section::of(extensions).is_some_and(|section| section.get(RETENTION).is_some()),
            backup_secs: shown.backup.as_secs(),
            data_secs: shown.data.as_secs(),
            tombstone_secs: shown.tombstone.as_secs(),
            edition_secs: shown.edition.as_secs(),
            versions_secs: shown.versions.as_secs(),
            newest_versions: shown.newest_versions,
            longest_poll_secs: shown.longest_poll.as_secs(),
            longest_fetch_secs: shown.longest_fetch.as_secs(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// INV-418: what is set is what a version says afterwards; what was not set stays, and so does what is not ours.
    #[test]
    fn windows_are_kept_in_the_section() {
        let mut extensions = JsonObject::new();
        section::change(&mut extensions, |section| section.insert("authority", "somebody"));
        let change = WindowsChange {
            backup: Some(20 * DAY),
            newest_versions: Some(5),
            ..WindowsChange::default()
        };
        let extensions = with_windows(extensions, &change).unwrap().unwrap();
        assert!(section::of(&extensions).unwrap().get("authority").is_some());
        let expected = RetentionSettings {
            backup: 20 * DAY,
            newest_versions: 5,
            ..RetentionSettings::default()
        };
        assert_eq!(settings(&extensions).unwrap(), expected);
        assert!(with_windows(extensions, &change).unwrap().is_none(), "nothing to do");
    }

    /// INV-418, INV-419: a contradiction is refused before it is written, and one that stands there is not gone by.
    #[test]
    fn contradictions_are_refused() {
        let change = WindowsChange {
            backup: Some(36 * DAY),
            ..WindowsChange::default()
        };
        let refused = with_windows(JsonObject::new(), &change).unwrap_err().to_string();
        assert!(refused.contains("INV-418"), "{refused}");
        for (name, value, rule) in [
            ("backup_secs", Json::from(u64::MAX), "INV-418"),
            ("versions_secs", Json::from(1_u64), "INV-419"),
            ("data_secs", Json::from("long"), "no number of seconds"),
        ] {
            let (mut said, mut extensions) = (JsonObject::new(), JsonObject::new());
            said.insert(name, value);
            section::change(&mut extensions, |section| section.insert(RETENTION, said));
            let refused = retention(&extensions, None).unwrap_err().to_string();
            assert!(refused.contains(rule), "{name}: {refused}");
        }
    }
}
