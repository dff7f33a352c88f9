//! Structure messages: SDMX-JSON 2.0 and SDMX-ML 2.1.
//!
//! Both readers give the same artefacts for the same content. They keep everything an artefact of a stored class says or
//! refuse it by name: a part silently lost would give two different artefacts one fingerprint. Artefacts of other
//! classes, and contacts of agencies, are counted as left out. Input may be anything: it is bounded in bytes, depth and
//! parts, document types and entities are refused, and no bytes make a reader panic.

mod json;
pub(super) mod json_tree;
mod xml;
mod xml_tree;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::{
    language::LanguageError,
    model::{Cascade, Decimal, Occurs},
    set::{StructureError, Structures},
    urn::UrnError,
};

pub use json::read_json;
pub use xml::read_xml;

/// How large a message may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of the message.
    pub bytes: usize,
    /// How deep its parts nest.
    pub depth: usize,
    /// How many parts (XML elements and attributes, JSON values) it has.
    pub parts: usize,
}

impl Default for Limits {
    /// Room for a geography of half a million codes in two languages, and a stack that any thread has.
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            depth: 96,
            parts: 50_000_000,
        }
    }
}

/// What a structure message held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// The artefacts, checked.
    pub structures: Structures,
    /// What was left out, because an edition doesn't store it, and how many of each.
    pub left_out: BTreeMap<String, usize>,
}

/// Why a structure message is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// More bytes than taken.
    #[error("the message has {bytes} bytes, more than the {limit} that are read")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Deeper than taken.
    #[error("the message nests deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// More parts than taken.
    #[error("the message has more than the {limit} parts that are read")]
    TooManyParts {
        /// The limit.
        limit: usize,
    },
    /// Not UTF-8.
    #[error("the message is not UTF-8")]
    NotUtf8,
    /// Not JSON.
    #[error("the message is no JSON: {0}")]
    Json(String),
    /// One key twice in an object.
    #[error("the message has the key `{key}` twice in one object")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// Not XML.
    #[error("the message is no well-formed XML: {0}")]
    Xml(String),
    /// A document type declaration.
    #[error("the message declares a document type; structure messages have none, and one could pull in anything")]
    DocumentType,
    /// A reference to an entity XML doesn't predefine.
    #[error("the message refers to the entity `&{name};`; only the five XML predefines are read")]
    Entity {
        /// The entity.
        name: String,
    },
    /// Another document than a structure message of the version read.
    #[error("the message is no {expected}: {found}")]
    WrongMessage {
        /// What is read.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// Something that has to be there isn't.
    #[error("{place}: `{what}` is missing")]
    Missing {
        /// Where.
        place: String,
        /// What.
        what: &'static str,
    },
    /// A part the readers don't keep.
    #[error("{place}: `{what}` is nothing this reader keeps, and leaving it out would change the artefact")]
    Unsupported {
        /// Where.
        place: String,
        /// What.
        what: String,
    },
    /// A value of the wrong kind or form.
    #[error("{place}: `{what}` is `{value}`: {why}")]
    BadValue {
        /// Where.
        place: String,
        /// Which value.
        what: String,
        /// The value, shortened.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// Two statements that disagree.
    #[error("{place}: {what} says `{first}` and `{second}`")]
    Disagree {
        /// Where.
        place: String,
        /// What.
        what: &'static str,
        /// One statement.
        first: String,
        /// The other.
        second: String,
    },
    /// A URN that is none.
    #[error("{place}: {source}")]
    Urn {
        /// Where.
        place: String,
        /// Why.
        source: UrnError,
    },
    /// A language tag that is none, or two texts for one.
    #[error("{place}: {source}")]
    Language {
        /// Where.
        place: String,
        /// Why.
        source: LanguageError,
    },
    /// An artefact that isn't valid by itself.
    #[error(transparent)]
    Structure(#[from] StructureError),
}

pub(super) fn bad(place: &str, what: &str, value: &str, why: impl Into<String>) -> MessageError {
    MessageError::BadValue {
        place: place.to_owned(),
        what: what.to_owned(),
        value: super::urn::shorten(value),
        why: why.into(),
    }
}

/// INV-80: an instant states its offset from UTC.
pub(super) fn instant(place: &str, what: &str, text: &str) -> Result<DateTime<Utc>, MessageError> {
    DateTime::parse_from_rfc3339(text).map(Into::into).map_err(|_| {
        bad(
            place,
            what,
            text,
            "INV-80: an instant is a date and a time with an offset from UTC, as 2024-01-31T00:00:00Z",
        )
    })
}

fn boolean(place: &str, what: &str, text: &str) -> Result<bool, MessageError> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(bad(place, what, text, "it is `true` or `false`")),
    }
}

fn number<T: std::str::FromStr>(place: &str, what: &str, text: &str) -> Result<T, MessageError> {
    // `parse` takes a plus sign; neither format writes one, and one spelling is enough.
    if text.starts_with('+') {
        return Err(bad(place, what, text, "it is a whole number without a sign"));
    }
    text.parse()
        .map_err(|_| bad(place, what, text, "it is a whole number in range"))
}

fn decimal(place: &str, what: &str, text: &str) -> Result<Decimal, MessageError> {
    Decimal::parse(text).map_err(|why| bad(place, what, text, why))
}

pub(super) fn occurs(place: &str, what: &str, text: &str) -> Result<Occurs, MessageError> {
    if text == "unbounded" {
        Ok(Occurs::Unbounded)
    } else {
        number(place, what, text).map(Occurs::AtMost)
    }
}

fn cascade(place: &str, what: &str, text: &str) -> Result<Cascade, MessageError> {
    match text {
        "true" => Ok(Cascade::Descendants),
        "false" => Ok(Cascade::None),
        "excluderoot" => Ok(Cascade::ExcludeRoot),
        _ => Err(bad(place, what, text, "it is `true`, `false` or `excluderoot`")),
    }
}

fn bounded(bytes: &[u8], limits: Limits) -> Result<&str, MessageError> {
    if bytes.len() > limits.bytes {
        return Err(MessageError::TooLarge {
            bytes: bytes.len(),
            limit: limits.bytes,
        });
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|_| MessageError::NotUtf8)
}

/// Components in key order: by stated position, or as written when none is stated.
fn by_position<T>(place: &str, mut components: Vec<(Option<u64>, T)>) -> Result<Vec<T>, MessageError> {
    let stated = components.iter().filter(|(position, _)| position.is_some()).count();
    if stated != 0 {
        if stated != components.len() {
            return Err(bad(
                place,
                "position",
                "",
                "either all dimensions state a position or none does",
            ));
        }
        components.sort_by_key(|(position, _)| *position);
        if let Some([(position, _), _]) = components.array_windows().find(|[(one, _), (other, _)]| one == other) {
            let position = position.unwrap_or_default().to_string();
            return Err(bad(place, "position", &position, "two dimensions have it"));
        }
    }
    Ok(components.into_iter().map(|(_, component)| component).collect())
}

#[cfg(test)]
mod tests;
