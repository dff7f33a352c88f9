//! The side that calls. It drives the session, learns both directions' differences, and asks and gives until they are gone.

use std::collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry};

use super::{
    ACTIVE_ELEMENTS, ACTIVE_SHARDS, Effect, Limits, Message, Outcome, Shard, SharedScope, SyncError, SyncSet,
    WANTED_IDS,
    digest::{Digest, root},
    message::{
        Days, Frame, GenerationSpans, Generations, Give, MAX_DIGESTS, MAX_ITEMS, Open, OpenScope, SpanDigest, Wanted,
    },
    responder::{days_of_span, generations, spans},
    shard::{Opener, Ref, named, outgoing, received},
};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Start,
    AwaitGenerations,
    AwaitDays,
    Comparing,
    Giving,
    Over,
}

/// Drives one session.
pub struct Initiator {
    scopes: Vec<Option<SharedScope>>,
    limits: Limits,
    phase: Phase,
    /// Days that differ and wait to be compared, with the larger side's number of elements.
    queue: VecDeque<(Ref, u64)>,
    active: BTreeMap<Ref, Opener>,
    have: VecDeque<(Ref, [u8; 32])>,
    need: VecDeque<(Ref, [u8; 32])>,
    /// How many of `need`, from the front, the last message asked for.
    asked: usize,
    ids_left: usize,
    outcome: Outcome,
}

impl Initiator {
    /// Prepares a session with a peer over what is shared with it.
    pub fn new(shared: Vec<SharedScope>, limits: Limits) -> Self {
        Self {
            scopes: shared.into_iter().map(Some).collect(),
            limits,
            phase: Phase::Start,
            queue: VecDeque::new(),
            active: BTreeMap::new(),
            have: VecDeque::new(),
            need: VecDeque::new(),
            asked: 0,
            ids_left: limits.ids,
            outcome: Outcome {
                complete: true,
                ..Outcome::default()
            },
        }
    }

    /// The first message.
    pub fn start(&mut self, set: &impl SyncSet) -> Result<Vec<Effect>, SyncError> {
        if self.phase != Phase::Start {
            return Err(SyncError::OutOfTurn);
        }
        self.phase = Phase::AwaitGenerations;
        let mut scopes = Vec::new();
        for shared in self.scopes.iter().flatten() {
            let root = root(&generations(set, *shared)?);
            scopes.push(OpenScope {
                scope: shared.scope,
                from_generation: shared.from_generation,
                root,
            });
        }
        Ok(vec![Effect::Send(Message::Open(Open {
            version: 1,
            scopes: scopes.into(),
        }))])
    }

    /// Takes one message of the responder.
    pub fn handle(&mut self, set: &impl SyncSet, message: Message) -> Result<Vec<Effect>, SyncError> {
        match (self.phase, message) {
            (Phase::AwaitGenerations, Message::Generations(reply)) => self.generations(set, &reply),
            (Phase::AwaitDays, Message::Days(reply)) => self.days(set, &reply),
            (Phase::Comparing, Message::Compare(frames)) => self.compared(set, &frames),
            (Phase::Giving, Message::Give(give)) => self.given(set, give),
            _ => Err(SyncError::OutOfTurn),
        }
    }

    fn generations(&mut self, set: &impl SyncSet, reply: &Generations) -> Result<Vec<Effect>, SyncError> {
        for index in reply.declined.iter() {
            let slot = usize::try_from(*index)
                .ok()
                .and_then(|index| self.scopes.get_mut(index));
            if let Some(declined) = slot.ok_or(SyncError::NotShared)?.take() {
                self.outcome.declined.push(declined.scope);
            }
        }
        self.outcome.compared = self.scopes.iter().flatten().map(|shared| shared.scope).collect();

        let mut asked = Vec::new();
        let mut digests = 0;
        for theirs in reply.scopes.iter() {
            let (_, (index, _)) = named(&self.scopes, theirs.scope, 0, 0)?;
            let Some(shared) = self.scopes[index].as_mut() else {
                return Err(SyncError::NotShared);
            };
            shared.from_generation = shared.from_generation.max(theirs.from_generation);
            let shared = *shared;
            let days = set.days(shared.scope)?;
            let ours = generations(set, shared)?;
            let theirs: BTreeMap<u64, Digest> = theirs
                .generations
                .iter()
                .filter(|theirs| shared.covers(theirs.generation))
                .map(|theirs| (theirs.generation, theirs.digest))
                .collect();
            let all: BTreeSet<u64> = ours.keys().chain(theirs.keys()).copied().collect();
            for generation in all {
                if ours.get(&generation) == theirs.get(&generation) {
                    continue;
                }
                let spans = spans(&days, generation);
                digests += spans.len() + 1;
                if digests > MAX_DIGESTS {
                    self.outcome.complete = false;
                    break;
                }
                asked.push(GenerationSpans {
                    scope: index as u64,
                    generation,
                    spans: spans
                        .into_iter()
                        .map(|(span, digest)| SpanDigest { span, digest })
                        .collect::<Vec<_>>()
                        .into(),
                });
            }
        }
        if asked.is_empty() {
            return Ok(self.end());
        }
        self.phase = Phase::AwaitDays;
        Ok(vec![Effect::Send(Message::Spans(asked.into()))])
    }

    fn days(&mut self, set: &impl SyncSet, reply: &Days) -> Result<Vec<Effect>, SyncError> {
        if reply.truncated {
            self.outcome.complete = false;
        }
        let mut differing: BTreeMap<Ref, (u64, u64)> = BTreeMap::new();
        let mut days_of: BTreeMap<usize, BTreeMap<Shard, Digest>> = BTreeMap::new();
        for theirs in reply.spans.iter() {
            let (scope, (index, shard)) = named(&self.scopes, theirs.scope, theirs.generation, 0)?;
            let days = match days_of.entry(index) {
                Entry::Occupied(found) => found.into_mut(),
                Entry::Vacant(empty) => empty.insert(set.days(scope)?),
            };
            let ours = days_of_span(days, shard.generation, theirs.span);
            let mut listed = BTreeMap::new();
            for day in theirs.days.iter().filter(|day| day.day >> 5 == theirs.span) {
                let (_, (_, shard)) = named(&self.scopes, theirs.scope, theirs.generation, day.day)?;
                listed.insert(shard.day, day.digest);
            }
            let all: BTreeSet<u32> = ours.keys().chain(listed.keys()).copied().collect();
            for day in all {
                let (our, their) = (ours.get(&day), listed.get(&day));
                if our != their {
                    let count = |digest: Option<&Digest>| digest.map_or(0, |digest| digest.count);
                    let shard = Shard {
                        generation: shard.generation,
                        day,
                    };
                    differing.insert((index, shard), (count(our), count(their)));
                }
            }
        }
        for (reference, (ours, theirs)) in differing {
            if theirs == 0 {
                // Nothing to compare with: all of it is news.
                let Some(shared) = self.scopes[reference.0] else {
                    return Err(SyncError::NotShared);
                };
                let elements = set.elements(shared.scope, reference.1)?;
                let ids = elements.into_iter().map(|element| element.id).collect();
                self.found(reference, ids, Vec::new());
            } else {
                self.queue.push_back((reference, ours.max(theirs)));
            }
        }
        self.phase = Phase::Comparing;
        self.compare_more(set, Vec::new())
    }

    fn compared(&mut self, set: &impl SyncSet, frames: &[Frame]) -> Result<Vec<Effect>, SyncError> {
        let mut next = Vec::new();
        let mut answered = BTreeMap::new();
        for frame in frames {
            let (_, reference) = named(&self.scopes, frame.scope, frame.generation, frame.day)?;
            let mut opener = self.active.remove(&reference).ok_or(SyncError::OutOfTurn)?;
            let found = opener.handle(&frame.bytes)?;
            self.found(reference, found.have, found.need);
            match found.next {
                Some(_) if opener.rounds() >= self.limits.rounds => self.outcome.complete = false,
                Some(bytes) => {
                    next.push(frame_of(reference, bytes));
                    answered.insert(reference, opener);
                }
                None => {}
            }
        }
        if !self.active.is_empty() {
            return Err(SyncError::OutOfTurn);
        }
        self.active = answered;
        self.compare_more(set, next)
    }

    /// Fills the free places with days that wait; goes on to the exchange when none are left.
    fn compare_more(&mut self, set: &impl SyncSet, mut frames: Vec<Frame>) -> Result<Vec<Effect>, SyncError> {
        if self.ids_left == 0 {
            self.outcome.complete &= self.queue.is_empty() && self.active.is_empty();
            self.queue.clear();
            self.active.clear();
            frames.clear();
        }
        let mut loaded = 0;
        while self.active.len() < ACTIVE_SHARDS {
            let Some((reference, count)) = self.queue.front().copied() else {
                break;
            };
            loaded += count;
            if loaded > ACTIVE_ELEMENTS && !self.active.is_empty() {
                break;
            }
            self.queue.pop_front();
            let Some(shared) = self.scopes[reference.0] else {
                return Err(SyncError::NotShared);
            };
            let elements = set.elements(shared.scope, reference.1)?;
            let (opener, frame) = Opener::start(&elements, self.limits.frame_bytes)?;
            self.active.insert(reference, opener);
            frames.push(frame_of(reference, frame));
        }
        if frames.is_empty() {
            self.phase = Phase::Giving;
            return self.give(set);
        }
        Ok(vec![Effect::Send(Message::Compare(frames.into()))])
    }

    fn found(&mut self, reference: Ref, have: Vec<[u8; 32]>, need: Vec<[u8; 32]>) {
        for (ids, queue) in [(have, &mut self.have), (need, &mut self.need)] {
            let take = ids.len().min(self.ids_left);
            self.outcome.complete &= take == ids.len();
            self.ids_left -= take;
            queue.extend(ids.into_iter().take(take).map(|id| (reference, id)));
        }
    }

    fn give(&mut self, set: &impl SyncSet) -> Result<Vec<Effect>, SyncError> {
        if self.have.is_empty() && self.need.is_empty() {
            return Ok(self.end());
        }
        let mut give = Give::default();
        let mut bytes = 0;
        while bytes < self.limits.batch_bytes && give.items.len() < MAX_ITEMS {
            let Some((reference, id)) = self.have.pop_front() else {
                break;
            };
            let Some(shared) = self.scopes[reference.0] else {
                return Err(SyncError::NotShared);
            };
            match outgoing(set, shared.scope, reference, &id)? {
                Some(item) => {
                    bytes += item.bytes.len();
                    give.items.0.push(item);
                }
                None => give.missing += 1,
            }
        }
        self.outcome.sent += give.items.len() as u64;
        self.outcome.missing += give.missing;

        self.asked = self.need.len().min(WANTED_IDS);
        for ((index, shard), id) in self.need.iter().take(self.asked) {
            let (scope, generation, day) = (*index as u64, shard.generation, u64::from(shard.day));
            match give.want.0.last_mut() {
                Some(last) if (last.scope, last.generation, last.day) == (scope, generation, day) => {
                    last.ids.0.push(*id);
                }
                _ => give.want.0.push(Wanted {
                    scope,
                    generation,
                    day,
                    ids: vec![*id].into(),
                }),
            }
        }
        Ok(vec![Effect::Send(Message::Give(give))])
    }

    fn given(&mut self, set: &impl SyncSet, give: Give) -> Result<Vec<Effect>, SyncError> {
        let served = usize::try_from(give.served).unwrap_or(usize::MAX);
        let items = give.items.len();
        if served > self.asked || items > served || !give.want.is_empty() {
            return Err(SyncError::OutOfTurn);
        }
        // A peer that serves nothing of what it announced would keep us asking for ever.
        let settled = if served == 0 { self.asked } else { served };
        self.need.drain(..settled);
        self.outcome.received += items as u64;
        self.outcome.missing += (settled - items) as u64;
        let mut effects = received(&self.scopes, give.items.0)?;
        effects.extend(self.give(set)?);
        Ok(effects)
    }

    fn end(&mut self) -> Vec<Effect> {
        self.phase = Phase::Over;
        self.outcome.complete &= self.outcome.missing == 0;
        let outcome = std::mem::take(&mut self.outcome);
        vec![Effect::Send(Message::End(outcome.complete)), Effect::Done(outcome)]
    }
}

fn frame_of((index, shard): Ref, bytes: Vec<u8>) -> Frame {
    Frame {
        scope: index as u64,
        generation: shard.generation,
        day: u64::from(shard.day),
        bytes: bytes.into(),
    }
}
