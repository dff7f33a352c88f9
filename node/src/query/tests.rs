//! Queries over real encrypted objects in memory: the same encryption, padding, verification and decoding as on a node.

mod answers;
mod evolution;
mod fixture;
mod honesty;
mod missing;
mod pruning;
mod words;
