//! The canonical text of an artefact, and the fingerprint that hashes it.
//!
//! The text is compact JSON with sorted keys; every object says its class under `$class` and holds every field, null
//! included; a reference is its URN alone and never followed (INV-76 to INV-80). Form `1` is the reference library's.
//! It is documented only in part, so this crate claims it for what golden texts show and nothing else: an artefact with a
//! class or a field whose form no golden text shows has its text in our own form, `sovm-1`. Form `sovm-1` is defined by
//! [`model_text`](self) and contains form `1`: where the forms overlap, text and fingerprint are the same.

mod model_text;

use std::{collections::BTreeMap, fmt, str::FromStr};

#[cfg(test)]
use chrono::DateTime;
use sha2::{Digest as _, Sha256};

use super::model::Artefact;

/// The definition a canonical text follows. Fingerprints under different forms are never compared (INV-70).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CanonicalForm {
    /// The reference library's form, `1`.
    One,
    /// This crate's own form, `sovm-1`.
    Sovm1,
}

impl CanonicalForm {
    /// The name a manifest records under `canonical_form`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Sovm1 => "sovm-1",
        }
    }

    /// The form of fingerprints taken together: the reference library's only when all are.
    pub fn of_all(forms: impl IntoIterator<Item = Self>) -> Self {
        forms.into_iter().max().unwrap_or(Self::One)
    }
}

impl fmt::Display for CanonicalForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// SHA-256 of an artefact's canonical text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArtefactFingerprint([u8; 32]);

impl ArtefactFingerprint {
    /// INV-76: the fingerprint of a canonical text.
    pub fn of_text(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Why a text is no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no fingerprint: it takes 64 lowercase hexadecimal digits")]
pub struct FingerprintError(String);

impl FromStr for ArtefactFingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let fail = || FingerprintError(super::urn::shorten(text));
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(fail());
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| fail())?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for ArtefactFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for ArtefactFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArtefactFingerprint({self})")
    }
}

impl serde::Serialize for ArtefactFingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for ArtefactFingerprint {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// An artefact's text and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanonicalText {
    text: String,
    unproven: Vec<&'static str>,
}

impl CanonicalText {
    /// Writes the canonical text of an artefact.
    pub fn of(artefact: &Artefact) -> Self {
        let mut shape = model_text::Shape::default();
        let value = shape.artefact(artefact);
        let mut text = String::new();
        value.write(&mut text);
        if !text.is_ascii() {
            shape.mark("text beyond ASCII");
        }
        Self {
            text,
            unproven: shape.unproven.into_iter().collect(),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// INV-70: the form the text is in.
    pub fn form(&self) -> CanonicalForm {
        if self.unproven.is_empty() {
            CanonicalForm::One
        } else {
            CanonicalForm::Sovm1
        }
    }

    /// What in the artefact no golden text shows the reference library's form of.
    pub fn unproven(&self) -> &[&'static str] {
        &self.unproven
    }

    /// The fingerprint.
    pub fn fingerprint(&self) -> ArtefactFingerprint {
        ArtefactFingerprint::of_text(&self.text)
    }
}

/// A value of the canonical text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Canon {
    Null,
    Bool(bool),
    /// A number's own text.
    Number(String),
    Text(String),
    List(Vec<Self>),
    /// INV-79: written in the order of its members' texts.
    Set(Vec<Self>),
    Object(BTreeMap<String, Self>),
}

impl Canon {
    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(text) => out.push_str(text),
            Self::Text(text) => write_text(text, out),
            Self::List(members) => write_members(members.iter().map(Self::text), out),
            Self::Set(members) => {
                let mut members: Vec<String> = members.iter().map(Self::text).collect();
                members.sort_unstable();
                members.dedup();
                write_members(members.into_iter(), out);
            }
            Self::Object(fields) => {
                out.push('{');
                for (index, (key, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_text(key, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

fn write_members(members: impl Iterator<Item = String>, out: &mut String) {
    out.push('[');
    for (index, member) in members.enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&member);
    }
    out.push(']');
}

/// JSON's own escapes and no others: quotes, backslashes and control characters.
fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if (control as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::golden;
