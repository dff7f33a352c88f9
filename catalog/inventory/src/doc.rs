//! The documents of a catalogue, as types.
//!
//! | document | stored at | type |
//! |---|---|---|
//! | catalogue description | `catalog.json` | [`Catalog`] |
//! | hint at the newest version | `CURRENT` | [`Current`] |
//! | Inventory root | `inventory/<seq>.json` | [`Root`] |
//! | Inventory leaf | `inventory/leaves/<sha256>.json` | [`Leaf`] |
//! | expiry state | `inventory/HISTORY` | [`History`] |
//! | history segment | `history/<epoch>/<first>-<last>-<uuid7>.jsonl` | [`Segment`] |
//! | upload registration | `pending/<product_id>/<edition_id>.json` | [`Pending`] |
//! | seal journal | `products/<product_id>/journal/<edition_id>.json` | [`Journal`] |
//! | expunge record | `products/<product_id>/expunged/<edition_id>.json` | [`Expunged`] |
//! | edition manifest | `products/<product_id>/<edition_id>/manifest.json` | [`Manifest`] |
//!
//! [`layout`] has the names. Every document implements [`Document`]: `decode` reads bytes and checks everything one document
//! can show by itself, `encode` writes compact JSON in a fixed key order and refuses what `decode` would refuse.
//! [`Stored`] keeps a document beside the exact bytes it was read from, because hashes are over stored bytes (INV-166) and
//! no document is ever hashed in another form.
//!
//! What a newer minor version may add is let through: unknown fields are ignored by readers and kept in `extra` for the
//! documents a writer rewrites, unknown event kinds are read as [`EventKind::Other`]. A newer major version is refused
//! (INV-191, INV-192).
//!
//! The JSON Schemas of the documents lie in `schemas/` of this crate. A schema says what a schema can: sort orders, hashes and
//! what ties two fields together are checked here alone.
//!
//! Two things are stricter than a common JSON library: a key that stands twice in one object is refused, because two readers
//! could disagree about such a document; and a whole number is digits only, so `1.0` and `1e0` are no sequence number.

mod catalog;
mod change;
mod current;
mod error;
mod expunged;
mod fields;
mod file;
mod history;
mod id;
mod instant;
mod journal;
mod json;
pub mod layout;
mod leaf;
mod manifest;
mod readable;
mod record;
mod root;
mod segment;
mod stored;
mod urn;
mod version;

pub(crate) use self::id::fresh_uuid;
pub use self::{
    catalog::{Catalog, WriterSupport},
    change::{ChangeItem, EntryChange, EntryStatus, LeafChange, ListedEntry},
    current::{Current, RootRef},
    error::{DocError, DocKind, Problem},
    expunged::{Expunged, ExpungedFile, SharedFile},
    file::{DigestAlgorithm, Digests, FileEntry, FilePath, FileRoot, Tier},
    history::History,
    id::{CatalogId, CleanText, EditionId, Epoch, IdError, ProductId, Seq, Sha256},
    instant::Instant,
    journal::{Journal, Pending},
    json::{Json, JsonObject, Number},
    leaf::{ArtefactFingerprint, EditionState, Entry, Leaf, Lifecycle, ProductKind, Routing},
    manifest::{EngineVersions, Manifest},
    readable::ReadableVersions,
    record::{ArtefactRecord, Binding, Stability, TableFingerprint},
    root::{Event, EventKind, LeafRef, Producer, Root, RootHistory, Tombstone},
    segment::{Segment, SegmentHeader, SegmentKind, SegmentLine, SegmentPath},
    stored::{Document, Stored, Unverified, Verified},
    urn::Urn,
    version::FormatVersion,
};
