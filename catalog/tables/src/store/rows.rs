//! Keys and stored records: how bytes stand in the tables.
//!
//! Numbers in keys are big-endian, so that byte order is number order. Parts of a key have fixed lengths, so a prefix of parts is
//! a prefix of bytes.

use sovm_object::{
    cbor::{self, Payload},
    entry::EntryKind,
    hlc::Hlc,
    id::{DomainId, KekId, RecordId},
};

use super::{
    StoreError,
    tables::{ENTRIES, STATES, SYNC, Table},
};
use crate::state::EntryState;

/// Where an entry counts: the mesh as a whole, or one domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Known to every member, and partly to blind replicas.
    Mesh,
    /// Known to the domain's members.
    Domain(DomainId),
}

impl From<Option<DomainId>> for Scope {
    fn from(domain: Option<DomainId>) -> Self {
        domain.map_or(Self::Mesh, Self::Domain)
    }
}

impl Scope {
    const LEN: usize = 33;

    /// The domain, unless it is the mesh.
    pub const fn domain(self) -> Option<DomainId> {
        match self {
            Self::Mesh => None,
            Self::Domain(domain) => Some(domain),
        }
    }

    fn bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        if let Self::Domain(domain) = self {
            bytes[0] = 1;
            bytes[1..].copy_from_slice(domain.as_bytes());
        }
        bytes
    }

    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first()? {
            (0, rest) if rest.iter().all(|byte| *byte == 0) => Some(Self::Mesh),
            (1, rest) => DomainId::from_slice(rest).map(Self::Domain),
            _ => None,
        }
    }
}

/// Builds a key from its parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Key(Vec<u8>);

impl Key {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(112))
    }
    pub(crate) fn id(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
    pub(crate) fn scope(self, scope: Scope) -> Self {
        self.id(&scope.bytes())
    }
    pub(crate) fn kind(self, kind: EntryKind) -> Self {
        self.byte(kind.as_u8())
    }
    pub(crate) fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }
    pub(crate) fn number(self, number: u64) -> Self {
        self.id(&number.to_be_bytes())
    }
    pub(crate) fn day(self, day: u32) -> Self {
        self.id(&day.to_be_bytes())
    }
    pub(crate) fn kek(self, kek_id: Option<&KekId>) -> Self {
        self.id(kek_id.map_or(&[0; KekId::LEN], |kek_id| kek_id.as_bytes()))
    }
}

impl std::ops::Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// The error for a row no build wrote.
pub(crate) fn form(table: &Table) -> StoreError {
    StoreError::RowForm(super::tables::name(table))
}

/// The record id at the end of an index key.
pub(crate) fn record_at_end(table: &Table, key: &[u8]) -> Result<RecordId, StoreError> {
    key.last_chunk::<{ RecordId::LEN }>()
        .map(|id| RecordId::from_bytes(*id))
        .ok_or_else(|| form(table))
}

/// A big-endian number that is a whole value.
pub(crate) fn u64_of(table: &'static str, value: &[u8]) -> Result<u64, StoreError> {
    value
        .try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| StoreError::RowForm(table))
}

/// A KEK id as keys hold it; sixteen zero bytes mean none.
pub(crate) fn kek_of(bytes: &[u8]) -> Option<Option<KekId>> {
    let kek_id = KekId::from_slice(bytes)?;
    Some((kek_id.as_bytes() != &[0; KekId::LEN]).then_some(kek_id))
}

/// Encodes a record that is a CBOR payload.
pub(crate) fn encode<T: Payload>(value: &T) -> Vec<u8> {
    cbor::to_vec(value)
}

/// Decodes a record that is a CBOR payload.
pub(crate) fn decode<T: Payload>(table: &Table, bytes: &[u8]) -> Result<T, StoreError> {
    cbor::from_slice(bytes).map_err(|_| form(table))
}

/// Value of [`ENTRIES`]: kind, scope of first admission, stamp, exact signed bytes.
pub(crate) struct EntryRow {
    pub(crate) kind: EntryKind,
    pub(crate) scope: Scope,
    pub(crate) hlc: Hlc,
    pub(crate) bytes: Vec<u8>,
}

impl EntryRow {
    const HEAD: usize = 1 + Scope::LEN + 8;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(Self::HEAD + self.bytes.len());
        value.push(self.kind.as_u8());
        value.extend(self.scope.bytes());
        value.extend(self.hlc.as_u64().to_be_bytes());
        value.extend(&self.bytes);
        value
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, StoreError> {
        Self::parse(value).ok_or_else(|| form(&ENTRIES))
    }

    fn parse(value: &[u8]) -> Option<Self> {
        let (kind, rest) = value.split_first()?;
        let (scope, rest) = rest.split_at_checked(Scope::LEN)?;
        let (hlc, bytes) = rest.split_first_chunk::<8>()?;
        Some(Self {
            kind: EntryKind::from_u8(*kind)?,
            scope: Scope::of(scope)?,
            hlc: Hlc::from_u64(u64::from_be_bytes(*hlc)),
            bytes: bytes.to_vec(),
        })
    }
}

/// Value of [`STATES`]: state, reason, when the entry was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateRow {
    pub(crate) state: EntryState,
    pub(crate) received_ms: u64,
}

impl StateRow {
    pub(crate) fn encode(self) -> Vec<u8> {
        let (state, reason) = self.state.codes();
        let mut value = vec![state, reason];
        value.extend(self.received_ms.to_be_bytes());
        value
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, StoreError> {
        let parse = || {
            let (codes, received) = value.split_first_chunk::<2>()?;
            let received_ms = u64::from_be_bytes(received.try_into().ok()?);
            Some(Self {
                state: EntryState::of_codes(codes[0], codes[1])?,
                received_ms,
            })
        };
        parse().ok_or_else(|| form(&STATES))
    }

    /// Key in the index by state; oldest first, so that a bound drops the oldest.
    pub(crate) fn index(self, id: &RecordId) -> Key {
        Key::new()
            .byte(self.state.codes().0)
            .number(self.received_ms)
            .id(id.as_bytes())
    }
}

/// A part of a scope's set that two peers compare at once (DESIGN §8). Months are sums of days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    /// Generation of the KEK its entries are sealed under; 0 for those that are not sealed.
    pub generation: u64,
    /// Days since 1970 of the entries' stamps.
    pub day: u32,
}

impl Shard {
    pub(crate) fn key(self, scope: Scope) -> Key {
        Key::new().scope(scope).number(self.generation).day(self.day)
    }

    pub(crate) fn of_key(key: &[u8]) -> Result<Self, StoreError> {
        let parse = || {
            let (generation, rest) = key.get(Scope::LEN..)?.split_first_chunk::<8>()?;
            let day = rest.first_chunk::<4>()?;
            Some(Self {
                generation: u64::from_be_bytes(*generation),
                day: u32::from_be_bytes(*day),
            })
        };
        parse().ok_or_else(|| form(&SYNC))
    }
}

/// Stamp and element id at the end of a [`SYNC`] key.
pub(crate) fn element_of_key(key: &[u8]) -> Result<(Hlc, [u8; 32]), StoreError> {
    let parse = || {
        let (hlc, element) = key.get(Scope::LEN + 12..)?.split_first_chunk::<8>()?;
        Some((Hlc::from_u64(u64::from_be_bytes(*hlc)), element.try_into().ok()?))
    };
    parse().ok_or_else(|| form(&SYNC))
}

/// Record id and KEK id as [`SYNC`] and `ELEMENTS` hold them.
pub(crate) fn sealed_entry_of(table: &Table, value: &[u8]) -> Result<(RecordId, Option<KekId>), StoreError> {
    let parse = || {
        let (id, kek) = value.split_at_checked(RecordId::LEN)?;
        Some((RecordId::from_slice(id)?, kek_of(kek)?))
    };
    parse().ok_or_else(|| form(table))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scope(byte: u8) -> Scope {
        if byte == 0 {
            Scope::Mesh
        } else {
            Scope::Domain(DomainId::from_bytes([byte; 32]))
        }
    }

    proptest! {
        /// Sync keys sort as (scope, generation, day, stamp, element) do, so a shard is one range in stamp order.
        #[test]
        fn sync_keys_sort_as_their_parts(
            a in (any::<u8>(), any::<u64>(), any::<u32>(), any::<u64>(), any::<[u8; 32]>()),
            b in (any::<u8>(), any::<u64>(), any::<u32>(), any::<u64>(), any::<[u8; 32]>()),
        ) {
            let key = |(s, generation, day, hlc, element): (u8, u64, u32, u64, [u8; 32])| {
                Shard { generation, day }.key(scope(s)).number(hlc).id(&element)
            };
            prop_assert_eq!(key(a).cmp(&*key(b)), a.cmp(&b));
            prop_assert_eq!(Shard::of_key(&key(a)).unwrap(), Shard { generation: a.1, day: a.2 });
            prop_assert_eq!(element_of_key(&key(a)).unwrap(), (Hlc::from_u64(a.3), a.4));
        }

        #[test]
        fn rows_of_any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = EntryRow::decode(&bytes);
            let _ = StateRow::decode(&bytes);
            let _ = Shard::of_key(&bytes);
            let _ = element_of_key(&bytes);
            let _ = sealed_entry_of(&SYNC, &bytes);
        }
    }

    #[test]
    fn entry_row_round_trips() {
        let row = EntryRow {
            kind: EntryKind::Access,
            scope: scope(3),
            hlc: Hlc::new(9, 1),
            bytes: vec![1, 2, 3],
        };
        let found = EntryRow::decode(&row.encode()).unwrap();
        assert_eq!(
            (found.kind, found.scope, found.hlc, found.bytes),
            (row.kind, row.scope, row.hlc, row.bytes)
        );
    }
}
