//! Requests to answers: the one list of what a node does.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use futures::FutureExt as _;
use sovm_object::record::MeshName;

use super::{
    convert::mesh_info,
    core::{Core, Node},
    source::QueryTables,
};
use crate::{
    api::{DomainInfo, Exchange, MeshInfo, Request, Response, Service, SqlReport, SqlRequest},
    config::Limits,
    error::{ApiError, ErrorKind},
    query,
};

#[async_trait]
impl Service for Node {
    async fn call(&self, request: Request, exchange: Exchange) -> Result<Response, ApiError> {
        let core = &self.0;
        if core.is_blind()? && !fits_blind(&request) {
            return Err(ApiError::new(
                ErrorKind::Refused,
                format!(
                    "this device is a blind replica: `sovm {}` has nothing to work on",
                    request.name()
                ),
            )
            .safe("it keeps what was placed with it")
            .next("run the command on a device that holds keys"));
        }
        Ok(match request {
            Request::Status {} => Response::Status(core.status().await?),
            Request::MeshCreate { name } => Response::MeshCreate(core.name_mesh(&name).await?),
            Request::MeshMembers {} => Response::MeshMembers(core.members()?),
            Request::MeshRemove { site } => Response::MeshRemove(core.remove_member(&site).await?),
            Request::Invite(request) => Response::Invite(core.invite(request).await?),
            Request::InviteList {} => Response::InviteList(core.list_invites()?),
            Request::InviteRevoke { id } => Response::InviteRevoke(core.revoke_invite(&id).await?),
            Request::InviteWait { id, timeout_secs } => {
                Response::InviteWait(core.wait_for_guest(&id, timeout_secs).await?)
            }
            Request::InviteConfirm { id, code, accept } => {
                Response::InviteConfirm(core.confirm_guest(&id, code.as_deref(), accept).await?)
            }
            Request::Join { ticket, yes } => Response::Join(core.join(&ticket, yes, &*exchange.progress).await?),
            Request::DomainList {} => Response::DomainList(core.list_domains()?),
            Request::DomainCreate { name } => Response::DomainCreate(core.create_domain(&name).await?),
            Request::TableCreate(request) => Response::TableCreate(core.create_table(request).await?),
            Request::TableList {} => Response::TableList(core.list_tables()?),
            Request::TableDescribe { table } => Response::TableDescribe(core.describe_table(&table)?),
            Request::TableAlter(request) => Response::TableAlter(core.alter_table(request).await?),
            Request::Ingest(request) => Response::Ingest(core.ingest(request, exchange).await?),
            Request::Sql(request) => Response::Sql(core.sql(request, exchange).await?),
            Request::ObjectList { table } => Response::ObjectList(core.list_objects(table.as_deref()).await?),
            Request::ObjectShow { id } => Response::ObjectShow(Box::new(core.show_object(&id).await?)),
            Request::ObjectRaw { id } => Response::ObjectRaw(core.raw_records(&id).await?),
            Request::ObjectPut(request) => Response::ObjectPut(core.put_files(request, exchange).await?),
            Request::ObjectGet(request) => Response::ObjectGet(core.get_file(request, exchange).await?),
            Request::ObjectVerify { ids } => Response::ObjectVerify(core.verify_objects(&ids).await?),
            Request::Gc(request) => Response::Gc(core.gc(&request).await?),
            Request::Doctor { repair } => Response::Doctor(core.doctor(repair).await?),
            Request::ObjectHexdump { id, offset, length } => {
                Response::ObjectHexdump(core.hexdump(&id, offset, length).await?)
            }
            Request::ObjectKey { id } => Response::ObjectKey(core.object_key(&id).await?),
            Request::RecoveryKit { domain } => Response::RecoveryKit(core.make_kit(domain.as_deref()).await?),
            Request::RecoveryCheckpoint { domain } => {
                Response::RecoveryCheckpoint(core.checkpoint(domain.as_deref()).await?)
            }
            Request::Drill { domain, full } => {
                Response::Drill(core.drill(domain.as_deref(), full, &*exchange.progress).await?)
            }
            Request::Catalogue(request) => core.catalogue(*request, exchange.progress).boxed().await?,
            Request::Sync { wait_secs } => Response::Sync(core.sync_now(wait_secs, &*exchange.progress).await?),
        })
    }

    fn closing(&self) {
        self.0.closing.send_replace(true);
    }

    async fn shutdown(&self) {
        self.0.close().await;
    }
}

/// What a device without keys can still do.
const fn fits_blind(request: &Request) -> bool {
    matches!(
        request,
        Request::Status {}
            | Request::MeshMembers {}
            | Request::ObjectList { .. }
            | Request::ObjectShow { .. }
            | Request::ObjectVerify { .. }
            | Request::ObjectHexdump { .. }
            | Request::Gc(_)
            | Request::Doctor { .. }
            | Request::Sync { .. }
            | Request::Join { .. }
    )
}

impl Core {
    /// `sql`.
    async fn sql(self: &Arc<Self>, request: SqlRequest, exchange: Exchange) -> Result<SqlReport, ApiError> {
        let begun = Instant::now();
        let tables = Arc::new(QueryTables::of(self).await?);
        let memory = request
            .memory
            .or(self.config.limits.query_memory)
            .unwrap_or(Limits::QUERY_MEMORY_BYTES);
        let mut report = query::run(tables, &request, memory, exchange.rows.as_ref()).await?;
        report.elapsed_ms = begun.elapsed().as_millis() as u64;
        Ok(report)
    }

    /// `mesh create`: names the mesh this node is in.
    async fn name_mesh(&self, name: &str) -> Result<MeshInfo, ApiError> {
        check_display_name(name)?;
        self.require_admin(None)?;
        let ops_seen = self.heads(None)?;
        let stamp = self.stamp()?;
        let signed = self.sign(MeshName {
            mesh_id: self.mesh(),
            name: name.to_owned(),
            issuer: self.me,
            seq: stamp.seq,
            ops_seen,
            hlc: stamp.hlc,
        });
        let mut txn = self.catalog.begin()?;
        txn.admit(signed, None, self.now_ms())?;
        self.save(txn)?;
        self.told();
        mesh_info(&self.read()?, self.mesh())
    }

    /// `domain create`.
    async fn create_domain(&self, name: &str) -> Result<DomainInfo, ApiError> {
        check_display_name(name)?;
        let _step = self.step.lock().await;
        let taken = sovm_catalog::Read::domains(&self.read()?)?
            .iter()
            .any(|domain| domain.genesis.name == name);
        if taken {
            return Err(
                ApiError::new(ErrorKind::Exists, format!("there is a domain {name} already"))
                    .safe("it was not changed")
                    .next("sovm domain list"),
            );
        }
        let draft = self.draft_domain(name)?;
        let domain = draft.domain;
        let mut txn = self.catalog.begin()?;
        self.store_domain(&mut txn, draft, self.now_ms())?;
        self.save(txn)?;
        self.told();
        self.domain_info(&self.read()?, &domain)
    }
}

/// A name of a mesh, domain or device.
pub(super) fn check_display_name(name: &str) -> Result<(), ApiError> {
    let fits =
        !name.is_empty() && name.len() <= sovm_object::record::MAX_NAME_BYTES && !name.chars().any(char::is_control);
    if fits {
        return Ok(());
    }
    Err(ApiError::new(ErrorKind::BadInput, format!("{name:?} cannot be a name"))
        .safe("nothing was changed")
        .next("use up to 128 bytes without control characters"))
}
