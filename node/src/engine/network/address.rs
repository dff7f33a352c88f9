//! Where peers are: told by themselves, kept in the catalogue, tried at the next start.

use sovm_catalog::{Read, Txn};
use sovm_mesh::{net::address::SiteAddress, proto::peer::Whereabouts};
use sovm_object::{
    cbor::{Decoder, Encoder},
    id::SiteId,
};

use super::super::core::Core;
use crate::error::ApiError;

/// Metadata row with the newest address of every site.
const META_ADDRESSES: &str = "addresses";

/// Most sites remembered.
const MAX_SITES: usize = 4_096;

/// An address as peers tell it.
pub(super) fn whereabouts(address: &SiteAddress) -> Whereabouts {
    Whereabouts {
        site: address.site,
        direct: address
            .direct
            .iter()
            .take(16)
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .into(),
        relays: address.relays.iter().take(16).cloned().collect::<Vec<_>>().into(),
    }
}

/// An address out of what a peer told. What does not parse is left out.
pub(super) fn address_of(told: &Whereabouts) -> SiteAddress {
    SiteAddress {
        site: told.site,
        direct: told.direct.iter().filter_map(|text| text.parse().ok()).collect(),
        relays: told.relays.to_vec(),
    }
}

fn known(rows: &impl Read) -> Result<Vec<SiteAddress>, ApiError> {
    let Some(stored) = rows.meta(META_ADDRESSES)? else {
        return Ok(Vec::new());
    };
    let mut d = Decoder::new(&stored);
    let decode = |d: &mut Decoder<'_>| {
        let count = d.array()?;
        (0..count)
            .map(|_| d.field::<Whereabouts>())
            .collect::<Result<Vec<_>, _>>()
    };
    Ok(decode(&mut d).map_err(ApiError::bug)?.iter().map(address_of).collect())
}

/// Remembers where a site is, in place of where it was.
pub(in super::super) fn remember(txn: &mut Txn, address: &SiteAddress) -> Result<(), ApiError> {
    let mut all = known(txn)?;
    all.retain(|other| other.site != address.site);
    all.insert(0, address.clone());
    all.truncate(MAX_SITES);
    let mut e = Encoder::new();
    e.array(all.len());
    for address in &all {
        e.field(&whereabouts(address));
    }
    Ok(txn.put_meta(META_ADDRESSES, &e.into_vec())?)
}

impl Core {
    /// Tells the endpoint every address remembered.
    pub(super) fn learn_known_addresses(&self) -> Result<(), ApiError> {
        let endpoint = self.network()?.net.endpoint();
        for address in self.known_addresses()? {
            endpoint.learn(&address);
        }
        Ok(())
    }

    /// Takes note of where a site is now.
    pub(in super::super) fn learn_address(&self, address: &SiteAddress) -> Result<(), ApiError> {
        if address.is_empty() || address.site == self.me {
            return Ok(());
        }
        if let Some(network) = self.net.get() {
            network.net.endpoint().learn(address);
        }
        if self.known_addresses()?.contains(address) {
            return Ok(());
        }
        let mut txn = self.catalog.begin()?;
        remember(&mut txn, address)?;
        self.save(txn)?;
        Ok(())
    }

    /// The newest address of every site that ever told one.
    pub(in super::super) fn known_addresses(&self) -> Result<Vec<SiteAddress>, ApiError> {
        known(&self.read()?)
    }

    /// Where one site was last.
    pub(in super::super) fn address_of_site(&self, site: &SiteId) -> Result<Option<SiteAddress>, ApiError> {
        Ok(self
            .known_addresses()?
            .into_iter()
            .find(|address| address.site == *site))
    }
}
