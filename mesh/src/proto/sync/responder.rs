//! The side that was called.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use super::{
    ACTIVE_ELEMENTS, Effect, Limits, MAX_TURNS, Message, Outcome, Scope, Shard, SharedScope, SyncError, SyncSet,
    digest::{Digest, root},
    message::{
        DayDigest, Days, Frame, GenerationDigest, GenerationSpans, Generations, Give, MAX_DIGESTS, MAX_GENERATIONS,
        MAX_ITEMS, Open, ScopeGenerations, SpanDays,
    },
    shard::{Answerer, Ref, named, outgoing, received},
};

/// Answers one session. It only ever reacts, so the initiator decides how far it goes.
pub struct Responder {
    shared: Vec<SharedScope>,
    limits: Limits,
    /// By place in the initiator's list; `None` where declined.
    scopes: Vec<Option<SharedScope>>,
    active: BTreeMap<Ref, Answerer>,
    opened: bool,
    turns: u32,
    outcome: Outcome,
}

impl Responder {
    /// Prepares to answer a peer with which exactly `shared` is shared.
    pub fn new(shared: Vec<SharedScope>, limits: Limits) -> Self {
        Self {
            shared,
            limits,
            scopes: Vec::new(),
            active: BTreeMap::new(),
            opened: false,
            turns: 0,
            outcome: Outcome::default(),
        }
    }

    /// Takes one message of the initiator.
    pub fn handle(&mut self, set: &impl SyncSet, message: Message) -> Result<Vec<Effect>, SyncError> {
        self.turns += 1;
        if self.turns > MAX_TURNS {
            return Err(SyncError::TooLong);
        }
        match (self.opened, message) {
            (false, Message::Open(open)) => self.open(set, &open),
            (true, Message::Spans(spans)) => self.spans(set, &spans),
            (true, Message::Compare(frames)) => self.compare(set, &frames),
            (true, Message::Give(give)) => self.give(set, give),
            (true, Message::End(complete)) => {
                self.outcome.complete = complete;
                Ok(vec![Effect::Done(std::mem::take(&mut self.outcome))])
            }
            _ => Err(SyncError::OutOfTurn),
        }
    }

    fn open(&mut self, set: &impl SyncSet, open: &Open) -> Result<Vec<Effect>, SyncError> {
        if open.version != 1 {
            return Err(SyncError::OutOfTurn);
        }
        self.opened = true;
        let mut reply = Generations::default();
        let mut seen = BTreeSet::new();
        for (index, asked) in open.scopes.iter().enumerate() {
            let shared = self
                .shared
                .iter()
                .find(|shared| shared.scope == asked.scope && seen.insert(asked.scope));
            let Some(shared) = shared else {
                self.scopes.push(None);
                self.outcome.declined.push(asked.scope);
                reply.declined.0.push(index as u64);
                continue;
            };
            let shared = SharedScope {
                from_generation: shared.from_generation.max(asked.from_generation),
                ..*shared
            };
            self.scopes.push(Some(shared));
            self.outcome.compared.push(shared.scope);
            let generations = generations(set, shared)?;
            if shared.from_generation == asked.from_generation && root(&generations) == asked.root {
                continue;
            }
            reply.scopes.0.push(ScopeGenerations {
                scope: index as u64,
                from_generation: shared.from_generation,
                generations: generations
                    .into_iter()
                    .take(MAX_GENERATIONS)
                    .map(|(generation, digest)| GenerationDigest { generation, digest })
                    .collect::<Vec<_>>()
                    .into(),
            });
        }
        Ok(vec![Effect::Send(Message::Generations(reply))])
    }

    fn spans(&mut self, set: &impl SyncSet, asked: &[GenerationSpans]) -> Result<Vec<Effect>, SyncError> {
        let mut reply = Days::default();
        let mut digests = 0;
        let mut days_of: BTreeMap<Scope, BTreeMap<Shard, Digest>> = BTreeMap::new();
        for generation in asked {
            let (scope, (_, shard)) = named(&self.scopes, generation.scope, generation.generation, 0)?;
            let days = match days_of.entry(scope) {
                Entry::Occupied(found) => found.into_mut(),
                Entry::Vacant(empty) => empty.insert(set.days(scope)?),
            };
            let ours = spans(days, shard.generation);
            let theirs: BTreeMap<u64, Digest> = generation.spans.iter().map(|span| (span.span, span.digest)).collect();
            let all: BTreeSet<u64> = ours.keys().chain(theirs.keys()).copied().collect();
            for span in all {
                if ours.get(&span) == theirs.get(&span) {
                    continue;
                }
                let days = days_of_span(days, shard.generation, span);
                digests += days.len() + 1;
                if digests > MAX_DIGESTS {
                    reply.truncated = true;
                    break;
                }
                reply.spans.0.push(SpanDays {
                    scope: generation.scope,
                    generation: shard.generation,
                    span,
                    days: days
                        .into_iter()
                        .map(|(day, digest)| DayDigest {
                            day: u64::from(day),
                            digest,
                        })
                        .collect::<Vec<_>>()
                        .into(),
                });
            }
        }
        Ok(vec![Effect::Send(Message::Days(reply))])
    }

    fn compare(&mut self, set: &impl SyncSet, frames: &[Frame]) -> Result<Vec<Effect>, SyncError> {
        let mut still_active = BTreeMap::new();
        let mut elements = 0;
        let mut reply = Vec::new();
        for frame in frames {
            let (scope, reference) = named(&self.scopes, frame.scope, frame.generation, frame.day)?;
            let mut answerer = match self.active.remove(&reference) {
                Some(answerer) => answerer,
                None => Answerer::new(&set.elements(scope, reference.1)?, self.limits.frame_bytes)?,
            };
            elements += answerer.elements;
            if elements > 2 * ACTIVE_ELEMENTS && !still_active.is_empty() {
                return Err(SyncError::TooLong);
            }
            let bytes = answerer.handle(&frame.bytes)?;
            if still_active.insert(reference, answerer).is_some() {
                return Err(SyncError::OutOfTurn);
            }
            reply.push(Frame {
                bytes: bytes.into(),
                ..frame.clone()
            });
        }
        // What the initiator does not mention any more is settled.
        self.active = still_active;
        Ok(vec![Effect::Send(Message::Compare(reply.into()))])
    }

    fn give(&mut self, set: &impl SyncSet, give: Give) -> Result<Vec<Effect>, SyncError> {
        self.active.clear();
        self.outcome.received += give.items.len() as u64;
        self.outcome.missing += give.missing;
        let mut effects = received(&self.scopes, give.items.0)?;
        let mut reply = Give::default();
        let mut bytes = 0;
        'wanted: for wanted in give.want.iter() {
            let (scope, reference) = named(&self.scopes, wanted.scope, wanted.generation, wanted.day)?;
            for id in wanted.ids.iter() {
                if bytes >= self.limits.batch_bytes || reply.items.len() >= MAX_ITEMS {
                    break 'wanted;
                }
                reply.served += 1;
                match outgoing(set, scope, reference, id)? {
                    Some(item) => {
                        bytes += item.bytes.len();
                        reply.items.0.push(item);
                    }
                    None => reply.missing += 1,
                }
            }
        }
        self.outcome.sent += reply.items.len() as u64;
        self.outcome.missing += reply.missing;
        effects.push(Effect::Send(Message::Give(reply)));
        Ok(effects)
    }
}

/// Digests of the generations of a scope that are shared.
pub(super) fn generations(set: &impl SyncSet, shared: SharedScope) -> Result<BTreeMap<u64, Digest>, SyncError> {
    let mut out: BTreeMap<u64, Digest> = BTreeMap::new();
    for (shard, digest) in set.days(shared.scope)? {
        if shared.covers(shard.generation) && !digest.is_empty() {
            out.entry(shard.generation).or_default().add(&digest);
        }
    }
    Ok(out)
}

/// Digests of the 32-day spans of a generation.
pub(super) fn spans(days: &BTreeMap<Shard, Digest>, generation: u64) -> BTreeMap<u64, Digest> {
    let mut out: BTreeMap<u64, Digest> = BTreeMap::new();
    let all = Shard { generation, day: 0 }..=Shard {
        generation,
        day: u32::MAX,
    };
    for (shard, digest) in days.range(all).filter(|(_, digest)| !digest.is_empty()) {
        out.entry(u64::from(shard.day >> 5)).or_default().add(digest);
    }
    out
}

/// Digests of the days of one span.
pub(super) fn days_of_span(days: &BTreeMap<Shard, Digest>, generation: u64, span: u64) -> BTreeMap<u32, Digest> {
    let Some(first) = u32::try_from(span)
        .ok()
        .filter(|span| *span <= u32::MAX >> 5)
        .map(|span| span << 5)
    else {
        return BTreeMap::new();
    };
    let all = Shard { generation, day: first }..=Shard {
        generation,
        day: first | 31,
    };
    days.range(all)
        .filter(|(_, d)| !d.is_empty())
        .map(|(shard, digest)| (shard.day, *digest))
        .collect()
}
