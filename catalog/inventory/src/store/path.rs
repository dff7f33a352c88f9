//! Names of documents inside a store.

use std::fmt;

use thiserror::Error;

/// The longest name a store is asked for; every name of the layout is far shorter.
const PATH_BYTES_MAX: usize = 1024;

/// The name of a document relative to the catalogue's root: parts joined by `/`.
///
/// A part has ASCII letters, digits and `. _ - = + @ ~`, and doesn't begin with a dot. No such name leaves the
/// catalogue's directory, none collides with a store's own hidden files, and every store spells it alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorePath(String);

impl StorePath {
    /// Checks a name.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let refuse = |why| {
            Err(PathError {
                path: text.chars().take(200).collect(),
                why,
            })
        };
        if text.is_empty() {
            return refuse("is empty");
        }
        if text.len() > PATH_BYTES_MAX {
            return refuse("is longer than 1024 bytes");
        }
        for part in text.split('/') {
            if part.is_empty() {
                return refuse("has an empty part");
            }
            if part.starts_with('.') {
                return refuse("has a part that begins with a dot");
            }
            if part.len() > 255 {
                return refuse("has a part longer than 255 bytes");
            }
            if !part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-=+@~".contains(&byte))
            {
                return refuse("has a character other than ASCII letters, digits and . _ - = + @ ~");
            }
        }
        Ok(Self(text.to_owned()))
    }

    /// This name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this name lies under `folder`, at any depth.
    pub fn is_under(&self, folder: &Self) -> bool {
        self.0.strip_prefix(&folder.0).is_some_and(|rest| rest.starts_with('/'))
    }

    /// The last part.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

impl fmt::Display for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name that no document can have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the name {path:?} {why}")]
pub struct PathError {
    path: String,
    why: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_layout_are_paths() {
        for name in [
            "catalog.json",
            "CURRENT",
            "inventory/HISTORY",
            "inventory/000000000042.json",
            "history/0/000000000001-000000000009-01a18e63-e292-7250-a332-b79d9b7a7efd.jsonl",
            "products/census-2021-cpt/journal/01a18e63-e292-7250-a332-b79d9b7a7efd.json",
        ] {
            assert_eq!(StorePath::parse(name).map(|path| path.to_string()), Ok(name.to_owned()));
        }
    }

    #[test]
    fn a_name_that_leaves_the_catalogue_or_hides_is_refused() {
        let long_part = "a".repeat(256);
        let long = vec!["ab"; 400].join("/");
        for (name, why) in [
            ("", "is empty"),
            ("/etc/passwd", "empty part"),
            ("inventory//1.json", "empty part"),
            ("inventory/", "empty part"),
            ("../CURRENT", "begins with a dot"),
            ("products/../../x", "begins with a dot"),
            ("inventory/./1.json", "begins with a dot"),
            (".tmp/x", "begins with a dot"),
            ("a\\b", "a character"),
            ("a b", "a character"),
            ("a\0b", "a character"),
            ("C:x", "a character"),
            ("é", "a character"),
            ("a%2e%2e", "a character"),
            (&long_part, "longer than 255"),
            (&long, "longer than 1024"),
        ] {
            let refusal = StorePath::parse(name).expect_err(name).to_string();
            assert!(refusal.contains(why), "{name}: {refusal}");
        }
    }

    #[test]
    fn a_folder_holds_what_is_under_it_and_not_what_begins_alike() {
        let path = |text| StorePath::parse(text).expect("a path");
        assert!(path("inventory/leaves/a.json").is_under(&path("inventory")));
        assert!(!path("inventory2/a.json").is_under(&path("inventory")));
        assert!(!path("inventory").is_under(&path("inventory")));
        assert_eq!(path("inventory/leaves/a.json").file_name(), "a.json");
        assert_eq!(path("CURRENT").file_name(), "CURRENT");
    }
}
