//! Joining: the inviter's and the joiner's side of one invite, carried out over a stream (DESIGN §8).
//!
//! The protocol itself is pure (`sovm_mesh::proto::invite`); here its effects become transactions.

use std::sync::{Arc, Weak};

use sovm_catalog::{Read, Scope};
use sovm_mesh::{
    net::{
        BoxFuture,
        address::SiteAddress,
        alpn::Alpn,
        protocol::{StreamEnd, StreamHandler},
        wire::{FrameLimits, Framed},
    },
    proto::{
        invite::{
            Admission, DomainGrant, Grant, History, Inviter, InviterEffect, InviterEvent, InviterMessage, JoinFailure,
            JoinRequest, Joiner, JoinerEffect, JoinerEvent, JoinerMessage, Refusal, Ticket, decode_from_inviter,
            decode_from_joiner, encode_from_inviter, encode_from_joiner,
        },
        mls::{JoinCheck, MlsWrites},
    },
};
use sovm_object::{
    entry::{EntryKind, VerifiedEntry},
    id::DomainId,
    kek,
    record::{DomainGenesis, KekRecord, MembershipOp, MeshGenesis, MeshName, NodeBinding, OpKind, Role},
    sign::{Body, Signed},
};

use super::{
    super::{convert::mesh_info, core::Core, founding::META_NODE_NAME},
    invites::{load, store},
    members::OpDraft,
};
use crate::{
    api::{Event, JoinReport, ProgressSink},
    error::{ApiError, ErrorKind},
};

/// Longest time a joiner waits for the person on the other side.
const CONFIRM_PATIENCE: std::time::Duration = std::time::Duration::from_secs(15 * 60);

/// Answers strangers who present a ticket.
pub(super) struct JoinHandler(pub(super) Weak<Core>);

impl StreamHandler for JoinHandler {
    fn handle<'a>(&'a self, stream: &'a mut Framed) -> BoxFuture<'a, Result<(), StreamEnd>> {
        Box::pin(async move {
            let core = self.0.upgrade().ok_or(StreamEnd::Busy)?;
            core.admit_guest(stream).await
        })
    }
}

impl Core {
    /// The inviter's side.
    async fn admit_guest(self: &Arc<Self>, stream: &mut Framed) -> Result<(), StreamEnd> {
        let mut inviter = Inviter::new(
            self.mesh(),
            self.me,
            stream.peer(),
            *stream.channel_binding(),
            super::super::founding::random(),
        );
        let mut guest = None;
        let result = self.drive_inviter(&mut inviter, stream, &mut guest).await;
        if let (Err(_), Some((invite, ..))) = (&result, &guest) {
            self.network().map_err(|_| StreamEnd::Internal)?.guests.left(invite);
        }
        result
    }

    async fn drive_inviter(
        self: &Arc<Self>,
        inviter: &mut Inviter,
        stream: &mut Framed,
        guest: &mut Option<(sovm_object::id::InviteId, String)>,
    ) -> Result<(), StreamEnd> {
        let mut events = Vec::new();
        loop {
            if events.is_empty() {
                let Some(frame) = stream.recv().await? else {
                    return Ok(());
                };
                let message: JoinerMessage = decode_from_joiner(&frame).map_err(|_| StreamEnd::Protocol("join"))?;
                events.push(InviterEvent::Message(message));
            }
            for event in std::mem::take(&mut events) {
                for effect in inviter.handle(event, self.now_ms()) {
                    match effect {
                        InviterEffect::Send(message) => self.send_to_joiner(stream, &message).await?,
                        InviterEffect::Lookup(id) => {
                            let invite = self.read().and_then(|rows| load(&rows, &id)).map_err(internal)?;
                            *guest = Some((id, String::new()));
                            events.push(InviterEvent::Invite(invite));
                        }
                        InviterEffect::CountBadProof(id) => self.count_bad_proof(&id).map_err(internal)?,
                        InviterEffect::Show(confirmation) => {
                            let Some((id, _)) = guest else {
                                return Err(StreamEnd::Internal);
                            };
                            let decision = self.network().map_err(internal)?.guests.arrive(*id, confirmation);
                            // Proven, so no longer a stranger that must hurry.
                            let decision = tokio::time::timeout(CONFIRM_PATIENCE, decision).await;
                            events.push(InviterEvent::Confirmed(matches!(decision, Ok(Ok(true)))));
                        }
                        InviterEffect::Admit(request) => {
                            let name = request
                                .binding
                                .as_ref()
                                .map(|b| b.body().display_name.clone())
                                .unwrap_or_default();
                            *guest = Some((request.invite_id, name));
                            events.push(match self.admit_joiner(*request).await {
                                Ok(Ok(grant)) => InviterEvent::Granted(Box::new(grant)),
                                Ok(Err(refusal)) => InviterEvent::NotGranted(refusal),
                                Err(error) => {
                                    tracing::warn!(kind = ?error.kind, "a join could not be carried out");
                                    InviterEvent::NotGranted(Refusal::Failed)
                                }
                            });
                        }
                        InviterEffect::Joined(claims) => {
                            self.take_claims(&claims).map_err(internal)?;
                            if let Some((id, name)) = guest.take() {
                                let site = stream.peer().to_string();
                                self.network().map_err(internal)?.guests.joined(id, name, site);
                            }
                            self.told();
                        }
                        InviterEffect::Close => return Ok(()),
                    }
                }
            }
        }
    }

    async fn send_to_joiner(&self, stream: &mut Framed, message: &InviterMessage) -> Result<(), StreamEnd> {
        if matches!(message, InviterMessage::Grant(_)) {
            stream.set_limits(FrameLimits::MEMBER);
        }
        Ok(stream.send(&encode_from_inviter(message)).await?)
    }

    fn count_bad_proof(&self, id: &sovm_object::id::InviteId) -> Result<(), ApiError> {
        let mut txn = self.catalog.begin()?;
        if let Some(mut invite) = load(&txn, id)? {
            invite.count_bad_proof();
            store(&mut txn, &invite)?;
        }
        self.save(txn)?;
        self.refresh_allow()
    }

    /// Signs the ops, burns the invite, commits in each group, and puts together what the joiner needs.
    async fn admit_joiner(&self, request: JoinRequest) -> Result<Result<Grant, Refusal>, ApiError> {
        let _step = self.step.lock().await;
        let snapshot = self.read()?;
        let Some(mut invite) = load(&snapshot, &request.invite_id)? else {
            return Ok(Err(Refusal::Foreign));
        };
        if let Err(refusal) = invite.use_by(request.site, self.now_ms()) {
            return Ok(Err(refusal));
        }
        let binding_id = request.binding.as_ref().map(Signed::id);
        let mut entries: Vec<VerifiedEntry> = Vec::new();
        entries.extend(request.binding.clone().map(VerifiedEntry::from));
        let mut ops = std::collections::BTreeMap::new();
        let scopes = std::iter::once(None).chain(request.offers.iter().map(|offer| Some(offer.domain_id)));
        for domain in scopes {
            let roster = snapshot.roster(domain.into())?;
            if request.resumed && roster.is_some_and(|roster| roster.role(&request.site) == Some(request.role)) {
                continue;
            }
            let history_from = match (request.history, domain) {
                (History::None, Some(domain)) => kek::next_generation(snapshot.kek_records(&domain)?.iter()),
                _ => 1,
            };
            let op = self.sign_op(OpDraft {
                domain,
                kind: OpKind::Add,
                site: request.site,
                role: request.role,
                binding: binding_id,
                history_from,
                cut_seq: 0,
            })?;
            ops.insert(domain, op.id());
            entries.push(op.into());
        }
        let mut txn = self.catalog.begin()?;
        store(&mut txn, &invite)?;
        self.admit_all(&mut txn, entries)?;
        let committed = self.commit(txn)?;
        self.after_admission(&committed)?;
        let mut domains = Vec::new();
        for offer in request.offers {
            let domain = offer.domain_id;
            // A site that comes again after an interrupted join has a leaf it lost the keys of: out and in, in one commit.
            let again = self
                .group_view(&domain)?
                .is_some_and(|view| view.members.iter().any(|member| member.site == request.site));
            let remove = if again { vec![request.site] } else { Vec::new() };
            let op = ops.get(&Some(domain)).copied();
            let welcome = self.change_group(&domain, vec![offer.member], remove, op.into_iter().collect())?;
            self.ensure_kek(&domain)?;
            domains.push(self.domain_grant(&domain, &request.site, welcome.unwrap_or_default())?);
        }
        Ok(Ok(self.grant(request.role, domains)?))
    }

    fn domain_grant(
        &self,
        domain: &DomainId,
        site: &sovm_object::id::SiteId,
        welcome: Vec<u8>,
    ) -> Result<DomainGrant, ApiError> {
        let snapshot = self.read()?;
        let roster = snapshot.roster(Scope::Domain(*domain))?;
        let view = self.group_view(domain)?;
        let bundle = match (roster, view) {
            (Some(roster), Some(view)) => {
                let history_from = roster.history_from(site).unwrap_or(u64::MAX);
                self.seal_keys(&snapshot, &roster, domain, &view, site, history_from, &[])?
            }
            _ => None,
        };
        Ok(DomainGrant {
            domain_id: *domain,
            welcome: welcome.into(),
            kek_bundle: bundle.unwrap_or_default().into(),
        })
    }

    /// Records without which nothing the joiner gets later could be judged.
    fn grant(&self, role: Role, domains: Vec<DomainGrant>) -> Result<Grant, ApiError> {
        let snapshot = self.read()?;
        let genesis = snapshot.accepted::<MeshGenesis>(Scope::Mesh, EntryKind::MeshGenesis)?;
        let genesis = genesis
            .first()
            .ok_or_else(|| ApiError::bug("a mesh without its founding record"))?;
        let mut entries: Vec<Vec<u8>> = Vec::new();
        collect::<MembershipOp>(&snapshot, Scope::Mesh, EntryKind::MembershipOp, &mut entries)?;
        if role != Role::Blind {
            collect::<NodeBinding>(&snapshot, Scope::Mesh, EntryKind::NodeBinding, &mut entries)?;
            collect::<MeshName>(&snapshot, Scope::Mesh, EntryKind::MeshName, &mut entries)?;
            for domain in &domains {
                let scope = Scope::Domain(domain.domain_id);
                collect::<DomainGenesis>(&snapshot, scope, EntryKind::DomainGenesis, &mut entries)?;
                collect::<MembershipOp>(&snapshot, scope, EntryKind::MembershipOp, &mut entries)?;
                collect::<KekRecord>(&snapshot, scope, EntryKind::KekRecord, &mut entries)?;
            }
        }
        Ok(Grant {
            genesis: genesis.bytes().to_vec().into(),
            entries: entries.into_iter().map(Into::into).collect::<Vec<_>>().into(),
            domains: domains.into(),
        })
    }

    fn take_claims(&self, claims: &[Vec<u8>]) -> Result<(), ApiError> {
        let mut txn = self.catalog.begin()?;
        for claim in claims {
            let entry = sovm_object::entry::EntryIn::decode(claim)
                .ok()
                .and_then(|entry| entry.verify(&self.mesh()).ok());
            if let Some(claim @ VerifiedEntry::HeadClaim(_)) = entry {
                txn.admit(claim, None, self.now_ms())?;
            }
        }
        self.save(txn)?;
        Ok(())
    }

    /// `join`: the joiner's side.
    pub(in super::super) async fn join(
        self: &Arc<Self>,
        ticket: &str,
        yes: bool,
        progress: &dyn ProgressSink,
    ) -> Result<JoinReport, ApiError> {
        let ticket = Ticket::parse(ticket).map_err(|error| {
            ApiError::new(ErrorKind::BadInput, format!("this ticket cannot be used: {error}"))
                .safe("nothing was changed")
                .next("copy the whole line that sovm invite printed")
        })?;
        self.may_join(&ticket)?;
        if ticket.is_expired(self.now_ms()) {
            return Err(
                ApiError::new(ErrorKind::Refused, "this ticket has expired by this device's clock")
                    .safe("nothing was changed")
                    .next("ask for a new ticket; if the clock of this device is wrong, set it"),
            );
        }
        let role = ticket.role;
        let skips_code = yes && matches!(role, Role::Reader | Role::Blind);
        let inviter = SiteAddress {
            site: ticket.inviter,
            direct: ticket.addresses.iter().filter_map(|text| text.parse().ok()).collect(),
            relays: ticket.relay.iter().cloned().collect(),
        };
        let network = self.network()?;
        network.net.endpoint().learn(&inviter);
        progress.event(Event::Notice {
            text: "calling the device that made the ticket".to_owned(),
        });
        let mut stream = network
            .net
            .endpoint()
            .open(ticket.inviter, Alpn::Join, FrameLimits::MEMBER)
            .await
            .map_err(|error| unreachable_inviter(&error))?;
        stream.set_limits(FrameLimits {
            timeout: CONFIRM_PATIENCE,
            ..FrameLimits::MEMBER
        });

        let name = self.node_name()?;
        let (binding, packages, offers) = self.prepare_offers(&ticket, &name)?;
        let mut joiner = Joiner::new(
            ticket,
            self.me,
            *stream.channel_binding(),
            super::super::founding::random(),
            binding.as_ref(),
            offers,
        );
        let mut effects = joiner.start();
        loop {
            let mut next = Vec::new();
            for effect in effects {
                match effect {
                    JoinerEffect::Send(message) => {
                        stream
                            .send(&encode_from_joiner(&message))
                            .await
                            .map_err(|error| lost(&error))?;
                    }
                    JoinerEffect::Show(words) if !skips_code => {
                        progress.event(Event::JoinCode {
                            code: words.to_string(),
                        });
                    }
                    JoinerEffect::Show(_) => {}
                    JoinerEffect::AwaitConfirmation => progress.event(Event::Notice {
                        text: "waiting until the other side has confirmed the code".to_owned(),
                    }),
                    JoinerEffect::Enter(admission) => {
                        let claims = self.enter(*admission, &packages, &name).await?;
                        next.extend(joiner.handle(JoinerEvent::Entered(claims)));
                    }
                    JoinerEffect::Joined => {
                        drop(stream);
                        self.learn_address(&inviter)?;
                        return self.joined_report(&inviter.site, role, progress).await;
                    }
                    JoinerEffect::Failed(failure) => return Err(join_failed(&failure)),
                }
            }
            effects = next;
            if effects.is_empty() {
                let frame = stream.recv().await.map_err(|error| lost(&error))?;
                let Some(frame) = frame else {
                    return Err(join_failed(&JoinFailure::OutOfTurn));
                };
                let message = decode_from_inviter(&frame).map_err(|_| join_failed(&JoinFailure::OutOfTurn))?;
                effects = joiner.handle(JoinerEvent::Message(message));
            }
        }
    }

    /// DESIGN §16.1: joining replaces this node's own mesh only while that holds nothing.
    fn may_join(&self, ticket: &Ticket) -> Result<(), ApiError> {
        let snapshot = self.read()?;
        let is_member = snapshot
            .roster(Scope::Mesh)?
            .and_then(|roster| roster.role(&self.me))
            .is_some();
        if ticket.mesh_id == self.mesh() {
            if ticket.inviter == self.me {
                return Err(ApiError::new(ErrorKind::Refused, "this device made the ticket itself")
                    .safe("nothing was changed")
                    .next("run sovm join on the other device"));
            }
            if is_member {
                return Err(
                    ApiError::new(ErrorKind::Exists, "this device is a member of that mesh already")
                        .safe("nothing was changed")
                        .next("sovm mesh members"),
                );
            }
        }
        let tables = snapshot.tables()?;
        let others = snapshot.roster(Scope::Mesh)?.is_some_and(|roster| {
            is_member
                && roster
                    .members()
                    .any(|(site, role, _)| site != self.me && role != Role::Recovery)
        });
        if tables.is_empty() && !others {
            return Ok(());
        }
        let names: Vec<_> = tables.iter().map(|table| table.display_name.clone()).collect();
        let what = if names.is_empty() {
            "this device is in a mesh with other devices".to_owned()
        } else {
            format!("this device holds tables of its own mesh: {}", names.join(", "))
        };
        Err(ApiError::new(
            ErrorKind::Refused,
            format!("{what}; joining another mesh would leave them behind"),
        )
        .safe("nothing was changed")
        .next("join with a new node: sovm --home DIR init, then sovm --home DIR join TICKET"))
    }

    /// The binding and one fresh key package a domain. Private halves are stored before anything is offered.
    #[allow(clippy::type_complexity, reason = "three values that belong to one offer")]
    fn prepare_offers(
        &self,
        ticket: &Ticket,
        name: &str,
    ) -> Result<(Option<Signed<NodeBinding>>, MlsWrites, Vec<(DomainId, Vec<u8>)>), ApiError> {
        let key = self.mls_key()?;
        let (writes, offers) = self.mls_step(|mls| {
            let package = |domain: &DomainId| Ok((*domain, mls.new_key_package(self.me, &key)?));
            ticket.domains.iter().map(package).collect::<Result<Vec<_>, _>>()
        })?;
        if ticket.role == Role::Blind {
            return Ok((None, writes, offers));
        }
        let stamp = self.stamp()?;
        let binding = NodeBinding {
            mesh_id: ticket.mesh_id,
            site: self.me,
            mls_key: key.public(),
            display_name: name.to_owned(),
            hlc: stamp.hlc,
            cose_key: None,
        };
        let binding = Signed::sign(binding, self.keys().site_key(), &ticket.mesh_id);
        let mut txn = self.catalog.begin()?;
        self.put_mls(&mut txn, &writes)?;
        self.save(txn)?;
        Ok((Some(binding), writes, offers))
    }

    /// Becomes a member: everything the inviter gave, in one transaction that also empties what this node founded itself.
    async fn enter(&self, admission: Admission, packages: &MlsWrites, name: &str) -> Result<Vec<Vec<u8>>, ApiError> {
        let _step = self.step.lock().await;
        let mesh = sovm_object::entry::mesh_id_of(&admission.genesis);
        let now_ms = self.now_ms();
        // What the records say, asked of a step that is dropped again.
        let (geneses, rosters) = {
            let mut trial = self.catalog.begin()?;
            trial.forget_mesh()?;
            trial.admit(admission.genesis.clone(), None, now_ms)?;
            for entry in &admission.entries {
                trial.admit(entry.clone(), None, now_ms)?;
            }
            trial.settle()?;
            let mut rosters = std::collections::BTreeMap::new();
            for grant in &admission.domains {
                rosters.insert(grant.domain_id, self.readers_with_keys(&trial, &grant.domain_id)?);
            }
            let geneses: Vec<_> = trial.domains()?.into_iter().map(|domain| domain.genesis).collect();
            (geneses, rosters)
        };
        let genesis_of = |domain: &DomainId| geneses.iter().find(|genesis| genesis.domain_id == *domain);
        let bad_grant = || join_failed(&JoinFailure::BadGrant);
        let (writes, entered) = self.mls_step(|mls| {
            let mut entered = Vec::new();
            for grant in &admission.domains {
                let (Some(genesis), Some(roster)) = (genesis_of(&grant.domain_id), rosters.get(&grant.domain_id))
                else {
                    continue;
                };
                let check = JoinCheck {
                    group_id: &genesis.group_id,
                    roster,
                };
                let view = mls.join(&grant.welcome, &check)?;
                let wrap_key = mls.kek_wrap_key(&genesis.group_id)?;
                entered.push((grant.clone(), view, wrap_key));
            }
            Ok(entered)
        })?;
        if entered.len() != admission.domains.len() {
            return Err(bad_grant());
        }
        let mut txn = self.catalog.begin()?;
        txn.forget_mesh()?;
        txn.put_meta(META_NODE_NAME, name.as_bytes())?;
        txn.admit(admission.genesis, None, now_ms)?;
        for entry in admission.entries {
            txn.admit(entry, None, now_ms)?;
        }
        // The rows of the key packages went with the old mesh; those not used up by a Welcome are still ours.
        self.put_mls(&mut txn, packages)?;
        self.put_mls(&mut txn, &writes)?;
        let committed = self.commit(txn)?;
        self.set_mesh(mesh);
        self.keys().update(|contents| {
            contents.mesh = Some(mesh);
            // Keys of the mesh that this node founded for itself open nothing any more.
            contents.domains.clear();
        })?;
        let mut claims = Vec::new();
        let mut txn = self.catalog.begin()?;
        for (grant, view, _) in &entered {
            let claim = self.sign_claim(&grant.domain_id, view)?;
            claims.push(claim.bytes().to_vec());
            txn.admit(claim, None, now_ms)?;
        }
        self.save(txn)?;
        for (grant, view, wrap_key) in &entered {
            if !grant.kek_bundle.is_empty() {
                self.open_keys(&grant.domain_id, view, wrap_key, &grant.kek_bundle)?;
            }
        }
        self.after_admission(&committed)?;
        self.refresh_allow()?;
        Ok(claims)
    }

    async fn joined_report(
        self: &Arc<Self>,
        inviter: &sovm_object::id::SiteId,
        role: Role,
        progress: &dyn ProgressSink,
    ) -> Result<JoinReport, ApiError> {
        progress.event(Event::Notice {
            text: "joined; taking over what the mesh knows".to_owned(),
        });
        // What cannot be had now comes with the next round; the membership stands.
        if let Err(error) = self.talk_to(*inviter).await {
            progress.event(Event::Notice {
                text: format!("the first exchange did not finish: {error}"),
            });
        }
        let snapshot = self.read()?;
        let members = self.members()?.members;
        let domains = snapshot
            .domains()?
            .into_iter()
            .map(|domain| domain.genesis.name)
            .collect();
        let objects = self.all_objects(&snapshot)?;
        Ok(JoinReport {
            mesh: mesh_info(&snapshot, self.mesh())?,
            role: role.as_str().to_owned(),
            domains,
            devices: members
                .iter()
                .filter(|member| member.role != Role::Recovery.as_str())
                .count() as u64,
            objects: self.counts(&objects),
        })
    }
}

fn collect<B: Body>(rows: &impl Read, scope: Scope, kind: EntryKind, into: &mut Vec<Vec<u8>>) -> Result<(), ApiError> {
    into.extend(
        rows.accepted::<B>(scope, kind)?
            .iter()
            .map(|entry| entry.bytes().to_vec()),
    );
    Ok(())
}

fn internal(_: ApiError) -> StreamEnd {
    StreamEnd::Internal
}

fn lost(error: &sovm_mesh::net::wire::WireError) -> ApiError {
    ApiError::new(ErrorKind::Network, format!("the other device was lost: {error}"))
        .safe("if it had let this device in, running the same sovm join again finishes the join")
        .next("sovm join TICKET again")
}

fn unreachable_inviter(error: &sovm_mesh::net::endpoint::ConnectError) -> ApiError {
    use sovm_mesh::net::endpoint::ConnectError as E;
    let message = match error {
        E::Refused => {
            "the device that made the ticket has no open invite: it was used, revoked or has expired".to_owned()
        }
        other => format!(
            "the device that made the ticket cannot be reached: {}",
            super::super::convert::chain(other)
        ),
    };
    ApiError::new(ErrorKind::Network, message)
        .safe("nothing was changed")
        .next("check that sovm run is running there and both are on the same network, then try again")
}

fn join_failed(failure: &JoinFailure) -> ApiError {
    ApiError::new(ErrorKind::Refused, format!("the join was refused: {failure}")).safe("nothing was changed here")
}
