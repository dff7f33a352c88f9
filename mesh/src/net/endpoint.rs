//! The QUIC endpoint of a site: one key, one set of sockets, all protocols.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use iroh::{
    Endpoint, RelayMode, RelayUrl, SecretKey,
    address_lookup::memory::MemoryLookup,
    endpoint::{ConnectOptions, Connection, ConnectionError, PortmapperConfig, QuicTransportConfig, VarInt, presets},
};
use sovm_object::{id::SiteId, secret::SiteKey};
use tokio::task::AbortHandle;

use super::{
    address::SiteAddress,
    alpn::{Alpn, Gate},
    endpoint_id,
    live::{LiveConnections, MembershipHook, code},
    wire::{FrameLimits, Framed, WireError},
};

/// A dialled connection that nobody used for this long is closed: an idle one costs a packet every five seconds.
const IDLE_CLOSE: Duration = Duration::from_secs(30);

/// How other sites are reached when no direct way is known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Relay {
    /// Not at all: direct addresses only.
    #[default]
    Disabled,
    /// Through these relay servers.
    Custom(Vec<String>),
    /// Through number 0's public relays, with number 0's public address lookup (both learn our id and addresses).
    PublicN0,
}

/// Settings of the endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Sockets to listen on; empty means all interfaces, any port.
    pub bind: Vec<SocketAddr>,
    /// Never touch anything but this machine: no relay, no lookup, no port mapping. For tests and the demo.
    pub loopback_only: bool,
    /// Relays.
    pub relay: Relay,
    /// Bytes one connection may have in flight towards us before we have read them; the transport's own default has no bound.
    pub receive_window_bytes: u32,
    /// Streams a peer may have open at once on one connection.
    pub streams_per_connection_max: u32,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            bind: Vec::new(),
            loopback_only: false,
            relay: Relay::Disabled,
            receive_window_bytes: 16 * 1024 * 1024,
            streams_per_connection_max: 64,
            connect_timeout: Duration::from_secs(10),
        }
    }
}

impl EndpointConfig {
    /// One socket on 127.0.0.1 with a port of the system's choice, and nothing else.
    pub fn loopback() -> Self {
        Self {
            bind: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            loopback_only: true,
            ..Self::default()
        }
    }
}

/// The endpoint could not start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A relay in the settings is no URL.
    #[error("the relay {0:?} in the settings is not a URL")]
    BadRelay(String),
    /// A socket address cannot be used.
    #[error("cannot listen on {address}: choose another address or port in the settings")]
    BadAddress {
        /// The address.
        address: SocketAddr,
    },
    /// The sockets could not be opened.
    #[error("cannot open the network sockets")]
    Sockets(#[source] std::io::Error),
}

/// A site could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Our own gate forbids it: the site is not in the roster.
    #[error("not allowed to connect: the site is not a member")]
    NotAllowed,
    /// The site answered and refused us.
    #[error("the site refused the connection: it does not know us as a member")]
    Refused,
    /// The site answered and is at its limit.
    #[error("the site is busy, try again later")]
    Busy,
    /// Nobody answered at the known addresses, or none is known.
    #[error("the site cannot be reached now")]
    Unreachable,
    /// The site id is our own.
    #[error("cannot connect to ourselves")]
    Ourselves,
    /// The site speaks another version of the protocol.
    #[error("the site does not speak {0}; one of the two needs an update")]
    NoSuchProtocol(Alpn),
    /// We are stopping.
    #[error("the node is stopping")]
    Stopping,
    /// The connection was made, but its first stream could not be opened.
    #[error(transparent)]
    Stream(#[from] WireError),
}

/// How packets of a connection travel. Ordered from worse to better.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Route {
    /// Not settled yet.
    Unknown,
    /// Through a relay.
    Relayed,
    /// Straight between the two.
    Direct,
}

/// One site we are connected with, for `status`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PeerStatus {
    /// The site.
    pub site: SiteId,
    /// Protocols with an open connection.
    pub alpns: Vec<Alpn>,
    /// Best route among them.
    pub route: Route,
    /// Round-trip time on that route.
    pub rtt: Option<Duration>,
}

/// The endpoint. Clones are the same endpoint.
#[derive(Clone)]
pub struct MeshEndpoint(Arc<Inner>);

struct Inner {
    endpoint: Endpoint,
    site: SiteId,
    addresses: MemoryLookup,
    live: Arc<LiveConnections>,
    dialled: Mutex<BTreeMap<(SiteId, Alpn), Arc<Slot>>>,
    connect_timeout: Duration,
    sweeper: Mutex<Option<AbortHandle>>,
}

/// The one connection we dialled for a (site, protocol), so that a hundred fetches share it.
#[derive(Debug)]
struct Slot {
    // Held across the dial, so that two callers never dial twice.
    connection: tokio::sync::Mutex<Option<Connection>>,
    since: Instant,
    used_millis: AtomicU64,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            connection: tokio::sync::Mutex::default(),
            since: Instant::now(),
            used_millis: AtomicU64::new(0),
        }
    }
}

impl Slot {
    fn touch(&self) {
        let millis = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.used_millis.store(millis, Ordering::Relaxed);
    }

    fn idle_for(&self) -> Duration {
        let used = Duration::from_millis(self.used_millis.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(used)
    }
}

/// A dialled connection while somebody uses it.
#[derive(Debug)]
pub(super) struct Lease {
    connection: Connection,
    slot: Arc<Slot>,
}

impl Lease {
    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Nothing came over it for too long: the next caller dials anew. A peer that restarted without a word is otherwise
    /// noticed only when the connection times out. Whoever still uses it goes on.
    pub(super) fn distrust(&self) {
        // Locked means that somebody dials right now, and then it is not this one that is kept.
        if let Ok(mut kept) = self.slot.connection.try_lock()
            && kept
                .as_ref()
                .is_some_and(|kept| kept.stable_id() == self.connection.stable_id())
        {
            *kept = None;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.slot.touch();
    }
}

impl MeshEndpoint {
    /// Opens the sockets. The site's own key is the TLS key, so that every peer sees the site id and nothing else is to
    /// be trusted (DESIGN §5).
    pub async fn bind(config: &EndpointConfig, key: &SiteKey, gate: Arc<dyn Gate>) -> Result<Self, BindError> {
        let public = config.relay == Relay::PublicN0 && !config.loopback_only;
        let mut builder = if public {
            Endpoint::builder(presets::N0)
        } else {
            Endpoint::builder(presets::Minimal)
        };
        if !public {
            builder = builder.relay_mode(relay_mode(config)?);
        }
        if config.loopback_only {
            builder = builder.portmapper_config(PortmapperConfig::Disabled);
        }
        if !config.bind.is_empty() {
            builder = builder.clear_ip_transports();
        }
        for address in &config.bind {
            builder = builder
                .bind_addr(*address)
                .map_err(|_| BindError::BadAddress { address: *address })?;
        }
        let live = Arc::new(LiveConnections::default());
        let addresses = MemoryLookup::new();
        let endpoint = builder
            .secret_key(SecretKey::from_bytes(&key.expose_for_sealing()))
            .address_lookup(addresses.clone())
            .transport_config(transport(config))
            .hooks(MembershipHook {
                gate,
                live: live.clone(),
            })
            .bind()
            .await
            .map_err(|error| BindError::Sockets(std::io::Error::other(error)))?;
        let inner = Arc::new(Inner {
            site: super::site_id(endpoint.id()),
            endpoint,
            addresses,
            live,
            dialled: Mutex::default(),
            connect_timeout: config.connect_timeout,
            sweeper: Mutex::default(),
        });
        let sweeper = tokio::spawn(sweep(Arc::downgrade(&inner))).abort_handle();
        *inner.sweeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(sweeper);
        Ok(Self(inner))
    }

    /// Who we are.
    pub fn site(&self) -> SiteId {
        self.0.site
    }

    /// Where we can be reached, as far as we know ourselves; for tickets.
    pub fn address(&self) -> SiteAddress {
        let mut address = SiteAddress::from_iroh(&self.0.endpoint.addr());
        // A socket bound to one address is reachable there, whatever the network report has found so far.
        for bound in self.0.endpoint.bound_sockets() {
            if !bound.ip().is_unspecified() && !address.direct.contains(&bound) {
                address.direct.push(bound);
            }
        }
        address
    }

    /// Takes note of where a site is now. Replaces what was known: after a restart a site has a new port, and old ones
    /// only cost time.
    pub fn learn(&self, address: &SiteAddress) {
        if let Some(address) = address.to_iroh().filter(|address| address.id != self.0.endpoint.id()) {
            self.0.addresses.set_endpoint_info(address);
        }
    }

    /// Where a site was last known to be.
    pub fn known_address(&self, site: &SiteId) -> Option<SiteAddress> {
        let info = self.0.addresses.get_endpoint_info(endpoint_id(site)?)?;
        Some(SiteAddress::from_iroh(&info.to_endpoint_addr()))
    }

    /// Opens a stream for `join`, `recover` or `sync`, over the connection we already have if there is one.
    pub async fn open(&self, peer: SiteId, alpn: Alpn, limits: FrameLimits) -> Result<Framed, ConnectError> {
        let lease = self.connect(peer, alpn).await?;
        let opening = Framed::dialled(lease, alpn, limits);
        let opened = tokio::time::timeout(limits.timeout, opening).await;
        match opened.map_err(|_| WireError::TimedOut(limits.timeout))? {
            // The peer's gate runs after our side of the handshake is complete, so a refusal shows only here.
            Err(WireError::Refused) => Err(ConnectError::Refused),
            Err(WireError::Busy) => Err(ConnectError::Busy),
            other => Ok(other?),
        }
    }

    /// Closes everything that is open with a site, and forgets nothing but that. Returns how many connections were open.
    ///
    /// Call it after the gate has begun to refuse the site: a connection that is being made at this moment is then
    /// either found here or refused there.
    pub fn disconnect(&self, site: &SiteId) -> usize {
        self.dialled().retain(|(peer, _), _| peer != site);
        self.0.live.close(site)
    }

    /// The sites we are connected with now.
    pub fn peers(&self) -> Vec<PeerStatus> {
        self.0.live.status()
    }

    /// Tells the endpoint that the machine's network has changed, where the system tells us and not it.
    pub async fn network_changed(&self) {
        self.0.endpoint.network_change().await;
    }

    /// Completes when the endpoint is closed, by us or by a failure; the node then restarts it.
    pub async fn closed(&self) {
        self.0.endpoint.closed().await;
    }

    /// Closes every connection in order; peers notice at once instead of after their idle time.
    pub async fn close(&self) {
        if let Some(sweeper) = self.0.sweeper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            sweeper.abort();
        }
        self.dialled().clear();
        self.0.endpoint.close().await;
    }

    pub(super) fn iroh(&self) -> &Endpoint {
        &self.0.endpoint
    }

    /// A connection to use now: the one we have, or a new one.
    pub(super) async fn connect(&self, peer: SiteId, alpn: Alpn) -> Result<Lease, ConnectError> {
        let slot = self.dialled().entry((peer, alpn)).or_default().clone();
        let mut connection = slot.connection.lock().await;
        if connection.as_ref().is_none_or(|open| open.close_reason().is_some()) {
            *connection = None;
            *connection = Some(self.dial(peer, alpn).await?);
        }
        let open = connection.clone().ok_or(ConnectError::Unreachable)?;
        drop(connection);
        Ok(Lease { connection: open, slot })
    }

    async fn dial(&self, peer: SiteId, alpn: Alpn) -> Result<Connection, ConnectError> {
        let id = endpoint_id(&peer).ok_or(ConnectError::Unreachable)?;
        let dialling = async {
            let connecting = self
                .0
                .endpoint
                .connect_with_opts(id, alpn.as_bytes(), ConnectOptions::new())
                .await;
            connecting
                .map_err(connect_refusal)?
                .await
                .map_err(|error| handshake_refusal(error, alpn))
        };
        tokio::time::timeout(self.0.connect_timeout, dialling)
            .await
            .unwrap_or(Err(ConnectError::Unreachable))
    }

    fn dialled(&self) -> std::sync::MutexGuard<'_, BTreeMap<(SiteId, Alpn), Arc<Slot>>> {
        self.0.dialled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes dialled connections that nobody has used for a while.
async fn sweep(endpoint: Weak<Inner>) {
    loop {
        tokio::time::sleep(IDLE_CLOSE / 3).await;
        let Some(inner) = endpoint.upgrade() else { return };
        inner
            .dialled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, slot| {
                // A second owner is a lease, or a caller about to become one.
                if Arc::strong_count(slot) > 1 || slot.idle_for() < IDLE_CLOSE {
                    return true;
                }
                if let Ok(mut connection) = slot.connection.try_lock()
                    && let Some(idle) = connection.take()
                {
                    idle.close(code::DONE, b"idle");
                }
                false
            });
    }
}

fn relay_mode(config: &EndpointConfig) -> Result<RelayMode, BindError> {
    match &config.relay {
        Relay::Custom(urls) if !config.loopback_only => {
            let parse = |url: &String| url.parse::<RelayUrl>().map_err(|_| BindError::BadRelay(url.clone()));
            Ok(RelayMode::custom(
                urls.iter().map(parse).collect::<Result<Vec<_>, _>>()?,
            ))
        }
        _ => Ok(RelayMode::Disabled),
    }
}

fn transport(config: &EndpointConfig) -> QuicTransportConfig {
    QuicTransportConfig::builder()
        .receive_window(VarInt::from_u32(config.receive_window_bytes))
        .max_concurrent_bidi_streams(VarInt::from_u32(config.streams_per_connection_max))
        .build()
}

fn connect_refusal(error: iroh::endpoint::ConnectWithOptsError) -> ConnectError {
    use iroh::endpoint::ConnectWithOptsError as Error;
    match error {
        Error::LocallyRejected { .. } => ConnectError::NotAllowed,
        Error::SelfConnect { .. } => ConnectError::Ourselves,
        Error::EndpointClosed { .. } => ConnectError::Stopping,
        _ => ConnectError::Unreachable,
    }
}

fn handshake_refusal(error: iroh::endpoint::ConnectingError, alpn: Alpn) -> ConnectError {
    use iroh::endpoint::ConnectingError as Error;
    match error {
        Error::LocallyRejected { .. } => ConnectError::NotAllowed,
        Error::ConnectionError { source, .. } => match source {
            ConnectionError::ApplicationClosed(close) if close.error_code == code::NOT_ALLOWED => ConnectError::Refused,
            ConnectionError::ApplicationClosed(close) if close.error_code == code::BUSY => ConnectError::Busy,
            // TLS alert 120, no_application_protocol, as QUIC carries it.
            ConnectionError::ConnectionClosed(close) if u64::from(close.error_code) == 0x100 + 120 => {
                ConnectError::NoSuchProtocol(alpn)
            }
            _ => ConnectError::Unreachable,
        },
        _ => ConnectError::Unreachable,
    }
}
