//! Lengths inside Arrow IPC, held against the file before its reader believes them.
//!
//! That reader makes room for whatever length a file names, and a process that cannot have the room is ended, which no guard
//! catches. So footer, message headers and the sizes of compressed buffers are looked at first; no row is.

use std::io::{self, Read as _, Seek as _, SeekFrom};

use arrow::ipc::{Message, MessageHeader, RecordBatch, root_as_footer, root_as_message};

use super::input::{RandomAccess, RandomReader};

/// Bytes one buffer may have when it is unpacked: as many as its 32-bit offsets reach.
const MAX_BUFFER_BYTES: i64 = 1 << 31;
/// Magic and length at the end of a file.
const TRAILER_BYTES: u64 = 10;

/// Refuses a file whose lengths lead out of it.
pub(super) fn check_file(bytes: &RandomAccess) -> Result<(), Problem> {
    let mut walk = Walk::over(bytes);
    let end = walk.len.checked_sub(TRAILER_BYTES).ok_or(Problem::Length)?;
    let trailer = walk.read(end, TRAILER_BYTES)?;
    let footer_len = u64::try_from(walk.int(&trailer)?).map_err(|_| Problem::Length)?;
    let footer = walk.read(end.checked_sub(footer_len).ok_or(Problem::Length)?, footer_len)?;
    let footer = root_as_footer(&footer).map_err(|_| Problem::Header)?;
    for block in [footer.dictionaries(), footer.recordBatches()]
        .into_iter()
        .flatten()
        .flatten()
    {
        let lengths = [block.offset(), block.metaDataLength().into(), block.bodyLength()];
        let [offset, header, body] = lengths.map(|length| u64::try_from(length).map_err(|_| Problem::Length));
        let (offset, header, body) = (offset?, header?, body?);
        let bytes = walk.read(offset, header)?;
        let prefix = if bytes.starts_with(&CONTINUATION) { 8 } else { 4 };
        let message = bytes.get(prefix..).ok_or(Problem::Header)?;
        let message = root_as_message(message).map_err(|_| Problem::Header)?;
        walk.body(offset + header, body, &message)?;
    }
    Ok(())
}

/// The same for a stream of messages.
pub(super) fn check_stream(bytes: &RandomAccess) -> Result<(), Problem> {
    let mut walk = Walk::over(bytes);
    let mut at = 0;
    while at < walk.len {
        let mut word = walk.read(at, 4)?;
        at += 4;
        if word == CONTINUATION {
            word = walk.read(at, 4)?;
            at += 4;
        }
        let header = u64::try_from(walk.int(&word)?).map_err(|_| Problem::Length)?;
        if header == 0 {
            break;
        }
        let bytes = walk.read(at, header)?;
        let message = root_as_message(&bytes).map_err(|_| Problem::Header)?;
        let body = u64::try_from(message.bodyLength()).map_err(|_| Problem::Length)?;
        walk.body(at + header, body, &message)?;
        at += header + body;
    }
    Ok(())
}

/// What stands before a message's length since format 0.15.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Why a file is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("a length in it leads out of it: it is damaged or was cut off")]
    Length,
    #[error("a header in it cannot be read")]
    Header,
    #[error("it cannot be read")]
    Io(#[from] io::Error),
}

struct Walk {
    reader: RandomReader,
    len: u64,
}

impl Walk {
    fn over(bytes: &RandomAccess) -> Self {
        Self {
            reader: bytes.uncounted(),
            len: bytes.len(),
        }
    }

    fn read(&mut self, at: u64, length: u64) -> Result<Vec<u8>, Problem> {
        self.inside(at, length)?;
        self.reader.seek(SeekFrom::Start(at))?;
        let mut bytes = vec![0; length as usize];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn inside(&self, at: u64, length: u64) -> Result<(), Problem> {
        match at.checked_add(length) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(Problem::Length),
        }
    }

    fn int(&self, bytes: &[u8]) -> Result<i32, Problem> {
        let four = bytes.first_chunk().ok_or(Problem::Length)?;
        Ok(i32::from_le_bytes(*four))
    }

    /// Looks at the body of a message without reading more of it than the sizes of its buffers.
    fn body(&mut self, at: u64, length: u64, message: &Message<'_>) -> Result<(), Problem> {
        self.inside(at, length)?;
        let rows = match message.header_type() {
            MessageHeader::RecordBatch => message.header_as_record_batch(),
            MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|batch| batch.data()),
            _ => None,
        };
        rows.map_or(Ok(()), |rows| self.buffers(at, length, &rows))
    }

    fn buffers(&mut self, body: u64, length: u64, rows: &RecordBatch<'_>) -> Result<(), Problem> {
        let compressed = rows.compression().is_some();
        for buffer in rows.buffers().into_iter().flatten() {
            let [offset, size] = [buffer.offset(), buffer.length()].map(u64::try_from);
            let (offset, size) = (offset.map_err(|_| Problem::Length)?, size.map_err(|_| Problem::Length)?);
            if offset.checked_add(size).is_none_or(|end| end > length) {
                return Err(Problem::Length);
            }
            // A compressed buffer begins with its size when unpacked.
            if compressed && size >= 8 {
                let unpacked = self.read(body + offset, 8)?;
                let unpacked = unpacked.first_chunk().map_or(0, |eight| i64::from_le_bytes(*eight));
                if unpacked > MAX_BUFFER_BYTES {
                    return Err(Problem::Length);
                }
            }
        }
        Ok(())
    }
}
