//! What can be wrong with an input. Each message names the thing; [`IngestError::hint`] says what to do next.

use std::{fmt, io, path::PathBuf};

use sovm_object::types::{ColumnType, ColumnsError};

/// Why an input was not read. Nothing of it is stored when one of these comes back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// No input was named.
    #[error("no input file was given")]
    NoInput,
    /// The file does not exist.
    #[error("{file}: no such file")]
    Missing {
        /// The file.
        file: String,
    },
    /// A directory stands where a file was expected.
    #[error("{file}: is a directory")]
    Directory {
        /// The directory.
        file: String,
    },
    /// Opening or reading failed; a damaged compressed file ends here too.
    #[error("{file}: cannot be read: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Not a single byte, or nothing but blank lines.
    #[error("{file}: is empty")]
    Empty {
        /// The file.
        file: String,
    },
    /// Rows of columnar files come when the file has ended.
    #[error("{file}: is {format}, and --every is for csv, tsv and ndjson")]
    FeedColumnar {
        /// The input.
        file: String,
        /// Its format.
        format: super::Format,
    },
    /// What is compressed comes in blocks, and not row by row.
    #[error("{file}: is compressed, so its rows cannot be read as they come")]
    FeedCompressed {
        /// The input.
        file: String,
    },
    /// A header and nothing else, where types would have to be inferred.
    #[error("{file}: has no rows, so the types of its columns cannot be inferred")]
    NoRows {
        /// The file.
        file: String,
    },
    /// The name says nothing about the format.
    #[error("{file}: the name does not say which format this is")]
    UnknownFormat {
        /// The file.
        file: String,
    },
    /// One command reads one format.
    #[error("{other} is {other_format}, but {first} is {first_format}")]
    MixedFormats {
        /// First input.
        first: String,
        /// Its format.
        first_format: super::Format,
        /// The input that differs.
        other: String,
        /// Its format.
        other_format: super::Format,
    },
    /// A ZIP archive, which may hold many files.
    #[error("{file}: is a ZIP archive")]
    Zip {
        /// The file.
        file: String,
    },
    /// The name ends in `.gz` or `.zst`, the bytes do not begin like one.
    #[error("{file}: the name says {expected}, the content is not {expected}")]
    NotCompressed {
        /// The file.
        file: String,
        /// Compression the name promises.
        expected: &'static str,
    },
    /// UTF-16, as spreadsheets sometimes write.
    #[error("{file}: is UTF-16, not UTF-8")]
    Utf16 {
        /// The file.
        file: String,
    },
    /// Bytes that are no UTF-8.
    #[error("{file}, line {line}: is not valid UTF-8")]
    NotUtf8 {
        /// The file.
        file: String,
        /// Line of the first bad byte.
        line: u64,
    },
    /// A row with more or fewer fields than the header.
    #[error("{file}, line {line}: {found} fields, but the header has {expected}")]
    RaggedRow {
        /// The file.
        file: String,
        /// Line on which the row starts.
        line: u64,
        /// Fields of the header.
        expected: usize,
        /// Fields of the row.
        found: usize,
    },
    /// A quoted field that never ends.
    #[error("{file}, line {line}: a quoted field starts in this row and is never closed")]
    UnclosedQuote {
        /// The file.
        file: String,
        /// Line on which the row starts.
        line: u64,
    },
    /// Text between a closing quote and the next delimiter.
    #[error("{file}, line {line}: field {field} goes on after its closing quote")]
    StrayQuote {
        /// The file.
        file: String,
        /// Line of the quote.
        line: u64,
        /// Field, from 1.
        field: usize,
    },
    /// A separator that stands inside other characters, or that CSV needs for something else.
    #[error("the byte {found:#04x} cannot separate fields")]
    Delimiter {
        /// The byte.
        found: u8,
    },
    /// A row beyond what is held in memory.
    #[error("{file}, line {line}: the row that starts here is longer than 16 MiB")]
    RowTooLong {
        /// The file.
        file: String,
        /// Line on which the row starts.
        line: u64,
    },
    /// A column without a name.
    #[error("{file}: column {position} has no name")]
    EmptyColumnName {
        /// The file.
        file: String,
        /// Column, from 1.
        position: usize,
    },
    /// A name that stands twice in the header, the schema or a JSON object.
    #[error("{file}: column name {column:?} stands twice")]
    DuplicateColumn {
        /// The file.
        file: String,
        /// The name.
        column: String,
    },
    /// Columns no table can have; unsupported types of Parquet and Arrow are named in it.
    #[error("{file}: {source}")]
    Columns {
        /// The file.
        file: String,
        /// What is wrong with them.
        #[source]
        source: ColumnsError,
    },
    /// The columns asked for form no table.
    #[error("the columns asked for are no table's: {0}")]
    Target(#[source] ColumnsError),
    /// The file has a column that the table, or the first file, lacks.
    #[error("{file}: column {column:?} is not one of {known}")]
    UnknownColumn {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// The columns there are, by name.
        known: String,
    },
    /// The file lacks a column.
    #[error("{file}: has no column {column:?}")]
    MissingColumn {
        /// The file.
        file: String,
        /// The column.
        column: String,
    },
    /// Two files give one column two types.
    #[error("{file}: column {column:?} is {found}, but {expected} in {first}")]
    FilesDiffer {
        /// First file.
        first: String,
        /// Type there.
        expected: ColumnType,
        /// The file that differs.
        file: String,
        /// The column.
        column: String,
        /// Type here.
        found: ColumnType,
    },
    /// The type of a whole column in the file does not go into the table's.
    #[error("{file}: column {column:?} is {found}, which does not go into a {expected} column")]
    ColumnType {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// Type in the file.
        found: String,
        /// Type in the table.
        expected: ColumnType,
    },
    /// Nested columns have no place in CSV.
    #[error("{file}: column {column:?} is a {ty}, which CSV cannot hold")]
    NestedInCsv {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// Its type.
        ty: ColumnType,
    },
    /// One value that does not fit its column.
    #[error("{file}, {place}, column {column:?}: {}{misfit}", Shown(.value, .misfit))]
    BadValue {
        /// The file.
        file: String,
        /// Where in it.
        place: Place,
        /// The column.
        column: String,
        /// The value as it stands there.
        value: String,
        /// Why it does not fit.
        misfit: Misfit,
    },
    /// A line that is not a JSON object.
    #[error("{file}, line {line}: {problem}")]
    Json {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// What the parser said, with the column.
        problem: String,
    },
    /// A JSON file that is one array.
    #[error("{file}: is one JSON array, not one object a line")]
    JsonArray {
        /// The file.
        file: String,
    },
    /// A column that is an object here and something else there.
    #[error("{file}, line {line}, column {column:?}: {found} here, but {expected} before")]
    JsonMixed {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// Path of the column.
        column: String,
        /// Kind seen before.
        expected: &'static str,
        /// Kind found.
        found: &'static str,
    },
    /// An object without any key cannot become a struct.
    #[error("{file}: column {column:?} holds only empty objects")]
    EmptyObjects {
        /// The file.
        file: String,
        /// Path of the column.
        column: String,
    },
    /// The whole Parquet file is encrypted already.
    #[error("{file}: is an encrypted Parquet file")]
    EncryptedParquet {
        /// The file.
        file: String,
    },
    /// A Parquet file that was encrypted with an AAD, which DuckDB and this program do not use.
    #[error("{file}: was encrypted with an AAD, as Spark and pyarrow do it, and cannot be read here")]
    ForeignAad {
        /// The file.
        file: String,
    },
    /// The key does not open the file.
    #[error("{file}: does not open with the key of --parquet-key-file")]
    WrongParquetKey {
        /// The file.
        file: String,
    },
    /// The file that should hold a key does not.
    #[error("{file}: holds no key of 32 bytes")]
    KeyFile {
        /// The file.
        file: String,
    },
    /// Bad rows of columnar files have no text that could be written aside.
    #[error("{file}: is {format}, and --skip-bad-rows is for csv, tsv and ndjson")]
    SkipColumnar {
        /// The file.
        file: String,
        /// Its format.
        format: super::Format,
    },
    /// A Parquet or Arrow file that its reader refuses.
    #[error("{file}: is not a readable {format} file: {problem}")]
    Columnar {
        /// The file.
        file: String,
        /// Format it should have.
        format: super::Format,
        /// What the reader said.
        problem: String,
    },
    /// The encrypted temporary file failed.
    #[error("the encrypted temporary file in {} failed: {source}", .dir.display())]
    Spool {
        /// Directory it lies in.
        dir: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file for bad rows exists already and may hold rows of an earlier run.
    #[error("{}: exists already; rows of an earlier run would be lost", .path.display())]
    RejectsExist {
        /// The file.
        path: PathBuf,
    },
    /// Writing a bad row aside failed.
    #[error("{}: bad rows cannot be written: {source}", .path.display())]
    Rejects {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// An input that can be read only once was read already.
    #[error("{file}: can be read only once")]
    AlreadyRead {
        /// The input.
        file: String,
    },
}

impl IngestError {
    /// Whether the trouble is one row's, so that the row can be written aside and reading go on.
    pub const fn is_of_one_row(&self) -> bool {
        matches!(
            self,
            Self::NotUtf8 { .. }
                | Self::RaggedRow { .. }
                | Self::StrayQuote { .. }
                | Self::Json { .. }
                | Self::BadValue {
                    place: Place::Line(_),
                    ..
                }
        )
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Directory { .. } => "name the files in it, for example with DIR/*.csv",
            Self::NoRows { .. } => "add rows, or create the table with a schema first",
            Self::UnknownFormat { .. } | Self::MixedFormats { .. } => {
                "say which with --format csv, ndjson, parquet or arrow"
            }
            Self::Zip { .. } => "unpack it and name the file inside",
            Self::Utf16 { .. } | Self::NotUtf8 { .. } => "save the file as UTF-8",
            Self::Delimiter { .. } => "use an ASCII character that is no quote and no line end, such as ; or a tab",
            Self::UnclosedQuote { .. } | Self::StrayQuote { .. } => {
                "inside a quoted field a quote is written twice, as in \"say \"\"hi\"\"\""
            }
            Self::RaggedRow { .. } => {
                "mend the row, say --format tsv if tabs separate its fields, or pass --skip-bad-rows FILE"
            }
            Self::BadValue {
                misfit: Misfit::NotA(_),
                ..
            } => "if this word means \"no value\", pass --null WORD; to leave such rows out, pass --skip-bad-rows FILE",
            Self::BadValue { .. } | Self::Json { .. } => "mend the row, or pass --skip-bad-rows FILE",
            Self::JsonArray { .. } => "write one object a line, for example with: jq -c '.[]' FILE",
            Self::EncryptedParquet { .. } => "pass its key with --parquet-key-file FILE",
            Self::ForeignAad { .. } => {
                "write it again with the tool that wrote it, without encryption to a pipe or a disk that may hold plaintext, or \
                 with DuckDB: COPY (FROM ...) TO 'FILE' (ENCRYPTION_CONFIG {footer_key: ...})"
            }
            Self::WrongParquetKey { .. } => "name the key the file was written with; it was not changed",
            Self::KeyFile { .. } => "write the key as 32 bytes or as 64 hex digits",
            Self::SkipColumnar { .. } => "leave --skip-bad-rows out; a bad row is named by file, row and column",
            Self::FeedColumnar { .. } => "leave --every out; the rows are published when the input ends",
            Self::FeedCompressed { .. } => "unpack it on the way: zcat -f FILE | sovm ingest TABLE - --every 60s",
            Self::RejectsExist { .. } => "name another file, or move that one away",
            _ => return None,
        })
    }
}

/// Where in a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// Line of a text file, from 1.
    Line(u64),
    /// Row of a columnar file, from 1.
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// Why a value does not fit its column.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Misfit {
    /// No value where one must stand.
    Missing,
    /// The text is not of the type at all.
    NotA(ColumnType),
    /// A number, date or time beyond the type.
    OutOfRange(ColumnType),
    /// Digits after the point that would be lost.
    Inexact(ColumnType),
    /// An instant without zone for a UTC column.
    NoZone,
    /// An instant with zone for a local column.
    HasZone,
    /// A key the struct does not have.
    UnknownKey(String),
    /// Two values under one key.
    DuplicateKey(String),
    /// An empty text in a partition column.
    EmptyPartition,
    /// Identity columns that are too long together; how long.
    LongIdentity(usize),
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("where a value must stand"),
            Self::NotA(ty) => write!(f, "is not of type {ty}"),
            Self::OutOfRange(ty) => write!(f, "is out of range for {ty}"),
            Self::Inexact(ty) => write!(f, "has digits that {ty} cannot hold"),
            Self::NoZone => f.write_str("has no time zone, and the column holds UTC instants (write Z or an offset)"),
            Self::HasZone => f.write_str("has a time zone, and the column holds local times"),
            Self::UnknownKey(key) => write!(f, "has the key {key:?}, which the column has not"),
            Self::DuplicateKey(key) => write!(f, "has the key {key:?} twice"),
            Self::EmptyPartition => {
                f.write_str("in a partition column, where an empty text would be read back as null")
            }
            Self::LongIdentity(bytes) => {
                write!(
                    f,
                    "cannot tell rows apart: the identity has {bytes} bytes, at most 1024 are allowed"
                )
            }
        }
    }
}

/// A value as an error shows it: quoted, without control characters, not longer than a line.
struct Shown<'a>(&'a str, &'a Misfit);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 60;
        // What is too long to be an identity is too long to be shown.
        if matches!(self.1, Misfit::LongIdentity(_)) {
            return Ok(());
        }
        if self.0.is_empty() {
            return f.write_str("an empty value ");
        }
        match self.0.char_indices().nth(MOST) {
            None => write!(f, "{:?} ", self.0),
            Some((end, _)) => write!(f, "{:?}… ", &self.0[..end]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_value_names_file_line_column_and_value() {
        let error = |value: &str, misfit| IngestError::BadValue {
            file: "a.csv".into(),
            place: Place::Line(17),
            column: "age".into(),
            value: value.into(),
            misfit,
        };
        assert_eq!(
            error("abc", Misfit::NotA(ColumnType::Int64)).to_string(),
            "a.csv, line 17, column \"age\": \"abc\" is not of type int64"
        );
        assert_eq!(
            error("", Misfit::Missing).to_string(),
            "a.csv, line 17, column \"age\": an empty value where a value must stand"
        );
        let long = error(&"ä".repeat(500), Misfit::NotA(ColumnType::Int64)).to_string();
        assert!(long.contains('…') && long.chars().count() < 140, "{long}");
        assert!(
            !error("a\nb\u{1b}[2J", Misfit::NoZone)
                .to_string()
                .contains(['\n', '\u{1b}'])
        );
    }
}
