//! Deleting what no edition needs any more.

use std::path::PathBuf;

use sovm_inventory::{
    gc::{Deletion, JsonLinesLog, collect, plan},
    store::LockReach,
    writer::{Clock as _, SystemClock},
};

use super::{Catalogue, errors, retention::retention};
use crate::{
    api::{DeletedFile, InventoryGcReport},
    error::{ApiError, ErrorKind},
};

impl Catalogue {
    /// INV-413, INV-415: lists what may be deleted; with a log deletes it, each file after its line in the log.
    ///
    /// Between the decision and the deletion nobody may bring an edition back. A directory's lock sees to that; where there
    /// is no lock for every writer, whoever asks for the deletion must say so.
    pub(crate) async fn collect_garbage(
        &self,
        log: Option<PathBuf>,
        only_writer: bool,
    ) -> Result<InventoryGcReport, ApiError> {
        let Some(files) = self.data.files() else {
            return Err(ApiError::new(
                ErrorKind::Refused,
                format!("{} keeps no files under their own names", self.shown),
            )
            .safe("nothing was deleted")
            .next("sovm gc deletes what this node needs no more"));
        };
        if let (Some(log), Some(root)) = (&log, self.data.directory()) {
            outside(log, root)?;
        }
        if log.is_some() && !only_writer {
            self.check_one_writer("inventory gc --dry-run", "inventory gc --log FILE")?;
        }
        let head = self.head().await?.head;
        let retention = retention(&head.root().extensions, None)
            .map_err(|error| errors::windows(&error, &self.shown).safe("nothing was deleted"))?;
        let now = SystemClock.now();
        let failed = |error| errors::uncollected(&error, &self.shown);
        let forecast = plan(&*self.store, &*files, &retention, now).await.map_err(failed)?;
        let mut report = InventoryGcReport {
            store: self.shown.to_string(),
            dry_run: log.is_none(),
            bytes: forecast.bytes(),
            deleted: forecast.deletions.iter().map(deleted).collect(),
            kept: forecast.kept.iter().map(ToString::to_string).collect(),
            ..InventoryGcReport::default()
        };
        let Some(log) = log else {
            return Ok(report);
        };
        report.log = Some(log.display().to_string());
        let mut lines = JsonLinesLog::new(log);
        let collected = collect(&*self.store, &*files, &retention, now, &forecast, &mut lines).await;
        let collected = collected.map_err(failed)?;
        report.bytes = collected.deleted.iter().map(Deletion::size).sum();
        report.deleted = collected.deleted.iter().map(deleted).collect();
        report.kept = collected.plan.kept.iter().map(ToString::to_string).collect();
        report.spared = collected.spared.iter().map(|spared| spared.path().to_owned()).collect();
        Ok(report)
    }
}

impl Catalogue {
    /// Refuses a deletion where another machine may write at the same time and no lock keeps it out.
    pub(super) fn check_one_writer(&self, lists: &str, deletes: &str) -> Result<(), ApiError> {
        if self.store.lock_reach() == LockReach::EveryWriter {
            return Ok(());
        }
        Err(ApiError::new(
            ErrorKind::Refused,
            format!(
                "{} has no lock, so another machine could bring an edition back whose files are about to be deleted",
                self.shown
            ),
        )
        .safe("nothing was deleted")
        .next(format!(
            "sovm {lists}{at} lists the files; sovm {deletes} --only-writer{at} deletes them, once nobody else writes there",
            at = self.shown.option()
        )))
    }
}

fn deleted(deletion: &Deletion) -> DeletedFile {
    DeletedFile {
        path: deletion.path().to_owned(),
        bytes: deletion.size(),
        rule: deletion.why().rule(),
        why: deletion.why().to_string(),
    }
}

/// INV-415: the log outlives what it is about, so it lies elsewhere.
fn outside(log: &std::path::Path, root: &std::path::Path) -> Result<(), ApiError> {
    let folder = match log.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => std::path::Path::new("."),
    };
    let real = |path: &std::path::Path| {
        path.canonicalize()
            .map_err(|error| ApiError::io(format!("opening {}", path.display()), &error).safe("nothing was deleted"))
    };
    if real(folder)?.starts_with(real(root)?) {
        return Err(ApiError::new(
            ErrorKind::Refused,
            format!(
                "the deletion log {} would lie inside the catalogue (INV-415)",
                log.display()
            ),
        )
        .safe("nothing was deleted")
        .next("name a file outside of it with --log FILE"));
    }
    Ok(())
}
