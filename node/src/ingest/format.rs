//! Which format and compression an input has: by name, by option, by its first bytes.

use std::{fmt, str::FromStr};

/// Formats that can be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// One JSON object a line.
    NdJson,
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, file or stream.
    Arrow,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Csv => "csv",
            Self::NdJson => "ndjson",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        })
    }
}

/// A word that names no format.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown format {0:?}: it is one of csv, ndjson, parquet, arrow")]
pub struct UnknownFormatName(String);

impl FromStr for Format {
    type Err = UnknownFormatName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "csv" | "tsv" => Self::Csv,
            "ndjson" | "jsonl" | "json" => Self::NdJson,
            "parquet" => Self::Parquet,
            "arrow" | "ipc" | "feather" => Self::Arrow,
            _ => return Err(UnknownFormatName(text.to_owned())),
        })
    }
}

impl Format {
    /// Whether rows are lines of text, read front to back.
    pub(super) const fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::NdJson)
    }

    /// By the first bytes of a stream that has no name. Text that is not JSON is taken as CSV.
    pub(super) fn of_content(start: &[u8]) -> Self {
        if start.starts_with(b"PAR1") || start.starts_with(b"PARE") {
            Self::Parquet
        } else if start.starts_with(b"ARROW1") || start.starts_with(&[0xff, 0xff, 0xff, 0xff]) {
            Self::Arrow
        } else if start.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
            Self::NdJson
        } else {
            Self::Csv
        }
    }
}

/// Compressions that are undone while reading.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// By the first bytes, which cannot lie about this.
    pub(super) fn of_content(start: &[u8]) -> Option<Self> {
        if start.starts_with(&[0x1f, 0x8b]) {
            Some(Self::Gzip)
        } else if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Some(Self::Zstd)
        } else {
            None
        }
    }
}

/// What a file name says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct NameSays {
    pub(super) format: Option<Format>,
    pub(super) compression: Option<Compression>,
    pub(super) tabs: bool,
}

impl NameSays {
    pub(super) fn of(name: &str) -> Self {
        let lower = name.to_ascii_lowercase();
        let (rest, compression) = match lower.rsplit_once('.') {
            Some((rest, "gz" | "gzip")) => (rest, Some(Compression::Gzip)),
            Some((rest, "zst" | "zstd")) => (rest, Some(Compression::Zstd)),
            _ => (lower.as_str(), None),
        };
        let extension = rest.rsplit_once('.').map_or("", |(_, extension)| extension);
        let format = match extension {
            "csv" | "tsv" | "tab" => Some(Format::Csv),
            "ndjson" | "jsonl" | "json" => Some(Format::NdJson),
            "parquet" | "pq" => Some(Format::Parquet),
            "arrow" | "arrows" | "ipc" | "feather" => Some(Format::Arrow),
            _ => None,
        };
        Self {
            format,
            compression,
            tabs: matches!(extension, "tsv" | "tab"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_format_and_compression() {
        let says = NameSays::of;
        assert_eq!(says("a.csv").format, Some(Format::Csv));
        assert_eq!(
            says("A.CSV.GZ"),
            NameSays {
                format: Some(Format::Csv),
                compression: Some(Compression::Gzip),
                tabs: false
            }
        );
        assert_eq!(says("a.b.ndjson.zst").format, Some(Format::NdJson));
        assert!(says("a.tsv.gz").tabs);
        assert_eq!(says("a.feather").format, Some(Format::Arrow));
        for unknown in ["", "csv", "a", "a.txt", "a.gz", "a.xlsx", "a.csv.bak", ".csv.d"] {
            assert_eq!(says(unknown).format, None, "{unknown}");
        }
    }

    #[test]
    fn content_says_format_where_there_is_no_name() {
        assert_eq!(Format::of_content(b"PAR1...."), Format::Parquet);
        assert_eq!(Format::of_content(b"ARROW1\0\0"), Format::Arrow);
        assert_eq!(Format::of_content(b" \n{\"a\":1}"), Format::NdJson);
        assert_eq!(Format::of_content(b"a,b\n{,1"), Format::Csv);
        assert_eq!(Format::of_content(b""), Format::Csv);
        assert!("xml".parse::<Format>().is_err());
    }
}
