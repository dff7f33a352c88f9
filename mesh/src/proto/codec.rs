//! Small pieces shared by all wire messages: bounded lists and structs written as CBOR arrays.

use sovm_object::cbor::{DecodeError, Decoder, Encoder, Field};

/// A list whose length is bounded before anything is reserved or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T, const MAX: usize>(pub Vec<T>);

impl<T, const MAX: usize> Default for List<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MAX: usize> From<Vec<T>> for List<T, MAX> {
    fn from(items: Vec<T>) -> Self {
        Self(items)
    }
}

impl<T, const MAX: usize> std::ops::Deref for List<T, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Field, const MAX: usize> Field for List<T, MAX> {
    fn encode(&self, e: &mut Encoder) {
        e.array(self.0.len());
        for item in &self.0 {
            item.encode(e);
        }
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let n = d.array()?;
        if n > MAX as u64 {
            return Err(DecodeError::TooLong {
                len: usize::try_from(n).unwrap_or(usize::MAX),
                limit: MAX,
            });
        }
        (0..n).map(|_| T::decode(d)).collect::<Result<_, _>>().map(Self)
    }
}

/// A byte string whose length is bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes<const MAX: usize>(pub Vec<u8>);

impl<const MAX: usize> From<Vec<u8>> for Bytes<MAX> {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl<const MAX: usize> std::ops::Deref for Bytes<MAX> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<const MAX: usize> Field for Bytes<MAX> {
    fn encode(&self, e: &mut Encoder) {
        e.bytes(&self.0);
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let bytes = d.bytes()?;
        if bytes.len() > MAX {
            return Err(DecodeError::TooLong {
                len: bytes.len(),
                limit: MAX,
            });
        }
        Ok(Self(bytes.to_vec()))
    }
}

/// Writes a struct as the CBOR array of its fields. For parts of messages that are repeated often, where map keys would
/// double the size; whole messages carry a version elsewhere.
macro_rules! array_field {
    ($name:ident { $($field:ident),+ $(,)? }) => {
        impl sovm_object::cbor::Field for $name {
            fn encode(&self, e: &mut sovm_object::cbor::Encoder) {
                e.array([$(stringify!($field)),+].len());
                $(e.field(&self.$field);)+
            }

            fn decode(
                d: &mut sovm_object::cbor::Decoder<'_>,
            ) -> Result<Self, sovm_object::cbor::DecodeError> {
                d.array_of([$(stringify!($field)),+].len() as u64)?;
                Ok(Self { $($field: d.field()?),+ })
            }
        }
    };
}
pub(crate) use array_field;

/// Writes an enum of one-field variants as the CBOR array `[number, body]`, and makes it a payload of its own.
macro_rules! message_enum {
    ($name:ident, max $max:expr, { $($variant:ident = $number:literal),+ $(,)? }) => {
        impl sovm_object::cbor::Payload for $name {
            const MAX_BYTES: usize = $max;

            fn encode(&self, e: &mut sovm_object::cbor::Encoder) {
                e.array(2);
                match self { $(Self::$variant(body) => { e.uint($number).field(body); })+ }
            }

            fn decode(
                d: &mut sovm_object::cbor::Decoder<'_>,
            ) -> Result<Self, sovm_object::cbor::DecodeError> {
                d.array_of(2)?;
                match d.uint()? {
                    $($number => d.field().map(Self::$variant),)+
                    unknown => Err(sovm_object::cbor::DecodeError::Unknown(unknown)),
                }
            }
        }
    };
}
pub(crate) use message_enum;

/// Lets a payload stand as a field of another one.
macro_rules! payload_field {
    ($($name:ty),+ $(,)?) => {$(
        impl sovm_object::cbor::Field for $name {
            fn encode(&self, e: &mut sovm_object::cbor::Encoder) {
                <Self as sovm_object::cbor::Payload>::encode(self, e);
            }

            fn decode(
                d: &mut sovm_object::cbor::Decoder<'_>,
            ) -> Result<Self, sovm_object::cbor::DecodeError> {
                let value = <Self as sovm_object::cbor::Payload>::decode(d)?;
                sovm_object::cbor::Payload::check(&value)?;
                Ok(value)
            }
        }
    )+};
}
pub(crate) use payload_field;
