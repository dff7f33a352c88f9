//! Nodes for tests: a gate and a policy that tests can change, and a home that survives a restart.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use sovm_object::{
    id::{SiteId, StorageId},
    secret::SiteKey,
};
use tempfile::TempDir;

use crate::net::{
    Alpn, BoxFuture, Direction, DiskReserve, EndpointConfig, Framed, Gate, Host, MeshEndpoint, MeshNet, ObjectStore,
    ServePolicy, StreamEnd, StreamHandler, UploadLimit,
};

/// No reserve, so that tests run on a nearly full disk.
pub(super) const NO_RESERVE: DiskReserve = DiskReserve { bytes: 0, percent: 0 };

/// Who is a member, as one node sees it.
#[derive(Default)]
pub(super) struct Roster {
    members: Mutex<BTreeSet<SiteId>>,
    pub(super) trusting: AtomicBool,
    pub(super) invite_open: AtomicBool,
}

impl Roster {
    pub(super) fn add(&self, site: SiteId) {
        self.members.lock().unwrap().insert(site);
    }

    pub(super) fn remove(&self, site: SiteId) {
        self.members.lock().unwrap().remove(&site);
    }
}

impl Gate for Roster {
    fn allows(&self, peer: SiteId, alpn: Alpn, _: Direction) -> bool {
        self.trusting.load(Ordering::SeqCst)
            || self.members.lock().unwrap().contains(&peer)
            || (alpn.is_open_to_strangers() && self.invite_open.load(Ordering::SeqCst))
    }
}

/// Serves everything but what a test forbids, and counts how often it was asked.
#[derive(Default)]
pub(super) struct Policy {
    pub(super) forbidden: Mutex<BTreeSet<StorageId>>,
    pub(super) asked: AtomicUsize,
}

impl ServePolicy for Policy {
    fn may_serve(&self, _: SiteId, id: StorageId) -> BoxFuture<'_, bool> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let allowed = !self.forbidden.lock().unwrap().contains(&id);
        Box::pin(async move { allowed })
    }
}

/// Sends every frame back. The frame `panic` makes it panic, `refuse` makes it refuse.
#[derive(Default)]
pub(super) struct Echo {
    pub(super) streams: AtomicUsize,
    pub(super) binding: Mutex<Option<[u8; 32]>>,
}

impl StreamHandler for Echo {
    fn handle<'a>(&'a self, stream: &'a mut Framed) -> BoxFuture<'a, Result<(), StreamEnd>> {
        self.streams.fetch_add(1, Ordering::SeqCst);
        *self.binding.lock().unwrap() = Some(*stream.channel_binding());
        Box::pin(async move {
            while let Some(frame) = stream.recv().await? {
                match &frame[..] {
                    b"panic" => panic!("asked for"),
                    b"refuse" => return Err(StreamEnd::Refused),
                    _ => stream.send(&frame).await?,
                }
            }
            Ok(())
        })
    }
}

/// A node with its home.
pub(super) struct Node {
    pub(super) net: MeshNet,
    pub(super) roster: Arc<Roster>,
    pub(super) policy: Arc<Policy>,
    pub(super) echo: Arc<Echo>,
    pub(super) home: Home,
}

/// What stays when a node stops.
pub(super) struct Home {
    pub(super) key: SiteKey,
    pub(super) dir: TempDir,
}

impl Home {
    pub(super) fn new() -> Self {
        Self {
            key: SiteKey::generate(),
            dir: TempDir::new().unwrap(),
        }
    }

    /// Where its objects lie.
    pub(super) fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("blobs")
    }

    pub(super) async fn store(&self) -> ObjectStore {
        ObjectStore::open(self.root(), NO_RESERVE).await.unwrap()
    }

    pub(super) async fn start(self) -> Node {
        self.start_with(UploadLimit::unlimited()).await
    }

    pub(super) async fn start_with(self, limit: UploadLimit) -> Node {
        let (roster, policy, echo) = (
            Arc::<Roster>::default(),
            Arc::<Policy>::default(),
            Arc::<Echo>::default(),
        );
        let endpoint = MeshEndpoint::bind(&EndpointConfig::loopback(), &self.key, roster.clone())
            .await
            .unwrap();
        let host = Host {
            serve: policy.clone(),
            join: Some(echo.clone()),
            recover: None,
            sync: Some(echo.clone()),
        };
        let net = MeshNet::start(endpoint, self.store().await, host, limit);
        Node {
            net,
            roster,
            policy,
            echo,
            home: self,
        }
    }
}

impl Node {
    pub(super) async fn new() -> Self {
        Home::new().start().await
    }

    pub(super) fn site(&self) -> SiteId {
        self.net.endpoint().site()
    }

    /// Makes both members of each other's roster and tells both where the other is.
    pub(super) fn befriend(&self, other: &Self) {
        for (one, two) in [(self, other), (other, self)] {
            one.roster.add(two.site());
            one.net.endpoint().learn(&two.net.endpoint().address());
        }
    }

    pub(super) async fn stop(self) -> Home {
        self.net.shutdown().await.unwrap();
        self.home
    }
}

/// Two nodes that are members of one mesh.
pub(super) async fn pair() -> (Node, Node) {
    let (one, two) = (Node::new().await, Node::new().await);
    one.befriend(&two);
    (one, two)
}

/// An object of `len` bytes that differs for every seed.
pub(super) fn object(len: usize, seed: u8) -> (StorageId, Bytes) {
    let mut bytes = vec![0; len];
    let mut reader = blake3::Hasher::new().update(&[seed]).finalize_xof();
    reader.fill(&mut bytes);
    (StorageId::from_bytes(*blake3::hash(&bytes).as_bytes()), bytes.into())
}

/// Waits for something that happens elsewhere.
pub(super) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never happened: {what}");
}
