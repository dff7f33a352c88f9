//! Thrift compact protocol, as far as Parquet footers and page headers need it.
//!
//! Two layers. [`Reader`] walks bytes and allocates nothing; [`Struct`] is a tree that keeps every field it does not know, so
//! that a footer written by another library can be changed in one place and re-encoded without loss.
//!
//! Input is hostile: nesting is bounded by [`MAX_DEPTH`], numbers by ten bytes, lengths and counts by what is left of the
//! input. Since every element takes at least one byte, a few bytes can never announce millions of elements.
//!
//! ```text
//! field   1 byte: id delta (high 4 bits, 0 = id follows as zigzag varint) | type (low 4 bits); 0 ends a struct
//! list    1 byte: count (high 4 bits, 15 = varint follows) | element type
//! map     varint count; if not 0: 1 byte key type (high) | value type (low)
//! ```

pub(crate) mod shape;
mod tree;

pub use tree::{Field, List, Map, Struct, Value};

/// Deepest nesting of structs and lists in an accepted input; Parquet's own formats stay below 10.
pub const MAX_DEPTH: u32 = 24;

/// Type of a value on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names of the Thrift compact protocol")]
pub enum Type {
    True,
    False,
    Byte,
    I16,
    I32,
    I64,
    Double,
    Binary,
    List,
    Set,
    Map,
    Struct,
}

impl Type {
    fn from_wire(code: u8) -> Result<Self, ThriftError> {
        Ok(match code {
            1 => Self::True,
            2 => Self::False,
            3 => Self::Byte,
            4 => Self::I16,
            5 => Self::I32,
            6 => Self::I64,
            7 => Self::Double,
            8 => Self::Binary,
            9 => Self::List,
            10 => Self::Set,
            11 => Self::Map,
            12 => Self::Struct,
            _ => return Err(ThriftError::UnknownType(code)),
        })
    }

    pub(crate) const fn wire(self) -> u8 {
        self as u8 + 1
    }

    /// The type, if elements may have it.
    const fn element(self) -> Result<Self, ThriftError> {
        match self {
            Self::True | Self::False => Err(ThriftError::BooleanElements),
            other => Ok(other),
        }
    }
}

/// Key and value type of a map that is not empty.
fn map_types(codes: u8) -> Result<(Type, Type), ThriftError> {
    Ok((
        Type::from_wire(codes >> 4)?.element()?,
        Type::from_wire(codes & 0x0f)?.element()?,
    ))
}

/// Why bytes are not a Thrift structure we accept.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ThriftError {
    /// Input ended inside a value.
    #[error("the structure ends early")]
    Truncated,
    /// A count or length is larger than what is left of the input.
    #[error("a length of {0} exceeds the input")]
    TooLong(u64),
    /// Structs or lists are nested deeper than [`MAX_DEPTH`].
    #[error("the structure is nested too deeply")]
    TooDeep,
    /// A number takes more than its bytes, or a field id is out of range.
    #[error("a number is out of range")]
    NumberRange,
    /// A type code without meaning.
    #[error("type code {0} has no meaning")]
    UnknownType(u8),
    /// Booleans in a list, a set or a map. Readers differ on how many bytes one takes, none or one, so that what one of them
    /// checked is not what the other one reads. Nothing in a footer or page header has them.
    #[error("a list or map holds booleans, which readers disagree on")]
    BooleanElements,
    /// A field has another type than the format gives it.
    #[error("field {0} has the wrong type")]
    WrongType(i16),
}

/// Header of one field of a struct.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FieldHeader {
    /// Field id.
    pub id: i16,
    /// Type of the value that follows; booleans carry their value here.
    pub kind: Type,
}

/// A cursor over bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `input`.
    pub const fn new(input: &'a [u8]) -> Self {
        Self { input, at: 0 }
    }

    /// Bytes consumed so far.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// What was consumed since `start`, an earlier [`position`](Self::position).
    pub fn since(&self, start: usize) -> &'a [u8] {
        self.input.get(start..self.at).unwrap_or_default()
    }

    const fn remaining(&self) -> usize {
        self.input.len() - self.at
    }

    fn byte(&mut self) -> Result<u8, ThriftError> {
        let byte = *self.input.get(self.at).ok_or(ThriftError::Truncated)?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], ThriftError> {
        let taken = self.input[self.at..].get(..len).ok_or(ThriftError::Truncated)?;
        self.at += len;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ThriftError> {
        let mut value = 0u64;
        for shift in (0..).step_by(7).take(10) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                return Err(ThriftError::NumberRange);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ThriftError::NumberRange)
    }

    fn zigzag(&mut self) -> Result<i64, ThriftError> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// The next field's header, `None` at the end of the struct. `last_id` starts at 0 and is kept by the caller.
    pub fn field(&mut self, last_id: &mut i16) -> Result<Option<FieldHeader>, ThriftError> {
        let byte = self.byte()?;
        if byte == 0 {
            return Ok(None);
        }
        let kind = Type::from_wire(byte & 0x0f)?;
        let id = match byte >> 4 {
            0 => i16::try_from(self.zigzag()?).map_err(|_| ThriftError::NumberRange)?,
            delta => last_id.checked_add(i16::from(delta)).ok_or(ThriftError::NumberRange)?,
        };
        *last_id = id;
        Ok(Some(FieldHeader { id, kind }))
    }

    /// An `i32` value of the field just read.
    pub fn i32(&mut self, header: FieldHeader) -> Result<i32, ThriftError> {
        expect(header, Type::I32)?;
        i32::try_from(self.zigzag()?).map_err(|_| ThriftError::NumberRange)
    }

    /// An `i64` value of the field just read.
    pub fn i64(&mut self, header: FieldHeader) -> Result<i64, ThriftError> {
        expect(header, Type::I64)?;
        self.zigzag()
    }

    /// A text or bytes value of the field just read.
    pub fn binary(&mut self, header: FieldHeader) -> Result<&'a [u8], ThriftError> {
        expect(header, Type::Binary)?;
        self.raw_binary()
    }

    fn raw_binary(&mut self) -> Result<&'a [u8], ThriftError> {
        let len = self.varint()?;
        let len = usize::try_from(len)
            .ok()
            .filter(|&len| len <= self.remaining())
            .ok_or(ThriftError::TooLong(len))?;
        self.take(len)
    }

    /// Element count of a list of structs, the field just read.
    pub fn struct_list(&mut self, header: FieldHeader) -> Result<usize, ThriftError> {
        expect(header, Type::List)?;
        let (kind, count) = self.list_header()?;
        // An empty list may name any element type.
        if kind != Some(Type::Struct) && count > 0 {
            return Err(ThriftError::WrongType(header.id));
        }
        Ok(count)
    }

    /// Element type and count; the type of an empty list may be anything, even nothing.
    fn list_header(&mut self) -> Result<(Option<Type>, usize), ThriftError> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.varint()?,
            short => u64::from(short),
        };
        let count = self.bounded(count)?;
        let kind = Type::from_wire(byte & 0x0f);
        Ok((if count == 0 { kind.ok() } else { Some(kind?.element()?) }, count))
    }

    fn bounded(&self, count: u64) -> Result<usize, ThriftError> {
        usize::try_from(count)
            .ok()
            .filter(|&count| count <= self.remaining())
            .ok_or(ThriftError::TooLong(count))
    }

    /// Walks over the value of the field just read.
    pub fn skip(&mut self, header: FieldHeader) -> Result<(), ThriftError> {
        match header.kind {
            Type::True | Type::False => Ok(()),
            kind => self.skip_value(kind, 0),
        }
    }

    /// Walks over one whole struct and returns its bytes.
    pub fn whole_struct(&mut self) -> Result<&'a [u8], ThriftError> {
        let start = self.at;
        self.skip_value(Type::Struct, 0)?;
        Ok(self.since(start))
    }

    fn skip_value(&mut self, kind: Type, depth: u32) -> Result<(), ThriftError> {
        if depth >= MAX_DEPTH {
            return Err(ThriftError::TooDeep);
        }
        match kind {
            // A boolean field has no bytes and does not come here.
            Type::True | Type::False => Err(ThriftError::BooleanElements),
            Type::Byte => self.byte().map(drop),
            Type::I16 => i16::try_from(self.zigzag()?)
                .map(drop)
                .map_err(|_| ThriftError::NumberRange),
            Type::I32 => i32::try_from(self.zigzag()?)
                .map(drop)
                .map_err(|_| ThriftError::NumberRange),
            Type::I64 => self.varint().map(drop),
            Type::Double => self.take(8).map(drop),
            Type::Binary => self.raw_binary().map(drop),
            Type::List | Type::Set => {
                let (kind, count) = self.list_header()?;
                let Some(kind) = kind else { return Ok(()) };
                (0..count).try_for_each(|_| self.skip_value(kind, depth + 1))
            }
            Type::Map => {
                let count = self.varint()?;
                let count = self.bounded(count)?;
                if count == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                let (key, value) = map_types(kinds)?;
                (0..count).try_for_each(|_| {
                    self.skip_value(key, depth + 1)?;
                    self.skip_value(value, depth + 1)
                })
            }
            Type::Struct => {
                let mut last = 0;
                while let Some(header) = self.field(&mut last)? {
                    if !matches!(header.kind, Type::True | Type::False) {
                        self.skip_value(header.kind, depth + 1)?;
                    }
                }
                Ok(())
            }
        }
    }
}

fn expect(header: FieldHeader, kind: Type) -> Result<(), ThriftError> {
    if header.kind == kind {
        Ok(())
    } else {
        Err(ThriftError::WrongType(header.id))
    }
}

/// Writes the pieces of a struct; the counterpart of [`Reader`].
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) out: Vec<u8>,
}

impl Writer {
    pub(crate) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    pub(crate) fn zigzag(&mut self, value: i64) {
        self.varint(((value << 1) ^ (value >> 63)) as u64);
    }

    pub(crate) fn field(&mut self, header: FieldHeader, last_id: &mut i16) {
        match i32::from(header.id) - i32::from(*last_id) {
            delta @ 1..=15 => self.out.push((delta as u8) << 4 | header.kind.wire()),
            _ => {
                self.out.push(header.kind.wire());
                self.zigzag(i64::from(header.id));
            }
        }
        *last_id = header.id;
    }

    pub(crate) fn list(&mut self, kind: Type, count: usize) {
        if count < 15 {
            self.out.push((count as u8) << 4 | kind.wire());
        } else {
            self.out.push(0xf0 | kind.wire());
            self.varint(count as u64);
        }
    }

    pub(crate) fn stop(&mut self) {
        self.out.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_at_their_borders() {
        for value in [0, 1, -1, 63, 64, -64, -65, i64::from(i32::MAX), i64::MAX, i64::MIN] {
            let mut writer = Writer::default();
            writer.zigzag(value);
            assert_eq!(Reader::new(&writer.out).zigzag(), Ok(value));
        }
        assert_eq!(Reader::new(&[0xff; 10]).varint(), Err(ThriftError::NumberRange));
        assert_eq!(Reader::new(&[0x80; 11]).varint(), Err(ThriftError::NumberRange));
        assert_eq!(Reader::new(&[0x80]).varint(), Err(ThriftError::Truncated));
    }

    /// SOP-90: announced counts beyond the input are refused before anything is done for them.
    #[test]
    fn bombs_are_refused() {
        // list<struct> of 2^31 elements; binary of 4 GiB; map of 2^40 entries
        let bombs: [&[u8]; 3] = [
            &[0x19, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x08, 0, 0, 0],
            &[0x18, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0],
            &[0x1b, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0xcc, 0],
        ];
        for bomb in bombs {
            assert!(
                matches!(Reader::new(bomb).whole_struct(), Err(ThriftError::TooLong(_))),
                "{bomb:?}"
            );
            assert!(Struct::decode(bomb).is_err());
        }
    }

    /// Found by the fuzzer: the Parquet library takes no bytes for a boolean element, went on in the middle of what followed,
    /// and counted to two billion there.
    #[test]
    fn boolean_elements_are_refused() {
        for kind in [1, 2] {
            let list = [0x19, 0x20 | kind, 1, 2, 0];
            let set = [0x1a, 0x20 | kind, 1, 2, 0];
            let map = [0x1b, 1, 0x30 | kind, 7, 1, 0];
            for bytes in [&list[..], &set, &map] {
                assert_eq!(Reader::new(bytes).whole_struct(), Err(ThriftError::BooleanElements));
                assert_eq!(Struct::decode(bytes), Err(ThriftError::BooleanElements));
            }
            // An empty list may name any type.
            assert!(Reader::new(&[0x19, kind, 0]).whole_struct().is_ok());
        }
    }

    #[test]
    fn depth_is_bounded() {
        // Structs in field 1, nested without end; then lists of lists.
        for nest in [0x1c, 0x19] {
            let deep: Vec<u8> = [vec![0x1c], vec![nest; 100_000]].concat();
            assert_eq!(Reader::new(&deep).whole_struct(), Err(ThriftError::TooDeep));
            assert!(matches!(Struct::decode(&deep), Err(ThriftError::TooDeep)));
        }
    }

    #[test]
    fn any_bytes_are_handled() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for len in 0..4_000 {
            let bytes: Vec<u8> = (0..len % 97)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (state >> 56) as u8
                })
                .collect();
            let walked = Reader::new(&bytes).whole_struct().map(<[u8]>::len);
            let tree = Struct::decode_prefix(&bytes).map(|(_, len)| len);
            assert_eq!(walked, tree, "{bytes:?}");
        }
    }
}
