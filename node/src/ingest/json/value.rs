//! A JSON value that keeps the order of its keys and refuses a key that stands twice.

use std::{collections::HashSet, fmt};

use serde::{
    Deserialize,
    de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor},
};

#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum JsonValue {
    Null,
    Bool(bool),
    Int(i64),
    /// Only what exceeds an `i64`.
    UInt(u64),
    Float(f64),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl JsonValue {
    /// Its kind, as errors say it.
    pub(in super::super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::UInt(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// As JSON, for errors and for numbers that go into text columns.
impl fmt::Display for JsonValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::UInt(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(text) => f.write_str(text),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Object(pairs) => {
                f.write_str("{")?;
                for (index, (key, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{key}:{value}", if index > 0 { "," } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

impl<'de> Deserialize<'de> for JsonValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = JsonValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<JsonValue, E> {
        Ok(JsonValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<JsonValue, E> {
        Ok(JsonValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<JsonValue, E> {
        Ok(JsonValue::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<JsonValue, E> {
        Ok(i64::try_from(value).map_or(JsonValue::UInt(value), JsonValue::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<JsonValue, E> {
        Ok(JsonValue::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<JsonValue, E> {
        Ok(JsonValue::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<JsonValue, E> {
        Ok(JsonValue::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<JsonValue, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(JsonValue::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<JsonValue, A::Error> {
        let mut pairs: Vec<(String, JsonValue)> = Vec::new();
        while let Some(pair) = access.next_entry()? {
            pairs.push(pair);
        }
        let mut seen = HashSet::with_capacity(pairs.len());
        if let Some((key, _)) = pairs.iter().find(|(key, _)| !seen.insert(key.as_str())) {
            return Err(A::Error::custom(format_args!("the key {key:?} stands twice")));
        }
        Ok(JsonValue::Object(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_and_doubled_keys_are_refused() {
        let value: JsonValue = serde_json::from_str(r#"{"b":1,"a":[null,true,-2,2.5,"x"],"c":{}}"#).unwrap();
        assert_eq!(value.to_string(), r#"{b:1,a:[null,true,-2,2.5,x],c:{}}"#);
        assert_eq!(
            serde_json::from_str::<JsonValue>("18446744073709551615").unwrap(),
            JsonValue::UInt(u64::MAX)
        );
        for bad in [
            r#"{"a":1,"a":2}"#,
            r#"{"x":{"a":1,"a":1}}"#,
            "{",
            "{a:1}",
            "[1,]",
            "1 2",
            "NaN",
            "",
        ] {
            assert!(serde_json::from_str::<JsonValue>(bad).is_err(), "{bad}");
        }
        assert!(
            serde_json::from_str::<JsonValue>(&"[".repeat(100_000)).is_err(),
            "depth is bounded"
        );
    }
}
