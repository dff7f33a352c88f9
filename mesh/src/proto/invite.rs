//! Invites: how another device becomes a member, with both people watching (DESIGN §8, `mls.md` §2.4).
//!
//! ```text
//! joiner                                        inviter
//!   Hello     mesh, invite, H(nonce A)      ->
//!                                           <-  Challenge   nonce B
//!   Proof     nonce A, binding, packages,   ->              looks the invite up, checks MAC and state,
//!             MAC under the invite's secret <-  Waiting     shows four words, waits for a person
//!   (shows the same four words)                             signs the ops, commits in each domain's group
//!                                           <-  Grant       genesis, records, welcomes, KEK bundles
//!   Done      its head claims               ->
//!                                           <-  Complete
//! ```
//!
//! The connection pins the inviter's key, which the ticket names. The MAC proves the secret and binds it to this very
//! connection and to what is offered. The words catch a stolen ticket: the joiner commits to its nonce before it sees the
//! inviter's, so neither side can search for words that look right.

mod book;
mod inviter;
mod joiner;
mod message;
mod proof;
mod ticket;
mod words;

#[cfg(test)]
mod tests;

pub use book::{Invite, InviteError, InviteState, MAX_BAD_PROOFS, NewInvite, SKIP_CODE_MAX_MS};
pub use inviter::{Confirmation, Inviter, InviterEffect, InviterEvent, JoinRequest, Offered};
pub use joiner::{Admission, JoinFailure, Joiner, JoinerEffect, JoinerEvent};
pub use message::{
    DomainGrant, Done, Grant, Hello, InviterMessage, JoinerMessage, MAX_ENTRIES, MAX_FROM_INVITER, MAX_FROM_JOINER,
    Offer, Proof, Refusal, decode_from_inviter, decode_from_joiner, encode_from_inviter, encode_from_joiner,
};
pub use ticket::{History, InviteSecret, MAX_DOMAINS, MAX_TEXT, Ticket, TicketError};
pub use words::Words;

/// Label under which both sides export the channel binding from their connection.
pub const CHANNEL_BINDING_LABEL: &[u8] = b"sovm join v1";
