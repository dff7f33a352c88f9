//! Invites of this node: made, kept, shown, confirmed (DESIGN §8).

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use sovm_catalog::{Read, Txn};
use sovm_mesh::proto::invite::{Confirmation, History, Invite, InviteSecret, InviteState, MAX_BAD_PROOFS, NewInvite};
use sovm_object::{
    cbor::{self, Decoder, Encoder},
    id::InviteId,
    record::Role,
};
use tokio::sync::{Notify, oneshot};

use super::super::{core::Core, founding::random};
use crate::{
    api::{
        InviteConfirmReport, InviteHistory, InviteInfo, InviteListReport, InviteReport, InviteRequest,
        InviteRevokeReport, InviteRole, InviteState as Shown, InviteWaitReport,
    },
    error::{ApiError, ErrorKind},
};

/// Metadata row that lists the invites there are.
const META_INVITES: &str = "invites";

/// How long a used or closed invite is still listed to the command that waits for it.
const KEPT_AFTER_END_MS: u64 = 24 * 3_600_000;

/// Devices that presented a ticket and wait for a person.
#[derive(Default)]
pub(super) struct Guests {
    waiting: Mutex<BTreeMap<InviteId, Guest>>,
    joined: Mutex<BTreeMap<InviteId, (String, String)>>,
    changed: Notify,
}

struct Guest {
    confirmation: Confirmation,
    decide: oneshot::Sender<bool>,
}

impl Guests {
    /// A device waits; the receiver gets the person's decision.
    pub(super) fn arrive(&self, invite: InviteId, confirmation: Confirmation) -> oneshot::Receiver<bool> {
        let (decide, decision) = oneshot::channel();
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(invite, Guest { confirmation, decide });
        self.changed.notify_waiters();
        decision
    }

    pub(super) fn left(&self, invite: &InviteId) {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(invite);
        self.changed.notify_waiters();
    }

    pub(super) fn joined(&self, invite: InviteId, name: String, site: String) {
        self.left(&invite);
        self.joined
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(invite, (name, site));
        self.changed.notify_waiters();
    }
}

fn row(id: &InviteId) -> String {
    format!("invite/{id}")
}

/// Reads one invite.
pub(super) fn load(rows: &impl Read, id: &InviteId) -> Result<Option<Invite>, ApiError> {
    let stored = rows.meta(&row(id))?;
    stored
        .map(|bytes| cbor::from_slice(&bytes).map_err(ApiError::bug))
        .transpose()
}

/// Writes one invite.
pub(super) fn store(txn: &mut Txn, invite: &Invite) -> Result<(), ApiError> {
    let mut ids = ids(txn)?;
    if !ids.contains(&invite.invite_id) {
        ids.push(invite.invite_id);
        store_ids(txn, &ids)?;
    }
    Ok(txn.put_meta(&row(&invite.invite_id), &cbor::to_vec(invite))?)
}

fn ids(rows: &impl Read) -> Result<Vec<InviteId>, ApiError> {
    let Some(stored) = rows.meta(META_INVITES)? else {
        return Ok(Vec::new());
    };
    Decoder::new(&stored).field().map_err(ApiError::bug)
}

fn store_ids(txn: &mut Txn, ids: &[InviteId]) -> Result<(), ApiError> {
    let mut e = Encoder::new();
    e.field(&ids.to_vec());
    Ok(txn.put_meta(META_INVITES, &e.into_vec())?)
}

impl Core {
    fn invites(&self) -> Result<Vec<Invite>, ApiError> {
        let snapshot = self.read()?;
        let mut invites = Vec::new();
        for id in ids(&snapshot)? {
            invites.extend(load(&snapshot, &id)?);
        }
        Ok(invites)
    }

    /// Whether strangers may knock at all. A used invite keeps the door open until its time is over, so that an interrupted join
    /// can be finished.
    pub(super) fn has_open_invite(&self) -> Result<bool, ApiError> {
        let now_ms = self.now_ms();
        let open = |invite: &Invite| match invite.state {
            InviteState::Open | InviteState::Used(_) => now_ms <= invite.expires_ms,
            // Whoever comes with it is told why it is no good.
            InviteState::Revoked | InviteState::Burnt => now_ms <= invite.expires_ms,
        };
        Ok(self.invites()?.iter().any(open))
    }

    /// `invite`.
    pub(in super::super) async fn invite(&self, request: InviteRequest) -> Result<InviteReport, ApiError> {
        self.require_admin(None)?;
        let role = match request.role {
            InviteRole::Admin => Role::Admin,
            InviteRole::Writer => Role::Writer,
            InviteRole::Reader => Role::Reader,
            InviteRole::Blind => Role::Blind,
        };
        let mut domains = Vec::new();
        if role != Role::Blind {
            let wanted: Vec<Option<&str>> = match request.domains.as_slice() {
                [] => vec![None],
                names => names.iter().map(|name| Some(name.as_str())).collect(),
            };
            for name in wanted {
                let domain = self.domain(name)?;
                self.require_admin(Some(domain))?;
                domains.push(domain);
            }
        }
        let now_ms = self.now_ms();
        let terms = NewInvite {
            role,
            domains,
            history: match request.history {
                InviteHistory::All => History::All,
                InviteHistory::None => History::None,
            },
            expires_ms: now_ms.saturating_add(request.expires_secs.saturating_mul(1_000)),
            skip_code: request.yes,
        };
        let (invite, mut ticket) = Invite::new(
            terms,
            self.mesh(),
            self.me,
            InviteId::from_bytes(random()),
            InviteSecret::generate(),
            now_ms,
        )
        .map_err(|error| ApiError::new(ErrorKind::Refused, error.to_string()).safe("no ticket was made"))?;
        let address = self.network()?.net.endpoint().address();
        ticket.addresses = address.direct.iter().map(ToString::to_string).collect();
        ticket.relay = address.relays.first().cloned();
        let names = self.domain_names(&invite.domains)?;
        let report = InviteReport {
            id: invite.invite_id.to_string(),
            ticket: ticket.expose_as_text(),
            role: role.as_str().to_owned(),
            domains: names,
            expires_ms: invite.expires_ms,
            auto_confirm: invite.skip_code,
        };
        let mut txn = self.catalog.begin()?;
        self.forget_old_invites(&mut txn, now_ms)?;
        store(&mut txn, &invite)?;
        self.save(txn)?;
        self.refresh_allow()?;
        Ok(report)
    }

    fn forget_old_invites(&self, txn: &mut Txn, now_ms: u64) -> Result<(), ApiError> {
        let mut kept = ids(txn)?;
        let before = kept.len();
        for id in kept.clone() {
            let over =
                load(txn, &id)?.is_none_or(|invite| now_ms > invite.expires_ms.saturating_add(KEPT_AFTER_END_MS));
            if over {
                txn.remove_meta(&row(&id))?;
                kept.retain(|other| *other != id);
            }
        }
        if kept.len() != before {
            store_ids(txn, &kept)?;
        }
        Ok(())
    }

    fn domain_names(&self, ids: &[sovm_object::id::DomainId]) -> Result<Vec<String>, ApiError> {
        let domains = self.read()?.domains()?;
        let name = |id: &sovm_object::id::DomainId| {
            let found = domains.iter().find(|domain| domain.genesis.domain_id == *id);
            found.map_or_else(|| id.fmt_short(), |domain| domain.genesis.name.clone())
        };
        Ok(ids.iter().map(name).collect())
    }

    /// `invite list`.
    pub(in super::super) fn list_invites(&self) -> Result<InviteListReport, ApiError> {
        let now_ms = self.now_ms();
        let waiting: Vec<InviteId> = match self.net.get() {
            Some(network) => network
                .guests
                .waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .keys()
                .copied()
                .collect(),
            None => Vec::new(),
        };
        let open = self.invites()?.into_iter().filter(|invite| invite.is_open(now_ms));
        let invites = open
            .map(|invite| {
                Ok(InviteInfo {
                    id: invite.invite_id.to_string(),
                    role: invite.role.as_str().to_owned(),
                    domains: self.domain_names(&invite.domains)?,
                    expires_ms: invite.expires_ms,
                    bad_proofs: invite.bad_proofs,
                    waiting: waiting.contains(&invite.invite_id),
                })
            })
            .collect::<Result<_, ApiError>>()?;
        Ok(InviteListReport { invites })
    }

    fn find_invite(&self, text: &str) -> Result<Invite, ApiError> {
        let mut found: Vec<_> = self
            .invites()?
            .into_iter()
            .filter(|invite| invite.invite_id.to_string().starts_with(text))
            .collect();
        match (found.pop(), found.is_empty(), text.len() >= 4) {
            (Some(invite), true, true) => Ok(invite),
            _ => Err(ApiError::new(
                ErrorKind::NotFound,
                format!("no invite has an id that begins with {text}"),
            )
            .next("sovm invite list")),
        }
    }

    /// `invite revoke`.
    pub(in super::super) async fn revoke_invite(&self, text: &str) -> Result<InviteRevokeReport, ApiError> {
        let mut invite = self.find_invite(text)?;
        if !invite.revoke() {
            return Err(
                ApiError::new(ErrorKind::Refused, "a device joined with this invite already")
                    .safe("nothing was changed")
                    .next("sovm mesh remove DEVICE takes it out again"),
            );
        }
        let mut txn = self.catalog.begin()?;
        store(&mut txn, &invite)?;
        self.save(txn)?;
        if let Some(network) = self.net.get() {
            network.guests.left(&invite.invite_id);
        }
        self.refresh_allow()?;
        Ok(InviteRevokeReport {
            id: invite.invite_id.to_string(),
        })
    }

    /// `invite wait`: comes back when a device waits for confirmation, has joined, or the invite is over.
    pub(in super::super) async fn wait_for_guest(
        &self,
        text: &str,
        timeout_secs: u64,
    ) -> Result<InviteWaitReport, ApiError> {
        let id = self.find_invite(text)?.invite_id;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(timeout_secs);
        let guests = &self.network()?.guests;
        loop {
            // Registered before looking, so that nothing that happens in between is missed.
            let changed = guests.changed.notified();
            let state = self.guest_state(&id)?;
            if !matches!(state, Shown::Waiting) {
                return Ok(InviteWaitReport {
                    id: id.to_string(),
                    state,
                });
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return Ok(InviteWaitReport {
                    id: id.to_string(),
                    state: self.guest_state(&id)?,
                });
            }
        }
    }

    fn guest_state(&self, id: &InviteId) -> Result<Shown, ApiError> {
        let guests = &self.network()?.guests;
        if let Some((name, site)) = guests.joined.lock().unwrap_or_else(PoisonError::into_inner).get(id) {
            return Ok(Shown::Joined {
                name: name.clone(),
                site: site.clone(),
            });
        }
        if let Some(guest) = guests.waiting.lock().unwrap_or_else(PoisonError::into_inner).get(id) {
            return Ok(Shown::Confirm {
                name: guest.confirmation.display_name.clone().unwrap_or_default(),
                site: guest.confirmation.site.to_string(),
                code: guest.confirmation.words.to_string(),
            });
        }
        let closed = |reason: &str| {
            Ok(Shown::Closed {
                reason: reason.to_owned(),
            })
        };
        match load(&self.read()?, id)? {
            None => closed("it does not exist any more"),
            Some(invite) => match invite.state {
                InviteState::Revoked => closed("it was revoked"),
                InviteState::Burnt => Ok(Shown::Closed {
                    reason: format!("it was closed after {MAX_BAD_PROOFS} wrong attempts"),
                }),
                InviteState::Open if self.now_ms() > invite.expires_ms => closed("it expired"),
                InviteState::Open | InviteState::Used(_) => Ok(Shown::Waiting),
            },
        }
    }

    /// `invite confirm`.
    pub(in super::super) async fn confirm_guest(
        &self,
        text: &str,
        code: Option<&str>,
        accept: bool,
    ) -> Result<InviteConfirmReport, ApiError> {
        let id = self.find_invite(text)?.invite_id;
        let guests = &self.network()?.guests;
        let guest = {
            let mut waiting = guests.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(guest) = waiting.get(&id) else {
                return Err(ApiError::new(ErrorKind::NotFound, "no device waits with this invite")
                    .safe("nobody was let in")
                    .next("sovm invite wait, after the other device ran sovm join"));
            };
            let normal = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
            if let Some(code) = code
                && accept
                && normal(code) != normal(&guest.confirmation.words.to_string())
            {
                return Err(ApiError::new(ErrorKind::Refused, "the code is not the one this device shows")
                    .safe("the device is still waiting and was not let in")
                    .next("compare again; if the two devices differ, send it away: somebody may have copied the ticket"));
            }
            waiting
                .remove(&id)
                .ok_or_else(|| ApiError::bug("a guest that vanished"))?
        };
        let site = guest.confirmation.site.to_string();
        if guest.decide.send(accept).is_err() {
            return Err(ApiError::new(ErrorKind::Network, "the device has gone").safe("nobody was let in"));
        }
        if accept {
            self.await_joined(&id).await?;
        }
        Ok(InviteConfirmReport {
            id: id.to_string(),
            site,
            joined: accept,
        })
    }

    async fn await_joined(&self, id: &InviteId) -> Result<(), ApiError> {
        /// A join takes a second or two; a phone on a bad line some more.
        const PATIENCE: Duration = Duration::from_secs(60);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let guests = &self.network()?.guests;
        loop {
            let changed = guests.changed.notified();
            if matches!(self.guest_state(id)?, Shown::Joined { .. }) {
                return Ok(());
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return Err(
                    ApiError::new(ErrorKind::Timeout, "the device was let in and did not answer any more")
                        .safe("its membership is recorded; it can run the same sovm join again")
                        .next("sovm mesh members"),
                );
            }
        }
    }
}
