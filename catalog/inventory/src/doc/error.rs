//! Why a document was refused: which document, where in it, what is wrong, and the rule that says so.

use std::fmt;

/// The kinds of document a catalogue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DocKind {
    /// `catalog.json`
    Catalog,
    /// `CURRENT`
    Current,
    /// `inventory/<seq>.json`
    Root,
    /// `inventory/leaves/<sha256>.json`
    Leaf,
    /// `inventory/HISTORY`
    History,
    /// `history/<epoch>/….jsonl`
    Segment,
    /// `manifest.json`
    Manifest,
    /// `journal/<edition_id>.json`
    Journal,
    /// `pending/<product_id>/<edition_id>.json`
    Pending,
    /// `expunged/<edition_id>.json`
    Expunged,
}

impl fmt::Display for DocKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Catalog => "catalog.json",
            Self::Current => "CURRENT",
            Self::Root => "Inventory root",
            Self::Leaf => "Inventory leaf",
            Self::History => "inventory/HISTORY",
            Self::Segment => "history segment",
            Self::Manifest => "edition manifest",
            Self::Journal => "seal journal",
            Self::Pending => "pending registration",
            Self::Expunged => "expunge record",
        })
    }
}

/// A refused document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{document}{}: {problem}{}", place(.at), cite(*.rule))]
pub struct DocError {
    /// The document that was refused.
    pub document: DocKind,
    /// Where in it, as a JSON pointer; empty for the document as a whole.
    pub at: String,
    /// The rule of the acceptance list that refuses it; none when it is no JSON at all.
    pub rule: Option<u16>,
    /// What is wrong.
    pub problem: Problem,
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() {
        String::new()
    } else {
        format!(" at {pointer}")
    }
}

fn cite(rule: Option<u16>) -> String {
    rule.map_or_else(String::new, |rule| format!(" (INV-{rule})"))
}

/// What is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The bytes are no UTF-8.
    #[error("not UTF-8 from byte {0}")]
    NotUtf8(usize),
    /// A byte order mark stands before the document.
    #[error("a byte order mark stands before the document")]
    ByteOrderMark,
    /// The text is no JSON.
    #[error("no JSON: {what} at byte {offset}")]
    Syntax {
        /// What the parser expected or met.
        what: &'static str,
        /// Offset of the byte that ended the parse.
        offset: usize,
    },
    /// Something follows the document.
    #[error("the document ends at byte {0} and more bytes follow")]
    TrailingBytes(usize),
    /// White space stands where the format is compact.
    #[error("white space at byte {0}, where the format is compact JSON")]
    NotCompact(usize),
    /// Arrays and objects lie deeper than any document of a catalogue needs.
    #[error("nested deeper than {0} levels")]
    TooDeep(usize),
    /// One object holds a key twice, so that two readers could take different values.
    #[error("key {0:?} stands twice in one object")]
    DuplicateKey(String),
    /// A required field is absent.
    #[error("required field is missing")]
    Missing,
    /// A field holds another JSON type.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// The type the format asks for.
        expected: &'static str,
        /// The type that is there.
        found: &'static str,
    },
    /// A number is not written as a whole number.
    #[error("expected a whole number written in digits, found {0}")]
    NotInteger(String),
    /// A number is outside what the format allows.
    #[error("{found} is outside {low} to {high}")]
    OutOfRange {
        /// The number found.
        found: String,
        /// Lowest value allowed.
        low: u64,
        /// Highest value allowed.
        high: u64,
    },
    /// A text is not of the form asked for.
    #[error("expected {expected}, found {found:?}")]
    BadText {
        /// The form asked for.
        expected: &'static str,
        /// The text found.
        found: String,
    },
    /// The document has a major version this build does not read.
    #[error("format {found} is newer than the major version {supported} this build reads")]
    NewerMajor {
        /// The version of the document.
        found: String,
        /// Newest major version read.
        supported: u32,
    },
    /// The document has a major version this build no longer reads.
    #[error("format {found} is older than the major version {supported} this build reads")]
    OlderMajor {
        /// The version of the document.
        found: String,
        /// Oldest major version read.
        supported: u32,
    },
    /// A file was written by a newer engine than this build has.
    #[error("version {found} is newer than {newest}, the newest this build opens")]
    NewerVersion {
        /// The version of the file.
        found: String,
        /// The newest version the build opens.
        newest: String,
    },
    /// A list is out of its order.
    #[error("not sorted: {second:?} follows {first:?}")]
    NotSorted {
        /// The element before.
        first: String,
        /// The element that should have stood before it.
        second: String,
    },
    /// A list holds an element twice.
    #[error("{0:?} is listed twice")]
    Twice(String),
    /// Two things that must agree do not.
    #[error("{left_name} is {left}, but {right_name} is {right}")]
    Disagree {
        /// What the first one is.
        left_name: &'static str,
        /// Its value.
        left: String,
        /// What the second one is.
        right_name: &'static str,
        /// Its value.
        right: String,
    },
    /// A field is absent although another thing asks for it.
    #[error("{field} is absent, but {because}")]
    AbsentBut {
        /// The absent field.
        field: &'static str,
        /// What asks for it.
        because: String,
    },
    /// A field is present although another thing forbids it.
    #[error("{field} is present, but {because}")]
    PresentBut {
        /// The present field.
        field: &'static str,
        /// What forbids it.
        because: String,
    },
    /// The field stands in another place than the format fixes.
    #[error("stands {found}, but must stand {expected}")]
    Misplaced {
        /// Where it stands.
        found: String,
        /// Where it must stand.
        expected: &'static str,
    },
    /// The bytes do not have the hash the document was named by.
    #[error("stored bytes hash to {found}, but {expected} was expected")]
    HashMismatch {
        /// The hash asked for.
        expected: String,
        /// The hash of the bytes.
        found: String,
    },
}

/// What a message shows of a text from a document: it is for people, and a document may hold a megabyte of anything.
fn clip(mut text: String) -> String {
    const SHOWN: usize = 300;
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
}

impl Problem {
    fn clipped(self) -> Self {
        match self {
            Self::DuplicateKey(key) => Self::DuplicateKey(clip(key)),
            Self::NotInteger(found) => Self::NotInteger(clip(found)),
            Self::OutOfRange { found, low, high } => Self::OutOfRange {
                found: clip(found),
                low,
                high,
            },
            Self::BadText { expected, found } => Self::BadText {
                expected,
                found: clip(found),
            },
            Self::NotSorted { first, second } => Self::NotSorted {
                first: clip(first),
                second: clip(second),
            },
            Self::Twice(text) => Self::Twice(clip(text)),
            Self::Disagree {
                left_name,
                left,
                right_name,
                right,
            } => Self::Disagree {
                left_name,
                left: clip(left),
                right_name,
                right: clip(right),
            },
            // The others hold numbers, hashes, versions and names this crate wrote.
            other => other,
        }
    }
}

/// A refusal on its way up to the document that holds it: the path grows as it passes each field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    at: String,
    rule: Option<u16>,
    problem: Problem,
}

impl Refused {
    /// A refusal by rule `rule`.
    pub(crate) fn by(rule: u16, problem: Problem) -> Self {
        Self {
            at: String::new(),
            rule: Some(rule),
            problem: problem.clipped(),
        }
    }

    /// A refusal of text that is no JSON.
    pub(crate) fn json(problem: Problem) -> Self {
        Self {
            at: String::new(),
            rule: None,
            problem: problem.clipped(),
        }
    }

    /// The same refusal seen from the object or array that holds `step`.
    pub(crate) fn inside(mut self, step: impl fmt::Display) -> Self {
        // RFC 6901: `~` and `/` of a key are written as `~0` and `~1`.
        let step = clip(step.to_string()).replace('~', "~0").replace('/', "~1");
        self.at = format!("/{step}{}", self.at);
        self
    }

    /// The finished error.
    pub(crate) fn of(self, document: DocKind) -> DocError {
        DocError {
            document,
            at: self.at,
            rule: self.rule,
            problem: self.problem,
        }
    }
}

/// Two things that must agree do not.
pub(crate) fn disagree(
    left_name: &'static str,
    left: impl fmt::Display,
    right_name: &'static str,
    right: impl fmt::Display,
) -> Problem {
    Problem::Disagree {
        left_name,
        left: left.to_string(),
        right_name,
        right: right.to_string(),
    }
}

/// Refuses a list that is not strictly ascending by `key`.
pub(crate) fn ascending<T, K: Ord + fmt::Display>(list: &[T], rule: u16, key: impl Fn(&T) -> K) -> Result<(), Refused> {
    for (index, pair) in list.windows(2).enumerate() {
        let (first, second) = (key(&pair[0]), key(&pair[1]));
        if first == second {
            return Err(Refused::by(rule, Problem::Twice(first.to_string())).inside(index + 1));
        }
        if first > second {
            let (first, second) = (first.to_string(), second.to_string());
            return Err(Refused::by(rule, Problem::NotSorted { first, second }).inside(index + 1));
        }
    }
    Ok(())
}
