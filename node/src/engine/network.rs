//! The node on the network: who may connect, what is served, and the tasks that keep members level.
//!
//! Everything here is a hint or a claim until the catalogue admits it or the object store verifies it. Tasks hold the node weakly
//! and end when it closes.

mod address;
mod follow;
mod invites;
mod join;
mod members;
mod placement;
mod receive;
mod session;
mod set;
mod transfer;

pub(super) use self::{address::remember, members::OpDraft};

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sovm_catalog::{Read, Scope, Snapshot};
use sovm_mesh::net::{
    BoxFuture,
    alpn::{Alpn, Direction, Gate},
    endpoint::{EndpointConfig, MeshEndpoint, Relay, Route},
    node::{Host, MeshNet},
    rate::UploadLimit,
    serve::ServePolicy,
};
use sovm_object::{
    id::{SiteId, StorageId},
    record::Role,
    secret::SiteKey,
};
use tokio::task::JoinSet;

use super::{core::Core, reports::NOTHING_MOVED};
use crate::{
    api::{PeerInfo, TransferInfo},
    error::{ApiError, ErrorKind},
};

/// Pause between two rounds of reconciliation with a peer when nothing happens.
const ROUND: Duration = Duration::from_secs(30);

/// Metadata row with the port used last, so that peers find a restarted node where it was.
const META_PORT: &str = "last-port";

/// What a running node has on the network.
pub(super) struct Network {
    pub(super) net: MeshNet,
    pub(super) allow: Arc<Allow>,
    guests: invites::Guests,
    pub(super) fetched_bytes: AtomicU64,
    /// Bytes here of objects that are being fetched.
    pub(super) partly: Mutex<BTreeMap<StorageId, u64>>,
    /// What was learnt of each peer since the start.
    peers: Mutex<BTreeMap<SiteId, session::PeerState>>,
    tasks: Mutex<JoinSet<()>>,
}

/// Who may connect, in memory: the gate answers while the endpoint waits.
#[derive(Default)]
pub(super) struct Allow(RwLock<Allowed>);

#[derive(Default)]
struct Allowed {
    members: BTreeMap<SiteId, Role>,
    join_open: bool,
}

impl Allow {
    fn set(&self, members: BTreeMap<SiteId, Role>) -> Vec<SiteId> {
        let mut allowed = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let gone = allowed
            .members
            .keys()
            .filter(|site| !members.contains_key(site))
            .copied()
            .collect();
        allowed.members = members;
        gone
    }

    pub(super) fn set_join_open(&self, open: bool) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).join_open = open;
    }

    pub(super) fn role(&self, site: &SiteId) -> Option<Role> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .members
            .get(site)
            .copied()
    }
}

impl Gate for Allow {
    /// DESIGN §8: strangers reach the join protocol while an invite is open, and nothing else. The recover protocol needs the key
    /// of a kit, which stands in the roster.
    fn allows(&self, peer: SiteId, alpn: Alpn, direction: Direction) -> bool {
        let allowed = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let role = allowed.members.get(&peer);
        match (alpn, direction) {
            (Alpn::Join, Direction::Incoming) => allowed.join_open,
            (Alpn::Join | Alpn::Recover, Direction::Outgoing) => true,
            (Alpn::Recover, Direction::Incoming) => role == Some(&Role::Recovery),
            (Alpn::Gossip, _) => role.is_some_and(|role| role.reads()),
            (Alpn::Blobs | Alpn::Sync, _) => role.is_some(),
        }
    }
}

/// Serves objects to those who may have them.
struct Serve(Weak<Core>);

impl ServePolicy for Serve {
    fn may_serve(&self, peer: SiteId, id: StorageId) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let Some(core) = self.0.upgrade() else {
                return false;
            };
            core.may_serve(&peer, &id).unwrap_or(false)
        })
    }
}

impl Core {
    /// Binds the endpoint and starts everything that talks to others.
    pub(super) async fn go_online(self: &Arc<Self>) -> Result<(), ApiError> {
        let allow = Arc::new(Allow::default());
        let key = SiteKey::from_seed(&self.keys().site_key().expose_for_sealing());
        let endpoint = self.bind(&key, allow.clone()).await?;
        let weak = Arc::downgrade(self);
        let host = Host {
            serve: Arc::new(Serve(weak.clone())),
            join: Some(Arc::new(join::JoinHandler(weak.clone()))),
            recover: Some(Arc::new(placement::RecoverHandler(weak.clone()))),
            sync: Some(Arc::new(session::SyncHandler(weak.clone()))),
        };
        let limit = match self.config.limits.upload {
            Some(rate) => UploadLimit::bytes_per_second(rate),
            None => UploadLimit::unlimited(),
        };
        let net = MeshNet::start(endpoint, self.blobs.clone(), host, limit);
        let network = Network {
            net,
            allow,
            guests: invites::Guests::default(),
            fetched_bytes: AtomicU64::new(0),
            partly: Mutex::default(),
            peers: Mutex::default(),
            tasks: Mutex::default(),
        };
        if self.net.set(network).is_err() {
            return Err(ApiError::bug("the node is online already"));
        }
        self.learn_known_addresses()?;
        self.check_held().await?;
        self.find_partly_fetched().await?;
        self.refresh_allow()?;
        let network = self.network()?;
        let mut tasks = network.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.spawn(session::keep_level(weak.clone()));
        tasks.spawn(transfer::fetch_missing(weak.clone()));
        tasks.spawn(placement::keep_placed(weak.clone()));
        if let Some(every_ms) = self.config.editions.prefetch_every {
            tasks.spawn(super::inventory::list_ahead(weak.clone(), every_ms));
        }
        tasks.spawn(super::orphans::keep_house(weak));
        Ok(())
    }

    async fn bind(&self, key: &SiteKey, allow: Arc<Allow>) -> Result<MeshEndpoint, ApiError> {
        let wanted = self.config.network.bind.clone();
        let relays = self.config.network.relays.clone();
        let mut config = EndpointConfig {
            loopback_only: !wanted.is_empty() && wanted.iter().all(|address| address.ip().is_loopback()),
            relay: if relays.is_empty() {
                Relay::Disabled
            } else {
                Relay::Custom(relays)
            },
            bind: wanted.clone(),
            ..EndpointConfig::default()
        };
        // Where any port will do, the one used last is best: peers look there first.
        let any_port = wanted.is_empty() || wanted.iter().all(|address| address.port() == 0);
        if any_port && let Some(port) = self.last_port()? {
            config.bind = if wanted.is_empty() {
                vec![SocketAddr::from(([0, 0, 0, 0], port))]
            } else {
                wanted
                    .iter()
                    .map(|address| SocketAddr::new(address.ip(), port))
                    .collect()
            };
            if let Ok(endpoint) = MeshEndpoint::bind(&config, key, allow.clone()).await {
                return Ok(endpoint);
            }
            config.bind = wanted;
        }
        let endpoint = MeshEndpoint::bind(&config, key, allow).await.map_err(|error| {
            ApiError::new(ErrorKind::Network, super::convert::chain(&error))
                .safe("nothing was changed")
                .next("choose other addresses under [network] bind in config.toml")
        })?;
        if let Some(address) = endpoint.address().direct.iter().find(|address| address.is_ipv4()) {
            let mut txn = self.catalog.begin()?;
            txn.put_meta(META_PORT, address.port().to_string().as_bytes())?;
            self.save(txn)?;
        }
        Ok(endpoint)
    }

    fn last_port(&self) -> Result<Option<u16>, ApiError> {
        let stored = self.read()?.meta(META_PORT)?;
        Ok(stored.and_then(|port| String::from_utf8(port).ok()?.parse().ok()))
    }

    /// What is open on the network.
    pub(super) fn network(&self) -> Result<&Network, ApiError> {
        self.net.get().ok_or_else(|| {
            ApiError::new(ErrorKind::Network, "this command opened the node without its network")
                .next("start the node with sovm run, then repeat the command")
        })
    }

    pub(super) fn is_online(&self) -> bool {
        self.net.get().is_some()
    }

    /// Stops the tasks and the endpoint, in that order.
    pub(super) async fn go_offline(&self) {
        let Some(network) = self.net.get() else {
            return;
        };
        let mut tasks = std::mem::take(&mut *network.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        if network.net.shutdown().await.is_err() {
            tracing::warn!("the network did not stop in order");
        }
    }

    /// Makes the gate follow the roster, and hangs up on those who are out.
    pub(super) fn refresh_allow(&self) -> Result<(), ApiError> {
        let Some(network) = self.net.get() else {
            return Ok(());
        };
        let snapshot = self.read()?;
        let members: BTreeMap<_, _> = match snapshot.roster(Scope::Mesh)? {
            // A device that was removed itself talks to nobody any more.
            Some(roster) if roster.role(&self.me).is_some() => roster
                .members()
                .filter(|(site, ..)| *site != self.me)
                .map(|(site, role, _)| (site, role))
                .collect(),
            _ => BTreeMap::new(),
        };
        for gone in network.allow.set(members) {
            network.net.endpoint().disconnect(&gone);
        }
        network.allow.set_join_open(self.has_open_invite()?);
        Ok(())
    }

    /// Whether a site may have an object's bytes: its domain's members, blind replicas it was placed with, and the keys of kits.
    fn may_serve(&self, peer: &SiteId, id: &StorageId) -> Result<bool, ApiError> {
        let Some(role) = self.network()?.allow.role(peer) else {
            return Ok(false);
        };
        // A blind replica serves what members placed with it, and cannot know more.
        if role == Role::Blind || role == Role::Recovery || self.is_blind()? {
            return Ok(role != Role::Blind || self.is_blind()? || self.was_placed_with(peer, id)?);
        }
        let snapshot = self.read()?;
        for domain in self.domains_of_object(&snapshot, id)? {
            if let Some(roster) = snapshot.roster(Scope::Domain(domain))?
                && roster.role(peer).is_some_and(Role::reads)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a member is reached now, and when it was last.
    pub(super) fn seen(&self, site: &SiteId) -> (bool, Option<u64>) {
        let Some(network) = self.net.get() else {
            return (false, None);
        };
        let peers = network.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers
            .get(site)
            .map_or((false, None), |peer| (peer.online, peer.last_seen_ms))
    }

    /// Bytes here of an object that is being fetched.
    pub(super) fn partly_fetched(&self, id: &StorageId) -> u64 {
        let Some(network) = self.net.get() else {
            return 0;
        };
        network
            .partly
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
            .copied()
            .unwrap_or(0)
    }

    /// Peers and traffic, for `status`.
    pub(super) fn network_report(&self, snapshot: &Snapshot) -> Result<(Vec<PeerInfo>, TransferInfo), ApiError> {
        let Some(network) = self.net.get() else {
            return Ok((Vec::new(), NOTHING_MOVED));
        };
        let bindings = snapshot.bindings()?;
        let live: BTreeMap<_, _> = network
            .net
            .endpoint()
            .peers()
            .into_iter()
            .map(|status| (status.site, status))
            .collect();
        let mut peers = Vec::new();
        if let Some(roster) = snapshot.roster(Scope::Mesh)? {
            for (site, role, _) in roster.members() {
                if site == self.me || role == Role::Recovery {
                    continue;
                }
                let (online, last_seen_ms) = self.seen(&site);
                let status = live.get(&site);
                peers.push(PeerInfo {
                    site: site.to_string(),
                    name: bindings.get(&site).map(|binding| binding.body().display_name.clone()),
                    online: online || status.is_some(),
                    rtt_us: status.and_then(|status| status.rtt).map(|rtt| rtt.as_micros() as u64),
                    relayed: status.and_then(|status| match status.route {
                        Route::Relayed => Some(true),
                        Route::Direct => Some(false),
                        Route::Unknown => None,
                    }),
                    last_seen_ms,
                });
            }
        }
        let transfer = TransferInfo {
            fetched_bytes: network.fetched_bytes.load(Ordering::Relaxed),
            served_bytes: network.net.served().bytes_sent,
        };
        Ok((peers, transfer))
    }
}
