//! A tree of Thrift values that keeps what it does not know.

use std::borrow::Cow;

use super::{FieldHeader, MAX_DEPTH, Reader, ThriftError, Type, Writer, map_types};

/// One value.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names of the Thrift compact protocol")]
pub enum Value<'a> {
    Bool(bool),
    Byte(u8),
    I16(i16),
    I32(i32),
    I64(i64),
    /// Eight bytes as they stand on the wire, so that every NaN survives.
    Double([u8; 8]),
    Binary(Cow<'a, [u8]>),
    List(List<'a>),
    Set(List<'a>),
    Map(Map<'a>),
    Struct(Struct<'a>),
}

impl Value<'_> {
    fn into_owned(self) -> Value<'static> {
        let list = |list: List<'_>| List {
            code: list.code,
            items: list.items.into_iter().map(Value::into_owned).collect(),
        };
        match self {
            Self::Bool(value) => Value::Bool(value),
            Self::Byte(value) => Value::Byte(value),
            Self::I16(value) => Value::I16(value),
            Self::I32(value) => Value::I32(value),
            Self::I64(value) => Value::I64(value),
            Self::Double(raw) => Value::Double(raw),
            Self::Binary(bytes) => Value::Binary(Cow::Owned(bytes.into_owned())),
            Self::List(value) => Value::List(list(value)),
            Self::Set(value) => Value::Set(list(value)),
            Self::Map(map) => Value::Map(Map {
                codes: map.codes,
                entries: map
                    .entries
                    .into_iter()
                    .map(|(key, value)| (key.into_owned(), value.into_owned()))
                    .collect(),
            }),
            Self::Struct(value) => Value::Struct(value.into_owned()),
        }
    }
}

/// A list or set. Keeps the element type's code, which even an empty list carries.
#[derive(Clone, Debug, PartialEq)]
pub struct List<'a> {
    code: u8,
    /// Elements, all of one type.
    pub items: Vec<Value<'a>>,
}

impl<'a> List<'a> {
    /// A list of structs.
    pub fn of_structs(items: impl IntoIterator<Item = Struct<'a>>) -> Self {
        Self {
            code: Type::Struct.wire(),
            items: items.into_iter().map(Value::Struct).collect(),
        }
    }
}

/// A map. Keeps the types' codes.
#[derive(Clone, Debug, PartialEq)]
pub struct Map<'a> {
    codes: u8,
    /// Entries in wire order.
    pub entries: Vec<(Value<'a>, Value<'a>)>,
}

/// One field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Field<'a> {
    /// Field id.
    pub id: i16,
    /// Its value.
    pub value: Value<'a>,
}

/// A struct: fields in wire order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Struct<'a> {
    /// Fields in wire order.
    pub fields: Vec<Field<'a>>,
}

impl<'a> Struct<'a> {
    /// Decodes a struct that fills the whole input.
    pub fn decode(input: &'a [u8]) -> Result<Self, ThriftError> {
        let (decoded, len) = Self::decode_prefix(input)?;
        if len != input.len() {
            return Err(ThriftError::TooLong((input.len() - len) as u64));
        }
        Ok(decoded)
    }

    /// Decodes a struct at the start of the input, and says how many bytes it took.
    pub fn decode_prefix(input: &'a [u8]) -> Result<(Self, usize), ThriftError> {
        let mut reader = Reader::new(input);
        let decoded = read_struct(&mut reader, 0)?;
        Ok((decoded, reader.position()))
    }

    /// The struct's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        write_struct(self, &mut writer);
        writer.out
    }

    /// Detaches the tree from the input it was decoded from.
    pub fn into_owned(self) -> Struct<'static> {
        let fields = self
            .fields
            .into_iter()
            .map(|field| Field {
                id: field.id,
                value: field.value.into_owned(),
            })
            .collect();
        Struct { fields }
    }

    /// The value of a field.
    pub fn get(&self, id: i16) -> Option<&Value<'a>> {
        self.fields
            .iter()
            .find(|field| field.id == id)
            .map(|field| &field.value)
    }

    /// The value of a field, to change it.
    pub fn get_mut(&mut self, id: i16) -> Option<&mut Value<'a>> {
        self.fields
            .iter_mut()
            .find(|field| field.id == id)
            .map(|field| &mut field.value)
    }

    /// Sets a field, in place when it exists, else at its place in the order of ids.
    pub fn set(&mut self, id: i16, value: Value<'a>) {
        if let Some(old) = self.get_mut(id) {
            *old = value;
            return;
        }
        let at = self
            .fields
            .iter()
            .position(|field| field.id > id)
            .unwrap_or(self.fields.len());
        self.fields.insert(at, Field { id, value });
    }

    /// Drops fields.
    pub fn remove(&mut self, ids: &[i16]) {
        self.fields.retain(|field| !ids.contains(&field.id));
    }

    /// An `i64` field.
    pub fn i64(&self, id: i16) -> Option<i64> {
        match self.get(id)? {
            Value::I64(value) => Some(*value),
            _ => None,
        }
    }

    /// An `i32` field.
    pub fn i32(&self, id: i16) -> Option<i32> {
        match self.get(id)? {
            Value::I32(value) => Some(*value),
            _ => None,
        }
    }

    /// A struct field, to change it.
    pub fn struct_mut(&mut self, id: i16) -> Option<&mut Self> {
        match self.get_mut(id)? {
            Value::Struct(value) => Some(value),
            _ => None,
        }
    }

    /// The structs of a list field, to change them. Elements of other types are left out.
    pub fn structs_mut(&mut self, id: i16) -> impl Iterator<Item = &mut Self> {
        let items = match self.get_mut(id) {
            Some(Value::List(list)) => list.items.as_mut_slice(),
            _ => &mut [],
        };
        items.iter_mut().filter_map(|item| match item {
            Value::Struct(value) => Some(value),
            _ => None,
        })
    }
}

fn read_struct<'a>(reader: &mut Reader<'a>, depth: u32) -> Result<Struct<'a>, ThriftError> {
    if depth >= MAX_DEPTH {
        return Err(ThriftError::TooDeep);
    }
    let mut fields = Vec::new();
    let mut last = 0;
    while let Some(FieldHeader { id, kind }) = reader.field(&mut last)? {
        let value = match kind {
            Type::True => Value::Bool(true),
            Type::False => Value::Bool(false),
            kind => read_value(reader, kind, depth + 1)?,
        };
        fields.push(Field { id, value });
    }
    Ok(Struct { fields })
}

fn read_value<'a>(reader: &mut Reader<'a>, kind: Type, depth: u32) -> Result<Value<'a>, ThriftError> {
    if depth >= MAX_DEPTH {
        return Err(ThriftError::TooDeep);
    }
    Ok(match kind {
        // A boolean field has no bytes and does not come here.
        Type::True | Type::False => return Err(ThriftError::BooleanElements),
        Type::Byte => Value::Byte(reader.byte()?),
        Type::I16 => Value::I16(i16::try_from(reader.zigzag()?).map_err(|_| ThriftError::NumberRange)?),
        Type::I32 => Value::I32(i32::try_from(reader.zigzag()?).map_err(|_| ThriftError::NumberRange)?),
        Type::I64 => Value::I64(reader.zigzag()?),
        Type::Double => {
            let mut raw = [0; 8];
            raw.copy_from_slice(reader.take(8)?);
            Value::Double(raw)
        }
        Type::Binary => Value::Binary(Cow::Borrowed(reader.raw_binary()?)),
        Type::List => Value::List(read_list(reader, depth)?),
        Type::Set => Value::Set(read_list(reader, depth)?),
        Type::Map => {
            let count = reader.varint()?;
            let count = reader.bounded(count)?;
            let mut map = Map {
                codes: 0,
                entries: Vec::new(),
            };
            if count > 0 {
                map.codes = reader.byte()?;
                let (key, value) = map_types(map.codes)?;
                for _ in 0..count {
                    map.entries.push((
                        read_value(reader, key, depth + 1)?,
                        read_value(reader, value, depth + 1)?,
                    ));
                }
            }
            Value::Map(map)
        }
        Type::Struct => Value::Struct(read_struct(reader, depth)?),
    })
}

fn read_list<'a>(reader: &mut Reader<'a>, depth: u32) -> Result<List<'a>, ThriftError> {
    let code = reader.input.get(reader.at).copied().unwrap_or(0) & 0x0f;
    let (kind, count) = reader.list_header()?;
    // Grown as elements arrive: a count is bounded by the input, but an element here is larger than on the wire.
    let mut items = Vec::new();
    if let Some(kind) = kind {
        for _ in 0..count {
            items.push(read_value(reader, kind, depth + 1)?);
        }
    }
    Ok(List { code, items })
}

fn write_struct(value: &Struct<'_>, writer: &mut Writer) {
    let mut last = 0;
    for field in &value.fields {
        writer.field(
            FieldHeader {
                id: field.id,
                kind: kind_of(&field.value),
            },
            &mut last,
        );
        if !matches!(field.value, Value::Bool(_)) {
            write_value(&field.value, writer);
        }
    }
    writer.stop();
}

const fn kind_of(value: &Value<'_>) -> Type {
    match value {
        Value::Bool(true) => Type::True,
        Value::Bool(false) => Type::False,
        Value::Byte(_) => Type::Byte,
        Value::I16(_) => Type::I16,
        Value::I32(_) => Type::I32,
        Value::I64(_) => Type::I64,
        Value::Double(_) => Type::Double,
        Value::Binary(_) => Type::Binary,
        Value::List(_) => Type::List,
        Value::Set(_) => Type::Set,
        Value::Map(_) => Type::Map,
        Value::Struct(_) => Type::Struct,
    }
}

fn write_value(value: &Value<'_>, writer: &mut Writer) {
    match value {
        Value::Bool(value) => writer.out.push(if *value { 1 } else { 2 }),
        Value::Byte(value) => writer.out.push(*value),
        Value::I16(value) => writer.zigzag(i64::from(*value)),
        Value::I32(value) => writer.zigzag(i64::from(*value)),
        Value::I64(value) => writer.zigzag(*value),
        Value::Double(raw) => writer.out.extend_from_slice(raw),
        Value::Binary(bytes) => {
            writer.varint(bytes.len() as u64);
            writer.out.extend_from_slice(bytes);
        }
        Value::List(list) | Value::Set(list) => {
            write_list_header(list, writer);
            list.items.iter().for_each(|item| write_value(item, writer));
        }
        Value::Map(map) => {
            writer.varint(map.entries.len() as u64);
            if !map.entries.is_empty() {
                writer.out.push(map.codes);
            }
            for (key, value) in &map.entries {
                write_value(key, writer);
                write_value(value, writer);
            }
        }
        Value::Struct(value) => write_struct(value, writer),
    }
}

fn write_list_header(list: &List<'_>, writer: &mut Writer) {
    let count = list.items.len();
    if count < 15 {
        writer.out.push((count as u8) << 4 | list.code);
    } else {
        writer.out.push(0xf0 | list.code);
        writer.varint(count as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind of value, unknown field ids and long lists included, survives byte for byte.
    #[test]
    fn trees_are_lossless() {
        let mut long = List {
            code: Type::I32.wire(),
            items: (0..20).map(Value::I32).collect(),
        };
        let inner = Struct {
            fields: vec![
                Field {
                    id: 1,
                    value: Value::Bool(true),
                },
                Field {
                    id: 2,
                    value: Value::Bool(false),
                },
                Field {
                    id: 40,
                    value: Value::Double(f64::NAN.to_le_bytes()),
                },
                Field {
                    id: 41,
                    value: Value::List(long.clone()),
                },
            ],
        };
        long.items.truncate(3);
        let tree = Struct {
            fields: vec![
                Field {
                    id: 1,
                    value: Value::I64(i64::MIN),
                },
                Field {
                    id: 3,
                    value: Value::Binary(Cow::Borrowed(b"text")),
                },
                Field {
                    id: 4,
                    value: Value::List(List::of_structs([inner.clone(), inner])),
                },
                Field {
                    id: 5,
                    value: Value::Set(long),
                },
                Field {
                    id: 6,
                    value: Value::Map(Map {
                        codes: 0x85,
                        entries: vec![(Value::Binary(Cow::Borrowed(b"k")), Value::I32(7))],
                    }),
                },
                Field {
                    id: 7,
                    value: Value::Map(Map {
                        codes: 0,
                        entries: vec![],
                    }),
                },
                Field {
                    id: 8,
                    value: Value::List(List { code: 0, items: vec![] }),
                },
                Field {
                    id: 300,
                    value: Value::I16(-3),
                },
                Field {
                    id: -2,
                    value: Value::Byte(9),
                },
            ],
        };
        let bytes = tree.encode();
        let decoded = Struct::decode(&bytes).unwrap();
        assert_eq!(decoded, tree);
        assert_eq!(decoded.encode(), bytes);
        for cut in 0..bytes.len() {
            assert!(Struct::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(Struct::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn set_keeps_ids_in_order() {
        let mut tree = Struct::default();
        for id in [5, 1, 3, 9, 3] {
            tree.set(id, Value::I32(i32::from(id)));
        }
        assert_eq!(
            tree.fields.iter().map(|field| field.id).collect::<Vec<_>>(),
            [1, 3, 5, 9]
        );
        tree.remove(&[3, 9]);
        assert_eq!(tree.fields.len(), 2);
        assert_eq!(tree.i32(5), Some(5));
        assert_eq!(tree.i64(5), None);
    }
}
