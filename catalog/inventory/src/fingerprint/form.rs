//! The canonical form: which text a fingerprint hashes.

use std::{borrow::Cow, fmt, str::FromStr};

/// Longest form name taken from a document.
const NAME_BYTES_MAX: usize = 64;

/// Names the version of the row and model text that fingerprints hash (manifest field `canonical_form`, §4.4).
///
/// INV-70: every fingerprint carries it, and only fingerprints of one form can be held against each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CanonicalForm(Cow<'static, str>);

impl CanonicalForm {
    /// Form "1": DuckDB's row text, and model texts as the reference library writes them.
    pub const ONE: Self = Self(Cow::Borrowed("1"));
    /// Form "sovm-1": the same row text, with model texts of this project's own for classes whose form "1" is not known.
    pub const SOVM_1: Self = Self(Cow::Borrowed("sovm-1"));

    /// Whether rows of this form can be hashed here: both forms known to this code share one row text.
    pub(crate) fn has_known_row_text(&self) -> bool {
        *self == Self::ONE || *self == Self::SOVM_1
    }

    /// The name, as a manifest holds it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Refuses to go on when the other side has another form.
    pub(crate) fn require_same(&self, other: &Self) -> Result<(), DifferentForms> {
        if self == other {
            Ok(())
        } else {
            Err(DifferentForms {
                left: self.clone(),
                right: other.clone(),
            })
        }
    }
}

impl fmt::Display for CanonicalForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for CanonicalForm {
    type Err = FormParseError;

    /// Takes any form, known here or not: an edition of a newer form is listed, it only cannot be recomputed.
    fn from_str(text: &str) -> Result<Self, FormParseError> {
        if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(FormParseError);
        }
        Ok(Self(Cow::Owned(text.to_owned())))
    }
}

/// Text was no name of a canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a canonical form: expected 1 to {NAME_BYTES_MAX} visible ASCII characters")]
pub struct FormParseError;

/// Two fingerprints were to be compared, or combined, that hash different texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fingerprints of canonical form \"{left}\" and \"{right}\" are never compared (INV-70)")]
pub struct DifferentForms {
    /// Form of the one.
    pub left: CanonicalForm,
    /// Form of the other.
    pub right: CanonicalForm,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_stand_in_a_document_are_refused() {
        for bad in ["", " ", "1 ", "a\nb", "é", &"x".repeat(65)] {
            assert_eq!(bad.parse::<CanonicalForm>(), Err(FormParseError), "{bad:?}");
        }
        assert_eq!("1".parse(), Ok(CanonicalForm::ONE));
        assert_eq!("sovm-1".parse(), Ok(CanonicalForm::SOVM_1));
    }

    /// INV-71: a form this code does not know is read, but no text is hashed under its name.
    #[test]
    fn unknown_forms_parse_but_have_no_row_text() {
        let newer: CanonicalForm = "2".parse().unwrap();
        assert!(!newer.has_known_row_text());
        assert!(CanonicalForm::ONE.has_known_row_text() && CanonicalForm::SOVM_1.has_known_row_text());
    }
}
