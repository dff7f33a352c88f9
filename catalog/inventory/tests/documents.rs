//! The documents of a catalogue: what is accepted, what is refused and by which rule, byte for byte.
//!
//! The files in `vectors/` were written by another JSON implementation (Python's), and their hashes with them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

#[path = "documents/accepted.rs"]
mod accepted;
#[path = "documents/catalogue.rs"]
mod catalogue;
#[path = "documents/leaf.rs"]
mod leaf;
#[path = "documents/manifest.rs"]
mod manifest;
#[path = "documents/pages.rs"]
mod pages;
#[path = "documents/properties.rs"]
mod properties;
#[path = "documents/root.rs"]
mod root;
#[path = "documents/segment.rs"]
mod segment;
#[path = "documents/support.rs"]
mod support;
#[path = "documents/traps.rs"]
mod traps;
