//! The connections that exist right now, so that a removed site's can be closed.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use iroh::EndpointAddr;
use iroh::endpoint::{
    AfterHandshakeOutcome, BeforeConnectOutcome, Connection, EndpointHooks, Side, VarInt, WeakConnectionHandle,
};
use sovm_object::id::SiteId;

use super::{
    alpn::{Alpn, Direction, Gate},
    endpoint::{PeerStatus, Route},
    site_id,
};

/// Close codes this project uses on connections and streams.
pub(super) mod code {
    use super::VarInt;

    /// Orderly end.
    pub(in crate::net) const DONE: VarInt = VarInt::from_u32(0);
    /// The gate or a policy said no.
    pub(in crate::net) const NOT_ALLOWED: VarInt = VarInt::from_u32(0x53_01);
    /// A bound was reached; try later.
    pub(in crate::net) const BUSY: VarInt = VarInt::from_u32(0x53_02);
    /// The peer broke the protocol.
    pub(in crate::net) const PROTOCOL: VarInt = VarInt::from_u32(0x53_03);
    /// We failed.
    pub(in crate::net) const INTERNAL: VarInt = VarInt::from_u32(0x53_04);
    /// We are stopping.
    pub(in crate::net) const STOPPING: VarInt = VarInt::from_u32(0x53_05);
}

struct Tracked {
    alpn: Alpn,
    // Weak: a strong handle here would keep every connection open for ever and disable close-on-drop.
    handle: WeakConnectionHandle,
}

impl Tracked {
    fn open(&self) -> Option<Connection> {
        self.handle
            .upgrade()
            .filter(|connection| connection.close_reason().is_none())
    }
}

/// All live connections by site, held weakly.
#[derive(Default)]
pub(super) struct LiveConnections {
    by_site: Mutex<BTreeMap<SiteId, Vec<Tracked>>>,
}

impl LiveConnections {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<SiteId, Vec<Tracked>>> {
        self.by_site.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn track(&self, alpn: Alpn, connection: &Connection) {
        let mut by_site = self.lock();
        let tracked = by_site.entry(site_id(connection.remote_id())).or_default();
        tracked.retain(|other| other.open().is_some());
        tracked.push(Tracked {
            alpn,
            handle: connection.weak_handle(),
        });
    }

    /// Closes everything that is open with a site. Returns how many connections that were.
    pub(super) fn close(&self, site: &SiteId) -> usize {
        let tracked = self.lock().remove(site).unwrap_or_default();
        let open = tracked.iter().filter_map(Tracked::open);
        open.map(|connection| connection.close(code::NOT_ALLOWED, b"not a member"))
            .count()
    }

    /// What is open now, one row a site.
    pub(super) fn status(&self) -> Vec<PeerStatus> {
        let mut by_site = self.lock();
        by_site.retain(|_, tracked| {
            tracked.retain(|one| one.open().is_some());
            !tracked.is_empty()
        });
        let row = |(site, tracked): (&SiteId, &Vec<Tracked>)| {
            let mut alpns: Vec<_> = tracked.iter().map(|one| one.alpn).collect();
            alpns.sort_unstable();
            alpns.dedup();
            let (route, rtt) = tracked
                .iter()
                .filter_map(Tracked::open)
                .map(|connection| route_of(&connection))
                .max_by_key(|(route, _)| *route)
                .unwrap_or((Route::Unknown, None));
            PeerStatus {
                site: *site,
                alpns,
                route,
                rtt,
            }
        };
        by_site.iter().map(row).collect()
    }
}

pub(super) fn route_of(connection: &Connection) -> (Route, Option<Duration>) {
    let paths = connection.paths();
    let Some(path) = paths
        .iter()
        .find(|path| path.is_selected())
        .or_else(|| paths.iter().next())
    else {
        return (Route::Unknown, None);
    };
    let route = if path.is_relay() { Route::Relayed } else { Route::Direct };
    (route, Some(path.rtt()))
}

/// The hook iroh calls for every connection: asks the gate, remembers what was let through.
pub(super) struct MembershipHook {
    pub(super) gate: Arc<dyn Gate>,
    pub(super) live: Arc<LiveConnections>,
}

impl fmt::Debug for MembershipHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MembershipHook")
    }
}

impl EndpointHooks for MembershipHook {
    async fn before_connect<'a>(&'a self, remote: &'a EndpointAddr, alpn: &'a [u8]) -> BeforeConnectOutcome {
        let allowed =
            Alpn::from_bytes(alpn).is_some_and(|alpn| self.gate.allows(site_id(remote.id), alpn, Direction::Outgoing));
        if allowed {
            BeforeConnectOutcome::Accept
        } else {
            BeforeConnectOutcome::Reject
        }
    }

    async fn after_handshake<'a>(&'a self, connection: &'a Connection) -> AfterHandshakeOutcome {
        let direction = match connection.side() {
            Side::Client => Direction::Outgoing,
            Side::Server => Direction::Incoming,
        };
        if let Some(alpn) = Alpn::from_bytes(connection.alpn()) {
            // First remembered, then judged: a removal that comes between the two finds the connection and closes it.
            self.live.track(alpn, connection);
            if self.gate.allows(site_id(connection.remote_id()), alpn, direction) {
                return AfterHandshakeOutcome::Accept;
            }
        }
        AfterHandshakeOutcome::Reject {
            error_code: code::NOT_ALLOWED,
            reason: b"not a member".to_vec(),
        }
    }
}
