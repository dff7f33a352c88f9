//! Rows that could not be read, written aside as they stood in the input (`--skip-bad-rows FILE`).
//!
//! The file is plaintext, on the user's own order; nobody but the user may read it.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use super::error::IngestError;

/// Rows that were left out.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Skipped {
    /// How many.
    pub rows: u64,
    /// Why, for the first few.
    pub reasons: Vec<String>,
}

/// Most reasons that are kept.
const MOST_REASONS: usize = 20;

#[derive(Debug)]
pub(super) struct Rejects {
    path: PathBuf,
    file: BufWriter<File>,
    header: Vec<u8>,
    skipped: Skipped,
}

impl Rejects {
    /// Makes the file, which may not exist yet: it could hold the rows of an earlier run.
    pub(super) fn create(path: &Path) -> Result<Self, IngestError> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => IngestError::RejectsExist { path: path.to_owned() },
            _ => IngestError::Rejects {
                path: path.to_owned(),
                source,
            },
        })?;
        let file = BufWriter::new(file);
        Ok(Self {
            path: path.to_owned(),
            file,
            header: Vec::new(),
            skipped: Skipped::default(),
        })
    }

    /// Writes a row and why it went here. A header goes before the first row of each file whose header differs.
    pub(super) fn write(&mut self, header: &[u8], row: &[u8], reason: &IngestError) -> Result<(), IngestError> {
        self.skipped.rows += 1;
        if self.skipped.reasons.len() < MOST_REASONS {
            self.skipped.reasons.push(reason.to_string());
        }
        let write = |file: &mut BufWriter<File>, line: &[u8]| {
            file.write_all(line)?;
            if line.ends_with(b"\n") {
                Ok(())
            } else {
                file.write_all(b"\n")
            }
        };
        let mut result = Ok(());
        if !header.is_empty() && self.header != header {
            self.header = header.to_vec();
            result = write(&mut self.file, header);
        }
        result
            .and_then(|()| write(&mut self.file, row))
            .map_err(|source| self.failed(source))
    }

    /// Makes sure the rows are on disk; takes the file away when there were none.
    pub(super) fn finish(&mut self) -> Result<(), IngestError> {
        if self.skipped.rows == 0 {
            return std::fs::remove_file(&self.path).map_err(|source| self.failed(source));
        }
        self.flush()
    }

    /// Makes sure the rows so far are on disk.
    pub(super) fn flush(&mut self) -> Result<(), IngestError> {
        self.file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all())
            .map_err(|source| self.failed(source))
    }

    pub(super) const fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn failed(&self, source: io::Error) -> IngestError {
        IngestError::Rejects {
            path: self.path.clone(),
            source,
        }
    }
}
