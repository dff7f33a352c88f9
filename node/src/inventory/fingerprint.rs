//! `sovm edition fingerprint`: the table fingerprint of a Parquet file.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    num::NonZeroUsize,
    os::unix::fs::FileExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use parquet::{
    errors::ParquetError,
    file::reader::{ChunkReader, Length},
};
use sovm_inventory::fingerprint::{
    CanonicalForm, Refused, fingerprint_parquet_parallel,
    parquet_table::{ParquetTableError, refused_columns},
};

use crate::{
    api::{EditionFingerprintReport, Event, ProgressSink, RefusedColumn, Unit},
    engine::chain,
    error::{ApiError, ErrorKind},
};

/// Computes a file's fingerprint on all cores. Columns without a stable text are reported, all of them.
pub(crate) async fn fingerprint(
    path: &Path,
    progress: Arc<dyn ProgressSink>,
) -> Result<EditionFingerprintReport, ApiError> {
    let name = path.display().to_string();
    let file = SharedFile::open(path, progress).map_err(|error| ApiError::io(format!("reading {name}"), &error))?;
    tokio::task::spawn_blocking(move || {
        let unreadable = |error: ParquetTableError| {
            ApiError::new(ErrorKind::BadInput, format!("{name}: {}", chain(&error)))
                .safe("nothing was changed: this only reads")
                .next("name a Parquet file that is not encrypted")
        };
        let form = CanonicalForm::ONE;
        let mut report = EditionFingerprintReport {
            file: name.clone(),
            file_bytes: file.length,
            canonical_form: form.as_str().to_owned(),
            ..EditionFingerprintReport::default()
        };
        let refused = refused_columns(&file).map_err(unreadable)?;
        if !refused.is_empty() {
            report.refused = refused.iter().map(column).collect();
            return Ok(report);
        }
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let found = fingerprint_parquet_parallel(form, &file, threads).map_err(unreadable)?;
        report.rows = Some(found.rows());
        report.fingerprint = Some(found.to_string());
        Ok(report)
    })
    .await
    .map_err(ApiError::bug)?
}

fn column(refused: &Refused) -> RefusedColumn {
    RefusedColumn {
        column: refused.column().map(str::to_owned),
        message: refused.to_string(),
    }
}

/// A file that several threads read at once, each where it likes.
#[derive(Clone)]
pub(super) struct SharedFile {
    file: Arc<File>,
    length: u64,
    read: Arc<AtomicU64>,
    progress: Arc<dyn ProgressSink>,
}

impl SharedFile {
    pub(super) fn open(path: &Path, progress: Arc<dyn ProgressSink>) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        Ok(Self {
            file: Arc::new(file),
            length: metadata.len(),
            read: Arc::default(),
            progress,
        })
    }

    /// Reads it from front to back.
    pub(super) fn reader(self) -> At {
        At {
            shared: self,
            position: 0,
        }
    }

    fn count(&self, bytes: usize) {
        let done = self.read.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.progress.event(Event::Progress {
            stage: "hashing".to_owned(),
            unit: Unit::Bytes,
            // The footer is read twice.
            done: done.min(self.length),
            total: Some(self.length),
        });
    }
}

impl Length for SharedFile {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for SharedFile {
    type T = BufReader<At>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(At {
            shared: self.clone(),
            position: start,
        }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // A length in a damaged file must not choose how much memory is taken.
        if self.length.checked_sub(start).is_none_or(|left| (length as u64) > left) {
            return Err(ParquetError::EOF(format!(
                "{length} bytes from byte {start} are beyond the file's {} bytes",
                self.length
            )));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        self.count(length);
        Ok(bytes.into())
    }
}

/// Reads on from a place in a shared file.
pub(super) struct At {
    shared: SharedFile,
    position: u64,
}

impl Read for At {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.shared.file.read_at(buffer, self.position)?;
        self.position += length as u64;
        self.shared.count(length);
        Ok(length)
    }
}
