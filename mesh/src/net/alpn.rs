//! The five protocols sites speak, and the gate that every connection passes before any of them sees it.

use std::fmt;

use sovm_object::id::SiteId;

/// One protocol of this project, negotiated in the TLS handshake.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Alpn {
    /// Object bytes between members, and for blind replicas.
    Blobs,
    /// Hints: something changed, come and sync.
    Gossip,
    /// A stranger with an invite becomes a member.
    Join,
    /// A clean machine with a recovery kit reads opaque bytes.
    Recover,
    /// Reconciliation of entries and records between members.
    Sync,
}

impl Alpn {
    /// All protocols, in a fixed order.
    pub const ALL: [Self; 5] = [Self::Blobs, Self::Gossip, Self::Join, Self::Recover, Self::Sync];

    /// The name as it stands in the TLS handshake.
    pub const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Blobs => b"sovm/blobs/1",
            Self::Gossip => b"sovm/gossip/1",
            Self::Join => b"sovm/join/1",
            Self::Recover => b"sovm/recover/1",
            Self::Sync => b"sovm/sync/1",
        }
    }

    /// The protocol with this name in the handshake.
    pub fn from_bytes(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|alpn| alpn.as_bytes() == name)
    }

    /// Whether a site outside the roster may ever speak it (DESIGN §8: strangers reach only join and recover).
    pub const fn is_open_to_strangers(self) -> bool {
        matches!(self, Self::Join | Self::Recover)
    }
}

impl fmt::Display for Alpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blobs => "blobs",
            Self::Gossip => "gossip",
            Self::Join => "join",
            Self::Recover => "recover",
            Self::Sync => "sync",
        })
    }
}

/// Which side opened a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// The other site called us.
    Incoming,
    /// We called the other site.
    Outgoing,
}

/// Decides, for every protocol and in both directions, whether a connection with a site may exist.
///
/// It is asked right after the TLS handshake, when the site's key is proven and before any handler runs. It must answer
/// from memory: the whole endpoint waits for it. Answers are not remembered; after a roster change call
/// [`MeshEndpoint::disconnect`](super::MeshEndpoint::disconnect) for the sites that lost their place.
pub trait Gate: Send + Sync + 'static {
    /// Whether this connection may exist.
    fn allows(&self, peer: SiteId, alpn: Alpn, direction: Direction) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_foreign_names_are_unknown() {
        for alpn in Alpn::ALL {
            assert_eq!(Alpn::from_bytes(alpn.as_bytes()), Some(alpn));
        }
        for foreign in [&b"sovm/blobs/2"[..], b"/iroh-bytes/4", b""] {
            assert_eq!(Alpn::from_bytes(foreign), None);
        }
    }

    /// DESIGN §8: strangers reach only the join and the recover protocol.
    #[test]
    fn two_protocols_are_open_to_strangers() {
        let open: Vec<_> = Alpn::ALL
            .into_iter()
            .filter(|alpn| alpn.is_open_to_strangers())
            .collect();
        assert_eq!(open, [Alpn::Join, Alpn::Recover]);
    }
}
