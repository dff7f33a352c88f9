//! The files of an edition and their digests.

use std::{collections::BTreeMap, fmt, str::FromStr};

use super::{
    error::{DocError, DocKind, Problem, Refused},
    fields::{Fields, count, keep, nullable, string, text},
    id::{EditionId, IdError, Sha256, json_text, serde_text},
    json::{Json, JsonObject},
    leaf::{word, words},
};

words! {
    /// INV-47: what a file's path is relative to. Files are sorted in this order.
    FileRoot {
        /// `data_path`: files every edition of the product shares.
        Data = "data",
        /// The edition's directory.
        Edition = "edition",
    }
}

words! {
    /// INV-48: when a reader needs a file.
    Tier {
        /// Before the edition is opened.
        Required = "required",
        /// On first use.
        Lazy = "lazy",
        /// By byte range from where it lies.
        Remote = "remote",
    }
}

/// One file of an edition. Keys: `path`, `size`, `root`, `tier`, `digests`, `carried_from`, then the unknown ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Its path below its root.
    pub path: FilePath,
    /// Its size in bytes.
    pub size: u64,
    /// What the path is relative to.
    pub root: FileRoot,
    /// When it is needed.
    pub tier: Tier,
    /// Its digests.
    pub digests: Digests,
    /// INV-50: the edition whose manifest the digests were carried from.
    pub carried_from: Option<EditionId>,
    /// Fields this build does not know.
    pub extra: JsonObject,
}

/// A relative path that stays below its root: parts separated by `/`, none of them empty, `.` or `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath(String);

impl FilePath {
    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FilePath {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let part = |part: &str| {
            let plain = !part
                .chars()
                .any(|character| character.is_control() || character == '\\' || character == ':');
            !part.is_empty() && part != "." && part != ".." && plain
        };
        if text.split('/').all(part) {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError::new("a relative path below its root", text))
        }
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilePath({})", self.0)
    }
}

json_text!(FilePath);
serde_text!(FilePath);

/// The name of a digest algorithm: lower-case letters, digits, `-` and `_`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DigestAlgorithm(String);

impl DigestAlgorithm {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DigestAlgorithm {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        if (1..=32).contains(&text.len()) && text.bytes().all(known) {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError::new("a digest algorithm (a-z 0-9 - _)", text))
        }
    }
}

impl fmt::Display for DigestAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DigestAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// INV-49: a file's digests: `sha256` always, and any other a store keeps. Written sorted by name, as lower-case hex.
///
/// The lengths of the ones this project computes are checked: `sha256`, `md5`, `crc32c`, and `blake3`, which is the
/// `storage_id` of a data object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests {
    sha256: Sha256,
    others: BTreeMap<DigestAlgorithm, String>,
}

impl Digests {
    /// Digests a writer records for every file; a data object has its `blake3` beside them.
    pub(crate) const WRITTEN: [&'static str; 2] = ["md5", "crc32c"];

    /// A file with this hash and no other digest yet.
    pub fn new(sha256: Sha256) -> Self {
        Self {
            sha256,
            others: BTreeMap::new(),
        }
    }

    /// The same digests and one more, given as bytes; a wrong length for a known algorithm is refused.
    pub fn with(mut self, algorithm: &str, digest: &[u8]) -> Result<Self, DocError> {
        let add = || -> Result<_, Refused> {
            let name: DigestAlgorithm = text(algorithm.into(), 49)?;
            if name.as_str() == "sha256" {
                return Err(Refused::by(49, Problem::Twice("sha256".to_owned())));
            }
            let hex = read_digest(&name, Json::String(hex::encode(digest)), 49)?;
            Ok((name, hex))
        };
        let (name, hex) = add().map_err(|refused| refused.of(DocKind::Manifest))?;
        self.others.insert(name, hex);
        Ok(self)
    }

    /// The SHA-256 of the file.
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }

    /// Another digest as lower-case hex.
    pub fn get(&self, algorithm: &str) -> Option<&str> {
        self.others
            .iter()
            .find(|(name, _)| name.as_str() == algorithm)
            .map(|(_, hex)| hex.as_str())
    }

    /// The BLAKE3 of the file: the `storage_id` of a data object.
    pub fn blake3(&self) -> Option<[u8; 32]> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(self.get("blake3")?, &mut bytes).ok()?;
        Some(bytes)
    }

    fn read(json: Json, rule: u16) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, rule)?;
        let sha256 = fields.required("sha256", text)?;
        let mut others = BTreeMap::new();
        for (key, value) in fields.rest().into_members() {
            let read = text(key.as_str().into(), rule)
                .and_then(|name: DigestAlgorithm| Ok((read_digest(&name, value, rule)?, name)));
            let (hex, name) = read.map_err(|refused| refused.inside(&key))?;
            others.insert(name, hex);
        }
        Ok(Self { sha256, others })
    }

    fn write(&self) -> JsonObject {
        let mut all: Vec<(&str, String)> = self
            .others
            .iter()
            .map(|(name, hex)| (name.as_str(), hex.clone()))
            .collect();
        all.push(("sha256", self.sha256.to_string()));
        all.sort_unstable();
        let mut out = JsonObject::new();
        for (name, hex) in all {
            out.push(name, hex);
        }
        out
    }
}

fn read_digest(name: &DigestAlgorithm, json: Json, rule: u16) -> Result<String, Refused> {
    let found = string(json, rule)?;
    let (length, expected) = match name.as_str() {
        "blake3" => (Some(64), "64 lower-case hex digits"),
        "md5" => (Some(32), "32 lower-case hex digits"),
        "crc32c" => (Some(8), "8 lower-case hex digits"),
        _ => (None, "whole bytes in lower-case hex"),
    };
    let hex = found.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let fits = length.map_or_else(
        || !found.is_empty() && found.len().is_multiple_of(2),
        |length| found.len() == length,
    );
    if hex && fits {
        Ok(found)
    } else {
        Err(Refused::by(rule, Problem::BadText { expected, found }))
    }
}

pub(crate) fn read_file(json: Json, _: u16) -> Result<FileEntry, Refused> {
    let mut fields = Fields::of(json, 56)?;
    Ok(FileEntry {
        path: fields.required_by("path", 47, text)?,
        size: fields.required("size", count)?,
        root: fields.required_by("root", 47, word(FileRoot::from_word, "edition or data"))?,
        tier: fields.required_by("tier", 48, word(Tier::from_word, "required, lazy or remote"))?,
        digests: fields.required_by("digests", 49, Digests::read)?,
        carried_from: fields.optional("carried_from", 50, nullable(text))?.flatten(),
        extra: fields.rest(),
    })
}

pub(crate) fn write_file(file: &FileEntry) -> Json {
    let mut out = JsonObject::new();
    out.push("path", &file.path);
    out.push("size", file.size);
    out.push("root", file.root.as_str());
    out.push("tier", file.tier.as_str());
    out.push("digests", file.digests.write());
    if let Some(carried_from) = file.carried_from {
        out.push("carried_from", carried_from);
    }
    keep(&mut out, &file.extra);
    out.into()
}
