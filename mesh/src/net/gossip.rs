//! Hints to many sites at once: something changed, come and sync.
//!
//! A hint is small, may get lost, arrive twice or come from nobody in particular; nothing is believed because of it.
//! Correctness comes from reconciliation (DESIGN §8). What the engine broadcasts is sealed and signed before it gets here.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use iroh::EndpointId;
use iroh_gossip::{
    Gossip, TopicId,
    api::{Event, GossipReceiver, GossipSender},
    proto::{HyparviewConfig, PlumtreeConfig},
};
use n0_future::{StreamExt as _, task::AbortOnDropHandle};
use rand::{Rng as _, seq::IteratorRandom as _};
use sovm_object::id::SiteId;
use tokio::sync::{mpsc, watch};

use super::{BoxFuture, alpn::Alpn, endpoint::MeshEndpoint, endpoint_id, router::Handler, site_id};

/// Longest hint (DESIGN §8).
pub const HINT_BYTES_MAX: usize = 1024;
/// Room for a hint and the protocol's own fields; must be the same on all nodes.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Hints that may wait for the host; then the oldest promise is broken and [`HintEvent::Missed`] says so.
const QUEUED_MAX: usize = 256;
/// With fewer neighbours than this we look for more.
const NEIGHBOURS_MIN: usize = 3;
/// Sites asked at one attempt to find neighbours.
const REJOIN_SITES: usize = 5;
/// How often we look, plus up to a third of it by chance, so that a mesh does not wake up all at once.
const REJOIN_INTERVAL: Duration = Duration::from_secs(30);

/// Hints could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum HintError {
    /// The hint is too long.
    #[error("a hint of {0} bytes is too long, {HINT_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// Gossip has stopped.
    #[error("the node is stopping")]
    Stopped,
}

/// What comes out of a topic.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HintEvent {
    /// A hint. `from` handed it to us and need not be its author.
    Received {
        /// The last hop.
        from: SiteId,
        /// The sealed hint.
        content: Bytes,
    },
    /// A site is now our neighbour in this topic.
    NeighbourUp(SiteId),
    /// A site is no longer our neighbour.
    NeighbourDown(SiteId),
    /// Hints were lost; reconcile with somebody.
    Missed,
}

/// All topics of a node.
#[derive(Clone)]
pub struct Hints {
    gossip: Gossip,
}

impl Hints {
    pub(super) fn spawn(endpoint: &MeshEndpoint) -> Self {
        // The default of half a second is shorter than a relayed or cellular round trip.
        let membership = HyparviewConfig {
            neighbor_request_timeout: Duration::from_secs(5),
            ..HyparviewConfig::default()
        };
        let broadcast = PlumtreeConfig {
            graft_timeout_1: Duration::from_millis(500),
            graft_timeout_2: Duration::from_millis(250),
            ..PlumtreeConfig::default()
        };
        let gossip = Gossip::builder()
            .alpn(Alpn::Gossip.as_bytes())
            .max_message_size(MESSAGE_BYTES_MAX)
            .membership_config(membership)
            .broadcast_config(broadcast)
            .spawn(endpoint.iroh().clone());
        Self { gossip }
    }

    /// Takes part in a topic. `members` are the sites that may be in it, without us; they are asked in random order.
    pub async fn subscribe(&self, topic: [u8; 32], members: &BTreeSet<SiteId>) -> Result<HintTopic, HintError> {
        let known: Vec<_> = members.iter().filter_map(endpoint_id).collect();
        let subscribed = self.gossip.subscribe(TopicId::from_bytes(topic), pick(&known)).await;
        let (sender, receiver) = subscribed.map_err(|_| HintError::Stopped)?.split();
        let (members, watching) = watch::channel(known);
        let (forward, events) = mpsc::channel(QUEUED_MAX);
        let task = tokio::spawn(run(sender.clone(), receiver, watching, forward));
        Ok(HintTopic {
            sender,
            members,
            events,
            _task: AbortOnDropHandle::new(task),
        })
    }

    pub(super) async fn shutdown(&self) {
        // Fails only when it has already stopped.
        let _ = self.gossip.shutdown().await;
    }
}

/// Our part in one topic; dropping it leaves the topic.
pub struct HintTopic {
    sender: GossipSender,
    members: watch::Sender<Vec<EndpointId>>,
    events: mpsc::Receiver<HintEvent>,
    _task: AbortOnDropHandle<()>,
}

impl HintTopic {
    /// Sends a hint to everybody in the topic. Equal bytes within 90 seconds are sent once: put a nonce in.
    pub async fn broadcast(&self, hint: Bytes) -> Result<(), HintError> {
        if hint.len() > HINT_BYTES_MAX {
            return Err(HintError::TooLong(hint.len()));
        }
        self.sender.broadcast(hint).await.map_err(|_| HintError::Stopped)
    }

    /// The sites that may be in the topic from now on. A removed site is not thrown out of the topic by this: close its
    /// connections, and move to a new topic it does not know (DESIGN §8).
    pub fn set_members(&self, members: &BTreeSet<SiteId>) {
        self.members
            .send_replace(members.iter().filter_map(endpoint_id).collect());
    }

    /// The next event; `None` when gossip has stopped.
    pub async fn next(&mut self) -> Option<HintEvent> {
        self.events.recv().await
    }
}

/// Forwards events, and looks for neighbours when there are too few: gossip itself never heals a partition.
async fn run(
    sender: GossipSender,
    mut receiver: GossipReceiver,
    mut members: watch::Receiver<Vec<EndpointId>>,
    forward: mpsc::Sender<HintEvent>,
) {
    let mut missed = false;
    let mut look_again = Box::pin(tokio::time::sleep(with_jitter(REJOIN_INTERVAL)));
    loop {
        tokio::select! {
            event = receiver.next() => {
                let Some(Ok(event)) = event else { return };
                let event = match event {
                    Event::Received(message) => {
                        HintEvent::Received { from: site_id(message.delivered_from), content: message.content }
                    }
                    Event::NeighborUp(id) => HintEvent::NeighbourUp(site_id(id)),
                    Event::NeighborDown(id) => HintEvent::NeighbourDown(site_id(id)),
                    Event::Lagged => HintEvent::Missed,
                };
                // Never wait for a slow host here: a full queue in gossip stops every topic.
                if missed && forward.try_send(HintEvent::Missed).is_ok() {
                    missed = false;
                }
                match forward.try_send(event) {
                    Ok(()) => {}
                    Err(mpsc::error::TrySendError::Full(_)) => missed = true,
                    Err(mpsc::error::TrySendError::Closed(_)) => return,
                }
                continue;
            }
            changed = members.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = &mut look_again => look_again = Box::pin(tokio::time::sleep(with_jitter(REJOIN_INTERVAL))),
        }
        let known = members.borrow_and_update().clone();
        if receiver.neighbors().count() < NEIGHBOURS_MIN.min(known.len()) {
            let neighbours: BTreeSet<_> = receiver.neighbors().collect();
            let others: Vec<_> = known.into_iter().filter(|id| !neighbours.contains(id)).collect();
            if sender.join_peers(pick(&others)).await.is_err() {
                return;
            }
        }
    }
}

fn pick(known: &[EndpointId]) -> Vec<EndpointId> {
    known.iter().copied().choose_multiple(&mut rand::rng(), REJOIN_SITES)
}

fn with_jitter(interval: Duration) -> Duration {
    interval + interval.mul_f64(rand::rng().random_range(0.0..1.0 / 3.0))
}

/// The handler of `sovm/gossip/1`.
pub(super) struct HintServer(pub(super) Arc<Hints>);

impl Handler for HintServer {
    fn handle(&self, connection: iroh::endpoint::Connection) -> BoxFuture<'static, ()> {
        let gossip = self.0.gossip.clone();
        Box::pin(async move {
            // Gossip owns the connection from here on; it refuses only when it has stopped.
            let _ = gossip.handle_connection(connection).await;
        })
    }
}
