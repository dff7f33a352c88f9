//! SDMX URNs, as far as the documents need them: a class, who maintains it, an id, a pinned version.

use std::{fmt, str::FromStr};

use super::{
    id::{IdError, json_text, serde_text},
    json::Json,
};

const PREFIX: &str = "urn:sdmx:org.sdmx.infomodel.";

/// A full URN of a maintainable artefact with a pinned version (INV-88):
/// `urn:sdmx:org.sdmx.infomodel.<package>.<Class>=<agency>:<id>(<version>)`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Urn {
    // Texts compare as the lists of the documents are sorted; nothing before it may take part in the order.
    text: String,
    equals: usize,
    colon: usize,
    open: usize,
}

impl Urn {
    /// The URN as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The class, such as `Codelist`.
    pub fn class(&self) -> &str {
        let qualified = &self.text[PREFIX.len()..self.equals];
        qualified.split_once('.').map_or(qualified, |(_, class)| class)
    }

    /// The maintaining agency.
    pub fn agency(&self) -> &str {
        &self.text[self.equals + 1..self.colon]
    }

    /// The artefact's id.
    pub fn id(&self) -> &str {
        &self.text[self.colon + 1..self.open]
    }

    /// The pinned version.
    pub fn version(&self) -> &str {
        &self.text[self.open + 1..self.text.len() - 1]
    }

    /// INV-53: whether SDMX 3.0 guarantees that what carries this version never changes: three parts, no extension, and a
    /// major version of at least 1.
    pub fn is_semantic(&self) -> bool {
        let parts: Vec<&str> = self.version().split('.').collect();
        let canonical = |part: &&str| {
            part.bytes().all(|byte| byte.is_ascii_digit())
                && !part.is_empty()
                && (*part == "0" || !part.starts_with('0'))
        };
        parts.len() == 3 && parts.iter().all(canonical) && parts[0] != "0"
    }
}

impl FromStr for Urn {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        parse(text).ok_or_else(|| IdError::new("the URN of a maintainable SDMX artefact with a pinned version", text))
    }
}

fn parse(text: &str) -> Option<Urn> {
    let name = |part: &str, also: &[u8]| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || also.contains(&byte))
    };
    let body = text.strip_prefix(PREFIX)?;
    let (qualified, rest) = body.split_once('=')?;
    let (package, class) = qualified.split_once('.')?;
    let (agency, rest) = rest.split_once(':')?;
    let (id, rest) = rest.split_once('(')?;
    let version = rest.strip_suffix(')')?;
    let (numbers, extension) = version.split_once('-').map_or((version, None), |(a, b)| (a, Some(b)));
    let ok = name(package, b"")
        && name(class, b"")
        && name(agency, b"._-")
        && name(id, b"_@$-")
        && numbers
            .split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        && extension.is_none_or(|extension| name(extension, b"-."));
    let equals = PREFIX.len() + qualified.len();
    let colon = equals + 1 + agency.len();
    let open = colon + 1 + id.len();
    ok.then(|| Urn {
        text: text.to_owned(),
        equals,
        colon,
        open,
    })
}

impl fmt::Display for Urn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Urn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Urn({})", self.text)
    }
}

json_text!(Urn);
serde_text!(Urn);
