//! Where a site can be reached: what a ticket carries and what peers tell each other.

use std::net::SocketAddr;

use iroh::{EndpointAddr, RelayUrl, TransportAddr};
use sovm_object::id::SiteId;

use super::{endpoint_id, site_id};

/// At most this many addresses of one site are kept; a record with more is cut, not refused.
pub const MAX_ADDRESSES: usize = 16;

/// A site and the places where it was last seen listening. Addresses are hints: the TLS handshake proves the site.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SiteAddress {
    /// Who should answer there.
    pub site: SiteId,
    /// Socket addresses, most useful first.
    pub direct: Vec<SocketAddr>,
    /// URLs of relays through which the site can be reached.
    pub relays: Vec<String>,
}

impl SiteAddress {
    /// A site of which nothing but its id is known; lookups may still find it.
    pub const fn unknown(site: SiteId) -> Self {
        Self {
            site,
            direct: Vec::new(),
            relays: Vec::new(),
        }
    }

    /// Whether there is anything to dial.
    pub fn is_empty(&self) -> bool {
        self.direct.is_empty() && self.relays.is_empty()
    }

    pub(super) fn from_iroh(address: &EndpointAddr) -> Self {
        Self {
            site: site_id(address.id),
            direct: address.ip_addrs().copied().take(MAX_ADDRESSES).collect(),
            relays: address
                .relay_urls()
                .take(MAX_ADDRESSES)
                .map(ToString::to_string)
                .collect(),
        }
    }

    /// `None` when the site id is no key. Relay URLs that do not parse are left out: one bad hint must not hide the others.
    pub(super) fn to_iroh(&self) -> Option<EndpointAddr> {
        let direct = self.direct.iter().take(MAX_ADDRESSES).copied().map(TransportAddr::Ip);
        let relays = self
            .relays
            .iter()
            .take(MAX_ADDRESSES)
            .filter_map(|url| url.parse::<RelayUrl>().ok());
        Some(EndpointAddr::from_parts(
            endpoint_id(&self.site)?,
            direct.chain(relays.map(TransportAddr::Relay)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> SiteId {
        site_id(iroh::SecretKey::from_bytes(&[7; 32]).public())
    }

    #[test]
    fn round_trips_through_iroh() {
        let address = SiteAddress {
            site: site(),
            direct: vec!["127.0.0.1:4433".parse().unwrap()],
            relays: vec!["https://relay.example/".to_owned()],
        };
        assert_eq!(SiteAddress::from_iroh(&address.to_iroh().unwrap()), address);
    }

    #[test]
    fn a_bad_relay_hides_nothing_else_and_a_bad_site_is_refused() {
        let mut address = SiteAddress::unknown(site());
        address.relays = vec!["not a url".to_owned(), "https://relay.example/".to_owned()];
        assert_eq!(
            SiteAddress::from_iroh(&address.to_iroh().unwrap()).relays,
            ["https://relay.example/"]
        );
        // About half of all encodings are no point of the curve.
        let no_key = (0..=255)
            .map(|byte| SiteId::from_bytes([byte; 32]))
            .find(|site| endpoint_id(site).is_none());
        assert!(SiteAddress::unknown(no_key.unwrap()).to_iroh().is_none());
    }
}
