//! JSON that keeps what a catalogue needs kept: the order of keys, and numbers as they were written.
//!
//! A history segment repeats a root in the root's own field order and must still carry fields this build does not know, so
//! neither the order nor a number's text may be lost on the way. Keys that stand twice are refused.

use std::fmt::Write as _;

use super::error::{Problem, Refused};

/// Levels of arrays and objects a document may have.
const MAX_DEPTH: usize = 128;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as written.
    Number(Number),
    /// A string, unescaped.
    String(String),
    /// An array.
    Array(Vec<Self>),
    /// An object.
    Object(JsonObject),
}

/// A JSON number, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number(String);

impl Number {
    /// The number as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its value when it is written as a non-negative whole number: digits only, no sign, point or exponent.
    pub fn as_u64(&self) -> Option<u64> {
        // The grammar has already refused leading zeros.
        if self.0.bytes().all(|byte| byte.is_ascii_digit()) {
            self.0.parse().ok()
        } else {
            None
        }
    }

    /// Whether it is written as a whole number of either sign.
    pub(crate) fn is_integer(&self) -> bool {
        self.0
            .strip_prefix('-')
            .unwrap_or(&self.0)
            .bytes()
            .all(|byte| byte.is_ascii_digit())
    }
}

/// A JSON object in the order of its keys; no key stands twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JsonObject(Vec<(String, Json)>);

impl JsonObject {
    /// An object without members.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Sets `key`, in its old place when it was there and last otherwise.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Json>) {
        let (key, value) = (key.into(), value.into());
        match self.0.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key, value)),
        }
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        let index = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(index).1)
    }

    /// The members in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many members it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_members(self) -> Vec<(String, Json)> {
        self.0
    }

    /// Appends a member whose key is known to be new: a fixed field, or a key of a map.
    pub(crate) fn push(&mut self, key: impl Into<String>, value: impl Into<Json>) {
        self.0.push((key.into(), value.into()));
    }
}

impl Json {
    /// Parses one document.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Refused> {
        Self::parse_as(bytes, false)
    }

    /// Parses one document that has no white space between its tokens.
    pub(crate) fn parse_compact(bytes: &[u8]) -> Result<Self, Refused> {
        Self::parse_as(bytes, true)
    }

    fn parse_as(bytes: &[u8], compact: bool) -> Result<Self, Refused> {
        let mut parser = Parser {
            text: text(bytes)?,
            at: 0,
            compact,
        };
        let value = parser.value(0)?;
        parser.space()?;
        if parser.at < bytes.len() {
            return Err(Refused::json(Problem::TrailingBytes(parser.at)));
        }
        Ok(value)
    }

    /// What the value is, for messages.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    /// Writes the value as compact JSON.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(number) => out.push_str(&number.0),
            Self::String(text) => write_string(text, out),
            Self::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(object) => {
                out.push('{');
                for (index, (key, value)) in object.0.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_string(key, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// The byte offset at which the first `count` members of the object in `bytes` end; `None` when there are fewer.
pub(crate) fn end_of_members(bytes: &[u8], count: usize) -> Option<usize> {
    let mut parser = Parser {
        text: text(bytes).ok()?,
        at: 0,
        compact: false,
    };
    parser.space().ok()?;
    parser.expect(b'{', "expected an object").ok()?;
    for index in 0..count {
        if index > 0 {
            parser.space().ok()?;
            parser.expect(b',', "expected a comma").ok()?;
        }
        parser.member(1).ok()?;
    }
    Some(parser.at)
}

fn text(bytes: &[u8]) -> Result<&str, Refused> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(Refused::json(Problem::ByteOrderMark));
    }
    std::str::from_utf8(bytes).map_err(|error| Refused::json(Problem::NotUtf8(error.valid_up_to())))
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        if escape.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
        plain = at + 1;
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    compact: bool,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn syntax<T>(&self, what: &'static str) -> Result<T, Refused> {
        Err(Refused::json(Problem::Syntax { what, offset: self.at }))
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Refused> {
        if self.peek() != Some(byte) {
            return self.syntax(what);
        }
        self.at += 1;
        Ok(())
    }

    fn space(&mut self) -> Result<(), Refused> {
        let start = self.at;
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
        if self.compact && self.at > start {
            return Err(Refused::json(Problem::NotCompact(start)));
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Json, Refused> {
        if depth > MAX_DEPTH {
            return Err(Refused::json(Problem::TooDeep(MAX_DEPTH)));
        }
        self.space()?;
        match self.peek() {
            Some(b'n') => self.word("null", Json::Null),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'[') => self.array(depth),
            Some(b'{') => self.object(depth),
            Some(_) => self.syntax("expected a value"),
            None => self.syntax("the text ends where a value is expected"),
        }
    }

    fn word(&mut self, word: &'static str, value: Json) -> Result<Json, Refused> {
        if !self.text[self.at..].starts_with(word) {
            return self.syntax("expected null, true or false");
        }
        self.at += word.len();
        Ok(value)
    }

    fn array(&mut self, depth: usize) -> Result<Json, Refused> {
        self.at += 1;
        let mut items = Vec::new();
        self.space()?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1).map_err(|refused| refused.inside(items.len()))?);
            self.space()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break self.at += 1,
                _ => return self.syntax("expected a comma or the end of an array"),
            }
        }
        Ok(Json::Array(items))
    }

    fn object(&mut self, depth: usize) -> Result<Json, Refused> {
        self.at += 1;
        let mut members = Vec::new();
        self.space()?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(JsonObject(members)));
        }
        loop {
            members.push(self.member(depth + 1)?);
            self.space()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break self.at += 1,
                _ => return self.syntax("expected a comma or the end of an object"),
            }
        }
        let mut keys: Vec<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
        keys.sort_unstable();
        if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Refused::json(Problem::DuplicateKey(pair[0].to_owned())));
        }
        Ok(Json::Object(JsonObject(members)))
    }

    fn member(&mut self, depth: usize) -> Result<(String, Json), Refused> {
        self.space()?;
        if self.peek() != Some(b'"') {
            return self.syntax("expected a key");
        }
        let key = self.string()?;
        self.space()?;
        self.expect(b':', "expected a colon")?;
        match self.value(depth) {
            Ok(value) => Ok((key, value)),
            Err(refused) => Err(refused.inside(key)),
        }
    }

    fn string(&mut self) -> Result<String, Refused> {
        let start = self.at;
        self.at += 1;
        let mut escaped = false;
        loop {
            match self.peek() {
                Some(b'"') => break self.at += 1,
                Some(b'\\') => {
                    escaped = true;
                    // The escaped byte may be a quote; what it is, is checked below.
                    self.at += 2;
                }
                Some(0..0x20) => return self.syntax("control character in a string"),
                Some(_) => self.at += 1,
                None => {
                    self.at = self.text.len();
                    return self.syntax("the text ends inside a string");
                }
            }
        }
        // An escape before a multi-byte character may have left `at` inside it, but the closing quote is ASCII, so the
        // slice below lies on character boundaries.
        let token = &self.text[start..self.at];
        if !escaped {
            return Ok(token[1..token.len() - 1].to_owned());
        }
        serde_json::from_str(token).or_else(|_| {
            self.at = start;
            self.syntax("bad escape in a string")
        })
    }

    fn digits(&mut self) -> Result<(), Refused> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return self.syntax("expected a digit");
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Json, Refused> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return self.syntax("a number starts with a zero");
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Json::Number(Number(self.text[start..self.at].to_owned())))
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self::Number(Number(value.to_string()))
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<String> for Json {
    fn from(value: String) -> Self {
        Self::String(value)
    }
}

impl From<JsonObject> for Json {
    fn from(value: JsonObject) -> Self {
        Self::Object(value)
    }
}

impl From<Vec<Self>> for Json {
    fn from(value: Vec<Self>) -> Self {
        Self::Array(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// For sections another module makes with `serde_json`, such as extensions.
impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => Self::Number(Number(number.to_string())),
            serde_json::Value::String(text) => Self::String(text.clone()),
            serde_json::Value::Array(items) => Self::Array(items.iter().map(Self::from).collect()),
            serde_json::Value::Object(members) => Self::Object(JsonObject(
                members
                    .iter()
                    .map(|(key, value)| (key.clone(), Self::from(value)))
                    .collect(),
            )),
        }
    }
}
