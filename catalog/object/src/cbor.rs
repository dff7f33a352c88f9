//! Deterministic CBOR (RFC 8949 §4.2.1): the only encoding of what gets signed.
//!
//! Maps have ascending integer keys, lengths are definite, integers shortest, and there are no floats. A decoder encodes
//! what it decoded and demands equal bytes, so there is exactly one byte string for each value (SOP-130, SOP-131).

mod form;

use minicbor::data::Type;

/// Largest signed payload that is decoded at all (SOP-135); bulk commits may be larger and say so.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024;

/// Why bytes are not the one encoding of a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Not CBOR, or cut short.
    #[error("malformed CBOR")]
    Malformed,
    /// Another type than the field has.
    #[error("field {0} has the wrong type")]
    WrongType(u64),
    /// A field of the format is not there.
    #[error("field {0} is missing")]
    Missing(u64),
    /// A field this format does not have.
    #[error("field {0} is unknown")]
    Unknown(u64),
    /// A well-formed value outside what the field allows.
    #[error("field {0} is out of range")]
    OutOfRange(u64),
    /// A version this build does not know; the entry is kept, not condemned (SOP-4).
    #[error("version {0} is newer than this node")]
    NewerVersion(u64),
    /// Longer than the format allows.
    #[error("{len} bytes exceed the limit of {limit}")]
    TooLong {
        /// Length found.
        len: usize,
        /// Length allowed.
        limit: usize,
    },
    /// Decodes, but another byte string is the one encoding of this value.
    #[error("not the deterministic encoding")]
    NotDeterministic,
    /// The COSE envelope breaks the profile; the text names the part.
    #[error("envelope: {0}")]
    Envelope(&'static str),
    /// A content type this build has no decoder for.
    #[error("content type is unknown")]
    UnknownContentType,
}

/// Writes deterministic CBOR.
#[derive(Debug)]
pub struct Encoder(minicbor::Encoder<Vec<u8>>);

/// Writing to a `Vec` cannot fail; this states it once.
macro_rules! infallible {
    ($e:expr) => {{
        $e.expect("writing to memory cannot fail");
    }};
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// An empty output.
    pub fn new() -> Self {
        Self(minicbor::Encoder::new(Vec::new()))
    }
    /// Starts a map of `n` pairs.
    pub fn map(&mut self, n: usize) -> &mut Self {
        infallible!(self.0.map(n as u64));
        self
    }
    /// Starts an array of `n` items.
    pub fn array(&mut self, n: usize) -> &mut Self {
        infallible!(self.0.array(n as u64));
        self
    }
    /// An unsigned integer, map keys included.
    pub fn uint(&mut self, v: u64) -> &mut Self {
        infallible!(self.0.u64(v));
        self
    }
    /// A signed integer.
    pub fn int(&mut self, v: i64) -> &mut Self {
        infallible!(self.0.i64(v));
        self
    }
    /// A byte string.
    pub fn bytes(&mut self, v: &[u8]) -> &mut Self {
        infallible!(self.0.bytes(v));
        self
    }
    /// A text string.
    pub fn text(&mut self, v: &str) -> &mut Self {
        infallible!(self.0.str(v));
        self
    }
    /// True or false.
    pub fn bool(&mut self, v: bool) -> &mut Self {
        infallible!(self.0.bool(v));
        self
    }
    /// Null.
    pub fn null(&mut self) -> &mut Self {
        infallible!(self.0.null());
        self
    }
    /// A field value.
    pub fn field<T: Field>(&mut self, v: &T) -> &mut Self {
        v.encode(self);
        self
    }
    /// Bytes that are an encoded item already.
    pub(crate) fn encoded(&mut self, item: &[u8]) -> &mut Self {
        self.0.writer_mut().extend_from_slice(item);
        self
    }
    /// The bytes written.
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into_writer()
    }
}

/// Reads CBOR without trusting it. Determinism is proved afterwards by [`from_slice`].
#[derive(Debug)]
pub struct Decoder<'b>(minicbor::Decoder<'b>);

impl<'b> Decoder<'b> {
    /// Reads from `bytes`.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(minicbor::Decoder::new(bytes))
    }
    /// Length of a definite map.
    pub fn map(&mut self) -> Result<u64, DecodeError> {
        self.0.map().map_err(malformed)?.ok_or(DecodeError::NotDeterministic)
    }
    /// Length of a definite array.
    pub fn array(&mut self) -> Result<u64, DecodeError> {
        self.0.array().map_err(malformed)?.ok_or(DecodeError::NotDeterministic)
    }
    /// An array of exactly `n` items.
    pub fn array_of(&mut self, n: u64) -> Result<(), DecodeError> {
        if self.array()? == n {
            Ok(())
        } else {
            Err(DecodeError::Malformed)
        }
    }
    /// An unsigned integer.
    pub fn uint(&mut self) -> Result<u64, DecodeError> {
        self.0.u64().map_err(malformed)
    }
    /// A signed integer.
    pub fn int(&mut self) -> Result<i64, DecodeError> {
        self.0.i64().map_err(malformed)
    }
    /// A definite byte string.
    pub fn bytes(&mut self) -> Result<&'b [u8], DecodeError> {
        self.0.bytes().map_err(malformed)
    }
    /// A definite text string.
    pub fn text(&mut self) -> Result<&'b str, DecodeError> {
        self.0.str().map_err(malformed)
    }
    /// True or false.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        self.0.bool().map_err(malformed)
    }
    /// Consumes a null and says whether there was one.
    pub fn null(&mut self) -> Result<bool, DecodeError> {
        if self.0.datatype().map_err(malformed)? == Type::Null {
            self.0.null().map_err(malformed)?;
            return Ok(true);
        }
        Ok(false)
    }
    /// A tag, whose item follows.
    pub(crate) fn tag(&mut self) -> Result<u64, DecodeError> {
        self.0.tag().map(|tag| tag.as_u64()).map_err(malformed)
    }
    /// A field value.
    pub fn field<T: Field>(&mut self) -> Result<T, DecodeError> {
        T::decode(self)
    }
    /// The bytes of the next item, whatever it is, if they are its deterministic encoding.
    pub(crate) fn any(&mut self) -> Result<&'b [u8], DecodeError> {
        let from = self.0.position();
        form::pass_item(&mut self.0)?;
        Ok(&self.0.input()[from..self.0.position()])
    }
    /// Whether all input was read.
    pub fn is_at_end(&self) -> bool {
        self.0.position() == self.0.input().len()
    }
}

fn malformed(_: minicbor::decode::Error) -> DecodeError {
    DecodeError::Malformed
}

/// A value of a field in a payload map. `Option` fields are left out when absent.
pub trait Field: Sized {
    /// Writes the value.
    fn encode(&self, e: &mut Encoder);
    /// Reads the value.
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError>;
    /// Whether the field is written at all.
    fn is_present(&self) -> bool {
        true
    }
    /// What a field that is not there means; `None` makes it required.
    fn when_absent() -> Option<Self> {
        None
    }
}

/// A whole payload, encoded as one deterministic CBOR item.
pub trait Payload: Sized {
    /// Longest encoding accepted.
    const MAX_BYTES: usize = MAX_PAYLOAD_BYTES;
    /// Writes the payload.
    fn encode(&self, e: &mut Encoder);
    /// Reads the payload.
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError>;
    /// Bounds and relations between fields that the shape alone does not express.
    fn check(&self) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// The one encoding of a payload.
pub fn to_vec<T: Payload>(value: &T) -> Vec<u8> {
    let mut e = Encoder::new();
    value.encode(&mut e);
    e.into_vec()
}

/// Decodes a payload and proves that `bytes` is its one encoding.
pub fn from_slice<T: Payload>(bytes: &[u8]) -> Result<T, DecodeError> {
    if bytes.len() > T::MAX_BYTES {
        return Err(DecodeError::TooLong {
            len: bytes.len(),
            limit: T::MAX_BYTES,
        });
    }
    let mut d = Decoder::new(bytes);
    let value = T::decode(&mut d)?;
    if !d.is_at_end() {
        return Err(DecodeError::Malformed);
    }
    value.check()?;
    if to_vec(&value) != bytes {
        return Err(DecodeError::NotDeterministic);
    }
    Ok(value)
}

macro_rules! id_field {
    ($($name:ident),*) => {$(
        impl Field for crate::id::$name {
            fn encode(&self, e: &mut Encoder) {
                e.bytes(self.as_bytes());
            }
            fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                Self::from_slice(d.bytes()?).ok_or(DecodeError::Malformed)
            }
        }
    )*};
}

id_field!(
    MeshId,
    DomainId,
    SiteId,
    StorageId,
    ManifestHash,
    RecordId,
    KekId,
    TableId,
    KeyRef,
    InviteId,
    KitId,
    BranchId,
    DekCommitment,
    SchemaFingerprint
);

impl Field for crate::hlc::Hlc {
    fn encode(&self, e: &mut Encoder) {
        e.uint(self.as_u64());
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.uint().map(Self::from_u64)
    }
}

impl Field for u64 {
    fn encode(&self, e: &mut Encoder) {
        e.uint(*self);
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.uint()
    }
}

impl Field for i32 {
    fn encode(&self, e: &mut Encoder) {
        e.int(i64::from(*self));
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Self::try_from(d.int()?).map_err(|_| DecodeError::Malformed)
    }
}

impl Field for i64 {
    fn encode(&self, e: &mut Encoder) {
        e.int(*self);
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.int()
    }
}

impl Field for bool {
    fn encode(&self, e: &mut Encoder) {
        e.bool(*self);
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.bool()
    }
}

impl Field for String {
    fn encode(&self, e: &mut Encoder) {
        e.text(self);
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.text().map(Self::from)
    }
}

impl Field for Vec<u8> {
    fn encode(&self, e: &mut Encoder) {
        e.bytes(self);
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.bytes().map(Self::from)
    }
}

impl<const N: usize> Field for [u8; N] {
    fn encode(&self, e: &mut Encoder) {
        e.bytes(self);
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.bytes()?.try_into().map_err(|_| DecodeError::Malformed)
    }
}

impl<T: Field> Field for Vec<T> {
    fn encode(&self, e: &mut Encoder) {
        e.array(self.len());
        for item in self {
            item.encode(e);
        }
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        // The length is a claim: items are read one by one, so a lie ends at the end of the input.
        let n = d.array()?;
        let mut items = Self::new();
        for _ in 0..n {
            items.push(T::decode(d)?);
        }
        Ok(items)
    }
}

impl<T: Field> Field for Option<T> {
    fn encode(&self, e: &mut Encoder) {
        if let Some(value) = self {
            value.encode(e);
        }
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        T::decode(d).map(Some)
    }
    fn is_present(&self) -> bool {
        self.is_some()
    }
    fn when_absent() -> Option<Self> {
        Some(None)
    }
}

/// A value that may be null where it stands (inside an array), as opposed to a field that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nullable<T>(pub Option<T>);

impl<T: Field> Field for Nullable<T> {
    fn encode(&self, e: &mut Encoder) {
        match &self.0 {
            Some(value) => value.encode(e),
            None => {
                e.null();
            }
        }
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        if d.null()? {
            Ok(Self(None))
        } else {
            T::decode(d).map(|v| Self(Some(v)))
        }
    }
}

/// Declares a payload struct whose fields are written under ascending integer keys. Key 1 is the format version, always 1.
#[macro_export]
macro_rules! payload {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* $key:literal $field:ident: $ty:ty,)* }
     $(check $check:expr;)? $(max $max:expr;)?) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* }

        impl $crate::cbor::Payload for $name {
            $(const MAX_BYTES: usize = $max;)?

            fn encode(&self, e: &mut $crate::cbor::Encoder) {
                use $crate::cbor::Field as _;
                let present = 1 $(+ usize::from(self.$field.is_present()))*;
                e.map(present).uint(1).uint(1);
                $(if self.$field.is_present() {
                    e.uint($key);
                    self.$field.encode(e);
                })*
            }

            fn decode(d: &mut $crate::cbor::Decoder<'_>) -> Result<Self, $crate::cbor::DecodeError> {
                use $crate::cbor::{DecodeError, Field};
                let pairs = d.map()?;
                $(let mut $field: Option<$ty> = None;)*
                let mut versioned = false;
                for _ in 0..pairs {
                    match d.uint()? {
                        1 => match d.uint()? {
                            1 => versioned = true,
                            newer => return Err(DecodeError::NewerVersion(newer)),
                        },
                        $($key => $field = Some(<$ty as Field>::decode(d).map_err(|e| match e {
                            DecodeError::Malformed => DecodeError::WrongType($key),
                            other => other,
                        })?),)*
                        unknown => return Err(DecodeError::Unknown(unknown)),
                    }
                }
                if !versioned {
                    return Err(DecodeError::Missing(1));
                }
                Ok(Self { $($field: match $field {
                    Some(value) => value,
                    None => <$ty as Field>::when_absent().ok_or(DecodeError::Missing($key))?,
                },)* })
            }

            $(fn check(&self) -> Result<(), $crate::cbor::DecodeError> {
                let check: fn(&Self) -> Result<(), $crate::cbor::DecodeError> = $check;
                check(self)
            })?
        }
    };
}

/// Arbitrary bytes through a record decoder; for fuzzing. Must never panic.
pub fn fuzz_decode(bytes: &[u8]) {
    let _ = crate::entry::EntryIn::decode(bytes);
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "the macro makes public records")]
mod tests {
    use super::*;

    payload! {
        /// Test payload.
        pub struct Sample {
            /// A.
            2 number: u64,
            /// B.
            3 words: Vec<String>,
            /// C.
            4 maybe: Option<Vec<u8>>,
        }
    }

    fn sample() -> Sample {
        Sample {
            number: 300,
            words: vec!["a".into(), "bc".into()],
            maybe: None,
        }
    }

    #[test]
    fn golden_bytes() {
        assert_eq!(
            hex::encode(to_vec(&sample())),
            "a301010219012c038261616262 63".replace(' ', "")
        );
    }

    /// The independent decoder of `dcbor` accepts what we write.
    #[test]
    fn dcbor_agrees() {
        let bytes = to_vec(&Sample {
            maybe: Some(vec![1, 2, 3]),
            ..sample()
        });
        dcbor::CBOR::try_from_data(&bytes).expect("dcbor refused our bytes");
    }

    /// SOP-130: every other way to write the same value, and every shape error, is refused.
    #[test]
    fn refuses_everything_but_the_one_encoding() {
        let cases = [
            ("a301010219012c0382616162626300", "trailing byte"),
            ("a3010102 1a0000012c 038261616262 63", "integer not shortest"),
            ("a3010103826161626263 0219012c", "keys not ascending"),
            ("bf01010219012c0382616162 6263ff", "indefinite map"),
            ("a30101021901 2c039f6161626263ff", "indefinite array"),
            ("a401010219012c0219012c038261616262 63", "duplicate key"),
            ("a20101 0219012c", "missing field"),
            ("a401010219012c0382616162626309 00", "unknown field"),
            ("a3010202 19012c03826161626263", "newer version"),
            ("a20219012c03826161626263", "no version"),
            ("a301010260 03826161626263", "wrong type"),
            ("a30101021901", "cut short"),
            ("a301010219012c039bffffffffffffffff", "array length beyond the input"),
            ("", "nothing"),
        ];
        for (bytes, why) in cases {
            let bytes = hex::decode(bytes.replace(' ', "")).unwrap();
            assert!(from_slice::<Sample>(&bytes).is_err(), "{why}");
        }
        assert_eq!(from_slice::<Sample>(&to_vec(&sample())), Ok(sample()));
    }
}
