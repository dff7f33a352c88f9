//! Membership, group keys, reconciliation and transfer between sovm nodes.
//!
//! [`proto`] is pure: state machines and formats that know no clock, socket, disk or async runtime. `net`, behind the
//! feature of that name, is the only code that talks to iroh.

#[cfg(feature = "net")]
pub mod net;
pub mod proto;
