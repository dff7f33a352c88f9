//! The sets that are reconciled, seen from outside.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
};

use sovm_object::{
    cbor::{DecodeError, Decoder, Encoder, Field},
    hlc::Hlc,
    id::DomainId,
};

use super::digest::Digest;

/// Whose set. Which scopes two peers share follows from the roster and is the caller's to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Mesh-level records without names: genesis and membership ops. All that a blind replica gets.
    Public,
    /// All mesh-level records; between members.
    Mesh,
    /// Entries and records of one domain; between its members.
    Domain(DomainId),
}

impl Field for Scope {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Public => e.bytes(&[0]),
            Self::Mesh => e.bytes(&[1]),
            Self::Domain(domain) => e.field(domain),
        };
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match d.bytes()? {
            [0] => Ok(Self::Public),
            [1] => Ok(Self::Mesh),
            domain => DomainId::from_slice(domain)
                .map(Self::Domain)
                .ok_or(DecodeError::Malformed),
        }
    }
}

/// A scope both sides share, and from which KEK generation on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SharedScope {
    /// The scope.
    pub scope: Scope,
    /// The later of the two members' first entitled generations. Generation 0, which is not sealed, is always shared.
    pub from_generation: u64,
}

impl SharedScope {
    pub(super) const fn covers(&self, generation: u64) -> bool {
        generation == 0 || generation >= self.from_generation
    }
}

/// The part of a scope that is compared at once: one day of one KEK generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    /// Generation of the KEK the entries are sealed under; 0 for those that are not sealed.
    pub generation: u64,
    /// Days since 1970 of the entries' stamps.
    pub day: u32,
}

/// One member of a set: stamp and BLAKE3(record id, kek id).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Element {
    /// The record's stamp.
    pub hlc: Hlc,
    /// Its id in the set.
    pub id: [u8; 32],
}

/// What travels for an element: opaque bytes, sealed or signed, and a tag that the caller gives its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The caller's tag.
    pub kind: u8,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The set could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the local set cannot be read")]
pub struct SetError(#[source] Box<dyn Error + Send + Sync>);

impl SetError {
    /// Wraps the store's own error.
    pub fn new(source: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(source))
    }
}

/// Read side of the node's sets, best a snapshot. It may change between the messages of a session: what is missed then is
/// found by the next one.
pub trait SyncSet {
    /// Digests of all days that hold anything, by shard.
    fn days(&self, scope: Scope) -> Result<BTreeMap<Shard, Digest>, SetError>;

    /// All elements of one shard, in any order.
    fn elements(&self, scope: Scope, shard: Shard) -> Result<Vec<Element>, SetError>;

    /// What travels for an element of exactly this shard. Must not find elements of other scopes: this is where entitlement
    /// is kept.
    fn item(&self, scope: Scope, shard: Shard, id: &[u8; 32]) -> Result<Option<Item>, SetError>;
}

/// A set in memory: for small sets that a caller builds on the fly, for simulations and tests.
#[derive(Clone, Debug, Default)]
pub struct MemorySet {
    shards: BTreeMap<(Scope, Shard), BTreeMap<Element, Item>>,
}

impl MemorySet {
    /// Adds one element; true if it was not there.
    pub fn insert(&mut self, scope: Scope, generation: u64, element: Element, item: Item) -> bool {
        let shard = Shard {
            generation,
            day: element.hlc.day(),
        };
        self.shards
            .entry((scope, shard))
            .or_default()
            .insert(element, item)
            .is_none()
    }

    /// Ids of everything in a scope.
    pub fn ids(&self, scope: Scope) -> BTreeSet<[u8; 32]> {
        self.of(scope)
            .flat_map(|(_, elements)| elements.keys().map(|element| element.id))
            .collect()
    }

    /// All items of a scope.
    pub fn items(&self, scope: Scope) -> impl Iterator<Item = (Shard, &Element, &Item)> {
        self.of(scope)
            .flat_map(|(shard, elements)| elements.iter().map(move |(element, item)| (shard, element, item)))
    }

    fn of(&self, scope: Scope) -> impl Iterator<Item = (Shard, &BTreeMap<Element, Item>)> {
        let first = (scope, Shard { generation: 0, day: 0 });
        let last = (
            scope,
            Shard {
                generation: u64::MAX,
                day: u32::MAX,
            },
        );
        self.shards
            .range(first..=last)
            .map(|((_, shard), elements)| (*shard, elements))
    }
}

impl SyncSet for MemorySet {
    fn days(&self, scope: Scope) -> Result<BTreeMap<Shard, Digest>, SetError> {
        let digest = |elements: &BTreeMap<Element, Item>| elements.keys().map(|e| Digest::of(&e.id)).collect();
        Ok(self
            .of(scope)
            .map(|(shard, elements)| (shard, digest(elements)))
            .collect())
    }

    fn elements(&self, scope: Scope, shard: Shard) -> Result<Vec<Element>, SetError> {
        Ok(self
            .shards
            .get(&(scope, shard))
            .map(|elements| elements.keys().copied().collect())
            .unwrap_or_default())
    }

    fn item(&self, scope: Scope, shard: Shard, id: &[u8; 32]) -> Result<Option<Item>, SetError> {
        let elements = self.shards.get(&(scope, shard));
        Ok(elements.and_then(|all| all.iter().find(|(e, _)| e.id == *id).map(|(_, item)| item.clone())))
    }
}
