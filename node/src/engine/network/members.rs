//! Changing who belongs: the signed ops, and what follows from them for groups and keys (DESIGN §8).

use sovm_catalog::{Read as _, Scope};
use sovm_object::{
    entry::VerifiedEntry,
    id::{DomainId, RecordId, SiteId},
    record::{MembershipOp, OpKind, Role},
    roster::Right,
    sign::Signed,
};

use super::super::core::Core;
use crate::{
    api::{RemoveReport, Rotation},
    error::{ApiError, ErrorKind},
};

/// What one op says; number, time and heads are added at signing.
pub(in super::super) struct OpDraft {
    pub(in super::super) domain: Option<DomainId>,
    pub(in super::super) kind: OpKind,
    pub(in super::super) site: SiteId,
    pub(in super::super) role: Role,
    pub(in super::super) binding: Option<RecordId>,
    pub(in super::super) history_from: u64,
    pub(in super::super) cut_seq: u64,
}

impl Core {
    /// Refuses when this node may not decide about the mesh or a domain.
    pub(in super::super) fn require_admin(&self, domain: Option<DomainId>) -> Result<(), ApiError> {
        let roster = self.read()?.roster(domain.into())?;
        if roster
            .and_then(|roster| roster.role(&self.me))
            .is_some_and(|role| role.has(Right::Admin))
        {
            return Ok(());
        }
        Err(
            ApiError::new(ErrorKind::Refused, "only an admin may do this, and this device is none")
                .safe("nothing was changed")
                .next("run the command on an admin's device: sovm mesh members"),
        )
    }

    /// Signs a membership op on top of everything known here.
    pub(in super::super) fn sign_op(&self, draft: OpDraft) -> Result<Signed<MembershipOp>, ApiError> {
        let ops_seen = self.heads(draft.domain)?;
        let stamp = self.stamp()?;
        Ok(self.sign(MembershipOp {
            mesh_id: self.mesh(),
            domain: draft.domain,
            kind: draft.kind,
            site: draft.site,
            role: draft.role,
            binding: draft.binding,
            history_from: draft.history_from,
            cut_seq: draft.cut_seq,
            issuer: self.me,
            seq: stamp.seq,
            hlc: stamp.hlc,
            ops_seen,
        }))
    }

    /// `mesh remove`: out of the mesh and of every domain this node decides about; keys rotate, connections close.
    pub(in super::super) async fn remove_member(&self, text: &str) -> Result<RemoveReport, ApiError> {
        let (site, name) = self.find_member(text)?;
        self.require_admin(None)?;
        if site == self.me {
            return Err(
                ApiError::new(ErrorKind::Refused, "a device cannot remove itself with this command")
                    .safe("nothing was changed")
                    .next("run it on another admin's device"),
            );
        }
        let _step = self.step.lock().await;
        let snapshot = self.read()?;
        let mut ops: Vec<VerifiedEntry> = Vec::new();
        let mut domains = Vec::new();
        let role = snapshot
            .roster(Scope::Mesh)?
            .and_then(|roster| roster.role(&site))
            .ok_or_else(|| {
                ApiError::new(ErrorKind::NotFound, format!("{text} is not a member any more"))
                    .safe("nothing was changed")
            })?;
        ops.push(self.sign_removal(None, site, role, &snapshot)?.into());
        for domain in snapshot.domains()? {
            let id = domain.genesis.domain_id;
            let Some(roster) = snapshot.roster(Scope::Domain(id))? else {
                continue;
            };
            let Some(role) = roster.role(&site) else {
                continue;
            };
            if !roster.role(&self.me).is_some_and(|role| role.has(Right::Admin)) {
                return Err(ApiError::new(
                    ErrorKind::Refused,
                    format!(
                        "the device is in domain {} too, and this device is not an admin there",
                        domain.genesis.name
                    ),
                )
                .safe("nothing was changed")
                .next("run the command on a device that is an admin of all its domains"));
            }
            let op = self.sign_removal(Some(id), site, role, &snapshot)?;
            domains.push((id, domain.genesis.name, op.id()));
            ops.push(op.into());
        }
        let mut txn = self.catalog.begin()?;
        self.admit_all(&mut txn, ops)?;
        let committed = self.commit(txn)?;
        // From here on nobody here talks to the device or wraps a key for it, whatever happens next.
        self.after_admission(&committed)?;
        let mut rotated = Vec::new();
        for (domain, name, op) in domains {
            self.change_group(&domain, Vec::new(), vec![site], vec![op])?;
            if let Some(generation) = self.ensure_kek(&domain)? {
                rotated.push(Rotation {
                    domain: name,
                    generation,
                });
            }
        }
        self.told();
        Ok(RemoveReport {
            site: site.to_string(),
            name,
            rotated,
        })
    }

    fn sign_removal(
        &self,
        domain: Option<DomainId>,
        site: SiteId,
        role: Role,
        rows: &sovm_catalog::Snapshot,
    ) -> Result<Signed<MembershipOp>, ApiError> {
        // What was accepted from the device stays; what it signs later is refused everywhere (SOP part 2.1).
        let cut_seq = rows.highest_seq(domain.into(), &site)?;
        self.sign_op(OpDraft {
            domain,
            kind: OpKind::Remove,
            site,
            role,
            binding: None,
            history_from: 0,
            cut_seq,
        })
    }
}
