//! Serving objects: iroh-blobs speaks the protocol, we decide about every single request.
//!
//! iroh-blobs identifies a connection by the address of its state, which the next connection may reuse, so a table from
//! connection to site could let the wrong site in. Here each connection gets its own event channel, whose task knows the
//! site from the TLS handshake.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use iroh::endpoint::Connection;
use iroh_blobs::provider::{
    self,
    events::{
        AbortReason, ConnectMode, EventMask, EventSender, ObserveMode, ProviderMessage, RequestMode, RequestUpdate,
        ThrottleMode,
    },
};
use sovm_object::id::{SiteId, StorageId};
use tokio::sync::Semaphore;

use super::{BoxFuture, rate::UploadLimit, router::Handler, site_id, storage_id, store::ObjectStore, work::Work};

/// Objects one connection is sent at the same time; further requests wait in line.
const REQUESTS_PER_CONNECTION_MAX: usize = 8;
/// Objects all connections together are sent at the same time.
const REQUESTS_MAX: usize = 64;
/// How long a request waits in line; well under the fetcher's stall timeout.
const LINE_TIMEOUT: Duration = Duration::from_secs(4);
/// Messages of one connection that may wait for its task.
const EVENTS_QUEUED_MAX: usize = 64;

/// Decides which site may read which object.
pub trait ServePolicy: Send + Sync + 'static {
    /// Whether `peer` may read `id`: it is in the roster of a domain that names the object, or a blind replica that was
    /// given it (DESIGN §8). Asked for every request, since a roster may have changed since the connection was made.
    fn may_serve(&self, peer: SiteId, id: StorageId) -> BoxFuture<'_, bool>;
}

/// What was served since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ServeStats {
    /// Requests that were answered.
    pub requests_served: u64,
    /// Requests that the policy refused.
    pub requests_refused: u64,
    /// Object bytes sent.
    pub bytes_sent: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    served: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    pub(super) fn snapshot(&self) -> ServeStats {
        ServeStats {
            requests_served: self.served.load(Ordering::Relaxed),
            requests_refused: self.refused.load(Ordering::Relaxed),
            bytes_sent: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// The handler of `sovm/blobs/1`.
pub(super) struct BlobServer {
    shared: Arc<Shared>,
    store: ObjectStore,
}

struct Shared {
    policy: Arc<dyn ServePolicy>,
    limit: UploadLimit,
    counters: Arc<Counters>,
    slots: Arc<Semaphore>,
    work: Work,
}

impl BlobServer {
    pub(super) fn new(store: ObjectStore, policy: Arc<dyn ServePolicy>, limit: UploadLimit, work: Work) -> Self {
        let counters = Arc::default();
        let slots = Arc::new(Semaphore::new(REQUESTS_MAX));
        Self {
            shared: Arc::new(Shared {
                policy,
                limit,
                counters,
                slots,
                work,
            }),
            store,
        }
    }

    pub(super) fn counters(&self) -> Arc<Counters> {
        self.shared.counters.clone()
    }
}

impl Handler for BlobServer {
    fn handle(&self, connection: Connection) -> BoxFuture<'static, ()> {
        // Only requests for one object exist between us; writes from outside never do. Throttling costs a round trip
        // between tasks for every 16 KiB, so it is asked for only while there is a limit.
        let mask = EventMask {
            connected: ConnectMode::None,
            get: RequestMode::InterceptLog,
            get_many: RequestMode::Disabled,
            push: RequestMode::Disabled,
            observe: ObserveMode::Intercept,
            throttle: if self.shared.limit.get().is_some() {
                ThrottleMode::Intercept
            } else {
                ThrottleMode::None
            },
        };
        let (events, messages) = EventSender::channel(EVENTS_QUEUED_MAX, mask);
        let judge = Judge {
            peer: site_id(connection.remote_id()),
            slots: Arc::new(Semaphore::new(REQUESTS_PER_CONNECTION_MAX)),
            shared: self.shared.clone(),
        };
        let store = self.store.store().clone();
        Box::pin(async move {
            // The judge ends when the last sender is gone: after the connection and all its streams.
            let judging = tokio::spawn(judge.run(messages));
            provider::handle_connection(connection, store, events).await;
            drop(judging);
        })
    }
}

/// Answers the requests of one connection.
struct Judge {
    peer: SiteId,
    slots: Arc<Semaphore>,
    shared: Arc<Shared>,
}

impl Judge {
    async fn run(self, mut messages: tokio::sync::mpsc::Receiver<ProviderMessage>) {
        let judge = Arc::new(self);
        while let Some(message) = messages.recv().await {
            // Every answer in a task of its own: an answer that waits must not keep the others of the connection waiting,
            // and a panic in a policy ends one request.
            tokio::spawn(judge.clone().answer(message));
        }
    }

    async fn answer(self: Arc<Self>, message: ProviderMessage) {
        match message {
            ProviderMessage::GetRequestReceived(message) => {
                let request = &message.inner.request;
                let Some(_running) = self.shared.work.begin() else {
                    // The asker is gone if this fails; so it is for every answer below.
                    let _ = message.tx.send(Err(AbortReason::RateLimited)).await;
                    return;
                };
                // A request for the objects that an object lists would read it as such a list; ours never are.
                let allowed = request.ranges.is_blob() && self.may_serve(storage_id(request.hash)).await;
                if !allowed {
                    self.shared.counters.refused.fetch_add(1, Ordering::Relaxed);
                    let _ = message.tx.send(Err(AbortReason::Permission)).await;
                    return;
                }
                // Told apart from a stall: who waits in line too long is told to come back.
                let slots = async { (self.slots.acquire().await, self.shared.slots.acquire().await) };
                let Ok((Ok(_mine), Ok(_slot))) = tokio::time::timeout(LINE_TIMEOUT, slots).await else {
                    let _ = message.tx.send(Err(AbortReason::RateLimited)).await;
                    return;
                };
                if message.tx.send(Ok(())).await.is_err() {
                    return;
                }
                self.shared.counters.served.fetch_add(1, Ordering::Relaxed);
                // Counts what the transfer sent. Ends with the transfer, and with it the slots are free again.
                let mut updates = message.rx;
                while let Ok(Some(update)) = updates.recv().await {
                    let sent = match &update {
                        RequestUpdate::Completed(done) => done.stats.payload_bytes_sent,
                        RequestUpdate::Aborted(done) => done.stats.payload_bytes_sent,
                        RequestUpdate::Started(_) | RequestUpdate::Progress(_) => 0,
                    };
                    self.shared.counters.bytes.fetch_add(sent, Ordering::Relaxed);
                }
            }
            ProviderMessage::ObserveRequestReceived(message) => {
                let allowed = self.may_serve(storage_id(message.inner.request.hash)).await;
                let answer = if allowed { Ok(()) } else { Err(AbortReason::Permission) };
                let _ = message.tx.send(answer).await;
            }
            ProviderMessage::Throttle(message) => {
                let wait = self.shared.limit.book(message.inner.size, Instant::now());
                if wait > Duration::ZERO {
                    tokio::time::sleep(wait).await;
                }
                let _ = message.tx.send(Ok(())).await;
            }
            // Switched off in the mask: nobody waits for an answer.
            _ => {}
        }
    }

    async fn may_serve(&self, id: StorageId) -> bool {
        self.shared.policy.may_serve(self.peer, id).await
    }
}
