//! One day compared by negentropy, and how shards are named inside a session.

use negentropy::{Id, Negentropy, NegentropyStorageVector};

use super::{Effect, Element, Item, ItemIn, MAX_ITEM, Scope, Shard, SharedScope, SyncError, SyncSet};

/// A shard inside a session: place of its scope in the initiator's list, then the shard. Sorts generation 0, which others
/// need to be understood, first.
pub(super) type Ref = (usize, Shard);

type Engine = Negentropy<'static, NegentropyStorageVector>;

fn engine(elements: &[Element], frame_bytes: usize) -> Result<Engine, SyncError> {
    let mut storage = NegentropyStorageVector::with_capacity(elements.len());
    let frame_bytes = frame_bytes.clamp(4_096, 64 * 1024) as u64;
    let built = (|| {
        for element in elements {
            storage.insert(element.hlc.as_u64(), Id::from_byte_array(element.id))?;
        }
        storage.seal()?;
        Negentropy::owned(storage, frame_bytes)
    })();
    built.map_err(|_| SyncError::BadFrame)
}

/// The asking side of one day.
pub(super) struct Opener {
    engine: Engine,
    rounds: u32,
}

/// What one round told the asking side.
pub(super) struct Found {
    /// Ids only we have.
    pub(super) have: Vec<[u8; 32]>,
    /// Ids only the peer has.
    pub(super) need: Vec<[u8; 32]>,
    /// The next frame; none when the day is settled.
    pub(super) next: Option<Vec<u8>>,
}

impl Opener {
    pub(super) fn start(elements: &[Element], frame_bytes: usize) -> Result<(Self, Vec<u8>), SyncError> {
        let mut engine = engine(elements, frame_bytes)?;
        let frame = engine.initiate().map_err(|_| SyncError::BadFrame)?;
        Ok((Self { engine, rounds: 0 }, frame))
    }

    pub(super) fn handle(&mut self, frame: &[u8]) -> Result<Found, SyncError> {
        self.rounds += 1;
        let (mut have, mut need) = (Vec::new(), Vec::new());
        let next = self
            .engine
            .reconcile_with_ids(frame, &mut have, &mut need)
            .map_err(|_| SyncError::BadFrame)?;
        let sorted = |ids: Vec<Id>| {
            let mut ids: Vec<[u8; 32]> = ids.iter().map(|id| **id).collect();
            // negentropy gives them in the order of a hash map; a session must be repeatable.
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        Ok(Found {
            have: sorted(have),
            need: sorted(need),
            next,
        })
    }

    pub(super) const fn rounds(&self) -> u32 {
        self.rounds
    }
}

/// The answering side of one day.
pub(super) struct Answerer {
    engine: Engine,
    pub(super) elements: u64,
}

impl Answerer {
    pub(super) fn new(elements: &[Element], frame_bytes: usize) -> Result<Self, SyncError> {
        Ok(Self {
            engine: engine(elements, frame_bytes)?,
            elements: elements.len() as u64,
        })
    }

    pub(super) fn handle(&mut self, frame: &[u8]) -> Result<Vec<u8>, SyncError> {
        self.engine.reconcile(frame).map_err(|_| SyncError::BadFrame)
    }
}

/// Checks a name that came from the peer.
pub(super) fn named(
    scopes: &[Option<SharedScope>],
    scope: u64,
    generation: u64,
    day: u64,
) -> Result<(Scope, Ref), SyncError> {
    let index = usize::try_from(scope).map_err(|_| SyncError::NotShared)?;
    let day = u32::try_from(day).map_err(|_| SyncError::NotShared)?;
    match scopes.get(index) {
        Some(Some(shared)) if shared.covers(generation) => Ok((shared.scope, (index, Shard { generation, day }))),
        _ => Err(SyncError::NotShared),
    }
}

/// Groups received items by shard, in order.
pub(super) fn received(scopes: &[Option<SharedScope>], items: Vec<ItemIn>) -> Result<Vec<Effect>, SyncError> {
    let mut effects: Vec<Effect> = Vec::new();
    for item in items {
        let (scope, (_, shard)) = named(scopes, item.scope, item.generation, item.day)?;
        let kind = u8::try_from(item.kind).map_err(|_| SyncError::NotShared)?;
        let received = Item {
            kind,
            bytes: item.bytes.0,
        };
        match effects.last_mut() {
            Some(Effect::Received {
                scope: last_scope,
                shard: last_shard,
                items,
            }) if (*last_scope, *last_shard) == (scope, shard) => {
                items.push(received);
            }
            _ => effects.push(Effect::Received {
                scope,
                shard,
                items: vec![received],
            }),
        }
    }
    Ok(effects)
}

/// Looks up one item to give; `None` when it is gone or too long to travel.
pub(super) fn outgoing(
    set: &impl SyncSet,
    scope: Scope,
    (index, shard): Ref,
    id: &[u8; 32],
) -> Result<Option<ItemIn>, SyncError> {
    let item = set.item(scope, shard, id)?.filter(|item| item.bytes.len() <= MAX_ITEM);
    Ok(item.map(|item| ItemIn {
        scope: index as u64,
        generation: shard.generation,
        day: u64::from(shard.day),
        kind: u64::from(item.kind),
        bytes: item.bytes.into(),
    }))
}
