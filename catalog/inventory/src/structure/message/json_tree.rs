//! JSON as a tree that refuses what a map would hide: a key twice, and nesting without end.

use std::{cell::RefCell, collections::BTreeMap, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::{Limits, MessageError, bad, boolean, bounded, decimal, number};
use crate::structure::{model::Decimal, urn::Urn};

/// A JSON value.
#[derive(Debug, Clone)]
pub(in crate::structure) enum Json {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Self>),
    Object(BTreeMap<String, Self>),
}

impl Json {
    pub(in crate::structure) fn parse(bytes: &[u8], limits: Limits) -> Result<Self, MessageError> {
        let text = bounded(bytes, limits)?;
        // What the visitor refuses comes out of serde_json as text; the reason itself is kept here.
        let refused = RefCell::new(None);
        let parts = RefCell::new(0);
        let seed = Seed {
            depth: 0,
            limits,
            parts: &parts,
            refused: &refused,
        };
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let value = seed
            .deserialize(&mut deserializer)
            .and_then(|value| deserializer.end().map(|()| value));
        value.map_err(|error| refused.take().unwrap_or_else(|| MessageError::Json(error.to_string())))
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a truth value",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

struct Seed<'a> {
    depth: usize,
    limits: Limits,
    parts: &'a RefCell<usize>,
    refused: &'a RefCell<Option<MessageError>>,
}

impl<'a> Seed<'a> {
    fn refuse<E: serde::de::Error>(&self, error: MessageError) -> E {
        let text = error.to_string();
        self.refused.replace(Some(error));
        E::custom(text)
    }

    fn deeper<E: serde::de::Error>(&self) -> Result<Self, E> {
        let Self {
            depth,
            limits,
            parts,
            refused,
        } = *self;
        // serde_json's own bound on recursion is 128 levels; ours is below it, so that the error is ours.
        let limit = limits.depth.min(120);
        if depth + 1 > limit {
            return Err(self.refuse(MessageError::TooDeep { limit }));
        }
        Ok(Seed {
            depth: depth + 1,
            limits,
            parts,
            refused,
        })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        let mut parts = self.parts.borrow_mut();
        *parts += 1;
        if *parts > self.limits.parts {
            return Err(self.refuse(MessageError::TooManyParts {
                limit: self.limits.parts,
            }));
        }
        drop(parts);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json, E> {
        serde_json::Number::from_f64(value)
            .map(Json::Number)
            .ok_or_else(|| E::custom("the number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(member) = members.next_element_seed(self.deeper()?)? {
            list.push(member);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut object = BTreeMap::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self.deeper()?)?;
            if object.insert(key.clone(), value).is_some() {
                return Err(self.refuse(MessageError::DuplicateKey { key }));
            }
        }
        if object.len() > self.limits.parts {
            return Err(A::Error::custom("too many keys"));
        }
        Ok(Json::Object(object))
    }
}

/// An object whose fields are taken one by one; [`Node::finish`] refuses what nobody took.
pub(in crate::structure) struct Node {
    pub(in crate::structure) place: String,
    fields: BTreeMap<String, Json>,
}

impl Node {
    pub(in crate::structure) fn of(place: impl Into<String>, value: Json) -> Result<Self, MessageError> {
        let place = place.into();
        match value {
            Json::Object(fields) => Ok(Self { place, fields }),
            other => Err(bad(&place, "value", other.kind(), "it is an object")),
        }
    }

    fn take(&mut self, key: &str) -> Option<Json> {
        self.fields.remove(key).filter(|value| !matches!(value, Json::Null))
    }

    fn wrong(&self, key: &str, value: &Json, why: &str) -> MessageError {
        bad(&self.place, key, value.kind(), why)
    }

    /// Forgets a field that repeats what another says, or that an edition doesn't store.
    pub(in crate::structure) fn ignore(&mut self, key: &str) {
        self.fields.remove(key);
    }

    pub(in crate::structure) fn text(&mut self, key: &str) -> Result<Option<String>, MessageError> {
        match self.take(key) {
            None => Ok(None),
            Some(Json::Text(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, &other, "it is a text")),
        }
    }

    pub(in crate::structure) fn needed(&mut self, key: &'static str) -> Result<String, MessageError> {
        self.text(key)?.ok_or_else(|| MessageError::Missing {
            place: self.place.clone(),
            what: key,
        })
    }

    /// A scalar as the text another format would hold.
    pub(in crate::structure) fn scalar(&mut self, key: &str) -> Result<Option<String>, MessageError> {
        match self.take(key) {
            None => Ok(None),
            Some(Json::Text(text)) => Ok(Some(text)),
            Some(Json::Bool(value)) => Ok(Some(value.to_string())),
            Some(Json::Number(value)) => Ok(Some(value.to_string())),
            Some(other) => Err(self.wrong(key, &other, "it is a single value")),
        }
    }

    pub(in crate::structure) fn boolean(&mut self, key: &str) -> Result<Option<bool>, MessageError> {
        match self.take(key) {
            None => Ok(None),
            Some(Json::Bool(value)) => Ok(Some(value)),
            Some(Json::Text(text)) => boolean(&self.place, key, &text).map(Some),
            Some(other) => Err(self.wrong(key, &other, "it is `true` or `false`")),
        }
    }

    pub(in crate::structure) fn number<T: std::str::FromStr>(&mut self, key: &str) -> Result<Option<T>, MessageError> {
        self.scalar(key)?
            .map(|text| number(&self.place, key, &text))
            .transpose()
    }

    pub(in crate::structure) fn decimal(&mut self, key: &str) -> Result<Option<Decimal>, MessageError> {
        self.scalar(key)?
            .map(|text| decimal(&self.place, key, &text))
            .transpose()
    }

    pub(in crate::structure) fn list(&mut self, key: &str) -> Result<Vec<Json>, MessageError> {
        match self.take(key) {
            None => Ok(Vec::new()),
            Some(Json::List(list)) => Ok(list),
            Some(other) => Err(self.wrong(key, &other, "it is a list")),
        }
    }

    pub(in crate::structure) fn texts(&mut self, key: &str) -> Result<Vec<String>, MessageError> {
        let members = self.list(key)?;
        members
            .into_iter()
            .map(|member| match member {
                Json::Text(text) => Ok(text),
                other => Err(self.wrong(key, &other, "its members are texts")),
            })
            .collect()
    }

    pub(in crate::structure) fn urn(&mut self, key: &'static str) -> Result<Urn, MessageError> {
        let text = self.needed(key)?;
        self.read_urn(&text)
    }

    pub(in crate::structure) fn optional_urn(&mut self, key: &str) -> Result<Option<Urn>, MessageError> {
        self.text(key)?.map(|text| self.read_urn(&text)).transpose()
    }

    pub(in crate::structure) fn urns(&mut self, key: &str) -> Result<Vec<Urn>, MessageError> {
        let texts = self.texts(key)?;
        texts.iter().map(|text| self.read_urn(text)).collect()
    }

    fn read_urn(&self, text: &str) -> Result<Urn, MessageError> {
        Urn::parse(text).map_err(|source| MessageError::Urn {
            place: self.place.clone(),
            source,
        })
    }

    pub(in crate::structure) fn object(&mut self, key: &str) -> Result<Option<Self>, MessageError> {
        let place = format!("{}.{key}", self.place);
        self.take(key).map(|value| Self::of(place, value)).transpose()
    }

    pub(in crate::structure) fn objects(&mut self, key: &str) -> Result<Vec<Self>, MessageError> {
        let members = self.list(key)?;
        let place = &self.place;
        members
            .into_iter()
            .enumerate()
            .map(|(index, member)| Self::of(format!("{place}.{key}[{index}]"), member))
            .collect()
    }

    /// Whether a field is there and an object.
    pub(in crate::structure) fn is_object(&self, key: &str) -> bool {
        matches!(self.fields.get(key), Some(Json::Object(_)))
    }

    /// Whether a field is there and a list.
    pub(in crate::structure) fn is_list(&self, key: &str) -> bool {
        matches!(self.fields.get(key), Some(Json::List(_)))
    }

    pub(in crate::structure) fn into_fields(self) -> BTreeMap<String, Json> {
        self.fields
    }

    pub(in crate::structure) fn finish(self) -> Result<(), MessageError> {
        match self.fields.into_iter().find(|(_, value)| !matches!(value, Json::Null)) {
            None => Ok(()),
            Some((key, _)) => Err(MessageError::Unsupported {
                place: self.place,
                what: key,
            }),
        }
    }
}
