//! Two or more real endpoints on 127.0.0.1, real stores in temporary directories.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "a read of one range is a slice of one range"
)]

mod collect;
mod gate;
mod hints;
mod hostile;
mod store;
mod streams;
mod support;
mod transfer;
