//! Identifiers, numbers and hashes of the documents: one type per thing.

use std::{fmt, str::FromStr};

use sha2::Digest as _;
use uuid::Uuid;

use super::{fields::MAX_SAFE, instant::Instant, json::Json};

/// Text was not of the form that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found:?}")]
pub struct IdError {
    /// The form asked for.
    pub expected: &'static str,
    /// The text found.
    pub found: String,
}

impl IdError {
    pub(crate) fn new(expected: &'static str, found: &str) -> Self {
        // A message is for people: a megabyte of wrong text helps nobody.
        const SHOWN: usize = 200;
        let found = found.chars().take(SHOWN).collect();
        Self { expected, found }
    }
}

/// A product: the unit of publication, and a directory name.
///
/// One to 128 characters of `A-Z a-z 0-9 - . _ ~`, the first a letter or digit, so that it is the same text in a local path,
/// in an object store's key and in a URL, and never climbs out of its directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProductId(String);

impl ProductId {
    /// Longest id, in characters.
    pub const MAX_LEN: usize = 128;

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ProductId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let ok = text.len() <= Self::MAX_LEN
            && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
        if ok {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError::new(
                "a product_id (1 to 128 of A-Z a-z 0-9 - . _ ~, the first a letter or digit)",
                text,
            ))
        }
    }
}

impl fmt::Display for ProductId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ProductId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProductId({})", self.0)
    }
}

/// The one text form of a UUIDv7: lower-case, with hyphens. Ids are file names, so no second spelling is accepted.
fn uuid7(text: &str, expected: &'static str) -> Result<Uuid, IdError> {
    match Uuid::try_parse(text) {
        Ok(uuid) if is_v7(&uuid) && uuid.as_hyphenated().to_string() == text => Ok(uuid),
        _ => Err(IdError::new(expected, text)),
    }
}

fn uuid_at(instant: Instant, random: [u8; 10]) -> Uuid {
    let millis = u64::try_from(instant.unix_millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
}

/// A new UUIDv7, for ids and for names that nobody else gives.
pub(crate) fn fresh_uuid() -> Uuid {
    uuid_at(Instant::now(), rand::random())
}

fn is_v7(uuid: &Uuid) -> bool {
    uuid.get_version_num() == 7 && uuid.get_variant() == uuid::Variant::RFC4122
}

macro_rules! uuid_type {
    ($(#[$meta:meta])* $name:ident, $expected:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id of this moment.
            pub fn generate() -> Self {
                Self(fresh_uuid())
            }

            /// The id of `instant` with these random bits (74 of the 80 are used); the same arguments give the same id.
            pub fn at(instant: Instant, random: [u8; 10]) -> Self {
                Self(uuid_at(instant, random))
            }

            /// When the id was made, to the millisecond, as the id itself says.
            pub fn time(&self) -> Instant {
                let bytes = self.0.as_bytes();
                let millis = bytes[..6].iter().fold(0, |millis, byte| millis << 8 | i64::from(*byte));
                Instant::from_unix_millis(millis)
            }

            /// The id as a UUID.
            pub fn as_uuid(&self) -> Uuid {
                self.0
            }

            /// The id's sixteen bytes.
            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// The id of these bytes; none where they are no UUIDv7.
            pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
                let uuid = Uuid::from_bytes(bytes);
                is_v7(&uuid).then_some(Self(uuid))
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                uuid7(text, $expected).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0.as_hyphenated())
            }
        }
    };
}

uuid_type! {
    /// INV-37: an edition, a UUIDv7, and the name of its directory.
    EditionId, "an edition_id (a UUIDv7 in lower case)"
}

uuid_type! {
    /// INV-130: a catalogue, a UUIDv7.
    CatalogId, "a catalog_id (a UUIDv7 in lower case)"
}

/// INV-150: the sequence number of an Inventory version, from 1.
///
/// At most twelve digits, since that is what a root's name holds (INV-19) and names must sort as numbers do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(u64);

impl Seq {
    /// The first version.
    pub const FIRST: Self = Self(1);
    /// The highest sequence number a name can hold.
    pub const MAX: Self = Self(999_999_999_999);

    /// A sequence number; `None` outside 1 to [`Self::MAX`].
    pub const fn new(number: u64) -> Option<Self> {
        if number >= 1 && number <= Self::MAX.0 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next version's number; `None` after the last one a name can hold.
    pub const fn next(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }

    /// The number of the version before; `None` before the first.
    pub const fn previous(self) -> Option<Self> {
        Self::new(self.0 - 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seq({})", self.0)
    }
}

/// INV-130: how often the catalogue as a whole was restored, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch a catalogue is created with.
    pub const FIRST: Self = Self(0);
    /// The highest epoch: every JSON implementation keeps it exactly.
    pub const MAX: Self = Self(MAX_SAFE);

    /// An epoch; `None` above [`Self::MAX`].
    pub const fn new(number: u64) -> Option<Self> {
        if number <= Self::MAX.0 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The epoch a restore starts.
    pub const fn next(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({})", self.0)
    }
}

/// A SHA-256: of stored bytes (INV-166), or of the canonical text a fingerprint is made from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// Hashes `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Takes a finished hash.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl FromStr for Sha256 {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let expected = "a SHA-256 (64 lower-case hex digits)";
        let mut bytes = [0; 32];
        // The hash is a file name, so upper case would be a second name for the same file.
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) || hex::decode_to_slice(text, &mut bytes).is_err() {
            return Err(IdError::new(expected, text));
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256({})", hex::encode(&self.0[..5]))
    }
}

/// A text that says something: not empty and without control characters. Names, versions, actors.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CleanText(String);

impl CleanText {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CleanText {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if text.trim().is_empty() || text.chars().any(char::is_control) {
            return Err(IdError::new(
                "a text that is not empty and has no control characters",
                text,
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for CleanText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CleanText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

macro_rules! json_text {
    ($($name:ty),*) => {$(
        impl From<$name> for Json {
            fn from(value: $name) -> Self {
                Self::String(value.to_string())
            }
        }

        impl From<&$name> for Json {
            fn from(value: &$name) -> Self {
                Self::String(value.to_string())
            }
        }
    )*};
}
pub(crate) use json_text;

json_text!(ProductId, EditionId, CatalogId, Sha256, CleanText);

/// A program hands ids on as text. The documents themselves are not read this way.
macro_rules! serde_text {
    ($($name:ty),*) => {$(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
pub(crate) use serde_text;

serde_text!(ProductId, EditionId, CatalogId, CleanText);

impl serde::Serialize for Seq {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Seq {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        Self::new(number).ok_or_else(|| serde::de::Error::custom(format!("{number} is no version: 1 to {}", Self::MAX)))
    }
}

impl From<Seq> for Json {
    fn from(value: Seq) -> Self {
        value.0.into()
    }
}

impl From<Epoch> for Json {
    fn from(value: Epoch) -> Self {
        value.0.into()
    }
}
