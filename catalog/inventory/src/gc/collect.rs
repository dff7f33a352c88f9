//! Deleting what a plan names.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    path::{Path, PathBuf},
};

use async_trait::async_trait;

use super::{Deletion, GcRefused, Plan, ProductFiles, Why, plan};
use crate::{
    doc::{Instant, JsonObject},
    store::{InventoryStore, StoreError, StorePath},
    transition::Retention,
    verify::{blocking, io_error},
};

/// INV-415: where each deletion is written down before it happens.
#[async_trait]
pub trait DeletionLog: Send {
    /// Adds a line, durably.
    async fn append(&mut self, at: Instant, deletion: &Deletion) -> Result<(), StoreError>;
}

/// A log in a file, one JSON object a line: `at`, `path`, `size`, `rule`, `why`.
#[derive(Debug)]
pub struct JsonLinesLog {
    path: PathBuf,
}

impl JsonLinesLog {
    /// A log that adds to this file, which must not lie in the catalogue.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

#[async_trait]
impl DeletionLog for JsonLinesLog {
    async fn append(&mut self, at: Instant, deletion: &Deletion) -> Result<(), StoreError> {
        let mut line = JsonObject::new();
        line.insert("at", at.to_string());
        line.insert("path", deletion.path());
        line.insert("size", deletion.size());
        line.insert("rule", format!("INV-{}", deletion.why().rule()));
        line.insert("why", deletion.why().to_string());
        let line = format!("{}\n", crate::doc::Json::Object(line).to_text());
        let path = self.path.clone();
        blocking(move || write_line(&path, &line)).await
    }
}

fn write_line(path: &Path, line: &str) -> Result<(), StoreError> {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes()).and_then(|()| file.sync_data()))
        .map_err(|error| io_error("logging to", path, error))
}

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// What was deleted.
    pub deleted: Vec<Deletion>,
    /// INV-415: forecast by the dry run and not deleted, because it may not be deleted any more. Worth an alert.
    pub spared: Vec<Deletion>,
    /// INV-415: may be deleted now and was not forecast; left for the next run. Worth an alert when it is much.
    pub unforeseen: Vec<Deletion>,
    /// The plan that was made under the lock.
    pub plan: Plan,
}

impl Collected {
    /// Whether the run deviated from its forecast.
    pub fn deviates(&self) -> bool {
        !self.spared.is_empty() || !self.unforeseen.is_empty()
    }
}

/// Deletes what `forecast` names and a plan made now, under the catalogue's lock, names too.
///
/// The lock keeps out every writer, so no edition is reinstated between the decision and the deletion.
pub async fn collect(
    store: &dyn InventoryStore,
    files: &dyn ProductFiles,
    retention: &Retention,
    now: Instant,
    forecast: &Plan,
    log: &mut dyn DeletionLog,
) -> Result<Collected, GcRefused> {
    let _lock = store.lock().await?;
    let plan = plan(store, files, retention, now).await?;
    let foreseen: BTreeSet<&str> = forecast.deletions.iter().map(Deletion::path).collect();
    let allowed: BTreeMap<&str, &Deletion> = plan
        .deletions
        .iter()
        .map(|deletion| (deletion.path(), deletion))
        .collect();
    let spared = forecast
        .deletions
        .iter()
        .filter(|deletion| !allowed.contains_key(deletion.path()));
    let spared = spared.cloned().collect();
    let (deleted, unforeseen): (Vec<Deletion>, Vec<Deletion>) = plan
        .deletions
        .iter()
        .cloned()
        .partition(|deletion| foreseen.contains(deletion.path()));
    for deletion in &deleted {
        log.append(now, deletion).await?;
        match deletion.why() {
            Why::Folded { .. } => store.delete(&StorePath::parse(deletion.path())?).await?,
            Why::Retired { .. } | Why::Unlisted { .. } => files.delete_file(deletion.path()).await?,
        }
    }
    Ok(Collected {
        deleted,
        spared,
        unforeseen,
        plan,
    })
}
