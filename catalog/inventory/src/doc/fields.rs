//! Taking a JSON object apart field by field, with the path and the rule in every refusal.

use std::{collections::BTreeMap, str::FromStr};

use super::{
    error::{Problem, Refused},
    id::IdError,
    json::{Json, JsonObject},
};

/// Highest whole number every JSON implementation keeps exactly.
pub(crate) const MAX_SAFE: u64 = (1 << 53) - 1;

/// The members of an object that nobody has taken yet.
pub(crate) struct Fields {
    members: Vec<Option<(String, Json)>>,
    rule: u16,
}

impl Fields {
    /// Opens an object; `rule` is the rule that says which fields it has.
    pub(crate) fn of(json: Json, rule: u16) -> Result<Self, Refused> {
        Ok(Self {
            members: object(json, rule)?.into_members().into_iter().map(Some).collect(),
            rule,
        })
    }

    /// Takes a field that may be absent.
    pub(crate) fn take(&mut self, name: &str) -> Option<Json> {
        let slot = self
            .members
            .iter_mut()
            .find(|slot| slot.as_ref().is_some_and(|(key, _)| key == name))?;
        slot.take().map(|(_, value)| value)
    }

    /// The place of a field nobody has taken yet, counted from zero.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.members
            .iter()
            .position(|slot| slot.as_ref().is_some_and(|(key, _)| key == name))
    }

    /// Reads a field that must be there, under the object's rule.
    pub(crate) fn required<T>(&mut self, name: &str, read: impl Read<T>) -> Result<T, Refused> {
        self.required_by(name, self.rule, read)
    }

    /// Reads a field that must be there, under a rule of its own.
    pub(crate) fn required_by<T>(&mut self, name: &str, rule: u16, read: impl Read<T>) -> Result<T, Refused> {
        let value = self
            .take(name)
            .ok_or_else(|| Refused::by(rule, Problem::Missing).inside(name))?;
        read(value, rule).map_err(|refused| refused.inside(name))
    }

    /// Reads a field that may be absent and, where it is there, holds a value.
    pub(crate) fn optional<T>(&mut self, name: &str, rule: u16, read: impl Read<T>) -> Result<Option<T>, Refused> {
        self.take(name)
            .map(|value| read(value, rule).map_err(|refused| refused.inside(name)))
            .transpose()
    }

    /// Every member nobody took, in its order: what this build does not know.
    pub(crate) fn rest(self) -> JsonObject {
        let mut rest = JsonObject::new();
        for (key, value) in self.members.into_iter().flatten() {
            rest.push(key, value);
        }
        rest
    }
}

/// A reader of one value under a rule.
pub(crate) trait Read<T>: FnOnce(Json, u16) -> Result<T, Refused> {}
impl<T, F: FnOnce(Json, u16) -> Result<T, Refused>> Read<T> for F {}

fn wrong<T>(rule: u16, expected: &'static str, found: &Json) -> Result<T, Refused> {
    Err(Refused::by(
        rule,
        Problem::WrongType {
            expected,
            found: found.type_name(),
        },
    ))
}

/// An object.
pub(crate) fn object(json: Json, rule: u16) -> Result<JsonObject, Refused> {
    match json {
        Json::Object(object) => Ok(object),
        other => wrong(rule, "an object", &other),
    }
}

/// A boolean.
pub(crate) fn boolean(json: Json, rule: u16) -> Result<bool, Refused> {
    match json {
        Json::Bool(value) => Ok(value),
        other => wrong(rule, "a boolean", &other),
    }
}

/// A string.
pub(crate) fn string(json: Json, rule: u16) -> Result<String, Refused> {
    match json {
        Json::String(text) => Ok(text),
        other => wrong(rule, "a string", &other),
    }
}

/// A whole number from `low` to `high`.
pub(crate) fn integer(low: u64, high: u64) -> impl Fn(Json, u16) -> Result<u64, Refused> {
    move |json, rule| {
        let Json::Number(number) = json else {
            return wrong(rule, "a whole number", &json);
        };
        if !number.is_integer() {
            return Err(Refused::by(rule, Problem::NotInteger(number.as_str().to_owned())));
        }
        match number.as_u64() {
            Some(value) if (low..=high).contains(&value) => Ok(value),
            _ => Err(Refused::by(
                rule,
                Problem::OutOfRange {
                    found: number.as_str().to_owned(),
                    low,
                    high,
                },
            )),
        }
    }
}

/// A number of bytes, rows or the like.
pub(crate) fn count(json: Json, rule: u16) -> Result<u64, Refused> {
    integer(0, MAX_SAFE)(json, rule)
}

/// A type that is written as text.
pub(crate) fn text<T: FromStr<Err = IdError>>(json: Json, rule: u16) -> Result<T, Refused> {
    let text = string(json, rule)?;
    text.parse()
        .map_err(|IdError { expected, found }| Refused::by(rule, Problem::BadText { expected, found }))
}

/// `null`, or what `read` reads.
pub(crate) fn nullable<T>(read: impl Read<T>) -> impl FnOnce(Json, u16) -> Result<Option<T>, Refused> {
    move |json, rule| match json {
        Json::Null => Ok(None),
        json => read(json, rule).map(Some),
    }
}

/// An array of what `read` reads.
pub(crate) fn list<T>(read: impl Fn(Json, u16) -> Result<T, Refused>) -> impl Fn(Json, u16) -> Result<Vec<T>, Refused> {
    move |json, rule| match json {
        Json::Array(items) => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| read(item, rule).map_err(|refused| refused.inside(index)))
            .collect(),
        other => wrong(rule, "an array", &other),
    }
}

/// An object whose keys are ids of one kind.
pub(crate) fn map<K: FromStr<Err = IdError> + Ord, T>(
    read: impl Fn(Json, u16) -> Result<T, Refused>,
) -> impl Fn(Json, u16) -> Result<BTreeMap<K, T>, Refused> {
    move |json, rule| {
        let mut map = BTreeMap::new();
        for (key, value) in object(json, rule)?.into_members() {
            let id = key.parse().map_err(|IdError { expected, found }| {
                Refused::by(rule, Problem::BadText { expected, found }).inside(&key)
            })?;
            map.insert(id, read(value, rule).map_err(|refused| refused.inside(&key))?);
        }
        Ok(map)
    }
}

/// Appends the members a writer keeps without knowing them; a fixed field of the same name wins.
pub(crate) fn keep(object: &mut JsonObject, extra: &JsonObject) {
    for (key, value) in extra.iter() {
        if object.get(key).is_none() {
            object.push(key, value.clone());
        }
    }
}
