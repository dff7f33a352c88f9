//! Which catalogue a command means.

use std::fmt;

use crate::error::{ApiError, ErrorKind};

/// Where a catalogue lies, as messages and the commands they recommend name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// This node's own encrypted store.
    Own,
    /// A plain directory, as it was named.
    Directory(String),
}

impl Address {
    /// What `--store` says; without it a command means the node's own catalogue.
    pub(crate) fn parse(store: Option<&str>) -> Result<Self, ApiError> {
        match store {
            None => Ok(Self::Own),
            Some(address) if address.contains("://") => Err(ApiError::new(
                ErrorKind::Refused,
                format!("{address} is an address, and a catalogue is read from a plain directory so far"),
            )
            .safe("nothing was changed")
            .next("copy the catalogue into a directory and name that with --store DIR")),
            Some(directory) => Ok(Self::Directory(directory.to_owned())),
        }
    }

    /// The directory it is.
    pub(crate) fn directory(&self) -> Result<&str, ApiError> {
        match self {
            Self::Directory(directory) => Ok(directory),
            Self::Own => Err(ApiError::new(
                ErrorKind::Refused,
                "this command works on a catalogue in a plain directory so far; one in the node's own encrypted store comes \
                 later",
            )
            .safe("nothing was changed")
            .next("name the directory with --store DIR")),
        }
    }

    /// The option that makes a command mean the same catalogue, with the space before it; nothing for the node's own.
    pub(crate) fn option(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+~".contains(c);
        match self {
            Self::Own => String::new(),
            Self::Directory(directory) if !directory.is_empty() && directory.chars().all(plain) => {
                format!(" --store {directory}")
            }
            Self::Directory(directory) => format!(" --store '{}'", directory.replace('\'', "'\\''")),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("this node's catalogue"),
            Self::Directory(directory) => f.write_str(directory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_quoted_for_a_shell() {
        let option = |store: &str| Address::parse(Some(store)).unwrap().option();
        assert_eq!(option("/data/cat"), " --store /data/cat");
        assert_eq!(option("my cat's"), " --store 'my cat'\\''s'");
        assert_eq!(option(""), " --store ''");
        assert_eq!(Address::parse(None).unwrap().option(), "");
    }

    #[test]
    fn addresses_of_other_places_are_refused_by_name() {
        let error = Address::parse(Some("s3://bucket/catalogue")).unwrap_err();
        assert!(error.message.contains("s3://bucket/catalogue"), "{}", error.message);
        assert!(error.next.unwrap().contains("--store DIR"));
        assert_eq!(Address::Own.directory().unwrap_err().kind, ErrorKind::Refused);
    }
}
