//! Everything of this folder together: what runs, and the order in which it stops.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::Mutex;
use tracing::{debug, warn};

use super::{
    alpn::Alpn,
    endpoint::MeshEndpoint,
    fetch::Fetcher,
    gossip::{HintServer, Hints},
    protocol::{StreamHandler, StreamProtocol},
    rate::UploadLimit,
    router::{Handler, Router},
    serve::{BlobServer, Counters, ServePolicy, ServeStats},
    store::{ObjectStore, StoreError},
    work::Work,
};

/// How long a stop waits for running transfers and streams before it cuts them off.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// What the node's engine answers. A protocol without a handler is not offered at all.
pub struct Host {
    /// Who may read which object.
    pub serve: Arc<dyn ServePolicy>,
    /// Streams of strangers with an invite.
    pub join: Option<Arc<dyn StreamHandler>>,
    /// Streams of clean machines with a recovery kit.
    pub recover: Option<Arc<dyn StreamHandler>>,
    /// Reconciliation streams of members.
    pub sync: Option<Arc<dyn StreamHandler>>,
}

/// A running node on the network.
pub struct MeshNet {
    endpoint: MeshEndpoint,
    store: ObjectStore,
    hints: Arc<Hints>,
    limit: UploadLimit,
    counters: Arc<Counters>,
    work: Work,
    router: Mutex<Option<Router>>,
}

impl MeshNet {
    /// Starts answering other sites.
    pub fn start(endpoint: MeshEndpoint, store: ObjectStore, host: Host, limit: UploadLimit) -> Self {
        let work = Work::default();
        let hints = Arc::new(Hints::spawn(&endpoint));
        let blobs = BlobServer::new(store.clone(), host.serve, limit.clone(), work.clone());
        let counters = blobs.counters();
        let mut handlers: BTreeMap<Alpn, Arc<dyn Handler>> = BTreeMap::new();
        handlers.insert(Alpn::Blobs, Arc::new(blobs));
        handlers.insert(Alpn::Gossip, Arc::new(HintServer(hints.clone())));
        for (alpn, handler) in [
            (Alpn::Join, host.join),
            (Alpn::Recover, host.recover),
            (Alpn::Sync, host.sync),
        ] {
            if let Some(handler) = handler {
                handlers.insert(alpn, Arc::new(StreamProtocol::new(alpn, handler, work.clone())));
            }
        }
        let router = Mutex::new(Some(Router::spawn(endpoint.iroh(), handlers)));
        Self {
            endpoint,
            store,
            hints,
            limit,
            counters,
            work,
            router,
        }
    }

    /// The endpoint.
    pub const fn endpoint(&self) -> &MeshEndpoint {
        &self.endpoint
    }

    /// The objects.
    pub const fn store(&self) -> &ObjectStore {
        &self.store
    }

    /// A fetcher from other sites into our store.
    pub fn fetcher(&self) -> Fetcher {
        Fetcher::new(self.endpoint.clone(), self.store.clone())
    }

    /// Hint topics.
    pub fn hints(&self) -> &Hints {
        &self.hints
    }

    /// The upload limit, to change it while running.
    pub const fn upload_limit(&self) -> &UploadLimit {
        &self.limit
    }

    /// What was served since the start.
    pub fn served(&self) -> ServeStats {
        self.counters.snapshot()
    }

    /// Stops in the one order that loses nothing: refuse new work, let running work end (five seconds at most), leave
    /// the hint topics, accept nothing more, commit and close the store, close the endpoint.
    ///
    /// The caller has stopped its own fetches and committed its catalogue before. Calling it twice is allowed.
    pub async fn shutdown(&self) -> Result<(), StoreError> {
        let Some(router) = self.router.lock().await.take() else {
            return Ok(());
        };
        if !self.work.stop(STOP_GRACE).await {
            warn!("some transfers did not end in time and are cut off; they resume at the next start");
        }
        self.hints.shutdown().await;
        router.stop().await;
        let closed = self.store.shutdown().await;
        // Last: it may wait up to three seconds for peers to take notice, which the store need not stay open for.
        self.endpoint.close().await;
        debug!("network stopped");
        closed
    }
}
