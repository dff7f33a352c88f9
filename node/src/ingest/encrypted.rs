//! Encrypted Parquet files of other writers, opened as our own objects are (SOP-375): DuckDB writes what SOP-PME-1 reads.
//!
//! The file is hashed first and every byte that is decrypted is proven to be one that was hashed, so it may change
//! meanwhile without being misread. One row group is in memory at a time.

use std::{
    io::{Read as _, Seek as _, SeekFrom},
    ops::Range,
};

use arrow::{array::RecordBatch, error::ArrowError};
use futures::executor::block_on;
use sovm_object::{
    id::StorageId,
    pme::{Batches, DecodeOptions, Footer, OpenError, OpenOptions},
    verified::{ObjectTree, ReadError, VerifiedBytes, VerifiedRead},
};

use super::{
    BATCH_ROWS,
    columnar::Opened,
    error::IngestError,
    format::Format,
    input::{RandomAccess, unreadable},
    key_file::ParquetKey,
};

/// Bytes read at once from the end: enough for most footers.
const FOOTER_GUESS_BYTES: u64 = 64 * 1024;

/// A file and the hashes of what was once read of it.
struct Hashed {
    tree: ObjectTree,
    bytes: RandomAccess,
}

impl Hashed {
    fn part(&self, range: &Range<u64>) -> Result<VerifiedBytes, ReadError> {
        let id = self.tree.storage_id();
        let cover = self.tree.covering(range)?;
        let mut bytes = vec![0; (cover.end - cover.start) as usize];
        let mut reader = self.bytes.reader();
        reader
            .seek(SeekFrom::Start(cover.start))
            .and_then(|_| reader.read_exact(&mut bytes))
            .map_err(|source| ReadError::Store {
                id,
                source: source.into(),
            })?;
        let proven = self.tree.prove(cover.start, bytes.into())?;
        proven.part(range.clone()).ok_or_else(|| ReadError::OutOfBounds {
            id,
            start: range.start,
            end: range.end,
            size: self.tree.size(),
        })
    }
}

impl VerifiedRead for Hashed {
    async fn size(&self, _: StorageId) -> Result<u64, ReadError> {
        Ok(self.tree.size())
    }

    async fn read(&self, _: StorageId, ranges: &[Range<u64>]) -> Result<Vec<VerifiedBytes>, ReadError> {
        ranges.iter().map(|range| self.part(range)).collect()
    }
}

/// Opens a file whose footer is encrypted.
pub(super) fn open(name: &str, bytes: RandomAccess, key: &ParquetKey) -> Result<Opened, IngestError> {
    let tree = ObjectTree::of_reader(bytes.uncounted()).map_err(|source| unreadable(name, source))?;
    let file = Hashed { tree, bytes };
    let options = OpenOptions {
        tail_len: FOOTER_GUESS_BYTES,
    };
    let footer = block_on(Footer::open(&file, file.tree.storage_id(), key.dek(), options)).map_err(|error| {
        let file = name.to_owned();
        match error {
            OpenError::ForeignAad => IngestError::ForeignAad { file },
            OpenError::KeyMismatch => IngestError::WrongParquetKey { file },
            error => IngestError::Columnar {
                file,
                format: Format::Parquet,
                problem: error.to_string(),
            },
        }
    })?;
    let schema = footer.schema().clone();
    let batches = Box::new(RowGroups {
        file,
        footer,
        next: 0,
        current: None,
    });
    Ok(Opened { schema, batches })
}

/// Batches of one row group after the other.
struct RowGroups {
    file: Hashed,
    footer: Footer,
    next: usize,
    current: Option<Batches>,
}

impl RowGroups {
    fn start(&self, row_group: usize) -> Result<Batches, ArrowError> {
        let external = |error: Box<dyn std::error::Error + Send + Sync>| ArrowError::ExternalError(error);
        let plan = self
            .footer
            .plan(&[row_group], &self.footer.project_all())
            .map_err(|error| external(error.into()))?;
        let chunks = block_on(self.file.read(self.footer.storage_id(), plan.ranges()))
            .map_err(|error| external(error.into()))?;
        let options = DecodeOptions { batch_size: BATCH_ROWS };
        self.footer
            .decode(&plan, chunks, options)
            .map_err(|error| external(error.into()))
    }
}

impl Iterator for RowGroups {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.current.as_mut().and_then(Iterator::next) {
                return Some(batch.map_err(|error| ArrowError::ExternalError(Box::new(error))));
            }
            if self.next == self.footer.row_groups() {
                return None;
            }
            match self.start(self.next) {
                Ok(batches) => self.current = Some(batches),
                Err(error) => return Some(Err(error)),
            }
            self.next += 1;
        }
    }
}
