//! `format_version`: majors decide whether a document is read, minors only add.

use std::{fmt, str::FromStr};

use super::{
    error::{Problem, Refused},
    id::{IdError, json_text},
    json::Json,
};

/// A `format_version`, `<major>.<minor>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatVersion {
    /// A reader refuses a major it does not know.
    pub major: u32,
    /// A minor adds optional fields and nothing else.
    pub minor: u32,
}

impl FormatVersion {
    /// The version of the roots and leaves this build writes; one constant for both (INV-149, INV-191).
    pub const INVENTORY: Self = Self { major: 1, minor: 2 };
    /// `catalog.json` of a catalogue that keeps every version.
    pub const CATALOG: Self = Self { major: 1, minor: 0 };
    /// `catalog.json` of a catalogue that has opted in to expiry.
    pub const CATALOG_OPTED_IN: Self = Self { major: 2, minor: 0 };
    /// `inventory/HISTORY`.
    pub const HISTORY: Self = Self { major: 1, minor: 0 };
    /// History segments.
    pub const SEGMENT: Self = Self { major: 1, minor: 0 };
    /// `manifest.json`.
    pub const MANIFEST: Self = Self { major: 3, minor: 0 };

    /// Refuses a major outside `oldest` to `newest`, naming both versions.
    pub(crate) fn supported(self, rule: u16, oldest: u32, newest: u32) -> Result<(), Refused> {
        let found = self.to_string();
        let problem = if self.major > newest {
            Problem::NewerMajor {
                found,
                supported: newest,
            }
        } else if self.major < oldest {
            Problem::OlderMajor {
                found,
                supported: oldest,
            }
        } else {
            return Ok(());
        };
        Err(Refused::by(rule, problem).inside("format_version"))
    }
}

impl FromStr for FormatVersion {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let number = |digits: &str| {
            let canonical = digits == "0" || !digits.starts_with('0');
            let ok = canonical && digits.bytes().all(|byte| byte.is_ascii_digit());
            if ok { digits.parse::<u32>().ok() } else { None }
        };
        text.split_once('.')
            .and_then(|(major, minor)| {
                Some(Self {
                    major: number(major)?,
                    minor: number(minor)?,
                })
            })
            .ok_or_else(|| IdError::new("a format version (<major>.<minor>)", text))
    }
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl fmt::Debug for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FormatVersion({self})")
    }
}

json_text!(FormatVersion);
