//! Deleting the bytes of one edition at once.

use sovm_inventory::{
    doc::{ExpungedFile, SharedFile, layout},
    expunge::{Order, expunge, plan, record_of},
    transition::EditionKey,
    writer::{Clock as _, SystemClock},
};
use sovm_mesh::net::steps::reached;

use super::{Address, Author, Catalogue, errors};
use crate::{
    api::{ExpungeStages, ExpungedFileInfo, InventoryExpungeReport, SharedFileInfo},
    error::{ApiError, ErrorKind},
};

/// Copies that nobody here can know of.
const OF_A_DIRECTORY: &str =
    "every backup and snapshot of the directory and of the disk it lies on, made since the edition was sealed";
const OF_A_BUCKET: &str =
    "every older version of these objects, where the bucket keeps versions, and every replica and backup of the bucket";
const EXPORTED: &str = "every directory made with sovm inventory export or sovm edition copy since then";

impl Catalogue {
    /// INV-412: deletes what only this edition lists, after a record of it; a dry run says what that is.
    pub(crate) async fn expunge(
        &self,
        author: Author,
        edition: EditionKey,
        dry_run: bool,
        only_writer: bool,
    ) -> Result<InventoryExpungeReport, ApiError> {
        let (bytes, record) = (
            self.data.bytes(),
            layout::expunged(&edition.product_id, &edition.edition_id),
        );
        let failed = |error| errors::unexpunged(&error, &self.shown);
        let copies = match &self.shown {
            Address::Bucket(_) => OF_A_BUCKET,
            Address::Own | Address::Directory(_) => OF_A_DIRECTORY,
        };
        let mut report = InventoryExpungeReport {
            store: self.shown.to_string(),
            product_id: edition.product_id.to_string(),
            edition_id: edition.edition_id.to_string(),
            dry_run,
            record,
            scrub: vec![copies.to_owned(), EXPORTED.to_owned()],
            ..InventoryExpungeReport::default()
        };
        if dry_run {
            let forecast = plan(&*self.store, &*bytes, &edition)
                .await
                .map_err(|error| errors::unlooked(&error, &self.shown))?;
            report.state = forecast.status.map(|status| status.to_string());
            report.resumed = forecast.earlier.is_some();
            report.fill(&forecast.removed, &forecast.stays);
            return Ok(report);
        }
        if author.reason.trim().is_empty() {
            return Err(ApiError::new(
                ErrorKind::Usage,
                format!("INV-412: the record of an expunge says why, and no reason was given for {edition}"),
            )
            .safe("nothing was deleted")
            .next("run it again with --reason TEXT"));
        }
        if !only_writer {
            self.check_one_writer("inventory expunge --dry-run", "inventory expunge --yes")?;
        }
        let order = Order {
            edition,
            actor: author.actor,
            reason: author.reason,
            now: SystemClock.now(),
        };
        let done = expunge(&*self.store, &*bytes, &order, &reached).await.map_err(failed)?;
        report.state = done.status.map(|status| status.to_string());
        report.resumed = done.resumed;
        report.fill(&done.record.removed, &done.record.stays);
        report.begun_at = Some(done.record.begun_at.to_string());
        report.completed_at = done.record.completed_at.map(|at| at.to_string());
        report.actor = Some(done.record.actor.to_string());
        report.reason = Some(done.record.reason);
        report.stages = ExpungeStages {
            applied: true,
            bytes_removed: report.removed.len() as u64,
            ..ExpungeStages::default()
        };
        Ok(report)
    }

    /// When an edition was expunged, and by whom; none for one that was not.
    pub(super) async fn expunged(&self, edition: &EditionKey) -> Result<Option<String>, ApiError> {
        let record = record_of(&*self.store, edition).await;
        let record = record.map_err(|error| errors::unlooked(&error, &self.shown))?;
        Ok(record.map(|record| format!("it was expunged at {} by {}", record.begun_at, record.actor)))
    }

    /// INV-412: what was expunged does not come back.
    pub(super) async fn check_not_expunged(&self, edition: &EditionKey) -> Result<(), ApiError> {
        match self.expunged(edition).await? {
            None => Ok(()),
            Some(how) => Err(ApiError::new(
                ErrorKind::Refused,
                format!("INV-412: {edition} does not come back: {how}"),
            )
            .safe("no version was written; the catalogue is as it was")
            .next("seal what may be shown as a new edition: sovm edition build")),
        }
    }
}

impl InventoryExpungeReport {
    fn fill(&mut self, removed: &[ExpungedFile], stays: &[SharedFile]) {
        self.bytes = removed.iter().map(|file| file.size).sum();
        self.removed = removed
            .iter()
            .map(|file| ExpungedFileInfo {
                path: file.path.clone(),
                bytes: file.size,
                sha256: file.sha256.map(|sha256| sha256.to_string()),
                object: file.blake3.clone(),
            })
            .collect();
        self.stays = stays
            .iter()
            .map(|file| SharedFileInfo {
                path: file.path.clone(),
                bytes: file.size,
                listed_by: file.listed_by.iter().map(ToString::to_string).collect(),
            })
            .collect();
    }
}
