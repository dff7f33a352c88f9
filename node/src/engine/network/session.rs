//! One conversation with a peer: who runs, what the sets lack, which keys are missing. Both sides, and the rounds that start it.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, Weak},
    time::Duration,
};

use rand::Rng as _;
use sovm_catalog::{Read as _, Scope as Place};
use sovm_mesh::{
    net::{
        BoxFuture,
        alpn::Alpn,
        protocol::{StreamEnd, StreamHandler},
        wire::{FrameLimits, Framed},
    },
    proto::{
        blind,
        peer::{self, Hello, PeerMessage, Seen, Standing, judge_hello},
        sync::{Effect, Initiator, Limits, Outcome, Responder, SyncError},
    },
};
use sovm_object::{id::SiteId, record::Role};
use tokio::task::JoinSet;

use super::{
    super::{convert::chain, core::Core},
    ROUND,
    address::{address_of, whereabouts},
    set::CatalogSet,
};
use crate::{
    api::{Event, ProgressSink, SyncReport, Unit},
    error::{ApiError, ErrorKind},
};

/// Peers talked to at the same time in one round.
const PEERS_AT_ONCE: usize = 16;

/// What was learnt of a peer since this node started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerState {
    pub(super) online: bool,
    pub(super) last_seen_ms: Option<u64>,
    seen: Seen,
}

/// What one conversation moved.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Moved {
    pub(in super::super) sent: u64,
    pub(in super::super) received: u64,
}

/// Why a conversation ended early. What was received until then counts.
#[derive(Debug, thiserror::Error)]
enum TalkError {
    #[error(transparent)]
    Wire(#[from] sovm_mesh::net::wire::WireError),
    #[error(transparent)]
    Connect(#[from] sovm_mesh::net::endpoint::ConnectError),
    #[error(transparent)]
    Sync(#[from] SyncError),
    #[error("the peer sent something that is not of the protocol")]
    Malformed(#[from] sovm_object::cbor::DecodeError),
    #[error("the peer stopped in the middle")]
    Ended,
    #[error("the peer belongs to another mesh")]
    OtherMesh,
    #[error("the peer speaks another version of the protocol")]
    OtherVersion,
    #[error(transparent)]
    Node(#[from] ApiError),
}

/// Answers peers on the sync protocol.
pub(super) struct SyncHandler(pub(super) Weak<Core>);

impl StreamHandler for SyncHandler {
    fn handle<'a>(&'a self, stream: &'a mut Framed) -> BoxFuture<'a, Result<(), StreamEnd>> {
        Box::pin(async move {
            let core = self.0.upgrade().ok_or(StreamEnd::Busy)?;
            stream.set_limits(FrameLimits::MEMBER);
            match core.answer(stream).await {
                Ok(()) => Ok(()),
                Err(TalkError::Wire(error)) => Err(StreamEnd::Wire(error)),
                Err(TalkError::Node(error)) => {
                    tracing::warn!(kind = ?error.kind, "a peer's stream failed here");
                    Err(StreamEnd::Internal)
                }
                Err(_) => Err(StreamEnd::Protocol("sync")),
            }
        })
    }
}

/// Talks to every peer in turn: at start, when something changed here, and on a timer.
pub(super) async fn keep_level(core: Weak<Core>) {
    let Some(mut changed) = core.upgrade().map(|core| core.watch()) else {
        return;
    };
    loop {
        if let Some(core) = core.upgrade() {
            core.talk_to_all().await;
        } else {
            return;
        }
        // Jitter, so that nodes that started together do not stay in step.
        let pause = ROUND.mul_f64(rand::rng().random_range(0.8..1.2));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            result = changed.changed() => {
                if result.is_err() {
                    return;
                }
                // Several changes in a row make one round.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        changed.mark_unchanged();
    }
}

impl Core {
    /// Sites to talk to: everybody in the roster who listens.
    pub(in super::super) fn talk_partners(&self) -> Result<Vec<SiteId>, ApiError> {
        let snapshot = self.read()?;
        let Some(roster) = snapshot.roster(Place::Mesh)? else {
            return Ok(Vec::new());
        };
        if roster.role(&self.me).is_none() {
            return Ok(Vec::new());
        }
        let partners = roster
            .members()
            .filter(|(site, role, _)| *site != self.me && *role != Role::Recovery);
        Ok(partners.map(|(site, ..)| site).collect())
    }

    /// One round with everybody. Who cannot be reached is tried again next time.
    pub(in super::super) async fn talk_to_all(self: &Arc<Self>) -> (u64, Moved) {
        let mut moved = Moved::default();
        let mut reached = 0;
        let Ok(partners) = self.talk_partners() else {
            return (0, moved);
        };
        let mut waiting = partners.into_iter();
        let mut talks = JoinSet::new();
        loop {
            while talks.len() < PEERS_AT_ONCE {
                let Some(peer) = waiting.next() else {
                    break;
                };
                let core = self.clone();
                talks.spawn(async move { core.talk_to(peer).await });
            }
            match talks.join_next().await {
                Some(Ok(Ok(with_one))) => {
                    reached += 1;
                    moved.sent += with_one.sent;
                    moved.received += with_one.received;
                }
                Some(_) => {}
                None => return (reached, moved),
            }
        }
    }

    /// `sync`: a round now, and with `wait_secs` as many as it takes until nothing is missing here or on blind replicas.
    pub(in super::super) async fn sync_now(
        self: &Arc<Self>,
        wait_secs: u64,
        progress: &dyn ProgressSink,
    ) -> Result<SyncReport, ApiError> {
        self.network()?;
        if self.my_role()?.is_none() {
            return Err(
                ApiError::new(ErrorKind::Refused, "this device was removed from its mesh")
                    .safe("what it had stays readable here")
                    .next("sovm join TICKET, with a new ticket from an admin"),
            );
        }
        let deadline = tokio::time::Instant::now() + Duration::from_secs(wait_secs);
        let (mut peers, mut moved) = self.talk_to_all().await;
        loop {
            let counts = self.counts(&self.all_objects(&self.read()?)?);
            let settled = counts.pending_bytes == 0 && counts.pending_access == 0 && self.unplaced().await? == 0;
            if settled || tokio::time::Instant::now() >= deadline {
                let blind = self.is_blind()?;
                return Ok(SyncReport {
                    peers,
                    received: moved.received,
                    sent: moved.sent,
                    objects: if blind { self.held_counts().await? } else { counts },
                    blind,
                });
            }
            progress.event(Event::Progress {
                stage: "syncing".to_owned(),
                unit: Unit::Bytes,
                done: counts.have_bytes,
                total: Some(counts.want_bytes),
            });
            tokio::time::sleep(Duration::from_millis(300)).await;
            let (reached, more) = self.talk_to_all().await;
            peers = peers.max(reached);
            moved.sent += more.sent;
            moved.received += more.received;
        }
    }

    /// Objects that some reachable blind replica has not promised to keep yet.
    async fn unplaced(&self) -> Result<usize, ApiError> {
        if self.is_blind()? {
            return Ok(0);
        }
        let mut unplaced = 0;
        for replica in self.blind_replicas(&self.read()?)? {
            if self.seen(&replica).0 {
                unplaced += self.to_place(&replica).await?.len();
            }
        }
        Ok(unplaced)
    }

    /// One conversation, and what follows from it.
    pub(in super::super) async fn talk_to(self: &Arc<Self>, peer: SiteId) -> Result<Moved, ApiError> {
        let result = self.talk(peer).await;
        self.note_peer(&peer, |state| state.online = result.is_ok());
        let moved = result.map_err(|error| match error {
            TalkError::Node(error) => error,
            other => ApiError::new(
                ErrorKind::Network,
                format!("device {}: {}", peer.fmt_short(), chain(&other)),
            )
            .safe("what is here stays as it is")
            .next("sovm status shows who is online; the next round is tried by itself"),
        })?;
        self.note_peer(&peer, |state| state.last_seen_ms = Some(self.now_ms()));
        Ok(moved)
    }

    async fn talk(self: &Arc<Self>, peer: SiteId) -> Result<Moved, TalkError> {
        let network = self.network()?;
        let mut stream = network
            .net
            .endpoint()
            .open(peer, Alpn::Sync, FrameLimits::MEMBER)
            .await?;
        let own = self.hello(&peer)?;
        send(&mut stream, &PeerMessage::Hello(own.clone())).await?;
        self.send_whereabouts(&mut stream).await?;
        let PeerMessage::Hello(theirs) = recv(&mut stream).await?.ok_or(TalkError::Ended)? else {
            return Err(TalkError::Ended);
        };
        self.judge(&peer, &theirs, &own)?;
        let mut initiator = Initiator::new(self.shared_scopes(&peer)?, Limits::default());
        let mut effects = {
            let set = CatalogSet::of(self)?;
            initiator.start(&set)?
        };
        let outcome = loop {
            if let Some(outcome) = self.carry_out(&peer, &mut stream, effects).await? {
                break outcome;
            }
            let message = loop {
                match recv(&mut stream).await?.ok_or(TalkError::Ended)? {
                    PeerMessage::Sync(message) => break message,
                    PeerMessage::Whereabouts(told) => self.note_whereabouts(&peer, &told)?,
                    _ => return Err(TalkError::Ended),
                }
            };
            effects = {
                let set = CatalogSet::of(self)?;
                initiator.handle(&set, message)?
            };
        };
        // Commits that came may have moved our groups; only then can keys be asked for on the right branch.
        self.follow_groups().await?;
        for request in self.missing_keys(&peer)? {
            let domain = request.domain_id;
            send(&mut stream, &PeerMessage::KekRequest(request)).await?;
            if let PeerMessage::KekReply(reply) = recv(&mut stream).await?.ok_or(TalkError::Ended)? {
                self.take_keys(&domain, &reply)?;
            }
        }
        self.place_with(&peer, &mut stream).await.map_err(TalkError::Node)?;
        stream.finish().await?;
        Ok(Moved {
            sent: outcome.sent,
            received: outcome.received,
        })
    }

    /// The other side of [`talk`](Self::talk).
    async fn answer(self: &Arc<Self>, stream: &mut Framed) -> Result<(), TalkError> {
        let peer = stream.peer();
        let PeerMessage::Hello(theirs) = recv(stream).await?.ok_or(TalkError::Ended)? else {
            return Err(TalkError::Ended);
        };
        let own = self.hello(&peer)?;
        send(stream, &PeerMessage::Hello(own.clone())).await?;
        self.judge(&peer, &theirs, &own)?;
        self.send_whereabouts(stream).await?;
        let mut responder = Responder::new(self.shared_scopes(&peer)?, Limits::default());
        while let Some(message) = recv(stream).await? {
            match message {
                PeerMessage::Whereabouts(told) => self.note_whereabouts(&peer, &told)?,
                PeerMessage::Sync(message) => {
                    let effects = {
                        let set = CatalogSet::of(self)?;
                        responder.handle(&set, message)?
                    };
                    if self.carry_out(&peer, stream, effects).await?.is_some() {
                        self.follow_groups().await?;
                    }
                }
                PeerMessage::KekRequest(request) => {
                    let reply = self.give_keys(&peer, &request)?;
                    send(stream, &PeerMessage::KekReply(reply)).await?;
                }
                PeerMessage::Replica(bytes) => {
                    let receipt = self.answer_replica(&peer, &bytes).await?;
                    send(stream, &PeerMessage::Replica(receipt.into())).await?;
                }
                _ => return Err(TalkError::Ended),
            }
        }
        self.note_peer(&peer, |state| {
            state.online = true;
            state.last_seen_ms = Some(self.now_ms());
        });
        Ok(())
    }

    /// Does what a session wants done; gives its outcome when it is over.
    async fn carry_out(
        &self,
        peer: &SiteId,
        stream: &mut Framed,
        effects: Vec<Effect>,
    ) -> Result<Option<Outcome>, TalkError> {
        let mut over = None;
        for effect in effects {
            match effect {
                Effect::Send(message) => send(stream, &PeerMessage::Sync(message)).await?,
                Effect::Received { scope, items, .. } => self.receive(peer, scope, &items)?,
                Effect::Done(outcome) => over = Some(outcome),
            }
        }
        Ok(over)
    }

    fn hello(&self, peer: &SiteId) -> Result<Hello, ApiError> {
        let peers = self.network()?.peers.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Hello {
            version: Hello::VERSION,
            mesh_id: self.mesh(),
            incarnation: self.incarnation.id,
            counter: self.incarnation.counter,
            your_counter: peers.get(peer).map_or(0, |state| state.seen.counter),
        })
    }

    /// Looks at who the peer says it is. Copies and restored homes are told in `status`; only another mesh ends the talk.
    fn judge(&self, peer: &SiteId, theirs: &Hello, own: &Hello) -> Result<(), TalkError> {
        let seen = {
            let network = self.network()?;
            let peers = network.peers.lock().unwrap_or_else(PoisonError::into_inner);
            peers.get(peer).map(|state| state.seen).filter(|seen| seen.counter > 0)
        };
        match judge_hello(theirs, own, seen.as_ref()) {
            Standing::OtherMesh => return Err(TalkError::OtherMesh),
            Standing::OtherVersion => return Err(TalkError::OtherVersion),
            Standing::Fine => {}
            standing @ (Standing::PeerRestored | Standing::PeerCloned | Standing::WeAreRestored) => {
                tracing::warn!(peer = %peer.fmt_short(), ?standing, "a copy of a home is in use");
            }
        }
        self.note_peer(peer, |state| {
            state.seen.counter = state.seen.counter.max(theirs.counter);
            state.seen.incarnation = theirs.incarnation;
        });
        Ok(())
    }

    async fn send_whereabouts(&self, stream: &mut Framed) -> Result<(), TalkError> {
        let address = self.network()?.net.endpoint().address();
        send(stream, &PeerMessage::Whereabouts(whereabouts(&address))).await
    }

    /// A peer may tell its own address, nobody else's.
    fn note_whereabouts(&self, peer: &SiteId, told: &peer::Whereabouts) -> Result<(), ApiError> {
        if told.site != *peer {
            return Ok(());
        }
        self.learn_address(&address_of(told))
    }

    fn note_peer(&self, peer: &SiteId, change: impl FnOnce(&mut PeerState)) {
        if let Some(network) = self.net.get() {
            let mut peers: std::sync::MutexGuard<'_, BTreeMap<SiteId, PeerState>> =
                network.peers.lock().unwrap_or_else(PoisonError::into_inner);
            change(peers.entry(*peer).or_default());
        }
    }

    /// Asks a replica one thing and gives its verified receipt.
    pub(super) async fn ask_replica(
        &self,
        peer: &SiteId,
        stream: &mut Framed,
        ask: blind::Ask,
    ) -> Result<blind::ReplicaReceipt, ApiError> {
        let request = self.sign_replica_request(peer, ask)?;
        let lost =
            |error: TalkError| ApiError::new(ErrorKind::Network, format!("replica {}: {error}", peer.fmt_short()));
        send(stream, &PeerMessage::Replica(request.bytes().to_vec().into()))
            .await
            .map_err(lost)?;
        match recv(stream).await.map_err(lost)? {
            Some(PeerMessage::Replica(bytes)) => self.check_receipt(peer, &request, &bytes),
            _ => Err(lost(TalkError::Ended)),
        }
    }
}

async fn send(stream: &mut Framed, message: &PeerMessage) -> Result<(), TalkError> {
    Ok(stream.send(&peer::encode(message)).await?)
}

async fn recv(stream: &mut Framed) -> Result<Option<PeerMessage>, TalkError> {
    match stream.recv().await? {
        Some(frame) => Ok(Some(peer::decode(&frame)?)),
        None => Ok(None),
    }
}
