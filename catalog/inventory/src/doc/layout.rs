//! INV-18: the names of a catalogue's files, relative to its root, with `/` between parts.
//!
//! The names are the same in a directory, in a bucket and in a node's own store, so that an upload is a copy.

use super::{
    id::{EditionId, Epoch, ProductId, Seq, Sha256},
    segment::SegmentPath,
};

/// The catalogue's description.
pub const CATALOG: &str = "catalog.json";
/// The hint at the newest version.
pub const CURRENT: &str = "CURRENT";
/// INV-33: the local lock; created once and never deleted.
pub const LOCK: &str = "LOCK";
/// The directory of roots and leaves.
pub const INVENTORY: &str = "inventory";
/// The directory of leaves.
pub const LEAVES: &str = "inventory/leaves";
/// The state of expiry on a catalogue that opted in.
pub const HISTORY: &str = "inventory/HISTORY";
/// The directory of history segments.
pub const SEGMENTS: &str = "history";
/// The inbox of registrations.
pub const PENDING: &str = "pending";
/// The directory of products.
pub const PRODUCTS: &str = "products";
/// INV-20: the file whose presence makes an edition sealed.
pub const MANIFEST: &str = "manifest.json";
/// INV-69: reserved for a detached signature; no check of an edition's files minds it.
pub const MANIFEST_SIGNATURE: &str = "manifest.json.sig";

/// INV-19: a root, its number padded to twelve digits so that names sort as numbers do.
pub fn root(seq: Seq) -> String {
    format!("{INVENTORY}/{:012}.json", seq.get())
}

/// The number of the root a path names; `None` for every other path.
pub fn root_seq(path: &str) -> Option<Seq> {
    let digits = path.strip_prefix(INVENTORY)?.strip_prefix('/')?.strip_suffix(".json")?;
    if digits.len() != 12 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Seq::new(digits.parse().ok()?)
}

/// A leaf, named by the hash of its bytes.
pub fn leaf(sha256: &Sha256) -> String {
    format!("{LEAVES}/{sha256}.json")
}

/// The hash of the leaf a path names; `None` for every other path.
pub fn leaf_sha256(path: &str) -> Option<Sha256> {
    path.strip_prefix(LEAVES)?
        .strip_prefix('/')?
        .strip_suffix(".json")?
        .parse()
        .ok()
}

/// The directory of an epoch's history segments.
pub fn segments_of(epoch: Epoch) -> String {
    format!("{SEGMENTS}/{epoch}")
}

/// INV-283: a history segment.
pub fn segment(path: &SegmentPath) -> String {
    path.to_string()
}

/// A registration in the inbox.
pub fn pending(product_id: &ProductId, edition_id: &EditionId) -> String {
    format!("{PENDING}/{product_id}/{edition_id}.json")
}

/// The product and edition of the registration a path names; `None` for every other path.
pub fn pending_ids(path: &str) -> Option<(ProductId, EditionId)> {
    let (product_id, file) = path.strip_prefix(PENDING)?.strip_prefix('/')?.split_once('/')?;
    Some((product_id.parse().ok()?, file.strip_suffix(".json")?.parse().ok()?))
}

/// A product's directory.
pub fn product(product_id: &ProductId) -> String {
    format!("{PRODUCTS}/{product_id}")
}

/// INV-23: the data files every edition of a product shares.
pub fn data(product_id: &ProductId) -> String {
    format!("{PRODUCTS}/{product_id}/data")
}

/// The seal journal of an edition.
pub fn journal(product_id: &ProductId, edition_id: &EditionId) -> String {
    format!("{PRODUCTS}/{product_id}/journal/{edition_id}.json")
}

/// INV-190: an edition's directory, which follows from its ids, so no leaf carries a location.
pub fn edition(product_id: &ProductId, edition_id: &EditionId) -> String {
    format!("{PRODUCTS}/{product_id}/{edition_id}")
}

/// INV-412: the record that an edition was expunged. It lies beside the edition's directory, which is gone.
pub fn expunged(product_id: &ProductId, edition_id: &EditionId) -> String {
    format!("{PRODUCTS}/{product_id}/expunged/{edition_id}.json")
}

/// The product and edition of the expunge record a path names; `None` for every other path.
pub fn expunged_ids(path: &str) -> Option<(ProductId, EditionId)> {
    let (product_id, rest) = path.strip_prefix(PRODUCTS)?.strip_prefix('/')?.split_once('/')?;
    let file = rest.strip_prefix("expunged/")?;
    Some((product_id.parse().ok()?, file.strip_suffix(".json")?.parse().ok()?))
}

/// An edition's manifest.
pub fn manifest(product_id: &ProductId, edition_id: &EditionId) -> String {
    format!("{PRODUCTS}/{product_id}/{edition_id}/{MANIFEST}")
}
