//! One answer a request, with a stable JSON form: ids are full hex, times are milliseconds since 1970 (`…_ms`), sizes are
//! bytes (`…_bytes`). Fields are only ever added within one format version.

mod bench;
mod editions;
mod expunge;
mod inventory;
mod keep;
mod members;
mod node;
mod objects;
mod recovery;
mod tables;

use serde::{Deserialize, Serialize};

use super::FORMAT_VERSION;

pub use self::{
    bench::*, editions::*, expunge::*, inventory::*, keep::*, members::*, node::*, objects::*, recovery::*, tables::*,
};

/// The answer to a [`Request`](super::Request).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Response {
    /// `init`
    Init(InitReport),
    /// `status`
    Status(StatusReport),
    /// `mesh create`
    MeshCreate(MeshInfo),
    /// `mesh members`
    MeshMembers(MembersReport),
    /// `mesh remove`
    MeshRemove(RemoveReport),
    /// `invite`
    Invite(InviteReport),
    /// `invite list`
    InviteList(InviteListReport),
    /// `invite revoke`
    InviteRevoke(InviteRevokeReport),
    /// `invite wait`
    InviteWait(InviteWaitReport),
    /// `invite confirm`
    InviteConfirm(InviteConfirmReport),
    /// `join`
    Join(JoinReport),
    /// `domain list`
    DomainList(DomainListReport),
    /// `domain create`
    DomainCreate(DomainInfo),
    /// `table create`
    TableCreate(TableInfo),
    /// `table list`
    TableList(TableListReport),
    /// `table describe`
    TableDescribe(TableInfo),
    /// `table add-column`, `drop-column`, `rename-column`, `widen-column`
    TableAlter(TableInfo),
    /// `ingest`
    Ingest(IngestReport),
    /// `sql`
    Sql(SqlReport),
    /// `object list`
    ObjectList(ObjectListReport),
    /// `object show`
    ObjectShow(Box<ObjectReport>),
    /// `object show --raw`
    ObjectRaw(ObjectRawReport),
    /// `object put`
    ObjectPut(PutReport),
    /// `object get`
    ObjectGet(GetReport),
    /// `object verify`
    ObjectVerify(VerifyReport),
    /// `gc`
    Gc(GcReport),
    /// `doctor`
    Doctor(DoctorReport),
    /// `object hexdump`
    ObjectHexdump(HexdumpReport),
    /// `object key`
    ObjectKey(ObjectKeyReport),
    /// `recovery kit`
    RecoveryKit(KitReport),
    /// `recovery checkpoint`
    RecoveryCheckpoint(CheckpointReport),
    /// `recover`
    Recover(RecoverReport),
    /// `drill`
    Drill(DrillReport),
    /// `sync`
    Sync(SyncReport),
    /// `demo`
    Demo(DemoReport),
    /// `bench`
    Bench(Box<BenchReport>),
    /// `product list`
    ProductList(ProductListReport),
    /// `edition build`
    EditionBuild(EditionBuildReport),
    /// `edition seal`
    EditionSeal(Box<EditionSealReport>),
    /// `edition list`
    EditionList(EditionListReport),
    /// `edition discard`
    EditionDiscard(EditionDiscardReport),
    /// `edition check`
    EditionCheck(EditionCheckReport),
    /// `edition copy`
    EditionCopy(EditionCopyReport),
    /// `bench --inventory`
    BenchInventory(Box<BenchInventoryReport>),
    /// `edition fingerprint`
    EditionFingerprint(EditionFingerprintReport),
    /// `inventory list`
    CatalogueList(CatalogueListReport),
    /// `inventory audience`
    Audience(AudienceReport),
    /// `inventory prefetch`
    Prefetch(PrefetchReport),
    /// `inventory init`
    InventoryInit(InventoryInitReport),
    /// `inventory log`
    InventoryLog(InventoryLogReport),
    /// `inventory show`
    InventoryShow(Box<InventoryShowReport>),
    /// `inventory release` and every other command that writes a version
    InventoryChange(Box<InventoryChangeReport>),
    /// `inventory verify`
    InventoryVerify(InventoryVerifyReport),
    /// `inventory export`
    InventoryExport(InventoryExportReport),
    /// `inventory gc`
    InventoryGc(InventoryGcReport),
    /// `inventory expunge`
    InventoryExpunge(Box<InventoryExpungeReport>),
    /// `inventory retention`
    InventoryRetention(InventoryRetentionReport),
}

impl Response {
    /// The object printed with `--json`: the fields of the report, and beside them `format_version`, what needs
    /// `attention`, and the `error` when the report itself says that something did not hold.
    pub fn to_json(&self) -> Result<serde_json::Value, serde_json::Error> {
        let mut value = serde_json::to_value(self)?;
        if let Some(object) = value.as_object_mut() {
            object.insert("format_version".to_owned(), FORMAT_VERSION.into());
            object.insert("attention".to_owned(), self.attention().into());
            if let Some(error) = self.failure() {
                object.insert("error".to_owned(), serde_json::to_value(error)?);
            }
        }
        Ok(value)
    }

    /// What is pending, quarantined or unproven although the command succeeded: `--strict` turns it into exit code 20.
    pub fn attention(&self) -> Vec<String> {
        match self {
            Self::Status(report) => report.objects.attention(),
            Self::Sync(report) => report.objects.attention(),
            Self::Join(report) => report.objects.attention(),
            Self::Recover(report) => report.objects.attention(),
            Self::Sql(SqlReport {
                coverage: Some(coverage),
                ..
            }) if !coverage.missing.is_empty() => {
                vec![format!(
                    "{} of the objects this query needs are not here",
                    coverage.missing.len()
                )]
            }
            Self::ObjectList(report) => report
                .objects
                .iter()
                .filter(|object| {
                    !matches!(
                        object.state,
                        ObjectState::Queryable | ObjectState::Held | ObjectState::Expunged
                    )
                })
                .map(|object| format!("{} is {}", object.storage_id, object.state.word()))
                .collect(),
            Self::Ingest(report) if report.bad_rows > 0 => vec![format!("{} bad rows were left out", report.bad_rows)],
            Self::Doctor(report) => report.attention(),
            Self::Drill(report) if report.missing > 0 => {
                vec![format!("{} objects are missing from what was restored", report.missing)]
            }
            Self::CatalogueList(report) => report.attention(),
            Self::InventoryLog(report) => report.findings.clone(),
            Self::InventoryShow(report) => report.findings.clone(),
            Self::InventoryChange(report) => report.attention(),
            Self::EditionSeal(report) => report.attention(),
            Self::InventoryVerify(report) => report.attention(),
            Self::InventoryGc(report) => report.attention(),
            Self::InventoryExpunge(report) => report.attention(),
            _ => Vec::new(),
        }
    }

    /// Why the command failed although it has a report to show: a drill that did not prove, a verification with findings.
    pub fn failure(&self) -> Option<crate::api::ApiError> {
        use crate::api::{ApiError, ErrorKind};
        match self {
            Self::ObjectVerify(report) if report.objects.iter().any(|object| !object.findings.is_empty()) => Some(
                ApiError::new(ErrorKind::Integrity, "some objects do not verify")
                    .safe("no row of a damaged object is given out")
                    .next("sovm run fetches intact copies; sovm doctor says what else is wrong"),
            ),
            Self::Doctor(report) => report.failure(),
            Self::Drill(report) if !report.proven => Some(
                ApiError::new(ErrorKind::Failed, "the drill did not prove that recovery works")
                    .safe("the drill ran in a temporary home; this node was not changed")
                    .next("sovm recovery checkpoint, then sovm drill again"),
            ),
            Self::Demo(report) if report.steps.iter().any(|step| !step.held) => {
                Some(ApiError::new(ErrorKind::Failed, "a step of the demo did not hold"))
            }
            Self::EditionCheck(report) => report.failure(),
            Self::EditionFingerprint(report) => report.failure(),
            Self::EditionSeal(report) => report.failure(),
            Self::InventoryLog(report) => report.failure(),
            Self::InventoryChange(report) => report.failure(),
            Self::InventoryVerify(report) => report.failure(),
            _ => None,
        }
    }
}
