//! Pure protocol logic of the mesh (DESIGN §8): what to say, what to believe, what to do next.
//!
//! Everything here is a function of its arguments. Time comes in as `now_ms`, randomness as bytes, storage through small
//! read traits; what should happen goes out as values. So the simulator runs the very code that ships.

pub mod blind;
pub mod codec;
pub mod fetch;
pub mod follow;
pub mod hint;
pub mod invite;
pub mod kek;
pub mod mls;
pub mod peer;
pub mod sync;
