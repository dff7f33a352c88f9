//! Which catalogue a command means.

use std::fmt;

use sovm_inventory::store::StorePath;

use crate::error::{ApiError, ErrorKind};

/// Where a catalogue lies, as messages and the commands they recommend name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// This node's own encrypted store.
    Own,
    /// A plain directory, as it was named.
    Directory(String),
    /// A bucket of S3, or of what speaks like it.
    Bucket(BucketAddress),
}

/// A bucket, and where in it the catalogue lies. Which server has it, and who asks, is for the environment to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketAddress {
    bucket: String,
    prefix: Option<StorePath>,
}

impl Address {
    /// What `--store` says; without it a command means the node's own catalogue.
    pub(crate) fn parse(store: Option<&str>) -> Result<Self, ApiError> {
        let Some(store) = store else {
            return Ok(Self::Own);
        };
        match store.split_once("://") {
            None => Ok(Self::Directory(store.to_owned())),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("s3") => BucketAddress::parse(rest).map(Self::Bucket),
            Some((scheme, _)) => Err(refused(format!(
                "a catalogue is read from a directory or from s3://, and {scheme}:// is neither"
            ))),
        }
    }

    /// The directory it is.
    pub(crate) fn directory(&self) -> Result<&str, ApiError> {
        match self {
            Self::Directory(directory) => Ok(directory),
            Self::Bucket(bucket) => Err(refused(format!("{bucket} is no directory"))),
            Self::Own => Err(ApiError::new(
                ErrorKind::Refused,
                "this command works on a catalogue in a plain directory or a bucket, and not on one in the node's own \
                 encrypted store",
            )
            .safe("nothing was changed")
            .next("name the directory or the bucket with --store")),
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
            // Neither a bucket nor a store's path has a character that a shell takes for its own.
            Self::Bucket(bucket) => format!(" --store {bucket}"),
        }
    }

    /// What to name instead, where this is the wrong place.
    pub(crate) fn another(&self) -> &'static str {
        match self {
            Self::Own | Self::Directory(_) => "another directory",
            Self::Bucket(_) => "another bucket or prefix",
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("this node's catalogue"),
            Self::Directory(directory) => f.write_str(directory),
            Self::Bucket(bucket) => bucket.fmt(f),
        }
    }
}

impl BucketAddress {
    /// Reads `BUCKET[/PREFIX]`. An address may hold a password or a signature where it should not, so nothing of one that is
    /// refused is shown but a bucket and a prefix.
    fn parse(text: &str) -> Result<Self, ApiError> {
        if text.contains(['?', '#']) {
            return Err(refused("an s3:// address has no query and no fragment"));
        }
        let (bucket, prefix) = match text.split_once('/') {
            Some((bucket, prefix)) => {
                let without = prefix.strip_suffix('/').filter(|without| !without.is_empty());
                (bucket, without.unwrap_or(prefix))
            }
            None => (text, ""),
        };
        if bucket.contains('@') {
            return Err(refused(
                "an s3:// address has no user and no password; both come from the environment",
            ));
        }
        if bucket.contains(':') {
            return Err(refused(
                "an s3:// address has no port; AWS_ENDPOINT_URL says which server has the bucket",
            ));
        }
        if !is_bucket(bucket) {
            return Err(refused(
                "an s3:// address begins with the name of a bucket: 3 to 63 letters, digits, dots, hyphens and underscores, \
                 the first and the last a letter or a digit",
            ));
        }
        let prefix = match prefix {
            "" => None,
            prefix => {
                let parsed = StorePath::parse(prefix);
                Some(parsed.map_err(|error| refused(format!("the place in bucket {bucket}: {error}")))?)
            }
        };
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix,
        })
    }

    /// The bucket's name.
    pub(super) fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Where in it the catalogue lies; none at its root.
    pub(super) fn prefix(&self) -> Option<&StorePath> {
        self.prefix.as_ref()
    }
}

impl fmt::Display for BucketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.prefix {
            Some(prefix) => write!(f, "s3://{}/{prefix}", self.bucket),
            None => write!(f, "s3://{}", self.bucket),
        }
    }
}

fn is_bucket(name: &str) -> bool {
    let at_the_ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    (3..=63).contains(&bytes.len())
        && at_the_ends(bytes.first())
        && at_the_ends(bytes.last())
        && !name.contains("..")
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(byte))
}

fn refused(what: impl Into<String>) -> ApiError {
    ApiError::new(ErrorKind::Refused, what)
        .safe("nothing was changed")
        .next("name a directory with --store DIR, or a bucket with --store s3://BUCKET/PREFIX")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(store: &str) -> Address {
        Address::parse(Some(store)).unwrap()
    }

    #[test]
    fn directories_are_quoted_for_a_shell() {
        let option = |store: &str| parsed(store).option();
        assert_eq!(option("/data/cat"), " --store /data/cat");
        assert_eq!(option("my cat's"), " --store 'my cat'\\''s'");
        assert_eq!(option(""), " --store ''");
        assert_eq!(Address::parse(None).unwrap().option(), "");
    }

    #[test]
    fn buckets_are_named_with_and_without_a_prefix() {
        for (store, shown) in [
            ("s3://books", "s3://books"),
            ("s3://books/", "s3://books"),
            ("S3://books/a/b", "s3://books/a/b"),
            ("s3://my.books_2/catalogue=1/", "s3://my.books_2/catalogue=1"),
        ] {
            let address = parsed(store);
            assert!(matches!(address, Address::Bucket(_)));
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.option(), format!(" --store {shown}"));
            assert_eq!(parsed(&address.to_string()), address);
        }
    }

    /// A password or a signature in what is refused is not shown.
    #[test]
    fn addresses_that_mean_something_else_are_refused() {
        for (store, word) in [
            ("s3://", "name of a bucket"),
            ("s3:///prefix", "name of a bucket"),
            ("s3://ab", "name of a bucket"),
            ("s3://-books", "name of a bucket"),
            ("s3://bo..oks", "name of a bucket"),
            ("s3://bo oks", "name of a bucket"),
            ("s3://hush:hush@books/a", "no user"),
            ("s3://books:9000/a", "no port"),
            ("s3://books/a?signature=hush", "no query"),
            ("s3://books/a#hush", "no fragment"),
            ("s3://books/a//b", "empty part"),
            ("s3://books//", "empty part"),
            ("s3://books/a//", "empty part"),
            ("s3://books/../a", "begins with a dot"),
            ("s3://books/a%2Fb", "character"),
            ("https://hush@host/books", "https://"),
            ("file:///books", "file://"),
        ] {
            let error = Address::parse(Some(store)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused);
            assert!(error.message.contains(word), "{store}: {}", error.message);
            assert!(!error.message.contains("hush"), "{}", error.message);
            assert!(error.safe.is_some() && error.next.unwrap().contains("--store DIR"));
        }
        assert_eq!(Address::Own.directory().unwrap_err().kind, ErrorKind::Refused);
        assert_eq!(parsed("s3://books").directory().unwrap_err().kind, ErrorKind::Refused);
    }
}
