//! The only iroh code of the project: endpoint, object store, transfer, framed streams, hints.
//!
//! Nothing here decides anything about membership, keys or what to fetch. The host (the node's engine) answers through
//! three small traits: [`Gate`] (who may connect), [`ServePolicy`] (who may read which object) and [`StreamHandler`]
//! (what happens on a join, recover or sync stream). No type of iroh appears in a public signature, so a new iroh version
//! is a change in this folder only.
//!
//! | file | holds |
//! |---|---|
//! | [`alpn`] | the five protocols, and the gate every connection passes |
//! | [`address`] | where a site can be reached, as tickets carry it |
//! | [`endpoint`] | the QUIC endpoint: dialling, reuse, closing on removal, routes for `status` |
//! | [`wire`] | length-prefixed frames on a QUIC stream |
//! | [`protocol`] | bounds around join, recover and sync streams |
//! | [`store`] | objects on disk, durable before anybody names them |
//! | [`collect`] | letting bytes go that nothing names |
//! | [`read`] | the one way to object bytes, verified |
//! | [`serve`] | answering other sites' requests, asked one by one |
//! | [`fetch`] | getting an object from a holder, resumable |
//! | [`gossip`] | hints: small, lossy, never trusted |
//! | [`steps`] | where tests may stop the process |
//! | [`node`] | all of it together, and the order in which it stops |

pub mod address;
pub mod alpn;
pub mod collect;
pub mod endpoint;
pub mod fetch;
pub mod gossip;
mod live;
pub mod node;
pub mod protocol;
pub mod rate;
pub mod read;
mod router;
pub mod serve;
pub mod steps;
pub mod store;
#[cfg(test)]
mod tests;
pub mod wire;
mod work;

use std::{future::Future, pin::Pin};

use sovm_object::id::{SiteId, StorageId};

pub use self::{
    address::SiteAddress,
    alpn::{Alpn, Direction, Gate},
    collect::{Collected, Stored},
    endpoint::{ConnectError, EndpointConfig, MeshEndpoint, PeerStatus, Relay, Route},
    fetch::{FetchError, FetchOutcome, FetchProgress, FetchRequest, Fetcher},
    gossip::{HintEvent, HintTopic, Hints},
    node::{Host, MeshNet},
    protocol::{StreamEnd, StreamHandler},
    rate::UploadLimit,
    serve::{ServePolicy, ServeStats},
    store::{DiskReserve, Durable, Holding, ObjectStore},
    wire::{FrameLimits, Framed, WireError},
};

/// A boxed future that may move between threads, for traits that are used as objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The endpoint id of a site. `None` when the 32 bytes are no point of the curve, so nobody can hold its key.
fn endpoint_id(site: &SiteId) -> Option<iroh::EndpointId> {
    iroh::EndpointId::from_bytes(site.as_bytes()).ok()
}

/// The site behind an endpoint id: the same 32 bytes (DESIGN §2).
fn site_id(id: iroh::EndpointId) -> SiteId {
    SiteId::from_bytes(*id.as_bytes())
}

/// The iroh-blobs hash of an object: the same 32 bytes (SOP §11.7).
fn blob_hash(id: StorageId) -> iroh_blobs::Hash {
    iroh_blobs::Hash::from(*id.as_bytes())
}

/// The object behind an iroh-blobs hash.
fn storage_id(hash: iroh_blobs::Hash) -> StorageId {
    StorageId::from_bytes(*hash.as_bytes())
}
