//! Making the object of a data file (DESIGN §10).
//!
//! ```text
//! rows ──▶ encrypted temporary file ──Parquet, page by page──▶ batches ──▶ row groups ──▶ object of at most 128 MiB
//! ```
//!
//! A Parquet file says at its end where its rows are, so it is put aside first, under a key that this process forgets. In memory are
//! one batch with its pages, one row group, and the object as it grows, which ends at the length that no object exceeds (SOP-376):
//! how long the file is makes no difference.

use std::{
    error::Error,
    io::{Read, Seek as _, SeekFrom},
    path::Path,
    sync::Arc,
};

use arrow::array::RecordBatch;
use bytes::Bytes;
use parquet::{
    arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
    errors::{ParquetError, Result as ParquetResult},
    file::reader::{ChunkReader, Length},
};
use sovm_object::{
    id::KeyRef,
    pme::{EncodeError, EncodeOptions, Encoder, Footer, MAX_OBJECT_LEN, PadError, RandomNonces, Sealed},
    secret::Dek,
    types::{columns_of_schema, schema_of_columns},
    verified::MemoryObject,
};

use super::data::BATCH_ROWS;
use crate::{
    config::format_bytes,
    engine::chain,
    error::{ApiError, ErrorKind},
    ingest::{Spool, SpoolError, SpoolReader},
};

/// Makes one object of the rows of a Parquet file. What has to lie on a disk meanwhile lies encrypted in `spool_dir`.
pub(super) fn seal_rows(content: &mut dyn Read, spool_dir: &Path) -> Result<(Sealed, Dek), ApiError> {
    let spool = Spool::fill(spool_dir, content).map_err(|error| match error {
        SpoolError::Read(error) => ApiError::io("reading the rows", &error).safe("nothing was published"),
        SpoolError::Write(error) => ApiError::io("writing the encrypted temporary file", &error),
    })?;
    encrypt(Spooled(Arc::new(spool)), MAX_OBJECT_LEN)
}

/// A spooled file as Parquet's reader wants it.
struct Spooled(Arc<Spool>);

impl Length for Spooled {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for Spooled {
    type T = SpoolReader;

    fn get_read(&self, start: u64) -> ParquetResult<SpoolReader> {
        let mut reader = SpoolReader::new(self.0.clone());
        reader.seek(SeekFrom::Start(start))?;
        Ok(reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        // Lengths come from the file; none is believed before it is inside the file.
        let size = self.0.len();
        if start.checked_add(length as u64).is_none_or(|end| end > size) {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at {start} of a file of {size} bytes"
            )));
        }
        let mut bytes = vec![0; length];
        self.get_read(start)?.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

fn unfit(error: &dyn Error) -> ApiError {
    ApiError::new(
        ErrorKind::BadInput,
        format!("the rows cannot be encrypted: {}", chain(error)),
    )
    .safe("nothing was published")
    .next("write the file again with column types that sovm table create takes")
}

fn too_many(limit: u64) -> ApiError {
    ApiError::new(
        ErrorKind::BadInput,
        format!(
            "the rows of this file come to more than {}, which is the longest object there is",
            format_bytes(limit)
        ),
    )
    .safe("nothing of this file was published")
    .next("divide it and go on: sovm edition build PRODUCT --resume --table DATAFLOW=PART --table DATAFLOW=PART")
}

/// Encrypts the rows, and opens the object once more before anybody is told of it.
fn encrypt(parquet: impl ChunkReader + 'static, limit: u64) -> Result<(Sealed, Dek), ApiError> {
    let unencoded = |error: EncodeError| match error {
        EncodeError::TooLarge { limit } => too_many(limit),
        error => unfit(&error),
    };
    // As the fingerprint reads it: an Arrow schema left in the file isn't looked at.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let reader =
        ParquetRecordBatchReaderBuilder::try_new_with_options(parquet, options).map_err(|error| unfit(&error))?;
    let columns = columns_of_schema(reader.schema()).map_err(|error| unfit(&error))?;
    let schema = Arc::new(schema_of_columns(&columns).map_err(|error| unfit(&error))?);
    let options = EncodeOptions {
        max_object_len: limit,
        ..EncodeOptions::default()
    };
    let mut encoder = Encoder::new(schema.clone(), options).map_err(unencoded)?;
    let mut rows = 0;
    for batch in reader
        .with_batch_size(BATCH_ROWS)
        .build()
        .map_err(|error| unfit(&error))?
    {
        let batch = batch.map_err(|error| unfit(&error))?;
        rows += batch.num_rows() as u64;
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns
            .map(|(column, field)| arrow::compute::cast(column, field.data_type()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unfit(&error))?;
        let batch = RecordBatch::try_new(schema.clone(), columns).map_err(|error| unfit(&error))?;
        encoder.write(&batch).map_err(unencoded)?;
    }
    let dek = Dek::generate();
    let sealed = encoder
        .finish()
        .map_err(unencoded)?
        .encrypt(&dek, &mut RandomNonces::default())
        .map_err(ApiError::bug)?
        .with_key_ref(KeyRef::generate())
        .pad()
        .map_err(|error| match error {
            PadError::TooLarge { .. } => too_many(MAX_OBJECT_LEN),
            error => ApiError::bug(error),
        })?
        .seal()
        .map_err(ApiError::bug)?;
    let object = MemoryObject::verify(sealed.storage_id, sealed.bytes.clone()).map_err(ApiError::bug)?;
    let footer = Footer::open_whole(&object, &dek).map_err(ApiError::bug)?;
    let written: u64 = (0..footer.row_groups()).map(|group| footer.claimed_rows(group)).sum();
    if written != rows || sealed.row_count != rows {
        return Err(ApiError::bug(format_args!("{written} rows were written of {rows}")));
    }
    Ok((sealed, dek))
}

#[cfg(test)]
mod tests {
    use std::{
        io::Cursor,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use arrow::array::{ArrayRef, Int64Array};
    use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};

    use super::*;

    /// Numbers that do not compress, in many pages.
    fn file(rows: i64) -> Bytes {
        let mixed = |n: i64| n.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(17).wrapping_mul(31);
        let column: ArrayRef = Arc::new((0..rows).map(mixed).collect::<Int64Array>());
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_data_page_row_count_limit(1_000)
            .set_write_batch_size(1_000)
            .build();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        bytes.into()
    }

    /// Notes the longest part of the file that is taken at once.
    struct Watched(Spooled, Arc<AtomicUsize>);

    impl Length for Watched {
        fn len(&self) -> u64 {
            self.0.len()
        }
    }

    impl ChunkReader for Watched {
        type T = SpoolReader;

        fn get_read(&self, start: u64) -> ParquetResult<SpoolReader> {
            self.0.get_read(start)
        }

        fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
            self.1.fetch_max(length, Ordering::Relaxed);
            self.0.get_bytes(start, length)
        }
    }

    fn spooled(bytes: &Bytes) -> Spooled {
        let dir = tempfile::tempdir().unwrap();
        Spooled(Arc::new(Spool::fill(dir.path(), &mut &bytes[..]).unwrap()))
    }

    /// The file is read page by page, and what was put aside has no name: it is gone with the process.
    #[test]
    fn a_file_is_never_in_memory_as_a_whole() {
        let bytes = file(100_000);
        let most = Arc::new(AtomicUsize::new(0));
        let (sealed, dek) = encrypt(Watched(spooled(&bytes), most.clone()), MAX_OBJECT_LEN).unwrap();
        assert_eq!(sealed.row_count, 100_000);
        let taken = most.load(Ordering::Relaxed);
        assert!(taken > 0 && taken < bytes.len() / 20, "{taken} of {}", bytes.len());
        let object = MemoryObject::verify(sealed.storage_id, sealed.bytes).unwrap();
        assert!(Footer::open_whole(&object, &dek).is_ok());

        let dir = tempfile::tempdir().unwrap();
        let (again, _) = seal_rows(&mut Cursor::new(bytes), dir.path()).unwrap();
        assert_eq!(again.row_count, 100_000);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// SOP-376: what would be too long for an object is refused while it grows, with the way out of it.
    #[test]
    fn a_file_of_too_many_rows_is_refused() {
        let bytes = file(100_000);
        let error = encrypt(spooled(&bytes), 10_000).map(drop).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadInput);
        assert!(error.message.contains("9.8 KiB"), "{error}");
        assert!(error.next.is_some_and(|next| next.contains("--resume")));
    }

    #[test]
    fn what_is_no_parquet_file_is_refused() {
        let whole = file(10);
        for bytes in [
            Bytes::new(),
            Bytes::from_static(b"no parquet"),
            whole.slice(..whole.len() - 1),
        ] {
            let error = encrypt(spooled(&bytes), MAX_OBJECT_LEN).map(drop).unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadInput, "{error}");
        }
    }
}
