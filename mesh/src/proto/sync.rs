//! Pairwise set reconciliation (DESIGN §8, `iroh.md` §4): two nodes bring what both may hold to the union.
//!
//! ```text
//! initiator                                   responder
//!   Open    scopes, one root digest each  ->
//!                                         <-  Generations   of scopes that differ; the rest is equal or declined
//!   Spans   of generations that differ    ->
//!                                         <-  Days          of 32-day spans that differ
//!   Compare negentropy frames per day     ->                repeated, at most 32 rounds a day
//!                                         <-  Compare
//!   Give    items it misses, wanted ids   ->                repeated until all is exchanged
//!                                         <-  Give
//!   End                                   ->
//! ```
//!
//! Equal sets cost the first two messages. The sessions hold no reference to the set between messages and no clock; what
//! they hand over as received is a claim until the caller has verified it. A session is bounded in rounds, ids and bytes;
//! what does not fit waits for the next session, which starts closer to the end.

mod digest;
mod initiator;
mod message;
mod responder;
mod set;
mod shard;

#[cfg(test)]
mod tests;

pub use digest::Digest;
pub use initiator::Initiator;
pub use message::{
    DayDigest, Days, Frame, GenerationDigest, GenerationSpans, Generations, Give, ItemIn, Message, Open, OpenScope,
    ScopeGenerations, SpanDays, SpanDigest, Wanted,
};
pub use responder::Responder;
pub use set::{Element, Item, MemorySet, Scope, SetError, Shard, SharedScope, SyncSet};

use sovm_object::cbor::{self, DecodeError};

/// Longest message of a session.
pub const MAX_MESSAGE: usize = 2 << 20;

/// Longest item; longer ones are not offered.
pub const MAX_ITEM: usize = (1 << 20) + 64 * 1024;

/// Bounds of one session.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest negentropy frame; 4 KiB to 64 KiB.
    pub frame_bytes: usize,
    /// Rounds of negentropy per day shard.
    pub rounds: u32,
    /// Ids found to differ, both directions together.
    pub ids: usize,
    /// Item bytes put into one message before the next turn; one item always fits.
    pub batch_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: 64 * 1024,
            rounds: 32,
            ids: 100_000,
            batch_bytes: 512 * 1024,
        }
    }
}

/// Day shards compared at the same time.
pub(crate) const ACTIVE_SHARDS: usize = 8;

/// Elements held in memory for comparison at the same time, unless a single day has more.
pub(crate) const ACTIVE_ELEMENTS: u64 = 262_144;

/// Ids asked for in one message.
pub(crate) const WANTED_IDS: usize = 1_000;

/// Messages a responder answers before it calls the session off.
pub(crate) const MAX_TURNS: u32 = 20_000;

/// What the session wants done.
#[derive(Debug)]
pub enum Effect {
    /// Send this to the peer.
    Send(Message),
    /// Items the peer gave. Nothing is proven yet: decode, verify, judge, then admit.
    Received {
        /// Their scope.
        scope: Scope,
        /// The shard the peer says they are in.
        shard: Shard,
        /// The items.
        items: Vec<Item>,
    },
    /// The session is over.
    Done(Outcome),
}

/// How a session ended.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Outcome {
    /// Scopes compared.
    pub compared: Vec<Scope>,
    /// Scopes the peer does not share with us.
    pub declined: Vec<Scope>,
    /// Items given to the peer.
    pub sent: u64,
    /// Items received.
    pub received: u64,
    /// Ids a side announced and then did not have.
    pub missing: u64,
    /// Whether everything that differed was exchanged. If not, run another session.
    pub complete: bool,
}

/// Why a session was broken off. Nothing already received is lost.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The peer's message is not of the protocol.
    #[error("the peer sent a malformed message")]
    Malformed(#[from] DecodeError),
    /// The peer sent a message that does not belong here.
    #[error("the peer sent a message out of turn")]
    OutOfTurn,
    /// The peer named a scope, generation or day that this session is not about.
    #[error("the peer asked about a set that is not shared with it")]
    NotShared,
    /// The peer's reconciliation frame is not valid.
    #[error("the peer sent an invalid reconciliation frame")]
    BadFrame,
    /// The peer kept a session going beyond all bounds.
    #[error("the peer exceeded the bounds of a session")]
    TooLong,
    /// Our own set could not be read.
    #[error(transparent)]
    Set(#[from] SetError),
}

/// Bytes of a message.
pub fn encode(message: &Message) -> Vec<u8> {
    cbor::to_vec(message)
}

/// A message from its bytes. Takes arbitrary input; for fuzzing, too.
pub fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
    cbor::from_slice(bytes)
}
