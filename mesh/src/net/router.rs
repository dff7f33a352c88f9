//! The accept loop.
//!
//! iroh's own router ends, and closes the endpoint, when any handler panics; and it closes the endpoint before the store
//! could be brought to rest. Here a connection is one task, its panic is its own, and who stops what and when is decided
//! in [`node`](super::node).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use iroh::{
    Endpoint,
    endpoint::{Connection, Incoming},
};
use tokio::{
    sync::Semaphore,
    task::{AbortHandle, JoinHandle, JoinSet},
};
use tracing::{debug, warn};

use super::{BoxFuture, alpn::Alpn, live::code};

/// Handshakes in progress at the same time, for all protocols; beyond, callers are turned away.
const HANDSHAKES_MAX: usize = 64;
/// From this many on, a caller must first show that packets reach it, so that forged senders cost nothing.
const HANDSHAKES_UNVALIDATED_MAX: usize = 16;
/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// What happens with the connections of one protocol.
pub(super) trait Handler: Send + Sync + 'static {
    /// Runs until the connection has no more use. The connection has passed the gate.
    fn handle(&self, connection: Connection) -> BoxFuture<'static, ()>;
}

/// The running loop.
pub(super) struct Router {
    accepting: JoinHandle<()>,
    stop: AbortHandle,
}

impl Router {
    pub(super) fn spawn(endpoint: &Endpoint, handlers: BTreeMap<Alpn, Arc<dyn Handler>>) -> Self {
        endpoint.set_alpns(handlers.keys().map(|alpn| alpn.as_bytes().to_vec()).collect());
        let accepting = tokio::spawn(accept(endpoint.clone(), Arc::new(handlers)));
        let stop = accepting.abort_handle();
        Self { accepting, stop }
    }

    /// Takes no more connections, and ends those that are running.
    pub(super) async fn stop(self) {
        self.stop.abort();
        // Cancelled is what it should be; its connections' tasks end with it.
        let _ = self.accepting.await;
    }
}

async fn accept(endpoint: Endpoint, handlers: Arc<BTreeMap<Alpn, Arc<dyn Handler>>>) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    // Dropped with this task, which ends every connection's task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(ended) = connections.join_next() => {
                if ended.is_err_and(|error| error.is_panic()) {
                    warn!("a connection's handler panicked; the connection is closed, everything else goes on");
                }
            }
            incoming = endpoint.accept() => {
                let Some(incoming) = incoming else { return };
                let Some(incoming) = admit(incoming, handshakes.available_permits()) else { continue };
                let (handlers, handshakes) = (handlers.clone(), handshakes.clone());
                connections.spawn(async move {
                    let Ok(permit) = handshakes.try_acquire_owned() else { return };
                    let Ok(Ok(connection)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, incoming).await else {
                        debug!("a handshake did not complete");
                        return;
                    };
                    drop(permit);
                    match Alpn::from_bytes(connection.alpn()).and_then(|alpn| handlers.get(&alpn)) {
                        Some(handler) => handler.handle(connection).await,
                        None => connection.close(code::PROTOCOL, b"unknown protocol"),
                    }
                });
            }
        }
    }
}

/// Turns away callers we have no room for. `None` when this one was answered here.
fn admit(incoming: Incoming, free: usize) -> Option<Incoming> {
    if free == 0 {
        incoming.refuse();
        return None;
    }
    if HANDSHAKES_MAX - free >= HANDSHAKES_UNVALIDATED_MAX && !incoming.remote_addr_validated() {
        if let Err(error) = incoming.retry() {
            error.into_incoming().refuse();
        }
        return None;
    }
    Some(incoming)
}
