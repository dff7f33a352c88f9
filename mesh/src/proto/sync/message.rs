//! Messages of a session. Scopes are named by their place in the initiator's [`Open`].

use super::{ACTIVE_SHARDS, MAX_ITEM, MAX_MESSAGE, Scope, WANTED_IDS, digest::Digest};
use crate::proto::codec::{Bytes, List, array_field, message_enum};

/// Scopes in one session.
pub(super) const MAX_SCOPES: usize = 256;
/// Generations of one scope.
pub(super) const MAX_GENERATIONS: usize = 4_096;
/// Spans or days in one message; the rest waits for the next session.
pub(super) const MAX_DIGESTS: usize = 20_000;
/// Items in one message.
pub(super) const MAX_ITEMS: usize = 20_000;

/// One message of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Initiator: what I want to compare.
    Open(Open),
    /// Responder: where we differ.
    Generations(Generations),
    /// Initiator: 32-day spans of generations that differ.
    Spans(List<GenerationSpans, MAX_DIGESTS>),
    /// Responder: days of spans that differ.
    Days(Days),
    /// Both: negentropy frames of days that differ.
    Compare(List<Frame, ACTIVE_SHARDS>),
    /// Both: items, and ids of items wanted.
    Give(Give),
    /// Initiator: that was all. Carries whether everything was exchanged.
    End(bool),
}

message_enum!(Message, max MAX_MESSAGE, {
    Open = 1, Generations = 2, Spans = 3, Days = 4, Compare = 5, Give = 6, End = 7,
});

/// What the initiator wants to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Version of this protocol: 1.
    pub version: u64,
    /// The scopes.
    pub scopes: List<OpenScope, MAX_SCOPES>,
}
array_field!(Open { version, scopes });

/// One scope of the initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenScope {
    /// The scope.
    pub scope: Scope,
    /// First sealed generation the initiator thinks is shared.
    pub from_generation: u64,
    /// Hash over the digests of all shared generations.
    pub root: [u8; 32],
}
array_field!(OpenScope {
    scope,
    from_generation,
    root
});

/// Where the responder differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generations {
    /// Scopes whose root differs.
    pub scopes: List<ScopeGenerations, MAX_SCOPES>,
    /// Scopes the responder does not share with the initiator. It does not say whether it has them.
    pub declined: List<u64, MAX_SCOPES>,
}
array_field!(Generations { scopes, declined });

/// Digests of one scope of the responder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeGenerations {
    /// Place of the scope in [`Open`].
    pub scope: u64,
    /// First sealed generation that both share.
    pub from_generation: u64,
    /// Digests of the shared generations that hold anything.
    pub generations: List<GenerationDigest, MAX_GENERATIONS>,
}
array_field!(ScopeGenerations {
    scope,
    from_generation,
    generations
});

/// Digest of one generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationDigest {
    /// The generation.
    pub generation: u64,
    /// Its digest.
    pub digest: Digest,
}
array_field!(GenerationDigest { generation, digest });

/// Spans of one generation of the initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationSpans {
    /// Place of the scope in [`Open`].
    pub scope: u64,
    /// The generation.
    pub generation: u64,
    /// Digests of its spans that hold anything.
    pub spans: List<SpanDigest, MAX_DIGESTS>,
}
array_field!(GenerationSpans {
    scope,
    generation,
    spans
});

/// Digest of one span of 32 days.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanDigest {
    /// Day number divided by 32.
    pub span: u64,
    /// Its digest.
    pub digest: Digest,
}
array_field!(SpanDigest { span, digest });

/// Days of the responder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Days {
    /// Spans that differ.
    pub spans: List<SpanDays, MAX_DIGESTS>,
    /// Whether there were more than fit.
    pub truncated: bool,
}
array_field!(Days { spans, truncated });

/// Days of one span that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanDays {
    /// Place of the scope in [`Open`].
    pub scope: u64,
    /// The generation.
    pub generation: u64,
    /// Day number divided by 32.
    pub span: u64,
    /// Digests of its days that hold anything.
    pub days: List<DayDigest, 32>,
}
array_field!(SpanDays {
    scope,
    generation,
    span,
    days
});

/// Digest of one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayDigest {
    /// The day.
    pub day: u64,
    /// Its digest.
    pub digest: Digest,
}
array_field!(DayDigest { day, digest });

/// A negentropy frame of one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Place of the scope in [`Open`].
    pub scope: u64,
    /// The generation.
    pub generation: u64,
    /// The day.
    pub day: u64,
    /// The frame.
    pub bytes: Bytes<{ 64 * 1024 + 1024 }>,
}
array_field!(Frame {
    scope,
    generation,
    day,
    bytes
});

/// Items and wishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Give {
    /// Items the other side lacks.
    pub items: List<ItemIn, MAX_ITEMS>,
    /// Initiator: items it wants.
    pub want: List<Wanted, WANTED_IDS>,
    /// Responder: how many of the wanted ids, in order, it dealt with.
    pub served: u64,
    /// How many ids the sender had announced or was asked for and does not have any more.
    pub missing: u64,
}
array_field!(Give {
    items,
    want,
    served,
    missing
});

/// One item as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemIn {
    /// Place of the scope in [`Open`].
    pub scope: u64,
    /// The generation.
    pub generation: u64,
    /// The day.
    pub day: u64,
    /// The caller's tag.
    pub kind: u64,
    /// The bytes.
    pub bytes: Bytes<MAX_ITEM>,
}
array_field!(ItemIn {
    scope,
    generation,
    day,
    kind,
    bytes
});

/// Items wanted of one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Place of the scope in [`Open`].
    pub scope: u64,
    /// The generation.
    pub generation: u64,
    /// The day.
    pub day: u64,
    /// Ids of the items.
    pub ids: List<[u8; 32], WANTED_IDS>,
}
array_field!(Wanted {
    scope,
    generation,
    day,
    ids
});
