//! A document beside the bytes it is stored as.

use std::{marker::PhantomData, ops::Deref};

use bytes::Bytes;

use super::{
    error::{DocError, DocKind, Problem, Refused},
    id::Sha256,
    json::{Json, JsonObject},
};

/// A document of a catalogue.
pub trait Document: Sized {
    /// Which document it is.
    const KIND: DocKind;

    /// Reads the document and checks everything it can show by itself.
    fn decode(bytes: &[u8]) -> Result<Self, DocError>;

    /// Writes the document as compact JSON in its fixed key order; refuses what [`decode`](Self::decode) would refuse.
    fn encode(&self) -> Result<Vec<u8>, DocError>;
}

/// A document that is one JSON object.
pub(crate) trait JsonDocument: Sized {
    const KIND: DocKind;

    /// Takes the object apart.
    fn read(json: Json) -> Result<Self, Refused>;

    /// Puts the object together, in the documented order.
    fn write(&self) -> JsonObject;

    /// What must hold between the fields.
    fn check(&self) -> Result<(), Refused>;

    /// What must hold of the text itself.
    fn check_text(&self, _bytes: &[u8]) -> Result<(), Refused> {
        Ok(())
    }
}

impl<T: JsonDocument> Document for T {
    const KIND: DocKind = <T as JsonDocument>::KIND;

    fn decode(bytes: &[u8]) -> Result<Self, DocError> {
        let read = || {
            let value = Self::read(Json::parse(bytes)?)?;
            value.check()?;
            value.check_text(bytes)?;
            Ok(value)
        };
        read().map_err(|refused: Refused| refused.of(<T as JsonDocument>::KIND))
    }

    fn encode(&self) -> Result<Vec<u8>, DocError> {
        self.check().map_err(|refused| refused.of(<T as JsonDocument>::KIND))?;
        Ok(Json::from(self.write()).to_text().into_bytes())
    }
}

/// Mark of a document whose bytes have the hash, or the origin, somebody vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verified {}

/// Mark of a document as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unverified {}

/// A document, the exact bytes it is stored as, and their SHA-256 (INV-166).
///
/// `Stored<T>` is verified: made from a hash known beforehand, or from a value this process encodes itself.
/// `Stored<T, Unverified>` is a document as it was found; only its own form has been checked.
///
/// ```compile_fail,E0308
/// # use sovm_inventory::doc::{Manifest, Stored, Unverified};
/// fn open(_: &Stored<Manifest>) {}
/// // INV-172: nothing is read by a manifest whose hash was not compared.
/// fn wrong(found: Stored<Manifest, Unverified>) { open(&found) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored<T, V = Verified> {
    bytes: Bytes,
    sha256: Sha256,
    value: T,
    verified: PhantomData<V>,
}

impl<T: Document> Stored<T, Unverified> {
    /// Reads a document whose hash nobody knows yet.
    pub fn decode(bytes: impl Into<Bytes>) -> Result<Self, DocError> {
        let bytes = bytes.into();
        let sha256 = Sha256::of(&bytes);
        let value = T::decode(&bytes)?;
        Ok(Self {
            bytes,
            sha256,
            value,
            verified: PhantomData,
        })
    }

    /// Compares the hash of the stored bytes with one learned since.
    pub fn verified_by(self, expected: Sha256) -> Result<Stored<T>, DocError> {
        compare::<T>(self.sha256, expected)?;
        Ok(self.trusted())
    }
}

impl<T> Stored<T, Unverified> {
    /// Takes the document as verified on other grounds than its hash, which the caller has checked: a signature over
    /// exactly these bytes, or a link of the chain from a document that is verified.
    pub fn trusted(self) -> Stored<T> {
        Stored {
            bytes: self.bytes,
            sha256: self.sha256,
            value: self.value,
            verified: PhantomData,
        }
    }
}

impl<T: Document> Stored<T> {
    /// INV-172: hashes the bytes, compares, and only then parses them.
    pub fn verify(bytes: impl Into<Bytes>, expected: Sha256) -> Result<Self, DocError> {
        let bytes = bytes.into();
        let sha256 = Sha256::of(&bytes);
        compare::<T>(sha256, expected)?;
        let value = T::decode(&bytes)?;
        Ok(Self {
            bytes,
            sha256,
            value,
            verified: PhantomData,
        })
    }

    /// Encodes a document of this process's own.
    pub fn encode(value: T) -> Result<Self, DocError> {
        let bytes = Bytes::from(value.encode()?);
        let sha256 = Sha256::of(&bytes);
        Ok(Self {
            bytes,
            sha256,
            value,
            verified: PhantomData,
        })
    }
}

fn compare<T: Document>(found: Sha256, expected: Sha256) -> Result<(), DocError> {
    if found == expected {
        return Ok(());
    }
    let problem = Problem::HashMismatch {
        expected: expected.to_string(),
        found: found.to_string(),
    };
    // A manifest has its own rule; every other hash of a document is one over stored bytes.
    let rule = if T::KIND == DocKind::Manifest { 172 } else { 166 };
    Err(Refused::by(rule, problem).of(T::KIND))
}

impl<T, V> Stored<T, V> {
    /// The bytes as they are stored.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The SHA-256 of those bytes.
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }

    /// The document.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The document alone.
    pub fn into_value(self) -> T {
        self.value
    }
}

impl<T, V> Deref for Stored<T, V> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
