//! Which type each field of a Parquet structure has on the wire.
//!
//! The Parquet library reads a field it knows without looking at the type in front of it. A field of another type is then as long
//! for the library as its own type says, and as long for [`Reader::skip`] as the input says: from there on the two read different
//! structures, and what one of them checked is not what the other one reads. So a field that the library knows must have its type
//! here. Fields unknown to it are skipped by both alike.

use super::{FieldHeader, Reader, ThriftError, Type};

/// Type of a value, with the types of what stands in it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// A boolean, which a field carries in its header.
    Bool,
    /// A value without parts.
    Plain(Type),
    /// A list of values of one shape.
    List(&'static Self),
    /// A struct or a union: its known fields.
    Struct(&'static Fields),
}

/// Known fields of a struct, by id.
pub(crate) type Fields = [(i16, Shape)];

/// The names of Parquet's own definition, for the tables of fields.
pub(crate) const BOOL: Shape = Shape::Bool;
pub(crate) const BYTE: Shape = Shape::Plain(Type::Byte);
pub(crate) const I16: Shape = Shape::Plain(Type::I16);
pub(crate) const I32: Shape = Shape::Plain(Type::I32);
pub(crate) const I64: Shape = Shape::Plain(Type::I64);
pub(crate) const BINARY: Shape = Shape::Plain(Type::Binary);
/// A struct of which nothing is known, or nothing is read.
pub(crate) const EMPTY: Shape = Shape::Struct(&[]);

impl Shape {
    fn is(self, kind: Type) -> bool {
        match self {
            Self::Bool => matches!(kind, Type::True | Type::False),
            Self::Plain(own) => kind == own,
            Self::List(_) => kind == Type::List,
            Self::Struct(_) => kind == Type::Struct,
        }
    }
}

impl Reader<'_> {
    /// Walks over the value of the field just read; a field of `known` must have its shape.
    pub(crate) fn skip_as(&mut self, header: FieldHeader, known: &Fields) -> Result<(), ThriftError> {
        let Some((_, shape)) = known.iter().find(|(id, _)| *id == header.id) else {
            return self.skip(header);
        };
        if !shape.is(header.kind) {
            return Err(ThriftError::WrongType(header.id));
        }
        match *shape {
            Shape::Bool | Shape::Plain(_) => self.skip(header),
            Shape::List(element) => self.skip_list(header, *element),
            Shape::Struct(fields) => self.skip_struct(fields),
        }
    }

    fn skip_list(&mut self, header: FieldHeader, element: Shape) -> Result<(), ThriftError> {
        let (kind, count) = self.list_header()?;
        // An empty list may name any type.
        let Some(kind) = kind.filter(|_| count > 0) else {
            return Ok(());
        };
        if !element.is(kind) {
            return Err(ThriftError::WrongType(header.id));
        }
        (0..count).try_for_each(|_| match element {
            Shape::Struct(fields) => self.skip_struct(fields),
            _ => self.skip_value(kind, 1),
        })
    }

    fn skip_struct(&mut self, fields: &Fields) -> Result<(), ThriftError> {
        let mut last = 0;
        while let Some(header) = self.field(&mut last)? {
            self.skip_as(header, fields)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNER: &Fields = &[(1, BINARY)];
    const KNOWN: &Fields = &[
        (1, I32),
        (2, BOOL),
        (3, Shape::List(&I64)),
        (4, Shape::Struct(INNER)),
        (5, Shape::List(&Shape::Struct(INNER))),
    ];

    fn walk(bytes: &[u8]) -> Result<usize, ThriftError> {
        let mut reader = Reader::new(bytes);
        reader.skip_struct(KNOWN)?;
        Ok(reader.position())
    }

    #[test]
    fn fields_of_their_own_shape_pass() {
        // 1: 7, 2: true, 3: [1, 2], 4: {1: "a"}, 5: [{1: "a"}, {}], 9: a map nobody knows
        let whole = [
            0x15, 14, 0x11, 0x19, 0x26, 2, 4, 0x1c, 0x18, 1, b'a', 0, 0x19, 0x2c, 0x18, 1, b'a', 0, 0, 0x4b, 1, 0x55,
            2, 4, 0,
        ];
        assert_eq!(walk(&whole), Ok(whole.len()));
        // An empty list, of a type of its own.
        assert_eq!(walk(&[0x39, 0x08, 0]), Ok(3));
    }

    /// SOP-90: found by the fuzzer, which made a number's field a list and had the Parquet library allocate 15 GB for 54 bytes.
    #[test]
    fn a_known_field_of_another_type_is_refused() {
        let refused: [(&[u8], i16); 7] = [
            (&[0x11, 0], 1),                         // a boolean for a number
            (&[0x18, 1, 0, 0], 1),                   // bytes for a number
            (&[0x16, 2, 0], 1),                      // a longer number
            (&[0x25, 2, 0], 2),                      // a number for a boolean
            (&[0x39, 0x15, 2, 0], 3),                // a list of shorter numbers
            (&[0x4c, 0x15, 2, 0, 0], 1),             // in a struct
            (&[0x59, 0x1c, 0x19, 0x15, 2, 0, 0], 1), // in a struct of a list
        ];
        for (bytes, field) in refused {
            assert_eq!(walk(bytes), Err(ThriftError::WrongType(field)), "{bytes:?}");
        }
        assert_eq!(
            walk(&[0x3a, 0x16, 2, 0]),
            Err(ThriftError::WrongType(3)),
            "a set for a list"
        );
    }

    #[test]
    fn what_nobody_knows_is_still_walked() {
        assert_eq!(walk(&[0x7c, 0x16, 2, 0]), Err(ThriftError::Truncated));
        assert_eq!(walk(&[0x79, 0x22, 1, 0]), Err(ThriftError::BooleanElements));
    }
}
