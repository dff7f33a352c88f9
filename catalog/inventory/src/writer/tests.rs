//! The protocol, on every store and interrupted everywhere.

mod commit;
mod crash;
mod journal;
mod leaves;
mod opt_in;
mod race;
mod rebuild;
mod scope;
